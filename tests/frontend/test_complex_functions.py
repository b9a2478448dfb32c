"""Functions of complex numbers, and real ones that are compositions like these: they compile, and agree with numpy's."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh",
    "sqrt", "tan", "tanh", "angle", "sgn",
)  # fmt: skip
NUMPY = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "sgn": np.sign,
}


def numbers(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.standard_normal(37) * 2 + 2j * rng.standard_normal(37)).astype(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [("complex64", 3e-6), ("complex128", 1e-14)])
def test_functions_of_complex_numbers_are_numpys_compiled_and_not(dtype: str, tolerance: float) -> None:
    def every(x):
        return [getattr(paddle, name)(x) for name in FUNCTIONS] + [paddle.pow(x, x), paddle.mean(x), paddle.sigmoid(x)]

    z = numbers(dtype)
    exact = z.astype("complex128")
    expected = [NUMPY.get(name, getattr(np, name, None))(exact) for name in FUNCTIONS] + [
        exact**exact,
        exact.mean(),
        1 / (1 + np.exp(-exact)),
    ]
    x = paddle.to_tensor(z)
    for way in (every, paddle.jit.to_static(every)):
        for name, got, wanted in zip([*FUNCTIONS, "pow", "mean", "sigmoid"], way(x), expected, strict=True):
            assert got.numpy().dtype == (z.real.dtype if name == "angle" else z.dtype), name
            # The powers are exponentials of numbers of some size, whose rounding counts as often.
            np.testing.assert_allclose(
                got.numpy(), wanted, rtol=10 * tolerance if name == "pow" else tolerance, atol=tolerance, err_msg=name
            )


def test_complex_functions_stay_finite_where_their_parts_would_overflow() -> None:
    large = paddle.to_tensor(np.array([300 + 1j, -300 + 1j, 1e200 + 1e200j, 1e-200 - 1e-200j]))
    np.testing.assert_allclose(paddle.tanh(large[:2]).numpy(), [1, -1], atol=1e-15)
    np.testing.assert_allclose(paddle.sqrt(large).numpy(), np.sqrt(large.numpy()), rtol=1e-14)
    np.testing.assert_allclose(paddle.log(large).numpy(), np.log(large.numpy()), rtol=1e-14)


    lengths = np.array([1e200 + 1e200j, 1e-200j, -3e-200 + 4e-200j, complex(np.inf, np.inf), 0])
    np.testing.assert_allclose(paddle.abs(paddle.to_tensor(lengths)).numpy(), np.abs(lengths), rtol=1e-15)
    np.testing.assert_allclose(paddle.sgn(paddle.to_tensor(lengths[:3])).numpy(), [(1 + 1j) / np.sqrt(2), 1j, -0.6 + 0.8j], rtol=1e-15)


@pytest.mark.parametrize("way", [lambda f: f, paddle.jit.to_static])
def test_logarithms_are_exact_near_their_poles_and_far_from_them(way) -> None:
    small = np.array([1e-4, 1e-5j, -1e-6 + 1e-6j])
    for function, wanted, poles in (
        (paddle.log1p, np.log1p, (-1,)),
        (paddle.atanh, np.arctanh, (1, -1)),
        (paddle.atan, np.arctan, (1j, -1j)),
    ):
        for pole in (*poles, 1e6, 1e25 + 1e25j):
            z = (pole + small).astype("complex64")
            exact = wanted(z.astype("complex128"))
            np.testing.assert_allclose(
                way(function)(paddle.to_tensor(z)).numpy(), exact, rtol=1e-5, atol=1e-7, err_msg=f"{function.__name__} at {pole}"
            )


def test_gradients_on_branch_cuts_are_those_of_the_side_that_the_signs_of_zeros_say() -> None:
    root = lambda z: 1 / (2 * np.sqrt(z))
    inverse = {
        "asin": lambda z: 1 / (np.sqrt(1 - z) * np.sqrt(1 + z)),
        "asinh": lambda z: 1 / (np.sqrt(1 - 1j * z) * np.sqrt(1 + 1j * z)),
        "sqrt": root,
    }
    for name, slope in inverse.items():
        for real, imaginary in (
            (0.0, 3.0),
            (-0.0, -3.0),
            (-0.0, 3.0),
            (2.0, 0.0),
            (2.0, -0.0),
            (-2.0, 0.0),
            (-2.0, -0.0),
            (0.0, 0.5),
            (0.25, 0.0),
        ):
            z = np.array([complex(real, imaginary)])
            beside = np.array([complex(real or np.copysign(1e-30, real), imaginary or np.copysign(1e-30, imaginary))])
            x = paddle.to_tensor(z, stop_gradient=False)
            paddle.real(getattr(paddle, name)(x)).sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), slope(beside).conj(), rtol=1e-12, atol=1e-15, err_msg=f"{name} at {z}")


def test_angles_of_real_numbers_are_those_of_their_signs() -> None:
    x = paddle.to_tensor([0.0, -0.0, 1e-20, -1e-20, np.inf, -np.inf, np.nan], stop_gradient=False)
    y = paddle.angle(x)
    np.testing.assert_array_equal(y.numpy(), np.float32([0, 0, 0, np.pi, 0, np.pi, np.nan]))
    y[:6].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(7))


@pytest.mark.parametrize(
    ("power", "at_zero", "at_infinity"),
    [(-1, complex(np.inf, np.nan), 0), (0, 1, 1), (0.5, 0, complex(np.inf, np.nan)), (3, 0, complex(np.inf, np.nan))],
)
def test_powers_of_zero_and_infinity_compiled(power: float, at_zero: complex, at_infinity: complex) -> None:
    z = np.array([0, 1 + 1j, np.inf], "complex64")
    x, y = paddle.to_tensor(z), paddle.to_tensor(np.full(3, power, "complex64"))
    for made in (x**y, paddle.jit.to_static(lambda a, b: a**b)(x, y), paddle.pow(x, power)):
        got = made.numpy()
        np.testing.assert_allclose(
            [got.real, got.imag], [f([at_zero, (1 + 1j) ** power, at_infinity]) for f in (np.real, np.imag)], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize(("power", "slope"), [(3, 0), (1, 1), (0.5, np.inf), (-1, np.nan)])
def test_slopes_of_powers_at_zero(power: float, slope: float) -> None:
    x = paddle.to_tensor(np.array([0, 2], "complex128"), stop_gradient=False)
    (x ** paddle.to_tensor(np.full(2, power, "complex128"))).real().sum().backward()
    np.testing.assert_allclose(x.grad.numpy().real, [slope, power * 2.0 ** (power - 1)], rtol=1e-12)


@pytest.mark.parametrize("power", [0.5, -1.5, 2, 3])
def test_powers_of_complex_numbers_by_python_numbers(power: float) -> None:
    z = numbers("complex128")
    np.testing.assert_allclose(paddle.pow(paddle.to_tensor(z), power).numpy(), z**power, rtol=1e-13)
    np.testing.assert_allclose((paddle.to_tensor(z) ** power).numpy(), z**power, rtol=1e-13)


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
    with pytest.raises(
        TypeError, match="full expected a complex dtype for \\(1\\+2j\\) but got float32; give its real part for a real one"
    ):
        paddle.full([2], 1 + 2j, "float32")


@pytest.mark.parametrize("way", [lambda f: f, paddle.jit.to_static])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-14), ("float16", 2e-3)])
def test_inverse_hyperbolic_functions_reach_as_far_as_numbers_do(way, dtype: str, tolerance: float) -> None:
    most = float(np.finfo(dtype).max)
    x = np.array([0, 1e-3, 0.5, 3, 199, 201, 2e4, most / 4, most, np.inf]).astype(dtype)
    exact = x.astype("float64")
    t = paddle.to_tensor(np.concatenate([x, -x]), stop_gradient=False)
    y = way(paddle.asinh)(t)
    np.testing.assert_allclose(y.numpy(), np.concatenate([np.arcsinh(exact), -np.arcsinh(exact)]), rtol=tolerance)
    y.sum().backward()
    slope = np.exp(-np.log(np.hypot(exact[:-2], 1)))
    np.testing.assert_allclose(
        t.grad.numpy()[: len(x) - 2].astype("float64"), slope, rtol=4 * tolerance, atol=1e-7 if dtype == "float16" else 0
    )
    above = np.concatenate([x[3:], np.array([1, 1 + 10 * np.finfo(dtype).eps], dtype)])
    np.testing.assert_allclose(way(paddle.acosh)(paddle.to_tensor(above)).numpy(), np.arccosh(above.astype("float64")), rtol=tolerance)
    assert np.isnan(way(paddle.acosh)(paddle.to_tensor(np.array([0.5, -1.5, -300, -most], dtype))).numpy()).all()
