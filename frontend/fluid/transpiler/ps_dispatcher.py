"""`fluid.transpiler.ps_dispatcher`: which server keeps which variable."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["HashName", "PSDispatcher", "RoundRobin"]


class PSDispatcher(Shown):
    """Deals variables to servers, which are named by their addresses. A subclass says how."""

    def __init__(self, pserver_endpoints: Sequence[str]):
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The addresses."""
        return self._eps

    def reset(self) -> None:
        """Begin with the first server again."""
        self._step = 0

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The address of the server of each variable."""
        raise NotImplementedError(f"expected one that says how variables are dealt, as RoundRobin does, but {type(self).__name__} does not")


class RoundRobin(PSDispatcher):
    """One server after the other, on from the last call."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        found = [self._eps[(self._step + i) % len(self._eps)] for i in range(len(varlist))]
        self._step = (self._step + len(varlist)) % len(self._eps)
        return found


class HashName(PSDispatcher):
    """By the variable's name, alike in all processes."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        return [self._eps[int(hashlib.md5(_name(v).encode()).hexdigest(), 16) % len(self._eps)] for v in varlist]


def _name(variable: Any) -> str:
    name = variable.name
    return str(name() if callable(name) else name)


__dir__ = listed(__name__)
