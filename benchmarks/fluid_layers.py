"""Functions of `fluid.layers` beside Paddle 1.8.5, and beside Paddle 3.3.1 where that has them.

    python -m benchmarks.fluid_layers --paddle-185 ../p185/bin/python --paddle-331 ../peers/bin/python

Sequences, of which 32 are fed at once, have 1 to 60 rows; four patterns of lengths take turns. Ours and 1.8.5 run the same program by
`Executor.run`; 3.3.1 runs its function at once. Each library has a process and a thread of its own, and all take turns in rounds. A figure
is the time of the processor, so that other work on the machine counts less: the median over the rounds of a turn's tenth percentile, and as
ratio the best peer's over ours, the median round with the spread. Above 1 is ahead. Before anything is timed, results are compared by their
sums of squares, and gradients but for those in which 1.8.5 is known to be wrong (`docs/fluid.md`).
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import statistics
import sys
from pathlib import Path

import numpy as np

from benchmarks.fluid_tasks import TASKS
from benchmarks.processes import Worker
from benchmarks.tables import table

WARM = 2  # rounds that are not counted
LARGEST_DIFFERENCE = 1e-3  # of a sum of squares, relative
# Tasks of which 1.8.5 has other gradients than differences of the loss give.
OTHER_GRADIENTS = {"dynamic_lstm of 128 and its gradients"}
HEAD = ["case", "polyreme_us", "paddle_185_us", "paddle_331_us", "ratio", "lowest", "highest"]


def measure(task: str, workers: dict[str, Worker], rounds: int, seconds: float) -> list[str]:
    """The cells of a row."""
    sums = {name: worker.ask(do="prepare", task=task)["sums"] for name, worker in workers.items()}
    able = [name for name, made in sums.items() if made is not None]
    for name in able[1:]:
        for ours, theirs in zip(sums["polyreme"], sums[name], strict=True):
            count = 1 if task in OTHER_GRADIENTS else min(len(ours), len(theirs))
            if not np.allclose(ours[:count], theirs[:count], rtol=LARGEST_DIFFERENCE):
                raise SystemExit(f"{task}: expected results of these sums of squares, {ours}, but {name} has {theirs}")
    taken: dict[str, list[float]] = {name: [] for name in able}
    for number in range(WARM + rounds):
        for name in able:
            found = workers[name].ask(do="time", task=task, seconds=seconds)["seconds"]
            if number >= WARM:
                taken[name].append(float(np.percentile(found, 10)) * 1e6)
    ratios = sorted(min(peers) / ours for ours, *peers in zip(*taken.values(), strict=True)) if len(able) > 1 else [float("nan")]
    figures = [f"{statistics.median(taken[name]):.0f}" if name in taken else "" for name in ("polyreme", "paddle 1.8.5", "paddle 3.3.1")]
    return [task, *figures, f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle-185", help="a Python that has paddlepaddle 1.8.5")
    parser.add_argument("--paddle-331", help="a Python that has paddlepaddle 3.3.1")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--only", default="", help="tasks whose names contain one of these words, divided by commas")
    parser.add_argument("--csv", type=Path, help="the file that rows are added to")
    parser.add_argument("--machine", default="", help="what the file calls this machine")
    options = parser.parse_args()
    pythons = {"polyreme": sys.executable, "paddle 1.8.5": options.paddle_185, "paddle 3.3.1": options.paddle_331}
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "POLYREME_THREADS": "1", "CPU_NUM": "1"}
    workers = {
        name: Worker(name, [python, "-m", "benchmarks.fluid_tasks", name], {**os.environ, **one, "GLOG_minloglevel": "3"})
        for name, python in pythons.items() if python
    }  # fmt: skip
    rows = []
    try:
        for task in TASKS:
            if any(word in task for word in options.only.split(",")):
                rows.append(measure(task, workers, options.rounds, options.seconds))
                print(*rows[-1], sep=", ", file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.stop()
    print(table(HEAD, rows))
    if options.csv:
        fresh = not options.csv.exists()
        with options.csv.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([["machine", "date", "threads", *HEAD]] * fresh)
            writer.writerows([options.machine, datetime.date.today().isoformat(), 1, *row] for row in rows)


if __name__ == "__main__":
    main()
