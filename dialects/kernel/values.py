"""Values in registers: numbers, arithmetic, and moving lanes about."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import (
    REDUCTIONS,
    Array,
    check_index,
    flat_operands,
    lanes_of,
    of_lanes,
    scalar_of,
)
from polyreme.ir.attributes import Number
from polyreme.ir.core import Op
from polyreme.ir.define import Commutative, ConstantLike, Elementwise, Pure, attr, op, operand, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve
from polyreme.ir.scalar import FUNCTIONS, apply_scalar, function_accuracy, reduction_accuracy, scalar_function
from polyreme.ir.types import ScalarType, Type, VectorType, i1, i32, i64, index


@op("kernel.constant", Pure, ConstantLike)
class Constant(Op):
    """A known number in a register.

        %zero = kernel.constant {value = 0.0, dtype = f32} : f32

    Infinities and nan are fine for floats. Integers must be in the type's range; there are no complex constants. `value` is the number,
    `dtype` its type.
    """

    value = attr(Number)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, value: bool | float, dtype: ScalarType) -> Type:
        check_type(dtype.kind != "c", f"expected a real type but got {dtype}")
        if dtype.is_integer:
            limits = np.iinfo(dtype.np)
            fits = not isinstance(value, float) and limits.min <= value <= limits.max
            check_attr(fits, f"expected a whole number from {limits.min} to {limits.max} for {dtype} but got {value}")
        return dtype

    @staticmethod
    def reference(*, value: bool | float, dtype: ScalarType) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(dtype.np)[()]


@op("kernel.size", Pure, ConstantLike)
class Size(Op):
    """A size of the model as a number, known when the model runs.

        %n = kernel.size {value = 4*N+1} : index

    `value` is a number or an expression over the names of sizes, and must not come out negative where it is a count.
    """

    value = attr(Dim)

    @staticmethod
    def infer(*, value: Dim) -> Type:
        return index

    @staticmethod
    def reference(*, value: Dim) -> Any:
        return np.int64(resolve(value))


@op("kernel.clock")
class Clock(Op):
    """The time now, in nanoseconds since some moment in the past.

        func @back(%answer: buffer<1xi1>) {
          %first = kernel.clock : i64
          %second = kernel.clock : i64
          %back = kernel.apply %second, %first {fn = "lt"} : i1
          %zero = kernel.constant {value = 0, dtype = index} : index
          kernel.store %back, %answer, %zero
          return
        }

    It never goes back, and stays between the ops around it: it is what tells how long they take. For processors that run Linux.
    """

    @staticmethod
    def infer() -> Type:
        return i64

    @staticmethod
    def reference() -> Any:
        return np.int64(time.perf_counter_ns())


# What single positions are reckoned with, and the whole numbers that one can be.
_WHOLE: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max}
_LEAST, _MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@op("kernel.apply", Pure, Elementwise, accuracy=function_accuracy)
class Apply(Op):
    """A scalar function on scalars, or lane by lane on vectors of equal length.

        %s = kernel.apply %a, %b {fn = "add"} : vector<16xf32>
        %h = kernel.apply %a {fn = "cast", dtype = f16} : vector<16xf16>

    `fn` is a row of `ir/scalar.py`, which says how many operands it takes, of which element types, and of which type its result is. `dtype`
    is given with `fn = "cast"` alone.
    """

    xs = variadic()
    fn = attr(str)
    dtype = attr(ScalarType, default=None)

    def __init__(self, *xs: Any, fn: str, dtype: ScalarType | None = None, loc: Location = UNKNOWN):
        super().__init__(flat_operands(xs), fn=fn, dtype=dtype, loc=loc)

    @staticmethod
    def infer(xs: Sequence[Type], *, fn: str, dtype: ScalarType | None) -> Type:
        row = scalar_function(fn)
        result = row.result_type(tuple(scalar_of(x) for x in xs), dtype)
        lanes = lanes_of(xs[0])
        check(all(lanes_of(x) == lanes for x in xs), f"expected operands of equal length but got {', '.join(map(str, xs))}")
        return of_lanes(result, lanes)

    @staticmethod
    def reference(xs: Sequence[Any], *, fn: str, dtype: ScalarType | None) -> Any:
        if fn in _WHOLE and type(xs[0]) is type(xs[1]) is np.int64:
            # Positions, of which kernels compute thousands: plain numbers are quicker than arrays.
            value = _WHOLE[fn](int(xs[0]), int(xs[1]))
            if _LEAST <= value <= _MOST:
                return np.int64(value)
        return apply_scalar(fn, tuple(map(np.asarray, xs)), dtype)[()]


@op("kernel.fma", Pure, Elementwise, Commutative, accuracy=FUNCTIONS["fma"].accuracy)
class Fma(Op):
    """a * b + c on floats, rounded once where the target has such an instruction, else twice.

        %next = kernel.fma %a, %b, %acc : vector<16xf32>

    Scalars or vectors, all three of one type.
    """

    a = operand()
    b = operand()
    c = operand()

    @staticmethod
    def infer(a: Type, b: Type, c: Type) -> Type:
        check_type(scalar_of(a).is_float, f"expected floats but got {a}")
        check_type(a == b == c, f"expected equal types but got {a}, {b} and {c}")
        return a

    @staticmethod
    def reference(a: Any, b: Any, c: Any) -> Any:
        # In float64 the product of two float32 is exact, so the sum is rounded once (twice in rare ties, and for float64 itself).
        dtype = np.asarray(a).dtype
        wide = np.float64 if dtype.itemsize < 8 else np.longdouble
        with np.errstate(all="ignore"):
            return np.add(np.multiply(a, b, dtype=wide), c, dtype=wide).astype(dtype)[()]


@op("kernel.dot4", Pure, Elementwise)
class Dot4(Op):
    """c + the sum of four products of bytes: those of `a`, read without a sign, by those of `b`, read with one.

        %next = kernel.dot4 %a, %b, %acc : vector<16xi32>

    Scalars or vectors, all three of one type, whose elements are i32; the sum wraps around. It is exact on every machine, and one
    instruction where there is one.
    """

    a = operand()
    b = operand()
    c = operand()

    @staticmethod
    def infer(a: Type, b: Type, c: Type) -> Type:
        check_type(scalar_of(a) == i32, f"expected words of i32 but got {a}")
        check_type(a == b == c, f"expected equal types but got {a}, {b} and {c}")
        return a

    @staticmethod
    def reference(a: Any, b: Any, c: Any) -> Any:
        left, right = np.ascontiguousarray(a, np.int32).reshape(-1), np.ascontiguousarray(b, np.int32).reshape(-1)
        products = left.view(np.uint8).astype(np.int32) * right.view(np.int8)
        with np.errstate(over="ignore"):
            return (np.asarray(c, np.int32) + products.reshape(-1, 4).sum(-1, dtype=np.int32).reshape(np.shape(c)))[()]


@op("kernel.dot2", Pure, Elementwise)
class Dot2(Op):
    """c + the sum of two products of 16-bit numbers: the halves of `a` by those of `b`, both read with a sign.

        %next = kernel.dot2 %a, %b, %acc : vector<8xi32>

    Scalars or vectors, all three of one type, whose elements are i32; the sum wraps around. It is exact on every machine, and one
    multiplication on x86.
    """

    a = operand()
    b = operand()
    c = operand()

    @staticmethod
    def infer(a: Type, b: Type, c: Type) -> Type:
        return Dot4.infer(a, b, c)

    @staticmethod
    def reference(a: Any, b: Any, c: Any) -> Any:
        left, right = (np.ascontiguousarray(x, np.int32).reshape(-1).view(np.int16).astype(np.int64) for x in (a, b))
        total = np.asarray(c, np.int64) + (left * right).reshape(-1, 2).sum(-1).reshape(np.shape(c))
        return total.astype(np.int32)[()]


@op("kernel.broadcast", Pure)
class Broadcast(Op):
    """The same scalar in every lane of a vector.

        %v = kernel.broadcast %x {lanes = 16} : vector<16xf32>      // %x: f32

    With one lane it is the scalar itself: there is no vector of one lane. The result has `lanes` lanes, up to 1024.
    """

    x = operand()
    lanes = attr(int)

    @staticmethod
    def infer(x: Type, *, lanes: int) -> Type:
        check_type(isinstance(x, ScalarType), f"expected a scalar but got {x}")
        return of_lanes(scalar_of(x), lanes)

    @staticmethod
    def reference(x: Any, *, lanes: int) -> Any:
        return x if lanes == 1 else np.full(lanes, x)


@op("kernel.reduce", Pure, accuracy=reduction_accuracy)
class Reduce(Op):
    """All lanes of a vector combined into one scalar by `fn`.

        %s = kernel.reduce %v {fn = "add"} : f32      // %v: vector<16xf32>

    The upper half is combined with the lower half until one lane is left, so the order is fixed; the number of lanes is a power of two.
    """

    x = operand()
    fn = attr(str, choices=REDUCTIONS)

    @staticmethod
    def infer(x: Type, *, fn: str) -> Type:
        dtype, lanes = scalar_of(x), lanes_of(x)
        check_attr(lanes & (lanes - 1) == 0, f"expected a power of two as the number of lanes but got {lanes}")
        return scalar_function(fn).result_type((dtype, dtype))

    @staticmethod
    def reference(x: Any, *, fn: str) -> Any:
        x = np.asarray(x).reshape(-1)
        while len(x) > 1:
            half = len(x) // 2
            x = apply_scalar(fn, (x[:half], x[half:]))
        return x[0]


@op("kernel.iota", Pure, ConstantLike)
class Iota(Op):
    """The numbers 0 … lanes - 1, one per lane.

        %lane = kernel.iota {lanes = 16} : vector<16xindex>

    With one lane it is the scalar 0. The result has `lanes` lanes.
    """

    lanes = attr(int)

    @staticmethod
    def infer(*, lanes: int) -> Type:
        return of_lanes(index, lanes)

    @staticmethod
    def reference(*, lanes: int) -> Any:
        return np.arange(lanes, dtype=np.int64) if lanes > 1 else np.int64(0)


@op("kernel.lane_mask", Pure)
class LaneMask(Op):
    """A mask that is on for the first `n` lanes.

        %mask = kernel.lane_mask %left {lanes = 16} : vector<16xi1>      // %left: index

    None for n <= 0, all for n >= lanes: what is left of a loop over whole vectors. The result has `lanes` lanes.
    """

    n = operand()
    lanes = attr(int)

    @staticmethod
    def infer(n: Type, *, lanes: int) -> Type:
        check_index(n, "the number of lanes that are on")
        return of_lanes(i1, lanes)

    @staticmethod
    def reference(n: Any, *, lanes: int) -> Any:
        return np.arange(lanes) < n if lanes > 1 else np.bool_(n > 0)


@op("kernel.shuffle", Pure)
class Shuffle(Op):
    """Lanes picked from two vectors laid end to end.

        %even = kernel.shuffle %a, %b {lanes = [0, 2, 4, 6]} : vector<4xf32>

    Entry k of `lanes` says which lane of the pair becomes lane k; each is in [0, 2 * lanes of an operand). The result has as many lanes as
    there are entries, at least two.
    """

    a = operand()
    b = operand()
    lanes = attr(tuple[int, ...])

    @staticmethod
    def infer(a: Type, b: Type, *, lanes: tuple[int, ...]) -> Type:
        check_type(isinstance(a, VectorType) and a == b, f"expected two vectors of one type but got {a} and {b}")
        check_attr(all(0 <= i < 2 * lanes_of(a) for i in lanes), f"expected lanes in [0, {2 * lanes_of(a)}) but got {list(lanes)}")
        check_attr(len(lanes) > 1, "expected at least two lanes; 'kernel.extract' takes one")
        return of_lanes(scalar_of(a), len(lanes))

    @staticmethod
    def reference(a: Array, b: Array, *, lanes: tuple[int, ...]) -> Any:
        return np.concatenate([a, b])[list(lanes)]


@op("kernel.permute", Pure)
class Permute(Op):
    """The lanes of a vector, each from where another vector says.

        %w = kernel.permute %v, %places : vector<16xf32>      // %v: vector<16xf32>, %places: vector<16xi32>

    Entry k of `places` says which lane of `x` becomes lane k, by its lowest bits: lanes are a power of two, and counted round.
    """

    x = operand()
    places = operand()

    @staticmethod
    def infer(x: Type, places: Type) -> Type:
        lanes = lanes_of(x)
        check_type(scalar_of(places) == i32, f"expected places of i32 but got {places}")
        check_attr(lanes_of(places) == lanes, f"expected as many places as lanes but got {places} for {x}")
        check_attr(lanes > 1 and lanes & (lanes - 1) == 0, f"expected a power of two as the number of lanes but got {lanes}")
        return x

    @staticmethod
    def reference(x: Array, places: Array) -> Any:
        return x[places & (len(x) - 1)]


@op("kernel.reinterpret", Pure)
class Reinterpret(Op):
    """The bits of a vector as elements of another type: the lowest bits of a lane are those of the first of the narrower elements that it
    becomes.

        %b = kernel.reinterpret %x {dtype = ui8} : vector<64xui8>      // %x: vector<16xf32>

    `dtype` is a type of numbers. The result has as many bits as the operand, and so as many lanes as they make.
    """

    x = operand()
    dtype = attr(ScalarType)

    @staticmethod
    def infer(x: Type, *, dtype: ScalarType) -> Type:
        found, bits = scalar_of(x), lanes_of(x) * scalar_of(x).bits
        check_type(found.kind in "fiu" and dtype.kind in "fiu", f"expected numbers to be seen as numbers but got {found} and {dtype}")
        check_attr(bits % dtype.bits == 0, f"expected a type of which {bits} bits are whole elements but got {dtype}")
        return of_lanes(dtype, bits // dtype.bits)

    @staticmethod
    def reference(x: Any, *, dtype: ScalarType) -> Any:
        found = np.atleast_1d(x).view(dtype.np)
        return found if found.size > 1 else found[0]


@op("kernel.extract", Pure)
class Extract(Op):
    """One lane of a vector as a scalar.

        %s = kernel.extract %v {lane = 3} : f32      // %v: vector<16xf32>

    `lane` is known ahead of time and inside the vector.
    """

    x = operand()
    lane = attr(int)

    @staticmethod
    def infer(x: Type, *, lane: int) -> Type:
        check_attr(0 <= lane < lanes_of(x), f"expected 'lane' in [0, {lanes_of(x)}) but got {lane}")
        return scalar_of(x)

    @staticmethod
    def reference(x: Any, *, lane: int) -> Any:
        return np.asarray(x).reshape(-1)[lane]


@op("kernel.insert", Pure)
class Insert(Op):
    """The vector with the lane `lane` replaced by `value`.

        %w = kernel.insert %v, %s {lane = 3} : vector<16xf32>      // %s: f32

    `value` has the vector's element type; the vector that was given stays as it is.
    """

    x = operand()
    value = operand()
    lane = attr(int)

    @staticmethod
    def infer(x: Type, value: Type, *, lane: int) -> Type:
        check_attr(0 <= lane < lanes_of(x), f"expected 'lane' in [0, {lanes_of(x)}) but got {lane}")
        check_type(value == scalar_of(x), f"expected a scalar of {scalar_of(x)} but got {value}")
        return x

    @staticmethod
    def reference(x: Any, value: Any, *, lane: int) -> Any:
        if np.ndim(x) == 0:
            return value
        copy = x.copy()
        copy[lane] = value
        return copy
