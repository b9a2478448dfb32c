"""`polyreme reduce`: text that fails, made as small as it can be while it still fails."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from polyreme.cli import Command
from polyreme.cli.bisect import parse_steps, read_inputs, write_case
from polyreme.cli.completion import completed_by, target_option
from polyreme.cli.models import existing, read_ir
from polyreme.cli.own_passes import OwnPasses, own_passes_options, pass_names
from polyreme.cli.reports import note, writing
from polyreme.ir.diagnostics import PolyremeError

if TYPE_CHECKING:
    from polyreme.ir.debug.reduce import Case

CHECK_SECONDS = 60

EXAMPLES = (
    (
        "The smallest module on which a pass fails, or changes what is computed",
        "polyreme reduce wrong.tir --passes canonicalize,fuse -o small.tir",
    ),
    (
        "The smallest module for which a command fails as it does for the whole",
        "polyreme reduce wrong.tir --check 'polyreme compile {} -o /dev/null' -o small.tir",
    ),
)


@click.command("reduce", cls=Command, examples=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--passes", "spec", shell_complete=completed_by(pass_names, many=True), metavar="A,B",
    help="Keep that these passes fail, or change what the module computes; the last may be machine-code."
)
@own_passes_options(pipeline=False)
@click.option("--check", metavar="COMMAND", help="Keep the exit code of this command, which gets the file in place of {}; not 0.")
@click.option("--inputs", "archive", type=click.Path(path_type=Path), metavar="FILE.npz", help="The arrays of the inputs, by name.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the inputs that are not given.")
@click.option("--size", type=click.IntRange(min=0), default=3, show_default=True, help="The value of free sizes in drawn inputs.")
@target_option
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of printing, and inputs beside it (.npz)."
)
def command(
    file: Path,
    spec: str | None,
    own: OwnPasses,
    check: str | None,
    archive: Path | None,
    seed: int,
    size: int,
    target: str,
    output: Path | None,
) -> None:
    """Make the IR text in FILE as small as it can be while it still fails."""
    from polyreme.compiled.inspection import as_target
    from polyreme.ir.debug.reduce import Case, cost, reduce_case
    from polyreme.ir.text import print_module
    from polyreme.lowering.debug.bisect import Bisection, BisectStep
    from polyreme.lowering.debug.reducer import REDUCTIONS

    if (spec is None) == (check is None):
        raise click.UsageError("expected either --passes or --check, to say what fails")
    existing(file)
    if own.files and check is not None:
        raise click.UsageError("expected --load together with --passes: the command of --check has options of its own")
    own.load()
    module = read_ir(file)
    if check is not None:
        case = Case(module)
        fails = _keeps_exit_code(check, case)
    else:
        assert spec is not None
        passes, machine_code = parse_steps(spec)
        steps = [*map(BisectStep, passes), *([BisectStep(None)] if machine_code else [])]
        case = Case(module, tuple(read_inputs(module.function(), [], archive, seed, size)))
        fails = Bisection(as_target(target)).failure(steps, case)
    small = reduce_case(case, fails, REDUCTIONS)
    note(f"{cost(case)[0]} ops reduced to {cost(small)[0]}")
    if output is not None:
        with writing(output):
            write_case(small, output, [])
    else:
        click.echo(print_module(small.module, locations=True), nl=False)


def _keeps_exit_code(check: str, case: Case) -> Callable[[Case], bool]:
    """Whether the command exits as it does for `case`."""
    from polyreme.ir.text import print_module

    if "{}" not in check:
        raise click.UsageError("expected {} in --check, in the place of the file")

    def exit_code(tried: Case) -> int:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "module.tir"
            path.write_text(print_module(tried.module, locations=True), encoding="utf-8")
            try:
                return subprocess.run(
                    check.replace("{}", str(path)), shell=True, capture_output=True, timeout=CHECK_SECONDS, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                return -1

    wanted = exit_code(case)
    if wanted == 0:
        raise PolyremeError(f"expected a command that fails but '{check}' exits with 0", code="E0412")
    return lambda tried: exit_code(tried) == wanted
