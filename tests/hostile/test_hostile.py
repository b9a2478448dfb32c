"""Hostile files: each is read or refused as it has to be, within ten seconds and so much memory beyond its size; nothing in them runs.

Large ones take seconds, and are among the slow tests. `python -m tests.hostile FOLDER` writes all of them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from polyreme.ir.diagnostics import PolyremeError
from polyreme.loaders.errors import LoaderError
from tests.fuzz.checks import Fault, no_crash, time_limit
from tests.fuzz.model_checks import FACTOR, MEMORY, memory_limit, read, warm
from tests.hostile.every import Case, every

SUBJECTS = sorted({case.subject for case in every()})


@pytest.fixture(scope="module", autouse=True)
def _imported():
    warm()


def become(case: Case, folder: Path, seconds: float = 10.0) -> str | None:
    """The text of the error with which the files are refused, None if they are read."""
    files = case.files
    file = files.write(folder)
    try:
        with time_limit(seconds), no_crash("reading"), memory_limit(MEMORY + FACTOR * files.size, "reading"):
            read(file)
    except PolyremeError as error:
        return str(error)
    return None


def check(case: Case, folder: Path) -> None:
    became = become(case, folder)
    if case.expected is None:
        assert became is None, (case.name, became)
    else:
        assert became is not None, f"{case.name} was read"
        assert case.expected in became, (case.name, became[:1000])
        assert "model" in became, (case.name, became[:1000])
        # A program of ours is shown with the line where it is wrong.
        assert len(became) < 20_000 or case.subject == ".polyreme", case.name


@pytest.mark.parametrize("subject", SUBJECTS)
def test_small_hostile_files_are_read_or_refused_as_they_must(subject, tmp_path):
    for case in every():
        if case.subject == subject and not case.large:
            check(case, tmp_path)


@pytest.mark.slow
def test_large_hostile_files_are_read_or_refused_as_they_must(tmp_path):
    for case in every():
        if case.large:
            check(case, tmp_path)


def test_there_are_enough_of_them():
    names = [case.name for case in every()]
    assert len(names) > 400 and len(set(names)) == len(names)


# --- what is no file at all


def model(folder: Path, suffix: str = ".pdiparams") -> tuple[Path, Path]:
    """A program and the place of its parameters."""
    from tests.hostile.pir import data, fetch, kind, made, parameter, program

    net = program([data(1, [2]), parameter(2, "w", [2]), made("1.add", [1, 2], 3, kind([2])), fetch(3)])
    (folder / "model.json").write_bytes(net)
    return folder / "model.json", folder / f"model{suffix}"


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/random", "."])
def test_parameters_that_are_a_link_to_no_file_are_missing(tmp_path, target):
    file, parameters = model(tmp_path)
    parameters.symlink_to(target)
    start = time.monotonic()
    assert read(file) is None
    assert time.monotonic() - start < 5


def test_parameters_that_are_a_link_to_themselves_or_a_pipe_are_missing(tmp_path):
    file, parameters = model(tmp_path)
    parameters.symlink_to(parameters.name)
    assert read(file) is None
    parameters.unlink()
    os.mkfifo(parameters)
    assert read(file) is None


def test_a_name_in_a_folder_of_parameters_leads_nowhere_else(tmp_path):
    from polyreme.loaders import read_model
    from tests.hostile.legacy import RELU, XY, block, feed, fetch, variable

    (tmp_path / "secret").write_bytes(b"secret")
    for name in ("../secret", "/etc/passwd", "..", "a/../../secret"):
        folder = tmp_path / "net"
        folder.mkdir(exist_ok=True)
        (folder / "__model__").write_bytes(block(0, XY, variable(name, [2], persistable=True), feed("x"), RELU, fetch("y")))
        with pytest.raises(LoaderError, match="whose name is that of a file"):
            read_model(folder)


# --- would a fault be seen?


def test_memory_beyond_the_limit_is_seen_even_if_somebody_makes_an_error_of_it():
    import numpy as np

    with pytest.raises(Fault, match="memory: more than 10 MiB while reading"), memory_limit(10 << 20, "reading"):
        try:
            np.zeros(4 << 30, np.uint8)  # more than the heap of a process that has run other tests could have free in one piece
        except MemoryError as error:
            raise LoaderError("it is too large") from error


@pytest.mark.parametrize("fault", [KeyError("a key of ours"), TypeError("ours"), AttributeError("ours"), MemoryError("no more")])
@pytest.mark.parametrize(
    "suffix, function",
    [
        (".polyreme", "polyreme.jit.reading.verify"),
        (".polyreme", "polyreme.jit.reading.array_in"),
        (".npz", "polyreme.loaders.numpy_files.array_in"),
    ],
)
def test_a_fault_of_ours_and_too_little_memory_are_no_damaged_file(tmp_path, monkeypatch, suffix, function, fault):
    (case,) = (c for c in every() if c.name in (".polyreme: a model", ".npz: two arrays") and suffix in c.contents)

    def fails(*_):
        raise fault

    file = case.files.write(tmp_path)
    assert read(file) is not None
    monkeypatch.setattr(function, fails)
    with pytest.raises(type(fault)) as raised:
        read(file)
    assert raised.value is fault
