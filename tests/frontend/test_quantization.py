"""Quantisation layer by layer: what Paddle gives, what is saved, what becomes of users' own layers, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.nn.quant import Stub, llm_int8_linear, weight_dequantize, weight_only_linear, weight_quantize
from polyreme.nn.quant.format import ConvertibleQuantedLayer, LinearDequanter, LinearQuanter
from polyreme.quantization import PTQ, QAT, BaseQuanter, QuantConfig, fuse_conv_bn, quanter, quanters, report
from polyreme.quantization.histogram import Histogram
from polyreme.quantization.observers import (
    AbsMaxChannelWiseWeightObserver,
    AbsmaxObserver,
    AVGObserver,
    GroupWiseWeightObserver,
    HistObserver,
    KLObserver,
    MSEChannelWiseWeightObserver,
    MSEObserver,
)
from tests.fixtures.make_quantization import build, images, run

FOLDER = Path(__file__).parents[1] / "fixtures"
EXPECTED = np.load(FOLDER / "quantization.npz")
random = np.random.default_rng(11)
START = random.bit_generator.state


@pytest.fixture(autouse=True)
def _numbers_start_anew() -> None:
    """Whichever tests run, and in which order: a number near a half may be rounded either way."""
    random.bit_generator.state = START
    paddle.seed(1)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return run(paddle, paddle.quantization)


@pytest.mark.parametrize("name", EXPECTED.files)
def test_what_paddle_quantises_we_quantise_to_the_same(name: str, found: dict[str, Any]) -> None:
    wanted, got = EXPECTED[name], found[name]
    if wanted.dtype.kind == "U":
        assert str(got) == str(wanted)
    elif got.dtype == np.int8:
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6)


def test_state_has_paddles_names_and_weights_are_bytes(found: dict[str, Any]) -> None:
    assert set(found) == set(EXPECTED.files)
    assert found["all: 0.weight"].dtype == np.int8 and found["all: 8.weight"].dtype == np.int8
    assert found["linear: 0.weight"].dtype == np.float32


def converted(net: Any, x: Any, **by: Any) -> Any:
    """`net` quantised after training on `x`, its products alone."""
    config = QuantConfig(None, None)
    config.add_type_config(
        [nn.Conv1D, nn.Conv2D, nn.Conv3D, nn.Linear], **{"activation": AbsmaxObserver(), "weight": AbsMaxChannelWiseWeightObserver(), **by}
    )
    net.eval()
    ptq = PTQ(config)
    observed = ptq.quantize(net)
    observed(x)
    return ptq.convert(observed)


def test_a_state_dict_of_paddles_converted_model_goes_into_ours() -> None:
    x = paddle.to_tensor(images())
    net = build(paddle)
    net.eval()
    observer = AbsmaxObserver()
    ptq = PTQ(QuantConfig(activation=observer, weight=observer))
    observed = ptq.quantize(net)
    observed(x * 7.0)
    ours = ptq.convert(observed)
    state = {
        name.removeprefix("all: "): EXPECTED[name]
        for name in EXPECTED.files
        if name.startswith("all: ") and "answer" not in name and "text" not in name
    }
    missing, unexpected = ours.set_state_dict(state)
    assert not missing and not unexpected
    np.testing.assert_allclose(ours(x).numpy(), EXPECTED["all: answer"], atol=2e-6)


def test_a_quantised_model_that_paddle_saved_is_read_with_weights_in_bytes() -> None:
    model = paddle.jit.load(str(FOLDER / "quantized" / "net"))
    np.testing.assert_allclose(model(paddle.to_tensor(images())).numpy(), np.load(FOLDER / "quantized" / "answer.npy"), atol=2e-6)
    kinds = {
        name: t.type.dtype.name
        for name, t in zip(model.traced.func.arg_names, [None, *model.traced.captured], strict=True)
        if t is not None
    }
    assert sorted(kinds.values()).count("i8") == 4
    assert "nn.quantize_linear" in model.program() and "nn.dequantize_linear" in model.program()


class Mixed(nn.Layer):
    """Convolutions of one, two and three axes, channels last, and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.wave = nn.Conv1D(3, 4, 3, padding=1, data_format="NLC")
        self.image = nn.Conv2D(1, 2, 3, groups=1)
        self.volume = nn.Conv3D(2, 2, [1, 2, 2])
        self.attention = nn.MultiHeadAttention(4, 2)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        y = self.attention(self.wave(x))
        z = self.volume(self.image(y.unsqueeze(1)).unsqueeze(2))
        return self.head(y) + z.mean()


def test_every_kind_of_product_is_quantised_and_the_answer_stays_near() -> None:
    net = Mixed()
    x = paddle.to_tensor(random.standard_normal((2, 6, 3)).astype("float32"))
    made = converted(net, x)
    names = {name for name, layer in made.named_sublayers() if isinstance(layer, ConvertibleQuantedLayer)}
    assert names == {"wave", "image", "volume", "head", *(f"attention.{n}_proj" for n in ("q", "k", "v", "out"))}
    near = made(x).numpy() - net(x).numpy()
    assert 0 < np.abs(near).max() < 0.05 * np.abs(net(x).numpy()).max()


@pytest.mark.parametrize("way", ["to_static", "saved", "library"])
def test_a_converted_model_gives_the_same_however_it_is_run(way: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2D(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4))
    x = random.standard_normal((2, 2, 8, 8)).astype("float32")
    made = converted(net, paddle.to_tensor(x))
    wanted = made(paddle.to_tensor(x)).numpy()
    spec = [paddle.static.InputSpec([None, 2, 8, 8], "float32", "x")]
    if way == "to_static":
        found = paddle.jit.to_static(made, input_spec=spec)(paddle.to_tensor(x)).numpy()
    elif way == "saved":
        paddle.jit.save(made, str(tmp_path / "net"), spec)
        loaded = paddle.jit.load(str(tmp_path / "net"))
        assert {t.type.dtype.name for t in loaded.traced.captured} == {"i8", "f32"}
        found = loaded(paddle.to_tensor(x)).numpy()
    else:
        found = paddle.compile(made, tmp_path / "net.so", input_spec=spec)(x)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


# --- what is quantised, and by what


def test_the_nearest_word_on_a_layer_counts() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2))
    net.eval()
    observers = [AbsmaxObserver(quant_bits=bits) for bits in (8, 7, 6, 5)]
    config = QuantConfig(activation=None, weight=observers[0])
    config.add_layer_config(net[1], weight=observers[1])
    config.add_layer_config([net[1][1]], weight=observers[2])
    config.add_name_config(net[2].full_name())
    made = PTQ(config).quantize(net)
    bits = [
        layer.weight_quanter.bit_length() if isinstance(layer, ConvertibleQuantedLayer) else None
        for layer in (made[0], made[1][0], made[1][1], made[2])
    ]
    assert bits == [8, 7, 6, None], "and a layer that is told nothing stays as it is"
    config.add_type_config(nn.Linear, weight=observers[3])
    made = PTQ(config).quantize(net)
    assert made[1][0].weight_quanter.bit_length() == 5
    assert made[1][1].weight_quanter.bit_length() == 6
    assert "weight: AbsmaxObserver(quant_bits=6)" in repr(PTQ(config)) and "Layer type config" in str(config)


def test_a_mapping_and_a_leaf_of_the_users_own() -> None:
    class Double(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.inner(x) * 2

    class QuantedDouble(ConvertibleQuantedLayer):
        def __init__(self, layer: Any, config: Any) -> None:
            super().__init__()
            self.weight, self.bias = layer.inner.weight, layer.inner.bias
            self.seen = config.weight._instance(layer)

        def forward(self, x: Any) -> Any:
            return nn.functional.linear(x, self.seen(self.weight), self.bias) * 2

        def weights_to_quanters(self) -> Any:
            return [("weight", "seen")]

        def activation_quanters(self) -> Any:
            return []

    net = nn.Sequential(Double())
    net.eval()
    x = paddle.to_tensor(random.standard_normal((3, 2)).astype("float32"))
    config = QuantConfig(activation=AbsmaxObserver(), weight=AbsmaxObserver())
    config.add_qat_layer_mapping(Double, QuantedDouble)
    ptq = PTQ(config)
    observed = ptq.quantize(net)
    observed(x)
    made = ptq.convert(observed)
    assert made[0].weight.dtype == paddle.int8
    np.testing.assert_allclose(made(x).numpy(), net(x).numpy(), atol=0.1)
    leaf = QuantConfig(activation=AbsmaxObserver(), weight=None)
    leaf.add_customized_leaf(Double)
    held = PTQ(leaf).quantize(net)
    assert type(held[0]).__name__ == "ObserveWrapper" and type(held[0]._observed.inner).__name__ == "QuantedLinear"
    assert config.default_qat_layer_mapping[nn.Linear] is config.qat_layer_mappings[nn.Linear] and leaf.customized_leaves == [Double]


def test_a_stub_observes_what_a_function_takes() -> None:
    class Scores(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.own = Stub(), Stub(AbsmaxObserver(quant_bits=4))

        def forward(self, x: Any) -> Any:
            return paddle.matmul(self.before(x), self.own(x), transpose_y=True)

    net = Scores()
    net.eval()
    x = random.uniform(-1, 1, (3, 4)).astype("float32")
    ptq = PTQ(QuantConfig(activation=AbsmaxObserver(), weight=None))
    observed = ptq.quantize(net)
    np.testing.assert_array_equal(observed(paddle.to_tensor(x)).numpy(), net(paddle.to_tensor(x)).numpy())
    made = ptq.convert(observed)
    eight, four = (np.rint(x / (np.abs(x).max() / n)) * (np.abs(x).max() / n) for n in (127, 7))
    np.testing.assert_allclose(made(paddle.to_tensor(x)).numpy(), eight @ four.T, atol=1e-5)


def test_a_quanter_of_the_users_own_gets_a_factory_by_its_name() -> None:
    @quanter("HalvesQuanter")
    class HalvesQuanterLayer(BaseQuanter):
        def __init__(self, layer: Any, bits: int = 8) -> None:
            super().__init__()
            self.bits = bits

        def forward(self, input: Any) -> Any:
            return (input * 2).round() / 2

        def scales(self) -> Any:
            return paddle.to_tensor(0.5 * (2 ** (self.bits - 1) - 1))

        def zero_points(self) -> Any:
            return None

        def quant_axis(self) -> int:
            return -1

        def bit_length(self) -> int:
            return self.bits

    factory = globals()["HalvesQuanter"](bits=7)
    assert repr(factory) == "HalvesQuanter(bits=7)"
    net = nn.Sequential(nn.Linear(3, 2))
    qat = QAT(QuantConfig(activation=factory, weight=None))
    trained = qat.quantize(net)
    x = paddle.to_tensor([[0.3, 1.2, -0.8]])
    np.testing.assert_allclose(trained(x).numpy(), net(paddle.to_tensor([[0.5, 1.0, -1.0]])).numpy(), rtol=1e-6)
    made = qat.convert(trained)
    np.testing.assert_allclose(made(x).numpy(), trained(x).numpy(), rtol=1e-6)


def test_training_with_scales_per_channel_converts_to_what_it_trained() -> None:
    net = nn.Sequential(nn.Conv2D(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    config = QuantConfig(None, None)
    per_channel = quanters.FakeQuanterChannelWiseAbsMaxObserver()
    config.add_type_config([nn.Conv2D, nn.Linear], activation=quanters.FakeQuanterWithAbsMaxObserver(), weight=per_channel)
    qat = QAT(config)
    trained = qat.quantize(net)
    x = paddle.to_tensor(random.standard_normal((4, 2, 4, 4)).astype("float32"))
    before = trained[0].weight.numpy().copy()
    optimizer = paddle.optimizer.SGD(0.1, parameters=trained.parameters())
    trained(x).square().mean().backward()
    optimizer.step()
    assert np.abs(trained[0].weight.numpy() - before).max() > 0, "gradients pass the rounding"
    trained(x)
    trained.eval()
    made = qat.convert(trained)
    assert made[0].weight.dtype == paddle.int8 and made[0].weight_quanter._dequanter._scales.shape == [3]
    np.testing.assert_allclose(made(x).numpy(), trained(x).numpy(), atol=1e-5)


# --- observers


def scale_by(factory: Any, *arrays: Any, layer: Any = None) -> Any:
    observer = factory._instance(layer)
    assert observer.scales() is None
    for array in arrays:
        x = paddle.to_tensor(array)
        assert observer(x) is x
    return observer.scales().numpy()


def test_observers_choose_the_thresholds_that_their_definitions_name() -> None:
    a, b = (random.standard_normal(5000).astype("float32") for _ in range(2))
    both = np.abs(np.concatenate([a, b]))
    assert scale_by(AbsmaxObserver(), a, b) == both.max()
    assert scale_by(AVGObserver(), a, b) == pytest.approx((np.abs(a).max() + np.abs(b).max()) / 2)
    assert scale_by(HistObserver(percent=0.99), a, b) == pytest.approx(np.quantile(both, 0.99), abs=float(both.max()) / 512)
    assert scale_by(HistObserver(percent=1.0), a, b) >= both.max()
    error = lambda t, n: np.square(both - np.minimum(np.rint(both / (t / n)), n) * (t / n)).sum()
    for bits in (8, 4):
        n = 2 ** (bits - 1) - 1
        chosen = float(scale_by(MSEObserver(quant_bits=bits), a, b))
        best = min(error(both.max() * k / 200, n) for k in range(1, 201))
        assert error(chosen, n) < 1.1 * best, "near the least of a search over the numbers themselves"


def test_the_least_divergence_clips_outliers_and_keeps_an_even_spread() -> None:
    spread = random.uniform(-1, 1, 20000).astype("float32")
    assert scale_by(KLObserver(), spread) > 0.9
    peak = random.standard_normal(20000).astype("float32")
    outliers = np.concatenate([peak, np.array([60.0, -60.0], "float32")])
    assert scale_by(KLObserver(), outliers) < 15


def test_observers_of_weights_have_a_scale_per_output_channel() -> None:
    matrix, filters = random.standard_normal((6, 4)).astype("float32"), random.standard_normal((5, 2, 3, 3)).astype("float32")
    per_channel = AbsMaxChannelWiseWeightObserver()
    np.testing.assert_array_equal(scale_by(per_channel, matrix, layer=nn.Linear(6, 4)), np.abs(matrix).max(0))
    np.testing.assert_array_equal(scale_by(per_channel, filters, layer=nn.Conv2D(2, 5, 3)), np.abs(filters).max((1, 2, 3)))
    np.testing.assert_array_equal(scale_by(AbsMaxChannelWiseWeightObserver(quant_axis=0), matrix), np.abs(matrix).max(1))
    rows = filters.reshape(5, -1)
    error = lambda t: np.square(rows - np.clip(np.rint(rows / (t[:, None] / 7)), -7, 7) * (t[:, None] / 7)).sum(1)
    chosen = scale_by(MSEChannelWiseWeightObserver(quant_bits=4), filters, layer=nn.Conv2D(2, 5, 3))
    assert (error(chosen) <= error(np.abs(rows).max(1))).all() and (error(chosen) < error(np.abs(rows).max(1))).any()


def test_a_histogram_keeps_its_counts_when_larger_numbers_come() -> None:
    histogram = Histogram(8)
    histogram.add(np.array([0.0, 0.0]))
    histogram.add(np.array([0.1, -0.9, 1.0]))
    histogram.add(np.array([np.nan, np.inf, -3.5]))
    assert histogram.top == 4.0 and histogram.counts.tolist() == [3, 2, 0, 0, 0, 0, 0, 1]
    assert Histogram(8).share(0.5) == Histogram(8).least_error() == 0.0


def test_what_is_zero_everywhere_stays_zero() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    net[0].weight.set_value(np.zeros((3, 2), "float32"))
    x = paddle.zeros([4, 3])
    np.testing.assert_array_equal(converted(net, x)(x).numpy(), np.zeros((4, 2)))


# --- what it did


def test_a_report_looks_at_converted_layers_while_they_run() -> None:
    net = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4), nn.Linear(4, 3))
    net.eval()
    x = random.standard_normal((64, 8)).astype("float32")
    config = QuantConfig(None, None)
    config.add_layer_config(net[0], activation=AbsmaxObserver(), weight=AbsMaxChannelWiseWeightObserver())
    config.add_layer_config(net[2], weight=AbsmaxObserver())
    ptq = PTQ(config)
    observed = ptq.quantize(net)
    observed(paddle.to_tensor(x))
    made = ptq.convert(observed)
    x[0, 0] = 2 * np.abs(x).max()  # beyond what calibration saw
    found = report(net, made, [x])
    first, second = found.layers
    step = first.scale
    rounded = np.clip(np.rint(x / step), -128, 127) * step
    assert first.clipped == pytest.approx(1 / x.size) and first.range == (x.min(), x.max())
    assert first.activation_db == pytest.approx(10 * np.log10((x**2).sum() / ((x - rounded) ** 2).sum()), rel=1e-4)
    assert 35 < second.weight_db < 60 and second.clipped == 0 and second.activation_db == np.inf
    assert (first.bytes_before, first.bytes_after) == (192, 72)
    assert [(row.name, row.kind) for row in found.left_out] == [("3", "linear")]
    assert found.agreement.samples == 64 and str(found).count("\n") == 5
    assert not made[0].activation_quanter._forward_pre_hooks, "nothing stays behind"
    with pytest.raises(TypeError, match="expected a model that was quantised"):
        report(net, lambda x: x, [x])


# --- batch norms


def test_batch_norms_become_part_of_the_layers_before_them_by_what_forward_does() -> None:
    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.LayerList([nn.BatchNorm2D(3), nn.BatchNorm2D(3), nn.BatchNorm1D(4)])
            self.first, self.second, self.last = nn.Conv2D(2, 3, 3, bias_attr=False), nn.Conv2D(3, 3, 1), nn.Linear(12, 4)

        def forward(self, x: Any) -> Any:
            x = self.norms[1](self.first(x))
            y = self.second(x)
            return self.norms[2](self.last((y + self.norms[0](y)).flatten(1)))

    net = Net()
    state = {k: np.abs(random.standard_normal(v.shape)).astype("float32") + 0.1 for k, v in net.state_dict().items()}
    net.set_state_dict(state)
    net.eval()
    x = paddle.to_tensor(random.standard_normal((3, 2, 4, 4)).astype("float32"))
    made = fuse_conv_bn(net, [paddle.static.InputSpec([None, 2, 4, 4], "float32")])
    kinds = [type(layer).__name__ for layer in made.norms]
    assert kinds == ["BatchNorm2D", "Identity", "Identity"], "what a second op reads keeps its norm"
    np.testing.assert_allclose(made(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-4)
    assert type(net.norms[1]).__name__ == "BatchNorm2D" and net.first.bias is None, "a copy was changed"
    with pytest.raises(AssertionError, match="set evaluation mode"):
        fuse_conv_bn(Net())


# --- products with weights in bytes


@pytest.mark.parametrize("group_size", [-1, 64])
def test_products_with_weights_in_bytes_are_near_those_in_floats(group_size: int) -> None:
    weight, x, bias = (random.standard_normal(shape).astype("float32") for shape in ((128, 6), (2, 3, 128), (6,)))
    counts, scale = weight_quantize(paddle.to_tensor(weight), group_size=group_size)
    assert counts.dtype == paddle.int8 and counts.shape == [6, 128] and scale.shape == ([6] if group_size < 0 else [2, 6])
    restored = weight_dequantize(counts, scale, group_size=group_size).numpy()
    steps = np.abs(weight.reshape(-1, 128 if group_size < 0 else 64, 6)).max(1) / 127
    assert (np.abs(restored - weight).reshape(len(steps), -1, 6) <= steps[:, None] * 0.501).all()
    y = weight_only_linear(paddle.to_tensor(x), counts, paddle.to_tensor(bias), scale, group_size=group_size).numpy()
    np.testing.assert_allclose(y, x @ restored + bias, rtol=1e-5, atol=1e-5)


def test_outliers_are_multiplied_in_floats() -> None:
    weight, x = random.standard_normal((16, 5)).astype("float32"), random.standard_normal((2, 3, 16)).astype("float32")
    x[1, 2, 7] = 300.0
    counts, scale = weight_quantize(paddle.to_tensor(weight), algo="llm.int8")
    wanted = x @ weight_dequantize(counts, scale, algo="llm.int8").numpy()
    near = llm_int8_linear(paddle.to_tensor(x), counts, None, scale).numpy()
    rough = llm_int8_linear(paddle.to_tensor(x), counts, None, scale, threshold=1e9).numpy()
    assert np.abs(near - wanted).max() < 0.1 < np.abs(rough - wanted).max()


# --- layers that count and restore


def test_linear_quanters_count_by_tensor_axis_and_group() -> None:
    x = random.standard_normal((128, 3)).astype("float32")
    for scales, axis in ((np.array(2.0), None), (np.array([1.0, 2.0, 3.0]), 1), (np.full((2, 3), 1.5), None)):
        options = {"quant_axis": axis, "group_size": 64}
        counts = LinearQuanter(scales, **options)(paddle.to_tensor(x))
        steps = np.repeat(scales, 64, 0) / 127 if scales.ndim == 2 else scales / 127
        assert counts.dtype == paddle.int8
        np.testing.assert_array_equal(counts.numpy(), np.clip(np.rint(x / steps), -128, 127))
        np.testing.assert_allclose(LinearDequanter(scales, **options)(counts).numpy(), counts.numpy() * steps, rtol=1e-6)


# --- what is refused


def test_layers_that_saw_nothing_are_named_and_stay_in_floats() -> None:
    class Branches(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Any, both: bool = False) -> Any:
            return self.used(x) + self.idle(x) if both else self.used(x)

    net = Branches()
    net.eval()
    ptq = PTQ(QuantConfig(activation=AbsmaxObserver(), weight=AbsmaxObserver()))
    observed = ptq.quantize(net)
    observed(paddle.ones([1, 2]))
    with pytest.warns(
        UserWarning,
        match="1 layers stay in floats, since their observers have seen nothing: idle; run the quantised model on calibration data",
    ):
        made = ptq.convert(observed)
    assert made.idle.weight.dtype == paddle.float32 and made.used.weight.dtype == paddle.int8
    assert made(paddle.ones([1, 2]), both=True).shape == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ptq.convert(made)  # what is converted is left alone


def test_mistakes_are_told() -> None:
    config = QuantConfig(activation=AbsmaxObserver(), weight=None)
    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(AssertionError, match=r"set evaluation mode by model.eval\(\)"):
        PTQ(config).quantize(net)
    net.eval()
    with pytest.raises(AssertionError, match=r"set training mode by model.train\(\)"):
        QAT(config).quantize(net)
    config.add_name_config("linear_that_is_not")
    with pytest.raises(ValueError, match="expected names of layers in the model but it has no 'linear_that_is_not'"):
        PTQ(config).quantize(net)
    for wrong, message in (
        (lambda: PTQ(AbsmaxObserver()), "expected a QuantConfig but got AbsmaxObserver"),
        (lambda: config.add_type_config(3), "expected a subclass of Layer but got 3"),
        (lambda: config.add_layer_config(3), "expected a Layer but got int"),
        (lambda: config.add_name_config(3), "expected a layer's full name but got int"),
    ):
        with pytest.raises(TypeError, match=message):
            wrong()
    for wrong, message in (
        (lambda: AbsmaxObserver(quant_bits=9), "expected 2 to 8 quant_bits but got 9"),
        (lambda: GroupWiseWeightObserver(group_size=32), "expected a group_size of 64 or 128 but got 32"),
        (
            lambda: scale_by(GroupWiseWeightObserver(), np.ones((100, 2), "float32")),
            r"expected a weight \[in, out\] whose inputs 128 divides but got \[100, 2\]",
        ),
        (lambda: HistObserver(percent=99.9), r"expected a share in \(0, 1\] as percent but got 99.9"),
        (
            lambda: weight_quantize(paddle.ones([2, 2]), algo="weight_only_int4"),
            "expected one of weight_only_int8, llm.int8 as algo but got 'weight_only_int4'",
        ),
        (lambda: weight_only_linear(paddle.ones([2, 2]), paddle.ones([2, 2]).astype("int8")), "expected the weight's scales"),
        (lambda: LinearQuanter(1.0, zero_point=3.0), "expected zero points of 0"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
