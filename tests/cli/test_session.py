"""The session in docs/opt.md goes as it is shown there.

Its `console` blocks are run one after the other in an empty folder; what a command prints follows its line. Names of folders and of
temporary files are taken out. With --update-golden what is printed now becomes what is shown, to be read in review.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from glob import glob
from itertools import takewhile
from pathlib import Path

import pytest

from polyreme.cli import run_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "opt.md"
CONSOLE = re.compile(r"(?m)^```console\n(.*?)^```$", re.DOTALL)
PYTHON = re.compile(r"(?m)^```python\n# (\S+)\n(.*?)^```$", re.DOTALL)


def run(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """What a line typed in a terminal prints: our commands are run here, others by a shell."""
    words = [found for word in shlex.split(line) for found in (sorted(glob(word)) or [word])]
    settings = list(takewhile(lambda word: re.match(r"[A-Z_]+=", word), words))
    if words[len(settings)] == "polyreme":
        with monkeypatch.context() as patch:
            for setting in settings:
                patch.setenv(*setting.split("=", 1))
            run_command(words[len(settings) + 1 :])
        out, err = capsys.readouterr()
        text = out + err
    else:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20, env={**os.environ, "LC_ALL": "C"})
        text = done.stdout + done.stderr
    text = text.replace(f"{folder}/", "").replace(f"{tempfile.gettempdir()}/", "/tmp/")
    return re.sub(r"(polyreme-[\w-]+)-\w{8}\b", r"\1-xxxxxxxx", text)


def test_the_session_goes_as_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    for name, text in PYTHON.findall(page):
        Path(name).write_text(text)

    def replay(block: re.Match[str]) -> str:
        commands = [line.removeprefix("$ ") for line in block.group(1).splitlines() if line.startswith("$ ")]
        assert commands
        return "```console\n" + "".join(f"$ {c}\n{run(c, capsys, monkeypatch, tmp_path)}" for c in commands) + "```"

    now = CONSOLE.sub(replay, page)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, encoding="utf-8")
        page = now
    assert now == page, "`pytest tests/cli/test_session.py --update-golden` shows what is printed now"


def test_the_page_names_files_that_there_are() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).exists(), target
