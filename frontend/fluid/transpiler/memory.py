"""`memory_optimize` and `release_memory`.

Programs are compiled, and the compiler's own memory plan lets values share bytes when their lives do not overlap. So `memory_optimize` has
no names to change: it says how much the plan saves. `release_memory` marks where lives end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from polyreme.fluid.framework import Program
from polyreme.names import listed
from polyreme.static.inference import appended
from polyreme.static.parallel.compiled_program import CompiledProgram

__all__ = ["MemorySaving", "memory_optimize", "release_memory"]


@dataclass(frozen=True)
class MemorySaving:
    """How many bytes the intermediate values of a run take, and would take if each had its own; free sizes count as 1."""

    shared: int
    apart: int

    @property
    def saved(self) -> int:
        """The difference."""
        return self.apart - self.shared

    def __str__(self) -> str:
        share = f", {100 * self.saved / self.apart:.0f} % less" if self.apart else ""
        return f"memory_optimize: {self.shared} bytes in place of {self.apart}{share} (free sizes as 1)"


def _program(program: Any) -> Program:
    if isinstance(program, CompiledProgram):
        return program.program
    if not isinstance(program, Program):
        raise TypeError(f"expected a Program but got {type(program).__name__}")
    return program


def _names(given: Iterable[Any] | None) -> set[str]:
    return {v if isinstance(v, str) else v.name for v in given or ()}


def memory_optimize(
    input_program: Any, skip_opt_set: Iterable[Any] | None = None, print_log: bool = False, level: int = 0, skip_grads: bool = True
) -> MemorySaving | None:
    """Say how much memory the values of `input_program` save by sharing bytes; results stay as they are.

    With `print_log` the program is compiled for the variables in `skip_opt_set` (those that will be fetched, by themselves or their names;
    without any, for what it writes to its persistable variables), and the figures are printed and returned.
    """
    program = _program(input_program)
    if level not in (0, 1):
        raise ValueError("only support opt_level 0 or 1.")
    if not print_log:
        return None
    from polyreme.compiled.inspection import inspect

    fetches = [name for name in sorted(_names(skip_opt_set)) if program.global_block().has_var(name)]
    plan = inspect(program.module(fetches)).memory
    sizes = plan.at(dict.fromkeys(plan.symbols, 1))
    found = MemorySaving(sizes.arena_bytes, sum(int(buffer.bytes) for buffer in sizes.buffers))
    print(found)
    return found


def release_memory(input_program: Any, skip_opt_set: Iterable[Any] | None = None) -> None:
    """Insert an operator `delete_var` behind the last use of each variable of the first block, in place: not for inputs, persistable
    variables, those in `skip_opt_set`, and what blocks of operators may still use.
    """
    program = _program(input_program)
    block = program.global_block()
    kept = _names(skip_opt_set)
    for inner in program.blocks[1:]:
        kept |= {name for op in inner.ops for name in (*op.input_arg_names, *op.output_arg_names)}
    last: dict[str, int] = {}
    for i, op in enumerate(block.ops):
        last |= dict.fromkeys((*op.input_arg_names, *op.output_arg_names), i)
    ends: dict[int, list[str]] = {}
    for name, i in last.items():
        variable = block._find_var_recursive(name)
        if variable is not None and not variable.persistable and not variable.is_data and name not in kept and variable.has_shape:
            ends.setdefault(i, []).append(name)
    for i in sorted(ends, reverse=True):
        block.place(appended(block, "delete_var", {"X": sorted(ends[i])}, {}, {}), i + 1)


__dir__ = listed(__name__)
