"""The meaning of the ops for grids: on numpy, and as PTX on the emulated device, which must agree."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from polyreme.dialects.kernel.grid import fragment_positions, round_tf32
from polyreme.ir.diagnostics import InferError, PolyremeError
from polyreme.ir.text import parse_module
from polyreme.ir.verify import VerifyError, verify
from polyreme.runtime.gpu.drivers import open_driver
from tests.gpu.grids import both, grid_module, meaning, run_emulated, run_on

rng = np.random.default_rng(0)

DEVICES = ["gpu-emulated", pytest.param("gpu", marks=pytest.mark.gpu)]


def test_every_thread_knows_its_place():
    body = """
%tx = kernel.thread_id : index
%ty = kernel.thread_id {axis = 1} : index
%bx = kernel.block_id : index
%by = kernel.block_id {axis = 1} : index
%bz = kernel.block_id {axis = 2} : index
%nx = kernel.thread_count : index
%ny = kernel.thread_count {axis = 1} : index
%gx = kernel.block_count : index
%gy = kernel.block_count {axis = 1} : index
%a0 = kernel.apply %bz, %gy {fn = "mul"} : index
%a1 = kernel.apply %a0, %by {fn = "add"} : index
%a2 = kernel.apply %a1, %gx {fn = "mul"} : index
%a3 = kernel.apply %a2, %bx {fn = "add"} : index
%a4 = kernel.apply %a3, %ny {fn = "mul"} : index
%a5 = kernel.apply %a4, %ty {fn = "add"} : index
%a6 = kernel.apply %a5, %nx {fn = "mul"} : index
%i = kernel.apply %a6, %tx {fn = "add"} : index
%v = kernel.apply %i {fn = "cast", dtype = i32} : i32
kernel.store %v, %y, %i
"""
    module = grid_module("%y: buffer<240xi32>", body, grid="[2, 3, 2]", block="[4, 5]")
    got, want = both(module, [], [np.full(240, -1, np.int32)])
    assert np.array_equal(got[0], np.arange(240)) and np.array_equal(want[0], np.arange(240))


@pytest.mark.parametrize(
    "dtype, np_dtype", [("f32", "f4"), ("f64", "f8"), ("i32", "i4"), ("i64", "i8"), ("f16", "f2"), ("i8", "i1"), ("i1", "?")]
)
@pytest.mark.parametrize("mode, by", [("xor", 5), ("down", 3), ("up", 7), ("from", 9)])
def test_a_shuffle_reads_another_lane(dtype, np_dtype, mode, by):
    body = f"""
%t = kernel.thread_id : index
%v = kernel.load %x, %t : {dtype}
%w = kernel.warp_shuffle %v {{mode = "{mode}", by = {by}}} : {dtype}
kernel.store %w, %y, %t
"""
    module = grid_module(f"%x: buffer<64x{dtype}>, %y: buffer<64x{dtype}>", body, block="[64]")
    x = (rng.standard_normal(64) * 50).astype(np_dtype)
    lane = np.arange(32)
    source = {"xor": lane ^ by, "down": lane + by, "up": lane - by, "from": lane * 0 + by}[mode]
    source = np.where((source >= 0) & (source < 32), source, lane)
    got, want = both(module, [x], [np.zeros(64, np_dtype)])
    assert np.array_equal(got[0], x.reshape(2, 32)[:, source].reshape(-1))
    assert np.array_equal(want[0], got[0])


TREE_SUM = """
%t = kernel.thread_id : index
%b = kernel.block_id : index
%n = kernel.thread_count : index
%shared = kernel.alloc {shape = [4], dtype = f32, space = "shared"} : buffer<4xf32>
%start = kernel.apply %b, %n {fn = "mul"} : index
%i = kernel.apply %start, %t {fn = "add"} : index
%size = kernel.size {value = N} : index
%inside = kernel.apply %i, %size {fn = "lt"} : i1
%v0 = kernel.load %x, %i, %inside : f32
%s16 = kernel.warp_shuffle %v0 {mode = "xor", by = 16} : f32
%v1 = kernel.apply %v0, %s16 {fn = "add"} : f32
%s8 = kernel.warp_shuffle %v1 {mode = "xor", by = 8} : f32
%v2 = kernel.apply %v1, %s8 {fn = "add"} : f32
%s4 = kernel.warp_shuffle %v2 {mode = "xor", by = 4} : f32
%v3 = kernel.apply %v2, %s4 {fn = "add"} : f32
%s2 = kernel.warp_shuffle %v3 {mode = "xor", by = 2} : f32
%v4 = kernel.apply %v3, %s2 {fn = "add"} : f32
%s1 = kernel.warp_shuffle %v4 {mode = "xor", by = 1} : f32
%v5 = kernel.apply %v4, %s1 {fn = "add"} : f32
%width = kernel.size {value = 32} : index
%warp = kernel.apply %t, %width {fn = "div"} : index
%lane = kernel.apply %t, %width {fn = "mod"} : index
%zero = kernel.size {value = 0} : index
%leads = kernel.apply %lane, %zero {fn = "eq"} : i1
kernel.store %v5, %shared, %warp, %leads
kernel.barrier ()
%first = kernel.apply %t, %zero {fn = "eq"} : i1
kernel.if %first {
  %four = kernel.size {value = 4} : index
  %none = kernel.constant {value = 0.0, dtype = f32} : f32
  %sum = kernel.for %zero, %four, %none : f32 { (%k: index, %acc: f32)
    %part = kernel.load %shared, %k : f32
    %next = kernel.apply %acc, %part {fn = "add"} : f32
    kernel.yield %next
  }
  kernel.store %sum, %y, %b
  kernel.yield
} {
  kernel.yield
}
"""


def tree_sum(count=None):
    return grid_module("%x: buffer<Nxf32>, %y: buffer<Mxf32>", TREE_SUM, grid="[floordiv(N+127, 128)]", block="[128]")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 128, 1000, 65536])
def test_a_sum_by_shuffles_and_shared_memory(count, device):
    x = rng.integers(-8, 9, count).astype(np.float32)
    blocks = -(-count // 128)
    (got,) = run_on(open_driver(device), tree_sum(), [x], [np.zeros(blocks, np.float32)])
    assert np.array_equal(got, np.pad(x, (0, blocks * 128 - count)).reshape(-1, 128).sum(1))


def test_its_meaning_on_numpy_is_the_same():
    x = rng.standard_normal(200).astype(np.float32)
    got, want = both(tree_sum(), [x], [np.zeros(2, np.float32)])
    assert got[0].tobytes() == want[0].tobytes()


@pytest.mark.parametrize("dtype, np_dtype", [("f32", "f4"), ("i32", "i4"), ("i64", "i8"), ("f64", "f8")])
def test_atomic_adds_are_all_counted(dtype, np_dtype):
    body = f"""
%t = kernel.thread_id : index
%four = kernel.size {{value = 4}} : index
%i = kernel.apply %t, %four {{fn = "mod"}} : index
%v = kernel.load %x, %t : {dtype}
%zero = kernel.constant {{value = 0, dtype = {dtype}}} : {dtype}
%on = kernel.apply %v, %zero {{fn = "gt"}} : i1
kernel.atomic %v, %y, %i, %on
"""
    module = grid_module(f"%x: buffer<64x{dtype}>, %y: buffer<4x{dtype}>", body, block="[64]")
    x = np.arange(-20, 44).astype(np_dtype)
    got, want = both(module, [x], [np.ones(4, np_dtype)])
    expected = 1 + np.where(x > 0, x, 0).reshape(-1, 4).sum(0)
    assert np.array_equal(got[0], expected) and np.array_equal(want[0], expected)


def test_an_empty_grid_runs_nothing():
    module = grid_module(
        "%x: buffer<Nxf32>, %y: buffer<2xf32>",
        "%t = kernel.thread_id : index\n%v = kernel.load %x, %t : f32\nkernel.store %v, %y, %t",
        grid="[N]",
    )
    got, want = both(module, [np.zeros(0, np.float32)], [np.full(2, 7, np.float32)])
    assert np.array_equal(got[0], [7, 7]) and np.array_equal(want[0], [7, 7])


# --- tensor cores

_LOADS = """
%zero = kernel.size {{value = 0}} : index
%t = kernel.thread_id : index
%na = kernel.size {{value = {a}}} : index
%nb = kernel.size {{value = {b}}} : index
%nc = kernel.size {{value = 4}} : index
%ia = kernel.apply %t, %na {{fn = "mul"}} : index
%ib = kernel.apply %t, %nb {{fn = "mul"}} : index
%ic = kernel.apply %t, %nc {{fn = "mul"}} : index
%fa = kernel.load %a, %ia {{lanes = {a}}} : vector<{a}x{t}>
%fb = kernel.load %b, %ib {{lanes = {b}}} : vector<{b}x{t}>
%fc = kernel.load %c, %ic {{lanes = 4}} : vector<4xf32>
%fd = kernel.mma %fa, %fb, %fc : vector<4xf32>
kernel.store %fd, %y, %ic
"""


def spread(matrix, places):
    """The fragment that each lane holds, lane after lane."""
    return matrix[places[:, :, 0], places[:, :, 1]].reshape(-1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, depth", [("bf16", 16), ("f32", 8)])
def test_tensor_cores_multiply_matrices(dtype, depth, device):
    a, b, c = (rng.integers(-8, 9, s).astype(np.float32) for s in ((16, depth), (depth, 8), (16, 8)))
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.float32
    at_a, at_b, at_c = fragment_positions(depth)
    counts = at_a.shape[1], at_b.shape[1]
    args = f"%a: buffer<{32 * counts[0]}x{dtype}>, %b: buffer<{32 * counts[1]}x{dtype}>, %c: buffer<128xf32>, %y: buffer<128xf32>"
    module = grid_module(args, _LOADS.format(a=counts[0], b=counts[1], t=dtype))
    inputs = [spread(a, at_a).astype(kind), spread(b, at_b).astype(kind), spread(c, at_c)]
    want = spread(a @ b + c, at_c)
    assert np.array_equal(run_on(open_driver(device), module, inputs, [np.zeros(128, np.float32)])[0], want)
    assert np.array_equal(meaning(module, inputs, [np.zeros(128, np.float32)])[0], want)


def test_each_element_of_a_fragment_has_its_own_place():
    for depth in (8, 16):
        for places, shape in zip(fragment_positions(depth), ((16, depth), (depth, 8), (16, 8)), strict=True):
            assert sorted(map(tuple, places.reshape(-1, 2).tolist())) == [(i, j) for i in range(shape[0]) for j in range(shape[1])]


def test_rounding_to_tf32_keeps_ten_bits_and_its_rest_is_exact():
    x = np.concatenate([rng.standard_normal(27), [0.0, np.inf, -np.inf, 1 + 2.0**-11, 1e-40]]).astype(np.float32)
    module = grid_module(
        "%x: buffer<32xf32>, %y: buffer<32xf32>",
        "%t = kernel.thread_id : index\n%v = kernel.load %x, %t : f32\n%r = kernel.round_tf32 %v : f32\nkernel.store %r, %y, %t",
    )
    got, want = both(module, [x], [np.zeros(32, np.float32)])
    assert np.array_equal(got[0], want[0])
    assert got[0][30] == np.float32(1 + 2.0**-10)
    big = round_tf32(x[:27])
    small = x[:27] - big
    assert np.all(np.abs(small) <= np.abs(x[:27]) * 2.0**-11) and np.array_equal(big + small, x[:27])


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transpose", [False, True])
def test_matrices_are_loaded_from_shared_memory(count, transpose):
    text = "true" if transpose else "false"
    body = f"""
%t = kernel.thread_id : index
%tile = kernel.alloc {{shape = [256], dtype = bf16, space = "shared"}} : buffer<256xbf16>
%eight = kernel.size {{value = 8}} : index
%row = kernel.apply %t, %eight {{fn = "mul"}} : index
%v = kernel.load %x, %row {{lanes = 8, align = 16}} : vector<8xbf16>
kernel.store %v, %tile, %row {{align = 16}}
kernel.barrier ()
%m = kernel.load_matrix %tile, %row {{count = {count}, transpose = {text}}} : vector<{2 * count}xbf16>
%n = kernel.size {{value = {2 * count}}} : index
%o = kernel.apply %t, %n {{fn = "mul"}} : index
kernel.store %m, %y, %o
"""
    module = grid_module(f"%x: buffer<256xbf16>, %y: buffer<{64 * count}xbf16>", body)
    x = np.arange(256).astype(ml_dtypes.bfloat16)
    tiles = x.reshape(4, 8, 8)[:count]
    tiles = tiles.swapaxes(1, 2) if transpose else tiles
    expected = tiles.reshape(count, 32, 2).swapaxes(0, 1).reshape(-1)
    got, want = both(module, [x], [np.zeros(64 * count, ml_dtypes.bfloat16)])
    assert np.array_equal(got[0], expected) and np.array_equal(want[0], expected)


COPY = """
%t = kernel.thread_id : index
%tile = kernel.alloc {shape = [128], dtype = f32, space = "shared"} : buffer<128xf32>
%four = kernel.size {value = 4} : index
%i = kernel.apply %t, %four {fn = "mul"} : index
%n = kernel.size {value = N} : index
%inside = kernel.apply %i, %n {fn = "lt"} : i1
kernel.copy_async %x, %i, %tile, %i, %inside {lanes = 4}
kernel.copy_commit ()
WAIT
kernel.barrier ()
%last = kernel.size {value = 127} : index
%j = kernel.apply %last, %t {fn = "sub"} : index
%v = kernel.load %tile, %j : f32
kernel.store %v, %y, %t
"""


def test_asynchronous_copies_arrive_with_zeros_where_masked():
    module = grid_module("%x: buffer<Nxf32>, %y: buffer<32xf32>", COPY.replace("WAIT", "kernel.copy_wait ()"))
    x = rng.standard_normal(112).astype(np.float32)
    got, want = both(module, [x], [np.ones(32, np.float32)])
    expected = np.pad(x, (0, 16))[127 - np.arange(32)]
    assert np.array_equal(got[0], expected) and np.array_equal(want[0], expected)


def test_a_copy_that_nobody_waits_for_has_not_arrived():
    module = grid_module("%x: buffer<Nxf32>, %y: buffer<32xf32>", COPY.replace("WAIT", "kernel.copy_wait {pending = 1}"))
    got, want = both(module, [np.ones(128, np.float32)], [np.ones(32, np.float32)])
    assert np.isnan(got[0]).all() and np.isnan(want[0]).all()


# --- what the ops refuse

DIVERGENT = """
%t = kernel.thread_id : index
%sixteen = kernel.size {value = 16} : index
%low = kernel.apply %t, %sixteen {fn = "lt"} : i1
kernel.if %low {
  kernel.barrier ()
  kernel.yield
} {
  kernel.yield
}
"""


def test_a_barrier_that_some_threads_skip_is_an_error_in_both():
    module = grid_module("%y: buffer<32xf32>", DIVERGENT, checked=False)
    with pytest.raises(
        PolyremeError,
        match=r"'kernel.barrier' expected all threads of the block but in block \[0\] of '@work' thread 0 is there and thread 16 has",
    ):
        meaning(module, [], [np.zeros(32, np.float32)])
    with pytest.raises(
        Exception, match=r"kernel 'work', line \d+ \(bar.sync\), block 0, thread 0: divergent barrier: thread 16 of the block has ended"
    ):
        run_emulated(module, [], [np.zeros(32, np.float32)])


def test_a_shuffle_needs_whole_warps():
    body = (
        '%t = kernel.thread_id : index\n'
        '%v = kernel.load %y, %t : f32\n'
        '%w = kernel.warp_shuffle %v {mode = "xor", by = 1} : f32\n'
        'kernel.store %w, %y, %t'
    )  # fmt: skip
    module = grid_module("%y: buffer<32xf32>", body, block="[20]")
    with pytest.raises(PolyremeError, match="expected warps of 32 threads but '@work' has one of 20"):
        meaning(module, [], [np.zeros(32, np.float32)])
    with pytest.raises(Exception, match="expected whole warps"):
        run_emulated(module, [], [np.zeros(32, np.float32)])


def test_an_error_in_one_thread_ends_the_block_with_that_error():
    body = "%t = kernel.thread_id : index\nkernel.barrier ()\n%v = kernel.load %x, %t : f32\nkernel.store %v, %y, %t"
    module = grid_module("%x: buffer<8xf32>, %y: buffer<32xf32>", body)
    with pytest.raises(PolyremeError, match=r"'kernel.load' expected a position in \[0, 8\) but got 31"):
        meaning(module, [np.zeros(8, np.float32)], [np.zeros(32, np.float32)])


@pytest.mark.parametrize(
    "line, message",
    [
        ("%b = kernel.thread_id {axis = 3} : index", "expected 'axis' to be one of 0, 1, 2 but got 3"),
        ('%w = kernel.warp_shuffle %v {mode = "xor", by = 32} : f32', r"expected 'by' in \[0, 32\) but got 32"),
        ("%m = kernel.load_matrix %x, %i : vector<8xf32>", "expected 16-bit elements but got f32"),
        ("kernel.copy_async %x, %i, %x, %i {lanes = 3}", "expected 4, 8 or 16 bytes but got 3 elements of f32"),
    ],
)
def test_what_an_op_cannot_mean_is_refused(line, message):
    text = f"func @f(%x: buffer<8xf32>, %v: f32, %i: index) {{\n  {line}\n  return\n}}"
    with pytest.raises((VerifyError, InferError, PolyremeError), match=message):
        verify(parse_module(text))


def test_a_block_has_at_most_1024_threads():
    with pytest.raises(PolyremeError, match="expected at most 1024 threads in a block but got 2048"):
        grid_module("%y: buffer<32xf32>", "kernel.barrier ()", block="[1024, 2]")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_products_of_16_bit_floats(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.float16
    body = f"""
%t = kernel.thread_id : index
%eight = kernel.constant {{value = 8, dtype = index}} : index
%four = kernel.constant {{value = 4, dtype = index}} : index
%i = kernel.apply %t, %eight {{fn = "mul"}} : index
%j = kernel.apply %t, %four {{fn = "mul"}} : index
%a = kernel.load %x, %i {{lanes = 8}} : vector<8x{dtype}>
%b = kernel.load %z, %j {{lanes = 4}} : vector<4x{dtype}>
%c = kernel.load %y, %j {{lanes = 4}} : vector<4xf32>
%d = kernel.mma %a, %b, %c : vector<4xf32>
kernel.store %d, %y, %j
"""
    module = grid_module(f"%x: buffer<256x{dtype}>, %z: buffer<128x{dtype}>, %y: buffer<128xf32>", body)
    x, z = (rng.standard_normal(n).astype(kind) for n in (256, 128))
    got, want = both(module, [x, z], [np.ones(128, np.float32)])
    left, right = np.empty((16, 16)), np.empty((16, 8))
    at_left, at_right, at_sum = fragment_positions(16)
    left[at_left[..., 0], at_left[..., 1]], right[at_right[..., 0], at_right[..., 1]] = x.reshape(32, 8), z.reshape(32, 4)
    exact = (left @ right + 1)[at_sum[..., 0], at_sum[..., 1]].reshape(-1)
    np.testing.assert_allclose(got[0], exact, rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(got[0], want[0])


def test_powers_of_two_and_pairs_rounded_to_bfloat16():
    body = """
%t = kernel.thread_id : index
%two = kernel.constant {value = 2, dtype = index} : index
%i = kernel.apply %t, %two {fn = "mul"} : index
%pair = kernel.load %x, %i {lanes = 2} : vector<2xf32>
%narrow = kernel.apply %pair {fn = "cast", dtype = bf16} : vector<2xbf16>
kernel.store %narrow, %z, %i
%v = kernel.load %x, %t : f32
%one = kernel.apply %v {fn = "cast", dtype = bf16} : bf16
kernel.store %one, %w, %t
%p = kernel.exp2 %v : f32
kernel.store %p, %y, %t
"""
    module = grid_module("%x: buffer<64xf32>, %z: buffer<64xbf16>, %w: buffer<32xbf16>, %y: buffer<32xf32>", body, outputs=3)
    x = np.concatenate([[0, -0.0, np.inf, -np.inf, np.nan, 1.00390625, 1.01171875, 3.4e38, -130, 127.5], rng.uniform(-20, 20, 54)])
    x = x.astype(np.float32)
    empty = [np.zeros(64, ml_dtypes.bfloat16), np.zeros(32, ml_dtypes.bfloat16), np.zeros(32, np.float32)]
    got, want = both(module, [x], empty)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine.astype(np.float32), theirs.astype(np.float32))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got[0].astype(np.float32), x.astype(ml_dtypes.bfloat16).astype(np.float32))
        exact = np.exp2(x[:32].astype(np.float64))
    np.testing.assert_allclose(got[2], np.where(exact < np.finfo(np.float32).tiny, 0, exact), rtol=1e-6)
