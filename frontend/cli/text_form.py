"""The options of commands that print IR: which form of the text, and how much of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypedDict

import click

# Constants of more elements are left out on a terminal: they would fill it.
ON_A_TERMINAL = 64


class TextForm(TypedDict):
    """What `ir.text.print_module` takes beside the module."""

    generic: bool
    locations: bool
    elide: int | None


def form_options(elide_on_a_terminal: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `--generic`, `--locations`, `--elide` and `--full` to a command, which gets them as `form`.

    With `elide_on_a_terminal` long constants are left out where a person reads them; a file or a pipe gets all, so that what is written
    reads back.
    """
    default = (
        f"when printing on a terminal those of more than {ON_A_TERMINAL}, else none"
        if elide_on_a_terminal
        else "none, so that the text reads back"
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:

        @click.option(
            "--generic", is_flag=True, help="Print MLIR's generic form, for `mlir-opt --allow-unregistered-dialect` and its like."
        )
        @click.option("--locations", is_flag=True, help="Print the user's file and line of each op.")

        @click.option(
            "--elide", type=click.IntRange(min=0), metavar="N", help=f"Leave out constants of more than N elements. [default: {default}]"
        )
        @click.option("--full", is_flag=True, help="Print every constant in full.")
        @wraps(command)
        def run(*args: Any, generic: bool, locations: bool, elide: int | None, full: bool, output: Path | None, **others: Any) -> Any:
            if full and elide is not None:
                raise click.UsageError("expected one of --elide and --full but got both")
            if elide is None and not full and elide_on_a_terminal and output is None and sys.stdout.isatty():
                elide = ON_A_TERMINAL
            return command(*args, output=output, form=TextForm(generic=generic, locations=locations, elide=elide), **others)

        return run

    return decorate
