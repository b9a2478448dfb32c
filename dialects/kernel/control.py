"""Control: loops, branches, parallel iterations and calls of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.kernel.common import check_index, flat_operands
from polyreme.ir.attributes import SymbolRef
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import Terminator, attr, op, operand, region, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, check, check_attr, check_type
from polyreme.ir.evaluate import Returned
from polyreme.ir.types import BufferType, Type, i1, index


@op("kernel.yield", Terminator)
class Yield(Op):
    """Ends the body of a loop or branch with the values that it passes on.

        %larger = kernel.if %condition : f32 {      // %condition: i1, %a: f32, %b: f32
          kernel.yield %a
        } {
          kernel.yield %b
        }

    For a loop they are the next carried values, for a branch the results, of their types and in their order.
    """

    values = variadic()

    def __init__(self, *values: Any, loc: Location = UNKNOWN):
        super().__init__(flat_operands(values), loc=loc)

    @staticmethod
    def infer(values: Sequence[Type]) -> None:
        return None

    @staticmethod
    def reference(values: Sequence[Any]) -> tuple[Any, ...]:
        return ()


def _check_yield(body: Region, types: Sequence[Type], what: str) -> None:
    """A body under construction has no terminator yet; the verifier infers again when it is whole."""
    last = body.block.last
    if isinstance(last, Yield):
        got = [v.type for v in last.operands]
        check(
            got == list(types),
            f"expected {what} to yield ({', '.join(map(str, types))}) but got ({', '.join(map(str, got))})",
            code="E0305",
        )


@op("kernel.for")
class For(Op):
    """Runs the body for iv = lo, lo + step, … below `hi`, one after the other.

        // %lo: index, %hi: index, %buffer: buffer<64xf32>
        %sum = kernel.for %lo, %hi, %zero {step = 16} : vector<16xf32> { (%i: index, %acc: vector<16xf32>)
          %x = kernel.load %buffer, %i {lanes = 16} : vector<16xf32>
          %next = kernel.apply %acc, %x {fn = "add"} : vector<16xf32>
          kernel.yield %next
        }

    The body's block gets `iv`, an index, and the carried values, and yields their next ones; the results are the last ones, or `inits`
    where there is no iteration. `step` is at least 1.
    """

    lo = operand()
    hi = operand()
    inits = variadic()
    step = attr(int, default=1)
    body = region()

    @classmethod
    def empty(
        cls,
        lo: Value,
        hi: Value,
        inits: Sequence[Value] = (),
        step: int = 1,
        name: str = "i",
        carried: Sequence[str] = (),
        loc: Location = UNKNOWN,
    ) -> For:
        """A loop whose body has its arguments but no ops yet: append them, and a `Yield`, to `op.block`. `name` and `carried` name the
        arguments.
        """
        block = Block([index, *(v.type for v in inits)], [name, *carried])
        return cls(lo, hi, tuple(inits), step=step, body=Region(block), loc=loc)

    @staticmethod
    def infer(lo: Type, hi: Type, inits: Sequence[Type], *, step: int, body: Region) -> tuple[Type, ...]:
        check_index(lo, "the lower bound")
        check_index(hi, "the upper bound")
        check_attr(step >= 1, f"expected a positive 'step' but got {step}")
        got = [a.type for a in body.block.args]
        check(
            got == [index, *inits],
            f"expected a body with arguments (index{''.join(f', {t}' for t in inits)}) but got ({', '.join(map(str, got))})",
            code="E0305",
        )
        _check_yield(body, inits, "the body")
        return tuple(inits)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        lo, hi, *carried = args
        for iv in range(int(lo), int(hi), self.step):
            carried = list(run_region(self.body, [np.int64(iv), *carried]))
        return carried


@op("kernel.parallel")
class Parallel(Op):
    """Runs the body for iv = 0 … count - 1 in any order and at the same time; a thread takes at least `grain` of them at once.

    No iteration may write what another one reads or writes. On numpy they run backwards, so that a dependence shows.

        kernel.parallel %rows {grain = 4} { (%i: index)      // %rows: index
          kernel.yield
        }
    """

    count = operand()
    grain = attr(int, default=1)
    body = region()

    @classmethod
    def empty(cls, count: Value, grain: int = 1, name: str = "i", loc: Location = UNKNOWN) -> Parallel:
        """A loop whose body has its argument but no ops yet: append them, and a `Yield`, to `op.block`."""
        return cls(count, grain=grain, body=Region(Block([index], [name])), loc=loc)

    @staticmethod
    def infer(count: Type, *, grain: int, body: Region) -> None:
        check_index(count, "the count")
        check_attr(grain >= 1, f"expected a positive 'grain' but got {grain}")
        check([a.type for a in body.block.args] == [index], "expected a body with one argument, an index", code="E0305")
        _check_yield(body, (), "the body")

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        for iv in reversed(range(int(args[0]))):
            run_region(self.body, [np.int64(iv)])
        return ()


@op("kernel.threads")
class Threads(Op):
    """How many threads may take iterations of a `kernel.parallel`: at least 1.

        %n = kernel.threads : index

    For cutting work into as many pieces, each of which then mostly stays with one thread and its cache. What is computed must not depend on
    it. On numpy it is 3.
    """

    @staticmethod
    def infer() -> Type:
        return index

    @staticmethod
    def reference() -> np.int64:
        return np.int64(3)


@op("kernel.alternate")
class Alternate(Op):
    """False and true in turns, from one call of a kernel to the next.

        %backward = kernel.alternate : i1

    For going through memory the other way around than the call before, whose last part is still in the cache. What is computed must not
    depend on it: calls at the same time may get the same. On numpy it is true.
    """

    @staticmethod
    def infer() -> Type:
        return i1

    @staticmethod
    def reference() -> np.bool_:
        return np.True_


@op("kernel.if")
class If(Op):
    """Runs one of two bodies and gives what it yields.

        %r = kernel.if %condition : f32 {      // %condition: i1
          kernel.yield %a
        } {
          kernel.yield %b
        }

    The condition is an i1. Both bodies take nothing, end with `kernel.yield`, and yield values of the same types.
    """

    condition = operand()
    then_body = region()
    else_body = region()

    @classmethod
    def empty(cls, condition: Value, result_types: Sequence[Type] = (), loc: Location = UNKNOWN) -> If:
        """A branch whose bodies have no ops yet: append them, and a `Yield`, to the blocks of `then_body` and `else_body`."""
        return cls.build([condition], {}, [Region(Block()), Region(Block())], result_types, loc)

    @staticmethod
    def infer(condition: Type, *, then_body: Region, else_body: Region) -> tuple[Type, ...]:
        check_type(condition == i1, f"expected an i1 as the condition but got {condition}")
        check(not then_body.block.args and not else_body.block.args, "expected bodies without arguments", code="E0305")
        last = then_body.block.last
        check(isinstance(last, Yield), "expected the first body to end with 'kernel.yield'", code="E0305")
        assert last is not None
        types = tuple(v.type for v in last.operands)
        _check_yield(else_body, types, "the second body")
        return types

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        results: Sequence[Any] = run_region(self.then_body if args[0] else self.else_body, [])
        return results


@op("kernel.return_unless")
class ReturnUnless(Op):
    """Ends the function if the condition does not hold: nothing after this op is run.

        func @halve(%goes_on: buffer<1xi1>, %x: buffer<1xf32>) {
          %zero = kernel.constant {value = 0, dtype = index} : index
          %condition = kernel.load %goes_on, %zero : i1
          kernel.return_unless %condition
          %half = kernel.constant {value = 0.5, dtype = f32} : f32
          kernel.store %half, %x, %zero
          return
        }

    The condition is an i1. The op stands in the block of a function that the host runs, not in a loop or branch.
    """

    condition = operand()

    @staticmethod
    def infer(condition: Type) -> None:
        check_type(condition == i1, f"expected an i1 as the condition but got {condition}")

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        if not args[0]:
            raise Returned
        return []


@op("kernel.while")
class While(Op):
    """As long as what the first body yields is true, runs the second one, which yields the carried values of the next round.

        // %limit: index, %buffer: buffer<64xi1>
        %rounds = kernel.while %zero : index { (%i: index)
          %again = kernel.load %buffer, %i : i1
          kernel.yield %again
        } { (%i: index)
          %next = kernel.apply %i, %limit {fn = "add"} : index
          kernel.yield %next
        }

    Both bodies take the carried values; the results are those for which the condition, an i1, did not hold.
    """

    inits = variadic()
    condition = region()
    body = region()

    @classmethod
    def empty(cls, inits: Sequence[Value], names: Sequence[str] = (), loc: Location = UNKNOWN) -> While:
        """A loop whose bodies have their arguments but no ops yet: append them, and a `Yield`, to the blocks of `condition` and `body`."""
        types = [v.type for v in inits]
        return cls.build(inits, {}, [Region(Block(types, names)), Region(Block(types, names))], types, loc, (len(types),))

    @staticmethod
    def infer(inits: Sequence[Type], *, condition: Region, body: Region) -> tuple[Type, ...]:
        for what, inside in (("the condition", condition), ("the body", body)):
            got = [a.type for a in inside.block.args]
            check(
                got == list(inits),
                f"expected {what} to have arguments ({', '.join(map(str, inits))}) but got ({', '.join(map(str, got))})",
                code="E0305",
            )
        _check_yield(condition, (i1,), "the condition")
        _check_yield(body, inits, "the body")
        return tuple(inits)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        carried = list(args)
        while run_region(self.condition, carried)[0]:
            carried = list(run_region(self.body, carried))
        return carried


@op("kernel.call")
class Call(Op):
    """Runs the kernel `callee` of the same module on buffers and index values.

        func @nothing(%x: buffer<8xf32>, %n: index) {
          return
        }
        func @main(%x: buffer<8xf32>) {
          %n = kernel.size {value = 8} : index
          kernel.call %x, %n {callee = @nothing}
          return
        }

    Operands are of the types of the kernel's arguments; what it computes it writes into buffers. Kernels never call themselves, directly or
    not.
    """

    args = variadic()
    callee = attr(SymbolRef)

    def __init__(self, *args: Any, callee: SymbolRef | str, loc: Location = UNKNOWN):
        super().__init__(flat_operands(args), callee=callee, loc=loc)

    @staticmethod
    def infer(args: Sequence[Type], *, callee: SymbolRef) -> None:
        for type in args:
            check_type(isinstance(type, BufferType) or type == index, f"expected buffers and index values but got {type}")
