"""The `kernel` level: how a thing is computed. Loops over buffers, scalars and vectors in registers, independent iterations.

A module has a `main` and kernels, all of them `func.func` without results. Arguments are buffers (row-major memory) and, for kernels, also `index`
values; `main` takes inputs, parameters and constants first and the outputs last, allocates what lies between, and calls the kernels in order.

Conventions of the whole dialect:

- A memory position is one `index`: the linear element offset into the buffer, whatever the buffer's shape.
- `lanes` = 1 means a scalar, more means a `vector<lanes x …>`; there is no vector of one lane. So code written for `lanes` lanes holds for one too.
- A mask is an `i1` per lane. Lanes that are off touch no memory (their positions may lie anywhere), and are loaded as 0.
- The meaning on numpy is strict: a position outside the buffer is an error, and memory from `alloc` starts as nan (or a large number), so that a read
  before the first write shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.ir.attributes import Dense, Number, SymbolRef
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import Commutative, ConstantLike, Elementwise, Pure, Terminator, attr, op, operand, optional, region, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, PolyremeError, check
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve
from polyreme.ir.scalar import apply_scalar, scalar_function
from polyreme.ir.types import BufferType, ScalarType, Type, VectorType, i1, index

Array = np.ndarray[Any, Any]

REDUCTIONS = ("add", "mul", "max", "min", "and", "or")
MAX_LANES = 1024


def lanes_of(type: Type) -> int:
    """1 for a scalar, else the lanes of the vector."""
    if isinstance(type, VectorType):
        return type.lanes
    check(isinstance(type, ScalarType), f"expected a scalar or a vector but got {type}")
    return 1


def of_lanes(dtype: ScalarType, lanes: int) -> ScalarType | VectorType:
    """The register type of `lanes` elements: the scalar itself for one."""
    check(1 <= lanes <= MAX_LANES, f"expected from 1 to {MAX_LANES} lanes but got {lanes}")
    return dtype if lanes == 1 else VectorType(lanes, dtype)


def _scalar_of(type: Type) -> ScalarType:
    check(isinstance(type, (ScalarType, VectorType)), f"expected a scalar or a vector but got {type}")
    assert isinstance(type, (ScalarType, VectorType))
    return type if isinstance(type, ScalarType) else type.dtype


def _check_buffer(type: Type) -> BufferType:
    check(isinstance(type, BufferType), f"expected a buffer but got {type}")
    assert isinstance(type, BufferType)
    return type


def _check_index(type: Type, what: str = "a position") -> None:
    check(type == index, f"expected an index as {what} but got {type}")


def _check_mask(mask: Type | None, lanes: int) -> None:
    check(mask is None or mask == of_lanes(i1, lanes), f"expected a mask of type {of_lanes(i1, lanes)} but got {mask}")


# --- memory


@op("kernel.alloc")
class Alloc(Op):
    """Memory for a buffer: at byte `offset` of the arena in `main` (None until memory is planned), or scratch on the stack of a kernel.

    The arena is aligned to 64 bytes and so is every offset in it; local scratch is aligned to 64 bytes too.

        %tmp = kernel.alloc {shape = [8, 128], dtype = f32, offset = 4096} : buffer<8x128xf32>
    """

    shape = attr(tuple[Dim, ...])
    dtype = attr(ScalarType)
    offset = attr(Dim, default=None)
    space = attr(str, default="arena", choices=("arena", "local"))

    @staticmethod
    def infer(*, shape: tuple[Dim, ...], dtype: ScalarType, offset: Dim | None, space: str) -> Type:
        check(space == "arena" or all(isinstance(d, int) for d in shape), f"expected known sizes for local memory but got {shape}")
        return BufferType(shape, dtype)

    @staticmethod
    def reference(*, shape: tuple[Dim, ...], dtype: ScalarType, offset: Dim | None, space: str) -> Array:
        count = 1
        for dim in shape:
            count *= resolve(dim)
        garbage = np.nan if dtype.is_float or dtype.kind == "c" else True if dtype == i1 else np.iinfo(dtype.np).max
        return np.full(count, garbage, dtype.np)


@op("kernel.data", Pure, ConstantLike)
class Data(Op):
    """Memory that holds a constant array; only read. It stands in `main`, until `outline_constants` makes it an argument of role "constant".

        %w = kernel.data {value = dense<[1.0, 2.0]>} : buffer<2xf32>
    """

    value = attr(Dense)

    @staticmethod
    def infer(*, value: Dense) -> Type:
        return BufferType(value.type.shape, value.type.dtype)

    @staticmethod
    def reference(*, value: Dense) -> Array:
        return value.array.reshape(-1)


@op("kernel.view", Pure)
class View(Op):
    """A part of a buffer as a buffer of its own: the elements from `offset` on, under another shape. Shares the memory.

        %v = kernel.view %x, %start {shape = [16]} : buffer<16xf32>      // %x: buffer<8x16xf32>, %start: index
    """

    buffer = operand()
    offset = optional()
    shape = attr(tuple[Dim, ...])

    @staticmethod
    def infer(buffer: Type, offset: Type | None, *, shape: tuple[Dim, ...]) -> Type:
        if offset is not None:
            _check_index(offset, "the offset")
        return BufferType(shape, _check_buffer(buffer).dtype)

    @staticmethod
    def reference(buffer: Array, offset: Any, *, shape: tuple[Dim, ...]) -> Array:
        flat = _flat(buffer)
        start, count = 0 if offset is None else int(offset), 1
        for dim in shape:
            count *= resolve(dim)
        if start < 0 or start + count > flat.size:
            raise PolyremeError(f"'kernel.view' expected elements within [0, {flat.size}) but got [{start}, {start + count})")
        return flat[start : start + count]


@op("kernel.load")
class Load(Op):
    """`lanes` consecutive elements from position `index` on. `align` promises a multiple of so many bytes; without it, one element's.

        %v = kernel.load %x, %i {lanes = 16} : vector<16xf32>             // %x: buffer<64xf32>, %i: index
        %w = kernel.load %x, %i, %mask {lanes = 16} : vector<16xf32>      // %mask: vector<16xi1>
    """

    buffer = operand()
    index = operand()
    mask = optional()
    lanes = attr(int, default=1)
    align = attr(int, default=None)

    @staticmethod
    def infer(buffer: Type, index: Type, mask: Type | None, *, lanes: int, align: int | None) -> Type:
        _check_index(index)
        _check_mask(mask, lanes)
        _check_align(align)
        return of_lanes(_check_buffer(buffer).dtype, lanes)

    @staticmethod
    def reference(buffer: Array, index: Any, mask: Any, *, lanes: int, align: int | None) -> Any:
        return _read("kernel.load", buffer, index + np.arange(lanes) if lanes > 1 else index, mask)


@op("kernel.store")
class Store(Op):
    """Write `value`, a scalar or a vector of consecutive elements, from position `index` on.

        kernel.store %v, %y, %i             // %v: vector<16xf32>, %y: buffer<64xf32>, %i: index
        kernel.store %v, %y, %i, %mask      // %mask: vector<16xi1>
    """

    value = operand()
    buffer = operand()
    index = operand()
    mask = optional()
    align = attr(int, default=None)

    @staticmethod
    def infer(value: Type, buffer: Type, index: Type, mask: Type | None, *, align: int | None) -> None:
        _check_index(index)
        _check_mask(mask, lanes_of(value))
        _check_align(align)
        dtype = _check_buffer(buffer).dtype
        check(_scalar_of(value) == dtype, f"expected a value of {dtype} for a buffer of {dtype} but got {value}")

    @staticmethod
    def reference(value: Any, buffer: Array, index: Any, mask: Any, *, align: int | None) -> tuple[()]:
        _write("kernel.store", value, buffer, index + np.arange(len(value)) if np.ndim(value) else index, mask)
        return ()


@op("kernel.gather")
class Gather(Op):
    """One element per lane, each from a position of its own.

        %v = kernel.gather %x, %positions : vector<16xf32>      // %x: buffer<64xf32>, %positions: vector<16xindex>
    """

    buffer = operand()
    indices = operand()
    mask = optional()

    @staticmethod
    def infer(buffer: Type, indices: Type, mask: Type | None) -> Type:
        _check_index(_scalar_of(indices), "each position")
        _check_mask(mask, lanes_of(indices))
        return of_lanes(_check_buffer(buffer).dtype, lanes_of(indices))

    @staticmethod
    def reference(buffer: Array, indices: Any, mask: Any) -> Any:
        return _read("kernel.gather", buffer, indices, mask)


@op("kernel.scatter")
class Scatter(Op):
    """Write each lane to a position of its own; where positions are equal, the last lane stays.

        // %v: vector<16xf32>, %y: buffer<64xf32>, %positions: vector<16xindex>, %mask: vector<16xi1>
        kernel.scatter %v, %y, %positions, %mask
    """

    value = operand()
    buffer = operand()
    indices = operand()
    mask = optional()

    @staticmethod
    def infer(value: Type, buffer: Type, indices: Type, mask: Type | None) -> None:
        _check_index(_scalar_of(indices), "each position")
        _check_mask(mask, lanes_of(value))
        dtype = _check_buffer(buffer).dtype
        check(_scalar_of(value) == dtype, f"expected a value of {dtype} for a buffer of {dtype} but got {value}")
        check(lanes_of(value) == lanes_of(indices), f"expected as many positions as lanes but got {indices} for {value}")

    @staticmethod
    def reference(value: Any, buffer: Array, indices: Any, mask: Any) -> tuple[()]:
        _write("kernel.scatter", value, buffer, indices, mask)
        return ()


@op("kernel.prefetch")
class Prefetch(Op):
    """Ask for the cache line of a position ahead of its use; `locality` from 0 (used once) to 3 (keep in all caches). May lie outside the buffer.

        kernel.prefetch %x, %i {locality = 2}      // %x: buffer<64xf32>, %i: index
    """

    buffer = operand()
    index = operand()
    write = attr(bool, default=False)
    locality = attr(int, default=3, choices=(0, 1, 2, 3))

    @staticmethod
    def infer(buffer: Type, index: Type, *, write: bool, locality: int) -> None:
        _check_buffer(buffer)
        _check_index(index)

    @staticmethod
    def reference(buffer: Array, index: Any, *, write: bool, locality: int) -> tuple[()]:
        return ()


def _check_align(align: int | None) -> None:
    check(align is None or (align > 0 and align & (align - 1) == 0), f"expected 'align' to be a power of two but got {align}")


def _flat(buffer: Array) -> Array:
    if buffer.ndim != 1 and not buffer.flags.c_contiguous:
        raise PolyremeError("expected contiguous memory for a buffer but got a strided array")
    return buffer.reshape(-1)


def _check_range(name: str, size: int, positions: Any) -> None:
    if np.size(positions) and (np.min(positions) < 0 or np.max(positions) >= size):
        wrong = np.min(positions) if np.min(positions) < 0 else np.max(positions)
        raise PolyremeError(f"'{name}' expected a position in [0, {size}) but got {wrong}")


def _read(name: str, buffer: Array, positions: Any, mask: Any) -> Any:
    flat = _flat(buffer)
    if mask is None:
        _check_range(name, flat.size, positions)
        return flat[positions]
    positions = np.where(mask, positions, 0)
    _check_range(name, flat.size, positions[mask])
    values = flat[positions] if flat.size else np.zeros(positions.shape, flat.dtype)
    return np.where(mask, values, np.zeros((), flat.dtype))


def _write(name: str, value: Any, buffer: Array, positions: Any, mask: Any) -> None:
    flat = _flat(buffer)
    if mask is not None:
        on = np.asarray(mask)
        positions, value = np.asarray(positions)[on], np.asarray(value)[on]
    _check_range(name, flat.size, positions)
    flat[positions] = value


# --- control


@op("kernel.yield", Terminator)
class Yield(Op):
    """Ends the body of a loop or branch with the values that it passes on.

        %larger = kernel.if %condition : f32 {      // %condition: i1, %a: f32, %b: f32
          kernel.yield %a
        } {
          kernel.yield %b
        }
    """

    values = variadic()

    def __init__(self, *values: Any, loc: Location = UNKNOWN):
        super().__init__(_flat_operands(values), loc=loc)

    @staticmethod
    def infer(values: Sequence[Type]) -> None:
        return None

    @staticmethod
    def reference(values: Sequence[Any]) -> tuple[Any, ...]:
        return ()


def _flat_operands(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Variadic operands may be given one by one or as one sequence."""
    return operands if not operands or isinstance(operands[0], Value) else tuple(operands[0])


def _check_yield(body: Region, types: Sequence[Type], what: str) -> None:
    """A body under construction has no terminator yet; the verifier infers again when it is whole."""
    last = body.block.last
    if isinstance(last, Yield):
        got = [v.type for v in last.operands]
        check(got == list(types), f"expected {what} to yield ({', '.join(map(str, types))}) but got ({', '.join(map(str, got))})")


@op("kernel.for")
class For(Op):
    """Runs the body for iv = lo, lo + step, … below `hi`, one after the other. The body gets `iv` and the carried values, and yields their next ones.

        // %lo: index, %hi: index, %buffer: buffer<64xf32>
        %sum = kernel.for %lo, %hi, %zero {step = 16} : vector<16xf32> { (%i: index, %acc: vector<16xf32>)
          %x = kernel.load %buffer, %i {lanes = 16} : vector<16xf32>
          %next = kernel.apply %acc, %x {fn = "add"} : vector<16xf32>
          kernel.yield %next
        }
    """

    lo = operand()
    hi = operand()
    inits = variadic()
    step = attr(int, default=1)
    body = region()

    @classmethod
    def empty(
        cls, lo: Value, hi: Value, inits: Sequence[Value] = (), step: int = 1, name: str = "i", carried: Sequence[str] = (), loc: Location = UNKNOWN
    ) -> For:
        """A loop whose body has its arguments but no ops yet: append them, and a `Yield`, to `op.block`. `name` and `carried` name the arguments."""
        block = Block([index, *(v.type for v in inits)], [name, *carried])
        return cls(lo, hi, tuple(inits), step=step, body=Region(block), loc=loc)

    @staticmethod
    def infer(lo: Type, hi: Type, inits: Sequence[Type], *, step: int, body: Region) -> tuple[Type, ...]:
        _check_index(lo, "the lower bound")
        _check_index(hi, "the upper bound")
        check(step >= 1, f"expected a positive 'step' but got {step}")
        got = [a.type for a in body.block.args]
        check(got == [index, *inits], f"expected a body with arguments (index{''.join(f', {t}' for t in inits)}) but got ({', '.join(map(str, got))})")
        _check_yield(body, inits, "the body")
        return tuple(inits)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        lo, hi, *carried = args
        for iv in range(int(lo), int(hi), self.step):
            carried = list(run_region(self.body, [np.int64(iv), *carried]))
        return carried


@op("kernel.parallel")
class Parallel(Op):
    """Runs the body for iv = 0 … count - 1 in any order and at the same time; a thread takes at least `grain` of them at once.

    No iteration may write what another one reads or writes. On numpy they run backwards, so that a dependence shows.

        kernel.parallel %rows {grain = 4} { (%i: index)      // %rows: index
          kernel.yield
        }
    """

    count = operand()
    grain = attr(int, default=1)
    body = region()

    @classmethod
    def empty(cls, count: Value, grain: int = 1, name: str = "i", loc: Location = UNKNOWN) -> Parallel:
        """A loop whose body has its argument but no ops yet: append them, and a `Yield`, to `op.block`."""
        return cls(count, grain=grain, body=Region(Block([index], [name])), loc=loc)

    @staticmethod
    def infer(count: Type, *, grain: int, body: Region) -> None:
        _check_index(count, "the count")
        check(grain >= 1, f"expected a positive 'grain' but got {grain}")
        check([a.type for a in body.block.args] == [index], "expected a body with one argument, an index")
        _check_yield(body, (), "the body")

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        for iv in reversed(range(int(args[0]))):
            run_region(self.body, [np.int64(iv)])
        return ()


@op("kernel.if")
class If(Op):
    """Runs one of two bodies and gives what it yields; both yield the same types.

        %r = kernel.if %condition : f32 {      // %condition: i1
          kernel.yield %a
        } {
          kernel.yield %b
        }
    """

    condition = operand()
    then_body = region()
    else_body = region()

    @classmethod
    def empty(cls, condition: Value, result_types: Sequence[Type] = (), loc: Location = UNKNOWN) -> If:
        """A branch whose bodies have no ops yet: append them, and a `Yield`, to the blocks of `then_body` and `else_body`."""
        return cls.build([condition], {}, [Region(Block()), Region(Block())], result_types, loc)

    @staticmethod
    def infer(condition: Type, *, then_body: Region, else_body: Region) -> tuple[Type, ...]:
        check(condition == i1, f"expected an i1 as the condition but got {condition}")
        check(not then_body.block.args and not else_body.block.args, "expected bodies without arguments")
        last = then_body.block.last
        check(isinstance(last, Yield), "expected the first body to end with 'kernel.yield'")
        assert last is not None
        types = tuple(v.type for v in last.operands)
        _check_yield(else_body, types, "the second body")
        return types

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        results: Sequence[Any] = run_region(self.then_body if args[0] else self.else_body, [])
        return results


@op("kernel.call")
class Call(Op):
    """Runs the kernel `callee` of the same module on buffers and index values. Kernels never call themselves, directly or not.

        func @nothing(%x: buffer<8xf32>, %n: index) {
          return
        }
        func @main(%x: buffer<8xf32>) {
          %n = kernel.size {value = 8} : index
          kernel.call %x, %n {callee = @nothing}
          return
        }
    """

    args = variadic()
    callee = attr(SymbolRef)

    def __init__(self, *args: Any, callee: SymbolRef | str, loc: Location = UNKNOWN):
        super().__init__(_flat_operands(args), callee=callee, loc=loc)

    @staticmethod
    def infer(args: Sequence[Type], *, callee: SymbolRef) -> None:
        for type in args:
            check(isinstance(type, BufferType) or type == index, f"expected buffers and index values but got {type}")


# --- values


@op("kernel.constant", Pure, ConstantLike)
class Constant(Op):
    """A known number. Infinities and nan are fine for floats; integers are taken modulo the type's range on machines, so give them in range.

        %zero = kernel.constant {value = 0.0, dtype = f32} : f32
    """

    value = attr(Number)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, value: bool | float, dtype: ScalarType) -> Type:
        check(dtype.kind != "c", f"expected a real type but got {dtype}")
        if dtype.is_integer:
            limits = np.iinfo(dtype.np)
            fits = not isinstance(value, float) and limits.min <= value <= limits.max
            check(fits, f"expected a whole number from {limits.min} to {limits.max} for {dtype} but got {value}")
        return dtype

    @staticmethod
    def reference(*, value: bool | float, dtype: ScalarType) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(dtype.np)[()]


@op("kernel.size", Pure, ConstantLike)
class Size(Op):
    """A size of the model as a number: known when the model runs.

        %n = kernel.size {value = 4*N+1} : index
    """

    value = attr(Dim)

    @staticmethod
    def infer(*, value: Dim) -> Type:
        return index

    @staticmethod
    def reference(*, value: Dim) -> Any:
        return np.int64(resolve(value))


@op("kernel.apply", Pure, Elementwise)
class Apply(Op):
    """A scalar function (a row of `ir/scalar.py`) on scalars, or lane by lane on vectors of equal length. `cast` takes the new `dtype`.

        %s = kernel.apply %a, %b {fn = "add"} : vector<16xf32>
        %h = kernel.apply %a {fn = "cast", dtype = f16} : vector<16xf16>
    """

    xs = variadic()
    fn = attr(str)
    dtype = attr(ScalarType, default=None)

    def __init__(self, *xs: Any, fn: str, dtype: ScalarType | None = None, loc: Location = UNKNOWN):
        super().__init__(_flat_operands(xs), fn=fn, dtype=dtype, loc=loc)

    @staticmethod
    def infer(xs: Sequence[Type], *, fn: str, dtype: ScalarType | None) -> Type:
        row = scalar_function(fn)
        result = row.result_type(tuple(_scalar_of(x) for x in xs), dtype)
        lanes = lanes_of(xs[0])
        check(all(lanes_of(x) == lanes for x in xs), f"expected operands of equal length but got {', '.join(map(str, xs))}")
        return of_lanes(result, lanes)

    @staticmethod
    def reference(xs: Sequence[Any], *, fn: str, dtype: ScalarType | None) -> Any:
        return apply_scalar(fn, tuple(map(np.asarray, xs)), dtype)[()]


@op("kernel.fma", Pure, Elementwise, Commutative)
class Fma(Op):
    """a * b + c, rounded once where the target has such an instruction, else twice.

        %next = kernel.fma %a, %b, %acc : vector<16xf32>
    """

    a = operand()
    b = operand()
    c = operand()

    @staticmethod
    def infer(a: Type, b: Type, c: Type) -> Type:
        check(_scalar_of(a).is_float, f"expected floats but got {a}")
        check(a == b == c, f"expected equal types but got {a}, {b} and {c}")
        return a

    @staticmethod
    def reference(a: Any, b: Any, c: Any) -> Any:
        # In float64 the product of two float32 is exact, so the sum is rounded once (twice in rare ties, and for float64 itself).
        wide = np.float64 if np.asarray(a).dtype.itemsize < 8 else np.longdouble
        with np.errstate(all="ignore"):
            return (np.asarray(a, wide) * np.asarray(b, wide) + np.asarray(c, wide)).astype(np.asarray(a).dtype)[()]


@op("kernel.broadcast", Pure)
class Broadcast(Op):
    """The same scalar in every lane.

        %v = kernel.broadcast %x {lanes = 16} : vector<16xf32>      // %x: f32
    """

    x = operand()
    lanes = attr(int)

    @staticmethod
    def infer(x: Type, *, lanes: int) -> Type:
        check(isinstance(x, ScalarType), f"expected a scalar but got {x}")
        return of_lanes(_scalar_of(x), lanes)

    @staticmethod
    def reference(x: Any, *, lanes: int) -> Any:
        return x if lanes == 1 else np.full(lanes, x)


@op("kernel.reduce", Pure)
class Reduce(Op):
    """All lanes of a vector in one scalar. The upper half is combined with the lower half until one lane is left, so the order is fixed.

        %s = kernel.reduce %v {fn = "add"} : f32      // %v: vector<16xf32>
    """

    x = operand()
    fn = attr(str, choices=REDUCTIONS)

    @staticmethod
    def infer(x: Type, *, fn: str) -> Type:
        dtype, lanes = _scalar_of(x), lanes_of(x)
        check(lanes & (lanes - 1) == 0, f"expected a power of two as the number of lanes but got {lanes}")
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
    """The numbers 0 … lanes - 1.

        %lane = kernel.iota {lanes = 16} : vector<16xindex>
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
    """On for the first `n` lanes (none for n <= 0, all for n >= lanes).

        %mask = kernel.lane_mask %left {lanes = 16} : vector<16xi1>      // %left: index
    """

    n = operand()
    lanes = attr(int)

    @staticmethod
    def infer(n: Type, *, lanes: int) -> Type:
        _check_index(n, "the number of lanes that are on")
        return of_lanes(i1, lanes)

    @staticmethod
    def reference(n: Any, *, lanes: int) -> Any:
        return np.arange(lanes) < n if lanes > 1 else np.bool_(n > 0)


@op("kernel.shuffle", Pure)
class Shuffle(Op):
    """Lanes picked from two vectors laid end to end: entry k of `lanes` says which lane becomes lane k.

        %even = kernel.shuffle %a, %b {lanes = [0, 2, 4, 6]} : vector<4xf32>
    """

    a = operand()
    b = operand()
    lanes = attr(tuple[int, ...])

    @staticmethod
    def infer(a: Type, b: Type, *, lanes: tuple[int, ...]) -> Type:
        check(isinstance(a, VectorType) and a == b, f"expected two vectors of one type but got {a} and {b}")
        check(all(0 <= i < 2 * lanes_of(a) for i in lanes), f"expected lanes in [0, {2 * lanes_of(a)}) but got {list(lanes)}")
        check(len(lanes) > 1, "expected at least two lanes; 'kernel.extract' takes one")
        return of_lanes(_scalar_of(a), len(lanes))

    @staticmethod
    def reference(a: Array, b: Array, *, lanes: tuple[int, ...]) -> Any:
        return np.concatenate([a, b])[list(lanes)]


@op("kernel.extract", Pure)
class Extract(Op):
    """One lane of a vector.

        %s = kernel.extract %v {lane = 3} : f32      // %v: vector<16xf32>
    """

    x = operand()
    lane = attr(int)

    @staticmethod
    def infer(x: Type, *, lane: int) -> Type:
        check(0 <= lane < lanes_of(x), f"expected 'lane' in [0, {lanes_of(x)}) but got {lane}")
        return _scalar_of(x)

    @staticmethod
    def reference(x: Any, *, lane: int) -> Any:
        return np.asarray(x).reshape(-1)[lane]


@op("kernel.insert", Pure)
class Insert(Op):
    """The vector with one lane replaced.

        %w = kernel.insert %v, %s {lane = 3} : vector<16xf32>      // %s: f32
    """

    x = operand()
    value = operand()
    lane = attr(int)

    @staticmethod
    def infer(x: Type, value: Type, *, lane: int) -> Type:
        check(0 <= lane < lanes_of(x), f"expected 'lane' in [0, {lanes_of(x)}) but got {lane}")
        check(value == _scalar_of(x), f"expected a scalar of {_scalar_of(x)} but got {value}")
        return x

    @staticmethod
    def reference(x: Any, value: Any, *, lane: int) -> Any:
        if np.ndim(x) == 0:
            return value
        copy = x.copy()
        copy[lane] = value
        return copy
