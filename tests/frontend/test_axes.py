"""Every function that takes an axis, along every axis of tensors of three and four axes, negative ones too, against NumPy in float64; and
its gradient along a direction.

Sizes are odd, one and none. What NumPy does not have is written with its plain loops here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyreme as paddle

F = paddle.nn.functional
Array = np.ndarray[Any, Any]
SHAPES = [(3, 5, 2), (2, 3, 1, 5), (4, 1, 3), (2, 0, 3), (1, 4, 3, 0)]
STEP = 1e-6


@dataclass(frozen=True)
class Along:
    """`call(x, axis)` gives what `wanted(array, axis)` gives. `smooth`: it has a gradient. `least`: how many elements the axis must have;
    `divides`: what divides its size.
    """

    call: Callable[[Any, int], Any]
    wanted: Callable[[Array, int], Any]
    smooth: bool = True
    least: int = 0
    divides: int = 1


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True)) if x.shape[axis] else x
    return e / e.sum(axis, keepdims=True)


def _places(x: Array, axis: int, count: int = 4) -> Array:
    """Positions along the axis that differ from place to place, negative ones among them, one more than there are elements."""
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = count
    return np.random.default_rng(3).integers(-size, size, shape) if size else np.zeros(shape, np.int64)[:0]


def _take(x: Array, axis: int) -> Array:
    return np.take_along_axis(x, _places(x, axis) % x.shape[axis], axis)


def _put(x: Array, axis: int, add: bool) -> Array:
    places, made = _places(x, axis, 2), x.copy()
    for at in np.ndindex(*places.shape):
        to = (*at[:axis], places[at], *at[axis + 1 :])
        made[to] = made[to] + 2.0 if add else 2.0
    return made


def _mode(x: Array, axis: int) -> Array:
    def of_vector(row: Array) -> Array:
        values, counts = np.unique(row, return_counts=True)
        return values[counts.argmax()]

    return np.apply_along_axis(of_vector, axis, x) if x.size else x.sum(axis)


def _distinct(x: Array, axis: int) -> Array:
    """By slices whose other axes stand in the order that exchanging `axis` with the first one gives."""
    return np.unique(np.round(x).swapaxes(0, axis), axis=0).swapaxes(0, axis) if x.size else x


def _runs(x: Array, axis: int) -> Array:
    rows = np.round(x).swapaxes(0, axis)
    starts = [i for i in range(len(rows)) if not i or (rows[i] != rows[i - 1]).any()]
    return rows[starts].swapaxes(0, axis) if x.size else x


def _running(x: Array, axis: int, extreme: np.ufunc) -> list[Array]:
    """What was the most extreme so far, and where it stands."""
    values = extreme.accumulate(x, axis)
    numbers = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return [values, np.maximum.accumulate(np.where(x == values, numbers, 0), axis)]


def _renormed(x: Array, axis: int, most: float) -> Array:
    """Each part along the axis with a norm of at most `most`."""
    norms = np.sqrt((x * x).sum(tuple(i for i in range(x.ndim) if i != axis % x.ndim), keepdims=True))
    return np.where(norms > most, x * (most / (norms + 1e-7)), x)


def _positions(x: Array, axis: int, start: int = 1) -> Array:
    return np.arange(x.shape[axis])[start:]


def _number(value: Any) -> Any:
    return paddle.to_tensor(np.asarray(value))


def _index_add(x: Any, axis: int) -> Any:
    part = np.ones([2 if i == axis % x.ndim else n for i, n in enumerate(x.shape)]) * 1.5
    return paddle.index_add(x, _number([0, 0]), axis, _number(part))


def _index_added(x: Array, axis: int) -> Array:
    made = x.copy()
    np.moveaxis(made, axis, 0)[0] += 3.0
    return made


def _filled(x: Array, axis: int) -> Array:
    made = x.copy()
    np.moveaxis(made, axis, 0)[0] = 9.0
    return made


def _unit(x: Array, axis: int) -> Array:
    return x / np.maximum(np.sqrt((x * x).sum(axis, keepdims=True)), 1e-12)


def _halves(x: Array, axis: int) -> Array:
    a, b = np.split(x, 2, axis)
    return a / (1 + np.exp(-b))


def _largest_of_two(x: Array, axis: int) -> Array:
    axis %= x.ndim
    return x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :]).max(axis + 1)


def _cosine(x: Array, axis: int) -> Array:
    y = np.cos(x)
    norm = lambda v: np.sqrt((v * v).sum(axis))
    return (x * y).sum(axis) / np.maximum(norm(x) * norm(y), 1e-8)


def _labels(x: Array, axis: int) -> Array:
    shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
    return np.random.default_rng(4).integers(0, max(x.shape[axis], 1), shape)


def _entropy(x: Array, axis: int) -> Array:
    return -np.log(np.take_along_axis(_softmax(x, axis), _labels(x, axis), axis))


def _first(axis: int, x: Any) -> int:
    return axis % x.ndim


def _called(name: str) -> Callable[[Any, int], Any]:
    return lambda x, axis: getattr(paddle, name)(x, axis=axis)


_KEEPING = "all amax amin any count_nonzero logsumexp max mean min nanmean nansum prod std sum var"
_NUMPY = {
    "amax": np.max,
    "amin": np.min,
    "nanmean": np.nanmean,
    "nansum": np.nansum,
    "std": lambda x, a: np.std(x, a, ddof=1),
    "var": lambda x, a: np.var(x, a, ddof=1),
}
_NUMPY |= {"logsumexp": lambda x, a: np.log(np.exp(x).sum(a)), "count_nonzero": np.count_nonzero}
_LEAST = {"amax": 1, "amin": 1, "max": 1, "min": 1, "logsumexp": 1, "nanmean": 1, "mean": 1, "std": 2, "var": 2}
_WHOLE = ("all", "any", "count_nonzero")

TABLE: dict[str, Along] = {
    **{
        name: Along(_called(name), _NUMPY.get(name, getattr(np, name, None)), name not in _WHOLE, _LEAST.get(name, 0))
        for name in _KEEPING.split()
    },
    "argmax": Along(lambda x, a: paddle.argmax(x, axis=a), np.argmax, False, 1),
    "argmin": Along(lambda x, a: paddle.argmin(x, axis=a, keepdim=True), lambda x, a: np.argmin(x, a, keepdims=True), False, 1),
    "argsort": Along(lambda x, a: paddle.argsort(x, axis=a), lambda x, a: np.argsort(x, a, kind="stable"), False),
    "argsort descending": Along(
        lambda x, a: paddle.argsort(x, axis=a, descending=True), lambda x, a: np.argsort(-x, a, kind="stable"), False
    ),
    "chunk": Along(lambda x, a: paddle.chunk(x, 2, axis=a), lambda x, a: np.split(x, 2, a), divides=2, least=1),
    "concat": Along(lambda x, a: paddle.concat([x, x * 2], axis=a), lambda x, a: np.concatenate([x, x * 2], a)),
    "cross": Along(lambda x, a: paddle.cross(x, paddle.cos(x), axis=a), lambda x, a: np.cross(x, np.cos(x), axis=a), divides=3, least=3),
    "cummax": Along(lambda x, a: paddle.cummax(x, axis=a), lambda x, a: _running(x, a, np.maximum)),
    "cummin": Along(lambda x, a: paddle.cummin(x, axis=a), lambda x, a: _running(x, a, np.minimum)),
    "cumprod": Along(lambda x, a: paddle.cumprod(x, dim=a), np.cumprod),
    "cumsum": Along(lambda x, a: paddle.cumsum(x, axis=a), np.cumsum),
    "diagonal": Along(lambda x, a: paddle.diagonal(x, 0, a, _first(a + 1, x)), lambda x, a: np.diagonal(x, 0, a, (a + 1) % x.ndim)),
    "diff": Along(lambda x, a: paddle.diff(x, axis=a), lambda x, a: np.diff(x, axis=a), least=1),
    "flatten": Along(
        lambda x, a: paddle.flatten(x, a, -1), lambda x, a: x.reshape(*x.shape[: a % x.ndim], int(np.prod(x.shape[a % x.ndim :])))
    ),
    "flip": Along(lambda x, a: paddle.flip(x, axis=a), np.flip),
    "gather": Along(lambda x, a: paddle.gather(x, _number([1, 0, 1]), axis=a), lambda x, a: np.take(x, [1, 0, 1], a), least=2),
    "index_add": Along(_index_add, _index_added, least=1),
    "index_fill": Along(lambda x, a: paddle.index_fill(x, _number([0]), a, 9.0), _filled, least=1),
    "index_select": Along(lambda x, a: paddle.index_select(x, _number([1, 1, 0]), axis=a), lambda x, a: np.take(x, [1, 1, 0], a), least=2),
    "kthvalue": Along(
        lambda x, a: paddle.kthvalue(x, 2, axis=a), lambda x, a: (np.sort(x, a).take(1, a), np.argsort(x, a).take(1, a)), least=2
    ),
    "median": Along(lambda x, a: paddle.median(x, axis=a), np.median, least=1),
    "median min": Along(
        lambda x, a: paddle.median(x, axis=a, mode="min"),
        lambda x, a: tuple(f(x, a).take((x.shape[a] - 1) // 2, a) for f in (np.sort, np.argsort)),
        least=1,
    ),
    "mode": Along(lambda x, a: paddle.mode(paddle.round(x), axis=a)[0], lambda x, a: _mode(np.round(x), a), False, 1),
    "moveaxis": Along(lambda x, a: paddle.moveaxis(x, a, 0), lambda x, a: np.moveaxis(x, a, 0)),
    "nanmedian": Along(lambda x, a: paddle.nanmedian(x, axis=a), np.median, least=1),
    "norm": Along(lambda x, a: paddle.norm(x, 2, axis=a), lambda x, a: np.sqrt((x * x).sum(a))),
    "norm of p": Along(lambda x, a: paddle.norm(x, 1, axis=a), lambda x, a: np.abs(x).sum(a)),
    "put_along_axis": Along(
        lambda x, a: paddle.put_along_axis(x, _number(_places(x.numpy(), _first(a, x), 2)), 2.0, a),
        lambda x, a: _put(x, a % x.ndim, False),
        least=1,
    ),
    "put_along_axis add": Along(
        lambda x, a: paddle.put_along_axis(x, _number(_places(x.numpy(), _first(a, x), 2)), 2.0, a, "add"),
        lambda x, a: _put(x, a % x.ndim, True),
        least=1,
    ),
    "repeat_interleave": Along(lambda x, a: paddle.repeat_interleave(x, 2, axis=a), lambda x, a: np.repeat(x, 2, a)),
    "reverse": Along(lambda x, a: paddle.reverse(x, axis=a), np.flip),
    "roll": Along(lambda x, a: paddle.roll(x, 2, axis=a), lambda x, a: np.roll(x, 2, a)),
    "slice": Along(lambda x, a: paddle.slice(x, [_first(a, x)], [1], [9]), lambda x, a: np.take(x, _positions(x, a), a), least=2),
    "sort": Along(lambda x, a: paddle.sort(x, axis=a), np.sort),
    "sort descending": Along(lambda x, a: paddle.sort(x, axis=a, descending=True), lambda x, a: np.flip(np.sort(x, a), a)),
    "split": Along(lambda x, a: paddle.split(x, [1, -1], axis=a), lambda x, a: np.split(x, [1], a), least=2),
    "squeeze": Along(lambda x, a: paddle.squeeze(x, axis=a), lambda x, a: np.squeeze(x, a) if x.shape[a] == 1 else x),
    "stack": Along(lambda x, a: paddle.stack([x, x * 2], axis=a), lambda x, a: np.stack([x, x * 2], a)),
    "strided_slice": Along(
        lambda x, a: paddle.strided_slice(x, [_first(a, x)], [0], [9], [2]), lambda x, a: np.take(x, np.arange(x.shape[a])[::2], a), least=1
    ),
    "logcumsumexp": Along(lambda x, a: paddle.logcumsumexp(x, axis=a), np.logaddexp.accumulate),
    "renorm": Along(lambda x, a: paddle.renorm(x, 2.0, a, 1.5), lambda x, a: _renormed(x, a, 1.5)),
    "take_along_axis": Along(
        lambda x, a: paddle.take_along_axis(x, _number(_places(x.numpy(), _first(a, x))), a), lambda x, a: _take(x, a % x.ndim), least=1
    ),
    "topk": Along(
        lambda x, a: paddle.topk(x, 2, axis=a),
        lambda x, a: tuple(np.take(f, [0, 1], a) for f in (-np.sort(-x, a), np.argsort(-x, a))),
        least=2,
    ),
    "topk smallest": Along(
        lambda x, a: paddle.topk(x, 2, axis=a, largest=False),
        lambda x, a: tuple(np.take(f(x, a), [0, 1], a) for f in (np.sort, np.argsort)),
        least=2,
    ),
    "trace": Along(lambda x, a: paddle.trace(x, 0, a, _first(a + 1, x)), lambda x, a: np.trace(x, 0, a, (a + 1) % x.ndim), least=1),
    "transpose": Along(
        lambda x, a: paddle.transpose(x, [a, *(i for i in range(x.ndim) if i != _first(a, x))]), lambda x, a: np.moveaxis(x, a, 0)
    ),
    "unbind": Along(lambda x, a: paddle.unbind(x, axis=a), lambda x, a: [x.take(i, a) for i in range(x.shape[a])], least=1),
    "unique": Along(lambda x, a: paddle.unique(paddle.round(x), axis=a), _distinct, False, 1),
    "unique_consecutive": Along(lambda x, a: paddle.unique_consecutive(paddle.round(x), axis=a), _runs, False, 1),
    "unsqueeze": Along(lambda x, a: paddle.unsqueeze(x, axis=a), lambda x, a: np.expand_dims(x, a)),
    "unstack": Along(lambda x, a: paddle.unstack(x, axis=a), lambda x, a: [x.take(i, a) for i in range(x.shape[a])], least=1),
    # nn.functional
    "cosine_similarity": Along(lambda x, a: F.cosine_similarity(x, paddle.cos(x), axis=a), _cosine, least=1),
    "cross_entropy": Along(
        lambda x, a: F.cross_entropy(x, _number(_labels(x.numpy(), _first(a, x))), reduction="none", axis=a),
        lambda x, a: _entropy(x, a % x.ndim),
        least=1,
    ),
    "dropout": Along(lambda x, a: F.dropout(x, 0.0, axis=a), lambda x, a: x),
    "glu": Along(lambda x, a: F.glu(x, axis=a), _halves, divides=2, least=2),
    # What is drawn differs; along the axis it sums to one.
    "gumbel_softmax": Along(lambda x, a: F.gumbel_softmax(x, axis=a).sum(a), lambda x, a: np.ones_like(x.sum(a)), False, 1),
    "log_softmax": Along(lambda x, a: F.log_softmax(x, axis=a), lambda x, a: np.log(_softmax(x, a)), least=1),
    "maxout": Along(lambda x, a: F.maxout(x, 2, axis=a), _largest_of_two, divides=2, least=2),
    "normalize": Along(lambda x, a: F.normalize(x, axis=a), _unit),
    "softmax": Along(lambda x, a: F.softmax(x, axis=a), _softmax, least=1),
    "softmax_with_cross_entropy": Along(
        lambda x, a: F.softmax_with_cross_entropy(x, _number(_labels(x.numpy(), _first(a, x))), axis=a),
        lambda x, a: _entropy(x, a % x.ndim),
        least=1,
    ),
}
# Paddle's own restrictions, which we share.
ONLY_FOUR_AXES = ("maxout",)


def _inputs() -> list[Any]:
    made = []
    for name, row in TABLE.items():
        for shape in SHAPES:
            if all(n < row.least or n % row.divides for n in shape) or (name in ONLY_FOUR_AXES and len(shape) != 4):
                continue
            made.append(pytest.param(name, shape, id=f"{name}-{'x'.join(map(str, shape))}"))
    return made


def _numbers(shape: tuple[int, ...]) -> Array:
    """All different, and at least a quarter apart."""
    size = int(np.prod(shape))
    return (np.random.default_rng(size).permutation(size) - size / 2 + 0.4).reshape(shape) * 0.25


def _parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize(("name", "shape"), _inputs())
def test_along_every_axis_it_gives_what_numpy_gives(name: str, shape: tuple[int, ...]) -> None:
    row, values = TABLE[name], _numbers(shape)
    for axis in range(-len(shape), len(shape)):
        size = shape[axis]
        if size < row.least or size % row.divides:
            continue
        wanted = _parts(row.wanted(values, axis))
        x = paddle.to_tensor(values, stop_gradient=not row.smooth)
        found = _parts(row.call(x, axis))
        assert len(found) == len(wanted)
        for got, expected in zip(found, wanted, strict=True):
            assert tuple(got.shape) == np.shape(expected), f"axis {axis}"
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-11, err_msg=f"axis {axis}")
        if row.smooth and values.size:
            _check_gradient(row, values, axis, x, found)


def _check_gradient(row: Along, values: Array, axis: int, x: Any, found: list[Any]) -> None:
    rng = np.random.default_rng(axis + 9)
    outputs = [t for t in found if t.dtype == paddle.float64]
    weights = [rng.standard_normal(tuple(t.shape)) for t in outputs]
    direction = rng.standard_normal(values.shape)
    (gradient,) = paddle.grad(outputs, [x], [_number(w) for w in weights])
    ahead, behind = (_parts(row.wanted(values + s * direction, axis)) for s in (STEP, -STEP))
    moved = [(np.asarray(a) - b) / (2 * STEP) for a, b, t in zip(ahead, behind, found, strict=True) if t.dtype == paddle.float64]
    wanted = sum(float((w * m).sum()) for w, m in zip(weights, moved, strict=True))
    np.testing.assert_allclose(float((gradient.numpy() * direction).sum()), wanted, rtol=1e-5, atol=1e-7, err_msg=f"gradient, axis {axis}")


@pytest.mark.parametrize("name", ["argsort", "topk", "kthvalue", "median", "max", "softmax", "cumsum", "take_along_axis"])
def test_an_axis_outside_of_the_tensor_is_refused(name: str) -> None:
    x = paddle.to_tensor(_numbers((3, 5, 2)))
    for axis in (3, -4):
        with pytest.raises((ValueError, IndexError)):
            if name == "take_along_axis":
                paddle.take_along_axis(x, _number(np.zeros((1, 1, 1), np.int64)), axis)
            else:
                TABLE[name].call(x, axis)


def test_every_function_with_an_axis_is_in_the_table() -> None:
    axes = {"axis", "axes", "dim", "start_axis", "axis1", "source", "perm"}
    with_axis = set()
    for space in (paddle, F):
        for name in dir(space):
            function = getattr(space, name)
            if not name.startswith("_") and callable(function) and not inspect.isclass(function) and axes & set(_parameters(function)):
                with_axis.add(name)
    # What has an underscore behind it is compared with what has none in `test_in_place.py`.
    assert {n for n in with_axis if not n.endswith("_")} == {name.split()[0] for name in TABLE}


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
