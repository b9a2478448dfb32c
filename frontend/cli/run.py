"""`polyreme run`: a library or model on arrays from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from polyreme.cli import Command
from polyreme.cli.completion import model_argument
from polyreme.cli.models import LoadedModel, find_model
from polyreme.cli.own_passes import OwnPasses, own_passes_options
from polyreme.cli.progress import progress
from polyreme.cli.reports import writing
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.loaders.numpy_files import is_archive, read_npy

EXAMPLES = (
    ("A library on an array that numpy.save wrote", "polyreme run lenet.so --input image=image.npy -o scores.npz"),
    ("The model itself, compiled in memory; its outputs are printed", "polyreme run examples/lenet.py:LeNet --input image.npy --threads 1"),
)


@click.command("run", cls=Command, examples=EXAMPLES)
@model_argument
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="An input's array; NAME= may be left out when there is one input."
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the results go: .npz, or .npy for a single one."
)
@click.option("--threads", type=click.IntRange(min=1), help="How many threads compute.")
@click.option(
    "--device", help="Where it runs: cpu, gpu or gpu-emulated; by default the CPU, and a GPU for an artifact that is made for one."
)
@own_passes_options()
def command(
    model: str, inputs: tuple[str, ...], output: Path | None, threads: int | None, device: str | None, own: OwnPasses
) -> None:
    """Run MODEL and write its outputs, or print what they are."""
    from polyreme.device import on_device

    if output is not None and output.suffix not in (".npy", ".npz"):
        raise click.BadParameter(f"expected a file whose name ends with .npz or .npy but got '{output}'", param_hint="--output")
    with on_device(device):
        found = find_model(model)
        with progress(found.name), own.in_the_pipeline():
            executable = load_executable(found, threads)
    names = [spec.name for spec in executable.manifest.inputs]
    arrays = read_arrays(inputs, names)
    results = dict(zip(executable.output_names, executable.run([arrays[n] for n in names]), strict=True))
    if output is None:
        for name, array in results.items():
            click.echo(f"{name}: {array.dtype}{list(array.shape)}")
            click.echo(np.array2string(array, threshold=64))
    elif output.suffix == ".npy":
        if len(results) != 1:
            raise PolyremeError(f"expected one output to write as .npy but the model has {', '.join(results)}: use .npz", code="E0003")
        with writing(output):
            np.save(output, *results.values())
    else:
        with writing(output):
            np.savez(output, allow_pickle=False, **results)


def load_executable(model: LoadedModel, threads: int | None = None) -> Any:
    """The model ready to run: a library is loaded, anything else compiled in memory."""
    if model.kind == "library":
        from polyreme.compiled.compilation import load_compiled

        return load_compiled(model.value, threads=threads)
    from polyreme.compiled.executables import load_module
    from polyreme.runtime.threads import set_num_threads

    if threads is not None:
        # The process has one pool, which may be there by now: a Python model's weights were drawn on it.
        set_num_threads(threads)
    return load_module(model.module(freeze=True))


def read_arrays(given: tuple[str, ...], names: list[str]) -> dict[str, Any]:
    """The array of each input, from options `name=file.npy`."""
    arrays: dict[str, Any] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals:
            if len(names) != 1:
                raise click.BadParameter(f"expected NAME=FILE for the inputs {', '.join(names)} but got '{text}'", param_hint="--input")
            name, file = names[0], text
        if name not in names:
            raise click.BadParameter(
                f"expected an input ({', '.join(names)}) but got '{name}'{did_you_mean(name, names)}", param_hint="--input"
            )
        arrays[name] = read_array(Path(file))
    missing = [name for name in names if name not in arrays]
    if missing:
        raise click.UsageError(f"missing --input {missing[0]}={missing[0]}.npy")
    return arrays


def read_array(file: Path) -> Any:
    """The one array in a .npy file."""
    try:
        if is_archive(file):
            raise PolyremeError(
                f"expected one array in '{file}' but it is an archive of several; unpack it, or give one .npy per input", code="E0003"
            )
        return read_npy(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file '{file}'") from None
    except ValueError as error:
        raise PolyremeError(f"expected an array written by numpy.save but cannot read '{file}': {error}", code="E0003") from None
