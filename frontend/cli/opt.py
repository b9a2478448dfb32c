"""`polyreme opt`: IR in, passes, IR out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from polyreme.cli import Command
from polyreme.cli.models import read_ir
from polyreme.cli.text_form import TextForm, form_options


@click.command("opt", cls=Command)
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
@click.option("--passes", "spec", default="", metavar="A,B", help="Passes by name, such as cse,fuse-elementwise{max-inputs=4}.")
@click.option("--list", "listed", is_flag=True, help="List the passes there are, and stop.", is_eager=True, expose_value=False,
              callback=lambda ctx, _, value: _list_passes(ctx) if value else None)  # fmt: skip
@click.option("--verify-each", is_flag=True, help="Verify after every pass.")
@click.option("--timing", is_flag=True, help="Print what each pass took, on standard error.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of printing.")
@form_options(elide_on_a_terminal=False)
def command(file: Path, spec: str, form: TextForm, verify_each: bool, timing: bool, output: Path | None) -> None:
    """Read IR text of any level from FILE (- is standard input), run passes, and print it."""
    from polyreme.ir.passes import PassManager, parse_passes
    from polyreme.ir.text import print_module

    load_passes()
    manager = PassManager(parse_passes(spec), verify_each=verify_each)
    if str(file) != "-" and not file.is_file():
        raise FileNotFoundError(f"there is no file '{file}'")
    module = manager.run(read_ir(file))
    if timing:
        print(manager.timing_table(), file=sys.stderr)
    text = print_module(module, **form)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


def load_passes() -> None:
    """Import what registers passes."""
    # Importing them is what registers them.
    import polyreme.lowering.bucket
    import polyreme.lowering.pipeline  # noqa: F401


def _list_passes(ctx: click.Context) -> None:
    from polyreme.ir.passes import PASSES

    load_passes()
    for name in sorted(PASSES):
        click.echo(name)
    ctx.exit()
