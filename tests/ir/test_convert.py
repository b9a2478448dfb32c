"""Conversions: rules carry ops over a border, and whatever is left over is reported."""

import pytest

from polyreme.dialects import nn, tensor
from polyreme.ir.convert import Conversion
from polyreme.ir.diagnostics import ConversionError
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify

TEXT = """
func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %y = nn.linear %x, %w : tensor<2x4xf32>
  %z = nn.relu %y : tensor<2x4xf32>
  return %z
}
"""


@pytest.fixture
def conversion():
    conversion = Conversion("nn-to-tensor-test", source="nn", target="tensor")

    @conversion.lower(nn.Linear)
    def lower_linear(op, b, x, weight, bias):
        """x @ weight, without a bias"""
        return b(tensor.Contract, x, weight, spec="mk,kn->mn") if bias is None else None

    return conversion


def test_rules_get_operands_as_declared_and_may_make_ops_of_the_source(conversion):
    @conversion.lower(nn.Relu)
    def lower_relu(op, b, x):
        """max(x, 0), by way of another nn op"""
        return b(nn.Maximum, x, b(nn.Full, value=0.0, dtype=x.type.dtype))

    @conversion.lower(nn.Maximum)
    def lower_maximum(op, b, x, y):
        return b(tensor.Map, x, y, fn="max")

    @conversion.lower(nn.Full)
    def lower_full(op, b):
        return b(tensor.Full, value=op.value, shape=op.shape, dtype=op.dtype)

    module = parse_module(TEXT)
    conversion.run(module)
    verify(module)
    assert {op.dialect for op in module.walk()} == {"builtin", "func", "tensor"}
    assert '%z = tensor.map %y, %0 {fn = "max"}' in print_module(module)
    assert [op.location.line for op in module.function().block] == [3, 4, 4, 5]


def test_leftovers_are_all_reported_with_the_rules_that_were_tried(conversion):
    text = TEXT.replace("%z = nn.relu", "%b = nn.linear %x, %w, %bias : tensor<2x4xf32>\n  %z = nn.relu").replace(
        "3x4xf32>)", "3x4xf32>, %bias: tensor<4xf32>)"
    )
    module = parse_module(text, "net.tir")
    with pytest.raises(ConversionError) as caught:
        conversion.run(module)
    assert [str(d.location) + ": " + d.message for d in caught.value.diagnostics] == [
        "net.tir:4:8: 'nn-to-tensor-test' cannot take 'nn.linear' to tensor: the rules tried were lower_linear",
        "net.tir:5:8: 'nn-to-tensor-test' cannot take 'nn.relu' to tensor: it has no rule for it",
    ]


def test_rules_that_make_each_other_are_stopped(conversion):
    conversion.lower(nn.Relu)(lambda op, b, x: b(nn.Silu, x))
    conversion.lower(nn.Silu)(lambda op, b, x: b(nn.Relu, x))
    with pytest.raises(ConversionError, match="make such ops again without end"):
        conversion.run(parse_module(TEXT))


def test_ops_of_a_third_dialect_are_not_legal(conversion):
    text = "func @main() {\n %n = kernel.size {value = 4} : index\n return\n}"
    with pytest.raises(
        ConversionError, match="'kernel.size' is not legal after 'nn-to-tensor-test', whose target is builtin, func, tensor"
    ):
        conversion.run(parse_module(text))
