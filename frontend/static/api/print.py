"""`Print`: a step of a program that says what passes it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from polyreme.ir.python.records import dataclass
from polyreme.static.bodies import check_takes_operators
from polyreme.static.current import default_main_program
from polyreme.static.kinds import HOST, Arrays, Host, OperatorKind
from polyreme.static.operator import Operator
from polyreme.static.recorder import temporary, variable_of
from polyreme.static.variable import GRAD, named_variable
from polyreme.tensor import Tensor

__all__ = ["Print"]


def Print(  # noqa: N802 - Paddle's name
    input: Tensor,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Tensor:
    """`input` as it is; whenever it passes in a run, its values, and what of it the options ask for, are written to the standard output.

    `first_n` limits how often (-1: always), `summarize` how many elements (-1: all). `print_phase` is "forward", "backward" (the gradient
    that comes back is shown) or "both".
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"The type of 'input' in Print must be Tensor, but received {type(input)}.")
    phase = print_phase.lower()
    if phase not in ("forward", "backward", "both"):
        raise ValueError(f"print_phase should be forward, backward or both but got {print_phase!r}")
    asked = {
        "name": print_tensor_name, "lod": print_tensor_lod, "place": True, "shape": print_tensor_shape, "layout": print_tensor_layout,
        "dtype": print_tensor_type,
    }  # fmt: skip
    shown = tuple(key for key, wanted in asked.items() if wanted)
    check_takes_operators("Print()")
    if named_variable(input) is None:
        if phase != "backward":
            _Printer("", message or "", first_n, summarize, shown)([input.numpy()], input.name)
        return input
    block = default_main_program().current_block()
    variable = variable_of(input, block)
    result = temporary(block, "print", variable.type)
    result.lod_level = variable.lod_level
    result.stop_gradient = variable.stop_gradient
    forward = _Printer("" if phase != "backward" else None, message or "", first_n, summarize, shown)
    backward = _Printer(GRAD if phase != "forward" else None, message or "", first_n, summarize, shown)
    attrs = {"first_n": first_n, "message": message or "", "summarize": summarize, "print_phase": phase.upper()}
    block.add_operator("print", PRINT, {"In": [variable.name]}, {"Out": [result.name]}, attrs, _Call(forward, backward))
    return result


@dataclass(frozen=True)
class _Call:
    """The host function of a `print`."""

    forward: _Printer
    backward: _Printer

    def __call__(self, op: Operator, inputs: Arrays) -> Arrays:
        return {"Out": self.forward(inputs["In"], op.inputs["In"][0])}


@dataclass(frozen=True)
class _Gradient:
    """The host function of its gradient, which is what comes in."""

    uid: int
    printer: _Printer

    def __call__(self, op: Operator, inputs: Arrays) -> Arrays:
        return {"In" + GRAD: self.printer(inputs["Out" + GRAD], op.inputs["In"][0])}


class PrintKind(Host):
    """The kind of `print`; `data` is a `_Call`."""

    def differentiable(self, op: Operator) -> bool:
        return True

    def gradient(self, op: Operator, wrt: tuple[tuple[str, int], ...], seeds: tuple[tuple[str, int], ...]) -> tuple[OperatorKind, Any]:
        return HOST, _Gradient(op.uid, op.data.backward)


PRINT = PrintKind()


class _Printer:
    """Shows an array and hands it on. `suffix` goes behind the variable's name; None shows nothing."""

    def __init__(self, suffix: str | None, message: str, first_n: int, summarize: int, shown: tuple[str, ...]):
        self.suffix, self.message, self.first_n, self.summarize, self.shown = suffix, message, first_n, summarize, shown
        self.times = 0

    def __call__(self, arrays: list[np.ndarray[Any, Any]], name: str) -> list[np.ndarray[Any, Any]]:
        if self.suffix is not None and (self.first_n < 0 or self.times < self.first_n):
            self.times += 1
            for array in arrays:
                sys.stdout.write(self._text(array, name + self.suffix))
            sys.stdout.flush()
        return arrays

    def _text(self, array: np.ndarray[Any, Any], name: str) -> str:
        facts = {
            "lod": "{}", "place": "Place(cpu)", "shape": str(list(array.shape)), "layout": "NCHW", "dtype": str(array.dtype),
        }  # fmt: skip
        lines = [f"Variable: {name}"] if "name" in self.shown else []
        lines += [f"  - message: {self.message}"] if self.message else []
        lines += [f"  - {key}: {value}" for key, value in facts.items() if key in self.shown]
        flat = array.reshape(-1)
        flat = flat if self.summarize < 0 else flat[: self.summarize]
        wide = flat.astype(np.float32) if flat.dtype.kind == "V" else flat
        values = " ".join(f"{v:f}" if wide.dtype.kind == "f" else str(int(v)) if wide.dtype.kind in "iub" else str(v) for v in wide)
        return "\n".join([*lines, f"  - data: [{values}]"]) + "\n"
