"""The further spellings that Paddle 3 takes, so that a call written for another framework works: `out=`, `input=` for `x=`, sizes one by
one, `requires_grad=`.

The functions of this package have Paddle's own parameters. Here they get the others, once, on the way to `paddle` and to the methods of
Tensor; calls within the package reach the plain function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from polyreme import dispatch
from polyreme.device import as_place
from polyreme.tensor import Tensor

# Another name of a parameter, where the function has no parameter of that name.
OTHER_NAMES = {
    "input": "x", "other": "y", "tensors": "x", "obj": "x", "exponent": "y", "dim": "axis", "size": "shape", "dims": "repeat_times",
    "start_dim": "start_axis",
    "end_dim": "stop_axis", "end": "stop", "steps": "num", "n": "num_rows", "m": "num_columns", "ord": "p", "vec2": "y",
}  # fmt: skip

# The further names that functions of `nn.functional` take: fewer of them do.
OF_FUNCTIONAL = {
    **dict.fromkeys((
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
        "adaptive_max_pool3d", "conv1d", "conv2d",
        "conv3d", "dropout", "embedding", "gelu", "grid_sample", "hardshrink", "interpolate", "log_sigmoid", "one_hot", "pad", "sigmoid",
        "silu", "softplus", "softshrink", "tanh",
    ), {"input": "x"}),
    "cosine_similarity": {"dim": "axis"}, "cross_entropy": {"target": "label"}, "glu": {"input": "x", "dim": "axis"},
    "softmax": {"input": "x", "dim": "axis"},
    "normalize": {"input": "x", "dim": "axis", "eps": "epsilon"}, "pairwise_distance": {"eps": "epsilon"},
}  # fmt: skip

# Functions that give their result to the tensor `out`, too.
WITH_OUT = frozenset((
    "abs", "acos", "acosh", "add", "all", "amax", "amin", "any", "arange", "atanh", "bmm", "ceil", "clamp", "clip", "complex", "concat",
    "cos", "cosh", "cumsum", "diff", "div",
    "divide", "dot", "empty", "equal", "exp", "expm1", "eye", "floor", "floor_divide", "floor_mod", "frac", "full", "gather",
    "greater_equal", "greater_than",
    "index_add", "index_select", "less", "less_equal", "less_than", "linspace", "log", "log10", "log1p", "log2", "logical_and",
    "logical_not", "logical_or",
    "logical_xor", "logsumexp", "masked_select", "matmul", "maximum", "mean", "median", "minimum", "mod", "msort", "mul", "multinomial",
    "multiply", "nonzero", "norm", "normal",
    "not_equal", "ones", "outer", "pow", "prod", "rand", "randn", "randperm", "remainder", "round", "rsqrt", "scatter", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "stack",
    "standard_normal", "sub", "subtract", "sum", "take_along_axis", "tanh", "topk", "tril", "triu", "uniform", "var", "where", "zeros",
))  # fmt: skip

# Functions that make a tensor, which may be asked to lie on a device and to need gradients.
MAKERS = frozenset((
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like", "rand", "randn", "randperm",
    "standard_normal", "uniform", "zeros", "zeros_like",
))  # fmt: skip

# Where whole numbers one by one stand for a list of them: the place of the first.
SIZES = {"empty": 0, "ones": 0, "randn": 0, "rand": 0, "zeros": 0, "reshape": 1, "expand": 1, "view": 1}


def spelled(function: Callable[..., Any], name: str, others: Mapping[str, str] = OTHER_NAMES) -> Callable[..., Any]:
    """`function`, called `name` in the API, with the further spellings it has there; itself where it has none. `others` are further names
    of parameters.
    """
    # Of hundreds of functions; a signature takes ten times as long, and most have no use for it.
    code = inspect.unwrap(function).__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    renamed = {other: mine for other, mine in others.items() if mine in own and other not in own}
    with_out = name in WITH_OUT and "out" not in own
    makes, first = name in MAKERS, SIZES.get(name)
    if not renamed and not with_out and not makes and first is None:
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if first is not None and len(args) > first + 1 and all(_is_size(a) for a in args[first:]):
            args = (*args[:first], list(args[first:]))
        if not kwargs:
            return function(*args)
        for other in renamed.keys() & kwargs.keys():
            if renamed[other] in kwargs:
                raise ValueError(f"{name} expected either '{renamed[other]}' or '{other}' but got both")
            kwargs[renamed[other]] = kwargs.pop(other)
        out = kwargs.pop("out", None) if with_out else None
        if not makes:
            return _given(out, function(*args, **kwargs))
        device, requires_grad = kwargs.pop("device", None), kwargs.pop("requires_grad", False)
        kwargs.pop("pin_memory", None)
        made = function(*args, **kwargs)
        if device is not None:
            made = made._moved(as_place(device))
        made.stop_gradient = not requires_grad
        return _given(out, made)

    further: dict[str, Any] = {"out": None} if with_out else {}
    if makes:
        further |= {"device": None, "requires_grad": False} | ({"pin_memory": False} if name not in ("linspace", "uniform") else {})
    keywords = [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v) for k, v in further.items()]
    signature = inspect.signature(function)
    by_kind = sorted([*signature.parameters.values(), *keywords], key=lambda p: (p.kind, p.name == "name" and p.kind == p.KEYWORD_ONLY))
    call.__signature__ = signature.replace(parameters=by_kind)  # type: ignore[attr-defined]
    return call


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) or isinstance(value, Tensor) and value.ndim == 0


def _given(out: Any, result: Any) -> Any:
    """The result, which `out` (a tensor, or as many tensors as there are results) has from here on."""
    if out is None:
        return result
    if isinstance(out, Tensor):
        return dispatch.assign(out, result)
    given = [dispatch.assign(o, r) for o, r in zip(out, result, strict=True)]
    return result._make(given) if hasattr(result, "_make") else type(result)(given)
