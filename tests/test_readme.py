"""What the README shows is true: its Python runs, its commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_quick_tour_runs(tmp_path: Path) -> None:
    """All its blocks, one after the other, as a reader would type them."""
    program = tmp_path / "tour.py"
    program.write_text("\n".join(blocks("python")))
    environment = {**os.environ, "POLYREME_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "nn.linear" in done.stdout


def test_the_first_command_installs_and_runs_the_demo() -> None:
    assert blocks("sh")[0].strip() == "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/polyreme demo"


def test_the_second_command_installs_and_runs_the_tests() -> None:
    assert blocks("sh")[1].strip() == ".venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n auto"


@pytest.mark.parametrize("line", [line for line in blocks("sh")[2].splitlines() if line])
def test_the_commands_of_the_tour_take_these_options(line: str) -> None:
    """Parsed, not run: the files of the tour are not there."""
    from polyreme.cli import group

    name, *rest = line.removeprefix("polyreme ").split()
    with group.make_context("polyreme", [name, *rest]) as parent:
        command = group.get_command(parent, name)
        assert command is not None
        with command.make_context(name, rest, parent=parent) as context:
            assert context.params["model" if "model" in context.params else "file"]


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    links = [
        (page, target) for page in pages for target in re.findall(r"\]\((?!http)([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 100
    assert [f"{page.relative_to(ROOT)}: {target}" for page, target in links if not (page.parent / target).exists()] == []
