"""Ops one by one, compiled, beside torch: what a network takes that is not one of the benchmark's models.

    python -m benchmarks.single_ops --torch ../torch/bin/python --markdown single_ops.md

Each library runs in a process of its own: ours compiles the op as a function of its inputs (weights are constants), torch calls it in
inference mode with its weights ready. Results are compared before anything is timed, within 1e-4 of the largest value. A turn gives its
tenth percentile; the ratio is torch's time over ours within a round, the median round with the spread. Above 1 is ahead of torch.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.processes import Worker, answer
from benchmarks.tables import table

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """An op on arrays of these shapes, as an expression for each library. `w` and `b` are weights, `i` and `j` integers below `below` or,
    if that is 0, a permutation.
    """

    ours: str
    torch: str
    below: int
    shapes: dict[str, tuple[int, ...]]


def case(ours: str, torch: str, below: int = 0, /, **shapes: tuple[int, ...]) -> Case:
    return Case(ours, torch, below, shapes)


WEIGHTS = "wb"
# Of a result's largest value.
LARGEST_DIFFERENCE = 1e-4
IMAGE = (8, 64, 56, 56)
ROWS = (1024, 1024)
STACK = (64, 128, 256)
CASES = {
    "conv1d 64->128, 9 wide": case(
        "F.conv1d(x, w, b, padding=4)",
        "F.conv1d(x, w, b, padding=4)",
        x=(8, 64, 512),
        w=(128, 64, 9),
        b=(128,),
    ),
    "conv2d 5x5": case("F.conv2d(x, w, b, padding=2)", "F.conv2d(x, w, b, padding=2)", x=(1, 64, 56, 56), w=(64, 64, 5, 5), b=(64,)),
    "conv2d 3x3, dilation 2": case(
        "F.conv2d(x, w, b, padding=2, dilation=2)",
        "F.conv2d(x, w, b, padding=2, dilation=2)",
        x=(1, 128, 28, 28),
        w=(128, 128, 3, 3),
        b=(128,),
    ),
    "conv2d 3x3, 32 groups": case(
        "F.conv2d(x, w, b, padding=1, groups=32)",
        "F.conv2d(x, w, b, padding=1, groups=32)",
        x=(1, 128, 56, 56),
        w=(128, 4, 3, 3),
        b=(128,),
    ),
    "conv2d 3x3 of arguments": case("F.conv2d(x, v, padding=1)", "F.conv2d(x, v, padding=1)", x=(8, 64, 28, 28), v=(64, 64, 3, 3)),
    "conv2d_transpose 4x4, stride 2": case(
        "F.conv2d_transpose(x, w, b, stride=2, padding=1)",
        "F.conv_transpose2d(x, w, b, stride=2, padding=1)",
        x=(1, 128, 28, 28),
        w=(128, 64, 4, 4),
        b=(64,),
    ),
    "conv2d_transpose 2x2, stride 2": case(
        "F.conv2d_transpose(x, w, stride=2)",
        "F.conv_transpose2d(x, w, stride=2)",
        x=(1, 128, 28, 28),
        w=(128, 64, 2, 2),
    ),
    "conv1d_transpose 4, stride 2": case(
        "F.conv1d_transpose(x, w, stride=2, padding=1)",
        "F.conv_transpose1d(x, w, stride=2, padding=1)",
        x=(4, 128, 256),
        w=(128, 64, 4),
    ),
    "conv2d 7x7, depthwise": case(
        "F.conv2d(x, w, padding=3, groups=96)",
        "F.conv2d(x, w, padding=3, groups=96)",
        x=(1, 96, 56, 56),
        w=(96, 1, 7, 7),
    ),
    "conv3d 3x3x3": case(
        "F.conv3d(x, w, b, padding=1)",
        "F.conv3d(x, w, b, padding=1)",
        x=(1, 32, 16, 28, 28),
        w=(32, 32, 3, 3, 3),
        b=(32,),
    ),
    "max_pool2d 3x3": case("F.max_pool2d(x, 3, 2, 1)", "F.max_pool2d(x, 3, 2, 1)", x=IMAGE),
    "avg_pool2d 2x2": case("F.avg_pool2d(x, 2, 2)", "F.avg_pool2d(x, 2, 2)", x=IMAGE),
    "adaptive_avg_pool2d 7x7": case("F.adaptive_avg_pool2d(x, 7)", "F.adaptive_avg_pool2d(x, 7)", x=IMAGE),
    "interpolate bilinear x2": case(
        "F.interpolate(x, scale_factor=2, mode='bilinear')",
        "F.interpolate(x, scale_factor=2, mode='bilinear')",
        x=IMAGE,
    ),
    "interpolate nearest x2": case(
        "F.interpolate(x, scale_factor=2, mode='nearest')",
        "F.interpolate(x, scale_factor=2, mode='nearest')",
        x=IMAGE,
    ),
    "interpolate bicubic x2": case(
        "F.interpolate(x, scale_factor=2, mode='bicubic')",
        "F.interpolate(x, scale_factor=2, mode='bicubic')",
        x=(2, 32, 56, 56),
    ),
    "pixel_shuffle 2": case("F.pixel_shuffle(x, 2)", "F.pixel_shuffle(x, 2)", x=IMAGE),
    "group_norm 8": case("F.group_norm(x, 8)", "F.group_norm(x, 8)", x=IMAGE),
    "instance_norm": case("F.instance_norm(x)", "F.instance_norm(x)", x=IMAGE),
    "layer_norm": case("F.layer_norm(x, [768])", "F.layer_norm(x, [768])", x=(1024, 768)),
    "rms_norm": case(
        "x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w",
        "F.rms_norm(x, (768,), w, 1e-6)",
        x=(1024, 768),
        w=(768,),
    ),
    "gelu": case("F.gelu(x)", "F.gelu(x)", x=ROWS),
    "exp": case("paddle.exp(x)", "torch.exp(x)", x=ROWS),
    "remainder": case("paddle.remainder(x, y)", "torch.remainder(x, y)", x=ROWS, y=ROWS),
    "softmax, rows": case("F.softmax(x, -1)", "F.softmax(x, -1)", x=ROWS),
    "softmax, columns": case("F.softmax(x, 0)", "F.softmax(x, 0)", x=ROWS),
    "softmax, middle axis": case("F.softmax(x, 1)", "F.softmax(x, 1)", x=STACK),
    "log_softmax, 50257": case("F.log_softmax(x, -1)", "F.log_softmax(x, -1)", x=(16, 50257)),
    "sum, rows": case("x.sum(-1)", "x.sum(-1)", x=ROWS),
    "sum, columns": case("x.sum(0)", "x.sum(0)", x=ROWS),
    "sum": case("x.sum()", "x.sum()", x=ROWS),
    "mean of images": case("x.mean([2, 3])", "x.mean([2, 3])", x=IMAGE),
    "max, rows": case("x.max(-1)", "x.max(-1).values", x=ROWS),
    "argmax, rows": case("paddle.argmax(x, -1)", "torch.argmax(x, -1)", x=ROWS),
    "argmax, columns": case("paddle.argmax(x, 0)", "torch.argmax(x, 0)", x=ROWS),
    "argmax, middle axis": case("paddle.argmax(x, 1)", "torch.argmax(x, 1)", x=STACK),
    "var, rows": case("paddle.var(x, -1)", "torch.var(x, -1)", x=ROWS),
    "norm, rows": case("paddle.norm(x, 2, -1)", "torch.norm(x, 2, -1)", x=ROWS),
    "logsumexp, rows": case("paddle.logsumexp(x, -1)", "torch.logsumexp(x, -1)", x=ROWS),
    "cumsum, rows": case("paddle.cumsum(x, -1)", "torch.cumsum(x, -1)", x=ROWS),
    "cumsum, columns": case("paddle.cumsum(x, 0)", "torch.cumsum(x, 0)", x=ROWS),
    "cumsum, middle axis": case("paddle.cumsum(x, 1)", "torch.cumsum(x, 1)", x=STACK),
    "sort, rows": case("paddle.sort(x, -1)", "torch.sort(x, -1).values", x=ROWS),
    "sort, columns": case("paddle.sort(x, 0)", "torch.sort(x, 0).values", x=ROWS),
    "argsort, rows": case("paddle.argsort(x, -1)", "torch.argsort(x, dim=-1, stable=True)", x=ROWS),
    "topk 8, rows": case("paddle.topk(x, 8)[0]", "torch.topk(x, 8).values", x=ROWS),
    "topk 50 of 50257": case("paddle.topk(x, 50)[0]", "torch.topk(x, 50).values", x=(4, 50257)),
    "transpose": case("x.transpose([1, 0])", "x.t().contiguous()", x=ROWS),
    "transpose, 1000": case("x.transpose([1, 0])", "x.t().contiguous()", x=(1000, 1000)),
    "channels last": case("x.transpose([0, 2, 3, 1])", "x.permute(0, 2, 3, 1).contiguous()", x=IMAGE),
    "channels first": case("x.transpose([0, 3, 1, 2])", "x.permute(0, 3, 1, 2).contiguous()", x=(8, 56, 56, 64)),
    "transpose, heads": case("x.transpose([0, 2, 1, 3])", "x.transpose(1, 2).contiguous()", x=(4, 256, 12, 64)),
    "concat": case("paddle.concat([x, y], 1)", "torch.cat([x, y], 1)", x=ROWS, y=ROWS),
    "split and concat": case("paddle.concat(paddle.split(x, 4, -1)[::-1], 0)", "torch.cat(torch.split(x, 256, -1)[::-1], 0)", x=ROWS),
    "tile": case("paddle.tile(x, [2, 2])", "x.repeat(2, 2)", x=ROWS),
    "repeat_interleave": case("paddle.repeat_interleave(x, 2, 1)", "torch.repeat_interleave(x, 2, 1)", x=ROWS),
    "stack": case("paddle.stack([x, y], -1)", "torch.stack([x, y], -1)", x=ROWS, y=ROWS),
    "pad": case("F.pad(x, [3, 3, 3, 3])", "F.pad(x, [3, 3, 3, 3])", x=IMAGE),
    "pad, reflect": case("F.pad(x, [3, 3, 3, 3], mode='reflect')", "F.pad(x, [3, 3, 3, 3], mode='reflect')", x=IMAGE),
    "pad, replicate": case("F.pad(x, [3, 3, 3, 3], mode='replicate')", "F.pad(x, [3, 3, 3, 3], mode='replicate')", x=IMAGE),
    "roll": case("paddle.roll(x, 5, -1)", "torch.roll(x, 5, -1)", x=ROWS),
    "flip": case("paddle.flip(x, [-1])", "torch.flip(x, [-1])", x=ROWS),
    "tril": case("paddle.tril(x)", "torch.tril(x)", x=ROWS),
    "embedding": case("F.embedding(i, w)", "F.embedding(i, w)", 30000, i=(4, 512), w=(30000, 768)),
    "gather rows": case("paddle.gather(x, i)", "torch.index_select(x, 0, i)", i=(1024,), x=ROWS),
    "gather columns": case("paddle.index_select(x, i, 1)", "torch.index_select(x, 1, i)", i=(1024,), x=ROWS),
    "take_along_axis": case("paddle.take_along_axis(x, j, -1)", "torch.gather(x, -1, j)", 1024, j=ROWS, x=ROWS),
    "scatter add": case(
        "paddle.scatter(x, i, y, overwrite=False)",
        "torch.index_fill(x, 0, i, 0).index_add(0, i, y)",
        i=(1024,),
        x=ROWS,
        y=ROWS,
    ),
    "index_add": case("paddle.index_add(x, i, 0, y)", "torch.index_add(x, 0, i, y)", i=(1024,), x=ROWS, y=ROWS),
    "put_along_axis": case("paddle.put_along_axis(x, j, y, 1)", "torch.scatter(x, 1, j, y)", 1024, j=(1024, 64), x=ROWS, y=(1024, 64)),
    "put_along_axis, add": case(
        "paddle.put_along_axis(x, j, y, 1, reduce='add')",
        "torch.scatter_add(x, 1, j, y)",
        1024,
        j=(1024, 64),
        x=ROWS,
        y=(1024, 64),
    ),
    "where": case("paddle.where(x > 0, x, y)", "torch.where(x > 0, x, y)", x=ROWS, y=ROWS),
    "clip": case("paddle.clip(x, -1, 1)", "torch.clamp(x, -1, 1)", x=ROWS),
    "one_hot": case("F.one_hot(i, 1000)", "F.one_hot(i, 1000).float()", 1000, i=(2048,)),
    "cross_entropy": case("F.cross_entropy(x, i)", "F.cross_entropy(x, i)", 1000, i=(1024,), x=(1024, 1000)),
    "batched matmul 64": case("paddle.bmm(x, y)", "torch.bmm(x, y)", x=(256, 64, 64), y=(256, 64, 64)),
    "batched matmul 7": case("paddle.bmm(x, y)", "torch.bmm(x, y)", x=(4096, 7, 7), y=(4096, 7, 7)),
    "einsum, scores": case(
        "paddle.einsum('bhqd,bhkd->bhqk', x, y)",
        "torch.einsum('bhqd,bhkd->bhqk', x, y)",
        x=(4, 12, 128, 64),
        y=(4, 12, 128, 64),
    ),
    "matrix by vector": case("paddle.mv(x, y)", "torch.mv(x, y)", x=ROWS, y=(1024,)),
    "dot": case("paddle.dot(x, y)", "torch.dot(x, y)", x=(1000000,), y=(1000000,)),
    "attention": case(
        "F.scaled_dot_product_attention(x, x, x)",
        "F.scaled_dot_product_attention(x.transpose(1, 2), x.transpose(1, 2), x.transpose(1, 2)).transpose(1, 2).contiguous()",
        x=(2, 512, 12, 64),
    ),
    "outer sums": case("x.unsqueeze(1) + y.unsqueeze(0)", "x.unsqueeze(1) + y.unsqueeze(0)", x=(1024,), y=(1024,)),
    "unfold 3x3": case("F.unfold(x, 3, paddings=1)", "F.unfold(x, 3, padding=1)", x=(8, 16, 56, 56)),
    "grid_sample": case(
        "F.grid_sample(x, g, align_corners=True)",
        "F.grid_sample(x, g, align_corners=True)",
        x=(2, 64, 56, 56),
        g=(2, 56, 56, 2),
    ),
}  # fmt: skip


def inputs(case: Case) -> dict[str, Array]:
    """Numbers for the letters of a case, the same in every process."""
    random = np.random.default_rng(0)
    return {name: _array(name, shape, case, random) for name, shape in case.shapes.items()}


def _array(name: str, shape: tuple[int, ...], case: Case, random: np.random.Generator) -> Array:
    if name in "ij":
        return random.integers(0, case.below, shape) if case.below else random.permutation(shape[0])
    if name == "g":
        return random.uniform(-1, 1, shape).astype(np.float32)
    return random.standard_normal(shape).astype(np.float32)


# --- workers


def polyreme_call(case: Case, arrays: dict[str, Array]) -> Callable[[], Array]:
    import polyreme as paddle
    from polyreme.compiled.executables import load_module
    from polyreme.compiled.inspection import model_module

    weights = {name: paddle.to_tensor(arrays[name]) for name in arrays if name in WEIGHTS}
    free = [name for name in arrays if name not in WEIGHTS]

    def compute(*tensors: Any) -> Any:
        return eval(case.ours, {"paddle": paddle, "F": paddle.nn.functional, **weights, **dict(zip(free, tensors, strict=True))})

    specs = [paddle.static.InputSpec(list(arrays[name].shape), arrays[name].dtype.name, name) for name in free]
    executable = load_module(model_module(compute, specs, freeze=True))
    given = [arrays[name] for name in free]
    return lambda: executable.run(given)[0]


def torch_call(case: Case, arrays: dict[str, Array]) -> Callable[[], Array]:
    import torch

    held = {"torch": torch, "F": torch.nn.functional, **{name: torch.from_numpy(array) for name, array in arrays.items()}}
    code = compile(case.torch, case.torch, "eval")

    def call() -> Array:
        with torch.inference_mode():
            return eval(code, held).numpy()

    return call


def work(library: str, threads: int) -> None:
    """Answer `{"name", "seconds"}` by the tenth percentile of a turn, and `{"name", "file"}` by writing the result there."""
    if library == "polyreme":
        from polyreme.runtime.threads import set_num_threads

        set_num_threads(threads)
    else:
        import torch

        torch.set_num_threads(threads)
    made: dict[str, Callable[[], Array]] = {}

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        if name not in made:
            made[name] = (polyreme_call if library == "polyreme" else torch_call)(CASES[name], inputs(CASES[name]))
        call = made[name]
        if "file" in request:
            np.save(request["file"], call())
            return {}
        times: list[float] = []
        end = time.perf_counter() + request["seconds"]
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return {"seconds": float(np.percentile(times, 10))}

    answer(handle)


# --- the benchmark


def difference(ours: Array, other: Array) -> float:
    """The largest, relative to the largest value of the other library's."""
    if ours.shape != other.shape:
        raise SystemExit(f"expected results of shape {other.shape} but got {ours.shape}")
    largest = float(np.max(np.abs(other))) or 1.0
    return float(np.max(np.abs(ours.astype(np.float64) - other))) / largest


def measure(name: str, workers: Sequence[Worker], rounds: int, seconds: float) -> list[str]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for worker in workers:
            file = f"{folder}/{worker.library}.npy"
            worker.ask(name=name, file=file)
            results.append(np.load(file))
    found = difference(*results)
    if not found <= LARGEST_DIFFERENCE:
        raise SystemExit(f"{name}: expected results within {LARGEST_DIFFERENCE} of torch's but they differ by {found:.2g}")
    times = [[worker.ask(name=name, seconds=seconds)["seconds"] for worker in workers] for _ in range(rounds)]
    ratios = [theirs / ours for ours, theirs in times]
    ours, theirs = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
    return [name, f"{ours:.4g}", f"{theirs:.4g}", f"**{statistics.median(ratios):.2f}**", f"{min(ratios):.2f} to {max(ratios):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default=sys.executable, help="the Python that has torch installed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=0.05, help="seconds of a turn, three calls at least")
    parser.add_argument("--ops", nargs="*", default=list(CASES), choices=list(CASES), metavar="OP")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args.threads)
        return
    workers = [
        Worker(library, [python, "-m", "benchmarks.single_ops", "--worker", library, "--threads", str(args.threads)])
        for library, python in (("polyreme", sys.executable), ("torch", args.torch))
    ]
    rows = []
    try:
        for name in args.ops:
            rows.append(measure(name, workers, args.rounds, args.turn))
            print(*rows[-1], sep="  ", flush=True)
    finally:
        for worker in workers:
            worker.stop()
    made = table(["op", "polyreme, us", "torch, us", "torch / ours", "lowest to highest round"], rows)
    if args.markdown:
        args.markdown.write_text(made + "\n")
    print(made)


if __name__ == "__main__":
    main()
