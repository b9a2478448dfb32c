"""The kernels that the GPU's builders make give what the ops mean: for odd sizes, sizes of 0 and 1, and free ones."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects.mt19937 import seed_state
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.machines.gpu import FLOATS
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from tests.gpu.running import DEVICES, check, check_bounds, loaded
from tests.nn_cases import CASES
from tests.strategies import modules

SM80 = find_target("cuda:sm_80")


def floats(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def launches(text, target=SM80):
    """The names of the kernels of a module, in the order in which they start."""
    return [
        line.split("@")[1].split(",")[0] for line in print_module(lower(parse_module(text), target)).splitlines() if "kernel.launch" in line
    ]


def function(body, result, **arguments):
    args = ", ".join(f"%{name}: tensor<{type}>" for name, type in arguments.items())
    return f"func @main({args}) -> tensor<{result}> {{ {body} }}"


@DEVICES
@pytest.mark.parametrize("case", CASES[::4], ids=lambda c: c.name)
def test_an_op_gives_what_it_means(case, device):
    typed = case.typed(np.float32)
    check_bounds(typed.module(), typed.arrays, device)


@DEVICES
@pytest.mark.slow
@pytest.mark.parametrize("case", [c for i, c in enumerate(CASES) if i % 4], ids=lambda c: c.name)
def test_every_other_op_gives_what_it_means(case, device):
    typed = case.typed(np.float32)
    check_bounds(typed.module(), typed.arrays, device)


# --- elements


@DEVICES
@pytest.mark.parametrize("count", [0, 1, 3, 4, 255, 1024, 1028])
def test_elements_of_any_count_known_or_free(count, device):
    x, y = floats(count), floats(count, seed=1)
    for size in (count, "N"):
        check(function("%a = nn.add %x, %y  %z = nn.tanh %a  return %z", f"{size}xf32", x=f"{size}xf32", y=f"{size}xf32"), [x, y], device)


def test_elements_are_read_by_vectors_where_they_lie_side_by_side():
    def vectors(size):
        return "lanes = 4" in print_module(
            lower(parse_module(function("%z = nn.relu %x  return %z", f"{size}xf32", x=f"{size}xf32")), SM80)
        )

    assert vectors(64) and vectors("Nx4") and not vectors(63) and not vectors("N")


# --- transposes


@DEVICES
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((64, 96), (1, 0)),
        ((33, 17), (1, 0)),
        ((2, 20, 5, 7), (0, 2, 3, 1)),
        ((3, 18, 2, 40), (3, 0, 2, 1)),
        ((40, 3), (1, 0)),
        ((0, 20), (1, 0)),
    ],
    ids=str,
)
def test_transposes_of_any_type(shape, perm, dtype, device):
    if dtype == "bfloat16":
        x = floats(*shape).astype(ml_dtypes.bfloat16)
    else:
        x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    short = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "uint8": "ui8", "bool": "i1"}[dtype]
    made = "x".join(str(shape[axis]) for axis in perm)
    text = function(f"%y = nn.transpose %x {{perm = {list(perm)}}}  return %y", f"{made}x{short}", x=f"{'x'.join(map(str, shape))}x{short}")
    check(text, [x], device)


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 5])
def test_what_is_made_of_transposed_values_is_one_kernel(n, device):
    body = """
      %a = nn.tanh %x  %b = nn.transpose %a {perm = [0, 2, 1]}  %c = nn.transpose %y {perm = [0, 2, 1]}  %d = nn.add %b, %c
      %e = nn.mul %d, %z  return %e"""
    for size in (n, "N"):
        text = function(body, f"{size}x50x33xf32", x=f"{size}x33x50xf32", y=f"{size}x33x50xf32", z=f"{size}x50x33xf32")
        check(text, [floats(n, 33, 50), floats(n, 33, 50, seed=1), floats(n, 50, 33, seed=2)], device)
        assert len(launches(text)) == 1


def test_tiles_turn_where_both_axes_fill_them():
    def turns(rows, columns):
        text = function("%y = nn.transpose %x {perm = [1, 0]}  return %y", f"{columns}x{rows}xf32", x=f"{rows}x{columns}xf32")
        return 'space = "shared"' in print_module(lower(parse_module(text), SM80))

    assert turns(64, 64) and turns(16, 1000)
    assert not turns(3, 1000) and not turns(1000, 3) and not turns("N", 64)


# --- rows


@DEVICES
@pytest.mark.parametrize("shape", [(1, 1), (3, 10), (5, 33), (2, 300), (70, 7), (0, 5)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_along_either_axis(shape, axis, device):
    if shape[axis] == 0:
        pytest.skip("an empty row has no maximum")
    n, m = shape
    check(function(f"%z = nn.softmax %x {{axis = {axis}}}  return %z", f"{n}x{m}xf32", x=f"{n}x{m}xf32"), [floats(*shape)], device)
    check(function(f"%z = nn.softmax %x {{axis = {axis}}}  return %z", "NxMxf32", x="NxMxf32"), [floats(*shape)], device)


@DEVICES
@pytest.mark.parametrize("fn", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_several_axes(fn, device):
    x = floats(3, 5, 4, 7)
    for axes, kept in (("0, 2", "5x7"), ("1, 3", "3x4"), ("0, 1, 2, 3", "")):
        type = f"{kept}xf32" if kept else "f32"
        check(function(f"%z = nn.{fn} %x {{axis = [{axes}]}}  return %z", type, x="3x5x4x7xf32"), [x], device, 1e-4, 1e-4)


@DEVICES
def test_a_long_row_is_cut_into_parts_that_are_added_in_order(device):
    text = function("%s = nn.square %x  %z = nn.mean %s {axis = [0]}  return %z", "f32", x="20001xf32")
    assert [name.rpartition("_")[2] == "parts" for name in launches(text)] == [True, False]
    check(text, [floats(20001)], device)


@DEVICES
def test_cross_entropy_of_a_free_batch(device):
    text = function("%z = nn.cross_entropy %x, %y  return %z", "Nx1xf32", x="Nx10xf32", y="Nx1xi64")
    for n in (0, 1, 37):
        check(text, [floats(n, 10), np.random.default_rng(n).integers(0, 10, (n, 1))], device)


# --- products


@DEVICES
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (33, 17, 34), (64, 16, 64), (70, 40, 66)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_products_of_odd_sizes(sizes, dtype, device):
    m, k, n = sizes
    kind = {"f32": "float32", "f64": "float64"}[dtype]
    x, w = floats(m, k, dtype=kind), floats(k, n, dtype=kind, seed=1)
    check(
        function("%z = nn.matmul %x, %w  return %z", f"{m}x{n}x{dtype}", x=f"{m}x{k}x{dtype}", w=f"{k}x{n}x{dtype}"),
        [x, w],
        device,
        1e-4,
        1e-5,
    )


@DEVICES
@pytest.mark.parametrize("tile", [rate.tile for rate in FLOATS.tiles], ids=lambda tile: f"{tile.rows}x{tile.columns}")
@pytest.mark.parametrize("sizes", [(130, 40, 260), (129, 41, 131)], ids=str)
def test_products_in_tiles_of_any_size(tile, sizes, device, monkeypatch):
    monkeypatch.setattr("polyreme.lowering.kernels.gpu.tiles.choose_tile", lambda *_: tile)
    m, k, n = sizes
    text = function("%z = nn.matmul %x, %w  return %z", f"{m}x{n}xf32", x=f"{m}x{k}xf32", w=f"{k}x{n}xf32")
    check(text, [floats(m, k), floats(k, n, seed=1)], device, 1e-4, 1e-4)


@DEVICES
@pytest.mark.parametrize("flags", ["", "{transpose_x = true}", "{transpose_y = true}", "{transpose_x = true, transpose_y = true}"])
def test_products_of_transposed_operands_in_batches(flags, device):
    x, y = floats(2, 9, 11), floats(2, 11, 10, seed=1)
    turned_x, turned_y = "transpose_x" in flags, "transpose_y" in flags
    x, y = x.transpose(0, 2, 1).copy() if turned_x else x, y.transpose(0, 2, 1).copy() if turned_y else y
    shapes = ["x".join(map(str, a.shape)) for a in (x, y)]
    check(function(f"%z = nn.matmul %x, %y {flags}  return %z", "2x9x10xf32", x=f"{shapes[0]}xf32", y=f"{shapes[1]}xf32"), [x, y], device)


LINEAR = function("%y = nn.linear %x, %w, %b  %z = nn.gelu %y  return %z", "Nx20xf32", x="Nx33xf32", w="33x20xf32", b="20xf32")


@DEVICES
@pytest.mark.parametrize("batch", [0, 1, 5, 65])
def test_a_linear_layer_of_a_free_batch_is_one_kernel(batch, device):
    assert len(launches(LINEAR)) == 1
    check(LINEAR, [floats(batch, 33), floats(33, 20, seed=1), floats(20, seed=2)], device)


@DEVICES
def test_a_deep_product_is_cut_along_its_depth(device):
    text = function("%z = nn.matmul %x, %w  return %z", "6x8xf32", x="6x1500xf32", w="1500x8xf32")
    assert launches(text)[0].startswith("product_parts")
    check(text, [floats(6, 1500), floats(1500, 8, seed=1)], device, 1e-4, 1e-4)


def conv(batch, attributes, result, groups=1, channels=3):
    weight = f"4x{channels // groups}x3x3xf32"
    args = {"x": f"{batch}x{channels}x9x8xf32", "w": weight, "b": "4xf32"}
    return function(f"%y = nn.conv %x, %w, %b {{{attributes}, groups = {groups}}}  %z = nn.relu %y  return %z", result, **args)


@DEVICES
@pytest.mark.parametrize(
    ("attributes", "places"),
    [
        ("strides = [1, 1], padding = [1, 1, 1, 1]", "9x8"),
        ("strides = [2, 3], padding = [0, 1, 2, 0]", "4x3"),
        ("strides = [1, 1], dilations = [2, 3], padding = [2, 2, 2, 2]", "9x6"),
    ],
)
def test_convolutions(attributes, places, device):
    for batch in (2, "N"):
        check(
            conv(batch, attributes, f"{batch}x4x{places}xf32"), [floats(2, 3, 9, 8), floats(4, 3, 3, 3, seed=1), floats(4, seed=2)], device
        )


@DEVICES
def test_a_convolution_in_groups(device):
    text = conv(2, "padding = [1, 1, 1, 1]", "2x4x9x8xf32", groups=2, channels=4)
    check(text, [floats(2, 4, 9, 8), floats(4, 2, 3, 3, seed=1), floats(4, seed=2)], device)


@DEVICES
def test_a_pooling_after_a_convolution_is_a_second_kernel(device):
    body = (
        "%y = nn.conv %x, %w {padding = [1, 1, 1, 1]}  %r = nn.relu %y  %z = nn.max_pool %r {kernel = [2, 2], strides = [2, 2]}  return %z"
    )
    text = function(body, "Nx6x4x4xf32", x="Nx3x8x8xf32", w="6x3x3x3xf32")
    assert len(launches(text)) == 2
    check(text, [floats(3, 3, 8, 8), floats(6, 3, 3, 3, seed=1)], device)


@DEVICES
@pytest.mark.parametrize("target", ["cuda:sm_75", "cuda:sm_80"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_products_of_16_bits_keep_their_sums_in_32(dtype, target, device):
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[dtype]
    x, y = floats(70, 50).astype(kind), floats(50, 67, seed=1).astype(kind)
    text = function("%z = nn.matmul %x, %y  return %z", f"70x67x{dtype}", x=f"70x50x{dtype}", y=f"50x67x{dtype}")
    by_cores = target != "cuda:sm_75"
    assert launches(text, find_target(target))[0].startswith("tensor_core" if by_cores else "product")
    check(text, [x, y], device, 8e-3 if dtype == "bf16" else 1e-3, 1e-2, find_target(target))


# --- draws


@DEVICES
@pytest.mark.parametrize("count", [0, 1, 311, 312, 700])
@pytest.mark.parametrize("used", [0, 200, 312])
def test_draws_are_those_of_the_cpu_bit_for_bit(count, used, device):
    state = seed_state(7)
    state[312] = used
    text = f"""func @main(%s: tensor<313xui64>) -> (tensor<{count}xf32>, tensor<313xui64>) {{
      %v, %t = nn.uniform %s {{shape = [{count}], low = -1.0, high = 1.0, dtype = f32}}
      return %v, %t
    }}"""
    module = parse_module(text)
    for got, expected in zip(loaded(module, device).run([state]), evaluate(module, [state]), strict=True):
        assert got.tobytes() == expected.tobytes()


# --- anything


@DEVICES
@pytest.mark.parametrize("level", ["nn", "tensor"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_module_gives_what_it_means(level, device, data):
    sample = data.draw(modules(level))
    check_bounds(sample.module, sample.inputs, device)


ROWS = {
    "softmax": "func @main(%x: T) -> T { %y = nn.softmax %x  return %y }",
    "log_softmax": "func @main(%x: T) -> T { %y = nn.log_softmax %x  return %y }",
    "gradient of softmax": """func @main(%y: T, %g: T) -> T {
%m = nn.mul %g, %y  %s = nn.sum %m {axis = [1], keepdims = true}  %d = nn.sub %g, %s  %r = nn.mul %y, %d  return %r }""",
    "layer norm": """func @main(%x: T, %w: V, %b: V) -> (T, S, S) {
%y, %m, %v = nn.standardize %x, %w, %b {axes = [1], affine = [1]}  return %y, %m, %v }""",
    "rms norm": """func @main(%x: T, %w: V) -> T {
%q = nn.square %x  %m = nn.mean %q {axis = [1], keepdims = true}  %r = nn.rsqrt %m  %n = nn.mul %x, %r  %y = nn.mul %n, %w  return %y }""",
}


@DEVICES
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_read_once(name, device):
    # Rows of 7 and 1500 elements, of which the last thread's are not all there, and of the most that a block holds.
    for length in (7, 1500, 4096):
        text = ROWS[name].replace("T", f"tensor<3x{length}xf32>").replace("V", f"tensor<{length}xf32>").replace("S", "tensor<3xf32>")
        module = parse_module(text)
        rng = np.random.default_rng(length)
        inputs = [rng.uniform(0.1, 2, a.type.shape).astype(np.float32) for a in module.function("main").args]
        check(module, inputs, device, rtol=2e-5, atol=2e-5)
        target = find_target("cuda:sm_90")
        code = emit_ptx(lower(module, target), target)
        (kernel,) = code.kernels.values()
        # Each operand with rows, and each vector, once for each element of a thread.
        each = -(-length // kernel.threads)
        assert code.ptx.count("ld.global") == each * len(inputs)
