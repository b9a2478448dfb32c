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


def test_products_that_a_scan_gives_are_not_computed_again() -> None:
    module = parse_module(RECURRENT.format(reverse="false", more="", given="next"))
    backward = alone(forward_backward(module.function(), [0, 1, 2]).backward)
    (scan,) = [op for op in backward.walk() if isinstance(op, nn.Scan)]
    (product,) = [op for op in scan.walk() if isinstance(op, nn.MatMul)]
    assert product.transpose_y  # the gradient of the state; a step's own product is not there


GATED = """
    func @main(%x: tensor<Tx3x4xf64>, %h: tensor<3x2xf64>, %w: tensor<2x4xf64>, %p: tensor<1x2xf64>) -> tensor<Tx3x2xf64> {
      %last, %all, %z = nn.scan [%x], [%h], [%w, %p] {steps = T} : tensor<3x2xf64>, tensor<Tx3x2xf64>, tensor<Tx3x4xf64>
          { (%a: tensor<3x4xf64>, %s: tensor<3x2xf64>, %v: tensor<2x4xf64>, %q: tensor<1x2xf64>)
        %m = nn.matmul %s, %v : tensor<3x4xf64>
        %g = nn.add %a, %m : tensor<3x4xf64>
        %g0 = nn.slice %g {starts = [0, 0], stops = [3, 2], strides = [1, 1]} : tensor<3x2xf64>
        %g1 = nn.slice %g {starts = [0, 2], stops = [3, 4], strides = [1, 1]} : tensor<3x2xf64>
        %held = nn.mul %s, %q : tensor<3x2xf64>
        %in = nn.add %g1, %held : tensor<3x2xf64>
        %gate = nn.sigmoid %in : tensor<3x2xf64>
        %new = nn.tanh %g0 : tensor<3x2xf64>
        %next = nn.mul %gate, %new : tensor<3x2xf64>
        nn.yield %next, %next, %g
      }
      return %all
    }"""


def test_gradients_of_gates_are_joined_and_those_of_peepholes_added_up_behind_all_steps() -> None:
    module = parse_module(GATED)
    halves = forward_backward(module.function(), [0, 1, 2, 3])
    backward = alone(halves.backward)
    verify(backward)
    (scan,) = [op for op in backward.walk() if isinstance(op, nn.Scan)]
    inside = [type(op) for op in scan.body.block]
    assert nn.Concat in inside and nn.Pad not in inside and nn.Sum not in inside and inside.count(nn.MatMul) == 1
    for steps in (0, 1, 5):
        draws = np.random.default_rng(steps)
        inputs = [draws.uniform(-1, 1, shape) for shape in ((steps, 3, 4), (3, 2), (2, 4), (1, 2))]
        weights = [draws.uniform(-1, 1, (steps, 3, 2))]
        made = evaluate(alone(halves.forward), inputs)
        given_back = [*(inputs[i] for i in halves.saved), *made[1:], *weights]
        wanted = _slopes(module, inputs, weights)
        for way in (evaluate(backward, given_back), load_module(backward).run(given_back)):
            for got, slope in zip(way, wanted, strict=True):
                np.testing.assert_allclose(got, slope, rtol=1e-6, atol=1e-8)
