"""Runs the examples of the pages in docs/errors: what an example is, and what it prints."""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import polyreme as paddle
import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.cli import run_command as run
from polyreme.cli.reports import error_text
from polyreme.ir.define import OPS
from polyreme.ir.syntax.parser import parse_module
from polyreme.ir.verify import verify
from polyreme.utils import unique_name

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "errors"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page in its parts; `blocks` are the pieces of the example, (language, text), and `printed` what it says."""

    code: str
    title: str
    text: str
    blocks: tuple[tuple[str, str], ...]
    printed: str

    @property
    def sections(self) -> list[str]:
        return re.findall(r"^## (.*)$", self.text, re.MULTILINE)


def read_page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    heading = re.match(r"# (E\d{4}): (.*)\n", text)
    assert heading is not None, f"{path.name}: expected a heading such as '# E0301: title'"
    blocks = BLOCK.findall(text)
    printed = [at for at, (language, _) in enumerate(blocks) if language == "text"]
    assert printed, f"{path.name}: expected an example and, as ```text, what it prints"
    return Page(path.stem, heading[2], text, tuple(blocks[: printed[0]]), blocks[printed[0]][1])


def with_printed(page: Page, printed: str) -> str:
    """The page's text with another message."""
    return page.text.replace(f"```text\n{page.printed}```", f"```text\n{printed}```", 1)


def output_of(page: Page, folder: Path) -> str:
    """What the example prints as its error, run in `folder` (without its path, which differs from run to run)."""
    with _clean_state(folder):
        commands = [text for language, text in page.blocks if language == "console"]
        sys.argv = ["polyreme" if commands else "example.py"]
        for language, text in page.blocks:
            if language in ("python", "mlir"):
                Path("example.py" if language == "python" else "example.tir").write_text(text, encoding="utf-8")
        printed = _commands(commands[0]) if commands else _program(*page.blocks[-1])
    # Files that we make somewhere else have names that differ from run to run.
    kept = re.sub(rf"{re.escape(tempfile.gettempdir())}/\S+(\.\w+)", r"kept\1", printed.replace(f"{folder}/", ""))
    return kept.rstrip() + "\n"


def _program(language: str, text: str) -> str:
    try:
        if language == "mlir":
            verify(parse_module(text, "example.tir"), source=text)
        else:
            exec(compile(text, "example.py", "exec"), {"__name__": "__main__"})
    except Exception as error:
        return error_text(error)
    raise AssertionError("expected the example to end in an error but it ran through")


def _commands(text: str) -> str:
    printed = ""
    for line in text.splitlines():
        words = shlex.split(line.removeprefix("$ "))
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stderr(io.StringIO()) as errors,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            while "=" in words[0]:
                patch.setenv(*words.pop(0).split("=", 1))
            assert words[0] == "polyreme", f"expected a command of ours but got {line!r}"
            run(words[1:])
        printed = errors.getvalue()
    return "\n".join(row for row in printed.splitlines() if not row.startswith("see: "))


@contextlib.contextmanager
def _clean_state(folder: Path) -> Iterator[None]:
    """As in a process of its own: an empty folder, fresh names and programs, and everything back in its place at the end."""
    linecache.clearcache()
    modules, before, ops = dict(sys.modules), os.getcwd(), dict(OPS)
    with unique_name.guard(), paddle.static.scope_guard(paddle.static.Scope()), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "160")
        patch.setattr(sys, "argv", sys.argv)
        paddle.seed(0)
        try:
            with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
                yield
        finally:
            paddle.disable_static()
            paddle.set_device("cpu")
            for name in [n for n, module in sys.modules.items() if module is None and modules.get(n, True) is not None]:
                del sys.modules[name]
            sys.modules.update({n: m for n, m in modules.items() if n not in sys.modules})
            for name in OPS.keys() - ops.keys():
                # What an example declares; ops of ours that it was the first to import stay.
                if OPS[name].__module__.split(".")[0] != "polyreme":
                    del OPS[name]
            os.chdir(before)
