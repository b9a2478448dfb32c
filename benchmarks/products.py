"""Matrix products of Polyreme and its peers on the same operands, interleaved.

    python -m benchmarks.products --threads 1 --torch ../torch/bin/python --peers ../peers/bin/python --markdown products.md

Every library runs in a process of its own, and all of them are timed in turns within a round, so that a slow moment of the machine meets them all. Each turn
gives its tenth percentile; a ratio is the fastest peer's time over ours within a round, and the median round is reported with the spread. The peak of
multiply-adds is measured in our own process, in the same rounds. Before anything is timed, all results are compared with the float64 product.

A case is *constant* (weights known ahead of time, so that every library may pack them; here with a bias and what follows), *argument* (both operands come
with the call), *transposed* (the same, with the second operand as `[n, k]`), *free* (constant weights; we compile it once for any number of rows, the
peers know the number), or *mlp* (layers of constant weights with relu between them).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import Worker, answer

Array = Any
Call = Callable[[], Any]
TEMPLATE = "| {:34} |" + " {:>12} |" * 6 + " {:>7} | {:>17} |"


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
    from polyreme.ir.builtin import Func, Module, Return
    from polyreme.ir.dims import symbol
    from polyreme.ir.types import TensorType, f32, f64
    from polyreme.lowering.pipeline import compile_module
    from polyreme.runtime.threads import set_num_threads

    set_num_threads(threads)
    dtype = f64 if case.dtype == "float64" else f32
    arrays = case.arrays()
    inputs = [arrays[name] for name in ("x", "w", "r") if name in arrays]
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
    module = Module.empty()
    module.block.append(main.finish())
    run = compile_module(module, name="product").load().run
    return lambda: run(inputs)[0]


def torch_mm(case: Case, threads: int, folder: Path) -> Call:
    """Plain torch: MKL's products, with `addmm` and the functions that follow it."""
    import torch

    t = {name: torch.from_numpy(value) for name, value in case.arrays().items()}
    if "w" in t:
        w = t["w"].transpose(-1, -2) if case.kind == "transposed" else t["w"]
        return _without_gradients(lambda: torch.matmul(t["x"], w))
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
        return _without_gradients(lambda: ops._linear_pointwise(t["x"], packed[0], t["b0"], "gelu", [], "none"))
    if case.after == "residual":
        return _without_gradients(lambda: ops._linear_pointwise.binary(t["x"], t["r"], packed[0], t["b0"], "add"))

    def call() -> Any:
        y = t["x"]
        for i, w in enumerate(packed):
            y = ops._linear_pointwise(y, w, t[f"b{i}"], "relu" if relu(i) else "none", [], "")
        return y

    return _without_gradients(call)


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

    return _without_gradients(call)


def _without_gradients(call: Call) -> Call:
    import torch

    torch.set_grad_enabled(False)
    return call


def onnxruntime(case: Case, threads: int, folder: Path) -> Call:
    """ONNX Runtime with all its optimisations, on inputs and outputs that stay where they are."""
    import onnxruntime as ort

    path = folder / "product.onnx"
    _write_onnx(case, path)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    arrays = case.arrays()
    for name in ("x", "w", "r"):
        if name in arrays:
            binding.bind_cpu_input(name, arrays[name])
    out = np.empty(case.reference().shape, case.dtype)
    binding.bind_output("y", "cpu", 0, out.dtype.type, out.shape, out.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return out

    return call


def openvino(case: Case, threads: int, folder: Path) -> Call | None:
    """OpenVINO in its latency mode, in float32, on tensors that stay where they are; None for float64, which it would round."""
    import openvino as ov

    if case.dtype != "float32":
        return None

    path = folder / "product.onnx"
    _write_onnx(case, path)
    core = ov.Core()
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(path), "CPU", hints)
    request = compiled.create_infer_request()
    arrays = case.arrays()
    kept = {name: ov.Tensor(arrays[name], shared_memory=True) for name in ("x", "w", "r") if name in arrays}
    for name, tensor in kept.items():
        request.set_tensor(name, tensor)
    output = request.get_output_tensor(0)

    def call() -> Array:
        request.infer()
        return output.data

    call.kept = kept  # type: ignore[attr-defined]
    return call


def _write_onnx(case: Case, path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    arrays = case.arrays()
    kind = TensorProto.DOUBLE if case.dtype == "float64" else TensorProto.FLOAT
    node, nodes, inputs = helper.make_node, [], [name for name in ("x", "w", "r") if name in arrays]
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
    initializers = [numpy_helper.from_array(v, name) for name, v in arrays.items() if name not in inputs]
    shape = case.reference().shape
    infos = [helper.make_tensor_value_info(name, kind, arrays[name].shape) for name in inputs]
    graph = helper.make_graph(nodes, "product", infos, [helper.make_tensor_value_info("y", kind, shape)], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))


LIBRARIES: dict[str, Callable[[Case, int, Path], Call | None]] = {
    f.__name__: f for f in (polyreme, torch_mm, torch_mkl, torch_onednn, onnxruntime, openvino)  # type: ignore[dict-item]
}


def work(library: str, threads: int, folder: Path) -> None:
    """A worker: prepares cases, then times the one asked for."""
    if library.startswith("torch"):
        import torch

        torch.set_num_threads(threads)
    calls: dict[str, Call] = {}
    seconds: list[float] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "peak":
            from benchmarks.kernels import peak
            from polyreme.ir.types import f32, f64

            made = peak(f64 if request["dtype"] == "float64" else f32)
            calls["peak " + request["dtype"]] = made.call
            return {"operations": made.operations}
        if request["do"] == "prepare":
            case = Case(**{**request["case"], "sizes": tuple(request["case"]["sizes"])})
            call = LIBRARIES[library](case, threads, folder)
            if call is None:
                return {"error": None}
            calls[case.name] = call
            y, want = np.asarray(call()), case.reference()
            return {"error": float(np.abs(y - want).max() / np.abs(want).max())}
        call = calls[request["name"]]
        call()
        seconds.clear()
        end = time.perf_counter() + request["seconds"]
        while len(seconds) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return {"p10": float(np.percentile(seconds, 10))}

    answer(handle)


@dataclass
class Row:
    """One case: microseconds by library (the median round's), our part of the peak, the best peer's time over ours in each round."""

    name: str
    threads: int
    operations: float
    us: dict[str, float]
    of_peak: float
    ratio: float
    ratio_low: float
    ratio_high: float


def measure(case: Case, workers: dict[str, Worker], threads: int, rounds: int, turn: float) -> Row:
    """Compare the results of all libraries, then time them in turns."""
    able = []
    for library, worker in workers.items():
        error = worker.ask(do="prepare", case=asdict(case))["error"]
        if error is not None:
            able.append(library)
            limit = 1e-12 if case.dtype == "float64" else 1e-5
            if error > limit:
                raise SystemExit(f"expected {library} to agree within {limit} of the largest result for {case.name} but it is off by {error:.1e}")
    times: dict[str, list[float]] = {library: [] for library in able}
    peaks: list[float] = []
    for _ in range(rounds):
        peaks.append(workers["polyreme"].ask(do="time", name=f"peak {case.dtype}", seconds=turn / 2)["p10"])
        for library in able:
            times[library].append(workers[library].ask(do="time", name=case.name, seconds=turn)["p10"])
    best = [min((times[p][i] for p in able if p != "polyreme"), default=float("nan")) for i in range(rounds)]
    ratios = sorted(peer / ours for peer, ours in zip(best, times["polyreme"], strict=True))
    flops = workers["polyreme"].ask(do="peak", dtype=case.dtype)["operations"]
    parts = [case.operations / ours / (threads * flops / p) for ours, p in zip(times["polyreme"], peaks, strict=True)]
    us = {library: statistics.median(values) * 1e6 for library, values in times.items()}
    return Row(case.name, threads, case.operations, us, statistics.median(parts), statistics.median(ratios), ratios[0], ratios[-1])


def line(row: Row) -> str:
    us = [f"{row.us[x]:.1f}" if x in row.us else "" for x in LIBRARIES]
    ratio = f"{row.ratio:.2f} ({row.ratio_low:.2f}-{row.ratio_high:.2f})" if len(row.us) > 1 else ""
    return TEMPLATE.format(row.name, *us, f"{row.of_peak:.0%}", ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=0.03, help="seconds for each library in each round")
    parser.add_argument("--only", default="", help="cases whose names contain one of these words, divided by commas")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--peers", help="a Python that has onnxruntime, openvino and onnx")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], options.threads, Path(options.worker[1]))
        return
    pythons = {"polyreme": sys.executable}
    pythons |= {x: options.torch for x in ("torch_mm", "torch_mkl", "torch_onednn") if options.torch}
    pythons |= {x: options.peers for x in ("onnxruntime", "openvino") if options.peers}
    chosen = [c for c in cases() if any(word in c.name for word in options.only.split(","))]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        workers = {}
        for library, python in pythons.items():
            folder = Path(scratch) / library
            folder.mkdir()
            env = dict(os.environ, OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))
            command = [python, "-m", "benchmarks.products", "--threads", str(options.threads), "--worker", library, str(folder)]
            workers[library] = Worker(library, command, env)
        try:
            for dtype in ("float32", "float64"):
                workers["polyreme"].ask(do="peak", dtype=dtype)
            table = [TEMPLATE.format(f"microseconds, {options.threads} threads", *LIBRARIES, "of peak", "best / ours"), "|---|" + "--:|" * (len(LIBRARIES) + 2)]
            print(*table, sep="\n")
            for case in chosen:
                rows.append(measure(case, workers, options.threads, options.rounds, options.turn))
                table.append(line(rows[-1]))
                print(table[-1], flush=True)
        finally:
            for worker in workers.values():
                worker.stop()
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text("\n".join(table) + "\n")
    many = [r.of_peak for r in rows if not r.name.startswith("1x")]
    if many:
        print(f"\nmean part of the peak, one-row cases left out: {statistics.mean(many):.1%}")
    if len(pythons) > 1:
        print(f"at or above the best peer: {sum(r.ratio >= 1 for r in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
