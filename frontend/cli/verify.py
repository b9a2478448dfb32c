"""`polyreme verify`: whether a library computes what its model should."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyreme.cli import WRONG, Command
from polyreme.cli.bisect import input_names, read_inputs, tell_finding
from polyreme.cli.completion import complete_files, model_argument
from polyreme.cli.drawing import SIZES, first_taken
from polyreme.cli.models import find_model, parse_input
from polyreme.cli.own_passes import OwnPasses, own_passes_options
from polyreme.cli.reports import is_quiet, note
from polyreme.ir.diagnostics import PolyremeError

EXAMPLES = (
    ("A library against the model that it was made of, on random inputs", "polyreme verify net.json net.so"),
    ("On an array of one's own", "polyreme verify net.json net.so --input image=image.npy"),
)


@click.command("verify", cls=Command, examples=EXAMPLES)
@model_argument
@click.argument("library", type=click.Path(path_type=Path), shell_complete=complete_files)
@click.option(
    "--input", "given", multiple=True, metavar="NAME=FILE.npy|DTYPE[SIZES]",
    help="An input's array; or, as with inspect, what the model takes.",
)
@click.option("--inputs", "archive", type=click.Path(path_type=Path), metavar="FILE.npz", help="The arrays of all inputs, by name.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the inputs that are not given.")
@click.option(
    "--size", type=click.IntRange(min=0), help="The value of free sizes in drawn inputs; by default 3, or the first that the model takes."
)
@own_passes_options()
@click.option(
    "-o", "--output", default=".", type=click.Path(file_okay=False, path_type=Path), help="The folder for what reproduces a fault."
)
@click.pass_context
def command(
    ctx: click.Context, model: str, library: Path, given: tuple[str, ...], archive: Path | None, seed: int, size: int | None,
    own: OwnPasses, output: Path,
) -> None:
    """Compare LIBRARY with what MODEL should compute, on random or given inputs.

    MODEL is evaluated op by op. Each output may differ by what the bounds of the model's ops allow on these inputs. Where one differs by
    more, the compiler's passes are searched for the first that changes a result, and for the op that it changes. Exit code 0: all outputs
    are right; 3: one is not; 1: they cannot be compared.
    """
    from polyreme.compiled.compilation import load_compiled
    from polyreme.ir.debug.additions import added
    from polyreme.ir.debug.tolerance import expect
    from polyreme.lowering.debug.bisect import bisect, passes_of
    from polyreme.lowering.machines.targets import find_target

    executable = load_compiled(library)
    found = find_model(model, [parse_input(text) for text in given if not text.endswith(".npy")])
    module = found.module(freeze=True)
    main = module.function()
    files = [text for text in given if text.endswith(".npy")]

    def run(size: int) -> tuple[list[Any], Any]:
        arrays = read_inputs(main, files, archive, seed, size)
        return arrays, executable.run(_in_order(executable.manifest, input_names(main), arrays, library))

    arrays, results = first_taken((3, *SIZES) if size is None else [size], run)
    expected = expect(module, arrays)
    names = list(executable.output_names)
    if len(names) != len(expected.given):
        message = f"expected {len(expected.given)} outputs of '{library}', as '{found.name}' has, but got {len(names)}"
        raise PolyremeError(message, code="E0003")
    misfits = {misfit.result: misfit for misfit in expected.misfits(results)}
    for i, (name, result) in enumerate(zip(names, results, strict=True)):
        kind = f"{name}: {result.dtype}{list(result.shape)}"
        if i in misfits:
            click.echo(f"  wrong  {kind}: {str(misfits[i]).partition(': ')[2]}")
        else:
            click.echo(f"     ok  {kind}: {_error_text(expected.values[i], result)}")
    if not misfits:
        click.echo("all outputs are within their bounds")
        return
    machine = executable.manifest.target
    target = find_target(machine.triple, machine.cpu or None, machine.features or None)
    note("looking for the first pass and op that change a result")
    with added(own.load(), have_to_run=False):
        finding = bisect(module, arrays, passes_of(target), target, True, None, (lambda line: None) if is_quiet() else click.echo)
    if finding is None:
        click.echo(
            f"the compiler that is installed here makes right code of '{found.name}' for these inputs: the library was made of another "
            "model or other weights (a Python model draws its own in each process, unless it calls paddle.seed), or by another version"
        )
    else:
        tell_finding(finding, module, found.name, "native", own, output)
    ctx.exit(WRONG)


def _in_order(manifest: Any, names: Sequence[str], arrays: Sequence[Any], library: Path) -> list[Any]:
    """The model's inputs in the library's order: by their names, or as they come where the names are others."""
    wanted = [spec.name for spec in manifest.inputs]
    if len(wanted) != len(names):
        message = f"expected {len(names)} inputs ({', '.join(names)}) of '{library}' but it takes {', '.join(wanted)}"
        raise PolyremeError(message, code="E0003")
    by_name = dict(zip(names, arrays, strict=True))
    return [by_name[name] for name in wanted] if set(wanted) == set(names) else list(arrays)


def _error_text(value: Any, result: Any) -> str:
    """How far a result is from the right one."""
    if result.dtype.kind not in "fcV" or not result.size:
        return "equal"
    wide = np.asarray(result).astype(value.dtype)
    finite = np.isfinite(value) & np.isfinite(wide)
    off = float(np.max(np.abs(wide - value), initial=0.0, where=finite))
    largest = float(np.max(np.abs(value), initial=0.0, where=finite))
    return f"at most {off:.2g} off" + (f", {off / largest:.2g} of its largest value" if largest else "")
