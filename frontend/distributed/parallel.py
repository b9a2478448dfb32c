"""`DataParallel`: one model in every rank, each with its share of the batch, kept equal by averaging gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.distributed.group import Group, current_group, get_rank, get_world_size
from polyreme.distributed.reducer import Reducer
from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import PolyremeError
from polyreme.nn.layer import Layer
from polyreme.nn.layers.common import Embedding
from polyreme.tensor import Tensor

__all__ = ["DataParallel", "ParallelStrategy"]


class ParallelStrategy:
    """The place of this rank, as the deprecated argument `strategy` has it."""

    def __init__(self) -> None:
        self.nranks = get_world_size()
        self.local_rank = get_rank()
        self.trainer_endpoints: list[str] = []
        self.current_endpoint = ""


class DataParallel(Layer):
    """A Layer whose gradients are averaged over all ranks while backward runs.

    Args:
        layers: the model. Its parameters and buffers are made equal to those of rank 0 at once.
        strategy: deprecated; ignored.
        comm_buffer_size: MB of one bucket of gradients.
        last_comm_buffer_size: MB of the bucket that leaves last.
        find_unused_parameters: allow parameters that take no part in the loss; without it they are an error.
        group: the ranks; all of them.
    """

    def __init__(
        self,
        layers: Layer,
        strategy: Any = None,
        comm_buffer_size: float = 25,
        last_comm_buffer_size: float = 1,
        find_unused_parameters: bool = False,
        group: Group | None = None,
    ):
        if not isinstance(layers, Layer):
            raise TypeError(f"expected a Layer for DataParallel but got {type(layers).__name__}")
        super().__init__(f"{layers.full_name()}_data_parallel")
        self._layers = layers
        self.find_unused_parameters = find_unused_parameters
        self.group = group if group is not None else current_group()
        trainable = [(name, p) for name, p in layers.named_parameters() if not p.stop_gradient]
        if not trainable:
            raise RuntimeError("expected a model with parameters to train for DataParallel but all have stop_gradient=True")
        tables = {id(layer.weight) for layer in layers.sublayers(include_self=True) if isinstance(layer, Embedding) and layer._sparse}
        by_rows = [name for name, p in trainable if id(p) in tables]
        self._reducer = Reducer(trainable, self.group, comm_buffer_size, last_comm_buffer_size, find_unused_parameters, by_rows)
        self._synchronizing = True
        if self.group.size > 1:
            self._agree()

    def _agree(self) -> None:
        """Compare the plans of all ranks, then take over what rank 0 holds."""
        group = self._reducer.group
        group.communicator.barrier(group.step("the plan of DataParallel", f"{len(self._reducer.buckets)} buckets"))
        held = [t for t in (*self._layers.parameters(), *self._layers.buffers()) if isinstance(t._value, np.ndarray)]
        by_dtype: dict[Any, list[Tensor]] = {}
        for tensor in held:
            by_dtype.setdefault(tensor._value.dtype, []).append(tensor)
        for dtype, tensors in by_dtype.items():
            flat = np.concatenate([t._value.reshape(-1) for t in tensors])
            step = group.step("broadcast", f"{flat.size} {dtype} of parameters and buffers from rank 0")
            flat = group.communicator.broadcast(flat, 0, step).wait()
            at = 0
            for tensor in tensors:
                size = tensor._value.size
                tensor._put(flat[at : at + size].reshape(tensor._value.shape).copy())
                at += size

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if tape.is_grad_enabled():
            # The last forward decides, as in Paddle, whether the backward after it is synchronized.
            self._reducer.armed = self._synchronizing and self.group.size > 1
        return super().__call__(*inputs, **kwargs)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._layers(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients made inside stay in this rank; they are averaged with those of the first forward and backward outside."""
        saved, self._synchronizing = self._synchronizing, False
        try:
            yield
        finally:
            self._synchronizing = saved

    @property
    def schedule(self) -> str:
        """The plan of the gradients' averaging, as IR: buckets in the order in which they leave."""
        from polyreme.ir.text import print_module

        return print_module(self._reducer.module)

    def backward_function(self, input_spec: Sequence[Any] | None = None) -> Func:
        """The backward of the model compiled for these inputs, in training mode, with the buckets in it; `paddle.inspect(net).schedule`
        shows it.
        """
        from polyreme.jit.program import with_collectives
        from polyreme.jit.static_function import StaticFunction
        from polyreme.lowering.gradients.autodiff import forward_backward

        function = self.forward if isinstance(self.forward, StaticFunction) else StaticFunction(self.forward, None, self)
        traced = function.trace(input_spec)
        wrt = [
            i
            for i, source in enumerate(traced.sources)
            if isinstance(source, Tensor) and not source.stop_gradient and source.type.dtype.is_float
        ]
        reducer = self._reducer
        position = {id(traced.sources[i]): at for at, i in enumerate(wrt)}
        unused = [name for name, p in zip(reducer.names, reducer.parameters, strict=True) if id(p) not in position]
        if unused:
            raise PolyremeError(
                f"expected a model that uses all its parameters but '{unused[0]}' is not used; the tape averages its gradients, by "
                f"`.schedule` of the model",
                code="E0906",
            )
        order = tuple(position[id(p)] for p in reducer.parameters)
        return with_collectives(forward_backward(traced.func, wrt).backward, order, reducer)

    def scale_loss(self, loss: Any) -> Any:
        """Deprecated: returns the loss; gradients are averaged, not added."""
        return loss

    def apply_collective_grads(self) -> None:
        """Deprecated: backward does it."""

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The model's own state dict, by its own names."""
        return self._layers.state_dict(*args, **kwargs)

    def to_static_state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The model's own, with all buffers, by its own names."""
        return self._layers.to_static_state_dict(*args, **kwargs)

    def set_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load into the model, by its own names."""
        return self._layers.set_state_dict(*args, **kwargs)

    set_dict = set_state_dict
    load_dict = set_state_dict
