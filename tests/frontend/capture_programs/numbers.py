"""Programs in which tensors decide numbers of Python's: what these meet has the dtype and digits that it has in eager mode, or the call is
refused.
"""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from tests.frontend.capture_programs.driver import Run, program

DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "int8")


def calls_of_each_dtype(p: Run, function: Any) -> None:
    for dtype in DTYPES:
        for decides in (1, -1):
            p.call(function, paddle.to_tensor(decides), paddle.to_tensor([3.0, 4.0, 7.0]).astype(dtype))


@program(whole=False)
def a_whole_number_meets_every_dtype(p: Run) -> None:
    @p.static
    def function(decides: Any, x: Any) -> Any:
        s = 1 if decides > 0 else 2
        return x * s, x / s, x**s, x // s, s // x, s + x, s - x, x % s, -s * x, x > s, s == x, -x // s * s

    calls_of_each_dtype(p, function)


@program(whole=False)
def a_float_meets_every_dtype(p: Run) -> None:
    @p.static
    def function(decides: Any, x: Any) -> Any:
        s = 0.5 if decides > 0 else 0.25
        return x * s, x / s, x**s, x // s, s // x, s + x, s - x, x % s, -s * x, x > s, s == x

    calls_of_each_dtype(p, function)


@program(whole=False)
def a_bool_counts_and_scales(p: Run) -> None:
    @p.static
    def function(decides: Any, x: Any) -> Any:
        flag = decides > 0 and decides < 5
        other = not decides > 3
        return x * flag, x + (flag + other), (flag + other) * 2 - x, x / (1 + other)

    for dtype in ("float32", "bfloat16", "int32"):
        for decides in (1, -1, 4):
            p.call(function, paddle.to_tensor(decides), paddle.to_tensor([3.0, 4.0, 7.0]).astype(dtype))


@program(whole=False)
def a_loop_counts_beside_every_dtype(p: Run) -> None:
    @p.static
    def function(n: Any, x: Any) -> Any:
        k, rate, y = 0, 1.0, x * 1
        while k < n:
            k += 1
            rate *= 0.5
            y = y + x * k - x // k
        return y, x * k, x // (k + 1), (x > 3).astype("int32") * k

    for dtype in DTYPES:
        for n in (1, 2):
            p.call(function, paddle.to_tensor(n), paddle.to_tensor([3.0, 4.0, 7.0]).astype(dtype))


@program(whole=False)
def sums_begin_with_numbers(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any, k: Any) -> Any:
        total, count, i = 0.0, 0, 0
        while i < n:
            total = total + x.mean()
            count = count + (x > 0).sum()
            i += 1
        return x * total, k * count, count // k, k.astype("float16") * total, total / (count + 1), x.sum().astype("bfloat16") + total

    for rows in (1, 3):
        for n in (1, 3):
            p.call(function, p.t(rows), paddle.to_tensor(n), paddle.to_tensor(4, dtype="int32"))


def refused(name: str, chosen: Any) -> None:
    """A program of calls that a float or a whole number decides about, whose results differ in dtype or digits by that."""

    def calls(p: Run) -> None:
        function = p.static(chosen)
        for dtype in ("int32", "float64", "bool"):
            for decides in (1, -1):
                p.call(function, paddle.to_tensor(decides), paddle.to_tensor([3.0, 4.0, 0.0]).astype(dtype))

    calls.__name__ = name
    program(whole=False)(calls)


def _of_two_kinds(decides: Any, x: Any) -> Any:
    s = 2 if decides > 0 else 0.1
    return s * x


def _beside_a_whole_tensor(decides: Any, x: Any) -> Any:
    s = 2.0 if decides > 0 else decides * 3
    return s / 3, s * x


def _beside_a_bool(decides: Any, x: Any) -> Any:
    s = 3 if decides > 0 else decides > -5
    return s * x


def _rounded(decides: Any, x: Any) -> Any:
    s = 0.1 if decides > 0 else 0.2
    return x.astype("float64") * s * 1e9, paddle.scale(x.astype("float64"), s) * 1e9


def _asked_for_its_kind(decides: Any, x: Any) -> Any:
    s = 2 if decides > 0 else 3
    return x * 2 if isinstance(s, int) else x * 1


def _asked_what_a_sum_is(decides: Any, x: Any) -> Any:
    total = 0.0
    for _ in range(decides):
        total = total + x.astype("float32").mean()
    return x * 2 if isinstance(total, paddle.Tensor) else x * 1


def _handed_to_a_function(decides: Any, x: Any) -> Any:
    s = 2 if decides > 0 else 0.5
    return paddle.add(x.astype("int64"), paddle.to_tensor(s))


def _short(decides: Any, x: Any) -> Any:
    s = 1e6 if decides > 0 else x.astype("float16").max()
    return s + paddle.ones([2]), 0.1 if decides < 0 else x.astype("bfloat16").max() * 1


def _to_a_power(decides: Any, x: Any) -> Any:
    s = 2 if decides > 0 else 3
    return x * s**-1, x * 2**-s


for _name, _chosen in {
    "a_number_to_a_negative_power": _to_a_power,
    "a_number_of_two_kinds": _of_two_kinds,
    "a_float_beside_a_whole_tensor": _beside_a_whole_tensor,
    "a_whole_number_beside_a_bool": _beside_a_bool,
    "a_rounded_number_beside_float64": _rounded,
    "a_number_is_asked_for_its_kind": _asked_for_its_kind,
    "a_sum_is_asked_what_it_is": _asked_what_a_sum_is,
    "a_number_of_two_kinds_is_handed_on": _handed_to_a_function,
    "a_number_beside_a_short_float": _short,
}.items():
    refused(_name, _chosen)


@program(whole=False)
def whole_numbers_divided_by_zero(p: Run) -> None:
    total = p.t(3)

    @p.static
    def by_tensor(x: Any, y: Any) -> Any:
        total.add_(x.astype("float32"))
        return x // y, x % y

    @p.static
    def by_known(x: Any) -> Any:
        return x // 2, x // 0

    p.watch(total)
    for last in (1, 0, 2, 0):
        p.call(by_tensor, p.t(3, dtype="int64"), paddle.to_tensor([1, -2, last]))
    p.call(by_known, p.t(3, dtype="int64"))
