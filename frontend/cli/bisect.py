"""`polyreme bisect`: the pass and the op at which a model's numbers go wrong."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from polyreme.cli import WRONG, Command
from polyreme.cli.completion import completed_by, model_argument, target_option
from polyreme.cli.models import find_model, parse_input
from polyreme.cli.own_passes import OwnPasses, load_passes, own_passes_options, pass_names
from polyreme.cli.reports import is_quiet, note
from polyreme.ir.builtin import RESULT_ROLES
from polyreme.ir.diagnostics import Diagnostic, PolyremeError, did_you_mean
from polyreme.ir.types import bf16, element_type
from polyreme.loaders.numpy_files import read_npz

if TYPE_CHECKING:
    from polyreme.ir.builtin import Func, Module
    from polyreme.ir.debug.reduce import Case
    from polyreme.lowering.debug.bisect import Finding
    from polyreme.lowering.machines.targets import Target

EXAMPLES = (
    ("Does every step from the model to machine code keep its numbers?", "polyreme bisect examples/lenet.py:LeNet"),
    ("With other random inputs, and 5 for every free size", "polyreme bisect examples/lenet.py:LeNet --seed 1 --size 5"),
    ("Only these passes, on text", "polyreme bisect lenet.tir --passes canonicalize,nn-to-tensor,fuse"),
)


@click.command("bisect", cls=Command, examples=EXAMPLES)
@model_argument
@click.option(
    "--input",
    "given",
    multiple=True,
    metavar="NAME=FILE.npy|DTYPE[SIZES]",
    help="An input's array; or, as with inspect, what the model takes.",
)
@click.option("--inputs", "archive", type=click.Path(path_type=Path), metavar="FILE.npz", help="The arrays of all inputs, by name.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the inputs that are not given.")
@click.option("--size", type=click.IntRange(min=0), default=3, show_default=True, help="The value of free sizes in drawn inputs.")
@click.option(
    "--passes",
    "spec",
    shell_complete=completed_by(pass_names, many=True),
    metavar="A,B",
    help="These passes in place of the whole pipeline; the last may be machine-code.",
)
@own_passes_options()
@target_option
@click.option("--device", metavar="gpu|gpu-emulated", help="Where code for a GPU runs; by default on a GPU where there is one.")
@click.option(
    "-o", "--output", default=".", type=click.Path(file_okay=False, path_type=Path), help="The folder for what reproduces the fault."
)
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    given: tuple[str, ...],
    archive: Path | None,
    seed: int,
    size: int,
    spec: str | None,
    own: OwnPasses,
    target: str,
    device: str | None,
    output: Path,
) -> None:
    """Find the first pass after which MODEL computes something else, and the first op that this happens to.

    The model runs on random or given inputs after every pass, and at the end as machine code. Results may differ from exact ones by what
    the bounds of its ops allow. What is wrong is made small: a module as text and inputs, with the command that shows the fault for as long
    as it is there. Exit code 0: all results are right; 3: found; 1: the model cannot be run.
    """
    from polyreme.compiled.inspection import as_target
    from polyreme.ir.debug.additions import added
    from polyreme.lowering.debug.bisect import bisect, passes_of

    chosen = as_target(target)
    specs = [parse_input(text) for text in given if not _is_file(text)]
    found = find_model(model, specs)
    module = found.module(freeze=True)
    arrays = read_inputs(module.function(), [text for text in given if _is_file(text)], archive, seed, size)
    additions = own.load()
    if spec is None:
        if additions and _is_kernels(module):
            raise PolyremeError(
                f"expected a model that passes run on, for --add-pass, but '{found.name}' consists of kernels", code="E0005"
            )
        with added(additions, have_to_run=False):
            passes, machine_code = [] if _is_kernels(module) else passes_of(chosen), True
    else:
        if additions:
            raise click.UsageError("expected either --passes or --add-pass: --passes takes any pass by its name")
        passes, machine_code = parse_steps(spec)
    driver, runs = _driver(chosen, device) if machine_code else (None, False)
    if machine_code and not runs:
        note(f"code for {chosen.name} does not run here: the last step is not checked")
    finding = bisect(module, arrays, passes, chosen, runs, driver, (lambda line: None) if is_quiet() else click.echo)
    if finding is None:
        click.echo("all results are within their bounds")
        return
    tell_finding(finding, module, found.name, target, own, output)
    ctx.exit(WRONG)


def parse_steps(spec: str) -> tuple[list[Any], bool]:
    """The passes of `a,b,machine-code`, and whether machine code is asked for."""
    from polyreme.ir.passes import parse_passes
    from polyreme.lowering.debug.bisect import MACHINE_CODE

    load_passes()
    others, _, last = spec.rpartition(",")
    return (parse_passes(others), True) if last.strip() == MACHINE_CODE else (parse_passes(spec), False)


def _is_file(text: str) -> bool:
    return text.endswith(".npy")


def _is_kernels(module: Module) -> bool:
    from polyreme.lowering.pipeline import level_of

    return level_of(module) == "kernel"


def _driver(target: Target, device: str | None) -> tuple[Any, bool]:
    """What runs code for the target (None for the processor), and whether it can be run."""
    from polyreme.compiled.compilation import runs_here
    from polyreme.device import as_place, driver_of, is_compiled_with_cuda

    if target.code == "ptx":
        return driver_of(as_place(device or ("gpu" if is_compiled_with_cuda() else "gpu-emulated"))), True
    return None, runs_here(target)


def read_inputs(main: Func, files: list[str], archive: Path | None, seed: int, size: int) -> list[Any]:
    """Arrays for the arguments of `main` but its outputs: from files by name, the others drawn."""
    from polyreme.cli.run import read_array
    from polyreme.ir.evaluate import bind_sizes, random_inputs

    names = input_names(main)
    arrays: dict[str, Any] = {}
    if archive is not None:
        arrays.update(_read_archive(archive))
    for text in files:
        name, equals, file = text.rpartition("=")
        if not equals and len(names) != 1:
            raise click.BadParameter(f"expected NAME=FILE for the inputs {', '.join(names)} but got '{text}'", param_hint="--input")
        arrays[name if equals else names[0]] = read_array(Path(file))
    for name in arrays:
        if name not in names:
            raise PolyremeError(f"expected an input ({', '.join(names)}) but got '{name}'{did_you_mean(name, names)}", code="E0003")
    roles = main.arg_roles or ("input",) * len(main.args)
    places = [i for i, role in enumerate(roles) if role not in RESULT_ROLES]
    for place, name in zip(places, names, strict=True):
        # Files of numpy have the bits of bfloat16 as whole numbers.
        if name in arrays and arrays[name].dtype == np.uint16 and element_type(main.args[place].type) is bf16:
            arrays[name] = arrays[name].view(bf16.np)
    sizes = bind_sizes(main, {place: arrays[name] for place, name in zip(places, names, strict=True) if name in arrays})
    drawn = random_inputs(main, seed, size, sizes)
    return [arrays.get(name, value) for name, value in zip(names, drawn, strict=True)]


def _read_archive(archive: Path) -> dict[str, Any]:
    try:
        return read_npz(archive)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file '{archive}'") from None
    except ValueError as error:
        hint = f"; a single array is given as --input NAME={archive}" if archive.suffix == ".npy" else ""
        raise PolyremeError(f"expected arrays written by numpy.savez but cannot read '{archive}': {error}{hint}", code="E0003") from None


def input_names(main: Func) -> list[str]:
    """The names of the arguments of `main` but its outputs."""
    roles = main.arg_roles or ("input",) * len(main.args)
    named = main.arg_names or tuple(a.name or f"arg{i}" for i, a in enumerate(main.args))
    return [name for name, role in zip(named, roles, strict=True) if role not in RESULT_ROLES]


def write_case(case: Case, path: Path, lines: list[str]) -> None:
    """Write the module to `path` under `lines` as comments, and its inputs beside it (suffix `.npz`)."""
    from polyreme.ir.text import print_module

    path.parent.mkdir(parents=True, exist_ok=True)
    head = "".join(f"// {line}\n" for line in lines)
    path.write_text(head + print_module(case.module, locations=True), encoding="utf-8")
    if case.inputs is not None:
        arrays: dict[str, Any] = dict(zip(input_names(case.module.function()), case.inputs, strict=True))
        np.savez(path.with_suffix(".npz"), allow_pickle=False, **arrays)


def tell_finding(finding: Finding, module: Module, name: str, target: str, own: OwnPasses, output: Path) -> None:
    """Say what is wrong and leave the files that show it, unless the module is what they would hold."""
    from polyreme.ir.text import print_module

    step = finding.step
    click.echo("")
    if finding.error:
        click.echo(f"'{step.name}' fails: {finding.error}")
    else:
        click.echo(f"'{step.name}' is the first to change what the model computes: {finding.misfits[0]}")
    if finding.case is None:
        click.echo("no op is wrong by itself: each step loses a little, and together they lose too much")
        return
    if finding.op is not None:
        how = f": {finding.misfit}" if finding.misfit is not None else ""
        wrong = "fails on" if finding.error else "is wrong about"
        click.echo(Diagnostic(f"'{step.name}' {wrong} '{finding.op.name}'{how}", finding.op.location).render("note"))
    if print_module(finding.case.module) == print_module(module):
        click.echo("the module is as small as it gets")
        return
    file = output / f"{name}-{step.name}.tir"
    words = ["polyreme", "bisect", str(file), "--inputs", str(file.with_suffix(".npz")), *own.words(), "--passes", str(step)]
    command = shlex.join(words if target == "native" else [*words, "--target", target])
    what = finding.error.splitlines()[0] if finding.error else str(finding.misfit)
    write_case(finding.case, file, [f"'{step.name}': {what}", command])
    click.echo(f"a module that shows it is in {file}, its inputs in {file.with_suffix('.npz')}; repeat with\n  {command}")
