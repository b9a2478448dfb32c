"""linear, dropout, embedding, one-hot, padding, normalisation of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from polyreme import dispatch, tape
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.dtypes import default_dtype
from polyreme.function_steps import record_function
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.dims import Dim, Expr, UnknownSize
from polyreme.ir.types import TensorType, f32
from polyreme.math.common import axes_of, axis_of, cast_to, check_within, no_integers, number_of, same_sizes, tensor_arg
from polyreme.math.creation import arange, ones_like
from polyreme.math.distinct import unique
from polyreme.math.elementwise import add, divide, maximum, multiply, scale, sqrt, subtract, where
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import broadcast_tensors, concat, flip, reshape, span, transpose, unsqueeze
from polyreme.math.programs import recorded
from polyreme.math.reduction import norm, sum
from polyreme.math.scattering import gradient_of_rows, scatter
from polyreme.random import default_generator
from polyreme.tensor import Tensor, capturing, shape_dims
from polyreme.tensor_kinds.selected_rows import rows_of
from polyreme.tensor_kinds.traced_rows import TracedRows

__all__ = [
    "alpha_dropout", "bilinear", "cosine_similarity", "dropout", "dropout2d", "dropout3d", "embedding", "fold", "label_smooth", "linear",
    "normalize", "one_hot", "pad",
    "pairwise_distance", "unfold", "zeropad2d",
]  # fmt: skip


@operator("linear_v2")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = None) -> Tensor:
    """x @ weight + bias, with the weight [in, out]."""
    tensor_arg(x, "linear")
    tensor_arg(weight, "linear", "weight")
    if x.type.dtype != weight.type.dtype:
        raise ValueError(f"linear expected x and weight of one dtype but got {x.dtype.name} and {weight.dtype.name}")
    if x.ndim == 0:
        raise ValueError("linear expected a tensor of at least one axis but got a 0-D one")
    return dispatch.call(ops.Linear, x, weight, bias)


@operator("bilinear_tensor_product")
def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = None) -> Tensor:
    """x1[n] weight[o] x2[n]ᵀ + bias[o]: x1 [batch, in1], x2 [batch, in2], weight [out, in1, in2], bias [1, out]; [batch, out]."""
    for argument, tensor, rank in (("x1", x1, 2), ("x2", x2, 2), ("weight", weight, 3)):
        tensor_arg(tensor, "bilinear", argument)
        if tensor.ndim != rank:
            raise ValueError(f"bilinear expected '{argument}' of {rank} axes but got shape {list(tensor.shape)}")
    out, first, second = weight.shape
    if not same_sizes(x1.type.shape[1:], [first]) or not same_sizes(x2.type.shape[1:], [second]):
        raise ValueError(
            f"bilinear expected x1 [batch, {first}] and x2 [batch, {second}] for a weight of shape {list(weight.shape)} but got "
            f"{list(x1.shape)} and {list(x2.shape)}"
        )
    if isinstance(x1.shape[0], int) and isinstance(x2.shape[0], int) and x1.shape[0] != x2.shape[0]:
        raise ValueError(f"bilinear expected as many rows in x1 as in x2 but got {x1.shape[0]} and {x2.shape[0]}")
    columns = reshape(transpose(weight, [1, 0, 2]), [first, out * second])
    half = reshape(matmul(x1, columns), [0, out, second])
    result = sum(multiply(half, unsqueeze(x2, 1)), -1)
    return result if bias is None else add(result, bias)


def dropout(
    x: Tensor,
    p: Any = 0.5,
    axis: Any = None,
    training: bool = True,
    inplace: bool = False,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """In training, elements become 0 with probability `p`, one draw each; with `axis`, one draw per position along those axes.

    "upscale_in_train" scales what is kept by 1 / (1 - p); "downscale_in_infer" scales by 1 - p in evaluation instead. With `inplace`, x has
    the result from here on.
    """
    tensor_arg(x, "dropout")
    dropped = _dropped(x, p, axis, training, mode)
    return dispatch.assign(x, dropped) if inplace and dropped is not x else dropped


def _dropped(x: Tensor, p: Any, axis: Any, training: bool, mode: str) -> Tensor:
    p = number_of(p)
    if not isinstance(p, (int, float)):
        raise TypeError("p argument should be a number or Tensor")
    if not 0 <= p <= 1:
        raise ValueError("p argument should between 0 and 1")
    if mode not in ("downscale_in_infer", "upscale_in_train"):
        raise ValueError("mode argument should be 'downscale_in_infer' or 'upscale_in_train'")
    if not training:
        if mode == "downscale_in_infer":
            return scale(x, 1.0 - p)
        # A tensor of its own, which may be changed in place, but for what Paddle returns as it is; programs that are saved have no op for
        # it.
        plain = dispatch.active_trace() is not None and capturing() is None
        return x if axis is not None or p == 0 or plain else dispatch.call(ops.Reshape, x, shape=x.type.shape)
    if axis is None and p == 0:
        return x
    shape = x.type.shape
    if axis is not None:
        kept = axes_of(axis, x.ndim, "dropout")
        shape = tuple(d if i in kept else 1 for i, d in enumerate(shape))
    draws = default_generator().uniform(shape, 0.0, 1.0, x.type.dtype)
    return dispatch.call(ops.Dropout, x, draws, p=float(p), mode=mode)


def _channel_dropout(x: Tensor, p: float, training: bool, data_format: str, rank: int, name: str) -> Tensor:
    if x.ndim != rank:
        raise ValueError(f"{name} expected a tensor of {rank} axes but got shape {list(x.shape)}")
    channel = rank - 1 if data_format.endswith("C") else 1
    return dropout(x, p, axis=[0, channel], training=training)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Whole channels of images become 0."""
    return _channel_dropout(x, p, training, data_format, 4, "dropout2d")


def dropout3d(x: Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None) -> Tensor:
    """Whole channels of volumes become 0."""
    return _channel_dropout(x, p, training, data_format, 5, "dropout3d")


def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = True, name: str | None = None) -> Tensor:
    """Dropout that keeps mean and variance under SELU: dropped elements take SELU's lowest value, and the whole is rescaled."""
    if not 0 <= p <= 1:
        raise ValueError("p argument should between 0 and 1")
    if not training:
        return x
    if p == 0:
        return x.clone()
    if p == 1:
        return scale(x, 0.0)
    low = -1.7580993408473766  # -scale * alpha of SELU
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    b = -a * low * p
    draws = default_generator().uniform(x.type.shape, 0.0, 1.0, x.type.dtype)
    keep = dispatch.call(ops.GreaterEqual, draws, dispatch.full((), p, x.type.dtype))
    kept = dispatch.call(ops.Where, keep, x, dispatch.full((), low, x.type.dtype))
    return scale(kept, a, b)


@operator("lookup_table_v2")
def embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    sparse: bool = False,
    scale_grad_by_freq: bool = False,
    name: str | None = None,
) -> Tensor:
    """The rows of `weight` at the positions in `x`. The row `padding_idx`, counted from the end if negative, reads as zeros and gets no
    gradient.

    With `max_norm`, rows that are read and whose `norm_type`-norm is greater are scaled to it, in the weight itself. With
    `scale_grad_by_freq` the gradient of a row is divided by how often it was read.

    With `sparse` the gradient of a parameter is the rows that were read (`SelectedRows`), that of `padding_idx` among them, and optimizers
    step as Paddle's do on such; so they do where the step is compiled. A weight that was computed is an error. Programs, and compiled
    functions with `full_graph=True` that are differentiated from outside, have whole gradients, as in Paddle.
    """
    tensor_arg(x, "embedding")
    if x.type.dtype.kind not in "iu":
        raise TypeError(f"embedding expected integer positions but got {x.dtype.name}")
    if scale_grad_by_freq and sparse:
        raise AttributeError("scale_grad_by_freq = True is not supported with sparse update.")
    rows = weight.shape[0]
    if padding_idx is not None and isinstance(rows, int) and not -rows <= padding_idx < rows:
        raise ValueError(f"padding_idx must be within [-{rows}, {rows})")
    if not max_norm and not scale_grad_by_freq and (made := _looked_up(x, weight, padding_idx)) is not None:
        return made
    named = "Variable value (input) of OP(paddle.nn.functional.embedding)"
    x = check_within(
        x, rows, lambda low, high, size: ValueError(f"{named} expected >= 0 and < {size}, but got {low} to {high}"), wraps=False
    )
    if max_norm:
        _shorten_rows(weight, x, max_norm, norm_type)
    if sparse and tape.is_grad_enabled() and not weight.stop_gradient:
        if (recorder := dispatch.active_trace()) is None:
            return embedding_by_rows(x, weight, padding_idx)
        if (looked_at := recorder.keep_rows()) is not None:
            return _embedding_in_a_step(x, weight, padding_idx, looked_at)
    found = dispatch.call(ops.Gather, weight, x, axis=0)
    if scale_grad_by_freq and not found.stop_gradient:
        positions = x._array("embedding(scale_grad_by_freq=True)")
        shares = (1.0 / np.bincount(positions.reshape(-1), minlength=1)[positions]).astype(weight.type.dtype.np)
        found.register_hook(lambda gradient: multiply(gradient, unsqueeze(Tensor._wrap(shares), -1)))
    if padding_idx is None:
        return found
    row = padding_idx if padding_idx >= 0 else rows + padding_idx
    place = dispatch.full((), row, x.type.dtype) if isinstance(row, int) else dispatch.call(ops.DimValue, size=row, dtype=x.type.dtype)
    padded = dispatch.call(ops.Equal, x, place)
    mask = dispatch.call(ops.Reshape, padded, shape=(*x.type.shape, 1))
    return dispatch.call(ops.Where, mask, dispatch.full((), 0, weight.type.dtype), found)


def _looked_up(x: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor | None:
    """The rows in a static Program, by Paddle's operator; None elsewhere."""
    rows, *row = weight.type.shape
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else rows + padding_idx
    if isinstance(padding, Expr) or len(row) != 1 or x.type.dtype.name not in ("i32", "i64"):
        return None
    made = TensorType((*x.type.shape, *row), weight.type.dtype)
    attributes = {"is_sparse": False, "is_distributed": False, "padding_idx": padding}
    found = recorded("lookup_table_v2", {"Ids": x, "W": weight}, {"Out": made}, attributes)
    return found[0] if found else None


def embedding_by_rows(x: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor:
    """As `embedding(sparse=True)` in eager mode, also under `to_static`, where the function runs in parts for it."""
    if not tape.is_grad_enabled() or weight.stop_gradient:
        return embedding(x, weight, padding_idx)
    if dispatch.active_trace() is not None:
        if capturing() is None:  # a program that is saved
            return embedding(x, weight, padding_idx)
        raise PolyremeError(
            "the gradient of a table that is read by rows (is_sparse=True) needs the positions as numbers while the function is traced",
            caller_location(),
            code="E0502",
        )
    _expect_parameter(weight)
    with dispatch.at_once(), tape.recording(False):
        found = embedding(x, weight, padding_idx)
    positions = x._array("embedding(sparse=True)")

    def backward(gradient: Tensor | None) -> list[Tensor | None]:
        if gradient is None:
            return [None]
        if tape.is_grad_enabled():  # gradients of gradients go on through it
            return [gradient_of_rows(x, weight, gradient)]
        return [rows_of(weight, positions, gradient)]

    record_function([weight], [found], backward, "embedding")
    return found


def _embedding_in_a_step(x: Tensor, weight: Tensor, padding_idx: int | None, looked_at: Callable[[], NoReturn]) -> Tensor:
    """As `embedding(sparse=True)` while a function is captured: gradients that it takes itself are rows, those of the program whole."""
    _expect_parameter(weight)
    found = embedding(x, weight, padding_idx)
    positions = dispatch.alias(x)

    def backward(gradient: Tensor | None) -> list[Tensor | None]:
        if gradient is None:
            return [None]
        made = cast_to(gradient_of_rows(positions, weight, gradient), weight.type.dtype)
        return [made if tape.is_grad_enabled() else TracedRows([positions], made, looked_at)]

    record_function([weight], [found], backward, "embedding")
    return found


def _expect_parameter(weight: Tensor) -> None:
    if not weight.is_leaf:
        raise NotImplementedError(
            "embedding(sparse=True) expected a parameter as the weight but got a tensor that was computed, whose gradient goes on through "
            "what made it: read it with sparse=False"
        )


def _shorten_rows(weight: Tensor, x: Tensor, longest: float, p: float) -> None:
    """Write to the weight: its rows at the positions in `x`, those longer than `longest` scaled to it. Lengths are p-norms."""
    with tape.recording(False):
        places = unique(x)
        rows = dispatch.call(ops.Gather, weight.detach(), places, axis=0)
        lengths = norm(rows, p, 1, keepdim=True)
        factors = where(lengths > longest, longest / (lengths + 1e-7), ones_like(lengths))
        dispatch.assign(weight, scatter(weight.detach(), places, multiply(rows, factors)))


def one_hot(x: Tensor, num_classes: int = -1, name: str | None = None) -> Tensor:
    """A new last axis with 1 at each position and 0 elsewhere."""
    tensor_arg(x, "one_hot")
    classes = int(number_of(num_classes))
    if classes == -1:
        classes = int(x._array("one_hot()").max()) + 1
    if x.type.dtype.name in ("i32", "i64") and default_dtype().scalar == f32:
        made = TensorType((*x.type.shape, classes), f32)
        if found := recorded("one_hot_v2", {"X": x}, {"Out": made}, {"depth": classes, "allow_out_of_range": False}, flows=False):
            return found[0]
    x = check_within(
        x,
        classes,
        lambda low, high, size: ValueError(f"one_hot expected positions in [0, {size}) but got values from {low} to {high}"),
        wraps=False,
    )
    wide = dispatch.call(ops.Reshape, x, shape=(*x.type.shape, 1))
    places = dispatch.call(ops.Iota, shape=(classes,), axis=0, dtype=x.type.dtype)
    return dispatch.call(ops.Cast, dispatch.call(ops.Equal, wide, places), dtype=default_dtype().scalar)


def label_smooth(label: Tensor, prior_dist: Tensor | None = None, epsilon: float = 0.1, name: str | None = None) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior, the prior being uniform unless given; it gets no gradient."""
    if not 0 <= epsilon <= 1:
        raise ValueError("The value of epsilon must be between 0 and 1.")
    no_integers(label, "label_smooth")
    # Paddle computes both factors in float32, and float64 labels show it.
    part = np.float32(epsilon)
    kept = float(np.float32(1) - part)
    if prior_dist is not None:
        return add(scale(label, kept), scale(prior_dist.detach(), float(part)))
    return scale(label, kept, float(part / np.float32(label.shape[-1])))


_LAYOUTS = ("NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")


def pad(
    x: Tensor,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str | None = None,
    pad_from_left_axis: bool = True,
    name: str | None = None,
) -> Tensor:
    """With elements added around.

    Two numbers per spatial axis pad those that `data_format` says, the last one first. With "constant" a list may have two numbers for
    every axis, the first axis first (or last, without `pad_from_left_axis`), or for fewer axes, the last one first, whatever the data
    format. Modes: "constant" (`value`), "reflect" (mirrored without the edge), "replicate" (the edge repeated), "circular" (from the other
    end). Negative numbers take elements away, after the others have added theirs.
    """
    tensor_arg(x, "pad")
    widths = [w if isinstance(w, Expr) else int(w) for w in shape_dims(pad)]
    rank = x.ndim
    if data_format is not None and data_format not in _LAYOUTS:
        raise AssertionError(f"data_format should be in one of [{', '.join(_LAYOUTS)}], but got {data_format}")
    assert 2 * rank >= len(widths), f"pad expected at most two widths per axis but got {len(widths)} for shape {list(x.shape)}"
    pairs: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    given = list(zip(widths[::2], widths[1::2], strict=True))
    spatial = len(given) == rank - 2 or mode != "constant" and rank > 2
    if not spatial:
        pairs = given if len(given) == rank and pad_from_left_axis else [*[(0, 0)] * (rank - len(given)), *given[::-1]]
    else:
        last = rank - 2 if data_format is not None and data_format.endswith("C") and rank > 2 else rank - 1
        for i, pair in enumerate(given):
            pairs[last - i] = pair
    if mode == "constant":
        pairs, x = _crop_negative(x, pairs)
        flat = tuple(w for pair in pairs for w in pair)
        return dispatch.call(ops.Pad, x, padding=flat, value=float(value) if x.type.dtype.kind == "f" else int(value))
    if mode not in ("reflect", "replicate", "circular"):
        raise AssertionError(f"mode should be one of constant, reflect, replicate, circular, but got {mode}.")
    known = [(low, high) for low, high in pairs if isinstance(low, int) and isinstance(high, int)]
    if len(known) < rank:
        free = [w for w in widths if isinstance(w, Expr)]
        raise UnknownSize(f"expected known widths to pad by in mode '{mode}' but got the symbolic size '{free[0]}'", *free)
    cuts, known = known, [(max(low, 0), max(high, 0)) for low, high in known]
    padded = [axis for axis, pair in enumerate(known) if any(pair)]
    # In front of the last of these axes places are taken one by one, in the kernel that puts the last one together; where no place can be
    # computed of an unknown size, the last one comes first, so that the others copy whole rows of it.
    recorder = dispatch.active_trace()
    computes = recorder is not None and recorder.learns_sizes
    taken = [axis for axis in padded[:-1] if computes or isinstance(x.type.shape[axis], int)]
    for axis in (*taken, *(axis for axis in reversed(padded) if axis not in taken)):
        (low, high), size = known[axis], x.type.shape[axis]
        if isinstance(size, int) and mode == "reflect" and max(low, high) >= max(size, 1):
            raise ValueError(f"pad by reflection expected widths below the size {size} of axis {axis} but got {low} and {high}")
        if isinstance(size, int) and (axis in taken or not 0 <= min(low, high) <= max(low, high) <= size):
            by_name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
            index = np.pad(np.arange(size), (low, high), by_name[mode])  # type: ignore[call-overload]
            x = dispatch.call(ops.Gather, x, dispatch.constant(index), axis=axis)
        elif axis in taken:
            x = dispatch.call(ops.Gather, x, _padded_axis(arange(size), 0, size, low, high, mode), axis=axis)
        else:
            x = _padded_axis(x, axis, size, low, high, mode)
    return _crop_negative(x, cuts)[1]


def _padded_axis(x: Tensor, axis: int, size: Dim, low: int, high: int, mode: str) -> Tensor:
    """An axis between copies of its ends: slices, whose bounds become guards where its size is unknown."""
    if mode == "reflect":
        parts = [flip(span(x, axis, 1, low + 1), axis), x, flip(span(x, axis, size - 1 - high, size - 1), axis)]
    elif mode == "circular":
        parts = [span(x, axis, size - low, size), x, span(x, axis, 0, high)]
    else:
        first, last = ([span(x, axis, at, at + 1)] * width for at, width in ((0, low), (size - 1, high)))
        parts = [*first, x, *last]
    return concat([part for part in parts if part.type.shape[axis] != 0], axis)


def _crop_negative(x: Tensor, pairs: Sequence[tuple[Dim, Dim]]) -> tuple[list[tuple[Dim, Dim]], Tensor]:
    """Negative widths take elements away. One that is not known is taken not to be negative, which each call checks."""

    def cut(width: Dim) -> int:
        return max(0, -width) if isinstance(width, int) else 0

    if any(cut(w) for pair in pairs for w in pair):
        starts = tuple(cut(low) for low, _ in pairs)
        stops = tuple(size - cut(high) for size, (_, high) in zip(x.type.shape, pairs, strict=True))
        x = dispatch.call(ops.Slice, x, starts=starts, stops=stops, strides=(1,) * x.ndim)
    return [(low + cut(low), high + cut(high)) for low, high in pairs], x


def zeropad2d(x: Tensor, padding: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Images with zeros added: left, right, top, bottom."""
    return pad(x, padding, "constant", 0.0, data_format)


def normalize(
    x: Tensor, p: float = 2, axis: int = 1, epsilon: float = 1e-12, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """Scaled so that the p-norm along `axis` is 1."""
    length = norm(x, float(p), axis_of(axis, x.ndim, "normalize"), keepdim=True)
    result = divide(x, maximum(length, dispatch.full((), epsilon, x.type.dtype)))
    return result if out is None else dispatch.assign(out, result)


def cosine_similarity(x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `axis`."""
    if x1.type.shape != x2.type.shape:  # a vector's length is that of the vector it is broadcast to
        x1, x2 = broadcast_tensors([x1, x2])
    together = sum(multiply(x1, x2), axis)
    lengths = multiply(sum(multiply(x1, x1), axis), sum(multiply(x2, x2), axis))
    return divide(together, sqrt(maximum(lengths, dispatch.full((), eps * eps, lengths.type.dtype))))


def pairwise_distance(
    x: Tensor, y: Tensor, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """The p-norm of x - y + epsilon along the last axis."""
    return norm(scale(subtract(x, y), 1.0, epsilon), float(p), -1, keepdim)


def fold(
    x: Tensor, output_sizes: Any, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None
) -> Tensor:
    """Windows, given as columns, added up to images where they overlap: [N, C * kernel elements, positions] to [N, C, H, W]. What
    `unfold` makes columns of is given as `output_sizes`.
    """
    assert tensor_arg(x, "fold").ndim == 3, f"fold expected columns [N, C * kernel elements, positions] but got shape {list(x.shape)}"
    given = (output_sizes, kernel_sizes, strides, dilations)
    (height, width), (kh, kw), (sh, sw), (dh, dw) = (list(v) if isinstance(v, (list, tuple)) else [v, v] for v in given)
    edges = list(paddings) if isinstance(paddings, (list, tuple)) else [paddings] * 4
    if len(edges) not in (2, 4):
        raise ValueError(f"fold expected paddings to be a number, or a list of 2 or 4, but got {paddings!r}")
    top, left, bottom, right = edges if len(edges) == 4 else [*edges, *edges]
    tall, wide = height + top + bottom, width + left + right
    rows, columns = (tall - (kh - 1) * dh - 1) // sh + 1, (wide - (kw - 1) * dw - 1) // sw + 1
    batch, depth, count = x.shape
    if depth % (kh * kw) or count != rows * columns:
        raise ValueError(
            f"fold expected columns of a multiple of {kh * kw} elements at {rows * columns} positions but got shape {list(x.shape)}"
        )
    parts = reshape(x, [batch, depth // (kh * kw), kh, kw, rows, columns])
    windows = dispatch.call(ops.Transpose, parts, perm=(0, 1, 4, 5, 2, 3))
    whole = dispatch.call(ops.Fold, windows, axes=(2, 3), sizes=(tall, wide), strides=(sh, sw), dilations=(dh, dw))
    return whole[:, :, top : top + height, left : left + width] if any(edges) else whole


def unfold(x: Tensor, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None) -> Tensor:
    """The windows of images as columns: [N, C, H, W] to [N, C * kernel elements, positions]."""
    assert x.ndim == 4, f"unfold expected images [N, C, H, W] but got shape {list(x.shape)}"
    two = [list(v) if isinstance(v, (list, tuple)) else [v, v] for v in (kernel_sizes, strides, dilations)]
    (kh, kw), (sh, sw), (dh, dw) = two
    edges = list(paddings) if isinstance(paddings, (list, tuple)) else [paddings] * 4
    top, left, bottom, right = edges if len(edges) == 4 else [*edges, *edges]
    x = pad(x, [left, right, top, bottom], data_format="NCHW")
    batch, channels, height, width = x.shape
    rows, columns = (height - (kh - 1) * dh - 1) // sh + 1, (width - (kw - 1) * dw - 1) // sw + 1
    parts = []
    for i in range(kh):
        for j in range(kw):
            starts, stops = (0, 0, i * dh, j * dw), (batch, channels, i * dh + (rows - 1) * sh + 1, j * dw + (columns - 1) * sw + 1)
            part = dispatch.call(ops.Slice, x, starts=starts, stops=stops, strides=(1, 1, sh, sw))
            parts.append(reshape(part, [batch, channels, 1, rows * columns]))
    return reshape(concat(parts, 2), [batch, channels * kh * kw, rows * columns])
