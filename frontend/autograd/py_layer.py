"""`PyLayer`: a step whose forward and backward are the user's Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme import tape
from polyreme.function_steps import record_function, tensors_of
from polyreme.ir.core import OpResult
from polyreme.static.mode import in_dynamic_mode
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["PyLayer", "PyLayerContext"]


class PyLayerContext(Shown):
    """What `forward` leaves for `backward`: saved tensors, and any attributes the user sets."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._materialize = True
        self._non_differentiable: set[int] = set()
        self._not_in_place: set[int] = set()
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`; changing one in place afterwards is an error there."""
        self._saved = tensors
        self._versions = tuple(t._version if isinstance(t, Tensor) else 0 for t in tensors)

    def saved_tensor(self) -> tuple[Any, ...]:
        """What was saved, as a tuple."""
        for i, (tensor, version) in enumerate(zip(self._saved, self._versions, strict=True)):
            if isinstance(tensor, Tensor) and tensor._version != version:
                raise RuntimeError(
                    f"expected tensor {i} of save_for_backward (shape {list(tensor.shape)}) at version {version} but it was changed in "
                    f"place (version {tensor._version}); save a clone()"
                )
        return self._saved

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The same as `saved_tensor()`."""
        return self.saved_tensor()

    def mark_not_inplace(self, *args: Any) -> None:
        """Arguments that are other tensors in the graph than the results they are returned as."""
        self._not_in_place = {id(t) for t in args}

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Results that need no gradient."""
        self._non_differentiable = {id(t) for t in tensors}

    def _in_place(self, argument: Tensor, written: bool) -> bool:
        """Whether an argument that `forward` returns becomes the result itself, as in Paddle. A leaf that needs gradients cannot: if it was
        not written to, the result is another tensor.
        """
        from polyreme import dispatch
        from polyreme.math.elementwise import refuse_leaf

        if id(argument) in self._not_in_place:
            return False
        made_here = dispatch.active_trace() is not None and isinstance(argument._value, OpResult)
        if written or made_here or argument.stop_gradient or not argument.is_leaf:
            refuse_leaf(argument)
            return True
        return not tape.is_grad_enabled()

    def _follow(self, changed: Sequence[Tensor]) -> None:
        """What was saved of these is what they are now that they have become results."""
        self._versions = tuple(
            t._version if any(t is c for c in changed) else v for t, v in zip(self._saved, self._versions, strict=True)
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (True, the default) or None for a result that has no gradient."""
        self._materialize = value


def _per_tensor(returned: Any, arguments: Sequence[Any], needing: Sequence[bool], what: str) -> list[Tensor | None]:
    """What `backward` returned for `arguments`, of which those `needing` gradients had to have one, as one gradient (or None) for each
    Tensor in them; a `ValueError` where number or shape are wrong.
    """
    gradients = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(gradients) == sum(needing) < len(arguments):
        left = iter(gradients)
        gradients = [next(left) if needed else None for needed in needing]
    if len(gradients) != len(arguments):
        raise ValueError(f"expected {len(arguments)} gradients from {what} (one per Tensor argument of forward) but got {len(gradients)}")
    found: list[Tensor | None] = []
    for i, (gradient, argument) in enumerate(zip(gradients, arguments, strict=True)):
        several = not isinstance(argument, Tensor)
        parts = [gradient] if not several else [None] * len(argument) if gradient is None else gradient
        if several and (not isinstance(parts, (list, tuple)) or len(parts) != len(argument)):
            got = f"{len(parts)}" if isinstance(parts, (list, tuple)) else type(parts).__name__
            raise ValueError(f"expected gradient {i} of {what} to be a list of {len(argument)}, since the argument is one, but got {got}")
        for part, tensor in zip(parts, tensors_of(argument), strict=True):
            if part is not None and list(part.shape) != list(tensor.shape):
                raise ValueError(f"expected gradient {i} of {what} to have shape {list(tensor.shape)} but got {list(part.shape)}")
            found.append(part)
    return found


class PyLayer(Shown):
    """Subclass it with static `forward(ctx, *args, **kwargs)` and `backward(ctx, *grads)`, and call `apply`.

    `backward` is given one gradient per Tensor that `forward` returned, and returns one (or None) per Tensor among `forward`'s arguments:
    the positional ones, then those given by name in the order of the call. For a list or tuple of Tensors it returns a list or tuple.
    Arguments that need no gradient may be left out, all of them.
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """The user's computation; not recorded."""
        raise NotImplementedError("You must implement the forward function for PyLayer.")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """The user's gradients."""
        raise NotImplementedError("You must implement the backward function for PyLayer.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, and record the step when a Tensor argument needs a gradient. In static mode both become part of the program."""
        if not in_dynamic_mode():
            from polyreme.static.py_layer import append_py_layer

            return append_py_layer(cls, args, kwargs)
        from polyreme import dispatch

        context = PyLayerContext()
        # An argument is a Tensor, several in a list or tuple, or neither.
        given = [a for a in (*args, *kwargs.values()) if tensors_of(a)]
        inputs = [t for a in given for t in tensors_of(a)]
        context.needs_input_grad = tuple(not t.stop_gradient for t in inputs)
        versions = [t._version for t in inputs]
        with tape.no_grad():
            results = cls.forward(context, *args, **kwargs)
        several = isinstance(results, (tuple, list))
        outputs = list(results) if several else [results]
        needing = [any(not t.stop_gradient for t in tensors_of(a)) for a in given]
        changed: list[Tensor | None] = []
        for i, o in enumerate(outputs):
            version = next((v for t, v in zip(inputs, versions, strict=True) if t is o), None)
            is_changed = version is not None and all(o is not c for c in changed) and context._in_place(o, o._version != version)
            changed.append(o if is_changed else None)
            if version is not None:
                outputs[i] = dispatch.alias(o) if is_changed else o.detach()
        tensors = [o for o in outputs if isinstance(o, Tensor)]
        if not tensors:
            raise ValueError(f"expected a Tensor among what {cls.__name__}.forward returns but got {results!r}")
        types = [t.type for t in tensors]

        def backward(*grads: Any) -> list[Any]:
            from polyreme.dispatch import full

            if context._materialize:
                grads = tuple(full(t.shape, 0, t.dtype) if g is None else g for g, t in zip(grads, types, strict=True))
            return _per_tensor(cls.backward(context, *grads), given, needing, f"{cls.__name__}.backward")

        originals = [r for r in (results if several else [results]) if isinstance(r, Tensor)]
        recorder = dispatch.active_trace()
        if recorder is not None and tape.is_grad_enabled() and any(context.needs_input_grad):
            tensors = list(
                recorder.custom_gradient(tensors, inputs, backward, cls.backward, f"{cls.__name__}.backward", context._materialize)
            )
            made = iter(tensors)
            outputs = [next(made) if isinstance(o, Tensor) else o for o in outputs]
        record_function(inputs, tensors, backward, cls.__name__)
        for tensor, original in zip(tensors, originals, strict=True):
            if id(original) in context._non_differentiable:
                tensor.stop_gradient = True
        outputs = [o if c is None else dispatch.assign(c, o) for o, c in zip(outputs, changed, strict=True)]
        context._follow([c for c in changed if c is not None])
        if not several:
            return outputs[0]
        return type(results)(outputs) if isinstance(results, list) else tuple(outputs)
