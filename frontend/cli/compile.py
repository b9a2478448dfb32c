"""`polyreme compile`: a model as a native library with a C header, or one step of the way there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from polyreme.cli import Command
from polyreme.cli.completion import model_argument, target_option
from polyreme.cli.models import find_model, input_option
from polyreme.cli.own_passes import OwnPasses, own_passes_options
from polyreme.cli.progress import progress
from polyreme.cli.reports import note, writing

# As `lowering.link.artifact` writes them, which is not imported for a command line that is only completed.
FORMS = ("shared", "static", "object", "wasm")
TEXTS = ("tensor", "kernel", "llvm", "asm", "ptx")
EXAMPLES = (
    ("A library for this machine, and its header lenet.h", "polyreme compile examples/lenet.py:LeNet -o lenet.so"),
    ("For another one, as assembly to read", "polyreme compile examples/lenet.py:LeNet --target aarch64 --to asm -o lenet.s"),
    ("For any x86-64 since 2009, with the best code for each", "polyreme compile examples/lenet.py:LeNet --cpu multi -o lenet.so"),
    ("For a browser or Node: WebAssembly, and lenet.mjs, which loads it", "polyreme compile examples/lenet.py:LeNet -o lenet.wasm"),
    (
        "With weights in eight bits, scales chosen on one's own images",
        "polyreme compile examples/lenet.py:LeNet --precision int8 --calibrate images.npy -o lenet.so",
    ),
    ("For a program's own linker: one object file, or an archive", "polyreme compile examples/lenet.py:LeNet -o lenet.o"),
    (
        "With a pass of your own, which a Python file registers, before ops are fused",
        "polyreme compile examples/lenet.py:LeNet --load examples/count_ops.py --add-pass count-ops@before:fuse -o lenet.so",
    ),
    ("For a GPU: a library that needs its driver alone", "polyreme compile examples/lenet.py:LeNet --target cuda:sm_80 -o lenet.so"),
    ("For a GPU: PTX, launches and constants in one file", "polyreme compile examples/lenet.py:LeNet --target cuda:sm_80 -o lenet.cubin"),
)


@click.command("compile", cls=Command, examples=EXAMPLES)
@model_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The library, such as net.so, net.a or net.o, or a GPU's artifact.",
)
@target_option
@click.option("--cpu", help="The processor, in LLVM's words, instead of the target's own; multi: x86-64 v2, v3 and v4 in one file.")
@click.option(
    "--to",
    "level",
    type=click.Choice([*FORMS, *TEXTS]),
    help="A library (by default the one that the file's suffix says: .so, .a, .o, .wasm), or the text of a level.",
)
@click.option("--small/--no-small", default=None, help="Weights in no form that takes more space, as in modules of WebAssembly by default.")
@click.option("--c++", "cpp", is_flag=True, help="Write a header for C++, too: lenet.hpp beside lenet.h.")
@click.option(
    "--precision",
    type=click.Choice(["float32", "bf16-weights", "int8"]),
    default="float32",
    show_default=True,
    help="How weights are kept: in 16 bits, to compute in float32, or in eight, for products of integers. A report says what that does.",
)
@click.option(
    "--calibrate",
    "data",
    type=click.Path(path_type=Path),
    help="Samples for --precision: .npz with an array per input, .npy for one input, or a folder of such; samples along the first axis.",
)
@click.option("--folders", is_flag=True, help="Name the model's source with its folder, not by the file's name alone.")
@own_passes_options()
@input_option
def command(
    model: str,
    output: Path,
    target: str,
    cpu: str | None,
    level: str | None,
    small: bool | None,
    cpp: bool,
    precision: str,
    data: Path | None,
    folders: bool,
    own: OwnPasses,
    inputs: list[Any],
) -> None:
    """Compile MODEL ahead of time. IR text may be of any level: compilation goes on from there.

    The suffix of the output says what kind of library is written: .so is loaded, .a and .o are linked into a program, and .wasm, with the
    JavaScript beside it (.mjs), runs in a browser or in Node.
    For a GPU (--target cuda:sm_80) a library needs the driver (libcuda) alone. Of any other suffix, such as .cubin, the output is an
    artifact for Python: PTX, launches and constants in one file. --to ptx writes the PTX alone.
    """
    from polyreme.ir.python.garbage import without_collections

    # Modules that are imported and what is read of a model stay: to look for garbage among it takes a twentieth of the time to there.
    with without_collections(soon=False):
        _compile(model, output, target, cpu, level, small, cpp, precision, data, folders, own, inputs)


def _compile(
    model: str,
    output: Path,
    target: str,
    cpu: str | None,
    level: str | None,
    small: bool | None,
    cpp: bool,
    precision: str,
    data: Path | None,
    folders: bool,
    own: OwnPasses,
    inputs: list[Any],
) -> None:
    from polyreme.compiled.compilation import compile, target_for
    from polyreme.compiled.inspection import Inspection, as_target

    if not output.name:
        raise click.BadParameter("expected the name of a file but got ''", param_hint="--output")
    if data is not None and precision == "float32":
        raise click.BadParameter("expected a --precision that samples are for, int8 or bf16-weights", param_hint="--calibrate")
    found = find_model(model, inputs)
    if precision == "float32":
        # Weights of a saved model are read by whoever compiles it.
        net = found.value if found.kind in ("paddle", "saved") and not found.specs and level not in TEXTS else found.module(freeze=True)
    else:
        from polyreme.cli.quantize import in_precision

        net = in_precision(found, precision, data)
    if cpu == "multi" and level in TEXTS:
        raise click.BadParameter("expected one processor for a text: 'multi' is for libraries", param_hint="--cpu")
    for option, given in (("--c++", cpp), ("--small", small), ("--no-small", small is False), ("--folders", folders)):
        if given and level in TEXTS:
            raise click.BadParameter("expected a library but got a text (--to)", param_hint=option)
    chosen = as_target(target_for(output, level, target), None if cpu == "multi" else cpu)
    if level in TEXTS:
        with progress(output.name), own.in_the_pipeline():
            text = Inspection(net, chosen).level(level)
        with writing(output):
            output.write_text(text, encoding="utf-8")
        return
    with progress(output.name), own.in_the_pipeline():
        several = "multi" if cpu == "multi" else None
        library = compile(net, output, chosen, cpu=several, form=level, folders=folders, cpp=cpp, small=small)
    if not output.is_file():
        return  # a device, such as /dev/null
    if chosen.code == "ptx" and level is None and output.suffix not in (".so", ".a", ".o"):
        note(f"{output}: for {chosen.name}")
        return
    beside = output.with_suffix(".mjs" if chosen.arch == "wasm32" else ".h")
    written = f"{output}, {beside} and {output.with_suffix('.hpp')}" if cpp else f"{output} and {beside}"
    note(f"{written}: {library if library is not None else 'for ' + (chosen.name if chosen.code == 'ptx' else chosen.triple)}")
