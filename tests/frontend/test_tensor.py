"""Tensors: making, converting, promoting, indexing, refusing."""

import copy
import pickle

import numpy as np
import pytest

import polyreme as paddle


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"),
        (1.5, "float32"),
        (True, "bool"),
        (1 + 2j, "complex64"),
        ([1, 2.5], "float32"),
        ([], "float32"),
        (np.arange(3, dtype="int32"), "int32"),
        (np.float64(1.5), "float64"),
        ([np.float64(1.5)], "float32"),
        ([np.ones(2), np.zeros(2)], "float32"),
        ([[1, 2], [3, 4]], "int64"),
    ],
)
def test_data_gets_paddles_dtype(data, dtype):
    tensor = paddle.to_tensor(data)
    assert tensor.dtype.name == dtype and tensor.stop_gradient
    np.testing.assert_array_equal(tensor.numpy(), np.asarray(data))


def test_a_tensor_keeps_no_hold_of_the_data_nor_gives_its_own_away():
    data = np.ones(3, "float32")
    tensor = paddle.to_tensor(data)
    data[0] = 5
    tensor.numpy()[1] = 7
    assert tensor.tolist() == [1, 1, 1]


def test_tensors_inside_lists_are_stacked():
    assert paddle.to_tensor([paddle.ones([2]), paddle.zeros([2])]).shape == [2, 2]


@pytest.mark.parametrize(("data", "error"), [("a", TypeError), ([[1, 2], [3]], ValueError), (["a"], ValueError), (object(), TypeError)])
def test_what_is_no_number_is_refused(data, error):
    with pytest.raises(error):
        paddle.to_tensor(data)


def test_the_default_dtype_applies_to_literals_and_layers():
    paddle.set_default_dtype("float64")
    try:
        assert paddle.to_tensor(1.5).dtype is paddle.float64
        assert paddle.ones([1]).dtype is paddle.float64
    finally:
        paddle.set_default_dtype("float32")
    with pytest.raises(TypeError, match="as the default dtype but got int32"):
        paddle.set_default_dtype("int32")


def test_dtypes_are_one_object_each():
    assert paddle.ones([1]).dtype is paddle.float32 and repr(paddle.float32) == "paddle.float32"
    assert pickle.loads(pickle.dumps(paddle.int8)) is paddle.int8
    with pytest.raises(TypeError, match="did you mean 'float32'"):
        paddle.ones([1], dtype="flot32")


@pytest.mark.parametrize(
    ("x", "y", "dtype"),
    [
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("float16", "bfloat16", "float32"),
        ("float32", "complex64", "complex64"),
        ("float64", "complex64", "complex128"),
    ],
)
def test_floats_widen(x, y, dtype):
    result = paddle.ones([2], dtype=x) + paddle.ones([2], dtype=y)
    assert result.dtype.name == dtype


@pytest.mark.parametrize(("x", "y"), [("int64", "float32"), ("int64", "int32"), ("bool", "int64"), ("uint8", "int64")])
def test_other_mixtures_are_refused(x, y):
    with pytest.raises(TypeError, match=f"got different data type x: {x}, y: {y}"):
        paddle.ones([2], dtype=x) + paddle.ones([2], dtype=y)


@pytest.mark.parametrize(
    ("vector", "scalar", "dtype"),
    [
        ("float32", "float64", "float32"),
        ("float32", "int64", "float32"),
        ("int64", "float32", "float32"),
        ("int64", "float64", "float64"),
        ("bool", "int64", "int64"),
    ],
)
def test_a_tensor_without_axes_gives_way_to_one_with_axes(vector, scalar, dtype):
    assert (paddle.ones([2], dtype=vector) + paddle.ones([], dtype=scalar)).dtype.name == dtype


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("i + 1.5", "float32"),
        ("i + True", "int64"),
        ("b + 1", "int64"),
        ("b + 1.0", "float32"),
        ("h + 1.5", "float16"),
        ("d + 1.5", "float64"),
        ("i / 2", "float32"),
        ("i // 2", "int64"),
        ("i // 2.0", "float32"),
        ("1 / i", "float32"),
        ("i ** 2.0", "float32"),
        ("f + np.ones(2)", "float64"),
        ("np.ones(2) + f", "float64"),
        ("f * np.float64(2)", "float32"),
        ("f + 1j", "complex64"),
    ],
)
def test_a_python_number_takes_the_dtype_of_the_tensor_unless_of_a_higher_kind(expression, dtype):
    tensors = {
        name: paddle.ones([2], dtype=d) for name, d in (("i", "int64"), ("b", "bool"), ("h", "float16"), ("f", "float32"), ("d", "float64"))
    }
    assert eval(expression, {"np": np, **tensors}).dtype.name == dtype


def test_equality_with_a_fraction_does_not_round_it():
    assert (paddle.to_tensor([1, 2]) == 1.5).tolist() == [False, False]
    assert (paddle.to_tensor([1.0]) == None) is False  # noqa: E711
    assert (paddle.to_tensor([1.0]) != "x") is True


def test_bools_add_as_or_and_multiply_as_and():
    x, y = paddle.to_tensor([True, False]), paddle.to_tensor([True, True])
    assert (x + y).tolist() == [True, True] and (x * y).tolist() == [True, False]
    with pytest.raises(ValueError, match=r"nn\.sub"):
        x - y


@pytest.mark.parametrize("other", [None, [1, 2], "x", {}])
def test_arithmetic_with_anything_else_is_refused(other):
    with pytest.raises(TypeError, match="expected int, float, bool or Tensor"):
        paddle.ones([2]) + other


def test_whole_numbers_cannot_be_divided_by_zero():
    with pytest.raises(ZeroDivisionError):
        paddle.to_tensor([1, 2]) // 0
    assert np.isinf((paddle.ones([1]) / 0).item())


def test_conversions_to_python_numbers():
    x = paddle.to_tensor([[3]])
    assert int(x) == 3 and float(x) == 3.0 and [10, 11, 12, 13][x] == 13 and bool(x)
    assert f"{paddle.to_tensor(0.5):.2f}" == "0.50"
    with pytest.raises(ValueError, match="only one element"):
        paddle.ones([2]).item()
    assert paddle.ones([2]).item(1) == 1
    with pytest.raises(TypeError, match="only integer tensors"):
        range(paddle.to_tensor(1.5))
    with pytest.raises(AssertionError, match="only contain one element"):
        bool(paddle.ones([2]))
    with pytest.raises(AssertionError, match="0-D"):
        len(paddle.ones([]))
    with pytest.raises(TypeError, match="0-D"):
        iter(paddle.ones([]))


def test_bfloat16_comes_as_bits():
    assert paddle.to_tensor([1.0], dtype="bfloat16").numpy().tolist() == [0x3F80]


def test_properties():
    x = paddle.zeros([2, 3])
    assert (x.shape, x.ndim, x.size, x.strides, x.element_size(), x.nbytes) == ([2, 3], 2, 6, [3, 1], 4, 24)
    assert x.T.shape == [3, 2] and paddle.zeros([4, 2, 3]).mT.shape == [4, 3, 2]
    assert str(x.place) == "Place(cpu)" and x.name.startswith("generated_tensor_") and len(x) == 2
    assert [row.shape for row in x] == [[3], [3]]


def test_copies():
    x = paddle.to_tensor([1.0], stop_gradient=False)
    x.grad = paddle.ones([1])
    twin = copy.deepcopy(x)
    assert twin.tolist() == [1] and not twin.stop_gradient and twin.grad is None
    with pytest.raises(RuntimeError, match="Leaf"):
        copy.deepcopy(x * 2)
    weight = paddle.nn.Linear(2, 2).weight
    again = pickle.loads(pickle.dumps(weight))
    assert (again.numpy() == weight.numpy()).all() and again.name == weight.name and again.trainable and isinstance(again, type(weight))
    assert pickle.loads(pickle.dumps(paddle.to_tensor([2.5], dtype="bfloat16"))).dtype is paddle.bfloat16


def test_set_value_keeps_shape_and_dtype():
    x = paddle.zeros([2])
    x.set_value(np.array([1, 2], "float32"))
    assert x.tolist() == [1, 2] and x.inplace_version == 1
    with pytest.raises(ValueError, match=r"expected shape \[2\]"):
        x.set_value(paddle.ones([3]))
    with pytest.raises(TypeError, match="expected dtype float32"):
        x.set_value(paddle.ones([2], "int64"))


KEYS = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[:, 1:3],
    np.s_[::-1],
    np.s_[5:1:-2],
    np.s_[..., 0],
    np.s_[None, 1, ..., None],
    np.s_[[0, 2]],
    np.s_[[0, -1], [1, 2]],
    np.s_[:, [2, 0, 0]],
    np.s_[1, [0, 1], ::2],
    np.s_[[[0, 1], [2, 0]]],
    np.s_[:0],
    np.s_[4:2],
    np.s_[np.arange(24).reshape(3, 4, 2) % 3 == 0],
    np.s_[np.array([True, False, True])],
    np.s_[np.array([True, False, True]), 1:],
]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_indexing_reads_and_writes_what_numpy_does(key):
    array = np.arange(24, dtype="float32").reshape(3, 4, 2)
    tensor = paddle.to_tensor(array)
    np.testing.assert_array_equal(tensor[key].numpy(), array[key])
    value = np.arange(array[key].size, dtype="float32").reshape(array[key].shape) * 10 + 0.5
    recorded = paddle.to_tensor(array, stop_gradient=False) * 1
    array[key] = value
    tensor[key] = value
    recorded[key] = paddle.to_tensor(value)
    np.testing.assert_array_equal(tensor.numpy(), array)
    np.testing.assert_array_equal(recorded.numpy(), array)


def test_indexing_by_tensors():
    x = paddle.arange(6).reshape([3, 2])
    assert x[paddle.to_tensor(1)].tolist() == [2, 3]
    assert x[paddle.to_tensor([2, 0])].tolist() == [[4, 5], [0, 1]]
    assert x[x > 2].tolist() == [3, 4, 5]
    x[x > 2] = 0
    assert x.tolist() == [[0, 1], [2, 0], [0, 0]]


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (5, IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "Too many indices"),
        ([7], IndexError, "expected positions in"),
        ("a", ValueError, "expected numbers, slices"),
        ((..., ...), ValueError, "at most one"),
        (1.5, ValueError, "expected numbers, slices"),
    ],
)
def test_a_wrong_index_is_refused(key, error, message):
    with pytest.raises(error, match=message):
        paddle.zeros([3, 2])[key]


def test_an_assignment_that_does_not_fit_is_refused():
    x = paddle.zeros([3, 2])
    with pytest.raises(ValueError, match="broadcast to the shape"):
        x[0] = paddle.ones([3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: paddle.reshape(x, [4, 4]), r"X's shape = \[2, 3\]"),
        (lambda x: paddle.reshape(x, [-1, -1]), "at most one size of -1"),
        (lambda x: paddle.sum(x, axis=3), r"expected axis in \[-2, 2\) but got 3"),
        (lambda x: paddle.transpose(x, [0]), "permutation"),
        (lambda x: paddle.concat([x, paddle.ones([2, 3], "int64")]), "data_type of input tensor in list isn't consistent"),
        (lambda x: paddle.stack([x, x[0]]), "equal shape"),
        (lambda x: paddle.split(x, 2, 1), "not evenly divisible"),
        (lambda x: paddle.matmul(x, x), "expected"),
        (lambda x: x + paddle.ones([2]), "expected shapes that broadcast"),
        (lambda x: paddle.full([-1], 0), "no negative size"),
        (lambda x: paddle.gather(x, paddle.to_tensor([5])), "expected positions"),
        (lambda x: paddle.topk(x, 9), r"expected k in \[1, 3\]"),
        (lambda x: paddle.set_device("xpu"), "expected the device 'cpu'"),
        (lambda x: paddle.CUDAPinnedPlace(), "no CUDA support"),
        (lambda x: paddle.nn.functional.conv2d(paddle.ones([1, 2, 5, 5]), paddle.ones([2, 1, 3, 3])), "expected 1 channels"),
        (lambda x: paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0, 5])), r"label value\(5\)"),
        (lambda x: paddle.nn.functional.dropout(x, 1.5), "between 0 and 1"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        call(paddle.ones([2, 3]))


@pytest.mark.parametrize("call", [lambda: paddle.add(paddle.ones([1]), 1), lambda: paddle.exp(1.0), lambda: paddle.nn.functional.relu([1])])
def test_what_is_no_tensor_is_refused(call):
    with pytest.raises(TypeError, match="must be Tensor, but got"):
        call()


def test_empty_tensors_go_through():
    x = paddle.zeros([0, 3])
    assert x.sum().item() == 0 and (x + 1).shape == [0, 3] and paddle.concat([x, paddle.ones([2, 3])]).shape == [2, 3]
    assert paddle.nn.Linear(3, 2)(x).shape == [0, 2] and paddle.matmul(paddle.zeros([2, 0]), x).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_nan_goes_through():
    x = paddle.to_tensor([float("nan"), 1.0])
    assert paddle.isnan(x).tolist() == [True, False]
    assert np.isnan(paddle.max(x).item()) and np.isnan(paddle.nn.functional.relu(x).numpy()[0])


def test_equal_attributes_of_other_kinds_do_not_share_a_plan():
    assert paddle.full([1], 1, "float32").item() == 1.0
    assert np.signbit((paddle.zeros([1]) * -0.0).item())
    assert paddle.scale(paddle.ones([1]), 1).item() == paddle.scale(paddle.ones([1]), True).item() == 1


def test_random_state_can_be_kept_and_put_back():
    paddle.seed(3)
    paddle.rand([5])
    state = paddle.get_rng_state()
    first = paddle.randn([4]).numpy()
    paddle.set_rng_state(state)
    np.testing.assert_array_equal(paddle.randn([4]).numpy(), first)
    with pytest.raises(ValueError, match="as get_rng_state"):
        paddle.set_rng_state([np.zeros(3)])


def test_values_agree_with_float64_formulas():
    x = np.linspace(-4, 4, 41)
    tensor = paddle.to_tensor(x.astype("float32"))
    for name, formula in {
        "tanh": np.tanh,
        "exp": np.exp,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "sin": np.sin,
        "square": np.square,
        "asinh": np.arcsinh,
        "stanh": lambda v: 1.7159 * np.tanh(0.67 * v),
    }.items():
        np.testing.assert_allclose(getattr(paddle, name)(tensor).numpy(), formula(x), rtol=3e-6, atol=1e-6, err_msg=name)


def test_lists_of_what_numpy_gives_of_bfloat16_are_the_same_numbers():
    bits = paddle.to_tensor([1.5, 2.5]).astype("bfloat16").numpy()
    for made in (paddle.to_tensor([bits, bits]), paddle.to_tensor([bits, bits], dtype="bfloat16")):
        assert made.dtype == paddle.bfloat16
        assert made.astype("float32").tolist() == [[1.5, 2.5], [1.5, 2.5]]
