"""Convolutions, forward and backward: contracts whose result ends with positions in an image.

Such a contract has an image (the operand with the result's last letters, its *spatial* ones), and weights that give the letter before them,
the *channel*. The image is read in place, whatever its windows: padding alone is made first, by whoever makes the image. Gradients of
weights have the same form, the window's letters being the positions. There are several ways to compute it, of which the one is taken that
is estimated to be the fastest; what they share is in `nchw_strategy.py`. A register tile has its lanes along one of two axes:

- *channels* (`nchw_channel_lanes.py`): weights are packed into panels of channels, the pixels of a small rectangle are the tile's rows.
  Sums come out with channels together and are transposed in blocks. With windows of several rows one pixel apart, fewer multiplications may
  do (`nchw_winograd_columns.py`).
- *pixels* (`nchw_pixel_lanes.py`): lanes run along a row of the image, which is read as it stands; channels are the tile's rows. For few
  channels, such as the first layer's.

All leave the sums of a piece of the image in a scratch tile, channel by channel, from which the epilogue (bias, activation, pooling) makes
the results while it lies in the first-level cache. A pooling that overlaps the next piece computes the rows in common twice.
"""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.define import View
from polyreme.lowering.kernels.conv.nchw_channel_lanes import ChannelLanes
from polyreme.lowering.kernels.conv.nchw_pixel_lanes import PixelLanes
from polyreme.lowering.kernels.conv.nchw_strategy import NchwImage, Strategy
from polyreme.lowering.kernels.conv.nchw_winograd_columns import WinogradColumns
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.problem import Problem, find_problem


def build_nchw_conv(request: Request) -> KernelPlan | None:
    """The plan of a group around a convolution; None for any other group, or where generic loops or a matrix product do better."""
    strategy = choose_strategy(request)
    return None if strategy is None else strategy.build()


def choose_strategy(request: Request) -> Strategy | None:
    """The way that is estimated to be the fastest; None where there is none."""
    image = find_image(request)
    if image is None:
        return None
    possible = [s for s in (ChannelLanes(image), WinogradColumns(image), PixelLanes(image)) if s.is_possible()]
    return min(possible, key=lambda strategy: strategy.cycles(), default=None)


def find_image(request: Request) -> NchwImage | None:
    """The group's problem as one of images, flipped where need be."""
    problem = find_problem(request)
    if problem is None:
        return None
    last = next((c for c in reversed(problem.out) if problem.size(c) != 1), None)
    if last is None or last in problem.batch:
        return None
    return _image(problem if last in problem.rows else problem.flipped())


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
    if not _is_windowed(p) and not p.epilogue.pools and len(spatial) < 2:
        return None
    channel = lanes[-1] if lanes else None
    # Only the innermost spatial letters are tiled; more than three of them become loops outside.
    return NchwImage(p, tuple(spatial[-3:]), channel)


def _is_windowed(p: Problem) -> bool:
    """Whether a window is among the views that make an operand."""
    todo = [p.contract.a, p.contract.b]
    while todo:
        op = todo.pop().producer()
        if isinstance(op, tensor.Window):
            return True
        if op is not None and op.has(View):
            todo += op.operands
    return False
