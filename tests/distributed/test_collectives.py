"""Collectives among threads of one process: values, bits, order, and what goes wrong by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyreme.runtime.collectives import CollectiveError, Communicator, LocalGroup, LostRankError, MismatchError, OneRank, Step

SIZES = [1, 2, 3, 5]


def step(detail: str = "", place: str = "") -> Step:
    return Step("all_reduce", detail, place)


def ranks(size: int, function: Callable[[Communicator], Any], patience: float = 20.0) -> list[Any]:
    return LocalGroup(size, patience).run(function)


def given(rank: int, shape: tuple[int, ...] = (7, 3), dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(rank).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reduce, function", [("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min), ("prod", np.prod)])
def test_an_all_reduce_combines_what_the_ranks_give(size: int, reduce: str, function: Any) -> None:
    found = ranks(size, lambda c: c.all_reduce([given(c.rank), given(c.rank + 9, ())], reduce, step()).wait())
    for rank in range(size):
        for i, wanted in enumerate([[given(r) for r in range(size)], [given(r + 9, ()) for r in range(size)]]):
            np.testing.assert_allclose(found[rank][i], function(np.stack(wanted), axis=0), rtol=1e-5)
            assert found[rank][i].tobytes() == found[0][i].tobytes()


def test_the_bits_do_not_depend_on_how_arrays_are_grouped() -> None:
    arrays = [(5,), (64, 3), (1,), (200,), (17, 2)]

    def together(c: Communicator) -> Any:
        return c.all_reduce([given(c.rank * 10 + i, s) for i, s in enumerate(arrays)], "mean", step()).wait()

    def one_by_one(c: Communicator) -> Any:
        started = [c.all_reduce([given(c.rank * 10 + i, s)], "mean", step(str(i))) for i, s in enumerate(arrays)]
        return [p.wait()[0] for p in started]

    for a, b in zip(ranks(3, together), ranks(3, one_by_one), strict=True):
        assert [x.tobytes() for x in a] == [x.tobytes() for x in b]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_added_up_in_32_bits(dtype: Any) -> None:
    # 2048 + 1 is 2048 in float16, so adding one by one would lose all ones.
    parts = [2048.0 if dtype is np.float16 else 256.0, *[1.0] * 4]
    (total,) = ranks(5, lambda c: c.all_reduce([np.full(3, parts[c.rank], dtype)], "sum", step()).wait())[0]
    assert total.dtype == dtype
    assert total.astype(np.float32).tolist() == [float(np.asarray(sum(parts)).astype(dtype))] * 3


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_gather_and_scatter(size: int) -> None:
    def work(c: Communicator) -> Any:
        c.barrier(Step("barrier"))
        b = c.broadcast(given(c.rank), size - 1, Step("broadcast")).wait()
        g = c.all_gather(given(c.rank), Step("all_gather")).wait()
        s = c.reduce_scatter(np.arange(2 * size) * (c.rank + 1), "sum", Step("reduce_scatter")).wait()
        return b, g, s

    for rank, (b, g, s) in enumerate(ranks(size, work)):
        np.testing.assert_array_equal(b, given(size - 1))
        np.testing.assert_array_equal(g, np.stack([given(r) for r in range(size)]))
        np.testing.assert_array_equal(s, np.arange(2 * rank, 2 * rank + 2) * (size * (size + 1) // 2))


def test_one_rank_gives_back_what_it_is_given() -> None:
    alone = OneRank()
    x = given(0)
    assert alone.all_reduce([x], "mean", step()).wait()[0] is x
    assert alone.all_gather(x, step()).wait().shape == (1, 7, 3)


def test_a_call_runs_while_the_caller_goes_on() -> None:
    order: list[str] = []

    def work(c: Communicator) -> None:
        if c.rank == 0:
            started = c.all_reduce([given(0)], "sum", step())
            order.append("0 goes on")
            c.barrier(Step("barrier"))
            started.wait()
        else:
            while not order:
                pass
            c.all_reduce([given(1)], "sum", step()).wait()
            c.barrier(Step("barrier"))

    ranks(2, work)
    assert order == ["0 goes on"]


def test_different_calls_are_an_error_that_says_what_each_rank_does() -> None:
    def work(c: Communicator) -> None:
        c.barrier(Step("barrier"))
        c.all_reduce([given(0)], "sum", Step("all_reduce", f"bucket {c.rank}", f"train.py:{40 + c.rank}", "ab12")).wait()

    with pytest.raises(
        MismatchError,
        match="number 2, but rank 0 is at all_reduce .bucket 0, schedule ab12. at train.py:40; "
        "rank 1 is at all_reduce .bucket 1.*train.py:41",
    ):
        ranks(2, work)


def test_different_plans_are_found_even_when_the_call_is_alike() -> None:
    with pytest.raises(MismatchError, match="schedule aa.*schedule bb"):
        ranks(2, lambda c: c.all_reduce([given(0)], "sum", Step("all_reduce", "same", "", "ab"[c.rank] * 2)).wait())


def test_a_lost_rank_is_an_error_that_names_it() -> None:
    group = LocalGroup(3)

    def work(c: Communicator) -> Any:
        c.barrier(Step("barrier"))
        if c.rank == 1:
            group.lose(1)
            return None
        with pytest.raises(LostRankError, match="rank 1 was lost .* was in all_reduce .bucket 4. at train.py:12") as caught:
            c.all_reduce([given(0)], "sum", Step("all_reduce", "bucket 4", "train.py:12")).wait()
        with pytest.raises(LostRankError):
            c.barrier(Step("barrier"))
        return caught.value.ranks

    assert group.run(work)[::2] == [(1,), (1,)]


def test_a_rank_that_fails_tells_the_others_why() -> None:
    seen: list[str] = []

    def work(c: Communicator) -> None:
        if c.rank == 1:
            raise KeyError("labels")
        try:
            c.all_reduce([given(0)], "sum", step()).wait()
        except MismatchError as error:
            seen.append(str(error))
            raise

    with pytest.raises(KeyError, match="labels"):
        ranks(2, work)
    assert "rank 1 is at the end (KeyError: 'labels')" in seen[0]


def test_a_rank_that_ends_early_is_an_error_in_all() -> None:
    with pytest.raises(MismatchError, match="rank 1 is at the end"):
        ranks(2, lambda c: c.rank == 0 and c.all_reduce([given(0)], "sum", step()).wait())


def test_patience_ends_with_the_name_of_who_is_late() -> None:
    group = LocalGroup(2, patience=0.05)
    with pytest.raises(CollectiveError, match="rank 1 has not come within 0.05 s to where rank 0 waits, in barrier at train.py:3"):
        group.communicators[0].barrier(Step("barrier", place="train.py:3"))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda c: c.all_reduce([given(0), given(0, dtype=np.float64)], "sum", step()), "one dtype but got float32, float64"),
        (lambda c: c.all_reduce([np.arange(3)], "mean", step()), "floats to take the mean of but got int64"),
        (lambda c: c.all_reduce([given(0)], "avg", step()), "expected a reduction .* but got 'avg'"),
        (lambda c: c.broadcast(given(0), 2, step()), "0 to 1, but got 2"),
        (lambda c: c.reduce_scatter(given(0), "sum", step()), r"2 ranks can share but got shape \[7, 3\]"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(LocalGroup(2).communicators[0])
