"""Casting: what dispatch and functions of the API do inside of a region of `paddle.amp.auto_cast` (`state.py`).

Paddle's lists name Paddle's operators, so that a rule holds for one of those: for an op of the IR that is one by itself (`OPERATORS`), and
for a function that is one and is made of several ops here (`operator`), inside of which nothing is cast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from polyreme.casting.state import BY_FIRST, CAST, REGIONS, Casting, attends, current, suspended, watching
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.types import ScalarType, f32
from polyreme.provided import provided
from polyreme.tensor import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

# What ops are called in the lists, where an op is an operator of Paddle's by itself.
OPERATORS: dict[type[Op], str] = {
    ops.Abs: "abs", ops.Acos: "acos", ops.Add: "elementwise_add", ops.Argsort: "argsort", ops.Asin: "asin", ops.Atan: "atan",
    ops.Atan2: "atan2", ops.Attention: "matmul_v2", ops.AvgPool: "pool2d", ops.BatchNorm: "batch_norm", ops.Ceil: "ceil",
    ops.Concat: "concat", ops.Conv: "conv2d",
    ops.ConvTranspose: "conv2d_transpose", ops.Cos: "cos", ops.Cosh: "cosh", ops.CrossEntropy: "softmax_with_cross_entropy",
    ops.Cumsum: "cumsum", ops.Div: "elementwise_div", ops.Dropout: "dropout", ops.Erf: "erf", ops.Exp: "exp", ops.Expm1: "expm1",
    ops.Flip: "flip", ops.Floor: "floor", ops.FloorDivide: "elementwise_floordiv", ops.Gather: "gather", ops.Gelu: "gelu",
    ops.LeakyRelu: "leaky_relu", ops.Linear: "linear_v2", ops.Log: "log", ops.Log10: "log10", ops.Log1p: "log1p", ops.Log2: "log2",
    ops.LogSoftmax: "log_softmax", ops.MatMul: "matmul_v2", ops.Max: "reduce_max", ops.MaxPool: "pool2d",
    ops.Maximum: "elementwise_max", ops.Mean: "reduce_mean", ops.Min: "reduce_min", ops.Minimum: "elementwise_min",
    ops.Mod: "elementwise_mod", ops.Mul: "elementwise_mul", ops.Neg: "scale", ops.Pow: "elementwise_pow", ops.Prod: "reduce_prod",
    ops.Reciprocal: "reciprocal", ops.Relu: "relu", ops.Reshape: "reshape2", ops.Round: "round", ops.Rsqrt: "rsqrt",
    ops.Sigmoid: "sigmoid", ops.Sign: "sign", ops.Silu: "silu", ops.Sin: "sin", ops.Sinh: "sinh", ops.Slice: "slice",
    ops.Softmax: "softmax", ops.Softplus: "softplus", ops.Sqrt: "sqrt", ops.Square: "square", ops.Sub: "elementwise_sub",
    ops.Sum: "reduce_sum", ops.Tan: "tan", ops.Tanh: "tanh", ops.Transpose: "transpose2", ops.Trunc: "trunc", ops.Where: "where",
}  # fmt: skip
# What makes no numbers of its inputs' numbers, or says itself in which dtype.
_APART = (
    ops.Cast, ops.Constant, ops.CustomGradient, ops.DequantizeLinear, ops.DimValue, ops.FakeQuantize, ops.Full, ops.If, ops.Iota,
    ops.Overwrite, ops.QuantizeLinear, ops.Scan, ops.StopGradient, ops.Uniform, ops.While, ops.Yield,
)  # fmt: skip


def cast_operands(cls: type[Op], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a call in the dtype that the region of this thread has the op compute in."""
    found = current()
    if found is not None and cls not in _APART and cls.dialect == "nn":
        operands = cast_inputs(found, name_of(cls), operands)
    if (watch := watching()) is not None:
        watch.called(name_of(cls), operands)
    return operands


def name_of(cls: type[Op]) -> str:
    """What an op is called in lists and reports: as Paddle calls the operator, or as the IR does where there is none."""
    return OPERATORS.get(cls) or cls.name.partition(".")[2]


def cast_inputs(found: Casting, name: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an operator, in the dtype that it computes in."""
    try:
        wanted = found.wanted(name, tensors)
    except AttributeError:  # no tensors, or such without contents: whoever takes them tells
        return tensors
    if wanted is None:
        return tensors
    if name in BY_FIRST and wanted is not f32:
        return (_cast(tensors[0], wanted), *tensors[1:])
    return tuple([_cast(t, wanted) for t in tensors])


def inputs(name: str, *tensors: Any) -> tuple[Any, ...]:
    """The inputs of an operator in the dtype that the region of this thread has it compute in."""
    found = current()
    return tensors if found is None else cast_inputs(found, name, tensors)


def operator(name: str) -> Callable[[Function], Function]:
    """Mark a function as one operator of Paddle's: its tensors are cast as the lists have it, and inside of it nothing is."""

    def mark(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return as_one(name, function, *args, **kwargs) if REGIONS.count else function(*args, **kwargs)

        return cast("Function", call)

    return mark


def apart(function: Function) -> Function:
    """Mark a function as one in which nothing is cast in any region: its result has the dtype of what it takes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not REGIONS.count:
            return function(*args, **kwargs)
        with suspended():
            return function(*args, **kwargs)

    return cast("Function", call)


def as_one(operator_name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function gives as one operator of Paddle's: see `operator`."""
    if not REGIONS.count or not attends():
        return function(*args, **kwargs)
    if operator_name in BY_FIRST and "x" in kwargs:
        args, kwargs = (kwargs.pop("x"), *args), kwargs
    given = (*[_tensors(a) for a in args], *[_tensors(a) if k != "out" else None for k, a in kwargs.items()])
    if (found := current()) is not None:
        given = cast_inputs(found, operator_name, given)
    args = tuple([a if new is None else new for a, new in zip(args, given, strict=False)])
    kwargs = {k: a if new is None else new for (k, a), new in zip(kwargs.items(), given[len(args) :], strict=True)}
    watch = watching()
    if watch is not None:
        watch.called(operator_name, given)
    with suspended():
        made = function(*args, **kwargs)
    if watch is not None:
        watch.made(operator_name, made if isinstance(made, (list, tuple)) else (made,))
    return made


def _tensors(argument: Any) -> Any:
    """An argument that is a tensor, or a list of tensors; None for another."""
    if isinstance(argument, Tensor):
        return argument
    listed = isinstance(argument, (list, tuple)) and len(argument) > 0 and all(isinstance(a, Tensor) for a in argument)
    return argument if listed else None


def _cast(tensor: Any, wanted: ScalarType) -> Any:
    if isinstance(tensor, (list, tuple)):
        return [_cast(t, wanted) for t in tensor]
    if tensor is None or tensor.type.dtype is wanted or tensor.type.dtype not in CAST:
        return tensor
    return provided.cast_to(tensor, wanted)
