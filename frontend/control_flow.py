"""Branches and loops on tensors, for whoever runs Python functions: `branch`, `loop` and `steps`.

In eager mode they are Python's own `if`, `while` and `for`. While a function is traced they are one op each, `nn.if`, `nn.while` or
`nn.scan`, if what decides is a tensor that stands for a value, or a size that is free: the functions are run on stand-ins, each in a body
of its own.

- What a function reads from outside (arguments, parameters, tensors of the functions around) is captured by itself.
- What it writes to, in place or to the state of the random generator, is written where the op stands, as if Python had run it: of both
  branches by either, of a loop by every round.
- A function may be run several times while the program is made: one for each of the types that its tensors turn out to have. It must not do
  anything to Python's objects but by tensors.
- Both branches return the same structure (nested lists, tuples, dicts) of tensors. What is no tensor must be equal in both; numbers that
  are not become tensors.
- A variable that only one branch gives a value, or that has none before a loop which gives it one, is `UNDEFINED` there: it is zeros where
  the program goes the other way. Who must not read it then has to see to that.
- Sizes may differ between branches, and from round to round of a loop: what they are is known once the program has run. Element types and
  ranks may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from polyreme import dispatch, dtypes, views
from polyreme.dialects import nn as ops
from polyreme.dialects.control import differing_axes
from polyreme.ir.core import Value
from polyreme.ir.debug.notes import place_of
from polyreme.ir.diagnostics import Diagnostic, Location, caller_location
from polyreme.ir.dims import Dim, symbols
from polyreme.ir.types import ScalarType, TensorType, i1, i64
from polyreme.jit.capture.bodies import CapturedBody
from polyreme.jit.capture.uncertain import sharing_pairs
from polyreme.jit.structure import LEAF, Nested, Plain, Template, flatten, paths, unflatten
from polyreme.jit.traced import TraceError
from polyreme.tensor import Tensor

__all__ = ["UNDEFINED", "branch", "gathered_steps", "is_traced", "known_sizes", "loop", "on_trial", "steps"]



class _Undefined:
    """The value of a variable that has none yet."""

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED = _Undefined()

_NOT_NESTED_ALIKE = (
    "expected the body of a loop to return what it is given: "
    "tensors and numbers nested in the same lists, tuples and dicts, and all else the same"
)
# The ops that have bodies.
CONTROL = (ops.If, ops.While, ops.Scan)
# How often the body of a loop is run, at most, until the types of what it hands on are those that it is given.
MOST_RUNS = 8


def is_traced(value: Any) -> bool:
    """Whether `value` is a tensor whose contents are not known while the program is made, so that a condition on it has to be an op."""
    return isinstance(value, Tensor) and dispatch.active_trace() is not None


def branch(pred: Any, then_fn: Callable[[], Any] | None, else_fn: Callable[[], Any] | None) -> Any:
    """What `then_fn()` returns if `pred` holds and what `else_fn()` does otherwise; None for a function returns None.

    `pred` is a bool, or a tensor of one element, which a cast makes a bool. In a traced function, for a tensor, both functions are run on
    stand-ins and become the bodies of one `nn.if`. `TraceError` (at the user's line) where they return different structures, or values of
    other element types or ranks.
    """
    first, second = (_nothing if fn is None else fn for fn in (then_fn, else_fn))
    if not is_traced(pred):
        return (first if bool(pred) else second)()
    recorder = _recorder()
    pred = _predicate(pred, "the condition of a branch")
    bodies, results = [CapturedBody(), CapturedBody()], []
    shared: set[int] = set()
    for body, fn in zip(bodies, (first, second), strict=True):
        with recorder.inside(body):
            mark = recorder.made_by_now()
            results.append(fn())
            shared.update(id(t) for t in recorder.not_new(_tensors_in(results[-1]), mark))
    template, pairs = _merge(results, "the value of the branch")
    written = {id(t): t for body in bodies for t in body.written}
    stops = []
    for body, leaves in zip(bodies, zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
        with recorder.inside(body):
            tensors = [_as_tensor(leaf, like) for leaf, like in zip(leaves, _likes(pairs), strict=True)]
            stops.append(recorder.end_body([*tensors, *written.values()]))
    _check_alike(bodies, list(paths(template, "result")) + [f"the tensor '{t.name}'" for t in written.values()])
    captured = {value: tensor for body in bodies for value, (_, tensor) in body.captures.items()}
    for body in bodies:
        captured |= {value: tensor for value, (_, tensor) in body.captures.items() if not tensor.stop_gradient}
    regions = [body.region(list(captured)) for body in bodies]
    sizes = tuple(recorder.fresh_size() for _ in differing_axes([v.type for v in captured], *regions))
    made = _tuple(dispatch.call(ops.If, pred, list(captured.values()), sizes=sizes, then_body=regions[0], else_body=regions[1]))
    for result, *needs_none in zip(made, *stops, strict=True):
        _stop(result, all(needs_none))
    _write(recorder, written.values(), made[len(pairs) :])
    for result, pair in zip(made, pairs, strict=False):
        recorder.note_choice(result, [value for value in pair if id(value) in shared])
    for values in zip(*pairs, strict=True):
        _note_pairs(recorder, made, values)
    return unflatten(template, iter(made[: len(pairs)]))


def loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Sequence[Any]) -> list[Any]:
    """The values `carried` after `while cond_fn(*carried): carried = body_fn(*carried)`.

    Each of `carried` is a tensor, a number, or a nested structure of them; `body_fn` returns a list or tuple like `carried` (or, for one
    value, the value). In a traced function Python runs the loop as long as the condition is no tensor; from there on it is one `nn.while`:
    numbers become tensors, and both functions are run on stand-ins. A size of a carried value that changes from round to round gets a name.
    `TraceError` (at the user's line) where the body returns another structure, element type or rank than it is given, or the condition
    writes to a tensor.
    """
    values = list(carried)
    while True:
        pred = on_trial(partial(cond_fn, *values))
        if is_traced(pred):
            return _traced_loop(cond_fn, body_fn, values)
        if not bool(pred):
            return values
        values = _as_carried(body_fn(*values), len(values))


def steps(
    body_fn: Callable[..., Any], carried: Sequence[Any], xs: Sequence[Tensor] = (), count: Dim | None = None, reverse: bool = False
) -> list[Any]:
    """The values `carried` after `for t in range(count): carried = body_fn(*(x[t] for x in xs), *carried)`; with `reverse` the last step
    comes first.

    `count` is by default the first size of `xs`, which all of them have; without `xs` it has to be given. `carried` is as `loop` has it,
    but no value may change its sizes: use `loop` for those. In a traced function it is one `nn.scan`, whose code does not grow with the
    number of steps, also if that is known: whoever wants steps written one after the other calls `body_fn` himself. Its gradients run in
    one native call, where those of a `loop` need the host to know how many rounds there were.
    """
    if count is None:
        if not xs:
            raise ValueError("steps expected tensors to go through, or the number of steps, but got neither")
        count = xs[0].type.shape[0]
    values = list(carried)
    if dispatch.active_trace() is not None:
        return _traced_steps(body_fn, values, list(xs), count, reverse)
    order = range(int(count))
    for t in reversed(order) if reverse else order:
        values = _as_carried(body_fn(*(x[t] for x in xs), *values), len(values))
    return values


def gathered_steps(
    body_fn: Callable[..., tuple[list[Tensor], list[Tensor]]], carried: Sequence[Tensor], xs: Sequence[Tensor], reverse: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """As `steps`, of a body that also gives tensors in each step: what is carried at the end, and the tensors of all steps, stacked in the
    order of the rows of `xs`.
    """
    count = xs[0].type.shape[0]
    if dispatch.active_trace() is not None:
        made = _steps_of_leaves(body_fn, carried, list(xs), count, reverse, [f"carried[{i}]" for i in range(len(carried))], gathers=True)
        return made[: len(carried)], made[len(carried) :]
    values, rows = list(carried), []
    order = range(int(count))
    for t in reversed(order) if reverse else order:
        values, row = body_fn(*(x[t] for x in xs), *values)
        rows.append(row)
    from polyreme.math.manipulation import stack

    return values, [stack(list(column)) for column in zip(*(rows[::-1] if reverse else rows), strict=True)]


def _nothing() -> None:
    return None


def _tuple(made: Any) -> tuple[Tensor, ...]:
    return made if isinstance(made, tuple) else (made,)


def _recorder() -> Any:
    """What records bodies: the trace under way, or in a static Program one for the bodies of the op that is being made."""
    recorder: Any = dispatch.active_trace()
    return recorder if hasattr(recorder, "inside") else recorder.bodies()


def _predicate(pred: Tensor, what: str) -> Tensor:
    """A condition as one bool."""
    kind = pred.type
    if kind.elements != 1:
        raise TraceError(
            f"expected {what} to be one element but got a tensor of shape {list(kind.shape)}; reduce it with paddle.all or paddle.any",
            caller_location(),
        )
    return pred if kind.dtype == i1 else dispatch.call(ops.Cast, pred, dtype=i1)


def _stop(result: Tensor, needs_none: bool) -> None:
    if needs_none:
        result.stop_gradient = True
        result._node = None


def _write(recorder: Any, written: Iterable[Tensor], results: Iterable[Tensor]) -> None:
    """Let tensors that bodies wrote to have what the op says they are then. Leaves that need gradients stay leaves: only their contents can
    have been written.
    """
    for tensor, result in zip(written, results, strict=True):
        dispatch.assign(tensor, recorder.contents(result) if views.is_gradient_leaf(tensor) else result)


# --- leaves


def _tensors_in(value: Any) -> list[Tensor]:
    found: list[Any] = []
    flatten(value, found, _is_leaf)
    return found


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor)


def _stands_in(value: Any) -> bool:
    """Whether what is no tensor becomes one where the other side is."""
    return _is_number(value) or value is UNDEFINED


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def _merge(results: Sequence[Any], what: str) -> tuple[Template, list[tuple[Any, Any]]]:
    """The structure that both results have, and the pairs of leaves: what is a tensor in one of them, and numbers that differ."""
    pairs: list[tuple[Any, Any]] = []

    def visit(a: Any, b: Any, path: str) -> Template:
        if _is_leaf(a) or _is_leaf(b):
            if all(_is_leaf(v) or _stands_in(v) for v in (a, b)):
                pairs.append((a, b))
                return LEAF
        elif isinstance(a, (list, tuple, dict)) and type(a) is type(b) and len(a) == len(b):
            if not isinstance(a, dict):
                return Nested(type(a), (), tuple(visit(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True))))
            if list(a) == list(b):
                return Nested(type(a), tuple(a), tuple(visit(a[k], b[k], f"{path}[{k!r}]") for k in a))
        elif Plain(a) == Plain(b):
            return Plain(a)
        elif _stands_in(a) and _stands_in(b):
            pairs.append((a, b))
            return LEAF
        raise TraceError(
            f"expected both branches to give values of one kind as {path} but the first one gives {_kind(a)} and the second one "
            f"{_kind(b)}, and which of them runs is known only when the program "
            "does; give tensors of one shape and dtype in both, or the same value", caller_location(),
        )  # fmt: skip

    return visit(results[0], results[1], what), pairs


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor ({value.type})"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r}" if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def _likes(pairs: Sequence[tuple[Any, Any]]) -> list[TensorType]:
    """The type that numbers beside a tensor take, and two numbers that differ."""
    found = []
    for pair in pairs:
        tensors = [v for v in pair if isinstance(v, Tensor)]
        if tensors:
            found.append(tensors[0].type)
        else:
            kinds = [_number_type(v) for v in pair if v is not UNDEFINED]
            found.append(TensorType((), max(kinds, key=lambda d: (d.kind == "f", d.kind == "i"))))
    return found


def _number_type(value: Any) -> ScalarType:
    if isinstance(value, (bool, np.bool_)):
        return i1
    return i64 if isinstance(value, (int, np.integer)) else dtypes.default_dtype().scalar


def _as_tensor(leaf: Any, like: TensorType) -> Tensor:
    """A leaf as a tensor: a number has the type of what it stands beside, unless that has more than one element."""
    if isinstance(leaf, Tensor):
        return leaf
    if leaf is UNDEFINED:
        made = dispatch.full([d if _is_known(d) else 0 for d in like.shape], 0, like.dtype)
        _recorder().unset.add(made._value)
        return made
    shape = like.shape if like.elements == 1 else ()
    value = leaf.item() if isinstance(leaf, np.generic) else leaf
    if not _keeps_its_meaning(value, like.dtype):
        kind = dtypes.of_scalar(like.dtype).name
        why = (
            f"expected a number that is the same as a tensor of {kind} but got {value!r}, "
            f"where a branch or loop gives such a tensor otherwise; cast that, or give a tensor of {kind} here"
        )
        raise TraceError(why, caller_location())
    return dispatch.full(shape, bool(value) if like.dtype == i1 else value, like.dtype)


def _keeps_its_meaning(value: Any, dtype: ScalarType) -> bool:
    """Whether a number is what it was as one of `dtype`: of no lower kind, within its range, and a whole number or one of a short dtype
    exactly. (Floats of Python's are rounded, as ever.)
    """
    if _number_type(value).kind == "f":
        return dtype.kind in "fc" and (dtype.bits >= 32 or not math.isfinite(value) or _rounded(value, dtype) == value)
    if dtype.kind in "iu":
        info = np.iinfo(dtype.np)
        return bool(info.min <= value <= info.max)
    return isinstance(value, bool) if dtype.kind == "b" else dtype.kind == "c" or _rounded(value, dtype) == value


def _rounded(value: float, dtype: ScalarType) -> float:
    with np.errstate(over="ignore"):
        return float(np.asarray(float(value), dtype.np))


def _is_known(size: Dim) -> bool:
    """Whether a size is a number, or one of those that are known around the bodies that are recorded."""
    return isinstance(size, int) or symbols(size) <= _recorder().known_sizes()


def known_sizes() -> frozenset[str]:
    """Names of the sizes that are known around the bodies that are recorded."""
    found: frozenset[str] = _recorder().known_sizes()
    return found


def _check_alike(bodies: Sequence[CapturedBody], names: Sequence[str]) -> None:
    """That both bodies yield values of one element type and rank."""
    first, second = (body.block.terminator.operands for body in bodies)
    for a, b, name in zip(first, second, names, strict=True):
        if a.type.dtype != b.type.dtype or a.type.rank != b.type.rank:
            notes = [
                Diagnostic(f"the {which} branch makes {v.type} here", place)
                for which, v in (("first", a), ("second", b))
                if (place := place_of(v))
            ]
            why = (
                f"expected both branches to give tensors of one dtype and rank as {name} "
                f"but the first one gives {a.type} and the second one {b.type}; cast or reshape one of them"
            )
            raise TraceError(Diagnostic(why, place_of(b) or place_of(a) or caller_location(), tuple(notes)))


# --- loops


def _as_carried(made: Any, count: int) -> list[Any]:
    """What a body returns, as a list of as many values as it is given."""
    values = list(made) if isinstance(made, (list, tuple)) and not (count == 1 and len(made) != 1) else [made]
    if len(values) != count:
        raise ValueError(f"expected the body of the loop to return {count} values, as it is given, but it returned {len(values)}")
    return values


def on_trial(function: Callable[[], Any]) -> Any:
    """What a function gives: in a traced function without leaving anything in the program."""
    if dispatch.active_trace() is None:
        return function()
    recorder = _recorder()
    body = CapturedBody()
    with recorder.inside(body):
        made = function()
    recorder.give_up(body)
    return made


def _traced_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: list[Any]) -> list[Any]:
    leaves: list[Any] = []
    template = flatten(carried, leaves, lambda v: _is_leaf(v) or _stands_in(v))
    if any(leaf is UNDEFINED for leaf in leaves):
        carried = _defined(_recorder(), body_fn, carried, leaves, template)
        leaves = []
        template = flatten(carried, leaves, lambda v: _is_leaf(v) or _is_number(v))

    def condition(*values: Any) -> Any:
        return cond_fn(*unflatten(template, iter(values)))

    made = _loop_of_leaves(condition, _of_leaves(body_fn, template, len(carried)), leaves, list(paths(template, "carried")))
    return list(unflatten(template, iter(made)))


def _of_leaves(body_fn: Callable[..., Any], template: Template, count: int, rows: int = 0) -> Callable[..., list[Any]]:
    """The body of a loop as a function of `rows` tensors, and of the leaves in the `count` values that it carries, which are nested as in
    `template`.
    """

    def body(*values: Any) -> list[Any]:
        made = _as_carried(body_fn(*values[:rows], *unflatten(template, iter(values[rows:]))), count)
        ends: list[Any] = []
        if flatten(made, ends, lambda v: _is_leaf(v) or _is_number(v)) != template:
            raise TraceError(_NOT_NESTED_ALIKE, caller_location())
        return ends

    return body


class _Kept:
    """Leaves of a loop that its body hands on as it is given them. They are no carried values but tensors around the loop, which it reads
    and writes as such.
    """

    def __init__(self, leaves: Sequence[Any], given: Sequence[Any], ends: Sequence[Any]):
        self.leaves = leaves
        self.kept = [end is value and _is_leaf(leaf) for leaf, value, end in zip(leaves, given, ends, strict=True)]

    def __bool__(self) -> bool:
        return any(self.kept)

    def changing(self, values: Sequence[Any]) -> list[Any]:
        """Of values for all leaves, those for leaves that change."""
        return [value for value, kept in zip(values, self.kept, strict=True) if not kept]

    def all(self, values: Iterable[Any]) -> list[Any]:
        """Values for all leaves, of those for the leaves that change."""
        changing = iter(values)
        return [leaf if kept else next(changing) for leaf, kept in zip(self.leaves, self.kept, strict=True)]

    def around(self, function: Callable[..., Any], rows: int = 0) -> Callable[..., Any]:
        """The condition of the loop as a function of what changes."""
        return lambda *values: function(*values[:rows], *self.all(values[rows:]))

    def around_body(self, body: Callable[..., list[Any]], rows: int = 0) -> Callable[..., list[Any]]:
        """Its body as one."""
        return lambda *values: self.changing(self.around(body, rows)(*values))


def _note_pairs(recorder: Any, results: Sequence[Tensor], values: Sequence[Any]) -> None:
    """Of results in whose places a body gave tensors that share contents, Python would have such as do."""
    for i, j in sharing_pairs(values):
        recorder.note_choice(results[i], [results[j]])


def _note_results(recorder: Any, results: Sequence[Tensor], leaves: Sequence[Any], ends: Sequence[Any], handed: Sequence[Any]) -> None:
    """What a loop gives is what it began with, where it does not run, and may be something that its body handed on."""
    for result, leaf, end in zip(results, leaves, handed, strict=True):
        recorder.note_choice(result, [value for value in (leaf, end) if _is_leaf(value)])
    _note_pairs(recorder, results, ends)


def _loop_of_leaves(
    cond_fn: Callable[..., Any], body_fn: Callable[..., list[Any]], leaves: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    recorder = _recorder()
    tensors = [leaf if isinstance(leaf, Tensor) else _as_tensor(leaf, TensorType((), _number_type(leaf))) for leaf in leaves]
    for tensor in tensors:
        recorder.value_of(tensor)  # which refuses what must not be read any more
    written: list[Tensor] = []
    stops: list[bool] = [t.stop_gradient for t in tensors]
    types: list[TensorType] = [t.type for t in tensors]
    changing: dict[tuple[Dim, Dim], Dim] = {}
    known = recorder.uncertain
    for _ in range(MOST_RUNS):
        recorder.uncertain = known.copy()
        given = [*tensors, *written]
        bodies = [CapturedBody(types, [v.name for v in _values(given)]) for _ in range(2)]
        condition, body = bodies
        body.condition = condition
        with recorder.doubting() as doubts, recorder.inside(condition):
            pred = cond_fn(*_entered(recorder, condition, stops, written, leaves))
            pred = _predicate(pred, "the condition of a loop") if isinstance(pred, Tensor) else dispatch.full((), bool(pred), i1)
            if any(all(t is not w for w in written) for t in condition.written):
                raise TraceError(
                    "expected the condition of a loop to write to no tensor, such as the state of the random generator; do it in the body",
                    caller_location(),
                )
            recorder.end_body([pred])
        with recorder.doubting() as others, recorder.inside(body):
            inside = _entered(recorder, body, stops, written, leaves)
            mark = recorder.made_by_now()
            ends = body_fn(*inside)
            handed = _handed(recorder, ends, mark)
            recorder.check_rounds(body, inside, ends, handed)
            kept = _Kept(leaves, inside, ends)
            new = [t for t in body.written if all(t is not w for w in written)]
            if not new and not kept:
                needs_none = recorder.end_body([*map(_as_tensor, ends, types), *written])
        if kept:
            for b in bodies:
                recorder.give_up(b)
            recorder.uncertain = known
            return kept.all(_loop_of_leaves(kept.around(cond_fn), kept.around_body(body_fn), kept.changing(leaves), kept.changing(names)))
        recorder.settle_doubts([*doubts, *others])
        again = bool(new)
        if new:
            written += new
            types += [t.type for t in new]
            stops += [t.stop_gradient for t in new]
        else:
            yielded: list[TensorType] = [v.type for v in body.block.terminator.operands]
            types, grew = _widened(recorder, types, yielded, [*names, *(f"the tensor '{t.name}'" for t in written)], body, changing)
            wider = [a and b for a, b in zip(stops, needs_none, strict=True)]
            again = grew or wider != stops
            stops = wider
        if not again:
            break
        for b in bodies:
            recorder.give_up(b)
    else:
        raise TraceError(
            "expected what the body of a loop hands on to come to types that it is given, but these kept changing; give the carried "
            "tensors the shapes that they have in the loop",
            caller_location(),
        )
    captured = {value: tensor for b in bodies for value, (_, tensor) in b.captures.items()}
    for b in bodies:
        captured |= {value: tensor for value, (_, tensor) in b.captures.items() if not tensor.stop_gradient}
    regions = [b.region(list(captured)) for b in bodies]
    with recorder.in_front():
        results = _tuple(dispatch.call(ops.While, [*tensors, *written], list(captured.values()), condition=regions[0], body=regions[1]))
    recorder.settle_sizes(changing.values())
    for result, needs in zip(results, stops, strict=False):
        _stop(result, needs)
    _write(recorder, written, results[len(tensors) : len(tensors) + len(written)])
    _note_results(recorder, results[: len(tensors)], leaves, ends, handed)
    return list(results[: len(tensors)])


def _handed(recorder: Any, ends: Sequence[Any], mark: int) -> list[Any]:
    """Of what a body hands on, what it has not made itself since the mark; None in place of the rest."""
    shared = {id(t) for t in recorder.not_new(filter(_is_leaf, ends), mark)}
    return [end if id(end) in shared else None for end in ends]


def _defined(
    recorder: Any,
    body_fn: Callable[..., Any],
    carried: list[Any],
    leaves: Sequence[Any],
    template: Template,
    body: CapturedBody | None = None,
) -> list[Any]:
    """The carried values with zeros in place of those that have no value yet, of the types that the body hands on."""
    body = body or CapturedBody()
    with recorder.inside(body):
        ends: list[Any] = []
        made = flatten(_as_carried(body_fn(*carried), len(carried)), ends, lambda v: _is_leaf(v) or _stands_in(v))
    recorder.give_up(body)
    if made != template:
        raise TraceError(_NOT_NESTED_ALIKE, caller_location())
    first = []
    for leaf, end in zip(leaves, ends, strict=True):
        if leaf is not UNDEFINED:
            first.append(leaf)
        elif end is UNDEFINED:
            raise TraceError(
                "expected the body of a loop to give every carried variable a value that has none before the loop", caller_location()
            )
        else:
            first.append(_as_tensor(UNDEFINED, end.type if isinstance(end, Tensor) else TensorType((), _number_type(end))))
    return list(unflatten(template, iter(first)))


def _entered(recorder: Any, body: CapturedBody, stops: Sequence[bool], written: Sequence[Tensor], firsts: Sequence[Any]) -> list[Tensor]:
    """What stands in `body`, which was just entered, for `firsts`, what it is given in the first round; tensors that it writes to stand for
    theirs.
    """
    stand_ins: list[Tensor] = recorder.given(body, stops)
    count = len(stand_ins) - len(written)
    for tensor, stand_in in zip(written, stand_ins[count:], strict=True):
        recorder.stand_for(tensor, stand_in)
    for first, stand_in in zip(firsts, stand_ins[:count], strict=True):
        if _is_leaf(first):
            recorder.note_given(stand_in, first)
    return stand_ins[:count]


def _values(tensors: Sequence[Tensor]) -> list[Any]:
    """What tensors stand for, as far as it has a name."""
    return [t._value if isinstance(t._value, Value) else t for t in tensors]


def _widened(
    recorder: Any,
    types: Sequence[TensorType],
    yielded: Sequence[TensorType],
    names: Sequence[str],
    body: CapturedBody,
    changing: dict[tuple[Dim, Dim], Dim],
) -> tuple[list[TensorType], bool]:
    """The types of carried values with names in place of sizes that the body hands on otherwise; whether there are new ones."""
    known = set(changing.values())
    found, grew = [], False
    for before, after, name, value in zip(types, yielded, names, body.block.terminator.operands, strict=True):
        if before.dtype != after.dtype or before.rank != after.rank:
            place: Location = place_of(value) or caller_location()
            raise TraceError(
                f"expected {name} to keep its dtype and rank from round to round of the loop but it is {before} at the start of a round "
                f"and {after} at its end; cast or reshape it",
                place,
            )
        shape = []
        for a, b in zip(before.shape, after.shape, strict=True):
            if a != b and a not in known:
                if (a, b) not in changing:
                    changing[a, b] = recorder.changing_size()
                a, grew = changing[a, b], True
            shape.append(a)
        found.append(before.with_shape(tuple(shape)))
    return found, grew


# --- steps


def _traced_steps(body_fn: Callable[..., Any], carried: list[Any], xs: list[Tensor], count: Dim, reverse: bool) -> list[Any]:
    recorder = _recorder()
    leaves: list[Any] = []
    template = flatten(carried, leaves, lambda v: _is_leaf(v) or _stands_in(v))
    rows = [x.type.with_shape(x.type.shape[1:]) for x in xs]
    if any(leaf is UNDEFINED for leaf in leaves):
        first = CapturedBody(rows)

        def on_rows(*values: Any) -> Any:
            return body_fn(*recorder.given(first, [x.stop_gradient for x in xs]), *values)

        carried = _defined(recorder, on_rows, carried, leaves, template, first)
        leaves = []
        template = flatten(carried, leaves, lambda v: _is_leaf(v) or _is_number(v))
    body = _of_leaves(body_fn, template, len(carried), len(xs))
    return list(unflatten(template, iter(_steps_of_leaves(body, leaves, xs, count, reverse, list(paths(template, "carried"))))))


def _steps_of_leaves(
    body_fn: Callable[..., Any],
    leaves: Sequence[Any],
    xs: list[Tensor],
    count: Dim,
    reverse: bool,
    names: Sequence[str],
    gathers: bool = False,
) -> list[Any]:
    """What is carried at the end; where the body `gathers`, giving tensors of each step besides, all of these, too."""
    recorder = _recorder()
    rows = [x.type.with_shape(x.type.shape[1:]) for x in xs]
    tensors = [leaf if isinstance(leaf, Tensor) else _as_tensor(leaf, TensorType((), _number_type(leaf))) for leaf in leaves]
    for tensor in (*xs, *tensors):
        recorder.value_of(tensor)
    types = [t.type for t in tensors]
    written: list[Tensor] = []
    stops = [t.stop_gradient for t in tensors]
    known = recorder.uncertain
    for _ in range(MOST_RUNS):
        recorder.uncertain = known.copy()
        given = [*tensors, *written]
        body = CapturedBody([*rows, *types], [v.name for v in _values([*xs, *given])])
        with recorder.doubting() as doubts, recorder.inside(body):
            inside = _entered(recorder, body, [*(x.stop_gradient for x in xs), *stops], written, [*xs, *leaves])
            mark = recorder.made_by_now()
            ends, rows_made = body_fn(*inside) if gathers else (body_fn(*inside), [])
            handed = _handed(recorder, ends, mark)
            recorder.check_rounds(body, inside, ends, handed)
            kept = None if gathers else _Kept(leaves, inside[len(xs) :], ends)
            new = [t for t in body.written if all(t is not w for w in written)]
            if not new and not kept:
                needs_none = recorder.end_body([*map(_as_tensor, ends, types), *written, *rows_made])
        if kept:
            recorder.give_up(body)
            recorder.uncertain = known
            return kept.all(
                _steps_of_leaves(kept.around_body(body_fn, len(xs)), kept.changing(leaves), xs, count, reverse, kept.changing(names))
            )
        recorder.settle_doubts(doubts)
        if new:
            written += new
            types += [t.type for t in new]
            stops += [t.stop_gradient for t in new]
        else:
            for before, value, name in zip(
                types, body.block.terminator.operands[: len(types)], [*names, *(f"the tensor '{t.name}'" for t in written)], strict=True
            ):
                if value.type != before:
                    why = (
                        f"expected {name} to keep its dtype and shape from step to step "
                        f"but it is {before} at the start of a step and {value.type} at its end; cast or reshape it"
                    )
                    raise TraceError(why, place_of(value) or caller_location())
            wider = [a and b for a, b in zip(stops, needs_none, strict=False)]
            if wider == stops:
                break
            stops = wider
        recorder.give_up(body)
    captured = {value: tensor for value, (_, tensor) in body.captures.items()}
    region = body.region(list(captured))
    with recorder.in_front():
        results = _tuple(
            dispatch.call(ops.Scan, xs, [*tensors, *written], list(captured.values()), steps=count, reverse=reverse, body=region)
        )
    for result, needs in zip(results, [*stops, *needs_none[len(stops) :]], strict=True):
        _stop(result, needs)
    _write(recorder, written, results[len(tensors) : len(types)])
    _note_results(recorder, results[: len(tensors)], leaves, ends, handed)
    return [*results[: len(tensors)], *results[len(types) :]]
