"""Programs that are partly compiled: what runs on the host, such as a collective call, and between those the regions that become machine code.

The module that `split_regions` makes says what will run and in which order: its `main` calls one function per region, and has the host's ops between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme.ir.attributes import SymbolRef
from polyreme.ir.builtin import Call, Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.define import ConstantLike
from polyreme.ir.types import PendingType, type_symbols
from polyreme.lowering.autodiff import bound_symbols, op_symbols

__all__ = ["HOST_DIALECTS", "has_host_ops", "is_host_op", "split_regions"]

# Their ops are no part of compiled code.
HOST_DIALECTS = frozenset({"dist"})


def is_host_op(op: Op) -> bool:
    """Whether the op runs on the host, by its own meaning."""
    return op.dialect in HOST_DIALECTS


def has_host_ops(func: Func) -> bool:
    """Whether the function has to be split before it can be compiled."""
    return any(is_host_op(op) for op in func.block)


def split_regions(func: Func, hosted: Callable[[Op], bool] = is_host_op) -> Module:
    """A module whose `main` is `func`, every run of ops between the host's moved into a function `region_0`, `region_1`, … of its own.

    Constants are made where they are used; what one region makes and a later one needs is passed on. `func` stays as it is.
    """
    module = Module.empty(loc=func.location)
    main: Func = func.clone()
    main.attributes["sym_name"] = "main"
    module.block.append(main)
    position = {op: i for i, op in enumerate(main.block)}
    for number, run in enumerate(_runs(main, hosted)):
        _outline(module, main, run, f"region_{number}", position)
    for op in reversed(main.block):
        if op.has(ConstantLike) and not op.is_used:
            op.erase()
    return module


def _runs(main: Func, hosted: Callable[[Op], bool]) -> list[list[Op]]:
    """The ops to compile, as they stand between the host's. Constants alone are no reason for a region."""
    runs: list[list[Op]] = [[]]
    constants: list[Op] = []
    for op in main.block:
        if op.has(ConstantLike) and not hosted(op):
            constants.append(op)
        elif hosted(op) or isinstance(op, Return):
            runs.append([])
        else:
            runs[-1].append(op)
    runs = [run for run in runs if run]
    # Constants that the host sends or returns as they are get a region of their own.
    bare = [op for op in constants if any(hosted(use.op) or isinstance(use.op, Return) for use in op.result.uses)]
    return [bare, *runs] if bare else runs


def _outline(module: Module, main: Func, run: Sequence[Op], name: str, position: dict[Op, int]) -> None:
    """Replace the ops of `run` by a call of a new function of them."""
    inside = set(run)
    used = dict.fromkeys(v for op in run for inner in op.walk() for v in inner.operands if not _defined_in(v, inside))
    constants = [v for v in used if isinstance(v.owner, Op) and v.owner.has(ConstantLike)]
    inputs = [v for v in used if v not in constants]
    outputs = [r for op in run for r in op.results if any(_top(use.op, main) not in inside for use in r.uses)]
    # Sizes that only other values tell.
    mentioned = frozenset().union(*(op_symbols(inner) for op in run for inner in op.walk()), *(op_symbols(v.owner) for v in constants))  # type: ignore[arg-type]
    missing = (mentioned | frozenset().union(*(type_symbols(v.type) for v in inputs))) - bound_symbols(inputs)
    for arg in main.args:
        if arg not in inputs and bound_symbols([arg]) & missing:
            inputs.append(arg)
            missing -= bound_symbols([arg])
    first = min(run, key=position.__getitem__)
    made = Func.empty(name, [v.type for v in inputs], (), _names(inputs), loc=first.location, arg_roles=("input",) * len(inputs))
    mapping: dict[Value, Value] = dict(zip(inputs, made.args, strict=True))
    for value in constants:
        made.block.append(value.owner.clone(mapping))  # type: ignore[union-attr]
    for op in run:
        made.block.append(op.clone(mapping))
    made.block.append(Return([mapping[v] for v in outputs]))
    module.block.append(made.finish())
    call = Call.build(inputs, {"callee": SymbolRef(name)}, (), [v.type for v in outputs], first.location, (len(inputs),))
    # A run of constants may stand far before its first use, and others may stand between.
    main.block.insert(call, first if not first.has(ConstantLike) else _first_user(main, outputs))
    for old, new in zip(outputs, call.results, strict=True):
        new.name = old.name
        old.replace_all_uses_with(new)
    for op in reversed(run):
        op.erase()


def _first_user(main: Func, values: Sequence[Value]) -> Op:
    users = {_top(use.op, main) for v in values for use in v.uses}
    return next(op for op in main.block if op in users)


def _defined_in(value: Value, ops: set[Op]) -> bool:
    """Whether a value is made by one of the ops, or in a region of one."""
    at = value.owner if isinstance(value.owner, Op) else value.owner.parent_op
    while at is not None:
        if at in ops:
            return True
        at = at.parent_op
    return False


def _top(op: Op, main: Func) -> Op:
    """The op of `main`'s own block that `op` is, or is in."""
    while op.parent is not main.block:
        parent = op.parent_op
        assert parent is not None
        op = parent
    return op


def _names(values: Sequence[Value]) -> list[str]:
    seen: dict[str, int] = {}
    names = []
    for i, value in enumerate(values):
        assert not isinstance(value.type, PendingType)
        name = value.name or f"arg_{i}"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names
