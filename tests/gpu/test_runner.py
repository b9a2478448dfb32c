"""The PTX runner: what it computes, and the faults of kernels that it finds."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.runtime.gpu.drivers import EmulatedDriver, GpuError, open_driver
from polyreme.runtime.ptx import arithmetic as arithmetic
from polyreme.runtime.ptx.memory import DeviceMemory
from polyreme.runtime.ptx.parser import PtxError, parse_ptx
from polyreme.runtime.ptx.runner import SIDE_BY_SIDE
from tests.gpu.grids import grid_module, meaning, run_emulated

rng = np.random.default_rng(0)


def kernel_text(body, params=2, registers="", shared=""):
    """PTX of a kernel `k`, by hand: parameters in %rd1, %rd2, …, and the thread's number in %r1."""
    names = ",\n".join(f"\t.param .u64 k_param_{i}" for i in range(params))
    loads = "\n".join(f"\tld.param.b64 \t%rd{i + 1}, [k_param_{i}];" for i in range(params))
    return f""".version 7.0
.target sm_80
.address_size 64
.visible .entry k(
{names}
)
{{
\t.reg .pred \t%p<9>;
\t.reg .b16 \t%rs<9>;
\t.reg .b32 \t%r<30>;
\t.reg .b64 \t%rd<30>;
{registers}{shared}
{loads}
\tmov.u32 \t%r1, %tid.x;
\tmul.wide.u32 \t%rd20, %r1, 4;
{body}
\tret;
}}
"""


def run_text(body, arrays, grid=(1,), block=(32,), **options):
    """Run `kernel_text(body)` on arrays, in place."""
    driver = EmulatedDriver()
    addresses = [driver.allocate(a.nbytes) for a in arrays]
    for address, array in zip(addresses, arrays, strict=True):
        driver.upload(address, array)
    driver.launch(driver.load_module(kernel_text(body, len(arrays), **options)).function("k"), grid, block, addresses)
    for address, array in zip(addresses, arrays, strict=True):
        driver.download(address, array)
    return arrays


@pytest.mark.filterwarnings("error")
def test_two_floats_become_halves_of_one_word():
    x = np.array([1.0, -2.5, 1e9, 2.0**-24, 1.0 + 2.0**-11, -0.0, np.nan, -np.inf] * 8, np.float32)
    body = """
\tadd.s64 \t%rd21, %rd1, %rd20;
\tld.global.b32 \t%r2, [%rd21];
\tld.global.b32 \t%r3, [%rd21+128];
\tcvt.rn.f16x2.f32 \t%r4, %r2, %r3;
\tadd.s64 \t%rd22, %rd2, %rd20;
\tst.global.b32 \t[%rd22], %r4;"""
    _, words = run_text(body, [x, np.zeros(32, np.uint32)])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    halves = words.view(np.float16).reshape(32, 2)
    np.testing.assert_array_equal(halves[:, 1], expected[:32])
    np.testing.assert_array_equal(halves[:, 0], expected[32:])


# --- faults


def test_extremes_of_integers_that_are_not_below_zero():
    x, y = np.arange(-16, 16, dtype=np.int32), np.full(32, 5, np.int32)
    body = """
\tadd.s64 \t%rd21, %rd1, %rd20;
\tadd.s64 \t%rd22, %rd2, %rd20;
\tld.global.b32 \t%r2, [%rd21];
\tld.global.b32 \t%r3, [%rd22];
\tmin.relu.s32 \t%r4, %r2, %r3;
\tst.global.b32 \t[%rd22], %r4;
\tmax.relu.s32 \t%r5, %r2, -3;
\tst.global.b32 \t[%rd21], %r5;
"""
    largest, smallest = run_text(body, [x.copy(), y.copy()])
    np.testing.assert_array_equal(smallest, np.clip(x, 0, 5))
    np.testing.assert_array_equal(largest, np.maximum(x, 0))


def copy_module(count, lanes=1, shift=0, align=""):
    body = f"""
%t = kernel.thread_id : index
%n = kernel.size {{value = {lanes}}} : index
%i = kernel.apply %t, %n {{fn = "mul"}} : index
%s = kernel.size {{value = {shift}}} : index
%j = kernel.apply %i, %s {{fn = "add"}} : index
%v = kernel.load %x, %j {{lanes = {lanes}{align}}} : {"f32" if lanes == 1 else f"vector<{lanes}xf32>"}
kernel.store %v, %y, %i
"""
    return grid_module(f"%x: buffer<{count}xf32>, %y: buffer<{32 * lanes}xf32>", body)


def test_a_load_out_of_bounds_names_kernel_line_block_and_thread():
    with pytest.raises(
        PtxError,
        match=r"kernel 'work', line \d+ \(ld.global.nc.b32\), block 0, thread 30: "
        "a load of 4 bytes at byte 120 of an allocation of 120 is out",
    ):
        run_emulated(copy_module(30), [np.zeros(30, np.float32)], [np.zeros(32, np.float32)])


def test_a_planted_store_out_of_bounds_is_caught():
    body = (
        '%t = kernel.thread_id : index\n'
        '%one = kernel.size {value = 1} : index\n'
        '%i = kernel.apply %t, %one {fn = "add"} : index\n'
        '%v = kernel.load %x, %t : f32\n'
        'kernel.store %v, %y, %i'
    )  # fmt: skip
    module = grid_module("%x: buffer<32xf32>, %y: buffer<32xf32>", body)
    with pytest.raises(
        PtxError, match=r"\(st.global.b32\), block 0, thread 31: a store of 4 bytes at byte 128 of an allocation of 128 is out of bounds"
    ):
        run_emulated(module, [np.zeros(32, np.float32)], [np.zeros(32, np.float32)])


def test_a_misaligned_vector_load_is_caught():
    module = copy_module(132, lanes=4, shift=1, align=", align = 16")
    with pytest.raises(
        PtxError, match=r"\(ld.global.nc.v4.b32\), block 0, thread 0: a load of 16 bytes at address 0x[0-9a-f]+4 is misaligned"
    ):
        run_emulated(module, [np.zeros(132, np.float32)], [np.zeros(128, np.float32)])


def test_without_the_promise_the_same_load_is_right():
    x = rng.standard_normal(132).astype(np.float32)
    assert np.array_equal(run_emulated(copy_module(132, lanes=4, shift=1), [x], [np.zeros(128, np.float32)])[0], x[1:129])


SHARED = """
%t = kernel.thread_id : index
%s = kernel.alloc {shape = [SIZE], dtype = f32, space = "shared"} : buffer<SIZExf32>
%v = kernel.load %x, %t : f32
kernel.store %v, %s, %t
BARRIER
%last = kernel.size {value = 63} : index
%j = kernel.apply %last, %t {fn = "sub"} : index
%w = kernel.load %s, %j : f32
kernel.store %w, %y, %t
"""


def reverse_module(barrier=True, size=64):
    body = SHARED.replace("BARRIER", "kernel.barrier ()" if barrier else "").replace("SIZE", str(size))
    return grid_module("%x: buffer<64xf32>, %y: buffer<64xf32>", body, block="[64]")


def test_shared_memory_read_after_a_barrier_is_right():
    x = rng.standard_normal(64).astype(np.float32)
    assert np.array_equal(run_emulated(reverse_module(), [x], [np.zeros(64, np.float32)])[0], x[::-1])


def test_a_planted_race_is_caught():
    with pytest.raises(
        PtxError, match=r"\(ld.shared.b32\), block 0, thread 0: a load races: thread 63 has written the same element since the last barrier"
    ):
        run_emulated(reverse_module(barrier=False), [np.zeros(64, np.float32)], [np.zeros(64, np.float32)])


def test_two_threads_that_write_one_element_race():
    body = (
        '%t = kernel.thread_id : index\n'
        '%s = kernel.alloc {shape = [1], dtype = f32, space = "shared"} : buffer<1xf32>\n'
        '%z = kernel.size {value = 0} : index\n'
        '%v = kernel.load %y, %t : f32\n'
        'kernel.store %v, %s, %z\n'
        'kernel.barrier ()\n'
        '%w = kernel.load %s, %z : f32\n'
        'kernel.store %w, %y, %t'
    )  # fmt: skip
    with pytest.raises(PtxError, match=r"thread 0: a store races: thread 31 writes the same element at the same time"):
        run_emulated(grid_module("%y: buffer<32xf32>", body), [], [np.zeros(32, np.float32)])


def test_writing_what_others_read_since_the_barrier_races():
    body = SHARED.replace("BARRIER", "kernel.barrier ()").replace("SIZE", "64") + "kernel.store %v, %s, %t\n"
    module = grid_module("%x: buffer<64xf32>, %y: buffer<64xf32>", body, block="[64]")
    with pytest.raises(
        PtxError, match=r"\(st.shared.b32\), block 0, thread 0: a store races: thread 63 has read the same element since the last barrier"
    ):
        run_emulated(module, [np.zeros(64, np.float32)], [np.zeros(64, np.float32)])


def test_shared_memory_out_of_bounds_is_caught():
    with pytest.raises(PtxError, match=r"thread 60: a store of 4 bytes at byte 240 of 'work_shared_0' is out of bounds"):
        run_emulated(reverse_module(size=60), [np.zeros(64, np.float32)], [np.zeros(64, np.float32)])


def test_neighbouring_halves_of_a_word_do_not_race():
    body = '%t = kernel.thread_id : index\n%s = kernel.alloc {shape = [32], dtype = f16, space = "shared"} : buffer<32xf16>\n'
    body += (
        "%v = kernel.load %x, %t : f16\nkernel.store %v, %s, %t\nkernel.barrier ()\n%w = kernel.load %s, %t : f16\nkernel.store %w, %y, %t"
    )
    x = rng.standard_normal(32).astype(np.float16)
    assert np.array_equal(run_emulated(grid_module("%x: buffer<32xf16>, %y: buffer<32xf16>", body), [x], [np.zeros(32, np.float16)])[0], x)


def test_threads_at_different_barriers_are_an_error():
    body = """
	setp.lt.u32 	%p1, %r1, 16;
	@%p1 bra 	$L__BB0_2;
	bar.sync 	0;
	bra.uni 	$L__BB0_3;
$L__BB0_2:
	bar.sync 	0;
$L__BB0_3:
"""
    with pytest.raises(PtxError, match=r"divergent barrier: thread 16 of the block waits at line \d+"):
        run_text(body, [np.zeros(32, np.float32)])


def test_a_register_read_before_it_is_written_is_an_error():
    with pytest.raises(PtxError, match=r"register '%r5' is read before it is written"):
        run_text("\tadd.s32 \t%r6, %r5, 1;", [np.zeros(32, np.float32)])


def test_a_loop_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr("polyreme.runtime.ptx.runner.MAX_STEPS", 1000)
    with pytest.raises(PtxError, match="has not ended after 1000 steps"):
        run_text("$L__BB0_1:\n\tbra.uni \t$L__BB0_1;", [np.zeros(1, np.float32)])


def test_memory_of_a_thread_is_its_own():
    body = """
%t = kernel.thread_id : index
%own = kernel.alloc {shape = [8], dtype = f32, space = "local"} : buffer<8xf32>
%zero = kernel.size {value = 0} : index
%eight = kernel.size {value = 8} : index
kernel.for %zero, %eight { (%k: index)
  %i = kernel.apply %t, %k {fn = "add"} : index
  %v = kernel.load %x, %i : f32
  kernel.store %v, %own, %k
  kernel.yield
}
%p = kernel.apply %t, %eight {fn = "mod"} : index
%w = kernel.load %own, %p : f32
kernel.store %w, %y, %t
"""
    module = grid_module("%x: buffer<71xf32>, %y: buffer<64xf32>", body, block="[64]")
    x = rng.standard_normal(71).astype(np.float32)
    got = run_emulated(module, [x], [np.zeros(64, np.float32)])[0]
    assert np.array_equal(got, x[np.arange(64) + np.arange(64) % 8])
    assert np.array_equal(meaning(module, [x], [np.zeros(64, np.float32)])[0], got)


def test_half_of_a_parameter_can_be_read():
    (out,) = run_text(
        """
	ld.param.b32 	%r2, [k_param_0];
	ld.param.b32 	%r3, [k_param_0+4];
	mov.b64 	%rd3, {%r2, %r3};
	sub.s64 	%rd4, %rd3, %rd1;
	add.s64 	%rd21, %rd1, %rd20;
	cvt.u32.u64 	%r5, %rd4;
	st.global.b32 	[%rd21], %r5;
""",
        [np.ones(32, np.int32)],
    )
    assert not out.any()


PIPELINE = """
%t = kernel.thread_id : index
%tile = kernel.alloc {shape = [256], dtype = f32, space = "shared"} : buffer<256xf32>
%zero = kernel.size {value = 0} : index
%four = kernel.size {value = 4} : index
%size = kernel.size {value = 128} : index
%rounds = kernel.size {value = 6} : index
%one = kernel.size {value = 1} : index
%two = kernel.size {value = 2} : index
%last = kernel.size {value = 127} : index
%i = kernel.apply %t, %four {fn = "mul"} : index
kernel.copy_async %x, %i, %tile, %i {lanes = 4}
kernel.copy_commit ()
%none = kernel.constant {value = 0.0, dtype = f32} : f32
%sum = kernel.for %zero, %rounds, %none : f32 { (%k: index, %acc: f32)
  %next = kernel.apply %k, %one {fn = "add"} : index
  %more = kernel.apply %next, %rounds {fn = "lt"} : i1
  %from0 = kernel.apply %next, %size {fn = "mul"} : index
  %from = kernel.apply %from0, %i {fn = "add"} : index
  %odd = kernel.apply %next, %two {fn = "mod"} : index
  %to0 = kernel.apply %odd, %size {fn = "mul"} : index
  %to = kernel.apply %to0, %i {fn = "add"} : index
  kernel.if %more {
    kernel.copy_async %x, %from, %tile, %to {lanes = 4}
    kernel.yield
  } {
    kernel.yield
  }
  kernel.copy_commit ()
  kernel.copy_wait {pending = 1}
  FIRST
  %here = kernel.apply %k, %two {fn = "mod"} : index
  %start = kernel.apply %here, %size {fn = "mul"} : index
  %back = kernel.apply %last, %t {fn = "sub"} : index
  %j = kernel.apply %start, %back {fn = "add"} : index
  %v = kernel.load %tile, %j : f32
  %total = kernel.apply %acc, %v {fn = "add"} : f32
  SECOND
  kernel.yield %total
}
kernel.store %sum, %y, %t
"""


def pipeline_module(first="kernel.barrier ()", second="kernel.barrier ()"):
    return grid_module("%x: buffer<768xf32>, %y: buffer<32xf32>", PIPELINE.replace("FIRST", first).replace("SECOND", second))


def test_copies_into_one_half_while_the_other_is_read():
    x = rng.integers(-9, 10, 768).astype(np.float32)
    expected = x.reshape(6, 128)[:, 127 - np.arange(32)].sum(0)
    assert np.array_equal(run_emulated(pipeline_module(), [x], [np.zeros(32, np.float32)])[0], expected)
    assert np.array_equal(meaning(pipeline_module(), [x], [np.zeros(32, np.float32)])[0], expected)


@pytest.mark.parametrize("left_out, what", [("first", "a load races"), ("second", "an asynchronous copy races")])
def test_a_barrier_missing_around_copies_is_a_race(left_out, what):
    with pytest.raises(PtxError, match=what):
        run_emulated(pipeline_module(**{left_out: ""}), [np.zeros(768, np.float32)], [np.zeros(32, np.float32)])


def test_atomics_give_what_was_there_before():
    old, total = run_text(
        """
	atom.global.add.u32 	%r5, [%rd2], 3;
	add.s64 	%rd21, %rd1, %rd20;
	st.global.b32 	[%rd21], %r5;
""",
        [np.zeros(32, np.int32), np.ones(1, np.int32)],
    )
    assert sorted(old) == [1 + 3 * i for i in range(32)] and total[0] == 97


# --- control


@pytest.mark.parametrize("threads, blocks", [(32, 1), (96, 7), (256, 3 * SIDE_BY_SIDE // 256 + 1)])
def test_threads_with_loops_of_different_length(threads, blocks):
    body = """
%t = kernel.thread_id : index
%b = kernel.block_id : index
%n = kernel.thread_count : index
%start = kernel.apply %b, %n {fn = "mul"} : index
%i = kernel.apply %start, %t {fn = "add"} : index
%zero = kernel.size {value = 0} : index
%one = kernel.constant {value = 1, dtype = i32} : i32
%none = kernel.constant {value = 0, dtype = i32} : i32
%seven = kernel.size {value = 7} : index
%rounds = kernel.apply %i, %seven {fn = "mod"} : index
%two = kernel.size {value = 2} : index
%sum = kernel.for %zero, %rounds, %none : i32 { (%k: index, %acc: i32)
  %half = kernel.apply %k, %two {fn = "mod"} : index
  %even = kernel.apply %half, %zero {fn = "eq"} : i1
  %next = kernel.if %even : i32 {
    %more = kernel.apply %acc, %one {fn = "add"} : i32
    kernel.yield %more
  } {
    %double = kernel.apply %acc, %acc {fn = "add"} : i32
    kernel.yield %double
  }
  kernel.yield %next
}
kernel.store %sum, %y, %i
"""
    count = threads * blocks
    module = grid_module(f"%y: buffer<{count}xi32>", body, grid=f"[{blocks}]", block=f"[{threads}]")

    def expected(rounds):
        acc = 0
        for k in range(rounds):
            acc = acc + acc if k % 2 else acc + 1
        return acc

    got = run_emulated(module, [], [np.zeros(count, np.int32)])[0]
    assert np.array_equal(got, np.array([expected(r) for r in range(7)])[np.arange(count) % 7])
    if count < 64:
        assert np.array_equal(meaning(module, [], [np.zeros(count, np.int32)])[0], got)


def test_a_register_copied_is_not_the_same_register():
    body = """
	mov.b32 	%r2, 7;
	mov.b32 	%r3, %r2;
	setp.lt.u32 	%p1, %r1, 8;
	@%p1 add.s32 	%r2, %r2, 1;
	add.s64 	%rd21, %rd1, %rd20;
	st.global.b32 	[%rd21], %r3;
	add.s64 	%rd22, %rd2, %rd20;
	st.global.b32 	[%rd22], %r2;
"""
    copied, changed = run_text(body, [np.zeros(32, np.int32), np.zeros(32, np.int32)])
    assert np.all(copied == 7) and np.array_equal(changed, np.where(np.arange(32) < 8, 8, 7))


# --- arithmetic against Python's integers and numpy


def test_integer_instructions():
    a = rng.integers(0, 1 << 64, 4096, dtype=np.uint64)
    b = np.concatenate([rng.integers(0, 1 << 64, 4000, dtype=np.uint64), rng.integers(1, 9, 96, dtype=np.uint64)])
    for kind in ("u8", "i8", "u4", "i4"):
        dtype = np.dtype(kind)
        x, y = (v.astype(f"u{dtype.itemsize}").view(dtype) for v in (a, b))
        bits = 8 * dtype.itemsize
        high = [(int(i) * int(j)) >> bits for i, j in zip(x, y, strict=True)]
        assert arithmetic.multiply_high(x, y, dtype).tolist() == high
        quotient = [int(abs(int(i)) // abs(int(j))) * (1 if (int(i) < 0) == (int(j) < 0) else -1) for i, j in zip(x, y, strict=True)]
        assert arithmetic.divide(x, y, dtype).tolist() == quotient
        assert arithmetic.remainder(x, y, dtype).tolist() == [int(i) - q * int(j) for i, q, j in zip(x, quotient, y, strict=True)]
    start, length = rng.integers(0, 40, 4096), rng.integers(0, 40, 4096)
    words = a.astype("u4")
    fields = [(int(w) >> int(s)) & ((1 << int(n)) - 1) for w, s, n in zip(words, start, length, strict=True)]
    assert arithmetic.extract_bits(words, start, length, np.dtype("u4")).tolist() == fields
    count = np.arange(4096).astype("u4")
    shifted = [((int(h) << 32 | int(w)) << (int(c) % 32) >> 32) & 0xFFFFFFFF for h, w, c in zip(b.astype("u4"), words, count, strict=True)]
    assert arithmetic.funnel_left(words, b.astype("u4"), count).tolist() == shifted


def test_bytes_are_permuted():
    low, high = np.uint32(0x33221180), np.uint32(0x77665544)
    assert int(arithmetic.permute_bytes(low, high, np.uint32(0x7410))) == 0x77441180
    assert int(arithmetic.permute_bytes(low, high, np.uint32(0x0008))) == 0x808080FF


def test_a_fused_product_of_doubles_is_rounded_once():
    from fractions import Fraction

    a, b = rng.standard_normal(2000), rng.standard_normal(2000)
    c = np.where(np.arange(2000) % 2, -a * b, rng.standard_normal(2000))
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert arithmetic.fma(a, b, c, np.dtype("f8")).tolist() == exact


def test_floats_become_integers_as_the_device_does():
    x = np.array([1.5, -1.5, 3e9, -3e9, np.nan, np.inf, 2.5], np.float32)
    assert arithmetic.convert(x, "s32", "f32", "rzi").tolist() == [1, -1, 2147483647, -2147483648, 0, 2147483647, 2]
    assert arithmetic.convert(x, "u32", "f32", "rni").tolist() == [2, 0, 3000000000, 0, 0, 4294967295, 2]


# --- text and driver


@pytest.mark.parametrize(
    "body, message",
    [
        ("\tfrobnicate.b32 \t%r2, %r1;", r"line \d+ \(frobnicate.b32\): expected an instruction that the runner knows"),
        ("\tadd.sat.s32 \t%r2, %r1, 1;", r"expected an instruction that the runner knows but got '.sat'"),
        ("\tadd.s32 \t%q2, %r1, 1;", r"register '%q2' is not declared"),
        ("\tadd.s64 \t%rd3, %r1, 1;", r"expected a register of 64 bits but got '%r1'"),
        ("\tbra.uni \t$nowhere;", "jumps to a label that it does not have"),
        ("\tthis is no instruction", "expected an instruction but got"),
        ("\tld.param.b64 \t%rd3, [k_param_9];", "expected a parameter of the kernel"),
    ],
)
def test_what_the_runner_does_not_know_is_refused(body, message):
    with pytest.raises(PtxError, match=message):
        run_text(body, [np.zeros(1, np.float32)])


def test_a_module_says_what_it_is_for():
    text = parse_ptx(kernel_text(""))
    assert (text.version, text.target, list(text.kernels)) == ("7.0", "sm_80", ["k"])


def test_launches_are_checked():
    driver = open_driver("gpu-emulated")
    module = driver.load_module(kernel_text(""))
    with pytest.raises(GpuError, match=r"expected a kernel \(k\) but got 'j'"):
        module.function("j")
    with pytest.raises(PtxError, match="expected 2 arguments for kernel 'k' but got 1"):
        driver.launch(module.function("k"), (1,), (1,), [0])
    with pytest.raises(PtxError, match="expected blocks of at most 1024 threads"):
        driver.launch(module.function("k"), (1,), (2048,), [0, 0])


def test_device_memory_is_reused_and_kept_apart():
    memory = DeviceMemory()
    first, second, third = (memory.allocate(n) for n in (1000, 0, 3_000_000))
    assert all(a % 256 == 0 for a in (first, second, third)) and len({first, second, third}) == 3
    memory.part(third, 3_000_000)[:] = 5
    memory.free(first)
    assert memory.allocate(900) == first
    assert memory.part(third, 3_000_000).min() == 5
    with pytest.raises(PtxError, match="expected 1001 bytes inside one allocation"):
        memory.part(first, 1001)
    with pytest.raises(PtxError, match="expected the address of an allocation"):
        memory.free(first + 8)


def test_the_device_gpu_needs_pycuda(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pycuda", None)
    monkeypatch.setitem(__import__("sys").modules, "pycuda.driver", None)
    with pytest.raises(GpuError, match=r"expected pycuda for the device 'gpu' \(pip install 'polyreme\[cuda\]'\), or use 'gpu-emulated'"):
        open_driver("gpu")
    with pytest.raises(GpuError, match="expected 'gpu' or 'gpu-emulated' but got 'tpu'"):
        open_driver("tpu")
