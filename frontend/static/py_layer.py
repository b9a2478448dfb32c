"""PyLayers in static mode: one operator, whose forward and backward are traced into the compiled program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from polyreme.function_steps import tensors_of
from polyreme.static.current import default_main_program
from polyreme.static.inference import inferred_types
from polyreme.static.kinds import Applied, OperatorKind, Slots
from polyreme.static.operator import Operator, OperatorError
from polyreme.static.recorder import temporary, variable_of
from polyreme.tensor import Tensor

__all__ = ["append_py_layer"]


class _LayerCall(NamedTuple):
    """A PyLayer and its arguments, tensors left out."""

    layer: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, tensors: Iterator[Tensor]) -> Any:
        args = [_filled(a, tensors) for a in self.args]
        return self.layer.apply(*args, **{name: _filled(a, tensors) for name, a in self.kwargs.items()})


_TENSOR = object()


def _emptied(argument: Any) -> Any:
    """The argument with what says where a tensor was in place of its tensors."""
    return _TENSOR if isinstance(argument, Tensor) else [_TENSOR] * len(argument) if tensors_of(argument) else argument


def _filled(argument: Any, tensors: Iterator[Tensor]) -> Any:
    if argument is _TENSOR:
        return next(tensors)
    return [next(tensors) for _ in argument] if isinstance(argument, list) and argument and argument[0] is _TENSOR else argument


class PyLayerKind(OperatorKind):
    """`data` is a `_LayerCall`. While operators are translated, `apply` of the PyLayer emits its forward ops, and the tape knows its
    backward.
    """

    def attributes(self, op: Operator) -> Collection[str]:
        return ()

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        made = op.data(iter(inputs.get("X", ())))
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        if not all(isinstance(r, Tensor) for r in results):
            raise OperatorError(
                f"expected the forward of '{op.data.layer.__name__}' to return tensors only in static mode but got {results!r}", op.location
            )
        return {"Out": results}


PY_LAYER = PyLayerKind()


def append_py_layer(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Append a call of `layer` to the current block: a variable for its result, or a tuple of them."""
    block = default_main_program().current_block()
    names = [variable_of(t, block).name for a in (*args, *kwargs.values()) for t in tensors_of(a)]
    data = _LayerCall(layer, tuple(map(_emptied, args)), {name: _emptied(a) for name, a in kwargs.items()})
    op = Operator(block, "py_layer", PY_LAYER, {"X": names}, {}, block.program.role_attributes(), data)
    results = [temporary(block, f"py_layer_{layer.__name__}", kind) for kind in inferred_types(op, PY_LAYER)["Out"]]
    op.outputs["Out"] = [v.name for v in results]
    block.place(op, len(block.ops))
    return results[0] if len(results) == 1 else tuple(results)
