"""Copies of networks and of what trains them, by `copy.deepcopy` and pickling: as they are, and apart from the first ones."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import polyreme as paddle


class Training:
    """A network with its optimizer."""

    def __init__(self) -> None:
        self.net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Tanh(), paddle.nn.Linear(4, 2))
        self.optimizer = paddle.optimizer.Adam(0.1, parameters=self.net.parameters())

    def step(self, x: Any) -> Any:
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss


class CompiledTraining(Training):
    """The same, compiled."""

    step = paddle.jit.to_static(Training.step)


def test_copies_of_parameters_have_names_of_their_own() -> None:
    layer = paddle.nn.Linear(2, 2)
    names = [p.name for _ in range(300) for p in copy.deepcopy(layer).parameters()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", [Training, pytest.param(CompiledTraining, marks=pytest.mark.slow)])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_of_a_training_goes_on_as_the_first(kind: Any, copied: Any) -> None:
    first, x = kind(), paddle.rand([5, 3])
    first.step(x)
    second = copied(first)
    assert second.optimizer._parameter_list[0] is second.net.parameters()[0]
    before = [p.numpy() for p in first.net.parameters()]
    losses = [float(second.step(x)) for _ in range(3)]
    for parameter, kept in zip(first.net.parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.numpy(), kept)
    assert [float(first.step(x)) for _ in range(3)] == pytest.approx(losses, rel=1e-6)


def test_a_copy_of_an_optimizer_takes_what_was_loaded_along() -> None:
    first = Training()
    first.step(paddle.ones([2, 3]))
    second = Training()
    with paddle.utils.unique_name.guard():
        second.optimizer = paddle.optimizer.Adam(0.1, parameters=first.net.parameters())
    second.net = first.net
    second.optimizer.set_state_dict(first.optimizer.state_dict())
    third = copy.deepcopy(second)
    x = paddle.rand([4, 3])
    assert [float(third.step(x)) for _ in range(3)] == pytest.approx([float(first.step(x)) for _ in range(3)], rel=1e-6)


@paddle.jit.to_static
def doubled(x: Any) -> Any:
    return x * 2


def test_compiled_functions_are_pickled_by_their_names() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    compiled = pickle.loads(pickle.dumps(paddle.jit.to_static(Training().net)))
    assert compiled(paddle.ones([1, 3])).shape == [1, 2]
