"""`paddle.compile` and `paddle.load_compiled`: a model as a native library that needs neither Python nor LLVM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["compile", "load_compiled"]


def compile(
    net: Any,
    path: str | os.PathLike[str],
    target: Any = "native",
    input_spec: Sequence[Any] | None = None,
    cpu: str | None = None,
    winograd: bool = True,
) -> Any:
    """Write a Layer, function, loaded model or module as library `path`, with a C header beside it, and return it loaded.

    `target` is `"native"`, the name of a target or a triple; a library for another machine is written but cannot be loaded here: None is
    returned. For a GPU (`"cuda:sm_80"`) an artifact is written in place of a library: PTX, launches and constants in one file, which is loaded
    if a GPU is the current device. Layers are compiled in evaluation mode, with the weights they have now.

    `winograd=False` forbids convolutions by Winograd's algorithm, whose rounding errors are larger than those of the direct way.
    `POLYREME_WINOGRAD=0` in the environment does so for everything that is compiled.
    """
    from dataclasses import replace

    from polyreme.device import current_place
    from polyreme.inspection import as_target, model_module
    from polyreme.kept import done_apart

    chosen = as_target(target, cpu)
    chosen = replace(chosen, winograd=chosen.winograd and winograd)
    library = Path(path)
    module = model_module(net, input_spec, freeze=True)
    done_apart(len(module.function().block.ops), lambda: _write(module, library, chosen))
    here = current_place().is_gpu_place() if chosen.code == "ptx" else runs_here(chosen)
    return load_compiled(library) if here else None


def _write(module: Any, library: Path, target: Any) -> None:
    """Compile a module into a file, or several."""
    from polyreme.lowering.c_interface import c_name_of
    from polyreme.lowering.link import write_library
    from polyreme.lowering.pipeline import compile_module

    compiled = compile_module(module, target, name=c_name_of(library.name.split(".")[0]))
    if target.code == "ptx":
        compiled.artifact.save(library)
    else:
        write_library(compiled.artifact, library, target=target)


def load_compiled(path: str | os.PathLike[str], threads: int | None = None) -> Any:
    """The library or GPU artifact at `path`, called with numpy arrays by position or by name. LLVM is not loaded.

    `threads` is how many it computes with, by default the processors that this process may use. An artifact runs on the current device if that is a
    GPU, else on this machine's.
    """
    from polyreme.runtime import library
    from polyreme.runtime.artifact import MAGIC, Artifact

    with open(path, "rb") as file:
        is_artifact = file.read(len(MAGIC)) == MAGIC
    if is_artifact:
        from polyreme.device import as_place, current_place, driver_of
        from polyreme.runtime.gpu_executable import GpuExecutable

        place = current_place()
        return GpuExecutable(Artifact.load(path), driver_of(place if place.is_gpu_place() else as_place("gpu")))

    return library.load_compiled(path, threads=threads)


def runs_here(target: Any) -> bool:
    """Whether code for `target` runs on this machine."""
    from polyreme.runtime.artifact import TargetSpec
    from polyreme.runtime.cpu import check_runs_here
    from polyreme.runtime.errors import ArtifactError

    try:
        check_runs_here(TargetSpec(target.triple, target.cpu, target.features), "the library")
    except ArtifactError:
        return False
    return True
