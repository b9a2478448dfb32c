"""Tuning: the first candidates of a root are timed once, and the answer is kept in the cache, with the objects.

Off by default: estimates are close on the machines that they were fitted on, and timings differ from run to run. `POLYREME_TUNE=1` turns it
on for code that is made for this machine or its GPU, for every way that has several schedules for a root (`Way.others`). Tiles do not
change a result, since the order of additions is the same; of Winograd's algorithm other sizes do, within what an op declares, and so do the
parts of a GPU's products.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import median
from typing import Any

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir import config
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.timing import timed
from polyreme.lowering.emit.llvm.codegen import version
from polyreme.lowering.kernels.gpu import GPU_BUILDERS
from polyreme.lowering.kernels.plan import KernelBuilder, KernelPlan, Request, title
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.kernels.way import CANDIDATES, Way
from polyreme.lowering.link.runtime import RuntimeFault, cache_in, digest_of, gpu_driver
from polyreme.lowering.machines.targets import GpuTarget, Target, gpu_target
from polyreme.lowering.machines.timing import TIMING
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from polyreme.lowering.schedule.cliffs import needed_cycles

__all__ = ["time_schedules", "tuned"]


def tuned(way: Way) -> Way:
    """As `way`, by the fastest of its first candidates on this machine."""

    def find(request: Request) -> _Found | None:
        seen = way.find(request)
        return None if seen is None else _Found(request, seen)

    def choose(found: _Found) -> Schedule | None:
        most = TIMING.gpu_candidates if found.request.target.code == "ptx" else CANDIDATES
        candidates = way.candidates(found.seen)[:most] if _is_large(found.request) else []
        return _fastest(found.request, way, candidates) if len(candidates) > 1 else way.choose(found.seen)

    return replace(
        way,
        find=find,
        choose=choose,
        write=lambda found, chosen: way.write(found.seen, chosen),
        fits=lambda found, chosen: way.fits(found.seen, chosen),
        refusal=lambda found: way.refusal(found.seen),
        others=lambda found: way.candidates(found.seen),
        estimate=None if way.estimate is None else lambda found, chosen: way.estimate(found.seen, chosen),  # type: ignore[misc]
    )


@dataclass(frozen=True)
class _Found:
    """A root, and what a way sees in it."""

    request: Request
    seen: Any


def _is_large(request: Request) -> bool:
    """Whether a root is of known sizes, and takes as long as what is worth a thread; on a GPU any counts."""
    known = all(isinstance(n, int) for t in (*request.operand_types, *request.result_types) for n in t.shape)
    return known and (request.target.code == "ptx" or needed_cycles(request) >= request.target.grain_cycles)


def _fastest(request: Request, way: Way, candidates: Sequence[Schedule]) -> Schedule:
    """The schedule that was found when this was last asked, or is found now."""
    kept = cache_in(config.cache_folder())
    target = request.target
    texts = {str(schedule): schedule for schedule in candidates}
    driver = tuning_driver(target)
    where = str(config.threads()) if driver is None else driver.model
    key = digest_of("schedule", version(), target.triple, target.cpu, target.features, request.key, where, *texts)
    found = kept.get(key)
    if found is not None and (text := found.decode()) in texts:
        return texts[text]
    with timed("tune"):
        seconds = time_schedules(request, way, candidates)
    best = min(candidates, key=lambda schedule: seconds[schedule])
    config.say(1, lambda: f"// {title(request)}: " + ", ".join(f"{s} {seconds[s] * 1e6:.1f} us" for s in candidates))
    kept.put(key, str(best).encode())
    return best


def time_schedules(request: Request, way: Way, candidates: Sequence[Schedule]) -> dict[Schedule, float]:
    """Seconds that the group takes by each schedule on this machine or its GPU: the best of interleaved calls, on random numbers."""
    driver = tuning_driver(request.target)
    if driver is not None:
        return _time_on(driver, request, way, candidates)
    calls = {schedule: _call(request, partial(_plan, way, schedule)) for schedule in candidates}
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(TIMING.rounds):
        for schedule, call in calls.items():
            end = time.perf_counter() + TIMING.seconds
            while True:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                best[schedule] = min(best[schedule], now - start)
                if now >= end:
                    break
    return best


def _time_on(driver: Any, request: Request, way: Way, candidates: Sequence[Schedule]) -> dict[Schedule, float]:
    """The same on a GPU: between events of the device."""
    from polyreme.lowering.link.artifact import build_artifact, load

    turns = {}
    for schedule in candidates:
        module, inputs = module_of(request, partial(_plan, way, schedule), builders=GPU_BUILDERS)
        executable: Any = load(build_artifact(module, request.target, "candidate", outline_constants(module)), driver)
        turns[schedule] = partial(executable.timings, inputs, seconds=TIMING.seconds, fewest=1)
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(TIMING.gpu_rounds):
        for schedule, turn in turns.items():
            best[schedule] = min(best[schedule], median(turn()) / 1000)
    return best


@cache
def _this_gpu() -> Any:
    try:
        return gpu_driver()
    except RuntimeFault:
        return None


def tuning_driver(target: Target) -> Any:
    """This machine's GPU, if code for the target is made for it; None for a processor's code, or another device's."""
    if not isinstance(target, GpuTarget):
        return None
    driver = _this_gpu()
    return driver if driver is not None and gpu_target(driver.sm) == target else None


def _plan(way: Way, schedule: Schedule, request: Request) -> KernelPlan:
    return way.plan(way.find(request), schedule)


def _call(request: Request, build: KernelBuilder) -> Any:
    """The group as a model of its own, compiled by `build` and ready to run."""
    from polyreme.lowering.link.artifact import build_artifact, load

    module, inputs = module_of(request, build)
    executable = load(build_artifact(module, request.target, "candidate", outline_constants(module)))
    return partial(executable.run, inputs)


def module_of(
    request: Request, build: KernelBuilder, builders: tuple[KernelBuilder, ...] = ()
) -> tuple[Module, list[np.ndarray[Any, Any]]]:
    """A root as a model of its own at kernel level, by `build`, and arrays for its inputs: operands that are known ahead of time are
    constants. What else the plan needs, such as packs, is by `builders`.
    """
    rng = np.random.default_rng(0)
    arrays = [_array(rng, t) for t in request.operand_types]
    known = request.constant | request.kept
    inputs = [i for i in range(len(arrays)) if i not in known]
    main = Func.empty("main", [request.operand_types[i] for i in inputs], arg_roles=("input",) * len(inputs), loc=request.func.location)
    b = Builder.at_end(main.block, request.func.location)
    operands: list[Value] = [b(tensor.Constant, value=arrays[i]) if i in known else main.args[inputs.index(i)] for i in range(len(arrays))]
    body = Block([v.type for v in operands])
    inner = Builder.at_end(body, request.func.location)
    mapping: dict[Value, Value] = dict(zip(request.func.args, body.args, strict=True))
    for op in request.ops():
        inner.insert(op.clone(mapping))
    inner.insert(tensor.Yield([mapping.get(v, v) for v in request.results]))
    group = tensor.Fused(operands, body=Region(body))
    b.insert(group)
    b.insert(Return(list(group.results)))
    module = Module.empty()
    module.block.append(main.finish())
    own = request.key

    def only(one: Request) -> KernelPlan | None:
        return build(one) if one.key == own or not builders else None

    TensorToKernel(request.target, (only, *builders)).run(module)
    return module, [arrays[i] for i in inputs]


def _array(rng: np.random.Generator, type: Any) -> np.ndarray[Any, Any]:
    if type.dtype.is_float:
        return rng.standard_normal(type.shape).astype(type.dtype.np)
    return np.ones(type.shape, type.dtype.np)
