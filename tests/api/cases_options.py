"""Options that the cases of the other files leave alone; `python -m tests.coverage_api -v` lists those that no case gives."""

import random

from tests.api.table import apart, array, bools, cases, caught, check, ints, normal, of, uniform

NN, F = "paddle.nn", "paddle.nn.functional"

# --- `out`, and where a new tensor comes to be

X, Y, Q = normal(2, 3).fixed(), normal(2, 3).fixed(), uniform(2, 3, low=0.25, high=0.75).fixed()
B, C, M = bools(2, 3), bools(2, 3), normal(3, 2).fixed()
OUT = {  # a call, all arguments of which are here, by name
    "acos": ("Q", Q), "all": ("B, 1", B), "any": ("B, 0", B), "arange": ("3", None), "bmm": ("X.unsqueeze(0), M.unsqueeze(0)", X, M),
    "ceil": ("X", X),
    "clip": ("X, -0.5, 0.5", X), "concat": ("[X, Y]", X, Y), "cos": ("X", X), "cosh": ("X", X), "cumsum": ("X, 1", X),
    "divide": ("X, Y", X, Y), "dot": ("X, Y", X, Y),
    "equal": ("X, Y", X, Y), "eye": ("2, 3", None), "floor_divide": ("X, Y", X, Y), "full": ("[2], 1.5", None),
    "gather": ("X, paddle.to_tensor([1])", X),
    "greater_equal": ("X, Y", X, Y), "greater_than": ("X, Y", X, Y), "index_select": ("X, paddle.to_tensor([1, 0])", X),
    "less_equal": ("X, Y", X, Y),
    "less_than": ("X, Y", X, Y), "linspace": ("0, 1, 5", None), "log": ("Q", Q), "log10": ("Q", Q), "log1p": ("Q", Q), "log2": ("Q", Q),
    "logical_and": ("B, C", B, C),
    "logical_not": ("B", B), "logical_or": ("B, C", B, C), "logical_xor": ("B, C", B, C), "logsumexp": ("X, 1", X),
    "masked_select": ("X, B", X, B), "matmul": ("X, M", X, M),
    "maximum": ("X, Y", X, Y), "minimum": ("X, Y", X, Y), "mod": ("X, Y", X, Y), "multiply": ("X, Y", X, Y), "nonzero": ("B", B),
    "norm": ("X", X), "not_equal": ("X, Y", X, Y), "ones": ("[2]", None), "pow": ("Q, 2.5", Q), "prod": ("X, 1", X), "round": ("X", X),
    "rsqrt": ("Q", Q),
    "scatter": ("X, paddle.to_tensor([1]), Y[:1]", X, Y), "sign": ("X", X), "sinh": ("X", X), "stack": ("[X, Y]", X, Y),
    "subtract": ("X, Y", X, Y), "tanh": ("X", X),
    "tril": ("X", X), "triu": ("X", X), "var": ("X, 1", X), "where": ("B, X, Y", B, X, Y), "zeros": ("[2]", None), "empty": ("[0]", None),
    "nn.functional.sigmoid": ("X", X), "nn.functional.softmax": ("X", X), "nn.functional.normalize": ("X", X), "Tensor.mean": ("X", X),
    "rand": ("[2]", None), "randn": ("[2]", None), "randperm": ("4", None), "uniform": ("[2]", None), "normal": ("0.0, 1.0, [3]", None),
    "multinomial": ("Q[0], 2", Q),
}  # fmt: skip
LETTERS = {id(r): k for k, r in {"X": X, "Y": Y, "Q": Q, "B": B, "C": C, "M": M}.items()}

for _name, (_arguments, *_inputs) in OUT.items():

    @cases(f"paddle.{_name}")
    def _(c):
        given = {LETTERS[id(r)]: r for r in _inputs if r is not None}
        kind = {"all": "bool", "any": "bool", "randperm": "int64", "multinomial": "int64", "nonzero": "int64", "arange": "int64"}.get(
            _name, "float32"
        )
        kind = "bool" if _name.startswith(("equal", "greater", "less", "not_eq", "logical")) else kind
        c.expr(f"(lambda o: (paddle.{_name}({_arguments}, out=o), o))(paddle.zeros([1], '{kind}'))", **given)


@cases("paddle.topk")
def _(c):
    c.expr("(lambda o: (paddle.topk(x, 2, out=o), o))((paddle.zeros([1]), paddle.zeros([1], 'int64')))", x=apart(2, 3).fixed())


@cases("paddle.median")
def _(c):
    c.expr(
        "(lambda o: (paddle.median(x, 1, mode='min', out=o), o))((paddle.zeros([1]), paddle.zeros([1], 'int64')))", x=apart(2, 3).fixed()
    )


MAKERS = {
    "arange": "3.0", "empty": "[0]", "eye": "3", "full": "[2], 2.0", "linspace": "0, 1, 3", "ones": "[2]", "zeros": "[2]", "rand": "[2]",
    "randn": "[2]", "randperm": "4, 'float32'", "uniform": "[2]", "empty_like": "paddle.ones([0])", "full_like": "paddle.ones([2]), 3.0",
    "ones_like": "paddle.zeros([2])", "zeros_like": "paddle.ones([2])",
}  # fmt: skip

for _name, _arguments in MAKERS.items():

    @cases(f"paddle.{_name}")
    def _(c):
        c.expr(f"paddle.{_name}({_arguments}, device='cpu', requires_grad=True)")


# --- functions


@cases("paddle.norm")
def _(c):
    c(normal(2, 3), 2, 1, dtype="float64")


@cases("paddle.unique")
def _(c):
    c(array([3, 1, 3, 2], "int64"), return_index=True, return_inverse=True, return_counts=True, sorted=False)


@cases("paddle.bernoulli")
def _(c):
    c(uniform(3, 4), 0.25, _forms=False)


@cases("paddle.Tensor.mean")
def _(c):
    c.expr("[x.mean(axis=1), x.mean([0, 1]), x.mean(0, True), x.mean(-1, keepdim=True, dtype='float64')]", x=normal(2, 3))


for n, layout in ((2, "NHWC"), (3, "NDHWC")):
    size = (6, 5, 4)[:n]

    @cases(f"{F}.avg_pool{n}d")
    def _(c):
        c(normal(2, 3, *size), 2, 2, 1, exclusive=False)

    @cases(f"{F}.dropout{n}d")
    def _(c):
        c(normal(2, *size, 3), 0.5, data_format=layout)


@cases(f"{F}.dropout")
def _(c):
    c.expr("F.dropout(x * 1, 0.5, inplace=True)", x=normal(4, 5))
    c.expr("(lambda y: (F.dropout(y, 0.25, training=False, mode='downscale_in_infer', inplace=True), y))(x * 1)", x=normal(4, 5))


@cases(f"{F}.embedding")
def _(c):
    c(array([[0, 2], [2, 1]], "int64"), normal(4, 3), max_norm=1.0)
    c(array([[0, 2], [2, 1]], "int64"), normal(4, 3), max_norm=1.5, norm_type=1.0)
    c(array([[0, 2], [2, 1]], "int64"), normal(4, 3), scale_grad_by_freq=True)
    # its gradient is a tensor of another kind in Paddle
    c(array([0, 2, 2], "int64"), normal(4, 3, dtype="float64").fixed(), 2, None, 2.0, True)
    c(array([0, 1], "int64"), normal(4, 3).fixed(), sparse=True, scale_grad_by_freq=True, _raises=True)


@cases(f"{F}.hardsigmoid")
def _(c):
    c(normal(3, 5), 0.25, 0.4)


@cases(f"{F}.hsigmoid_loss")
def _(c):
    c(normal(4, 3).fixed(), ints(4, 1, low=0, high=5), 5, normal(4, 3).fixed(), is_sparse=True)


@cases(f"{F}.instance_norm")
def _(c):
    statistics = normal(3).fixed(), uniform(3, low=0.5, high=2).fixed()
    c(normal(2, 3, 4), *statistics, use_input_stats=True, momentum=0.5)
    c.expr("(F.instance_norm(x, m, v, momentum=0.5), m, v)", x=normal(2, 3, 4), m=statistics[0], v=statistics[1])
    c(normal(2, 3, 4), *statistics, use_input_stats=False)


@cases(f"{F}.pad")
def _(c):
    c(normal(2, 3), [1, 0, 0, 2], pad_from_left_axis=False)
    c(normal(2, 3, 4), [1, 0, 0, 2, 3, 1], "constant", 0.5, pad_from_left_axis=False)
    c(normal(2, 3, 4), [1, 0, 0, 2, 3, 1], pad_from_left_axis=True)


@cases(f"{F}.smooth_l1_loss")
def _(c):
    c(normal(3, 4), normal(3, 4), delta=0.5, is_huber=False)
    c(normal(3, 4), normal(3, 4), "sum", 2.0, False)


@cases(f"{F}.softmax_")
def _(c):
    c.expr("F.softmax_(x * 1, 0, 'float64')", x=normal(2, 3))


@cases(f"{F}.upsample")
def _(c):
    c(normal(1, 2, 3, 4), [5, 7], mode="bilinear", align_mode=1)
    c(normal(1, 3, 4, 2), [5, 7], mode="nearest", data_format="NHWC")


@check("paddle.grad", "paddle.Tensor.backward", traits=("float32", "gradient"))
def grad_and_backward_take_all_their_options(paddle, np, rng):
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    refused = [type(r).__name__ for r in (caught(lambda: paddle.grad((x * x).sum(), x, only_inputs=False)),)]
    return refused, paddle.grad((x * x).sum(), x, only_inputs=True)


# --- layers

PICTURES = {1: (8,), 2: (6, 5), 3: (4, 5, 3)}
LAYOUTS = {1: "NLC", 2: "NHWC", 3: "NDHWC"}
ATTRIBUTES = {"weight_attr": of("paddle.nn.initializer.Constant(0.5)"), "bias_attr": of("paddle.nn.initializer.Constant(0.25)")}

for n, size in PICTURES.items():
    layout = {"data_format": LAYOUTS[n]}

    @cases(f"{NN}.Conv{n}D")
    def _(c):
        c.layer(2, 3, 2, bias=False)(normal(1, 2, *size))
        c.layer(2, 3, 2, device="cpu", dtype="float64")(normal(1, 2, *size, dtype="float64"))

    @cases(f"{NN}.Conv{n}DTranspose")
    def _(c):
        c.layer(2, 3, 2, dilation=2, **ATTRIBUTES)(normal(1, 2, *size))
        c.layer(2, 3, 2, stride=2, bias_attr=False, **layout)(normal(1, *size, 2))

    @cases(f"{NN}.MaxPool{n}D")
    def _(c):
        c.layer(2, return_mask=True)(apart(1, 2, *size))
        if n > 1:
            c.layer(2, **layout)(apart(1, *size, 2))

    @cases(f"{NN}.AvgPool{n}D")
    def _(c):
        c.layer(2, 2, 1, exclusive=False)(normal(1, 2, *size))
        if n > 1:
            c.layer(2, 2, divisor_override=3)(normal(1, 2, *size))
            c.layer(2, **layout)(normal(1, *size, 2))

    @cases(f"{NN}.AdaptiveMaxPool{n}D")
    def _(c):
        c.layer(2, return_mask=True)(apart(1, 2, *size))

    if n > 1:

        @cases(f"{NN}.AdaptiveAvgPool{n}D")
        def _(c):
            c.layer(2, **layout)(normal(1, *size, 2))

        @cases(f"{NN}.BatchNorm{n}D")
        def _(c):
            c.layer(2, 0.5, 0.1, use_global_stats=True)(normal(2, 2, *size))

        @cases(f"{NN}.Dropout{n}D")
        def _(c):
            c.layer(0.5, **layout)(normal(2, *size, 3))

    @cases(f"{NN}.InstanceNorm{n}D")
    def _(c):
        c.layer(2, 0.1, 0.5, **ATTRIBUTES)(normal(2, 2, *size))
        c.layer(2, **layout)(normal(2, *size, 2), _raises=True)


@cases(f"{NN}.BCELoss")
def _(c):
    c.expr("paddle.nn.BCELoss(weight=w)(x, y)", x=uniform(3, 4, low=0.1, high=0.9), y=uniform(3, 4).fixed(), w=uniform(3, 4).fixed())


@cases(f"{NN}.CrossEntropyLoss")
def _(c):
    c.layer(label_smoothing=0.1)(normal(3, 4), ints(3, low=0, high=4))


@cases(f"{NN}.Dropout")
def _(c):
    c.expr("(lambda y: (paddle.nn.Dropout(0.5, inplace=True)(y), y))(x * 1)", x=normal(3, 4))


@cases(f"{NN}.Embedding")
def _(c):
    places = array([[0, 2], [2, 1]], "int64")
    c.layer(4, 3, None, 1.0)(places)
    c.layer(4, 3, max_norm=1.0, norm_type=1.0)(places)
    c.layer(4, 3, scale_grad_by_freq=True)(places)
    c.layer(4, 3, sparse=False, device="cpu", dtype="float64")(places)
    c.expr(
        "(lambda e: (e(i), e.weight.stop_gradient))(paddle.nn.Embedding(4, 3, _weight=w, _freeze=True))", i=places, w=normal(4, 3).fixed()
    )


@check(f"{NN}.Embedding", traits=("float32", "gradient"))
def a_sparse_embedding_trains_as_a_dense_one(paddle, np, rng):
    layer = paddle.nn.Embedding(4, 3, sparse=True)
    optimizer = paddle.optimizer.SGD(0.5, parameters=layer.parameters())
    (layer(paddle.to_tensor([[0, 2], [2, 1]])) ** 2).sum().backward()
    optimizer.step()
    return layer.weight


@cases(f"{NN}.GroupNorm")
def _(c):
    c.layer(2, 4, device="cpu", dtype="float64")(normal(2, 4, 3, dtype="float64"))
    c.layer(2, 4, bias_attr=of("paddle.nn.initializer.Constant(0.25)"))(normal(2, 4, 3))


@cases(f"{NN}.LayerNorm")
def _(c):
    c.layer(4, device="cpu", dtype="float64")(normal(2, 4, dtype="float64"))


for _name in ("SimpleRNN", "LSTM", "GRU"):

    @cases(f"{NN}.{_name}")
    def _(c):
        c.layer(3, 2, weight_ih_attr=of("paddle.nn.initializer.Constant(0.1)"))(normal(2, 3, 3))


@check(f"{NN}.RNNCellBase")
def a_cell_has_a_name_and_a_dtype(paddle, np, rng):
    cell = paddle.nn.RNNCellBase("mine", "float64")
    return cell.full_name(), cell.create_parameter([2]).dtype


@cases(f"{NN}.HSigmoidLoss")
def _(c):
    c.layer(3, 5, weight_attr=of("paddle.nn.initializer.Constant(0.5)"))(normal(4, 3), ints(4, 1, low=0, high=5))
    c.expr("paddle.nn.HSigmoidLoss(3, 5, is_sparse=True)(x, y).detach()", x=normal(4, 3).fixed(), y=ints(4, 1, low=0, high=5))


@cases(f"{NN}.KLDivLoss")
def _(c):
    c.layer("sum", True)(normal(3, 4), normal(3, 4).fixed())


@cases(f"{NN}.PReLU")
def _(c):
    c.layer(2, weight_attr=of("paddle.nn.initializer.Constant(0.5)"))(normal(2, 2, 3))


@cases(f"{NN}.SmoothL1Loss")
def _(c):
    c.layer(delta=0.5)(normal(3, 4), normal(3, 4))
    c.layer("sum", 2.0, False)(normal(3, 4), normal(3, 4))


@cases(f"{NN}.Upsample")
def _(c):
    c.layer([5, 7], mode="bilinear", align_mode=1)(normal(1, 2, 3, 4))
    c.layer([5, 7], data_format="NHWC")(normal(1, 3, 4, 2))
    c.layer(scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)(normal(1, 2, 3, 4))


for _name in ("UpsamplingBilinear2D", "UpsamplingNearest2D"):

    @cases(f"{NN}.{_name}")
    def _(c):
        c.layer([5, 7], data_format="NHWC")(normal(1, 3, 4, 2))


@cases(f"{NN}.TransformerDecoderLayer")
def _(c):
    c.layer(4, 2, 6, 0.0, layer_norm_eps=1e-3)(normal(1, 3, 4), normal(1, 2, 4))


@check(f"{NN}.Transformer", traits=("float32", "gradient"))
def a_transformer_takes_dropouts_and_a_decoder(paddle, np, rng):
    nn = paddle.nn
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6, 0.0), 1)
    model = nn.Transformer(4, 2, 1, 1, 6, 0.0, attn_dropout=0.1, act_dropout=0.2)
    other = nn.Transformer(4, 2, 1, custom_decoder=decoder, dropout=0.0, dim_feedforward=6)
    x, y = (paddle.to_tensor(rng.standard_normal((1, n, 4)).astype("float32")) for n in (3, 2))
    outputs = [m(x, y) for m in (model, other)]
    outputs[1].sum().backward()
    return outputs, [k for k, _ in other.named_parameters()], {"grad": decoder.layers[0].linear1.weight.grad}


# --- the base of layers


@check(
    "paddle.nn.Layer.set_state_dict",
    "paddle.nn.Layer.set_dict",
    "paddle.nn.Layer.to_static_state_dict",
    "paddle.nn.Layer.named_buffers",
    "paddle.nn.Layer.to",
)
def states_are_listed_and_taken_by_either_name(paddle, np, rng):
    class Model(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner = paddle.nn.Linear(2, 3)
            self.register_buffer("a", paddle.to_tensor([1.0, 1.0]))
            self._buffers["a"].name = "mine"
            self.register_buffer("c", paddle.zeros([1], "int64"), persistable=False)
            self._buffers["b"] = self._buffers["a"]

    model = Model()
    by_parameter = {p.name: paddle.full_like(p, i) for i, p in enumerate(model.parameters())}
    found = [[list(part) for part in set_by(by_parameter, use_structured_name=False)] for set_by in (model.set_state_dict, model.set_dict)]
    first = {"mine": 1}
    model.to_static_state_dict(first, False, "p.")
    listed = model.to_static_state_dict(structured_name_prefix="p.", use_hook=False, keep_vars=False)
    buffers = [[k for k, _ in model.named_buffers(remove_duplicate=twice)] for twice in (True, False)]
    moved = model.to("cpu", "float64", True), model.to(blocking=False, non_blocking=False, dtype="float32")
    return (
        found,
        list(model.parameters()),
        sorted(first),
        {k: type(v).__name__ for k, v in listed.items()},
        buffers,
        [m is model for m in moved],
    )


@check("paddle.nn.Layer.bfloat16", "paddle.nn.Layer.float16", traits=("float32", "float64"))
def halves_leave_layers_out(paddle, np, rng):
    found = []
    for kind in ("bfloat16", "float16"):
        model = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.BatchNorm1D(3), paddle.nn.Conv2D(1, 1, 1))
        found.append(caught(lambda model=model, kind=kind: getattr(model, kind)(excluded_layers=[paddle.nn.Linear])))
        found.append([str(p.dtype) for p in model.parameters()])
    return found


@check("paddle.nn.Layer.create_parameter", "paddle.nn.Layer.create_variable", "paddle.nn.Layer.register_forward_post_hook")
def parts_are_made_with_all_options(paddle, np, rng):
    layer = paddle.nn.Linear(2, 2)
    parameter = layer.create_parameter([2, 3], device="cpu")
    kept = layer.create_variable("a_name", True, "float64")
    seen = []
    layer.register_forward_post_hook(lambda *a: seen.append(len(a)), always_call=True)
    layer(paddle.ones([1, 2]))
    failed = caught(lambda: layer(paddle.ones([1, 3])))
    return parameter, kept.persistable, str(kept.dtype), kept.name, seen, type(failed).__name__


# --- training


@check(
    "paddle.nn.ClipGradByGlobalNorm", "paddle.optimizer.SGD", "paddle.optimizer.Adam", "paddle.optimizer.Adam.clear_grad",
    "paddle.optimizer.SGD.minimize", traits=("float32", "odd"),
)  # fmt: skip
def optimizers_take_their_other_options(paddle, np, rng):
    found = []
    for kind in ("SGD", "Adam"):
        layer, other = paddle.nn.Linear(3, 2), paddle.nn.Linear(2, 1)
        clip = paddle.nn.ClipGradByGlobalNorm(0.5, auto_skip_clip=True)
        optimizer = getattr(paddle.optimizer, kind)(
            0.5, parameters=layer.parameters() + other.parameters(), grad_clip=clip, multi_precision=True
        )
        for _ in range(2):
            loss = other(layer(paddle.to_tensor(rng.standard_normal((4, 3)).astype("float32")))).mean()
            loss.backward()
            optimizer.minimize(loss, None, layer.parameters(), {other.bias.name})
            found.append([p.detach().clone() for p in layer.parameters() + other.parameters()])
            optimizer.clear_grad(set_to_zero=False)
            found.append([p.grad is None for p in layer.parameters()])
    return found


@check("paddle.disable_static")
def static_mode_is_left_for_a_place(paddle, np, rng):
    paddle.enable_static()
    paddle.disable_static(paddle.CPUPlace())
    return paddle.in_dynamic_mode(), str(paddle.ones([1]).place)


# --- transforms

T = "paddle.vision.transforms"
KEYED = {
    "CenterCrop": "4", "ColorJitter": "0.4, 0.4, 0.4, 0.1", "Grayscale": "",
    "Normalize": "[0.5] * 3, [0.5] * 3, to_rgb=True, data_format='HWC'", "Pad": "1, 0, 'edge'", "RandomCrop": "4",
    "RandomHorizontalFlip": "1.0", "RandomResizedCrop": "4, interpolation='nearest'", "RandomRotation": "20, center=(2, 3)",
    "RandomVerticalFlip": "1.0", "Resize": "5, 'nearest'", "ToTensor": "", "Transpose": "",
}  # fmt: skip


@check(*[f"{T}.{name}" for name in (*KEYED, "BaseTransform")], traits=("uint8", "float32", "odd"))
def transforms_change_the_images_among_what_comes(paddle, np, rng):
    from PIL import Image

    transforms = paddle.vision.transforms
    first, second = (Image.fromarray(rng.integers(0, 256, (7, 8, 3)).astype("uint8")) for _ in range(2))
    found = {}
    for name, options in KEYED.items():
        random.seed(3)
        np.random.seed(3)
        transform = eval(f"T.{name}({options + ', ' * bool(options)}keys=('image', 'image'))", {"T": transforms})
        found[name] = [np.asarray(image) for image in transform((first, second))]
    return found


@check(f"{T}.BaseTransform")
def a_transform_knows_its_keys(paddle, np, rng):
    transform = paddle.vision.transforms.BaseTransform(("image", "mask"))
    return transform.keys, caught(lambda: paddle.vision.transforms.BaseTransform("image"))
