"""Functions of two tensors, element by element: the axes of `y` stand among those of `x` from `axis` on, or at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.names import listed

__all__ = [
    "elementwise_add", "elementwise_div", "elementwise_floordiv", "elementwise_max", "elementwise_min", "elementwise_mod",
    "elementwise_mul", "elementwise_pow", "elementwise_sub", "equal", "greater_equal", "greater_than", "less_equal", "less_than",
    "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip


def _arithmetic(type: str) -> Callable[..., Any]:
    @takes("x", "y")
    def function(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
        helper = LayerHelper(type, name=name, act=act)
        out = helper.create_variable_for_type_inference(x.dtype)
        helper.append_op(type, {"X": x, "Y": y}, {"Out": out}, {"axis": axis})
        return helper.append_activation(out)

    return _named(function, type)


def _comparison(type: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, cond: Any = None, force_cpu: bool | None = None) -> Any:
        return _bool(type, x, y, cond)

    return _named(function, type)


def _logic(type: str) -> Callable[..., Any]:
    @takes("x", "y")
    def function(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
        return _bool(type, x, y, out)

    return _named(function, type)


def _bool(type: str, x: Any, y: Any, out: Any) -> Any:
    helper = LayerHelper(type)
    made = helper.create_variable_for_type_inference("bool", stop_gradient=True) if out is None else out
    helper.append_op(type, {"X": x, "Y": y}, {"Out": made}, stop_gradient=True)
    return made


def _named(function: Callable[..., Any], type: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = type
    function.__doc__ = f"The operator `{type}` on `x` and `y`."
    return function


elementwise_add, elementwise_sub = _arithmetic("elementwise_add"), _arithmetic("elementwise_sub")
elementwise_mul, elementwise_div = _arithmetic("elementwise_mul"), _arithmetic("elementwise_div")
elementwise_max, elementwise_min = _arithmetic("elementwise_max"), _arithmetic("elementwise_min")
elementwise_pow, elementwise_mod = _arithmetic("elementwise_pow"), _arithmetic("elementwise_mod")
elementwise_floordiv = _arithmetic("elementwise_floordiv")

less_equal = _comparison("less_equal")
greater_than, greater_equal = _comparison("greater_than"), _comparison("greater_equal")
equal, not_equal = _comparison("equal"), _comparison("not_equal")


def less_than(x: Any, y: Any, force_cpu: bool | None = None, cond: Any = None) -> Any:
    """The operator `less_than` on `x` and `y`. Its last arguments stand the other way round than those of its relatives, as in 1.8."""
    return _bool("less_than", x, y, cond)


logical_and, logical_or, logical_xor = _logic("logical_and"), _logic("logical_or"), _logic("logical_xor")


@takes("x")
def logical_not(x: Any, out: Any = None, name: str | None = None) -> Any:
    """True where `x` is not."""
    helper = LayerHelper("logical_not", name=name)
    made = helper.create_variable_for_type_inference("bool", stop_gradient=True) if out is None else out
    helper.append_op("logical_not", {"X": x}, {"Out": made}, stop_gradient=True)
    return made


__dir__ = listed(__name__)
