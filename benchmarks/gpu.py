"""Kernels and networks on a GPU beside torch, on the same arrays, in turns.

    python -m benchmarks.gpu --markdown gpu.md            # needs a device, pycuda and a torch built for it, all in one environment
    python -m benchmarks.gpu --cases "softmax" "matmul 1024" --rounds 5
    python -m benchmarks.gpu --rounds 3 --turn 0.05 --minutes 6 --markdown gpu.md      # what fits into six minutes, the table case by case

Everything lies on the device before it is timed and stays there: what is measured are kernels and their launches, between events of the
device. A case's results are compared first. A round gives each library a turn of some tenths of a second, whose median counts; the ratio
(torch's time over ours, so above 1 is ahead) is taken within a round, and the median round is shown with the lowest and the highest. torch
runs op by op, float32 without tf32, since ours rounds as float32 does. The last column is the rate of arithmetic or of memory that ours
reached; the first rows are what the device gives at most: a copy, and torch's largest products.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tables import table
from benchmarks.zoo import MODELS, draw_inputs, draw_weights, load_weights

Array = np.ndarray[Any, Any]
Turn = Callable[[float], list[float]]  # milliseconds of each call made in so many seconds
Tensors = Sequence[Any]


class Case(NamedTuple):
    """An expression on arrays for each library, what it costs at least, and how far results may be apart (of the largest value)."""

    ours: str
    torch: str
    shapes: dict[str, tuple[int, ...]]
    operations: float = 0.0
    bytes: float = 0.0
    dtype: str = "float32"
    within: float = 1e-4
    # What ours is compiled for; by default what the device runs best.
    target: str = ""


def elementwise(ours: str, torch: str) -> Case:
    return Case(ours, torch, {"x": (1 << 26,)}, bytes=2 * 4 * (1 << 26))


def rows(ours: str, torch: str, count: int = 16384, width: int = 4096, kept: bool = True) -> Case:
    return Case(ours, torch, {"x": (count, width)}, bytes=(2 if kept else 1) * 4 * count * width)


def matmul(m: int, k: int, n: int, dtype: str = "float32", target: str = "") -> Case:
    return Case(
        "paddle.matmul(x, y)",
        "torch.matmul(x, y)",
        {"x": (m, k), "y": (k, n)},
        2.0 * m * k * n,
        dtype=dtype,
        within=1e-4 if dtype == "float32" else 2e-2,
        target=target,
    )


def convolution(batch: int, channels: int, size: int, filters: int, kernel: int, dtype: str = "float32") -> Case:
    text = f"F.conv2d(x, y, padding={kernel // 2})"
    shapes = {"x": (batch, channels, size, size), "y": (filters, channels, kernel, kernel)}
    operations = 2.0 * batch * channels * size * size * filters * kernel * kernel
    return Case(text, text, shapes, operations, dtype=dtype, within=1e-4 if dtype == "float32" else 2e-2)


def attention(dtype: str, causal: bool = False, length: int = 2048) -> Case:
    """Heads in front: [batch, heads, length, depth]."""
    batch, heads, depth = 8, 12, 64
    turned = [f"{name}.transpose([0, 2, 1, 3])" for name in "xyz"]
    return Case(
        f"F.scaled_dot_product_attention({', '.join(turned)}, is_causal={causal}).transpose([0, 2, 1, 3])",
        f"F.scaled_dot_product_attention(x, y, z, is_causal={causal})",
        dict.fromkeys("xyz", (batch, heads, length, depth)),
        4.0 * batch * heads * length**2 * depth / (2 if causal else 1),
        dtype=dtype,
        within=1e-4 if dtype == "float32" else 2e-2,
    )


CASES = {
    "x * 2 + 1, relu": elementwise("F.relu(x * 2 + 1)", "F.relu(x * 2 + 1)"),
    "gelu": elementwise("F.gelu(x)", "F.gelu(x)"),
    "tanh": elementwise("paddle.tanh(x)", "torch.tanh(x)"),
    "sum": Case("x.sum()", "x.sum()", {"x": (1 << 26,)}, bytes=4 * (1 << 26)),
    "sum, rows": rows("x.sum(-1)", "x.sum(-1)", kept=False),
    "sum, columns": rows("x.sum(0)", "x.sum(0)", kept=False),
    "softmax": rows("F.softmax(x, -1)", "F.softmax(x, -1)"),
    "layer_norm": rows("F.layer_norm(x, [1024])", "F.layer_norm(x, [1024])", 65536, 1024),
    "transpose": rows("x.transpose([1, 0])", "x.t().contiguous()", 8192, 8192),
    "max_pool2d": Case(
        "F.max_pool2d(x, 3, 2, 1)", "F.max_pool2d(x, 3, 2, 1)", {"x": (32, 64, 112, 112)}, bytes=1.25 * 4 * 32 * 64 * 112 * 112
    ),
    "matmul 512": matmul(512, 512, 512),
    "matmul 1024": matmul(1024, 1024, 1024),
    "matmul 4096": matmul(4096, 4096, 4096),
    "matmul 2048x768x3072": matmul(2048, 768, 3072),
    # On an H100 by warpgroups, and by `mma`, which other devices have, too.
    "matmul 4096, bfloat16": matmul(4096, 4096, 4096, "bfloat16"),
    "matmul 4096, bfloat16, by mma": matmul(4096, 4096, 4096, "bfloat16", "cuda:sm_90"),
    "matmul 8192, bfloat16": matmul(8192, 8192, 8192, "bfloat16"),
    "matmul 8192, bfloat16, by mma": matmul(8192, 8192, 8192, "bfloat16", "cuda:sm_90"),
    "matmul 4096, float16": matmul(4096, 4096, 4096, "float16"),
    "matmul 2048x768x3072, bfloat16": matmul(2048, 768, 3072, "bfloat16"),
    "matmul 2048x768x3072, bfloat16, by mma": matmul(2048, 768, 3072, "bfloat16", "cuda:sm_90"),
    "matmul 128x4096x4096, bfloat16": matmul(128, 4096, 4096, "bfloat16"),
    "matmul 128x4096x4096, bfloat16, by mma": matmul(128, 4096, 4096, "bfloat16", "cuda:sm_90"),
    "conv2d 3x3, 32x64x56x56": convolution(32, 64, 56, 64, 3),
    "conv2d 3x3, 32x512x7x7": convolution(32, 512, 7, 512, 3),
    "conv2d 1x1, 32x256x56x56": convolution(32, 256, 56, 64, 1),
    # Rows of so many elements begin at no multiple of 16 bytes: operands are turned first.
    "matmul 4095, bfloat16": matmul(4095, 4095, 4095, "bfloat16"),
    "matmul 16x12x512x64x512, bfloat16": Case(
        "paddle.matmul(x, y)",
        "torch.matmul(x, y)",
        {"x": (16, 12, 512, 64), "y": (16, 12, 64, 512)},
        2.0 * 16 * 12 * 512 * 64 * 512,
        dtype="bfloat16",
        within=2e-2,
    ),
    "linear, gelu 4096x4096x4096, bfloat16": Case(
        "F.gelu(F.linear(x, y, z))",
        "F.gelu(F.linear(x, y.t(), z))",
        {"x": (4096, 4096), "y": (4096, 4096), "z": (4096,)},
        2.0 * 4096**3,
        dtype="bfloat16",
        within=2e-2,
    ),
    "conv2d 3x3, 32x64x56x56, bfloat16": convolution(32, 64, 56, 64, 3, "bfloat16"),
    "conv2d 3x3, 32x512x7x7, bfloat16": convolution(32, 512, 7, 512, 3, "bfloat16"),
    "conv2d 1x1, 32x256x56x56, bfloat16": convolution(32, 256, 56, 64, 1, "bfloat16"),
    "conv2d 3x3, 32x256x14x14, float16": convolution(32, 256, 14, 256, 3, "float16"),
    "attention 8x12x512x64": Case(
        "paddle.matmul(F.softmax(paddle.matmul(x * 0.125, y, transpose_y=True), -1), z)",
        "torch.matmul(F.softmax(torch.matmul(x * 0.125, y.transpose(-1, -2)), -1), z)",
        dict.fromkeys("xyz", (8, 12, 512, 64)),
        4.0 * 8 * 12 * 512 * 512 * 64,
    ),
    "attention 8x12x2048x64": attention("float32"),
    "attention 8x12x2048x64, bfloat16": attention("bfloat16"),
    "attention 8x12x2048x64, causal, bfloat16": attention("bfloat16", True),
}
# Attention with its gradients: dtype, and whether a query sees the keys before it alone.
TRAINED = {
    "attention 8x12x2048x64, with gradients": ("float32", False),
    "attention 8x12x2048x64, with gradients, bfloat16": ("bfloat16", False),
    "attention 8x12x2048x64, with gradients, causal, bfloat16": ("bfloat16", True),
}
# Networks and their batches.
NETWORKS = (
    ("LeNet", 256),
    ("mlp 784-512-512-10", 128),
    ("mobilenet_v2", 32),
    ("resnet50", 1),
    ("resnet50", 32),
    ("bert-base 128", 1),
    ("bert-base 128", 16),
)


def draw(case: Case) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    made = {name: rng.standard_normal(shape, np.float32) for name, shape in case.shapes.items()}
    if case.dtype == "bfloat16":
        import ml_dtypes

        return {name: array.astype(ml_dtypes.bfloat16) for name, array in made.items()}
    return {name: array.astype(case.dtype) for name, array in made.items()}


# --- the libraries: each gives results to compare, and turns


def polyreme_turn(module: Any, arrays: Sequence[Array], driver: Any, target: str = "") -> tuple[list[Array], Turn, float]:
    """Results, turns, and the seconds that compiling took."""
    from polyreme.lowering.link.artifact import load
    from polyreme.lowering.machines.targets import find_target, gpu_target
    from polyreme.lowering.pipeline import compile_module

    start = time.perf_counter()
    executable = load(compile_module(module, find_target(target) if target else gpu_target(driver.sm, driver.ptx)).artifact, driver)
    seconds = time.perf_counter() - start
    return executable.run(arrays), partial(executable.timings, arrays), seconds


def torch_turn(function: Callable[..., Any], tensors: Tensors) -> tuple[list[Array], Turn]:
    import torch

    def turn(seconds: float) -> list[float]:
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(9)]
            marks[0].record()
            for mark in marks[1:]:
                function(*tensors)
                mark.record()
            marks[-1].synchronize()
            times += [a.elapsed_time(b) for a, b in zip(marks, marks[1:], strict=False)]
        return times

    results = function(*tensors)
    results = results if isinstance(results, tuple | list) else [results]
    return [r.float().cpu().numpy() for r in results], turn


def of_case(case: Case) -> tuple[Any, list[Array], Callable[..., Any], list[Any]]:
    """Our module and its arrays, torch's function and its tensors."""
    import torch

    import polyreme as paddle
    from polyreme.compiled.inspection import model_module

    arrays = draw(case)

    def compute(*values: Any) -> Any:
        return eval(case.ours, {"paddle": paddle, "F": paddle.nn.functional, **dict(zip(arrays, values, strict=True))})

    code = compile(case.torch, case.torch, "eval")

    def compare(*values: Any) -> Any:
        return eval(code, {"torch": torch, "F": torch.nn.functional, **dict(zip(arrays, values, strict=True))})

    specs = [paddle.static.InputSpec(list(array.shape), case.dtype, name) for name, array in arrays.items()]
    tensors = [torch.from_numpy(array.astype(np.float32)).to("cuda", getattr(torch, case.dtype)) for array in arrays.values()]
    return model_module(compute, specs, freeze=True), list(arrays.values()), compare, tensors


def of_training(dtype: str, causal: bool) -> tuple[Any, list[Array], Callable[..., Any], list[Any]]:
    """The same for the gradients of attention, those of its result being given, and all that they need computed: [batch, length, heads,
    depth].
    """
    import torch

    from polyreme.ir.text import parse_module

    case = Case("", "", dict.fromkeys("xyzg", (8, 2048, 12, 64)), dtype=dtype)
    arrays, kind = draw(case), {"float32": "f32", "bfloat16": "bf16"}[dtype]
    whole = f"tensor<8x2048x12x64x{kind}>"
    numbers = f"{{scale = 0.125, causal = {str(causal).lower()}}}"
    module = parse_module(
        f"""func @main(%x: {whole}, %y: {whole}, %z: {whole}, %g: {whole}) -> ({whole}, {whole}, {whole}, {whole}) {{
  %out, %sums = nn.attention %x, %y, %z {numbers}
  %dx, %dy, %dz = nn.attention_gradient %x, %y, %z, %out, %sums, %g {numbers}
  return %out, %dx, %dy, %dz
}}"""
    )

    def compare(x: Any, y: Any, z: Any, g: Any) -> Any:
        with torch.enable_grad():
            given = [t.detach().requires_grad_() for t in (x, y, z)]
            turned = [t.transpose(1, 2) for t in given]
            out = torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=causal).transpose(1, 2)
            return [t.detach() for t in (out, *torch.autograd.grad(out, given, g))]

    tensors = [torch.from_numpy(array.astype(np.float32)).to("cuda", getattr(torch, dtype)) for array in arrays.values()]
    return module, list(arrays.values()), compare, tensors


def of_network(name: str, batch: int) -> tuple[Any, list[Array], Callable[..., Any], list[Any]]:
    """The same for a network of `benchmarks/zoo.py`, which torch gets as source written from our module."""
    import torch

    import polyreme as paddle
    from polyreme.compiled.inspection import model_module
    from polyreme.exporters.torch import export_torch

    model = MODELS[name]
    layer = model.build(paddle)
    load_weights(layer, draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()}), paddle)
    module = model_module(layer, [paddle.static.InputSpec(shape, dtype, name) for name, shape, dtype in model.shapes(batch)], freeze=True)
    source, weights = export_torch(module)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "weights.npz", **weights)
        found: dict[str, Any] = {}
        exec(compile(source, f"{name} for torch", "exec"), found)
        network = found["load"](Path(folder) / "weights.npz").eval().cuda()
    arrays = list(draw_inputs(model, batch).values())
    return module, arrays, network, [torch.from_numpy(array).cuda() for array in arrays]


# --- the benchmark


def difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest, relative to the largest value of the other library's results."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            raise SystemExit(f"expected results of shape {b.shape} but got {a.shape}")
        gap = np.max(np.abs(a.astype(np.float32) - b)) / (np.max(np.abs(b)) or 1.0)
        worst = max(worst, float(gap) if np.isfinite(gap) else np.inf)
    return worst


def measure(
    name: str,
    made: tuple[Any, ...],
    within: float,
    driver: Any,
    rounds: int,
    seconds: float,
    rate: Callable[[float], str],
    target: str = "",
) -> list[str]:
    """A row of the table."""
    module, arrays, function, tensors = made
    results, ours, compiled = polyreme_turn(module, arrays, driver, target)
    expected, theirs = torch_turn(function, tensors)
    gap = difference(results, expected)
    if gap > within:
        return [name, f"results differ by {gap:.2g} of the largest value", "", "", "", "", ""]
    ours(0.05), theirs(0.05)
    turns = [(statistics.median(ours(seconds)), statistics.median(theirs(seconds))) for _ in range(rounds)]
    ratios = sorted(b / a for a, b in turns)
    best = statistics.median(a for a, _ in turns)
    other = statistics.median(b for _, b in turns)
    return [
        name,
        f"{best:.4g}",
        f"{other:.4g}",
        f"**{statistics.median(ratios):.2f}**",
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
        rate(best),
        f"{compiled:.1f}",
    ]


def ceilings(seconds: float) -> list[list[str]]:
    """What the device gives: a copy's bytes, read and written, and torch's largest products."""
    import torch

    x, y = (torch.randn(1 << 28, device="cuda") for _ in range(2))
    copy = statistics.median(torch_turn(y.copy_, [x])[1](seconds))
    found = [["a copy of 1 GiB", "", f"{copy:.4g}", "", "", f"{2 * x.nbytes / copy / 1e6:.0f} GB/s", ""]]
    del x, y
    for dtype in (torch.float32, torch.bfloat16):
        a, b = (torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))
        ms = statistics.median(torch_turn(torch.matmul, [a, b])[1](seconds))
        found.append(
            [
                f"torch.matmul 8192, {str(dtype).removeprefix('torch.')}",
                "",
                f"{ms:.4g}",
                "",
                "",
                f"{2 * 8192**3 / ms / 1e9:.1f} TFLOP/s",
                "",
            ]
        )
    return found


def rate_of(case: Case) -> Callable[[float], str]:
    if case.operations:
        return lambda ms: f"{case.operations / ms / 1e9:.1f} TFLOP/s"
    return lambda ms: f"{case.bytes / ms / 1e6:.0f} GB/s"


def main() -> None:
    networks = {f"{name}, batch {batch}": (name, batch) for name, batch in NETWORKS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], epilog="See the file's head for how it measures.")
    parser.add_argument(
        "--cases",
        nargs="+",
        choices=[*CASES, *TRAINED, *networks],
        metavar="CASE",
        help="by default all: " + ", ".join([*CASES, *TRAINED, *networks]),
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=0.2, metavar="SECONDS", help="what each library gets in a round")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="MINUTES", help="begin no further case after so many")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, too")
    options = parser.parse_args()

    import torch

    from polyreme.lowering.machines.targets import find_target
    from polyreme.runtime.gpu.drivers import open_driver

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    torch.zeros(1, device="cuda")
    driver = open_driver("gpu")
    head = ["case", "polyreme ms", "torch ms", "torch / ours", "lowest to highest round", "ours reaches", "compiled in s"]
    started, lines, text = time.perf_counter(), ceilings(options.turn), ""
    for name in options.cases or [*CASES, *TRAINED, *networks]:
        if time.perf_counter() - started > 60 * options.minutes:
            print(f"left out, after {options.minutes:g} minutes: {name}", flush=True)
            continue
        if name in CASES:
            if CASES[name].target and find_target(CASES[name].target).sm > driver.sm:
                continue
            made, within, rate, target = of_case(CASES[name]), CASES[name].within, rate_of(CASES[name]), CASES[name].target
        elif name in TRAINED:
            dtype, causal = TRAINED[name]
            # Two products forward, five backward.
            work = Case("", "", {}, 14.0 * 8 * 12 * 2048**2 * 64 / (2 if causal else 1))
            made, within, rate, target = of_training(dtype, causal), 1e-3 if dtype == "float32" else 3e-2, rate_of(work), ""
        else:
            made, within, rate, target = of_network(*networks[name]), 1e-3, lambda _: "", ""
        lines.append(measure(name, made, within, driver, options.rounds, options.turn, rate, target))
        print("| " + " | ".join(lines[-1]) + " |", flush=True)
        text = f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n\n" + table(head, lines)
        if options.markdown:
            options.markdown.write_text(text + "\n", encoding="utf-8")
    print("\n" + text)


if __name__ == "__main__":
    main()
