"""`paddle.signal`: signals in frames, and their transforms over short times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.fft import transform
from polyreme.ir.dims import Dim, ceildiv
from polyreme.ir.types import i64
from polyreme.math import abs as magnitude
from polyreme.math import add, complex, concat, divide, expand, imag, is_complex, min, multiply, ones, real, reshape, transpose, zeros
from polyreme.math.common import tensor_arg
from polyreme.math.manipulation import span
from polyreme.math.scattering import index_add
from polyreme.names import absent_from, listed
from polyreme.nn.functional import pad
from polyreme.provided import provides
from polyreme.tensor import Tensor

__all__ = ["frame", "istft", "overlap_add", "stft"]

# Frames that overlap more often are added at their places, not as whole blocks.
_MOST_BLOCKS = 32


def frame(x: Tensor, frame_length: int, hop_length: int, axis: int = -1, name: str | None = None) -> Tensor:
    """Frames of a signal, each `hop_length` behind the one before: [..., n] to [..., frame_length, frames], or with `axis` 0 [n, ...] to
    [frames, frame_length, ...].
    """
    tensor_arg(x, "frame")
    if axis not in (0, -1):
        raise ValueError(f"Unexpected axis: {axis}. It should be 0 or -1.")
    for argument, value in (("frame_length", frame_length), ("hop_length", hop_length)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Unexpected {argument}: {value}. It should be an positive integer.")
    size = x.type.shape[axis]
    if isinstance(size, int) and frame_length > size:
        raise ValueError(
            f"Attribute frame_length should be less equal than sequence length, but got ({frame_length}) > ({size})."
        )
    count = (size - frame_length) // hop_length + 1
    if axis == 0 and x.ndim > 1:
        rows = reshape(_places(frame_length, hop_length, count, False), [-1])
        return reshape(dispatch.call(ops.Gather, x, rows, axis=0), [count, frame_length, *x.type.shape[1:]])
    places = _places(frame_length, hop_length, count, axis == -1)
    return dispatch.call(ops.Gather, x, places, axis=x.ndim - 1)


def _places(frame_length: Dim, hop_length: int, count: Dim, along_last: bool) -> Tensor:
    """Where each element of each frame stands: [frame_length, frames], or the other way round."""
    shape = (frame_length, count) if along_last else (count, frame_length)
    within = dispatch.call(ops.Iota, shape=shape, axis=0 if along_last else 1, dtype=i64)
    number = dispatch.call(ops.Iota, shape=shape, axis=1 if along_last else 0, dtype=i64)
    return add(within, multiply(number, dispatch.full((), hop_length, i64)))


def overlap_add(x: Tensor, hop_length: int, axis: int = -1, name: str | None = None) -> Tensor:
    """The sum of frames at their places: [..., frame_length, frames] to [..., n], or with `axis` 0 [frames, frame_length, ...] to
    [n, ...].
    """
    if axis not in (0, -1):
        raise ValueError(f"Unexpected axis: {axis}. It should be 0 or -1.")
    if not isinstance(hop_length, int) or hop_length <= 0:
        raise ValueError(f"Unexpected hop_length: {hop_length}. It should be an positive integer.")
    if tensor_arg(x, "overlap_add").ndim < 2:
        raise ValueError(f"overlap_add expected frames of at least two axes but got the shape {list(x.shape)}")
    length = x.type.shape[1 if axis == 0 else -2]
    if isinstance(length, int) and hop_length > length:
        raise ValueError(f"overlap_add expected a hop_length of at most the frame length but got {hop_length} > {length}")
    if is_complex(x):
        return complex(overlap_add(real(x), hop_length, axis), overlap_add(imag(x), hop_length, axis))
    rank = x.ndim
    if axis == 0:
        x = transpose(x, [*range(2, rank), 0, 1])
    else:
        x = transpose(x, [*range(rank - 2), rank - 1, rank - 2])
    made = _added(x, hop_length)  # of [..., frames, frame_length]
    return transpose(made, [rank - 2, *range(rank - 2)]) if axis == 0 and rank > 2 else made


def _added(x: Tensor, hop: int) -> Tensor:
    *lead, count, length = x.type.shape
    size = (count - 1) * hop + length
    blocks = ceildiv(length, hop)
    if blocks > _MOST_BLOCKS:
        places = reshape(_places(length, hop, count, False), [-1])
        return index_add(zeros([*lead, size], x.dtype), places, len(lead), reshape(x, [*lead, count * length]))
    if blocks * hop > length:
        x = concat([x, zeros([*lead, count, blocks * hop - length], x.dtype)], -1)
    total: Tensor | None = None
    for i in range(blocks):
        part = span(x, len(lead) + 1, i * hop, (i + 1) * hop)
        rows = [zeros([*lead, n, hop], x.dtype) for n in (i, blocks - 1 - i)]
        placed = concat([rows[0], part, rows[1]], len(lead)) if blocks > 1 else part
        total = placed if total is None else add(total, placed)
    assert total is not None
    return span(reshape(total, [*lead, (count + blocks - 1) * hop]), len(lead), 0, size)


@provides
def stft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """The transform of each frame of signals [n] or [batch, n], times the window: complex [..., frequencies, frames].

    With `center` the signal is filled up so that frames have their middles at multiples of `hop_length`, n_fft // 4 by default.
    """
    rank = tensor_arg(x, "stft").ndim
    assert rank in (1, 2), f"x should be a 1D or 2D real tensor, but got rank of x is {rank}"
    hop = n_fft // 4 if hop_length is None else hop_length
    assert hop > 0, f"hop_length should be > 0, but got {hop}."
    size = x.type.shape[-1]
    if isinstance(size, int):
        assert 0 < n_fft <= size, f"n_fft should be in (0, seq_length({size})], but got {n_fft}."
    window = _window(window, win_length, n_fft, x)
    if rank == 1:
        x = reshape(x, [1, size])
    if center:
        assert pad_mode in ("constant", "reflect"), f'pad_mode should be "reflect" or "constant", but got "{pad_mode}".'
        x = _padded(x, n_fft // 2, pad_mode)
    frames = multiply(transpose(frame(x, n_fft, hop), [0, 2, 1]), window)
    norm = "ortho" if normalized else "backward"
    if is_complex(frames):
        assert not onesided, "onesided should be False when input or window is a complex Tensor."
        found = transform.of_complex(frames, [2], norm, True)
    else:
        found = transform.of_real(frames, [2], norm, True, onesided is None or onesided)
    found = transpose(found, [0, 2, 1])
    return reshape(found, found.type.shape[1:]) if rank == 1 else found


@provides
def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
    return_complex: bool = False,
    name: str | None = None,
) -> Tensor:
    """The signals [n] or [batch, n] whose `stft` is nearest to `x`: frames are transformed back, windowed, added, and divided by the sum of
    the squares of their windows.
    """
    rank = tensor_arg(x, "istft").ndim
    if not is_complex(x):
        x = complex(x, zeros([], x.dtype))
    assert rank in (2, 3), f"x should be a 2D or 3D complex tensor, but got rank of x is {rank}"
    hop = n_fft // 4 if hop_length is None else hop_length
    wide = n_fft if win_length is None else win_length
    assert 0 < hop <= wide, f"hop_length should be in (0, win_length({wide})], but got {hop}."
    size, count = x.type.shape[-2:]
    wanted = n_fft // 2 + 1 if onesided else n_fft
    assert size == wanted, (
        f"fft_size should be equal to {'n_fft // 2 + 1' if onesided else 'n_fft'}({wanted}) when onesided is {onesided}, but got {size}."
    )
    window = _window(window, win_length, n_fft, real(x))
    if rank == 2:
        x = reshape(x, [1, *x.type.shape])
    x, norm = transpose(x, [0, 2, 1]), "ortho" if normalized else "backward"
    if return_complex:
        assert not onesided, "onesided should be False when input(output of istft) or window is a complex Tensor."
        frames = transform.of_complex(x, [2], norm, False)
    else:
        assert not is_complex(window), "Data type of window should not be complex when return_complex is False."
        frames = transform.of_halves(span(x, 2, 0, n_fft // 2 + 1), [2], norm, False, n_fft)
    made = _summed(multiply(frames, window), hop)
    weight = _added(expand(reshape(multiply(window, window), [1, n_fft]), [count, n_fft]), hop)
    start = n_fft // 2 if center else 0
    whole = made.type.shape[1]
    stop = whole - start if length is None else start + length
    if isinstance(whole, int):
        stop = stop if stop < whole else whole
    made, weight = span(made, 1, start, stop), span(weight, 0, start, stop)
    if isinstance(weight._value, np.ndarray) and float(min(magnitude(weight))) < 1e-11:
        raise ValueError("Abort istft because Nonzero Overlap Add (NOLA) condition failed: some place has no window over it")
    found = divide(made, weight)
    return reshape(found, found.type.shape[1:]) if rank == 2 else found


def _summed(frames: Tensor, hop: int) -> Tensor:
    if is_complex(frames):
        return complex(_added(real(frames), hop), _added(imag(frames), hop))
    return _added(frames, hop)


def _window(window: Tensor | None, win_length: int | None, n_fft: int, like: Tensor) -> Tensor:
    """The window, ones by default, with zeros at both sides up to `n_fft`."""
    wide = n_fft if win_length is None else win_length
    assert 0 < wide <= n_fft, f"win_length should be in (0, n_fft({n_fft})], but got {wide}."
    if window is None:
        window = ones([wide], like.dtype)
    assert window.ndim == 1 and window.type.shape[0] == wide, (
        f"expected a 1D window tensor of size equal to win_length({wide}), but got window with shape {window.shape}."
    )
    left = (n_fft - wide) // 2
    edges = [zeros([n], window.dtype) for n in (left, n_fft - wide - left)]
    return window if wide == n_fft else concat([edges[0], window, edges[1]], 0)


def _padded(x: Tensor, by: int, mode: str) -> Tensor:
    if is_complex(x):
        return complex(_padded(real(x), by, mode), _padded(imag(x), by, mode))
    batch, size = x.type.shape
    wide: Any = pad(reshape(x, [batch, 1, size]), [by, by], mode=mode, data_format="NCL")
    return reshape(wide, [batch, wide.type.shape[2]])


if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
