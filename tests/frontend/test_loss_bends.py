"""Losses that are cut off at a margin, just there."""

from __future__ import annotations

import numpy as np

import polyreme as paddle


def test_gradients_at_the_bend_of_a_loss_are_those_of_paddle():
    """Recorded from Paddle 3.3.1: a relu has none there, a clip all of it."""
    tensor = paddle.to_tensor
    losses = paddle.nn.functional
    cases = {
        "margin_ranking": (
            lambda x, y: losses.margin_ranking_loss(x, y, tensor([1.0, 1.0]), reduction="sum"), [[0.0, 1.0], [0.0, 0.0]],
            [[0.0, 0.0], [0.0, 0.0]],
        ),
        "hinge_embedding": (
            lambda x: losses.hinge_embedding_loss(x, tensor([1.0, -1.0, -1.0]), reduction="sum"), [[0.0, 1.0, 0.5]], [[1.0, 0.0, -1.0]],
        ),
        "cosine_embedding": (
            lambda x, y: losses.cosine_embedding_loss(x, y, tensor([-1]), reduction="sum"), [[[1.0, 0.0]], [[0.0, 1.0]]],
            [[[0.0, 1.0]], [[1.0, 0.0]]],
        ),
        "triplet_margin": (
            lambda x, y, z: losses.triplet_margin_loss(x, y, z, margin=0.0, reduction="sum"), [[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]],
            [[[0.0, 0.0]], [[-0.70711, 0.70711]], [[0.70711, -0.70711]]],
        ),
    }  # fmt: skip
    for name, (function, given, expected) in cases.items():
        inputs = [tensor(x, stop_gradient=False) for x in given]
        function(*inputs).backward()
        for x, wanted in zip(inputs, expected, strict=True):
            np.testing.assert_allclose(x.grad.numpy(), wanted, atol=1e-5, err_msg=name)
