"""The gradients of scans: what steps were handed is read off what they give, and products of all steps' rows are one product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.compiled.executables import load_module
from polyreme.dialects import nn
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.lowering.gradients.autodiff import forward_backward
from tests.lowering.schedule.test_control_flow import alone

RECURRENT = """
    func @main(%x: tensor<Tx3x2xf64>, %h: tensor<3x2xf64>, %w: tensor<2x2xf64>) -> (tensor<3x2xf64>, tensor<Tx3x2xf64>) {{
      %last, %all = nn.scan [%x], [%h], [%w] {{steps = T, reverse = {reverse}}} : tensor<3x2xf64>, tensor<Tx3x2xf64>
          {{ (%a: tensor<3x2xf64>, %s: tensor<3x2xf64>, %v: tensor<2x2xf64>)
        %p = nn.matmul %s, %v : tensor<3x2xf64>
        %q = nn.add %a, %p : tensor<3x2xf64>
        %next = nn.tanh %q : tensor<3x2xf64>
        {more}
        nn.yield %next, %{given}
      }}
      return %last, %all
    }}"""


def _inputs(steps: int) -> list[Any]:
    draws = np.random.default_rng(steps)
    return [draws.uniform(-1, 1, shape) for shape in ((steps, 3, 2), (3, 2), (2, 2))]


def _slopes(module: Any, inputs: list[Any], weights: list[Any]) -> list[Any]:
    """By differences of the weighed sum of the results."""

    def total() -> float:
        return sum(float((y * w).sum()) for y, w in zip(evaluate(module, inputs), weights, strict=True))

    found = []
    for array in inputs:
        slope = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            kept = array[place]
            ends = []
            for step in (1e-6, -1e-6):
                array[place] = kept + step
                ends.append(total())
            array[place] = kept
            slope[place] = (ends[0] - ends[1]) / 2e-6
        found.append(slope)
    return found


# What the steps give: all that is carried, or something else.
@pytest.mark.parametrize("given", ["next", "double"])
@pytest.mark.parametrize("reverse", ["false", "true"])
def test_a_scan_that_gives_what_it_carries_is_run_once(given: str, reverse: str) -> None:
    more = "%double = nn.add %next, %next : tensor<3x2xf64>" if given == "double" else ""
    module = parse_module(RECURRENT.format(reverse=reverse, more=more, given=given))
    halves = forward_backward(module.function(), [0, 1, 2])
    backward = alone(halves.backward)
    verify(backward)
    scans = [op for half in (alone(halves.forward), backward) for op in half.walk() if isinstance(op, nn.Scan)]
    assert len(scans) == (2 if given == "next" else 3)
    # The weight's gradient is one product of the rows of all steps, behind the scan.
    (product,) = [op for op in backward.block.first.block if isinstance(op, nn.MatMul)]
    assert product.transpose_x and product.x.type.rank == 2
    for steps in (0, 1, 4):
        inputs = _inputs(steps)
        weights = [np.random.default_rng(9).uniform(-1, 1, y.shape) for y in evaluate(module, inputs)]
        made = evaluate(alone(halves.forward), inputs)
        given_back = [*(inputs[i] for i in halves.saved), *made[2:], *weights]
        wanted = _slopes(module, inputs, weights)
        for way in (evaluate(backward, given_back), load_module(backward).run(given_back)):
            for got, slope in zip(way, wanted, strict=True):
                np.testing.assert_allclose(got, slope, rtol=1e-6, atol=1e-8)
