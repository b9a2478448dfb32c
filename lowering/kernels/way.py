"""A way to compute a root, in three steps: whether the root is of its kind, what is chosen, and the kernels as the choice says.

    build_contract = Way("contract", ContractSchedule, find_product, choose_schedule, write_contract)

`find` and `choose` may answer None. `write` takes what they gave and only writes: all that depends on the machine is in the schedule. So a
schedule that comes from elsewhere, such as a file, is written as one that was chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.kernel_work import kernel_cycles
from polyreme.lowering.kernels.plan import KernelBuilder, KernelPlan, Request, title
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError, parse_schedule

# Schedules of a root that are timed by who tunes, and shown, the chosen one first.
CANDIDATES = 6


@dataclass(frozen=True)
class Way:
    """`name` says who takes the root. `find` gives the root as this way sees it, None for one of another kind. `choose` gives its schedule,
    an instance of `schedule`, or None where other ways are estimated to be faster. `write` makes the plan; `fits` raises `ScheduleError`
    for a schedule that the root cannot be computed by. `function` is the name that it is called by, if that is another one.

    `estimate` is what a schedule is estimated to take, in cycles, where the plan's kernels do not tell: on a GPU. `refusal` says why
    `choose` answers None. `others` are further schedules that fit a root, what differs least from the chosen one first:
    they are timed by who tunes, and shown beside it.
    """

    name: str
    schedule: type[Schedule]
    find: Callable[[Request], Any]
    choose: Callable[[Any], Any]
    write: Callable[[Any, Any], KernelPlan]
    fits: Callable[[Any, Any], None]
    function: str = ""
    refusal: Callable[[Any], str] = lambda found: "estimated to be slower than others, or forbidden"
    others: Callable[[Any], Iterable[Any]] = lambda found: ()
    estimate: Callable[[Any, Any], float] | None = None

    @property
    def __name__(self) -> str:
        return self.function or f"build_{self.name}"

    def __call__(self, request: Request) -> KernelPlan | None:
        """The plan of a root as it is chosen here; None where this way does not take it."""
        found = self.find(request)
        chosen = None if found is None else self.choose(found)
        return None if chosen is None else self.plan(found, chosen)

    def candidates(self, found: Any) -> list[Any]:
        """The schedules of what was found, each once: what is chosen, then others; none where nothing is chosen."""
        chosen = self.choose(found)
        return [] if chosen is None else list(dict.fromkeys([chosen, *self.others(found)]))

    def takes(self, request: Request) -> bool:
        """Whether this way would take a root; nothing is written."""
        found = self.find(request)
        return found is not None and self.choose(found) is not None

    def plan(self, found: Any, chosen: Schedule) -> KernelPlan:
        """The plan of what was found, by this schedule."""
        return replace(self.write(found, chosen), builder=self.name, schedule=str(chosen))


def cycles_of(plan: KernelPlan, request: Request) -> float:
    """Cycles that a plan's kernels are estimated to take one thread, with those that pack operands at each call."""
    packs = [p.kernel for p in plan.packs if p.kernel is not None and p.operand not in request.constant | request.kept]
    return sum(kernel_cycles(func, request.target) for func in (*packs, *(step.func for step in plan.steps)))


def plan_as_said(request: Request, text: str, builders: Sequence[KernelBuilder]) -> KernelPlan:
    """The plan of a root by the schedule that `text` says; `ScheduleError`, at the root's line, where it is none that fits."""
    ways = {way.schedule: way for way in builders if isinstance(way, Way)}
    try:
        chosen = parse_schedule(text, ways)
        way = ways[type(chosen)]
        found = way.find(request)
        if found is None:
            raise ScheduleError(f"expected a root that '{chosen.kind}' is for but got {title(request)}")
        way.fits(found, chosen)
    except ScheduleError as error:
        raise ScheduleError(error.message, request.func.location) from None
    return way.plan(found, chosen)
