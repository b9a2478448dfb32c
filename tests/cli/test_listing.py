"""What there is to choose from, in the terminal: passes, ops, examples in the help."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import fields
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.cli import COMMANDS, Command, group, run_command
from polyreme.cli.listing import ops_text, passes_text
from polyreme.cli.own_passes import load_passes
from polyreme.ir.context import all_ops
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.passes import PASSES

ROOT = Path(__file__).resolve().parents[2]


def printed(*args: str) -> str:
    result = CliRunner().invoke(group, list(args))
    assert result.exit_code == 0, result.output
    return result.output


def test_every_pass_is_listed_with_its_options_its_level_and_its_meaning() -> None:
    text = printed("opt", "--list-passes")
    assert text == passes_text()
    blocks = re.split(r"\n(?=\S)", text.rstrip())
    load_passes()
    assert [block.split()[0] for block in blocks] == sorted(PASSES)
    for block in blocks:
        head, meaning, *options = block.splitlines()
        assert re.fullmatch(r"[\w-]+  \((any level|\w+( or \w+)*)( -> \w+)?; (when asked for|run in \w+( and \w+)*)\)", head)
        assert len(meaning.strip()) > 20
        made = PASSES[head.split()[0]]
        assert [o.split(":")[0].strip() for o in options] == (
            [f.name.replace("_", "-") for f in fields(made)] if isinstance(made, type) else []
        )
    assert "fuse  (tensor; run in tensor)" in text and "max-inputs: int = " in text and 'target: str = "native"' in text


def test_ops_are_listed_by_how_their_names_start() -> None:
    text = printed("opt", "--list-ops", "nn.log")
    assert text == ops_text("nn.log") and text.startswith("# nn.log\n")
    several = printed("opt", "--list-ops", "nn.lo")
    names = [line.split()[0] for line in several.splitlines() if not line.startswith(" ")]
    assert names == [n for n in all_ops() if n.startswith("nn.lo")] and len(names) > 5
    everything = printed("opt", "--list-ops")
    assert len([line for line in everything.splitlines() if not line.startswith(" ")]) == len(all_ops())


def test_a_page_in_the_terminal_is_the_page_of_the_folder() -> None:
    page = (ROOT / "docs" / "ops" / "nn.gather.md").read_text(encoding="utf-8")
    assert printed("opt", "--list-ops", "nn.gather") == re.sub(r"<!--.*?-->\n\n", "", page)


def test_an_unknown_op_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["opt", "--list-ops", "nn.sofmax"]) == 1
    assert "did you mean 'nn.softmax'" in capsys.readouterr().err
    with pytest.raises(PolyremeError, match="expected the name of an op"):
        ops_text("zz")


# --- examples in the help

STEP = """import polyreme as paddle

net = paddle.nn.Linear(784, 10)
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())


def step(x, labels):
    loss = paddle.nn.functional.cross_entropy(net(x), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return loss
"""


def examples_of(name: str) -> Sequence[tuple[str, str]]:
    command = group.get_command(None, name)  # type: ignore[arg-type]
    assert isinstance(command, Command)
    return command.examples


def examples() -> list[Any]:
    return [pytest.param(line, id=f"{name}-{i}") for name in COMMANDS for i, (_, line) in enumerate(examples_of(name))]


def test_the_help_of_every_command_ends_with_examples_that_can_be_copied() -> None:
    for name in COMMANDS:
        text = printed(name, "--help")
        assert examples_of(name), name
        shown = text.partition("Examples:\n")[2]
        assert shown == "".join(f"  # {purpose}\n  {line}\n" for purpose, line in examples_of(name))


@pytest.mark.parametrize("line", examples())
def test_the_examples_of_the_help_are_commands_with_options_that_there_are(line: str) -> None:
    words = list(dropwhile(lambda word: "=" in word, shlex.split(line)))
    assert words[0] == "polyreme"
    if "--list-ops" in words:
        return
    with group.make_context("polyreme", words[1:]) as parent:
        command = group.get_command(parent, words[1])
        assert command is not None
        if words[1] == "launch":
            words[words.index("train.py")] = __file__
        with command.make_context(words[1], words[2:], parent=parent):
            pass


@pytest.mark.slow
def test_the_examples_of_the_help_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the commands that take a model on its way; the others have tests of their own."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    np.save("image.npy", np.zeros((1, 1, 28, 28), "float32"))
    np.save("images.npy", np.random.default_rng(0).random((8, 1, 28, 28), "float32"))
    (tmp_path / "train.py").write_text(STEP)
    for name in ("inspect", "compile", "run", "bench", "opt"):
        for _, line in examples_of(name):
            words = shlex.split(line)
            with monkeypatch.context() as patch:
                while "=" in words[0]:
                    patch.setenv(*words.pop(0).split("=", 1))
                assert run_command(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"
    made = (
        "lenet.so",
        "lenet.h",
        "lenet.s",
        "lenet.cubin",
        "scores.npz",
        "lenet.tir",
        "fused.tir",
        "kernels.tir",
        "lenet.mlir",
        "steps/01-nn-to-tensor.tir",
    )
    assert [name for name in made if not Path(name).is_file()] == []
    assert "tensor.fused" in Path("fused.tir").read_text() and "kernel.load" in Path("kernels.tir").read_text()
