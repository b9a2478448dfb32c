"""Whole programs in the shape of the fluid book, trained from equal parameters: what 30 steps give."""

from tests.fluid_api.cases_layers import fed
from tests.fluid_api.table import check

L = "paddle.fluid.layers."


def equal_parameters(fluid, np, seed=0):
    """Let all parameters be the same draws under both."""
    draws = np.random.RandomState(seed)
    scope = fluid.global_scope()
    for parameter in sorted(fluid.default_main_program().all_parameters(), key=lambda p: p.name):
        if not parameter.trainable:  # the running means and variances of norms, which begin as 0 and 1
            continue
        tensor = scope.find_var(parameter.name).get_tensor()
        shape = np.array(tensor).shape
        tensor.set(draws.uniform(-0.3, 0.3, shape).astype("float32"), fluid.CPUPlace())


def trained(fluid, np, feeds, results, steps=30):
    """What a program gives in each step; batches take turns."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    equal_parameters(fluid, np)
    found = []
    for step in range(steps):
        feed = {name: fed(fluid, np, value) for name, value in feeds[step % len(feeds)].items()}
        made = exe.run(feed=feed, fetch_list=results, return_numpy=False)
        found.append([np.array(m).astype("float64").reshape(-1)[:6].tolist() for m in made])
    return found


def tokens(draws, lengths, count):
    return draws.randint(0, count, (sum(lengths), 1)).astype("int64"), [lengths]


@check(L + "fc", L + "square_error_cost", L + "mean")
def a_line_is_fitted(fluid, np):
    """Prices of houses, by a line through thirteen features of theirs."""
    L = fluid.layers
    x, y = L.data("x", [13], dtype="float32"), L.data("y", [1], dtype="float32")
    price = L.fc(x, 1, act=None)
    loss = L.mean(L.square_error_cost(price, y))
    fluid.optimizer.SGD(0.05).minimize(loss)
    draws, slope = np.random.RandomState(4), np.random.RandomState(5).uniform(-2, 2, (13, 1))
    feeds = []
    for count in (20, 20, 6):
        given = draws.uniform(-1, 1, (count, 13))
        feeds.append({"x": given.astype("float32"), "y": (given.dot(slope) + 0.7 + draws.normal(0, 0.1, (count, 1))).astype("float32")})
    return trained(fluid, np, feeds, [loss, price])


@check("paddle.fluid.nets.simple_img_conv_pool", L + "conv2d", L + "pool2d", L + "accuracy")
def digits_are_recognized(fluid, np):
    """Digits of 28 x 28 pixels: two convolutions with pools, a norm between them, and ten classes."""
    L = fluid.layers
    image, label = L.data("image", [1, 28, 28], dtype="float32"), L.data("label", [1], dtype="int64")
    first = fluid.nets.simple_img_conv_pool(image, filter_size=5, num_filters=6, pool_size=2, pool_stride=2, act="relu")
    second = fluid.nets.simple_img_conv_pool(L.batch_norm(first), filter_size=5, num_filters=8, pool_size=2, pool_stride=2, act="relu")
    shares = L.fc(second, 10, act="softmax")
    loss = L.mean(L.cross_entropy(shares, label))
    right = L.accuracy(shares, label)
    fluid.optimizer.Adam(0.001).minimize(loss)
    draws = np.random.RandomState(6)
    feeds = []
    for count in (8, 8, 5):
        feeds.append({"image": draws.uniform(-1, 1, (count, 1, 28, 28)).astype("float32"), "label": draws.randint(0, 10, (count, 1))})
    return trained(fluid, np, feeds, [loss, right])


@check(L + "batch_norm", L + "elementwise_add", L + "softmax_with_cross_entropy")
def small_images_are_recognized(fluid, np):
    """Images of 32 x 32 pixels in three colours, by a residual network of three stages with a block each."""
    L = fluid.layers

    def normed(x, filters, window, stride, padding, act="relu"):
        return L.batch_norm(L.conv2d(x, filters, window, stride, padding, act=None, bias_attr=False), act=act)

    def block(x, filters, stride):
        short = x if stride == 1 else normed(x, filters, 1, stride, 0, None)
        return L.elementwise_add(normed(normed(x, filters, 3, stride, 1), filters, 3, 1, 1, None), short, act="relu")

    image, label = L.data("image", [3, 32, 32], dtype="float32"), L.data("label", [1], dtype="int64")
    made = normed(image, 8, 3, 1, 1)
    for filters, stride in ((8, 1), (12, 2), (16, 2)):
        made = block(made, filters, stride)
    scores = L.fc(L.pool2d(made, pool_size=8, pool_type="avg", pool_stride=1), 10)
    loss, shares = L.softmax_with_cross_entropy(scores, label, return_softmax=True)
    loss, right = L.mean(loss), L.accuracy(shares, label, k=3)
    rate = L.piecewise_decay([10, 20], [0.02, 0.01, 0.005])
    fluid.optimizer.Momentum(rate, 0.9, regularization=fluid.regularizer.L2Decay(1e-4)).minimize(loss)
    draws = np.random.RandomState(7)
    feeds = []
    for count in (8, 8, 6):
        feeds.append({"image": draws.uniform(-1, 1, (count, 3, 32, 32)).astype("float32"), "label": draws.randint(0, 10, (count, 1))})
    return trained(fluid, np, feeds, [loss, right])


@check(L + "embedding", L + "concat")
def words_become_vectors(fluid, np):
    """Four words in a row, of one table with sparse gradients, say the fifth."""
    L = fluid.layers
    names = ("first", "second", "third", "fourth")
    words = [L.data(name, [1], dtype="int64") for name in names]
    following = L.data("following", [1], dtype="int64")
    read = [L.embedding(word, [50, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="words")) for word in words]
    hidden = L.fc(L.concat(read, axis=1), 32, act="sigmoid")
    shares = L.fc(hidden, 50, act="softmax")
    loss = L.mean(L.cross_entropy(shares, following))
    fluid.optimizer.Adagrad(0.05, regularization=fluid.regularizer.L2Decay(8e-4)).minimize(loss)
    draws = np.random.RandomState(8)
    feeds = [{name: draws.randint(0, 50, (count, 1)).astype("int64") for name in names + ("following",)} for count in (12, 12, 5)]
    return trained(fluid, np, feeds, [loss, shares])


@check("paddle.fluid.nets.sequence_conv_pool", L + "cos_sim", L + "sequence_pool", L + "scale")
def films_are_recommended(fluid, np):
    """A user and a film, whose title and kinds are sequences, as vectors: how near they are is the rating."""
    L = fluid.layers
    counts = {"user": 10, "sex": 2, "age": 7, "job": 21, "film": 12, "kinds": 6, "title": 40}
    given = {name: L.data(name, [1], dtype="int64", lod_level=int(name in ("kinds", "title"))) for name in counts}
    rating = L.data("rating", [1], dtype="float32")
    read = {name: L.embedding(x, [counts[name], 16], is_sparse=True) for name, x in given.items()}
    user = L.fc(L.concat([L.fc(read[name], 12) for name in ("user", "sex", "age", "job")], axis=1), 20, act="tanh")
    kinds = L.sequence_pool(read["kinds"], "sum")
    title = fluid.nets.sequence_conv_pool(read["title"], num_filters=12, filter_size=3, act="tanh", pool_type="sum")
    film = L.fc(L.concat([L.fc(read["film"], 12), kinds, title], axis=1), 20, act="tanh")
    near = L.scale(L.cos_sim(user, film), scale=5.0)
    loss = L.mean(L.square_error_cost(near, rating))
    fluid.optimizer.SGD(0.02).minimize(loss)
    draws = np.random.RandomState(9)
    feeds = []
    for lengths, others in (([2, 1, 3, 1], [4, 2, 6, 1]), ([1, 1, 1, 4], [3, 3, 5, 8]), ([3, 2], [1, 7])):
        count = len(lengths)
        feed = {name: draws.randint(0, counts[name], (count, 1)).astype("int64") for name in ("user", "sex", "age", "job", "film")}
        feed["kinds"], feed["title"] = tokens(draws, lengths, counts["kinds"]), tokens(draws, others, counts["title"])
        feed["rating"] = draws.randint(1, 6, (count, 1)).astype("float32")
        feeds.append(feed)
    return trained(fluid, np, feeds, [loss, near])


@check(L + "dynamic_lstm", L + "sequence_pool", L + "embedding")
def feelings_of_sentences(fluid, np):
    """Layers of LSTMs that run in turns forwards and backwards."""
    L = fluid.layers
    words = L.data("words", [1], dtype="int64", lod_level=1)
    label = L.data("label", [1], dtype="int64")
    read = L.embedding(words, [40, 12])
    layer = L.fc(read, 16)
    state, _ = L.dynamic_lstm(layer, 16)
    inputs = [layer, state]
    for turn in range(2):
        layer = L.fc(inputs, 16)
        state, _ = L.dynamic_lstm(layer, 16, is_reverse=turn % 2 == 0)
        inputs = [layer, state]
    pooled = [L.sequence_pool(inputs[0], "max"), L.sequence_pool(inputs[1], "max")]
    shares = L.fc(pooled, 2, act="softmax")
    loss = L.mean(L.cross_entropy(shares, label))
    right = L.accuracy(shares, label)
    fluid.optimizer.Adagrad(0.02).minimize(loss)
    draws = np.random.RandomState(1)
    feeds = []
    for lengths in ([4, 7, 2, 5], [1, 3, 9, 6], [5, 5, 8, 1]):
        feeds.append({"words": tokens(draws, lengths, 40), "label": draws.randint(0, 2, (4, 1)).astype("int64")})
    return trained(fluid, np, feeds, [loss, right])


@check(L + "linear_chain_crf", L + "crf_decoding", L + "chunk_eval")
def roles_of_words(fluid, np):
    """Words, their verb and a mark, mixed by layers of LSTMs in turns, and labelled by a conditional random field."""
    L = fluid.layers
    names = ("word", "before", "behind", "verb", "mark")
    given = [L.data(name, [1], dtype="int64", lod_level=1) for name in names]
    target = L.data("target", [1], dtype="int64", lod_level=1)
    read = [L.embedding(x, [30, 8], param_attr=fluid.ParamAttr(name="words")) for x in given[:3]]
    read += [L.embedding(given[3], [6, 8], param_attr=fluid.ParamAttr(name="verbs")), L.embedding(given[4], [2, 4])]
    mixed = L.sums([L.fc(x, 16, act="tanh") for x in read])
    state, _ = L.dynamic_lstm(mixed, 16, candidate_activation="relu", gate_activation="sigmoid", cell_activation="sigmoid")
    inputs = [mixed, state]
    for turn in range(2):
        mixed = L.sums([L.fc(inputs[0], 16, act="tanh"), L.fc(inputs[1], 16, act="tanh")])
        state, _ = L.dynamic_lstm(
            mixed, 16, candidate_activation="relu", gate_activation="sigmoid", cell_activation="sigmoid", is_reverse=turn % 2 == 0)
        inputs = [mixed, state]
    scores = L.sums([L.fc(inputs[0], 7, act="tanh"), L.fc(inputs[1], 7, act="tanh")])
    cost = L.linear_chain_crf(scores, target, fluid.ParamAttr(name="crfw", learning_rate=0.5))
    loss = L.mean(cost)
    best = L.crf_decoding(scores, fluid.ParamAttr(name="crfw"))
    counted = L.chunk_eval(best, target, "IOB", 3)
    fluid.optimizer.SGD(L.exponential_decay(0.02, 10, 0.5, staircase=True)).minimize(loss)
    draws = np.random.RandomState(2)
    feeds = []
    for lengths in ([6, 3, 5], [2, 8, 4], [1, 7, 7]):
        feed = {name: tokens(draws, lengths, 30) for name in names[:3]}
        feed["verb"], feed["mark"], feed["target"] = tokens(draws, lengths, 6), tokens(draws, lengths, 2), tokens(draws, lengths, 7)
        feeds.append(feed)
    return trained(fluid, np, feeds, [loss, best, counted[2], counted[5]])


@check(L + "DynamicRNN", L + "sequence_expand", L + "sequence_softmax")
def translation_by_attention(fluid, np):
    """A sentence read from both ends, and a decoder that attends to all of its words."""
    L = fluid.layers
    source, target, following = (L.data(name, [1], dtype="int64", lod_level=1) for name in ("source", "target", "following"))
    read = L.embedding(source, [20, 8])
    forth = L.dynamic_gru(L.fc(read, 18), 6)
    back = L.dynamic_gru(L.fc(read, 18), 6, is_reverse=True)
    encoded = L.concat([forth, back], axis=1)
    projected = L.fc(encoded, 6, bias_attr=False)
    first = L.fc(L.sequence_first_step(back), 6, act="tanh", bias_attr=False)
    steps = L.DynamicRNN()
    words = L.embedding(target, [22, 8])
    with steps.block():
        word = steps.step_input(words)
        vectors, keys = steps.static_input(encoded), steps.static_input(projected)
        state = steps.memory(init=first, need_reorder=True)
        asked = L.sequence_expand(L.fc(state, 6, bias_attr=False), keys)
        weight = L.fc(L.concat([keys, asked], axis=1), 1, act="tanh", bias_attr=False)
        weight = L.reshape(L.sequence_softmax(weight), [-1])
        context = L.sequence_pool(L.elementwise_mul(vectors, weight, axis=0), "sum")
        after, _, _ = L.gru_unit(L.fc([context, word], 18, bias_attr=False), state, 18)
        steps.update_memory(state, after)
        steps.output(L.fc(after, 22, act="softmax"))
    loss = L.mean(L.cross_entropy(steps(), following))
    fluid.optimizer.Adam(0.01, regularization=fluid.regularizer.L2Decay(0.001)).minimize(loss)
    draws = np.random.RandomState(3)
    feeds = []
    for lengths, others in (([4, 2, 5], [3, 6, 2]), ([1, 6, 3], [4, 1, 5]), ([7, 2, 2], [2, 2, 7])):
        feeds.append({"source": tokens(draws, lengths, 20), "target": tokens(draws, others, 22), "following": tokens(draws, others, 22)})
    return trained(fluid, np, feeds, [loss])


@check(L + "beam_search_decode", L + "DynamicRNN", L + "beam_search", L + "While")
def translation_by_beam_search(fluid, np):
    """A translator that learns, and the program that searches for the best translations with what it has learnt."""
    L, size, words = fluid.layers, 6, 14

    def named(*names):
        made = [fluid.ParamAttr(name=name) for name in names]
        return made[0] if len(made) == 1 else made

    def read():
        source = L.embedding(L.data("source", [1], dtype="int64", lod_level=1), [20, 8], param_attr=named("read"))
        hidden, _ = L.dynamic_lstm(
            L.fc(source, 4 * size, act="tanh", param_attr=named("in"), bias_attr=named("inb")), 4 * size,
            param_attr=named("lstm"), bias_attr=named("lstmb"))
        return L.sequence_last_step(hidden)

    def step(word, state):
        return L.fc([state, word], size, act="tanh", param_attr=named("from_state", "from_word"), bias_attr=named("stateb"))

    def shares(state):
        return L.fc(state, words, act="softmax", param_attr=named("out"), bias_attr=named("outb"))

    def learns():
        start = read()
        target = L.embedding(L.data("target", [1], dtype="int64", lod_level=1), [words, 8], param_attr=named("written"))
        steps = L.DynamicRNN()
        with steps.block():
            word = steps.step_input(target)
            state = steps.memory(init=start, need_reorder=True)
            after = step(word, state)
            steps.update_memory(state, after)
            steps.output(shares(after))
        return L.mean(L.cross_entropy(steps(), L.data("following", [1], dtype="int64", lod_level=1)))

    def searches(beams=3, end=1, most=7):
        limit, counter = L.fill_constant([1], "int64", most), L.zeros([1], "int64", force_cpu=True)
        states, ids, scores = L.create_array("float32"), L.create_array("int64"), L.create_array("float32")
        L.array_write(read(), array=states, i=counter)
        L.array_write(L.data("first", [1], dtype="int64", lod_level=2), array=ids, i=counter)
        L.array_write(L.data("first_scores", [1], dtype="float32", lod_level=2), array=scores, i=counter)
        again = L.less_than(counter, limit)
        loop = L.While(again)
        with loop.block():
            before, score = L.array_read(ids, counter), L.array_read(scores, counter)
            state = L.sequence_expand(L.array_read(states, counter), score)
            after = step(L.embedding(before, [words, 8], param_attr=named("written")), state)
            best, chosen = L.topk(shares(L.lod_reset(after, score)), 2 * beams)
            total = L.elementwise_add(L.log(best), L.reshape(score, [-1]), axis=0)
            following, gained = L.beam_search(before, score, chosen, total, beams, end, level=0)
            L.increment(counter, 1, in_place=True)
            for array, x in ((states, after), (ids, following), (scores, gained)):
                L.array_write(x, array=array, i=counter)
            L.logical_and(L.less_than(counter, limit), L.logical_not(L.is_empty(following)), out=again)
        return list(L.beam_search_decode(ids, scores, beams, end))

    loss = learns()
    fluid.optimizer.Adagrad(0.1, regularization=fluid.regularizer.L2Decay(0.001)).minimize(loss)
    draws, feeds = np.random.RandomState(3), []
    for lengths, others in (([4, 2, 5], [3, 6, 2]), ([1, 6, 3], [4, 1, 5]), ([7, 2, 2], [2, 2, 7])):
        feed = {name: tokens(draws, others, words) for name in ("target", "following")}
        feeds.append({"source": tokens(draws, lengths, 20), **feed})
    losses, found = trained(fluid, np, feeds, [loss]), []
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        made = searches()
        for lengths in ([4, 2, 5], [3], [1, 6]):
            ones = [[1] * len(lengths), [1] * len(lengths)]
            feed = {"source": fed(fluid, np, tokens(draws, lengths, 20))}
            feed["first"] = fluid.create_lod_tensor(np.zeros((len(lengths), 1), "int64"), ones, fluid.CPUPlace())
            feed["first_scores"] = fluid.create_lod_tensor(np.zeros((len(lengths), 1), "float32"), ones, fluid.CPUPlace())
            values = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=made, return_numpy=False)
            found.append([[np.array(v), v.recursive_sequence_lengths()] for v in values])
    return {"losses": losses, "found": found}
