"""Finding attention, softmax(maps(Q K)) V, among tensor ops.

    s = contract(q, k)                      scores; by views and elementwise steps (a scale, masks) the operand of
    e = exp(s - max(s));  p = e / sum(e)    the softmax along the keys; by views an operand of
    o = contract(p, v)                      and, by views, the result

`group_attention.py` gathers the ops into a group. Its builder, `flash_attention.py`, never has more than a block of the scores in memory.
Keys and values that a concat joins for this attention alone are taken as they are before it.

The letters of both products become one alphabet: `query`, `key`, `depth` (summed over for a score) and `width` (of a value) are one letter
each. All others are `batch` letters. Letters of size 1 may be missing anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from polyreme.dialects import tensor
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, element_type, f32, f64
from polyreme.lowering.analysis.access import Access, row_major, trace, trace_parts
from polyreme.lowering.analysis.half_floats import HALVES
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.cost import OPS_OF_A_TRIP

VIEWS = (tensor.Reshape, tensor.Transpose)
# Ops that make values from nothing but sizes and numbers, which a group computes where it needs them.
_FROM_NOTHING = (tensor.Full, tensor.DimValue, tensor.Iota, tensor.Map, tensor.Broadcast, tensor.Reshape, tensor.Transpose, tensor.Slice)
# Elements of a query, and of a value, that a kernel has room for.
MOST_DEPTH = 256
# Pieces of keys that a kernel reads where they are.
_MOST_PARTS = 3
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class AttentionPart:
    """`count` neighbouring keys and their values, from number `start` on: where they are in memory, their own letter counted from 0."""

    keys: Access
    values: Access
    start: Dim
    count: Dim


@dataclass(frozen=True)
class Attention:
    """An attention: see the module. `sizes` has all letters; `axes` the letter of each axis of the softmax's operand `masked`, "" for size
    1.

    `queries` is the first product's operand, one letter of `query_letters` per axis; `parts` say where keys and values are in memory: in
    several pieces when a cache is read in front of what is new. Element (batch, query, width) of `result` stands at the sum of
    `strides[letter] * letter`. `ops` are all ops from memory to the result.
    """

    first: tensor.Contract
    second: tensor.Contract
    sizes: dict[str, Dim]
    batch: tuple[str, ...]
    query: str
    key: str
    depth: str
    width: str
    queries: Value
    query_letters: str
    parts: tuple[AttentionPart, ...]
    masked: Value
    axes: tuple[str, ...]
    result: Value
    strides: dict[str, Dim]
    ops: frozenset[Op]

    @property
    def dtype(self) -> ScalarType:
        return element_type(self.result.type)

    def steps(self) -> Iterator[tensor.Map]:
        """The elementwise ops between the scores and the softmax, the last one first."""
        value = self.masked
        while value is not self.first.result:
            op = value.producer()
            assert op is not None
            if isinstance(op, tensor.Map):
                yield op
            value = _towards(op, self.first)

    def room(self, letter: str) -> int:
        """The size of `depth` or `width`, which is known."""
        size = self.sizes[letter]
        assert isinstance(size, int)
        return size

    def side_operands(self, op: tensor.Map) -> list[Value]:
        """The operands of a step that are not made of the scores."""
        inner = _towards(op, self.first)
        return [x for x in op.xs if x is not inner]

    def access_of(self, value: Value) -> Access | None:
        """Where an operand beside the scores is in memory, by letters; None when it is computed."""
        if len(shape_of(value)) != len(self.axes):
            return None
        letters = [c if n != 1 else "" for c, n in zip(self.axes, shape_of(value), strict=True)]
        spare = iter(c for c in _ALPHABET if c not in self.sizes)
        named = "".join(c or next(spare) for c in letters)
        access = trace(value, named)
        if not isinstance(access.source, BlockArgument):
            return None
        return Access(access.source, access.base, {c: s for c, s in access.strides.items() if c in self.sizes})

    def last_key(self) -> Dim | None:
        """`n` when query i counts key j only if j <= i + n, so that later keys need not be looked at: their scores are -inf whatever they
        are. None without such a mask.
        """
        found = self.limit()
        return None if found is None else found[0]

    def limit(self) -> tuple[Dim, tensor.Map] | None:
        """`last_key`, and the select that gives -inf to later keys."""
        for op in self.steps():
            if shape_of(op.result) != shape_of(self.masked):
                return None
            # From here to the softmax there are only sums, and casts, which leave -inf as it is.
            for x in self.side_operands(op):
                select = through_views(x).producer(tensor.Map) if op.fn == "add" else None
                found = self._selected(select, None) if select is not None and select.fn == "select" else None
                if found is not None:
                    assert select is not None
                    return found, select
            if op.fn == "select":
                found = self._selected(op, _towards(op, self.first))
                return None if found is None else (found, op)
            if op.fn not in ("add", "cast"):
                return None
        return None

    def _selected(self, op: tensor.Map, scores: Value | None) -> Dim | None:
        """The limit where a select gives -inf to later keys; its other side is `scores`, or any number."""
        condition, yes, no = op.xs
        test = through_views(condition).producer(tensor.Map)
        if test is None or test.fn not in ("gt", "ge", "lt", "le"):
            return None
        left, right = (self._position(x) for x in test.xs)
        if left is None or right is None:
            return None
        const, terms = left[0] - right[0], {c: left[1].get(c, 0) - right[1].get(c, 0) for c in {*left[1], *right[1]}}
        fn = test.fn
        if terms.get(self.key) == -1:
            const, terms, fn = -const, {c: -v for c, v in terms.items()}, {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}[fn]
        if {c: v for c, v in terms.items() if v != 0} != {self.key: 1, self.query: -1}:
            return None
        # key - query + const  fn  0
        masked = yes if fn in ("gt", "ge") else no
        if _number(masked) != -math.inf or (scores is not None and (no if masked is yes else yes) is not scores):
            return None
        return -const if fn in ("gt", "le") else -const - 1

    def _position(self, value: Value) -> tuple[Dim, dict[str, int]] | None:
        """`value` as a number plus places along letters, when it is one."""
        op = value.producer()
        if isinstance(op, tensor.Full) and isinstance(op.value, int):
            return op.value, {}
        if isinstance(op, tensor.DimValue):
            return op.size, {}
        if isinstance(op, tensor.Iota) and len(op.shape) <= len(self.axes):
            letter = self.axes[op.axis + len(self.axes) - len(op.shape)]
            return (0, {letter: 1}) if letter else None
        if isinstance(op, (tensor.Broadcast, tensor.Reshape)) and _only_lifts(op):
            return self._position(op.x)
        if isinstance(op, tensor.Map) and op.fn == "cast" and element_type(op.result.type).is_integer:
            return self._position(op.xs[0])
        if isinstance(op, tensor.Map) and op.fn in ("add", "sub"):
            a, b = (self._position(x) for x in op.xs)
            sign = 1 if op.fn == "add" else -1
            return (
                None
                if a is None or b is None
                else (a[0] + sign * b[0], {c: a[1].get(c, 0) + sign * b[1].get(c, 0) for c in {*a[1], *b[1]}})
            )
        return None


def _number(value: Value) -> float | None:
    op = through_views(value).producer()
    if isinstance(op, tensor.Full):
        return float(op.value)
    if isinstance(op, tensor.Constant) and op.value.size == 1:
        return float(op.value.array.reshape(())[()])
    return None


def through_views(value: Value) -> Value:
    op = value.producer()
    while isinstance(op, (tensor.Broadcast, tensor.Reshape)) and _only_lifts(op):
        value = op.x
        op = value.producer()
    return value


def _only_lifts(op: tensor.Broadcast | tensor.Reshape) -> bool:
    """Whether the result's last axes are the operand's, so that axes keep their places counted from the end."""
    given, made = shape_of(op.x), shape_of(op.result)
    return len(given) <= len(made) and all(n in (1, m) for n, m in zip(given, made[len(made) - len(given) :], strict=True))


def _towards(op: Op, contract: Op) -> Value:
    """The operand of an elementwise op or view by which it depends on the contract."""
    return next(v for v in op.operands if _leads_to(v, contract))


def _leads_to(value: Value, contract: Op) -> bool:
    op = value.producer()
    while op is not None and op is not contract:
        if isinstance(op, VIEWS):
            op = op.x.producer()
        elif isinstance(op, tensor.Map):
            same = [x for x in op.xs if shape_of(x) == shape_of(op.result)]
            return any(_leads_to(x, contract) for x in same)
        else:
            return False
    return op is contract


def axes_of(value: Value, origin: Value, letters: Sequence[str], sizes: dict[str, Dim]) -> list[str] | None:
    """The letters of each axis of `value`, several for axes that were joined, none for size 1; it follows from `origin`, which has a letter
    per axis, by transposes, reshapes and elementwise ops. None when an axis was split.
    """
    if value is origin:
        return [c if sizes[c] != 1 else "" for c in letters]
    op = value.producer()
    if isinstance(op, tensor.Transpose):
        inner = axes_of(op.x, origin, letters, sizes)
        return None if inner is None else [inner[p] for p in op.perm]
    if isinstance(op, tensor.Reshape):
        inner = axes_of(op.x, origin, letters, sizes)
        return None if inner is None else _regrouped("".join(inner), shape_of(value), sizes)
    if isinstance(op, tensor.Map):
        for x in op.xs:
            if shape_of(x) == shape_of(value) and (inner := axes_of(x, origin, letters, sizes)) is not None:
                return inner
    return None


def _regrouped(letters: str, shape: tuple[Dim, ...], sizes: dict[str, Dim]) -> list[str] | None:
    """Row-major letters dealt out to axes of these sizes."""
    left, made = list(letters), []
    for size in shape:
        joined: Dim = 1
        here = ""
        while joined != size:
            if not left:
                return None
            joined = joined * sizes[left[0]]
            here += left.pop(0)
        made.append(here)
    return made if not left else None


def find_attention(second: tensor.Contract, result: Value) -> Attention | None:
    """The attention whose second product is `second` and whose result, by views, is `result`; None when it is none, or not of floats of 16
    to 64 bits. Weights may be rounded to 16 bits for a product of these.
    """
    if element_type(second.result.type) not in (f32, f64, *HALVES):
        return None
    for weights, values, ours, theirs in ((second.a, second.b, 0, 1), (second.b, second.a, 1, 0)):
        divide = _made_by(weights)
        softmax = None if divide is None else _softmax_operand(divide)
        if softmax is not None:
            assert divide is not None
            spec = tensor.ContractSpec(second.spec)
            letters = (spec.a, spec.b)
            return _Finder(second, divide, softmax, result, weights, values, letters[ours], letters[theirs], spec.out).find()
    return None


def _made_by(weights: Value) -> tensor.Map | None:
    """The elementwise op that makes weights, behind views and, of 16-bit floats, a cast."""
    op = _views_off(weights).producer(tensor.Map)
    if op is not None and op.fn == "cast" and element_type(op.result.type) in HALVES:
        op = _views_off(op.xs[0]).producer(tensor.Map)
    return op


def _views_off(value: Value) -> Value:
    op = value.producer()
    while isinstance(op, VIEWS):
        value = op.x
        op = value.producer()
    return value


@dataclass(frozen=True)
class _Softmax:
    """exp(x - max(x)) / sum(exp(x - max(x))) along `axis`, and its ops."""

    x: Value
    axis: int
    ops: tuple[Op, ...]


def _softmax_operand(divide: tensor.Map) -> _Softmax | None:
    if divide.fn != "div":
        return None
    exp, total = divide.xs[0].producer(tensor.Map), divide.xs[1].producer(tensor.Reduce)
    if exp is None or exp.fn != "exp" or total is None or total.fn != "add" or total.x is not exp.result:
        return None
    shifted = exp.xs[0].producer(tensor.Map)
    if shifted is None or shifted.fn != "sub":
        return None
    peak = shifted.xs[1].producer(tensor.Reduce)
    if peak is None or peak.fn != "max" or peak.x is not shifted.xs[0]:
        return None
    if peak.axes != total.axes or len(peak.axes) != 1 or not peak.keepdims or not total.keepdims:
        return None
    return _Softmax(peak.x, peak.axes[0], (divide, exp, total, shifted, peak))


@dataclass
class _Finder:
    second: tensor.Contract
    divide: tensor.Map
    softmax: _Softmax
    result: Value
    weights: Value
    values: Value
    weight_letters: str
    value_letters: str
    out: str

    def find(self) -> Attention | None:
        first = self._first_product(self.softmax.x)
        if first is None:
            return None
        kind, other = element_type(first.result.type), element_type(self.second.result.type)
        if kind != other and not (kind == f32 and other in HALVES):
            return None
        spec = tensor.ContractSpec(first.spec)
        sizes = spec.sizes(shape_of(first.a), shape_of(first.b))
        axes = axes_of(self.softmax.x, first.result, spec.out, sizes)
        if axes is None or any(len(c) > 1 for c in axes) or not axes[self.softmax.axis]:
            return None
        key = axes[self.softmax.axis]
        made = axes_of(self.weights, self.divide.result, [*self._named(axes, sizes)], sizes)
        if made is None or any(len(c) > 1 for c in made):
            return None
        # The second product's letters in the first one's alphabet.
        spare = iter(c for c in _ALPHABET if c not in sizes)
        names = {theirs: ours for theirs, ours in zip(self.weight_letters, made, strict=True) if ours}
        for theirs in dict.fromkeys(self.weight_letters + self.value_letters):
            if theirs not in names:
                names[theirs] = next(spare)
        own = tensor.ContractSpec(self.second.spec).sizes(shape_of(self.second.a), shape_of(self.second.b))
        sizes |= {names[c]: n for c, n in own.items()}
        return self._attention(first, spec, sizes, tuple(axes), key, names)

    @staticmethod
    def _named(axes: Sequence[str], sizes: dict[str, Dim]) -> Iterator[str]:
        """A letter for each axis: its own, or one of size 1 that is added to `sizes`."""
        spare = iter([c for c in _ALPHABET if c not in sizes])
        for c in axes:
            name = c or next(spare)
            sizes.setdefault(name, 1)
            yield name

    def _first_product(self, value: Value) -> tensor.Contract | None:
        op = value.producer()
        if isinstance(op, tensor.Contract):
            return op
        if isinstance(op, VIEWS):
            return self._first_product(op.x)
        if isinstance(op, tensor.Map):
            inner = (self._first_product(x) for x in op.xs if shape_of(x) == shape_of(op.result))
            return next((found for found in inner if found is not None), None)
        return None

    def _attention(
        self,
        first: tensor.Contract,
        spec: tensor.ContractSpec,
        sizes: dict[str, Dim],
        axes: tuple[str, ...],
        key: str,
        names: dict[str, str],
    ) -> Attention | None:
        if any(n == 0 for n in sizes.values()) or len(spec.contracted) != 1 or key in spec.batch:
            return None
        keys_are_b = key in spec.b
        queries, keys = (first.a, first.b) if keys_are_b else (first.b, first.a)
        query_letters, key_letters = (spec.a, spec.b) if keys_are_b else (spec.b, spec.a)
        value_letters = "".join(names[c] for c in self.value_letters)
        out = [names[c] for c in self.out]
        if key in out or key not in value_letters or any(sizes[c] != 1 for c in value_letters if c not in out and c != key):
            return None
        width = _only([c for c in value_letters if c in out and c not in spec.out], sizes)
        free = [c for c in spec.out if c in query_letters and c not in key_letters and c not in value_letters]
        query = next((c for c in reversed(free) if sizes[c] != 1), free[-1] if free else None)
        final = axes_of(self.result, self.second.result, out, sizes)
        if width is None or query is None or final is None:
            return None
        if not all(isinstance(n, int) and n <= MOST_DEPTH for n in (sizes[spec.contracted], sizes[width])):
            return None
        order = "".join(final)
        strides = dict(zip(order, row_major(tuple(sizes[c] for c in order)), strict=True))
        if set(order) != {c for c in {*spec.out, width} if sizes[c] != 1 and c != key} or strides.get(width, 1) != 1:
            return None
        batch = tuple(c for c in order if c not in (query, width))
        parts = self._parts(keys, key_letters, value_letters, key)
        ops = self._ops(first, queries, keys, parts)
        return Attention(
            first,
            self.second,
            sizes,
            batch,
            query,
            key,
            spec.contracted,
            width,
            queries,
            query_letters,
            parts,
            self.softmax.x,
            axes,
            self.result,
            strides,
            ops,
        )

    # --- the ops of the group

    def _parts(self, keys: Value, key_letters: str, value_letters: str, key: str) -> tuple[AttentionPart, ...]:
        """Keys and values by pieces, if both come in the same few ones."""
        k, v = trace_parts(keys, key_letters, key), trace_parts(self.values, value_letters, key)
        if len(k) > _MOST_PARTS or [n for _, n in k] != [n for _, n in v]:
            k, v = (
                [(trace(x, letters), shape_of(x)[letters.index(key)])] for x, letters in ((keys, key_letters), (self.values, value_letters))
            )
        made: list[AttentionPart] = []
        start: Dim = 0
        for (ours, count), (theirs, _) in zip(k, v, strict=True):
            made.append(AttentionPart(ours, theirs, start, count))
            start = start + count
        return tuple(made)

    def _ops(self, first: tensor.Contract, queries: Value, keys: Value, parts: Sequence[AttentionPart]) -> frozenset[Op]:
        ops: set[Op] = {first, self.second, *self.softmax.ops}
        for end, starts in (
            (self.result, [self.second.result]),
            (self.weights, [self.divide.result]),
            (keys, [p.keys.source for p in parts]),
            (self.values, [p.values.source for p in parts]),
        ):
            ops |= _between(end, starts)
        value = self.softmax.x
        while value is not first.result:
            op = value.producer()
            assert op is not None
            ops.add(op)
            inner = _towards(op, first)
            for x in op.operands:
                if x is not inner:
                    ops |= from_nothing(x) or set()
            value = inner
        return frozenset(ops | _before_queries(queries))


def _only(letters: list[str], sizes: dict[str, Dim]) -> str | None:
    """The one letter that is longer than 1, or the last one if none is."""
    long = [c for c in letters if sizes[c] != 1]
    if len(long) > 1 or not letters:
        return None
    return long[0] if long else letters[-1]


def _between(end: Value, starts: Sequence[Value]) -> set[Op]:
    """The views (and a concat, perhaps) from `starts` to `end`."""
    found: set[Op] = set()
    todo = [end]
    while todo:
        value = todo.pop()
        if value not in starts:
            op = value.producer()
            assert op is not None
            found.add(op)
            todo += op.operands
    return found


def from_nothing(value: Value) -> set[Op] | None:
    """The ops that make `value` from sizes and numbers alone; None when it takes more than those, or too many of them."""
    found: set[Op] = set()
    todo = [value]
    while todo:
        op = todo.pop().producer()
        if op in found:
            continue
        number = isinstance(op, tensor.Constant) and op.value.size == 1
        if op is None or not (number or isinstance(op, _FROM_NOTHING)) or len(found) == OPS_OF_A_TRIP:
            return None
        found.add(op)
        todo += op.operands
    return found


def _before_queries(value: Value) -> set[Op]:
    """Views of the queries, and elementwise ops with numbers that nobody else reads: their elements are computed while they are read."""
    ops: set[Op] = set()
    pending: set[Op] = set()
    op = value.producer()
    while op is not None:
        if isinstance(op, (*VIEWS, tensor.Slice)):
            pending.add(op)
            value = op.x
        elif isinstance(op, tensor.Map) and len(value.users) == 1:
            numbers = [from_nothing(x) for x in op.xs]
            inner = [x for x, made in zip(op.xs, numbers, strict=True) if made is None]
            if len(inner) != 1 or shape_of(inner[0]) != shape_of(op.result) or inner[0].producer(tensor.Contract):
                # What follows a product at once belongs to its own kernel, which has the elements in registers.
                break
            ops |= pending | {op} | {n for made in numbers if made for n in made}
            pending = set()
            value = inner[0]
        else:
            break
        op = value.producer()
    return ops | pending


def find_in(ops: Sequence[Op], results: Sequence[Value]) -> Attention | None:
    """The attention that a group is, ops and all; None when it is anything else."""
    products = [op for op in ops if isinstance(op, tensor.Contract)]
    if len(products) != 2 or len(results) != 1 or not _leads_to(results[0], products[1]):
        return None
    found = find_attention(products[1], results[0])
    if found is None or found.first is not products[0] or set(ops) != found.ops:
        return None
    memory = [access.source for part in found.parts for access in (part.keys, part.values)]
    return found if all(isinstance(v, BlockArgument) for v in memory) else None
