"""Products of 16-bit floats on tensor cores: every tile, layout and schedule against sums in float64."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled.inspection import model_module
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.lowering.gradients.autodiff import forward_backward
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.gpu import turned_operands
from polyreme.lowering.kernels.gpu.mma_schedule import MmaSchedule
from polyreme.lowering.kernels.gpu.shared_lines import SharedLines
from polyreme.lowering.kernels.gpu.tensor_core import build_tensor_core
from polyreme.lowering.kernels.schedule import ScheduleError, parse_schedule
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.gpu import MMA_COSTS
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.schedule.choose_schedules import carry, roots
from polyreme.runtime.ptx.memory import BlockMemory
from tests.gpu.running import DEVICES, driver

SM80, SM90 = (find_target(f"cuda:sm_{n}") for n in (80, 90))
NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
# How far a sum of products in float32 that is rounded to such a number may be, of the largest one.
WITHIN = {"bf16": 5e-3, "f16": 1e-3}
FLAGS = ["", "{transpose_x = true}", "{transpose_y = true}", "{transpose_x = true, transpose_y = true}"]
NAMES = ["plain", "x", "y", "both"]


# Tiles that are tried by default; the others are slow on the runner.
QUICK = ((128, 64), (32, 64))


def halves(*shape, seed=0, dtype="bf16"):
    return np.random.default_rng(seed).standard_normal(shape).astype(NUMPY[dtype])


def function(body, result, **args):
    return f"func @main({', '.join(f'%{k}: tensor<{v}>' for k, v in args.items())}) -> tensor<{result}> {{ {body} }}"


def matmul(m, k, n, flags="", dtype="bf16"):
    x = f"{k}x{m}" if "transpose_x" in flags else f"{m}x{k}"
    y = f"{n}x{k}" if "transpose_y" in flags else f"{k}x{n}"
    return function(f"%z = nn.matmul %x, %y {flags}  return %z", f"{m}x{n}x{dtype}", x=f"{x}x{dtype}", y=f"{y}x{dtype}")


def request_of(text, target=SM80):
    module = lower(parse_module(text), target, to="tensor")
    return next(request for _, request in roots(module.function("main"), target, "") if build_tensor_core.find(request) is not None)


def compiled(text, device, schedule="", target=SM80):
    module = lower(parse_module(text), target, to="tensor")
    if schedule:
        (op,) = [op for op, request in roots(module.function("main"), target, "") if build_tensor_core.find(request) is not None]
        carry(op, schedule)
    made = load(compile_module(module, target).artifact, driver(device))
    assert any(launch.kernel.startswith("tensor_core") for launch in made.plan.launches)
    return made


def check(text, inputs, expected, device, schedule="", target=SM80, dtype="bf16"):
    made = compiled(text, device, schedule, target)
    got, again = (made.run(inputs)[0] for _ in range(2))
    assert got.tobytes() == again.tobytes() and got.shape == expected.shape
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=WITHIN[dtype], atol=WITHIN[dtype] * np.abs(expected).max())


def check_matmul(sizes, device, schedule="", flags="", dtype="bf16", target=SM80):
    m, k, n = sizes
    x, y = halves(m, k, dtype=dtype), halves(k, n, seed=1, dtype=dtype)
    given = [x.T.copy() if "transpose_x" in flags else x, y.T.copy() if "transpose_y" in flags else y]
    check(matmul(*sizes, flags, dtype), given, x.astype(np.float64) @ y.astype(np.float64), device, schedule, target, dtype)


def said(tile, warps, depth=32, stages=3, **more):
    return str(MmaSchedule((*tile, depth), warps, stages, **more))


# --- every tile, every order of operands


@DEVICES
@pytest.mark.parametrize("flags", FLAGS, ids=NAMES)
@pytest.mark.parametrize(
    ("tile", "warps"),
    [pytest.param(*t, marks=() if t[0] in QUICK else pytest.mark.slow) for t in MMA_COSTS.tiles],
    ids=lambda x: "x".join(map(str, x)),
)
def test_every_tile_takes_operands_in_any_order(tile, warps, flags, device):
    depth = 32 if flags in FLAGS[::3] else 64
    check_matmul((tile[0] + 8, 80, tile[1] + 8), device, said(tile, warps, depth), flags)


@DEVICES
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "sizes",
    [(1, 72, 8), (8, 80, 1), (5, 1, 6), (16, 16, 16), (33, 70, 41), (127, 64, 129), (136, 104, 72), (65, 24, 7), (16, 1500, 40)],
    ids=str,
)
def test_small_odd_and_deep_products(sizes, dtype, device):
    for flags in FLAGS[::3] if dtype == "bf16" else FLAGS[1:3]:
        check_matmul(sizes, device, flags=flags, dtype=dtype, target=SM90)


@DEVICES
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("depth", [16, 24, 64, 200])
def test_more_stages_than_tiles_of_the_depth(stages, depth, device):
    check_matmul((64, depth, 64), device, said((64, 64), (2, 2), 16, stages))


@DEVICES
def test_blocks_in_groups_of_rows_take_each_tile_once(device):
    for rows in (32 * 9, 32 * 20 - 3):
        check_matmul((rows, 16, 136), device, said((32, 64), (1, 2), group=8))


@DEVICES
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_the_depth_in_parts(parts, device):
    check_matmul((40, 328, 48), device, said((32, 64), (1, 2), parts=parts))


@DEVICES
@pytest.mark.parametrize("swizzle", [1, 2, 8])
def test_how_elements_lie_in_shared_memory_changes_nothing(swizzle, device):
    check_matmul((72, 72, 72), device, said((64, 64), (2, 2), 64, swizzle=swizzle), "{transpose_y = true}")


# --- around it


@DEVICES
@pytest.mark.parametrize("shapes", [((3, 40, 24), (3, 24, 72)), ((2, 3, 33, 16), (3, 16, 40)), ((2, 1, 8, 8), (1, 3, 8, 8))], ids=str)
def test_batches_and_what_is_read_by_all_of_them(shapes, device):
    x, y = halves(*shapes[0]), halves(*shapes[1], seed=1)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    kinds = ["x".join(map(str, s)) + "xbf16" for s in (*shapes, expected.shape)]
    check(function("%z = nn.matmul %x, %y  return %z", kinds[2], x=kinds[0], y=kinds[1]), [x, y], expected, device)


@DEVICES
@pytest.mark.parametrize("batch", [1, 5, 64, 300])
def test_a_free_size(batch, device):
    x, w, b = halves(batch, 40), halves(40, 24, seed=1), halves(24, seed=2)
    text = function("%y = nn.linear %x, %w, %b  return %y", "Nx24xbf16", x="Nx40xbf16", w="40x24xbf16", b="24xbf16")
    check(text, [x, w, b], x.astype(np.float64) @ w.astype(np.float64) + b.astype(np.float64), device)


@DEVICES
@pytest.mark.parametrize("n", [72, 41])
@pytest.mark.parametrize("parts", [1, 2])
def test_what_follows_is_in_the_kernel(n, parts, device):
    """A bias, an activation, a residual and a cast."""
    x, w, b, r = halves(40, 64), halves(64, n, seed=1), halves(n, seed=2), halves(40, n, seed=3)
    body = "%y = nn.linear %x, %w, %b  %a = nn.relu %y  %s = nn.add %a, %r  %c = nn.cast %s {dtype = f32}  return %c"
    text = function(body, f"40x{n}xf32", x="40x64xbf16", w=f"64x{n}xbf16", b=f"{n}xbf16", r=f"40x{n}xbf16")
    expected = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + b.astype(np.float64), 0) + r.astype(np.float64)
    schedule = said((32, 64), (1, 2), stages=1 if n % 8 else 3, parts=parts)
    check(text, [x, w, b, r], expected, device, schedule)
    assert len(compiled(text, device, schedule).plan.launches) == parts


def test_pairs_are_stored_at_once_where_they_are_aligned():
    def stores(n):
        made = compiled(matmul(64, 64, n), "gpu-emulated")
        (kernel,) = made._functions.values()
        return Counter(i.op for i in kernel.kernel.code if i.op.startswith("st.global"))

    assert set(stores(64)) == {"st.global.b32"} and set(stores(63)) == {"st.global.b16"}


# --- banks of shared memory


@pytest.fixture
def conflicts(monkeypatch):
    """How often eight lanes that go together meet in a bank, by kind of access."""
    found: Counter[str] = Counter()
    places = BlockMemory.places

    def counted(self, addresses, owners, size, what):
        if size == 16:
            banks = (np.asarray(addresses).astype(np.int64) // 16 % 8).reshape(-1, 8)
            found[what] += sum(8 - len(set(row)) for row in banks.tolist())
            found[f"{what}, rows"] += len(banks)
        return places(self, addresses, owners, size, what)

    monkeypatch.setattr(BlockMemory, "places", counted)
    return found


@pytest.mark.parametrize("flags", FLAGS, ids=NAMES)
@pytest.mark.parametrize(
    ("tile", "warps"), [((64, 64), (2, 2)), ((32, 64), (1, 2)), pytest.param((128, 256), (2, 4), marks=pytest.mark.slow)], ids=str
)
def test_no_lanes_meet_in_a_bank(tile, warps, flags, conflicts):
    for depth in (16, 32, 64):
        if warps == (1, 2) and depth == 16:
            continue
        check_matmul((*tile[:1], 64, tile[1]), "gpu-emulated", said(tile, warps, depth), flags)
    assert conflicts["a load, rows"] and conflicts["an asynchronous copy, rows"]
    assert conflicts["a load"] == 0 and conflicts["an asynchronous copy"] == 0


def test_without_the_exchange_lanes_meet(conflicts):
    check_matmul((64, 64, 64), "gpu-emulated", said((64, 64), (2, 2), 64, swizzle=1), "{transpose_y = true}")
    assert conflicts["a load"] == 7 * conflicts["a load, rows"]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("length", [8, 16, 32, 64, 128, 192, 256])
def test_lines_keep_each_element_once(length, size):
    lines = SharedLines(length, size)
    code = Code(None)
    seen = {lines.at(code, line, element, lines.turn(code, line)) for line in range(16) for element in range(length)}
    assert seen == set(range(16 * length))
    for piece in range(0, length, lines.piece):
        banks = {lines.at(code, line, piece, lines.turn(code, line % 8)) * size // 16 % 8 for line in range(8)}
        assert len(banks) == 8


# --- schedules


def test_a_schedule_reads_back():
    text = "mma<tile = 128x256x64, warps = 2x4, stages = 3, group = 8>"
    found = parse_schedule(text, [MmaSchedule])
    assert str(found) == text and found == MmaSchedule((128, 256, 64), (2, 4), 3, group=8)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("mma<tile = 128x256x64, warps = 2x4, stages = 5>", "at most 166912 bytes of shared memory but .* takes 245760"),
        ("mma<tile = 128x256x64, warps = 2x2, stages = 2>", "at most 255 registers of a thread"),
        ("mma<tile = 128x256x48, warps = 2x4, stages = 2>", "a power of two of steps, from 16 on"),
        ("mma<tile = 40x64x32, warps = 2x2, stages = 2>", "warps with multiples of 16 x 16 of the tile"),
        ("mma<tile = 64x64x32, warps = 2x2, stages = 0>", "expected positive numbers"),
        ("mma<tile = 64x64x32, warps = 2x2, stages = 2, parts = 4>", "parts of at least 32 steps"),
        ("mma<tile = 64x64x32, warps = 2x2, stages = 2, swizzle = 3>", "expected 1, 2, 4 or 8 for 'swizzle'"),
        ("mma<tile = 32x32x16, warps = 2x2, stages = 2>", "multiples of 16 x 16|threads fill evenly"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(schedule, message):
    request = request_of(matmul(256, 64, 256))
    with pytest.raises(ScheduleError, match=message):
        build_tensor_core.fits(build_tensor_core.find(request), parse_schedule(schedule, [MmaSchedule]))


def test_operands_that_cannot_be_copied_go_through_registers():
    request = request_of(matmul(33, 35, 41))
    found = build_tensor_core.find(request)
    assert build_tensor_core.choose(found).stages == 1
    with pytest.raises(ScheduleError, match="expected one stage, since operands are not copied 16 bytes at a time"):
        build_tensor_core.fits(found, MmaSchedule((64, 64, 32), (2, 2), 3))


@pytest.mark.parametrize(
    ("sizes", "sm", "schedule"),
    [
        ((4096, 4096, 4096), 80, "mma<tile = 128x256x64, warps = 2x4, stages = 3, group = 8>"),
        ((4096, 4096, 4096), 90, "mma<tile = 128x256x64, warps = 2x4, stages = 4, group = 8>"),
    ],
    ids=str,
)
def test_what_is_chosen(sizes, sm, schedule):
    found = build_tensor_core.find(request_of(matmul(*sizes), find_target(f"cuda:sm_{sm}")))
    assert str(build_tensor_core.choose(found)) == schedule


@pytest.mark.parametrize("sm", [80, 86, 90])
@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (16, 4096, 4096), (512, 512, 512), (64, 64, 8), (33, 35, 37)], ids=str)
def test_all_that_is_tried_fits(sizes, sm):
    found = build_tensor_core.find(request_of(matmul(*sizes), find_target(f"cuda:sm_{sm}")))
    chosen = build_tensor_core.candidates(found)
    assert chosen and len(set(chosen)) == len(chosen)
    for schedule in chosen:
        build_tensor_core.fits(found, schedule)


# --- convolutions


# Image, filters, result, attributes, kernels that are launched.
CONVOLUTIONS = {
    "3x3": ((2, 16, 9, 8), (24, 16, 3, 3), (2, 24, 9, 8), "padding = [1, 1, 1, 1]", 3),
    "strided": ((2, 16, 9, 11), (24, 16, 3, 3), (2, 24, 4, 6), "padding = [1, 0, 2, 1], strides = [2, 2]", 3),
    "dilated": ((1, 8, 12, 10), (40, 8, 3, 2), (1, 40, 12, 10), "padding = [2, 2, 1, 0], dilations = [2, 1]", 3),
    "three channels": ((2, 3, 17, 15), (32, 3, 7, 7), (2, 32, 9, 8), "padding = [3, 3, 3, 3], strides = [2, 2]", 3),
    "1x1": ((2, 32, 7, 7), (40, 32, 1, 1), (2, 40, 7, 7), "groups = 1", 2),
    "1x1, rows of 16 bytes": ((2, 32, 8, 8), (40, 32, 1, 1), (2, 40, 8, 8), "groups = 1", 1),
    "in groups": ((2, 32, 6, 7), (32, 16, 3, 3), (2, 32, 6, 7), "padding = [1, 1, 1, 1], groups = 2", 3),
    "a free batch": (("N", 16, 6, 6), (24, 16, 3, 3), ("N", 24, 6, 6), "padding = [1, 1, 1, 1]", 3),
}


@pytest.fixture
def turning(monkeypatch):
    """Products are of copies that lie as they should, however small they are."""
    monkeypatch.setattr(turned_operands, "COSTS", replace(MMA_COSTS, copied=0))


def convolution(case, dtype):
    x, w, y, attributes, _ = CONVOLUTIONS[case]
    kinds = ["x".join(map(str, s)) + f"x{dtype}" for s in (x, w, y)]
    return function(f"%z = nn.conv %x, %w {{{attributes}}}  %r = nn.relu %z  return %r", kinds[2], x=kinds[0], w=kinds[1])


@DEVICES
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_are_products_of_turned_images(case, dtype, device, turning):
    x, w, *_, count = CONVOLUTIONS[case]
    given = [halves(*(3 if n == "N" else n for n in x), dtype=dtype), halves(*w, seed=1, dtype=dtype)]
    (expected,) = evaluate(parse_module(convolution(case, "f64")), [g.astype(np.float64) for g in given])
    text = convolution(case, dtype)
    check(text, given, expected, device, dtype=dtype)
    found = build_tensor_core.find(request_of(text))
    assert build_tensor_core.choose(found).stages > 1
    assert len(compiled(text, device).plan.launches) == count


def gradients_of(net, spec):
    """The module of both gradients of a layer."""
    module = model_module(net, spec)
    main = module.function()
    made = forward_backward(main, [i for i, role in enumerate(main.arg_roles) if role in ("param", "input")])
    backward = Module.empty()
    copy = made.backward.clone()
    copy.attributes["sym_name"] = "main"
    backward.block.append(copy)
    return backward


class Convolution(paddle.nn.Layer):
    def __init__(self, channels=16, stride=1):
        super().__init__()
        self.conv = paddle.nn.Conv2D(channels, 24, 3, padding=1, stride=stride)
        self.to(dtype="bfloat16")

    def forward(self, x):
        return self.conv(x)


@DEVICES
@pytest.mark.parametrize(("stride", "channels"), [(1, 16), (2, 3), *(pytest.param(*x, marks=pytest.mark.slow) for x in ((2, 16), (1, 8)))])
def test_both_gradients_of_a_convolution(stride, channels, device, turning):
    backward = gradients_of(Convolution(channels, stride), [paddle.static.InputSpec([8, channels, 8, 8], "bfloat16", "x")])
    given = [halves(*a.type.shape, seed=i) for i, a in enumerate(backward.function().args)]
    expected = evaluate(backward, given)
    executable = load(compile_module(backward, SM80).artifact, driver(device))
    assert sum(launch.kernel.startswith("tensor_core") for launch in executable.plan.launches) == 2
    for got, wanted in zip(executable.run(given), expected, strict=True):
        exact = wanted.astype(np.float64)
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=1e-2, atol=1e-2 * np.abs(exact).max())


def test_known_filters_are_turned_when_the_model_is_compiled(turning):
    spec = [paddle.static.InputSpec([2, 16, 6, 6], "bfloat16", "x")]
    made = [load(compile_module(model_module(Convolution(), spec, freeze=f), SM80).artifact, driver("gpu-emulated")) for f in (True, False)]
    assert [len(m.plan.launches) for m in made] == [2, 3]


def test_small_products_go_through_registers_as_they_lie():
    assert not build_tensor_core.find(request_of(convolution("3x3", "bf16"))).turned.copies
