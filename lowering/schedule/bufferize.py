"""Bufferization: `main` allocates, fills and hands on memory, and every root becomes calls of kernels (the pass `tensor-to-kernel`).

Returned results are written where the caller wants them. Reshapes are the same memory under another shape. Constants are `kernel.data`,
packed at compile time if a kernel wants another layout. Arguments are packed once per run; weights by a second function, `prepare`, that
runs when they change. Equal roots share their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from polyreme.dialects import kernel, tensor
from polyreme.ir import config
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.diagnostics import ConversionError, Location, PassError, PolyremeError
from polyreme.ir.dims import Dim, product
from polyreme.ir.passes import Pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.timing import announce
from polyreme.ir.types import PARTS, BufferType, TensorType, i64
from polyreme.lowering.analysis.costs import cost_of
from polyreme.lowering.analysis.half_floats import is_widening
from polyreme.lowering.analysis.names import argument_names, distinct, free_name, result_names
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.plan import (
    AxisOrder,
    KernelBuilder,
    KernelPlan,
    Pack,
    Request,
    Slot,
    behind_views,
    choose,
    request_of,
    schedule_text,
    structure,
    title,
)
from polyreme.lowering.kernels.way import plan_as_said
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import TASKS_WITH_MEMORY
from polyreme.lowering.schedule.arena import plan_within
from polyreme.lowering.schedule.cliffs import find_cliff
from polyreme.lowering.schedule.control import CONTROL, runs_general, write_control
from polyreme.lowering.schedule.group_inverted_residuals import GroupInvertedResiduals
from polyreme.lowering.schedule.packing import packed_later
from polyreme.lowering.transforms.fuse import Fuse
from polyreme.lowering.transforms.scan_steps import step_of
from polyreme.lowering.transforms.sink_reshapes import SinkReshapes


@dataclass(frozen=True)
class Widened:
    """Weights of 16 bits as float32: what `pack` makes of them."""

    weight: Value
    pack: Pack


# A place in memory: a buffer of the new `main`, an array known now, or another form of an argument.
Memory = Value | Dense | Widened
# Ops that may carry a schedule.
CARRIERS = (tensor.Fused, tensor.Scan)
# Told of a root, its plan and the calls in `main` that were made for it.
Watch = Callable[[Request, KernelPlan, Sequence[Op]], None]
# Told of `main` as far as it has come, and of the kernels that it calls.
Progress = Callable[[Func, Sequence[Func]], None]


@dataclass(frozen=True)
class TensorToKernel(Pass):
    """Turn a fused `main` at tensor level into one at kernel level.

    Before: tensor ops and groups on values.  After: `main` on buffers, its outputs as last arguments, and the kernels it calls. Runs after
    fusion, which says what a kernel is, and before memory is planned, which needs to know all buffers.

    With `prepare`, packs of weights (arguments of role "param") leave `main`, which takes the packed buffers as arguments of role "packed".
    If there are any they are made by

        func @prepare(%changed: buffer<Pxi64>, a weight, its packed buffers, another weight, …)
        // the weights whose entry in `changed` is not 0

    Weights that `main` needs in no other form are no arguments of it any more. "worth" moves the packs that pay even at every run, "always"
    packs weights wherever a constant would be.

    `preferred_order` gives the order in which a root prefers one of its operands; the root that makes that operand may choose it.

    `watch` is told of each root, its plan and the calls made for it. `progress` is told after each root of how far the new `main` has come,
    and of its kernels.
    """

    name: ClassVar[str] = "tensor-to-kernel"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    leaves: ClassVar[str] = "kernel"
    target: Target
    builders: tuple[KernelBuilder, ...]
    prepare: str = ""
    watch: Watch | None = None
    progress: Progress | None = None
    preferred_order: Callable[[Request, int], AxisOrder | None] | None = None

    def options(self) -> dict[str, Any]:
        # As text has it: builders follow from the target.
        return {"target": self.target.name, "cpu": self.target.cpu, **({"prepare": self.prepare} if self.prepare else {})}

    def run(self, module: Module) -> None:
        if self.prepare not in ("", "worth", "always"):
            raise PassError(f"expected prepare to be 'worth', 'always' or left out but got '{self.prepare}'", code="E0402")
        main = module.function("main")
        for func in module.functions:
            if func is not main:
                raise ConversionError(
                    f"expected only '@main' at tensor level but got '@{func.sym_name}' as well; inline it first", func.location
                )
        if main.proceeds:
            _tell_first(main)
        made = _Bufferize(main, self).run()
        main.erase()
        for func in made:
            module.block.append(func)


class _Bufferize:
    """Builds the new `main`, which comes first, and the kernels."""

    def __init__(self, main: Func, options: TensorToKernel):
        self.old, self.target, self.builders, self.watch, self.progress = (
            main,
            options.target,
            options.builders,
            options.watch,
            options.progress,
        )
        self.preferred_order = options.preferred_order
        self.orders: dict[Value, AxisOrder] = {}
        self.plans: dict[str, KernelPlan | None] = {}
        self.kernels: dict[Func, Func] = {}
        self.names: set[str] = {"main", "prepare"}
        self.memory: dict[Value, Memory] = {}
        self.data: dict[Dense, Value] = {}
        self.packed: dict[tuple[Any, Any], Value] = {}
        self.order = {op: i for i, op in enumerate(main.block)}
        # Which argument a result may take the place of, where it is told whether it does, and which argument is read last by which op.
        self.updates: dict[Value, Value] = {}
        self.proceeds: Value | None = None
        self.last_reads: dict[Memory, int] = {}
        # by weight, what `prepare` makes of it, and the argument of `main` that gets it
        self.prepared: dict[Value, list[tuple[tuple[Pack, ...], Value]]] = {}
        self.last_uses = self.find_last_uses(main)
        self.new = self._new_main()
        self.results = self.new.args[len(main.args) :]
        weights = [a for a, role in zip(self.new.args, self.new.arg_roles, strict=True) if role == "param" and _is_static(a)]
        self.weights = set(weights if options.prepare else ())
        self.always = options.prepare == "always"
        self.b = Builder.at_end(self.new.block, main.location)
        # Where what all steps of a scan share is made: in front of the loop that is being written, or else at the end.
        self.top = self.b
        self.in_loop = False

    def _new_main(self) -> Func:
        old = self.old
        returned = old.block.terminator.operands
        names = argument_names(old)
        outputs = result_names(old, names)
        types = [_buffer_type(v, old.location) for v in (*old.args, *returned)]
        roles = [*(old.arg_roles or ["input"] * len(old.args)), *["output"] * len(returned)]
        if old.looks:
            roles[-1] = "looks"
        said = {"guards": old.guards, "ranges": old.ranges, "looks": old.looks, "proceeds": old.proceeds, "many": old.many}
        new = Func.empty("main", types, arg_names=[*names, *outputs], arg_roles=tuple(roles), loc=old.location, **said)
        self.memory.update(zip(old.args, new.args[: len(old.args)], strict=True))
        by_name = dict(zip(new.arg_names, new.args, strict=True))
        for update in old.updates:
            argument, result = (by_name[name] for name in update.split(" -> "))
            if argument.type == result.type:
                self.updates[result] = argument
        self.proceeds = by_name[old.proceeds] if old.proceeds else None
        self.last_reads = {self.memory[arg]: _last_read(arg, self.order) for arg in old.args}
        return new

    def run(self) -> list[Func]:
        self.write_block(self.old, self.results)
        return [self._without_unused(), *self._prepare(), *self.kernels.values()]

    def write_block(self, func: Func, results: Sequence[Value]) -> None:
        """The ops of `func`, which returns into `results`."""
        outputs = self._outputs(func, results)
        for op in func.block:
            self.b.loc = op.location
            if isinstance(op, tensor.Constant):
                self.memory[op.result] = op.value
            elif isinstance(op, (tensor.Reshape, tensor.Pairs)) and op.x in self.memory:
                self.memory[op.result] = self.memory[op.x]
                if op.x in self.orders:
                    self.orders[op.result] = self.orders[op.x]
            elif isinstance(op, Return):
                self._return(op, outputs, results)
            elif isinstance(op, CONTROL) and (not isinstance(op, tensor.Scan) or runs_general(op)):
                write_control(self, op, outputs)
            elif isinstance(op, tensor.Scan) and not op.inits and not op.reverse:
                self._each(op, outputs)
            elif is_widening(op) and isinstance(weight := self.memory[op.operands[0]], Value) and weight in self.weights:
                self.memory[op.results[0]] = Widened(weight, Pack(0, request_of(op, self.target).func))
            elif op.dialect == "tensor":
                if func is self.old:
                    announce(f"planning kernels, op {self.order[op] + 1} of {len(self.order)}")
                self._root(op, outputs)
            else:
                raise ConversionError(f"no rule turns '{op.name}' into kernels", op.location)
            if self.progress is not None and func is self.old:
                self.progress(self.new, list(self.kernels.values()))

    def _outputs(self, func: Func, results: Sequence[Value]) -> dict[Value, Value]:
        """Which values are written straight into one of `results`: each result of a kernel that is returned, at the first place it is."""
        outputs: dict[Value, Value] = {}
        for value, buffer in zip(func.block.terminator.operands, results, strict=True):
            base = behind_views(value)
            op = base.producer()
            if op is not None and not isinstance(op, tensor.Constant):
                outputs.setdefault(base, buffer)
        return outputs

    def _return(self, op: Op, outputs: dict[Value, Value], results: Sequence[Value]) -> None:
        for value, buffer in zip(op.operands, results, strict=True):
            if outputs.get(behind_views(value)) is not buffer:
                self.copy(value, buffer)
        if op.parent is self.old.block:
            self.b(Return, ())

    # --- steps that hand nothing on

    def _each(self, scan: tensor.Scan, outputs: dict[Value, Value]) -> None:
        """A scan whose steps hand nothing on, as tasks on several threads: each has memory of its own for what a step makes, and does some
        of the steps.

        There are as many tasks as threads; with fewer steps than threads the threads share the kernels of each step instead.
        """
        step = step_of(scan)
        SinkReshapes().run_on(step)
        Fuse().run_on(step)
        # Each thread has images of its own, none of which comes from another core; so only those that do not fit the cache are better never
        # made.
        GroupInvertedResiduals(replace(self.target, l3_bytes_per_cycle=Target.l3_bytes_per_cycle, separate_l3=False)).run_on(step)
        results = [outputs.get(v) or self.alloc(_buffer_type(v, scan.location)) for v in scan.results]
        self.memory.update(zip(scan.results, results, strict=True))
        saved = self.top, self.packed, self.order, self.last_uses
        self.order = {op: i for i, op in enumerate(step.block)}
        self.last_uses = self.find_last_uses(step)
        code = Code(self.b)
        tasks = min(scan.steps, TASKS_WITH_MEMORY) if isinstance(scan.steps, int) else scan.steps
        threads = code.b(kernel.Threads)
        enough = code.min(code.div(scan.steps, threads), 1)
        count = code.apply("max", code.value(code.mul(enough, code.min(threads, tasks))), code.value(1))
        with code.parallel(count, name="task") as task:
            start, stop = (code.div(code.mul(t, scan.steps), count) for t in (task, code.add(task, 1)))
            with code.loop(start, stop, name="step") as loop:
                around, body = self.new.block.last, self.b.block
                assert around is not None
                self.enter_control()
                for value, arg in zip((*scan.xs, *scan.shared), step.args, strict=True):
                    source = self.memory[value]
                    self.memory[arg] = source if arg.index >= len(scan.xs) else self.element(self.buffer(source), loop.iv, arg)
                places = [self.element(r, loop.iv, v) for r, v in zip(results, step.block.terminator.operands, strict=True)]
                self.write_block(step, places)
                self._place_by_task(body, task, tasks)
        top, packed, self.order, self.last_uses = saved
        self.leave_control(top, packed)
        if self.watch is not None:
            request = request_of(scan, self.target)
            self.watch(request, KernelPlan((), builder="scan"), [around])

    def enter_control(self) -> None:
        """From here on code goes into a loop or branch: what does not depend on it is made in front of the outermost one."""
        if self.top is self.b:
            around = self.new.block.last
            assert around is not None
            self.top = Builder.before_op(around)
        self.packed = dict(self.packed)

    def leave_control(self, top: Builder, packed: dict[tuple[Any, Any], Value]) -> None:
        """Back to how it was in front of a loop or branch; what was packed in there is not there any more."""
        self.top = top
        self.packed = {
            key: buffer
            for key, buffer in self.packed.items()
            if key in packed or buffer.producer() is None or buffer.producer().parent is self.new.block
        }

    def element(self, buffer: Value, step: Value, like: Value) -> Value:
        """The part of a buffer that belongs to one step."""
        shape = like.type.shape
        view: Value = self.b(kernel.View, buffer, Code(self.b).value(Code(self.b).mul(step, product(shape))), shape=shape)
        return view

    def _place_by_task(self, body: Block, task: Value, tasks: Dim) -> None:
        """Give what the steps of a task make on the way its place in memory of the task's own, of which there is as much for each of
        `tasks`.
        """
        loop = body.parent_op
        assert loop is not None
        allocs = [op for op in body if isinstance(op, kernel.Alloc)]
        for dtype in dict.fromkeys(op.dtype for op in allocs):
            mine = [op for op in allocs if op.dtype == dtype]
            offsets, size = plan_within(loop, mine)
            memory = self.top(kernel.Alloc, shape=(tasks, size), dtype=dtype, space="arena")
            front = Code(Builder.before_op(loop))
            own = front.b(kernel.View, memory, front.value(front.mul(task, size)), shape=(size,))
            for op, offset in zip(mine, offsets, strict=True):
                here = Code(Builder.before_op(op))
                op.replace_with(here.b(kernel.View, own, here.value(offset), shape=op.shape))

    # --- roots

    def _root(self, op: Op, outputs: dict[Value, Value]) -> None:
        memory = [self.memory[v] for v in op.operands]
        kept = [i for i, m in enumerate(memory) if isinstance(m, Widened) or (isinstance(m, Value) and m in self.weights)]
        known = [i for i, m in enumerate(memory) if isinstance(m, Dense)]
        # Loop invariants are packed once, in front of the loop.
        stays = [i for i, m in enumerate(memory) if self.in_loop and isinstance(m, Value) and not self._changes(m)]
        request = request_of(op, self.target, known + kept * self.always + stays, kept, known)
        operand_orders = [(i, self.orders[v]) for i, v in enumerate(op.operands) if v in self.orders]
        request = replace(request, preferred_order=self._preferred_order(op), operand_orders=tuple(operand_orders))
        # Builders take constants of several elements as operands only.
        holds_arrays = any(constant.result.type.elements != 1 for constant in request.ops(tensor.Constant))
        said = op.schedule if isinstance(op, CARRIERS) else ""
        plan = None if holds_arrays else self._plan(request, said)
        if plan is None:
            self._split(op, request, outputs)
            return
        taken: dict[int, Value] = {}
        for o, r in plan.in_place:
            left = self._left(op, o, memory)
            if left is not None and left not in taken.values() and r not in taken and op.results[r] not in outputs:
                taken[r] = left
        results = []
        for r, value in enumerate(op.results):
            buffer = outputs.get(value) or taken.get(r) or self.alloc(_buffer_type(value, op.location))
            results.append(buffer)
        self._update(op, plan, memory, results)
        self._run_plan(request, op.operands, results, said)
        if self.proceeds in results:
            code = Code(self.b)
            code.b(kernel.ReturnUnless, code.load(self.proceeds, 0))
            self.proceeds = None
        self.memory.update(zip(op.results, results, strict=True))
        if plan.result_order is not None:
            self.orders[op.results[0]] = plan.result_order
        for buffer in taken.values():
            # What was packed of the operand is not what the result would pack to.
            for key in [key for key in self.packed if key[0] is buffer]:
                del self.packed[key]

    def _update(self, op: Op, plan: KernelPlan, memory: Sequence[Memory], results: Sequence[Value]) -> None:
        """Note which results of a root of `main` may take the place of its arguments: those that nobody reads after it, once it is told
        whether anything is updated at all.
        """
        if op.parent is not self.old.block or self.proceeds is not None:
            return
        for o, r in (*plan.in_place, *plan.updates):
            argument = self.updates.get(results[r])
            if argument is memory[o] and sum(m is argument for m in memory) == 1 and self.last_reads[argument] <= self.order[op]:
                update = f"{argument.name} -> {results[r].name}"
                self.new.attributes["updates"] = (*self.new.updates, update)

    def _split(self, op: Op, request: Request, outputs: dict[Value, Value]) -> None:
        """The roots of a group that no builder takes."""
        if not isinstance(op, tensor.Fused):
            raise PolyremeError(f"expected an op that a kernel builder takes but none takes {title(request)}", op.location, code="E0408")
        parts = request.func
        Fuse().run_on(parts)
        results = [outputs.get(v) or self.alloc(_buffer_type(v, op.location)) for v in op.results]
        for value, arg in zip(op.operands, parts.args, strict=True):
            self.memory[arg] = self.memory[value]
            if value in self.orders:
                self.orders[arg] = self.orders[value]
        saved = self.order, self.last_uses
        self.order = {inner: i for i, inner in enumerate(parts.block)}
        self.last_uses = self.find_last_uses(parts)
        self.write_block(parts, results)
        self.order, self.last_uses = saved
        self.memory.update(zip(op.results, results, strict=True))

    def _changes(self, memory: Value) -> bool:
        """Whether memory is made in a loop or branch, perhaps other one in each round."""
        made = memory.producer()
        return made is not None and made.parent is not self.new.block

    def _preferred_order(self, op: Op) -> AxisOrder | None:
        """The order in which the only reader of the result of `op` prefers it."""
        if self.preferred_order is None or len(op.results) != 1:
            return None
        value = op.results[0]
        while len(value.uses) == 1:
            ((user, index),) = value.uses
            if isinstance(user, tensor.Scan):
                return self.preferred_order(request_of(user, self.target), index)
            if not isinstance(user, tensor.Reshape) or shape_of(user.result)[-1:] != shape_of(value)[-1:]:
                return None
            value = user.result
        return None

    def copy(self, value: Value, target: Value) -> None:
        """Write a value to `target`."""
        type = value.type
        assert isinstance(type, TensorType)
        if type.dtype in PARTS:
            type = TensorType((*type.shape, 2), PARTS[type.dtype])
        func = Func.empty("root", [type], loc=self.b.loc)
        Builder.at_end(func.block, self.b.loc)(Return, tuple(func.args))
        self._run_plan(Request(func.finish(), self.target), [value], [target])

    def _left(self, op: Op, operand: int, memory: Sequence[Memory]) -> Value | None:
        """The memory of an operand, if it is the arena's and nobody reads it after `op`, which itself does in one way only."""
        mine = memory[operand]
        if not isinstance(mine, Value) or mine.producer(kernel.Alloc) is None or sum(m is mine for m in memory) != 1:
            return None
        # What a step is given is not its own.
        last = self.last_uses.get(op.operands[operand])
        return mine if last is not None and last <= self.order[op] else None

    def find_last_uses(self, func: Func) -> dict[Value, int]:
        """Where in the block of `func` the memory of each value is read for the last time, under other shapes too. Arguments are not the
        block's own, which a loop runs again: neither they nor other shapes of them are here.
        """
        last: dict[Value, int] = {}
        for op in reversed(func.block):
            for value in op.results:
                last[value] = max(
                    (last[u.result] if isinstance(u, (tensor.Reshape, tensor.Pairs)) else self.order[u] for u in value.users),
                    default=self.order[op],
                )
        # A value under another shape lives as long as the one that it is made of.
        for op in func.block:
            if isinstance(op, (tensor.Reshape, tensor.Pairs)):
                if op.x in last:
                    last[op.result] = last[op.x]
                else:
                    del last[op.result]
        return last

    def _run_plan(self, request: Request, operands: Sequence[Value], results: Sequence[Value], said: str = "") -> None:
        plan = self._plan(request, said)
        assert plan is not None, "a copy or a pack is one op"
        config.say(2, lambda: f"// cost of {title(request)}: {cost_of(request.func)}")
        config.say(3, lambda: schedule_text(request, plan))
        if (config.debug_level() or config.refuses_cliffs()) and (cliff := find_cliff(request, plan)) is not None:
            if config.refuses_cliffs():
                raise PolyremeError(f"expected a kernel that is not slow beyond reason: {cliff}", request.func.location, code="E0408")
            config.say(1, lambda: f"// cliff: {cliff}")
        packs = [self._pack(p, operands[p.operand]) for p in plan.packs]
        scratch = [self.alloc(type, dict(plan.of_thread).get(i, 0)) for i, type in enumerate(plan.scratch)]
        before = len(self.new.block.ops)
        for step in plan.steps:
            buffers = [self._slot(slot, operands, results, packs, scratch) for slot in step.slots]
            buffers = [self.shaped(buffer, arg.type) for buffer, arg in zip(buffers, step.func.args, strict=True)]
            if step.block:
                self.b(kernel.Launch, *buffers, callee=self._kernel(step.func), grid=step.grid, block=step.block)
            else:
                self.b(kernel.Call, *buffers, callee=self._kernel(step.func))
        if self.watch is not None:
            self.watch(request, plan, [op for op in self.new.block.ops[before:] if isinstance(op, (kernel.Call, kernel.Launch))])

    def _plan(self, request: Request, said: str = "") -> KernelPlan | None:
        """The plan of a root, by the schedule that it carries, if it does."""
        key = f"{request.key} {said}"
        if key not in self.plans:
            self.plans[key] = plan_as_said(request, said, self.builders) if said else choose(request, self.builders)
        return self.plans[key]


    def _slot(
        self, slot: Slot, operands: Sequence[Value], results: Sequence[Value], packs: Sequence[Value], scratch: Sequence[Value]
    ) -> Value:
        if slot.kind == "operand":
            return self.buffer(self.memory[operands[slot.index]])
        return {"result": results, "pack": packs, "scratch": scratch}[slot.kind][slot.index]

    def _pack(self, pack: Pack, value: Value) -> Value:
        """The packed form of a value: made now for a constant, by kernels in front of the first use for anything else."""
        memory = self.memory[value]
        if isinstance(memory, Widened):
            return self._pack_in_prepare(memory.weight, memory.pack, pack)
        if isinstance(memory, Value) and memory in self.weights:
            return self._pack_in_prepare(memory, pack)
        key = (memory, (structure(pack.func.block), pack.form))
        if key not in self.packed:
            if isinstance(memory, Dense):
                # Made when it is written to where it is kept: nobody looks at it before.
                self.packed[key] = self.buffer(packed_later(pack, memory))
            else:
                here, self.b = self.b, self.b if self._changes(memory) else self.top
                buffer = self.alloc(BufferType(pack.type.shape, pack.type.dtype))
                if pack.kernel is None:
                    self._run_plan(Request(pack.func, self.target), [value], [buffer])
                else:
                    self._fill(pack, self.buffer(memory), buffer)
                self.packed[key] = buffer
                self.b = here
        return self.packed[key]

    # --- weights, packed ahead of the run

    def _pack_in_prepare(self, weight: Value, *packs: Pack) -> Value:
        """The form of a weight that the packs make of it one after another: an argument, which `prepare` fills."""
        key = (weight, tuple(structure(p.func.block) for p in packs))
        if key not in self.packed:
            type = packs[-1].type
            name = f"{weight.name or 'weight'}_packed"
            self.packed[key] = buffer = _add_argument(self.new, BufferType(type.shape, type.dtype), name, "packed")
            self.prepared.setdefault(weight, []).append((packs, buffer))
        return self.packed[key]

    def _prepare(self) -> list[Func]:
        """The function `prepare`, if anything is packed ahead."""
        if not self.prepared:
            return []
        args: list[tuple[Value, str]] = []
        for weight, made in self.prepared.items():
            args += [(weight, "param"), *((buffer, "output") for _, buffer in made)]
        names = distinct(v.name or "weight" for v, _ in args)
        types = [BufferType((len(self.prepared),), i64), *(v.type for v, _ in args)]
        func = Func.empty(
            "prepare",
            types,
            arg_names=[free_name("changed", names), *names],
            arg_roles=("input", *(role for _, role in args)),
            loc=self.old.location,
        )
        places = {value: arg for (value, _), arg in zip(args, func.args[1:], strict=True)}
        self.b = self.top = Builder.at_end(func.block, self.old.location)
        code = Code(self.b)
        for i, (weight, made) in enumerate(self.prepared.items()):
            with code.when(code.apply("ne", code.load(func.args[0], i), code.constant(0, i64))):
                for packs, buffer in made:
                    source = places[weight]
                    for pack in packs[:-1]:
                        source = self._fill(pack, source, self.alloc(BufferType(pack.type.shape, pack.type.dtype)))
                    self._fill(packs[-1], source, places[buffer])
        self.b(Return, ())
        return [func.finish()]

    def _fill(self, pack: Pack, source: Value, target: Value) -> Value:
        """`target`, which code at the builder fills with what `pack` makes of `source`."""
        if pack.kernel is not None:
            buffers = [self.shaped(x, arg.type) for x, arg in zip((source, target), pack.kernel.args, strict=True)]
            self.b(kernel.Call, *buffers, callee=self._kernel(pack.kernel))
            return target
        operand = pack.func.args[0]
        self.memory[operand] = source
        self._run_plan(Request(pack.func, self.target), [operand], [target])
        return target

    def _without_unused(self) -> Func:
        """`main`, finished, without the weights that it does not read itself."""
        main = self.new
        kept = [i for i, a in enumerate(main.args) if a.uses or a not in self.weights]
        for i in reversed(range(len(main.args))):
            if i not in kept:
                main.block.erase_arg(i)
        names, roles = main.arg_names, main.arg_roles
        main.attributes = {**main.attributes, "arg_names": tuple(names[i] for i in kept), "arg_roles": tuple(roles[i] for i in kept)}
        return main.finish()

    # --- memory and kernels

    def buffer(self, memory: Memory) -> Value:
        if isinstance(memory, Value):
            return memory
        if isinstance(memory, Widened):
            return self._pack_in_prepare(memory.weight, memory.pack)
        if memory not in self.data:
            self.data[memory] = self.top(kernel.Data, value=memory)
        return self.data[memory]

    def shaped(self, buffer: Value, type: BufferType) -> Value:
        """The memory as a kernel wants to see it: reshapes and collapsed axes are views, as are the parts of complex numbers."""
        if buffer.type != type:
            seen = type.dtype if buffer.type.dtype in PARTS else None
            buffer = self.b(kernel.View, buffer, None, shape=type.shape, dtype=seen)
        return buffer

    def alloc(self, type: BufferType, of_thread: int = 0) -> Value:
        value: Value = self.b(kernel.Alloc, shape=type.shape, dtype=type.dtype, space="arena", of_thread=of_thread)
        return value

    def _kernel(self, func: Func) -> str:
        if func not in self.kernels:
            # A plan is made for this module only, as a rule, and so are its kernels.
            own: Func = func if func.parent is None else func.clone()
            own.attributes = {**own.attributes, "sym_name": free_name(func.sym_name, self.names)}
            self.names.add(own.sym_name)
            self.kernels[func] = own
        return self.kernels[func].sym_name


def outline_constants(module: Module | Program) -> dict[str, Dense]:
    """Turn each `kernel.data` of `main` into an argument of role "constant", in front of the outputs; the data by argument name."""
    main = module.function("main")
    data = [op for op in main.block if isinstance(op, kernel.Data)]
    if not data:
        return {}
    arrays = {}
    for k, op in enumerate(data):
        arg = _add_argument(main, op.result.type, f"constant{k}", "constant")
        op.replace_with(arg)
        arrays[arg.name] = op.value
    main.finish()
    return arrays


def _add_argument(main: Func, type: BufferType, name: str, role: str) -> Value:
    """A new argument in front of the outputs, under this name or one like it."""
    names, roles = list(main.arg_names), list(main.arg_roles)
    place = roles.index("output") if "output" in roles else len(roles)
    name = free_name(name, names)
    arg = main.block.add_arg(type, name)
    main.block.args.remove(arg)
    main.block.args.insert(place, arg)
    for i, other in enumerate(main.block.args):
        other.index = i
    names.insert(place, name)
    roles.insert(place, role)
    main.attributes = {**main.attributes, "arg_names": tuple(names), "arg_roles": tuple(roles)}
    return arg


def _tell_first(main: Func) -> None:
    """Move what the result `proceeds` is computed of in front of all else: nothing is updated before."""
    at = result_names(main, argument_names(main)).index(main.proceeds)
    needed: set[Op] = set()
    todo = [main.block.terminator.operands[at]]
    while todo:
        op = todo.pop().producer()
        if op is not None and op not in needed:
            needed.add(op)
            todo += op.operands
    moved = [op for op in main.block if op in needed]
    for op in moved:
        op.detach()
    first = main.block.first
    for op in moved:
        main.block.insert(op, first)


def _last_read(value: Value, order: dict[Op, int]) -> int:
    """The number of the last op in a block that reads the memory of a value, under other shapes too; -1 where none does."""
    return max(
        (_last_read(u.result, order) if isinstance(u, (tensor.Reshape, tensor.Pairs)) else order[u] for u in value.users), default=-1
    )


def _is_static(value: Value) -> bool:
    return isinstance(value.type, BufferType) and all(isinstance(d, int) for d in value.type.shape)


def _buffer_type(value: Value, location: Location) -> BufferType:
    if not isinstance(value.type, TensorType):
        raise ConversionError(f"expected tensors only but got {value.type}", location)
    return BufferType(value.type.shape, value.type.dtype)
