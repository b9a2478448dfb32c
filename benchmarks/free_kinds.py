"""What free sizes cost, layer kind by layer kind: a program for any size beside one for the very size.

    python -m benchmarks.free_kinds --threads 1 --markdown free_kinds.md
    python -m benchmarks.free_kinds --kinds "stem 7x7 s2" softmax --steps        # a few, with the time of each kernel of either

Both have the same weights and inputs, and their results are compared. Calls are timed in turns; a ratio is of one round's tenth
percentiles, and the median round is given. Above 1, the known size is faster. For every kind the sizes are small, odd and large, and one
program of free sizes takes them all. A call from Python takes two microseconds of each time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import polyreme as paddle
from benchmarks.dynamic import LARGEST_DIFFERENCE
from benchmarks.tables import table
from polyreme import nn
from polyreme.compiled.executables import load_module, load_profiled
from polyreme.compiled.inspection import model_module
from polyreme.lowering.debug.profile import steps_of
from polyreme.nn import functional as F
from polyreme.runtime.threads import set_num_threads
from polyreme.static import InputSpec

Shape = tuple[int | str, ...]
EXTENTS = (14, 57, 112)
LENGTHS = (17, 128, 512)
ROWS = (7, 64, 500)


@dataclass(frozen=True)
class Kind:
    """A layer, and the shapes of its inputs in which "N" is a batch and "S" a size that vary. `sizes` are those of S; N is `batch`."""

    name: str
    layer: Callable[[], Any]
    inputs: tuple[Shape, ...]
    sizes: tuple[int, ...] = EXTENTS
    batch: int = 1
    dtype: str = "float32"

    def shapes(self, size: int) -> list[tuple[int, ...]]:
        return [tuple({"N": self.batch, "S": size}[n] if isinstance(n, str) else n for n in shape) for shape in self.inputs]

    def specs(self, size: int | None) -> list[InputSpec]:
        """For `size`, or free: height and width each have a name."""
        if size is not None:
            return [InputSpec(list(shape), self.dtype, f"x{i}") for i, shape in enumerate(self.shapes(size))]
        return [
            InputSpec([f"{n}{axis}" if n == "S" else n for axis, n in enumerate(shape)], self.dtype, f"x{i}")
            for i, shape in enumerate(self.inputs)
        ]

    def arrays(self, size: int) -> list[Any]:
        draw = np.random.default_rng(1)
        if self.dtype == "int64":
            return [draw.integers(0, 1000, shape) for shape in self.shapes(size)]
        return [draw.standard_normal(shape, np.float32) for shape in self.shapes(size)]


class Function(nn.Layer):
    """A function as a layer."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def conv(inside: int, outside: int, taps: int, stride: int = 1, pad: int | None = None, **options: Any) -> Callable[[], Any]:
    """A convolution with a batch norm and relu."""

    def made() -> Any:
        padding = taps // 2 if pad is None else pad
        return nn.Sequential(nn.Conv2D(inside, outside, taps, stride, padding, **options), nn.BatchNorm2D(outside), nn.ReLU())

    return made


def function(made: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: Function(made)


class Deformable(nn.Layer):
    """A deformable 3x3 convolution with offsets by a plain one."""

    def __init__(self, inside: int, outside: int):
        super().__init__()
        self.offsets = nn.Conv2D(inside, 18, 3, padding=1)
        self.conv = paddle.vision.ops.DeformConv2D(inside, outside, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.conv(x, self.offsets(x))


def rois(x: Any, boxes: Any) -> Any:
    """7x7 of each of eight boxes within the first pixels of an image."""
    corners = F.sigmoid(boxes) * 6
    ends = paddle.concat([corners[:, :2], corners[:, :2] + corners[:, 2:] + 1], 1)
    return paddle.vision.ops.roi_align(x, ends, paddle.full([1], 8, "int32"), 7)


def normed(x: Any) -> Any:
    """The rows of a matrix, each with a mean of 0 and a variance of 1."""
    return (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True) + 1e-5).rsqrt()


def resized(x: Any, y: Any) -> Any:
    """As a pyramid adds a map to a larger one."""
    return F.interpolate(x, y.shape[2:], mode="bilinear") + y


def patches() -> Any:
    """An image as words, as in ViT."""
    return nn.Sequential(nn.Conv2D(3, 192, 16, 16), nn.Flatten(2), Function(lambda x: x.transpose([0, 2, 1])))


def image(channels: int) -> tuple[Shape, ...]:
    return (("N", channels, "S", "S"),)


ATTENTION: Shape = ("N", "S", 8, 64)
KINDS = (
    Kind("conv 3x3", conv(64, 64, 3), image(64)),
    Kind("conv 3x3 s2", conv(64, 128, 3, 2), image(64)),
    Kind("conv 5x5", conv(32, 32, 5), image(32)),
    Kind("conv 1x1", conv(64, 128, 1), image(64)),
    Kind("conv 1x1 s2", conv(64, 128, 1, 2), image(64)),
    Kind("conv of 3x3 to 1 channel", conv(64, 1, 3), image(64)),
    Kind("stem 7x7 s2", conv(3, 64, 7, 2), image(3), (28, 57, 224)),
    Kind("stem 3x3 s2", conv(3, 32, 3, 2), image(3), (28, 57, 224)),
    Kind("stem 3x3", conv(3, 32, 3), image(3)),
    Kind("stem 4x4 s4", conv(3, 96, 4, 4, 0), image(3), (28, 60, 224)),
    Kind("depthwise 3x3", conv(96, 96, 3, groups=96), image(96)),
    Kind("depthwise 3x3 s2", conv(96, 96, 3, 2, groups=96), image(96)),
    Kind("depthwise 5x5", conv(96, 96, 5, groups=96), image(96)),
    Kind("depthwise 5x5 s2", conv(96, 96, 5, 2, groups=96), image(96)),
    Kind("grouped 3x3", conv(128, 128, 3, groups=32), image(128)),
    Kind("dilated 3x3", conv(64, 64, 3, pad=2, dilation=2), image(64)),
    Kind("transposed 2x2 s2", lambda: nn.Conv2DTranspose(64, 32, 2, 2), image(64)),
    Kind("transposed 4x4 s2", lambda: nn.Conv2DTranspose(64, 32, 4, 2, 1), image(64)),
    Kind("transposed 3x3 s2", lambda: nn.Conv2DTranspose(64, 32, 3, 2, 1, 1), image(64)),
    Kind("depthwise 7x7", conv(96, 96, 7, groups=96), image(96)),
    Kind("deformable 3x3", lambda: Deformable(32, 32), image(32), (14, 57)),
    Kind("conv1d 9", lambda: nn.Conv1D(64, 64, 9, padding=4), (("N", 64, "S"),), (60, 500, 4001)),
    Kind("max pool 3x3 s2", lambda: nn.MaxPool2D(3, 2, 1), image(64)),
    Kind("max pool 2x2 s2", lambda: nn.MaxPool2D(2, 2), image(64)),
    Kind("max pool 5x5 s1", lambda: nn.MaxPool2D(5, 1, 2), image(64)),
    Kind("avg pool 2x2 s2", lambda: nn.AvgPool2D(2, 2), image(64)),
    Kind("avg pool 3x3 s1", lambda: nn.AvgPool2D(3, 1, 1), image(64)),
    Kind("adaptive pool 7x7", lambda: nn.AdaptiveAvgPool2D(7), image(64)),
    Kind("global pool", lambda: nn.AdaptiveAvgPool2D(1), image(64)),
    Kind("global max pool", lambda: nn.AdaptiveMaxPool2D(1), image(64)),
    Kind("linear", lambda: nn.Linear(256, 256), (("S", 256),), ROWS),
    Kind("linear 3d", lambda: nn.Linear(256, 1024), (("N", "S", 256),), LENGTHS),
    Kind("matmul", function(paddle.matmul), (("N", 8, "S", 64), ("N", 8, 64, 128)), LENGTHS),
    Kind("matmul of free", function(lambda x, y: paddle.matmul(x, y, transpose_y=True)), (("N", 8, "S", 64), ("N", 8, "S", 64)), LENGTHS),
    Kind("attention", function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), (ATTENTION,) * 3, LENGTHS),
    Kind("causal attention", function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), (ATTENTION,) * 3, LENGTHS),
    Kind("multi-head attention", lambda: nn.MultiHeadAttention(128, 4), (("N", "S", 128),), LENGTHS),
    Kind("transformer layer", lambda: nn.TransformerEncoderLayer(128, 4, 256, 0.0), (("N", "S", 128),), LENGTHS),
    Kind("layer norm", lambda: nn.LayerNorm(256), (("N", "S", 256),), LENGTHS),
    Kind("batch norm", lambda: nn.BatchNorm2D(64), image(64)),
    Kind("group norm", lambda: nn.GroupNorm(8, 64), image(64)),
    Kind("instance norm", lambda: nn.InstanceNorm2D(64), image(64)),
    Kind("norm of free", function(normed), ((64, "S"),), LENGTHS),
    Kind("rms norm", function(lambda x: x * (x * x).mean(-1, keepdim=True).rsqrt()), (("N", "S", 256),), LENGTHS),
    Kind("softmax", function(F.softmax), (("S", 1000),), ROWS),
    Kind("softmax of free", function(F.softmax), ((64, "S"),), LENGTHS),
    Kind("softmax of channels", function(lambda x: F.softmax(x, axis=1)), image(19)),
    Kind("argmax of channels", function(lambda x: x.argmax(1)), image(19)),
    Kind("elementwise", function(lambda x, y: F.gelu(x * y + 1) * F.sigmoid(x)), (("N", 64, "S", "S"),) * 2),
    Kind("hard swish", function(F.hardswish), image(64)),
    Kind("broadcast", function(lambda x, y: F.relu(x * y + x)), (("N", 64, "S", "S"), ("N", 64, 1, 1))),
    Kind("squeeze and excite", function(lambda x: x * F.hardsigmoid(x.mean([2, 3], keepdim=True))), image(64)),
    Kind("nearest x2", function(lambda x: F.interpolate(x, scale_factor=2, mode="nearest")), image(64)),
    Kind("bilinear x2", function(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")), image(64)),
    Kind("bilinear x2 aligned", function(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)), image(64)),
    Kind("bilinear to half", function(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear")), image(64)),
    Kind("bicubic x2", function(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")), image(64)),
    Kind("resize to another", function(resized), (("N", 64, 20, 20), ("N", 64, "S", "S"))),
    Kind("grid sample", function(F.grid_sample), (("N", 32, "S", "S"), ("N", "S", "S", 2))),
    Kind("roi align", function(lambda x, y: rois(x, y)), (("N", 64, "S", "S"), (8, 4))),
    Kind("pad of zeros", function(lambda x: F.pad(x, [1, 1, 1, 1])), image(64)),
    Kind("pad by reflection", function(lambda x: F.pad(x, [1, 1, 1, 1], mode="reflect")), image(64)),
    Kind("pad by edges", function(lambda x: F.pad(x, [1, 1, 1, 1], mode="replicate")), image(64)),
    Kind("concat", function(lambda x, y: F.relu(paddle.concat([x, y], 1))), (("N", 64, "S", "S"),) * 2),
    Kind("split", function(lambda x: paddle.concat([F.relu(a) for a in paddle.split(x, 2, 1)][::-1], 1)), image(64)),
    Kind("pixel shuffle", function(lambda x: F.pixel_shuffle(x, 2)), image(64)),
    Kind("channel shuffle", function(lambda x: F.channel_shuffle(x, 4)), image(64)),
    Kind("patches", lambda: patches(), image(3), (32, 80, 224)),
    Kind("transpose", function(lambda x: paddle.transpose(x, [0, 2, 3, 1]) + 1), image(64)),
    Kind("sum of rows", function(lambda x: x.sum(-1)), (("S", 1000),), ROWS),
    Kind("sum of free", function(lambda x: x.sum(-1)), ((64, "S"),), LENGTHS),
    Kind("cumsum", function(lambda x: paddle.cumsum(x, -1)), ((64, "S"),), LENGTHS),
    Kind("top 5", function(lambda x: paddle.topk(x, 5)[0]), ((64, "S"),), LENGTHS),
    Kind("reverse", function(lambda x: x.flip([-1])), ((64, "S"),), LENGTHS),
    Kind("embedding", lambda: nn.Embedding(1000, 256), (("N", "S"),), LENGTHS, 4, "int64"),
    Kind("lstm", lambda: nn.LSTM(64, 128), (("N", "S", 64),), (16, 100), 4),
    Kind("lstm of one", lambda: nn.LSTM(64, 128), (("N", "S", 64),), (16, 100)),
    Kind("lstm both ways", lambda: nn.LSTM(64, 128, direction="bidirect"), (("N", "S", 64),), (16, 100), 4),
    Kind("gru", lambda: nn.GRU(64, 128), (("N", "S", 64),), (16, 100), 4),
)


def executable(layer: Any, specs: Sequence[InputSpec]) -> Any:
    return load_module(model_module(layer, list(specs), freeze=True))


def steps(layer: Any, specs: Sequence[InputSpec], inputs: Sequence[Any], calls: int = 50) -> str:
    """The kernels of an executable, each with its microseconds."""
    made = load_profiled(model_module(layer, list(specs), freeze=True))
    taken = np.median([np.diff(made.run(inputs)[-1]) for _ in range(calls)], axis=0) / 1e3
    return ", ".join(f"{step.kernel.rpartition('_')[0]} {us:.3g}" for step, us in zip(steps_of(made.manifest), taken[1:], strict=False))


def turn(run: Any, inputs: Sequence[Any], seconds: float, clock: Callable[[], float]) -> float:
    """The tenth percentile of the calls of a turn, at least three."""
    taken: list[float] = []
    end = clock() + seconds
    while len(taken) < 3 or clock() < end:
        start = clock()
        run(inputs)
        taken.append(clock() - start)
    return float(np.percentile(taken, 10))


def measure(kind: Kind, seconds: float, rounds: int, show: bool, clock: Callable[[], float]) -> list[list[Any]]:
    """A row for each of the sizes."""
    paddle.seed(1)
    layer = kind.layer()
    layer.eval()
    free = executable(layer, kind.specs(None))
    rows = []
    for size in kind.sizes:
        known, inputs = executable(layer, kind.specs(size)), kind.arrays(size)
        for expected, found in zip(known.run(inputs), free.run(inputs), strict=True):
            difference = float(np.max(np.abs(expected - found)) / max(np.max(np.abs(expected)), 1e-30))
            if difference > LARGEST_DIFFERENCE:
                raise SystemExit(f"{kind.name}: expected results within {LARGEST_DIFFERENCE} but they differ by {difference:.2g}")
        times = [(turn(known.run, inputs, seconds, clock), turn(free.run, inputs, seconds, clock)) for _ in range(rounds)]
        ratios = [b / a for a, b in times]
        before, after = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
        rows.append([kind.name, size, f"{before:.4g}", f"{after:.4g}", f"{statistics.median(ratios):.2f}"])
        shown = [steps(layer, kind.specs(one), inputs) for one in (size, None)] if show else []
        print(*rows[-1], *shown, sep="\t", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=[kind.name for kind in KINDS], choices=[kind.name for kind in KINDS])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a turn, three calls at least")
    parser.add_argument("--steps", action="store_true", help="say which kernels either program has, and their times")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    options = parser.parse_args()
    set_num_threads(options.threads)
    # Of one thread the time on a processor, whoever else is on the machine.
    clock = time.process_time if options.threads == 1 else time.perf_counter
    chosen = [kind for kind in KINDS if kind.name in options.kinds]
    rows = [row for kind in chosen for row in measure(kind, options.seconds, options.rounds, options.steps, clock)]
    made = table(["layer", "size", "known, us", "free, us", "free / known"], rows)
    if options.markdown:
        options.markdown.write_text(made + "\n")
    print(made)


if __name__ == "__main__":
    main()
