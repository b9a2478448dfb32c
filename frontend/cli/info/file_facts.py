"""What a model file or a library is, for `polyreme info FILE`. Nothing of it is run, and nothing is compiled."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from polyreme.cli.models import LIBRARY_SUFFIXES, existing
from polyreme.ir.config import bytes_text
from polyreme.ir.diagnostics import PolyremeError

MOST_OPERATORS = 12


class Facts(NamedTuple):
    """The same for programs and for people; whether the file can be used here."""

    as_json: dict[str, Any]
    lines: list[tuple[str, str]]
    is_usable: bool


def facts_of(text: str) -> Facts:
    """Of a file that a command takes as MODEL; errors are those of the commands."""
    from polyreme.jit.saved_files import SUFFIX
    from polyreme.loaders import find_program

    file = Path(text)
    if file.suffix in LIBRARY_SUFFIXES:
        return _library(existing(file))
    program = None if Path(text + SUFFIX).is_file() else find_program(file)
    if program is not None:
        return _of_paddle(program)
    if file.suffix == SUFFIX or Path(text + SUFFIX).is_file():
        return _saved(text)
    if file.exists():
        raise PolyremeError(
            f"expected a library (.so, .wasm), or a model saved by polyreme ({SUFFIX}) or by Paddle (.json, .pdmodel), but got '{text}'; "
            "`polyreme inspect` shows what others are",
            code="E0002",
        )
    raise FileNotFoundError(f"there is no file '{text}'")


def _library(file: Path) -> Facts:
    from polyreme.runtime.artifact import MAGIC, Artifact
    from polyreme.runtime.cpu import check_runs_here
    from polyreme.runtime.errors import ArtifactError
    from polyreme.runtime.library import LEVELS_KEY, host_of, map_weights, read_library
    from polyreme.runtime.manifest.manifest import GPU_PLAN
    from polyreme.runtime.wasm.module import is_module

    with open(file, "rb") as opened:
        is_artifact = opened.read(len(MAGIC)) == MAGIC
    manifest = Artifact.load(file).manifest if is_artifact else read_library(file).manifest
    beside = manifest.extra.get("weights")
    several = json.loads(manifest.extra.get(LEVELS_KEY, "[]"))
    cpus = [level["manifest"]["target"]["cpu"] for level in several] or [manifest.target.cpu]
    fault = ""
    of_wasm = is_module(manifest)
    try:
        if not is_artifact and not of_wasm:
            check_runs_here(host_of(manifest), str(file))
        if beside:
            map_weights(file.parent / beside, manifest)
    except ArtifactError as error:
        fault = error.message
    size = file.stat().st_size
    weights = {"bytes": manifest.constant_bytes, "file": beside}
    kind = "artifact" if is_artifact else "module" if of_wasm else "library"
    here = f"{file.with_suffix('.mjs').name} loads it in a browser or in Node" if of_wasm else "can be loaded"
    if GPU_PLAN in manifest.extra:
        here += " where there is a GPU" + ("" if is_artifact else " and its driver")
    found = {
        "kind": kind,
        "file": str(file),
        "bytes": size,
        "name": manifest.name,
        "inputs": [_tensor(t) for t in manifest.inputs],
        "outputs": [_tensor(t) for t in manifest.outputs],
        "sizes": list(manifest.size_names),
        "expects": [guard.what for guard in manifest.guards],
        "target": {"triple": manifest.target.triple, "cpu": manifest.target.cpu, "features": manifest.target.features},
        "weights": weights,
        "fault": fault,
    }
    where = f"in {beside}, beside it" if beside else "inside"
    lines = [
        (kind, f"{file}: {bytes_text(size)}; its C functions are called {manifest.name}_…"),
        *[("input", str(t)) for t in manifest.inputs],
        *[("output", str(t)) for t in manifest.outputs],
        *[("expects", guard.what) for guard in manifest.guards],
        *[("expects", f"'{manifest.inputs[r.input].name}' to hold {r.what} from {r.low} to {r.high}") for r in manifest.ranges],
        ("target", ", ".join(filter(None, (manifest.target.triple, *cpus)))),
        ("weights", f"{bytes_text(manifest.constant_bytes)} {where}" if manifest.constant_bytes else "none"),
        ("here", fault or here),
    ]
    return Facts(found, lines, not fault)


def _of_paddle(program: Path) -> Facts:
    from polyreme.loaders import files_of, read_model, uses_of
    from polyreme.loaders.unsupported import gathered

    uses = uses_of(program)
    counts = Counter(use.name for use in uses)
    missing = gathered(uses)
    kind = "PIR program" if program.suffix == ".json" else "legacy program"
    files = files_of(program) or [program / "__model__"]
    sizes = {str(file): file.stat().st_size for file in files}
    found: dict[str, Any] = {
        "kind": kind, "files": sizes, "operators": dict(counts.most_common()),
        "unsupported": {fault: [use.place for use in users] for fault, users in missing.items()}, "fault": "",
    }  # fmt: skip
    lines = [(kind, ", ".join(f"{file} ({bytes_text(size)})" for file, size in sizes.items()))]
    if not missing:
        try:
            described, more = _of_traced(read_model(program))
            found |= described
            lines += more
        except (PolyremeError, FileNotFoundError) as error:
            found["fault"] = error.message if isinstance(error, PolyremeError) else str(error)
    shown = ", ".join(f"{name} {count}" for name, count in counts.most_common(MOST_OPERATORS))
    more_kinds = f" and {len(counts) - MOST_OPERATORS} more kinds" if len(counts) > MOST_OPERATORS else ""
    lines.append(("operators", f"{sum(counts.values())} of {len(counts)} kinds: {shown}{more_kinds}"))
    lines += [("unsupported", f"{fault}: {len(users)} times, in {users[0].place}") for fault, users in missing.items()]
    if found["fault"]:
        lines.append(("fault", found["fault"]))
    else:
        lines.append(("here", "operators are missing" if missing else "can be loaded and compiled"))
    return Facts(found, lines, not missing and not found["fault"])


def _saved(text: str) -> Facts:
    from polyreme.jit.reading import read_model
    from polyreme.jit.saved_files import model_file

    file = model_file(text)
    size = existing(file).stat().st_size
    traced = read_model(text)
    described, lines = _of_traced(traced)
    counts = Counter(op.name for op in traced.func.block)
    found = {"kind": "saved model", "files": {str(file): size}, "operators": dict(counts.most_common()), "fault": "", **described}
    shown = ", ".join(f"{name} {count}" for name, count in counts.most_common(MOST_OPERATORS))
    lines = [("saved model", f"{file} ({bytes_text(size)})"), *lines, ("operators", f"{sum(counts.values())}: {shown}")]
    return Facts(found, lines, True)


def _of_traced(traced: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Inputs, outputs and weights of a program."""
    results = [v.type for v in traced.func.block.terminator.operands][: traced.output_count]
    inputs = list(zip(traced.input_names, traced.inputs, strict=True))
    outputs = list(zip(traced.output_names, results, strict=True))
    weights = list(traced.captured)
    count = sum(int(w.size) for w in weights)
    size = sum(int(w.size) * w.type.dtype.bytes for w in weights)
    described = {
        "inputs": [_typed(name, type) for name, type in inputs],
        "outputs": [_typed(name, type) for name, type in outputs],
        "weights": {"tensors": len(weights), "elements": count, "bytes": size},
    }
    text = lambda name, type: f"{name}: {type.dtype.np.name}[{', '.join(map(str, type.shape))}]"
    lines = [
        *[("input", text(name, type)) for name, type in inputs],
        *[("output", text(name, type)) for name, type in outputs],
        ("weights", f"{len(weights)} tensors of {count} elements, {bytes_text(size)}"),
    ]
    return described, lines


def _typed(name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "dtype": type.dtype.np.name, "shape": [d if isinstance(d, int) else str(d) for d in type.shape]}


def _tensor(spec: Any) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
