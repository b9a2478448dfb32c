"""Groups of adaptive pooling: the slices, reductions and concatenations that one kernel computes together become one `tensor.fused`.

`adaptive_pooling.py` is the builder.
"""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Value
from polyreme.ir.passes import FuncPass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.conv.adaptive_pooling import find_adaptive_pooling
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.transforms.fuse import outline


@dataclass(frozen=True)
class GroupAdaptivePooling(FuncPass):
    """concat(reduce(slice(concat(reduce(slice(x)), …))), …)  ->  fused(x)
    reduce(window(x))                                       ->  fused(x)

    Before: `tensor` ops in a function body.  After: the same values; parts of rows and columns are known inside of groups only.
    The builder, `build_adaptive_pooling`, decides for `target`. Runs before sinking and fusion, which would make a group of each length of
    the parts.
    """

    name: ClassVar[str] = "group-adaptive-pooling"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    target: Target

    def options(self) -> dict[str, Any]:
        # As text has it.
        return {"target": self.target.name, "cpu": self.target.cpu}

    def run_on(self, func: Func) -> None:
        # From the end: what divides a sum comes before the sum.
        for op in reversed(list(func.block)):
            if isinstance(op, (tensor.Concat, tensor.Reduce, tensor.Map)) and op.parent is func.block and op.is_used:
                self._group(op.results[0])

    def _group(self, value: Value) -> None:
        found = find_adaptive_pooling(value, self.target)
        block = value.owner.parent
        if found is None or not isinstance(block, Block):
            return
        ops = set(found.ops)
        order = [op for op in block if op in ops]
        fused = outline(order, [found.x], [value], {})
        block.insert(fused, order[-1])
        value.replace_all_uses_with(fused.result)
        for op in reversed(order):
            if not op.is_used:
                op.erase()
