"""Schedules of roots as attributes: chosen for a machine, or read from a file (the passes `choose-schedules` and `override-schedules`).

A file has a line for each root, or roots that are alike, that is to be computed in another way than the compiler chooses:

    # ops -> types of the results: schedule
    contract add -> tensor<1x10xf32>: gemm<sizes = 1x512x10, tile = 1x2, lanes = 8, packed = tiles<panels = packed, grain = 2>>
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import Location, PassError, PolyremeError, did_you_mean
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.half_floats import is_widening
from polyreme.lowering.kernels.plan import KernelBuilder, KernelPlan, Request, facts_of, op_names, request_of
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.kernels.way import CANDIDATES, Way, cycles_of
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.schedule.bufferize import CARRIERS
from polyreme.lowering.schedule.control import CONTROL, runs_general
from polyreme.lowering.transforms.fuse import outline

# What is no root: it is another name for memory, is known already, or has roots of its own.
NO_ROOTS = (tensor.Constant, tensor.Reshape, tensor.Pairs, Return, *(op for op in CONTROL if op is not tensor.Scan))


@dataclass(frozen=True)
class ChooseSchedules(Pass):
    """Let each root of `main` carry its schedule, where the way that takes it has one that is read back.

    Before: a fused `main`.  After: the same, groups with the attribute `schedule`; single ops become groups. `tensor-to-kernel` computes
    them as it says. Runs after fusion, which says what a root is. Roots in bodies of branches and loops carry none: what is known of their
    operands shows when kernels are written.
    """

    name: ClassVar[str] = "choose-schedules"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    target: Target
    builders: tuple[KernelBuilder, ...]
    prepare: str = ""

    def run(self, module: Module) -> None:
        for op, request in roots(module.function("main"), self.target, self.prepare):
            if isinstance(op, CARRIERS) and op.schedule:
                continue
            chosen = chosen_by(request, self.builders)
            if chosen:
                carry(op, chosen)


@register_pass
@dataclass(frozen=True)
class OverrideSchedules(Pass):
    """Let roots of `main` carry the schedules that a file gives them.

    Before: a fused `main`.  After: the same, groups with the attribute `schedule`. Each line of the file has to be for a root that is
    there; whether a schedule fits its root shows when kernels are written.
    """

    name: ClassVar[str] = "override-schedules"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    file: str = ""

    def run(self, module: Module) -> None:
        if not self.file:
            raise PassError(f'expected a file of schedules, as in {self.name}{{file="schedules.txt"}}, but got none', code="E0402")
        wanted = read_overrides(Path(self.file))
        found = {key: (op, request) for op, request in roots(module.function("main"), None, "") for key in [root_key(request)]}
        for key, (text, place) in wanted.items():
            if key not in found:
                raise ScheduleError(
                    f"expected a root of the model ({'; '.join(found) or 'there is none'}) but got '{key}'{did_you_mean(key, found)}", place
                )
            for op, request in list(roots(module.function("main"), None, "")):
                if root_key(request) == key:
                    carry(op, text)


def roots(main: Func, target: Target | None, prepare: str) -> Iterator[tuple[Op, Request]]:
    """The roots of a fused function that no branch or loop is around, with what is known of their operands; `target` may be left out by who
    only looks at them.
    """
    roles: Mapping[Value, str] = dict(zip(main.args, main.arg_roles or ["input"] * len(main.args), strict=True))
    for op in list(main.block):
        is_control = isinstance(op, tensor.Scan) and (runs_general(op) or not (op.inits or op.reverse))
        if op.dialect == "tensor" and not isinstance(op, NO_ROOTS) and not is_control and not is_widening(op):
            facts = facts_of(op, roles, prepare)
            yield op, request_of(op, target or _NO_TARGET, *facts)


_NO_TARGET = Target("none", "none")


def root_key(request: Request) -> str:
    """What a file calls a root: its ops and the types of its results."""
    return f"{op_names(request)} -> {', '.join(map(str, request.result_types))}"


def chosen_by(request: Request, builders: Sequence[KernelBuilder]) -> str:
    """The schedule of a root as text; nothing where the builder that takes it has none that is read back."""
    for build in builders:
        if isinstance(build, Way):
            found = build.find(request)
            chosen = None if found is None else build.choose(found)
            if chosen is not None:
                return str(chosen)
        elif build(request) is not None:
            return ""
    return ""


def carry(op: Op, text: str) -> None:
    """Let a root carry a schedule, as a group if it is a single op."""
    if isinstance(op, CARRIERS):
        op.attributes["schedule"] = text
        return
    inputs = list(dict.fromkeys(op.operands))
    mapping: dict[Value, Value] = {}
    group = outline([op], inputs, list(op.results), mapping)
    group.attributes["schedule"] = text
    Builder.before_op(op).insert(group)
    for old in op.results:
        old.replace_all_uses_with(mapping[old])
    op.erase()


def read_overrides(file: Path) -> dict[str, tuple[str, Location]]:
    """Schedules by root, each with the line of the file that gives it; `PolyremeError` says what is wrong with a line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PolyremeError(f"expected a file of schedules but '{file}' cannot be read: {error}", code="E0002") from None
    found: dict[str, tuple[str, Location]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = Location(str(file), number, 1)
        key, colon, text = line.partition(": ")
        if not colon or " -> " not in key:
            raise ScheduleError(f"expected a line such as 'contract add -> tensor<1x10xf32>: gemm<…>' but got '{line.strip()}'", place)
        if key.strip() in found:
            raise ScheduleError(f"expected each root once but got '{key.strip()}' twice", place)
        found[key.strip()] = text.strip(), place
    return found


def explain(main: Func, target: Target, builders: Sequence[KernelBuilder], prepare: str) -> str:
    """Of each root, what every way says of it: its schedule and estimated cycles, or why it refuses; and some other schedules of the one
    that takes it.
    """
    told: list[str] = []
    for _, request in roots(main, target, prepare):
        told.append(f"{root_key(request)}{f' at {request.func.location}' if request.func.location else ''}")
        is_taken = False
        for build in builders:
            said = _opinion(build, request, is_taken)
            if said is None:
                continue
            takes, line = said
            told.append(f"  {'takes it' if takes and not is_taken else 'could' if takes else 'refuses'}: {line}")
            if takes and not is_taken and isinstance(build, Way):
                found = build.find(request)
                for other in build.candidates(found)[1:CANDIDATES]:
                    told.append(f"    or: {_of_way(build, found, other, request)}")
            is_taken = is_taken or takes
    return "".join(f"{line}\n" for line in told)


def _opinion(build: KernelBuilder, request: Request, is_taken: bool) -> tuple[bool, str] | None:
    """Whether a builder takes a root, and what it says; None of one that is for other roots, or has no value to show once it is taken."""
    if not isinstance(build, Way):
        plan = None if is_taken else build(request)
        said = "" if plan is None else f"{plan.builder} {'; '.join(plan.schedule.splitlines())}".strip()
    else:
        found = build.find(request)
        if found is None:
            return None
        chosen = build.choose(found)
        if chosen is None:
            return False, f"{build.name}: {build.refusal(found)}"
        return True, _of_way(build, found, chosen, request)
    return None if plan is None else (True, _estimated(said, plan, request))


def _of_way(way: Way, found: object, chosen: Schedule, request: Request) -> str:
    """A schedule with its estimated cycles."""
    if way.estimate is not None:
        return f"{chosen}, estimated {way.estimate(found, chosen):.0f} cycles"
    return _estimated(str(chosen), way.plan(found, chosen), request)


def _estimated(said: str, plan: KernelPlan, request: Request) -> str:
    """What was chosen, with the cycles that it is estimated to take on a processor."""
    return said if request.target.code == "ptx" else f"{said}, estimated {cycles_of(plan, request):.0f} cycles"
