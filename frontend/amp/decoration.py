"""Models with parameters in half precision, and optimizers that keep them in float32, too: `decorate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyreme import dtypes
from polyreme.casting.state import HALVES, takes_effect
from polyreme.math.elementwise import cast
from polyreme.nn.layer import Layer
from polyreme.nn.layers import norm
from polyreme.tensor import Tensor

__all__ = ["amp_decorate", "decorate"]

_BATCH_NORMS = (norm.BatchNorm, norm.BatchNorm1D, norm.BatchNorm2D, norm.BatchNorm3D, norm.SyncBatchNorm)
# These keep float32 where float16 is meant; in bfloat16 the range of numbers is that of float32.
_NORMS = (norm.LayerNorm, norm.InstanceNorm1D, norm.InstanceNorm2D, norm.InstanceNorm3D)


def decorate(
    models: Any,
    optimizers: Any = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    save_dtype: str | None = None,
    master_grad: bool = False,
    excluded_layers: Any = None,
) -> Any:
    """Prepare a model (or a list of some) and an optimizer (or a list) for a level of `auto_cast`; they are changed, and returned as given.

    O1 changes nothing. O2 casts the parameters and buffers of the models to `dtype`, but for those of batch norms and, in float16, of layer
    and instance norms. On a CPU nothing is changed, unless the flag `FLAGS_amp_on_cpu` is set.

    Args:
        models: Layers; a `DataParallel` is to be made of the decorated model.
        optimizers: None returns the models alone.
        level: "O1" or "O2".
        dtype: "float16" or "bfloat16".
        master_weight: whether optimizers keep parameters in float32, too, and update these; None is True.
        save_dtype: the dtype that floating tensors have in `state_dict()`, and so in files; None keeps their own.
        master_grad: whether gradients of parameters become float32 before they are clipped and used.
        excluded_layers: Layers, or classes of Layers, or a list of such, that keep float32.
    """
    # Not with the module, which whatever is traced needs: ranks and optimizers are more than all the rest.
    from polyreme.distributed.parallel import DataParallel
    from polyreme.optimizer import Optimizer

    if level not in ("O1", "O2"):
        raise ValueError(f"level should be O1 or O2, O1 represent AMP train mode, O2 represent Pure fp16 train mode, but got {level!r}")
    if dtype not in HALVES:
        raise ValueError(f"dtype only support float16 or bfloat16, but got {dtype!r}")
    if level == "O2" and takes_effect():
        layers = _checked(models, Layer, "models", "a paddle.nn.Layer")
        if any(isinstance(model, DataParallel) for model in layers):
            raise RuntimeError("expected the model that a DataParallel is made of: decorate it first, and wrap it then")
        steps = [] if optimizers is None else _checked(optimizers, Optimizer, "optimizers", "a paddle.optimizer.Optimizer")
        if save_dtype not in (None, "float16", "bfloat16", "float32", "float64"):
            raise ValueError(f"save_dtype can only be float16, bfloat16, float32 or float64, but got {save_dtype!r}")
        _exclude(layers, excluded_layers)
        for model in layers:
            _cast_model(model, dtype)
            for parameter in model.parameters() if master_grad else ():
                parameter.register_hook(_to_float32)
            if save_dtype is not None:
                for layer in model.sublayers(include_self=True):
                    layer.register_state_dict_hook(_SaveIn(save_dtype))
        for optimizer in steps:
            optimizer._multi_precision = master_weight is not False
    return models if optimizers is None else (models, optimizers)


amp_decorate = decorate


def _checked(given: Any, kind: type, what: str, expected: str) -> list[Any]:
    """What is given, one or a list, as a list."""
    listed = given if isinstance(given, (list, tuple)) else [given]
    for one in listed:
        if not isinstance(one, kind):
            raise TypeError(f"expected {what} to be {expected}, or a list of such, but got {type(one).__name__}")
    return list(listed)


def _exclude(models: list[Any], excluded: Any) -> None:
    listed = [] if excluded is None else excluded if isinstance(excluded, (list, tuple)) else [excluded]
    kinds: tuple[type, ...] = ()
    for one in listed:
        if isinstance(one, Layer):
            for layer in one.sublayers(include_self=True):
                layer._cast_to_low_precision = False
        elif isinstance(one, type) and issubclass(one, Layer):
            kinds = (*kinds, one)
        else:
            raise TypeError(f"expected excluded_layers to be Layers, classes of Layers, or a list of such, but got {one!r}")
    for model in models:
        for layer in model.sublayers(include_self=True):
            if isinstance(layer, kinds):
                layer._cast_to_low_precision = False


def _cast_model(model: Any, dtype: str) -> None:
    wanted = dtypes.as_dtype(dtype)
    for layer in model.sublayers(include_self=True):
        kept = not layer._cast_to_low_precision or isinstance(layer, _BATCH_NORMS)
        if not kept and not (dtype == "float16" and isinstance(layer, _NORMS)):
            layer._cast_own(wanted, floating_only=True)


def _to_float32(gradient: Tensor) -> Tensor:
    """The gradient of a parameter as the optimizer is to see it."""
    return cast(gradient, "float32")


class _SaveIn:
    """What a Layer's `state_dict` passes through: its floating tensors in another dtype."""

    def __init__(self, dtype: str):
        self.dtype = dtype

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._saved(value) for name, value in state.items()}

    def _saved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype.name == self.dtype:
            return value
        made = cast(value.detach(), self.dtype)
        made.name = value.name
        return made
