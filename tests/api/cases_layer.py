"""Layers as containers of parameters, buffers, sublayers and hooks."""

import warnings

from tests.api.table import cases, caught, check, normal

BASE = "paddle.nn.Layer"


def small_model(paddle):
    """A model with nesting, a shared layer, buffers of both kinds and a parameter of its own."""

    class Block(paddle.nn.Layer):
        def __init__(self, size):
            super().__init__()
            self.inner = paddle.nn.Linear(size, size)
            self.register_buffer("scale", paddle.full([1], 2.0))
            self.register_buffer("scratch", paddle.zeros([2]), persistable=False)

        def forward(self, x):
            return self.inner(x) * self.scale

    class Model(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first = Block(2)
            self.shared = paddle.nn.Linear(2, 2, bias_attr=False)
            self.again = self.shared
            self.list = paddle.nn.LayerList([paddle.nn.ReLU(), Block(2)])
            self.gain = self.create_parameter([2], default_initializer=paddle.nn.initializer.Constant(0.5))

        def forward(self, x, *, times=1):
            return self.list[1](self.first(x)) * self.gain * times

    return Model()


@check(
    f"{BASE}.parameters", f"{BASE}.named_parameters", f"{BASE}.buffers", f"{BASE}.named_buffers", f"{BASE}.children",
    f"{BASE}.named_children", f"{BASE}.sublayers", f"{BASE}.named_sublayers", BASE, f"{BASE}.full_name", f"{BASE}.add_sublayer",
    f"{BASE}.register_buffer",
)  # fmt: skip
def a_model_lists_its_parts_in_order(paddle, np, rng):
    model = small_model(paddle)
    kind = lambda layers: [type(v).__name__ for v in layers]
    named = lambda pairs: [(k, type(v).__name__) for k, v in pairs]
    seen = set()
    return {
        "parameters": [p.shape for p in model.parameters()],
        "own": [list(p.shape) for p in model.parameters(include_sublayers=False)],
        "named": [(k, p.name) for k, p in model.named_parameters()],
        "prefixed": [k for k, _ in model.named_parameters("a")],
        "named own": [k for k, _ in model.named_parameters(include_sublayers=False)],
        "with duplicates": [k for k, _ in model.named_parameters(remove_duplicate=False)],
        "buffers": list(model.buffers()),
        "own buffers": len(model.buffers(include_sublayers=False)),
        "named buffers": [k for k, _ in model.named_buffers()],
        "prefixed buffers": [k for k, _ in model.named_buffers(prefix="p", include_sublayers=False)],
        "children": kind(model.children()),
        "named children": named(model.named_children()),
        "sublayers": kind(model.sublayers()),
        "with self": kind(model.sublayers(include_self=True)),
        "named sublayers": named(model.named_sublayers()),
        "named with self": named(model.named_sublayers(prefix="m", include_self=True)),
        "excluded": named(model.named_sublayers(layers_set={model.shared})),
        "seen": [len(list(model.named_sublayers(layers_set=seen))), len(seen)],
        "full names": [model.full_name()] + [v.full_name() for v in model.sublayers()],
        "repr": repr(model),
        "dir": "gain" in dir(model) and "first" in dir(model) and "forward" in dir(model),
    }  # fmt: skip


@check(
    f"{BASE}.state_dict",
    f"{BASE}.to_static_state_dict",
    f"{BASE}.set_state_dict",
    f"{BASE}.set_dict",
    f"{BASE}.load_dict",
    traits=("float32",),
)
def state_dicts_give_and_take_values(paddle, np, rng):
    model = small_model(paddle)
    state = model.state_dict()
    found = {
        "type": type(state).__name__, "state": dict(state), "whole": dict(model.to_static_state_dict()),
        "prefix": list(model.state_dict(structured_name_prefix="net.")),
        "own": list(model.state_dict(include_sublayers=False)), "same": state["gain"] is model.gain,
    }  # fmt: skip
    into = {"old": 1}
    found["destination"] = [list(model.state_dict(into)), model.state_dict(into) is into]
    values = {k: rng.standard_normal(v.shape).astype("float32") for k, v in state.items()}
    found["set"] = model.set_state_dict(values)
    found["after"] = dict(model.state_dict())
    found["dict"] = model.set_dict({k: paddle.to_tensor(v * 2) for k, v in values.items()})
    found["after dict"] = dict(model.state_dict())
    by_name = {v.name: np.ones(v.shape, "float32") for v in model.parameters()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing, unexpected = model.load_dict(by_name, use_structured_name=False)
        found["by name"] = [len(missing), unexpected, dict(model.state_dict())]
        found["strange"] = model.set_state_dict({"gain": np.zeros(2, "float32"), "nothing": np.zeros(1, "float32")})
    return found


@check(f"{BASE}.set_state_dict")
def a_wrong_shape_is_skipped_with_a_warning(paddle, np, rng):
    model = paddle.nn.Linear(2, 3)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        found = model.set_state_dict({"weight": np.zeros((3, 3), "float32"), "bias": np.ones(3, "float32")})
    return {"found": found, "warned": len(caught_warnings) > 0, "state": dict(model.state_dict())}


@check(f"{BASE}.add_parameter", f"{BASE}.add_sublayer", f"{BASE}.create_parameter", BASE)
def parts_are_added_by_name(paddle, np, rng):
    layer = paddle.nn.Layer("demo_net")
    weight = layer.create_parameter([2, 3])
    bias = layer.create_parameter(shape=[3], is_bias=True, dtype="float64")
    found = {
        "names": [weight.name, bias.name], "values": [weight, bias], "returned": layer.add_parameter("w", weight) is weight,
        "before": list(layer.state_dict()),
        "attr": layer.create_parameter(
            [2], attr=paddle.ParamAttr(name="mine", initializer=paddle.nn.initializer.Constant(3.0), trainable=False)
        ),
        "default": layer.create_parameter([2], default_initializer=paddle.nn.initializer.Uniform(-1.0, 1.0)),
        "none": layer.create_parameter([2], attr=False) is None,
    }  # fmt: skip
    layer.b = bias
    line = paddle.nn.Linear(3, 2)
    found |= {
        "sub": layer.add_sublayer("line", line) is line,
        "state": dict(layer.state_dict()),
        "repr": repr(layer),
        "full": layer.full_name(),
    }
    found["errors"] = [
        caught(lambda: layer.add_parameter("w", 3)), caught(lambda: layer.add_parameter("a.b", weight)),
        caught(lambda: layer.add_parameter(1, weight)),
        caught(lambda: layer.add_parameter("line", weight)), caught(lambda: layer.add_sublayer("w", 3)),
        caught(lambda: layer.register_buffer("x.y", None)),
        caught(lambda: layer.register_buffer("", None)), caught(lambda: layer.register_buffer("w", paddle.ones([1]))),
        caught(lambda: layer.register_buffer("z", 3)),
        caught(lambda: layer.nothing), caught(lambda: layer.forward(1)),
    ]  # fmt: skip
    layer.w = None
    found["after none"] = list(layer.state_dict())
    del layer.line
    found["after del"] = list(layer.state_dict())
    return found


@check(BASE, f"{BASE}.register_buffer", f"{BASE}.create_tensor", f"{BASE}.create_variable")
def tensors_set_as_attributes_are_buffers(paddle, np, rng):
    layer = paddle.nn.Layer()
    layer.plain = paddle.ones([2])
    layer.register_buffer("kept", paddle.zeros([1]))
    layer.register_buffer("empty", None)
    layer.count = 3
    layer.made = layer.create_tensor("made", True, "int64")
    variable = layer.create_variable(dtype="float32")
    found = {
        "buffers": [k for k, _ in layer.named_buffers()],
        "state": list(layer.state_dict()),
        "whole": list(layer.to_static_state_dict()),
        "empty": layer.empty,
    }
    layer.plain = paddle.full([3], 5.0)
    layer.kept = None
    layer.empty = paddle.ones([1])
    found |= {
        "changed": layer.plain,
        "after": [k for k, _ in layer.named_buffers()],
        "dtypes": [layer.made.dtype, variable.dtype],
        "names": [layer.made.name],
    }
    return found


KEPT = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")


@check(
    f"{BASE}.state_dict", f"{BASE}.set_state_dict", f"{BASE}.set_dict", f"{BASE}.load_dict", f"{BASE}.buffers", f"{BASE}.named_buffers",
    f"{BASE}.register_buffer", f"{BASE}.parameters", f"{BASE}.named_parameters", f"{BASE}.add_parameter", f"{BASE}.create_parameter",
    f"{BASE}.to_static_state_dict", BASE, exact=True, traits=(*KEPT, "0-d", "empty", "one", "odd"),
)  # fmt: skip
def a_state_dict_carries_every_dtype_and_shape(paddle, np, rng):
    def made(draw):
        layer = paddle.nn.Layer()
        for dtype in KEPT:
            for shape in ([], [0, 3], [1], [3, 5]):
                layer.register_buffer(f"{dtype}_{len(shape)}_{sum(shape)}", paddle.to_tensor(draw(shape)).astype(dtype))
        for dtype in ("float32", "float64"):
            layer.add_parameter(dtype, layer.create_parameter([3, 1], dtype=dtype))
        return layer

    source = made(lambda shape: rng.standard_normal(shape) * 3)
    found = [
        [(k, list(v.shape), v.dtype) for k, v in source.named_buffers()],
        [(k, v.dtype) for k, v in source.named_parameters()],
        len(source.buffers()),
    ]
    state = {k: v.numpy() for k, v in source.state_dict().items()}
    for way in ("set_state_dict", "set_dict", "load_dict"):
        target = made(np.zeros)
        found += [getattr(target, way)(state), dict(target.state_dict()), target.parameters(), list(target.to_static_state_dict())]
    return found


@check(
    f"{BASE}.clear_gradients", f"{BASE}.forward", f"{BASE}.__call__", f"{BASE}.register_forward_pre_hook",
    f"{BASE}.register_forward_post_hook", traits=("float64", "odd", "empty", "strided", "gradient"),
)  # fmt: skip
def a_layer_runs_in_float64_with_hooks_at_any_shape(paddle, np, rng):
    paddle.set_default_dtype("float64")
    model = paddle.nn.Linear(3, 5)
    paddle.set_default_dtype("float32")
    model.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2,))
    model.register_forward_post_hook(lambda layer, inputs, output: output + 1)
    found = []
    for shape in ([0, 3], [1, 3], [7, 1, 3], [3]):
        x = paddle.to_tensor(rng.standard_normal(shape), stop_gradient=False)
        y = model(x)
        y.sum().backward()
        found += [y, model.forward(x), x.grad.numpy(), model.weight.grad.numpy()]
        model.clear_gradients()
    turned = paddle.to_tensor(rng.standard_normal([3, 5])).transpose([1, 0])
    return [*found, model(turned)]


@check(f"{BASE}.train", f"{BASE}.eval", f"{BASE}.apply")
def modes_reach_every_sublayer(paddle, np, rng):
    model = paddle.nn.Sequential(paddle.nn.Dropout(), paddle.nn.Sequential(paddle.nn.Dropout(0.2)))
    order = []
    found = {"start": model.training, "eval": model.eval() is model, "after": [v.training for v in model.sublayers(True)]}
    found |= {"train": model.train() is model, "again": [v.training for v in model.sublayers(True)]}
    found |= {"apply": model.apply(lambda v: order.append(type(v).__name__)) is model, "order": order}
    return found


@check(f"{BASE}.clear_gradients", traits=("float32", "gradient"))
def gradients_gather_until_they_are_cleared(paddle, np, rng):
    model = paddle.nn.Linear(3, 2)
    x = paddle.to_tensor(rng.standard_normal((4, 3)).astype("float32"))
    found = []
    for _ in range(2):
        model(x).sum().backward()
        found.append([p.grad.numpy() for p in model.parameters()])
    model.clear_gradients()
    found.append([p.grad is None or p.grad.numpy() for p in model.parameters()])
    model(x).sum().backward()
    model.clear_gradients(set_to_zero=False)
    return {"grads": found, "none": [p.grad is None for p in model.parameters()]}


@check(f"{BASE}.register_forward_pre_hook", f"{BASE}.register_forward_post_hook", f"{BASE}.__call__", f"{BASE}.forward",
       "paddle.nn.layer.layers.HookRemoveHelper", "paddle.nn.layer.layers.HookRemoveHelper.remove")  # fmt: skip
def hooks_run_before_and_after_forward(paddle, np, rng):
    model = paddle.nn.Linear(2, 2, weight_attr=paddle.nn.initializer.Constant(1.0))
    x = paddle.to_tensor(rng.standard_normal((1, 2)).astype("float32"))
    log = []
    pre = model.register_forward_pre_hook(lambda layer, inputs: log.append(("pre", type(inputs).__name__, len(inputs))))
    double = model.register_forward_pre_hook(lambda layer, inputs: inputs[0] * 2)
    post = model.register_forward_post_hook(lambda layer, inputs, output: log.append(("post", type(inputs).__name__, list(output.shape))))
    plus = model.register_forward_post_hook(lambda layer, inputs, output: output + 1)
    results = [model(x)]
    double.remove()
    results.append(model(x))
    plus.remove()
    pre.remove()
    post.remove()
    results.append(model(x))
    results.append(model.forward(x))
    return {"log": log, "results": results, "kind": type(pre).__name__}


@check(f"{BASE}.register_forward_pre_hook", f"{BASE}.register_forward_post_hook")
def hooks_may_go_first_and_see_keywords(paddle, np, rng):
    class Net(paddle.nn.Layer):
        def forward(self, x, factor=1.0):
            return x * factor

    net, x, log = Net(), paddle.ones([1]), []
    net.register_forward_pre_hook(lambda layer, inputs: log.append("second"))
    net.register_forward_pre_hook(lambda layer, inputs: log.append("first"), prepend=True)
    net.register_forward_pre_hook(lambda layer, inputs, keywords: (inputs, {"factor": 3.0}), with_kwargs=True)
    net.register_forward_post_hook(lambda layer, inputs, output: log.append("late"))
    net.register_forward_post_hook(lambda layer, inputs, keywords, output: log.append(sorted(keywords)), prepend=True, with_kwargs=True)
    return {"result": net(x, factor=2.0), "log": log}


@check(f"{BASE}.to", f"{BASE}.astype", f"{BASE}.float", f"{BASE}.bfloat16", traits=("float32", "float64", "bfloat16"))
def layers_are_cast(paddle, np, rng):
    found = []
    for cast in (
        lambda m: m.to(dtype="float64"), lambda m: m.to(device="cpu", dtype="float32"),
        lambda m: m.to(dtype="bfloat16"), lambda m: m.float(), lambda m: m.bfloat16(), lambda m: m.float([paddle.nn.Linear]),
    ):  # fmt: skip
        model = small_model(paddle)
        same = cast(model) is model
        found.append([same, [(k, str(v.dtype)) for k, v in model.state_dict().items()], model.first.scratch.dtype, repr(model.first.inner)])
    return [found, caught(lambda: small_model(paddle).astype("float99"))]


@check(f"{BASE}.extra_repr", BASE)
def layers_print_as_trees(paddle, np, rng):
    class Own(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.a = paddle.nn.Linear(1, 2)
            self.b = paddle.nn.Sequential(paddle.nn.GELU(), paddle.nn.Conv2D(1, 2, 3))

        def extra_repr(self):
            return "size=3"

    class Bare(paddle.nn.Layer):
        def extra_repr(self):
            return "one=1"

    return {"own": repr(Own()), "bare": repr(Bare()), "list": repr(paddle.nn.LayerList([Bare(), paddle.nn.ReLU()]))}  # fmt: skip


@check("paddle.nn.Sequential")
def a_sequence_is_a_list_and_a_function(paddle, np, rng):
    line = lambda i, o: paddle.nn.Linear(i, o)
    model = paddle.nn.Sequential(line(2, 3), paddle.nn.ReLU(), line(3, 1))
    named = paddle.nn.Sequential(("first", line(2, 3)), ("second", line(3, 2)))
    x = paddle.to_tensor(rng.standard_normal((4, 2)).astype("float32"))
    found = {
        "y": model(x), "named": named(x), "keys": [list(model.state_dict()), list(named.state_dict())], "len": len(model),
        "item": type(model[1]).__name__, "slice": repr(model[1:]), "last": repr(model[-1]), "iteration": [type(v).__name__ for v in model],
        "by name": repr(named["first"]),
    }  # fmt: skip
    model[1] = paddle.nn.Tanh()
    del model[2]
    found["changed"] = repr(model)
    found["ordered"] = repr(paddle.nn.Sequential(*[paddle.nn.ReLU(), paddle.nn.Tanh()]))
    return found


@check("paddle.nn.LayerList", "paddle.nn.ParameterList")
def lists_of_layers_and_parameters_behave_as_lists(paddle, np, rng):
    layers = paddle.nn.LayerList([paddle.nn.Linear(1, 2), paddle.nn.ReLU()])
    returned = [layers.append(paddle.nn.Tanh()) is layers, layers.extend([paddle.nn.GELU(), paddle.nn.ELU()]) is layers]
    layers.insert(1, paddle.nn.Sigmoid())
    found = {
        "returned": returned,
        "kinds": [type(v).__name__ for v in layers],
        "len": len(layers),
        "slice": repr(layers[1:3]),
        "last": repr(layers[-1]),
    }
    layers[0] = paddle.nn.Softmax()
    del layers[2]
    found["changed"] = repr(layers)
    found["keys"] = list(paddle.nn.LayerList([paddle.nn.Linear(1, 1), paddle.nn.Linear(1, 1)]).state_dict())
    make = lambda n: paddle.create_parameter([n], "float32", default_initializer=paddle.nn.initializer.Constant(float(n)))
    parameters = paddle.nn.ParameterList([make(1), make(2)])
    found["appended"] = parameters.append(make(3)) is parameters
    parameters[0] = make(4)
    found |= {"values": list(parameters), "state": list(parameters.state_dict()), "count": len(parameters), "second": parameters[1]}
    return found


@cases(BASE)
def _(c):
    c.layer()()
    c.layer("own")()
    c.layer(dtype="float64")()


@check(BASE)
def wrong_uses_of_layers_are_refused(paddle, np, rng):
    class Forgets(paddle.nn.Layer):
        def __init__(self):
            self.a = paddle.nn.Linear(1, 1)

    return [
        caught(Forgets),
        caught(lambda: paddle.nn.Linear(2, 3)(paddle.ones([2, 4]))),
        caught(lambda: paddle.nn.LayerList([1])),
        caught(lambda: paddle.nn.Sequential(3)),
    ]


@cases("paddle.nn.Layer.forward", "paddle.nn.Layer.__call__")
def _(c):
    c.expr("paddle.nn.Linear(3, 2)(x)", x=normal(2, 3))
    c.expr("paddle.nn.Linear(3, 2).forward(x)", x=normal(0, 3))


@check(f"{BASE}.float16")
def float16_is_not_computed_on_a_cpu(paddle, np, rng):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = paddle.nn.Linear(2, 2)
        same = model.float16() is model
    return [same, len(said) > 0, model.weight.dtype]


@check(f"{BASE}.create_parameter", BASE, traits=("float32", "float64", "float16"))
def a_new_parameter_has_the_default_dtype(paddle, np, rng):
    found = []
    for default in ("float32", "float64", "float16"):
        paddle.set_default_dtype(default)
        layers = [
            paddle.nn.Layer(),
            paddle.nn.Layer(dtype="float64"),
            paddle.nn.Embedding(3, 2),
            paddle.nn.InstanceNorm2D(3),
            paddle.nn.BatchNorm2D(3),
        ]
        found.append([[layer.create_parameter([2]).dtype, layer.create_parameter([2], dtype="float64").dtype] for layer in layers])
        found.append([[value.dtype for value in layer.state_dict().values()] for layer in layers])
    paddle.set_default_dtype("float32")
    return found
