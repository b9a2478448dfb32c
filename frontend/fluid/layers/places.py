"""Elements at places: read, written, cut out, distinct ones; shapes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dtypes
from polyreme.fluid.initializer import Constant
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import made, made_all, takes
from polyreme.fluid.layers.tensor import assign, zeros
from polyreme.names import listed
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = [
    "crop", "crop_tensor", "gather_nd", "gaussian_random_batch_size_like", "mean_iou", "multiplex", "pad_constant_like", "random_crop",
    "rank", "sampling_id", "scatter_nd", "scatter_nd_add", "shard_index", "size", "strided_slice", "uniform_random_batch_size_like",
    "unique", "unique_with_counts", "where",
]  # fmt: skip


# --- read and written


@takes("input", "index")
def gather_nd(input: Any, index: Any, name: str | None = None) -> Any:
    """The slices of `input` at the places [..., axes] that `index` has along its last axis."""
    return made("gather_nd", {"X": input, "Index": index}, {}, input.dtype, name=name)


@takes("ref", "index", "updates")
def scatter_nd_add(ref: Any, index: Any, updates: Any, name: str | None = None) -> Any:
    """`ref` with `updates` added to the slices at the places [..., axes] of `index`."""
    if ref.dtype != updates.dtype:
        raise ValueError("ref and updates must have same data type.")
    return made("scatter_nd_add", {"X": ref, "Index": index, "Updates": updates}, {}, ref.dtype, name=name)


def scatter_nd(index: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Zeros with `updates` added to the slices at the places [..., axes] of `index`."""
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


@takes("inputs", "index", many=True)
def multiplex(inputs: Sequence[Any], index: Any) -> Any:
    """Row i is that of the tensor whose number is in row i of `index` [rows, 1]."""
    if len(inputs) < 2:
        raise ValueError("inputs should be a list object with at least 2 elements.")
    return made("multiplex", {"X": list(inputs), "Ids": index}, {}, inputs[0].dtype)


@takes("condition")
def where(condition: Any) -> Any:
    """The places of the elements that are true, int64 [count, axes]."""
    return made("where_index", {"Condition": condition}, {}, "int64", fixed=True)


@takes("input")
def shard_index(input: Any, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Any:
    """Positions within shard `shard_id` of `nshards` equal ones of [0, index_num), `ignore_value` for those of other shards."""
    if shard_id < 0 or shard_id >= nshards:
        raise ValueError(f"The shard_id({shard_id}) should be in [0, {nshards})")
    attrs = {"index_num": index_num, "nshards": nshards, "shard_id": shard_id, "ignore_value": ignore_value}
    return made("shard_index", {"X": input}, attrs, input.dtype, fixed=True)


# --- cut out


@takes("x")
def crop(x: Any, shape: Any = None, offsets: Any = None, name: str | None = None) -> Any:
    """The part of `x` of `shape`, that of a variable if it is one, that begins at `offsets`, 0 by default."""
    slots, attrs = {"X": x}, {}
    starts = [0] * len(x.shape) if offsets is None else offsets
    for value, slot, attr in ((shape, "Y", "shape"), (starts, "Offsets", "offsets")):
        if isinstance(value, Tensor):
            slots[slot] = value
        elif isinstance(value, (list, tuple)):
            attrs[attr] = list(value)
        else:
            raise ValueError("The shape should be a list, tuple or Variable.")
    return made("crop", slots, attrs, x.dtype, name=name)


@takes("x")
def crop_tensor(x: Any, shape: Any = None, offsets: Any = None, name: str | None = None) -> Any:
    """The part of `x` of `shape` that begins at `offsets`, 0 by default. Both are numbers, variables of one element, or one variable; a
    size of -1 goes up to the end.
    """
    helper = LayerHelper("crop_tensor", name=name)
    slots: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    starts = [0] * len(x.shape) if offsets is None else offsets
    given = (("shape", shape, "Shape", "ShapeTensor"), ("offsets", starts, "Offsets", "OffsetsTensor"))
    for what, values, whole, parts in given:
        if isinstance(values, Tensor):
            values.stop_gradient = True
            slots[whole] = values
            continue
        if not isinstance(values, (list, tuple)):
            raise TypeError(f"The type of '{what}' in crop_tensor must be a list, a tuple or a Variable, but received {type(values)}.")
        for value in values:
            _check_part(what, value)
        if any(isinstance(value, Tensor) for value in values):
            slots[parts] = [value if isinstance(value, Tensor) else helper.constant([1], "int32", value) for value in values]
        attrs[what] = [(-1 if what == "offsets" else 0) if isinstance(value, Tensor) else value for value in values]
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("crop_tensor", slots, {"Out": out}, attrs)
    return out


def _check_part(what: str, value: Any) -> None:
    if isinstance(value, Tensor):
        return
    if not isinstance(value, int):
        raise TypeError(f"Attr({what})'s dtype of Op(crop_tensor) should be int32, but received: {type(value)}.")
    if what == "shape" and (value == 0 or value < -1) or what == "offsets" and value < 0:
        raise ValueError(f"Attr({what}) of Op(crop_tensor) should be above 0, and a size may be -1, but received: {value}.")


@takes("x", "y")
def pad_constant_like(x: Any, y: Any, pad_value: float = 0.0, name: str | None = None) -> Any:
    """`y` with `pad_value` behind its elements, as large as `x`."""
    return made("pad_constant_like", {"X": x, "Y": y}, {"pad_value": float(pad_value)}, y.dtype, name=name)


@takes("x")
def random_crop(x: Any, shape: Sequence[int], seed: Any = None) -> Any:
    """A part of each example, of `shape` along the last axes, from a place that is drawn for each."""
    helper = LayerHelper("random_crop")
    attrs: dict[str, Any] = {"shape": list(shape)}
    if seed is None:
        seed = 0
    if isinstance(seed, int):
        attrs["startup_seed"] = seed
        name = unique_name.generate("random_crop_seed")
        seed = helper.create_global_variable(persistable=True, name=name, shape=[1], dtype="int64")
        helper.set_variable_initializer(seed, Constant(float(attrs["startup_seed"])))
    elif not isinstance(seed, Tensor):
        raise ValueError("'seed' must be a Variable or an int.")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("random_crop", {"X": x, "Seed": seed}, {"Out": out, "SeedOut": seed}, attrs)
    return out


@takes("input")
def strided_slice(input: Any, axes: Any, starts: Any, ends: Any, strides: Any) -> Any:
    """Along each of `axes` every stride-th element from a start up to but without an end, which may be variables."""
    return made(
        "strided_slice", {"Input": input}, {"axes": list(axes), "starts": starts, "ends": ends, "strides": strides}, input.dtype
    )


# --- distinct ones, and shapes


def _distinct(type: str, x: Any, dtype: Any, slots: tuple[str, ...]) -> tuple[Any, ...]:
    outputs = {"Out": x.dtype, **dict.fromkeys(slots, dtype)}
    return made_all(type, {"X": x}, {"dtype": dtypes.as_dtype(dtype)}, outputs, fixed=True)


@takes("x")
def unique(x: Any, dtype: Any = "int32") -> tuple[Any, ...]:
    """The distinct elements in the order in which they come first, and which of them each element is."""
    return _distinct("unique", x, dtype, ("Index",))


@takes("x")
def unique_with_counts(x: Any, dtype: Any = "int32") -> tuple[Any, ...]:
    """As `unique`, and how often each comes."""
    if dtype not in ("int32", "int64"):
        raise TypeError("Op unique_with_counts, index dtype must be int32 or int64")
    if len(x.shape) != 1:
        raise ValueError("Op unique_with_counts, x must not be null and size of dim must be 1")
    return _distinct("unique_with_counts", x, dtype, ("Index", "Count"))


@takes("input")
def rank(input: Any) -> Any:
    """How many axes there are, int32."""
    return assign(np.array(len(input.shape), "int32"))


@takes("input")
def size(input: Any) -> Any:
    """How many elements there are, int64 [1]."""
    helper = LayerHelper("size")
    out = helper.create_variable_for_type_inference("int64", stop_gradient=True, shape=[1])
    helper.append_op("size", {"Input": input}, {"Out": out}, stop_gradient=True)
    return out


# --- draws, and how often predictions are right


def _drawn_like(type: str, input: Any, shape: Any, dtype: Any, attrs: dict[str, Any]) -> Any:
    attrs = {**attrs, "shape": [int(d) for d in shape], "dtype": dtypes.as_dtype(dtype)}
    return made(type, {"Input": input}, attrs, dtype, fixed=True)


@takes("input")
def uniform_random_batch_size_like(
    input: Any, shape: Any, dtype: Any = "float32", input_dim_idx: int = 0, output_dim_idx: int = 0, min: float = -1.0, max: float = 1.0,
    seed: int = 0,
) -> Any:  # fmt: skip
    """Draws from [min, max) in `shape`, whose size along `output_dim_idx` is that of `input` along `input_dim_idx`."""
    attrs = {"input_dim_idx": input_dim_idx, "output_dim_idx": output_dim_idx, "min": min, "max": max, "seed": seed}
    return _drawn_like("uniform_random_batch_size_like", input, shape, dtype, attrs)


@takes("input")
def gaussian_random_batch_size_like(
    input: Any, shape: Any, input_dim_idx: int = 0, output_dim_idx: int = 0, mean: float = 0.0, std: float = 1.0, seed: int = 0,
    dtype: Any = "float32",
) -> Any:  # fmt: skip
    """Draws of a normal distribution in `shape`, whose size along `output_dim_idx` is that of `input` along `input_dim_idx`."""
    attrs = {"input_dim_idx": input_dim_idx, "output_dim_idx": output_dim_idx, "mean": mean, "std": std, "seed": seed}
    return _drawn_like("gaussian_random_batch_size_like", input, shape, dtype, attrs)


@takes("x")
def sampling_id(x: Any, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = "float32") -> Any:
    """A column for each row of shares [N, classes], drawn by them, int64 [N], whatever `dtype` says."""
    return made("sampling_id", {"X": x}, {"min": min, "max": max, "seed": seed}, "int64", fixed=True)


@takes("input", "label")
def mean_iou(input: Any, label: Any, num_classes: int) -> tuple[Any, ...]:
    """The mean over the classes of hits / (hits + misses), [1], and the misses and the hits of each class, int32."""
    outputs = {"OutMeanIou": "float32", "OutWrong": "int32", "OutCorrect": "int32"}
    return made_all("mean_iou", {"Predictions": input, "Labels": label}, {"num_classes": num_classes}, outputs, fixed=True)


__dir__ = listed(__name__)
