"""`python -m tests.coverage_static [-v]`: which names of `paddle.static` are there, tested against which Paddle, and wrong.

    since      the Paddle whose signature `tests/static_api/names.json` has
    cases      of tests/static_api, by the Paddle that told what is right
    wrong      names with a case that does not give what Paddle gave
    signature  parameters or defaults differ from Paddle's

Names without a case are tested elsewhere, or there is a reason why not: `ELSEWHERE`, `UNTESTED` and `ABSENT`.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass, field

import polyreme
from tests.api.compare import differences
from tests.api.outcome import run_case
from tests.api.table import resolve
from tests.coverage_api import signature_fault
from tests.static_api.names import stored as names
from tests.static_api.record import stored
from tests.static_api.table import VERSIONS, load

# The test file that tells what is right, and by what.
_REPLICAS = ("tests/distributed/test_parallel_executor.py", "losses of Paddle 1.8.5, and the pages of ParallelExecutor")
ELSEWHERE: dict[str, tuple[str, str]] = {
    **{
        f"paddle.static.{name}": _REPLICAS
        for name in (
            "BuildStrategy", "CompiledProgram", "CompiledProgram.with_data_parallel", "ExecutionStrategy", "ParallelExecutor",
            "ParallelExecutor.drop_local_exe_scopes", "ParallelExecutor.run",
        )
    },
    "paddle.static.set_ipu_shard": ("tests/frontend/test_static_nn.py", "a refusal: Paddle lets it pass, and fails at the run"),
}  # fmt: skip
UNTESTED: dict[str, str] = {}
ABSENT: dict[str, str] = {}
# Signatures that differ on purpose.
SIGNATURES: dict[str, str] = {
    "paddle.static.create_parameter": "the dtype may be left out",
    "paddle.static.load_inference_model": "the executor may be left out",
    "paddle.static.Variable": "variables are made by Block.create_var, and take what a program needs",
}


@dataclass
class Row:
    """What is known of one name."""

    name: str
    since: str
    present: bool
    signature_fault: str = ""
    cases: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def tested(self) -> bool:
        return bool(self.cases) or self.name in ELSEWHERE


def survey(run: bool = True) -> dict[str, Row]:
    """A row for every name; with `run` all cases are run."""
    rows = {}
    for entry in names():
        name, told = entry["name"], entry["signature"]
        try:
            value = resolve(polyreme, name)
        except AttributeError:
            rows[name] = Row(name, entry["since"], False)
            continue
        fault = signature_fault(value, told) if told is not None and name not in SIGNATURES else ""
        rows[name] = Row(name, entry["since"], True, fault)
    kept = stored()
    for i, case in load().items():
        fingerprint, expected = kept.get(i, (None, None))
        found = [] if fingerprint == case.fingerprint else ["not recorded as it stands"]
        if run and not found:
            with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
                found = differences(case, run_case(case, polyreme), expected)
        for name in case.names:
            if name in rows:
                rows[name].cases[case.subject] += 1
                rows[name].wrong += [f"{i}: {f}" for f in found]
    return rows


def main(arguments: list[str]) -> None:
    rows = list(survey().values())
    print(f"{'':14}{'names':>6}{'present':>8}{'tested':>7}{'wrong':>6}{'signature':>10}  cases against")
    groups = {"static": [r for r in rows if ".nn." not in r.name], "static.nn": [r for r in rows if ".nn." in r.name], "all": rows}
    for group, members in groups.items():
        cases = sum((r.cases for r in members), Counter[str]())
        print(
            f"{group:14}{len(members):6}{sum(r.present for r in members):8}{sum(r.present and r.tested for r in members):7}"
            f"{sum(bool(r.wrong) for r in members):6}{sum(bool(r.signature_fault) for r in members):10}  "
            + ", ".join(f"{version}: {cases[version]}" for version in VERSIONS)
        )
    _listed("absent", [f"{r.name}: {ABSENT.get(r.name, 'no reason')}" for r in rows if not r.present])
    _listed("not tested", [f"{r.name}: {UNTESTED.get(r.name, 'no reason')}" for r in rows if r.present and not r.tested])
    _listed("tested elsewhere", [f"{name}: {file}, by {by}" for name, (file, by) in ELSEWHERE.items()])
    _listed("signatures that differ", [f"{r.name}: {r.signature_fault}" for r in rows if r.signature_fault])
    _listed("wrong", [f"{r.name}\n      " + "\n      ".join(r.wrong if "-v" in arguments else r.wrong[:2]) for r in rows if r.wrong])


def _listed(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{title}: {len(lines)}", *lines, sep="\n    ")


if __name__ == "__main__":
    main(sys.argv[1:])
