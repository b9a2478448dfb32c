"""What a builder is asked (`Request`) and what it answers (`KernelPlan`).

A root is an op of a fused `main` at tensor level: one op, or one `tensor.fused` group. A builder gets the root as a small function of its
own. It answers with a plan, or with None if the root is not of its kind. Builders are asked in order. The generic loops come last and take
every root but groups with several contractions, which are split again. A plan is data, with memory named by slots, so equal roots share one
plan and its kernels.

A builder of matrix products might read:

    def build_contract(request: Request) -> KernelPlan | None:
        contract = find_contract(request.func)
        if contract is None:
            return None
        packed = Pack(operand=1, func=panels_of(request.func.args[1].type))
        kernel = Func.empty(request.name("contract"), [...buffer types of the slots below...])
        ...
        return KernelPlan(steps=(Step(kernel, (operand(0), pack(0), result(0))),), packs=(packed,))
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.timing import timed
from polyreme.ir.types import BufferType, TensorType
from polyreme.lowering.analysis.half_floats import is_widening
from polyreme.lowering.machines.targets import Target


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of memory that a step works on: number `index` of the root's operands or results, or of the plan's packs or scratch buffers.
    """

    kind: str
    index: int

    def __post_init__(self) -> None:
        if self.kind not in ("operand", "result", "pack", "scratch"):
            raise ValueError(f"expected 'operand', 'result', 'pack' or 'scratch' as the kind of a slot but got {self.kind!r}")


def operand(index: int) -> Slot:
    """Operand `index` of the root: row-major, only element-aligned."""
    return Slot("operand", index)


def result(index: int) -> Slot:
    """Result `index` of the root: row-major; written by the steps."""
    return Slot("result", index)


def pack(index: int) -> Slot:
    """Entry `index` of `KernelPlan.packs`, 64-byte aligned."""
    return Slot("pack", index)


def scratch(index: int) -> Slot:
    """Entry `index` of `KernelPlan.scratch`, 64-byte aligned; undefined before the first step writes it."""
    return Slot("scratch", index)


@dataclass(frozen=True, slots=True)
class Form:
    """What numpy makes of a packed operand that is known when the model is compiled: an array of this type."""

    make: Callable[[Any], Any]
    type: TensorType


@dataclass(frozen=True, slots=True)
class Pack:
    """Another layout of an operand, as a function at tensor level from the operand (one argument) to the packed tensor (one result).

    For a constant operand the function is evaluated once, when the model is compiled; otherwise it becomes a kernel that runs before the
    steps. Equal packs of one operand are shared between roots. `kernel`, when given, does the same as a kernel from the operand's buffer to
    the packed one. With a `form`, of known operands alone, that is made of what the function gives.
    """

    operand: int
    func: Func
    kernel: Func | None = None
    form: Form | None = None

    @property
    def type(self) -> TensorType:
        if self.form is not None:
            return self.form.type
        type = self.func.attributes["function_type"].results[0]
        assert isinstance(type, TensorType)
        return type


@dataclass(frozen=True, slots=True)
class Step:
    """One call: `func` is a kernel whose arguments are the buffers of `slots`, in that order. Shapes of its buffer types may differ from
    the slots' (positions are linear); element types may not.

    With a `block` it is a launch on a GPU: once per thread of `grid` blocks of so many threads.
    """

    func: Func
    slots: tuple[Slot, ...]
    grid: tuple[Dim, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """An order of a value's last axis in memory: of `blocks` blocks the first `width` elements of each, then the next ones of each, and so
    on.
    """

    blocks: int
    width: int

    def place(self, size: int, at: int) -> int:
        """Which element of an axis of this size is the one `at` in memory."""
        turn, rest = divmod(at, self.blocks * self.width)
        return rest // self.width * (size // self.blocks) + turn * self.width + rest % self.width


@dataclass(frozen=True)
class KernelPlan:
    """How a root is computed: `steps` in order, after the `packs` are filled. Scratch memory comes from the arena and is free again
    afterwards.

    `in_place` lists pairs (operand, result) that may be the same memory: each element of the operand is read for the last time before the
    same element of the result is written. Any of them hold together that give no operand and no result twice. `updates` lists pairs of
    which the same is true, but which LLVM had better know apart: one memory is for arguments that a call updates. `of_thread` lists scratch
    buffers with how many elements each thread has of them for itself: the first thread the first ones, and so on. `result_order` is the
    order of the result's last axis; None: as it is. `schedule` is what was chosen before the steps were written, as text, if that is a
    value of its own.
    """

    steps: tuple[Step, ...]
    packs: tuple[Pack, ...] = ()
    scratch: tuple[BufferType, ...] = ()
    builder: str = ""
    in_place: tuple[tuple[int, int], ...] = ()
    of_thread: tuple[tuple[int, int], ...] = ()
    result_order: AxisOrder | None = None
    schedule: str = ""
    updates: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Request:
    """A root to be scheduled. `func` is detached, at tensor level: its arguments are the root's operands, its block the root's op or the
    group's ops, and it returns the root's results. Do not change it (clone it). `constant` numbers the operands for which a pack costs
    nothing, known at compile time for example; `kept` those whose packs are kept between runs and made by kernels when the operand changes;
    `known` those whose packs are made when the model is compiled, by running their functions on numpy.

    The reader of the one result prefers it in `preferred_order`; a plan that follows says so in `result_order`. `operand_orders` numbers
    the operands that do not lie in row-major order, with their orders.
    """

    func: Func
    target: Target
    constant: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    known: frozenset[int] = frozenset()
    preferred_order: AxisOrder | None = None
    operand_orders: tuple[tuple[int, AxisOrder], ...] = ()

    @property
    def operand_types(self) -> list[TensorType]:
        return [a.type for a in self.func.args]

    @property
    def results(self) -> tuple[Value, ...]:
        """The values that the function returns."""
        return self.func.block.terminator.operands

    @property
    def result_types(self) -> list[TensorType]:
        return [v.type for v in self.results]

    @cached_property
    def key(self) -> str:
        """Equal for roots that can share a plan on this target."""
        text = repr(
            (
                structure(self.func.block),
                sorted(self.constant),
                sorted(self.kept),
                sorted(self.known),
                self.preferred_order,
                self.operand_orders,
                self.target,
            )
        )
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def name(self, what: str) -> str:
        """A kernel's name: what it does, then a part of the key, which tells kernels of one kind apart."""
        return f"{what}_{self.key[:6]}"

    def ops(self, kind: type[Op] | None = None) -> list[Any]:
        """The ops of the function without its terminator, those of `kind` only when given."""
        return [op for op in self.func.block if not isinstance(op, Return) and (kind is None or isinstance(op, kind))]

    def single(self, kind: type[Op]) -> Any:
        """The op of this kind that is the whole root, whose operands are the arguments in their order; None where there is more to it, be
        it a result that is an argument.
        """
        ops = self.ops()
        if len(ops) != 1 or not isinstance(ops[0], kind):
            return None
        op: Op = ops[0]
        return op if tuple(op.operands) == tuple(self.func.args) and tuple(op.results) == tuple(self.results) else None


KernelBuilder = Callable[[Request], KernelPlan | None]


def request_of(op: Op, target: Target, constant: Iterable[int] = (), kept: Iterable[int] = (), known: Iterable[int] = ()) -> Request:
    """The root `op` as a request; the op itself is left alone."""
    names = [v.name for v in op.operands]
    func = Func.empty("root", [v.type for v in op.operands], arg_names=names, loc=op.location)
    mapping: dict[Value, Value] = {}
    b = Builder.at_end(func.block, op.location)
    if isinstance(op, tensor.Fused):
        mapping.update(zip(op.regions[0].block.args, func.args, strict=True))
        for inner in op.regions[0].block.ops[:-1]:
            b.insert(inner.clone(mapping))
        results = [mapping.get(v, v) for v in op.regions[0].block.terminator.operands]
    else:
        copy = op.clone()
        if isinstance(copy, tensor.Scan):
            # How a root is computed is no part of it.
            copy.attributes["schedule"] = ""
        for i, arg in enumerate(func.args):
            copy.set_operand(i, arg)
        b.insert(copy)
        results = list(copy.results)
    for new, old in zip(results, op.results, strict=True):
        new.name = new.name or old.name
    b.insert(Return(results))
    return Request(func.finish(), target, frozenset(constant), frozenset(kept), frozenset(known))


def facts_of(op: Op, roles: Mapping[Value, str], prepare: str) -> tuple[list[int], list[int], list[int]]:
    """What is known of a root's operands when the model is compiled, as `Request` has it: those that are `constant`, `kept` and `known`.

    `roles` are those of the function's arguments; `prepare` is as `pipeline` has it.
    """
    kept, known = [], []
    for i, value in enumerate(op.operands):
        base = behind_views(value)
        if isinstance(base.producer(), tensor.Constant):
            known.append(i)
            continue
        if is_widening(base.producer()):
            base = behind_views(base.producer().operands[0])
        if prepare and roles.get(base) == "param" and all(isinstance(n, int) for n in base.type.shape):
            kept.append(i)
    return known + kept * (prepare == "always"), kept, known


def behind_views(value: Value) -> Value:
    """The value in whose memory this one lies."""
    while isinstance(op := value.producer(), (tensor.Reshape, tensor.Pairs)):
        value = op.x
    return value


def choose(request: Request, builders: Sequence[KernelBuilder]) -> KernelPlan | None:
    """The plan of the first builder that takes the request; None where none does."""
    for build in builders:
        with timed(getattr(build, "__name__", type(build).__name__)):
            plan = build(request)
        if plan is not None:
            return plan
    return None


def op_names(request: Request) -> str:
    """The ops of a root, for people: `contract add maximum`, `mulx3`, or `copy` where there are none."""
    names = Counter(op.attributes.get("fn") or op.name.partition(".")[2] for op in request.ops())
    return " ".join(name if n == 1 else f"{name}x{n}" for name, n in names.items()) or "copy"


def title(request: Request) -> str:
    """What a root is, for people: its ops, and where they come from."""
    return f"'{op_names(request)}'{f' at {request.func.location}' if request.func.location else ''}"


def told(kind: str, **facts: object) -> str:
    """What was chosen, `kind<name = value, …>`, without what is "", False or None."""
    said = ", ".join(name if value is True else f"{name} = {value}" for name, value in facts.items() if value not in ("", False, None))
    return f"{kind}<{said}>" if said else kind


def schedule_text(request: Request, plan: KernelPlan) -> str:
    """A plan as text: what was chosen, the steps with the memory they work on, the packs and the scratch memory."""
    slot = lambda s: f"{s.kind} {s.index}"
    lines = [f"// schedule of {title(request)}{f' by {plan.builder}' if plan.builder else ''} for {request.target.name}"]
    lines += [f"//   {line}" for line in plan.schedule.splitlines()]
    for step in plan.steps:
        grid = f", grid [{', '.join(map(str, step.grid))}] of blocks [{', '.join(map(str, step.block))}]" if step.block else ""
        lines.append(f"//   @{step.func.sym_name}({', '.join(map(slot, step.slots))}){grid}")
    lines += [
        f"//   pack {i}: operand {p.operand} as {p.type}{', ahead of time' if p.operand in request.constant else ''}"
        for i, p in enumerate(plan.packs)
    ]
    lines += [f"//   scratch {i}: {kind}" for i, kind in enumerate(plan.scratch)]
    return "\n".join(lines)


def structure(block: Block) -> tuple[Any, ...]:
    """Nested tuples that are equal for blocks that compute the same: ops, attributes, types and how values are wired, but not names or
    locations.
    """
    numbers: dict[Value, int] = {}

    def of_block(block: Block) -> tuple[Any, ...]:
        for arg in block.args:
            numbers[arg] = len(numbers)
        return tuple(str(a.type) for a in block.args), tuple(of_op(op) for op in block)

    def of_op(op: Op) -> tuple[Any, ...]:
        inputs = tuple(numbers[v] for v in op.operands)
        inner = tuple(of_block(b) for region in op.regions for b in region.blocks)
        for value in op.results:
            numbers[value] = len(numbers)
        attributes = tuple((k, v.digest.hex() if isinstance(v, Dense) else str(v)) for k, v in sorted(op.attributes.items()))
        return op.name, inputs, op.segments, attributes, inner, tuple(str(v.type) for v in op.results)

    return of_block(block)
