"""Loops that share each of their rounds among threads: one job of the pool, whose threads meet between rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, i64
from polyreme.lowering.emit.llvm.emit_module import emit_llvm
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import host
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.kernel_modules import finish, one_function

MOST = 3


def neighbours(width: int, rounds: int, first: int = 0, grain: int = 1, also: bool = False, of_threads: bool = True):
    """Each round makes every cell of what it and its two neighbours were before, in up to `MOST` parts; `also` counts rounds beside that.
    """
    module, (start, state), b = one_function([BufferType((width,), i64)], [BufferType((2 * width + 1,), i64)])
    code = Code(b)
    with code.loop(0, width) as loop:
        code.store(code.load(start, loop.iv), state, loop.iv)
        code.store(code.constant(0, i64), state, code.add(loop.iv, width))
    code.store(code.constant(0, i64), state, 2 * width)
    parts = code.apply("min", b(kernel.Threads), code.value(MOST)) if of_threads else code.value(MOST)
    with code.loop(first, first + rounds, name="t") as loop:
        parity = code.mod(code.sub(loop.iv, first), 2)
        if also:
            code.store(code.apply("add", code.load(state, 2 * width), code.constant(1, i64)), state, 2 * width)
        with code.parallel(parts, grain) as part:
            begin = code.div(code.mul(part, width), parts)
            end = code.div(code.mul(code.add(part, 1), width), parts)
            with code.loop(begin, end) as cell:
                old = code.mul(parity, width)
                total = code.constant(0, i64)
                for weight, step in ((1, width - 1), (2, 0), (3, 1)):
                    value = code.load(state, code.add(old, code.mod(code.add(cell.iv, step), width)))
                    total = code.apply("add", total, code.apply("mul", value, code.constant(weight, i64)))
                code.store(total, state, code.add(code.sub(width, old), cell.iv))
    finish(b)
    return module


def meets(module) -> bool:
    """Whether its threads meet without the pool."""
    text = emit_llvm(module, host())
    return "call void @polyreme_parallel_rounds(" in text and "call void @polyreme_parallel(" not in text


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 2**40))
def test_each_round_begins_when_all_threads_are_done_with_the_one_before(width, rounds, seed):
    module = neighbours(width, rounds)
    start = np.random.default_rng(seed).integers(-9, 9, width)
    (expected,) = evaluate(module, [start])
    executable = load(build_artifact(module, host()))
    before = get_num_threads()
    try:
        for threads in (1, 2, 3, 4):
            set_num_threads(threads)
            for _ in range(3):
                np.testing.assert_array_equal(executable.run([start])[0], expected)
    finally:
        set_num_threads(before)


def test_only_loops_that_do_nothing_but_share_their_rounds_among_threads_are_one_job():
    assert meets(neighbours(8, 5))
    assert not meets(neighbours(8, 5, also=True)), "something stands beside the parallel loop"
    assert not meets(neighbours(8, 5, of_threads=False)), "its parts are not for threads"
    assert not meets(neighbours(8, 5, grain=2))
    assert not meets(neighbours(8, 5, first=2)), "rounds are counted from 0"
    assert not meets(neighbours(8, 1)), "no second round"


def test_loops_of_nothing_are_nothing():
    module, (out,), b = one_function([], [BufferType((1,), i64)])
    code = Code(b)
    code.store(code.constant(7, i64), out, 0)
    with code.loop(0, b(kernel.Threads)):
        pass
    finish(b)
    assert load(build_artifact(module, host())).run([])[0] == 7


@pytest.mark.parametrize("how", [{"also": True}, {"of_threads": False}, {"grain": 2}, {"first": 2}])
def test_other_loops_give_the_same(how):
    start = np.arange(8)
    cells = slice(0, 16)
    (expected,), (other,) = (load(build_artifact(neighbours(8, 5, **x), host())).run([start]) for x in ({}, how))
    np.testing.assert_array_equal(other[cells], expected[cells])
