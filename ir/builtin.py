"""The ops that the core itself knows: module, function, return, call. Their names are MLIR's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from polyreme.ir.attributes import SymbolRef
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.define import IsolatedFromAbove, Terminator, attr, op, region, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, PolyremeError, did_you_mean
from polyreme.ir.types import FunctionType, Type


@op("builtin.module", IsolatedFromAbove)
class Module(Op):
    """A program: functions by name, of which `main` is the one to run.

        module {
          func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            return %x
          }
        }

    Its body holds functions only, each name once. It has no operands and no results; a name of its own, `sym_name`, is optional.
    """

    sym_name = attr(str, default=None)
    body = region()

    @staticmethod
    def infer(*, sym_name: str | None, body: Region) -> None:
        return None

    @staticmethod
    def empty(name: str | None = None, loc: Location = UNKNOWN) -> Module:
        """A module without functions."""
        return Module(sym_name=name, body=Region(Block()), loc=loc)

    @property
    def functions(self) -> Iterator[Func]:
        return (f for f in self.block if isinstance(f, Func))

    def function(self, name: str = "main") -> Func:
        """The function called `name`; an unknown name is an error with the nearest known one."""
        found = {f.sym_name: f for f in self.functions}
        if name not in found:
            raise PolyremeError(
                f"expected a function '@{name}' in the module but it has {', '.join(found) or 'none'}{did_you_mean(name, found)}",
                code="E0212",
            )
        return found[name]


# Roles of arguments that a function at kernel level writes its results into.
RESULT_ROLES = ("output", "looks")


@op("func.func", IsolatedFromAbove)
class Func(Op):
    """A function: its block's arguments are its parameters, `return` passes its results.

        func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = nn.add %x, %x : tensor<4xf32>
          return %y
        }

    `arg_names` and `result_names` are the user's names; `arg_roles` says what each argument is: "input", "param" (a weight), "packed" (a
    weight as kernels want it), "constant", "state", "output" or "looks". `sym_name` is what calls name it by, `function_type` the types of
    arguments and results, which the block's arguments and `return` must have. `guards` are what the function needs of its arguments' sizes,
    as `ir/sizes/facts.py` has them, `ranges` what it needs of their elements (`ir/sizes/ranges.py`). The last result of one with `looks`
    has the least and the greatest of positions and the size of their axis, three numbers for each look: "wraps at PLACE" or "from 0 at
    PLACE". `updates` says which results take the place of which arguments: "ARGUMENT -> RESULT", by their names; whoever calls may give one
    memory for both, and nothing of it is changed where the first element of the result called `proceeds`, if that is said, is false. A
    `main` that is for `many` runs on a GPU for several sets of arguments at once. A
    kernel has `final_addresses` when its builder has chosen how each address is computed: machine code is made of them as they
    are.
    """

    sym_name = attr(str)
    function_type = attr(FunctionType)
    arg_names = attr(tuple[str, ...], default=())
    result_names = attr(tuple[str, ...], default=())
    arg_roles = attr(tuple[str, ...], default=())
    guards = attr(tuple[str, ...], default=())
    ranges = attr(tuple[str, ...], default=())
    looks = attr(tuple[str, ...], default=())
    updates = attr(tuple[str, ...], default=())
    proceeds = attr(str, default="")
    many = attr(bool, default=None)
    final_addresses = attr(bool, default=None)
    body = region()

    @staticmethod
    def infer(**_: Any) -> None:
        return None

    @staticmethod
    def empty(
        name: str,
        inputs: Sequence[Type],
        results: Sequence[Type] = (),
        arg_names: Sequence[str] = (),
        loc: Location = UNKNOWN,
        **attributes: Any,
    ) -> Func:
        """A function with an empty block. `finish` sets the result types from the `return` once it is there."""
        body = Region(Block(inputs, arg_names))
        kind = FunctionType(tuple(inputs), tuple(results))
        return Func(sym_name=name, function_type=kind, arg_names=tuple(arg_names), body=body, loc=loc, **attributes)

    @property
    def args(self) -> list[Any]:
        return self.block.args

    def finish(self) -> Func:
        """Bring `function_type` in line with the block's arguments and the terminator's operands."""
        inputs = tuple(a.type for a in self.args)
        results = tuple(v.type for v in self.block.terminator.operands)
        self.attributes["function_type"] = FunctionType(inputs, results)
        return self


@op("func.return", Terminator)
class Return(Op):
    """Ends a function with its results.

        func @swap(%x: tensor<4xf32>, %y: tensor<2xi64>) -> (tensor<2xi64>, tensor<4xf32>) {
          return %y, %x
        }

    The values have the result types of the function, in their order. Every function ends with one, also without results.
    """

    values = variadic()

    @staticmethod
    def infer(values: Sequence[Type]) -> None:
        return None

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return ()


@op("func.call")
class Call(Op):
    """Calls the function `callee` of the same module.

        func @same(%x: tensor<4xf32>) -> tensor<4xf32> {
          return %x
        }
        func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = func.call %x {callee = @same} : tensor<4xf32>
          return %y
        }

    Operands and results have the types of the function's arguments and results. The function's sizes have names of their own: each
    stands for one size of the caller, the same wherever it occurs. Calls may be nested up to 64 deep on numpy.
    """

    args = variadic()
    callee = attr(SymbolRef)
