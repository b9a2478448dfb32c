"""The graph: use lists, moving, erasing, cloning; what a declaration checks; attributes in normal form."""

import numpy as np
import pytest

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.attributes import Dense, SymbolRef, normalize
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.context import lookup_op
from polyreme.ir.core import Use
from polyreme.ir.diagnostics import InferError, Location, PolyremeError
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.text import parse_module
from polyreme.ir.types import TensorType, f32, i32
from polyreme.ir.verify import verify

X = TensorType((4,), f32)


@pytest.fixture
def func():
    func = Func.empty("main", [X, X], (), ["x", "y"])
    b = Builder.at_end(func.block, Location("net.py", 3))
    total = b(tensor.Map, *func.args, fn="add")
    b(Return, [b(tensor.Map, total, total, fn="mul")])
    func.finish()
    verify(func)
    return func


def test_use_lists_follow_operands(func):
    x, y = func.args
    add, mul, last = func.block
    assert list(add.result.uses) == [Use(mul, 0), Use(mul, 1)]
    assert add.result.users == [mul]
    mul.set_operand(1, y)
    assert list(y.uses) == [Use(add, 1), Use(mul, 1)]
    add.result.replace_all_uses_with(x)
    assert mul.operands == (x, y)
    assert not add.is_used
    add.erase()
    assert list(x.uses) == [Use(mul, 0)]
    verify(func)


def test_replacing_some_uses_only(func):
    x, _ = func.args
    add, mul, _ = func.block
    add.result.replace_all_uses_with(x, unless=lambda use: use.index == 1)
    assert mul.operands == (x, add.result)


def test_an_op_that_is_used_cannot_be_erased(func):
    with pytest.raises(ValueError, match="cannot erase 'tensor.map': its result .* is still used by 'tensor.map'"):
        func.block.first.erase()


def test_an_op_stands_in_one_block_only(func):
    with pytest.raises(ValueError, match="cannot insert 'tensor.map': it stands in a block already"):
        func.block.append(func.block.first)


def test_ops_may_be_erased_and_inserted_while_walking(func):
    for op in func.walk():
        if isinstance(op, tensor.Map) and op.fn == "mul":
            b = Builder.before_op(op)
            op.replace_with(b(tensor.Map, *op.xs, fn="sub"))
    assert [op.attributes.get("fn") for op in func.block] == ["add", "sub", None]
    assert [op.location.line for op in func.block] == [3, 3, 3]
    verify(func)


def test_block_arguments_keep_their_positions(func):
    z = func.block.add_arg(X, "z")
    assert (z.index, z.owner) == (2, func.block)
    with pytest.raises(ValueError, match="cannot erase the block argument %x"):
        func.block.erase_arg(0)
    func.block.erase_arg(2)
    assert [a.index for a in func.args] == [0, 1]


def test_a_clone_maps_what_is_inside_and_keeps_what_is_outside():
    module = parse_module(
        'func @f(%n: index) {\n kernel.parallel %n { (%i: index)\n %j = kernel.apply %i, %n {fn = "add"}\n kernel.yield\n }\n return\n}'
    )
    func = module.function("f")
    copy = func.block.first.clone()
    inner = copy.block.first
    assert inner.operands == (copy.block.args[0], func.args[0])
    assert inner.operands[0] is not func.block.first.block.args[0]


def test_a_function_that_is_missing_is_named_with_the_nearest():
    module = Module.empty()
    module.block.append(Func.empty("forward", []))
    with pytest.raises(PolyremeError, match="expected a function '@forwrd' in the module but it has forward; did you mean 'forward'?"):
        module.function("forwrd")


# --- declarations


def test_operands_are_split_as_declared(func):
    x, y = func.args
    weight = Func.empty("f", [TensorType((4, 3), f32)]).args[0]
    op = nn.Linear(x, weight)
    assert (op.x, op.weight, op.bias, op.segments) == (x, weight, None, (1, 1, 0))
    both = tensor.Concat([x, y], axis=0)
    assert both.xs == (x, y)
    with pytest.raises(InferError, match=r"expected 3 operands \(x, weight, bias\) for 'nn.linear' but got 1"):
        nn.Linear(x)
    with pytest.raises(InferError, match="expected an operand 'weight' for 'nn.linear' but got None"):
        nn.Linear(x, None)


def test_segments_are_found_where_there_is_one_way_to_split():
    assert nn.Linear.definition.segments_of(2) == (1, 1, 0)
    assert kernel.For.definition.segments_of(5) == (1, 1, 3)
    assert nn.Add.definition.segments_of(2) is None
    with pytest.raises(InferError, match="expected 3 operands"):
        nn.Linear.definition.segments_of(4)


def test_attributes_are_checked_when_an_op_is_made(func):
    x, _ = func.args
    with pytest.raises(InferError, match="'tensor.reduce' has no attribute 'axis'; did you mean 'axes'?"):
        tensor.Reduce(x, fn="add", axes=[0], axis=0)
    with pytest.raises(InferError, match="expected an attribute 'fn' for 'tensor.reduce'"):
        tensor.Reduce(x, axes=[0])
    assert tensor.Reduce(x, fn="add", axes=np.array([0])).axes == (0,)


@pytest.mark.parametrize(
    ("kind", "given", "normal"),
    [
        (int, np.int64(3), 3),
        (float, 3, 3.0),
        (bool, np.bool_(True), True),
        (tuple[int, ...], [1, np.int32(2)], (1, 2)),
        (tuple[Dim, ...], [1, symbol("N")], (1, symbol("N"))),
        (SymbolRef, "f", SymbolRef("f")),
        (int | None, 3, 3),
    ],
)
def test_attributes_are_brought_into_normal_form(kind, given, normal):
    result = normalize(kind, given, "it")
    assert result == normal
    assert type(result) is type(normal)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (int, True),
        (int, 1.5),
        (float, "1"),
        (bool, 1),
        (str, 3),
        (tuple[int, ...], [1, "a"]),
        (Dim, 1.5),
        (Dim, True),
        (Dense, "x"),
        (Dense, [1, "a"]),
    ],
)
def test_attributes_of_another_kind_are_refused(kind, given):
    with pytest.raises(InferError, match="expected it to be"):
        normalize(kind, given, "it")


def test_constants_are_equal_by_bytes_and_cannot_be_written():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    dense = Dense(array)
    array[0, 0] = 9
    assert dense.array[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        dense.array[0, 0] = 1
    assert dense == Dense(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert dense != Dense(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert dense != Dense(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert Dense(np.float32(0.0)) != Dense(np.float32(-0.0))
    assert Dense(np.array([1, 2], np.int32)).type == TensorType((2,), i32)


def test_unknown_ops_are_named_with_the_nearest():
    with pytest.raises(PolyremeError, match="the dialect 'nn' has no op 'nn.softmx'; did you mean 'nn.softmax'?"):
        lookup_op("nn.softmx")
    with pytest.raises(
        PolyremeError, match="expected an op of the dialects builtin, dist, func, host, kernel, nn, tensor but got 'n.softmax'"
    ):
        lookup_op("n.softmax")
