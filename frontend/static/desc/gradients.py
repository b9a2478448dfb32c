"""Gradient operators as Paddle has them: of each operator that stands for the forward one, its own, last one first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from polyreme.loaders.attribute_kinds import defaults_of
from polyreme.static.desc.words import Spelled, Words
from polyreme.static.operator import gradient_type
from polyreme.static.variable import GRAD

__all__ = ["EMPTY", "compact", "spell_gradient"]

EMPTY = "@EMPTY@"

# Gradients that Paddle has no operator of their own for: the forward operator, the gradient that came in, and the one that goes out.
_Own = Callable[[Words, Spelled, str, str], None]


def _scaled(w: Words, op: Spelled, dy: str, dx: str) -> None:
    w.say("scale", {"X": dy}, {"Out": dx}, scale=float(op.attrs.get("scale", 1.0)), bias=0.0, bias_after_scale=True)


def _same(w: Words, op: Spelled, dy: str, dx: str) -> None:
    w.say("assign", {"X": dy}, {"Out": dx})


def _nothing(w: Words, op: Spelled, dy: str, dx: str) -> None:
    w.say("scale", {"X": dy}, {"Out": dx}, scale=0.0, bias=0.0, bias_after_scale=True)


def _cast(w: Words, op: Spelled, dy: str, dx: str) -> None:
    w.say("cast", {"X": dy}, {"Out": dx}, in_dtype=op.attrs["out_dtype"], out_dtype=op.attrs["in_dtype"])


def _flipped(w: Words, op: Spelled, dy: str, dx: str) -> None:
    w.say(op.type, {"X": dy}, {"Out": dx}, **op.attrs)


def _summed(w: Words, op: Spelled, dy: str, dx: str) -> None:
    w.say("cumsum", {"X": dy}, {"Out": dx}, **{**op.attrs, "reverse": not op.attrs.get("reverse", False)})


# Results that a gradient operator of Paddle's must not be given: with `Y` that of batch_norm takes it for its input, computed in place.
_UNREAD = {"batch_norm": {"Y"}, "sync_batch_norm": {"Y"}}

_OWN: dict[str, _Own] = {
    "scale": _scaled, "assign": _same, "share_data": _same, "sum": _same, "sign": _nothing, "cast": _cast, "flip": _flipped,
    "reverse": _flipped, "cumsum": _summed, "floor": _nothing, "ceil": _nothing, "round": _nothing,
}  # fmt: skip


def spell_gradient(words: Words, said: Sequence[Spelled], arrived: Mapping[str, str], wanted: Mapping[str, Sequence[str]]) -> None:
    """Say the gradients of the operators `said`. `arrived` names gradients by the variables they are of, `wanted` those to be written; a
    variable that is read twice has as many.
    """
    reached = _reached(said, set(wanted))
    counts = Counter(n for op in said for names in op.inputs.values() for n in names)
    # What is read as often as gradients of it are wanted gets these; of what is read more often they are summed in the end.
    left = {name: list(targets) for name, targets in wanted.items() if counts[name] == len(targets)}
    found: dict[str, list[str]] = {name: [gradient] for name, gradient in arrived.items()}
    for op in reversed(said):
        inputs = {**op.inputs, **{slot: names for slot, names in op.outputs.items() if slot not in op.inputs}}
        for slot in _UNREAD.get(op.type, ()):
            inputs.pop(slot, None)
        seeds = {}
        for slot, names in op.outputs.items():
            gradients = [_sum(words, name, found.pop(name)) if name in found else EMPTY for name in names]
            if any(g != EMPTY for g in gradients):
                seeds[slot + GRAD] = gradients
        if not seeds:
            continue
        outputs = {}
        for slot, names in op.inputs.items():
            made = [_target(words, name, left, found) if name in reached else EMPTY for name in names]
            if any(g != EMPTY for g in made):
                outputs[slot + GRAD] = made
        if outputs:
            _say(words, op, {**inputs, **seeds}, outputs)
    for name, targets in wanted.items():
        if name not in left:
            _settle(words, found.get(name, []), targets)


def _say(words: Words, op: Spelled, inputs: dict[str, list[str]], outputs: dict[str, list[str]]) -> None:
    """The gradient of one operator. What it is given has no defaults in Paddle, but those of the forward operator."""
    own = _OWN.get(op.type)
    if own is None:
        words.said.append(Spelled(gradient_type(op.type), inputs, outputs, {**defaults_of(op.type), **op.attrs}, dict(op.kinds)))
        return
    ((dy,),) = (names for slot, names in inputs.items() if slot.endswith(GRAD))
    for names in outputs.values():
        for dx in names:
            if dx != EMPTY:
                own(words, op, dy, dx)


def compact(slots: Mapping[str, Sequence[str]], places: Sequence[tuple[str, int]]) -> dict[str, list[str]]:
    """Slots without what stands for no gradient, in those of the gradients that there are."""
    there = {slot + GRAD for slot, _ in places}
    return {slot: [n for n in names if n and (n != EMPTY or slot not in there)] for slot, names in slots.items()}


def _reached(said: Sequence[Spelled], wanted: set[str]) -> set[str]:
    """The variables that depend on those `wanted`."""
    reached = set(wanted)
    for op in said:
        if any(name in reached for names in op.inputs.values() for name in names):
            reached.update(name for slot, names in op.outputs.items() if slot != "XShape" for name in names)
    return reached


def _target(words: Words, name: str, left: dict[str, list[str]], found: dict[str, list[str]]) -> str:
    """Where the gradient of a variable goes: to what is wanted, or to a variable on the way."""
    if left.get(name):
        return left[name].pop(0)
    gradient = _new(words, name)
    found.setdefault(name, []).append(gradient)
    return gradient


def _new(words: Words, name: str) -> str:
    """A variable for a gradient of `name`, called as such a one."""
    kind = words.type(name)
    made = words.new(kind.shape, kind.dtype)
    gradient = f"{name}{GRAD}"
    if gradient in words.made or words.block.has_var(gradient):
        gradient = f"{gradient}@RENAME@{made}"
    words.made[gradient] = words.made.pop(made)
    return gradient


def _settle(words: Words, gradients: Sequence[str], targets: Sequence[str]) -> None:
    """The sum of gradients as the first of the targets, and zeros as the others."""
    words.say("sum", {"X": gradients}, {"Out": targets[0]})
    for other in targets[1:]:
        words.say("scale", {"X": gradients[0]}, {"Out": other}, scale=0.0, bias=0.0, bias_after_scale=True)


def _sum(words: Words, name: str, gradients: list[str]) -> str:
    if len(gradients) == 1:
        return gradients[0]
    made = _new(words, name)
    words.say("sum", {"X": gradients}, {"Out": made})
    return made
