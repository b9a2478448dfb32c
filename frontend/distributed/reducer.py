"""Averaging gradients over ranks while a backward still runs.

The plan is IR: a module that takes all gradients and returns their means, one `dist.all_reduce_start` per bucket
(`lowering/transforms/bucket.py`). A `Reducer` watches the parameters on the tape, and runs each start of the plan, in its order, as soon as
the gradients it sends are complete. When one compiled function holds all parameters, the same buckets are part of its backward, between
compiled regions, and the reducer only hands it the group.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.dialects import dist
from polyreme.distributed.group import Group
from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.transforms.bucket import BUFFER, LAST_BUFFER, buckets_of, fingerprint, gradient_schedule
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows, whole

__all__ = ["Reducer", "average_gradients"]


class Reducer:
    """Averages the gradients of parameters, in buckets, in every backward that it is `armed` for.

    A mean of means is the mean itself, so gradients that are averages already, from an earlier backward or from compiled code, may be
    averaged again with others. Of the parameters named in `by_rows`, tables that are read with `sparse=True`, the mean is the rows that any
    rank has read, unless a rank has a whole gradient.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        group: Group,
        buffer: float = BUFFER,
        last_buffer: float = LAST_BUFFER,
        find_unused: bool = False,
        by_rows: Collection[str] = (),
    ):
        self.by_rows = by_rows
        self.names = [name for name, _ in named]
        self.parameters = [p for _, p in named]
        self.buffer, self.last_buffer, self.find_unused = buffer, last_buffer, find_unused
        self.module = gradient_schedule([p.type for p in self.parameters], self.names, buffer, last_buffer)
        self.buckets = buckets_of(self.module.function())
        self.group = group.following(fingerprint(self.module))
        self.armed = False
        self._index = {id(p): i for i, p in enumerate(self.parameters)}
        self._local: set[int] = set()  # whose .grad holds what the other ranks do not know
        self._syncing = False
        for parameter in self.parameters:
            tape.watch(parameter, self)

    # --- a backward on the tape

    def begin(self, edges: Mapping[int, int]) -> None:
        self._edges = {self._index[key]: count for key, count in edges.items() if key in self._index}
        self._ready: set[int] = set()
        self._averaged = dict.fromkeys(range(len(self.parameters)), 0)
        self._calls: list[tuple[Sequence[Any], tuple[int, ...]]] = []
        self._next = 0
        self._syncing = self.armed
        self._unused: set[int] = set()
        if self._syncing and self.find_unused:
            self._unused = set(range(len(self.parameters))) - set(self._edges)
            self._ready |= self._unused
            self._launch()

    def ready(self, leaf: Tensor) -> None:
        index = self._index[id(leaf)]
        self._ready.add(index)
        if self._syncing:
            self._launch()
        else:
            self._local.add(index)

    def finish(self) -> None:
        syncing, self._syncing = self._syncing, False
        if not syncing or self._ready == self._unused:
            return
        missing = [i for i in range(len(self.parameters)) if i not in self._ready]
        if missing and not self.find_unused:
            names = ", ".join(f"'{self.names[i]}'" for i in missing[:5]) + (" and others" if len(missing) > 5 else "")
            raise PolyremeError(
                f"expected gradients of all parameters of the DataParallel model but {names} took no part in the loss; pass "
                f"find_unused_parameters=True to it",
                code="E0906",
            )
        self._unused |= set(missing)
        self._ready |= set(missing)
        self._launch()
        used = self._used_anywhere()
        read = {i: self._read_anywhere(i) for i, name in enumerate(self.names) if name in self.by_rows}
        for parts, members in self._calls:
            for i, part in zip(members, parts, strict=True):
                mean = part.wait()
                if i in used or self.parameters[i]._grad is not None:
                    _set_gradient(self.parameters[i], mean, read.get(i))
        self._local.clear()

    def _launch(self) -> None:
        while self._next < len(self.buckets):
            start, members = self.buckets[self._next]
            if not self._ready.issuperset(members):
                return
            self._next += 1
            if all(0 < self._averaged[i] == self._edges.get(i) for i in members):
                continue  # compiled code has done it
            with dist.with_group(self.group):
                self._calls.append((start.evaluate([self._gradient(i) for i in members], None), members))

    def _gradient(self, index: int) -> Any:
        parameter, name = self.parameters[index], self.names[index]
        if isinstance(parameter._grad, SelectedRows) and name not in self.by_rows:
            raise NotImplementedError(
                f"expected tables of a DataParallel model that are read with sparse=True to be those of nn.Embedding layers, so that all "
                f"ranks know of them, but '{name}' is none; read it with sparse=False"
            )
        return _gradient(parameter)

    def _read_anywhere(self, index: int) -> np.ndarray[Any, Any] | None:
        """The rows of a table that some rank has read; None where a rank has a whole gradient."""
        parameter = self.parameters[index]
        marks = np.zeros(parameter._value.shape[0], np.int8)
        if isinstance(parameter._grad, SelectedRows):
            marks[parameter._grad.rows()] = 1
        elif parameter._grad is not None:
            marks[:] = 2
        (found,) = self.group.start("all_reduce", [marks], f"which rows of '{self.names[index]}' were read", reduce="max").wait()
        return None if (found == 2).any() else np.flatnonzero(found)

    def _used_anywhere(self) -> set[int]:
        """The parameters that took part in the loss of some rank."""
        everyone = set(range(len(self.parameters)))
        if not self.find_unused:
            return everyone
        used = np.array([i not in self._unused for i in range(len(self.parameters))], np.int8)
        (found,) = self.group.start("all_reduce", [used], "which parameters are used", reduce="max").wait()
        return {i for i in everyone if found[i]}

    # --- a backward that is compiled

    def covered_by(self, leaves: Sequence[Tensor]) -> tuple[int, ...] | None:
        """Where among `leaves` each parameter is, if a backward that makes the gradients of them can average them itself; None when the
        tape has to.
        """
        if not self._syncing or self._local:
            return None
        position = {id(leaf): i for i, leaf in enumerate(leaves)}
        if any(id(p) not in position for p in self.parameters):
            return None
        return tuple(position[id(p)] for p in self.parameters)

    def run_reduced(self, backward: Any, arrays: Sequence[Any]) -> list[Any]:
        """Run a compiled backward that averages all gradients."""
        with dist.with_group(self.group):
            results: list[Any] = backward.run(arrays)
        for i in self._averaged:
            self._averaged[i] += 1
        return results

    def __deepcopy__(self, memo: Any) -> Reducer:
        """One for the copies of the parameters, which it watches."""
        named = list(zip(self.names, copy.deepcopy(self.parameters, memo), strict=True))
        return Reducer(named, self.group, self.buffer, self.last_buffer, self.find_unused, self.by_rows)

    def forget_local(self) -> None:
        """The gradients have been averaged by other means."""
        self._local.clear()


def _gradient(parameter: Tensor) -> Any:
    if parameter._grad is None:
        return np.zeros(parameter._value.shape, parameter._value.dtype)
    return whole(parameter._grad)._value


def _set_gradient(parameter: Tensor, array: Any, rows: Any = None) -> None:
    gradient = Tensor._wrap(array) if rows is None else SelectedRows(rows, Tensor._wrap(array[rows]), len(array))
    gradient.stop_gradient = False
    gradient._name = f"{parameter.name}@GRAD"
    parameter._grad = gradient


def average_gradients(parameters: Sequence[Tensor], group: Group) -> None:
    """Replace the gradients of parameters by their means over the ranks, bucket by bucket; parameters without one are left out."""
    found = [p for p in parameters if p._grad is not None]
    if not found or group.size == 1:
        return
    for p in found:
        if isinstance(p._grad, SelectedRows):
            raise NotImplementedError(
                f"expected whole gradients to average but that of '{p.name}' is the rows that were read with sparse=True; DataParallel "
                f"averages such while it runs backward, or read the table with sparse=False"
            )
    types = [p._grad.type for p in found if p._grad is not None]
    module = gradient_schedule(types, [f"parameter_{i}" for i in range(len(found))])
    with dist.with_group(group.following(fingerprint(module))):
        calls = [
            (start.evaluate([_gradient(found[i]) for i in members], None), members) for start, members in buckets_of(module.function())
        ]
        for parts, members in calls:
            for i, part in zip(members, parts, strict=True):
                _set_gradient(found[i], part.wait())
    for watcher in {id(w): w for w in map(tape.watcher_of, found) if w is not None}.values():
        watcher.forget_local()
