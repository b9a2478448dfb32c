"""Conversions: rules that carry a module over the border between two levels.

    nn_to_tensor = Conversion("nn-to-tensor", source="nn", target={"builtin", "func", "tensor"})

    @nn_to_tensor.lower(Softmax)
    def lower_softmax(op, b, x):
        '''exp(x - max) / sum(exp(x - max))'''
        …
        return b(Map, e, total, fn="div")

A rule gets the op, a builder in front of it, and its operands (a tuple for a variadic one, None for an absent one), converted already. It
returns what takes the place of the results. Rules may make ops of the source level, which are converted in turn. A rule that does not apply
returns None and the next one of the class is tried. At the end no op of the source may be left, and none but the target's may have come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from polyreme.ir.builtin import Module
from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import ConversionError, Diagnostic
from polyreme.ir.rewrite import RecordingBuilder

Rule = Callable[..., None | Value | tuple[Value, ...]]

MAX_CHAIN = 32


class Conversion:
    """A table of rules with a declared border; usable as a pass of the same name.

    `source` and `target` are dialect names, one or several; `builtin` and `func` ops are legal on both sides.
    """

    def __init__(self, name: str, source: str | Collection[str], target: str | Collection[str]):
        self.name = name
        self.source = frozenset([source] if isinstance(source, str) else source)
        self.target = frozenset([target] if isinstance(target, str) else target) | {"builtin", "func"}
        self.rules: dict[type[Op], list[Rule]] = {}

    @property
    def takes(self) -> tuple[str, ...]:
        """The levels whose modules it is for, as `PassLike` has it."""
        return tuple(sorted(self.source))

    @property
    def leaves(self) -> str:
        """The level that they are at afterwards."""
        return min(self.target - {"builtin", "func"} - self.source, default="")

    def __repr__(self) -> str:
        return f"<conversion {self.name}>"

    def lower(self, *kinds: type[Op]) -> Callable[[Rule], Rule]:
        """Add the decorated rule for ops of exactly these classes, after the rules they have already."""

        def add(rule: Rule) -> Rule:
            for kind in kinds:
                self.rules.setdefault(kind, []).append(rule)
            return rule

        return add

    def run(self, module: Module) -> None:
        """Convert the module in place; `ConversionError` names every op that is left over and the rules that were tried."""
        self.convert(module)

    def convert(self, root: Op) -> None:
        """As `run`, for everything inside `root`."""
        faults: list[Diagnostic] = []
        self._convert_regions(root, faults, 0)
        if faults:
            raise ConversionError(faults)

    def _convert_regions(self, op: Op, faults: list[Diagnostic], chain: int) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block:
                    self._convert(inner, faults, chain)

    def _convert(self, op: Op, faults: list[Diagnostic], chain: int) -> None:
        if op.dialect not in self.source:
            if op.dialect not in self.target:
                faults.append(
                    Diagnostic(
                        f"'{op.name}' is not legal after '{self.name}', whose target is {', '.join(sorted(self.target))}", op.location
                    )
                )
            self._convert_regions(op, faults, chain)
            return
        if chain > MAX_CHAIN:
            faults.append(Diagnostic(f"the rules of '{self.name}' for '{op.name}' make such ops again without end", op.location))
            return
        operands = op.definition.split(op.operands, op.segments)
        for rule in self.rules.get(type(op), ()):
            b = RecordingBuilder(op)
            made = rule(op, b, *operands)
            if made is not None:
                values = (made,) if isinstance(made, Value) else tuple(made)
                self._check_count(rule, op, values)
                op.replace_with(*values)
                for new in b.inserted:
                    if new.parent is not None:
                        self._convert(new, faults, chain + 1)
                return
            for new in reversed(b.inserted):
                new.erase()
        tried = ", ".join(rule.__name__ for rule in self.rules.get(type(op), ()))
        why = f"the rules tried were {tried}" if tried else "it has no rule for it"
        faults.append(
            Diagnostic(
                f"'{self.name}' cannot take '{op.name}' to {', '.join(sorted(self.target - {'builtin', 'func'}))}: {why}", op.location
            )
        )

    def _check_count(self, rule: Rule, op: Op, values: tuple[Value, ...]) -> None:
        if len(values) != len(op.results):
            raise ConversionError(
                f"the rule '{rule.__name__}' made {len(values)} values for the {len(op.results)} results of '{op.name}'",
                op.location,
                code="E0405",
            )
