"""The thread pool: every iteration runs once, whatever the threads, nesting, forks and callers at the same time."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from polyreme.lowering.link.artifact import MODEL, POOL_FUNCTIONS, _load_objects, _native_pool, load, pool_text
from polyreme.lowering.machines.targets import find_target
from polyreme.runtime import threads
from polyreme.runtime.errors import CallError
from polyreme.runtime.side_by_side import processors
from polyreme.runtime.threads import Pool, PoolFunctions
from tests.runtime.native import native_code, scale_artifact, scale_inputs, scale_reference

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

# Adds one to each of int32[count], many times over.
COUNTING = """
declare void @polyreme_parallel(ptr, ptr, ptr, i64, i64)

define void @body(ptr %context, i64 %begin, i64 %end) {
entry:
  br label %loop

loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i32, ptr %context, i64 %i
  %v = load i32, ptr %at, align 4
  %w = add i32 %v, 1
  store i32 %w, ptr %at, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done

done:
  ret void
}

define void @many(ptr %pool, ptr %context, i64 %count, i64 %grain, i64 %times) {
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @polyreme_parallel(ptr %pool, ptr @body, ptr %context, i64 %count, i64 %grain)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done

done:
  ret void
}
"""


def pool_of(count: int) -> Pool:
    library = _native_pool()
    return Pool(PoolFunctions(*(library[f] for f in POOL_FUNCTIONS)), count, library)


@pytest.fixture(params=[1, 2, 3, 4, 8])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    made = pool_of(request.param)
    assert made.threads == request.param
    yield made


def parallel(pool: Pool | None, body, count: int, grain: int = 1) -> None:
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        _native_pool()["polyreme_parallel"]
    )
    function(pool.address if pool else None, BODY(body), None, count, grain)


@pytest.fixture(scope="module")
def counting():
    library = _load_objects([native_code(COUNTING)], ("many",), {"polyreme_parallel": _native_pool()["polyreme_parallel"]})
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)(library["many"])

    def many(pool: Pool | None, counts: np.ndarray, grain: int, times: int) -> None:
        function(pool.address if pool else None, counts.ctypes.data, len(counts), grain, times)

    many.library = library
    return many


@pytest.mark.parametrize("count, grain", [(1, 1), (2, 1), (7, 3), (64, 1), (1000, 7), (1000, 10_000), (5, 0), (5, -3)])
def test_every_iteration_runs_exactly_once_in_each_of_many_jobs(pool: Pool, counting, count: int, grain: int) -> None:
    counts = np.zeros(count, np.int32)
    counting(pool, counts, grain, 2000)
    assert (counts == 2000).all()


def test_jobs_far_apart_run_too_although_workers_sleep_between_them(pool: Pool, counting) -> None:
    counts = np.zeros(64, np.int32)
    for pause in (0.002, 0.01) * 10:
        time.sleep(pause)
        counting(pool, counts, 1, 5)
    assert (counts == 100).all()


def test_no_pool_means_the_calling_thread(counting) -> None:
    counts = np.zeros(10, np.int32)
    counting(None, counts, 1, 3)
    assert (counts == 3).all()


def test_no_iterations_call_nothing() -> None:
    parallel(pool_of(2), lambda *_: pytest.fail("called"), 0)
    parallel(pool_of(2), lambda *_: pytest.fail("called"), -5)


def test_several_threads_work_on_one_job() -> None:
    seen = set()
    together = threading.Barrier(3, timeout=30)

    def body(context: int, begin: int, end: int) -> None:
        seen.add(threading.get_ident())
        together.wait()

    parallel(pool_of(3), body, 3)
    assert len(seen) == 3
    assert threading.get_ident() in seen, "the caller works too"


def test_a_nested_loop_runs_on_the_thread_that_meets_it() -> None:
    pool = pool_of(4)
    counts = np.zeros((6, 50), np.int64)
    strangers = []

    def outer(context: int, begin: int, end: int) -> None:
        for row in range(begin, end):
            here = threading.get_ident()

            def inner(context: int, begin: int, end: int, row: int = row, here: int = here) -> None:
                if threading.get_ident() != here:
                    strangers.append(row)
                counts[row, begin:end] += 1

            parallel(pool, inner, 50, 4)

    parallel(pool, outer, 6)
    assert (counts == 1).all()
    assert strangers == []


def test_callers_at_the_same_time_do_not_mix(counting) -> None:
    pool = pool_of(2)
    arrays = [np.zeros(100, np.int32) for _ in range(4)]
    callers = [threading.Thread(target=counting, args=(pool, a, 3, 3000)) for a in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert all((a == 3000).all() for a in arrays)


def test_the_number_of_threads_changes_between_and_during_jobs(counting) -> None:
    pool = pool_of(1)
    counts = np.zeros(100, np.int32)
    caller = threading.Thread(target=counting, args=(pool, counts, 3, 30_000))
    caller.start()
    for wanted in (2, 4, 1, 3, 2):
        assert pool.set_threads(wanted) == wanted
        assert pool.threads == wanted
    caller.join(60)
    assert (counts == 30_000).all()


@pytest.mark.usefixtures("only_new_garbage")
def test_pools_come_and_go_without_leaving_threads(counting) -> None:
    def settles_at(expected: int) -> bool:
        # A thread that was joined may stay listed for a moment.
        deadline = time.time() + 5
        while len(os.listdir("/proc/self/task")) != expected and time.time() < deadline:
            time.sleep(0.01)
        return len(os.listdir("/proc/self/task")) == expected

    gc.collect()
    time.sleep(0.1)
    before = len(os.listdir("/proc/self/task"))
    for count in (2, 5, 3):
        made = pool_of(count)
        assert settles_at(before + count - 1)
        counts = np.zeros(32, np.int32)
        counting(made, counts, 1, 50)
        assert (counts == 50).all()
        del made
        assert settles_at(before)


@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["awake", "asleep"])
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_workers_are_kept_off_the_processor_of_their_caller_unless_their_user_placed_them(counting, pause: float) -> None:
    everywhere = os.sched_getaffinity(0)
    first, second = sorted(everywhere)[:2]
    others = set(os.listdir("/proc/self/task"))
    pool = pool_of(2)
    (worker,) = (int(thread) for thread in set(os.listdir("/proc/self/task")) - others)

    def after_a_job_on(processor: int) -> set[int]:
        os.sched_setaffinity(0, {processor})
        # The longer one is enough for the worker to fall asleep.
        time.sleep(pause)
        counts = np.zeros(64, np.int32)
        counting(pool, counts, 1, 1)
        assert (counts == 1).all()
        assert os.sched_getaffinity(0) == {processor}
        return os.sched_getaffinity(worker)

    try:
        assert after_a_job_on(first) == everywhere - {first}
        assert after_a_job_on(second) == everywhere - {second}
        assert after_a_job_on(first) == everywhere - {first}
        os.sched_setaffinity(worker, everywhere)
        assert after_a_job_on(second) == everywhere
    finally:
        os.sched_setaffinity(0, everywhere)


@pytest.mark.skipif(processors() < 2, reason="workers only wait awake on a processor of their own")
def test_workers_wait_awake_between_jobs_that_follow_within_a_millisecond(counting) -> None:
    # Others may hold up a worker until it is time for it to sleep, but not each time.
    assert any(_sleeps_between_jobs(counting, 20) < 3 for _ in range(15))


def _sleeps_between_jobs(counting, jobs: int) -> int:
    """How often all threads of this process together gave their processors up during so many jobs, each half a millisecond after the one
    before.
    """
    pool = pool_of(2)
    before = _sleeps()
    for _ in range(jobs):
        counting(pool, np.zeros(64, np.int32), 1, 1)
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
    return _sleeps() - before


def _sleeps() -> int:
    found = 0
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/status") as status:
            found += sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
    return found


def test_an_idle_pool_uses_no_processor_time(counting) -> None:
    pool = pool_of(2)
    counting(pool, np.zeros(64, np.int32), 1, 100)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.1


def test_a_forked_child_runs_alone_and_the_parent_goes_on(counting) -> None:
    pool = pool_of(3)
    counts = np.zeros(500, np.int32)
    counting(pool, counts, 1, 10)
    child = os.fork()
    if child == 0:
        # In the child: only this thread is left. Anything but a clean end is a failure there.
        code = 1
        try:
            alone = pool.threads == 1
            counting(pool, counts, 1, 10)
            right = bool((counts == 20).all())
            revived = pool.set_threads(2) == 2
            counting(pool, counts, 1, 10)
            code = 0 if alone and right and revived and (counts == 30).all() else 2
        finally:
            os._exit(code)
    deadline = time.time() + 30
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.time() < deadline, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(found[1]) == 0
    counting(pool, counts, 1, 10)
    assert (counts == 20).all()
    assert pool.threads == 3


def test_forking_while_a_job_runs_does_not_hang_the_child(counting) -> None:
    pool = pool_of(2)
    counts = np.zeros(2000, np.int32)
    caller = threading.Thread(target=counting, args=(pool, counts, 1, 20_000))
    caller.start()
    children = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mine = np.zeros(50, np.int32)
                counting(pool, mine, 1, 100)
                code = 0 if (mine == 100).all() else 2
            finally:
                os._exit(code)
        children.append(child)
    caller.join(60)
    assert (counts == 20_000).all()
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_set_num_threads_governs_models_and_is_checked() -> None:
    model = load(scale_artifact())
    before = threads.get_num_threads()
    x, b = scale_inputs(33)
    try:
        for count in (1, 3, 2):
            threads.set_num_threads(count)
            assert threads.get_num_threads() == count
            np.testing.assert_array_equal(model(x, b), scale_reference(x, b))
        threads.set_num_threads(0)
        assert threads.get_num_threads() == processors()
        for wrong in (-1, 257, 1.5, True, "2"):
            with pytest.raises(CallError, match="expected a number of threads from 1 to 256"):
                threads.set_num_threads(wrong)  # type: ignore[arg-type]
    finally:
        threads.set_num_threads(before)


def test_a_program_ends_cleanly_with_workers_asleep_and_a_model_running() -> None:
    program = textwrap.dedent("""
        import threading
        from polyreme.lowering.link.artifact import load
        from polyreme.runtime import threads
        from tests.runtime.native import scale_artifact, scale_inputs
        threads.set_num_threads(4)
        model = load(scale_artifact())
        inputs = scale_inputs(1000)
        model(*inputs)
        def forever():
            while True:
                model(*inputs)
        threading.Thread(target=forever, daemon=True).start()
        print("done", flush=True)
    """)
    for _ in range(3):
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


@pytest.mark.parametrize("name", ["x86-64", "aarch64", "riscv64"])
def test_the_pool_compiles_for_every_linux_target(name: str) -> None:
    from polyreme.lowering.link.artifact import native_object

    code = native_object(pool_text(find_target(name)), find_target(name))
    assert code[:4] == b"\x7fELF"
    assert b"polyreme_parallel" in code and MODEL.encode() not in code


def test_a_worker_finds_a_job_in_one_line_and_waits_in_none_that_callers_alone_write():
    text = re.sub(r";.*", "", pool_text(find_target("x86-64")))
    fields = re.findall(r"i\d+|ptr|\[\d+ x i\d+\]", re.search(r"%pool = type \{(.*?)\n\}", text, re.DOTALL)[1])
    offsets, at = [], 0
    for field in fields:
        count, bits = re.fullmatch(r"(?:\[(\d+) x )?(?:i(\d+)|ptr)\]?", field).groups()
        offsets.append(at)
        at += int(count or 1) * int(bits or 64) // 8
    state, body, context, count, grain, taken, finished, sleepers, busy, stop = (
        offsets[i] // 64 for i in (0, 2, 3, 4, 5, 7, 9, 12, 14, 17)
    )
    assert state == body == context == count == grain
    assert len({state, taken, finished, sleepers, busy, stop}) == 6
