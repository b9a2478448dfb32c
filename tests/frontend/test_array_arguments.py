"""Arrays and numbers of NumPy's in compiled functions: as arguments, and outside, they are what they are to Python. Whatever a function
does with them, by NumPy or with tensors, and whatever they hold at the next call, compiled and eager runs give the same.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from tests.frontend.array_cases import CASES, FILE, results
from tests.frontend.capture_programs.driver import Run, difference

F = paddle.nn.functional
PROGRAMS: dict[str, tuple[Callable[[Run], None], bool]] = {}


def program(whole: bool = True) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Note a program. With `whole` every call of its static functions is to be one program."""

    def noted(function: Callable[[Run], None]) -> Callable[[Run], None]:
        PROGRAMS[function.__name__] = function, whole
        return function

    return noted


def array(number: int, *shape: int, dtype: str = "float32") -> Any:
    drawn = np.random.default_rng(number).standard_normal(shape)
    return np.round(drawn * 3).astype(dtype) if np.dtype(dtype).kind in "iu" else (drawn > 0) if dtype == "bool" else drawn.astype(dtype)


def several(p: Run, function: Any, *dtypes: str) -> None:
    """Calls with other elements, sizes and dtypes."""
    for dtype in dtypes or ("float32", "int64", "float64", "int32"):
        for number, rows in enumerate((2, 2, 3, 3, 5)):
            p.call(function, array(number, rows, 3, dtype=dtype))


def _run(name: str, mode: str) -> Run:
    made = Run(mode)
    with paddle.utils.unique_name.guard():
        PROGRAMS[name][0](made)
    return made


@program()
def numpy_computes_of_an_argument(p: Run) -> None:
    @p.static
    def function(a: Any) -> Any:
        x = paddle.to_tensor(a.astype("float32"))
        return [
            x * float(a.std()), x + a.mean(), x - a.max(), a.std(axis=0), a.var(), a / 2, a // 2, a % 2, a**2, -a, abs(a), a.sum(0), a.T,
            a.reshape(-1), a.transpose(1, 0), a[0], a[:, 1], a[0, 1], a[..., None], a > 0, ~(a > 0), a.argmax(), a.astype("int32"), a @ a.T,
            a.cumsum(1), a.round(), np.exp(a), np.maximum(a, 0), np.concatenate([a, a]), np.where(a > 0, a, 0), np.stack([a, a]).mean(0),
            np.linalg.norm(a), round(float(a[0, 0]), 2), a.min(axis=1), a.copy(), np.float32(a[0, 0]) * 2, a[np.array([0, 1])],
            a.flatten(), a.ravel()[1:3], np.sqrt(np.abs(a)), a.tolist()[0], a.item(1), a[-1].sum(), divmod(a, 2)[0],
            a & 1 if a.dtype.kind == "i" else a,
        ]  # fmt: skip

    several(p, function)


@program()
def what_an_argument_is(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any) -> Any:
        kinds = isinstance(a, np.ndarray), isinstance(a, paddle.Tensor), type(a) is np.ndarray, a is None, hasattr(a, "numpy"), callable(a)
        sizes = a.shape, a.ndim, a.size, len(a), a.shape[0] * 2, a.nbytes, a.itemsize
        return x * a.shape[0], kinds, sizes, str(a.dtype), a.dtype == np.float32, a, [a], {"a": a}

    for dtype in ("float32", "int64"):
        for number, rows in enumerate((2, 2, 3, 4)):
            p.call(function, array(number, rows, 3, dtype=dtype), p.t(3))


@program()
def an_argument_meets_tensors(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any) -> Any:
        b = a.astype("float32")
        return [
            x + b, b + x, x - b, b - x, x * b, b * x, x / b, b / x, x**2 + b, x > b, b > x, x == b, b != x, x @ b.T, b @ x.T, b.T @ x,
            paddle.to_tensor(a), paddle.to_tensor(a, dtype="float32") + x, paddle.to_tensor(a, "int32"), paddle.to_tensor(a).astype("bool"),
            paddle.assign(a), paddle.to_tensor(a) + 1, paddle.to_tensor(a)[0], paddle.to_tensor(a).T,
        ]  # fmt: skip

    for dtype in ("float32", "int64", "float64", "bool"):
        for number, rows in enumerate((2, 2, 3, 3)):
            p.call(function, array(number, rows, 3, dtype=dtype), p.g(rows, 3))


@program()
def an_argument_is_a_key(p: Run) -> None:
    @p.static
    def function(x: Any, places: Any, mask: Any, value: Any) -> Any:
        y = x * 1
        y[places] = value
        z = x * 1
        z[mask] = 0.5
        return x[places], x[places, 1], x[mask], y, z, x[places[0]], x[: int(places[1]) + 1]

    for number in range(3):
        places = np.array([number % 2, 2, 0], "int64")
        mask = np.array([True, number % 2 == 0, False])
        p.call(function, p.t(3, 2), places, mask, np.full((2,), number, "float64"))


@program()
def arguments_are_nested_and_named(p: Run) -> None:
    @p.static
    def function(batch: Any, *more: Any, scale: Any = None, **options: Any) -> Any:
        x = paddle.to_tensor(batch["image"]) * batch["weights"][1]
        total = sum(part.mean() for part in more)
        return x * total + scale.std(), batch["image"].std(), options["bias"] / 2, [part.T for part in more], batch

    for number, rows in enumerate((2, 2, 3, 3)):
        batch = {"image": array(number, rows, 3), "weights": [array(number, 3), array(number + 9, 3)]}
        named = {"scale": array(number + 1, 4), "bias": array(number, 2, dtype="int64")}
        p.call(function, batch, array(1, 2, dtype="int64"), array(number, 3, 2), **named)


@program()
def numbers_of_numpy(p: Run) -> None:
    @p.static
    def function(x: Any, k: Any) -> Any:
        kinds = type(k), isinstance(k, float), k.dtype
        return [x * k, k * x, x + k, x / k, k - x, x**k, x > k, k / 2, k * 2, -k, kinds, paddle.to_tensor(k), float(k), k + 1, k]

    for kind in (np.float32, np.float64, np.int64, np.int32):
        for number in (2, 3, 3.5, 4.25, 2, 7):
            for dtype in ("float32", "int64"):
                p.call(function, p.t(3, dtype=dtype), kind(number))


@program()
def arrays_without_axes(p: Run) -> None:
    @p.static
    def function(x: Any, k: Any) -> Any:
        return x * k, k * x, k / 2, k + 1, k[()], k.item(), float(k), paddle.to_tensor(k), k.ndim, k.shape, x**k

    for dtype in ("float32", "float64", "int64"):
        for number in range(4):
            p.call(function, p.t(3), np.array(number + 1, dtype))


@program()
def elements_decide(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any) -> Any:
        if a.any() and a[0] > 0:
            x = x * 2
        for row in a:
            x = x + row
        while a.sum() < -100:
            x = x - 1
        return x, 1 if a.max() > 1 else 0, bool(a[1] > 0) or a[2], [float(v) for v in a], sum(a), max(a), 1.0 in a

    for number in range(6):
        p.call(function, array(number, 3), p.t(3))


@program(whole=False)
def an_argument_is_written(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any, how: int) -> Any:
        if how == 0:
            a[0] = 5
        elif how == 1:
            a += 1
        elif how == 2:
            a.fill(3)
        elif how == 3:
            np.add(a, 1, out=a)
        elif how == 4:
            np.multiply(a, 2, a)
        elif how == 5:
            a.sort()
        elif how == 6:
            row = a.T[1]
            row[0] = 9
        elif how == 7:
            a.shape = (6,)
        else:
            for row in a:
                row[:] = 0
        return x + paddle.to_tensor(a).astype("float32").sum(), a

    for how in range(9):
        for number in range(2):
            p.call(function, array(number, 2, 3), p.t(2), how)
            p.call(function, array(number, 2, 3, dtype="int64"), p.t(2), how)


@program(whole=False)
def an_argument_is_written_by_an_option(p: Run) -> None:
    outside = array(0, 3)

    @p.static
    def function(a: Any, x: Any, how: int) -> Any:
        for held in (a, outside):
            if how == 0:
                np.nan_to_num(held, copy=False)
            elif how == 1:
                np.nan_to_num(held, False)
            elif how == 2:
                np.median(held, overwrite_input=True)
            elif how == 3:
                np.percentile(held, 20, None, None, True)
            else:
                np.nanmedian(held, 0, None, True)
        return x + a, x + outside, a, outside

    for how in range(5):
        for number in range(2):
            outside[:] = [np.nan, 2.0, 1.0] if how < 2 else [3.0, 1.0, 2.0]
            p.call(function, outside + number, p.t(3), how)


@program(whole=False)
def a_copy_of_an_argument_is_written(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any) -> Any:
        b = a.copy()
        b[0] = 1
        t = paddle.to_tensor(a)
        t[0] = 7.0
        return x + b, x + a, t

    for number in range(4):
        p.call(function, array(number, 3), p.t(3))


@program(whole=False)
def arrays_without_numbers(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any) -> Any:
        return x * len(a), a.shape, str(a[0])

    for number in range(4):
        p.call(function, np.array(["a", f"b{number}"]), p.t(3))
        p.call(function, np.array([number, None], dtype=object), p.t(3))
        p.call(function, np.ma.masked_array([1.0, number], mask=[False, True]), p.t(3))
        p.call(function, np.array([1.0, number], ">f4"), p.t(3))


@program()
def an_array_outside_is_another_at_each_call(p: Run) -> None:
    here = types.SimpleNamespace(table=array(0, 3), mean=np.zeros(3, "float32"), count=np.int64(0), held=[array(1, 3)])
    here.by = {"a": array(2, 3)}

    @p.static
    def function(x: Any) -> Any:
        here.mean = 0.9 * here.mean + 0.1 * here.table
        here.count = here.count + 1
        return x * here.table + here.mean, here.table.std(), x * here.count, x + here.held[0] * 2, x - here.by["a"].mean(), here.count

    p.watch(here)
    for number in range(4):
        here.table = array(number, 3)
        here.held[0] = array(number + 5, 3)
        here.by["a"][1] = number
        p.call(function, p.t(3))


@program()
def an_array_outside_stays(p: Run) -> None:
    table = array(0, 4, 3)
    large = array(1, 200, 200)

    @p.static
    def function(x: Any) -> Any:
        part = table[1:3]
        return [
            x * table[0], x @ table.T, table.std(), table.mean(0), part, table.T, table, x + part[0],
            table.astype("int64"), table.reshape(3, 4)[0], np.asarray(table), list(table)[1],
            large[0, :3] * 2, x * large.mean(), x + paddle.to_tensor(large)[0, :3],
        ]  # fmt: skip

    for number in range(3):
        made = p.call(function, p.t(3))
        p.note([np.shares_memory(made[i], table) for i in (4, 5, 6, 9, 10, 11)])
        large[0, number] += 1.0


@program()
def an_array_outside_has_zeros_of_another_sign_and_another_order(p: Run) -> None:
    here = types.SimpleNamespace(signs=np.zeros(2, "float32"), table=array(0, 3, 4))

    @p.static
    def function(a: Any, x: Any) -> Any:
        return x / here.signs, 1 / here.signs, x + here.table.ravel("K")[1], (here.table + a).ravel("K"), here.table.reshape(-1, order="A")

    with np.errstate(divide="ignore"):
        for number, order in enumerate("CFFCF"):
            here.signs = np.array([-0.0 if number % 2 else 0.0, 1.0], "float32")
            here.table = np.array(array(0, 3, 4), order=order)
            p.call(function, np.array(array(number, 3, 4), order="F"), p.t(2))


@program(whole=False)
def numpy_computes_of_lists_outside(p: Run) -> None:
    here = types.SimpleNamespace(flat=[1.0, 2.0], nested=[[1.0, 2.0], (3.0, [4.0, 5.0])], arrays={"a": [array(0, 2)]}, places=[0, 1])
    ways = [
        lambda x: x * float(np.mean(here.flat)), lambda x: x + np.array(here.nested[1][1]).astype("float32"),
        lambda x: x * float(np.array([here.flat, here.nested[1][1]]).sum()), lambda x: x + np.stack(here.arrays["a"])[0],
        lambda x: x + np.arange(3.0)[here.places], lambda x: x + np.arange(2.0) * here.flat, lambda x: x * np.arange(2.0).dot(here.flat),
        lambda x: x + np.arange(2.0).take(here.places), lambda x: paddle.to_tensor(here.flat) * x,
        lambda x: set_of(np.zeros(2), here.flat) + x, lambda x: set_of(x * 1, here.flat), lambda x: put(np.zeros(2), here.flat) + x,
    ]  # fmt: skip

    def set_of(held: Any, values: Any) -> Any:
        held[:] = values
        return held

    def put(held: Any, values: Any) -> Any:
        held.put([0, 1], values)
        return held

    for way in ways:
        function = p.static(way)
        for number in range(3):
            p.call(function, p.t(2))
            here.flat[0] = here.nested[1][1][1] = number + 7.0
            here.arrays["a"][0] = array(number, 2)
            here.places[1] = number


@program(whole=False)
def lists_outside_are_spread(p: Run) -> None:
    here = types.SimpleNamespace(pairs=[[1.0, 2.0], [3.0, 4.0]], options={"factor": [2.0]})

    def scaled(x: Any, factor: Any) -> Any:
        return x * factor[0]

    @p.static
    def function(x: Any) -> Any:
        for i, (first, second) in enumerate(here.pairs):
            x = x + first * i - second
        for first, second in here.pairs:
            x = x + first * second
        return x, [x * a for a, _ in here.pairs], scaled(x, **here.options), dict(**here.options)["factor"][0]

    for number in range(3):
        p.call(function, p.t(2))
        here.pairs[1][0] = here.options["factor"][0] = number + 5.0
        here.pairs[0][1] = number + 6.0


@program(whole=False)
def numpy_asks_objects(p: Run) -> None:
    class Holder:
        def __init__(self, values: Any) -> None:
            self.values = values

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.values

    held = Holder(np.array([0, 1]))
    ways = [
        lambda x: x + np.asarray(held).astype("float32"), lambda x: x * float(np.mean(held)),
        lambda x: x * float(np.array([held, held]).sum()), lambda x: x + np.arange(3.0)[held],
        lambda x: x + np.arange(2.0) * held, lambda x: x + held * np.arange(2.0),
        lambda x: x + np.pad(np.zeros(1), (0, 1), fill),
    ]  # fmt: skip

    def fill(row: Any, *_: Any) -> None:
        row[:] = held.values

    for way in ways:
        function = p.static(way)
        for number in range(3):
            p.call(function, p.t(2))
            held.values[0] = number


@program()
def made_arrays_keep_their_order(p: Run) -> None:
    table = array(0, 2, 3)

    @p.static
    def function(a: Any, x: Any) -> Any:
        made = table.T.astype("float64")
        return x + 1, made, made + a

    for number in range(3):
        made = p.call(function, array(number, 3, 2), p.t(3))
        p.note([(part.flags.c_contiguous, part.flags.f_contiguous) for part in made[1:]])


@program(whole=False)
def an_array_outside_is_written(p: Run) -> None:
    table = array(0, 4, 3)

    @p.static
    def function(x: Any, how: int) -> Any:
        if how == 0:
            part = table[1]
            part[0] = 7
        elif how == 1:
            table.T[0][1] += 2
        elif how == 2:
            for row in table:
                row[0] = row[0] + 1
        elif how == 3:
            np.asarray(table)[1, 1] = 4
        elif how == 4:
            np.add(table, 1, table)
        elif how == 5:
            table.reshape(-1)[3] = 8
        elif how == 6:
            a, b = table[:2]
            b[:] = 0
        else:
            np.transpose(table)[1] = 2
        return x + paddle.to_tensor(table[0])

    for how in range(8):
        for _ in range(2):
            p.call(function, p.t(3), how)
            p.note(table)


class Point(NamedTuple):
    """A named tuple of the test's."""

    values: Any
    label: Any


@program()
def in_named_tuples_and_objects(p: Run) -> None:
    class Holder:
        def __init__(self, values: Any) -> None:
            self.values = values

        def halved(self) -> Any:
            return self.values / 2

    @p.static
    def function(point: Any, x: Any) -> Any:
        held = Holder(point.values)
        return x * held.halved(), point.label + 1, point, held.values.std()

    for number in range(4):
        p.call(function, Point(array(number, 3, dtype="int64"), np.int32(number)), p.t(3))


@program()
def a_layer_takes_an_array(p: Run) -> None:
    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.register_buffer("scale", paddle.to_tensor(np.ones(3, "float32")))

        def forward(self, images: Any, training: bool = False) -> Any:
            images = (images - images.mean(axis=0)) / (images.std() + 1e-3)
            x = paddle.to_tensor(images.astype("float32")) * self.scale
            if training:
                self.scale.set_value(self.scale * 0.5)
            return self.linear(x), images

    net = p.static(Net())
    p.watch(net)
    for number, rows in enumerate((2, 2, 3, 4, 4)):
        p.call(net, array(number, rows, 3, dtype="float64"), training=number % 2 == 0)


@program()
def a_whole_step_takes_arrays(p: Run) -> None:
    net = nn.Linear(3, 4)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any, labels: Any, weight: Any) -> Any:
        loss = (F.cross_entropy(net(paddle.to_tensor(x)), paddle.to_tensor(labels), reduction="none") * weight).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return float(labels.mean()), labels.max(), loss.detach(), x.std()

    p.watch(net)
    for number, rows in enumerate((2, 2, 3, 3)):
        p.call(step, array(number, rows, 3), np.arange(rows) % 4, array(number, rows))


@program()
def arrays_and_branches_on_tensors(p: Run) -> None:
    @p.static
    def function(x: Any, a: Any, b: Any) -> Any:
        if x.sum() > 0:
            y = x + a
        else:
            y = x * b
        n = paddle.zeros([], "int64")
        while n < 3:
            y = y + a.mean()
            n = n + 1
        return y

    for number in range(4):
        p.call(function, p.t(3), array(number, 3), array(number + 7, 3))


@program(whole=False)
def errors_are_those_of_numpy(p: Run) -> None:
    @p.static
    def function(a: Any, x: Any, how: int) -> Any:
        if how == 0:
            return x + a[9]
        if how == 1:
            return x * a.nothing
        if how == 2:
            return F.relu(a)
        if how == 3:
            return x if a else -x
        if how == 4:
            return x + a.reshape(7)
        if how == 5:
            return x + np.ones(4, "float32") * a
        return paddle.concat([x, a])

    for how in range(7):
        for number in range(2):
            p.call(function, array(number, 3), p.t(3), how)


@program()
def the_same_array_twice_and_beside_tensors(p: Run) -> None:
    @p.static
    def function(a: Any, b: Any) -> Any:
        return paddle.to_tensor(a) * 2 + b, isinstance(a, np.ndarray), isinstance(b, paddle.Tensor)

    same = array(0, 3)
    p.call(function, same, same)
    p.call(function, same, array(1, 3))
    p.call(function, paddle.to_tensor(same), same)
    p.call(function, same, paddle.to_tensor(same))
    p.call(function, array(2, 3), paddle.to_tensor(same))


@program(whole=True)
def masks_and_tables_that_the_function_makes(p: Run) -> None:
    scale = [0.5]

    @p.static
    def function(x: Any) -> Any:
        n = x.shape[0]
        mask = np.triu(np.ones((n, n), "float32"), 1) * np.float32(-1e4) + np.full_like(np.eye(n, dtype="float32"), scale[0])
        return x + paddle.to_tensor(mask) + paddle.to_tensor(np.full((n, n), 2, "float32")) * paddle.to_tensor(np.identity(n, "float32"))

    p.call(function, p.t(3, 3))
    p.call(function, p.t(3, 3))
    scale[0] = 2.0
    p.call(function, p.t(3, 3))
    p.call(function, p.t(4, 4))


@program()
def a_buffer_is_filled_anew_before_gradients_are_asked_for(p: Run) -> None:
    weight = p.g(3)

    @p.static
    def function(a: Any) -> Any:
        return (paddle.to_tensor(a) * weight * weight).sum()

    buffer = np.ones(3, "float32")
    for number in range(3):
        buffer[:] = number + 1
        loss = function(buffer)
        buffer[:] = 99
        loss.backward()
        p.note(weight.grad.numpy())
        weight.clear_grad()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_function_does_with_arrays_what_eager_mode_does(name: str) -> None:
    eager, default = _run(name, "eager"), _run(name, "default")
    assert difference(eager, default) is None
    if PROGRAMS[name][1]:
        gathered = [str(calls.gathered) for f in default.statics for calls in f.known_calls() if calls.gathered]
        assert not gathered, f"calls that are to be whole programs are gathered: {gathered}"


@pytest.mark.parametrize("compiled", [lambda function: function, paddle.jit.to_static], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_arrays_are_to_compiled_functions_what_they_are_under_paddle(name: str, compiled: Any) -> None:
    expected = json.loads(FILE.read_text())[name]
    _compare(results(paddle, name, compiled), expected, name)


def _compare(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), where
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            _compare(a, b, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=2e-5, abs=1e-6), where
    else:
        assert found == expected and type(found) is type(expected), where
