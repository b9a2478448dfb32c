"""Over which kinds of shapes cases call functions of `fluid.layers`: what is fed to the programs that they are called in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyreme import fluid
from polyreme.operators.table import LEGACY
from polyreme.static.lod.travel import LOD
from polyreme.tensor import Tensor

__all__ = ["SEQUENCES", "Kinds", "watched"]

SEQUENCES = ("empty", "one", "ragged")
# Operators that read the levels of whatever there is: arrays, and one that counts.
_OF_ANYTHING = {"fill_constant_batch_size_like", "lod_array_length", "read_from_array", "tensor_array_to_tensor", "write_to_array"}


@dataclass
class Kinds:
    """Of one name: the kinds of shapes that there were, how long the sequences of each were, and whether it works on sequences at all,
    which it does where it appends an operator that reads their levels.
    """

    shapes: set[Any] = field(default_factory=set)
    lengths: set[tuple[int, ...]] = field(default_factory=set)
    of_sequences: bool = False

    @property
    def sequences(self) -> list[str]:
        """Which kinds of sequences there were: batches with an empty one, with one alone, and with ragged ones."""
        told = (
            any(0 in sizes for sizes in self.lengths), any(len(sizes) == 1 for sizes in self.lengths),
            any(len(set(sizes) - {0}) > 1 for sizes in self.lengths),
        )  # fmt: skip
        return [kind for kind, there in zip(SEQUENCES, told, strict=True) if there]


def _shape_of(value: Any) -> tuple[Any, tuple[tuple[int, ...], ...]]:
    lengths = getattr(value, "recursive_sequence_lengths", lambda: ())()
    shape = value.shape() if callable(getattr(value, "shape", None)) else np.shape(value)
    return tuple(shape), tuple(tuple(sizes) for sizes in lengths)


def _is_of_sequences(op: Any) -> bool:
    spelling = None if op.type in _OF_ANYTHING else LEGACY.get(op.type)
    return spelling is not None and any(slot.endswith(LOD) for slot in spelling[1].inputs)


@contextmanager
def watched(names: Sequence[str]) -> Iterator[dict[str, Kinds]]:
    """Kinds by name, of what is called and run inside."""
    found: dict[str, Kinds] = defaultdict(Kinds)
    called: dict[int, set[str]] = defaultdict(set)
    programs, undo = [], []

    def note(name: str, given: Sequence[Any]) -> None:
        if fluid.in_dygraph_mode():
            found[name].shapes.add(tuple(tuple(x.shape) for x in given if isinstance(x, Tensor)))
            return
        program = fluid.default_main_program()
        programs.append(program)  # so that no other one gets its number
        called[id(program)].add(name)

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            note(name, args)
            block = fluid.default_main_program().current_block()
            before = set(map(id, block.ops))
            made = function(*args, **kwargs)
            found[name].of_sequences |= any(_is_of_sequences(op) for op in block.ops if id(op) not in before)
            return made

        return call

    def change(owner: Any, attribute: str, value: Any) -> None:
        undo.append((owner, attribute, vars(owner).get(attribute)))
        setattr(owner, attribute, value)

    for name in names:
        value = getattr(fluid.layers, name, None)
        if isinstance(value, type):
            change(value, "__init__", noting(name, value.__init__))
        elif value is not None:
            change(fluid.layers, name, noting(name, value))
    run = fluid.Executor.run

    def run_noting(self: Any, program: Any = None, feed: Any = None, *args: Any, **kwargs: Any) -> Any:
        main = fluid.default_main_program() if program is None else getattr(program, "program", program)
        fed = {name: _shape_of(value) for name, value in feed.items()} if isinstance(feed, dict) else {}
        if id(main) not in called:
            return run(self, program, feed, *args, **kwargs)
        kind = tuple(sorted(fed.items())) or tuple(sorted(str(v.type) for v in main.list_vars() if v.has_shape))
        for name in called[id(main)]:
            found[name].shapes.add(kind)
            found[name].lengths.update(sizes for _, levels in fed.values() for sizes in levels)
        return run(self, program, feed, *args, **kwargs)

    change(fluid.Executor, "run", run_noting)
    try:
        yield found
    finally:
        for owner, attribute, value in reversed(undo):
            if value is None:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, value)
