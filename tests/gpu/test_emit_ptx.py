"""Kernels to PTX: golden text, what each device can have, and every scalar function against its meaning.

Texts that LLVM might not take are compiled in a process of their own, because it would end this one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.scalar import FUNCTIONS, apply_scalar
from polyreme.ir.types import SCALARS
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.machines.ptx import check_text
from polyreme.lowering.machines.targets import find_target
from tests.gpu.grids import grid_module, ptx_of, run_emulated
from tests.gpu.ptxas import DEVICES, assemble, needs_ptxas
from tests.gpu.test_grid_ops import COPY, TREE_SUM

ROOT = Path(__file__).resolve().parents[2]
rng = np.random.default_rng(0)

MMA = """
%zero = kernel.size {value = 0} : index
%t = kernel.thread_id : index
%eight = kernel.size {value = 8} : index
%four = kernel.size {value = 4} : index
%tile = kernel.alloc {shape = [256], dtype = bf16, space = "shared"} : buffer<256xbf16>
%i = kernel.apply %t, %eight {fn = "mul"} : index
%o = kernel.apply %t, %four {fn = "mul"} : index
kernel.copy_async %a, %i, %tile, %i {lanes = 8}
kernel.copy_commit ()
kernel.copy_wait ()
kernel.barrier ()
%fa = kernel.load_matrix %tile, %i : vector<8xbf16>
%fb = kernel.load %b, %o {lanes = 4, align = 8} : vector<4xbf16>
%fc = kernel.load %c, %o {lanes = 4, align = 16} : vector<4xf32>
%fd = kernel.mma %fa, %fb, %fc : vector<4xf32>
kernel.store %fd, %y, %o {align = 16}
"""
KERNELS = {
    "tree_sum": ("%x: buffer<Nxf32>, %y: buffer<Mxf32>", TREE_SUM, 75),
    "copy": ("%x: buffer<Nxf32>, %y: buffer<32xf32>", COPY.replace("WAIT", "kernel.copy_wait ()"), 80),
    "mma": ("%a: buffer<256xbf16>, %b: buffer<128xbf16>, %c: buffer<128xf32>, %y: buffer<128xf32>", MMA, 80),
}


def module_of(name):
    args, body, _ = KERNELS[name]
    return grid_module(args, body, block="[128]" if name == "tree_sum" else "[32]")


@pytest.mark.parametrize("name, sm", [("tree_sum", 80), ("mma", 90)])
def test_golden_text(name, sm, golden):
    code = ptx_of(module_of(name), sm)
    golden(f"{name}.sm_{sm}.ll", code.llvm)
    golden(f"{name}.sm_{sm}.ptx", code.ptx)


def test_the_same_module_gives_the_same_text():
    assert ptx_of(module_of("mma")).ptx == ptx_of(module_of("mma")).ptx


def test_a_launch_is_told_what_the_kernel_needs():
    facts = ptx_of(module_of("tree_sum")).kernels["work"]
    assert (facts.symbol, facts.sizes, facts.shared_bytes, facts.threads) == ("work", ("N",), 64, 128)


def test_read_only_buffers_go_through_the_read_only_cache_and_written_ones_do_not():
    body = (
        '%t = kernel.thread_id : index\n'
        '%v = kernel.load %x, %t : f32\n'
        '%w = kernel.load %y, %t : f32\n'
        '%s = kernel.apply %v, %w {fn = "add"} : f32\n'
        'kernel.store %s, %y, %t'
    )  # fmt: skip
    ptx = ptx_of(grid_module("%x: buffer<32xf32>, %y: buffer<32xf32>", body)).ptx
    assert ptx.count("ld.global.nc.b32") == 1 and ptx.count("ld.global.b32") == 1


def test_a_buffer_given_twice_is_not_promised_to_be_apart():
    from polyreme.ir.text import parse_module

    module = parse_module("""
func @twice(%x: buffer<32xf32>, %y: buffer<32xf32>) {
  %t = kernel.thread_id : index
  %v = kernel.load %x, %t : f32
  kernel.store %v, %y, %t
  return
}
func @main(%x: buffer<32xf32>) {
  kernel.launch %x, %x {callee = @twice, grid = [1], block = [32]}
  return
}
""")
    code = emit_ptx(module, find_target("cuda:sm_80"))
    assert "noalias" not in code.llvm and "ld.global.nc" not in code.ptx


def test_odd_names_become_names_of_ptx():
    from polyreme.ir.text import parse_module

    module = parse_module("""
func @"conv.1x1-relu"(%y: buffer<32xf32>) {
  %s = kernel.alloc {shape = [32], dtype = f32, space = "shared"} : buffer<32xf32>
  %t = kernel.thread_id : index
  %v = kernel.load %y, %t : f32
  kernel.store %v, %s, %t
  return
}
func @conv_1x1_relu(%y: buffer<32xf32>) {
  return
}
func @main(%y: buffer<32xf32>) {
  kernel.launch %y {callee = @"conv.1x1-relu", grid = [1], block = [32]}
  kernel.launch %y {callee = @conv_1x1_relu, grid = [1], block = [32]}
  return
}
""")
    code = emit_ptx(module, find_target("cuda:sm_80"))
    symbols = [k.symbol for k in code.kernels.values()]
    assert len(set(symbols)) == 2 and all(s.replace("_", "").isalnum() and f".entry {s}(" in code.ptx for s in symbols)


# --- what a device does not have


@pytest.mark.parametrize("name", ["copy", "mma"])
def test_an_older_device_is_refused_before_llvm_sees_the_code(name):
    with pytest.raises(
        PolyremeError, match=r"'kernel.copy_async' expected sm_80 and PTX 7.0 at least but the target 'cuda:sm_75' has sm_75 and PTX 6.3"
    ):
        ptx_of(module_of(name), 75)


def test_unknown_intrinsics_are_refused():
    with pytest.raises(PolyremeError, match="uses 'llvm.nvvm.frobnicate', of which nothing is known"):
        check_text("call void @llvm.nvvm.frobnicate(i32 0)", find_target("cuda:sm_90"))


def run_apart(code):
    """Run Python code in a process of its own: (exit status, what it wrote)."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_without_the_table_llvm_would_end_the_process():
    status, text = run_apart("""
from tests.gpu.test_emit_ptx import ptx_of, module_of
from polyreme.lowering.emit.llvm.codegen import ptx_assembly
from polyreme.lowering.machines.targets import find_target
text = ptx_of(module_of("mma"), 80).llvm.replace("sm_80", "sm_75").replace("+ptx70", "+ptx63")
ptx_assembly(text, find_target("cuda:sm_75"))
print("reached")
""")
    assert status != 0 and "reached" not in text and "Cannot select" in text


@pytest.mark.parametrize("sm", DEVICES)
def test_every_kernel_here_compiles_for_every_device_that_has_it(sm):
    status, text = run_apart(f"""
from tests.gpu.test_emit_ptx import KERNELS, ptx_of, module_of
for name, (_, _, least) in KERNELS.items():
    if least <= {sm}:
        assert ".entry work(" in ptx_of(module_of(name), {sm}).ptx
print("reached")
""")
    assert status == 0 and "reached" in text, text


def every_op():
    """A module whose kernel uses each intrinsic of the table."""
    lines = []
    places = [f"{kind} {{axis = {axis}}}" for kind in ("block_id", "block_count", "thread_id", "thread_count") for axis in range(3)]
    lines += [f"%p{i} = kernel.{place} : index\nkernel.store %p{i}, %n, %p{i}" for i, place in enumerate(places)]
    lines += ["kernel.barrier ()", "%v = kernel.load %x, %p6 : f32", '%on = kernel.apply %p6, %p0 {fn = "lt"} : i1']
    for mode in ("xor", "down", "up", "from"):
        lines += [f'%{mode} = kernel.warp_shuffle %v {{mode = "{mode}", by = 1}} : f32', f"kernel.store %{mode}, %y, %p6"]
    lines += ['%s = kernel.alloc {shape = [256], dtype = bf16, space = "shared"} : buffer<256xbf16>']
    for lanes in (2, 4, 8):
        lines += [f"kernel.copy_async %b, %p6, %s, %p6 {{lanes = {lanes}}}", f"kernel.copy_async %b, %p6, %s, %p6, %on {{lanes = {lanes}}}"]
    lines += ["kernel.copy_commit ()", "kernel.copy_wait {pending = 1}"]
    for count in (1, 2, 4):
        for turned in ("false", "true"):
            lines += [
                f"%m{count}{turned} = kernel.load_matrix %s, %p6 {{count = {count}, transpose = {turned}}} : vector<{2 * count}xbf16>"
            ]
            lines += [f"kernel.store %m{count}{turned}, %b, %p6"]
    lines += ["%r = kernel.round_tf32 %v : f32", "kernel.store %r, %y, %p6", "%c = kernel.load %y, %p6 {lanes = 4} : vector<4xf32>"]
    lines += [
        "%c2 = kernel.load %y, %p6 {lanes = 2} : vector<2xf32>",
        "%d = kernel.mma %m4false, %m2false, %c : vector<4xf32>",
        "kernel.store %d, %y, %p6",
    ]
    lines += ["%e = kernel.mma %c, %c2, %c : vector<4xf32>", "kernel.store %e, %y, %p6"]
    lines += ['%halves = kernel.alloc {shape = [256], dtype = f16, space = "shared"} : buffer<256xf16>']
    lines += [f"%h{n} = kernel.load_matrix %halves, %p6 {{count = {n}}} : vector<{2 * n}xf16>" for n in (2, 4)]
    lines += ["%f = kernel.mma %h4, %h2, %c : vector<4xf32>", "kernel.store %f, %y, %p6"]
    lines += ["%power = kernel.exp2 %v : f32", "kernel.store %power, %y, %p6"]
    lines += ['%narrow = kernel.apply %c2 {fn = "cast", dtype = bf16} : vector<2xbf16>', "kernel.store %narrow, %b, %p6"]
    return grid_module(
        "%b: buffer<4096xbf16>, %n: buffer<4096xindex>, %x: buffer<4096xf32>, %y: buffer<4096xf32>", "\n".join(lines), outputs=4
    )


def test_llvm_has_an_instruction_for_every_intrinsic_of_the_table():
    """It takes a misspelt one for some function, which only the assembler would find missing."""
    status, text = run_apart("""
from polyreme.lowering.machines.ptx import INTRINSICS
from tests.gpu.test_emit_ptx import every_op, ptx_of
code = ptx_of(every_op(), 90)
used = {line.split("@llvm.nvvm.")[1].split("(")[0] for line in code.llvm.splitlines() if "@llvm.nvvm." in line}
assert used == set(INTRINSICS), used ^ set(INTRINSICS)
assert "call" not in code.ptx and ".extern" not in code.ptx
print("reached")
""")
    assert status == 0 and "reached" in text, text


@pytest.mark.parametrize("op", ["kernel.parallel", "kernel.call"])
def test_what_only_a_cpu_runs_is_refused(op):
    from polyreme.ir.text import parse_module

    line = "kernel.parallel %t { (%i: index)\n kernel.yield\n}" if op == "kernel.parallel" else "kernel.call %y {callee = @other}"
    module = parse_module(f"""
func @other(%y: buffer<32xf32>) {{
  return
}}
func @work(%y: buffer<32xf32>) {{
  %t = kernel.thread_id : index
  {line}
  return
}}
func @main(%y: buffer<32xf32>) {{
  kernel.launch %y {{callee = @work, grid = [1], block = [32]}}
  return
}}
""")
    with pytest.raises(PolyremeError, match=f"'{op}' has no machine code"):
        emit_ptx(module, find_target("cuda:sm_80"))


def test_a_target_without_ptx_is_refused():
    with pytest.raises(PolyremeError, match="expected a GPU target for PTX but got 'x86-64'"):
        emit_ptx(module_of("mma"), find_target("x86-64"))


def test_float64_angles_are_refused_by_name():
    body = '%t = kernel.thread_id : index\n%v = kernel.load %y, %t : f64\n%e = kernel.apply %v {fn = "sin"} : f64\nkernel.store %e, %y, %t'
    with pytest.raises(PolyremeError, match="expected float32 for 'sin' on a GPU but got float64"):
        ptx_of(grid_module("%y: buffer<32xf64>", body))


# --- scalar functions


def apply_module(name, dtype, arity, count, result=None):
    result = result or dtype
    args = ", ".join([*(f"%x{i}: buffer<{count}x{dtype}>" for i in range(arity)), f"%y: buffer<{count}x{result}>"])
    lines = ["%t = kernel.thread_id : index", *(f"%v{i} = kernel.load %x{i}, %t : {dtype}" for i in range(arity))]
    cast = f", dtype = {result}" if name == "cast" else ""
    lines += [
        f'%r = kernel.apply {", ".join(f"%v{i}" for i in range(arity))} {{fn = "{name}"{cast}}} : {result}',
        "kernel.store %r, %y, %t",
    ]
    return grid_module(args, "\n".join(lines), block=f"[{count}]")


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    1.0,
    -1.0,
    2.0,
    0.5,
    -2.0,
    3.0,
    88.0,
    -88.0,
    104.0,
    -104.0,
    3.4e38,
    1.2e-38,
    0.1,
]
FLOATS = np.concatenate(
    [rng.standard_normal(40) * 3, 10.0 ** rng.uniform(-30, 38, 40), -(10.0 ** rng.uniform(-3, 20, 28)), SPECIAL]
).astype(np.float32)
FLOAT_ROWS = [n for n, row in FUNCTIONS.items() if "f" in row.kinds and n not in ("cast", "select")]


@pytest.mark.parametrize("name", FLOAT_ROWS)
def test_a_float_function_is_right_to_two_units(name):
    row = FUNCTIONS[name]
    xs = [FLOATS, np.roll(FLOATS, 7), np.roll(FLOATS, 3)][: row.arity]
    result = "i1" if row.result == "bool" else "f32"
    (got,) = run_emulated(apply_module(name, "f32", row.arity, len(FLOATS), result), xs, [np.zeros(len(FLOATS), SCALARS[result].np)])
    exact = row.result == "bool" or name in ("mod", "floor_divide", "add", "sub", "mul", "div", "max", "min")
    with np.errstate(all="ignore"):
        want = apply_scalar(name, tuple(xs) if exact else tuple(x.astype(np.float64) for x in xs)).astype(got.dtype)
        if exact:
            np.testing.assert_array_equal(got, want)
            return
        # For negative operands gelu's error is one of its operand.
        unit = np.spacing(np.abs(xs[0] if name == "gelu" else want)).astype(np.float64)
        near = np.abs(got.astype(np.float64) - want) <= 2 * unit
    wrong = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), [(x[wrong][:3], got[wrong][:3], want[wrong][:3]) for x in xs]


INTEGER_ROWS = [n for n, row in FUNCTIONS.items() if "i" in row.kinds and n not in ("cast", "select")]


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "ui8", "ui32"])
@pytest.mark.parametrize("name", INTEGER_ROWS)
def test_an_integer_function_is_exact(name, dtype):
    row = FUNCTIONS[name]
    kind = SCALARS[dtype].np
    if SCALARS[dtype].kind not in row.kinds:
        pytest.skip("no such function of unsigned numbers")
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, 96, dtype=kind, endpoint=True)
    y = np.concatenate([rng.integers(max(limits.min, -5), 6, 64), [limits.min, limits.max, 0, 1] * 8]).astype(kind)
    xs = [x, y][: row.arity]
    result = "i1" if row.result == "bool" else dtype
    (got,) = run_emulated(apply_module(name, dtype, row.arity, 96, result), xs, [np.zeros(96, SCALARS[result].np)])
    if name in ("shl", "shr"):
        # Shifts by a negative count, or by the width and more, are what the CPU's code makes of them.
        inside = (y >= 0) & (y < SCALARS[dtype].bits)
        got, xs = got[inside], [v[inside] for v in xs]
    with np.errstate(all="ignore"):
        assert np.array_equal(got, apply_scalar(name, tuple(xs)))


@pytest.mark.parametrize(
    "source, target", [("f32", "f16"), ("f32", "bf16"), ("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f64", "f32"), ("f32", "i32")]
)
def test_numbers_are_converted(source, target):
    values = np.concatenate(
        [rng.standard_normal(100) * 100, SPECIAL[:4] if target != "i32" else [], [0.0] * (24 if target != "i32" else 28)]
    )
    x = values[:96].astype(SCALARS[source].np)
    (got,) = run_emulated(apply_module("cast", source, 1, 96, target), [x], [np.zeros(96, SCALARS[target].np)])
    with np.errstate(all="ignore"):
        assert got.tobytes() == apply_scalar("cast", (x,), SCALARS[target]).tobytes()


# --- the assembler


@needs_ptxas
@pytest.mark.parametrize("sm", DEVICES)
def test_the_assembler_takes_every_kernel_here(sm, tmp_path):
    for name, (_, _, least) in KERNELS.items():
        if least <= sm:
            cost = assemble(ptx_of(module_of(name), sm).ptx, sm, tmp_path)["work"]
            assert cost.spills == 0 and 0 < cost.registers < 64
            assert (cost.shared > 0) == ("shared" in KERNELS[name][1])


@needs_ptxas
@pytest.mark.parametrize("sm", DEVICES)
def test_the_assembler_takes_every_scalar_function(sm, tmp_path):
    """All of them in one module: a function of libm that is missing would be a call of nothing."""
    for name in FLOAT_ROWS:
        row = FUNCTIONS[name]
        assemble(ptx_of(apply_module(name, "f32", row.arity, 32, "i1" if row.result == "bool" else "f32"), sm).ptx, sm, tmp_path)


@needs_ptxas
def test_the_assembler_refuses_what_is_wrong(tmp_path):
    with pytest.raises(AssertionError, match="fatal|error"):
        assemble(ptx_of(module_of("copy"), 80).ptx.replace("bar.sync", "bar.snyc"), 80, tmp_path)
