"""The `tensor` level: groups of ops that share a kernel, branches, and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects.control import if_types, run_if, run_scan, run_while, scan_types, while_types
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.define import BindsSizes, ControlFlow, IsolatedFromAbove, Pure, Terminator, attr, op, operand, region, variadic
from polyreme.ir.diagnostics import check
from polyreme.ir.dims import Dim
from polyreme.ir.types import TensorType, Type

__all__ = ["Fused", "If", "Scan", "While", "Yield"]


@op("tensor.yield", Terminator)
class Yield(Op):
    """Ends the region of a group, branch or loop with what it gives.

        func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = tensor.fused %x : tensor<4xf32> { (%a: tensor<4xf32>)
            %b = tensor.map %a {fn = "exp"} : tensor<4xf32>
            tensor.yield %b
          }
          return %y
        }

    Any number of values, in the order of the results and of their types.
    """

    values = variadic()

    @staticmethod
    def infer(values: Sequence[Type]) -> None:
        return None

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return ()


@op("tensor.fused", Pure, IsolatedFromAbove)
class Fused(Op):
    """Ops of the `tensor` level that share one kernel.

        func @main(%x: tensor<Nx4xf32>, %y: tensor<1x4xf32>) -> tensor<Nx4xf32> {
          %z = tensor.fused %x, %y : tensor<Nx4xf32> { (%a: tensor<Nx4xf32>, %b: tensor<1x4xf32>)
            %c = tensor.map %a, %b {fn = "add"} : tensor<Nx4xf32>
            %d = tensor.map %c {fn = "tanh"} : tensor<Nx4xf32>
            tensor.yield %d
          }
          return %z
        }

    The block's arguments are the operands, one for one and of their types; `tensor.yield` gives the results. The region sees no other
    values. What is computed is what the ops compute one by one. `schedule` says how, `gemm<tile = 6x4, …>`, as the pass `choose-schedules`
    writes it; without one that is chosen when its kernel is written.
    """

    xs = variadic()
    schedule = attr(str, default="")
    body = region()

    @staticmethod
    def infer(xs: Sequence[TensorType], *, schedule: str, body: Region) -> tuple[Type, ...]:
        block: Block = body.block
        taken = [a.type for a in block.args]
        check(
            taken == list(xs),
            f"expected block arguments like the operands, ({', '.join(map(str, xs))}), but got ({', '.join(map(str, taken))})",
            code="E0305",
        )
        check(isinstance(block.last, Yield), "expected the region to end with 'tensor.yield'", code="E0305")
        return tuple(v.type for v in block.terminator.operands)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        results: Sequence[Any] = run_region(self.body, args)
        return results


@op("tensor.scan", Pure, IsolatedFromAbove)
class Scan(Op):
    """Steps one after the other, each with a part of some operands and with what the step before handed on.

        // %x: tensor<3x2x4xf32>, %first: tensor<2x4xf32>, %w: tensor<4x4xf32>
        %last, %all = tensor.scan [%x], [%first], [%w] {steps = 3} : tensor<2x4xf32>, tensor<3x2x4xf32>
            { (%xt: tensor<2x4xf32>, %h: tensor<2x4xf32>, %v: tensor<4x4xf32>)
          %u = tensor.contract %h, %v {spec = "bk,nk->bn"} : tensor<2x4xf32>
          %a = tensor.map %u, %xt {fn = "add"} : tensor<2x4xf32>
          %next = tensor.map %a {fn = "tanh"} : tensor<2x4xf32>
          tensor.yield %next, %next
        }

    Each of `xs` has `steps` as its first size, and step t sees its element t; `inits` are what the first step is handed, and `shared` is
    seen whole by every step. The block's arguments are these three, in this order. It yields what the next step is handed, one value for
    each of `inits` and of its type, and then what the step gives. The results are what the last step handed on (`inits` where there is no
    step), and what all steps gave, along a new first axis. With `reverse` the last step runs first; what it gives still stands in its own
    place. The region sees no other values. `schedule` as of `tensor.fused`.
    """

    xs = variadic()
    inits = variadic()
    shared = variadic()
    steps = attr(Dim)
    reverse = attr(bool, default=False)
    schedule = attr(str, default="")
    body = region()

    @staticmethod
    def infer(
        xs: Sequence[TensorType],
        inits: Sequence[TensorType],
        shared: Sequence[TensorType],
        *,
        steps: Dim,
        reverse: bool,
        schedule: str,
        body: Region,
    ) -> tuple[Type, ...]:
        return scan_types(xs, inits, shared, steps, body, Yield)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return run_scan(self, args, run_region)


@op("tensor.if", IsolatedFromAbove, BindsSizes, ControlFlow)
class If(Op):
    """Runs one of two bodies and gives what it yields: what `nn.if` becomes.

        func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
          %y = tensor.if %c, [%x] : tensor<4xf32> { (%a: tensor<4xf32>)
            %b = tensor.map %a {fn = "exp"} : tensor<4xf32>
            tensor.yield %b
          } { (%a: tensor<4xf32>)
            tensor.yield %a
          }
          return %y
        }

    The condition is one bool, of shape [] or [1]. Both bodies take the captured values, and yield values of one type each. For `sizes` see
    `nn.if`.
    """

    cond = operand()
    captured = variadic()
    sizes = attr(tuple[Dim, ...], default=())
    then_body = region()
    else_body = region()

    @staticmethod
    def infer(cond: Type, captured: Sequence[Type], *, sizes: Sequence[Dim], then_body: Region, else_body: Region) -> tuple[Type, ...]:
        return if_types(cond, captured, sizes, then_body, else_body, Yield)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return run_if(self, args, run_region)


@op("tensor.while", IsolatedFromAbove, BindsSizes, ControlFlow)
class While(Op):
    """Runs its body as long as its condition holds: what `nn.while` becomes.

        func @main(%x: tensor<4xf32>, %limit: tensor<f32>) -> tensor<4xf32> {
          %y, %rounds = tensor.while [%x], [%limit] : tensor<4xf32>, tensor<i64> { (%a: tensor<4xf32>, %l: tensor<f32>)
            %s = tensor.reduce %a {fn = "add", axes = [0], keepdims = false} : tensor<f32>
            %c = tensor.map %s, %l {fn = "lt"} : tensor<i1>
            tensor.yield %c
          } { (%a: tensor<4xf32>, %l: tensor<f32>)
            %b = tensor.map %a, %a {fn = "add"} : tensor<4xf32>
            tensor.yield %b
          }
          return %y
        }

    Both regions take the carried and then the captured values. The results are the last carried values, and the number of rounds.
    """

    inits = variadic()
    captured = variadic()
    condition = region()
    body = region()

    @staticmethod
    def infer(inits: Sequence[Type], captured: Sequence[Type], *, condition: Region, body: Region) -> tuple[Type, ...]:
        return while_types(inits, captured, condition, body, Yield)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return run_while(self, args, run_region)
