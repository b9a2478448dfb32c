"""What the cost model predicts of kernels, beside what they take on this machine: those of networks, and of layers of random sizes.

    python -m benchmarks.predicted measure             # time what `benchmarks/results/predicted.csv` does not have yet
    python -m benchmarks.predicted predict             # write its predictions anew, and the tables by family

A kernel runs alone, again and again, on one thread: what fits into the caches is there. Of a root that several ways or tiles can compute
each candidate is timed, in turns with the others. The time is the twentieth of all calls that is the fastest, since other programs only
slow a kernel; a row whose quartile lies more than a tenth above it is timed again. What takes long is interrupted, and told by the
thread's own time. Cycles are by a chain of multiply-adds, timed in the same turns.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from typing import Any

import numpy as np

import polyreme as paddle
from benchmarks.tables import RESULTS
from benchmarks.zoo import MODELS
from polyreme.ir.builtin import Module
from polyreme.ir.passes import PassManager
from polyreme.jit.saving import trace_model
from polyreme.lowering.debug.fit import Clock, kernel_call
from polyreme.lowering.kernels.plan import KernelPlan, Request, op_names, structure
from polyreme.lowering.kernels.way import Way, cycles_of
from polyreme.lowering.link.tune import module_of
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.pipeline import BUILDERS, pipeline
from polyreme.runtime.threads import set_num_threads
from polyreme.static import InputSpec

FILE, FAMILIES = RESULTS / "predicted.csv", RESULTS / "predicted_families.csv"
NETWORKS = (
    "resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_large", "bert-base 128", "lstm 256x64", "gru 256x64", "LeNet",
    "mlp 784-512-512-10", "squeezenet1_1", "densenet121", "shufflenet_v2_x1_0", "convnext-t", "swin-t", "unet 256", "text reader",
    "decoder step",
)  # fmt: skip
OF_NETWORKS, OF_RANDOM = 150, 50
# Other candidates of one way, for each root.
OTHERS = 2
ROUNDS, TURN, LEAST_CALLS = 3, 0.02, 5
# A row is timed again, so many times, while it scatters more.
TRIES, SCATTER = 2, 1.1
# A choice is right if no candidate is faster by more than this.
CLOSE = 1.05


@dataclass(frozen=True)
class Row:
    """One candidate of a root. `family` is who computes it, `chosen` "yes" for what the compiler takes; `network` is where the root comes
    from. Both numbers are cycles.
    """

    network: str
    root: str
    key: str
    family: str
    schedule: str
    chosen: str
    predicted: int
    measured: int
    scatter: float


@dataclass(frozen=True)
class Candidate:
    """A way to compute a root: `plan` makes its kernels for a request."""

    family: str
    schedule: str
    plan: Callable[[Request], KernelPlan | None]


# --- roots


def roots_of(modules: Iterable[tuple[str, Module]], target: Target) -> Iterator[tuple[str, Request, KernelPlan]]:
    """Every root of known sizes with what is chosen for it, each structure once."""
    seen: set[str] = set()
    for name, module in modules:
        for request, plan in _lowered(module, target):
            known = all(isinstance(n, int) for t in (*request.operand_types, *request.result_types) for n in t.shape)
            if known and plan.steps and request.key not in seen:
                seen.add(request.key)
                yield name, request, plan


def _lowered(module: Module, target: Target) -> list[tuple[Request, KernelPlan]]:
    found: list[tuple[Request, KernelPlan]] = []
    PassManager(pipeline(target, watch=lambda request, plan, calls: found.append((request, plan)))).run(module)
    return found


def networks() -> Iterator[tuple[str, Module]]:
    """The networks, with their weights as constants."""
    for name in NETWORKS:
        paddle.seed(0)
        model = MODELS[name]
        layer = model.build(paddle)
        layer.eval()
        yield name, trace_model(layer, [InputSpec(shape, dtype) for _, shape, dtype in model.shapes(model.batches[-1])]).frozen()


def random_layers() -> Iterator[tuple[str, Module]]:
    """Single layers of random sizes."""
    draw = random.Random(0)
    nn = paddle.nn
    for number in range(OF_RANDOM):
        paddle.seed(number)
        rows, inputs, outputs = (draw.choice((1, 7, 32, 49, 128, 200, 384)), *(draw.randrange(8, 1200) for _ in range(2)))
        channels, more, size = draw.randrange(8, 200), draw.randrange(8, 200), draw.randrange(7, 60)
        image = [1, channels, size, size]
        kind = number % 5
        if kind == 0:
            net, shape = nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU()), [rows, inputs]
        elif kind == 1:
            net, shape = nn.Sequential(nn.Conv2D(channels, more, 3, padding=1), nn.ReLU()), image
        elif kind == 2:
            net, shape = nn.Sequential(nn.Conv2D(channels, more, draw.choice((1, 5)), draw.choice((1, 2))), nn.Sigmoid()), image
        elif kind == 3:
            net, shape = nn.Conv2D(channels, channels, draw.choice((3, 5)), padding=1, groups=channels), image
        else:
            net, shape = draw.choice((nn.Softmax(), nn.GELU(), nn.LayerNorm(inputs))), [rows, inputs]
        net.eval()
        yield "random", trace_model(net, [InputSpec(shape, "float32")]).frozen()


def spread(found: Iterable[tuple[str, Request, KernelPlan]], count: int) -> list[tuple[str, Request, KernelPlan]]:
    """So many roots: one of each family in turn, drawn from all of it."""
    families: dict[str, list[tuple[str, Request, KernelPlan]]] = {}
    for one in found:
        families.setdefault(one[2].builder, []).append(one)
    draw = random.Random(0)
    for members in families.values():
        draw.shuffle(members)
    chosen: list[tuple[str, Request, KernelPlan]] = []
    while len(chosen) < count and any(families.values()):
        chosen += [members.pop() for members in families.values() if members]
    return chosen[:count]


def chosen_roots(target: Target) -> list[tuple[str, Request, KernelPlan]]:
    """The roots that are timed."""
    return [*spread(roots_of(networks(), target), OF_NETWORKS), *spread(roots_of(random_layers(), target), OF_RANDOM)]


def key_of(request: Request) -> str:
    """Equal for roots that compute the same."""
    return blake2b(repr(structure(request.func.block)).encode(), digest_size=6).hexdigest()


# --- candidates


def candidates(request: Request, plan: KernelPlan) -> list[Candidate]:
    """What is chosen first, then what other ways choose, and other tiles and cuts of the ways that have them."""
    found: dict[tuple[str, str], Candidate] = {}

    taker = next((b for b in BUILDERS if isinstance(b, Way) and b.name == plan.builder), None)
    if taker is None:
        taken = next(b for b in BUILDERS if not isinstance(b, Way) and b(request) is not None)
        return [Candidate(plan.builder, "", taken)]
    for way in (taker, *BUILDERS):
        # Ways that take operands in another order take no others.
        is_asked = way is taker or (isinstance(way, Way) and not request.operand_orders)
        if is_asked and isinstance(way, Way) and (seen := way.find(request)) is not None:
            for chosen in way.candidates(seen)[: 1 + OTHERS]:
                found.setdefault((way.name, str(chosen)), _by(way, chosen))
    return list(found.values())


def _by(way: Way, chosen: Any) -> Candidate:
    return Candidate(way.name, str(chosen), lambda request: way.plan(way.find(request), chosen))


# --- timing


def measure(calls: list[Callable[[], float]], clock: Clock) -> list[tuple[int, float]]:
    """Cycles of each call, and its quartile over its fastest twentieth: in turns, again while that is too much."""
    best: list[tuple[int, float]] = []
    for _ in range(TRIES):
        found: list[list[float]] = [[] for _ in calls]
        ticks: list[float] = []
        for _ in range(ROUNDS):
            ticks.append(clock.rate())
            for times, call in zip(found, calls, strict=True):
                call()
                end, least = time.perf_counter() + TURN, len(times) + LEAST_CALLS
                while time.perf_counter() < end or len(times) < least:
                    times.append(call())
        rate = float(np.median(ticks))
        now = [(round(float(np.percentile(t, 5)) * rate), round(float(np.percentile(t, 25) / np.percentile(t, 5)), 3)) for t in found]
        best = now if not best else [min(pair) for pair in zip(best, now, strict=True)]
        if all(scatter <= SCATTER for _, scatter in best):
            break
    return best


# --- the file


def read_rows() -> list[Row]:
    if not FILE.exists():
        return []
    with FILE.open(newline="", encoding="utf-8") as lines:
        return [
            Row(**{**row, "predicted": int(row["predicted"]), "measured": int(row["measured"]), "scatter": float(row["scatter"])})
            for row in csv.DictReader(lines)
        ]


def write_rows(rows: Iterable[Row]) -> None:
    with FILE.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def measure_all() -> None:
    """Time the roots that the file does not have, each written as it is done."""
    set_num_threads(1)
    measure_roots(chosen_roots(host()))


def measure_roots(todo: Sequence[tuple[str, Request, KernelPlan]]) -> None:
    """The same of these roots."""
    target, rows = host(), read_rows()
    done, clock = {row.key for row in rows}, Clock(target)
    for number, (network, request, plan) in enumerate(todo, 1):
        if (key := key_of(request)) in done:
            continue
        kinds, calls = [], []
        for one in candidates(request, plan):
            module, arrays = module_of(request, one.plan)
            kinds.append(one)
            calls.append(kernel_call(module, arrays, target))
        root = f"{op_names(request)} -> {', '.join(map(str, request.result_types))}"
        for i, (one, (cycles, scatter)) in enumerate(zip(kinds, measure(calls, clock), strict=True)):
            made = one.plan(request)
            assert made is not None
            estimate = round(cycles_of(made, request))
            rows.append(Row(network, root, key, one.family, one.schedule, "" if i else "yes", estimate, cycles, scatter))
        write_rows(rows)
        told = ", ".join(f"{r.family} {r.predicted}/{r.measured}" for r in rows if r.key == key)
        print(f"{number}/{len(todo)} {root}: {told}", flush=True)


def predict_all() -> None:
    """Write the predictions anew, for what was measured, and the tables."""
    rows = read_rows()
    wanted = {(row.key, row.family, row.schedule) for row in rows}
    found: dict[tuple[str, str, str], int] = {}
    for _, request, plan in chosen_roots(host()):
        key = key_of(request)
        for one in candidates(request, plan):
            if (key, one.family, one.schedule) in wanted and (made := one.plan(request)) is not None:
                found[key, one.family, one.schedule] = round(cycles_of(made, request))
    write_rows(replace(r, predicted=found[r.key, r.family, r.schedule]) for r in rows if (r.key, r.family, r.schedule) in found)
    write_families()


def write_families() -> None:
    """The table by family: of what is chosen, errors of the predictions; of roots with several candidates, how many choices are close to
    the fastest.
    """
    rows = read_rows()
    chosen = [row for row in rows if row.chosen]
    families = sorted({row.family for row in chosen}, key=lambda f: -sum(row.family == f for row in chosen))
    lines = [_family(f, [r for r in chosen if r.family == f], rows) for f in families]
    lines.append(_family("all", chosen, rows))
    with FAMILIES.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    for line in lines:
        print(line)


def _family(name: str, chosen: list[Row], rows: list[Row]) -> dict[str, Any]:
    errors = [abs(row.predicted / row.measured - 1) for row in chosen]
    close = []
    for row in chosen:
        others = [r.measured for r in rows if r.key == row.key]
        if len(others) > 1:
            close.append(row.measured <= CLOSE * min(others))
    return {
        "family": name,
        "roots": len(chosen),
        "median error": f"{np.median(errors):.0%}",
        "90th percentile": f"{np.percentile(errors, 90):.0%}",
        "with others": len(close),
        "best or within 5 %": f"{np.mean(close):.0%}" if close else "",
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("measure", "predict", "tables"))
    {"measure": measure_all, "predict": predict_all, "tables": write_families}[parser.parse_args(arguments).what]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
