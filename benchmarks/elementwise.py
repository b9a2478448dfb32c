"""Chains of elementwise operations over arrays that no cache holds, as part of what a triad gets from memory.

    python -m benchmarks.elementwise --threads 1 2 --torch ../torch/bin/python --markdown elementwise.md

The triad is z = x + 2 y over arrays of the same size, a kernel of ours at kernel level: vectors, nothing else. numpy and torch compute a
triad too, torch in a process of its own, into arrays that are there already. All of them are timed in turns within a round, so that a slow
moment of the machine meets them all. Bytes are those that have to move: each operand once, each result once. A ratio is a chain's bytes per
second over the triad's in the same round; the median round is reported, with the worst and the best one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import Worker, answer

Array = Any
Call = Callable[[], Any]
TEMPLATE = "| {:34} | {:>7} | {:>10} | {:>8} | {:>20} |"
TYPES = ("float32", "float64")


@dataclass(frozen=True)
class Case:
    """A way to move so many bytes."""

    name: str
    call: Call
    bytes: float


def triad(dtype: str, elements: int) -> Case:
    """z = x + 2 y as a kernel: blocks of vectors for each thread."""
    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Module, Return
    from polyreme.ir.types import BufferType, f32, f64
    from polyreme.lowering.kernels.code import Code
    from polyreme.lowering.machines.targets import host
    from polyreme.lowering.pipeline import compile_module

    scalar, block = {"float32": f32, "float64": f64}[dtype], 1 << 16
    lanes = host().lanes(scalar)
    assert elements % block == 0
    main = Func.empty("main", [BufferType((elements,), scalar)] * 3, arg_names=("x", "y", "z"), arg_roles=("input", "input", "output"))
    code = Code(Builder.at_end(main.block))
    x, y, z = main.args
    with code.parallel(elements // block, grain=1) as task, code.loop(0, block, step=lanes) as loop:
        at = code.add(code.mul(task, block), loop.iv)
        two = code.broadcast(code.constant(2.0, scalar), lanes)
        code.store(code.fma(two, code.load(y, at, lanes), code.load(x, at, lanes)), z, at)
    code.b.insert(Return([]))
    module = Module.empty()
    module.block.append(main.finish())
    run = compile_module(module, name="triad").load().run
    arrays = [np.ones(elements, dtype) for _ in range(2)]
    (first,) = run(arrays)
    assert (first == 3).all()
    # Where the caller has memory for results already, none is asked of the system.
    out = [np.empty(elements, dtype)]
    return Case("triad", lambda: run(arrays, out), 3.0 * elements * arrays[0].itemsize)


def chains(dtype: str, elements: int) -> Iterator[Case]:
    """Chains through the whole compiler, each checked against numpy first."""
    from polyreme.dialects import nn
    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Module, Return
    from polyreme.ir.types import TensorType, f32, f64
    from polyreme.lowering.pipeline import compile_module

    scalar = {"float32": f32, "float64": f64}[dtype]
    shape = (elements // 1024, 1024)
    rng = np.random.default_rng(0)

    def case(name: str, make: Callable[..., Any], reference: Callable[..., Array], shapes: list[tuple[int, ...]]) -> Case:
        arrays = [rng.standard_normal(s).astype(dtype) for s in shapes]
        main = Func.empty("main", [TensorType(s, scalar) for s in shapes], arg_roles=("input",) * len(shapes))
        b = Builder.at_end(main.block)
        b.insert(Return([make(b, *main.args)]))
        module = Module.empty()
        module.block.append(main.finish())
        run = compile_module(module, name="chain").load().run
        (made,) = run(arrays)
        np.testing.assert_allclose(made[:4], reference(*(a[:4] if a.ndim > 1 else a for a in arrays)), rtol=1e-5, atol=1e-5)
        out = [np.empty(shape, dtype)]
        return Case(name, lambda: run(arrays, out), float(sum(a.nbytes for a in arrays) + out[0].nbytes))

    whole, row = shape, (1024,)
    yield case("relu(x + y)", lambda b, x, y: b(nn.Relu, b(nn.Add, x, y)), lambda x, y: np.maximum(x + y, 0), [whole, whole])
    yield case(
        "relu(x * s + t) + y, s and t rows",
        lambda b, x, y, s, t: b(nn.Add, b(nn.Relu, b(nn.Add, b(nn.Mul, x, s), t)), y),
        lambda x, y, s, t: np.maximum(x * s + t, 0) + y,
        [whole, whole, row, row],
    )
    yield case("x * x, clipped below", lambda b, x: b(nn.Relu, b(nn.Mul, x, x)), lambda x: np.maximum(x * x, 0), [whole])
    yield case(
        "(x + y) * (x - z)", lambda b, x, y, z: b(nn.Mul, b(nn.Add, x, y), b(nn.Sub, x, z)), lambda x, y, z: (x + y) * (x - z), [whole] * 3
    )
    yield case("x * sigmoid(x)", lambda b, x: b(nn.Mul, x, b(nn.Sigmoid, x)), lambda x: x / (1 + np.exp(-x)), [whole])
    yield case("tanh(x + t)", lambda b, x, t: b(nn.Tanh, b(nn.Add, x, t)), lambda x, t: np.tanh(x + t), [whole, row])


def numpy_triad(dtype: str, elements: int) -> Case:
    x, y, z = (np.ones(elements, dtype) for _ in range(3))

    def call() -> None:
        # Two passes: numpy has no fused one.
        np.multiply(y, 2, out=z)
        np.add(z, x, out=z)

    return Case("triad in numpy", call, 3.0 * x.nbytes)


def torch_worker(threads: int) -> None:
    """A process that times torch's triad."""
    import torch

    torch.set_num_threads(threads)
    kept: dict[str, Any] = {}

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "elements" in request:
            kept["xyz"] = [torch.ones(request["elements"], dtype=getattr(torch, request["dtype"])) for _ in range(3)]
            return {}
        x, y, z = kept["xyz"]
        return {"p10": p10(lambda: torch.add(x, y, alpha=2, out=z), request["seconds"])}

    answer(handle)


def p10(call: Call, seconds: float) -> float:
    """The tenth percentile of calls for so many seconds, three at least."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.percentile(times, 10))


def measure(dtype: str, elements: int, threads: int, rounds: int, turn: float, torch: Worker | None) -> Iterator[str]:
    """A line of the table for each case."""
    from polyreme.runtime.threads import set_num_threads

    set_num_threads(threads)
    base = triad(dtype, elements)
    cases = [base, numpy_triad(dtype, elements), *chains(dtype, elements)]
    speeds: dict[str, list[float]] = {case.name: [] for case in cases}
    if torch is not None:
        torch.ask(dtype=dtype, elements=elements)
        speeds["triad in torch"] = []
    for _ in range(rounds):
        for case in cases:
            speeds[case.name].append(case.bytes / p10(case.call, turn))
        if torch is not None:
            speeds["triad in torch"].append(base.bytes / torch.ask(seconds=turn)["p10"])
    for name, made in speeds.items():
        ratios = sorted(one / most for one, most in zip(made, speeds[base.name], strict=True))
        of_triad = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        yield TEMPLATE.format(name, dtype, threads, f"{statistics.median(made) / 1e9:.1f}", of_triad)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--worker", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--megabytes", type=int, default=64, help="size of each array; several times the last cache")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.05, help="seconds for each case in each round")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if options.worker:
        torch_worker(options.worker)
        return
    table = [TEMPLATE.format("chain", "type", "threads", "GB/s", "of the triad"), "|---|---|--:|--:|--:|"]
    print(*table, sep="\n")
    for threads in options.threads:
        torch = Worker("torch", [options.torch, "-m", "benchmarks.elementwise", "--worker", str(threads)]) if options.torch else None
        try:
            for dtype in options.types:
                for line in measure(
                    dtype, (options.megabytes << 20) // np.dtype(dtype).itemsize, threads, options.rounds, options.turn, torch
                ):
                    table.append(line)
                    print(line, flush=True)
        finally:
            if torch is not None:
                torch.stop()
    if options.markdown:
        options.markdown.write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
