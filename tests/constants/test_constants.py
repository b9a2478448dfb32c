"""See the package."""

from __future__ import annotations

from tests.constants.count import by_file, constants_in

# How many there may be: fewer with every change that gives some of them a home.
MOST = 87


def test_what_counts_as_a_constant() -> None:
    text = "A = 1\nB, C = 2.5, (3, 4)\n_D: int = 1 << 20\nE = {'x': 8}\nnot_one = 3\nF = 'text'\nG = True\ndef f():\n    H = 1\n"
    assert constants_in(text) == ["A", "B", "C", "_D", "E"]


def test_tables_of_functions_and_of_names_are_no_constants() -> None:
    text = "A = {'x': lambda y: y + 1}\nB = {4: 'word'}\nC = {'x': partial(f, name=f'{g}{1}')}\nD = Record(lines=2)\nE = {'x': (1, 2)}\n"
    text += "F = {n: f'i{n}' for n in (8, 16)}\nG = TensorType((3,), i64)\n"
    assert constants_in(text) == ["D", "E"]


def test_there_are_no_more_constants_outside_of_machines_than_there_were() -> None:
    found = dict(by_file())
    count = sum(map(len, found.values()))
    assert count <= MOST, f"{count} constants: `python -m tests.constants` lists them; give new ones a home in `lowering/machines/`"
