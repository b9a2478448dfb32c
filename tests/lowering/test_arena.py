"""The arena of a model with free sizes: buffers that live together never overlap, whatever the sizes are, and layers write where others have read."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.memory_report import MemoryReport, memory_report
from polyreme.lowering.pipeline import lower
from polyreme.lowering.targets import TARGETS
from polyreme.runtime.memory import ALIGNMENT


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
