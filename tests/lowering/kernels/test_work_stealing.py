"""Work stealing: every item is taken once, and its results are combined once, by the thread that finishes last."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.ir.builtin import Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, i64
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.work_stealing import CLOSED, Tickets
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import host
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.kernel_modules import one_function

OWNERS, TURNS = 5, 6


def shared_work(opens: bool) -> Module:
    """Five owners of six turns each. An owner takes its own ones, which are closed until it comes, then those of others; `opens` off, it
    leaves out opening. The results: how often each turn was taken, and for each owner the sum of what its turns left and how often that was
    put together.
    """
    sizes = [OWNERS * TURNS, OWNERS, OWNERS, OWNERS * Tickets.elements(TURNS)]
    module, (counts, sums, ends, notes), b = one_function([], [BufferType((n,), i64) for n in sizes])
    code = Code(b)
    for buffer, size in ((counts, sizes[0]), (sums, OWNERS), (ends, OWNERS)):
        with code.loop(0, size) as loop:
            code.store(code.constant(0, i64), buffer, loop.iv)
    tickets = Tickets(code, notes, TURNS)
    with code.loop(0, OWNERS) as loop:
        tickets.begin(loop.iv, code.apply("lt", loop.iv, code.value(0)))
    with code.parallel(code.value(OWNERS)) as thread, code.loop(0, OWNERS) as away:
        owner = code.value(code.mod(code.add(thread, away.iv), OWNERS))
        is_own = code.apply("eq", away.iv, code.value(0))
        did = code.scratch(1, i64)
        code.store(code.constant(0, i64), did, 0)
        if opens:
            with code.when(is_own):
                tickets.open(owner)
        with code.loop(0, TURNS), code.when(code.apply("or", is_own, tickets.are_open(owner))):
            item = tickets.take(owner, TURNS, is_own)
            with code.when(code.apply("lt", item, code.value(TURNS))):
                code.fetch_add(1, counts, code.add(code.mul(owner, TURNS), item))
                tickets.leave(owner, item, code.add(code.mul(owner, 100), item))
                code.fetch_add(1, did, 0)
        mine = code.fetch_add(0, did, 0)
        with code.when(code.apply("gt", mine, code.value(0))), code.when(tickets.are_done(owner, mine, TURNS)):
            code.fetch_add(1, ends, owner)
            with code.loop(0, 2 * TURNS) as loop:
                # Asked for twice, of which the second time tells nothing.
                code.fetch_add(tickets.left(owner, code.mod(loop.iv, TURNS)), sums, owner)
    b(Return, ())
    return module


def expected_sums() -> list[int]:
    return [sum(100 * owner + item + 1 for item in range(TURNS)) for owner in range(OWNERS)]


def check(counts: np.ndarray, sums: np.ndarray, ends: np.ndarray) -> None:
    assert list(counts) == [1] * (OWNERS * TURNS)
    assert list(ends) == [1] * OWNERS
    assert list(sums) == expected_sums()


def test_each_item_is_taken_once_and_combined_once_on_numpy() -> None:
    counts, sums, ends, _ = evaluate(shared_work(opens=True), [])
    check(counts, sums, ends)


def test_each_item_is_taken_once_and_combined_once_by_threads() -> None:
    """More threads than processors too, which are stopped anywhere."""
    executable = load(build_artifact(shared_work(opens=True), host()))
    before = get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            set_num_threads(threads)
            for _ in range(200):
                counts, sums, ends, _ = executable.run([])
                check(counts, sums, ends)
    finally:
        set_num_threads(before)


def test_items_that_are_not_open_are_for_their_owner_alone() -> None:
    """Without opening, an owner's tickets begin behind its turns: nobody takes any."""
    counts, sums, ends, notes = evaluate(shared_work(opens=False), [])
    assert not counts.any() and not sums.any() and not ends.any()
    taken = notes.reshape(OWNERS, -1)[:, 0]
    assert all(CLOSED < t <= CLOSED + TURNS for t in taken)


@pytest.mark.parametrize("own_first", [True, False])
def test_items_are_taken_from_the_first_one_on_by_their_owner_and_from_the_last_one_back_by_others(own_first: bool) -> None:
    order = BufferType((TURNS + 2,), i64)
    module, (made, notes), b = one_function([], [order, BufferType((Tickets.elements(TURNS),), i64)])
    code = Code(b)
    tickets = Tickets(code, notes, TURNS)
    tickets.begin(0, code.apply("lt", code.value(0), code.value(1)))
    for i in range(TURNS + 2):
        is_own = code.apply("eq", code.value(int(own_first)), code.value((i + 1) % 2))
        item = tickets.take(0, TURNS, is_own)
        code.store(code.apply("cast", item, dtype=i64), made, i)
    b(Return, ())
    mine, theirs = iter([0, 1, 2]), iter([5, 4, 3])
    wanted = [next(mine if (i % 2 == 0) == own_first else theirs) for i in range(TURNS)]
    assert list(evaluate(module, [])[0]) == [*wanted, TURNS, TURNS]


def test_an_op_that_adds_in_one_step_counts_as_a_write() -> None:
    """So that nothing that is read there is kept over it."""
    module, (made,), b = one_function([], [BufferType((2,), i64)])
    code = Code(b)
    code.store(code.constant(5, i64), made, 0)
    code.store(code.constant(0, i64), made, 1)
    first = code.load(made, 0)
    code.fetch_add(2, made, 0)
    second = code.load(made, 0)
    code.store(code.apply("sub", second, first), made, 1)
    b(Return, ())
    assert any(isinstance(op, kernel.FetchAdd) for op in module.walk())
    assert list(load(build_artifact(module, host())).run([])[0]) == [7, 2]
