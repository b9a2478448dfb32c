"""Names of what a function takes and returns: the user's, completed where there are none and told apart where they are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from polyreme.ir.builtin import Func
from polyreme.ir.core import Value


def argument_names(func: Func) -> list[str]:
    """The names of the function's arguments."""
    return distinct(n or v.name or f"arg{i}" for i, (n, v) in enumerate(_named(func.args, func.arg_names)))


def result_names(func: Func, taken: Collection[str]) -> list[str]:
    """The names of what the function returns, also told apart from those that are taken."""
    returned = func.block.terminator.operands
    return distinct((n or v.name or f"out{i}" for i, (n, v) in enumerate(_named(returned, func.result_names))), taken, "out_")


def distinct(names: Iterable[str], taken: Collection[str] = (), prefix: str = "") -> list[str]:
    """The names, told apart from each other and from those that are taken; what is not a name of its own gets the prefix first."""
    used = set(taken)
    result = []
    for name in names:
        result.append(free_name(name if name not in used else prefix + name, used))
        used.add(result[-1])
    return result


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if it is taken."""
    found, k = name, 2
    while found in taken:
        found, k = f"{name}_{k}", k + 1
    return found


def _named(values: Sequence[Value], names: Sequence[str]) -> list[tuple[str, Value]]:
    return [(names[i] if i < len(names) else "", v) for i, v in enumerate(values)]
