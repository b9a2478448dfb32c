"""Hypothesis strategies: random valid modules with inputs, at every level.

    level     what there is in it
    nn        most ops, with symbolic sizes
    dist      the same with collectives among them, for one rank
    control   `nn` ops with branches and loops inside one another; see `tests/control_programs.py`
    tensor    every op but `random`, one by one
    fused     the same with runs of ops gathered in `tensor.fused` regions
    kernel    buffers, kernels and calls; see `tests/kernel_strategies.py`

    @given(modules("nn"))
    def test_lowering_keeps_what_is_computed(sample):
        assert_same(evaluate(lower(sample.module), sample.inputs), evaluate(sample.module, sample.inputs))

Above the kernel level, `main` takes one to three arguments, some with a symbolic first axis, and is grown op by op from the values there
are. Numbers stay moderate: inputs are eighths in [-2, 2], functions that grow fast or jump are applied to bounded values or left out, so
that results of two correct implementations agree to rounding. Comparisons, positions of maxima and other jumps are taken of arguments only,
whose values are exact.
"""

import math
from copy import copy
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from polyreme.dialects import dist, nn, tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Region
from polyreme.ir.dims import Expr, substitute, symbol
from polyreme.ir.text import print_module
from polyreme.ir.types import TensorType, f32, i32, i64
from tests.control_programs import random_program
from tests.kernel_strategies import grow_kernel_module

LEVELS = ("nn", "dist", "control", "tensor", "fused", "kernel")
MAX_RANK = 5
MAX_ELEMENTS = 4096


@dataclass(frozen=True, repr=False)
class Sample:
    """A module and inputs for its `main`; `sizes` are the values of its symbols."""

    module: Module
    inputs: list
    sizes: dict

    def __repr__(self):
        return f"\n{print_module(self.module)}# inputs: {[x.shape for x in self.inputs]}, sizes: {self.sizes}"


@st.composite
def modules(draw, level="tensor", max_ops=8, symbolic=None, rules=None):
    """Samples at `level`, one of `LEVELS`. `symbolic` says whether some sizes are names (None: either).

    `max_ops` and `rules`, which replaces the table of what may be grown, are for levels above the kernels'.
    """
    symbolic = draw(st.booleans()) if symbolic is None else symbolic
    if level == "kernel":
        return Sample(*grow_kernel_module(draw, symbolic))
    if level == "control":
        program = random_program(draw(st.integers(0, 1 << 20)), sizes=symbolic)
        return Sample(program.module, program.inputs, program.sizes)
    grower = _Grower(draw, level, symbolic)
    table = rules if rules is not None else RULES[level]
    for _ in range(draw(st.integers(min(2, max_ops), max_ops))):
        made = draw(st.sampled_from(table))(grower)
        if made is not None and _elements(made.type, grower.sizes) <= MAX_ELEMENTS:
            grower.values.append(made)
    grown = grower.values[len(grower.args) :] or grower.values
    count = draw(st.integers(1, min(2, len(grown))))
    sample = grower.finish(grown[-count:])
    if level == "fused":
        _fuse_runs(draw, sample.module.function().block)
    return sample


def _fuse_runs(draw, block):
    """Put one or two runs of neighbouring ops into `tensor.fused` regions of their own."""
    for _ in range(draw(st.integers(1, 2))):
        ops = [op for op in block.ops[:-1] if not op.regions]
        if ops:
            first = draw(st.integers(0, len(ops) - 1))
            run = [ops[first]]
            for _ in range(draw(st.integers(0, 4))):
                if run[-1].next in ops:
                    run.append(run[-1].next)
            _fuse(block, run)


def _fuse(block, run):
    """The neighbours in `run` become a region, in the place of the last of them."""
    made = [r for op in run for r in op.results]
    taken = list(dict.fromkeys(v for op in run for v in op.operands if v not in made))
    given = [r for r in made if any(user not in run for user in r.users)] or [run[-1].results[0]]
    body = Block([v.type for v in taken])
    inside = dict(zip(taken, body.args, strict=True))
    for op in run:
        body.append(op.clone(inside))
    Builder.at_end(body)(tensor.Yield, [inside[v] for v in given])
    fused = block.insert(tensor.Fused(taken, body=Region(body)), run[-1].next)
    for old, new in zip(given, fused.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(run):
        op.erase()


def _elements(kind, sizes):
    return math.prod(int(substitute(d, sizes)) for d in kind.shape)


class _Grower:
    """A function being built: what rules draw from and add to."""

    def __init__(self, draw, level, symbolic):
        self.draw = draw
        self.dialect = nn if level in ("nn", "dist") else tensor
        self.sizes = {"N": draw(st.integers(1, 4))} if symbolic else {}
        types = [TensorType(self.shape(first=i == 0), f32) for i in range(draw(st.integers(1, 3)))]
        if draw(st.booleans()):
            types.append(types[0])
        self.func = Func.empty("main", types, (), [f"x{i}" for i in range(len(types))])
        self.args = list(self.func.args)
        self.values = list(self.args)
        self.b = Builder.at_end(self.func.block)
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def shape(self, first=False):
        shape = self.draw(st.lists(st.integers(1, 5), min_size=1 if first else 0, max_size=4))
        if self.sizes and shape and (first or self.draw(st.booleans())):
            shape[0] = symbol("N")
        return tuple(shape)

    def numbers(self, shape):
        return (self.rng.integers(-16, 17, shape) / 8).astype(np.float32)

    def constant(self, array):
        return self.b(self.dialect.Constant, value=Dense(array))

    def parameter(self, shape):
        """A constant of a known shape, or an argument of any shape."""
        if all(isinstance(d, int) for d in shape) and self.draw(st.booleans()):
            return self.constant(self.numbers(shape))
        value = self.func.block.add_arg(TensorType(tuple(shape), f32), f"w{len(self.args)}")
        self.args.append(value)
        return value

    def step(self, types, shared):
        """A grower of the body of a scan, whose arguments are of `types`; parameters that it makes come in by `shared`."""
        inner = copy(self)
        block = Block(types)
        inner.b = Builder.at_end(block)
        inner.values = list(block.args)

        def parameter(shape):
            shared.append(self.parameter(shape))
            return block.add_arg(shared[-1].type)

        inner.parameter = parameter
        return inner

    def pick(self, least_rank=0, most_rank=MAX_RANK, where=lambda value: True):
        """One of the values so far, favouring late ones; None when none fits."""
        fitting = [v for v in self.values if least_rank <= v.type.rank <= most_rank and v.type.dtype == f32 and where(v)]
        return fitting[-1 - self.draw(st.integers(0, len(fitting) - 1))] if fitting else None

    def axis(self, value):
        return self.draw(st.integers(0, value.type.rank - 1))

    def axes(self, value, least=0):
        picked = (
            self.draw(st.sets(st.integers(0, value.type.rank - 1), min_size=least, max_size=value.type.rank)) if value.type.rank else set()
        )
        return tuple(sorted(picked))

    def static(self, value, axis):
        return isinstance(value.type.shape[axis], int)

    def finish(self, results):
        Builder.at_end(self.func.block)(Return, results)
        names = tuple(a.name for a in self.func.args)
        self.func.attributes["arg_names"] = names
        module = Module.empty()
        module.block.append(self.func.finish())
        inputs = [self.numbers(tuple(int(substitute(d, self.sizes)) for d in a.type.shape)) for a in self.func.args]
        return Sample(module, inputs, dict(self.sizes))


# --- rules of both levels: each adds an op and gives its value, or None when nothing fits

SMOOTH = ("tanh", "sigmoid", "sin", "cos", "erf", "neg", "abs")


def _broadcastable(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(a.type.shape, b.type.shape, strict=True))


def _partner(g, x):
    """A value that goes with `x` elementwise: of equal rank, or a number."""
    found = g.pick(where=lambda v: v.type.rank == 0 or (v.type.rank == x.type.rank and _broadcastable(v, x)))
    if found is not None and g.draw(st.booleans()):
        return found
    return g.parameter(tuple(d if isinstance(d, Expr) or g.draw(st.booleans()) else 1 for d in x.type.shape))


def _reshaped(g, x):
    """Another shape for the elements of `x`: axes merged, split, or of size 1 added or dropped."""
    shape = list(x.type.shape)
    kind = g.draw(st.sampled_from(["merge", "split", "add", "drop"]))
    if kind == "merge" and len(shape) > 1:
        at = g.draw(st.integers(0, len(shape) - 2))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif kind == "split" and shape and isinstance(shape[at := g.axis(x)], int):
        part = g.draw(st.sampled_from([d for d in range(1, shape[at] + 1) if shape[at] % d == 0]))
        shape[at : at + 1] = [part, shape[at] // part]
    elif kind == "add":
        shape.insert(g.draw(st.integers(0, len(shape))), 1)
    elif 1 in shape:
        shape.remove(1)
    return tuple(shape) if len(shape) <= MAX_RANK else None


def reshape(g):
    x = g.pick()
    shape = _reshaped(g, x)
    return None if shape is None else g.b(g.dialect.Reshape, x, shape=shape)


def transpose(g):
    x = g.pick(least_rank=1)
    return x and g.b(g.dialect.Transpose, x, perm=g.draw(st.permutations(range(x.type.rank))))


def slice_(g):
    x = g.pick(least_rank=1)
    if x is None:
        return None
    starts, stops, strides = [], list(x.type.shape), [1] * x.type.rank
    for axis, size in enumerate(x.type.shape):
        starts.append(g.draw(st.integers(0, size - 1)) if isinstance(size, int) else 0)
        if isinstance(size, int):
            stops[axis] = g.draw(st.integers(starts[axis] + 1, size))
            strides[axis] = g.draw(st.integers(1, 3))
    return g.b(g.dialect.Slice, x, starts=starts, stops=stops, strides=strides)


def concat(g):
    x = g.pick(least_rank=1)
    if x is None:
        return None
    axis = g.axis(x)
    other = g.pick(least_rank=x.type.rank, most_rank=x.type.rank, where=lambda v: _equal_but(v, x, axis))
    return g.b(g.dialect.Concat, [x, other] if g.draw(st.booleans()) else [other, x, x], axis=axis)


def _equal_but(a, b, axis):
    return all(x == y for i, (x, y) in enumerate(zip(a.type.shape, b.type.shape, strict=True)) if i != axis)


def _with_positions(g):
    """A value, an axis, and positions along it; None where no value has an axis of known size."""
    x = g.pick(least_rank=1, where=lambda v: any(isinstance(d, int) for d in v.type.shape))
    if x is None:
        return None
    axis = g.draw(st.sampled_from([i for i in range(x.type.rank) if g.static(x, i)]))
    shape = g.draw(st.lists(st.integers(1, 3), max_size=2))
    if x.type.rank - 1 + len(shape) > MAX_RANK:
        return None
    return x, axis, g.constant(g.rng.integers(0, x.type.shape[axis], shape).astype(np.int64))


def gather(g):
    found = _with_positions(g)
    return found and g.b(g.dialect.Gather, found[0], found[2], axis=found[1])


def scatter(g):
    """Elements written, or added, to where they were read."""
    found = _with_positions(g)
    if found is None:
        return None
    x, axis, index = found
    part = g.b(g.dialect.Gather, x, index, axis=axis)
    if g.dialect is nn:
        return (
            g.b(nn.Scatter, x, g.b(nn.Neg, part), index, axis=axis)
            if g.draw(st.booleans())
            else g.b(nn.ScatterAdd, part, index, axis=axis, size=x.type.shape[axis])
        )
    return g.b(tensor.Scatter, x, index, g.b(tensor.Map, part, fn="neg"), axis=axis, fn=g.draw(st.sampled_from(["add", "set"])))


def full(g):
    return g.b(g.dialect.Full, value=g.draw(st.integers(-8, 8)) / 4, shape=g.shape(), dtype=f32)


# --- tensor level


def map_one(g):
    return g.b(tensor.Map, g.pick(), fn=g.draw(st.sampled_from(SMOOTH)))


def map_two(g):
    x = g.pick()
    pair = [x, _partner(g, x)]
    if g.draw(st.booleans()):
        pair.reverse()
    return g.b(tensor.Map, *pair, fn=g.draw(st.sampled_from(["add", "sub", "mul", "max", "min"])))


def map_divide(g):
    """x / (|y| + 1), whose divisor is far from 0."""
    x = g.pick()
    below = g.b(tensor.Map, _partner(g, x), fn="abs")
    one = g.b(tensor.Full, value=1.0, dtype=f32)
    return g.b(tensor.Map, x, g.b(tensor.Map, below, one, fn="add"), fn="div")


def map_exp(g):
    """exp(-|x|), which cannot grow."""
    return g.b(tensor.Map, g.b(tensor.Map, g.b(tensor.Map, g.pick(), fn="abs"), fn="neg"), fn="exp")


def map_select(g):
    x = g.draw(st.sampled_from(g.func.args))
    other = g.parameter(x.type.shape)
    condition = g.b(tensor.Map, x, other, fn=g.draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])))
    return g.b(tensor.Map, condition, x, other, fn="select")


def integers(g):
    """Whole numbers made of an argument, combined, and turned back; floor and remainder are of a known divisor."""
    x = g.draw(st.sampled_from(g.func.args))
    eight = g.b(tensor.Full, value=8.0, dtype=f32)
    whole = g.b(tensor.Map, g.b(tensor.Map, x, eight, fn="mul"), fn="cast", dtype=i32)
    fn = g.draw(st.sampled_from(["add", "sub", "mul", "max", "min", "div", "floor_divide", "mod"]))
    other = whole if fn in ("add", "mul", "max") else g.b(tensor.Full, value=g.draw(st.sampled_from([-3, 2, 7])), dtype=i32)
    return g.b(tensor.Map, g.b(tensor.Map, whole, other, fn=fn), fn="cast", dtype=f32)


def reduce(g):
    x = g.pick()
    fn = g.draw(st.sampled_from(["add", "max", "min"]))
    return g.b(tensor.Reduce, x, fn=fn, axes=g.axes(x), keepdims=g.draw(st.booleans()))


def arg_reduce(g):
    args = [a for a in g.func.args if a.type.rank]
    if not args:
        return None
    x = g.draw(st.sampled_from(args))
    found = g.b(tensor.ArgReduce, x, fn=g.draw(st.sampled_from(["max", "min"])), axis=g.axis(x), keepdims=g.draw(st.booleans()), dtype=i64)
    return g.b(tensor.Map, found, fn="cast", dtype=f32)


def cumulate(g):
    x = g.pick(least_rank=1)
    return x and g.b(tensor.Cumulate, x, fn=g.draw(st.sampled_from(["add", "max", "min"])), axis=g.axis(x))


def argsort(g):
    # Of arguments: what is computed may differ in its last bit, and so in its order.
    args = [a for a in g.func.args if a.type.rank]
    if not args:
        return None
    places = g.b(
        tensor.Argsort, g.draw(st.sampled_from(args)), descending=g.draw(st.booleans()), count=g.draw(st.sampled_from([None, 1, 2]))
    )
    return g.b(tensor.Map, places, fn="cast", dtype=f32)


def contract(g):
    x = g.pick(least_rank=1, most_rank=4)
    if x is None:
        return None
    roles = [g.draw(st.sampled_from(["free", "batch", "contracted"])) for _ in x.type.shape]
    letters = "abcd"[: x.type.rank]
    sizes = dict(zip(letters, x.type.shape, strict=True))
    sizes.update({c: g.draw(st.integers(1, 4)) for c in "mn"[: g.draw(st.integers(0, 2))]})
    shared = [c for c, role in zip(letters, roles, strict=True) if role != "free"]
    second = g.draw(st.permutations([*shared, *(c for c in sizes if c in "mn")]))
    kept = [c for c, role in zip(letters, roles, strict=True) if role != "contracted"] + [c for c in sizes if c in "mn"]
    if len(kept) > MAX_RANK:
        return None
    y = g.parameter(tuple(sizes[c] for c in second))
    out = g.draw(st.permutations(kept))
    first, pair = (letters, x), ("".join(second), y)
    (a, left), (b, right) = (first, pair) if g.draw(st.booleans()) else (pair, first)
    return g.b(tensor.Contract, left, right, spec=f"{a},{b}->{''.join(out)}")


def broadcast(g):
    x = g.pick(least_rank=1)
    return x and g.b(tensor.Broadcast, x, shape=tuple(g.draw(st.integers(1, 4)) if d == 1 else d for d in x.type.shape))


def reverse(g):
    x = g.pick(least_rank=1)
    return x and g.b(tensor.Reverse, x, axes=g.axes(x))


def pad(g):
    x = g.pick(least_rank=1)
    if x is None:
        return None
    low, high, interior = ([g.draw(st.integers(0, 2)) for _ in x.type.shape] for _ in range(3))
    return g.b(tensor.Pad, x, low=low, high=high, interior=interior, value=g.draw(st.sampled_from([0.0, -1.5])))


def window(g):
    """Windows, reduced or left as they are."""
    x = g.pick(least_rank=1, most_rank=3, where=lambda v: any(isinstance(d, int) for d in v.type.shape))
    if x is None:
        return None
    axes = [i for i in range(x.type.rank) if g.static(x, i) and g.draw(st.booleans())][:2]
    windows = [_window(g, x.type.shape[i]) for i in axes]
    sizes, strides, dilations = zip(*windows, strict=True) if windows else ((), (), ())
    seen = g.b(tensor.Window, x, axes=axes, sizes=sizes, strides=strides, dilations=dilations)
    if g.draw(st.booleans()):
        return seen
    fn = g.draw(st.sampled_from(["add", "max"]))
    return g.b(tensor.Reduce, seen, fn=fn, axes=tuple(range(x.type.rank, seen.type.rank)))


def _window(g, size):
    """Size, stride and dilation of windows that fit into `size` elements."""
    dilation = g.draw(st.integers(1, 2))
    most = (size - 1) // dilation + 1
    return g.draw(st.integers(1, min(most, 3))), g.draw(st.integers(1, 3)), dilation


def fold(g):
    """The adjoint of windows, over those of a value."""
    x = g.pick(least_rank=1, most_rank=3, where=lambda v: isinstance(v.type.shape[-1], int))
    if x is None:
        return None
    axis, length = x.type.rank - 1, x.type.shape[-1]
    size, stride, dilation = _window(g, length)
    seen = g.b(tensor.Window, x, axes=[axis], sizes=[size], strides=[stride], dilations=[dilation])
    return g.b(tensor.Fold, seen, axes=[axis], sizes=[length], strides=[stride], dilations=[dilation])


def iota(g):
    shape = g.shape(first=True)
    return g.b(tensor.Iota, shape=shape, axis=g.draw(st.integers(0, len(shape) - 1)), dtype=f32)


def scan(g):
    """Up to four steps that hand on a bounded value, made by a few smooth ops of their own."""
    x = g.pick(least_rank=1, most_rank=4, where=lambda v: isinstance(v.type.shape[0], int))
    first = g.pick(most_rank=3)
    if x is None or first is None:
        return None
    more = g.pick(least_rank=1, most_rank=4, where=lambda v: v.type.shape[0] == x.type.shape[0])
    xs, inits, shared = [x, more], [first, g.b(tensor.Map, first, fn="tanh")], []
    inner = g.step([*(v.type.with_shape(v.type.shape[1:]) for v in xs), *(v.type for v in inits)], shared)
    for _ in range(g.draw(st.integers(1, 4))):
        made = g.draw(st.sampled_from(STEP_RULES))(inner)
        if made is not None and _elements(made.type, g.sizes) <= MAX_ELEMENTS // 8:
            inner.values.append(made)
    handed = [inner.pick(where=lambda v, k=v.type: v.type == k) for v in inits]
    inner.b(tensor.Yield, [*(inner.b(tensor.Map, v, fn="tanh") for v in handed), inner.values[-1]])
    made = g.b(tensor.Scan, xs, inits, shared, steps=x.type.shape[0], reverse=g.draw(st.booleans()), body=Region(inner.b.block))
    g.values += [v for v in made[:-1] if g.draw(st.booleans())]
    return made[-1]


STEP_RULES = [map_one, map_two, map_exp, reduce, contract, contract, reshape, transpose, broadcast, slice_, reverse, pad, concat, full]
TENSOR_RULES = [
    map_one, map_two, map_two, map_divide, map_exp, map_select, integers, reduce, reduce, arg_reduce, cumulate, argsort, contract, contract,
    reshape, transpose, broadcast,
    slice_, reverse, pad, window, fold, concat, gather, scatter, full, iota, scan,
]  # fmt: skip


# --- nn level

NN_ONE = [nn.Tanh, nn.Sigmoid, nn.Sin, nn.Cos, nn.Erf, nn.Neg, nn.Abs, nn.Relu, nn.LeakyRelu, nn.Gelu, nn.Silu, nn.Softplus]
NN_TWO = [nn.Add, nn.Sub, nn.Mul, nn.Maximum, nn.Minimum]
NN_COMPARE = [nn.Less, nn.LessEqual, nn.Greater, nn.GreaterEqual, nn.Equal, nn.NotEqual]


def nn_one(g):
    return g.b(g.draw(st.sampled_from(NN_ONE)), g.pick())


def nn_two(g):
    """Numpy's broadcasting: the partner may lack leading axes."""
    x = g.pick()
    y = _partner(g, x)
    cut = g.draw(st.integers(0, x.type.rank))
    if g.draw(st.booleans()):
        y = g.parameter(x.type.shape[cut:])
    pair = [x, y] if g.draw(st.booleans()) else [y, x]
    return g.b(g.draw(st.sampled_from(NN_TWO)), *pair)


def nn_divide(g):
    x = g.pick()
    one = g.b(nn.Full, value=1.0, dtype=f32)
    return g.b(nn.Div, x, g.b(nn.Add, g.b(nn.Square, g.b(nn.Tanh, _partner(g, x))), one))


def nn_where(g):
    x = g.draw(st.sampled_from(g.func.args))
    other = g.parameter(x.type.shape)
    return g.b(nn.Where, g.b(g.draw(st.sampled_from(NN_COMPARE)), x, other), other, x)


def nn_integers(g):
    x = g.draw(st.sampled_from(g.func.args))
    whole = g.b(nn.Cast, g.b(nn.Mul, x, g.b(nn.Full, value=8.0, dtype=f32)), dtype=i64)
    kind = g.draw(st.sampled_from([nn.Add, nn.Sub, nn.Mul, nn.Maximum, nn.Div, nn.FloorDivide, nn.Mod]))
    other = g.b(nn.Full, value=g.draw(st.sampled_from([-3, 2, 7])), dtype=i64)
    return g.b(nn.Cast, g.b(kind, whole, other), dtype=f32)


def nn_reduce(g):
    x = g.pick()
    kind = g.draw(st.sampled_from([nn.Sum, nn.Mean, nn.Max, nn.Min]))
    return g.b(kind, x, axis=g.axes(x), keepdims=g.draw(st.booleans()))


def nn_softmax(g):
    x = g.pick(least_rank=1)
    return x and g.b(g.draw(st.sampled_from([nn.Softmax, nn.LogSoftmax])), x, axis=g.draw(st.integers(-x.type.rank, x.type.rank - 1)))


def nn_matmul(g):
    """Products of matrices, with a vector, of batches; either side may be transposed."""
    x = g.pick(least_rank=1, most_rank=4)
    if x is None:
        return None
    inner, columns = x.type.shape[-1], g.draw(st.integers(1, 5))
    form = g.draw(st.sampled_from(["matrix", "vector", "batch", "transposed"]))
    if form == "vector":
        return g.b(nn.MatMul, x, g.parameter((inner,)))
    if form == "transposed":
        return g.b(nn.MatMul, x, g.parameter((columns, inner)), transpose_y=True)
    leading = tuple(d if g.draw(st.booleans()) else 1 for d in x.type.shape[:-2]) if form == "batch" else ()
    return g.b(nn.MatMul, x, g.parameter((*leading, inner, columns)))


def nn_linear(g):
    x = g.pick(least_rank=1, most_rank=4, where=lambda v: isinstance(v.type.shape[-1], int))
    if x is None:
        return None
    columns = g.draw(st.integers(1, 6))
    bias = g.parameter((columns,)) if g.draw(st.booleans()) else None
    return g.b(nn.Linear, x, g.parameter((x.type.shape[-1], columns)), bias)


def _image(g):
    """A value with a batch, known channels and one or two known spatial axes."""
    x = g.pick(least_rank=3, most_rank=4, where=lambda v: all(isinstance(d, int) for d in v.type.shape[1:]))
    if x is not None:
        return x
    spatial = g.draw(st.lists(st.integers(3, 6), min_size=1, max_size=2))
    batch = symbol("N") if g.sizes and any(symbol("N") in a.type.shape for a in g.args) else 2
    return g.parameter((batch, g.draw(st.sampled_from([1, 2, 4])), *spatial))


def nn_conv(g):
    x = _image(g)
    channels, *spatial = x.type.shape[1:]
    groups = g.draw(st.sampled_from([d for d in range(1, channels + 1) if channels % d == 0]))
    padding = [g.draw(st.integers(0, 2)) for _ in range(2 * len(spatial))]
    windows = [_window(g, size + padding[2 * i] + padding[2 * i + 1]) for i, size in enumerate(spatial)]
    kernel, strides, dilations = zip(*windows, strict=True)
    out = groups * g.draw(st.integers(1, 3))
    bias = g.parameter((out,)) if g.draw(st.booleans()) else None
    weight = g.parameter((out, channels // groups, *kernel))
    return g.b(nn.Conv, x, weight, bias, strides=strides, padding=padding, dilations=dilations, groups=groups)


def nn_pool(g):
    """Padding stays below the window's size, so that every window has an element."""
    x = _image(g)
    spatial = x.type.shape[2:]
    kernel = [g.draw(st.integers(1, min(3, size))) for size in spatial]
    strides = [g.draw(st.integers(1, 3)) for _ in spatial]
    padding = [g.draw(st.integers(0, k // 2)) for k in kernel for _ in range(2)]
    options = {"kernel": kernel, "strides": strides, "padding": padding}
    if g.draw(st.booleans()):
        return g.b(nn.MaxPool, x, **options)
    return g.b(nn.AvgPool, x, **options, exclusive=g.draw(st.booleans()))


def nn_broadcast(g):
    x = g.pick(most_rank=MAX_RANK - 1)
    shape = tuple(g.draw(st.integers(1, 4)) if d == 1 else d for d in x.type.shape)
    return g.b(nn.BroadcastTo, x, shape=(g.draw(st.integers(1, 3)), *shape))


def nn_flip(g):
    x = g.pick(least_rank=1)
    return x and g.b(nn.Flip, x, axes=g.axes(x))


def nn_pad(g):
    x = g.pick(least_rank=1)
    return x and g.b(
        nn.Pad, x, padding=[g.draw(st.integers(0, 2)) for _ in range(2 * x.type.rank)], value=g.draw(st.sampled_from([0.0, 1.5]))
    )


NN_RULES = [
    nn_one, nn_one, nn_two, nn_two, nn_divide, nn_where, nn_integers, nn_reduce, nn_softmax, nn_matmul, nn_linear, nn_conv, nn_pool,
    reshape, transpose, slice_,
    concat, gather, scatter, full, nn_broadcast, nn_flip, nn_pad,
]  # fmt: skip


# --- collectives, which are the identity for one rank


def all_reduce(g):
    """Of one or two values, at once or with other ops between start and wait."""
    xs = [g.pick() for _ in range(g.draw(st.integers(1, 2)))]
    options = {"reduce": g.draw(st.sampled_from(dist.REDUCTIONS)), "bucket": g.draw(st.sampled_from([None, 0, 3]))}
    if g.draw(st.booleans()):
        made = g.b(dist.AllReduce, xs, **options)
    else:
        pending = g.b(dist.AllReduceStart, xs, **options)
        between = g.draw(st.sampled_from([nn_one, nn_two]))(g)
        g.values.append(between)
        made = g.b(dist.Wait, pending if isinstance(pending, tuple) else [pending])
    return made[-1] if isinstance(made, tuple) else made


def dist_broadcast(g):
    return g.b(dist.Broadcast, g.pick(), root=0)


def all_gather(g):
    return g.b(dist.AllGather, g.pick(most_rank=MAX_RANK - 1), ranks=1)


def reduce_scatter(g):
    x = g.pick(least_rank=1, where=lambda v: isinstance(v.type.shape[0], int))
    return x and g.b(dist.ReduceScatter, x, reduce=g.draw(st.sampled_from(dist.REDUCTIONS)), ranks=1)


DIST_RULES = [*NN_RULES, *[all_reduce] * 4, dist_broadcast, all_gather, reduce_scatter]

RULES = {"nn": NN_RULES, "dist": DIST_RULES, "tensor": TENSOR_RULES, "fused": TENSOR_RULES}
