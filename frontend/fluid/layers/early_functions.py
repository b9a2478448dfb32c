"""Functions that came with the first Paddle 2 and that 1.8 has under `fluid.layers` already."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from polyreme import dtypes
from polyreme.fluid.framework import in_dygraph_mode
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.elementwise import elementwise_add, elementwise_mul
from polyreme.fluid.layers.given import made, takes
from polyreme.fluid.layers.images import image_resize
from polyreme.fluid.layers.nn import gaussian_random, reduce_sum, reshape, slice, softmax, transpose
from polyreme.fluid.layers.ops import exp, log
from polyreme.fluid.layers.places import where
from polyreme.fluid.layers.tensor import assign, cast, fill_constant
from polyreme.fluid.layers.tensor import range as numbers
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = [
    "addcmul", "addmm", "allclose", "arange", "bmm", "clamp", "cross", "diag_embed", "dist", "dot", "elementwise_equal", "flip", "full",
    "full_like", "index_sample", "index_select", "interpolate", "kron", "log_softmax", "logsumexp", "meshgrid", "nonzero", "randint",
    "randn", "randperm", "roll", "t", "trace", "tril", "triu", "unbind",
]  # fmt: skip


def _into(type: str, slots: dict[str, Any], attrs: dict[str, Any], dtype: Any, out: Any, fixed: bool = False) -> Any:
    """The result of an operator, in `out` where that is given."""
    if out is None:
        return made(type, slots, attrs, dtype, fixed=fixed)
    LayerHelper(type).append_op(type, slots, {"Out": out}, attrs, stop_gradient=fixed)
    return out


# --- sums, products, matrices


@takes("x")
def logsumexp(x: Any, dim: Any = None, keepdim: bool = False, out: Any = None, name: str | None = None) -> Any:
    """log of the sum of exp(x) along `dim`. As in Paddle 1.8 the exponentials are taken as they are, and may be infinite."""
    return _into("log", {"X": reduce_sum(exp(x), dim, keepdim)}, {}, x.dtype, out)


@takes("input")
def clamp(input: Any, min: Any = None, max: Any = None, output: Any = None, name: str | None = None) -> Any:
    """`input` within [min, max], numbers or variables. As in Paddle 1.8 a `min` that is left out is the least number above 0."""
    if min is None and max is None:
        raise ValueError("either min or max should be defined.")
    slots: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {"min": sys.float_info.min, "max": sys.float_info.max}
    for what, slot, value in (("min", "Min", min), ("max", "Max", max)):
        if isinstance(value, Tensor):
            value.stop_gradient = True
            slots[slot] = value
        elif value is not None:
            attrs[what] = float(value)
    return _into("clip", slots, attrs, input.dtype, output)


@takes("input", "x", "y")
def addmm(input: Any, x: Any, y: Any, alpha: float = 1.0, beta: float = 1.0, name: str | None = None) -> Any:
    """beta * input + alpha * x @ y."""
    return made("addmm", {"Input": input, "X": x, "Y": y}, {"Alpha": alpha, "Beta": beta}, x.dtype, name=name)


@takes("input", "tensor1", "tensor2")
def addcmul(input: Any, tensor1: Any, tensor2: Any, value: float = 1.0, out: Any = None, name: str | None = None) -> Any:
    """input + value * tensor1 * tensor2."""
    total = elementwise_add(input, elementwise_mul(tensor1, tensor2) * value)
    return total if out is None else assign(total, out)


@takes("x", "y")
def bmm(x: Any, y: Any, name: str | None = None) -> Any:
    """The products of matrices [N, A, B] and [N, B, C]."""
    return made("bmm", {"X": x, "Y": y}, {}, x.dtype, name=name)


@takes("x", "y")
def dot(x: Any, y: Any, name: str | None = None) -> Any:
    """The products of vectors along the last axis, which stays with one element."""
    return reduce_sum(elementwise_mul(x, y), dim=-1, keep_dim=True, name=name)


@takes("x", "y")
def dist(x: Any, y: Any, p: float = 2) -> Any:
    """The p-norm of x - y, [1]."""
    return made("dist", {"X": x, "Y": y}, {"p": float(p)}, x.dtype)


@takes("input", "other")
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products along `dim`. As in Paddle 1.8 the first axis of size 3 is taken for 0, too."""
    return made("cross", {"X": input, "Y": other}, {"dim": dim} if dim else {}, input.dtype)


@takes("x", "y")
def kron(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
    """The Kronecker product."""
    return _into("kron", {"X": x, "Y": y}, {}, x.dtype, out)


@takes("input")
def trace(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, out: Any = None, name: str | None = None) -> Any:
    """The sums of the diagonals of matrices along `dim1` and `dim2`."""
    return _into("trace", {"Input": input}, {"offset": offset, "dim1": dim1, "dim2": dim2}, input.dtype, out)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The vectors along the last axis as diagonals of matrices, through which no gradient flows."""
    given = input if isinstance(input, Tensor) else assign(input)
    return made("diag_embed", {"Input": given}, {"offset": offset, "dim1": dim1, "dim2": dim2}, given.dtype, fixed=True)


@takes("input")
def tril(input: Any, diagonal: int = 0, name: str | None = None) -> Any:
    """The elements on and below a diagonal, zeros above."""
    return made("tril_triu", {"X": input}, {"diagonal": diagonal, "lower": True}, input.dtype, name=name)


@takes("input")
def triu(input: Any, diagonal: int = 0, name: str | None = None) -> Any:
    """The elements on and above a diagonal, zeros below."""
    return made("tril_triu", {"X": input}, {"diagonal": diagonal, "lower": False}, input.dtype, name=name)


@takes("input")
def t(input: Any, name: str | None = None) -> Any:
    """The transpose of a matrix; a vector as it is."""
    if len(input.shape) > 2:
        raise ValueError(f"Input(input) only support N-D (N<=2) tensor, but received length of Input(input) is {len(input.shape)}.")
    return transpose(input, [1, 0]) if len(input.shape) == 2 else input


@takes("input")
def log_softmax(input: Any, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    """log of the softmax along `axis`, in `dtype` where that is given."""
    given = input if dtype is None else cast(input, dtype)
    return log(softmax(given, axis=-1 if axis is None else axis))


@takes("input", "other")
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None
) -> Any:
    """Whether all elements differ by at most atol + rtol * abs(other), bool [1]."""
    attrs = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    return made("allclose", {"Input": input, "Other": other}, attrs, "bool", name=name, fixed=True)


@takes("x", "y")
def elementwise_equal(x: Any, y: Any, name: str | None = None) -> Any:
    """Where elements are equal, bools."""
    return made("equal", {"X": x, "Y": y}, {}, "bool", name=name, fixed=True)


# --- places


@takes("input")
def nonzero(input: Any, as_tuple: bool = False) -> Any:
    """The places of the elements that are true, int64 [count, axes]; with `as_tuple` a column [count, 1] for each axis."""
    places, rank = where(input), len(input.shape)
    if not as_tuple:
        return places
    return (places,) if rank == 1 else tuple(slice(places, axes=[1], starts=[i], ends=[i + 1]) for i in range(rank))


@takes("input", "index")
def index_select(input: Any, index: Any, dim: int = 0) -> Any:
    """Slices along `dim` at places [count]."""
    return made("index_select", {"X": input, "Index": index}, {"dim": dim}, input.dtype)


@takes("x", "index")
def index_sample(x: Any, index: Any) -> Any:
    """The elements of each row at its places, [rows, count]."""
    return made("index_sample", {"X": x, "Index": index}, {}, x.dtype)


@takes("input")
def flip(input: Any, dims: Sequence[int], name: str | None = None) -> Any:
    """The elements in the other order along the axes."""
    if not dims:
        raise ValueError("len(dims) must be greater than 0.")
    return made("flip", {"X": input}, {"dims": list(dims)}, input.dtype, name=name)


@takes("input")
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Moved on by `shifts` along `dims`, or in flat order; what leaves at the end comes in at the start."""
    by = [shifts] if isinstance(shifts, int) else list(shifts)
    along = [dims] if isinstance(dims, int) else dims
    if along is None:
        return reshape(made("roll", {"X": reshape(input, [-1, 1])}, {"axis": [0], "shifts": by}, input.dtype), list(input.shape))
    return made("roll", {"X": input}, {"axis": list(along), "shifts": by}, input.dtype)


def meshgrid(input: Sequence[Any], name: str | None = None) -> Any:
    """Vectors as tensors of as many axes as there are of them, each along its own."""
    if not isinstance(input, list):
        raise TypeError("The type of input in meshgrid should be list.")
    helper = LayerHelper("meshgrid", name=name)
    outs = [helper.create_variable_for_type_inference(x.dtype) for x in input]
    helper.append_op("meshgrid", {"X": input}, {"Out": outs})
    return outs


def interpolate(
    input: Any, out_shape: Any = None, scale: Any = None, name: str | None = None, resample: str = "BILINEAR", actual_shape: Any = None,
    align_corners: bool = True, align_mode: int = 1, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """`image_resize`."""
    return image_resize(input, out_shape, scale, name, resample, actual_shape, align_corners, align_mode, data_format)


# --- made of shapes, and draws


def full(
    shape: Any, fill_value: Any, out: Any = None, dtype: Any = None, device: str | None = None, stop_gradient: bool = True,
    name: str | None = None,
) -> Any:  # fmt: skip
    """`fill_value` everywhere."""
    filled = fill_constant(shape, dtype or "float32", fill_value, out=out, name=name)
    filled.stop_gradient = stop_gradient
    return filled


@takes("input")
def full_like(
    input: Any, fill_value: Any, out: Any = None, dtype: Any = None, device: str | None = None, stop_gradient: bool = True,
    name: str | None = None,
) -> Any:  # fmt: skip
    """`fill_value`, as many as `input` has elements."""
    kind = dtypes.as_dtype(dtype or input.dtype)
    filled = _into("fill_any_like", {"X": input}, {"value": fill_value, "dtype": kind}, kind, out)
    filled.stop_gradient = stop_gradient
    return filled


def arange(start: Any, end: Any, step: Any = 1, dtype: Any = None, name: str | None = None) -> Any:
    """The numbers from `start` up to but without `end`."""
    return numbers(start, end, step, dtype or "float32")


def randint(
    low: int, high: int | None = None, shape: Any = None, out: Any = None, dtype: Any = None, device: str | None = None,
    stop_gradient: bool = False, seed: int = 0, name: str | None = None,
) -> Any:  # fmt: skip
    """Whole numbers drawn from [low, high), or [0, low) without `high`."""
    first, last = (0, low) if high is None else (low, high)
    if first >= last:
        raise ValueError(f"randint's low must less then high, but received low = {first}, high = {last}")
    sizes = [1] if shape is None else shape
    slots: dict[str, Any] = {}
    attrs = {"low": first, "high": last, "seed": seed, "dtype": dtypes.as_dtype(dtype or "int64")}
    if isinstance(sizes, Tensor):
        slots["ShapeTensor"] = sizes
    elif not in_dygraph_mode() and any(isinstance(d, Tensor) for d in sizes):
        helper = LayerHelper("randint")
        slots["ShapeTensorList"] = [d if isinstance(d, Tensor) else helper.constant([1], "int64", d) for d in sizes]
    else:
        attrs["shape"] = [int(d) for d in sizes]
    drawn = _into("randint", slots, attrs, dtype or "int64", out)
    drawn.stop_gradient = stop_gradient
    return drawn


def randn(
    shape: Any, out: Any = None, dtype: Any = None, device: str | None = None, stop_gradient: bool = True, name: str | None = None
) -> Any:
    """Draws of the standard normal distribution."""
    drawn = gaussian_random(shape, 0.0, 1.0, dtype=dtype or "float32")
    drawn = drawn if out is None else assign(drawn, out)
    drawn.stop_gradient = stop_gradient
    return drawn


def randperm(
    n: int, out: Any = None, dtype: Any = "int64", device: str | None = None, stop_gradient: bool = True, seed: int = 0
) -> Any:
    """0 up to n - 1 in an order that is drawn."""
    if n < 1:
        raise ValueError("The input n should be greater than 0 in randperm op.")
    drawn = _into("randperm", {}, {"n": n, "dtype": dtypes.as_dtype(dtype), "seed": seed}, dtype, out)
    drawn.stop_gradient = stop_gradient
    return drawn


@takes("input")
def unbind(input: Any, axis: int = 0) -> list[Any]:
    """The slices of `input` along `axis`, which is gone in them. No Paddle has it here but the first Paddle 2."""
    helper = LayerHelper("unbind")
    count = input.shape[axis]
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"unbind expected an axis with a known number of elements but got the shape {list(input.shape)} and axis {axis}")
    parts = [helper.create_variable_for_type_inference(input.dtype) for _ in [None] * count]
    helper.append_op("unbind", {"X": input}, {"Out": parts}, {"axis": axis})
    return parts


__dir__ = listed(__name__)
