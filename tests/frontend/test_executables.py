"""Executables are kept in memory and on disk, and what is kept is never trusted blindly."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled import executables, kept
from polyreme.compiled.inspection import model_module
from polyreme.ir.builtin import Module
from polyreme.ir.text import parse_module
from polyreme.lowering import pipeline
from polyreme.lowering.link import workers
from polyreme.runtime.cache import cache_in

TEXT = "func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> {\n  %y = nn.tanh %x : tensor<Nx4xf32>\n  return %y\n}\n"


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of modules compiled since, with an empty cache in a folder of its own."""
    compiled: list[str] = []
    original = pipeline.compile_module

    def counted(module: Module, *args: Any, name: str = "model", **kwargs: Any) -> Any:
        compiled.append(name)
        return original(module, *args, name=name, **kwargs)

    monkeypatch.setattr(pipeline, "compile_module", counted)
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)
    return compiled


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nothing in memory."""
    monkeypatch.setattr(kept, "_loaded", type(kept._loaded)())
    cache_in.cache_clear()


def check() -> None:
    x = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
    np.testing.assert_allclose(executables.load_module(parse_module(TEXT)).run([x])[0], np.tanh(x), rtol=1e-5)


def entries(tmp_path: Path) -> list[Path]:
    return [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_equal_modules_are_compiled_once(compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    check()
    assert len(compilations) == 1
    forget(monkeypatch)
    check()
    assert len(compilations) == 1, "a new process finds it on disk"


def test_another_compiler_version_compiles_again(compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    monkeypatch.setattr(executables, "compiler_version", lambda: "another")
    check()
    assert len(compilations) == 2


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-100], lambda data: data[:500] + b"\0" + data[501:], lambda data: b"\0" * len(data)]
)
def test_a_damaged_entry_is_compiled_again(compilations: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any) -> None:
    check()
    # The model, its code linked, and the object of the thread pool.
    assert len(entries(tmp_path)) == 3
    for entry in entries(tmp_path):
        entry.write_bytes(damage(entry.read_bytes()))
    forget(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()
    assert len(compilations) == 2
    forget(monkeypatch)
    check()
    assert len(compilations) == 2, "the damaged entry was replaced"


def test_a_folder_that_cannot_be_written_costs_time_only(compilations: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the place of the folder, which even root cannot write into."""
    (tmp_path / "cache").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="cache folder .* is unusable"):
        check()
    forget(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()
    assert len(compilations) == 2


def test_the_cache_can_be_switched_off(compilations: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREME_CACHE", "off")
    check()
    assert not (tmp_path / "cache").exists()


def seen_anew() -> str:
    """The compiler's sources as a new process sees them."""
    kept._stamps.cache_clear()
    return kept._sources.__wrapped__()


def test_the_compilers_own_files_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(pipeline.__file__)
    before = seen_anew()
    stat = source.stat()
    try:
        os.utime(source, ns=(stat.st_atime_ns, time.time_ns()))
        assert seen_anew() != before
    finally:
        os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert seen_anew() == before


@pytest.mark.parametrize("has_memory", [True, False])
def test_a_network_comes_from_the_process_that_compiled_it_where_nothing_is_kept(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch, has_memory: bool
) -> None:
    monkeypatch.setenv("POLYREME_CACHE", "off")
    monkeypatch.setattr(kept, "NETWORK_OPS", 1)
    monkeypatch.setattr(workers, "_may_fork", lambda: True)
    if not has_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    paddle.seed(0)
    layer = paddle.nn.Linear(64, 300)
    module = model_module(layer, [paddle.static.InputSpec([5, 64], "float32", "x")], freeze=True)
    x = np.random.default_rng(0).standard_normal((5, 64)).astype("float32")
    executable = executables.load_module(module)
    np.testing.assert_allclose(executable.run([x])[0], layer(paddle.to_tensor(x)).numpy(), rtol=1e-4, atol=1e-5)
    assert executable.manifest.constant_bytes > 64 * 300 * 4
    assert compilations == [], "in this process nothing was compiled"
