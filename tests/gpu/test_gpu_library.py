"""Libraries for a GPU with a C interface, on a stand-in for the driver that executes their very PTX: the numbers of the CPU's library, and
what they say and give back where something is missing.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.link import gpu_interface
from polyreme.lowering.link.gpu_interface import CALLS, FUNCTIONS
from polyreme.runtime.errors import ArtifactError, CallError, ContentError
from polyreme.runtime.gpu.drivers import GpuError, OutOfMemoryError
from polyreme.runtime.gpu.executable import GpuExecutable
from polyreme.runtime.gpu.library import artifacts_in
from polyreme.runtime.library import read_library
from polyreme.runtime.memory import numpy_dtype
from tests.gpu.libcuda_stand_in import ILLEGAL_ADDRESS, NO_DEVICE, OUT_OF_MEMORY, LibcudaStandIn
from tests.gpu.networks import LstmCell, ResidualBlock, TransformerLayer, mlp
from tests.gpu.ptxas import needs_ptxas

BAD_ARGUMENT, BAD_SHAPE, NO_MEMORY, BAD_WEIGHTS, BAD_DATA, TOO_SMALL, BAD_DEVICE = range(1, 8)
F = paddle.nn.functional
Array = np.ndarray[Any, Any]


def spec(*shape: int | str | None, dtype: str = "float32", name: str = "x") -> Any:
    return paddle.static.InputSpec(list(shape), dtype, name)


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """The driver; when the test is over, everything has been given back to it."""
    (tmp_path / "driver").mkdir()
    made = LibcudaStandIn(tmp_path / "driver")
    monkeypatch.setenv("POLYREME_LIBCUDA", str(made.path))
    monkeypatch.setenv("POLYREME_PTXAS", "off")
    yield made
    made.check()


def written(net: Any, path: Path, specs: list[Any], target: str = "cuda:sm_80", **options: Any) -> Path:
    if isinstance(net, paddle.nn.Layer):
        net.eval()
    paddle.compile(net, path, target=target, input_spec=specs, **options)
    return path


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Libraries by their models' classes or functions, each written once, with the model; without code of a device."""
    made: dict[Any, tuple[Path, Any]] = {}

    def library(make: Any) -> tuple[Path, Any]:
        if make not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("POLYREME_PTXAS", "off")
                net = make()
                made[make] = written(net, tmp_path_factory.mktemp("net") / "net.so", _SPECS[make]), net
        return made[make]

    return library


class CModel:
    """The C interface of a library, as a program uses it."""

    def __init__(self, path: Path, device: int | None = None, weights: Path | None = None):
        self.name = path.stem
        self.manifest = read_library(path).manifest
        self.library = ctypes.CDLL(str(path))
        error = c_char_p()
        if device is None and weights is None:
            create = self._function("create", c_void_p, c_int32, POINTER(c_char_p))
            self.model = create(0, ctypes.byref(error))
        else:
            create = self._function("create_on", c_void_p, c_int32, c_char_p, POINTER(c_char_p))
            self.model = create(device or 0, str(weights).encode() if weights else None, ctypes.byref(error))
        self.error = (error.value or b"").decode()

    def _function(self, name: str, result: Any, *types: Any) -> Any:
        found = getattr(self.library, f"{self.name}_{name}")
        found.restype, found.argtypes = result, list(types)
        return found

    def run(self, *inputs: Array, shapes: list[Any] | None = None, outputs: list[Array] | None = None) -> tuple[int, list[Array]]:
        """The code, and what the outputs hold."""
        shapes = [a.shape for a in inputs] if shapes is None else shapes
        results = self.outputs(shapes) if outputs is None else outputs
        code = self._function("run", c_int32, *[c_void_p] * 4)(
            self.model, pointers([a.ctypes.data for a in inputs]), pointers(map(ctypes.addressof, held := sizes_of(shapes))),
            pointers([a.ctypes.data for a in results]),
        )  # fmt: skip
        del held
        return code, results

    def run_on_device(self, inputs: list[int], shapes: list[Any], outputs: list[int], stream: int | None = None) -> int:
        held = sizes_of(shapes)
        function = self._function("run_on_device", c_int32, *[c_void_p] * 5)
        return int(function(self.model, pointers(inputs), pointers(map(ctypes.addressof, held)), pointers(outputs), stream))

    def outputs(self, shapes: list[Any]) -> list[Array]:
        """Arrays for the results of inputs of these shapes, full of sevens."""
        found = [(c_int64 * max(1, len(t.shape)))() for t in self.manifest.outputs]
        code = self._function("output_shapes", c_int32, c_void_p, c_void_p)(
            pointers(map(ctypes.addressof, held := sizes_of(shapes))), pointers(map(ctypes.addressof, found))
        )
        assert code == 0, self.text()
        del held
        return [
            np.full(sizes[: len(t.shape)], 7).astype(numpy_dtype(t.dtype)) for t, sizes in zip(self.manifest.outputs, found, strict=True)
        ]

    def text(self) -> str:
        return bytes(self._function("error", c_char_p)()).decode()

    def destroy(self) -> None:
        self._function("destroy", None, c_void_p)(self.model)


def sizes_of(shapes: Any) -> list[Any]:
    return [(c_int64 * max(1, len(shape)))(*shape) for shape in shapes]


def pointers(addresses: Any) -> Any:
    found = list(addresses)
    return (c_void_p * max(1, len(found)))(*found)


# --- models


def bf16_products(x: Any, y: Any) -> Any:
    return paddle.matmul(x, y), paddle.nn.functional.relu(x)


def of_several(x: Any, y: Any, n: Any) -> Any:
    return paddle.add(x, y), paddle.matmul(x, y, transpose_y=True), n * 3, paddle.argmax(x, axis=1), x > 0


class LeNet(paddle.nn.Layer):
    """A narrow one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = paddle.nn.Conv2D(1, 2, 3, padding=1), paddle.nn.Conv2D(2, 4, 5)
        self.fc1, self.fc2 = paddle.nn.Linear(36, 24), paddle.nn.Linear(24, 5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 2)
        return self.fc2(F.relu(self.fc1(paddle.flatten(F.relu(self.conv2(x))[:, :, :3, :3], 1))))


class Tokens(paddle.nn.Layer):
    """Embeddings, a layer of a Transformer, and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = paddle.nn.Embedding(5, 16)
        self.layer, self.head = paddle.nn.TransformerEncoderLayer(16, 2, 32), paddle.nn.Linear(16, 5)

    def forward(self, ids: Any) -> Any:
        return self.head(self.layer(self.tokens(ids)))


class Lstm(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.cells = paddle.nn.LSTM(6, 8, num_layers=2)

    def forward(self, x: Any) -> Any:
        y, (h, c) = self.cells(x)
        return y, h, c


_SPECS = {mlp: [spec(None, 12)], LeNet: [spec(None, 1, 14, 14)], Tokens: [spec(None, 6, dtype="int64")]}
MODELS = {
    "mlp": (mlp, [spec(None, 12)], (3, 7)),
    "lenet": (LeNet, [spec(None, 1, 14, 14)], (2,)),
    "resnet block": (ResidualBlock, [spec(None, 4, 6, 6)], (2, 3)),
    "transformer": (TransformerLayer, [spec(None, 5, 16)], (2, 3)),
    "lstm cell": (LstmCell, [spec(None, 3, 6)], (2, 3)),
    "lstm": (Lstm, [spec(None, 3, 6)], (2, 3)),
    "tokens": (Tokens, [spec(None, 6, dtype="int64")], (2, 3)),
    "bfloat16": (lambda: bf16_products, [spec(16, 32, dtype="bfloat16"), spec(32, 16, dtype="bfloat16", name="y")], (None,)),
    "several": (lambda: of_several, [spec(None, 8), spec(None, 8, name="y"), spec(5, dtype="int32", name="n")], (4,)),
}


LONGER = ("transformer", "lstm", "lstm cell", "tokens", "resnet block")


def drawn(specs: list[Any], batch: int | None, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    arrays = []
    for given in specs:
        shape = [batch if size in (None, -1) else size for size in given.shape]
        kind = str(given.dtype).removeprefix("paddle.")
        is_whole = "int" in kind
        arrays.append(rng.integers(0, 5, shape).astype(kind) if is_whole else rng.standard_normal(shape).astype(numpy_dtype(kind)))
    return arrays


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONGER else n for n in MODELS])
def test_a_library_for_a_gpu_gives_what_the_library_for_a_cpu_gives(cuda, tmp_path, name):
    make, specs, batches = MODELS[name]
    paddle.seed(3)
    net = make()
    path = written(net, tmp_path / "net.so", specs)
    plain = paddle.compile(net, tmp_path / "plain.so", input_spec=specs)
    library = paddle.load_compiled(path)
    for batch in batches:
        # The second run records the launches, and the third one runs them from the record.
        for seed in range(3):
            arrays = drawn(specs, batch, seed)
            for got, expected in zip(library.run(arrays), plain.run(arrays), strict=True):
                assert got.shape == expected.shape and got.dtype == expected.dtype
                bound = 2e-2 if expected.dtype.name == "bfloat16" else 3e-5
                np.testing.assert_allclose(got.astype("float64"), expected.astype("float64"), rtol=bound, atol=bound)
    library.close()


class Choosing(paddle.nn.Layer):
    """Layers by what is computed, and as many rounds of one as that takes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.again = (paddle.nn.Linear(n, 4) for n in (3, 3, 4))

    def forward(self, x: Any) -> Any:
        if paddle.mean(x) > 0:
            y = self.one(x)
        else:
            y = self.other(x) - 1
        rounds = paddle.zeros([1], "int64")
        while paddle.max(paddle.abs(y)) < 10:
            y = self.again(y) * 3
            rounds = rounds + 1
        return y, rounds


def positive(x: Any) -> Any:
    return x[x > 0] * 2


def steps(x: Any, n: Any) -> Any:
    i = paddle.zeros([1], "int64")
    while i < n:
        x = x * 2 + 1
        i = i + 1
    return x


IN_PARTS = {
    "branches and loops": (Choosing, [spec(None, 3)], [np.ones((2, 3), "float32")], [-np.ones((5, 3), "float32")]),
    "sizes": (lambda: positive, [spec(None, 3)], [np.arange(-9, 9, dtype="float32").reshape(-1, 3)], [-np.ones((1, 3), "float32")]),
    "rounds": (lambda: steps, [spec(2), spec(1, dtype="int64", name="n")], [np.ones(2, "float32"), np.array([3])],
               [np.ones(2, "float32"), np.array([0])]),
}  # fmt: skip


@pytest.mark.parametrize("place", ["inside", "beside"])
@pytest.mark.parametrize("name", IN_PARTS)
def test_a_library_runs_what_the_host_decides_between_its_parts(cuda, tmp_path, monkeypatch, name, place):
    monkeypatch.setattr("polyreme.lowering.link.artifact.MAX_INSIDE_BYTES", 1 << 20 if place == "inside" else 0)
    # Results of which more are found than there is room for at first, and fewer.
    monkeypatch.setattr("polyreme.runtime.gpu.library.FIRST_ROOM", 4)
    make, specs, *calls = IN_PARTS[name]
    paddle.seed(3)
    net = make()
    path = written(net, tmp_path / "net.so", specs)
    assert len(read_library(path).manifest.parts) > 1
    assert "run_on_device" not in path.with_suffix(".h").read_text()
    library = paddle.load_compiled(path)
    plain = paddle.compile(net, tmp_path / "plain.so", input_spec=specs)
    with device_of_tests():
        emulated = paddle.load_compiled(path)
    for arrays in calls:
        expected = plain.run(arrays)
        for results in (library.run(arrays), library.run(arrays, [np.empty_like(a) for a in expected]), emulated.run(arrays)):
            for got, wanted in zip(results, expected, strict=True):
                assert got.shape == wanted.shape and got.dtype == wanted.dtype
                np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=3e-5)
    if name == "branches and loops":
        with pytest.raises(CallError, match="'out' for 'output_0' to be float32"):
            library.run(calls[0], [np.empty((1, 4), "float32"), None])
    library.close()


@contextmanager
def device_of_tests() -> Iterator[None]:
    paddle.set_device("gpu-emulated")
    try:
        yield
    finally:
        paddle.set_device("cpu")


def test_an_artifact_for_python_has_launches_in_one_order(tmp_path):
    written(Choosing(), tmp_path / "net.so", [spec(None, 3)])
    # What is kept of the library is none.
    with pytest.raises(PolyremeError, match=r"fixed order for a GPU but 'nn.if' .* and a library \(.so\), is cut there"):
        written(Choosing(), tmp_path / "net.cubin", [spec(None, 3)])


def test_what_python_runs_is_in_no_library(tmp_path):
    def with_values(x: Any) -> Any:
        return paddle.norm(x, p="nuc") if paddle.mean(x) > 0 else paddle.mean(x)

    with pytest.raises(PolyremeError, match=r"E0408.*one piece but 'host\.\w+' runs on the host, in Python, which a library does not have"):
        written(with_values, tmp_path / "net.so", [spec(3, 3)])


def test_whatever_fails_between_parts_is_told(cuda, tmp_path):
    path = written(Choosing(), tmp_path / "net.so", [spec(None, 3)])
    x = np.ones((2, 3), "float32")
    model = CModel(path)
    made = cuda.calls.copy()
    assert model.run(x)[0] == 0
    ran = cuda.calls - made
    model.destroy()
    for name in ("cuMemAlloc_v2", "cuModuleLoadDataEx", "cuDevicePrimaryCtxRetain"):
        for number in range(1, made[name] + 1):
            cuda.failing = {name: (ILLEGAL_ADDRESS, cuda.calls[name] + number)}
            model = CModel(path)
            cuda.failing = {}
            assert model.model is None and "CUDA_ERROR_ILLEGAL_ADDRESS" in model.error
            cuda.check()
    for name in ("cuMemAlloc_v2", "cuLaunchKernel", "cuStreamSynchronize"):
        for number in range(1, ran[name] + 1):
            model = CModel(path)
            cuda.failing = {name: (OUT_OF_MEMORY, cuda.calls[name] + number)}
            code, results = model.run(x)
            cuda.failing = {}
            assert code == NO_MEMORY and all((a == 7).all() for a in results), name
            assert model.run(x)[0] == 0
            model.destroy()
            cuda.check()


def test_weights_go_to_the_device_once_and_launches_are_replayed(cuda, libraries):
    path, _ = libraries(LeNet)
    library = paddle.load_compiled(path)
    assert cuda.calls["cuMemcpyHtoD_v2"] == 1 and not cuda.calls["cuMemcpyHtoDAsync_v2"]
    launches = []
    for batch in (2, 2, 2, 2, 1, 1, 2):
        before = cuda.calls.copy()
        library(np.zeros((batch, 1, 14, 14), "float32"))
        launches.append(cuda.calls["cuLaunchKernel"] - before["cuLaunchKernel"])
    count = launches[0]
    # Other sizes drop the graph; of sizes that come a second time one is recorded.
    assert count >= 3 and launches == [count, count, 0, 0, count, count, count]
    assert cuda.calls["cuGraphLaunch"] == 4 and cuda.calls["cuGraphInstantiateWithFlags"] == 2
    # Memory for weights, and for a call of two images, which is enough for one of one.
    assert cuda.calls["cuMemAlloc_v2"] == 2 and cuda.calls["cuMemcpyHtoD_v2"] == 1
    library.close()


def test_without_graphs_kernels_are_launched_one_by_one(tmp_path, monkeypatch, libraries):
    monkeypatch.setenv("POLYREME_PTXAS", "off")
    path, _ = libraries(LeNet)
    x = np.random.default_rng(0).standard_normal((2, 1, 14, 14)).astype("float32")
    expected = None
    for missing, failing in (
        (["cuGraphLaunch"], {}),
        ([], {"cuStreamBeginCapture_v2": (1, 1)}),
        ([], {"cuStreamEndCapture": (1, 1)}),
        ([], {"cuGraphInstantiateWithFlags": (OUT_OF_MEMORY, 1)}),
    ):
        folder = tmp_path / f"driver{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        cuda = LibcudaStandIn(folder, missing)
        cuda.failing = failing
        monkeypatch.setenv("POLYREME_LIBCUDA", str(cuda.path))
        model = CModel(path)
        for _ in range(4):
            code, (got,) = model.run(x)
            assert code == 0 and model.text() == ""
            expected = got if expected is None else expected
            assert got.tobytes() == expected.tobytes()
        # It is tried once.
        assert cuda.calls["cuStreamBeginCapture_v2"] == (0 if missing else 1) and not cuda.calls["cuGraphLaunch"]
        model.destroy()
        cuda.check()


# --- what is missing


def test_what_is_missing_is_said_by_whoever_makes_a_model(cuda, tmp_path, monkeypatch, libraries):
    path, _ = libraries(mlp)

    def said(device: int | None = None, **changed: Any) -> str:
        with monkeypatch.context() as patch:
            for name, value in changed.items():
                patch.setattr(cuda, name, value)
            model = CModel(path, device)
        assert model.model is None
        cuda.check()
        return model.error

    assert said(devices=0) == "expected an NVIDIA GPU but the driver finds none that this process may use"
    assert said(failing={"cuInit": (NO_DEVICE, 1)}) == said(devices=0)
    assert said(device=1) == "expected the number of a GPU below 1 but got 1"
    assert said(device=-1) == "expected the number of a GPU below 1 but got -1"
    assert said(capability=75) == (
        "expected a GPU of compute capability 8.0 or newer for this library but 'Stand-in 7' has 7.5: compile the model for that one "
        "(--target cuda:sm_…)"
    )
    assert said(version=10020) == (
        "expected a driver for CUDA 11.0 or newer, since the kernels are PTX 7.0, but this machine's is for 10.2: install a newer one"
    )
    assert said(room=100) == "no memory on the GPU 'Stand-in 7' for 2720 bytes of weights: 100 of its 100 bytes are free"
    assert said(refused={"text"}) == ("could not load the kernels: an error without a name (209) what the test says: the log")
    assert said(failing={"cuInit": (ILLEGAL_ADDRESS, 1)}) == (
        "could not start the driver of the GPU: CUDA_ERROR_ILLEGAL_ADDRESS (700) what the test says"
    )
    monkeypatch.setenv("POLYREME_LIBCUDA", str(tmp_path / "absent.so"))
    text = said()
    assert text.startswith("expected the driver of an NVIDIA GPU (libcuda.so.1): ") and "absent.so" in text
    with pytest.raises(GpuError, match="'net': expected the driver of an NVIDIA GPU"):
        paddle.load_compiled(path)


@pytest.mark.parametrize("name", ["cuInit", "cuLaunchKernel", "cuMemAlloc_v2"])
def test_a_driver_without_a_function_is_told(tmp_path, monkeypatch, name, libraries):
    path, _ = libraries(mlp)
    monkeypatch.setenv("POLYREME_LIBCUDA", str(LibcudaStandIn(tmp_path, [name]).path))
    assert CModel(path).error == f"expected a driver of CUDA that has '{name}': install a newer one"


def test_code_for_one_kind_of_device_alone_is_refused_on_others(cuda, tmp_path, monkeypatch, libraries):
    path, _ = libraries(mlp)
    monkeypatch.setattr(gpu_interface, "device_of", lambda text: (90, True))
    only = written(mlp(), tmp_path / "only.so", [spec(None, 12)])
    cuda.capability = 100
    assert CModel(only).error.startswith("expected a GPU of compute capability 9.0 and no other for this library but 'Stand-in 7' has 10.0")
    for found, device in ((only, 90), (path, 100)):
        cuda.capability = device
        model = CModel(found)
        assert model.model is not None
        model.destroy()


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def test_kernels_have_the_shared_memory_that_they_ask_for(cuda, tmp_path):
    specs = [spec(1, 64, 1, 64, dtype="float16", name=name) for name in "qkv"]
    path = written(attention, tmp_path / "net.so", specs)
    plain = paddle.compile(attention, tmp_path / "plain.so", input_spec=specs)
    arrays = drawn(specs, None)
    library = paddle.load_compiled(path)
    assert cuda.calls["cuFuncSetAttribute"] == 1
    np.testing.assert_allclose(library(*arrays).astype("float32"), plain(*arrays).astype("float32"), rtol=2e-2, atol=2e-2)
    library.close()
    cuda.shared = 40_000
    error = CModel(path).error
    assert re.fullmatch(
        r"the kernels need \d+ bytes of shared memory for a block, and 'Stand-in 7' has 40000: compile the model for that GPU "
        r"\(--target cuda:sm_…\)",
        error,
    )


def chain(x: Any, y: Any) -> Any:
    return paddle.matmul(paddle.matmul(x, y), y)


@pytest.mark.parametrize("rows", [72, None])
def test_kernels_have_the_tensor_maps_that_they_ask_for(cuda, tmp_path, rows):
    specs = [spec(rows, 64, dtype="bfloat16"), spec(64, 64, dtype="bfloat16", name="y")]
    path = written(chain, tmp_path / "net.so", specs, target="cuda:sm_90a")
    plain = paddle.compile(chain, tmp_path / "plain.so", input_spec=specs)
    library = paddle.load_compiled(path)
    for count in (72,) if rows else (72, 200):
        rng = np.random.default_rng(count)
        # Small whole numbers, whose products are exact.
        arrays = [rng.integers(-2, 3, shape).astype(numpy_dtype("bfloat16")) for shape in ((count, 64), (64, 64))]
        np.testing.assert_array_equal(library(*arrays).astype("float32"), plain(*arrays).astype("float32"))
    # Of two arrays each product, of which one is in working memory.
    assert cuda.calls["cuTensorMapEncodeTiled"] == 4 * (1 if rows else 2)
    library.close()
    model = CModel(path)
    cuda.failing = {"cuTensorMapEncodeTiled": (ILLEGAL_ADDRESS, cuda.calls["cuTensorMapEncodeTiled"] + 2)}
    code, (got,) = model.run(*arrays)
    assert code == BAD_DEVICE and model.text().startswith("could not make a tensor map: CUDA_ERROR_ILLEGAL_ADDRESS")
    assert (got == 7).all()
    model.destroy()
    cuda.capability = 100
    assert "compute capability 9.0 and no other" in CModel(path).error


def test_drivers_without_tensor_maps_run_kernels_without_and_have_graphs(tmp_path, monkeypatch, libraries):
    cuda = LibcudaStandIn(tmp_path, ["cuTensorMapEncodeTiled"])
    monkeypatch.setenv("POLYREME_LIBCUDA", str(cuda.path))
    model = CModel(libraries(LeNet)[0])
    for _ in range(3):
        assert model.run(np.zeros((2, 1, 14, 14), "float32"))[0] == 0
    assert cuda.calls["cuGraphLaunch"] == 2
    model.destroy()
    cuda.check()
    specs = [spec(72, 64, dtype="bfloat16"), spec(64, 64, dtype="bfloat16", name="y")]
    path = written(chain, tmp_path / "net.so", specs, target="cuda:sm_90a")
    assert CModel(path).error == "expected a driver of CUDA that has 'cuTensorMapEncodeTiled': install a newer one"


def test_whatever_fails_is_told_and_nothing_is_lost(cuda, libraries):
    path, _ = libraries(LeNet)
    x = np.random.default_rng(0).standard_normal((2, 1, 14, 14)).astype("float32")
    model = CModel(path)
    made = cuda.calls.copy()
    _, (expected,) = model.run(x)
    ran = cuda.calls - made
    model.destroy()
    ends = {"cuCtxPopCurrent_v2", "cuGetErrorName", "cuGetErrorString"}
    told = set()
    for name in sorted(made.keys() - ends):
        for number in range(1, made[name] + 1):
            cuda.failing = {name: (ILLEGAL_ADDRESS, cuda.calls[name] + number)}
            model = CModel(path)
            cuda.failing = {}
            if name in ("cuDeviceGetName", "cuDriverGetVersion"):
                assert model.model is not None  # nothing needs it
                model.destroy()
            else:
                assert model.model is None and "CUDA_ERROR_ILLEGAL_ADDRESS" in model.error, name
                told.add(name)
            cuda.check()
    for name in sorted(ran.keys() - ends):
        for number in range(1, ran[name] + 1):
            model = CModel(path)
            cuda.failing = {name: (ILLEGAL_ADDRESS, cuda.calls[name] + number)}
            code, (got,) = model.run(x)
            cuda.failing = {}
            assert code == BAD_DEVICE and "CUDA_ERROR_ILLEGAL_ADDRESS" in model.text(), name
            told.add(name)
            # What was missing for a while is there again.
            code, (got,) = model.run(x)
            assert code == 0 and model.text() == "" and got.tobytes() == expected.tobytes()
            model.destroy()
            cuda.check()
    assert len(told) > 15


def test_memory_that_is_missing_for_a_run_is_told_with_its_bytes(cuda, libraries):
    path, _ = libraries(mlp)
    library = paddle.load_compiled(path)
    small = library(np.ones((2, 12), "float32"))
    cuda.room = 100_000
    with pytest.raises(OutOfMemoryError) as told:
        library(np.ones((1000, 12), "float32"))
    # The arena of 1000 x 40 numbers, the input and the result, each from a multiple of 256 on. What the call before had was given back.
    wanted = sum(-(-1000 * n * 4 // 256) * 256 for n in (40, 12, 5))
    assert told.value.message == (
        f"'net': no memory on the GPU 'Stand-in 7' for {wanted} bytes of working storage, inputs and results: {100_000 - 2720} of its "
        "100000 bytes are free"
    )
    assert library(np.ones((2, 12), "float32")).tobytes() == small.tobytes()
    library.close()


# --- bad input


def test_bad_arguments_have_codes_and_leave_results_alone(cuda, libraries):
    path, _ = libraries(Tokens)
    model = CModel(path)
    ids = np.zeros((2, 6), "int64")
    calls = cuda.calls.copy()
    for arrays, shapes, code, text in (
        ([ids], [(2, 5)], BAD_SHAPE, "input 'x': expected 6 on axis 1 but got 5"),
        ([ids], [(-1, 6)], BAD_SHAPE, "input 'x': expected a size of at least 0 on axis 0 but got -1"),
        ([ids], [(1 << 47, 6)], NO_MEMORY, "the sizes are too large"),
        ([ids - 1], None, BAD_DATA, "expected positions"),
        ([ids + 5], None, BAD_DATA, "from 0 to 4 but got 5"),
    ):
        outputs = [np.full((2, 6, 5), 7, "float32")]
        found, results = model.run(*arrays, shapes=shapes, outputs=outputs)
        assert found == code and text in model.text(), model.text()
        assert (results[0] == 7).all()
    run = model._function("run", c_int32, *[c_void_p] * 4)
    assert run(None, None, None, None) == BAD_ARGUMENT and model.text() == "expected a model but got NULL"
    assert run(model.model, None, None, None) == BAD_ARGUMENT and "arrays of pointers" in model.text()
    # The device hears nothing of it.
    assert cuda.calls == calls
    model.destroy()
    model._function("destroy", None, c_void_p)(None)


def test_a_grid_that_no_device_has_is_told(cuda, tmp_path):
    path = written(lambda x: x + 1, tmp_path / "net.so", [spec(None, 3)])
    cuda.room = 1 << 60
    model = CModel(path)
    cuda.emulated.allocate = lambda size: 1 << 40  # type: ignore[method-assign]
    cuda.emulated.upload = cuda.emulated.free = lambda *_: None  # type: ignore[assignment, method-assign]
    one = np.zeros((1, 3), "float32")
    code, _ = model.run(one, shapes=[(1 << 42, 3)], outputs=[one])
    assert code == BAD_SHAPE and "the sizes are too large: a kernel of" in model.text()
    assert not cuda.launched
    model.destroy()


def test_positions_that_a_run_computes_are_looked_at(cuda, tmp_path):
    def rows(x: Any, i: Any) -> Any:
        return paddle.gather(x, i + 1)

    path = written(rows, tmp_path / "net.so", [spec(4, 3), spec(None, dtype="int64", name="i")])
    library = paddle.load_compiled(path)
    x = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(library(x, np.array([0, 2])), x[[1, 3]])
    with pytest.raises(ContentError, match="expected positions .* from -4 to 3 but computed 1 to 4"):
        library(x, np.array([0, 3]))
    np.testing.assert_array_equal(library(x, np.array([1])), x[[2]])
    library.close()
    model = CModel(path)
    code, (got,) = model.run(x, np.array([0, 3]))
    assert code == BAD_DATA and (got == 7).all()
    model.destroy()


def test_python_checks_what_it_is_given_and_takes_arrays_for_results(cuda, libraries):
    library = paddle.load_compiled(libraries(mlp)[0])
    x = np.ones((2, 12), "float32")
    expected = library(x)
    target = np.zeros((5, 2), "float32").T
    assert library.run([x], [target])[0] is target and target.tobytes() == expected.tobytes()
    assert library.output_shapes((3, 12)) == [(3, 5)]
    with pytest.raises(CallError, match="expected float32 but got float64"):
        library(x.astype("float64"))
    with pytest.raises(CallError, match="expected 12 on axis 1 but got 3"):
        library(x[:, :3])
    assert library(np.ones((0, 12), "float32")).shape == (0, 5)
    library.close()


# --- weights


def test_weights_beside_the_library_are_checked_as_those_of_a_cpu(cuda, tmp_path, monkeypatch):
    monkeypatch.setattr("polyreme.lowering.link.artifact.MAX_INSIDE_BYTES", 100)
    net = mlp()
    path = written(net, tmp_path / "net.so", [spec(None, 12)])
    weights = tmp_path / "net.weights"
    whole = weights.read_bytes()
    x = np.ones((2, 12), "float32")
    expected = net(paddle.to_tensor(x)).numpy()
    np.testing.assert_allclose(paddle.load_compiled(path)(x), expected, rtol=1e-5, atol=1e-6)
    other = tmp_path / "elsewhere.bin"
    other.write_bytes(whole)
    for content, text in (
        (b"", "does not belong to this library, or is damaged"),
        (whole[:-1], "does not belong to this library, or is damaged"),
        (bytes([whole[0] ^ 1]) + whole[1:], "does not belong to this library, or is damaged"),
        (None, "cannot open the file of the weights"),
    ):
        weights.unlink()
        if content is not None:
            weights.write_bytes(content)
        calls = cuda.calls.copy()
        model = CModel(path)
        assert model.model is None and text in model.error
        assert cuda.calls == calls, "before a driver is looked for"
        with pytest.raises(ArtifactError, match="weights"):
            paddle.load_compiled(path)
    model = CModel(path, weights=other)
    _, (got,) = model.run(x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    check = model._function("check_weights", c_int32, c_void_p)
    assert check(model.model) == 0
    model.destroy()
    # Of what is inside, `create` sees the header alone, and `check_weights` all.
    other.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    model = CModel(path, weights=other)
    assert check(model.model) == BAD_WEIGHTS and "the weights are damaged" in model.text()
    model.destroy()


# --- several at the same time


def test_runs_at_the_same_time_have_streams_and_memory_of_their_own(cuda, libraries):
    path, _ = libraries(mlp)
    model = CModel(path)
    count = CALLS + 2
    inputs = [np.random.default_rng(i).standard_normal((i + 1, 12)).astype("float32") for i in range(count)]
    expected = [model.run(x)[1][0] for x in inputs]
    cuda.streams_used.clear()
    cuda.meeting = threading.Barrier(count)
    got: list[Any] = [None] * count

    def work(i: int) -> None:
        got[i] = model.run(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cuda.meeting = None
    for (code, (result,)), wanted in zip(got, expected, strict=True):
        assert code == 0 and result.tobytes() == wanted.tobytes()
    assert len(cuda.streams_used) == count
    # What further calls had is given back when they end, what these had when the model does.
    assert sum(kind == "stream" for kind, _ in cuda.objects.values()) == CALLS
    model.destroy()


# --- arrays on the device


def on_device(cuda: LibcudaStandIn, array: Array) -> int:
    address = cuda.emulated.allocate(max(1, array.nbytes))
    cuda.emulated.upload(address, array)
    return address


def test_arrays_on_the_device_stay_there(cuda, libraries):
    path, _ = libraries(LeNet)
    model = CModel(path)
    x = np.random.default_rng(0).standard_normal((2, 1, 14, 14)).astype("float32")
    _, (expected,) = model.run(x)
    there, result = on_device(cuda, x), on_device(cuda, np.zeros((2, 5), "float32"))
    calls = cuda.calls.copy()
    cuda.streams_used.clear()
    for _ in range(4):
        assert model.run_on_device([there], [x.shape], [result], stream=16) == 0
    found = np.empty((2, 5), "float32")
    cuda.emulated.download(result, found)
    assert found.tobytes() == expected.tobytes()
    new = cuda.calls - calls
    assert not {name for name in new if "Memcpy" in name or "Synchronize" in name}
    # The kernels are recorded on a stream of the model's, and start on the caller's.
    assert new["cuGraphLaunch"] == 3 and 16 in cuda.streams_used
    # Whoever has the memory next waits for what was started, also on the default stream.
    for stream in (None, 32):
        assert model.run_on_device([there], [x.shape], [result], stream=stream) == 0
    assert model.run_on_device([there + 4], [x.shape], [result]) == BAD_ARGUMENT
    assert model.text() == "expected the device address of input 'x' to be a multiple of 16"
    assert model.run_on_device([there], [x.shape], [0]) == BAD_ARGUMENT and "expected data for output" in model.text()
    assert model.run_on_device([there], [(2, 1, 14, 13)], [result]) == BAD_SHAPE
    code, (again,) = model.run(x)
    assert code == 0 and again.tobytes() == expected.tobytes()
    model.destroy()


def test_more_streams_than_a_model_keeps_calls_for_share_memory_in_turn(cuda, libraries):
    path, _ = libraries(mlp)
    model = CModel(path)
    x = np.random.default_rng(0).standard_normal((2, 12)).astype("float32")
    _, (expected,) = model.run(x)
    there, result = on_device(cuda, x), on_device(cuda, np.zeros((2, 5), "float32"))
    for stream in range(CALLS + 3):
        assert model.run_on_device([there], [x.shape], [result], stream=stream) == 0
    # One that is taken from another stream waits for its work.
    assert cuda.calls["cuStreamWaitEvent"] == 3 and cuda.calls["cuMemAlloc_v2"] == 1 + CALLS
    found = np.empty((2, 5), "float32")
    cuda.emulated.download(result, found)
    assert found.tobytes() == expected.tobytes()
    # More memory for a stream: what it had is given back when its work is done.
    more = np.repeat(x, 100, axis=0)
    there, result = on_device(cuda, more), on_device(cuda, np.zeros((200, 5), "float32"))
    assert model.run_on_device([there], [more.shape], [result], stream=5) == 0
    assert cuda.calls["cuEventSynchronize"] == 1
    model.destroy()


def test_ids_on_the_device_are_looked_at(cuda, libraries):
    path, _ = libraries(Tokens)
    model = CModel(path)
    ids = np.random.default_rng(0).integers(0, 5, (2, 6))
    _, (expected,) = model.run(ids)
    there, result = on_device(cuda, ids), on_device(cuda, np.full(expected.shape, 7, "float32"))
    bad = on_device(cuda, np.full((2, 6), 5))
    found = np.empty(expected.shape, "float32")
    assert model.run_on_device([bad], [ids.shape], [result]) == BAD_DATA and "from 0 to 4 but got 5" in model.text()
    cuda.emulated.download(result, found)
    assert (found == 7).all()
    assert model.run_on_device([there], [ids.shape], [result]) == 0
    cuda.emulated.download(result, found)
    assert found.tobytes() == expected.tobytes()
    model.destroy()


# --- code of the device


@needs_ptxas
def test_code_of_a_device_is_taken_where_it_fits_and_text_elsewhere(cuda, tmp_path, monkeypatch):
    monkeypatch.delenv("POLYREME_PTXAS")
    net = mlp()
    path = written(net, tmp_path / "net.so", [spec(None, 12)], target="cuda:sm_80")
    library = ctypes.CDLL(str(path))
    cuda.ptx = artifacts_in(library, read_library(path).manifest, np.zeros(1 << 20, "uint8"))[0].code
    x = np.ones((2, 12), "float32")
    for capability, version, refused, images in (
        (80, 10000, set(), ["code"]),
        (86, 13000, set(), ["code"]),
        (90, 13000, set(), ["text"]),
        (80, 13000, {"code"}, ["code", "text"]),
    ):
        cuda.capability, cuda.version, cuda.refused, cuda.images = capability, version, refused, []
        made = paddle.load_compiled(path)
        np.testing.assert_allclose(made(x), net(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
        made.close()
        assert cuda.images == images
    monkeypatch.setenv("POLYREME_PTXAS", str(tmp_path / "absent"))
    small = written(net, tmp_path / "small.so", [spec(None, 12)], target="cuda:sm_80")
    assert small.stat().st_size < path.stat().st_size


# --- who else loads them


def test_the_emulated_gpu_runs_the_kernels_of_a_library(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYREME_LIBCUDA", str(tmp_path / "absent.so"))
    monkeypatch.setattr("polyreme.lowering.link.artifact.MAX_INSIDE_BYTES", 100)
    net = mlp()
    x = np.ones((2, 12), "float32")
    expected = net(paddle.to_tensor(x)).numpy()
    path = written(net, tmp_path / "net.so", [spec(None, 12)])
    with device_of_tests():
        library = paddle.load_compiled(path)
        assert isinstance(library, GpuExecutable)
        np.testing.assert_allclose(library(x), expected, rtol=1e-5, atol=1e-6)


def test_a_library_is_loaded_without_the_project(tmp_path, libraries):
    path, _ = libraries(mlp)
    program = f"""
import ctypes
library = ctypes.CDLL({str(path)!r})
library.net_create.restype = ctypes.c_void_p
error = ctypes.c_char_p()
print(library.net_create(0, ctypes.byref(error)), error.value.decode())
"""
    environment = {"POLYREME_LIBCUDA": str(tmp_path / "absent.so")}
    told = subprocess.run([sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=True).stdout
    assert told.startswith("None expected the driver of an NVIDIA GPU (libcuda.so.1): ")


def test_header_says_what_is_different_on_a_gpu(tmp_path, libraries):
    path, _ = libraries(mlp)
    text = path.with_suffix(".h").read_text()
    for part in ("net_create_on(int32_t device", "net_run_on_device(net_model *model", "NET_BAD_DEVICE = 7", "POLYREME_LIBCUDA"):
        assert part in text
    plain = tmp_path / "plain.so"
    paddle.compile(mlp(), plain, input_spec=[spec(None, 12)])
    assert "GPU" not in plain.with_suffix(".h").read_text()


PROGRAM = """
#include "net.h"
#include <stddef.h>

int client(const float *x, int64_t rows, float *y, const char **text) {
  net_model *model = net_create(0, text);
  if (model == NULL) return -1;
  const int64_t shape[2] = {rows, 12};
  const int64_t *shapes[NET_INPUTS] = {shape};
  const void *inputs[NET_INPUTS] = {x};
  void *outputs[NET_OUTPUTS] = {y};
  int64_t given[2] = {0, 0};
  int64_t *output_shapes[NET_OUTPUTS] = {given};
  const int64_t capacities[NET_OUTPUTS] = {rows * 5};
  int32_t code = net_run_sized(model, inputs, shapes, outputs, capacities, output_shapes);
  if (code == NET_OK && (given[0] != rows || given[1] != 5)) code = -2;
  if (code == NET_OK && net_run_sized(model, inputs, shapes, outputs, given, output_shapes) != NET_TOO_SMALL) code = -3;
  if (code == NET_OK && net_check_weights(model) != NET_OK) code = -4;
  if (code == NET_OK && (net_threads(model) != 1 || net_set_threads(model, 8) != 1)) code = -5;
  *text = net_error();
  net_destroy(model);
  return code;
}
"""
CPP_PROGRAM = """
#include "net.hpp"

extern "C" int client(const float *x, int64_t rows, float *y, const char **text) {
  try {
    net::Model model;
    auto results = model.run({x, {rows, 12}});
    for (std::size_t i = 0; i < results.output.data.size(); i++) y[i] = results.output.data[i];
    *text = "";
    return static_cast<int>(results.output.shape[1]) - 5;
  } catch (const net::Error &error) {
    static std::string kept;
    kept = error.what();
    *text = kept.c_str();
    return -1;
  }
}
"""


@pytest.mark.toolchain
@pytest.mark.parametrize("language, program, form", [("c", PROGRAM, "so"), ("cpp", CPP_PROGRAM, "so"), ("c", PROGRAM, "a")])
def test_a_program_uses_it(cuda, tmp_path, language, program, form):
    net = mlp()
    # The system's loader goes by names, and has libraries of the same name from other tests.
    name = f"net_{language}_{form}"
    path = written(net, tmp_path / f"{name}.{form}", [spec(None, 12)], cpp=True)
    source, client = tmp_path / f"client.{language}", tmp_path / f"client_{language}_{form}.so"
    source.write_text(re.sub("NET(?=_)", name.upper(), re.sub(r"net(?=[_:.])", name, program)))
    compiler = ["g++", "-std=c++17"] if language == "cpp" else ["gcc", "-std=c99"]
    command = [*compiler, "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", str(source), str(path)]
    command += ["-lm", f"-Wl,-rpath,{tmp_path}", "-o", str(client)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    x = np.random.default_rng(0).standard_normal((3, 12)).astype("float32")
    y, text = np.zeros((3, 5), "float32"), c_char_p()
    function = ctypes.CDLL(str(client)).client
    function.argtypes = [c_void_p, c_int64, c_void_p, POINTER(c_char_p)]
    run = partial(function, x.ctypes.data, 3, y.ctypes.data, ctypes.byref(text))
    assert run() == 0, text.value
    np.testing.assert_allclose(y, net(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    cuda.devices = 0
    assert run() == -1 and b"expected an NVIDIA GPU" in (text.value or b"")


@pytest.mark.toolchain
def test_an_archive_in_parts_is_linked_into_a_program(cuda, tmp_path):
    net = Choosing()
    path = written(net, tmp_path / "chosen.a", [spec(None, 3)])
    client = tmp_path / "client_in_parts.so"
    source = tmp_path / "client.c"
    source.write_text('#include "chosen.h"\nint client(const char **text) { return chosen_create(0, text) == 0 ? -1 : 0; }\n')
    command = ["gcc", "-std=c99", "-shared", "-fPIC", str(source), str(path), "-lm", "-o", str(client)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cuda.devices, text = 0, c_char_p()
    assert ctypes.CDLL(str(client)).client(ctypes.byref(text)) == -1 and b"expected an NVIDIA GPU" in (text.value or b"")


def test_every_function_of_the_driver_is_in_the_stand_in(cuda):
    assert all(hasattr(cuda, f"_{name}") for name in FUNCTIONS)
