"""`memory_optimize` and `release_memory`.

Programs are compiled, and the compiler's own memory plan lets values share bytes when their lives do not overlap. What is left to change is
how long they live: `memory_optimize` lets a gradient be used up as soon as it is there, if the plan is smaller for it. `release_memory`
marks where lives end, and gives the working memory back after each run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from polyreme.fluid.framework import Operator, OpRole, Program
from polyreme.ir.builtin import Module
from polyreme.names import listed
from polyreme.static.concurrency.host_calls import has_channels
from polyreme.static.inference import appended
from polyreme.static.kinds import Host, gradient_of
from polyreme.static.parallel.compiled_program import CompiledProgram
from polyreme.static.plan import make_plan

__all__ = ["MemorySaving", "memory_optimize", "release_memory"]


@dataclass(frozen=True)
class MemorySaving:
    """How many bytes the intermediate values of a run take, took before, and would take if each had its own; free sizes count as 1."""

    shared: int
    before: int
    apart: int

    @property
    def saved(self) -> int:
        """What `memory_optimize` changed."""
        return self.before - self.shared

    def __str__(self) -> str:
        return (
            f"memory_optimize: {self.shared} bytes in place of {self.before}, and of {self.apart} if nothing were shared (free sizes as 1)"
        )


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
    """Let the values of `input_program` live shorter, in place, where that makes the memory of a run smaller; results stay as they are.

    Operators of the optimizer (clips and regularizers too) move to where their gradient is complete, but for those that read or write
    variables in `skip_opt_set`, given by themselves or their names. The program is planned for fetching these; both ways are, and the
    smaller one stays. `print_log` prints the figures, which are returned; None for a program that computes nothing.

    The plan shares memory between values of all sizes anyway, so that `level`, 0 or 1, only is checked, and that `skip_grads` says nothing.
    """
    program = _program(input_program)
    if level not in (0, 1):
        raise ValueError("only support opt_level 0 or 1.")
    block = program.global_block()
    skipped = _names(skip_opt_set)
    fetches = [name for name in sorted(skipped) if block.has_var(name)]
    found = _planned(program, fetches)
    if found is None:
        return None
    before, apart = found
    order = block.ops
    moved = _early(order, skipped) if not has_channels(program) else order
    shared = before
    if moved != order:
        block.ops = moved
        program.touch()
        found = _planned(program, fetches)
        if found is not None and found[0] < before:
            shared, apart = found
        else:
            block.ops = order
            program.touch()
    saving = MemorySaving(shared, before, apart)
    if print_log:
        print(saving)
    return saving


def _planned(program: Program, fetches: list[str]) -> tuple[int, int] | None:
    """The bytes of the arena of a run, and of all its buffers; None where nothing is computed."""
    from polyreme.compiled.inspection import inspect

    block = program.global_block()
    plan = make_plan(program, {v.name: v.type for v in block.vars.values() if v.is_data}, fetches)
    if plan.module is None:
        return None
    arena = apart = 0
    for part in _compiled_parts(plan.module):
        memory = inspect(part).memory
        sizes = memory.at(dict.fromkeys(memory.symbols, 1))
        arena += sizes.arena_bytes
        apart += sum(int(buffer.bytes) for buffer in sizes.buffers)
    return arena, apart


def _compiled_parts(module: Module) -> list[Module]:
    """The module, or what is compiled of it between operators of the host."""
    from polyreme.compiled.executables import scheduled
    from polyreme.lowering.schedule.regions import has_host_ops

    if not has_host_ops(module.function()):
        return [module]
    parts = []
    for function in scheduled(module).functions:
        if function.sym_name != "main":
            alone = Module.empty()
            copy = function.clone()
            copy.attributes["sym_name"] = "main"
            alone.block.append(copy)
            parts.append(alone)
    return parts


def _early(ops: list[Operator], skipped: set[str]) -> list[Operator]:
    """The operators with those of the optimizer as early as what they read and write lets them be."""
    needed = _dependencies(ops)
    waiting = [i for i, op in enumerate(ops) if _may_move(op, skipped)]
    movable = set(waiting)
    done: set[int] = set()
    order: list[Operator] = []
    for i, op in enumerate(ops):
        if i not in movable:
            order.append(op)
            done.add(i)
        # In their order, so that one pass is enough: an operator needs earlier ones only.
        for k in list(waiting):
            if needed[k] <= done:
                order.append(ops[k])
                done.add(k)
                waiting.remove(k)
    return order


def _may_move(op: Operator, skipped: set[str]) -> bool:
    # Draws keep their order.
    draws = "random" in op.type or op.type == "dpsgd"
    names = {*op.read_names(), *op.written_names()}
    fixed = draws or isinstance(op.kind, Host) or op.has_attr("sub_block") or names & skipped
    return bool(op.attr("op_role") & OpRole.Optimize) and not fixed


def _dependencies(ops: list[Operator]) -> list[set[int]]:
    """Which operators have to come before each: who writes what it reads, and who reads or writes what it writes over."""
    writer: dict[str, int] = {}
    readers: dict[str, set[int]] = {}
    needed: list[set[int]] = []
    number_of: dict[int, int] = {}
    for i, op in enumerate(ops):
        reads, writes = op.read_names(), op.written_names()
        mine = {writer[name] for name in (*reads, *writes) if name in writer}
        for name in writes:
            mine |= readers.get(name, set())
        forward = gradient_of(op)
        if forward in number_of:
            mine.add(number_of[forward])
        needed.append(mine - {i})
        number_of[op.uid] = i
        for name in writes:
            writer[name], readers[name] = i, set()
        for name in reads:
            readers.setdefault(name, set()).add(i)
    return needed


def release_memory(input_program: Any, skip_opt_set: Iterable[Any] | None = None) -> None:
    """Insert an operator `delete_var` behind the last use of each variable of the first block, in place: not for inputs, persistable
    variables, those in `skip_opt_set`, and what blocks of operators may still use. A program with such operators gives its working memory
    back after each run, and takes it anew for the next.
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
