"""`control_flow.branch` and `loop`, and `paddle.static.nn`'s functions of them: eager and traced the same, with gradients, state and random
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.control_flow import UNDEFINED, branch, loop, steps
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.jit.program import TracedProgram
from polyreme.jit.structure import unflatten
from polyreme.jit.traced import TraceError

nn = paddle.static.nn


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function's program, whatever its branches decide about gradients: where a way reaches a tensor that another does not, `to_static`
    refuses it, and the IR has zeros.
    """
    static = paddle.jit.to_static(function, full_graph=True)
    programs: dict[str, TracedProgram] = {}

    def run(*args: Any) -> Any:
        specs = [paddle.static.InputSpec.from_tensor(arg) for arg in args]
        if str(specs) not in programs:
            traced = static.trace(specs)
            programs[str(specs)] = TracedProgram(traced, "compiled")
        program = programs[str(specs)]
        return unflatten(program.traced.outputs, iter(program(args)))

    return run


def arrays(result: Any) -> list[Any]:
    """The numbers in nested results."""
    if isinstance(result, (list, tuple)):
        return [a for part in result for a in arrays(part)]
    if isinstance(result, dict):
        return arrays(list(result.values()))
    return [np.asarray(result)]


def both(function: Callable[..., Any], *args: Any, wrt: tuple[int, ...] = ()) -> None:
    """The same eager and traced, twice each, with the gradients of the sum of all float results with respect to the arguments `wrt`."""
    traced = compiled(function) if wrt else paddle.jit.to_static(function, full_graph=True)
    for _ in range(2):
        found = []
        for run in (function, traced):
            given = [paddle.to_tensor(a, stop_gradient=i not in wrt) for i, a in enumerate(args)]
            made = run(*given)
            floats = [t for t in _tensors(made) if t.dtype in (paddle.float32, paddle.float64) and not t.stop_gradient]
            if wrt and floats:
                sum((t * t).sum() for t in floats).backward()
            found.append(arrays(made) + [np.zeros(given[i].shape) if given[i].grad is None else given[i].grad.numpy() for i in wrt])
        for eager, made in zip(*found, strict=True):
            assert eager.shape == made.shape
            np.testing.assert_allclose(made, eager, rtol=1e-4, atol=1e-5)


def _tensors(made: Any) -> list[Any]:
    if isinstance(made, (list, tuple)):
        return [t for part in made for t in _tensors(part)]
    if isinstance(made, dict):
        return _tensors(list(made.values()))
    return [made] if isinstance(made, paddle.Tensor) else []


X = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_gives_what_the_function_gives_that_runs(sign: int) -> None:
    weight = paddle.to_tensor(np.float32(3))

    def function(x: Any) -> Any:
        return branch(x.sum() > 0, lambda: {"a": x * weight, "b": (1, [x + 1])}, lambda: {"a": x.exp(), "b": (2.5, [x])})

    both(function, X * np.float32(sign), wrt=(0,))


def test_functions_that_are_none_and_conditions_that_are_no_tensors() -> None:
    x = paddle.to_tensor(X)
    assert branch(True, lambda: 1, None) == 1 and branch(x.sum() < 0, lambda: 1, None) is None
    assert loop(lambda i: i < 3, lambda i: i + 1, [0]) == [3]
    assert paddle.jit.to_static(lambda x: x * loop(lambda i: i < 3, lambda i: [i + 1], [0])[0])(x).tolist() == (X * 3).tolist()
    # A condition that is no bool: 0 does not hold.
    both(lambda x: branch(x.sum().astype("int32"), lambda: x * 2, lambda: x), X)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_loop_of_numbers_tensors_and_structures(count: int) -> None:
    net = paddle.nn.Linear(3, 3)

    def function(x: Any, n: Any) -> Any:
        return loop(
            lambda i, s: i < n,
            lambda i, s: (i + 1, {"x": net(s["x"]).tanh(), "pair": (s["pair"][1], s["x"])}),
            [0, {"x": x, "pair": (x, x * 2)}],
        )

    both(function, X, np.int64(count), wrt=(0,))


@pytest.mark.parametrize("count", [0, 3])
def test_loops_in_branches_in_loops(count: int) -> None:
    def inner(x: Any, i: Any) -> Any:
        return loop(lambda k, y: k < i, lambda k, y: [k + 1, y * 1.5 - x], [paddle.zeros([1], "int64"), x])[1]

    def function(x: Any, n: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return i + 1, branch((i % 2 == 0).all(), lambda: inner(y, i), lambda: branch(y.sum() > 1, lambda: y - 1, lambda: y + x))

        return loop(lambda i, y: i < n, step, [paddle.zeros([1], "int64"), x])

    both(function, X, np.array([count]), wrt=(0,))


@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_branch_writes_is_written_where_it_runs(sign: int) -> None:
    def seen_by(compiled: bool) -> list[Any]:
        mean, count = paddle.zeros([3]), paddle.zeros([])

        def function(x: Any) -> Any:
            def first() -> Any:
                paddle.assign(mean * 0.5 + x, mean)
                paddle.assign(count + 1, count)
                return mean * 2

            return branch(x.sum() > 0, first, lambda: x) + count

        run = paddle.jit.to_static(function, full_graph=True) if compiled else function
        results = [run(paddle.to_tensor(X * np.float32(sign * f))).numpy() for f in (1, 2)]
        return [*results, mean.numpy(), count.numpy()]

    for eager, compiled_too in zip(seen_by(False), seen_by(True), strict=True):
        np.testing.assert_allclose(compiled_too, eager, rtol=1e-6)


def test_what_a_loop_writes_and_draws_goes_from_round_to_round() -> None:
    def seen_by(compiled: bool) -> list[Any]:
        total = paddle.zeros([2])

        def function(n: Any) -> Any:
            def step(i: Any) -> Any:
                paddle.assign(total + branch(i % 2 == 0, lambda: paddle.rand([2]), lambda: paddle.ones([2])), total)
                return i + 1

            (i,) = loop(lambda i: i < n, step, [0])
            return total * 1, paddle.rand([2]), i * n

        run = paddle.jit.to_static(function, full_graph=True) if compiled else function
        paddle.seed(7)
        return [a for n in (0, 3, 5) for a in arrays(run(paddle.to_tensor(n)))] + [total.numpy()]

    for eager, compiled_too in zip(seen_by(False), seen_by(True), strict=True):
        np.testing.assert_allclose(compiled_too, eager, rtol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_sizes_may_differ_between_branches(sign: int) -> None:
    def function(x: Any) -> Any:
        y = branch(x.sum() > 0, lambda: x[:2] * 2, lambda: paddle.concat([x, x * x]))
        return y * 3, y.mean(), paddle.ones_like(y).sum()

    both(function, X * np.float32(sign), wrt=(0,))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_sizes_may_grow_in_a_loop(count: int) -> None:
    def function(x: Any, n: Any) -> Any:
        i, y, m = loop(
            lambda i, y, m: i < n, lambda i, y, m: (i + 1, paddle.concat([y, (y * m)[-1:] + 1]), paddle.concat([m, x[:1]])), [0, x, x * 2]
        )
        return y, (y + m).sum(), i + n

    with paddle.no_grad():
        both(function, X, np.int64(count))


def test_gradients_of_a_loop_that_grows_are_refused_with_the_way_out() -> None:
    def function(x: Any) -> Any:
        return loop(lambda y: y.sum() < 10, lambda y: paddle.concat([y, y]), [x])[0]

    with pytest.raises(Exception, match="write into a tensor of the full size instead, or run the loop under paddle.no_grad"):
        paddle.jit.to_static(function, full_graph=True)(paddle.to_tensor(X, stop_gradient=False))


def test_free_sizes_and_empty_tensors() -> None:
    def function(x: Any, n: Any) -> Any:
        y = branch(n > 1, lambda: x * n.astype("float32"), lambda: x - 1)
        return loop(lambda i, y: i < n, lambda i, y: (i + 1, y + x), [paddle.zeros([], "int64"), y])[1]

    traced = paddle.jit.to_static(function, input_spec=[paddle.static.InputSpec([None, 2]), paddle.static.InputSpec([], "int64")])
    for rows in (0, 1, 3):
        for n in (0, 2):
            x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
            given = paddle.to_tensor(x), paddle.to_tensor(n)
            np.testing.assert_allclose(traced(*given).numpy(), function(*given).numpy())


def test_variables_that_have_no_value_before() -> None:
    def function(x: Any, n: Any) -> Any:
        y = branch(x.sum() > 0, lambda: x * 2, lambda: UNDEFINED)
        _, last = loop(lambda i, last: i < n, lambda i, last: (i + 1, x * i.astype("float32")), [paddle.zeros([], "int64"), UNDEFINED])
        return y, last

    traced = paddle.jit.to_static(function, full_graph=True)
    y, last = traced(paddle.to_tensor(X), paddle.to_tensor(3))
    assert y.tolist() == (X * 2).tolist() and last.tolist() == (X * 2).tolist()
    y, last = traced(paddle.to_tensor(-X), paddle.to_tensor(0))
    assert y.tolist() == [0, 0, 0] and last.tolist() == [0, 0, 0]


def test_what_needs_no_gradient_has_none() -> None:
    """As in eager mode: results under no_grad, and weights that no body reads."""
    weight, other = paddle.to_tensor(2.0, stop_gradient=False), paddle.to_tensor(3.0, stop_gradient=False)

    def function(x: Any) -> Any:
        with paddle.no_grad():
            kept = branch(x.sum() > 0, lambda: x * other, lambda: x)
        if not kept.stop_gradient:
            raise ValueError
        y = branch(x.sum() > 0, lambda: x * weight + kept, lambda: x - other.detach())
        (gx, gw, go) = paddle.grad((y * y).sum(), [x, weight, other], allow_unused=True)
        if go is not None:
            raise ValueError
        return gx, gw

    x = paddle.to_tensor(X, stop_gradient=False)
    for eager, made in zip(function(x), compiled(function)(x), strict=True):
        np.testing.assert_allclose(made.numpy(), eager.numpy(), rtol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_gradients_of_gradients(count: int) -> None:
    def function(x: Any, n: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return i + 1, branch(i % 2 == 0, lambda: y * y * 0.5, lambda: (y * x).tanh())

        y = loop(lambda i, y: i < n, step, [paddle.zeros([], "int64"), x])[1]
        (g,) = paddle.grad((y * y).sum(), [x], create_graph=True)
        (gg,) = paddle.grad((g * g).sum(), [x])
        return g, gg

    x = paddle.to_tensor(X, stop_gradient=False)
    n = paddle.to_tensor(count)
    for eager, made in zip(function(x, n), compiled(function)(x, n), strict=True):
        np.testing.assert_allclose(made.numpy(), eager.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_gradients_of_loops_in_loops_of_rounds_that_nobody_knows(count: int) -> None:
    def function(x: Any, n: Any) -> Any:
        def inner(j: Any, y: Any) -> Any:
            return j + 1, y * 1.5

        def outer(i: Any, y: Any) -> Any:
            return i + 1, loop(lambda j, y: j < n, inner, [paddle.zeros([], "int64"), y])[1]

        return loop(lambda i, y: i < n, outer, [paddle.zeros([], "int64"), x * x])[1]

    n, grads = paddle.to_tensor(count), []
    for run in (function, compiled(function)):
        x = paddle.to_tensor(X, stop_gradient=False)
        run(x, n).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)


def test_what_a_loop_hands_on_as_it_was_given_is_the_tensor_itself() -> None:
    def function(x: Any, n: Any) -> Any:
        held, row = x * 1, x[0] * 1

        def step(i: Any, parts: Any, y: Any) -> Any:
            parts["held"][0].scale_(2.0)
            return i + 1, parts, y + parts["row"]

        _, parts, _ = loop(lambda i, parts, y: i < n, step, [paddle.zeros([], "int64"), {"held": held, "row": row}, row])
        assert parts["held"] is held and parts["row"] is row
        (total,) = steps(lambda a, y: y.scale_(0.5), [held], xs=[x])
        assert total is held
        return held * 1

    results = []
    for run in (function, compiled(function)):
        x = paddle.to_tensor(np.arange(1.0, 7.0, dtype="float32").reshape(2, 3), stop_gradient=False)
        made = run(x, paddle.to_tensor(2))
        made.sum().backward()
        results.append((made.tolist(), x.grad.tolist()))
    assert results[0] == results[1] == ([[1, 2, 3], [1, 1.25, 1.5]], [[1, 1, 1], [0.25, 0.25, 0.25]])


def test_rows_that_steps_go_through_are_not_written_to() -> None:
    def function(x: Any) -> Any:
        z = x * 1
        steps(lambda a: (a.scale_(2.0), [])[1], [], xs=[z])
        return z * 1

    x = paddle.to_tensor([[1.0, 2.0]])
    assert function(x).tolist() == [[2, 4]]
    with pytest.raises(TraceError, match="a tensor is written to that is another one, or shares contents with it, if a tensor decides so"):
        compiled(function)(x)


def test_a_result_that_is_known_no_more_is_told_by_the_line_of_the_write() -> None:
    @paddle.jit.to_static(full_graph=True)
    def function(x: Any) -> Any:
        x = x * 2
        y = x
        if y.sum() > 0:
            y = y + 1
        y[:] *= 0.5
        return x

    with pytest.raises(TraceError, match="a tensor is written to that is another one") as caught:
        function(paddle.ones([3]))
    place = caught.value.diagnostics[0].location
    assert place.file == __file__ and Path(__file__).read_text(encoding="utf-8").splitlines()[place.line - 1].strip() == "y[:] *= 0.5"


REFUSED = {
    "element types": (
        lambda x: branch(x.sum() > 0, lambda: x, lambda: x.astype("float64")),
        "both branches to give tensors of one dtype and rank as result",
    ),
    "ranks": (
        lambda x: branch(x.sum() > 0, lambda: (x, x), lambda: (x, x.sum())),
        r"as result\[1\] but the first one gives tensor<3xf32> and the second one tensor<f32>",
    ),
    "structures": (
        lambda x: branch(x.sum() > 0, lambda: (x, x), lambda: x),
        "the first one gives a tuple of 2 and the second one a tensor",
    ),
    "text": (lambda x: branch(x.sum() > 0, lambda: (x, "a"), lambda: (x, "b")), "the first one gives 'a' and the second one 'b'"),
    "a condition of many elements": (lambda x: branch(x > 0, lambda: x, lambda: x), "reduce it with paddle.all or paddle.any"),
    "a carried element type": (
        lambda x: loop(lambda y: y.sum() < 9, lambda y: y.astype("float64"), [x])[0],
        r"expected carried\[0\] to keep its dtype and rank",
    ),
    "a carried structure": (
        lambda x: loop(lambda y, z: y.sum() < 9, lambda y, z: (y, [z]), [x, x])[0],
        "expected the body of a loop to return what it is given",
    ),
    "a value that leaks": (lambda x: _leaking(x), "a list is changed in a branch, a loop"),
}


def _leaking(x: Any) -> Any:
    kept = []
    branch(x.sum() > 0, lambda: kept.append(x * 2), lambda: None)
    return kept[0]


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused_says_why_at_the_users_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(TraceError, match=message) as caught:
        paddle.jit.to_static(function, full_graph=True)(paddle.to_tensor(X))
    assert __file__ in str(caught.value)


def test_an_error_in_a_body_leaves_tensors_as_they_were() -> None:
    state = paddle.zeros([3])

    def function(x: Any) -> Any:
        def first() -> Any:
            paddle.assign(state + x, state)
            raise KeyError("mine")

        return branch(x.sum() > 0, first, lambda: x)

    with pytest.raises(TraceError, match="KeyError, if a tensor decides to come here: 'mine'"):
        paddle.jit.to_static(function, full_graph=True)(paddle.to_tensor(X))
    assert state.tolist() == [0, 0, 0]


def test_the_page_on_branches_and_loops_says_what_is_so() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "control_flow.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(example, "control_flow.md", "exec"), {})
    (module,) = re.findall(r"```mlir\n(.*?)```", page, re.S)
    verify(parse_module(module))


# --- Paddle's own functions


@pytest.mark.parametrize("value", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("index", [1, 3, 5, 9])
def test_cond_case_switch_case_and_while_loop(value: float, index: int) -> None:
    def function(x: Any, k: Any) -> Any:
        picked = nn.switch_case(k, {1: lambda: x * 2, 5: lambda: x + 1, 3: lambda: x - 1})
        first = nn.case([(x.sum() > 10, lambda: x), (x.sum() > 5, lambda: x * 10)], default=lambda: x * 100)
        pair = nn.cond(x.sum() > 3, lambda: {"p": (x, [x + 1]), "q": 1}, lambda: {"p": (x * 2, [x]), "q": 2})
        i, y = nn.while_loop(lambda i, y: i < k, lambda i, y: [i + 1, y * 1.5], [paddle.zeros([1], "int64"), x])
        return picked, first, pair, i, y

    both(function, np.full(3, value, np.float32), np.array([index]), wrt=(0,))


def test_paddles_functions_check_their_arguments() -> None:
    x = paddle.to_tensor(X)
    for call, message in (
        (lambda: nn.cond(1, None, None), "cond expected a bool tensor"),
        (lambda: nn.cond(x.sum() > 0, 3), "The true_fn in cond must be callable, but received int"),
        (lambda: nn.while_loop(1, 2, [x]), "cond in while_loop should be callable"),
        (lambda: nn.while_loop(lambda y: y.sum() > 0, 2, [x]), "body in while_loop should be callable"),
        (lambda: nn.case([(x.sum() > 0, 1)]), "The fn of pred_fn_pairs in Op.case. must be callable"),
        (lambda: nn.switch_case(x, [lambda: x]), "uint8, int32 or int64"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    for call, message in (
        (lambda: nn.while_loop(lambda y: y.sum() > 0, lambda y: y, []), "loop_vars in while_loop should not be empty"),
        (lambda: nn.while_loop(lambda y: y.sum() < 9, lambda y: [y, y], [x]), "should return the same arity"),
        (lambda: nn.switch_case(paddle.to_tensor(1), [(1, lambda: x), (1, lambda: x)]), "must be unique, but '1' appears"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_steps_go_through_the_rows_of_tensors(rows: int, reverse: bool) -> None:
    net = paddle.nn.Linear(3, 3)

    def function(x: Any, first: Any) -> Any:
        total = paddle.zeros([3])

        def step(row: Any, count: Any, h: Any) -> Any:
            paddle.assign(total + row.detach(), total)
            return count + 1, branch(h.sum() > 0, lambda: net(h) * row, lambda: (h - row).tanh())

        count, last = steps(step, [0, first], [x], reverse=reverse)
        return last, total * 1 + count

    both(function, np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32), X, wrt=(0, 1))


def test_steps_of_a_free_number_have_gradients_in_one_native_part() -> None:
    def function(x: Any) -> Any:
        return steps(lambda row, h: (h * row).tanh() + 1, [x.sum(0)], [x])[0]

    traced = paddle.jit.to_static(function, input_spec=[paddle.static.InputSpec([None, 3])])
    for rows in (1, 5):
        found = []
        for run in (function, traced):
            x = paddle.to_tensor(np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32), stop_gradient=False)
            run(x).sum().backward()
            found.append(x.grad.numpy())
        np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "bfloat16", "float16", "float64"])
def test_carried_values_of_all_kinds_of_floats(dtype: str) -> None:
    def function(x: Any, n: Any) -> Any:
        y = loop(
            lambda i, y: i < n, lambda i, y: (i + 1, branch(i % 2 == 0, lambda: y * x, lambda: y - x)), [paddle.zeros([], "int64"), x]
        )[1]
        return steps(lambda row, h: h + row, [y[0]], [y])[0]

    x = np.array([1.5, -0.5, 2.0])
    given = paddle.to_tensor(x + 1j * x[::-1] if "complex" in dtype else x).astype(dtype)
    traced = paddle.jit.to_static(function, full_graph=True)
    for n in (0, 1, 3):
        found, wanted = traced(given, paddle.to_tensor(n)), function(given, paddle.to_tensor(n))
        assert found.dtype == wanted.dtype and found.astype("complex128").tolist() == wanted.astype("complex128").tolist()


def test_sizes_that_a_body_needs_to_be_equal_are_checked_at_the_call() -> None:
    def function(x: Any, y: Any, n: Any) -> Any:
        return loop(lambda i, h: i < n, lambda i, h: (i + 1, h + y), [paddle.zeros([], "int64"), x])[1]

    free = paddle.static.InputSpec([None, 4])
    traced = paddle.jit.to_static(function, input_spec=[free, free, paddle.static.InputSpec([], "int64")], full_graph=True)
    ones, two = paddle.ones([3, 4]), paddle.to_tensor(2)
    assert traced(ones, ones, two).tolist() == [[3] * 4] * 3
    with pytest.raises(ValueError, match="expected y_0 to be equal to N .* but got 2"):
        traced(ones, ones[:2], two)


def test_a_saved_program_with_branches_becomes_part_of_another_and_keeps_its_sizes_apart(tmp_path: Any) -> None:
    """Sizes that a body learns have names, which the program around has as well."""

    class Kept(paddle.nn.Layer):
        def forward(self, x: Any, n: Any) -> Any:
            def step(i: Any, y: Any) -> Any:
                return i + 1, branch(y.sum() > 0, lambda: y - y[y > 0].mean(), lambda: paddle.concat([y, y])[:3] + 1)

            return loop(lambda i, y: i < n, step, [paddle.zeros([], "int64"), x])[1]

    specs = [paddle.static.InputSpec([3], "float32", "x"), paddle.static.InputSpec([], "int64", "n")]
    net = Kept()
    paddle.jit.save(paddle.jit.to_static(net, input_spec=specs), str(tmp_path / "kept"))
    loaded = paddle.jit.load(str(tmp_path / "kept"))

    def twice(x: Any, n: Any, run: Any) -> Any:
        few = x[x > 1]
        return run(run(x, n) + few.sum(), n) * few.mean()

    traced = paddle.jit.to_static(lambda x, n: twice(x, n, loaded))
    for n in (0, 1, 3):
        for values in ([2.0, -1.0, 3.0], [0.5, 2.0, -4.0]):
            x, count = paddle.to_tensor(values), paddle.to_tensor(n)
            np.testing.assert_allclose(traced(x, count).numpy(), twice(x, count, net).numpy(), rtol=1e-5)


def test_leaves_made_in_a_loop_are_refused() -> None:
    """As descent has them: which tensors get gradients is for the tape to say, which a program does not have."""

    def function(x: Any, n: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            y = y.detach()
            y.stop_gradient = False
            (g,) = paddle.grad((y**4).sum(), [y])
            return i + 1, (y - 0.1 * g).detach()

        return loop(lambda i, y: i < n, step, [paddle.zeros([], "int64"), x])[1]

    x, n = paddle.to_tensor(X), paddle.to_tensor(3)
    np.testing.assert_allclose(paddle.jit.to_static(function)(x, n).numpy(), function(x, n).numpy(), rtol=1e-5)
    with pytest.raises(TraceError, match="made inside the function is to get gradients"):
        paddle.jit.to_static(function, full_graph=True)(x, n)
