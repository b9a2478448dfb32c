"""PyLayers in static mode: one operator, whose forward and backward are traced into the compiled program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from polyreme.ir.diagnostics import caller_location
from polyreme.static.current import default_main_program
from polyreme.static.inference import inferred_types
from polyreme.static.meanings import Applied, Meaning, Slots
from polyreme.static.operator import Operator, OperatorError
from polyreme.static.recorder import temporary, variable_of
from polyreme.tensor import Tensor

__all__ = ["append_py_layer"]


class _Call(NamedTuple):
    """A PyLayer and its arguments, tensors left out."""

    layer: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, tensors: Iterator[Tensor]) -> Any:
        return self.layer.apply(*(next(tensors) if a is _TENSOR else a for a in self.args), **self.kwargs)


_TENSOR = object()


class PyLayerMeaning(Meaning):
    """`data` is a `_Call`. While operators are translated, `apply` of the PyLayer emits its forward ops, and the tape knows its backward."""

    def attributes(self, op: Operator) -> Collection[str]:
        return ()

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        made = op.data(iter(inputs.get("X", ())))
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        if not all(isinstance(r, Tensor) for r in results):
            raise OperatorError(f"expected the forward of '{op.data.layer.__name__}' to return tensors only in static mode but got {results!r}", op.location)
        return {"Out": results}


PY_LAYER = PyLayerMeaning()


def append_py_layer(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Append a call of `layer` to the current block: a variable for its result, or a tuple of them. Tensors are positional arguments."""
    if any(isinstance(v, Tensor) for v in kwargs.values()):
        raise OperatorError(f"expected tensors as positional arguments of {layer.__name__}.apply in static mode but got one by name", caller_location())
    block = default_main_program().current_block()
    names = [variable_of(a, block).name for a in args if isinstance(a, Tensor)]
    data = _Call(layer, tuple(_TENSOR if isinstance(a, Tensor) else a for a in args), kwargs)
    op = Operator(block, "py_layer", PY_LAYER, {"X": names}, {}, block.program.role_attributes(), data)
    results = [temporary(block, f"py_layer_{layer.__name__}", kind) for kind in inferred_types(op, PY_LAYER)["Out"]]
    op.outputs["Out"] = [v.name for v in results]
    block.place(op, len(block.ops))
    return results[0] if len(results) == 1 else tuple(results)
