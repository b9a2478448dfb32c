"""Matrix products of Polyreme and its peers on the same operands, interleaved.

    python -m benchmarks.products --threads 1 --torch ../torch/bin/python --peers ../peers/bin/python --markdown products.md

How it measures is said in `benchmarks/beside.py`; the reference is the float64 product.

A case is *constant* (weights known ahead of time, so that every library may pack them; here with a bias and what follows), *argument* (both
operands come with the call), *transposed* (the same, with the second operand as `[n, k]`), *free* (constant weights; we compile it once for
any number of rows, the peers know the number), or *mlp* (layers of constant weights with relu between them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside import Array, Call, Suite, onnxruntime_call, openvino_call, polyreme_call, run, without_gradients, write_onnx


@dataclass(frozen=True)
class Case:
    """One product: `sizes` are m, k, n, or the layers' widths after m; `after` is none, relu, gelu or residual."""

    kind: str
    sizes: tuple[int, ...]
    batch: int = 0
    after: str = "none"
    dtype: str = "float32"

    @property
    def name(self) -> str:
        words = ["x".join(map(str, (*((self.batch,) if self.batch else ()), *self.sizes))), self.kind]
        words += [w for w in (self.after, self.dtype) if w not in ("none", "float32")]
        return " ".join(words)

    @property
    def operations(self) -> float:
        m, *widths = self.sizes
        return 2.0 * max(1, self.batch) * m * sum(a * b for a, b in zip(widths, widths[1:], strict=False))

    @property
    def layers(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes[1:], self.sizes[2:], strict=False))

    def arrays(self) -> dict[str, Array]:
        """The operands by name: x, then w or w0, b0, w1, …; residual r."""
        rng = np.random.default_rng(0)
        front = (self.batch,) if self.batch else ()

        def draw(*shape: int) -> Array:
            return np.asarray(rng.standard_normal(shape), self.dtype)

        made = {"x": draw(*front, *self.sizes[:2])}
        if self.kind in ("argument", "transposed"):
            k, n = self.sizes[1:]
            made["w"] = draw(*front, *((n, k) if self.kind == "transposed" else (k, n)))
            return made
        for i, (k, n) in enumerate(self.layers):
            made[f"w{i}"], made[f"b{i}"] = draw(k, n) * np.asarray(k**-0.5, self.dtype), draw(n)
        if self.after == "residual":
            made["r"] = draw(self.sizes[0], self.sizes[-1])
        return made

    def inputs(self) -> dict[str, Array]:
        """Those of the arrays that come with the call."""
        return {name: array for name, array in self.arrays().items() if name in "xwr"}

    def reference(self) -> Array:
        """The result in float64."""
        a = {name: value.astype(np.float64) for name, value in self.arrays().items()}
        if "w" in a:
            return a["x"] @ (a["w"].swapaxes(-1, -2) if self.kind == "transposed" else a["w"])
        y = a["x"]
        for i in range(len(self.layers)):
            y = y @ a[f"w{i}"] + a[f"b{i}"]
            last = i == len(self.layers) - 1
            if self.after == "relu" or (self.kind == "mlp" and not last):
                y = np.maximum(y, 0)
        if self.after == "gelu":
            from math import erf

            y = y * 0.5 * (1 + np.vectorize(erf)(y / 2**0.5))
        return y + a["r"] if "r" in a else y


def cases() -> Iterator[Case]:
    """Squares, BERT's and ResNet's shapes, an MLP, one row, batches, odd sizes, what follows a product, float64."""
    squares = [(512, 512, 512), (1024, 1024, 1024)]
    bert = [(m, k, n) for m in (128, 384) for k, n in ((768, 768), (768, 2304), (768, 3072), (3072, 768))]
    resnet = [(3136, 64, 256), (3136, 256, 64), (784, 512, 128), (196, 1024, 256), (49, 2048, 512), (49, 512, 2048)]
    odd = [(127, 769, 1001), (67, 129, 257), (333, 333, 333)]
    for shape in (*squares, *bert, *resnet, *odd):
        yield Case("constant", shape)
    for shape in ((1, 768, 768), (1, 768, 3072), (1, 3072, 768), (1, 4096, 4096)):
        yield Case("constant", shape)
    for rows in (1, 128):
        yield Case("mlp", (rows, 784, 512, 512, 10))
    for shape in (*squares, *bert[:4], (196, 1024, 256), (49, 2048, 512), (49, 512, 2048), odd[0]):
        yield Case("argument", shape)
    for shape in (squares[0], bert[0], bert[2], bert[3]):
        yield Case("transposed", shape)
    yield Case("transposed", (128, 64, 128), 12)
    yield Case("argument", (128, 128, 64), 12)
    yield Case("transposed", (384, 64, 384), 12)
    yield Case("argument", (384, 384, 64), 12)
    for after in ("relu", "gelu", "residual"):
        yield Case("constant", (128, 768, 3072), after=after)
    for shape in (squares[0], bert[0], bert[2], (16, 768, 768), resnet[3], odd[0]):
        yield Case("free", shape)
    yield Case("constant", (512, 512, 512), dtype="float64")


# --- the libraries: each makes a call of a case


def polyreme(case: Case, threads: int, folder: Path) -> Call:
    """Compiled in this process, through the IR."""
    from polyreme.dialects import nn
    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Return
    from polyreme.ir.dims import symbol
    from polyreme.ir.types import TensorType, f32, f64

    dtype = f64 if case.dtype == "float64" else f32
    arrays = case.arrays()
    inputs = list(case.inputs().values())
    shapes = [(symbol("M"), *a.shape[1:]) if case.kind == "free" else a.shape for a in inputs]
    main = Func.empty("main", [TensorType(shape, dtype) for shape in shapes], arg_roles=("input",) * len(inputs))
    b = Builder.at_end(main.block)
    y = main.args[0]
    if "w" in arrays:
        y = b(nn.MatMul, y, main.args[1], transpose_y=case.kind == "transposed")
    for i in range(len(case.layers) if "w" not in arrays else 0):
        y = b(nn.Add, b(nn.MatMul, y, b(nn.Constant, value=arrays[f"w{i}"])), b(nn.Constant, value=arrays[f"b{i}"]))
        if case.after == "relu" or (case.kind == "mlp" and i < len(case.layers) - 1):
            y = b(nn.Relu, y)
    if case.after == "gelu":
        y = b(nn.Gelu, y)
    if "r" in arrays:
        y = b(nn.Add, y, main.args[1])
    b.insert(Return([y]))
    return polyreme_call(main.finish(), inputs, threads)


def torch_mm(case: Case, threads: int, folder: Path) -> Call:
    """Plain torch: MKL's products, with `addmm` and the functions that follow it."""
    import torch

    t = {name: torch.from_numpy(value) for name, value in case.arrays().items()}
    if "w" in t:
        w = t["w"].transpose(-1, -2) if case.kind == "transposed" else t["w"]
        return without_gradients(lambda: torch.matmul(t["x"], w))
    return _torch_layers(case, t, lambda i, y: torch.addmm(t[f"b{i}"], y, t[f"w{i}"]))


def torch_mkl(case: Case, threads: int, folder: Path) -> Call | None:
    """torch with weights packed ahead of time for MKL, as its compiler does; None for what has no such form."""
    import torch

    if case.dtype != "float32" or case.kind in ("argument", "transposed"):
        return None
    t = {name: torch.from_numpy(value) for name, value in case.arrays().items()}
    ops, m = torch.ops.mkl, case.sizes[0]
    plain = [t[f"w{i}"].t().contiguous() for i in range(len(case.layers))]
    packed = [ops._mkl_reorder_linear_weight(w, m) for w in plain]
    return _torch_layers(case, t, lambda i, y: ops._mkl_linear(y, packed[i], plain[i], t[f"b{i}"], m))


def torch_onednn(case: Case, threads: int, folder: Path) -> Call | None:
    """torch with weights packed ahead of time for oneDNN, as its compiler does; None for what has no such form."""
    import torch

    if case.dtype != "float32" or case.kind in ("argument", "transposed"):
        return None
    t = {name: torch.from_numpy(value) for name, value in case.arrays().items()}
    ops = torch.ops.mkldnn
    packed = [ops._reorder_linear_weight(t[f"w{i}"].t().contiguous(), case.sizes[0]) for i in range(len(case.layers))]
    relu = lambda i: case.after == "relu" or (case.kind == "mlp" and i < len(case.layers) - 1)
    if case.after == "gelu":
        return without_gradients(lambda: ops._linear_pointwise(t["x"], packed[0], t["b0"], "gelu", [], "none"))
    if case.after == "residual":
        return without_gradients(lambda: ops._linear_pointwise.binary(t["x"], t["r"], packed[0], t["b0"], "add"))

    def call() -> Any:
        y = t["x"]
        for i, w in enumerate(packed):
            y = ops._linear_pointwise(y, w, t[f"b{i}"], "relu" if relu(i) else "none", [], "")
        return y

    return without_gradients(call)


def _torch_layers(case: Case, t: dict[str, Any], linear: Callable[[int, Any], Any]) -> Call:
    import torch

    def call() -> Any:
        y = t["x"]
        for i in range(len(case.layers)):
            y = linear(i, y)
            if case.after == "relu" or (case.kind == "mlp" and i < len(case.layers) - 1):
                y = torch.relu_(y)
        if case.after == "gelu":
            y = torch.nn.functional.gelu(y)
        return y + t["r"] if "r" in t else y

    return without_gradients(call)


def onnxruntime(case: Case, threads: int, folder: Path) -> Call:
    """ONNX Runtime; see `onnxruntime_call`."""
    return onnxruntime_call(_write_onnx(case, folder), case.inputs(), case.reference().shape, threads)


def openvino(case: Case, threads: int, folder: Path) -> Call | None:
    """OpenVINO; see `openvino_call`. None for float64, which it would round."""
    return openvino_call(_write_onnx(case, folder), case.inputs(), threads) if case.dtype == "float32" else None


def _write_onnx(case: Case, folder: Path) -> Path:
    """The case as a model; where it is."""
    from onnx import helper

    arrays = case.arrays()
    node, nodes = helper.make_node, []
    if case.kind == "transposed":
        perm = [*range(arrays["w"].ndim - 2), arrays["w"].ndim - 1, arrays["w"].ndim - 2]
        nodes += [node("Transpose", ["w"], ["wt"], perm=perm), node("MatMul", ["x", "wt"], ["y"])]
    elif case.kind == "argument":
        nodes.append(node("MatMul", ["x", "w"], ["y"]))
    else:
        at = "x"
        for i in range(len(case.layers)):
            nodes.append(node("Gemm", [at, f"w{i}", f"b{i}"], [f"g{i}"]))
            at = f"g{i}"
            if case.after == "relu" or (case.kind == "mlp" and i < len(case.layers) - 1):
                nodes.append(node("Relu", [at], [f"h{i}"]))
                at = f"h{i}"
        last = {"gelu": node("Gelu", [at], ["y"]), "residual": node("Add", [at, "r"], ["y"])}
        nodes.append(last.get(case.after, node("Identity", [at], ["y"])))
    path = folder / "product.onnx"
    write_onnx(path, nodes, arrays, list(case.inputs()), case.reference().shape)
    return path


SUITE = Suite(
    module="benchmarks.products",
    cases=cases,
    libraries={f.__name__: f for f in (polyreme, torch_mm, torch_mkl, torch_onednn, onnxruntime, openvino)},
    about="Matrix products of Polyreme and its peers",
    # One row is bound by reading the weights.
    counted=lambda name: not name.startswith("1x"),
)

if __name__ == "__main__":
    run(SUITE)
