"""`longer.txt` names tests that are there, with cases."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import longer_cases

ROOT = Path(__file__).parents[1]


def test_each_line_names_a_case_of_a_test_that_is_there() -> None:
    tests = set()
    for line in longer_cases():
        found = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)\[.*\]", line)
        assert found, line
        tests.add(found.groups())
    assert len(tests) > 50
    gone = [f"{file}::{name}" for file, name in sorted(tests) if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")]
    assert not gone, f"no such tests: {', '.join(gone)}"
