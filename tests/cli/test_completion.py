"""`polyreme completion`: what a command line may go on with, asked as shells ask, and in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polyreme.cli import COMMANDS, run_command
from polyreme.ir.error_codes import ERROR_CODES

BASH = shutil.which("bash")


def completions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]) -> list[str]:
    """What the last of the words may become, as `click` tells zsh: kind, text and help of each on lines of their own."""
    monkeypatch.setenv("_POLYREME_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["polyreme", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    capsys.readouterr()
    assert run_command([]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line]
    return [f"{kind}:{text}" if kind != "plain" else text for kind, text in zip(told[::3], told[1::3], strict=True)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["ins"], ["inspect"]),
        (["compile", "--ta"], ["--target"]),
        (["compile", "--target", "aarch"], ["aarch64"]),
        (["compile", "exam"], ["file:exam"]),
        (["compile", "--load", "exam"], ["file:exam"]),
        (["compile", "net.tir", "--add-pass", "fold-b"], ["fold-batch-norm"]),
        (["opt", "--passes", "cse,fold-b"], ["cse,fold-batch-norm"]),
        (["opt", "--list-ops", "nn.softm"], ["nn.softmax"]),
        (["inspect", "net.tir", "--level", "t"], ["tensor"]),
        (["explain", "E030"], [code for code in ERROR_CODES if code.startswith("E030")]),
        (["completion", "b"], ["bash"]),
        (["--qu"], ["--quiet"]),
        (["nothing", "--x"], []),
    ],
)
def test_a_command_line_is_completed(
    words: list[str], wanted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completions(monkeypatch, capsys, words) == wanted


def test_every_command_is_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(completions(monkeypatch, capsys, [""])) == set(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_polyreme(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_POLYREME_COMPLETE={shell}_complete" in script and "polyreme" in script


def test_an_unknown_shell_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["completion", "bahs"]) == 2
    assert "did you mean 'bash'?" in capsys.readouterr().err


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_a_real_bash_completes_a_command_an_option_and_a_pass() -> None:
    assert BASH is not None
    script = """
eval "$(polyreme completion bash)"
complete -p polyreme
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _polyreme_completion polyreme; echo "${COMPREPLY[@]}"; }
ask polyreme bis
ask polyreme bisect --se
ask polyreme bisect net.tir --passes cse,sink-
"""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [BASH, "--norc", "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}, check=False
    )
    registered, *shown = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert registered.startswith("complete ") and registered.endswith(" polyreme")
    assert shown == ["bisect", "--seed", "cse,sink-reshapes"]
