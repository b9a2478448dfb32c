"""Kernels for a grid of threads: starting them, who a thread is, and what threads do together.

`kernel.launch` in `main` runs a kernel once per thread of a grid of blocks. The threads of a block share memory (`kernel.alloc` of space
"shared") and meet at barriers; 32 of them with consecutive numbers are a warp, whose shuffles and matrix products all of them do together.
Thread numbers count the first axis fastest.

On numpy blocks run one after another and the threads of a block in turns (`lockstep.py`); races are looked for by the PTX runner, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import (
    Array,
    check_buffer,
    check_index,
    check_mask,
    check_range,
    flat_memory,
    flat_operands,
    of_lanes,
    read,
    scalar_of,
    write,
)
from polyreme.dialects.kernel.lockstep import WARP, Meeting, run_grid, this_thread
from polyreme.ir.accuracy import SUM, Accuracy
from polyreme.ir.attributes import SymbolRef
from polyreme.ir.core import Op
from polyreme.ir.define import Elementwise, Pure, attr, op, operand, optional, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, PolyremeError, check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve_all
from polyreme.ir.types import BufferType, ScalarType, Type, VectorType, bf16, f16, f32, f64, i32, i64, index, u32, u64

MAX_THREADS = 1024
ATOMICS = (f32, f64, i32, i64, u32, u64)
COPY_BYTES = (4, 8, 16)


@op("kernel.launch")
class Launch(Op):
    """Runs the kernel `callee` of the same module once per thread of `grid` blocks of `block` threads.

        func @fill(%x: buffer<Nxf32>, %n: index) {
          return
        }
        func @main(%x: buffer<Nxf32>) {
          %n = kernel.size {value = N} : index
          kernel.launch %x, %n {callee = @fill, grid = [floordiv(N+127, 128)], block = [128]}
          return
        }

    One to three axes each, the first one fastest; sizes of the grid may be symbolic, a block has at most 1024 threads. An empty grid runs
    nothing. Operands are buffers and index values, of the types of the kernel's arguments. Blocks run in any order; launches of one `main`
    one after another.
    """

    args = variadic()
    callee = attr(SymbolRef)
    grid = attr(tuple[Dim, ...])
    block = attr(tuple[int, ...])

    def __init__(self, *args: Any, callee: SymbolRef | str, grid: Sequence[Dim], block: Sequence[int], loc: Location = UNKNOWN):
        super().__init__(flat_operands(args), callee=callee, grid=tuple(grid), block=tuple(block), loc=loc)

    @staticmethod
    def infer(args: Sequence[Type], *, callee: SymbolRef, grid: tuple[Dim, ...], block: tuple[int, ...]) -> None:
        for type in args:
            check_type(isinstance(type, BufferType) or type == index, f"expected buffers and index values but got {type}")
        for what, sizes in (("grid", grid), ("block", block)):
            check_attr(1 <= len(sizes) <= 3, f"expected from 1 to 3 axes of '{what}' but got {len(sizes)}")
        check_attr(all(n >= 1 for n in block), f"expected positive sizes of 'block' but got {list(block)}")
        threads = int(np.prod(block))
        check_attr(threads <= MAX_THREADS, f"expected at most {MAX_THREADS} threads in a block but got {threads}")

    def run_callee(self, run: Callable[[], Any]) -> Sequence[Any]:
        """For the evaluator: `run` is the kernel on this op's arguments."""
        run_grid(resolve_all(self.grid), self.block, run, self.callee.name)
        return ()


# --- who a thread is


def _coordinate() -> Any:
    """The attribute that says along which axis; sizes of axes that a launch leaves out are 1."""
    return attr(int, default=0, choices=(0, 1, 2))


def _infer_coordinate(*, axis: int) -> Type:
    return index


def _along(places: tuple[int, ...], axis: int, otherwise: int) -> Any:
    return np.int64(places[axis] if axis < len(places) else otherwise)


@op("kernel.block_id")
class BlockId(Op):
    """Which block of the grid this thread belongs to, along `axis`.

        %b = kernel.block_id {axis = 1} : index

    From 0 on; 0 along an axis that the launch leaves out. In a kernel that `kernel.launch` starts only.
    """

    axis = _coordinate()
    infer = staticmethod(_infer_coordinate)

    @staticmethod
    def reference(*, axis: int) -> Any:
        return _along(this_thread("kernel.block_id").place, axis, 0)


@op("kernel.block_count")
class BlockCount(Op):
    """How many blocks the grid has along `axis`.

        %n = kernel.block_count : index

    1 along an axis that the launch leaves out. In a kernel that `kernel.launch` starts only.
    """

    axis = _coordinate()
    infer = staticmethod(_infer_coordinate)

    @staticmethod
    def reference(*, axis: int) -> Any:
        return _along(this_thread("kernel.block_count").grid, axis, 1)


@op("kernel.thread_id")
class ThreadId(Op):
    """Which thread of its block this is, along `axis`.

        %t = kernel.thread_id : index

    From 0 on; 0 along an axis that the launch leaves out. In a kernel that `kernel.launch` starts only.
    """

    axis = _coordinate()
    infer = staticmethod(_infer_coordinate)

    @staticmethod
    def reference(*, axis: int) -> Any:
        return _along(this_thread("kernel.thread_id").position, axis, 0)


@op("kernel.thread_count")
class ThreadCount(Op):
    """How many threads a block has along `axis`.

        %n = kernel.thread_count : index

    1 along an axis that the launch leaves out. In a kernel that `kernel.launch` starts only.
    """

    axis = _coordinate()
    infer = staticmethod(_infer_coordinate)

    @staticmethod
    def reference(*, axis: int) -> Any:
        return _along(this_thread("kernel.thread_count").block, axis, 1)


# --- what threads do together


@op("kernel.barrier")
class Barrier(Op):
    """Waits until every thread of the block is here; what they wrote before, all of them read after.

        func @waiting() {
          kernel.barrier ()
          return
        }

    No thread of the block may have ended, or be at another barrier: on numpy that is an error that names the threads.
    """

    @staticmethod
    def infer() -> None:
        return None

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        this_thread(self.name).meet(Meeting(self, 0, None, tuple))
        return ()


@op("kernel.warp_shuffle")
class WarpShuffle(Op):
    """The value of `x` in another lane of the warp: lane ^ by ("xor"), lane + by ("down"), lane - by ("up"), or `by` itself ("from").

    Past the end of the warp, "down" and "up" give the lane's own value. All 32 lanes take part. `mode` says which lane's value comes, `by`
    is in [0, 32).

        %other = kernel.warp_shuffle %x {mode = "xor", by = 16} : f32
    """

    x = operand()
    mode = attr(str, choices=("xor", "down", "up", "from"))
    by = attr(int)

    @staticmethod
    def infer(x: Type, *, mode: str, by: int) -> Type:
        check_type(isinstance(x, ScalarType) and x.kind != "c", f"expected a real scalar but got {x}")
        check_attr(0 <= by < WARP, f"expected 'by' in [0, {WARP}) but got {by}")
        return x

    def source(self, lane: int) -> int:
        """The lane whose value `lane` gets."""
        other = {"xor": lane ^ self.by, "down": lane + self.by, "up": lane - self.by, "from": self.by}[self.mode]
        return other if 0 <= other < WARP else lane

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        answer = lambda values: [values[self.source(lane)] for lane in range(WARP)]
        return (this_thread(self.name).meet(Meeting(self, WARP, args[0], answer)),)


@op("kernel.atomic")
class Atomic(Op):
    """Adds `value` to the element at `index`, in one step that no other thread can come between.

        kernel.atomic %v, %y, %i {fn = "add"}      // %v: f32, %y: buffer<64xf32>, %i: index

    The order among threads is open: sums of floats may vary in their last bits. The element type is f32, f64, or an integer of 32 or 64
    bits. Where `mask` is off nothing happens. A position outside the buffer is an error on numpy. `fn` says what is done; so far, adding.
    """

    value = operand()
    buffer = operand()
    index = operand()
    mask = optional()
    fn = attr(str, default="add", choices=("add",))

    @staticmethod
    def infer(value: Type, buffer: Type, index: Type, mask: Type | None, *, fn: str) -> None:
        check_index(index)
        check_mask(mask, 1)
        dtype = check_buffer(buffer).dtype
        check_type(value == dtype, f"expected a scalar of {dtype} for a buffer of {dtype} but got {value}")
        check_type(value in ATOMICS, f"expected one of {', '.join(map(str, ATOMICS))} but got {value}")

    @staticmethod
    def reference(value: Any, buffer: Array, index: Any, mask: Any, *, fn: str) -> tuple[()]:
        with np.errstate(all="ignore"):
            write("kernel.atomic", read("kernel.atomic", buffer, index, mask) + value, buffer, index, mask)
        return ()


# --- tensor cores


def round_tf32(x: Any) -> Any:
    """float32 rounded to the 10 fraction bits of tf32, halves away from zero."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    return np.where(finite, (bits + 0x1000) & 0xFFFFE000, bits).astype(np.uint32).view(np.float32)[()]


@op("kernel.round_tf32", Pure, Elementwise, accuracy=Accuracy(ulp=4096))
class RoundTf32(Op):
    """x with the 10 fraction bits that tensor cores read of a float32, to nearest.

        %big = kernel.round_tf32 %x : f32

    Halves go away from zero; infinities and nan stay. What is lost, x - round(x), rounded again, gives a second term, with which products
    come close to float32. Scalars or vectors of f32.
    """

    x = operand()

    @staticmethod
    def infer(x: Type) -> Type:
        check_type(scalar_of(x) == f32, f"expected f32 but got {x}")
        return x

    @staticmethod
    def reference(x: Any) -> Any:
        return round_tf32(x)


@op("kernel.exp2", Pure, accuracy=Accuracy(ulp=4))
class Exp2(Op):
    """2 to the power x by one instruction of the device, whose results are within 2 units in the last place; results below the normal
    numbers are 0.

        %p = kernel.exp2 %x : f32

    For weights that are rounded to 16 bits next. x is a float32.
    """

    x = operand()

    @staticmethod
    def infer(x: Type) -> Type:
        check_type(x == f32, f"expected f32 but got {x}")
        return x

    @staticmethod
    def reference(x: Any) -> Any:
        with np.errstate(all="ignore"):
            value = np.exp2(np.float64(x)).astype(np.float32)
        return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.float32(0), value)[()]


def fragment_positions(depth: int) -> tuple[Array, Array, Array]:
    """Where the elements of a, b and c that each lane holds stand in the 16 x depth, depth x 8 and 16 x 8 matrices: (row, column) per lane
    and element.

    As PTX lays out the operands of `mma.m16n8k16` (16-bit elements) and `mma.m16n8k8` (tf32).
    """
    lane = np.arange(WARP)
    group, member = lane // 4, lane % 4
    pairs = 2 if depth == 16 else 1
    a = [(group + 8 * (r % 2), (depth // 2) * (r // 2) + pairs * member + e) for r in range(4) for e in range(pairs)]
    b = [((depth // 2) * r + pairs * member + e, group) for r in range(2) for e in range(pairs)]
    c = [(group + 8 * r, 2 * member + e) for r in range(2) for e in range(2)]
    return tuple(np.array(places).transpose(2, 0, 1) for places in (a, b, c))  # type: ignore[return-value]


def multiply_fragments(a: Array, b: Array, c: Array) -> Array:
    """a @ b + c in float32 of the matrices whose elements the 32 lanes hold: arrays [32, elements]; the result as c."""
    depth = 16 if a.shape[1] == 8 else 8
    at_a, at_b, at_c = fragment_positions(depth)
    whole_a, whole_b, whole_c = np.empty((16, depth), np.float64), np.empty((depth, 8), np.float64), np.empty((16, 8), np.float64)
    whole_a[at_a[:, :, 0], at_a[:, :, 1]] = a
    whole_b[at_b[:, :, 0], at_b[:, :, 1]] = b
    whole_c[at_c[:, :, 0], at_c[:, :, 1]] = c
    with np.errstate(all="ignore"):
        product = (whole_a @ whole_b + whole_c).astype(np.float32)
    return product[at_c[:, :, 0], at_c[:, :, 1]]


@op("kernel.mma", accuracy=SUM)
class Mma(Op):
    """a @ b + c by the tensor cores, on a 16 x k matrix, a k x 8 matrix and a 16 x 8 one whose elements are spread over the 32 lanes of the
    warp.

    k is 16 for bf16 and f16 (8, 4 and 4 elements per lane) and 8 for float32, of which only the tf32 part is read (4, 2 and 4 elements).
    Lane 4g + t holds c[g][2t], c[g][2t+1], c[g+8][2t], c[g+8][2t+1]; `fragment_positions` has all of it. Sums are float32, in any order.

        %d = kernel.mma %a, %b, %c : vector<4xf32>      // %a: vector<8xbf16>, %b: vector<4xbf16>, %c: vector<4xf32>
    """

    a = operand()
    b = operand()
    c = operand()

    @staticmethod
    def infer(a: Type, b: Type, c: Type) -> Type:
        dtype = scalar_of(a)
        check_type(dtype in (bf16, f16, f32), f"expected bf16, f16 or f32 but got {a}")
        wanted = (VectorType(4 if dtype == f32 else 8, dtype), VectorType(2 if dtype == f32 else 4, dtype), VectorType(4, f32))
        check_type((a, b, c) == wanted, f"expected {wanted[0]}, {wanted[1]} and {wanted[2]} but got {a}, {b} and {c}")
        return c

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        def product(values: Sequence[Any]) -> list[Array]:
            a, b, c = (np.stack([v[i] for v in values]).astype(np.float32) for i in range(3))
            if scalar_of(self.a.type) == f32:
                # The hardware does not look at the last 13 bits.
                a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
            return list(multiply_fragments(a, b, c))

        return (this_thread(self.name).meet(Meeting(self, WARP, tuple(args), product)),)


@op("kernel.load_matrix")
class LoadMatrix(Op):
    """`count` 8 x 8 matrices of 16-bit elements from shared memory, spread over the warp as `kernel.mma` wants them.

    Lane 8m + r gives in `index` where row r of matrix m starts (16 bytes, aligned to 16); lanes from 8 * count on are not asked. Lane 4g +
    t gets the elements 2t and 2t + 1 of row g of each matrix, or of column g if `transpose`.

        %a = kernel.load_matrix %tile, %i {count = 4} : vector<8xbf16>      // %tile: buffer<16x16xbf16>, %i: index
    """

    buffer = operand()
    index = operand()
    count = attr(int, default=4, choices=(1, 2, 4))
    transpose = attr(bool, default=False)

    @staticmethod
    def infer(buffer: Type, index: Type, *, count: int, transpose: bool) -> Type:
        check_index(index)
        dtype = check_buffer(buffer).dtype
        check_type(dtype.bits == 16, f"expected 16-bit elements but got {dtype}")
        return of_lanes(dtype, 2 * count)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        memory = flat_memory(args[0])

        def spread(starts: Sequence[Any]) -> list[Array]:
            rows = np.asarray(starts[: 8 * self.count])[:, None] + np.arange(8)
            check_range(self.name, memory.size, rows)
            if np.any(rows[:, 0] % 8):
                raise PolyremeError(
                    f"'{self.name}' expected rows that start at multiples of 8 elements but got {int(rows[rows[:, 0] % 8 != 0][0, 0])}",
                    code="E0309",
                )
            tiles = memory[rows].reshape(self.count, 8, 8)
            tiles = tiles.transpose(0, 2, 1) if self.transpose else tiles
            return list(tiles.reshape(self.count, WARP, 2).transpose(1, 0, 2).reshape(WARP, 2 * self.count))

        return (this_thread(self.name).meet(Meeting(self, WARP, args[1], spread)),)


# --- copies that go on while the thread works


@op("kernel.copy_async")
class CopyAsync(Op):
    """Begin to copy `lanes` elements (4, 8 or 16 bytes, aligned to as many) from device memory to shared memory. Where `mask` is off, zeros
    are written.

    The elements have arrived after a `kernel.copy_wait` for the group that the copy was put into; other threads see them after a barrier,
    too.

        kernel.copy_async %x, %i, %tile, %j {lanes = 4}      // %x: buffer<64xf32>, %i: index, %tile: buffer<32xf32>, %j: index
    """

    source = operand()
    source_index = operand()
    target = operand()
    target_index = operand()
    mask = optional()
    lanes = attr(int, default=4)

    @staticmethod
    def infer(source: Type, source_index: Type, target: Type, target_index: Type, mask: Type | None, *, lanes: int) -> None:
        check_index(source_index)
        check_index(target_index)
        check_mask(mask, 1)
        dtype = check_buffer(source).dtype
        check_type(check_buffer(target).dtype == dtype, f"expected buffers of one element type but got {source} and {target}")
        check(lanes * dtype.bytes in COPY_BYTES, f"expected 4, 8 or 16 bytes but got {lanes} elements of {dtype}")

    @staticmethod
    def reference(source: Array, source_index: Any, target: Array, target_index: Any, mask: Any, *, lanes: int) -> tuple[()]:
        place = target_index + np.arange(lanes)
        if mask is None or mask:
            values = read("kernel.copy_async", source, source_index + np.arange(lanes), None).copy()
        else:
            values = np.zeros(lanes, target.dtype)
        check_range("kernel.copy_async", target.size, place)
        this_thread("kernel.copy_async").copies[-1].append((target, place, values))
        return ()


@op("kernel.copy_commit")
class CopyCommit(Op):
    """Makes a group of the copies that this thread has begun since the last group.

        func @waiting() {
          kernel.copy_commit ()
          return
        }

    A group may be empty. `kernel.copy_wait` counts groups, not copies.
    """

    @staticmethod
    def infer() -> None:
        return None

    @staticmethod
    def reference() -> tuple[()]:
        this_thread("kernel.copy_commit").copies.append([])
        return ()


@op("kernel.copy_wait")
class CopyWait(Op):
    """Waits until at most `pending` groups of this thread's copies, the latest ones, are still under way.

        func @waiting() {
          kernel.copy_wait {pending = 1}
          return
        }

    `pending` is in [0, 8). What the thread's earlier groups copied is there for this thread then, and for others after a barrier.
    """

    pending = attr(int, default=0)

    @staticmethod
    def infer(*, pending: int) -> None:
        check_attr(0 <= pending < 8, f"expected 'pending' in [0, 8) but got {pending}")

    @staticmethod
    def reference(*, pending: int) -> tuple[()]:
        copies = this_thread("kernel.copy_wait").copies
        while len(copies) > pending + 1:
            for target, place, values in copies.pop(0):
                target[place] = values
        return ()
