"""The gradient of an op by way of what it is made of: for ops whose own gradient is too rare to be worth a rule in formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects.nn import Add
from polyreme.ir.core import Op
from polyreme.lowering.gradients.table import GRADIENTS, Emitter, Value


class _Made:
    """An op that was emitted: operands, attributes and results by name, as gradient rules expect of an op."""

    def __init__(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any], results: tuple[Value, ...]):
        self.cls, self.results = cls, results
        self.given = [*operands, *[None] * (len(cls.definition.operands) - len(operands))]
        self.named = {part.name: value for part, value in zip(cls.definition.operands, self.given, strict=True)}
        self.named |= cls.definition.bind_attributes(attributes)

    def __getattr__(self, name: str) -> Any:
        if name not in self.named:
            raise AttributeError(f"'{self.cls.name}' has no operand or attribute '{name}'")
        return self.named[name]

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(v for entry in self.given for v in _several(entry))

    @property
    def result(self) -> Value:
        (result,) = self.results
        return result


def _several(entry: Any) -> tuple[Value, ...]:
    return () if entry is None else tuple(entry) if isinstance(entry, (list, tuple)) else (entry,)


def gradients_through(
    b: Emitter, compose: Callable[[Emitter], Sequence[Value]], operands: Sequence[Value | None], grads: Sequence[Value | None]
) -> list[Value | None]:
    """Gradients of `operands` from those of the results of `compose(emitter)`, which makes them of the operands by ops that have rules.

    None for absent operands, and for those that no gradient reaches.
    """
    made: list[_Made] = []
    # By identity: tensors of the eager tape compare their elements.
    active = {id(v) for v in operands if v is not None}

    def emit(cls: type[Op], *given: Any, **attributes: Any) -> Any:
        results = b(cls, *given, **attributes)
        step = _Made(cls, given, attributes, results if isinstance(results, tuple) else (results,))
        if cls in GRADIENTS and any(id(v) in active for v in step.operands):
            made.append(step)
            active.update(id(r) for r in step.results)
        return results

    found: dict[int, Value] = {}

    def add(value: Value, grad: Value | None) -> None:
        if grad is not None and id(value) in active:
            found[id(value)] = b(Add, found[id(value)], grad) if id(value) in found else grad

    results = compose(emit)
    for value, grad in zip(results, grads, strict=True):
        add(value, grad)
    for step in reversed(made):
        if any(id(r) in found for r in step.results):
            rule = GRADIENTS[step.cls](step, b, *(found.get(id(r)) for r in step.results))
            for entry, grad in zip(step.given, rule, strict=True):
                if grad is not None:
                    for value, part in zip(_several(entry), _several(grad), strict=True):
                        add(value, part)
    return [None if v is None else found.get(id(v)) for v in operands]
