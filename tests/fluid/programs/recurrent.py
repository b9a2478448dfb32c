"""Programs of 2018 with recurrent layers over sequences, pairs of networks, and layers of images."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _start(fluid, *programs):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for program in programs or (fluid.default_main_program(),):
        set_weights(fluid, program, -0.3, 0.3)
    return exe


def _words(fluid, lengths, count, seed):
    ids = np.random.RandomState(seed).randint(0, count, (sum(lengths), 1)).astype("int64")
    return fluid.create_lod_tensor(ids, [lengths], fluid.CPUPlace())


def sentiment_by_stacked_lstm(fluid):
    """Layers of LSTM in turns of direction, the greatest of each sequence, two classes."""
    layers = fluid.layers
    data = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int64")
    emb = layers.embedding(input=data, size=[30, 6], is_sparse=True)
    fc1 = layers.fc(input=emb, size=8)
    lstm1, _ = layers.dynamic_lstm(input=fc1, size=8)
    inputs = [fc1, lstm1]
    for i in range(2, 4):
        fc = layers.fc(input=inputs, size=8)
        lstm, _ = layers.dynamic_lstm(input=fc, size=8, is_reverse=i % 2 == 0)
        inputs = [fc, lstm]
    pools = [layers.sequence_pool(input=part, pool_type="max") for part in inputs]
    prediction = layers.fc(input=pools, size=2, act="softmax")
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss)
    exe, results = _start(fluid), []
    for i, lengths in enumerate([[3, 1, 5], [2, 2, 2], [7, 1, 4]]):
        feed = {"words": _words(fluid, lengths, 30, i), "label": np.array([[0], [1], [i % 2]], "int64")}
        results += exe.run(feed=feed, fetch_list=[loss, prediction])
        results += exe.run(test, feed=feed, fetch_list=[loss])
    return results


def roles_of_words(fluid):
    """Words and marks, hidden layers mixed of them, LSTM of other activations, a class for each word."""
    layers = fluid.layers
    names = ("word", "before", "after", "mark")
    given = [layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in names]
    target = layers.data(name="target", shape=[1], dtype="int64", lod_level=1)
    embedded = [layers.embedding(input=x, size=[20, 4], param_attr=fluid.ParamAttr(name="table")) for x in given[:3]]
    embedded.append(layers.embedding(input=given[3], size=[20, 3], param_attr="marks"))
    hidden = layers.sums(input=[layers.fc(input=x, size=8, act="tanh") for x in embedded])
    lstm, _ = layers.dynamic_lstm(input=hidden, size=8, candidate_activation="relu", gate_activation="sigmoid", cell_activation="sigmoid")
    mixed = layers.sums(input=[layers.fc(input=x, size=8, act="tanh") for x in (hidden, lstm)])
    back, _ = layers.dynamic_lstm(input=mixed, size=8, candidate_activation="relu", is_reverse=True, use_peepholes=False)
    scores = layers.sums(input=[layers.fc(input=x, size=5, act="tanh") for x in (mixed, back)])
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, target))
    rate = layers.exponential_decay(learning_rate=0.1, decay_steps=2, decay_rate=0.5, staircase=True)
    fluid.optimizer.SGD(learning_rate=rate).minimize(loss)
    exe, results = _start(fluid), []
    for i, lengths in enumerate([[3, 4], [5, 1, 2], [2, 2]]):
        feed = {name: _words(fluid, lengths, 20, 10 * i + j) for j, name in enumerate(names)}
        feed["target"] = _words(fluid, lengths, 5, 90 + i)
        results += exe.run(feed=feed, fetch_list=[loss, "table@GRAD", rate])
        results += exe.run(feed=feed, fetch_list=[scores], return_numpy=False)
    return results


def ratings_by_likeness(fluid):
    """A user and a film, whose title and kinds are sequences, and the cosine between the two as a rating."""
    layers = fluid.layers
    user, age = (layers.data(name=name, shape=[1], dtype="int64") for name in ("user", "age"))
    of_user = [layers.fc(layers.embedding(x, size=[9, 4], param_attr=name), size=4) for x, name in ((user, "users"), (age, "ages"))]
    of_user = layers.fc(layers.concat(of_user, axis=1), size=6, act="tanh")
    title, kinds = (layers.data(name=name, shape=[1], dtype="int64", lod_level=1) for name in ("title", "kinds"))
    words = layers.sequence_conv(layers.embedding(title, size=[20, 4]), num_filters=5, filter_size=3, act="tanh")
    parts = [layers.sequence_pool(words, "sum"), layers.sequence_pool(layers.embedding(kinds, size=[7, 3]), "sum")]
    film = layers.fc(layers.concat(parts, axis=1), size=6, act="tanh")
    rating = layers.data(name="rating", shape=[1], dtype="float32")
    predicted = layers.scale(layers.cos_sim(X=of_user, Y=film), scale=5.0)
    loss = layers.mean(layers.square_error_cost(input=predicted, label=rating))
    fluid.optimizer.SGD(learning_rate=0.05).minimize(loss)
    exe, results = _start(fluid), []
    for i in range(3):
        draws = np.random.RandomState(i)
        feed = {"user": draws.randint(0, 9, (3, 1)).astype("int64"), "age": draws.randint(0, 9, (3, 1)).astype("int64"),
                "title": _words(fluid, [2, 4, 1], 20, i), "kinds": _words(fluid, [1, 2, 3], 7, i),
                "rating": draws.uniform(1, 5, (3, 1)).astype("float32")}  # fmt: skip
        results += exe.run(feed=feed, fetch_list=[loss, predicted])
    return results


def translation_by_gru(fluid):
    """Both directions of a sentence, its last state at each step of another sentence, and weights of words by hand."""
    layers = fluid.layers
    source, target, following = (layers.data(name=n, shape=[1], dtype="int64", lod_level=1) for n in ("source", "target", "following"))
    emb = layers.embedding(source, size=[15, 4])
    forth = layers.dynamic_gru(layers.fc(emb, size=9, bias_attr=False), size=3)
    back = layers.dynamic_gru(layers.fc(emb, size=9, bias_attr=False), size=3, is_reverse=True)
    both = layers.concat([forth, back], axis=1)
    thought = layers.concat([layers.sequence_last_step(forth), layers.sequence_first_step(back)], axis=1)
    first = layers.fc(thought, size=4, act="tanh")
    words = layers.embedding(target, size=[15, 4])
    wide = layers.sequence_expand_as(layers.sequence_pool(both, "average"), words)
    hidden = layers.dynamic_gru(layers.fc([words, wide], size=12), size=4, h_0=first, origin_mode=True)
    prediction = layers.fc(hidden, size=15, act="softmax")
    loss = layers.mean(layers.cross_entropy(prediction, following))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.5))
    fluid.optimizer.Adam(0.02, regularization=fluid.regularizer.L2Decay(0.01)).minimize(loss)
    exe, results = _start(fluid), []
    for i in range(3):
        feed = {"source": _words(fluid, [3, 2, 4], 15, i), "target": _words(fluid, [2, 3, 1], 15, 10 + i),
                "following": _words(fluid, [2, 3, 1], 15, 20 + i)}  # fmt: skip
        results += exe.run(feed=feed, fetch_list=[loss, first])
        results += exe.run(feed=feed, fetch_list=[prediction], return_numpy=False)
    return results


def two_networks_against_each_other(fluid):
    """One makes images by transposed convolutions, the other tells them from given ones; each has a program and an optimizer."""
    layers = fluid.layers

    def judge(image):
        hidden = layers.conv2d(image, 3, 3, 2, 1, param_attr="d_conv", bias_attr="d_conv_b", act="leaky_relu")
        return layers.fc(hidden, size=1, param_attr="d_fc", bias_attr="d_fc_b")

    def make(noise):
        hidden = layers.reshape(layers.fc(noise, size=16, param_attr="g_fc", bias_attr="g_fc_b", act="relu"), [-1, 4, 2, 2])
        return layers.conv2d_transpose(hidden, 1, filter_size=2, stride=2, param_attr="g_up", bias_attr="g_up_b", act="tanh")

    judging, making = fluid.Program(), fluid.Program()
    with fluid.program_guard(judging):
        image, label = layers.data("image", [1, 4, 4]), layers.data("label", [1])
        d_loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(judge(image), label))
    with fluid.program_guard(making):
        fake = make(layers.data("noise", [3]))
        sample = making.clone()
        count = layers.fill_constant_batch_size_like(fake, [-1, 1], "float32", 1.0)
        g_loss = layers.reduce_mean(layers.sigmoid_cross_entropy_with_logits(judge(fake), count))
    names = [[p.name for p in program.global_block().all_parameters()] for program in (judging, making)]
    with fluid.program_guard(judging):
        fluid.optimizer.Adam(0.02, beta1=0.5).minimize(d_loss, parameter_list=names[0])
    with fluid.program_guard(making):
        fluid.optimizer.Adam(0.02, beta1=0.5).minimize(g_loss, parameter_list=[n for n in names[1] if n.startswith("g_")])
    exe, results, draws = _start(fluid, judging, making), [], np.random.RandomState(0)
    for _ in range(3):
        noise, real = draws.uniform(-1, 1, (2, 3)).astype("float32"), draws.uniform(-1, 1, (2, 1, 4, 4)).astype("float32")
        made, = exe.run(sample, feed={"noise": noise}, fetch_list=[fake.name])
        feed = {"image": np.concatenate([real, made]), "label": np.array([[1], [1], [0], [0]], "float32")}
        results += [made] + exe.run(judging, feed=feed, fetch_list=[d_loss])
        results += exe.run(making, feed={"noise": noise}, fetch_list=[g_loss, "g_up@GRAD"])
    return results


def classes_by_normalized_responses(fluid):
    """Convolutions with responses normalized among channels, groups, smoothed labels, and steps that shrink."""
    layers = fluid.layers
    image, label = layers.data("image", [2, 6, 6]), layers.data("label", [1], dtype="int64")
    hidden = layers.lrn(layers.conv2d(image, 4, 3, padding=1, act="relu"), n=3, alpha=0.1)
    hidden = layers.pool2d(hidden, 2, "max", 2)
    hidden = layers.prelu(layers.group_norm(layers.conv2d(hidden, 4, 3, padding=1), 2, param_attr="scale", bias_attr="shift"), "channel")
    hidden = layers.resize_bilinear(layers.pad2d(hidden, [1, 1, 1, 1], "reflect"), scale=1.5, align_corners=False)
    hidden = layers.dropout(layers.adaptive_pool2d(hidden, 2, "avg"), 0.0)
    scores = layers.fc(hidden, size=3)
    smoothed = layers.label_smooth(layers.one_hot(label, 3), epsilon=0.1)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, smoothed, soft_label=True))
    rate = layers.piecewise_decay([2, 4], [0.1, 0.05, 0.01])
    fluid.optimizer.Momentum(rate, 0.9, regularization=fluid.regularizer.L2Decay(1e-3)).minimize(loss)
    exe, results, draws = _start(fluid), [], np.random.RandomState(0)
    for i in range(5):
        feed = {"image": draws.uniform(-1, 1, (3, 2, 6, 6)).astype("float32"), "label": np.array([[0], [i % 3], [2]], "int64")}
        results += exe.run(feed=feed, fetch_list=[loss, rate, scores])
    return results


def pairs_in_order(fluid):
    """Padded sequences with masks, an LSTM cell by hand over their steps, and which of two is to come first."""
    layers = fluid.layers
    label = layers.data("label", [1])

    def score(name):
        x = layers.data(name, [3], lod_level=1)
        padded, length = layers.sequence_pad(x, layers.assign(np.zeros(1, "float32")), maxlen=4)
        mask = layers.transpose(layers.sequence_mask(layers.reshape(length, [-1]), 4, "float32"), [1, 0])
        steps = layers.transpose(padded, [1, 0, 2])
        rnn = layers.StaticRNN()
        with rnn.step():
            word, alive = rnn.step_input(steps), rnn.step_input(mask)
            hidden, cell = (rnn.memory(shape=[-1, 4], batch_ref=word) for _ in range(2))
            after, kept = layers.lstm_unit(word, hidden, cell, param_attr="w", bias_attr="b")
            after = layers.elementwise_mul(after, alive, axis=0)
            rnn.update_memory(hidden, after)
            rnn.update_memory(cell, kept)
            rnn.step_output(after)
        return layers.fc(layers.reduce_sum(rnn(), dim=0), size=1, param_attr="v", bias_attr=False)

    left, right = score("left"), score("right")
    loss = layers.mean(layers.rank_loss(label, left, right)) + layers.mean(layers.margin_rank_loss(label, left, right, 0.2))
    fluid.optimizer.RMSProp(0.01).minimize(loss)
    exe, results, draws = _start(fluid), [], np.random.RandomState(0)
    for _ in range(3):
        feed = {"label": np.array([[1], [0]], "float32")}
        for name, lengths in (("left", [2, 4]), ("right", [3, 1])):
            rows = draws.uniform(-1, 1, (sum(lengths), 3)).astype("float32")
            feed[name] = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
        results += exe.run(feed=feed, fetch_list=[loss, left, right])
    return results


def language_model_by_static_rnn(fluid):
    """Two layers of gates by hand; the state of the last one is given out as such and as the result, as language models did."""
    layers = fluid.layers
    steps, batch, size = 4, 3, 5
    x = layers.data("x", [batch, steps, 1], append_batch_size=False, dtype="int64")
    wanted = layers.data("wanted", [batch * steps, 1], append_batch_size=False, dtype="int64")
    words = layers.transpose(layers.reshape(layers.embedding(x, [10, size]), [-1, steps, size]), [1, 0, 2])
    weights = [layers.create_parameter([2 * size, 4 * size], "float32", name=name) for name in ("first", "second")]
    firsts = [[layers.fill_constant([batch, size], "float32", 0.0) for _ in range(2)] for _ in range(2)]
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(words)
        for weight, (hidden, cell) in zip(weights, firsts):
            hidden, cell = rnn.memory(init=hidden), rnn.memory(init=cell)
            i, j, f, o = layers.split(layers.matmul(layers.concat([row, hidden], 1), weight), num_or_sections=4, dim=-1)
            kept = cell * layers.sigmoid(f) + layers.sigmoid(i) * layers.tanh(j)
            given = layers.tanh(kept) * layers.sigmoid(o)
            rnn.update_memory(hidden, given)
            rnn.update_memory(cell, kept)
            rnn.step_output(given)
            rnn.step_output(kept)
            row = given
        rnn.step_output(row)
    outs = rnn()
    scores = layers.fc(layers.reshape(layers.transpose(outs[-1], [1, 0, 2]), [-1, size]), 10)
    costs = layers.reshape(layers.softmax_with_cross_entropy(scores, wanted), [-1, steps])
    loss = layers.reduce_sum(layers.reduce_mean(costs, dim=[0]))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0))
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe, results = fluid.Executor(fluid.CPUPlace()), []
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws = np.random.RandomState(0)
    for _ in range(3):
        read, written = (draws.randint(0, 10, shape).astype("int64") for shape in ((batch, steps, 1), (batch * steps, 1)))
        feed = {"x": read, "wanted": written}
        results += exe.run(feed=feed, fetch_list=[loss, outs[0]])
    return results
