"""`polyreme quantize`: a model in eight bits, calibrated on data from files, and what that did to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyreme.cli import Command
from polyreme.cli.completion import model_argument
from polyreme.cli.drawing import first_taken
from polyreme.cli.models import LIBRARY_SUFFIXES, LoadedModel, find_model, input_option
from polyreme.cli.reports import note
from polyreme.ir.diagnostics import PolyremeError
from polyreme.loaders.numpy_files import is_archive, read_npy, read_npz

if TYPE_CHECKING:
    from polyreme.ir.builtin import Func, Module
    from polyreme.jit.traced import Traced

EXAMPLES = (
    (
        "Calibrate on the images in a file, and save the model with int8 weights as lenet_int8.polyreme",
        "polyreme quantize examples/lenet.py:LeNet --data images.npy -o lenet_int8",
    ),
    (
        "Clip what is rare, leave the last layer in floats, compare on other images",
        "polyreme quantize net.json --data train.npz --check test.npz --activation hist --skip 'fc*' -o net_int8",
    ),
    ("The report alone, to be read by a program", "polyreme quantize net.json --data train.npz --json"),
)
ACTIVATIONS = {"absmax": "AbsmaxObserver", "avg": "AVGObserver", "hist": "HistObserver", "kl": "KLObserver", "mse": "MSEObserver"}
# Batches that are drawn where no samples are given, the samples of each, and values of other free sizes that are tried.
DRAWN_BATCHES, DRAWN_SAMPLES, DRAWN_SIZES = 4, 2, (64, 32, 16, 8, 3)
WEIGHTS = {"absmax": "AbsMaxChannelWiseWeightObserver", "mse": "MSEChannelWiseWeightObserver", "tensor": "AbsmaxObserver"}


@click.command("quantize", cls=Command, examples=EXAMPLES)
@model_argument
@click.option(
    "--data",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Samples to choose scales by: .npz with an array per input, or .npy for one input; samples along the first axis.",
)
@click.option("--check", type=click.Path(dir_okay=False, path_type=Path), help="Samples to compare answers on; without it those of --data.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the model goes: a prefix for a saved model, or a library (.so).",
)
@click.option("--batch", type=click.IntRange(min=1), help="Samples per run; by default what the model says, or 8.")
@click.option(
    "--activation",
    type=click.Choice(list(ACTIVATIONS)),
    default="absmax",
    show_default=True,
    help="How the range of an activation is chosen.",
)
@click.option(
    "--weights",
    type=click.Choice(list(WEIGHTS)),
    default="absmax",
    show_default=True,
    help="How scales of weights are chosen: per output channel, or one per tensor.",
)
@click.option(
    "--skip", multiple=True, metavar="NAME", help="A layer to leave in floats; * and ? stand for other characters. Once per name."
)
@click.option("--symmetric", is_flag=True, help="Ranges of activations that have 0 in the middle.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@input_option
def command(
    model: str,
    data: Path,
    check: Path | None,
    output: Path | None,
    batch: int | None,
    activation: str,
    weights: str,
    skip: tuple[str, ...],
    symmetric: bool,
    as_json: bool,
    inputs: list[Any],
) -> None:
    """Bring the products of MODEL into eight bits, and report layer by layer what that did.

    Weights become int8 with a scale per output channel, after batch norms are folded into them; activations are rounded before each
    product. Products whose weight is not constant, and depthwise convolutions, stay in floats.
    """
    from polyreme.jit.saving import save
    from polyreme.quantization import observers, quantize_model, report

    found = find_model(model, inputs)
    traced = _traced(found)
    names, fixed = traced.input_names, _fixed_batch(traced)
    batches = read_batches(data, names, fixed or batch or 8, fixed is not None)
    made = quantize_model(
        found.value, batches, input_spec=inputs or None, activation=getattr(observers, ACTIVATIONS[activation])(),
        weight=getattr(observers, WEIGHTS[weights])(), skip=skip, symmetric=symmetric
    )  # fmt: skip
    written = made.report
    if check is not None:
        ordered = [[b[name] for name in names] for b in read_batches(check, names, fixed or batch or 8, fixed is not None)]
        written = report(found.value, made, ordered)
    if output is not None and output.suffix in LIBRARY_SUFFIXES:
        from polyreme.compiled.compilation import compile

        compile(made, output)
    elif output is not None:
        save(made, output)
    click.echo(json.dumps(written.to_dict(), indent=1) if as_json else str(written))


def in_precision(found: LoadedModel, precision: str, data: Path | None) -> Module:
    """The module of a model with its weights in `precision`, after its report was printed. `data` is a file of samples, or a folder of such
    files; without it numbers are drawn, which is said.
    """
    from polyreme.compiled.inspection import model_module
    from polyreme.quantization import lower_precision

    traced = _traced(found)
    fixed = _fixed_batch(traced)

    def lowered(batches: list[dict[str, Any]]) -> Any:
        return lower_precision(found.value, precision, batches, input_spec=list(found.specs) or None)

    if data is None:
        note(
            f"warning: no --calibrate: {'scales are chosen and ' if precision == 'int8' else ''}errors are told on numbers drawn at "
            "random, which may be far from what the model will see"
        )
        made, report = first_taken(DRAWN_SIZES, lambda size: lowered(_drawn(traced, size)))
    else:
        batches = [
            batch for file in _sample_files(data) for batch in read_batches(file, traced.input_names, fixed or 8, fixed is not None)
        ]
        made, report = lowered(batches)
    click.echo(str(report))
    return model_module(made, None, freeze=True)


def _traced(found: LoadedModel) -> Traced:
    """A model as a program; `PolyremeError` (E0002) for what has none, or is not to be told what it takes."""
    from polyreme.jit.saving import trace_model

    if found.kind not in ("python", "saved", "paddle"):
        raise PolyremeError(
            f"expected a Python or saved model to quantise but got {'IR text' if found.kind == 'ir' else 'the library'} '{found.name}'",
            code="E0002",
        )
    return trace_model(found.value, list(found.specs) or None)


def _fixed_batch(traced: Traced) -> int | None:
    """Samples of a call, if a model takes so many only."""
    return next((int(t.shape[0]) for t in traced.inputs if t.shape and isinstance(t.shape[0], int)), None)


def _sample_files(data: Path) -> list[Path]:
    if not data.is_dir():
        return [data]
    files = sorted(file for file in data.iterdir() if file.suffix in (".npz", ".npy"))
    if not files:
        raise PolyremeError(f"expected files of arrays (.npz, .npy) in the folder '{data}' but it has none", code="E0003")
    return files


def _drawn(traced: Traced, size: int) -> list[dict[str, Any]]:
    """Some batches of random inputs of a few samples; other free sizes are `size`. Whole numbers are any that the model takes, as far as it
    says so, or any of eight bits. A size that the model does not take is an `EvaluateError`.
    """
    from polyreme.ir.evaluate import bind_sizes, random_inputs

    func = traced.frozen().function()
    samples = {str(t.shape[0]): DRAWN_SAMPLES for t in traced.inputs if t.shape and not isinstance(t.shape[0], int)}
    batches = [random_inputs(func, seed, size, samples) for seed in range(DRAWN_BATCHES)]
    bind_sizes(func, dict(enumerate(batches[0])))
    return [
        {name: _whole_numbers(func, name, array, seed) for name, array in zip(traced.input_names, batch, strict=True)}
        for seed, batch in enumerate(batches)
    ]


def _whole_numbers(func: Func, name: str, array: Any, seed: int) -> Any:
    """An input that was drawn, with other numbers where they are whole: `random_inputs` draws 0 and 1 alone."""
    import numpy as np

    from polyreme.ir.sizes.ranges import Range

    if array.dtype.kind not in "iu":
        return array
    ranges = [found for found in map(Range.parse, func.ranges) if found.argument == name]
    low, high = max((r.low for r in ranges), default=None), min((r.high for r in ranges), default=None)
    if low is None or high is None:
        if array.dtype.itemsize > 1:
            return array  # of lengths, counts or switches nobody knows what they may be
        low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max + 1
    return np.random.default_rng(seed).integers(max(low, 0) if ranges else low, max(high, 1), array.shape).astype(array.dtype)


def read_batches(file: Path, names: list[str], size: int, exactly: bool) -> list[dict[str, Any]]:
    """The samples of a file in batches of `size`, the last one smaller unless the model takes batches of `size` only: then what is left
    over is not used. An input that is one number is the same for all.
    """
    arrays = _read(file, names)
    counts = {name: array.shape[0] for name, array in arrays.items() if array.ndim}
    count = min(counts.values(), default=1)
    if len(set(counts.values())) > 1:
        raise PolyremeError(
            f"expected as many samples for each input in '{file}' but got {', '.join(f'{n} of {name}' for name, n in counts.items())}",
            code="E1101",
        )
    if count < (size if exactly else 1):
        raise PolyremeError(
            f"expected at least {size if exactly else 1} samples, a batch of the model, in '{file}' but got {count}", code="E1101"
        )
    starts = range(0, count - size + 1 if exactly else count, size)
    return [{name: array[start : start + size] if array.ndim else array for name, array in arrays.items()} for start in starts]


def _read(file: Path, names: list[str]) -> dict[str, Any]:
    try:
        archive = is_archive(file)
        found = read_npz(file) if archive else {names[0]: read_npy(file)}
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file '{file}'") from None
    except ValueError as error:
        raise PolyremeError(
            f"expected arrays written by numpy.save or numpy.savez but cannot read '{file}': {error}", code="E0003"
        ) from None
    if not archive and len(names) > 1:
        raise PolyremeError(f"expected an archive (.npz) with arrays for {', '.join(names)} but '{file}' is one array", code="E1101")
    if len(names) == 1 and len(found) == 1:
        return {names[0]: next(iter(found.values()))}
    missing = [name for name in names if name not in found]
    if missing:
        raise PolyremeError(f"expected arrays for {', '.join(names)} in '{file}' but it has {', '.join(found) or 'none'}", code="E1101")
    return {name: found[name] for name in names}
