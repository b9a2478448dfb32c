"""Attention without scores in memory: kernels on the runner against float64, which groups they take, what ptxas says of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch
from polyreme.compiled.inspection import model_module
from polyreme.dialects import nn
from polyreme.exporters.torch import export_torch
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.kernels.gpu import flash
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.nn import functional as F
from tests.gpu.ptxas import ARCHITECTURES, assemble, needs_ptxas
from tests.gpu.ptxas import DEVICES as SMS
from tests.gpu.running import DEVICES, loaded

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
# Of values about 1, as many are added up.
BOUNDS = {"f32": 3e-6, "bf16": 2e-2, "f16": 3e-3}
CAUSAL = """
%row = nn.iota {shape = [M, 1], axis = 0, dtype = i64}
%column = nn.iota {shape = [1, N], axis = 1, dtype = i64}
%later = nn.greater %column, %row
%low = nn.full {value = -inf, shape = [], dtype = DT}
%zero = nn.full {value = 0.0, shape = [], dtype = DT}
%mask = nn.where %later, %low, %zero
%masked = nn.add %scaled, %mask
"""
NO_MASK = "%one = nn.full {value = 1.0, shape = [], dtype = DT}\n%masked = nn.mul %scaled, %one\n"
ADDED = "%masked = nn.add %scaled, %mask\n"
HIDDEN = "%low = nn.full {value = -inf, shape = [], dtype = DT}\n%masked = nn.where %mask, %scaled, %low\n"


def attention(dtype, sizes, steps=NO_MASK, mask=""):
    """softmax(q kᵀ / 4 and `steps`) v of [B, 2, M, D], [B, 2, N, D] and [B, 2, N, W]; `mask` is the type of a further argument."""
    text = f"""func @main(%q: tensor<Bx2xMxDxDT>, %k: tensor<Bx2xNxDxDT>, %v: tensor<Bx2xNxWxDT>{mask and ", %mask: " + mask})
    -> tensor<Bx2xMxWxDT> {{
%quarter = nn.full {{value = 0.25, shape = [], dtype = DT}}
%t = nn.transpose %k {{perm = [0, 1, 3, 2]}}
%scores = nn.matmul %q, %t
%scaled = nn.mul %scores, %quarter
{steps}
%p = nn.softmax %masked
%o = nn.matmul %p, %v
return %o }}"""
    for name, size in sizes.items():
        for left, right in (("<", "x"), ("x", "x"), ("[", ","), (" ", "]")):
            for _ in range(2):
                text = text.replace(f"{left}{name}{right}", f"{left}{size}{right}")
        text = text.replace(f", {name}]", f", {size}]")
    return parse_module(text.replace("DT", dtype))


def drawn(dtype, batch, rows, keys, depth, width, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((batch, 2, rows, depth), (batch, 2, keys, depth), (batch, 2, keys, width))
    return [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


def expected(q, k, v, change=lambda s: s):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(invalid="ignore"):
        s = change(q @ k.swapaxes(-1, -2) * 0.25)
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ v


def run(module, inputs, device, sm=None):
    """The result of the one flash kernel that a module is."""
    executable = loaded(module, device, find_target(f"cuda:sm_{sm}") if sm else None)
    lowered = lower(module, find_target(f"cuda:sm_{sm or 90}"))
    assert [f.sym_name.split("_")[0] for f in lowered.functions][1:] == ["flash"]
    got, again = (executable.run(inputs)[0] for _ in range(2))
    assert got.tobytes() == again.tobytes()
    return got.astype(np.float64)


def causal(s):
    later = np.arange(s.shape[-1]) > np.arange(s.shape[-2])[:, None]
    return np.where(later, -np.inf, s)


CASES = [
    pytest.param(dtype, rows, keys, depth, depth, is_causal, marks=[pytest.mark.slow] if is_long else [])
    for dtype in ("f32", "bf16")
    for rows, keys, depth, is_causal, is_long in (
        (64, 64, 32, False, False), (7, 129, 40, True, True), (129, 129, 64, True, True), (1, 70, 96, False, False),
        (33, 7, 128, False, False), (20, 40, 256, True, True),
    )
]  # fmt: skip


def check(dtype, rows, keys, depth, width, is_causal, device, sm=None):
    module = attention(dtype, {"B": 1, "M": rows, "N": keys, "D": depth, "W": width}, CAUSAL if is_causal else NO_MASK)
    q, k, v = drawn(dtype, 1, rows, keys, depth, width)
    want = expected(q, k, v, causal if is_causal else lambda s: s)
    np.testing.assert_allclose(run(module, [q, k, v], device, sm), want, rtol=0, atol=BOUNDS[dtype])


@DEVICES
@pytest.mark.parametrize(("dtype", "rows", "keys", "depth", "width", "is_causal"), CASES)
def test_attention_is_one_kernel(dtype, rows, keys, depth, width, is_causal, device):
    check(dtype, rows, keys, depth, width, is_causal, device)


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize("depth", [32, 40, 64, 96, 128, 256])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_all_lengths_and_head_sizes(dtype, depth, device):
    for rows in (1, 7, 64, 129):
        for keys in (1, 7, 64, 129):
            for is_causal in (False, True):
                check(dtype, rows, keys, depth, depth, is_causal, device)


@DEVICES
def test_values_may_be_wider_than_keys(device):
    check("bf16", 40, 40, 32, 72, False, device)
    check("f32", 40, 40, 32, 20, True, device)
    # No 16 bytes are side by side.
    check("bf16", 20, 33, 19, 21, True, device)


def test_older_devices_multiply_in_float32():
    check("f32", 40, 70, 40, 40, True, "gpu-emulated", 75)
    check("bf16", 40, 70, 64, 64, True, "gpu-emulated", 75)


@DEVICES
@pytest.mark.parametrize("dtype", ["f32", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", [(2, 2, 20, 37), (2, 1, 1, 37), (1, 2, 20, 1), (20, 37)])
def test_masks_that_are_added(dtype, shape, device):
    sizes = {"B": 2, "M": 20, "N": 37, "D": 32, "W": 32}
    module = attention(dtype, sizes, ADDED, f"tensor<{'x'.join(map(str, shape))}x{dtype}>")
    mask = (np.random.default_rng(1).standard_normal(shape) * 3).astype(DTYPES[dtype])
    q, k, v = drawn(dtype, 2, 20, 37, 32, 32)
    want = expected(q, k, v, lambda s: s + mask.astype(np.float64))
    np.testing.assert_allclose(run(module, [q, k, v, mask], device), want, rtol=0, atol=BOUNDS[dtype])


@DEVICES
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_query_that_sees_no_key_has_nan(dtype, device):
    sizes = {"B": 1, "M": 20, "N": 37, "D": 32, "W": 32}
    module = attention(dtype, sizes, HIDDEN, "tensor<1x2x20x37xi1>")
    mask = np.random.default_rng(1).random((1, 2, 20, 37)) < 0.4
    mask[0, 0, 3] = False
    q, k, v = drawn(dtype, 1, 20, 37, 32, 32)
    got = run(module, [q, k, v, mask], device)
    assert np.isnan(got[0, 0, 3]).all() and np.isnan(got).sum() == 32
    np.testing.assert_allclose(got, expected(q, k, v, lambda s: np.where(mask, s, -np.inf)), rtol=0, atol=BOUNDS[dtype])


@DEVICES
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_free_lengths_and_large_scores(dtype, device):
    module = attention(dtype, {"D": 32, "W": 32}, CAUSAL)
    executable = loaded(module, device)
    for batch, rows, keys in ((1, 5, 5), (2, 70, 70), (1, 40, 90)):
        q, k, v = drawn(dtype, batch, rows, keys, 32, 32)
        q = (q.astype(np.float32) * 30).astype(q.dtype)
        got = executable.run([q, k, v])[0].astype(np.float64)
        np.testing.assert_allclose(got, expected(q, k, v, causal), rtol=0, atol=10 * BOUNDS[dtype])


# --- with gradients


def op_module(name, dtype, sizes, causal, mask=""):
    """A module of `nn.attention`, or of its gradient, with free sizes for letters that have none."""
    q, k, v, y = "BxMxHxD", "BxNxHxD", "BxNxHxW", "BxMxHxW"
    attributes = f"{{scale = 0.3, causal = {str(causal).lower()}}}"
    extra, more = (f", %m: <{mask}>", ", %m") if mask else ("", "")
    if name == "nn.attention":
        head, given = f"%q: <{q}>, %k: <{k}>, %v: <{v}>{extra}", f"%q, %k, %v{more}"
        results = f"<{y}>, tensor<BxHxMxf32>"
    else:
        head = f"%q: <{q}>, %k: <{k}>, %v: <{v}>, %y: <{y}>, %s: tensor<BxHxMxf32>, %g: <{y}>{extra}"
        given, results = f"%q, %k, %v, %y, %s, %g{more}", f"<{q}>, <{k}>, <{v}>"
    names = ", ".join(f"%r{i}" for i in range(results.count("<")))
    text = f"func @main({head}) -> ({results}) {{ {names} = {name} {given} {attributes}  return {names} }}".replace(": <", ": tensor<")
    text = text.replace("(<", "(tensor<").replace(", <", ", tensor<")
    kinds = [part.split(">")[0] for part in text.split("tensor<")[1:]]
    for kind in sorted(set(kinds), key=len, reverse=True):
        shape = [str(sizes.get(c, c)) for c in kind.removesuffix("xf32").split("x")]
        text = text.replace(f"tensor<{kind}>", f"tensor[{'x'.join(shape)}x{'f32' if kind.endswith('xf32') else dtype}]")
    return parse_module(text.replace("tensor[", "tensor<").replace("]", ">"))


def check_both(dtype, sizes, causal, device, mask="", known=None, is_whole=True):
    """Attention and its gradient give what they mean, in kernels without scores in memory, and the same bits each time."""
    full = {**sizes, **(known or {})}
    rng = np.random.default_rng(3)
    drawn_ = lambda letters: rng.standard_normal([full.get(c) or int(c) for c in letters.split("x")]).astype(DTYPES[dtype])
    q, k, v, g = (drawn_(x) for x in ("BxMxHxD", "BxNxHxD", "BxNxHxW", "BxMxHxW"))
    more = [drawn_(mask)] if mask else []
    inputs = [q, k, v, *more]
    for name in ("nn.attention", "nn.attention_gradient"):
        module = op_module(name, dtype, sizes, causal, mask)
        want = evaluate(module, inputs)
        executable = loaded(module, device)
        for got, again, exact in zip(executable.run(inputs), executable.run(inputs), want, strict=True):
            assert got.tobytes() == again.tobytes() and got.dtype == exact.dtype
            np.testing.assert_allclose(got.astype(np.float64), exact.astype(np.float64), rtol=BOUNDS[dtype], atol=4 * BOUNDS[dtype])
        kernels = [f.sym_name.split("_")[0] for f in lower(module, find_target("cuda:sm_90")).functions]
        assert (set(kernels) <= {"main", "mul", "flash"}) == is_whole and ("flash" in kernels) == is_whole
        inputs = [q, k, v, *want, g, *more]


@DEVICES
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("rows", "keys", "depth", "causal"),
    [(33, 40, 32, False), (70, 70, 40, True), (20, 70, 64, True), (70, 20, 64, True), (9, 20, 160, False)],
)
def test_gradients_have_no_scores_in_memory(dtype, rows, keys, depth, causal, device):
    check_both(dtype, {"B": 2, "M": rows, "N": keys, "H": 2, "D": depth, "W": depth}, causal, device)


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("depth", [32, 40, 64, 96, 128, 256])
def test_gradients_of_all_lengths_and_head_sizes(dtype, depth, device):
    for rows in (1, 7, 64, 129):
        for keys in (1, 7, 64, 129):
            for causal in (False, True):
                check_both(dtype, {"B": 1, "M": rows, "N": keys, "H": 2, "D": depth, "W": depth}, causal, device)


@DEVICES
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mask", ["BxHxMxN", "1x1xMxN", "Bx1x1xN"])
def test_gradients_under_masks(mask, dtype, device):
    check_both(dtype, {"B": 2, "M": 20, "N": 37, "H": 2, "D": 32, "W": 24}, False, device, mask)


@DEVICES
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f32", marks=pytest.mark.slow)])
def test_gradients_of_free_lengths(dtype, device):
    for rows, keys in ((5, 5), (70, 40)):
        check_both(dtype, {"H": 2, "D": 32, "W": 32}, True, device, known={"B": 1, "M": rows, "N": keys})


def test_a_group_that_has_no_kernel_is_taken_apart(monkeypatch):
    monkeypatch.setattr(flash, "FLASH_REGISTERS", 0)
    check_both("f32", {"B": 1, "M": 9, "N": 12, "H": 2, "D": 8, "W": 8}, True, "gpu-emulated", is_whole=False)


# --- by Paddle's functions


def trained(place, dtype, causal, mask, monkeypatch, trains_mask=False):
    """An attention and its gradients, by `scaled_dot_product_attention` on a device, and the ops that were called."""
    paddle.set_device(place)
    called = []
    call = dispatch.call
    monkeypatch.setattr(dispatch, "call", lambda cls, *args, **attributes: called.append(cls) or call(cls, *args, **attributes))
    rng = np.random.default_rng(0)
    shapes = ((2, 9, 3, 16), (2, 12, 3, 16), (2, 12, 3, 16), (2, 9, 3, 16))
    q, k, v, g = (paddle.to_tensor(rng.standard_normal(shape).astype("float32")).astype(dtype) for shape in shapes)
    for x in (q, k, v):
        x.stop_gradient = False
    given = None
    if mask is not None:
        given = paddle.to_tensor(mask)
        given.stop_gradient = not trains_mask
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=given, is_causal=causal)
    (out * g).sum().backward()
    monkeypatch.setattr(dispatch, "call", call)
    grads = [q.grad, k.grad, v.grad, *([given.grad] if trains_mask else [])]
    return [x.astype("float32").numpy() for x in (out, *grads)], called


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["", "causal", "bool", "added", "trained"])
def test_attention_in_dygraph_mode(dtype, kind, monkeypatch):
    rng = np.random.default_rng(1)
    mask = rng.random((2, 1, 9, 12)) < 0.6 if kind == "bool" else None
    if kind in ("added", "trained"):
        mask = paddle.to_tensor(rng.standard_normal((9, 12)).astype("float32")).astype(dtype).numpy()
    results = []
    for place in ("cpu", "gpu-emulated"):
        got, called = trained(place, dtype, kind == "causal", mask, monkeypatch, kind == "trained")
        assert (nn.Attention in called) == (place != "cpu" and kind != "trained")
        results.append(got)
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=5e-6 if dtype == "float32" else 4e-2)


@pytest.fixture(autouse=True)
def on_the_cpu_again():
    yield
    paddle.set_device("cpu")


def test_a_layer_that_was_traced_on_a_gpu_is_saved_exported_and_runs_on_a_cpu(tmp_path):
    layer = paddle.nn.MultiHeadAttention(16, 2)
    layer.eval()
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((2, 5, 16)).astype("float32"))
    want = layer(x).numpy()
    paddle.set_device("gpu-emulated")
    np.testing.assert_allclose(layer(x).numpy(), want, rtol=0, atol=2e-6)
    spec = [paddle.static.InputSpec([None, 5, 16], "float32", "x")]
    paddle.jit.save(layer, str(tmp_path / "layer"), spec)
    source, _ = export_torch(model_module(layer, [paddle.static.InputSpec([2, 5, 16], "float32", "x")]))
    assert "softmax" in source
    paddle.set_device("cpu")
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "layer"))(x).numpy(), want, rtol=0, atol=2e-6)


@needs_ptxas
@pytest.mark.parametrize("sm", [pytest.param(sm, marks=[] if sm == 80 else [pytest.mark.slow]) for sm in SMS])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("depth", [64, *(pytest.param(d, marks=pytest.mark.slow) for d in (32, 40, 96, 128, 256))])
def test_nothing_is_spilled(dtype, depth, sm, tmp_path):
    target = find_target(f"cuda:sm_{sm}")
    sizes = {"B": 8, "M": 1024, "N": 1024, "H": 2, "D": depth, "W": depth}
    modules = [attention(dtype, sizes, CAUSAL), *(op_module("nn.attention_gradient", dtype, sizes, causal) for causal in (False, True))]
    for module in modules:
        code = emit_ptx(lower(module, target), target)
        for architecture in ARCHITECTURES[sm]:
            made = assemble(code.ptx, architecture, tmp_path)
            assert {name.split("_")[0] for name in made} <= {"flash", "mul"} and all(cost.spills == 0 for cost in made.values())
