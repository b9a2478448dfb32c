"""The same models compiled for several machines, and whether they give the same answers.

    python -m benchmarks.targets --models LeNet resnet18 --targets x86-64 x86-64-avx2 aarch64 --markdown targets.md

Each model is compiled to a library for each target, as `paddle.compile` does. A small C program (`run_library.c`) runs it on files: on this
machine where the processor can, else under `qemu-user`, with a C compiler for the target; a module of WebAssembly runs in Node. What is
compared with is the eager result in float32 on this machine; a difference is told in terms of the largest value of the output.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inference import table
from benchmarks.zoo import MODELS, Model, draw_inputs, draw_weights, load_weights

Array = Any
PROGRAM = Path(__file__).with_name("run_library.c")
MODULES = Path(__file__).parents[1] / "runtime" / "wasm" / "run_module.mjs"
PATIENCE_SECONDS = 600


class NotHere(Exception):
    """What is missing on this machine to run code for a target."""


@dataclass(frozen=True)
class Outcome:
    """What a library for one target gave: its outputs, and seconds that compiling and running took (a run with its start and its files)."""

    outputs: list[Array]
    compile_s: float
    run_s: float


def runner_for(target: str) -> list[str]:
    """The command that runs a library for `target`, to which `LIBRARY NAME THREADS FOLDER` are added; `NotHere` says what is missing."""
    from polyreme.compiled.compilation import runs_here
    from polyreme.lowering.machines.targets import find_target

    found = find_target(target)
    if found.arch == "wasm32":
        if shutil.which("node") is None:
            raise NotHere("node is not installed")
        return ["node", str(MODULES)]
    if runs_here(found):
        return [str(_program("cc"))]
    emulator, compiler, root = f"qemu-{found.arch}", f"{found.arch}-linux-gnu-gcc", Path(f"/usr/{found.arch}-linux-gnu")
    for tool in (emulator, compiler):
        if shutil.which(tool) is None:
            raise NotHere(f"{tool} is not installed")
    if not root.is_dir():
        raise NotHere(f"there is no C library for {found.arch} in {root}")
    processor = ["-cpu", "rv64,v=true,vlen=128"] if "+v" in found.features.split(",") else []
    return [emulator, *processor, "-L", str(root), str(_program(compiler))]


def suffix_for(target: str) -> str:
    """That of a library's file for `target`."""
    return ".wasm" if target.startswith("wasm") else ".so"


@cache
def _program(compiler: str) -> Path:
    """`run_library.c`, compiled; kept for the life of this process."""
    if shutil.which(compiler) is None:
        raise NotHere(f"{compiler} is not installed")
    folder = tempfile.TemporaryDirectory(prefix="polyreme-run-library-")
    _folders.append(folder)
    made = Path(folder.name) / "run_library"
    subprocess.run([compiler, "-O1", str(PROGRAM), "-ldl", "-o", str(made)], check=True)
    return made


_folders: list[tempfile.TemporaryDirectory[str]] = []


def run_library(command: Sequence[str], library: Path, inputs: Sequence[Array], threads: int = 1) -> list[Array]:
    """The outputs of a compiled library, run by `command` (of `runner_for`) in a process of its own on files."""
    from polyreme.runtime.wasm.module import run_on_files

    done, outputs = run_on_files(
        [*command, str(library.resolve()), library.name.split(".")[0], str(threads)], inputs, timeout=PATIENCE_SECONDS
    )
    if done.returncode:
        raise RuntimeError(f"{library.name} ended with code {done.returncode}: {done.stderr.strip()[-2000:]}")
    return outputs


def compile_and_run(net: Any, spec: Sequence[Any] | None, inputs: Sequence[Array], target: str, folder: Path, threads: int = 1) -> Outcome:
    """A Layer, function or module as a library for `target`, run on `inputs`."""
    import polyreme as paddle

    command = runner_for(target)
    library = folder / f"net_{target.replace('-', '_').replace('.', '_')}{suffix_for(target)}"
    start = time.perf_counter()
    paddle.compile(net, library, target=target, input_spec=spec)
    compiled = time.perf_counter()
    outputs = run_library(command, library, inputs, threads)
    return Outcome(outputs, compiled - start, time.perf_counter() - compiled)


def difference(given: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference in terms of the largest value of its output; nan where one has nan or another shape."""
    worst = 0.0
    for x, y in zip(given, expected, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or x.dtype != y.dtype:
            return float("nan")
        if y.size:
            wide = np.complex128 if y.dtype.kind == "c" else np.float64
            off = np.abs(x.astype(wide) - y.astype(wide)).max() / max(np.abs(y.astype(wide)).max(), 1e-30)
            worst = float("nan") if np.isnan(off) else max(worst, float(off))
    return worst


# --- the models of the benchmark


def _bert2(paddle: Any) -> Any:
    """Two layers of BERT-base's encoder."""
    nn = paddle.nn
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu"), 2)


CASES: dict[str, Model] = {**MODELS, "bert 2 layers": Model("bert 2 layers", _bert2, (("x", (32, 768), "float32"),))}


def drawn(model: Model, batch: int) -> tuple[Any, list[Any], list[Array], list[Array]]:
    """A Layer with weights, its input specs, inputs, and what it gives eagerly."""
    import polyreme as paddle

    layer = model.build(paddle)
    load_weights(layer, draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()}), paddle)
    spec = [paddle.static.InputSpec(shape, dtype, name) for name, shape, dtype in model.shapes(batch)]
    inputs = list(draw_inputs(model, batch).values())
    with paddle.no_grad():
        results = layer(*(paddle.to_tensor(x) for x in inputs))
    outputs = results if isinstance(results, list | tuple) else [results]
    return layer, spec, inputs, [y.numpy() for y in outputs]


def compare(names: Sequence[str], targets: Sequence[str], threads: int, tell: Callable[[str], None] = print) -> list[Mapping[str, Any]]:
    """A row per model: its name and batch, and per target the largest difference and seconds, or why there is none."""
    rows: list[Mapping[str, Any]] = []
    for name in names:
        layer, spec, inputs, expected = drawn(CASES[name], 1)
        row: dict[str, Any] = {"model": name}
        for target in targets:
            with tempfile.TemporaryDirectory(prefix="polyreme-targets-") as folder:
                try:
                    made = compile_and_run(layer, spec, inputs, target, Path(folder), threads)
                    row[target] = {"difference": difference(made.outputs, expected), "compile_s": made.compile_s, "run_s": made.run_s}
                except (NotHere, RuntimeError, subprocess.TimeoutExpired) as error:
                    row[target] = {"fault": str(error)}
            tell(f"{name} for {target}: {row[target]}")
        rows.append(row)
    return rows


def markdown(rows: Sequence[Mapping[str, Any]], targets: Sequence[str]) -> str:
    """Models by targets: the largest difference, or the fault."""

    def cell(found: Mapping[str, Any]) -> str:
        return found["fault"] if "fault" in found else f"{found['difference']:.1e}"

    return table(["model", *targets], [[row["model"], *(cell(row[t]) for t in targets)] for row in rows])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=list(CASES), metavar="MODEL")
    parser.add_argument("--targets", nargs="+", default=["x86-64", "x86-64-avx2", "aarch64"])
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--markdown", type=Path, help="write the table there")
    options = parser.parse_args()
    rows = compare(options.models, options.targets, options.threads, lambda line: print(line, flush=True))
    text = markdown(rows, options.targets)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
