"""A traced function as machine code: called with tensors, recorded on the tape as one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from polyreme import tape
from polyreme.device import current_place, get_device, on_device
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.traced import Traced
from polyreme.jit.unread import SavedWeights
from polyreme.jit.weights import WeightedFunction
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.ir.builtin import Func, Module

__all__ = ["FixedWeights", "PresentWeights", "Program", "WeightsInCode", "compile_function"]


def compile_function(func: Func, name: str, prepare: str = "") -> Any:
    """The executable of one `nn` function, which is left as it is.

    With `prepare` its weights are packed when they change, as `lowering.pipeline` has it; GPUs pack nothing, and neither do functions with ops for the host.
    """
    from polyreme.executables import load_module
    from polyreme.ir.builtin import Module
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


class WeightsInCode(Protocol):
    """Code for a program that has its weights in it."""

    def holds(self) -> bool:
        """Whether the program still has these weights."""

    def contents(self) -> list[Any]:
        """The weights, as arrays."""

    def executable(self, name: str) -> Any:
        """The code, found or compiled; `name` is for messages."""


class PresentWeights:
    """Code for a program with the weights that it has now, for this machine's CPU."""

    def __init__(self, traced: Traced):
        self._traced = traced
        self._arrays = [tensor._value for tensor in traced.captured]

    def holds(self) -> bool:
        """Whether the program still has these weights: nobody writes to the array of a tensor."""
        return all(map(is_, self._arrays, [tensor._value for tensor in self._traced.captured]))

    def contents(self) -> list[Any]:
        """The weights, as arrays."""
        return list(self._arrays)

    def executable(self, name: str) -> Any:
        """The code, found or compiled; `name` is for messages."""
        from polyreme.executables import load_module

        return load_module(self._traced.frozen(self._arrays), name)


class FixedWeights:
    """Code for a program of a saved model that has the model's weights in it: for this machine's CPU, for as long as nobody changes them."""

    def __init__(self, identity: str, traced: Traced, weights: SavedWeights, ops: int, check_unchanged: Callable[[], None]):
        """`identity` tells the model's files from any others; so many `ops` are compiled. `check_unchanged` raises an error where the files have changed."""
        self._identity = identity
        self._traced = traced
        self._weights = weights
        self.ops = ops
        self.check_unchanged = check_unchanged

    def holds(self) -> bool:
        """Whether the weights are those of the file."""
        return self._weights.unchanged()

    @property
    def key(self) -> str:
        """Under which the code is kept."""
        from polyreme.kept import compiler_version, machine_text
        from polyreme.runtime.cache import digest_of

        return digest_of("fixed weights", self._identity, machine_text(None), compiler_version())

    def module(self) -> Module:
        """What is compiled: this reads the model, with weights that are still those of the file if it is unchanged afterwards."""
        from polyreme.lowering.workers import is_apart

        self.check_unchanged()
        # A file that is cut off ends the process that looks at what it has mapped of it: that must be none but one that compiles.
        return self._traced.frozen(self._weights.mapped() if is_apart() else self._weights.copied())

    def contents(self) -> list[Any]:
        """The weights of the file, as arrays."""
        return self._weights.arrays()

    def executable(self, name: str) -> Any:
        """The code, found or compiled; `name` is for messages."""
        from polyreme.kept import load_known

        try:
            return load_known(self.key, self.module, self.ops, c_name(name), self.check_unchanged)
        except PolyremeError:
            # A file that is cut off while it is read ends the process that compiles.
            self.check_unchanged()
            raise
        finally:
            # The weights that it is compiled of are in the code then.
            self._weights.release()


class Program:
    """One traced signature. Code is generated when it is first needed, and kept per device and set of arguments that need gradients.

    With `fixed`, results come from code that has the weights in it, until they are changed.
    """

    def __init__(self, traced: Traced, name: str, fixed: WeightsInCode | None = None):
        self.traced = traced
        self.name = name
        self.fixed = fixed
        self._fixed_run: Any = None
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

    def __call__(self, inputs: Sequence[Tensor], trains: bool = True) -> list[Tensor]:
        """The outputs; tensors that the function writes to get their new contents.

        Where gradients may be asked for, results come from the program that makes ready for them if it `trains`, or was asked for some before.
        """
        args = [inputs[source] if isinstance(source, int) else source for source in self.traced.sources]
        if self.fixed is not None and not self.fixed.holds():
            self.fixed = self._fixed_run = None
        fixed = self.fixed is not None and current_place().is_cpu_place()
        if tape.is_grad_enabled():
            wrt = tuple(i for i, t in enumerate(args) if not t.stop_gradient and t.type.dtype.is_float)
            if wrt:
                if fixed and not trains and (get_device(), wrt) not in self._training:
                    return self._run_fixed_recorded(inputs, args, wrt)
                return self._run_recorded(args, wrt)
        if fixed:
            return self._run_fixed(inputs)
        where = get_device()
        if where not in self._inference:
            self._inference[where] = compile_function(self.traced.func, self.name, "always")
        return self._results(self._inference[where].run([t._value for t in args]))

    def _run_fixed(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if self._fixed_run is None:
            assert self.fixed is not None
            self._fixed_run = self.fixed.executable(self.name).run
        return [Tensor._wrap(array) for array in self._fixed_run([t._value for t in inputs])]

    def _run_fixed_recorded(self, inputs: Sequence[Tensor], args: Sequence[Tensor], wrt: tuple[int, ...]) -> list[Tensor]:
        """As `_run_recorded`, but what gradients need is computed once they are asked for."""
        fixed, where = self.fixed, get_device()
        assert fixed is not None
        results = self._run_fixed(inputs)
        given = [tensor._value for tensor in inputs]

        def gradients(*grads: Tensor | None) -> list[Tensor | None]:
            weights = iter(fixed.contents())
            contents = [given[source] if isinstance(source, int) else next(weights) for source in self.traced.sources]
            with on_device(where):
                halves = self._halves(wrt)
            return self._backward(halves, args, wrt, contents, halves.forward.run(contents), grads)

        tape.record_function(args, results, gradients, self.name)
        return results

    def _results(self, arrays: Sequence[Any]) -> list[Tensor]:
        count = self.traced.output_count
        for tensor, array in zip(self.traced.written, arrays[count:], strict=False):
            tensor._put(array)
        return [Tensor._wrap(array) for array in arrays[:count]]

    def _run_recorded(self, args: Sequence[Tensor], wrt: tuple[int, ...]) -> list[Tensor]:
        halves = self._halves(wrt)
        given = [t._value for t in args]
        made = halves.forward.run(given)
        results = self._results(made)
        # Not all that was given: what nobody else holds goes.
        given = [array if i in halves.saved else None for i, array in enumerate(given)]
        tape.record_function(args, results, lambda *grads: self._backward(halves, args, wrt, given, made, grads), self.name)
        return results

    def _backward(
        self, halves: Differentiable, args: Sequence[Tensor], wrt: tuple[int, ...], given: Sequence[Any], made: Sequence[Any], grads: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        """The gradients of all `args`, of which those in `wrt` have any: of a run of the forward half, which took `given` and has `made` results and residuals."""
        if tape.is_grad_enabled():
            raise RuntimeError(
                f"expected gradients of the first order of the compiled function '{self.name}' but got create_graph=True; run it without to_static"
            )
        count = self.traced.output_count + len(self.traced.written)
        kept = [*(given[i] for i in halves.saved), *made[count:]]
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

    def _halves(self, wrt: tuple[int, ...]) -> Differentiable:
        key = get_device(), wrt
        if key not in self._training:
            self._training[key] = self._differentiate(wrt)
        return self._training[key]

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
    from polyreme.ir.builtin import Module
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
