"""`paddle.inspect`: a model's IR at every level, as text, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from polyreme.ir.builtin import Func, Module
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.passes import PassLike, PassManager, Stage, pass_text

if TYPE_CHECKING:
    from polyreme.jit.program import TracedProgram
    from polyreme.lowering.debug.constraints import Constraints
    from polyreme.lowering.debug.memory_report import MemoryReport

__all__ = ["Inspection", "inspect", "inspected_module"]

LEVELS = ("nn", "tensor", "schedule", "kernel", "llvm", "asm", "ptx")
# Levels that are modules.
MODULES = ("nn", "tensor", "schedule", "kernel")


@dataclass(frozen=True)
class PassStep:
    """The module after one pass: its stage, the pass, and the text (the same object as before when nothing changed)."""

    stage: str
    name: str
    text: str
    changed: bool

    def __str__(self) -> str:
        return f"{self.stage}: {self.name}{'' if self.changed else ' (unchanged)'}"


class Inspection:
    """`.nn`, `.tensor`, `.kernel`, `.llvm` and `.asm` (`.ptx` for a GPU) are texts; `.passes` lists every step between them.

    Weights are arguments here, as in the function that `to_static` compiles, so that the texts stay short and read back as they are. What
    lays them out for the kernels is a function of its own at kernel level, `prepare`; `.llvm` and `.asm` show `main`.
    """

    def __init__(self, module: Module, target: Any, backward: Callable[[], Func] | None = None, frozen: Callable[[], Module] | None = None):
        """`frozen` gives what runs in the place of `module` on a processor, if that is another: the module with its weights in it."""
        self.module = module
        self.target = target
        self._backward = backward
        self._frozen = frozen

    @cached_property
    def nn(self) -> str:
        """What the model means."""
        return _text(self.module)

    @cached_property
    def tensor(self) -> str:
        """What is computed, fused."""
        return _text(self._lowered("tensor"))

    @cached_property
    def kernel(self) -> str:
        """How it is computed: loops over buffers."""
        return _text(self._kernel)

    @cached_property
    def llvm(self) -> str:
        """LLVM IR."""
        from polyreme.lowering.pipeline import llvm_text

        return llvm_text(self._kernel, self.target)

    @cached_property
    def asm(self) -> str:
        """The target's assembly; PTX for a GPU."""
        from polyreme.lowering.pipeline import assembly_text

        return assembly_text(self._kernel, self.target)

    @property
    def ptx(self) -> str:
        """The PTX of a GPU's kernels."""
        if self.target.code != "ptx":
            raise PolyremeError(f"expected a GPU as the target of PTX, such as 'cuda:sm_80', but got '{self.target.name}'", code="E0008")
        return self.asm

    @cached_property
    def passes(self) -> list[PassStep]:
        """Every pass from `nn` to `kernel`, in order."""
        steps: list[PassStep] = []
        before = self.nn

        def keep(stage: Stage, made: PassLike, module: Module) -> None:
            nonlocal before
            text = _text(module)
            steps.append(PassStep(stage.name, made.name, text, text != before))
            before = text

        self._run(keep)
        return steps

    @cached_property
    def constraints(self) -> Constraints:
        """What the model says of its symbolic sizes: the axes that tell them, the guards with the lines that ask for them, the sizes that
        follow.
        """
        from polyreme.lowering.debug.constraints import constraints_of

        return constraints_of(self.module)

    @cached_property
    def memory(self) -> MemoryReport:
        """The plan of the arena: buffers, when they are live, where they lie and what shares bytes. Prints as a table; free sizes count as
        1 there, `.at(sizes)` gives others. A loaded model runs with its weights in the code, and so it is planned here.
        """
        from polyreme.lowering.debug.memory_report import memory_report

        if self._frozen is None or self.target.code != "llvm":
            return memory_report(self._kernel)
        from polyreme.lowering.pipeline import lower

        return memory_report(lower(self._frozen(), self.target, to="kernel"))

    @cached_property
    def schedules(self) -> str:
        """How each root of the fused module is computed: who took it, what was chosen, the kernels and their memory. A loaded model runs
        with its weights in the code, and so it is told of here.
        """
        from polyreme.lowering.kernels.plan import schedule_text
        from polyreme.lowering.pipeline import pipeline

        told: list[str] = []
        frozen = self._frozen() if self._frozen is not None and self.target.code == "llvm" else None
        prepare = "" if frozen is not None else self._prepare
        watched = pipeline(self.target, prepare, watch=lambda request, plan, calls: told.append(schedule_text(request, plan)))
        PassManager(watched).run((frozen or self.module).clone())
        return "".join(f"{text}\n" for text in told)

    @cached_property
    def schedule(self) -> str:
        """Compiled regions with what the host does between them, as it runs: of a `DataParallel` model its backward, with the starts of
        collective calls and the waits; of a static Program's module its step, with the calls of Python functions too.
        """
        from polyreme.compiled.executables import scheduled
        from polyreme.lowering.schedule.regions import has_host_ops, split_regions

        if self._backward is not None:
            return _text(split_regions(self._backward()))
        if not has_host_ops(self.module.function()):
            raise PolyremeError(
                "expected a DataParallel model, or a program with host operators, to show the schedule of but got one that is compiled in "
                "one piece",
                code="E0005",
            )
        return _text(scheduled(self.module))

    def level(self, name: str, **form: Any) -> str:
        """The text of a level by its name; `form` is what `print_module` takes (generic, locations, elide), for the levels that are
        modules.
        """
        if name not in LEVELS:
            raise PolyremeError(f"expected a level ({', '.join(LEVELS)}) but got '{name}'{did_you_mean(name, LEVELS)}", code="E0005")
        if name == "schedule":
            return _text(self._scheduled, **form)
        if (form.get("elide") is None and not any(form.values())) or name not in MODULES:
            return str(getattr(self, name))
        return _text(self.module if name == "nn" else self._kernel if name == "kernel" else self._lowered(name), **form)

    def after(self, name: str, **form: Any) -> str:
        """The module after the last run of the pass called `name`; `form` as for `level`."""
        found: str | None = None

        def keep(stage: Stage, made: PassLike, module: Module) -> None:
            nonlocal found
            if name in (made.name, pass_text(made)):
                found = _text(module, **form)

        self._run(keep)
        if found is None:
            known = list(dict.fromkeys(step.name for step in self.passes))
            raise PolyremeError(
                f"expected a pass of the pipeline ({', '.join(known)}) but got '{name}'{did_you_mean(name, known)}", code="E0005"
            )
        return found

    def __repr__(self) -> str:
        return f"<inspection of {self.module.function().sym_name}, levels {', '.join(LEVELS)}>"

    @property
    def _prepare(self) -> str:
        return "always" if self.target.code == "llvm" else ""

    @cached_property
    def _kernel(self) -> Module:
        return self._lowered("kernel")

    def _lowered(self, level: str) -> Module:
        from polyreme.lowering.pipeline import lower

        return lower(self.module, self.target, to=level, prepare=self._prepare)

    @cached_property
    def _scheduled(self) -> Module:
        """The fused module, each root of which carries its schedule."""
        from polyreme.lowering.pipeline import choose_schedules

        found = self._lowered("tensor")
        choose_schedules(found, self.target, self._prepare)
        return found

    @cached_property
    def why(self) -> str:
        """Of each root of the fused module, what every way to compute it says: schedule and estimated cycles, or why it refuses."""
        from polyreme.lowering.pipeline import builders
        from polyreme.lowering.schedule.choose_schedules import explain

        return explain(self._lowered("tensor").function("main"), self.target, builders(self.target), self._prepare)

    def _run(self, after_pass: Callable[[Stage, PassLike, Module], None]) -> None:
        """Lower a copy of the module, looking at it after each pass."""
        from polyreme.lowering.pipeline import pipeline

        PassManager(pipeline(self.target, self._prepare), after_pass=after_pass).run(self.module.clone())


def _text(module: Module, **form: Any) -> str:
    from polyreme.ir.text import print_module

    return print_module(module, **form)


def inspect(net: Any, input_spec: Sequence[Any] | None = None, target: Any = None) -> Inspection:
    """The IR of a Layer, function, loaded model or module, or of one of the `programs()` of a function under `to_static`: of a step of
    training, say.

    `input_spec` says what it takes, as for `jit.save`; `target` is a name or triple, by default this machine.
    """
    backward = getattr(net, "backward_function", None)
    frozen = None if getattr(net, "fixed", None) is None else lambda: model_module(net, input_spec, freeze=True)
    module = inspected_module(net, input_spec)
    return Inspection(module, as_target(target), None if backward is None else lambda: backward(input_spec), frozen)


def inspected_module(net: Any, input_spec: Sequence[Any] | None = None, freeze: bool = False) -> Module:
    """As `model_module`; of a function that takes a whole step of training, what `to_static(full_graph=True)` runs: it is captured, and
    the step is not taken.
    """
    from polyreme.jit.traced import BackwardTraceError

    try:
        return model_module(net, input_spec, freeze)
    except BackwardTraceError:
        program = _captured(net, input_spec)
        if program is None:
            raise
        return program.traced.module()


def runnable_module(net: Any, input_spec: Sequence[Any] | None = None) -> tuple[Module, list[Any] | None]:
    """As `inspected_module`, its weights as constants; of a whole step of training, or of one of the `programs()` of a function, also what
    its arguments hold, as arrays, and None for the inputs.
    """
    from polyreme.jit.program import TracedProgram
    from polyreme.jit.traced import BackwardTraceError

    try:
        if not isinstance(net, TracedProgram):
            return model_module(net, input_spec, freeze=True), None
        program: TracedProgram | None = net
    except BackwardTraceError:
        program = _captured(net, input_spec)
        if program is None:
            raise
    assert program is not None
    return program.traced.module(), [None if isinstance(source, int) else source.numpy() for source in program.traced.sources]


def _captured(net: Any, input_spec: Sequence[Any] | None) -> TracedProgram | None:
    """The program of a function that takes a whole step of training, which is not taken; None for what is no function."""
    from polyreme.jit.static_function import StaticFunction

    if isinstance(net, StaticFunction):
        step = StaticFunction(net.dygraph_function, net.input_spec, net.layer, full_graph=True)
    elif isinstance(net, (FunctionType, MethodType)):
        step = StaticFunction(net, full_graph=True)
    else:
        return None
    return step.captured(input_spec)


def model_module(net: Any, input_spec: Sequence[Any] | None = None, freeze: bool = False) -> Module:
    """The `nn` module of a model, its weights as arguments, or with `freeze` as constants. A module is taken as it is."""
    from polyreme.jit.program import TracedProgram
    from polyreme.jit.saving import trace_model

    if isinstance(net, Module):
        return net
    if isinstance(net, TracedProgram):
        return net.traced.module()
    traced = trace_model(net, input_spec)
    make: Callable[[], Module] = traced.frozen if freeze else traced.module
    return make()


def as_target(target: Any, cpu: str | None = None) -> Any:
    """The target meant by None (this machine), a name, a triple or a Target."""
    from polyreme.lowering.machines.targets import Target, find_target

    return target if isinstance(target, Target) else find_target(target or "native", cpu)
