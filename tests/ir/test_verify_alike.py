"""The verifier looks at one of several ops that are alike; those that only seem alike it must not take for one another."""

import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.dialects import nn
from polyreme.ir.text import parse_module
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import find_faults

TEXT = """
func @main(%x: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = nn.transpose %x {perm = [1, 0]} : tensor<4x4xf32>
  %b = nn.transpose %a {perm = [1, 0]} : tensor<4x4xf32>
  %c = nn.add %b, %z : tensor<4x4xf32>
  %d = nn.add %c, %b : tensor<4x4xf32>
  return %d
}
func @other(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = nn.transpose %x {perm = [1, 0]} : tensor<4x4xf32>
  return %a
}
"""


@pytest.fixture
def ops():
    module = parse_module(TEXT)
    assert find_faults(module) == []
    return module, module.function().block.ops


def only_fault(module):
    [fault] = find_faults(module)
    return fault.message


def test_attributes_that_compare_equal_but_are_of_another_kind(ops):
    module, (_, b, *_) = ops
    b.attributes["perm"] = (True, False)
    assert only_fault(module) == "'nn.transpose': expected 'perm' to be int but got True"


def test_attributes_of_another_class_of_number(ops):
    module, (_, b, *_) = ops
    b.attributes["perm"] = (1.0, 0)
    assert only_fault(module) == "'nn.transpose': expected 'perm' to be int but got 1.0"


def test_results_of_another_type(ops):
    module, (*_, d, last) = ops
    last.set_operand(0, d.operands[0])
    d.result.type = TensorType((4,), f32)
    assert only_fault(module) == "expected 'nn.add' to result in tensor<4x4xf32> but got tensor<4xf32>"


def test_a_result_that_belongs_to_another_op(ops):
    module, (a, b, *_) = ops
    b.results[0].op = a
    assert only_fault(module) == "result 0 of 'nn.transpose' does not know its place"


def test_an_operand_that_is_defined_later(ops):
    module, (_, _, c, d, _) = ops
    c.set_operand(1, d.result)
    assert "is used before it is defined" in only_fault(module)


def test_a_use_that_is_not_noted_next_to_one_that_is_not_there(ops):
    module, (a, b, c, *_) = ops
    uses = a.result.uses
    [(use, _)] = uses.items()
    del uses[use]
    uses[use._replace(index=1)] = None
    assert [f.message for f in find_faults(module)] == [
        "%a: tensor<4x4xf32> notes a use by 'nn.transpose' that is not there",
        "operand 0 of 'nn.transpose' is not in the use list of %a: tensor<4x4xf32>",
    ]


def test_sizes_are_looked_for_in_every_function():
    text = """
func @main(%x: tensor<Nx4xf32>) {
  %a = nn.broadcast_to %x {shape = [2, N, 4]} : tensor<2xNx4xf32>
  return
}
func @other(%x: tensor<3x4xf32>) {
  %a = nn.full {value = 0.0, shape = [N, 4], dtype = f32} : tensor<Nx4xf32>
  %b = nn.broadcast_to %a {shape = [2, N, 4]} : tensor<2xNx4xf32>
  return
}
"""
    assert only_fault(parse_module(text)) == "the size 'N' is not the size of an axis of any argument of '@other'"


def test_ops_have_no_attributes_but_those_declared(ops):
    _, (a, *_) = ops
    assert isinstance(a, nn.Transpose)
    with pytest.raises(AttributeError):
        a.permutation = (0, 1)
