"""`polyreme opt`: IR in, passes, IR out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from polyreme.cli import Command
from polyreme.cli.colours import color_option, print_listing, print_text
from polyreme.cli.listing import load_passes, ops_text, passes_text
from polyreme.cli.models import read_ir
from polyreme.cli.text_form import TextForm, form_options

EXAMPLES = (
    ("What a model says, as text", "polyreme inspect examples/lenet.py:LeNet -o lenet.tir"),
    ("From nn to fused tensor ops", "polyreme opt lenet.tir --passes canonicalize,nn-to-tensor,canonicalize,cse,dce,fuse -o fused.tir"),
    ("On from there, for another machine: an option of the pass", "polyreme opt fused.tir --passes 'tensor-to-kernel{target=aarch64}' -o kernels.tir"),
    ("Text of any level compiles", "polyreme compile fused.tir --target aarch64 --to asm -o lenet.s"),
    ("Verify after every pass, and say what each took", "polyreme opt lenet.tir --passes canonicalize,cse,dce --verify-each --timing -o tidy.tir"),
    ("Keep the module after every pass that changed it", "POLYREME_DUMP=steps polyreme opt lenet.tir --passes nn-to-tensor,canonicalize,fuse -o fused.tir"),
    ("See every rewrite", "POLYREME_DEBUG=7 polyreme opt lenet.tir --passes nn-to-tensor,canonicalize -o tidy.tir"),
    ("Repeat what failed: the error names a file with its command in the first line", "polyreme opt steps/01-nn-to-tensor.tir --passes canonicalize"),
    ("MLIR's own form, for its tools", "polyreme opt lenet.tir --generic --locations -o lenet.mlir"),
    ("What an op means, takes and becomes", "polyreme opt --list-ops nn.softmax"),
)


@click.command("opt", cls=Command, examples=EXAMPLES)
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
@click.option("--passes", "spec", default="", metavar="A,B", help="Passes by name, such as cse,fuse-elementwise{max-inputs=4}.")
@click.option("--list-passes", is_flag=True, help="List the passes, their options, and what each does, and stop.", is_eager=True, expose_value=False,
              callback=lambda ctx, _, value: _list_passes(ctx) if value else None)  # fmt: skip
@click.option("--list-ops", is_flag=False, flag_value="", metavar="[PREFIX]", is_eager=True, expose_value=False,
              help="List the ops whose names start so, or tell all about one, and stop.",
              callback=lambda ctx, _, value: None if value is None else _list_ops(ctx, value))  # fmt: skip
@click.option("--verify-each", is_flag=True, help="Verify after every pass.")
@click.option("--timing", is_flag=True, help="Print what each pass took, on standard error.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of printing.")
@form_options(elide_on_a_terminal=False)
@color_option
def command(file: Path, spec: str, form: TextForm, color: str, verify_each: bool, timing: bool, output: Path | None) -> None:
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
        print_text(text, color)


def _list_passes(ctx: click.Context) -> None:
    click.echo(passes_text(), nl=False)
    ctx.exit()


def _list_ops(ctx: click.Context, prefix: str) -> None:
    print_listing(ops_text(prefix))
    ctx.exit()
