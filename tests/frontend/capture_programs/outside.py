"""Programs that read and write what is outside: globals, closures, other modules, arrays, random numbers, clocks, outputs."""

from __future__ import annotations

import collections
import copy
import datetime
import functools
import math
import os
import random
import time
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from tests.frontend.capture_programs import elsewhere
from tests.frontend.capture_programs.driver import Run, program, three

FACTOR = 2.0


SETTINGS = {"scale": 2.0, "names": ["a", "b"], "inner": {"bias": 1.0}}


COUNT = 0


LOG: list[Any] = []


TABLE = collections.deque(maxlen=3)  # type: ignore[var-annotated]


BIAS = np.array([1.0, 2.0, 3.0], dtype="float32")


@program()
def a_global_number_is_changed(p: Run) -> None:
    global FACTOR
    FACTOR = 2.0

    def function(x: Any) -> Any:
        return x * FACTOR

    function = p.static(function)
    for FACTOR in (2.0, 3.0, 3.0):  # noqa: B007
        p.call(function, p.g(2, 3))
    p.call(function, p.t(4, 3))


@program(whole=False)
def a_global_number_is_another_at_every_call(p: Run) -> None:
    global FACTOR

    @p.static
    def function(x: Any) -> Any:
        return x * FACTOR + FACTOR

    for i in range(12):
        FACTOR = float(i)
        p.call(function, p.g(2 + i % 2, 3))


@program(whole=False)
def a_global_number_is_set(p: Run) -> None:
    global COUNT
    COUNT = 0

    @p.static
    def function(x: Any) -> Any:
        global COUNT
        COUNT += 1
        return x * COUNT

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))
        p.note(COUNT)


@program()
def a_global_dict_is_read_deeply(p: Run) -> None:
    saved = copy.deepcopy(SETTINGS)

    @p.static
    def function(x: Any) -> Any:
        return x * SETTINGS["scale"] + SETTINGS["inner"]["bias"] + len(SETTINGS["names"])  # type: ignore[index]

    try:
        three(p, function)
        SETTINGS["inner"]["bias"] = 5.0  # type: ignore[index]
        p.call(function, p.g(2, 3))
        SETTINGS["names"].append("c")  # type: ignore[attr-defined]
        p.call(function, p.g(2, 3))
    finally:
        SETTINGS.clear()
        SETTINGS.update(saved)


@program()
def a_global_list_receives_results(p: Run) -> None:
    LOG.clear()

    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        LOG.append(y)
        return y + 1

    p.watch(LOG)
    three(p, function)


@program()
def a_number_in_a_cell_is_changed_by_another_function(p: Run) -> None:
    scale = 1.0

    def grow() -> None:
        nonlocal scale
        scale = scale * 2

    @p.static
    def function(x: Any) -> Any:
        return x * scale

    for _ in range(2):
        three(p, function)
        grow()


@program(whole=False)
def a_cell_is_set_by_the_function(p: Run) -> None:
    total = 0

    def function(x: Any) -> Any:
        nonlocal total
        total += 1
        return x * total

    p.watch(function)
    three(p, p.static(function))


@program(whole=False)
def a_cell_holds_a_running_tensor(p: Run) -> None:
    total = paddle.zeros([3])

    def function(x: Any) -> Any:
        nonlocal total
        total = total + x.sum(axis=0).detach()
        return x * total

    p.watch(function)
    three(p, p.static(function))


@program()
def a_tensor_in_a_cell_is_bound_anew(p: Run) -> None:
    weight = p.g(3)

    def bind(new: Any) -> None:
        nonlocal weight
        weight = new

    def function(x: Any) -> Any:
        return x * weight

    p.watch(function)
    function = p.static(function)
    three(p, function)
    bind(p.g(3))
    three(p, function)
    bind(p.t(3))
    three(p, function)


@program()
def an_array_is_changed_in_place(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x + paddle.to_tensor(BIAS)

    three(p, function)
    BIAS[0] += 4
    three(p, function)
    BIAS[0] -= 4


@program(whole=False)
def an_array_outside_is_written(p: Run) -> None:
    counts = np.zeros(3, dtype="float32")

    @p.static
    def function(x: Any) -> Any:
        counts[1] += 1
        return x + float(counts[1])

    p.watch(counts)
    three(p, function)


@program(whole=False)
def a_large_array_is_read(p: Run) -> None:
    table = np.arange(100_000, dtype="float32")

    @p.static
    def function(x: Any) -> Any:
        return x * float(table[5])

    three(p, function)
    table[5] = 50
    three(p, function)


@program()
def a_numpy_scalar_is_read(p: Run) -> None:
    held = {"rate": np.float32(0.5)}

    @p.static
    def function(x: Any) -> Any:
        return x * held["rate"]

    three(p, function)
    held["rate"] = np.float32(0.25)
    three(p, function)
    held["rate"] = np.float64(0.25)  # type: ignore[assignment]
    three(p, function)


@program(whole=False)
def random_numbers_of_python_are_drawn_anew(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * random.random() + random.randint(0, 9)

    three(p, function)


@program(whole=False)
def random_numbers_of_numpy_are_drawn_anew(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x + paddle.to_tensor(np.random.rand(3).astype("float32")) * np.random.uniform()

    three(p, function)


@program(whole=False)
def a_generator_outside_is_drawn_from(p: Run) -> None:
    rng = np.random.default_rng(3)
    dice = random.Random(3)

    @p.static
    def function(x: Any) -> Any:
        return x * float(rng.standard_normal()) + dice.choice([1.0, 2.0, 3.0])

    three(p, function)
    three(p, function)


@program()
def random_tensors_continue_the_stream(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * paddle.rand([3]) + paddle.randn(x.shape)

    three(p, function)
    p.note(paddle.rand([2]))
    paddle.seed(5)
    three(p, function)


@program()
def random_choices_of_many_kinds(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        noise = paddle.uniform([3], min=-1.0, max=1.0) + paddle.normal(0.0, 1.0, [3])
        return x + noise, paddle.randperm(4), paddle.randint(0, 5, [2]), paddle.bernoulli(paddle.full([3], 0.5))

    three(p, function)
    p.note(paddle.rand([2]))


@program(whole=False)
def the_seed_is_set_inside(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        paddle.seed(42)
        return x + paddle.rand([3])

    three(p, function)
    p.note(paddle.rand([2]))


@program(whole=False)
def the_clock_is_read(p: Run) -> None:
    times: list[float] = []

    @p.static
    def function(x: Any) -> Any:
        times.append(time.perf_counter())
        return x * 2

    three(p, function)
    p.note([a < b for a, b in zip(times, times[1:], strict=False)])


@program(whole=False)
def the_date_is_read(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * (datetime.datetime.now().year > 2000)

    three(p, function)


@program(whole=False)
def the_environment_is_read(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * float(os.environ.get("CAPTURE_SCALE", "2"))

    three(p, function)
    os.environ["CAPTURE_SCALE"] = "3"
    try:
        three(p, function)
    finally:
        del os.environ["CAPTURE_SCALE"]


@program(whole=False)
def texts_are_printed_at_every_call(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        print("shape", x.shape, flush=True)
        y = x * 2
        print(f"{y.ndim} axes", end="!\n")
        return y

    three(p, function)


@program(whole=False)
def tensors_are_printed_with_their_values(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x.sum()
        print("sum", y)
        print(f"item {float(y):.3f}")
        return y * 2

    three(p, function)


@program()
def a_function_of_another_module_with_its_globals(p: Run) -> None:
    saved = elsewhere.OFFSET

    @p.static
    def function(x: Any) -> Any:
        return elsewhere.shifted(x) + elsewhere.OFFSET

    three(p, function)
    elsewhere.OFFSET = 9.0
    try:
        three(p, function)
    finally:
        elsewhere.OFFSET = saved


@program()
def a_helper_is_replaced_in_its_module(p: Run) -> None:
    saved = elsewhere.helper

    @p.static
    def function(x: Any) -> Any:
        return elsewhere.through_helper(x)

    three(p, function)
    elsewhere.helper = lambda x: x * 5
    try:
        three(p, function)
    finally:
        elsewhere.helper = saved


@program()
def a_state_of_another_module_is_written(p: Run) -> None:
    elsewhere.HISTORY.clear()

    @p.static
    def function(x: Any) -> Any:
        return elsewhere.remembered(x)

    p.watch(elsewhere.HISTORY)
    three(p, function)


@program()
def mutable_default_arguments_are_shared_by_calls(p: Run) -> None:
    def function(x: Any, seen: list[Any] = [], *, at: dict[str, Any] = {}) -> Any:  # noqa: B006
        seen.append(x.shape[0])
        at["last"] = x.shape[0]
        return x * len(seen)

    p.watch(function)
    three(p, p.static(function))


@program()
def default_arguments_that_are_tensors(p: Run) -> None:
    def function(x: Any, w: Any = paddle.ones([3]), *, b: Any = paddle.to_tensor([1.0, 2.0, 3.0])) -> Any:  # noqa: B008
        return x * w + b

    p.watch(function)
    function = p.static(function)
    three(p, function)
    p.call(function, p.g(2, 3), p.g(3))
    p.call(function, p.g(2, 3), b=p.g(3))


@program()
def a_default_is_replaced_between_calls(p: Run) -> None:
    def inner(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    @p.static
    def function(x: Any) -> Any:
        return inner(x)

    three(p, function)
    inner.__defaults__ = (3.0,)
    three(p, function)


@program()
def an_attribute_of_a_function_is_read(p: Run) -> None:
    def helper(x: Any) -> Any:
        return x * helper.scale  # type: ignore[attr-defined]

    helper.scale = 2.0  # type: ignore[attr-defined]

    @p.static
    def function(x: Any) -> Any:
        return helper(x)

    three(p, function)
    helper.scale = 3.0  # type: ignore[attr-defined]
    three(p, function)


@program(whole=False)
def an_attribute_of_a_function_is_written(p: Run) -> None:
    def helper(x: Any) -> Any:
        helper.calls += 1  # type: ignore[attr-defined]
        return x * helper.calls  # type: ignore[attr-defined]

    helper.calls = 0  # type: ignore[attr-defined]

    @p.static
    def function(x: Any) -> Any:
        return helper(x)

    p.watch(helper)
    three(p, function)


@program(whole=False)
def a_memoizing_decorator(p: Run) -> None:
    made: list[int] = []

    @functools.lru_cache(maxsize=None)  # noqa: UP033
    def mask(size: int) -> Any:
        made.append(size)
        return paddle.tril(paddle.ones([size, size]))

    @p.static
    def function(x: Any) -> Any:
        return mask(x.shape[0]) @ x

    p.watch(made)
    three(p, function)


@program()
def a_cache_by_size(p: Run) -> None:
    cache: dict[int, Any] = {}

    @p.static
    def function(x: Any) -> Any:
        size = x.shape[0]
        if size not in cache:
            cache[size] = paddle.tril(paddle.ones([size, size]))
        return cache[size] @ x

    p.watch(cache)
    for rows in (2, 2, 4, 2, 4):
        p.call(function, p.g(rows, 3))


@program()
def constants_of_math_and_numpy(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * math.pi + math.sqrt(x.shape[-1]) + np.log(2.0) + float(np.finfo("float32").eps)

    three(p, function)


@program()
def the_default_dtype_changes(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return paddle.ones([2]), x + paddle.zeros([3])

    three(p, function)
    paddle.set_default_dtype("float64")
    try:
        three(p, function)
    finally:
        paddle.set_default_dtype("float32")


@program()
def gradients_are_switched_off_outside(p: Run) -> None:
    layer = nn.Linear(3, 2)

    @p.static
    def function(x: Any) -> Any:
        return layer(x)

    p.watch(layer)
    three(p, function)
    with paddle.no_grad():
        three(p, function)
    three(p, function)


@program()
def a_global_name_is_added_later(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return max(x.shape[0], 3) * x

    three(p, function)
    globals()["max"] = lambda a, b: 7
    try:
        three(p, function)
    finally:
        del globals()["max"]


@program()
def a_table_in_a_global_deque(p: Run) -> None:
    TABLE.clear()
    TABLE.extend([1.0, 2.0])

    @p.static
    def function(x: Any) -> Any:
        return x * TABLE[0] + TABLE[-1]

    three(p, function)
    TABLE.append(5.0)
    three(p, function)
    TABLE.append(6.0)
    three(p, function)


@program()
def only_the_shape_of_a_tensor_outside_is_read(p: Run) -> None:
    held: dict[str, Any] = {"w": p.t(2, 3)}

    @p.static
    def function(x: Any) -> Any:
        return x * held["w"].shape[0] * len(held["w"]) + (held["w"].dtype == paddle.float32)

    three(p, function)
    held["w"] = p.t(5, 3)
    three(p, function)
    held["w"] = p.t(5, 3, dtype="float64")
    p.call(function, p.t(2, 3))


@program()
def it_is_only_asked_whether_there_is_a_tensor(p: Run) -> None:
    held: dict[str, Any] = {"mask": p.t(3)}

    @p.static
    def function(x: Any) -> Any:
        y = x * 2 if held["mask"] is not None else x * 3
        return y + 1 if isinstance(held["mask"], paddle.Tensor) else y

    three(p, function)
    held["mask"] = None
    three(p, function)
    held["mask"] = 1.0
    p.call(function, p.t(2, 3))


@program()
def it_is_asked_whether_a_tensor_outside_needs_gradients(p: Run) -> None:
    w = p.g(3)

    @p.static
    def function(x: Any) -> Any:
        return x * 2 if w.stop_gradient else x * 3

    three(p, function)
    w.stop_gradient = True
    three(p, function)


@program(whole=False)
def it_is_asked_which_mode_this_is(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2 if paddle.in_dynamic_mode() else x * 3
        return y + len(paddle.get_default_dtype())

    three(p, function)
    paddle.set_default_dtype("float64")
    try:
        three(p, function)
    finally:
        paddle.set_default_dtype("float32")


@program()
def a_tensor_outside_is_written_and_never_read(p: Run) -> None:
    class Held:
        pass

    held = Held()

    @p.static
    def function(x: Any) -> Any:
        paddle.assign(x * 2, held.place)
        return x + 1

    places = [paddle.zeros([3]) for _ in range(3)]
    p.watch(places)
    for place in places:
        held.place = place
        p.call(function, p.t(3))
