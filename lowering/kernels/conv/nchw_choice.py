"""Convolutions with channels before pixels (NCHW), forward and backward: the choice among four strategies.

Such a contract has an image, the operand with the result's last letters (the *spatial* ones), and weights, which give the letter before
them (the *channel*). Gradients of weights have this form too, with the window's letters as spatial ones. The image is read in place,
whatever its windows. Only a pad is made first, by whoever makes the image.

The strategy with the fewest estimated cycles is taken:

- `nchw_channel_lanes.py`: lanes along channels. Weights are packed into panels of channels, and a tile's rows are the pixels of a small
  rectangle. Sums are transposed in square blocks before the epilogue.
- `nchw_winograd_columns.py`: the same by Winograd's algorithm down the columns, for windows of several rows without stride.
- `nchw_pixel_lanes.py`: lanes along a row of the image, channels as a tile's rows. For few channels, as in a first layer.
- `nchw_summed_lanes.py`: lanes along a row that is summed, the elements of a small result as a tile. For gradients of depthwise weights.

All leave the sums of a piece of the image in a scratch tile, channel by channel. The epilogue (bias, activation, pooling) makes the results
from it while it lies in L1. A pooling that overlaps the next piece computes the shared rows twice. `nchw_strategy.py` has what they share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from polyreme.dialects import tensor
from polyreme.ir.define import View
from polyreme.ir.types import element_type
from polyreme.lowering.kernels.conv.nchw_channel_lanes import ChannelLanes, channel_tile
from polyreme.lowering.kernels.conv.nchw_pixel_lanes import PixelLanes
from polyreme.lowering.kernels.conv.nchw_strategy import (
    ChannelTile,
    ColumnTile,
    NchwImage,
    NchwSchedule,
    PixelTile,
    Strategy,
    SummedTile,
)
from polyreme.lowering.kernels.conv.nchw_summed_lanes import SummedLanes
from polyreme.lowering.kernels.conv.nchw_winograd_columns import WinogradColumns
from polyreme.lowering.kernels.join_pixels import join_pixels
from polyreme.lowering.kernels.microkernel import rank_tiles
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import Problem, find_problem, typical
from polyreme.lowering.kernels.schedule import ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.cost import is_faster


def strategies_of(image: NchwImage) -> list[Strategy]:
    """Those that are possible, the one with the fewest estimated cycles first."""
    made = ChannelLanes.of(image), WinogradColumns.of(image), PixelLanes.of(image), SummedLanes.of(image)
    possible = [strategy for strategy in made if strategy is not None]
    return sorted(possible, key=lambda strategy: strategy.cycles())


def choose_nchw(image: NchwImage) -> NchwSchedule | None:
    """The schedule of the strategy with the fewest estimated cycles; None if none is possible."""
    possible = strategies_of(image)
    return possible[0].schedule() if possible else None


def other_nchw(image: NchwImage) -> Iterator[NchwSchedule]:
    """The other strategies, other tiles of channels, and other pieces."""
    best, *others = strategies_of(image)
    yield from (other.schedule() for other in others)
    if isinstance(best.tile, ChannelTile):
        p = image.problem
        tiles = rank_tiles(prod(best.extents), typical(image.channels), typical(best.k), p.registers)
        for tile in tiles[1:]:
            made = ChannelLanes.of(image, channel_tile(image, tile))
            if made is not None:
                yield made.schedule()
    own = best.schedule().rows
    for rows in (-(-own // 2), 2 * own):
        if best.allows(rows):
            yield best.schedule(rows)


def fit_nchw(image: NchwImage, schedule: NchwSchedule) -> None:
    """`ScheduleError` unless it is a schedule of this convolution: with any tile that registers hold, pieces of as many rows as scratch
    memory has room for, and any grain.
    """
    own = choose_nchw(image)
    like = _with_tile(image, schedule.tile)
    if like is None or not like.allows(schedule.rows) or schedule != replace(like.schedule(schedule.rows), grain=max(schedule.grain, 1)):
        raise ScheduleError(f"expected a schedule like {own} for this convolution and machine but got {schedule}")


def _with_tile(image: NchwImage, tile: ChannelTile | ColumnTile | PixelTile | SummedTile) -> Strategy | None:
    """The strategy with a tile like this one; None where it does not fit."""
    registers, extents = image.problem.registers, image.sizes()
    rows = extents[-2] if len(extents) > 1 else 1
    if isinstance(tile, ColumnTile):
        return WinogradColumns.of(image, tile.size)
    if isinstance(tile, SummedTile):
        return SummedLanes.of(image, tile) if 0 < tile.high <= rows else None
    across = extents[-1] if isinstance(tile, ChannelTile) else -(-extents[-1] // registers.lanes)
    if isinstance(tile, ChannelTile):
        high, wide, other, most = tile.high, tile.wide, tile.vectors, -(-typical(image.channels) // registers.lanes)
    else:
        high, wide, other, most = tile.high, tile.across, tile.channels, typical(image.channels)
    held = high * wide * other <= registers.count
    if not (held and 0 < wide <= across and 0 < other <= most and (high == 1 or 0 < high <= rows and wide == across)):
        return None
    if isinstance(tile, ChannelTile):
        return ChannelLanes.of(image, tile)
    made = PixelLanes(image, tile)
    return made if made.is_possible() else None


def write_nchw(image: NchwImage, schedule: NchwSchedule) -> KernelPlan:
    """The plan of a convolution as its schedule says."""
    tile = schedule.tile
    made: Strategy
    if isinstance(tile, PixelTile):
        made = PixelLanes(image, tile)
    elif isinstance(tile, SummedTile):
        made = SummedLanes(image, tile)
    else:
        made = WinogradColumns(image, tile) if isinstance(tile, ColumnTile) else ChannelLanes(image, tile)
    return made.build(schedule)


def find_image(request: Request) -> NchwImage | None:
    """The group's problem as one of images, flipped where need be."""
    problem = find_problem(request, narrow=True)
    if problem is None or any(element_type(x.source.type) != problem.dtype for x in (problem.left, problem.right)):
        return None
    last = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if last is None or last in problem.batch or _fills_vectors(request, problem.registers.lanes):
        return None
    return _image(problem if last in problem.rows else problem.flipped())


def _fills_vectors(request: Request, lanes: int) -> bool:
    """Whether single pixels are convolved that fill whole vectors, nearly, to several channels: a matrix product whose lanes they are does
    better.
    """
    joined = join_pixels(request)
    if joined is request:
        return False
    *_, channels, pixels = joined.result_types[0].shape
    # Whole vectors of all pixels have few lanes more than that.
    return isinstance(pixels, int) and channels != 1 and not is_faster(pixels, -(-pixels // lanes) * lanes)


def _image(p: Problem) -> NchwImage | None:
    """The problem as one of images; None when its result is a plain matrix (then the rows and columns of a matrix product do better)."""
    spatial: list[str] = []
    for letter in reversed(p.out):
        if (letter not in p.rows and p.size(letter) != 1) or not isinstance(p.size(letter), int):
            break
        if letter in p.rows:
            spatial.insert(0, letter)
    lanes = [c for c in p.out if c in p.right_letters and c not in p.left_letters and p.size(c) != 1]
    if not spatial:
        return None
    several = [c for c in spatial if p.size(c) != 1]
    if len(several) < 2 and not p.epilogue.pools and not _is_windowed(p, (several or spatial)[-1]):
        return None
    channel = lanes[-1] if lanes else None
    # Only the innermost spatial letters are tiled; more than three of them become loops outside.
    return NchwImage(p, tuple(spatial[-3:]), channel)


def _is_windowed(p: Problem, inner: str) -> bool:
    """Whether a window is among the views that make an operand: of several elements, or of single ones that `inner`, the last spatial
    letter, moves along their rows. Gradients of weights of single pixels move along channels, and are plain matrices.
    """
    todo = [p.contract.a, p.contract.b]
    while todo:
        op = todo.pop().producer()
        if isinstance(op, tensor.Window) and (any(n != 1 for n in op.sizes) or _follows_rows(p, inner)):
            return True
        if op is not None and op.has(View):
            todo += op.operands
    return False


def _follows_rows(p: Problem, inner: str) -> bool:
    """Whether the image's elements along this letter lie nearer to one another than those along any contracted one."""
    steps = [p.left.stride(c) for c in p.contracted if p.size(c) != 1]
    return all(p.left.stride(inner) <= step for step in steps)


build_nchw_conv = Way(
    "nchw",
    NchwSchedule,
    find_image,
    choose_nchw,
    write_nchw,
    fit_nchw,
    "build_nchw_conv",
    refusal=lambda image: "no strategy is possible",
    others=other_nchw,
)
