"""Sinking reshapes behind what follows a product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, i32
from polyreme.ir.verify import verify
from polyreme.lowering.transforms.sink_reshapes import SinkReshapes


def reshaped_product(added: Any, lanes: int = 4) -> tuple[Module, list[Any]]:
    """`main` adds what `added(builder, argument)` makes to a product of 6 rows that is reshaped to [2, 3, lanes], the argument's shape."""
    types = [TensorType(s, f32) for s in ((6, 5), (lanes, 5), (2, 3, lanes))]
    main = Func.empty("main", types, arg_names=("x", "w", "r"), arg_roles=("input",) * 3)
    b = Builder.at_end(main.block)
    y = b(tensor.Reshape, b(tensor.Contract, *main.args[:2], spec="rk,ok->ro"), shape=(2, 3, lanes))
    b.insert(Return([b(tensor.Map, y, added(b, main.args[2]), fn="add")]))
    module = Module.empty()
    module.block.append(main.finish())
    rng = np.random.default_rng(2)
    return module, [rng.standard_normal(t.shape).astype(np.float32) for t in types]


ADDED = {
    "an argument": (lambda b, r: r, True),
    "a vector along the last axis": (lambda b, r: b(tensor.Constant, value=np.arange(4, dtype=np.float32).reshape(1, 1, 4)), True),
    "one number for a vector along the last axis": (lambda b, r: b(tensor.Full, value=3.0, shape=(1, 1, 4), dtype=f32), True),
    "one number": (lambda b, r: b(tensor.Full, value=3.0, shape=(), dtype=f32), True),
    "what varies along part of the rows": (lambda b, r: b(tensor.Constant, value=np.arange(3, dtype=np.float32).reshape(1, 3, 1)), False),
}


@pytest.mark.parametrize("what", ADDED)
def test_a_map_goes_in_front_of_the_reshape_where_its_other_operand_can_follow(what: str) -> None:
    added, sinks = ADDED[what]
    module, inputs = reshaped_product(added)
    before = evaluate(module, inputs)[0]
    SinkReshapes().run(module)
    verify(module)
    np.testing.assert_array_equal(evaluate(module, inputs)[0], before)
    last = module.function().block.terminator.operands[0].producer()
    assert isinstance(last, tensor.Reshape) == sinks
    assert all(op.is_used for op in module.function().block if isinstance(op, (tensor.Map, tensor.Reshape)))


COMPUTED = {
    "element by element": (lambda b, r: b(tensor.Map, b(tensor.Map, r, fn="neg"), r, fn="mul"), 16, True),
    "for short rows": (lambda b, r: b(tensor.Map, r, fn="neg"), 15, False),
    "in another way": (lambda b, r: b(tensor.Map, b(tensor.Reverse, r, axes=(2,)), fn="neg"), 16, False),
}


@pytest.mark.parametrize("how", COMPUTED)
def test_what_is_computed_of_memory_for_a_map_alone_goes_along(how: str) -> None:
    added, lanes, sinks = COMPUTED[how]
    module, inputs = reshaped_product(added, lanes)
    before = evaluate(module, inputs)[0]
    SinkReshapes().run(module)
    verify(module)
    np.testing.assert_array_equal(evaluate(module, inputs)[0], before)
    assert isinstance(module.function().block.terminator.operands[0].producer(), tensor.Reshape) == sinks
    assert all(op.is_used for op in module.function().block if isinstance(op, (tensor.Map, tensor.Reshape)))


def test_a_reshape_back_does_not_stand_between_a_product_and_what_follows() -> None:
    module, inputs = reshaped_product(lambda b, r: r)
    main = module.function()
    add = main.block.terminator.operands[0].producer()
    assert isinstance(add, tensor.Map)
    b = Builder.before_op(add)
    there = b(tensor.Reshape, add.xs[0], shape=(2, 3, 2, 2))
    add.set_operand(0, b(tensor.Reshape, there, shape=(2, 3, 4)))
    before = evaluate(module, inputs)[0]
    SinkReshapes().run(module)
    verify(module)
    np.testing.assert_array_equal(evaluate(module, inputs)[0], before)
    product = next(op for op in main.block if isinstance(op, tensor.Contract))
    assert [type(user) for user in product.result.users] == [tensor.Map]


def test_a_residual_of_bytes_that_others_read_too_is_added_in_front_of_the_reshape_and_so_is_what_follows() -> None:
    module, inputs = reshaped_product(lambda b, r: r)
    main = module.function()
    add, end = main.block.terminator.operands[0].producer(), main.block.terminator
    assert isinstance(add, tensor.Map)
    b = Builder.before_op(add)
    steps = b(tensor.Map, add.xs[1], fn="cast", dtype=i32)
    total = b(tensor.Map, b(tensor.Map, steps, fn="cast", dtype=f32), add.xs[0], fn="add")
    add.replace_with(b(tensor.Map, total, b(tensor.Full, value=0.0, dtype=f32), fn="max"))
    Builder.before_op(end).insert(Return([end.operands[0], steps]))
    end.erase()
    main.finish()
    before = evaluate(module, inputs)
    SinkReshapes().run(module)
    verify(module)
    for a, wanted in zip(evaluate(module, inputs), before, strict=True):
        np.testing.assert_array_equal(a, wanted)
    assert isinstance(main.block.terminator.operands[0].producer(), tensor.Reshape)
    assert all(op.is_used for op in main.block if isinstance(op, (tensor.Map, tensor.Reshape)))
