"""Every function and method with a trailing underscore: called with all arguments by name, it does what the function without it does, to
the tensor itself.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import polyreme as paddle

F = paddle.nn.functional
A, B = [[0.5, -1.25, 2.0], [0.25, 3.5, -0.75]], [[2.0, 0.5, -1.5], [1.0, -2.0, 0.5]]
INSIDE = [[0.5, 0.25, 0.125], [0.75, 0.625, 0.875]]
ABOVE = [[1.5, 2.25, 3.125], [1.75, 4.0, 1.0625]]
BITS, OTHER_BITS = [[1, 6, 3], [12, 5, 9]], [[3, 2, 1], [4, 7, 8]]
YES, NO = [[True, False, True], [False, False, True]], [[True, True, False], [False, True, False]]

_PLAIN = "abs atan ceil cos cosh erf exp expm1 floor frac neg reciprocal round sigmoid sin sinc sinh square tan tanh trunc asinh nan_to_num"
_OF_FLOATS = (
    "add subtract sub multiply mul divide div floor_divide mod floor_mod remainder copysign hypot "
    "less less_than less_equal greater_than greater_equal equal not_equal"
)

# By name (without the underscore): the first argument, and the others by the names that Paddle gives them.
TABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (A, {}) for name in _PLAIN.split()},
    **{name: (INSIDE, {}) for name in "acos asin atanh erfinv log log10 log1p log2 logit rsqrt sqrt".split()},
    **{name: (A, {"y": B}) for name in _OF_FLOATS.split()},
    **{name: (BITS, {"y": OTHER_BITS}) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{name: (BITS, {}) for name in ("bitwise_not", "bitwise_invert")},
    **{name: (YES, {"y": NO}) for name in ("logical_and", "logical_or", "logical_xor")},
    "acosh": (ABOVE, {}),
    "addmm": (A, {"x": [[1.0, 2.0], [3.0, 4.0]], "y": B, "beta": 0.5, "alpha": 2.0}),
    "baddbmm": ([A], {"x": [[[1.0, 2.0], [3.0, 4.0]]], "y": [B], "beta": 0.5, "alpha": 2.0}),
    "cast": (A, {"dtype": "float64"}),
    "clamp": (A, {"min": -1.0, "max": 2.0}),
    "clip": (A, {"min": -1.0, "max": 2.0}),
    **{f"bitwise_{way}_shift": (BITS, {"y": [[1, 2, 0], [3, 0, 1]]}) for way in ("left", "right")},
    "cumprod": (A, {"dim": 0, "dtype": "float64"}),
    "cumsum": (A, {"axis": 0, "dtype": "float64"}),
    "flatten": (A, {"start_axis": 0, "stop_axis": 1}),
    "index_add": (A, {"index": [1, 1], "axis": 0, "value": B, "alpha": 2}),
    "index_fill": (A, {"index": [2], "axis": 1, "value": 7.0}),
    "index_put": (A, {"indices": ([0, 1], [2, 0]), "value": [5.0, 6.0], "accumulate": True}),
    "ldexp": (A, {"y": [[1, 2, 3], [0, 1, 2]]}),
    "lerp": (A, {"y": B, "weight": 0.25}),
    "logical_not": (YES, {}),
    "masked_fill": (A, {"mask": YES, "value": 9.0}),
    "masked_scatter": (A, {"mask": YES, "value": [7.0, 8.0, 9.0]}),
    "pow": (ABOVE, {"y": 1.5}),
    "put_along_axis": (A, {"indices": [[1, 0, 1]], "values": 3.0, "axis": 0, "reduce": "add", "include_self": True, "broadcast": True}),
    "reshape": (A, {"shape": [3, 2]}),
    "scale": (A, {"scale": 2.0, "bias": 1.0, "bias_after_scale": False}),
    "scatter": (A, {"index": [1], "updates": [[7.0, 8.0, 9.0]], "overwrite": False}),
    "squeeze": ([A], {"axis": 0}),
    "t": (A, {}),
    "transpose": (A, {"perm": [1, 0]}),
    "tril": (A, {"diagonal": -1}),
    "triu": (A, {"diagonal": 1}),
    "unsqueeze": (A, {"axis": [0, 2]}),
    "where": (YES, {"x": A, "y": B}),
}
FUNCTIONAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "elu": (A, {"alpha": 0.5}),
    "hardtanh": (A, {"min": -0.5, "max": 1.0}),
    "leaky_relu": (A, {"negative_slope": 0.125}),
    "relu": (A, {}),
    "softmax": (A, {"axis": 0, "dtype": "float64"}),
    "tanh": (A, {}),
    "thresholded_relu": (A, {"threshold": 1.0, "value": 0.5}),
}
# Those that draw, fill, or say something about the tensor: no other function does the same.
OTHERS = {"bernoulli_", "copy_", "detach_", "fill_", "fill_diagonal_", "normal_", "requires_grad_", "uniform_", "zero_"}
# Named otherwise than `x`, as in Paddle.
FIRST = {"addmm": "input", "baddbmm": "input", "put_along_axis": "arr", "t": "input", "where": "condition"}
WAYS = [(paddle, n) for n in TABLE if n not in ("clamp", "mul")] + [(paddle.Tensor, n) for n in TABLE] + [(F, n) for n in FUNCTIONAL]


def _tensors(value: Any) -> Any:
    return tuple(map(paddle.to_tensor, value)) if isinstance(value, tuple) else paddle.to_tensor(value)


def _keywords(name: str, given: dict[str, Any]) -> dict[str, Any]:
    plain = ("axis", "shape", "perm")
    return {k: _tensors(v) if isinstance(v, (list, tuple)) and k not in plain else v for k, v in given.items()}


def _in_place_names(space: Any) -> set[str]:
    return {n for n in dir(space) if n.endswith("_") and not n.startswith("_")}


def test_every_in_place_name_is_in_the_table() -> None:
    assert _in_place_names(paddle) <= {n + "_" for n in TABLE} | OTHERS
    assert _in_place_names(paddle.Tensor) == {n + "_" for n in TABLE} | OTHERS
    assert _in_place_names(F) == {n + "_" for n in FUNCTIONAL}


@pytest.mark.parametrize(("space", "name"), WAYS, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_by_keywords_it_does_what_the_plain_function_does(space: Any, name: str) -> None:
    first, given = (FUNCTIONAL if space is F else TABLE)[name]
    plain = getattr(F if space is F else paddle if hasattr(paddle, name) else paddle.Tensor, name)
    wanted = plain(**{FIRST.get(name, "x"): _tensors(first)}, **_keywords(name, given))
    start, keywords = _tensors(first), _keywords(name, given)
    changed = keywords["x"] if name == "where" else start
    version = changed.inplace_version
    changing = getattr(space, name + "_")
    if space is paddle.Tensor:
        result = getattr(start, name + "_")(**keywords)
    else:
        assert next(iter(inspect.signature(changing).parameters)) == FIRST.get(name, "x")
        result = changing(**{FIRST.get(name, "x"): start}, **keywords)
    assert result is changed and changed.inplace_version == version + 1
    assert changed.dtype == wanted.dtype
    np.testing.assert_array_equal(changed.numpy(), wanted.numpy())


# `floor_divide_` passes the gradient on as it comes, as in Paddle, and `floor_divide` none.
@pytest.mark.parametrize("name", [n for n in TABLE if n not in ("cast", "where", "floor_divide") and TABLE[n][0] not in (BITS, YES)])
def test_gradients_are_those_of_the_plain_function(name: str) -> None:
    first, given = TABLE[name]
    found = []
    for form in (name, name + "_"):
        leaf = paddle.to_tensor(first, stop_gradient=False)
        result = getattr(leaf * 1, form)(**_keywords(name, given))
        if not result.stop_gradient and result.is_floating_point():
            (result * result).sum().backward()
        found.append(leaf.grad)
    assert (found[0] is None) == (found[1] is None)
    if found[0] is not None:
        np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())


def test_what_fills_and_says_takes_names_too() -> None:
    x = paddle.zeros([3, 3])
    assert x.fill_(value=2.0) is x and x.tolist() == [[2.0] * 3] * 3
    assert x.fill_diagonal_(value=1.0, offset=1, wrap=False)[0, 1].item() == 1.0
    assert x.copy_(other=paddle.ones([3, 3]), blocking=True).sum().item() == 9.0
    assert x.uniform_(min=2.0, max=3.0, seed=7).min().item() >= 2.0
    assert x.normal_(mean=100.0, std=0.01).min().item() > 90.0
    assert x.bernoulli_(p=1.0).sum().item() == 9.0
    assert x.zero_().sum().item() == 0.0
    assert x.requires_grad_(requires_grad=True).stop_gradient is False
    assert x.detach_().stop_gradient


def test_a_missing_first_argument_is_told() -> None:
    with pytest.raises(TypeError, match=r"abs_\(\) missing the required argument 'x'"):
        paddle.abs_()
    with pytest.raises(TypeError, match=r"multiply_\(\): argument 'x' must be Tensor, but got float"):
        paddle.multiply_(2.0, paddle.ones([1]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: paddle.add_n([x]), lambda x: paddle.add_n(x), lambda x: paddle.einsum("ij->ij", x),
        lambda x: F.dropout(x, 0.5, training=False),
        lambda x: paddle.sort(x.sum()), lambda x: paddle.cumsum(x.sum(), 0), lambda x: paddle.topk(x.sum(), 1).values,
        lambda x: paddle.clip(x), lambda x: paddle.concat([x]),
        lambda x: paddle.scale(x), lambda x: paddle.cast(x, x.dtype), lambda x: paddle.nan_to_num(x), lambda x: paddle.roll(x, 0),
        lambda x: paddle.tile(x, 1),
    ],
)  # fmt: skip
def test_a_result_that_is_changed_leaves_the_argument_as_it_was(function: Any) -> None:
    x = paddle.to_tensor(A)
    function(x).add_(paddle.ones([]))
    assert x.tolist() == A
