"""What blocks of sm_90a do beside that of `grid.py`: counted barriers in shared memory, copies of whole boxes that complete on them, and
products of tiles in shared memory by warpgroups (four warps, 128 threads).

A counted barrier (PTX calls it an mbarrier) goes through phases. A phase ends when as many threads as were said at the beginning have
arrived and all bytes that are expected in it have been copied. Who waits says the phase's parity: 0 for the first one, 1 for the second
one, 0 for the third one, and so on. A barrier may be waited for with the parity of the phase before the current one, which is over: so
waiting for parity 1 of a fresh barrier goes on at once.

Tiles in shared memory are lines of 64 elements of 16 bits, 128 bytes, at a multiple of 1024 bytes. The 16-byte pieces of a line are
permuted: piece p of line l lies where piece p ^ (l % 8) would, so that eight lines' pieces of one column fill all banks. `swizzled` is that
permutation, which copies write and products read.

On numpy a copy is done as soon as it begins, and a product too: that nobody looks too early is for the PTX runner to find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import Array, check_buffer, check_index, check_mask, flat_memory, flat_operands, scalar_of
from polyreme.dialects.kernel.lockstep import WARP, Meeting, this_thread
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op, Value
from polyreme.ir.define import attr, op, operand, optional, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, PolyremeError, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve_all
from polyreme.ir.types import Type, VectorType, bf16, f16, f32, i64

# Threads of a warpgroup, rows of a product, and elements of a line of a tile.
WARPGROUP = 128
WGMMA_ROWS, WGMMA_DEPTH = 64, 16
LINE = 64
MOST_ARRIVALS = (1 << 20) - 1
# Bytes that a barrier can expect in a phase.
MOST_EXPECTED = (1 << 20) - 1
MOST_AXES = 5
MOST_BOX = 256


def swizzled(places: Any) -> Any:
    """Where elements of 16 bits lie whose places in lines of 64, without the permutation, are these."""
    return places ^ (((places >> 6) & 7) << 3)


def _check_barriers(barriers: Type, index: Type) -> None:
    check_index(index, "the number of a barrier")
    dtype = check_buffer(barriers).dtype
    check_type(dtype == i64, f"expected barriers in a buffer of i64 but got one of {dtype}")


# --- counted barriers


class CountedBarrier:
    """A barrier on numpy: how many arrivals a phase needs and still lacks, the bytes that it lacks, and how many phases are over."""

    def __init__(self, count: int):
        self.count, self.lacking, self.bytes, self.phases = count, count, 0, 0

    def arrive(self) -> None:
        if self.lacking == 0:
            raise PolyremeError(f"a barrier expected {self.count} arrivals in a phase but got one more", code="E0309")
        self.lacking -= 1
        self.turn()

    def turn(self) -> None:
        """Begin the next phase where this one is over."""
        if self.lacking == 0 and self.bytes == 0:
            self.lacking = self.count
            self.phases += 1

    def is_over(self, parity: int) -> bool:
        return self.phases % 2 != parity


def _place(barriers: Array, index: Any) -> tuple[int, int]:
    """By what a barrier is known in its block."""
    return int(flat_memory(barriers).__array_interface__["data"][0]), int(index)


def _barrier(name: str, barriers: Array, index: Any) -> CountedBarrier:
    found = this_thread(name).shared.barriers.get(_place(barriers, index))
    if not isinstance(found, CountedBarrier):
        raise PolyremeError(f"'{name}' expected a barrier that was made but got number {int(index)}", code="E0309")
    return found


@op("kernel.counted_init")
class CountedInit(Op):
    """Makes a counted barrier of each element of a buffer in shared memory, of which each phase needs so many arrivals as `counts` says.

        kernel.counted_init %barriers {counts = [1, 8]}      // %barriers: buffer<2xi64>

    One thread of the block does it; the others may use them after a `kernel.barrier`.
    """

    barriers = operand()
    counts = attr(tuple[int, ...])

    @staticmethod
    def infer(barriers: Type, *, counts: tuple[int, ...]) -> None:
        type = check_buffer(barriers)
        check_type(type.dtype == i64, f"expected barriers in a buffer of i64 but got one of {type.dtype}")
        check_attr(type.elements == len(counts), f"expected a count for each of {type.elements} barriers but got {len(counts)}")
        check_attr(all(1 <= n <= MOST_ARRIVALS for n in counts), f"expected from 1 to {MOST_ARRIVALS} arrivals but got {list(counts)}")

    @staticmethod
    def reference(barriers: Array, *, counts: tuple[int, ...]) -> tuple[()]:
        made = this_thread("kernel.counted_init").shared.barriers
        for i, count in enumerate(counts):
            made[_place(barriers, i)] = CountedBarrier(count)
        return ()


@op("kernel.counted_expect")
class CountedExpect(Op):
    """Arrives at barrier number `index`, and has its phase wait for so many `bytes` of copies, too.

        func @example(%barriers: buffer<2xi64>) {
          kernel.counted_init %barriers {counts = [1, 1]}
          %i = kernel.size {value = 0} : index
          kernel.counted_expect %barriers, %i {bytes = 16384}
          return
        }

    At most 2^20 - 1 bytes.
    """

    barriers = operand()
    index = operand()
    bytes = attr(int)

    @staticmethod
    def infer(barriers: Type, index: Type, *, bytes: int) -> None:
        _check_barriers(barriers, index)
        check_attr(0 <= bytes <= MOST_EXPECTED, f"expected at most {MOST_EXPECTED} bytes but got {bytes}")

    @staticmethod
    def reference(barriers: Array, index: Any, *, bytes: int) -> tuple[()]:
        found = _barrier("kernel.counted_expect", barriers, index)
        found.bytes += bytes
        found.arrive()
        return ()


@op("kernel.counted_arrive")
class CountedArrive(Op):
    """Arrives at barrier number `index`, where `mask`, if it is there, is on. Those who wait for the phase see what this thread did before.

    The phase ends when as many have arrived as `kernel.counted_init` said for the barrier, and all bytes that are expected of copies are
    there. One arrival too many for a phase counts for the next one.

        func @example(%barriers: buffer<2xi64>) {
          kernel.counted_init %barriers {counts = [1, 1]}
          %i = kernel.size {value = 0} : index
          kernel.counted_arrive %barriers, %i
          return
        }
    """

    barriers = operand()
    index = operand()
    mask = optional()

    @staticmethod
    def infer(barriers: Type, index: Type, mask: Type | None) -> None:
        _check_barriers(barriers, index)
        check_mask(mask, 1)

    @staticmethod
    def reference(barriers: Array, index: Any, mask: Any) -> tuple[()]:
        if mask is None or mask:
            _barrier("kernel.counted_arrive", barriers, index).arrive()
        return ()


@op("kernel.counted_wait")
class CountedWait(Op):
    """Waits until the phase of barrier number `index` that has this `parity` (0 or 1) is over.

        func @example(%barriers: buffer<2xi64>) {
          kernel.counted_init %barriers {counts = [1, 1]}
          %i = kernel.size {value = 0} : index
          kernel.counted_arrive %barriers, %i
          kernel.counted_wait %barriers, %i, %i
          return
        }

    What the phase's copies brought is there for this thread then. When no thread can go on, that is an error on numpy.
    """

    barriers = operand()
    index = operand()
    parity = operand()

    @staticmethod
    def infer(barriers: Type, index: Type, parity: Type) -> None:
        _check_barriers(barriers, index)
        check_index(parity, "a parity")

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        found, parity = _barrier(self.name, args[0], args[1]), int(args[2])
        if parity not in (0, 1):
            raise PolyremeError(f"'{self.name}' expected a parity of 0 or 1 but got {parity}", code="E0309")
        if not found.is_over(parity):
            this_thread(self.name).meet(Meeting(self, 1, None, tuple, lambda: found.is_over(parity)))
        return ()


# --- copies of boxes


@op("kernel.copy_box")
class CopyBox(Op):
    """Begin to copy a box of an array in device memory to a tile in shared memory; barrier number `index` counts its bytes when they have
    arrived.

        func @example(%x: buffer<3x72xbf16>, %tile: buffer<256xbf16>, %barriers: buffer<2xi64>) {
          kernel.counted_init %barriers {counts = [1, 1]}
          %i = kernel.size {value = 0} : index
          kernel.counted_expect %barriers, %i {bytes = 512}
          kernel.copy_box %x, %tile, %i, %barriers, %i, %i, %i {sizes = [72, 3], strides = [72], box = [64, 4]}
          return
        }

    The array has from 2 to 5 axes, the first one fastest: `sizes`, and the elements between neighbours along each axis but the first one,
    whose elements lie side by side (`strides`, multiples of 8 elements). It begins at element `start` of its buffer, a multiple of 8. The
    `box` has so many elements along each axis, and begins at the coordinates; what of it lies outside of the array is zeros, and is
    counted. Along the first axis it has 64 elements of 16 bits, a line of the tile; the tile begins at element `at`, a multiple of 512. One
    thread does it.
    """

    source = operand()
    target = operand()
    at = operand()
    barriers = operand()
    index = operand()
    coordinates = variadic()
    sizes = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...])
    box = attr(tuple[int, ...])
    start = attr(Dim, default=0)

    def __init__(
        self,
        source: Value,
        target: Value,
        at: Value,
        barriers: Value,
        index: Value,
        *coordinates: Any,
        sizes: Sequence[Dim],
        strides: Sequence[Dim],
        box: Sequence[int],
        start: Dim = 0,
        loc: Location = UNKNOWN,
    ):
        super().__init__(
            source,
            target,
            at,
            barriers,
            index,
            flat_operands(coordinates),
            sizes=tuple(sizes),
            strides=tuple(strides),
            box=tuple(box),
            start=start,
            loc=loc,
        )

    @staticmethod
    def infer(
        source: Type,
        target: Type,
        at: Type,
        barriers: Type,
        index: Type,
        coordinates: Sequence[Type],
        *,
        sizes: tuple[Dim, ...],
        strides: tuple[Dim, ...],
        box: tuple[int, ...],
        start: Dim,
    ) -> None:
        check_index(at)
        _check_barriers(barriers, index)
        for c in coordinates:
            check_index(c, "a coordinate")
        dtype = check_buffer(source).dtype
        check_type(dtype.bits == 16 and dtype == check_buffer(target).dtype, f"expected 16-bit elements but got {source} and {target}")
        axes = len(sizes)
        check_attr(2 <= axes <= MOST_AXES, f"expected from 2 to {MOST_AXES} axes but got {axes}")
        check_attr(
            len(strides) == axes - 1 and len(box) == axes and len(coordinates) == axes,
            f"expected a size, a stride (but for the first axis), a box and a coordinate for each of {axes} axes",
        )
        check_attr(
            box[0] == LINE and all(1 <= n <= MOST_BOX for n in box), f"expected a box of {LINE} and up to {MOST_BOX} but got {list(box)}"
        )
        for n in (start, *strides):
            check_attr(not isinstance(n, int) or (n >= 0 and n % 8 == 0), f"expected a start and strides of whole 8 elements but got {n}")

    @property
    def bytes(self) -> int:
        """What the barrier counts."""
        return 2 * int(np.prod(self.box))

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        source, target, at, barriers, index, *coordinates = args
        memory, tile, at = flat_memory(source), flat_memory(target), int(at)
        sizes, strides, (start,) = resolve_all(self.sizes), resolve_all(self.strides), resolve_all((self.start,))
        if any(n % 8 for n in (start, *strides)):
            raise PolyremeError(f"'{self.name}' expected whole 8 elements but got start {start} and strides {list(strides)}", code="E0309")
        if at % 512 or at < 0 or at + self.bytes // 2 > tile.size:
            raise PolyremeError(f"'{self.name}' expected a tile of {self.bytes // 2} in {tile.size} elements but got {at}", code="E0309")
        values = box_of(memory[start:], [int(c) for c in coordinates], sizes, (1, *strides), self.box)
        tile[at + swizzled(np.arange(values.size))] = values
        found = _barrier(self.name, barriers, index)
        found.bytes -= self.bytes
        found.turn()
        return ()


def box_of(memory: Array, start: Sequence[int], sizes: Sequence[int], strides: Sequence[int], box: Sequence[int]) -> Array:
    """The elements of a box, the first axis fastest, with zeros for those outside of the array."""
    places: Array = np.zeros((), np.int64)
    inside: Array = np.ones((), bool)
    for first, size, stride, count in zip(start, sizes, strides, box, strict=True):
        along = first + np.arange(count)
        places = (along * stride).reshape(-1, *[1] * places.ndim) + places
        inside = ((along >= 0) & (along < size)).reshape(-1, *[1] * inside.ndim) & inside
    places, inside = places.reshape(-1), inside.reshape(-1)
    values = np.zeros(places.size, memory.dtype)
    wanted = places[inside]
    if wanted.size and (wanted.min() < 0 or wanted.max() >= memory.size):
        raise PolyremeError(f"'kernel.copy_box' expected an array in a buffer of {memory.size} elements", code="E0309")
    values[inside] = memory[wanted]
    return values


# --- products of warpgroups


def _meet_group(op: Op, value: Any, answer: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
    return this_thread(op.name).meet(Meeting(op, WARPGROUP, value, answer))


def _check_sums(sums: Sequence[Type]) -> Sequence[Type]:
    for type in sums:
        check_type(isinstance(type, VectorType) and scalar_of(type) == f32, f"expected vectors of f32 but got {type}")
    return list(sums)


def _nothing(values: Sequence[Any]) -> Sequence[Any]:
    return [None] * len(values)


@op("kernel.wgmma_fence")
class WgmmaFence(Op):
    """Puts what this warpgroup did to its sums before the products that follow, which take the sums that this gives. It stands in front of
    each row of products.

        %ready = kernel.wgmma_fence %sums : vector<64xf32>      // %sums: vector<64xf32>

    The sums of products under way may be given, too.
    """

    sums = variadic()

    def __init__(self, *sums: Any, loc: Location = UNKNOWN):
        super().__init__(flat_operands(sums), loc=loc)

    @staticmethod
    def infer(sums: Sequence[Type]) -> Sequence[Type]:
        return _check_sums(sums)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        _meet_group(self, None, _nothing)
        return tuple(args)


def sum_places(columns: int) -> tuple[Array, Array]:
    """Row and column of each sum of each thread of a warpgroup, as arrays [128, columns / 2]."""
    thread, i = np.arange(WARPGROUP)[:, None], np.arange(columns // 2)[None, :]
    lane = thread % WARP
    return 16 * (thread // WARP) + lane // 4 + 8 * (i % 4 // 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2


def tile_places(lines: int, depth: int, transpose: bool, apart: int) -> Array:
    """Where the elements [lines, depth] of an operand lie from its first one on, without the permutation."""
    line, k = np.arange(lines)[:, None], np.arange(depth)[None, :]
    return line // LINE * apart + k * LINE + line % LINE if transpose else line * LINE + k


@op("kernel.wgmma", accuracy=SUM)
class Wgmma(Op):
    """Begins a @ b + sums by the tensor cores for a warpgroup: 64 x 16 elements of `a` and 16 x `columns` of `b`, both in shared memory.

        // %a: buffer<8192xbf16>, %i: index, %b: buffer<8192xbf16>, %j: index, %sums: vector<64xf32>
        %after = kernel.wgmma %a, %i, %b, %j, %sums {columns = 128} : vector<64xf32>

    An operand begins at an element of a tile (`swizzled`) whose lines go along the depth: rows of `a`, columns of `b`. With `transpose_a`
    or `transpose_b` its lines are steps of the depth and go along rows or columns; those beyond 64 lie `apart_a` or `apart_b` elements
    behind. `columns` is a multiple of 8 up to 256. Thread 32w + 4g + t has the sums of rows 16w + g and 16w + g + 8, of columns 8j + 2t and
    8j + 2t + 1: `sum_places`. Elements are bf16 or f16, sums float32, their order open. The sums may only be the sums of another product
    until a `kernel.wgmma_wait` gives them; until one gives those of a later product, nobody may write to the tiles.
    """

    a = operand()
    at_a = operand()
    b = operand()
    at_b = operand()
    sums = operand()
    columns = attr(int)
    transpose_a = attr(bool, default=False)
    transpose_b = attr(bool, default=False)
    apart_a = attr(int, default=0)
    apart_b = attr(int, default=0)

    @staticmethod
    def infer(
        a: Type,
        at_a: Type,
        b: Type,
        at_b: Type,
        sums: Type,
        *,
        columns: int,
        transpose_a: bool,
        transpose_b: bool,
        apart_a: int,
        apart_b: int,
    ) -> Type:
        check_index(at_a)
        check_index(at_b)
        dtype = check_buffer(a).dtype
        check_type(dtype in (bf16, f16) and check_buffer(b).dtype == dtype, f"expected tiles of bf16 or of f16 but got {a} and {b}")
        check_attr(8 <= columns <= 256 and columns % 8 == 0, f"expected columns in steps of 8 up to 256 but got {columns}")
        wanted = VectorType(columns // 2, f32)
        check_type(sums == wanted, f"expected sums of type {wanted} but got {sums}")
        check_attr(apart_a >= 0 and apart_a % 512 == 0 and apart_b >= 0 and apart_b % 512 == 0, "expected tiles multiples of 512 apart")
        check_attr(apart_b > 0 or not transpose_b or columns <= LINE, f"expected 'apart_b' for {columns} columns along lines of {LINE}")
        return sums

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        a, at_a, b, at_b, sums = args
        left, right = flat_memory(a), flat_memory(b)

        def product(values: Sequence[Any]) -> Sequence[Any]:
            if len({(i, j) for i, j, _ in values}) > 1:
                raise PolyremeError(f"'{self.name}' expected one place of each operand for all threads of a warpgroup", code="E0309")
            x = _taken(self.name, left, values[0][0], tile_places(WGMMA_ROWS, WGMMA_DEPTH, self.transpose_a, self.apart_a))
            y = _taken(self.name, right, values[0][1], tile_places(self.columns, WGMMA_DEPTH, self.transpose_b, self.apart_b))
            rows, columns = sum_places(self.columns)
            with np.errstate(all="ignore"):
                whole = (x @ y.T)[rows, columns] + np.stack([v[2] for v in values])
            return list(whole.astype(np.float32))

        return (_meet_group(self, (int(at_a), int(at_b), np.asarray(sums)), product),)


def _taken(name: str, memory: Array, start: int, places: Array) -> Array:
    """An operand in float64."""
    places = swizzled(start + places)
    if start < 0 or places.max() >= memory.size:
        raise PolyremeError(f"'{name}' expected an operand in a tile of {memory.size} elements but got one from {start} on", code="E0309")
    return memory[places].astype(np.float64)


@op("kernel.wgmma_commit")
class WgmmaCommit(Op):
    """Makes a group of the products that this warpgroup has begun since the last group.

    All four warps do it. A group may be empty; `kernel.wgmma_wait` counts groups, the latest ones last.

    func @products() {
      kernel.wgmma_commit ()
      return
    }
    """

    @staticmethod
    def infer() -> None:
        return None

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        _meet_group(self, None, _nothing)
        return ()


@op("kernel.wgmma_wait")
class WgmmaWait(Op):
    """Waits until at most `pending` groups of products of this warpgroup, the latest ones, are still under way; gives the sums, which are
    there then.

        %there = kernel.wgmma_wait %sums : vector<64xf32>      // %sums: vector<64xf32>

    `pending` is in [0, 8). Without sums it says only that the tiles of the other groups are read.
    """

    sums = variadic()
    pending = attr(int, default=0)

    def __init__(self, *sums: Any, pending: int = 0, loc: Location = UNKNOWN):
        super().__init__(flat_operands(sums), pending=pending, loc=loc)

    @staticmethod
    def infer(sums: Sequence[Type], *, pending: int) -> Sequence[Type]:
        check_attr(0 <= pending < 8, f"expected 'pending' in [0, 8) but got {pending}")
        return _check_sums(sums)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        _meet_group(self, None, _nothing)
        return tuple(args)


@op("kernel.set_registers")
class SetRegisters(Op):
    """Gives each thread of this warpgroup `count` registers from here on: more than before with `more`, fewer without.

        func @producer() {
          kernel.set_registers {count = 40}
          return
        }

    A multiple of 8 from 24 to 256. It changes no result. Who wants more waits until others have given theirs back.
    """

    count = attr(int)
    more = attr(bool, default=False)

    @staticmethod
    def infer(*, count: int, more: bool) -> None:
        check_attr(24 <= count <= 256 and count % 8 == 0, f"expected registers in steps of 8 from 24 to 256 but got {count}")

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        _meet_group(self, None, _nothing)
        return ()
