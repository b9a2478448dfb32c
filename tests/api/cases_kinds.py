"""Dtypes, shapes and gradients that the cases of the other files leave out."""

import random

from tests.api.table import apart, array, cases, caught, check, ints, normal, uniform

NN, F, T = "paddle.nn", "paddle.nn.functional", "paddle.vision.transforms"


@cases("paddle.chunk")
def _(c):
    c(normal(4, 3).strided(), 2)
    c(normal(1, 6, 0), 3, 1)


@cases("paddle.unsqueeze_")
def _(c):
    for x in (normal(), normal(1, 0), normal(2, 3).strided()):
        c.expr("paddle.unsqueeze_(x * 1, 0)", x=x)


@cases("paddle.normal")
def _(c):
    c(normal(3, 1, dtype="float64").fixed(), uniform(3, 1, dtype="float64").fixed(), _forms=False)


# --- layers

for _name, _given in {
    "BCELoss": {"low": 0.1, "high": 0.9},
    "BCEWithLogitsLoss": {},
    "KLDivLoss": {},
    "L1Loss": {},
    "MSELoss": {},
    "SmoothL1Loss": {},
}.items():

    @cases(f"{NN}.{_name}")
    def _(c):
        for shape in ((3, 1), (1, 1, 4), (5, 3)):
            x = uniform(*shape, **_given)
            c.layer()(x.strided() if shape == (5, 3) else x, uniform(*shape, low=0.25, high=0.75).fixed())
        c.layer(reduction="sum")(uniform(2, 3, dtype="float64", **_given), uniform(2, 3, low=0.25, high=0.75, dtype="float64").fixed())


@cases(f"{NN}.PairwiseDistance")
def _(c):
    c.layer()(normal(1, 4), normal(1, 4))
    c.layer(keepdim=True)(normal(3, 5).strided(), normal(3, 5))


@cases(f"{NN}.LayerNorm")
def _(c):
    c.layer(4)(normal(1, 4))
    c.layer([3, 4])(normal(2, 1, 3, 4).strided())


@cases(f"{F}.log_loss")
def _(c):
    c(uniform(3, 1, dtype="float64"), uniform(3, 1, dtype="float64"))


CONTAINERS = {
    "Sequential": "paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Tanh(), paddle.nn.Linear(4, 2))",
    "LayerList": "[paddle.nn.LayerList([paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 3)])]",
    "ParameterList": "[paddle.nn.ParameterList([paddle.create_parameter([3], dtype) for _ in range(2)])]",
}  # fmt: skip
WALKS = {
    "Sequential": lambda m, x: m(x),
    "LayerList": lambda m, x: m[0][1](m[0][0](x)),
    "ParameterList": lambda m, x: x * m[0][0] + m[0][1],
}

for _name, _made in CONTAINERS.items():

    @check(f"{NN}.{_name}", f"{NN}.Layer", traits=("float32", "float64", "gradient", "one", "odd"))
    def gradients_go_through_what_a_container_holds(paddle, np, rng, _made=_made, _walk=WALKS[_name]):
        found = []
        for dtype, rows in (("float32", 2), ("float64", 1), ("float32", 0)):
            paddle.set_default_dtype(dtype)
            made = eval(_made, {"paddle": paddle, "dtype": dtype})
            paddle.set_default_dtype("float32")
            x = paddle.to_tensor(rng.standard_normal((rows, 3)).astype(dtype), stop_gradient=False)
            y = _walk(made, x)
            (y * y).sum().backward()
            held = made[0] if isinstance(made, list) else made
            found.append({"y": y, "grad": [x.grad, [p.grad for p in held.parameters()]]})
        return found


@check(
    f"{NN}.Layer.create_parameter", f"{NN}.Layer.add_parameter", f"{NN}.Layer.register_buffer", f"{NN}.Layer.parameters",
    f"{NN}.Layer.named_parameters", f"{NN}.Layer.add_sublayer", "paddle.ParamAttr", f"{NN}.initializer.Constant",
    traits=("float32", "float64", "gradient", "one", "odd"),
)  # fmt: skip
def parameters_that_are_made_and_added_have_gradients(paddle, np, rng):
    found = []
    for dtype in ("float32", "float64"):
        layer = paddle.nn.Layer(dtype=dtype)
        attribute = paddle.ParamAttr("mine_" + dtype, paddle.nn.initializer.Constant(0.5), learning_rate=0.5, need_clip=False)
        layer.add_parameter("a", layer.create_parameter([1, 3], attribute))
        layer.b = layer.create_parameter([3], is_bias=True)
        layer.add_parameter("c", layer.create_parameter([2, 1], paddle.ParamAttr(trainable=False)))
        layer.register_buffer("d", paddle.full([3], 2.0, dtype))
        inner = layer.add_sublayer("inner", paddle.nn.LayerNorm(3, dtype=dtype))
        y = inner(layer.a * layer.d + layer.b * layer.c)
        (y * paddle.to_tensor(rng.standard_normal((2, 3)).astype(dtype))).sum().backward()
        found.append(
            [
                y,
                {"grad": {k: p.grad for k, p in layer.named_parameters()}},
                [p.stop_gradient for p in layer.parameters()],
                layer.a.optimize_attr,
                layer.a.need_clip,
            ]
        )
    return found


@check(f"{NN}.Layer.create_tensor", f"{NN}.Layer.create_variable", traits=("float32", "float64", "int64"))
def variables_are_made_of_any_dtype(paddle, np, rng):
    layer = paddle.nn.Linear(2, 2)
    made = [make(dtype=dtype) for make in (layer.create_tensor, layer.create_variable) for dtype in (None, "float64", "int64")]
    return [str(v.dtype) for v in made]


@check(
    f"{NN}.Layer.astype",
    f"{NN}.Layer.bfloat16",
    f"{NN}.Layer.float",
    f"{NN}.Layer.to",
    traits=("float32", "float64", "bfloat16", "one", "odd"),
)
def models_of_all_shapes_are_cast(paddle, np, rng):
    found = []
    for cast in (lambda m: m.bfloat16(), lambda m: m.float(), lambda m: m.to(dtype="float64"), lambda m: m.float()):
        model = paddle.nn.Sequential(paddle.nn.Conv2D(1, 3, 1), paddle.nn.BatchNorm2D(3), paddle.nn.PReLU(), paddle.nn.Linear(3, 1))
        model.register_buffer("scale", paddle.to_tensor(2.0))
        cast(model)
        found.append([t.astype("float32") for t in model.state_dict().values()] + [str(t.dtype) for t in model.state_dict().values()])
    return found


# --- training


@check(
    "paddle.optimizer.SGD.minimize", "paddle.optimizer.SGD", "paddle.optimizer.Adam", f"{NN}.ClipGradByGlobalNorm", f"{NN}.ClipGradByNorm",
    f"{NN}.ClipGradByValue", traits=("float32", "float64", "0-d", "one", "odd", "strided"), rtol=2e-5,
)  # fmt: skip
def parameters_of_all_shapes_are_minimized_and_clipped(paddle, np, rng):
    found = []
    clips = paddle.nn.ClipGradByGlobalNorm(0.5), paddle.nn.ClipGradByNorm(0.25), paddle.nn.ClipGradByValue(0.125, -0.25), None
    for dtype in ("float32", "float64"):
        for clip in clips if dtype == "float32" else clips[::2]:  # Paddle has no kernel for norms of float64
            parameters = [paddle.create_parameter(shape, dtype) for shape in ([], [1], [3, 2], [1, 5])]
            optimizer = paddle.optimizer.SGD(0.5, parameters, grad_clip=clip)
            loss = sum(
                (p * paddle.to_tensor(rng.standard_normal(p.shape[::-1]).astype(dtype)).t() if p.ndim else p * 3).sum() for p in parameters
            )
            loss.backward()
            optimizer.minimize(loss)
            found.append(parameters)
    return found


@check(f"{NN}.BeamSearchDecoder", f"{NN}.dynamic_decode", f"{NN}.RNNCellBase", traits=("float32", "float64", "one", "odd"))
def beams_are_searched_in_float64_and_alone(paddle, np, rng):
    found = []
    for dtype, batch, beams in (("float64", 2, 3), ("float32", 1, 1), ("float64", 3, 1)):
        paddle.set_default_dtype(dtype)
        embed, cell, out = paddle.nn.Embedding(5, 4), paddle.nn.GRUCell(4, 3), paddle.nn.Linear(3, 5)
        paddle.set_default_dtype("float32")
        decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, beams, embed, out)
        first = paddle.to_tensor(rng.standard_normal((batch, 3)).astype(dtype))
        found.append(caught(lambda decoder=decoder, first=first: found.append(paddle.nn.dynamic_decode(decoder, first, 4)[0])))
    return found


# --- names of dtypes

for _name in ("int8", "float32"):

    @cases(f"paddle.{_name}", "paddle.dtype")
    def _(c):
        for x in (normal(), normal(0, 3), normal(2, 1, dtype="float64"), normal(3, 5).strided(), ints(4), array([True, False], "bool")):
            c.expr(f"x.astype(paddle.{_name})", x=x)


# --- whole models


@check("paddle.summary", traits=("float32", "float64", "int64", "one", "odd"))
def models_of_other_inputs_are_summed_up(paddle, np, rng):
    embed = paddle.nn.Sequential(paddle.nn.Embedding(5, 3), paddle.nn.Linear(3, 2))
    plain = paddle.nn.Sequential(paddle.nn.Linear(3, 2), paddle.nn.ReLU())
    wide = paddle.nn.Linear(3, 2).to(dtype="float64")
    counts = lambda found: {k: int(v) for k, v in found.items()}
    return [
        counts(paddle.summary(embed, (1, 4), "int64")),
        counts(paddle.summary(plain, (5, 3))),
        counts(paddle.summary(wide, (1, 3), "float64")),
        counts(paddle.summary(plain, input=paddle.ones([7, 3]))),
    ]


@check("paddle.Model", traits=("float32", "float64", "one", "odd"))
def models_of_float64_are_trained(paddle, np, rng):
    paddle.set_default_dtype("float64")
    net = paddle.nn.Linear(3, 1)
    paddle.set_default_dtype("float32")
    model = paddle.Model(net)
    model.prepare(paddle.optimizer.SGD(0.1, net.parameters()), paddle.nn.MSELoss())
    x, y = rng.standard_normal((5, 3)), rng.standard_normal((5, 1))
    return [float(np.asarray(model.train_batch([x], [y])[0]).reshape(-1)[0]) for _ in range(3)], model.predict_batch([x[:1]]), net.weight


# --- transforms of tensors

TRANSFORMS = {
    "CenterCrop": "4", "Grayscale": "3", "Normalize": "[0.5] * 3, [0.25] * 3", "Pad": "[1, 2]", "RandomCrop": "4",
    "RandomHorizontalFlip": "1.0", "RandomVerticalFlip": "1.0", "Resize": "5", "RandomResizedCrop": "4", "BrightnessTransform": "0.4",
    "ContrastTransform": "0.4", "SaturationTransform": "0.4", "HueTransform": "0.1", "ColorJitter": "0.4, 0.4, 0.4, 0.1",
    "RandomRotation": "20", "ToTensor": "", "Transpose": "", "Compose": "[lambda v: v * 2]",
}


@check(*[f"{T}.{name}" for name in (*TRANSFORMS, "BaseTransform")], traits=("float32", "float64", "gradient", "odd", "one"))
def gradients_go_through_transforms(paddle, np, rng):
    class Doubled(paddle.vision.transforms.BaseTransform):
        def _apply_image(self, image):
            return image * 2

    transforms = {name: eval(f"T.{name}({options})", {"T": paddle.vision.transforms}) for name, options in TRANSFORMS.items()} | {
        "BaseTransform": Doubled()
    }
    found = {}
    for name, transform in transforms.items():
        for dtype in ("float32",) if name == "RandomRotation" else ("float32", "float64"):  # of which Paddle turns float32 alone
            random.seed(1)
            np.random.seed(1)
            x = paddle.to_tensor(rng.random((3, 6, 7)).astype(dtype), stop_gradient=False)
            y = transform(x)
            found[f"{name} {dtype}"] = {"y": y, "grad": paddle.grad((y * y).sum(), x)}
    return found


# --- and where one kind was left


@cases("paddle.arange")
def _(c):
    c(array([1.0]), array([4.0]), array([1.5]), _forms=False)


@cases("paddle.full")
def _(c):
    c([2, 3], array([1.5]))


@cases("paddle.linspace")
def _(c):
    c(array([1.0]), array([2.0]), 5, _forms=False)


@cases(f"{T}.crop")
def _(c):
    c(uniform(3, 5, 4, dtype="float64"), 1, 0, 3, 2)
    c(uniform(1, 5, 5).strided(), 1, 0, 3, 2)


@cases(f"{T}.to_grayscale")
def _(c):
    c(uniform(3, 1, 5), 1)
    c(uniform(3, 4, 5).strided(), 3)


@check(
    f"{NN}.Layer.register_forward_pre_hook",
    f"{NN}.Layer.register_forward_post_hook",
    traits=("float32", "float64", "gradient", "0-d", "odd"),
)
def hooks_change_what_goes_in_and_out(paddle, np, rng):
    found = []
    for dtype in ("float32", "float64"):
        layer = paddle.nn.Tanh()
        layer.register_forward_pre_hook(lambda layer, inputs: inputs[0] * 2)
        layer.register_forward_post_hook(lambda layer, inputs, output: output + inputs[0])
        for shape in ((), (3,)):
            x = paddle.to_tensor(rng.standard_normal(shape).astype(dtype), stop_gradient=False)
            y = layer(x)
            y.sum().backward()
            found.append({"y": y, "grad": x.grad})
    return found


@check("paddle.save", "paddle.load", traits=("bool", "int8", "float32", "float64", "complex64", "0-d", "empty", "one", "odd", "strided"))
def tensors_of_all_kinds_are_kept(paddle, np, rng):
    import io

    held = [
        paddle.to_tensor(rng.standard_normal((3, 5))).t(),
        paddle.to_tensor(2.5),
        paddle.ones([1, 1], "int8"),
        paddle.to_tensor([True, False]),
        paddle.to_tensor([1 + 2j]),
    ]
    mixed = {"tensors": held, "array": np.arange(3), "pair": (1, "a", None), "deep": [{"x": held[0]}]}
    found = []
    for kept in (held, held[1], mixed, {"x": np.arange(4.0)}, {"x": held[0], "n": 3, "a": np.ones(2)}):
        for return_numpy in (False, True):
            stream = io.BytesIO()
            paddle.save(kept, stream)
            stream.seek(0)
            found.append(paddle.load(stream, return_numpy=return_numpy))
    return found


@cases("paddle.put_along_axis")
def _(c):
    several = array([[0, 0, 2], [1, 1, 1]], "int64")
    for reduce in ("add", "mul", "multiply", "mean", "amin", "amax"):
        for include_self in (True, False):
            c(normal(2, 4), several, apart(2, 3), 1, reduce, include_self, _forms=False)
        c(normal(4, 2, dtype="float64").strided(), array([[0, 1]], "int64"), normal(1, 2, dtype="float64"), 0, reduce, _forms=False)
        c(ints(2, 4, high=9), several, ints(2, 3, high=9), 1, reduce, False, _forms=False)
    c(normal(2, 4), several, normal(2, 3), 1, "max", _raises=True)


@cases("paddle.unique")
def _(c):
    c(apart(3, 2))


@cases("paddle.increment")
def _(c):
    c.expr("paddle.increment(x * 1, 2.5)", x=normal(1))
    c.expr("paddle.increment(x * 1) ** 2", x=normal(dtype="float64"))


@cases("paddle.normal")
def _(c):
    c(normal(2, 3), 0.5, _forms=False)
    c(0.5, uniform(3, dtype="float64"))


@check("paddle.Tensor.shape")
def shapes_print_add_up_and_are_lists(paddle, np, rng):
    s = paddle.ones([2, 3]).shape
    told = [
        s,
        s + [1],
        [1] + s,
        s + (1,),
        s * 2,
        2 * s,
        s[:1],
        s[::-1],
        paddle.Size(),
        paddle.ones([]).shape,
        paddle.nn.Linear(2, 3).weight.shape,
        s.copy(),
        [*s],
    ]
    equal = [
        s == [2, 3],
        s == (2, 3),
        [2, 3] == s,
        s != [2, 4],
        s == paddle.Size((2, 3)),
        s == 3,
        isinstance(s, list),
        isinstance(s, tuple),
    ]
    return (
        [repr(t) for t in told],
        f"{s}",
        str(s),
        equal,
        s.numel(),
        caught(lambda: hash(s)),
        list(s),
        paddle.zeros(s),
        paddle.ones([6]).reshape(s[:1] + [-1]),
    )


PRINTED = (
    "0.0", "-0.0", "-2", "True", "1e-10", "float('nan')", "-float('inf')", "1 + 2j", "[]", "[[]]", "[float('nan'), 1e-8]", "[1e8, 1.0]",
    "[1e-5, 1.0]", "[0.1, 0.25]", "[1e15, 3.0]",
    "[1 + 2j, -1.5 - 0.25j]", "[[True, False]]", "np.ones([1001, 1])", "np.arange(2000).reshape(2, 1000)", "np.linspace(-1, 1, 30)",
    "np.full((3, 25), -1.5)",
    "np.where(np.arange(1200) % 7 == 0, np.nan, np.arange(1200)).reshape(30, 40)", "np.arange(48.0).reshape(2, 3, 2, 4) / 7",
    "np.zeros([2, 0, 3], 'int64')", "[complex('nan'), 1e8j]",
)  # fmt: skip
PRINTING = (
    {},
    {"precision": 4},
    {"precision": 2, "sci_mode": True},
    {"sci_mode": False},
    {"threshold": 5, "edgeitems": 1},
    {"linewidth": 40},
    {"precision": 12, "linewidth": 200},
)


@check("paddle.to_tensor", exact=True)
def tensors_are_printed_under_all_options(paddle, np, rng):
    usual = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": False}
    found = {}
    try:
        for options in PRINTING:
            paddle.set_printoptions(**options)
            found[str(options)] = [str(paddle.to_tensor(eval(values, {"np": np}), stop_gradient=False)) for values in PRINTED]
    finally:
        paddle.set_printoptions(**usual)
    return found


# --- what no list names, and programs use


@check("paddle.nn.utils.clip_grad_norm_", "paddle.nn.utils.clip_grad_value_", traits=("float32",))
def gradients_are_cut_by_hand(paddle, np, rng):
    utils, found = paddle.nn.utils, []
    cuts = (
        lambda p: utils.clip_grad_norm_(p, 0.5),
        lambda p: utils.clip_grad_norm_(p, 100),
        lambda p: utils.clip_grad_norm_(p, 0.5, 1),
        lambda p: utils.clip_grad_norm_(p[0], 0.1, float("inf")),
        lambda p: utils.clip_grad_value_(p, 0.25),
    )
    for cut in cuts:
        layer = paddle.nn.Linear(3, 2)
        found.append(utils.clip_grad_norm_(layer.parameters(), 1.0))
        (layer(paddle.to_tensor(rng.standard_normal((4, 3)).astype("float32"))) ** 2).sum().backward()
        found.append([cut(layer.parameters()), [p.grad for p in layer.parameters()]])
    layer.weight.grad.set_value(paddle.full([3, 2], float("nan")))
    return (
        found,
        caught(lambda: utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)),
        caught(lambda: utils.clip_grad_norm_(layer.parameters(), 1.0, 3)),
    )


@check("paddle.nn.utils.parameters_to_vector", "paddle.nn.utils.vector_to_parameters", traits=("float32",))
def parameters_are_one_vector(paddle, np, rng):
    layer, other = paddle.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    vector = paddle.nn.utils.parameters_to_vector(layer.parameters())
    paddle.nn.utils.vector_to_parameters(vector * 2, other.parameters())
    short = caught(lambda: paddle.nn.utils.vector_to_parameters(vector[:3], other.parameters()))
    return vector, other.parameters(), [p.name == q.name for p, q in zip(layer.parameters(), other.parameters())], short


@check("paddle.io.random_split")
def datasets_are_split_by_the_common_generator(paddle, np, rng):
    class Numbers(paddle.io.Dataset):
        def __len__(self):
            return 7

        def __getitem__(self, place):
            return place

    return [[part.indices for part in paddle.io.random_split(Numbers(), lengths)] for lengths in ([4, 3], [0.5, 0.5], [7])], paddle.rand(
        [1]
    )


@cases("paddle.norm")
def _(c):
    nan, inf = float("nan"), float("inf")
    for values in ([nan, 1.0], [1.0, nan], [inf, 1.0], [-inf, nan], [0.0, 0.0]):
        for p in (2, 1, 3, 0.5, -inf if values[1] != 1.0 else 0):
            c(array(values).fixed(), p, _forms=False)
        c(array([values, [1.0, 2.0]]).fixed(), "fro", [0, 1], _forms=False)
    for p in (2, -2, "nuc"):
        for dtype in ("float32", "float64"):
            c(normal(3, 4, dtype=dtype), p, [0, 1], _forms=False)
        c(normal(2, 4, 3), p, [2, 0], True, _forms=False)
        c(normal(5, 3).strided(), p, [-2, -1], _forms=False)
        c(normal(1, 3), p, [0, 1], _forms=False)
    c(normal(3, 4), "nuc")


@cases(f"{F}.thresholded_relu")
def _(c):
    c(array([float("nan"), 2.0, 1.0, float("inf")]).fixed(), _forms=False)


@check("paddle.Tensor.backward", traits=("float32", "gradient"))
def cleared_gradients_are_zeros_like_others(paddle, np, rng):
    layer = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.SGD(0.1, layer.parameters())
    found = []
    for clear in (optimizer.clear_grad, layer.clear_gradients, layer.weight.clear_gradient, lambda: layer.weight.clear_gradient(False)):
        layer(paddle.ones([1, 3])).sum().backward()
        clear()
        found.append([layer.weight.grad, layer.weight.grad is not None and layer.weight.grad.stop_gradient])
    return found


@check("paddle.Tensor.backward", traits=("float32", "gradient"))
def filling_in_place_takes_the_gradient(paddle, np, rng):
    found = []
    for fill in (lambda t: t.fill_(2.0), lambda t: t.zero_(), lambda t: t.uniform_(0.5, 1.5), lambda t: t.normal_()):
        paddle.seed(3)  # since Paddle draws for gradients of draws, too
        x = paddle.to_tensor(rng.standard_normal(3).astype("float32"), stop_gradient=False)
        y = x * 2
        z = fill(y)
        (y * x).sum().backward()
        found.append([z is y, y.inplace_version, y, {"grad": x.grad}])
        with paddle.no_grad():
            found.append([fill(x.detach()).stop_gradient, fill(x) is x, x.stop_gradient])
    found += [caught(lambda fill=fill: fill(x)) for fill in (lambda t: t.fill_(2.0), lambda t: t.zero_(), lambda t: t.uniform_())]
    return found


@cases("paddle.clip")
def _(c):
    for low, high in ((0.5, 1.5), (1, 2.0), (None, 2.5), (1.0, None), (0, 2)):
        c(ints(4, low=-3, high=4), low, high, _forms=False)
    c(ints(4, low=-3, high=4, dtype="int32"), 0.5, _forms=False)


for _name in ("paddle.stanh", f"{F}.sigmoid", "paddle.sigmoid"):

    @cases(_name)
    def _(c):
        for dtype in ("int32", "int64"):
            c(ints(5, low=-3, high=4, dtype=dtype), _forms=False)


@check(
    "paddle.lerp",
    f"{F}.hardshrink",
    f"{F}.softshrink",
    f"{F}.hardsigmoid",
    f"{F}.hardswish",
    f"{F}.label_smooth",
    traits=("int64", "raises"),
)
def whole_numbers_are_refused_where_they_would_lose_what_counts(paddle, np, rng):
    functional, x = paddle.nn.functional, paddle.to_tensor([1, -2, 3])
    calls = [
        lambda: paddle.lerp(x, x + 1, 0.5),
        *(
            lambda name=name: getattr(functional, name)(x)
            for name in ("hardshrink", "softshrink", "hardsigmoid", "hardswish", "label_smooth")
        ),
    ]
    return [str(caught(call)) == "nothing was raised" for call in calls]
