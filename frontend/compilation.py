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
) -> Any:
    """Write a Layer, function, loaded model or module as library `path`, with a C header beside it, and return it loaded.

    `target` is `"native"`, the name of a target or a triple; a library for another machine is written but cannot be loaded here: None is
    returned. Layers are compiled in evaluation mode, with the weights they have now.
    """
    from polyreme.inspection import as_target, model_module
    from polyreme.lowering.c_interface import c_name_of
    from polyreme.lowering.link import write_library
    from polyreme.lowering.pipeline import compile_module

    chosen = as_target(target, cpu)
    library = Path(path)
    module = model_module(net, input_spec, freeze=True)
    compiled = compile_module(module, chosen, name=c_name_of(library.name.split(".")[0]))
    write_library(compiled.artifact, library, target=chosen)
    return load_compiled(library) if runs_here(chosen) else None


def load_compiled(path: str | os.PathLike[str], threads: int | None = None) -> Any:
    """The library at `path`, called with numpy arrays by position or by name. LLVM is not loaded.

    `threads` is how many it computes with, by default the processors that this process may use.
    """
    from polyreme.runtime import library

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
