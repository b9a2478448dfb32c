"""Schemes that multiply matrices of a few parts with fewer products of parts.

    STRASSEN    two by two parts each, 7 products in place of 8 (V. Strassen, "Gaussian elimination is not optimal", 1969)
    BY_THIRDS   two by three parts by three by three, 15 products in place of 18

J. Hopcroft and L. Kerr showed that 15 are enough ("On minimizing the number of multiplications necessary for matrix multiplication", 1971).
This scheme comes from a random walk on the graph of such schemes (M. Kauers and J. Moosbauer, "Flip graphs for matrix multiplication",
2022). It has few additions on the sides of A and of the result. Transposed, it cuts rows into three parts and lanes into two: fewer
combinations of A, 15 of nine parts in place of 15 of six, and more of B.

Parts may be multiplied by a scheme in turn. Strassen's is

    M0 = (A0 + A3) (B0 + B3)    M1 = (A2 + A3) B0    M2 = A0 (B1 - B3)    M3 = A3 (B2 - B0)
    M4 = (A0 + A1) B3           M5 = (A2 - A0) (B0 + B1)                  M6 = (A1 - A3) (B2 + B3)
    C0 = M0 + M3 - M4 + M6      C1 = M2 + M4         C2 = M1 + M3         C3 = M0 - M1 + M2 + M5

with parts numbered in reading order. Winograd's variant saves three of the eighteen additions and loses accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.code import Code

Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Destination:
    """A part of the result that a product belongs to: its number, the sign, and whether it is the part's first product, and its last one.
    """

    part: int
    sign: int
    first: bool
    last: bool


@dataclass(frozen=True)
class Scheme:
    """A product of `rows` x `steps` parts by `steps` x `lanes` parts.

    `left` and `right` say for each product which parts of A and B it multiplies, `result` for each part of the result which products it is
    the sum of. Terms are (number in reading order, sign), the first with a plus. `few` is a scheme for one part of rows, with no more
    products than the direct one, and with the same combinations of B, those from number `first` on.
    """

    rows: int
    steps: int
    lanes: int
    left: tuple[Terms, ...]
    right: tuple[Terms, ...]
    result: tuple[Terms, ...]
    few: Scheme | None = None
    first: int = 0

    @property
    def products(self) -> int:
        return len(self.left)

    @property
    def targets(self) -> list[list[Destination]]:
        """For each product the parts of the result that it belongs to, those that it completes in front."""
        found = []
        for product in range(self.products):
            belongs = [(part, [i for i, _ in terms], dict(terms)) for part, terms in enumerate(self.result) if product in dict(terms)]
            targets = [
                Destination(part, signs[product], product == min(numbers), product == max(numbers)) for part, numbers, signs in belongs
            ]
            found.append(sorted(targets, key=lambda target: not target.last))
        return found

    @property
    def transposed(self) -> Scheme:
        """The scheme of the transposed matrices, the product of B's by A's."""
        left = tuple(_transposed(terms, self.lanes, self.steps) for terms in self.right)
        right = tuple(_transposed(terms, self.steps, self.rows) for terms in self.left)
        result = tuple(self.result[row * self.lanes + lane] for lane in range(self.lanes) for row in range(self.rows))
        return Scheme(self.lanes, self.steps, self.rows, left, right, result)


def _transposed(terms: Terms, wide: int, high: int) -> Terms:
    """Terms of a matrix of `high` x `wide` parts as those of its transpose."""
    return tuple((i % wide * high + i // wide, sign) for i, sign in terms)


STRASSEN = Scheme(
    2,
    2,
    2,
    (((0, 1), (3, 1)), ((2, 1), (3, 1)), ((0, 1),), ((3, 1),), ((0, 1), (1, 1)), ((2, 1), (0, -1)), ((1, 1), (3, -1))),
    (((0, 1), (3, 1)), ((0, 1),), ((1, 1), (3, -1)), ((2, 1), (0, -1)), ((3, 1),), ((0, 1), (1, 1)), ((2, 1), (3, 1))),
    (((0, 1), (3, 1), (4, -1), (6, 1)), ((2, 1), (4, 1)), ((1, 1), (3, 1)), ((0, 1), (1, -1), (2, 1), (5, 1))),
    # C0 and C1 are what C2 and C3 would be if both rows of A's parts were the same.
    few=Scheme(
        1,
        2,
        2,
        (((0, 1), (1, 1)), ((0, 1),), ((1, 1),), ((0, 1), (1, 1))),
        (((0, 1),), ((1, 1), (3, -1)), ((2, 1), (0, -1)), ((3, 1),)),
        (((0, 1), (2, 1)), ((1, 1), (3, 1))),
    ),
    first=1,
)
BY_THIRDS = Scheme(
    2,
    3,
    3,
    (
        ((2, 1),), ((0, 1),), ((1, 1), (4, -1)), ((1, 1),), ((0, 1), (4, -1), (5, 1)), ((1, 1), (2, -1), (4, -1), (5, 1)),
        ((0, 1), (3, -1), (5, -1)), ((0, 1), (2, 1), (3, -1), (5, -1)), ((0, 1), (1, -1), (2, 1)), ((5, 1),), ((3, 1), (5, 1)),
        ((1, 1), (3, -1), (5, -1)), ((4, 1), (5, -1)), ((3, 1), (4, -1), (5, 1)), ((0, 1), (3, -1)),
    ),
    (
        ((3, 1), (6, 1)), ((0, 1), (2, -1), (3, 1), (8, 1)), ((4, 1),), ((5, 1), (8, 1)), ((2, 1), (3, -1), (8, -1)),
        ((3, 1),), ((1, 1), (3, 1), (6, 1), (7, -1)), ((3, 1), (6, 1), (7, -1)), ((3, 1), (8, 1)), ((1, 1), (7, -1)),
        ((1, 1), (4, 1), (5, 1), (8, 1)), ((4, 1), (5, 1), (8, 1)), ((2, 1), (8, -1)), ((2, 1), (4, -1), (5, -1), (8, -1)),
        ((0, 1), (1, -1), (3, -1), (6, -1), (7, 1)),
    ),
    (
        ((0, 1), (1, 1), (4, 1), (5, 1), (12, 1)), ((0, 1), (10, 1), (11, 1), (6, 1), (3, -1), (7, -1)),
        ((3, 1), (4, 1), (5, 1), (12, 1), (8, 1)), ((1, 1), (4, 1), (12, 1), (9, -1), (6, -1), (14, -1)),
        ((10, 1), (11, 1), (9, -1), (2, -1), (3, -1)), ((2, 1), (3, 1), (12, 1), (13, 1), (11, -1)),
    ),
    few=Scheme(
        1,
        3,
        3,
        (
            ((2, 1),), ((0, 1),), ((1, 1),), ((1, 1),), ((0, 1),), ((1, 1), (2, -1)), ((0, 1),), ((0, 1), (2, 1)),
            ((0, 1), (2, 1), (1, -1)),
        ),
        (
            ((3, 1), (6, 1)), ((0, 1), (2, -1), (3, 1), (8, 1)), ((4, 1),), ((5, 1), (8, 1)), ((2, 1), (3, -1), (8, -1)),
            ((3, 1),), ((1, 1), (3, 1), (6, 1), (7, -1)), ((3, 1), (6, 1), (7, -1)), ((3, 1), (8, 1)),
        ),
        (
            ((0, 1), (1, 1), (4, 1), (5, 1)), ((0, 1), (2, 1), (6, 1), (7, -1)), ((3, 1), (4, 1), (5, 1), (8, 1)),
        ),
    ),
)


def combine(code: Code, parts: Sequence[Value], tables: Sequence[Sequence[Terms]]) -> list[Value]:
    """The combinations of parts that tables say, one for each level, the outermost first."""
    if not tables:
        return list(parts)
    table, *inner = tables
    count = 1 + max(i for terms in table for i, _ in terms)
    each = len(parts) // count
    blocks = [parts[i * each : (i + 1) * each] for i in range(count)]
    if len(table) > count:
        outer = [[_sum(code, column, terms) for column in zip(*blocks, strict=True)] for terms in table]
        return [value for block in outer for value in combine(code, block, inner)]
    # The same from the inside: there are fewer results than parts.
    made = [combine(code, block, inner) for block in blocks]
    return [_sum(code, column, terms) for terms in table for column in zip(*made, strict=True)]


def _sum(code: Code, values: Sequence[Value], terms: Terms) -> Value:
    (first, _), *rest = terms
    total = values[first]
    for i, sign in rest:
        total = code.apply("add" if sign > 0 else "sub", total, values[i])
    return total


def places(grids: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where parts are, down and across, in the order of their numbers: in reading order within each level, the outermost first, of so many
    parts down and across.
    """
    found = [(0, 0)]
    for high, wide in grids:
        found = [(down * high + i, across * wide + j) for down, across in found for i in range(high) for j in range(wide)]
    return found
