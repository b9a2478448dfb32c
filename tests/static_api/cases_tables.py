"""Tables that programs read by rows: `static.nn.embedding(is_sparse=True)` beside 2.6.2, `nn.Embedding(sparse=True)` beside 3.3.1."""

from tests.static_api.table import check

E, OPT = "paddle.static.nn.embedding", "paddle.optimizer."
# Rows that repeat, in any order, and of each batch the last of the table: where that is not read, Adam of 2.6.2 looks at a position behind
# those that were, whatever is there. Those of SORTED are the only ones that its Momentum and RMSProp find all.
ENDED = [[1, 8, 8], [7, 8, 3], [5, 5, 8], [0, 8, 7], [8, 1, 8]]
MIXED = [[1, 3, 3], [7, 2, 3], [5, 5, 1], [0, 2, 7], [1, 1, 1]]
SORTED = [[1, 2, 3], [0, 2, 3], [5, 5, 1], [0, 2, 7], [1, 1, 1]]


def trained(paddle, np, optimizer, batches=MIXED, lookups=1, padding=None, layer=False):
    """Losses and the table in five steps."""
    draws = np.random.RandomState(0)
    assign = paddle.nn.initializer.Assign
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()), paddle.utils.unique_name.guard():
        table = paddle.ParamAttr(name="table", initializer=assign(draws.uniform(-1, 1, (9, 2)).astype("float32")))
        out = paddle.nn.Linear(2, 1, paddle.ParamAttr(initializer=assign(draws.uniform(-1, 1, (2, 1)).astype("float32"))), False)
        ids = [paddle.static.data(f"ids{i}", [3], "int64") for i in range(lookups)]
        y = paddle.static.data("y", [3, 1], "float32")
        if layer:
            read = [paddle.nn.Embedding(9, 2, padding_idx=padding, sparse=True, weight_attr=table)(i) for i in ids]
        else:
            read = [paddle.static.nn.embedding(i, [9, 2], is_sparse=True, padding_idx=padding, param_attr=table) for i in ids]
        loss = ((out(paddle.add_n(read)) - y) ** 2).mean()
        optimizer().minimize(loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(paddle.static.default_startup_program())
        losses = []
        for batch in batches:
            feed = {f"ids{i}": np.array(batch[i:] + batch[:i], "int64") % (9 - i) for i in range(lookups)}
            feed["y"] = draws.uniform(-1, 1, (3, 1)).astype("float32")
            losses.append(executor.run(feed=feed, fetch_list=[loss])[0])
        return [losses, np.array(paddle.static.global_scope().find_var("table").get_tensor())]


@check(OPT + "Adam", E, paddle="2.6.2", rtol=2e-5, atol=1e-6)
def adam_of_tables(paddle, np):
    adam = lambda **more: lambda: paddle.optimizer.Adam(0.1, **more)  # noqa: E731
    return [
        trained(paddle, np, adam(epsilon=1e-3, beta1=0.8), ENDED, lookups=2),
        trained(paddle, np, adam(lazy_mode=True), padding=3),
        trained(paddle, np, adam(lazy_mode=True, weight_decay=0.1)),
        trained(paddle, np, adam(lazy_mode=True, epsilon=1e-3, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05))),
        trained(paddle, np, adam(lazy_mode=True, epsilon=1e-3, grad_clip=paddle.nn.ClipGradByNorm(0.05)), lookups=2),
    ]


@check(OPT + "SGD", E, paddle="2.6.2", rtol=2e-5, atol=1e-6)
def other_optimizers_of_tables(paddle, np):
    o = paddle.optimizer
    return [
        trained(paddle, np, lambda: o.SGD(0.1), padding=3),
        trained(paddle, np, lambda: o.Adagrad(0.1), lookups=2),
        trained(paddle, np, lambda: o.Lamb(0.1), padding=3),
        trained(paddle, np, lambda: o.Momentum(0.1, 0.9, use_nesterov=True), SORTED),
        trained(paddle, np, lambda: o.RMSProp(0.1, centered=True, momentum=0.5), SORTED),
    ]


@check("paddle.static.nn.nce", OPT + "Adam", paddle="2.6.2", rtol=2e-5, atol=1e-6)
def classes_of_nce_are_rows(paddle, np):
    """All draws are of the last class."""
    draws = np.random.RandomState(0)
    weight, bias = ([paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(draws.uniform(-1, 1, shape).astype("float32")))
                     for name, shape in (("w", (9, 3)), ("b", (9, 1)))])  # fmt: skip
    x, y = paddle.static.data("x", [2, 3], "float32"), paddle.static.data("y", [2, 1], "int64")
    drawing = {"num_neg_samples": 2, "sampler": "custom_dist", "custom_dist": [0.0] * 8 + [1.0], "is_sparse": True}
    loss = paddle.static.nn.nce(x, y, 9, param_attr=weight, bias_attr=bias, **drawing).mean()
    paddle.optimizer.Adam(0.1, lazy_mode=True).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    feeds = [{"x": draws.uniform(-1, 1, (2, 3)).astype("float32"), "y": np.array([[i], [(3 * i) % 5]], "int64")} for i in range(4)]
    losses = [executor.run(feed=feed, fetch_list=[loss])[0] for feed in feeds]
    return [losses, [np.array(paddle.static.global_scope().find_var(name).get_tensor()) for name in ("w", "b")]]


@check("paddle.nn.Embedding", OPT + "Adam", rtol=2e-5, atol=1e-6)
def layers_have_whole_gradients(paddle, np):
    return [
        trained(paddle, np, lambda: paddle.optimizer.Adam(0.1, lazy_mode=True), padding=3, layer=True),
        trained(paddle, np, lambda: paddle.optimizer.AdamW(0.1), layer=True),
    ]
