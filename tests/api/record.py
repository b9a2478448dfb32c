"""`python -m tests.api.record [SUBJECT ...]`: run cases under Paddle and store what came, one file a subject."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.api.compare import cannot_say
from tests.api.outcome import Failure, read, save
from tests.api.peer import run_under_paddle
from tests.api.table import load

FOLDER = Path(__file__).parents[1] / "fixtures" / "api"


def stored(subjects: set[str]) -> dict[str, tuple[int, Any]]:
    """What is kept of these subjects: fingerprints and outcomes by id."""
    found: dict[str, tuple[int, Any]] = {}
    for subject in sorted(subjects):
        path = FOLDER / f"{subject}.npz"
        if path.exists():
            found |= read(path)
    return found


def main(subjects: list[str]) -> None:
    cases = load(subjects)
    outcomes = run_under_paddle(list(cases))
    for subject in sorted({c.subject for c in cases.values()}):
        own = {i: outcomes[i] for i, c in cases.items() if c.subject == subject}
        path = FOLDER / f"{subject}.npz"
        save(path, own)
        print(f"{subject}: {len(own)} cases, {path.stat().st_size} bytes")
    wrong = {
        i: o for i, (_, o) in outcomes.items() if isinstance(o, Failure) and not cases[i].raises and not (cannot_say(o) and cases[i].single)
    }
    for i, failure in wrong.items():
        print(f"  refused by Paddle: {i}\n      {failure.kinds[0]}: {' '.join(failure.text.split())[:200]}")
    print(f"{len(cases)} cases, {len(wrong)} refused")


if __name__ == "__main__":
    main(sys.argv[1:])
