"""The updates of optimizers as Paddle's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from polyreme.optimizer import rules
from polyreme.static.desc.words import Words

__all__ = ["spell_update"]


class _Written(NamedTuple):
    """Paddle's operator for a rule: its type, its slots by the names of the state, and its attributes by the names of the options."""

    type: str
    slots: Mapping[str, str]
    attributes: Mapping[str, str]
    outputs: Mapping[str, str] = {}


_MOMENTS = {"moment1": "Moment1", "moment2": "Moment2", "beta1_pow_acc": "Beta1Pow", "beta2_pow_acc": "Beta2Pow"}
_BETAS = {"beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon"}
_WRITTEN: tuple[tuple[rules.Rule, _Written], ...] = (
    (rules.SGD, _Written("sgd", {}, {})),
    (rules.MOMENTUM, _Written("momentum", {"velocity": "Velocity"}, {"momentum": "mu", "use_nesterov": "use_nesterov"})),
    (rules.ADAM, _Written("adam", _MOMENTS, _BETAS)),
    (rules.ADAMW, _Written("adamw", _MOMENTS, {**_BETAS, "decay": "coeff"})),
    (rules.LAMB, _Written("lamb", _MOMENTS, {**_BETAS, "decay": "weight_decay"})),
    (rules.ADAGRAD, _Written("adagrad", {"moment": "Moment"}, {"epsilon": "epsilon"})),
    (
        rules.RMSPROP,
        _Written(
            "rmsprop", {"momentum": "Moment", "mean_square": "MeanSquare", "mean_grad": "MeanGrad"},
            {"rho": "decay", "epsilon": "epsilon", "momentum": "momentum", "centered": "centered"},
        ),  # fmt: skip
    ),
    (
        rules.ADAMAX,
        _Written("adamax", {"moment": "Moment", "inf_norm": "InfNorm", "beta1_pow_acc": "Beta1Pow"}, _BETAS),
    ),
    (
        rules.ADADELTA,
        _Written(
            "adadelta", {"_avg_squared_grad": "AvgSquaredGrad", "_avg_squared_update": "AvgSquaredUpdate"},
            {"rho": "rho", "epsilon": "epsilon"},
        ),  # fmt: skip
    ),
    (
        rules.LARS,
        _Written(
            "lars_momentum", {"velocity": "Velocity"},
            {"momentum": "mu", "lars_coeff": "lars_coeff", "decay": "lars_weight_decay", "epsilon": "epsilon"},
        ),  # fmt: skip
    ),
)


def spell_update(rule: rules.Rule, w: Words) -> None:
    """Say Paddle's operator for one parameter's step."""
    found = next((written for known, written in _WRITTEN if known is rule), None)
    if found is None:
        raise w.refuse("Paddle has no operator for this update")
    if w.names("MasterParam"):
        raise w.refuse("it keeps the parameter in float32 besides")
    if w.attrs.get("amsgrad") or w.attrs.get("rescale_grad", 1.0) != 1.0:
        raise w.refuse("its options 'amsgrad' and 'rescale_grad' are newer than the operator")
    rate = w.one("LearningRate")
    factor = float(w.attrs.get("lr_factor", 1.0))
    if factor != 1.0:
        scaled = w.like(rate)
        w.say("scale", {"X": rate}, {"Out": scaled}, scale=factor, bias=0.0, bias_after_scale=True)
        rate = scaled
    inputs = {"Param": w.names("Param"), "Grad": w.names("Grad"), "LearningRate": [rate]}
    outputs = {"ParamOut": w.op.outputs["ParamOut"]}
    for ours, theirs in found.slots.items():
        inputs[theirs], outputs[f"{theirs}Out"] = w.names(ours), w.op.outputs[f"{ours}Out"]
    attrs: dict[str, Any] = {theirs: w.attrs[ours] for ours, theirs in found.attributes.items() if ours in w.attrs}
    if rule is rules.ADAMW:
        attrs["with_decay"] = True
    if rule is rules.ADAMAX:
        # The power of beta1 is multiplied on by an operator of its own.
        power = outputs.pop("Beta1PowOut")
        w.say(found.type, inputs, outputs, **attrs)
        w.say("scale", {"X": inputs["Beta1Pow"]}, {"Out": power}, scale=float(w.attrs["beta1"]), bias=0.0, bias_after_scale=True)
        return
    w.say(found.type, inputs, outputs, **attrs)
