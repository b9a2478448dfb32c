"""Data parallel training in `fluid.dygraph`: gradients are summed over the ranks when the program asks for it."""

from __future__ import annotations

import os
from typing import Any

from polyreme import distributed
from polyreme.names import listed
from polyreme.nn import Layer
from polyreme.utils.shown import Shown

__all__ = ["BackwardStrategy", "DataParallel", "ParallelEnv", "prepare_context"]


class BackwardStrategy(Shown):
    """How `backward` sums gradients of one tensor: always in the order in which they are made, so `sort_sum_gradient` changes nothing."""

    sort_sum_gradient = False


class ParallelEnv(Shown):
    """The place of this rank among all, as its launcher says it."""

    @property
    def nranks(self) -> int:
        """How many ranks there are."""
        return distributed.get_world_size()

    @property
    def local_rank(self) -> int:
        """The number of this rank."""
        return distributed.get_rank()

    @property
    def dev_id(self) -> int:
        """The number of this rank's GPU, of the variable FLAGS_selected_gpus."""
        return int(os.environ.get("FLAGS_selected_gpus", "0"))

    @property
    def current_endpoint(self) -> str:
        """The address of this rank, where the launcher gives one; MPI needs none."""
        return os.environ.get("PADDLE_CURRENT_ENDPOINT", "")

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all ranks, where the launcher gives them."""
        return os.environ.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")


def prepare_context(strategy: Any = None) -> Any:
    """Let the ranks of a launched script find each other; None where this is the only one."""
    if distributed.get_world_size() < 2:
        return None
    distributed.init_parallel_env()
    return ParallelEnv() if strategy is None else strategy


class DataParallel(Layer):
    """A Layer that trains on a part of the data on each rank.

        loss = model.scale_loss(loss)       # loss / ranks
        loss.backward()
        model.apply_collective_grads()      # the sum of all ranks' gradients, which is the gradient of the mean loss
        optimizer.minimize(loss)

    Parameters start as those of rank 0.
    """

    def __init__(self, layers: Layer, strategy: Any):
        super().__init__(f"{layers.full_name()}_data_parallel")
        self._layers, self._strategy = layers, strategy
        if distributed.get_world_size() > 1:
            for parameter in layers.parameters():
                distributed.broadcast(parameter, 0)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._layers(*inputs, **kwargs)

    def scale_loss(self, loss: Any) -> Any:
        """The loss over the number of ranks; as it is on one rank."""
        ranks = distributed.get_world_size()
        return loss if ranks < 2 else loss / float(ranks)

    def apply_collective_grads(self) -> None:
        """Let each gradient be the sum of those of all ranks."""
        if distributed.get_world_size() > 1:
            for parameter in self._layers.parameters():
                if parameter.grad is not None:
                    distributed.all_reduce(parameter.grad)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the Layer within."""
        return self._layers.state_dict(*args, **kwargs)

    def set_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Give the Layer within its state."""
        return self._layers.set_dict(*args, **kwargs)

    set_state_dict = load_dict = set_dict


__dir__ = listed(__name__)
