"""Strassen's algorithm on two levels, with combinations and sums made while the register tiles multiply.

Combinations of A made in front, and sums made at the end, would wait for memory while nothing is multiplied. Here a thread takes some
groups of panels for a piece of the rows, and all products of the outer level one after another. A *work item* is the inner level's products
for one group. Between the rounds of its register tiles an item does the following, for a vector of every part at a time:

1. It adds up the products of the item before, into the parts of the result that their outer product belongs to. Complete parts go through
   the epilogue.
2. It makes a share of A's combinations for the next outer product. Those of the first one are made in front.
3. With `Cut.half_packed` it makes the next panel of B. Weights are then packed in the combinations of the outer level alone: 1.75 times
   their size, in place of 3.06 times.

A thread that has done its items steals those of another, from the last one back (`work_stealing.py`), and leaves their products in memory.
The last thread to finish adds them up in the order of the items, so that results do not depend on who did what.

Memory holds the combinations of two outer products, and the results that are not complete, mostly in L2. One code serves all products: it
looks up parts and signs in the scheme at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32, i32
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gemm.strassen_schemes import Destination, combine
from polyreme.lowering.kernels.gemm.strassen_task import StrassenTask
from polyreme.lowering.kernels.microkernel import UNROLL, Overlapped
from polyreme.lowering.kernels.prefetch import ONE
from polyreme.lowering.kernels.work_stealing import Tickets, Variables

VectorWork = Callable[[Value], None]
"""Writes the work on the vectors at some position."""



class State:
    """Which of a thread's `COUNT` variables is what. Whether it `CONTINUES` after its own items; whether the run has `MORE` items, how many
    it `DID`, and the current `ITEM`; which two outer products it has `MADE` combinations for. Of the panels that it makes: the item whose
    first one it `HAS`, and which half of the buffer, `PANEL`, is multiplied next.
    """

    CONTINUES, MORE, DID, ITEM, MADE, _, HAS, PANEL, COUNT = range(9)


@dataclass(frozen=True)
class WorkOwner:
    """Whose work items they are: the `owner`'s, which may be the thread itself. `is_shared` if others may take some of them."""

    tickets: Tickets
    owner: Value
    is_own: Value
    is_shared: Value


class PipelinedWork:
    """Writes the work of a `thread` on `groups` groups of panels from `group0` on, for the rows of `task`.

    A is `source`, with rows `stride` apart. `task.memory.left` has `cut.memory_of_thread` elements for each thread: combinations for two
    products of the outer level, sums of two items, unfinished results.
    """


    def __init__(
        self,
        task: StrassenTask,
        source: Value,
        stride: Dim,
        thread: Value,
        share: WorkOwner,
        variables: Variables,
        group0: Index,
        groups: Index,
    ):
        self.task, self.code, self.cut, self.memory = task, task.code, task.cut, task.memory.left
        self.source, self.stride, self.share, self.variables, self.group0, self.groups = source, stride, share, variables, group0, groups
        code, cut = self.code, self.cut
        self.outer, self.inner = cut.schemes
        self.start = code.mul(thread, cut.memory_of_thread)
        self.sums0 = code.add(self.start, cut.combinations_of_thread)
        # Results are with the owner.
        self.results0 = code.add(
            code.mul(share.owner, cut.memory_of_thread), cut.combinations_of_thread, 2 * self.inner.products * cut.plane
        )
        # Vectors of a part of a group's results, and of a part of A: a row of them after the other.
        self.vectors = code.mul(task.count, cut.vectors)
        self.vectors_of_steps = code.mul(task.count, cut.vectors_of_steps)

    def run(self) -> None:
        """The items of the run that are the thread's, or that it steals from another one."""
        code, run, variables = self.code, self.share, self.variables
        items = code.value(code.mul(self.groups, self.outer.products))
        for which, x in ((State.MORE, 1), (State.DID, 0)):
            variables.set(which, x)
        with code.when(code.apply("and", run.is_own, run.is_shared)):
            run.tickets.open(run.owner)
            # Not before all items are done: until then this thread's memory is in use.
            variables.set(State.CONTINUES, 0)
        with code.loop(0, items, name="ticket") as ticket, code.when(variables.is_on(State.MORE)):
            variables.set(State.ITEM, ticket.iv)
            with code.when(run.is_shared):
                self._take(items)
            item = variables.get(State.ITEM)
            is_there = code.apply("lt", item, items)
            variables.note(State.MORE, is_there)
            with code.when(is_there):
                self._run_item(item)
                variables.set(State.DID, code.add(variables.get(State.DID), 1))
        did = variables.get(State.DID)
        with code.when(code.apply("gt", did, code.value(0))):
            with code.when(run.is_own):
                last = code.value(code.sub(did, 1))
                run.tickets.leave(run.owner, last, self._sums(last))
            with code.when(run.is_shared):
                variables.note(State.CONTINUES, run.tickets.are_done(run.owner, did, items))
            with code.when(variables.is_on(State.CONTINUES)):
                self._combine_products(items)

    def _take(self, items: Value) -> None:
        """Notes the next item, `items` if there is none. Of another thread it takes as many as there is memory for."""
        code, run, variables = self.code, self.share, self.variables
        variables.set(State.ITEM, items)
        has_room = code.apply("lt", variables.get(State.DID), code.value(self.cut.items_kept))
        may_help = code.apply("and", run.tickets.are_open(run.owner), has_room)
        with code.when(code.apply("or", run.is_own, may_help)):
            variables.set(State.ITEM, run.tickets.take(run.owner, items, run.is_own))

    def _run_item(self, item: Value) -> None:
        """The products of an item. Those for another thread are left where they are, item after item."""
        code, cut, run, variables, products = self.code, self.cut, self.share, self.variables, self.inner.products
        number, group = self._split_item(item)
        self._have_combinations(code.value(number))
        kept = code.add(self.sums0, code.mul(variables.get(State.DID), products * cut.plane))
        sums0 = code.apply("select", run.is_own, code.value(self._sums(item)), code.value(kept))
        left0 = code.add(self.start, code.mul(self._half(number), cut.matrix_of_task))
        next_item = code.add(item, code.apply("select", run.is_own, code.value(1), code.value(-1)))
        panel, following = self._panel(item), self._panel(next_item)
        overlapped = self._overlapped_work(item, number, group)
        if cut.half_packed:
            self._have_panel(item)
            # There is none behind the last one; nor, of another thread's, in front of the first.
            is_there = code.apply(
                "and",
                code.apply("ge", code.value(next_item), code.value(0)),
                code.apply("lt", code.value(next_item), code.value(code.mul(self.groups, self.outer.products))),
            )
            next_item = code.apply("select", is_there, code.value(next_item), item)
        with code.loop(0, products, name="product") as product:
            i = product.iv
            is_last = code.apply("eq", i, code.value(products - 1))
            here, to = code.add(left0, code.mul(i, cut.matrix_of_task)), code.add(sums0, code.mul(i, cut.plane))
            if cut.half_packed:
                at, other = self._panels(variables.get(State.PANEL))
                make = self._make_panel(
                    code.apply("select", is_last, code.value(next_item), item),
                    code.apply("select", is_last, code.value(0), code.value(code.add(i, 1))),
                    other,
                )
                self.task.multiply(
                    here,
                    at,
                    None,
                    self.memory,
                    to,
                    overlapped=self._both(overlapped(i), self._shares(make, i, self._parts(next_item))),
                    right=self.memory,
                )
                variables.set(State.PANEL, code.sub(1, variables.get(State.PANEL)))
            else:
                packed_ahead = code.apply("select", is_last, code.value(following), code.value(code.add(panel, i, 1)))
                self.task.multiply(here, code.add(panel, i), packed_ahead, self.memory, to, overlapped=overlapped(i))
        if cut.half_packed:
            variables.set(State.HAS, self._mark_of_panel(next_item))
        makes = code.apply("and", run.is_own, code.apply("lt", code.value(code.add(number, 1)), code.value(self.outer.products)))
        with code.when(makes):
            # Those of the next product of the outer level are there when all groups have made their share.
            all_made = code.apply("eq", code.value(code.add(group, 1)), code.value(self.groups))
            variables.set(self._made(code.add(number, 1)), code.apply("select", all_made, self._mark(code.add(number, 1)), code.value(0)))
        with code.when(run.is_own, then=False):
            run.tickets.leave(run.owner, item, sums0)

    def _have_panel(self, item: Value) -> None:
        """Makes the first panel of an item, unless it is there."""
        code, variables = self.code, self.variables
        with code.when(code.apply("ne", variables.get(State.HAS), self._mark_of_panel(item))):
            at, _ = self._panels(variables.get(State.PANEL))
            make = self._make_panel(item, code.value(0), at)
            with code.loop(0, self.cut.depth, name="step") as step:
                make(step.iv)

    def _panels(self, which: Value) -> tuple[Index, Index]:
        """Where the panel that is multiplied is, and the one that is made meanwhile."""
        code, cut = self.code, self.cut
        panels0 = code.add(self.start, cut.memory_of_thread - 2 * cut.panel)
        return code.add(panels0, code.mul(which, cut.panel)), code.add(panels0, code.mul(code.sub(1, which), cut.panel))

    def _mark_of_panel(self, item: Index) -> Value:
        """A number that tells an item's first panel from others, and from none."""
        number, group = self._split_item(item)
        code = self.code
        return code.value(code.add(code.mul(code.add(self.group0, group), self.outer.products), number, 1))

    def _parts(self, item: Index) -> Index:
        """Where the combinations of the outer level are that an item's panels are made of."""
        number, group = self._split_item(item)
        code, parts = self.code, self.inner.steps * self.inner.lanes
        return code.mul(code.add(code.mul(code.add(self.group0, group), self.cut.panels_of_group), code.mul(number, parts)), self.cut.panel)

    def _make_panel(self, item: Value, product: Value, to0: Index) -> VectorWork:
        """Makes rows of the panel for an item's product, from one or two combinations of the outer level."""
        code, cut, inner, lanes = self.code, self.cut, self.inner, self.cut.lanes
        parts = self._parts(item)
        first, second = (code.add(parts, code.mul(self._pick(product, [terms[i][0] for terms in inner.right]), cut.panel)) for i in (0, -1))
        # A panel of one has none as its second one, of which no lane is on.
        mask = code.lane_mask(self._pick(product, [lanes * (len(terms) > 1) for terms in inner.right]), lanes)
        signed = self._signed(product, [terms[-1][1] for terms in inner.right])

        def make(step: Value) -> None:
            for v in range(cut.vectors):
                at = code.add(code.mul(step, cut.width), v * lanes)
                one = code.load(self.task.memory.right, code.add(first, at), lanes, None, self.task.align)
                other = code.load(self.task.memory.right, code.add(second, at), lanes, mask, self.task.align)
                code.store(code.apply("add", one, signed(other)), self.memory, code.add(to0, at), None, self.task.align)

        return make

    def _shares(self, make: VectorWork, product: Index, following: Index) -> Callable[[Index], Overlapped]:
        """The rows of the next panel that each round makes, for the tile of rows from some place on, in the product of some number.

        Before the last product makes the first panel of the next item, the rounds prefetch what that item's panels are made of, from
        position `following` on.
        """
        code, cut, inner, lanes = self.code, self.cut, self.inner, self.cut.lanes
        depth, rounds = cut.depth, cut.depth // UNROLL
        lines = inner.steps * inner.lanes * depth * cut.vectors
        prefetched = -(-lines // ((inner.products - 1) * cut.tiles * rounds))

        def overlapped(at: Index) -> Overlapped:
            # Tiles of fewer rows than the first ones do what these leave.
            each = -(-depth * cut.rows // (cut.piece * rounds))
            tile = code.div(at, cut.rows)
            begin = code.mul(tile, rounds * each)
            line0 = code.mul(code.add(code.mul(product, cut.tiles), tile), rounds * prefetched)

            def write(item: Value) -> None:
                step = code.value(code.add(begin, code.mul(item, each)))
                for i in range(prefetched):
                    line = code.add(line0, code.mul(item, prefetched), i)
                    code.prefetch(self.task.memory.right, code.add(following, code.mul(line, lanes)))
                # A block of its own also keeps LLVM from loading early what the tile multiplies, for which there are no registers.
                with code.when(code.apply("lt", step, code.value(depth))):
                    for i in range(each):
                        make(code.value(code.min(code.add(step, i), depth - 1) if each > 1 else step))

            return write

        return overlapped

    @staticmethod
    def _both(one: Callable[[Index], Overlapped], other: Callable[[Index], Overlapped]) -> Callable[[Index], Overlapped]:
        def overlapped(at: Index) -> Overlapped:
            first, second = one(at), other(at)

            def write(item: Value) -> None:
                first(item)
                second(item)

            return write

        return overlapped

    def _have_combinations(self, number: Value) -> None:
        """Makes the combinations for a product of the outer level, if they are not there."""
        code, variables = self.code, self.variables
        with code.when(code.apply("ne", variables.get(self._made(number)), self._mark(number))):
            make = self._make_combinations(number)
            with code.loop(0, self.vectors_of_steps, name="position") as position:
                make(position.iv)
            variables.set(self._made(number), self._mark(number))

    def _made(self, number: Index) -> Index:
        """The variable that tells what is there, where combinations for this product of the outer level go."""
        return self.code.add(State.MADE, self.code.mod(number, 2))

    def _mark(self, number: Index) -> Value:
        """What tells them from those of other products and other rows, and from none."""
        code = self.code
        return code.value(code.add(code.mul(self.task.first, self.outer.products), number, 1))

    def _combine_products(self, items: Value) -> None:
        """Adds up the products that are left of all items, in their order."""
        code, run = self.code, self.share
        with code.loop(0, items, name="turn") as item:
            left = run.tickets.left(run.owner, item.iv)
            with code.when(code.apply("gt", left, code.value(0))):
                add_up = self._add_up(item.iv, code.sub(left, 1))
                with code.loop(0, self.vectors, name="position") as position:
                    add_up(position.iv)

    def _split_item(self, item: Index) -> tuple[Index, Index]:
        """The number of an item's product of the outer level, and of its group."""
        number, group = self.code.split(item, [self.outer.products, self.groups])
        return number, group

    def _half(self, number: Index) -> Index:
        """Where what belongs to this number begins, of what is there for two of them."""
        return self.code.mul(self.code.mod(number, 2), self.inner.products)

    def _sums(self, item: Index) -> Index:
        """Where an item's sums are."""
        return self.code.add(self.sums0, self.code.mul(self._half(item), self.cut.plane))

    def _panel(self, item: Index) -> Index:
        """The number of an item's first panel."""
        number, group = self._split_item(item)
        code = self.code
        return code.add(code.mul(code.add(self.group0, group), self.cut.products), code.mul(number, self.inner.products))

    def _overlapped_work(self, item: Value, number: Index, group: Index) -> Callable[[Index], Callable[[Index], Overlapped]]:
        """The additions and combinations that overlap the tile of rows from some place on, in an inner product of some number.

        Every tile does as much of them, at even distances.
        """
        code, cut = self.code, self.cut
        zero, before, following = code.value(0), code.sub(item, 1), code.value(code.add(number, 1))
        adds = code.apply("and", self.share.is_own, code.apply("gt", item, zero))
        added = code.apply("select", adds, code.value(self.vectors), zero)
        share = code.div(code.add(self.vectors_of_steps, self.groups, -1), self.groups)
        done = code.mul(group, share)
        is_needed = code.apply("and", self.share.is_own, code.apply("lt", following, code.value(self.outer.products)))
        # None are left for the last groups, where there are many for few rows.
        left = code.apply("max", code.value(code.sub(self.vectors_of_steps, done)), zero)
        made = code.apply("select", is_needed, code.value(code.min(share, left)), zero)
        count = code.value(code.add(added, made))
        each = code.apply("max", code.value(code.ceildiv(count, self.inner.products * cut.tiles)), code.value(1))
        every = code.div(cut.depth // UNROLL, each)
        reciprocal = code.add(code.div(ONE, every), 1)
        add_up, make = self._add_up(before, self._sums(before)), self._make_combinations(following)

        def overlapped(product: Index, at: Index) -> Overlapped:
            first = code.mul(code.add(code.mul(product, cut.tiles), code.div(at, cut.rows)), each)

            def write(item: Value) -> None:
                # The number of the vector in this tile: round / every.
                number = code.value(code.div(code.mul(item, reciprocal), ONE))
                overlapped_combine = code.value(code.add(first, number))
                is_due = code.apply("eq", item, code.value(code.mul(number, every)))
                for more in (code.apply("lt", number, each), code.apply("lt", overlapped_combine, count)):
                    is_due = code.apply("and", is_due, more)
                with code.when(is_due):
                    adds = code.apply("lt", overlapped_combine, added)
                    with code.when(adds):
                        add_up(overlapped_combine)
                    with code.when(adds, then=False):
                        make(code.value(code.add(code.sub(overlapped_combine, added), done)))

            return write

        return lambda product: lambda at: overlapped(product, at)

    def _of_rows(self, row: Index, part: Index, last: int, exist: Index) -> Index:
        """Lanes of a row that is in some part, which begins with row `part`, of the parts up to number `last`: as many as `exist`, or none
        where these lack that row.
        """
        code, cut, m = self.code, self.cut, self.task.matrices.m
        assert isinstance(m, int) and isinstance(cut.height, int)
        if (last + 1) * cut.height <= m:
            return exist
        return code.min(exist, code.mul(code.sub(m, code.add(row, part)), cut.lanes))

    def _pick(self, number: Index, values: Sequence[Index]) -> Value:
        """What `values` has for the product of this number."""
        code = self.code
        chosen = code.value(values[-1])
        for i, value in enumerate(values[:-1]):
            chosen = code.apply("select", code.apply("eq", code.value(number), code.value(i)), code.value(value), chosen)
        return chosen

    def _signed(self, number: Index, signs: Sequence[int]) -> Callable[[Value], Value]:
        """Changes the sign of vectors if that of the product of this number is a minus."""
        code = self.code
        is_minus = code.apply("cast", self._pick(number, [int(sign < 0) for sign in signs]), dtype=i32)
        bit = code.broadcast(code.apply("shl", is_minus, code.constant(31, i32)), self.cut.lanes)
        return lambda x: code.reinterpret(code.apply("xor", code.reinterpret(x, i32), bit), f32)

    def _add_up(self, item: Index, sums0: Index) -> VectorWork:
        """Adds up the products of an item, which are at `sums0`, and adds that to the results."""
        code, cut, task, outer, inner, lanes = self.code, self.cut, self.task, self.outer, self.inner, self.cut.lanes
        number, group = self._split_item(item)
        parts = inner.rows * inner.lanes
        results0 = code.add(self.results0, code.mul(group, cut.results_of_group))
        lane0 = code.mul(code.add(self.group0, group), cut.across * cut.width)

        def lanes_of(are_on: Sequence[bool]) -> Value | None:
            return None if all(are_on) else code.lane_mask(self._pick(number, [lanes * is_on for is_on in are_on]), lanes)

        def place_of(targets: Sequence[Destination | None]) -> Index:
            """Where the part of the result is."""
            return code.add(results0, code.mul(self._pick(number, [0 if t is None else t.part for t in targets]), parts * cut.plane))

        # The part that a product may complete, and the other one, if there is one.
        mains = [targets[0] for targets in outer.targets]
        others = [targets[1] if len(targets) > 1 else None for targets in outer.targets]
        main0, other0 = place_of(mains), place_of(others)
        # The first product of a part finds nothing there.
        main_before, other_before = lanes_of([not t.first for t in mains]), lanes_of([t is not None and not t.first for t in others])
        other_stored = lanes_of([t is not None for t in others])
        main_sign, other_sign = (
            self._signed(number, [t.sign for t in mains]),
            self._signed(number, [1 if t is None else t.sign for t in others]),
        )
        completes = code.apply("eq", self._pick(number, [int(t.last) for t in mains]), code.value(1))
        down0 = code.mul(self._pick(number, [t.part // outer.lanes for t in mains]), inner.rows)
        across0 = code.mul(self._pick(number, [t.part % outer.lanes for t in mains]), inner.lanes)

        def add_up(position: Value) -> None:
            at = code.mul(position, lanes)

            def load(start: Index, i: int, mask: Value | None = None) -> Value:
                return code.load(self.memory, code.add(start, at, i * cut.plane), lanes, mask, task.align)

            def store(value: Value, start: Index, i: int, mask: Value | None = None) -> None:
                code.store(value, self.memory, code.add(start, at, i * cut.plane), mask, task.align)

            totals = []
            for i, value in enumerate(combine(code, [load(sums0, i) for i in range(inner.products)], [inner.result])):
                totals.append(code.apply("add", load(main0, i, main_before), main_sign(value)))
                store(code.apply("add", load(other0, i, other_before), other_sign(value)), other0, i, other_stored)
            with code.when(completes):
                row, vector = code.split(position, [task.count, cut.vectors])
                for i, total in enumerate(totals):
                    down, across = code.add(down0, i // inner.lanes), code.add(across0, i % inner.lanes)
                    lane = code.add(lane0, code.mul(across, cut.width), code.mul(vector, lanes))
                    is_whole = cut.groups * cut.across * cut.width == task.matrices.n
                    exist: Index = lanes if is_whole else code.sub(task.matrices.n, lane)
                    here = code.mul(down, cut.height)
                    exist = self._of_rows(code.add(task.first, row), here, cut.down - inner.rows + i // inner.lanes, exist)
                    task.write(total, code.add(task.first, row, here), lane, code.lane_mask(exist, lanes))
            with code.when(completes, then=False):
                for i, total in enumerate(totals):
                    store(total, main0, i)

        return add_up

    def _make_combinations(self, number: Value) -> VectorWork:
        """Makes the combinations of A for the product of this number of the outer level."""
        code, cut, task, outer, inner, lanes = self.code, self.cut, self.task, self.outer, self.inner, self.cut.lanes
        left, height = task.matrices.product.problem.left, cut.height

        def offset(down: int, across: int) -> Index:
            """From one part of the innermost level to another."""
            return code.add(code.mul(down * height, self.stride), across * cut.steps)

        def part(i: int) -> Index:
            down, across = divmod(i, outer.steps)
            return offset(down * inner.rows, across * inner.steps)

        def first_row(i: int) -> Dim:
            return i // outer.steps * inner.rows * height

        # A product of one part has none as its second one, of which no lane is on.
        ones, others = (self._pick(number, [part(terms[i][0]) for terms in outer.left]) for i in (0, -1))
        rows_of = [self._pick(number, [first_row(terms[i][0]) for terms in outer.left]) for i in (0, -1)]
        are_two = self._pick(number, [int(len(terms) > 1) for terms in outer.left])
        signed = self._signed(number, [terms[-1][1] for terms in outer.left])
        to0 = code.add(self.start, code.mul(self._half(number), cut.matrix_of_task))

        def make(position: Value) -> None:
            row, vector = code.split(position, [task.count, cut.vectors_of_steps])
            step = code.mul(vector, lanes)
            exist: Index = lanes if cut.steps % lanes == 0 else code.sub(cut.steps, step)
            exist_of_others = code.mul(are_two, exist)
            at = code.add(left.base, code.mul(code.add(task.rows.before, task.first, row), self.stride), step)
            values = []
            for i, j in [(i, j) for i in range(inner.rows) for j in range(inner.steps)]:
                inside = offset(i, j)
                mask, mask_of_others = (
                    code.lane_mask(self._of_rows(code.add(task.first, row, i * height), which, last, count), lanes)
                    for last in [(outer.rows - 1) * inner.rows + i]
                    for which, count in zip(rows_of, (exist, exist_of_others), strict=True)
                )
                one = code.load(self.source, code.add(at, inside, ones), lanes, mask)
                other = code.load(self.source, code.add(at, inside, others), lanes, mask_of_others)
                values.append(code.apply("add", one, signed(other)))
                for which in (ones, others):
                    code.prefetch(self.source, code.add(at, inside, which, self.stride))
            to = code.add(to0, code.mul(row, cut.line), step)
            for i, value in enumerate(combine(code, values, [inner.left])):
                code.store(value, self.memory, code.add(to, i * cut.matrix_of_task), None, task.align)

        return make
