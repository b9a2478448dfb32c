"""Programs that write to tensors, through views of them as well, in branches and loops that a tensor decides."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from polyreme import nn
from tests.frontend.capture_programs.driver import Run, program


def counted(p: Run, function: Any) -> None:
    """Calls with some rounds and with one, at two shapes, with gradients and without."""
    for rows, count, grad in ((2, 3, True), (4, 1, True), (2, 2, False), (4, 2, True)):
        p.call(function, p.t(rows, 3, grad=grad), paddle.to_tensor(count))


@program(whole=True)
def a_loop_scales_a_row(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        for _ in range(n):
            z[0].scale_(2.0)
        return z * z

    counted(p, function)


@program(whole=True)
def a_loop_writes_through_a_view_from_before(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        row = z[1:]
        turned = z.T
        for _ in range(n):
            row.scale_(2.0)
            turned[1].add_(x[0, :1] * 0.5)
        return z, row * 2, turned

    counted(p, function)


@program(whole=False)
def a_loop_reads_and_writes_rows(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        for i in range(n):
            z[0] = z[0] * 2
            z[i - 1] = x[1] + z[i - 2] * 0.5
        return z

    counted(p, function)


@program(whole=False)
def a_loop_adds_what_it_reads_to_zeros(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = paddle.zeros([4, 3])
        for i in range(n):
            z[i] = x[0] + z[i - 1]
        return z

    counted(p, function)


@program(whole=True)
def a_loop_writes_what_it_carries(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z, carried = x * 1, x[0] * 2
        for _ in range(n):
            carried = carried * 1.5
            z[1].copy_(carried)
            z[0] = carried
        return z, carried

    counted(p, function)


@program(whole=False)
def a_loop_writes_behind_the_graph(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * x
        for _ in range(n):
            z[0].detach().scale_(2.0)
            with paddle.no_grad():
                z[1].scale_(3.0)
            z = z * z
        return z

    counted(p, function)


@program(whole=True)
def a_weight_is_written_through_its_row_in_a_loop(p: Run) -> None:
    layer = nn.Linear(3, 2)

    @p.static
    def function(x: Any, n: Any) -> Any:
        row = layer.weight[0]
        total = layer.weight[:, 1].sum() + x.sum()
        for _ in range(n):
            row.scale_(0.5)
            layer.weight[1].scale_(0.5)
            total = total + (layer.weight * 2).sum()
        return total + layer(x).sum() + row.sum()

    p.watch(layer)
    counted(p, function)


@program(whole=True)
def a_weight_is_written_through_its_row_in_a_branch(p: Run) -> None:
    layer = nn.Linear(3, 2)

    @p.static
    def function(x: Any, n: Any) -> Any:
        if n > 1:
            row = layer.weight[0]
            row.scale_(0.5)
        else:
            layer.weight.T[0].scale_(2.0)
        return layer(x) * layer(x)

    p.watch(layer)
    counted(p, function)


@program(whole=False)
def a_leaf_is_written_to_twice(p: Run) -> None:
    weight = p.g(3)

    @p.static
    def function(x: Any, n: Any) -> Any:
        weight.detach().scale_(2.0)
        if n > 1:
            weight.scale_(2.0)
        return x * weight

    p.watch(weight)
    counted(p, function)


def turned(p: Run, function: Any) -> None:
    """Calls with an argument that has views, at two shapes; then what is written to the argument and its views."""
    for rows in (2, 4, 2):
        x = p.t(rows, 2)
        row, held, other = x[0], x.detach(), p.g(rows, 2)
        p.call(function, x, other)
        row.fill_(7.0)
        p.note([x, held])
        x.fill_(9.0)
        p.note([row, held])


@program(whole=True)
def an_argument_is_reshaped_in_place(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        x.reshape_([x.shape[0] * 2])
        return x * 2 + y.flatten()

    turned(p, function)


@program(whole=True)
def an_argument_is_turned_and_written_to(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        x.scale_(2.0)
        x.transpose_([1, 0])
        x[0].add_(x[1])
        x.unsqueeze_(axis=0)
        return x[0] * y.T, x

    turned(p, function)


@program(whole=False)
def views_of_an_argument_that_is_turned(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        before = x[0]
        x.transpose_([1, 0])
        return before, x[1], y * 2

    turned(p, function)


@program(whole=False)
def an_argument_is_turned_where_a_tensor_decides(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        if y.sum() > 0:
            x.transpose_([1, 0])
        return x * 1

    for sign in (1.0, -1.0, 1.0):
        x = p.t(2, 2)
        row = x[0]
        p.call(function, x, paddle.full([2], sign))
        row.fill_(7.0)
        p.note(x)


@program(whole=False)
def an_argument_that_is_a_column_is_reshaped_in_place(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        x.scale_(2.0)
        x.flatten_()
        x.add_(y)
        return x * 1

    for columns in (False, True, True):
        whole = p.t(4, 4)
        p.watch(whole)
        p.call(function, whole[:, :2] if columns else whole[:2], paddle.ones([8]))


@program(whole=False)
def tensors_outside_are_turned(p: Run) -> None:
    held, layer = p.t(2, 2), nn.BatchNorm1D(4)
    row, mean = held[0], layer._mean.detach()
    p.watch(held, row, layer, mean)

    @p.static
    def function(x: Any, y: Any) -> Any:
        held.transpose_([1, 0])
        layer._mean.reshape_([2, 2])
        layer._mean.reshape_([4])
        held[0].scale_(2.0)
        return x + held.sum()

    turned(p, function)
    row.fill_(3.0)
    layer._mean.fill_(3.0)
    p.note([held, mean])


@program(whole=False)
def an_argument_is_written_to_and_changes_its_dtype(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        x.scale_(2.0)
        x.cast_("float64")
        x.scale_(2.0)
        return x.sum() + y.sum()

    turned(p, function)


def chosen(p: Run, function: Any) -> None:
    """Calls that go either way, with gradients and without."""
    for rows, count, grad in ((2, 1, True), (2, -1, False), (4, 1, False), (4, -1, True)):
        p.call(function, p.t(rows, 3, grad=grad), paddle.to_tensor(count))


@program(whole=False)
def what_cond_takes_a_row_of_is_written_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        row = paddle.static.nn.cond(n > 0, lambda: z[0], lambda: z[1])
        z.scale_(3.0)
        return row * 2, z

    chosen(p, function)


@program(whole=False)
def what_cond_gives_is_written_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        paddle.static.nn.cond(n > 0, lambda: z.T, lambda: x.T * 2).scale_(3.0)
        return z * 2

    chosen(p, function)


@program(whole=False)
def an_argument_that_cond_gives_is_written_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        with paddle.no_grad():
            paddle.static.nn.cond(n > 0, lambda: x, lambda: x * 2).scale_(3.0)
        return x * 2

    chosen(p, function)


@program(whole=False)
def what_switch_case_gives_is_written_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        made = paddle.static.nn.switch_case(n, {1: lambda: z, 2: lambda: x * 2}, lambda: z[0])
        made.zero_()
        return z * 2

    chosen(p, function)


@program(whole=False)
def what_case_gives_is_an_argument(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        return paddle.static.nn.case([(n > 5, lambda: x * 2), (n > 0, lambda: x + 1)], lambda: x[0] * 1), x

    chosen(p, function)


@program(whole=True)
def what_cond_gives_is_written_to_and_nothing_else_read(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        made = paddle.static.nn.cond(n > 0, lambda: z, lambda: x * 2)
        made.scale_(3.0)
        total = x[0] * 0
        for _ in range(n):
            total = total + made[0]
        total.scale_(2.0)
        return total, made * made

    chosen(p, function)


@program(whole=True)
def a_while_loop_hands_on_what_it_writes_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1

        def body(i: Any, a: Any, b: Any) -> Any:
            a.T[0].scale_(2.0)
            return [i + 1, a, b + a[0]]

        _, a, b = paddle.static.nn.while_loop(lambda i, a, b: i < n, body, [paddle.zeros([], "int64"), z, x[1] * 1])
        a.scale_(3.0)
        return z * 2, b

    counted(p, function)


@program(whole=False)
def a_while_loop_writes_to_what_it_began_with(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1

        def body(i: Any, a: Any) -> Any:
            a.scale_(2.0)
            return [i + 1, a + 1]

        _, a = paddle.static.nn.while_loop(lambda i, a: i < n, body, [paddle.zeros([], "int64"), z])
        return z * 2, a

    counted(p, function)


@program(whole=True)
def loops_in_a_loop_hand_on_what_they_write_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        def inner(i: Any, a: Any) -> Any:
            a[0].scale_(1.5)
            return [i + 1, a]

        def outer(i: Any, a: Any) -> Any:
            return [i + 1, paddle.static.nn.while_loop(lambda j, a: j < i, inner, [paddle.zeros([], "int64"), a])[1]]

        z = x * 1
        made = paddle.static.nn.while_loop(lambda i, a: i < n, outer, [paddle.zeros([], "int64"), z])[1]
        return made * z

    counted(p, function)


@program(whole=False)
def a_loop_hands_on_in_turn(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        a, b = x * 1, x * 2
        for _ in range(n):
            a, b = b, a
        a.scale_(3.0)
        return a * 1, b * 1

    counted(p, function)


@program(whole=False)
def cond_gives_a_tensor_and_its_row(p: Run) -> None:
    def pair(t: Any) -> Any:
        return t, t[0]

    @p.static
    def function(x: Any, n: Any) -> Any:
        made, row = paddle.static.nn.cond(n > 0, lambda: pair(x * 2), lambda: pair(x * 3))
        made.scale_(2.0)
        return made * 1, row * 1

    chosen(p, function)


@program(whole=False)
def a_loop_hands_on_a_tensor_and_its_row(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        made = x * 1
        row = made[0] * 1
        for _ in range(n):
            row.scale_(2.0)
            made = made + 1
            row = made[0]
        return made * 1, row * 1

    counted(p, function)


@program(whole=False)
def a_loop_hands_on_a_row_of_what_it_writes_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        made, row, total = x * 1, x[0] * 1, x[0] * 0
        for _ in range(n):
            made.scale_(2.0)
            total = total + row
            row = made[0]
        return total, made * 1

    counted(p, function)


@program(whole=False)
def a_loop_whose_condition_reads_what_its_body_writes_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        first = x.abs() + 1
        made, total = first, x.sum() * 0
        while n > 0 and first.sum() > 0:
            made.scale_(-1.0)
            made = made + 1
            total = total + made.sum()
            n = n - 1
        return total

    counted(p, function)


@program(whole=True)
def a_loop_writes_to_what_it_made_in_the_round_before(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        made = x * 1
        for _ in range(n):
            made[0].scale_(2.0)
            made = made + 1
        made.unsqueeze_(0)
        for _ in range(n):
            made[0, 1].scale_(2.0)
        return made * 1

    counted(p, function)


@program(whole=False)
def a_loop_begins_with_what_may_have_been_written_to(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        z = x * 1
        paddle.static.nn.cond(n > 0, lambda: z, lambda: x * 2).scale_(3.0)
        for _ in range(n + 2):
            z = z * 0.5
        return z

    chosen(p, function)
