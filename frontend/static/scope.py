"""Scopes: where the values of persistable variables live between runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme.static.lod.tensor import LoDTensor, LoDTensorArray
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["Scope", "ScopeTensor", "ScopeVariable", "global_scope", "scope_guard"]

Array = np.ndarray[Any, Any]


class ScopeTensor(LoDTensor):
    """The value of a variable in a scope, to read as an array and to set."""

    def __init__(self, variable: ScopeVariable):
        super().__init__()
        self._variable = variable
        self._lod = variable.lod

    def _put(self, array: Array) -> None:
        self._variable.array = array

    def _get(self) -> Array | None:
        return self._variable.array

    def _array(self) -> Array:
        if self._variable.array is None:
            raise ValueError(f"expected a value of '{self._variable.name}' in the scope but it has none")
        return self._variable.array

    def set_lod(self, lod: Any) -> None:
        super().set_lod(lod)
        self._variable.lod = self._lod

    def set_recursive_sequence_lengths(self, recursive_sequence_lengths: Any) -> None:
        super().set_recursive_sequence_lengths(recursive_sequence_lengths)
        self._variable.lod = self._lod


class ScopeVariable(Shown):
    """A name in a scope, with its array, or None before anything wrote one."""

    def __init__(self, name: str):
        self.name = name
        self.array: Array | None = None
        self.lod: list[list[int]] = []
        self.tensors: LoDTensorArray | None = None

    def get_tensor(self) -> ScopeTensor:
        return ScopeTensor(self)

    def get_lod_tensor_array(self) -> LoDTensorArray:
        """The list of tensors that the variable is, made when it is none yet."""
        if self.tensors is None:
            self.tensors = LoDTensorArray()
        return self.tensors

    def is_initialized(self) -> bool:
        return self.array is not None


class Scope(Shown):
    """Variables by name. A child sees its parents' variables."""

    def __init__(self, parent: Scope | None = None):
        self._variables: dict[str, ScopeVariable] = {}
        self._parent = parent
        self._kids: list[Scope] = []

    def _shown(self) -> dict[str, Any]:
        return {"variables": sorted(self._variables)} | ({} if self._parent is None else {"parent": self._parent})

    def var(self, name: str) -> ScopeVariable:
        """The variable of this name in this very scope, made when there is none."""
        _check_name(name)
        if name not in self._variables:
            self._variables[name] = ScopeVariable(name)
        return self._variables[name]

    def find_var(self, name: str) -> ScopeVariable | None:
        """The variable of this name here or in a parent, None when there is none."""
        _check_name(name)
        scope: Scope | None = self
        while scope is not None:
            if name in scope._variables:
                return scope._variables[name]
            scope = scope._parent
        return None

    def array_of(self, tensor: Tensor) -> Array:
        """The contents of an eager tensor that a program uses."""
        value: Array = tensor._value
        return value

    def put_into(self, tensor: Tensor, array: Array) -> None:
        """Give such a tensor the contents that a run has made."""
        tensor._put(array)

    def new_scope(self) -> Scope:
        """A child, which lives until `drop_kids`."""
        self._kids.append(Scope(self))
        return self._kids[-1]

    def drop_kids(self) -> None:
        self._kids.clear()

    def local_var_names(self) -> list[str]:
        return list(self._variables)

    def erase(self, names: Sequence[str]) -> None:
        """Forget variables of this scope."""
        for name in names:
            self._variables.pop(name, None)

    def _remove_from_pool(self) -> None:
        """Paddle's word for letting go of a scope; here Python does that."""


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"expected the name of a variable to be str but got {name!r}")


_current = Scope()


def global_scope() -> Scope:
    """The scope that runs use unless told otherwise."""
    return _current


def _switch_scope(scope: Scope) -> Scope:
    """Make `scope` the global one; returns the one that was."""
    global _current
    old, _current = _current, scope
    return old


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Use `scope` as the global one inside the `with`."""
    if not isinstance(scope, Scope):
        raise TypeError(f"expected a Scope but got {type(scope).__name__}")
    old = _switch_scope(scope)
    try:
        yield
    finally:
        _switch_scope(old)
