"""Names have the parameters of Paddle 3.3.1, in its order and with its defaults."""

from __future__ import annotations

import json

import pytest

import polyreme
from tests.api.differences import SIGNATURES
from tests.api.table import resolve
from tests.coverage_api import NAMES, signature_fault, traits_of

ENTRIES = json.loads(NAMES.read_text(encoding="utf-8"))


def test_parameters_are_paddles() -> None:
    faults = []
    for entry in ENTRIES:
        try:
            value = resolve(polyreme, entry["name"])
        except AttributeError:
            continue
        if entry["signature"] is not None and entry["name"] not in SIGNATURES:
            fault = signature_fault(value, entry["signature"])
            faults += [f"{entry['name']}: {fault}"] if fault else []
    assert not faults, "\n".join(faults)


def test_names_stand_once() -> None:
    names = [e["name"] for e in ENTRIES]
    assert len(names) == len(set(names)) and set(SIGNATURES) <= set(names)


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ("(x, axis=None, name=None)", ""),
        ("(x, axis=0, name=None)", "axis = None instead of 0"),
        ("(x, axis=None, *, out=None, name=None)", "lacks out"),
        ("(axis=None, x=None)", "x = nothing instead of None; order x, axis, name, further instead of axis, x"),
        ("(axis=None, name=None)", "needs x"),
    ],
)
def test_a_fault_of_a_signature_is_told(told: str, fault: str) -> None:
    def function(x, axis=None, name=None, further=1):  # type: ignore[no-untyped-def]
        return x, axis, name, further

    found = signature_fault(function, told)
    assert bool(found) is bool(fault) and fault in found


def test_traits_are_those_of_what_came() -> None:
    from tests.api.test_comparison import leaf

    assert traits_of({"result": leaf([[1.0, 2.0, 3.0]]), "grad": None}) == {"float32", "one", "odd"}
    assert traits_of([leaf(1, "int64"), {"grad": {"first": [leaf([])]}}]) == {"int64", "0-d", "float32", "empty", "gradient"}
