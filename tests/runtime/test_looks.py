"""Positions that a run computes: what is outside of a table is an error wherever the model runs, not another row."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.lowering.pipeline import lower
from polyreme.runtime.errors import ArtifactError, CallError
from polyreme.runtime.library import load_compiled, read_library
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.static import InputSpec


class Table(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.table = paddle.nn.Embedding(5, 2)

    def forward(self, x: Any, by: Any) -> Any:
        return self.table(paddle.argmax(x, 1) + by).sum(0)


SPEC = [InputSpec([None, 4], "float32", "x"), InputSpec([1], "int64", "by")]
X = np.eye(3, 4, dtype="float32")  # 0, 1, 2


def test_computed_ids_outside_of_a_table_are_errors_of_the_run(tmp_path: Path) -> None:
    net = Table()
    library = paddle.compile(net, tmp_path / "net.so", input_spec=SPEC)
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=SPEC)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    native = ctypes.CDLL(str(tmp_path / "net.so"))
    native.net_create.restype, native.net_error.restype = ctypes.c_void_p, ctypes.c_char_p
    model = ctypes.c_void_p(native.net_create(1, None))

    def code(x: np.ndarray[Any, Any], by: int) -> int:
        shapes = (ctypes.c_int64 * 2)(*x.shape), (ctypes.c_int64 * 1)(1)
        number, out = ctypes.c_int64(by), (ctypes.c_float * 2)()
        pair, array = ctypes.c_void_p * 2, ctypes.c_void_p * 1
        given = pair(x.ctypes.data, ctypes.addressof(number))
        return int(native.net_run(model, given, pair(*map(ctypes.addressof, shapes)), array(ctypes.addressof(out))))

    def calls(by: int) -> list[Any]:
        ids = np.array([by], "int64")
        return [lambda: library(X, ids), lambda: loaded(paddle.to_tensor(X), paddle.to_tensor(ids))]

    for by in (0, 1, 2):
        assert code(X, by) == 0
        for call in calls(by):
            assert np.asarray(call()).shape == (2,)
    assert code(X[:0], 9) == 0, native.net_error()
    for by in (3, -1, 10**12):
        assert code(X, by) == 5
        assert f"from 0 to 4 but computed {by} to {by + 2}".encode() in native.net_error()
        assert b"expected positions (rows at test_looks.py:" in native.net_error()
        for call in calls(by):
            with pytest.raises(CallError, match=f"from 0 to 4 but computed {by} to {by + 2}"):
                call()
    assert code(X, 2) == 0 and native.net_error() == b""
    native.net_destroy(model)


def loaded_function(function: Any, specs: list[InputSpec], folder: Path) -> Any:
    paddle.jit.save(paddle.jit.to_static(function), str(folder / "net"), input_spec=specs)
    return paddle.jit.load(str(folder / "net"))


PAIR = [InputSpec([3, 4], "float32", "x"), InputSpec([2, 2], "int64", "at")]
FREE = [InputSpec([None, None], "float32", "x"), InputSpec([None, 2], "int64", "at")]


@pytest.mark.parametrize("specs", [PAIR, FREE], ids=["known", "free"])
@pytest.mark.parametrize(
    "function, right, wrong",
    [
        (lambda x, at: paddle.gather_nd(x, at + 1), [[0, 1], [1, 2]], [[0, 1], [1, 3]]),
        (lambda x, at: paddle.gather_nd(x, at * 1), [[-3, -4], [2, 3]], [[-4, 0], [0, 0]]),
        (lambda x, at: paddle.gather(x, (at * 1).flatten()), [[0, -3], [2, 1]], [[0, 3], [0, 0]]),
        (lambda x, at: paddle.index_select(x, at[:, 0] + 1, 1), [[2, 9], [-5, 9]], [[3, 9], [0, 9]]),
        (lambda x, at: paddle.take_along_axis(x[:2], at + 1, 1, broadcast=False), [[2, -5], [0, 0]], [[3, 0], [0, 0]]),
        (lambda x, at: x[at[:, 0] + 0], [[0, 9], [-3, 9]], [[0, 9], [-4, 9]]),
        (lambda x, at: paddle.put_along_axis(x[:2], at + 1, 7.0, 1, broadcast=False), [[2, -5], [0, 0]], [[3, 0], [0, 0]]),
        (lambda x, at: paddle.scatter(x, at[:, 0] + 1, x[:2]), [[1, 9], [0, 9]], [[2, 9], [0, 9]]),
        (lambda x, at: paddle.index_fill(x, at[:, 0] + 1, 0, 7.0), [[1, 9], [-4, 9]], [[2, 9], [0, 9]]),
        (lambda x, at: paddle.multiplex([x[:2], -x[:2]], at[:, :1] + 1), [[0, 9], [-1, 9]], [[1, 9], [0, 9]]),
        (lambda x, at: paddle.nn.functional.one_hot(at + 1, 4), [[0, 2], [-1, 1]], [[0, 3], [-1, 1]]),
        (lambda x, at: paddle.nn.functional.nll_loss(x[:2], at[:, 0] + 1), [[0, 9], [-101, 9]], [[3, 9], [0, 9]]),
    ],
    ids=[
        "gather_nd", "gather_nd backwards", "gather", "index_select", "take_along_axis", "x[i]", "put_along_axis", "scatter", "index_fill",
        "multiplex", "one_hot", "nll_loss",
    ],
)
def test_whatever_reads_or_writes_at_computed_positions_tells_of_them(tmp_path, function, right, wrong, specs):
    x = paddle.to_tensor(np.arange(12, dtype="float32").reshape(3, 4))
    net = loaded_function(function, specs, tmp_path)
    expected = function(x, paddle.to_tensor(right)).numpy()
    np.testing.assert_array_equal(net(x, paddle.to_tensor(right)).numpy(), expected)
    with pytest.raises(CallError, match="but computed"):
        net(x, paddle.to_tensor(wrong))
    for way in (function, paddle.jit.to_static(function)):
        with pytest.raises((IndexError, ValueError, RuntimeError), match=r"expected|label value"):
            way(x, paddle.to_tensor(wrong))


def test_a_part_of_a_model_in_parts_tells_of_them(tmp_path):
    specs = [InputSpec([None]), InputSpec([1], "int64")]
    net = loaded_function(lambda x, by: paddle.gather(x, paddle.nonzero(x > 0)[:, 0] + by), specs, tmp_path)
    x = paddle.to_tensor([1.0, 0.0, 2.0, 0.0])
    assert net(x, paddle.to_tensor([1])).tolist() == [0.0, 0.0]
    with pytest.raises(CallError, match="from -4 to 3 but computed 2 to 4"):
        net(x, paddle.to_tensor([2]))


def test_training_a_loaded_model_tells_of_them(tmp_path):
    paddle.jit.save(Table(), str(tmp_path / "net"), input_spec=SPEC)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    loaded.train()
    loaded(paddle.to_tensor(X), paddle.to_tensor([1])).sum().backward()
    (weight,) = loaded.parameters()
    assert weight.grad.numpy().tolist() == [[0, 0], [1, 1], [1, 1], [1, 1], [0, 0]]
    with pytest.raises(CallError, match="but computed"):
        loaded(paddle.to_tensor(X), paddle.to_tensor([3]))


def test_positions_that_are_sure_to_fit_are_not_looked_at(tmp_path):
    net = loaded_function(lambda x: paddle.gather(x, paddle.argsort(x[:, 0])), [InputSpec([None, 4])], tmp_path)
    assert "nn.within" not in net.program()


TEXT = """func @main(%x: tensor<4x2xf32>, %i: tensor<3xi32>) -> tensor<3x2xf32> {
  %j = nn.add %i, %i
  %k = nn.within %j {size = 4, wraps = true, place = "net.py:3:4"}
  %y = nn.gather %x, %k {axis = 0}
  return %y
}"""


def test_the_pass_leaves_a_last_result_and_says_what_it_is():
    func = lower(parse_module(TEXT), to="nn").function()
    assert func.looks == ("wraps at net.py:3:4",)
    assert [str(v.type) for v in func.block.terminator.operands] == ["tensor<3x2xf32>", "tensor<3xi64>"]
    assert not any(op.name == "nn.within" for op in func.walk())


def test_a_manifest_with_looks_is_read_as_it_was_written(tmp_path):
    paddle.compile(Table(), tmp_path / "net.so", input_spec=SPEC)
    data = read_library(tmp_path / "net.so").manifest.to_json()
    assert Manifest.from_json(data).looks == load_compiled(tmp_path / "net.so").manifest.looks != ()
    data["looks"] = []
    with pytest.raises(ArtifactError, match="expected the arguments to be"):
        Manifest.from_json(data)


# --- inside of branches and loops

ROWS = np.arange(10, dtype="float32").reshape(5, 2)


def by_loop(x: Any, n: Any) -> Any:
    table, first = paddle.to_tensor(ROWS), paddle.zeros([], "int64")
    step = lambda i, y: [i + 1, y + paddle.gather(table, (i * 2).reshape([1]))[0]]
    return paddle.static.nn.while_loop(lambda i, y: i < n, step, [first, x])[1]


def by_branch(x: Any, n: Any) -> Any:
    table = paddle.to_tensor(ROWS)
    return paddle.static.nn.cond(n > 3, lambda: x + paddle.gather(table, (n * 2).reshape([1]))[0], lambda: x + table[n + 1])


def by_branch_in_loop(x: Any, n: Any) -> Any:
    table, first = paddle.to_tensor(ROWS), paddle.zeros([], "int64")
    step = lambda i, y: [i + 1, paddle.static.nn.cond(i > 1, lambda: y + table[i * 2], lambda: y)]
    return paddle.static.nn.while_loop(lambda i, y: i < n, step, [first, x])[1]


def by_growing(x: Any, n: Any) -> Any:
    table, first = paddle.to_tensor(ROWS), paddle.zeros([], "int64")
    step = lambda i, y: [i + 1, paddle.concat([y, table[(i * 2).reshape([1])]])]
    return paddle.static.nn.while_loop(lambda i, y: i < n, step, [first, paddle.reshape(x, [1, 2])])[1]


LOOPS = [
    (by_loop, 3, 4, "from -5 to 4 but computed 6 to 6"),
    (by_branch, 3, 5, "from -5 to 4 but computed 10 to 10"),
    (by_branch, 2, -7, "from -5 to 4 but computed -6 to -6"),
    (by_branch_in_loop, 3, 6, "from -5 to 4 but computed 6 to 6"),
    (by_growing, 3, 6, "from -5 to 4 but computed 6 to 6"),
]
NUMBER = [InputSpec([2], "float32", "x"), InputSpec([], "int64", "n")]


@pytest.mark.parametrize("function, right, wrong, message", LOOPS)
def test_branches_and_loops_tell_of_positions(tmp_path, function, right, wrong, message):
    x = paddle.ones([2])
    expected = function(x, paddle.to_tensor(right)).numpy()
    traced = paddle.jit.to_static(function, full_graph=True)
    loaded = loaded_function(function, NUMBER, tmp_path)
    for call in (traced, loaded):
        np.testing.assert_array_equal(call(x, paddle.to_tensor(right)).numpy(), expected)
        with pytest.raises(CallError, match=message):
            call(x, paddle.to_tensor(wrong))
        np.testing.assert_array_equal(call(x, paddle.to_tensor(right)).numpy(), expected)


@pytest.mark.slow
@pytest.mark.parametrize("function, right, wrong, message", LOOPS)
def test_libraries_tell_of_positions_in_branches_and_loops(tmp_path, function, right, wrong, message):
    library = paddle.compile(loaded_function(function, NUMBER, tmp_path), tmp_path / "net.so")
    x = np.ones(2, "float32")
    np.testing.assert_array_equal(library(x, np.array(right)), function(paddle.to_tensor(x), paddle.to_tensor(right)).numpy())
    with pytest.raises(CallError, match=message):
        library(x, np.array(wrong))


def test_programs_tell_of_positions_in_branches_and_loops():
    paddle.enable_static()
    try:
        for function, right, wrong, message in LOOPS[:2]:
            program = paddle.static.Program()
            with paddle.static.program_guard(program):
                x, n = paddle.static.data("x", [2]), paddle.static.data("n", [], "int64")
                result = function(x, n)
            run = lambda n, program=program, result=result: paddle.static.Executor().run(
                program, feed={"x": np.ones(2, "float32"), "n": np.array(n)}, fetch_list=[result]
            )
            assert run(right)[0].shape == (2,)
            with pytest.raises(CallError, match=message):
                run(wrong)
    finally:
        paddle.disable_static()


def test_gradients_of_loops_that_look_rows_up(tmp_path):
    traced = paddle.jit.to_static(by_loop, full_graph=True)
    x = paddle.ones([2])
    x.stop_gradient = False
    traced(x, paddle.to_tensor(3)).sum().backward()
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(CallError, match="but computed 6 to 6"):
        traced(x, paddle.to_tensor(4))


def test_a_scan_hands_on_the_first_position_that_fits_none():
    text = """func @main(%x: tensor<4x2xf32>, %i: tensor<3x2xi64>, %s: tensor<2xf32>) -> tensor<2xf32> {
      %last = nn.scan [%i], [%s], [%x] {steps = 3} : tensor<2xf32> { (%at: tensor<2xi64>, %h: tensor<2xf32>, %t: tensor<4x2xf32>)
        %k = nn.within %at {size = 4, wraps = false, place = "net.py:3:4"} : tensor<2xi64>
        %rows = nn.gather %t, %k {axis = 0} : tensor<2x2xf32>
        %row = nn.sum %rows {axis = [0]} : tensor<2xf32>
        %next = nn.add %h, %row : tensor<2xf32>
        nn.yield %next
      }
      return %last
    }"""
    func = lower(parse_module(text), to="nn").function()
    assert func.looks == ("from 0 at net.py:3:4",)
    x, s = np.zeros((4, 2), "float32"), np.zeros(2, "float32")
    for places, told in (([[0, 1], [5, 2], [-3, 9]], [2, 5, 4]), ([[0, 1], [3, 2], [1, 3]], [1, 3, 4])):
        assert evaluate(func, [x, np.array(places), s])[-1].tolist() == told


# --- in the condition of a loop


def by_condition(x: Any, n: Any) -> Any:
    table, first = paddle.to_tensor(ROWS), paddle.zeros([], "int64")
    step = lambda i, y: [i + 1, y + 1]
    return paddle.static.nn.while_loop(lambda i, y: table[i + n][0] < 8, step, [first, x])[1]


def by_condition_in_loop(x: Any, n: Any) -> Any:
    step = lambda i, y: [i + 1, by_condition(y, n + i)]
    return paddle.static.nn.while_loop(lambda i, y: i < 2, step, [paddle.zeros([], "int64"), x])[1]


def by_condition_of_growing(x: Any, n: Any) -> Any:
    more = lambda y: paddle.gather(paddle.reshape(y, [-1]), paddle.reshape(n * paddle.shape(y)[0], [1]))[0] >= 1
    return paddle.static.nn.while_loop(more, lambda y: [paddle.concat([y, y[:1] * 0])], [paddle.reshape(x, [1, 2])])[0]


@pytest.mark.parametrize(
    "function, right, wrong, message",
    [
        (by_condition, 1, 5, "from -5 to 4 but computed 5 to 5"),
        (by_condition, -3, -6, "from -5 to 4 but computed -6 to -6"),
        (by_condition_in_loop, 3, 4, "from -5 to 4 but computed 5 to 5"),
        (by_condition_of_growing, 1, 2, "from -2 to 1 but computed 2 to 2"),
    ],
)
def test_a_loop_tells_of_positions_in_its_condition(tmp_path, function, right, wrong, message):
    x = paddle.ones([2])
    expected = function(x, paddle.to_tensor(right)).numpy()
    with pytest.raises(IndexError):
        function(x, paddle.to_tensor(wrong))
    traced = paddle.jit.to_static(function, full_graph=True)
    loaded = loaded_function(function, NUMBER, tmp_path)
    for call in (traced, loaded):
        np.testing.assert_array_equal(call(x, paddle.to_tensor(right)).numpy(), expected)
        with pytest.raises(CallError, match=message):
            call(x, paddle.to_tensor(wrong))
        np.testing.assert_array_equal(call(x, paddle.to_tensor(right)).numpy(), expected)
