"""`python -m tests.coverage_api [-v] [--missing] [GROUP ...]`: how much of Paddle's dynamic-graph API is here, tested and right, per group.

Reads `tests/api/names.json`: name, group, kind and the signature of Paddle 3.3.1 (without annotations; null when Paddle tells none). Runs
every recorded case, as the tests do.

present    the name is here
tested     a case compares it with Paddle: cases for which Paddle has no kernel do not count
dtypes     two dtypes or more went in, or came out where none goes in
shapes     each kind of them, over all names: empty, with an axis of one, odd, broadcast where the name broadcasts, non-contiguous; likewise
gradient   gradients are compared
options    parameters with a default that a case gives another value
wrong      a case differs from what Paddle gave, and not on purpose
signature  parameters or defaults differ from Paddle's

`--missing` only lists the kinds of shapes that no case has, name by name, and runs none.

Dtypes, shapes, gradients and options stand as covered / asked: what is not asked of a name, such as gradients of whole numbers, is listed
below the table with the reason (`tests/api/reasons.py`).
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
import warnings
from collections import defaultdict
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import polyreme
from tests.api.compare import cannot_say, differences
from tests.api.derived import NAMES
from tests.api.differences import ON_PURPOSE, SIGNATURES, unexplained
from tests.api.options import watched
from tests.api.outcome import Leaf, run_case
from tests.api.reasons import ASPECTS, BROADCASTING, KINDS, OPTIONS, REASONS, asked
from tests.api.record import stored
from tests.api.table import load, resolve

DTYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"}


@dataclass
class Row:
    """What is known of one name. `going_in` and `coming_out` hold dtypes and kinds of shapes; `given` the options that cases gave, of
    `options` in all.
    """

    name: str
    group: str
    signature: str | None
    present: bool = True
    cases: int = 0
    going_in: set[str] = field(default_factory=set)
    coming_out: set[str] = field(default_factory=set)
    has_gradient: bool = False
    options: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    signature_fault: str = ""

    def covers(self, aspect: str) -> bool:
        if aspect == "gradient":
            return self.has_gradient
        wanted, least = (DTYPES, 2) if aspect == "dtypes" else ({aspect}, 1)
        return len(self.going_in & wanted) >= least or not self.going_in & {"float32", "float64"} and len(self.coming_out & wanted) >= least


def rows_of_names() -> dict[str, Row]:
    """By name, what its signature says."""
    rows = {}
    for entry in json.loads(NAMES.read_text(encoding="utf-8")):
        row = rows[entry["name"]] = Row(entry["name"], entry["group"], entry["signature"])
        try:
            value = resolve(polyreme, row.name)
        except AttributeError:
            row.present = row.name in ATTRIBUTES_OF_INSTANCES
            continue
        if row.signature is not None:
            row.options = {p for p, default in _parameters(row.signature).items() if default is not None and p not in OPTIONS}
            if row.name not in SIGNATURES:
                row.signature_fault = signature_fault(value, row.signature)
    return rows


def add_traits(rows: dict[str, Row], outcomes: dict[str, tuple[int, Any]]) -> None:
    """What went in and came out of every case that compared something."""
    for i, case in load().items():
        _, expected = outcomes.get(i, (None, None))
        if cannot_say(expected):  # no kernel, or no such form: nothing was compared
            continue
        coming_out = traits_of(expected)
        for name in case.names:
            if name in rows:
                row = rows[name]
                row.cases += 1
                row.going_in |= case.traits - set(KINDS if case.raises else ())
                row.coming_out |= coming_out
                row.has_gradient |= "gradient" in (coming_out if case.single else case.traits | coming_out)


def survey() -> list[Row]:
    """A row for every name, all cases run."""
    rows = rows_of_names()
    cases = load()
    outcomes = stored({c.subject for c in cases.values()})
    add_traits(rows, outcomes)
    watch = {name: name for name in rows}
    for name in rows:  # functions are called as methods, too
        space, _, last = name.rpartition(".")
        if space == "paddle" and f"paddle.Tensor.{last}" not in rows:
            watch[f"paddle.Tensor.{last}"] = name
    with watched(polyreme, watch) as given, redirect_stdout(StringIO()), warnings.catch_warnings(action="ignore"):
        for i, case in cases.items():
            fingerprint, expected = outcomes.get(i, (None, None))
            if fingerprint != case.fingerprint:
                found = ["not recorded as it stands"]
            else:
                found = unexplained(i, differences(case, run_case(case, polyreme), expected))
            for name in case.names:
                if name in rows:
                    rows[name].wrong += [f"{i}: {f}" for f in found]
    for row in rows.values():
        row.given = row.options & given[row.name]
    return list(rows.values())


def traits_of(outcome: Any) -> set[str]:
    """Dtypes and kinds of shapes among what Paddle gave."""
    if isinstance(outcome, Leaf):
        shape = outcome.values.shape
        kinds = {"0-d": not shape, "empty": 0 in shape, "one": 1 in shape, "odd": any(n % 2 and n > 1 for n in shape)}
        return {outcome.dtype} | {k for k, holds in kinds.items() if holds}
    if isinstance(outcome, dict):
        found = {k: traits_of(v) for k, v in outcome.items()}
        return set().union(*found.values()) | ({"gradient"} if any(k.startswith("grad") and v for k, v in found.items()) else set())
    return set().union(*map(traits_of, outcome)) if isinstance(outcome, (list, tuple)) else set()


# What an instance has, and the class does not.
ATTRIBUTES_OF_INSTANCES = ("paddle.nn.Linear.weight", "paddle.nn.Linear.bias")


def signature_fault(value: Any, told: str) -> str:
    """How the signature of `value` differs from the one told; empty when it does not. Further optional keywords of ours are no fault."""
    wanted = _parameters(told)
    try:
        found = {
            ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "") + n: None
            if p.default is p.empty
            else _default(p.default)
            for n, p in inspect.signature(value).parameters.items()
            if n != "self"
        }
    except (TypeError, ValueError):
        return ""
    faults = [f"lacks {n}" for n in wanted if n not in found]
    faults += [f"{n} = {found[n] or 'nothing'} instead of {d or 'nothing'}" for n, d in wanted.items() if n in found and found[n] != d]
    faults += [f"needs {n}" for n, d in found.items() if n not in wanted and d is None and not n.startswith("*")]
    both = [n for n in wanted if n in found]
    if both != [n for n in found if n in wanted]:
        faults.append(f"order {', '.join(found)} instead of {', '.join(wanted)}")
    return "; ".join(faults)


def _parameters(told: str) -> dict[str, str | None]:
    arguments = ast.parse(f"def f{told}: pass").body[0].args  # type: ignore[attr-defined]
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = {p.arg: None if d is None else ast.unparse(d) for p, d in zip(plain, defaults)}
    if arguments.vararg:
        found[f"*{arguments.vararg.arg}"] = None
    found |= {p.arg: None if d is None else ast.unparse(d) for p, d in zip(arguments.kwonlyargs, arguments.kw_defaults)}
    if arguments.kwarg:
        found[f"**{arguments.kwarg.arg}"] = None
    return found


def _default(value: Any) -> str:
    try:
        return ast.unparse(ast.parse(repr(value), mode="eval"))
    except SyntaxError:
        return repr(value)


def main(arguments: list[str]) -> None:
    groups = [a for a in arguments if a not in ("-v", "--missing")]
    if "--missing" in arguments:
        list_missing(groups)
        return
    rows = [r for r in survey() if not groups or r.group in groups]
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_group[row.group].append(row)
    print(
        f"{'group':18}{'names':>6}{'present':>8}{'tested':>7}{'dtypes':>9}{'shapes':>11}"
        f"{'gradient':>10}{'options':>11}{'wrong':>6}{'signature':>10}{'cases':>7}"
    )
    for group, members in [*by_group.items(), *([("all", rows)] if len(by_group) > 1 else [])]:
        answers = {aspect: [r.covers(aspect) for r in members if asked(aspect, r.name)] for aspect in ASPECTS}
        parts = {aspect: f"{sum(answers[aspect])}/{len(answers[aspect])}" for aspect in ("dtypes", "gradient")}
        shapes = f"{sum(sum(answers[kind]) for kind in KINDS)}/{sum(len(answers[kind]) for kind in KINDS)}"
        options = f"{sum(len(r.given) for r in members)}/{sum(len(r.options) for r in members)}"
        tested = sum(r.present and r.cases > 0 for r in members)
        wrong, signature = sum(bool(r.wrong) for r in members), sum(bool(r.signature_fault) for r in members)
        print(
            f"{group:18}{len(members):6}{sum(r.present for r in members):8}{tested:7}{parts['dtypes']:>9}{shapes:>11}"
            f"{parts['gradient']:>10}{options:>11}{wrong:6}{signature:10}{sum(r.cases for r in members):7}"
        )
    _listed("absent", [r.name for r in rows if not r.present])
    _listed("present but not tested", [r.name for r in rows if r.present and not r.cases])
    for aspect in ASPECTS:
        _listed(f"{aspect} not covered", [r.name for r in rows if asked(aspect, r.name) and not r.covers(aspect)])
    _listed("options that no case gives", [f"{r.name}: {', '.join(sorted(r.options - r.given))}" for r in rows if r.options - r.given])
    _listed("signatures that differ", [f"{r.name}: {r.signature_fault}" for r in rows if r.signature_fault])
    _listed("wrong", [f"{r.name}\n      " + "\n      ".join(r.wrong if "-v" in arguments else r.wrong[:2]) for r in rows if r.wrong])
    print("\nnot asked, with the reason:")
    here = {r.name for r in rows}
    for reason in REASONS:
        names = [name.removeprefix("paddle.") for name in reason.each() if name in here]
        if names:
            print(
                textwrap.fill(
                    f"{', '.join(reason.aspects)} of {len(names)}, since {reason.text}: {', '.join(names)}",
                    160,
                    initial_indent="  ",
                    subsequent_indent="      ",
                )
            )
    print(f"  broadcast of all but the {len(BROADCASTING.split())} names that broadcast: `BROADCASTING` in tests/api/reasons.py")
    print(*(f"  option {option}: it {text}" for option, text in OPTIONS.items()), sep="\n")
    print(f"\n{len(ON_PURPOSE)} ways and {len(SIGNATURES)} signatures differ on purpose: docs/differences.md")


def list_missing(groups: list[str]) -> None:
    """Print, name by name, the kinds of shapes that no case has and no reason excuses."""
    rows = rows_of_names()
    add_traits(rows, stored({c.subject for c in load().values()}))
    for row in rows.values():
        lacking = [kind for kind in KINDS if asked(kind, row.name) and not row.covers(kind)]
        if lacking and (not groups or row.group in groups):
            print(f"{row.group:18}{row.name:50}{' '.join(lacking)}")


def _listed(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{title}: {len(lines)}", *lines, sep="\n    ")


if __name__ == "__main__":
    main(sys.argv[1:])
