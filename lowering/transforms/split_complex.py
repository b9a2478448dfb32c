"""Complex numbers as their real and imaginary parts, since machine code works on real numbers.

A complex value becomes two planes of floats, with an axis of size 1 behind its own axes. In memory, in arguments and results, real and
imaginary parts lie side by side. `tensor.pairs` sees them as an axis of 2, whose slices are the planes; concatenated planes are the pairs.
So a chain of elementwise ops fuses into one kernel, which reads and writes numbers in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.control import as_function, has_control_flow
from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import PARTS, ScalarType, TensorType, element_type
from polyreme.lowering.analysis.rows import shape_of

Planes = tuple[Value, Value]


def is_complex(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype in PARTS


def is_control(op: Op) -> bool:
    """Whether an op is a branch or a loop."""
    return isinstance(op, (tensor.If, tensor.While, tensor.Scan))


@register_pass
@dataclass(frozen=True)
class SplitComplex(FuncPass):
    """mul(x, y)  ->  pairs(concat(re(x) re(y) - im(x) im(y), re(x) im(y) + im(x) re(y)))

    Before: `tensor` ops on any values.  After: complex numbers only as arguments and results, and as operands and results of
    `tensor.pairs`. Runs right behind the lowering to `tensor`; an op that has no rule here is an error.
    """

    name: ClassVar[str] = "split-complex"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tensor.Scan) and not has_control_flow(op):  # else it has been seen already
                with as_function(op.body) as body:
                    self.run_on(body)
        if any(is_complex(v) for op in func.block for v in (*op.operands, *op.results)):
            _Split(func).run()


def no_code(op: Op) -> PolyremeError:
    what = f" by {op.attributes['fn']!r}" if "fn" in op.attributes else ""
    return PolyremeError(
        f"expected real numbers for '{op.name}'{what} but got complex ones, for which it has no machine code", op.location, code="E0408"
    )


class _Split:
    """The ops of a function on their way to planes."""

    def __init__(self, func: Func):
        self.func = func
        self.planes: dict[Value, Planes] = {}
        self.b = Builder.at_end(func.block)

    def run(self) -> None:
        before = self.func.block.ops
        for op in before:
            if not any(is_complex(v) for v in (*op.operands, *op.results)):
                continue
            self.b = Builder.before_op(op)
            if isinstance(op, Return):
                for i, value in enumerate(op.operands):
                    op.set_operand(i, self._whole(value))
                continue
            if is_control(op):
                # In branches and loops they lie in memory, as in arguments and results.
                for i, value in enumerate(op.operands):
                    op.set_operand(i, self._whole(value))
                continue
            rule = _RULES.get(type(op))
            made = None if rule is None else rule(self, op)
            if made is None:
                raise no_code(op)
            if isinstance(made, tuple):
                self.planes[op.result] = made
            else:
                op.result.replace_all_uses_with(made)
        for op in reversed(before):
            if any(is_complex(v) for v in (*op.operands, *op.results)) and not isinstance(op, Return) and not is_control(op):
                op.erase()

    def of(self, value: Value) -> Planes:
        """The planes of a complex value; those of an argument are read from its memory."""
        if value not in self.planes:
            pairs = self.b(tensor.Pairs, value)
            self.planes[value] = self.part(pairs, 0), self.part(pairs, 1)
        return self.planes[value]

    def _whole(self, value: Value) -> Value:
        """A value as it stands in memory; one that no op makes, or a branch or loop, stands there already."""
        if not is_complex(value) or value.producer() is None or is_control(value.producer()):
            return value
        return self.b(tensor.Pairs, self.joined(self.of(value)))

    def joined(self, planes: Planes) -> Value:
        return self.b(tensor.Concat, planes, axis=len(shape_of(planes[0])) - 1)

    def part(self, pairs: Value, k: int) -> Value:
        """One part of pairs, with an axis of size 1."""
        shape = shape_of(pairs)[:-1]
        zeros, ones = (0,) * len(shape), (1,) * len(shape)
        return self.b(tensor.Slice, pairs, starts=(*zeros, k), stops=(*shape, k + 1), strides=(*ones, 1))

    def lifted(self, value: Value) -> Value:
        """A real value with the axis of size 1 that planes have; a number stays one."""
        shape = shape_of(value)
        return self.b(tensor.Reshape, value, shape=(*shape, 1)) if shape else value

    def lowered(self, value: Value) -> Value:
        """A real value without that axis."""
        return self.b(tensor.Reshape, value, shape=shape_of(value)[:-1])

    def operands(self, op: tensor.Map) -> list[Planes]:
        """The planes of the complex operands; numbers are shaped like the others."""
        found = []
        ones = (1,) * (len(shape_of(op.result)) + 1)
        for x in op.xs:
            if is_complex(x):
                re, im = self.of(x)
                found.append(
                    (re, im)
                    if shape_of(x) or len(ones) == 1
                    else (self.b(tensor.Reshape, re, shape=ones), self.b(tensor.Reshape, im, shape=ones))
                )
        return found

    def map(self, fn: str, *xs: Value, dtype: ScalarType | None = None) -> Value:
        return self.b(tensor.Map, *xs, fn=fn, dtype=dtype)

    def zero(self, like: Value) -> Value:
        return self.b(tensor.Full, value=0, shape=shape_of(like), dtype=element_type(like.type))


# --- rules: the planes of an op's result, or its real result; None where there is no code


def _map(s: _Split, op: Any) -> Planes | Value | None:
    rule = _FUNCTIONS.get(op.fn)
    return None if rule is None else rule(s, op)


def _both(s: _Split, op: Any) -> Planes:
    """add, sub, neg: the function of each part."""
    re, im = zip(*s.operands(op), strict=True)
    return s.map(op.fn, *re), s.map(op.fn, *im)


def _mul(s: _Split, op: Any) -> Planes:
    (a, b), (c, d) = s.operands(op)
    return s.map("sub", s.map("mul", a, c), s.map("mul", b, d)), s.map("add", s.map("mul", a, d), s.map("mul", b, c))


def _div(s: _Split, op: Any) -> Planes:
    """By the larger part of the divisor, so that no square overflows (R. L. Smith, "Algorithm 116: Complex division", 1962)."""
    (a, b), (c, d) = s.operands(op)
    real = s.map("ge", s.map("abs", c), s.map("abs", d))
    large, small = s.map("select", real, c, d), s.map("select", real, d, c)
    first, second = s.map("select", real, a, b), s.map("select", real, b, a)
    none = s.zero(large)
    ratio = s.map("select", s.map("eq", large, none), none, s.map("div", small, large))
    divisor = s.map("add", large, s.map("mul", small, ratio))
    re = s.map("div", s.map("add", first, s.map("mul", second, ratio)), divisor)
    im = s.map("div", s.map("sub", second, s.map("mul", first, ratio)), divisor)
    return re, s.map("select", real, im, s.map("neg", im))


def _compare(s: _Split, op: Any) -> Value:
    re, im = (s.map(op.fn, *parts) for parts in zip(*s.operands(op), strict=True))
    return s.lowered(s.map("and" if op.fn == "eq" else "or", re, im))


def _select(s: _Split, op: Any) -> Planes:
    condition = s.lifted(op.xs[0])
    re, im = zip(*s.operands(op), strict=True)
    return s.map("select", condition, *re), s.map("select", condition, *im)


def _cast(s: _Split, op: Any) -> Planes | Value:
    """A real number has no imaginary part; a complex one leaves it behind, but is true where either part is."""
    (x,) = op.xs
    if not is_complex(x):
        re = s.map("cast", s.lifted(x), dtype=PARTS[op.dtype])
        return re, s.zero(re)
    parts = s.of(x)
    if op.dtype in PARTS:
        re, im = (s.map("cast", part, dtype=PARTS[op.dtype]) for part in parts)
        return re, im
    if op.dtype.kind == "b":
        return s.lowered(s.map("or", *(s.map("ne", part, s.zero(part)) for part in parts)))
    return s.lowered(s.map("cast", parts[0], dtype=op.dtype))


_FUNCTIONS: dict[str, Callable[[_Split, Any], Planes | Value]] = {
    **dict.fromkeys(("add", "sub", "neg"), _both), "mul": _mul, "div": _div, "eq": _compare, "ne": _compare, "select": _select,
    "cast": _cast,
}  # fmt: skip


def _pairs(s: _Split, op: tensor.Pairs) -> Planes | Value:
    if is_complex(op.x):
        return s.joined(s.of(op.x))
    return s.part(op.x, 0), s.part(op.x, 1)


def _constant(s: _Split, op: tensor.Constant) -> Planes:
    array = op.value.array[..., None]
    re, im = (s.b(tensor.Constant, value=Dense(np.ascontiguousarray(part))) for part in (array.real, array.imag))
    return re, im


def _full(s: _Split, op: tensor.Full) -> Planes:
    re = s.b(tensor.Full, value=op.value, shape=(*op.shape, 1), dtype=PARTS[op.dtype])
    return re, s.zero(re)


def _pad(s: _Split, op: tensor.Pad) -> Planes:
    re, im = s.of(op.x)
    low, high, interior = ((*amounts, 0) for amounts in (op.low, op.high, op.interior))
    padded = (s.b(tensor.Pad, x, low=low, high=high, interior=interior, value=v) for x, v in ((re, op.value), (im, 0.0)))
    return next(padded), next(padded)


def _contract(s: _Split, op: tensor.Contract) -> Planes:
    """Four real products, of operands in memory of their own."""
    (a, b), (c, d) = ([s.lowered(part) for part in s.of(x)] for x in (op.a, op.b))

    def product(x: Value, y: Value) -> Value:
        return s.b(tensor.Contract, x, y, spec=op.spec)

    return s.lifted(s.map("sub", product(a, c), product(b, d))), s.lifted(s.map("add", product(a, d), product(b, c)))


def _concat(s: _Split, op: tensor.Concat) -> Planes:
    re, im = (s.b(tensor.Concat, parts, axis=op.axis) for parts in zip(*(s.of(x) for x in op.xs), strict=True))
    return re, im


def _by_planes(**longer: Any) -> Callable[[_Split, Any], Planes | None]:
    """An op that does with each plane what it does with the whole: `longer` are the attributes with a value per axis, and those of the axis
    that planes have more.

    Of reductions and the like only sums are such ops.
    """

    def rule(s: _Split, op: Any) -> Planes | None:
        if op.attributes.get("fn", "add") not in ("add", "set"):
            return None
        attributes = {
            **op.attributes,
            **{name: (*op.attributes[name], end(len(op.attributes[name])) if callable(end) else end) for name, end in longer.items()},
        }
        sources = [s.of(x) if is_complex(x) else (x, x) for x in op.operands]
        re, im = (s.b(type(op), *(source[k] for source in sources), **attributes) for k in (0, 1))
        return re, im

    return rule


_RULES: dict[type[Op], Callable[[_Split, Any], Planes | Value | None]] = {
    tensor.Map: _map,
    tensor.Pairs: _pairs,
    tensor.Constant: _constant,
    tensor.Full: _full,
    tensor.Pad: _pad,
    tensor.Contract: _contract,
    tensor.Reshape: _by_planes(shape=1),
    tensor.Broadcast: _by_planes(shape=1),
    tensor.Transpose: _by_planes(perm=lambda rank: rank),
    tensor.Slice: _by_planes(starts=0, stops=1, strides=1),
    tensor.Reverse: _by_planes(),
    tensor.Concat: _concat,
    tensor.Gather: _by_planes(),
    tensor.Scatter: _by_planes(),
    tensor.Reduce: _by_planes(),
    tensor.Cumulate: _by_planes(),
}
