"""Tensors by name in a file of the safetensors format, which other frameworks read, too: nothing in such a file runs, and reading checks
all of it.

A file is the length of its header (8 bytes, little-endian), the header, a JSON object, and the numbers. The header says of every name its
dtype, its shape and where its numbers begin and end; together they fill the rest of the file without gaps. Under "__metadata__" it may hold
texts by name.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.names import listed
from polyreme.serialization import destination
from polyreme.tensor import Tensor

__all__ = ["SafetensorsError", "load", "load_file", "save", "save_file"]

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_), "U8": np.dtype(np.uint8), "I8": np.dtype(np.int8), "I16": np.dtype("<i2"), "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16), "F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "C64": np.dtype("<c8"),
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
METADATA = "__metadata__"
# The format's own limit.
MAX_RANK, MAX_ELEMENTS = 64, 1 << 59
LONGEST_HEADER = 100_000_000


class SafetensorsError(PolyremeError, ValueError):
    """Tensors that the format cannot hold, or a file that is damaged or something else."""

    code = "E0705"


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The contents of a file with these tensors (a state dict, say); `metadata` are texts to go along."""
    if not all(isinstance(t, str) for pair in (metadata or {}).items() for t in pair):
        raise SafetensorsError(f"expected metadata of texts by name but got {metadata!r}", caller_location())
    arrays = {name: _array(name, tensor) for name, tensor in tensors.items()}
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    at = 0
    # Wide numbers first, so that all of them lie at multiples of their size.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *(arrays[name].tobytes() for name in order)])


def save_file(tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write `save(tensors, metadata)` as a file, whole or not at all."""
    data = save(tensors, metadata)
    with destination(filename) as stream:
        stream.write(data)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors by name in a file's contents; `SafetensorsError` says what is wrong with them."""
    return _read(data, "the data")


def load_file(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors by name in a file, for `set_state_dict`."""
    return _read(Path(filename).read_bytes(), os.fspath(filename))


def _array(name: str, tensor: Any) -> np.ndarray[Any, Any]:
    if not isinstance(name, str) or name == METADATA:
        raise SafetensorsError(f"expected a text other than '{METADATA}' as a tensor's name but got {name!r}", caller_location())
    if not isinstance(tensor, Tensor):
        raise SafetensorsError(
            f"expected a Tensor for '{name}' but got {type(tensor).__name__}: the format holds tensors only", caller_location()
        )
    array = tensor.numpy()
    if array.dtype == np.uint16:  # how bfloat16 leaves a tensor; there are no tensors of uint16
        array = array.view(ml_dtypes.bfloat16)
    if array.dtype not in NAMES:
        raise SafetensorsError(f"expected a dtype of the format for '{name}' but got {array.dtype}: cast it", caller_location())
    return array


def _read(data: bytes, where: str) -> dict[str, Tensor]:
    def wrong(what: str) -> SafetensorsError:
        return SafetensorsError(f"expected a file of the safetensors format but {where} {what}", caller_location())

    if len(data) < 8:
        raise wrong(f"has only {len(data)} bytes")
    (length,) = struct.unpack_from("<Q", data)
    if length > min(LONGEST_HEADER, len(data) - 8):
        raise wrong(f"tells of a header of {length} bytes and has {len(data) - 8} after that")
    try:
        header = json.loads(data[8 : 8 + length].decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise wrong(f"has a header that cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise wrong("has a header that is no object")
    texts = header.pop(METADATA, {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise wrong(f"has something else than texts under '{METADATA}'")
    numbers = memoryview(data)[8 + length :]
    spans = {}
    for name, entry in header.items():
        fault = _fault(entry)
        if fault:
            raise wrong(f"tells wrongly of '{name}': {fault}")
        spans[name] = tuple(entry["data_offsets"])
    at = 0
    for name, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        if start != at:
            raise wrong(f"has the numbers of '{name}' begin at {start} where {at} is expected: there may be neither gaps nor overlaps")
        at = end
    if at != len(numbers):
        raise wrong(f"tells of {at} bytes of numbers but has {len(numbers)}")
    return {name: _tensor(numbers[slice(*spans[name])], DTYPES[e["dtype"]], e["shape"]) for name, e in header.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _fault(entry: Any) -> str:
    """What is wrong with a header's entry by itself; empty when nothing is."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        return "it needs dtype, shape and data_offsets"
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        return f"the dtype {dtype!r} is none of {', '.join(DTYPES)}"
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        return "shape and the two data_offsets have to be whole numbers from 0 on"
    if len(shape) > MAX_RANK or math.prod(max(size, 1) for size in shape) > MAX_ELEMENTS:
        return f"expected at most {MAX_RANK} sizes, and sizes that an array can have"
    if offsets[1] - offsets[0] != math.prod(shape) * DTYPES[dtype].itemsize:
        return f"{dtype} of shape {shape} does not take the bytes {offsets[0]} to {offsets[1]}"
    return ""


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _tensor(numbers: memoryview, dtype: np.dtype[Any], shape: list[int]) -> Tensor:
    if dtype == np.bool_:  # any byte but 0 is true; numpy wants 1
        return Tensor._wrap((np.frombuffer(numbers, np.uint8) != 0).reshape(shape))
    return Tensor._wrap(np.frombuffer(numbers, dtype).reshape(shape).copy())


__dir__ = listed(__name__)
