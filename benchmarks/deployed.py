"""Nets as people deploy them, beside Paddle Inference: the same files, loaded as they were saved, on the same inputs, in turns.

    python benchmarks/deployed_models.py FOLDER                       # with Paddle's Python
    python -m benchmarks.deployed FOLDER --paddle ../paddle/bin/python [--threads 1 2] [--only NAME ...]

For each file and size: whether results of the library agree with Paddle's (1e-4 of the largest value; integers are equal), the library's
size, seconds that compiling took in an empty cache, peak memory of that, and latencies, whose ratio is Paddle's over ours.
"""

from __future__ import annotations

import argparse
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
    from polyreme.runtime.library import load_compiled

    library = Path(tempfile.mkdtemp()) / "net.so"
    start = time.perf_counter()
    command = [sys.executable, "-m", "polyreme", "compile", "-q", file, "-o", str(library)]
    subprocess.run(command, check=True, env=dict(os.environ, POLYREME_CACHE=tempfile.mkdtemp()))
    facts = {
        "compile_s": time.perf_counter() - start,
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


def serve(library: str, file: str, threads: int) -> None:
    """Answer lines: `facts`, then for each `time CASE` the seconds of a call in one turn; `check CASE` says how far results are off."""
    cases = cases_of(Path(file))
    run, facts = (ours if library == "ours" else paddle)(file, threads)
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


def measure(file: Path, python: str, threads: int) -> list[dict[str, Any]]:
    """A row for each size of one file."""
    workers: dict[str, Worker | None] = {}
    for name, interpreter in (("ours", sys.executable), ("paddle", python)):
        try:
            workers[name] = Worker(interpreter, name, file, threads)
        except RuntimeError:
            workers[name] = None
    rows = []
    try:
        for number, (arrays, _) in enumerate(cases_of(file)):
            row: dict[str, Any] = {"file": file.name, "threads": threads, "sizes": " ".join("x".join(map(str, a.shape)) for a in arrays)}
            seconds: dict[str, list[float]] = {name: [] for name in workers}
            for name, worker in workers.items():
                if worker is None:
                    continue
                try:
                    row[f"{name}_off"] = worker.ask(f"check {number}")
                    row |= worker.facts
                except (RuntimeError, OSError):
                    # It does not run the file.
                    worker.close()
                    workers[name] = None
            for _ in range(TURNS):
                for name, worker in workers.items():
                    if worker is not None:
                        seconds[name].append(worker.ask(f"time {number}"))
            row |= {f"{name}_ms": 1000 * statistics.median(s) for name, s in seconds.items() if s}
            if "ours_ms" in row and "paddle_ms" in row:
                row["ratio"] = row["paddle_ms"] / row["ours_ms"]
            rows.append(row)
    finally:
        for worker in workers.values():
            if worker is not None:
                worker.close()
    return rows


def shown(row: dict[str, Any]) -> str:
    wrong = "" if row.get("ours_off", float("inf")) <= TOLERANCE else "  WRONG"
    text = f"{row['file']:28} {row['threads']} {row['sizes']:26}"
    for key, form in (
        ("ours_off", "off {:.0e}"), ("library_kib", "{:.0f} KiB"), ("compile_s", "compiled {:.1f} s"), ("compile_mib", "{:.0f} MiB"),
        ("ours_ms", "{:.3f} ms"), ("paddle_ms", "Paddle {:.3f} ms"), ("ratio", "{:.2f} times"),
    ):  # fmt: skip
        text += "  " + (form.format(row[key]) if key in row else "-")
    return text + ("  (Paddle without oneDNN, which fails)" if "onednn" in row else "") + wrong


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--paddle", required=True, metavar="PYTHON", help="a Python with PaddlePaddle")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    files = sorted([*given.folder.glob("*.json"), *given.folder.glob("*.pdmodel")])
    rows = []
    for file in files:
        if given.only and file.stem not in given.only:
            continue
        for threads in given.threads:
            for row in measure(file, given.paddle, threads):
                rows.append(row)
                print(shown(row), flush=True)
    (given.folder / "figures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
