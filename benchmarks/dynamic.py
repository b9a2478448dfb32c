"""What sizes that are not known when a model is compiled cost: one executable for any batch, length or image beside one for the very size.

    python -m benchmarks.dynamic --threads 1 --models resnet18 "bert-base 128" --markdown table.md
    python -m benchmarks.dynamic --sweep                     # the same executable for many sizes, each beside one that was made for it

Both are made in one process from the same weights, their results are compared, and calls are timed in turns; a ratio is of one round's
tenth percentiles, and the median round is given with its spread. Above 1, the known size is faster.
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
from benchmarks.zoo import MODELS, draw_weights, load_weights
from polyreme.compiled.executables import load_module
from polyreme.compiled.inspection import model_module
from polyreme.runtime.threads import set_num_threads

# Of one output's largest value: the two may cut their sums differently.
LARGEST_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Case:
    """A model at one batch size, and the axes of its input that are left open. `sweep` are other sizes that these axes may all have."""

    model: str
    batch: int
    axes: tuple[int, ...]
    what: str
    sweep: tuple[int, ...] = ()

    def shape(self, size: int | None) -> list[int]:
        """The input's shape, its open axes being `size` (None: the model's own)."""
        ((_, shape, _),) = MODELS[self.model].shapes(self.batch)
        return [size if size is not None and axis in self.axes else n for axis, n in enumerate(shape)]


BATCHES, LENGTHS, PIXELS = (9, 16, 33, 100), (9, 16, 33, 64, 100, 197, 256, 384), (96, 128, 160, 192, 225, 256, 320)
CASES = (
    Case("resnet18", 16, (0,), "batch", BATCHES),
    Case("resnet50", 16, (0,), "batch"),
    Case("mobilenet_v2", 16, (0,), "batch", BATCHES),
    Case("mlp 784-512-512-10", 128, (0,), "batch", BATCHES),
    Case("bert-base 128", 1, (1,), "length", LENGTHS),
    Case("bert-base 384", 1, (1,), "length"),
    Case("lstm 256x64", 1, (1,), "length", LENGTHS),
    Case("lstm 256x64", 16, (0, 1), "batch and length"),
    Case("resnet18", 1, (2, 3), "height and width", PIXELS),
    Case("mobilenet_v2", 1, (2, 3), "height and width", PIXELS),
    Case("mobilenet_v2", 1, (3,), "width", PIXELS),
    Case("mobilenet_v3_large", 1, (2, 3), "height and width", PIXELS),
    Case("resnet50", 1, (2, 3), "height and width", PIXELS),
)


def network(case: Case) -> Any:
    """The model with its weights."""
    layer = MODELS[case.model].build(paddle)
    return load_weights(layer, draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()}), paddle)


def executable(layer: Any, shape: Sequence[int | None]) -> Any:
    """The executable for an input of this shape, whose sizes may be open."""
    return load_module(model_module(layer, [paddle.static.InputSpec(list(shape), "float32", "x")], freeze=True))


def turn(run: Any, inputs: Sequence[Any], seconds: float) -> float:
    """The tenth percentile of the calls of a turn, at least three."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run(inputs)
        taken.append(time.perf_counter() - start)
    return float(np.percentile(taken, 10))


def measure(case: Case, layer: Any, free: Any, size: int | None, seconds: float, rounds: int) -> list[Any]:
    """A row of the table: `free` beside an executable for `size` (None: the model's own)."""
    shape = case.shape(size)
    known, inputs = executable(layer, shape), [np.random.default_rng(1).standard_normal(shape, np.float32)]
    for expected, result in zip(known.run(inputs), free.run(inputs)):
        difference = float(np.max(np.abs(expected - result)) / np.max(np.abs(expected)))
        if difference > LARGEST_DIFFERENCE:
            raise SystemExit(f"{case.model}: expected results within {LARGEST_DIFFERENCE} but they differ by {difference:.2g}")
    times = [(turn(known.run, inputs, seconds), turn(free.run, inputs, seconds)) for _ in range(rounds)]
    ratios = [b / a for a, b in times]
    found = [statistics.median(column) * 1e3 for column in zip(*times)]
    return [
        case.model,
        "x".join(map(str, shape)),
        case.what,
        f"{found[0]:.4g}",
        f"{found[1]:.4g}",
        f"**{statistics.median(ratios):.2f}**",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(dict.fromkeys(case.model for case in CASES)),
        choices=list(dict.fromkeys(case.model for case in CASES)),
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn, three calls at least")
    parser.add_argument("--sweep", action="store_true", help="other sizes, too")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    options = parser.parse_args()
    set_num_threads(options.threads)
    rows = []
    for case in CASES:
        if case.model in options.models:
            layer = network(case)
            free = executable(layer, [None if axis in case.axes else n for axis, n in enumerate(case.shape(None))])
            for size in (None, *(case.sweep if options.sweep else ())):
                rows.append(measure(case, layer, free, size, options.seconds, options.rounds))
                print(*rows[-1], flush=True)
    made = table(["model", "input", "open", "known, ms", "open, ms", "open / known", "lowest to highest round"], rows)
    if options.markdown:
        options.markdown.write_text(made + "\n")
    print(made)


if __name__ == "__main__":
    main()
