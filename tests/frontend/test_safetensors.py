"""Files of the safetensors format: what is written, and that nothing wrong is read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyreme as paddle
from polyreme import safetensors


def file_of(header: Any, numbers: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + numbers


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_a_state_dict_comes_back(tmp_path: Path) -> None:
    net, other = paddle.nn.Linear(3, 4), paddle.nn.Linear(3, 4)
    safetensors.save_file(net.state_dict(), tmp_path / "net.safetensors", {"format": "pd"})
    other.set_state_dict(safetensors.load_file(tmp_path / "net.safetensors"))
    np.testing.assert_array_equal(other.weight.numpy(), net.weight.numpy())
    np.testing.assert_array_equal(other.bias.numpy(), net.bias.numpy())


def test_every_dtype_and_shape_comes_back() -> None:
    dtypes = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
    tensors = {f"{d} {shape}": paddle.ones(shape, "float32").astype(d) for d in dtypes for shape in ([], [0, 3], [2, 3])}
    found = safetensors.load(safetensors.save(tensors))
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        np.testing.assert_array_equal(found[name].numpy(), tensor.numpy())


def test_a_file_is_what_the_format_says() -> None:
    data = safetensors.save({"b": paddle.to_tensor([True, False]), "a": paddle.to_tensor([1.5, 2.0])}, {"by": "us"})
    (length,) = struct.unpack_from("<Q", data)
    assert length % 8 == 0 and data[8:9] == b"{"
    assert json.loads(data[8 : 8 + length]) == {"__metadata__": {"by": "us"}, "a": entry(), "b": entry("BOOL", (2,), (8, 10))}
    assert data[8 + length :] == np.array([1.5, 2.0], "<f4").tobytes() + b"\1\0"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1234567", "has only 7 bytes"),
        (file_of({}, length=1 << 60), "tells of a header of 1152921504606846976 bytes"),
        (file_of(b"{", b""), "header that cannot be read"),
        (file_of(b"\xff\xff"), "header that cannot be read"),
        (file_of(b"[" * 100000), "header that cannot be read"),
        (file_of(b'{"a": 1, "a": 1}'), "a name stands twice"),
        (file_of([1]), "no object"),
        (file_of({"__metadata__": {"a": 1}}), "something else than texts"),
        (file_of({"a": 3}), "it needs dtype, shape and data_offsets"),
        (file_of({"a": entry("F128")}, bytes(8)), "the dtype 'F128' is none of"),
        (file_of({"a": entry(shape=[True, 2])}, bytes(8)), "whole numbers from 0 on"),
        (file_of({"a": entry(shape=[-2], offsets=(8, 0))}, bytes(8)), "whole numbers from 0 on"),
        (file_of({"a": entry(offsets=(0, 4))}, bytes(8)), "does not take the bytes 0 to 4"),
        (file_of({"a": entry(shape=[1 << 62], offsets=(0, 8))}, bytes(8)), "sizes that an array can have"),
        (file_of({"a": entry(offsets=(8, 16))}, bytes(16)), "begin at 8 where 0 is expected"),
        (file_of({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)), "begin at 4 where 8 is expected"),
        (file_of({"a": entry()}, bytes(7)), "tells of 8 bytes of numbers but has 7"),
        (file_of({"a": entry()}, bytes(9)), "tells of 8 bytes of numbers but has 9"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(safetensors.SafetensorsError, match="expected a file of the safetensors format but the data .*" + message):
        safetensors.load(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_changes_a_value(at: int, byte: int) -> None:
    data = bytearray(safetensors.save({"weight": paddle.arange(12, dtype="float32").reshape([3, 4]), "bias": paddle.zeros([4], "int64")}))
    data[at % len(data)] = byte
    try:
        found = safetensors.load(bytes(data))
    except safetensors.SafetensorsError:
        return
    assert sum(t.size * t.element_size() for t in found.values()) == 12 * 4 + 4 * 8


def test_what_the_format_cannot_hold_is_refused() -> None:
    for tensors, message in (
        ({"__metadata__": paddle.ones([1])}, "a text other than"), ({3: paddle.ones([1])}, "a text other than"),
        ({"a": np.ones(1)}, "expected a Tensor for 'a' but got ndarray"), ({"a": paddle.ones([1], "complex128")}, "complex128: cast it"),
    ):  # fmt: skip
        with pytest.raises(safetensors.SafetensorsError, match=message):
            safetensors.save(tensors)  # type: ignore[arg-type]
    with pytest.raises(safetensors.SafetensorsError, match="expected metadata of texts"):
        safetensors.save({}, {"a": 1})  # type: ignore[dict-item]
