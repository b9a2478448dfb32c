"""Functions of `fluid.layers` on small inputs, by name: `CASES[name](fluid, L, D)`, where `D` declares an input.

Python 3.8 must be able to read this file, since no later one has Paddle 1.8.5.
"""

import numpy as np

_draws = np.random.RandomState(0)
INPUTS = {
    "a": _draws.uniform(-1, 1, (3, 4)).astype("float32"),
    "b": _draws.uniform(0.5, 1.5, (3, 4)).astype("float32"),
    "i": np.array([[1], [0], [3]], "int64"),
    "img": _draws.uniform(-1, 1, (2, 4, 6, 6)).astype("float32"),
    "v": _draws.uniform(-1, 1, (4,)).astype("float32"),
    "t": _draws.uniform(-1, 1, (2, 3, 4)).astype("float32"),
    "n": np.array([[4, -7, 5, 9], [2, 3, -4, 8], [1, 6, 7, -3]], "int32"),
    "m": np.array([[2, 3, -2, 4], [1, 2, 3, 5], [2, 4, -3, 2]], "int32"),
}
INPUTS["p"] = (np.exp(INPUTS["a"]) / np.exp(INPUTS["a"]).sum(1, keepdims=True)).astype("float32")


def run_function(fluid, case):
    """What a function gives, and the gradients of the sum of its squares: of the inputs and parameters that have one."""
    layers = fluid.layers
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()

    def declare(name):
        array = INPUTS[name]
        return layers.data(name=name, shape=list(array.shape), append_batch_size=False, dtype=str(array.dtype), stop_gradient=False)

    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        made = case(fluid, layers, declare)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        smooth = [v for v in made if str(v.dtype).split(".")[-1] in ("FP32", "float32") and not v.stop_gradient]
        block = main.global_block()
        if smooth:
            fluid.backward.append_backward(layers.sums([layers.reduce_sum(layers.square(v)) for v in smooth]))
        used = [name for name in INPUTS if block.has_var(name)]
        owners = used + sorted(p.name for p in block.all_parameters())
        gradients = [name + "@GRAD" for name in owners if block.has_var(name + "@GRAD")]
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for name, values in _values_of_parameters(block).items():
            scope.find_var(name).get_tensor().set(values, fluid.CPUPlace())
        found = exe.run(main, feed={name: INPUTS[name] for name in used}, fetch_list=made + gradients)
    return [np.asarray(a) for a in found[: len(made)]], dict(zip(gradients, map(np.asarray, found[len(made) :])))


def run_in_dygraph(fluid, case):
    """The same in dygraph mode."""
    kept, inputs, parameters, values = fluid.layer_helper.LayerHelper.create_parameter, {}, {}, {}

    def declare(name):
        if name not in inputs:
            inputs[name] = fluid.dygraph.to_variable(INPUTS[name])
            inputs[name].stop_gradient = INPUTS[name].dtype.kind != "f"
        return inputs[name]

    def create_parameter(*args, **options):
        made = kept(*args, **options)
        parameters[made.name] = made
        made.set_value(values[made.name])
        return made

    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        case(fluid, fluid.layers, lambda name: fluid.layers.data(
            name=name, shape=list(INPUTS[name].shape), append_batch_size=False, dtype=str(INPUTS[name].dtype)))
        values = _values_of_parameters(main.global_block())
    fluid.layer_helper.LayerHelper.create_parameter = create_parameter
    try:
        with fluid.dygraph.guard(), fluid.unique_name.guard():
            made = case(fluid, fluid.layers, declare)
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            smooth = [v for v in made if v.numpy().dtype == np.float32 and not v.stop_gradient]
            if smooth:
                fluid.layers.sums([fluid.layers.reduce_sum(fluid.layers.square(v)) for v in smooth]).backward()
            owners = {**inputs, **parameters}
            gradients = {name + "@GRAD": v.gradient() for name, v in owners.items() if not v.stop_gradient and v.gradient() is not None}
            return [v.numpy() for v in made], gradients
    finally:
        fluid.layer_helper.LayerHelper.create_parameter = kept


def _values_of_parameters(block):
    """Numbers for the parameters of a program, by their names."""
    draws = np.random.RandomState(3)
    parameters = sorted(block.all_parameters(), key=lambda parameter: parameter.name)
    return {p.name: draws.uniform(0.1, 0.6, [int(size) for size in p.shape]).astype("float32") for p in parameters}


CASES = {
    "abs": lambda fluid, L, D: L.abs(D("a")),
    "ceil": lambda fluid, L, D: L.ceil(D("a")),
    "cos": lambda fluid, L, D: L.cos(D("a")),
    "exp": lambda fluid, L, D: L.exp(D("a")),
    "floor": lambda fluid, L, D: L.floor(D("a")),
    "logsigmoid": lambda fluid, L, D: L.logsigmoid(D("a")),
    "relu": lambda fluid, L, D: L.relu(D("a")),
    "round": lambda fluid, L, D: L.round(D("a")),
    "sigmoid": lambda fluid, L, D: L.sigmoid(D("a")),
    "sign": lambda fluid, L, D: L.sign(D("a")),
    "sin": lambda fluid, L, D: L.sin(D("a")),
    "softplus": lambda fluid, L, D: L.softplus(D("a")),
    "softsign": lambda fluid, L, D: L.softsign(D("a")),
    "square": lambda fluid, L, D: L.square(D("a")),
    "tanh": lambda fluid, L, D: L.tanh(D("a")),
    "tanh_shrink": lambda fluid, L, D: L.tanh_shrink(D("a")),
    "erf": lambda fluid, L, D: L.erf(D("a")),
    "log": lambda fluid, L, D: L.log(D("p")),
    "reciprocal": lambda fluid, L, D: L.reciprocal(D("p")),
    "rsqrt": lambda fluid, L, D: L.rsqrt(D("p")),
    "sqrt": lambda fluid, L, D: L.sqrt(D("p")),
    "acos": lambda fluid, L, D: L.acos(D("p")),
    "asin": lambda fluid, L, D: L.asin(D("p")),
    "atan": lambda fluid, L, D: L.atan(D("p")),
    "leaky_relu": lambda fluid, L, D: L.leaky_relu(D("a"), 0.1),
    "elu": lambda fluid, L, D: L.elu(D("a"), 0.7),
    "relu6": lambda fluid, L, D: L.relu6(D("a"), 0.4),
    "hard_sigmoid": lambda fluid, L, D: L.hard_sigmoid(D("a")),
    "hard_shrink": lambda fluid, L, D: L.hard_shrink(D("a"), 0.3),
    "softshrink": lambda fluid, L, D: L.softshrink(D("a"), 0.3),
    "thresholded_relu": lambda fluid, L, D: L.thresholded_relu(D("a"), 0.2),
    "swish": lambda fluid, L, D: L.swish(D("a"), 1.5),
    "gelu": lambda fluid, L, D: L.gelu(D("a")),
    "gelu_a": lambda fluid, L, D: L.gelu(D("a"), True),
    "brelu": lambda fluid, L, D: L.brelu(D("a"), -0.2, 0.3),
    "stanh": lambda fluid, L, D: L.stanh(D("a")),
    "pow": lambda fluid, L, D: L.pow(D("b"), 2.5),
    "clip": lambda fluid, L, D: L.clip(D("a"), -0.3, 0.4),
    "clip_by_norm": lambda fluid, L, D: L.clip_by_norm(D("a"), 0.5),
    "clip_by_norm2": lambda fluid, L, D: L.clip_by_norm(D("a"), 50.0),
    "ceil2": lambda fluid, L, D: L.ceil(D("b")),
    "ew_add": lambda fluid, L, D: L.elementwise_add(D("b"), D("p")),
    "ew_sub": lambda fluid, L, D: L.elementwise_sub(D("b"), D("p")),
    "ew_mul": lambda fluid, L, D: L.elementwise_mul(D("b"), D("p")),
    "ew_div": lambda fluid, L, D: L.elementwise_div(D("b"), D("p")),
    "ew_max": lambda fluid, L, D: L.elementwise_max(D("b"), D("p")),
    "ew_min": lambda fluid, L, D: L.elementwise_min(D("b"), D("p")),
    "ew_pow": lambda fluid, L, D: L.elementwise_pow(D("b"), D("p")),
    "ewv_add": lambda fluid, L, D: L.elementwise_add(D("b"), L.abs(D("v")), act="relu"),
    "ewv_sub": lambda fluid, L, D: L.elementwise_sub(D("b"), L.abs(D("v")), act="relu"),
    "ewv_mul": lambda fluid, L, D: L.elementwise_mul(D("b"), L.abs(D("v")), act="relu"),
    "ewv_div": lambda fluid, L, D: L.elementwise_div(D("b"), L.abs(D("v")), act="relu"),
    "ewv_max": lambda fluid, L, D: L.elementwise_max(D("b"), L.abs(D("v")), act="relu"),
    "ewv_min": lambda fluid, L, D: L.elementwise_min(D("b"), L.abs(D("v")), act="relu"),
    "ewv_pow": lambda fluid, L, D: L.elementwise_pow(D("b"), L.abs(D("v")), act="relu"),
    "ew_axis": lambda fluid, L, D: L.elementwise_add(D("t"), L.reduce_sum(D("a"), dim=1), axis=1),
    "ew_mod": lambda fluid, L, D: L.elementwise_mod(D("n"), D("m")),
    "ew_floordiv": lambda fluid, L, D: L.elementwise_floordiv(D("n"), D("m")),
    "int_div": lambda fluid, L, D: L.elementwise_div(D("n"), D("m")),
    "less_than": lambda fluid, L, D: L.less_than(D("a"), D("p")),
    "less_equal": lambda fluid, L, D: L.less_equal(D("a"), D("p")),
    "greater_than": lambda fluid, L, D: L.greater_than(D("a"), D("p")),
    "greater_equal": lambda fluid, L, D: L.greater_equal(D("a"), D("p")),
    "equal": lambda fluid, L, D: L.equal(D("a"), D("p")),
    "not_equal": lambda fluid, L, D: L.not_equal(D("a"), D("p")),
    "logic": lambda fluid, L, D: (
        [
            L.logical_and(L.less_than(D("a"), D("p")), L.less_than(D("p"), D("b"))),
            L.logical_not(L.less_than(D("a"), D("p"))),
            L.logical_xor(L.less_than(D("a"), D("p")), L.less_than(D("p"), D("b"))),
        ]
    ),
    "r_sum": lambda fluid, L, D: L.reduce_sum(D("t")),
    "r_mean": lambda fluid, L, D: L.reduce_mean(D("t")),
    "r_max": lambda fluid, L, D: L.reduce_max(D("t")),
    "r_min": lambda fluid, L, D: L.reduce_min(D("t")),
    "r_prod": lambda fluid, L, D: L.reduce_prod(D("t")),
    "rd_sum": lambda fluid, L, D: L.reduce_sum(D("t"), dim=1),
    "rd_mean": lambda fluid, L, D: L.reduce_mean(D("t"), dim=1),
    "rd_max": lambda fluid, L, D: L.reduce_max(D("t"), dim=1),
    "rd_min": lambda fluid, L, D: L.reduce_min(D("t"), dim=1),
    "rd_prod": lambda fluid, L, D: L.reduce_prod(D("t"), dim=1),
    "rk_sum": lambda fluid, L, D: L.reduce_sum(D("t"), dim=[0, -1], keep_dim=True),
    "rk_mean": lambda fluid, L, D: L.reduce_mean(D("t"), dim=[0, -1], keep_dim=True),
    "rk_max": lambda fluid, L, D: L.reduce_max(D("t"), dim=[0, -1], keep_dim=True),
    "rk_min": lambda fluid, L, D: L.reduce_min(D("t"), dim=[0, -1], keep_dim=True),
    "rk_prod": lambda fluid, L, D: L.reduce_prod(D("t"), dim=[0, -1], keep_dim=True),
    "ra_sum": lambda fluid, L, D: L.reduce_sum(D("t"), dim=[0, 1, 2]),
    "ra_mean": lambda fluid, L, D: L.reduce_mean(D("t"), dim=[0, 1, 2]),
    "ra_max": lambda fluid, L, D: L.reduce_max(D("t"), dim=[0, 1, 2]),
    "ra_min": lambda fluid, L, D: L.reduce_min(D("t"), dim=[0, 1, 2]),
    "ra_prod": lambda fluid, L, D: L.reduce_prod(D("t"), dim=[0, 1, 2]),
    "r_all": lambda fluid, L, D: [L.reduce_all(L.less_than(D("a"), D("b"))), L.reduce_any(L.less_than(D("a"), D("p")), dim=0)],
    "mean": lambda fluid, L, D: L.mean(D("t")),
    "cast": lambda fluid, L, D: L.cast(D("b"), "int32"),
    "cast64": lambda fluid, L, D: L.cast(D("n"), "float64"),
    "concat": lambda fluid, L, D: L.concat([D("a"), D("b")], axis=1),
    "sums": lambda fluid, L, D: L.sums([D("a"), D("b"), D("p")]),
    "sum": lambda fluid, L, D: L.sum([D("a"), D("b")]),
    "assign": lambda fluid, L, D: L.assign(D("a")),
    "assign_np": lambda fluid, L, D: L.assign(np.array([[1.5, 2], [3, 4]], "float32")),
    "assign_i": lambda fluid, L, D: L.assign(np.array([1, 2], "int64")),
    "fill": lambda fluid, L, D: L.fill_constant([2, 3], "int64", 7),
    "fill_f": lambda fluid, L, D: L.fill_constant([2], "float64", 0.1),
    "fcbsl": lambda fluid, L, D: L.fill_constant_batch_size_like(D("a"), [-1, 5], "float32", 2.0),
    "ones": lambda fluid, L, D: [L.ones([2, 3], "int32"), L.zeros([2], "float32"), L.ones_like(D("a")), L.zeros_like(D("a"))],
    "argmax": lambda fluid, L, D: [L.argmax(D("a"), axis=1), L.argmin(D("a"))],
    "argsort": lambda fluid, L, D: L.argsort(D("a"), axis=0),
    "argsort_d": lambda fluid, L, D: L.argsort(D("a"), descending=True),
    "reverse": lambda fluid, L, D: L.reverse(D("a"), [0, 1]),
    "range": lambda fluid, L, D: [L.range(1, 9, 2, "int64"), L.range(0.0, 1.0, 0.3, "float32")],
    "linspace": lambda fluid, L, D: L.linspace(0.0, 1.0, 5, "float32"),
    "eye": lambda fluid, L, D: [L.eye(3, 4), L.eye(2, batch_shape=[3])],
    "diag": lambda fluid, L, D: L.diag(L.assign(np.array([1.0, 2.0, 3.0], "float32"))),
    "fc3": lambda fluid, L, D: L.fc(D("t"), size=5, num_flatten_dims=2, act="sigmoid"),
    "fc1": lambda fluid, L, D: L.fc(D("t"), size=5),
    "fc_m1": lambda fluid, L, D: L.fc(D("t"), size=5, num_flatten_dims=-1),
    "fc2": lambda fluid, L, D: L.fc([D("a"), D("b")], size=5, bias_attr=False),
    "emb": lambda fluid, L, D: L.embedding(D("i"), size=[5, 3], padding_idx=0),
    "emb2": lambda fluid, L, D: L.embedding(D("i"), size=[5, 3], padding_idx=-2),
    "conv": lambda fluid, L, D: L.conv2d(D("img"), num_filters=4, filter_size=3, stride=2, padding=1, groups=2, act="tanh"),
    "conv_s": lambda fluid, L, D: L.conv2d(D("img"), 3, [3, 2], padding="SAME"),
    "conv_d": lambda fluid, L, D: L.conv2d(D("img"), 3, 3, dilation=2, padding=[1, 2]),
    "conv4": lambda fluid, L, D: L.conv2d(D("img"), 3, 3, padding=[1, 2, 0, 1]),
    "dwconv": lambda fluid, L, D: L.conv2d(D("img"), 4, 3, groups=4, use_cudnn=False),
    "conv_nhwc": lambda fluid, L, D: L.conv2d(L.transpose(D("img"), [0, 2, 3, 1]), 3, 3, data_format="NHWC"),
    "pool": lambda fluid, L, D: (
        [
            L.pool2d(D("img"), 2, "max", 2),
            L.pool2d(D("img"), 3, "avg", 2, 1),
            L.pool2d(D("img"), 3, "avg", 2, 1, exclusive=False),
            L.pool2d(D("img"), 3, "max", 2, 1, ceil_mode=True),
            L.pool2d(D("img"), pool_type="avg", global_pooling=True),
            L.pool2d(D("img"), pool_type="max", global_pooling=True),
        ]
    ),
    "bn": lambda fluid, L, D: L.batch_norm(D("img")),
    "bn_nhwc": lambda fluid, L, D: L.batch_norm(D("img"), data_layout="NHWC"),
    "bn2": lambda fluid, L, D: L.batch_norm(D("a")),
    "bn_glob": lambda fluid, L, D: L.batch_norm(D("img"), use_global_stats=True),
    "ln": lambda fluid, L, D: L.layer_norm(D("t"), begin_norm_axis=2),
    "ln1": lambda fluid, L, D: L.layer_norm(D("t"), scale=False, shift=False),
    "mul": lambda fluid, L, D: L.mul(D("t"), L.transpose(D("a"), [1, 0]), x_num_col_dims=2),
    "matmul": lambda fluid, L, D: (
        [
            L.matmul(D("a"), D("b"), transpose_y=True, alpha=0.5),
            L.matmul(D("v"), D("v")),
            L.matmul(D("t"), L.transpose(D("a"), [1, 0])),
            L.matmul(D("a"), D("v")),
        ]
    ),
    "topk": lambda fluid, L, D: L.topk(D("a"), 2),
    "softmax": lambda fluid, L, D: [L.softmax(D("a")), L.softmax(D("a"), axis=0)],
    "scale": lambda fluid, L, D: (
        [L.scale(D("a"), 2.0, 1.0), L.scale(D("a"), 2.0, 1.0, bias_after_scale=False, act="relu"), L.scale(D("n"), 2.0)]
    ),
    "l2n": lambda fluid, L, D: L.l2_normalize(D("a"), axis=1),
    "one_hot": lambda fluid, L, D: [L.one_hot(D("i"), 5), fluid.one_hot(D("i"), 5)],
    "reshape": lambda fluid, L, D: [L.reshape(D("t"), [0, -1]), L.reshape(D("t"), [-1, 0, 2, 2]), L.reshape(D("t"), [4, 6], act="relu")],
    "squeeze": lambda fluid, L, D: [L.squeeze(D("i"), [1]), L.unsqueeze(D("a"), [0, 2]), L.flatten(D("t"), 2), L.flatten(D("t"), 0)],
    "split": lambda fluid, L, D: L.split(D("a"), 2, 1) + L.split(D("a"), [1, -1], 0),
    "stack": lambda fluid, L, D: [L.stack([D("a"), D("b")], 1)] + L.unstack(D("a"), 0),
    "expand": lambda fluid, L, D: [L.expand(D("a"), [2, 3]), L.expand_as(D("a"), L.expand(D("a"), [2, 2]))],
    "slice": lambda fluid, L, D: [L.slice(D("t"), [0, 2], [0, -3], [1, -1]), L.shape(D("t"))],
    "gather": lambda fluid, L, D: (
        [
            L.gather(D("a"), L.assign(np.array([2, 0], "int64"))),
            L.scatter(D("a"), L.assign(np.array([2, 0], "int64")), L.slice(D("b"), [0], [0], [2])),
            L.scatter(D("a"), L.assign(np.array([2, 2], "int64")), L.slice(D("b"), [0], [0], [2]), overwrite=False),
        ]
    ),
    "ce": lambda fluid, L, D: (
        [
            L.cross_entropy(D("p"), D("i")),
            L.cross_entropy(D("p"), D("i"), ignore_index=3),
            L.cross_entropy(D("p"), L.softmax(D("b")), soft_label=True),
        ]
    ),
    "sqe": lambda fluid, L, D: L.square_error_cost(D("a"), D("b")),
    "mse": lambda fluid, L, D: L.mse_loss(D("a"), D("b")),
    "swce": lambda fluid, L, D: (
        [
            L.softmax_with_cross_entropy(D("a"), D("i")),
            L.softmax_with_cross_entropy(D("a"), L.softmax(D("b")), soft_label=True),
        ]
        + list(L.softmax_with_cross_entropy(D("a"), D("i"), return_softmax=True))
    ),
    "sce": lambda fluid, L, D: (
        [
            L.sigmoid_cross_entropy_with_logits(D("a"), D("p")),
            L.sigmoid_cross_entropy_with_logits(D("a"), L.cast(L.less_than(D("a"), D("p")), "float32"), normalize=True, ignore_index=0),
        ]
    ),
    "smooth": lambda fluid, L, D: [L.smooth_l1(D("a"), D("b")), L.smooth_l1(D("a"), D("b"), D("p"), D("p"), 2.0)],
    "huber": lambda fluid, L, D: L.huber_loss(D("a"), D("b"), 0.6),
    "kl": lambda fluid, L, D: [L.kldiv_loss(D("a"), D("p"), r) for r in ("mean", "sum", "batchmean", "none")],
    "acc": lambda fluid, L, D: [L.accuracy(D("p"), D("i")), L.accuracy(D("p"), D("i"), k=2)],
    "incr": lambda fluid, L, D: (
        [L.increment(L.fill_constant([1], "float32", 2.0), 0.5), L.increment(L.fill_constant([1], "int64", 2), in_place=False)]
    ),
    "glu": lambda fluid, L, D: fluid.nets.glu(D("a"), 1),
    "attn": lambda fluid, L, D: fluid.nets.scaled_dot_product_attention(D("t"), D("t"), D("t")),
    "op1": lambda fluid, L, D: (
        [
            D("a") + 1.0,
            1.0 - D("a"),
            D("a") * 2.0,
            D("a") / 2.0,
            2.0 / D("b"),
            D("b") ** 2.0,
            -D("a"),
            D("a") + D("v"),
            D("a") < D("b"),
            D("n") + 1,
            D("n") * 2,
        ]
    ),
}
