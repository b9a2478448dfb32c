"""Gradients of gradients agree with differences of gradients, in float64, for up to three cases of every name: also where Paddle refuses
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyreme
from tests.api.table import Array, Call, Case, Inputs, Recipe, Rng, _once, _tensors, load, resolve

STEP = 1e-5
# There a number stands in place of 0 / 0, as in Paddle, which is right for the first gradient only; or infinity, next to which nothing has
# a difference; or a kink.
EXCEPT = {
    "paddle.sinc(float32 [0.0, 0.5])",
    "paddle.logit(float32 [0.5, -0.5, 1.5, 0.0, 1.0])",
    "paddle.logit(float32 [0.5, -0.5, 1.5, 0.1, 0.9], 0.1)",
}

# The element that comes most often is another one as soon as equal ones are moved apart.
OTHERS = {"paddle.mode"}


class Moved(Inputs):
    """Inputs in float64; those that need gradients are moved by `step` in a direction that is drawn for each, but for those numbered in
    `still`.
    """

    def __init__(self, rng: Rng, step: float, still: Collection[int] = ()):
        super().__init__(polyreme, rng, with_grad=True)
        self.step, self.still, self.directions = step, still, list[Array]()
        self.drawing = np.random.default_rng(7)

    def tensor(self, recipe: Recipe) -> Any:
        if recipe.dtype != "float32" and recipe.dtype != "float64":
            return super().tensor(recipe)
        made = recipe.make
        if recipe.differentiable:
            direction = self.drawing.standard_normal(recipe.shape)
            step = 0.0 if len(self.directions) in self.still else self.step
            self.directions.append(direction)
            return super().tensor(replace(recipe, dtype="float64", make=lambda rng: made(rng) + step * direction))
        return super().tensor(replace(recipe, dtype="float64"))


def _has_second_gradients(case: Case) -> bool:
    call = getattr(case.body, "__self__", None)
    if (
        not isinstance(call, Call)
        or case.raises
        or "gradient" not in case.traits
        or case.traits & {"strided", "complex64", "complex128", "float16", "bfloat16"}
    ):
        return False
    return "paddle.nn." not in call.expression and case.body.__name__ == "run"


CASES: dict[str, list[Case]] = defaultdict(list)
for case in load().values():
    if case.id not in EXCEPT and case.names[0] not in OTHERS and _has_second_gradients(case) and len(CASES[case.names[0]]) < 3:
        CASES[case.names[0]].append(case)


def _gradients(case: Case, step: float, still: Collection[int] = (), *, create_graph: bool) -> tuple[list[Any], list[Any], list[Array]]:
    """Inputs, their gradients for fixed weights of all outputs, and the directions in which they were moved."""
    polyreme.seed(1)
    call: Call = case.body.__self__  # type: ignore[attr-defined]
    inputs = Moved(case.rng(), step, still)
    args, kwargs = inputs(call.args), inputs(call.kwargs)
    if call.expression:
        result = eval(call.expression, {"paddle": polyreme, "F": polyreme.nn.functional, "np": np, **kwargs})
    else:
        result = resolve(polyreme, call.name)(*args, **kwargs)
    outputs = [
        t
        for t in _once(_tensors(polyreme, result if call.out is None else call.out(result)))
        if not t.stop_gradient and t.dtype is polyreme.float64
    ]
    if not outputs:
        return inputs.leaves, [None] * len(inputs.leaves), inputs.directions
    drawing = np.random.default_rng(8)
    total = polyreme.add_n([(t * polyreme.to_tensor(drawing.standard_normal(tuple(t.shape)))).sum() for t in outputs])
    return inputs.leaves, list(polyreme.grad(total, inputs.leaves, create_graph=create_graph, allow_unused=True)), inputs.directions


@pytest.mark.parametrize("name", CASES)
def test_second_gradients_agree_with_differences(name: str) -> None:
    for case in CASES[name]:
        leaves, first, directions = _gradients(case, 0.0, create_graph=True)
        along = [(g * polyreme.to_tensor(d)).sum() for g, d in zip(first, directions, strict=True) if g is not None and not g.stop_gradient]
        second = polyreme.grad(polyreme.add_n(along), leaves, allow_unused=True) if along else [None] * len(leaves)
        # An input that gets no gradient, such as a label, may matter all the same.
        still = [number for number, gradient in enumerate(first) if gradient is None]
        _, ahead, _ = _gradients(case, STEP, still, create_graph=False)
        _, behind, _ = _gradients(case, -STEP, still, create_graph=False)
        for got, a, b in zip(second, ahead, behind, strict=True):
            if a is not None:
                wanted = (a.numpy() - b.numpy()) / (2 * STEP)
                np.testing.assert_allclose(
                    np.zeros_like(wanted) if got is None else got.numpy(), wanted, rtol=2e-3, atol=2e-4, err_msg=case.id
                )
