"""Settings are read from the environment, checked, and have defaults. Diagnostics show the user's own line."""

import os
from pathlib import Path

import pytest

from polyreme.ir import config
from polyreme.ir.diagnostics import Diagnostic, Location, PolyremeError, caller_location, hide_frames_under


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.delenv("POLYREME_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert config.cache_folder() == Path("/somewhere/polyreme")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert config.cache_folder() == Path("~/.cache/polyreme").expanduser()
    monkeypatch.setenv("POLYREME_CACHE", "/elsewhere")
    assert config.cache_folder() == Path("/elsewhere")
    monkeypatch.setenv("POLYREME_CACHE", "off")
    assert config.cache_folder() is None


def test_numbers_are_checked(monkeypatch):
    monkeypatch.setenv("POLYREME_THREADS", "3")
    assert config.threads() == 3
    monkeypatch.delenv("POLYREME_THREADS")
    assert config.threads() == len(os.sched_getaffinity(0))
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("POLYREME_THREADS", wrong)
        with pytest.raises(PolyremeError, match="expected POLYREME_THREADS to be a whole number from 1 on but got"):
            config.threads()


def test_a_diagnostic_has_a_caret_and_its_notes():
    source = "a = 1\n\tscores = q @ k\n"
    fault = Diagnostic("expected 3 but got 4", Location("model.py", 2, 11, 16), (Diagnostic("here", Location("model.py", 1)),), source)
    assert fault.render().splitlines() == [
        "model.py:2:11: error: expected 3 but got 4",
        "    \tscores = q @ k",
        "    \t         ^^^^^",
        "model.py:1: note: here",
    ]


def test_the_location_is_that_of_the_user_and_not_ours():
    namespace = {}
    code = compile("def inner(f):\n    return f()\n", "/hidden/inner.py", "exec")
    exec(code, namespace)
    hide_frames_under("/hidden/")
    here = namespace["inner"](lambda: caller_location("x"))
    assert (here.file, here.name) == (__file__, "x")
