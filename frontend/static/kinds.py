"""The kinds of operators in a Program, and how each is applied to tensors, through dispatch, or run on arrays by the host.

`TableOperator` operators are those of Paddle's table (`polyreme.operators`), `Nn` ones are ops of the `nn` dialect that static mode has
recorded. A `Gradient` goes by the rules of `lowering.gradients.autodiff`, by way of the tape, an `Update` by the formulas of
`optimizer.rules`; `Host` operators are Python functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from polyreme import dispatch, dtypes, tape
from polyreme.control_flow import UNDEFINED
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import caller_location, did_you_mean
from polyreme.ir.dims import Expr, substitute
from polyreme.ir.types import TensorType, i64
from polyreme.math.scattering import gradient_of_rows, rows_that_were_read
from polyreme.nn import functional
from polyreme.operators.arguments import UnsupportedError as NoMeaningError
from polyreme.operators.table import LEGACY, apply_legacy, find_legacy, name_of_nn_op
from polyreme.optimizer import rules
from polyreme.static.lod.read_rows import READ_ROWS, is_read_by_rows
from polyreme.static.lod.travel import LOD
from polyreme.static.operator import ROLE_NAMES, Operator, OperatorError
from polyreme.tensor import Tensor

__all__ = [
    "Applied",
    "Gradient",
    "GradientOf",
    "Host",
    "NAMED_KINDS",
    "TableOperator",
    "Nn",
    "OperatorKind",
    "Slots",
    "gradient_of",
    "kind_named",
    "kind_of_nn_op",
    "kind_of_update",
    "with_numbers",
]

Slots = dict[str, list[Tensor]]
Arrays = dict[str, list[np.ndarray[Any, Any]]]


class Applied(NamedTuple):
    """The tensors that an operator was applied to and gave: what its gradient starts from."""

    inputs: Slots
    outputs: Slots


class OperatorKind:
    """How operators of a kind are applied: `apply` emits ops. A `Host` one, which cannot be compiled, has `run` instead."""

    def attributes(self, op: Operator) -> Collection[str]:
        """Names of the attributes that the type has."""
        return op.attrs

    def uncomputed(self, op: Operator) -> Collection[str]:
        """Slots of outputs that Paddle keeps for gradients: they may be named, and are not written."""
        return ()

    def input_slots(self, op: Operator) -> Collection[str]:
        """Slots of inputs that the type has, whether the operator names variables there or not."""
        return ()

    def reads(self, op: Operator) -> dict[str, list[str]]:
        """The names that an operator reads, by slot."""
        return op.inputs

    def writes(self, op: Operator) -> dict[str, list[str]]:
        """The names that it writes, by slot."""
        return op.outputs

    def optional(self, op: Operator) -> Collection[str]:
        """Slots of inputs whose variables may have no value yet."""
        return ()

    def infer(self, op: Operator) -> dict[str, list[TensorType]] | None:
        """The types of what it writes, by slot; None where trying it tells."""
        return None

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        """The outputs; `applied` has what the gradient of an operator applied earlier needs, by its `uid`."""
        raise NotImplementedError

    def level_slots(self, op: Operator) -> Sequence[str]:
        """Slots of inputs, `X@LOD`, that take the levels of detail of what is in another slot."""
        return ()

    def row_slots(self, op: Operator) -> Sequence[str]:
        """Slots of inputs, `Grad@ROWS`, that take the positions of the rows that what is in another slot is."""
        return ()

    def differentiable(self, op: Operator) -> bool:
        """Whether gradients flow through it."""
        return True

    def constant(self, op: Operator) -> Collection[str]:
        """Slots of inputs that no gradient flows to."""
        return ()

    def gradient(self, op: Operator, wrt: tuple[tuple[str, int], ...], seeds: tuple[tuple[str, int], ...]) -> tuple[OperatorKind, Any]:
        """The kind and the data of the operator's gradient, of these inputs from these outputs (slots and places)."""
        return GRADIENT, GradientOf(op.uid, wrt, seeds, tuple(op.read_slots()), is_read_by_rows(op))


# --- ops of the nn dialect


_numbers: list[Mapping[str, int]] = [{}]


@contextmanager
def with_numbers(sizes: Mapping[str, int]) -> Iterator[None]:
    """Inside the `with`, operators are applied with these numbers for sizes that were free when the program was built."""
    _numbers.append(sizes)
    try:
        yield
    finally:
        _numbers.pop()


def _in_numbers(value: Any) -> Any:
    if not _numbers[-1]:
        return value
    if isinstance(value, Expr):
        return substitute(value, _numbers[-1])
    return tuple(map(_in_numbers, value)) if isinstance(value, tuple) else value


class Nn(OperatorKind):
    """An op of the `nn` dialect. Slots are its declared operands, capitalised, and `Out` for all results."""

    def __init__(self, cls: type[Op]):
        self.cls = cls
        self.slots = [part.name.capitalize() for part in cls.definition.operands]

    def attributes(self, op: Operator) -> Collection[str]:
        return [*self.cls.definition.attributes, *(["is_test"] if self.cls is ops.Dropout else [])]

    def operands(self, slots: Mapping[str, Sequence[Any]]) -> list[Any]:
        """What belongs to each declared operand."""
        found: list[Any] = []
        for slot, part in zip(self.slots, self.cls.definition.operands, strict=True):
            group = list(slots.get(slot, ()))
            if part.arity != "variadic" and len(group) > 1:
                raise OperatorError(f"expected one variable in '{slot}' of '{name_of_nn_op(self.cls)}' but got {len(group)}")
            if part.arity == "one" and not group:
                raise OperatorError(f"expected a variable in '{slot}' of '{name_of_nn_op(self.cls)}' but got none")
            found.append(group if part.arity == "variadic" else group[0] if group else None)
        return found

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        if self.cls is ops.Dropout and op.attrs.get("is_test"):
            (x,) = inputs["X"]
            return {"Out": [functional.dropout(x, op.attrs["p"], training=False, mode=op.attrs["mode"])]}
        attributes = {name: _in_numbers(op.attrs[name]) for name in self.cls.definition.attributes if name in op.attrs}
        operands = self.operands(inputs)
        regions = {}
        if self.cls.definition.regions:
            from polyreme.static.bodies import regions_for

            regions = regions_for(self.cls, op.data, operands)
        made = dispatch.call(self.cls, *operands, **attributes, **regions)
        return {"Out": list(made) if isinstance(made, tuple) else [made]}

    def differentiable(self, op: Operator) -> bool:
        from polyreme.lowering.gradients.autodiff import NOT_DIFFERENTIABLE

        return self.cls not in NOT_DIFFERENTIABLE

    def constant(self, op: Operator) -> Collection[str]:
        return ("Mean", "Variance") if self.cls is ops.BatchNorm else ()

    def gradient(self, op: Operator, wrt: tuple[tuple[str, int], ...], seeds: tuple[tuple[str, int], ...]) -> tuple[OperatorKind, Any]:
        if self.cls not in tape.gradient_rules():
            raise OperatorError(f"expected a gradient rule for '{op.type}' but it has none", op.location, code="E0608")
        return super().gradient(op, wrt, seeds)


_NN: dict[type[Op], Nn] = {}


def kind_of_nn_op(cls: type[Op]) -> Nn:
    if cls not in _NN:
        _NN[cls] = Nn(cls)
    return _NN[cls]


# --- operators by Paddle's names


class TableOperator(OperatorKind):
    """An operator by its name in ProgramDesc files, with the slots and attributes that it has there: an entry of `polyreme.operators`."""

    def attributes(self, op: Operator) -> Collection[str]:
        entry, spelling = find_legacy(op.type)
        return [*op.attrs, *entry.legacy_attributes(spelling), *spelling.ignored]

    def uncomputed(self, op: Operator) -> Collection[str]:
        return find_legacy(op.type)[1].outputs

    def input_slots(self, op: Operator) -> Collection[str]:
        return find_legacy(op.type)[1].inputs

    def level_slots(self, op: Operator) -> Sequence[str]:
        return [slot for slot in find_legacy(op.type)[1].inputs if slot.endswith(LOD)]

    def row_slots(self, op: Operator) -> Sequence[str]:
        return [slot for slot in find_legacy(op.type)[1].inputs if slot.endswith(READ_ROWS)]

    def constant(self, op: Operator) -> Collection[str]:
        return find_legacy(op.type)[1].constant

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        try:
            made = apply_legacy(op.type, inputs, {name: value for name, value in op.attrs.items() if name not in ROLE_NAMES})
        except NoMeaningError as error:
            raise OperatorError(error.message, op.location, error.diagnostics[0].code) from None
        for slot, tensors in made.items():
            for i, (tensor, name) in enumerate(zip(tensors, op.outputs.get(slot, ()), strict=False)):
                declared = op.block._find_var_recursive(name)
                # Programs older than 0-D tensors declare one element where there is now none of the axes.
                if tensor.ndim == 0 and declared is not None and declared.has_shape and declared.type.shape == (1,):
                    tensors[i] = dispatch.call(ops.Reshape, tensor, shape=(1,))
        return made


NAMED = TableOperator()


# --- gradients


class GradientOf(NamedTuple):
    """Whose gradient an operator is: of which inputs, by slot and place, and which outputs' gradients come in."""

    uid: int
    wrt: tuple[tuple[str, int], ...]
    seeds: tuple[tuple[str, int], ...]
    reads: tuple[str, ...] = ()  # the slots of the forward operator's inputs
    of_rows: bool = False  # whether it is the gradient of a table by the rows that were read


class Gradient(OperatorKind):
    """The gradient of an operator applied earlier; `data` of the operator says which. It can be differentiated again."""

    def optional(self, op: Operator) -> Collection[str]:
        """What the forward operator read is known from there."""
        arrived = {f"{slot}@GRAD" for slot, _ in op.data.seeds}
        return [slot for slot in op.inputs if slot not in arrived]

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        of: GradientOf = op.data
        if of.uid not in applied:
            raise OperatorError(
                f"expected the operator that '{op.type}' is the gradient of in front of it, but it was removed", op.location, code="E0608"
            )
        forward = applied[of.uid]
        if of.of_rows:
            (ids,), (table,), (gradient,) = forward.inputs["Ids"], forward.inputs["W"], inputs["Out" + "@GRAD"]
            return {"W@GRAD": [gradient_of_rows(ids, table, gradient)], "W@GRAD" + READ_ROWS: [ids]}
        again = tape.is_grad_enabled()
        weights = [dy for slot in dict.fromkeys(slot for slot, _ in of.seeds) for dy in inputs[slot + "@GRAD"]]
        targets = [forward.inputs[slot][i] for slot, i in of.wrt]
        present = [x for x in targets if x is not None]
        names = [name for slot in dict.fromkeys(slot for slot, _ in of.seeds) for name in op.inputs[slot + "@GRAD"]]
        pairs = []
        for (slot, i), dy, name in zip(of.seeds, weights, names, strict=True):
            y = forward.outputs[slot][i]
            variable = op.block._find_var_recursive(name)
            array = variable is not None and variable.is_tensor_array and isinstance(y, Tensor)
            pairs.append((y, _as_many(dy, y) if array else _shaped(dy, y)))
        pairs = [(y, dy) for y, dy in pairs if isinstance(y, Tensor) and not y.stop_gradient]
        found: list[Tensor | None] = [None] * len(present)
        if pairs:
            found = tape.grad(
                [y for y, _ in pairs], present, [dy for _, dy in pairs], retain_graph=True, create_graph=again, allow_unused=True
            )
        made: Slots = {}
        gradients = iter(found)
        for (slot, _), x in zip(of.wrt, targets, strict=True):
            dx = None if x is None else next(gradients)
            if x is not None and dx is None:
                dx = dispatch.full(x.type.shape, 0, x.type.dtype)
            made.setdefault(slot + "@GRAD", []).append(UNDEFINED if dx is None else dx)
        return made

    def applied_to(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        """Its inputs as a gradient of it must see them: those of the operator it differentiates are the very tensors of that one."""
        forward = applied[op.data.uid]
        return {**inputs, **forward.inputs, **{slot: inputs[slot] for slot in inputs if slot.endswith("@GRAD")}}


def _shaped(dy: Tensor, y: Any) -> Tensor:
    """A gradient of one element in the shape of what it is of: programs older than 0-D tensors have one axis more."""
    if isinstance(y, Tensor) and dy.type.shape != y.type.shape and dy.type.elements == 1 and y.type.elements == 1:
        made: Tensor = dispatch.call(ops.Reshape, dy, shape=tuple(y.type.shape))
        return made
    return dy


def _as_many(dy: Tensor, y: Tensor) -> Tensor:
    """The gradient of a tensor array with an element for each of the array's: those that nobody has read have zeros, or are not there."""
    count, length = y.type.shape[0], dy.type.shape[0]
    if count == length:
        return dy
    rows = dispatch.call(ops.Concat, [dy, dispatch.full((1, *dy.type.shape[1:]), 0, dy.type.dtype)], axis=0)
    places = dispatch.call(ops.Iota, shape=(count,), axis=0, dtype=i64)
    made: Tensor = dispatch.call(ops.Gather, rows, dispatch.call(ops.Minimum, places, _size_as_tensor(length)), axis=0)
    return made


def _size_as_tensor(size: Any) -> Tensor:
    made: Tensor = dispatch.full((), size, i64) if isinstance(size, int) else dispatch.call(ops.DimValue, size=size, dtype=i64)
    return made


GRADIENT = Gradient()


def gradient_of(op: Operator) -> int | None:
    """The `uid` of the operator that `op` is the gradient of, if it is one."""
    uid = getattr(op.data, "uid", None)
    return uid if isinstance(uid, int) else None


# --- updates of optimizers


class Update(OperatorKind):
    """One parameter's step by the formula of an optimizer."""

    def __init__(self, rule: rules.Rule):
        self.rule = rule

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        from polyreme.math.common import cast_to
        from polyreme.optimizer.by_ops import updated

        states = [slot for slot in inputs if slot not in ("Param", "Grad", "LearningRate", "MasterParam", f"Grad{READ_ROWS}")]
        (parameter,), (gradient,), (rate,) = inputs["Param"], inputs["Grad"], inputs["LearningRate"]
        p = inputs["MasterParam"][0] if inputs.get("MasterParam") else parameter
        kind = dtypes.as_dtype(str(self.rule.kind_of_state(p.type.dtype.np))).scalar
        options = self.rule.rounded(op.attrs, kind.np.type)
        lr = cast_to(rate, kind) * op.attrs["lr_factor"] if op.attrs["lr_factor"] != 1.0 else cast_to(rate, kind)
        update, held = self.rule.update, {slot: inputs[slot][0] for slot in states}
        if (rows := inputs.get(f"Grad{READ_ROWS}")) and self.rule.of_rows is not None:
            update, options["read"] = self.rule.of_rows, rows_that_were_read(rows, p)
        new, changed = updated(update, cast_to(p, kind), gradient, lr, held, options)
        outputs = {"ParamOut": [cast_to(new, parameter.type.dtype)]}
        if p is not parameter:
            outputs["MasterParamOut"] = [cast_to(new, p.type.dtype)]
        return outputs | {f"{slot}Out": [changed.get(slot, inputs[slot][0])] for slot in states}

    def row_slots(self, op: Operator) -> Sequence[str]:
        return [f"Grad{READ_ROWS}"]

    def differentiable(self, op: Operator) -> bool:
        return False


_UPDATES: dict[int, Update] = {}


def kind_of_update(rule: rules.Rule) -> Update:
    return _UPDATES.setdefault(id(rule), Update(rule))


# --- the host


class Host(OperatorKind):
    """A Python function on arrays, that compiled code stops for. `data` of the operator is the function: it takes the operator and arrays
    by slot.
    """

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        """The outputs by slot."""
        with dispatch.trace_into(None), tape.recording(False):
            result: Arrays = op.data(op, inputs)
        return result

    def callee(self, op: Operator) -> str:
        """What the function is called, for those who read the program; the operator's type where it has no name."""
        return str(getattr(getattr(op.data, "function", op.data), "__name__", op.type))

    def differentiable(self, op: Operator) -> bool:
        return False


HOST = Host()


# --- by name

# Operators by Paddle's names that are no function of tensors alone.
NAMED_KINDS: dict[str, OperatorKind] = {}


def kind_named(name: str) -> OperatorKind:
    """The kind of an operator type given by name; an `OperatorError` offers the nearest known name."""
    if name in NAMED_KINDS:
        return NAMED_KINDS[name]
    if name in LEGACY:
        return NAMED
    known = {
        name_of_nn_op(cls): cls
        for cls in vars(ops).values()
        if isinstance(cls, type) and issubclass(cls, Op) and cls.name.startswith("nn.")
    }
    if name in known:
        return kind_of_nn_op(known[name])
    nearest = did_you_mean(name, [*LEGACY, *NAMED_KINDS, *known])
    raise OperatorError(f"expected a known operator type but got '{name}'{nearest}", caller_location(), "E0606")
