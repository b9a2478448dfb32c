"""What one piece of machine code is made of: a function of a kernel-level module with the kernels that it calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module
from polyreme.ir.diagnostics import PolyremeError

__all__ = ["Program", "has_prepare"]


class Program:
    """A function of a module at kernel level, and the kernels that it calls, directly or not: what machine code is made of. It goes by the
    name of `main`.

    The kernels are the module's own; emission reads them only. The function is a copy, which may be changed.
    """

    def __init__(self, main: Func, kernels: Sequence[Func]):
        self.functions = (main, *kernels)

    @staticmethod
    def of(module: Module, name: str = "main", leaves: Collection[Func] = ()) -> Program:
        """The program that starts at the function called `name`. `leaves` are kernels of which it is known that they call nobody."""
        start = module.function(name)
        main: Func = start.clone()
        main.attributes["sym_name"] = "main"
        return Program(main, _called(module, start, leaves))

    def function(self, name: str = "main") -> Func:
        """The function called `name`."""
        return next(f for f in self.functions if f.sym_name == name)


def has_prepare(module: Module) -> bool:
    """Whether weights are packed by a function of their own, `prepare`."""
    return any(func.sym_name == "prepare" for func in module.functions)


def _called(module: Module, caller: Func, leaves: Collection[Func]) -> list[Func]:
    """The functions that `caller` calls, directly or not."""
    functions = {func.sym_name: func for func in module.functions}
    found: dict[str, Func] = {}
    waiting = [caller]
    while waiting:
        for op in waiting.pop().walk():
            if isinstance(op, (kernel.Call, kernel.Launch)) and op.callee.name not in found:
                name = op.callee.name
                if name not in functions:
                    raise PolyremeError(f"'{op.name}' expected a function of the module but got {op.callee}", op.location, code="E0212")
                found[name] = functions[name]
                if functions[name] not in leaves:
                    waiting.append(functions[name])
    return [func for func in module.functions if func.sym_name in found]
