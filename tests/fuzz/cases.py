"""The four kinds of cases: a mutated text, a batch of random modules, a random function for `to_static`, and the mutated files of a model.
A case is a number of a seed, so it can be had again by itself.
"""

import base64
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

from tests.fuzz.checks import Fault, check_sample, check_text
from tests.fuzz.differences import check_functions
from tests.fuzz.functions import written
from tests.fuzz.models import mutated_model
from tests.fuzz.reduce import smallest, smallest_module
from tests.fuzz.texts import mutated
from tests.strategies import LEVELS, modules

BATCH = 25  # random modules in a case
RUN_EVERY = 20  # of so many models one is compiled and run


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


def model_case(seed: int, number: int, known: set[str]) -> Outcome:
    """The files of one model; one in so many is compiled and run if it can be read."""
    from tests.fuzz.model_checks import check_model, warm  # these need the framework, which texts do not

    if not known:
        warm()
        known.add("warm")
    model = mutated_model(seed, number)
    try:
        return Outcome(Counter([check_model(model, runs=number % RUN_EVERY == 0)]))
    except Fault as fault:
        kept = "\n".join(f"{suffix} {base64.b64encode(data).decode()}" for suffix, data in model.contents.items())
        return Outcome(Counter(["faulty"]), fault.kind, f"a mutant of '{model.name}{model.suffix}'\n{fault.details}", kept)


CASES = {"texts": text_case, "modules": module_case, "functions": function_case, "models": model_case}
