"""The register tile: the innermost loop of every matrix product and convolution, and the choice of its shape.

A tile keeps `rows` x `vectors` accumulators in registers. A step of the reduction reads a vector of B for each column of vectors, and a
scalar of A for each row:

    acc[r][v] += broadcast(a[r]) * b[v]

The steps run over the contracted axes, each of which moves A and B by some distance. The innermost ones are unrolled. Their order is that
of the axes whatever the tile, so a result does not depend on the tile.

Long float32 sums are sums of parts of `PART` steps, because the rounding error of one chain grows with its length. A part begins with zeros
in the accumulators, and the sum so far waits on the stack.

`choose_tile` ranks tiles by an estimate of cycles. A step costs at least its multiply-adds, its loads, the latency of one chain, and
reading B from L2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, VectorType, element_type, f32
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.machines.memory import FOLLOWED_LOADS, L1_PANEL_VECTORS, L2_VECTOR_CYCLES
from polyreme.lowering.machines.targets import Target

Read = Callable[[int, Index], Value]
ReadRow = Callable[[int, Index], Value | list[Value]]
Overlapped = Callable[[Value], None]
# Writes the work that overlaps each round of steps; several take the rounds in turn.
OverlappedRounds = Overlapped | Sequence[Overlapped] | None
Accumulators = list[list[Value]]

UNROLL = 4
# Steps of a part of a long sum. Fewer would make adding up the parts cost more, next to the steps themselves.
PART = 256
MOST_UNROLLED = 32
# Steps that are written out where a kernel has tiles of many sizes, since how many rows there are is unknown.
STEPS_TOGETHER = 8
# From so many rows of a tile on not every smaller number has a tile of its own.
LEAST_BETWEEN = 8


@dataclass(frozen=True, slots=True)
class Axis:
    """A contracted axis: its size, and how far A and B move from one of its elements to the next."""

    size: Dim
    a: Dim
    b: Dim


@dataclass(frozen=True, slots=True)
class Registers:
    """What the choice of a tile depends on.

    `count` vector registers of `lanes` lanes; `load_cycles`, what a load takes from the multiply-adds; `factors`, the registers for A's
    number and its products (one if these are added to the sums at once).
    """

    count: int
    lanes: int
    load_cycles: float = 0.0
    factors: int = 1

    @classmethod
    def of(cls, target: Target, dtype: ScalarType) -> Registers:
        return cls(target.vector_registers, max(1, target.vector_bytes // dtype.bytes), target.load_cycles)

    @property
    def accumulators(self) -> int:
        """The most accumulators that leave room for B's vectors and A's broadcast: 24 of 32 (more spill here and there), 12 of 16."""
        return self.count * 3 // 4

    def most_rows(self, vectors: int) -> int:
        """The most rows of a tile of so many vectors that leave registers for as many vectors of B, and for A's number; else LLVM spills.
        """
        return min(self.accumulators, self.count - vectors - self.factors) // vectors


def zeros(code: Code, rows: int, vectors: int, dtype: ScalarType, lanes: int) -> Accumulators:
    """Fresh accumulators."""
    zero = code.zero(dtype, lanes)
    return [[zero] * vectors for _ in range(rows)]


def join_axes(axes: Sequence[Axis]) -> list[Axis]:
    """Neighbouring axes that move A and B like one longer axis become that axis; axes of size 1 are dropped."""
    joined: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if joined and joined[-1].a == axis.size * axis.a and joined[-1].b == axis.size * axis.b:
            joined[-1] = Axis(joined[-1].size * axis.size, axis.a, axis.b)
        else:
            joined.append(axis)
    return joined


def accumulate(
    code: Code,
    axes: Sequence[Axis],
    a: ReadRow,
    b: Read,
    acc: Accumulators,
    at_a: Index = 0,
    at_b: Index = 0,
    overlapped: OverlappedRounds = None,
    fresh: bool = False,
    together: int | None = None,
) -> Accumulators:
    """The accumulators (`acc[row][vector]`) after all steps over `axes`, from positions `at_a` and `at_b` on. Where they are `fresh` zeros
    and no loop carries them, the first step makes them.

    `a(row, position)` reads the scalar of a row (broadcast to all lanes) or what each of the row's vectors is multiplied by, `b(vector,
    position)` a vector. `overlapped(round)` writes the work that overlaps the `UNROLL` steps of each round of a single long axis; several
    are taken in turn, one a round, and told how many times all of them came before. An innermost axis of more than `together` steps, if
    that is given, is a loop of so many at a time, a multiple of `UNROLL`, where all would be written out else: the order is the same.
    """
    outer = list(axes)
    if together is not None and outer and isinstance(outer[-1].size, int) and together < outer[-1].size <= MOST_UNROLLED:
        *around, innermost = outer
        rounds = lambda acc, x, y: _rounds(code, innermost, innermost.size, a, b, acc, x, y, [None] * (together // UNROLL), 0)
        return nest_steps(code, around, rounds, acc, at_a, at_b, innermost.size)
    steps: list[tuple[Index, Index]] = [(0, 0)]
    while outer and isinstance(outer[-1].size, int) and len(steps) * outer[-1].size <= MOST_UNROLLED:
        axis = outer.pop()
        assert isinstance(axis.size, int)
        steps = [(code.add(i * axis.a, x), code.add(i * axis.b, y)) for i in range(axis.size) for x, y in steps]
    if fresh and not outer:
        return _unrolled(code, steps, a, b, acc, at_a, at_b, fresh)
    if outer and len(steps) == 1:
        overlapped = overlapped if len(outer) == 1 else None
        return nest_steps(
            code, outer[:-1], lambda acc, x, y: _long_axis(code, outer[-1], a, b, acc, x, y, overlapped), acc, at_a, at_b, outer[-1].size
        )
    return nest_steps(code, outer, lambda acc, x, y: _unrolled(code, steps, a, b, acc, x, y), acc, at_a, at_b, len(steps))


Body = Callable[[Accumulators, Index, Index], Accumulators]


def nest_steps(code: Code, axes: Sequence[Axis], body: Body, acc: Accumulators, at_a: Index, at_b: Index, steps: Dim) -> Accumulators:
    """The accumulators after `body`, which has so many `steps`, for every place on `axes`, the last one moving fastest."""
    if not axes:
        return body(acc, at_a, at_b)
    axis = axes[0]
    inside = product([*(x.size for x in axes[1:]), steps])
    once: Body = lambda acc, x, y: nest_steps(code, axes[1:], body, acc, x, y, steps)
    # More steps than a part has are parts further inside.
    if not _is_float32(acc) or not isinstance(inside, int) or inside > PART or not _is_long(axis.size * inside):
        return repeat(code, axis.size, axis.a, axis.b, once, acc, at_a, at_b)

    def part(acc: Accumulators, count: Index, x: Index, y: Index, _: Index) -> Accumulators:
        return repeat(code, count, axis.a, axis.b, once, acc, x, y)

    return _in_parts(code, axis, max(1, PART // inside), part, acc, at_a, at_b)


def _is_float32(acc: Accumulators) -> bool:
    return element_type(acc[0][0].type) == f32


def _is_long(steps: Dim) -> bool:
    """Whether so many steps are more than a part has, or may be."""
    return not isinstance(steps, int) or steps > PART


def _in_parts(
    code: Code,
    axis: Axis,
    size: int,
    part: Callable[[Accumulators, Index, Index, Index, Index], Accumulators],
    acc: Accumulators,
    at_a: Index,
    at_b: Index,
) -> Accumulators:
    """The accumulators with the sums of all parts of the axis, of `size` elements each and the last one of what is left, added to them one
    after another.

    `part(acc, count, at_a, at_b, first)` gives the sums of `count` elements from number `first` on, which is where A and B are.
    """

    def body(total: Accumulators, x: Index, y: Index, number: Value) -> Accumulators:
        first = code.mul(number, size)
        count: Index = (
            size
            if isinstance(axis.size, int) and axis.size % size == 0
            else code.apply("min", code.value(code.sub(axis.size, first)), code.value(size))
        )
        zero = code.zero(f32, acc[0][0].type.lanes if isinstance(acc[0][0].type, VectorType) else 1)
        made = part([[zero] * len(row) for row in total], count, x, y, first)
        return [[code.apply("add", x, y) for x, y in zip(row, more, strict=True)] for row, more in zip(total, made, strict=True)]

    return _repeat(code, code.ceildiv(axis.size, size), size * axis.a, size * axis.b, body, acc, at_a, at_b)


def repeat(code: Code, count: Index, step_a: Dim, step_b: Dim, body: Body, acc: Accumulators, at_a: Index, at_b: Index) -> Accumulators:
    """The accumulators after `count` times `body`, with A and B moved from one to the next."""
    return _repeat(code, count, step_a, step_b, lambda acc, x, y, _: body(acc, x, y), acc, at_a, at_b)


def _repeat(
    code: Code,
    count: Index,
    step_a: Dim,
    step_b: Dim,
    body: Callable[[Accumulators, Index, Index, Value], Accumulators],
    acc: Accumulators,
    at_a: Index,
    at_b: Index,
) -> Accumulators:
    """The same, `body` being told how many times came before."""
    vectors = len(acc[0])
    with code.loop(0, count, [x for row in acc for x in row], name="k") as loop:
        carried = [loop.carried[i : i + vectors] for i in range(0, len(loop.carried), vectors)]
        last = body(carried, code.add(at_a, code.mul(loop.iv, step_a)), code.add(at_b, code.mul(loop.iv, step_b)), loop.iv)
        loop.next = [x for row in last for x in row]
    return [loop.results[i : i + vectors] for i in range(0, len(loop.results), vectors)]


def _long_axis(
    code: Code, axis: Axis, a: ReadRow, b: Read, acc: Accumulators, at_a: Index, at_b: Index, overlapped: OverlappedRounds = None
) -> Accumulators:
    """`UNROLL` steps at a time, or several such rounds, then those left over."""
    per_round = overlapped if isinstance(overlapped, Sequence) else [overlapped]
    together = UNROLL * len(per_round)
    if PART % together or not _is_float32(acc) or not _is_long(axis.size):
        return _rounds(code, axis, axis.size, a, b, acc, at_a, at_b, per_round, 0)

    def part(acc: Accumulators, count: Index, x: Index, y: Index, first: Index) -> Accumulators:
        return _rounds(code, axis, count, a, b, acc, x, y, per_round, code.div(first, together))

    return _in_parts(code, axis, PART, part, acc, at_a, at_b)


def _rounds(
    code: Code,
    axis: Axis,
    size: Index,
    a: ReadRow,
    b: Read,
    acc: Accumulators,
    at_a: Index,
    at_b: Index,
    per_round: Sequence[Overlapped | None],
    before: Index,
) -> Accumulators:
    """As many rounds, of `UNROLL` steps for each of `per_round`, as there are in `size` elements of the axis, then the steps left over;
    `before` of them came before.
    """
    together = UNROLL * len(per_round)
    steps = [(code.mul(u, axis.a), code.mul(u, axis.b)) for u in range(together)]

    def body(acc: Accumulators, x: Index, y: Index, turn: Value) -> Accumulators:
        for i, do in enumerate(per_round):
            if do is not None:
                do(code.value(code.add(before, turn)))
            acc = _unrolled(code, steps[i * UNROLL : (i + 1) * UNROLL], a, b, acc, x, y)
        return acc

    rounds = code.div(size, together)
    acc = _repeat(code, rounds, together * axis.a, together * axis.b, body, acc, at_a, at_b)
    done = code.mul(rounds, together)
    at_a, at_b = code.add(at_a, code.mul(done, axis.a)), code.add(at_b, code.mul(done, axis.b))
    if isinstance(size, int):
        return _unrolled(code, steps[: size % together], a, b, acc, at_a, at_b)
    if isinstance(axis.size, int) and axis.size % together == 0:
        return acc
    left = code.sub(size, done)
    return repeat(code, left, axis.a, axis.b, lambda acc, x, y: _unrolled(code, [(0, 0)], a, b, acc, x, y), acc, at_a, at_b)


def _unrolled(
    code: Code, steps: Sequence[tuple[Index, Index]], a: ReadRow, b: Read, acc: Accumulators, at_a: Index, at_b: Index, fresh: bool = False
) -> Accumulators:
    acc = [list(row) for row in acc]
    for i, (offset_a, offset_b) in enumerate(steps):
        here_a, here_b = code.add(at_a, offset_a), code.add(at_b, offset_b)
        columns = [b(v, here_b) for v in range(len(acc[0]))]
        for r, row in enumerate(acc):
            factors = a(r, here_a)
            for v, column in enumerate(columns):
                factor = factors[v] if isinstance(factors, list) else factors
                row[v] = code.apply("mul", factor, column) if fresh and i == 0 else code.multiply_add(factor, column, row[v])
    return acc


def tile_rows(code: Code, count: Index, sizes: Sequence[int], body: Callable[[Index, int], None], name: str = "row") -> None:
    """`body(start, size)` for tiles that cover 0 … count - 1: as many of the first size as fit, then of the next one.

    The sizes must suffice: for a count that is not known they end with 1.
    """
    done: Index = 0
    for size in sizes:
        left = code.sub(count, done)
        if isinstance(left, int) and left < size:
            continue
        if isinstance(left, int) and left == size:
            body(done, size)
        else:
            with code.loop(done, code.sub(count, size - 1), step=size, name=name) as loop:
                body(loop.iv, size)
        done = code.add(done, code.mul(code.div(left, size), size))


def tile_heights(size: int, count: Index) -> list[int]:
    """Sizes for `tile_rows` that suffice for a count: whole tiles, then the one rest that a known count leaves, or powers of two for one
    that is not known.
    """
    if isinstance(count, int):
        return [size, count % size] if count % size else [size]
    return [size, *(1 << n for n in reversed(range((size - 1).bit_length())))]


def tile_unknown_rows(code: Code, count: Value, rows: int, body: Callable[[Index, int], None], name: str = "row") -> None:
    """As `tile_rows`, for a count that is not known, where rows behind the last one may be computed too: by tiles of `rows`, which is even,
    then of half as many, and of one more than that. Counts from `rows` on are covered exactly, but for some below twice as many, and others
    with less than half of `rows` in vain.
    """
    half = rows // 2
    whole, even, end = _ends(code, count, rows)
    for first, last, size in ((0, whole, rows), (whole, even, half), (even, end, half + 1)):
        with code.loop(first, last, step=size, name=name) as loop:
            body(loop.iv, size)


def rows_computed(code: Code, count: Value, rows: int) -> Index:
    """How many rows `tile_unknown_rows` computes."""
    return _ends(code, count, rows)[-1]


def _ends(code: Code, count: Value, rows: int) -> tuple[Index, Index, Index]:
    """Where the tiles of each of the three sizes end."""
    half = rows // 2
    over = code.value(code.mod(count, half))
    fits = code.apply("le", code.value(code.mul(over, half + 1)), count)
    over = code.apply("select", fits, over, code.value(0))
    even = code.mul(code.ceildiv(code.sub(count, code.mul(over, half + 1)), half), half)
    whole = code.mul(code.div(even, rows), rows)
    return whole, even, code.add(even, code.mul(over, half + 1))


def tile_rows_evenly(code: Code, count: Value, most: int, body: Callable[[Index, int], None], name: str = "row") -> None:
    """As `tile_rows`, for a count that is not known: by as few tiles of up to `most` as can be, of two neighbouring sizes at most."""
    tiles = code.value(code.ceildiv(count, most))
    small = code.value(code.div(count, code.apply("max", tiles, code.value(1))))
    over = code.value(code.sub(count, code.mul(tiles, small)))
    done: Index = 0
    for size in range(most, 0, -1):
        is_larger, is_small = (code.apply("eq", small, code.value(n)) for n in (size - 1, size))
        number = code.apply("select", is_larger, over, code.apply("select", is_small, code.value(code.sub(tiles, over)), code.value(0)))
        end = code.add(done, code.mul(number, size))
        with code.loop(done, end, step=size, name=name) as loop:
            body(loop.iv, size)
        done = end


def overlapping_sizes(most: int) -> list[int]:
    """Sizes for `tile_rows_overlapping`: up to `most`, each an eighth below the one before, and all small ones."""
    sizes = [most]
    while sizes[-1] > 1:
        sizes.append(min(sizes[-1] - 1, sizes[-1] * 7 // 8))
    return sizes


def tile_rows_overlapping(code: Code, count: Value, sizes: Sequence[int], body: Callable[[Index, int], None], name: str = "row") -> None:
    """As `tile_rows`, for a count that is not known, where rows may be computed twice: by as few tiles of the first size as can be, or as
    many of the least size that covers the count. The last tile ends with the last row, over rows of the one before. The sizes end with 1.
    """
    tiles = code.apply("max", code.value(code.ceildiv(count, sizes[0])), code.value(1))
    each = code.value(code.div(code.add(count, code.sub(tiles, 1)), tiles))
    chosen = code.value(sizes[-1])
    for size in reversed(sizes[:-1]):
        wanted = code.apply("and", code.apply("lt", chosen, each), code.apply("le", code.value(size), count))
        chosen = code.apply("select", wanted, code.value(size), chosen)
    for size in sizes:
        end = code.apply("select", code.apply("eq", chosen, code.value(size)), count, code.value(0))
        with code.loop(0, end, step=size, name=name) as loop:
            body(code.min(loop.iv, code.sub(count, size)), size)


def paired_sizes(most: int) -> list[int]:
    """Sizes for `tile_rows_in_pairs`, so that two cover closely what is between the first one and twice that: all where tiles are of few
    rows, else two between the first one and half of it, and powers of two.
    """
    if most < LEAST_BETWEEN:
        return [*range(most, 0, -1)]
    between = [most * 4 // 5, -(-most * 5 // 8)]
    return [most, *between, *(1 << n for n in reversed(range((most - 1).bit_length())) if 1 << n < between[-1])]


def _ends_of_rows(sizes: Sequence[int], vectors: int) -> dict[int, tuple[int, int]]:
    """For numbers of rows below twice the first size the one or two tiles, of these sizes and no more rows than there are, that cover them
    in the fewest cycles, by the last number that has the same ones. The first of two is the larger one; none is of 0 rows.
    """

    def cycles(size: int) -> float:
        # The weights of few rows are waited for.
        return max(step_cycles(size, vectors), vectors * L2_VECTOR_CYCLES) if size else 0

    ends = [(0, 0)]
    for rows in range(1, 2 * sizes[0]):
        pairs = [(p, q) for p in sizes for q in (*sizes, 0) if q <= p <= rows and (p == rows if q == 0 else p + q >= rows)]
        ends.append(min(pairs, key=lambda pair: (cycles(pair[0]) + cycles(pair[1]), pair)))
    return {rows: pair for rows, pair in enumerate(ends) if ends[rows + 1 : rows + 2] != [pair]}


def tile_rows_in_pairs(
    code: Code, count: Value, sizes: Sequence[int], vectors: int, body: Callable[[Index, int], None], name: str = "row"
) -> None:
    """As `tile_rows`, for a count that is not known, where rows may be computed twice, by tiles of so many `vectors`: tiles of the first
    size, and for the last rows, if these do not cover all, one or two of those that `paired_sizes` gives. The last tile ends with the last
    row. A rest of few rows alone would wait for each sum and for its weights.
    """
    largest = sizes[0]
    left = code.value(code.mod(count, largest))
    # The last rows are those that are left, with those of the tile before, if there is one.
    has_one = code.apply("and", code.apply("ge", count, code.value(largest)), code.apply("gt", left, code.value(0)))
    rows = code.apply("select", has_one, code.value(code.add(left, largest)), left)
    start = code.value(code.sub(count, rows))
    first, last = code.value(0), code.value(0)
    for most, (p, q) in reversed([*_ends_of_rows(sizes, vectors).items()]):
        here = code.apply("le", rows, code.value(most))
        first = code.apply("select", here, code.value(p), first)
        last = code.apply("select", here, code.value(q), last)
    for size in sizes:
        one, other = (code.apply("select", code.apply("eq", end, code.value(size)), code.value(1), code.value(0)) for end in (first, last))
        begin = code.apply("select", code.apply("eq", first, code.value(size)), start, code.value(code.sub(count, size)))
        # As many iterations as tiles of this size: the second one of two is moved to the end.
        stop = code.value(code.add(begin, code.mul(code.add(one, other), size)))
        if size == largest:
            whole = code.apply("gt", start, code.value(0))
            begin = code.apply("select", whole, code.value(0), begin)
            stop = code.value(code.add(code.apply("select", whole, start, begin), code.mul(code.add(one, other), size)))
        with code.loop(begin, stop, step=size, name=name) as loop:
            body(code.min(loop.iv, code.sub(count, size)), size)


def transpose_lanes(code: Code, rows: Sequence[Value]) -> list[Value]:
    """The transposed square block: as many vectors as each has lanes (a power of two), exchanged in halves, quarters, …"""
    lanes = len(rows)
    block = list(rows)
    width = lanes // 2
    while width:
        low = [i if not i & width else lanes + (i ^ width) for i in range(lanes)]
        high = [i | width if not i & width else lanes + i for i in range(lanes)]
        block = [code.shuffle(block[i & ~width], block[i | width], high if i & width else low) for i in range(lanes)]
        width //= 2
    return block


def sum_lanes(code: Code, rows: Sequence[Value]) -> Value:
    """The sum over the lanes of each of as many vectors as each has lanes (a power of two), in the lane of the vector's number."""
    lanes = len(rows)
    left = list(rows)
    width = lanes // 2
    while width:
        low = [i if not i & width else lanes + (i ^ width) for i in range(lanes)]
        high = [i | width if not i & width else lanes + i for i in range(lanes)]
        pairs = zip(left[:width], left[width:], strict=True)
        left = [code.apply("add", code.shuffle(a, b, low), code.shuffle(a, b, high)) for a, b in pairs]
        width //= 2
    return left[0]


# --- choice of the tile


def step_cycles(rows: int, vectors: int) -> float:
    """The estimated cycles of one step: two multiply-adds a cycle, a little less than two loads a cycle, or the latency of one chain.

    Tall tiles read from many lines of memory at once, and lose some percent.
    """
    return max(rows * vectors / 2, 0.56 * (rows + vectors), 4.8) * (1 + 0.005 * max(0, rows - 8))


def split_extent(extent: int, tile: int) -> list[tuple[int, int]]:
    """(size, repeats) of the tiles that cover `extent`: full ones, then one for the rest."""
    full, left = divmod(extent, tile)
    return ([(tile, full)] if full else []) + ([(left, 1)] if left else [])


def streamed_cycles(rows: int, vectors: int) -> float:
    """The estimated cycles of a step whose lines of B come from L2; more if a round has more loads than the hardware prefetcher can follow.
    """
    return max(step_cycles(rows, vectors), vectors * (1.7 if vectors * UNROLL < FOLLOWED_LOADS else 2.3)) + 0.03 * vectors


@lru_cache(maxsize=4096)
def rank_tiles(m: int, n: int, k: int, registers: Registers) -> tuple[tuple[int, int], ...]:
    """The tiles, (rows, vectors), for an m x n result of k steps: those with the fewest estimated cycles first, and wide ones first when
    they tie.

    The cost of a tile is its steps, and a fixed price for starting it and for each accumulator that it writes.
    """
    vectors_n = -(-n // registers.lanes)
    found: list[tuple[float, int, int]] = []
    for vectors in range(1, min(vectors_n, 8) + 1):
        for rows in range(1, min(registers.most_rows(vectors), m) + 1):
            cost = sum(
                across
                * down
                * (
                    k * ((streamed_cycles(r, v) if k * v > L1_PANEL_VECTORS else step_cycles(r, v)) + registers.load_cycles * (r + v))
                    + 20
                    + 1.5 * r * v
                )
                for v, across in split_extent(vectors_n, vectors)
                for r, down in split_extent(m, rows)
            )
            found.append((cost, -vectors, -rows))
    if not found:
        raise ValueError(f"expected a result with elements but got {m} x {n}")
    return tuple((-rows, -vectors) for _, vectors, rows in sorted(found))


def choose_tile(m: int, n: int, k: int, registers: Registers) -> tuple[int, int]:
    """(rows, vectors) of the first of `rank_tiles`."""
    return rank_tiles(m, n, k, registers)[0]


def vectors_of_row(vectors: int) -> int:
    """Vectors of a panel when one row of so many waits for reading all panels: of 4 to 6 what two threads share most evenly. With more, a
    round of steps has so many loads that the hardware loses sight of where each of them goes.
    """
    return vectors if vectors < 4 else min((6, 5, 4), key=lambda width: -(-vectors // (2 * width)) * width)


def streams_of_row(vectors: int, most: int) -> int:
    """The same where each vector has a panel of its own, so that these are streams: of `most` and the two numbers below with which the
    thread that has more is done first. Fewer streams are a little slower.
    """
    return (
        vectors
        if vectors < most - 2
        else min(range(most, max(most - 3, 0), -1), key=lambda width: -(-vectors // (2 * width)) * (width + 1))
    )
