"""Clipping of gradients against its formulas."""

import numpy as np
import pytest

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
