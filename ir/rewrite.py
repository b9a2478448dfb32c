"""Patterns, and the driver that applies them until none matches.

    @pattern(Transpose)
    def merge_transposes(op, b):
        '''transpose(transpose(x, p), q)  ->  transpose(x, p[q])'''
        inner = op.x.producer(Transpose)
        if inner is None:
            return None
        return b(Transpose, inner.x, perm=tuple(inner.perm[i] for i in op.perm))

A pattern returns None when it does not match, else what takes the place of the op: one value, or a tuple with one value per
result (`()` erases an op without results). Returning the op's own results says that the op was changed in place. `b` inserts in front of
the op, with its location.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from polyreme.ir import config
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.define import ControlFlow, Terminator, is_pure, tells_sizes
from polyreme.ir.diagnostics import Diagnostic, Location, PassError
from polyreme.ir.python.records import dataclass
from polyreme.ir.timing import open_timing

# How many patterns the error of rewrites without end names, at most, of those that made so many of the last rewrites.
MOST_NAMED = 3
RECENT = 16

Rewrite = Callable[[Any, Builder], None | Value | tuple[Value, ...]]


class RewriteError(PassError):
    """Patterns that never come to an end, or one that changed a type."""

    code = "E0404"


@dataclass(frozen=True)
class Pattern:
    """A rewrite of ops of `kinds`; its docstring is the equation."""

    kinds: tuple[type[Op], ...]
    rewrite: Rewrite

    @property
    def name(self) -> str:
        return self.rewrite.__name__

    @property
    def equation(self) -> str:
        """What it does, in a line."""
        return " ".join((self.rewrite.__doc__ or "").split())

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"


def pattern(*kinds: type[Op]) -> Callable[[Rewrite], Pattern]:
    """Make the decorated function a pattern on ops of exactly these classes."""
    return lambda rewrite: Pattern(kinds, rewrite)


class RecordingBuilder(Builder):
    """A builder that knows what it inserted, in order."""

    def __init__(self, op: Op):
        assert op.parent is not None
        super().__init__(op.parent, op, op.location)
        self.inserted: list[Op] = []

    def insert_op(self, op: Op) -> Any:
        self.inserted.append(op)
        return super().insert_op(op)


def rewrite_greedily(root: Op, patterns: Iterable[Pattern], budget: int | None = None) -> int:
    """Apply `patterns` to the ops inside `root` until none matches, and erase pure ops that nothing uses. How many rewrites that took.

    Patterns are tried in the order given. `budget` caps the rewrites (by default some per op), so that rules that undo each other end in a
    `RewriteError` that names them.
    """
    return _Driver(root, patterns, budget).run()


def erase_unused(func: Func) -> None:
    """Erase pure ops without uses, also those that only such ops use. What tells sizes that others speak of is used."""
    _erase_unused(func.block)


def _erase_unused(block: Block) -> None:
    for op in reversed(block):
        if not op.is_used and not op.has(Terminator) and is_pure(op) and not tells_sizes(op):
            op.erase()
            continue
        for region in op.regions:
            for inner in region.blocks:
                _erase_unused(inner)


class _Driver:
    def __init__(self, root: Op, patterns: Iterable[Pattern], budget: int | None):
        self.root = root
        self.by_kind: dict[type[Op], list[Pattern]] = {}
        for p in patterns:
            for kind in p.kinds:
                self.by_kind.setdefault(kind, []).append(p)
        # A stack of ops to look at, each at most once. Later ops lie deeper, so that producers are simplified first.
        self.pending: dict[Op, None] = dict.fromkeys(reversed([op for op in root.walk() if op is not root]))
        self.budget = 1000 + 32 * len(self.pending) if budget is None else budget
        self.fired: Counter[Pattern] = Counter()
        self.total = 0
        self.latest: dict[Pattern, tuple[str, Location]] = {}  # what each fired on last
        self.recent: deque[Pattern] = deque(maxlen=RECENT)
        self.verbose = config.debug_level() >= 7
        step = open_timing()
        self.timing = step if step is not None and step.detailed else None

    def run(self) -> int:
        while self.pending:
            op, _ = self.pending.popitem()
            if not self.is_in_root(op):
                continue
            if not op.is_used and is_pure(op) and not tells_sizes(op):
                self.erase(op)
                continue
            for p in self.by_kind.get(type(op), ()):
                if self.apply(p, op):
                    break
        return self.total

    def apply(self, p: Pattern, op: Op) -> bool:
        """Whether the pattern matched."""
        b = RecordingBuilder(op)
        # A branch or loop that is changed where it stands may hand on what it took: who reads it is told by what was before, too.
        before = [*_producers(op), *_users(op)] if op.regions else []
        made = p.rewrite(op, b) if self.timing is None else self.measured(p, op, b)
        if made is None:
            for new in reversed(b.inserted):
                new.erase()
            return False
        values = (made,) if isinstance(made, Value) else tuple(made)
        self.count(p, op)
        for new in b.inserted:
            self.push(new)
        if op.results and all(v is r for v, r in zip(values, op.results, strict=False)):
            self.push(op, *_users(op), *_producers(op), *self.control_around(op))
            if op.regions:
                # What it reads no more may be unused, and what is in it may be simpler now.
                self.push(*before, *(inner for inner in op.walk() if inner is not op))
            return True
        self.check_types(p, op, values)
        around = [*_users(op), *_producers(op), *self.control_around(op)]
        for inner in op.walk():
            self.pending.pop(inner, None)
        op.replace_with(*values)
        self.push(*around)
        return True

    def is_in_root(self, op: Op) -> bool:
        """Whether an op is still there: a pattern may have erased it, or what it stands in."""
        at: Op | None = op
        while at is not None and at is not self.root:
            at = at.parent_op
        return at is not None

    def push(self, *ops: Op) -> None:
        for op in ops:
            if op.parent is not None and op is not self.root:
                self.pending[op] = None

    def erase(self, op: Op) -> None:
        around = [*_producers(op), *self.control_around(op)]
        for inner in op.walk():
            self.pending.pop(inner, None)
        op.erase()
        self.push(*around)

    def control_around(self, op: Op) -> list[Op]:
        """The branch or loop that an op stands in, which depends on what is in it."""
        around = op.parent_op
        return [around] if around is not None and around.has(ControlFlow) else []

    def measured(self, p: Pattern, op: Op, b: Builder) -> None | Value | tuple[Value, ...]:
        """The rewrite, as a part of the step that is being timed."""
        assert self.timing is not None
        start = time.perf_counter()
        made = p.rewrite(op, b)
        self.timing.part(p.name).add(time.perf_counter() - start)
        return made

    def count(self, p: Pattern, op: Op) -> None:
        self.fired[p] += 1
        self.total += 1
        self.latest[p] = op.name, op.location
        self.recent.append(p)
        if self.verbose:
            place = f" at {op.location}" if op.location else ""
            print(f"rewrite {p.name}{place}: {op!r}", file=sys.stderr)
        if self.total > self.budget:
            raise self.endless()

    def endless(self) -> RewriteError:
        """The error that names the patterns which keep firing: those of the last rewrites. Others may have fired more often, and be done.
        """
        busiest = sorted(dict.fromkeys(self.recent), key=lambda p: -self.fired[p])[:MOST_NAMED]
        listed = ", ".join(f"'{p.name}' ({self.fired[p]} times)" for p in busiest)
        message = f"expected patterns to come to an end within {self.budget} rewrites but these kept firing: {listed}"
        notes = []
        for p in busiest:
            name, location = self.latest[p]
            equation = f" ({p.equation})" if p.equation else ""
            notes.append(Diagnostic(f"'{p.name}'{equation} fired last on '{name}'", location))
        return RewriteError(Diagnostic(message, self.latest[busiest[0]][1], tuple(notes)))

    def check_types(self, p: Pattern, op: Op, values: Sequence[Value]) -> None:
        old, new = ([v.type for v in group] for group in (op.results, values))
        if old != new:
            before, after = (", ".join(map(str, types)) or "no result" for types in (old, new))
            raise RewriteError(f"the pattern '{p.name}' put {after} in place of {before} of '{op.name}'", op.location, code="E0405")


def _users(op: Op) -> list[Op]:
    return [user for result in op.results for user in result.users]


def _producers(op: Op) -> list[Op]:
    """The ops whose results `op` uses, its regions included; none of those in it, which are gone when it is."""
    found = (value.producer() for inner in op.walk() for value in inner.operands)
    within = set(op.walk()) if op.regions else ()
    return list(dict.fromkeys(p for p in found if p is not None and p not in within))
