"""`polyreme opt`: IR in, passes, IR out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyreme.cli import Command
from polyreme.cli.colours import color_option, print_listing, print_text
from polyreme.cli.completion import completed_by, op_names, target_names
from polyreme.cli.listing import ops_text, passes_text
from polyreme.cli.models import existing, read_ir
from polyreme.cli.own_passes import OwnPasses, load_passes, own_passes_options, pass_names
from polyreme.cli.progress import progress
from polyreme.cli.reports import note, writing
from polyreme.cli.text_form import TextForm, form_options

if TYPE_CHECKING:
    from polyreme.ir.builtin import Module

# Those of `pipeline.LEVELS`, which is not imported for a help text.
LEVELS = ("nn", "tensor", "kernel")
EXAMPLES = (
    ("What a model says, as text", "polyreme inspect examples/lenet.py:LeNet -o lenet.tir"),
    ("From nn to fused tensor ops", "polyreme opt lenet.tir --passes canonicalize,nn-to-tensor,canonicalize,cse,dce,fuse -o fused.tir"),
    (
        "On from there, for another machine: an option of the pass",
        "polyreme opt fused.tir --passes 'tensor-to-kernel{target=aarch64}' -o kernels.tir",
    ),
    ("Text of any level compiles", "polyreme compile fused.tir --target aarch64 --to asm -o lenet.s"),
    (
        "Verify after every pass, and say what each took",
        "polyreme opt lenet.tir --passes canonicalize,cse,dce --verify-each --timing -o tidy.tir",
    ),
    ("The compiler's own passes, from the module's level to another", "polyreme opt lenet.tir --to tensor -o fused.tir"),
    (
        "Keep the module after every pass that changed it",
        "POLYREME_DUMP=steps polyreme opt lenet.tir --passes nn-to-tensor,canonicalize,fuse -o fused.tir",
    ),
    ("See every rewrite", "POLYREME_DEBUG=7 polyreme opt lenet.tir --passes nn-to-tensor,canonicalize -o tidy.tir"),
    (
        "Repeat what failed: the error names a file with its command in the first line",
        "polyreme opt steps/01-nn-to-tensor.tir --passes canonicalize",
    ),
    ("MLIR's own form, for its tools", "polyreme opt lenet.tir --generic --locations -o lenet.mlir"),
    ("What an op means, takes and becomes", "polyreme opt --list-ops nn.softmax"),
)


@click.command("opt", cls=Command, examples=EXAMPLES)
@click.argument("file", required=False, type=click.Path(allow_dash=True, path_type=Path))
@click.option(
    "--passes",
    "spec",
    default="",
    metavar="A,B",
    help="Passes by name, such as canonicalize,fuse{max-inputs=4}.",
    shell_complete=completed_by(pass_names, many=True),
)
@click.option("--list-passes", is_flag=True, help="List the passes, their options, and what each does, and stop.")
@click.option(
    "--list-ops",
    "prefix",
    is_flag=False,
    flag_value="",
    metavar="[PREFIX]",
    shell_complete=completed_by(op_names),
    help="List the ops whose names start so, or tell all about one, and stop.",
)
@click.option(
    "--from",
    "first",
    type=click.Choice(LEVELS),
    help="Run the compiler's own stages, from this level's on; by default from the module's level.",
)
@click.option("--to", "last", type=click.Choice(LEVELS), help="Run the compiler's own stages, up to this level's; by default to kernels.")
@click.option(
    "--target",
    default="native",
    show_default=True,
    help="The machine that the compiler's own stages are for.",
    shell_complete=completed_by(target_names),
)
@own_passes_options()
@click.option(
    "--verify-each", is_flag=True, help="After every pass verify the module, and run main on random inputs: it has to compute the same."
)
@click.option(
    "--inputs",
    "arrays",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="Arrays for --verify-each, by position, instead of random ones.",
)
@click.option("--no-run", is_flag=True, help="Let --verify-each only verify: kernels are slow on numpy.")
@click.option("--timing", is_flag=True, help="Print what each stage, pass, function and pattern took, as a tree on standard error.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of printing.")
@form_options(elide_on_a_terminal=False)
@color_option
def command(
    file: Path | None, spec: str, list_passes: bool, prefix: str | None, first: str | None, last: str | None, target: str, own: OwnPasses,
    form: TextForm, color: str, verify_each: bool, arrays: Path | None, no_run: bool, timing: bool, output: Path | None,
) -> None:  # fmt: skip
    """Read IR text of any level from FILE (- is standard input), run passes, and print it.

    The passes are those of --passes, or with --from and --to the compiler's own: a module enters and leaves at any level.
    """
    from polyreme.ir.debug.additions import added
    from polyreme.ir.passes import PassLike, PassManager, Stage, parse_passes
    from polyreme.ir.text import print_module
    from polyreme.lowering.machines.targets import find_target
    from polyreme.lowering.pipeline import check_in_one_piece, level_of, stages

    if list_passes or prefix is not None:
        own.load()
        print_listing(passes_text() if list_passes else ops_text(prefix or ""))
        return
    if file is None:
        raise click.MissingParameter(param_hint="'FILE'", param_type="argument", ctx=click.get_current_context())
    if spec and (first or last):
        raise click.UsageError("expected either --passes or --from and --to but got both")
    if (arrays is not None or no_run) and not verify_each:
        raise click.UsageError(f"expected {'--no-run' if no_run else '--inputs'} together with --verify-each")
    if own.texts and not (first or last):
        raise click.UsageError("expected --add-pass together with --from or --to; --passes takes any pass by its name")
    load_passes()
    additions = own.load()
    steps: Sequence[Stage | PassLike] = parse_passes(spec)
    if str(file) != "-":
        existing(file)
    module = read_ir(file)
    if first or last:
        check_in_one_piece(module)
    inputs = _inputs(module, arrays) if verify_each and not no_run else None
    with progress(file.name), added(additions):
        if first or last:
            steps = stages(find_target(target), first or level_of(module), last or "kernel")
        manager = PassManager(steps, verify_each=verify_each, inputs=inputs, detailed=timing)
        manager.run(module)
    if timing:
        print(manager.timing_table(), file=sys.stderr)
    text = print_module(module, **form)
    if output is not None:
        with writing(output):
            output.write_text(text, encoding="utf-8")
    else:
        print_text(text, color)


def _inputs(module: Module, arrays: Path | None) -> list[Any] | None:
    """What `main` is run on; None, after a word about it, where it cannot be run."""
    from polyreme.ir.debug.reproducer import read_inputs
    from polyreme.ir.diagnostics import PolyremeError
    from polyreme.ir.evaluate import evaluate, random_inputs

    main = next((f for f in module.functions if f.sym_name == "main"), None)
    if main is None:
        note("note: there is no function '@main' to run, so passes are verified only")
        return None
    if arrays is not None:
        return read_inputs(arrays, main)
    inputs = random_inputs(main)
    try:
        # A function on buffers writes into its arguments.
        evaluate(module, [x.copy() for x in inputs])
    except PolyremeError as error:
        note(f"note: '@main' does not run on random inputs, so passes are verified only: {error.message}")
        return None
    return inputs

