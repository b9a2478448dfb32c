"""Pads of planar images join the groups whose windows slide over them, where a kernel masks what lies outside in place of reading zeros.

Fusion leaves such a pad on its own: written once it saves testing whether an element lies inside, as the other kernels would for each.
Poolings of wide windows are parted there into one along the rows and one down the columns, as other kernels want them. `nchw_windows.py`,
the builder, goes along the rows first by itself, without a result in between.
"""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, BlockArgument, Op, Region, Value
from polyreme.ir.dims import Dim
from polyreme.ir.passes import FuncPass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.conv.nchw_windows import find_nchw_windows
from polyreme.lowering.kernels.plan import request_of
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.transforms.move_pads import move_pad


@dataclass(frozen=True)
class GroupPaddedWindows(FuncPass):
    """padded = pad(x), y = fused(padded)  ->  y = fused(x)
    rows = fused(max(window(x))), y = fused(max(window(rows)))  ->  y = fused(max(window(x))), where these are windows along and down

    Before and after: `tensor` ops, groups among them. The builder, `build_nchw_windows`, decides for `target`. Runs after fusion, which
    gathers what follows the windows.
    """

    name: ClassVar[str] = "group-padded-windows"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    target: Target

    def options(self) -> dict[str, Any]:
        # As text has it.
        return {"target": self.target.name, "cpu": self.target.cpu}

    def run_on(self, func: Func) -> None:
        for op in list(func.block):
            if isinstance(op, tensor.Fused) and op.parent is func.block:
                op = _take_rows(op, self.target)
                if find_nchw_windows(request_of(op, self.target)) is not None:
                    _take_pad(op, self.target)


def _take_rows(op: tensor.Fused, target: Target) -> tensor.Fused:
    """The group that goes along rows and down columns in place of `op`, which goes down columns of what another goes along rows for; `op`
    where it is none of these, or the builder does not take that.
    """
    body = list(op.regions[0].block.ops)
    window, down = (body[0], body[1]) if len(body) > 2 else (None, None)
    if not isinstance(window, tensor.Window) or not isinstance(window.x, BlockArgument) or len(window.x.users) != 1:
        return op
    made = op.operands[window.x.index]
    rows = made.producer(tensor.Fused)
    inner = [] if rows is None else list(rows.regions[0].block.ops)
    if rows is None or len(made.users) != 1 or len(rows.results) != 1 or len(inner) != 3:
        return op
    first, along = inner[:2]
    rank = len(shape_of(window.x))
    if (
        not isinstance(first, tensor.Window)
        or not isinstance(first.x, BlockArgument)
        or not _are_parts(window, down, rank, rank - 2)
        or not _are_parts(first, along, rank, rank - 1)
        or not isinstance(down, tensor.Reduce)
        or not isinstance(along, tensor.Reduce)
        or down.fn != along.fn
    ):
        return op
    parts = {name: (*window.attributes[name], *first.attributes[name]) for name in ("axes", "sizes", "strides", "dilations")}
    joined = _with_windows(op, window, down, rows.operands[first.x.index], parts)
    if find_nchw_windows(request_of(joined, target)) is None:
        joined.drop_operands()
        return op
    _put_in_place(joined, op)
    rows.erase()
    return joined


def _are_parts(window: tensor.Window, reduce: Op | None, rank: int, axis: int) -> bool:
    """Whether these take the extremes of windows along one axis."""
    return (
        isinstance(reduce, tensor.Reduce)
        and reduce.x is window.result
        and len(window.result.users) == 1
        and window.axes == (axis,)
        and reduce.axes == (rank,)
        and not reduce.keepdims
        and reduce.fn in ("max", "min")
    )


def _with_windows(op: tensor.Fused, window: tensor.Window, down: Op | None, x: Value, parts: dict[str, tuple[Dim, ...]]) -> tensor.Fused:
    """The group with windows of `x` along two axes in place of one that goes down columns."""
    assert isinstance(down, tensor.Reduce) and isinstance(window.x, BlockArgument)
    body = op.regions[0].block
    inputs = [x if k == window.x.index else y for k, y in enumerate(op.operands)]
    block = Block([v.type for v in inputs], [v.name for v in inputs])
    b = Builder.at_end(block)
    rank = len(shape_of(x))
    here: dict[Value, Value] = dict(zip(body.args, block.args, strict=True))
    seen = b(tensor.Window, here[window.x], **parts)
    here[down.result] = b(tensor.Reduce, seen, fn=down.fn, axes=(rank, rank + 1))
    for inner in body.ops:
        if inner is not window and inner is not down:
            b.insert(inner.clone(here))
    return tensor.Fused(inputs, body=Region(block), loc=op.location)


def _put_in_place(joined: tensor.Fused, op: tensor.Fused) -> None:
    assert op.parent is not None
    op.parent.insert(joined, op)
    for old, new in zip(op.results, joined.results, strict=True):
        new.name = old.name
        old.replace_all_uses_with(new)
    op.erase()


def _take_pad(op: tensor.Fused, target: Target) -> None:
    for i, arg in enumerate(op.regions[0].block.args):
        if not any(isinstance(user, tensor.Window) for user in arg.users):
            continue
        reshape = op.operands[i].producer(tensor.Reshape)
        if reshape is not None and len(reshape.result.users) == 1:
            move_pad(reshape)
        pad = op.operands[i].producer(tensor.Pad)
        if pad is None or len(pad.result.users) != 1:
            continue
        joined = _joined(op, i, pad)
        if find_nchw_windows(request_of(joined, target)) is None:
            joined.drop_operands()
            continue
        _put_in_place(joined, op)
        pad.erase()
        return


def _joined(op: tensor.Fused, i: int, pad: tensor.Pad) -> tensor.Fused:
    """The group with the pad that makes operand `i`."""
    body = op.regions[0].block
    inputs = [pad.x if k == i else x for k, x in enumerate(op.operands)]
    block = Block([v.type for v in inputs], [v.name for v in inputs])
    b = Builder.at_end(block)
    copy = pad.clone({pad.x: block.args[i]})
    b.insert(copy)
    here: dict[Value, Value] = {old: copy.result if k == i else block.args[k] for k, old in enumerate(body.args)}
    for inner in body.ops:
        b.insert(inner.clone(here))
    return tensor.Fused(inputs, body=Region(block), loc=op.location)
