"""What blocks of sm_90a do: counted barriers, copies of boxes and products of warpgroups, on numpy and as PTX; and the faults of kernels
with them that the PTX runner finds.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from polyreme.dialects.kernel.warpgroups import sum_places, swizzled
from polyreme.ir.diagnostics import InferError, PolyremeError
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import VerifyError, verify
from polyreme.runtime.gpu.drivers import open_driver
from polyreme.runtime.ptx.parser import PtxError
from polyreme.runtime.ptx.tensor_map import BadMap, TensorMap, read_map
from tests.gpu.grids import grid_module, meaning, ptx_of, run_emulated

SM = "90a"
rng = np.random.default_rng(0)

# One warpgroup multiplies, thread 128 copies: two steps of the depth, of 64 each, go through one stage. Element [r][c] of the 64 x 64 sums
# goes to %y.
PRODUCT = """
%tiles = kernel.alloc {{shape = [8192], dtype = {dtype}, space = "shared"}} : buffer<8192x{dtype}>
%bars = kernel.alloc {{shape = [2], dtype = i64, space = "shared"}} : buffer<2xi64>
%t = kernel.thread_id : index
%zero = kernel.size {{value = 0}} : index
%one = kernel.size {{value = 1}} : index
%two = kernel.size {{value = 2}} : index
%depth = kernel.size {{value = 64}} : index
%half = kernel.size {{value = 4096}} : index
%many = kernel.size {{value = 128}} : index
%first = kernel.apply %t, %zero {{fn = "eq"}} : i1
kernel.if %first {{
  kernel.counted_init %bars {{counts = [1, 4]}}
  kernel.yield
}} {{
  kernel.yield
}}
kernel.barrier ()
%copies = kernel.apply %t, %many {{fn = "eq"}} : i1
kernel.if %copies {{
  kernel.for %zero, %two {{ (%k: index)
    %other = kernel.apply %one, %k {{fn = "sub"}} : index
    {empty}
    %c = kernel.apply %k, %depth {{fn = "mul"}} : index
    kernel.counted_expect %bars, %zero {{bytes = {expected}}}
    kernel.copy_box %x, %tiles, %zero, %bars, %zero, {ca} {box_x}
    kernel.copy_box %w, %tiles, %half, %bars, %zero, {cb} {box_w}
    kernel.yield
  }}
  kernel.yield
}} {{
  kernel.yield
}}
%multiplies = kernel.apply %t, %many {{fn = "lt"}} : i1
kernel.if %multiplies {{
  %nothing = kernel.constant {{value = 0.0, dtype = f32}} : f32
  %sums = kernel.broadcast %nothing {{lanes = 32}} : vector<32xf32>
  %thirty = kernel.size {{value = 32}} : index
  %lane = kernel.apply %t, %thirty {{fn = "mod"}} : index
  %leads = kernel.apply %lane, %zero {{fn = "eq"}} : i1
  %all = kernel.for %zero, %two, %sums : vector<32xf32> {{ (%k: index, %acc: vector<32xf32>)
    {full}
    {fence}
{products}
    kernel.wgmma_commit ()
    {wait}
    {arrive}
    kernel.yield %done
  }}
  {after}
  %warp = kernel.apply %t, %thirty {{fn = "div"}} : index
  %four = kernel.size {{value = 4}} : index
  %sixteen = kernel.size {{value = 16}} : index
  %eight = kernel.size {{value = 8}} : index
  %g = kernel.apply %lane, %four {{fn = "div"}} : index
  %m = kernel.apply %lane, %four {{fn = "mod"}} : index
  %r0 = kernel.apply %warp, %sixteen {{fn = "mul"}} : index
  %r1 = kernel.apply %r0, %g {{fn = "add"}} : index
  %r2 = kernel.apply %r1, %depth {{fn = "mul"}} : index
  %m2 = kernel.apply %m, %two {{fn = "mul"}} : index
  %at = kernel.apply %r2, %m2 {{fn = "add"}} : index
{stores}
  kernel.yield
}} {{
  kernel.yield
}}
"""


def product(a="", b="", dtype="bf16", **changes):
    """The kernel's text; `a` and `b` are "across" for operands whose rows or columns lie side by side in memory."""
    steps = []
    for i in range(4):
        left, right = i * (1024 if a else 16), 4096 + i * (1024 if b else 16)
        flags = f"columns = 64, transpose_a = {str(bool(a)).lower()}, transpose_b = {str(bool(b)).lower()}"
        steps += [
            f"    %i{i} = kernel.size {{value = {left}}} : index",
            f"    %j{i} = kernel.size {{value = {right}}} : index",
            f"    %s{i + 1} = kernel.wgmma %tiles, %i{i}, %tiles, %j{i}, %s{i} {{{flags}}} : vector<32xf32>",
        ]
    stores = []
    for i in range(32):
        stores += [
            f"  %v{i} = kernel.extract %last {{lane = {i}}} : f32",
            f"  %o{i} = kernel.size {{value = {64 * 8 * (i % 4 // 2) + 8 * (i // 4) + i % 2}}} : index",
            f'  %p{i} = kernel.apply %at, %o{i} {{fn = "add"}} : index',
            f"  kernel.store %v{i}, %y, %p{i}",
        ]
    across, along = "{sizes = [64, 128], strides = [64], box = [64, 64]}", "{sizes = [128, 64], strides = [128], box = [64, 64]}"
    parts = {
        "dtype": dtype,
        "expected": 16384,
        "empty": "kernel.counted_wait %bars, %one, %other",
        "full": "kernel.counted_wait %bars, %zero, %k",
        "fence": "%s0 = kernel.wgmma_fence %acc : vector<32xf32>",
        "products": "\n".join(steps),
        "wait": "%done = kernel.wgmma_wait %s4 : vector<32xf32>",
        "arrive": "kernel.counted_arrive %bars, %one, %leads",
        "after": "%last = kernel.wgmma_fence %all : vector<32xf32>",
        "stores": "\n".join(stores),
        "box_x": across if a else along,
        "box_w": across if b else along,
        "ca": "%zero, %c" if a else "%c, %zero",
        "cb": "%zero, %c" if b else "%c, %zero",
        **changes,
    }
    return PRODUCT.format(**parts)


def module_of(text, dtype="bf16", block="[160]", **options):
    return grid_module(f"%x: buffer<8192x{dtype}>, %w: buffer<8192x{dtype}>, %y: buffer<4096xf32>", text, block=block, **options)


def operands(a="", b="", dtype=ml_dtypes.bfloat16):
    """Both operands in memory, and their product."""
    x, w = (rng.standard_normal((128, 64) if across else (64, 128)).astype(dtype) for across in (a, b))
    left, right = (v.astype(np.float64).T if across else v.astype(np.float64) for v, across in ((x, a), (w, b)))
    return [x.reshape(-1), w.reshape(-1)], left @ right.T


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("a", ["", "across"])
@pytest.mark.parametrize("b", ["", "across"])
def test_a_warpgroup_multiplies_tiles_that_were_copied_by_boxes(a, b, dtype):
    inputs, expected = operands(a, b, ml_dtypes.bfloat16 if dtype == "bf16" else np.float16)
    module = module_of(product(a, b, dtype), dtype)
    y = [np.full(4096, np.nan, np.float32)]
    for got in (run_emulated(module, inputs, y, SM), meaning(module, inputs, y)[-1:]):
        np.testing.assert_allclose(got[0].reshape(64, 64), expected, rtol=1e-5, atol=1e-4)


def test_these_ops_print_and_parse():
    module = module_of(product())
    assert print_module(parse_module(print_module(module))) == print_module(module)


def test_all_sums_of_a_product_have_one_place():
    rows, columns = sum_places(256)
    assert len(np.unique(rows * 256 + columns)) == 64 * 256
    assert np.array_equal(np.sort(swizzled(np.arange(4096))), np.arange(4096))


# --- what the runner finds


def fails(text, message, block="[160]"):
    inputs, _ = operands()
    with pytest.raises(PtxError, match=message):
        run_emulated(module_of(text, block=block), inputs, [np.zeros(4096, np.float32)], SM)


def test_a_product_before_its_copies_have_arrived_is_found():
    fails(product(full=""), "a copy is still to fill|no copy has filled")


def test_a_product_that_waits_for_another_phase_is_found():
    # The phase before the first one counts as over.
    fails(product(full="kernel.counted_wait %bars, %zero, %one"), "a copy is still to fill|no copy has filled")


def test_a_copy_into_a_tile_that_is_not_read_yet_is_found():
    fails(product(empty=""), "arrives at a barrier whose phase has all its 1 arrivals")
    # With a barrier for each step, only the tile itself is in the way.
    text = (
        product(empty="")
        .replace("%bars, %zero, %c", "%bars, %k, %c")
        .replace("kernel.counted_expect %bars, %zero", "kernel.counted_expect %bars, %k")
    )
    fails(text, "a copy begins into shared memory that another copy is still to fill")


def test_a_copy_into_a_tile_whose_products_are_under_way_is_found():
    # Who multiplies says that the tile is free before it has waited for its products.
    early = product(wait="kernel.counted_arrive %bars, %one, %leads", arrive="%done = kernel.wgmma_wait %s4 : vector<32xf32>")
    fails(early, "overwrites shared memory that (products under way still read|warp 0 has read)")


def test_all_four_warps_must_say_that_they_have_read_a_tile():
    text = product(arrive="kernel.counted_arrive %bars, %one, %first").replace("counts = [1, 4]", "counts = [1, 1]")
    fails(text, "overwrites shared memory that warp 1 has read, of which this one has not waited to hear")


def test_sums_that_are_read_before_they_are_waited_for_are_found():
    unfinished = '%done = kernel.apply %s4 {fn = "neg"} : vector<32xf32>'
    fails(product(wait=unfinished), "is that of a product under way: expected a wgmma.wait_group")
    later = product(wait="%done = kernel.wgmma_wait %s4 {pending = 1} : vector<32xf32>").replace("%zero, %two", "%zero, %one")
    fails(later, "is that of a product under way")


def test_sums_that_were_changed_need_a_fence():
    text = product(fence='kernel.wgmma_fence ()\n%s0 = kernel.apply %acc, %acc {fn = "add"} : vector<32xf32>')
    fails(text, "expected a wgmma.fence between what changed the sums and this product")


def test_incomplete_warpgroups_are_found():
    lonely = product().replace(
        "%multiplies = kernel.apply %t, %many", "%few = kernel.size {value = 96} : index\n%multiplies = kernel.apply %t, %few"
    )
    fails(lonely, "expected whole warpgroups but some of their threads are elsewhere")
    inputs, _ = operands()
    with pytest.raises(PolyremeError, match="expected all threads of the warpgroup|where no thread can go on"):
        meaning(module_of(lonely), inputs, [np.zeros(4096, np.float32)])


@pytest.mark.parametrize("bytes", [8192, 32768])
def test_a_phase_that_counts_other_bytes_than_are_copied_never_ends(bytes):
    fails(product(expected=bytes), "waits for a phase that never ends: no thread of the block can go on|a copy is still to fill")
    inputs, _ = operands()
    if bytes > 16384:
        with pytest.raises(PolyremeError, match="'kernel.counted_wait' waits in thread .* where no thread can go on"):
            meaning(module_of(product(expected=bytes)), inputs, [np.zeros(4096, np.float32)])


def test_an_operand_that_begins_within_eight_lines_is_found():
    fails(product().replace("%i0 = kernel.size {value = 0}", "%i0 = kernel.size {value = 64}"), "begins in a tile's first line")


def test_a_tile_elsewhere_than_at_a_multiple_of_1024_bytes_is_found():
    text = product().replace("%half = kernel.size {value = 4096}", "%half = kernel.size {value = 4032}")
    fails(text, "expected a tile at a multiple of 1024 bytes")
    inputs, _ = operands()
    with pytest.raises(PolyremeError, match="'kernel.copy_box' expected a tile of 4096"):
        meaning(module_of(text), inputs, [np.zeros(4096, np.float32)])


def test_a_barrier_that_nobody_made_or_that_is_not_waited_for_is_found():
    fails(product().replace("kernel.counted_init %bars {counts = [1, 4]}", ""), "but none was made there")
    fails(product().replace("kernel.barrier ()", ""), "but none was made there|uses a barrier that another warp has made")


def test_more_arrivals_than_a_phase_has_are_found():
    text = product(arrive="kernel.counted_arrive %bars, %one\n").replace("counts = [1, 4]", "counts = [1, 3]")
    fails(text, "arrives at a barrier|overwrites shared memory|warp . has read|waits for a phase that never ends")


def test_a_store_into_a_tile_that_a_copy_fills_or_products_read_is_found():
    value = "%word = kernel.load %x, %zero : bf16\nkernel.store %word, %tiles, %t\n"
    early = product(full=value + "kernel.counted_wait %bars, %zero, %k")
    fails(early, "a store writes to shared memory that a copy is still to fill")
    fails(product(wait=value + "%done = kernel.wgmma_wait %s4 : vector<32xf32>"), "a store overwrites shared memory that")


def test_a_load_from_a_tile_that_has_not_been_waited_for_is_found():
    # Warp 4 looks at a tile that warps 0 to 3 have waited for.
    text = (
        product(full="kernel.counted_wait %bars, %zero, %k")
        + """
%idle = kernel.size {value = 129} : index
%looks = kernel.apply %t, %idle {fn = "eq"} : i1
kernel.if %looks {
  %seen = kernel.load %tiles, %zero : bf16
  %wide = kernel.apply %seen {fn = "cast", dtype = f32} : f32
  kernel.store %wide, %y, %zero
  kernel.yield
} {
  kernel.yield
}
"""
    )
    fails(text, "a load reads shared memory that a copy")


def test_the_end_of_a_kernel_with_a_copy_under_way_is_found():
    text = """
%tiles = kernel.alloc {shape = [4096], dtype = bf16, space = "shared"} : buffer<4096xbf16>
%bars = kernel.alloc {shape = [1], dtype = i64, space = "shared"} : buffer<1xi64>
%t = kernel.thread_id : index
%zero = kernel.size {value = 0} : index
%first = kernel.apply %t, %zero {fn = "eq"} : i1
kernel.if %first {
  kernel.counted_init %bars {counts = [1]}
  kernel.counted_expect %bars, %zero {bytes = 8192}
  kernel.copy_box %x, %tiles, %zero, %bars, %zero, %zero, %zero {sizes = [128, 64], strides = [128], box = [64, 64]}
  kernel.yield
} {
  kernel.yield
}
"""
    fails(text, "ends with a copy under way", block="[32]")


# --- what is refused before anything runs


def test_other_targets_do_not_have_these_instructions():
    module = module_of(product())
    for sm in (80, 90):
        with pytest.raises(PolyremeError, match="expected sm_90"):
            ptx_of(module, sm)
    assert "wgmma.mma_async" in ptx_of(module, SM).ptx


@pytest.mark.parametrize(
    ("arguments", "op", "message"),
    [
        ("%b: buffer<2xi64>", "kernel.counted_init %b {counts = [1]}", "a count for each of 2 barriers"),
        ("%b: buffer<2xi32>", "kernel.counted_init %b {counts = [1, 1]}", "buffer of i64"),
        ("%b: buffer<2xi64>", "kernel.counted_init %b {counts = [0, 1]}", "from 1 to"),
        ("%b: buffer<2xi64>, %i: index", "kernel.counted_expect %b, %i {bytes = 1048576}", "at most 1048575 bytes"),
        ("%b: buffer<2xi64>, %i: i64", "kernel.counted_arrive %b, %i", "expected an index"),
        ("", "kernel.set_registers {count = 36}", "steps of 8"),
        ("", "kernel.wgmma_wait {pending = 8}", "in \\[0, 8\\)"),
        (
            "%x: buffer<8xbf16>, %t: buffer<4096xbf16>, %i: index, %b: buffer<1xi64>",
            "kernel.copy_box %x, %t, %i, %b, %i, %i, %i {sizes = [8, 8], strides = [12], box = [64, 8]}",
            "whole 8 elements but got 12",
        ),
        (
            "%x: buffer<8xbf16>, %t: buffer<4096xbf16>, %i: index, %b: buffer<1xi64>",
            "kernel.copy_box %x, %t, %i, %b, %i, %i, %i {sizes = [8, 8], strides = [8], box = [32, 8]}",
            "a box of 64",
        ),
        (
            "%x: buffer<8xf32>, %t: buffer<4096xf32>, %i: index, %b: buffer<1xi64>",
            "kernel.copy_box %x, %t, %i, %b, %i, %i, %i {sizes = [8, 8], strides = [8], box = [64, 8]}",
            "16-bit elements",
        ),
        (
            "%x: buffer<8xbf16>, %t: buffer<4096xbf16>, %i: index, %b: buffer<1xi64>",
            "kernel.copy_box %x, %t, %i, %b, %i, %i {sizes = [8, 8], strides = [8], box = [64, 8]}",
            "for each of 2 axes",
        ),
        (
            "%t: buffer<4096xbf16>, %i: index, %s: vector<32xf32>",
            "%d = kernel.wgmma %t, %i, %t, %i, %s {columns = 128} : vector<32xf32>",
            "expected sums of type vector<64xf32>",
        ),
        (
            "%t: buffer<4096xbf16>, %i: index, %s: vector<64xf32>",
            "%d = kernel.wgmma %t, %i, %t, %i, %s {columns = 128, transpose_b = true} : vector<64xf32>",
            "expected 'apart_b'",
        ),
        (
            "%t: buffer<4096xf32>, %i: index, %s: vector<32xf32>",
            "%d = kernel.wgmma %t, %i, %t, %i, %s {columns = 64} : vector<32xf32>",
            "bf16 or of f16",
        ),
    ],
)
def test_ops_say_what_they_expect(arguments, op, message):
    with pytest.raises((InferError, VerifyError, PolyremeError), match=message):
        verify(parse_module(f"func @main({arguments}) {{ {op} return }}"))


# --- tensor maps


def test_a_box_beyond_the_edges_is_filled_with_zeros():
    driver = open_driver("gpu-emulated")
    array = np.arange(1, 1 + 5 * 72, dtype=np.uint16).reshape(5, 72)
    address = driver.allocate(array.nbytes)
    driver.upload(address, array)
    box = read_map(driver.tensor_map(TensorMap("bf16", (70, 5), (72,), (64, 4)), address))
    got = box.taken(driver.memory, [32, 3]).view(np.uint16).reshape(4, 64)
    expected = np.zeros((4, 64), np.uint16)
    expected[:2, :38] = array[3:, 32:70]
    assert np.array_equal(got, expected)
    before = box.taken(driver.memory, [-8, -1]).view(np.uint16).reshape(4, 64)
    assert not before[0].any() and not before[:, :8].any() and np.array_equal(before[1:, 8:], array[:3, :56])


@pytest.mark.parametrize(
    ("changes", "address", "message"),
    [
        ({}, 8, "multiple of 16 bytes"),
        ({"strides": (12,)}, 0, "whole 16 bytes"),
        ({"strides": (1 << 40,)}, 0, "below 2\\^40"),
        ({"sizes": (0, 8)}, 0, "1 to 2\\^31"),
        ({"box": (32, 8)}, 0, "boxes of 64"),
        ({"box": (64, 257)}, 0, "at most 256"),
        ({"dtype": "f32"}, 0, "bf16 or f16"),
        ({"sizes": (8,)}, 0, "2 to 5 axes"),
    ],
)
def test_a_map_that_a_device_would_refuse_is_refused(changes, address, message):
    fields = {"dtype": "bf16", "sizes": (64, 8), "strides": (64,), "box": (64, 8), **changes}
    with pytest.raises(BadMap, match=message):
        TensorMap(**fields).bytes_at(address)


def test_bytes_that_are_no_map_are_refused():
    with pytest.raises(BadMap, match="other bytes"):
        read_map(bytes(128))
