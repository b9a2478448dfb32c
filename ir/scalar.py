"""The scalar functions that elementwise ops are made of, at every level: one row each.

`nn` ops name a row for their reference, `tensor.map` and `kernel.apply` carry the name as their `fn`, and each code
generator has a table from the same names to instructions.
"""

from __future__ import annotations

import contextvars
import math
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from polyreme.ir.accuracy import EXACT, ROUNDED, SUM, Accuracy
from polyreme.ir.diagnostics import InferError, check, did_you_mean
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, f32, i1

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """`result` is "same" (dtype of the operands), "bool", or "attr" (a `dtype` attribute says). `accuracy` holds for every machine and for
    numpy.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    doc: str
    kinds: str = "fiu"
    result: str = "same"
    commutative: bool = False
    accuracy: Accuracy = EXACT

    @property
    def all_kinds(self) -> str:
        """The kinds of element types that it takes: an index goes where signed integers go."""
        return self.kinds + "x" if "i" in self.kinds else self.kinds

    def result_type(self, operands: tuple[ScalarType, ...], dtype: ScalarType | None = None) -> ScalarType:
        """The element type of the result; `InferError` when the operands do not fit."""
        check(len(operands) == self.arity, f"expected {self.arity} operands for '{self.name}' but got {len(operands)}")
        if self.name == "select":
            check(operands[0] == i1, f"expected an i1 condition for 'select' but got {operands[0]}")
            operands = operands[1:]
        for operand in operands:
            check(operand.kind in self.all_kinds, f"expected an element type of kind {self.kinds!r} for '{self.name}' but got {operand}")
            check(operand == operands[0], f"expected equal element types for '{self.name}' but got {operands[0]} and {operand}")
        if self.result == "attr":
            check(dtype is not None, f"expected a 'dtype' attribute for '{self.name}'")
            assert dtype is not None
            return dtype
        return i1 if self.result == "bool" else operands[0]


FUNCTIONS: dict[str, ScalarFunction] = {}


def scalar_function(name: str) -> ScalarFunction:
    """The row called `name`; an unknown name is an `InferError` with the nearest known one."""
    found = FUNCTIONS.get(name)
    if found is None:
        raise InferError(f"expected the name of a scalar function but got {name!r}{did_you_mean(name, FUNCTIONS)}", code="E0303")
    return found


def _row(name: str, arity: int, numpy: Callable[..., Any], doc: str, **options: Any) -> None:
    FUNCTIONS[name] = ScalarFunction(name, arity, numpy, doc, **options)


class _Silence(threading.local):
    """A context of this thread in which numpy does not warn. To run in it costs a tenth of what `np.errstate` does: eager ops notice."""

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_silence = _Silence()


def quietly(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)` without numpy's warnings: inf and nan are values here."""
    try:
        return _silence.run(fn, *args)
    except RuntimeError:  # the context is entered already, by what an object's end or a signal has interrupted
        with np.errstate(all="ignore"):
            return fn(*args)


def _quiet(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function without numpy's warnings."""
    return partial(quietly, fn)


def loud(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a row as numpy has it, for callers that see to its warnings."""
    return fn.args[0] if isinstance(fn, partial) and fn.func is quietly else fn


def _div(a: Array, b: Array) -> Array:
    """True division for floats; for integers the quotient rounded towards zero, as C and Paddle's kernels have it."""
    if a.dtype.kind in "iu":
        safe = np.where(b == 0, 1, b)
        quotient = a // safe
        # Rounded down so far: one more where that went away from zero. (By absolute values the least number would overflow.)
        quotient = quotient + ((quotient < 0) & (quotient * safe != a))
        return np.asarray(np.where(b == 0, 0, quotient), dtype=a.dtype)
    return np.asarray(np.divide(a, b))


def _floor_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.asarray(np.where(b == 0, 0, a // np.where(b == 0, 1, b)), dtype=a.dtype)
    return np.asarray(np.floor_divide(a, b))


def _mod(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.asarray(np.where(b == 0, 0, a % np.where(b == 0, 1, b)), dtype=a.dtype)
    return np.asarray(np.mod(a, b))


def _pow(a: Array, b: Array) -> Array:
    """Integers to a negative power are what is left of the true value after cutting off its fraction: 0, but for 1 and -1.

    NumPy takes the root where the power is one number, 0.5: -0 of -0 and nan of -infinity, in place of 0 and infinity.
    """
    if a.dtype.kind == "f" and np.any(b == 0.5):
        made = np.power(a, b)
        made = np.where((b == 0.5) & (a == 0), made.dtype.type(0), made)
        return np.asarray(np.where((b == 0.5) & (a == -np.inf), made.dtype.type(np.inf), made))
    if a.dtype.kind != "i":
        return np.asarray(np.power(a, b))
    power = np.power(a, np.maximum(b, 0))
    return np.asarray(np.where(b >= 0, power, np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))), dtype=a.dtype)


_erf_one = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    """By the standard library in float64, rounded once."""
    return np.asarray(_erf_one(np.asarray(x, dtype=np.float64)), dtype=np.float64).astype(x.dtype)


_erfc_one = np.frompyfunc(math.erfc, 1, 1)


def _gelu(x: Array) -> Array:
    """x / 2 · erfc(-x / √2) by the standard library in float64, rounded once."""
    wide = np.asarray(x, dtype=np.float64)
    return np.asarray(wide / 2 * np.asarray(_erfc_one(wide * -math.sqrt(0.5)), dtype=np.float64)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def cast(x: Array, dtype: ScalarType) -> Array:
    """Numeric conversion; floats become integers by truncation, anything becomes bool by `!= 0`."""
    with np.errstate(all="ignore"):
        return np.asarray(x != 0) if dtype == i1 else np.asarray(x).astype(dtype.np)


# Elementary functions by polynomials, by libm or by numpy, whose own reach 3.1 ulp in float32.
ELEMENTARY = Accuracy(ulp=4)
# The distribution function is computed as 1/2 plus an odd function, which for negative operands leaves an error in proportion to |a|.
GELU = Accuracy(ulp=4, summed=4)

_BINARY: list[tuple[str, Callable[..., Any], str, dict[str, Any]]] = [
    ("add", np.add, "a + b", {"commutative": True, "kinds": "fiuc", "accuracy": ROUNDED}),
    ("sub", np.subtract, "a - b", {"kinds": "fiuc", "accuracy": ROUNDED}),
    ("mul", np.multiply, "a * b", {"commutative": True, "kinds": "fiuc", "accuracy": ROUNDED}),
    ("div", _div, "a / b; integers round towards zero, and a zero divisor gives 0", {"kinds": "fiuc", "accuracy": ROUNDED}),
    (
        "floor_divide",
        _floor_divide,
        "the exact a / b rounded down, so that a - floor_divide(a, b) * b is the remainder; nan of an infinite a",
        {},
    ),
    ("mod", _mod, "a - floor(a / b) * b, with the sign of b", {"accuracy": Accuracy(ulp=1)}),
    ("pow", _pow, "a to the power b; integers to a negative power without their fraction", {"accuracy": ELEMENTARY}),
    ("max", np.maximum, "the larger one; nan when either is nan", {"commutative": True, "kinds": "fiub"}),
    ("min", np.minimum, "the smaller one; nan when either is nan", {"commutative": True, "kinds": "fiub"}),
    ("atan2", np.arctan2, "the angle of the point (b, a)", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("eq", np.equal, "a == b", {"result": "bool", "commutative": True, "kinds": "fiubc"}),
    ("ne", np.not_equal, "a != b", {"result": "bool", "commutative": True, "kinds": "fiubc"}),
    ("lt", np.less, "a < b", {"result": "bool", "kinds": "fiub"}),
    ("le", np.less_equal, "a <= b", {"result": "bool", "kinds": "fiub"}),
    ("gt", np.greater, "a > b", {"result": "bool", "kinds": "fiub"}),
    ("ge", np.greater_equal, "a >= b", {"result": "bool", "kinds": "fiub"}),
    ("and", np.bitwise_and, "bitwise and, logical for i1", {"commutative": True, "kinds": "iub"}),
    ("or", np.bitwise_or, "bitwise or, logical for i1", {"commutative": True, "kinds": "iub"}),
    ("xor", np.bitwise_xor, "bitwise exclusive or, logical for i1", {"commutative": True, "kinds": "iub"}),
    ("shl", np.left_shift, "a shifted left by b bits", {"kinds": "iu"}),
    ("shr", np.right_shift, "a shifted right by b bits; keeps the sign of signed integers", {"kinds": "iu"}),
]

_UNARY: list[tuple[str, Callable[..., Any], str, dict[str, Any]]] = [
    ("neg", np.negative, "-a", {"kinds": "fic"}),
    ("abs", np.abs, "|a|", {"kinds": "fiu"}),
    ("not", np.invert, "bitwise not, logical for i1", {"kinds": "iub"}),
    ("sign", np.sign, "-1, 0 or 1", {}),
    ("exp", np.exp, "e to the power a", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("expm1", np.expm1, "exp(a) - 1, exact near 0", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("log", np.log, "natural logarithm", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("log1p", np.log1p, "log(1 + a), exact near 0", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("log2", np.log2, "logarithm to base 2", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("log10", np.log10, "logarithm to base 10", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("sqrt", np.sqrt, "square root", {"kinds": "f", "accuracy": ROUNDED}),
    ("rsqrt", lambda x: (1 / np.sqrt(x)).astype(x.dtype), "1 / sqrt(a)", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("sin", np.sin, "sine", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("cos", np.cos, "cosine", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("tan", np.tan, "tangent", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("asin", np.arcsin, "arc sine", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("acos", np.arccos, "arc cosine", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("atan", np.arctan, "arc tangent", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("sinh", np.sinh, "hyperbolic sine", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("cosh", np.cosh, "hyperbolic cosine", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("tanh", np.tanh, "hyperbolic tangent", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("sigmoid", _sigmoid, "1 / (1 + exp(-a))", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("erf", _erf, "the error function", {"kinds": "f", "accuracy": ELEMENTARY}),
    ("gelu", _gelu, "a times the normal distribution function at a", {"kinds": "f", "accuracy": GELU}),
    ("floor", np.floor, "the largest whole number not above a", {"kinds": "f"}),
    ("ceil", np.ceil, "the smallest whole number not below a", {"kinds": "f"}),
    ("round", np.round, "the nearest whole number, halves to even", {"kinds": "f"}),
    ("trunc", np.trunc, "a without its fraction", {"kinds": "f"}),
    ("isnan", np.isnan, "whether a is nan", {"kinds": "f", "result": "bool"}),
    ("isinf", np.isinf, "whether a is an infinity", {"kinds": "f", "result": "bool"}),
    ("isfinite", np.isfinite, "whether a is neither infinite nor nan", {"kinds": "f", "result": "bool"}),
]
for _arity, _rows in ((1, _UNARY), (2, _BINARY)):
    for _name, _fn, _doc, _options in _rows:
        _row(_name, _arity, _quiet(_fn), _doc, **_options)

_row("cast", 1, cast, "conversion to the element type `dtype`", kinds="fiubc", result="attr", accuracy=ROUNDED)
_row("select", 3, np.where, "b where a holds, else c", kinds="fiubc")
_row(
    "fma", 3, _quiet(lambda a, b, c: a * b + c), "a * b + c; code generators round once", kinds="f", accuracy=Accuracy(ulp=0.5, summed=0.5)
)


def apply_scalar(fn: str, operands: tuple[Array, ...], dtype: ScalarType | None = None) -> Array:
    """Run a row on arrays (numpy broadcasting); the result has exactly the row's result type."""
    row = scalar_function(fn)
    result = row.numpy(*operands, dtype) if row.result == "attr" else row.numpy(*operands)
    if row.result == "same":
        return np.asarray(result, dtype=operands[-1].dtype)
    return np.asarray(result)


def identity_of(fn: str, dtype: ScalarType = f32) -> float | int | bool:
    """The value that changes nothing when reduced with `fn` (`add`, `mul`, `max`, `min`, `and`, `or`)."""
    if fn in ("add", "or"):
        return False if dtype == i1 else 0.0 if dtype.is_float else 0
    if fn in ("mul", "and"):
        return True if dtype == i1 else 1.0 if dtype.is_float else (1 if fn == "mul" else -1)
    check(fn in ("max", "min"), f"expected a reduction but got {fn!r}")
    if dtype.is_float:
        return -math.inf if fn == "max" else math.inf
    if dtype == i1:
        return fn == "min"
    limits = np.iinfo(dtype.np)
    return int(limits.min if fn == "max" else limits.max)


def function_accuracy(attributes: Mapping[str, Any]) -> Accuracy:
    """How exact an op is that applies the row which its attribute `fn` names."""
    return scalar_function(attributes["fn"]).accuracy


def reduction_accuracy(attributes: Mapping[str, Any]) -> Accuracy:
    """How exact an op is that combines many elements with `fn`: choosing and logic are exact, sums and products are not."""
    return SUM if attributes["fn"] in ("add", "mul") else EXACT
