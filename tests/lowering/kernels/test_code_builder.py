"""Constants that kernel builders ask for: made once where one that stands in front will do, and anew where none does."""

from __future__ import annotations

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Value
from polyreme.ir.dims import symbol
from polyreme.ir.text import print_module
from polyreme.ir.types import BufferType, f32, f64, i32, index
from polyreme.ir.verify import verify
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel


def _kernel() -> tuple[Func, Code]:
    func = Func.empty("k", [BufferType((8,), f32)])
    return func, Code(Builder.at_end(func.block))


def _constants(block: Block) -> list[kernel.Constant]:
    return [op for op in block if isinstance(op, kernel.Constant)]


def test_a_constant_stands_once_in_a_block() -> None:
    func, code = _kernel()
    assert code.value(3) is code.value(3)
    code.store(code.constant(3.0, f32), func.args[0], 3)
    code.store(code.constant(3.0, f32), func.args[0], 3)
    assert [c.value for c in _constants(func.block)] == [3, 3.0]


def test_numbers_that_only_look_alike_are_told_apart() -> None:
    func, code = _kernel()
    asked = [(0.0, f32), (-0.0, f32), (1.0, f32), (1.0, f64), (1, i32), (float("nan"), f32), (float("inf"), f32)]
    values = [code.constant(x, dtype) for x, dtype in asked]
    assert len(set(values)) == len(asked) == len(_constants(func.block))
    assert [code.constant(x, dtype) for x, dtype in asked] == values


def test_a_block_does_not_use_what_a_block_beside_it_has() -> None:
    func, code = _kernel()
    blocks = []
    for _ in range(2):
        with code.loop(0, 4) as loop:
            blocks.append(loop.iv.owner)
            code.store(code.constant(2.0, f32), func.args[0], loop.iv)
    code.b(Return, [])
    assert [len(_constants(block)) for block in blocks] == [1, 1]  # type: ignore[arg-type]
    verify(func)


def test_a_constant_is_made_in_front_of_where_it_is_used() -> None:
    func, code = _kernel()
    late = code.value(5)
    first = func.block.first
    code.b.before = first
    early = code.value(5)
    assert early is not late
    assert list(func.block) == [early.owner, late.owner]
    assert code.value(5) is early


def test_a_constant_that_went_is_made_anew() -> None:
    func, code = _kernel()
    gone = code.value(7)
    gone.owner.erase()  # type: ignore[union-attr]
    assert code.value(7) is not gone
    assert len(_constants(func.block)) == 1


def _sums_and_sizes(code: Code, row: Value) -> list[Value]:
    return [code.value(symbol("N") * 3), code.apply("add", row, row), code.apply("mul", row, row), code.apply("cast", row, dtype=i32)]


def test_of_equal_ops_that_are_merged_later_one_is_made() -> None:
    func = Func.empty("k", [BufferType((symbol("N"),), f32), index])
    plain, merged = Code(Builder.at_end(func.block)), Code(Builder.at_end(func.block), merged=True)
    row = func.args[1]
    assert not set(_sums_and_sizes(plain, row)) & set(_sums_and_sizes(plain, row))
    made = _sums_and_sizes(merged, row)
    assert len(set(made)) == len(made)
    assert _sums_and_sizes(merged, row) == made
    assert merged.apply("add", row, made[1]) is not made[1]
    # What stands in a block is not there beside it, and what went is made anew.
    with merged.loop(0, 4), merged.loop(0, 4):
        assert not set(_sums_and_sizes(merged, row)) & set(made)
    made[2].owner.erase()  # type: ignore[union-attr]
    assert merged.apply("mul", row, row) is not made[2]
    plain.b(Return, ())
    verify(func.finish())


def test_a_kernel_is_the_same_text_whether_equal_ops_are_made_once_or_merged() -> None:
    texts = []
    for merged in (False, True):
        func = Func.empty("k", [BufferType((64,), f32), BufferType((64,), f32)])
        code = Code(Builder.at_end(func.block), merged=merged)
        with code.loop(0, 8) as outer, code.loop(0, 8) as inner:
            for _ in range(3):
                at = code.add(code.mul(outer.iv, 8), inner.iv)
                code.store(code.apply("add", code.load(func.args[0], at), code.load(func.args[0], at)), func.args[1], at)
        code.b(Return, ())
        texts.append(print_module(clean_up_kernel(func.finish())))
    assert texts[0] == texts[1]
