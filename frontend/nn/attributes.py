"""ParamAttr: what a user may say about a parameter; and the one place where parameters are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme import dispatch
from polyreme.dtypes import as_dtype, default_dtype
from polyreme.math.common import shape_of
from polyreme.nn import initializer as init
from polyreme.nn.clip import ClipGradBase
from polyreme.parameter import Parameter
from polyreme.regularizer import WeightDecayRegularizer
from polyreme.utils import unique_name
from polyreme.utils.shown import Shown

__all__ = ["ParamAttr", "create_parameter"]


class ParamAttr(Shown):
    """Name, initializer, learning rate factor, regularizer, clipping and averaging of a parameter; fields left out mean the default."""

    def __init__(
        self,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
        gradient_clip: Any = None,
    ):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"expected 'name' to be str but got {name!r}")
        if name == "":
            raise ValueError("name of ParamAttr can not be empty str")
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip
        self.gradient_clip = gradient_clip

    def set_default_initializer(self, initializer: Any) -> None:
        """Use `initializer` if there is none yet."""
        if self.initializer is None:
            self.initializer = initializer

    def set_default_param_initializer(self) -> None:
        self.set_default_initializer(init.XavierUniform())

    def set_default_bias_initializer(self) -> None:
        self.set_default_initializer(init.Constant(0.0))

    _set_default_initializer = set_default_initializer
    _set_default_param_initializer = set_default_param_initializer
    _set_default_bias_initializer = set_default_bias_initializer

    @staticmethod
    def to_attr(arg: Any) -> Any:
        """A ParamAttr from what may stand for one: None or True (defaults), a name, an initializer, a regularizer, a gradient clip; False
        (no parameter) stays False, and lists are taken item by item."""
        if arg is None or arg is True:
            return ParamAttr()
        if arg is False or isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, (list, tuple)):
            return [ParamAttr.to_attr(a) for a in arg]
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, init.Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        if isinstance(arg, ClipGradBase):
            return ParamAttr(gradient_clip=arg)
        if isinstance(arg, float):
            return ParamAttr(learning_rate=arg)
        raise TypeError(f"{type(arg)} cast to ParamAttr")

    _to_attr = to_attr

    def to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        """The fields as keyword arguments of a parameter; the rate is under `optimize_attr`."""
        kwargs = {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "do_model_average": self.do_model_average,
            "need_clip": self.need_clip,
            "gradient_clip_attr": self.gradient_clip,
        }
        return kwargs | {"initializer": self.initializer} if with_initializer else kwargs

    _to_kwargs = to_kwargs


def make_parameter(shape: Sequence[int], attr: Any, dtype: Any, is_bias: bool, default_initializer: Any, name: str) -> Parameter | None:
    """A new parameter, or None when `attr` is False. The initializer of `attr` wins over the default, that over the global one, that over
    Paddle's.
    """
    chosen = ParamAttr.to_attr(attr)
    if chosen is False:
        return None
    sizes = shape_of(shape)
    kind = as_dtype(dtype) if dtype is not None else default_dtype()
    initializer = (
        chosen.initializer
        or default_initializer
        or init.global_initializer(is_bias)
        or (init.Constant(0.0) if is_bias else init.XavierUniform())
    )
    name = chosen.name or name
    recorder = dispatch.active_trace()
    parameter = recorder.create_parameter(name, tuple(int(d) for d in sizes), kind.scalar, initializer) if recorder is not None else None
    if parameter is None:
        values = init.initial(initializer, [int(d) for d in sizes], kind)
        parameter = Parameter.__new__(Parameter)
        parameter._reset(values._value, values._type)
        parameter._name = name
    parameter.persistable = True
    parameter.stop_gradient = not chosen.trainable
    parameter.optimize_attr = {"learning_rate": chosen.learning_rate}
    parameter.regularizer = chosen.regularizer
    parameter.need_clip = chosen.need_clip
    parameter.do_model_average = chosen.do_model_average
    parameter.is_distributed = False
    made: Parameter = parameter
    return made


def create_parameter(
    shape: Sequence[int],
    dtype: Any = None,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter | None:
    """A parameter that belongs to no layer; see `nn.Layer.create_parameter`."""
    return make_parameter(shape, attr, dtype, is_bias, default_initializer, name or unique_name.generate("create_parameter"))
