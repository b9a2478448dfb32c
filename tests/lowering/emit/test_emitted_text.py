"""What the text of kernels looks like, and the machine code that LLVM makes of it."""

import re

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import Location
from polyreme.ir.types import BufferType, f32
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import emit_llvm
from polyreme.lowering.machines.targets import TARGETS, host
from tests.lowering.kernel_modules import assert_same, finish, function, one_function, register_tile


def test_the_same_module_gives_the_same_text():
    assert emit_llvm(register_tile(2, 2), host()) == emit_llvm(register_tile(2, 2), host())


def test_a_register_tile_keeps_its_24_sums_in_registers():
    module = register_tile()
    text = assembly(emit_llvm(module, TARGETS["x86-64-avx512"]), TARGETS["x86-64-avx512"])
    loop = text[text.index("model_run:") : text.index("retq")]
    assert "(%rsp)" not in loop, "a spill"
    assert loop.count("vfmadd") == 24
    assert loop.count("vbroadcastss") + loop.count("{1to16}") <= 24
    rng = np.random.default_rng(0)
    assert_same(module, [rng.normal(size=(6, 64)).astype(np.float32), rng.normal(size=(64, 64)).astype(np.float32)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "register"), [("x86-64-avx2", "ymm"), ("x86-64-avx512", "zmm")])
def test_vectors_on_the_stack_straddle_no_lines(name, register):
    """With more sums than registers some wait there, at multiples of their size wherever a thread's stack begins."""
    target = TARGETS[name]
    text = assembly(emit_llvm(register_tile(12, 4, 8, target.vector_bytes // 4), target), target)
    moves = re.findall(rf"\t(vmov\w+)\t(?:%{register}\d+, -?\d*\(%rsp\)|-?\d*\(%rsp\), %{register}\d+)", text)
    assert moves and not [m for m in moves if "u" in m]
    assert f"andq\t$-{target.vector_bytes}, %rsp" in text


def test_the_source_line_stands_in_front_of_what_it_became():
    module, args, b = one_function([BufferType((4,), f32)], [BufferType((4,), f32)])
    b.loc = Location("model.py", 41)
    b(kernel.Store, b(kernel.Load, args[0], b.number(0), lanes=4), args[1], b.number(0))
    finish(b)
    text = emit_llvm(module, host())
    assert text.index("; model.py:41") < text.index("load <4 x float>")
    assert text.count("; model.py:41") == 1


def test_a_location_from_a_model_file_cannot_write_code():
    module, args, b = one_function([BufferType((4,), f32)], [BufferType((4,), f32)])
    b.loc = Location(name="features.0\n  ret void\n}\ndefine void @evil() {")
    b(kernel.Store, b(kernel.Load, args[0], b.number(0), lanes=4), args[1], b.number(0))
    finish(b)
    assert "\ndefine void @evil" not in emit_llvm(module, host())
    assert_same(module, [np.ones(4, np.float32)])


def test_overlapping_arguments_lose_their_promise():
    """Two buffers of one call at the same place in the arena: the kernel may not take them for separate memory."""
    module = Module.empty()
    row = BufferType((8,), f32)
    func, b = function(module, "copy", [row, row])
    b(kernel.Store, b(kernel.Load, func.args[0], b.number(0), lanes=8), func.args[1], b.number(0))
    finish(b)
    main, b = function(module, "main", [row, row], ("input", "output"))
    first, second, third = (b(kernel.Alloc, shape=(8,), dtype=f32, offset=o) for o in (0, 16, 64))
    b(kernel.Call, first, third, callee="copy")
    finish(b)
    assert "@copy(ptr noalias readonly %a0, ptr noalias %a1)" in emit_llvm(module, host())
    b = type(b)(main.block, main.block.last)
    b(kernel.Call, first, second, callee="copy")
    assert "@copy(ptr readonly %a0, ptr %a1)" in emit_llvm(module, host())
