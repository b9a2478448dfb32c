"""A function as a program: what tracing it gives, and what a saved model is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from polyreme.ir.diagnostics import Location, PolyremeError
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType
from polyreme.jit.structure import Template
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.ir.builtin import Func, Module

__all__ = ["BackwardTraceError", "TraceError", "Traced", "UnknownSizeError"]


class TraceError(PolyremeError):
    """What a function does cannot be captured as a program; names the user's line and the way out."""

    code = "E0501"


class BackwardTraceError(TraceError):
    """What a function does to gradients cannot be captured, as it is with a hook that prints."""


class UnknownSizeError(TraceError):
    """A function wants to know a size that its inputs leave free. With numbers for `axes`, pairs of an input's number and an axis, it can
    be captured.
    """

    axes: tuple[tuple[int, int], ...] = ()

    @classmethod
    def about(cls, message: str, location: Location, axes: Sequence[tuple[int, int]]) -> UnknownSizeError:
        made = cls(message, location)
        made.axes = tuple(axes)
        return made


@dataclass
class Traced:
    """A function as a program.

    `func` takes the inputs, then the tensors that it reads from elsewhere, as `sources` says; it returns the outputs, then the new contents
    of the tensors in `written` (the random generator's state is one when numbers are drawn).
    """

    func: Func
    inputs: list[TensorType]
    sources: list[int | Tensor]  # of each argument: the number of an input, or a captured tensor
    outputs: Template
    output_count: int
    written: list[Tensor] = field(default_factory=list)
    decided: bool = False  # whether Python's code took branches by the sizes of a call, so that other sizes may be another program
    copies: tuple[int, ...] = ()  # numbers of ops of `func` that move nothing, and stand for copies all the same
    proceeds: int | None = None  # of a step of training: which output says whether it is taken, since all that it checks holds

    @property
    def captured(self) -> list[Tensor]:
        return [s for s in self.sources if isinstance(s, Tensor)]

    @property
    def captured_names(self) -> list[str]:
        """What the function calls them."""
        return [name for name, source in zip(self.func.arg_names, self.sources, strict=True) if isinstance(source, Tensor)]

    @property
    def input_names(self) -> list[str]:
        """What the function calls its inputs, in their order."""
        named = {s: name for name, s in zip(self.func.arg_names, self.sources, strict=True) if isinstance(s, int)}
        return [named[i] for i in range(len(self.inputs))]

    @property
    def output_names(self) -> list[str]:
        """What it calls its outputs."""
        return list(self.func.result_names[: self.output_count])

    def module(self) -> Module:
        """A module whose `main` is a copy of the function."""
        from polyreme.ir.builtin import Module

        module = Module.empty(loc=self.func.location)
        copy = self.func.clone()
        copy.attributes["sym_name"] = "main"
        module.block.append(copy)
        return module

    def frozen(self, contents: Sequence[Any] | None = None) -> Module:
        """As `module`, but captured tensors are constants with their present contents, or with these, so that only the inputs are
        arguments.

        A function that writes to tensors (drawing random numbers does) has no such form and is a `TraceError`.
        """
        if self.written:
            names = ", ".join(f"'{t.name}'" for t in self.written)
            raise TraceError(
                f"expected a function without state to compile ahead of time but it changes {names}; call eval() on the Layer first, and "
                f"hand in what it draws",
                self.func.location,
                code="E0504",
            )
        from polyreme.dialects import nn as ops
        from polyreme.ir.attributes import Dense
        from polyreme.ir.builder import Builder

        module = self.module()
        func = module.function()
        b = Builder(func.block, func.block.first, func.location)
        arrays = list(contents if contents is not None else [tensor._value for tensor in self.captured])
        for index in reversed(range(len(self.sources))):
            source = self.sources[index]
            if isinstance(source, Tensor):
                arg = func.args[index]
                constant = b.insert_op(ops.Constant(value=Dense.taking(arrays.pop()), loc=Location(name=arg.name)))
                constant.result.name = arg.name
                arg.replace_all_uses_with(constant.result)
                b.before = constant
                func.block.erase_arg(index)
        kept = [i for i, s in enumerate(self.sources) if not isinstance(s, Tensor)]
        for key in ("arg_names", "arg_roles"):
            func.attributes[key] = tuple(func.attributes[key][i] for i in kept)
        func.finish()
        return module
