"""PyLayer: the user's own gradients, and misuse that is named."""

import numpy as np
import pytest

import polyreme as paddle
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


class Weighted(PyLayer):
    """2 a + 3 b + the sum of the others; the gradients that each argument gets say which one it is."""

    @staticmethod
    def forward(ctx, a, b=None, others=()):
        return a * 2 + (0 if b is None else b * 3) + sum(others)

    returned = staticmethod(lambda g: (g * 2, g * 3))

    @staticmethod
    def backward(ctx, g):
        return Weighted.returned(g)


@pytest.mark.parametrize(
    ("call", "gradients"),
    [
        (lambda x, y: Weighted.apply(a=x, b=y), (2, 3)),
        (lambda x, y: Weighted.apply(b=y, a=x), (3, 2)),  # in the order of the call
        (lambda x, y: Weighted.apply(x, b=y), (2, 3)),
    ],
    ids=["by name", "by name, turned round", "one by place"],
)
def test_tensors_given_by_name_get_gradients(monkeypatch, call, gradients):
    monkeypatch.setattr(Weighted, "returned", staticmethod(lambda g: (g * 2, g * 3)))
    x, y = leaf([1.0]), leaf([1.0])
    call(x, y).sum().backward()
    assert (x.grad.item(), y.grad.item()) == gradients


def test_a_list_of_tensors_gets_a_list_of_gradients(monkeypatch):
    monkeypatch.setattr(Weighted, "returned", staticmethod(lambda g: (g * 2, [g * 5, g * 7])))
    x, y, z = leaf([1.0]), leaf([1.0]), leaf([1.0])
    Weighted.apply(x, others=[y, z]).sum().backward()
    assert (x.grad.item(), y.grad.item(), z.grad.item()) == (2, 5, 7)
    monkeypatch.setattr(Weighted, "returned", staticmethod(lambda g: (g * 2, g)))
    with pytest.raises(ValueError, match="gradient 1 of Weighted.backward to be a list of 2, since the argument is one, but got Tensor"):
        Weighted.apply(x, others=(y, z)).sum().backward()


def test_arguments_that_need_no_gradient_may_be_left_out(monkeypatch):
    monkeypatch.setattr(Weighted, "returned", staticmethod(lambda g: g * 3))
    y = leaf([1.0])
    Weighted.apply(Tensor(np.ones(1, "float32")), b=y).sum().backward()
    assert y.grad.item() == 3


class _TimesTen(paddle.autograd.PyLayer):
    """Doubles its argument in place and returns it."""

    @staticmethod
    def forward(ctx, x):
        x.scale_(2.0)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * 10 * x


@pytest.mark.parametrize("compiled", [False, True])
def test_an_argument_that_is_written_and_returned_is_the_result(compiled):
    def function(x):
        y = x * 1
        z = _TimesTen.apply(y)
        return (z + y).sum()

    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    result = (paddle.jit.to_static(function) if compiled else function)(x)
    result.backward()
    assert result.item() == 12
    assert x.grad.tolist() == [40, 80]  # both summands are the layer's result


def test_a_view_that_a_layer_writes_and_returns_is_seen_in_what_it_is_a_view_of():
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    y = x * 1
    row = y[0]
    assert _TimesTen.apply(row) is row
    y.sum().backward()
    assert y.tolist() == [[2, 4], [3, 4]]
    assert x.grad.tolist() == [[20, 40], [1, 1]]


def test_a_leaf_that_a_layer_writes_and_returns_is_refused():
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    with pytest.raises(ValueError, match="Leaf Tensor .* can't use inplace strategy"):
        _TimesTen.apply(x)
