"""Positions that an input holds: what is outside of a table is an error wherever the model runs, not another row."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.sizes.ranges import Range
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.lowering.link.artifact import load
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.library import load_compiled, read_library
from polyreme.runtime.manifest.manifest import Manifest


class Table(paddle.nn.Layer):
    def __init__(self, dtype: str = "int64") -> None:
        super().__init__()
        self.table = paddle.nn.Embedding(5, 2)
        self.dtype = dtype

    def forward(self, ids: Any) -> Any:
        return self.table(ids.unsqueeze(0).astype("int64")).sum(1)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_ids_outside_of_a_table_are_refused(tmp_path: Path, dtype: str) -> None:
    spec = [paddle.static.InputSpec([None], dtype, "ids")]
    library = paddle.compile(Table(), tmp_path / "net.so", input_spec=spec)
    paddle.jit.save(Table(), str(tmp_path / "net"), input_spec=spec)
    native = ctypes.CDLL(str(tmp_path / "net.so"))
    native.net_create.restype, native.net_error.restype = ctypes.c_void_p, ctypes.c_char_p
    model = ctypes.c_void_p(native.net_create(1, None))
    loaded = paddle.jit.load(str(tmp_path / "net"))

    def code(ids: np.ndarray[Any, Any]) -> int:
        shape, out = (ctypes.c_int64 * 1)(len(ids)), (ctypes.c_float * 2)()
        array = ctypes.c_void_p * 1
        return int(native.net_run(model, array(ids.ctypes.data), array(ctypes.addressof(shape)), array(ctypes.addressof(out))))

    right = np.array([0, 4, 2], dtype)
    assert code(right) == 0 and library(right).shape == (1, 2) and loaded(paddle.to_tensor(right)).shape == [1, 2]
    assert code(right[:0]) == 0 and library(right[:0]).shape == (1, 2)
    for ids in ([5], [0, 7, 2], [-1], [2**31 - 1]):
        if min(ids) < 0 and dtype == "uint8" or max(ids) > np.iinfo(dtype).max:
            continue
        wrong = np.array(ids, dtype)
        assert code(wrong) == 5
        assert b"input 'ids': expected positions (rows at test_ranges.py:" in native.net_error()
        assert f"from 0 to 4 but got {next(i for i in ids if not 0 <= i < 5)}".encode() in native.net_error()
        with pytest.raises(CallError, match=r"expected the input 'ids' to hold positions .* from 0 to 4 but got"):
            library(wrong)
        with pytest.raises(CallError, match="from 0 to 4 but got"):
            loaded(paddle.to_tensor(wrong))
    assert code(right) == 0 and native.net_error() == b""
    native.net_destroy(model)


def test_a_range_is_read_as_it_is_written_and_is_about_an_argument() -> None:
    for found in (Range("ids", 0, 5, "a b.py:9:3"), Range("x", -7, 7)):
        assert Range.parse(str(found)) == found
    with pytest.raises(ValueError, match="expected a range, such as"):
        Range.parse("ids below 5")
    text = 'func @main(%ids: tensor<3xi64>) -> tensor<3xi64> attributes {ranges = ["idx from 0 below 5"]} {\n  return %ids\n}'
    with pytest.raises(Exception, match="is about 'idx', which is no argument"):
        verify(parse_module(f"module {{\n{text}\n}}"))


def test_a_manifest_with_a_range_of_no_input_of_whole_numbers_is_refused(tmp_path: Path) -> None:
    paddle.compile(Table(), tmp_path / "net.so", input_spec=[paddle.static.InputSpec([3], "int64", "ids")])
    data = read_library(tmp_path / "net.so").manifest.to_json()
    assert Manifest.from_json(data).ranges == load_compiled(tmp_path / "net.so").manifest.ranges
    data["ranges"][0]["input"] = 1
    with pytest.raises(ArtifactError, match="expected a range of an input of whole numbers"):
        Manifest.from_json(data)


def test_a_table_that_turns_out_to_be_empty_is_not_read_in_a_loop() -> None:
    module = parse_module("""
    func @main(%x: tensor<Nx3xf32>, %i: tensor<2xi64>, %n: tensor<i64>) -> tensor<2x3xf32> {
      %k = nn.full {value = 0, dtype = i64} : tensor<i64>
      %s = nn.full {value = 0.0, shape = [2, 3], dtype = f32} : tensor<2x3xf32>
      %l, %y, %r = nn.while [%k, %s], [%n, %x, %i] : tensor<i64>, tensor<2x3xf32>, tensor<i64> {
          (%a: tensor<i64>, %t: tensor<2x3xf32>, %m: tensor<i64>, %u: tensor<Nx3xf32>, %j: tensor<2xi64>)
        %more = nn.less %a, %m : tensor<i1>
        nn.yield %more
      } { (%a: tensor<i64>, %t: tensor<2x3xf32>, %m: tensor<i64>, %u: tensor<Nx3xf32>, %j: tensor<2xi64>)
        %one = nn.full {value = 1, dtype = i64} : tensor<i64>
        %b = nn.add %a, %one : tensor<i64>
        %g = nn.gather %u, %j : tensor<2x3xf32>
        %v = nn.add %t, %g : tensor<2x3xf32>
        nn.yield %b, %v
      }
      return %y
    }""")
    verify(module)
    model = load(compile_module(module).artifact)
    x, places = np.full((4, 3), 7, np.float32), np.array([0, 1])
    np.testing.assert_array_equal(model(x, places, np.array(2)), np.full((2, 3), 14))
    for rounds in (0, 2):
        # There are sevens behind an empty part of them.
        np.testing.assert_array_equal(model(x[:0], places, np.array(rounds)), np.zeros((2, 3)))
