"""Rows that a kernel keeps in scratch memory between its stages are read in their own positions only; rows of any length."""

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


@pytest.mark.parametrize("fn", ["add", "max", "min", "mul"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_rows_of_any_length_are_summed_up_by_one_kernel(fn: str, dtype: str) -> None:
    module = parse_module(f"""module {{
  func @main(%x: tensor<Bx3xTx{dtype}>) -> tensor<Bx3x{dtype}> {{
    %s = tensor.reduce %x {{fn = "{fn}", axes = [2]}} : tensor<Bx3x{dtype}>
    return %s
  }}
}}""")
    made = load_module(module)
    reduced = {"add": np.sum, "max": np.max, "min": np.min, "mul": np.prod}[fn]
    draw = np.random.default_rng(0)
    for rows, length in [*((2, n) for n in range(1, 36)), (0, 5), (1, 1), (3, 16), (9, 17), (1, 150)]:
        x = draw.standard_normal((rows, 3, length)) if dtype != "i32" else draw.integers(-3, 4, (rows, 3, length))
        x = x.astype({"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype])
        (found,) = made.run([x])
        np.testing.assert_allclose(found, reduced(x, axis=2).astype(x.dtype), rtol=1e-4, atol=1e-5)
    if fn in ("add", "mul"):
        np.testing.assert_array_equal(made.run([np.zeros((2, 3, 0), x.dtype)])[0], np.full((2, 3), fn == "mul", x.dtype))


def test_a_nan_in_a_short_row_is_that_rows_alone() -> None:
    module = parse_module("""module {
  func @main(%x: tensor<BxTxf32>) -> tensor<Bxf32> {
    %s = tensor.reduce %x {fn = "max", axes = [1]} : tensor<Bxf32>
    return %s
  }
}""")
    for length in (5, 16, 40):
        x = np.ones((20, length), np.float32)
        x[7, length - 1] = np.nan
        (found,) = load_module(module).run([x])
        assert np.flatnonzero(np.isnan(found)).tolist() == [7]


@pytest.mark.parametrize("width", ["W", "70"])
def test_rows_that_are_read_by_the_same_positions_agree_with_numpy(width: str) -> None:
    module = parse_module(f"""module {{
  func @main(%x: tensor<Rx{width}xf32>, %at: tensor<Kxi64>, %w: tensor<1xKxf32>) -> tensor<RxKxf32> {{
    %y = tensor.fused %x, %at, %w : tensor<RxKxf32> {{ (%a: tensor<Rx{width}xf32>, %b: tensor<Kxi64>, %c: tensor<1xKxf32>)
      %g = tensor.gather %a, %b {{axis = 1}} : tensor<RxKxf32>
      %m = tensor.map %g, %c {{fn = "mul"}} : tensor<RxKxf32>
      tensor.yield %m
    }}
    return %y
  }}
}}""")
    made = load_module(module)
    draw = np.random.default_rng(0)
    for rows, count in [*((r, 21) for r in range(10)), (4, 1), (3, 16), (600, 33)]:
        x = draw.standard_normal((rows, 70)).astype(np.float32)
        at, w = draw.integers(-70, 70, count), draw.standard_normal((1, count)).astype(np.float32)
        np.testing.assert_array_equal(made.run([x, at, w])[0], x[:, at] * w)
