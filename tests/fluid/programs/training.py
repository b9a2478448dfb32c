"""The chapters of the book, small: what people began with."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def fit_a_line(fluid):
    """Linear regression by stochastic gradient descent, then a prediction by the program that was cloned before it."""
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    y_predict = fluid.layers.fc(input=x, size=1, act=None)
    cost = fluid.layers.square_error_cost(input=y_predict, label=y)
    avg_loss = fluid.layers.mean(cost)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(avg_loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws = np.random.RandomState(0)
    results = []
    for _ in range(5):
        rows = draws.uniform(-1, 1, (8, 13)).astype("float32")
        feed = {"x": rows, "y": rows.sum(axis=1, keepdims=True)}
        results += exe.run(feed=feed, fetch_list=[avg_loss])
        results += exe.run(test_program, feed=feed, fetch_list=[avg_loss, y_predict])
    return results


def fit_a_line_with_feeder(fluid):
    """The same by way of `DataFeeder`, a reader and `paddle.batch`'s form of lists of samples."""
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.SGDOptimizer(learning_rate=0.1).minimize(loss)
    place = fluid.CPUPlace()
    feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())

    def batches():
        draws = np.random.RandomState(1)
        for _ in range(4):
            rows = draws.uniform(-1, 1, (5, 3))
            yield [(row.tolist(), [row.sum()]) for row in rows]

    return [exe.run(feed=feeder.feed(batch), fetch_list=[loss])[0] for batch in batches()]


def recognize_digits_by_softmax(fluid):
    """Softmax regression with accuracy."""
    img = fluid.layers.data(name="img", shape=[1, 8, 8], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    predict = fluid.layers.fc(input=img, size=10, act="softmax")
    avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=label))
    acc = fluid.layers.accuracy(input=predict, label=label)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(avg_cost)
    return _digits(fluid, [avg_cost, acc])


def _digits(fluid, fetches, steps=4, size=8):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program(), -0.2, 0.2)
    draws, results = np.random.RandomState(2), []
    for _ in range(steps):
        feed = {"img": draws.uniform(-1, 1, (6, 1, size, size)).astype("float32"), "label": draws.randint(0, 10, (6, 1)).astype("int64")}
        results += exe.run(feed=feed, fetch_list=fetches)
    return results


def recognize_digits_by_perceptron(fluid):
    """Three layers, and the two best classes count."""
    img = fluid.layers.data(name="img", shape=[1, 8, 8], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    hidden = fluid.layers.fc(input=img, size=12, act="tanh")
    hidden = fluid.layers.fc(input=hidden, size=12, act="relu")
    predict = fluid.layers.fc(input=hidden, size=10, act="softmax")
    avg_cost = fluid.layers.mean(x=fluid.layers.cross_entropy(input=predict, label=label))
    correct = fluid.layers.create_tensor("int32")
    total = fluid.layers.create_tensor("int32")
    acc = fluid.layers.accuracy(input=predict, label=label, k=2, correct=correct, total=total)
    fluid.optimizer.Momentum(learning_rate=0.1, momentum=0.9).minimize(avg_cost)
    return _digits(fluid, [avg_cost, acc, correct, total])


def recognize_digits_by_convolution(fluid):
    """Two groups of convolution and pooling with batch normalization between, dropout, and a test program after each step."""
    img = fluid.layers.data(name="img", shape=[1, 12, 12], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    conv_pool_1 = fluid.nets.simple_img_conv_pool(
        input=img, filter_size=3, num_filters=4, pool_size=2, pool_stride=2, act="relu"
    )
    conv_pool_1 = fluid.layers.batch_norm(conv_pool_1)
    conv_pool_2 = fluid.nets.simple_img_conv_pool(
        input=conv_pool_1, filter_size=2, num_filters=4, pool_size=2, pool_stride=2, act="relu"
    )
    dropped = fluid.layers.dropout(conv_pool_2, dropout_prob=0.0)
    prediction = fluid.layers.fc(input=dropped, size=10, act="softmax")
    avg_loss = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=label))
    acc = fluid.layers.accuracy(input=prediction, label=label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001, epsilon=1e-3).minimize(avg_loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(4), []
    for _ in range(3):
        feed = {"img": draws.uniform(-1, 1, (5, 1, 12, 12)).astype("float32"), "label": draws.randint(0, 10, (5, 1)).astype("int64")}
        results += exe.run(feed=feed, fetch_list=[avg_loss, acc])
        results += exe.run(test_program, feed=feed, fetch_list=[avg_loss, acc, prediction])
    return results


def dropout_in_test_programs(fluid):
    """Dropout drops nothing in the clone for tests: the older way scales, the newer does not."""
    x = fluid.layers.data(name="x", shape=[6], dtype="float32")
    hidden = fluid.layers.fc(x, 5, act="relu")
    older = fluid.layers.dropout(hidden, 0.4)
    newer = fluid.layers.dropout(hidden, 0.4, dropout_implementation="upscale_in_train")
    out = fluid.layers.fc([older, newer], 3, act="softmax")
    main = fluid.default_main_program()
    test = main.clone(for_test=True)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, main)
    feed = {"x": np.linspace(-1, 1, 24).reshape(4, 6).astype("float32")}
    return exe.run(test, feed=feed, fetch_list=[older, newer, out])


def word2vec(fluid):
    """Four words that share one table predict the fifth."""
    dict_size, embed_size = 20, 6
    words = [fluid.layers.data(name=n, shape=[1], dtype="int64") for n in ("firstw", "secondw", "thirdw", "fourthw")]
    next_word = fluid.layers.data(name="nextw", shape=[1], dtype="int64")
    embeds = [
        fluid.layers.embedding(input=w, size=[dict_size, embed_size], dtype="float32", is_sparse=False, param_attr="shared_w")
        for w in words
    ]
    concat_embed = fluid.layers.concat(input=embeds, axis=1)
    hidden1 = fluid.layers.fc(input=concat_embed, size=8, act="sigmoid")
    predict_word = fluid.layers.fc(input=hidden1, size=dict_size, act="softmax")
    avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(input=predict_word, label=next_word))
    fluid.optimizer.SGD(learning_rate=0.5).minimize(avg_cost)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(5), []
    for _ in range(4):
        feed = {w.name: draws.randint(0, dict_size, (7, 1)).astype("int64") for w in [*words, next_word]}
        results += exe.run(feed=feed, fetch_list=[avg_cost, "shared_w@GRAD"])
    return results + [fluid.global_scope().find_var("shared_w").get_tensor()]


def word2vec_of_sparse_tables(fluid):
    """The gradient of the table is rows; a padded word has none."""
    word = fluid.layers.data(name="word", shape=[1], dtype="int64")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    embed = fluid.layers.embedding(word, size=[9, 4], is_sparse=True, padding_idx=0, param_attr=fluid.ParamAttr(name="table"))
    out = fluid.layers.fc(embed, size=9, act="softmax", bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for i in range(4):
        ids = np.array([[0], [3], [3], [i], [8]], "int64")
        results += exe.run(feed={"word": ids, "label": (ids + i) % 9}, fetch_list=[loss, out])
    # Row 0 is not read. By 1.8.5 a padded row changes where gradients are rows, against its documentation.
    return results + [np.array(fluid.global_scope().find_var("table").get_tensor())[1:]]


def _cosine(fluid, a, b):
    layers = fluid.layers
    dot = layers.reduce_sum(layers.elementwise_mul(a, b), dim=1, keep_dim=True)
    lengths = [layers.sqrt(layers.reduce_sum(layers.square(v), dim=1, keep_dim=True)) for v in (a, b)]
    return layers.elementwise_div(dot, layers.elementwise_mul(*lengths))


def recommender(fluid):
    """Users and films in one space; the likeness of two is their rating."""
    layers = fluid.layers
    uid = layers.data(name="user_id", shape=[1], dtype="int64")
    age = layers.data(name="age_id", shape=[1], dtype="int64")
    mov = layers.data(name="movie_id", shape=[1], dtype="int64")
    kinds = layers.data(name="category_id", shape=[1], dtype="int64", lod_level=1)
    score = layers.data(name="score", shape=[1], dtype="float32")
    usr_fc = layers.fc(input=layers.embedding(uid, size=[10, 6], param_attr="user_table"), size=6)
    age_fc = layers.fc(input=layers.embedding(age, size=[7, 4], param_attr="age_table"), size=4)
    usr = layers.fc(input=layers.concat([usr_fc, age_fc], axis=1), size=8, act="tanh")
    mov_fc = layers.fc(input=layers.embedding(mov, size=[12, 6], param_attr="movie_table"), size=6)
    kind_pool = layers.sequence_pool(input=layers.embedding(kinds, size=[5, 6]), pool_type="sum")
    movie = layers.fc(input=layers.concat([mov_fc, kind_pool], axis=1), size=8, act="tanh")
    scale_infer = layers.scale(x=_cosine(fluid, usr, movie), scale=5.0)
    avg_cost = layers.mean(layers.square_error_cost(input=scale_infer, label=score))
    fluid.optimizer.SGD(learning_rate=0.05).minimize(avg_cost)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(6), []
    for _ in range(3):
        feed = {
            "user_id": draws.randint(0, 10, (3, 1)).astype("int64"),
            "age_id": draws.randint(0, 7, (3, 1)).astype("int64"),
            "movie_id": draws.randint(0, 12, (3, 1)).astype("int64"),
            "category_id": fluid.create_lod_tensor(draws.randint(0, 5, (6, 1)).astype("int64"), [[1, 3, 2]], fluid.CPUPlace()),
            "score": draws.randint(1, 6, (3, 1)).astype("float32"),
        }
        results += exe.run(feed=feed, fetch_list=[avg_cost, scale_infer])
    return results


def logistic_regression(fluid):
    """Two classes, by a sigmoid and by its cross entropy; the fetched gradient of the weight."""
    x = fluid.data(name="x", shape=[None, 4], dtype="float32")
    y = fluid.data(name="y", shape=[None, 1], dtype="float32")
    logits = fluid.layers.fc(x, size=1, param_attr=fluid.ParamAttr(name="w"), bias_attr=fluid.ParamAttr(name="b"))
    loss = fluid.layers.reduce_mean(fluid.layers.sigmoid_cross_entropy_with_logits(logits, y))
    right = fluid.layers.equal(fluid.layers.cast(fluid.layers.sigmoid(logits) > 0.5, "float32"), y)
    share = fluid.layers.reduce_mean(fluid.layers.cast(right, "float32"))
    fluid.optimizer.RMSProp(learning_rate=0.05).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(7), []
    for _ in range(5):
        rows = draws.uniform(-1, 1, (9, 4)).astype("float32")
        results += exe.run(feed={"x": rows, "y": (rows[:, :1] > 0).astype("float32")}, fetch_list=[loss, share, "w@GRAD", "b@GRAD"])
    return results


def generative_adversary(fluid):
    """Two programs share the parameters of the discriminator by their names; each optimizer has a list of its own."""
    layers = fluid.layers

    def dense(x, size, name, act=None):
        return layers.fc(x, size, act=act, param_attr=fluid.ParamAttr(name=name + ".w"), bias_attr=fluid.ParamAttr(name=name + ".b"))

    def generator(z):
        return dense(dense(z, 6, "G.0", "relu"), 4, "G.1", "tanh")

    def discriminator(x):
        return dense(dense(x, 6, "D.0", "tanh"), 1, "D.1")

    def cost(logits, target):
        label = layers.fill_constant_batch_size_like(logits, shape=[-1, 1], value=target, dtype="float32")
        return layers.mean(layers.sigmoid_cross_entropy_with_logits(logits, label))

    d_program, g_program = fluid.Program(), fluid.Program()
    with fluid.program_guard(d_program):
        real = layers.data(name="real", shape=[4], dtype="float32")
        z = layers.data(name="z", shape=[3], dtype="float32")
        d_loss = layers.elementwise_add(cost(discriminator(real), 1.0), cost(discriminator(generator(z)), 0.0))
        fluid.optimizer.Adam(0.05).minimize(d_loss, parameter_list=["D.0.w", "D.0.b", "D.1.w", "D.1.b"])
    with fluid.program_guard(g_program):
        z = layers.data(name="z", shape=[3], dtype="float32")
        fake = generator(z)
        g_loss = cost(discriminator(fake), 1.0)
        fluid.optimizer.Adam(0.05).minimize(g_loss, parameter_list=["G.0.w", "G.0.b", "G.1.w", "G.1.b"])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, d_program)
    draws, results = np.random.RandomState(8), []
    for _ in range(4):
        noise = draws.uniform(-1, 1, (5, 3)).astype("float32")
        results += exe.run(d_program, feed={"real": draws.uniform(-1, 1, (5, 4)).astype("float32"), "z": noise}, fetch_list=[d_loss])
        results += exe.run(g_program, feed={"z": noise}, fetch_list=[g_loss, fake])
    return results


def autoencoder(fluid):
    """The decoder's weights are those of the encoder, transposed; no label."""
    x = fluid.layers.data(name="x", shape=[6], dtype="float32")
    w = fluid.layers.create_parameter([6, 3], "float32", name="tied")
    code = fluid.layers.tanh(fluid.layers.mul(x, w))
    back = fluid.layers.matmul(code, w, transpose_y=True)
    loss = fluid.layers.mse_loss(back, x)
    fluid.optimizer.Momentum(0.2, 0.5, use_nesterov=True).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(9), []
    for _ in range(4):
        results += exe.run(feed={"x": draws.uniform(-1, 1, (4, 6)).astype("float32")}, fetch_list=[loss, code, "tied@GRAD"])
    return results


def two_losses_and_two_optimizers(fluid):
    """One program with two losses, each minimized over parameters of its own."""
    x = fluid.layers.data(name="x", shape=[4], dtype="float32")
    first = fluid.layers.fc(x, 3, act="tanh", param_attr=fluid.ParamAttr(name="first"), bias_attr=False)
    second = fluid.layers.fc(x, 3, act="tanh", param_attr=fluid.ParamAttr(name="second"), bias_attr=False)
    apart = fluid.layers.mean(fluid.layers.square(first - second))
    small = fluid.layers.mean(fluid.layers.abs(second))
    fluid.optimizer.SGD(0.3).minimize(apart, parameter_list=["first"])
    fluid.optimizer.Adam(0.1).minimize(small, parameter_list=["second"])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(10), []
    for _ in range(4):
        results += exe.run(feed={"x": draws.uniform(-1, 1, (5, 4)).astype("float32")}, fetch_list=[apart, small])
    return results + [fluid.global_scope().find_var(n).get_tensor() for n in ("first", "second")]


def distillation(fluid):
    """A teacher that does not learn, by `stop_gradient` and by parameters that are not trainable."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[5], dtype="float32")
    teacher = layers.fc(x, 4, act="softmax", param_attr=fluid.ParamAttr(name="teacher", trainable=False), bias_attr=False)
    teacher.stop_gradient = True
    logits = layers.fc(x, 4, param_attr=fluid.ParamAttr(name="student"), bias_attr=False)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, teacher, soft_label=True))
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(11), []
    for _ in range(4):
        results += exe.run(feed={"x": draws.uniform(-1, 1, (3, 5)).astype("float32")}, fetch_list=[loss, teacher])
    return results + [fluid.global_scope().find_var(n).get_tensor() for n in ("teacher", "student")]


def siamese_networks(fluid):
    """One net applied twice with parameters of the same names, and a margin between pairs."""
    layers = fluid.layers

    def tower(x):
        hidden = layers.fc(x, 5, act="relu", param_attr="tower.w", bias_attr="tower.b")
        return layers.l2_normalize(hidden + 0.1, axis=1)

    left = layers.data(name="left", shape=[4], dtype="float32")
    right = layers.data(name="right", shape=[4], dtype="float32")
    same = layers.data(name="same", shape=[1], dtype="float32")
    distance = layers.reduce_sum(layers.square(tower(left) - tower(right)), dim=1, keep_dim=True)
    loss = layers.mean(same * distance + (1.0 - same) * layers.relu(1.0 - distance))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    draws, results = np.random.RandomState(12), []
    for i in range(4):
        a, b = (draws.uniform(-1, 1, (4, 4)).astype("float32") for _ in range(2))
        feed = {"left": a, "right": b, "same": np.array([[1], [0], [i % 2], [1]], "float32")}
        results += exe.run(feed=feed, fetch_list=[loss, distance, "tower.w@GRAD"])
    return results
