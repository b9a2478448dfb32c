"""`paddle.save` and `paddle.load`: Paddle's own files (`.pdparams`, `.pdopt` and other objects), written and read.

A state dict is a pickle of `{structured name: array}` with a table of parameter names; a Tensor inside any other object is a pair of
its name and its array. Reading runs nothing (see `loaders.safe_pickle`); writing replaces a file in one step, so that a crash leaves
the old file.

Behind the pickle, where Paddle does not look, a file of ours has a *seal*: a digest of all that comes before, by which damage is seen that
leaves a pickle well formed, such as a flipped bit of a weight. Paddle's own files have none, so theirs may hide such damage.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import os
import pickle
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from polyreme.ir.diagnostics import PolyremeError
from polyreme.loaders.safe_pickle import NamedArray, read_pickle
from polyreme.runtime.files import is_device
from polyreme.tensor import Tensor

__all__ = ["load", "save"]

NAME_TABLE = "StructuredToParameterName@@"
UNPACK_INFO = "UnpackBigParamInfor@@"
# A seal is this and the digest.
SEAL = b"polyreme seal 1 "
DIGEST_BYTES = 16


class SaveError(PolyremeError, ValueError):
    """A path or an object that cannot be saved or loaded."""

    code = "E0705"


def save(obj: Any, path: str | os.PathLike[str] | BinaryIO, protocol: int = 4, **configs: Any) -> None:
    """Write `obj` (a state dict, a Tensor, or nested containers of them) as Paddle does.

    Args:
        path: a file name, whose folder is made when missing, or a binary stream (`io.BytesIO`).
        protocol: of the pickle, 2 to 4.
        use_binary_format: not taken here; it is for static variables.
        name_table: False leaves out the table of parameter names, which is no part of a static program's state.
    """
    if not isinstance(protocol, int) or not 1 < protocol < 5:
        raise SaveError(f"Expected 1<'protocol'<5, but received protocol={protocol}")
    if isinstance(obj, dict) and not obj and configs.get("name_table", True):
        warnings.warn("The input state dict is empty, no need to save.", stacklevel=2)
    stream = io.BytesIO()
    if _is_state_dict(obj):
        content = _split_large({key: _array_of(value) for key, value in obj.items()}, protocol)
        if configs.get("name_table", True):
            content[NAME_TABLE] = {key: value.name for key, value in obj.items() if isinstance(value, Tensor)}
        pickle.dump(content, stream, protocol=protocol)
    else:
        _TensorPickler(stream, protocol=protocol).dump(obj)
    write_sealed(path, stream.getvalue())


def write_sealed(path: str | os.PathLike[str] | BinaryIO, data: bytes) -> None:
    """Write a pickle, with its seal where it is a file of its own: in a stream, other objects may follow."""
    with destination(path) as file:
        file.write(data)
        if isinstance(path, (str, os.PathLike)):
            file.write(SEAL + _digest(data))


def load(path: str | os.PathLike[str] | BinaryIO, **configs: Any) -> Any:
    """What `save` (or Paddle's) wrote; arrays become Tensors, or stay arrays with `return_numpy=True`.

    `keep_name_table=True` keeps the table from structured to parameter names. A missing file, a damaged one and one that holds
    anything but arrays and plain values are errors; nothing in the file runs.
    """
    return_numpy = bool(configs.get("return_numpy", False))
    if isinstance(path, (str, os.PathLike)):
        file = Path(path)
        if not file.is_file():
            raise SaveError(f"The ``path`` ({os.fspath(path)}) to load model not exists.")
        data = file.read_bytes()
    else:
        data = path.read()
    where = os.fspath(path) if isinstance(path, (str, os.PathLike)) else "the stream"
    try:
        content = read_pickle(data, _end(data) if isinstance(path, (str, os.PathLike)) else None)
    except PolyremeError as error:
        raise SaveError(f"cannot load {where}: {error.message}", code=error.diagnostics[0].code) from None
    if isinstance(content, dict) and UNPACK_INFO in content and NAME_TABLE not in content:
        content = _join_large(content, where)
    if not isinstance(content, dict) or NAME_TABLE not in content:
        return _with_tensors(content, return_numpy, plain_arrays=not _holds_named(content))
    content = _join_large(content, where)
    names = content.get(NAME_TABLE)
    names = names if isinstance(names, dict) else {}
    if not configs.get("keep_name_table", False):
        content.pop(NAME_TABLE, None)
    if not names:  # nor was there a Tensor
        return _with_tensors(content, return_numpy, plain_arrays=True)
    if not return_numpy:
        content.update({key: _tensor(content[key], name) for key, name in names.items() if isinstance(content.get(key), np.ndarray)})
    return content


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def _end(data: bytes) -> int:
    """Where the pickle of a file ends: at its seal, which must not be broken, if it has one."""
    if not data.endswith(SEAL, 0, max(len(data) - DIGEST_BYTES, 0)):
        return len(data)
    end = len(data) - DIGEST_BYTES - len(SEAL)
    if _digest(memoryview(data)[:end]) != data[-DIGEST_BYTES:]:
        raise SaveError("it is damaged, since its digest is not the one that was written with it: copy or make it once more", code="E0701")
    return end


def _is_state_dict(obj: Any) -> bool:
    """A dict whose Tensors all stand at its top (a Layer's or an optimizer's state)."""
    return isinstance(obj, dict) and not any(_holds_tensor(v) for v in obj.values() if not isinstance(v, Tensor))


def _holds_tensor(obj: Any) -> bool:
    if isinstance(obj, Tensor):
        return True
    if isinstance(obj, dict):
        return any(_holds_tensor(v) for v in obj.values())
    return isinstance(obj, (list, tuple)) and any(_holds_tensor(v) for v in obj)


def _array_of(value: Any) -> Any:
    """A Tensor's array as it stands in files; `numpy()` gives bfloat16 as its 16 bits."""
    if isinstance(value, Tensor) and value.is_selected_rows():
        raise SaveError("expected whole Tensors but got the rows of a table that was read with sparse=True; save its rows() and numpy()")
    return value.numpy() if isinstance(value, Tensor) else value


class _TensorPickler(pickle.Pickler):
    """Writes a Tensor as the pair of its name and its array."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return tuple, ((obj.name, _array_of(obj)),)
        if isinstance(obj, type) or callable(obj):
            # Genuine pickles name a few of numpy's own functions; the user's would be refused by every safe reader.
            module = getattr(obj, "__module__", None) or ""
            if module.split(".")[0] not in ("numpy", "builtins", "collections", "_codecs", "copyreg"):
                raise SaveError(f"expected Tensors, arrays, numbers, text and containers of them to save but got {obj!r}")
        elif type(obj).__module__.split(".")[0] not in ("numpy", "builtins", "collections") and type(obj) not in copyreg.dispatch_table:
            raise SaveError(f"expected Tensors, arrays, numbers, text and containers of them to save but got a {type(obj).__name__}")
        return NotImplemented


def _split_large(content: dict[Any, Any], protocol: int) -> dict[Any, Any]:
    """Protocols 2 and 3 cannot hold 4 GiB in one piece: larger arrays are cut as Paddle cuts them."""
    if protocol >= 4:
        return content
    result: dict[Any, Any] = {}
    info: dict[Any, Any] = {}
    for key, value in content.items():
        limit = (2**30 - 1) // value.itemsize if isinstance(value, np.ndarray) and value.itemsize else 0
        if not limit or value.size <= limit:
            result[key] = value
            continue
        flat = value.reshape(-1)
        parts = [f"{key}@@.{i}" for i in range(-(-flat.size // limit))]
        info[key] = {"OriginShape": value.shape, "slices": parts}
        result.update({part: flat[i * limit : (i + 1) * limit] for i, part in enumerate(parts)})
    return {**result, UNPACK_INFO: info} if info else result


def _join_large(content: dict[Any, Any], where: str) -> dict[Any, Any]:
    info = content.pop(UNPACK_INFO, None)
    if info is None:
        return content
    try:
        for key, entry in info.items():
            parts = [content.pop(part) for part in entry["slices"]]
            content[key] = np.concatenate([np.ravel(p) for p in parts]).reshape(entry["OriginShape"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SaveError(f"expected the parts of an array cut by protocol 2 or 3 but one in {where} is missing or wrong: {error}") from None
    return content


def _holds_named(value: Any) -> bool:
    """Whether Tensors were saved in it, as they are since Paddle 2.1: arrays beside them are arrays then. Before, Tensors were saved as
    mere arrays.
    """
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, NamedArray) or isinstance(value, (list, tuple, set)) and any(map(_holds_named, value))


def _with_tensors(value: Any, return_numpy: bool, *, plain_arrays: bool, depth: int = 0) -> Any:
    """The value with Tensors (or arrays) for named arrays, and for others with `plain_arrays`."""
    if depth > 100:
        raise SaveError("expected at most 100 levels of nesting in a saved object")
    if isinstance(value, NamedArray):
        return value.array if return_numpy else _tensor(value.array, value.name)
    if isinstance(value, np.ndarray):
        return _tensor(value, None) if plain_arrays and not return_numpy else value
    if isinstance(value, dict):
        return type(value)({k: _with_tensors(v, return_numpy, plain_arrays=plain_arrays, depth=depth + 1) for k, v in value.items()})
    if isinstance(value, (list, tuple, set)):
        return type(value)(_with_tensors(v, return_numpy, plain_arrays=plain_arrays, depth=depth + 1) for v in value)
    return value


def _tensor(array: np.ndarray[Any, Any], name: Any) -> Any:
    if array.dtype == np.uint16:
        import ml_dtypes

        array = array.view(ml_dtypes.bfloat16)
    if array.dtype.kind not in "biufcV":
        return array
    tensor = Tensor._wrap(array.copy())  # an eager one in static mode too
    if isinstance(name, str):
        tensor.name = name
    return tensor


@contextmanager
def destination(path: Any) -> Iterator[Any]:
    """The stream itself, or a file that takes its place under `path` once it is whole."""
    if not isinstance(path, (str, os.PathLike)):
        yield path
        return
    text = os.fspath(path)
    folder, name = os.path.split(text)
    if not name:
        raise SaveError(
            "The input path MUST be format of dirname/filename [dirname\\filename in Windows system], but received filename is empty "
            "string."
        )
    if is_device(Path(text)):
        with open(text, "wb") as device:
            yield device
        return
    if folder:
        os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=name + ".", dir=folder or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a saved model gets the permissions of any other new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, text)
    except BaseException:
        os.unlink(temporary)
        raise
