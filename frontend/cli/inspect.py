"""`polyreme inspect`: a model's IR at a level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from polyreme.cli import Command
from polyreme.cli.colours import LANGUAGES, color_option, print_text
from polyreme.cli.completion import model_argument, target_option
from polyreme.cli.models import find_model, input_option
from polyreme.cli.own_passes import OwnPasses, own_passes_options
from polyreme.cli.progress import progress
from polyreme.cli.reports import writing
from polyreme.cli.text_form import TextForm, form_options

EXAMPLES = (
    ("What the model says", "polyreme inspect examples/lenet.py:LeNet"),
    ("How it is computed, for a batch of 8", "polyreme inspect examples/lenet.py:LeNet --level kernel --input 'image=f32[8,1,28,28]'"),
    ("Which passes ran, and which changed something", "polyreme inspect examples/lenet.py:LeNet --passes"),
    ("The module after one of them, with the lines of the model", "polyreme inspect examples/lenet.py:LeNet --after fuse --locations"),
    ("What it asks of free sizes, and which lines do", "polyreme inspect examples/lenet.py:LeNet --constraints"),
    ("Which buffers share memory, and when the most is live", "polyreme inspect examples/lenet.py:LeNet --memory"),
    ("What a step of training holds", "polyreme inspect train.py:step --memory --input 'x=f32[64,784]' --input 'labels=i64[64]'"),
    ("Who computes what, and how", "polyreme inspect examples/lenet.py:LeNet --schedules --input 'image=f32[8,1,28,28]'"),
    ("Each root with its schedule", "polyreme inspect examples/lenet.py:LeNet --level schedule --input 'image=f32[8,1,28,28]'"),
    ("Why a root is computed as it is", "polyreme inspect examples/lenet.py:LeNet --why --input 'image=f32[8,1,28,28]'"),
    ("The machine code that compile makes of it", "polyreme inspect examples/lenet.py:LeNet --frozen --level asm"),
    ("The PTX of a GPU's kernels", "polyreme inspect examples/lenet.py:LeNet --level ptx --target cuda:sm_80"),
)


@click.command("inspect", cls=Command, examples=EXAMPLES)
@model_argument
@click.option("--level", type=click.Choice(["nn", "tensor", "schedule", "kernel", "llvm", "asm", "ptx"]), default="nn", show_default=True)
@click.option("--after", metavar="PASS", help="The module after this pass instead of a level.")
@click.option("--passes", is_flag=True, help="List the passes of the pipeline, and which changed something.")
@click.option(
    "--constraints", is_flag=True, help="Report the free sizes: which inputs tell them, what is needed of them, which sizes follow."
)
@click.option(
    "--memory", is_flag=True, help="Report the plan of working memory: buffers, when they are live, where they lie, what shares bytes."
)
@click.option("--schedules", is_flag=True, help="Report how each root is computed: who took it, what was chosen, its kernels.")
@click.option("--why", is_flag=True, help="Report what each way to compute a root says: its schedule and estimate, or why it refuses.")
@click.option("--frozen", is_flag=True, help="With the weights in it, as `compile`, `run` and `bench` take the model, not as arguments.")
@target_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of printing.")
@form_options(elide_on_a_terminal=True)
@own_passes_options()
@color_option
@input_option
def command(
    model: str,
    level: str,
    after: str | None,
    passes: bool,
    constraints: bool,
    memory: bool,
    schedules: bool,
    why: bool,
    frozen: bool,
    target: str,
    output: Path | None,
    form: TextForm,
    own: OwnPasses,
    color: str,
    inputs: list[Any],
) -> None:
    """Print the IR of MODEL. Text of the levels nn, tensor, schedule and kernel reads back with `polyreme opt`, if no constants are left
    out.

    --generic, --locations, --elide and --full say how these levels are printed; llvm, asm and ptx have one form.
    """
    from polyreme.compiled.inspection import Inspection, as_target

    found = find_model(model, inputs)
    # A saved model runs with its weights in the code.
    runs = (lambda: found.module(freeze=True)) if found.kind in ("saved", "paddle") else None
    seen = Inspection(found.module(freeze=frozen, steps=True), as_target(target), frozen=runs)
    with progress(found.name), own.in_the_pipeline():
        if passes:
            text = "".join(f"{step}\n" for step in seen.passes)
        elif constraints:
            text = str(seen.constraints)
        elif memory:
            text = str(seen.memory)
        elif schedules:
            text = seen.schedules
        elif why:
            text = seen.why
        elif after is not None:
            text = seen.after(after, **form)
        else:
            text = seen.level(level, **form)
    if output is not None:
        with writing(output):
            output.write_text(text, encoding="utf-8")
    elif passes or constraints or memory or schedules or why:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        print_text(text, color, _language(level, seen.target.code) if after is None else "ir")


def _language(level: str, code: str) -> str:
    """What the text of a level is written in; the assembly of a GPU is PTX."""
    return code if level in ("asm", "ptx") and code == "ptx" else level if level in LANGUAGES else "ir"
