"""Kernel modules as machine code do what they mean on numpy."""

import mmap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel
from polyreme.dialects.kernel import of_lanes
from polyreme.ir.builtin import Module, Return
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbol
from polyreme.ir.scalar import FUNCTIONS, apply_scalar
from polyreme.ir.types import BufferType, bf16, f16, f32, f64, i1, i8, i16, i32, i64, index, u8, u16, u32, u64
from polyreme.ir.verify import verify
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import emit_llvm, size_names
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import TARGETS, find_target, host
from polyreme.lowering.pipeline import compile_module
from tests.lowering.kernel_modules import assert_same, both, compiled, finish, function, one_function, register_tile
from tests.strategies import modules

DTYPES = (f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, i1)
FLOATS = (f16, bf16, f32, f64)
# Rows whose machine code is a polynomial or libm's function, not the same arithmetic as numpy's.
APPROXIMATE = {
    "exp", "expm1", "log", "log1p", "log2", "log10", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh",
    "sigmoid",
    "erf", "gelu", "pow", "fma",
}  # fmt: skip
EPSILON = {"f16": 2**-10, "bf16": 2**-7, "f32": 2**-22, "f64": 2**-50}


def edge_values(dtype):
    """Numbers at which functions change their ways, as many as one vector twice and a bit."""
    if dtype.is_float:
        info = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            3.0,
            0.3,
            -0.7,
            7.25,
            100.0,
            -100.0,
            np.inf,
            -np.inf,
            np.nan,
            1e-6,
            4e-8,
            300.0,
            60000.0,
        ]
        return np.array(info + [2.0, -3.0, 10.0, 0.1, 0.25, 5.0, 6.0, 7.0, 8.0, -9.0, 0.9]).astype(dtype.np)
    if dtype == i1:
        return np.array([True, False, True, True, False] * 5)
    limits = np.iinfo(dtype.np)
    numbers = [0, 1, 2, 3, 5, 7, 8, 100, limits.max, limits.max - 1, limits.max // 2]
    if limits.min < 0:
        numbers += [-1, -2, -3, -7, -100, limits.min, limits.min + 1]
    return np.array(numbers * 2, dtype=dtype.np)


def operands_of(fn, dtype):
    """Arrays that pair every edge value with every other one."""
    arity = FUNCTIONS[fn].arity
    values = edge_values(dtype)
    if arity == 1:
        return [values]
    first, second = (a.ravel() for a in np.meshgrid(values, values))
    if fn == "pow" and not dtype.is_float:
        second = np.abs(second) % 7  # numpy refuses negative exponents
        second = np.where(second < 0, 0, second).astype(dtype.np)
    if arity == 2:
        return [first, second]
    third = np.roll(first, 3)
    with np.errstate(invalid="ignore"):
        larger = first > second
    return [larger, first, second] if fn == "select" else [first, second, third]


def elementwise(fn, arrays, result, lanes, dtype):
    """A module that applies `fn` to whole arrays, `lanes` at a time, the last ones under a mask."""
    return each_elementwise(fn, [(arrays, result, dtype)], lanes)


def each_elementwise(fn, rows, lanes):
    """The same for several (arrays, type of the result, type of the operands): one module takes LLVM a fraction of what many small ones do.
    """
    inputs = [[BufferType((len(a),), i1 if a.dtype == bool else dtype) for a in arrays] for arrays, _, dtype in rows]
    module, args, b = one_function(
        [type for types in inputs for type in types], [BufferType((len(arrays[0]),), result) for arrays, result, _ in rows]
    )
    given = iter(args)
    for (arrays, result, _), output in zip(rows, args[len(args) - len(rows) :], strict=True):
        n, buffers = len(arrays[0]), [next(given) for _ in arrays]
        with b.loop(b.number(0), b.number(n), step=lanes) as (i, _, _):
            mask = b(kernel.LaneMask, b.apply("sub", b.number(n), i), lanes=lanes)
            loaded = [b(kernel.Load, buffer, i, mask, lanes=lanes) for buffer in buffers]
            value = b.apply(fn, *loaded, dtype=result if FUNCTIONS[fn].result == "attr" else None)
            b(kernel.Store, value, output, i, mask)
    finish(b)
    return module


def kinds_of(fn):
    return [d for d in DTYPES if d.kind in FUNCTIONS[fn].kinds]


# The same machine with and without masks, fused multiply-add, conversions of half floats.
WAYS = [("native", 1), ("native", 16)] + ([("x86-64-avx2", 8), ("x86-64", 4)] if host().arch == "x86_64" and host().has("avx2") else [])


@pytest.mark.parametrize(("target", "lanes"), WAYS)
@pytest.mark.parametrize("fn", [f for f in FUNCTIONS if f != "cast"])
def test_every_scalar_function_means_the_same_on_every_type(fn, target, lanes):
    machine = find_target(target)
    rows = [(operands_of(fn, dtype), i1 if FUNCTIONS[fn].result == "bool" else dtype, dtype) for dtype in kinds_of(fn)]
    results = compiled(each_elementwise(fn, rows, lanes), [a for arrays, _, _ in rows for a in arrays], machine)
    for (arrays, _, dtype), got in zip(rows, results, strict=True):
        want = apply_scalar(fn, tuple(arrays))
        if FUNCTIONS[fn].arity == 3 and fn == "fma":
            wide = [a.astype(np.float64 if dtype != f64 else np.longdouble) for a in arrays]
            with np.errstate(all="ignore"):
                want = (wide[0] * wide[1] + wide[2]).astype(dtype.np)
        tolerance = EPSILON[dtype.name] if fn in APPROXIMATE and dtype.is_float else 0
        least = 0
        if fn == "gelu":
            # Exact to some ulp of the operand; half of the smallest number lies between two numbers, and either is as near.
            size = np.abs(np.nan_to_num(arrays[0].astype(np.float64), posinf=0, neginf=0))
            least = size * tolerance + float(np.nextafter(dtype.np.type(0), dtype.np.type(1)))
        if fn == "fma" and not machine.fma:
            # The product is rounded first: only exact ones have one meaning.
            with np.errstate(all="ignore"):
                exact = arrays[0].astype(np.float64) * arrays[1].astype(np.float64)
                rounded = exact.astype(dtype.np).astype(np.float64)
            same = (rounded == exact) | ~np.isfinite(rounded)
            got, want = got[same & np.isfinite(want.astype(np.float64))], want[same & np.isfinite(want.astype(np.float64))]
        with np.errstate(all="ignore"):
            close = np.isclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=least, equal_nan=True)
        assert close.all(), f"{fn} on {dtype}: {got[~close]} for {want[~close]}"


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("fn", ["mod", "floor_divide"])
def test_remainders_are_exact_whatever_the_quotient(fn, dtype):
    random, count = np.random.default_rng(0), 4000
    bits = np.uint32 if dtype == f32 else np.uint64
    small = random.standard_normal(count).astype(dtype.np)
    multiple = (random.integers(1, 1 << 24, count) * small.astype(np.longdouble)).astype(dtype.np)
    pairs = [(multiple, small), (np.nextafter(multiple, -multiple), small), (np.nextafter(multiple, 2 * multiple), -small)]
    pairs.append(tuple(random.integers(0, np.iinfo(bits).max, count, dtype=bits).view(dtype.np) for _ in range(2)))
    for a, b in pairs:
        (got,) = compiled(elementwise(fn, [a, b], dtype, 16, dtype), [a, b], host())
        with np.errstate(all="ignore"):
            want = {"mod": np.mod, "floor_divide": np.floor_divide}[fn](a, b)
        both = ~(np.isnan(got) & np.isnan(want))
        np.testing.assert_array_equal(got[both].view(bits), want[both].view(bits))


@pytest.mark.parametrize(("target", "lanes"), WAYS)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_cast_gives_what_numpy_gives(source, target, lanes):
    rows = []
    for result in DTYPES:
        values = edge_values(source)
        if source.is_float and not result.is_float and result != i1:
            # What does not fit an integer has no meaning that machines agree on.
            values = values[np.isfinite(values.astype(np.float64))]
            limits = np.iinfo(result.np)
            values = values[(values.astype(np.float64) >= limits.min) & (values.astype(np.float64) <= min(limits.max, 2**52))]
        rows.append(([values], result, source))
    results = compiled(each_elementwise("cast", rows, lanes), [values for (values,), _, _ in rows], find_target(target))
    for ((values,), result, _), got in zip(rows, results, strict=True):
        want = apply_scalar("cast", (values,), result)
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64), err_msg=f"{source} to {result}")


@pytest.mark.parametrize(("target", "lanes"), WAYS)
def test_casts_to_half_floats_round_once_and_to_even(target, lanes):
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    singles = bits.view(np.float32).copy()
    singles[:2048] = rng.uniform(-2.0**-13, 2.0**-13, 2048)  # denormal as f16
    singles[2048:3000] = rng.normal(0, 100, 952)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves[:-1] + halves[1:]) / 2
    doubles = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf)])
    for source, values in ((f32, singles), (f64, doubles)):
        for result in (f16, bf16):
            values = values.astype(source.np)
            want = apply_scalar("cast", (values,), result)
            (got,) = compiled(elementwise("cast", [values], result, lanes, source), [values], find_target(target))
            if (source, result) == (f64, bf16):
                # ml_dtypes goes through float32 and so rounds twice: ours is the nearer one where they differ.
                error = np.abs(got.astype(np.float64) - values)
                assert (error <= np.abs(want.astype(np.float64) - values)).all()
            else:
                np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize(("target", "lanes"), WAYS)
def test_every_f16_and_bf16_survives_the_way_through_f32(target, lanes):
    machine = find_target(target)
    bits = np.arange(1 << 16, dtype=np.uint16)
    for dtype in (f16, bf16):
        values = bits.view(dtype.np)
        (wide,) = compiled(elementwise("cast", [values], f32, lanes, dtype), [values], machine)
        np.testing.assert_array_equal(wide, values.astype(np.float32))
        (back,) = compiled(elementwise("cast", [wide], dtype, lanes, f32), [wide], machine)
        number = ~np.isnan(wide)
        np.testing.assert_array_equal(back.view(np.uint16)[number], bits[number])
        assert np.isnan(back.astype(np.float32)[~number]).all()


# --- loops and branches


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_carried_values_leave_a_loop_after_its_last_round(count):
    """Known bounds decide whether there is a loop at all; unknown ones are guarded. Both must agree."""
    module, args, b = one_function([BufferType((8,), f32), BufferType((1,), i64)], [BufferType((4,), f32)])
    unknown = b.apply("cast", b(kernel.Load, args[1], b.number(0)), dtype=index)
    at = 0
    for hi in (b.number(count), unknown):
        start = [b.constant(1.0, f32), b.constant(0.0, f32)]
        with b.loop(b.number(0), hi, start) as (i, (product, previous), passed):
            x = b(kernel.Load, args[0], i)
            passed += [b.apply("mul", product, x), product]
        for result in passed:
            b(kernel.Store, result, args[2], b.number(at))
            at += 1
    finish(b)
    assert_same(module, [np.arange(1, 9, dtype=np.float32) / 2, np.array([count])])


def test_a_loop_can_swap_what_it_carries():
    module, args, b = one_function([BufferType((1,), i64)], [BufferType((2,), i64)])
    hi = b.apply("cast", b(kernel.Load, args[0], b.number(0)), dtype=index)
    with b.loop(b.number(0), hi, [b.number(3), b.number(10)]) as (_, (x, y), passed):
        passed += [y, b.apply("add", x, b.number(1))]
    for k, result in enumerate(passed):
        b(kernel.Store, b.apply("cast", result, dtype=i64), args[1], b.number(k))
    finish(b)
    for count in (0, 1, 2, 5):
        assert_same(module, [np.array([count])])


def test_positions_from_an_inner_block_do_not_leak_out_of_it():
    """The same sum stands inside a branch and after it: what the branch computed may not be reused."""
    module, args, b = one_function([BufferType((64,), f32), BufferType((2,), i64)], [BufferType((64,), f32)])
    a, c = (b.apply("cast", b(kernel.Load, args[1], b.number(k)), dtype=index) for k in (0, 1))
    branch = kernel.If.empty(b.apply("lt", a, c), [f32])
    for body, offset in ((branch.then_body, 1), (branch.else_body, 2)):
        with b.inside(body.block):
            at = b.apply("add", b.apply("add", a, c), b.number(offset))
            b(kernel.Yield, b(kernel.Load, args[0], at))
    value = b.insert(branch)
    at = b.apply("add", b.apply("add", a, c), b.number(1))
    b(kernel.Store, b.apply("add", value, b(kernel.Load, args[0], at)), args[2], b.apply("mul", at, b.number(2)))
    for k in (0, 1):
        b(kernel.Store, b.constant(0.0, f32), args[2], b.number(k))
    finish(b)
    x = np.random.default_rng(0).normal(size=64).astype(np.float32)
    for pair in ([1, 2], [5, 3]):
        got, want = both(module, [x, np.array(pair)])
        written = [0, 1, 2 * (sum(pair) + 1)]
        np.testing.assert_array_equal(got[0][written], want[0][written])


def test_a_masked_scalar_load_inside_a_loop_keeps_its_blocks_in_order():
    module, args, b = one_function([BufferType((10,), f32), BufferType((1,), i64)], [BufferType((1,), f32)])
    n = b.apply("cast", b(kernel.Load, args[1], b.number(0)), dtype=index)
    with b.loop(b.number(-5), b.number(20), [b.constant(0.0, f32)]) as (i, (total,), passed):
        inside = b.apply("and", b.apply("ge", i, b.number(0)), b.apply("lt", i, n))
        passed.append(b.apply("add", total, b(kernel.Load, args[0], i, inside)))
    b(kernel.Store, passed[0], args[2], b.number(0))
    finish(b)
    assert_same(module, [np.arange(10, dtype=np.float32), np.array([7])])


# --- memory


@pytest.mark.parametrize("dtype", [f32, f64, i8, i16, i64, i1, bf16], ids=str)
@pytest.mark.parametrize("lanes", [1, 4, 12, 16, 32, 64])
def test_lanes_that_are_off_touch_no_memory(dtype, lanes):
    """The arrays end where the readable page ends: a lane too many would end the process."""
    page = mmap.PAGESIZE
    count = 5
    for n in sorted({0, 1, min(lanes, count), count}):
        module, args, b = one_function([BufferType((n,), dtype)], [BufferType((n,), dtype)])
        with b.loop(b.number(0), b.number(n), step=lanes) as (i, _, _):
            mask = b(kernel.LaneMask, b.apply("sub", b.number(n), i), lanes=lanes)
            b(kernel.Store, b(kernel.Load, args[0], i, mask, lanes=lanes), args[1], i, mask)
        finish(b)
        memory = mmap.mmap(-1, page)
        x = np.frombuffer(memory, dtype.np, n, page - n * dtype.bytes)
        x[:] = np.arange(n).astype(dtype.np)
        np.testing.assert_array_equal(compiled(module, [x])[0].astype(np.float64), x.astype(np.float64))


def test_gather_and_scatter_move_each_lane_by_itself():
    for lanes in (1, 8, 16):
        module, args, b = one_function(
            [BufferType((40,), f32), BufferType((lanes,), i64), BufferType((lanes,), i1)], [BufferType((40,), f32)]
        )
        with b.loop(b.number(0), b.number(40)) as (i, _, _):
            b(kernel.Store, b.constant(0.0, f32), args[3], i)
        at = b.apply("cast", b(kernel.Load, args[1], b.number(0), lanes=lanes), dtype=index)
        mask = b(kernel.Load, args[2], b.number(0), lanes=lanes)
        x = b(kernel.Gather, args[0], at, mask)
        y = b(kernel.Gather, args[0], b.apply("mod", at, b(kernel.Broadcast, b.number(40), lanes=lanes)))
        b(kernel.Scatter, b.apply("add", x, y), args[3], at, mask)
        b(kernel.Scatter, x, args[3], b(kernel.Iota, lanes=lanes))
        finish(b)
        verify(module)
        rng = np.random.default_rng(lanes)
        positions = rng.permutation(40)[:lanes]
        on = rng.integers(0, 2, lanes).astype(bool)
        positions = np.where(on, positions, 10**9)  # far outside, but off
        assert_same(module, [rng.normal(size=40).astype(np.float32), positions, on])


def test_views_and_local_memory_are_the_memory_they_stand_for():
    module, args, b = one_function([BufferType((4, 8), f32)], [BufferType((4, 8), f32)])
    local = b(kernel.Alloc, shape=(8,), dtype=f32, space="local")
    with b.loop(b.number(0), b.number(4)) as (row, _, _):
        source = b(kernel.View, args[0], b.apply("mul", row, b.number(8)), shape=(8,))
        b(kernel.Store, b(kernel.Load, source, b.number(0), lanes=8), local, b.number(0))
        target = b(kernel.View, args[1], b.apply("mul", b.apply("sub", b.number(3), row), b.number(8)), shape=(8,))
        with b.loop(b.number(0), b.number(8)) as (i, _, _):
            b(kernel.Store, b(kernel.Load, local, i), target, b.apply("sub", b.number(7), i))
    finish(b)
    assert_same(module, [np.arange(32, dtype=np.float32).reshape(4, 8)])


# --- vectors


@pytest.mark.parametrize("fn", kernel.REDUCTIONS)
def test_a_vector_is_reduced_in_halves(fn):
    for dtype in (f32, f64, f16, i32, u8, i1):
        if dtype.kind not in FUNCTIONS[fn].kinds:
            continue
        for lanes in (1, 2, 16, 32):
            module, args, b = one_function([BufferType((lanes,), dtype)], [BufferType((1,), dtype)])
            b(kernel.Store, b(kernel.Reduce, b(kernel.Load, args[0], b.number(0), lanes=lanes), fn=fn), args[1], b.number(0))
            finish(b)
            rng = np.random.default_rng(lanes)
            x = rng.integers(0, 2, lanes).astype(bool) if dtype == i1 else rng.uniform(1, 3, lanes).astype(dtype.np)
            assert_same(module, [x])
            if dtype.is_float:
                for lane in {0, lanes // 2, lanes - 1}:
                    for special in (np.nan, np.inf, -np.inf):
                        x[lane] = special
                        assert_same(module, [x])


def test_lanes_are_picked_put_and_numbered():
    module, args, b = one_function([BufferType((8,), i32), BufferType((8,), i32)], [BufferType((12,), i32), BufferType((4,), i64)])
    x, y = (b(kernel.Load, a, b.number(0), lanes=8) for a in args[:2])
    mixed = b(kernel.Shuffle, x, y, lanes=(0, 8, 1, 9, 15, 7, 3, 3, 2, 10, 11, 14))
    mixed = b(kernel.Insert, mixed, b(kernel.Extract, y, lane=5), lane=4)
    b(kernel.Store, mixed, args[2], b.number(0))
    b(kernel.Store, b.apply("cast", b(kernel.Iota, lanes=4), dtype=i64), args[3], b.number(0))
    finish(b)
    verify(module)
    assert_same(module, [np.arange(8, dtype=np.int32), np.arange(10, 18, dtype=np.int32)])


@pytest.mark.parametrize("lanes", [1, 2, 4, 12, 16, 32, 64, 128])
def test_a_lane_mask_is_on_for_the_first_lanes_whether_their_number_is_known_or_not(lanes):
    counts = [-(2**40), -1, 0, 1, lanes - 1, lanes, lanes + 1, 2**40]
    module, args, b = one_function([BufferType((1,), i64)], [BufferType((lanes,), i1)] * (len(counts) + 1))
    unknown = b.apply("cast", b(kernel.Load, args[0], b.number(0)), dtype=index)
    for n, out in zip([unknown, *map(b.number, counts)], args[1:], strict=True):
        b(kernel.Store, b(kernel.LaneMask, n, lanes=lanes), out, b.number(0))
    finish(b)
    for n in counts:
        assert_same(module, [np.array([n])])


def test_a_mask_that_is_known_to_be_on_needs_no_masked_access():
    module, args, b = one_function([BufferType((16,), f32)], [BufferType((16,), f32)])
    mask = b(kernel.LaneMask, b.number(16), lanes=16)
    x = b.apply("select", mask, b(kernel.Load, args[0], b.number(0), mask, lanes=16), b.constant(1.0, f32, 16))
    b(kernel.Store, x, args[1], b.number(0), mask)
    finish(b)
    text = emit_llvm(module, host())
    assert "masked" not in text and "select" not in text
    assert_same(module, [np.arange(16, dtype=np.float32)])


def test_a_prefetch_may_point_anywhere():
    module, args, b = one_function([BufferType((4,), f32)], [BufferType((4,), f32)])
    b(kernel.Prefetch, args[0], b.number(10**12), locality=1)
    b(kernel.Prefetch, args[1], b.number(-4096), write=True)
    b(kernel.Store, b(kernel.Load, args[0], b.number(0), lanes=4), args[1], b.number(0))
    finish(b)
    assert_same(module, [np.ones(4, np.float32)])


@pytest.mark.parametrize("dtype", [f32, f64, i8])
@pytest.mark.parametrize("threads", [False, True])
def test_streaming_stores_write_what_others_do_wherever_the_buffer_lies(dtype, threads):
    lanes = 64 // dtype.bytes
    module, args, b = one_function([BufferType((40 * lanes,), dtype)], [BufferType((40 * lanes + 3,), dtype)])

    def vector(i):
        at = b.apply("mul", i, b.number(lanes))
        # From a place that is not that of a vector on.
        b(kernel.Store, b(kernel.Load, args[0], at, lanes=lanes), args[1], b.apply("add", at, b.number(3)), streaming=True)

    b(kernel.Store, b(kernel.Load, args[0], b.number(0), lanes=3), args[1], b.number(0), streaming=True)
    if threads:
        with b.parallel(b.number(40), grain=4) as i:
            vector(i)
    else:
        with b.loop(b.number(0), b.number(40)) as (i, _, _):
            vector(i)
    finish(b)
    assert_same(module, [np.arange(40 * lanes).astype(dtype.np)])
    text = emit_llvm(module, TARGETS["x86-64-avx512"])
    assert "!nontemporal" in text and "sfence" in text
    assert "movnt" in assembly(text, TARGETS["x86-64-avx512"])
    assert "nontemporal" not in emit_llvm(module, TARGETS["aarch64"])


def test_vectors_of_half_a_piece_are_not_streamed():
    """Every other one would be, by its place, and lines that are written both ways go to memory at each turn."""
    module, args, b = one_function([BufferType((64,), f32)], [BufferType((64,), f32)])
    with b.loop(b.number(0), b.number(64), step=2) as (i, _, _):
        b(kernel.Store, b(kernel.Load, args[0], i, lanes=2), args[1], i, streaming=True)
    finish(b)
    assert_same(module, [np.arange(64, dtype=np.float32)])
    assert "nontemporal" not in emit_llvm(module, TARGETS["x86-64-avx512"])


# --- calls, threads, sizes


def scaled_rows(n):
    """y[i] = x[i] * 2 + 1 by rows, through memory of the arena, both halves in parallel; rows are a symbolic number."""
    module = Module.empty()
    rows = BufferType((n, 5), f32)
    for name, factor, addend in (("twice", 2.0, 0.0), ("plus", 1.0, 1.0)):
        func, b = function(module, name, [rows, rows])
        two, one = b.constant(factor, f32, 4), b.constant(addend, f32, 4)
        with b.parallel(b(kernel.Size, value=n), grain=2) as row:
            start = b.apply("mul", row, b.number(5))
            with b.loop(b.number(0), b.number(5), step=4) as (i, _, _):
                mask = b(kernel.LaneMask, b.apply("sub", b.number(5), i), lanes=4)
                at = b.apply("add", start, i)
                x = b(kernel.Load, func.args[0], at, mask, lanes=4)
                b(kernel.Store, b(kernel.Fma, x, two, one), func.args[1], at, mask)
        finish(b)
    main, b = function(module, "main", [rows, rows], ("input", "output"))
    between = b(kernel.Alloc, shape=(n, 5), dtype=f32)
    b(kernel.Call, main.args[0], between, callee="twice")
    b(kernel.Call, between, main.args[1], callee="plus")
    finish(b)
    return module


def test_symbolic_sizes_are_computed_by_the_machine_code():
    module = scaled_rows(symbol("N"))
    verify(module)
    for n in (0, 1, 3, 64):
        assert_same(module, [np.random.default_rng(n).normal(size=(n, 5)).astype(np.float32)])


def test_size_expressions_are_evaluated_natively():
    n, t = symbol("N"), symbol("T")
    sizes = [2 * n * t - n + 3, (n + 1) // 2, (n * 3 + t) % 4, n // (t + 1)]
    module, args, b = one_function([BufferType((n, t), f32)], [BufferType((d,), i64) for d in sizes])
    for arg, d in zip(args[1:], sizes, strict=True):
        with b.loop(b.number(0), b(kernel.Size, value=d)) as (i, _, _):
            b(kernel.Store, b.apply("cast", i, dtype=i64), arg, i)
    finish(b)
    assert size_names(module.function("main")) == ("N", "T")
    for shape in ((0, 0), (1, 2), (7, 3), (10, 1), (3, 0)):
        assert_same(module, [np.zeros(shape, np.float32)])


def test_a_parallel_body_may_use_scalars_vectors_and_positions_from_outside():
    module, args, b = one_function([BufferType((64,), f32), BufferType((1,), i64)], [BufferType((64,), f32)])
    shift = b.apply("add", b.apply("cast", b(kernel.Load, args[1], b.number(0)), dtype=index), b.number(3))
    first = b(kernel.Load, args[0], b.number(0), lanes=8)
    flag = b.apply("gt", b(kernel.Load, args[0], b.number(1)), b.constant(0.0, f32))
    with b.parallel(b.number(8)) as row:
        at = b.apply("mul", row, b.number(8))
        x = b(kernel.Load, args[0], b.apply("mod", b.apply("add", at, shift), b.number(56)), lanes=8)
        scale = b(kernel.Broadcast, b.apply("select", flag, b.constant(2.0, f32), b.constant(3.0, f32)), lanes=8)
        b(kernel.Store, b(kernel.Fma, x, scale, first), args[2], at)
    finish(b)
    assert_same(module, [np.random.default_rng(0).normal(size=64).astype(np.float32), np.array([4])], rtol=1e-6, atol=1e-6)


def test_nested_parallel_loops_run_every_pair_once():
    module, args, b = one_function([BufferType((6, 4), f32)], [BufferType((6, 4), f32)])
    with b.parallel(b.number(6)) as row:
        with b.parallel(b.number(4)) as column:
            at = b.apply("add", b.apply("mul", row, b.number(4)), column)
            b(kernel.Store, b.apply("neg", b(kernel.Load, args[0], at)), args[1], at)
    finish(b)
    assert_same(module, [np.arange(24, dtype=np.float32).reshape(6, 4)])


def test_calls_of_a_kernel_alternate():
    """Each model goes on from where it was."""
    module = Module.empty()
    buffer = BufferType((1,), i32)
    func, b = function(module, "note", [buffer])
    b(kernel.Store, b.apply("cast", b(kernel.Alternate), dtype=i32), func.args[0], b.number(0))
    finish(b)
    main, b = function(module, "main", [buffer], ("output",))
    b(kernel.Call, main.args[0], callee="note")
    finish(b)
    verify(module)
    first, second = (load(build_artifact(module.clone(), host())) for _ in range(2))
    assert [int(made.run([])[0][0]) for made in (first, first, second, first, second)] == [0, 1, 0, 0, 1]
    for target in TARGETS.values():
        if target.code == "llvm":
            assembly(emit_llvm(module, target), target)


def test_a_call_inside_a_parallel_body_gets_the_pool_and_the_sizes():
    """Each row is negated by a kernel that is parallel itself, reads a size, and has scratch of its own."""
    n = symbol("N")
    module = Module.empty()
    rows = BufferType((n, 3), f32)
    func, b = function(module, "negate", [BufferType((3,), f32), rows, index])
    width = b.apply("sub", b(kernel.Size, value=n + 3), b(kernel.Size, value=n))
    with b.parallel(width) as i:
        scratch = b(kernel.Alloc, shape=(1,), dtype=f32, space="local")
        b(kernel.Store, b.apply("neg", b(kernel.Load, func.args[0], i)), scratch, b.number(0))
        at = b.apply("add", b.apply("mul", func.args[2], b.number(3)), i)
        b(kernel.Store, b(kernel.Load, scratch, b.number(0)), func.args[1], at)
    finish(b)
    main, b = function(module, "main", [rows, rows], ("input", "output"))
    with b.parallel(b(kernel.Size, value=n)) as row:
        view = b(kernel.View, main.args[0], b.apply("mul", row, b.number(3)), shape=(3,))
        b(kernel.Call, view, main.args[1], row, callee="negate")
    finish(b)
    verify(module)
    for count in (0, 1, 9):
        assert_same(module, [np.arange(3 * count, dtype=np.float32).reshape(count, 3)])


# --- random kernels

UNARY = ["neg", "abs", "sqrt", "floor", "exp", "tanh"]
BINARY = ["add", "sub", "mul", "max", "min", "div"]


@st.composite
def programs(draw):
    """A list of steps over values so far: (fn, operand numbers)."""
    steps = []
    for k in range(draw(st.integers(1, 8))):
        fn = draw(st.sampled_from(UNARY + BINARY))
        steps.append((fn, [draw(st.integers(0, k + 1)) for _ in range(FUNCTIONS[fn].arity)]))
    return steps


@settings(max_examples=25, deadline=None)
@given(programs(), st.integers(0, 70), st.sampled_from([1, 4, 16, 32]), st.sampled_from([f32, f64]))
def test_random_elementwise_kernels_agree_with_their_meaning(steps, n, lanes, dtype):
    types = [BufferType((n,), dtype)] * 2
    module, args, b = one_function(types, [BufferType((n,), dtype)])
    with b.loop(b.number(0), b.number(n), step=lanes) as (i, _, _):
        mask = b(kernel.LaneMask, b.apply("sub", b.number(n), i), lanes=lanes)
        values = [b(kernel.Load, a, i, mask, lanes=lanes) for a in args[:2]]
        for fn, picks in steps:
            values.append(b.apply(fn, *(values[p] for p in picks)))
        b(kernel.Store, values[-1], args[2], i, mask)
    finish(b)
    verify(module)
    rng = np.random.default_rng(n)
    arrays = [rng.normal(size=n).astype(dtype.np) for _ in range(2)]
    got, want = both(module, arrays)
    # Steps that cancel or jump (floor) can enlarge the last bit without limit: compare only where the meaning is stable under it.
    wide = evaluate_in(steps, [a.astype(np.longdouble) for a in arrays])
    with np.errstate(invalid="ignore"):
        stable = np.abs(want[0] - wide) <= 1e-5 * np.abs(wide)
    np.testing.assert_allclose(got[0][stable], want[0][stable], rtol=1e-3)
    np.testing.assert_array_equal(np.isnan(got[0]), np.isnan(want[0]))


def evaluate_in(steps, values):
    for fn, picks in steps:
        values = [*values, np.asarray(FUNCTIONS[fn].numpy(*(values[p] for p in picks)))]
    return values[-1]


# --- targets and names


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.name)
def test_every_named_target_takes_the_code(target):
    assert assembly(emit_llvm(register_tile(2, 1, 8, 4), target), target)
    for dtype in DTYPES:
        arrays = operands_of("max", dtype)
        assert assembly(emit_llvm(elementwise("max", arrays, dtype, 4, dtype), target), target)
        assert assembly(emit_llvm(elementwise("cast", arrays[:1], f16, 4, dtype), target), target)
    for fn in sorted(APPROXIMATE - {"fma"}):
        arrays = operands_of(fn, f32)
        assert assembly(emit_llvm(elementwise(fn, arrays, f32, 4, f32), target), target)


def test_names_of_kernels_and_values_never_collide_with_what_is_emitted_beside_them():
    module = Module.empty()
    row = BufferType((8,), f64)
    names = ("exp", "memset", "polyreme_model_run", "llvm.fma.f64", "a.body", "a", "ä", "ö")
    for name in names:
        func, b = function(module, name, [row, row], names=("pool", "entry"))
        with b.parallel(b.number(8)) as i:
            b(kernel.Store, b.apply("exp", b(kernel.Load, func.args[0], i)), func.args[1], i)
        finish(b)
    main, b = function(
        module, "main", [row] + [row] * len(names), ["input"] + ["output"] * len(names), ["arena"] + [f"y{k}" for k in range(len(names))]
    )
    for name, out in zip(names, main.args[1:], strict=True):
        b(kernel.Call, main.args[0], out, callee=name)
    finish(b)
    assert_same(module, [np.linspace(-1, 1, 8)], rtol=1e-15)


# --- errors


def test_memory_that_is_not_planned_is_an_error():
    with pytest.raises(PolyremeError, match="memory is planned before code is emitted"):
        emit_llvm(scaled_rows(symbol("N")), host())


def test_a_kernel_that_calls_itself_is_an_error():
    module = Module.empty()
    func, b = function(module, "again", [BufferType((4,), f32)])
    b(kernel.Call, func.args[0], callee="again")
    finish(b)
    _, b = function(module, "main", [BufferType((4,), f32)], ("output",))
    b(kernel.Call, b.block.args[0], callee="again")
    finish(b)
    with pytest.raises(PolyremeError, match="expected kernels without recursion but '@again' calls itself"):
        emit_llvm(module, host())


def test_an_op_of_another_level_is_named():
    from polyreme.dialects import tensor

    module, args, b = one_function([BufferType((4,), f32)], [BufferType((4,), f32)])
    b(tensor.Full, value=0.0, shape=(4,), dtype=f32)
    b(Return, ())
    with pytest.raises(PolyremeError, match="'tensor.full' has no machine code"):
        emit_llvm(module, host())


def test_vectors_of_one_lane_are_scalars():
    assert of_lanes(f32, 1) == f32


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(modules("kernel"))
def test_random_kernels_compute_what_they_mean(sample):
    assert not expect(sample.module, sample.inputs).misfits(compile_module(sample.module).load().run(sample.inputs))
