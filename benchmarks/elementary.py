"""Elementary functions of Polyreme and torch on the same numbers: how fast, interleaved, and how exact.

    python -m benchmarks.elementary --type float64 --torch ../torch/bin/python --markdown elementary.md

Each library runs in a process of its own on one thread, on arrays that fit in the second-level cache, and is timed in turns; a turn gives
its tenth percentile. The ratio is torch's time over ours within a round, the median round with the spread. Errors are the largest in ulp of
the result (of gelu: of the operand) over 4 million arguments of float32 against float64, or over 1 million of float64 against numpy's
functions of `longdouble` (where those are longer; not of erf and gelu).
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import Worker, answer

Array = Any
# Elements that lie in the second-level cache with their results, and those whose errors are looked at.
COUNT = {"float32": 1 << 16, "float64": 1 << 15}
SAMPLES = {"float32": 1 << 22, "float64": 1 << 20}
# Each with the range that arguments are drawn from.
RANGES = {
    "exp": (-80, 80), "expm1": (-10, 80), "log": (1e-30, 100), "log1p": (-0.99, 100), "log2": (1e-30, 100), "log10": (1e-30, 100),
    "tanh": (-10, 10), "sigmoid": (-80, 80), "erf": (-5, 5), "gelu": (-8, 8),
    "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100), "asin": (-1, 1), "acos": (-1, 1), "atan": (-10, 10), "sinh": (-20, 20),
    "cosh": (-20, 20),
    "rsqrt": (1e-3, 100), "pow": (1e-3, 10),
}  # fmt: skip
EXACT: dict[str, Callable[..., Array]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: np.where(x >= 0, np.ones_like(x), np.exp(x)) / (1 + np.exp(-np.abs(x))),
    "erf": lambda x: np.frompyfunc(math.erf, 1, 1)(x).astype(np.float64),
    "gelu": lambda x: x / 2 * np.frompyfunc(math.erfc, 1, 1)(x * -math.sqrt(0.5)).astype(np.float64),
}  # fmt: skip


def arguments(name: str, count: int, dtype: str) -> list[Array]:
    low, high = RANGES[name]
    x = np.random.default_rng(0).uniform(low, high, count).astype(dtype)
    return [x, np.random.default_rng(1).uniform(-8, 8, count).astype(dtype)] if name == "pow" else [x]


# --- workers


def polyreme_function(name: str, count: int, dtype: str) -> Callable[[list[Array]], Array]:
    """One map as a kernel."""
    from polyreme.dialects import tensor
    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Module, Return
    from polyreme.ir.types import TensorType, f32, f64
    from polyreme.lowering.pipeline import compile_module

    types = [TensorType((count,), {"float32": f32, "float64": f64}[dtype])] * len(arguments(name, 1, dtype))
    main = Func.empty("main", types, arg_roles=("input",) * len(types))
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Map, *main.args, fn=name)]))
    module = Module.empty()
    module.block.append(main.finish())
    executable = compile_module(module).load()
    return lambda arrays: executable.run(arrays)[0]


def torch_function(name: str, count: int, dtype: str) -> Callable[[list[Array]], Array]:
    """The function of torch, into memory that is there already where torch takes it."""
    import torch

    torch.set_num_threads(1)
    out = torch.empty(count, dtype=getattr(torch, dtype))

    def call(arrays: list[Array]) -> Array:
        operands = [torch.from_numpy(x) for x in arrays]
        with torch.inference_mode():
            return torch.nn.functional.gelu(operands[0]) if name == "gelu" else getattr(torch, name)(*operands, out=out)

    return call


def work(library: str) -> None:
    """Answer `{"name", "type", "seconds"}` by the tenth percentile in seconds, `{"name", "type", "error"}` by the largest error in ulp."""
    make = polyreme_function if library == "polyreme" else torch_function
    if library == "polyreme":
        from polyreme.runtime.threads import set_num_threads

        set_num_threads(1)
    made: dict[tuple[str, int, str], Callable[[list[Array]], Array]] = {}

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        name, dtype = request["name"], request["type"]
        count = (SAMPLES if "error" in request else COUNT)[dtype]
        key = (name, count, dtype)
        if key not in made:
            made[key] = make(*key)
        call = made[key]
        arrays = arguments(*key)
        if "error" in request:
            return {"error": largest_error(name, arrays, np.asarray(call(arrays)))}
        call(arrays)
        times = []
        end = time.perf_counter() + request["seconds"]
        while time.perf_counter() < end or len(times) < 10:
            start = time.perf_counter()
            for _ in range(4):
                call(arrays)
            times.append((time.perf_counter() - start) / 4)
        return {"seconds": float(np.percentile(times, 10))}

    answer(handle)


def largest_error(name: str, arrays: list[Array], got: Array) -> float:
    """In ulp; nan where there is nothing longer to compare with."""
    dtype = got.dtype
    wide = np.float64 if dtype == np.float32 else np.longdouble
    if wide is np.longdouble and (name in ("erf", "gelu") or np.finfo(wide).eps > 1e-18):
        return math.nan
    with np.errstate(all="ignore"):
        exact = EXACT.get(name, getattr(np, name, None))(*(x.astype(wide) for x in arrays))  # type: ignore[misc]
        unit = np.spacing(np.abs(arrays[0] if name == "gelu" else exact.astype(dtype)))
        error = np.abs(got.astype(wide) - exact) / unit
    return float(error[np.isfinite(error)].max())


# --- the benchmark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default=sys.executable, help="the Python that has torch installed")
    parser.add_argument("--type", choices=list(COUNT), default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.05, help="seconds of a turn")
    parser.add_argument("--functions", nargs="*", default=list(RANGES), choices=list(RANGES))
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker)
        return
    workers = {
        library: Worker(library, [python, "-m", "benchmarks.elementary", "--worker", library])
        for library, python in (("polyreme", sys.executable), ("torch", args.torch))
    }
    lines = [
        "| function | polyreme, 10⁹/s | torch, 10⁹/s | torch / ours | lowest to highest round | our error, ulp | torch's |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    try:
        for name in args.functions:
            rounds = [
                {library: worker.ask(name=name, type=args.type, seconds=args.turn)["seconds"] for library, worker in workers.items()}
                for _ in range(args.rounds)
            ]
            errors = {library: worker.ask(name=name, type=args.type, error=True)["error"] for library, worker in workers.items()}
            ratios = sorted(r["torch"] / r["polyreme"] for r in rounds)
            speed = {library: COUNT[args.type] / statistics.median(r[library] for r in rounds) / 1e9 for library in workers}
            low, middle, high = ratios[0], statistics.median(ratios), ratios[-1]
            figures = f"{speed['polyreme']:.2f} | {speed['torch']:.2f} | **{middle:.2f}** | {low:.2f} to {high:.2f}"
            lines.append(f"| {name} | {figures} | {errors['polyreme']:.2f} | {errors['torch']:.2f} |".replace("nan", "–"))
            print(lines[-1], flush=True)
    finally:
        for worker in workers.values():
            worker.stop()
    if args.markdown:
        args.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
