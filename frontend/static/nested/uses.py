"""Which variables from outside the operators of a block read and write, also by blocks of their own.

A variable that the block declares itself is none of these: it is another one in each run of the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyreme.static.operator import Operator
    from polyreme.static.program import Block

__all__ = ["SCOPES", "block_of", "blocks_of", "names_from_outside"]

# Slots whose variables hold scopes in Paddle; here a run needs none.
SCOPES = ("Scope", "StepScopes", "step_scopes")


def block_of(op: Operator) -> Block:
    """The block that an operator runs."""
    return op.block.program.block(op.block_attr("sub_block"))


def blocks_of(op: Operator) -> list[Any]:
    """All blocks that an operator's attributes name."""
    values = [item for value in op.attrs.values() for item in (value if isinstance(value, (list, tuple)) else [value])]
    return [value for value in values if hasattr(value, "forward_block_idx")]


def names_from_outside(block: Block) -> tuple[list[str], list[str]]:
    """The names that the block's operators read, and those that they write, in order; of what is both, the first is too."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for op in block.ops:
        for found, slots in ((reads, op.read_slots()), (writes, op.write_slots())):
            for slot, names in slots.items():
                if slot not in SCOPES:
                    found.update(dict.fromkeys(name for name in names if name not in block.vars))
    return list(reads), list(writes)
