"""The `tensor` level: groups of ops that share a kernel, and loops over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import check_sizes
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.define import IsolatedFromAbove, Pure, Terminator, attr, op, region, variadic
from polyreme.ir.diagnostics import check
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve, resolve_all
from polyreme.ir.types import TensorType, Type

__all__ = ["Fused", "Scan", "Yield"]


@op("tensor.yield", Terminator)
class Yield(Op):
    """Ends the region of a `tensor.fused` or a `tensor.scan` with what it gives.

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
    values. What is computed is what the ops compute one by one.
    """

    xs = variadic()
    body = region()

    @staticmethod
    def infer(xs: Sequence[TensorType], *, body: Region) -> tuple[Type, ...]:
        block: Block = body.block
        taken = [a.type for a in block.args]
        check(taken == list(xs), f"expected block arguments like the operands, ({', '.join(map(str, xs))}), but got ({', '.join(map(str, taken))})", code="E0305")
        check(isinstance(block.last, Yield), "expected the region to end with 'tensor.yield'", code="E0305")
        return tuple(v.type for v in block.terminator.operands)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        results: Sequence[Any] = run_region(self.body, args)
        return results


@op("tensor.scan", Pure, IsolatedFromAbove)
class Scan(Op):
    """Steps one after the other, each with a part of some operands and with what the step before handed on.

        // %x: tensor<3x2x4xf32>, %first: tensor<2x4xf32>, %w: tensor<4x4xf32>
        %last, %all = tensor.scan [%x], [%first], [%w] {steps = 3} : tensor<2x4xf32>, tensor<3x2x4xf32> { (%xt: tensor<2x4xf32>, %h: tensor<2x4xf32>, %v: tensor<4x4xf32>)
          %u = tensor.contract %h, %v {spec = "bk,nk->bn"} : tensor<2x4xf32>
          %a = tensor.map %u, %xt {fn = "add"} : tensor<2x4xf32>
          %next = tensor.map %a {fn = "tanh"} : tensor<2x4xf32>
          tensor.yield %next, %next
        }

    Each of `xs` has `steps` as its first size, and step t sees its element t; `inits` are what the first step is handed, and `shared` is seen whole by every step. The
    block's arguments are these three, in this order. It yields what the next step is handed, one value for each of `inits` and of its type, and then what the
    step gives. The results are what the last step handed on (`inits` where there is no step), and what all steps gave, along a new first axis. With `reverse` the
    last step runs first; what it gives still stands in its own place. The region sees no other values.
    """

    xs = variadic()
    inits = variadic()
    shared = variadic()
    steps = attr(Dim)
    reverse = attr(bool, default=False)
    body = region()

    @staticmethod
    def infer(xs: Sequence[TensorType], inits: Sequence[TensorType], shared: Sequence[TensorType], *, steps: Dim, reverse: bool, body: Region) -> tuple[Type, ...]:
        check_sizes((steps,))
        for x in xs:
            check(x.rank > 0 and x.shape[0] == steps, f"expected operands of {steps} steps but got {x}", code="E0305")
        block: Block = body.block
        wanted = [*(x.with_shape(x.shape[1:]) for x in xs), *inits, *shared]
        taken = [a.type for a in block.args]
        check(taken == wanted, f"expected block arguments ({', '.join(map(str, wanted))}) but got ({', '.join(map(str, taken))})", code="E0305")
        check(isinstance(block.last, Yield), "expected the region to end with 'tensor.yield'", code="E0305")
        made = [v.type for v in block.terminator.operands]
        handed = made[: len(inits)]
        check(handed == list(inits), f"expected values of the types ({', '.join(map(str, inits))}) to be handed on but got ({', '.join(map(str, handed))})", code="E0305")
        return (*inits, *(t.with_shape((steps, *t.shape)) for t in made[len(inits) :] if isinstance(t, TensorType)))

    @property
    def order(self) -> range:
        """The numbers of the steps as they run, in the run under way."""
        count = resolve(self.steps)
        return range(count - 1, -1, -1) if self.reverse else range(count)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        xs, carried, shared = self.definition.split(args, self.segments)
        kinds: list[Any] = [r.type for r in self.results[len(carried) :]]
        given: list[Array] = [np.empty(resolve_all(k.shape), k.dtype.np) for k in kinds]
        for t in self.order:
            made = run_region(self.body, [*(np.asarray(x[t]) for x in xs), *carried, *shared])
            carried = made[: len(carried)]
            for array, value in zip(given, made[len(carried) :], strict=True):
                array[t] = value
        return [*carried, *given]
