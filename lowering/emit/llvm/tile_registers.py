"""`kernel.dot_block` and `kernel.dot_terms` in LLVM IR: AMX tile registers as values that LLVM allocates.

LLVM configures tile shapes at the beginning of a function, and releases them at its end. Each register has one shape there, so all blocks
of a kernel should have the same number of rows. The system grants tiles on request: the loader asks (`runtime/cpu.py`), and libraries
without Python ask when a model is made (`c_interface.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from polyreme.dialects.kernel.bf16x3 import HALF, LANES, PAIRS, PRODUCTS, TERMS, UPPER
from polyreme.dialects.kernel.int8_block import COLUMNS, STEP
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.types import i32
from polyreme.lowering.emit.llvm.function import FunctionEmitter
from polyreme.lowering.emit.llvm.text import Lane, TextCode
from polyreme.lowering.machines.instructions import has_bf16_tiles, has_tiles
from polyreme.lowering.machines.memory import LINE_BYTES

# Bytes of a word, and of a row of a tile.
WORD, ROW = i32.bytes, COLUMNS * i32.bytes
# LLVM's word for asking for a line in L2.
SECOND_LEVEL = 2


def emit_dot_block(e: FunctionEmitter, op: Any) -> None:
    """A nest of loops whose innermost body multiplies a tile of A for each run by one of B for each 16 columns.

    Each is loaded right before it is multiplied, so that two registers have operands at a time, which costs a load more than four: at times
    few registers are left for renaming, and then a step takes longer with all eight in use.
    """
    if not has_tiles(e.target):
        raise PolyremeError(
            f"'kernel.dot_block' expected a target with tiles (amx-tile, amx-int8) but got '{e.target.name}'", op.location, code="E0408"
        )
    code = e.code
    lefts = [_plus(code, e.address(op.a, op.at_a), start * WORD) for start in op.starts]
    rights = [_plus(code, e.address(op.b, op.at_b), column * WORD) for column in range(0, op.columns, COLUMNS)]
    # The prefetched lines follow each other from step to step, whatever axis a step is along.
    ahead = [] if op.ahead is None else [e.address(op.b, op.ahead, inbounds=False)]
    zeros = [_tile(code, f"tilezero.internal({_shape(op.rows)})") for _ in lefts for _ in rights]

    def steps(axis: int, at: Sequence[Lane], sums: list[Lane]) -> list[Lane]:
        if axis < len(op.counts):
            moves = [m * WORD for m in (*[op.moves_a[axis]] * len(lefts), *[op.moves_b[axis]] * len(rights))]
            moves += [op.lines * LINE_BYTES * prod(op.counts[axis + 1 :])] * len(ahead)
            return _loop(code, op.counts[axis], at, moves, sums, lambda at, sums: steps(axis + 1, at, sums))
        made, held = list(sums), -1
        for i, x in enumerate(at[: len(lefts)]):
            a = _load(code, x, op.rows, op.row)
            # The tile of B that was multiplied last comes first.
            for j in range(len(rights))[:: -1 if i % 2 else 1]:
                if j != held:
                    b, held = _load(code, at[len(lefts) + j], STEP, op.width), j
                k = i * len(rights) + j
                made[k] = _tile(code, f"tdpbusd.internal(i16 {op.rows}, i16 {ROW}, i16 {ROW}, {made[k].typed}, {a.typed}, {b.typed})")
        for first in at[len(lefts) + len(rights) :]:
            for line in range(op.lines):
                code.line(f"call void @llvm.prefetch.p0({_plus(code, first, line * LINE_BYTES).typed}, i32 0, i32 {SECOND_LEVEL}, i32 1)")
        return made

    results = iter(steps(0, [*lefts, *rights, *ahead], zeros))
    start = e.get(op.sums)
    for place in op.places:
        for column in range(0, op.columns, COLUMNS):
            to = _plus(code, start, (place * op.columns + column) * WORD)
            code.line(
                f"call void @llvm.x86.tilestored64.internal({_shape(op.rows)}, {to.typed}, i64 {op.columns * WORD}, {next(results).typed})"
            )


def emit_dot_terms(e: FunctionEmitter, op: Any) -> None:
    """A loop over steps, in each of which the terms' products of one tile of rows by two of lanes are added up, and other numbers are cut
    into terms in between.

    Two tiles of sums and one of each operand are all registers that are ever in use: where another thread of the core has some in use, too,
    few are left for renaming, and the more are in use the longer a product takes.
    """
    if not has_bf16_tiles(e.target):
        raise PolyremeError(
            f"'kernel.dot_terms' expected a target with tiles of bf16 (amx-tile, amx-bf16) but got '{e.target.name}'",
            op.location,
            code="E0408",
        )
    code, columns = e.code, range(0, LANES, COLUMNS)
    row, tile, plane = LANES * WORD, op.rows * ROW, op.steps * PAIRS * LANES * WORD
    a, b, first = (e.address(buffer, at) for buffer, at in ((op.a, op.at_a), (op.b, op.at_b), (op.sums, op.at_sums)))
    places = [_plus(code, first, column * WORD) for column in columns]
    cuts = (
        []
        if op.source is None
        else [e.address(op.source, op.at_source), e.address(op.b, op.at_into), e.address(op.source, op.at_ahead, inbounds=False)]
    )
    pair = 2 * op.apart * WORD
    # After which products a pair is cut: evenly spread.
    each = len(PRODUCTS) * len(columns)
    after = [each * i // op.cuts for i in range(op.cuts)]

    def step(at: Sequence[Lane], sums: list[Lane]) -> list[Lane]:
        made, done, row_of = list(sums), 0, -1
        held: dict[tuple[int, int], Lane] = {}
        for turn, (i, j) in enumerate(PRODUCTS):
            if i != row_of:
                left, row_of = _load(code, _plus(code, at[0], i * tile), op.rows, PAIRS), i
            for c in range(len(columns))[:: -1 if turn % 2 else 1]:
                if (j, c) not in held:
                    held = {(j, c): _load(code, _plus(code, at[1], j * plane + c * ROW), PAIRS, LANES)}
                made[c] = _tile(
                    code, f"tdpbf16ps.internal(i16 {op.rows}, i16 {ROW}, i16 {ROW}, {made[c].typed}, {left.typed}, {held[j, c].typed})"
                )
                for number in (n for n, place in enumerate(after) if place == done):
                    _cut(code, _plus(code, at[2], number * pair), _plus(code, at[3], number * row), plane, op.apart * WORD)
                    for line in range(0, row, LINE_BYTES):
                        for ahead in (_plus(code, at[4], number * pair + line), _plus(code, at[4], number * pair + op.apart * WORD + line)):
                            code.line(f"call void @llvm.prefetch.p0({ahead.typed}, i32 0, i32 {SECOND_LEVEL}, i32 1)")
                done += 1
        return made

    moves = [TERMS * tile, PAIRS * row, *([op.cuts * pair, op.cuts * row, op.cuts * pair] if cuts else [])]
    if op.at_begun is None:
        begun = [_tile(code, f"tilezero.internal({_shape(op.rows)})") for _ in columns]
    else:
        begun = [_load(code, _plus(code, e.address(op.sums, op.at_begun), column * WORD), op.rows, LANES) for column in columns]
    sums = _loop(code, op.steps, [a, b, *cuts], moves, begun, step)
    for place, made in zip(places, sums, strict=True):
        code.line(f"call void @llvm.x86.tilestored64.internal({_shape(op.rows)}, {place.typed}, i64 {row}, {made.typed})")


def _cut(code: TextCode, at: Lane, into: Lane, plane: int, apart: int) -> None:
    """The terms of two rows of lanes, so many bytes `apart`, one term's `plane` behind the other's."""
    half, upper_bits = (code.held("i32", COLUMNS, x) for x in (HALF, UPPER))
    for column in range(0, LANES * WORD, ROW):
        pair = [
            code.value("float", COLUMNS, f"load <{COLUMNS} x float>, {_plus(code, at, line + column).typed}, align 4", "x")
            for line in (0, apart)
        ]
        for term in range(TERMS):
            is_last = term == TERMS - 1
            bits = [x.bits() if is_last else x.bits() + half for x in pair]
            upper = bits if is_last else [x & upper_bits for x in bits]
            word = upper[0].shift_right(16) | (upper[1] & upper_bits if is_last else upper[1])
            code.line(f"store {word.typed}, {_plus(code, into, term * plane + column).typed}, align 4")
            if not is_last:
                pair = [x - part.convert("bitcast", "float") for x, part in zip(pair, upper, strict=True)]


def _loop(code: TextCode, count: int, at: Sequence[Lane], moves: Sequence[int], sums: list[Lane], body: Any) -> list[Lane]:
    """The sums after `body(addresses, sums)` was done `count` times, addresses moving by so many bytes in between."""
    if count == 1:
        made: list[Lane] = body(at, sums)
        return made
    before, loop, end = code.block, code.label("loop"), code.label("end")
    code.jump(loop)
    code.start(loop)
    first = [Lane(code, "i64", 1, "0"), *at, *sums]
    names = [code.name(hint) for hint in ("step", *["at"] * len(at), *["sums"] * len(sums))]
    # The phis' second values are known once the body is written; their lines wait.
    lines = len(code.lines)
    code.lines += [""] * len(names)
    counter, *carried = (Lane(code, x.elem, 1, name) for x, name in zip(first, names, strict=True))
    last = body(carried[: len(at)], carried[len(at) :])
    following = counter.emit("add nuw nsw", 1, hint="next")
    moved = [_plus(code, x, move) for x, move in zip(carried, moves, strict=False)]
    latch = code.block
    code.branch(following.compare("ult", count).ref, loop, end)
    for i, (name, x, y) in enumerate(zip(names, first, [following, *moved, *last], strict=True)):
        code.lines[lines + i] = f"  {name} = phi {x.type} [ {x.ref}, %{before} ], [ {y.ref}, %{latch} ]"
    code.start(end)
    return last


def _plus(code: TextCode, address: Lane, count: int) -> Lane:
    """The address so many bytes further on."""
    return code.value("ptr", 1, f"getelementptr i8, {address.typed}, i64 {count}", "at") if count else address


def _shape(rows: int) -> str:
    return f"i16 {rows}, i16 {ROW}"


def _tile(code: TextCode, call: str) -> Lane:
    return code.value("x86_amx", 1, f"call x86_amx @llvm.x86.{call}", "tile")


def _load(code: TextCode, address: Lane, rows: int, stride: int) -> Lane:
    """The tile of `rows` rows that stand `stride` words apart."""
    return _tile(code, f"tileloadd64.internal({_shape(rows)}, {address.typed}, i64 {stride * WORD})")
