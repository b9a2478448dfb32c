"""Programs with control flow: on numbers, which is Python's, and on tensors, whose values decide."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program, three


def both_signs(p: Run, function: Any, **options: Any) -> None:
    """Calls for which a condition on the sum holds, and does not, at two shapes."""
    for rows in (2, 4):
        for sign in (1.0, -1.0):
            x = paddle.full([rows, 3], 1.5) * sign
            x.stop_gradient = False
            p.call(function, x, **options)


@program(whole=False)
def an_if_on_a_tensor(p: Run) -> None:
    w = p.g(3)

    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            y = x * w
        else:
            y = x - 1
        return y * 2

    p.watch(w)
    both_signs(p, function)


@program(whole=False)
def an_elif_chain_with_early_returns(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        total = x.sum()
        if total > 100:
            return x
        if total > 5:
            return x * 2
        elif total < -5:  # noqa: RET505
            x = x * 3
        return x + 1

    both_signs(p, function)


@program(whole=False)
def a_while_on_a_tensor(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        steps = 0
        while x.abs().max() < 10:
            x = x * 2
            steps += 1
        return x, steps

    both_signs(p, function)


@program(whole=False)
def a_for_with_break_and_continue(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x
        for i in range(5):
            if i == 1:
                continue
            y = y + x
            if y.sum() > 20:
                break
        else:
            y = y * 100
        return y

    both_signs(p, function)


@program(whole=False)
def and_or_not_and_ternaries(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        a, b = x.sum() > 0, x.max() > 1
        y = x * 2 if a and not b else x * 3
        return y if a or b else y * 5

    both_signs(p, function)


@program(whole=False)
def chained_comparisons_of_tensors(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if -10 < x.sum() < 10:
            return x * 2
        return x * 3

    both_signs(p, function)


@program(whole=False)
def what_is_bound_in_one_branch_only(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            extra = x * 7
        return extra + 1

    both_signs(p, function)


@program(whole=False)
def side_effects_in_branches(p: Run) -> None:
    log: list[Any] = []
    held = {"n": 0}

    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            log.append("positive")
            held["n"] += 1
        else:
            log.append("negative")
            held["last"] = x.shape[0]
        return x * 2

    p.watch(log, held)
    both_signs(p, function)
    both_signs(p, function)


@program(whole=False)
def writes_to_tensors_in_branches(p: Run) -> None:
    w = p.t(3)
    layer = nn.BatchNorm1D(3)

    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            w.add_(paddle.ones([3]))
            return layer(x)
        w[0] = 5.0
        return x * w

    p.watch(w, layer)
    both_signs(p, function)


@program(whole=False)
def an_argument_is_written_in_a_branch(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            x.scale_(2.0)
        else:
            x[0] = 0.0
        return x + 1

    for rows in (2, 4):
        for sign in (1.0, -1.0):
            p.call(function, paddle.full([rows, 3], sign))


@program(whole=False)
def prints_in_branches_and_loops(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            print("up")
        while x.sum() < 3:
            x = x + 1
            print("more")
        return x

    both_signs(p, function)


@program(whole=False)
def random_numbers_in_branches(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            return x + paddle.rand([3])
        return F.dropout(x, 0.5)

    both_signs(p, function)
    p.note(paddle.rand([2]))


@program(whole=False)
def an_assert_of_a_tensor(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        assert (x > 0).all(), "expected positive numbers"
        return x * 2

    both_signs(p, function)


@program(whole=False)
def an_error_by_a_tensor(p: Run) -> None:
    log: list[int] = []

    @p.static
    def function(x: Any) -> Any:
        log.append(1)
        if x.sum() < 0:
            raise ValueError(f"negative: {x.shape}")
        log.append(2)
        return x * 2

    p.watch(log)
    both_signs(p, function)


@program(whole=False)
def an_error_is_caught_by_the_function(p: Run) -> None:
    def checked(x: Any) -> Any:
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    @p.static
    def function(x: Any) -> Any:
        try:
            return checked(x)
        except ValueError:
            return x * 100

    both_signs(p, function)


@program(whole=False)
def a_tensor_among_numbers_in_a_condition(p: Run) -> None:
    @p.static
    def function(x: Any, flag: bool) -> Any:
        if flag and x.sum() > 0:
            return x * 2
        return x * 3 if flag or x.mean() < 0 else x * 4

    both_signs(p, function, flag=True)
    both_signs(p, function, flag=False)


@program(whole=False)
def types_that_differ_by_branch(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return None

    both_signs(p, function)


@program(whole=False)
def shapes_that_differ_by_branch(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x[0] if x.sum() > 0 else x
        return y * 2

    both_signs(p, function)


@program(whole=False)
def needs_of_gradients_that_differ_by_branch(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if x.sum() > 0:
            y = x * 2
        else:
            y = paddle.ones([3])
        return y

    both_signs(p, function)


@program(whole=False)
def a_branch_returns_the_argument_itself(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x if x.sum() > 0 else x * 2

    both_signs(p, function)


@program(whole=False)
def loops_over_a_range_by_a_tensor(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        total = paddle.zeros([3])
        for i in range(int(n)):
            total = total + x[i % x.shape[0]] * i
        return total

    for rows, n in ((2, 1), (2, 4), (4, 3), (4, 0)):
        p.call(function, p.g(rows, 3), paddle.to_tensor(n))


@program(whole=False)
def loops_over_lists_with_conditions(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        kept = []
        for i, row in enumerate(x):
            if row.sum() > 0:
                kept.append(row * i)
        return paddle.stack(kept) if kept else paddle.zeros([1])

    both_signs(p, function)
    p.call(function, p.g(4, 3))


@program(whole=False)
def recursion_by_a_tensor(p: Run) -> None:
    def halved(x: Any, depth: int = 0) -> Any:
        if depth >= 6 or x.abs().max() < 1:
            return x
        return halved(x / 2, depth + 1)

    @p.static
    def function(x: Any) -> Any:
        return halved(x) * 2

    both_signs(p, function)
    p.call(function, p.g(2, 3) * 10)


@program(whole=False)
def a_condition_on_a_tensor_outside(p: Run) -> None:
    gate = paddle.to_tensor(1.0)

    @p.static
    def function(x: Any) -> Any:
        if gate > 0:
            return x * 2
        return x * 3

    three(p, function)
    gate.fill_(-1.0)
    three(p, function)


@program(whole=False)
def a_condition_in_a_layer_in_a_helper(p: Run) -> None:
    class Gated(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.count = 0

        def choose(self, x: Any) -> Any:
            return self.a if x.mean() > 0 else self.b

        def forward(self, x: Any) -> Any:
            self.count += 1
            return self.choose(x)(x)

    net = p.static(Gated())
    p.watch(net)
    both_signs(p, net)
    both_signs(p, net)


@program()
def python_flow_on_numbers_and_flags(p: Run) -> None:
    @p.static
    def function(x: Any, flags: Any, n: int = 2) -> Any:
        i = 0
        while i < n:
            i += 1
            if flags[i % len(flags)] and not (i == 2 or n > 5):
                x = x * i
                continue
            for j in range(3):
                if j > i:
                    break
                x = x + j
        return x if n else None

    for rows, flags, n in ((2, (True, False), 2), (2, (False,), 3), (4, (True, True), 0), (4, (True, False), 2)):
        p.call(function, p.g(rows, 3), flags, n)


@program()
def conditions_on_shapes_and_none(p: Run) -> None:
    @p.static
    def function(x: Any, mask: Any = None, *rest: Any) -> Any:
        if mask is not None:
            x = x * mask
        if x.shape[0] > 2 and x.ndim == 2:
            x = x.sum(axis=0)
        return x if not rest else x + rest[0]

    p.call(function, p.g(2, 3))
    p.call(function, p.g(2, 3), p.t(3))
    p.call(function, p.g(4, 3), None)
    p.call(function, p.g(4, 3), p.t(3), p.g(3))


@program()
def choices_made_by_where(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return paddle.where(x.sum() > 0, x * 2, x * 3) + (x > 0).astype("float32") * x

    both_signs(p, function)


@program(whole=False)
def cond_and_while_loop_of_the_framework(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = paddle.static.nn.cond(x.sum() > 0, lambda: x * 2, lambda: x * 3)
        i = paddle.full([1], 0, "int64")
        _, y = paddle.static.nn.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y + x], [i, y])
        return y

    both_signs(p, function)


@program(whole=False)
def a_loop_with_an_else_and_a_return_inside(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        for scale in (1.0, 2.0, 3.0):
            y = x * scale
            if y.sum() > 15:
                return y, scale
        return x, 0

    both_signs(p, function)


@program(whole=False)
def greedy_decoding(p: Run) -> None:
    table = nn.Embedding(5, 3)
    head = nn.Linear(3, 5)

    @p.static
    def function(start: Any) -> Any:
        tokens, token = [], start
        for _ in range(4):
            token = head(table(token)).argmax(axis=-1)
            tokens.append(token)
            if (token == 2).all():
                break
        return paddle.stack(tokens)

    p.watch(table, head)
    for rows in (1, 1, 2):
        p.call(function, p.t(rows, dtype="int64"))


@program(whole=False)
def a_number_that_is_used_twice_again_and_again(p: Run) -> None:
    @p.static
    def function(x: Any, limit: Any) -> Any:
        count = 1
        while x.sum() < limit:
            x, count = x * 2, count + 1
        for _ in range(40):
            x = x + x * 0.5
            count = count * count - count
        return x if count > 5 else x * 2

    for rows in (2, 2, 3):
        p.call(function, p.t(rows, 3).abs() + 0.1, p.t(1).abs() + 2)


class _Started(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("started", paddle.zeros([], "bool"))
        self.register_buffer("rounds", paddle.zeros([1], "int64"))
        self.weight = self.create_parameter([1])

    def forward(self, x: Any) -> Any:
        if not self.started:
            x = x * 2
            self.started.fill_(True)
        if self.rounds:
            x = x + 1
        elif self.weight and not (self.rounds and self.started):
            x = x - 1
        while self.rounds < 3:
            self.rounds.add_(paddle.ones([1], "int64"))
        return x * 3 if self.started else x


@program(whole=False)
def a_buffer_decides_and_is_written(p: Run) -> None:
    net = p.static(_Started())
    p.watch(net)
    three(p, net)
    with paddle.no_grad():
        net.started.fill_(False)
        net.rounds.zero_()
    three(p, net)


@program(whole=False)
def a_tensor_in_a_closure_decides_alone(p: Run) -> None:
    flag, bound = paddle.to_tensor(True), paddle.to_tensor(3.0)
    p.watch(flag, bound)

    @p.static
    def function(x: Any) -> Any:
        if flag:
            x = x * 2
        while bound > x.sum():
            x = x + 1
        return x + 0

    three(p, function)
    flag.fill_(False)
    three(p, function)


@program(whole=False)
def a_loop_assigns_what_it_tests(p: Run) -> None:
    @p.static
    def function(x: Any, bound: Any) -> Any:
        error, total, rounds = x.sum() * 0 + 7, x.sum() * 0, 0 * x
        while (error := (x * x).sum()) > bound and rounds.max() < 4:
            x = x * 0.7
            rounds = rounds + 1
            if rounds.max() > 2:
                continue
            total = total + error
            if total > 50:
                break
        return x + 0, error, total, rounds

    for rows in (1, 3):
        for bound in (0.1, 2.0, 100.0):
            p.call(function, p.g(rows, 2), paddle.to_tensor(bound))


@program(whole=False)
def parts_of_conditions_assign(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        low = high = x.sum() * 0 + 7
        if (middle := x.mean()) > 3:
            y = middle
        elif x.max() > 0 and (high := x.sum()) > 0.5:
            y = high * 2
        else:
            y = middle - 1
        z = (low := x.min() * 2) if x.sum() > 0 else x.max()
        return y + 0, z + 0, low + 0, high + 0

    both_signs(p, function)


@program(whole=False)
def local_functions_see_what_is_assigned_later(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        k, m = x.sum(), x * 1

        def scaled(value: Any) -> Any:
            return value * m

        by_k = lambda value: value * k  # noqa: E731
        waiting = (value * k for value in [x, x + 1])
        if x.sum() > 0:
            k = k * 2
        else:
            k = k - 1
        i = 0
        while i < n:
            m = m + x
            i += 1
        return by_k(x), scaled(x), sum(waiting)

    for rows in (1, 2):
        for n in (0, 2):
            p.call(function, p.g(rows, 3), paddle.to_tensor(n))


@program(whole=False)
def variables_are_deleted_in_loops_and_branches(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        y = x * 1
        i = 0
        while i < n:
            twice = y * 2
            with paddle.no_grad():
                mean = twice.mean()
            y = twice / (1 + mean * mean)
            del twice, mean
            i += 1
        if y.sum() > 0:
            a = y + 1
            b = a * 2
            del a
        else:
            b = y * 1
        return y + 0, b

    for n in (0, 1, 2):
        p.call(function, p.g(2, 3), paddle.to_tensor(n))
        p.call(function, p.t(4, 3), paddle.to_tensor(n))


@program(whole=False)
def what_was_deleted_is_read(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        if x.sum() > 0:
            x = x + 1
        del y
        return y  # noqa: F821

    three(p, function)
