"""The problem that a builder of products solves: one `tensor.contract` with its epilogue, and its letters as rows, lanes and steps.

The letters of a spec are batch, free or contracted. One operand gives the lanes (B, `right`): the one with the result's last letter, so
that results are stored contiguously. The other one (A, `left`) gives scalars and is read in place, whatever its strides. All other letters
become loops around the tile, or further contracted axes inside of it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from polyreme.dialects import tensor
from polyreme.ir.core import BlockArgument
from polyreme.ir.dims import Dim, floordiv, mod, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, element_type, f32, f64, i8, i16, i32, u8
from polyreme.lowering.analysis.access import Access, row_major, trace, trace_copied
from polyreme.lowering.analysis.estimates import ASSUMED
from polyreme.lowering.kernels.epilogue import Epilogue, find_epilogue
from polyreme.lowering.kernels.microkernel import Axis, Registers, join_axes
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.machines.instructions import BYTES, dot_registers

# Registers for A's number and its product with a pair of 16-bit integers.
FACTORS_OF_PAIRS = 2
# From so many vectors of a row on it does not matter that half of the last one is empty.
MOST_HALVED = 16


@dataclass(frozen=True)
class Problem:
    """A contract to be computed: `left` gives scalars, `right` lanes; `lane` is the result's last letter."""

    request: Request
    contract: tensor.Contract
    epilogue: Epilogue
    sizes: dict[str, Dim]
    left: Access
    right: Access
    left_letters: str
    right_letters: str
    out: str
    right_is_b: bool = True
    halves: bool = False  # whether vectors have half as many lanes as the target's
    # of products of bytes or 16-bit integers: the letter whose steps, and so all of the problem, are words of four or two of them
    word_letter: str | None = None

    @cached_property
    def dtype(self) -> ScalarType:
        return element_type(self.contract.result.type)

    @property
    def is_narrow(self) -> bool:
        """Whether B is in memory as 16-bit floats."""
        return element_type(self.right.source.type) != self.dtype

    @cached_property
    def registers(self) -> Registers:
        registers = Registers.of(self.request.target, self.dtype)
        if self.halves:
            registers = replace(registers, lanes=registers.lanes // 2)
        if self.pairs:
            return replace(registers, factors=FACTORS_OF_PAIRS)
        return registers if self.word_letter is None else replace(registers, count=registers.count - dot_registers(self.request.target))

    @property
    def pairs(self) -> bool:
        """Whether it is one of 16-bit integers, of which two are a word."""
        return self.contract.dtype == i32 and element_type(self.contract.a.type) == i16

    @property
    def per_word(self) -> int:
        """Elements of a word."""
        return BYTES // element_type(self.left.source.type).bytes

    def in_words(self, moves: dict[str, Dim]) -> dict[str, Dim]:
        """How far letters move in A: in elements, or in words where the problem is one of words."""
        if self.word_letter is None:
            return moves
        return {c: 1 if c == self.word_letter else floordiv(move, self.per_word) for c, move in moves.items()}

    @cached_property
    def contracted(self) -> list[str]:
        return [c for c in self.left_letters if c in self.right_letters and c not in self.out]

    @cached_property
    def rows(self) -> list[str]:
        """Letters of the result that only the left operand has, in the result's order."""
        return [c for c in self.out if c in self.left_letters and c not in self.right_letters]

    @property
    def batch(self) -> list[str]:
        return [c for c in self.out if c in self.right_letters and c in self.left_letters]

    def flipped(self) -> Problem:
        """The same with the operands' parts exchanged."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            left_letters=self.right_letters,
            right_letters=self.left_letters,
            right_is_b=not self.right_is_b,
        )

    def size(self, letter: str) -> Dim:
        return self.sizes[letter]

    @property
    def step_letters(self) -> list[str]:
        """The contracted letters along which there is more than one step."""
        return [c for c in self.contracted if self.size(c) != 1]

    def axes(self, b_strides: dict[str, Dim]) -> list[Axis]:
        """The contracted axes, B moving by `b_strides`."""
        return join_axes([Axis(self.size(c), self.left.stride(c), b_strides[c]) for c in self.contracted])


def typical(dim: Dim) -> int:
    """A number to reckon with."""
    return dim if isinstance(dim, int) else ASSUMED.size


def find_problem(request: Request, narrow: bool = False, words: bool = False, turned: bool = False) -> Problem | None:
    """The only contract of a group of floats, whose results follow from it elementwise or by a pooling; else None. With `narrow` its
    operands may be in memory as 16-bit floats. With `words` also one of bytes, as it is: `in_words` makes it one of words. With `turned`
    its result may have the channels in front of pixels, by a transpose.
    """
    contracts = request.ops(tensor.Contract)
    if len(contracts) != 1:
        return None
    contract = contracts[0]
    if element_type(contract.result.type) not in (f32, f64) and not (words and contract.dtype == i32):
        return None
    if any(d == 0 for t in (contract.a.type, contract.b.type, contract.result.type) for d in t.shape):
        return None
    epilogue = find_epilogue(request, contract, turned)
    if epilogue is None:
        return None
    spec = tensor.ContractSpec(contract.spec)
    sizes = spec.sizes(contract.a.type.shape, contract.b.type.shape)
    left, right = trace(contract.a, spec.a, narrow), trace(contract.b, spec.b, narrow)
    return Problem(request, contract, epilogue, sizes, left, right, spec.a, spec.b, spec.out)


def in_words(problem: Problem) -> Problem | None:
    """A problem of bytes or 16-bit integers as one of words along a contracted letter, whose elements are neighbours in A and make up whole
    words; others as they are. None where no letter is like that, or the operands have their signs the other way than `kernel.dot4` wants
    them.
    """
    if problem.contract.dtype is None:
        return problem
    left, right = problem.left, problem.right
    if (element_type(left.source.type), element_type(right.source.type)) not in ((u8, i8), (i16, i16)) or not isinstance(
        right.source, BlockArgument
    ):
        return None
    letter = _word_letter(problem, left)
    if letter is None:
        # Channels are apart: they are brought together first.
        left = trace_copied(problem.contract.a if problem.right_is_b else problem.contract.b, problem.left_letters)
        letter = _word_letter(problem, left)
    per_word = problem.per_word
    if letter is None or any(
        mod(n, per_word) != 0 for n in (left.base, *(s for c, s in left.strides.items() if c != letter and problem.size(c) != 1))
    ):
        return None
    found = replace(problem, word_letter=letter, sizes={**problem.sizes, letter: floordiv(problem.size(letter), per_word)})
    return replace(found, left=Access(left.source, floordiv(left.base, per_word), found.in_words(left.strides)))


def _word_letter(problem: Problem, left: Access) -> str | None:
    return next((c for c in problem.contracted if left.stride(c) == 1 and mod(problem.size(c), problem.per_word) == 0), None)


class Product:
    """A problem as a matrix product: which letters are its rows, its lanes, and loops around. With `strided_rows`, rows are neighbours in
    the result only, and may be anywhere in A. A `row` is the letter of the rows, which are those of the result's last row letter else.
    """

    def __init__(self, problem: Problem, lane: str, strided_rows: bool = False, row: str | None = None):
        self.problem, self.lane, self.strided_rows = problem, lane, strided_rows
        self.lanes = problem.registers.lanes
        # How far each letter of the result moves in it.
        self.strides = dict(zip(problem.out, row_major(tuple(problem.size(c) for c in problem.out)), strict=True))
        self.rows = self._joined_rows() if row is None else [row]
        self.m: Dim = product(problem.size(c) for c in self.rows)
        self.n = problem.size(lane)
        self.k = product(problem.size(c) for c in problem.contracted)
        around = [c for c in problem.out if c != lane and c not in self.rows and problem.size(c) != 1]
        # Letters that move B come first, so that neighbouring tasks share its panels.
        self.outer = sorted(around, key=lambda c: problem.right.stride(c) == 0)

    def _joined_rows(self) -> list[str]:
        """The row letters that make up one long axis, the last one of the result and those before it that join on both sides, or in the
        result alone with `strided_rows`.
        """
        p = self.problem
        sides = (self.strides,) if self.strided_rows else (p.left.strides, self.strides)
        rows = [c for c in p.rows if p.size(c) != 1]
        joined: list[str] = []
        for letter in reversed(rows):
            if joined:
                first = joined[0]
                # A letter that a side is the same along has no stride in it.
                if any(s.get(letter, 0) != s.get(first, 0) * p.size(first) for s in sides):
                    break
            joined.insert(0, letter)
        return joined


def find_product(request: Request, halves: bool = False, strided_rows: bool = False) -> Product | None:
    """The product of a group whose lanes are letters of one operand; None for any other group. With `halves` its vectors may have half as
    many lanes as the target's; `strided_rows` as of `Product`.
    """
    problem = find_problem(request, narrow=True, words=True)
    if problem is None or problem.epilogue.pools:
        return None
    last = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if last is None or last in problem.batch:
        return None
    problem = in_words(problem.flipped() if last in problem.rows else problem)
    if problem is None:
        return None
    found = Product(problem, last, strided_rows)
    return Product(replace(problem, halves=True), last) if halves and _is_better_in_halves(found) else found


def _is_better_in_halves(found: Product) -> bool:
    """Whether vectors of half as many lanes take less time, since of whole ones the last one would be half empty. One row waits for memory
    whatever its vectors are.
    """
    p, n, lanes = found.problem, found.n, found.lanes
    if not p.request.target.half_width_vectors or p.word_letter is not None or p.is_narrow or found.m == 1 or not isinstance(n, int):
        return False
    return lanes < n < MOST_HALVED * lanes and 0 < n % lanes <= lanes // 2
