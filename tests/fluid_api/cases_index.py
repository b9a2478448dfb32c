"""The other functions in the index of `fluid.layers`, each over several shapes; many in one program."""

from tests.fluid_api.cases_detection import draw, still
from tests.fluid_api.cases_layers import L, attr, fed, given, outcome, rows
from tests.fluid_api.cases_places import each, whole
from tests.fluid_api.table import check


def together(fluid, np, functions, *inputs):
    """What each function gives for inputs, and the gradients of half its squares with respect to those of floats."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        variables = [given(fluid, value, f"x{i}") for i, value in enumerate(inputs)]
        kinds, results, names = fluid.core.VarDesc.VarType, [], []
        for name, function in functions.items():
            made = function(fluid.layers, *variables)
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            wanted = []
            if made[0].dtype in (kinds.FP32, kinds.FP64) and not made[0].stop_gradient:
                loss = fluid.layers.reduce_sum(fluid.layers.scale(fluid.layers.square(made[0]), 0.5))
                wanted = [v for v in fluid.gradients(loss, [v for v in variables if not v.stop_gradient]) if v is not None]
            results += made + wanted
            names += [name] * len(made) + [name + "'"] * len(wanted)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feed = {f"x{i}": fed(fluid, np, value) for i, value in enumerate(inputs)}
        found = exe.run(feed=feed, fetch_list=results, return_numpy=False)
        values = {}
        for name, value in zip(names, found):
            values.setdefault(name, []).append([np.array(value), value.recursive_sequence_lengths()])
        return values


SHAPES = (3, 4), (1, 6), (5, 3, 2)


@check(*[L + n for n in (
    "assign", "brelu", "clip", "clip_by_norm", "elu", "gelu", "hard_shrink", "hard_sigmoid", "leaky_relu", "logsigmoid", "ones_like", "pow",
    "relu", "relu6", "sigmoid", "sign", "softmax", "softplus", "softshrink", "softsign", "swish", "tanh", "tanh_shrink",
    "thresholded_relu", "zeros_like")])  # fmt: skip
def functions_of_one_tensor(fluid, np):
    functions = {
        "assign": lambda L, x: L.assign(x), "brelu": lambda L, x: L.brelu(x, -0.5, 1.5), "clip": lambda L, x: L.clip(x, -0.7, 1.1),
        "clip_by_norm": lambda L, x: still(L.clip_by_norm(x, 1.5)), "elu": lambda L, x: L.elu(x, 0.7), "gelu": lambda L, x: L.gelu(x),
        "hard_shrink": lambda L, x: L.hard_shrink(x, 0.4), "hard_sigmoid": lambda L, x: L.hard_sigmoid(x, 0.3, 0.4),
        "leaky_relu": lambda L, x: L.leaky_relu(x, 0.1), "logsigmoid": lambda L, x: L.logsigmoid(x), "relu": lambda L, x: L.relu(x),
        "ones_like": lambda L, x: L.ones_like(x), "pow": lambda L, x: L.pow(L.abs(x), 1.7), "relu6": lambda L, x: L.relu6(x, 1.3),
        "sigmoid": lambda L, x: L.sigmoid(x), "sign": lambda L, x: L.sign(x), "softmax": lambda L, x: L.softmax(x),
        "softmax along 1": lambda L, x: L.softmax(x, axis=1), "softplus": lambda L, x: L.softplus(x),
        "softshrink": lambda L, x: L.softshrink(x, 0.3), "softsign": lambda L, x: L.softsign(x), "swish": lambda L, x: L.swish(x),
        "tanh": lambda L, x: L.tanh(x), "tanh_shrink": lambda L, x: L.tanh_shrink(x), "zeros_like": lambda L, x: L.zeros_like(x),
        "thresholded_relu": lambda L, x: L.thresholded_relu(x, 0.6),
    }  # fmt: skip
    return [together(fluid, np, functions, draw(np, *shape) * 2) for shape in SHAPES]


@check(*[L + n for n in (
    "argmin", "expand", "flatten", "has_inf", "has_nan", "increment", "isfinite", "l2_normalize", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "reshape", "reverse", "split", "squeeze", "sum", "sums", "unsqueeze")])  # fmt: skip
def tensors_are_reduced_and_rearranged(fluid, np):
    functions = {
        "argmin": lambda L, x: L.argmin(x, 1), "expand": lambda L, x: L.expand(x, [2] + [1] * (len(x.shape) - 2) + [3]),
        "flatten": lambda L, x: L.flatten(x), "has_inf": lambda L, x: L.cast(L.has_inf(L.elementwise_div(x, L.zeros_like(x))), "int32"),
        "has_nan": lambda L, x: L.cast(L.has_nan(x), "int32"),
        "increment": lambda L, x: still(L.increment(L.mean(x), 2.5, in_place=False)),
        "isfinite": lambda L, x: L.cast(L.isfinite(x), "int32"), "l2_normalize": lambda L, x: L.l2_normalize(x, 1),
        "reduce_max": lambda L, x: L.reduce_max(x, 1), "reduce_mean": lambda L, x: L.reduce_mean(x, [-1], keep_dim=True),
        "reduce_min": lambda L, x: L.reduce_min(x, -1), "reduce_prod": lambda L, x: L.reduce_prod(x, 1),
        "reduce_sum": lambda L, x: L.reduce_sum(x), "reduce_sum of rows": lambda L, x: L.reduce_sum(x, 0),
        "reshape": lambda L, x: L.reshape(x, [-1, 2]), "reverse": lambda L, x: L.reverse(x, [0, 1]),
        "split": lambda L, x: L.concat(L.split(x, 2, dim=-1)[::-1], -1), "squeeze": lambda L, x: L.squeeze(L.unsqueeze(x, [1]), [1]),
        "sum": lambda L, x: L.sum([x, L.scale(x, 2.0)]), "sums": lambda L, x: L.sums([x, L.scale(x, 3.0), x]),
        "unsqueeze": lambda L, x: L.unsqueeze(x, [0, 2]),
    }  # fmt: skip
    return [together(fluid, np, functions, draw(np, *shape)) for shape in SHAPES]


@check(*[L + n for n in (
    "elementwise_div", "elementwise_max", "elementwise_min", "elementwise_pow", "elementwise_sub", "equal", "expand_as", "greater_equal",
    "huber_loss", "kldiv_loss", "less_equal", "matmul", "mse_loss", "mul", "not_equal", "sigmoid_cross_entropy_with_logits", "smooth_l1",
    "stack")])  # fmt: skip
def functions_of_two_tensors(fluid, np):
    functions = {
        "div": lambda L, x, y: L.elementwise_div(x, y), "max": lambda L, x, y: L.elementwise_max(x, y),
        "min": lambda L, x, y: L.elementwise_min(x, y), "pow": lambda L, x, y: L.elementwise_pow(y, x),
        "sub": lambda L, x, y: L.elementwise_sub(x, y, act="tanh"), "equal": lambda L, x, y: L.equal(L.round(x), L.round(y)),
        "expand_as": lambda L, x, y: L.expand_as(x, L.concat([y, y])), "greater_equal": lambda L, x, y: L.greater_equal(x, y),
        "huber_loss": lambda L, x, y: L.huber_loss(x, y, 0.4), "kldiv_loss": lambda L, x, y: L.kldiv_loss(x, y, "mean"),
        "less_equal": lambda L, x, y: L.less_equal(L.round(x), L.round(y)), "mse_loss": lambda L, x, y: L.mse_loss(x, y),
        "matmul": lambda L, x, y: L.matmul(x, y, transpose_y=True, alpha=0.5), "not_equal": lambda L, x, y: L.not_equal(x, y),
        "mul": lambda L, x, y: L.mul(x, L.transpose(L.reshape(y, [-1, int(np.prod(x.shape[1:]))]), [1, 0])),
        "cross entropy": lambda L, x, y: L.sigmoid_cross_entropy_with_logits(x, y, normalize=True),
        "stack": lambda L, x, y: L.stack([x, y], axis=1),
    }  # fmt: skip
    found = [together(fluid, np, functions, draw(np, *shape), draw(np, *shape, seed=1, low=0.2)) for shape in SHAPES]
    smooth = {"smooth_l1": lambda L, x, y: L.smooth_l1(x, y, sigma=1.5)}
    return found + [together(fluid, np, smooth, draw(np, *shape) * 2, draw(np, *shape, seed=1)) for shape in ((3, 4), (1, 2), (5, 6))]


@check(*[L + n for n in ("cross_entropy", "elementwise_floordiv", "elementwise_mod", "gather", "one_hot", "reduce_all", "reduce_any",
                         "scatter")])  # fmt: skip
def whole_numbers(fluid, np):
    two = {"floordiv": lambda L, x, y: L.elementwise_floordiv(x, y), "mod": lambda L, x, y: L.elementwise_mod(x, y)}
    one = {
        "all": lambda L, x: L.cast(L.reduce_all(L.cast(x, "bool"), 1), "int32"),
        "any": lambda L, x: L.cast(L.reduce_any(L.cast(x, "bool"), -1, keep_dim=True), "int32"),
    }  # fmt: skip
    labels = {
        "cross_entropy": lambda L, x, i: L.cross_entropy(L.softmax(x), i), "one_hot": lambda L, x, i: L.one_hot(i, 4),
    }  # fmt: skip
    # Each place once: of several equal ones the last alone has a gradient in 1.8.5, and rows that `scatter` replaces have one.
    places = {
        "gather": lambda L, x, i: L.gather(x, L.reshape(i, [-1])),
        "scatter": lambda L, x, i: still(L.scatter(L.scale(x, 3.0), L.reshape(i, [-1]), L.scale(x, 2.0))),
        "added": lambda L, x, i: still(L.scatter(L.scale(x, 3.0), L.reshape(i, [-1]), x, overwrite=False)),
    }  # fmt: skip
    found = [together(fluid, np, two, whole(np, shape, 20), whole(np, shape, 6, least=1, seed=1)) for shape in SHAPES]
    found += [together(fluid, np, one, whole(np, shape, 2)) for shape in SHAPES]
    for n in (3, 1, 6):
        found.append(together(fluid, np, labels, draw(np, n, 4), whole(np, (n, 1), 4)))
        found.append(together(fluid, np, places, draw(np, n, 4), np.random.RandomState(n).permutation(n).reshape(n, 1).astype("int64")))
    return found


@check(*[L + n for n in ("diag", "eye", "fill_constant", "gaussian_random", "ones", "range", "uniform_random", "zeros")])
def tensors_are_made(fluid, np):
    def made(n):
        functions = {
            "diag": lambda L, x: still(L.diag(L.reshape(x, [-1]))), "eye": lambda L, x: L.eye(n, n + 1),
            "fill_constant": lambda L, x: L.fill_constant([n, 2], "float32", 1.5), "ones": lambda L, x: L.ones([n, 3], "int64"),
            "range": lambda L, x: L.range(0, n * 2, 2, "int32"), "zeros": lambda L, x: L.zeros([2, n], "float32"),
        }  # fmt: skip
        return together(fluid, np, functions, draw(np, n, 1))

    def drawn(n):
        made = outcome(fluid, np, lambda L, x: [
            L.uniform_random([n, 400], min=-1.0, max=3.0), L.gaussian_random([n, 400], mean=2.0, std=0.5), x], draw(np, n, 1))["values"]
        return [list(made[0].shape), bool(abs(made[0].mean() - 1) < 0.4), bool(made[0].min() >= -1 and made[0].max() < 3),
                bool(abs(made[1].mean() - 2) < 0.2), bool(abs(made[1].std() - 0.5) < 0.1)]

    return [[made(n), drawn(n)] for n in (3, 1, 6)]


@check(*[L + n + "_decay" for n in ("cosine", "exponential", "inverse_time", "natural_exp", "noam", "piecewise", "polynomial")],
       L + "linear_lr_warmup")
def rates_fall(fluid, np):
    def rates(make):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            rate = make(fluid.layers)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            return [float(exe.run(fetch_list=[rate])[0][0]) for _ in range(7)]

    ways = {
        "cosine": [lambda L, n=n: L.cosine_decay(0.1, n, 4) for n in (1, 2, 3)],
        "exponential": [lambda L, n=n, s=s: L.exponential_decay(0.1, n, 0.5, s) for n, s in ((2, False), (3, True), (1, False))],
        "inverse": [lambda L, n=n, s=s: L.inverse_time_decay(0.1, n, 0.5, s) for n, s in ((2, False), (3, True), (1, False))],
        "natural": [lambda L, n=n, s=s: L.natural_exp_decay(0.1, n, 0.5, s) for n, s in ((2, False), (3, True), (1, False))],
        "noam": [lambda L, n=n: L.noam_decay(n, 3, 0.5) for n in (4, 16, 64)],
        "piecewise": [lambda L, b=b: L.piecewise_decay(b, [0.1 / (i + 1) for i in range(len(b) + 1)]) for b in ([2], [1, 3], [1, 2, 5])],
        "polynomial": [lambda L, n=n, c=c: L.polynomial_decay(0.1, n, 0.01, 2.0, c) for n, c in ((3, False), (3, True), (9, False))],
        "warmup": [lambda L, n=n: L.linear_lr_warmup(0.1, n, 0.01, 0.1) for n in (2, 4, 9)],
    }  # fmt: skip
    return {name: [rates(make) for make in makes] for name, makes in ways.items()}


@check(L + "py_reader", L + "create_py_reader_by_data", L + "double_buffer", L + "read_file")
def programs_pull_batches(fluid, np):
    def pulled(by_data):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            L = fluid.layers
            if by_data:
                reader = L.create_py_reader_by_data(4, [L.data("x", [3]), L.data("y", [1], dtype="int64")], use_double_buffer=False)
            else:
                reader = L.py_reader(4, [(-1, 3), (-1, 1)], ["float32", "int64"], use_double_buffer=False)
            x, y = L.read_file(L.double_buffer(reader))
            made = L.elementwise_mul(x, L.cast(y, "float32"))
            batches = [(draw(np, n, 3), whole(np, (n, 1), 5)) for n in (2, 1, 5)]
            reader.decorate_tensor_provider(lambda: iter(batches))
            exe, found = fluid.Executor(fluid.CPUPlace()), []
            exe.run(fluid.default_startup_program())
            for _ in range(2):
                reader.start()
                try:
                    while True:
                        found.append(exe.run(fetch_list=[made])[0])
                except fluid.core.EOFException:
                    reader.reset()
                    found.append("end")
            return found

    return [pulled(False), pulled(True)]


@check(L + "sequence_conv", L + "sequence_first_step", L + "sequence_last_step", L + "reorder_lod_tensor_by_rank", L + "inplace_abn")
def sequences_and_norms(fluid, np):
    ends = {"first": lambda L, x: L.sequence_first_step(x), "last": lambda L, x: L.sequence_last_step(x)}

    def conv(L, x):
        return L.sequence_conv(x, 2, 3, param_attr=attr(fluid, np, "weight", 12, 2), bias_attr=attr(fluid, np, "bias", 2))

    def ranked(L, x):
        return L.reorder_lod_tensor_by_rank(x, L.control_flow.lod_rank_table(x))

    def normed(L, x):
        # A copy, since 1.8.5 takes the result back to the input on its way through the gradients.
        return L.scale(L.inplace_abn(L.scale(x, 2.0), "leaky_relu", act_alpha=0.2, param_attr=attr(fluid, np, "scale", 3),
                                     bias_attr=attr(fluid, np, "shift", 3)), 1.0)

    kinds = [2, 0, 3], [4], [1, 3, 2]
    return {
        "conv": [outcome(fluid, np, conv, rows(np, [list(k)], 4)) for k in kinds],
        "ends": [together(fluid, np, ends, rows(np, [list(k)], 4)) for k in ([2, 1, 3], [4], [1, 5])],
        "ranked": [outcome(fluid, np, ranked, rows(np, [list(k)], 2)) for k in ([2, 1, 3], [4], [1, 5])],
        "normed": each(fluid, np, normed, (draw(np, 2, 3, 2, 2),), (draw(np, 1, 3, 4, 1),), (draw(np, 3, 3, 1, 5),)),
    }  # fmt: skip


@check(L + "StaticRNN", L + "IfElse")
def steps_and_choices(fluid, np):
    def steps(L, x):
        rnn = L.StaticRNN()
        with rnn.step():
            word = rnn.step_input(x)
            before = rnn.memory(shape=[-1, 3], batch_ref=word, init_value=0.5)
            after = L.tanh(L.elementwise_add(L.scale(before, 0.5), word))
            rnn.update_memory(before, after)
            rnn.step_output(after)
        return rnn()

    def choices(L, x):
        mark = L.less_than(L.reduce_sum(x, 1, keep_dim=True), L.fill_constant_batch_size_like(x, [-1, 1], "float32", 0.0))
        choice = L.IfElse(mark)
        with choice.true_block():
            choice.output(L.scale(choice.input(x), 3.0))
        with choice.false_block():
            choice.output(L.scale(choice.input(x), -1.0))
        return choice()[0]

    def stepped(*shape):
        """The first axis, of steps, is known."""
        return outcome(fluid, np, lambda L, x: steps(L, L.reshape(x, list(shape))), draw(np, *shape))

    return {"steps": [stepped(*shape) for shape in ((4, 2, 3), (1, 3, 3), (3, 1, 3))],
            "choices": each(fluid, np, choices, (draw(np, 5, 3),), (draw(np, 1, 3),), (draw(np, 8, 2, seed=3),))}
