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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.types import SCALARS
from polyreme.ir.verify import verify
from polyreme.jit.saved_files import model_file
from polyreme.jit.structure import paths, template_from_json
from polyreme.jit.traced import Traced
from polyreme.loaders.errors import is_refusal
from polyreme.loaders.numpy_files import archive_in, array_in, part_of
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
            archive = archive_in(stream)
        except ValueError as error:
            raise ModelFileError(
                f"expected a model saved by jit.save but {file} is damaged or something else: {error}", caller_location()
            ) from None
        with archive:
            return _read(archive, str(file), mapped)


@contextmanager
def _in_part(file: str, part: str) -> Iterator[None]:
    """Whoever reads a part of a file inside the `with` raises a `ValueError`, or a `PolyremeError`, for what is wrong with it: then the
    file is said to be damaged. Anything else is a fault of ours, and so is a `ValueError` that no `raise` of ours raised.
    """
    try:
        yield
    except ModelFileError:
        raise
    except RecursionError:
        raise ModelFileError(f"expected parts nested less deeply in {part} of {file}", caller_location()) from None
    except (PolyremeError, ValueError) as error:
        if not isinstance(error, PolyremeError) and not is_refusal(error):
            raise
        said = error.message if isinstance(error, PolyremeError) else error
        raise ModelFileError(f"expected a whole model but {file} has a wrong or missing part, {part}: {said}", caller_location()) from None


def _read(archive: zipfile.ZipFile, file: str, mapped: bool) -> Traced:
    from polyreme.compiled.texts import read_module

    with _in_part(file, "manifest.json"):
        manifest = _manifest(part_of(archive, "manifest.json"), file)
        outputs = template_from_json(manifest["outputs"])
    with _in_part(file, "module.tir"):
        module = read_module(_text(part_of(archive, "module.tir")), f"{file}:module.tir")
        verify(module)
        func = module.function()
    func.detach()
    func.attributes["sym_name"] = manifest["name"]
    with _in_part(file, "tensors"):
        arrays = _arrays(archive, [f"tensors/{i}.npy" for i in range(len(manifest["tensors"]))], mapped)
        # Whoever loads a model draws from their own generator.
        tensors = [
            default_generator().state if entry.get("generator") else _tensor(array, entry, file)
            for array, entry in zip(arrays, manifest["tensors"], strict=True)
        ]
    sources: list[int | Tensor] = [s if isinstance(s, int) else tensors[s["tensor"]] for s in manifest["sources"]]
    _check_arguments(func, sources, file)
    inputs = [arg.type for arg, source in zip(func.args, sources, strict=True) if isinstance(source, int)]
    count = len(func.block.terminator.operands) - len(manifest["written"])
    named = sum(1 for _ in paths(outputs, ""))
    if named != count:
        raise ModelFileError(f"expected {count} outputs in {file} but its manifest names {named}")
    return Traced(func, inputs, sources, outputs, count, [tensors[i] for i in manifest["written"]])


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"expected text in UTF-8 but its byte {error.start} belongs to none") from None


def _manifest(data: bytes, file: str) -> dict[str, Any]:
    """`manifest.json`, as `saving.py` writes it; a `ValueError` says what is otherwise."""
    text = _text(data)
    try:
        made = json.loads(text)
    except ValueError as error:  # also of numbers with thousands of digits
        raise ValueError(f"expected JSON: {error}") from None
    if not isinstance(made, dict) or type(made.get("format")) is not int:
        raise ValueError("expected the number of a format")
    if made["format"] != FORMAT:
        raise ModelFileError(f"expected a model of format {FORMAT} but {file} has format {made['format']}: save it again")
    for key, kind in (("name", str), ("tensors", list), ("sources", list), ("written", list)):
        if not isinstance(made.get(key), kind):
            raise ValueError(f"expected {kind.__name__} for '{key}' but got {made.get(key)!r:.80}")
    for entry in made["tensors"]:
        known = isinstance(entry, dict) and all(isinstance(entry.get(k), str) for k in ("name", "dtype")) and entry["dtype"] in SCALARS
        if not known or not all(isinstance(entry.get(k), bool) for k in ("parameter", "trainable")):
            raise ValueError(f"expected a tensor's name, dtype, and whether it is a parameter and trained, but got {entry!r:.80}")
    numbers = [*(s.get("tensor") for s in made["sources"] if isinstance(s, dict)), *made["written"]]
    known = all(type(n) is int and 0 <= n < len(made["tensors"]) for n in numbers)
    if not known or any(type(s) is not int for s in made["sources"] if not isinstance(s, dict)):
        raise ValueError(f"expected numbers of inputs and of {len(made['tensors'])} tensors in 'sources' and 'written'")
    if "outputs" not in made:
        raise ValueError("expected how results are nested in 'outputs'")
    return made


def _arrays(archive: zipfile.ZipFile, names: Sequence[str], mapped: bool) -> Iterator[Array]:
    """The arrays in parts of a file, with `mapped` where they lie in it."""
    assert archive.fp is not None
    known = set(archive.namelist())
    if missing := next((name for name in names if name not in known), None):
        raise ValueError(f"there is no {missing}")
    parts = list(map(archive.getinfo, names))
    if any(part.compress_type != zipfile.ZIP_STORED or part.flag_bits & _ENCRYPTED for part in parts):
        # Written by somebody else.
        for name in names:
            yield array_in(memoryview(part_of(archive, name)), name).copy()
        return
    file = mmap.mmap(archive.fp.fileno(), 0, prot=mmap.PROT_READ)
    views = [_contents(memoryview(file), part) for part in parts]
    sums = checksums_of(views)
    # Who computes with the weights is another process as a rule: here they were only looked at.
    if hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)
    for part, view, found in zip(parts, views, sums, strict=True):
        if found != part.CRC:
            raise ValueError(f"Bad CRC-32 for file {part.filename!r}")
        array = array_in(view, part.filename)
        yield array if mapped else array.copy()


def _contents(file: memoryview, part: zipfile.ZipInfo) -> memoryview:
    """The contents of a part that is stored as it is, which its checksum has to be compared with yet."""
    start = part.header_offset + _LOCAL.size
    if 0 <= part.header_offset and start <= len(file):
        magic, *_, name_bytes, extra_bytes = _LOCAL.unpack_from(file, part.header_offset)
        start += name_bytes + extra_bytes
        if magic == b"PK\3\4" and part.file_size == part.compress_size and start + part.file_size <= len(file):
            return file[start : start + part.file_size]
    raise ValueError(f"{part.filename!r} is not where the file says")


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
