"""Averaging gradients by hand, for models that `DataParallel` does not synchronize by itself, such as those with a `PyLayer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.distributed.group import Group, current_group
from polyreme.distributed.reducer import average_gradients
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = ["fused_allreduce_gradients"]


def fused_allreduce_gradients(parameter_list: Sequence[Tensor], hcg: Any = None) -> None:
    """Replace the gradients of the parameters by their means over all ranks, to be called after `backward` in `no_sync` and before `step`.

    `hcg` is the ranks' layout in Paddle; here it is None or a group.
    """
    if hcg is not None and not isinstance(hcg, Group):
        raise TypeError(f"expected None or a group but got {type(hcg).__name__}: there is no other layout of ranks than data parallel")
    average_gradients(list(parameter_list), hcg if hcg is not None else current_group())


__dir__ = listed(__name__)
