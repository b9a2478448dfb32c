"""Memory: buffers, and reading and writing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import (
    Array,
    check_align,
    check_buffer,
    check_index,
    check_mask,
    flat_memory,
    lanes_of,
    neighbours,
    of_lanes,
    read,
    scalar_of,
    write,
)
from polyreme.dialects.kernel.lockstep import this_thread
from polyreme.ir.attributes import Dense
from polyreme.ir.core import Op
from polyreme.ir.define import ConstantLike, Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import PolyremeError, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve
from polyreme.ir.types import PARTS, BufferType, ScalarType, Type, i1, i64


@op("kernel.alloc")
class Alloc(Op):
    """Memory for a buffer, in the `space` that says who sees it and how long it lasts.

        %tmp = kernel.alloc {shape = [8, 128], dtype = f32, offset = 4096} : buffer<8x128xf32>

    "arena": at byte `offset` of the model's arena, in `main` (`offset` is none until memory is planned). "local": scratch on the stack of a
    kernel. "shared": what the threads of a block share. Local and shared memory have known sizes. The arena, every offset in it, and local
    and shared memory are aligned to 64 bytes. Nothing may be read before it was written: on numpy the memory starts as nan, or as a large
    number. The buffer has `shape` and elements of `dtype`. `of_thread`: the first thread works on the first so many elements in the arena
    only, no other thread does, and so on with the next ones; 0 where threads share all of them.
    """

    shape = attr(tuple[Dim, ...])
    dtype = attr(ScalarType)
    offset = attr(Dim, default=None)
    space = attr(str, default="arena", choices=("arena", "local", "shared"))
    of_thread = attr(int, default=0)

    @staticmethod
    def infer(*, shape: tuple[Dim, ...], dtype: ScalarType, offset: Dim | None, space: str, of_thread: int) -> Type:
        check_attr(
            of_thread >= 0 and (of_thread == 0 or space == "arena"),
            f"expected elements of a thread in the arena only, not below 0, but got {of_thread} of {space} memory",
        )
        check_attr(space == "arena" or all(isinstance(d, int) for d in shape), f"expected known sizes for {space} memory but got {shape}")
        return BufferType(shape, dtype)

    @staticmethod
    def reference(*, shape: tuple[Dim, ...], dtype: ScalarType, offset: Dim | None, space: str, of_thread: int) -> Array:
        count = 1
        for dim in shape:
            count *= resolve(dim)
        garbage = np.nan if dtype.is_float or dtype.kind == "c" else True if dtype == i1 else np.iinfo(dtype.np).max
        return np.full(count, garbage, dtype.np)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        if self.space != "shared":
            return super().evaluate(args, run_region)
        memory = this_thread(self.name).shared.memory
        if self not in memory:
            memory[self] = self.reference(**self.attributes)
        return (memory[self],)


@op("kernel.data", Pure, ConstantLike)
class Data(Op):
    """Memory that holds a constant array and is only read.

        %w = kernel.data {value = dense<[1.0, 2.0]>} : buffer<2xf32>

    It stands in `main`, until `outline_constants` makes it an argument of role "constant". `value` is the array, of any element type.
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
    """A part of a buffer as a buffer of its own: the elements from `offset` on, under another shape.

        %v = kernel.view %x, %start {shape = [16]} : buffer<16xf32>      // %x: buffer<8x16xf32>, %start: index

    Shares the memory: what is written to one is read from the other. Without `offset` it starts where the buffer does. All of it must lie
    inside the buffer. `shape` is the view's, in row-major order. With `dtype` the bytes, the lowest one first, are seen as integers of
    another type: bytes four at a time as i32, say, or the bits of floats; or complex numbers as their real and imaginary parts by turns.
    Such a view promises no more of where it starts than the buffer does.
    """

    buffer = operand()
    offset = optional()
    shape = attr(tuple[Dim, ...])
    dtype = attr(ScalarType, default=None)

    @staticmethod
    def infer(buffer: Type, offset: Type | None, *, shape: tuple[Dim, ...], dtype: ScalarType | None = None) -> Type:
        if offset is not None:
            check_index(offset, "the offset")
        found = check_buffer(buffer).dtype
        fits = dtype is None or (dtype.is_integer and found.kind in "fiu") or PARTS.get(found) == dtype
        check_type(fits, f"expected numbers to be seen as integers, or complex ones as their parts, but got {found} and {dtype}")
        return BufferType(shape, dtype or found)

    @staticmethod
    def reference(buffer: Array, offset: Any, *, shape: tuple[Dim, ...], dtype: ScalarType | None = None) -> Array:
        flat = flat_memory(buffer)
        start, count = 0 if offset is None else int(offset), 1
        for dim in shape:
            count *= resolve(dim)
        if dtype is not None:
            count = -(-count * dtype.bytes // flat.dtype.itemsize)
        if start < 0 or start + count > flat.size:
            raise PolyremeError(f"'kernel.view' expected elements within [0, {flat.size}) but got [{start}, {start + count})", code="E0309")
        part = flat[start : start + count]
        return part if dtype is None else part.view(dtype.np)


@op("kernel.load")
class Load(Op):
    """Reads `lanes` consecutive elements from position `index` on.

        %v = kernel.load %x, %i {lanes = 16} : vector<16xf32>             // %x: buffer<64xf32>, %i: index
        %w = kernel.load %x, %i, %mask {lanes = 16} : vector<16xf32>      // %mask: vector<16xi1>

    A scalar for one lane, else a vector. Lanes where `mask` is off touch no memory and are 0. A position outside the buffer is an error on
    numpy. `align` promises that the place is a multiple of so many bytes, a power of two; without it, of one element's.
    """

    buffer = operand()
    index = operand()
    mask = optional()
    lanes = attr(int, default=1)
    align = attr(int, default=None)

    @staticmethod
    def infer(buffer: Type, index: Type, mask: Type | None, *, lanes: int, align: int | None) -> Type:
        check_index(index)
        check_mask(mask, lanes)
        check_align(align)
        return of_lanes(check_buffer(buffer).dtype, lanes)

    @staticmethod
    def reference(buffer: Array, index: Any, mask: Any, *, lanes: int, align: int | None) -> Any:
        return read("kernel.load", buffer, neighbours(index, lanes) if lanes > 1 else index, mask)


@op("kernel.store")
class Store(Op):
    """Writes `value`, a scalar or a vector of consecutive elements, from position `index` on.

        kernel.store %v, %y, %i             // %v: vector<16xf32>, %y: buffer<64xf32>, %i: index
        kernel.store %v, %y, %i, %mask      // %mask: vector<16xi1>

    Lanes where `mask` is off are not written. A position outside the buffer is an error on numpy. `align` is as in `kernel.load`.
    `streaming` says that nobody reads what is written before it has left the caches: it may go past them, which saves reading the lines
    first.
    """

    value = operand()
    buffer = operand()
    index = operand()
    mask = optional()
    align = attr(int, default=None)
    streaming = attr(bool, default=False)

    @staticmethod
    def infer(value: Type, buffer: Type, index: Type, mask: Type | None, *, align: int | None, streaming: bool) -> None:
        check_index(index)
        check_mask(mask, lanes_of(value))
        check_align(align)
        dtype = check_buffer(buffer).dtype
        check_type(scalar_of(value) == dtype, f"expected a value of {dtype} for a buffer of {dtype} but got {value}")

    @staticmethod
    def reference(value: Any, buffer: Array, index: Any, mask: Any, *, align: int | None, streaming: bool) -> tuple[()]:
        write("kernel.store", value, buffer, neighbours(index, len(value)) if np.ndim(value) else index, mask)
        return ()


@op("kernel.gather")
class Gather(Op):
    """Reads one element per lane, each from a position of its own.

        %v = kernel.gather %x, %positions : vector<16xf32>      // %x: buffer<64xf32>, %positions: vector<16xindex>

    Lanes where `mask` is off touch no memory and are 0; a position outside the buffer is an error on numpy.
    """

    buffer = operand()
    indices = operand()
    mask = optional()

    @staticmethod
    def infer(buffer: Type, indices: Type, mask: Type | None) -> Type:
        check_index(scalar_of(indices), "each position")
        check_mask(mask, lanes_of(indices))
        return of_lanes(check_buffer(buffer).dtype, lanes_of(indices))

    @staticmethod
    def reference(buffer: Array, indices: Any, mask: Any) -> Any:
        return read("kernel.gather", buffer, indices, mask)


@op("kernel.scatter")
class Scatter(Op):
    """Writes each lane to a position of its own; where positions are equal, the last lane stays.

        // %v: vector<16xf32>, %y: buffer<64xf32>, %positions: vector<16xindex>, %mask: vector<16xi1>
        kernel.scatter %v, %y, %positions, %mask

    Lanes where `mask` is off are not written; a position outside the buffer is an error on numpy.
    """

    value = operand()
    buffer = operand()
    indices = operand()
    mask = optional()

    @staticmethod
    def infer(value: Type, buffer: Type, indices: Type, mask: Type | None) -> None:
        check_index(scalar_of(indices), "each position")
        check_mask(mask, lanes_of(value))
        dtype = check_buffer(buffer).dtype
        check_type(scalar_of(value) == dtype, f"expected a value of {dtype} for a buffer of {dtype} but got {value}")
        check_attr(lanes_of(value) == lanes_of(indices), f"expected as many positions as lanes but got {indices} for {value}")

    @staticmethod
    def reference(value: Any, buffer: Array, indices: Any, mask: Any) -> tuple[()]:
        write("kernel.scatter", value, buffer, indices, mask)
        return ()


@op("kernel.fetch_add")
class FetchAdd(Op):
    """Adds `value` to the element at `index`, in one step that no other thread can come between, and gives what was there before.

        %number = kernel.fetch_add %value, %taken, %i : i64      // %value: i64, %taken: buffer<64xi64>, %i: index

    Iterations of a `kernel.parallel` share out work by it. Who meets a sum sees all that others wrote before they added to it. A position
    outside the buffer is an error on numpy.
    """

    value = operand()
    buffer = operand()
    index = operand()

    @staticmethod
    def infer(value: Type, buffer: Type, index: Type) -> Type:
        check_index(index)
        dtype = check_buffer(buffer).dtype
        check_type(value == dtype == i64, f"expected an i64 for a buffer of i64 but got {value} for one of {dtype}")
        return i64

    @staticmethod
    def reference(value: Any, buffer: Array, index: Any) -> Any:
        before = read("kernel.fetch_add", buffer, index, None).copy()
        with np.errstate(over="ignore"):
            write("kernel.fetch_add", before + value, buffer, index, None)
        return before


@op("kernel.until_aligned", Pure)
class UntilAligned(Op):
    """How many elements from position `index` on come before the first one whose place in memory is a multiple of `bytes`, a power of two
    and of an element's bytes.

        %n = kernel.until_aligned %y, %i {bytes = 64} : index      // %y: buffer<64xf32>, %i: index

    The position may lie outside the buffer: nothing is read. Only the order in which elements are computed may depend on it. On numpy every
    buffer begins at such a multiple.
    """

    buffer = operand()
    index = operand()
    bytes = attr(int)

    @staticmethod
    def infer(buffer: Type, index: Type, *, bytes: int) -> Type:
        check_index(index)
        dtype = check_buffer(buffer).dtype
        check_attr(
            bytes > 0 and bytes & (bytes - 1) == 0 and bytes % dtype.bytes == 0,
            f"expected 'bytes' to be a power of two that elements of {dtype} fit in but got {bytes}",
        )
        return index

    @staticmethod
    def reference(buffer: Array, index: Any, *, bytes: int) -> Any:
        return -index % (bytes // flat_memory(buffer).itemsize)


@op("kernel.prefetch")
class Prefetch(Op):
    """Asks for the cache line of a position ahead of its use.

        kernel.prefetch %x, %i {locality = 2}      // %x: buffer<64xf32>, %i: index

    `locality` is from 0 (used once) to 3 (keep in all caches), `write` says that it will be written. The position may lie outside the
    buffer: nothing is read. It never changes a result, and is dropped for GPUs.
    """

    buffer = operand()
    index = operand()
    write = attr(bool, default=False)
    locality = attr(int, default=3, choices=(0, 1, 2, 3))

    @staticmethod
    def infer(buffer: Type, index: Type, *, write: bool, locality: int) -> None:
        check_buffer(buffer)
        check_index(index)

    @staticmethod
    def reference(buffer: Array, index: Any, *, write: bool, locality: int) -> tuple[()]:
        return ()
