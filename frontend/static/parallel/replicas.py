"""Replicas of a program in one process: each is a thread with a scope of its own, and they meet where gradients are reduced.

Replica 0 works in the user's scope. The others hold copies of its persistable variables, which are made anew when somebody else has
written to the scope. The reductions are collective calls of the IR, in the order of the replicas, so that all replicas hold the same
parameters, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyreme.dialects import dist
from polyreme.distributed.group import rank_of_thread
from polyreme.ir.diagnostics import caller_location
from polyreme.lowering.transforms.bucket import assign_buckets
from polyreme.random import Generator, default_generator
from polyreme.runtime.collectives import LocalGroup
from polyreme.static.kinds import NAMED, kind_of_nn_op
from polyreme.static.lod.tensor import LoDTensor
from polyreme.static.operator import OpRole
from polyreme.static.parallel.strategies import BuildStrategy
from polyreme.static.program import Program
from polyreme.static.scope import Scope
from polyreme.static.variable import VariableError
from polyreme.tensor import Tensor

__all__ = ["FeedKindError", "ReplicaScope", "Replicas", "reducing_program"]

Array = np.ndarray[Any, Any]


class FeedKindError(VariableError, TypeError):
    """A list of feeds with something in it that is no dict."""

    code = "E0603"


class ReplicaScope(Scope):
    """The scope of a replica other than the first: tensors that the program holds are its own, and so is the random generator."""

    def __init__(self, parent: Scope, rank: int):
        super().__init__(parent)
        self._rank = rank
        self._arrays: dict[int, Array] = {}

    def array_of(self, tensor: Tensor) -> Array:
        if id(tensor) not in self._arrays:
            if tensor is default_generator().state:
                return Generator(default_generator().initial_seed() + self._rank).get_state()
            value: Array = tensor._value
            return value
        return self._arrays[id(tensor)]

    def put_into(self, tensor: Tensor, array: Array) -> None:
        self._arrays[id(tensor)] = array


class Replicas:
    """`count` replicas of `program`, of which the first works in `scope`. With `shared` they work in the scopes of those replicas."""

    def __init__(self, program: Program, count: int, scope: Scope, shared: Replicas | None = None):
        if shared is not None and shared.count != count:
            raise ValueError(f"expected share_vars_from to have {count} devices as well but it has {shared.count}")
        self.program: Program = program
        self.count: int = count
        own = [scope, *(ReplicaScope(scope, rank) for rank in range(1, count))]
        self.scopes: list[Scope] = own if shared is None else shared.scopes
        # What the first scope held when copies were made of it.
        self._seen: dict[str, Any] = shared._seen if shared is not None else {}

    def broadcast(self) -> None:
        """Give all replicas the persistable variables of the first one."""
        self._seen.clear()
        self._copy()

    def _copy(self) -> None:
        first = self.scopes[0]
        for variable in self.program.list_vars():
            if not variable.persistable or variable.name in self.program.captured:
                continue
            held = first.find_var(variable.name)
            if held is None or held.array is None or self._seen.get(variable.name) is held.array:
                continue
            for scope in self.scopes[1:]:
                scope.var(variable.name).array = held.array.copy()
            self._seen[variable.name] = held.array

    def run(self, executor: Any, parts: Sequence[Mapping[str, Any]], fetch_list: Sequence[Any], times: int = 1) -> list[list[Array]]:
        """What each replica fetches; `parts` are their feeds."""
        self._copy()
        if self.count == 1:
            found = [self._run_one(executor, parts[0], fetch_list, self.scopes[0], times)]
        else:
            def replica(communicator: Any) -> list[Array]:
                with rank_of_thread(communicator):
                    return self._run_one(executor, parts[communicator.rank], fetch_list, self.scopes[communicator.rank], times)

            found = LocalGroup(self.count).run(replica)
        self._note()
        return found

    def _run_one(
        self, executor: Any, feed: Mapping[str, Any], fetch_list: Sequence[Any], scope: Scope, times: int
    ) -> list[Array]:
        made: list[Array] = []
        for _ in range(times):
            made = executor.run(self.program, feed=dict(feed), fetch_list=list(fetch_list), scope=scope)
        return made

    def _note(self) -> None:
        """What a run has written to the first scope needs no copies: the other replicas have written their own."""
        for variable in self.program.list_vars():
            held = self.scopes[0].find_var(variable.name) if variable.persistable else None
            if held is not None and held.array is not None:
                self._seen[variable.name] = held.array

    # --- feeds and what comes back

    def parts(self, feed: Any) -> list[dict[str, Any]]:
        """The feed of each replica: of a dict, shares of rows or sequences, the last one longer; of a list, element by element."""
        if feed is None:
            return [{} for _ in range(self.count)]
        if isinstance(feed, (list, tuple)):
            if len(feed) != self.count:
                raise VariableError(f"Feed a list of tensor, the list should be the same size as places: {len(feed)} and {self.count}")
            for element in feed:
                if not isinstance(element, dict):
                    raise FeedKindError(f"Each element of feed list should be a dict, but got {type(element).__name__}", caller_location())
            return list(feed)
        if not isinstance(feed, dict):
            raise VariableError(f"The feed should be a dict or a list of dicts, but got {type(feed).__name__}", caller_location())
        if self.count == 1:
            return [feed]
        made: list[dict[str, Any]] = [{} for _ in range(self.count)]
        for name, value in feed.items():
            levels = lod() if callable(lod := getattr(value, "lod", None)) else []
            array = np.asarray(value)
            samples = len(levels[0]) - 1 if levels else array.shape[0] if array.ndim else 0
            if samples < self.count:
                raise VariableError(
                    f"expected at least {self.count} samples of '{name}', one for each device, but got {samples}; drop a last small batch",
                    caller_location(),
                )
            share = samples // self.count
            for rank in range(self.count):
                end = samples if rank == self.count - 1 else (rank + 1) * share
                made[rank][name] = _samples(array, levels, rank * share, end)
        return made

    def joined(self, found: Sequence[Sequence[Array]]) -> list[Array]:
        """For each fetched variable, the results of all replicas along axis 0."""
        if self.count == 1:
            return list(found[0])
        return [np.concatenate([np.atleast_1d(array) for array in arrays], 0) for arrays in zip(*found, strict=True)]


def _samples(array: Array, levels: Sequence[Sequence[int]], start: int, end: int) -> Any:
    """Some samples of a feed: rows, or sequences with all that they hold."""
    found = []
    for level in levels:
        part = [offset - level[start] for offset in level[start : end + 1]]
        start, end = level[start], level[end]
        found.append(part)
    return LoDTensor(array[start:end], found) if levels else array[start:end]


def reducing_program(program: Program, count: int, strategy: BuildStrategy) -> Program:
    """The program as each of `count` replicas runs it: its gradients are reduced over all of them before the first update."""
    copy = program.clone()
    if count == 1:
        return copy
    block = copy.global_block()
    scale = strategy.gradient_scale_strategy
    if scale == BuildStrategy.GradientScaleStrategy.Customized:
        raise NotImplementedError(
            "expected gradient_scale_strategy to be CoeffNumDevice or One but got Customized: the gradient of the loss is part of the "
            "program; scale the loss instead"
        )
    if strategy.sync_batch_norm:
        for op in (op for b in copy.blocks for op in b.ops if op.type == "batch_norm"):
            op.type, op.kind = "sync_batch_norm", NAMED
    first = next((i for i, op in enumerate(block.ops) if op.attrs.get("op_role", 0) & OpRole.Optimize), None)
    if first is None:
        return copy
    written = {name for op in block.ops[:first] if op.attrs.get("op_role", 0) & OpRole.Backward for name in op.output_arg_names}
    read = dict.fromkeys(name for op in block.ops[first:] for name in op.input_arg_names if name in written)
    names = [name for name in read if block.var_recursive(name).type.dtype.is_float]
    types = [block.var_recursive(name).type for name in names]
    buckets = assign_buckets(types) if strategy.fuse_all_reduce_ops else [(i,) for i in range(len(names))]
    kind = "mean" if scale == BuildStrategy.GradientScaleStrategy.CoeffNumDevice else "sum"
    with copy.role(OpRole.Backward):
        for number, bucket in enumerate(buckets):
            own = [names[i] for i in bucket]
            attributes = {"reduce": kind, "bucket": number}
            made = f"c_allreduce_{'avg' if kind == 'mean' else 'sum'}"
            block.add_operator(made, kind_of_nn_op(dist.AllReduce), {"Xs": own}, {"Out": own}, attributes, index=first + number)
    return copy
