"""Weights of products by pairs of steps that may change: what `paired.py` packs them into, as a kernel."""

from __future__ import annotations

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import Location
from polyreme.ir.types import BufferType, TensorType, f32, f64
from polyreme.lowering.access import Access
from polyreme.lowering.code import Code, Index


def weights_kernel(
    name: str, access: Access, step: str, lane: str, k: int, n: int, lanes: int, group: int, facts: list[list[float]], bounds: tuple[float, float], location: Location
) -> Func:
    """A kernel from B in memory, `k` steps of `n` lanes, to its pack: panels of `lanes` lanes, filled up with zeros to whole groups of `group` steps; each lane's scale within `bounds`, and the sum
    of its pairs' products; and the `facts`, of each step of a period its sign and whether it begins a pair."""
    source = access.source.type
    assert isinstance(source, TensorType)
    signs, begins = facts
    period = len(signs)
    groups, panels = -(-k // group), -(-n // lanes)
    panel_size, along, across = groups * group * lanes, access.stride(step), access.stride(lane)
    func = Func.empty(name, [BufferType(source.shape, f32), BufferType((panels * (panel_size + 2 * lanes) + 2 * period,), f32)])
    code = Code(Builder.at_end(func.block, location))
    read, write = func.args
    align = lanes * f32.bytes
    with code.parallel(panels, name="panel") as panel:
        lane0 = code.mul(panel, lanes)
        exist = code.sub(n, lane0)
        start = code.add(access.base, code.mul(lane0, across))

        def load(at: Index, known: bool = True) -> Value:
            """The vector of a step; of one that a last group lacks, zeros."""
            here, mask = code.add(start, code.mul(at, along)), code.lane_mask(exist if known else 0, lanes)
            if across == 1:
                return code.load(read, here, lanes, mask)
            away = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(across), lanes))
            value: Value = code.b(kernel.Gather, read, code.apply("add", away, code.broadcast(code.value(here), lanes)), mask)
            return value

        with code.loop(0, k, [code.zero(f64, lanes)], name="step") as loop:
            wide = code.apply("cast", load(loop.iv), dtype=f64)
            loop.next = [code.fma(wide, wide, loop.carried[0])]
        norm = code.apply("sqrt", loop.results[0])
        for fn, bound in zip(("max", "min"), bounds, strict=True):
            norm = code.apply(fn, norm, code.broadcast(code.constant(bound, f64), lanes))
        # All bits but the first one are rounded off.
        large = code.apply("mul", norm, code.broadcast(code.constant(2.0**52 + 1, f64), lanes))
        scale = code.apply("cast", code.apply("sub", large, code.apply("sub", large, norm)), dtype=f32)

        def write_group(first: Index, count: int, total: Value) -> Value:
            """`total` with the products of the pairs of the group whose first step is `first`, of which `count` steps exist."""
            made = []
            for s in range(group):
                x = code.apply("div", load(code.add(first, s), s < count), scale)
                made.append(x if signs[s] > 0 else code.apply("neg", x))
                code.store(made[s], write, code.add(code.mul(panel, panel_size), code.mul(first, lanes), s * lanes), None, align)
            pairs = [code.apply("mul", made[s], made[s + 1]) for s in range(group) if begins[s]]
            return code.apply("add", total, code.apply("add", *pairs))

        with code.loop(0, k // group, [code.zero(f32, lanes)], name="group") as loop:
            loop.next = [write_group(code.mul(loop.iv, group), group, loop.carried[0])]
        (known,) = loop.results
        if k % group:
            known = write_group(k // group * group, k % group, known)
        after = panels * panel_size
        code.store(scale, write, code.add(lane0, after), None, align)
        code.store(known, write, code.add(lane0, after + panels * lanes), None, align)
        with code.when(code.apply("eq", panel, code.value(0))):
            for i, fact in enumerate((*signs, *begins)):
                code.store(code.constant(fact, f32), write, after + 2 * panels * lanes + i)
    code.b.insert(Return([]))
    return func.finish()
