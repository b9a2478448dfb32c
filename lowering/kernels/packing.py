"""Packing: operands in panels of lanes, made at compile time or by a kernel at run time.

A panel is `[outer letters][N/width][contracted letters][width]`, so a register tile reads B from front to back. The last panel is padded
with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from math import gcd

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, BlockArgument, Op, Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, TensorType, element_type
from polyreme.lowering.analysis.access import Access, row_major
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import transpose_lanes
from polyreme.lowering.kernels.plan import AxisOrder, KernelPlan, Pack, Request, Slot, Step, operand, pack, scratch
from polyreme.lowering.machines.instructions import BYTES


@dataclass(frozen=True)
class Panels:
    """The layout: letters with their sizes; `width` lanes in a panel."""

    outer: tuple[str, ...]
    contracted: tuple[str, ...]
    lane: str
    width: int
    sizes: dict[str, Dim]

    @property
    def depth(self) -> Dim:
        """Rows of a panel."""
        return product(self.sizes[c] for c in self.contracted)

    @property
    def count(self) -> Dim:
        """Panels for each place of the outer letters."""
        return ceildiv(self.sizes[self.lane], self.width)

    @property
    def panel_size(self) -> Dim:
        return self.depth * self.width

    @property
    def elements(self) -> Dim:
        return product(self.sizes[c] for c in self.outer) * self.count * self.panel_size

    @property
    def strides(self) -> dict[str, Dim]:
        """How far each outer and contracted letter moves."""
        inner = row_major(tuple(self.sizes[c] for c in self.contracted))
        around = row_major(tuple(self.sizes[c] for c in self.outer))
        moves = {c: s * self.width for c, s in zip(self.contracted, inner, strict=True)}
        return {**moves, **{c: s * self.count * self.panel_size for c, s in zip(self.outer, around, strict=True)}}


def copied_views(value: Value) -> tuple[Func, Builder, Value]:
    """A function at tensor level from the argument that `value` views (or is) to be, a builder at its end, and `value` in it; without a
    return.
    """
    chain: list[Op] = []
    source = value
    while not isinstance(source, BlockArgument):
        assert isinstance(source.owner, Op)
        chain.append(source.owner)
        (source,) = source.owner.operands
    func = Func.empty("pack", [source.type])
    b = Builder.at_end(func.block)
    mapping: dict[Value, Value] = {source: func.args[0]}
    for op in reversed(chain):
        b.insert(op.clone(mapping))
    return func, b, mapping.get(value, value)


def panels_of(value: Value, letters: str, panels: Panels, word_letter: str | None = None) -> Func:
    """The packing of `value`, an argument of its function or views of one: a function at tensor level from the argument to flat panels.

    With `word_letter`, a contracted letter, the panels hold words of four bytes, or two 16-bit integers, along it.
    """
    func, b, x = copied_views(value)
    order = [*panels.outer, *panels.contracted, panels.lane]
    # Letters of size one may be missing from the layout.
    perm = [letters.index(c) for c in letters if c not in order] + [letters.index(c) for c in order]
    x = b(tensor.Transpose, x, perm=tuple(perm))
    around, n = product(panels.sizes[c] for c in panels.outer), panels.sizes[panels.lane]
    word: tuple[int, ...] = ()
    if word_letter is not None:
        word, at = (BYTES // element_type(value.type).bytes,), order.index(word_letter) + 1
        sizes = [panels.sizes[c] for c in order]
        x = b(tensor.Reshape, x, shape=(*sizes[:at], *word, *sizes[at:]))
        x = b(tensor.Transpose, x, perm=(*range(at), *range(at + 1, len(sizes) + 1), at))
    x = b(tensor.Reshape, x, shape=(around, panels.depth, n, *word))
    none = (0,) * len(word)
    x = b(tensor.Pad, x, low=(0, 0, 0, *none), high=(0, 0, panels.count * panels.width - n, *none), interior=(0, 0, 0, *none))
    x = b(tensor.Reshape, x, shape=(around, panels.depth, panels.count, panels.width * product(word)))
    x = b(tensor.Transpose, x, perm=(0, 2, 1, 3))
    x = b(tensor.Reshape, x, shape=(panels.elements * product(word),))
    if element_type(x.type) != element_type(func.args[0].type):
        # Panels are as narrow as what they are made of: who reads them widens them.
        x = b(tensor.Map, x, fn="cast", dtype=element_type(func.args[0].type))
    b.insert(Return([x]))
    return func.finish()


Threshold = tuple[Dim, int] | None


def pack_kernel(name: str, access: Access, panels: Panels, dtype: ScalarType, lanes: int, threshold: Threshold = None) -> Func:
    """A kernel from the memory of `access` to panels: copies of vectors where lanes are neighbours, transposed blocks where a contracted
    letter's elements are, single elements elsewhere. With `threshold`, (size, least), it does nothing when the size is below the least.
    """
    source = access.source.type
    assert isinstance(source, TensorType)
    func = Func.empty(name, [BufferType(source.shape, dtype), BufferType((panels.elements,), dtype)], arg_names=("from", "panels"))
    code = Code(Builder.at_end(func.block))
    read, write = func.args
    sizes = [panels.sizes[c] for c in panels.outer]
    cost = panels.panel_size if isinstance(panels.panel_size, int) else 4096
    count: Index = product(sizes) * panels.count
    if threshold is not None:
        many = code.condition("ge", *threshold)
        assert isinstance(many, Value)
        count = code.apply("select", many, code.value(count), code.value(0))
    with code.parallel(code.value(count), grain=max(1, 8192 // max(cost, 1)), name="panel") as task:
        *around, z = code.split(task, [*sizes, panels.count])
        start = code.add(access.base, *(code.mul(i, access.stride(c)) for i, c in zip(around, panels.outer, strict=True)))
        target = code.mul(task, panels.panel_size)
        lane0 = code.mul(z, panels.width)
        start = code.add(start, code.mul(lane0, access.stride(panels.lane)))
        left = code.sub(panels.sizes[panels.lane], lane0)
        PanelFill(code, access, panels, read, write, lanes).fill(start, target, left)
    code.b.insert(Return([]))
    return func.finish()


@dataclass
class PanelFill:
    """Writes one panel to position `target` of `write`, from position `start` of `read` on; `left` lanes of it exist."""

    code: Code
    access: Access
    panels: Panels
    read: Value
    write: Value
    lanes: int

    def fill(self, start: Index, target: Index, left: Index) -> None:
        letters = [c for c in self.panels.contracted if self.panels.sizes[c] != 1]
        unit_letter = next((c for c in letters if self.access.stride(c) == 1 and isinstance(self.panels.sizes[c], int)), None)
        if self.access.stride(self.panels.lane) == 1 or unit_letter is None or self.lanes == 1:
            self._nest(letters, start, target, lambda at, to: self._row(at, to, left))
        else:
            rest = [c for c in letters if c != unit_letter]
            self._nest(rest, start, target, lambda at, to: self._transposed(unit_letter, at, to, left))

    def _nest(self, letters: Sequence[str], at: Index, to: Index, body: Callable[[Index, Index], None]) -> None:
        if not letters:
            body(at, to)
            return
        code, letter = self.code, letters[0]
        with code.loop(0, self.panels.sizes[letter], name=letter) as loop:
            here = code.add(at, code.mul(loop.iv, self.access.stride(letter)))
            there = code.add(to, code.mul(loop.iv, self.panels.strides[letter]))
            self._nest(letters[1:], here, there, body)

    def _row(self, at: Index, to: Index, left: Index) -> None:
        """One row of the panel, whose lanes stand `stride` apart."""
        code, stride = self.code, self.access.stride(self.panels.lane)
        for v in range(0, self.panels.width, self.lanes):
            mask = code.lane_mask(code.sub(left, v), self.lanes)
            first = code.add(at, code.mul(v, stride))
            if stride == 1:
                row = code.load(self.read, first, self.lanes, mask)
            elif self.lanes == 1:
                row = code.load(self.read, first, 1, mask)
            else:
                places = code.apply("mul", code.b(kernel.Iota, lanes=self.lanes), code.broadcast(code.value(stride), self.lanes))
                places = code.apply("add", places, code.broadcast(code.value(first), self.lanes))
                row = code.b(kernel.Gather, self.read, places, mask)
            code.store(row, self.write, code.add(to, v))

    def _transposed(self, unit_letter: str, at: Index, to: Index, left: Index) -> None:
        """Square blocks: `lanes` elements along `unit_letter` for each of `lanes` lanes."""
        code, lanes, count = self.code, self.lanes, self.panels.sizes[unit_letter]
        assert isinstance(count, int)
        blocks, rest = divmod(count, lanes)
        if blocks:
            with code.loop(0, blocks, name=unit_letter) as loop:
                here = code.add(at, code.mul(loop.iv, lanes))
                there = code.add(to, code.mul(code.mul(loop.iv, lanes), self.panels.strides[unit_letter]))
                self._block(unit_letter, here, there, left, lanes)
        if rest:
            self._block(
                unit_letter,
                code.add(at, blocks * lanes),
                code.add(to, code.mul(blocks * lanes, self.panels.strides[unit_letter])),
                left,
                rest,
            )

    def _block(self, unit_letter: str, at: Index, to: Index, left: Index, rows: int) -> None:
        code, lanes, stride = self.code, self.lanes, self.access.stride(self.panels.lane)
        for v in range(0, self.panels.width, lanes):
            columns = []
            for i in range(lanes):
                # A lane that does not exist is read with no element on.
                exists = code.mul(code.sub(left, v + i), lanes)
                mask = code.lane_mask(code.min(exists, rows), lanes)
                columns.append(code.load(self.read, code.add(at, code.mul(v + i, stride)), lanes, mask))
            for k, row in enumerate(transpose_lanes(code, columns)[:rows]):
                code.store(row, self.write, code.add(to, code.mul(k, self.panels.strides[unit_letter]), v))


# --- plans that need more than their main kernel


@dataclass
class PlanParts:
    """The steps, packs and scratch buffers of a plan that is being made."""

    request: Request
    steps: list[Step] = field(default_factory=list)
    packs: list[Pack] = field(default_factory=list)
    scratch: list[BufferType] = field(default_factory=list)
    of_thread: list[tuple[int, int]] = field(default_factory=list)

    def new_scratch(self, count: Dim, dtype: ScalarType, of_thread: int = 0) -> Slot:
        """A scratch buffer of so many elements, of which each thread has `of_thread` for itself, or shares all with the others."""
        if of_thread:
            self.of_thread.append((len(self.scratch), of_thread))
        self.scratch.append(BufferType((count,), dtype))
        return scratch(len(self.scratch) - 1)

    def memory_of(self, source: Value) -> Slot:
        """Where `source` is: an operand, or scratch memory that steps fill first."""
        if isinstance(source, BlockArgument):
            return operand(source.index)
        assert isinstance(source.type, TensorType)
        slot = self.new_scratch(source.type.elements, source.type.dtype)
        self.steps += self._making(source, slot)
        return slot

    def _making(self, source: Value, slot: Slot) -> list[Step]:
        """The generic loops' steps that compute `source`."""
        from polyreme.lowering.kernels.general.loops import build_loops

        func = self.request.func
        needed = _ancestors(source)
        # A kernel that took the others too would keep them alive, weights among them that are needed in packed form only.
        taken = [a for a in func.args if any(a in op.operands for op in needed)]
        part = Func.empty("part", [a.type for a in taken], loc=func.location)
        mapping: dict[Value, Value] = dict(zip(taken, part.args, strict=True))
        b = Builder.at_end(part.block, func.location)
        for op in func.block:
            if op in needed:
                b.insert(op.clone(mapping))
        b.insert(Return([mapping[source]]))
        plan = build_loops(Request(part.finish(), self.request.target))
        assert plan is not None
        return self._steps_of(plan, lambda s: slot if s.kind == "result" else operand(taken[s.index].index))

    def include(self, plan: KernelPlan, some: Callable[[Code, Value], Value]) -> None:
        """Add another plan of the root, whose kernels run so many of their tasks as `some` says when it is given all of them: none, for
        example, where sizes are not meant for it.
        """
        for step in self._steps_of(plan, lambda s: s):
            _run_some(step.func.block, some)
            self.steps.append(step)

    def _steps_of(self, plan: KernelPlan, moved: Callable[[Slot], Slot]) -> list[Step]:
        """The steps of another plan, whose packs and scratch buffers become this one's; `moved` tells where its operands and results are.
        """
        shift = {"pack": len(self.packs), "scratch": len(self.scratch)}
        self.packs += plan.packs
        self.of_thread += [(shift["scratch"] + i, elements) for i, elements in plan.of_thread]
        self.scratch += plan.scratch
        where = lambda s: Slot(s.kind, s.index + shift[s.kind]) if s.kind in shift else moved(s)
        return [replace(step, slots=tuple(map(where, step.slots))) for step in plan.steps]

    def buffer_type(self, slot: Slot) -> BufferType:
        """The type of a slot's memory, for the argument of a kernel."""
        if slot.kind == "scratch":
            return self.scratch[slot.index]
        types = {"operand": self.request.operand_types, "result": self.request.result_types, "pack": [x.type for x in self.packs]}[
            slot.kind
        ]
        return BufferType(types[slot.index].shape, types[slot.index].dtype)


    def packed(
        self, value: Value, letters: str, access: Access, panels: Panels, threshold: Threshold = None, word_letter: str | None = None
    ) -> Slot:
        """The panels of `value`: packed at compile time for a constant or kept operand, else by a step.

        With a `threshold`, (rows, least), the step does nothing for fewer rows. `word_letter` is that of `panels_of`.
        """
        source = access.source
        if word_letter is not None:
            assert isinstance(source, BlockArgument)
            self.packs.append(Pack(source.index, panels_of(value, letters, panels, word_letter)))
            return pack(len(self.packs) - 1)
        dtype = source.type.dtype
        made = partial(pack_kernel, self.request.name("pack"), access, panels, dtype, gcd(self.request.target.lanes(dtype), panels.width))
        if isinstance(source, BlockArgument) and threshold is None and source.index in self.request.constant | self.request.kept:
            kernel = made() if source.index in self.request.kept else None
            self.packs.append(Pack(source.index, panels_of(value, letters, panels), kernel))
            return pack(len(self.packs) - 1)
        memory = self.memory_of(source)
        slot = self.new_scratch(panels.elements, dtype)
        self.steps.append(Step(made(threshold), (memory, slot)))
        return slot

    def plan(
        self, builder: str, result_order: AxisOrder | None = None, schedule: str = "", updates: tuple[tuple[int, int], ...] = ()
    ) -> KernelPlan:
        return KernelPlan(
            tuple(self.steps), tuple(self.packs), tuple(self.scratch), builder, of_thread=tuple(self.of_thread), result_order=result_order,
            schedule=schedule, updates=updates,
        )  # fmt: skip


def _ancestors(value: Value) -> set[Op]:
    """The ops that make `value`, directly or not."""
    found: set[Op] = set()
    todo = [value]
    while todo:
        op = todo.pop().producer()
        if op is not None and op not in found:
            found.add(op)
            todo += op.operands
    return found


def _run_some(block: Block, some: Callable[[Code, Value], Value]) -> None:
    """Let a kernel's tasks, and where few are a plain loop from 0 the rounds of that, be so many as `some` says."""
    for op in block:
        if isinstance(op, kernel.If):
            for body in op.regions:
                _run_some(body.block, some)
        elif isinstance(op, (kernel.Parallel, kernel.For)):
            place, count = (0, op.count) if isinstance(op, kernel.Parallel) else (1, op.hi)
            op.set_operand(place, some(Code(Builder.before_op(op)), count))
        else:
            assert not op.regions, f"expected kernels of tasks but got '{op.name}' beside them"
