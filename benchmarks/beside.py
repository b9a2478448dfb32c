"""Cases of one operation by Polyreme and its peers, interleaved: what `benchmarks.products` and `benchmarks.convolutions` have in common.

Every library runs in a process of its own, in the Python that has it. All of them are timed in turns of a few milliseconds, in another
order each round, so that a slow moment of the machine meets them all: many short turns, since such moments last from milliseconds to
seconds. A turn begins with a call that is not counted, and gives the tenth percentile of its calls. For each peer, the ratio is the median
over the rounds of its time over ours, and the peer of the smallest one is the best; it is reported with its quartiles. (The fastest peer of
each round would be another one each time: whichever met a quiet moment.) The peak of multiply-adds is measured in our own process, in the
same rounds. Before anything is timed, all results are compared with the reference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.processes import Worker, answer

Array = Any
Call = Callable[[], Any]
# Seconds between turns with more than one thread: those of the library that had one may wait for more work on a core for a while, before
# they sleep.
PAUSE = 0.02
# How far a result may be off, relative to the largest one.
LARGEST_ERROR = {"float32": 1e-5, "float64": 1e-12}


class Case(Protocol):
    """What is computed."""

    @property
    def name(self) -> str:
        """Different from that of all other cases."""

    @property
    def dtype(self) -> str:
        """float32 or float64."""

    @property
    def operations(self) -> float:
        """Additions and multiplications of the plain way."""

    def reference(self) -> Array:
        """The result in float64."""


# Makes what is timed: a call that gives the result. None for a case that the library cannot do.
Prepare = Callable[[Any, int, Path], Call | None]


@dataclass(frozen=True)
class Suite:
    """A benchmark: the module that has it, for its workers; its cases; and its libraries by name, `polyreme` the first one."""

    module: str
    cases: Callable[[], Iterable[Case]]
    libraries: Mapping[str, Prepare]
    about: str
    # Cases that the mean part of the peak is taken of.
    counted: Callable[[str], bool] = lambda name: True

    def template(self, first: int) -> str:
        """A line of the table whose first column is so many characters wide."""
        return f"| {{:{first}}} |" + " {:>16} |" * len(self.libraries) + " {:>7} | {:>17} |"


# --- callers of peers


def polyreme_call(main: Any, inputs: Sequence[Array], threads: int) -> Call:
    """Our function `main`, compiled in this process."""
    from polyreme.ir.builtin import Module
    from polyreme.lowering.pipeline import compile_module
    from polyreme.runtime.threads import set_num_threads

    set_num_threads(threads)
    module = Module.empty()
    module.block.append(main)
    executable = compile_module(module, name="case").load()
    # Results lie where they lay before, as with the peers.
    out = executable.run(inputs)
    return lambda: executable.run(inputs, out)[0]


def onnxruntime_call(path: Path, inputs: dict[str, Array], shape: Sequence[int], threads: int) -> Call:
    """ONNX Runtime with all its optimisations, on inputs and on an output `y` of this shape that stay where they are."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    out = np.empty(shape, next(iter(inputs.values())).dtype)
    binding.bind_output("y", "cpu", 0, out.dtype.type, out.shape, out.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return out

    return call


def openvino_call(path: Path, inputs: dict[str, Array], threads: int, channels_last: bool = False) -> Call:
    """OpenVINO in its latency mode, in float32, on tensors that stay where they are; with `channels_last` inputs and the output are [batch,
    *sizes, channels] where the model says [batch, channels, *sizes].
    """
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    if channels_last:
        given = ov.preprocess.PrePostProcessor(model)
        axes = "DHW"[5 - next(iter(inputs.values())).ndim :]
        for place in (*(given.input(name) for name in inputs), given.output()):
            place.tensor().set_layout(ov.Layout(f"N{axes}C"))
            place.model().set_layout(ov.Layout(f"NC{axes}"))
        model = given.build()
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    kept = {name: ov.Tensor(array, shared_memory=True) for name, array in inputs.items()}
    for name, tensor in kept.items():
        request.set_tensor(name, tensor)
    output = request.get_output_tensor(0)

    def call() -> Array:
        request.infer()
        return output.data

    call.kept = kept  # type: ignore[attr-defined]
    return call


def without_gradients(call: Call) -> Call:
    """A call of torch's."""
    import torch

    torch.set_grad_enabled(False)
    return call


def write_onnx(path: Path, nodes: Sequence[Any], arrays: Mapping[str, Array], inputs: Sequence[str], shape: Sequence[int]) -> None:
    """A model of ONNX nodes that give `y`, of this shape; those of the arrays that are no inputs are its weights."""
    import onnx
    from onnx import helper, numpy_helper

    initializers = [numpy_helper.from_array(v, name) for name, v in arrays.items() if name not in inputs]
    kind = helper.np_dtype_to_tensor_dtype(arrays[inputs[0]].dtype)
    infos = [helper.make_tensor_value_info(name, kind, arrays[name].shape) for name in inputs]
    graph = helper.make_graph(list(nodes), "case", infos, [helper.make_tensor_value_info("y", kind, shape)], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))


# --- workers


def work(suite: Suite, library: str, threads: int, folder: Path) -> None:
    """A worker: prepares cases, then times the one asked for."""
    if library.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
    cases = {case.name: case for case in suite.cases()}
    calls: dict[str, Call] = {}
    seconds: list[float] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "peak":
            from benchmarks.kernels import peak
            from polyreme.ir.types import f32, f64

            made = peak(f64 if request["dtype"] == "float64" else f32)
            calls["peak " + request["dtype"]] = made.call
            return {"operations": made.operations}
        if request["do"] == "prepare":
            case = cases[request["name"]]
            prepared = suite.libraries[library](case, threads, folder)
            if prepared is None:
                return {"error": None}
            calls[case.name] = prepared
            y, want = np.asarray(prepared()), case.reference()
            return {"error": float(np.abs(y - want).max() / np.abs(want).max())}
        if request["do"] == "forget":
            calls.pop(request["name"], None)
            return {}
        call = calls[request["name"]]
        if threads > 1:
            time.sleep(PAUSE)
        call()
        seconds.clear()
        end = time.perf_counter() + request["seconds"]
        while not seconds or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return {"p10": float(np.percentile(seconds, 10))}

    answer(handle)


# --- the benchmark


@dataclass
class Row:
    """One case: microseconds by library (the median round's), our part of the peak, and the best peer's time over ours: the median round's,
    and the quartiles.
    """

    name: str
    threads: int
    operations: float
    us: dict[str, float]
    of_peak: float
    ratio: float
    ratio_low: float
    ratio_high: float


def measure(case: Case, workers: dict[str, Worker], threads: int, rounds: int, turn: float) -> Row:
    """Compare the results of all libraries, then time them in turns."""
    able = []
    for library, worker in workers.items():
        error = worker.ask(do="prepare", name=case.name)["error"]
        if error is not None:
            able.append(library)
            limit = LARGEST_ERROR[case.dtype]
            if not error <= limit:
                raise SystemExit(
                    f"expected {library} to agree within {limit} of the largest result for {case.name} but it is off by {error:.1e}"
                )
    times: dict[str, list[float]] = {library: [] for library in able}
    peaks: list[float] = []
    for _ in range(rounds):
        peaks.append(workers["polyreme"].ask(do="time", name=f"peak {case.dtype}", seconds=turn / 2)["p10"])
        for library in random.sample(able, len(able)):
            times[library].append(workers[library].ask(do="time", name=case.name, seconds=turn)["p10"])
    for library in able:
        workers[library].ask(do="forget", name=case.name)
    flops = workers["polyreme"].ask(do="peak", dtype=case.dtype)["operations"]
    parts = [case.operations / ours / (threads * flops / p) for ours, p in zip(times["polyreme"], peaks, strict=True)]
    us = {library: statistics.median(values) * 1e6 for library, values in times.items()}
    ratios = [np.divide(times[p], times["polyreme"]) for p in able if p != "polyreme"] or [np.full(rounds, np.nan)]
    low, ratio, high = np.percentile(min(ratios, key=np.median), (25, 50, 75))
    return Row(case.name, threads, case.operations, us, statistics.median(parts), float(ratio), float(low), float(high))


def _line(template: str, row: Row, libraries: Iterable[str]) -> str:
    us = [f"{row.us[x]:.1f}" if x in row.us else "" for x in libraries]
    ratio = f"{row.ratio:.2f} ({row.ratio_low:.2f}-{row.ratio_high:.2f})" if len(row.us) > 1 else ""
    return template.format(row.name, *us, f"{row.of_peak:.0%}", ratio)


def run(suite: Suite) -> None:
    """The command line of a suite: for the user, and for the workers that it starts."""
    parser = argparse.ArgumentParser(description=suite.about)
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--turn", type=float, default=0.008, help="seconds for each library in each round")
    parser.add_argument("--only", default="", help="cases whose names contain one of these words, divided by commas")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--peers", help="a Python that has onnxruntime, openvino and onnx")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(suite, options.worker[0], options.threads, Path(options.worker[1]))
        return
    pythons = {x: sys.executable if x == "polyreme" else options.torch if x.startswith("torch") else options.peers for x in suite.libraries}
    pythons = {library: python for library, python in pythons.items() if python}
    chosen = [c for c in suite.cases() if any(word in c.name for word in options.only.split(","))]
    template = suite.template(max(len(c.name) for c in chosen))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        workers = {}
        for library, python in pythons.items():
            folder = Path(scratch) / library
            folder.mkdir()
            env = dict(os.environ, OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))
            command = [python, "-m", suite.module, "--threads", str(options.threads), "--worker", library, str(folder)]
            workers[library] = Worker(library, command, env)
        try:
            for dtype in {case.dtype for case in chosen}:
                workers["polyreme"].ask(do="peak", dtype=dtype)
            head = template.format(f"microseconds, {options.threads} threads", *suite.libraries, "of peak", "best / ours")
            table = [head, "|---|" + "--:|" * (len(suite.libraries) + 2)]
            print(*table, sep="\n")
            for case in chosen:
                rows.append(measure(case, workers, options.threads, options.rounds, options.turn))
                table.append(_line(template, rows[-1], suite.libraries))
                print(table[-1], flush=True)
        finally:
            for worker in workers.values():
                worker.stop()
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text("\n".join(table) + "\n")
    counted = [r.of_peak for r in rows if suite.counted(r.name)]
    if counted:
        print(f"\nmean part of the peak, of {len(counted)} cases: {statistics.mean(counted):.1%}")
    if len(pythons) > 1:
        print(f"at or above the best peer: {sum(r.ratio >= 1 for r in rows)} of {len(rows)}")
