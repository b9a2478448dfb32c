"""A library for processors of several levels: the model's code for each, and C functions that call the code of the best level that the
processor has.

The levels are libraries of their own inside of one, called `NAME__v2` and so on, with one place of weights; what a level's functions are is
read off its interface. The choice is made by the first call, of whichever function.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from polyreme.lowering.link.artifact import (
    MAX_INSIDE_BYTES,
    base_of,
    check_form,
    constants_text,
    headers,
    identity_of,
    interfaces,
    native_object,
    pool_text,
    without_folders,
    write_files,
)
from polyreme.lowering.link.c_interface import Digests, Weights, c_name_of, digests_text
from polyreme.lowering.link.parts import moved
from polyreme.lowering.link.processor import base_features, choice_of
from polyreme.lowering.link.relocatable import archive, link_object, own_names
from polyreme.lowering.link.runtime import ALIGNMENT, LEVELS_KEY, PARTS, Artifact, TargetSpec, library_bytes, weights_header, weights_sum
from polyreme.lowering.link.shared_library import link_shared
from polyreme.lowering.machines.targets import Target, find_target

__all__ = ["LEVELS", "level_targets", "write_multi"]

# From the least on.
LEVELS = {"v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"}

_DEFINED = re.compile(r"^define (?P<type>ptr|i32|void) @(?P<name>\w+)\((?P<parameters>[^)]*)\)", re.MULTILINE)


def level_targets() -> list[Target]:
    """The machines that a library of several levels is for."""
    return [find_target(name) for name in LEVELS.values()]


def write_multi(
    artifacts: Sequence[Artifact],
    path: str | os.PathLike[str],
    form: str | None = None,
    folders: bool = False,
    weights: str = "auto",
    cpp: bool = False,
) -> list[Path]:
    """As `write_library`, of the artifacts of one model for `level_targets()`."""
    path = Path(path)
    targets = level_targets()
    form = check_form(path, targets[0], form)
    name = c_name_of(path.name.split(".")[0])
    data = b""
    manifests = []
    for artifact in artifacts:
        data += bytes(-len(data) % ALIGNMENT)
        manifests.append(replace(moved(without_folders(artifact.manifest, folders), len(data)), name=name))
        data += artifact.constants
    own_file = bool(data) and (weights == "beside" or (weights == "auto" and len(data) > MAX_INSIDE_BYTES))
    place, digests = Weights(bytes=len(data)), Digests(b"", sum=weights_sum(data))
    weights_path = path.with_suffix(".weights")
    if own_file:
        digests = replace(digests, header=weights_header(data))
        place = replace(place, file=weights_path.name, file_bytes=len(digests.header) + len(data))
        told = {"weights": weights_path.name, "weights_digest": digests.header[16:48].hex()}
        manifests = [replace(manifest, extra={**manifest.extra, **told}) for manifest in manifests]
    objects: dict[str, bytes] = {}
    levels = []
    functions: list[tuple[str, str, str]] = []
    for level, artifact, manifest, target in zip(LEVELS, artifacts, manifests, targets, strict=True):
        own = f"{name}__{level}"
        identity = identity_of(manifest, artifact)
        texts = interfaces(manifest, own, place)
        functions = [
            (found["type"], found["name"].removeprefix(f"{own}_"), found["parameters"])
            for found in _DEFINED.finditer(texts["interface.o"])
            if found["name"].startswith(f"{own}_")
        ]
        parts = {f"model{i}.o": code for i, code in enumerate(artifact.objects)} | {
            **{file: native_object(text, base_of(target)) for file, text in texts.items()},
            "digests.o": native_object(digests_text(own, replace(digests, identity=identity)), base_of(target)),
            "pool.o": native_object(pool_text(target), target),
        }
        objects |= own_names(parts, own)
        levels.append({"table": f"{own}__polyreme_library", "identity": identity.hex(), "manifest": manifest.to_json()})
    objects["choice.o"] = native_object(_choice(name, functions, targets), base_of(targets[0]))
    if data and not own_file:
        objects["constants.o"] = native_object(constants_text(data), targets[0])
    first = replace(manifests[0], extra={**manifests[0].extra, LEVELS_KEY: json.dumps(levels, separators=(",", ":"))})
    if form == "shared":
        tables = [str(level["table"]) for level in levels]
        if manifests[0].steps:
            tables += [f"{name}__{level}__{PARTS}" for level in LEVELS]
        exports = [*(f"{name}_{function}" for _, function, _ in functions), *tables]
        code = library_bytes(link_shared(objects, exports, path.name, targets[0]), first, bytes.fromhex(str(levels[0]["identity"])))
    else:
        renamed = own_names(objects, name)
        code = archive(renamed) if form == "static" else link_object(renamed)
    named = replace(manifests[0], target=manifests[0].target._replace(cpu=", ".join(LEVELS.values())))
    written = {path: [code], **headers(path, named, name, place, form, cpp)}
    return write_files(path, written | ({weights_path: [digests.header, data]} if own_file else {}))


def _choice(name: str, functions: Sequence[tuple[str, str, str]], targets: Sequence[Target]) -> str:
    """LLVM IR of the functions `NAME_…`, each of which calls the one of the level that was chosen."""
    features = [base_features(TargetSpec(target.triple, target.cpu, target.features)) for target in targets]
    lines = [choice_of(features)]
    for kind, function, parameters in functions:
        given = [parameter.strip() for parameter in parameters.split(",")] if parameters.strip() else []
        types = ", ".join(parameter.split()[0] for parameter in given)
        lines += [f"declare {kind} @{name}__{level}_{function}({types})" for level in LEVELS]
        arguments = ", ".join(given)
        labels = list(LEVELS)
        lines += [
            "",
            f"define {kind} @{name}_{function}({arguments}) nounwind {{",
            "entry:",
            "  %level = call i32 @level()",
            f"  switch i32 %level, label %{labels[0]} [ "
            + " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels) if i)
            + " ]",
        ]
        for label in labels:
            lines += ["", f"{label}:"]
            call = f"call {kind} @{name}__{label}_{function}({arguments})"
            lines += [f"  {call}", "  ret void"] if kind == "void" else [f"  %value_{label} = {call}", f"  ret {kind} %value_{label}"]
        lines += ["}", ""]
    return "\n".join(lines)
