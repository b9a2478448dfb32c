"""int8 products on AMX: the integers of `kernel.dot4`, whatever the sizes and the number of threads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.dialects.kernel.int8_block import COLUMNS, STEP
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, i32
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import emit_llvm
from polyreme.lowering.kernels.amx_blocks import LEAST_ROWS, rows_of_block, rows_of_run
from polyreme.lowering.link.artifact import build_artifact, load, write_library
from polyreme.lowering.machines.instructions import has_tiles
from polyreme.lowering.machines.targets import TARGETS, Target, host
from polyreme.lowering.schedule.bufferize import outline_constants
from polyreme.runtime.cpu import check_runs_here, tiles_allowed
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.specs import TargetSpec
from tests.lowering.kernel_modules import finish, on_threads, one_function
from tests.lowering.kernels.gemm.test_int8_products import Case, bytes_of, lowered, product_of

Array = np.ndarray[Any, Any]
WIDE = TARGETS["x86-64-avx512"]
TILES = replace(WIDE, features=WIDE.features + ",+avx512vnni,+amx-tile,+amx-int8")
needs_tiles = pytest.mark.skipif(not tiles_allowed(), reason="this machine has no tile registers, or its system does not lend them")

Axes = Sequence[tuple[int, int, int]]


def block(
    rows: int, row: int, starts: Sequence[int], places: Sequence[int], columns: int, width: int, axes: Axes, sizes: tuple[int, int, int]
) -> Module:
    """out = a block of sums, A read from word 3 on and B from word 5; what is asked for ahead lies far behind both."""
    a, b, out = (BufferType((n,), i32) for n in sizes)
    module, args, builder = one_function([a, b], [out])
    counts, moves_a, moves_b = zip(*axes, strict=True) if axes else ((), (), ())
    builder(
        kernel.DotBlock, args[0], builder.number(3), args[1], builder.number(5), args[2], builder.number(1 << 20), rows=rows, row=row,
        starts=tuple(starts), places=tuple(places), columns=columns,
        width=width, counts=counts, moves_a=moves_a, moves_b=moves_b, lines=2,
    )  # fmt: skip
    finish(builder)
    return module


BLOCKS = {
    "one full tile": (16, 16, [0], [0], 16, 16, []),
    "a row": (1, 16, [0], [0], 32, 40, [(3, 16, 640)]),
    "overlapping runs": (9, 50, [0, 8 * 50], [0, 8], 32, 32, [(3, 16, 512)]),
    "two axes": (7, 64, [0, 1000], [0, 7], 16, 48, [(3, 500, 48 * 64), (4, 16, 48 * 16)]),
    "full tiles, backwards": (16, 32, [600, 0], [16, 0], 32, 32, [(2, 16, 512)]),
}


def words(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-(2**31), 2**31, count, np.int64).astype(np.int32)


def by_dots(case: tuple[Any, ...], a: Array, b: Array, sums: Array) -> Array:
    """The same sums one by one."""
    rows, row, starts, places, columns, width, axes = case
    found = sums.copy()
    steps = [(0, 0)]
    for count, by_a, by_b in axes:
        steps = [(x + i * by_a, y + i * by_b) for x, y in steps for i in range(count)]
    for start, place in zip(starts, places, strict=True):
        for r in range(rows):
            total = np.zeros(columns, np.int32)
            for x, y in steps:
                for k in range(STEP):
                    at_a, at_b = 3 + start + r * row + x + k, 5 + y + k * width
                    total = kernel.Dot4.reference(np.repeat(a[at_a], columns), b[at_b : at_b + columns], total)
            found[(place + r) * columns : (place + r + 1) * columns] = total
    return found


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_the_dot_products_of_its_rows_and_columns_also_by_tiles(name):
    case = BLOCKS[name]
    sizes = 4096, 16384, 32 * case[4]
    module, arrays = block(*case, sizes), [words(sizes[0], 1), words(sizes[1], 2)]
    wanted = by_dots(case, *arrays, np.zeros(sizes[2], np.int32))
    written = by_dots(case, *(np.ones_like(x) for x in arrays), np.full(sizes[2], -1, np.int32)) != -1
    np.testing.assert_array_equal(evaluate(module, arrays)[0][written], wanted[written])
    text = assembly(emit_llvm(module, TILES, "block"), TILES)
    sums = len(case[2]) * case[4] // COLUMNS
    assert text.count("tdpbusd") == sums
    assert len(set(re.findall(r"%tmm\d", text))) == sums + 2, "one tile of each operand at a time"
    if tiles_allowed():
        np.testing.assert_array_equal(load(build_artifact(module.clone(), host(), "block")).run(arrays)[0][written], wanted[written])


def test_a_block_needs_a_target_with_tiles():
    with pytest.raises(PolyremeError, match="expected a target with tiles"):
        emit_llvm(block(*BLOCKS["one full tile"], (512, 512, 256)), WIDE, "block")


@pytest.mark.parametrize("count", [*range(1, 70), 98, 128, 196, 577, 784, 1000, 3136])
def test_blocks_cover_all_rows_and_each_has_as_many_as_its_tiles(count):
    rows = rows_of_block(count)
    if count < LEAST_ROWS:
        assert rows is None
        return
    assert rows is not None
    run = rows_of_run(rows)
    assert LEAST_ROWS <= run <= 16 and run <= rows <= 2 * run
    rest = count % rows
    assert rest == 0 or run <= rest


SIZES = [(128, 256, 96), (49, 128, 64), (17, 64, 33), (7, 192, 100), (33, 64, 16), (100, 320, 40), (225, 64, 70)]


def blocks_of(module: Module) -> int:
    return sum(isinstance(op, kernel.DotBlock) for func in module.functions for op in func.walk())


def without_tiles(target: Target) -> Target:
    return replace(target, features=target.features.replace("+amx-", "-amx-"))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_by_blocks_are_those_of_dot_products(size):
    m, k, n = size
    x, w = bytes_of((m, k), np.uint8), bytes_of((k, n), np.int8, 1)
    module = product_of(x, w)
    wanted = (x.astype(np.int64) @ w.astype(np.int64)).astype(np.int32)
    made, _ = lowered(module, TILES)
    assert blocks_of(made) and not blocks_of(lowered(module, WIDE)[0])
    np.testing.assert_array_equal(evaluate(made, [x])[0], wanted)


def test_few_rows_and_depths_that_are_no_multiple_of_a_step_stay_dot_products():
    for m, k, n in ((LEAST_ROWS - 1, 64, 64), (64, 96, 64), (64, 60, 64)):
        made, _ = lowered(product_of(bytes_of((m, k), np.uint8), bytes_of((k, n), np.int8, 1)), TILES)
        assert not blocks_of(made)


def run_on_threads(module: Module, target: Target, inputs: list[Array]) -> list[Array]:
    """The first result on one, two and three threads."""
    made, _ = lowered(module, target)
    assert bool(blocks_of(made)) == has_tiles(target)
    return on_threads(made, target, inputs)


@needs_tiles
@pytest.mark.parametrize("size", [*SIZES, (3136, 64, 64), (784, 512, 128)], ids=str)
def test_machine_code_by_tiles_gives_the_bits_of_dot_products_on_all_threads(size):
    m, k, n = size
    x, w = bytes_of((m, k), np.uint8), bytes_of((k, n), np.int8, 1)
    module = product_of(x, w)
    wanted = (x.astype(np.int64) @ w.astype(np.int64)).astype(np.int32)
    for found in (*run_on_threads(module, host(), [x]), *run_on_threads(module, without_tiles(host()), [x])):
        np.testing.assert_array_equal(found, wanted)


CONVOLUTIONS = {
    "part of a row": Case((1, 4, 28, 64), 64, (3, 3), pad=1),
    "two rows": Case((1, 7, 7, 128), 96, (3, 3), pad=1),
    "a row": Case((2, 3, 9, 64), 70, (3, 2), pad=1),
    "a stride": Case((1, 15, 30, 64), 32, (3, 3), stride=2, pad=1),
    "one tap": Case((1, 14, 14, 64), 33, (1, 1), stride=2),
    "rows that overlap": Case((1, 2, 33, 64), 32, (1, 3)),
    "dilated": Case((1, 12, 20, 64), 40, (3, 3), dilation=2),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_by_blocks_are_those_of_dot_products(name):
    case = CONVOLUTIONS[name]
    x, w = bytes_of(case.x, np.uint8), bytes_of((case.out, case.x[3], *case.taps), np.int8, 1)
    made, builder = lowered(case.module(w), TILES)
    assert builder == "direct" and blocks_of(made)
    np.testing.assert_array_equal(evaluate(made, [x])[0], case.expected(x, w))


@needs_tiles
@pytest.mark.parametrize(
    "case",
    [
        *CONVOLUTIONS.values(),
        Case((1, 56, 56, 64), 64, (3, 3), pad=1),
        Case((3, 14, 14, 256), 256, (3, 3), pad=1),
        Case((1, 7, 7, 512), 512, (3, 3), pad=1),
    ],
    ids=str,
)
def test_convolutions_by_tiles_give_the_bits_of_dot_products_on_all_threads(case):
    x, w = bytes_of(case.x, np.uint8), bytes_of((case.out, case.x[3], *case.taps), np.int8, 1)
    wanted = case.expected(x, w)
    for found in (*run_on_threads(case.module(w), host(), [x]), *run_on_threads(case.module(w), without_tiles(host()), [x])):
        np.testing.assert_array_equal(found, wanted)


ALONE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.blocks_create.restype = ctypes.c_void_p
model = ctypes.c_void_p(library.blocks_create(2, None))
x, out = (ctypes.c_ubyte * (32 * 64))(*[i % 256 for i in range(32 * 64)]), (ctypes.c_int32 * (32 * 32))()
inputs, outputs = ((ctypes.c_void_p * 1)(ctypes.addressof(a)) for a in (x, out))
assert library.blocks_run(model, inputs, None, outputs) == 0
print(*out)
"""


@needs_tiles
def test_a_library_asks_for_tiles_itself_in_a_process_that_has_not(tmp_path):
    w = bytes_of((64, 32), np.int8, 1)
    x = (np.arange(32 * 64) % 256).astype(np.uint8).reshape(32, 64)
    made, _ = lowered(product_of(x, w), host())
    assert blocks_of(made)
    library, *_ = write_library(build_artifact(made, host(), "blocks", outline_constants(made)), tmp_path / "blocks.so")
    done = subprocess.run([sys.executable, "-c", ALONE, str(library)], capture_output=True, text=True, check=True, env={"PATH": ""})
    np.testing.assert_array_equal(np.array(done.stdout.split(), np.int64).reshape(32, 32), x.astype(np.int64) @ w.astype(np.int64))


def test_code_with_tiles_is_refused_where_the_system_does_not_lend_them(monkeypatch):
    import polyreme.runtime.cpu as cpu

    monkeypatch.setattr(cpu, "tiles_allowed", lambda: False)
    monkeypatch.setattr(cpu, "_processor_flags", lambda: frozenset({"amx_tile", "amx_int8"}))
    monkeypatch.setattr(cpu.platform, "machine", lambda: "x86_64")
    with pytest.raises(ArtifactError, match="does not let programs use its tiles"):
        check_runs_here(TargetSpec("x86_64-unknown-linux-gnu", "", "+amx-tile,+amx-int8"), "the code")
