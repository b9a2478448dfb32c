"""A task's part of a padded image, copied into scratch memory. The pad itself is never made.

What a task reads of a padded image is a box. Lines of the box outside of the image are filled; others are copied between their padded ends.
A line is as many of the inner axes as are contiguous on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import prod

from polyreme.dialects import tensor
from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, element_type
from polyreme.lowering.analysis.access import row_major
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.machines.memory import L2_WAYS
from polyreme.lowering.machines.targets import Target


def strides_of_copy(region: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """How a box lies that is cut along its last two axes: with the rows of all channels side by side where there are as many as L2 has
    ways, whose planes would be a power of two apart, or nearly, and so share few sets of a cache. Any other one is row-major.
    """
    rank = len(region)
    if axes != (rank - 2, rank - 1) or rank < 3 or region[rank - 3] < L2_WAYS:
        return tuple(prod(region[axis + 1 :]) for axis in range(rank))
    *around, channels, rows, width = region
    return (*(prod(region[axis + 1 :]) for axis in range(len(around))), width, channels * width, 1)


@dataclass(frozen=True)
class PaddedCopy:
    """The box of `region` from `starts` on (positions in the unpadded image, maybe negative), of `pad.x`, which lies row-major in `image`.

    `edges` tell for each axis whether the box may reach out of the image before it and behind it; `axes` are those along which it is cut.
    Of the box only the first `needed` positions along each axis are written. `strides` tell how the box lies in its memory: row-major, or
    as `strides_of_copy` has it.
    """

    code: Code
    target: Target
    image: Value
    pad: tensor.Pad
    region: tuple[int, ...]
    starts: tuple[Index, ...]
    edges: tuple[tuple[bool, bool], ...]
    axes: tuple[int, ...]
    needed: tuple[Index, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.pad.x.type)

    @cached_property
    def line(self) -> int:
        """The axis from which on a line of the box lies together in the image."""
        shape = shape_of(self.pad.x)
        return max(axis for axis in range(len(shape)) if axis in self.axes or self.region[axis] != shape[axis])

    @cached_property
    def copy(self) -> Value:
        """The scratch memory of the box."""
        return self.code.scratch(prod(self.region), self.dtype)

    def make(self) -> Value:
        """Write the copy."""
        made = self.copy  # in front of all loops
        self._axis(0, 0, 0)
        return made

    def _axis(self, axis: int, at: Index, to: Index) -> None:
        """All of the box from `axis` on, whose part of the image begins at `at`."""
        if axis == self.line:
            self._line(at, to)
            return
        code, shape = self.code, shape_of(self.pad.x)
        outside, inside = row_major(shape)[axis], self.strides[axis]
        if self.region[axis] == 1 and not any(self.edges[axis]):
            self._axis(axis + 1, code.add(at, code.mul(self.starts[axis], outside)), to)
            return
        with code.loop(0, self.needed[axis], name="y") as loop:
            here = code.add(self.starts[axis], loop.iv)
            there = code.add(to, code.mul(loop.iv, inside))
            inner = code.add(at, code.mul(here, outside))
            if not any(self.edges[axis]):
                self._axis(axis + 1, inner, there)
                return
            hit = code.apply(
                "and", code.apply("ge", code.value(here), code.value(0)), code.apply("lt", code.value(here), code.value(shape[axis]))
            )
            with code.when(hit):
                self._axis(axis + 1, inner, there)
            with code.when(hit, then=False):
                line = axis + 1 == self.line
                self._fill(there, code.mul(self.needed[self.line], prod(self.region[self.line + 1 :])) if line else inside)

    def _line(self, at: Index, to: Index) -> None:
        """A line: what lies before the image, what lies in it, what lies behind it."""
        code, axis = self.code, self.line
        size, count, start = shape_of(self.pad.x)[axis], self.needed[axis], self.starts[axis]
        inner = prod(self.region[axis + 1 :])
        before, behind = self.edges[axis]
        low: Index = 0
        high: Index = count
        if before:
            low = code.min(code.apply("max", code.value(code.sub(0, start)), code.value(0)), count)
            self._fill(to, code.mul(low, inner))
        if behind:
            high = code.apply("max", code.value(code.min(code.sub(size, start), count)), code.value(low))
            self._fill(code.add(to, code.mul(high, inner)), code.mul(code.sub(count, high), inner))
        source = code.add(at, code.mul(code.add(start, low), inner))
        target = code.add(to, code.mul(low, inner))

        def move(i: Index, lanes: int, mask: Value | None) -> None:
            code.store(code.load(self.image, code.add(source, i), lanes, mask), self.copy, code.add(target, i), mask)

        self._each(code.mul(code.sub(high, low), inner), move)

    def _fill(self, to: Index, count: Index) -> None:
        code = self.code
        one = code.constant(self.pad.value, self.dtype)

        def body(i: Index, lanes: int, mask: Value | None) -> None:
            code.store(code.broadcast(one, lanes), self.copy, code.add(to, i), mask)

        self._each(count, body)

    def _each(self, count: Index, body: Callable[[Index, int, Value | None], None]) -> None:
        """`body(at, lanes, mask)` for all of `count` elements."""
        code, lanes = self.code, self.target.lanes(self.dtype)
        whole = code.mul(code.div(count, lanes), lanes)
        with code.loop(0, whole, step=lanes, name="x") as loop:
            body(loop.iv, lanes, None)
        if lanes == 1 or (isinstance(count, int) and count % lanes == 0):
            return
        if self.target.masked:
            body(whole, lanes, code.lane_mask(code.sub(count, whole), lanes))
        else:
            with code.loop(whole, count, name="x") as loop:
                body(loop.iv, 1, None)
