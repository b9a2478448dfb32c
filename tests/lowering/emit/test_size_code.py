"""The code that computes sizes outside of kernels: each value once, and what is too large is told."""

from __future__ import annotations

import ctypes

import numpy as np

from polyreme.ir.dims import Dim, evaluate, floordiv, maximum, symbol
from polyreme.lowering.emit.llvm.size_code import OVERFLOW_DECLARATIONS, CheckedSizeCode, SizeCode
from polyreme.lowering.link.artifact import _load_objects, native_object
from polyreme.lowering.machines.targets import host

N, H, W = (symbol(name) for name in "NHW")
NAMES = ("N", "H", "W")
PIXELS = N * (floordiv(H + 7, 8) - H) * floordiv(W + 7, 8)
SIZES: tuple[Dim, ...] = (
    32 * N * floordiv(H + 7, 8) * floordiv(W + 7, 8) + 64,
    48 * N * floordiv(H + 7, 8) * floordiv(W + 7, 8) + 64,
    maximum(N * H * W, 3 * N * floordiv(H, 3) * (W + 2)),
    -PIXELS,
    7,
)


def _run(code: SizeCode, values: list[str], numbers: list[int]) -> list[int]:
    """What the values are, and last whether one was lost, for these numbers of the names."""
    lost = getattr(code, "lost", "") or "false"
    stores = []
    for i, value in enumerate([*values, "%lost"]):
        stores += [f"  %at{i} = getelementptr i64, ptr %out, i64 {i}", f"  store i64 {value}, ptr %at{i}"]
    body = [*code.lines, f"  %lost = zext i1 {lost} to i64", *stores]
    text = "\n".join([*OVERFLOW_DECLARATIONS, "define void @f(ptr %sizes, ptr %out) {", *body, "  ret void", "}"])
    library = _load_objects([native_object(text, host())], ["f"], {})
    given, out = np.array(numbers, np.int64), np.zeros(len(values) + 1, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library["f"])(given.ctypes.data, out.ctypes.data)
    return out.tolist()


def test_sizes_are_what_they_stand_for() -> None:
    for numbers in ([1, 17, 40], [3, 64, 1], [0, 5, 9]):
        for kind in (SizeCode, CheckedSizeCode):
            code = kind(NAMES)
            values = [code.emit(size) for size in SIZES]
            assert _run(code, values, numbers) == [*(evaluate(size, dict(zip(NAMES, numbers, strict=True))) for size in SIZES), 0]


def test_a_value_is_computed_once() -> None:
    code = CheckedSizeCode(NAMES)
    first = code.emit(SIZES[0])
    lines = len(code.lines)
    assert code.emit(SIZES[0]) == first and len(code.lines) == lines
    code.emit(SIZES[1])
    # Another multiple, and the sum.
    assert sum("with.overflow" in line for line in code.lines[lines:]) == 2
    assert sum("sdiv" in line for line in code.lines) == 2


def test_a_number_that_is_too_large_is_told_wherever_it_comes_from() -> None:
    code = CheckedSizeCode(NAMES)
    values = [code.emit(size) for size in SIZES]
    assert _run(code, values, [1 << 40, 1 << 13, 1 << 13])[-1] == 1
    # What was found of one size is not lost when another one has the same part.
    code = CheckedSizeCode(NAMES)
    values = [code.emit(N * H * W), code.emit(N * H)]
    assert _run(code, values, [1 << 30, 1 << 20, 1 << 20])[-1] == 1
