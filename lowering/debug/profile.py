"""Time by kernel: `main` notes the time between its steps, and the artifact says what each step computes.

    artifact = profiled_artifact(module, target)          # one more output: i64[steps + 2], in nanoseconds
    steps = steps_of(artifact.manifest)                   # what the differences belong to

Nothing of this is in code that is not compiled for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.define import Pure
from polyreme.ir.diagnostics import Location
from polyreme.ir.dims import Dim, evaluate, parse_dim
from polyreme.ir.passes import Pass, PassManager, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, TensorType, i64
from polyreme.lowering.analysis.costs import cost_of
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.plan import KernelPlan, Request, op_names
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.schedule.bufferize import outline_constants

__all__ = ["OUTPUT", "ProfileKernels", "StepInfo", "profiled_artifact", "steps_of"]

OUTPUT = "kernel_times"
KEY = "profile"


@dataclass(frozen=True)
class StepInfo:
    """One step of `main`: the call of a kernel, as a rule.

    `ops` and `shape` say what its root computes, `place` where in the source, `layer` whose weights it reads. `root` numbers the
    tensor-level root that it is a step of: several steps may compute one, whose `operations` and `moved` bytes (texts of sizes, which may
    be symbolic; "" when unknown) are then told with the first of them. `parallel`: more than one thread may work on it.
    """

    kernel: str
    root: int
    ops: str
    shape: str
    place: str
    layer: str
    operations: str
    moved: str
    parallel: bool

    def counts(self, sizes: dict[str, int]) -> tuple[int, int]:
        """Operations on elements, and bytes moved, for these values of the free sizes; 0 where they are not known."""
        operations, moved = (evaluate(parse_dim(text), sizes) if text else 0 for text in (self.operations, self.moved))
        return operations, moved


@register_pass
@dataclass(frozen=True)
class ProfileKernels(Pass):
    """Let `main` write the time after each of its steps.

    Before: `main` calls kernels.  After: it has one more output, `kernel_times`, of an i64 for its start, twice, and one for the end of
    each step. Between the first
    two nothing happens: they tell what looking at the clock takes.
    Runs on a finished kernel level, when steps are in their order; memory is planned later, and is the same as without.
    """

    name: ClassVar[str] = "profile-kernels"
    takes: ClassVar[tuple[str, ...]] = ("kernel",)

    def run(self, module: Module) -> None:
        main = module.function("main")
        steps = steps_in(main)
        type = BufferType((len(steps) + 2,), i64)
        names = [
            n or a.name or f"arg{i}" for i, (n, a) in enumerate(zip([*main.arg_names, *[""] * len(main.args)], main.args, strict=False))
        ]
        roles = [*main.arg_roles] or ["input"] * len(main.args)
        times = main.block.add_arg(type, OUTPUT)
        main.attributes = {**main.attributes, "arg_names": (*names, OUTPUT), "arg_roles": (*roles, "output")}
        first = Code(Builder(main.block, next(iter(main.block)), main.location))
        for k in range(2):
            first.store(first.b(kernel.Clock), times, k)
        ops = list(main.block)
        place = {op: i for i, op in enumerate(ops)}
        for k, step in enumerate(steps):
            after = Code(Builder(main.block, ops[place[step] + 1], step.location))
            after.store(after.b(kernel.Clock), times, k + 2)
        main.finish()


def steps_in(main: Func) -> list[Op]:
    """The ops of a kernel-level `main` that take time."""
    return [op for op in main.block if not (op.has(Pure) or isinstance(op, (kernel.Alloc, Return)))]


def profiled_artifact(module: Module, target: Target, name: str = "model") -> Any:
    """As `CompiledModule.artifact`, with one more output, `kernel_times`; the manifest says what the steps are, for `steps_of`."""
    from polyreme.lowering.link.artifact import build_artifact
    from polyreme.lowering.pipeline import check_in_one_piece, level_of, pipeline

    check_in_one_piece(module)
    requests: dict[Op, tuple[int, Request]] = {}

    def watch(request: Request, plan: KernelPlan, calls: Sequence[Op]) -> None:
        root = len({number for number, _ in requests.values()})
        requests.update((call, (root, request)) for call in calls)

    module = module.clone()
    if level_of(module) != "kernel":
        PassManager(pipeline(target, watch=watch)).run(module)
    infos = _describe(module, requests)
    ProfileKernels().run(module)
    program = Program.of(module)
    constants = outline_constants(program)
    return build_artifact(program, target, name, constants, {KEY: json.dumps([asdict(info) for info in infos])})


def steps_of(manifest: Any) -> list[StepInfo]:
    """The steps that the times of a profiled artifact belong to."""
    return [StepInfo(**fields) for fields in json.loads(manifest.extra[KEY])]


def _describe(module: Module, requests: dict[Op, tuple[int, Request]]) -> list[StepInfo]:
    functions = {func.sym_name: func for func in module.functions}
    told: set[int] = set()
    infos = []
    for number, op in enumerate(steps_in(module.function("main"))):
        called = op.callee.name if isinstance(op, (kernel.Call, kernel.Launch)) else op.name
        parallel = any(isinstance(inner, kernel.Parallel) for inner in (functions[called] if called in functions else op).walk())
        root, request = requests.get(op, (-1 - number, None))
        ops = shape = layer = operations = moved = ""
        place = op.location
        if request is not None:
            ops, place, layer = op_names(request), _place(request), _layer(request)
            shape = ", ".join(map(_shape, request.result_types))
            if root not in told:
                cost = cost_of(request.func)
                operations, moved = str(cost.operations), str(cost.read + cost.written)
                told.add(root)
        infos.append(StepInfo(called, root, ops, shape, str(place) if place else "", layer, operations, moved, parallel))
    return infos


def _place(request: Request) -> Location:
    """Where the dearest op of the root comes from: its product, if it has one."""
    product = next(iter(request.ops(tensor.Contract)), None)
    return product.location if product is not None and product.location else request.func.location


def _layer(request: Request) -> str:
    """The layer whose weights the root reads: their name in the model without its last part."""
    return next((arg.name.rpartition(".")[0] for arg in request.func.args if arg.name and "." in arg.name), "")


def _shape(type: TensorType) -> str:
    sizes: tuple[Dim, ...] = type.shape
    return f"{type.dtype}[{', '.join(map(str, sizes))}]"
