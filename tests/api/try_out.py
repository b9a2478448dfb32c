"""`python -m tests.api.try_out [-a] PREFIX ...`: run the cases whose subject, name or id starts so under both modules and print what
differs; `-a` lists all cases.
"""

from __future__ import annotations

import sys

import polyreme
from tests.api.compare import differences
from tests.api.differences import unexplained
from tests.api.outcome import run_case
from tests.api.peer import run_under_paddle
from tests.api.table import load


def main(arguments: list[str]) -> None:
    wanted = tuple(a for a in arguments if a != "-a")
    cases = {i: c for i, c in load().items() if i.startswith(wanted) or c.subject in wanted or set(c.names) & set(wanted)}
    outcomes = run_under_paddle(list(cases))
    wrong = 0
    for i, case in cases.items():
        found = unexplained(i, differences(case, run_case(case, polyreme), outcomes[i][1]))
        wrong += bool(found)
        if found or "-a" in arguments:
            print(f"{'differs' if found else 'same   '}  {i}", *found, sep="\n      ")
    print(f"{len(cases)} cases, {wrong} differ")


if __name__ == "__main__":
    main(sys.argv[1:])
