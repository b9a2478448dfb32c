"""Every distinct convolution of ResNet-50 and ResNet-18 by Polyreme and its peers on the same operands, interleaved.

    python -m benchmarks.convolutions --threads 1 --only "1 x " --markdown convolutions.md \\
        --torch ../torch/bin/python --peers ../peers/bin/python

How it measures is said in `benchmarks/beside.py`; the reference is the float64 convolution, and operations are counted as the plain way
makes them, whatever algorithm a library takes: more than all of the peak is possible.

Weights, with the batch norm in them, and biases are known ahead of time, so that every library may pack them. oneDNN is measured through
torch (`_convolution_pointwise`, which torch's compiler uses, with activation and residual in it) and through OpenVINO. Each of the two has
its operands in either order, channels last as well as planar, and the faster one counts. ONNX Runtime knows planar ones only. Ours are
channels last, as they are within a network, but for the first image, which comes planar from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside import Array, Call, Suite, onnxruntime_call, openvino_call, polyreme_call, run, without_gradients, write_onnx


@dataclass(frozen=True)
class Case:
    """Windows of `taps` pixels, `stride` apart, over images of `sizes`, with zeros around so that the result has the image's sizes by the
    stride, or `pad` of them; bias; `after` is none, relu, or residual (its sum, then relu). A transposed one is the adjoint of such a
    convolution, without zeros but for those that `pad` takes away.
    """

    batch: int
    sizes: tuple[int, ...]
    channels: int
    outputs: int
    taps: tuple[int, ...]
    stride: int = 1
    after: str = "relu"
    dilation: int = 1
    groups: int = 1
    pad: int | None = None
    transposed: bool = False
    dtype: str = "float32"

    @property
    def name(self) -> str:
        words = [f"{self.batch} x {_times(self.sizes)} {self.channels} to {self.outputs} {_times(self.taps)}"]
        words += [f"stride {self.stride}"] * (self.stride > 1) + [f"dilation {self.dilation}"] * (self.dilation > 1)
        words += [f"groups {self.groups}"] * (self.groups > 1) + ["transposed"] * self.transposed + [self.after] * (self.after != "none")
        return " ".join(words)

    @property
    def pads(self) -> tuple[int, ...]:
        """Zeros on either side of each axis."""
        return tuple(self.dilation * (taps // 2) if self.pad is None else self.pad for taps in self.taps)

    @property
    def places(self) -> tuple[int, ...]:
        """Sizes of the result."""
        reach = [(taps - 1) * self.dilation + 1 for taps in self.taps]
        if self.transposed:
            return tuple((size - 1) * self.stride + r - 2 * pad for size, r, pad in zip(self.sizes, reach, self.pads, strict=True))
        return tuple((size + 2 * pad - r) // self.stride + 1 for size, r, pad in zip(self.sizes, reach, self.pads, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.batch, self.outputs, *self.places

    @property
    def operations(self) -> float:
        windows = prod(self.sizes if self.transposed else self.places)
        return 2.0 * self.batch * windows * self.outputs * self.channels // self.groups * prod(self.taps)

    def arrays(self) -> dict[str, Array]:
        """The operands by name, planar: image x, weights w [outputs, channels of a group, *taps] (transposed: [channels, outputs of a
        group, *taps]), bias b, residual r.
        """
        rng = np.random.default_rng(0)

        def draw(*shape: int) -> Array:
            return rng.standard_normal(shape, np.float32)

        made = {"x": draw(self.batch, self.channels, *self.sizes), "b": draw(self.outputs)}
        ends = (self.channels, self.outputs // self.groups) if self.transposed else (self.outputs, self.channels // self.groups)
        made["w"] = draw(*ends, *self.taps) * np.float32((self.channels // self.groups * prod(self.taps)) ** -0.5)
        if self.after == "residual":
            made["r"] = draw(*self.shape)
        return made

    def inputs(self, channels_last: bool = False) -> dict[str, Array]:
        """Those of the arrays that come with the call."""
        given = {name: array for name, array in self.arrays().items() if name in "xr"}
        return {name: np.ascontiguousarray(np.moveaxis(a, 1, -1)) for name, a in given.items()} if channels_last else given

    def reference(self) -> Array:
        """The result in float64, planar, tap by tap."""
        a = {name: value.astype(np.float64) for name, value in self.arrays().items()}
        many, few = (self.places, self.sizes) if self.transposed else (self.sizes, self.places)
        around = [(0, 0), (0, 0), *((pad, pad) for pad in self.pads)]
        x = a["x"] if self.transposed else np.pad(a["x"], around)
        y = (
            np.zeros((self.batch, self.outputs, *(size + 2 * pad for size, pad in zip(many, self.pads, strict=True))))
            if self.transposed
            else np.zeros(self.shape)
        )
        for tap in np.ndindex(*self.taps):
            starts = [i * self.dilation for i in tap]
            seen = (
                slice(None),
                slice(None),
                *(slice(i, i + (n - 1) * self.stride + 1, self.stride) for i, n in zip(starts, few, strict=True)),
            )
            w = a["w"][(slice(None), slice(None), *tap)].reshape(self.groups, -1, a["w"].shape[1])
            read = (x if self.transposed else x[seen]).reshape(self.batch, self.groups, self.channels // self.groups, -1)
            made = ((w.swapaxes(1, 2) if self.transposed else w) @ read).reshape(self.batch, self.outputs, *few)
            if self.transposed:
                y[seen] += made
            else:
                y += made
        if self.transposed:
            y = y[(slice(None), slice(None), *(slice(pad, pad + size) for pad, size in zip(self.pads, many, strict=True)))]
        y = y + a["b"].reshape(-1, *(1 for _ in self.sizes)) + a.get("r", 0)
        return y if self.after == "none" else np.maximum(y, 0)


def _times(sizes: Iterable[int]) -> str:
    return "x".join(map(str, sizes))


def square(batch: int, size: int, channels: int, outputs: int, taps: int, stride: int, after: str) -> Case:
    """A case of square images and windows."""
    return Case(batch, (size, size), channels, outputs, (taps, taps), stride, after)


def cases() -> Iterator[Case]:
    """Those of one image, then the same with sixteen; convolutions that both networks have come once."""
    for batch in (1, 16):
        yield from dict.fromkeys((*_resnet50(batch), *_resnet18(batch)))


def _resnet50(batch: int) -> Iterator[Case]:
    """Each of four stages begins with a block that has a convolution beside it; the stride is in the 3 x 3 one."""
    yield square(batch, 224, 3, 64, 7, 2, "relu")
    channels, size = 64, 56
    for stage in range(4):
        inner = 64 << stage
        stride = 1 if stage == 0 else 2
        yield square(batch, size, channels, inner, 1, 1, "relu")
        yield square(batch, size, inner, inner, 3, stride, "relu")
        yield square(batch, size, channels, 4 * inner, 1, stride, "none")
        channels, size = 4 * inner, size // stride
        yield square(batch, size, inner, channels, 1, 1, "residual")
        yield square(batch, size, channels, inner, 1, 1, "relu")
        yield square(batch, size, inner, inner, 3, 1, "relu")


def _resnet18(batch: int) -> Iterator[Case]:
    yield square(batch, 224, 3, 64, 7, 2, "relu")
    channels, size = 64, 56
    for stage in range(4):
        outputs = 64 << stage
        if stage:
            yield square(batch, size, channels, outputs, 3, 2, "relu")
            yield square(batch, size, channels, outputs, 1, 2, "none")
            channels, size = outputs, size // 2
        yield square(batch, size, outputs, outputs, 3, 1, "residual")
        yield square(batch, size, outputs, outputs, 3, 1, "relu")


# --- the libraries: each makes a call of a case, whose result is seen as planar


def polyreme(case: Case, threads: int, folder: Path) -> Call:
    """Compiled in this process, through the IR."""
    from polyreme.dialects import nn
    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Return
    from polyreme.ir.types import TensorType, f32

    arrays = case.arrays()
    planar = case.channels == 3
    inputs = case.inputs(channels_last=not planar)
    main = Func.empty("main", [TensorType(a.shape, f32) for a in inputs.values()], arg_roles=("input",) * len(inputs))
    b = Builder.at_end(main.block)
    rank = len(case.sizes)
    last, first = (0, *range(2, 2 + rank), 1), (0, 1 + rank, *range(1, 1 + rank))
    x, *residual = main.args if planar else [b(nn.Transpose, a, perm=first) for a in main.args]
    numbers = {
        "strides": (case.stride,) * rank,
        "padding": tuple(p for pad in case.pads for p in (pad, pad)),
        "dilations": (case.dilation,) * rank,
        "groups": case.groups,
    }
    weight = b(nn.Constant, value=arrays["w"])
    if case.transposed:
        y = b(nn.Add, b(nn.ConvTranspose, x, weight, **numbers), b(nn.Constant, value=arrays["b"].reshape(-1, *(1,) * rank)))
    else:
        y = b(nn.Conv, x, weight, b(nn.Constant, value=arrays["b"]), **numbers)
    for r in residual:
        y = b(nn.Add, y, r)
    y = y if case.after == "none" else b(nn.Relu, y)
    b.insert(Return([b(nn.Transpose, y, perm=last)]))
    call = polyreme_call(main.finish(), list(inputs.values()), threads)
    return lambda: call().transpose(first)


def torch_last(case: Case, threads: int, folder: Path) -> Call:
    """oneDNN through torch, channels last."""
    return _torch(case, channels_last=True)


def torch_planar(case: Case, threads: int, folder: Path) -> Call:
    """oneDNN through torch, planar."""
    return _torch(case, channels_last=False)


def _torch(case: Case, channels_last: bool) -> Call:
    """Signals are images of one row."""
    import torch

    rank = max(len(case.sizes), 2)
    order = torch.contiguous_format if not channels_last else torch.channels_last if rank == 2 else torch.channels_last_3d
    t = {name: torch.from_numpy(a) for name, a in case.arrays().items()}
    if len(case.sizes) == 1:
        t |= {name: t[name].unsqueeze(2) for name in "xwr" if name in t}
    t |= {name: t[name].contiguous(memory_format=order) for name in "xwr" if name in t}
    ops, pads = torch.ops.mkldnn, [0] * (rank - len(case.sizes)) + list(case.pads)
    strides, dilations = [1] * (rank - len(case.sizes)) + [case.stride] * len(case.sizes), [case.dilation] * rank
    if case.transposed:
        between = [0] * rank
        packed = ops._reorder_convolution_transpose_weight(t["w"], pads, between, strides, dilations, case.groups, list(t["x"].shape))
        made = without_gradients(
            lambda: ops._convolution_transpose_pointwise(
                t["x"], packed, t["b"], pads, between, strides, dilations, case.groups, case.after, [], ""
            )
        )
    else:
        numbers = (pads, strides, dilations, case.groups)
        packed = ops._reorder_convolution_weight(t["w"], *numbers, list(t["x"].shape))
        if case.after == "residual":
            made = without_gradients(
                lambda: ops._convolution_pointwise.binary(t["x"], t["r"], packed, t["b"], *numbers, "add", 1.0, "relu", [], None)
            )
        else:
            made = without_gradients(lambda: ops._convolution_pointwise(t["x"], packed, t["b"], *numbers, case.after, [], ""))
    return made if rank == len(case.sizes) else lambda: made().squeeze(2)


def onnxruntime(case: Case, threads: int, folder: Path) -> Call:
    """ONNX Runtime; see `onnxruntime_call`."""
    return onnxruntime_call(_write_onnx(case, folder), case.inputs(), case.shape, threads)


def openvino_last(case: Case, threads: int, folder: Path) -> Call:
    """OpenVINO, channels last; see `openvino_call`."""
    call = openvino_call(_write_onnx(case, folder), case.inputs(channels_last=True), threads, channels_last=True)
    return lambda: np.moveaxis(call(), -1, 1)


def openvino_planar(case: Case, threads: int, folder: Path) -> Call:
    """OpenVINO, planar; see `openvino_call`."""
    return openvino_call(_write_onnx(case, folder), case.inputs(), threads)


def _write_onnx(case: Case, folder: Path) -> Path:
    """The case as a model; where it is."""
    from onnx import helper

    rank = len(case.sizes)
    numbers: dict[str, Any] = {
        "kernel_shape": case.taps,
        "strides": [case.stride] * rank,
        "pads": [*case.pads, *case.pads],
        "dilations": [case.dilation] * rank,
        "group": case.groups,
    }
    kind = "ConvTranspose" if case.transposed else "Conv"
    nodes = [helper.make_node(kind, ["x", "w", "b"], ["y" if case.after == "none" else "z"], **numbers)]
    if case.after == "residual":
        nodes.append(helper.make_node("Add", ["z", "r"], ["s"]))
    if case.after != "none":
        nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], ["y"]))
    path = folder / "convolution.onnx"
    write_onnx(path, nodes, case.arrays(), list(case.inputs()), case.shape)
    return path


SUITE = Suite(
    module="benchmarks.convolutions",
    cases=cases,
    libraries={f.__name__: f for f in (polyreme, torch_last, torch_planar, onnxruntime, openvino_last, openvino_planar)},
    about="Every distinct convolution of ResNet-50 and ResNet-18 by Polyreme and its peers",
)

if __name__ == "__main__":
    run(SUITE)
