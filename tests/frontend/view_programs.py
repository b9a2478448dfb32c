"""Small programs of views, copies and writes, with what numpy, whose views are views, makes of them.

A program is a list of steps (operation, number of the tensor it is about, argument). `random_program` makes one as it runs it on numpy
arrays; `run` runs it on tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Choose = Callable[[int], int]
Step = tuple[str, int, Any]

VIEWS = ["index", "reshape", "flatten", "transpose", "squeeze", "unsqueeze", "detach", "unbind", "moveaxis", "T"]
COPIES = ["clone", "split", "flip", "double", "gathered"]
WRITES = ["fill_", "zero_", "scale_", "add_", "multiply_", "set_item", "set_item_of", "set_rows", "set_mask", "set_value", "copy_", "relu_"]
SEEN_OTHERWISE = ["transpose_", "reshape_", "unsqueeze_", "squeeze_", "flatten_"]
# Tensors that a program begins with: distinct numbers, signs mixed.
FIRST = [(2, 3, 4), (4, 4), (6,)]


def first(shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    return ((np.arange(count, dtype=np.float32) * 7) % count - count // 3).reshape(shape)


def random_program(choose: Choose, length: int) -> tuple[list[Step], list[list[Any]]]:
    """A program, and the contents of all its tensors after each step."""
    arrays = [first(shape) for shape in FIRST]
    steps: list[Step] = []
    seen = []
    while len(steps) < length:
        kinds = VIEWS * 3 + COPIES + WRITES * 3 + SEEN_OTHERWISE
        what, i = kinds[choose(len(kinds))], choose(len(arrays))
        argument = _argument(what, arrays, i, choose)
        if argument is _NONE:
            continue
        steps.append((what, i, argument))
        _on_numpy(arrays, what, i, argument)
        seen.append([a.copy() for a in arrays])
    return steps, seen


_NONE = object()


def _argument(what: str, arrays: list[Any], i: int, choose: Choose) -> Any:
    x = arrays[i]
    if what in ("index", "set_item"):
        return _key(x.shape, choose)
    if what in ("reshape", "reshape_"):
        return _shape(x.size, choose)
    if what in ("transpose", "transpose_"):
        return _order(x.ndim, choose) if x.ndim else _NONE
    if what in ("squeeze", "squeeze_"):
        ones = [a for a, n in enumerate(x.shape) if n == 1]
        return ones[choose(len(ones))] if ones else _NONE
    if what in ("unsqueeze", "unsqueeze_"):
        return choose(x.ndim + 1) if x.ndim < 5 else _NONE
    if what in ("unbind", "split", "flip", "set_rows", "gathered"):
        axis = choose(x.ndim) if x.ndim else _NONE
        if axis is _NONE or not x.shape[axis]:
            return _NONE
        if what in ("unbind", "split"):
            return axis, choose(x.shape[axis])
        return axis if what == "flip" else (0, [choose(x.shape[0]) for _ in range(2)]) if x.shape[0] else _NONE
    if what == "moveaxis":
        return (choose(x.ndim), choose(x.ndim)) if x.ndim else _NONE
    if what in ("flatten", "flatten_"):
        return _NONE if x.ndim == 0 and what == "flatten_" else None
    if what in ("add_", "multiply_", "copy_", "set_value"):
        like = [j for j, other in enumerate(arrays) if other.shape == x.shape]
        return like[choose(len(like))]
    if what == "set_item_of":
        key = _key(x.shape, choose)
        like = [j for j, other in enumerate(arrays) if other.shape == x[key].shape]
        return (key, like[choose(len(like))]) if like else _NONE
    if what == "set_mask":
        return [bool(choose(2)) for _ in range(x.shape[0])] if x.ndim and x.shape[0] else _NONE
    return choose(5) - 2 if what in ("fill_", "scale_") else None


def _key(shape: tuple[int, ...], choose: Choose) -> Any:
    key: list[Any] = []
    for n in shape[: choose(len(shape) + 1)]:
        kind = choose(6)
        if kind < 2 and n:
            key.append(choose(2 * n) - n)
        elif kind == 2:
            key.append(slice(None))
        elif kind == 3 and n:
            key.append(slice(None, None, -1 - choose(2)))
        else:
            start = choose(n + 1)
            key.append(slice(start, start + choose(n - start + 1), 1 + choose(2)))
    if choose(4) == 0 and len(shape) < 5:
        key.insert(choose(len(key) + 1), None)
    if choose(5) == 0:
        key.append(Ellipsis)
    return tuple(key)


def _shape(size: int, choose: Choose) -> list[int]:
    shape: list[int] = []
    while size > 1 and choose(4):
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        shape.append(divisors[choose(len(divisors))])
        size //= shape[-1]
    return [*shape, size] if size != 1 or choose(2) else shape


def _order(rank: int, choose: Choose) -> list[int]:
    left = list(range(rank))
    return [left.pop(choose(len(left))) for _ in range(rank)]


def _on_numpy(arrays: list[Any], what: str, i: int, given: Any) -> None:
    x = arrays[i]
    if what in VIEWS:
        arrays.append(_numpy_view(x, what, given))
    elif what in SEEN_OTHERWISE:
        arrays[i] = _numpy_view(x, what[:-1], given)
    elif what in COPIES:
        copied = {
            "clone": lambda: x.copy(), "split": lambda: np.split(x, x.shape[given[0]], given[0])[given[1]].copy(),
            "flip": lambda: np.flip(x, given).copy(),
            "double": lambda: x * 2, "gathered": lambda: x[given[1]].copy(),
        }[what]()  # fmt: skip
        arrays.append(np.ascontiguousarray(copied).reshape(copied.shape))
    elif what == "set_item":
        x[given] = 9.0
    elif what == "set_item_of":
        x[given[0]] = arrays[given[1]].copy()
    elif what == "set_rows":
        x[given[1]] = -9.0
    elif what == "set_mask":
        x[np.array(given)] = 4.0
    else:
        x[...] = {
            "fill_": lambda: given, "zero_": lambda: 0, "scale_": lambda: x * given, "add_": lambda: x + arrays[given],
            "multiply_": lambda: np.clip(x * arrays[given], -50, 50),
            "set_value": lambda: arrays[given].copy(), "copy_": lambda: arrays[given].copy(), "relu_": lambda: np.maximum(x, 0),
        }[what]()  # fmt: skip


def _numpy_view(x: Any, what: str, given: Any) -> Any:
    if what == "index":
        return x[given] if isinstance(x[given], np.ndarray) else x[(*given, Ellipsis)]
    if what in ("reshape", "flatten") and not x.ndim:  # a copy, as in Paddle
        return x.reshape(given if what == "reshape" else [1]).copy()
    return {
        "reshape": lambda: x.reshape(given), "flatten": lambda: x.reshape([-1]) if x.size else x.reshape([0]),
        "transpose": lambda: x.transpose(given), "T": lambda: x.T,
        "squeeze": lambda: x.squeeze(given), "unsqueeze": lambda: np.expand_dims(x, given), "detach": lambda: x.view(),
        "moveaxis": lambda: np.moveaxis(x, *given),
        "unbind": lambda: np.moveaxis(x, given[0], 0)[given[1], ...],
    }[what]()  # fmt: skip


def run(paddle: Any, steps: list[Step], begin: Callable[[Any], Any] | None = None) -> list[list[Any]]:
    """The contents of all tensors after each step."""
    tensors = [paddle.to_tensor(first(shape)) for shape in FIRST]
    if begin is not None:
        tensors = [begin(t) for t in tensors]
    seen = []
    for what, i, given in steps:
        apply(paddle, tensors, what, i, given)
        seen.append([t.numpy() for t in tensors])
    return seen


def apply(paddle: Any, tensors: list[Any], what: str, i: int, given: Any) -> None:
    """One step on tensors, which gain one if it makes one."""
    x = tensors[i]
    if what == "index":
        tensors.append(x[given])
    elif what in ("reshape", "transpose", "squeeze", "unsqueeze"):
        tensors.append(getattr(x, what)(given))
    elif what == "T":
        tensors.append(x.T)
    elif what in ("flatten", "detach", "clone"):
        tensors.append(getattr(x, what)())
    elif what == "unbind":
        tensors.append(paddle.unbind(x, given[0])[given[1]])
    elif what == "moveaxis":
        tensors.append(paddle.moveaxis(x, *given))
    elif what == "split":
        tensors.append(paddle.split(x, x.shape[given[0]], given[0])[given[1]])
    elif what == "flip":
        tensors.append(paddle.flip(x, [given]))
    elif what == "double":
        tensors.append(x * 2)
    elif what == "gathered":
        tensors.append(x[given[1]])
    elif what in ("reshape_", "transpose_", "unsqueeze_", "squeeze_"):
        getattr(paddle, what)(x, given)
    elif what == "flatten_":
        paddle.flatten_(x)
    elif what == "set_item":
        x[given] = 9.0
    elif what == "set_item_of":
        x[given[0]] = tensors[given[1]]
    elif what == "set_rows":
        x[given[1]] = paddle.full([1], -9.0)
    elif what == "set_mask":
        x[paddle.to_tensor(given)] = 4.0
    elif what == "zero_":
        x.zero_()
    elif what == "fill_":
        x.fill_(float(given))
    elif what == "scale_":
        x.scale_(float(given))
    elif what == "add_":
        x.add_(tensors[given])
    elif what == "multiply_":
        x.multiply_(tensors[given])
        x.clip_(-50.0, 50.0)
    elif what == "set_value":
        x.set_value(tensors[given])
    elif what == "copy_":
        x.copy_(tensors[given], True)
    else:
        assert what == "relu_"
        paddle.nn.functional.relu_(x)
