"""What came of a case: a tree of plain values and arrays, the same from both modules, and how it is stored.

Stored: an .npz with two arrays of bytes, `tree` (JSON) and `data` (all arrays, one after the other), both compressed: a thousand small
arrays are one entry each in a zip file otherwise. Nothing is pickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.api.table import Absent, Case, Raised

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Leaf:
    """The numbers of a tensor or an array. `dtype` is the module's, `values` may be wider (bfloat16 is kept as float32); `stop_gradient`
    None for arrays.
    """

    dtype: str
    values: Array
    stop_gradient: bool | None


@dataclass(frozen=True)
class Failure:
    """The case raised: the names of the exception's classes, and its text; `kinds` is ("crash",) when the process ended."""

    kinds: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Nothing:
    """The module has no such form of the function."""


def run_case(case: Case, paddle: Any) -> Any:
    """The outcome of a case under a module; never raises."""
    paddle.seed(2026)
    try:
        with paddle.utils.unique_name.guard():
            return plain(paddle, case.body(paddle, case.rng()))
    except Exception as error:
        raised = Raised(error)
        return Failure(tuple(raised.kinds), raised.text[:400])


def plain(paddle: Any, value: Any) -> Any:
    """The tree of a value."""
    if isinstance(value, paddle.Tensor):
        return _leaf(paddle, value)
    if isinstance(value, np.ndarray):
        return Leaf(str(value.dtype), value, None)
    if isinstance(value, np.generic):
        return Leaf(str(value.dtype), np.asarray(value), None)
    if isinstance(value, dict):
        return {str(k): plain(paddle, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain(paddle, v) for v in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Raised):
        return Failure(tuple(value.kinds), value.text[:400])
    if isinstance(value, Absent):
        return Nothing()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, complex):
        return Leaf("complex", np.asarray(value), None)
    if isinstance(value, (paddle.dtype, type(paddle.float32))):
        return str(value)
    raise TypeError(f"expected tensors, arrays, dtypes, numbers, texts, None or trees of them in a result but got {type(value).__name__}")


def _leaf(paddle: Any, tensor: Any) -> Any:
    dtype = str(tensor.dtype).removeprefix("paddle.")
    if 0 in tensor.shape:  # Paddle counts these as not initialized, and refuses to give their numbers
        return Leaf(dtype, np.zeros(tuple(tensor.shape), "float32" if dtype == "bfloat16" else dtype), tensor.stop_gradient)
    values = (tensor.detach().astype("float32") if dtype == "bfloat16" else tensor).numpy()
    return Leaf(dtype, np.asarray(values), tensor.stop_gradient)


# --- stored


def save(path: Path, outcomes: dict[str, tuple[int, Any]]) -> None:
    """Write outcomes: by id, the fingerprint and the tree."""
    pieces: list[bytes] = []
    offset = 0

    def encode(value: Any) -> Any:
        nonlocal offset
        if isinstance(value, Leaf):
            piece = np.ascontiguousarray(value.values).tobytes()
            pieces.append(piece)
            offset += len(piece)
            return {"$": [value.dtype, value.values.dtype.str, list(value.values.shape), value.stop_gradient]}
        if isinstance(value, Failure):
            return {"$failure": [list(value.kinds), value.text]}
        if isinstance(value, Nothing):
            return {"$nothing": 0}
        if isinstance(value, tuple):
            return {"$tuple": [encode(v) for v in value]}
        if isinstance(value, list):
            return [encode(v) for v in value]
        if isinstance(value, dict):
            return {k: encode(v) for k, v in value.items()}
        return value

    tree = {i: [fingerprint, encode(value)] for i, (fingerprint, value) in outcomes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(json.dumps(tree, separators=(",", ":")).encode(), np.uint8)
    np.savez_compressed(path, tree=text, data=np.frombuffer(b"".join(pieces), np.uint8))


def read(path: Path) -> dict[str, tuple[int, Any]]:
    """What `save` wrote."""
    with np.load(path) as stored:
        tree, data = json.loads(stored["tree"].tobytes()), stored["data"].tobytes()
    offset = 0

    def decode(value: Any) -> Any:
        nonlocal offset
        if isinstance(value, list):
            return [decode(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "$" in value:
            dtype, kept, shape, stop_gradient = value["$"]
            count = int(np.prod(shape))
            values = np.frombuffer(data, kept, count, offset).reshape(shape)
            offset += values.nbytes
            return Leaf(dtype, values, stop_gradient)
        if "$failure" in value:
            return Failure(tuple(value["$failure"][0]), value["$failure"][1])
        if "$nothing" in value:
            return Nothing()
        if "$tuple" in value:
            return tuple(decode(v) for v in value["$tuple"])
        return {k: decode(v) for k, v in value.items()}

    return {i: (fingerprint, decode(value)) for i, (fingerprint, value) in tree.items()}
