"""Layer and containers: registering, walking, state, casts, hooks."""

import warnings
from collections import OrderedDict

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.utils import unique_name


@pytest.fixture(autouse=True)
def _names_start_anew():
    with unique_name.guard():
        yield


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = self.create_parameter([1])
        self.register_buffer("mean", paddle.zeros([3]))
        self.seen = paddle.ones([1])
        self.drop = nn.Dropout(0.5)
        self.last = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        return self.last(self.drop(self.first(x)))


def test_attributes_register_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "last.0.weight", "last.0.bias"]
    assert [n for n, _ in net.named_buffers()] == ["mean", "seen"]
    assert list(net.state_dict()) == ["scale", "mean", "first.weight", "first.bias", "last.0.weight", "last.0.bias"]
    assert "seen" in net.to_static_state_dict()
    assert [n for n, _ in net.named_children()] == ["first", "drop", "last"]
    assert [n for n, _ in net.named_sublayers()] == ["first", "drop", "last", "last.0", "last.1"]
    assert net.parameters(include_sublayers=False) == [net.scale]
    assert [n for n, _ in net.named_parameters(prefix="net")][0] == "net.scale"


def test_names_count_per_kind():
    net = Net()
    assert [p.name for p in net.parameters()] == ["net_0.w_0", "linear_0.w_0", "linear_0.b_0", "linear_1.w_0", "linear_1.b_0"]
    assert nn.Conv2D(1, 1, 1).full_name() == "conv2d_0" and Net().full_name() == "net_1"
    assert nn.Layer(name_scope="mine").full_name() == "mine_0"


def test_an_attribute_can_change_what_it_is():
    net = Net()
    net.mean = nn.Linear(1, 1)
    assert "mean" not in net._buffers and isinstance(net.mean, nn.Linear)
    net.first = None
    assert net.first is None and "first.weight" not in net.state_dict()
    with pytest.raises(TypeError, match="should be of type Layer or None"):
        net.last = 3
    with pytest.raises(TypeError, match="should be of type Parameter or None"):
        net.scale = paddle.ones([1])
    del net.scale
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scale'"):
        _ = net.scale


def test_registering_before_init_is_an_error():
    class Early(nn.Layer):
        def __init__(self):
            self.part = nn.Linear(1, 1)

    with pytest.raises(ValueError, match=r"super\(\).__init__\(\) should be called first"):
        Early()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda net: net.add_parameter("x", 3), TypeError),
        (lambda net: net.add_parameter("a.b", None), KeyError),
        (lambda net: net.add_parameter("forward", None), KeyError),
        (lambda net: net.add_sublayer("x", 3), AssertionError),
        (lambda net: net.register_buffer("first", paddle.ones([1])), KeyError),
        (lambda net: net.register_buffer("x", 3), TypeError),
        (lambda net: net.register_buffer("", None), KeyError),
        (lambda net: net.to("gpu"), ValueError),
        (lambda net: net.astype("flot"), ValueError),
        (lambda net: net.float(excluded_layers=[3]), TypeError),
        (lambda net: nn.Layer()(1), NotImplementedError),
        (lambda net: nn.Linear(2, 2, weight_attr=paddle.ParamAttr(name="")), ValueError),
        (lambda net: nn.Linear(2, 2, weight_attr=object()), TypeError),
        (lambda net: nn.Conv2D(3, 4, 3, groups=2), ValueError),
        (lambda net: nn.ReLU(3, 4), TypeError),
        (lambda net: nn.MSELoss("most"), ValueError),
    ],
)
def test_a_wrong_call_is_refused(call, error):
    with pytest.raises(error):
        call(Net())


def test_modes_reach_every_layer():
    net = Net()
    assert net.eval() is net and not net.drop.training and not net.last[0].training
    assert net.train() is net and net.last[1].training


def test_apply_goes_children_first():
    net, seen = Net(), []
    assert net.apply(seen.append) is net
    assert seen == [net.first, net.drop, net.last[0], net.last[1], net.last, net]


def test_layers_and_parameters_held_twice_come_once():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, shared)
    assert len(net.parameters()) == 2 and len(net.sublayers()) == 1 and len(list(net.children())) == 1


def test_hooks_change_inputs_and_outputs_and_come_off():
    layer = nn.Identity()
    before = layer.register_forward_pre_hook(lambda layer, inputs: inputs[0] * 2)
    after = layer.register_forward_post_hook(lambda layer, inputs, output: output + inputs[0])
    assert layer(paddle.ones([1])).item() == 4
    before.remove()
    assert layer(paddle.ones([1])).item() == 2
    after.remove()
    after.remove()
    assert layer(paddle.ones([1])).item() == 1


def test_state_moves_between_models_by_structure_or_by_name():
    source, target = Net(), Net()
    assert target.set_state_dict(source.state_dict()) == ([], [])
    for name, tensor in source.state_dict().items():
        np.testing.assert_array_equal(target.state_dict()[name].numpy(), tensor.numpy())
    by_name = {p.name: p.numpy() + 1 for p in target.parameters()}
    with pytest.warns(UserWarning, match="mean is not found"):
        missing, unexpected = target.set_state_dict(by_name, use_structured_name=False)
    assert missing == [target.mean.name] and unexpected == []
    np.testing.assert_array_equal(target.scale.numpy(), source.scale.numpy() + 1)


def test_what_does_not_fit_is_named_and_skipped():
    net = nn.Linear(2, 3)
    before = net.weight.numpy()
    with pytest.warns(UserWarning, match=r"weight receives a shape \[3, 3\], but the expected shape is \[2, 3\]"):
        missing, unexpected = net.set_state_dict({"weight": paddle.ones([3, 3]), "bias": np.ones(3, "float64"), "more": 1})
    assert missing == ["weight"] and unexpected == ["weight", "more"]
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert net.bias.tolist() == [1, 1, 1] and net.bias.dtype is paddle.float32


def test_a_state_dict_fills_the_destination_and_runs_hooks():
    net, destination = nn.Linear(1, 1), OrderedDict()
    net.register_state_dict_hook(lambda state: state.pop("bias"))
    net.state_dict(destination, structured_name_prefix="part.", use_hook=False)
    assert list(destination) == ["part.weight", "part.bias"]


def test_casts_change_parameters_buffers_and_text():
    net = Net()
    version = net.first.weight.inplace_version
    assert net.to("cpu") is net and net.to(dtype="float32") is net and net.first.weight.inplace_version == version
    assert "dtype=float32" in repr(net.first)
    net.to(dtype="float64")
    assert {t.dtype for t in [*net.parameters(), *net.buffers()]} == {paddle.float64}
    net.float(excluded_layers=nn.Sequential)
    assert net.first.weight.dtype is paddle.float32 and repr(net.first).endswith("dtype=paddle.float32)")
    net.bfloat16()
    assert net.first.weight.dtype is paddle.bfloat16
    assert net.astype("int8").scale.dtype is paddle.int8
    with pytest.warns(UserWarning, match="does not support float16"):
        assert net.float16().scale.dtype is paddle.int8


def test_gradients_survive_a_cast():
    net = nn.Linear(2, 1)
    net(paddle.ones([1, 2])).backward()
    net.to(dtype="float64")
    assert net.weight.grad.dtype is paddle.float64


def test_clear_gradients():
    net = nn.Linear(2, 1)
    net(paddle.ones([1, 2])).backward()
    net.clear_gradients()
    assert net.weight.grad.tolist() == [[0], [0]]


def test_parameters_follow_their_attributes():
    attr = paddle.ParamAttr(name="w", initializer=nn.initializer.Constant(2.0), learning_rate=0.5, trainable=False, need_clip=False)
    weight = nn.Linear(2, 1, weight_attr=attr, bias_attr=False).weight
    assert (weight.name, weight.tolist(), weight.optimize_attr, weight.trainable, weight.need_clip) == (
        "w",
        [[2], [2]],
        {"learning_rate": 0.5},
        False,
        False,
    )
    assert nn.Linear(2, 1, bias_attr=False).bias is None
    assert nn.Linear(2, 1, weight_attr="mine").weight.name == "mine"
    assert nn.Linear(2, 1, bias_attr=nn.initializer.Constant(3.0)).bias.tolist() == [3]


def test_param_attr_from_what_may_stand_for_one():
    to_attr = paddle.ParamAttr.to_attr
    assert to_attr(False) is False and to_attr(None).name is None and to_attr("n").name == "n"
    assert to_attr(paddle.regularizer.L2Decay(0.1)).regularizer.coeff == 0.1
    assert [a.name for a in to_attr(["a", "b"])] == ["a", "b"]
    assert to_attr(None).to_kwargs(with_initializer=True)["optimize_attr"] == {"learning_rate": 1.0}
    attr = paddle.ParamAttr()
    attr.set_default_bias_initializer()
    attr.set_default_param_initializer()
    assert isinstance(attr.initializer, nn.initializer.Constant)


def test_a_global_initializer_holds_where_none_is_named():
    nn.initializer.set_global_initializer(nn.initializer.Constant(4.0), nn.initializer.Constant(5.0))
    try:
        layer = nn.Linear(1, 1)
        assert (layer.weight.item(), layer.bias.item()) == (4, 5)
    finally:
        nn.initializer.set_global_initializer(None)


def test_containers():
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Tanh()
    net = nn.Sequential(("a", a), ("b", b))
    assert net["a"] is a and net[1] is b and net[-1] is b and len(net) == 2 and list(net) == [a, b]
    assert list(net[:1]) == [a]
    net.append(c)
    assert net[2] is c
    with pytest.raises(IndexError):
        net[7]
    layers = nn.LayerList([a, b])
    layers.insert(1, c)
    layers.extend([a])
    assert list(layers) == [a, c, b, a] and layers[1:3][0] is c
    del layers[0]
    assert [n for n, _ in layers.named_children()] == ["0", "1", "2"]
    table = nn.LayerDict({"a": a})
    table["b"] = b
    assert list(table.keys()) == ["a", "b"] and table.pop("a") is a and "a" not in table and len(table) == 1
    parameters = nn.ParameterList([paddle.create_parameter([2]) for _ in range(2)])
    assert len(parameters) == 2 and parameters[1].shape == [2] and len(list(parameters)) == 2 and len(parameters.parameters()) == 2


def test_an_embeddings_padding_row_is_zero_and_stays_so():
    layer = nn.Embedding(3, 2, padding_idx=-1)
    assert layer.weight.numpy()[2].tolist() == [0, 0]
    layer(paddle.to_tensor([2, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
    with pytest.raises(ValueError, match="expected >= 0 and < 3"):
        layer(paddle.to_tensor([3]))


def test_a_created_variable_is_filled_by_assign():
    layer = nn.Layer()
    kept = layer.create_variable(name="kept", dtype="float64")
    assert kept.dtype is paddle.float64 and not kept._is_initialized()
    with pytest.raises(ValueError, match="not initialized"):
        kept.numpy()
    with pytest.raises(ValueError, match="not initialized"):
        kept + 1
    paddle.assign(np.ones(2), kept)
    assert kept.tolist() == [1, 1]


def test_a_small_network_learns():
    paddle.seed(7)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters())
    x = paddle.to_tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    label = paddle.to_tensor([0, 1, 1, 0])
    for _ in range(100):
        loss = nn.functional.cross_entropy(net(x), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    assert loss.item() < 0.05 and net(x).argmax(1).tolist() == [0, 1, 1, 0]


def test_nothing_warns_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = Net()
        net(paddle.ones([2, 2])).sum().backward()
        net.set_state_dict(net.state_dict())


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (nn.initializer.Xavier(), nn.initializer.XavierUniform()),
        (nn.initializer.Xavier(uniform=False, fan_in=3, fan_out=4), nn.initializer.XavierNormal(3, 4)),
    ],
)
def test_xavier_by_its_older_name_draws_the_same(older, newer):
    drawn = []
    for initializer in (older, newer):
        paddle.seed(3)
        drawn.append(paddle.create_parameter([3, 5], "float32", default_initializer=initializer).numpy())
    np.testing.assert_array_equal(*drawn)
