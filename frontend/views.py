"""Views: tensors that share their contents with another one, so that a write to any of them is seen in all.

Nobody writes into an array. Tensors that share contents have a `Storage` in common. One of them is its owner, from which the others were
made; these know the *steps* (ops with their attributes) that lead from the owner's contents to theirs. A write to the owner, or to a view,
gives the owner its next contents, in which for a write to a view the steps are undone around what stays; the contents of all others are
then made anew by their steps. They are given to them there and then, so that to read a tensor costs nothing.

Gradients: what is written with a place in the graph gives the owner a place in the graph as well, and so the views. A view that was
detached, or made while nothing was recorded, shares contents only: what is written through it changes no graph but its own. And a leaf that
needs gradients stays a leaf, whatever is written through its views.

A view is registered by `dispatch.view` or `link`; `dispatch.assign` and `Tensor._put` have the others follow. What a tensor has in its slot
`_view` is None where it never had to do with views, its storage where it is the owner, and else a tuple (storage, steps, owner), in which a
view that shares contents only has no owner. So the other views keep the owner alive, whose graph may be large, but nothing keeps a view
alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from polyreme import tape
from polyreme.dialects import nn as ops
from polyreme.dialects.shape_rules import padded_size, sliced_shape
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim, Expr, product, substitute, symbols
from polyreme.ir.sizes.equations import gaps
from polyreme.ir.types import TensorType, i1
from polyreme.pending import Pending
from polyreme.provided import provided, provides
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.recorder import Recorder

__all__ = [
    "Step", "Storage", "alias", "become", "can_reshape", "copied_from", "counts_on_rows", "gaps_to_reshape", "is_contiguous",
    "is_gradient_leaf", "leave",
    "link", "put", "sharing", "stand_in", "strides", "without_place", "write", "write_recorded",
]  # fmt: skip

Array = np.ndarray[Any, Any]
# An op, its operands behind the first, and its attributes.
Step = tuple[type[Op], tuple[Any, ...], dict[str, Any]]
# References to views that are no more are thrown away when there are this many, and twice as many as were alive then.
SLACK = 16
# So many axes at once are tried with one element, and so many numbers of a name to give a size of 1.
MOST_ONES, MOST_TRIED = 3, 64


class Storage:
    """What tensors that share contents have in common: weak references to them all, and the contents, which may outlive the owner."""

    __slots__ = ("members", "most", "owner", "pinned", "value")

    def __init__(self, owner: Tensor):
        self.owner = ref(owner)
        self.value = owner._value
        self.pinned: Tensor | None = None  # an owner that nobody else keeps
        self.members = [self.owner]
        self.most = SLACK

    def contents(self) -> Any:
        """The array, or the IR value, that the owner has, or had."""
        owner = self.owner()
        value = self.value if owner is None else owner._value
        return value.resolve("a write through a view") if value.__class__ is Pending else value

    def add(self, member: Tensor) -> None:
        if len(self.members) >= self.most:
            self.members = [r for r in self.members if r() is not None]
            self.most = 2 * len(self.members) + SLACK
        self.members.append(ref(member))

    def others(self, tensor: Tensor) -> list[Tensor]:
        """All who share the contents, besides `tensor`."""
        return [member for r in self.members if (member := r()) is not None and member is not tensor]

    def remove(self, tensor: Tensor) -> None:
        self.members = [r for r in self.members if r() is not tensor]


def link(x: Tensor, result: Tensor, steps: tuple[Step, ...], attached: bool) -> None:
    """Let `result`, which `steps` made of `x`, be a view of it; of its contents only unless it is `attached` to the graph."""
    known = x._view
    if known is None:
        owner = x
        storage = x._view = Storage(x)
    elif known.__class__ is Storage:
        storage, owner = known, x
    else:
        storage, before, owner = known
        steps = before + steps
    result._view = storage, steps, owner if attached else None
    result._version = x._version
    storage.add(result)


def _storage_of(tensor: Tensor) -> Storage:
    known = tensor._view
    return known if known.__class__ is Storage else known[0]


def is_gradient_leaf(tensor: Tensor) -> bool:
    """Whether it is a leaf that needs gradients, and stays one."""
    return tensor.is_leaf and not tensor.stop_gradient


def _reaches_the_graph(tensor: Tensor, value: Tensor) -> bool:
    """Whether the place of `value` in the graph becomes part of that of all that share contents with `tensor`, when it is written there."""
    if value.is_leaf or not tape.is_grad_enabled():
        return False
    known = tensor._view
    return known.__class__ is Storage or known[2] is not None and not is_gradient_leaf(known[2])


def sharing(tensor: Tensor) -> list[Tensor]:
    """All who share contents with a tensor, itself among them."""
    return [tensor] if tensor._view is None else [tensor, *_storage_of(tensor).others(tensor)]


# --- writes


def write(tensor: Tensor, value: Tensor) -> None:
    """Let all that shares contents with `tensor` follow, which is about to have the contents of `value`, and its place in the graph if it
    has one.
    """
    if value.type != tensor.type:
        leave(tensor)
        return
    storage = _storage_of(tensor)
    others = storage.others(tensor)
    recorded = _reaches_the_graph(tensor, value)
    whole = value
    if tensor._view is storage:
        if not others:
            tensor._view = None
            return
        storage.value = value._value
    else:
        _, steps, owner = tensor._view
        if recorded:
            whole = _written(alias(owner), steps, value)
            _take_over(owner, whole)
            storage.value = whole._value
        else:
            storage.value = _array_written(storage, steps, value._value)
    _follow(storage, others, tensor._version + 1, whole if recorded else None)


@provides
def put(tensor: Tensor, array: Any) -> None:
    """Let all that shares contents with `tensor` follow, which is about to have this array; the graph stays as it is."""
    storage = _storage_of(tensor)
    others = storage.others(tensor)
    if tensor._view is storage:
        if not others:
            tensor._view = None
            return
        storage.value = array
    else:
        storage.value = _array_written(storage, tensor._view[1], array)
    _follow(storage, others, tensor._version + 1, None)


def _follow(storage: Storage, others: Sequence[Tensor], version: int, whole: Tensor | None) -> None:
    """Give `others` what is in the storage now, and those attached to the graph a place behind `whole`, where that is given."""
    for other in others:
        other._version = version
        if not isinstance(other._value, np.ndarray):
            continue  # of a trace that is over
        if other._view is storage:
            other._value = storage.value
        elif whole is not None and other._view[2] is not None:
            _take_over(other, _seen(whole, other._view[1]))
        else:
            other._value = _array_seen(storage.value, other._view[1])


def _take_over(tensor: Tensor, made: Tensor) -> None:
    tensor._value = made._value
    if made._node is not None:
        tensor._node, tensor._index, tensor.stop_gradient = made._node, made._index, False


def write_recorded(recorder: Recorder, tensor: Tensor, value: Tensor) -> None:
    """As `write`, `tensor` included, while ops are recorded: the owner is assigned to, and all others follow."""
    if value.type != tensor.type:
        leave(tensor)
        recorder.assign(tensor, value)
        return
    storage = _storage_of(tensor)
    owner = storage.owner()
    if owner is None:
        owner = _new_owner(storage)
    recorded = _reaches_the_graph(tensor, value)
    whole = value
    if tensor is not owner:
        with tape.recording(recorded):
            whole = _written(recorder.alias(owner), tensor._view[1], value if recorded else recorder.contents(value))
        recorder.follow(tensor, value)
    others = storage.others(tensor)
    recorder.assign(owner, whole)
    if not isinstance(storage.value, np.ndarray):
        storage.value = owner._value
    for other in others:
        if other is not owner and recorder.is_reachable(other):
            attached = recorded and other._view[2] is not None
            with tape.recording(attached):
                recorder.follow(other, _seen(recorder.alias(owner) if attached else recorder.contents(owner), other._view[1]))


def without_place(made: Tensor) -> Tensor:
    """A new tensor, out of the graph."""
    made._node, made._index, made.stop_gradient = None, 0, True
    return made


def _new_owner(storage: Storage) -> Tensor:
    """An owner in place of one that is no more."""
    owner = Tensor._wrap(storage.value)
    owner._view = storage
    storage.owner = ref(owner)
    storage.pinned = owner
    storage.add(owner)
    return owner


# --- tensors that are seen otherwise from now on


def alias(tensor: Tensor) -> Tensor:
    """Another tensor that is what `tensor` is now, for the graph to keep."""
    made = Tensor._wrap(tensor._value, tensor._type)
    made.stop_gradient, made._node, made._index, made._place = tensor.stop_gradient, tensor._node, tensor._index, tensor._place
    return made


def stand_in(tensor: Tensor, made: Tensor) -> Tensor:
    """Put `made`, an alias of `tensor`, in its place among those that share contents, of which `tensor` is none any more."""
    made._version = tensor._version
    known = tensor._view
    if known is not None:
        tensor._view, made._view = None, known
        storage = _storage_of(made)
        storage.remove(tensor)
        storage.add(made)
        if known is storage:
            storage.owner = ref(made)
            for member in storage.others(made):
                if member._view[2] is tensor:
                    member._view = (*member._view[:2], made)
    return made


def put_back(tensor: Tensor, made: Tensor) -> None:
    """Undo `stand_in`."""
    known = made._view
    if known is None:
        return
    storage = _storage_of(made)
    storage.remove(made)
    storage.add(tensor)
    made._view, tensor._view = None, known
    if known is storage:
        storage.owner = ref(tensor)
        for member in storage.others(tensor):
            if member._view[2] is made:
                member._view = (*member._view[:2], tensor)


def leave(tensor: Tensor) -> None:
    """Let `tensor` share its contents with nobody; the others go on."""
    stand_in(tensor, alias(tensor))


def become(tensor: Tensor, result: Tensor) -> None:
    """Let `tensor` be what `result` is, a view of its stand-in if it is one: its contents are the same, seen in another shape or order."""
    known = result._view
    tensor._value, tensor._type, tensor._place = result._value, result._type, result._place
    if tensor._value.__class__ is Pending:
        tensor._value.held_by(tensor)
    if result._node is not None:
        tensor._node, tensor._index, tensor.stop_gradient = result._node, result._index, result.stop_gradient
    # Another number than it had tells the graph of the change; where it is that of the others already, they have not changed.
    tensor._version = result._version + (tensor._version == result._version)
    if known is None:
        return
    storage, steps, owner = known
    storage.remove(result)
    others = storage.others(tensor)
    if all(other is owner for other in others) and all(cls is ops.Reshape for cls, _, _ in steps):
        return  # alone, and row by row
    tensor._view = known
    storage.add(tensor)
    for other in others:
        other._version = tensor._version


# --- steps


def _array_seen(array: Array, steps: Sequence[Step]) -> Array:
    """What the steps make of an array: the part of it, without a copy where the array lies row by row."""
    for cls, operands, attributes in steps:
        array = cls.reference(array, *(o._value for o in operands), **attributes)  # type: ignore[attr-defined]
    return array


def _array_written(storage: Storage, steps: Sequence[Step], array: Array) -> Array:
    """The contents, with `array` in the part that the steps see."""
    held = storage.contents()
    if not isinstance(held, np.ndarray):
        raise RuntimeError(
            "expected to write to a view of a tensor with contents but got one of a tensor that belongs to a traced function"
        )
    copied = held.copy()
    part = _array_seen(copied, steps)
    if part.size and not np.may_share_memory(part, copied):
        raise AssertionError("expected steps of views that copy nothing")
    part[...] = array
    return copied


def _seen(whole: Tensor, steps: Sequence[Step]) -> Tensor:
    """What the steps make of a tensor."""
    for cls, operands, attributes in steps:
        whole = provided.call(cls, whole, *operands, **attributes)
    return whole


def _written(whole: Tensor, steps: Sequence[Step], value: Tensor) -> Tensor:
    """`whole`, with `value` in the part that the steps see."""
    # What stays around the part is needed as far as a step leaves something out.
    kept = max((i for i, (cls, _, _) in enumerate(steps) if cls in _PARTIAL), default=0)
    held, types = [whole], [whole.type]
    for i, (cls, operands, attributes) in enumerate(steps[:-1]):
        if i < kept:
            held.append(provided.call(cls, held[-1], *operands, **attributes))
        definition = cls.definition
        types += definition.infer_types([types[-1], *(o.type for o in operands)], definition.bind_attributes(attributes))
    for i, (cls, operands, attributes) in reversed(list(enumerate(steps))):
        value = _UNDO[cls](value, types[i], held[min(i, kept)], *operands, **attributes)
    return value


def _undo_reshape(value: Tensor, type: TensorType, held: Tensor, *, shape: tuple[Dim, ...]) -> Tensor:
    return _call(ops.Reshape, value, shape=type.shape)


def _undo_transpose(value: Tensor, type: TensorType, held: Tensor, *, perm: tuple[int, ...]) -> Tensor:
    return _call(ops.Transpose, value, perm=tuple(perm.index(i) for i in range(len(perm))))


def _undo_flip(value: Tensor, type: TensorType, held: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    return _call(ops.Flip, value, axes=axes)


def _undo_slice(
    value: Tensor, type: TensorType, held: Tensor, *, starts: tuple[Dim, ...], stops: tuple[Dim, ...], strides: tuple[Dim, ...]
) -> Tensor:
    """The value among gaps, where it is, and what was held elsewhere."""
    if value.type.shape == type.shape:
        return value
    padding: list[Dim] = []
    for size, taken, start, stride in zip(type.shape, value.type.shape, starts, strides, strict=True):
        padding += [start, size - start - padded_size(taken, 0, 0, stride - 1)]
    gaps = {"padding": tuple(padding), "interior": tuple(stride - 1 for stride in strides)}
    there = _call(ops.Pad, provided.full(value.type.shape, True, i1), value=False, **gaps)
    return _call(ops.Where, there, _call(ops.Pad, value, **gaps), held)


def _undo_gather(value: Tensor, type: TensorType, held: Tensor, index: Tensor, *, axis: int) -> Tensor:
    return _call(ops.Scatter, held, value, index, axis=axis)


def _call(cls: type[Op], *operands: Tensor, **attributes: Any) -> Any:
    return provided.call(cls, *operands, **attributes)


_UNDO: dict[type[Op], Callable[..., Tensor]] = {
    ops.Reshape: _undo_reshape, ops.Transpose: _undo_transpose, ops.Flip: _undo_flip, ops.Slice: _undo_slice, ops.Gather: _undo_gather,
}  # fmt: skip
_PARTIAL = (ops.Slice, ops.Gather)


# --- how the elements of a view lie


@provides
def strides(tensor: Tensor) -> tuple[Dim, ...]:
    """How many elements of the owner, which lie row by row, are between neighbours along each axis."""
    known = tensor._view
    if known is None or known.__class__ is Storage:
        return _by_rows(tensor.type.shape)
    storage, steps, _ = known
    held = storage.contents()
    shape = tuple(held.shape) if isinstance(held, np.ndarray) else held.type.shape
    found = _by_rows(shape)
    for cls, _, given in steps:
        attributes = _with_known_sizes(given)
        if cls is ops.Slice:
            shape = sliced_shape(shape, **attributes)
            found = tuple(n * step for n, step in zip(found, attributes["strides"], strict=True))
        elif cls is ops.Transpose:
            shape, found = (tuple(sizes[i] for i in attributes["perm"]) for sizes in (shape, found))
        elif cls is ops.Flip:
            turned = [a % len(shape) for a in attributes["axes"]]
            found = tuple(-n if i in turned else n for i, n in enumerate(found))
        elif cls is ops.Gather:
            axis = attributes["axis"]
            shape, found = (sizes[:axis] + sizes[axis + 1 :] for sizes in (shape, found))
        else:
            known_strides = _reshaped(shape, found, attributes["shape"])
            if known_strides is None:
                known_strides = _reshaped(shape, found, attributes["shape"], [])  # a call checks that they fill it
            if known_strides is None:
                raise AssertionError(f"expected a view in shape {attributes['shape']} of elements in shape {shape}, {found} apart")
            shape, found = attributes["shape"], known_strides
    return found


def _with_known_sizes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes with what a trace has learned of the sizes in them since the step was made."""
    sizes = getattr(provided.active_trace(), "sizes", None)
    return attributes if sizes is None else {name: sizes.applied(value) for name, value in attributes.items()}


def _by_rows(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def can_reshape(tensor: Tensor, shape: Sequence[Dim]) -> bool:
    """Whether the elements of `tensor` can be seen in another shape where they lie."""
    known = tensor._view
    if known is None or known.__class__ is Storage:
        return True
    return _reshaped(tensor.type.shape, strides(tensor), shape) is not None


def gaps_to_reshape(tensor: Tensor, shape: Sequence[Dim]) -> list[Dim] | None:
    """The sizes that have to be 0 for the elements of a view to be seen where they lie in another shape, which they fill; None if they
    cannot be, or it is not known when.
    """
    if can_reshape(tensor, shape):
        return []
    needed: list[Dim] = []
    found = _reshaped(tensor.type.shape, strides(tensor), shape, needed)
    return None if found is None else needed


def copied_from(tensor: Tensor, shape: Sequence[Dim] | None) -> list[Dim]:
    """The sizes from 2 on of which the elements of a view are copied into another shape, in which they can be seen where they lie if some
    axes have one element; each is a product of sizes of such axes. None for the shape that it has, row by row.
    """
    known = tensor._view
    if known is None or known.__class__ is Storage:
        return []
    old, apart = tensor.type.shape, strides(tensor)
    ones = {size: values for size in dict.fromkeys(old) if isinstance(size, Expr) and (values := _one_where(size)) is not None}
    found: list[tuple[Expr, ...]] = []
    for count in range(1, min(len(ones), MOST_ONES) + 1):
        for sizes in combinations(ones, count):
            if any(set(fewer) <= set(sizes) for fewer in found):
                continue
            values = {name: n for size in sizes for name, n in ones[size].items()}
            here, lie, new = ([substitute(n, values) for n in each] for each in (old, apart, old if shape is None else shape))
            if any(substitute(size, values) != 1 for size in sizes):
                continue
            if _are_rows(here, lie) if shape is None else _reshaped(here, lie, new) is not None:
                found.append(sizes)
    return [product(sizes) for sizes in found]


def _one_where(size: Expr) -> dict[str, int] | None:
    """The least number for its name with which a size of one name is 1."""
    names = symbols(size)
    if len(names) != 1:
        return None
    (name,) = names
    return next(({name: n} for n in range(1, MOST_TRIED) if substitute(size, {name: n}) == 1), None)


def _reshaped(
    shape: Sequence[Dim], strides: Sequence[Dim], new: Sequence[Dim], needed: list[Dim] | None = None
) -> tuple[Dim, ...] | None:
    """The strides in a new shape; None where there are none, or none are known. Old axes that follow each other evenly are one row, which
    the last new axes that are left fill. Elements that lie row by row do so in every shape, also in one of which each call has to check
    that they fill it. Where `needed` is given, the new axes may fill a row if some sizes are 0, which are added to it.
    """
    if any(isinstance(size, int) and size == 0 for size in shape) or _are_rows(shape, strides):
        return _by_rows(new)
    found: list[Dim] = []
    left = list(new)
    row: Dim = 1
    step: Dim = strides[-1] if strides else 1
    for i in range(len(shape) - 1, -1, -1):
        row = row * shape[i]
        if i and (shape[i - 1] == 1 or strides[i - 1] == row * step):
            continue
        filled: Dim = 1
        apart = _apart(filled, row, needed)
        while left and (apart is None or left[-1] == 1):
            found.append(filled * step)
            filled = filled * left.pop()
            apart = _apart(filled, row, needed)
        if apart is None:
            return None
        if needed is not None:
            needed += apart
        row, step = 1, strides[i - 1]
    found += [1] * len(left)
    return tuple(reversed(found)) if all(size == 1 for size in left) else None


def _apart(filled: Dim, row: Dim, needed: list[Dim] | None) -> list[Dim] | None:
    """What has to be 0 for a row to be filled; None if nothing is known that could fill it, or nothing may be needed."""
    return [] if filled == row else None if needed is None else gaps(filled, row)


def counts_on_rows(tensor: Tensor, applied: Callable[[Any], Any]) -> bool:
    """Whether somebody sees the contents of `tensor`, an owner, in a shape of other sizes: a view only where these lie row by row.
    `applied` says what is known of sizes since attributes were given.
    """
    if tensor._view.__class__ is not Storage:
        return False
    for other in tensor._view.others(tensor):
        type = tensor.type
        for cls, operands, attributes in other._view[1] if other._view.__class__ is tuple else ():
            definition = cls.definition
            known = definition.bind_attributes({name: applied(value) for name, value in attributes.items()})
            (made,) = definition.infer_types([type, *(o.type for o in operands)], known)
            if cls is ops.Reshape and [n for n in type.shape if n != 1] != [n for n in made.shape if n != 1]:
                return True
            type = made
    return False


@provides
def is_contiguous(tensor: Tensor) -> bool:
    """Whether its elements lie row by row."""
    return _are_rows(tensor.type.shape, strides(tensor))


def _are_rows(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, _by_rows(shape), strict=True))
