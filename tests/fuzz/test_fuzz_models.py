"""A few mutants of model files, and whether a fault in reading them would be seen. The long run is `python -m tests.fuzz --models`."""

from __future__ import annotations

import random
import time

import pytest

from polyreme.loaders import pir
from tests.fuzz import parts
from tests.fuzz.checks import Fault
from tests.fuzz.model_checks import check_model, warm
from tests.fuzz.models import MUTATIONS, models, mutated_model

PIR = next(model for model in models() if model.name == "mlp" and model.suffix == ".json")


@pytest.fixture(scope="module", autouse=True)
def _imported():
    warm()


def test_mutants_of_model_files_are_read_or_refused():
    outcomes = [check_model(mutated_model(7, number)) for number in range(150)]
    assert set(outcomes) == {"read", "refused"}


def test_what_can_be_read_of_them_can_be_run_or_is_refused_too():
    assert {check_model(mutated_model(7, number), runs=True) for number in (9, 53)} <= {"read", "refused", "run", "stopped"}


def test_a_seed_and_a_number_say_the_files():
    assert [mutated_model(3, n) for n in range(20)] == [mutated_model(3, n) for n in range(20)]
    assert [mutated_model(3, n) for n in range(20)] != [mutated_model(4, n) for n in range(20)]


@pytest.mark.parametrize("suffix", sorted(MUTATIONS))
def test_every_mutation_changes_files_and_takes_empty_ones(suffix):
    start = next(model.contents[suffix] for model in models() if suffix in model.contents)
    rng = random.Random(1)
    for mutation in set(MUTATIONS[suffix]):
        assert any(mutation(rng, start) != start for _ in range(20)), mutation
        for _ in range(20):
            mutation(rng, b"")


def test_a_message_is_written_as_it_was_read():
    for model in models():
        if model.suffix == ".pdmodel":
            data = model.contents[".pdmodel"]
            assert parts.write_wire(parts.read_wire(data)) == data


# --- planted faults


def _planted(monkeypatch, instead):
    monkeypatch.setattr(pir, "_operators", lambda root: instead())


def test_a_crash_is_a_fault(monkeypatch):
    _planted(monkeypatch, lambda: 1 // 0)
    with pytest.raises(Fault, match="ZeroDivisionError while reading"):
        check_model(PIR)


def test_a_loop_without_end_is_a_fault(monkeypatch):
    from tests.fuzz import model_checks

    def forever():
        while True:
            pass

    monkeypatch.setattr(model_checks, "SECONDS", 0.2)
    _planted(monkeypatch, forever)
    start = time.process_time()
    with pytest.raises(Fault, match="hang: more than 0.2 s"):
        check_model(PIR)
    assert time.process_time() - start < 5


def test_memory_without_bound_is_a_fault(monkeypatch):
    _planted(monkeypatch, lambda: bytearray(1 << 30))
    with pytest.raises(Fault, match="memory: more than 99 MiB while reading"):
        check_model(PIR)


def test_an_error_without_the_file_is_a_fault(monkeypatch):
    from polyreme.loaders.errors import LoaderError

    def nameless():
        raise LoaderError("something is wrong")

    _planted(monkeypatch, nameless)
    with pytest.raises(Fault, match="no file named: LoaderError"):
        check_model(PIR)
