"""Tensor arrays that the block of a `while` lets grow, where gradients are wanted: they have room for all elements before the loop begins.

How many there will be, the loop's own operators tell: those that its condition and the places of written elements depend on run ahead,
without gradients. Where these read an element of such an array, all operators do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polyreme import dispatch, math, tape
from polyreme.operators.array import array_length
from polyreme.operators.control.arrays import ArrayContents, Count, Elements, Room, with_room
from polyreme.operators.control.blocks import run_while
from polyreme.random import default_generator
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.operator import Operator
    from polyreme.static.program import Block

__all__ = ["LENGTH", "READ", "WRITE", "array_of", "carried_contents", "carried_names", "is_array", "new_arrays", "room_for_arrays"]

WRITE, READ, LENGTH = "write_to_array", "read_from_array", "lod_array_length"
# The slot that names the array.
_SLOTS = {WRITE: "Out", READ: "X", LENGTH: "X"}


def length_name(array: str) -> str:
    """Under which name a loop carries the number of elements of an array with room for more."""
    return array + "@LENGTH"


def array_of(op: Operator) -> str | None:
    """The array that an operator writes or reads an element of, or asks for its length."""
    slot = _SLOTS.get(op.type)
    if slot is None:
        return None
    names = (op.outputs if op.type == WRITE else op.inputs).get(slot, [])
    return names[0] if names else None


def carried_contents(array: str, find: Callable[[str], Tensor | None]) -> ArrayContents | None:
    """What an array holds in a loop that carries its number of elements, None for an array that is one tensor; `find` gives what stands
    under a name.
    """
    count = find(length_name(array))
    if count is None:
        return None
    elements = find(array)
    return Count(count) if elements is None else Room(elements, count)


def carried_names(array: str, contents: ArrayContents) -> list[str]:
    """The names of the parts of such contents."""
    return [length_name(array)] if isinstance(contents, Count) else [array, length_name(array)]


def new_arrays(block: Block, names: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    """The arrays among `names` that have no elements in front of a `while`, whose block writes the first one."""
    return [name for name in names if name not in known and is_array(block, name)]


def is_array(block: Block, name: str) -> bool:
    """Whether a name is a tensor array to the operators of a block."""
    variable = block._find_var_recursive(name)
    return variable is not None and variable.is_tensor_array


def room_for_arrays(block: Block, condition: str, names: Sequence[str], known: Mapping[str, Any], run: Any) -> dict[str, Tensor]:
    """The arrays among `names`, which the block of a `while` writes, with room for what they hold behind the loop, and their numbers of
    elements; nothing where none is of floats. `run(names, known, ops)` is as `run_while` wants it, and runs only `ops` where given.
    """
    arrays = [name for name in names if isinstance(known.get(name), Tensor) and _grows(block, name)]
    if not any(known[name].type.dtype.is_float for name in arrays):
        return {}
    counts = {length_name(name): math.reshape(array_length(known[name]), []) for name in arrays}
    ops = _ops_for_lengths(block, condition, arrays)
    with tape.no_grad(), _draws_again():
        if ops is None:
            made = run_while(condition, [condition, *names], known, run)
            after = dict(zip([condition, *names], made, strict=True))
            lengths = {name: array_length(after[name]) for name in arrays}
        else:
            written = {name for op in ops for name in op.output_arg_names}
            others = [name for name in names if name in written and name not in arrays]
            without = {name: value for name, value in known.items() if name not in arrays}
            made = run_while(condition, [condition, *others, *counts], {**without, **counts}, lambda n, k: run(n, k, ops))
            lengths = dict(zip(arrays, made[1 + len(others) :], strict=True))
    room = {name: with_room(Elements(known[name]), lengths[name]).tensor for name in arrays}
    return {**room, **counts}


def _grows(block: Block, name: str) -> bool:
    """Whether a variable is an array of which the block only writes and reads elements."""
    if not is_array(block, name):
        return False
    uses = [op for op in block.ops if name in (*op.input_arg_names, *op.output_arg_names)]
    return all(array_of(op) == name for op in uses)


def _ops_for_lengths(block: Block, condition: str, arrays: Sequence[str]) -> list[Operator] | None:
    """The operators that say how often the loop runs and where it writes to `arrays`; None if an element of these has a say in it."""
    needed = {condition}
    chosen: set[int] = set()
    found = -1
    while found != len(chosen):
        found = len(chosen)
        for op in reversed(block.ops):
            array = array_of(op)
            counts = array in arrays
            if not (counts and op.type == WRITE) and needed.isdisjoint(op.output_arg_names):
                continue
            if counts and op.type == READ:
                return None
            chosen.add(op.uid)
            needed.update(op.inputs["I"] if counts and op.type == WRITE else () if counts else op.input_arg_names)
    return [op for op in block.ops if op.uid in chosen]


@contextmanager
def _draws_again() -> Iterator[None]:
    """Random numbers that are drawn inside are drawn once more behind it."""
    state = default_generator().state
    before = Tensor._wrap(state._value, state.type)
    yield
    if state._value is not before._value:
        dispatch.assign(state, before)
