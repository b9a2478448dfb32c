"""How an op of the `nn` dialect, as static mode records it, is written with Paddle's operators: the inverse of `polyreme.operators`.

Most ops are one operator of Paddle's whose entry in the table there has their operands in the same order. The rules here are for the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme.dialects import host, nn
from polyreme.dtypes import DTYPES, of_scalar
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim, Expr, symbols
from polyreme.ir.types import TensorType, i32
from polyreme.operators.table import LEGACY, name_of_nn_op
from polyreme.static.desc.words import Words, number_of

__all__ = ["spell"]

Rule = Callable[[Words], None]
RULES: dict[type[Op], Rule] = {}
# The most numbers that are written into a program: they are text of it, not a file beside it.
MOST_NUMBERS = 1 << 22

# Ops that are the operator of their name in the table, with their operands and attributes as they are.
_PLAIN = (
    nn.Abs, nn.Acos, nn.Asin, nn.Atan, nn.BitwiseNot, nn.Ceil, nn.Cos, nn.Cosh, nn.Erf, nn.Exp, nn.Expm1, nn.Floor, nn.Gelu, nn.IsFinite,
    nn.IsInf, nn.IsNan, nn.LeakyRelu, nn.Log, nn.Log10, nn.Log1p, nn.Log2, nn.LogSoftmax, nn.LogicalNot, nn.Reciprocal, nn.Relu, nn.Round,
    nn.Rsqrt, nn.Sigmoid, nn.Sign, nn.Silu, nn.Sin, nn.Sinh, nn.Softmax, nn.Softplus, nn.Sqrt, nn.Square, nn.Tan, nn.Tanh, nn.Trunc,
    nn.Complex, nn.Concat, nn.Conj, nn.Imag, nn.Real,
)  # fmt: skip
_PAIRS = (
    nn.Add, nn.Sub, nn.Mul, nn.Div, nn.FloorDivide, nn.Mod, nn.Maximum, nn.Minimum, nn.Pow, nn.Equal, nn.NotEqual, nn.Less, nn.LessEqual,
    nn.Greater, nn.GreaterEqual,
)  # fmt: skip
_COMMUTATIVE = ("elementwise_add", "elementwise_mul", "elementwise_max", "elementwise_min", "equal", "not_equal")
_BITS = (nn.LogicalAnd, nn.LogicalOr, nn.LogicalXor, nn.BitwiseAnd, nn.BitwiseOr, nn.BitwiseXor)
_REDUCTIONS = (nn.Sum, nn.Mean, nn.Max, nn.Min, nn.Prod, nn.All, nn.Any)


def spell(cls: type[Op], words: Words) -> None:
    """Say what Paddle's programs have for a recorded op. An `OperatorError` where they have nothing."""
    rule = RULES.get(cls)
    if rule is None:
        raise words.refuse("Paddle has none that does this")
    rule(words)


def rule(*classes: type[Op]) -> Callable[[Rule], Rule]:
    """Declare how ops are written."""

    def declare(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(classes, function))
        return function

    return declare


def _plain(cls: type[Op]) -> Rule:
    name = name_of_nn_op(cls)
    entry, spelling = LEGACY[name]
    slots = dict(zip([part.name.capitalize() for part in cls.definition.operands], spelling.inputs, strict=False))

    def function(words: Words) -> None:
        attrs = {attribute: words.attrs[attribute] for attribute in cls.definition.attributes if attribute in words.attrs}
        inputs = {theirs: words.names(ours) for ours, theirs in slots.items()}
        words.say(name, inputs, {spelling.outputs[0]: words.out}, **attrs)

    return function


RULES.update({cls: _plain(cls) for cls in (*_PLAIN, *_BITS)})


@rule(*_PAIRS)
def _pair(w: Words) -> None:
    """Broadcast as everything does, aligned at the last axes. Older Paddle takes the result's shape from the first operand."""
    x, y = w.one("X"), w.one("Y")
    shape = w.type(w.out).shape
    if w.type(x).shape != shape and w.type(x).elements != 1:
        if w.op.type in _COMMUTATIVE and w.type(y).shape == shape:
            x, y = y, x
        else:
            x = w.expanded(x, shape)
    w.say(w.op.type, {"X": x, "Y": y}, {"Out": w.out}, axis=-1)


@rule(*_REDUCTIONS)
def _reduction(w: Words) -> None:
    axes, rank = list(w.attrs.get("axis", ())), w.type(w.one("X")).rank
    every = not axes or len(axes) == rank
    w.say(
        w.op.type, {"X": w.one("X")}, {"Out": w.out}, dim=axes or [0], keep_dim=bool(w.attrs.get("keepdims", False)), reduce_all=every
    )  # fmt: skip


@rule(nn.Cast)
def _cast(w: Words) -> None:
    w.say("cast", {"X": w.one("X")}, {"Out": w.out}, in_dtype=number_of(w.type(w.one("X")).dtype), out_dtype=number_of(w.attrs["dtype"]))


@rule(nn.Where)
def _where(w: Words) -> None:
    """Paddle's operands have one shape."""
    shape = w.type(w.out).shape
    operands = {}
    for slot in ("Condition", "X", "Y"):
        name = w.one(slot)
        operands[slot] = name if w.type(name).shape == shape else w.expanded(name, shape)
    w.say("where", operands, {"Out": w.out})


@rule(nn.Neg)
def _negative(w: Words) -> None:
    w.say("scale", {"X": w.one("X")}, {"Out": w.out}, scale=-1.0, bias=0.0, bias_after_scale=True)


@rule(nn.StopGradient)
def _same(w: Words) -> None:
    w.say("assign", {"X": w.one("X")}, {"Out": w.out})


@rule(nn.Overwrite)
def _overwritten(w: Words) -> None:
    w.say("assign", {"X": w.one("Y")}, {"Out": w.out})


# --- shapes


@rule(nn.Reshape)
def _reshape(w: Words) -> None:
    w.reshaped(w.one("X"), w.type(w.out).shape, w.out)


@rule(nn.Transpose)
def _transpose(w: Words) -> None:
    w.say("transpose2", {"X": w.one("X")}, {"Out": w.out, "XShape": w.seen_shape(w.one("X"))}, axis=list(w.attrs["perm"]))


@rule(nn.BroadcastTo)
def _expand(w: Words) -> None:
    w.expanded(w.one("X"), w.type(w.out).shape, w.out)


@rule(nn.Flip)
def _flip(w: Words) -> None:
    axes = [axis % w.type(w.one("X")).rank for axis in w.attrs["axes"]]
    # The name of the attribute has changed.
    w.say("flip", {"X": w.one("X")}, {"Out": w.out}, dims=axes, axis=axes)


@rule(nn.Pad)
def _pad(w: Words) -> None:
    padding = w.numbers(w.attrs["padding"], "the padding")
    if any(w.attrs.get("interior", ())) or any(p < 0 for p in padding):
        raise w.refuse("it pads between elements, or takes some away")
    w.say("pad", {"X": w.one("X")}, {"Out": w.out}, paddings=padding, pad_value=float(w.attrs.get("value", 0.0)))


@rule(nn.Slice)
def _slice(w: Words) -> None:
    x = w.one("X")
    shape = w.type(x).shape
    strides = w.numbers(w.attrs.get("strides") or [1] * len(shape), "the strides")
    axes: list[int] = []
    starts: list[Dim] = []
    ends: list[Dim] = []
    for axis, (size, start, stop) in enumerate(zip(shape, w.attrs["starts"], w.attrs["stops"], strict=True)):
        if start == 0 and stop == size and strides[axis] == 1:
            continue
        if strides[axis] < 0:
            raise w.refuse("it goes backwards")
        axes.append(axis)
        starts.append(_place(start, size))
        ends.append((1 << 31) - 1 if stop == size else _place(stop, size))
    given: dict[str, Any] = {"Input": x}
    for slot, bounds in (("StartsTensorList", starts), ("EndsTensorList", ends)):
        if any(isinstance(n, Expr) for n in bounds):
            given[slot] = w.amounts(bounds)
    flags = [-1 if isinstance(a, Expr) or isinstance(b, Expr) else 1 for a, b in zip(starts, ends, strict=True)]
    numbers = {name: [-1 if isinstance(n, Expr) else n for n in bounds] for name, bounds in (("starts", starts), ("ends", ends))}
    common = {"axes": axes, **numbers, "decrease_axis": [], "infer_flags": flags}
    if any(s != 1 for s in strides):
        common["strides"] = [strides[axis] for axis in axes]
        w.say("strided_slice", given, {"Out": w.out}, **common)
    elif axes:
        w.say("slice", given, {"Out": w.out}, **common)
    else:
        w.say("assign", {"X": x}, {"Out": w.out})


def _place(place: Dim, size: Dim) -> Dim:
    """A bound as a number, counted from the end where the front does not tell; as it is where neither does."""
    if isinstance(place, int):
        return place
    behind = size - place
    return -behind if isinstance(behind, int) else place


# --- values from nothing


@rule(nn.Full)
def _full(w: Words) -> None:
    kind = w.type(w.out)
    value = w.attrs["value"]
    if isinstance(value, complex) or kind.dtype.kind == "c":
        raise w.refuse("it is complex")
    exact = str(int(value)) if kind.dtype.is_integer or kind.dtype.kind == "b" else repr(float(value))
    free = [(axis, size) for axis, size in enumerate(kind.shape) if not isinstance(size, int)]
    common = {"dtype": number_of(kind.dtype), "value": float(value), "str_value": exact}
    if kind.rank == 0 and w.only_beside_larger(w.out):
        # Paddle of before there were tensors of rank 0 has one element where the others have several axes.
        w.made[w.out] = TensorType((1,), kind.dtype)
        w.say("fill_constant", {}, {"Out": w.out}, shape=[1], **common)
        return
    if not free:
        w.say("fill_constant", {}, {"Out": w.out}, shape=w.numbers(kind.shape), **common)
        return
    if len(free) > 1 or symbols(free[0][1]) != {str(free[0][1])}:
        shape = [n if isinstance(n, int) else -1 for n in kind.shape]
        w.say("fill_constant", {"ShapeTensorList": w.amounts(kind.shape)}, {"Out": w.out}, shape=shape, **common)
        return
    ((axis, size),) = free
    name, there = w.carrier(size)
    shape = [1 if i == axis else int(n) for i, n in enumerate(kind.shape)]
    w.say(
        "fill_constant_batch_size_like", {"Input": name}, {"Out": w.out}, shape=shape, input_dim_idx=there, output_dim_idx=axis, **common
    )  # fmt: skip


@rule(nn.Constant)
def _constant(w: Words) -> None:
    _values(w, np.asarray(w.attrs["value"].array))


def _values(w: Words, array: np.ndarray[Any, Any]) -> None:
    """The numbers of an array, in the list for their dtype."""
    if array.size > MOST_NUMBERS:
        raise w.refuse(f"it has {array.size} numbers; make it a parameter, whose values stand in a file")
    name = of_scalar(w.type(w.out).dtype).name
    lists = {"bool": "bool_values", "int32": "int32_values", "int64": "int64_values", "float32": "fp32_values", "float64": "fp64_values"}
    stored, target = array, w.out
    if name not in lists:
        wider = "float32" if array.dtype.kind == "f" or name in ("float16", "bfloat16") else "int64" if array.dtype.kind in "iu" else ""
        if not wider:
            raise w.refuse(f"it has numbers of {name}")
        stored = array.astype(wider)
        target = w.new(array.shape, w.type(w.out).dtype)
    held = stored.reshape(-1).astype(np.int64).tolist() if stored.dtype.kind == "b" else stored.reshape(-1).tolist()
    dtype = str(stored.dtype)
    if target != w.out:
        w.made[target] = TensorType(tuple(array.shape), DTYPES[dtype].scalar)
    number = number_of(DTYPES[dtype].scalar)
    w.say("assign_value", {}, {"Out": target}, shape=list(array.shape), dtype=number, **{lists[dtype]: held})
    if target != w.out:
        w.say("cast", {"X": target}, {"Out": w.out}, in_dtype=number, out_dtype=number_of(w.type(w.out).dtype))


@rule(nn.Iota)
def _counting(w: Words) -> None:
    kind = w.type(w.out)
    axis = w.attrs["axis"] % kind.rank
    if not all(isinstance(size, int) for size in kind.shape):
        _counting_to_size(w, kind, axis)
        return
    shape = w.numbers(kind.shape)
    along = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    _values(w, np.broadcast_to(along, shape).astype(kind.dtype.np))


def _counting_to_size(w: Words, kind: TensorType, axis: int) -> None:
    """0, 1, … up to a size that is known when the program runs, repeated along the other axes."""
    count = kind.shape[axis]
    numbers, counted = w.new((count,), i32), w.new((count,), kind.dtype)
    w.say("range", {"Start": w.amount(0), "End": w.amount(count), "Step": w.amount(1)}, {"Out": numbers})
    w.say("cast", {"X": numbers}, {"Out": counted}, in_dtype=number_of(i32), out_dtype=number_of(kind.dtype))
    alone = [size if i == axis else 1 for i, size in enumerate(kind.shape)]
    if tuple(alone) == kind.shape:
        w.reshaped(counted, kind.shape, w.out)
    else:
        w.expanded(w.reshaped(counted, alone), kind.shape, w.out)


@rule(nn.DimValue)
def _size(w: Words) -> None:
    """A size of inputs, or one made of them, as a number of rank 0."""
    one = w.amount(w.attrs["size"])
    whole = w.new((1,), w.attrs["dtype"])
    w.say("cast", {"X": one}, {"Out": whole}, in_dtype=number_of(i32), out_dtype=number_of(w.attrs["dtype"]))
    w.reshaped(whole, (), w.out)


# --- products


@rule(nn.Linear)
def _linear(w: Words) -> None:
    x, weight, bias = w.one("X"), w.one("Weight"), w.names("Bias")
    kind = w.type(w.out)
    rank = w.type(x).rank
    if rank < 2:
        raise w.refuse("its operand is a vector")
    product = w.new(kind.shape, kind.dtype) if bias else w.out
    w.say("mul", {"X": x, "Y": weight}, {"Out": product}, x_num_col_dims=rank - 1, y_num_col_dims=1)
    if bias:
        w.say("elementwise_add", {"X": product, "Y": bias}, {"Out": w.out}, axis=rank - 1)


@rule(nn.MatMul)
def _matmul(w: Words) -> None:
    x, y = w.one("X"), w.one("Y")
    first, second = (bool(w.attrs.get(name, False)) for name in ("transpose_x", "transpose_y"))
    if min(w.type(x).rank, w.type(y).rank) < 2:
        w.say("matmul_v2", {"X": x, "Y": y}, {"Out": w.out}, trans_x=first, trans_y=second)
    else:
        w.say("matmul", {"X": x, "Y": y}, {"Out": w.out}, transpose_X=first, transpose_Y=second, alpha=1.0)


# --- windows


def _padding(w: Words, spatial: int) -> list[int]:
    """Pairs as Paddle has them: one number where both of a pair are equal."""
    pairs = w.numbers(w.attrs.get("padding") or [0] * (2 * spatial), "the padding")
    return pairs[::2] if pairs[::2] == pairs[1::2] else pairs


def _as_images(w: Words, name: str, shape: Any) -> str:
    """A row of elements as an image of one row."""
    return w.reshaped(name, (*shape[:2], 1, *shape[2:]))


@rule(nn.Conv)
def _conv(w: Words) -> None:
    x, weight, bias = w.one("X"), w.one("Weight"), w.names("Bias")
    kind = w.type(w.out)
    spatial = kind.rank - 2
    if spatial not in (1, 2, 3):
        raise w.refuse(f"it has {spatial} spatial axes")
    ones = (1,) * spatial
    strides, dilations = (list(w.attrs.get(name) or ones) for name in ("strides", "dilations"))
    padding = _padding(w, spatial)
    shape = kind.shape
    if spatial == 1:
        x, weight = (_as_images(w, name, w.type(name).shape) for name in (x, weight))
        strides, dilations = [1, *strides], [1, *dilations]
        padding = [0, *padding] if len(padding) == 1 else [0, 0, *padding]
        shape = (*shape[:2], 1, *shape[2:])
    direct = spatial != 1 and not bias
    made = w.out if direct else w.new(shape, kind.dtype)
    common = {"groups": w.attrs.get("groups", 1), "data_format": "NCDHW" if spatial == 3 else "NCHW", "padding_algorithm": "EXPLICIT"}
    w.say(
        "conv3d" if spatial == 3 else "conv2d", {"Input": x, "Filter": weight}, {"Output": made},
        strides=strides, paddings=padding, dilations=dilations, **common,
    )  # fmt: skip
    if spatial == 1:
        made = w.reshaped(made, kind.shape, None if bias else w.out)
    if bias:
        w.say("elementwise_add", {"X": made, "Y": bias}, {"Out": w.out}, axis=1)


@rule(nn.ConvTranspose)
def _conv_transpose(w: Words) -> None:
    spatial = w.type(w.out).rank - 2
    if spatial not in (2, 3):
        raise w.refuse(f"it has {spatial} spatial axes")
    ones = (1,) * spatial
    strides, dilations = (list(w.attrs.get(name) or ones) for name in ("strides", "dilations"))
    sizes = w.numbers(w.attrs.get("sizes", ()), "the sizes of the result") if w.attrs.get("sizes") else []
    w.say(
        "conv3d_transpose" if spatial == 3 else "conv2d_transpose", {"Input": w.one("X"), "Filter": w.one("Weight")}, {"Output": w.out},
        strides=strides, paddings=_padding(w, spatial), dilations=dilations, groups=w.attrs.get("groups", 1), output_size=sizes,
        data_format="NCDHW" if spatial == 3 else "NCHW", padding_algorithm="EXPLICIT",
    )  # fmt: skip


@rule(nn.MaxPool, nn.AvgPool)
def _pool(w: Words) -> None:
    x, kind = w.one("X"), w.type(w.out)
    spatial = kind.rank - 2
    if spatial not in (1, 2, 3):
        raise w.refuse(f"it has {spatial} spatial axes")
    kernel = list(w.attrs["kernel"])
    strides = list(w.attrs.get("strides") or kernel)
    padding = _padding(w, spatial)
    made = w.out
    if spatial == 1:
        x = _as_images(w, x, w.type(x).shape)
        kernel, strides = [1, *kernel], [1, *strides]
        padding = [0, *padding] if len(padding) == 1 else [0, 0, *padding]
        made = w.new((*kind.shape[:2], 1, *kind.shape[2:]), kind.dtype)
    w.say(
        "pool3d" if spatial == 3 else "pool2d", {"X": x}, {"Out": made}, ksize=kernel, strides=strides, paddings=padding,
        pooling_type="avg" if w.op.type == "avg_pool" else "max", exclusive=bool(w.attrs.get("exclusive", True)), adaptive=False,
        global_pooling=False, ceil_mode=bool(w.attrs.get("ceil_mode", False)), data_format="NCDHW" if spatial == 3 else "NCHW",
        padding_algorithm="EXPLICIT",
    )  # fmt: skip
    if spatial == 1:
        w.reshaped(made, kind.shape, w.out)


# --- norms


@rule(nn.Standardize)
def _standardize(w: Words) -> None:
    """`layer_norm` where the last axes are standardized, else its parts."""
    x = w.one("X")
    kind = w.type(x)
    axes = sorted(axis % kind.rank for axis in w.attrs["axes"])
    affine = [axis % kind.rank for axis in w.attrs.get("affine", ())]
    scale, bias = w.names("Weight"), w.names("Bias")
    out, *statistics = w.op.outputs["Out"]
    epsilon = float(w.attrs["epsilon"])
    last = axes == list(range(kind.rank - len(axes), kind.rank)) and axes and axes[0] > 0
    if last and len(axes) == 1 and (affine == axes or not (scale or bias)) and not any(_is_read(w, name) for name in statistics):
        inputs = {"X": [x], **({"Scale": scale} if scale else {}), **({"Bias": bias} if bias else {})}
        means = [w.new((_product(w, kind.shape[:-1]),), kind.dtype) for _ in range(2)]
        w.say("layer_norm", inputs, {"Y": out, "Mean": means[0], "Variance": means[1]}, epsilon=epsilon, begin_norm_axis=axes[0])
        return
    kept = tuple(1 if i in axes else d for i, d in enumerate(kind.shape))
    mean, spread = w.new(kept, kind.dtype), w.new(kept, kind.dtype)
    apart, squares = w.like(x), w.like(x)
    every = len(axes) == kind.rank
    w.say("reduce_mean", {"X": x}, {"Out": mean}, dim=axes, keep_dim=True, reduce_all=every)
    w.say("elementwise_sub", {"X": x, "Y": mean}, {"Out": apart}, axis=-1)
    w.say("square", {"X": apart}, {"Out": squares})
    w.say("reduce_mean", {"X": squares}, {"Out": spread}, dim=axes, keep_dim=True, reduce_all=every)
    raised, root = w.like(spread), w.like(spread)
    w.say("scale", {"X": spread}, {"Out": raised}, scale=1.0, bias=epsilon, bias_after_scale=True)
    w.say("sqrt", {"X": raised}, {"Out": root})
    made = w.like(x) if scale or bias else out
    w.say("elementwise_div", {"X": apart, "Y": root}, {"Out": made}, axis=-1)
    _affine(w, made, scale, bias, affine, kind, out)
    for name, value in zip(statistics, (mean, spread), strict=False):
        if _is_read(w, name):
            w.reshaped(value, w.type(name).shape, name)


def _is_read(w: Words, name: str) -> bool:
    return any(name in op.input_arg_names for op in w.block.ops if op is not w.op)


def _affine(w: Words, made: str, scale: list[str], bias: list[str], axes: list[int], kind: TensorType, out: str) -> None:
    """`made * scale + bias` over the given axes, as `out`."""
    aligned = tuple(d if i in axes else 1 for i, d in enumerate(kind.shape))
    for names, type, is_last in ((scale, "elementwise_mul", not bias), (bias, "elementwise_add", True)):
        if names:
            by = w.reshaped(names[0], aligned)
            target = out if is_last else w.new(kind.shape, kind.dtype)
            w.say(type, {"X": made, "Y": by}, {"Out": target}, axis=-1)
            made = target


@rule(nn.BatchNorm)
def _batch_norm(w: Words) -> None:
    """By statistics that are given."""
    x = w.one("X")
    kind = w.type(x)
    axis = w.attrs["axis"] % kind.rank
    scale, bias, mean, spread = w.names("Weight"), w.names("Bias"), w.one("Mean"), w.one("Variance")
    if scale and bias and kind.rank > 2 and axis in (1, kind.rank - 1):
        saved = [w.like(mean), w.like(spread)]
        w.say(
            "batch_norm", {"X": x, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": spread},
            {"Y": w.out, "MeanOut": mean, "VarianceOut": spread, "SavedMean": saved[0], "SavedVariance": saved[1]},
            epsilon=float(w.attrs["epsilon"]), momentum=0.9, is_test=True, use_global_stats=True, trainable_statistics=False,
            data_layout="NCHW" if axis == 1 else "NHWC",
        )  # fmt: skip
        return
    aligned = tuple(d if i == axis else 1 for i, d in enumerate(kind.shape))
    apart, raised, root = w.like(x), w.like(spread), w.like(spread)
    w.say("elementwise_sub", {"X": x, "Y": w.reshaped(mean, aligned)}, {"Out": apart}, axis=-1)
    w.say("scale", {"X": spread}, {"Out": raised}, scale=1.0, bias=float(w.attrs["epsilon"]), bias_after_scale=True)
    w.say("sqrt", {"X": raised}, {"Out": root})
    made = w.like(x) if scale or bias else w.out
    w.say("elementwise_div", {"X": apart, "Y": w.reshaped(root, aligned)}, {"Out": made}, axis=-1)
    _affine(w, made, scale, bias, [axis], kind, w.out)


# --- places


@rule(nn.ArgMax, nn.ArgMin)
def _arg(w: Words) -> None:
    w.say(
        w.op.type, {"X": w.one("X")}, {"Out": w.out}, axis=w.attrs["axis"], keepdims=bool(w.attrs.get("keepdims", False)), flatten=False,
        dtype=number_of(w.attrs["dtype"]),
    )  # fmt: skip


@rule(host.NonZero)
def _nonzero(w: Words) -> None:
    w.say("where_index", {"Condition": w.one("X")}, {"Out": w.out})


@rule(nn.Within)
def _within(w: Words) -> None:
    """Paddle's operators look at positions where they read at them."""
    w.say("assign", {"X": w.one("X")}, {"Out": w.out})


@rule(nn.Argsort)
def _argsort(w: Words) -> None:
    x, axis = w.one("X"), w.attrs["axis"]
    whole = w.type(x)
    count = w.attrs.get("count")
    found = w.out if count is None else w.new(whole.shape, w.type(w.out).dtype)
    w.say("argsort", {"X": x}, {"Out": w.like(x), "Indices": found}, axis=axis, descending=bool(w.attrs.get("descending", False)))
    if count is not None:
        w.say("slice", {"Input": found}, {"Out": w.out}, axes=[axis % whole.rank], starts=[0], ends=w.numbers([count]), decrease_axis=[])


@rule(nn.Gather)
def _gather(w: Words) -> None:
    x, index = w.one("X"), w.one("Index")
    axis = w.attrs.get("axis", 0) % w.type(x).rank
    places, result = w.type(index), w.type(w.out)
    flat = index if places.rank == 1 else w.reshaped(index, (_product(w, places.shape),))
    (count,) = w.type(flat).shape
    shape = list(w.type(x).shape)
    shape[axis] = count
    made = w.out if places.rank == 1 else w.new(tuple(shape), result.dtype)
    if axis == 0:
        w.say("gather", {"X": x, "Index": flat}, {"Out": made}, overwrite=False)
    else:
        w.say("index_select", {"X": x, "Index": flat}, {"Out": made}, dim=axis)
    if made != w.out:
        w.reshaped(made, result.shape, w.out)


def _product(w: Words, shape: Any) -> Dim:
    count: Dim = 1
    for size in shape:
        count = count * size
    return count


@rule(nn.Scatter)
def _scatter(w: Words) -> None:
    index = w.one("Index")
    if w.attrs.get("axis", 0) != 0 or w.type(index).rank != 1:
        raise w.refuse("it writes along another axis than the first")
    w.say("scatter", {"X": w.one("X"), "Ids": index, "Updates": w.one("Updates")}, {"Out": w.out}, overwrite=True)


@rule(nn.Cumsum)
def _cumsum(w: Words) -> None:
    w.say("cumsum", {"X": w.one("X")}, {"Out": w.out}, axis=w.attrs["axis"], exclusive=False, reverse=False)


# --- training


@rule(nn.CrossEntropy)
def _cross_entropy(w: Words) -> None:
    logits = w.one("Logits")
    w.say(
        "softmax_with_cross_entropy", {"Logits": logits, "Label": w.one("Label")}, {"Softmax": w.like(logits), "Loss": w.out},
        axis=w.attrs["axis"], soft_label=bool(w.attrs.get("soft_label", False)), ignore_index=w.attrs.get("ignore_index", -100),
        numeric_stable_mode=True,
    )  # fmt: skip


@rule(nn.Dropout)
def _dropout(w: Words) -> None:
    """Paddle's operator draws by itself."""
    x = w.one("X")
    draws = w.names("Draws")
    if draws and w.type(draws[0]).shape != w.type(x).shape:
        raise w.refuse("it drops whole channels")
    mode = {"downscale_in_infer": "downgrade_in_infer"}.get(w.attrs["mode"], w.attrs["mode"])
    w.say(
        "dropout", {"X": x}, {"Out": w.out, "Mask": w.like(x)}, dropout_prob=float(w.attrs["p"]), dropout_implementation=mode,
        is_test=bool(w.attrs.get("is_test", False)), fix_seed=False, seed=0,
    )  # fmt: skip


