"""`polyreme info`: what it says of an installation, for people and for programs."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import pytest

import polyreme
from polyreme.cli import info, run_command
from polyreme.lowering.machines.targets import host
from polyreme.runtime.gpu import drivers


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `polyreme info` with a cache folder of its own: (exit code, output)."""
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path / "kept"))

    def call(*args: str) -> tuple[int, str]:
        code = run_command(["info", *args])
        return code, capsys.readouterr().out

    return call


def test_a_program_gets_what_there_is(told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREME_THREADS", "3")
    code, text = told("--json")
    found = json.loads(text)
    assert code == 0
    assert found["polyreme"]["version"] == polyreme.__version__
    assert found["python"]["version"] == platform.python_version() and found["numpy"] == np.__version__
    assert found["llvmlite"] == llvmlite.__version__ and found["llvm"].split(".")[0].isdigit()
    target = host()
    assert found["processor"]["cpu"] == target.cpu and found["processor"]["caches"] == list(target.caches)
    assert found["processor"]["vector_bits"] == 8 * target.vector_bytes
    assert found["threads"]["used"] == 3
    assert found["cache"] == {"folder": str(tmp_path / "kept"), "entries": 0, "bytes": 0, "limit": found["cache"]["limit"]}
    assert found["extras"]["vision"]["pillow"] == importlib.metadata.version("pillow")
    assert "llvmlite" not in found["extras"]


def test_people_get_a_line_for_each(told: Any, tmp_path: Path) -> None:
    code, text = told()
    names = [line.split()[0] for line in text.splitlines()]
    assert code == 0 and names[:3] == ["polyreme", "python", "system"]
    assert names[-len(info.EXTRAS) :] == [f"[{extra}]" for extra in info.EXTRAS]
    assert f"{tmp_path / 'kept'}: 0 entries of 0 B, at most " in text
    assert f"vectors of {8 * host().vector_bytes} bits" in text


def test_a_cache_that_is_off_is_said(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREME_CACHE", "off")
    assert "\ncache        off: POLYREME_CACHE says so\n" in told()[1]


def test_a_gpu_is_named_or_why_there_is_none(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise drivers.GpuError("expected a CUDA device")

    monkeypatch.setattr(drivers, "open_driver", absent)
    assert "\ngpu          none: expected a CUDA device\n" in told()[1]

    class Found:
        sm, model = 90, "NVIDIA H100"

    monkeypatch.setattr(drivers, "open_driver", lambda name: Found())
    assert "\ngpu          NVIDIA H100, sm_90\n" in told()[1]
    assert json.loads(told("--json")[1])["gpu"] == {"name": "NVIDIA H100", "sm": 90, "reason": None}


def test_a_setting_that_means_nothing_is_an_error_of_a_line(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREME_THREADS", "many")
    assert told()[0] == 1


@pytest.mark.toolchain
def test_a_module_of_webassembly_is_told(told: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.wasm"
    polyreme.compile(polyreme.nn.Linear(4, 2), path, input_spec=[polyreme.static.InputSpec([None, 4], "float32", "x")])
    code, text = told(str(path))
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert code == 0
    assert lines["input"] == "x: float32[N, 4]" and lines["target"].startswith("wasm32-unknown-unknown")
    assert lines["here"] == "net.mjs loads it in a browser or in Node"
    code, text = told("--json", str(path))
    assert code == 0 and json.loads(text)["kind"] == "module"
