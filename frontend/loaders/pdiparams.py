"""`.pdiparams`: all parameters of a program in one file, one after another in the order of their names, which are not in it.

    tensor:  u32 0 | u64 lod levels | per level: u64 bytes, the bytes | u32 0 | i32 size of the description | description | row-major data

The description is a protobuf `TensorDesc`: data type (field 1) and sizes (field 2).
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.dtypes import DTYPES, PROTOBUF_DTYPES, of_numpy
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.reader import Cursor, fields, number, numbers

__all__ = [
    "parameter_bytes", "read_one", "read_parameters", "read_parameters_of", "read_tensor",
    "read_tensor_and_levels", "write_one", "write_parameters",
]  # fmt: skip

Array = np.ndarray[Any, Any]

MAX_RANK = 9
MAX_LOD_LEVELS = 16
_CODES = {name: code for code, name in PROTOBUF_DTYPES.items()}


def read_parameters(path: str | os.PathLike[str], names: Sequence[str], mapped: bool = False) -> dict[str, Array]:
    """The arrays of a combined file, for the program's parameters of these names. The file must hold exactly these.

    A missing file is a `FileNotFoundError`; anything else that is wrong a `LoaderError` with the offset. With `mapped` the arrays are not
    copied, nor are their elements where such elements usually are: they are those of the file for as long as nobody writes to it.
    """
    return read_parameters_of(_bytes_of(Path(path)), names, os.fspath(path), mapped)


def read_parameters_of(data: memoryview, names: Sequence[str], file: str, mapped: bool = False) -> dict[str, Array]:
    """As `read_parameters`, of the contents of a file; `file` is what errors call it."""
    cursor = Cursor(data, file)
    found: dict[str, Array] = {}
    for name in sorted(names):
        cursor.what = f"the parameter '{name}'"
        if not cursor.left:
            cursor.fail(f"expected {len(names)} tensors but the file ends after {len(found)}")
        array = read_tensor(cursor)
        found[name] = array if mapped else array.copy()
    if cursor.left:
        cursor.what = "the file"
        cursor.fail(f"expected the end after the program's {len(names)} parameters but {cursor.left} bytes are left")
    return found


def _bytes_of(file: Path) -> memoryview:
    if not file.is_file():
        raise FileNotFoundError(f"expected the model's parameters but there is no file {file}")
    with open(file, "rb") as stream:
        # An empty file cannot be mapped.
        return memoryview(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) if os.fstat(stream.fileno()).st_size else b"")


def read_tensor(cursor: Cursor) -> Array:
    """The tensor that starts at the cursor, where its bytes are."""
    return read_tensor_and_levels(cursor)[0]


def read_one(path: str | os.PathLike[str], name: str) -> tuple[Array, list[list[int]]]:
    """The only tensor of a file, and its levels of detail as offsets. A missing file is a `FileNotFoundError`."""
    cursor = Cursor(_bytes_of(Path(path)), os.fspath(path), what=f"the variable '{name}'")
    array, levels = read_tensor_and_levels(cursor)
    if cursor.left:
        cursor.fail(f"expected the end of the file but {cursor.left} bytes are left")
    return array.copy(), levels


def read_tensor_and_levels(cursor: Cursor) -> tuple[Array, list[list[int]]]:
    """The tensor that starts at the cursor, where its bytes are, and its levels of detail as offsets."""
    if (version := cursor.u32("a version")) != 0:
        cursor.fail(f"expected a tensor of version 0 but got {version}")
    levels = cursor.u64("the number of levels of detail")
    if levels > MAX_LOD_LEVELS:
        cursor.fail(f"expected at most {MAX_LOD_LEVELS} levels of detail but got {levels}")
    offsets = []
    for _ in range(levels):
        size = cursor.u64("the size of a level of detail")
        if size % 8:
            cursor.fail(f"expected a level of detail of whole numbers of 8 bytes but got {size} bytes")
        offsets.append(np.frombuffer(cursor.take(size, "a level of detail"), "<u8").tolist())
    if (version := cursor.u32("a version")) != 0:
        cursor.fail(f"expected a tensor of version 0 but got {version}")
    size = cursor.i32("the size of the description")
    dtype, shape = _description(cursor.inside(size, f"{cursor.what}, its description"))
    elements = math.prod(shape)
    # numpy counts the elements of empty arrays too, as if no size were 0.
    if math.prod(d for d in shape if d) >= 1 << 48:
        cursor.fail(f"expected sizes that memory can hold but got {list(shape)}")
    data = cursor.take(elements * dtype.itemsize, f"{dtype.name}{list(shape)}")
    return np.frombuffer(data, dtype).reshape(shape), offsets


def _description(desc: Cursor) -> tuple[np.dtype[Any], tuple[int, ...]]:
    code, shape = None, []
    for field, value, _ in fields(desc, {1: "data_type", 2: "dims"}):
        if field == 1:
            code = number(value, desc, "the data type")
        else:
            shape += numbers(value, desc, "sizes")
        if len(shape) > MAX_RANK:
            desc.fail(f"expected at most {MAX_RANK} sizes")
    if code not in PROTOBUF_DTYPES:
        desc.fail(f"expected the number of a data type but got {code}")
    if any(d < 0 for d in shape):
        desc.fail(f"expected no negative size but got {shape}")
    return DTYPES[PROTOBUF_DTYPES[code]].np, tuple(shape)


def write_parameters(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write the arrays as one combined file, in the order of their names; the folder is made when missing, the file is replaced in one
    step.
    """
    from polyreme.serialization import destination

    with destination(Path(path)) as stream:
        stream.write(parameter_bytes(arrays))


def parameter_bytes(arrays: Mapping[str, Any]) -> bytes:
    """The contents of a combined file with these arrays."""
    return b"".join(_tensor_bytes(name, arrays[name], ()) for name in sorted(arrays))


def write_one(path: str | os.PathLike[str], name: str, array: Any, levels: Sequence[Sequence[int]] = ()) -> None:
    """Write one tensor, with its levels of detail as offsets, as a file of its own."""
    from polyreme.serialization import destination

    with destination(Path(path)) as stream:
        stream.write(_tensor_bytes(name, array, levels))


def _tensor_bytes(name: str, given: Any, levels: Sequence[Sequence[int]]) -> bytes:
    array = np.asarray(given, order="C")
    code = _CODES.get(of_numpy(array.dtype).name)
    if code is None or array.ndim > MAX_RANK:
        raise LoaderError(
            f"expected at most {MAX_RANK} axes of a dtype that the format has for '{name}' but got {array.dtype}{list(array.shape)}"
        )
    offsets = b"".join((8 * len(level)).to_bytes(8, "little") + np.asarray(level, "<u8").tobytes() for level in levels)
    desc = bytes([0x08, code]) + b"".join(b"\x10" + _varint(d) for d in array.shape)
    header = (0).to_bytes(4, "little") + len(levels).to_bytes(8, "little") + offsets + (0).to_bytes(4, "little")
    return header + len(desc).to_bytes(4, "little") + desc + array.tobytes()


def _varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
