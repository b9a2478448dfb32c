"""What a flash kernel computes: products of scores, weights made of them element by element, and sums by these weights.

    s_x[r, c] = sum(left_x[r, d] right_x[c, d])        one product for attention, two for its gradients
    w_y[r, c] = f(s, masks, numbers of rows)           in registers, never in memory
    out_y[r]  = sum over c of w_y[r, c] z_y[c]         one sum, or two

A block of threads has some rows, and goes over the columns in tiles. For attention rows are queries, columns are keys, and the weights are
a softmax along the columns, with a running maximum and sum (`online`). For the gradient of the queries rows are queries again, weights are
made of what each row has kept (the logarithm of its sum), and nothing runs along. For those of keys and values rows are keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, known_nonnegative
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, TensorType, element_type, f32
from polyreme.lowering.analysis.access import Access, row_major, trace
from polyreme.lowering.analysis.attention import MOST_DEPTH, Attention, find_attention
from polyreme.lowering.analysis.half_floats import HALVES, is_widening
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.plan import Request

# What may stand beside an attention in its group, to make masks: elements are computed where they are read.
_BESIDE = (tensor.Map, tensor.Full, tensor.Constant, tensor.DimValue, tensor.Iota, tensor.Broadcast, tensor.Reshape, tensor.Transpose)


@dataclass(frozen=True, eq=False)
class Side:
    """An operand with a line for each row or column: in memory, or elements of `value` that are computed while they are read, an axis per
    letter.
    """

    along: str
    inner: str
    access: Access | None = None
    value: Value | None = None
    letters: str = ""


@dataclass(frozen=True)
class Scores:
    """A product: `result` is the op's value, one axis per letter of the scores."""

    result: Value
    rows: Side
    columns: Side


@dataclass(frozen=True)
class WeightedSum:
    """A sum over the columns. Element (batch, row, width) of `result` stands at the sum of `strides[letter] * letter`. `weights` are None
    where they are a softmax.
    """

    weights: Value | None
    columns: Side
    result: Value
    strides: dict[str, Dim]


@dataclass(frozen=True)
class Flash:
    """See the module. `axes` are the letters of the scores' axes, "" for size 1. `masked` is what the softmax takes; `kept` is the result
    with the logarithm of each row's sum, if there is one. With a `limit` of n query i sees keys up to i + n, and `hides` is the select
    that gives -inf to the others.
    """

    request: Request
    sizes: dict[str, Dim]
    batch: tuple[str, ...]
    row: str
    column: str
    query: str
    axes: tuple[str, ...]
    scores: tuple[Scores, ...]
    sums: tuple[WeightedSum, ...]
    masked: Value
    kept: Value | None = None
    limit: Dim | None = None
    hides: tensor.Map | None = None

    @property
    def online(self) -> bool:
        return self.sums[0].weights is None

    @property
    def dtype(self) -> ScalarType:
        """Of the operands."""
        return element_type(self.sums[0].result.type)

    def room(self, letter: str) -> int:
        size = self.sizes[letter]
        assert isinstance(size, int)
        return size

    @property
    def resident(self) -> tuple[Side, ...]:
        return tuple(dict.fromkeys(s.rows for s in self.scores))

    @property
    def streamed(self) -> tuple[Side, ...]:
        return tuple(dict.fromkeys([*(s.columns for s in self.scores), *(s.columns for s in self.sums)]))


def find_flash(request: Request) -> Flash | None:
    """The attention, or the gradients of one, that a group is; None for any other group."""
    products = request.ops(tensor.Contract)
    if not 2 <= len(products) <= 4 or any(element_type(op.result.type) not in (f32, *HALVES) for op in products):
        return None
    return _attention(request, products) or _gradients(request, products)


def _attention(request: Request, products: list[tensor.Contract]) -> Flash | None:
    """softmax(maps(Q K)) V, and the logarithms of its sums as a second result, perhaps."""
    results = request.results
    if len(products) != 2 or len(results) > 2:
        return None
    found = find_attention(products[1], results[0])
    if found is None or found.first is not products[0] or len(found.parts) != 1:
        return None
    extra = _logarithm(results[1], found) if len(results) == 2 else set()
    if extra is None or not all(isinstance(op, _BESIDE) for op in set(request.ops()) - found.ops - extra):
        return None
    spec = tensor.ContractSpec(found.first.spec)
    keys_of_first, letters = (found.first.b, spec.b) if found.key in spec.b else (found.first.a, spec.a)
    memory = trace(keys_of_first, letters, narrow=True), found.parts[0].values
    if not all(isinstance(access.source, BlockArgument) for access in memory):
        return None
    access = trace(found.queries, found.query_letters, narrow=True)
    queries = Side(found.query, found.depth, value=found.queries, letters=found.query_letters)
    if isinstance(access.source, BlockArgument):
        queries = Side(found.query, found.depth, access)
    keys, values = (Side(found.key, inner, access) for inner, access in zip((found.depth, found.width), memory, strict=True))
    return Flash(
        request,
        found.sizes,
        found.batch,
        found.query,
        found.key,
        found.query,
        found.axes,
        (Scores(found.first.result, queries, keys),),
        (WeightedSum(None, values, found.result, found.strides),),
        found.masked,
        results[1] if len(results) == 2 else None,
        **_limit(found),
    )


def _limit(found: Attention) -> dict[str, Any]:
    """Which keys a causal mask hides, where every query sees one."""
    limited = found.limit()
    return {} if limited is None or not known_nonnegative(limited[0]) else {"limit": limited[0], "hides": limited[1]}


def _logarithm(value: Value, found: Attention) -> set[Op] | None:
    """The two ops of max(x) + log(sum(exp(x - max(x)))) with the attention's own maximum and sum; None where it is anything else."""
    op = value.producer(tensor.Map)
    log = op.xs[1].producer(tensor.Map) if op is not None and op.fn == "add" else None
    if op is None or log is None or log.fn != "log":
        return None
    total, peak = log.xs[0].producer(tensor.Reduce), op.xs[0].producer(tensor.Reduce)
    exp = None if total is None else total.x.producer(tensor.Map)
    if total is None or peak is None or exp is None or not {total, peak, exp} <= found.ops:
        return None
    return {op, log} if (total.fn, peak.fn, exp.fn) == ("add", "max", "exp") and peak.x is found.masked else None


class _Sides:
    """Operands in memory, each once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Value, str, str], Side] = {}

    def side(self, value: Value, letters: str, along: str, inner: str) -> Side:
        cast = value.producer()
        key = (value if cast is None or not is_widening(cast) else cast.operands[0]), letters, along
        if key not in self._made:
            self._made[key] = Side(along, inner, trace(value, letters, narrow=True))
        return self._made[key]


def _gradients(request: Request, products: list[tensor.Contract]) -> Flash | None:
    """Weights of scores that are no softmax: all products name their letters alike, as `nn.attention_gradient` is written."""
    results = request.results
    made = {v: op for op in products if (v := op.result) in results}
    specs = {op: tensor.ContractSpec(op.spec) for op in products}
    firsts, lasts = [op for op in products if op.result not in made], [made[v] for v in results if v in made]
    if not firsts or len(lasts) != len(results):
        return None
    letters = specs[firsts[0]].out
    if any(specs[op].out != letters for op in firsts) or any(specs[op].a != letters for op in lasts):
        return None
    sizes: dict[str, Dim] = {}
    for op in products:
        for c, n in specs[op].sizes(shape_of(op.a), shape_of(op.b)).items():
            if sizes.setdefault(c, n) != n or n == 0:
                return None
    columns, shared = {specs[op].contracted for op in lasts}, set(specs[firsts[0]].batch)
    if len(columns) != 1 or len(column := columns.pop()) != 1 or len(letters) != len(shared) + 2 or column not in letters:
        return None
    row = next(c for c in letters if c not in shared and c != column)
    scores, known = [], _Sides()
    for op in firsts:
        spec = specs[op]
        if len(spec.contracted) != 1 or set(spec.batch) != shared:
            return None
        sides = {}
        for value, named in ((op.a, spec.a), (op.b, spec.b)):
            along = row if row in named else column
            sides[along] = known.side(value, named, along, spec.contracted)
        if len(sides) != 2:
            return None
        scores.append(Scores(op.result, sides[row], sides[column]))
    sums = []
    for op in lasts:
        spec = specs[op]
        inner = [c for c in spec.out if c not in letters]
        if len(inner) != 1 or set(spec.out) != {*shared, row, *inner} or spec.out[-1] != inner[0]:
            return None
        strides = dict(zip(spec.out, row_major(shape_of(op.result)), strict=True))
        sums.append(WeightedSum(op.a, known.side(op.b, spec.b, column, inner[0]), op.result, strides))
    sides_ = [s for x in scores for s in (x.rows, x.columns)] + [s.columns for s in sums]
    if not all(s.access is not None and isinstance(s.access.source, BlockArgument) for s in sides_):
        return None
    if not all(isinstance(n := sizes[s.inner], int) and n <= MOST_DEPTH for s in sides_):
        return None
    axes = tuple(c if sizes[c] != 1 else "" for c in letters)
    flash = Flash(
        request, sizes, tuple(c for c in letters if c in shared), row, column, row, axes, tuple(scores), tuple(sums), firsts[0].result
    )
    return _with_limit(flash, firsts[0])


def _with_limit(flash: Flash, first: tensor.Contract) -> Flash | None:
    """With what its mask hides, which the exponential of the first product's scores shows."""
    for exp in flash.request.ops(tensor.Map):
        if exp.fn == "exp" and (less := exp.xs[0].producer(tensor.Map)) is not None and less.fn == "sub":
            query, key = (c for c in tensor.ContractSpec(first.spec).out if c in (flash.row, flash.column))
            chain = Attention(
                first, first, flash.sizes, flash.batch, query, key, "", "", first.a, "", (), less.xs[0], flash.axes, first.result, {},
                frozenset(),
            )  # fmt: skip
            return replace(flash, masked=less.xs[0], query=query, **_limit(chain))
    return None


class InFloat32:
    """A copy of a group in which elementwise ops of 16-bit floats compute in float32, without rounding between: `of` gives what stands for
    a value of the group, `args` what stand for its arguments.
    """

    def __init__(self, old: Func):
        self.func = Func.empty("root", [a.type for a in old.args], loc=old.location)
        self.args = dict(zip(old.args, self.func.args, strict=True))
        self.of: dict[Value, Value] = dict(self.args)
        self._b = Builder.at_end(self.func.block, old.location)
        for op in old.block:
            if not isinstance(op, Return):
                self._copy(op)

    def _copy(self, op: Op) -> None:
        b, is_half = self._b, any(_is_half(v) for v in (*op.operands, *op.results))
        if isinstance(op, tensor.Map) and op.fn == "cast" and element_type(op.result.type) in (f32, *HALVES):
            x = self.of[op.xs[0]]
            self.of[op.result] = x if element_type(x.type) == f32 else b(tensor.Map, x, fn="cast", dtype=f32)
        elif isinstance(op, tensor.Full) and is_half:
            self.of[op.result] = b(tensor.Full, value=op.value, shape=op.shape, dtype=f32)
        elif isinstance(op, (tensor.Map, tensor.Contract)) and is_half:
            self.of[op.result] = b(type(op), *(self._wide(x) for x in op.operands), **op.attributes)
        elif all(self.of[x].type == x.type for x in op.operands):
            b.insert(op.clone(self.of))
        else:
            self.of[op.results[0]] = b(type(op), *(self.of[x] for x in op.operands), **op.attributes)

    def _wide(self, x: Value) -> Value:
        made = self.of[x]
        return self._b(tensor.Map, made, fn="cast", dtype=f32) if _is_half(made) else made


def _is_half(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype in HALVES
