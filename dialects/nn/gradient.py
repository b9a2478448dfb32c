"""Marks that matter to differentiation only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects.arrays import Array
from polyreme.dialects.nn.control import Yield
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.define import IsolatedFromAbove, Pure, View, attr, op, operand, region, variadic
from polyreme.ir.diagnostics import check
from polyreme.ir.types import TensorType, Type


@op("nn.stop_gradient", Pure, View)
class StopGradient(Op):
    """`x` itself, through which no gradient flows.

        %y = nn.stop_gradient %x : tensor<Nx4xf32>

    What `detach()` and `no_grad()` leave in a traced function. It is dropped on the way to the `tensor` level, after gradients are taken.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return x


@op("nn.custom_gradient", Pure, IsolatedFromAbove)
class CustomGradient(Op):
    """`values` themselves, whose gradients go to `inputs` by a rule of its own.

        func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %r = nn.round %x : tensor<4xf32>
          %y = nn.custom_gradient [%r], [%x], [%x] {reached = [0]} : tensor<4xf32> { (%dy: tensor<4xf32>, %a: tensor<4xf32>)
            %dx = nn.mul %dy, %a : tensor<4xf32>
            nn.yield %dx
          }
          return %y
        }

    What a PyLayer leaves in a traced function. The body is the rule: its arguments are the gradients of `values`, one for one and of their
    types, and then `captured`, and it yields gradients of the inputs that `reached` names, of their types. It sees no other values. No
    gradient flows through `values` and `captured`, but those of the rule's own results do flow through `captured`. It is dropped on the way
    to the `tensor` level, after gradients are taken.
    """

    values = variadic()
    inputs = variadic()
    captured = variadic()
    reached = attr(tuple[int, ...])
    body = region()

    @staticmethod
    def infer(
        values: Sequence[TensorType], inputs: Sequence[TensorType], captured: Sequence[TensorType], *, reached: Sequence[int], body: Region
    ) -> tuple[Type, ...]:
        block: Block = body.block
        taken, expected = [a.type for a in block.args], [*values, *captured]
        check(
            taken == expected,
            f"expected block arguments ({', '.join(map(str, expected))}) but got ({', '.join(map(str, taken))})",
            code="E0305",
        )
        check(
            all(0 <= i < len(inputs) for i in reached), f"expected numbers of the {len(inputs)} inputs in 'reached' but got {list(reached)}"
        )
        check(isinstance(block.last, Yield), "expected the body to end with 'nn.yield'", code="E0305")
        given, wanted = [v.type for v in block.terminator.operands], [inputs[i] for i in reached]
        check(given == wanted, f"expected gradients ({', '.join(map(str, wanted))}) but got ({', '.join(map(str, given))})", code="E0305")
        return tuple(values)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return args[: len(self.values)]


@op("nn.overwrite", Pure)
class Overwrite(Op):
    """The contents of `y`, with the place of `x` among the gradients: all of the result's gradient is that of `x`, and none that of `y`.

        %z = nn.overwrite %x, %y : tensor<Nx4xf32>

    What a write behind the graph's back leaves in a traced function: under `no_grad()`, or through `detach()`. Both operands are of one
    type. On the way to the `tensor` level, after gradients are taken, `y` itself is left.
    """

    x = operand()
    y = operand()

    @staticmethod
    def infer(x: TensorType, y: TensorType) -> TensorType:
        check(x == y, f"expected operands of one type but got {x} and {y}")
        return y

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return y
