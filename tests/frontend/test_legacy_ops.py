"""The operators of the legacy format by their own names, slots and attributes, applied to eager tensors; older names included."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.table import LEGACY, apply_legacy

RNG = np.random.default_rng(5)
X, W, V = (RNG.standard_normal(shape).astype("float32") for shape in ((2, 3, 4), (12, 5), (3,)))
IMAGE, ONES = np.arange(16, dtype="float32").reshape(1, 1, 4, 4), np.ones((1, 1, 3, 3), "float32")
SAME = {"padding_algorithm": "SAME", "paddings": [7, 7], "dilations": [2, 2], "groups": 1}
IDS = np.array([[1], [0], [2]])


def apply(type_, attrs=None, out="Out", **slots):
    """The arrays in one output slot."""
    inputs = {slot: [paddle.to_tensor(v) for v in (given if isinstance(given, list) else [given])] for slot, given in slots.items()}
    return [tensor.numpy() for tensor in apply_legacy(type_, inputs, attrs or {})[out]]


def test_every_older_spelling_leads_to_parameters_that_the_operator_has():
    for name, (entry, spelling) in LEGACY.items():
        assert set(spelling.inputs.values()) <= set(entry.parameters), name
        assert set(spelling.attributes.values()) <= set(entry.parameters), name


@pytest.mark.parametrize(
    "made, wanted",
    [
        (lambda: apply("elementwise_add", {"axis": 1}, X=X, Y=V), X + V[:, None]),
        (lambda: apply("elementwise_mul", {"axis": -1}, X=X, Y=X[0]), X * X[0]),
        (lambda: apply("elementwise_sub", {"axis": 0}, X=X, Y=X[:, :, 0]), X - X[:, :, :1]),
        (lambda: apply("mul", {"x_num_col_dims": 1}, X=X, Y=W), X.reshape(2, 12) @ W),
        (lambda: apply("matmul", {"transpose_Y": True, "alpha": 0.5}, X=X, Y=X), 0.5 * X @ X.swapaxes(1, 2)),
        (lambda: apply("flatten2", {"axis": 2}, X=X), X.reshape(6, 4)),
        (lambda: apply("fake_dequantize_max_abs", {"max_range": 8.0}, X=X, Scale=np.float32([0.5])), X * 0.5 / 8),
        (lambda: apply("lookup_table", {"padding_idx": -1}, Ids=IDS, W=W), W[IDS[:, 0]]),
        (
            lambda: apply("fill_constant", {"shape": [2, 2], "value": 0.0, "str_value": "-3", "dtype": 3, "place_type": -1}),
            np.full((2, 2), -3),
        ),
        (
            lambda: apply("fill_constant", {"dtype": 5, "value": 1.5}, ShapeTensorList=[np.array([2]), np.array([3])]),
            np.full((2, 3), 1.5, "float32"),
        ),
        (
            lambda: apply("assign_value", {"shape": [3], "dtype": 2, "int32_values": [4, 5, 6], "fp32_values": []}),
            np.array([4, 5, 6], "int32"),
        ),
        (lambda: apply("reshape2", {"shape": [-1]}, X=X, Shape=np.array([4, 6])), X.reshape(4, 6)),
        (lambda: apply("reduce_sum", {"dim": [0], "reduce_all": True, "keep_dim": False}, X=V), V.sum()),
        (lambda: apply("reduce_max", {"dim": [-1], "keep_dim": True}, X=X), X.max(-1, keepdims=True)),
        (lambda: apply("slice", {"axes": [1], "starts": [0], "ends": [1], "decrease_axis": [1]}, Input=X), X[:, 0]),
        (lambda: apply("slice", {"axes": [2], "starts": [0], "ends": [9]}, Input=X, EndsTensor=np.array([2])), X[..., :2]),
        (
            lambda: apply("pad2d", {"paddings": [1, 0, 0, 2], "mode": "edge"}, X=X[None]),
            np.pad(X[None], [(0, 0), (0, 0), (1, 0), (0, 2)], "edge"),
        ),
        (lambda: apply("top_k_v2", {"k": 2, "axis": 2}, X=X), -np.sort(-X, 2)[..., :2]),
        (lambda: apply("top_k_v2", {"k": 2, "axis": 1}, out="Indices", X=X), np.argsort(-X, 1)[:, :2]),
        (lambda: apply("scale", {"scale": 2.0, "bias": 1.0, "bias_after_scale": False}, X=V), (V + 1) * 2),
        (lambda: apply("cumsum", {"axis": 1, "reverse": True, "exclusive": True}, X=X), X[:, ::-1].cumsum(1)[:, ::-1] - X),
        (lambda: apply("stack", {"axis": 1}, out="Y", X=[V, V + 1]), np.stack([V, V + 1], 1)),
        (lambda: apply("einsum", {"equation": "bij,bkj->bik"}, Operands=[X, X]), np.einsum("bij,bkj->bik", X, X)),
        # With SAME neither paddings nor dilations count. What is summed is what Paddle 3.3.1 gives.
        (lambda: [v.sum() for v in apply("conv2d", {**SAME, "strides": [1, 1]}, out="Output", Input=IMAGE, Filter=ONES)], np.float32(750)),
        (
            lambda: [v.sum() for v in apply("conv2d_transpose", {**SAME, "strides": [2, 2]}, out="Output", Input=IMAGE, Filter=ONES)],
            np.float32(825),
        ),
        (lambda: apply("cast", {"in_dtype": 5, "out_dtype": 6}, X=V), V.astype("float64")),
    ],
)  # fmt: skip
def test_an_operator_by_its_older_name(made, wanted):
    (array,) = made()
    assert array.shape == wanted.shape and array.dtype == wanted.dtype
    np.testing.assert_allclose(array, wanted, rtol=2e-6, atol=2e-6)


def test_split_gives_as_many_tensors_as_parts():
    parts = apply("split", {"num": 0, "sections": [1, 3], "axis": -1}, X=X)
    assert [p.shape for p in parts] == [(2, 3, 1), (2, 3, 3)]


def test_batch_norm_in_training_moves_its_statistics():
    x = RNG.standard_normal((4, 3, 2)).astype("float32")
    slots = {"X": x, "Mean": V, "Variance": V * V, "Scale": V + 2, "Bias": V}
    inputs = {slot: [paddle.to_tensor(v)] for slot, v in slots.items()}
    made = apply_legacy("batch_norm", inputs, {"momentum": 0.9, "epsilon": 1e-5, "is_test": False, "data_layout": "NCHW"})
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    np.testing.assert_allclose(made["MeanOut"][0].numpy(), 0.9 * V + 0.1 * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made["VarianceOut"][0].numpy(), 0.9 * V * V + 0.1 * variance, rtol=1e-5, atol=1e-6)
    wanted = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) * (V + 2)[:, None] + V[:, None]
    np.testing.assert_allclose(made["Y"][0].numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "type_, slots, attrs, message",
    [
        ("matmul_v3", {"X": V}, {}, "the operator 'matmul_v3' is not supported; did you mean 'matmul_v2'?"),
        ("relu", {"Y": V}, {}, "expected the input slots X of 'relu' but got 'Y'"),
        ("softmax", {"X": V}, {"axes": 1}, "expected no attribute 'axes' of 'softmax' but got 1; did you mean 'axis'?"),
        ("softmax", {"X": V}, {"axis": "last"}, "expected a whole number as 'axis' but got 'last'"),
        ("elementwise_add", {"X": X, "Y": V}, {"axis": 3}, "expected an axis in [-1, 2] but got 3"),
        ("reshape2", {"X": X}, {}, "expected 'shape' for 'reshape' but the program leaves it out"),
        ("cast", {"X": X}, {"out_dtype": 99}, "expected a dtype as 'dtype' but got 99"),
    ],
)  # fmt: skip
def test_what_an_operator_does_not_take_is_an_error(type_, slots, attrs, message):
    with pytest.raises(UnsupportedError) as caught:
        apply(type_, attrs, **slots)
    assert message in str(caught.value)


TABLE = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
AT_PLACES = {
    "scatter": ({"X": [TABLE], "Ids": [np.array([2, 0])], "Updates": [TABLE[:2]]}, {"overwrite": True}, "Out", TABLE[[1, 1, 0, 3]]),
    "scatter_nd_add": (
        {"X": [TABLE], "Index": [np.array([[2], [2]])], "Updates": [TABLE[:2]]}, {},
        "Out", TABLE + [[0], [0], [1], [0]] * (TABLE[0] + TABLE[1]),
    ),
    "put_along_axis": (
        {"Input": [TABLE], "Index": [np.zeros((4, 1), np.int64)], "Value": [TABLE[:, 2:]]}, {"Axis": 1, "Reduce": "assign"},
        "Result", TABLE[:, [2, 1, 2]],
    ),
    "where_index": ({"Condition": [TABLE > 0]}, {}, "Out", np.argwhere(TABLE > 0)),
    "masked_select": ({"X": [TABLE], "Mask": [TABLE > 0]}, {}, "Y", TABLE[TABLE > 0]),
    "diag_v2": ({"X": [TABLE]}, {"offset": 1, "padding_value": 0.0}, "Out", np.diag(TABLE, 1)),
    "argsort": ({"X": [TABLE]}, {"axis": -1, "descending": True}, "Indices", np.tile([2, 1, 0], (4, 1))),
    "set_value": (
        {"Input": [TABLE]}, {"axes": [1], "starts": [0], "ends": [2**31 - 1], "steps": [2], "shape": [1], "fp32_values": [7.0], "dtype": 5},
        "Out",
        np.where([True, False, True], np.float32(7), TABLE),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_PLACES)
def test_elements_at_places_that_tensors_tell(name):
    slots, attributes, slot, expected = AT_PLACES[name]
    (made,) = apply_legacy(name, {s: [paddle.to_tensor(a) for a in arrays] for s, arrays in slots.items()}, attributes)[slot]
    np.testing.assert_array_equal(made.numpy(), expected)


def test_draws_follow_the_seed_of_the_process_or_their_own():
    for _ in range(2):
        paddle.seed(5)
        expected = [paddle.randn([3]).numpy(), paddle.randint(0, 9, [4]).numpy(), paddle.randperm(6).numpy()]
        paddle.seed(5)
        rows = [
            ("gaussian_random", {"shape": [3], "dtype": 5}),
            ("randint", {"shape": [4], "low": 0, "high": 9, "dtype": 3}),
            ("randperm", {"n": 6, "dtype": 3}),
        ]
        for (name, attributes), wanted in zip(rows, expected, strict=True):
            np.testing.assert_array_equal(apply_legacy(name, {}, attributes)["Out"][0].numpy(), wanted)
    same = [
        apply_legacy("randint", {}, {"shape": [4], "low": 0, "high": 1 << 40, "seed": 3, "dtype": 3})["Out"][0].numpy() for _ in range(2)
    ]
    np.testing.assert_array_equal(*same)
