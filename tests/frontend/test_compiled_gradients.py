"""Gradients of compiled functions are those of the functions themselves: values, which there are, and of any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.jit.traced import TraceError
from polyreme.static import InputSpec

VALUES = {
    "x": [[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]],
    "y": [[1.5, 0.6, -0.8], [-0.2, 1.1, 0.9]],
}


def tensors(dtype: str = "float32", names: str = "xy") -> list[Any]:
    made = []
    for name in names:
        numbers = np.array(VALUES[name])
        if dtype.startswith("complex"):
            numbers = numbers + 1j * numbers[::-1]
        tensor = (
            paddle.to_tensor(numbers.astype(dtype))
            if dtype != "bfloat16"
            else paddle.to_tensor(numbers.astype("float32")).astype("bfloat16")
        )
        tensor.stop_gradient = False
        made.append(tensor)
    return made


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def numbers(tensor: Any) -> Any:
    if tensor is None:
        return None
    return (tensor.astype("float32") if tensor.dtype == paddle.bfloat16 else tensor).numpy()


def same(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert (actual is None) == (expected is None), (actual, expected)
    if expected is not None:
        assert actual.dtype == expected.dtype and actual.stop_gradient == expected.stop_gradient
        np.testing.assert_allclose(numbers(actual), numbers(expected), rtol=tolerance, atol=tolerance)


def weighted(results: list[Any], which: tuple[int, ...]) -> Any:
    """A number of these results, each part of which weighs differently."""
    total: Any = 0.0
    for i in which:
        r = results[i]
        for part in (paddle.real(r), paddle.imag(r)) if r.dtype in (paddle.complex64, paddle.complex128) else (r.astype("float32"),):
            weights = paddle.to_tensor(np.arange(1, part.size + 1).reshape(part.shape).astype("float32"))
            total = (part * weights).sum() + total
    return total


def split_stopped(x: Any, y: Any) -> Any:
    with paddle.no_grad():
        target = x * 2
    return target, (x * 3).detach(), x * y, (x > 0), x.argmax(1), y.astype("int32")


def parts_of_one(x: Any, y: Any) -> Any:
    a, b = paddle.split(x * x, [1, 2], axis=1)
    return a, b, paddle.exp(y)


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "each of its own": (lambda x, y: (x * 3, paddle.tanh(y)), [(0,), (1,), (0, 1)]),
    "stopped, compared, whole numbers": (split_stopped, [(2,)]),
    "some parts": (parts_of_one, [(0,), (1,), (0, 2)]),
    "an input itself": (lambda x, y: (x, y * 2), [(0,), (1,)]),
    "one result twice": (lambda x, y: [x * y] * 2, [(0,), (0, 1)]),
    "a root at nothing": (lambda x, y: (paddle.sqrt(x * 0), x * y), [(1,)]),
    "the second is a mask": (lambda x, y: paddle.where(y > 0, x, -x), [(0,)]),
    "the second is a size only": (lambda x, y: x.expand_as(y) * 2, [(0,)]),
    "rows by number": (lambda x, y: paddle.gather(x, y.argmax(0)) + 1, [(0,)]),
    "softmax and a product": (lambda x, y: (nn.functional.softmax(x) @ y.T, y.mean()), [(0,), (1,)]),
}
CASES = [(name, which) for name, (_, choices) in FUNCTIONS.items() for which in choices]
compiled_functions = {name: paddle.jit.to_static(function) for name, (function, _) in FUNCTIONS.items()}


@pytest.mark.parametrize(("name", "which"), CASES)
def test_gradients_and_their_absence_are_those_of_the_eager_function(name: str, which: tuple[int, ...]) -> None:
    found = []
    for function in (FUNCTIONS[name][0], compiled_functions[name]):
        given = tensors()
        results = listed(function(*given))
        weighted(results, which).backward()
        found.append((results, [t.grad for t in given]))
    for (plain, compiled) in zip(*(results + grads for results, grads in found), strict=True):
        same(compiled, plain)


def test_a_second_backward_of_other_results_adds_theirs() -> None:
    function = paddle.jit.to_static(lambda x, y: (x * x, x * y))
    x, y = tensors()
    first, second = function(x, y)
    first.sum().backward(retain_graph=True)
    assert y.grad is None
    second.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() + y.numpy(), rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), x.numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        second.sum().backward()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64", "complex128"])
def test_gradients_have_the_element_type_of_their_tensor(dtype: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return x * y + x, (y - x) * y

    compiled = paddle.jit.to_static(function)
    found = []
    for f in (function, compiled):
        given = tensors(dtype)
        results = listed(f(*given))
        weighted(results, (0,)).backward()
        found.append([*results, *(t.grad for t in given)])
    tolerance = {"bfloat16": 2e-2, "float16": 4e-3}.get(dtype, 1e-5)
    for compiled_one, plain in zip(found[1], found[0], strict=True):
        same(compiled_one, plain, tolerance)


@pytest.mark.parametrize(
    "function",
    [lambda z: paddle.real(z) * 2 + paddle.imag(z) * 3, lambda z: z * z, lambda z: paddle.abs(z), lambda z: z.conj() * z + 1],
    ids=["parts", "square", "magnitude", "conjugate"],
)
def test_gradients_of_complex_numbers_are_those_of_the_eager_function(function: Any) -> None:
    found = []
    for f in (function, paddle.jit.to_static(function)):
        (z,) = tensors("complex64", "x")
        result = f(z)
        weighted([result], (0,)).backward()
        found.append((result, z.grad))
    same(found[1][0], found[0][0])
    same(found[1][1], found[0][1])


def test_complex_results_of_real_numbers_go_backward() -> None:
    function = paddle.jit.to_static(lambda x: paddle.complex(x * 2, x * x))
    x = paddle.to_tensor([1.0, 3.0], stop_gradient=False)
    z = function(x)
    (paddle.real(z) + paddle.imag(z)).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


# --- higher orders


def cubic(x: Any, y: Any) -> Any:
    return x * x * x * y, paddle.sin(y)


def with_a_net(x: Any, y: Any) -> Any:
    return paddle.tanh(x @ y.T).sum(1)


@pytest.mark.parametrize("function", [cubic, with_a_net])
def test_gradients_of_gradients_are_those_of_the_eager_function(function: Any) -> None:
    found = []
    for f in (function, paddle.jit.to_static(function)):
        x, y = tensors()
        orders = []
        value = weighted(listed(f(x, y)), (0,))
        for _ in range(3):
            grads = paddle.grad(value, [x, y], create_graph=True, allow_unused=True)
            orders += grads
            value = weighted(listed(grads), (0, 1))
        value.backward()
        found.append([*orders, x.grad, y.grad])
    for compiled, plain in zip(found[1], found[0], strict=True):
        same(compiled, plain, 1e-4)


def test_a_gradient_penalty_reaches_the_weights_of_a_compiled_net() -> None:
    found = []
    for compile_it in (False, True):
        paddle.seed(3)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        if compile_it:
            net = paddle.jit.to_static(net)
        (x,) = tensors("float32", "x")
        (slope,) = paddle.grad(net(x).sum(), x, create_graph=True)
        ((slope.square().sum(1) - 1) ** 2).mean().backward()
        found.append([slope, *(p.grad for p in net.parameters())])
    assert found[0][-1] is None  # the last bias
    for compiled, plain in zip(found[1], found[0], strict=True):
        same(compiled, plain)


def test_gradients_of_gradients_draw_no_other_random_numbers() -> None:
    paddle.seed(5)
    function = paddle.jit.to_static(lambda x: nn.functional.dropout(x, 0.5) ** 3)
    x = paddle.ones([64])
    x.stop_gradient = False
    y = function(x)
    kept = y.numpy() != 0
    (first,) = paddle.grad(y.sum(), x, create_graph=True)
    (second,) = paddle.grad(first.sum(), x)
    np.testing.assert_allclose(first.numpy(), np.where(kept, 24.0, 0.0), rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), np.where(kept, 48.0, 0.0), rtol=1e-5)


# --- around the function


def test_one_tensor_given_twice_gets_both_gradients() -> None:
    function = paddle.jit.to_static(lambda a, b: a * b * b)
    (x,) = tensors("float32", "x")
    function(x, x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.numpy() ** 2, rtol=1e-5)


def test_gradients_go_to_intermediates_and_hooks_outside_are_called() -> None:
    function = paddle.jit.to_static(lambda a, b: a * b)
    x, y = tensors()
    h = x * 2
    h.retain_grads()
    seen: list[Any] = []
    h.register_hook(lambda g: seen.append(g.numpy()))
    result = function(h, y)
    result.retain_grads()
    result.register_hook(lambda g: g * 10)
    (to_h,) = paddle.grad(result.sum(), h, retain_graph=True)
    np.testing.assert_allclose(to_h.numpy(), 10 * y.numpy(), rtol=1e-6)
    assert paddle.grad(result.sum(), [x], no_grad_vars=[h], allow_unused=True, retain_graph=True) == [None]
    y.register_hook(lambda g: g + 1)
    result.sum().backward()
    np.testing.assert_allclose(result.grad.numpy(), np.full([2, 3], 10.0))
    np.testing.assert_allclose(h.grad.numpy(), 10 * y.numpy(), rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), 10 * h.numpy() + 1, rtol=1e-6)
    np.testing.assert_allclose(seen[-1], 10 * y.numpy(), rtol=1e-6)


def test_an_argument_that_is_changed_before_backward_is_an_error_where_its_value_is_needed() -> None:
    function = paddle.jit.to_static(lambda a, b: (a * b, b + 1))
    x, y = tensors()
    y.stop_gradient = True
    product, _ = function(x, y)
    y.add_(paddle.ones([2, 3]))
    with pytest.raises(RuntimeError, match="argument 'b' of .* has been modified by an inplace operation"):
        product.sum().backward()
    y.stop_gradient = False
    _, more = function(x.detach(), y)
    with paddle.no_grad():
        y.add_(paddle.ones([2, 3]))
    more.sum().backward()
    assert y.grad.tolist() == [[1.0] * 3] * 2


def test_gradients_flow_through_tensors_that_the_function_writes() -> None:
    found = []
    for compile_it in (False, True):
        total = paddle.zeros([2, 3])

        def function(x: Any, total: Any = total) -> Any:
            total.add_(x * x)
            return total * 2

        f = paddle.jit.to_static(lambda x, function=function: function(x)) if compile_it else function
        (x,) = tensors("float32", "x")
        first = f(x)
        second = f(x)
        assert not total.stop_gradient and total.inplace_version == 2
        (first.sum() + second.sum() + total.sum()).backward()
        found.append([total, first, second, x.grad])
    for compiled, plain in zip(found[1], found[0], strict=True):
        same(compiled, plain)


def test_weights_that_share_an_array_have_gradients_of_their_own() -> None:
    first, second = paddle.ones([2]), paddle.zeros([2])
    second.set_value(first)
    first.stop_gradient = second.stop_gradient = False
    function = paddle.jit.to_static(lambda x: x * first * 2 + x * second * 3)
    function(paddle.ones([2])).sum().backward()
    assert first.grad.tolist() == [2.0, 2.0] and second.grad.tolist() == [3.0, 3.0]
    with paddle.no_grad():
        first.add_(paddle.ones([2]))
    assert function(paddle.ones([2])).tolist() == [7.0, 7.0]


def test_a_leaf_that_needs_gradients_cannot_be_written_while_they_are_recorded() -> None:
    (w,) = tensors("float32", "x")
    before = w.numpy()

    def function(x: Any) -> Any:
        w.add_(x * w)
        return w * 2

    for f in (function, paddle.jit.to_static(function)):
        with pytest.raises(ValueError, match="that doesn't stop gradient can't use inplace strategy"):
            f(paddle.ones([2, 3]))
        np.testing.assert_array_equal(w.numpy(), before)


def test_a_detached_tensor_that_needs_gradients_again_is_a_leaf_inside() -> None:
    def function(x: Any) -> Any:
        d = x.detach()
        d.stop_gradient = False
        return (d * d).sum() + x.sum()

    compiled = paddle.jit.to_static(function)
    found = []
    for f in (function, compiled):
        (x,) = tensors("float32", "x")
        loss = f(x)
        loss.backward()
        found.append((loss, x.grad))
    for plain, other_one in zip(*found, strict=True):
        same(other_one, plain)


def test_the_backward_of_a_free_size_takes_any_choice_of_results() -> None:
    function = paddle.jit.to_static(lambda x, w: (x @ w, (x.sum() * w).sum(), x + 1), input_spec=[InputSpec([None, 3]), InputSpec([3, 2])])
    w = paddle.to_tensor(np.arange(6, dtype="float32").reshape(3, 2), stop_gradient=False)
    for rows in (1, 2):
        x = paddle.ones([rows, 3])
        x.stop_gradient = False
        first, second, third = function(x, w)
        w.clear_grad()
        second.backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), np.full([rows, 3], 15.0))
        np.testing.assert_allclose(w.grad.numpy(), np.full([3, 2], rows * 3.0))
        third.sum().backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), np.full([rows, 3], 16.0))
        (first.sum()).backward()
        np.testing.assert_allclose(w.grad.numpy(), np.full([3, 2], rows * 4.0))


# --- the user's own gradients


class StraightThrough(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return paddle.round(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensor()
        return grad * 7 + x


class ScaledProduct(paddle.autograd.PyLayer):
    """Two results, one of them without gradient; the second input has none, either."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, factor: float) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        sign = paddle.sign(x)
        ctx.mark_non_differentiable(sign)
        return x * y * factor, sign

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        x, y = ctx.saved_tensor()
        return grad * y * ctx.factor * x, None


class Outer(paddle.autograd.PyLayer):
    """Calls another one, and goes backward through it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return StraightThrough.apply(grad * ctx.saved_tensor()[0])


class Clipped(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        small = paddle.zeros_like(grad)
        small[0] = grad[0] / 2
        return small


OWN_RULES: dict[str, Callable[..., Any]] = {
    "straight through": lambda x, y: StraightThrough.apply(x * 2).sum() + (y * y).sum(),
    "two results": lambda x, y: ScaledProduct.apply(x * x, y, 3.0),
    "one in another": lambda x, y: Outer.apply(x * y),
    "a part of a gradient": lambda x, y: Clipped.apply(x) * y,
    "nothing to record": lambda x, y: StraightThrough.apply(x.detach()) * y,
    "the input itself": lambda x, y: StraightThrough.apply(StraightThrough.apply(x)),
}


@pytest.mark.parametrize("name", OWN_RULES)
def test_the_backward_of_a_pylayer_in_a_compiled_function_is_its_own(name: str) -> None:
    function = OWN_RULES[name]
    found = []
    for f in (function, paddle.jit.to_static(function)):
        given = tensors()
        results = listed(f(*given))
        first = paddle.grad(weighted(results, (0,)), given, create_graph=True, allow_unused=True)
        value = sum(((g * g).sum() for g in first if g is not None and not g.stop_gradient), paddle.zeros([]))
        if not value.stop_gradient:
            value.backward()
        found.append([*results, *first, *(t.grad for t in given)])
    for compiled, plain in zip(found[1], found[0], strict=True):
        same(compiled, plain)


def test_a_pylayer_in_a_compiled_function_takes_free_sizes_and_gives_results_without_gradients() -> None:
    function = paddle.jit.to_static(lambda x: Clipped.apply(x * 3), input_spec=[InputSpec([None, 3])])
    for rows in (2, 4):
        x = paddle.ones([rows, 3])
        assert function(x).tolist() == [[3.0] * 3] * rows
        x.stop_gradient = False
        function(x).sum().backward()
        assert x.grad.tolist() == [[1.5] * 3] + [[0.0] * 3] * (rows - 1)


def hooked_late(x: Any, y: Any) -> Any:
    h = x * y
    used = h.exp()
    h.register_hook(lambda g: g * 10 + 1)
    return used + h


def hooked_twice(x: Any, y: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: g + y)
    h.register_hook(lambda g: paddle.clip(g, -0.5, 0.5))
    h.register_hook(lambda g: None)
    return h * y


def hooked_by_itself(x: Any, y: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: g * h)
    z = y * 3
    h.register_hook(lambda g: g + z * h)
    handle = h.register_hook(lambda g: g * 100)
    handle.remove()
    return h * h


def hooked_and_not(x: Any, y: Any) -> Any:
    h = x * y
    handle = h.register_hook(lambda g: g * 10)
    z = h * 2
    assert handle.remove() and not handle.remove()
    return z


@pytest.mark.parametrize("function", [hooked_late, hooked_twice, hooked_by_itself, hooked_and_not])
def test_hooks_on_intermediates_of_a_compiled_function_are_called(function: Any) -> None:
    found = []
    for f in (function, paddle.jit.to_static(function)):
        given = tensors()
        result = f(*given)
        weighted([result], (0,)).backward()
        found.append([result, *(t.grad for t in given)])
    for compiled, plain in zip(found[1], found[0], strict=True):
        same(compiled, plain)


log: list[Any] = []


def keeping(x: Any) -> Any:
    h = x * 2
    h.retain_grads()
    return h * h


weight = paddle.ones([2, 3])
weight.stop_gradient = False


def appending(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: log.append(g))
    return h * h


def printing(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: print(g))
    return h * h


def keep(g: Any) -> Any:
    log.append(g)
    return g


def by_another_function(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: keep(g) * 2)
    return h * h


class Recorder:
    def seen(self, g: Any) -> None:
        self.last = g

    def call(self, x: Any) -> Any:
        h = x * 2
        h.register_hook(lambda g: self.seen(g))
        return h * h


def random_noise(x: Any) -> Any:
    h = x * 2
    h.register_hook(lambda g: g * np.random.rand())
    return h * h


def on_an_argument(x: Any) -> Any:
    x.register_hook(lambda g: g * 2)
    return x * x


def after_the_use_of_a_later_one(x: Any) -> Any:
    h = x * 2
    z = h * h
    h.register_hook(lambda g: g * z)
    return z


class Counting(paddle.autograd.PyLayer):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        Counting.calls += 1
        return grad


class Reading(Counting):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * float(grad.sum())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (keeping, "retain_grads"),
        (appending, "a list is changed in a branch, a loop or a rule of gradients"),
        (by_another_function, "a list is changed in a branch, a loop or a rule of gradients"),
        (Recorder().call, "a Recorder is changed in a branch, a loop or a rule of gradients"),
        (random_noise, "a method of a RandomState is called"),
        (printing, "'print' is called"),
        (on_an_argument, "'Tensor.register_hook' is used"),
        (after_the_use_of_a_later_one, "before its tensor is used"),
        (lambda x: Counting.apply(x), "an attribute of 'Counting' is set"),
        (lambda x: Reading.apply(x), r"Reading.backward to be made of tensor functions but float\(\)"),
    ],
)
def test_what_cannot_be_captured_of_a_backward_is_refused_at_its_line(function: Any, message: str) -> None:
    (x,) = tensors("float32", "x")
    with pytest.raises(TraceError, match=message) as caught:
        paddle.jit.to_static(function, full_graph=True)(x)
    assert caught.value.diagnostics[0].location.file == __file__
    assert Counting.calls == 0 and not log and weight.grad is None and x.grad is None


def test_gradients_taken_inside_a_compiled_function_have_gradients_themselves() -> None:
    @paddle.jit.to_static
    def penalty(x: Any) -> Any:
        (slope,) = paddle.grad((x * x * x).sum(), x, create_graph=True)
        return (slope * slope).sum()

    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y = penalty(x)
    y.backward()
    assert y.item() == 153.0 and x.grad.tolist() == [36.0, 288.0]


def test_rules_of_ones_own_hold_in_branches_and_loops() -> None:
    (w,) = tensors("float32", "y")

    def function(x: Any) -> Any:
        def then() -> Any:
            h = x * x * w
            h.register_hook(lambda g: g * 2)
            return StraightThrough.apply(h) * 1.0

        result = paddle.static.nn.cond(x.sum() > 0, then, lambda: x * w)
        return paddle.static.nn.while_loop(lambda i, s: i < 2, lambda i, s: [i + 1, s * w], [paddle.zeros([], "int64"), result])[1]

    compiled = paddle.jit.to_static(function)
    for sign in (1, -1):
        found = []
        for f in (function, compiled):
            x = paddle.to_tensor(np.array([[0.3, 1.2, 2.0], [0.7, 0.1, 0.4]], "float32") * sign, stop_gradient=False)
            result = f(x)
            first = paddle.grad(result.sum(), [x, w], create_graph=True)
            second = paddle.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), [x, w])
            found.append([result, *first, *second])
        for plain, compiled_one in zip(*found, strict=True):
            same(compiled_one, plain, 1e-4)
