"""Tensors of which only the program knows whether they are one and the same, or share contents: what a branch or loop gives, and what it
may give.

In Python `a = x if c else y` makes `a` one of the two, so that a write to `a` is seen in it. In a program `a` is a tensor of its own. That
is no difference as long as nobody who can tell looks: after a write to one of them those are not read any more that may share its contents.
What is there outside of the program, or may be read in a round before the write, is not written to.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from polyreme import views
from polyreme.ir.diagnostics import Location, caller_location
from polyreme.ir.dims import Dim
from polyreme.tensor import Tensor

__all__ = ["Uncertain", "sharing_pairs"]


class Uncertain:
    """Which tensors may be which."""

    def __init__(self) -> None:
        self.olds: dict[int, tuple[Tensor, tuple[Tensor, ...]]] = {}  # by identity: a tensor, and those that it may be, or be a view of
        self.beside: dict[int, tuple[Tensor, ...]] = {}  # the same, seen from both sides
        self.stale: dict[int, tuple[Tensor, Location]] = {}  # those that another one was written to beside, and where
        self.copies: list[tuple[Tensor, Tensor, Dim]] = []  # copies, what they are made of, and a size that is 2 or more where they are
        self.beside_copies: dict[int, tuple[Tensor, tuple[Dim, ...]]] = {}  # those that such sizes keep from having been written to

    def copy(self) -> Uncertain:
        """What is known now, for who may come back to it."""
        made = Uncertain()
        made.olds, made.beside, made.stale = dict(self.olds), dict(self.beside), dict(self.stale)
        made.copies, made.beside_copies = list(self.copies), dict(self.beside_copies)
        return made

    def note(self, made: Tensor, olds: Sequence[Tensor]) -> None:
        """`made` stands for what Python would have as one of several tensors, `olds` among them, or as a view of one."""
        self.olds[id(made)] = made, (*olds, *self.olds.get(id(made), (made, ()))[1])
        for old in olds:
            self.olds.setdefault(id(old), (old, ()))
            self.beside[id(made)] = (*self.beside.get(id(made), ()), old)
            self.beside[id(old)] = (*self.beside.get(id(old), ()), made)

    def note_copy(self, made: Tensor, x: Tensor, size: Dim) -> None:
        """`made` is a copy of `x` where `size` is 2 or more, and else shares its contents."""
        self.copies.append((made, x, size))

    def written_beside_copies(self, tensor: Tensor, may_go_stale: Callable[[Tensor], bool]) -> list[Dim]:
        """Note a write beside copies. The sizes that have to be 2 or more, since what else would be written to is still looked at."""
        needed: list[Dim] = []
        met = {id(t) for t in views.sharing(tensor)}
        waiting: list[tuple[list[Tensor], tuple[Dim, ...]]] = [(views.sharing(tensor), ())]
        while self.copies and waiting:
            family, sizes = waiting.pop()
            here = {id(t) for t in family}
            for made, x, size in self.copies:
                for one, other in ((made, x), (x, made)):
                    if id(one) in here and id(other) not in met:
                        first = sizes or (size,)
                        beside = views.sharing(other)
                        met.update(id(t) for t in beside)
                        waiting.append((beside, first))
                        if not all(map(may_go_stale, beside)):
                            needed += first
                        self.beside_copies.update((id(t), (t, first)) for t in beside)
        return needed

    def copied_from(self, tensor: Tensor) -> tuple[Dim, ...]:
        """The sizes that have to be 2 or more for the contents of a tensor to be what they are known as."""
        found = self.beside_copies.pop(id(tensor), None) if self.beside_copies else None
        return () if found is None else found[1]

    def is_any(self, tensor: Tensor) -> bool:
        """Whether there is another tensor that it may be."""
        return id(tensor) in self.beside

    def written(self, tensor: Tensor, may_go_stale: Callable[[Tensor], bool]) -> bool:
        """Note a write. False if one of those that may share the contents is still looked at for all that is known, as `may_go_stale` has
        it; nothing is noted then.
        """
        if not self.beside:
            return True
        follow = {id(t) for t in views.sharing(tensor)}
        if follow.isdisjoint(self.beside):
            return True
        met, waiting = {id(tensor)}, [tensor]
        others = []
        while waiting:
            held = waiting.pop()
            for other in (*self.beside.get(id(held), ()), *views.sharing(held)):
                if id(other) not in met:
                    met.add(id(other))
                    waiting.append(other)
                    if id(other) not in follow:
                        others.append(other)
        if not all(map(may_go_stale, others)):
            return False
        if others:
            place = caller_location()
            self.stale.update((id(other), (other, place)) for other in others)
        return True

    def is_seen(self, tensor: Tensor, others: Container[int], met: frozenset[int] = frozenset()) -> bool:
        """Whether among `others`, which are identities of tensors, is another one that `tensor` is, or shares contents with, if a tensor
        decides so.
        """
        olds = self.olds.get(id(tensor), (tensor, ()))[1]
        for old in olds:
            if any(other is not tensor and id(other) in others for other in views.sharing(old)):
                return True
        return any(id(old) not in met and self.is_seen(old, others, met | {id(tensor)}) for old in olds)


def sharing_pairs(values: Sequence[Any]) -> list[tuple[int, int]]:
    """The places of pairs of tensors that are the same, or share contents."""
    known = [({id(t) for t in views.sharing(v)} if isinstance(v, Tensor) else set()) for v in values]
    return [(i, j) for i, first in enumerate(known) for j in range(i + 1, len(known)) if id(values[j]) in first]
