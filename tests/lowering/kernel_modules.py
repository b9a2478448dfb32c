"""Building small kernel modules, and running them as machine code beside their meaning on numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, f32, index
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.schedule.bufferize import outline_constants
from polyreme.runtime.threads import get_num_threads, set_num_threads


class KernelBuilder(Builder):
    """A builder with the few words that tests need again and again."""

    def number(self, value):
        return self(kernel.Constant, value=value, dtype=index)

    def constant(self, value, dtype, lanes=1):
        return self(kernel.Broadcast, self(kernel.Constant, value=value, dtype=dtype), lanes=lanes)

    def apply(self, fn, *xs, dtype=None):
        return self(kernel.Apply, *xs, fn=fn, dtype=dtype)

    @contextmanager
    def loop(self, lo, hi, inits=(), step=1) -> Iterator[tuple]:
        """`with b.loop(…) as (i, carried, passed)`: what the body appends to `passed` is carried on; it holds the results afterwards."""
        op = kernel.For.empty(lo, hi, inits, step=step)
        passed: list = []
        with self.inside(op.block):
            yield op.block.args[0], op.block.args[1:], passed
            self(kernel.Yield, *passed)
        self.insert_op(op)
        passed[:] = op.results

    @contextmanager
    def parallel(self, count, grain=1) -> Iterator:
        op = kernel.Parallel.empty(count, grain)
        with self.inside(op.block):
            yield op.block.args[0]
            self(kernel.Yield)
        self.insert_op(op)


def function(module, name, types, roles=(), names=()):
    """An empty function of `module`, and a builder at its end; call `finish` when it is whole."""
    func = Func.empty(name, types, arg_names=names or [f"a{i}" for i in range(len(types))], arg_roles=tuple(roles))
    module.block.append(func)
    return func, KernelBuilder.at_end(func.block)


def one_function(inputs: Sequence[BufferType], outputs: Sequence[BufferType]):
    """(module, main's arguments, builder) of a module that has only a `main`."""
    module = Module.empty()
    roles = ["input"] * len(inputs) + ["output"] * len(outputs)
    func, b = function(module, "main", [*inputs, *outputs], roles)
    return module, func.args, b


def finish(b) -> None:
    b(Return, ())


def compiled(module, arrays, target=None):
    """The outputs of the module's machine code."""
    return load(build_artifact(module.clone(), target or host())).run(list(arrays))


def both(module, arrays):
    """(outputs of the machine code, outputs by the meaning on numpy)."""
    return compiled(module, arrays), evaluate(module, [np.array(a) for a in arrays])


def assert_same(module, arrays, rtol=0.0, atol=0.0):
    """Machine code and meaning agree: bit for bit, but for the sign of zeros and nans, when no tolerance is given."""
    got, want = both(module, arrays)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol)


def apply_compiled(name, arrays, lanes, dtype=f32, target=None):
    """Row `name` of the scalar functions on arrays of the same size, a multiple of `lanes`, in a kernel of vectors."""
    n = len(arrays[0])
    module, args, b = one_function([BufferType((n,), dtype)] * len(arrays), [BufferType((n,), dtype)])
    with b.loop(b.number(0), b.number(n), step=lanes) as (i, _, _):
        b(kernel.Store, b.apply(name, *(b(kernel.Load, a, i, lanes=lanes) for a in args[:-1])), args[-1], i)
    finish(b)
    return compiled(module, arrays, target)[0]


def register_tile(rows=6, columns=4, depth=64, lanes=16):
    """C += A * B for one register tile of rows x (columns * lanes): the shape of the matrix product's inner loop."""
    width = columns * lanes
    module, args, b = one_function([BufferType((rows, depth), f32), BufferType((depth, width), f32)], [BufferType((rows, width), f32)])
    zero = b.constant(0.0, f32, lanes)
    with b.loop(b.number(0), b.number(depth), [zero] * (rows * columns)) as (k, totals, passed):
        start = b.apply("mul", k, b.number(width))
        vectors = [b(kernel.Load, args[1], b.apply("add", start, b.number(c * lanes)), lanes=lanes) for c in range(columns)]
        for r in range(rows):
            scalar = b(kernel.Load, args[0], b.apply("add", k, b.number(r * depth)))
            x = b(kernel.Broadcast, scalar, lanes=lanes)
            passed += [b(kernel.Fma, x, vectors[c], totals[r * columns + c]) for c in range(columns)]
    for n, total in enumerate(passed):
        b(kernel.Store, total, args[2], b.number(n * lanes))
    finish(b)
    return module


def on_threads(module: Module, target: Target, inputs: Sequence[np.ndarray], counts: Sequence[int] = (1, 2, 3)) -> list[np.ndarray]:
    """The first result of a module, lowered for `target`, on each number of threads."""
    executable = load(build_artifact(module, target, "threads", outline_constants(module)))
    before, found = get_num_threads(), []
    try:
        for threads in counts:
            set_num_threads(threads)
            found.append(np.array(executable.run(inputs)[0]))
    finally:
        set_num_threads(before)
    return found
