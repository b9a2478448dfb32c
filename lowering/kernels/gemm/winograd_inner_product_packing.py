"""A kernel that packs B for Winograd's inner product, if B is not known at compile time. `winograd_inner_product.py` says what for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from math import gcd

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import Location
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, TensorType, f32, f64, i32
from polyreme.lowering.analysis.access import Access
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import transpose_lanes
from polyreme.lowering.machines.functions import LATENCY
from polyreme.lowering.machines.inner_product_costs import INNER_PRODUCT_COSTS as COSTS
from polyreme.lowering.machines.memory import L2_WAY_BYTES, PREFETCH_ROWS

# Sums of squares that are made beside each other, since each waits for the one before.
CHAINS = LATENCY
# Magnitudes between these may be squared and summed: nothing is lost that counts. Sums of squares are within their squares.
SQUARED = (2.0**-40, 2.0**40)


@dataclass(frozen=True)
class Packing:
    """How B, `k` steps of `n` lanes, becomes panels of `lanes` lanes, padded with zeros to whole groups of `group` steps.

    Behind the panels follow each lane's scale, within `bounds`, the sum of its pairs' products, and the `facts`: of each step of a period
    its sign, and whether it begins a pair.
    """

    access: Access
    step: str
    lane: str
    k: int
    n: int
    lanes: int
    group: int
    facts: list[list[float]]
    bounds: tuple[float, float]

    @property
    def panels(self) -> int:
        return -(-self.n // self.lanes)

    @property
    def panel_size(self) -> int:
        return -(-self.k // self.group) * self.group * self.lanes

    def kernel(self, name: str, location: Location) -> Func:
        """A kernel from B to all panels, all scales, all sums, and the facts."""
        source = self.access.source.type
        assert isinstance(source, TensorType)
        after = self.panels * self.panel_size
        facts = after + 2 * self.panels * self.lanes
        func = Func.empty(name, [BufferType(source.shape, f32), BufferType((facts + sum(map(len, self.facts)),), f32)])
        code = Code(Builder.at_end(func.block, location))
        read, write = func.args
        together = max(i for i in range(1, self.together + 1) if self.panels % i == 0)
        with code.parallel(self.panels // together, name="panel") as task:
            panel = code.mul(task, together)
            self.fill(code, read, self.access.base, panel, together, write, panel, self.panels)
            with code.when(code.apply("eq", task, code.value(0))):
                self.write_facts(code, write, facts)
        code.b.insert(Return([]))
        return func.finish()

    def write_facts(self, code: Code, write: Value, at: Index) -> None:
        for i, fact in enumerate(chain(*self.facts)):
            code.store(code.constant(fact, f32), write, code.add(at, i))

    def line_of(self, code: Code, base: Index, panel: Index, number: Index) -> Index | None:
        """Where line `number` of a panel of B lies, which begins at `base`; None if the hardware prefetcher finds it."""
        along, across = (self.access.stride(c) for c in (self.step, self.lane))
        start = code.add(base, code.mul(panel, self.lanes * across))
        if across == 1 and isinstance(along, int) and along > self.lanes:
            # Not where so many would meet in the same sets of the cache.
            fits = self.k * gcd(along * f32.bytes, L2_WAY_BYTES) <= COSTS.ways_of_lines * L2_WAY_BYTES
            return code.add(start, code.mul(number, along)) if fits else None
        return code.add(start, code.mul(number, self.lanes)) if along == 1 and across == self.k else None

    @cached_property
    def together(self) -> int:
        """Panels that are filled together, since their steps are neighbours in memory: as many as take a small part of L2."""
        fit = COSTS.together_bytes // (self.panel_size * f32.bytes)
        return 1 if self.access.stride(self.lane) != 1 else max(1, min(fit, COSTS.most_together, self.panels))

    def fill(self, code: Code, read: Value, base: Index, panel: Index, count: int, write: Value, to: Index, held: int) -> None:
        """Write so many panels from this one on, of the B that begins at `base`, as those from number `to` on of the `held` ones in a
        buffer, with their scales and sums behind all of them. Some of them may be beyond the last one.
        """
        k, lanes, align = self.k, self.lanes, self.lanes * f32.bytes
        along, across = self.access.stride(self.step), self.access.stride(self.lane)
        columns = []
        for i in range(count):
            lane0 = code.mul(code.add(panel, i), lanes)
            columns.append(_WeightSteps(code, read, code.add(base, code.mul(lane0, across)), along, across, lanes, code.sub(self.n, lane0)))
        places = [code.mul(code.add(to, i), self.panel_size) for i in range(count)]
        chains = max(1, CHAINS // count)

        def copy(at: Index, rows: int, so_far: Sequence[Value]) -> list[Value]:
            """Steps as they are, which lie beside each other then, and their squares."""
            made = list(so_far)
            for i, step in enumerate(zip(*(column.read(at, rows) for column in columns), strict=True)):
                for j, x in enumerate(step):
                    code.store(x, write, code.add(places[j], code.mul(at, lanes), i * lanes), None, align)
                    which = j * chains + i % chains
                    made[which] = code.fma(x, x, made[which])
            return made

        whole = k // lanes * lanes
        with code.loop(0, whole, [code.zero(f32, lanes)] * (chains * count), step=lanes, name="step") as loop:
            columns[0].prefetch(loop.iv, count)
            loop.next = copy(loop.iv, lanes, loop.carried)
        made = copy(whole, k - whole, loop.results)
        for i in range(count):
            squares, *others = made[i * chains : (i + 1) * chains]
            for x in others:
                squares = code.apply("add", squares, x)
            scale_at = code.add(held * self.panel_size, code.mul(code.add(to, i), lanes))
            self._finish(code, write, places[i], squares, scale_at, code.add(scale_at, held * lanes))

    def _finish(self, code: Code, write: Value, to: Index, squares: Value, scale_at: Index, known_at: Index) -> None:
        """Scale a panel that is there as it was, of these sums of squares, and write its scales and sums."""
        k, lanes, group = self.k, self.lanes, self.group
        signs, begins = self.facts
        align = lanes * f32.bytes
        least, most = (code.broadcast(code.constant(x * x, f32), lanes) for x in SQUARED)
        fine = code.apply("and", code.apply("ge", squares, least), code.apply("le", squares, most))
        code.store(code.apply("sqrt", squares), write, scale_at, None, align)
        with code.when(code.apply("lt", code.reduce(code.apply("cast", fine, dtype=i32)), code.constant(lanes, i32))):
            code.store(self._wide_norms(code, write, to), write, scale_at, None, align)
        norm = code.apply("cast", code.load(write, scale_at, lanes, None, align), dtype=f64)
        for fn, bound in zip(("max", "min"), self.bounds, strict=True):
            norm = code.apply(fn, norm, code.broadcast(code.constant(bound, f64), lanes))
        # All bits but the first one are rounded off.
        large = code.apply("mul", norm, code.broadcast(code.constant(2.0**52 + 1, f64), lanes))
        scale = code.apply("cast", code.apply("sub", large, code.apply("sub", large, norm)), dtype=f32)
        factor = code.apply("div", code.broadcast(code.constant(1.0, f32), lanes), scale)
        factors = {sign: factor if sign > 0 else code.apply("neg", factor) for sign in sorted(set(signs))}

        def finish(first: Index, count: int, total: Value) -> Value:
            """Scales a group, of which `count` steps exist, and adds the products of its pairs to `total`."""
            made = []
            for i in range(group):
                here = code.add(to, code.mul(first, lanes), i * lanes)
                made.append(
                    code.apply("mul", code.load(write, here, lanes, None, align), factors[signs[i]]) if i < count else code.zero(f32, lanes)
                )
                code.store(made[i], write, here, None, align)
            for i in range(group):
                if begins[i]:
                    total = code.fma(made[i], made[i + 1], total)
            return total

        with code.loop(0, k // group, [code.zero(f32, lanes)], name="group") as loop:
            loop.next = [finish(code.mul(loop.iv, group), group, loop.carried[0])]
        (known,) = loop.results
        if k % group:
            known = finish(k // group * group, k % group, known)
        code.store(scale, write, scale_at, None, align)
        code.store(known, write, known_at, None, align)


    def _wide_norms(self, code: Code, panel: Value, at: Index) -> Value:
        """The norms of a panel's lanes, whose squares may leave the range of floats."""
        lanes = self.lanes
        with code.loop(0, self.k, [code.zero(f64, lanes)], name="step") as loop:
            x = code.apply("cast", code.load(panel, code.add(at, code.mul(loop.iv, lanes)), lanes, None, lanes * f32.bytes), dtype=f64)
            loop.next = [code.fma(x, x, loop.carried[0])]
        return code.apply("cast", code.apply("sqrt", loop.results[0]), dtype=f32)


@dataclass(frozen=True)
class _WeightSteps:
    """Reads steps of a panel: B from `start` on, a step being `along` from the next one, and a lane `across`; `exist` of the lanes do."""

    code: Code
    buffer: Value
    start: Index
    along: Dim
    across: Dim
    lanes: int
    exist: Index

    def read(self, at: Index, count: int) -> list[Value]:
        """The vectors of `count` steps from `at` on."""
        if self.along == 1 and self.across != 1:
            return [x for i in range(0, count, self.lanes) for x in self._transposed(self.code.add(at, i), min(self.lanes, count - i))]
        return [self._step(self.code.add(at, i)) for i in range(count)]

    def prefetch(self, at: Index, panels: int) -> None:
        """Prefetches B's rows for later steps of `panels` panels. Only for rows so far apart that the hardware prefetcher misses them."""
        code = self.code
        if self.across == 1 and isinstance(self.along, int) and self.along > self.lanes:
            for i in range(self.lanes):
                for j in range(panels):
                    row = code.mul(code.add(at, PREFETCH_ROWS + i), self.along)
                    code.prefetch(self.buffer, code.add(self.start, j * self.lanes, row), locality=2)

    def _step(self, at: Index) -> Value:
        code, lanes = self.code, self.lanes
        here, mask = code.add(self.start, code.mul(at, self.along)), code.lane_mask(self.exist, lanes)
        if self.across == 1:
            return code.load(self.buffer, here, lanes, mask)
        away = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(self.across), lanes))
        value: Value = code.b(kernel.Gather, self.buffer, code.apply("add", away, code.broadcast(code.value(here), lanes)), mask)
        return value

    def _transposed(self, at: Index, count: int) -> list[Value]:
        """Of a square block, whose lines are lanes in memory."""
        code, lanes = self.code, self.lanes
        lines = []
        for i in range(lanes):
            # A lane that does not exist is read with no element on.
            mask = code.lane_mask(code.min(code.mul(code.sub(self.exist, i), lanes), count), lanes)
            lines.append(code.load(self.buffer, code.add(self.start, at, code.mul(i, self.across)), lanes, mask))
        return transpose_lanes(code, lines)[:count]
