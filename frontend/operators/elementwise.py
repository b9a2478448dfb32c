"""Element by element: functions, arithmetic, comparisons, logic, casts, choices."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.core import Op
from polyreme.ir.types import ScalarType
from polyreme.math.common import cast_to
from polyreme.operators.arguments import Number, Scalar, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

# --- of one tensor


def _unary(name: str, apply: Callable[[Tensor], Tensor], legacy: str = "", op: type[Op] | None = None) -> None:
    @operator(name, legacy=spelled(legacy or name), nn=op)
    def function(x: Tensor) -> Tensor:
        return apply(x)


_unary("abs", math.abs)
_unary("acos", math.acos)
_unary("acosh", math.acosh)
_unary("angle", math.angle)
_unary("asin", math.asin)
_unary("asinh", math.asinh)
_unary("atan", math.atan)
_unary("atanh", math.atanh)
_unary("bitwise_not", math.bitwise_not)
_unary("ceil", math.ceil)
_unary("cos", math.cos)
_unary("cosh", math.cosh)
_unary("digamma", math.digamma)
_unary("erf", math.erf)
_unary("erfinv", math.erfinv)
_unary("exp", math.exp)
_unary("expm1", math.expm1)
_unary("floor", math.floor)
_unary("lgamma", math.lgamma)
_unary("isfinite", math.isfinite, "isfinite_v2", nn.IsFinite)
_unary("isinf", math.isinf, "isinf_v2", nn.IsInf)
_unary("isnan", math.isnan, "isnan_v2", nn.IsNan)
_unary("log", math.log)
_unary("log10", math.log10)
_unary("log1p", math.log1p)
_unary("log2", math.log2)
_unary("logical_not", math.logical_not)
_unary("reciprocal", math.reciprocal)
_unary("rsqrt", math.rsqrt)
_unary("sign", math.sign)
_unary("sin", math.sin)
_unary("sinh", math.sinh)
_unary("sqrt", math.sqrt)
_unary("square", math.square)
_unary("tan", math.tan)


@operator("trunc", legacy=spelled("trunc", {"X": "input"}))
def trunc(input: Tensor) -> Tensor:
    return math.trunc(input)


@operator("round", legacy=spelled("round"))
def round(x: Tensor, *, decimals: int = 0) -> Tensor:
    return math.round(x, decimals)


@operator("scale", legacy=spelled("scale", {"X": "x", "ScaleTensor": "scale"}))
def scale(x: Tensor, scale: Scalar = 1.0, *, bias: Number = 0.0, bias_after_scale: bool = True) -> Tensor:
    """scale * x + bias, or scale * (x + bias)."""
    if isinstance(scale, Tensor):
        scale = math.reshape(cast_to(scale, x.type.dtype), [])
    elif x.type.dtype.is_integer:
        whole = isinstance(scale, float) and not scale.is_integer() or isinstance(bias, float) and not bias.is_integer()
        if whole:
            raise UnsupportedError(f"expected a whole scale and bias for {x.type.dtype} but got {scale} and {bias}")
        scale, bias = int(scale), int(bias)
    return math.scale(x, scale, bias, bias_after_scale)


@operator("pow", legacy=spelled("pow", {"X": "x", "FactorTensor": "y"}, attributes={"factor": "y"}))
def pow(x: Tensor, y: Scalar = 1.0) -> Tensor:
    if isinstance(y, Tensor):
        return math.pow(x, math.reshape(y, []))
    return math.pow(x, y)


@operator("clip", legacy=spelled("clip", {"X": "x", "Min": "min", "Max": "max"}, constant="Min Max"))
def clip(x: Tensor, min: Scalar, max: Scalar) -> Tensor:
    for bound, limit in ((min, math.maximum), (max, math.minimum)):
        if isinstance(bound, Tensor):
            x = limit(x, math.reshape(cast_to(bound, x.type.dtype), []))
        else:
            # Of whole numbers the bounds are, too: it is functions of the API that make floats of them first.
            held = int(bound) if x.type.dtype.is_integer and isinstance(bound, float) and isfinite(bound) else bound
            x = math.clip(x, held, None) if limit is math.maximum else math.clip(x, None, held)
    return x


@operator("clip_by_norm", legacy=spelled("clip_by_norm"))
def clip_by_norm(x: Tensor, *, max_norm: float) -> Tensor:
    """Scaled down to the 2-norm `max_norm` where it has a greater one."""
    norm = math.sqrt(math.sum(math.square(x)))
    limit = dispatch.full((), max_norm, norm.type.dtype)
    return math.multiply(x, math.divide(limit, math.maximum(norm, limit)))


def _of_all(name: str, apply: Callable[[Tensor], Tensor], reduce: Callable[[Tensor], Tensor]) -> None:
    """One of Paddle 1 that says of all elements what its later form says of each."""

    @operator(legacy=spelled(name))
    def function(x: Tensor) -> Tensor:
        return math.reshape(reduce(apply(x)), [1])


_of_all("isfinite", math.isfinite, math.all)
_of_all("isinf", math.isinf, math.any)
_of_all("isnan", math.isnan, math.any)


@operator("increment", legacy=spelled("increment", attributes={"step": "value"}))
def increment(x: Tensor, *, value: Number = 1.0) -> Tensor:
    return math.scale(x, 1, int(value) if x.type.dtype.is_integer else value)


@operator("cast", legacy=spelled("cast", attributes={"out_dtype": "dtype"}))
def cast(x: Tensor, *, dtype: ScalarType | None, in_dtype: ScalarType | None = None) -> Tensor:
    return x if dtype is None else cast_to(x, dtype)


@operator("logit", legacy=spelled("logit", types={"eps": "FLOAT"}))
def logit(x: Tensor, *, eps: float = 1e-6) -> Tensor:
    return math.logit(x, eps)


# --- of two tensors

# As text in older programs.
_TOLERANCES = {"rtol": "STRING", "atol": "STRING"}


def _binary(name: str, apply: Callable[[Tensor, Tensor], Tensor]) -> None:
    @operator(name, legacy=spelled(name, {"X": "x", "Y": "y"}))
    def function(x: Tensor, y: Tensor) -> Tensor:
        return apply(x, y)


def _aligned(name: str, apply: Callable[[Tensor, Tensor], Tensor], legacy: str, op: type[Op] | None = None) -> None:
    """One whose older form has an `axis`: where y's axes stand among x's; -1, at the end, is how everything else broadcasts."""

    @operator(name, legacy=spelled(legacy, {"X": "x", "Y": "y"}), nn=op)
    def function(x: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
        if axis != -1 and y.ndim < x.ndim and axis + y.ndim != x.ndim:
            if not 0 <= axis <= x.ndim - y.ndim:
                raise UnsupportedError(f"expected an axis in [-1, {x.ndim - y.ndim}] but got {axis}")
            y = math.reshape(y, [*y.type.shape, *[1] * (x.ndim - y.ndim - axis)])
        return apply(x, y)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    """Of whole numbers the whole quotient, rounded towards zero: it is functions of the API that make floats of them first."""
    if not (x.type.dtype.is_integer and y.type.dtype.is_integer):
        return math.divide(x, y)
    size = math.floor_divide(math.abs(x), math.abs(y))
    zero = dispatch.full((), 0, x.type.dtype)
    return math.where(math.logical_xor(math.less_than(x, zero), math.less_than(y, zero)), math.neg(size), size)


def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return math.where(math.isnan(x), y, math.where(math.isnan(y), x, math.maximum(x, y)))


def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return math.where(math.isnan(x), y, math.where(math.isnan(y), x, math.minimum(x, y)))


_aligned("add", math.add, "elementwise_add", nn.Add)
_aligned("subtract", math.subtract, "elementwise_sub", nn.Sub)
_aligned("multiply", math.multiply, "elementwise_mul", nn.Mul)
_aligned("divide", _divide, "elementwise_div", nn.Div)
_aligned("floor_divide", math.floor_divide, "elementwise_floordiv", nn.FloorDivide)
_aligned("remainder", math.remainder, "elementwise_mod", nn.Mod)
_aligned("maximum", math.maximum, "elementwise_max", nn.Maximum)
_aligned("minimum", math.minimum, "elementwise_min", nn.Minimum)
_aligned("elementwise_pow", math.pow, "elementwise_pow", nn.Pow)
_aligned("fmax", _fmax, "elementwise_fmax")
_aligned("fmin", _fmin, "elementwise_fmin")
_aligned("equal", math.equal, "equal")
_aligned("not_equal", math.not_equal, "not_equal", nn.NotEqual)
_aligned("less_than", math.less_than, "less_than", nn.Less)
_aligned("less_equal", math.less_equal, "less_equal", nn.LessEqual)
_aligned("greater_than", math.greater_than, "greater_than", nn.Greater)
_aligned("greater_equal", math.greater_equal, "greater_equal", nn.GreaterEqual)
_binary("logical_and", math.logical_and)
_binary("logical_or", math.logical_or)
_binary("logical_xor", math.logical_xor)
_binary("bitwise_and", math.bitwise_and)
_binary("bitwise_or", math.bitwise_or)
_binary("bitwise_xor", math.bitwise_xor)




@operator("heaviside", legacy=spelled("elementwise_heaviside", {"X": "x", "Y": "y"}, off={"axis": -1}))
def heaviside(x: Tensor, y: Tensor) -> Tensor:
    return math.heaviside(x, y)


def _bessel(name: str, apply: Callable[[Tensor], Tensor]) -> None:
    @operator(name, legacy=spelled(name, {"x": "x"}, "out"))
    def function(x: Tensor) -> Tensor:
        return apply(x)


_bessel("i0", math.i0)
_bessel("i0e", math.i0e)
_bessel("i1", math.i1)
_bessel("i1e", math.i1e)


@operator("gammaln", legacy=spelled("gammaln", {"x": "x"}, "out"))
def gammaln(x: Tensor) -> Tensor:
    return math.lgamma(x)


@operator("polygamma", legacy=spelled("polygamma", {"x": "x"}, "out"))
def polygamma(x: Tensor, *, n: int) -> Tensor:
    return math.polygamma(x, n)


@operator("bitwise_left_shift", legacy=spelled("bitwise_left_shift", {"x": "x", "y": "y"}, "out"))
def bitwise_left_shift(x: Tensor, y: Tensor, *, is_arithmetic: bool = True) -> Tensor:
    return math.bitwise_left_shift(x, y, is_arithmetic)


@operator("bitwise_right_shift", legacy=spelled("bitwise_right_shift", {"x": "x", "y": "y"}, "out"))
def bitwise_right_shift(x: Tensor, y: Tensor, *, is_arithmetic: bool = True) -> Tensor:
    return math.bitwise_right_shift(x, y, is_arithmetic)


@operator("equal_all", legacy=spelled("equal_all", {"X": "x", "Y": "y"}), misdeclared=True)
def equal_all(x: Tensor, y: Tensor) -> Tensor:
    return math.equal_all(x, y)


@operator("atan2", legacy=spelled("atan2", {"X1": "x", "X2": "y"}))
def atan2(x: Tensor, y: Tensor) -> Tensor:
    return math.atan2(x, y)


@operator("copysign", legacy=spelled("copysign", {"x": "x", "y": "y"}, "out"), misdeclared=True)
def copysign(x: Tensor, y: Tensor) -> Tensor:
    return math.copysign(x, y)


@operator(
    "isclose",
    legacy=spelled(
        "isclose", {"Input": "x", "Other": "y", "Rtol": "rtol", "Atol": "atol"}, types=_TOLERANCES, constant="Rtol Atol"
    ),
)
def isclose(x: Tensor, y: Tensor, rtol: Number = "1e-5", atol: Number = "1e-8", *, equal_nan: bool = False) -> Tensor:
    return math.isclose(x, y, float(rtol), float(atol), equal_nan)


@operator("allclose")
def allclose(x: Tensor, y: Tensor, rtol: Number = "1e-5", atol: Number = "1e-8", *, equal_nan: bool = False) -> Tensor:
    return math.allclose(x, y, float(rtol), float(atol), equal_nan)


# --- of several tensors


@operator("add_n", legacy=spelled("sum", {"X": "inputs"}))
def add_n(inputs: list[Tensor]) -> Tensor:
    return math.add_n(inputs)


@operator(legacy=spelled("merge_selected_rows"))
def merge_selected_rows(x: Tensor) -> Tensor:
    """Rows that were read several times as one with their sum, which they are here from the start."""
    return math.assign(x)


@operator(legacy=spelled("get_tensor_from_selected_rows"))
def get_tensor_from_selected_rows(x: Tensor) -> Tensor:
    """The rows as a tensor: here the table, in which those that were not read are zeros."""
    return math.assign(x)


@operator("lerp", legacy=spelled("lerp", {"X": "x", "Y": "y", "Weight": "weight"}))
def lerp(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return math.lerp(x, y, cast_to(weight, x.type.dtype))


@operator("where", legacy=spelled("where", {"Condition": "condition", "X": "x", "Y": "y"}))
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return math.where(condition, x, y)


@operator("masked_fill")
def masked_fill(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return math.where(mask, math.reshape(cast_to(value, x.type.dtype), []) if value.size == 1 else value, x)
