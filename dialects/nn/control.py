"""Branches and loops on tensors: what Python's `if`, `while` and `for` become, and Paddle's `cond` and `while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects.control import if_types, run_if, run_scan, run_while, scan_types, while_types
from polyreme.ir.core import Op, Region
from polyreme.ir.define import BindsSizes, ControlFlow, IsolatedFromAbove, Terminator, attr, op, operand, region, variadic
from polyreme.ir.dims import Dim
from polyreme.ir.types import TensorType, Type

__all__ = ["If", "Scan", "While", "Yield"]


@op("nn.yield", Terminator)
class Yield(Op):
    """Ends a body of `nn.if`, `nn.while` or `nn.scan` with what it gives.

        func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
          %y = nn.if %c, [%x] : tensor<4xf32> { (%a: tensor<4xf32>)
            %b = nn.exp %a : tensor<4xf32>
            nn.yield %b
          } { (%a: tensor<4xf32>)
            nn.yield %a
          }
          return %y
        }

    Any number of values: the results of a branch, the next carried values of a loop, or the one bool that a condition is.
    """

    values = variadic()

    @staticmethod
    def infer(values: Sequence[Type]) -> None:
        return None

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return ()


@op("nn.if", IsolatedFromAbove, BindsSizes, ControlFlow)
class If(Op):
    """Runs the first body if the condition holds and the second one otherwise, and gives what that yields.

        func @main(%c: tensor<1xi1>, %x: tensor<Nx4xf32>, %y: tensor<Nx4xf32>) -> tensor<Nx4xf32> {
          %z = nn.if %c, [%x, %y] : tensor<Nx4xf32> { (%a: tensor<Nx4xf32>, %b: tensor<Nx4xf32>)
            %d = nn.mul %a, %b : tensor<Nx4xf32>
            nn.yield %d
          } { (%a: tensor<Nx4xf32>, %b: tensor<Nx4xf32>)
            nn.yield %b
          }
          return %z
        }

    The condition is one bool, of shape [] or [1]. The bodies see nothing from outside but the captured values, which both take. They yield
    values of one element type and rank each. Where their sizes differ, or are learnt in a body, that of the result is known once the branch
    has run: `sizes` names these, in the order of the results and their axes, such as `{sizes = [K]}` for a result of type
    `tensor<Kx4xf32>`. Such a branch is run between compiled parts, by the host or by a library.
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


@op("nn.while", IsolatedFromAbove, BindsSizes, ControlFlow)
class While(Op):
    """As long as the condition holds, runs the body, which makes the carried values of the next round.

        func @main(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
          %zero = nn.full {value = 0, dtype = i64} : tensor<i64>
          %i, %y, %rounds = nn.while [%zero, %x], [%n] : tensor<i64>, tensor<4xf32>, tensor<i64>
              { (%k: tensor<i64>, %a: tensor<4xf32>, %last: tensor<i64>)
            %c = nn.less %k, %last : tensor<i1>
            nn.yield %c
          } { (%k: tensor<i64>, %a: tensor<4xf32>, %last: tensor<i64>)
            %one = nn.full {value = 1, dtype = i64} : tensor<i64>
            %next = nn.add %k, %one : tensor<i64>
            %b = nn.add %a, %a : tensor<4xf32>
            nn.yield %next, %b
          }
          return %y
        }

    Both regions take the carried and then the captured values, and see nothing else. The condition yields one bool, of shape [] or [1], the
    body the next carried values. The results are the carried values for which the condition did not hold, and then the number of rounds, of
    which gradients are made. A size of a carried value that changes from round to round has a name of its own in the types of the regions'
    arguments, and the last one in those of the results: a value of type `tensor<Txf32>` may be yielded as one of type `tensor<(T+1)xf32>`.
    Such a loop is run between compiled parts, by the host or by a library.
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


@op("nn.scan", IsolatedFromAbove, ControlFlow)
class Scan(Op):
    """Steps one after the other, whose number is a size: each has its element of some operands, and what the step before handed on.

        func @main(%x: tensor<Nx4xf32>, %first: tensor<4xf32>) -> (tensor<4xf32>, tensor<Nx4xf32>) {
          %last, %all = nn.scan [%x], [%first], [] {steps = N} : tensor<4xf32>, tensor<Nx4xf32> { (%xt: tensor<4xf32>, %h: tensor<4xf32>)
            %next = nn.add %h, %xt : tensor<4xf32>
            nn.yield %next, %next
          }
          return %last, %all
        }

    Each of `xs` has `steps` as its first size, and step t sees its element t; `inits` are what the first step is handed, and `shared` is
    seen whole by every step. The block's arguments are these three, in this order. It yields what the next step is handed, one value for
    each of `inits` and of its type, and then what the step gives. The results are what the last step handed on (`inits` where there is no
    step), and what all steps gave, along a new first axis. With `reverse` the last step runs first; what it gives still stands in its own
    place.
    """

    xs = variadic()
    inits = variadic()
    shared = variadic()
    steps = attr(Dim)
    reverse = attr(bool, default=False)
    body = region()

    @staticmethod
    def infer(
        xs: Sequence[TensorType], inits: Sequence[TensorType], shared: Sequence[TensorType], *, steps: Dim, reverse: bool, body: Region
    ) -> tuple[Type, ...]:
        return scan_types(xs, inits, shared, steps, body, Yield)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return run_scan(self, args, run_region)
