"""Recurrent layers in one call: a scan whose steps multiply a state by a weight and are elementwise otherwise.

All values of such a step are [batch, blocks * units]: a state has one block, the gates of a layer several. But for the product, unit j of a
result depends on unit j of each block alone. So the units are cut into panels. A panel's step is a register tile of the product (the
panel's lanes of all blocks, packed side by side), whose sums wait in L1 for the elementwise part. In backward the elementwise part makes
the product's operand. There a panel makes its part of the product, then what follows, then what comes before the next product.

Threads share the panels of each step. A thread has the same panels in every step, so that their weights stay in its L2. It visits them
forwards and backwards in turn, because what was read last is still there. Every sum has one order, so results do not depend on threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from math import ceil

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type, f32, i1, u8
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, buffer_leaf, linear, load, store
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.loop_nest import Lanes, run, vector_loop
from polyreme.lowering.kernels.microkernel import Accumulators, Read, Registers, tile_heights, tile_rows, tile_rows_evenly, zeros
from polyreme.lowering.kernels.plan import AxisOrder, Form, KernelPlan, Pack, Request, Slot, Step, operand, pack, result, scratch
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.sequence.recurrent_plan import Recurrence, RecurrentTile, blocks_of, choose_tile, find_recurrence
from polyreme.lowering.kernels.sequence.recurrent_two_steps import Column, has_square_tiles, reads_for_two
from polyreme.lowering.kernels.sequence.weights_28bit import SHORT, may_be_short, powers, rows_of_blocks, short_panels, short_rows
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.memory import PAGE_BYTES, PREFETCHED_LOADS
from polyreme.lowering.machines.tasks import STEP_CYCLES


@dataclass(frozen=True)
class RecurrentSchedule(Schedule, kind="recurrent"):
    """How a recurrent layer is computed: `panels` of `vectors` vectors of so many `lanes`, of whose products so many `rows` are made at
    once. With `two_steps` weights are read once for two steps, of an unknown number of rows where it is one at run time; with
    `short_weights` they have 28 bits. So many rows of sums stay in registers as `sums_in_registers`.
    """

    lanes: int
    vectors: int
    rows: int
    panels: int
    sums_in_registers: int
    two_steps: bool = False
    short_weights: bool = False

    @property
    def tile(self) -> RecurrentTile:
        return RecurrentTile(self.lanes, self.vectors, self.rows, self.panels)


def choose_recurrent(r: Recurrence) -> RecurrentSchedule | None:
    """The schedule of a layer; None if not even one vector of each block of units fits into the registers."""
    tile, target = _tile_of(r), r.request.target
    if tile is None:
        return None
    alone = r if isinstance(r.batch, int) else replace(r, batch=1)
    two_steps = reads_for_two(alone) and has_square_tiles(alone, tile)
    vectors = r.blocks * tile.vectors
    # Weights are short where all of them leave no room in the second-level cache.
    large = tile.panels * r.depth * vectors * SHORT.lanes * f32.bytes > target.caches[1] * 3 // 4
    source = r.weight.source
    assert isinstance(source, BlockArgument)
    known = source.index in r.request.known and element_type(source.type) == r.dtype == f32
    rows = tile.width if two_steps else r.depth
    short = known and large and r.batch == 1 and tile.lanes == SHORT.lanes and rows % rows_of_blocks(vectors) == 0 and may_be_short(target)
    sums = (target.vector_registers - vectors - 1) // vectors
    return RecurrentSchedule(tile.lanes, tile.vectors, tile.rows, tile.panels, sums, two_steps, short)


def fit_recurrent(r: Recurrence, schedule: RecurrentSchedule) -> None:
    """`ScheduleError` unless it is the schedule of this layer, with weights of any length that is allowed."""
    own = choose_recurrent(r)
    if own is None or schedule != replace(own, short_weights=own.short_weights and schedule.short_weights):
        raise ScheduleError(f"expected a schedule like {own} for this layer and machine but got {schedule}")


def write_recurrent(r: Recurrence, schedule: RecurrentSchedule) -> KernelPlan:
    """The plan of a layer as its schedule says."""
    return _RecurrentKernel(r, schedule).build()


build_recurrent = Way("recurrent", RecurrentSchedule, find_recurrence, choose_recurrent, write_recurrent, fit_recurrent)


def preferred_order_of_input(request: Request, operand: int) -> AxisOrder | None:
    """The order in which a scan prefers this operand: all gates of one panel of units side by side. None: row-major.

    Only scans that read their weights once for two steps prefer one.
    """
    r = find_recurrence(request)
    if r is None or not reads_for_two(r) or operand >= len(r.scan.xs) or shape_of(r.scan.block.args[operand])[1] != r.blocks * r.units:
        return None
    tile = _tile_of(r)
    return AxisOrder(r.blocks, tile.width) if tile is not None and r.blocks > 1 and has_square_tiles(r, tile) else None


def _tile_of(r: Recurrence) -> RecurrentTile | None:
    return choose_tile(r.units, r.blocks, r.batch, Registers.of(r.request.target, r.dtype), 2 if reads_for_two(r) else 1)


def packed_weight(r: Recurrence, tile: RecurrentTile) -> Func:
    """From the weight to `[panels][depth][blocks * units of a panel]`, with zeros for units that do not exist; at tensor level."""
    chain: list[Op] = []
    source = r.weight_value
    while (op := source.producer()) is not None:
        chain.append(op)
        (source,) = op.operands
    func = Func.empty("pack", [source.type])
    b = Builder.at_end(func.block)
    mapping: dict[Value, Value] = {source: func.args[0]}
    for op in reversed(chain):
        b.insert(op.clone(mapping))
    x = mapping.get(r.weight_value, r.weight_value)
    lane = tensor.ContractSpec(r.contract.spec).out[1]
    if r.weight_letters[0] == lane:
        x = b(tensor.Transpose, x, perm=(1, 0))
    x = b(tensor.Reshape, x, shape=(r.depth, r.blocks, r.units))
    x = b(tensor.Pad, x, low=(0, 0, 0), high=(0, 0, tile.panels * tile.width - r.units), interior=(0, 0, 0))
    x = b(tensor.Reshape, x, shape=(r.depth, r.blocks, tile.panels, tile.width))
    x = b(tensor.Transpose, x, perm=(2, 0, 1, 3))
    x = b(tensor.Reshape, x, shape=(tile.panels, r.depth, r.blocks * tile.width))
    if element_type(x.type) != element_type(source.type):
        # Weights of 16 bits stay so in memory, and are widened in registers.
        x = b(tensor.Map, x, fn="cast", dtype=element_type(source.type))
    b.insert(Return([x]))
    return func.finish()


@dataclass
class _RecurrentPlace:
    """Where the elementwise part stands: a step, a row, and units from `panel` (the first of the panel) plus `local` on."""

    t: Position
    parity: Index
    row: Position
    panel: Position
    local: Position
    padding_before: Position  # elements that are left out in front of the panel, in a state's memory

    def unit(self, code: Code, block: int, units: int) -> Position:
        return self.panel.plus(code, self.local).plus(code, Position(block * units))


@dataclass
class _Memory:
    """The buffers of the kernel, by what they hold."""

    values: dict[Value, Value] = field(default_factory=dict)  # of the step's arguments, as they come into the scan
    states: dict[Value, Value] = field(default_factory=dict)  # of what is carried
    begun: Value = field(init=False)  # sums of the next step, where weights are read for two
    factor: Value = field(init=False)  # what the product reads: the state, or `SHORT.factor` times it for short weights
    last: list[Value] = field(default_factory=list)
    given: list[Value] = field(default_factory=list)


class _RecurrentKernel:
    """Writes the kernel of a recurrence. Of an unknown number of rows it may have a second form, on the same weights, for one of them."""

    def __init__(self, r: Recurrence, schedule: RecurrentSchedule):
        self.r, self.schedule, self.tile = r, schedule, schedule.tile
        tile = self.tile
        is_known = isinstance(r.batch, int)
        self.alone = _RecurrentKernel(replace(r, batch=1), schedule) if schedule.two_steps and not is_known else None
        self.steps: Dim = r.scan.steps
        self.made = not isinstance(r.state, BlockArgument)  # whether the product's operand is made in the step
        self.scratch: list[BufferType] = []
        self.slots: list[Slot] = []
        self.types: list[BufferType] = []
        vectors = r.blocks * tile.vectors
        self.two_steps, self.short = schedule.two_steps and is_known, schedule.short_weights
        # Rows that do not run are passed over; of weights that are read for two steps there is one row.
        self.running = None if self.two_steps else r.running
        # Elements of a panel's sums of a row; between the panels of two threads in the memory of states; and of a state there, if each
        # panel had a thread.
        self.line = r.blocks * tile.width
        # A page between the states of two threads: the hardware prefetcher would else bring lines that the other one is about to write.
        self.padding = PAGE_BYTES // r.dtype.bytes if self.two_steps else 0
        self.size: Dim = product((r.batch, r.units)) + tile.panels * self.padding
        # Rows of weights in a round of the product's loop.
        self.round = max(1, PREFETCHED_LOADS // vectors)
        if self.short:
            few = rows_of_blocks(vectors)
            self.round = next(rows for rows in range(max(few, self.round // few * few), 0, -few) if self._rows % rows == 0)

    @property
    def _rows(self) -> int:
        """Rows of weights that are gone through at a time."""
        return self.tile.width if self.two_steps else self.r.depth

    def build(self) -> KernelPlan:
        r, request = self.r, self.r.request
        source = r.weight.source
        assert isinstance(source, BlockArgument)
        packs: tuple[Pack, ...] = (Pack(source.index, packed_weight(r, self.tile)),)
        if self.short:
            panels, depth, columns = packs[0].type.shape
            size = product((panels, depth, columns)) // SHORT.block * SHORT.block_bytes
            forms = (Form(short_panels, TensorType((size,), u8)), Form(powers, TensorType((panels, columns), f32)))
            packs = tuple(replace(packs[0], form=form) for form in forms)
        # The weight itself stays outside, unless something else reads it.
        args = [a for a in r.scan.block.args if a is not source or len(a.users) > 1]
        for arg in args:
            self._add(operand(arg.index), _buffer_of(r.scan.operands[arg.index]))
        for i, packed in enumerate(packs):
            self._add(pack(i), BufferType(packed.type.shape, packed.type.dtype))
        # Of the form with the gaps, if there is one.
        gaps = self.tile.panels * (self.padding if self.alone is None else self.alone.padding)
        room = product((r.batch, r.units)) + gaps
        for state in r.carried:
            self._add_scratch(2 * room if state is r.state else room, element_type(state.type))
        if self.schedule.two_steps:
            self._add_scratch(self.tile.panels * self.line + gaps, r.dtype)
        if self.made or self.short:
            self._add_scratch(2 * (product((r.batch, r.depth)) + self.tile.panels * self.padding), r.dtype)
        for i, type in enumerate(request.result_types):
            self._add(result(i), BufferType(type.shape, type.dtype))
        func = Func.empty(request.name("recurrence"), self.types, loc=r.scan.location)
        code = self.code = Code(Builder.at_end(func.block, func.location), merged=True)
        given = iter(func.args)
        memory = self.memory = _Memory()
        memory.values = {arg: next(given) for arg in args}
        self.weights = next(given)
        self.powers = next(given) if self.short else None
        memory.states = {state: next(given) for state in r.carried}
        if self.schedule.two_steps:
            memory.begun = next(given)
        memory.factor = next(given) if self.made or self.short else memory.states[r.state]
        memory.last = [next(given) for _ in r.carried]
        memory.given = list(given)
        self._write_forms()
        code.b.insert(Return([]))
        clean_up_kernel(func)
        return KernelPlan((Step(func, tuple(self.slots)),), packs, tuple(self.scratch), "recurrent")

    def _add(self, slot: Slot, type: BufferType) -> None:
        self.slots.append(slot)
        self.types.append(type)

    def _add_scratch(self, size: Dim, dtype: ScalarType) -> None:
        self.scratch.append(BufferType((size,), dtype))
        self._add(scratch(len(self.scratch) - 1), self.scratch[-1])

    # --- all steps

    def _write_forms(self) -> None:
        """The kernel as it is for any number of rows, and for one."""
        code, alone = self.code, self.alone
        if alone is None:
            self._write()
            return
        alone.code, alone.memory, alone.weights, alone.powers = code, self.memory, self.weights, self.powers
        is_one = code.condition("eq", self.r.batch, 1)
        assert isinstance(is_one, Value)
        with code.when(is_one):
            alone._write()
        with code.when(is_one, then=False):
            self._write()

    def _write(self) -> None:
        code, r = self.code, self.r
        pieces = self.pieces = self._pieces()
        for state in r.carried:
            self._copy(self.memory.values[state], self.memory.states[state])
            if self.short and state is r.state:
                self._copy(self.memory.values[state], self.memory.factor, change=self._times_factor)
        if self.made:
            some = code.condition("gt", self.steps, 0)
            if isinstance(some, Value):
                with code.when(some):
                    self._before_first()
            elif some:
                self._before_first()
        if self.two_steps:
            with code.loop(0, self.tile.panels, name="panel") as loop:
                for at in self._begun(loop.iv):
                    code.store(code.zero(r.dtype, self.tile.lanes), self.memory.begun, at, None, self.tile.lanes * r.dtype.bytes)
        blank = self._first_is_blank() if self.two_steps else None
        with code.loop(0, self.steps, name="t") as loop:
            parity = code.mod(loop.iv, 2)
            with code.parallel(pieces, name="piece") as piece:
                panels = self.tile.panels
                first = code.div(code.mul(piece, panels), pieces)
                end = code.div(code.mul(code.add(piece, 1), panels), pieces)
                with code.loop(first, end, name="panel") as visit:
                    # To and fro: in odd steps the last panel comes first.
                    back = code.sub(code.add(first, end, -1), code.mul(visit.iv, 2))
                    panel = code.add(visit.iv, code.mul(parity, back))
                    self._panel(Column(code, loop.iv, parity, panel, panels, first, end, blank))
        for state, last in zip(r.carried, self.memory.last, strict=True):
            start = code.mul(code.mod(code.value(self.steps), 2), self.size) if state is r.state else 0
            self._copy(self.memory.states[state], last, start)

    def _first_is_blank(self) -> Value:
        """Whether all of the first state is zero, where its units fill vectors."""
        code, lanes = self.code, self.tile.lanes
        state = self.memory.values[self.r.state]
        with code.loop(0, self.r.units, [code.zero(element_type(state.type), lanes)], lanes, "unit") as loop:
            loop.next = [code.apply("add", loop.carried[0], code.apply("abs", code.load(state, loop.iv, lanes)))]
        total = code.reduce(loop.results[0])
        return code.apply("eq", total, code.zero(element_type(state.type)))

    def _times_factor(self, x: Value) -> Value:
        """What the product of short weights reads for `x`."""
        code = self.code
        return code.apply("mul", x, code.broadcast(code.constant(SHORT.factor, f32), kernel.lanes_of(x.type)))

    def _copy(self, source: Value, target: Value, start: Index | None = None, change: Callable[[Value], Value] = lambda x: x) -> None:
        """A state to its memory; or from there, where it begins at `start`."""
        code, tile = self.code, self.tile

        def part(at: Index, to: Index, count: Dim) -> None:
            def body(local: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                store(
                    code,
                    change(load(code, source, local.plus(code, position(at)), lanes, mask)),
                    target,
                    local.plus(code, position(to)),
                    mask,
                )
                return carried

            vector_loop(code, 0, count, Lanes(tile.lanes, self.r.request.target.masked), [], body)

        if not self.padding:
            part(start or 0, 0, product((self.r.batch, self.r.units)))
            return
        with code.loop(0, tile.panels, name="panel") as loop:
            dense = code.mul(loop.iv, tile.width)
            apart = code.add(start or 0, dense, self._padding_before(loop.iv))
            part(*((dense, apart) if start is None else (apart, dense)), tile.width)

    def _padding_before(self, panel: Index) -> Index:
        """Elements of gaps in front of a panel, in the memory of states: one for each piece in front of its own."""
        code, panels = self.code, self.tile.panels
        return code.mul(code.div(code.add(code.mul(code.add(panel, 1), self.pieces), -1), panels), self.padding) if self.padding else 0

    def _pieces(self) -> Value:
        """How many pieces the panels of a step are cut into: one for each thread, where there is enough to do."""
        code, r, tile = self.code, self.r, self.tile
        per_row = tile.panels * tile.vectors * (r.depth * r.blocks + ceil(r.gate_cycles))
        enough = code.condition("ge", r.batch * per_row, STEP_CYCLES)
        if tile.panels == 1 or enough is False:
            return code.value(1)
        threads = code.apply("min", code.b(kernel.Threads), code.value(tile.panels))
        return threads if enough is True else code.apply("select", enough, threads, code.value(1))

    def _before_first(self) -> None:
        """The operand of the first product, for all units."""
        code = self.code
        with code.loop(0, self.tile.panels, name="panel") as loop:
            self._elements(0, 0, loop.iv, 0, self.r.batch, None)

    # --- one panel in one step

    def _panel(self, column: Column) -> None:
        code, tile, r, t, parity, panel = self.code, self.tile, self.r, column.t, column.parity, column.panel
        sums = code.scratch(tile.rows * r.blocks * tile.width, r.dtype)

        def rows(first: Index, count: int) -> None:
            if self.running is None:
                self._product(column, first, count, sums)
            else:
                counts = [self._runs(self._here(t), position(code.add(first, i))) for i in range(count)]
                with code.when(functools.reduce(lambda x, y: code.apply("or", x, y), counts)):
                    self._product(column, first, count, sums)
            self._elements(t, parity, panel, first, count, sums)

        if isinstance(r.batch, int):
            tile_rows(code, r.batch, tile_heights(tile.rows, r.batch), rows)
        else:
            # Each tile reads all weights: as few as can be.
            tile_rows_evenly(code, code.value(r.batch), tile.rows, rows)
        if self.made:
            following = code.add(t, 1)
            more = code.condition("lt", following, self.steps)
            assert isinstance(more, Value)
            with code.when(more):
                self._elements(following, code.sub(1, parity), panel, 0, r.batch, None)

    def _product(self, column: Column, first: Index, rows: int, sums: Value) -> None:
        """The panel's sums of `rows` rows from `first` on, into `sums` [rows][blocks][width]."""
        code, tile, r, parity, panel = self.code, self.tile, self.r, column.parity, column.panel
        vectors = r.blocks * tile.vectors
        line = self.line
        state = self.memory.factor
        at_state = code.add(code.mul(parity, self.size if self.two_steps else product((r.batch, r.depth))), code.mul(first, r.depth))
        bytes = tile.lanes * r.dtype.bytes

        # From one row to the next; the other one of two steps is where this one's results go.
        between = code.mul(code.sub(1, code.mul(parity, 2)), self.size) if self.two_steps else r.depth

        def read_state(row: int, at: Index) -> Value:
            return code.broadcast(code.load(state, code.add(at, code.mul(between, row))), tile.lanes)

        if self.short:
            # A state that another thread made is slow to read; the many instructions of 28-bit weights leave no room to hide that.
            for i in range(0, r.depth, SHORT.lanes):
                code.prefetch(state, code.add(at_state, i, self._padding_before(i // tile.width)))
        narrow = element_type(self.weights.type)

        def read_weights(at: Index, count: int) -> Iterator[Iterable[Value]]:
            for i in range(count):
                read = (
                    code.load(self.weights, code.add(at, i * line + v * tile.lanes), tile.lanes, None, tile.lanes * narrow.bytes)
                    for v in range(vectors)
                )
                yield read if narrow == r.dtype else (code.apply("cast", x, dtype=r.dtype) for x in read)

        def read_short(at: Index, count: int) -> Iterator[Iterable[Value]]:
            return short_rows(code, self.weights, at, count, vectors)

        step = line * SHORT.block_words // SHORT.block if self.short else line
        at_weights = code.mul(panel, r.depth * step)

        def multiply(acc: Accumulators, of: Index = 0) -> Accumulators:
            """Adds what panel `of` of the state gives, or all of it where there are no gaps."""
            at_a = code.add(at_state, code.mul(of, tile.width), self._padding_before(of))
            at_b = code.add(at_weights, code.mul(of, tile.width * step))
            few = len(acc) > self.schedule.sums_in_registers
            return _accumulate(
                code, self._rows, self.round, read_state, read_short if self.short else read_weights, acc, at_a, at_b, step, few
            )

        if self.two_steps:
            begun = self._begun(panel)
            acc, then = column.sums([code.load(self.memory.begun, at, tile.lanes, None, bytes) for at in begun], multiply)
            for at, value in zip(begun, then, strict=True):
                code.store(value, self.memory.begun, at, None, bytes)
        else:
            acc = multiply(zeros(code, rows, vectors, r.dtype, tile.lanes))
        for row, values in enumerate(acc):
            for v, value in enumerate(values):
                code.store(self._sum(value, panel, v), sums, row * line + v * tile.lanes, None, bytes)

    def _begun(self, panel: Index) -> list[Index]:
        """Where the vectors are that begin the next step's sums of a panel."""
        code, lanes = self.code, self.tile.lanes
        return [code.add(code.mul(panel, self.line), self._padding_before(panel), at) for at in range(0, self.line, lanes)]

    def _sum(self, value: Value, panel: Index, v: int) -> Value:
        """What a sum of the product stands for, vector `v` of a panel."""
        if self.powers is None:
            return value
        code = self.code
        power = code.load(self.powers, code.add(code.mul(panel, self.line), v * SHORT.lanes), SHORT.lanes, None, SHORT.lanes * f32.bytes)
        return code.apply("mul", code.apply("mul", value, code.broadcast(code.constant(SHORT.rest, f32), SHORT.lanes)), power)

    def _elements(self, t: Index, parity: Index, panel: Index, first: Index, rows: Dim, sums: Value | None) -> None:
        """What follows the product, from its `sums`; or without them what comes before the product of step `t`. For `rows` rows and the
        units of a panel.
        """
        code, tile, r = self.code, self.tile, self.r
        here = self._here(t)
        start, padding_before = code.mul(panel, tile.width), position(self._padding_before(panel))
        count: Index = tile.width if r.units % tile.width == 0 else code.min(tile.width, code.sub(r.units, start))

        def units(at: Position, runs: bool) -> None:
            def body(local: Position, lanes: int, mask: Value | None, part: int, carried: list[Value]) -> list[Value]:
                place = _RecurrentPlace(here, parity, at.plus(code, position(first)), position(start), local, padding_before)
                leaf = None
                if sums is not None:
                    base = at.times(code, self.line)

                    def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
                        block = places[1].const // r.units
                        assert isinstance(block, int)
                        return load(code, sums, base.plus(code, local).plus(code, Position(block * tile.width)), lanes, mask)

                self._vector(place, lanes, mask, leaf, runs)
                return carried

            vector_loop(code, 0, count, Lanes(tile.lanes, r.request.target.masked), [], body)

        def row(at: Position, values: list[Value]) -> list[Value]:
            if self.running is None:
                units(at, True)
                return values
            counts = self._runs(here, at.plus(code, position(first)))
            for runs in (True, False):
                with code.when(counts, runs):
                    units(at, runs)
            return values

        run(code, 0, rows, 1, [], row, "row")

    def _here(self, t: Index) -> Position:
        """The rows of what scans go through that the step is about."""
        code = self.code
        return position(code.sub(code.sub(self.steps, 1), t) if self.r.scan.reverse else t)

    def _runs(self, here: Position, row: Position) -> Value:
        """Whether a row counts."""
        code, arg = self.code, self.running
        assert arg is not None
        return load(code, self.memory.values[arg], here.times(code, self.r.batch).plus(code, row), 1, None)

    def _vector(self, place: _RecurrentPlace, lanes: int, mask: Value | None, sums: Leaf | None, runs: bool) -> None:
        """The results of one vector of units, or of one unit; all are made before any is stored, because some take the place of what others
        read. Where the row does not run, the product is taken as zero.
        """
        code, r = self.code, self.r
        leaves: dict[Value, Leaf] = {arg: self._leaf(arg, place) for arg in r.scan.block.args if arg in self.memory.values}
        if sums is not None:
            leaves[r.contract.result] = sums if runs else _same(code, code.zero(r.dtype))
        if self.running is not None:
            leaves[self.running] = _same(code, code.constant(runs, i1))
        emitter = ElementEmitter(code, leaves)
        stores: list[tuple[Value, Value, Position]] = []

        def make(value: Value, buffer: Value, start: Position, columns: Dim, times_factor: bool = False) -> None:
            for block in range(blocks_of(r, value)):
                part, inner = _block_of(r, value, block)
                made = emitter.at(part, (place.row, place.unit(code, inner, r.units)), lanes, mask)
                at = start.plus(code, place.row.times(code, columns)).plus(code, place.unit(code, block, r.units))
                stores.append((self._times_factor(made) if times_factor else made, buffer, at))

        for value, buffer in zip(r.given, self.memory.given, strict=True):
            if (value in r.after or not self.made) == (sums is not None):
                columns = shape_of(value)[1]
                make(value, buffer, place.t.times(code, product((r.batch, columns))), columns)
        if sums is None:
            size = product((r.batch, r.depth))
            make(r.state, self.memory.factor, position(code.mul(place.parity, size)), r.depth, self.short)
        else:
            for state, value in zip(r.carried, r.handed, strict=True):
                parity: Index = code.sub(1, place.parity) if state is r.state else 0
                start = position(code.mul(parity, self.size)).plus(code, place.padding_before)
                make(value, self.memory.states[state], start, r.units)
                if self.short and state is r.state:
                    make(value, self.memory.factor, start, r.units, True)
        for made, buffer, at in stores:
            store(code, made, buffer, at, mask)

    def _leaf(self, arg: Value, place: _RecurrentPlace) -> Leaf:
        """How a step reads an argument of its own."""
        code, r = self.code, self.r
        assert isinstance(arg, BlockArgument) and isinstance(arg.type, TensorType)
        shape = arg.type.shape
        if arg in r.carried:
            parity: Index = place.parity if arg is r.state else 0
            return _moved(code, self.memory.states[arg], position(code.mul(parity, self.size)).plus(code, place.padding_before), shape)
        result_order = dict(r.request.operand_orders).get(arg.index)
        if result_order is not None:
            # All blocks of a panel lie together.
            start = place.t.times(code, product(shape)).plus(code, place.panel.times(code, result_order.blocks)).plus(code, place.local)

            def operand_orders(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
                return load(
                    code, self.memory.values[arg], start.plus(code, Position(places[1].const // r.units * result_order.width)), lanes, mask
                )

            return operand_orders
        if arg.index < len(r.scan.xs):
            return _moved(code, self.memory.values[arg], place.t.times(code, product(shape)), shape)
        return buffer_leaf(code, self.memory.values[arg], shape)


def _accumulate(
    code: Code,
    depth: int,
    unroll: int,
    a: Read,
    b: Callable[[Index, int], Iterator[Iterable[Value]]],
    acc: Accumulators,
    at_a: Index,
    at_b: Index,
    step: int,
    by_columns: bool,
) -> Accumulators:
    """The accumulators after `depth` steps, `unroll` of them in a round; a step moves the state by one element and the weights by `step`.
    `b` gives the vectors of so many rows of weights; `by_columns`, each is multiplied by all numbers of the state before the next one is
    read, where there are no registers for a row of them: LLVM would keep some of the sums on the stack.
    """
    vectors = len(acc[0])

    def steps(acc: Accumulators, count: int, at_a: Index, at_b: Index) -> Accumulators:
        acc = [list(row) for row in acc]
        for i, columns in enumerate(b(at_b, count)):
            if by_columns:
                scalars = [a(row, code.add(at_a, i)) for row in range(len(acc))]
                for v, column in enumerate(columns):
                    for scalar, sums in zip(scalars, acc, strict=True):
                        sums[v] = code.fma(scalar, column, sums[v])
                continue
            columns = list(columns)
            for row, sums in enumerate(acc):
                scalar = a(row, code.add(at_a, i))
                sums[:] = [code.fma(scalar, column, x) for column, x in zip(columns, sums, strict=True)]
        return acc

    with code.loop(0, depth // unroll, [x for row in acc for x in row], name="k") as loop:
        carried = [loop.carried[i : i + vectors] for i in range(0, len(loop.carried), vectors)]
        at = code.mul(loop.iv, unroll)
        loop.next = [x for row in steps(carried, unroll, code.add(at_a, at), code.add(at_b, code.mul(at, step))) for x in row]
    acc = [loop.results[i : i + vectors] for i in range(0, len(loop.results), vectors)]
    done = depth // unroll * unroll
    return steps(acc, depth - done, code.add(at_a, done), code.add(at_b, done * step))


def _same(code: Code, number: Value) -> Leaf:
    """One number wherever it is read."""

    def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
        return code.broadcast(number, lanes) if lanes > 1 else number

    return leaf


def _moved(code: Code, buffer: Value, at: Position, shape: Sequence[Dim]) -> Leaf:
    """Reads what lies row-major from position `at` of a buffer on."""

    def leaf(places: tuple[Position, ...], lanes: int, mask: Value | None) -> Value:
        return load(code, buffer, at.plus(code, linear(code, places, shape)), lanes, mask)

    return leaf


def _block_of(r: Recurrence, value: Value, block: int) -> tuple[Value, int]:
    """Where block number `block` of a value comes from: a concat's operands are looked through."""
    concat = value.producer(tensor.Concat)
    while concat is not None:
        for x in concat.xs:
            count = blocks_of(r, x)
            if block < count:
                break
            block -= count
        value, concat = x, x.producer(tensor.Concat)
    return value, block


def _buffer_of(value: Value) -> BufferType:
    assert isinstance(value.type, TensorType)
    return BufferType(value.type.shape, value.type.dtype)
