"""Writing kernel code: index arithmetic that folds what is known, and loops and branches as `with` blocks.

An `Index` is a number, a size or a value of the kernel. Arithmetic on numbers and sizes happens while the kernel is built. An op is emitted
only once a value takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir import dims
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Op, OpResult, Value
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, Type, element_type, i32, i64, index
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS

Index = int | Expr | Value
# Result type and segments of ops that were made: by class, types of operands and attributes. Types are told apart by where they are, which
# asks none of them; those of the operands are kept, so that no other type comes to lie there.
_KNOWN: dict[tuple[type[Op], tuple[Any, ...]], tuple[tuple[Type], tuple[int, ...] | None, list[Type]]] = {}


@dataclass
class Loop:
    """A loop being written: `iv` and `carried` inside; set `next` before the end; `results` afterwards."""

    iv: Value
    carried: list[Value]
    next: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


class Code:
    """Emits kernel ops at a builder's insertion point."""

    def __init__(self, b: Builder, pairs: bool = False, merged: bool = False):
        """`merged`: the kernel as a whole goes through `clean_up_kernel`, which merges equal ops. So of equal ops at one place, which are
        half of those of a kernel by elements, one is made.
        """
        self.b = b
        # Whether words are of two 16-bit numbers, not of four bytes.
        self.pairs = pairs
        self._constants: dict[tuple[Block, Op | None, type, str, ScalarType], OpResult] = {}
        self._made: dict[Any, OpResult] | None = {} if merged else None

    # --- index arithmetic

    def value(self, x: Index) -> Value:
        """`x` as a value of the kernel."""
        if isinstance(x, Value):
            return x
        if isinstance(x, int):
            return self.constant(x, index)
        return self._once(kernel.Size, (), {"value": x}, (), x)

    def constant(self, x: float, dtype: ScalarType) -> Value:
        if dtype.kind in "iux" and isinstance(x, float):
            x = int(x)  # whole: nothing else fits an integer type
        # A constant is made once, in front of where the next op goes. Numbers are told apart by their text, since 0.0 equals -0.0.
        text = repr(x)
        key = self.b.block, self.b.before, type(x), text, dtype
        value = self._constants.get(key)
        if value is None or value.op.parent is not self.b.block:
            value = self._constants[key] = self._again(kernel.Constant, (), {"value": x, "dtype": dtype}, (type(x), text, dtype))
        return value

    def add(self, *terms: Index) -> Index:
        """The sum; known terms are added up first."""
        known: Dim = 0
        total: Value | None = None
        for term in terms:
            if isinstance(term, Value):
                total = term if total is None else self.apply("add", total, term)
            else:
                known = known + term
        if total is None:
            return known
        return total if known == 0 else self.apply("add", total, self.value(known))

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, Value) or isinstance(b, Value):
            return a if not isinstance(b, Value) and b == 0 else self.apply("sub", self.value(a), self.value(b))
        return a - b

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(b, Value):
            a, b = b, a
        if not isinstance(a, Value):
            assert not isinstance(b, Value)
            return a * b
        if not isinstance(b, Value):
            if b == 0:
                return 0
            if b == 1:
                return a
        return self.apply("mul", a, self.value(b))

    def div(self, a: Index, b: Index) -> Index:
        """a // b for a >= 0 and b > 0."""
        if isinstance(a, Value) or isinstance(b, Value):
            return a if not isinstance(b, Value) and b == 1 else self.apply("div", self.value(a), self.value(b))
        return dims.floordiv(a, b)

    def ceildiv(self, a: Index, b: int) -> Index:
        return self.div(self.add(a, b - 1), b) if isinstance(a, Value) else dims.ceildiv(a, b)

    def mod(self, a: Index, b: Index) -> Index:
        """a % b for a >= 0 and b > 0."""
        if isinstance(a, Value) or isinstance(b, Value):
            if not isinstance(b, Value) and b == 1:
                return 0
            # From the quotient, which the caller needs as well: the machine divides once.
            return self.sub(a, self.mul(self.div(a, b), b))
        return dims.mod(a, b)

    def min(self, a: Index, b: Index) -> Index:
        if isinstance(a, Value) or isinstance(b, Value):
            return self.apply("min", self.value(a), self.value(b))
        return dims.minimum(a, b)

    def split(self, flat: Index, sizes: Sequence[Index]) -> list[Index]:
        """The multi-index of position `flat` in row-major `sizes`; the first one takes what is left."""
        parts: list[Index] = []
        for size in reversed(sizes[1:]):
            if not isinstance(size, Value) and size == 1:
                parts.append(0)
                continue
            quotient = self.div(flat, size)
            parts.append(self.sub(flat, self.mul(quotient, size)))
            flat = quotient
        if sizes:
            parts.append(0 if not isinstance(sizes[0], Value) and sizes[0] == 1 else flat)
        return parts[::-1]

    def following(self, place: Sequence[Value], sizes: Sequence[Index]) -> list[Value]:
        """The multi-index behind `place` in row-major `sizes`, without a division."""
        *outer, last = place
        last = self.value(self.add(last, 1))
        if not outer:
            return [last]
        is_over = self.apply("eq", last, self.value(sizes[-1]))
        stay = [
            self.apply("select", is_over, after, before) for after, before in zip(self.following(outer, sizes[:-1]), outer, strict=True)
        ]
        return [*stay, self.apply("select", is_over, self.value(0), last)]

    # --- values

    def apply(self, fn: str, *xs: Value, dtype: ScalarType | None = None) -> Value:
        return self._once(kernel.Apply, xs, {"fn": fn, "dtype": dtype}, (fn, dtype, *[id(x.type) for x in xs]), fn, dtype)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self._again(kernel.Fma, (a, b, c), {}, (id(a.type), id(b.type), id(c.type)))

    def _once(self, kind: type[Op], operands: Sequence[Value], attributes: dict[str, Any], key: tuple[Any, ...], *told: Any) -> OpResult:
        """The same, or one that was made here and is `told` from others by these, where equal ops are merged."""
        if self._made is None:
            return self._again(kind, operands, attributes, key)
        place = self.b.block, self.b.before, kind, told, *operands
        value = self._made.get(place)
        if value is None or value.op.parent is not self.b.block:
            value = self._made[place] = self._again(kind, operands, attributes, key)
        return value

    def _again(self, kind: type[Op], operands: Sequence[Value], attributes: dict[str, Any], key: tuple[Any, ...]) -> OpResult:
        """An op with one result, whose type follows from the `key`: one like another that was checked is not checked again. Kernels are
        thousands of a few ops.
        """
        known = _KNOWN.get((kind, key))
        if known is None:
            op = kind(*((operands,) if kind is kernel.Apply else operands), **attributes)
            if len(_KNOWN) >= COMPILE_COSTS.known_ops:
                _KNOWN.clear()
            _KNOWN[kind, key] = (op.result.type,), op.segments, [x.type for x in operands]
            value: OpResult = self.b.insert(op)
            return value
        b = self.b
        op = kind.with_parts(operands, attributes, known[0], b.loc, known[1])
        b.block.insert(op, b.before)
        return op.results[0]

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c: of floats, or of words of four bytes or two 16-bit numbers each, whose products are summed in one."""
        of_words = kernel.Dot2 if self.pairs else kernel.Dot4
        return self._again(of_words if element_type(c.type) == i32 else kernel.Fma, (a, b, c), {}, (id(a.type), id(b.type), id(c.type)))

    def broadcast(self, x: Value, lanes: int) -> Value:
        return self._again(kernel.Broadcast, (x,), {"lanes": lanes}, (id(x.type), lanes)) if lanes > 1 else x

    def zero(self, dtype: ScalarType, lanes: int = 1) -> Value:
        return self.broadcast(self.constant(0.0 if dtype.is_float else 0, dtype), lanes)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        value: Value = self.b(kernel.Shuffle, a, b, lanes=tuple(lanes))
        return value

    def permute(self, x: Value, places: Value) -> Value:
        value: Value = self.b(kernel.Permute, x, places)
        return value

    def insert(self, x: Value, value: Value, lane: int) -> Value:
        made: Value = self.b(kernel.Insert, x, value, lane=lane)
        return made

    def reinterpret(self, x: Value, dtype: ScalarType) -> Value:
        value: Value = self.b(kernel.Reinterpret, x, dtype=dtype)
        return value

    def extract(self, x: Value, lane: int) -> Value:
        value: Value = self.b(kernel.Extract, x, lane=lane)
        return value

    def reduce(self, x: Value, fn: str = "add") -> Value:
        value: Value = self.b(kernel.Reduce, x, fn=fn)
        return value

    # --- memory

    def view(self, buffer: Value, offset: Index, size: Dim) -> Value:
        """`size` elements of `buffer` from `offset` on."""
        if not isinstance(offset, Value) and offset == 0:
            return buffer
        value: Value = self.b(kernel.View, buffer, self.value(offset), shape=(size,))
        return value

    def words(self, buffer: Value) -> Value:
        """The whole words of four bytes that a buffer of bytes or 16-bit integers holds; other buffers as they are."""
        kind = buffer.type
        assert isinstance(kind, BufferType)
        return self.seen_as(buffer, i32) if kind.dtype.kind in "iu" and kind.dtype.bits <= 16 else buffer

    def seen_as(self, buffer: Value, dtype: ScalarType) -> Value:
        """The bytes of a buffer as whole integers of another type."""
        kind = buffer.type
        assert isinstance(kind, BufferType)
        if kind.dtype == dtype:
            return buffer
        size = product(kind.shape) if kind.dtype.bytes == dtype.bytes else product(kind.shape) * kind.dtype.bytes // dtype.bytes
        value: Value = self.b(kernel.View, buffer, None, shape=(size,), dtype=dtype)
        return value

    def scratch(self, size: int, dtype: ScalarType) -> Value:
        value: Value = self.b(kernel.Alloc, shape=(size,), dtype=dtype, space="local")
        return value

    def load(self, buffer: Value, at: Index, lanes: int = 1, mask: Value | None = None, align: int | None = None) -> Value:
        position = self.value(at)
        if mask is not None:
            value: Value = self.b(kernel.Load, buffer, position, mask, lanes=lanes, align=align)
            return value
        key = id(buffer.type), id(position.type), lanes, align
        return self._again(kernel.Load, (buffer, position), {"lanes": lanes, "align": align}, key)

    def store(
        self, x: Value, buffer: Value, at: Index, mask: Value | None = None, align: int | None = None, streaming: bool = False
    ) -> None:
        self.b(kernel.Store, x, buffer, self.value(at), mask, align=align, streaming=streaming)

    def until_aligned(self, buffer: Value, at: Index, bytes: int) -> Value:
        """How many elements from `at` on come before the first one at a multiple of `bytes`."""
        value: Value = self.b(kernel.UntilAligned, buffer, self.value(at), bytes=bytes)
        return value

    def prefetch(self, buffer: Value, at: Index, write: bool = False, locality: int = 3) -> None:
        self.b(kernel.Prefetch, buffer, self.value(at), write=write, locality=locality)

    def lane_mask(self, n: Index, lanes: int) -> Value | None:
        """On for the first `n` lanes; None when that is known to be all of them."""
        if isinstance(n, int) and n >= lanes:
            return None
        value: Value = self.b(kernel.LaneMask, self.value(n), lanes=lanes)
        return value

    def fetch_add(self, x: Index, buffer: Value, at: Index) -> Value:
        """What was there before `x` was added to it, as a position."""
        before: Value = self.b(kernel.FetchAdd, self.apply("cast", self.value(x), dtype=i64), buffer, self.value(at))
        return self.apply("cast", before, dtype=index)

    # --- control

    @contextmanager
    def loop(self, lo: Index, hi: Index, carried: Sequence[Value] = (), step: int = 1, name: str = "i") -> Iterator[Loop]:
        """for iv in range(lo, hi, step)."""
        op = kernel.For.empty(self.value(lo), self.value(hi), list(carried), step=step, name=name, loc=self.b.loc)
        self.b.insert_op(op)
        written = Loop(op.block.args[0], list(op.block.args[1:]))
        with self.b.inside(op.block):
            yield written
            self.b(kernel.Yield, *written.next)
        written.results = list(op.results)

    @contextmanager
    def parallel(self, count: Index, grain: int = 1, name: str = "i") -> Iterator[Value]:
        """Independent iterations 0 … count - 1."""
        op = kernel.Parallel.empty(self.value(count), grain=grain, name=name, loc=self.b.loc)
        self.b.insert_op(op)
        with self.b.inside(op.block):
            yield op.block.args[0]
            self.b(kernel.Yield)

    def condition(self, fn: str, a: Index, b: Index) -> bool | Value:
        """The comparison `fn` of two positions: a bool when it is known."""
        difference = None if isinstance(a, Value) or isinstance(b, Value) else a - b
        if isinstance(difference, int):
            return {"lt": difference < 0, "le": difference <= 0, "gt": difference > 0, "ge": difference >= 0, "eq": difference == 0}[fn]
        return self.apply(fn, self.value(a), self.value(b))

    @contextmanager
    def when(self, condition: Value, then: bool = True) -> Iterator[None]:
        """What stands inside runs if `condition` holds (or, with `then` off, if it does not)."""
        op = kernel.If.empty(condition, loc=self.b.loc)
        self.b.insert_op(op)
        taken, other = (op.then_body, op.else_body) if then else (op.else_body, op.then_body)
        with self.b.inside(other.block):
            self.b(kernel.Yield)
        with self.b.inside(taken.block):
            yield
            self.b(kernel.Yield)
