"""`polyreme completion`: the script with which a shell completes command lines, and what options and arguments complete to.

The shell runs `polyreme` again at every TAB, with the line so far in its environment; `click` answers, and asks the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from polyreme.cli import Command
from polyreme.ir.config import COMPLETION

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = (
    ('The script for ~/.bashrc; for this shell only, eval "$(polyreme completion bash)"', "polyreme completion bash"),
    ("The script for ~/.zshrc, below compinit", "polyreme completion zsh"),
    ("The script for ~/.config/fish/completions/polyreme.fish", "polyreme completion fish"),
)


@click.command("completion", cls=Command, examples=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, passes, targets and error codes of polyreme."""
    from polyreme.cli import group

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(group, {}, "polyreme", COMPLETION)
    click.echo(made.source_template % made.source_vars())


def completed_by(names: Callable[[], Iterable[str]], many: bool = False) -> Callable[..., list[CompletionItem]]:
    """Completes a value to one of `names`; with `many`, the last of several that commas separate."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",") if many else ("", "", incomplete)
        return [CompletionItem(f"{before}{comma}{name}") for name in names() if name.startswith(last)]

    return complete


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes a value to a file."""
    return [CompletionItem(incomplete, type="file")]


def target_names() -> list[str]:
    """The targets that have names."""
    from polyreme.lowering.machines.targets import GPU_TARGETS, TARGETS

    return ["native", *TARGETS, *GPU_TARGETS]


def error_codes() -> list[str]:
    from polyreme.ir.error_codes import ERROR_CODES

    return list(ERROR_CODES)


def op_names() -> list[str]:
    from polyreme import dialects
    from polyreme.ir.context import all_ops

    assert dialects.DIALECTS  # importing the room is what makes its ops known
    return list(all_ops())


model_argument: Any = click.argument("model", shell_complete=complete_files)
target_option: Any = click.option(
    "--target", default="native", show_default=True, help="A target's name or a triple.", shell_complete=completed_by(target_names)
)
