"""Pads of planar images join the groups whose windows slide over them, where a kernel masks what lies outside in place of reading zeros.

Fusion leaves such a pad on its own: written once it saves testing whether an element lies inside, as the other kernels would for each.
`nchw_windows.py` is the builder.
"""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.passes import FuncPass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.conv.nchw_windows import find_nchw_windows
from polyreme.lowering.kernels.plan import request_of
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.transforms.move_pads import move_pad


@dataclass(frozen=True)
class GroupPaddedWindows(FuncPass):
    """padded = pad(x), y = fused(padded)  ->  y = fused(x)

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
            if isinstance(op, tensor.Fused) and op.parent is func.block and find_nchw_windows(request_of(op, self.target)) is not None:
                _take_pad(op, self.target)


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
        op.parent.insert(joined, op)  # type: ignore[union-attr]
        for old, new in zip(op.results, joined.results, strict=True):
            new.name = old.name
            old.replace_all_uses_with(new)
        op.erase()
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
