"""The regions of branches and loops, which are isolated, as functions: what works on functions works on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import ControlFlow
from polyreme.ir.diagnostics import UNKNOWN

__all__ = ["as_function", "copied_function", "has_control_flow", "regions_of_control"]


def has_control_flow(root: Op) -> bool:
    """Whether there is a branch or a loop inside `root`."""
    return any(op is not root and ControlFlow in op.traits for op in root.walk())


def regions_of_control(root: Op) -> list[Region]:
    """The bodies of branches and loops inside `root`, and those of other ops that have such in them; inner ones before outer ones."""
    found: list[Region] = []
    for region in root.regions:
        for block in region.blocks:
            for op in block:
                if op.regions:
                    inner = regions_of_control(op)
                    if ControlFlow in op.traits or inner:
                        found += [*inner, *op.regions]
    return found


@contextmanager
def as_function(region: Region, name: str = "body") -> Iterator[Func]:
    """Inside, the block of `region` is that of a function, which returns what the region yields. Its arguments, and how many values it
    returns, have to stay what they are.
    """
    owner = region.parent
    block = region.block
    func = Func.empty(name, (), loc=owner.location if owner is not None else UNKNOWN)
    end = block.terminator
    kind = type(end)
    _hand_over(block, region, func.regions[0])
    _end_with(Return, end)
    func.finish()
    try:
        yield func
    finally:
        _end_with(kind, func.block.terminator)
        _hand_over(func.block, func.regions[0], region)


def _hand_over(block: Block, source: Region, target: Region) -> None:
    source.blocks = []
    target.blocks = []
    target.add_block(block)


def _end_with(kind: type[Op], end: Op) -> None:
    block, values = end.parent, list(end.operands)
    assert block is not None
    made = kind.build(values, {}, (), (), end.location, (len(values),))
    end.erase()
    block.append(made)


def copied_function(region: Region, name: str = "body") -> Func:
    """A function that computes what the region yields; the region stays as it is."""
    owner = region.parent
    block = region.block
    func = Func.empty(
        name, [a.type for a in block.args], (), [a.name for a in block.args], loc=owner.location if owner is not None else UNKNOWN
    )
    inside: dict[Value, Value] = dict(zip(block.args, func.args, strict=True))
    for op in block.ops[:-1]:
        func.block.append(op.clone(inside))
    end = block.terminator
    func.block.append(Return.build([inside[v] for v in end.operands], {}, (), (), end.location, (len(end.operands),)))
    return func.finish()
