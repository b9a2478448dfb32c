"""A saved model's file, as `saving.py` writes it, read and checked.

Reading runs nothing from the file, and checks all of it: the archive has a checksum of every part; the module is parsed, verified and compared with the tensors.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.types import SCALARS
from polyreme.ir.verify import verify
from polyreme.jit.loading import model_file
from polyreme.jit.structure import flatten, template_from_json, unflatten
from polyreme.jit.traced import Traced
from polyreme.tensor import Parameter, Tensor

__all__ = ["FORMAT", "ModelFileError", "read_model"]

FORMAT = 1


class ModelFileError(PolyremeError, ValueError):
    """A file that is no saved model, or a damaged one."""

    code = "E0706"


def read_model(path: str | os.PathLike[str]) -> Traced:
    """The program in a file. A missing file is a `FileNotFoundError`, a damaged or foreign one a `ModelFileError` that says what is wrong."""
    file = model_file(path)
    if not file.is_file():
        raise FileNotFoundError(f"expected a model saved by jit.save but there is no file {file}")
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(archive, str(file))
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"expected a model saved by jit.save but {file} is damaged or something else: {error}", caller_location()) from None
    except (KeyError, IndexError, TypeError, ValueError, EOFError, RecursionError) as error:
        if isinstance(error, PolyremeError):
            raise
        raise ModelFileError(f"expected a whole model but {file} has a wrong or missing part: {error}", caller_location()) from None


def _read(archive: zipfile.ZipFile, file: str) -> Traced:
    from polyreme.ir.text import parse_module

    manifest = json.loads(archive.read("manifest.json"))
    if manifest["format"] != FORMAT:
        raise ModelFileError(f"expected a model of format {FORMAT} but {file} has format {manifest['format']}: save it again")
    module = parse_module(archive.read("module.tir").decode(), f"{file}:module.tir")
    verify(module)
    func = module.function()
    func.detach()
    func.attributes["sym_name"] = str(manifest["name"])
    tensors = [_read_tensor(archive, i, entry) for i, entry in enumerate(manifest["tensors"])]
    sources: list[int | Tensor] = [s if isinstance(s, int) else tensors[s["tensor"]] for s in manifest["sources"]]
    _check_arguments(func, sources, file)
    inputs = [arg.type for arg, source in zip(func.args, sources, strict=True) if isinstance(source, int)]
    outputs = template_from_json(manifest["outputs"])
    leaves: list[Any] = []
    count = len(func.block.terminator.operands) - len(manifest["written"])
    flatten(unflatten(outputs, iter([_Marker] * count)), leaves, lambda v: v is _Marker)
    if len(leaves) != count:
        raise ModelFileError(f"expected {count} outputs in {file} but its manifest names {len(leaves)}")
    return Traced(func, inputs, sources, outputs, count, [tensors[i] for i in manifest["written"]])


_Marker = object()


def _read_tensor(archive: zipfile.ZipFile, number: int, entry: dict[str, Any]) -> Tensor:
    with archive.open(f"tensors/{number}.npy") as part:
        # Piece by piece into the array: weights are never in memory twice.
        array = np.lib.format.read_array(part, allow_pickle=False)
        # The checksum is looked at when the part ends.
        if part.read(1):
            raise ModelFileError(f"expected one array for '{entry['name']}' but the file goes on behind it")
    dtype = SCALARS[entry["dtype"]].np
    array = array.view(dtype) if dtype.name == "bfloat16" else array
    if array.dtype != dtype:
        raise ModelFileError(f"expected {dtype} for '{entry['name']}' but the file has {array.dtype}")
    tensor: Tensor
    if entry["parameter"]:
        tensor = Parameter(Tensor._wrap(array), trainable=bool(entry["trainable"]))
    else:
        tensor = Tensor._wrap(array)
        tensor.stop_gradient = not entry["trainable"]
    tensor.name = str(entry["name"])
    return tensor


def _check_arguments(func: Func, sources: Sequence[int | Tensor], file: str) -> None:
    if len(sources) != len(func.args) or [s for s in sources if isinstance(s, int)] != list(range(sum(isinstance(s, int) for s in sources))):
        raise ModelFileError(f"expected a source for each of the {len(func.args)} arguments in {file}")
    for arg, source in zip(func.args, sources, strict=True):
        if isinstance(source, Tensor) and source.type != arg.type:
            raise ModelFileError(f"expected a tensor of type {arg.type} for '{source.name}' in {file} but got {source.type}")
