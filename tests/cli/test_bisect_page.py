"""The session in docs/bisect.md goes as it is shown there, with the bug that the page plants; --update-golden writes what is printed now.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from polyreme.cli import run_command
from polyreme.lowering.transforms import cleanup

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bisect.md"
CONSOLE = re.compile(r"(?m)^```console\n(.*?)^```$", re.DOTALL)
PYTHON = re.compile(r"(?m)^```python\n# (\S+)\n(.*?)^```$", re.DOTALL)


def test_the_session_goes_as_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    blocks = dict(PYTHON.findall(page))
    Path("net.py").write_text(f"# net.py\n{blocks['net.py']}")
    commands: list[list[str]] = []

    def typed(line: str) -> str:
        words = shlex.split(line)
        if words[0] == "cat":
            return Path(words[1]).read_text().replace(f"{tmp_path}/", "")
        commands.append(words[1:])
        assert run_command(words[1:]) == 3
        out, err = capsys.readouterr()
        return (out + err).replace(f"{tmp_path}/", "")

    def replay(block: re.Match[str]) -> str:
        lines = [line.removeprefix("$ ") for line in block.group(1).splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"$ {line}\n{typed(line)}" for line in lines) + "```"

    monkeypatch.setattr(cleanup, "CANONICAL", list(cleanup.CANONICAL))
    exec(compile(blocks["lowering/transforms/cleanup.py"], "lowering/transforms/cleanup.py", "exec"), dict(vars(cleanup)))
    now = CONSOLE.sub(replay, page)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert [run_command(words) for words in commands] == [0, 0], "without the rule all is well"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(now, encoding="utf-8")
        page = now
    assert now == page, "`pytest tests/cli/test_bisect_page.py --update-golden` shows what is printed now"
