"""What operators mean: each type is applied to tensors through dispatch, or run on arrays by the host.

Most operators are ops of the `nn` dialect under Paddle's names. The rest are written here in terms of the API: fills, draws, copies, sums,
gradients (the rules of `lowering.gradients.autodiff`, by way of the tape), and optimizer updates (the formulas of `optimizer.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyreme import dispatch, dtypes, tape
from polyreme.dialects import mt19937
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import caller_location, did_you_mean
from polyreme.ir.types import ScalarType
from polyreme.optimizer import rules
from polyreme.static.operator import ROLE_NAMES, Operator, OperatorError
from polyreme.tensor import Tensor

__all__ = [
    "Applied",
    "Call",
    "GradientOf",
    "Gradient",
    "Host",
    "Meaning",
    "Nn",
    "Slots",
    "find_meaning",
    "gradient_of",
    "nn_meaning",
    "update_meaning",
]

Slots = dict[str, list[Tensor]]
Arrays = dict[str, list[np.ndarray[Any, Any]]]


class Applied(NamedTuple):
    """The tensors that an operator was applied to and gave: what its gradient starts from."""

    inputs: Slots
    outputs: Slots


class Meaning:
    """What an operator type does: `apply` emits ops. A `Host` meaning, which cannot be compiled, has `run` instead."""

    def attributes(self, op: Operator) -> Collection[str]:
        """Names of the attributes that the type has."""
        return op.attrs

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        """The outputs; `applied` has what the gradient of an operator applied earlier needs, by its `uid`."""
        raise NotImplementedError

    def differentiable(self, op: Operator) -> bool:
        """Whether gradients flow through it."""
        return True

    def gradient(self, op: Operator, wrt: tuple[tuple[str, int], ...], seeds: tuple[tuple[str, int], ...]) -> tuple[Meaning, Any]:
        """The meaning and the data of the operator's gradient, of these inputs from these outputs (slots and places)."""
        return GRADIENT, GradientOf(op.uid, wrt, seeds)


# --- ops of the nn dialect

_PADDLE_NAMES: dict[type[Op], str] = {
    ops.Add: "elementwise_add", ops.Sub: "elementwise_sub", ops.Mul: "elementwise_mul", ops.Div: "elementwise_div",
    ops.Pow: "elementwise_pow",
    ops.Maximum: "elementwise_max", ops.Minimum: "elementwise_min", ops.Mod: "elementwise_mod", ops.FloorDivide: "elementwise_floordiv",
    ops.Sum: "reduce_sum", ops.Mean: "reduce_mean", ops.Max: "reduce_max", ops.Min: "reduce_min", ops.Prod: "reduce_prod",
    ops.Any: "reduce_any",
    ops.All: "reduce_all", ops.MatMul: "matmul_v2", ops.Reshape: "reshape2", ops.Transpose: "transpose2", ops.BroadcastTo: "expand_v2",
    ops.Full: "fill_constant",
    ops.Constant: "assign_value", ops.Uniform: "uniform_random", ops.CrossEntropy: "softmax_with_cross_entropy", ops.ArgMax: "arg_max",
    ops.ArgMin: "arg_min",
    ops.Conv: "conv2d", ops.MaxPool: "pool2d_max", ops.AvgPool: "pool2d_avg", ops.StopGradient: "share_data", ops.IsNan: "isnan_v2",
    ops.IsInf: "isinf_v2", ops.IsFinite: "isfinite_v2", ops.NotEqual: "not_equal", ops.LessEqual: "less_equal", ops.Less: "less_than",
    ops.Greater: "greater_than", ops.GreaterEqual: "greater_equal",
}  # fmt: skip


def type_name(cls: type[Op]) -> str:
    """What operators of an `nn` op are called: as in Paddle where that is another word."""
    return _PADDLE_NAMES.get(cls, cls.name.removeprefix("nn."))


class Nn(Meaning):
    """An op of the `nn` dialect. Slots are its declared operands, capitalised, and `Out` for all results."""

    def __init__(self, cls: type[Op]):
        self.cls = cls
        self.slots = [part.name.capitalize() for part in cls.definition.operands]

    def attributes(self, op: Operator) -> Collection[str]:
        return [
            *self.cls.definition.attributes,
            *(["is_test"] if self.cls is ops.Dropout else []),
            *(["seed"] if self.cls is ops.Uniform else []),
        ]

    def operands(self, slots: Mapping[str, Sequence[Any]]) -> list[Any]:
        """What belongs to each declared operand."""
        found: list[Any] = []
        for slot, part in zip(self.slots, self.cls.definition.operands, strict=True):
            group = list(slots.get(slot, ()))
            if part.arity != "variadic" and len(group) > 1:
                raise OperatorError(f"expected one variable in '{slot}' of '{type_name(self.cls)}' but got {len(group)}")
            if part.arity == "one" and not group:
                raise OperatorError(f"expected a variable in '{slot}' of '{type_name(self.cls)}' but got none")
            found.append(group if part.arity == "variadic" else group[0] if group else None)
        return found

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        if self.cls is ops.Dropout and op.attrs.get("is_test"):
            (x,) = inputs["X"]
            return {"Out": [x * (1.0 - op.attrs["p"]) if op.attrs["mode"] == "downscale_in_infer" else x]}
        attributes = {name: op.attrs[name] for name in self.cls.definition.attributes if name in op.attrs}
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

    def gradient(self, op: Operator, wrt: tuple[tuple[str, int], ...], seeds: tuple[tuple[str, int], ...]) -> tuple[Meaning, Any]:
        if self.cls not in tape.gradient_rules():
            raise OperatorError(f"expected a gradient rule for '{op.type}' but it has none", op.location, code="E0608")
        return super().gradient(op, wrt, seeds)


_NN: dict[type[Op], Nn] = {}


def nn_meaning(cls: type[Op]) -> Nn:
    if cls not in _NN:
        _NN[cls] = Nn(cls)
    return _NN[cls]


# --- operators written in terms of the API


class Call(Meaning):
    """A function of the operator and its inputs by slot."""

    def __init__(self, function: Callable[[Operator, Slots], Slots], attributes: Sequence[str] = (), smooth: bool = True):
        self.function = function
        self.names = tuple(attributes)
        self.smooth = smooth

    def attributes(self, op: Operator) -> Collection[str]:
        return self.names

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        return self.function(op, inputs)

    def differentiable(self, op: Operator) -> bool:
        return self.smooth


def _assign(op: Operator, inputs: Slots) -> Slots:
    return {"Out": inputs["X"]}


def _sum(op: Operator, inputs: Slots) -> Slots:
    from polyreme.math.elementwise import add

    total, *others = inputs["X"]
    for other in others:
        total = add(total, other)
    return {"Out": [total]}


def _scalar(dtype: Any) -> ScalarType:
    """A dtype by Paddle's name or by its number in files."""
    from polyreme.loaders.meaning import LEGACY_DTYPES

    return dtypes.as_dtype(LEGACY_DTYPES.get(dtype, dtype) if isinstance(dtype, int) else dtype).scalar


def _fill_constant(op: Operator, inputs: Slots) -> Slots:
    return {"Out": [dispatch.full(tuple(op.attrs["shape"]), op.attrs["value"], _scalar(op.attrs["dtype"]))]}


def _uniform_random(op: Operator, inputs: Slots) -> Slots:
    """A seed of 0 draws from the program's generator, another one starts from it at every run."""
    from polyreme.random import default_generator

    attributes = op.attrs
    if attributes.get("is_test"):
        return {"Out": []}
    shape, dtype = tuple(attributes["shape"]), _scalar(attributes["dtype"])
    low, high, seed = float(attributes.get("min", -1.0)), float(attributes.get("max", 1.0)), attributes.get("seed", 0)
    if not seed:
        return {"Out": [default_generator().uniform(shape, low, high, dtype)]}
    state = dispatch.constant(mt19937.plain_state(seed))
    return {"Out": [dispatch.call(ops.Uniform, state, shape=shape, low=low, high=high, dtype=dtype)[0]]}


def _dropout(op: Operator, inputs: Slots) -> Slots:
    from polyreme.nn.functional.common import dropout

    (x,) = inputs["X"]
    mode = op.attrs.get("dropout_implementation", "downgrade_in_infer").replace("downgrade", "downscale")
    return {"Out": [dropout(x, op.attrs.get("dropout_prob", 0.5), training=not op.attrs.get("is_test", False), mode=mode)]}


_CALLS: dict[str, Call] = {
    "dropout": Call(_dropout, ("dropout_prob", "dropout_implementation", "is_test", "seed", "fix_seed")),
    "assign": Call(_assign),
    "sum": Call(_sum),
    "fill_constant": Call(_fill_constant, ("shape", "value", "dtype"), smooth=False),
    "uniform_random": Call(_uniform_random, ("shape", "min", "max", "dtype", "seed", "is_test"), smooth=False),
}


# --- gradients


class GradientOf(NamedTuple):
    """Whose gradient an operator is: of which inputs, by slot and place, and which outputs' gradients come in."""

    uid: int
    wrt: tuple[tuple[str, int], ...]
    seeds: tuple[tuple[str, int], ...]


class Gradient(Meaning):
    """The gradient of an operator applied earlier; `data` of the operator says which. It can be differentiated again."""

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        of: GradientOf = op.data
        if of.uid not in applied:
            raise OperatorError(
                f"expected the operator that '{op.type}' is the gradient of in front of it, but it was removed", op.location, code="E0608"
            )
        forward = applied[of.uid]
        again = tape.is_grad_enabled()
        weights = [dy for slot in dict.fromkeys(slot for slot, _ in of.seeds) for dy in inputs[slot + "@GRAD"]]
        targets = [forward.inputs[slot][i] for slot, i in of.wrt]
        pairs = [(forward.outputs[slot][i], dy) for (slot, i), dy in zip(of.seeds, weights, strict=True)]
        pairs = [(y, dy) for y, dy in pairs if not y.stop_gradient]
        found: list[Tensor | None] = [None] * len(targets)
        if pairs:
            found = tape.grad(
                [y for y, _ in pairs], targets, [dy for _, dy in pairs], retain_graph=True, create_graph=again, allow_unused=True
            )
        made: Slots = {}
        for (slot, _), x, dx in zip(of.wrt, targets, found, strict=True):
            made.setdefault(slot + "@GRAD", []).append(dispatch.full(x.type.shape, 0, x.type.dtype) if dx is None else dx)
        return made

    def applied_to(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        """Its inputs as a gradient of it must see them: those of the operator it differentiates are the very tensors of that one."""
        forward = applied[op.data.uid]
        return {**inputs, **forward.inputs, **{slot: inputs[slot] for slot in inputs if slot.endswith("@GRAD")}}


GRADIENT = Gradient()


def gradient_of(op: Operator) -> int | None:
    """The `uid` of the operator that `op` is the gradient of, if it is one."""
    uid = getattr(op.data, "uid", None)
    return uid if isinstance(uid, int) else None


# --- updates of optimizers


class Update(Meaning):
    """One parameter's step by the formula of an optimizer."""

    def __init__(self, rule: rules.Rule):
        self.rule = rule

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        from polyreme import math as xp
        from polyreme.math.common import cast_to
        from polyreme.math.manipulation import reshape

        states = [slot for slot in inputs if slot not in ("Param", "Grad", "LearningRate", "MasterParam")]
        (parameter,), (gradient,), (rate,) = inputs["Param"], inputs["Grad"], inputs["LearningRate"]
        p = inputs["MasterParam"][0] if inputs.get("MasterParam") else parameter
        kind = p.type.dtype
        rounded = self.rule.rounded(op.attrs, kind.np.type)
        options = {name: float(value) if isinstance(value, np.floating) else value for name, value in rounded.items()}
        lr = cast_to(rate, kind) * op.attrs["lr_factor"] if op.attrs["lr_factor"] != 1.0 else cast_to(rate, kind)
        new, changed = self.rule.update(p, cast_to(gradient, kind), lr, {slot: inputs[slot][0] for slot in states}, options, xp)
        if new.type.shape != p.type.shape:
            new = reshape(new, p.shape)
        outputs = {"ParamOut": [cast_to(new, parameter.type.dtype)]}
        if p is not parameter:
            outputs["MasterParamOut"] = [new]
        return outputs | {f"{slot}Out": [changed.get(slot, inputs[slot][0])] for slot in states}

    def differentiable(self, op: Operator) -> bool:
        return False


_UPDATES: dict[int, Update] = {}


def update_meaning(rule: rules.Rule) -> Update:
    return _UPDATES.setdefault(id(rule), Update(rule))


# --- the host


class Host(Meaning):
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


class Legacy(Meaning):
    """An operator under Paddle's name with Paddle's slots and attributes, by the table that reads Paddle's files."""

    def attributes(self, op: Operator) -> Collection[str]:
        from polyreme.loaders.legacy_ops import LEGACY_OPS

        return [*op.attrs, *LEGACY_OPS[op.type].attributes]

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        from polyreme.loaders.errors import OperatorError as RefusedError
        from polyreme.loaders.legacy_ops import emit_legacy_op

        try:
            return emit_legacy_op(op.type, inputs, {name: value for name, value in op.attrs.items() if name not in ROLE_NAMES})
        except RefusedError as error:
            raise OperatorError(error.message, op.location, error.diagnostics[0].code) from None


LEGACY = Legacy()


def find_meaning(name: str) -> Meaning:
    """What an operator type given by name means; `ValueError` with the nearest known name."""
    from polyreme.loaders.legacy_ops import LEGACY_OPS

    if name in _CALLS:
        return _CALLS[name]
    if name in LEGACY_OPS:
        return LEGACY
    known = {
        type_name(cls): cls for cls in vars(ops).values() if isinstance(cls, type) and issubclass(cls, Op) and cls.name.startswith("nn.")
    }
    if name in known:
        return nn_meaning(known[name])
    raise OperatorError(
        f"expected a known operator type but got '{name}'{did_you_mean(name, [*_CALLS, *LEGACY_OPS, *known])}", caller_location(), "E0606"
    )
