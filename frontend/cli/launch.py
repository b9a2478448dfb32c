"""`polyreme launch`: a script in several processes that train together."""

from __future__ import annotations

import sys

import click

from polyreme.cli import Command

EXAMPLES = (("Two processes that train together; what follows the script is the script's own", "polyreme launch -n 2 train.py --epochs 3"),)


@click.command(
    cls=Command, examples=EXAMPLES, name="launch", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("-n", "--nproc", type=click.IntRange(min=1), help="How many processes; by default one per processor.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, nproc: int | None, script: str, arguments: tuple[str, ...]) -> None:
    """Run the Python file SCRIPT in several processes, which meet in paddle.distributed.init_parallel_env()."""
    from polyreme.distributed.launch import ranks_of
    from polyreme.distributed.processes import run_ranks

    ctx.exit(run_ranks(ranks_of(nproc, None), [sys.executable, script, *arguments]))
