"""Fused inverted residuals: a product, the depthwise convolution behind it and the next product become one group if its builder takes it.

Only if nothing else reads the values in between: a training step, whose backward needs them, keeps its groups as they are.
`inverted_residual.py` is the builder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.passes import FuncPass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.conv.inverted_residual import build_inverted_residual
from polyreme.lowering.kernels.plan import facts_of, request_of
from polyreme.lowering.machines.targets import Target


@dataclass(frozen=True)
class GroupInvertedResiduals(FuncPass):
    """wide = fused(x), narrow = fused(windows(wide)), out = fused(narrow)  ->  out = fused(x)

    Before and after: `tensor` ops, groups among them. The builder, `build_inverted_residual`, decides for `target`, and is told what is
    known of the weights; `prepare` is as in `pipeline`. Runs after fusion, which gathers what follows each product.
    """

    name: ClassVar[str] = "group-inverted-residuals"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    target: Target
    prepare: str = ""

    def options(self) -> dict[str, Any]:
        # As text has it.
        return {"target": self.target.name, "cpu": self.target.cpu, **({"prepare": self.prepare} if self.prepare else {})}

    def run_on(self, func: Func) -> None:
        roles = dict(zip(func.args, func.arg_roles, strict=False))
        for op in list(func.block):
            if op.parent is func.block and _is_depthwise(op):
                _group(op, self.target, roles, self.prepare)


def _contracts(op: Op) -> list[tensor.Contract]:
    """The products and convolutions of a root."""
    if isinstance(op, tensor.Contract):
        return [op]
    return [inner for inner in op.regions[0].block if isinstance(inner, tensor.Contract)] if isinstance(op, tensor.Fused) else []


def _is_depthwise(op: Op) -> bool:
    """Whether a root is a convolution that keeps its channels apart."""
    contracts = _contracts(op)
    return len(contracts) == 1 and contracts[0].a.producer(tensor.Window) is not None and tensor.ContractSpec(contracts[0].spec).batch != ""


def _group(middle: Op, target: Target, roles: Mapping[Value, str], prepare: str) -> None:
    first = _maker(middle)
    if first is None:
        return
    last = _reader(middle)
    # If the result is a wide image again, the next block begins with the product that makes it.
    ends = [] if last is None or (after := _reader(last)) is not None and _is_depthwise(after) else [last]
    for roots in ([first, middle, *ends], [first, middle])[: 1 + len(ends)]:
        fused = joined_roots(roots)
        if not build_inverted_residual.takes(request_of(fused, target, *facts_of(fused, roles, prepare))):
            fused.drop_operands()
            continue
        at = roots[-1]
        at.parent.insert(fused, at)  # type: ignore[union-attr]
        for old, new in zip(at.results, fused.results, strict=True):
            new.name = old.name
            old.replace_all_uses_with(new)
        for op in reversed(_with_reshapes(roots)):
            op.erase()
        return


def _maker(op: Op) -> Op | None:
    """The root with one product that makes what `op` reads, if nobody else reads that."""
    for value in op.operands:
        made = value
        while (reshape := made.producer(tensor.Reshape)) is not None:
            made = reshape.x
        maker = made.producer()
        if maker is not None and _reader(maker) is op and len(_contracts(maker)) == 1:
            return maker
    return None


def _reader(op: Op) -> Op | None:
    """The root with one product that alone reads what `op` makes, under another shape perhaps."""
    if len(op.results) != 1:
        return None
    value = op.results[0]
    while len(users := list(value.users)) == 1 and isinstance(users[0], tensor.Reshape):
        value = users[0].result
    return users[0] if len(users) == 1 and len(_contracts(users[0])) == 1 else None


def _with_reshapes(roots: list[Op]) -> list[Op]:
    """The roots of a fused inverted residual with the reshapes between them, in order."""
    found = [roots[0]]
    for op in roots[1:]:
        while (user := next(iter(found[-1].results[0].users))) is not op:
            found.append(user)
        found.append(op)
    return found


def joined_roots(roots: list[Op]) -> tensor.Fused:
    """The roots as one."""
    ops = _with_reshapes(roots)
    made = {op.results[0] for op in ops}
    inputs = list(dict.fromkeys(x for op in ops for x in op.operands if x not in made))
    block = Block([v.type for v in inputs], [v.name for v in inputs])
    inside: dict[Value, Value] = dict(zip(inputs, block.args, strict=True))
    b = Builder.at_end(block)
    for op in ops:
        if not isinstance(op, tensor.Fused):
            b.insert(op.clone(inside))
            continue
        body = op.regions[0].block
        here: dict[Value, Value] = dict(zip(body.args, (inside[x] for x in op.operands), strict=True))
        for inner in body.ops[:-1]:
            b.insert(inner.clone(here))
        inside.update(zip(op.results, (here[v] for v in body.terminator.operands), strict=True))
    b.insert(tensor.Yield([inside[v] for v in ops[-1].results]))
    return tensor.Fused(inputs, body=Region(block), loc=ops[-1].location)
