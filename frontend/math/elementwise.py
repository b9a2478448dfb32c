"""Elementwise functions: arithmetic, powers, exponentials, trigonometry, rounding, choosing."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.casting.operators import as_one, operator
from polyreme.casting.state import CAST, current
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op, Value
from polyreme.ir.types import f16, f64, i1, i32
from polyreme.math.common import (
    cast_to,
    fitting_sizes,
    floating,
    no_integers,
    number_dtype,
    number_like,
    number_of,
    promote,
    promote_widest,
    promoted,
    scalar_dtype,
    select,
    tensor_arg,
    widest,
)
from polyreme.provided import provided, provides
from polyreme.tensor import Tensor

__all__ = [
    "abs", "acos", "acosh", "add", "add_n", "addmm", "asin", "asinh", "atan", "atan2", "atanh", "cast", "ceil", "clip", "cos", "cosh",
    "divide", "erf", "exp", "expm1",
    "floor", "floor_divide", "floor_mod", "frac", "isfinite", "isinf", "isnan", "lerp", "log", "log10", "log1p", "log2", "logit", "maximum",
    "minimum",
    "mod", "multiply", "neg", "pow", "reciprocal", "remainder", "round", "rsqrt", "scale", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "square",
    "stanh", "subtract", "tan", "tanh", "trunc", "where", "where_",
]  # fmt: skip
METHODS = list(__all__)

# Functions of complex numbers by name: `complex_functions`, which is built on this file, puts them in.
OF_COMPLEX: dict[str, Callable[..., Tensor]] = {}


def _unary(name: str, cls: type[Op], doc: str, kinds: str = "float") -> Callable[..., Tensor]:
    """A function of one tensor. `kinds`: "float" takes integers too, as the default float; "any" keeps integers; "keep" leaves them
    unchanged.
    """

    def function(x: Tensor, name: str | None = None) -> Tensor:
        done = _of_complex(function.__name__, tensor_arg(x, function.__name__))
        if done is not None:
            return done
        if kinds == "float":
            x = floating(x)
        elif kinds == "keep" and x.type.dtype.kind in "iu":
            return dispatch.call(ops.Reshape, x, shape=x.type.shape)
        return dispatch.call(cls, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _of_complex(name: str, x: Tensor) -> Tensor | None:
    """The function of that name of complex numbers, by their parts; None for others, and where an op takes complex numbers as they are."""
    if x.type.dtype.kind != "c":
        return None
    function = OF_COMPLEX.get(name)
    return None if function is None else function(x)


acos = _unary("acos", ops.Acos, "Arc cosine.")
asin = _unary("asin", ops.Asin, "Arc sine.")
atan = _unary("atan", ops.Atan, "Arc tangent.")
ceil = _unary("ceil", ops.Ceil, "The smallest whole number not below x.", "keep")
cos = _unary("cos", ops.Cos, "Cosine.")
cosh = _unary("cosh", ops.Cosh, "Hyperbolic cosine.")
erf = _unary("erf", ops.Erf, "The error function.")
exp = _unary("exp", ops.Exp, "e to the power x.")
expm1 = _unary("expm1", ops.Expm1, "exp(x) - 1, exact near 0.")
floor = _unary("floor", ops.Floor, "The largest whole number not above x.", "keep")
log = _unary("log", ops.Log, "Natural logarithm.")
log1p = _unary("log1p", ops.Log1p, "log(1 + x), exact near 0.")
log2 = _unary("log2", ops.Log2, "Logarithm to base 2.")
log10 = _unary("log10", ops.Log10, "Logarithm to base 10.")
neg = _unary("neg", ops.Neg, "-x.", "any")
reciprocal = _unary("reciprocal", ops.Reciprocal, "1 / x.")
rsqrt = _unary("rsqrt", ops.Rsqrt, "1 / sqrt(x).")
sigmoid = _unary("sigmoid", ops.Sigmoid, "1 / (1 + exp(-x)).")
sign = _unary("sign", ops.Sign, "-1, 0 or 1.", "any")
sin = _unary("sin", ops.Sin, "Sine.")
sinh = _unary("sinh", ops.Sinh, "Hyperbolic sine.")
sqrt = _unary("sqrt", ops.Sqrt, "Square root.")
square = _unary("square", ops.Square, "x * x.", "any")
tan = _unary("tan", ops.Tan, "Tangent.")
tanh = _unary("tanh", ops.Tanh, "Hyperbolic tangent.")
trunc = _unary("trunc", ops.Trunc, "x without its fraction.", "keep")


def abs(x: Tensor, name: str | None = None) -> Tensor:
    """|x|; for complex numbers their distance from 0."""
    if tensor_arg(x, "abs").type.dtype.kind != "c":
        return dispatch.call(ops.Abs, x)
    return OF_COMPLEX["length"](dispatch.call(ops.Real, x), dispatch.call(ops.Imag, x))


def round(x: Tensor, decimals: int = 0, name: str | None = None) -> Tensor:
    """The nearest whole number (or number of `decimals` digits), halves to even."""
    tensor_arg(x, "round")
    if x.type.dtype.kind in "iu":
        return dispatch.call(ops.Reshape, x, shape=x.type.shape)
    if decimals:
        factor = float(10**decimals)
        return scale(round(scale(x, factor)), 1 / factor)
    return dispatch.call(ops.Round, x)


@operator("asinh")
def asinh(x: Tensor, name: str | None = None) -> Tensor:
    """Inverse hyperbolic sine."""
    done = _of_complex("asinh", tensor_arg(x, "asinh"))
    if done is not None:
        return done
    x = floating(x)
    zero, far = dispatch.full((), 0, x.type.dtype), _far(x)
    # Odd by the sign put back, with the derivative 1 at 0.
    negative = dispatch.call(ops.Less, x, zero)
    magnitude = where(negative, neg(x), x)
    # log1p(a + a^2 / (1 + sqrt(a^2 + 1))) is exact near 0.
    near = minimum(magnitude, far)
    squared = square(near)
    close = log1p(add(near, divide(squared, _shift(sqrt(_shift(squared, 1.0)), 1.0))))
    made = where(dispatch.call(ops.Greater, magnitude, far), _log_of_twice(maximum(magnitude, far)), close)
    return where(negative, neg(made), made)


def _far(x: Tensor) -> Tensor:
    """From where on 1 is nothing beside the square, which is still finite."""
    return dispatch.full((), 200 if x.type.dtype == f16 else 1e9, x.type.dtype)


def _log_of_twice(x: Tensor) -> Tensor:
    return _shift(log(x), math.log(2))


@operator("acosh")
def acosh(x: Tensor, name: str | None = None) -> Tensor:
    """Inverse hyperbolic cosine."""
    done = _of_complex("acosh", tensor_arg(x, "acosh"))
    if done is not None:
        return done
    x = floating(x)
    far = _far(x)
    # log1p(t + sqrt(t^2 + 2 t)) of x = 1 + t is exact near 1.
    near = _shift(minimum(x, far), -1.0)
    close = log1p(add(near, multiply(sqrt(near), sqrt(_shift(near, 2.0)))))
    return where(dispatch.call(ops.Greater, x, far), _log_of_twice(maximum(x, far)), close)


@operator("atanh")
def atanh(x: Tensor, name: str | None = None) -> Tensor:
    """Inverse hyperbolic tangent."""
    done = _of_complex("atanh", tensor_arg(x, "atanh"))
    if done is not None:
        return done
    x = floating(x)
    return scale(subtract(log1p(x), log1p(neg(x))), 0.5)


def _shift(x: Tensor, by: float) -> Tensor:
    return dispatch.call(ops.Add, x, dispatch.full((), by, x.type.dtype))


@operator("logit")
def logit(x: Tensor, eps: float | None = None, name: str | None = None) -> Tensor:
    """log(x / (1 - x)), with `x` first held within [eps, 1 - eps] when eps is given."""
    x = floating(tensor_arg(x, "logit"))
    if eps:
        x = clip(x, eps, 1 - eps)
    else:
        # Outside of [0, 1] not only the value is nan: what is multiplied by nan has nan as its gradient, too.
        outside = dispatch.call(
            ops.LogicalOr, *(dispatch.call(ops.Less, *pair) for pair in ((x, number_like(x, 0)), (number_like(x, 1), x)))
        )
        x = multiply(x, select(outside, number_like(x, math.nan), number_like(x, 1)))
    return subtract(log(x), log(_shift(neg(x), 1.0)))


def frac(x: Tensor, name: str | None = None) -> Tensor:
    """What `trunc` takes away."""
    return subtract(x, trunc(x))


@operator("stanh")
def stanh(x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Tensor:
    """scale_b * tanh(scale_a * x)."""
    # Paddle keeps both numbers in float32, and float64 tensors show it.
    return scale(tanh(scale(floating(tensor_arg(x, "stanh")), float(np.float32(scale_a)))), float(np.float32(scale_b)))


def isnan(x: Tensor, name: str | None = None) -> Tensor:
    """Whether each element is nan."""
    return _classify(ops.IsNan, x, False)


def isinf(x: Tensor, name: str | None = None) -> Tensor:
    """Whether each element is infinite."""
    return _classify(ops.IsInf, x, False)


def isfinite(x: Tensor, name: str | None = None) -> Tensor:
    """Whether each element is neither infinite nor nan."""
    return _classify(ops.IsFinite, x, True)


def _classify(cls: type[Op], x: Tensor, whole: bool) -> Tensor:
    if tensor_arg(x, cls.__name__.lower()).type.dtype.kind == "c":
        real, imaginary = (_classify(cls, dispatch.call(part, x), whole) for part in (ops.Real, ops.Imag))
        return dispatch.call(ops.LogicalAnd if whole else ops.LogicalOr, real, imaginary)
    return dispatch.full(x.type.shape, whole, i1) if x.type.dtype.kind in "iub" else dispatch.call(cls, x)


def cast(x: Tensor, dtype: Any) -> Tensor:
    """The same numbers in another dtype."""
    from polyreme.dtypes import as_dtype

    return dispatch.call(ops.Cast, tensor_arg(x, "cast"), dtype=as_dtype(dtype).scalar)


# --- two operands


def _binary(
    name: str, cls: type[Op], doc: str, for_bool: type[Op] | None = None, meet: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = promote
) -> Callable[..., Tensor]:
    def function(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        done = dispatch.planned_pair(cls, x, y)
        if done is not None:
            return done
        tensor_arg(x, function.__name__, "x")
        tensor_arg(y, function.__name__, "y")
        x, y = meet(x, y)
        if for_bool is not None and x.type.dtype == i1:
            return dispatch.call(for_bool, x, y)
        return dispatch.call(cls, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


_add = _binary("add", ops.Add, "x + y; logical or for bools.", ops.LogicalOr)
_subtract = _binary("subtract", ops.Sub, "x - y.")


@provides
def add(x: Tensor, y: Tensor, name: str | None = None, *, alpha: Any = 1) -> Tensor:
    """x + alpha * y; logical or for bools."""
    return _add(x, y if alpha == 1 else scale(y, alpha))


def subtract(x: Tensor, y: Tensor, name: str | None = None, *, alpha: Any = 1) -> Tensor:
    """x - alpha * y."""
    return _subtract(x, y if alpha == 1 else scale(y, alpha))


multiply = _binary("multiply", ops.Mul, "x * y; logical and for bools.", ops.LogicalAnd)
maximum = _binary("maximum", ops.Maximum, "The larger one of x and y; nan when either is nan.", meet=promote_widest)
minimum = _binary("minimum", ops.Minimum, "The smaller one of x and y; nan when either is nan.", meet=promote_widest)
remainder = _binary("remainder", ops.Mod, "x - floor(x / y) * y, with the sign of y.")
mod = floor_mod = remainder
_floor_divide = _binary("floor_divide", ops.FloorDivide, "floor(x / y).")


def floor_divide(x: Tensor, y: Any, name: str | None = None) -> Tensor:
    """floor(x / y). A number `y` is what `to_tensor` makes of it. A tensor without axes has its own dtype here, so that the wider one of a
    kind wins. Division of integers by zero is an error.
    """
    tensor_arg(x, "floor_divide", "x")
    if isinstance(y, (int, float, np.generic)):
        y = dispatch.full((), y, number_dtype(y))
    a, b = x.type.dtype, tensor_arg(y, "floor_divide", "y").type.dtype
    if a != b and (not x.ndim or not y.ndim):
        wider = promoted(a, b, 0, 0) if a.kind in "iu" and b.kind in "iu" else widest(a, b, x.ndim, y.ndim)
        x, y = cast_to(x, wider), cast_to(y, wider)
    return _floor_divide(x, _not_zero(y) if y.type.dtype.kind in "iu" else y)


def _not_zero(y: Tensor) -> Tensor:
    """Whole numbers to divide by. Those of a compiled call are looked at once it has run, unless they are known."""
    recorder = dispatch.recorder()
    if dispatch.active_trace() is None:
        if not y._array("an integer division").all():
            raise divided_by_zero()
    elif recorder is not None and recorder.taped:
        value: Any = y._value
        while (op := value.producer() if isinstance(value, Value) else None) is not None and isinstance(op, (ops.Cast, ops.BroadcastTo)):
            value = op.operands[0]
        if isinstance(op, ops.Full) and isinstance(op.value, (int, float)):
            if not op.value:
                raise divided_by_zero()
        elif not isinstance(op, ops.DimValue):
            is_zero = cast_to(dispatch.call(ops.Equal, y, dispatch.full((), 0, y.type.dtype)), i32)
            seen = recorder.check_within(is_zero, 1, divided_by_zero, False)
            return add(y, cast_to(seen, y.type.dtype))
    return y


def divided_by_zero(*_: int) -> ZeroDivisionError:
    """What a division of whole numbers by zero raises."""
    return ZeroDivisionError(
        "InvalidArgumentError: Integer division by zero encountered in (floor/trunc) divide. Please check the input value."
    )


def divide(x: Tensor, y: Tensor, name: str | None = None, *, rounding_mode: str | None = None) -> Tensor:
    """x / y; integers become the default float first. `rounding_mode` "trunc" or "floor" leaves whole numbers, of the dtype of x and y."""
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode == "trunc":
        quotient = trunc(divide(x.detach(), y.detach()))
        return cast_to(quotient, promote(x, y)[0].type.dtype)
    if rounding_mode is not None:
        raise ValueError(f"divide expected rounding_mode None, 'trunc' or 'floor' but got {rounding_mode!r}")
    tensor_arg(x, "divide", "x")
    tensor_arg(y, "divide", "y")
    if x.type.dtype.kind in "iu" and y.type.dtype.kind in "iu" and (not x.ndim or not y.ndim):
        x, y = floating(x), floating(y)
    x, y = promote(x, y)
    return dispatch.call(ops.Div, floating(x), floating(y))


def atan2(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The angle of the point (y, x) from the first axis, in [-pi, pi]; of whole numbers in float64."""
    x, y = promote_widest(tensor_arg(x, "atan2", "x"), tensor_arg(y, "atan2", "y"))
    if x.type.dtype.kind in "iu":
        x, y = cast_to(x, f64), cast_to(y, f64)
    return dispatch.call(ops.Atan2, x, y)


def pow(x: Tensor, y: Any, name: str | None = None) -> Tensor:
    """x to the power y, a number or a tensor."""
    tensor_arg(x, "pow")
    if isinstance(y, Tensor):
        base, exponent = promote(x, y)
    elif not isinstance(y, (int, float)):
        raise TypeError(f"pow(): argument 'y' must be Tensor or a number, but got {type(y).__name__}")
    else:
        return as_one("pow", _to_number, x, y)
    return _power(base, exponent)


def _to_number(x: Tensor, y: float) -> Tensor:
    """A tensor to the power of a number, which is an operator of its own in Paddle."""
    if y == 2:
        return dispatch.call(ops.Square, x)
    return _power(x, dispatch.full((), int(y) if x.type.dtype.kind in "iu" else y, x.type.dtype))


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    if base.type.dtype.kind == "c":
        return OF_COMPLEX["power"](base, exponent)
    return dispatch.call(ops.Pow, base, exponent)


def with_number(function: Callable[[Tensor, Tensor], Tensor], x: Tensor, value: Any, reverse: bool = False) -> Tensor:
    """`function(x, value)` (or reversed) where `value` is a Python number, which takes the dtype the tensor gives it."""
    if function is divide and x.type.dtype.kind in "iu":
        x = floating(x)
    dtype = scalar_dtype(x.type.dtype, value)
    if dtype.kind == "u" and isinstance(value, int) and value < 0:
        value %= 1 << dtype.bits  # wraps around, as in Paddle
    constant = dispatch.full((), value, dtype)
    x = cast_to(x, dtype)
    return function(constant, x) if reverse else function(x, constant)


@operator("scale")
def scale(
    x: Tensor, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None, name: str | None = None
) -> Tensor:
    """scale * x + bias, or scale * (x + bias) with `bias_after_scale=False`; keeps the dtype of x."""
    tensor_arg(x, "scale")
    factor = cast_to(scale, x.type.dtype) if isinstance(scale, Tensor) else dispatch.full((), scale, x.type.dtype)
    shift = dispatch.full((), bias, x.type.dtype)
    if not bias_after_scale:
        return dispatch.call(ops.Mul, dispatch.call(ops.Add, x, shift), factor)
    product = dispatch.call(ops.Mul, x, factor)
    result = product if bias == 0 else dispatch.call(ops.Add, product, shift)
    if act is None:
        return result
    return provided.named_function(act)(result)


@operator("sum")
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of a list of tensors of equal shape."""
    tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not tensors:
        raise ValueError("add_n expected at least one tensor but got none")
    total = tensors[0]
    if len(tensors) == 1:
        return dispatch.call(ops.Reshape, total, shape=total.type.shape)
    for other in tensors[1:]:
        if not fitting_sizes(total.type.shape, other.type.shape):
            raise ValueError(f"add_n expected tensors of equal shape but got {list(total.shape)} and {list(other.shape)}")
        total = add(total, other)
    return total


@operator("addmm")
def addmm(input: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """beta * input + alpha * (x @ y)."""
    product = dispatch.call(ops.MatMul, x, y)
    return add(scale(input, beta), scale(product, alpha))


@operator("lerp")
def lerp(x: Tensor, y: Tensor, weight: Any, name: str | None = None) -> Tensor:
    """x + weight * (y - x). The weight gets no gradient."""
    no_integers(x, "lerp")
    if not isinstance(weight, Tensor):
        weight = dispatch.full((), weight, x.type.dtype)
    return add(x, multiply(weight.detach(), subtract(y, x)))


@operator("clip")
def clip(x: Tensor, min: Any = None, max: Any = None, name: str | None = None) -> Tensor:
    """`x` held between `min` and `max`, either of which may be left out. Whole numbers become floats where a bound is one."""
    low, high = number_of(min), number_of(max)
    # Paddle asks whether a bound is a Python float, and NumPy's float32 is none: it loses its fraction.
    if any(
        isinstance(bound, float) and not (isinstance(given, np.generic) and not isinstance(given, float))
        for given, bound in ((min, low), (max, high))
    ):
        x = floating(tensor_arg(x, "clip"))
    whole = x.type.dtype.kind in "iu"
    below = low is not None and low != -math.inf
    above = high is not None and high != math.inf
    held = tensor_arg(x, "clip")
    # Chosen, not taken as a maximum: at the bounds themselves the gradient passes whole.
    if below:
        bound = dispatch.full((), int(low) if whole else low, x.type.dtype)
        held = dispatch.call(ops.Where, dispatch.call(ops.Less, x, bound), bound, held)
    if above:
        bound = dispatch.full((), int(high) if whole else high, x.type.dtype)
        held = dispatch.call(ops.Where, dispatch.call(ops.Greater, held, bound), bound, held)
    return held if below or above else dispatch.call(ops.Reshape, x, shape=x.type.shape)


def where(condition: Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where the condition holds, else `y`; with the condition alone, the places where it holds, a tensor per axis."""
    tensor_arg(condition, "where", "condition")
    if condition.type.dtype != i1 and x is not None:
        raise ValueError(f"where expected a condition of bools but got {condition.dtype.name}")
    if x is None and y is None:
        return provided.nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    # Each has a dtype and a rank, numbers too. (Where kinds differ Paddle refuses; here a number of a lower kind takes the tensor's dtype.)
    (a, m), (b, n) = ((v.type.dtype, v.ndim) if isinstance(v, Tensor) else (number_dtype(v), 0) for v in (x, y))
    dtype = widest(a, b, m, n)
    x, y = (cast_to(v, dtype) if isinstance(v, Tensor) else dispatch.full((), v, dtype) for v in (x, y))
    return dispatch.call(ops.Where, condition, x, y)


def in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form with a trailing underscore: computes the same, and gives the result to its first argument, which may be given by its name as
    well.
    """
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))

    def changed(*args: Any, **kwargs: Any) -> Tensor:
        if not args and first not in kwargs:
            raise TypeError(f"{changed.__name__}() missing the required argument '{first}'")
        x, args = (args[0], args[1:]) if args else (kwargs.pop(first), ())
        tensor_arg(x, changed.__name__, first)
        # The function works on a tensor that stays what `x` was, so that its own gradient needs nothing that is gone.
        before = dispatch.alias(x)
        refuse_leaf(x)
        result = function(before, *args, **kwargs)
        if (result._type or result.type).shape != x.type.shape and result.type.is_static and result.size != x.size:
            raise ValueError(
                f"The shape of broadcast output {list(result.shape)} is different from that of inplace tensor {x.shape} in the Inplace "
                f"operation."
            )
        if current() is not None and function is not cast and x.type.dtype in CAST:
            result = cast_to(result, x.type.dtype)  # what is changed in place keeps its dtype, whatever was computed in
        return dispatch.assign(x, result)

    return _named_in_place(changed, function)


def in_place_view(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same for functions that give views: the contents stay, and the first argument sees them otherwise from then on."""

    first = next(iter(inspect.signature(function).parameters))

    def changed(*args: Any, **kwargs: Any) -> Tensor:
        if not args and first not in kwargs:
            raise TypeError(f"{changed.__name__}() missing the required argument '{first}'")
        x, args = (args[0], args[1:]) if args else (kwargs.pop(first), ())
        refuse_leaf(tensor_arg(x, changed.__name__, first))
        return dispatch.seen_as(x, function, *args, **kwargs)

    return _named_in_place(changed, function)


def _named_in_place(changed: Callable[..., Tensor], function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    changed.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    changed.__name__ = changed.__qualname__ = function.__name__ + "_"
    changed.__doc__ = f"As `{function.__name__}`, in place of its first argument."
    return changed


def refuse_leaf(x: Tensor) -> None:
    """An error when `x` is a leaf that gradients are wanted for: its old value would be lost to them."""
    recorder = dispatch.active_trace()
    # Of a stand-in for an argument nobody knows whether it is a leaf.
    known = recorder is None or recorder.taped and isinstance(x._value, np.ndarray)
    if known and tape.is_grad_enabled() and not x.stop_gradient and x.is_leaf:
        raise ValueError(f"Leaf Tensor ({x.name}) that doesn't stop gradient can't use inplace strategy.")


def where_(condition: Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """As `where`, in place of `x`."""
    return in_place(lambda held: where(condition, held, y))(tensor_arg(x, "where_"))


IN_PLACE: Sequence[str] = [
    "abs", "acos", "add", "addmm", "asin", "atan", "cast", "ceil", "clip", "cos", "cosh", "divide", "erf", "exp", "expm1", "floor",
    "floor_divide", "floor_mod", "frac", "lerp", "log",
    "log10", "log1p", "log2", "logit", "mod", "multiply", "neg", "pow", "reciprocal", "remainder", "round", "rsqrt", "scale", "sigmoid",
    "sin", "sinh", "sqrt",
    "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip
for _name in IN_PLACE:
    globals()[_name + "_"] = in_place(globals()[_name])
__all__ += [n + "_" for n in IN_PLACE]
METHODS += [n + "_" for n in IN_PLACE]
