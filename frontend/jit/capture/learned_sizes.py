"""What a trace learns of its symbolic sizes: equations that ops ask for, and answers that Python's comparisons of sizes got.

An equation is solved, so that all types say it; one that nothing solves is checked by each call. Comparisons are answered by the sizes of
the call that the function is traced for, `examples`; the program then is for calls whose sizes answer alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from types import FrameType
from typing import Any

from polyreme.ir.core import Block
from polyreme.ir.diagnostics import Location, caller_location
from polyreme.ir.dims import Dim, Expr, UnknownSize, evaluate, known_nonnegative, substitute, symbol, symbols, told
from polyreme.ir.sizes.equations import Solution, solve
from polyreme.ir.sizes.facts import Guard, at_least_zero, checked, fixed_axis, without_implied
from polyreme.ir.sizes.residues import zeros
from polyreme.ir.types import TensorType, type_symbols
from polyreme.lowering.transforms.solve_sizes import specialize_block, with_sizes

__all__ = ["Equation", "LearnedSizes"]

Equation = tuple[Dim, Dim]
# What stands for the op of a guard that Python's code asks for.
PYTHON = "python"


class LearnedSizes:
    """The sizes of the function that is recorded in `block`.

    `solved` has what sizes that are no longer in use were found to be. `decided` says whether a comparison was answered by `examples`.
    """

    def __init__(self, block: Block):
        self.block = block
        self.open: list[Block] = []  # bodies of branches and loops whose op is not there yet
        self.solved: dict[str, Dim] = {}
        self.guards: list[Guard] = []
        self.counts: list[str] = []  # names of sizes that are known once an op has run
        self.examples: dict[str, int] = {}
        self.decided = False
        # free sizes of the inputs as they were at first: name and number of the input, axis, size
        self._axes: list[tuple[str, int, int, Dim]] = []
        self._inputs = 0

    def add_input(self, name: str, type: TensorType, example: Sequence[int] | None = None) -> None:
        """An input comes in; `example` is its shape in the call that the function is traced for."""
        for axis, size in enumerate(type.shape):
            if not isinstance(size, Expr):
                continue
            self._axes.append((name, self._inputs, axis, size))
            if example is not None and (found := told(size, example[axis])) is not None:
                self.examples.setdefault(found[0], int(found[1]))
        self._inputs += 1

    def applied(self, value: Any) -> Any:
        """An attribute, or a size, with what is known of the sizes in it."""
        return with_sizes(value, self.solved) if self.solved else value

    def names(self) -> dict[str, None]:
        """The sizes in use, oldest first."""
        return dict.fromkeys([*(name for arg in self.block.args for name in sorted(type_symbols(arg.type))), *self.counts])

    def axes_of(self, sizes: Iterable[Dim]) -> list[tuple[int, int]]:
        """The axes of inputs that tell the values of these sizes: numbers of inputs and axes."""
        wanted = frozenset().union(*(symbols(self.applied(size)) for size in sizes))
        return [(number, axis) for _, number, axis, size in self._axes if symbols(self.applied(size)) & wanted]

    # --- equations

    def learn(self, equations: Sequence[Equation], op: str, location: Location) -> list[Equation] | None:
        """Have these sizes be equal, as `op` needs it, as far as that can be said of single names: the rest is what is left. None if they
        never are.
        """
        left: list[Equation] = []
        for a, b in equations:
            difference = self.applied(a - b)
            found = solve(difference, 0, [*self.names(), *self.solved], self.solved)
            if found is None or not self._may_take(found):
                if _is_never_zero(difference):
                    return None
                left.append((a, b))
            elif self._contradicts(found):
                return None
            elif found.values:
                self._take(found, found.guards(op, location))
        return [(self.applied(a), self.applied(b)) for a, b in left]

    def ones(self, equations: Sequence[Equation]) -> dict[str, Dim]:
        """The names of sizes in the equations that are 1 in the call that is traced for where the other side is not, with that number."""
        found: dict[str, Dim] = {}
        for pair in equations:
            a, b = map(self.applied, pair)
            values = self._example(a), self._example(b)
            if None not in values and 1 in values and values[0] != values[1]:
                one = solve(a if values[0] == 1 else b, 1, ())
                if one is not None and all(isinstance(size, int) for size in one.values.values()) and self._may_take(one):
                    found |= one.values
        return found

    def repeat(self, ones: Mapping[str, Dim], op: str, location: Location) -> bool:
        """Have these names be 1, as they are in the call that is traced for; False if they cannot be."""
        self.decided = True
        return self.learn([(symbol(name), 1) for name in ones], op, location) == []

    def check(self, equation: Equation, op: str, location: Location) -> bool:
        """Have each call compare the two sizes; False if one of them is known only once an op has run."""
        a, b = (self.applied(size) for size in equation)
        if (symbols(a) | symbols(b)) & set(self.counts):
            return False
        self.guards = without_implied([*self.guards, checked(a, b, op, location)])
        return True

    def _contradicts(self, found: Solution) -> bool:
        """Whether a guard never holds with this solution: so Python took a branch in which the op does not fit."""
        for guard in self.guards:
            size = substitute(guard.size, found.values)
            if guard.is_bound and known_nonnegative(-size - 1) or guard.kind == "checked" and size != 0 and _is_never_zero(size):
                return True
        return False

    def _may_take(self, found: Solution) -> bool:
        """Of what is known once an op has run no number can be checked before."""
        return not any(isinstance(size, int) and name in self.counts for name, size in found.values.items())

    def _take(self, found: Solution, guards: Sequence[Guard]) -> None:
        values = found.values
        for name, size in values.items():
            if name in self.examples and (seen := told(size, self.examples[name])) is not None:
                self.examples.setdefault(seen[0], int(seen[1]))
        free = [(name, axis, size) for name, _, axis, size in self._axes if isinstance(self.applied(size), Expr)]
        self.solved = {name: substitute(size, values) for name, size in self.solved.items()} | values
        fixed = [(name, axis, known) for name, axis, size in free if isinstance(known := self.applied(size), int)]
        made = [g for g in guards if isinstance(g.size, Expr)]
        made += [fixed_axis(name, axis, g, known) for g in guards if isinstance(g.size, int) for name, axis, known in fixed]
        self.guards = without_implied([*(g.substituted(values) for g in self.guards), *made])
        for block in (self.block, *self.open):
            specialize_block(block, values)
        self._look_again()

    def _look_again(self) -> None:
        """What a call was to check may follow by now, or may be solved."""
        for guard in self.guards:
            if guard.kind != "checked":
                continue
            found = solve(guard.size, 0, [*self.names(), *self.solved], self.solved)
            if found is not None and self._may_take(found) and not self._contradicts(found):
                self.guards.remove(guard)
                if found.values:
                    self._take(found, [Guard(need, size, guard.op, guard.place) for need, size in found.needs])
                self._look_again()
                return

    # --- comparisons by Python's code

    def is_less(self, a: Dim, b: Dim) -> bool | None:
        """Whether `a` is less than `b` in the call that is traced for; every call that the program is for answers alike."""
        a, b = self.applied(a), self.applied(b)
        difference = b - a - 1
        if known_nonnegative(difference):
            return True
        if known_nonnegative(a - b):
            return False
        value = self._example(difference)
        if value is None:
            return None
        self._bound(difference if value >= 0 else a - b)
        return value >= 0

    def is_equal(self, a: Dim, b: Dim) -> bool | None:
        """Whether two sizes are equal in the call that is traced for. Of two free sizes it is taken for true where no call tells."""
        a, b = self.applied(a), self.applied(b)
        difference = a - b
        if isinstance(difference, int) or _is_never_zero(difference):
            return difference == 0
        value = self._example(difference)
        if value:
            self._bound(difference - 1 if value > 0 else -difference - 1)
            return False
        location = caller_location()
        if value is None and (isinstance(a, int) or isinstance(b, int)):
            return None
        left = self.learn([(a, b)], PYTHON, location)
        self.decided |= value is not None
        return left is not None and (not left or self.check((a, b), PYTHON, location))

    def compared(self, a: Dim, b: Dim) -> bool:
        """What `a == b` is, of sizes that are written otherwise: code of the user's asks whether they are equal, and our own whether they
        are written alike.
        """
        if not _is_users(sys._getframe(2)):
            return False
        answer = self.is_equal(a, b)
        if answer is None:
            raise UnknownSize(
                f"expected known sizes but got '{a}' and '{b}', of which it is not known while the program is built whether they are equal",
                a,
                b,
            )
        return answer

    def _example(self, size: Dim) -> int | None:
        try:
            return evaluate(size, self.examples)
        except KeyError:
            return None

    def _bound(self, size: Dim) -> None:
        self.decided = True
        self.require(size, caller_location())

    def require(self, size: Dim, location: Location) -> None:
        """Have each call check that a size is not negative."""
        size = self.applied(size)
        if isinstance(size, Expr):
            self.guards = without_implied([*self.guards, at_least_zero(size, PYTHON, location)])

    # --- the end

    def finished_guards(self, told_sizes: frozenset[str] | set[str]) -> list[Guard]:
        """What a call can check before it runs; sizes that are known later are checked where they meet others."""
        return [g for g in self.guards if symbols(g.size) <= told_sizes and (isinstance(g.size, Expr) or g.kind == "fixed")]


_FOR_USERS = frozenset({"polyreme.sizes", "polyreme.jit.capture.watch", "polyreme.jit.capture.calls", "polyreme.jit.capture.branches"})


def _is_never_zero(difference: Dim) -> bool:
    if isinstance(difference, int):
        return difference != 0
    found = zeros(difference)
    constant = next((coef for mono, coef in difference.terms if not mono), 0)
    if constant % gcd(*(coef for mono, coef in difference.terms if mono)):
        return True
    return known_nonnegative(difference - 1) or known_nonnegative(-difference - 1) or (found is not None and not found.residues)


def _is_users(frame: FrameType | None) -> bool:
    """Whether code of the user's compares sizes in this frame, by itself or by a comparison of whole shapes."""
    # A function that is captured has its comparisons done for it.
    while frame is not None and frame.f_globals.get("__name__") in _FOR_USERS:
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return frame is not None and module != "polyreme" and not module.startswith("polyreme.")
