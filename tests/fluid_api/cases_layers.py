"""Functions of `fluid.layers`: values, levels and gradients."""

from tests.fluid_api.table import caught, check

L = "paddle.fluid.layers."


def fed(fluid, np, value):
    """A feed: an array as it is, a pair of rows and lengths as a tensor of sequences."""
    if isinstance(value, tuple):
        return fluid.create_lod_tensor(value[0], value[1], fluid.CPUPlace())
    return value


def given(fluid, value, name):
    """A variable for a feed, with a free first axis and gradients where it has floats."""
    array, lengths = value if isinstance(value, tuple) else (value, [])
    made = fluid.layers.data(name, list(array.shape[1:]), dtype=str(array.dtype), lod_level=len(lengths))
    made.stop_gradient = array.dtype.kind != "f"
    return made


def outcome(fluid, np, function, *inputs, **named):
    """What a function gives for inputs, and the gradients of a weighed sum of it with respect to those of floats."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        variables = [given(fluid, value, f"x{i}") for i, value in enumerate(inputs)]
        made = function(fluid.layers, *variables)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        wanted, kinds = [], fluid.core.VarDesc.VarType
        if made[0].dtype in (kinds.FP32, kinds.FP64) and not made[0].stop_gradient:
            weighed = fluid.layers.scale(fluid.layers.square(made[0]), 0.5, 0.3)
            wanted = fluid.gradients(fluid.layers.reduce_sum(weighed), [v for v in variables if not v.stop_gradient])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feed = {f"x{i}": fed(fluid, np, value) for i, value in enumerate(inputs)}
        feed.update(named)
        there = [v for v in wanted if v is not None]
        values = exe.run(feed=feed, fetch_list=made + there, return_numpy=False)
        return {
            "rank": [len(v.shape) for v in made], "values": [np.array(v) for v in values[: len(made)]],
            "lengths": [v.recursive_sequence_lengths() for v in values[: len(made)]],
            "gradients": [np.array(v) for v in values[len(made) :]], "none": [v is None for v in wanted],
        }  # fmt: skip


def rows(np, lengths, *columns, **more):
    """Sequences of these lengths."""
    count = sum(lengths[-1])
    draws = np.random.RandomState(more.get("seed", 0))
    if more.get("whole"):
        return draws.randint(0, 9, (count,) + columns).astype("int64"), lengths
    return draws.uniform(-1, 1, (count,) + columns).astype("float32"), lengths


@check(L + "sequence_expand", L + "sequence_expand_as")
def sequences_are_expanded(fluid, np):
    flat = rows(np, [[1, 1, 1]], 2)[0]
    one, two = rows(np, [[2, 1, 3]], 2, seed=1), rows(np, [[1, 2], [2, 3, 1]], 1, seed=2)
    deep = rows(np, [[2, 0, 1], [1, 3, 2]], 1, seed=3)
    return {
        "rows": outcome(fluid, np, lambda L, x, y: L.sequence_expand(x, y), flat, one),
        "rows by a level": outcome(fluid, np, lambda L, x, y: L.sequence_expand(x, y, ref_level=0), flat[:2], two),
        "rows by the last": outcome(fluid, np, lambda L, x, y: L.sequence_expand(x, y, ref_level=-1), flat, two),
        "sequences": outcome(fluid, np, lambda L, x, y: L.sequence_expand(x, y, 0), one, rows(np, [[2, 1, 2]], 1, seed=4)),
        "sequences by a level": outcome(fluid, np, lambda L, x, y: L.sequence_expand(x, y, 0), one, deep),
        "sequences of none": outcome(fluid, np, lambda L, x, y: L.sequence_expand(x, y), rows(np, [[2, 1, 1]], 2), deep),
        "as": outcome(fluid, np, lambda L, x, y: L.sequence_expand_as(x, y), flat, one),
    }  # fmt: skip


@check(*[L + "sequence_" + n for n in ("concat", "reverse", "reshape", "slice", "pad", "unpad", "mask", "enumerate")])
def sequences_are_rearranged(fluid, np):
    one, other = rows(np, [[2, 1, 3]], 2, seed=1), rows(np, [[1, 2, 1]], 2, seed=5)
    zero, row = np.array([0.5], "float32"), np.array([[[3]], [[1]], [[2]]], "int64")
    padded = rows(np, [[1, 1, 1]], 4, 2)[0]
    first, count = np.array([[1], [0], [1]], "int64"), np.array([[1], [1], [2]], "int64")
    return {
        "concat": outcome(fluid, np, lambda L, x, y: L.sequence_concat([x, y]), one, other),
        "three": outcome(fluid, np, lambda L, x, y: L.sequence_concat([x, y, x]), one, other),
        "reverse": outcome(fluid, np, lambda L, x: L.sequence_reverse(x), one),
        "reshape": outcome(fluid, np, lambda L, x: L.sequence_reshape(x, 4), rows(np, [[2, 4]], 2)),
        "narrow": outcome(fluid, np, lambda L, x: L.sequence_reshape(x, 1), one),
        "slice": outcome(fluid, np, lambda L, x, a, b: L.sequence_slice(x, a, b), one, first, count),
        "pad": outcome(fluid, np, lambda L, x: L.sequence_pad(x, L.assign(zero)), one),
        "pad more": outcome(fluid, np, lambda L, x: L.sequence_pad(x, L.assign(np.array([7.0, -1.0], "float32")), maxlen=4), one),
        "unpad": outcome(fluid, np, lambda L, x, n: L.sequence_unpad(x, L.reshape(n, [-1])), padded, row[:, 0]),
        "mask": outcome(fluid, np, lambda L, n: L.sequence_mask(n, 4), row[:, 0]),
        "mask of floats": outcome(fluid, np, lambda L, n: L.sequence_mask(L.reshape(n, [-1]), 3, "float32"), row),
        "enumerate": outcome(fluid, np, lambda L, x: L.sequence_enumerate(x, 3, 7), rows(np, [[2, 1, 3]], 1, whole=True)),
    }  # fmt: skip


@check(L + "lod_reset")
def sequences_get_other_levels(fluid, np):
    one, flat = rows(np, [[2, 1, 3]], 2, seed=1), rows(np, [[1] * 6], 2)[0]
    return {
        "offsets": outcome(fluid, np, lambda L, x: L.sequence_pool(L.lod_reset(x, target_lod=[0, 4, 6]), "sum"), one),
        "levels": outcome(fluid, np, lambda L, x, y: L.lod_reset(x, y), flat, one),
        "values": outcome(fluid, np, lambda L, x, y: L.lod_reset(x, L.reshape(y, [-1])), flat, np.array([[0], [1], [6]], "int32")),
        "neither": caught(lambda: fluid.layers.lod_reset(fluid.layers.data("x", [1])), "both none"),
    }  # fmt: skip


def started(np, name, shape):
    """A parameter whose numbers both know."""
    return {"name": name, "values": np.random.RandomState(len(name)).uniform(-0.5, 0.5, shape).astype("float32")}


def attr(fluid, np, name, *shape):
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(started(np, name, shape)["values"]))


@check(L + "dynamic_lstm", L + "dynamic_lstmp", L + "dynamic_gru")
def recurrent_layers_go_through_sequences(fluid, np):
    def lstm(bias, **more):
        return lambda L, x, *first: L.dynamic_lstm(
            x, 8, *first, param_attr=attr(fluid, np, "weight", 2, 8), bias_attr=attr(fluid, np, "bias", 1, bias), **more)

    def lstmp(**more):
        given = [fluid.ParamAttr(initializer=fluid.initializer.Constant(0.3)), attr(fluid, np, "bias", 1, 14)]
        return lambda L, x: L.dynamic_lstmp(x, 8, 3, *given, **more)

    def gru(**more):
        return lambda L, x, *first: L.dynamic_gru(
            x, 2, attr(fluid, np, "weight", 2, 6), attr(fluid, np, "bias", 1, 6), h_0=first[0] if first else None, **more)

    eight, six, first = rows(np, [[2, 4, 1]], 8), rows(np, [[1, 3, 2]], 6), rows(np, [[1, 1, 1]], 2)[0]
    return {
        "lstm": outcome(fluid, np, lstm(14), eight), "without peepholes": outcome(fluid, np, lstm(8, use_peepholes=False), eight),
        "backwards": outcome(fluid, np, lstm(14, is_reverse=True), eight),
        "with first states": outcome(fluid, np, lstm(14), eight, first, first),
        "activations": outcome(fluid, np, lstm(14, candidate_activation="relu", cell_activation="identity"), eight),
        "lstmp": outcome(fluid, np, lstmp(), eight), "clipped": outcome(fluid, np, lstmp(cell_clip=0.2, proj_clip=0.15), eight),
        "gru": outcome(fluid, np, gru(), six), "gru backwards": outcome(fluid, np, gru(is_reverse=True, origin_mode=True), six),
        "gru with a first state": outcome(fluid, np, gru(candidate_activation="relu"), six, first),
    }  # fmt: skip


@check(L + "gru_unit", L + "lstm_unit")
def steps_of_recurrent_layers(fluid, np):
    x, y, h, c = (rows(np, [[1, 1, 1]], n, seed=i)[0] for i, n in enumerate((6, 3, 2, 2)))
    weights = (lambda: [attr(fluid, np, "weight", 2, 6), attr(fluid, np, "bias", 1, 6)])
    return {
        "gru": outcome(fluid, np, lambda L, x, h: L.gru_unit(x, h, 6, *weights()), x, h),
        "gru of the paper": outcome(fluid, np, lambda L, x, h: L.gru_unit(x, h, 6, *weights(), origin_mode=True), x, h),
        "lstm": outcome(fluid, np, lambda L, y, h, c: L.concat(list(L.lstm_unit(
            y, h, c, 0.5, attr(fluid, np, "weight", 5, 8), attr(fluid, np, "bias", 8))), axis=1), y, h, c),
    }  # fmt: skip


@check(*[L + n for n in ("log_loss", "rank_loss", "margin_rank_loss", "bpr_loss", "label_smooth", "dice_loss", "npair_loss", "cos_sim")])
def losses_of_rows(fluid, np):
    share, left, right = np.array([[0.2], [0.7], [0.4]], "float32"), *[rows(np, [[1, 1, 1]], 1, seed=i)[0] for i in (1, 2)]
    label, classes = np.array([[1], [0], [1]], "float32"), np.array([[2], [0], [3]], "int64")
    scores, other = (rows(np, [[1, 1, 1]], 4, seed=i)[0] for i in (3, 4))
    dense = np.eye(4, dtype="float32")[[1, 3, 0]]

    def fixed(L):
        whole = [L.data(n, [3, 4], append_batch_size=False) for n in ("anchor", "positive")]
        return L.npair_loss(*whole, L.assign(np.array([0, 1, 0], "float32")), 0.1)

    return {
        "log": outcome(fluid, np, lambda L, x, y: L.log_loss(x, y), share, label),
        "rank": outcome(fluid, np, lambda L, y, a, b: L.rank_loss(y, a, b), label, left, right),
        "margin": outcome(fluid, np, lambda L, y, a, b: L.margin_rank_loss(y, a, b, 0.3), label * 2 - 1, left, right),
        "bpr": outcome(fluid, np, lambda L, x, y: L.bpr_loss(x, y), scores, classes),
        "smooth": outcome(fluid, np, lambda L, x: L.label_smooth(x, epsilon=0.2), dense),
        "smooth to": outcome(fluid, np, lambda L, x: L.label_smooth(x, L.assign(np.float32([[0.1, 0.2, 0.3, 0.4]])), 0.2), dense),
        "dice": outcome(fluid, np, lambda L, x, y: L.dice_loss(L.softmax(x), y), scores, classes),
        "npair": outcome(fluid, np, fixed, anchor=scores, positive=other),
        "cosine": outcome(fluid, np, lambda L, x, y: L.cos_sim(x, y), scores, other),
        "cosine to one": outcome(fluid, np, lambda L, x: L.cos_sim(x, L.assign(np.float32([[0.1, 0.2, -0.3, 0.4]]))), scores),
    }  # fmt: skip


@check(*[L + n for n in ("hard_swish", "mish", "selu", "soft_relu", "log1p", "cumsum", "maxout")])
def functions_of_elements(fluid, np):
    x = rows(np, [[3, 3]], 4)[0] * 4
    return {
        "hard_swish": outcome(fluid, np, lambda L, x: L.hard_swish(x, 5.0, 5.0, 2.0), x),
        "selu": outcome(fluid, np, lambda L, x: L.selu(x), x), "selu by hand": outcome(fluid, np, lambda L, x: L.selu(x, 1.2, 0.5), x),
        "soft_relu": outcome(fluid, np, lambda L, x: L.soft_relu(x, 9.0), x),
        "log1p": outcome(fluid, np, lambda L, x: L.log1p(L.square(x)), x), "cumsum": outcome(fluid, np, lambda L, x: L.cumsum(x), x),
        "cumsum of rows": outcome(fluid, np, lambda L, x: L.cumsum(x, axis=0, exclusive=True), x),
        "cumsum back": outcome(fluid, np, lambda L, x: L.cumsum(x, 1, reverse=True), x),
        "maxout": outcome(fluid, np, lambda L, x: L.maxout(L.reshape(x, [-1, 4, 1, 1]), 2), x),
    }  # fmt: skip


IMAGES = (
    "conv2d_transpose", "conv3d", "pool3d", "adaptive_pool2d", "image_resize", "resize_bilinear", "resize_nearest", "resize_trilinear",
    "image_resize_short", "pad", "pad2d", "pixel_shuffle", "shuffle_channel", "grid_sampler", "group_norm", "instance_norm", "lrn",
    "affine_channel", "prelu",
)  # fmt: skip


@check(*[L + n for n in IMAGES])
def functions_of_images(fluid, np):
    x, wide = (np.random.RandomState(i).uniform(-1, 1, s).astype("float32") for i, s in enumerate(((1, 4, 3, 2), (1, 2, 3, 2, 2))))
    half = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    grid = np.random.RandomState(2).uniform(-1, 1, (1, 3, 2, 2)).astype("float32")
    ways = {
        "conv2d_transpose": lambda L, x: L.conv2d_transpose(x, 2, filter_size=2, stride=2, param_attr=half, act="tanh"),
        "to a size": lambda L, x: L.conv2d_transpose(x, 2, output_size=[5, 3], padding=1, stride=2, groups=2, param_attr=half),
        "adaptive_pool2d": lambda L, x: L.adaptive_pool2d(x, [2, 1], "avg"),
        "adaptive_pool2d of most": lambda L, x: L.adaptive_pool2d(x, [2, 2], "max"),
        "resize_bilinear": lambda L, x: L.resize_bilinear(x, [4, 5]),
        "between pixels": lambda L, x: L.image_resize(x, scale=1.7, align_corners=False, align_mode=0),
        "resize_nearest": lambda L, x: L.resize_nearest(x, [5, 3]), "short": lambda L, x: L.image_resize_short(x, 4),
        "pad": lambda L, x: L.pad(x, [0, 1, 0, 0, 1, 0, 0, 2], 0.3), "pad2d": lambda L, x: L.pad2d(x, [1, 2, 1, 1], "reflect"),
        "pad2d of edges": lambda L, x: L.pad2d(x, [0, 2, 1, 0], "edge"), "pixel_shuffle": lambda L, x: L.pixel_shuffle(x, 2),
        "shuffle_channel": lambda L, x: L.shuffle_channel(x, 2), "group_norm": lambda L, x: L.group_norm(x, 2),
        "instance_norm": lambda L, x: L.instance_norm(x), "lrn": lambda L, x: L.lrn(x, n=3, k=1.5, alpha=0.3),
        "affine_channel": lambda L, x: L.affine_channel(x, *[L.create_parameter([4], "float32", attr=half) for _ in range(2)]),
        "prelu": lambda L, x: L.prelu(x, "all"), "prelu of channels": lambda L, x: L.prelu(x, "channel", half),
        "prelu of elements": lambda L, x: L.prelu(x, "element", half),
    }  # fmt: skip
    found = {name: outcome(fluid, np, way, x) for name, way in ways.items()}
    found["grid"] = outcome(fluid, np, lambda L, x, g: L.grid_sampler(x, g), x, grid)
    found["conv3d"] = outcome(fluid, np, lambda L, x: L.conv3d(x, 2, [2, 1, 2], padding=[1, 0, 0], param_attr=half), wide)
    found["pool3d"] = outcome(fluid, np, lambda L, x: L.pool3d(x, 2, "avg", 1), wide)
    found["resize_trilinear"] = outcome(fluid, np, lambda L, x: L.resize_trilinear(x, [2, 3, 3]), wide)
    found["errors"] = [caught(lambda: fluid.layers.image_resize(fluid.layers.data("y", [3, 4, 4])), "must not be None"),
                       caught(lambda: fluid.layers.lrn(fluid.layers.data("z", [3])))]  # fmt: skip
    return found


@check(L + "less_than", L + "greater_than")
def comparisons_take_their_last_arguments_in_order(fluid, np):
    layers = fluid.layers
    x, y = layers.assign(np.float32([1, 5])), layers.assign(np.float32([2, 3]))
    into = layers.assign(np.array([False, True]))
    made = [layers.less_than(x, y, False), layers.less_than(x, y, None, into), layers.less_than(x, y, cond=into)]
    values = fluid.Executor(fluid.CPUPlace()).run(fluid.default_main_program(), fetch_list=made)
    return [values, [m.name == into.name for m in made], layers.greater_than(x, y, into).name == into.name]


@check(L + "while_loop")
def loops_by_functions_know_some_sizes_only_when_they_run(fluid, np):
    F = fluid.layers
    x, s = F.data("x", [4], dtype="float32"), F.data("s", [2], dtype="float32", lod_level=1)
    last = F.fill_constant([1], "int64", 3)

    def repeated(body, *values):
        def step(i, *given):
            return [F.increment(i, 1), *body(*given)]

        return F.while_loop(lambda i, *_: F.less_than(i, last), step, [F.fill_constant([1], "int64", 0), *values])[1:]

    found = repeated(lambda h, y: (F.elementwise_add(h, y), F.elementwise_add(y, h)), F.fill_constant([3, 4], "float32", 1.0), F.scale(x))
    found += repeated(lambda h: (F.elementwise_add(F.tanh(h), x),), F.fill_constant([3, 4], "float32", 1.0))
    two = F.fill_constant([2, 4], "float32", 1.0)
    found += repeated(lambda h, y: (F.scale(h, 0.5), F.elementwise_add(y, F.reduce_sum(h, 0))), two, F.scale(x))
    found += repeated(lambda r: (F.sequence_reverse(r),), s)
    feed = {"x": np.arange(12).reshape(3, 4).astype("float32") / 10, "s": fed(fluid, np, rows(np, [[2, 1, 3]], 2))}
    made = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[*found, F.sequence_pool(found[-1], "sum")], return_numpy=False)
    return {"values": [np.array(m) for m in made], "lengths": [m.recursive_sequence_lengths() for m in made]}


@check(L + "auc")
def areas_of_all_runs_and_of_the_last_ones(fluid, np):
    found = []
    for steps in (1, 3, 0):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            scores, label = fluid.layers.data("p", [2], dtype="float32"), fluid.layers.data("y", [1], dtype="int64")
            area, recent, counts = fluid.layers.auc(scores, label, num_thresholds=20, slide_steps=steps)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            found.append([[v.name for v in counts], [list(v.shape) for v in counts], area.name, recent.name])
            draws = np.random.RandomState(1)
            for _ in range(4):
                likely = draws.uniform(0, 1, (8, 1)).astype("float32")
                feed = {"p": np.concatenate([1 - likely, likely], 1), "y": draws.randint(0, 2, (8, 1)).astype("int64")}
                found.append(exe.run(feed=feed, fetch_list=[area, recent] + counts))
    return found


@check(L + "sequence_pool", L + "sequence_softmax")
def the_first_of_equal_rows_learns(fluid, np):
    """Whole numbers, of which many are equal; a sequence without rows has none."""
    found = {}
    for name, lengths in {"ragged": [3, 1, 5, 2], "one": [4], "some without rows": [0, 2, 0, 3]}.items():
        x = np.random.RandomState(len(lengths)).randint(-1, 2, (sum(lengths), 3)).astype("float32"), [lengths]
        found[name] = outcome(fluid, np, lambda L, x: L.sequence_pool(x, "max", pad_value=0.5), x)
        found[name + ", softmax"] = outcome(fluid, np, lambda L, x: L.sequence_softmax(x), (x[0][:, :1], x[1]))
    return found
