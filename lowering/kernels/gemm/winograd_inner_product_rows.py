"""The rows of A for Winograd's inner product: those of a matrix, or the windows of a convolution, one row for each pixel of the result.

A row that is contiguous in memory is read in place: of a matrix, or all channels of a pixel. Any other row is gathered first (im2col): the
taps one after another, with all channels of each, and zeros for what lies outside of the image. It is gathered once for all output
channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

from polyreme.dialects import tensor
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.access import Access, trace
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.gemm.strassen_plan import Matrices, find_matrices
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.problem import Problem, find_problem

# Fewer channels than these would be gathered by parts of vectors.
LEAST_CHANNELS = 16
# Vectors of a tap that are copied in one round, at most.
MOST_UNROLLED = 4


@dataclass(frozen=True)
class RowSlide:
    """Windows along one axis of the image: the letters of the pixels and of the taps, the axis' `size`, stride, dilation, taps, padding
    before it (`low`), and pixels of the result. Without a letter there is one pixel.
    """

    letter: str
    tap: str
    size: int
    stride: int
    dilation: int
    taps: int
    low: int
    pixels: int

    def is_inside(self, place: int, tap: int) -> bool:
        """Whether a tap of a pixel's window lies in the image."""
        return 0 <= place * self.stride + tap * self.dilation - self.low < self.size

    @property
    def part_inside(self) -> float:
        """What part of all pixels' taps lies in the image."""
        return sum(self.is_inside(i, tap) for i in range(self.pixels) for tap in range(self.taps)) / (self.pixels * self.taps)


@dataclass(frozen=True)
class WinogradInnerProductRows:
    """A product of m rows and k steps by weights of n lanes, or one for each place of the `outer` letters.

    `letters` are the rows in the result, `lane` its lanes, `steps` the contracted letters, the last of which is contiguous in A. `left` is
    A, or the image under windows, which `slides` along some of its axes. With `are_joined` all rows are equally far apart in memory.
    """

    problem: Problem
    letters: tuple[str, ...]
    lane: str
    steps: tuple[str, ...]
    m: Dim
    k: int
    n: int
    left: Access
    slides: tuple[RowSlide, ...] = ()
    are_joined: bool = False
    outer: tuple[str, ...] = ()

    @property
    def around(self) -> int:
        """How many products there are."""
        return prod(_known(self.problem, c) for c in self.outer)

    @property
    def are_gathered(self) -> bool:
        """Whether a row's steps are not all neighbours in memory."""
        return bool(self.slides)

    @property
    def part_inside(self) -> float:
        """The part of all rows' steps that is not zero padding."""
        return prod(slide.part_inside for slide in self.slides)

    def start(self, code: Code, row: Index) -> Index:
        """Where a row that is not gathered begins in memory."""
        if self.are_joined:
            return code.add(self.left.base, code.mul(row, self.left.stride(self.letters[-1])))
        return self._corner(code, self._places(code, row))

    def _places(self, code: Code, row: Index) -> dict[str, Index]:
        return dict(zip(self.letters, code.split(row, [self.problem.size(c) for c in self.letters]), strict=True))

    def _corner(self, code: Code, places: dict[str, Index]) -> Index:
        return code.add(self.left.base, *(code.mul(i, self.left.stride(c)) for c, i in places.items()))

    @property
    def channels(self) -> int:
        """Steps of a tap."""
        return _known(self.problem, self.steps[-1])

    def gather(self, code: Code, image: Value, row: Index, lanes: int) -> Value:
        """A buffer of a thread with the row's steps, one after another."""
        made = code.scratch(-(-self.k // lanes) * lanes, f32)
        places = self._places(code, row)
        corner = self._corner(code, places)
        bounds = [_bounds(code, slide, places.get(slide.letter, 0)) for slide in self.slides]
        tests = [test for slide, bound in zip(self.slides, bounds, strict=True) for test in _outside(code, slide, bound)]
        if tests:
            zero = code.zero(f32, lanes)
            with (
                code.when(reduce(lambda a, b: code.apply("or", a, b), tests)),
                code.loop(0, -(-self.k // lanes) * lanes, step=lanes, name="zero") as loop,
            ):
                code.store(zero, made, loop.iv, None, lanes * f32.bytes)
        self._gather_taps(code, image, made, list(zip(self.slides, bounds, strict=True)), corner, 0, lanes)
        return made


    def _gather_taps(
        self,
        code: Code,
        image: Value,
        made: Value,
        slides: Sequence[tuple[RowSlide, tuple[Index, Index]]],
        at: Index,
        tap: Index,
        lanes: int,
    ) -> None:
        """All taps along these axes, of which the first ones begin `at` a place in the image; `tap` counts those of the axes before."""
        if not slides:
            self._gather_channels(code, image, made, at, code.mul(tap, self.channels), lanes)
            return
        (slide, bounds), *rest = slides
        with code.loop(*bounds, name=slide.tap) as loop:
            here = code.add(at, code.mul(loop.iv, self.left.stride(slide.tap)))
            self._gather_taps(code, image, made, rest, here, code.add(code.mul(tap, slide.taps), loop.iv), lanes)

    def _gather_channels(self, code: Code, image: Value, made: Value, at: Index, to: Index, lanes: int) -> None:
        def copy(first: Index, mask: Value | None = None) -> None:
            code.store(code.load(image, code.add(at, first), lanes, mask), made, code.add(to, first), mask)

        vectors = self.channels // lanes
        each = next(n for n in range(MOST_UNROLLED, 0, -1) if vectors % n == 0)
        with code.loop(0, vectors * lanes, step=each * lanes, name="channel") as loop:
            for i in range(each):
                copy(code.add(loop.iv, i * lanes))
        if self.channels % lanes:
            copy(vectors * lanes, code.lane_mask(self.channels % lanes, lanes))


def _bounds(code: Code, slide: RowSlide, place: Index) -> tuple[Index, Index]:
    """The first tap of a pixel's window that lies in the image, and one behind the last one."""
    every = [i for i in range(slide.taps) if all(slide.is_inside(p, i) for p in range(slide.pixels))]
    moved = code.mul(place, slide.stride)
    lo: Index = 0
    hi: Index = slide.taps
    if 0 not in every:
        lo = code.ceildiv(code.apply("max", code.value(code.sub(slide.low, moved)), code.value(0)), slide.dilation)
    if slide.taps - 1 not in every:
        left = code.apply("max", code.value(code.sub(slide.size + slide.low, moved)), code.value(0))
        hi = code.min(slide.taps, code.ceildiv(left, slide.dilation))
    return lo, hi


def _outside(code: Code, slide: RowSlide, bounds: tuple[Index, Index]) -> list[Value]:
    """Tests of whether some taps lie outside of the image."""
    lo, hi = bounds
    return [code.apply("gt", x, code.value(0)) for x in (lo,) if isinstance(x, Value)] + [
        code.apply("lt", x, code.value(slide.taps)) for x in (hi,) if isinstance(x, Value)
    ]


def find_rows(request: Request) -> WinogradInnerProductRows | None:
    """The product of a group, if this file can make it: of two matrices, of several pairs of arguments, or a convolution by packed weights.
    """
    matrices = find_matrices(request, packed_ahead=False)
    return _of_windows(request) if matrices is None or not _are_apart(matrices) else _of_matrix(matrices)


def _are_apart(found: Matrices) -> bool:
    """Whether products at all places of the outer letters, of known sizes, have weights of their own, which come with the call."""
    p, outer = found.product.problem, found.product.outer
    source = p.right.source
    assert isinstance(source, BlockArgument)
    return not outer or (
        source.index not in p.request.constant and all(isinstance(p.size(c), int) and p.right.stride(c) != 0 for c in outer)
    )


def _of_matrix(found: Matrices) -> WinogradInnerProductRows | None:
    product = found.product
    if not product.rows:
        return None
    return WinogradInnerProductRows(
        product.problem,
        tuple(product.rows),
        product.lane,
        (found.step,),
        found.m,
        found.k,
        found.n,
        product.problem.left,
        are_joined=True,
        outer=tuple(product.outer),
    )


def _of_windows(request: Request) -> WinogradInnerProductRows | None:
    """A convolution that gives its channels last, of an image with channels last of known sizes, in one group."""
    p = find_problem(request)
    if p is None or p.dtype != f32 or p.epilogue.pools:
        return None
    lane = next((c for c in reversed(p.out) if p.size(c) != 1), None)
    if lane is None or lane in p.batch:
        return None
    p = p.flipped() if lane in p.rows else p
    value = p.contract.a if p.right_is_b else p.contract.b
    window, source = value.producer(tensor.Window), p.right.source
    if window is None or not isinstance(source, BlockArgument) or source.index not in request.constant or element_type(source.type) != f32:
        return None
    letters = tuple(c for c in p.out if c != lane and p.size(c) != 1)
    sizes = [p.size(c) for c in (*letters, *p.contracted, lane)]
    if (
        not letters
        or any(c not in p.rows for c in letters)
        or not all(isinstance(n, int) for n in (*sizes, *window.sizes, *window.strides, *window.dilations))
    ):
        return None
    found = _slides(p, window)
    if found is None:
        return None
    left, slides = found
    taps = [slide.tap for slide in slides]
    around = [c for c in p.contracted if p.size(c) != 1 and c not in taps]
    if len(around) != 1 or left.stride(around[0]) != 1 or _known(p, around[0]) < LEAST_CHANNELS or element_type(left.source.type) != f32:
        return None
    if source.index in request.kept and slides:
        return None
    m, k, n = (prod(_known(p, c) for c in of) for of in (letters, (*taps, *around), lane))
    return WinogradInnerProductRows(p, letters, lane, (*taps, *around), m, k, n, left, slides)


def _known(p: Problem, letter: str) -> int:
    size = p.size(letter)
    assert isinstance(size, int)
    return size


def _slides(p: Problem, window: tensor.Window) -> tuple[Access, tuple[RowSlide, ...]] | None:
    """The image under windows, without the zeros around it, and how they slide along its axes; those with one tap and no zeros are left
    out.
    """
    pad: tensor.Pad | None = window.x.producer(tensor.Pad)
    rank = len(shape_of(window.x))
    low = (0,) * rank
    image = window.x
    if pad is not None:
        unwindowed = [i for i in range(rank) if i not in window.axes]
        if (
            pad.value != 0
            or any(n != 0 for n in pad.interior)
            or any(pad.low[i] != 0 or pad.high[i] != 0 for i in unwindowed)
            or not all(isinstance(n, int) for n in (*pad.low, *pad.high))
        ):
            return None
        image, low = pad.x, pad.low
    shape = shape_of(image)
    letters, taps = p.left_letters[:rank], p.left_letters[rank:]
    access = trace(image, letters)
    base, strides, slides = access.base, dict(access.strides), []
    for axis, tap, size, stride, dilation in zip(window.axes, taps, window.sizes, window.strides, window.dilations, strict=True):
        letter = letters[axis]
        away, extent, pixels = access.stride(letter), shape[axis], p.size(letter)
        if not isinstance(extent, int) or not isinstance(pixels, int) or letter not in p.rows:
            return None
        base = base - low[axis] * away
        strides |= {letter: away * stride, tap: away * dilation}
        slide = RowSlide(letter, tap, extent, stride, dilation, size, low[axis], pixels)
        if size > 1 or slide.part_inside < 1:
            slides.append(slide)
    return Access(access.source, base, strides), tuple(slides)
