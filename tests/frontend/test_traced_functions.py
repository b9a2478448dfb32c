"""The same functions while traced: what the program computes, with known and with symbolic sizes, and what cannot be captured."""

from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, scalar_type
from polyreme.jit.capture.trace import trace
from polyreme.lowering.schedule.regions import has_host_ops
from polyreme.runtime.errors import CallError
from tests.fixtures.make_functions import CASES, INPUTS

EXPECTED = np.load(Path(__file__).parents[1] / "fixtures" / "functions.npz")

# With a free batch: what models of pictures, sequences and tables are made of.
FREE_BATCH = [
    "add", "rsub", "clip", "where", "sum", "mean", "max", "std", "var", "logsumexp", "norm", "argmax", "cumsum", "topk", "sort",
    "matmul_vector", "batched", "reshape_zero", "transpose", "flatten",
    "squeeze", "concat", "stack", "split", "chunk", "unbind", "tile", "flip", "gather", "moveaxis", "index_negative_step", "index_list",
    "index_none", "gelu", "softmax", "log_softmax",
    "maxout", "glu", "prelu", "conv2d", "conv2d_same", "conv2d_last", "conv1d", "max_pool2d", "max_pool2d_ceil", "avg_pool2d",
    "avg_pool2d_divisor", "adaptive_avg",
    "adaptive_avg_global", "adaptive_max", "pad", "pad_reflect", "unfold", "embedding", "one_hot", "label_smooth", "normalize",
    "cosine_similarity", "dropout", "dropout2d",
    "cross_entropy", "cross_entropy_ignored_mean", "cross_entropy_weighted", "cross_entropy_soft", "nll_loss", "mse_loss", "smooth_l1_loss",
    "bce_logits", "kl_div",
]  # fmt: skip


def traced_result(name, free_batch):
    names, expression = CASES[name][0].split(), CASES[name][1]

    def function(*tensors):
        return eval(expression, {"paddle": paddle, "F": paddle.nn.functional, **dict(zip(names, tensors, strict=True))})

    types = []
    for n in names:
        shape = tuple(INPUTS[n].shape)
        batched = free_batch and n in ("a", "p", "i", "label", "image", "series")
        first = symbol("M" if n in ("image", "series") else "N")
        types.append((TensorType((first, *shape[1:]) if batched else shape, scalar_type(INPUTS[n].dtype)), n, True))
    paddle.seed(42)
    traced = trace(function, lambda tensors: (tuple(tensors), {}), types, {})
    arguments = [INPUTS[names[s]] if isinstance(s, int) else s._value for s in traced.sources]
    return evaluate(traced.module(), arguments)[0]


@pytest.mark.parametrize("name", CASES)
def test_a_traced_function_computes_the_same(name):
    np.testing.assert_allclose(traced_result(name, False), EXPECTED[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", FREE_BATCH)
def test_a_function_of_a_free_batch_computes_the_same(name):
    np.testing.assert_allclose(traced_result(name, True), EXPECTED[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_distinct_elements_and_slices_are_found_by_compiled_code(name, axis):
    def function(x):
        return getattr(paddle, name)(x, return_inverse=True, return_counts=True, axis=axis)

    spec = [paddle.static.InputSpec([None, None], "int64", "x")]
    traced = paddle.jit.to_static(function, input_spec=spec, full_graph=True)
    for x in (np.array([[2, 1, 3], [3, 0, 1], [2, 1, 3]]), np.array([[1, 1], [1, 1]]), np.array([[7]])):
        for made, expected in zip(traced(paddle.to_tensor(x)), function(paddle.to_tensor(x)), strict=True):
            np.testing.assert_array_equal(made.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_constants_of_whole_numbers_are_compiled_for_integers(dtype):
    x = paddle.arange(12).astype(dtype)
    for function in (lambda x: paddle.scale(x, 2.0, 1.0, bias_after_scale=False), paddle.nn.functional.relu6):
        np.testing.assert_array_equal(paddle.jit.to_static(function)(x).numpy(), function(x).numpy())


# Sizes that are known once a mask is; draws that repeat until they succeed; keys of tensors. `x` has five columns.
X = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


def written(x, key, value):
    y = x * 1
    y[key(x)] = value(x)
    return y


HOSTED = {
    "elements": lambda x: x[x > 0] ** 2,
    "rows": lambda x: x[x[:, 0] > 0].mean(0) * 3,
    "columns": lambda x: x[1:, paddle.to_tensor([True, False, True, True, False])] * 2,
    "selected": lambda x: paddle.masked_select(x, x.max(1, keepdim=True) > 1) ** 2,
    "products of equally many": lambda x: x[x > 0] * x[x > 0],
    "in rows of 5": lambda x: x[x > -99].reshape([-1, 5]),
    "two indices": lambda x: x[paddle.argmax(x, 1), paddle.argmin(x, 1)],
    "two masks": lambda x: (x.t() @ x)[x.sum(0) > 0, x.sum(0) > 0],
    "a mask without axes": lambda x: x[:, x.sum() > -99] * 2,
    "a false one": lambda x: x[x.sum() > 999, 1:].sum() + x,
    "a known one": lambda x: x[True, paddle.argmax(x, 0)] * 2,
    "an index that is a size": lambda x: x[x.shape[0] - 1, x[-1] > -99] * 2,
    "of none": lambda x: x[x[:, 0] > 99][paddle.nonzero(x[x[:, 0] > 99][:, 1]).flatten()].sum() + x,
    "indices around a slice": lambda x: x.unsqueeze(1)[paddle.argmax(x, 1), :, paddle.argmin(x, 1) - 5] * 2,
    "beside how many others": lambda x: paddle.concat([paddle.nonzero(x[:, 0] > 0).flatten().astype("float32"), x[:, 1][x[:, 2] > 0] * 2]),
    "none selected": lambda x: x[x > 99] * 2,
    "positions": lambda x: paddle.gather(x, paddle.nonzero(x[:, 0] > 0).flatten()),
    "a number under a mask": lambda x: written(x, lambda x: x > 0, lambda x: 0.5),
    "a row under a mask": lambda x: written(x, lambda x: x[:, 1] > 0, lambda x: x[0]),
    "elements under a mask": lambda x: written(x, lambda x: x > 0, lambda x: x[x > 0] * 2),
    "at indices": lambda x: written(x, lambda x: (paddle.argmax(x, 1), paddle.argmin(x, 1)), lambda x: x[:, 0] * 2),
    "in a slice": lambda x: written(x, lambda x: (slice(None), slice(1, 3)), lambda x: 2.0),
    "scattered": lambda x: paddle.masked_scatter(x, x > 0, x[::-1].flatten()),
    "normal": lambda x: x * paddle.randn(x.shape),
    "integers": lambda x: x * paddle.randint_like(x, 0, 9),
    "an integer": lambda x: x * paddle.randint(1, 1 << 40, []),
    "shuffled": lambda x: x[paddle.randperm(x.shape[0])],
    "drawn by weight": lambda x: x * paddle.multinomial(paddle.nn.functional.softmax(x), 5, replacement=True).astype("float32"),
    "median": lambda x: paddle.median(x, 1),
}


@pytest.mark.parametrize("name", HOSTED)
def test_what_the_host_runs_within_a_compiled_function_gives_what_eager_ops_give_with_gradients_and_free_sizes(name):
    function = HOSTED[name]
    batch = paddle.static.InputSpec([None, 5], "float32")
    compiled = paddle.jit.to_static(function) if name == "median" else paddle.jit.to_static(function, input_spec=[batch])
    for rows in (6, 3):
        seen = []
        for run in (function, compiled):
            x = paddle.to_tensor(X[:rows], stop_gradient=False)
            paddle.seed(3)
            made = [run(x) for _ in range(2)]
            sum(made).sum().backward()
            seen.append([*(y.numpy() for y in made), x.grad.numpy()])
        for eager, got in zip(*seen, strict=True):
            np.testing.assert_allclose(got, eager, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [2, 1, 7])
def test_a_mask_of_another_size_than_what_it_selects_from_is_refused(size):
    mask = paddle.ones([size], "bool")
    free = [paddle.static.InputSpec([None, 5], "float32", "x"), paddle.static.InputSpec([None], "bool", "mask")]
    for function in (lambda x, mask: x[mask], lambda x, mask: written(x, lambda x: mask, lambda x: 1.0)):
        for run in (function, paddle.jit.to_static(function)):
            with pytest.raises(IndexError, match="mask with 6 elements along axis 0|did not match"):
                run(paddle.to_tensor(X), mask)
        with pytest.raises(
            CallError, match=rf"expected mask_0 to be equal to N \(.*\) but got {size}, axis 0 of the input 'mask', where N is 6"
        ):
            paddle.jit.to_static(function, input_spec=free)(paddle.to_tensor(X), mask)


def test_where_a_known_mask_holds_is_known_so_that_the_host_is_not_asked():
    free = [paddle.static.InputSpec([None, 5], "float32")]
    for key in (
        (slice(1, None), [True, False, True, True, False]),
        (slice(None), np.arange(5) > 2),
        (slice(None), paddle.to_tensor([True] * 5)),
    ):
        compiled = paddle.jit.to_static(lambda x, key=key: x[key] * 2, input_spec=free)
        np.testing.assert_array_equal(compiled(paddle.to_tensor(X)).numpy(), paddle.to_tensor(X)[key].numpy() * 2)
        assert not has_host_ops(compiled.trace(free).func)
    six = paddle.jit.to_static(lambda x: x[[True] * 6], input_spec=free)
    assert six(paddle.to_tensor(X)).shape == [6, 5]
    with pytest.raises(CallError, match="axis 0 of 'x0?' to be 6"):
        six(paddle.to_tensor(X[:5]))


NONE = {
    "rows": lambda x, none: x[none],
    "gather": lambda x, none: paddle.gather(x, none),
    "columns": lambda x, none: paddle.gather(x.t(), none, 1).t(),
    "gather_nd": lambda x, none: paddle.gather_nd(x, none.unsqueeze(1)),
    "take_along_axis": lambda x, none: paddle.take_along_axis(x, none.unsqueeze(1).expand([0, 5]), 0),
    "repeat_interleave": lambda x, none: paddle.repeat_interleave(x, 2, 0),
    "topk": lambda x, none: paddle.topk(x, 5, 1)[0],
    "list": lambda x, none: x[[]],
}


@pytest.mark.parametrize("name", NONE)
def test_nothing_can_be_taken_from_nothing(name):
    for run in (NONE[name], paddle.jit.to_static(NONE[name])):
        x = paddle.zeros([0, 5])
        x.stop_gradient = False
        made = run(x, paddle.zeros([0], "int64"))
        made.sum().backward()
        assert made.shape == x.grad.shape == [0, 5]
    with pytest.raises((IndexError, ValueError), match="at least one element|positions in"):
        paddle.gather(paddle.zeros([0, 5]), paddle.zeros([1], "int64"))


def test_of_nothing_no_element_is_taken_or_changed_at_places_that_there_are():
    def largest(x):
        kept = x[x[:, 0] > 99]
        return kept[paddle.argmax(kept, 0)]

    x = paddle.to_tensor(X, stop_gradient=False)
    with pytest.raises(ValueError, match="expected K to be at least 1"):
        paddle.jit.to_static(largest, full_graph=True)(x)
    free = [paddle.static.InputSpec([None, 5], "float32"), paddle.static.InputSpec([None, None], "int64")]
    added = paddle.jit.to_static(lambda x, places: paddle.put_along_axis(x * 1, places, 1.0, 0, broadcast=False), input_spec=free)
    for rows in (2, 0):
        assert added(paddle.to_tensor(X[:rows]), paddle.zeros([rows, 5], "int64")).shape == [rows, 5]
    rows_at = paddle.jit.to_static(paddle.gather, input_spec=[free[0], paddle.static.InputSpec(["K"], "int64")])
    for rows, places in ((2, 3), (2, 0), (0, 0)):
        assert rows_at(paddle.to_tensor(X[:rows]), paddle.zeros([places], "int64")).shape == [places, 5]
    with pytest.raises(CallError, match="at least 0.*nn.gather"):
        rows_at(paddle.to_tensor(X[:0]), paddle.zeros([3], "int64"))


def test_sizes_that_must_be_equal_are_compared_when_they_are_known():
    product, first = lambda x: x[x > 0] * x[x < 0], lambda x: x[x > 9][:4]
    with pytest.raises(ValueError, match="expected K = 16 on axis 0 but got 14"):
        paddle.jit.to_static(product, full_graph=True)(paddle.to_tensor(X))
    with pytest.raises(ValueError, match="expected K to be at least 4"):
        paddle.jit.to_static(first, full_graph=True)(paddle.to_tensor(X))
    # Python itself runs what the program refuses where that is not asked to be one.
    with pytest.raises(ValueError, match="expected shapes that broadcast"):
        paddle.jit.to_static(product)(paddle.to_tensor(X))
    assert paddle.jit.to_static(first)(paddle.to_tensor(X)).shape == [0]


def test_a_saved_model_with_masks_and_draws_runs_alone_and_within_another(tmp_path):
    class Net(paddle.nn.Layer):
        def forward(self, x):
            return x[x[:, 0] > 0], x + paddle.randn(x.shape)

    paddle.jit.save(Net(), str(tmp_path / "net"), [paddle.static.InputSpec([None, 5], "float32")])
    paddle.seed(4)
    expected = Net()(paddle.to_tensor(X))
    for _ in range(2):
        loaded = paddle.jit.load(str(tmp_path / "net"))
        for run in (loaded, paddle.jit.to_static(lambda x, loaded=loaded: loaded(x))):
            paddle.seed(4)
            for a, b in zip(run(paddle.to_tensor(X)), expected, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_static_programs_select_and_draw():
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            x = paddle.static.data("x", [None, 5])
            fetched = [x[x[:, 0] > 0], paddle.masked_select(x, x > 0), paddle.nonzero(x > 0), paddle.randperm(4)]
        found = paddle.static.Executor().run(program, feed={"x": X}, fetch_list=fetched)
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(found[0], X[X[:, 0] > 0])
    np.testing.assert_array_equal(found[1], X[X > 0])
    np.testing.assert_array_equal(found[2], np.argwhere(X > 0))
    assert sorted(found[3]) == [0, 1, 2, 3]
