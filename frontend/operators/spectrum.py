"""Complex numbers and their parts, Fourier transforms, and signals in frames."""

from __future__ import annotations

from polyreme import math, signal
from polyreme.fft import transform
from polyreme.operators.arguments import Sizes, UnsupportedError, axis_in
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

# --- complex numbers


@operator("real", legacy=spelled("real"))
def real(x: Tensor) -> Tensor:
    return math.real(x)


@operator("imag", legacy=spelled("imag"))
def imag(x: Tensor) -> Tensor:
    return math.imag(x)


@operator("conj", legacy=spelled("conj"))
def conj(x: Tensor) -> Tensor:
    return math.conj(x)


@operator("complex", legacy=spelled("complex", {"X": "real", "Y": "imag"}))
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    return math.complex(real, imag)


@operator("as_real", legacy=spelled("as_real"))
def as_real(x: Tensor) -> Tensor:
    return math.as_real(x)


@operator("as_complex", legacy=spelled("as_complex"))
def as_complex(x: Tensor) -> Tensor:
    return math.as_complex(x)


# --- transforms


def _axes(x: Tensor, axes: Sizes, of_complex: bool) -> list[int]:
    """The axes of a transform, counted from the front."""
    if (x.type.dtype.kind == "c") != of_complex or x.type.dtype.kind not in "cf":
        raise UnsupportedError(f"expected {'complex numbers' if of_complex else 'floats'} but got {x.type}")
    found = [axis_in(axis, x) for axis in axes]
    if not found or len(set(found)) < len(found):
        raise UnsupportedError(f"expected some axes of {x.type}, each of them once, but got {list(axes)}")
    return found


@operator("fft_c2c", legacy=spelled("fft_c2c", types={"axes": "LONGS"}))
def fft_c2c(x: Tensor, *, axes: Sizes, normalization: str, forward: bool) -> Tensor:
    return transform.of_complex(x, _axes(x, axes, True), normalization, forward)


@operator("fft_r2c", legacy=spelled("fft_r2c", types={"axes": "LONGS"}))
def fft_r2c(x: Tensor, *, axes: Sizes, normalization: str, forward: bool, onesided: bool) -> Tensor:
    return transform.of_real(x, _axes(x, axes, False), normalization, forward, onesided)


@operator("fft_c2r", legacy=spelled("fft_c2r", types={"axes": "LONGS", "last_dim_size": "LONG"}))
def fft_c2r(x: Tensor, *, axes: Sizes, normalization: str, forward: bool, last_dim_size: int = 0) -> Tensor:
    found = _axes(x, axes, True)
    size = last_dim_size or 2 * (x.type.shape[found[-1]] - 1)
    return transform.of_halves(x, found, normalization, forward, size)


# --- signals in frames


@operator("frame", legacy=spelled("frame"))
def frame(x: Tensor, *, frame_length: int, hop_length: int, axis: int = -1) -> Tensor:
    return signal.frame(x, frame_length, hop_length, axis)


@operator("overlap_add", legacy=spelled("overlap_add"))
def overlap_add(x: Tensor, *, hop_length: int, axis: int = -1) -> Tensor:
    return signal.overlap_add(x, hop_length, axis)
