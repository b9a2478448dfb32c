"""One table of `nn` ops with operands, attributes and a formula: the tests of references, lowerings and gradients all go through it.

The formulas are written without the code under test: by `math`, by plain loops, or by other numpy functions. Shapes are odd on purpose,
with sizes of 0 and 1 and with broadcasting.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from polyreme.dialects import nn
from polyreme.dialects.mt19937 import seed_state
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.types import TensorType, f32, i1, i32, i64, scalar_type


@dataclass(frozen=True)
class Case:
    """An op on arrays (a list of them for a variadic operand, None for an absent one), and what it should give."""

    name: str
    cls: Any
    operands: tuple
    attributes: dict = field(default_factory=dict)
    formula: Any = None

    def __repr__(self):
        return self.name

    @property
    def arrays(self):
        """The operands, flat and without absent ones."""
        return [a for o in self.operands for a in (o if isinstance(o, list) else [] if o is None else [o])]

    def typed(self, dtype):
        """The case with its float operands in another type."""
        convert = lambda a: a.astype(dtype) if a is not None and a.dtype == np.float64 else a
        operands = tuple([convert(a) for a in o] if isinstance(o, list) else convert(o) for o in self.operands)
        attributes = {
            k: scalar_type(dtype) if k == "dtype" and v.is_float and self.cls is not nn.Cast else v for k, v in self.attributes.items()
        }
        return Case(self.name, self.cls, operands, attributes, self.formula)

    def module(self):
        """A module whose `main` is the op."""
        arrays = self.arrays
        func = Func.empty("main", [TensorType(a.shape, scalar_type(a.dtype)) for a in arrays], (), [f"x{i}" for i in range(len(arrays))])
        args = iter(func.args)
        operands = [[next(args) for _ in o] if isinstance(o, list) else None if o is None else next(args) for o in self.operands]
        b = Builder.at_end(func.block)
        made = b(self.cls, *operands, **self.attributes)
        b(Return, list(made) if isinstance(made, tuple) else [made])
        module = Module.empty()
        module.block.append(func.finish())
        return module


# The cases of complex numbers are in `dialects/test_complex.py`.
OF_COMPLEX = {nn.Real, nn.Imag, nn.Conj, nn.Complex}

CASES: list[Case] = []
_random = np.random.default_rng(20)


def floats(*shape, low=-2.0, high=2.0):
    return _random.uniform(low, high, shape)


def distinct(*shape):
    """Floats of which no two are close, so that differences never cross a kink."""
    count = int(np.prod(shape))
    return (_random.permutation(count).reshape(shape) - count / 2 + 0.25) / max(count, 1) * 4


def ints(*shape, low=-5, high=6):
    return _random.integers(low, high, shape)


def bools(*shape):
    return _random.random(shape) < 0.5


def case(name, cls, *operands, formula, **attributes):
    CASES.append(Case(name, cls, operands, attributes, formula))


def each(fn):
    """A function of numbers, at each place of its (broadcast) arrays."""
    def run(*arrays):
        shaped = np.broadcast_arrays(*arrays)
        return np.array([fn(*(x.item() for x in row)) for row in zip(*(a.reshape(-1) for a in shaped), strict=True)]).reshape(
            shaped[0].shape
        )
    return run


# --- elementwise

_UNARY = [
    (nn.Neg, lambda x: -x, (-2, 2)), (nn.Abs, abs, (-2, 2)), (nn.Exp, math.exp, (-2, 2)), (nn.Expm1, lambda x: math.exp(x) - 1, (-2, 2)),
    (nn.Log, math.log, (0.2, 3)), (nn.Log1p, lambda x: math.log(1 + x), (-0.7, 3)), (nn.Log2, math.log2, (0.2, 3)),
    (nn.Log10, math.log10, (0.2, 3)),
    (nn.Sqrt, math.sqrt, (0.2, 3)), (nn.Rsqrt, lambda x: x**-0.5, (0.2, 3)), (nn.Square, lambda x: x * x, (-2, 2)),
    (nn.Reciprocal, lambda x: 1 / x, (0.3, 2)),
    (nn.Sin, math.sin, (-3, 3)), (nn.Cos, math.cos, (-3, 3)), (nn.Tan, math.tan, (-1, 1)), (nn.Asin, math.asin, (-0.9, 0.9)),
    (nn.Acos, math.acos, (-0.9, 0.9)),
    (nn.Atan, math.atan, (-2, 2)), (nn.Sinh, math.sinh, (-2, 2)), (nn.Cosh, math.cosh, (-2, 2)), (nn.Tanh, math.tanh, (-2, 2)),
    (nn.Sigmoid, lambda x: 1 / (1 + math.exp(-x)), (-4, 4)), (nn.Erf, math.erf, (-2, 2)), (nn.Floor, math.floor, (-3, 3)),
    (nn.Ceil, math.ceil, (-3, 3)),
    (nn.Round, round, (-3, 3)), (nn.Trunc, math.trunc, (-3, 3)), (nn.Sign, lambda x: (x > 0) - (x < 0), (-2, 2)),
    (nn.Relu, lambda x: max(x, 0), (-2, 2)),
    (nn.Gelu, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, (-3, 3)), (nn.Silu, lambda x: x / (1 + math.exp(-x)), (-4, 4)),
    (nn.LeakyRelu, lambda x: x if x > 0 else 0.01 * x, (-2, 2)), (nn.Softplus, lambda x: math.log(1 + math.exp(x)), (-4, 4)),
    (nn.IsNan, math.isnan, (-2, 2)), (nn.IsInf, math.isinf, (-2, 2)), (nn.IsFinite, math.isfinite, (-2, 2)),
    (nn.LogicalNot, lambda x: x == 0, (-2, 2)),
]  # fmt: skip
for _cls, _fn, (_low, _high) in _UNARY:
    case(f"{_cls.name} of [3, 5]", _cls, floats(3, 5, low=_low, high=_high), formula=each(_fn))
case("nn.exp of a number", nn.Exp, floats(), formula=each(math.exp))
case("nn.exp of nothing", nn.Exp, floats(0, 3), formula=lambda x: np.zeros((0, 3)))
case("nn.is_nan of special values", nn.IsNan, np.array([np.nan, np.inf, 1.0]), formula=each(math.isnan))
case("nn.leaky_relu with alpha", nn.LeakyRelu, floats(7), alpha=0.3, formula=each(lambda x: x if x > 0 else 0.3 * x))
case(
    "nn.gelu by tanh",
    nn.Gelu,
    floats(7),
    approximate=True,
    formula=each(lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
)
case(
    "nn.softplus beyond its threshold",
    nn.Softplus,
    floats(9, low=-3, high=6),
    beta=2.0,
    threshold=4.0,
    formula=each(lambda x: x if 2 * x > 4 else math.log(1 + math.exp(2 * x)) / 2),
)
case("nn.logical_not of truths", nn.LogicalNot, bools(6), formula=lambda x: ~x)
case("nn.neg of integers", nn.Neg, ints(6), formula=each(lambda x: -x))
case("nn.cast to integers", nn.Cast, floats(6), dtype=i64, formula=each(math.trunc))
case("nn.cast to truths", nn.Cast, np.array([0.0, -0.5, np.nan]), dtype=i1, formula=lambda x: np.array([False, True, True]))
case("nn.cast to float32", nn.Cast, floats(6), dtype=f32, formula=lambda x: x.astype(np.float32))
case("nn.cast of truths", nn.Cast, bools(6), dtype=f32, formula=each(float))

_BINARY = [
    (nn.Add, lambda x, y: x + y), (nn.Sub, lambda x, y: x - y), (nn.Mul, lambda x, y: x * y), (nn.Maximum, max), (nn.Minimum, min),
    (nn.Equal, lambda x, y: x == y), (nn.NotEqual, lambda x, y: x != y), (nn.Less, lambda x, y: x < y), (nn.LessEqual, lambda x, y: x <= y),
    (nn.Greater, lambda x, y: x > y), (nn.GreaterEqual, lambda x, y: x >= y),
]  # fmt: skip
for _cls, _fn in _BINARY:
    case(f"{_cls.name} of equal shapes", _cls, floats(3, 4), floats(3, 4), formula=each(_fn))
    case(f"{_cls.name} with repeated operands", _cls, floats(3, 1, 4), floats(5, 1), formula=each(_fn))
    case(f"{_cls.name} of integers", _cls, ints(4, 3), ints(3), formula=each(_fn))
    case(f"{_cls.name} of nothing", _cls, floats(0, 4), floats(1, 4), formula=each(_fn))
    case(f"{_cls.name} with a number", _cls, floats(), floats(2, 3), formula=each(_fn))
_nonzero = lambda *shape: floats(*shape, low=0.5, high=2.0) * np.where(bools(*shape), 1, -1)
case("nn.div", nn.Div, floats(3, 1, 4), _nonzero(5, 1), formula=each(lambda x, y: x / y))
case("nn.div of integers", nn.Div, ints(40), ints(40), formula=each(lambda x, y: int(x / y) if y else 0))
case("nn.floor_divide", nn.FloorDivide, floats(3, 4), _nonzero(4), formula=each(lambda x, y: math.floor(x / y)))
case("nn.floor_divide of integers", nn.FloorDivide, ints(40), ints(40), formula=each(lambda x, y: x // y if y else 0))
case("nn.mod", nn.Mod, floats(3, 4), _nonzero(4), formula=each(lambda x, y: x - math.floor(x / y) * y))
case("nn.mod of integers", nn.Mod, ints(40), ints(40), formula=each(lambda x, y: x % y if y else 0))
case("nn.pow", nn.Pow, floats(3, 4, low=0.3, high=2), floats(4), formula=each(lambda x, y: math.exp(y * math.log(x))))
case("nn.atan2", nn.Atan2, floats(3, 4), floats(4), formula=each(math.atan2))
case(
    "nn.pow of integers",
    nn.Pow,
    ints(40),
    ints(40, high=5),
    formula=each(lambda x, y: int(math.trunc(float(x) ** y)) if x or y >= 0 else 0),
)
for _cls, _fn in [
    (nn.LogicalAnd, lambda x, y: bool(x) and bool(y)),
    (nn.LogicalOr, lambda x, y: bool(x) or bool(y)),
    (nn.LogicalXor, lambda x, y: bool(x) != bool(y)),
]:
    case(f"{_cls.name} of truths", _cls, bools(3, 4), bools(4), formula=each(_fn))
    case(f"{_cls.name} of numbers", _cls, ints(20, high=2, low=0), ints(20, high=2, low=0), formula=each(_fn))
for _cls, _fn in [(nn.BitwiseAnd, lambda x, y: x & y), (nn.BitwiseOr, lambda x, y: x | y), (nn.BitwiseXor, lambda x, y: x ^ y)]:
    case(f"{_cls.name}", _cls, ints(3, 4), ints(4), formula=each(_fn))
    case(f"{_cls.name} of truths", _cls, bools(3, 4), bools(4), formula=each(_fn))
case("nn.shift_left", nn.ShiftLeft, ints(3, 4), ints(4, low=0, high=9), formula=each(lambda x, y: x << y))
case("nn.shift_right", nn.ShiftRight, ints(3, 4, low=-90, high=90), ints(4, low=0, high=9), formula=each(lambda x, y: x >> y))
case("nn.bitwise_not", nn.BitwiseNot, ints(3, 4), formula=each(lambda x: ~x))
case("nn.bitwise_not of truths", nn.BitwiseNot, bools(4), formula=each(lambda x: not x))
case("nn.where", nn.Where, bools(3, 1), floats(4), floats(2, 3, 4), formula=each(lambda c, x, y: x if c else y))

# --- creation

case("nn.full", nn.Full, value=2.5, shape=(2, 3), dtype=scalar_type(np.float64), formula=lambda: np.array([[2.5] * 3] * 2))
case("nn.full of integers", nn.Full, value=7, shape=(), dtype=i32, formula=lambda: np.array(7))
case("nn.iota", nn.Iota, shape=(2, 3), axis=-1, dtype=i64, formula=lambda: np.array([[0, 1, 2], [0, 1, 2]]))
case("nn.iota along the front", nn.Iota, shape=(2, 3), axis=0, dtype=f32, formula=lambda: np.array([[0, 0, 0], [1, 1, 1]]))
case("nn.dim_value", nn.DimValue, size=12, dtype=i64, formula=lambda: np.array(12))
case("nn.constant", nn.Constant, value=np.array([1.5, -2.0], np.float32), formula=lambda: np.array([1.5, -2.0]))
for _mode, _p, _scale in [
    ("upscale_in_train", 0.3, 0.7),
    ("downscale_in_infer", 0.3, 1),
    ("upscale_in_train", 0.0, 1),
    ("upscale_in_train", 1.0, 1),
]:
    case(
        f"nn.dropout {_mode} p = {_p}", nn.Dropout, floats(4, 5, 3), floats(4, 5, 1, low=0, high=1), p=_p, mode=_mode,
        formula=each(lambda x, d, p=_p, scale=_scale: x / scale if d >= p and p < 1 else 0.0),
    )  # fmt: skip

# --- products and convolutions

for _sx, _sy, _tx, _ty in [
    ((3, 4), (4, 5), False, False), ((4, 3), (4, 5), True, False), ((3, 4), (5, 4), False, True), ((4, 3), (5, 4), True, True),
    ((4,), (4, 5), False, False),
    ((3, 4), (4,), False, False), ((4,), (4,), True, True), ((2, 3, 4), (4, 5), False, False), ((2, 1, 3, 4), (6, 4, 5), False, False),
    ((4,), (2, 5, 4), False, True),
    ((2, 3, 4), (4,), False, False), ((1, 3, 4), (2, 4, 1), False, False), ((0, 4), (4, 5), False, False), ((3, 0), (0, 5), False, False),
    ((2, 4, 3), (1, 4, 5), True, False),
]:  # fmt: skip
    def _equation(x: Any, y: Any, tx: bool = _tx, ty: bool = _ty) -> Any:
        rows, columns = "km" if tx else "mk", "nk" if ty else "kn"
        if x.ndim > 1 and y.ndim > 1:
            return np.einsum(f"...{rows},...{columns}->...mn", x, y)
        if x.ndim == y.ndim == 1:
            return np.einsum("k,k->", x, y)
        return np.einsum(f"k,...{columns}->...n" if x.ndim == 1 else f"...{rows},k->...m", x, y)
    case(f"nn.matmul {_sx} {_sy} {_tx} {_ty}", nn.MatMul, floats(*_sx), floats(*_sy), transpose_x=_tx, transpose_y=_ty, formula=_equation)
case("nn.matmul of integers", nn.MatMul, ints(3, 4), ints(4, 2), formula=lambda x, y: np.einsum("mk,kn->mn", x, y))
case("nn.linear", nn.Linear, floats(5, 4), floats(4, 3), floats(3), formula=lambda x, w, b: np.einsum("mk,kn->mn", x, w) + b)
case("nn.linear without bias", nn.Linear, floats(2, 5, 4), floats(4, 3), None, formula=lambda x, w: np.einsum("bmk,kn->bmn", x, w))
case("nn.linear of a row", nn.Linear, floats(4), floats(4, 3), floats(3), formula=lambda x, w, b: np.einsum("k,kn->n", x, w) + b)
case("nn.linear of nothing", nn.Linear, floats(0, 4), floats(4, 3), floats(3), formula=lambda x, w, b: np.zeros((0, 3)))


def conv_by_loops(x, w, b=None, strides=(), padding=(), dilations=(), groups=1):
    spatial = x.ndim - 2
    strides, dilations, padding = strides or (1,) * spatial, dilations or (1,) * spatial, padding or (0,) * 2 * spatial
    x = np.pad(x, [(0, 0), (0, 0), *zip(padding[::2], padding[1::2], strict=True)])
    places = [(x.shape[2 + i] - (w.shape[2 + i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(spatial)]
    y = np.zeros((x.shape[0], w.shape[0], *places))
    per_out = w.shape[0] // groups
    for o, place in itertools.product(range(w.shape[0]), itertools.product(*map(range, places))):
        for c, tap in itertools.product(range(w.shape[1]), itertools.product(*map(range, w.shape[2:]))):
            at = tuple(p * s + t * d for p, s, t, d in zip(place, strides, tap, dilations, strict=True))
            y[(slice(None), o, *place)] += x[(slice(None), o // per_out * w.shape[1] + c, *at)] * w[(o, c, *tap)]
    return y if b is None else y + b.reshape(-1, *(1,) * spatial)


def conv_transpose_by_loops(x, w, strides=(), padding=(), dilations=(), groups=1, sizes=()):
    spatial = x.ndim - 2
    strides, dilations, padding = strides or (1,) * spatial, dilations or (1,) * spatial, padding or (0,) * 2 * spatial
    small = [
        (x.shape[2 + i] - 1) * strides[i] + (w.shape[2 + i] - 1) * dilations[i] + 1 - padding[2 * i] - padding[2 * i + 1]
        for i in range(spatial)
    ]
    sizes = sizes or small
    y = np.zeros((x.shape[0], w.shape[1] * groups, *(s + padding[2 * i] + padding[2 * i + 1] for i, s in enumerate(sizes))))
    per_group = w.shape[0] // groups
    for c, place in itertools.product(range(w.shape[0]), itertools.product(*map(range, x.shape[2:]))):
        for o, tap in itertools.product(range(w.shape[1]), itertools.product(*map(range, w.shape[2:]))):
            at = tuple(p * s + t * d for p, s, t, d in zip(place, strides, tap, dilations, strict=True))
            y[(slice(None), c // per_group * w.shape[1] + o, *at)] += x[(slice(None), c, *place)] * w[(c, o, *tap)]
    return y[(slice(None), slice(None), *(slice(padding[2 * i], padding[2 * i] + s) for i, s in enumerate(sizes)))]


_CONVS = [
    ("1-d", (2, 3, 9), (4, 3, 3), {}),
    ("strided and padded", (2, 3, 7, 6), (4, 3, 3, 2), {"strides": (2, 1), "padding": (1, 1, 0, 2)}),
    ("dilated", (1, 2, 9, 8), (3, 2, 2, 3), {"dilations": (3, 2), "padding": (2, 1, 0, 1), "strides": (1, 2)}),
    ("grouped", (2, 4, 6, 5), (6, 2, 3, 3), {"groups": 2, "padding": (1, 1, 1, 1)}),
    ("depthwise", (2, 3, 6, 5), (6, 1, 3, 2), {"groups": 3, "strides": (3, 2)}),
    ("1x1", (2, 3, 4, 4), (5, 3, 1, 1), {"strides": (2, 2)}),
    ("padded by more than the kernel", (1, 2, 4), (3, 2, 2), {"padding": (3, 4)}),
    ("3-d", (1, 2, 4, 3, 5), (2, 2, 2, 3, 2), {"strides": (2, 1, 2), "padding": (1, 0, 1, 1, 0, 0)}),
    ("of no images", (0, 2, 5, 5), (3, 2, 3, 3), {}),
    ("as large as the image", (2, 1, 3, 4), (2, 1, 3, 4), {}),
]
for _name, _sx, _sw, _kw in _CONVS:
    case(f"nn.conv {_name}", nn.Conv, floats(*_sx), floats(*_sw), None, formula=lambda x, w, kw=_kw: conv_by_loops(x, w, **kw), **_kw)
    _x, _y = floats(*_sx), floats(*conv_by_loops(np.zeros(_sx), np.zeros(_sw), **_kw).shape)
    case(
        f"nn.conv_transpose {_name}",
        nn.ConvTranspose,
        _y,
        floats(*_sw),
        sizes=_sx[2:],
        formula=lambda x, w, kw=_kw, s=_sx[2:]: conv_transpose_by_loops(x, w, sizes=s, **kw),
        **_kw,
    )

    def _filter(x, dy, kw=_kw, shape=_sw):
        # The product is linear in the weight: its gradient is the value at each unit weight.
        dw = np.zeros(shape)
        for tap in np.ndindex(*shape):
            unit = np.zeros(shape)
            unit[tap] = 1
            dw[tap] = (conv_by_loops(x, unit, **kw) * dy).sum()
        return dw

    case(f"nn.conv_filter {_name}", nn.ConvFilter, _x, _y, kernel=_sw[2:], formula=_filter, **_kw)
case(
    "nn.conv with bias",
    nn.Conv,
    floats(2, 3, 5, 5),
    floats(4, 3, 3, 3),
    floats(4),
    padding=(1, 1, 1, 1),
    formula=lambda x, w, b: conv_by_loops(x, w, b, padding=(1, 1, 1, 1)),
)
case(
    "nn.conv_transpose of smallest size",
    nn.ConvTranspose,
    floats(2, 3, 4),
    floats(3, 2, 3),
    strides=(2,),
    formula=lambda x, w: conv_transpose_by_loops(x, w, strides=(2,)),
)


def pool_by_loops(x, reduce, kernel, strides=(), padding=(), ceil_mode=False, exclusive=True):
    spatial = x.ndim - 2
    strides, padding = strides or kernel, padding or (0,) * 2 * spatial
    sizes = x.shape[2:]
    rooms = [sizes[i] + padding[2 * i] + padding[2 * i + 1] - kernel[i] for i in range(spatial)]
    places = [(-(-r // s) if ceil_mode else r // s) + 1 for r, s in zip(rooms, strides, strict=True)]
    y = np.zeros((*x.shape[:2], *places))
    for place in itertools.product(*map(range, places)):
        starts = [p * s - padding[2 * i] for i, (p, s) in enumerate(zip(place, strides, strict=True))]
        inside = [slice(max(b, 0), max(min(b + k, n), 0)) for b, k, n in zip(starts, kernel, sizes, strict=True)]
        window = x[(slice(None), slice(None), *inside)]
        window = window.reshape(*x.shape[:2], math.prod(window.shape[2:]))
        counted = [min(b + k, n + padding[2 * i]) - b for i, (b, k, n) in enumerate(zip(starts, kernel, sizes, strict=True))]
        count = window.shape[2] if exclusive else math.prod(counted)
        y[(slice(None), slice(None), *place)] = window.max(2, initial=-np.inf) if reduce == "max" else window.sum(2) / max(count, 1)
    return y


for _name, _sx, _kw in [
    ("1-d", (2, 3, 9), {"kernel": (3,)}),
    ("overlapping", (2, 3, 7, 6), {"kernel": (3, 2), "strides": (2, 1)}),
    ("padded", (1, 2, 7, 8), {"kernel": (3, 3), "strides": (2, 2), "padding": (1, 1, 0, 1)}),
    ("rounding up", (1, 2, 8, 7), {"kernel": (3, 2), "strides": (2, 2), "ceil_mode": True}),
    ("padded and rounding up", (2, 1, 6, 7), {"kernel": (2, 3), "strides": (3, 2), "padding": (1, 1, 1, 1), "ceil_mode": True}),
    ("3-d", (1, 2, 4, 5, 3), {"kernel": (2, 2, 3), "strides": (2, 1, 1)}),
    ("with gaps", (1, 1, 7), {"kernel": (2,), "strides": (3,)}),
    ("of no images", (0, 2, 4, 4), {"kernel": (2, 2)}),
    ("of everything", (2, 2, 4, 3), {"kernel": (4, 3)}),
]:
    case(f"nn.max_pool {_name}", nn.MaxPool, distinct(*_sx), formula=lambda x, kw=_kw: pool_by_loops(x, "max", **kw), **_kw)
    for _exclusive in (True, False):
        _formula = lambda x, kw=_kw, e=_exclusive: pool_by_loops(x, "avg", exclusive=e, **kw)
        case(f"nn.avg_pool {_name}, exclusive = {_exclusive}", nn.AvgPool, floats(*_sx), formula=_formula, exclusive=_exclusive, **_kw)

# --- reductions, softmax, losses

for _shape, _axis, _keep in [
    ((3, 4), (), False),
    ((3, 4), (1,), True),
    ((2, 3, 4), (0, -1), False),
    ((2, 1, 4), (1,), False),
    ((2, 0), (0,), False),
    ((), (), False),
    ((5, 2, 3), (2, 0, 1), True),
]:
    _axes = _axis or None
    for _cls, _fn in [(nn.Sum, np.sum), (nn.Mean, np.mean), (nn.Prod, np.prod), (nn.Max, np.max), (nn.Min, np.min)]:
        case(
            f"{_cls.name} {_shape} {_axis} {_keep}",
            _cls,
            distinct(*_shape),
            axis=_axis,
            keepdims=_keep,
            formula=lambda x, fn=_fn, a=_axes, k=_keep: fn(x, axis=a, keepdims=k),
        )
    for _cls, _fn in [(nn.Any, np.any), (nn.All, np.all)]:
        case(
            f"{_cls.name} {_shape} {_axis} {_keep}",
            _cls,
            bools(*_shape),
            axis=_axis,
            keepdims=_keep,
            formula=lambda x, fn=_fn, a=_axes, k=_keep: fn(x, axis=a, keepdims=k),
        )
case("nn.sum of nothing", nn.Sum, floats(0, 3), axis=(0,), formula=lambda x: np.zeros(3))
case("nn.prod of nothing", nn.Prod, floats(3, 0), axis=(1,), formula=lambda x: np.ones(3))
case("nn.prod with one zero", nn.Prod, np.array([[2.0, 0.0, 3.0], [1.5, 2.0, -1.0]]), axis=(1,), formula=lambda x: np.array([0.0, -3.0]))
case("nn.prod with two zeros", nn.Prod, np.array([[2.0, 0.0, 0.0]]), axis=(1,), formula=lambda x: np.array([0.0]))
case("nn.sum of integers", nn.Sum, ints(3, 4), axis=(0,), formula=lambda x: x.sum(0))
for _cls, _fn in [(nn.ArgMax, max), (nn.ArgMin, min)]:
    case(
        f"{_cls.name}",
        _cls,
        ints(4, 6, low=0, high=3).astype(float),
        axis=-1,
        formula=lambda x, fn=_fn: np.array([list(r).index(fn(r)) for r in x]),
    )
    case(
        f"{_cls.name} along the front",
        _cls,
        distinct(4, 3),
        axis=0,
        keepdims=True,
        dtype=i32,
        formula=lambda x, fn=_fn: np.array([[list(c).index(fn(c)) for c in x.T]]),
    )
    case(f"{_cls.name} with nan", _cls, np.array([[1.0, np.nan, 3.0, np.nan]]), axis=1, formula=lambda x: np.array([1]))
for _shape, _axis in [((3, 4), -1), ((2, 3, 4), 1), ((5, 1), 0), ((7,), 0), ((0, 3), 1), ((2, 40), 1)]:
    case(f"nn.cumsum {_shape} {_axis}", nn.Cumsum, floats(*_shape), axis=_axis, formula=lambda x, a=_axis: np.cumsum(x, a))
    case(f"nn.cumprod {_shape} {_axis}", nn.Cumprod, floats(*_shape), axis=_axis, formula=lambda x, a=_axis: np.cumprod(x, a))
    case(f"nn.cummax {_shape} {_axis}", nn.Cummax, distinct(*_shape), axis=_axis, formula=lambda x, a=_axis: np.maximum.accumulate(x, a))
    case(f"nn.cummin {_shape} {_axis}", nn.Cummin, distinct(*_shape), axis=_axis, formula=lambda x, a=_axis: np.minimum.accumulate(x, a))
ZEROS = np.array([[2.0, 0.0, 3.0, 0.0, 4.0], [1.0, 2.0, 3.0, 4.0, 0.0]])
case("nn.cumprod with zeros", nn.Cumprod, ZEROS, axis=1, formula=lambda x: np.cumprod(x, 1))
case("nn.cumprod of integers", nn.Cumprod, ints(3, 4), axis=0, formula=lambda x: x.cumprod(0))
case("nn.cummax of integers", nn.Cummax, ints(3, 4), axis=-1, formula=lambda x: np.maximum.accumulate(x, -1))
case("nn.cumsum of integers", nn.Cumsum, ints(3, 4), axis=0, formula=lambda x: x.cumsum(0))


def argsort_formula(x, axis, descending, count):
    return np.apply_along_axis(
        lambda row: np.array(
            sorted(range(len(row)), key=lambda i: (math.isnan(row[i]) != descending, -row[i] if descending else row[i]))[:count]
        ),
        axis,
        x,
    )


for _shape, _axis, _count in [((3, 5), -1, None), ((4, 3, 2), 1, 2), ((2, 1), 1, 1), ((60,), 0, 3), ((2, 70), 1, None), ((40, 2), 0, None)]:
    for _down in (False, True):
        case(
            f"nn.argsort {_shape} {_axis} {_count} {_down}",
            nn.Argsort,
            ints(*_shape, low=-9, high=9).astype(float),
            axis=_axis,
            descending=_down,
            count=_count,
            formula=lambda x, a=_axis, d=_down, c=_count: argsort_formula(x, a, d, c),
        )
case("nn.argsort of integers", nn.Argsort, ints(3, 9), axis=1, formula=lambda x: argsort_formula(x, 1, False, None))
case(
    "nn.argsort with nan",
    nn.Argsort,
    np.array([[1.0, np.nan, -3.0, np.nan, -0.0, 0.0]]),
    axis=1,
    formula=lambda x: np.array([[2, 4, 5, 0, 1, 3]]),
)


def softmax_formula(x, axis):
    return np.apply_along_axis(lambda row: np.array([1 / sum(math.exp(other - v) for other in row) for v in row]), axis, x)


for _shape, _axis in [((3, 5), -1), ((4, 3, 2), 1), ((2, 1), 1), ((6,), 0)]:
    case(f"nn.softmax {_shape} {_axis}", nn.Softmax, floats(*_shape), axis=_axis, formula=lambda x, a=_axis: softmax_formula(x, a))
    case(
        f"nn.log_softmax {_shape} {_axis}",
        nn.LogSoftmax,
        floats(*_shape),
        axis=_axis,
        formula=lambda x, a=_axis: np.log(softmax_formula(x, a)),
    )
case("nn.softmax of large numbers", nn.Softmax, np.array([[1e4, 1e4, -1e4]]), formula=lambda x: np.array([[0.5, 0.5, 0.0]]))
case("nn.softmax of no rows", nn.Softmax, floats(0, 4), formula=lambda x: np.zeros((0, 4)))


def cross_entropy_formula(x, label, axis=-1, ignore=-100):
    logs = np.moveaxis(np.log(softmax_formula(x, axis)), axis, -1)
    flat = np.moveaxis(label, axis, -1)[..., 0]
    loss = np.array(
        [0.0 if flat[i] == ignore else -logs[i][flat[i]] if 0 <= flat[i] < x.shape[axis] else np.nan for i in np.ndindex(*flat.shape)]
    )
    return np.expand_dims(loss.reshape(flat.shape), axis)


case("nn.cross_entropy", nn.CrossEntropy, floats(5, 4), ints(5, 1, low=0, high=4), formula=cross_entropy_formula)
case(
    "nn.cross_entropy in the middle",
    nn.CrossEntropy,
    floats(2, 4, 3),
    ints(2, 1, 3, low=0, high=4),
    axis=1,
    formula=lambda x, t: cross_entropy_formula(x, t, 1),
)
case(
    "nn.cross_entropy with ignored labels",
    nn.CrossEntropy,
    floats(6, 3),
    np.array([[0], [2], [1], [2], [-100], [2]]),
    ignore_index=2,
    formula=lambda x, t: cross_entropy_formula(x, t, ignore=2),
)
case("nn.cross_entropy of no class", nn.CrossEntropy, floats(3, 3), np.array([[-100], [3], [1]]), formula=cross_entropy_formula)
case(
    "nn.cross_entropy with small labels", nn.CrossEntropy, floats(3, 3), np.array([[2], [0], [1]], np.uint8), formula=cross_entropy_formula
)
case("nn.cross_entropy of large numbers", nn.CrossEntropy, np.array([[1e4, 0.0]]), np.array([[1]]), formula=lambda x, t: np.array([[1e4]]))
case(
    "nn.cross_entropy with soft labels",
    nn.CrossEntropy,
    floats(4, 3),
    floats(4, 3, low=0, high=1),
    soft_label=True,
    formula=lambda x, t: -(np.log(softmax_formula(x, 1)) * t).sum(1, keepdims=True),
)

# --- views

case("nn.reshape", nn.Reshape, floats(2, 3, 4), shape=(4, 6), formula=lambda x: np.array(list(x.flat)).reshape(4, 6))
case("nn.reshape to a number", nn.Reshape, floats(1, 1), shape=(), formula=lambda x: x[0, 0])
case("nn.reshape of nothing", nn.Reshape, floats(0, 3), shape=(3, 0, 2), formula=lambda x: np.zeros((3, 0, 2)))
case("nn.transpose", nn.Transpose, floats(2, 3, 4), perm=(2, 0, 1), formula=lambda x: np.einsum("abc->cab", x))
case("nn.broadcast_to", nn.BroadcastTo, floats(3, 1), shape=(2, 3, 4), formula=lambda x: x + np.zeros((2, 3, 4)))
case("nn.broadcast_to nothing", nn.BroadcastTo, floats(1, 4), shape=(0, 4), formula=lambda x: np.zeros((0, 4)))
case("nn.slice", nn.Slice, floats(5, 6, 7), starts=(1, 0, 2), stops=(4, 6, 7), strides=(1, 2, 4), formula=lambda x: x[1:4, ::2, 2::4])
case("nn.slice of nothing", nn.Slice, floats(5, 4), starts=(2, 0), stops=(2, 4), strides=(1, 3), formula=lambda x: np.zeros((0, 2)))
case("nn.flip", nn.Flip, floats(3, 4), axes=(-1,), formula=lambda x: x[:, [3, 2, 1, 0]])
case("nn.concat", nn.Concat, [floats(2, 3), floats(2, 0), floats(2, 1)], axis=-1, formula=lambda x, y, z: np.hstack([x, y, z]))
case("nn.concat of one", nn.Concat, [floats(2, 3)], axis=0, formula=lambda x: x)
case("nn.pad", nn.Pad, floats(2, 3), padding=(1, 0, 2, 1), value=-1.5, formula=lambda x: np.pad(x, [(1, 0), (2, 1)], constant_values=-1.5))
case(
    "nn.pad between elements",
    nn.Pad,
    floats(3),
    padding=(1, 2),
    interior=(2,),
    formula=lambda x: np.array([0, x[0], 0, 0, x[1], 0, 0, x[2], 0, 0]),
)
case(
    "nn.window",
    nn.Window,
    floats(2, 9),
    axes=(1,),
    sizes=(3,),
    strides=(2,),
    dilations=(2,),
    formula=lambda x: np.stack([x[:, s : s + 5 : 2] for s in (0, 2, 4)], 1),
)
case(
    "nn.fold",
    nn.Fold,
    floats(2, 3),
    axes=(0,),
    sizes=(5,),
    strides=(2,),
    dilations=(1,),
    formula=lambda w: np.array([*w[0], 0, 0]) + np.array([0, 0, *w[1]]),
)
case(
    "nn.gather",
    nn.Gather,
    floats(5, 3),
    np.array([[4, 0, -1], [2, 2, -5]]),
    axis=0,
    formula=lambda x, i: np.stack([np.stack([x[j] for j in row]) for row in i]),
)
case("nn.gather along the end", nn.Gather, floats(2, 5), np.array(3), axis=-1, formula=lambda x, i: x[:, 3])
case("nn.within", nn.Within, np.array([[0, 3], [-4, 1]], np.int32), size=4, wraps=True, formula=lambda x: x)
case("nn.gather from outside", nn.Gather, floats(4), np.array([7, -9], np.int32), axis=0, formula=lambda x, i: np.array([x[3], x[0]]))
case("nn.overwrite", nn.Overwrite, floats(2, 3), floats(2, 3), formula=lambda x, y: y)
case("nn.stop_gradient", nn.StopGradient, floats(2, 3), formula=lambda x: x)


def scatter_formula(u, i):
    total = np.zeros((2, 5))
    for row, column in np.ndindex(2, 4):
        total[row, i[column]] += u[row, column]
    return total


case("nn.scatter_add", nn.ScatterAdd, floats(2, 4), np.array([3, 0, 3, -1]), axis=1, size=5, formula=scatter_formula)


def written_formula(x, u, i):
    result = x.copy()
    for place in np.ndindex(*i.shape):
        result[i[place]] = u[place]
    return result


case("nn.scatter", nn.Scatter, floats(5, 3), floats(2, 2, 3), np.array([[4, 0], [-1, 2]]), axis=0, formula=written_formula)
case(
    "nn.scatter of columns",
    nn.Scatter,
    floats(2, 5),
    floats(2, 2),
    np.array([3, -5], np.int32),
    axis=1,
    formula=lambda x, u, i: np.stack([u[:, 1], *x[:, 1:3].T, u[:, 0], x[:, 4]], 1),
)

# --- matrices


def eliminated(x):
    """The inverses of 2x2 matrices by cofactors."""
    (a, b), (c, d) = np.moveaxis(x, (-2, -1), (0, 1))
    return np.moveaxis(np.array([[d, -b], [-c, a]]) / (a * d - b * c), (0, 1), (-2, -1))


DEFINITE = np.array([[4.0, 1.0, -0.5], [1.0, 3.0, 0.25], [-0.5, 0.25, 2.0]])


def factor_formula(x):
    """Cholesky's L row by row."""
    factor = np.zeros(x.shape)
    for i, j in itertools.product(range(3), range(3)):
        rest = x[i, j] - sum(factor[i, k] * factor[j, k] for k in range(j))
        if i >= j:
            factor[i, j] = math.sqrt(rest) if i == j else rest / factor[j, j]
    return factor


case("nn.inverse", nn.Inverse, np.array([[[2.0, 1.0], [0.5, -3.0]], [[0.0, 1.0], [-2.0, 0.5]]]), formula=eliminated)
SQUARES = np.array([[[2.0, 1.0], [0.5, -3.0]], [[0.0, 1.0], [-2.0, 0.5]]])
case(
    "nn.determinant",
    nn.Determinant,
    SQUARES,
    formula=lambda x: x[..., 0, 0] * x[..., 1, 1] - x[..., 0, 1] * x[..., 1, 0],
)
case("nn.determinant of one number", nn.Determinant, np.array([[4.0]]), formula=lambda x: x[0, 0])
case(
    "nn.determinant with rows to swap",
    nn.Determinant,
    DEFINITE[::-1].copy(),
    formula=lambda x: -(np.prod(np.diag(factor_formula(x[::-1]))) ** 2),
)
case("nn.determinant of matrices of nothing", nn.Determinant, np.zeros((2, 0, 0)), formula=lambda x: np.ones(2))
case("nn.inverse of one number", nn.Inverse, np.array([[4.0]]), formula=lambda x: 1 / x)
case("nn.cholesky", nn.Cholesky, DEFINITE, formula=factor_formula)
case("nn.inverse of matrices of nothing", nn.Inverse, np.zeros((2, 0, 0)), formula=lambda x: x)
case("nn.cholesky of matrices of nothing", nn.Cholesky, np.zeros((2, 0, 0)), formula=lambda x: x)
case("nn.cholesky, upper", nn.Cholesky, DEFINITE, upper=True, formula=lambda x: factor_formula(x).T)

# --- normalization


def standardized_formula(x, weight=None, bias=None, axes=(), affine=(), epsilon=1e-5):
    """By a loop over the slices: result, mean and variance of each."""
    axes, affine = (sorted(a % x.ndim for a in group) for group in (axes, affine))
    kept = [i for i in range(x.ndim) if i not in axes]
    y, mean, variance = np.zeros(x.shape), np.zeros([x.shape[i] for i in kept]), np.zeros([x.shape[i] for i in kept])
    for place in np.ndindex(*mean.shape):
        index = [slice(None)] * x.ndim
        for i, p in zip(kept, place, strict=True):
            index[i] = p
        values = x[tuple(index)]
        mean[place] = sum(values.flat) / values.size if values.size else np.nan
        variance[place] = sum((v - mean[place]) ** 2 for v in values.flat) / values.size if values.size else np.nan
        y[tuple(index)] = (values - mean[place]) / math.sqrt(variance[place] + epsilon) if values.size else 0
    letters = "abcdefg"[: x.ndim]
    along = "".join(letters[i] for i in affine)
    y = y if weight is None else np.einsum(f"{letters},{along}->{letters}", y, weight)
    return y if bias is None else y + np.einsum(f"{letters},{along}->{letters}", np.ones(x.shape), bias), mean, variance


def standardized_gradient_formula(x, dy, mean, variance, weight=None, axes=(), affine=(), epsilon=1e-5):
    """By the Jacobian of each slice: dy_i / dx_j = w_i r (delta_ij - 1/n - n_i n_j / n)."""
    axes, affine = (sorted(a % x.ndim for a in group) for group in (axes, affine))
    kept = [i for i in range(x.ndim) if i not in axes]
    letters = "abcdefg"[: x.ndim]
    along = "".join(letters[i] for i in affine)
    rows = np.einsum(f"{''.join(letters[i] for i in kept)},{letters}->{letters}", (variance + epsilon) ** -0.5, np.ones(x.shape))
    means = np.einsum(f"{''.join(letters[i] for i in kept)},{letters}->{letters}", mean, np.ones(x.shape))
    normal = (x - means) * rows
    g = dy if weight is None else np.einsum(f"{letters},{along}->{letters}", dy, weight)
    dx = np.zeros(x.shape)
    for place in np.ndindex(*mean.shape):
        index = [slice(None)] * x.ndim
        for i, p in zip(kept, place, strict=True):
            index[i] = p
        n, r = normal[tuple(index)].reshape(-1), rows[tuple(index)].reshape(-1)
        jacobian = r[:, None] * (np.eye(n.size) - 1 / max(n.size, 1) - np.outer(n, n) / max(n.size, 1))
        dx[tuple(index)] = (g[tuple(index)].reshape(-1) @ jacobian).reshape(dx[tuple(index)].shape)
    return dx, np.einsum(f"{letters},{letters}->{along}", dy, normal), np.einsum(f"{letters}->{along}", dy)


for _name, _shape, _axes, _affine, _weights in [
    ("over a batch", (4, 3, 5), (0, 2), (1,), "wb"),
    ("over the last axis", (5, 7), (-1,), (-1,), "wb"),
    ("over two axes", (2, 3, 4), (1, 2), (1, 2), "w"),
    ("of groups", (2, 2, 3, 4), (2, 3), (1, 2), "b"),
    ("by itself", (3, 6), (0,), (), ""),
    ("of single elements", (3, 1), (1,), (1,), "wb"),
    ("of no rows", (0, 4), (1,), (1,), "wb"),
]:
    _sizes = [_shape[a] for a in _affine]
    _w, _b = (floats(*_sizes, low=0.5) if _c in _weights else None for _c in "wb")
    _options = {"axes": _axes, "affine": _affine}
    _given = lambda x, *rest, options=_options, weights=_weights: standardized_formula(
        x, **dict(zip([{"w": "weight", "b": "bias"}[c] for c in weights], rest, strict=True)), **options
    )
    case(f"nn.standardize {_name}", nn.Standardize, floats(*_shape), _w, _b, formula=_given, epsilon=1e-5, **_options)
    _statistics = [d for i, d in enumerate(_shape) if i not in [a % len(_shape) for a in _axes]]
    case(
        f"nn.standardize_gradient {_name}", nn.StandardizeGradient, floats(*_shape), floats(*_shape), floats(*_statistics),
        floats(*_statistics, low=0.3), _w,
        formula=lambda *given, options=_options: standardized_gradient_formula(*given, **options), **_options,
    )  # fmt: skip
case(
    "nn.standardize with a large epsilon",
    nn.Standardize,
    floats(3, 4),
    axes=(1,),
    epsilon=0.5,
    formula=lambda x: standardized_formula(x, axes=(1,), epsilon=0.5),
)
case("nn.standardize over no elements", nn.Standardize, floats(0, 3), axes=(0,), formula=lambda x: standardized_formula(x, axes=(0,)))


def attention_formula(q, k, v, mask=None, scale=1.0, causal=False):
    """One query and head at a time."""
    batch, queries, heads, _ = q.shape
    out, sums = np.empty((*q.shape[:3], v.shape[3])), np.empty((batch, heads, queries))
    for b, i, h in itertools.product(range(batch), range(queries), range(heads)):
        scores = scale * (k[b, :, h] @ q[b, i, h])
        if mask is not None:
            scores = scores + np.broadcast_to(mask, (batch, heads, queries, k.shape[1]))[b, h, i]
        seen = slice(i + 1) if causal else slice(None)
        weights = np.exp(scores[seen])
        out[b, i, h], sums[b, h, i] = weights @ v[b, seen, h] / weights.sum(), np.log(weights.sum())
    return out, sums


def attention_gradient_formula(q, k, v, out, sums, dy, scale=1.0, causal=False):
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for b, i, h in itertools.product(*map(range, q.shape[:3])):
        for j in range(min(i + 1, k.shape[1]) if causal else k.shape[1]):
            weight = math.exp(scale * (q[b, i, h] @ k[b, j, h]) - sums[b, h, i])
            share = scale * weight * (dy[b, i, h] @ v[b, j, h] - dy[b, i, h] @ out[b, i, h])
            dv[b, j, h] += weight * dy[b, i, h]
            dq[b, i, h] += share * k[b, j, h]
            dk[b, j, h] += share * q[b, i, h]
    return dq, dk, dv


for _causal, _keys in ((False, 4), (True, 3), (True, 2)):
    case(
        f"nn.attention {_causal} {_keys}", nn.Attention, floats(2, 3, 2, 4), floats(2, _keys, 2, 4), floats(2, _keys, 2, 5), scale=0.4,
        causal=_causal, formula=partial(attention_formula, scale=0.4, causal=_causal),
    )  # fmt: skip
    case(
        f"nn.attention_gradient {_causal} {_keys}", nn.AttentionGradient, floats(1, 3, 2, 4), floats(1, _keys, 2, 4),
        floats(1, _keys, 2, 5), floats(1, 3, 2, 5), floats(1, 2, 3, low=1.0), floats(1, 3, 2, 5), scale=0.4, causal=_causal,
        formula=partial(attention_gradient_formula, scale=0.4, causal=_causal),
    )  # fmt: skip
_column = lambda v, n, axis: v.reshape([-1 if i == axis % n else 1 for i in range(n)])
for _axis, _shape in [(1, (2, 3, 4)), (-1, (4, 3)), (0, (3,)), (1, (0, 3, 2))]:
    _size = _shape[_axis]
    case(
        f"nn.batch_norm {_shape} {_axis}", nn.BatchNorm, floats(*_shape), floats(_size), floats(_size, low=0.3), floats(_size),
        floats(_size), axis=_axis, epsilon=1e-3,
        formula=lambda x, m, v, w, b, a=_axis: (
            (x - _column(m, x.ndim, a)) / _column(np.sqrt(v + 1e-3), x.ndim, a) * _column(w, x.ndim, a) + _column(b, x.ndim, a)
        ),
    )  # fmt: skip
case(
    "nn.batch_norm without weight and bias",
    nn.BatchNorm,
    floats(2, 3),
    floats(3),
    floats(3, low=0.3),
    formula=lambda x, m, v: (x - m) / np.sqrt(v + 1e-5),
)

# --- numbers in eight bits


def _steps_of(x, scale, zero_point, axis, bits):
    """Step by step: the nearest whole number by Python's own rounding, held within so many bits."""
    out = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        at = place[axis] if scale.ndim else ()
        count = round(x[place] / float(scale[at])) + (0 if zero_point is None else int(zero_point[at]))
        out[place] = min(max(count, -(2 ** (bits - 1))), 2 ** (bits - 1) - 1)
    return out


def _nearest(x, scale, axis=0, bits=8, away=False):
    steps = x / (_column(scale, x.ndim, axis) if scale.ndim else scale)
    high = 2 ** (bits - 1) - 1
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps) if away else np.rint(steps)
    return np.clip(whole, -high - (not away), high) * (_column(scale, x.ndim, axis) if scale.ndim else scale)


_halves = np.arange(-12, 13) / 8  # half steps of 0.25, and the ends of four bits beyond them
_bytes = _random.integers(-128, 128, (3, 4)).astype(np.int8)
for _name, _x, _scale, _zero, _axis, _bits in [
    ("by one scale", floats(3, 5, low=-9, high=9), np.array(0.0625), None, 0, 8), ("of halves", _halves, np.array(0.25), None, 0, 8),
    ("in three bits", _halves, np.array(0.25), None, 0, 3),
    ("along an axis", floats(2, 3, 4), np.array([0.5, 0.25, 1 / 64]), None, 1, 8),
    ("along the last axis", floats(2, 3), np.array([0.5, 0.25, 1 / 64]), None, -1, 8),
    ("from a zero point", floats(3, 5), np.array(1 / 64), np.array(40, np.int8), 0, 8),
    ("from zero points", floats(3, 2), np.array([1 / 64, 1 / 32, 1 / 128]), np.array([-5, 100, -128], np.int8), 0, 8),
    ("of a number", floats(), np.array(0.125), None, 0, 8), ("of nothing", floats(0, 3), np.array(0.125), None, 0, 8),
    ("of infinities", np.array([np.inf, -np.inf, 1.0]), np.array(0.125), None, 0, 8),
]:  # fmt: skip
    _sign = [] if _zero is None else [_zero]
    if np.isfinite(_x).all():
        case(
            f"nn.quantize_linear {_name}",
            nn.QuantizeLinear,
            _x,
            _scale,
            *_sign,
            axis=_axis,
            bit_length=_bits,
            formula=lambda x, s, z=None, a=_axis, n=_bits: _steps_of(x, s, z, a, n),
        )
        if _zero is None:
            for _ties in ("even", "away"):
                case(
                    f"nn.fake_quantize {_name}, ties {_ties}", nn.FakeQuantize, _x, _scale, axis=_axis, bit_length=_bits, ties=_ties,
                    formula=lambda x, s, a=_axis, n=_bits, t=_ties: _nearest(x, s, a, n, t == "away"),
                )  # fmt: skip
    else:
        case(f"nn.quantize_linear {_name}", nn.QuantizeLinear, _x, _scale, formula=lambda x, s: np.array([127, -128, 8]))
case("nn.dequantize_linear by one scale", nn.DequantizeLinear, _bytes, floats(), formula=lambda x, s: x * s)
case("nn.dequantize_linear along an axis", nn.DequantizeLinear, _bytes, floats(3), axis=0, formula=lambda x, s: x * s[:, None])
case(
    "nn.dequantize_linear from zero points",
    nn.DequantizeLinear,
    _bytes,
    floats(4),
    np.array([1, -128, 127, 0], np.int8),
    axis=-1,
    formula=lambda x, s, z: (x.astype(float) - z) * s,
)
case(
    "nn.dequantize_linear from a zero point",
    nn.DequantizeLinear,
    _bytes,
    floats(),
    np.array(-7, np.int8),
    formula=lambda x, s, z: (x.astype(float) + 7) * s,
)

# --- recurrent layers


def _squash(v):
    return 1 / (1 + np.exp(-v))


def _rnn_step(activation):
    def step(x, weight, bias, h):
        v = x + weight @ h
        return (np.tanh(v) if activation == "tanh" else np.where(v.real > 0, v, 0),)
    return step


def _lstm_step(x, weight, bias, h, c):
    i, f, g, o = (x + weight @ h).reshape(4, -1)
    c = _squash(f) * c + _squash(i) * np.tanh(g)
    return _squash(o) * np.tanh(c), c


def _gru_step(x, weight, bias, h):
    (xr, xz, xc), (ur, uz, uc) = x.reshape(3, -1), (weight @ h + (0 if bias is None else bias)).reshape(3, -1)
    z, c = _squash(xz + uz), np.tanh(xc + _squash(xr + ur) * uc)
    return (z * h + (1 - z) * c,)


def recurrent_formula(step, x, weight, bias, first, lengths, reverse):
    """Each sequence by itself, from its first step or from its last one: the states after every step."""
    states = [np.zeros((*x.shape[:2], s.shape[1]), np.result_type(x, weight, *first)) for s in first]
    for n in range(x.shape[1]):
        now, length = [s[n] for s in first], x.shape[0] if lengths is None else min(int(lengths[n]), x.shape[0])
        for t in range(x.shape[0])[::-1 if reverse else 1]:
            now = step(x[t, n], weight, bias, *now) if t < length else now
            for kept, state in zip(states, now, strict=True):
                kept[t, n] = state
    return states


def complex_step(function, arrays, k):
    """The derivative of a real function of arrays in the k-th of them, exact to rounding: its imaginary part a tiny imaginary step away."""
    found = np.zeros(arrays[k].shape)
    for place in np.ndindex(*found.shape):
        moved = [a.astype(complex) if i == k else a for i, a in enumerate(arrays)]
        moved[k][place] += 1e-30j
        found[place] = np.imag(function(*moved)) / 1e-30
    return found


def _recurrent_cases(name, steps, batch, hidden, lengths, reverse, activation="tanh", bias=True):
    """The three layers and their gradients on operands of these sizes."""
    lengths = None if lengths is None else np.array(lengths)
    seeds, more = floats(steps, batch, hidden), floats(steps, batch, hidden)
    first, cell, shift = floats(batch, hidden), floats(batch, hidden), floats(3 * hidden) if bias else None
    options = {"reverse": reverse}

    def run(step, x, weight, shift, *states):
        return recurrent_formula(step, x, weight, shift, states, lengths, reverse)

    x, w, step = floats(steps, batch, hidden), floats(hidden, hidden), _rnn_step(activation)
    states = run(step, x, w, None, first)[0]
    states = np.where(states == 0, -0.5, states) if activation == "relu" else states  # the slope is that of 0, without the kink
    loss = lambda x, h: np.sum(seeds * run(step, x, w, None, h)[0])
    case(
        f"nn.simple_rnn {name}",
        nn.SimpleRNN,
        x,
        w,
        first,
        lengths,
        formula=lambda x, w, h, *_: run(step, x, w, None, h)[0],
        activation=activation,
        **options,
    )
    case(
        f"nn.simple_rnn_gradient {name}", nn.SimpleRNNGradient, w, states, seeds, lengths, activation=activation, **options,
        formula=lambda *_: (complex_step(loss, [x, first], 0), complex_step(loss, [x, first], 1)),
    )  # fmt: skip

    gates, wide = floats(steps, batch, 4 * hidden), floats(4 * hidden, hidden)
    after = run(_lstm_step, gates, wide, None, first, cell)
    both = lambda x, h, c: sum(
        np.sum(s * v) for s, v in zip([seeds, more] if bias else [seeds], run(_lstm_step, x, wide, None, h, c), strict=False)
    )
    case(
        f"nn.lstm {name}",
        nn.LSTM,
        gates,
        wide,
        first,
        cell,
        lengths,
        formula=lambda x, w, h, c, *_: tuple(run(_lstm_step, x, w, None, h, c)),
        **options,
    )
    case(
        f"nn.lstm_gradient {name}", nn.LSTMGradient, gates, wide, first, cell, *after, seeds, more if bias else None, lengths, **options,
        formula=lambda *_: tuple(complex_step(both, [gates, first, cell], k) for k in range(3)),
    )  # fmt: skip

    thrice, block = floats(steps, batch, 3 * hidden), floats(3 * hidden, hidden)
    made = run(_gru_step, thrice, block, shift, first)[0]

    def with_u(x, u, h):
        """As if each step had a bias of its own beside the weight."""
        each = lambda v, weight, _, state: _gru_step(v[: 3 * hidden], weight, v[3 * hidden :] + (0 if shift is None else shift), state)
        return np.sum(seeds * run(each, np.concatenate([x, u], -1), block, None, h)[0])

    case(
        f"nn.gru {name}",
        nn.GRU,
        thrice,
        block,
        first,
        shift,
        lengths,
        formula=lambda x, w, h, *others: run(_gru_step, x, w, others[0] if bias else None, h)[0],
        **options,
    )
    case(
        f"nn.gru_gradient {name}", nn.GRUGradient, thrice, block, first, made, seeds, shift, lengths, **options,
        formula=lambda *_: tuple(complex_step(with_u, [thrice, np.zeros_like(thrice), first], k) for k in range(3)),
    )  # fmt: skip


_recurrent_cases("forward", 3, 2, 2, None, False)
_recurrent_cases("backward with lengths", 4, 3, 2, [4, 0, 2], True)
_recurrent_cases("with lengths", 3, 3, 1, [1, 3, 9], False, activation="relu", bias=False)
_recurrent_cases("of one step", 1, 1, 3, None, True, bias=False)
_recurrent_cases("of no steps", 0, 2, 3, None, False)
_recurrent_cases("of no sequences", 2, 0, 3, None, True)

UNIFORM = Case("nn.uniform", nn.Uniform, (seed_state(7),), {"shape": (3, 5), "low": -1.0, "high": 2.0, "dtype": f32})
"""Random numbers have two results and no formula; `test_mt19937` checks them. Here only for the lowering."""


TOLERANCES = {np.dtype(t): e for t, e in ((np.float64, 1e-11), (np.float32, 2e-5), (np.float16, 4e-3), (ml_dtypes.bfloat16, 2e-2))}


def numbers_close(got, wanted, dtype):
    """Equal up to rounding in `dtype`, nan where nan is wanted."""
    tolerance = TOLERANCES.get(np.dtype(dtype), 0)
    assert got.shape == wanted.shape, f"expected the shape {wanted.shape} but got {got.shape}"
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)
