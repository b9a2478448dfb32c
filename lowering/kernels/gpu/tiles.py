"""Tiled products on a GPU: how tiles come into shared memory, are multiplied, and leave.

Each thread loads elements of the operands' tiles, and multiplies what all threads loaded. Operands in memory, seen through views and pads
of zeros, are copied asynchronously (`kernel.copy_async`, from sm_80 on): the tiles of the next steps are in flight while a step multiplies.
A copy takes 16 bytes if an operand has as many side by side, else one element. Any other operand is computed element by element, one step
ahead, in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from polyreme.dialects import kernel, tensor
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, mod, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type, f32, f64
from polyreme.lowering.analysis.access import side_by_side, trace
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, Positions, buffer_leaf, convert, linear
from polyreme.lowering.kernels.gpu.grid import GridKernel, both, places_of, truth
from polyreme.lowering.kernels.gpu.product import (
    GpuBlockTile,
    GpuProduct,
    Sink,
    choose_tile,
    find_product,
    parts_of,
    plan_product,
    sum_type,
)
from polyreme.lowering.kernels.plan import Slot, Step
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.gpu import (
    FLOATS,
    FLOATS_OF_WINDOWS,
    MOST_SUMS,
    MOST_THREADS,
    STAGES,
    STATIC_SHARED_BYTES,
    VECTOR_BYTES,
    WARP,
    GpuTile,
    Multiplier,
)
from polyreme.lowering.machines.ptx import has
from polyreme.lowering.machines.targets import GpuTarget

# Lanes of the vectors in which sums are kept and shared memory is read.
LANES = VECTOR_BYTES // f32.bytes
# Tiles of shared memory are a vector wider than their rows, so that threads that write down a column use different banks.
PADDING = LANES


@dataclass(frozen=True)
class TilesSchedule(Schedule, kind="tiles"):
    """Of a product by the cores that are no tensor cores: a block's tile (rows, columns, steps), a thread's part of it, and how many parts
    the depth is cut into.
    """

    tile: tuple[int, int, int]
    thread: tuple[int, int]
    parts: int = 1

    @property
    def in_threads(self) -> GpuTile:
        return GpuTile(*self.tile, *self.thread)


def schedule_tiles(p: GpuProduct) -> TilesSchedule:
    """The tile with which the busiest multiprocessor has the least to do."""
    return _schedule(p, choose_tile(p, _multiplier(p)))


def _schedule(p: GpuProduct, tile: GpuTile) -> TilesSchedule:
    return TilesSchedule((tile.rows, tile.columns, tile.depth), (tile.tall, tile.wide), parts_of(p, tile))


def other_tiles(p: GpuProduct) -> list[TilesSchedule]:
    return [_schedule(p, rate.tile) for rate in _multiplier(p).tiles]


def _multiplier(p: GpuProduct) -> Multiplier:
    by = FLOATS_OF_WINDOWS if any(isinstance(op, tensor.Window) for op in p.request.ops()) else FLOATS
    # Two tiles must fit into shared memory.
    return by if sum_type(p) == f32 else replace(by, tiles=tuple(r for r in by.tiles if r.tile.columns < 128 and r.tile.rows < 128))


def check_tiles(p: GpuProduct, chosen: TilesSchedule) -> None:
    """`ScheduleError` for a schedule that no kernel can be written by."""
    tile = chosen.in_threads
    if 0 in (*chosen.tile, *chosen.thread, chosen.parts):
        raise ScheduleError(f"expected positive numbers but got '{chosen}'")
    if tile.tall % LANES or tile.wide % LANES or tile.rows % tile.tall or tile.columns % tile.wide or tile.tall * tile.wide > MOST_SUMS:
        raise ScheduleError(
            f"expected a thread's part to divide the tile, in multiples of {LANES} and at most {MOST_SUMS} sums, but got '{chosen}'"
        )
    threads = tile.threads
    for extent in (tile.rows, tile.columns):
        if threads % WARP or threads > MOST_THREADS or threads % extent or threads % tile.depth or extent * tile.depth % threads:
            raise ScheduleError(
                f"expected at most {MOST_THREADS} threads, in warps, that fill lines of rows, columns and steps evenly but got '{chosen}', "
                f"which has {threads}"
            )
    size = element_type(p.contract.result.type).bytes * tile.depth * (tile.rows + tile.columns + 2 * PADDING)
    if 2 * size > STATIC_SHARED_BYTES:
        raise ScheduleError(f"expected two tiles in {STATIC_SHARED_BYTES} bytes of shared memory but one of '{chosen}' takes {size}")
    if chosen.parts > max(1, estimate(p.count(p.contracted)) // tile.depth):
        raise ScheduleError(f"expected parts of at least {tile.depth} steps of the depth but got '{chosen}'")


build_product = Way(
    "product",
    TilesSchedule,
    partial(find_product, dtypes=(f32, f64)),
    schedule_tiles,
    lambda p, chosen: plan_product(p, chosen.in_threads, chosen.parts, TiledProduct),
    check_tiles,
    others=other_tiles,
)


class TiledProduct:
    """Writes the kernel of a product in tiles. Subclasses say how tiles lie in shared memory and how they are multiplied."""

    what = "product"

    # A `GpuTile`; subclasses have others.
    tile: Any

    def __init__(self, p: GpuProduct, tile: GpuBlockTile, sink: Sink, slots: list[Slot], parts: int, types: list[TensorType | BufferType]):
        self.p, self.tile, self.sink, self.parts = p, tile, sink, parts
        self.m, self.n, self.k = p.count(p.row_letters), p.count(p.column_letters), p.count(p.contracted)
        self.tiles = (ceildiv(self.m, tile.rows), ceildiv(self.n, tile.columns))
        blocks = product([p.count(p.batch), *self.tiles])
        name = p.request.name(self.what if parts == 1 else f"{self.what}_parts")
        self.kernel = GridKernel(name, slots, types, (blocks, parts) if parts > 1 else (blocks,), (tile.threads,), p.contract.location)
        self.code: Code = self.kernel.code

    @property
    def stored(self) -> ScalarType:
        """The element type of the tiles in shared memory."""
        return element_type(self.p.contract.result.type)

    def build(self) -> Step:
        code, p, tile = self.code, self.p, self.tile
        self.thread = self.kernel.thread()
        *around, row, column = self.place_of_block()
        self.row0, self.column0 = code.mul(row, tile.rows), code.mul(column, tile.columns)
        self.part: Index = self.kernel.block_id(1) if self.parts > 1 else 0
        self.around = dict(zip(p.batch, [_position(x) for x in around], strict=True))
        lo: Index = 0
        hi: Index = self.k
        if self.parts > 1:
            steps = ceildiv(ceildiv(self.k, self.parts), tile.depth) * tile.depth
            lo = code.mul(self.part, steps)
            hi = code.min(code.add(lo, steps), self.k)
        buffers = self.kernel.buffers[: len(p.request.func.args)]
        self.buffers = dict(zip(p.request.func.args, buffers, strict=True))
        self.make(lo, hi)
        return self.kernel.finish()

    def make(self, lo: Index, hi: Index) -> None:
        """Write what a block does: the sums over [lo, hi) of the depth, and where they go."""
        left, right = self._fillers(copies=True)
        stages = self.stages(left, right)
        if stages == 1:
            left, right = self._fillers(copies=False)
        left.take_memory(stages)
        right.take_memory(stages)
        self.write(self.with_copies(left, right, lo, hi, stages) if stages > 1 else self._with_registers(left, right, lo, hi))

    def place_of_block(self) -> list[Index]:
        """Which of the batch a block is for, and which rows and columns of tiles."""
        return self.code.split(self.kernel.block_id(), [*self.p.shape(self.p.batch), *self.tiles])

    def _fillers(self, copies: bool) -> tuple[Filler, Filler]:
        p = self.p
        left = Filler(self, p.left, p.left_letters, p.row_letters, self.row0, self.m, self.tile.rows, copies)
        return left, Filler(self, p.right, p.right_letters, p.column_letters, self.column0, self.n, self.tile.columns, copies)

    def stages(self, left: Filler, right: Filler) -> int:
        """How many tiles of shared memory the steps go through; 1 where elements are not just copied."""
        target = self.p.request.target
        assert isinstance(target, GpuTarget)
        if not has("cp.async.commit.group", target) or not (left.is_copied and right.is_copied):
            return 1
        size = self.stored.bytes * (left.size + right.size)
        steps = -(-estimate(self.k) // (self.parts * self.tile.depth))
        return next((n for n in STAGES if n * size <= STATIC_SHARED_BYTES and (n <= steps + 1 or n == STAGES[-1])), 1)

    def with_copies(self, left: Filler, right: Filler, lo: Index, hi: Index, stages: int) -> list[Value]:
        """The sums over [lo, hi). A step waits for its own tile alone; the barrier also says that the tile that the next copies go to is
        multiplied.
        """
        code, depth = self.code, self.tile.depth
        for first in range(stages - 1):
            for filler in (left, right):
                filler.copy(code.value(code.add(lo, first * depth)), hi, first)
            code.b(kernel.CopyCommit)
        with code.loop(lo, hi, self.zeros(), step=depth, name="k") as loop:
            code.b(kernel.CopyWait, pending=stages - 2)
            self.kernel.barrier()
            number = code.div(code.sub(loop.iv, lo), depth)
            for filler in (left, right):
                filler.copy(code.value(code.add(loop.iv, (stages - 1) * depth)), hi, code.mod(code.add(number, stages - 1), stages))
            code.b(kernel.CopyCommit)
            stage = code.mod(number, stages)
            loop.next = self.multiply(left.at_stage(stage), right.at_stage(stage), loop.carried)
        code.b(kernel.CopyWait, pending=0)
        return loop.results

    def _with_registers(self, left: Filler, right: Filler, lo: Index, hi: Index) -> list[Value]:
        """The sums over [lo, hi). What the next step needs is on its way to registers while this one multiplies."""
        code, zeros = self.code, self.zeros()
        ahead = [*left.load(code.value(lo), hi), *right.load(code.value(lo), hi)]
        with code.loop(lo, hi, [*zeros, *ahead], step=self.tile.depth, name="k") as loop:
            sums, loaded = loop.carried[: len(zeros)], loop.carried[len(zeros) :]
            left.put(loaded[: left.copies])
            right.put(loaded[left.copies :])
            # In front of the barrier, where threads may part.
            following = code.value(code.add(loop.iv, self.tile.depth))
            ahead = [*left.load(following, hi), *right.load(following, hi)]
            self.kernel.barrier()
            loop.next = [*self.multiply(left, right, sums), *ahead]
            self.kernel.barrier()
        return loop.results[: len(zeros)]

    # --- how tiles lie in shared memory, and what is done with them

    def takes_vectors(self, deep: bool) -> bool:
        """Whether a tile has neighbours along the rows or columns side by side, or those along the depth (`deep`)."""
        return not deep

    def board_size(self, filler: Filler) -> int:
        return self.tile.depth * (filler.extent + PADDING)

    def board_at(self, filler: Filler, along: Index, depth: Index) -> Index:
        """Where an element of a tile lies: steps of the depth one after another, each a line of rows or columns."""
        return self.code.add(self.code.mul(depth, filler.extent + PADDING), along)

    def board_of_copy(self, filler: Filler, copy: int) -> Index:
        """Where what copy number `copy` of a thread brings lies."""
        return self.board_at(filler, *filler.place(copy))

    def zeros(self) -> list[Value]:
        return [self.code.zero(sum_type(self.p), LANES) for _ in range(self.tile.tall * self.tile.wide // LANES)]

    def _mine(self) -> tuple[Index, Index]:
        """Which rows and columns of the tile are this thread's: fours from these on, as far apart as all threads' fours are wide."""
        across = self.tile.columns // self.tile.wide
        return self.code.mul(self.code.div(self.thread, across), LANES), self.code.mul(self.code.mod(self.thread, across), LANES)

    def multiply(self, left: Filler, right: Filler, sums: list[Value]) -> list[Value]:
        """All steps of a tile on the sums, row by row, in vectors of neighbouring columns."""
        code, tile = self.code, self.tile
        row, column = self._mine()
        align = min(16, LANES * self.stored.bytes)
        tall, wide = tile.tall // LANES, tile.wide // LANES
        sums = list(sums)
        for k in range(tile.depth):
            rows = [code.load(left.board, left.at(code.add(row, g * tile.rows // tall), k), LANES, align=align) for g in range(tall)]
            columns = [
                code.load(right.board, right.at(code.add(column, g * tile.columns // wide), k), LANES, align=align) for g in range(wide)
            ]
            for i in range(tile.tall):
                one: Value = code.b(kernel.Extract, rows[i // LANES], lane=i % LANES)
                each = code.broadcast(one, LANES)
                for g in range(wide):
                    sums[i * wide + g] = code.fma(each, columns[g], sums[i * wide + g])
        return sums

    def write(self, sums: list[Value]) -> None:
        tile, code = self.tile, self.code
        row, column = self._mine()
        tall, wide = tile.tall // LANES, tile.wide // LANES
        for i in range(tile.tall):
            down = code.add(row, i // LANES * tile.rows // tall + i % LANES)
            for g in range(wide):
                self.write_vector(sums[i * wide + g], down, code.add(column, g * tile.columns // wide))

    def write_vector(self, values: Value, row: Index, column: Index) -> None:
        """Neighbouring columns of the tile: at once where the result has them side by side, else one by one."""
        code, p = self.code, self.p
        lanes = kernel.lanes_of(values.type)
        row, column = code.add(self.row0, row), code.add(self.column0, column)
        last = next((c for c in reversed(p.out) if p.sizes[c] != 1), "")
        if last and [c for c in p.column_letters if p.sizes[c] != 1][-1:] == [last] and mod(p.sizes[last], lanes) == 0:
            self._write(values, row, column, lanes, last)
            return
        for i in range(lanes):
            one: Value = code.b(kernel.Extract, values, lane=i)
            self._write(one, row, code.add(column, i), 1)

    def _write(self, value: Value, row: Index, column: Index, lanes: int, last: str = "") -> None:
        """Neighbours along the letter `last`, or a single element."""
        code, p = self.code, self.p
        # Of whole tiles nothing lies outside.
        below = mod(self.m, self.tile.rows) == 0 or code.condition("lt", row, self.m)
        inside = both(code, below, mod(self.n, self.tile.columns) == 0 or code.condition("lt", column, self.n))
        with nullcontext() if inside is True else code.when(truth(code, inside)):
            places = dict(self.around)
            places[""] = _position(self.part)
            places.update(zip(p.row_letters, places_of(code, row, p.shape(p.row_letters)), strict=True))
            for letter, at in zip(p.column_letters, places_of(code, column, p.shape(p.column_letters)), strict=True):
                places[letter] = at.plus(code, Position(step=1)) if letter == last else at
            self.sink(self.kernel, places, lambda at, lanes, mask: value, lanes)


class Filler:
    """Brings tiles of one operand into shared memory: `extent` of its rows (or columns) by the depth of a tile. `copies`: without
    registers, if that can be.
    """

    def __init__(self, made: TiledProduct, value: Value, letters: str, along: list[str], start: Index, end: Dim, extent: int, copies: bool):
        self.made, self.value, self.letters, self.along, self.extent = made, value, letters, along, extent
        self.offset: Index = 0
        code, tile = made.code, made.tile
        vector = self._vector_letter()
        # Neighbouring threads read neighbouring elements. Along rows of windows each thread keeps one position only.
        if vector:
            self.deep = vector in made.p.contracted
        else:
            access = trace(value, letters)
            self.deep = all(access.stride(c) != 1 for c in along) and any(access.stride(c) == 1 for c in made.p.contracted)
        self.is_copied = copies and self._emitter().is_zero_outside(value) and element_type(value.type) == made.stored
        self.lanes = VECTOR_BYTES // made.stored.bytes if vector and self.is_copied else 1
        self.is_copied = self.is_copied and self.lanes * made.stored.bytes >= 4
        self.size = made.board_size(self)
        inner = (tile.depth if self.deep else extent) // self.lanes
        self.first, self.other = code.mul(code.mod(made.thread, inner), self.lanes), code.div(made.thread, inner)
        self.apart = tile.threads // inner
        self.copies = extent * tile.depth // (tile.threads * self.lanes)
        self.places = []
        for i in range(1 if not self.deep else self.copies):
            at = code.add(start, self._along(i))
            valid = True if mod(end, extent) == 0 else code.condition("lt", at, end)
            self.places.append((places_of(code, at, made.p.shape(along)), valid))

    def take_memory(self, stages: int) -> None:
        """Room for so many tiles."""
        self.board = self.made.kernel.shared(stages * self.size, self.made.stored)

    def _emitter(self) -> ElementEmitter:
        """Of elements of the operand."""
        made = self.made
        return ElementEmitter(made.code, {a: buffer_leaf(made.code, b, shape_of(a)) for a, b in made.buffers.items()}, of_memory=True)

    def _vector_letter(self) -> str:
        """The letter along which 16 bytes are copied at once, since they lie side by side in memory, at multiples of 16 bytes, and in the
        tile; none where there is no such letter.
        """
        p = self.made.p
        if element_type(self.value.type) != self.made.stored:
            return ""
        lanes = VECTOR_BYTES // self.made.stored.bytes
        letter = side_by_side(self.value, self.letters, lanes) or ""
        deep = letter in p.contracted
        group = [c for c in (p.contracted if deep else self.along) if p.sizes[c] != 1]
        if letter not in group[-1:] or not self.made.takes_vectors(deep):
            return ""
        # Alone in its group, a letter of rows or columns may end within 16 bytes: what is read behind it goes nowhere.
        return letter if mod(p.sizes[letter], lanes) == 0 or (not deep and len(group) == 1) else ""

    def place(self, copy: int) -> tuple[Index, Index]:
        """Which row (or column) of the tile copy number `copy` of this thread takes, and which step."""
        return self._along(copy), self._depth(copy)

    def _along(self, copy: int) -> Index:
        """Which row of the tile copy number `copy` of this thread takes."""
        return self.made.code.add(self.other, copy * self.apart) if self.deep else self.first

    def _depth(self, copy: int) -> Index:
        return self.first if self.deep else self.made.code.add(self.other, copy * self.apart)

    # --- what a thread brings in

    def _place(self, copy: int, step: Value, end: Index) -> tuple[dict[str, Position], bool | Value]:
        """The place by letter of what copy number `copy` takes of the tile whose depth begins at `step`, and whether it lies inside of the
        operand and the depth.
        """
        made, code, p = self.made, self.made.code, self.made.p
        depth = code.add(step, self._depth(copy))
        at, valid = self.places[copy if self.deep else 0]
        # Whole tiles end together.
        is_whole = mod(made.k, made.tile.depth) == 0
        inside = both(code, valid, code.condition("lt", step if is_whole else depth, end))
        places = {**made.around, **dict(zip(self.along, at, strict=True))}
        places.update(zip(p.contracted, places_of(code, depth, p.shape(p.contracted)), strict=True))
        return places, inside

    def load(self, step: Value, end: Index) -> list[Value]:
        """This thread's elements of the tile, in registers; zeros where there are none."""
        made, code = self.made, self.made.code
        emitter = self._emitter()
        found = []
        for i in range(self.copies):
            places, inside = self._place(i, step, end)
            guards = () if inside is True else (truth(code, inside),)
            element = convert(code, emitter.at(self.value, [places[c] for c in self.letters], 1, None, guards), made.stored)
            if guards and not emitter.is_zero_outside(self.value):
                element = code.apply("select", guards[0], element, code.zero(made.stored))
            found.append(element)
        return found

    def put(self, elements: Sequence[Value]) -> None:
        """Lay down in shared memory what `load` gave."""
        for i, element in enumerate(elements):
            self.made.code.store(element, self.board, self.made.board_of_copy(self, i))

    def copy(self, step: Value, end: Index, stage: Index) -> None:
        """Begin to copy this thread's elements into tile number `stage` of shared memory."""
        made, code = self.made, self.made.code
        self.offset = code.mul(stage, self.size)
        for i in range(self.copies):
            places, inside = self._place(i, step, end)
            target = code.value(code.add(self.offset, made.board_of_copy(self, i)))
            guard = None if inside is True else truth(code, inside)
            self._copy([places[c] for c in self.letters], () if guard is None else (guard,), target)

    def _copy(self, places: list[Position], guards: tuple[Value, ...], target: Value) -> None:
        """Where the views and pads of the operand lead to memory, the elements there are copied in place of being loaded."""
        made, code = self.made, self.made.code

        def leaf(value: Value) -> Leaf:
            def begin(at: Positions, lanes: int, mask: Value | None) -> Value:
                where = code.value(linear(code, at, shape_of(value)).scalar(code))
                code.b(kernel.CopyAsync, made.buffers[value], where, self.board, target, mask, lanes=self.lanes)
                return target

            return begin

        ElementEmitter(code, {a: leaf(a) for a in made.buffers}, of_memory=True).at(self.value, places, 1, None, guards)

    # --- the tile in shared memory

    def at_stage(self, stage: Index) -> Filler:
        """This, of which `at` is in tile number `stage`."""
        self.offset = self.made.code.mul(stage, self.size)
        return self

    def at(self, along: Index, depth: Index) -> Index:
        """The index of an element of the tile in `board`."""
        return self.made.code.add(self.offset, self.made.board_at(self, along, depth))


def _position(x: Index) -> Position:
    return Position(terms=((x, 1),)) if isinstance(x, Value) else Position(x)
