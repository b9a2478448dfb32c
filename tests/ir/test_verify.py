"""The verifier finds every breach of an invariant that text cannot express; `filetests/verify` has the others."""

import pytest

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Region, Use
from polyreme.ir.diagnostics import Location, VerifyError
from polyreme.ir.text import parse_module
from polyreme.ir.types import BufferType, TensorType, VectorType, f32
from polyreme.ir.verify import find_faults, verify

TEXT = """
func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor.map %x {fn = "exp"} : tensor<4xf32>
  %z = tensor.map %y, %x {fn = "add"} : tensor<4xf32>
  return %z
}
"""


@pytest.fixture
def module():
    module = parse_module(TEXT)
    verify(module)
    return module


def parts(module):
    func = module.function()
    return func, *func.block


def messages(module):
    return [f.message for f in find_faults(module)]


def test_a_use_that_is_not_noted(module):
    _, y, z, _ = parts(module)
    del y.result.uses[Use(z, 0)]
    assert messages(module) == ["operand 0 of 'tensor.map' is not in the use list of %y: tensor<4xf32>"]


def test_a_noted_use_that_is_not_there(module):
    _, y, z, _ = parts(module)
    y.result.uses[Use(z, 1)] = None
    assert messages(module) == ["%y: tensor<4xf32> notes a use by 'tensor.map' that is not there"]


def test_a_use_by_an_op_outside_of_the_module(module):
    _, y, _, _ = parts(module)
    tensor.Map(y.result, fn="exp")
    assert messages(module) == ["%y: tensor<4xf32> is used by 'tensor.map', which is not in the module"]


def test_an_operand_that_was_erased(module):
    _, y, z, _ = parts(module)
    y.detach()
    assert messages(module) == [
        "operand 0 of 'tensor.map', %y: tensor<4xf32>, is not defined in the module",
        "%x: tensor<4xf32> is used by 'tensor.map', which is not in the module",
    ]
    assert z.operands[0] is y.result


def test_a_use_before_the_definition(module):
    func, y, z, _ = parts(module)
    y.detach()
    func.block.insert(y, z.next)
    assert messages(module) == ["operand 0 of 'tensor.map', %y: tensor<4xf32>, is used before it is defined"]


def test_an_op_that_uses_itself(module):
    _, y, _, _ = parts(module)
    y.set_operand(0, y.result)
    assert messages(module) == ["operand 0 of 'tensor.map', %y: tensor<4xf32>, is used before it is defined"]


def test_a_value_of_another_function(module):
    other = parse_module(TEXT.replace("main", "other")).function("other")
    other.detach()
    module.block.append(other)
    _, y, _, _ = parts(module)
    y.set_operand(0, other.args[0])
    assert messages(module) == ["operand 0 of 'tensor.map', %x: tensor<4xf32>, is defined in another function"]


def test_a_value_of_an_inner_region():
    module = parse_module(
        'func @main(%n: index) {\n kernel.parallel %n { (%i: index)\n kernel.yield\n }\n %j = kernel.apply %n {fn = "neg"}\n return\n}'
    )
    _, loop, use, _ = parts(module)
    use.set_operand(0, loop.block.args[0])
    assert "operand 0 of 'kernel.apply', %i: index, is defined in a region that does not enclose this use" in messages(module)


def test_a_value_across_an_isolated_op():
    text = """func @main(%x: tensor<4xf32>) {
      %y = tensor.fused %x : tensor<4xf32> { (%a: tensor<4xf32>)
        %b = tensor.map %a {fn = "exp"} : tensor<4xf32>
        tensor.yield %b
      }
      return
    }"""
    module = parse_module(text)
    verify(module)
    func = module.function()
    inner = func.block.first.block.first
    inner.set_operand(0, func.args[0])
    assert messages(module) == [
        "operand 0 of 'tensor.map', %x: tensor<4xf32>, is defined outside of 'tensor.fused', which uses nothing from outside"
    ]


def test_links_between_neighbours(module):
    _, y, z, _ = parts(module)
    z.prev = None
    assert messages(module) == ["'tensor.map' does not know the op before it"]
    z.prev = y
    z.parent = Block()
    assert "'tensor.map' does not know the block it stands in" in messages(module)


def test_ops_that_form_a_ring(module):
    func, y, _, last = parts(module)
    last.next = y
    assert "the ops in a block of 'func.func' form a ring" in messages(module)
    last.next = None
    func.block.last = y
    assert "a block of 'func.func' does not know its last op" in messages(module)


def test_links_of_regions_blocks_results_and_arguments(module):
    func, y, _, _ = parts(module)
    func.body.parent = None
    assert "a region of 'func.func' does not know its op" in messages(module)
    func.body.parent = func
    func.block.parent = None
    assert "a block of 'func.func' does not know its region" in messages(module)
    func.block.parent = func.body
    y.results[0].index = 1
    assert "result 0 of 'tensor.map' does not know its place" in messages(module)
    y.results[0].index = 0
    func.args[0].index = 3
    assert "argument 0 of a block of 'func.func' does not know its place" in messages(module)


def test_regions_without_or_with_many_blocks(module):
    func = module.function()
    func.body.add_block(Block())
    assert "expected one block in each region of 'func.func' but got 2" in messages(module)


def test_segments_that_do_not_split_the_operands(module):
    _, y, _, _ = parts(module)
    y.segments = (2,)
    assert messages(module) == ["expected operands (xs…) for 'tensor.map' but got 1, split as [2]"]


def test_attributes_missing_unknown_of_another_kind_and_not_normal(module):
    _, y, z, _ = parts(module)
    del y.attributes["dtype"]
    z.attributes.update(fn=3, axis=1)
    assert messages(module) == [
        "expected an attribute 'dtype' for 'tensor.map'",
        "'tensor.map' has no attribute 'axis'",
        "'tensor.map': expected 'fn' to be str but got 3",
    ]
    pooled = parse_module('func @main(%x: tensor<4xf32>) {\n %y = tensor.reduce %x {fn = "add", axes = [0]}\n return\n}')
    pooled.function().block.first.attributes["axes"] = [0]
    assert messages(pooled) == ["expected the attribute 'axes' of 'tensor.reduce' in the form (0,) but got [0]"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            TensorType((-1,), f32),
            "expected sizes from 0 to 9223372036854775807 for argument 0 of a block of 'func.func' but got tensor<-1xf32>",
        ),
        (BufferType((1,) * 33, f32), "expected a rank of at most 32 for argument 0 of a block of 'func.func' but got 33"),
        (VectorType(0, f32), "expected a vector with lanes for argument 0 of a block of 'func.func' but got vector<0xf32>"),
    ],
)
def test_types_that_are_not_well_formed(kind, message):
    func = Func.empty("main", [kind])
    Builder.at_end(func.block)(Return, [])
    assert messages(func) == [message]


def test_deep_nesting_is_a_fault_and_not_a_crash():
    func = Func.empty("main", [])
    b = Builder.at_end(func.block)
    count = b(kernel.Size, value=1)
    block = func.block
    for _ in range(80):
        b = Builder.at_end(block)
        inner = Block()
        loop = kernel.Parallel.build([count], {"grain": 1}, [Region(inner)], ())
        block.append(loop)
        inner.add_arg(count.type)
        block.append(kernel.Yield([]) if block is not func.block else Return([]))
        block = inner
    block.append(kernel.Yield([]))
    assert "expected regions to nest at most 64 deep" in messages(func)


def test_an_inference_that_trips_is_reported_with_the_other_faults(module, monkeypatch):
    _, y, z, _ = parts(module)
    monkeypatch.setattr(tensor.Map, "infer", staticmethod(lambda xs, *, fn, dtype: xs[1]))
    z.results[0].type = TensorType((5,), f32)
    assert messages(module)[0] == "the types of 'tensor.map' cannot be inferred: IndexError: tuple index out of range"
    assert len(messages(module)) == 3


def test_the_error_shows_every_fault_with_its_line():
    text = TEXT.replace('"exp"} : tensor<4xf32>', '"exp"} : tensor<5xf32>').replace("-> tensor<4xf32>", "-> tensor<3xf32>")
    with pytest.raises(VerifyError) as caught:
        verify(parse_module(text, "model.tir"), source=text)
    shown = str(caught.value)
    assert "model.tir:3:8: error[E0209]: expected 'tensor.map' to result in tensor<4xf32> but got tensor<5xf32>" in shown
    assert '      %y = tensor.map %x {fn = "exp"} : tensor<5xf32>\n           ^^^^^^^^^^\n' in shown
    assert "model.tir:5:3: error[E0211]: the type of '@main' says that it returns tensor<3xf32>" in shown
    assert caught.value.diagnostics[0].location == Location("model.tir", 3, 8, 18)


def test_only_functions_stand_in_a_module():
    module = Module.empty()
    module.block.append(tensor.Full(value=0.0, dtype=f32))
    assert messages(module) == ["expected only functions in a module but got 'tensor.full'"]
