"""Every distinct convolution of ResNet-50 and ResNet-18 by Polyreme and its peers on the same operands, interleaved.

    python -m benchmarks.convolutions --threads 1 --only "1 x " --torch ../torch/bin/python --peers ../peers/bin/python --markdown convolutions.md

How it measures is said in `benchmarks/beside.py`; the reference is the float64 convolution, and operations are counted as the plain way makes them, whatever
algorithm a library takes: more than all of the peak is possible.

Weights, with the batch norm in them, and biases are known ahead of time, so that every library may pack them. oneDNN is measured through torch (`_convolution_pointwise`,
which torch's compiler uses, with activation and residual in it) and through OpenVINO. Each of the two has its operands in either order, channels last as well as planar, and
the faster one counts. ONNX Runtime knows planar ones only. Ours are channels last, as they are within a network, but for the first image, which comes planar from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside import Array, Call, Suite, onnxruntime_call, openvino_call, polyreme_call, run, without_gradients, write_onnx

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class Case:
    """Square windows of `taps` x `taps` pixels, `stride` apart, over images of `size` x `size` pixels with zeros around; bias; `after` is none, relu, or residual (its sum, then relu)."""

    batch: int
    size: int
    channels: int
    outputs: int
    taps: int
    stride: int
    after: str
    dtype: str = "float32"

    @property
    def name(self) -> str:
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        after = f" {self.after}" if self.after != "none" else ""
        return f"{self.batch} x {self.size}x{self.size} {self.channels} to {self.outputs} {self.taps}x{self.taps}{stride}{after}"

    @property
    def pad(self) -> int:
        return self.taps // 2

    @property
    def places(self) -> int:
        """Rows and columns of the result."""
        return (self.size + 2 * self.pad - self.taps) // self.stride + 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.batch, self.outputs, self.places, self.places

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * self.places**2 * self.outputs * self.channels * self.taps**2

    def arrays(self) -> dict[str, Array]:
        """The operands by name, planar: image x, weights w [outputs, channels, taps, taps], bias b, residual r."""
        rng = np.random.default_rng(0)

        def draw(*shape: int) -> Array:
            return rng.standard_normal(shape, np.float32)

        steps = self.channels * self.taps**2
        made = {"x": draw(self.batch, self.channels, self.size, self.size), "b": draw(self.outputs)}
        made["w"] = draw(self.outputs, self.channels, self.taps, self.taps) * np.float32(steps**-0.5)
        if self.after == "residual":
            made["r"] = draw(*self.shape)
        return made

    def inputs(self, channels_last: bool = False) -> dict[str, Array]:
        """Those of the arrays that come with the call."""
        given = {name: array for name, array in self.arrays().items() if name in "xr"}
        return {name: np.ascontiguousarray(a.transpose(LAST)) for name, a in given.items()} if channels_last else given

    def reference(self) -> Array:
        """The result in float64, planar, tap by tap."""
        a = {name: value.astype(np.float64) for name, value in self.arrays().items()}
        x = np.pad(a["x"], [(0, 0), (0, 0), (self.pad,) * 2, (self.pad,) * 2])
        y = np.zeros((self.batch, self.outputs, self.places**2))
        reach = (self.places - 1) * self.stride + 1
        for i in range(self.taps):
            for j in range(self.taps):
                seen = x[:, :, i : i + reach : self.stride, j : j + reach : self.stride]
                y += a["w"][:, :, i, j] @ seen.reshape(self.batch, self.channels, -1)
        y = y.reshape(self.shape) + a["b"][:, None, None] + a.get("r", 0)
        return y if self.after == "none" else np.maximum(y, 0)


def cases() -> Iterator[Case]:
    """Those of one image, then the same with sixteen; convolutions that both networks have come once."""
    for batch in (1, 16):
        yield from dict.fromkeys((*_resnet50(batch), *_resnet18(batch)))


def _resnet50(batch: int) -> Iterator[Case]:
    """Each of four stages begins with a block that has a convolution beside it; the stride is in the 3 x 3 one."""
    yield Case(batch, 224, 3, 64, 7, 2, "relu")
    channels, size = 64, 56
    for stage in range(4):
        inner = 64 << stage
        stride = 1 if stage == 0 else 2
        yield Case(batch, size, channels, inner, 1, 1, "relu")
        yield Case(batch, size, inner, inner, 3, stride, "relu")
        yield Case(batch, size, channels, 4 * inner, 1, stride, "none")
        channels, size = 4 * inner, size // stride
        yield Case(batch, size, inner, channels, 1, 1, "residual")
        yield Case(batch, size, channels, inner, 1, 1, "relu")
        yield Case(batch, size, inner, inner, 3, 1, "relu")


def _resnet18(batch: int) -> Iterator[Case]:
    yield Case(batch, 224, 3, 64, 7, 2, "relu")
    channels, size = 64, 56
    for stage in range(4):
        outputs = 64 << stage
        if stage:
            yield Case(batch, size, channels, outputs, 3, 2, "relu")
            yield Case(batch, size, channels, outputs, 1, 2, "none")
            channels, size = outputs, size // 2
        yield Case(batch, size, outputs, outputs, 3, 1, "residual")
        yield Case(batch, size, outputs, outputs, 3, 1, "relu")


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
    x, *residual = main.args if planar else [b(nn.Transpose, a, perm=FIRST) for a in main.args]
    weight, bias = (b(nn.Constant, value=arrays[name]) for name in "wb")
    y = b(nn.Conv, x, weight, bias, strides=(case.stride,) * 2, padding=(case.pad,) * 4, dilations=(1, 1), groups=1)
    for r in residual:
        y = b(nn.Add, y, r)
    y = y if case.after == "none" else b(nn.Relu, y)
    b.insert(Return([b(nn.Transpose, y, perm=LAST)]))
    call = polyreme_call(main.finish(), list(inputs.values()), threads)
    return lambda: call().transpose(FIRST)


def torch_last(case: Case, threads: int, folder: Path) -> Call:
    """oneDNN through torch, channels last."""
    return _torch(case, channels_last=True)


def torch_planar(case: Case, threads: int, folder: Path) -> Call:
    """oneDNN through torch, planar."""
    return _torch(case, channels_last=False)


def _torch(case: Case, channels_last: bool) -> Call:
    import torch

    order = torch.channels_last if channels_last else torch.contiguous_format
    t = {name: torch.from_numpy(a) for name, a in case.arrays().items()}
    t |= {name: t[name].contiguous(memory_format=order) for name in "xwr" if name in t}
    ops, numbers = torch.ops.mkldnn, ([case.pad] * 2, [case.stride] * 2, [1, 1], 1)
    packed = ops._reorder_convolution_weight(t["w"], *numbers, list(t["x"].shape))
    if case.after == "residual":
        return without_gradients(lambda: ops._convolution_pointwise.binary(t["x"], t["r"], packed, t["b"], *numbers, "add", 1.0, "relu", [], None))
    return without_gradients(lambda: ops._convolution_pointwise(t["x"], packed, t["b"], *numbers, case.after, [], ""))


def onnxruntime(case: Case, threads: int, folder: Path) -> Call:
    """ONNX Runtime; see `onnxruntime_call`."""
    return onnxruntime_call(_write_onnx(case, folder), case.inputs(), case.shape, threads)


def openvino_last(case: Case, threads: int, folder: Path) -> Call:
    """OpenVINO, channels last; see `openvino_call`."""
    call = openvino_call(_write_onnx(case, folder), case.inputs(channels_last=True), threads, channels_last=True)
    return lambda: call().transpose(FIRST)


def openvino_planar(case: Case, threads: int, folder: Path) -> Call:
    """OpenVINO, planar; see `openvino_call`."""
    return openvino_call(_write_onnx(case, folder), case.inputs(), threads)


def _write_onnx(case: Case, folder: Path) -> Path:
    """The case as a model; where it is."""
    from onnx import helper

    numbers: dict[str, Any] = {"kernel_shape": [case.taps] * 2, "strides": [case.stride] * 2, "pads": [case.pad] * 4}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y" if case.after == "none" else "z"], **numbers)]
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
