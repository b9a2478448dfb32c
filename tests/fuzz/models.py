"""Mutated model files: number `n` of a seed is always the same files, whichever process makes them.

The models are those of `tests/fixtures`, and those of the folder that `POLYREME_FUZZ_MODELS` names. A case has the files of one model, of
which one was changed once to a few times.
"""

from __future__ import annotations

import functools
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz import parts

FIXTURES = Path(__file__).parents[1] / "fixtures"
# Larger programs take most of the time and show nothing that smaller ones do not.
LONGEST_PROGRAM = 60_000
LONGEST_PARAMETERS = 20_000

Mutation = Callable[[random.Random, bytes], bytes]
MUTATIONS: dict[str, list[Mutation]] = {
    ".json": [parts.mutate_json] * 8 + parts.BYTES,
    ".pdmodel": [parts.mutate_wire] * 8 + parts.BYTES,
    ".pdiparams": [parts.mutate_parameters] * 6 + parts.BYTES,
    ".pdparams": [parts.mutate_pickle] * 8 + parts.BYTES,
    ".polyreme": [parts.mutate_archive] * 10 + parts.BYTES,
    ".safetensors": [parts.mutate_header] * 8 + parts.BYTES,
}


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model by suffix; `suffix` is the one that it is loaded by."""

    name: str
    suffix: str
    contents: dict[str, bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.contents.values()))

    def write(self, folder: Path) -> Path:
        """The file that it is loaded by, written with the others into `folder`."""
        for suffix, data in self.contents.items():
            (folder / f"model{suffix}").write_bytes(data)
        return folder / f"model{self.suffix}"


@functools.cache
def models() -> tuple[ModelFiles, ...]:
    """Those to start from."""
    folders = [FIXTURES / "models", FIXTURES / "quantized"]
    if more := os.environ.get("POLYREME_FUZZ_MODELS"):
        folders.append(Path(more))
    found = []
    for folder in folders:
        for file in sorted([*folder.rglob("*.json"), *folder.rglob("*.pdmodel")]):
            if file.stat().st_size > LONGEST_PROGRAM:
                continue
            contents = {file.suffix: file.read_bytes()}
            beside = file.with_suffix(".pdiparams")
            if beside.is_file():
                if beside.stat().st_size > LONGEST_PARAMETERS:
                    continue
                contents[".pdiparams"] = beside.read_bytes()
            found.append(ModelFiles(file.stem, file.suffix, contents))
    return (*found, *_programs(), *_own(), *_states())


def _programs() -> list[ModelFiles]:
    """Programs as Paddle 1.8.5 and 2.6.2 hand them to each other, those that train too. They have no parameters: most are refused late."""
    found = []
    for file in sorted((FIXTURES / "programs").rglob("*.npz")):
        with np.load(file, allow_pickle=False) as stored:
            if "main" in stored.files:
                found.append(ModelFiles(file.stem, ".pdmodel", {".pdmodel": stored["main"].tobytes()}))
    return found


def _own() -> list[ModelFiles]:
    """Models in our own form, and weights as safetensors."""
    from polyreme import safetensors
    from polyreme.jit.saving import write_model
    from polyreme.loaders import read_model

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("pir/mlp.json", "pir/resize.json", "control/branches.json"):
            traced = read_model(FIXTURES / "models" / name)
            file = Path(folder) / "model.polyreme"
            write_model(traced, file)
            found.append(ModelFiles(Path(name).stem, ".polyreme", {".polyreme": file.read_bytes()}))
            weights = safetensors.save({t.name: t for t in traced.captured})
            found.append(ModelFiles(Path(name).stem, ".safetensors", {".safetensors": weights}))
    return found


def _states() -> list[ModelFiles]:
    files = sorted(f for f in (FIXTURES / "state_files").iterdir() if f.suffix in (".pdparams", ".pdopt", ".pd"))
    return [ModelFiles(file.name, ".pdparams", {".pdparams": file.read_bytes()}) for file in files]


def mutated_model(seed: int, number: int) -> ModelFiles:
    """The files of case `number` of a run."""
    rng = random.Random(f"model {seed} {number}")
    # States and our own forms are few, and each has a reader of its own.
    kind = rng.choices((".json", ".pdmodel", ".polyreme", ".safetensors", ".pdparams"), (45, 35, 6, 4, 10))[0]
    start = rng.choice([model for model in models() if model.suffix == kind])
    contents = dict(start.contents)
    suffix = rng.choice([start.suffix, start.suffix, start.suffix, *contents])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        contents[suffix] = rng.choice(MUTATIONS[suffix])(rng, contents[suffix])[: parts.LONGEST]
    return ModelFiles(start.name, start.suffix, contents)
