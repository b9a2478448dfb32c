"""`paddle.compile` and `paddle.load_compiled`: a model as a native library that needs neither Python nor LLVM."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
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
    strassen: bool = True,
    bf16_terms: bool = True,
    short_weights: bool = True,
    form: str | None = None,
    folders: bool = False,
    cpp: bool = False,
    small: bool | None = None,
) -> Any:
    """Write a Layer, function, loaded model or module as library `path`, with a C header beside it, and return it loaded.

    The suffix of `path` says what is written, and `form` may say it too: "shared" (`.so`), "static" (an archive, `.a`), "object" (`.o`) or
    "wasm" (a module of WebAssembly, `.wasm`, with the JavaScript that loads it, `.mjs`); of all but the first, None is returned. Where the
    model's source is named, in what is expected of sizes, the file's name alone is told, unless `folders` are wanted. `cpp` adds a header
    for C++ (`.hpp`) to the one for C.

    `cpu="multi"` writes code for three levels of x86-64, of which the library takes the best that a processor has. `target` is `"native"`,
    the name of a target or a triple; a library for another machine is written but cannot be loaded here: None is returned. For a GPU
    (`"cuda:sm_80"`) an artifact is written in place of a library: PTX, launches and constants in one file, which is loaded if a GPU is the
    current device. Layers are compiled in evaluation mode, with the weights they have now.

    `small` keeps weights in the space that they take as they are: it forbids the ways of computing that have them in a form of more bytes,
    which are Winograd's, Strassen's and products by bf16 (below). Modules of WebAssembly, which are sent over networks, are small unless it
    is False; other libraries are where it is True. A GPU's artifact has one form of them, so that it is an error to choose there, as is a
    `form`, or a suffix of libraries.

    What is written to a device, such as /dev/null, is not loaded: None is returned.

    What was compiled before, the same program with the same weights, is not compiled again: it is found in the cache as a whole.

    `winograd=False` forbids convolutions by Winograd's algorithm, whose rounding errors are larger than those of the direct way, and those
    with few channels by blocks of pixels (`lowering/transforms/pixel_blocks.py`): in both, an infinity or a nan of the image also reaches
    results beside those that it belongs to. `POLYREME_WINOGRAD=0` in the environment does so for everything that is compiled.
    `strassen=False` and `POLYREME_STRASSEN=0` forbid large matrix products by Strassen's, whose errors are larger likewise, and whose
    packed weights take 7/4 of the memory, and those by pairs of steps, whose errors are relative to the largest elements of a row and of a
    column, and in which an infinity or a nan spoils all of its row or column. `bf16_terms=False` and `POLYREME_BF16_TERMS=0` forbid
    products by tile registers of bf16 (AMX), whose errors are no larger, but in which an infinity gives nan. `short_weights=False` and
    `POLYREME_SHORT_WEIGHTS=0` keep the weights of recurrent layers as they are; otherwise those below 2^-14 of the largest one that is
    summed with them may be rounded by 2^-38 of it.
    """
    from dataclasses import replace

    from polyreme.compiled.inspection import as_target
    from polyreme.compiled.kept import done_apart, kept_artifact
    from polyreme.device import current_place
    from polyreme.ir.diagnostics import PolyremeError

    chosen = None if cpu == "multi" else as_target(target_for(path, form, target), cpu)
    is_module = chosen is not None and chosen.arch == "wasm32"
    if small or (small is None and is_module):
        winograd = strassen = bf16_terms = False
    allowed = {"winograd": winograd, "strassen": strassen, "bf16_terms": bf16_terms, "short_weights": short_weights}
    if chosen is None:
        return _compile_for_several(net, Path(path), target, input_spec, form, folders, cpp, allowed)
    if cpp and is_module:
        raise PolyremeError(
            f"expected a library that C++ programs use (.so, .a, .o) for a header of C++ but got '{path}' for {chosen.name}", code="E0004"
        )
    if chosen.code == "ptx":
        form = _gpu_form(Path(path), chosen, form, small, cpp)
    else:
        from polyreme.lowering.link.artifact import check_form

        form = check_form(Path(path), chosen, form)
    chosen = replace(chosen, **{name: getattr(chosen, name) and may for name, may in allowed.items()})
    library = Path(path)
    key, ops, module, check = _what_to_compile(net, input_spec, chosen, form is not None)
    artifact = kept_artifact(key)
    write = partial(_write, library=library, target=chosen, form=form, folders=folders, cpp=cpp)
    if artifact is None:
        done_apart(ops, lambda: write(_compiled(key, module(), library, chosen, form, folders, check)))
    else:
        write(artifact)
    here = current_place().is_gpu_place() if chosen.code == "ptx" else runs_here(chosen)
    return load_compiled(library) if here and form in (None, "shared") and library.is_file() else None


def _gpu_form(path: Path, target: Any, form: str | None, small: bool | None, cpp: bool) -> str | None:
    """The form of a library for a GPU; None for an artifact, which any other suffix stands for. What cannot be chosen there is refused."""
    from polyreme.ir.diagnostics import PolyremeError
    from polyreme.lowering.link.artifact import FORMS

    if small is not None:
        raise PolyremeError(
            f"expected no choice of small weights for {target.name} but got {'small' if small else 'no small'}: code for GPUs has one form "
            "of them",
            code="E0004",
        )
    if form is not None or path.suffix in FORMS.values():
        from polyreme.lowering.link.gpu_library import gpu_library_form

        return gpu_library_form(path, form)
    if cpp:
        raise PolyremeError(f"expected a library (.so, .a, .o) for a header of C++ but got the artifact '{path}'", code="E0004")
    return None


def target_for(path: str | os.PathLike[str], form: str | None, target: Any) -> Any:
    """What a library is for where nothing but its form says so: WebAssembly, whatever the machine."""
    is_wasm = form == "wasm" or (form is None and Path(path).suffix == ".wasm")
    return "wasm32" if is_wasm and target in (None, "native") else target


def _compile_for_several(
    net: Any,
    path: Path,
    target: Any,
    input_spec: Sequence[Any] | None,
    form: str | None,
    folders: bool,
    cpp: bool,
    allowed: dict[str, Any],
) -> Any:
    """A library with code for each level of x86-64."""
    from dataclasses import replace

    from polyreme.compiled.inspection import as_target
    from polyreme.compiled.kept import keep_artifact, kept_artifact, room
    from polyreme.ir.diagnostics import PolyremeError
    from polyreme.lowering.link.artifact import check_form
    from polyreme.lowering.link.c_interface import c_name_of
    from polyreme.lowering.link.multi import level_targets, write_multi
    from polyreme.lowering.pipeline import compile_module

    asked = as_target(target)
    if asked.arch != "x86_64":
        message = f"expected a target of x86-64 for a library of several levels (cpu 'multi') but got '{asked.name}'"
        raise PolyremeError(message, code="E0008")
    if asked.name in {level.name for level in level_targets()}:
        raise PolyremeError(
            f"expected no level of x86-64 for a library of several (cpu 'multi'), which has v2, v3 and v4, but got '{asked.name}'; "
            "leave out one of the two",
            code="E0008",
        )
    form = check_form(path, level_targets()[0], form)
    artifacts = []
    for level in level_targets():
        chosen = replace(level, **{name: getattr(level, name) and may for name, may in allowed.items()})
        key, _, module, check = _what_to_compile(net, input_spec, chosen)
        artifact = kept_artifact(key)
        if artifact is None:
            artifact = compile_module(module(), chosen, name=c_name_of(path.name.split(".")[0]), room=room(True)).artifact.settled()
            check()
            keep_artifact(key, artifact)
        artifacts.append(artifact)
    write_multi(artifacts, path, form, folders, cpp=cpp)
    return load_compiled(path) if form == "shared" and path.is_file() and runs_here(level_targets()[0]) else None


def _what_to_compile(
    net: Any, input_spec: Sequence[Any] | None, target: Any, is_library: bool = True
) -> tuple[str, int, Callable[[], Any], Callable[[], None]]:
    """The key under which the artifact is kept, how many ops are compiled, what makes the module of them, and what raises an error if its
    weights have changed since. Of one for a GPU a library may have parts.
    """
    from polyreme.compiled.inspection import model_module
    from polyreme.compiled.kept import compiler_version
    from polyreme.ir.text import identity_text
    from polyreme.jit.loading import TranslatedLayer
    from polyreme.lowering.machines.targets import host
    from polyreme.runtime.cache import digest_of

    if isinstance(net, TranslatedLayer) and input_spec is None and target == host() and (fixed := net.fixed) is not None:
        # What runs it in this process is kept under its files' digest: neither program nor weights are read.
        return fixed.key, fixed.ops, fixed.module, fixed.check_unchanged
    module = model_module(net, input_spec, freeze=True)
    kind = "library" if is_library else "artifact"
    key = digest_of(kind, identity_text(module), repr(target), compiler_version())
    return key, len(module.function().block.ops), lambda: module, lambda: None


def _compiled(key: str, module: Any, path: Path, target: Any, form: str | None, folders: bool, check: Callable[[], None]) -> Any:
    """The artifact of a module, for a library that is written to `path`; it is kept for a second compilation, after a `check`."""
    from polyreme.compiled.kept import keep_artifact, room
    from polyreme.lowering.link.artifact import LibraryCode
    from polyreme.lowering.link.c_interface import c_name_of
    from polyreme.lowering.pipeline import compile_module

    # A name that cannot be one is told before the long part.
    name = c_name_of(path.name.split(".")[0])
    library = LibraryCode.of(path, target, form=form, folders=folders) if target.code != "ptx" else None
    artifact = compile_module(module, target, name=name, room=room(True), library=library, parts=form is not None).artifact.settled()
    check()
    keep_artifact(key, artifact)
    return artifact


def _write(artifact: Any, library: Path, target: Any, form: str | None, folders: bool, cpp: bool) -> None:
    if target.code == "ptx" and form is not None:
        from polyreme.lowering.link.gpu_library import write_gpu_library

        write_gpu_library(artifact, library, form=form, folders=folders, cpp=cpp)
    elif target.code == "ptx":
        from dataclasses import replace

        from polyreme.lowering.link.artifact import without_folders

        replace(artifact, manifest=without_folders(artifact.manifest, folders)).save(library)
    else:
        from polyreme.lowering.link.artifact import write_library

        write_library(artifact, library, target=target, form=form, folders=folders, cpp=cpp)


def load_compiled(path: str | os.PathLike[str], threads: int | None = None) -> Any:
    """The library or GPU artifact at `path`, called with numpy arrays by position or by name. LLVM is not loaded.

    `threads` is how many it computes with, by default the processors that this process may use. An artifact, and a library for a GPU, runs
    on the current device if that is a GPU, else on this machine's. An artifact needs pycuda, a library the driver alone.
    """
    from polyreme.device import as_place, current_place, driver_of
    from polyreme.runtime import library
    from polyreme.runtime.artifact import MAGIC, Artifact

    with open(path, "rb") as file:
        is_artifact = file.read(len(MAGIC)) == MAGIC
    if is_artifact:
        from polyreme.runtime.gpu.executable import GpuExecutable

        place = current_place()
        return GpuExecutable(Artifact.load(path), driver_of(place if place.is_gpu_place() else as_place("gpu")))

    place = current_place()
    if place.is_gpu_place():
        # A device of no system's is given the kernels; others are found by the library itself.
        return library.load_compiled(path, threads, getattr(place, "id", 0), driver_of(place) if place.kind == "gpu-emulated" else None)
    return library.load_compiled(path, threads=threads)


def runs_here(target: Any) -> bool:
    """Whether code for `target` runs on this machine."""
    from polyreme.runtime.cpu import check_runs_here
    from polyreme.runtime.errors import ArtifactError
    from polyreme.runtime.manifest.specs import TargetSpec

    try:
        check_runs_here(TargetSpec(target.triple, target.cpu, target.features), "the library")
    except ArtifactError:
        return False
    return True
