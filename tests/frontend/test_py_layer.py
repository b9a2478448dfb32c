"""PyLayer: the user's own gradients, and misuse that is named."""

import numpy as np
import pytest

from polyreme.autograd import PyLayer
from polyreme.math.elementwise import tanh
from polyreme.tensor import Tensor


def leaf(values):
    return Tensor(np.asarray(values, "float32"), stop_gradient=False)


class Tanh(PyLayer):
    @staticmethod
    def forward(ctx, x, scale=1.0):
        y = tanh(x)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        return dy * (1 - y * y) * ctx.scale


def test_the_users_gradient_is_used():
    x = leaf([0.5, -1.0])
    Tanh.apply(x, scale=3.0).backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * (1 - np.tanh([0.5, -1.0]) ** 2), rtol=1e-6)


def test_nothing_is_recorded_when_no_argument_needs_a_gradient():
    assert Tanh.apply(Tensor(np.ones(2, "float32"))).stop_gradient


class SumAndDifference(PyLayer):
    @staticmethod
    def forward(ctx, a, b):
        return a + b, a - b

    @staticmethod
    def backward(ctx, ds, dd):
        return ds + dd, ds - dd


def test_several_results_and_a_missing_gradient():
    a, b = leaf([1.0]), leaf([2.0])
    total, _ = SumAndDifference.apply(a, b)
    total.backward()
    assert a.grad.numpy() == 1 and b.grad.numpy() == 1


class WrongCount(PyLayer):
    @staticmethod
    def forward(ctx, a, b):
        return a * b

    @staticmethod
    def backward(ctx, dy):
        return dy


class WrongShape(PyLayer):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, dy):
        return dy.sum()


@pytest.mark.parametrize(
    ("layer", "args", "match"),
    [
        (WrongCount, 2, "expected 2 gradients from WrongCount.backward"),
        (WrongShape, 1, r"gradient 0 of WrongShape.backward to have shape \[3\]"),
    ],
)
def test_wrong_gradients_are_refused(layer, args, match):
    with pytest.raises(ValueError, match=match):
        layer.apply(*(leaf([1.0, 2.0, 3.0]) for _ in range(args))).backward()


def test_a_saved_tensor_that_was_changed_is_refused():
    x = leaf([1.0])
    saved = x * 1

    class Keep(PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(saved)
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            return ctx.saved_tensor()[0] * dy

    y = Keep.apply(x)
    saved.set_value(np.array([7.0], "float32"))
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()
