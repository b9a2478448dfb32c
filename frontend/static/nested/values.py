"""The operators of one block, applied one after the other: what its variables stand for at each point."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.control_flow import UNDEFINED
from polyreme.ir.diagnostics import Diagnostic, PolyremeError
from polyreme.ir.dims import Dim
from polyreme.operators.array import index_of
from polyreme.operators.control.arrays import Count
from polyreme.operators.control.blocks import BRANCHES
from polyreme.operators.sequence.ragged import is_ragged, ragged_element, spread
from polyreme.static.emitter import ProgramSource
from polyreme.static.kinds import Applied, Gradient, Host, Slots, gradient_of
from polyreme.static.lod.read_rows import READ_ROWS, positions, without_others
from polyreme.static.lod.travel import LOD, is_level, level_name, levels_to_share, told_levels
from polyreme.static.nested.growing import LENGTH, READ, WRITE, array_of, carried_contents, carried_names
from polyreme.static.nested.uses import blocks_of, names_from_outside
from polyreme.static.operator import Operator, RunError, located
from polyreme.static.variable import GRAD
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.program import Block

# What takes arrays whose elements are the rows of sequences by steps.
_OF_ARRAYS = (READ, LENGTH, "assign")
# What takes arrays whose elements differ in rows or levels.
_OF_RAGGED = (*_OF_ARRAYS, WRITE, "tensor_array_to_tensor", "beam_search_decode")

__all__ = [
    "BlockValues", "host_calls", "is_translating", "levels_around", "missing_value", "run_nested", "values_around",
    "watching",
]  # fmt: skip

MAX_NESTING = 32


class BlockValues:
    """What each name stands for so far. `outside(name)` gives what a name stands for that no operator of the block has written."""

    def __init__(self, block: Block, outside: Callable[[str], Tensor | None]):
        self.block = block
        self.outside = outside
        self.values: dict[str, Tensor] = {}
        self.levels: dict[str, list[Tensor]] = {}  # the levels of detail of what names stand for
        self.rows: dict[str, list[Tensor]] = {}  # the positions that were read, of what is a gradient by rows
        self.applied: MutableMapping[int, Applied] = {}
        self.differentiated = _differentiated(block)

    def levels_of(self, name: str) -> list[Tensor]:
        """The levels of detail of what a name stands for."""
        return self.levels.get(name, [])

    def rows_of(self, name: str) -> list[Tensor]:
        """The positions that were read, of a gradient by rows; none of what is whole."""
        return self.rows.get(name, [])

    def find(self, name: str) -> Tensor | None:
        """What a name stands for at this point, None where it has no value. A variable that Go blocks share is looked up when it runs."""
        calls = host_calls()
        if calls is not None and calls.loads(name):
            loaded: Tensor = calls.load(dispatch.active_trace(), self.block.var_recursive(name))
            return loaded
        return self.known(name)

    def known(self, name: str) -> Tensor | None:
        """The same without what Go blocks may have written."""
        if name not in self.values:
            found = self.outside(name)
            if found is None:
                return None
            self.values[name] = found
        return self.values[name]

    def read(self, name: str, op: Operator | None) -> Tensor:
        """The same; a `RunError` where it has no value."""
        found = self.find(name)
        if found is None:
            raise missing_value(self.block, name, op)
        return found

    def inputs_of(self, op: Operator) -> Slots:
        """The tensors that an operator reads. One that runs a block may name variables that have no value yet: None."""
        optional = op.kind.optional(op)
        return {
            slot: [self.known(name) if slot in optional else self.read(name, op) for name in names]  # type: ignore[misc]
            for slot, names in op.read_slots().items()
        }

    def add(self, op: Operator) -> None:
        """Apply one operator."""
        inputs = self.inputs_of(op)
        for slot in op.kind.level_slots(op):
            inputs[slot] = [level for name in op.inputs.get(slot.removesuffix(LOD), ()) for level in self.levels_of(name)]
        for slot in op.kind.row_slots(op):
            inputs[slot] = [row for name in op.inputs.get(slot.removesuffix(READ_ROWS), ()) for row in self.rows_of(name)]
        if op.type == WRITE:
            if inputs.get("Array"):
                self._let_elements_differ(op, inputs)
        elif op.has_attr("sub_block"):
            self._refuse_rows_by_steps(op, [name for names in op.write_slots().values() for name in names], inputs)
        elif op.type not in _OF_ARRAYS and gradient_of(op) is None:
            self._refuse_rows_by_steps(op, op.input_arg_names, inputs)
        outputs = self.run_host(op, inputs) if isinstance(op.kind, Host) else self._apply(op, inputs)
        for slot, names in op.write_slots().items():
            for place, (name, tensor) in enumerate(zip(names, outputs.get(slot, ()), strict=False)):
                if tensor is not UNDEFINED:
                    rows = outputs.get(slot + READ_ROWS) or positions(op, self.rows_of)
                    tensor = without_others(op, tensor, rows) if rows else tensor
                    self.rows[name] = rows
                    self._hand_on_levels(op, slot, place, tensor, inputs, outputs)
                    self.write(name, tensor)
                    self._show(op, name)

    def _refuse_rows_by_steps(self, op: Operator, names: Sequence[str], inputs: Slots) -> None:
        """An array of the rows of sequences by steps is no tensor, and goes with the table that it was made with. Nor is one whose elements
        differ.
        """
        for name in names:
            levels = self.levels_of(name)
            if not levels or levels[0].ndim == 1:
                continue
            if is_ragged(levels):
                if op.type in _OF_RAGGED or op.has_attr("sub_block"):
                    continue
                why = f"expected tensors in '{op.type}' but the elements of the array '{name}' differ in rows or levels; read them first"
                raise RunError(why, op.location)
            if op.type != "array_to_lod_tensor":
                why = f"expected tensors in '{op.type}' but '{name}' is an array of the rows of sequences by steps; read its elements first"
                raise RunError(why, op.location)
            if inputs["RankTable"][0]._value is not levels[0]._value:
                raise RunError(f"expected the rank table that the array '{name}' was made with but got another one", op.location)

    def _let_elements_differ(self, op: Operator, inputs: Slots) -> None:
        """An array whose elements are alike becomes one whose elements differ where one with other levels is written to it."""
        array = op.outputs["Out"][0]
        own, others = self.levels_of(op.inputs["X"][0]), self.levels_of(array)
        inputs["Array" + LOD] = others
        # The first element that a program writes says what levels those of the array have.
        first = not others and not op.inputs.get("Array")
        if first or is_ragged(others) or [level._value for level in own] == [level._value for level in others]:
            return
        if others and others[0].ndim == 2:
            raise RunError(
                f"expected elements of the same sequences in the tensor array '{array}', which has rows of sequences by steps, but those "
                f"of '{op.inputs['X'][0]}' come from elsewhere; keep them in an array of their own",
                op.location,
            )
        if len(own) != len(others):
            raise RunError(
                f"expected elements of {len(others)} levels of detail in the tensor array '{array}' but '{op.inputs['X'][0]}' has "
                f"{len(own)}; give it the levels of the others by lod_reset",
                op.location,
            )
        inputs["Array" + LOD] = spread(inputs["Array"][0], others)[1]

    def _show(self, op: Operator, name: str) -> None:
        """Let Go blocks see what was written; what a block of the operator wrote, they have seen."""
        calls = host_calls()
        if calls is not None and name in calls.shared and not op.has_attr("sub_block"):
            calls.store(dispatch.active_trace(), self.block.var_recursive(name), self.values[name])

    def _hand_on_levels(self, op: Operator, slot: str, place: int, tensor: Tensor, inputs: Slots, outputs: Slots) -> None:
        """Note the levels of detail of a result: those that the operator gives, or those of an input with as many rows."""
        name = op.write_slots()[slot][place]
        told = told_levels(op, slot, place, outputs)
        if told is not None:
            self.levels[name] = [Tensor._wrap(level._value, level.type) for level in told]
        else:
            shared = levels_to_share(op, slot, place, inputs, self.levels_of, tensor.type)
            self.levels[name] = shared if op.type in _OF_ARRAYS or all(level.ndim == 1 for level in shared) else []

    def write(self, name: str, tensor: Tensor) -> None:
        """Let a name stand for what an operator gave."""
        if not isinstance(tensor._value, (ProgramSource, np.ndarray)):
            tensor._value.name = tensor._value.name or name
        self.values[name] = tensor

    def run_host(self, op: Operator, inputs: Slots) -> Slots:
        """What a host operator gives: a call, between what is compiled."""
        calls = host_calls()
        if calls is None:
            raise RunError(
                f"expected operators that can be compiled in block {self.block.idx} but '{op.type}' runs on the host; move it out of the "
                f"block",
                op.location,
                code="E0609",
            )
        number = gradient_of(op)
        forward = None if number is None else self.applied.get(number)
        if forward is not None:
            # What its forward operator read and wrote, even if the names mean something else by now.
            inputs = {**inputs, **{slot: forward.inputs.get(slot) or forward.outputs[slot] for slot in inputs if not slot.endswith(GRAD)}}
        if calls.is_channel(op) and (lost := next((name for name in op.input_arg_names if self.levels_of(name)), None)):
            raise RunError(f"expected tensors without levels in '{op.type}' but '{lost}' has sequences", op.location)
        outputs: Slots = calls.run(dispatch.active_trace(), op, inputs)
        if op.uid in self.differentiated:
            self.applied[op.uid] = Applied(inputs, outputs)
        return outputs

    def _apply(self, op: Operator, inputs: Slots) -> Slots:
        differentiated = op.uid in self.differentiated
        if differentiated:
            # Leaves of their own, so that the tape knows where this operator starts.
            inputs = {slot: [_leaf(t) for t in tensors] for slot, tensors in inputs.items()}
            if isinstance(op.kind, Gradient):
                inputs = op.kind.applied_to(op, inputs, self.applied)
        with tape.recording(differentiated or tape.is_grad_enabled()):
            outputs: Slots = self._at(op, lambda: op.kind.apply(op, inputs, self.applied))
        if differentiated:
            self.applied[op.uid] = Applied(inputs, outputs)
        for watch in _watches:
            watch(op, inputs, outputs)
        return outputs

    def _at(self, op: Operator, run: Callable[[], Any]) -> Any:
        """What `run` gives; ops that it emits and errors that it raises are at the line of `op`."""
        recorder: Any = dispatch.active_trace()
        root = getattr(recorder, "outer", recorder)
        around, root.location = root.location, op.location
        _around.append(self)
        try:
            return run()
        except (PolyremeError, ValueError, TypeError, KeyError) as error:
            raise located(error, op) from error
        finally:
            root.location = around
            _around.pop()


def _differentiated(block: Block) -> set[int]:
    """The operators whose gradients stand in a block, or in one that its operators run."""
    found = {uid for op in block.ops if (uid := gradient_of(op)) is not None}
    return found.union(*(_differentiated(inner) for op in block.ops if gradient_of(op) is None for inner in blocks_of(op)))


def host_calls() -> Any:
    """What takes host operators, of the function that is being made; None where it may have none."""
    recorder: Any = dispatch.active_trace()
    return getattr(getattr(recorder, "outer", recorder), "host_calls", None)


def _leaf(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    leaf = Tensor._wrap(tensor._value, tensor.type)
    leaf.stop_gradient = tensor.type.dtype.kind not in "fc"
    return leaf


def missing_value(block: Block, name: str, op: Operator | None) -> RunError:
    """The error of a name that has no value where it is read."""
    variable = block.var_recursive(name)
    place = (Diagnostic(f"'{op.type}' reads it here", op.location),) if op is not None and op.location else ()
    if variable.is_data:
        message = f"expected a feed for '{name}' ({variable.dtype.name}{list(variable.shape)}) but got none; add it to feed={{...}}"
    else:
        reader = f", which '{op.type}' reads," if op is not None else ""
        message = f"expected a value of '{name}'{reader} but no operator in front of it writes one"
    return RunError(Diagnostic(message, variable.location, place), code="E0604")


# The values of the blocks in which operators are being applied, the outermost first, and who is told of each operator applied.
_around: list[BlockValues] = []
_watches: list[Callable[[Operator, Slots, Slots], None]] = []


def is_translating() -> bool:
    """Whether operators are applied to what variables hold, not only tried for the types that they give."""
    return bool(_around)


def levels_around(name: str) -> list[Tensor]:
    """The levels of detail of a variable, for an operator that is being applied."""
    return _around[-1].levels_of(name) if _around else []


def values_around() -> Sequence[BlockValues]:
    """The values of the blocks in which operators are being applied, the outermost first."""
    return _around


@contextmanager
def watching(watch: Callable[[Operator, Slots, Slots], None]) -> Iterator[None]:
    """Inside the `with`, `watch` is told of each operator that is applied, with what it read and gave."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)


class NestedValues(BlockValues):
    """A block inside another one. What its variables stand for keeps its place in the graph of gradients, and what comes from outside and
    stays as it is, its levels of detail.
    """

    def __init__(self, block: Block, outside: Callable[[str], Tensor | None], as_many: Mapping[str, int] | None = None):
        super().__init__(block, outside)
        self.as_many = as_many or {}
        self.rows_read: dict[tuple[Any, Any], Dim] = {}  # the names of numbers of rows, by arrays with as many and the place in them
        written = names_from_outside(block)[1]
        self.own = {*block.vars, *written}
        self.around = _around[-1] if _around else None
        # A branch may have gradients of operators in front of it.
        self.applied: ChainMap[int, Applied] = ChainMap({}, *([] if self.around is None else [self.around.applied]))

    def levels_of(self, name: str) -> list[Tensor]:
        if name in self.levels:
            return self.levels[name]
        if name in self.own or self.around is None:
            given = takewhile(lambda level: level is not None, (self.outside(level_name(name, i)) for i in count()))
            return [level for level in given if level is not None]
        return self.around.levels_of(name)

    def known(self, name: str) -> Tensor | None:
        if not is_level(name):
            return super().known(name)
        of, level = name.split(LOD)
        return next(iter(self.levels_of(of)[int(level) :]), None)

    def write(self, name: str, tensor: Tensor) -> None:
        variable = self.block._find_var_recursive(name)
        if variable is not None and variable.stop_gradient and not tensor.stop_gradient:
            tensor = dispatch.active_trace().tensor(tensor._value)  # type: ignore[union-attr]
        super().write(name, tensor)

    def inputs_of(self, op: Operator) -> Slots:
        if op.type != WRITE:
            return super().inputs_of(op)
        # An array is written in place: what it holds counts, whether the operator names it or not.
        inputs = {slot: [self.read(name, op) for name in op.inputs[slot]] for slot in ("X", "I")}
        held = self.known(op.outputs["Out"][0])
        return inputs if held is None else {**inputs, "Array": [held]}

    def add(self, op: Operator) -> None:
        number = gradient_of(op)
        if number is not None and number in self.applied:
            self._check_is_of_this_run(number, op)
        array = array_of(op)
        contents = None if array is None else carried_contents(array, self.known)
        if op.type == READ and is_ragged(self.levels_of(op.inputs["X"][0])):
            self._read_element(op)
        elif array is None or contents is None:
            super().add(op)
        elif op.type == LENGTH:
            self.write(op.output_arg_names[0], contents.length())
        else:
            place = self.read(op.inputs["I"][0], op)
            if op.type == READ:
                self.levels[op.output_arg_names[0]] = self.levels_of(array)
                self.write(op.output_arg_names[0], self._at(op, lambda: contents.read(place)))
                return
            self.levels[array] = self.levels_of(op.inputs["X"][0])
            # Where only elements are counted, nothing else was computed.
            element = place if isinstance(contents, Count) else self.read(op.inputs["X"][0], op)
            after = self._at(op, lambda: contents.write(element, place))
            for name, part in zip(carried_names(array, after), after.parts, strict=True):
                self.write(name, part)

    def _read_element(self, op: Operator) -> None:
        """Read an element of an array whose elements differ."""
        array, out = op.inputs["X"][0], op.outputs["Out"][0]
        held, place = self.read(array, op), self.read(op.inputs["I"][0], op)
        recorder: Any = dispatch.active_trace()
        key = (self.as_many.get(array, array), place._value)
        rows = self.rows_read.setdefault(key, recorder.fresh_size())
        made, levels = self._at(op, lambda: ragged_element(held, self.levels_of(array), index_of(place), rows))
        self.levels[out] = levels
        self.write(out, made)

    def _check_is_of_this_run(self, number: int, op: Operator) -> None:
        """A gradient in the block of a loop is of an operator of the same round: what is in front of the loop has run once."""
        values: BlockValues | None = self
        while isinstance(values, NestedValues) and number not in values.applied.maps[0]:
            parent = values.block.parent_block
            runs = next((o for o in parent.ops if values.block in blocks_of(o)), None) if parent is not None else None
            if runs is not None and runs.type not in BRANCHES:
                raise RunError(
                    f"expected gradients in the block of a '{runs.type}' to end in it but '{op.type}' is that of an operator in front of "
                    "it; compute what the loss depends on in the block",
                    op.location,
                    code="E0608",
                )
            values = values.around


_depth = [0]


def run_nested(
    block: Block, names: Sequence[str], known: Mapping[str, Any], ops: Sequence[Operator] | None = None,
    levels: dict[str, list[Tensor]] | None = None, as_many: Mapping[str, int] | None = None,
) -> list[Any]:  # fmt: skip
    """What the variables `names` hold once the operators of a block, or `ops` of them, have run on what the variables `known` hold;
    `UNDEFINED` for one that nothing has written. Their levels of detail have names, too (`x@LOD0`). `levels` is given those of all that
    the block has written. Elements of arrays with one number in `as_many` have as many rows if they stand at one place.
    """
    values = NestedValues(block, lambda name: None if known.get(name, UNDEFINED) is UNDEFINED else known[name], as_many)
    _depth[0] += 1
    try:
        if _depth[0] > MAX_NESTING:
            raise RunError(f"expected blocks nested at most {MAX_NESTING} deep", code="E0609")
        for op in block.ops if ops is None else ops:
            values.add(op)
        if levels is not None:
            levels.update({name: values.levels_of(name) for name in values.own})
        return [UNDEFINED if (found := values.known(name)) is None else found for name in names]
    finally:
        _depth[0] -= 1
