"""Programs of Layers: flags, buffers, hooks, changed and shared sublayers, optimizer steps, loaded states, methods, compiled parts in
others.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.jit import not_to_static
from polyreme.nn import functional as F
from polyreme.static import InputSpec
from tests.frontend.capture_programs.driver import Run, program, three


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        self.scale = 1.0
        self.depth = 1

    def forward(self, x: Any) -> Any:
        for _ in range(self.depth):
            x = self.second(self.drop(F.relu(self.first(x)))) * self.scale
        return x

    def encode(self, x: Any) -> Any:
        return paddle.tanh(self.first(x))


class Normed(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1D(3)
        self.calls = 0
        self.register_buffer("total", paddle.zeros([3]))
        self.register_buffer("temporary", paddle.zeros([3]), persistable=False)

    def forward(self, x: Any) -> Any:
        return self.norm(x) + self.total


class Counting(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([3], default_initializer=nn.initializer.Constant(2.0))
        self.register_buffer("steps", paddle.zeros([1]))
        self.features: list[Any] = []
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.steps += 1
        self.last = (x * self.weight).detach()
        self.features.append(self.last.shape[0])
        return (x * self.weight + self.last).sum() + self.steps


def layer_three(p: Run, net: Any, width: int = 3) -> None:
    p.call(net, p.g(2, width))
    p.call(net, p.t(2, width))
    p.call(net, p.g(4, width))


@program()
def train_and_eval_of_the_net(p: Run) -> None:
    net = p.static(Net())
    p.watch(net)
    layer_three(p, net)
    net.eval()
    layer_three(p, net)
    net.train()
    p.call(net, p.g(2, 3))


@program()
def train_and_eval_of_a_part(p: Run) -> None:
    net = p.static(Net())
    p.watch(net)
    layer_three(p, net)
    net.drop.eval()
    layer_three(p, net)
    net.drop.p = 0.9
    net.drop.train()
    layer_three(p, net)


@program()
def flags_of_layers_in_closures_lists_and_dicts(p: Run) -> None:
    closed, listed, named = nn.Dropout(0.5), [nn.Dropout(0.3)], {"a": nn.Dropout(0.7)}

    @p.static
    def function(x: Any) -> Any:
        return named["a"](listed[0](closed(x)))

    three(p, function)
    closed.eval()
    three(p, function)
    listed[0].eval()
    three(p, function)
    named["a"].eval()
    three(p, function)


@program()
def a_flag_is_asked_for(p: Run) -> None:
    net = Net()

    @p.static
    def function(x: Any) -> Any:
        return net(x) if not net.training else F.dropout(x, 0.4, training=net.training)

    three(p, function)
    net.eval()
    three(p, function)


@program()
def statistics_of_batch_norm_run(p: Run) -> None:
    net = p.static(Normed())
    p.watch(net)
    layer_three(p, net)
    net.eval()
    layer_three(p, net)
    net.train()
    layer_three(p, net)


@program()
def batch_norm_in_two_dimensions_and_momentum(p: Run) -> None:
    norm = nn.BatchNorm2D(2, momentum=0.5)
    net = p.static(nn.Sequential(nn.Conv2D(1, 2, 3, padding=1), norm, nn.ReLU(), nn.AdaptiveAvgPool2D(1)))
    p.watch(net)
    for rows in (2, 2, 3):
        p.call(net, p.g(rows, 1, 4, 4))
    norm._momentum = 0.1
    p.call(net, p.g(2, 1, 4, 4))


@program()
def a_buffer_a_list_and_an_attribute_are_written(p: Run) -> None:
    net = p.static(Counting())
    p.watch(net)
    layer_three(p, net)


@program()
def a_buffer_is_bound_anew(p: Run) -> None:
    class Mean(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", paddle.zeros([3]))

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(axis=0)
            return x - self.mean

    net = p.static(Mean())
    p.watch(net)
    layer_three(p, net)
    net.mean = paddle.ones([3])
    layer_three(p, net)
    p.note(net.state_dict())


@program()
def a_buffer_receives_an_assignment(p: Run) -> None:
    net = Normed()

    @p.static
    def function(x: Any) -> Any:
        with paddle.no_grad():
            paddle.assign(net.total + x.mean(axis=0), net.total)
            net.temporary.set_value(x.max(axis=0))
        return x * net.total

    p.watch(net)
    three(p, function)


@program(whole=False)
def a_buffer_is_registered_in_forward(p: Run) -> None:
    class Lazy(nn.Layer):
        def forward(self, x: Any) -> Any:
            if not hasattr(self, "table"):
                self.register_buffer("table", paddle.arange(3, dtype="float32"))
            return x + self.table

    net = p.static(Lazy())
    p.watch(net)
    layer_three(p, net)


@program(whole=False)
def a_sublayer_is_made_in_forward(p: Run) -> None:
    class Lazy(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.proj: Any = None

        def forward(self, x: Any) -> Any:
            if self.proj is None:
                self.proj = nn.Linear(x.shape[-1], 2)
            return self.proj(x)

    net = p.static(Lazy())
    p.watch(net)
    layer_three(p, net)


@program(whole=False)
def a_counter_attribute_of_the_net(p: Run) -> None:
    class Stepping(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def forward(self, x: Any) -> Any:
            self.step += 1
            return x * self.step if self.step % 2 else x

    net = p.static(Stepping())
    p.watch(net)
    layer_three(p, net)
    layer_three(p, net)


@program()
def hooks_come_and_go(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    log: list[int] = []
    p.watch(net, log)
    layer_three(p, net)
    before = net.first.register_forward_pre_hook(lambda layer, given: (given[0] * 2,))
    layer_three(p, net)
    after = net.second.register_forward_post_hook(lambda layer, given, result: result + given[0].sum())
    noted = net.register_forward_post_hook(lambda layer, given, result: log.append(result.shape[0]))
    layer_three(p, net)
    before.remove()
    layer_three(p, net)
    after.remove()
    noted.remove()
    layer_three(p, net)


@program()
def hooks_of_a_closed_over_layer(p: Run) -> None:
    layer = nn.Linear(3, 3)
    seen: dict[str, Any] = {}

    def keep(layer: Any, given: Any, result: Any) -> None:
        seen["feature"] = result.detach()

    @p.static
    def function(x: Any) -> Any:
        return layer(x) * 2

    p.watch(layer, seen)
    three(p, function)
    handle = layer.register_forward_post_hook(keep)
    three(p, function)
    handle.remove()
    three(p, function)


@program()
def sublayers_are_replaced_and_added(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    p.watch(net)
    layer_three(p, net)
    net.first = nn.Linear(3, 4)
    layer_three(p, net)
    net.second = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    layer_three(p, net)
    net.second.add_sublayer("more", nn.Linear(3, 3))
    layer_three(p, net)


@program()
def a_sequential_changes_its_members(p: Run) -> None:
    net = p.static(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    p.watch(net)
    layer_three(p, net)
    net[1] = nn.Tanh()
    layer_three(p, net)
    net.append(nn.Linear(3, 2))
    layer_three(p, net)


@program()
def a_layer_list_and_a_layer_dict(p: Run) -> None:
    blocks = nn.LayerList([nn.Linear(3, 3) for _ in range(2)])
    heads = nn.LayerDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 1)})

    @p.static
    def function(x: Any, head: str) -> Any:
        for i, block in enumerate(blocks):
            x = block(x) + i
        return heads[head](x), len(blocks), list(heads.keys())

    p.watch(blocks, heads)
    for rows, head in ((2, "a"), (2, "b"), (4, "a")):
        p.call(function, p.g(rows, 3), head)
    blocks.append(nn.Linear(3, 3))
    p.call(function, p.g(2, 3), "a")


@program(whole=False)
def parameters_are_replaced_and_frozen(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    p.watch(net)
    layer_three(p, net)
    net.first.weight.stop_gradient = True
    layer_three(p, net)
    net.first.weight = net.create_parameter([3, 4])
    layer_three(p, net)
    for parameter in net.parameters():
        parameter.stop_gradient = True
    layer_three(p, net)
    net.second.bias.trainable = True
    net.second.bias.stop_gradient = False
    layer_three(p, net)


@program()
def parameters_are_set_and_filled(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    p.watch(net)
    layer_three(p, net)
    net.first.weight.set_value(np.ones([3, 4], dtype="float32"))
    layer_three(p, net)
    with paddle.no_grad():
        net.second.bias.fill_(3.0)
        net.second.weight[0] = 0.0
    layer_three(p, net)


@program(whole=False)
def steps_of_optimizers_between_calls(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    p.watch(net)
    for maker in (paddle.optimizer.SGD, paddle.optimizer.Adam):
        optimizer = maker(0.1, parameters=net.parameters())
        for rows in (2, 2, 4):
            loss = net(p.t(rows, 3)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            p.call(net, p.g(rows, 3))


@program()
def states_are_loaded_between_calls(p: Run) -> None:
    net = p.static(Normed())
    other = Normed()
    p.watch(net)
    layer_three(p, net)
    p.call(other, p.t(2, 3))
    net.set_state_dict(other.state_dict())
    layer_three(p, net)
    net.set_state_dict({name: value * 2 for name, value in net.state_dict().items()})
    layer_three(p, net)


@program()
def a_copy_of_a_compiled_net_is_its_own(p: Run) -> None:
    net = p.static(Counting())
    p.watch(net)
    layer_three(p, net)
    twin = copy.deepcopy(net)
    twin.weight.set_value(np.full([3], 7.0, dtype="float32"))
    p.watch(twin)
    layer_three(p, twin)
    layer_three(p, net)


@program(whole=False)
def a_shallow_copy_of_a_compiled_net_runs_by_itself(p: Run) -> None:
    net = p.static(Counting())
    p.watch(net)
    layer_three(p, net)
    twin = copy.copy(net)
    p.watch(twin)
    layer_three(p, twin)
    twin.eval()
    layer_three(p, twin)
    layer_three(p, net)


@program()
def one_weight_in_two_layers(p: Run) -> None:
    class Tied(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            return self.b(F.relu(self.a(x)))

    net = p.static(Tied())
    p.watch(net)
    layer_three(p, net)
    with paddle.no_grad():
        net.a.weight.scale_(2.0)
    layer_three(p, net)
    net.b.weight = net.create_parameter([3, 3])
    layer_three(p, net)


@program()
def an_embedding_is_tied_to_the_head(p: Run) -> None:
    table = nn.Embedding(5, 3)

    @p.static
    def function(ids: Any) -> Any:
        return paddle.matmul(table(ids), table.weight, transpose_y=True)

    p.watch(table)
    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3, dtype="int64"))
    with paddle.no_grad():
        table.weight[0] = 0.0
    p.call(function, p.t(2, 3, dtype="int64"))


@program()
def one_layer_called_twice(p: Run) -> None:
    layer = nn.Linear(3, 3)

    @p.static
    def function(x: Any) -> Any:
        return layer(layer(x))

    p.watch(layer)
    three(p, function)


@program()
def a_recurrent_net(p: Run) -> None:
    net = nn.LSTM(3, 4, num_layers=1)

    @p.static
    def function(x: Any, states: Any = None) -> Any:
        out, (h, c) = net(x, states)
        return out, h, c

    p.watch(net)
    p.call(function, p.g(2, 5, 3))
    p.call(function, p.g(2, 5, 3), (p.t(1, 2, 4), p.t(1, 2, 4)))
    p.call(function, p.g(1, 2, 3))


@program()
def a_cell_in_a_loop_of_python(p: Run) -> None:
    cell = nn.GRUCell(3, 4)

    @p.static
    def function(x: Any) -> Any:
        h = paddle.zeros([x.shape[0], 4])
        states = []
        for t in range(x.shape[1]):
            _, h = cell(x[:, t], h)
            states.append(h)
        return paddle.stack(states, axis=1)

    p.watch(cell)
    for rows in (1, 1, 2):
        p.call(function, p.g(rows, 2, 3))


@program(whole=False)
def a_state_is_carried_from_call_to_call(p: Run) -> None:
    class Carrying(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.SimpleRNNCell(3, 4)
            self.state: Any = None

        def forward(self, x: Any) -> Any:
            if self.state is None:
                self.state = paddle.zeros([x.shape[0], 4])
            out, state = self.cell(x, self.state)
            self.state = state.detach()
            return out

    net = p.static(Carrying())
    p.watch(net)
    for _ in range(3):
        p.call(net, p.g(2, 3))
    net.state = None
    p.call(net, p.g(4, 3))
    p.call(net, p.g(4, 3))


@program()
def attention_with_and_without_a_mask(p: Run) -> None:
    net = p.static(nn.MultiHeadAttention(4, 2, dropout=0.3))
    p.watch(net)
    p.call(net, p.g(1, 3, 4))
    net.eval()
    p.call(net, p.g(1, 3, 4))
    x = p.g(2, 2, 4)
    p.call(net, x, x, x, p.t(1, 2, 2))


@program(whole=False)
def an_attribute_of_the_net_changes(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    layer_three(p, net)
    net.scale = 3.0
    layer_three(p, net)
    net.depth = 2
    layer_three(p, net)
    del net.scale
    p.call(net, p.g(2, 3))
    net.scale = p.g(3)
    layer_three(p, net)


@program()
def a_method_of_the_net_is_replaced(p: Run) -> None:
    class Wrapper(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def activate(self, x: Any) -> Any:
            return paddle.tanh(x)

        def forward(self, x: Any) -> Any:
            return self.activate(self.net.encode(x))

    net = p.static(Wrapper())
    p.watch(net)
    layer_three(p, net)
    net.activate = paddle.exp
    layer_three(p, net)
    net.net.encode = lambda x: x * 2
    layer_three(p, net)
    net.net.encode = nn.Identity()
    p.call(net, p.g(2, 3))


@program()
def the_forward_of_a_sublayer_is_replaced(p: Run) -> None:
    net = p.static(Net())
    net.eval()
    layer_three(p, net)
    net.first.forward = lambda x: paddle.concat([x, x[:, :1]], axis=1)
    layer_three(p, net)


@program()
def the_class_of_a_sublayer_is_changed(p: Run) -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 2

    net = p.static(Net())
    net.eval()
    p.watch(net)
    layer_three(p, net)
    net.first.__class__ = Doubled
    layer_three(p, net)


@program()
def inheritance_of_layers(p: Run) -> None:
    class Deeper(Net):
        def __init__(self) -> None:
            super().__init__()
            self.third = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.third(super().forward(x)) + self.encode(x).sum()

        def encode(self, x: Any) -> Any:
            return super().encode(x) * 2

    net = p.static(Deeper())
    p.watch(net)
    layer_three(p, net)
    net.eval()
    layer_three(p, net)


@program()
def a_layer_with_a_call_of_its_own(p: Run) -> None:
    class Called(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def __call__(self, x: Any, scale: float = 2.0) -> Any:
            return super().__call__(x * scale) + 1

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    layer = Called()

    @p.static
    def function(x: Any) -> Any:
        return layer(x, scale=3.0) + layer(x)

    p.watch(layer)
    three(p, function)


@program()
def methods_of_a_layer_are_compiled(p: Run) -> None:
    net = Net()
    encode = p.static(net.encode)
    p.watch(net)
    three(p, encode)
    net.first.weight.set_value(np.ones([3, 4], dtype="float32"))
    three(p, encode)


@program()
def a_decorated_forward(p: Run) -> None:
    class Decorated(nn.Layer):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner = nn.Linear(3, width)

        @p.static
        def forward(self, x: Any) -> Any:
            return self.helper(self.inner(x))

        @p.static
        def helper(self, x: Any) -> Any:
            return paddle.tanh(x) * self.inner.weight.shape[1]

    net, other = Decorated(2), Decorated(4)
    p.watch(net, other)
    layer_three(p, net)
    layer_three(p, other)
    layer_three(p, net)


@program()
def compiled_parts_in_a_plain_net(p: Run) -> None:
    class Outer(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.a = p.static(Net())
            self.b = Net()

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x))

    net = Outer()
    p.watch(net)
    layer_three(p, net)
    net.eval()
    layer_three(p, net)


@program()
def compiled_functions_in_a_compiled_one(p: Run) -> None:
    layer = nn.Linear(3, 3)

    @p.static
    def inner(x: Any, scale: float = 2.0) -> Any:
        return layer(x) * scale

    @p.static
    def outer(x: Any) -> Any:
        return inner(x) + inner(x, scale=3.0) + p_net(x)

    p_net = p.static(Net())
    p_net.eval()
    p.watch(layer, p_net)
    three(p, outer)
    p.call(inner, p.g(2, 3))
    p_net.scale = 5.0
    p.call(outer, p.g(2, 3))


@program(whole=False)
def a_function_that_stays_python(p: Run) -> None:
    log: list[Any] = []

    @not_to_static
    def plain(x: Any) -> Any:
        log.append(float(x.sum()))
        return x * 2

    @p.static
    def function(x: Any) -> Any:
        return plain(x) + 1

    p.watch(log)
    three(p, function)


@program()
def free_sizes_of_a_net(p: Run) -> None:
    net = p.static(Net(), input_spec=[InputSpec([None, 3], "float32", "x")])
    net.eval()
    p.watch(net)
    layer_three(p, net)
    p.call(net, p.g(1, 3))
    p.call(net, p.t(0, 3))


@program()
def free_sizes_are_computed_with(p: Run) -> None:
    @p.static(input_spec=[InputSpec([None, None], "float32", "x"), InputSpec([None], "float32", "y")])
    def function(x: Any, y: Any) -> Any:
        rows, columns = x.shape
        return (x.reshape([columns, rows]).sum(0) / rows), x.T @ paddle.ones([rows, 2]) * columns, y.sum() + rows, paddle.concat([y, y])

    for rows, columns, count in ((2, 3, 3), (4, 3, 2), (1, 5, 1)):
        p.call(function, p.g(rows, columns), p.g(count))


@program(whole=False)
def a_free_size_decides(p: Run) -> None:
    @p.static(input_spec=[InputSpec([None, 3], "float32", "x")])
    def function(x: Any) -> Any:
        return x * 2 if x.shape[0] > 2 else x + 1

    for rows in (2, 4, 1, 3):
        p.call(function, p.g(rows, 3))


@program()
def weights_are_listed_and_decayed(p: Run) -> None:
    net = Net()
    net.eval()

    @p.static
    def function(x: Any) -> Any:
        decay = sum((w**2).sum() for w in net.parameters())
        names = [name for name, _ in net.named_parameters()]
        return net(x).sum() + 0.1 * decay, names, len(net.sublayers())

    p.watch(net)
    three(p, function)
    net.extra = nn.Linear(1, 1)
    p.call(function, p.t(2, 3))


@program(whole=False)
def eval_is_called_inside(p: Run) -> None:
    net = Net()

    @p.static
    def function(x: Any) -> Any:
        net.eval()
        y = net(x)
        net.train()
        return y

    p.watch(net)
    three(p, function)


@program(whole=False)
def a_training_step_is_one_function(p: Run) -> None:
    net = Net()
    net.eval()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss.detach()

    p.watch(net)
    three(p, step)


@program(whole=False)
def a_state_dict_is_read_inside(p: Run) -> None:
    net = Net()

    @p.static
    def function(x: Any) -> Any:
        return x + sum(v.sum() for v in net.state_dict().values())

    p.watch(net)
    three(p, function)


@program()
def spectral_and_group_norms(p: Run) -> None:
    net = p.static(nn.Sequential(nn.GroupNorm(1, 2), nn.InstanceNorm1D(2), nn.LayerNorm(3), nn.PReLU()))
    p.watch(net)
    for rows in (2, 2, 4):
        p.call(net, p.g(rows, 2, 3))


@program()
def losses_as_layers(p: Run) -> None:
    loss, smooth = nn.CrossEntropyLoss(), nn.SmoothL1Loss()

    @p.static
    def function(x: Any, label: Any, target: Any) -> Any:
        return loss(x, label) + smooth(x, target)

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), p.t(rows, dtype="int64"), p.t(rows, 3))


@program()
def a_layer_is_an_argument(p: Run) -> None:
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)

    @p.static
    def function(layer: Any, x: Any) -> Any:
        return layer(x) * 2

    p.watch(a, b)
    for layer, rows in ((a, 2), (b, 2), (a, 4)):
        p.call(function, layer, p.g(rows, 3))
    a.weight = a.create_parameter([3, 2])
    p.call(function, a, p.g(2, 3))


@program()
def parameters_in_lists(p: Run) -> None:
    class Scales(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scales = nn.ParameterList([self.create_parameter([3]) for _ in range(2)])
            self.plain = [paddle.ones([3]), paddle.ones([3])]

        def forward(self, x: Any) -> Any:
            for scale, plain in zip(self.scales, self.plain, strict=True):
                x = x * scale + plain
            return x

    net = p.static(Scales())
    p.watch(net)
    layer_three(p, net)
    net.plain[0] = paddle.zeros([3])
    layer_three(p, net)
    net.scales.append(net.create_parameter([3]))
    net.plain.append(paddle.zeros([3]))
    layer_three(p, net)


@program()
def an_array_is_given_to_a_net_with_statistics(p: Run) -> None:
    net = p.static(nn.Sequential(nn.BatchNorm1D(3), nn.Linear(3, 2)))
    p.watch(net)

    def run(rows: int) -> Any:
        given = np.arange(3.0 * rows, dtype="float32").reshape(rows, 3)
        return net(paddle.to_tensor(given) if p.mode == "eager" else given)

    for rows in (2, 2, 4):
        p.call(run, rows)


@program(whole=False)
def a_statistic_is_given_to_the_net_that_writes_it(p: Run) -> None:
    norm = nn.BatchNorm1D(3)
    net = p.static(norm)
    p.watch(norm)
    for rows in (2, 2, 4):
        p.call(net, p.t(rows, 3))

    @p.static
    def function(x: Any, bias: Any) -> Any:
        y = norm(x)
        return y + bias

    p.call(function, p.t(2, 3), p.t(3))
    p.call(function, p.t(2, 3), norm._mean)
    p.call(function, p.t(2, 3), norm._mean.reshape([1, 3]))


@program()
def states_of_layers_inside(p: Run) -> None:
    net, mean, late = (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1D(2)) for _ in range(3))
    here = SimpleNamespace(steps=0)

    @p.static
    def step(x: Any) -> Any:
        here.steps += 1
        with paddle.no_grad():
            net[0].weight.set_value(net[0].weight * 0.9 + 0.1)
            held = mean.state_dict()
            for name, value in net.state_dict().items():
                held[name].set_value(held[name] * 0.5 + value * 0.5)
            if here.steps % 2 == 0:
                late.set_state_dict(net.state_dict())
        return net(x).detach(), held["0.weight"] is mean[0].weight, list(held)

    p.watch(net, mean, late)
    for _ in range(3):
        p.call(step, p.t(4, 3))
    net[0].register_buffer("more", paddle.ones([2]))
    mean[0].register_buffer("more", paddle.ones([2]))
    late[0].register_buffer("more", paddle.zeros([2]), persistable=True)
    p.call(step, p.t(4, 3))
    net[0].register_buffer("more", paddle.ones([2]), persistable=False)
    p.call(step, p.t(4, 3))


@program(whole=False)
def states_that_do_not_fit_and_hooks_of_states(p: Run) -> None:
    net, late = nn.Linear(3, 2), nn.Linear(3, 2)

    @p.static
    def step(x: Any, scale: float) -> Any:
        with paddle.no_grad():
            state = {name: value * scale for name, value in net.state_dict().items() if scale < 2 or name == "weight"}
            missing = late.set_state_dict(state)
        return late(x), missing

    p.watch(net, late)
    for scale in (0.5, 1.5, 3.0):
        p.call(step, p.t(4, 3), scale)
    net.register_state_dict_hook(lambda state: state.pop("bias") and None)
    for scale in (0.5, 1.5):
        p.call(step, p.t(4, 3), scale)
