"""Elements at places, of another shape, and how often they are right, as operators before Paddle 2 have them."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import f32, i32
from polyreme.math.common import cast_to
from polyreme.math.fed import places as fed_places
from polyreme.math.fed import sizes as fed_sizes
from polyreme.math.scattering import multiplex as chosen_rows
from polyreme.math.statistics import shard_index as within_shard
from polyreme.operators.arguments import FedSizes, UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator(legacy=spelled("crop", {"X": "x", "Y": "like", "Offsets": "offsets"}, constant="Y Offsets"))
def crop(x: Tensor, like: Tensor | None = None, offsets: FedSizes = (), *, shape: FedSizes = ()) -> Tensor:
    """A part of `x` of the shape that is told, or of that of another tensor, from some place on."""
    sizes: list[Dim | Tensor] = list(shape) if like is None else list(like.type.shape)
    starts = list(offsets) or [0] * x.ndim
    if len(sizes) != x.ndim or len(starts) != x.ndim:
        raise UnsupportedError(f"expected {x.ndim} sizes and offsets for 'crop' but got {sizes} and {starts}")
    # Of a batch whose size is not told the whole of it is meant.
    sizes = [x.type.shape[i] if isinstance(size, int) and size < 0 else size for i, size in enumerate(sizes)]
    return fed_places.box(x, sizes, starts) if fed_sizes.are_fed([*sizes, *starts]) else math.crop(x, sizes, starts)


@operator(legacy=spelled("pad_constant_like", {"X": "x", "Y": "y"}, constant="X"))
def pad_constant_like(x: Tensor, y: Tensor, *, pad_value: float = 0.0) -> Tensor:
    """`y` with `pad_value` behind its elements, as large as `x`."""
    pads: list[Dim] = [size for a, b in zip(x.type.shape, y.type.shape, strict=True) for size in (0, a - b)]
    made = y
    for axis, pad in enumerate(pads[1::2]):
        if pad == 0:
            continue
        shape = [pad if i == axis else size for i, size in enumerate(made.type.shape)]
        made = math.concat([made, dispatch.full(tuple(shape), pad_value, y.type.dtype)], axis)
    return made


@operator("multiplex", legacy=spelled("multiplex", {"X": "inputs", "Ids": "index"}))
def multiplex(inputs: list[Tensor], index: Tensor) -> Tensor:
    return chosen_rows(inputs, index)


@operator("shard_index", legacy=spelled("shard_index", {"X": "input"}))
def shard_index(input: Tensor, *, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Tensor:
    return within_shard(input, index_num, nshards, shard_id, ignore_value)


@operator(legacy=spelled("mean_iou", {"Predictions": "predictions", "Labels": "labels"}, "OutMeanIou OutWrong OutCorrect"))
def mean_iou(predictions: Tensor, labels: Tensor, *, num_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over the classes that occur of hits / (hits + misses), float32 [1], and the misses and hits of each class, int32. Each miss
    counts for the class that is told and for the one that is right.
    """
    told, right = (math.reshape(labels_, [-1]) for labels_ in (predictions, labels))
    hit = math.equal(told, right)
    ones = cast_to(hit, i32)
    start = dispatch.full((num_classes,), 0, i32)

    def counted(places: Tensor, values: Tensor) -> Tensor:
        return dispatch.call(nn.Add, start, dispatch.call(nn.ScatterAdd, values, places, axis=0, size=num_classes))

    missed = cast_to(math.logical_not(hit), i32)
    correct, wrong = counted(told, ones), counted(told, missed) + counted(right, missed)
    total = cast_to(correct + wrong, f32)
    some = math.greater_than(total, dispatch.full((), 0, f32))
    each = cast_to(correct, f32) / math.maximum(total, dispatch.full((), 1, f32))
    return math.reshape(math.sum(each) / math.sum(cast_to(some, f32)), [1]), wrong, correct


_TWO = {"X": "x", "Y": "y"}


@operator("cross", legacy=spelled("cross", _TWO, attributes={"dim": "axis"}))
def cross(x: Tensor, y: Tensor, *, axis: int = 9) -> Tensor:
    return math.cross(x, y, axis)


@operator(legacy=spelled("dist", _TWO))
def dist(x: Tensor, y: Tensor, *, p: float = 2.0) -> Tensor:
    return math.reshape(math.dist(x, y, p), [1])


@operator("diag_embed", legacy=spelled("diag_embed", {"Input": "input"}))
def diag_embed(input: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return math.diag_embed(input, offset, dim1, dim2)


@operator(legacy=spelled("trace", {"Input": "x"}))
def trace(x: Tensor, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    made = math.trace(x, offset, dim1, dim2)
    return math.reshape(made, [1]) if made.ndim == 0 else made


@operator(legacy=spelled("allclose", {"Input": "x", "Other": "y"}))
def allclose(x: Tensor, y: Tensor, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return math.reshape(math.allclose(x, y, rtol, atol, equal_nan), [1])
