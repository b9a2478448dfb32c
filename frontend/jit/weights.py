"""Weights of a compiled function: laid out for its kernels when they change, not when it runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyreme.runtime.memory import aligned_empty, numpy_dtype

if TYPE_CHECKING:
    from polyreme.ir.builtin import Func, Module

__all__ = ["WeightedFunction"]

Array = np.ndarray[Any, Any]


class _Binding(NamedTuple):
    """The function with the arrays `weights` bound to it, packed or as they are; `packed` by the name of the argument of `main`."""

    weights: list[Array]
    packed: dict[str, Array]
    executable: Any


class WeightedFunction:
    """The executable of a module whose arguments of role "param" seldom change.

    Nobody writes to the array of a tensor: who changes a tensor gives it another array. So a weight has changed when its array is another
    one, and only then it is packed again. A binding is never changed either, so that threads may call with different weights at the same
    time.
    """

    def __init__(self, module: Module, name: str, prepare: str):
        from polyreme.compiled.executables import load_with_prepare

        self.main, self.prepare = load_with_prepare(module, name, prepare)
        func: Func = module.function()
        self._places = places = {arg_name: i for i, arg_name in enumerate(func.arg_names)}
        inputs = self.main.manifest.inputs
        packs = self.prepare.manifest.inputs[1:] if self.prepare is not None else ()
        # Where among the arguments the weights are, and what else `main` takes at every call.
        self._weights = sorted({places[t.name] for t in (*inputs, *packs) if t.role == "param"})
        self._others = [places[t.name] for t in inputs if t.role not in ("param", "packed")]
        order = {place: i for i, place in enumerate(self._weights)}
        self._bound = [(i, order[places[t.name]]) for i, t in enumerate(inputs) if t.role == "param"]
        self._packed = [(i, t.name) for i, t in enumerate(inputs) if t.role == "packed"]
        self._prepared = [order[places[t.name]] for t in packs]
        self._made = _made_of(self.prepare.manifest) if self.prepare is not None else []
        self._current: _Binding | None = None
        self._lock = threading.Lock()

    @cached_property
    def updates(self) -> dict[int, int]:
        """By the number of a result, that of the argument which it may take the place of: both may be one array in a call."""
        inputs = self.main.manifest.inputs
        return {output: self._places[inputs[i].name] for i, output in self.main.manifest.updates if inputs[i].role != "param"}

    def run(self, arrays: Sequence[Array], memory: Callable[[], Mapping[int, Array]] | None = None) -> list[Array]:
        """The results for all arguments of the module's `main`, by number in what `memory` gives, as `Executable.run` has it. It is asked
        when weights of the last run are no longer bound.
        """
        weights = [arrays[i] for i in self._weights]
        binding = self._current
        if binding is None or not all(map(is_, weights, binding.weights)):
            binding = self._bind(weights)
        given = None if memory is None else memory()
        result: list[Array] = binding.executable.run([arrays[i] for i in self._others], memory=given)
        return result

    def _bind(self, weights: list[Array]) -> _Binding:
        with self._lock:
            current = self._current
            if current is not None and all(map(is_, weights, current.weights)):
                return current
            packed = self._pack(weights, current)
            fixed = {i: weights[k] for i, k in self._bound}
            fixed.update((i, packed[name]) for i, name in self._packed)
            self._current = _Binding(weights, packed, self.main.bind(fixed))
            return self._current

    def _pack(self, weights: list[Array], current: _Binding | None) -> dict[str, Array]:
        """All packed buffers: those of weights that changed are new ones, which a running call does not read."""
        if self.prepare is None:
            return {}
        changed = np.array([current is None or weights[k] is not current.weights[k] for k in self._prepared], np.int64)
        if current is not None and not changed.any():
            return current.packed
        out = []
        for source, spec in self._made:
            new = current is None or changed[source]
            out.append(_aligned(spec) if new else current.packed[spec.name])  # type: ignore[union-attr]
        self.prepare.run([changed, *(weights[k] for k in self._prepared)], out=out)
        return {spec.name: array for (_, spec), array in zip(self._made, out, strict=True)}


def _made_of(manifest: Any) -> list[tuple[int, Any]]:
    """For each output of `prepare`, the number of the weight that it is made of: it stands behind it among the arguments."""
    made = []
    weight = -1
    for kind, i in manifest.arguments:
        if kind == "input":
            weight = i - 1  # the first input says what has changed
        elif kind == "output":
            made.append((weight, manifest.outputs[i]))
    return made


def _aligned(spec: Any) -> Array:
    """Memory for an output, at a whole cache line."""
    dtype = numpy_dtype(spec.dtype)
    count = math.prod(spec.shape)
    return aligned_empty(count * dtype.itemsize).view(dtype).reshape(spec.shape)
