"""From tensors to buffers: `main` allocates, fills and hands on memory; every root becomes calls of kernels.

Results of kernels that are returned are written where the caller wants them. Reshapes are the same memory under another shape. Constants are
`kernel.data`, packed ahead of time when a kernel wants them in another layout; arguments are packed once per run. Equal roots share
their kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import ConversionError, Location
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import Pass
from polyreme.ir.types import BufferType, TensorType
from polyreme.lowering.schedule import KernelBuilder, KernelPlan, Pack, Request, Slot, choose, request_of, structure
from polyreme.lowering.targets import Target

# A place in memory: a buffer of the new `main`, or an array known now.
Memory = Value | Dense


@dataclass(frozen=True)
class TensorToKernel(Pass):
    """Turn a fused `main` at tensor level into one at kernel level.

    Before: tensor ops and groups on values.  After: `main` on buffers, its outputs as last arguments, and the kernels it calls.
    Runs after fusion, which says what a kernel is, and before memory is planned, which needs to know all buffers.
    """

    name: ClassVar[str] = "tensor-to-kernel"
    target: Target
    builders: tuple[KernelBuilder, ...]

    def run(self, module: Module) -> None:
        main = module.function("main")
        for func in module.functions:
            if func is not main:
                raise ConversionError(f"expected only '@main' at tensor level but got '@{func.sym_name}' as well; inline it first", func.location)
        made = _Bufferize(main, self).run()
        main.erase()
        for func in made:
            module.block.append(func)


class _Bufferize:
    """Builds the new `main`, which comes first, and the kernels."""

    def __init__(self, main: Func, options: TensorToKernel):
        self.old, self.target, self.builders = main, options.target, options.builders
        self.plans: dict[str, KernelPlan] = {}
        self.kernels: dict[Func, Func] = {}
        self.names: set[str] = {"main"}
        self.memory: dict[Value, Memory] = {}
        self.data: dict[Dense, Value] = {}
        self.packed: dict[object, Value] = {}
        self.new = self._new_main()
        self.b = Builder.at_end(self.new.block, main.location)

    def _new_main(self) -> Func:
        old = self.old
        returned = old.block.terminator.operands
        names = _distinct([n or a.name or f"arg{i}" for i, (n, a) in enumerate(_named(old.args, old.arg_names))], "")
        outputs = _distinct([n or v.name or f"out{i}" for i, (n, v) in enumerate(_named(returned, old.result_names))], "out_", names)
        types = [_buffer_type(v, old.location) for v in (*old.args, *returned)]
        roles = [*(old.arg_roles or ["input"] * len(old.args)), *["output"] * len(returned)]
        new = Func.empty("main", types, arg_names=[*names, *outputs], arg_roles=tuple(roles), loc=old.location)
        self.memory.update(zip(old.args, new.args[: len(old.args)], strict=True))
        return new

    def run(self) -> list[Func]:
        outputs = self._outputs()
        for op in self.old.block:
            self.b.loc = op.location
            if isinstance(op, tensor.Constant):
                self.memory[op.result] = op.value
            elif isinstance(op, tensor.Reshape) and op.x in self.memory:
                self.memory[op.result] = self.memory[op.x]
            elif isinstance(op, Return):
                self._return(op, outputs)
            elif op.dialect == "tensor":
                self._root(op, outputs)
            else:
                raise ConversionError(f"no rule turns '{op.name}' into kernels", op.location)
        return [self.new.finish(), *self.kernels.values()]

    def _outputs(self) -> dict[Value, Value]:
        """Which values are written straight into an output: each result of a kernel that is returned, at the first place it is."""
        outputs: dict[Value, Value] = {}
        taken = self.new.args[len(self.old.args) :]
        for value, buffer in zip(self.old.block.terminator.operands, taken, strict=True):
            base = _behind_reshapes(value)
            op = base.producer()
            if op is not None and not isinstance(op, tensor.Constant):
                outputs.setdefault(base, buffer)
        return outputs

    def _return(self, op: Op, outputs: dict[Value, Value]) -> None:
        for value, buffer in zip(op.operands, self.new.args[len(self.old.args) :], strict=True):
            if outputs.get(_behind_reshapes(value)) is not buffer:
                type = value.type
                assert isinstance(type, TensorType)
                copy = Func.empty("root", [type], loc=op.location)
                Builder.at_end(copy.block, op.location)(Return, tuple(copy.args))
                self._run_plan(Request(copy.finish(), self.target), [value], [buffer])
        self.b(Return, ())

    # --- roots

    def _root(self, op: Op, outputs: dict[Value, Value]) -> None:
        constant = [i for i, v in enumerate(op.operands) if isinstance(self.memory[v], Dense)]
        results = []
        for value in op.results:
            buffer = outputs.get(value) or self._alloc(_buffer_type(value, op.location))
            self.memory[value] = buffer
            results.append(buffer)
        self._run_plan(request_of(op, self.target, constant), op.operands, results)

    def _run_plan(self, request: Request, operands: Sequence[Value], results: Sequence[Value]) -> None:
        plan = self._plan(request)
        packs = [self._pack(p, operands[p.operand]) for p in plan.packs]
        scratch = [self._alloc(type) for type in plan.scratch]
        for step in plan.steps:
            buffers = [self._slot(slot, operands, results, packs, scratch) for slot in step.slots]
            buffers = [self._shaped(buffer, arg.type) for buffer, arg in zip(buffers, step.func.args, strict=True)]
            if step.block:
                self.b(kernel.Launch, *buffers, callee=self._kernel(step.func), grid=step.grid, block=step.block)
            else:
                self.b(kernel.Call, *buffers, callee=self._kernel(step.func))

    def _plan(self, request: Request) -> KernelPlan:
        if request.key not in self.plans:
            self.plans[request.key] = choose(request, self.builders)
        return self.plans[request.key]

    def _slot(self, slot: Slot, operands: Sequence[Value], results: Sequence[Value], packs: Sequence[Value], scratch: Sequence[Value]) -> Value:
        if slot.kind == "operand":
            return self._buffer(self.memory[operands[slot.index]])
        return {"result": results, "pack": packs, "scratch": scratch}[slot.kind][slot.index]

    def _pack(self, pack: Pack, value: Value) -> Value:
        """The packed form of a value: made now for a constant, by kernels in front of the first use for anything else."""
        memory = self.memory[value]
        shape = pack.func.args[0].type.shape
        key = (memory, structure(pack.func.block))
        if key not in self.packed:
            if isinstance(memory, Dense):
                (array,) = evaluate(pack.func, [memory.array.reshape(shape)])
                self.packed[key] = self._buffer(Dense(np.ascontiguousarray(array)))
            else:
                buffer = self._alloc(BufferType(pack.type.shape, pack.type.dtype))
                self._run_plan(Request(pack.func, self.target), [value], [buffer])
                self.packed[key] = buffer
        return self.packed[key]

    # --- memory and kernels

    def _buffer(self, memory: Memory) -> Value:
        if isinstance(memory, Value):
            return memory
        if memory not in self.data:
            self.data[memory] = self.b(kernel.Data, value=memory)
        return self.data[memory]

    def _shaped(self, buffer: Value, type: BufferType) -> Value:
        """The memory as a kernel wants to see it: reshapes and collapsed axes are views."""
        if buffer.type != type:
            buffer = self.b(kernel.View, buffer, None, shape=type.shape)
        return buffer

    def _alloc(self, type: BufferType) -> Value:
        value: Value = self.b(kernel.Alloc, shape=type.shape, dtype=type.dtype, space="arena")
        return value

    def _kernel(self, func: Func) -> str:
        if func not in self.kernels:
            copy: Func = func.clone()
            copy.attributes = {**copy.attributes, "sym_name": _free_name(func.sym_name, self.names)}
            self.names.add(copy.sym_name)
            self.kernels[func] = copy
        return self.kernels[func].sym_name


def outline_constants(module: Module) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """Turn each `kernel.data` of `main` into an argument of role "constant", in front of the outputs; the arrays by argument name."""
    main = module.function("main")
    data = [op for op in main.block if isinstance(op, kernel.Data)]
    if not data:
        return {}
    names, roles = list(main.arg_names), list(main.arg_roles)
    first = roles.index("output") if "output" in roles else len(roles)
    arrays = {}
    for k, op in enumerate(data):
        name = _free_name(f"constant{k}", set(names))
        arg = main.block.add_arg(op.result.type, name)
        op.replace_with(arg)
        main.block.args.remove(arg)
        main.block.args.insert(first + k, arg)
        names.insert(first + k, name)
        roles.insert(first + k, "constant")
        arrays[name] = op.value.array
    for i, arg in enumerate(main.block.args):
        arg.index = i
    main.attributes = {**main.attributes, "arg_names": tuple(names), "arg_roles": tuple(roles)}
    main.finish()
    return arrays


def _behind_reshapes(value: Value) -> Value:
    op = value.producer(tensor.Reshape)
    while op is not None:
        value = op.x
        op = value.producer(tensor.Reshape)
    return value


def _buffer_type(value: Value, location: Location) -> BufferType:
    if not isinstance(value.type, TensorType):
        raise ConversionError(f"expected tensors only but got {value.type}", location)
    return BufferType(value.type.shape, value.type.dtype)


def _named(values: Sequence[Value], names: Sequence[str]) -> list[tuple[str, Value]]:
    return [(names[i] if i < len(names) else "", v) for i, v in enumerate(values)]


def _distinct(names: Sequence[str], prefix: str, taken: Sequence[str] = ()) -> list[str]:
    """The names, told apart from each other and from those that are taken."""
    used = set(taken)
    result = []
    for name in names:
        result.append(_free_name(name if name not in used else prefix + name, used))
        used.add(result[-1])
    return result


def _free_name(name: str, taken: set[str]) -> str:
    found, k = name, 2
    while found in taken:
        found, k = f"{name}_{k}", k + 1
    return found
