"""Data parallel for static Programs: between backward and update, a step averages its gradients over all ranks.

The operators that do so are the `dist` dialect's; the program's regions, buckets and overlap are the same as everywhere
(`lowering/transforms/bucket.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.dialects import dist
from polyreme.distributed.group import get_world_size
from polyreme.lowering.transforms.bucket import assign_buckets
from polyreme.utils.shown import Shown

__all__ = ["DistributedOptimizer"]


class DistributedOptimizer(Shown):
    """An optimizer among ranks; everything but `minimize` is the optimizer's own. In dygraph mode `DataParallel` averages, and this adds
    nothing.
    """

    def __init__(self, optimizer: Any):
        self._optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


    def minimize(
        self, loss: Any, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, list[tuple[Any, Any]]]:
        """As the optimizer's own; in static mode with averaged gradients, and parameters that the startup program makes equal to rank 0's.
        """
        from polyreme.static.current import default_startup_program, program_guard
        from polyreme.static.mode import in_dynamic_mode

        inner = self._optimizer
        if in_dynamic_mode() or get_world_size() == 1:
            return inner.minimize(loss, startup_program, parameters, no_grad_set)
        startup = startup_program or default_startup_program()
        pairs = inner.backward(loss, startup, parameters, no_grad_set)
        with program_guard(loss.block.program, startup):
            append_averages(loss.block.program, pairs)
            append_broadcasts(startup, [p.name for p, _ in pairs])
            return inner.apply_gradients(pairs), pairs


def append_averages(program: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Append an operator per bucket that replaces gradients by their means over the ranks."""
    from polyreme.static.kinds import kind_of_nn_op
    from polyreme.static.operator import OpRole

    gradient = {p.name: g.name for p, g in pairs}
    parameters = [p for p in program.all_parameters() if p.name in gradient]
    with program.role(OpRole.Backward):
        for number, bucket in enumerate(assign_buckets([p.type for p in parameters])):
            names = [gradient[parameters[i].name] for i in bucket]
            attributes = {"reduce": "mean", "bucket": number}
            program.global_block().add_operator("c_allreduce_avg", kind_of_nn_op(dist.AllReduce), {"Xs": names}, {"Out": names}, attributes)


def append_broadcasts(startup: Any, names: Sequence[str]) -> None:
    """Append operators that give all ranks what rank 0 has under these names."""
    from polyreme.static.kinds import kind_of_nn_op

    for name in names:
        startup.global_block().add_operator("c_broadcast", kind_of_nn_op(dist.Broadcast), {"X": [name]}, {"Out": [name]}, {"root": 0})
