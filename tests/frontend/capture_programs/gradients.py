"""Programs of gradients: none, stopped, hooked, of one's own, of higher order, recomputed."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.autograd import PyLayer
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program, three
from tests.frontend.capture_programs.layers import Net


class Clipped(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any, bound: float = 1.0) -> Any:
        ctx.bound = bound
        ctx.save_for_backward(x)
        return paddle.clip(x, -bound, bound)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensor()
        return grad * 3 * ctx.bound + x * 0


class TwoIn(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y, x * y

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        return a * 5, None


@program()
def an_argument_that_is_not_used_has_no_gradient(p: Run) -> None:
    w = p.g(3)
    unused = p.g(3)

    @p.static
    def function(x: Any, y: Any) -> Any:
        unused * 2
        return x * w

    p.watch(w, unused)
    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), p.g(rows, 3))


@program()
def a_parameter_that_is_not_reached_has_none(p: Run) -> None:
    net = Net()

    @p.static
    def function(x: Any) -> Any:
        return net.encode(x)

    p.watch(net)
    three(p, function)


@program()
def gradients_are_stopped_inside(p: Run) -> None:
    layer = nn.Linear(3, 3)

    @p.static
    def function(x: Any) -> Any:
        with paddle.no_grad():
            a = layer(x)
        b = layer(x).detach()
        return x * 2 + a + b, a, b

    p.watch(layer)
    three(p, function)


@program()
def no_grad_as_a_decorator_and_enable_grad(p: Run) -> None:
    layer = nn.Linear(3, 3)

    @paddle.no_grad()
    def fixed(x: Any) -> Any:
        with paddle.enable_grad():
            y = layer(x)
        return y * 2, y

    @p.static
    def function(x: Any) -> Any:
        a, b = fixed(x)
        return a + x, a, b

    p.watch(layer)
    three(p, function)


@program(whole=False)
def it_is_asked_whether_gradients_are_on(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * 2 if paddle.is_grad_enabled() else x * 3

    three(p, function)
    with paddle.no_grad():
        three(p, function)


@program()
def a_function_is_called_under_no_grad_and_not(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * 2, x.stop_gradient

    three(p, function)
    with paddle.no_grad():
        three(p, function)


@program(whole=False)
def a_pylayer_with_a_scale(p: Run) -> None:
    @p.static
    def function(x: Any, bound: float) -> Any:
        return Clipped.apply(x * 2, bound) + 1

    for rows, bound in ((2, 1.0), (2, 0.5), (4, 0.5)):
        p.call(function, p.g(rows, 3), bound)


@program(whole=False)
def a_pylayer_of_two_with_a_missing_gradient(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        a, b = TwoIn.apply(x * 1, y)
        return a + b

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), p.g(rows, 3))


@program(whole=False)
def a_hook_on_an_intermediate(p: Run) -> None:
    seen: list[Any] = []

    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum()) or g * 10)  # type: ignore[func-returns-value]
        return y * 3

    p.watch(seen)
    three(p, function)


@program()
def hooks_on_leaves_outside(p: Run) -> None:
    layer = nn.Linear(3, 2)
    handle = layer.weight.register_hook(lambda g: g * 2)

    @p.static
    def function(x: Any) -> Any:
        return layer(x)

    p.watch(layer)
    three(p, function)
    handle.remove()
    three(p, function)


@program(whole=False)
def retained_gradients_of_an_intermediate(p: Run) -> None:
    held: dict[str, Any] = {}

    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        y.retain_grads()
        held["y"] = y
        return y * 3

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))
        p.note(held["y"].grad)


@program()
def a_penalty_of_gradients(p: Run) -> None:
    layer = nn.Linear(3, 1)

    @p.static
    def function(x: Any) -> Any:
        y = paddle.tanh(layer(x)).sum()
        (g,) = paddle.grad(y, [x], create_graph=True)
        return (g**2).sum() + y

    p.watch(layer)
    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))


@program()
def gradients_taken_inside_without_a_graph(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = (x**3).sum()
        (g,) = paddle.grad(y, [x])
        return g + x * 2

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))


@program()
def second_gradients_through_a_compiled_function(p: Run) -> None:
    w = p.g(3)

    @p.static
    def function(x: Any) -> Any:
        return paddle.tanh(x * w) * x

    for rows in (2, 2, 4):
        x = p.g(rows, 3)
        y = function(x)
        (g,) = paddle.grad(y.sum(), [x], create_graph=True)
        (h,) = paddle.grad((g * g).sum(), [x], create_graph=True)
        (h.sum() + g.sum()).backward()
        p.call(lambda *given: [v.detach() for v in given], x.grad, w.grad, g, h)
        w.clear_grad()


@program()
def gradients_add_up_over_calls(p: Run) -> None:
    layer = nn.Linear(3, 2)

    @p.static
    def function(x: Any) -> Any:
        return layer(x).square().mean()

    p.watch(layer)
    three(p, function)
    for rows in (2, 4):
        for _ in range(2):
            function(p.t(rows, 3)).backward()
        p.note((layer.weight.grad, layer.bias.grad))
        layer.clear_gradients()


@program()
def two_results_go_backward_apart(p: Run) -> None:
    w = p.g(3)

    @p.static
    def function(x: Any) -> Any:
        y = paddle.exp(x * 0.1)
        return (y * w).sum(), (y + w).sum()

    three(p, function)
    for rows in (2, 4):
        x = p.g(rows, 3)
        a, b = function(x)
        a.backward(retain_graph=True)
        p.note((x.grad, w.grad))
        b.backward()
        p.note((x.grad, w.grad))
        w.clear_grad()


@program()
def one_result_alone_goes_backward(p: Run) -> None:
    w, v = p.g(3), p.g(3)

    @p.static
    def function(x: Any) -> Any:
        return (x * w).sum(), (x * v).sum()

    three(p, function)
    a, _ = function(p.t(2, 3))
    a.backward()
    p.note((w.grad, v.grad))


@program()
def backward_twice_is_the_same_error(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return (x * x).sum()

    def both(x: Any) -> Any:
        y = function(x)
        y.backward()
        try:
            y.backward()
        except RuntimeError as error:
            return type(error).__name__
        return "none"

    for rows in (2, 2, 4):
        p.call(both, p.g(rows, 3))


@program()
def hooks_on_results_and_arguments(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * 2

    for rows in (2, 2, 4):
        x = p.g(rows, 3)
        x.register_hook(lambda g: g + 1)
        y = p.call(function, x)
        z = function(x)
        z.register_hook(lambda g: g * 5)
        z.sum().backward()
        p.note((x.grad, y.is_leaf))


@program()
def a_chain_of_compiled_functions(p: Run) -> None:
    w = p.g(3)
    first = p.static(lambda x: x * w)
    second = p.static(lambda x: paddle.tanh(x).sum(axis=0))

    def both(x: Any) -> Any:
        return second(first(x) + 1) * 2

    p.watch(w)
    three(p, both)


@program(whole=False)
def recompute_inside(p: Run) -> None:
    from polyreme.distributed.fleet.utils import recompute

    net = Net()

    @p.static
    def function(x: Any) -> Any:
        return recompute(net, x) + x

    p.watch(net)
    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))


@program()
def recompute_around(p: Run) -> None:
    from polyreme.distributed.fleet.utils import recompute

    net = p.static(Net())
    p.watch(net)

    def function(x: Any) -> Any:
        return recompute(net, x)

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))


@program(whole=False)
def in_place_on_what_needs_gradients(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 1
        y.scale_(3.0)
        y[0] = y[1] * 2
        y.tanh_()
        return y

    three(p, function)


@program(whole=False)
def in_place_on_a_leaf_is_an_error(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x.add_(paddle.ones([3]))
        return x * 2

    p.call(function, p.t(2, 3))
    p.call(function, p.g(2, 3))
    p.call(function, p.t(4, 3))
    p.call(function, p.g(4, 3))


@program(whole=False)
def in_place_on_an_argument_with_a_graph(p: Run) -> None:
    w = p.g(3)

    @p.static
    def function(x: Any) -> Any:
        x.scale_(2.0)
        return x + 1

    p.watch(w)
    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3) * w)


@program()
def losses_with_labels(p: Run) -> None:
    @p.static
    def function(x: Any, label: Any, soft: Any) -> Any:
        hard = F.cross_entropy(x, label)
        mixed = F.cross_entropy(x, F.softmax(soft), soft_label=True)
        return hard + mixed, F.mse_loss(x, soft), F.kl_div(F.log_softmax(x), F.softmax(soft))

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), p.t(rows, dtype="int64"), p.t(rows, 3))


@program()
def gradients_of_gathers_and_scatters(p: Run) -> None:
    @p.static
    def function(x: Any, i: Any) -> Any:
        a = paddle.gather(x, i)
        b = paddle.scatter(x, i, paddle.ones([2, 3]))
        c = paddle.where(x > 0, x, x * 0.1)
        return a.sum(axis=0) + b + c, paddle.sort(x, axis=1), paddle.topk(x, 2)[0], paddle.cumsum(x, axis=0)

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), paddle.to_tensor([1, 0]))


@program()
def mixed_needs_of_gradients(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        return x * y, x + 1, y + 1

    for a, b in ((p.g, p.t), (p.t, p.g), (p.g, p.g), (p.t, p.t)):
        p.call(function, a(2, 3), b(2, 3))
    p.call(function, p.g(4, 3), p.t(3))


@program()
def integers_beside_floats(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        return x * n.astype("float32"), n + 1, x.argmax(axis=1), (x > 0).astype("int32")

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), p.t(3, dtype="int64"))


@program()
def an_einsum_and_a_norm(p: Run) -> None:
    layer = nn.LayerNorm(3)

    @p.static
    def function(x: Any) -> Any:
        scores = paddle.einsum("ij,kj->ik", x, layer(x))
        return F.softmax(scores / np.sqrt(3.0), axis=-1) @ x, paddle.linalg.norm(x) if hasattr(paddle, "linalg") else paddle.norm(x)

    p.watch(layer)
    three(p, function)


@program(whole=False)
def recompute_in_a_training_step(p: Run) -> None:
    from polyreme.distributed.fleet.utils import recompute

    net = Net()
    net.eval()

    @p.static
    def step(x: Any) -> Any:
        y = paddle.tanh(x * 2)
        loss = (recompute(net, y) + y).square().mean()
        loss.backward()
        gradients = [w.grad * 1 for w in net.parameters()]
        net.clear_gradients()
        return loss.detach(), gradients

    p.watch(net)
    for rows in (2, 2, 4):
        p.call(step, p.t(rows, 3))


@program(whole=False)
def what_no_gradient_needs_is_written_afterwards(p: Run) -> None:
    kept, layer = p.t(4), nn.Linear(4, 4)

    @p.static
    def function(x: Any) -> Any:
        half = x * 0.9
        while half.abs().sum() > 0.77:
            half = half * 0.5
            for _ in range(2):
                _unread = paddle.tanh(layer(kept))
            for row in x:
                kept.copy_(row * 0.5, True)
        return half

    p.watch(kept, layer)
    for rows in (2, 2, 3, 2):
        x = p.g(rows, 4)
        first = function(x)
        p.call(function, x)
        first.sum().backward()
        p.note(x.grad)


@program()
def gradients_are_let_through_inside_of_a_call_under_no_grad(p: Run) -> None:
    layer = nn.Linear(3, 3)
    p.watch(layer)

    def alone(x: Any) -> Any:
        with paddle.enable_grad():
            return layer(x) * 2

    def in_part(x: Any) -> Any:
        before = x * 3
        with paddle.no_grad(), paddle.set_grad_enabled(True):
            inside = layer(x) * before
        return before, inside, inside * 2

    for function in (alone, in_part):
        static = p.static(function)
        for rows in (2, 2, 4):
            with paddle.no_grad():
                result = static(p.g(rows, 3))
            p.note([t.stop_gradient for t in (result if isinstance(result, tuple) else (result,))])

            def around(x: Any, static: Any = static) -> Any:
                with paddle.no_grad():
                    return static(x)

            p.call(around, p.g(rows, 3))
            p.call(static, p.g(rows, 3))


@program()
def one_bias_is_added_at_several_places(p: Run) -> None:
    weight, bias = p.g(3, 3), p.g(3)
    p.watch(weight, bias)

    @p.static
    def function(x: Any) -> Any:
        y = F.linear(x, weight, bias) + bias
        return y * 2 + F.linear(y, weight, bias)

    three(p, function)


SIZE = 80  # so large that what is computed is worth a program


def _copies(kept: Any) -> list[Any]:
    """What computes with a copy of `kept`, though nothing has to move for it."""
    return [
        lambda x: paddle.matmul(x, kept.clone().detach()),
        lambda x: paddle.matmul(x, paddle.assign(kept).t()),
        lambda x: paddle.matmul(x, kept.tile([1, 1])),
        lambda x: paddle.matmul(x, paddle.split(kept, 2)[0].t()),
        lambda x: x * kept[0].clone(),
        lambda x: x * kept.clone()[0],
    ]


def _themselves(kept: Any) -> list[Any]:
    """What computes with `kept`, or a view of it."""
    return [
        lambda x: paddle.matmul(x, kept),
        lambda x: paddle.matmul(x, kept.clone()) + x * kept,
        lambda x: x * kept.detach(),
    ]


@program(whole=False)
def a_tensor_is_written_of_which_a_copy_was_used(p: Run) -> None:
    kept = p.t(SIZE, SIZE)
    p.watch(kept)

    def over(functions: list[Any], inside: bool, parts: bool) -> None:
        for function in functions:

            def step(x: Any, function: Any = function) -> Any:
                result = function(x)
                if parts:
                    float(x[0, 0])
                if inside:
                    kept[:, 0] = x[:, 0].detach()
                return result

            static = p.static(step)

            def around(x: Any, static: Any = static) -> Any:
                result = static(x).sum()
                if not inside:
                    kept.scale_(0.5)
                try:
                    result.backward()
                except RuntimeError as error:
                    return type(error).__name__
                return x.grad

            for _ in range(3):
                p.call(around, p.g(SIZE, SIZE))

    for parts in (False, True):
        over(_copies(kept), True, parts)
        over(_copies(kept), False, parts)
        over(_themselves(kept), False, parts)


@program(whole=False)
def gradients_go_on_to_what_was_before_the_call(p: Run) -> None:
    class Held:
        pass

    held, w = Held(), p.g(3)

    @p.static
    def function(x: Any) -> Any:
        (g,) = paddle.grad((held.h * held.h * x).sum(), [w])
        return g

    for scale in (2.0, 3.0, 4.0):
        held.h = w * scale
        p.call(function, p.t(3))


@program()
def gradients_end_at_what_was_before_the_call(p: Run) -> None:
    class Held:
        pass

    held, w = Held(), p.g(3)

    @p.static
    def function(x: Any) -> Any:
        (g,) = paddle.grad((held.h * held.h * x).sum(), [held.h])
        return g

    for scale in (2.0, 3.0, 4.0):
        held.h = w * scale
        p.call(function, p.t(3))


def _in_turn(p: Run, function: Any, nets: list[Any], orders: list[tuple[int, ...]]) -> None:
    """Go backward from some results of a call, one after the other, and note what comes of it."""

    def around(x: Any, order: tuple[int, ...]) -> Any:
        results, said = function(x), []
        for number in order:
            try:
                results[number].sum().backward()
                said.append("done")
            except RuntimeError as error:
                said.append(type(error).__name__)
        parameters = [parameter for net in nets for parameter in net.parameters()]
        found = [None if parameter.grad is None else parameter.grad.clone() for parameter in parameters]
        for parameter in parameters:
            parameter.clear_grad()
        return said, found

    p.watch(*nets)
    for order in orders:
        p.call(around, p.t(4, 3), order)


@program()
def results_that_share_no_step_go_backward_apart(p: Run) -> None:
    maker, judge = nn.Linear(3, 3), nn.Linear(3, 1)

    @p.static
    def function(x: Any) -> Any:
        made = maker(x)
        return F.softplus(-judge(x)).mean() + F.softplus(judge(made.detach())).mean(), made, maker.weight.sum() * 2

    _in_turn(p, function, [maker, judge], [(0, 1), (1, 0), (0, 1, 2), (0, 0), (1, 1), (1, 0, 1), (2, 0, 1), (0, 2, 0), (0,)])


@program()
def results_behind_one_step_go_backward_together(p: Run) -> None:
    trunk, first, second = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(3, 1)

    @p.static
    def function(x: Any) -> Any:
        h = F.tanh(trunk(x))
        return first(h).mean(), second(h).mean(), second(h.detach()).mean(), h

    _in_turn(p, function, [trunk, first, second], [(0, 1), (0, 2), (2, 0), (2, 1, 3), (3, 0), (3, 2), (0, 3), (2, 2), (1, 2, 0)])
