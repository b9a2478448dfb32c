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

from polyreme.dialects import tensor
from polyreme.ir.define import View
from polyreme.ir.types import element_type
from polyreme.lowering.kernels.conv.nchw_channel_lanes import ChannelLanes
from polyreme.lowering.kernels.conv.nchw_pixel_lanes import PixelLanes
from polyreme.lowering.kernels.conv.nchw_strategy import NchwImage, Strategy
from polyreme.lowering.kernels.conv.nchw_summed_lanes import SummedLanes
from polyreme.lowering.kernels.conv.nchw_winograd_columns import WinogradColumns
from polyreme.lowering.kernels.join_pixels import join_pixels
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import Problem, find_problem

# Lanes of whole vectors for each pixel, up to which a convolution of single pixels is a matrix product.
MOST_LANES_OF_PIXELS = 1.05


def build_nchw_conv(request: Request) -> KernelPlan | None:
    """The plan of a group around a convolution; None for any other group, or where generic loops or a matrix product do better."""
    strategy = choose_strategy(request)
    return None if strategy is None else strategy.build()


def choose_strategy(request: Request) -> Strategy | None:
    """The strategy with the fewest estimated cycles; None if there is none."""
    image = find_image(request)
    if image is None:
        return None
    possible = [s for s in (ChannelLanes(image), WinogradColumns(image), PixelLanes(image), SummedLanes(image)) if s.is_possible()]
    return min(possible, key=lambda strategy: strategy.cycles(), default=None)


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
    return isinstance(pixels, int) and -(-pixels // lanes) * lanes <= MOST_LANES_OF_PIXELS * pixels and channels != 1


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
