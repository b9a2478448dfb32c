"""Latency of Polyreme and its peers on the same weights, interleaved.

    python -m benchmarks.inference --peer-python ../peers/bin/python --markdown docs/benchmarks.md

Each library runs in a process of its own, in rounds: in a round every library is timed for a short turn, one after another, so
that a slow moment of the machine meets them all. Ratios are taken within a round; the median round is reported with the spread. All
results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.models import MODELS
from benchmarks.processes import Worker

PEERS = ("onnxruntime", "paddle")


@dataclass
class Row:
    """One model at one batch and thread count; latencies in microseconds by library."""

    model: str
    batch: int
    threads: int
    p10_us: dict[str, float]
    median_us: dict[str, float]
    best_us: dict[str, float]
    ratio: float
    ratio_low: float
    ratio_high: float
    largest_difference: float


def start(library: str, threads: int, python: str) -> Worker:
    """A library's process, with that many threads."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), POLYREME_THREADS=str(threads))
    return Worker(library, [python, "-m", "benchmarks.workers", library, str(threads)], env)


def percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent))


def measure(name: str, batch: int, threads: int, libraries: dict[str, str], rounds: int, turn: float) -> Row:
    """Time one model at one batch size with every library (name → Python to run it with)."""
    with tempfile.TemporaryDirectory() as scratch:
        _write_shapes(name, Path(scratch))
        workers = {library: start(library, threads, python) for library, python in libraries.items()}
        try:
            first = {lib: w.ask(do="prepare", model=name, batch=batch, folder=scratch) for lib, w in workers.items()}
            outputs = {lib: np.asarray(reply["y"]) for lib, reply in first.items()}
            difference = max(float(np.max(np.abs(outputs["polyreme"] - y)) / np.max(np.abs(y))) for y in outputs.values())
            if difference > 1e-4:
                raise SystemExit(f"{name}, batch {batch}: the libraries disagree by {difference:.2g}")
            timings: dict[str, list[list[float]]] = {lib: [] for lib in workers}
            for _ in range(rounds):
                for lib, worker in workers.items():
                    reply = worker.ask(do="time", seconds=turn)
                    timings[lib].append(reply["seconds"])
        finally:
            for worker in workers.values():
                worker.stop()
    peers = [lib for lib in timings if lib != "polyreme"]
    per_round = {lib: [percentile(turns, 10) for turns in rows] for lib, rows in timings.items()}
    ratios = sorted(min(per_round[p][r] for p in peers) / per_round["polyreme"][r] for r in range(rounds))
    flat = {lib: [s * 1e6 for turns in rows for s in turns] for lib, rows in timings.items()}
    return Row(
        model=name,
        batch=batch,
        threads=threads,
        p10_us={lib: statistics.median(per_round[lib]) * 1e6 for lib in timings},
        median_us={lib: statistics.median(values) for lib, values in flat.items()},
        best_us={lib: min(values) for lib, values in flat.items()},
        ratio=statistics.median(ratios),
        ratio_low=ratios[0],
        ratio_high=ratios[-1],
        largest_difference=difference,
    )


def _write_shapes(name: str, folder: Path) -> None:
    """Parameter shapes by name, so that the ONNX writer needs no framework."""
    import polyreme as paddle

    layer = MODELS[name].build(paddle)
    shapes = {key: list(p.shape) for key, p in layer.state_dict().items()}
    (folder / f"{name}.json").write_text(json.dumps(shapes))


def markdown(rows: Sequence[Row]) -> str:
    """The table of `rows`: tenth percentile of the latency, and best peer / ours (above 1 is ahead)."""
    libraries = list(rows[0].p10_us)
    head = ["model", "batch", "threads", *(f"{lib} µs" for lib in libraries), "best peer / ours", "lowest to highest round"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [row.model, str(row.batch), str(row.threads), *(f"{row.p10_us[lib]:.1f}" for lib in libraries)]
        cells += [f"**{row.ratio:.2f}**", f"{row.ratio_low:.2f} to {row.ratio_high:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 128])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has the peers installed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.3, help="seconds that each library is timed for in a round")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    options = parser.parse_args()
    libraries = {"polyreme": sys.executable, **dict.fromkeys(options.peers, options.peer_python)}
    rows = []
    for name in options.models:
        for batch in options.batches:
            for threads in options.threads:
                rows.append(measure(name, batch, threads, libraries, options.rounds, options.turn))
                print(markdown(rows).splitlines()[-1], flush=True)
    table = markdown(rows)
    print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if options.markdown:
        options.markdown.write_text(f"{table}\n\nMeasured on {platform.processor() or platform.machine()}, {os.cpu_count()} cores.\n")


if __name__ == "__main__":
    main()
