"""`polyreme bench`: the latency of a model, with percentiles."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from polyreme.cli import Command
from polyreme.cli.completion import model_argument
from polyreme.cli.drawing import SIZES, first_taken
from polyreme.cli.models import LoadedModel, find_model, input_option
from polyreme.cli.own_passes import OwnPasses, own_passes_options
from polyreme.cli.peers import compare_model, comparison_json, comparison_text, parse_peers
from polyreme.cli.progress import progress
from polyreme.cli.run import load_executable
from polyreme.cli.timing import QUANTILES, duration, measure
from polyreme.compiled.profiling import profile_module, random_inputs
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.threads import get_num_threads
from polyreme.runtime.wasm.module import NodeModule

EXAMPLES = (
    ("A library, for a batch of 8", "polyreme bench lenet.so --size N=8 --seconds 0.1"),
    ("A model beside its eager run, as JSON", "polyreme bench examples/lenet.py:LeNet --eager --seconds 0.1 --json"),
    ("Where the time goes, by kernel", "polyreme bench examples/lenet.py:LeNet --profile --seconds 0.1"),
)


@click.command("bench", cls=Command, examples=EXAMPLES)
@model_argument
@click.option(
    "--size", "sizes", multiple=True, metavar="N=8", help="The value of a free size; by default 1, or the first that the model takes."
)
@click.option("--threads", type=click.IntRange(min=1), help="How many threads compute.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.01), default=2.0, show_default=True, help="How long to measure.",
    callback=lambda _, __, value: _finite(value),
)  # fmt: skip
@click.option("--eager", is_flag=True, help="Measure the Python model run eagerly, too.")
@click.option(
    "--against", default="", metavar="RUNTIMES", help="Measure other runtimes too, in turns: onnxruntime, openvino, torch, paddle."
)
@click.option(
    "--python", "pythons", multiple=True, metavar="RUNTIME=PYTHON", help="The Python that has a runtime installed, if it is another one."
)
@click.option(
    "--profile",
    is_flag=False,
    flag_value="kernels",
    default=None,
    type=click.Choice(["kernels", "order"]),
    help="Show the time by kernel instead: the dearest first, or in the order in which they run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@own_passes_options()
@input_option
def command(
    model: str,
    sizes: tuple[str, ...],
    threads: int | None,
    seconds: float,
    eager: bool,
    against: str,
    pythons: tuple[str, ...],
    profile: str | None,
    as_json: bool,
    own: OwnPasses,
    inputs: list[Any],
) -> None:
    """Measure the latency of MODEL on random inputs."""
    peers = parse_peers(against, pythons)
    if peers and (eager or profile):
        raise click.UsageError("expected --against alone, without --eager and --profile: each runtime has a process of its own")
    found = find_model(model, inputs)
    if profile:
        with own.in_the_pipeline():
            text = _profile(found, sizes, threads, seconds, profile, as_json)
        click.echo(text)
        return
    with progress(found.name), own.in_the_pipeline():
        executable = load_executable(found, threads)
    if isinstance(executable, NodeModule):
        what = f"the module of WebAssembly '{model}': a run of it from here is a start of Node"
        raise PolyremeError(f"expected a library but got {what}", code="E0002")
    values = fitting_sizes(executable, sizes)
    arrays = random_inputs(executable.manifest, values)
    shapes = ", ".join(f"{s.name}: {a.dtype}{list(a.shape)}" for s, a in zip(executable.manifest.inputs, arrays, strict=True))
    if peers:
        with own.in_the_pipeline():
            made = compare_model(found, model, arrays, values, peers, get_num_threads(), seconds)
        click.echo(comparison_json(made, model, shapes) if as_json else f"{model}  {shapes}\n{comparison_text(made)}")
        return
    calls = {"compiled" if found.kind != "library" else "library": lambda: executable.run(arrays)}
    if eager:
        calls["eager"] = eager_call(found, arrays)
    results = measure(calls, seconds)
    if as_json:
        rows = {
            n: {"best": r.best, **{f"p{q}": v for q, v in zip(QUANTILES, r.percentiles, strict=True)}, "calls": r.calls}
            for n, r in results.items()
        }
        click.echo(json.dumps({"model": model, "inputs": shapes, "seconds": rows}))
        return
    click.echo(f"{model}  {shapes}")
    click.echo("".join(f"{title:>12}" for title in ("", "best", *(f"p{q}" for q in QUANTILES), "calls")))
    for name, result in results.items():
        cells = [name, duration(result.best), *map(duration, result.percentiles), str(result.calls)]
        click.echo("".join(f"{cell:>12}" for cell in cells))


def _finite(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise click.BadParameter(f"expected a number of seconds that ends but got {seconds}")
    return seconds


def _profile(found: LoadedModel, sizes: tuple[str, ...], threads: int | None, seconds: float, order: str, as_json: bool) -> str:
    """The profile of a model as text."""
    from polyreme.compiled.executables import load_profiled
    from polyreme.runtime.threads import set_num_threads

    module, contents = found.runnable()
    if threads is not None:
        set_num_threads(threads)
    values = fitting_sizes(load_profiled(module), sizes)
    made = profile_module(module, found.name, None, values, seconds, contents)
    if as_json:
        return json.dumps(made.to_dict())
    return made.table(made.entries if order == "order" else None)


def fitting_sizes(executable: Any, given: tuple[str, ...]) -> dict[str, int]:
    """Values of free sizes from options `N=8`. All others are 1, or the first number that the model takes, which it runs once with."""

    def run(size: int) -> dict[str, int]:
        values = parse_sizes(given, executable.manifest.size_names, size)
        executable.run(random_inputs(executable.manifest, values))
        return values

    return first_taken(SIZES if len(given) < len(executable.manifest.size_names) else [1], run)


def parse_sizes(given: tuple[str, ...], names: tuple[str, ...], default: int) -> dict[str, int]:
    """Values of free sizes from options `N=8`; `default` where none is given."""
    values = dict.fromkeys(names, default)
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdigit():
            raise click.BadParameter(f"expected NAME=NUMBER but got '{text}'", param_hint="--size")
        if name not in values:
            raise click.BadParameter(
                f"expected a size of the model ({', '.join(names) or 'it has none'}) but got '{name}'", param_hint="--size"
            )
        values[name] = int(number)
    return values


def eager_call(model: Any, arrays: list[Any]) -> Any:
    """A call of the Python model without compiling it."""
    import polyreme as paddle

    if model.kind != "python":
        raise PolyremeError(f"expected a Python model (file.py:Name) for --eager but got '{model.name}'", code="E0002")
    net = model.value
    if hasattr(net, "eval"):
        net.eval()
    tensors = [paddle.to_tensor(a) for a in arrays]

    def call() -> Any:
        with paddle.no_grad():
            return net(*tensors)

    return call
