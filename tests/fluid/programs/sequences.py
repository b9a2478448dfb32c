"""Sequences as tensors with levels of detail."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _start(fluid):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    return exe


def _words(fluid, lengths, count, seed):
    ids = np.random.RandomState(seed).randint(0, count, (sum(lengths), 1)).astype("int64")
    return fluid.create_lod_tensor(ids, [lengths], fluid.CPUPlace())


def sentiment_by_convolution(fluid):
    """Windows of three and of four words, the greatest of each, two classes."""
    layers = fluid.layers
    data = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int64")
    emb = layers.embedding(input=data, size=[30, 6])
    three = layers.sequence_pool(layers.sequence_conv(input=emb, num_filters=5, filter_size=3, act="tanh"), "sqrt")
    four = layers.sequence_pool(layers.sequence_conv(input=emb, num_filters=5, filter_size=4, act="tanh"), "sqrt")
    prediction = layers.fc(input=[three, four], size=2, act="softmax")
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
    acc = layers.accuracy(input=prediction, label=label)
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)
    exe, results = _start(fluid), []
    for i, lengths in enumerate([[3, 1, 5], [2, 2, 2], [7, 1, 4]]):
        feed = {"words": _words(fluid, lengths, 30, i), "label": np.array([[0], [1], [i % 2]], "int64")}
        results += exe.run(feed=feed, fetch_list=[loss, acc, prediction])
    return results


def bag_of_words(fluid):
    """Sums of words, means, first and last, side by side."""
    layers = fluid.layers
    data = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int64")
    emb = layers.embedding(input=data, size=[20, 4], param_attr="table")
    pooled = [layers.sequence_pool(emb, kind) for kind in ("sum", "average", "max")]
    ends = [layers.sequence_first_step(emb), layers.sequence_last_step(emb)]
    prediction = layers.fc(input=pooled + ends, size=3, act="softmax")
    loss = layers.mean(layers.cross_entropy(prediction, label))
    fluid.optimizer.SGD(0.2).minimize(loss)
    exe, results = _start(fluid), []
    for i, lengths in enumerate([[2, 3], [1, 6], [4, 4]]):
        feed = {"words": _words(fluid, lengths, 20, 10 + i), "label": np.array([[i], [2]], "int64")}
        results += exe.run(feed=feed, fetch_list=[loss, prediction, "table@GRAD"])
    return results


def attention_over_sequences(fluid):
    """Scores of the words of each sentence by a softmax within it, weighed and summed."""
    layers = fluid.layers
    data = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    query = layers.data(name="query", shape=[4], dtype="float32")
    emb = layers.embedding(data, size=[15, 4])
    wide = layers.sequence_expand(x=query, y=emb)
    scores = layers.fc([emb, wide], size=1, act="tanh", bias_attr=False)
    weights = layers.sequence_softmax(scores)
    context = layers.sequence_pool(layers.elementwise_mul(x=emb, y=layers.reshape(weights, [-1]), axis=0), "sum")
    loss = layers.mean(layers.square(context - query))
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe, results = _start(fluid), []
    draws = np.random.RandomState(1)
    for i, lengths in enumerate([[3, 2], [1, 4], [5, 5]]):
        feed = {"words": _words(fluid, lengths, 15, 20 + i), "query": draws.uniform(-1, 1, (2, 4)).astype("float32")}
        results += exe.run(feed=feed, fetch_list=[loss, context])
        results += exe.run(feed=feed, fetch_list=[weights], return_numpy=False)
    return results


def words_tagged_one_by_one(fluid):
    """A label for each word, by a window around it; levels go from the words to the result."""
    layers = fluid.layers
    data = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    tags = layers.data(name="tags", shape=[1], dtype="int64", lod_level=1)
    emb = layers.embedding(data, size=[12, 5])
    hidden = layers.sequence_conv(emb, num_filters=6, filter_size=3, act="relu")
    prediction = layers.fc(hidden, size=4, act="softmax")
    loss = layers.mean(layers.cross_entropy(prediction, tags))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    exe, results = _start(fluid), []
    for i, lengths in enumerate([[3, 4], [5, 1, 2]]):
        feed = {"words": _words(fluid, lengths, 12, 30 + i), "tags": _words(fluid, lengths, 4, 40 + i)}
        made = exe.run(feed=feed, fetch_list=[loss, prediction], return_numpy=False)
        results += made + [made[1].lod()[0]]
    return results


def ranking_of_pairs(fluid):
    """Two queries with texts of any length, whose likeness must differ by a margin."""
    layers = fluid.layers

    def text(name):
        words = layers.data(name=name, shape=[1], dtype="int64", lod_level=1)
        emb = layers.embedding(words, size=[16, 5], param_attr="shared")
        return layers.fc(layers.sequence_pool(emb, "average"), 4, act="tanh", param_attr="deep.w", bias_attr="deep.b")

    query, better, worse = (text(n) for n in ("query", "better", "worse"))
    high = layers.reduce_sum(query * better, dim=1, keep_dim=True)
    low = layers.reduce_sum(query * worse, dim=1, keep_dim=True)
    loss = layers.mean(layers.relu(0.3 - high + low))
    fluid.optimizer.SGD(0.2).minimize(loss)
    exe, results = _start(fluid), []
    for i in range(3):
        feed = {
            "query": _words(fluid, [2, 3], 16, 50 + i),
            "better": _words(fluid, [4, 1], 16, 60 + i),
            "worse": _words(fluid, [1, 2], 16, 70 + i),
        }
        results += exe.run(feed=feed, fetch_list=[loss, high, low])
    return results


def sequences_with_numbers(fluid):
    """Float rows as sequences through dense layers, pooled at the end; batches of other lengths each run."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32", lod_level=1)
    y = layers.data(name="y", shape=[1], dtype="float32")
    hidden = layers.fc(x, 5, act="sigmoid")
    rated = layers.sequence_softmax(layers.fc(hidden, 1))
    pooled = layers.sequence_pool(hidden * layers.expand(rated, [1, 5]), "sum")
    loss = layers.mean(layers.square_error_cost(layers.fc(pooled, 1), y))
    fluid.optimizer.RMSProp(0.05).minimize(loss)
    exe, results, draws = _start(fluid), [], np.random.RandomState(2)
    for lengths in ([1, 1], [4, 2], [3, 6]):
        rows = draws.uniform(-1, 1, (sum(lengths), 3)).astype("float32")
        feed = {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace()), "y": np.array([[1], [-1]], "float32")}
        results += exe.run(feed=feed, fetch_list=[loss, pooled])
    return results


def sequences_fed_by_feeder(fluid):
    """Lists of word numbers of any length by `DataFeeder`."""
    layers = fluid.layers
    words = layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int64")
    prediction = layers.fc(layers.sequence_pool(layers.embedding(words, [10, 4]), "max"), 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(prediction, label))
    fluid.optimizer.SGD(0.3).minimize(loss)
    feeder = fluid.DataFeeder(feed_list=[words, label], place=fluid.CPUPlace())
    exe, results = _start(fluid), []
    for batch in ([([1, 2, 3], 0), ([4], 1)], [([9, 9], 1), ([0, 5, 1, 2], 0), ([7, 7, 7], 1)]):
        results += exe.run(feed=feeder.feed(batch), fetch_list=[loss, prediction])
    return results


def sentiment_by_two_windows(fluid):
    """Two convolutions of different widths over the words, pooled each in its way."""
    layers = fluid.layers
    words, label = layers.data("words", [1], dtype="int64", lod_level=1), layers.data("label", [1], dtype="int64")
    rows = layers.embedding(words, size=[30, 8])
    wide = fluid.nets.sequence_conv_pool(rows, 6, 3, act="tanh", pool_type="sqrt")
    narrow = fluid.nets.sequence_conv_pool(rows, 6, 4, act="tanh", pool_type="max")
    scores = layers.fc([wide, narrow], 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(scores, label))
    accuracy = layers.accuracy(scores, label)
    fluid.optimizer.Adagrad(0.05).minimize(loss)
    exe = _start(fluid)
    results = []
    for seed, lengths in enumerate(([3, 4], [1, 5])):
        feed = {"words": _words(fluid, lengths, 30, seed), "label": np.array([[0], [1]], "int64")}
        results += exe.run(feed=feed, fetch_list=[loss, accuracy])
    return results


def decoder_over_words(fluid):
    """A sentence is read to one row, from which another one is written word by word."""
    layers = fluid.layers
    source, target, wanted = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("source", "target", "wanted"))
    context = layers.sequence_last_step(layers.fc(layers.embedding(source, size=[10, 6]), 8, act="tanh"))
    words = layers.embedding(target, size=[10, 6])
    rnn = layers.DynamicRNN()
    with rnn.block():
        word, before = rnn.step_input(words), rnn.memory(init=context, need_reorder=True)
        state = layers.fc([word, before], size=8, act="tanh")
        rnn.update_memory(before, state)
        rnn.output(layers.fc(state, 10, act="softmax"))
    loss = layers.mean(layers.cross_entropy(rnn(), wanted))
    fluid.optimizer.Adagrad(0.1, regularization=fluid.regularizer.L2DecayRegularizer(0.1)).minimize(loss)
    exe = _start(fluid)
    results = []
    for seed, (read, written) in enumerate((([3, 1, 2], [2, 4, 1]), ([1, 1], [3, 3]))):
        feed = {name: _words(fluid, lengths, 10, 3 * seed + i)
                for i, (name, lengths) in enumerate((("source", read), ("target", written), ("wanted", written)))}  # fmt: skip
        results += exe.run(feed=feed, fetch_list=[loss])
    return results
