"""Tensors of main memory handed to other libraries and taken from them: where they lie, for as long as anybody reads them. Nobody else's
numbers change.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyreme as paddle
from polyreme.runtime import dlpack
from polyreme.tensor import Tensor

from_dlpack, to_dlpack = paddle.utils.dlpack.from_dlpack, paddle.utils.dlpack.to_dlpack
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def address_of(x: Tensor) -> int:
    return int(x._value.ctypes.data)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_and_tensors_share_memory_in_both_directions(dtype: str) -> None:
    x = paddle.to_tensor(np.arange(6).reshape(2, 3).astype(dtype))
    seen = np.from_dlpack(x)
    assert seen.ctypes.data == address_of(x) and seen.dtype == dtype
    np.testing.assert_array_equal(seen, x.numpy())
    array = np.arange(6).reshape(2, 3).astype(dtype)
    y = from_dlpack(array)
    assert address_of(y) == array.ctypes.data and y.dtype == x.dtype and y.place == paddle.CPUPlace() and y.stop_gradient
    np.testing.assert_array_equal(y.numpy(), array)


def test_bfloat16_goes_through_a_capsule() -> None:
    x = paddle.to_tensor([1.5, -2.0]).astype("bfloat16")
    y = from_dlpack(to_dlpack(x))
    assert y.dtype == paddle.bfloat16 and y.astype("float32").tolist() == [1.5, -2.0] and y._value.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 1, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = paddle.to_tensor(np.full(shape, 2.0, "float32"))
    assert np.from_dlpack(x).shape == shape and from_dlpack(x).shape == list(shape)
    assert from_dlpack(to_dlpack(x)).tolist() == x.tolist()


def test_views_of_others_have_their_strides() -> None:
    array = np.arange(12, dtype="float32").reshape(3, 4)
    for view in (array.T, array[::2], array[:, ::-1], array[1:, 1:3], np.broadcast_to(array[0], (2, 4)).copy()):
        y = from_dlpack(view)
        np.testing.assert_array_equal(y.numpy(), view)
        np.testing.assert_array_equal((y * 2).numpy(), view * 2)
    np.testing.assert_array_equal(np.from_dlpack(paddle.to_tensor(array).transpose([1, 0])), array.T)


COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "clone": lambda x: x.clone(),
    "assign": paddle.assign,
    "to_tensor": paddle.to_tensor,
    "deepcopy": copy.deepcopy,
    "set_value": lambda x: _set(paddle.zeros(x.shape, x.dtype), x),
    "a copy of a view": lambda x: x.reshape([-1])[:].clone().reshape(x.shape),
    "an op": lambda x: x + 0,
}


def _set(target: Tensor, x: Tensor) -> Tensor:
    target.set_value(x)
    return target


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("given", [True, False])
def test_what_others_write_is_seen_in_the_tensor_and_in_no_copy_of_it(how: str, given: bool) -> None:
    if given:
        x = paddle.to_tensor(np.arange(3.0))
        earlier = COPIES[how](x)
        theirs = np.from_dlpack(x)
        theirs = np.ctypeslib.as_array(ctypes.cast(theirs.ctypes.data, ctypes.POINTER(ctypes.c_double)), (3,))
    else:
        theirs = np.arange(3.0)
        x = from_dlpack(theirs)
        earlier = COPIES[how](x)
    later = COPIES[how](x)
    theirs[0] = 9
    assert x.tolist() == [9, 1, 2] and (x * 1).tolist() == [9, 1, 2]
    assert earlier.tolist() == later.tolist() == [0, 1, 2]


def test_what_is_written_to_the_tensor_stays_ours() -> None:
    array = np.arange(3.0)
    x = from_dlpack(array)
    x[1] = 5.0
    assert x.tolist() == [0, 5, 2] and array.tolist() == [0, 1, 2]


class Watched(np.ndarray[Any, Any]):
    """An array whose end can be seen."""


def test_memory_lives_as_long_as_somebody_reads_it() -> None:
    array = np.arange(1000.0).view(Watched)
    gone = weakref.ref(array)
    x = from_dlpack(array)
    y = x.reshape([10, 100])
    del array, x
    gc.collect()
    assert gone() is not None and y[9, 99].item() == 999
    del y
    gc.collect()
    assert gone() is None
    count = len(dlpack._given)
    x = paddle.to_tensor(np.arange(1000.0))
    seen = np.from_dlpack(x)
    del x
    gc.collect()
    assert seen[999] == 999 and len(dlpack._given) == count + 1
    del seen
    gc.collect()
    assert len(dlpack._given) == count
    capsule = to_dlpack(paddle.ones([3]))  # that nobody takes
    assert len(dlpack._given) == count + 1
    del capsule
    gc.collect()
    assert len(dlpack._given) == count


def test_capsules_are_taken_once() -> None:
    capsule = to_dlpack(paddle.ones([3]))
    from_dlpack(capsule)
    with pytest.raises(BufferError, match="a capsule of DLPack that nobody has taken"):
        from_dlpack(capsule)
    for other in (5, None, "x"):
        with pytest.raises(BufferError, match="a capsule of DLPack"):
            from_dlpack(other)


def test_versions() -> None:
    x = paddle.ones([3])
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0))) and '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    capsule = x.__dlpack__(max_version=(1, 0))
    dlpack._Versioned.from_address(dlpack._pointer(capsule, dlpack.NEW)).major = 2
    with pytest.raises(BufferError, match="expected DLPack of version 1 but got 2.0"):
        from_dlpack(capsule)

    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            return np.arange(3).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    assert from_dlpack(Old()).tolist() == [0, 1, 2]


def test_read_only_arrays_are_taken() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    assert from_dlpack(array).tolist() == [0, 1, 2]


@pytest.mark.parametrize("copying", [None, True, False])
def test_copies_are_made_when_asked_for(copying: bool | None) -> None:
    x = paddle.ones([3])
    seen = np.from_dlpack(x, copy=copying)
    assert (seen.ctypes.data == address_of(x)) == (not copying)
    array = np.arange(3.0)
    assert (address_of(from_dlpack(array, copy=copying)) == array.ctypes.data) == (not copying)


def test_what_cannot_be_handed_over() -> None:
    x = paddle.ones([3])
    x.stop_gradient = False
    with pytest.raises(BufferError, match="Can't get __dlpack__ from Tensor that requires gradients"):
        x.__dlpack__()
    assert np.from_dlpack(x.detach()).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="The type of 'x' in to_dlpack must be paddle.Tensor, but received <class 'int'>"):
        to_dlpack(5)
    with pytest.raises(AssertionError, match="CPU tensor stream must be None"):
        paddle.ones([1]).__dlpack__(stream=1)
    with pytest.raises(TypeError, match="stream must be an integer or None"):
        paddle.ones([1]).__dlpack__(stream="x")
    with pytest.raises(BufferError, match=r"expected the device of the tensor, \(1, 0\), or main memory, \(1, 0\), but got \(2, 0\)"):
        paddle.ones([1]).__dlpack__(dl_device=(2, 0))
    assert not hasattr(paddle.ones([1]), "__cuda_array_interface__")
    assert paddle.ones([1]).__dlpack_device__() == (1, 0)


@pytest.mark.parametrize(("kind", "bits", "lanes"), [(2, 32, 4), (3, 64, 1), (2, 8, 1), (8, 8, 1)])
def test_elements_that_no_tensor_has(kind: int, bits: int, lanes: int) -> None:
    capsule = paddle.ones([3]).__dlpack__()
    held = dlpack._Managed.from_address(dlpack._pointer(capsule, dlpack.OLD))
    held.tensor.dtype = dlpack._Dtype(kind, bits, lanes)
    with pytest.raises(BufferError, match=f"DLPack's kind {kind} with {bits} bits in {lanes} lanes"):
        from_dlpack(capsule)


def test_other_devices_are_refused() -> None:
    capsule = paddle.ones([3]).__dlpack__()
    dlpack._Managed.from_address(dlpack._pointer(capsule, dlpack.OLD)).tensor.device.kind = 7
    with pytest.raises(BufferError, match=r"expected memory of a CPU or of GPU 0 but got DLPack's device \(7, 0\)"):
        from_dlpack(capsule)


def test_gradients_flow_to_what_was_taken() -> None:
    x = from_dlpack(np.arange(3.0))
    x.stop_gradient = False
    (x * x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4]


@pytest.mark.peer
def test_torch_and_tensors_share_memory() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"):
        theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
        y = from_dlpack(theirs)
        assert address_of(y) == theirs.data_ptr() and torch.equal(torch.from_dlpack(y), theirs)
        x = paddle.arange(6).reshape([2, 3]).astype(dtype)
        assert torch.equal(torch.from_dlpack(x), theirs) and torch.equal(torch.utils.dlpack.from_dlpack(to_dlpack(x)), theirs)
    theirs = torch.zeros(3)
    y = from_dlpack(theirs)
    theirs += 1
    assert y.tolist() == [1, 1, 1]
    strided = torch.arange(12.0).reshape(3, 4).t()
    assert from_dlpack(strided).tolist() == strided.tolist()
