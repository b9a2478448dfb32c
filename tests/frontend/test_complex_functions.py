"""Functions of complex numbers are compositions of real ones: they compile like these, and agree with numpy's."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "angle", "sgn",
)  # fmt: skip
NUMPY = {"acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "sgn": np.sign}


def numbers(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.standard_normal(37) * 2 + 2j * rng.standard_normal(37)).astype(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [("complex64", 3e-6), ("complex128", 1e-14)])
def test_functions_of_complex_numbers_are_numpys_compiled_and_not(dtype: str, tolerance: float) -> None:
    def every(x):
        return [getattr(paddle, name)(x) for name in FUNCTIONS] + [paddle.pow(x, x), paddle.mean(x), paddle.sigmoid(x)]

    z = numbers(dtype)
    exact = z.astype("complex128")
    expected = [NUMPY.get(name, getattr(np, name, None))(exact) for name in FUNCTIONS] + [exact**exact, exact.mean(), 1 / (1 + np.exp(-exact))]
    x = paddle.to_tensor(z)
    for way in (every, paddle.jit.to_static(every)):
        for name, got, wanted in zip([*FUNCTIONS, "pow", "mean", "sigmoid"], way(x), expected, strict=True):
            assert got.numpy().dtype == (z.real.dtype if name == "angle" else z.dtype), name
            # The powers are exponentials of numbers of some size, whose rounding counts as often.
            np.testing.assert_allclose(got.numpy(), wanted, rtol=10 * tolerance if name == "pow" else tolerance, atol=tolerance, err_msg=name)


def test_complex_functions_stay_finite_where_their_parts_would_overflow() -> None:
    large = paddle.to_tensor(np.array([300 + 1j, -300 + 1j, 1e200 + 1e200j, 1e-200 - 1e-200j]))
    np.testing.assert_allclose(paddle.tanh(large[:2]).numpy(), [1, -1], atol=1e-15)
    np.testing.assert_allclose(paddle.sqrt(large).numpy(), np.sqrt(large.numpy()), rtol=1e-14)
    np.testing.assert_allclose(paddle.log(large).numpy(), np.log(large.numpy()), rtol=1e-14)


def test_gradients_of_complex_functions_compile() -> None:
    def step(x):
        x.stop_gradient = False
        (gradient,) = paddle.grad(paddle.real(paddle.log(paddle.sin(x)) * paddle.exp(x)).sum(), x)
        return gradient

    x = paddle.to_tensor(numbers("complex128") * 0.3)
    exact = x.numpy()
    slope = np.exp(exact) * (np.cos(exact) / np.sin(exact) + np.log(np.sin(exact)))
    np.testing.assert_allclose(step(x).numpy(), slope.conj(), rtol=1e-12)
    np.testing.assert_allclose(paddle.jit.to_static(step)(x).numpy(), slope.conj(), rtol=1e-12)


def test_a_complex_number_does_not_fill_real_tensors() -> None:
    assert paddle.full([2], 1 - 2j).tolist() == [1 - 2j, 1 - 2j]
    with pytest.raises(TypeError, match="full expected a complex dtype for \\(1\\+2j\\) but got float32; give its real part for a real one"):
        paddle.full([2], 1 + 2j, "float32")
