"""`paddle.fft`: discrete Fourier transforms, forward and back, of real and complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polyreme.dtypes import as_dtype, get_default_dtype
from polyreme.fft import transform
from polyreme.ir.dims import Dim
from polyreme.ir.types import PARTS, WHOLE, ScalarType, TensorType
from polyreme.math import arange, cast, concat, roll, scale
from polyreme.math.common import tensor_arg
from polyreme.math.creation import zeros
from polyreme.math.manipulation import span
from polyreme.math.programs import recorded
from polyreme.names import absent_from, listed
from polyreme.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2",
    "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

# How a transform back by the conjugates of the forward one has its scale.
_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


# --- along one axis


def fft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Tensor:
    """The transform along `axis`, cut or filled up with zeros to `n` numbers; complex."""
    _check_norm(norm)
    return _complex_to_complex(x, *_one(x, n, axis), norm, True)


def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Tensor:
    """What `fft` transforms to `x`."""
    _check_norm(norm)
    return _complex_to_complex(x, *_one(x, n, axis), norm, False)


def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Tensor:
    """The first n // 2 + 1 numbers of the transform of real ones."""
    _check_norm(norm)
    return _real_to_complex(x, *_one(x, n, axis), norm, True)


def irfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Tensor:
    """The `n` real numbers (2 (m - 1) by default) that `rfft` transforms to the m numbers of `x`."""
    _check_norm(norm)
    return _complex_to_real(x, *_one(x, n, axis), norm, False)


def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Tensor:
    """The transform, which is real, of numbers whose second half are the conjugates of the first, which `x` has."""
    _check_norm(norm)
    return _complex_to_real(x, *_one(x, n, axis), norm, True)


def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None) -> Tensor:
    """The first half of what `hfft` transforms to `x`."""
    _check_norm(norm)
    return _real_to_complex(x, *_one(x, n, axis), norm, False)


# --- along several axes


def fftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward", name: str | None = None
) -> Tensor:
    """`fft` along each of `axes`: all, or the last len(s)."""
    _check_norm(norm)
    return _complex_to_complex(x, *_several(x, s, axes), norm, True)


def ifftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward", name: str | None = None
) -> Tensor:
    """What `fftn` transforms to `x`."""
    _check_norm(norm)
    return _complex_to_complex(x, *_several(x, s, axes), norm, False)


def rfftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward", name: str | None = None
) -> Tensor:
    """`rfft` along the last of `axes`, `fft` along the others."""
    _check_norm(norm)
    return _real_to_complex(x, *_several(x, s, axes), norm, True)


def irfftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward", name: str | None = None
) -> Tensor:
    """What `rfftn` transforms to `x`."""
    _check_norm(norm)
    return _complex_to_real(x, *_several(x, s, axes), norm, False)


def hfftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward", name: str | None = None
) -> Tensor:
    """`hfft` along the last of `axes`, `fft` along the others."""
    _check_norm(norm)
    return _complex_to_real(x, *_several(x, s, axes), norm, True)


def ihfftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward", name: str | None = None
) -> Tensor:
    """What `hfftn` transforms to `x`."""
    _check_norm(norm)
    return _real_to_complex(x, *_several(x, s, axes), norm, False)


# --- along two axes


def fft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward", name: str | None = None
) -> Tensor:
    """`fftn` of images."""
    return fftn(x, *_two(s, axes), norm, name)


def ifft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward", name: str | None = None
) -> Tensor:
    """`ifftn` of images."""
    return ifftn(x, *_two(s, axes), norm, name)


def rfft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward", name: str | None = None
) -> Tensor:
    """`rfftn` of images."""
    return rfftn(x, *_two(s, axes), norm, name)


def irfft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward", name: str | None = None
) -> Tensor:
    """`irfftn` of images."""
    return irfftn(x, *_two(s, axes), norm, name)


def hfft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward", name: str | None = None
) -> Tensor:
    """`hfftn` of images."""
    return hfftn(x, *_two(s, axes), norm, name)


def ihfft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward", name: str | None = None
) -> Tensor:
    """`ihfftn` of images."""
    return ihfftn(x, *_two(s, axes), norm, name)


# --- frequencies and their order


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Tensor:
    """The frequencies of what `fft` gives for `n` numbers, `d` apart: 0, 1, …, -2, -1 by n d."""
    if d * n == 0:
        raise ValueError("d or n should not be 0.")
    dtype = _of_frequencies(dtype)
    found = concat([arange(0, (n - 1) // 2 + 1, dtype=dtype), arange(-(n // 2), 0, dtype=dtype)], 0)
    return scale(found, 1.0 / (n * d))


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Tensor:
    """The frequencies of what `rfft` gives for `n` numbers, `d` apart."""
    if d * n == 0:
        raise ValueError("d or n should not be 0.")
    return scale(arange(0, n // 2 + 1, dtype=_of_frequencies(dtype)), 1.0 / (n * d))


def _of_frequencies(dtype: Any) -> Any:
    """The dtype that is asked for, or the default one; of whole numbers, which frequencies are not, float32 as in Paddle."""
    dtype = dtype or get_default_dtype()
    return "float32" if as_dtype(dtype).scalar.kind in "iu" else dtype


def fftshift(x: Tensor, axes: Any = None, name: str | None = None) -> Tensor:
    """With the frequency 0 in the middle of each of `axes`."""
    return _rolled(tensor_arg(x, "fftshift"), axes, 0)


def ifftshift(x: Tensor, axes: Any = None, name: str | None = None) -> Tensor:
    """What `fftshift` gave `x` for."""
    return _rolled(tensor_arg(x, "ifftshift"), axes, 1)


def _rolled(x: Tensor, axes: Any, more: int) -> Tensor:
    places = list(range(x.ndim)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    return roll(x, [(x.type.shape[i] + more) // 2 for i in places], places)


# --- what the arguments say


def _check_norm(norm: Any) -> None:
    if norm not in _OTHER:
        raise ValueError(f"Unexpected norm: {norm}. Norm should be forward, backward or ortho")


def _one(x: Tensor, n: Any, axis: Any) -> tuple[list[int], list[int] | None]:
    """The axis, and the numbers along it where they are given."""
    tensor_arg(x, "fft")
    axis = -1 if axis is None else axis
    if not isinstance(axis, int):
        raise ValueError(f"Invalid FFT axis ({axis}), it should be an integer.")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"Invalid FFT axis ({axis}), it should be in range [-{x.ndim}, {x.ndim})")
    if n is None:
        return [axis % x.ndim], None
    if not isinstance(n, int):
        raise ValueError(f"Invalid FFT argument n({n}), it should be an integer.")
    if n <= 0:
        raise ValueError(f"Invalid FFT argument n({n}), it should be positive.")
    return [axis % x.ndim], [n]


def _several(x: Tensor, s: Any, axes: Any) -> tuple[list[int], list[int] | None]:
    """The axes, and how many numbers are along each where that is given."""
    rank = tensor_arg(x, "fftn").ndim
    if s is not None:
        if not isinstance(s, Sequence):
            raise ValueError(f"Invalid FFT argument s({s}), it should be a sequence of integers.")
        if len(s) > rank:
            raise ValueError(f"Length of FFT argument s should not be larger than the rank of input. Received s: {s}, rank of x: {rank}")
        for size in s:
            if not isinstance(size, int) or size <= 0:
                raise ValueError(f"FFT sizes {s} contains invalid value ({size})")
    if axes is None:
        return list(range(rank if s is None else len(s)) if s is None else range(rank - len(s), rank)), None if s is None else list(s)
    if not isinstance(axes, Sequence):
        raise ValueError(f"Invalid FFT axes ({axes}), it should be a sequence of integers.")
    if len(axes) > rank:
        raise ValueError(
            f"Length of fft axes should not be larger than the rank of input. Received, len of axes: {len(axes)}, rank of x: {rank}"
        )
    for axis in axes:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise ValueError(f"FFT axes {axes} contains invalid value ({axis}), it should be in range [-{rank}, {rank})")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"Length of s ({len(s)}) and length of axes ({len(axes)}) does not match.")
    return [axis % rank for axis in axes], None if s is None else list(s)


def _two(s: Any, axes: Any) -> tuple[Any, Any]:
    if s is not None and (not isinstance(s, Sequence) or len(s) != 2):
        raise ValueError(f"Invalid FFT argument s ({s}), it should be a sequence of 2 integers.")
    if axes is not None and (not isinstance(axes, Sequence) or len(axes) != 2):
        raise ValueError(f"Invalid FFT argument axes ({axes}), it should be a sequence of 2 integers.")
    return s, axes


# --- transforms of what there is


def _real(x: Tensor) -> Tensor:
    if x.type.dtype.kind == "c":
        raise RuntimeError(f"expected real numbers for this transform but got {x.dtype.name}: `fft` and `fftn` take complex ones")
    return x if x.type.dtype.is_float else cast(x, get_default_dtype())


def _complex(x: Tensor) -> Tensor:
    if x.type.dtype.kind == "c":
        return x
    whole: ScalarType = WHOLE[_real(x).type.dtype]
    return cast(x, str(whole.np))


def _sized(x: Tensor, axes: Sequence[int], sizes: Sequence[int] | None) -> Tensor:
    """`x` with so many numbers along each axis: the first of them, or zeros behind."""
    for axis, size in zip(axes, sizes or (), strict=False):
        there = x.type.shape[axis]
        if there == size:
            continue
        if isinstance(there, int) and there < size:
            rest: list[Dim] = list(x.type.shape)
            rest[axis] = size - there
            x = concat([x, zeros(rest, x.dtype)], axis)
        else:
            x = span(x, axis, 0, size)
    return x


def _complex_to_complex(x: Tensor, axes: Sequence[int], sizes: Sequence[int] | None, norm: str, forward: bool) -> Tensor:
    x = _sized(_complex(x), axes, sizes)
    made = recorded("fft_c2c", {"X": x}, {"Out": x.type}, {"axes": list(axes), "normalization": norm, "forward": forward})
    return transform.of_complex(x, axes, norm, forward) if made is None else made[0]


def _real_to_complex(x: Tensor, axes: Sequence[int], sizes: Sequence[int] | None, norm: str, forward: bool) -> Tensor:
    x = _sized(_real(x), axes, sizes)
    shape = _with_size(x, axes[-1], x.type.shape[axes[-1]] // 2 + 1)
    attributes = {"axes": list(axes), "normalization": norm, "forward": forward, "onesided": True}
    made = recorded("fft_r2c", {"X": x}, {"Out": TensorType(shape, WHOLE[x.type.dtype])}, attributes)
    return transform.of_real(x, axes, norm, forward, True) if made is None else made[0]


def _with_size(x: Tensor, axis: int, size: Dim) -> tuple[Dim, ...]:
    return tuple(size if i == axis else n for i, n in enumerate(x.type.shape))


def _complex_to_real(x: Tensor, axes: Sequence[int], sizes: Sequence[int] | None, norm: str, forward: bool) -> Tensor:
    size: Dim = 2 * (x.type.shape[axes[-1]] - 1)
    x = _complex(x)
    if sizes is None and isinstance(size, int) and size < 1:
        raise ValueError(f"expected at least two numbers along the last axis transformed, or the size of the result, but got {x.type}")
    if sizes is not None:
        *before, last = sizes
        x, size = _sized(x, axes, [*before, last // 2 + 1]), last
    attributes = {"axes": list(axes), "normalization": norm, "forward": forward, "last_dim_size": 0 if sizes is None else size}
    made = recorded("fft_c2r", {"X": x}, {"Out": TensorType(_with_size(x, axes[-1], size), PARTS[x.type.dtype])}, attributes)
    return transform.of_halves(x, axes, norm, forward, size) if made is None else made[0]


if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
