"""The three kinds of cases: a mutated text, a batch of random modules, and a random function for `to_static`. A case is a number of a seed,
so it can be had again by itself.
"""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

from tests.fuzz.checks import Fault, check_sample, check_text
from tests.fuzz.differences import check_functions
from tests.fuzz.functions import written
from tests.fuzz.reduce import smallest, smallest_module
from tests.fuzz.texts import mutated
from tests.strategies import LEVELS, modules

BATCH = 25  # random modules in a case


@dataclass
class Outcome:
    """How many of what a case met, and its fault, with the input that shows it."""

    counts: Counter = field(default_factory=Counter)
    fault: str = ""
    details: str = ""
    text: str = ""


def text_case(seed: int, number: int, known: set[str]) -> Outcome:
    """One mutated text. A fault that is not among those `known` is made small."""
    text = mutated(seed, number)
    try:
        return Outcome(Counter([check_text(text)]))
    except Fault as fault:
        kind = fault.kind
        if kind not in known:
            text = smallest(text, lambda t: _fault(t) == kind)
        return Outcome(Counter(["faulty"]), kind, fault.details, text)


def _fault(text: str) -> str:
    try:
        check_text(text)
    except Fault as fault:
        return fault.kind
    return ""


def module_case(seed: int, number: int, known: set[str]) -> Outcome:
    """A batch of random modules of one level, made and made small by hypothesis."""
    level = LEVELS[number % len(LEVELS)]
    outcome = Outcome()
    sample = None

    @hypothesis_seed(seed * 1_000_003 + number)
    @settings(
        max_examples=BATCH, deadline=None, database=None, phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False
    )
    @given(modules(level))
    def run(drawn):
        nonlocal sample
        sample = drawn
        check_sample(drawn)
        outcome.counts[level] += 1

    try:
        run()
    except Fault as fault:
        return Outcome(outcome.counts + Counter(["faulty"]), fault.kind, fault.details, repr(sample))
    return outcome


def function_case(seed: int, number: int, known: set[str]) -> Outcome:
    """One random function, eager and compiled. A fault that is not among those `known` is made small."""
    text = written(seed, number)
    try:
        return Outcome(Counter([check_functions(text)]))
    except Fault as fault:
        kind = fault.kind
        if kind not in known:
            text = smallest_module(text, lambda t: _difference(t) == kind, seconds=30.0)
        return Outcome(Counter(["faulty"]), kind, fault.details, text)


def _difference(text: str) -> str:
    try:
        check_functions(text)
    except Fault as fault:
        return fault.kind
    return ""


CASES = {"texts": text_case, "modules": module_case, "functions": function_case}
