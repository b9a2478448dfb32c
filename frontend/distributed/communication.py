"""Collective calls on tensors. Each ends in an op of the `dist` dialect, like any function of the Paddle API in an op of its own."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch, tape
from polyreme.dialects import dist
from polyreme.distributed.group import Group, current_group
from polyreme.ir.evaluate import EvaluateError
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["ReduceOp", "all_gather", "all_reduce", "barrier", "broadcast", "reduce", "reduce_scatter", "scatter", "wait"]


class ReduceOp(Shown):
    """How contributions are combined."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


_REDUCTIONS = {ReduceOp.SUM: "sum", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.PROD: "prod", ReduceOp.AVG: "mean"}


class Task(Shown):
    """A finished call: results are there when it is returned."""

    def wait(self) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def _reduction(op: Any) -> str:
    if op not in _REDUCTIONS:
        raise ValueError(f"expected a ReduceOp (SUM, MAX, MIN, PROD, AVG) but got {op!r}")
    return _REDUCTIONS[op]


@tape.no_grad()
def _call(group: Group | None, cls: Any, *operands: Any, **attributes: Any) -> Any:
    try:
        with dist.with_group(group if group is not None else current_group()):
            return dispatch.call(cls, *operands, **attributes)
    except EvaluateError as error:
        raise ValueError(error.diagnostics[0].message) from None


@tape.no_grad()
def _fill(tensor: Tensor, value: Tensor) -> Task:
    dispatch.assign(tensor, value)
    return Task()


def all_reduce(tensor: Tensor, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True) -> Task:
    """Replace the tensor's contents by the combination of all ranks'."""
    return _fill(tensor, _call(group, dist.AllReduce, [tensor], reduce=_reduction(op)))


def broadcast(tensor: Tensor, src: int, group: Group | None = None, sync_op: bool = True) -> Task:
    """Replace the tensor's contents by those in rank `src`."""
    return _fill(tensor, _call(group, dist.Broadcast, tensor, root=src))


def reduce(tensor: Tensor, dst: int, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True) -> Task:
    """As `all_reduce`, in rank `dst` only."""
    members = group if group is not None else current_group()
    if not 0 <= dst < members.size:
        raise ValueError(f"expected the number of a rank, 0 to {members.size - 1}, but got {dst}")
    result = _call(group, dist.AllReduce, [tensor], reduce=_reduction(op))
    return _fill(tensor, result) if members.rank == dst else Task()


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Group | None = None, sync_op: bool = True) -> Task:
    """Append the tensors of all ranks to `tensor_list`, or replace its tensors when it has one per rank."""
    members = group if group is not None else current_group()
    stacked = _call(group, dist.AllGather, tensor, ranks=members.size)
    parts = [stacked[i] for i in range(members.size)]
    if len(tensor_list) == len(parts) and all(isinstance(t, Tensor) for t in tensor_list):
        for old, new in zip(tensor_list, parts, strict=True):
            _fill(old, new)
    elif tensor_list:
        raise ValueError(f"expected an empty list or one tensor per rank ({len(parts)}) but got {len(tensor_list)}")
    else:
        tensor_list += parts
    return Task()


def scatter(
    tensor: Tensor, tensor_list: list[Tensor] | None = None, src: int = 0, group: Group | None = None, sync_op: bool = True
) -> Task:
    """Give each rank its tensor of the list that rank `src` has."""
    from polyreme.math.creation import zeros
    from polyreme.math.manipulation import stack

    members = group if group is not None else current_group()
    if members.rank == src:
        if not tensor_list or len(tensor_list) != members.size:
            raise ValueError(f"expected one tensor per rank ({members.size}) in rank {src} but got {len(tensor_list or [])}")
        whole = stack(list(tensor_list))
    else:
        whole = zeros([members.size, *tensor.shape], tensor.dtype)
    return _fill(tensor, _call(group, dist.Broadcast, whole, root=src)[members.rank])


def reduce_scatter(
    tensor: Tensor, tensor_list: list[Tensor], op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Task:
    """Fill the tensor with the combination of what all ranks have for this one in their lists."""
    from polyreme.math.manipulation import concat

    members = group if group is not None else current_group()
    if len(tensor_list) != members.size:
        raise ValueError(f"expected one tensor per rank ({members.size}) but got {len(tensor_list)}")
    whole = concat([t.reshape([1, *t.shape]) for t in tensor_list])
    return _fill(tensor, _call(group, dist.ReduceScatter, whole, reduce=_reduction(op), ranks=members.size)[0])


def barrier(group: Group | None = None) -> None:
    """Wait until all ranks have come here."""
    members = group if group is not None else current_group()
    members.communicator.barrier(members.step("barrier"))


def wait(tensor: Tensor, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Wait until the tensor can be read, which on return from the calls above it can."""
