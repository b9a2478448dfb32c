"""Rounds of a parallel loop as one job of the pool: each part once in each round, after all parts of the round before, whoever comes."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

from polyreme.lowering.link.artifact import PARALLEL_FUNCTIONS, _load_objects, _native_pool
from polyreme.runtime.threads import Pool
from tests.runtime.native import native_code
from tests.runtime.test_pool import parallel, pool, pool_of  # noqa: F401 (a fixture)

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)

# context: the number of parts, how often something was wrong, and how many rounds each part has made.
CHECKING = """
define void @body(ptr %context, i64 %round, i64 %begin, i64 %end) {
entry:
  %count = load i64, ptr %context, align 8
  %wrong_at = getelementptr i64, ptr %context, i64 1
  %parts = getelementptr i64, ptr %context, i64 2
  %own_at = getelementptr i64, ptr %parts, i64 %begin
  %own = load atomic i64, ptr %own_at monotonic, align 8
  %once = icmp eq i64 %own, %round
  %after = add i64 %begin, 1
  %single = icmp eq i64 %end, %after
  %fine = and i1 %once, %single
  %error = xor i1 %fine, true
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %errors = phi i1 [ %error, %entry ], [ %any, %loop ]
  %at = getelementptr i64, ptr %parts, i64 %i
  %v = load atomic i64, ptr %at monotonic, align 8
  %behind = icmp slt i64 %v, %round
  %any = or i1 %errors, %behind
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done

done:
  %made = add i64 %round, 1
  store atomic i64 %made, ptr %own_at monotonic, align 8
  %wrong = zext i1 %any to i64
  %before = atomicrmw add ptr %wrong_at, i64 %wrong monotonic, align 8
  ret void
}

declare void @polyreme_parallel_rounds(ptr, ptr, ptr, i64, i64)

define void @checked(ptr %pool, ptr %context, i64 %rounds, i64 %count) {
  call void @polyreme_parallel_rounds(ptr %pool, ptr @body, ptr %context, i64 %rounds, i64 %count)
  ret void
}
"""


@pytest.fixture(scope="module")
def checked():
    library = _load_objects([native_code(CHECKING)], ("checked",), {name: _native_pool()[name] for name in PARALLEL_FUNCTIONS})
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 2)(library["checked"])

    def run(pool: Pool | None, rounds: int, count: int) -> tuple[int, list[int]]:  # noqa: F811
        """How often a part was made out of turn, and how many rounds each part made."""
        state = np.zeros(2 + count, np.int64)
        state[0] = count
        function(pool.address if pool else None, state.ctypes.data, rounds, count)
        return int(state[1]), list(state[2:])

    run.library = library
    return run


def rounds_of(pool: Pool, body, rounds: int, count: int) -> None:  # noqa: F811
    address = _native_pool()["polyreme_parallel_rounds"]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    function(pool.address, BODY(body), None, rounds, count)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 40])
def test_every_part_is_made_once_in_each_round_after_all_of_the_round_before(pool: Pool, checked, count: int) -> None:  # noqa: F811
    for rounds in (1, 2, 300):
        for _ in range(20):
            assert checked(pool, rounds, count) == (0, [rounds] * count)


def test_workers_may_come_late(checked) -> None:
    made = pool_of(2)
    for _ in range(10):
        time.sleep(0.01)  # they sleep by now, and wake when some rounds are made
        assert checked(made, 2000, 2) == (0, [2000, 2000])


def test_no_rounds_and_no_parts_call_nothing(checked) -> None:
    for rounds, count in ((0, 3), (-1, 3), (3, 0)):
        assert checked(pool_of(2), rounds, count) == (0, [0] * count)


def test_without_a_pool_the_calling_thread_makes_all_of_it(checked) -> None:
    assert checked(None, 5, 4) == (0, [5] * 4)


def test_inside_a_parallel_loop_the_thread_that_meets_it_makes_all_of_it(checked) -> None:
    made = pool_of(3)
    found = {}

    def outer(context: int, begin: int, end: int) -> None:
        for i in range(begin, end):
            found[i] = checked(made, 20, 3)

    parallel(made, outer, 5)
    assert found == {i: (0, [20] * 3) for i in range(5)}


def test_a_part_stays_with_the_thread_that_took_it() -> None:
    """Each of three threads has one of three parts: a round's parts wait for each other, so no thread makes two of them."""
    made = pool_of(3)
    together = threading.Barrier(3, timeout=30)
    seen: dict[int, set[int]] = {}

    def body(context: int, number: int, begin: int, end: int) -> None:
        if number == 0:
            together.wait()
        seen.setdefault(begin, set()).add(threading.get_ident())

    rounds_of(made, body, 50, 3)
    assert len(set.union(*seen.values())) == 3 and all(len(threads) == 1 for threads in seen.values())


def test_callers_at_the_same_time_do_not_mix(checked) -> None:
    made = pool_of(2)
    found: list[tuple[int, list[int]]] = []
    callers = [threading.Thread(target=lambda: found.extend(checked(made, 500, 3) for _ in range(20))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert found == [(0, [500] * 3)] * 80
