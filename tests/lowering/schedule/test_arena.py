"""The arena of a model with free sizes: buffers that live together never overlap, whatever the sizes are, and layers write where others
have read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.types import BufferType, TensorType, f32
from polyreme.lowering.debug.memory_report import MemoryReport, memory_report
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.machines.targets import TARGETS
from polyreme.lowering.pipeline import lower
from polyreme.lowering.schedule.memory_plan import ALIGNMENT
from tests.lowering.kernel_modules import one_function


@cache
def report() -> MemoryReport:
    """Of six convolutions, three of which halve their image, and three of which are added to what they read."""
    func = Func.empty("main", [TensorType((symbol("N"), 16, symbol("H"), symbol("W")), f32)], arg_names=["x"], arg_roles=("input",))
    b = Builder.at_end(func.block)

    def conv(x: Any, stride: int) -> Any:
        weight = b(nn.Constant, value=np.full((48, x.type.shape[1], 3, 3), 0.5, np.float32))
        return b(nn.Relu, b(nn.Conv, x, weight, strides=(stride, stride), padding=(1, 1, 1, 1)))

    x: Any = func.args[0]
    for _ in range(3):
        x = conv(x, 2)
        x = b(nn.Add, x, conv(x, 1))
    b.insert(Return([x]))
    module = Module.empty()
    module.block.append(func.finish())
    return memory_report(lower(module, TARGETS["x86-64-avx512"]))


@settings(deadline=None)
@given(st.integers(0, 3), st.integers(1, 70), st.integers(1, 70))
def test_buffers_that_live_together_never_overlap(images: int, height: int, width: int) -> None:
    made = report().at({"N": images, "H": height, "W": width})
    assert len(made.buffers) >= 5
    for i, a in enumerate(made.buffers):
        assert int(a.offset) % ALIGNMENT == 0
        for b in made.buffers[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert int(a.offset) + int(a.bytes) <= int(b.offset) or int(b.offset) + int(b.bytes) <= int(a.offset), f"{a} and {b}"


def test_an_image_that_gets_smaller_from_layer_to_layer_takes_little_more_than_what_is_live_at_once() -> None:
    made = report().at({"N": 1, "H": 224, "W": 224})
    assert len({b.bytes for b in made.buffers}) > 2
    assert made.arena_bytes < 1.3 * max(made.live)


# --- memory of single threads


def offsets(of_threads: list[tuple[int, int]], together: bool = False) -> dict[str, tuple[int, int]]:
    """(first byte, last byte but one) of buffers with so many elements, of which a thread has so many, each written by a loop of its own
    or, `together`, all by one, and of one that is live all the time.
    """
    module, (out,), b = one_function([], [BufferType((16,), f32)])
    code = Code(b)

    def alloc(name: str, elements: int, of_thread: int = 0) -> Any:
        value = b(kernel.Alloc, shape=(elements,), dtype=f32, of_thread=of_thread)
        value.name = name
        return value

    shared = alloc("shared", 4096)
    own = [alloc(f"own{i}", *sizes) for i, sizes in enumerate(of_threads)]
    for group in [own] if together else [[one] for one in own]:
        with code.loop(0, 16) as loop:
            for buffer in [shared, *group]:
                code.store(code.constant(1, f32), buffer, loop.iv)
    with code.loop(0, 16) as loop:
        code.store(code.load(shared, loop.iv), out, loop.iv)
    b.insert(Return([]))
    return {one.name: (int(one.offset), int(one.offset) + int(one.bytes)) for one in memory_report(module).buffers}


def test_a_thread_finds_its_own_memory_where_it_was_and_no_other_buffer_comes_there() -> None:
    found = offsets([(3 * 320, 320), (2 * 1600, 1600), (2 * 48, 48)])
    shared = found.pop("shared")
    (border,) = {begin + 4 * of_thread for (begin, _), of_thread in zip(found.values(), (320, 1600, 48), strict=True)}
    assert all(begin % ALIGNMENT == 0 and begin < border < end for begin, end in found.values())
    assert shared[0] >= max(end for _, end in found.values())


def test_memory_of_threads_that_is_live_together_does_not_overlap() -> None:
    found = sorted(offsets([(2 * 320, 320), (2 * 1600, 1600)], together=True).values())
    assert all(end <= begin for (_, end), (begin, _) in zip(found, found[1:]))
