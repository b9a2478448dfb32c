"""The dtype of each function's result in a region, beside what Paddle 3.3.1 gives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.casting import operators, state
from tests.amp.functions import DTYPES, FUNCTIONS, LEVELS, dtypes_of, inputs
from tests.amp.record import RECORDED

# Where Paddle's programs do otherwise than its dygraph mode, which is followed: there a power by a number is the operator `pow`, of the
# black list, and `linear` is `linear_v2` on a GPU, of the white list, with its bias.
OF_DYGRAPH = {
    "x ** 2": {"O1": "float32"},
    "x ** 0.5": {"O1": "float32"},
    "F.linear with a bias": {"O1": "half", "O2": "half", "O2 without promotion": "half", "OD": "half"},
}


def made(name: str, shape: list[int], dtype: str) -> Any:
    if dtype == "int64":
        return paddle.to_tensor(np.arange(4))
    numbers = np.random.default_rng(len(name)).uniform(0.2, 2.0, shape)
    return paddle.to_tensor(numbers.astype("float32")).astype(dtype)


def expected(row: dict[str, Any], name: str, level: str, kind: str, given: str) -> Any:
    """What is recorded. Not all of Paddle's operators take float16 on a CPU; the dtypes are those of bfloat16, named otherwise."""
    if level in OF_DYGRAPH.get(name, {}) and not (level == "O1" and given == "float32" and "x **" in name):
        known = OF_DYGRAPH[name][level]
        return kind if known == "half" else known
    found = row.get(f"{level}, {kind}, of {given}")
    if found is None:
        other = DTYPES[1 - DTYPES.index(kind)]
        found = row.get(f"{level}, {other}, of {given}")
        found = json.loads(json.dumps(found).replace(f'"{other}"', f'"{kind}"'))
    return found


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("level", LEVELS)
def test_results_have_the_dtypes_of_paddles(level: str, kind: str) -> None:
    recorded = json.loads(RECORDED.read_text())
    compared = 0
    for given in ("float32", "half"):
        values = inputs(made, kind if given == "half" else "float32")
        for name, function in FUNCTIONS.items():
            with paddle.amp.auto_cast(dtype=kind, **LEVELS[level]):
                result = dtypes_of(function(paddle, values))
            wanted = expected(recorded.get(name, {}), name, level, kind, given)
            if wanted is not None:
                assert result == wanted, (name, given)
                compared += 1
    assert compared > 150 - 90 * ("without" in level)  # without promotion Paddle's CPU has kernels for few


def test_every_operator_of_a_list_is_one_that_is_called_so() -> None:
    white, black = paddle.amp.white_list(), paddle.amp.black_list()
    assert white["float16"]["O1"] - white["bfloat16"]["O1"] == state.WHITE_OF_FLOAT16
    assert black["float16"]["O1"] - black["float16"]["O2"] == state.BLACK and black["bfloat16"]["OD"] == set()
    assert not state.WHITE & (state.BLACK | state.ALWAYS_BLACK)
    named = set(operators.OPERATORS.values())
    assert {"matmul_v2", "conv2d", "softmax", "reduce_sum", "reduce_mean", "exp", "log"} <= named
    assert "nonsense" not in white["float16"]["O1"]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("matmul_v2", lambda x: x @ x),
        ("elementwise_add", lambda x: x + x),
        ("relu", paddle.nn.functional.relu),
        ("softmax", paddle.nn.functional.softmax),
        ("reduce_sum", paddle.sum),
        ("pool2d", lambda x: paddle.nn.functional.avg_pool2d(x.reshape([1, 1, 4, 4]), 2)),
        ("transpose2", lambda x: x.transpose([1, 0])),
        ("concat", lambda x: paddle.concat([x, x])),
        ("lookup_table_v2", lambda x: paddle.nn.functional.embedding(paddle.to_tensor([1]), x)),
        ("layer_norm", lambda x: paddle.nn.functional.layer_norm(x, 4)),
    ],
)
def test_lists_of_ones_own_come_first(name: str, function: Any) -> None:
    x = paddle.rand([4, 4])
    with paddle.amp.auto_cast(custom_white_list=[name]):
        assert function(x).dtype == paddle.float16
    with paddle.amp.auto_cast(custom_black_list={name}):
        assert function(x.astype("float16")).dtype == paddle.float32


# What functions are called in lists of one's own, as Paddle 3.3.1 has it, where no list of Paddle's names them.
NAMED = {
    "diag": "diag_v2", "flatten": "flatten_contiguous_range", "sort": "argsort", "scale": "scale", "topk": "top_k_v2", "trace": "trace",
    "concat": "concat", "stack": "stack", "x[1]": "slice", "transpose": "transpose2", "multiplex of a sum": "sum", "kron": "kron",
    "F.avg_pool2d": "pool2d", "F.dropout": "dropout", "clip": "clip", "split": "split", "F.swish": "swish", "F.relu6": "relu6",
    "F.hardswish": "hard_swish", "F.hardsigmoid": "hard_sigmoid", "add": "elementwise_add", "neg": "scale", "floor": "floor",
}  # fmt: skip


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("name", NAMED)
def test_lists_of_ones_own_name_operators_as_paddle_does(name: str) -> None:
    narrow, wide = (inputs(made, dtype) for dtype in ("float16", "float32"))
    first = lambda result: result[0] if isinstance(result, (list, tuple)) else result
    with paddle.amp.auto_cast(custom_black_list=[NAMED[name]]):
        assert first(FUNCTIONS[name](paddle, narrow)).dtype == paddle.float32
    with paddle.amp.auto_cast(custom_white_list=[NAMED[name]]):
        assert first(FUNCTIONS[name](paddle, wide)).dtype == paddle.float16


@pytest.mark.usefixtures("on_cpu")
def test_a_layer_norm_of_float32_has_its_weights_in_float32_too() -> None:
    """At O2 in bfloat16 its weights are in half precision, and what comes from an embedding is not."""
    net = paddle.nn.Sequential(paddle.nn.Embedding(5, 4), paddle.nn.LayerNorm(4))
    net = paddle.amp.decorate(net, level="O2", dtype="bfloat16")
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
        made = net(paddle.to_tensor([1, 2]))
    assert made.dtype == paddle.float32 and net[1].weight.dtype == paddle.bfloat16
    made.sum().backward()
    assert net[1].weight.grad.dtype == paddle.bfloat16
