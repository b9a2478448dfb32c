"""Gradients of branches and loops: branches and loops again.

The backward of a branch runs the gradients of the body that ran, that of a loop the gradients of its steps, the last one first. Bodies
compute again what their gradients need: of a loop only what each step is handed is kept, as many rows of it as there are steps, and what
its steps give that takes a product to compute. That number is known when the loop has run; a `while` counts its rounds, and its backward
runs them again as a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.dialects import host, nn
from polyreme.dialects.control import local_sizes
from polyreme.dialects.nn import Add, Concat, Full, If, LogicalOr, MatMul, Reshape, Scan, Slice, While, Yield
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.define import size_names
from polyreme.ir.diagnostics import UNKNOWN, Diagnostic, PassError
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import TensorType, i1
from polyreme.lowering.analysis.counted_loops import known_rounds
from polyreme.lowering.gradients.presence import ALWAYS, NEVER, Presence, Sometimes, has_poles, is_exposed, predicate
from polyreme.lowering.gradients.table import Emitter, gradient, has_gradient, zeros_like
from polyreme.lowering.gradients.walk import NOT_DIFFERENTIABLE, gradients_and_presence

__all__ = ["reaching"]


# --- what depends on what


def reaching(region: Region) -> list[frozenset[int]]:
    """For each argument of a body which of the values that it yields have gradients with respect to it."""
    block = region.block
    reached: dict[Value, frozenset[int]] = {}
    for i, value in enumerate(block.terminator.operands):
        if has_gradient(value):
            reached[value] = reached.get(value, frozenset()) | {i}
    for op in reversed(block.ops[:-1]):
        found = [reached.get(r, frozenset()) for r in op.results]
        if any(found):
            for value, through in zip(op.operands, _through(op), strict=True):
                ends = frozenset().union(*(found[r] for r in through))
                if ends and has_gradient(value):
                    reached[value] = reached.get(value, frozenset()) | ends
    return [reached.get(arg, frozenset()) for arg in block.args]


def _through(op: Any) -> list[frozenset[int]]:
    """For each operand of an op which of its results have gradients with respect to it."""
    if type(op) in NOT_DIFFERENTIABLE:
        return [frozenset()] * len(op.operands)
    if isinstance(op, If):
        both = [reaching(region) for region in op.regions]
        return [frozenset(), *(a | b for a, b in zip(*both, strict=True))]
    if isinstance(op, While):
        return _through_rounds(reaching(op.body), 0, len(op.inits))
    if isinstance(op, Scan):
        return _through_rounds(reaching(op.body), len(op.xs), len(op.inits))
    every = frozenset(i for i, r in enumerate(op.results) if has_gradient(r))
    return [every] * len(op.operands)


def _through_rounds(once: Sequence[frozenset[int]], first: int, count: int) -> list[frozenset[int]]:
    """What depends on what after any number of rounds; carried values are the arguments from `first` on, and the first ones that a round
    yields.
    """
    carried = [once[first + i] | {i} for i in range(count)]
    while True:
        wider = [frozenset().union(ends, *(carried[e] for e in ends if e < count)) for ends in carried]
        if wider == carried:
            break
        carried = wider
    rest = [frozenset().union(ends, *(carried[e] for e in ends if e < count)) for ends in once]
    return [*rest[:first], *carried, *rest[first + count :]]


# --- bodies of gradients


class _Inside(Builder):
    """A builder of a body that stands nowhere yet, and will where `outer` builds."""

    outer: Any


class _Body:
    """A body being written: `args` are added, ops by `b`. Its op will stand where `outer` builds."""

    def __init__(self, op: Any, outer: Emitter):
        self.block = Block()
        self.b = _Inside(self.block, None, getattr(op, "location", UNKNOWN))
        self.b.outer = outer

    def args(self, types: Sequence[Any]) -> list[Value]:
        """Arguments of these types."""
        return [self.block.add_arg(t) for t in types]

    def inline(self, region: Region, args: Sequence[Value]) -> list[Value]:
        """The ops of a body on `args`; what it yields. They run a second time there, which a call of the user's function must not."""
        for op in (inner for top in region.block for inner in top.walk()):
            if isinstance(op, host.Call):
                why = (
                    f"expected no call of a Python function ('{op.function}') in a branch or loop, for gradients, "
                    "which run the body again; call it outside, or run the branch or loop under paddle.no_grad()"
                )
                raise PassError(Diagnostic(why, op.location), code="E0407")
        inside: dict[Value, Value] = dict(zip(region.block.args, args, strict=True))
        for op in region.block.ops[:-1]:
            self.b.insert_op(op.clone(inside))
        return [inside[v] for v in region.block.terminator.operands]


    def gradients(
        self, ends: Sequence[Value], weights: Sequence[Value | None], wrt: Sequence[Value], given: Sequence[Presence] = ()
    ) -> tuple[list[Value], list[Presence]]:
        """The gradients of `ends`, weighted, with respect to values that stand in front of them, and when these are there, as `given` says
        it of the weights.
        """
        weighted = [(end, None if w is None else _with_type(self.b, w, end.type)) for end, w in zip(ends, weights, strict=True)]
        found = gradients_and_presence(self.b, weighted, wrt, given, _joined)
        grads = [zeros_like(self.b, v) if grad is None else grad for v, (grad, _) in zip(wrt, found, strict=True)]
        return grads, [NEVER if grad is None else presence for grad, presence in found]

    def is_there(self, presence: Presence) -> Value:
        """Whether a gradient of this body is there, as a bool."""
        made: Value = predicate(self.b, presence) if presence else self.b(Full, value=presence is ALWAYS, dtype=i1)
        return made

    def finish(self, values: Sequence[Value]) -> Region:
        """The region, which yields `values`."""
        self.b.insert(Yield(list(values)))
        return Region(self.block)


def _joined(b: Builder, x: Value, y: Value) -> Value:
    """x + y; of parts that lie side by side among zeros, as the gradients of slices do, [x, 0] + [0, y] -> [x, y]"""
    parts = [part for part in (_part_among_zeros(x), _part_among_zeros(y)) if part is not None]
    made: Value
    if len(parts) == 2 and parts[0][1] == parts[1][1]:
        for (first, axis, low, _), (second, _, start, high) in (parts, parts[::-1]):
            if low + first.type.shape[axis] == start:
                made = b(Concat, [first, second], axis=axis)
                padding = (0, 0) * axis + (low, high) + (0, 0) * (first.type.rank - axis - 1)
                return made if low == high == 0 else b(nn.Pad, made, padding=padding)
    made = b(Add, x, y)
    return made


def _part_among_zeros(value: Value) -> tuple[Any, int, Dim, Dim] | None:
    """What a pad puts zeros around, along one axis: itself, the axis, and how many are in front of it and behind."""
    op = value.producer(nn.Pad)
    if op is None or op.value != 0 or any(amount != 0 for amount in op.interior):
        return None
    axes = [a for a in range(op.x.type.rank) if op.padding[2 * a : 2 * a + 2] != (0, 0)]
    return (op.x, axes[0], *op.padding[2 * axes[0] : 2 * axes[0] + 2]) if len(axes) == 1 else None


def _with_type(b: Builder, value: Value, kind: Any) -> Value:
    """A gradient as one of the type `kind`: when it runs its sizes are those, under other names."""
    if value.type == kind:
        return value
    made: Value = b(Slice, value, starts=(0,) * kind.rank, stops=kind.shape, strides=(1,) * kind.rank)
    return made


def _tuple(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


# --- rules


@gradient(If)
def branch(op: Any, b: Emitter, *dys: Any) -> tuple[Any, ...]:
    """d captured = if(cond, captured, dy) {gradients of the first body} {gradients of the second one}"""
    bodies = (op.then_body, op.else_body)
    given = [i for i, dy in enumerate(dys) if dy is not None]
    both = [reaching(body) for body in bodies]
    wanted = [i for i in range(len(op.captured)) if any(ends[i] & frozenset(given) for ends in both)]
    if not wanted:
        return None, None
    halves: list[tuple[_Body, list[Value], list[Presence]]] = []
    for body in bodies:
        made = _Body(op, b)
        args = made.args([v.type for v in op.captured])
        weights: list[Value | None] = [None] * len(dys)
        for i, arg in zip(given, made.args([dys[i].type for i in given]), strict=True):
            weights[i] = arg
        halves.append((made, *made.gradients(made.inline(body, args), weights, [args[i] for i in wanted])))
    ways = [
        tuple(presences[place] if _is_exposed(op.captured[i], b) else ALWAYS for _, _, presences in halves)
        for place, i in enumerate(wanted)
    ]
    told = [place for place, way in enumerate(ways) if way not in _BY_CONDITION]
    regions = [made.finish([*grads, *(made.is_there(presences[place]) for place in told)]) for made, grads, presences in halves]
    results = _tuple(b(If, op.cond, [*op.captured, *(dys[i] for i in given)], then_body=regions[0], else_body=regions[1]))
    found: list[Any] = [None] * len(op.captured)
    for place, (i, way) in enumerate(zip(wanted, ways, strict=True)):
        if place in told:
            presence: Presence = frozenset([(results[len(wanted) + told.index(place)], True)])
        else:
            presence = ALWAYS if way == (ALWAYS, ALWAYS) else frozenset([(op.cond, way[0] is ALWAYS)])
        found[i] = results[place] if presence is ALWAYS else Sometimes(results[place], presence)
    return None, found


# What is told by the condition of a branch: in which of its bodies a gradient is there.
_BY_CONDITION = ((ALWAYS, ALWAYS), (ALWAYS, NEVER), (NEVER, ALWAYS))


def _is_exposed(value: Any, b: Emitter) -> bool:
    """Whether it matters when the gradient of an operand is there. Of the tape nobody knows here where it leads."""
    on_tape = not isinstance(value, Value)
    held = value._value if on_tape else value
    return isinstance(held, Value) and is_exposed(held, on_tape or isinstance(b, _Inside))


@gradient(While)
def loop(op: Any, b: Emitter, *dys: Any) -> tuple[Any, ...]:
    """The gradients of a scan of as many steps as the loop had rounds"""
    inits, captured = list(op.inits), list(op.captured)
    carried = [a.type for a in op.body.block.args[: len(inits)]]
    if local := local_sizes(carried, [v.type for v in inits], [v.type for v in captured]):
        where = getattr(op, "location", UNKNOWN)
        raise PassError(
            Diagnostic(
                f"expected a loop whose carried values keep their sizes, for gradients, but {', '.join(sorted(local))} changes from "
                "round to round; write into a tensor of the full size instead, or run the loop under paddle.no_grad()", where,
            ), code="E0407",
        )  # fmt: skip
    steps = known_rounds(op) if isinstance(op, While) else None
    rows = []
    if steps is None:
        steps = _fresh_size(b)
        # A row for each step, which no step looks at: that tells how many there are.
        rows = [b(host.Range, op.results[-1], count=steps)]
    _, d_inits, d_shared = _scan_gradients(b, op, op.body, [], inits, captured, steps, False, list(dys[: len(inits)]), [], rows)
    return d_inits, d_shared


@gradient(Scan)
def scan(op: Any, b: Emitter, *dys: Any) -> tuple[Any, ...]:
    """A scan in the other direction, on what each step was handed"""
    count = len(op.inits)
    return _scan_gradients(
        b, op, op.body, list(op.xs), list(op.inits), list(op.shared), op.steps, op.reverse, list(dys[:count]), list(dys[count:]),
        given=list(op.results[count:]),
    )  # fmt: skip


def _fresh_size(b: Any) -> Dim:
    """A name for a size that no value has yet, neither where `b` builds nor around it."""
    taken: set[str] = set()
    at = b
    while isinstance(at, Builder):
        root: Any = at.block.parent_op
        while root is not None and root.parent_op is not None:
            root = root.parent_op
        for op in root.walk() if root is not None else (inner for first in at.block for inner in first.walk()):
            taken |= size_names(op)
        at = at.outer if isinstance(at, _Inside) else None
    if at is not None:
        size: Dim = at.fresh_size()
        return size
    return symbol(next(name for name in (f"K_{i}" for i in range(1, len(taken) + 2)) if name not in taken))


def _scan_gradients(
    b: Emitter,
    op: Any,
    body: Region,
    xs: list[Any],
    inits: list[Any],
    shared: list[Any],
    steps: Dim,
    reverse: bool,
    d_last: list[Any],
    d_given: list[Any],
    rows: Sequence[Any] = (),
    given: Sequence[Any] = (),
) -> tuple[list[Any], list[Any], list[Any]]:
    """The gradients of a scan with `body` with respect to `xs`, `inits` and `shared`; None where none reaches. `rows` are operands of as
    many steps, which the body is not given; `given` is what the steps give, where a scan has it.
    """
    first, count, rest = len(xs), len(inits), len(xs) + len(inits)
    once = reaching(body)
    after = _through_rounds(once, first, count)
    arriving = frozenset(
        [*(i for i, d in enumerate(d_last) if d is not None), *(count + i for i, d in enumerate(d_given) if d is not None)]
    )
    # Carried values that any gradient comes to, in some round.
    useful = [i for i in range(count) if has_gradient(inits[i]) and after[first + i] & arriving]
    ends = frozenset([*useful, *(e for e in arriving if e >= count)])
    x_wanted = [i for i in range(first) if once[i] & ends]
    shared_wanted = [i for i in range(len(shared)) if once[rest + i] & ends]
    handed = _handed(b, op, body, xs, inits, shared, steps, reverse, rows, given) if count else []
    weights = [i for i, d in enumerate(d_given) if d is not None]
    # What is not computed again, since the steps give it.
    kept = [i for i in range(len(given)) if body.block.terminator.operands[count + i] in _products(body)]
    seeds = [d_last[i] if d_last[i] is not None else zeros_like(b, inits[i]) for i in useful]
    # Of the wanted shared operands those whose gradients one product of the rows of all steps gives, and the numbers of its operands.
    apart: dict[int, tuple[int, int]] = {}
    # Of the wanted shared operands those whose gradients are sums of rows, which are added up behind all steps.
    rows_apart: set[int] = set()
    # Of these, whether there was a gradient in any step.
    told = [i for i in shared_wanted if _is_exposed(shared[i], b)]

    # Carried values whose gradients are not there in every step: what is handed on for the next round alone has none in the last one.
    unsure = [i for i in useful if d_last[i] is None] if has_poles(body) else []
    while True:
        made = _Body(op, b)
        made.args([r.type.with_shape(r.type.shape[1:]) for r in rows])
        x_args = made.args([x.type.with_shape(x.type.shape[1:]) for x in xs])
        carried_args = made.args([v.type for v in inits])
        kept_args = made.args([given[i].type.with_shape(given[i].type.shape[1:]) for i in kept])
        given_args = made.args([d_given[i].type.with_shape(d_given[i].type.shape[1:]) for i in weights])
        d_args = made.args([inits[i].type for i in useful])
        summed = [i for i in shared_wanted if i not in apart and i not in rows_apart]
        sum_args = made.args([shared[i].type for i in summed])
        unsure_args = made.args([TensorType((), i1)] * len(unsure))
        told_args = made.args([TensorType((), i1)] * len(told))
        shared_args = made.args([v.type for v in shared])
        yielded = made.inline(body, [*x_args, *carried_args, *shared_args])
        seed_of: list[Value | None] = [None] * len(yielded)
        for i, arg in [*zip(useful, d_args, strict=True), *((count + i, a) for i, a in zip(weights, given_args, strict=True))]:
            seed_of[i] = arg
        arrives: list[Presence] = [ALWAYS] * len(yielded)
        for i, arg in zip(unsure, unsure_args, strict=True):
            arrives[i] = frozenset([(arg, True)])
        wrt = [*(carried_args[i] for i in useful), *(shared_args[i] for i in shared_wanted), *(x_args[i] for i in x_wanted)]
        grads, presences = made.gradients(yielded, seed_of, wrt, arrives)
        others = [i for i, presence in zip(useful, presences, strict=False) if presence is not ALWAYS and i not in unsure]
        behind = len(useful) + len(shared_wanted)
        d_next, d_shared_now, d_x = grads[: len(useful)], dict(zip(shared_wanted, grads[len(useful) : behind], strict=True)), grads[behind:]
        if has_poles(body):
            if not others:
                break
            unsure += others
            continue
        products = {i: _product_of_rows(d_shared_now[i], [*x_args, *carried_args], d_x) for i in summed}
        fresh = {i: found for i, found in products.items() if found}
        fresh_rows = {i for i in summed if i not in fresh and _summed_rows(d_shared_now[i], inits) is not None}
        if not fresh and not fresh_rows:
            break
        apart |= fresh
        rows_apart |= fresh_rows
    now = dict(zip([*useful, *(count + i for i in shared_wanted)], presences, strict=False))
    added = [made.b(Add, s, d_shared_now[i]) for i, s in zip(summed, sum_args, strict=True)]
    so_far = [
        *(made.is_there(now[i]) for i in unsure),
        *(made.b(LogicalOr, arg, made.is_there(now[count + i])) for i, arg in zip(told, told_args, strict=True)),
    ]
    rows_of = [_summed_rows(d_shared_now[i], inits) for i in sorted(rows_apart)]
    handed_on = [*d_next, *added, *so_far, *d_x, *(x for x in rows_of if x is not None)]
    for i, arg in zip(kept, kept_args, strict=True):
        yielded[count + i].replace_all_uses_with(arg)
        handed_on = [arg if value is yielded[count + i] else value for value in handed_on]
    region = made.finish(handed_on)
    starts = [
        *seeds,
        *(zeros_like(b, shared[i]) for i in summed),
        *(b(Full, value=there, dtype=i1) for there in [*(d_last[i] is not None for i in unsure), *(False for _ in told)]),
    ]
    results = (
        _tuple(
            b(
                Scan, [*rows, *xs, *handed, *(given[i] for i in kept), *(d_given[i] for i in weights)], starts, shared, steps=steps,
                reverse=not reverse, body=region,
            )  # fmt: skip
        )
        if wrt
        else ()
    )

    found: tuple[list[Any], list[Any], list[Any]] = ([None] * first, [None] * count, [None] * len(shared))
    parts = iter(results)
    for group, places in ((found[1], useful), (found[2], summed)):
        for i in places:
            group[i] = next(parts)
    for i in unsure:
        found[1][i] = Sometimes(found[1][i], frozenset([(next(parts), True)]))
    exposed = {i: next(parts) for i in told}
    for i in x_wanted:
        found[0][i] = next(parts)
    for i, (left, right) in apart.items():
        both = ([*xs, *handed][left], found[0][x_wanted[right]])
        found[2][i] = b(MatMul, *(_flat_rows(b, part) for part in both), transpose_x=True)
    for i in sorted(rows_apart):
        found[2][i] = b(nn.Sum, _flat_rows(b, next(parts)), axis=(0,), keepdims=True)
    for i, flag in exposed.items():
        found[2][i] = Sometimes(found[2][i], frozenset([(flag, True)]))
    return found


def _flat_rows(b: Emitter, x: Any) -> Any:
    """The rows of all steps, one behind the other."""
    steps, rows, columns = x.type.shape
    return b(Reshape, x, shape=(steps * rows, columns))


def _products(body: Region) -> set[Value]:
    """The values of a body that no step computes without a product, a branch or a loop."""
    found: set[Value] = set()
    for op in body.block.ops[:-1]:
        if isinstance(op, (MatMul, nn.Linear, nn.Conv)) or op.regions or any(v in found for v in op.operands):
            found.update(op.results)
    return found


def _summed_rows(gradient: Value, inits: Sequence[Any]) -> Value | None:
    """The rows [rows, columns] of which a gradient [1, columns] is the sum, if they are no larger than what steps hand on."""
    op = gradient.producer(nn.Sum)
    if op is None or op.axis != (0,) or not op.keepdims or op.x.type.rank != 2:
        return None
    x: Value = op.x
    return x if any(x.type.shape == init.type.shape for init in inits) else None


def _product_of_rows(gradient: Value, handed: Sequence[Value], given: Sequence[Value]) -> tuple[int, int] | None:
    """The numbers in `handed` and `given` of what a gradient is the product of, the first transposed: x^T y of the rows of a step. The sum
    of these over all steps is one such product, of all rows.
    """
    op = gradient.producer(MatMul)
    if op is None or not op.transpose_x or op.transpose_y or op.x.type.rank != 2 or op.y.type.rank != 2:
        return None
    left = [i for i, value in enumerate(handed) if value is op.x]
    right = [i for i, value in enumerate(given) if value is op.y]
    return (left[0], right[0]) if left and right else None


def _before(b: Emitter, init: Any, after: Any, steps: Dim, reverse: bool) -> Any:
    """A carried value before each step, by what it is at first and after each step."""
    first = b(Reshape, init, shape=(1, *init.type.shape))
    parts = [after, first] if reverse else [first, after]
    rest = init.type.shape
    start = int(reverse)
    return b(
        Slice, b(Concat, parts, axis=0), starts=(start, *(0 for _ in rest)), stops=(steps + start, *rest), strides=(1,) * (1 + len(rest))
    )


def _handed(
    b: Emitter, op: Any, body: Region, xs: list[Any], inits: list[Any], shared: list[Any], steps: Dim, reverse: bool, rows: Sequence[Any],
    given: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """What each step of a scan was handed, one row for each: what the steps give, if all carried values are among that, or by the same
    scan once more.
    """
    ends = body.block.terminator.operands
    carried, told = ends[: len(inits)], ends[len(inits) :]
    if given and all(any(value is end for end in told) for value in carried):
        places = [next(i for i, end in enumerate(told) if end is value) for value in carried]
        return [_before(b, init, given[i], steps, reverse) for init, i in zip(inits, places, strict=True)]
    made = _Body(op, b)
    made.args([r.type.with_shape(r.type.shape[1:]) for r in rows])
    args = made.args([*(x.type.with_shape(x.type.shape[1:]) for x in xs), *(v.type for v in inits), *(v.type for v in shared)])
    yielded = made.inline(body, args)
    region = made.finish([*yielded[: len(inits)], *args[len(xs) : len(xs) + len(inits)]])
    results = _tuple(b(Scan, [*rows, *xs], inits, shared, steps=steps, reverse=reverse, body=region))
    return list(results[len(inits) :])
