"""Packed weights that are made some elements at a time are those that are made as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.plan import Pack
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS
from polyreme.lowering.schedule import packing

ROWS, COLUMNS = 48, 64


def pack_of(body: Callable[[Builder, Value], Value]) -> Pack:
    func = Func.empty("pack", [TensorType((ROWS, COLUMNS), f32)], arg_roles=("input",))
    b = Builder.at_end(func.block)
    b(Return, (body(b, func.args[0]),))
    return Pack(0, func.finish())


def panels(b: Builder, x: Value, extra: int = 0) -> Value:
    """Sixteen columns at a time, row by row, with some rows of zeros."""
    none = (0, 0)
    x = b(tensor.Pad, x, low=none, high=(extra, 0), interior=none, value=0.0)
    x = b(tensor.Reshape, x, shape=(1, ROWS + extra, COLUMNS // 16, 16))
    x = b(tensor.Transpose, x, perm=(0, 2, 1, 3))
    return b(tensor.Reshape, x, shape=((ROWS + extra) * COLUMNS,))


def doubled(b: Builder, x: Value) -> Value:
    return b(tensor.Concat, (x, x), axis=0)


def turned_twice(b: Builder, x: Value) -> Value:
    """The second reshape has no view of the first one's elements."""
    flat = b(tensor.Reshape, b(tensor.Transpose, x, perm=(1, 0)), shape=(ROWS * COLUMNS,))
    return b(tensor.Reshape, b(tensor.Transpose, b(tensor.Reshape, flat, shape=(32, 96)), perm=(1, 0)), shape=(ROWS * COLUMNS,))


def at_an_odd_byte() -> np.ndarray:
    """As in a file, where weights may begin anywhere."""
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)
    return np.frombuffer(b"." + values.tobytes(), np.float32, offset=1).reshape(ROWS, COLUMNS)


def padded(b: Builder, x: Value) -> Value:
    return panels(b, x, 1)


@pytest.mark.parametrize("body, parts", [(panels, 4), (lambda b, x: x, 4), (padded, 1), (doubled, 1), (turned_twice, 1)])
def test_parts_are_the_whole(body: Callable[[Builder, Value], Value], parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "COMPILE_COSTS", replace(COMPILE_COSTS, part_bytes=ROWS * COLUMNS))
    packed = packing.packed_later(pack_of(body), Dense(at_an_odd_byte()))
    made = list(packed.parts())
    assert len(made) == parts and all(part.flags.c_contiguous for part in made)
    np.testing.assert_array_equal(np.concatenate([part.reshape(-1) for part in made]), packed.made().reshape(-1))
