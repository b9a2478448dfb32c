"""See the package."""

from __future__ import annotations

from tests.constants.count import by_file, constants_in

# How many there may be: fewer with every change that gives some of them a home.
MOST = 478


def test_what_counts_as_a_constant() -> None:
    text = "A = 1\nB, C = 2.5, (3, 4)\n_D: int = 1 << 20\nE = {'x': 8}\nnot_one = 3\nF = 'text'\nG = True\ndef f():\n    H = 1\n"
    assert constants_in(text) == ["A", "B", "C", "_D", "E"]


def test_there_are_no_more_constants_outside_of_machines_than_there_were() -> None:
    found = dict(by_file())
    count = sum(map(len, found.values()))
    assert count <= MOST, f"{count} constants: `python -m tests.constants` lists them; give new ones a home in `lowering/machines/`"
