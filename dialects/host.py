"""The `host` dialect: what a program asks of the Python process that runs it.

A call has a number. Which function that is says a table, which belongs to whoever runs the program: `load_schedule` takes one, and for the evaluator
`with_functions` sets one. So text never names code to run, and a module that is read back runs only with the functions that its reader gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from polyreme.dialects.arrays import Array
from polyreme.ir.core import Op
from polyreme.ir.define import BindsSizes, attr, op, variadic
from polyreme.ir.evaluate import EvaluateError

__all__ = ["NO_FUNCTIONS", "Call", "Functions", "function_of", "with_functions"]

Functions = Mapping[int, Callable[[list[Array]], Sequence[Array]]]

NO_FUNCTIONS: Functions = MappingProxyType({})
_functions: ContextVar[Functions] = ContextVar("functions", default=NO_FUNCTIONS)


@contextmanager
def with_functions(functions: Functions) -> Iterator[None]:
    """Evaluate calls with this table inside the `with`, in this thread."""
    token = _functions.set(functions)
    try:
        yield
    finally:
        _functions.reset(token)


@op("host.call", BindsSizes)
class Call(Op):
    """Calls the host's function number `id` with a list of arrays; it gives an array per result. `function` is what the user calls it.

    It may have effects, so that every call stays, in its order. Sizes of its results that no argument of the function has are known once it has run.

        %kept = host.call %x {id = 0, function = "drop_empty_rows"} : tensor<Kx3xf32>      // %x: tensor<Nx3xf32>
    """

    xs = variadic()
    id = attr(int)
    function = attr(str)

    def evaluate(self, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
        return function_of(self, _functions.get())(list(args))


def function_of(call: Call, functions: Functions) -> Callable[[list[Array]], Sequence[Array]]:
    """What `call` calls, by the table of whoever runs it."""
    if call.id not in functions:
        raise EvaluateError(f"expected a function number {call.id} ('{call.function}') for 'host.call' but got {_numbers(functions)}", call.location)
    return functions[call.id]


def _numbers(functions: Functions) -> str:
    return f"only the numbers {', '.join(map(str, sorted(functions)))}" if functions else "no functions"
