"""Insertion points: where the next op goes, and which location it gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyreme.ir.core import Block, Op
from polyreme.ir.diagnostics import UNKNOWN, Location


class Builder:
    """Inserts ops at one point of a block; ops without a location get the builder's.

    `b(Add, x, y)` makes, inserts and returns the result; `b.insert(Add(x, y))` is the same for an op made already.
    A single result is returned as a value, several as a tuple.
    """

    def __init__(self, block: Block, before: Op | None = None, loc: Location = UNKNOWN):
        self.block = block
        self.before = before
        self.loc = loc

    @classmethod
    def at_end(cls, block: Block, loc: Location = UNKNOWN) -> Builder:
        return cls(block, None, loc)

    @classmethod
    def before_op(cls, op: Op) -> Builder:
        assert op.parent is not None
        return cls(op.parent, op, op.location)

    @classmethod
    def after_op(cls, op: Op) -> Builder:
        assert op.parent is not None
        return cls(op.parent, op.next, op.location)

    def insert(self, op: Op) -> Any:
        self.insert_op(op)
        return op.results[0] if len(op.results) == 1 else tuple(op.results)

    def insert_op(self, op: Op) -> Any:
        """As `insert`, but returns the op."""
        if not op.location:
            op.location = self.loc
        return self.block.insert(op, self.before)

    def __call__(self, cls: type[Op], *operands: Any, **attributes: Any) -> Any:
        return self.insert(cls(*operands, **attributes))

    @contextmanager
    def inside(self, block: Block) -> Iterator[Builder]:
        """Build at the end of `block` meanwhile."""
        saved = self.block, self.before
        self.block, self.before = block, None
        try:
            yield self
        finally:
            self.block, self.before = saved
