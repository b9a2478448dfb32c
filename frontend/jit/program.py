"""A traced function as machine code: called with tensors, recorded on the tape as one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.device import current_place, get_device, on_device
from polyreme.ir.builtin import Func, Module
from polyreme.jit.trace import Traced
from polyreme.jit.weights import WeightedFunction
from polyreme.tensor import Tensor

__all__ = ["Program", "compile_function"]


def compile_function(func: Func, name: str, prepare: str = "") -> Any:
    """The executable of one `nn` function, which is left as it is.

    With `prepare` its weights are packed when they change, as `lowering.pipeline` has it; GPUs pack nothing, and neither do functions with ops for the host.
    """
    from polyreme.executables import load_module
    from polyreme.lowering.regions import has_host_ops

    module = Module.empty(loc=func.location)
    copy = func.clone()
    copy.attributes["sym_name"] = "main"
    module.block.append(copy)
    if prepare and current_place().is_cpu_place() and not has_host_ops(func):
        return WeightedFunction(module, c_name(name), prepare)
    executable = load_module(module, c_name(name))
    if current_place().is_gpu_place() and not has_host_ops(func):
        from polyreme.device_kernels import KeptFunction

        return KeptFunction(executable, current_place())
    return executable


def c_name(name: str) -> str:
    """`name` as native code can have it: a function's name may be `<lambda>`."""
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return text if text[:1].isalpha() else f"f_{text}"


@dataclass
class Differentiable:
    """The two halves of a training step on a device: `backward` takes the arguments `saved` of `forward`, the residuals, then gradients of float results."""

    forward: Any
    saved: tuple[int, ...]
    function: Func  # of `backward`
    name: str
    device: str

    @cached_property
    def backward(self) -> Any:
        """Compiled when gradients are first asked for: whoever only looks at results never needs it, and neither do ranks, whose backward has collectives."""
        with on_device(self.device):
            return compile_function(self.function, f"{self.name}_backward")


class Program:
    """One traced signature. Code is generated when it is first needed, and kept per device and set of arguments that need gradients."""

    def __init__(self, traced: Traced, name: str):
        self.traced = traced
        self.name = name
        self.captured = traced.captured
        self.flags = [tensor.stop_gradient for tensor in self.captured]
        self.types = [tensor.type for tensor in self.captured]
        self._inference: dict[str, Any] = {}
        self._training: dict[tuple[str, tuple[int, ...]], Differentiable] = {}
        self._overlapped: dict[Any, Any] = {}

    def holds(self) -> bool:
        """Whether the captured tensors still are what they were when the function was traced, up to their contents."""
        captured = self.captured
        return self.flags == [t.stop_gradient for t in captured] and self.types == [t._type or t.type for t in captured]

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs; tensors that the function writes to get their new contents."""
        args = [inputs[source] if isinstance(source, int) else source for source in self.traced.sources]
        if tape.is_grad_enabled():
            wrt = tuple(i for i, t in enumerate(args) if not t.stop_gradient and t.type.dtype.is_float)
            if wrt:
                return self._run_recorded(args, wrt)
        where = get_device()
        if where not in self._inference:
            self._inference[where] = compile_function(self.traced.func, self.name, "always")
        return self._results(self._inference[where].run([t._value for t in args]))

    def _results(self, arrays: Sequence[Any]) -> list[Tensor]:
        count = self.traced.output_count
        for tensor, array in zip(self.traced.written, arrays[count:], strict=False):
            tensor._value = array
            tensor._version += 1
        return [Tensor._wrap(array) for array in arrays[:count]]

    def _run_recorded(self, args: Sequence[Tensor], wrt: tuple[int, ...]) -> list[Tensor]:
        key = get_device(), wrt
        halves = self._training.get(key)
        if halves is None:
            halves = self._training[key] = self._differentiate(wrt)
        given = [t._value for t in args]
        made = halves.forward.run(given)
        count = self.traced.output_count + len(self.traced.written)
        results, residuals = self._results(made[:count]), made[count:]
        kept = [*(given[i] for i in halves.saved), *residuals]
        name = self.name

        def gradients(*grads: Tensor | None) -> list[Tensor | None]:
            if tape.is_grad_enabled():
                raise RuntimeError(f"expected gradients of the first order of the compiled function '{name}' but got create_graph=True; run it without to_static")
            # What is written to tensors passes no gradient on.
            weights = [*grads, *[None] * (count - len(grads))]
            seeds = [np.zeros_like(y) if dy is None else dy._value for y, dy in zip(made, weights) if y.dtype.kind == "f"]
            found: list[Tensor | None] = [None] * len(args)
            leaves = [args[i] for i in wrt]
            reducer = next((w for w in map(tape.watcher_of, leaves) if w is not None), None)
            order = reducer.covered_by(leaves) if reducer is not None else None
            if reducer is None or order is None:
                arrays = halves.backward.run([*kept, *seeds])
            else:
                arrays = reducer.run_reduced(self._with_collectives(halves, wrt, order, reducer), [*kept, *seeds])
            for i, array in zip(wrt, arrays, strict=True):
                found[i] = Tensor._wrap(array)
            return found

        tape.record_function(args, results, gradients, name)
        return results

    def _differentiate(self, wrt: tuple[int, ...]) -> Differentiable:
        from polyreme.lowering.autodiff import forward_backward

        halves = forward_backward(self.traced.func, wrt)
        # Weights change between most steps of training: only packs that every step would make are kept.
        forward = compile_function(halves.forward, f"{self.name}_forward", "worth")
        return Differentiable(forward, halves.saved, halves.backward, self.name, get_device())

    def _with_collectives(self, halves: Differentiable, wrt: tuple[int, ...], order: tuple[int, ...], reducer: Any) -> Any:
        """The backward with the buckets of `reducer` in it; `order` says which results are the gradients of its parameters."""
        key = (get_device(), wrt, order, reducer.buffer, reducer.last_buffer)
        if key not in self._overlapped:
            self._overlapped[key] = compile_function(with_collectives(halves.function, order, reducer), f"{self.name}_backward")
        return self._overlapped[key]


def with_collectives(backward: Func, order: tuple[int, ...], reducer: Any) -> Func:
    """A copy of a backward function that averages its results `order`, the gradients of the reducer's parameters, over all ranks while it computes the rest."""
    from polyreme.ir.passes import PassManager
    from polyreme.lowering.bucket import BucketGradients, OverlapCollectives

    module = Module.empty(loc=backward.location)
    module.block.append(copy := backward.clone())
    gradients = copy.block.terminator.operands
    for i, name in zip(order, reducer.names, strict=True):
        gradients[i].name = gradients[i].name or f"grad_{name}"
    PassManager([BucketGradients(reducer.buffer, reducer.last_buffer, order), OverlapCollectives()]).run(module)
    copy.detach()
    return copy
