"""Tables whose gradients are the rows that were read (`is_sparse=True`), under every optimizer that 1.8.5 lets have them."""

from tests.fluid_api.table import caught, check

OPT = "paddle.fluid.optimizer."
# Rows that repeat, that come in any order, and that nobody reads; those of SORTED are the only ones that Momentum and RMSProp of 1.8.5 find
# all: a binary search over rows that it has not put in order.
MIXED = [[1, 3, 3], [7, 2, 3], [5, 5, 1], [0, 2, 7], [1, 1, 1]]
# Of each batch the last row of the table: where that is not read, Adam without `lazy_mode` may look at a position behind those that were.
ENDED = [[1, 8, 8], [7, 8, 3], [5, 5, 8], [0, 8, 7], [8, 1, 8]]
SORTED = [[1, 2, 3], [0, 2, 3], [5, 5, 1], [0, 2, 7], [1, 1, 1]]


def trained(fluid, np, optimizer, batches=MIXED, lookups=1, padding=None):
    """Losses, table and its accumulators after five steps, and the kinds of the gradients that its update read."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        ids = [fluid.layers.data(name="ids" + str(i), shape=[1], dtype="int64") for i in range(lookups)]
        y = fluid.layers.data(name="y", shape=[1], dtype="float32")
        table = fluid.ParamAttr(name="table")
        read = [fluid.layers.embedding(i, size=[9, 2], is_sparse=True, padding_idx=padding, param_attr=table) for i in ids]
        out = fluid.layers.fc(fluid.layers.sums(read), 1, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
        optimizer().minimize(loss)
        program, scope = fluid.default_main_program(), fluid.global_scope()
        update = [op for op in program.global_block().ops if "table" in op.output_arg_names][-1]
        kind = program.global_block().var(update.input("Grad")[0]).desc.type()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        draws = np.random.RandomState(0)
        for name, shape in (("table", (9, 2)), ("w", (2, 1))):
            scope.find_var(name).get_tensor().set(draws.uniform(-1, 1, shape).astype("float32"), fluid.CPUPlace())
        losses = []
        for batch in batches:
            feed = {"ids" + str(i): np.array(batch[i:] + batch[:i], "int64").reshape(3, 1) % (9 - i) for i in range(lookups)}
            feed["y"] = draws.uniform(-1, 1, (3, 1)).astype("float32")
            losses.append(float(np.asarray(exe.run(feed=feed, fetch_list=[loss])[0]).reshape(-1)[0]))
        kept = sorted(v.name for v in program.list_vars() if v.persistable and v.name.startswith("table"))
        state = {name: np.array(scope.find_var(name).get_tensor()) for name in kept}
        return [losses, state, update.input("Grad"), int(kind)]


@check(OPT + "Adam", OPT + "AdamOptimizer")
def adam_of_tables(fluid, np):
    """The moments are corrected as after one step more, and with `lazy_mode` only the rows that were read move."""
    found = {}
    for lazy in (False, True):
        make = lambda: fluid.optimizer.Adam(0.1, beta1=0.8, epsilon=1e-3, lazy_mode=lazy)  # noqa: B023, E731
        found[str(lazy)] = [trained(fluid, np, make), trained(fluid, np, make, lookups=2, padding=3)]
    return found


@check(OPT + "SGD", OPT + "SGDOptimizer", OPT + "AdagradOptimizer", OPT + "LambOptimizer")
def other_optimizers_of_tables(fluid, np):
    """The row of `padding_idx` reads as zeros, and its gradient is that of what was read."""
    o = fluid.optimizer
    return [trained(fluid, np, lambda: o.SGD(0.1), padding=3), trained(fluid, np, lambda: o.AdagradOptimizer(0.1)),
            trained(fluid, np, lambda: o.LambOptimizer(0.1), lookups=2)]  # fmt: skip


@check(OPT + "Momentum", OPT + "RMSPropOptimizer")
def moments_of_sorted_tables(fluid, np):
    o = fluid.optimizer
    return [trained(fluid, np, lambda: o.Momentum(0.1, 0.9, use_nesterov=True), SORTED),
            trained(fluid, np, lambda: o.RMSPropOptimizer(0.1, centered=True, momentum=0.5), SORTED)]  # fmt: skip


@check("paddle.fluid.clip.GradientClipByValue", "paddle.fluid.clip.GradientClipByNorm", "paddle.fluid.clip.GradientClipByGlobalNorm",
       "paddle.fluid.regularizer.L2Decay")  # fmt: skip
def clips_and_penalties_of_tables(fluid, np):
    """A clip leaves rows that were not read alone; with a penalty all rows have a gradient."""
    c, lazy = fluid.clip, lambda **more: lambda: fluid.optimizer.Adam(0.1, lazy_mode=True, **more)
    penalty = fluid.regularizer.L2Decay(0.1)
    return [
        trained(fluid, np, lazy(grad_clip=c.GradientClipByValue(max=0.5, min=0.01)), lookups=2),
        trained(fluid, np, lazy(grad_clip=c.GradientClipByNorm(0.05))),
        trained(fluid, np, lazy(grad_clip=c.GradientClipByGlobalNorm(0.05)), padding=3),
        trained(fluid, np, lazy(grad_clip=c.GradientClipByGlobalNorm(0.05), regularization=penalty)),
    ]


def stepped(fluid, np, optimizer, batches=MIXED, lookups=1, padding=None, whole=False):
    """As `trained`, in dygraph mode: losses, table, and what the gradient of the table was for the user after the first backward."""
    d, layers = fluid.dygraph, fluid.layers
    with d.guard(fluid.CPUPlace()):
        draws = np.random.RandomState(0)
        table, out = d.Embedding([9, 2], is_sparse=True, padding_idx=padding), d.Linear(2, 1, bias_attr=False)
        for weight in (table.weight, out.weight):
            weight.set_value(draws.uniform(-1, 1, weight.shape).astype("float32"))
        made, losses, seen = optimizer([table.weight, out.weight]), [], None
        for batch in batches:
            ids = [np.array(batch[i:] + batch[:i], "int64") % (9 - i) for i in range(lookups)]
            read = layers.sums([table(d.to_variable(i)) for i in ids])
            y = d.to_variable(draws.uniform(-1, 1, (3, 1)).astype("float32"))
            loss = layers.mean(layers.square_error_cost(out(read), y))
            loss = loss + layers.reduce_sum(table.weight * table.weight) * 0.1 if whole else loss
            loss.backward()
            gradient = table.weight.gradient()
            seen = seen or ([np.array(part) for part in gradient] if isinstance(gradient, tuple) else np.array(gradient).tolist())
            made.minimize(loss)
            for weight in (table.weight, out.weight):
                weight.clear_gradient()
            losses.append(float(loss.numpy().reshape(-1)[0]))
        return [losses, table.weight.numpy(), [np.array(part).tolist() for part in seen]]


@check("paddle.fluid.dygraph.Embedding", OPT + "Adam", OPT + "AdamOptimizer")
def adam_of_tables_in_dygraph_mode(fluid, np):
    found = {}
    for lazy in (False, True):
        make = lambda p: fluid.optimizer.Adam(0.1, beta1=0.8, epsilon=1e-3, lazy_mode=lazy, parameter_list=p)  # noqa: B023, E731
        several = ({}, {"lookups": 2}, {"padding": 3}, {"whole": True})
        found[str(lazy)] = [stepped(fluid, np, make, MIXED if lazy else ENDED, **options) for options in several]
    return found


@check("paddle.fluid.dygraph.Embedding", OPT + "SGD", OPT + "AdagradOptimizer", OPT + "LambOptimizer", OPT + "Momentum")
def other_optimizers_of_tables_in_dygraph_mode(fluid, np):
    o = fluid.optimizer
    return [
        stepped(fluid, np, lambda p: o.SGD(0.1, parameter_list=p), padding=3),
        stepped(fluid, np, lambda p: o.AdagradOptimizer(0.1, parameter_list=p)),
        stepped(fluid, np, lambda p: o.LambOptimizer(0.1, parameter_list=p), padding=3),
        stepped(fluid, np, lambda p: o.Momentum(0.1, 0.9, parameter_list=p), SORTED),
        stepped(fluid, np, lambda p: o.RMSPropOptimizer(0.1, centered=True, parameter_list=p), SORTED),
    ]


@check("paddle.fluid.dygraph.Embedding", "paddle.fluid.clip.GradientClipByValue", "paddle.fluid.clip.GradientClipByNorm",
       "paddle.fluid.clip.GradientClipByGlobalNorm")  # fmt: skip
def clips_of_tables_in_dygraph_mode(fluid, np):
    c, lazy = fluid.clip, lambda clip: lambda p: fluid.optimizer.Adam(0.1, lazy_mode=True, epsilon=1e-3, parameter_list=p, grad_clip=clip)
    return [
        stepped(fluid, np, lazy(c.GradientClipByValue(max=0.5, min=0.01)), lookups=2),
        stepped(fluid, np, lazy(c.GradientClipByNorm(0.05))),
        stepped(fluid, np, lazy(c.GradientClipByGlobalNorm(0.05)), padding=3),
    ]


@check("paddle.fluid.dygraph.declarative", "paddle.fluid.dygraph.Embedding")
def tables_under_declarative(fluid, np):
    """A compiled Layer leaves rows, too."""
    d = fluid.dygraph
    globals()["fluid"] = fluid  # which what 1.8.5 makes of `forward` looks for there

    class Net(d.Layer):
        def __init__(self):
            super(Net, self).__init__()  # noqa: UP008
            self.table, self.out = d.Embedding([9, 2], is_sparse=True), d.Linear(2, 1, bias_attr=False)

        @d.declarative
        def forward(self, ids):
            return self.out(self.table(ids))

    found = []
    for lazy in (False, True):
        with d.guard(fluid.CPUPlace()):
            draws, net = np.random.RandomState(0), Net()
            for weight in net.parameters():
                weight.set_value(draws.uniform(-1, 1, weight.shape).astype("float32"))
            optimizer = fluid.optimizer.Adam(0.1, parameter_list=net.parameters(), lazy_mode=lazy)
            for batch in MIXED:
                y = d.to_variable(draws.uniform(-1, 1, (3, 1)).astype("float32"))
                loss = fluid.layers.mean(fluid.layers.square_error_cost(net(d.to_variable(np.array(batch))), y))
                loss.backward()
                kind = isinstance(net.table.weight.gradient(), tuple)
                optimizer.minimize(loss)
                net.clear_gradients()
            found.append([kind, net.table.weight.numpy()])
    return found


@check("paddle.fluid.layers.nce", "paddle.fluid.dygraph.NCE")
def classes_of_nce_are_rows(fluid, np):
    """Of the weight; the bias has a whole gradient. All draws are of the last class."""
    layers, d, adam = fluid.layers, fluid.dygraph, fluid.optimizer.Adam
    drawing = {"num_neg_samples": 2, "sampler": "custom_dist", "custom_dist": [0.0] * 8 + [1.0], "is_sparse": True}
    draws = np.random.RandomState(0)
    weight, bias = draws.uniform(-1, 1, (9, 3)).astype("float32"), draws.uniform(-1, 1, (9, 1)).astype("float32")
    batches = [(draws.uniform(-1, 1, (2, 3)).astype("float32"), np.array([[i], [(3 * i) % 5]], "int64")) for i in range(4)]
    found = []
    for lazy in (False, True):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            x, y = layers.data("x", [3], dtype="float32"), layers.data("y", [1], dtype="int64")
            cost = layers.nce(x, y, 9, param_attr=fluid.ParamAttr(name="w"), bias_attr=fluid.ParamAttr(name="b"), **drawing)
            loss = layers.mean(cost)
            adam(0.1, lazy_mode=lazy).minimize(loss)
            exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.global_scope()
            exe.run(fluid.default_startup_program())
            for name, value in (("w", weight), ("b", bias)):
                scope.find_var(name).get_tensor().set(value, fluid.CPUPlace())
            losses = [float(np.asarray(exe.run(feed={"x": a, "y": b}, fetch_list=[loss])[0]).reshape(-1)[0]) for a, b in batches]
            kinds = [int(fluid.default_main_program().global_block().var(name + "@GRAD").desc.type()) for name in ("w", "b")]
            found.append([losses, kinds, [np.array(scope.find_var(name).get_tensor()) for name in ("w", "b")]])
        with d.guard(fluid.CPUPlace()):
            layer = d.NCE(9, 3, bias_attr=fluid.ParamAttr(), **drawing)
            layer.weight.set_value(weight)
            layer.bias.set_value(bias)
            optimizer = adam(0.1, lazy_mode=lazy, parameter_list=layer.parameters())
            for a, b in batches:
                loss = layers.mean(layer(d.to_variable(a), d.to_variable(b)))
                loss.backward()
                kinds = [isinstance(p.gradient(), tuple) for p in layer.parameters()]
                optimizer.minimize(loss)
                layer.clear_gradients()
            found.append([float(loss.numpy().reshape(-1)[0]), kinds, layer.weight.numpy(), layer.bias.numpy()])
    return found


@check("paddle.fluid.core.VarDesc", "paddle.fluid.Variable.type")
def kinds_of_variables(fluid, np):
    kinds = fluid.core.VarDesc.VarType
    names = ("LOD_TENSOR", "SELECTED_ROWS", "LOD_TENSOR_ARRAY")
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    array = fluid.layers.array_write(x, fluid.layers.fill_constant([1], "int64", 0))
    ids = fluid.layers.data(name="ids", shape=[1], dtype="int64")
    read = fluid.layers.embedding(ids, [4, 2], is_sparse=True, param_attr="table")
    (_, gradient), = fluid.backward.append_backward(fluid.layers.mean(read))
    return [[v.type == getattr(kinds, name) for name in names] for v in (x, array, fluid.layers.create_array("float32"), gradient)]


@check("paddle.fluid.Variable.shape")
def free_sizes_are_less_than_nothing(fluid, np):
    size = fluid.layers.data(name="x", shape=[3], dtype="float32").shape[0]
    return [int(size), "%d" % size, "%s" % size, "{}".format(size), "{:d}".format(size), abs(size), size == -1, size < 0, bool(size)]  # noqa: UP031, UP032


@check("paddle.fluid.layers.fill_constant_batch_size_like")
def sequences_are_counted_as_a_batch(fluid, np):
    """Not their rows, where the size of axis 0 is asked for."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32", lod_level=2)
    made = [layers.fill_constant_batch_size_like(x, [-1, 2], "float32", 1.0), layers.fill_constant_batch_size_like(layers.relu(x), [3, -1],
            "int64", 1, output_dim_idx=1), layers.fill_constant_batch_size_like(x, [3, -1], "float32", 1.0, 1, 1)]  # fmt: skip
    fed = fluid.create_lod_tensor(np.ones((5, 2), "float32"), [[1, 2], [2, 1, 2]], fluid.CPUPlace())
    return [list(a.shape) for a in fluid.Executor(fluid.CPUPlace()).run(feed={"x": fed}, fetch_list=made)]


@check("paddle.fluid.layers.accuracy")
def labels_below_zero_are_refused(fluid, np):
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="int64")
    share = fluid.layers.accuracy(fluid.layers.softmax(x), y)
    run = lambda labels: fluid.Executor(fluid.CPUPlace()).run(  # noqa: E731
        feed={"x": np.eye(3, dtype="float32"), "y": np.array(labels).reshape(3, 1)}, fetch_list=[share]
    )
    return [np.asarray(run([0, 5, 2])[0]).reshape(-1), "error" in caught(lambda: run([0, -1, 2]))]
