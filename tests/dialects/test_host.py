"""The `host` dialect: calls by number, in order, with sizes that only they tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import host
from polyreme.ir.diagnostics import VerifyError
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.transforms.cleanup import Canonicalize, Cse, Dce

POSITIVE = """
    func @main(%x: tensor<Nxf32>) -> tensor<Kxf32> {
      %y = host.call %x {id = 7, function = "positive"} : tensor<Kxf32>
      %ones = nn.full {value = 1.0, shape = [K], dtype = f32} : tensor<Kxf32>
      %z = nn.add %y, %ones : tensor<Kxf32>
      return %z
    }"""
X = np.array([1, -1, 2], np.float32)


def positive(arrays: list[Any]) -> list[Any]:
    (x,) = arrays
    return [x[x > 0]]


def test_a_call_is_looked_up_by_its_number_and_binds_the_sizes_of_its_results() -> None:
    module = parse_module(POSITIVE)
    verify(module)
    assert print_module(parse_module(print_module(module, generic=True))) == print_module(module)
    with host.with_functions({7: positive}):
        assert [evaluate(module, [x])[0].tolist() for x in (X, X[:2])] == [[2, 3], [2]]
    with (
        host.with_functions({3: positive}),
        pytest.raises(EvaluateError, match=r"a function number 7 \('positive'\) for 'host.call' but got only the numbers 3"),
    ):
        evaluate(module, [X])
    with pytest.raises(EvaluateError, match="but got no functions"):
        evaluate(module, [X])


def test_what_a_call_gives_is_checked_against_its_results() -> None:
    module = parse_module(POSITIVE)
    wrong: list[Any]
    for wrong in ([X, X], [], [X.astype(np.float64)], [X[None]]):
        with (
            host.with_functions({7: lambda arrays, wrong=wrong: wrong}),
            pytest.raises(EvaluateError, match=r"'host\.call' (made \d values|should make tensor<Kxf32>)"),
        ):
            evaluate(module, [X])


def test_a_size_that_only_a_call_tells_is_not_known_in_front_of_it() -> None:
    lines = POSITIVE.splitlines()
    early = "\n".join([*lines[:2], lines[3], lines[2], *lines[4:]])
    with pytest.raises(VerifyError, match="the size 'K' is not the size of an axis of any argument of '@main'"):
        verify(parse_module(early))


def test_cleaning_up_keeps_every_call_in_its_place() -> None:
    module = parse_module("""
        func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %unused = nn.neg %x : tensor<2xf32>
          %a = host.call %x {id = 0, function = "draw"} : tensor<2xf32>
          %b = host.call %x {id = 0, function = "draw"} : tensor<2xf32>
          host.call %x {id = 1, function = "show"}
          %c = host.call {id = 2, function = "make"} : tensor<2xf32>
          %y = nn.add %b, %x : tensor<2xf32>
          return %y
        }""")
    before = [op.attributes["id"] for op in module.walk() if op.name == "host.call"]
    PassManager([Stage("all", Canonicalize(), Cse(), Dce())]).run(module)
    verify(module)
    assert before == [0, 0, 1, 2] == [op.attributes["id"] for op in module.walk() if op.name == "host.call"]
    assert not any(op.name == "nn.neg" for op in module.walk())
