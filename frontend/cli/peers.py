"""Other runtimes on the same model, for `polyreme bench --against`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from polyreme.cli.models import LoadedModel
from polyreme.cli.timing import duration
from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.loaders import find_program
from polyreme.peers.compare import LARGEST_SPREAD, OURS, PEERS, Comparison, compare
from polyreme.peers.files import write_files
from polyreme.peers.runner import LIBRARY

ROUNDS = 5


def parse_peers(against: str, pythons: Sequence[str]) -> dict[str, str]:
    """The Python of each peer in `against` (separated by commas); `pythons` are texts `PEER=PYTHON`, by default it is this one."""
    found = dict.fromkeys(filter(None, (part.strip() for part in against.split(","))), sys.executable)
    for text in pythons:
        name, _, python = text.partition("=")
        found[name] = python
    for name in found:
        if name not in PEERS:
            raise PolyremeError(
                f"expected a runtime to compare with ({', '.join(PEERS)}) but got '{name}'{did_you_mean(name, PEERS)}", code="E0004"
            )
    return found


def compare_model(
    model: LoadedModel, given: str, arrays: Sequence[Any], sizes: Mapping[str, int], peers: Mapping[str, str], threads: int, seconds: float
) -> Comparison:
    """The model, which the command line calls `given`, compiled for these sizes, beside the peers; each in a process of its own."""
    from polyreme.lowering.link.artifact import write_library
    from polyreme.lowering.pipeline import compile_module
    from polyreme.lowering.transforms.solve_sizes import specialize

    if model.kind == "library":
        raise PolyremeError(
            "expected a model with --against but got a library, whose program is machine code already; name the model it was made from",
            code="E0002",
        )
    module = model.module(freeze=True)
    if sizes:
        module = module.clone()
        specialize(module, sizes)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_files(module, arrays, folder, list(peers))
        if "paddle" in peers:
            _copy_paddle_files(given, folder)
        write_library(compile_module(module).artifact, folder / LIBRARY)
        return compare(folder, {OURS: sys.executable, **peers}, threads, folder / "cache", seconds / ROUNDS, ROUNDS)


def _copy_paddle_files(given: str, folder: Path) -> None:
    """Paddle runs its own files only."""
    program = find_program(given)
    if program is None or not program.is_file():
        raise PolyremeError(
            f"expected a model in Paddle's own files (.json or .pdmodel) to compare with 'paddle' but got '{given}'", code="E0002"
        )
    shutil.copy(program, folder / f"paddle{program.suffix}")
    shutil.copy(program.with_suffix(".pdiparams"), folder / "paddle.pdiparams")


def comparison_text(made: Comparison) -> str:
    """The figures as a table."""
    lines = ["".join(f"{title:>12}" for title in ("", "best", "p10", "p50", "ready", "MiB", "difference"))]
    for name, found in made.latencies.items():
        cells = [
            name,
            duration(found.best),
            duration(found.p10),
            duration(found.median),
            duration(found.compile_s + found.first_s),
            f"{found.peak_mib:.0f}",
        ]
        lines.append("".join(f"{cell:>12}" for cell in [*cells, f"{found.difference:.1e}"]))
    if made.ratios:
        mark = ", which do not agree: measure again" if made.spread > LARGEST_SPREAD else ""
        lines.append(
            f"best peer / ours: {made.ratio:.2f} ({min(made.ratios):.2f} to {max(made.ratios):.2f} in {len(made.ratios)} rounds{mark})"
        )
    return "\n".join([*lines, *made.faults.values()])


def comparison_json(made: Comparison, model: str, inputs: str) -> str:
    """The figures as JSON."""
    seconds = {name: asdict(found) for name, found in made.latencies.items()}
    return json.dumps({"model": model, "inputs": inputs, "libraries": seconds, "ratios": made.ratios, "faults": made.faults})
