"""What programs of `fluid.dygraph` rely on and Paddle 2 does otherwise: gradients, parts of tensors, Layers that are built late."""

from tests.fluid_api.table import caught, check

F = "paddle.fluid."
D = F + "dygraph."


def numbers(np, *shape):
    """The same numbers each time, in [-1, 1)."""
    return np.random.RandomState(len(shape)).uniform(-1, 1, shape).astype("float32")


def filled(np, parameters):
    for i, p in enumerate(parameters):
        p.set_value(np.random.RandomState(i).uniform(-0.3, 0.3, list(p.shape)).astype("float32"))
    return parameters


@check(D + "guard")
def each_backward_replaces_the_gradients(fluid, np):
    d, found = fluid.dygraph, []
    with d.guard():
        layer, x = d.Linear(3, 2), d.to_variable(numbers(np, 2, 3))
        other = d.Linear(3, 2)
        filled(np, layer.parameters() + other.parameters())
        x.stop_gradient = False
        for i in range(3):
            fluid.layers.reduce_sum(layer(x) * (i + 1.0)).backward()
            found.append([layer.weight.gradient(), x.gradient()])
        (fluid.layers.reduce_sum(layer(x)) + fluid.layers.reduce_sum(layer(x * 2.0))).backward()
        found.append([layer.weight.gradient(), x.gradient()])
        fluid.layers.reduce_sum(other(x)).backward()  # which does not reach the first Layer
        found.append([layer.weight.gradient(), other.weight.gradient()])
    return found


@check(F + "optimizer.Adam")
def steps_without_clear_gradients_use_the_last_gradient(fluid, np):
    d, found = fluid.dygraph, []
    with d.guard():
        layer = d.Linear(3, 2)
        filled(np, layer.parameters())
        adam = fluid.optimizer.Adam(0.1, parameter_list=layer.parameters())
        for i in range(4):
            loss = fluid.layers.reduce_mean(fluid.layers.square(layer(d.to_variable(numbers(np, i + 1, 3)))))
            loss.backward()
            if i % 2:
                adam.minimize(loss)
            found.append(layer.weight.numpy())
    return found


@check(D + "to_variable")
def tensors_on_the_way_have_gradients(fluid, np):
    d = fluid.dygraph
    with d.guard():
        x = d.to_variable(numbers(np, 2, 3))
        x.stop_gradient = False
        y = x * 2.0
        z = fluid.layers.tanh(y)
        a, b = fluid.layers.split(z, [1, 2], dim=1)
        loss = fluid.layers.reduce_sum(a * a) + fluid.layers.reduce_sum(b)
        before = y.gradient()
        loss.backward()
        found = [before, *[v.gradient() for v in (loss, a, b, z, y, x)]]
        again = fluid.layers.reduce_sum(x * x)
        again.backward()
        found += [y.gradient(), x.gradient()]
        smooth = fluid.layers.label_smooth(x, epsilon=0.2)
        fluid.layers.reduce_sum(smooth * x).backward()
        return [*found, x.stop_gradient, x.gradient()]


@check(D + "guard")
def a_part_of_one_element_has_an_axis(fluid, np):
    d = fluid.dygraph
    with d.guard():
        x, row = d.to_variable(numbers(np, 2, 3)), d.to_variable(numbers(np, 3))
        x.stop_gradient = False
        joined = fluid.layers.concat([x[0, 1], x[1][2], row[-1]], axis=0)
        fluid.layers.reduce_sum(joined * joined).backward()
        found = [x[0, 1].numpy(), row[0].numpy(), row[1:2].numpy(), x[1].numpy(), joined.numpy(), x.gradient()]
        return found + [fluid.layers.cond(row[0] > 10.0, lambda: row, lambda: row * 2.0).numpy()]


@check(D + "Layer", F + "Linear", F + "Conv2D", F + "Embedding", F + "BatchNorm", F + "Layer")
def layers_may_be_built_when_they_are_called(fluid, np):
    d = fluid.dygraph

    class Late(fluid.Layer):
        def __init__(self, name, size):
            super().__init__(name)
            self._size = size

        def _build_once(self, x, scale=1.0):
            attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
            self.w = self.create_parameter(attr=attr, shape=[x.shape[1], self._size], dtype="float32")

        def forward(self, x, scale=1.0):
            return fluid.layers.mul(x, self.w) * scale

    with d.guard():
        late, x = Late("late", 3), d.to_variable(numbers(np, 2, 4))
        found = [len(late.parameters()), late(x, scale=2.0).numpy(), late(x).numpy(), [p.name for p in late.parameters()]]
        same = [getattr(fluid, n) is getattr(d, n) for n in ("Linear", "Conv2D", "Embedding", "BatchNorm", "Layer")]
        deep = d.Sequential(d.Linear(2, 2), d.Sequential(d.Linear(2, 2)))
        inside = [len(deep.sublayers()), len(deep.sublayers(include_sublayers=False))]
        inside += [n for n, _ in deep.named_sublayers(include_self=True)]
        return found + [same, inside, isinstance(deep, fluid.Layer), isinstance(d.LayerList([]), d.Layer)]


@check(D + "Layer")
def states_that_do_not_fit_are_refused(fluid, np):
    d = fluid.dygraph
    with d.guard():
        layer = d.Linear(2, 3)
        whole = {"weight": numbers(np, 2, 3), "bias": numbers(np, 3)}
        wrong = [{"weight": whole["weight"]}, dict(whole, weight=numbers(np, 3, 3)), dict(whole, bias=np.zeros(3, "int64"))]
        found = [caught(lambda state=state: layer.set_dict(state), "need tensor with") for state in wrong]
        layer.set_dict(whole)
        other = d.Linear(2, 3)
        other.load_dict({p.name: layer.state_dict()[k] for k, p in other.state_dict().items()}, use_structured_name=False)
        return found + [layer.weight.numpy(), other.bias.numpy()]


@check(F + "optimizer.Momentum")
def parameters_are_frozen_in_between(fluid, np):
    d, found = fluid.dygraph, []
    for freeze in ({"trainable": False}, {"stop_gradient": True}):
        for clears in (True, False):
            with d.guard():
                layer = d.Linear(3, 2)
                filled(np, layer.parameters())
                momentum = fluid.optimizer.Momentum(0.1, 0.9, parameter_list=layer.parameters())
                for i in range(4):
                    loss = fluid.layers.reduce_sum(layer(d.to_variable(numbers(np, i + 1, 3))))
                    loss.backward()
                    momentum.minimize(loss)
                    if clears:
                        layer.clear_gradients()
                    if i == 1:
                        for name, value in freeze.items():
                            setattr(layer.bias, name, value)
                found.append([p.numpy() for p in layer.parameters()])
    return found


@check(D + "BatchNorm")
def statistics_move_in_evaluation_too_if_asked(fluid, np):
    d, found = fluid.dygraph, []
    with d.guard():
        norm, x = d.BatchNorm(3, trainable_statistics=True), d.to_variable(numbers(np, 4, 3))
        for mode in ("train", "eval", "eval"):
            getattr(norm, mode)()
            found.append([norm(x).numpy(), norm._mean.numpy(), norm._variance.numpy()])
    return found


@check(D + "NCE", F + "NCE")
def sampled_losses_are_of_this_form(fluid, np):
    d = fluid.dygraph
    with d.guard():
        found = []
        for more in ({}, {"bias_attr": fluid.ParamAttr()}, {"sampler": "log_uniform"}, {"num_neg_samples": 3, "seed": 5}):
            layer = d.NCE(20, 6, **more)
            x, label = d.to_variable(numbers(np, 4, 6)), d.to_variable(np.array([[1], [2], [3], [19]], "int64"))
            x.stop_gradient = False
            loss = layer(x, label)
            fluid.layers.mean(loss).backward()
            shapes = [list(p.shape) for p in layer.parameters()]
            found.append([list(loss.shape), shapes, [p.name for p in layer.parameters()], x.gradient().shape])
        # With one class that is drawn for sure nothing is left to chance.
        layer = d.NCE(2, 3, num_neg_samples=4, sampler="custom_dist", custom_dist=[0.0, 1.0])
        layer.weight.set_value(numbers(np, 2, 3))
        x = d.to_variable(numbers(np, 2, 3))
        x.stop_gradient = False
        loss = layer(x, d.to_variable(np.array([[1], [1]], "int64")))
        fluid.layers.mean(loss).backward()
        return found + [loss.numpy(), x.gradient(), layer.weight.gradient()]


def choose(x):
    if fluid.layers.mean(x) > 0:  # noqa: F821
        y = x + 1.0
    else:
        y = x - 1.0
    return y


@check(D + "ProgramTranslator")
def functions_are_compiled_or_run_as_they_are(fluid, np):
    d = fluid.dygraph
    globals()["fluid"] = fluid  # Paddle's translator sees what is global
    with d.guard():
        translator, compiled = d.ProgramTranslator(), d.declarative(choose)
        inputs = [d.to_variable(numbers(np, 2, 2) + offset) for offset in (2.0, -2.0)]
        found = [[compiled(x).numpy() for x in inputs], [translator.get_output(choose, x).numpy() for x in inputs]]
        translator.enable(False)
        found.append([compiled(x).numpy() for x in inputs])
        translator.enable(True)
        return found + [translator is d.ProgramTranslator(), isinstance(translator.get_code(choose), str)]


@check(F + "optimizer.SGD", D + "ReduceLROnPlateau", D + "PiecewiseDecay")
def the_rate_of_the_last_step_is_a_tensor(fluid, np):
    d, found = fluid.dygraph, []
    with d.guard():
        for rate in (0.5, d.PiecewiseDecay([1, 2], [0.4, 0.2, 0.1], 0), d.ReduceLROnPlateau(0.3)):
            layer = d.Linear(2, 2)
            sgd = fluid.optimizer.SGD(rate, parameter_list=layer.parameters())
            for _ in range(2):
                loss = fluid.layers.mean(layer(d.to_variable(numbers(np, 3, 2))))
                loss.backward()
                sgd.minimize(loss)
            found.append([sgd._global_learning_rate().numpy(), sorted(k for k in sgd.state_dict() if "@@" not in k)])
    return found


@check(F + "io.DataLoader.from_generator", F + "io.PyReader")
def loaders_give_tensors(fluid, np):
    d, found = fluid.dygraph, []

    def samples():
        for i in range(5):
            yield numbers(np, i + 1, 4)[0], np.array([i % 3]), i * 0.5

    def batches():
        for start in (0, 2):
            yield [s for i, s in enumerate(samples()) if start <= i < start + 2]

    with d.guard():
        loaders = [fluid.io.DataLoader.from_generator(capacity=4, return_list=True), fluid.io.DataLoader.from_generator(capacity=2)]
        loaders += [fluid.io.DataLoader.from_generator(capacity=4, return_list=True) for _ in range(2)]
        loaders[0].set_sample_list_generator(batches, places=fluid.CPUPlace())
        loaders[1].set_batch_generator(lambda: iter([[numbers(np, 2, 2), np.array([1])], [numbers(np, 1, 2), np.array([2])]]))
        loaders[2].set_sample_generator(samples, batch_size=2)
        loaders[3].set_sample_generator(samples, batch_size=2, drop_last=False)
        reader = fluid.io.PyReader(capacity=2)
        reader.decorate_sample_list_generator(batches)
        for loader in [*loaders, loaders[0], reader]:
            found.append([[[v.numpy(), list(v.shape), v.stop_gradient] for v in batch] for batch in loader()])
        return found
