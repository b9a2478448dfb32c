"""Programs of `fluid` that Paddle 1.8.5 and ours both run: the functions take the module, so that one text serves both.

Python 3.8 must be able to read this file, since no later one has Paddle 1.8.5.
"""

import numpy as np

STEPS = 5


def _parameters(program):
    return sorted(p.name for p in program.global_block().all_parameters())


def run_training(fluid, build, optimize, steps=STEPS):
    """Losses of `steps` steps, and all persistable variables after them, of equal parameters at the start; with what was appended."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, feeds = build(fluid)
        forward = len(main.global_block().ops)
        optimize(fluid, loss)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        rng = np.random.RandomState(3)
        for name in _parameters(main):
            tensor = scope.find_var(name).get_tensor()
            tensor.set(rng.uniform(-0.5, 0.5, np.array(tensor).shape).astype("float32"), fluid.CPUPlace())
        losses = [exe.run(main, feed=feed, fetch_list=[loss])[0] for feed in feeds(steps)]
        state = {
            v.name: np.array(scope.find_var(v.name).get_tensor())
            for v in main.list_vars()
            if v.persistable and v.name not in ("feed", "fetch")
        }
    types = [op.type for op in main.global_block().ops]
    return {"losses": np.array(losses).reshape(-1), "state": state, "forward": types[:forward], "appended": types[forward:]}


# --- nets


def regression(fluid):
    """Two layers, of which the second has a name, a rate and a penalty of its own."""
    x = fluid.layers.data(name="x", shape=[4], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    hidden = fluid.layers.fc(input=x, size=5, act="tanh")
    attr = fluid.ParamAttr(name="last", learning_rate=0.5, regularizer=fluid.regularizer.L2Decay(0.1))
    out = fluid.layers.fc(input=hidden, size=1, param_attr=attr)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=out, label=y))
    return loss, _regression_feeds


def _regression_feeds(steps):
    rng = np.random.RandomState(1)
    for _ in range(steps):
        x = rng.uniform(-1, 1, (6, 4)).astype("float32")
        yield {"x": x, "y": (x.sum(1, keepdims=True) ** 2).astype("float32")}


def classifier(fluid):
    """A convolution, batch normalization and pooling."""
    image = fluid.layers.data(name="image", shape=[1, 8, 8], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    made = fluid.layers.conv2d(input=image, num_filters=3, filter_size=3, padding=1, act="relu")
    made = fluid.layers.batch_norm(input=made, act="relu")
    made = fluid.layers.pool2d(input=made, pool_size=2, pool_type="max", pool_stride=2)
    made = fluid.layers.fc(input=made, size=4, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(input=made, label=label)), _classifier_feeds


def _classifier_feeds(steps):
    rng = np.random.RandomState(2)
    for _ in range(steps):
        yield {"image": rng.uniform(-1, 1, (5, 1, 8, 8)).astype("float32"), "label": rng.randint(0, 4, (5, 1)).astype("int64")}


# --- optimizers


def _minimize(make):
    return lambda fluid, loss: make(fluid).minimize(loss)


def _with_clip(fluid, loss):
    clip = fluid.clip.GradientClipByGlobalNorm(clip_norm=0.5)
    fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L1Decay(0.01), grad_clip=clip).minimize(loss)


def _clipped(make):
    return lambda fluid, loss: fluid.optimizer.SGD(0.1, grad_clip=make(fluid)).minimize(loss)


def _set_clip(fluid, loss):
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(0.3))
    fluid.optimizer.SGD(0.1).minimize(loss)


def _error_clip(fluid, loss):
    block = loss.block
    hidden = [op for op in block.ops if op.type == "tanh"][0].output("Out")[0]
    block.var(hidden)._set_error_clip(fluid.clip.ErrorClipByValue(max=0.01))
    fluid.optimizer.SGD(0.1).minimize(loss)


def _by_hand(fluid, loss):
    optimizer = fluid.optimizer.Momentum(0.1, 0.9)
    pairs = optimizer.backward(loss)
    optimizer.apply_gradients(pairs)


def _decayed(make):
    return lambda fluid, loss: fluid.optimizer.SGD(learning_rate=make(fluid.layers)).minimize(loss)


OPTIMIZERS = {
    "sgd": _minimize(lambda fluid: fluid.optimizer.SGD(0.1)),
    "momentum": _minimize(lambda fluid: fluid.optimizer.Momentum(0.1, 0.9)),
    "nesterov": _minimize(lambda fluid: fluid.optimizer.MomentumOptimizer(0.1, 0.9, use_nesterov=True)),
    "adagrad": _minimize(lambda fluid: fluid.optimizer.Adagrad(0.1, initial_accumulator_value=0.1)),
    "adam": _minimize(lambda fluid: fluid.optimizer.Adam(0.1, beta1=0.8)),
    "adamax": _minimize(lambda fluid: fluid.optimizer.Adamax(0.1)),
    "decayed_adagrad": _minimize(lambda fluid: fluid.optimizer.DecayedAdagrad(0.1)),
    "adadelta": _minimize(lambda fluid: fluid.optimizer.Adadelta(0.1, epsilon=1e-3)),
    "rmsprop": _minimize(lambda fluid: fluid.optimizer.RMSProp(0.05, momentum=0.5)),
    "centered_rmsprop": _minimize(lambda fluid: fluid.optimizer.RMSProp(0.05, centered=True)),
    "ftrl": _minimize(lambda fluid: fluid.optimizer.Ftrl(0.1, l1=0.01, l2=0.01)),
    "ftrl_of_power": _minimize(lambda fluid: fluid.optimizer.Ftrl(0.1, lr_power=-0.7)),
    "lamb": _minimize(lambda fluid: fluid.optimizer.Lamb(0.1)),
    "lamb_without": _minimize(lambda fluid: fluid.optimizer.Lamb(0.1, exclude_from_weight_decay_fn=lambda p: p.name.endswith(".b_0"))),
    "lars": _minimize(lambda fluid: fluid.optimizer.LarsMomentum(0.1, 0.9)),
    "global_norm": _with_clip,
    "by_norm": _clipped(lambda fluid: fluid.clip.GradientClipByNorm(0.2)),
    "by_value": _clipped(lambda fluid: fluid.clip.GradientClipByValue(0.1, -0.05)),
    "set_clip": _set_clip,
    "error_clip": _error_clip,
    "by_hand": _by_hand,
}

DECAYS = {
    "exponential": _decayed(lambda layers: layers.exponential_decay(0.1, 3, 0.5)),
    "exponential_stairs": _decayed(lambda layers: layers.exponential_decay(0.1, 3, 0.5, staircase=True)),
    "natural_exp": _decayed(lambda layers: layers.natural_exp_decay(0.1, 3, 0.5)),
    "inverse_time": _decayed(lambda layers: layers.inverse_time_decay(0.1, 3, 0.5, staircase=True)),
    "polynomial": _decayed(lambda layers: layers.polynomial_decay(0.1, 3, 0.01, power=2.0)),
    "polynomial_cycle": _decayed(lambda layers: layers.polynomial_decay(0.1, 2, 0.01, cycle=True)),
    "piecewise": _decayed(lambda layers: layers.piecewise_decay([2, 4], [0.1, 0.05, 0.01])),
    "noam": _decayed(lambda layers: layers.noam_decay(8, 3)),
    "cosine": _decayed(lambda layers: layers.cosine_decay(0.1, 2, 3)),
    "warmup": _decayed(lambda layers: layers.linear_lr_warmup(0.1, 3, 0.01, 0.1)),
    "warmup_decay": _decayed(lambda layers: layers.linear_lr_warmup(layers.exponential_decay(0.1, 3, 0.5), 3, 0.01, 0.1)),
}


def cases():
    """The trainings by name."""
    found = {name: (regression, optimize) for name, optimize in {**OPTIMIZERS, **DECAYS}.items()}
    found["classifier_momentum"] = (classifier, OPTIMIZERS["momentum"])
    found["classifier_adam"] = (classifier, _minimize(lambda fluid: fluid.optimizer.Adam(0.001)))
    return found

# --- runs of programs with blocks and with sequences


def run_fetches(fluid, build):
    """For each feed the fetched values, with their levels of detail."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fetches, feeds = build(fluid)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        rng = np.random.RandomState(3)
        for name in _parameters(main):
            tensor = scope.find_var(name).get_tensor()
            tensor.set(rng.uniform(-0.5, 0.5, np.array(tensor).shape).astype("float32"), fluid.CPUPlace())
        found = []
        for feed in feeds(fluid):
            found.append([(np.array(t), t.lod()) for t in exe.run(main, feed=feed, fetch_list=fetches, return_numpy=False)])
    return found


def a_loop(fluid):
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    i = layers.fill_constant([1], "int64", 0)
    limit = layers.fill_constant([1], "int64", 4)
    total = layers.scale(x, 1.0)
    again = layers.less_than(i, limit)
    loop = layers.While(again)
    with loop.block():
        layers.assign(layers.elementwise_add(layers.scale(total, 0.5), x), total)
        layers.increment(i)
        layers.less_than(i, limit, cond=again)
    return [total, i], lambda fluid: [{"x": np.arange(6).reshape(2, 3).astype("float32")}]


def rows_go_two_ways(fluid):
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="float32")
    ways = layers.IfElse(layers.less_than(y, layers.fill_constant_batch_size_like(y, [-1, 1], "float32", 0.0)))
    with ways.true_block():
        ways.output(layers.scale(ways.input(x), 2.0))
    with ways.false_block():
        ways.output(layers.fc(ways.input(x), size=3))
    (out,) = ways()
    loss = layers.mean(out)
    fluid.backward.append_backward(loss)
    feed = {"x": np.arange(12).reshape(4, 3).astype("float32"), "y": np.array([[1], [-1], [2], [-3]], "float32")}
    return [out, loss, "fc_0.w_0@GRAD"], lambda fluid: [feed]


def a_recurrent_net(fluid):
    layers = fluid.layers
    x = layers.data(name="x", shape=[5, 2, 3], append_batch_size=False, dtype="float32", stop_gradient=False)
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 4], batch_ref=word, ref_batch_dim_idx=1)
        hidden = layers.fc([word, before], size=4, act="tanh")
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    out = rnn()
    loss = layers.mean(out)
    fluid.backward.append_backward(loss)
    feed = {"x": np.random.RandomState(0).rand(5, 2, 3).astype("float32")}
    return [out, loss, "fc_0.w_0@GRAD", "fc_0.w_1@GRAD"], lambda fluid: [feed]


def sequences(fluid):
    layers = fluid.layers
    words = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    table = layers.embedding(words, size=[10, 4])
    pools = [layers.sequence_pool(table, kind) for kind in ("average", "sum", "sqrt", "max", "first", "last")]
    weights = layers.sequence_softmax(layers.fc(table, size=1))
    back = layers.sequence_expand(pools[0], table)
    joined = layers.fc(layers.sequence_pool(layers.elementwise_mul(table, back), "sum"), size=4)
    loss = layers.mean(layers.elementwise_add(layers.sums(pools), joined))
    fluid.backward.append_backward(loss)

    def feeds(fluid):
        for ids, lengths in (([1, 2, 3, 4, 9], [[2, 3]]), ([1, 7, 3], [[1, 1, 1]])):
            array = np.array(ids, "int64").reshape(-1, 1)
            yield {"words": fluid.create_lod_tensor(array, lengths, fluid.CPUPlace())}

    return pools + [table, weights, back, loss, "embedding_0.w_0@GRAD"], feeds


def labels_of_words(fluid):
    """Two inputs of the same sequences, and a third one of others."""
    layers = fluid.layers
    words = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    marks = layers.data(name="marks", shape=[1], dtype="int64", lod_level=1)
    others = layers.data(name="others", shape=[2], dtype="float32", lod_level=1)
    scores = layers.fc(layers.embedding(words, size=[10, 4]), size=3, act="softmax")
    loss = layers.mean(layers.cross_entropy(scores, marks))
    ends = layers.elementwise_add(layers.sequence_last_step(scores), layers.fc(layers.sequence_first_step(others), size=3))

    def feeds(fluid):
        make = lambda array, lengths: fluid.create_lod_tensor(array, lengths, fluid.CPUPlace())
        for first, second in (([2, 1], [1, 3]), ([1, 1, 2], [2, 2, 1])):
            rows, more = sum(first), sum(second)
            yield {
                "words": make(np.arange(rows).reshape(-1, 1).astype("int64"), [first]),
                "marks": make((np.arange(rows) % 3).reshape(-1, 1).astype("int64"), [first]),
                "others": make(np.arange(2 * more).reshape(-1, 2).astype("float32"), [second]),
            }

    return [loss, ends, scores], feeds


def a_net_over_sequences(fluid):
    """Memories of a value, of rows by the order of the input and by that of the lengths; a row for each sequence at all steps."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32", lod_level=1, stop_gradient=False)
    start = layers.data(name="start", shape=[4], dtype="float32", stop_gradient=False)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word, still = rnn.step_input(x), rnn.static_input(start)
        memories = rnn.memory(shape=[4], value=0.5), rnn.memory(init=start, need_reorder=True), rnn.memory(init=start)
        hidden = layers.fc([word, still, *memories], size=4, act="tanh")
        doubled = layers.elementwise_add(layers.scale(memories[2], 0.5), hidden)
        for memory, value in zip(memories, (hidden, layers.elementwise_mul(hidden, memories[1]), doubled)):
            rnn.update_memory(memory, value)
        rnn.output(hidden, doubled)
    outs = rnn()
    last = layers.sequence_last_step(outs[1])
    loss = layers.elementwise_add(layers.mean(layers.square(outs[0])), layers.mean(last))
    fluid.backward.append_backward(loss)

    def feeds(fluid):
        draws = np.random.RandomState(0)
        for lengths in ([2, 4, 1], [3, 3], [1, 1, 5, 2]):
            rows = draws.rand(sum(lengths), 3).astype("float32")
            first = draws.rand(len(lengths), 4).astype("float32")
            yield {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace()), "start": first}

    weights = [f"fc_0.w_{i}@GRAD" for i in range(5)] + ["fc_0.b_0@GRAD"]
    return [*outs, last, loss, "x@GRAD", "start@GRAD"] + weights, feeds


def rows_by_ranks(fluid):
    layers = fluid.layers
    x = layers.data(name="x", shape=[1], dtype="float32", lod_level=1)
    rows = layers.data(name="rows", shape=[2], dtype="float32", stop_gradient=False)
    table = layers.control_flow.lod_rank_table(x)
    ordered = layers.reorder_lod_tensor_by_rank(rows, table)
    weight = layers.cast(layers.control_flow.max_sequence_len(table), "float32")
    fluid.backward.append_backward(layers.mean(layers.elementwise_mul(layers.square(ordered), weight)))

    def feeds(fluid):
        for lengths in ([2, 4, 1, 2], [3, 3]):
            array = np.ones((sum(lengths), 1), "float32")
            numbers = np.arange(2 * len(lengths)).reshape(-1, 2).astype("float32")
            yield {"x": fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace()), "rows": numbers}

    return [ordered, layers.control_flow.max_sequence_len(table), "rows@GRAD"], feeds


def attention_over_sequences(fluid):
    """Each step weighs the rows of a sequence of the encoder's by what it remembers."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32", lod_level=1, stop_gradient=False)
    encoded = layers.data(name="encoded", shape=[3], dtype="float32", lod_level=1, stop_gradient=False)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word, seen = rnn.step_input(x), rnn.static_input(encoded)
        memory = rnn.memory(shape=[3], value=0.2)
        asked = layers.sequence_expand(layers.fc(memory, 3, bias_attr=False), seen)
        scores = layers.fc(layers.concat([seen, asked], axis=1), 1, act="tanh", bias_attr=False)
        weights = layers.reshape(layers.sequence_softmax(scores), [-1])
        context = layers.sequence_pool(layers.elementwise_mul(seen, weights, axis=0), "sum")
        hidden = layers.fc([word, context, memory], 3, act="tanh")
        rnn.update_memory(memory, hidden)
        rnn.output(hidden)
    out = rnn()
    fluid.backward.append_backward(layers.mean(layers.square(out)))

    def feeds(fluid):
        draws = np.random.RandomState(0)
        for lengths, others in (([2, 4, 1], [1, 3, 2]), ([1, 3], [4, 2]), ([2, 1], [2, 1])):
            rows, more = (draws.rand(sum(given), 3).astype("float32") for given in (lengths, others))
            place = fluid.CPUPlace()
            yield {"x": fluid.create_lod_tensor(rows, [lengths], place), "encoded": fluid.create_lod_tensor(more, [others], place)}

    weights = [f"fc_{i}.w_{k}@GRAD" for i, k in ((0, 0), (1, 0), (2, 0), (2, 1), (2, 2))]
    return [out, "x@GRAD", "encoded@GRAD"] + weights, feeds


def sequences_in_arrays(fluid):
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32", lod_level=1, stop_gradient=False)
    first, second = (layers.fill_constant([1], "int64", i) for i in range(2))
    array = layers.array_write(x, first)
    layers.array_write(layers.scale(x, 2.0), second, array)
    ends = [layers.sequence_last_step(layers.array_read(array, i)) for i in (first, second)]
    fluid.backward.append_backward(layers.mean(layers.square(layers.elementwise_sub(*ends))))

    def feeds(fluid):
        for lengths in ([2, 4, 1], [1, 3]):
            rows = np.arange(3 * sum(lengths)).reshape(-1, 3).astype("float32")
            yield {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())}

    return [layers.array_read(array, first), *ends, "x@GRAD"], feeds


def rows_by_steps(fluid):
    """Sequences as arrays of rows by steps and back, and what else a rank table orders."""
    layers = fluid.layers
    tables = layers.control_flow
    x, y = (layers.data(name=n, shape=[3], dtype="float32", lod_level=1, stop_gradient=False) for n in "xy")
    rows = layers.data(name="rows", shape=[2], dtype="float32", stop_gradient=False)
    table = tables.lod_rank_table(x)
    array = tables.lod_tensor_to_array(x, table)
    first, second = (layers.fill_constant([1], "int64", i) for i in range(2))
    steps = [layers.array_read(array, i) for i in (first, second)]
    again = tables.array_to_lod_tensor(array, table)
    left = tables.shrink_memory(rows, second, table)
    ordered = layers.reorder_lod_tensor_by_rank(y, table)
    parts = [*steps, layers.sequence_pool(again, "max"), left]
    parts.append(layers.elementwise_mul(layers.sequence_pool(ordered, "sum"), layers.sequence_pool(ordered, "first")))
    fluid.backward.append_backward(layers.sums([layers.reduce_sum(layers.square(part)) for part in parts]))

    def feeds(fluid):
        draws = np.random.RandomState(0)
        for lengths, others in (([2, 4, 1], [3, 1, 2]), ([1, 3, 3, 2], [1, 1, 1, 1])):
            place = fluid.CPUPlace()
            given = [fluid.create_lod_tensor(draws.rand(sum(n), 3).astype("float32"), [n], place) for n in (lengths, others)]
            yield {"x": given[0], "y": given[1], "rows": draws.rand(len(lengths), 2).astype("float32")}

    return [*steps, again, left, ordered, layers.array_length(array), "x@GRAD", "y@GRAD", "rows@GRAD"], feeds


FETCHES = [
    a_loop, rows_go_two_ways, a_recurrent_net, sequences, labels_of_words, a_net_over_sequences, rows_by_ranks, attention_over_sequences,
    sequences_in_arrays, rows_by_steps,
]  # fmt: skip
