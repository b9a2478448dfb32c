"""Empty tensors, axes of one, odd sizes and non-contiguous tensors where `derived.py` cannot make them of another case: sizes fit options,
positions or each other.
"""

from tests.api.table import apart, array, cases, check, ints, normal, uniform

F = "paddle.nn.functional"


for _name in ("max", "min"):

    @cases(f"paddle.{_name}")
    def _(c):
        c(apart(0, 4), 1)
        c(apart(3, 0), 0)
        c(apart(0, 4), _raises=True)
        c(apart(0, 4), 0, _raises=True)


for _name in ("argmax", "argmin"):

    @cases(f"paddle.{_name}")
    def _(c):
        c(apart(0, 4).fixed(), 1)
        c(apart(3, 0).fixed(), 0)


@cases("paddle.logsumexp")
def _(c):
    c(normal(0, 4), 1)
    c(normal(0, 4), 0, True)


@cases("paddle.std", "paddle.var")
def _(c):
    for axis in (None, 0, 1):
        c.expr(f"(paddle.std(x, {axis}), paddle.var(x, {axis}, False, True))", x=normal(0, 3), _no_grad=True)


@cases("paddle.broadcast_to")
def _(c):
    c(normal(1, 0), [2, 0])


@cases("paddle.expand")
def _(c):
    c(normal(1, 0), [2, 0])
    c(normal(0, 3), [2, 0, -1])


@cases("paddle.expand_as")
def _(c):
    c(normal(1, 0), normal(2, 0))


@cases("paddle.cholesky")
def _(c):
    c(normal(0, 0))
    c(normal(0, 3, 3))


@cases("paddle.inverse")
def _(c):
    c(normal(0, 0))
    c(normal(0, 2, 2, dtype="float64"))


@cases("paddle.index_select")
def _(c):
    c(normal(4, 0), array([3, 0, 0], "int64"))
    c(normal(4, 3), array([], "int64"))


@cases("paddle.scatter")
def _(c):
    c(normal(4, 0), array([3, 0], "int64"), normal(2, 0))
    c(normal(4, 1), array([3, 0], "int64"), normal(2, 1))


@cases("paddle.scatter_")
def _(c):
    for size in (0, 1):
        c.expr("(paddle.scatter_(y, i, u), y)", y=normal(3, size).fixed(), i=array([2, 0], "int64"), u=normal(2, size).fixed())


@cases("paddle.scatter_nd")
def _(c):
    c(array([[2], [0]], "int64"), normal(2, 0), [4, 0])


@cases("paddle.scatter_nd_add")
def _(c):
    c(normal(4, 0), array([[1], [3], [1]], "int64"), normal(3, 0))


@cases("paddle.split")
def _(c):
    c(normal(2, 1), 2)
    c(normal(4, 3), 2)
    c(normal(7, 3), [2, 5])


@cases("paddle.multinomial")
def _(c):
    c(uniform(0, low=0.1), 5, _raises=True)


@cases("paddle.arange")
def _(c):
    c(normal(0), normal(0), normal(0), _raises=True)


@cases("paddle.linspace")
def _(c):
    c(normal(0), normal(0), 5, _raises=True)


@cases(f"{F}.nll_loss")
def _(c):
    c(normal(3, 5), array([2, 2, 2], "int64"), ignore_index=2)


@cases(f"{F}.ctc_loss")
def _(c):
    c(normal(5, 0, 4), array([[1, 2]], "int32"), array([5], "int64"), array([2], "int64"), _raises=True)


@cases("paddle.nn.CTCLoss")
def _(c):
    c.layer()(normal(5, 1, 4), array([[1, 2]], "int32"), array([5], "int64"), array([2], "int64"))
    c.layer()(normal(5, 0, 4), array([[1, 2]], "int32"), array([5], "int64"), array([2], "int64"), _raises=True)


# --- two shapes that fit each other

for _name in ("mse_loss", "l1_loss", "square_error_cost"):

    @cases(f"{F}.{_name}")
    def _(c):
        c(normal(3, 1), normal(4))
        c(normal(2, 3, dtype="float64"), normal(1, 3, dtype="float64"))


for _name in ("MSELoss", "L1Loss"):

    @cases(f"paddle.nn.{_name}")
    def _(c):
        c.layer()(normal(3, 1), normal(4))


@cases("paddle.nn.MarginRankingLoss")
def _(c):
    c.layer(0.5)(normal(3, 1), normal(4), array([[1.0], [-1.0], [1.0]]).fixed())


@cases("paddle.nn.PairwiseDistance")
def _(c):
    c.layer()(normal(3, 4), normal(1, 4))


@cases("paddle.Tensor")
def _(c):
    c.expr("(x + y, x - y, x * y, x / y, x < y, x == y, x @ x.T, y - 1, 2 / y)", x=normal(3, 1), y=uniform(4, low=0.5))


# --- what is no function of tensors alone


@cases("paddle.randperm")
def _(c):
    c(0)


@check(
    "paddle.Tensor.numpy",
    "paddle.Tensor.shape",
    "paddle.Tensor.dtype",
    "paddle.to_tensor",
    traits=("float32", "float64", "empty", "one", "odd", "strided"),
)
def tensors_of_all_shapes_are_read(paddle, np, rng):
    whole = rng.standard_normal((4, 1, 3)).astype("float32")
    arrays = [whole, whole.T.astype("float64"), whole[::2], whole[:, 0, 1], whole[..., :0], np.broadcast_to(whole[:1], (2, 1, 3))]
    made = [paddle.to_tensor(a) for a in arrays]
    made += [made[0].transpose([2, 0, 1]), made[0][::2], made[0][:, 0, 1], made[0][:, :, ::2], made[0][:0]]
    made += [paddle.to_tensor(t) for t in made[-5:]]
    # Paddle refuses to give numbers of what has none.
    return [(t if 0 in t.shape else t.numpy(), list(t.shape), t.dtype) for t in made]


@check("paddle.Tensor.set_value", traits=("float32", "float64", "one", "odd", "strided"))
def values_are_set_from_and_to_parts(paddle, np, rng):
    found = []
    for dtype in ("float32", "float64"):
        whole = paddle.to_tensor(rng.standard_normal((3, 4)).astype(dtype))
        target, row, some = (paddle.zeros([n, 3], dtype) for n in (4, 1, 2))
        target.set_value(whole.t())
        row.set_value(whole.t()[1:2])
        some.set_value(whole.numpy().T[::2])
        found.append((target, row, some))
    return found


@check(
    "paddle.Tensor.backward", "paddle.Tensor.stop_gradient", "paddle.no_grad", "paddle.autograd.PyLayer", "paddle.autograd.PyLayer.apply",
    "paddle.autograd.PyLayer.forward",
    "paddle.autograd.PyLayer.backward", "paddle.autograd.PyLayerContext.save_for_backward", "paddle.autograd.PyLayerContext.saved_tensor",
    traits=("float32", "float64", "gradient", "empty", "one", "odd", "strided"),
)  # fmt: skip
def gradients_flow_through_views_and_own_functions(paddle, np, rng):
    class Cubed(paddle.autograd.PyLayer):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensor()
            return 3 * x * x * gradient

    found = []
    for dtype in ("float32", "float64"):
        for shape in ((3, 4), (5, 1), (0, 3)):
            x = paddle.to_tensor(rng.standard_normal(shape).astype(dtype), stop_gradient=False)
            views = [x.t(), x[::2], x[:, :1]]
            with paddle.no_grad():
                silent = [v * 2 for v in views] + [Cubed.apply(x.t())]
            outputs = [Cubed.apply(v) for v in views]
            total = sum((y * paddle.to_tensor(rng.standard_normal(tuple(y.shape)).astype(dtype))).sum() for y in outputs)
            total.backward()
            found.append(
                {
                    "silent": silent,
                    "outputs": outputs,
                    "grad": x.grad.detach(),
                    "needs": [v.stop_gradient for v in (*views, *silent, *outputs)],
                }
            )
    return found


@check(
    "paddle.ParamAttr",
    "paddle.nn.initializer.Constant",
    "paddle.nn.initializer.Xavier",
    traits=("float32", "float64", "empty", "one", "odd"),
)
def parameters_of_all_shapes_begin(paddle, np, rng):
    initializers = paddle.nn.initializer
    made = []
    for begin in (initializers.Constant(2.5), initializers.XavierNormal(), initializers.XavierUniform()):
        for shape in ([0, 3], [3, 0], [0, 0], [1, 5], [3, 1]):
            for dtype in ("float32", "float64"):
                made.append(paddle.create_parameter(shape, dtype, attr=paddle.ParamAttr(initializer=begin, learning_rate=0.5)))
    return made


@check(
    "paddle.optimizer.SGD", "paddle.optimizer.SGD.minimize", "paddle.optimizer.SGD.step", "paddle.optimizer.SGD.clear_grad",
    "paddle.optimizer.Adam", "paddle.optimizer.Adam.step",
    "paddle.optimizer.Adam.clear_grad", traits=("float32", "float64", "empty", "one", "odd", "strided"),
)  # fmt: skip
def parameters_without_elements_and_gradients_of_views_are_updated(paddle, np, rng):
    found = []
    for dtype in ("float32", "float64"):
        for make in (paddle.optimizer.SGD, paddle.optimizer.Adam):
            parameters = [paddle.create_parameter(shape, dtype) for shape in ([0, 3], [4, 1], [3, 5])]
            optimizer = make(0.25, parameters=parameters)
            weights = [paddle.to_tensor(rng.standard_normal(p.shape[::-1]).astype(dtype)) for p in parameters]
            for step in range(3):
                loss = sum((p.t() * w).sum() for p, w in zip(parameters, weights))  # whose gradients are transposed
                if step == 2 and make is paddle.optimizer.SGD:
                    optimizer.minimize(loss)
                else:
                    loss.backward()
                    optimizer.step()
                optimizer.clear_grad()
            found.append(parameters)
    return found


@cases(f"{F}.gather_tree")
def _(c):
    c(ints(3, 2, 4, high=9).strided(), ints(3, 2, 4, high=4).strided())


@check("paddle.Model", traits=("float32", "empty", "one", "odd", "strided"))
def models_are_run_by_parts_of_batches(paddle, np, rng):
    net = paddle.nn.Linear(3, 1)
    model = paddle.Model(net)
    model.prepare(paddle.optimizer.SGD(0.1, net.parameters()), paddle.nn.MSELoss())
    x, y = rng.standard_normal((3, 8)).astype("float32"), rng.standard_normal((1, 8)).astype("float32")
    losses = [float(np.asarray(model.train_batch([x.T[::2]], [y.T[::2]])[0]).reshape(-1)[0]) for _ in range(2)]
    nothing = model.predict_batch([x.T[:0]])
    return losses, model.predict_batch([x.T[1::2]]), [list(a.shape) for a in nothing], net.weight


T = "paddle.vision.transforms"
TRANSFORMS = {
    "BrightnessTransform": "0", "CenterCrop": "0", "ColorJitter": "0, 0, 0, 0", "ContrastTransform": "0", "Grayscale": "3",
    "HueTransform": "0", "Normalize": "[0.5] * 3, [0.25] * 3",
    "Pad": "1", "RandomCrop": "(0, 7)", "RandomHorizontalFlip": "1.0", "RandomRotation": "0", "RandomVerticalFlip": "1.0",
    "SaturationTransform": "0",
}  # fmt: skip

for _name, _options in TRANSFORMS.items():

    @cases(f"{T}.{_name}")
    def _(c):
        c.expr(f"{T}.{_name}({_options})(x)", x=uniform(3, 0, 7))


for _name, _options in {"RandomResizedCrop": "2", "Resize": "(2, 3)"}.items():

    @cases(f"{T}.{_name}")
    def _(c):
        c.expr(f"{T}.{_name}({_options})(x)", x=uniform(3, 0, 7), _raises=True)


for _name, _made in {"Compose": "Compose([lambda v: v * 2])", "ToTensor": "ToTensor()", "Transpose": "Transpose()"}.items():

    @cases(f"{T}.{_name}")
    def _(c):
        c.expr(f"{T}.{_made}(x)", x=uniform(3, 0, 7))
        c.expr(f"{T}.{_made}(x)", x=uniform(3, 4, 7).strided())


@cases(f"{T}.Normalize")
def _(c):
    c.expr(f"{T}.Normalize([0.5] * 3, [0.25] * 3)(x)", x=uniform(3, 4, 7).strided())


@check(f"{T}.BaseTransform", traits=("float32", "empty", "one", "odd", "strided", "gradient"))
def own_transforms_get_tensors_of_all_shapes(paddle, np, rng):
    class Doubled(paddle.vision.transforms.BaseTransform):
        def _apply_image(self, image):
            return image * 2

    found = []
    for shape in ((7, 6, 3), (7, 0, 3), (5, 1, 1)):
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"), stop_gradient=False)
        y = Doubled()(x.transpose([2, 0, 1]))
        found.append({"y": y, "grad": paddle.grad(y.sum(), x)})
    return found


@check(
    "paddle.nn.ClipGradByGlobalNorm", "paddle.nn.ClipGradByNorm", "paddle.nn.ClipGradByValue", traits=("float32", "empty", "one", "odd"),
)  # fmt: skip
def gradients_without_elements_are_clipped(paddle, np, rng):
    found = []
    for clip in (paddle.nn.ClipGradByGlobalNorm(0.5), paddle.nn.ClipGradByNorm(0.25), paddle.nn.ClipGradByValue(0.125, -0.25)):
        parameters = [paddle.create_parameter(shape, "float32") for shape in ([0, 3], [4, 1], [3, 5])]
        optimizer = paddle.optimizer.SGD(0.5, parameters, grad_clip=clip)
        weights = [paddle.to_tensor(rng.standard_normal(p.shape[::-1]).astype("float32")) for p in parameters]
        sum((p.t() * w).sum() for p, w in zip(parameters, weights)).backward()
        optimizer.step()
        found.append(parameters)
    return found


@check("paddle.nn.BeamSearchDecoder", "paddle.nn.dynamic_decode", traits=("float32", "one", "odd", "strided"))
def beams_begin_from_views(paddle, np, rng):
    embed, cell, out = paddle.nn.Embedding(5, 4), paddle.nn.GRUCell(4, 3), paddle.nn.Linear(3, 5)
    decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 2, embed, out)
    states = paddle.to_tensor(rng.standard_normal((3, 6)).astype("float32"))
    return [paddle.nn.dynamic_decode(decoder, first, 4)[0] for first in (states.t(), states.t()[::2], states.t()[:1])]


@cases("paddle.nn.BeamSearchDecoder", "paddle.nn.dynamic_decode")
def _(c):
    decoder = "paddle.nn.BeamSearchDecoder(paddle.nn.GRUCell(4, 3), 0, 1, 2, paddle.nn.Embedding(5, 4), paddle.nn.Linear(3, 5))"
    c.expr(f"paddle.nn.dynamic_decode({decoder}, s, 4)", s=normal(0, 3), _raises=True)


@check("paddle.summary", traits=("float32", "one", "odd", "strided"))
def models_are_summed_up_by_a_view(paddle, np, rng):
    x = paddle.to_tensor(rng.standard_normal((3, 8)).astype("float32"))
    return [{k: int(v) for k, v in paddle.summary(paddle.nn.Linear(3, 1), input=view).items()} for view in (x.t()[::2], x.t()[:1])]


@cases("paddle.summary")
def _(c):
    c.expr("paddle.summary(paddle.nn.Linear(3, 1), input=x)", x=normal(0, 3), _raises=True)


# --- layers


def holding(paddle, np, rng):
    """A layer that holds a view and a tensor without elements as buffers, an empty parameter, and a layer below."""
    layer = paddle.nn.Layer()
    layer.register_buffer("view", paddle.to_tensor(rng.standard_normal((3, 4)).astype("float32")).t()[::2])
    layer.register_buffer("nothing", paddle.zeros([0, 3]))
    layer.add_parameter("none", paddle.create_parameter([0, 1], "float32"))
    layer.add_sublayer("below", paddle.nn.Linear(3, 1))
    return layer


_OF_LAYERS = (
    "state_dict set_state_dict set_dict load_dict to_static_state_dict add_sublayer buffers named_buffers register_buffer "
    "register_forward_post_hook register_forward_pre_hook clear_gradients"
)


@check(
    *(f"paddle.nn.Layer.{name}" for name in _OF_LAYERS.split()),
    "paddle.nn.Layer",
    traits=("float32", "float64", "empty", "one", "odd", "strided"),
)
def layers_hold_and_take_views_and_what_is_empty(paddle, np, rng):
    layer, found = holding(paddle, np, rng), []
    layer.forward = lambda x: layer.below(x) * 2
    layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,))
    layer.register_forward_post_hook(lambda layer, inputs, output: output * 3)
    for setter in (layer.set_state_dict, layer.set_dict, layer.load_dict):
        new = {
            name: paddle.to_tensor(rng.standard_normal(tuple(v.shape)[::-1]).astype("float32")).t()
            for name, v in layer.state_dict().items()
        }
        found.append([[list(part) for part in setter(new)], dict(layer.state_dict()), dict(layer.to_static_state_dict())])
    found.append([layer.buffers(), [name for name, _ in layer.named_buffers()]])
    for shape in ((3, 4), (3, 1), (3, 0)):
        layer.clear_gradients()
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"), stop_gradient=False)
        y = layer(x.t())
        y.sum().backward()
        found.append({"y": y, "backwards": [x.grad, layer.below.weight.grad.numpy(), layer.below.bias.grad.numpy()]})
    wide = layer.to(dtype="float64")
    return found, wide(paddle.to_tensor(rng.standard_normal((3, 5))).t())


@check(
    *(f"paddle.nn.Layer.{name}" for name in ("bfloat16", "float", "to")), traits=("float32", "float64", "empty", "one", "odd", "strided")
)
def views_and_what_is_empty_are_cast_with_their_layer(paddle, np, rng):
    casts = (lambda layer: layer.to(dtype="float64"), lambda layer: layer.float(), lambda layer: layer.bfloat16())
    made = [holding(paddle, np, rng) for _ in casts]
    for cast, layer in zip(casts, made):
        cast(layer)
    return [{name: [list(v.shape), v.dtype, v.astype("float32")] for name, v in layer.state_dict().items()} for layer in made]


@check(
    "paddle.nn.LayerList",
    "paddle.nn.ParameterList",
    "paddle.nn.Sequential",
    "paddle.nn.RNNCellBase",
    traits=("float32", "empty", "one", "odd", "strided", "gradient"),
)
def containers_run_over_views_and_what_is_empty(paddle, np, rng):
    class Cell(paddle.nn.RNNCellBase):
        def __init__(self):
            super().__init__()
            self.mix = paddle.nn.Linear(3, 3)

        state_shape = (3,)

        def forward(self, x, state=None):
            state = self.get_initial_states(x, self.state_shape) if state is None else state
            now = paddle.tanh(self.mix(x) + state)
            return now, now

    steps, chain = (
        paddle.nn.LayerList([paddle.nn.Linear(3, 3), paddle.nn.ReLU()]),
        paddle.nn.Sequential(paddle.nn.Linear(3, 2), paddle.nn.Tanh()),
    )
    own = paddle.nn.ParameterList([paddle.create_parameter([3, 2], "float32")])
    cell, found = Cell(), []
    for shape in ((3, 4), (3, 1), (3, 0)):
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"), stop_gradient=False)
        y = x.t()
        for step in steps:
            y = step(y)
        results = [y, y @ own[0], chain(x.t()), cell(x.t(), cell(x.t())[1])[0]]
        found.append({"results": results, "grad": paddle.grad([r.sum() for r in results], x)})
    return found
