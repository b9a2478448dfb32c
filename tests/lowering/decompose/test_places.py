"""`compute-places`: what finds places before is what finds them after, on any array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.dialects import host
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.places import ComputePlaces

DTYPES = {"f32": np.float32, "i1": np.bool_, "i64": np.int64, "ui8": np.uint8, "f64": np.float64}


@st.composite
def arrays(draw: Any) -> tuple[str, Any]:
    """An array, many of whose elements are zero, and the text of its type, some of whose sizes are free."""
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    name = draw(st.sampled_from(sorted(DTYPES)))
    elements = draw(st.lists(st.integers(0, 2), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    values = np.array(elements).reshape(shape).astype(DTYPES[name])
    if name.startswith("f") and values.size:
        values.reshape(-1)[0] = draw(st.sampled_from([np.nan, -0.0, np.inf, 1.0]))
    sizes = [f"N{axis}" if draw(st.booleans()) else str(size) for axis, size in enumerate(shape)]
    return "x".join([*sizes, name]), values


@given(arrays())
def test_places_are_the_same(given: tuple[str, Any]) -> None:
    text, values = given
    module = parse_module(f"""
        func @main(%x: tensor<{text}>) -> tensor<Kx{values.ndim}xi64> {{
          %places = host.nonzero %x {{count = K}} : tensor<Kx{values.ndim}xi64>
          return %places
        }}""")
    (before,) = evaluate(module, [values])
    ComputePlaces().run(module)
    verify(module)
    assert not any(isinstance(op, host.NonZero) for op in module.walk())
    (after,) = evaluate(module, [values])
    assert after.dtype == before.dtype == np.int64
    np.testing.assert_array_equal(after, before)


FIRST = """
    func @main(%x: tensor<Nx2xf32>, %n: tensor<i32>) -> tensor<Kx2xf32> {
      %y = host.first %x, %n {count = K} : tensor<Kx2xf32>
      return %y
    }"""


@pytest.mark.parametrize("number", [0, 2, 3])
def test_first_rows_are_as_many_as_the_number_says(number: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert evaluate(parse_module(FIRST), [x, np.int32(number)])[0].tolist() == x[:number].tolist()


@pytest.mark.parametrize("number", [-1, 4])
def test_more_rows_than_there_are_or_fewer_than_none_are_refused(number: int) -> None:
    with pytest.raises(EvaluateError, match=f"expected 'host.first' to keep from 0 to 3 rows but got {number}"):
        evaluate(parse_module(FIRST), [np.zeros((3, 2), np.float32), np.int32(number)])
