"""`PyLayer`: a step whose forward and backward are the user's Python."""

from __future__ import annotations

from typing import Any

from polyreme import tape
from polyreme.static.mode import in_dynamic_mode
from polyreme.tensor import Tensor

__all__ = ["PyLayer", "PyLayerContext"]


class PyLayerContext:
    """What `forward` leaves for `backward`: saved tensors, and any attributes the user sets."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._materialize = True
        self._non_differentiable: set[int] = set()
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
                    f"expected tensor {i} of save_for_backward (shape {list(tensor.shape)}) at version {version} but it was changed in place "
                    f"(version {tensor._version}); save a clone()"
                )
        return self._saved

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The same as `saved_tensor()`."""
        return self.saved_tensor()

    def mark_not_inplace(self, *args: Any) -> None:
        """Taken for compatibility: results here never share memory with inputs that are changed."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Results that need no gradient."""
        self._non_differentiable = {id(t) for t in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (True, the default) or None for a result that has no gradient."""
        self._materialize = value


class PyLayer:
    """Subclass it with static `forward(ctx, *args, **kwargs)` and `backward(ctx, *grads)`, and call `apply`.

    `backward` is given one gradient per Tensor that `forward` returned, and returns one (or None) per Tensor among `forward`'s
    positional arguments.
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
        context = PyLayerContext()
        inputs = [a for a in args if isinstance(a, Tensor)]
        context.needs_input_grad = tuple(not t.stop_gradient for t in inputs)
        with tape.no_grad():
            results = cls.forward(context, *args, **kwargs)
        several = isinstance(results, (tuple, list))
        outputs = list(results) if several else [results]
        # A result that is an argument itself gets a place of its own in the graph.
        outputs = [o.detach() if isinstance(o, Tensor) and any(o is i for i in inputs) else o for o in outputs]
        tensors = [o for o in outputs if isinstance(o, Tensor)]
        if not tensors:
            raise ValueError(f"expected a Tensor among what {cls.__name__}.forward returns but got {results!r}")
        types = [t.type for t in tensors]

        def backward(*grads: Any) -> list[Any]:
            from polyreme.dispatch import full

            if context._materialize:
                grads = tuple(full(t.shape, 0, t.dtype) if g is None else g for g, t in zip(grads, types, strict=True))
            given = cls.backward(context, *grads)
            given = list(given) if isinstance(given, (tuple, list)) else [given]
            if len(given) != len(inputs):
                raise ValueError(
                    f"expected {len(inputs)} gradients from {cls.__name__}.backward (one per Tensor argument of forward) but got {len(given)}"
                )
            for i, (gradient, tensor) in enumerate(zip(given, inputs, strict=True)):
                if gradient is not None and list(gradient.shape) != list(tensor.shape):
                    raise ValueError(
                        f"expected gradient {i} of {cls.__name__}.backward to have shape {list(tensor.shape)} but got {list(gradient.shape)}"
                    )
            return given

        originals = [r for r in (results if several else [results]) if isinstance(r, Tensor)]
        from polyreme import dispatch

        recorder = dispatch.active_trace()
        if recorder is not None and tape.is_grad_enabled() and any(context.needs_input_grad):
            tensors = list(recorder.custom_gradient(tensors, inputs, backward, cls.backward, f"{cls.__name__}.backward", context._materialize))
            made = iter(tensors)
            outputs = [next(made) if isinstance(o, Tensor) else o for o in outputs]
        tape.record_function(inputs, tensors, backward, cls.__name__)
        for tensor, original in zip(tensors, originals, strict=True):
            if id(original) in context._non_differentiable:
                tensor.stop_gradient = True
        if not several:
            return outputs[0]
        return type(results)(outputs) if isinstance(results, list) else tuple(outputs)
