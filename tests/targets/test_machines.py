"""Libraries for other machines than this one give the same answers: run here where the processor can, else under an emulator of it.

The tests of aarch64 need `qemu-aarch64`, `aarch64-linux-gnu-gcc` and its C library: `pytest -m qemu`; those of WebAssembly Node and lld:
`pytest -m toolchain`. Whole networks are compared by
`python -m benchmarks.targets`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from benchmarks.targets import CASES, NotHere, compile_and_run, difference, drawn, run_library, runner_for, suffix_for
from polyreme.compiled.inspection import model_module
from polyreme.lowering.machines.targets import TARGETS, find_target, host
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.memory import numpy_dtype

nn, functional = paddle.nn, paddle.nn.functional
LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
OTHERS = [
    pytest.param("x86-64-v2", marks=pytest.mark.slow),
    pytest.param("x86-64-v4", marks=pytest.mark.slow),
    pytest.param("aarch64", marks=pytest.mark.qemu),
    pytest.param("riscv64-v", marks=pytest.mark.qemu),
    pytest.param("wasm32", marks=pytest.mark.toolchain),
]
MACHINES = ["x86-64", "x86-64-v3", *OTHERS]
# What sums in another order, multiply-adds that round twice and other roundings of exp may make, in terms of the largest value.
CLOSE = 1e-5


@pytest.fixture(params=MACHINES)
def target(request: pytest.FixtureRequest) -> str:
    """A target whose code runs on this machine somehow."""
    name: str = request.param
    try:
        runner_for(name)
    except NotHere as why:
        pytest.skip(str(why))
    return name


def given(shape: list[int], dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(dtype))


def eager(net: Any, inputs: list[Any]) -> list[Any]:
    results = net(*(paddle.to_tensor(x) for x in inputs))
    tensors = results if isinstance(results, list | tuple) else [results]
    tensors = [y for each in tensors for y in (each if isinstance(each, tuple) else [each])]
    # As Paddle does, `numpy` gives the bits of bfloat16.
    return [y.numpy().view(numpy_dtype("bfloat16")) if y.dtype == paddle.bfloat16 else y.numpy() for y in tensors]


def check(net: Any, spec: list[Any], inputs: list[Any], target: str, folder: Path, close: float = CLOSE) -> None:
    """The library for `target` gives what the eager run does, the same to the bit on one thread and on two."""
    expected = eager(net, inputs)
    library = folder / f"net{suffix_for(target)}"
    paddle.compile(net, library, target=target, input_spec=spec)
    one, two = (run_library(runner_for(target), library, inputs, threads) for threads in (1, 2))
    assert difference(one, expected) < close
    assert [x.tobytes() for x in one] == [x.tobytes() for x in two]


@pytest.mark.parametrize("name", ["LeNet", "mlp 784-512-512-10", "gru 256x64"])
def test_small_models_of_the_benchmark_give_the_same_answers(name: str, target: str, tmp_path: Path) -> None:
    layer, spec, inputs, expected = drawn(CASES[name], 1)
    assert difference(compile_and_run(layer, spec, inputs, target, tmp_path).outputs, expected) < CLOSE


class Mixed(nn.Layer):  # type: ignore[misc]
    """Convolutions of several kinds, a norm, pooling, and channels that fill no vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2D(3, 19, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2D(19)
        self.depthwise = nn.Conv2D(19, 19, 5, padding=2, groups=19)
        self.point = nn.Conv2D(19, 33, 1)
        self.again = nn.Conv2D(33, 33, 3, padding=1)
        self.head = nn.Linear(33, 7)

    def forward(self, x: Any) -> Any:
        x = functional.hardswish(self.norm(self.first(x)))
        x = functional.silu(self.point(self.depthwise(x)))
        x = functional.max_pool2d(functional.relu(self.again(x) + x), 2)
        return functional.softmax(self.head(x.mean([2, 3])))


def test_a_network_of_open_batch_and_odd_channels_gives_the_same_answers(target: str, tmp_path: Path) -> None:
    net = Mixed()
    net.eval()
    check(net, [paddle.static.InputSpec([None, 3, 22, 26], "float32", "x")], [given([3, 3, 22, 26])], target, tmp_path)


def test_attention_of_open_length_gives_the_same_answers(target: str, tmp_path: Path) -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(36, 3, 50, dropout=0.0, activation="gelu"), 1)
    net.eval()
    check(net, [paddle.static.InputSpec([2, None, 36], "float32", "x")], [given([2, 13, 36])], target, tmp_path)


class Gradients(nn.Layer):  # type: ignore[misc]
    """A loss and its gradients: what a step of training computes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2D(1, 4, 3, padding=1), nn.Linear(4 * 8 * 8, 5)

    def forward(self, x: Any, label: Any) -> Any:
        hidden = functional.max_pool2d(functional.relu(self.conv(x)), 2)
        loss = functional.cross_entropy(self.head(hidden.flatten(1)), label)
        return [loss, *paddle.grad([loss], [self.conv.weight, self.head.weight, self.conv.bias])]


def test_gradients_of_an_open_batch_are_the_same(target: str, tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec([None, 1, 16, 16], "float32", "x"), paddle.static.InputSpec([None], "int64", "label")]
    check(Gradients(), spec, [given([5, 1, 16, 16]), np.array([0, 3, 4, 1, 1])], target, tmp_path)


def functions(x: Any) -> list[Any]:
    """What machines have as instructions, as polynomials, or in their C library."""
    y = paddle.abs(x) + 0.1
    return [
        paddle.exp(x), paddle.log(y), paddle.tanh(x), paddle.erf(x), paddle.sin(x), paddle.cos(x), paddle.pow(y, 1.7), paddle.sqrt(y),
        paddle.floor(x), paddle.ceil(x),
        paddle.round(x), paddle.trunc(x), paddle.remainder(x, y), paddle.maximum(x, y), paddle.sign(x), paddle.cumsum(x, -1),
        paddle.argmax(x, -1),
        x.cast("int32") // 3, (x * 50).cast("int8"), x > 0,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_elementary_functions_give_the_same_answers(dtype: str, target: str, tmp_path: Path) -> None:
    # Sums and functions of 16-bit floats may fall to either side of a rounding.
    close = {"float32": CLOSE, "float64": 1e-13, "bfloat16": 2**-7, "float16": 2**-9}[dtype]
    x = given([3, 37], dtype) * np.asarray(3, numpy_dtype(dtype))
    try:
        check(functions, [paddle.static.InputSpec([3, 37], dtype, "x")], [x], target, tmp_path, close)
    except RuntimeError as stopped:
        if "decode_save_opc" not in str(stopped):
            raise
        pytest.skip("this qemu (7.2) ends where vectors are rounded: its own assertion fails")


# Zeros with signs, halves, what no whole number of 32 bits is, numbers below the normal ones, and where exp ends.
EDGES = [
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388607.5, 8388609.0, -8388607.5, 1e10, -1e10, 1e30, np.inf, -np.inf,
    np.nan, 1e-40, -1e-40, 88.7, 89.0, -87.5, -103.0, -104.0, 3.4e38, 2147483648.0, -2147483649.0, 709.8, -745.2, 1.0, -1.0, 1e-8, 100.0,
]  # fmt: skip


def edge_functions(x: Any) -> list[Any]:
    rounded = [paddle.floor(x), paddle.ceil(x), paddle.round(x), paddle.trunc(x), paddle.remainder(x, x * 0 + 3)]
    elementary = [f(x) for f in (paddle.exp, paddle.log, paddle.tanh, paddle.erf, paddle.expm1, paddle.log1p, paddle.sqrt, paddle.atan)]
    return [*rounded, *elementary, functional.sigmoid(x), functional.relu(x), paddle.maximum(x, x * 0 + 1), paddle.minimum(x, x * 0 + 1)]


def test_functions_have_their_values_at_the_edges(target: str, tmp_path: Path) -> None:
    x = np.array([EDGES], "float32")
    library = tmp_path / f"net{suffix_for(target)}"
    paddle.compile(edge_functions, library, target=target, input_spec=[paddle.static.InputSpec([1, len(EDGES)], "float32", "x")])
    try:
        results = run_library(runner_for(target), library, [x], 1)
    except RuntimeError as stopped:
        if "decode_save_opc" not in str(stopped):
            raise
        pytest.skip("this qemu (7.2) ends where vectors are rounded: its own assertion fails")
    for number, (got, expected) in enumerate(zip(results, eager(edge_functions, [x]), strict=True)):
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=0, equal_nan=True, err_msg=f"result {number}")
        if number < 4:
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_networks_of_other_floats_give_the_same_answers(dtype: str, target: str, tmp_path: Path) -> None:
    net = Mixed().astype(dtype)
    net.eval()
    close = {"float64": 1e-12, "bfloat16": 0.03, "float16": 0.004}[dtype]
    check(net, [paddle.static.InputSpec([1, 3, 22, 26], dtype, "x")], [given([1, 3, 22, 26], dtype)], target, tmp_path, close)


def more_functions(x: Any) -> list[Any]:
    """The rest of what machine code has for floats."""
    inside, y = paddle.tanh(x), paddle.abs(x) + 0.1
    return [
        paddle.expm1(x), paddle.log1p(y), paddle.log2(y), paddle.log10(y), paddle.tan(x), paddle.asin(inside), paddle.acos(inside),
        paddle.atan(x),
        paddle.sinh(x), paddle.cosh(x), functional.sigmoid(x), functional.gelu(x), paddle.rsqrt(y), functional.softmax(x, -1),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_further_functions_give_the_same_answers(dtype: str, target: str, tmp_path: Path) -> None:
    x = given([5, 29], dtype) * np.asarray(2, dtype)
    check(
        more_functions,
        [paddle.static.InputSpec([None, 29], dtype, "x")],
        [x],
        target,
        tmp_path,
        {"float32": CLOSE, "float64": 1e-13}[dtype],
    )


def in_order(x: Any) -> list[Any]:
    """Sorting, running combinations, and where the largest element stands."""
    best, where = paddle.topk(x, 3)
    return [
        paddle.sort(x, -1), paddle.argsort(x, -1, descending=True), best, where, paddle.cumsum(x, -1), paddle.cumsum(x, 0),
        paddle.argmax(x * 2 + 1, -1), paddle.argmin(x, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_orders_and_running_combinations_give_the_same_answers(dtype: str, target: str, tmp_path: Path) -> None:
    x = (given([3, 150]) * 4).astype(dtype)
    x[1, 140] = x[1, 7]
    check(in_order, [paddle.static.InputSpec([None, None], dtype, "x")], [x], target, tmp_path)


def complex_numbers(x: Any, y: Any) -> list[Any]:
    a, b = paddle.as_complex(x), paddle.as_complex(y)
    made = [a * b, a / b, a + b.conj(), paddle.matmul(a, b.transpose([1, 0]))]
    return [paddle.as_real(z) for z in made]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_numbers_give_the_same_answers(dtype: str, target: str, tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec([None, 21, 2], dtype, name) for name in "xy"]
    check(
        complex_numbers,
        spec,
        [given([6, 21, 2], dtype, seed) for seed in (1, 2)],
        target,
        tmp_path,
        {"float32": CLOSE, "float64": 1e-13}[dtype],
    )


def test_a_recurrent_layer_of_large_weights_gives_the_same_answers(target: str, tmp_path: Path) -> None:
    """Whose weights some machines read in 28 bits."""
    net = nn.LSTM(48, 384)
    check(net, [paddle.static.InputSpec([1, None, 48], "float32", "x")], [given([1, 7, 48])], target, tmp_path)


class Product(nn.Layer):
    def forward(self, x: Any, y: Any) -> Any:
        return functional.relu(paddle.matmul(x, y))


@pytest.mark.parametrize(("x", "y"), [([131, 300], [300, 150]), ([2, 48, 200], [2, 200, 64])], ids=str)
def test_products_that_copy_an_argument_beside_them_give_the_same_answers(x: list[int], y: list[int], target: str, tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec(shape, "float32") for shape in (x, y)]
    check(Product(), spec, [given(x), given(y, seed=1)], target, tmp_path)


@pytest.mark.parametrize("rows", [128, None], ids=["known", "open"])
def test_large_products_by_fewer_multiplications_give_the_same_answers(rows: int | None, target: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 515))
    check(net, [paddle.static.InputSpec([rows, 784], "float32", "x")], [given([128, 784])], target, tmp_path, 2 * CLOSE)


class Blocks(nn.Layer):  # type: ignore[misc]
    """Inverted residual blocks of a large image, and a convolution of many channels."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.again = nn.Conv2D(16, 96, 1), nn.Conv2D(24, 144, 1)
        self.depthwise, self.next = nn.Conv2D(96, 96, 3, stride=2, padding=1, groups=96), nn.Conv2D(144, 144, 3, padding=1, groups=144)
        self.narrow, self.last = nn.Conv2D(96, 24, 1), nn.Conv2D(144, 24, 1)
        self.whole = nn.Conv2D(24, 64, 3, padding=1)

    def forward(self, x: Any) -> Any:
        x = self.narrow(functional.relu6(self.depthwise(functional.relu6(self.wide(x)))))
        x = x + self.last(functional.relu6(self.next(functional.relu6(self.again(x)))))
        return functional.interpolate(functional.relu(self.whole(x)), scale_factor=2, mode="nearest")


@pytest.mark.parametrize("size", [72, None], ids=["known", "open"])
def test_chains_by_rows_give_the_same_answers(size: int | None, target: str, tmp_path: Path) -> None:
    net = Blocks()
    net.eval()
    check(net, [paddle.static.InputSpec([1, 16, size, size], "float32", "x")], [given([1, 16, 72, 72])], target, tmp_path, 2 * CLOSE)


def test_the_levels_of_x86_64_are_targets() -> None:
    assert find_target("x86-64-v3") is TARGETS["x86-64-avx2"]
    assert find_target("x86-64-v4") is TARGETS["x86-64-avx512"]
    assert [find_target(level).vector_bytes for level in LEVELS] == [16, 16, 32, 64]


def test_code_for_another_machine_says_what_it_needs_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.targets.shutil.which", lambda name: None)
    with pytest.raises(NotHere, match="qemu-riscv64 is not installed"):
        runner_for("riscv64" if host().arch != "riscv64" else "aarch64")


@pytest.mark.qemu
def test_a_library_with_vectors_says_that_the_processor_has_none(tmp_path: Path) -> None:
    try:
        emulator, _, _, *rest = runner_for("riscv64-v")
    except NotHere as missing:
        pytest.skip(str(missing))
    net = Mixed()
    net.eval()
    x = given([1, 3, 22, 26])
    spec = [paddle.static.InputSpec([1, 3, 22, 26], "float32", "x")]
    paddle.compile(net, tmp_path / "net.so", target="riscv64-v", input_spec=spec)
    assert difference(run_library(runner_for("riscv64-v"), tmp_path / "net.so", [x]), [net(paddle.to_tensor(x)).numpy()]) < CLOSE
    with pytest.raises(RuntimeError, match="a processor with v, which this one lacks"):
        run_library([emulator, "-cpu", "rv64,v=false", *rest], tmp_path / "net.so", [x])


@pytest.mark.parametrize(("name", "magic"), [("wasm32", b"\0asm"), ("riscv64", b"\x7fELF")])
def test_object_files_are_made_for_machines_that_are_not_run_here(name: str, magic: bytes) -> None:
    net = Mixed()
    net.eval()
    made = compile_module(model_module(net, [paddle.static.InputSpec([None, 3, 22, 26], "float32", "x")], freeze=True), find_target(name))
    assert all(code.startswith(magic) for code in made.artifact.objects)


def test_a_bound_is_one_instruction_of_webassembly() -> None:
    """Not the one that tells of a nan in either operand, which takes several of x86's."""
    net = nn.Sequential(nn.Conv2D(16, 16, 1), nn.ReLU6())
    spec = [paddle.static.InputSpec([1, 16, 8, 8], "float32", "x")]
    text = paddle.inspect(net, input_spec=spec, target="wasm32").asm
    assert "f32x4.pmin" in text
    assert "f32x4.max" not in text and "f32x4.min" not in text


def test_a_quantised_network_counts_the_same_integers(target: str, tmp_path: Path) -> None:
    from tests.lowering.transforms.test_integer_products import bottleneck

    module = bottleneck()
    x = np.abs(given([1, 3, 20, 20]))
    expected = compile_module(module).load().run([x])
    outcome = compile_and_run(module, None, [x], target, tmp_path)
    # A float that lies within rounding of a half may be a step further on another machine.
    assert difference(outcome.outputs, expected) < 0.02
