"""Modules of WebAssembly, run in Node: for those who look at what a module computes. Each run is a process of its own, on files."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.runtime.calling import Array, CallableModel
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.memory import numpy_dtype

__all__ = ["NodeModule", "is_module", "run_on_files"]


def is_module(manifest: Manifest) -> bool:
    """Whether the code is WebAssembly's."""
    return manifest.target.triple.startswith("wasm")


class NodeModule(CallableModel):
    """A module that runs in Node, which has to be installed; the module's JavaScript stands beside it. Called as a library is."""

    def __init__(self, path: Path, manifest: Manifest):
        super().__init__(manifest)
        self._path = path.absolute()
        self._node = shutil.which("node")
        loader = path.with_suffix(".mjs")
        if self._node is None:
            where = f"in Node, which is not installed, or in a browser: {loader.name} loads it"
            raise ArtifactError(f"{path}: a module of WebAssembly runs {where}", code="E0802")
        if not loader.is_file():
            raise ArtifactError(f"{path}: expected '{loader.name}' beside it, which loads it, but there is no such file")

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for `inputs`, in fresh arrays: there is no `out`. What the module refuses is a `CallError` with its text."""
        if out is not None:
            raise CallError(f"'{self.name}' expected no 'out': a module gives arrays of its own")
        if len(inputs) != len(self._inputs):
            raise self._count_error(len(inputs))
        arrays = [self._as_array(value, spec) for value, (_, _, spec) in zip(inputs, self._inputs, strict=True)]
        for array, (_, dtype, spec) in zip(arrays, self._inputs, strict=True):
            if array.dtype != dtype:
                raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
        with as_file(files("polyreme.runtime.wasm") / "run_module.mjs") as program:
            done, outputs = run_on_files([str(self._node), str(program), str(self._path), self.name, "1"], arrays)
        if done.returncode:
            raise CallError(f"'{self.name}' in Node: {done.stderr.strip()}")
        return outputs


def run_on_files(
    command: Sequence[str], inputs: Sequence[Array], timeout: float | None = None
) -> tuple[subprocess.CompletedProcess[str], list[Array]]:
    """What a program, to which a folder is given as its last argument, makes of the inputs in that folder, and how it ended.

    `shapes` has the rank and the sizes of each input, `input0` and so on their elements. The program writes `output0` and so on, and prints
    a line for each: its dtype and sizes.
    """
    with tempfile.TemporaryDirectory(prefix="polyreme-run-") as name:
        folder = Path(name)
        (folder / "shapes").write_text("\n".join(" ".join(map(str, [x.ndim, *x.shape])) for x in inputs) + "\n")
        for i, x in enumerate(inputs):
            (folder / f"input{i}").write_bytes(np.ascontiguousarray(x).tobytes())
        done = subprocess.run([*command, name], capture_output=True, text=True, timeout=timeout, check=False)
        outputs = []
        for i, line in enumerate(done.stdout.splitlines() if done.returncode == 0 else ()):
            dtype, *sizes = line.split()
            array = np.frombuffer((folder / f"output{i}").read_bytes(), numpy_dtype(dtype))
            outputs.append(array.reshape([int(size) for size in sizes]))
        return done, outputs
