"""What the functions of `static.nn` share: names of layers, their parameters, activations by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme import math as functions
from polyreme.dtypes import as_dtype
from polyreme.ir.dims import product
from polyreme.nn import functional as F
from polyreme.nn.attributes import ParamAttr, make_parameter
from polyreme.static.nn.weight_norm import WeightNormParamAttr, weight_of
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["activated", "constant_parameter", "known_size", "layer_name", "parameter"]


def activated(x: Tensor, name: str | None) -> Tensor:
    """`x` through the activation function of this name; None is none."""
    if name is None:
        return x
    function: Callable[..., Any] | None = getattr(F, name, None) or getattr(functions, name, None)
    if function is None:
        raise ValueError(f"expected the name of an activation but got '{name}'")
    result: Tensor = function(x)
    return result


def layer_name(kind: str, name: str | None) -> str:
    """`fc_0`, and `fc_1` for the next one; a name that is given is taken as it is."""
    return unique_name.generate(kind) if name is None else name


def parameter(layer: str, suffix: str, shape: Sequence[Any], attr: Any, dtype: Any, default: Any = None) -> Any:
    """A parameter `LAYER.w_0`, or `LAYER.b_0` for the suffix "b", which is filled as a bias; None where `attr` is False.

    A `WeightNormParamAttr` makes two parameters, and gives the weight that is computed from them.
    """
    kind = as_dtype(dtype)
    if not kind.scalar.is_float:
        raise TypeError(f"expected an input of floats for the parameters of '{layer}' but got {kind.name}; cast it to float32 first")
    name = unique_name.generate(f"{layer}.{suffix}")
    if isinstance(attr, WeightNormParamAttr):
        return weight_of(attr, shape, dtype, default, name)
    return make_parameter(shape, attr, dtype, suffix == "b", default, name)


def constant_parameter(layer: str, suffix: str, shape: Sequence[Any], dtype: Any, initializer: Any, name: str | None = None) -> Any:
    """A parameter that no optimizer moves, such as a running statistic."""
    attr = ParamAttr(name=name, initializer=initializer, trainable=False)
    return make_parameter(shape, attr, dtype, False, None, unique_name.generate(f"{layer}.{suffix}"))


def known_size(x: Tensor, axes: slice | int, function: str, what: str) -> int:
    """How many elements the axes have, which must not be free."""
    sizes = x.type.shape[axes] if isinstance(axes, slice) else (x.type.shape[axes],)
    size = product(sizes)
    if not isinstance(size, int):
        raise ValueError(f"{function} expected a known {what} but the input has shape {list(x.shape)}")
    return size
