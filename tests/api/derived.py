"""Cases that follow from others: of every name that has no case with an empty tensor, with an axis of one, with odd sizes or with a
non-contiguous tensor, one is made.

It is made of the first case that can be changed so (a call, an expression or a layer; a free function cannot, and tells its `traits`
itself), by one rule:

    empty     the first axis of the first tensor has no elements, and so has the first axis of every other tensor where it is as long
    one       likewise one element, along the first axis that has more
    odd       every even size grows by one
    strided   every tensor becomes a non-contiguous one

`CHOSEN` names another axis, or another case to begin with, where the rule would make no sense. Where Paddle refuses what comes out
(`REFUSED` in `reasons.py`), the case compares that we refuse it with the same kind of error.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.api.reasons import KINDS, reasons, refused
from tests.api.table import Built, Call, Case, Recipe, _arguments, _recipes

NAMES = Path(__file__).with_name("names.json")
SUBJECT = "derived"
DERIVED = tuple(kind for kind in KINDS if kind != "broadcast")

# By kind and name (without "paddle."), what the text of the case starts with of which one is made, and the axis that changes (None: as the
# rule says).
CHOSEN: dict[tuple[str, str], tuple[str, int | None]] = {
    ("empty", "multiplex"): ("", 1),
    **{
        ("empty", f"vision.transforms.{name}"): ("", 1)
        for name in ("adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "normalize", "to_grayscale")
    },
}


def derive(cases: dict[str, Case]) -> Iterator[Case]:
    """A case of every name and kind that no case has yet."""
    by_name: dict[str, list[Case]] = {entry["name"]: [] for entry in json.loads(NAMES.read_text(encoding="utf-8"))}
    for case in cases.values():
        for name in case.names:
            if name in by_name:
                by_name[name].append(case)
    for name, own in by_name.items():
        if not any("float" in trait for case in own for trait in case.traits):
            continue  # no tensor goes in
        for kind in DERIVED:
            unasked = name in reasons(kind) and name not in refused(kind)
            if not unasked and not any(kind in case.traits for case in own if not case.raises or name in refused(kind)):
                made = (_derived(case, name, kind) for case in sorted(own, key=lambda case: _rank(case, name)) if _changeable(case))
                yield from [case for case in made if case is not None][:1]


def _rank(case: Case, name: str) -> int:
    """Calls of the name itself come first, then cases of other names that count for it."""
    return 2 * (case.names[0] != name) + (isinstance(body := _body(case), Call) and bool(body.expression))


def _body(case: Case) -> Any:
    return getattr(case.body, "__self__", None)


def _changeable(case: Case) -> bool:
    return (
        isinstance(_body(case), (Call, Built))
        and case.body.__name__ == "run"
        and not case.raises
        and not case.traits & {"float16", "bfloat16"}
    )


def _derived(case: Case, name: str, kind: str) -> Case | None:
    """The case with its tensors changed; None where that changes nothing."""
    body: Call | Built = _body(case)
    chosen, axis = CHOSEN.get((kind, name.removeprefix("paddle.")), ("", None))
    if not case.id.startswith(chosen):
        return None
    held = (body.inputs, body.keywords) if isinstance(body, Built) else (body.args, body.kwargs)
    recipes = [r for r in _recipes(held) if not r.is_raw]
    change = _change(recipes, kind, axis)
    args, kwargs = _mapped(held, change)
    traits = set().union(*(r.traits() for r in _recipes((args, kwargs)))) if recipes else set()
    if kind not in traits:
        return None
    if isinstance(body, Built):
        body = replace(body, inputs=args, keywords=kwargs)
        text = f"{case.names[0]}({_arguments(body.args, body.kwargs)})({_arguments(args, kwargs)})" + (
            f" in {body.default}" if body.default != "float32" else ""
        )
    else:
        body = replace(body, args=args, kwargs=kwargs)
        text = (
            f"{case.names[0]}: {body.expression} where {_arguments((), kwargs)}"
            if body.expression
            else f"{case.names[0]}({_arguments(args, kwargs)})"
        )
    text = f"{text} {kind}"
    raises = name in refused(kind)
    traits |= {"raises"} if raises else case.traits & {"gradient"}
    return replace(
        case,
        id=text,
        names=(name,),
        subject=SUBJECT,
        body=body.run,
        source=zlib.crc32(text.encode()),
        traits=frozenset(traits),
        raises=raises,
    )


def _change(recipes: list[Recipe], kind: str, axis: int | None) -> Callable[[Recipe], Recipe]:
    if kind == "strided":
        return lambda r: r if r.is_raw else r.strided()
    if kind == "odd":
        return lambda r: r if r.is_raw or 0 in r.shape else r.resized([n + (n % 2 == 0) for n in r.shape])
    first = next((r.shape for r in recipes if r.shape), ())
    if axis is None:
        axis = next((k for k, n in enumerate(first) if n > 1), 0) if kind == "one" else 0

    def change(recipe: Recipe) -> Recipe:
        shape = recipe.shape
        if recipe.is_raw or not shape[axis:] or shape[axis : axis + 1] != first[axis : axis + 1] or not shape[axis]:
            return recipe
        return recipe.resized((*shape[:axis], int(kind == "one"), *shape[axis + 1 :]))

    return change


def _mapped(value: Any, change: Callable[[Recipe], Recipe]) -> Any:
    if isinstance(value, Recipe):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(v, change) for k, v in value.items()}
    return value
