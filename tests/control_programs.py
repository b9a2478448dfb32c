"""Random programs with branches and loops, inside one another, of any number of values; conditions are about integers, so that rounding
decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polyreme.dialects import nn
from polyreme.dialects.control import differing_axes
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.dims import symbol
from polyreme.ir.types import ScalarType, TensorType, f32, i64

N = symbol("N")


@dataclass
class ControlProgram:
    """A module, arguments for it, and which of these are floats."""

    module: Module
    inputs: list[Any]
    floats: tuple[int, ...]
    sizes: dict[str, int]


def random_program(seed: int, dtype: ScalarType = f32, sizes: bool = True) -> ControlProgram:
    """A program of three floats, `[3]`, `[2, 3]` and, with `sizes`, `[N, 3]`, and two integers. The same seed gives the same one."""
    rng = np.random.default_rng(seed)
    third = (N, 3) if sizes else (1, 3)
    types = [TensorType((3,), dtype), TensorType((2, 3), dtype), TensorType(third, dtype), TensorType((), i64), TensorType((1,), i64)]
    func = Func.empty("main", types, (), ["a", "b", "c", "m", "n"], arg_roles=("input",) * 5)
    grower = _Grower(rng, dtype)
    b = Builder.at_end(func.block)
    pool = grower.grow(b, list(func.args), 6, 0)
    floats = [v for v in pool if v.type.dtype == dtype]
    chosen = [floats[-1], *(v for v in floats[3:] if rng.random() < 0.3)]
    b.insert(Return([*dict.fromkeys(chosen), pool[-1]]))
    module = Module.empty()
    module.block.append(func.finish())
    size = int(rng.integers(0, 3)) if sizes else 1
    inputs = [(rng.integers(-16, 17, shape) / 8).astype(dtype.np) for shape in ((3,), (2, 3), (size, 3))]
    inputs += [np.array(rng.integers(0, 5)), np.array([rng.integers(0, 4)])]
    return ControlProgram(module, inputs, (0, 1, 2), {"N": size} if sizes else {})


class _Grower:
    def __init__(self, rng: np.random.Generator, dtype: ScalarType):
        self.rng, self.dtype = rng, dtype
        self.left = 4  # branches and loops

    def pick(self, pool: list[Value], kind: Any = None) -> Any:
        """A value, mostly one of the latest; of a type, or an element type."""
        fitting = [v for v in pool if kind is None or v.type == kind or v.type.dtype == kind]
        at = len(fitting) - 1 - min(int(self.rng.exponential(2)), len(fitting) - 1)
        return fitting[at]

    def grow(self, b: Builder, pool: list[Value], count: int, depth: int) -> list[Value]:
        for _ in range(count):
            kind = self.rng.random()
            if depth < 3 and self.left and kind < 0.45:
                self.left -= 1
                step = (self.branch, self.loop, self.scan)[int(self.rng.integers(0, 3))]
                pool += step(b, pool, depth + 1)
            else:
                pool.append(self.op(b, pool))
        return pool

    def number(self, b: Builder, value: float, dtype: ScalarType) -> Any:
        return b(nn.Full, value=value, dtype=dtype)

    def op(self, b: Builder, pool: list[Value]) -> Value:
        rng = self.rng
        if rng.random() < 0.2:
            integer = self.pick(pool, i64)
            made: Value = b(nn.Add, integer, self.number(b, int(rng.integers(1, 3)), i64))
            return made
        x = self.pick(pool, self.dtype)
        choice = int(rng.integers(0, 8))
        if choice == 0:
            made = b(nn.Tanh, x)
        elif choice == 1:
            made = b(nn.Mul, x, self.number(b, float(rng.integers(-3, 4)) / 2, self.dtype))
        elif choice == 2:
            made = b(nn.Sub, x, b(nn.Tanh, self.pick(pool, x.type)))
        elif choice == 3:
            made = b(nn.Add, x, b(nn.Sum, b(nn.Tanh, self.pick(pool, x.type)), axis=(-1,), keepdims=True))
        elif choice == 6:
            # Under another shape, which is the same memory.
            flat = b(nn.Reshape, x, shape=(x.type.elements,))
            made = b(nn.Reshape, b(nn.Mul, flat, self.number(b, float(rng.integers(-3, 4)) / 2, self.dtype)), shape=x.type.shape)
        elif choice == 4 and x.type.rank == 2:
            made = b(nn.MatMul, b(nn.Tanh, x), b(nn.MatMul, b(nn.Transpose, x, perm=(1, 0)), x))
        else:
            made = b(nn.Mul, b(nn.Tanh, x), self.pick(pool, x.type))
        return b(nn.Tanh, made) if rng.random() < 0.3 else made

    def condition(self, b: Builder, integer: Any, remainder: int | None = None) -> Value:
        two = self.number(b, 2, i64)
        made: Value = b(
            nn.Equal, b(nn.Mod, integer, two), self.number(b, int(self.rng.integers(0, 2)) if remainder is None else remainder, i64)
        )
        return made

    def captured(self, pool: list[Value]) -> list[Value]:
        """What a body sees: some values, of every type among them."""
        some = [v for v in pool if self.rng.random() < 0.6]
        for kind in dict.fromkeys(v.type for v in pool):
            if all(v.type != kind for v in some):
                some.append(self.pick(pool, kind))
        return some


    def body(
        self, given: list[Any], captured: list[Value], wanted: list[Any], depth: int
    ) -> tuple[Block, Builder, list[Value], list[Value]]:
        block = Block([*given, *(v.type for v in captured)])
        b = Builder.at_end(block)
        pool = self.grow(b, list(block.args), int(self.rng.integers(0, 4)), depth)
        return block, b, pool, [self.pick(pool, kind) for kind in wanted]

    def branch(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        captured = self.captured(pool)
        wanted = [self.pick(pool).type for _ in range(int(self.rng.integers(1, 4)))]
        regions = []
        for _ in range(2):
            block, inner, _, ends = self.body([], captured, wanted, depth)
            inner.insert(nn.Yield(ends))
            regions.append(Region(block))
        assert not differing_axes([v.type for v in captured], *regions)
        made = b(nn.If, self.condition(b, self.pick(pool, i64)), captured, then_body=regions[0], else_body=regions[1])
        return list(made) if isinstance(made, tuple) else [made]

    def loop(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        captured = self.captured(pool)
        inits = [self.pick(pool) for _ in range(int(self.rng.integers(1, 4)))]
        first = self.number(b, 0, i64)
        # Of some loops the number of rounds is known.
        known = self.rng.random() < 0.3
        last = self.number(b, int(self.rng.integers(0, 4)), i64) if known else b(nn.Mod, self.pick(pool, i64), self.number(b, 4, i64))
        types = [first.type, *(v.type for v in inits)]
        test = Block([*types, *(v.type for v in (*captured, last))])
        inner = Builder.at_end(test)
        inner.insert(nn.Yield([inner(nn.Less, test.args[0], test.args[-1])]))
        block, inner, _, ends = self.body(types, [*captured, last], types[1:], depth)
        inner.insert(nn.Yield([inner(nn.Add, block.args[0], self.number(inner, 1, i64)), *ends]))
        made = b(nn.While, [first, *inits], [*captured, last], condition=Region(test), body=Region(block))
        return list(made[1:])

    def scan(self, b: Builder, pool: list[Value], depth: int) -> list[Value]:
        captured = self.captured(pool)
        x = next(v for v in reversed(pool) if v.type.dtype == self.dtype and v.type.rank == 2)
        inits = [self.pick(pool) for _ in range(int(self.rng.integers(0, 3)))]
        types = [x.type.with_shape(x.type.shape[1:]), *(v.type for v in inits)]
        block, inner, inside, ends = self.body(types, captured, types[1:], depth)
        given = [self.pick(inside, TensorType((3,), self.dtype))]
        inner.insert(nn.Yield([*ends, *given]))
        made = b(nn.Scan, [x], inits, captured, steps=x.type.shape[0], reverse=bool(self.rng.random() < 0.5), body=Region(block))
        return list(made) if isinstance(made, tuple) else [made]
