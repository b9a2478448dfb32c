"""What sizes that are not known when a model is compiled cost: one executable for any batch, length or image beside one for the very size.

    python -m benchmarks.dynamic --threads 1 --models resnet18 "bert-base 128" --markdown table.md

Both are made in one process from the same weights, their results are compared, and calls are timed in turns; a ratio is of one round's tenth percentiles, and the median round is given with its
spread. Above 1, the known size is faster.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import polyreme as paddle
from benchmarks.tables import table
from benchmarks.zoo import MODELS, draw_inputs, draw_weights, load_weights
from polyreme.executables import load_module
from polyreme.inspection import model_module
from polyreme.runtime.threads import set_num_threads

# Of one output's largest value: the two may cut their sums differently.
LARGEST_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Case:
    """A model at one batch size, and the axes of its first input that are left open."""

    model: str
    batch: int
    axes: tuple[int, ...]
    what: str


CASES = (
    Case("resnet18", 16, (0,), "batch"),
    Case("resnet50", 16, (0,), "batch"),
    Case("mobilenet_v2", 16, (0,), "batch"),
    Case("mlp 784-512-512-10", 128, (0,), "batch"),
    Case("bert-base 128", 1, (1,), "length"),
    Case("bert-base 384", 1, (1,), "length"),
    Case("lstm 256x64", 1, (1,), "length"),
    Case("lstm 256x64", 16, (0, 1), "batch and length"),
    Case("resnet18", 1, (2, 3), "height and width"),
    Case("mobilenet_v2", 1, (2, 3), "height and width"),
)


def executables(case: Case) -> tuple[Any, Any, list[Any]]:
    """The executable for the very sizes, the one for any, and inputs."""
    model = MODELS[case.model]
    layer = model.build(paddle)
    load_weights(layer, draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()}), paddle)
    made = []
    for open_axes in ((), case.axes):
        shapes = [([None if i in open_axes else size for i, size in enumerate(shape)], dtype, name) for name, shape, dtype in model.shapes(case.batch)]
        specs = [paddle.static.InputSpec(shape, dtype, name) for shape, dtype, name in shapes]
        made.append(load_module(model_module(layer, specs, freeze=True)))
    return made[0], made[1], list(draw_inputs(model, case.batch).values())


def turn(run: Any, inputs: Sequence[Any], seconds: float) -> float:
    """The tenth percentile of the calls of a turn, at least three."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run(inputs)
        taken.append(time.perf_counter() - start)
    return float(np.percentile(taken, 10))


def measure(case: Case, seconds: float, rounds: int) -> list[Any]:
    """A row of the table."""
    known, free, inputs = executables(case)
    for expected, result in zip(known.run(inputs), free.run(inputs)):
        difference = float(np.max(np.abs(expected - result)) / np.max(np.abs(expected)))
        if difference > LARGEST_DIFFERENCE:
            raise SystemExit(f"{case.model}: expected results within {LARGEST_DIFFERENCE} but they differ by {difference:.2g}")
    times = [(turn(known.run, inputs, seconds), turn(free.run, inputs, seconds)) for _ in range(rounds)]
    ratios = [b / a for a, b in times]
    found = [statistics.median(column) * 1e3 for column in zip(*times)]
    return [case.model, case.batch, case.what, f"{found[0]:.4g}", f"{found[1]:.4g}", f"**{statistics.median(ratios):.2f}**", f"{min(ratios):.2f} to {max(ratios):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(dict.fromkeys(case.model for case in CASES)), choices=list(dict.fromkeys(case.model for case in CASES)))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn, three calls at least")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    options = parser.parse_args()
    set_num_threads(options.threads)
    rows = []
    for case in CASES:
        if case.model in options.models:
            rows.append(measure(case, options.seconds, options.rounds))
            print(*rows[-1], flush=True)
    made = table(["model", "batch", "open", "known, ms", "open, ms", "open / known", "lowest to highest round"], rows)
    if options.markdown:
        options.markdown.write_text(made + "\n")
    print(made)


if __name__ == "__main__":
    main()
