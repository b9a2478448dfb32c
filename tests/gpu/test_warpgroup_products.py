"""Products of 16-bit floats on sm_90a: which go through warpgroups, that they are right, and what the assembler makes of them."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from polyreme.dialects.kernel.warpgroups import MOST_AXES
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.kernels.gpu.warpgroup_schedule import WarpgroupSchedule
from polyreme.lowering.kernels.gpu.warpgroups import build_warpgroups
from polyreme.lowering.kernels.schedule import ScheduleError, parse_schedule
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.gpu import COPYING_REGISTERS, MULTIPLYING_REGISTERS, WARPGROUP, WGMMA_TILES
from polyreme.lowering.machines.targets import find_target, gpu_target
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.schedule.choose_schedules import roots
from polyreme.runtime.gpu.drivers import GpuError, open_driver
from tests.gpu.cuda_stand_in import CudaStandIn
from tests.gpu.ptxas import assemble, needs_ptxas
from tests.gpu.running import loaded

SM90, SM90A = find_target("cuda:sm_90"), find_target("cuda:sm_90a")
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
rng = np.random.default_rng(0)


def matmul(m, k, n, dtype="bf16", flags=""):
    x = f"{k}x{m}" if "transpose_x" in flags else f"{m}x{k}"
    y = f"{n}x{k}" if "transpose_y" in flags else f"{k}x{n}"
    header = f"func @main(%x: tensor<{x}x{dtype}>, %y: tensor<{y}x{dtype}>) -> tensor<{m}x{n}x{dtype}>"
    return f"{header} {{ %z = nn.matmul %x, %y {flags}  return %z }}"


def kernels(text, target=SM90A):
    """The names of the kernels that are launched."""
    return re.findall(r"callee = @(\w+?)_[0-9a-f]+,", print_module(lower(parse_module(text), target)))


def run(text, *shapes, dtype="bf16"):
    """Small whole numbers, whose products are exact in float32, through the device; (result, inputs, kernels)."""
    executable = loaded(text, "gpu-emulated", SM90A)
    inputs = [rng.integers(-4, 5, shape).astype(TYPES[dtype]) for shape in shapes]
    (got,) = executable.run(inputs)
    return got.astype(np.float64), [x.astype(np.float64) for x in inputs], [launch.kernel for launch in executable.plan.launches]


def rounded(exact, dtype="bf16"):
    return exact.astype(np.float32).astype(TYPES[dtype]).astype(np.float64)


def use(monkeypatch, tile, stages, **more):
    """Every product has this schedule."""
    chosen = WarpgroupSchedule((*tile, 64), stages, **more)
    monkeypatch.setattr("polyreme.lowering.kernels.gpu.warpgroups.schedules", lambda p, device: [chosen])
    return chosen


FLAGS = ["", "{transpose_x = true}", "{transpose_y = true}", "{transpose_x = true, transpose_y = true}"]
# Whole tiles, ragged edges, less than a tile, one row, and depths of one step, of less, and of more than all stages.
SIZES = [(128, 256, 128), (200, 72, 136), (8, 8, 8), (64, 1024, 64), (264, 520, 72), (136, 40, 520)]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(("size", "dtype"), [*((size, "bf16") for size in SIZES), (SIZES[1], "f16")], ids=str)
def test_products_are_exact_up_to_one_rounding(size, dtype, flags):
    m, k, n = size
    shapes = [(k, m) if "transpose_x" in flags else (m, k), (n, k) if "transpose_y" in flags else (k, n)]
    got, (x, y), launched = run(matmul(m, k, n, dtype, flags), *shapes, dtype=dtype)
    assert launched[0].startswith("warpgroups")
    exact = (x.T if "transpose_x" in flags else x) @ (y.T if "transpose_y" in flags else y)
    assert np.array_equal(got, rounded(exact, dtype))


@pytest.mark.parametrize("tile", WGMMA_TILES, ids=str)
def test_every_tile_is_right(tile, monkeypatch):
    use(monkeypatch, tile, 3)
    for flags in FLAGS[::3]:
        shapes = [(328, 144), (264, 328)] if flags else [(144, 328), (328, 264)]
        got, (x, y), launched = run(matmul(144, 328, 264, "bf16", flags), *shapes)
        assert launched[0].startswith("warpgroups")
        assert np.array_equal(got, rounded(x.T @ y.T if flags else x @ y))


def test_a_row_of_one_and_a_great_depth_are_cut_into_parts():
    got, (x, y), launched = run(matmul(1, 4096, 64), (1, 4096), (4096, 64))
    assert launched[0].startswith("warpgroups_parts") and len(launched) == 2
    assert np.array_equal(got, rounded(x @ y))


def test_many_tiles_of_rows_in_groups_are_all_computed_once(monkeypatch):
    use(monkeypatch, (64, 64), 2, group=8)
    for m in (512, 1024, 1224):
        got, (x, y), _ = run(matmul(m, 64, 192), (m, 64), (64, 192))
        assert np.array_equal(got, rounded(x @ y))


BATCHED = """
func @main(%x: tensor<3x2x72x64xbf16>, %y: tensor<3x2x64x40xbf16>) -> tensor<3x2x72x40xbf16> {
  %z = nn.matmul %x, %y
  return %z
}
"""


def test_batches_are_axes_of_the_boxes():
    got, (x, y), launched = run(BATCHED, (3, 2, 72, 64), (3, 2, 64, 40))
    assert launched[0].startswith("warpgroups") and np.array_equal(got, rounded(x @ y))


def test_an_operand_that_all_of_a_batch_share_is_copied_as_it_is():
    text = """
    func @main(%x: tensor<3x72x64xbf16>, %y: tensor<64x40xbf16>) -> tensor<3x72x40xbf16> {
      %z = nn.matmul %x, %y
      return %z
    }
    """
    got, (x, y), launched = run(text, (3, 72, 64), (64, 40))
    assert launched[0].startswith("warpgroups") and np.array_equal(got, rounded(x @ y))


FUSED = """
func @main(%x: tensor<200x72xbf16>, %w: tensor<72x136xbf16>, %b: tensor<136xbf16>, %r: tensor<200x136xbf16>) -> tensor<200x136xbf16> {
  %z = nn.matmul %x, %w
  %s = nn.add %z, %b
  %a = nn.relu %s
  %t = nn.add %a, %r
  return %t
}
"""


def test_what_follows_is_done_where_the_sums_are():
    got, (x, w, b, r), launched = run(FUSED, (200, 72), (72, 136), (136,), (200, 136))
    assert len(launched) == 1 and launched[0].startswith("warpgroups")
    (expected,) = evaluate(parse_module(FUSED), [v.astype(ml_dtypes.bfloat16) for v in (x, w, b, r)])
    assert np.array_equal(got, expected.astype(np.float64))


def test_free_sizes_are_those_of_the_call():
    text = "func @main(%x: tensor<Nx64xbf16>, %w: tensor<64x72xbf16>) -> tensor<Nx72xbf16> { %z = nn.matmul %x, %w  return %z }"
    executable = loaded(text, "gpu-emulated", SM90A)
    assert executable.plan.launches[0].maps[0].sizes == (64, "N")
    w = rng.integers(-4, 5, (64, 72)).astype(ml_dtypes.bfloat16)
    for n in (5, 130, 1, 64, 0):
        x = rng.integers(-4, 5, (n, 64)).astype(ml_dtypes.bfloat16)
        (got,) = executable.run([x, w])
        assert np.array_equal(got.astype(np.float64), rounded(x.astype(np.float64) @ w.astype(np.float64)))


def test_a_depth_that_turns_out_to_be_empty_gives_zeros():
    text = """
    func @main(%x: tensor<Kx72xbf16>, %w: tensor<Kx64xbf16>) -> tensor<72x64xbf16> {
      %z = nn.matmul %x, %w {transpose_x = true}
      return %z
    }
    """
    executable = loaded(text, "gpu-emulated", SM90A)
    assert executable.plan.launches[0].kernel.startswith("warpgroups")
    for k in (0, 3, 200):
        x, w = (rng.integers(-4, 5, (k, n)).astype(ml_dtypes.bfloat16) for n in (72, 64))
        (got,) = executable.run([x, w])
        assert np.array_equal(got.astype(np.float64), rounded(x.astype(np.float64).T @ w.astype(np.float64)))


CHAIN = """
func @main(%x: tensor<Nx64xbf16>, %w: tensor<64x64xbf16>) -> tensor<Nx64xbf16> {
  %a = nn.matmul %x, %w
  %b = nn.matmul %a, %w
  %c = nn.matmul %b, %w
  return %c
}
"""


def test_a_driver_makes_the_maps_of_each_call_and_graphs_keep_theirs(monkeypatch):
    x, other = (rng.integers(-4, 5, (n, 64)).astype(ml_dtypes.bfloat16) for n in (72, 8))
    w = rng.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16)
    plain = loaded(CHAIN, "gpu-emulated", SM90A)
    cuda = CudaStandIn(monkeypatch)
    executable = load(compile_module(parse_module(CHAIN), SM90A).artifact, open_driver("gpu"))
    assert sum(len(launch.maps) for launch in executable.plan.launches) == 6
    for given in (x, x, x, other, other, other, x):
        (expected,) = plain.run([given, w])
        (got,) = executable.run([given, w])
        assert got.tobytes() == expected.tobytes()
    assert cuda.calls["cuGraphLaunch"] >= 3
    # Made once for each array that there is: the same bytes serve again.
    assert 6 <= cuda.calls["cuTensorMapEncodeTiled"] <= 20


def test_a_driver_that_refuses_a_map_is_an_error_that_says_so(monkeypatch):
    cuda = CudaStandIn(monkeypatch)
    executable = load(compile_module(parse_module(CHAIN), SM90A).artifact, open_driver("gpu"))
    cuda.failing["cuTensorMapEncodeTiled"] = 1
    w = np.zeros((64, 64), ml_dtypes.bfloat16)
    with pytest.raises(GpuError, match="'cuTensorMapEncodeTiled' failed for TensorMap"):
        executable.run([w, w])


# --- schedules


def seen(text):
    """A product as the way by warpgroups sees it; None where it is none for it."""
    module = lower(parse_module(text), SM90A, to="tensor")
    (found,) = (build_warpgroups.find(request) for _, request in roots(module.function("main"), SM90A, ""))
    return found


def test_a_schedule_reads_back():
    text = "wgmma<tile = 128x256x64, stages = 4, group = 8>"
    assert parse_schedule(text, [WarpgroupSchedule]) == WarpgroupSchedule((128, 256, 64), 4, group=8)
    assert str(WarpgroupSchedule((64, 128, 64), 3, 2)) == "wgmma<tile = 64x128x64, stages = 3, parts = 2>"


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("wgmma<tile = 128x256x64, stages = 5>", "at most 232448 bytes of shared memory but .* takes 246784"),
        ("wgmma<tile = 192x128x64, stages = 3>", "64 or 128 rows"),
        ("wgmma<tile = 64x96x64, stages = 3>", "a multiple of 64 up to 256 columns"),
        ("wgmma<tile = 64x320x64, stages = 3>", "a multiple of 64 up to 256 columns"),
        ("wgmma<tile = 64x64x32, stages = 3>", "expected 64 steps"),
        ("wgmma<tile = 64x64x64, stages = 1>", "from 2 to 8 stages"),
        ("wgmma<tile = 64x64x64, stages = 3, parts = 9>", "parts of at least 64 steps"),
        ("wgmma<tile = 64x64x64, stages = 3, group = 0>", "expected positive numbers"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(schedule, message):
    with pytest.raises(ScheduleError, match=message):
        build_warpgroups.fits(seen(matmul(256, 512, 256)), parse_schedule(schedule, [WarpgroupSchedule]))


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (8192, 8192, 8192)], ids=str)
def test_large_products_have_the_largest_tile(size):
    assert str(build_warpgroups.choose(seen(matmul(*size)))) == "wgmma<tile = 128x256x64, stages = 4, group = 8>"


@pytest.mark.parametrize("size", [*SIZES, (4096, 4096, 4096), (16, 4096, 4096), (512, 512, 512)], ids=str)
def test_all_that_is_tried_fits(size):
    found = seen(matmul(*size))
    chosen = build_warpgroups.candidates(found)
    assert chosen and len(set(chosen)) == len(chosen)
    for schedule in chosen:
        build_warpgroups.fits(found, schedule)
    estimates = [build_warpgroups.estimate(found, schedule) for schedule in chosen]
    assert estimates == sorted(estimates) and 0 < estimates[0] < float("inf")


# --- what goes another way


@pytest.mark.parametrize(
    "size",
    [
        # Rows of 100 elements are not at multiples of 16 bytes; nor are those of 4.
        (64, 100, 64),
        (64, 64, 100),
    ],
    ids=str,
)
def test_rows_that_are_not_whole_16_bytes_go_another_way(size):
    m, k, n = size
    assert "warpgroups" not in kernels(matmul(m, k, n))[0]
    assert kernels(matmul(m, k, n))[0] == kernels(matmul(m, k, n), SM90)[0]


def test_a_stride_that_is_not_known_goes_another_way():
    text = "func @main(%x: tensor<64xKxbf16>, %w: tensor<Kx64xbf16>) -> tensor<64x64xbf16> { %z = nn.matmul %x, %w  return %z }"
    assert "warpgroups" not in kernels(text)[0]
    # Side by side along the other axes, no stride depends on it.
    text = text.replace("<64xKxbf16>", "<Kx64xbf16>").replace("%x, %w", "%x, %w {transpose_x = true}")
    assert "warpgroups" in kernels(text)[0]


def test_other_devices_and_other_types_go_another_way():
    assert not any("warpgroups" in name for name in kernels(matmul(128, 128, 128), SM90))
    assert not any("warpgroups" in name for name in kernels(matmul(128, 128, 128, "f32")))
    assert gpu_target(90) is SM90A and gpu_target(100).name == "cuda:sm_90"


def test_an_operand_that_is_computed_goes_another_way():
    text = """
    func @main(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
      %t = nn.transpose %x {perm = [1, 0]}
      %z = nn.matmul %t, %w
      return %z
    }
    """
    # A transposed operand lies in memory as it is.
    assert "warpgroups" in kernels(text)[0]


def test_more_letters_than_a_map_has_axes_go_another_way():
    shape = "x".join(["2"] * (MOST_AXES - 1))
    header = f"func @main(%x: tensor<{shape}x72x64xbf16>, %y: tensor<{shape}x64x40xbf16>) -> tensor<{shape}x72x40xbf16>"
    text = f"{header} {{ %z = nn.matmul %x, %y  return %z }}"
    assert "warpgroups" not in kernels(text)[0]


# --- the assembler


def told(text, folder):
    code = emit_ptx(lower(parse_module(text), SM90A), SM90A)
    return assemble(code.ptx, "90a", folder), code


@needs_ptxas
@pytest.mark.parametrize("tile", WGMMA_TILES, ids=str)
def test_products_of_warpgroups_are_assembled_without_spills_and_without_being_serialized(tile, monkeypatch, tmp_path):
    chosen = use(monkeypatch, tile, 4)
    for text in (matmul(4096, 4096, 4096), matmul(1000, 1000, 1000, "f16", FLAGS[3]), FUSED):
        found, code = told(text, tmp_path)
        (cost,) = (cost for name, cost in found.items() if name.startswith("warpgroups"))
        assert cost.spills == 0
        # What the launch gives is what `setmaxnreg` moves between warpgroups.
        assert cost.registers * chosen.threads <= 1 << 16
        assert code.ptx.count("wgmma.mma_async") == 4


def test_registers_that_are_given_back_are_enough_for_those_that_want_more():
    assert WARPGROUP * (COPYING_REGISTERS + 2 * MULTIPLYING_REGISTERS) <= 1 << 16


@needs_ptxas
def test_what_the_assembler_says_of_products_one_after_another_is_an_error(tmp_path):
    code = emit_ptx(lower(parse_module(matmul(128, 128, 128)), SM90A), SM90A).ptx
    # Sums that something else touches between two products.
    lines = code.splitlines()
    first = next(i for i, line in enumerate(lines) if "wgmma.mma_async" in line)
    register = re.search(r"\{(%\w+),", lines[first])[1]
    lines.insert(first + 1, f"\tadd.f32 \t{register}, {register}, {register};")
    with pytest.raises(AssertionError, match="serialized"):
        assemble("\n".join(lines), "90a", tmp_path)
