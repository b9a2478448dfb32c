"""`polyreme explain`: what the code of an error means."""

from __future__ import annotations

import click

from polyreme.cli import Command
from polyreme.cli.colours import print_listing
from polyreme.cli.completion import completed_by, error_codes

EXAMPLES = (
    ("What an error's code means, why it comes, and the way out", "polyreme explain E0301"),
    ("Every code there is", "polyreme explain"),
)


@click.command("explain", cls=Command, examples=EXAMPLES)
@click.argument("codes", nargs=-1, metavar="[CODE]...", shell_complete=completed_by(error_codes))
def command(codes: tuple[str, ...]) -> None:
    """Say what each error CODE means, why it comes, and the way out; without a code, list all codes."""
    from polyreme.ir.error_codes import ERROR_CODES, GROUPS, page

    if codes:
        print_listing("\n".join(page(code) for code in codes))
        return
    for prefix, group in GROUPS.items():
        click.echo(f"{prefix}xx {group}")
        for code, title in ERROR_CODES.items():
            if code.startswith(prefix):
                click.echo(f"  {code}  {title}")
