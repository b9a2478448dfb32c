"""Libraries in processes of their own on one model, timed in turns.

In each lap every library has a turn after the others, once in this order and once in the other, so that a slow moment of the machine meets
them all; a round has several laps. What a library's turns of a round took counts as the tenth percentile of their calls; a ratio is that of
the fastest peer to ours within a round, and the median round is reported with the spread. Before anything is timed, results are compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.ir.diagnostics import PolyremeError

OURS = "polyreme"
OURS_IN_FLOAT32 = "polyreme_float32"  # beside a quantised model: no peer
PEERS = ("onnxruntime", "openvino", "torch", "paddle")
RUNNER = Path(__file__).with_name("runner.py")
# Relative to the largest value of an output: other orders of summation, but the same model.
LARGEST_DIFFERENCE = 1e-4
# Rounds whose ratios lie further apart than this share of their median are not to be relied on.
LARGEST_SPREAD = 0.15


class LibraryError(PolyremeError):
    """A library that cannot run the model, or whose process ended."""

    code = "E0011"


class DifferentResults(LibraryError):
    """A library whose results are not those that it is compared with."""

    code = "E0006"


class Worker:
    """A library's process."""

    def __init__(self, library: str, threads: int, python: str = sys.executable):
        self.library = library
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(
            [python, str(RUNNER), library, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )

    def ask(self, patience: float = 600.0, **request: Any) -> dict[str, Any]:
        """What the worker answers to a request within `patience` seconds; `LibraryError` says what it could not do, or what it printed last
        if it has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        watch = threading.Timer(patience, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""  # it ended before it read the request
        finally:
            watch.cancel()
        if not line:
            _, errors = self.process.communicate()
            raise LibraryError(f"the process of '{self.library}' ended: {errors[-2000:].strip()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise LibraryError(f"'{self.library}' does not run the model: {reply['error']}")
        return reply

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Latency:
    """Seconds of one library: the best call, the tenth percentile (median over rounds), the median of all calls; and what came before."""

    best: float
    p10: float
    median: float
    calls: int
    compile_s: float
    first_s: float
    peak_mib: float
    difference: float
    notes: list[str] = field(default_factory=list)


@dataclass
class Comparison:
    """The latencies by library, and for each round the ratio of the fastest peer to ours (none without peers). `faults` says what libraries
    could not do.
    """

    latencies: dict[str, Latency]
    ratios: list[float] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Of the median round; above 1 is ahead of the best peer."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> float:
        """How far the rounds lie apart, as a share of the median."""
        return (max(self.ratios) - min(self.ratios)) / self.ratio


class Race:
    """Libraries (name → Python to run it with) that are ready to be timed on the files in `folder`, each in a process of its own; a context
    that ends them.

    Results are compared with `reference`, or else with Paddle's if it takes part, or else with ours. A peer that cannot run the model is
    left out, and so is one whose results differ; for Polyreme both are errors. `within` is how far results may differ.
    """


    def __init__(
        self,
        folder: Path,
        libraries: Mapping[str, str],
        threads: int,
        cache: Path,
        reference: Sequence[Any] | None = None,
        within: float = LARGEST_DIFFERENCE,
    ):
        self.workers: dict[str, Worker] = {}
        self.faults: dict[str, str] = {}
        self.prepared: dict[str, dict[str, Any]] = {}
        try:
            for library, python in libraries.items():
                self.workers[library] = Worker(library, threads, python)
                try:
                    self.prepared[library] = self.workers[library].ask(do="prepare", folder=str(folder), cache=str(cache / library))
                except LibraryError as error:
                    self._leave_out(library, error)
            self.differences = _differences(folder, list(self.workers), reference)
            for library, difference in self.differences.items():
                if difference > within:
                    fault = f"expected results of '{library}' within {within:g} but they differ by {difference:.2g}"
                    self._leave_out(library, DifferentResults(fault))
        except BaseException:
            self.stop()
            raise

    def run(self, seconds: float = 0.3, rounds: int = 5, laps: int = 1) -> Comparison:
        """Time the libraries in `rounds` of `laps` each, in which every one has a turn of about `seconds`."""
        calls: dict[str, list[list[float]]] = {library: [[] for _ in range(rounds)] for library in self.workers}
        for lap in range(rounds * laps):
            for library in list(self.workers)[:: -1 if lap % 2 else 1]:
                calls[library][lap // laps] += self.workers[library].ask(do="time", seconds=seconds)["seconds"]
        return _summary(calls, self.prepared, self.differences, self.faults)

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.stop()
        self.workers.clear()

    def __enter__(self) -> Race:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _leave_out(self, library: str, error: LibraryError) -> None:
        self.workers.pop(library).stop()
        if library == OURS:
            raise error
        self.faults[library] = error.message


def compare(
    folder: Path,
    libraries: Mapping[str, str],
    threads: int,
    cache: Path,
    seconds: float = 0.3,
    rounds: int = 5,
    reference: Sequence[Any] | None = None,
) -> Comparison:
    """One race from start to end, as `Race` and its `run` say."""
    with Race(folder, libraries, threads, cache, reference) as race:
        return race.run(seconds, rounds)


def _summary(
    rounds: Mapping[str, list[list[float]]],
    prepared: Mapping[str, dict[str, Any]],
    differences: Mapping[str, float],
    faults: dict[str, str],
) -> Comparison:
    p10 = {library: [float(np.percentile(one, 10)) for one in found] for library, found in rounds.items()}
    made = Comparison({}, faults=faults)
    for library, found in rounds.items():
        calls = [seconds for one in found for seconds in one]
        made.latencies[library] = Latency(
            min(calls),
            statistics.median(p10[library]),
            statistics.median(calls),
            len(calls),
            **prepared[library],
            difference=differences[library],
        )
    peers = [library for library in rounds if library not in (OURS, OURS_IN_FLOAT32)]
    if peers and OURS in rounds:
        made.ratios = [min(p10[peer][i] for peer in peers) / ours for i, ours in enumerate(p10[OURS])]
    return made


def _differences(folder: Path, libraries: Sequence[str], reference: Sequence[Any] | None) -> dict[str, float]:
    """The largest difference of each library's results, relative to the largest value of the output."""
    found = {}
    for library in libraries:
        with np.load(folder / f"outputs_{library}.npz") as stored:
            found[library] = [stored[key] for key in stored.files]
    if reference is None:
        reference = found["paddle" if "paddle" in found else OURS]
    return {library: max(map(_difference, outputs, reference)) for library, outputs in found.items()}


def _difference(result: Any, expected: Any) -> float:
    if result.shape != expected.shape:
        return float("inf")
    return float(np.max(np.abs(result - expected), initial=0) / max(float(np.max(np.abs(expected), initial=0)), 1e-30))
