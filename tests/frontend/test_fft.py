"""`paddle.fft` and `paddle.signal` against numpy; what Paddle computes is in `tests/deploy_operator_cases.py`."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.fft.transform import DIRECT
from polyreme.static import InputSpec

RNG = np.random.default_rng(3)
# One product; factors; a prime that is one product; a convolution; factors of factors.
LENGTHS = [1, 2, 5, DIRECT, DIRECT + 1, 90, 127, 131, 262, 5000]


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_every_kind_of_length(n: int) -> None:
    x, y = numbers(2, n), numbers(2, n)
    for dtype, within in (("float32", 2e-6), ("float64", 1e-13)):
        re, z = x.astype(dtype), (x + 1j * y).astype("complex64" if dtype == "float32" else "complex128")
        half = z[:, : n // 2 + 1]
        for made, wanted in (
            (paddle.fft.fft(paddle.to_tensor(z)), np.fft.fft(z)),
            (paddle.fft.ifft(paddle.to_tensor(z), norm="ortho"), np.fft.ifft(z, norm="ortho")),
            (paddle.fft.rfft(paddle.to_tensor(re)), np.fft.rfft(re)),
            (paddle.fft.irfft(paddle.to_tensor(half), n), np.fft.irfft(half, n)),
        ):
            assert made.numpy().dtype.itemsize == (8 if dtype == "float64" else 4) * (2 if np.iscomplexobj(wanted) else 1)
            assert np.abs(made.numpy() - wanted).max() <= within * np.abs(wanted).max()


def test_a_compiled_transform_of_free_sizes() -> None:
    def spectrum(x):
        return paddle.abs(paddle.fft.rfft(x))

    function = paddle.jit.to_static(spectrum, input_spec=[InputSpec([None, None], "float32", "x")])
    for shape in ((3, 90), (1, 7), (2, 300), (1, 3000)):  # the last one is compiled for itself
        x = numbers(*shape).astype("float32")
        wanted = np.abs(np.fft.rfft(x))
        assert np.abs(function(paddle.to_tensor(x)).numpy() - wanted).max() <= 2e-6 * wanted.max()


def test_a_gradient_is_the_transform_back() -> None:
    x = paddle.to_tensor(numbers(2, 70), stop_gradient=False)
    weights = numbers(2, 36)
    (paddle.fft.rfft(x).real() * paddle.to_tensor(weights)).sum().backward()
    angle = 2 * np.pi * np.outer(np.arange(36), np.arange(70)) / 70
    np.testing.assert_allclose(x.grad.numpy(), weights @ np.cos(angle), atol=1e-12)


def test_frequencies_are_fractions_whatever_is_asked_for() -> None:
    # What Paddle 3.3.1 gives.
    made = paddle.fft.fftfreq(5, 0.5, dtype="int64"), paddle.fft.rfftfreq(5, dtype="int32")
    assert [one.dtype for one in made] == [paddle.float32] * 2
    np.testing.assert_allclose(made[0].numpy(), np.fft.fftfreq(5, 0.5), rtol=1e-6)
    np.testing.assert_allclose(made[1].numpy(), np.fft.rfftfreq(5), rtol=1e-6)


def test_what_cannot_be_transformed_is_said() -> None:
    with pytest.raises(RuntimeError, match="expected real numbers for this transform but got complex64"):
        paddle.fft.rfft(paddle.to_tensor(numbers(2, 3).astype("complex64")))
    with pytest.raises(ValueError, match="expected at least one number to transform along the axis 1"):
        paddle.fft.fft(paddle.zeros([2, 0]))
    with pytest.raises(ValueError, match="expected at least two numbers along the last axis transformed"):
        paddle.fft.irfft(paddle.zeros([2, 1], "complex64"))
    with pytest.raises(ValueError, match="it should be in range"):
        paddle.fft.fft(paddle.zeros([2, 4]), axis=2)


@pytest.mark.parametrize("hop", [1, 4, 7, 16])
def test_a_signal_comes_back_from_its_spectrogram(hop: int) -> None:
    signal = numbers(2, 100).astype("float32")
    window = paddle.to_tensor(np.hanning(18)[1:-1].astype("float32"))
    found = paddle.signal.stft(paddle.to_tensor(signal), 16, hop, window=window)
    assert found.shape == [2, 9, 100 // hop + 1]
    made = paddle.signal.istft(found, 16, hop, window=window).numpy()
    np.testing.assert_allclose(made, signal[:, : made.shape[1]], atol=2e-5)


def test_frames_are_added_at_their_places() -> None:
    frames = numbers(40, 3, 5)  # more frames over each place than are added as whole blocks
    for given, axis in ((frames.transpose(2, 0, 1), -1), (frames.transpose(1, 0, 2), 0)):
        made = paddle.signal.overlap_add(paddle.to_tensor(given), 1, axis).numpy()
        wanted = np.zeros((42, 5))
        for i in range(3):
            wanted[i : i + 40] += frames[:, i]
        np.testing.assert_allclose(made, wanted.T if axis == -1 else wanted, atol=1e-12)


def test_a_static_program_has_the_operators_of_paddle_and_their_gradients() -> None:
    def spectrum(x):
        return paddle.fft.irfft(paddle.conj(paddle.fft.rfft(x)), 7) + paddle.real(paddle.fft.fft2(x))[:, :7]

    array = numbers(2, 10).astype("float32")
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [2, 10], "float32")
            x.stop_gradient = False
            made = spectrum(x)
            gradients = paddle.static.gradients((made * made).sum(), x)
        assert {"fft_r2c", "conj", "fft_c2r", "fft_c2c", "real"} <= {op.type for op in main.global_block().ops}
        found = paddle.static.Executor().run(main, feed={"x": array}, fetch_list=[made, *gradients])
    finally:
        paddle.disable_static()
    x = paddle.to_tensor(array, stop_gradient=False)
    made = spectrum(x)
    (made * made).sum().backward()
    for ours, wanted in zip(found, (made, x.grad), strict=True):
        np.testing.assert_allclose(ours, wanted.numpy(), rtol=1e-5, atol=1e-4)
