"""The high-level interface, readers and generators of random numbers."""

from contextlib import contextmanager, redirect_stdout
from io import StringIO

from tests.api.table import caught, check


def printed(function):
    """What `function()` prints and returns; the counts of a summary, which Paddle makes numpy's, as plain numbers."""
    with redirect_stdout(StringIO()) as stream:
        result = function()
    return stream.getvalue(), {k: int(v) for k, v in result.items()} if isinstance(result, dict) else result


@contextmanager
def whole_numbers_of_one_element(paddle):
    """Paddle 3.3.1 counts in tensors of shape [1] and calls int() on them, which newer numpy refuses: let it."""
    before = paddle.Tensor.__int__
    paddle.Tensor.__int__ = lambda tensor: int(tensor.item())
    try:
        yield
    finally:
        paddle.Tensor.__int__ = before


def lenet(paddle):
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, padding=1), nn.BatchNorm2D(6), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5, groups=2, bias_attr=False), nn.LeakyReLU(),
        nn.AvgPool2D(2, 2), nn.Flatten(), nn.Linear(400, 120), nn.Sequential(nn.Linear(120, 84), nn.Dropout()), nn.Linear(84, 10),
    )  # fmt: skip


def two_inputs(paddle):
    class Two(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.shared, self.last = paddle.nn.Linear(4, 3), paddle.nn.Linear(3, 2)
            self.scale = self.create_parameter([3])
            self.last.weight.stop_gradient = True

        def forward(self, x, y=None):
            if y is None:
                x, y = (x["x"], x["y"]) if isinstance(x, dict) else x
            return self.last(self.shared(x) * self.scale + self.shared(y)), x

    return Two()


@check("paddle.summary", traits=("float32",))
def summary_prints_a_table_of_layers(paddle, np, rng):
    found = [printed(lambda: paddle.summary(lenet(paddle), (1, 1, 28, 28)))]
    found.append(printed(lambda: paddle.summary(lenet(paddle), (None, 1, 28, 28), "float32")))
    found.append(printed(lambda: paddle.summary(lenet(paddle), paddle.static.InputSpec([-1, 1, 28, 28], "float32", "x"))))
    found.append(printed(lambda: paddle.summary(paddle.nn.Linear(4, 3), (5, 4))))
    found.append(printed(lambda: paddle.summary(paddle.nn.Sequential(paddle.nn.Linear(2048, 2048)), (512, 2048))))
    found.append(printed(lambda: paddle.summary(paddle.nn.Sequential(paddle.nn.Embedding(10, 4), paddle.nn.LSTM(4, 5, 2)), (2, 7), "int64")))
    return found


@check("paddle.summary", traits=("float32",))
def summary_takes_several_inputs(paddle, np, rng):
    x, y = paddle.ones([2, 4]), paddle.ones([5, 2, 4])
    net = two_inputs(paddle)
    found = [printed(lambda: paddle.summary(net, [(2, 4), (5, 2, 4)], dtypes=["float32", "float32"]))]
    found.append(printed(lambda: paddle.summary(net, input=[x, y])))
    found.append(printed(lambda: paddle.summary(net, input={"x": x, "y": y})))
    return [*found, net.training, net.shared.training]


@check("paddle.summary")
def summary_refuses_shapes_that_say_too_little(paddle, np, rng):
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 3))
    return [caught(lambda: paddle.summary(net)), caught(lambda: paddle.summary(net, (None, -1))), caught(lambda: paddle.summary(net, (0, 4))),
            caught(lambda: paddle.summary(net, ["a"])), caught(lambda: paddle.summary(net, input=3))]  # fmt: skip


@check("paddle.flops", traits=("float32",))
def flops_are_counted_by_layer(paddle, np, rng):
    def leaky(layer, inputs, output):
        layer.total_ops += int(inputs[0].numel()) * 3

    def table(function):
        with whole_numbers_of_one_element(paddle):
            text, result = printed(function)
        return [line for line in text.splitlines() if "class" not in line], text.count("has been counted"), text.count("Customize"), text.count("Cannot"), result

    net = lenet(paddle)
    found = [table(lambda: paddle.flops(net, [1, 1, 28, 28])), table(lambda: paddle.flops(net, [1, 1, 28, 28], print_detail=True))]
    found.append(table(lambda: paddle.flops(net, [1, 1, 28, 28], custom_ops={paddle.nn.LeakyReLU: leaky}, print_detail=True)))
    other = paddle.nn.Sequential(paddle.nn.Conv2DTranspose(4, 6, 3), paddle.nn.AdaptiveAvgPool2D(2), paddle.nn.ReLU6(), paddle.nn.Sigmoid())
    found.append(table(lambda: paddle.flops(other, [2, 4, 6, 6], print_detail=True)))
    return [*found, net.training, sorted(net.state_dict())]


@check("paddle.batch")
def batches_of_a_reader(paddle, np, rng):
    def reader():
        yield from range(7)

    batched = paddle.batch(reader, 3)
    found = [list(batched()), list(batched()), list(paddle.batch(reader, 3, drop_last=True)()), list(paddle.batch(reader, "7")()), list(paddle.batch(reader, 9)())]
    return [*found, caught(lambda: paddle.batch(reader, 0)), caught(lambda: paddle.batch(reader, -2)), list(paddle.batch(lambda: iter([]), 2)())]


@check("paddle.nn.layer.layers.HookRemoveHelper", "paddle.nn.layer.layers.HookRemoveHelper.remove")
def hooks_are_taken_off(paddle, np, rng):
    from collections import OrderedDict

    helper_class = paddle.nn.layer.layers.HookRemoveHelper
    net, calls = paddle.nn.Linear(2, 2), []
    first = net.register_forward_post_hook(lambda layer, x, y: calls.append("first"))
    second = net.register_forward_pre_hook(lambda layer, x: calls.append("second"))
    net(paddle.ones([1, 2]))
    found = [list(calls), isinstance(first, helper_class), isinstance(second, helper_class), first.remove(), first.remove()]
    net(paddle.ones([1, 2]))
    second.remove()
    net(paddle.ones([1, 2]))
    tables = [OrderedDict(), OrderedDict(), OrderedDict()]
    helper = helper_class(tables[0], extra_hook_dict=tables[1:])
    for table in tables:
        table[helper._hook_id], table["other"] = "hook", 1
    helper.remove()
    return [*found, calls, [list(t) for t in tables]]


@check("paddle.get_cuda_rng_state", "paddle.set_cuda_rng_state")
def generators_of_gpus_have_states(paddle, np, rng):
    if paddle.is_compiled_with_cuda():
        states = paddle.get_cuda_rng_state()
        paddle.set_cuda_rng_state(states)
        return [[] if len(states) else "no state", None]
    before = paddle.get_rng_state()
    paddle.set_cuda_rng_state(paddle.get_cuda_rng_state())
    return [paddle.get_cuda_rng_state(), paddle.set_cuda_rng_state([]), len(before)]
