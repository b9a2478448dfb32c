"""What all tests share: a cache of compiled code and a folder for temporary files that are theirs alone, so that no test depends on what
ran before or leaves anything; and golden files.
"""

from __future__ import annotations

import difflib
import faulthandler
import functools
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import quick_lane

if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers use all cores already: numpy's threads beside them, and processes that compile, would wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("POLYREME_JOBS", "1")

# Tests make ten thousands of ops at a time, which are no garbage until they end.
gc.set_threshold(300_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def _folders_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    temporary = str(tmp_path_factory.mktemp("tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYREME_CACHE", str(tmp_path_factory.mktemp("cache")))
        # A kernel that is slow beyond reason fails the test that compiles it.
        patch.setenv("POLYREME_CLIFFS", "error")
        # What failing passes leave to be repeated, here and in processes that are started.
        patch.setenv("TMPDIR", temporary)
        patch.setattr(tempfile, "tempdir", temporary)
        # How full the machine's disk is does not decide what the cache keeps.
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40))
        yield


@pytest.fixture
def only_new_garbage() -> None:
    """For tests that collect garbage: what other tests have left is not looked through."""
    gc.freeze()


@pytest.fixture
def cliffs_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of kernels that are known to be slow beyond reason: `pytest.mark.usefixtures` shows where these are."""
    monkeypatch.setenv("POLYREME_CLIFFS", "")


@pytest.fixture(autouse=True)
def _what_is_drawn_may_be_slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests whose inputs are drawn ask for right results. Among images a few pixels wide there are kernels that are slow
    beyond reason; the random networks of one seed are held to have none (`tests/lowering/schedule/test_cliffs.py`).
    """
    if getattr(request.function, "is_hypothesis_test", False):
        monkeypatch.setenv("POLYREME_CLIFFS", "")


# What the generators of modules would draw first, by their places in memory: they live as long as their modules.
_BEGINNINGS: dict[int, Any] = {}


@pytest.fixture(autouse=True)
def _what_is_drawn_does_not_depend_on_other_tests(request: pytest.FixtureRequest) -> None:
    import numpy as np

    for value in vars(request.module).values():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = _BEGINNINGS.setdefault(id(value), value.bit_generator.state)


def pytest_configure(config: pytest.Config) -> None:
    """Where Python leaves no byte code beside the sources, as in most containers, it goes to pytest's cache: else every process of the
    tests would compile all of them again. Random tests draw the same inputs in every run that asks for no others.
    """
    if sys.dont_write_bytecode and (kept := getattr(config, "cache", None)) is not None:
        with suppress(OSError):
            sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(kept.mkdir("bytecode"))
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            sys.dont_write_bytecode = False
    if config.getoption("hypothesis_seed", None) is None and config.getoption("hypothesis_profile", None) is None:
        # What fails was changed, and was not drawn by chance: `--hypothesis-seed` draws other inputs.
        # How long an input takes says nothing: the first one imports and compiles, and other processes run beside.
        settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("repeatable")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[_CRASHES] = tempfile.mkdtemp(prefix="polyreme-crashes-")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto` is one worker more than there are processors: a tenth of the time a test waits for a process of its own."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


# Where workers write what they were doing when they crashed.
_CRASHES = "POLYREME_CRASHES"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Crashes of workers are told of in the summary, not in the midst of what the others print. pytest has its own way until here."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        file = (Path(os.environ[_CRASHES]) / f"{worker}-{os.getpid()}").open("w")
        faulthandler.enable(file)
        # What C code prints before it aborts is in the file without a name that pytest gathers the standard error in: its last words stand
        # before the crash's stack if that file is one that outlives the worker.
        gathered = getattr(getattr(session.config.pluginmanager.getplugin("capturemanager"), "_global_capturing", None), "err", None)
        if isinstance(getattr(gathered, "targetfd", None), int):
            said = os.open(f"{file.name}.stderr", os.O_RDWR | os.O_CREAT | os.O_APPEND)
            os.dup2(said, gathered.tmpfile.fileno())
            os.dup2(said, gathered.targetfd)
            os.close(said)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What workers that crashed were doing. One that the system killed, for its memory perhaps, says nothing."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    for path in sorted(Path(os.environ[_CRASHES]).glob("*")):
        if path.suffix != ".stderr" and (text := path.read_text()):
            terminalreporter.section(f"crash of {path.name}")
            said = path.with_name(f"{path.name}.stderr")
            terminalreporter.write((said.read_text(errors="replace") if said.exists() else "") + text)
    shutil.rmtree(os.environ[_CRASHES])


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: thousands of tests, through which the garbage collector need not look while modules
    are built.
    """
    gc.freeze()


# Marks of tests that run on demand only.
LONGER = {"slow", "peer", "gpu", "mpi", "qemu"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the quick lane files of no quick tests are not imported."""
    if config.option.markexpr == "quick" and collection_path.name.startswith("test_"):
        return True if _in_tests(collection_path) not in quick_lane.FILES else None
    return None


@functools.cache
def _in_tests(path: Path) -> str:
    folder = Path(__file__).parent
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""


@functools.cache
def longer_cases() -> frozenset[str]:
    lines = (Path(__file__).parent / "longer.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the quick lane's files and cases of `longer.txt` are marked, and tests of a GPU say why they do not run where there is none.
    """
    longer = longer_cases()
    for item in items:
        if item.nodeid in longer:
            item.add_marker(pytest.mark.slow)
    for item in items:
        if _in_tests(item.path) in quick_lane.FILES and not LONGER & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.quick)
    wanted = [item for item in items if item.get_closest_marker("gpu") is not None]
    reason = _no_device() if wanted else ""
    for item in wanted if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))


def _no_device() -> str:
    from polyreme.runtime.gpu.drivers import GpuError, open_driver

    try:
        open_driver("gpu")
    except (GpuError, ValueError, ImportError) as error:
        return f"needs a CUDA device: {error}"
    return ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew, to be read in review")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` is what the file golden/`name` beside the test holds, or becomes it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is missing: run with --update-golden and read it"
        want = path.read_text(encoding="utf-8")
        diff = "\n".join(difflib.unified_diff(want.splitlines(), text.splitlines(), "golden", "now", lineterm=""))
        assert not diff, f"{path.name} differs (--update-golden writes it anew):\n{diff}"

    return compare
