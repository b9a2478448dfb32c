"""`polyreme quantize`: a model in eight bits, calibrated on data from files, and what that did to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyreme.cli import Command
from polyreme.cli.completion import model_argument
from polyreme.cli.models import LIBRARY_SUFFIXES, find_model, input_option
from polyreme.ir.diagnostics import PolyremeError

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
    from polyreme.jit.saving import save, trace_model
    from polyreme.quantization import observers, quantize_model, report

    found = find_model(model, inputs)
    if found.kind not in ("python", "saved", "paddle"):
        raise PolyremeError(
            f"expected a Python or saved model to quantise but got {'IR text' if found.kind == 'ir' else 'the library'} '{model}'",
            code="E0002",
        )
    if found.kind != "python" and inputs:
        raise PolyremeError(f"expected --input with Python models only: '{model}' says itself what it takes", code="E0002")
    traced = trace_model(found.value, inputs or None)
    names = [traced.func.arg_names[i] for i, source in enumerate(traced.sources) if isinstance(source, int)]
    fixed = next((int(t.shape[0]) for t in traced.inputs if t.shape and isinstance(t.shape[0], int)), None)
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


def read_batches(file: Path, names: list[str], size: int, exactly: bool) -> list[dict[str, Any]]:
    """The samples of a file in batches of `size`, the last one smaller unless the model takes batches of `size` only: then what is left
    over is not used.
    """
    arrays = _read(file, names)
    counts = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    count = min(counts.values())
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
    return [{name: array[start : start + size] for name, array in arrays.items()} for start in starts]


def _read(file: Path, names: list[str]) -> dict[str, Any]:
    try:
        loaded = np.load(file, allow_pickle=False)
        found: Mapping[str, Any] = {names[0]: loaded} if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded.files}
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file '{file}'") from None
    except (ValueError, EOFError, OSError) as error:
        raise PolyremeError(
            f"expected arrays written by numpy.save or numpy.savez but cannot read '{file}': {error}", code="E0003"
        ) from None
    if isinstance(loaded, np.ndarray) and len(names) > 1:
        raise PolyremeError(f"expected an archive (.npz) with arrays for {', '.join(names)} but '{file}' is one array", code="E1101")
    if len(names) == 1 and len(found) == 1:
        return {names[0]: next(iter(found.values()))}
    missing = [name for name in names if name not in found]
    if missing:
        raise PolyremeError(f"expected arrays for {', '.join(names)} in '{file}' but it has {', '.join(found) or 'none'}", code="E1101")
    return {name: found[name] for name in names}
