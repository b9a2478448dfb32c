"""Nets as people deploy them, beside Paddle Inference, ONNX Runtime and OpenVINO: the same files on the same inputs, in turns.

    python benchmarks/deployed_models.py FOLDER                       # with Paddle's Python
    python -m benchmarks.deployed FOLDER --paddle ../paddle/bin/python [--peers ../peers/bin/python] [--converter ../onnx/bin/python]
                                         [--threads 1 2] [--only NAME ...] [--csv FILE --machine NAME]

Ours and Paddle read the file as it was saved. OpenVINO reads a `.pdmodel` itself; for a `.json`, and for ONNX Runtime, the converter
(a Python with paddle2onnx) writes FILE.onnx beside it. A peer that cannot convert, load or run a file, or is off by more than the
tolerance, has no time in that row, and the row says which.

For each file and size: whether results agree with Paddle's (1e-4 of the largest value; integers are equal), the library's size, seconds
that compiling took in an empty cache, peak memory of that, and latencies. The ratio is the best peer's over ours.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-4
TURNS, SECONDS = 7, 0.15

Arrays = Sequence[Any]
Run = Callable[[Arrays], Arrays]


# --- in the process of one library


def ours(file: str, threads: int) -> tuple[Run, dict[str, Any]]:
    """The file as a native library, compiled here."""
    import polyreme
    from polyreme.runtime.library import load_compiled

    # An installed package has its bytecode; in a checkout Python would compile the compiler itself first, each time where it may not keep
    # what it makes.
    environment = dict(os.environ, POLYREME_CACHE=tempfile.mkdtemp())
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-m", "compileall", "-q", *polyreme.__path__], check=True, env=environment)
    library = Path(tempfile.mkdtemp()) / "net.so"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "polyreme", "compile", "-q", file, "-o", str(library)], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = {
        "compile_s": time.perf_counter() - start,
        "compile_cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "compile_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "library_kib": library.stat().st_size / 1024,
    }
    return load_compiled(library, threads=threads).run, facts


def paddle(file: str, threads: int) -> tuple[Run, dict[str, Any]]:
    """The file in Paddle Inference, with the passes of its own choice; without oneDNN where it cannot run the file."""
    arrays = cases_of(Path(file))[0][0]
    run = _predictor(file, threads, True)
    try:
        run(arrays)
    except NotImplementedError:
        run = _predictor(file, threads, False)
        run(arrays)
        return run, {"onednn": False}
    return run, {}


def _predictor(file: str, threads: int, onednn: bool) -> Run:
    import paddle.inference as inference

    config = inference.Config(file, str(Path(file).with_suffix(".pdiparams")))
    config.disable_gpu()
    config.set_cpu_math_library_num_threads(threads)
    config.disable_glog_info()
    if not onednn:
        config.disable_mkldnn()
    predictor = inference.create_predictor(config)
    inputs = [predictor.get_input_handle(name) for name in predictor.get_input_names()]
    outputs = [predictor.get_output_handle(name) for name in predictor.get_output_names()]

    def run(arrays: Arrays) -> Arrays:
        for handle, array in zip(inputs, arrays, strict=True):
            handle.copy_from_cpu(array)
        predictor.run()
        return [handle.copy_to_cpu() for handle in outputs]

    return run


def onnxruntime(file: str, threads: int) -> tuple[Run, dict[str, Any]]:
    """The converted file in ONNX Runtime, with all its rewrites."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    session = ort.InferenceSession(file + ".onnx", options, providers=["CPUExecutionProvider"])
    names = input_names(Path(file))
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True))), {}


def openvino(file: str, threads: int) -> tuple[Run, dict[str, Any]]:
    """The file, or what it was converted to, in OpenVINO; in float32, since it would take bfloat16 where the processor has it."""
    import openvino as ov

    core = ov.Core()
    options = {"INFERENCE_NUM_THREADS": str(threads), "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(file if file.endswith(".pdmodel") else file + ".onnx", "CPU", options)
    request = compiled.create_infer_request()
    names, slots = input_names(Path(file)), compiled.outputs

    def run(arrays: Arrays) -> Arrays:
        results = request.infer(dict(zip(names, arrays, strict=True)), share_inputs=True, share_outputs=True)
        return [results[slot] for slot in slots]

    return run, {}


LIBRARIES = {f.__name__: f for f in (ours, paddle, onnxruntime, openvino)}


def serve(library: str, file: str, threads: int) -> None:
    """Answer lines: `facts`, then for each `time CASE` the seconds of a call in one turn; `check CASE` says how far results are off."""
    cases = cases_of(Path(file))
    run, facts = LIBRARIES[library](file, threads)
    answer(facts)
    for line in sys.stdin:
        what, number = line.split()
        arrays, expected = cases[int(number)]
        if what == "check":
            answer(difference(run(arrays), expected))
            continue
        calls, start = 0, time.perf_counter()
        while not calls or time.perf_counter() - start < SECONDS:
            run(arrays)
            calls += 1
        answer((time.perf_counter() - start) / calls)


def answer(value: Any) -> None:
    # Libraries print lines of their own, too.
    print("@@" + json.dumps(value), flush=True)


def input_names(file: Path) -> list[str]:
    return [key.removeprefix("0/in/") for key in np.load(file.with_suffix(".npz")).files if key.startswith("0/in/")]


def cases_of(file: Path) -> list[tuple[list[Any], list[Any]]]:
    """The inputs and Paddle's results, for each size."""
    kept = np.load(file.with_suffix(".npz"))
    count = 1 + max(int(key.split("/")[0]) for key in kept.files)
    return [tuple([kept[k] for k in kept.files if k.startswith(f"{i}/{kind}/")] for kind in ("in", "out")) for i in range(count)]  # type: ignore[misc]


def difference(found: Arrays, expected: Arrays) -> float:
    """The largest difference of all results in terms of the largest element of each; infinite where shapes, kinds or integers differ."""
    if len(found) != len(expected):
        return float("inf")
    worst = 0.0
    for made, wanted in zip(found, expected, strict=True):
        made = np.asarray(made)
        if made.shape != wanted.shape or made.dtype.kind != wanted.dtype.kind:
            return float("inf")
        off = np.abs(made.astype(float) - wanted.astype(float)).max(initial=0.0)
        if wanted.dtype.kind == "f":
            off /= max(float(np.abs(wanted).max(initial=0.0)), 1e-30)
        elif off:
            return float("inf")
        worst = max(worst, float(off))
    return worst


# --- both of them in turns


class Worker:
    """A library in a process of its own."""

    def __init__(self, python: str, library: str, file: Path, threads: int):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), GLOG_minloglevel="3", POLYREME_THREADS=str(threads))
        command = [python, "-W", "ignore", __file__, "--serve", library, str(file), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.facts = self._answer()

    def ask(self, line: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@@"):
                return json.loads(line[2:])
        raise RuntimeError("the process ended")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def convert(file: Path, python: str) -> None:
    """Write FILE.onnx, where there is none; nothing where paddle2onnx refuses the file or dies of it."""
    if not Path(f"{file}.onnx").exists():
        text = (
            "import sys, paddle2onnx; model, weights, onnx = sys.argv[1:]; "
            "paddle2onnx.export(model, weights, save_file=onnx, opset_version=19, verbose=False, enable_onnx_checker=False)"
        )
        command = [python, "-W", "ignore", "-c", text, str(file), str(file.with_suffix(".pdiparams")), f"{file}.onnx"]
        path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(command, check=False, capture_output=True, timeout=300, env=dict(os.environ, PATH=path))


def measure(file: Path, pythons: dict[str, str], threads: int) -> list[dict[str, Any]]:
    """A row for each size of one file; `pythons` says what runs each library."""
    workers: dict[str, Worker] = {}
    for name, python in pythons.items():
        try:
            workers[name] = Worker(python, name, file, threads)
        except RuntimeError:
            continue
    rows = []
    try:
        for number, (arrays, _) in enumerate(cases_of(file)):
            row: dict[str, Any] = {"file": file.name, "threads": threads, "sizes": " ".join("x".join(map(str, a.shape)) for a in arrays)}
            timed = []
            for name, worker in list(workers.items()):
                try:
                    row[f"{name}_off"] = worker.ask(f"check {number}")
                    row |= worker.facts
                    if name in ("ours", "paddle") or row[f"{name}_off"] <= TOLERANCE:
                        timed.append(name)
                except (RuntimeError, OSError):
                    # It does not run the file.
                    workers.pop(name).close()
            seconds: dict[str, list[float]] = {name: [] for name in timed}
            for _ in range(TURNS):
                for name in timed:
                    seconds[name].append(workers[name].ask(f"time {number}"))
            row |= {f"{name}_ms": 1000 * statistics.median(s) for name, s in seconds.items()}
            row["missing"] = [name for name in pythons if name not in timed]
            peers = [row[f"{name}_ms"] for name in timed if name != "ours"]
            if "ours_ms" in row and peers:
                row["ratio"] = min(peers) / row["ours_ms"]
            rows.append(row)
    finally:
        for worker in workers.values():
            worker.close()
    return rows


def why_missing(row: dict[str, Any], name: str) -> str:
    return f"{name} is off" if f"{name}_off" in row else f"{name} does not run it"


def shown(row: dict[str, Any]) -> str:
    wrong = "" if row.get("ours_off", float("inf")) <= TOLERANCE else "  WRONG"
    text = f"{row['file']:28} {row['threads']} {row['sizes']:26}"
    for key, form in (
        ("ours_off", "off {:.0e}"), ("library_kib", "{:.0f} KiB"),
        ("compile_s", "compiled {:.1f} s"), ("compile_cpu_s", "{:.1f} s of processors"), ("compile_mib", "{:.0f} MiB"),
        ("ours_ms", "{:.3f} ms"), ("paddle_ms", "Paddle {:.3f} ms"), ("onnxruntime_ms", "ONNX Runtime {:.3f} ms"),
        ("openvino_ms", "OpenVINO {:.3f} ms"), ("ratio", "{:.2f} times"),
    ):  # fmt: skip
        text += "  " + (form.format(row[key]) if key in row else "-")
    notes = [why_missing(row, name) for name in LIBRARIES if name in row["missing"]]
    if "onednn" in row:
        notes.append("Paddle without oneDNN, which fails")
    return text + (f"  ({'; '.join(notes)})" if notes else "") + wrong


def record(rows: Sequence[dict[str, Any]], path: Path, machine: str) -> None:
    """The rows as a file of results that tables are made of."""
    columns = {
        "largest_difference": ("ours_off", "{:.0e}"), "library_kib": ("library_kib", "{:.0f}"), "compile_s": ("compile_s", "{:.1f}"),
        "compile_mib": ("compile_mib", "{:.0f}"), "ours_ms": ("ours_ms", "{:.3f}"), "paddle_ms": ("paddle_ms", "{:.3f}"),
        "onnxruntime_ms": ("onnxruntime_ms", "{:.3f}"), "openvino_ms": ("openvino_ms", "{:.3f}"), "ratio": ("ratio", "{:.2f}"),
    }  # fmt: skip
    with path.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["machine", "date", "threads", "file", "sizes", *columns, "paddle"])
        for row in rows:
            first = [machine, datetime.date.today().isoformat(), row["threads"], row["file"], row["sizes"]]
            cells = [form.format(row[key]) if key in row else "" for key, form in columns.values()]
            table.writerow([*first, *cells, "without oneDNN" if "onednn" in row else ""])


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--paddle", required=True, metavar="PYTHON", help="a Python with PaddlePaddle")
    parser.add_argument("--peers", metavar="PYTHON", help="a Python with onnxruntime and openvino")
    parser.add_argument("--converter", metavar="PYTHON", help="a Python with paddle2onnx")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows there, for the tables of the pages")
    parser.add_argument("--machine", default="", help="what the rows call this machine")
    given = parser.parse_args()
    pythons = {"ours": sys.executable, "paddle": given.paddle}
    if given.peers:
        pythons |= {"onnxruntime": given.peers, "openvino": given.peers}
    files = sorted([*given.folder.glob("*.json"), *given.folder.glob("*.pdmodel")])
    rows = []
    for file in files:
        if given.only and file.stem not in given.only:
            continue
        if given.converter:
            convert(file, given.converter)
        for threads in given.threads:
            for row in measure(file, pythons, threads):
                rows.append(row)
                print(shown(row), flush=True)
    (given.folder / "figures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if given.csv:
        record(rows, given.csv, given.machine)


if __name__ == "__main__":
    main()
