"""Clipping of gradients against its formulas."""

import numpy as np
import pytest

import polyreme as paddle
from polyreme.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from polyreme.parameter import Parameter
from polyreme.tensor import Tensor


def pairs(*gradients, **options):
    return [(Parameter(np.zeros_like(g), **options), Tensor(np.asarray(g, "float32"))) for g in gradients]


A, B = np.array([3.0, -4.0], "float32"), np.array([[12.0]], "float32")


def test_by_value():
    assert ClipGradByValue(2.0)(pairs(A))[0][1].numpy().tolist() == [2.0, -2.0]
    assert ClipGradByValue(max=5.0, min=0.0)(pairs(A))[0][1].numpy().tolist() == [3.0, 0.0]
    with pytest.raises(ValueError, match="above 0"):
        ClipGradByValue(-1.0)


def test_by_the_norm_of_each():
    clipped = ClipGradByNorm(1.0)(pairs(A, B))
    np.testing.assert_allclose(clipped[0][1].numpy(), A / 5, rtol=1e-6)
    np.testing.assert_allclose(clipped[1][1].numpy(), B / 12, rtol=1e-6)


def test_by_the_norm_of_all():
    clipped = ClipGradByGlobalNorm(6.5)(pairs(A, B))
    np.testing.assert_allclose(clipped[0][1].numpy(), A / 2, rtol=1e-6)
    np.testing.assert_allclose(clipped[1][1].numpy(), B / 2, rtol=1e-6)


@pytest.mark.parametrize("clip", [ClipGradByNorm(100.0), ClipGradByGlobalNorm(100.0)])
def test_small_gradients_keep_their_bits(clip):
    np.testing.assert_array_equal(clip(pairs(A, B))[0][1].numpy(), A)


@pytest.mark.parametrize("clip", [ClipGradByValue(1.0), ClipGradByNorm(1.0), ClipGradByGlobalNorm(1.0)])
def test_parameters_may_stay_out(clip):
    np.testing.assert_array_equal(clip(pairs(A, need_clip=False))[0][1].numpy(), A)


# Of a loss w · w at 3, 4 with the rate 0.1: clipped gradients stay, and the next ones are added to them.
STEPS = {ClipGradByGlobalNorm: ([0.6, 0.8], [0.6, 0.8]), ClipGradByNorm: ([6.0, 8.0], [11.88, 15.84])}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", STEPS)
def test_the_norm_of_all_is_clipped_in_place(kind, compiled):
    weight = Parameter(np.array([3.0, 4.0], "float32"))
    optimizer = paddle.optimizer.SGD(0.1, parameters=[weight], grad_clip=kind(1.0))

    def step():
        (weight * weight).sum().backward()
        optimizer.step()

    run = paddle.jit.to_static(step, full_graph=True) if compiled else step
    for wanted in STEPS[kind]:
        run()
        np.testing.assert_allclose(weight.grad.numpy(), wanted, rtol=1e-4)


def test_gradients_that_are_not_clipped_in_place():
    number, held = Parameter(np.array(3.0, "float32")), Parameter(np.zeros(2, "float32"))
    number.grad, own = Tensor(np.array(5.0, "float32")), Tensor(np.array([3.0, 4.0], "float32"))
    held.grad = own
    ClipGradByGlobalNorm(1.0)([(number, number.grad), (held, held.grad)])
    assert float(number.grad) == 5.0
    assert own.numpy().tolist() == [3.0, 4.0]
    np.testing.assert_allclose(held.grad.numpy(), np.array([3.0, 4.0]) / 50**0.5, rtol=1e-6)
