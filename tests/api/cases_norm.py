"""Normalisation: functions, layers, what running statistics become, weights reparametrised."""

from tests.api.table import FLOATS, cases, caught, check, normal, of, uniform

F = "paddle.nn.functional"
NN = "paddle.nn"


def statistics(channels, dtype="float32"):
    return normal(channels, dtype=dtype).fixed(), uniform(channels, low=0.3, high=2.0, dtype=dtype).fixed()


@cases(f"{F}.batch_norm")
def _(c):
    for dtype in FLOATS:
        for shape in [(4, 3), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 3)]:
            c(
                normal(*shape, dtype=dtype),
                *statistics(3, dtype),
                normal(3, dtype=dtype),
                normal(3, dtype=dtype),
                training=True,
                _forms=False,
                _rtol=2e-5,
                _atol=2e-6,
            )
            c(normal(*shape, dtype=dtype), *statistics(3, dtype), normal(3, dtype=dtype), normal(3, dtype=dtype))
    x, w = normal(4, 3, 5), normal(3)
    c(x, *statistics(3))
    c(x, *statistics(3), w)
    c(x, *statistics(3), None, w)
    c(x, *statistics(3), training=True)
    c(x, *statistics(3), None, w, True)
    for use in (True, False, None):
        c(x, *statistics(3), w, w, training=True, use_global_stats=use)
    for layout, shape in [
        ("NHWC", (2, 4, 5, 3)),
        ("NLC", (2, 5, 3)),
        ("NDHWC", (2, 1, 3, 2, 3)),
        ("NC", (5, 3)),
        ("NCL", (2, 3, 4)),
        ("NCDHW", (2, 3, 4, 1, 2)),
        ("NLC", (4, 3)),
    ]:
        c(normal(*shape), *statistics(3), w, w, training=True, data_format=layout)
        c(normal(*shape), *statistics(3), w, w, data_format=layout)
    c(normal(5, 3).strided(), *statistics(3), w, w, training=True)
    c(normal(0, 3, 4), *statistics(3), w, w, training=True, _no_grad=True)
    c(normal(0, 3, 4), *statistics(3), w, w, _no_grad=True)
    c(normal(1, 3), *statistics(3), training=True)
    c(normal(1, 1, 7), *statistics(1), normal(1), normal(1), training=True)
    c(x, *statistics(3), w, w, True, 0.5, 1e-2)
    for dtype in ("float16", "bfloat16", "int32"):
        c(normal(4, 3, dtype=dtype), *statistics(3), w, w, training=True)
    c(normal(4), *statistics(4), _raises=True)
    c(normal(1, 3, 1, 1, 1, 2), *statistics(3), _raises=True)
    c(x, *statistics(3), data_format="NWHC", _raises=True)
    c(x, *statistics(3), data_format="CN", _raises=True)


@check(f"{F}.batch_norm", traits=("float64", "gradient"))
def the_gradient_by_the_batch_has_a_gradient(paddle, np, rng):
    found = {}
    for shape in [(5, 3), (2, 3, 4), (2, 3, 2, 3)]:
        draw = lambda *sizes: paddle.to_tensor(rng.standard_normal(sizes))
        x, weight, bias, seed, again = draw(*shape), draw(3), draw(3), draw(*shape), draw(*shape)
        for t in (x, weight, bias, seed):
            t.stop_gradient = False
        y = paddle.nn.functional.batch_norm(x, paddle.zeros([3], "float64"), paddle.ones([3], "float64"), weight, bias, training=True)
        (first,) = paddle.grad([y], [x], [seed], create_graph=True)
        found[f"gradient {shape}"] = [first.detach(), *paddle.grad([first], [x, weight, seed], [again])]
    return found


@check(f"{F}.batch_norm", traits=("float32",))
def running_statistics_move_by_the_momentum(paddle, np, rng):
    x = paddle.to_tensor((rng.standard_normal((6, 3, 2)) * 3 + 1).astype("float32"))
    found = {}
    for momentum, training, use in [
        (0.9, True, None),
        (0.5, True, None),
        (0.0, True, None),
        (1.0, True, None),
        (0.9, False, None),
        (0.9, True, True),
        (0.9, False, False),
    ]:
        mean, variance = paddle.to_tensor([1.0, 2.0, -3.0]), paddle.to_tensor([0.5, 1.0, 2.0])
        for _ in range(3):
            paddle.nn.functional.batch_norm(x, mean, variance, training=training, momentum=momentum, use_global_stats=use)
        found[f"{momentum} {training} {use}"] = [mean, variance, mean.stop_gradient]
    return found


@check(f"{F}.batch_norm", traits=("float32",))
def what_has_one_element_per_channel_or_none_moves_nothing(paddle, np, rng):
    found = {}
    for shape in [(1, 3), (1, 3, 1), (0, 3), (2, 3, 0)]:
        mean, variance = paddle.to_tensor([1.0, 2.0, -3.0]), paddle.to_tensor([0.5, 1.0, 2.0])
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
        y = paddle.nn.functional.batch_norm(x, mean, variance, training=True)
        found[str(shape)] = [list(y.shape), mean, variance]
    return found


@cases(f"{F}.layer_norm")
def _(c):
    for dtype in FLOATS:
        c(normal(4, 5, dtype=dtype), 5, normal(5, dtype=dtype), normal(5, dtype=dtype), _forms=False)
        c(normal(2, 3, 4, dtype=dtype), [3, 4], normal(12, dtype=dtype), normal(12, dtype=dtype))
        c(normal(2, 3, 4, dtype=dtype), (3, 4))
    c(normal(2, 3, 4), [4], normal(4))
    c(normal(2, 3, 4), [4], None, normal(4), 1e-3)
    c(normal(6, 7).strided(), 7, normal(7), normal(7))
    c(normal(4, 1), 1, normal(1), normal(1))
    c(normal(0, 3), 3, normal(3), normal(3), _no_grad=True)
    c(normal(3, 0), 0, _no_grad=True)
    c.expr("F.layer_norm(input=x, normalized_shape=3, eps=1e-4)", x=normal(2, 3))
    for dtype in ("float16", "bfloat16", "int32"):
        c(normal(4, 3, dtype=dtype), 3)
    c(normal(4, 3), 4, _raises=True)
    c(normal(4, 3), [5, 4, 3], _raises=True)
    c(normal(4, 3), [], _raises=True)
    c(normal(4, 3), "3", _raises=True)
    c(normal(4, 3), 3, normal(4), _raises=True)
    c(normal(4, 3), [4, 3], normal(4, 3), _raises=True)
    c(normal(4, 3), 3, epsilon=0.1, _raises=True)
    c(normal(4, 3), 3, epsilon=-1e-5, _raises=True)


@cases(f"{F}.group_norm")
def _(c):
    for dtype in FLOATS:
        for shape in [(4, 6), (2, 6, 5), (2, 6, 3, 2), (1, 6, 2, 1, 3)]:
            c(normal(*shape, dtype=dtype), 3, weight=normal(6, dtype=dtype), bias=normal(6, dtype=dtype), _forms=False, _atol=2e-5)
    for groups in (1, 2, 6):
        c(normal(2, 6, 5), groups)
    c(normal(2, 6, 5), 2, 1e-2, normal(6))
    c(normal(2, 6, 5), 2, bias=normal(6))
    c(normal(2, 6, 5), 2, normal(6), normal(6), 1e-3)
    c.expr("F.group_norm(input=x, num_groups=2, eps=0.1)", x=normal(2, 4, 3))
    for layout, shape in [("NLC", (2, 5, 6)), ("NHWC", (2, 3, 2, 6)), ("NDHWC", (2, 1, 2, 3, 6)), ("NCDHW", (2, 6, 2, 1, 3))]:
        c(normal(*shape), 2, weight=normal(6), bias=normal(6), data_format=layout)
    c(normal(2, 6, 5).strided(), 2)
    c(normal(0, 6, 5), 2, _no_grad=True)
    c(normal(2, 6, 0), 2, _no_grad=True)
    for dtype in ("float16", "bfloat16", "int32"):
        c(normal(4, 6, dtype=dtype), 3)
    c(normal(2, 6, 5), 4, _raises=True)
    c(normal(2, 6, 5), 0, _raises=True)
    c(normal(2, 6, 5), 7, _raises=True)
    c(normal(6), 2, _raises=True)
    c(normal(2, 6, 5), 2, weight=normal(3), _raises=True)
    c(normal(2, 6, 5), 2, data_format="NC", _raises=True)
    c.expr("F.group_norm(x)", x=normal(2, 4), _raises=True)


@cases(f"{F}.instance_norm")
def _(c):
    for dtype in FLOATS:
        for shape in [(4, 3), (2, 3, 5), (2, 3, 4, 2), (2, 3, 2, 1, 3)]:
            c(normal(*shape, dtype=dtype), weight=normal(3, dtype=dtype), bias=normal(3, dtype=dtype), _forms=False, _atol=1e-5)
    c(normal(2, 3, 5))
    c(normal(2, 3, 5), weight=normal(3))
    c(normal(2, 3, 5), bias=normal(3))
    c(normal(2, 3, 5), eps=0.5)
    c(normal(2, 3, 7, dtype="float64"), weight=normal(3, dtype="float64").fixed(), bias=normal(3, dtype="float64").fixed(), _second=True)
    c(normal(2, 5, 3).strided())
    c(normal(0, 3, 5), _no_grad=True)
    c(normal(2, 3, 0), _no_grad=True)
    for dtype in ("float16", "bfloat16", "int32"):
        c(normal(4, 3, 2, dtype=dtype))
    c(normal(4), _raises=True)
    c(normal(2, 3, 5), weight=normal(4), bias=normal(4), _raises=True)


@cases(f"{F}.local_response_norm")
def _(c):
    for dtype in FLOATS:
        for size in (1, 2, 3, 5, 9):
            c(normal(2, 5, 3, dtype=dtype), size, _forms=False)
    c(normal(2, 5, 3), 3, 0.5, 0.6, 2.0, _second=True, _rtol=1e-4)
    for layout, shape in [
        ("NCHW", (2, 4, 3, 2)),
        ("NHWC", (2, 3, 2, 4)),
        ("NLC", (2, 3, 5)),
        ("NCDHW", (1, 4, 2, 3, 2)),
        ("NDHWC", (2, 3, 2, 1, 4)),
    ]:
        c(normal(*shape), 3, alpha=0.1, data_format=layout)
    c(normal(0, 5, 3), 3, _no_grad=True)
    c(normal(2, 5, 3).strided(), 2)
    c(normal(2, 5), 3, _raises=True)
    c(normal(2, 0, 3), 3, _raises=True)
    c(normal(2, 5, 3), 3, data_format="NC", _raises=True)
    c(normal(2, 5, 3), 0, _raises=True)


NONE = {"weight_attr": False, "bias_attr": False}
CONSTANT = {
    "weight_attr": of("paddle.nn.initializer.Constant(0.5)"),
    "bias_attr": of("paddle.ParamAttr(name='mine', initializer=paddle.nn.initializer.Constant(2.0))"),
}


@cases(f"{NN}.BatchNorm1D")
def _(c):
    c.layer(3)(normal(5, 3))
    c.layer(3, data_format="NLC")(normal(2, 5, 3))
    c.layer(3, 0.5, 1e-3, **CONSTANT)(normal(2, 3, 5))
    c.layer(3, **NONE)(normal(2, 3, 5))
    c.layer(3, weight_attr=False)(normal(2, 3, 5))
    c.layer(3, use_global_stats=True, name="named")(normal(2, 3, 5))
    c.layer(3, _default="float64")(normal(5, 3, dtype="float64").strided())
    c.layer(1)(normal(1, 1, 7))
    c.layer(3)(normal(4, 3, 1))
    c.layer(3)(normal(2, 3, 5, 2), _raises=True)
    c.layer(3, data_format="NCDHW")(normal(2, 3, 5), _raises=True)


@cases(f"{NN}.BatchNorm2D")
def _(c):
    c.layer(3)(normal(2, 3, 4, 5))
    c.layer(3, data_format="NHWC", momentum=0.7)(normal(2, 4, 5, 3))
    c.layer(3, **NONE)(normal(2, 3, 4, 5))
    c.layer(3, use_global_stats=False, bias_attr=False)(normal(2, 3, 4, 1))
    c.layer(3, _default="float64")(normal(2, 3, 1, 5, dtype="float64").strided())
    c.layer(3)(normal(2, 3, 4), _raises=True)
    c.layer(3, data_format="NCL")(normal(2, 3, 4, 5), _raises=True)


@cases(f"{NN}.BatchNorm3D")
def _(c):
    c.layer(3)(normal(2, 3, 2, 3, 2))
    c.layer(3, data_format="NDHWC", **CONSTANT)(normal(2, 2, 1, 2, 3))
    c.layer(3, _default="float64")(normal(3, 3, 1, 3, 2, dtype="float64").strided())
    c.layer(3)(normal(2, 3, 4), _raises=True)


@cases(f"{NN}.BatchNorm")
def _(c):
    c.layer(3)(normal(2, 3, 4, 5))
    c.layer(3, act="relu", data_layout="NHWC")(normal(2, 4, 3))
    c.layer(3, is_test=True, momentum=0.5, epsilon=1e-3)(normal(4, 3))
    c.layer(3, param_attr=False, bias_attr=False, use_global_stats=True)(normal(4, 3))
    c.layer(3, moving_mean_name="m", moving_variance_name="v", dtype="float64")(normal(4, 3, dtype="float64"))
    c.layer(3, trainable_statistics=True)(normal(4, 3))
    c.layer(3, act="tanh", in_place=True, do_model_average_for_mean_and_var=False)(normal(4, 3, 2))
    c.layer(1)(normal(3, 1, 5, 1).strided())


@cases(f"{NN}.SyncBatchNorm")
def _(c):
    c.layer(3)()
    c.layer(3, **NONE)()
    c.layer(3, 0.5, 1e-3, data_format="NHWC", name="named", **CONSTANT)()


@cases(f"{NN}.LayerNorm")
def _(c):
    c.layer(5)(normal(4, 5))
    c.layer([3, 5], 1e-4)(normal(2, 3, 5))
    c.layer((5,), elementwise_affine=False)(normal(4, 5))
    c.layer(5, bias=False)(normal(4, 5))
    c.layer(5, eps=1e-3, **CONSTANT)(normal(4, 5))
    c.layer(5, **NONE)(normal(2, 2, 5))
    c.layer(5, dtype="float64")(normal(4, 5, dtype="float64"))
    c.layer(5)(normal(4, 4), _raises=True)


@cases(f"{NN}.GroupNorm")
def _(c):
    c.layer(2, 4)(normal(2, 4, 3))
    c.layer(4, 4, 1e-2, data_format="NHWC")(normal(2, 3, 2, 4))
    c.layer(1, 4, affine=False)(normal(2, 4, 3))
    c.layer(2, 4, eps=1e-3, **CONSTANT)(normal(2, 4))
    c.layer(2, 4, weight_attr=False)(normal(2, 4, 3))
    c.layer(2, 4, weight_attr=of("paddle.ParamAttr(learning_rate=0.0)"))(normal(2, 4, 3))
    c.layer(2, 4, _default="float64")(normal(3, 4, 1, 5, dtype="float64").strided())
    c.layer(4, 4)(normal(1, 4, 1, 3))
    c.layer(3, 4)(normal(2, 4, 3), _raises=True)
    c.layer(2, 4, data_format="NC")(_raises=True)


@cases(f"{NN}.InstanceNorm1D")
def _(c):
    c.layer(3)(normal(2, 3, 5), _atol=1e-5)
    c.layer(3, **CONSTANT)(normal(4, 3), _atol=1e-5)
    c.layer(3, _default="float64")(normal(2, 3, 5, dtype="float64").strided())
    c.layer(1)(normal(1, 1, 7), _atol=1e-5)
    c.layer(3)(normal(2, 3, 5, 2), _raises=True)


@cases(f"{NN}.InstanceNorm2D")
def _(c):
    c.layer(3, 1e-3)(normal(2, 3, 5, 4), _atol=1e-5)
    c.layer(3, **NONE)(normal(2, 3, 5, 4), _atol=1e-5)
    c.layer(3, _default="float64")(normal(1, 3, 5, 3, dtype="float64").strided())
    c.layer(3, weight_attr=False)(_raises=True)
    c.layer(3)(normal(2, 3, 5), _raises=True)


@cases(f"{NN}.InstanceNorm3D")
def _(c):
    c.layer(3)(normal(2, 3, 2, 3, 2), _atol=1e-5)
    c.layer(3, _default="float64")(normal(1, 3, 5, 3, 2, dtype="float64").strided())
    c.layer(3)(normal(2, 3, 2), _raises=True)


@cases(f"{NN}.LocalResponseNorm")
def _(c):
    c.layer(3)(normal(2, 4, 3, 2))
    c.layer(2, 0.1, 0.5, 2.0, "NHWC", "named")(normal(2, 3, 2, 4))
    c.layer(3)(normal(1, 5, 1, 3, dtype="float64").strided())
    c.layer(5)(normal(2, 3, 7))


@cases(f"{NN}.SpectralNorm")
def _(c):
    c.layer([3, 4])(normal(3, 4))
    c.layer([3, 4, 2], dim=1, power_iters=3, eps=1e-6)(normal(3, 4, 2))
    c.layer([3, 4], power_iters=0, dtype="float64")(normal(3, 4, dtype="float64"))
    c.layer([1, 5])(normal(1, 5))
    c.layer([5, 3])(normal(5, 3).strided())
    c.layer([3, 0])(_raises=True)
    c.layer([3, 4], dim=2)(_raises=True)
    c.layer([3, 4])(normal(4, 3), _raises=True)
    c.layer([3])(normal(3), _raises=True)


@check(f"{NN}.BatchNorm2D", f"{NN}.LayerNorm", f"{NN}.GroupNorm", traits=("float32", "gradient"))
def a_small_net_trains_to_the_same_statistics(paddle, np, rng):
    net = paddle.nn.Sequential(
        paddle.nn.Conv2D(2, 4, 3), paddle.nn.BatchNorm2D(4), paddle.nn.ReLU(), paddle.nn.GroupNorm(2, 4), paddle.nn.Flatten(),
        paddle.nn.Linear(36, 6),
        paddle.nn.LayerNorm(6), paddle.nn.Linear(6, 1),
    )  # fmt: skip
    optimizer = paddle.optimizer.SGD(0.05, parameters=net.parameters())
    found = []
    for _ in range(6):
        x = paddle.to_tensor((rng.standard_normal((4, 2, 5, 5)) * 2 + 1).astype("float32"))
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append([loss, net[1]._mean.clone(), net[1]._variance.clone()])
    net.eval()
    return {"steps": found, "evaluation": net(paddle.ones([1, 2, 5, 5])), "state": dict(net.state_dict())}


@check(f"{NN}.SyncBatchNorm")
def batch_norms_become_synchronous_ones(paddle, np, rng):
    net = paddle.nn.Sequential(paddle.nn.Conv2D(2, 3, 3), paddle.nn.Sequential(paddle.nn.BatchNorm2D(3), paddle.nn.BatchNorm1D(4, **NONE)))
    made = paddle.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    inner = paddle.nn.BatchNorm3D(2, weight_attr=paddle.ParamAttr(name="own"))
    other = paddle.nn.SyncBatchNorm.convert_sync_batchnorm(inner)
    return {
        "same": made is net, "repr": repr(made), "state": {k: (v.name, v) for k, v in made.state_dict().items()}, "other": repr(other),
        "shared": other._mean is inner._mean and other.weight is inner.weight, "names": [p.name for p in other.parameters()],
    }  # fmt: skip


@check(f"{NN}.BatchNorm1D")
def the_format_prints_as_that_of_images_after_a_call(paddle, np, rng):
    norm = paddle.nn.BatchNorm1D(3, data_format="NLC")
    before = repr(norm)
    norm(paddle.ones([2, 4, 3]))
    return [before, repr(norm), caught(lambda: norm(paddle.ones([2, 3, 4, 1])))]


# --- weights made of other parameters


def used(paddle, np, rng, layer, x):
    """Output, gradients of all parameters, state, names and printing."""
    y = layer(x)
    parameters = layer.parameters()
    grads = paddle.grad([y], parameters, [paddle.to_tensor(rng.standard_normal(tuple(y.shape)).astype("float32"))], allow_unused=True)
    state = {k: v.detach().clone() for k, v in layer.state_dict().items()}
    return {
        "result": y,
        "grad": list(grads),
        "state": state,
        "names": [(k, p.name) for k, p in layer.named_parameters()],
        "repr": repr(layer),
    }


@check(f"{NN}.utils.weight_norm", f"{NN}.utils.remove_weight_norm", traits=("float32", "gradient"))
def weights_by_length_and_direction(paddle, np, rng):
    found = {}
    for dim in (0, 1, 2, 3, -2, None):
        layer = paddle.nn.Conv2D(3, 4, 2)
        x = paddle.to_tensor(rng.standard_normal((2, 3, 4, 4)).astype("float32"))
        before = layer(x)
        same = paddle.nn.utils.weight_norm(layer, dim=dim) is layer
        found[str(dim)] = [same, before, used(paddle, np, rng, layer, x), list(layer.weight_g.shape)]
        if dim == 2:
            layer.weight_g.set_value(np.array([2.0, 0.5], "float32"))
            found["changed"] = layer(x)
        paddle.nn.utils.remove_weight_norm(layer)
        found[f"{dim} removed"] = used(paddle, np, rng, layer, x)
    linear = paddle.nn.utils.weight_norm(paddle.nn.Linear(3, 2), "bias")
    found["bias"] = linear(paddle.ones([1, 3]))
    found["errors"] = [
        caught(lambda: paddle.nn.utils.weight_norm(linear, "bias")), caught(lambda: paddle.nn.utils.weight_norm(linear, "weight", 2)),
        caught(lambda: paddle.nn.utils.weight_norm(linear, "nothing")),
        caught(lambda: paddle.nn.utils.remove_weight_norm(linear, "weight")),
    ]  # fmt: skip
    return found


@check(f"{NN}.utils.spectral_norm", traits=("float32", "gradient"))
def weights_by_their_largest_singular_value(paddle, np, rng):
    found = {}
    for layer, shape, options in [
        (paddle.nn.Linear(3, 4), (2, 3), {}), (paddle.nn.Conv2D(3, 4, 2), (2, 3, 4, 4), {"n_power_iterations": 3}),
        (paddle.nn.Conv1D(3, 4, 2), (2, 3, 4), {"dim": 1, "eps": 1e-6}),
    ]:  # fmt: skip
        key = type(layer).__name__
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
        found[key] = [
            paddle.nn.utils.spectral_norm(layer, **options) is layer,
            layer.weight.detach(),
            used(paddle, np, rng, layer, x),
            used(paddle, np, rng, layer, x),
        ]
        layer.eval()
        found[f"{key} evaluation"] = [layer(x), layer(x), dict(layer.state_dict())]
    found["errors"] = [
        caught(lambda: paddle.nn.utils.spectral_norm(paddle.nn.Linear(2, 2), n_power_iterations=0)),
        caught(lambda: paddle.nn.utils.spectral_norm(layer)),
    ]
    return found
