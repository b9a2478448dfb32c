"""Programs that read numbers which are others at each call: counters, rates, factors. They are arguments of one program, and of Python's
kind wherever they come out of it.
"""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from tests.frontend.capture_programs.driver import Run, program


@program()
def a_counter_meets_every_dtype(p: Run) -> None:
    here = types.SimpleNamespace(count=1, rate=0.3)

    @p.static
    def function(x: Any, whole: Any, flags: Any, half: Any) -> Any:
        here.count += 1
        here.rate *= 0.9
        k, r = here.count, here.rate
        return [
            x * k, k - x, x // k, k / (whole + 1), whole % k, whole / k, flags + k, flags * r, whole * r, whole == k, x > r,
            half * r, half + 3000 * r, x.astype("float64") * r, r, k,
        ]  # fmt: skip

    p.watch(here)
    for _ in range(4):
        p.call(function, p.t(3), p.t(3, dtype="int64"), paddle.to_tensor([True, False, True]), p.t(3, dtype="bfloat16"))


@program()
def python_computes_of_a_counter(p: Run) -> None:
    here = types.SimpleNamespace(count=2**31 - 2)

    @p.static
    def function(x: Any) -> Any:
        here.count = here.count * 2 + 1
        k = here.count
        decays = 0.5 * (1 + math.cos(math.pi * (k % 7) / 10)), min(0.99, (1 + k) / (10 + k)), max(k, 3), round(k / 3, 2), int(k / 2)
        kinds = isinstance(k, int), type(k / 2) is float, k is None, bool(k % 2), k // 3 > 5
        return x * (decays[0] / (k % 5 + 1)), decays, kinds, k**3, -k, ~k, k & 12, divmod(k, 10)[0]

    p.watch(here)
    for _ in range(4):
        p.call(function, p.t(3))


@program()
def a_counter_decides(p: Run) -> None:
    here = types.SimpleNamespace(count=0, seen=0.0)

    @p.static
    def function(x: Any) -> Any:
        here.count += 1
        here.seen += 0.5
        if here.count % 2 == 0:
            here.seen *= 2
            x = -x
        return x * here.seen, here.count > 3 and here.count % 3 == 0

    p.watch(here)
    for _ in range(8):
        p.call(function, p.t(3))


@program()
def counters_in_lists_and_dicts(p: Run) -> None:
    counts: list[Any] = [0, 1.5]
    log: dict[str, Any] = {"count": 0, "inner": {"rate": 1.0}, "fixed": 3}

    @p.static
    def function(x: Any) -> Any:
        counts[0] += 1
        counts[-1] *= 0.5
        log["count"] += 2
        log["inner"]["rate"] /= 2
        log["last"] = log["count"] + 1
        return x * counts[0] + counts[1] * log["inner"]["rate"], log["count"] * log["fixed"], log["last"], [counts[0], 0]

    p.watch(counts, log)
    for _ in range(4):
        p.call(function, p.t(3))


@program(whole=False)
def counters_are_gone_through(p: Run) -> None:
    counts = [0, 1, 2]
    log = {"a": 0.5, "b": 2.0}

    @p.static
    def function(x: Any) -> Any:
        counts[0] += 1
        first = log["a"]
        for value in counts:
            x = x + value
        for value in log.values():
            x = x * value
        return x * first, sum(counts), list(counts), dict(log)

    p.watch(counts, log)
    for _ in range(5):
        p.call(function, p.t(3))
        log["a"] *= 0.9


@program()
def a_number_is_written_twice(p: Run) -> None:
    here = types.SimpleNamespace(count=0, other=1)

    @p.static
    def function(x: Any) -> Any:
        first = here.count
        here.count = first + 1
        second = here.count
        here.count = 7
        third = here.count
        here.count, here.other = second, here.other + first
        return x * first + second, x * third, (first, second, third)

    p.watch(here)
    for _ in range(4):
        p.call(function, p.t(3))


@program(whole=False)
def a_counter_is_shown_and_measures(p: Run) -> None:
    here = types.SimpleNamespace(count=0)

    @p.static
    def function(x: Any) -> Any:
        here.count += 1
        k = here.count % 3 + 1
        return x[:k], paddle.ones([k]), [0] * k, f"step {here.count:03d}", (1, 2, 3)[k - 1], paddle.full([2], here.count), x**k

    p.watch(here)
    for _ in range(7):
        p.call(function, p.t(4))


@program()
def a_counter_is_printed(p: Run) -> None:
    here = types.SimpleNamespace(count=0)

    @p.static
    def function(x: Any) -> Any:
        here.count += 1
        print("step", here.count)
        return x + paddle.to_tensor(here.count), x * paddle.to_tensor(here.count / 2)

    p.watch(here)
    for _ in range(4):
        p.call(function, p.t(4))


@program(whole=False)
def a_number_changes_its_kind(p: Run) -> None:
    here = types.SimpleNamespace(count=1, mean=0.0)

    @p.static
    def function(x: Any) -> Any:
        here.count = here.count + 1 if here.count < 4 else here.count + 0.5
        here.mean = here.mean * 0.9 + x.mean() * 0.1
        return x * here.count, x.astype("int64") * here.count, here.mean + 0

    p.watch(here)
    for _ in range(6):
        p.call(function, p.t(4))


@program(whole=False)
def a_number_that_cannot_be_computed(p: Run) -> None:
    here = types.SimpleNamespace(count=3)

    @p.static
    def function(x: Any) -> Any:
        return x * (1 / here.count)

    for _ in range(5):
        here.count -= 1
        p.call(function, p.t(4))


@program(whole=False)
def a_counter_beside_what_a_tensor_decides(p: Run) -> None:
    here = types.SimpleNamespace(count=0)

    @p.static
    def function(x: Any) -> Any:
        here.count += 1
        y = x * here.count if x.sum() > 0 else x - here.count
        i = paddle.to_tensor(0)
        while i < 2:
            y = y * here.count
            i = i + 1
        return y

    p.watch(here)
    for sign in (1, -1, 1, -1):
        p.call(function, paddle.to_tensor([1.0, 2.0]) * sign)


@program()
def rates_are_read(p: Run) -> None:
    net = nn.Linear(3, 2)
    schedule = paddle.optimizer.lr.StepDecay(0.1, 2)
    optimizer = paddle.optimizer.Adam(schedule, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean() * (schedule.last_lr * 10)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, optimizer.get_lr(), schedule(), schedule.get_lr(), optimizer.get_lr() * loss.detach(), schedule.last_epoch

    p.watch(net)
    for _ in range(6):
        p.call(step, p.t(4, 3))
        schedule.step()


@program()
def a_rate_that_the_step_computes(p: Run) -> None:
    net = nn.Linear(3, 2)
    optimizer = paddle.optimizer.AdamW(0.1, parameters=[{"params": net.parameters(), "learning_rate": 0.5}])
    here = types.SimpleNamespace(count=0)

    @p.static
    def step(x: Any) -> Any:
        here.count += 1
        optimizer.set_lr(0.05 * (1 + math.cos(math.pi * here.count / 10)))
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, optimizer.get_lr()

    p.watch(net, here)
    for _ in range(5):
        p.call(step, p.t(4, 3))
        p.note(optimizer.get_lr())


@program()
def floats_among_the_arguments(p: Run) -> None:
    @p.static
    def function(x: Any, rate: float, every: int, options: Any) -> Any:
        if every % 2 == 0:
            x = x + options["shift"]
        return x * rate + (1 - rate), [rate, every], options, rate if every > 3 else every

    for i in range(9):
        p.call(function, p.t(3), 1 / (i + 1), i, {"shift": 0.25 * i, "name": "a"})
    p.call(function, p.t(3), math.nan, 3, {"shift": -0.0, "name": "a"})


@program(whole=False)
def other_kinds_among_the_arguments(p: Run) -> None:
    @p.static
    def function(x: Any, rate: Any) -> Any:
        return x * rate, rate

    for rate in (0.5, 0.25, 1, 2, True, np.float32(3), 0.125, 5, 6, 7, 8, 0.0, -0.0):
        p.call(function, p.t(3), rate)


@program(whole=False)
def sizes_among_the_arguments(p: Run) -> None:
    @p.static
    def function(x: Any, size: int, axis: int) -> Any:
        return x.reshape([size, -1]).sum(axis), size

    for size in (1, 2, 3, 4, 6, 12, 1, 2, 6):
        p.call(function, p.t(12), size, -1 if size % 2 else 0)


@program(whole=False)
def an_argument_counts(p: Run) -> None:
    @p.static
    def function(x: Any, log: Any) -> Any:
        log["count"] += 1
        log["seen"].append(log["count"])
        return x * log["count"]

    first: dict[str, Any] = {"count": 0, "seen": []}
    second: dict[str, Any] = {"count": 0.5, "seen": []}
    for i in range(6):
        p.call(function, p.t(3), second if i > 3 else first)


@program(whole=False)
def two_counters_become_one(p: Run) -> None:
    first, second = types.SimpleNamespace(count=0), types.SimpleNamespace(count=5)
    here = types.SimpleNamespace(first=first, second=second)

    @p.static
    def function(x: Any) -> Any:
        here.first.count += 1
        here.second.count += 1
        return x * here.first.count + here.second.count

    p.watch(here)
    for i in range(6):
        if i == 3:
            here.second = first
        p.call(function, p.t(3))


@program()
def a_layer_counts_its_calls(p: Run) -> None:
    class Counting(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return self.linear(x) / self.calls

    layer = Counting()
    compiled = p.static(layer)
    p.watch(layer)
    for _ in range(4):
        p.call(compiled, p.g(4, 3))


@program(whole=False)
def a_counter_divides_whole_numbers(p: Run) -> None:
    here = types.SimpleNamespace(count=4)

    @p.static
    def function(x: Any, whole: Any) -> Any:
        here.count -= 1
        return whole // here.count, x // here.count, here.count // (whole + 1), whole % here.count

    p.watch(here)
    for _ in range(6):
        p.call(function, p.t(4), p.t(4, dtype="int32"))


@program()
def a_counter_is_an_operand_of_or_and_and(p: Run) -> None:
    here = types.SimpleNamespace(count=3, rate=0.75)

    @p.static
    def function(x: Any, argument: float) -> Any:
        here.count -= 1
        here.rate -= 0.25
        either = here.rate or 2
        return x * either, x * (argument and here.count), either, (here.count and 3, here.count or None), x * (2 if here.count else 3)

    p.watch(here)
    for i in range(6):
        p.call(function, p.t(3), 1.5 - i / 2)
