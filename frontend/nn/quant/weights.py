"""Products with weights in eight bits and activations in floats, by Paddle's names.

Weights are as Paddle's documentation has them, the transpose of a Linear's, [out, in], one row per output; they are not rearranged for a
GPU, whose `arch` is taken and not looked at. Scales are steps: what one integer more stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.diagnostics import did_you_mean
from polyreme.math import abs as magnitude
from polyreme.math import any as any_of
from polyreme.math import matmul, maximum, repeat_interleave, where, zeros_like
from polyreme.math import max as greatest
from polyreme.math import round as rounded
from polyreme.tensor import Tensor

__all__ = ["llm_int8_linear", "weight_dequantize", "weight_only_linear", "weight_quantize"]

_ALGORITHMS = ("weight_only_int8", "llm.int8")


def weight_quantize(x: Tensor, algo: str = "weight_only_int8", arch: int | None = None, group_size: int = -1) -> tuple[Tensor, Tensor]:
    """A weight [in, out] as int8 [out, in], and its scales: [out], or [in / group_size, out] for groups of 64 or 128 inputs.

    `algo` is "weight_only_int8", whose scales have the type of `x`, or "llm.int8", whose scales are float32.
    """
    _check(algo, group_size)
    if x.ndim != 2:
        raise ValueError(f"expected a weight [in, out] but got {list(x.shape)}")
    wide = x._value.astype(np.float32)
    inputs = wide.shape[0]
    if group_size > 0 and inputs % group_size:
        raise ValueError(f"expected a weight whose inputs {group_size} divides but got {list(x.shape)}")
    groups = wide.reshape(-1, group_size if group_size > 0 else inputs, wide.shape[1])
    step = (np.maximum(np.abs(groups).max(1), np.float32(1e-30)) / np.float32(127)).astype(np.float32)
    counts = np.clip(np.rint(groups / step[:, None]), -127, 127).reshape(wide.shape)
    scale = Tensor(step if group_size > 0 else step[0])
    return Tensor._wrap(np.ascontiguousarray(counts.T.astype(np.int8))), scale if algo == "llm.int8" else scale.astype(x.dtype)


def weight_dequantize(x: Tensor, scale: Tensor, algo: str = "weight_only_int8", out_dtype: Any = "float16", group_size: int = -1) -> Tensor:
    """The weight [in, out] that int8 [out, in] and its scales stand for, in the scales' type; `out_dtype` is taken and not looked at, as in
    Paddle.
    """
    _check(algo, group_size)
    return _restored(x, scale, group_size).transpose([1, 0])


def weight_only_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    weight_scale: Tensor | None = None,
    weight_dtype: str = "int8",
    arch: int | None = None,
    group_size: int = -1,
) -> Tensor:
    """x @ weight + bias, with `weight` in int8 [out, in] under `weight_scale` as `weight_quantize` gives both; in the type of `x`."""
    if weight_dtype != "int8":
        raise ValueError(f"expected 'int8' as weight_dtype but got {weight_dtype!r}: integers of four bits are not supported")
    if weight_scale is None:
        raise ValueError("expected the weight's scales as weight_scale but got None")
    _check("weight_only_int8", group_size)
    y = matmul(x, _restored(weight, weight_scale, group_size).astype(x.dtype), transpose_y=True)
    return y if bias is None else y + bias


def llm_int8_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, weight_scale: Tensor | None = None, threshold: float = 6.0
) -> Tensor:
    """x @ weight + bias by integers, but for inputs with outliers.

    Inputs (places of the last axis of `x`) where some magnitude is beyond `threshold` are multiplied in floats; the others in integers,
    counted in steps of a 127th of the largest magnitude of each row (Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for
    transformers at scale", 2022).
    """
    if weight_scale is None:
        raise ValueError("expected the weight's scales as weight_scale but got None")
    wide = x.astype("float32")
    over = any_of(magnitude(wide) > threshold, axis=list(range(x.ndim - 1)), keepdim=True) if x.ndim > 1 else magnitude(wide) > threshold
    plain = where(over, zeros_like(wide), wide)
    step = maximum(greatest(magnitude(plain), axis=-1, keepdim=True) / 127, Tensor(np.float32(1e-30)))
    scale = weight_scale.astype("float32")
    y = matmul(rounded(plain / step), weight.astype("float32"), transpose_y=True) * step * scale
    y = y + matmul(wide - plain, _restored(weight, scale, -1), transpose_y=True)
    return (y if bias is None else y + bias.astype("float32")).astype(x.dtype)


def _check(algo: str, group_size: int) -> None:
    if algo not in _ALGORITHMS:
        raise ValueError(f"expected one of {', '.join(_ALGORITHMS)} as algo but got {algo!r}{did_you_mean(str(algo), _ALGORITHMS)}")
    if group_size not in (-1, 64, 128):
        raise ValueError(f"expected a group_size of -1, 64 or 128 but got {group_size}")


def _restored(weight: Tensor, scale: Tensor, group_size: int) -> Tensor:
    """The numbers [out, in] that a weight in integers stands for."""
    if group_size > 0:
        return weight.astype(scale.dtype) * repeat_interleave(scale, group_size, 0).transpose([1, 0])
    return dispatch.call(ops.DequantizeLinear, weight, scale, None, axis=0)
