"""Products in tiles: which tile, how it comes into shared memory, and what has no tile at all."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import verify
from polyreme.lowering.emit.ptx.emit_module import emit_ptx, is_small
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.lowering.transforms.move_pads import MovePads
from tests.gpu.running import DEVICES, check

SM75, SM80, SM90 = (find_target(f"cuda:sm_{n}") for n in (75, 80, 90))


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def matmul(m, k, n, dtype="f32", flags=""):
    x = f"{k}x{m}" if "transpose_x" in flags else f"{m}x{k}"
    y = f"{n}x{k}" if "transpose_y" in flags else f"{k}x{n}"
    header = f"func @main(%x: tensor<{x}x{dtype}>, %y: tensor<{y}x{dtype}>) -> tensor<{m}x{n}x{dtype}>"
    return f"{header} {{ %z = nn.matmul %x, %y {flags}  return %z }}"


def kernels(text, target=SM80):
    return print_module(lower(parse_module(text), target))


def blocks_and_threads(text):
    """Of the first launch."""
    line = next(line for line in kernels(text).splitlines() if "kernel.launch" in line)
    return tuple(int(part.partition("]")[0].partition(",")[0]) for part in (line.split("grid = [")[1], line.split("block = [")[1]))


FLAGS = ["", "{transpose_x = true}", "{transpose_y = true}", "{transpose_x = true, transpose_y = true}"]


# --- which tile


@pytest.mark.parametrize(
    ("sizes", "blocks", "threads"),
    [
        ((4096, 4096, 4096), 64 * 32, 128),
        ((512, 512, 512), 16 * 8, 128),
        ((2048, 3072, 768), 32 * 12, 128),
        ((32, 64, 32), 1, 128),
        ((30, 64, 30), 1, 128),
    ],
    ids=str,
)
def test_the_tile_is_that_with_which_the_busiest_multiprocessor_has_the_least_to_do(sizes, blocks, threads):
    assert blocks_and_threads(matmul(*sizes)) == (blocks, threads)


def test_products_of_few_rows_and_little_depth_are_computed_element_by_element():
    assert (
        "@contract" in kernels(matmul(1000, 9, 4))
        and "@product" in kernels(matmul(1000, 9, 5))
        and "@product" in kernels(matmul(1000, 65, 4))
    )
    depthwise = """func @main(%x: tensor<2x8x12x12xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<2x8x12x12xf32> {
      %y = nn.conv %x, %w {padding = [1, 1, 1, 1], groups = 8}  %z = nn.relu %y  return %z }"""
    text = kernels(depthwise)
    assert text.count("kernel.launch") == 1 and "@product" not in text


@pytest.mark.parametrize("target", [SM80, SM90, find_target("cuda:sm_90a")], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_whole_tiles_are_stored_without_a_look_at_the_edges(dtype, target):
    def looks(m, n):
        text = kernels(matmul(m, 512, n, dtype), target)
        return text.count('fn = "lt"')

    whole = looks(2048, 2048)
    assert whole < looks(2040, 2048) and whole < looks(2048, 2040) < looks(2040, 2040)


# --- how tiles come into shared memory


@pytest.mark.parametrize(
    ("sizes", "lanes"), [((128, 64, 128), {1, 4}), ((128, 63, 128), {1, 4}), ((128, 64, 127), {1}), ((100, 64, 132), {1, 4})], ids=str
)
def test_what_lies_side_by_side_is_copied_by_16_bytes(sizes, lanes):
    """The left operand's rows are not side by side in a tile, so its elements come alone; the right one's columns are, where each row of
    them begins at a multiple of 16 bytes.
    """
    text = kernels(matmul(*sizes))
    assert {int(line.partition("lanes = ")[2].rstrip("}") or 4) for line in text.splitlines() if "copy_async" in line} == lanes


def test_older_devices_and_elements_that_are_widened_go_through_registers():
    assert "copy_async" in kernels(matmul(64, 64, 64)) and "copy_async" not in kernels(matmul(64, 64, 64), SM75)
    assert "copy_async" not in kernels(matmul(64, 64, 64, "f16"), SM75)


@DEVICES
@pytest.mark.parametrize("flags", FLAGS, ids=["plain", "x", "y", "both"])
@pytest.mark.parametrize("sizes", [(72, 48, 136), (33, 70, 41)], ids=["by 16 bytes", "one by one"])
@pytest.mark.parametrize("target", [SM75, SM80], ids=["sm_75", "sm_80"])
def test_products_of_operands_in_any_order(flags, sizes, target, device):
    m, k, n = sizes
    x, y = floats(m, k), floats(k, n, seed=1)
    given = [x.T.copy() if "transpose_x" in flags else x, y.T.copy() if "transpose_y" in flags else y]
    check(matmul(m, k, n, flags=flags), given, device, 1e-4, 1e-4, target)


@DEVICES
@pytest.mark.parametrize("padding", ["[1, 1, 1, 1]", "[0, 2, 1, 0]"])
@pytest.mark.parametrize("target", [SM75, SM90], ids=["sm_75", "sm_90"])
def test_pads_are_looked_through(padding, target, device):
    below = sum(map(int, padding.strip("[]").split(", ")[:2]))
    across = sum(map(int, padding.strip("[]").split(", ")[2:]))
    text = f"""func @main(%x: tensor<2x3x9x8xf32>, %w: tensor<6x3x3x3xf32>) -> tensor<2x6x{7 + below}x{6 + across}xf32> {{
      %z = nn.conv %x, %w {{padding = {padding}}}  return %z }}"""
    check(text, [floats(2, 3, 9, 8), floats(6, 3, 3, 3, seed=1)], device, 1e-4, 1e-4, target)


@DEVICES
def test_a_deep_product_in_parts_ends_where_its_depth_does(device):
    text = matmul(20, 1030, 24)
    assert "product_parts" in kernels(text)
    check(text, [floats(20, 1030), floats(1030, 24, seed=1)], device, 1e-4, 1e-3)


# --- positions


def ptx_of(text, target=SM90):
    return emit_ptx(lower(parse_module(text), target), target).ptx


def test_positions_take_32_bits_where_these_hold_all_of_them():
    def wide(size):
        kind = f"tensor<{size}x{size}xf32>"
        text = f"func @main(%x: {kind}) -> {kind} {{ %z = nn.transpose %x {{perm = [1, 0]}}  return %z }}"
        return any(word in ptx_of(text) for word in ("mul.hi.s64", "div.s64", "mul.lo.s64", "mad.lo.s64"))

    assert not wide(1000) and wide(40000) and wide("N")


def test_positions_that_come_from_data_take_64_bits():
    def first_kernel_is_small(text):
        module = lower(parse_module(text), SM90)
        launch = next(op for op in module.function("main").walk() if isinstance(op, kernel.Launch))
        return is_small(module.function(launch.callee.name), [launch])

    assert not first_kernel_is_small(
        "func @main(%x: tensor<100x7xf32>, %i: tensor<5xi64>) -> tensor<5x7xf32> { %z = nn.gather %x, %i {axis = 0}  return %z }"
    )
    assert first_kernel_is_small(
        "func @main(%x: tensor<100x7xf32>) -> tensor<7x100xf32> { %z = nn.transpose %x {perm = [1, 0]}  return %z }"
    )


@DEVICES
@pytest.mark.parametrize("index", [[4, 0, 2, 2], [-1, 3, -5, 1]], ids=["from the front", "from the end"])
def test_gathered_rows(index, device):
    text = "func @main(%x: tensor<5x7xf32>, %i: tensor<4xi64>) -> tensor<4x7xf32> { %z = nn.gather %x, %i {axis = 0}  return %z }"
    check(text, [floats(5, 7), np.array(index)], device)


# --- pads


def reshaped_pad(shape, low, high, wanted):
    main = Func.empty("main", [TensorType(shape, f32)], arg_names=("x",), arg_roles=("input",))
    b = Builder.at_end(main.block)
    pad = b(tensor.Pad, main.args[0], low=low, high=high, interior=(0,) * len(shape), value=0.5)
    b.insert(Return([b(tensor.Reshape, pad, shape=wanted)]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


@pytest.mark.parametrize(
    ("shape", "low", "high", "wanted", "moves"),
    [
        ((2, 6, 4, 3), (0, 0, 1, 0), (0, 0, 1, 2), (2, 3, 2, 6, 5), True),
        ((2, 8, 4, 4), (0, 0, 1, 1), (0, 0, 1, 1), (2, 8, 1, 6, 6), True),
        ((2, 6, 4, 3), (0, 0, 1, 0), (0, 0, 1, 2), (2, 6, 30), False),
        ((2, 5), (0, 1), (0, 0), (2, 3, 2), False),
    ],
    ids=["channels split", "an axis of one", "padded axes joined", "a padded axis split"],
)
def test_pads_move_behind_reshapes_that_leave_their_axes_whole(shape, low, high, wanted, moves):
    module = reshaped_pad(shape, low, high, wanted)
    x = floats(*shape)
    expected = evaluate(module, [x])
    MovePads().run(module)
    verify(module)
    assert isinstance(module.function().block.terminator.operands[0].producer(), tensor.Pad) == moves
    np.testing.assert_array_equal(evaluate(module, [x])[0], expected[0])


def test_a_padded_pooling_is_one_kernel():
    text = (
        "func @main(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> { "
        "%z = nn.max_pool %x {kernel = [3, 3], strides = [2, 2], padding = [1, 1, 1, 1]}  return %z }"
    )
    assert kernels(text).count("kernel.launch") == 1


# --- reductions


@DEVICES
@pytest.mark.parametrize("shape", [(20001,), (3, 9000), (9000, 3), (2, 1023)], ids=str)
def test_long_rows_are_added_in_fours_and_what_is_left(shape, device):
    axes = "[0]" if len(shape) == 1 or shape[1] == 3 else "[1]"
    kept = "" if len(shape) == 1 else f"{min(shape)}x"
    text = f"func @main(%x: tensor<{'x'.join(map(str, shape))}xf32>) -> tensor<{kept}f32> {{ %z = nn.sum %x {{axis = {axes}}}  return %z }}"
    check(text, [floats(*shape)], device, 1e-4, 1e-3)
