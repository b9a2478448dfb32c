"""Rows that a kernel keeps in scratch memory between its stages are read in their own positions only."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.compiled.executables import load_module
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module

ELSEWHERE = {
    "slice": [
        "nn.slice %e {starts = [0, 1], stops = [3, 3], strides = [1, 1]} : tensor<3x2xf32>",
        "nn.pad %a {padding = [0, 0, 0, 1], interior = [0, 0]} : tensor<3x3xf32>",
    ],
    "reverse": ["nn.flip %e {axes = [1]} : tensor<3x3xf32>"],
    "transpose": ["nn.transpose %e {perm = [1, 0]} : tensor<3x3xf32>"],
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_dear_value_that_is_summed_and_read_elsewhere_is_right(name: str, axis: int) -> None:
    last = "e"
    steps = []
    for variable, text in zip("ab", ELSEWHERE[name], strict=False):
        steps.append(f"%{variable} = {text}")
        last = variable
    lines = "\n    ".join(steps)
    module = parse_module(f"""module {{
  func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {{
    %e = nn.exp %x : tensor<3x3xf32>
    %s = nn.sum %e {{axis = [{axis}], keepdims = true}}
    {lines}
    %y = nn.add %s, %{last} : tensor<3x3xf32>
    return %y
  }}
}}""")
    x = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
    (expected,) = evaluate(module.function(), [x])
    (found,) = load_module(module).run([x])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
