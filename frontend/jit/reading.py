"""A saved model's file, as `saving.py` writes it, read and checked.

Reading runs nothing from the file, and checks all of it: the archive has a checksum of every part; the module is parsed, verified and
compared with the tensors.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.types import SCALARS
from polyreme.ir.verify import verify
from polyreme.jit.saved_files import model_file
from polyreme.jit.structure import flatten, template_from_json, unflatten
from polyreme.jit.traced import Traced
from polyreme.loaders.numpy_files import array_in, check_expansion, check_parts
from polyreme.parameter import Parameter
from polyreme.random import default_generator
from polyreme.runtime.checksum import checksums_of
from polyreme.tensor import Tensor

__all__ = ["FORMAT", "ModelFileError", "read_model"]

Array = np.ndarray[Any, Any]

FORMAT = 1


class ModelFileError(PolyremeError, ValueError):
    """A file that is no saved model, or a damaged one."""

    code = "E0706"


def read_model(path: str | os.PathLike[str], mapped: bool = False) -> Traced:
    """The program in a file. A missing file is a `FileNotFoundError`, a damaged or foreign one a `ModelFileError` that says what is wrong.

    With `mapped` the contents of tensors are not copied: they are those of the file for as long as nobody writes to it.
    """
    file = model_file(path)
    if not file.is_file():
        raise FileNotFoundError(f"expected a model saved by jit.save but there is no file {file}")
    with open(file, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                check_expansion(archive, os.fstat(stream.fileno()).st_size)
                check_parts(archive)
                return _read(archive, str(file), mapped)
        except PolyremeError as error:
            if str(file) in str(error):
                raise
            raise ModelFileError(f"expected a whole model but {file} has a wrong part: {error.message}", caller_location()) from None
        except RecursionError:
            raise ModelFileError(f"expected parts nested less deeply in {file}", caller_location()) from None
        # A part that is packed in a way that Python does not know, or with a password, is no model of ours either.
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, struct.error, OSError) as error:
            raise ModelFileError(
                f"expected a model saved by jit.save but {file} is damaged or something else: {error}", caller_location()
            ) from None
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, EOFError, OverflowError, MemoryError, StopIteration) as error:
            raise ModelFileError(f"expected a whole model but {file} has a wrong or missing part: {error}", caller_location()) from None


def _read(archive: zipfile.ZipFile, file: str, mapped: bool) -> Traced:
    from polyreme.compiled.texts import read_module

    manifest = json.loads(archive.read("manifest.json"))
    if manifest["format"] != FORMAT:
        raise ModelFileError(f"expected a model of format {FORMAT} but {file} has format {manifest['format']}: save it again")
    module = read_module(archive.read("module.tir").decode(), f"{file}:module.tir")
    verify(module)
    func = module.function()
    func.detach()
    func.attributes["sym_name"] = str(manifest["name"])
    arrays = _arrays(archive, [f"tensors/{i}.npy" for i in range(len(manifest["tensors"]))], mapped)
    # Whoever loads a model draws from their own generator.
    tensors = [
        default_generator().state if entry.get("generator") else _tensor(array, entry, file)
        for array, entry in zip(arrays, manifest["tensors"], strict=True)
    ]
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


def _arrays(archive: zipfile.ZipFile, names: Sequence[str], mapped: bool) -> Iterator[Array]:
    """The arrays in parts of a file, with `mapped` where they lie in it."""
    assert archive.fp is not None
    parts = list(map(archive.getinfo, names))
    if any(part.compress_type != zipfile.ZIP_STORED or part.flag_bits & _ENCRYPTED for part in parts):
        # Written by somebody else.
        for name in names:
            yield array_in(memoryview(archive.read(name)), name).copy()
        return
    file = mmap.mmap(archive.fp.fileno(), 0, prot=mmap.PROT_READ)
    views = [_contents(memoryview(file), part) for part in parts]
    sums = checksums_of(views)
    # Who computes with the weights is another process as a rule: here they were only looked at.
    if hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)
    for part, view, found in zip(parts, views, sums, strict=True):
        if found != part.CRC:
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {part.filename!r}")
        array = array_in(view, part.filename)
        yield array if mapped else array.copy()


def _contents(file: memoryview, part: zipfile.ZipInfo) -> memoryview:
    """The contents of a part that is stored as it is, which its checksum has to be compared with yet."""
    magic, *_, name_bytes, extra_bytes = _LOCAL.unpack(file[part.header_offset : part.header_offset + _LOCAL.size])
    start = part.header_offset + _LOCAL.size + name_bytes + extra_bytes
    if magic != b"PK\3\4" or part.file_size != part.compress_size or start + part.file_size > len(file):
        raise zipfile.BadZipFile(f"{part.filename!r} is not where the file says")
    return file[start : start + part.file_size]


# In front of each part of an archive: magic, ten numbers about the part, bytes of its name and of what is said about it besides. Bit 0 of
# its flags says that it is encrypted.
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 1


def _tensor(array: Array, entry: dict[str, Any], file: str) -> Tensor:
    dtype = SCALARS[entry["dtype"]].np
    array = array.view(dtype) if dtype.name == "bfloat16" else array
    if array.dtype != dtype:
        raise ModelFileError(f"expected {dtype} for '{entry['name']}' but {file} has {array.dtype}")
    tensor: Tensor
    if entry["parameter"]:
        tensor = Parameter(Tensor._wrap(array), trainable=bool(entry["trainable"]))
    else:
        tensor = Tensor._wrap(array)
        tensor.stop_gradient = not entry["trainable"]
    tensor.name = str(entry["name"])
    return tensor


def _check_arguments(func: Func, sources: Sequence[int | Tensor], file: str) -> None:
    if len(sources) != len(func.args) or [s for s in sources if isinstance(s, int)] != list(
        range(sum(isinstance(s, int) for s in sources))
    ):
        raise ModelFileError(f"expected a source for each of the {len(func.args)} arguments in {file}")
    for arg, source in zip(func.args, sources, strict=True):
        if isinstance(source, Tensor) and source.type != arg.type:
            raise ModelFileError(f"expected a tensor of type {arg.type} for '{source.name}' in {file} but got {source.type}")
