"""Where two outcomes of a case differ, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.api.outcome import Failure, Leaf, Nothing
from tests.api.table import Case

# Relative and absolute tolerance by dtype: for values, and for gradients.
VALUES = {"float64": (1e-9, 1e-11), "complex128": (1e-9, 1e-11), "float16": (2e-3, 1e-4), "bfloat16": (1.6e-2, 1e-3)}
GRADIENTS = {"float64": (1e-8, 1e-10), "complex128": (1e-8, 1e-10), "float16": (1e-2, 2e-3), "bfloat16": (3e-2, 1e-2)}
SINGLE, SINGLE_GRADIENT = (1e-5, 1e-6), (1e-4, 1e-5)


def differences(case: Case, got: Any, expected: Any) -> list[str]:
    """Sentences, none when `got` is what Paddle's `expected` asks for, or when Paddle cannot say."""
    if cannot_say(expected) and case.single:
        return []
    if isinstance(expected, Failure) and not case.raises:
        return [f"the case itself is wrong: Paddle raises {expected.kinds[0]}: {_short(expected.text)}"]
    if case.raises and not isinstance(expected, Failure):
        return ["the case itself is wrong: expected Paddle to raise but it returned"]
    return list(_differences(case, "", got, expected))


def cannot_say(expected: Any) -> bool:
    """Whether Paddle has no such form, or no kernel on a CPU for these dtypes, or one that ends the process."""
    return (
        isinstance(expected, Nothing)
        or isinstance(expected, Failure)
        and (expected.kinds[0] == "crash" or "is not registered" in expected.text)
    )


def _differences(case: Case, where: str, got: Any, expected: Any) -> Iterator[str]:
    place = f"{where.lstrip('.') or 'result'}: "
    if cannot_say(expected):
        return
    if isinstance(expected, Failure):
        if not isinstance(got, Failure):
            yield f"{place}expected {expected.kinds[0]} ({_short(expected.text)}) but nothing was raised"
        elif expected.kinds[0] not in (*got.kinds, "EnforceNotMet"):  # the last is what Paddle raises where no kind was chosen
            yield f"{place}expected {expected.kinds[0]} ({_short(expected.text)}) but got {got.kinds[0]}: {_short(got.text)}"
    elif isinstance(got, Failure):
        yield f"{place}raised {got.kinds[0]}: {_short(got.text)}"
    elif isinstance(got, Nothing):
        yield f"{place}no such form"
    elif isinstance(expected, Leaf) and isinstance(got, Leaf):
        yield from _numbers(case, place, got, expected, gradient=".grad" in where)
    elif type(expected) is not type(got) and not (_is_number(expected) and _is_number(got)):
        yield f"{place}expected {_short(expected)} but got {_short(got)}"
    elif isinstance(expected, dict):
        if list(expected) != list(got):
            yield f"{place}expected keys {list(expected)} but got {list(got)}"
        else:
            for key in expected:
                yield from _differences(case, f"{where}.{key}", got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(got):
            yield f"{place}expected {len(expected)} elements but got {len(got)}: {_short(expected)} and {_short(got)}"
        else:
            for number, (a, b) in enumerate(zip(got, expected)):
                yield from _differences(case, f"{where}[{number}]", a, b)
    elif isinstance(expected, float):
        yield from _numbers(
            case, place, Leaf("float", np.asarray(got, np.float64), None), Leaf("float", np.asarray(expected), None), gradient=False
        )
    elif expected != got:
        yield f"{place}expected {_short(expected, 2000)} but got {_short(got, 2000)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, float)


def _numbers(case: Case, place: str, got: Leaf, expected: Leaf, *, gradient: bool) -> Iterator[str]:
    if got.dtype != expected.dtype:
        yield f"{place}expected {expected.dtype} but got {got.dtype}"
    if got.values.shape != expected.values.shape:
        yield f"{place}expected shape {list(expected.values.shape)} but got {list(got.values.shape)}"
        return
    # In Paddle whole numbers computed from floats may say that they have gradients, too: ours never do.
    if got.stop_gradient != expected.stop_gradient and "float" in expected.dtype + expected.dtype.replace("complex", "float"):
        yield f"{place}expected stop_gradient {expected.stop_gradient} but got {got.stop_gradient}"
    a, b = got.values, expected.values
    if b.dtype.kind not in "fc" or case.exact and not gradient:
        same = (a == b) | ((a != a) & (b != b))
        worst = ""
    else:
        rtol, atol = (GRADIENTS.get(expected.dtype, SINGLE_GRADIENT) if gradient else VALUES.get(expected.dtype, SINGLE))
        if case.rtol is not None:
            rtol = case.rtol * (10 if gradient else 1)
        if case.atol is not None:
            atol = case.atol * (10 if gradient else 1)
        with np.errstate(all="ignore"):
            same = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        worst = f" (rtol {rtol:g}, atol {atol:g})"
    same = np.asarray(same)
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        yield f"{place}{int((~same).sum())} of {same.size} numbers differ{worst}; at {list(at)} expected {b[at]!r} but got {a[at]!r}"


def _short(value: Any, length: int = 160) -> str:
    text = " ".join(str(value).split()) if length < 1000 else str(value)
    return text if len(text) <= length else text[: length - 1] + "…"
