"""Whole steps of training inside of `to_static`, beside torch and Paddle: forward, loss, backward, Adam's update, gradients cleared.

    python -m benchmarks.whole_steps --paddle-python ../peers/bin/python --torch-python ../torch/bin/python
    python -m benchmarks.whole_steps --first --torch-python ../torch/bin/python
    python -m benchmarks.whole_steps --into rows.csv --paddle-python ../peers/bin/python --torch-python ../torch/bin/python

Each library runs a net in a process of its own, on one thread or two, in rounds: in a round each is timed for a short turn, one after
another. A figure is the median over the rounds of a turn's tenth percentile, the ratio the median of the rounds' ratios. On one thread it
is the time that the processor spends on the process, so that whatever else runs on the machine counts little; on two it is time that
passes. `polyreme` compiles the whole step; so does `paddle-static`, as far as its `to_static` does; `paddle` and `torch` run eagerly,
`torch-compile` has a compiled model. torch's Adam is the fused one, its fastest.

- `MLP`: 784-512-512-10 with ReLU, 128 rows.
- `LeNet`: two convolutions, two poolings and three products, 64 images of 28 x 28.
- `ResNet-18, 64` and `ResNet-18, 224`: 8 images of these sides, 1000 classes.
- `MobileNetV2`: 8 images of 224 x 224, 1000 classes.
- `encoder`: four layers of a Transformer encoder, 256 wide, 4 heads, 1024 within, 8 batches of 128, no dropout.
- `BERT`: its base, 12 layers, 768 wide, 4 batches of 128, no dropout.
- `LSTM`: 256 wide, 64 steps of 16 rows.
- `adversaries`: a generator 64-256-784 and a judge 784-256-1, 64 rows, each with an Adam of its own.

Before anything is timed, all libraries are given the same weights and have to give the same losses for five steps. `MiB` is the most memory
that the process had, less what it had before it made the net; of ours in a process that finds the code in its cache, as a second one does.

With `--into` each row is written to a file as soon as it is known, and one that is there already is not measured again: a table that takes
an hour goes on where it was stopped.

With `--first` it is the seconds of the first step, with an empty cache and with a full one; `MiB` of both.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.eager import started
from benchmarks.processes import answer
from benchmarks.tables import table
from benchmarks.training_nets import NETS, Words

WARM_TURNS = 1  # turns that are not counted
STEPS = 5  # whose losses are compared
# Of a loss, relative: of the first step, by how much more of each one after it, and at most; of losses from some size on. Adam divides by
# roots of squares: where a gradient is nearly 0, its rounding decides which way a whole step goes.
LARGEST_DIFFERENCE, GROWTH, MOST, SMALLEST = 1e-4, 30.0, 0.1, 1e-3
LIBRARIES = ("polyreme", "paddle", "paddle-static", "torch", "torch-compile")
HEAD = ["net", *(f"{library} ms" for library in LIBRARIES), "ratio", "lowest", "highest", "MiB", "best peer's MiB"]


def turn(step: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> list[float]:
    """Seconds by `clock` of each step, for about `seconds`."""
    taken = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 2:
        start = clock()
        step()
        taken.append(clock() - start)
    return taken


def peak() -> float:
    """The most MiB that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(library: str, threads: int) -> None:
    """Answer requests: the losses of the first steps of a net, then the seconds of each step in a turn."""
    words = Words(library, threads)
    before = peak()
    steps: dict[str, Callable[[], float]] = {}
    clock = time.process_time if threads == 1 else time.perf_counter

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        name = request["task"]
        if name not in steps:
            steps[name] = NETS[name](words)
        if "seconds" not in request:
            start = time.perf_counter()
            losses = [steps[name]()]
            first = time.perf_counter() - start
            losses += [steps[name]() for _ in range(STEPS - 1)]
            return {"losses": losses, "first": first, "mib": peak() - before}
        return {"seconds": turn(steps[name], request["seconds"], clock), "mib": peak() - before}

    answer(handle)


def check(name: str, losses: dict[str, list[float]]) -> None:
    """`SystemExit` where the losses of libraries differ by more than rounding makes of them."""
    ours = losses["polyreme"]
    for library, others in losses.items():
        for i, (mine, other) in enumerate(zip(ours, others, strict=True)):
            if abs(mine - other) > min(LARGEST_DIFFERENCE * GROWTH**i, MOST) * max(abs(mine), SMALLEST):
                raise SystemExit(f"{name}: expected the losses {ours} of {library} but got {others}")


def measure(
    pythons: dict[str, str], name: str, threads: int, rounds: int, seconds: float
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Milliseconds of a step by library, the tenth percentile of each round's turn; and the MiB of each."""
    # Ours is compiled before, so that its memory is that of a process which trains.
    workers = started("benchmarks.whole_steps", {"polyreme": pythons["polyreme"]}, threads)
    try:
        workers["polyreme"].ask(task=name)
    finally:
        workers["polyreme"].stop()
    workers = started("benchmarks.whole_steps", pythons, threads)
    try:
        check(name, {library: worker.ask(task=name)["losses"] for library, worker in workers.items()})
        taken: dict[str, list[float]] = {library: [] for library in workers}
        mib = {}
        for number in range(rounds + WARM_TURNS):
            for library, worker in workers.items():
                reply = worker.ask(task=name, seconds=seconds)
                mib[library] = reply["mib"]
                if number >= WARM_TURNS:
                    taken[library].append(float(np.percentile(reply["seconds"], 10)) * 1e3)
        return taken, mib
    finally:
        for worker in workers.values():
            worker.stop()


def row(name: str, taken: dict[str, list[float]], mib: dict[str, float]) -> list[str]:
    """A line of the table."""
    figures = [f"{statistics.median(taken[library]):.1f}" if library in taken else "" for library in LIBRARIES]
    peers = [library for library in taken if library != "polyreme"]
    if not peers:
        return [name, *figures, "", "", "", f"{mib['polyreme']:.0f}", ""]
    ratios = sorted(min(others) / ours for ours, *others in zip(taken["polyreme"], *(taken[p] for p in peers), strict=True))
    least = min(mib[library] for library in peers)
    ends = [f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"]
    return [name, *figures, f"{statistics.median(ratios):.2f}", *ends, f"{mib['polyreme']:.0f}", f"{least:.0f}"]


def rows_in(path: Path | None) -> dict[tuple[str, str], list[str]]:
    """The rows of a file, by their threads and net; none where there is no file."""
    if path is None or not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {(threads, net): [net, *figures] for threads, net, *figures in list(csv.reader(file))[1:]}


def append_row(path: Path, threads: int, row: Sequence[str]) -> None:
    """Write a row at the end of a file, which begins with a head."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["threads", *HEAD]] * is_new + [[str(threads), *row]])


def first_steps(pythons: dict[str, str], names: Sequence[str], threads: int) -> list[list[str]]:
    """Seconds of the first step by net and library, in an empty cache and in a full one."""
    rows = []
    for name in names:
        for library, python in pythons.items():
            with tempfile.TemporaryDirectory() as folder:
                found = []
                os.environ |= {"POLYREME_CACHE": f"{folder}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
                for _ in range(2):
                    workers = started("benchmarks.whole_steps", {library: python}, threads)
                    try:
                        found.append(workers[library].ask(task=name))
                    finally:
                        workers[library].stop()
            rows.append([name, library, *(f"{reply['first']:.1f}" for reply in found), *(f"{reply['mib']:.0f}" for reply in found)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle-python", help="a Python that has paddlepaddle")
    parser.add_argument("--torch-python", help="a Python that has torch")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES[1:], default=LIBRARIES[1:], help="the peers")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--into", type=Path, metavar="FILE", help="a CSV file of rows, for what is not in it yet")
    parser.add_argument("--first", action="store_true", help="time first steps")
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], int(options.worker[1]))
        return
    chosen = {name: options.torch_python if name.startswith("torch") else options.paddle_python for name in options.libraries}
    pythons = {"polyreme": sys.executable, **{name: python for name, python in chosen.items() if python}}
    for threads in options.threads:
        print(f"{platform.machine()}, {os.cpu_count()} cores; {threads} threads, {options.rounds} rounds\n")
        if options.first:
            head = ["net", "library", "first s", "first s, cached", "MiB", "MiB, cached"]
            print(table(head, first_steps(pythons, options.nets, threads)), flush=True)
            continue
        rows, known = [], rows_in(options.into)
        for name in options.nets:
            found = known.get((str(threads), name))
            if found is None:
                found = row(name, *measure(pythons, name, threads, options.rounds, options.seconds))
                if options.into is not None:
                    append_row(options.into, threads, found)
            rows.append(found)
            print(f"{threads}: {', '.join(found)}", file=sys.stderr, flush=True)
        print(table(HEAD, rows), flush=True)
        print()


if __name__ == "__main__":
    main()
