"""Speed of single matrix products and convolutions, as part of the machine's peak.

    python -m benchmarks.kernels --threads 1 --seconds 0.5

The peak is measured too, by a kernel of independent multiply-adds on one core. All cases are timed in turns, so that a slow moment of the
machine meets them all; the tenth percentile is reported.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.types import BufferType, ScalarType, TensorType, f32, f64
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.microkernel import Registers
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.threads import set_num_threads

# Rounds of multiply-adds in one call, so many that the call itself does not count.
ROUNDS = 100_000


@dataclass
class Case:
    """One kernel: its name, the call to time, and its floating-point operations."""

    name: str
    call: Callable[[], Any]
    operations: float


def peak(dtype: ScalarType) -> Case:
    """The most multiply-adds that one core does."""
    registers = Registers.of(host(), dtype)
    # Independent chains, enough to hide the latency of multiply-adds; more of them than registers would be kept in memory.
    lanes, chains = registers.lanes, registers.accumulators
    main = Func.empty("main", [BufferType((lanes,), dtype)] * 2, arg_names=("x", "y"), arg_roles=("input", "output"))
    code = Code(Builder.at_end(main.block))
    x = code.load(main.args[0], 0, lanes)
    with code.loop(0, ROUNDS, [x] * chains) as loop:
        loop.next = [code.fma(x, x, acc) for acc in loop.carried]
    total = loop.results[0]
    for acc in loop.results[1:]:
        total = code.apply("add", total, acc)
    code.store(total, main.args[1], 0)
    code.b.insert(Return([]))
    run = _compiled(main.finish())
    array = np.zeros(lanes, dtype.np)
    return Case(f"peak {dtype}", lambda: run([array]), 2.0 * chains * ROUNDS * lanes)


def product(m: int, k: int, n: int, dtype: ScalarType = f32, constant: bool = True, transposed: bool = False) -> Case:
    """x [m, k] times w [k, n]: w known when compiled, or an argument (then it may be transposed)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, k)).astype(dtype.np)
    w = rng.standard_normal((n, k) if transposed else (k, n)).astype(dtype.np)
    inputs = [x] if constant else [x, w]
    main = Func.empty(
        "main", [TensorType(a.shape, dtype) for a in inputs], arg_names=("x", "w")[: len(inputs)], arg_roles=("input",) * len(inputs)
    )
    b = Builder.at_end(main.block)
    weights = b(nn.Constant, value=w) if constant else main.args[1]
    b.insert(Return([b(nn.MatMul, main.args[0], weights, transpose_y=transposed)]))
    run = _compiled(main.finish())
    words = ["constant" if constant else "argument", *(["transposed"] if transposed else [])]
    return Case(f"matmul {m}x{k}x{n} {dtype} {' '.join(words)}", lambda: run(inputs), 2.0 * m * k * n)


def convolution(batch: int, channels: int, size: int, out: int, taps: int, stride: int = 1, pad: int = 0, groups: int = 1) -> Case:
    """A square convolution with bias and relu."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, channels, size, size)).astype(np.float32)
    w = rng.standard_normal((out, channels // groups, taps, taps)).astype(np.float32)
    main = Func.empty("main", [TensorType(x.shape, f32)], arg_names=("x",), arg_roles=("input",))
    b = Builder.at_end(main.block)
    bias = b(nn.Constant, value=rng.standard_normal(out).astype(np.float32))
    numbers = {"strides": (stride,) * 2, "padding": (pad,) * 4, "dilations": (1, 1), "groups": groups}
    y = b(nn.Conv, main.args[0], b(nn.Constant, value=w), bias, **numbers)
    b.insert(Return([b(nn.Relu, y)]))
    run = _compiled(main.finish())
    places = (size + 2 * pad - taps) // stride + 1
    name = (
        f"conv {batch}x{channels}x{size}x{size} to {out}, {taps}x{taps}"
        + (f" stride {stride}" if stride > 1 else "")
        + (f" groups {groups}" if groups > 1 else "")
    )
    return Case(name, lambda: run([x]), 2.0 * batch * out * places**2 * w[0].size)


def _compiled(main: Func) -> Callable[[list[Any]], Any]:
    module = Module.empty()
    module.block.append(main)
    executable = compile_module(module, name="bench").load()
    run: Callable[[list[Any]], Any] = executable.run
    return run


def cases() -> Iterator[Case]:
    """Squares, the layers of LeNet and of an MLP, some of BERT's and ResNet's."""
    yield product(512, 512, 512)
    yield product(512, 512, 512, constant=False)
    yield product(512, 512, 512, dtype=f64)
    yield product(512, 512, 512, constant=False, transposed=True)
    for shape in (
        (128, 784, 512),
        (128, 512, 512),
        (128, 512, 10),
        (128, 400, 120),
        (1, 784, 512),
        (1, 512, 512),
        (128, 768, 768),
        (128, 3072, 768),
    ):
        yield product(*shape)
    yield convolution(128, 1, 28, 6, 3, pad=1)
    yield convolution(128, 6, 14, 16, 5)
    yield convolution(1, 64, 56, 64, 3, pad=1)
    yield convolution(1, 128, 28, 128, 3, pad=1)
    yield convolution(1, 256, 14, 256, 3, pad=1)
    yield convolution(1, 512, 7, 512, 3, pad=1)
    yield convolution(1, 64, 56, 256, 1)
    yield convolution(1, 3, 224, 64, 7, stride=2, pad=3)
    yield convolution(1, 64, 56, 64, 3, pad=1, groups=64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each case")
    options = parser.parse_args()
    timed = [peak(f32), peak(f64), *cases()]
    set_num_threads(options.threads)
    seconds: dict[str, list[float]] = {case.name: [] for case in timed}
    rounds = 10
    for _ in range(rounds):
        for case in timed:
            end = time.perf_counter() + options.seconds / rounds
            while time.perf_counter() < end:
                start = time.perf_counter()
                case.call()
                seconds[case.name].append(time.perf_counter() - start)
    best = {case.name: case.operations / float(np.percentile(seconds[case.name], 10)) / 1e9 for case in timed}
    print(f"{'':60}{'us':>10}{'GFLOP/s':>10}{'of peak':>9}")
    for case in timed:
        top = best["peak f64" if "f64" in case.name else "peak f32"] * (1 if case.name.startswith("peak") else options.threads)
        print(f"{case.name:60}{np.percentile(seconds[case.name], 10) * 1e6:10.1f}{best[case.name]:10.1f}{best[case.name] / top:9.0%}")


if __name__ == "__main__":
    main()
