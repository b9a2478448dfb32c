"""Programs as people wrote them for fluid 1.8: readers, feeders and loops around them, two programs that learn from each other, files."""

import os
import shutil
import tempfile

import numpy as np

from tests.fluid.whole.running import start


def _sentences(seed, count, words, labels, longest=9):
    """A reader, as data sets have it: a list of words, and a label or a list of labels."""

    def read():
        draws = np.random.RandomState(seed)
        for _ in range(count):
            length = draws.randint(1, longest)
            said = draws.randint(0, words, length).tolist()
            yield (said, draws.randint(0, labels, length).tolist()) if labels > 2 else (said, int(draws.randint(0, labels)))

    return read


def sentiment_by_windows(fluid, size, watch):
    """Two convolutions of words with pools; batches by `batch`, fed by a `DataFeeder`; accuracies weighed by `metrics.Accuracy`."""
    layers = fluid.layers
    words = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int64")
    read = layers.embedding(input=words, size=[50, 16], is_sparse=True)
    parts = [
        fluid.nets.sequence_conv_pool(input=read, num_filters=16, filter_size=n, act="tanh", pool_type="sqrt") for n in (3, 4)
    ]
    shares = layers.fc(input=parts, size=2, act="softmax")
    cost = layers.mean(layers.cross_entropy(input=shares, label=label))
    right = layers.accuracy(input=shares, label=label)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adagrad(learning_rate=0.02).minimize(cost)
    exe, results = start(fluid), []
    feeder = fluid.DataFeeder(feed_list=[words, label], place=fluid.CPUPlace())
    train = fluid.io.batch(_sentences(1, 22, 50, 2), batch_size=8)
    for _ in range(2):
        for data in train():
            results += exe.run(fluid.default_main_program(), feed=feeder.feed(data), fetch_list=[cost, right])
    metric = fluid.metrics.Accuracy()
    for data in fluid.io.batch(_sentences(2, 11, 50, 2), batch_size=4)():
        found, share = exe.run(test, feed=feeder.feed(data), fetch_list=[cost, right])
        metric.update(value=share, weight=len(data))
        results.append(found)
    return [*results, metric.eval()]


def tags_by_field(fluid, size, watch):
    """A table that was learned before and does not learn, LSTMs in both directions, a CRF whose rate is its own, and `ChunkEvaluator`."""
    layers = fluid.layers
    words = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    target = layers.data(name="target", shape=[1], dtype="int64", lod_level=1)
    read = layers.embedding(words, size=[40, 12], param_attr=fluid.ParamAttr(name="table", trainable=False))
    both = []
    for back in (False, True):
        gates = layers.fc(read, 24, act="tanh")
        state, _ = layers.dynamic_lstm(gates, 24, is_reverse=back, candidate_activation="relu", use_peepholes=back)
        both += [gates, state]
    scores = layers.fc(both, 7)
    cost = layers.linear_chain_crf(input=scores, label=target, param_attr=fluid.ParamAttr(name="crfw", learning_rate=10.0))
    mean = layers.mean(cost)
    rate = layers.exponential_decay(learning_rate=0.01, decay_steps=4, decay_rate=0.5, staircase=True)
    fluid.optimizer.SGD(learning_rate=rate).minimize(mean)
    best = layers.crf_decoding(input=scores, param_attr=fluid.ParamAttr(name="crfw"))
    counted = layers.chunk_eval(input=best, label=target, chunk_scheme="IOB", num_chunk_types=3)
    exe, results = start(fluid), []
    table = np.random.RandomState(8).uniform(-1, 1, (40, 12)).astype("float32")
    fluid.global_scope().find_var("table").get_tensor().set(table, fluid.CPUPlace())
    feeder = fluid.DataFeeder(feed_list=["words", "target"], place=fluid.CPUPlace())
    metric = fluid.metrics.ChunkEvaluator()
    for data in fluid.io.batch(_sentences(3, 24, 40, 7), batch_size=6)():
        found = exe.run(feed=feeder.feed(data), fetch_list=[mean, rate, *counted])
        results += found[:2]
        metric.update(*(np.array(f) for f in found[5:]))
    return [*results, *metric.eval(), np.array(fluid.global_scope().find_var("table").get_tensor())]


def critic_and_generator(fluid, size, watch):
    """A generator and its critic: a program each, that share parameters by their names and learn only their own."""
    layers, count = fluid.layers, 10

    def named(name):
        return {"param_attr": fluid.ParamAttr(name=name + ".w"), "bias_attr": fluid.ParamAttr(name=name + ".b")}

    def critic(image):
        x = layers.reshape(image, [-1, 1, 12, 12])
        x = layers.leaky_relu(layers.conv2d(x, 6, 5, stride=2, padding=2, **named("c1")), 0.2)
        x = layers.leaky_relu(layers.batch_norm(layers.conv2d(x, 8, 5, stride=2, padding=2, **named("c2")), **norm("cn")), 0.2)
        return layers.fc(x, 1, **named("c3"))

    def norm(name):
        return {**named(name), "moving_mean_name": name + ".mean", "moving_variance_name": name + ".variance"}

    def generator(noise):
        x = layers.relu(layers.batch_norm(layers.fc(noise, 8 * 9, **named("g1")), **norm("gn")))
        x = layers.reshape(x, [-1, 8, 3, 3])
        for i, filters in enumerate((6, 1)):
            x = layers.conv2d_transpose(x, filters, filter_size=4, stride=2, padding=1, **named(f"gt{i}"))
            x = layers.relu(x) if i == 0 else layers.tanh(x)
        return layers.reshape(x, [-1, 144])

    def judged(scores, value):
        wanted = layers.fill_constant_batch_size_like(scores, shape=[-1, 1], dtype="float32", value=value)
        return layers.reduce_mean(layers.sigmoid_cross_entropy_with_logits(x=scores, label=wanted))

    of_critic, of_generator = fluid.Program(), fluid.Program()
    startup = fluid.default_startup_program()
    with fluid.program_guard(of_critic, startup):
        real = layers.data(name="image", shape=[144], dtype="float32")
        false = layers.data(name="false", shape=[144], dtype="float32")
        loss_of_critic = judged(critic(real), 0.9) + judged(critic(false), 0.0)
        mine = [p.name for p in of_critic.global_block().all_parameters() if p.name.startswith("c")]
        fluid.optimizer.Adam(0.002, beta1=0.5).minimize(loss_of_critic, parameter_list=mine)
    with fluid.program_guard(of_generator, startup):
        noise = layers.data(name="noise", shape=[count], dtype="float32")
        made = generator(noise)
        shown = of_generator.clone()
        loss_of_generator = judged(critic(made), 1.0)
        mine = [p.name for p in of_generator.global_block().all_parameters() if p.name.startswith("g")]
        fluid.optimizer.Adam(0.002, beta1=0.5).minimize(loss_of_generator, parameter_list=mine)
    with fluid.program_guard(of_critic):
        exe = start(fluid)
    with fluid.program_guard(of_generator, fluid.Program()):
        draws = np.random.RandomState(3)
        for p in of_generator.global_block().all_parameters():
            if p.name.startswith("g") and p.trainable:
                tensor = fluid.global_scope().find_var(p.name).get_tensor()
                tensor.set(draws.uniform(-0.3, 0.3, np.array(tensor).shape).astype("float32"), fluid.CPUPlace())
    draws, results = np.random.RandomState(5), []
    for _ in range(3):
        images = draws.uniform(-1, 1, (6, 144)).astype("float32")
        (false_images,) = exe.run(shown, feed={"noise": draws.uniform(-1, 1, (6, count)).astype("float32")}, fetch_list=[made.name])
        results += exe.run(of_critic, feed={"image": images, "false": false_images}, fetch_list=[loss_of_critic])
        for _ in range(2):
            results += exe.run(
                of_generator, feed={"noise": draws.uniform(-1, 1, (6, count)).astype("float32")}, fetch_list=[loss_of_generator])
    return [*results, false_images]


def words_by_their_context(fluid, size, watch):
    """A bag of words says the one in the middle, by a hierarchical softmax, with a rate that warms up and falls by a polynomial."""
    layers = fluid.layers
    names = [f"w{i}" for i in range(4)]
    given = [layers.data(name=name, shape=[1], dtype="int64") for name in names]
    middle = layers.data(name="middle", shape=[1], dtype="int64")
    read = [layers.embedding(w, size=[30, 10], is_sparse=True, param_attr=fluid.ParamAttr(name="emb")) for w in given]
    hidden = layers.scale(layers.sums(read), scale=0.25)
    cost = layers.mean(layers.hsigmoid(hidden, middle, num_classes=30))
    rate = layers.linear_lr_warmup(layers.polynomial_decay(0.1, 6, 0.01, power=2.0), warmup_steps=3, start_lr=0.01, end_lr=0.1)
    fluid.optimizer.SGD(rate).minimize(cost)
    exe, draws, results = start(fluid), np.random.RandomState(6), []
    for _ in range(7):
        results += exe.run(feed={n: draws.randint(0, 30, (9, 1)).astype("int64") for n in [*names, "middle"]}, fetch_list=[cost, rate])
    return [*results, np.array(fluid.global_scope().find_var("emb").get_tensor())]


def epochs_of_a_py_reader(fluid, size, watch):
    """`py_reader` with a double buffer: an epoch ends with `EOFException`, and the next one begins behind `reset`."""
    layers = fluid.layers
    reader = layers.py_reader(
        capacity=4, shapes=[(-1, 8), (-1, 1)], dtypes=["float32", "int64"], lod_levels=[0, 0], name="train", use_double_buffer=True)
    x, label = layers.read_file(reader)
    hidden = layers.dropout(layers.fc(x, 12, act="relu"), 0.0)
    cost = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, 3), label))
    fluid.optimizer.Momentum(0.1, 0.9, use_nesterov=True).minimize(cost)
    exe, results = start(fluid), []

    def samples():
        draws = np.random.RandomState(7)
        for _ in range(13):
            yield draws.uniform(-1, 1, 8).astype("float32"), int(draws.randint(0, 3))

    reader.decorate_paddle_reader(fluid.io.batch(samples, batch_size=5))
    for _ in range(3):
        reader.start()
        try:
            while True:
                results += exe.run(fetch_list=[cost])
        except fluid.core.EOFException:
            reader.reset()
    return results


def a_model_is_kept_and_served(fluid, size, watch):
    """`save_inference_model`, and a process that knows only the files; parameters, and a training that goes on from them."""
    layers = fluid.layers
    image = layers.data(name="image", shape=[1, 12, 12], dtype="float32")
    label = layers.data(name="label", shape=[1], dtype="int64")
    made = fluid.nets.simple_img_conv_pool(image, filter_size=3, num_filters=4, pool_size=2, pool_stride=2, act="relu")
    shares = layers.fc(layers.dropout(layers.batch_norm(made), 0.5, seed=1, dropout_implementation="upscale_in_train"), 5, act="softmax")
    test = fluid.default_main_program().clone(for_test=True)
    cost = layers.mean(layers.cross_entropy(shares, label))
    fluid.optimizer.Adam(0.01).minimize(cost)
    exe, draws, results = start(fluid), np.random.RandomState(9), []
    folder = tempfile.mkdtemp()
    try:
        images = draws.uniform(-1, 1, (6, 1, 12, 12)).astype("float32")
        before = exe.run(test, feed={"image": images}, fetch_list=[shares.name])
        fluid.io.save_inference_model(os.path.join(folder, "served"), ["image"], [shares], exe, params_filename="weights")
        fluid.io.save_persistables(exe, os.path.join(folder, "state"), main_program=fluid.default_main_program())
        for parameter in fluid.default_main_program().all_parameters():
            tensor = fluid.global_scope().find_var(parameter.name).get_tensor()
            tensor.set(np.zeros_like(np.array(tensor)), fluid.CPUPlace())
        fluid.io.load_persistables(exe, os.path.join(folder, "state"), main_program=fluid.default_main_program())
        results += before + exe.run(test, feed={"image": images}, fetch_list=[shares.name])
        with fluid.scope_guard(fluid.Scope()):
            program, names, targets = fluid.io.load_inference_model(os.path.join(folder, "served"), exe, params_filename="weights")
            results += exe.run(program, feed={names[0]: images}, fetch_list=targets)
            results += exe.run(program, feed={names[0]: images[:2]}, fetch_list=targets)
    finally:
        shutil.rmtree(folder)
    return results


def clicks_by_wide_and_deep(fluid, size, watch):
    """Sparse slots of any number of features beside dense ones; `auc` of all batches, `DataLoader.from_generator`, means of weights."""
    layers = fluid.layers
    dense = fluid.data(name="dense", shape=[None, 5], dtype="float32")
    slots = [fluid.data(name=f"slot{i}", shape=[None, 1], dtype="int64", lod_level=1) for i in range(3)]
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    tables = [
        layers.sequence_pool(layers.embedding(s, size=[25, 6], is_sparse=True, param_attr=fluid.ParamAttr(name="deep")), "sum")
        for s in slots
    ]
    wide = [layers.sequence_pool(layers.embedding(s, size=[25, 1], param_attr=fluid.ParamAttr(name="wide")), "sum") for s in slots]
    hidden = layers.concat([*tables, dense], axis=1)
    for width in (12, 8):
        hidden = layers.fc(hidden, width, act="relu")
    score = layers.elementwise_add(layers.fc(hidden, 1), layers.sums(wide))
    cost = layers.reduce_mean(layers.sigmoid_cross_entropy_with_logits(score, layers.cast(label, "float32")))
    share = layers.sigmoid(score)
    area, _, _ = layers.auc(layers.concat([1 - share, share], axis=1), label, num_thresholds=200)
    fluid.optimizer.SGD(layers.inverse_time_decay(0.2, 3, 0.5)).minimize(cost)
    means = fluid.optimizer.ExponentialMovingAverage(0.9)
    means.update()
    exe, results = start(fluid), []
    loader = fluid.io.DataLoader.from_generator(feed_list=[dense, *slots, label], capacity=4, iterable=True)

    def samples():
        draws = np.random.RandomState(11)
        for _ in range(20):
            said = [draws.randint(0, 25, draws.randint(1, 5)).tolist() for _ in slots]
            yield [draws.uniform(-1, 1, 5).astype("float32"), *said, [int(draws.randint(0, 2))]]

    loader.set_sample_list_generator(fluid.io.batch(samples, batch_size=7), places=fluid.CPUPlace())
    for _ in range(2):
        for data in loader():
            results += exe.run(feed=data, fetch_list=[cost, area])
    with means.apply(exe):
        results.append(np.array(fluid.global_scope().find_var("deep").get_tensor()))
    return results


def a_language_model_in_pieces(fluid, size, watch):
    """Long texts in pieces: a `StaticRNN` whose last state is fed to the next piece; gradients are clipped by their norm."""
    layers, steps, batch, width, words = fluid.layers, 4, 3, 8, 20
    x = layers.data(name="x", shape=[batch, steps, 1], dtype="int64", append_batch_size=False)
    y = layers.data(name="y", shape=[batch * steps, 1], dtype="int64", append_batch_size=False)
    first = layers.data(name="first", shape=[batch, width], dtype="float32", append_batch_size=False)
    first_cell = layers.data(name="first_cell", shape=[batch, width], dtype="float32", append_batch_size=False)
    read = layers.transpose(layers.embedding(x, size=[words, width]), perm=[1, 0, 2])
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(read)
        hidden, cell = rnn.memory(init=first), rnn.memory(init=first_cell)
        gates = layers.fc(layers.concat([word, hidden], axis=1), 4 * width)
        i, j, f, o = layers.split(gates, num_or_sections=4, dim=-1)
        new_cell = cell * layers.sigmoid(f + 1.0) + layers.sigmoid(i) * layers.tanh(j)
        new = layers.tanh(new_cell) * layers.sigmoid(o)
        rnn.update_memory(hidden, new)
        rnn.update_memory(cell, new_cell)
        rnn.step_output(new)
        rnn.step_output(new_cell)
    outputs, cells = rnn()
    last, last_cell = (
        layers.reshape(layers.slice(v, axes=[0], starts=[steps - 1], ends=[steps]), [batch, width]) for v in (outputs, cells)
    )
    scores = layers.fc(layers.reshape(layers.transpose(outputs, perm=[1, 0, 2]), [-1, width]), words)
    loss = layers.reduce_sum(layers.reshape(layers.softmax_with_cross_entropy(scores, y), [batch, steps])) / batch
    rate = layers.create_global_var(shape=[1], value=0.5, dtype="float32", persistable=True, name="rate")
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(clip_norm=1.0))
    fluid.optimizer.SGD(rate).minimize(loss)
    exe, draws, results = start(fluid), np.random.RandomState(12), []
    text = draws.randint(0, words, (batch, 17)).astype("int64")
    for epoch in range(2):
        fluid.global_scope().find_var("rate").get_tensor().set(np.array([0.5 / (epoch + 1)], "float32"), fluid.CPUPlace())
        state, state_cell = np.zeros((batch, width), "float32"), np.zeros((batch, width), "float32")
        for at in range(0, 16, steps):
            feed = {"x": text[:, at : at + steps, None], "y": text[:, at + 1 : at + steps + 1].reshape(-1, 1)}
            feed.update(first=state, first_cell=state_cell)
            found, state, state_cell = exe.run(feed=feed, fetch_list=[loss, last, last_cell])
            results.append(found)
    return [*results, state, state_cell]


def a_transformer_learns(fluid, size, watch):
    """An encoder of two layers over padded sentences: masks, attention, norms behind residuals, smooth labels, and `noam_decay`."""
    layers, words, width, heads, longest = fluid.layers, 24, 12, 3, 6
    x = layers.data(name="x", shape=[longest, 1], dtype="int64")
    y = layers.data(name="y", shape=[longest, 1], dtype="int64")
    mask = layers.data(name="mask", shape=[heads, longest, longest], dtype="float32")
    weight = layers.data(name="weight", shape=[longest, 1], dtype="float32")
    at = layers.data(name="at", shape=[longest, 1], dtype="int64")
    made = layers.scale(layers.embedding(x, size=[words, width], padding_idx=0), scale=width**0.5)
    made = made + layers.embedding(at, size=[longest, width], param_attr=fluid.ParamAttr(name="places", trainable=False))

    def parted(v):
        return layers.transpose(layers.reshape(v, shape=[0, 0, heads, width // heads]), perm=[0, 2, 1, 3])

    for _ in range(2):
        q, k, v = (parted(layers.fc(made, width, num_flatten_dims=2, bias_attr=False)) for _ in range(3))
        shares = layers.softmax(layers.matmul(q, k, transpose_y=True, alpha=(width // heads) ** -0.5) + mask)
        joined = layers.reshape(layers.transpose(layers.matmul(shares, v), perm=[0, 2, 1, 3]), shape=[0, 0, width])
        made = layers.layer_norm(made + layers.fc(joined, width, num_flatten_dims=2), begin_norm_axis=2)
        wide = layers.fc(made, 2 * width, num_flatten_dims=2, act="relu")
        made = layers.layer_norm(made + layers.fc(wide, width, num_flatten_dims=2), begin_norm_axis=2)
    scores = layers.reshape(layers.fc(made, words, num_flatten_dims=2), [-1, words])
    wanted = layers.label_smooth(layers.one_hot(layers.reshape(y, [-1, 1]), depth=words), epsilon=0.1)
    cost = layers.softmax_with_cross_entropy(scores, wanted, soft_label=True) * layers.reshape(weight, [-1, 1])
    count = layers.reduce_sum(weight)
    count.stop_gradient = True
    loss = layers.reduce_sum(cost) / count
    optimizer = fluid.optimizer.Adam(layers.noam_decay(width, 4), beta1=0.9, beta2=0.98, epsilon=1e-9)
    optimizer.minimize(loss)
    exe, draws, results = start(fluid), np.random.RandomState(13), []
    waves = np.sin(np.arange(longest)[:, None] / 10.0 ** np.linspace(0, 2, width)).astype("float32")
    fluid.global_scope().find_var("places").get_tensor().set(waves, fluid.CPUPlace())
    for count in (4, 4, 2, 4):
        real = np.arange(longest) < draws.randint(1, longest + 1, (count, 1))
        feed = {
            "x": (draws.randint(1, words, (count, longest)) * real)[..., None].astype("int64"),
            "y": draws.randint(1, words, (count, longest, 1)).astype("int64"),
            "mask": np.repeat(np.where(real[:, None, None], 0.0, -1e9), heads, 1).repeat(longest, 2).astype("float32"),
            "weight": real[..., None].astype("float32"), "at": np.tile(np.arange(longest)[:, None], (count, 1, 1)).astype("int64"),
        }  # fmt: skip
        results += exe.run(feed=feed, fetch_list=[loss])
    return results


def questions_and_answers(fluid, size, watch):
    """Two towers that share a table and a GRU; a margin between a right and a wrong answer; `CompiledProgram` with data parallel."""
    layers = fluid.layers
    names = ("question", "right", "wrong")
    given = [layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in names]

    def tower(words):
        read = layers.embedding(words, size=[30, 8], param_attr=fluid.ParamAttr(name="table"))
        gates = layers.fc(read, 24, param_attr=fluid.ParamAttr(name="gates"), bias_attr=fluid.ParamAttr(name="gates.b"))
        state = layers.dynamic_gru(gates, 8, param_attr=fluid.ParamAttr(name="gru"), bias_attr=fluid.ParamAttr(name="gru.b"))
        return layers.concat([layers.sequence_pool(state, "max"), layers.sequence_last_step(state)], axis=1)

    question, right, wrong = (tower(words) for words in given)
    near, far = layers.cos_sim(question, right), layers.cos_sim(question, wrong)
    ones = layers.fill_constant_batch_size_like(near, shape=[-1, 1], dtype="float32", value=1.0)
    loss = layers.mean(layers.margin_rank_loss(ones, near, far, margin=0.3))
    fluid.optimizer.RMSProp(0.01, rho=0.9, momentum=0.5, centered=True).minimize(loss)
    exe, results = start(fluid), []
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()])
    draws = np.random.RandomState(14)
    for _ in range(5):
        feed = {}
        for name in names:
            lengths = draws.randint(1, 8, 4).tolist()
            feed[name] = fluid.create_lod_tensor(draws.randint(0, 30, (sum(lengths), 1)).astype("int64"), [lengths], fluid.CPUPlace())
        results += exe.run(compiled, feed=feed, fetch_list=[loss.name])
    return results
