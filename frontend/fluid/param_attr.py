"""`fluid.ParamAttr` and `WeightNormParamAttr`: what a user may say about a parameter."""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.fluid import initializer as init
from polyreme.names import listed
from polyreme.nn import attributes
from polyreme.nn.clip import ClipGradBase
from polyreme.nn.initializer import Initializer
from polyreme.regularizer import WeightDecayRegularizer

__all__ = ["ParamAttr", "WeightNormParamAttr"]


class ParamAttr(attributes.ParamAttr):
    """Name, initializer, factor of the learning rate, regularizer, clip of the gradient and averaging of a parameter.

    The rate of a parameter is the global one times `learning_rate` times what a schedule gives. A bool in the place of `gradient_clip` is
    `do_model_average`, which stands there in the last versions of fluid; `None` for it averages, where `ModelAverage` is asked for.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        gradient_clip: Any = None,
        do_model_average: bool | None = True,
    ):
        if isinstance(gradient_clip, bool):
            gradient_clip, do_model_average = None, gradient_clip
        if not isinstance(learning_rate, (int, float)) or isinstance(learning_rate, bool):
            raise TypeError(f"expected a number as the learning_rate of a ParamAttr but got {type(learning_rate).__name__}")
        if not isinstance(trainable, bool):
            raise TypeError(f"expected a bool as trainable of a ParamAttr but got {trainable!r}")
        super().__init__(name, initializer, learning_rate, regularizer, trainable, gradient_clip=gradient_clip)
        self.do_model_average = do_model_average  # type: ignore[assignment]

    def set_default_param_initializer(self) -> None:
        """Xavier, if there is no initializer yet."""
        self.set_default_initializer(init.Xavier())

    def set_default_bias_initializer(self) -> None:
        """Zeros, if there is no initializer yet."""
        self.set_default_initializer(init.Constant(0.0))

    _set_default_param_initializer = set_default_param_initializer
    _set_default_bias_initializer = set_default_bias_initializer

    @staticmethod
    def to_attr(arg: Any) -> Any:
        """A ParamAttr from what may stand for one: None or True (defaults), a name, an initializer, a regularizer, a clip of gradients, a
        rate; False (no parameter) stays False, and lists are taken item by item. Anything else is a `TypeError`.
        """
        if arg is None or arg is True:
            return ParamAttr()
        if arg is False or isinstance(arg, attributes.ParamAttr):
            return arg
        if isinstance(arg, (list, tuple)):
            return [ParamAttr.to_attr(a) for a in arg]
        for kind, field in (
            (str, "name"), (Initializer, "initializer"), (WeightDecayRegularizer, "regularizer"),
            (ClipGradBase, "gradient_clip"), (float, "learning_rate"),
        ):  # fmt: skip
            if isinstance(arg, kind):
                made = ParamAttr()
                setattr(made, field, arg)
                return made
        raise TypeError(f"{type(arg)} cast to ParamAttr")

    _to_attr = to_attr


class WeightNormParamAttr(ParamAttr):
    """A parameter that is `g * v / |v|`, of which `g` and `v` are trained: one length for all of `v`, or one per index of axis `dim`.

    Salimans and Kingma, "Weight normalization".
    """

    params_with_weight_norm: ClassVar[list[Any]] = []

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = False,
        gradient_clip: Any = None,
    ):
        super().__init__(name, initializer, learning_rate, regularizer, trainable, gradient_clip, do_model_average)
        self.dim = dim


__dir__ = listed(__name__)
