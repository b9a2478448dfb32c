"""Regions of `auto_cast`: where they take effect, how they nest, and what flows through them."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import polyreme as paddle

F = paddle.nn.functional


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_on_a_cpu_a_region_warns_and_has_no_effect(level: str, dtype: str) -> None:
    x = paddle.ones([3, 4])
    with pytest.warns(UserWarning, match="makes no effect.*FLAGS_amp_on_cpu"), paddle.amp.auto_cast(level=level, dtype=dtype):
        y = paddle.matmul(x, x, transpose_y=True)
        assert not paddle.amp.is_autocast_enabled()
    assert y.dtype == paddle.float32 and y.tolist() == [[4.0] * 3] * 3


def test_support_of_dtypes_can_be_asked() -> None:
    assert paddle.amp.is_float16_supported() is False and paddle.amp.is_float16_supported("cpu") is False
    assert isinstance(paddle.amp.is_bfloat16_supported("cpu"), bool)


@pytest.mark.usefixtures("on_cpu")
def test_with_the_flag_operators_compute_in_half_precision() -> None:
    x = paddle.to_tensor([[1.0, 1.0 + 2.0**-12]])  # which float16 rounds to 1
    with paddle.amp.auto_cast():
        assert paddle.amp.is_autocast_enabled() and paddle.get_autocast_dtype() == "float16"
        y = paddle.matmul(x, x, transpose_y=True)
    assert y.dtype == paddle.float16 and y.item() == 2.0
    assert not paddle.is_autocast_enabled()
    assert paddle.matmul(x, x, transpose_y=True).item() > 2.0


@pytest.mark.usefixtures("on_cpu")
def test_regions_nest() -> None:
    x = paddle.rand([2, 2])
    with paddle.amp.auto_cast():
        with paddle.amp.auto_cast(enable=False):
            assert (x @ x).dtype == paddle.float32
            with paddle.amp.auto_cast(dtype="bfloat16"):
                assert (x @ x).dtype == paddle.bfloat16
            assert (x @ x).dtype == paddle.float32
        with paddle.amp.auto_cast(level="O0"):
            assert (x @ x).dtype == paddle.float32
        assert (x @ x).dtype == paddle.float16
        with pytest.raises(ZeroDivisionError), paddle.amp.auto_cast(enable=False):
            raise ZeroDivisionError
        assert (x @ x).dtype == paddle.float16
    assert (x @ x).dtype == paddle.float32


@pytest.mark.usefixtures("on_cpu")
def test_a_region_may_be_entered_again_decorate_and_be_copied() -> None:
    region = paddle.amp.auto_cast(dtype="bfloat16", custom_black_list=["relu"])
    x = paddle.rand([2, 2])

    @region
    def product(x: Any) -> Any:
        """Doc."""
        with region:
            return F.relu(x @ x), x @ x

    assert product.__name__ == "product" and product.__doc__ == "Doc."
    assert [t.dtype for t in product(x)] == [paddle.float32, paddle.bfloat16]
    with copy.deepcopy(region):
        assert [t.dtype for t in product(x)] == [paddle.float32, paddle.bfloat16]
        assert "dtype='bfloat16'" in repr(region)


@pytest.mark.usefixtures("on_cpu")
def test_a_region_is_its_threads_own() -> None:
    x, found = paddle.rand([2, 2]), []
    region = paddle.amp.auto_cast()
    entered, looked = threading.Event(), threading.Event()

    def other() -> None:
        found.append((x @ x).dtype)
        with region:  # the same object
            found.append((x @ x).dtype)
            entered.set()
            looked.wait(10)
        found.append((x @ x).dtype)

    with region:
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(10)
    assert (x @ x).dtype == paddle.float32
    looked.set()
    thread.join()
    assert found == [paddle.float32, paddle.float16, paddle.float32]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_have_the_dtypes_of_what_they_are_of(dtype: str) -> None:
    paddle.seed(3)
    net = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 4))
    x = paddle.rand([5, 8])
    x.stop_gradient = False
    labels = paddle.to_tensor([0, 1, 2, 3, 1])
    F.cross_entropy(net(x), labels).backward()
    exact = [p.grad.numpy() for p in (x, *net.parameters())]
    net.clear_gradients()
    x.clear_gradient()
    with paddle.amp.auto_cast(dtype=dtype):
        hidden = net(x)
        hidden.retain_grads()
        loss = F.cross_entropy(hidden, labels)
        loss.backward()  # inside of the region nothing of it is cast, either
    assert hidden.dtype.name == hidden.grad.dtype.name == dtype and loss.dtype == paddle.float32
    for p, gradient in zip((x, *net.parameters()), exact, strict=True):
        assert p.grad.dtype == paddle.float32
        assert np.abs(p.grad.numpy() - gradient).max() <= 0.02 * np.abs(gradient).max() + 1e-3
    net.clear_gradients()
    with paddle.amp.auto_cast(dtype=dtype):
        (gradient,) = paddle.grad(F.cross_entropy(net(x), labels), [x], create_graph=True)
    assert gradient.dtype == paddle.float32


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_computed_again_for_gradients_is_computed_in_its_region(compiled: bool) -> None:
    layer, x = paddle.nn.Linear(4, 4), paddle.rand([2, 4])
    x.stop_gradient = False

    def plain(x: Any) -> Any:
        return (F.softmax(layer(x)) @ layer.weight).sum()

    def again(x: Any) -> Any:
        return paddle.distributed.fleet.utils.recompute(plain, x)

    found = []
    for function in (plain, paddle.jit.to_static(again) if compiled else again):
        layer.clear_gradients()
        x.clear_gradient()
        with paddle.amp.auto_cast(dtype="bfloat16"):
            loss = function(x)
        loss.backward()
        found.append([x.grad.numpy(), layer.weight.grad.numpy(), layer.bias.grad.numpy()])
    for a, b in zip(*found, strict=True):
        assert np.allclose(a, b, rtol=0.02, atol=0.002) and (compiled or np.array_equal(a, b))


@pytest.mark.usefixtures("on_cpu")
def test_names_of_other_frameworks() -> None:
    with paddle.autocast("cpu", dtype="bfloat16"), paddle.amp.amp_guard(level="o2"):
        assert paddle.get_autocast_gpu_dtype() == "float16"
    with paddle.autocast("cpu", dtype="bfloat16"):
        assert paddle.get_autocast_cpu_dtype() == "bfloat16" and (paddle.rand([2, 2]) @ paddle.rand([2, 2])).dtype == paddle.bfloat16


@pytest.mark.usefixtures("on_cpu")
def test_what_is_changed_in_place_keeps_its_dtype() -> None:
    half, wide = paddle.rand([4]).astype("float16"), paddle.rand([4])
    for options in ({"level": "O1"}, {"level": "O2", "use_promote": False}):
        with paddle.amp.auto_cast(**options):
            for x in (half.clone(), wide.clone()):
                kept = x.dtype
                x.add_(wide)
                x.exp_()
                x[1] = wide[0]
                x[:2] = half[:2]
                F.relu_(x)
                assert x.dtype == kept, options
            table = half.clone().reshape([2, 2])
            row = table[0]
            row.exp_()
            assert table.dtype == paddle.float16 and table[0].tolist() == row.tolist()
            assert half.clone().cast_("float32").dtype == paddle.float32


@pytest.mark.usefixtures("on_cpu")
def test_a_bias_of_a_convolution_is_added_as_another_operator() -> None:
    net = paddle.nn.Conv2D(2, 3, 3)
    x = paddle.rand([1, 2, 5, 5])
    with paddle.amp.auto_cast():
        y = net(x)
        bare = F.conv2d(x, net.weight)
    assert y.dtype == paddle.float32 and bare.dtype == paddle.float16
    assert np.array_equal(y.numpy(), bare.astype("float32").numpy() + net.bias.numpy().reshape(3, 1, 1))


@pytest.mark.usefixtures("on_cpu")
def test_norms_of_half_precision_take_weights_of_float32() -> None:
    norm, x = paddle.nn.BatchNorm2D(3), paddle.rand([4, 3, 5, 5])
    expected = norm(x).numpy()
    other = paddle.nn.BatchNorm2D(3)
    with paddle.amp.auto_cast(level="O2"):
        y = other(x.astype("float16"))
    assert y.dtype == paddle.float16 and np.abs(y.astype("float32").numpy() - expected).max() < 0.01
    assert other._mean.dtype == paddle.float32 and np.abs(other._mean.numpy() - norm._mean.numpy()).max() < 1e-3


@pytest.mark.usefixtures("on_cpu")
def test_recurrent_and_attention_layers_run_in_a_region() -> None:
    with paddle.amp.auto_cast(dtype="bfloat16"):
        assert paddle.nn.LSTM(4, 4)(paddle.rand([2, 3, 4]))[0].dtype == paddle.float32
        assert paddle.nn.MultiHeadAttention(8, 2)(paddle.rand([2, 3, 8])).dtype == paddle.bfloat16
        assert paddle.nn.TransformerEncoderLayer(8, 2, 16)(paddle.rand([2, 3, 8])).dtype == paddle.float32


@pytest.mark.usefixtures("on_cpu")
def test_a_program_is_written_with_its_casts() -> None:
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 8])
            with paddle.amp.auto_cast(dtype="bfloat16"):
                hidden = paddle.nn.Linear(8, 4)(x)
                loss = F.softmax(hidden).square().mean()
            assert hidden.dtype == paddle.bfloat16 and loss.dtype == paddle.float32
            paddle.optimizer.SGD(0.1).minimize(loss)
        assert {p.dtype for p in main.all_parameters()} == {paddle.float32}
        exe = paddle.static.Executor()
        exe.run(startup)
        feed = {"x": np.random.default_rng(0).normal(size=(6, 8)).astype("float32")}
        losses = [float(exe.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(5)]
    finally:
        paddle.disable_static()
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_mistakes_are_errors() -> None:
    for options, error in (
        ({"level": "O3"}, "level should be"),
        ({"level": 2}, "level should be.*but got 2"),
        ({"dtype": "float32"}, "dtype should be"),
        ({"dtype": None}, "dtype should be.*None"),
        ({"custom_white_list": {"relu"}, "custom_black_list": {"relu"}}, "overlap.*relu"),
    ):
        with pytest.raises(ValueError, match=error):
            paddle.amp.auto_cast(**options)
    with pytest.raises(TypeError, match="names of operators"):
        paddle.amp.auto_cast(custom_white_list="relu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with paddle.amp.auto_cast(enable=False, dtype="float32"):
            pass


def test_flags_are_set_and_read() -> None:
    assert paddle.get_flags("FLAGS_amp_on_cpu") == {"FLAGS_amp_on_cpu": False}
    with pytest.raises(ValueError, match="FLAGS_none"):
        paddle.set_flags({"FLAGS_none": 1})
