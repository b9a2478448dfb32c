"""Convolutions whose channels are moved in front of the pixels: their kernel writes them there."""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, Value
from polyreme.ir.passes import FuncPass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.rows import shape_rank
from polyreme.lowering.kernels.conv.depthwise_plan import find_depthwise
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.conv.winograd import build_winograd
from polyreme.lowering.kernels.epilogue import channels_first
from polyreme.lowering.kernels.gemm.bf16x3 import build_bf16x3
from polyreme.lowering.kernels.gemm.winograd_inner_product import build_winograd_inner_product
from polyreme.lowering.kernels.plan import facts_of, request_of
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.schedule.group_inverted_residuals import joined_roots

# Who is asked for a convolution in front of the direct one.
_OTHERS = (build_winograd, build_winograd_inner_product, build_bf16x3)


@dataclass(frozen=True)
class GroupTurnedConvolutions(FuncPass):
    """y = fused(x), transpose(y)  ->  fused(x), whose last op is the transpose

    Before and after: `tensor` ops, groups among them.  A convolution that is computed with its channels last, by `build_direct_conv`, and
    that is read with its channels first only, which is how a function returns it. `prepare` is as in `pipeline`. Runs after fusion.
    """

    name: ClassVar[str] = "group-turned-convolutions"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    target: Target
    prepare: str = ""

    def options(self) -> dict[str, Any]:
        # As text has it.
        return {"target": self.target.name, "cpu": self.target.cpu, **({"prepare": self.prepare} if self.prepare else {})}

    def run_on(self, func: Func) -> None:
        roles = dict(zip(func.args, func.arg_roles, strict=False))
        for op in list(func.block):
            if isinstance(op, tensor.Transpose) and op.perm == channels_first(shape_rank(op.x)):
                self._group(op, roles)

    def _group(self, turn: tensor.Transpose, roles: dict[Value, str]) -> None:
        maker = turn.x.producer()
        if maker is None or not _is_convolution(maker) or len(maker.results) != 1 or len(turn.x.users) != 1:
            return
        request = request_of(maker, self.target, *facts_of(maker, roles, self.prepare))
        if find_depthwise(request) is not None or any(way.takes(request) for way in _OTHERS) or not build_direct_conv.takes(request):
            return
        fused = joined_roots([maker, turn])
        if not build_direct_conv.takes(request_of(fused, self.target, *facts_of(fused, roles, self.prepare))):
            fused.drop_operands()
            return
        assert turn.parent is not None
        turn.parent.insert(fused, turn)
        fused.result.name = turn.result.name
        turn.replace_with(fused.result)
        turn.erase()
        maker.erase()


def _is_convolution(op: Op) -> bool:
    ops = [op] if isinstance(op, tensor.Contract) else op.regions[0].block.ops if isinstance(op, tensor.Fused) else []
    return any(isinstance(inner, tensor.Contract) for inner in ops) and any(isinstance(inner, tensor.Window) for inner in ops)
