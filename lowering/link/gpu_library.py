"""A library for a GPU: code of the host around PTX, and code of the device where its assembler is at hand. It needs the driver alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.link.artifact import (
    LibraryCode,
    base_of,
    check_form,
    constants_text,
    headers,
    identity_of,
    native_object,
    without_folders,
    write_files,
)
from polyreme.lowering.link.c_interface import Digests, digests_text
from polyreme.lowering.link.gpu_interface import DeviceCode, device_code_text, gpu_interfaces
from polyreme.lowering.link.ptxas import assembled
from polyreme.lowering.link.relocatable import archive, link_object, own_names
from polyreme.lowering.link.runtime import GPU_HOST, Artifact, TargetSpec, device_of, library_bytes, weights_header, weights_sum
from polyreme.lowering.link.shared_library import link_shared
from polyreme.lowering.machines.targets import Target, host

__all__ = ["gpu_library_form", "write_gpu_library"]


def gpu_library_form(path: Path, form: str | None = None) -> str:
    """The form of a library for a GPU by its file's suffix, as `check_form` has it."""
    return check_form(path, _host(), form)


def _host() -> Target:
    """The least machine of this one's architecture."""
    return base_of(host())


def _device_code(ptx: bytes) -> DeviceCode:
    sm, only_this = device_of(ptx)
    return DeviceCode(ptx, assembled(ptx, f"sm_{sm}{'a' if only_this else ''}"))


def write_gpu_library(
    artifact: Artifact,
    path: str | os.PathLike[str],
    name: str | None = None,
    weights: str = "auto",
    form: str | None = None,
    folders: bool = False,
    cpp: bool = False,
) -> list[Path]:
    """As `write_library`, of an artifact for a GPU, for hosts of this machine's architecture."""
    path = Path(path)
    if not path.parent.is_dir():
        raise PolyremeError(f"expected a folder '{path.parent}' to write '{path.name}' to, but there is none", code="E0009")
    machine = _host()
    library = LibraryCode.of(path, machine, name, weights, gpu_library_form(path, form), folders)
    name, form = library.name, library.form
    place = library.weights_of(len(artifact.pieces))
    digests = Digests(b"", sum=weights_sum(artifact.constants))
    extra = {**artifact.manifest.extra, GPU_HOST: machine.triple}
    if place.file:
        digests = replace(digests, header=weights_header(artifact.constants))
        extra |= {"weights": place.file, "weights_digest": digests.header[16:48].hex()}
    manifest = replace(without_folders(artifact.manifest, folders), name=name, extra=extra)
    codes = [_device_code(ptx) for ptx in artifact.objects]
    digests = replace(digests, identity=identity_of(manifest, artifact))
    texts = gpu_interfaces(manifest, name, place, codes, TargetSpec(machine.triple, machine.cpu, machine.features))
    objects = {
        **{file: native_object(text, machine) for file, text in texts.items()},
        "kernels.o": native_object(device_code_text(manifest, codes), machine),
        "digests.o": native_object(digests_text(name, digests), machine),
    }
    if manifest.all_constants and not place.file:
        # Constants without elements have an address all the same.
        objects["constants.o"] = native_object(constants_text(artifact.constants or bytes(1)), machine)
    if form == "shared":
        exports = [f"{name}_*", "polyreme_library", "polyreme_gpu"]
        linked = library_bytes(link_shared(objects, exports, path.name, machine), manifest, digests.identity)
    else:
        linked = archive(own_names(objects, name)) if form == "static" else link_object(own_names(objects, name))
    written: dict[Path, list[bytes | memoryview]] = {}
    if place.file:
        written[path.with_name(place.file)] = [digests.header, artifact.constants]
    written[path] = [linked]
    return write_files(path, written | dict(headers(path, manifest, name, place, form, cpp)))
