"""Programs that are saved for inference: read by both frameworks. A builder takes `paddle` and gives what is fed and what is fetched."""

import numpy as np


def perceptron(paddle):
    """Dropout, and a loss that is pruned away with its label."""
    static = paddle.static
    x, label = static.data("x", [None, 4], "float32"), static.data("label", [None, 1], "int64")
    hidden = paddle.nn.functional.dropout(static.nn.fc(x, 6, activation="relu"), 0.5)
    scores = static.nn.fc(hidden, 3)
    loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
    paddle.optimizer.Adam(0.1).minimize(loss)
    return [x], [paddle.nn.functional.softmax(scores), hidden]


def images(paddle):
    """Convolution, batch norm with running means, pooling, a free height and width."""
    static = paddle.static
    x = static.data("image", [None, 3, None, None], "float32")
    y = static.nn.batch_norm(static.nn.conv2d(x, 4, 3, padding=1, act="relu"))
    y = paddle.nn.functional.max_pool2d(y, 2, 2)
    pooled = paddle.nn.functional.adaptive_avg_pool2d(y, 1)
    return [x], [static.nn.fc(pooled, 2), y]


def two_inputs(paddle):
    """Ids and numbers; the order of feeds is that of the call, not of the program."""
    static = paddle.static
    ids, weight = static.data("ids", [None, 3], "int64"), static.data("weight", [None, 3, 1], "float32")
    rows = static.nn.embedding(ids, [7, 4])
    return [weight, ids], [paddle.sum(rows * weight, axis=1)]


def shared_weights(paddle):
    """One weight in two layers, and a fetched parameter."""
    static = paddle.static
    x = static.data("x", [None, 3], "float32")
    attr = lambda: paddle.ParamAttr(name="shared_w")
    y = static.nn.fc(static.nn.fc(x, 3, weight_attr=attr(), bias_attr=False, activation="tanh"), 3, weight_attr=attr(), bias_attr=False)
    return [x], [y, static.default_main_program().global_block().var("shared_w")]


def a_feed_and_twice_the_same(paddle):
    x = paddle.static.data("x", [None, 2], "float32")
    y = paddle.exp(x)
    return [x], [y, x, y]


def branch(paddle):
    static = paddle.static
    x = static.data("x", [None, 3], "float32")
    return [x], [static.nn.cond(paddle.mean(x) > 0, lambda: static.nn.fc(x, 2), lambda: static.nn.fc(x * 2, 2))]


def loop(paddle):
    static = paddle.static
    x, n = static.data("x", [None, 3], "float32"), static.data("n", [1], "int64")
    i = paddle.zeros([1], "int64")
    w = static.nn.fc(x, 3)
    _, y = static.nn.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, y * 0.5 + w], [i, x])
    return [x, n], [y]


def sizes(paddle):
    """Shapes that the program computes, dtypes other than float32."""
    static = paddle.static
    x = static.data("x", [None, None, 4], "float32")
    shape = paddle.shape(x)
    flat = paddle.reshape(x, [-1, 4])
    back = paddle.reshape(flat, paddle.concat([paddle.cast(shape[0:2], "int32"), paddle.full([2], 2, "int32")]))
    return [x], [back, paddle.argmax(x, axis=-1), paddle.cast(flat, "float64")]


def computed_sizes(paddle):
    """Sizes that are sums, products and quotients of those of inputs: of a reshape, a fill, an expansion and a slice."""
    static = paddle.static
    x = static.data("x", [None, None, 4], "float32")
    rows, columns = (paddle.cast(paddle.shape(x)[i : i + 1], "int32") for i in range(2))
    two = paddle.full([1], 2, "int32")
    halves = paddle.reshape(x, paddle.concat([rows, columns * two, two]))
    filled = paddle.ones(paddle.concat([columns + two, rows]), "float32")
    repeated = paddle.expand(paddle.mean(x, axis=[0, 1], keepdim=True), paddle.concat([rows, two * columns, two + two]))
    part = paddle.slice(x, [1], [columns // two], [columns])
    return [x], [halves, paddle.sum(filled), repeated, part, paddle.cast(columns * columns, "float32") + paddle.mean(x)]


def sequence(paddle):
    """Operators of attention: products, transposes, softmax, layer norm, masks."""
    static = paddle.static
    x = static.data("x", [None, 5, 8], "float32")
    q, k, v = (static.nn.fc(x, 8, num_flatten_dims=2, bias_attr=False) for _ in range(3))
    scores = paddle.matmul(q, k, transpose_y=True) * 0.35
    mixed = paddle.matmul(paddle.nn.functional.softmax(scores), v)
    return [x], [static.nn.layer_norm(x + mixed, begin_norm_axis=2)]


def state_that_counts(paddle):
    """A persistable variable that every run changes."""
    static = paddle.static
    x = static.data("x", [None, 2], "float32")
    count = static.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    paddle.increment(count)
    return [x], [x + count]


def masks(paddle):
    """Elements that a mask takes, whose number only a run tells: in a loop, in a branch and by themselves."""
    x = paddle.static.data("x", [None, 4], "float32")

    def body(i, total, count):
        y = x * (i.astype("float32") + 1.0)
        rows = x[x[:, 1] > -0.5]
        return [i + 1, total + paddle.sum(y[y > 0.5]) + paddle.sum(rows), count + paddle.sum(paddle.ones_like(y[y > 0.5]))]

    zero, last = paddle.full([1], 0.0, "float32"), paddle.full([1], 3, "int64")
    _, total, count = paddle.static.nn.while_loop(lambda i, *_: i < last, body, [paddle.full([1], 0, "int64"), zero, zero])
    some = paddle.static.nn.cond(paddle.sum(x) > 0.5, lambda: paddle.sum(x[x > 0.0]), lambda: paddle.sum(x[x < 0.0]))
    taken = [x[x > 0.2], paddle.masked_select(x, x < 0), paddle.nonzero(x > 0), x[x[:, 0] > -0.5], paddle.zeros_like(x[x > 0.2])]
    return [x], [total, count, some, *taken]


BUILDERS = (
    perceptron, images, two_inputs, shared_weights, a_feed_and_twice_the_same, branch, loop, sizes, computed_sizes,
    sequence, state_that_counts, masks,
)  # fmt: skip
FEEDS = {
    "x": {
        "perceptron": (3, 4), "shared_weights": (2, 3), "a_feed_and_twice_the_same": (3, 2), "branch": (2, 3), "loop": (2, 3),
        "sizes": (2, 3, 4), "computed_sizes": (2, 5, 4), "sequence": (2, 5, 8), "state_that_counts": (2, 2),
        "masks": (3, 4),
    },
    "image": {"images": (2, 3, 6, 8)},
    "weight": {"two_inputs": (2, 3, 1)},
}  # fmt: skip


def feed_for(name, key):
    """An array for the variable `key` of a program."""
    if key == "ids":
        return np.array([[0, 6, 2], [3, 3, 1]], "int64")
    if key == "n":
        return np.array([3], "int64")
    shape = FEEDS[key][name]
    return (np.arange(np.prod(shape)).reshape(shape) % 11 / 5 - 0.9).astype("float32")


def built(paddle, builder):
    """(program, feeds, fetches, executor) after the startup program has run, with parameters that do not depend on draws."""
    static = paddle.static
    main, startup = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        feeds, fetches = builder(paddle)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    values = {}
    for place, parameter in enumerate(sorted(main.all_parameters(), key=lambda p: p.name)):
        shape = tuple(parameter.shape)
        numbers = (np.cos(np.arange(np.prod(shape)) * (place + 1)) / 2).reshape(shape).astype("float32")
        values[parameter.name] = numbers if len(shape) > 1 else np.abs(numbers) + 0.1  # variances are positive
    main.set_state_dict(values)
    return main, feeds, fetches, executor


def write(paddle, builder, prefix):
    """Save the program under `prefix`; what a run of it gives before that."""
    with paddle.static.scope_guard(paddle.static.Scope() if hasattr(paddle.static, "Scope") else paddle.base.core.Scope()):
        main, feeds, fetches, executor = built(paddle, builder)
        paddle.static.save_inference_model(prefix, feeds, fetches, executor, program=main)
        normal = paddle.static.normalize_program(main, feeds, fetches)
        feed = {v.name: feed_for(builder.__name__, v.name) for v in feeds}
        return [np.asarray(v) for v in executor.run(normal, feed=feed, fetch_list=[v.name for v in fetches])]


def run(paddle, name, prefix):
    """What a saved program gives, twice in a row."""
    with paddle.static.scope_guard(paddle.static.Scope() if hasattr(paddle.static, "Scope") else paddle.base.core.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, feeds, fetches = paddle.static.load_inference_model(prefix, executor)
        feed = {key: feed_for(name, key) for key in feeds}
        return [np.asarray(v) for _ in range(2) for v in executor.run(program, feed=feed, fetch_list=fetches)]
