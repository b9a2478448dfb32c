"""`polyreme explain`: what the code of an error means."""

from __future__ import annotations

import sys

import click

from polyreme.cli import Command


@click.command("explain", cls=Command)
@click.argument("codes", nargs=-1, metavar="[CODE]...")
def command(codes: tuple[str, ...]) -> None:
    """Say what each error CODE means, why it comes, and the way out; without a code, list all codes."""
    from polyreme.ir.error_codes import ERROR_CODES, GROUPS, page

    if codes:
        _show("\n".join(page(code) for code in codes))
        return
    for prefix, group in GROUPS.items():
        click.echo(f"{prefix}xx {group}")
        for code, title in ERROR_CODES.items():
            if code.startswith(prefix):
                click.echo(f"  {code}  {title}")


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
