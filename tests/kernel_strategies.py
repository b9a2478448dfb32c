"""Random valid modules at the `kernel` level; `tests.strategies.modules("kernel")` is the way to ask for them.

`main` allocates buffers and calls one to three kernels, each of which fills the buffers of its own from inputs and earlier buffers. A
kernel is one of a few shapes of loops around a random expression, whose leaves are loads: whole vectors under a mask, gathers at positions
modulo a size, scalars. Every position is inside its buffer and no iteration of a parallel loop writes what another one touches, by
construction. Every buffer is written wholly before it is read, which the evaluator's nan would show.
"""

import math

import numpy as np
from hypothesis import strategies as st

from polyreme.dialects import kernel
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import Expr, substitute, symbol
from polyreme.ir.types import BufferType, f32, i32, index

LANES = (1, 2, 4, 8, 16)
UNARY = ("neg", "abs", "tanh", "sigmoid", "sin", "cos", "floor")
BINARY = ("add", "sub", "mul", "max", "min")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


def grow_kernel_module(draw, symbolic):
    """(module, inputs, sizes) of a random module whose `main` takes one to three inputs and gives one or two outputs."""
    sizes = {"N": draw(st.integers(1, 4))} if symbolic else {}
    module = Module.empty()
    # The first input's first axis is what gives N its value.
    shapes = [_shape(draw, sizes, i == 0) for i in range(draw(st.integers(1, 3)))]
    results = [_shape(draw, sizes) for _ in range(draw(st.integers(1, 2)))]
    types = [BufferType(s, f32) for s in (*shapes, *results)]
    names = [f"x{i}" for i in range(len(shapes))] + [f"y{i}" for i in range(len(results))]
    roles = ("input",) * len(shapes) + ("output",) * len(results)
    main = Func.empty("main", types, (), names, arg_roles=roles)
    module.block.append(main)
    b = Builder.at_end(main.block)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    readable = list(main.args[: len(shapes)])
    if draw(st.booleans()):
        readable.append(b(kernel.Data, value=Dense(_numbers(rng, (draw(st.integers(1, 9)),)))))
    outputs = list(main.args[len(shapes) :])
    # Whether there is another buffer between is asked in front of it, so that what is drawn for it can be left out as one piece.
    for number, output in enumerate([None, None, *outputs]):
        if output is None and not draw(st.booleans()):
            continue
        target = b(kernel.Alloc, shape=_shape(draw, sizes), dtype=f32) if output is None else output
        read = [_viewed(draw, b, draw(st.sampled_from(readable)))]
        if draw(st.booleans()):
            read.append(_viewed(draw, b, draw(st.sampled_from(readable))))
        _call_kernel(draw, module, b, f"k{number}", list(dict.fromkeys(read)), target)
        readable.append(target)
    b(Return, ())
    main.finish()
    inputs = [_numbers(rng, tuple(int(substitute(d, sizes)) for d in s)) for s in shapes]
    return module, inputs, sizes


def _numbers(rng, shape):
    return (rng.integers(-16, 17, shape) / 8).astype(np.float32)


def _shape(draw, sizes, first=False):
    shape = draw(st.lists(st.integers(1, 6), min_size=1 if first else 0, max_size=2))
    if sizes and shape and (first or draw(st.booleans())):
        shape[0] = symbol("N")
    return tuple(shape)


def _viewed(draw, b, buffer):
    """The buffer, or all of it in one row."""
    if buffer.type.rank == 0 or not draw(st.booleans()):
        return buffer
    return b(kernel.View, buffer, None, shape=(buffer.type.elements,))


def _call_kernel(draw, module, b, name, read, target):
    """A kernel that fills `target` from the buffers in `read`, and its call; it may take the number of elements as an argument."""
    given = draw(st.booleans())
    types = [*(r.type for r in read), target.type, *([index] if given else [])]
    func = Func.empty(name, types, (), [*(f"a{i}" for i in range(len(read))), "out", *(["n"] if given else [])])
    module.block.append(func)
    w = _Writer(draw, func, len(read))
    n = func.args[-1] if given else w.size(target.type.elements)
    draw(st.sampled_from(SHAPES))(w, n)
    w.b(Return, ())
    func.finish()
    b(kernel.Call, [*read, target, *([b(kernel.Size, value=target.type.elements)] if given else [])], callee=name)


class _Writer:
    """The kernel being written: `read` may be loaded from, `out` is to be filled."""

    def __init__(self, draw, func, count):
        self.draw = draw
        self.read = list(func.args[:count])
        self.out = func.args[count]
        self.b = Builder.at_end(func.block)

    def number(self, value, dtype=index):
        return self.b(kernel.Constant, value=value, dtype=dtype)

    def size(self, dim):
        return self.b(kernel.Size, value=dim) if isinstance(dim, Expr) or self.draw(st.booleans()) else self.number(dim)

    def apply(self, fn, *xs, dtype=None):
        return self.b(kernel.Apply, *xs, fn=fn, dtype=dtype)

    def splat(self, x, lanes):
        return self.b(kernel.Broadcast, x, lanes=lanes)

    def rounds(self, n, lanes):
        """How many steps of `lanes` cover `n` elements."""
        return self.apply("div", self.apply("add", n, self.number(lanes - 1)), self.number(lanes))

    def inside(self, op):
        """Write the body of a loop, whose op is inserted by `self.b.insert`."""
        return self.b.inside(op.block)

    # --- expressions: a float in each of `lanes`, for the elements from `at` on, of which those in `mask` matter

    def expression(self, at, lanes, mask, depth):
        if depth == 0:
            return self.leaf(at, lanes, mask)
        return self.draw(st.sampled_from(EXPRESSIONS))(self, at, lanes, mask, depth - 1)

    def leaf(self, at, lanes, mask):
        source = self.draw(st.sampled_from(self.read))
        same = source.type.elements == self.out.type.elements
        kind = self.draw(st.sampled_from(["elements", "around", "one", "number"]))
        if kind == "elements" and same:
            return self.b(kernel.Load, source, at, mask, lanes=lanes)
        if kind == "number":
            return self.splat(self.number(self.draw(st.integers(-8, 8)) / 4, f32), lanes)
        count = self.size(source.type.elements)
        if kind == "one" or lanes == 1:
            return self.splat(self.b(kernel.Load, source, self.apply("mod", at, count)), lanes)
        positions = self.apply("add", self.b(kernel.Iota, lanes=lanes), self.splat(at, lanes))
        return self.b(kernel.Gather, source, self.apply("mod", positions, self.splat(count, lanes)), mask)


def _unary(w, at, lanes, mask, depth):
    return w.apply(w.draw(st.sampled_from(UNARY)), w.expression(at, lanes, mask, depth))


def _binary(w, at, lanes, mask, depth):
    """A product of two bounded values, or what does not grow."""
    x, y = (w.expression(at, lanes, mask, d) for d in (depth, 0))
    return w.apply(w.draw(st.sampled_from(BINARY)), x, y)


def _fma(w, at, lanes, mask, depth):
    x, y, z = (w.expression(at, lanes, mask, d) for d in (0, 0, depth))
    return w.b(kernel.Fma, x, y, z)


def _select(w, at, lanes, mask, depth):
    """By comparing what is loaded, which is exact."""
    condition = w.apply(w.draw(st.sampled_from(COMPARE)), *(w.leaf(at, lanes, mask) for _ in range(2)))
    return w.apply("select", condition, *(w.expression(at, lanes, mask, d) for d in (depth, 0)))


def _branch(w, at, lanes, mask, depth):
    """One way for the elements before a place, another from there on."""
    condition = w.apply("lt", at, w.number(w.draw(st.integers(0, 8))))
    op = kernel.If.empty(condition, [kernel.of_lanes(f32, lanes)])
    for region, d in ((op.then_body, depth), (op.else_body, 0)):
        with w.b.inside(region.block):
            w.b(kernel.Yield, w.expression(at, lanes, mask, d))
    return w.b.insert(op)


def _lanes(w, at, lanes, mask, depth):
    """Lanes moved about."""
    x = w.expression(at, lanes, mask, depth)
    if lanes == 1:
        return x
    kind = w.draw(st.sampled_from(["shuffle", "permute", "insert", "reduce"]))
    if kind == "shuffle":
        picked = w.draw(st.lists(st.integers(0, 2 * lanes - 1), min_size=lanes, max_size=lanes))
        return w.b(kernel.Shuffle, x, w.leaf(at, lanes, mask), lanes=picked)
    if kind == "permute":
        places = w.splat(w.number(0, i32), lanes)
        for lane, place in enumerate(w.draw(st.lists(st.integers(0, lanes - 1), min_size=lanes, max_size=lanes))):
            places = w.b(kernel.Insert, places, w.number(place, i32), lane=lane)
        return w.b(kernel.Permute, x, places)
    if kind == "insert":
        one = w.b(kernel.Extract, x, lane=w.draw(st.integers(0, lanes - 1)))
        return w.b(kernel.Insert, x, one, lane=w.draw(st.integers(0, lanes - 1)))
    return w.splat(w.b(kernel.Reduce, x, fn=w.draw(st.sampled_from(["max", "min"]))), lanes)


def _whole(w, at, lanes, mask, depth):
    """Integers for a while."""
    scaled = w.apply("mul", w.leaf(at, lanes, mask), w.splat(w.number(8.0, f32), lanes))
    whole = w.apply("cast", scaled, dtype=i32)
    other = w.splat(w.number(w.draw(st.sampled_from([-3, 2, 7])), i32), lanes)
    fn = w.draw(st.sampled_from(["add", "sub", "mul", "max", "min", "div", "mod", "and", "or", "xor"]))
    return w.apply("cast", w.apply(fn, whole, other), dtype=f32)


EXPRESSIONS = [_unary, _unary, _binary, _binary, _fma, _select, _branch, _lanes, _whole]


# --- shapes of kernels: each fills all `n` elements of the output


def _by_vectors(w, n):
    """A loop over vectors, or over parallel tasks of one vector, the last of which is masked."""
    lanes = w.draw(st.sampled_from(LANES))
    if w.draw(st.booleans()):
        op = kernel.Parallel.empty(w.rounds(n, lanes), grain=w.draw(st.integers(1, 3)))
    else:
        op = kernel.For.empty(w.number(0), w.rounds(n, lanes))
    with w.inside(op):
        at = w.apply("mul", op.block.args[0], w.number(lanes))
        mask = w.b(kernel.LaneMask, w.apply("sub", n, at), lanes=lanes)
        value = w.expression(at, lanes, mask, w.draw(st.integers(0, 3)))
        w.b(kernel.Store, value, w.out, at, mask)
        w.b(kernel.Yield)
    w.b.insert(op)


def _backwards(w, n):
    """Every element to the mirrored place, by scatter or one by one."""
    lanes = w.draw(st.sampled_from(LANES))
    op = kernel.For.empty(w.number(0), n, step=lanes)
    last = w.apply("sub", n, w.number(1))
    with w.inside(op):
        at = op.block.args[0]
        mask = w.b(kernel.LaneMask, w.apply("sub", n, at), lanes=lanes)
        value = w.expression(at, lanes, mask, w.draw(st.integers(0, 2)))
        positions = w.splat(w.apply("sub", last, at), lanes)
        if lanes > 1:
            positions = w.apply("sub", positions, w.b(kernel.Iota, lanes=lanes))
        w.b(kernel.Scatter, value, w.out, positions, mask)
        w.b(kernel.Yield)
    w.b.insert(op)


def _reduction(w, n):
    """What a loop carries over all elements of an input goes to every element of the output."""
    source = w.draw(st.sampled_from(w.read))
    fn = w.draw(st.sampled_from(["add", "max", "min"]))
    start = w.number({"add": 0.0, "max": -math.inf, "min": math.inf}[fn], f32)
    op = kernel.For.empty(w.number(0), w.size(source.type.elements), [start])
    with w.inside(op):
        at, so_far = op.block.args
        w.b(kernel.Yield, w.apply(fn, so_far, w.b(kernel.Load, source, at)))
    total = w.b.insert(op)
    op = kernel.Parallel.empty(n)
    with w.inside(op):
        at = op.block.args[0]
        w.b(kernel.Store, w.apply("add", total, w.leaf(at, 1, None)), w.out, at)
        w.b(kernel.Yield)
    w.b.insert(op)


def _through_scratch(w, n):
    """Blocks of elements go through local memory, where they change places."""
    width = w.draw(st.integers(1, 5))
    op = kernel.Parallel.empty(w.rounds(n, width))
    with w.inside(op):
        first = w.apply("mul", op.block.args[0], w.number(width))
        scratch = w.b(kernel.Alloc, shape=(width,), dtype=f32, space="local")
        fill = kernel.For.empty(w.number(0), w.number(width))
        with w.inside(fill):
            at = fill.block.args[0]
            place = w.apply("min", w.apply("add", first, at), w.apply("sub", n, w.number(1)))
            w.b(kernel.Store, w.expression(place, 1, None, w.draw(st.integers(0, 2))), scratch, at)
            w.b(kernel.Yield)
        w.b.insert(fill)
        drain = kernel.For.empty(first, w.apply("min", w.apply("add", first, w.number(width)), n))
        with w.inside(drain):
            at = drain.block.args[0]
            back = w.apply("sub", w.number(width - 1), w.apply("sub", at, first))
            w.b(kernel.Store, w.b(kernel.Load, scratch, back), w.out, at)
            w.b(kernel.Yield)
        w.b.insert(drain)
        w.b(kernel.Yield)
    w.b.insert(op)


SHAPES = [_by_vectors, _by_vectors, _backwards, _reduction, _through_scratch]
