"""Is anything slower than it was? Two versions of Polyreme on the same nets and weights, in turns.

    python -m benchmarks.before_after BEFORE [--threads 1 2] [--only NAME ...] [--files FOLDER] [--starts 5] [--into rows.csv]

BEFORE is the Python of an environment in which an earlier version is installed; the later one is that of this Python. Each has a process of
its own, and both are timed in short turns, in the other order each round, each turn by its tenth percentile. Where the pages of a process
lie, and those of a file with weights, makes one of two equal ones up to a twentieth slower, for as long as it lives: so both are started
anew several times, each with a copy of its library, and the ratio (before over after: above 1 is faster than it was) is the median over
the starts of the median of the rounds' ratios, with the lowest and the highest start. On one thread it is the time that the processor
spends on the process, on two it is time that passes.

The nets are those of `benchmarks.zoo`, as libraries; steps of training of `benchmarks.training_nets` (`train ResNet-18, 64`), compiled as a
whole; `random 0` to `random 19`, small nets of random sizes; and with `--files` the saved models of a folder that come with inputs, each of
their sizes. Results are compared before anything is timed: they may differ by 1e-3 of the largest.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.eager import started
from benchmarks.processes import Worker, answer
from benchmarks.tables import table
from benchmarks.training_nets import NETS, Words
from benchmarks.whole_steps import turn
from benchmarks.zoo import MODELS, draw_inputs, draw_weights, load_weights

INFERENCE = (
    "resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_large", "bert-base 128", "vit-b16", "lstm 256x64", "gru 256x64", "LeNet",
    "mlp 784-512-512-10", "unet 256", "swin-t",
)  # fmt: skip
TRAINING = ("ResNet-18, 64", "encoder")
RANDOM = 20
LARGEST_DIFFERENCE = 1e-3
HEAD = ["threads", "net", "before ms", "after ms", "ratio", "lowest", "highest"]

Array = Any
Call = Callable[[], Any]


# --- in the process of one version


def random_net(number: int, paddle: Any) -> tuple[Any, list[int]]:
    """A net of a few layers whose sizes are drawn, with the sizes of its input."""
    draw, nn = random.Random(number), paddle.nn
    layers: list[Any] = []
    if number % 3 == 0:
        rows, width = draw.choice((1, 5, 33, 100, 256)), draw.randrange(16, 1500)
        shape = [rows, width]
        for _ in range(draw.randrange(2, 5)):
            wider = draw.randrange(16, 1500)
            layers += [nn.Linear(width, wider), draw.choice((nn.ReLU, nn.GELU, nn.Sigmoid))()]
            width = wider
        return nn.Sequential(*layers, nn.LayerNorm(width)), shape
    channels, size = draw.choice((1, 3, 8, 20)), draw.randrange(20, 120)
    shape = [draw.choice((1, 1, 4)), channels, size, draw.randrange(20, 120)]
    for _ in range(draw.randrange(3, 7)):
        more, edge = draw.choice((12, 24, 40, 72, 128, 200)), draw.choice((1, 3, 3, 5))
        layers += [nn.Conv2D(channels, more, edge, draw.choice((1, 1, 2)), edge // 2), nn.BatchNorm2D(more), nn.ReLU()]
        if number % 3 == 2:
            layers += [nn.Conv2D(more, more, 3, 1, 1, groups=more), nn.Hardswish()]
        channels = more
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(channels, 10)), shape


class Steps(Words):
    """Whole steps in the default mode, which earlier versions have, too."""

    def step(self, step: Callable[..., Any], *args: Any) -> Callable[[], float]:
        made = self.lib.jit.to_static(step)
        return lambda: float(made(*args))


def prepared(task: str, threads: int, folder: Path) -> Call:
    """The call that is timed; it gives the results. A library is compiled into `folder` unless it is there, and loaded from a copy."""
    import polyreme as paddle
    from polyreme.runtime.library import load_compiled

    kind, _, rest = task.partition(" ")
    library = folder / "net.so"
    if kind == "train":
        return NETS[rest](Steps("polyreme", threads))
    if kind == "file":
        file, _, number = rest.rpartition(":")
        if not library.exists():
            folder.mkdir()
            command = [sys.executable, "-m", "polyreme", "compile", file, "-o", str(library)]
            subprocess.run(command, check=True, capture_output=True)
        arrays = inputs_of(Path(file))[number]
    else:
        if kind == "random":
            layer, sizes = random_net(int(rest), paddle)
            inputs = {"x": np.random.default_rng(1).standard_normal(sizes, np.float32)}
        else:
            model = MODELS[task]
            layer, inputs = model.build(paddle), draw_inputs(model, model.batches[0])
        if not library.exists():
            folder.mkdir()
            load_weights(layer, draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()}), paddle)
            spec = [paddle.static.InputSpec(list(a.shape), str(a.dtype), name) for name, a in inputs.items()]
            paddle.compile(layer, str(library), input_spec=spec)
        arrays = list(inputs.values())
    copy = Path(shutil.copytree(folder, folder.with_name(f"{folder.name} {os.getpid()}")))
    loaded = load_compiled(copy / "net.so", threads=threads)
    return lambda: loaded.run(arrays)


def inputs_of(file: Path) -> dict[str, list[Array]]:
    """The inputs of a saved model's cases, by number."""
    found: dict[str, list[Array]] = {}
    with np.load(file.with_suffix(".npz")) as kept:
        for key in kept.files:
            number, kind, _ = key.split("/")
            if kind == "in":
                found.setdefault(number, []).append(kept[key])
    return found


def work(threads: int) -> None:
    """Answer requests: what a task gives, then the seconds of each call in a turn."""
    calls: dict[str, Call] = {}
    clock = time.process_time if threads == 1 else time.perf_counter

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        task = request["task"]
        if "seconds" in request:
            return {"seconds": turn(calls[task], request["seconds"], clock)}
        calls.clear()
        try:
            calls[task] = prepared(task, threads, Path(request["folder"]))
            results = calls[task]()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        parts = results if isinstance(results, (list, tuple)) else [results]
        return {"sums": [part for one in parts for part in _told(np.asarray(one, "float64"))]}

    answer(handle)


def _told(values: Array) -> list[float]:
    """A few numbers that tell arrays apart, beside the largest."""
    flat = np.nan_to_num(values.ravel())
    return [float(np.abs(flat).max(initial=0.0)), float(flat.mean()) if flat.size else 0.0, *map(float, flat[:: max(1, flat.size // 16)])]


# --- the comparison


@dataclass(frozen=True)
class Taken:
    """Milliseconds by round of both versions in one start."""

    before: list[float]
    after: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(before / after for before, after in zip(self.before, self.after, strict=True))


def measure(pythons: dict[str, str], task: str, threads: int, asked: argparse.Namespace) -> list[Taken]:
    """What each start takes; `ValueError` where a version fails, or results differ."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.starts):
            workers = started("benchmarks.before_after", pythons, threads)
            try:
                found.append(_start(workers, task, Path(folder), asked.rounds, asked.seconds))
            finally:
                for worker in workers.values():
                    worker.stop()
    return found


def _start(workers: dict[str, Worker], task: str, folder: Path, rounds: int, seconds: float) -> Taken:
    replies = {version: worker.ask(task=task, folder=str(folder / version)) for version, worker in workers.items()}
    for version, reply in replies.items():
        if "error" in reply:
            raise ValueError(f"{version}: {' '.join(reply['error'].split())[:120]}")
    before, after = (np.array(reply["sums"]) for reply in replies.values())
    if before.shape != after.shape or np.abs(before - after).max(initial=0.0) > LARGEST_DIFFERENCE * max(1e-30, np.abs(before).max()):
        raise ValueError("results differ")
    taken: dict[str, list[float]] = {version: [] for version in workers}
    for number in range(rounds + 1):
        for version in list(workers) if number % 2 else list(workers)[::-1]:
            reply = workers[version].ask(task=task, seconds=seconds)
            if number:
                taken[version].append(float(np.percentile(reply["seconds"], 10)) * 1e3)
    return Taken(**taken)


def row(threads: int, task: str, starts: list[Taken]) -> list[str]:
    """A line of the table."""
    ratios = [start.ratio for start in starts]
    name = f"{Path(task).stem} {task.rpartition(':')[2]}" if task.startswith("file ") else task
    times = (statistics.median(t for start in starts for t in getattr(start, version)) for version in ("before", "after"))
    return [str(threads), name, *(f"{t:.4g}" for t in times), *(f"{r:.3f}" for r in (statistics.median(ratios), min(ratios), max(ratios)))]


def tasks(files: Path | None, only: Sequence[str]) -> Iterator[str]:
    """All that are timed, or those that are asked for."""
    found = [*INFERENCE, *(f"train {name}" for name in TRAINING), *(f"random {i}" for i in range(RANDOM))]
    if files is not None:
        found = [f"file {f}:{n}" for f in sorted(files.iterdir()) if f.suffix in (".json", ".pdmodel") for n in inputs_of(f)]
    for task in only or ():
        if files is None and task not in found and task not in MODELS and task.removeprefix("train ") not in NETS:
            raise SystemExit(f"expected one of {', '.join(found)} but got '{task}'")
    return (task for task in (found if not only or files is not None else only) if files is None or not only or Path(task).stem in only)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--worker"]:
        work(int(arguments[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="the Python of an environment with the earlier version")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--files", type=Path)
    parser.add_argument("--starts", type=int, default=5, help="of both processes, for each net")
    parser.add_argument("--rounds", type=int, default=4, help="of each start")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a turn")
    parser.add_argument("--into", type=Path, help="a file for the rows, each written as it is known")
    asked = parser.parse_args(arguments)
    rows = []
    for threads in asked.threads:
        for task in tasks(asked.files, asked.only):
            try:
                rows.append(row(threads, task, measure({"before": asked.before, "after": sys.executable}, task, threads, asked)))
            except ValueError as error:
                print(f"{task}: {error}", flush=True)
                continue
            print(" | ".join(rows[-1]), flush=True)
            if asked.into is not None:
                new = not asked.into.exists()
                with asked.into.open("a", newline="", encoding="utf-8") as file:
                    csv.writer(file, lineterminator="\n").writerows([HEAD, rows[-1]] if new else [rows[-1]])
    print(table(HEAD, rows))
    for threads in asked.threads:
        if ratios := [float(r[4]) for r in rows if r[0] == str(threads)]:
            print(f"{threads} threads: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
