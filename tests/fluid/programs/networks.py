"""Networks for images and text, cut down: residual and VGG blocks, attention, wide and deep."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _train(fluid, feeds, fetches, low=-0.3, high=0.3, after=()):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program(), low, high)
    results = []
    for feed in feeds:
        results += exe.run(feed=feed, fetch_list=fetches)
    return results + [fluid.global_scope().find_var(name).get_tensor() for name in after]


def _images(steps, channels, size, classes=4, batch=3, seed=1):
    draws = np.random.RandomState(seed)
    for _ in range(steps):
        image = draws.uniform(-1, 1, (batch, channels, size, size)).astype("float32")
        yield {"pixel": image, "label": draws.randint(0, classes, (batch, 1)).astype("int64")}


def _classified(fluid, features, classes=4):
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    predict = fluid.layers.fc(input=features, size=classes, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=label)), predict


def residual_network(fluid):
    """A basic block with a short cut by a 1 x 1 convolution and one without."""

    def conv_bn_layer(input, ch_out, filter_size, stride, padding, act="relu", bias_attr=False):
        tmp = fluid.layers.conv2d(
            input=input, filter_size=filter_size, num_filters=ch_out, stride=stride, padding=padding, act=None, bias_attr=bias_attr
        )
        return fluid.layers.batch_norm(input=tmp, act=act)

    def basicblock(input, ch_in, ch_out, stride):
        tmp = conv_bn_layer(input, ch_out, 3, stride, 1)
        tmp = conv_bn_layer(tmp, ch_out, 3, 1, 1, act=None, bias_attr=True)
        short = conv_bn_layer(input, ch_out, 1, stride, 0, None) if ch_in != ch_out else input
        return fluid.layers.elementwise_add(x=tmp, y=short, act="relu")

    pixel = fluid.layers.data(name="pixel", shape=[3, 8, 8], dtype="float32")
    made = conv_bn_layer(pixel, 4, 3, 1, 1)
    made = basicblock(made, 4, 6, 2)
    made = basicblock(made, 6, 6, 1)
    pool = fluid.layers.pool2d(input=made, pool_size=4, pool_type="avg", pool_stride=1)
    loss, _ = _classified(fluid, pool)
    fluid.optimizer.Momentum(0.01, 0.9, regularization=fluid.regularizer.L2Decay(1e-3)).minimize(loss)
    return _train(fluid, _images(3, 3, 8), [loss, pool], after=["batch_norm_0.w_1", "batch_norm_0.w_2"])


def vgg_blocks(fluid):
    """Groups of convolutions with batch normalization, two dense layers."""
    pixel = fluid.layers.data(name="pixel", shape=[3, 8, 8], dtype="float32")

    def conv_block(ipt, num_filter, groups, dropouts):
        return fluid.nets.img_conv_group(
            input=ipt, pool_size=2, pool_stride=2, conv_num_filter=[num_filter] * groups, conv_filter_size=3, conv_act="relu",
            conv_with_batchnorm=True, conv_batchnorm_drop_rate=dropouts, pool_type="max",
        )  # fmt: skip

    conv1 = conv_block(pixel, 4, 2, [0.0, 0.0])
    conv2 = conv_block(conv1, 5, 1, [0.0])
    fc1 = fluid.layers.fc(input=conv2, size=8, act=None)
    bn = fluid.layers.batch_norm(input=fc1, act="relu")
    fc2 = fluid.layers.fc(input=bn, size=8, act=None)
    loss, predict = _classified(fluid, fc2)
    fluid.optimizer.SGD(learning_rate=0.05).minimize(loss)
    return _train(fluid, _images(3, 3, 8, batch=4), [loss, predict])


def depthwise_separable(fluid):
    """A step of a mobile network: by channel, then by 1 x 1, with bounded activations."""
    pixel = fluid.layers.data(name="pixel", shape=[4, 6, 6], dtype="float32")
    made = fluid.layers.conv2d(pixel, 4, 3, padding=1, groups=4, bias_attr=False, use_cudnn=False)
    made = fluid.layers.relu6(fluid.layers.batch_norm(made))
    made = fluid.layers.conv2d(made, 6, 1, act="relu")
    made = fluid.layers.pool2d(made, pool_type="avg", global_pooling=True)
    loss, predict = _classified(fluid, made)
    fluid.optimizer.RMSProp(0.01, rho=0.9, momentum=0.9, centered=True).minimize(loss)
    return _train(fluid, _images(4, 4, 6), [loss, predict])


def inception_branches(fluid):
    """Three branches side by side, joined by channels."""
    pixel = fluid.layers.data(name="pixel", shape=[2, 6, 6], dtype="float32")
    one = fluid.layers.conv2d(pixel, 3, 1, act="relu")
    three = fluid.layers.conv2d(fluid.layers.conv2d(pixel, 2, 1, act="relu"), 3, 3, padding=1, act="relu")
    pooled = fluid.layers.conv2d(fluid.layers.pool2d(pixel, 3, "max", 1, 1), 2, 1, act="relu")
    joined = fluid.layers.concat([one, three, pooled], axis=1)
    loss, predict = _classified(fluid, fluid.layers.pool2d(joined, 2, "avg", 2))
    fluid.optimizer.Adamax(0.02).minimize(loss)
    return _train(fluid, _images(3, 2, 6), [loss, predict])


def squeeze_and_excitation(fluid):
    """Channels are weighed by what a small net makes of their means."""
    pixel = fluid.layers.data(name="pixel", shape=[4, 5, 5], dtype="float32")
    conv = fluid.layers.conv2d(pixel, 6, 3, padding=1, act="relu")
    pool = fluid.layers.pool2d(conv, pool_type="avg", global_pooling=True)
    squeezed = fluid.layers.fc(pool, 3, act="relu")
    excited = fluid.layers.fc(squeezed, 6, act="sigmoid")
    scaled = fluid.layers.elementwise_mul(x=conv, y=excited, axis=0)
    loss, predict = _classified(fluid, scaled)
    fluid.optimizer.Adagrad(0.05).minimize(loss)
    return _train(fluid, _images(3, 4, 5), [loss, excited])


def self_attention(fluid):
    """Two heads over a padded batch: scores of padding get a large negative number."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[4, 6], dtype="float32")
    bias = layers.data(name="bias", shape=[4], dtype="float32")
    q, k, v = (layers.fc(x, 6, num_flatten_dims=2, bias_attr=False, name=n) for n in ("q", "k", "v"))

    def heads(t):
        return layers.transpose(layers.reshape(t, [0, 0, 2, 3]), perm=[0, 2, 1, 3])

    product = layers.matmul(layers.scale(heads(q), scale=3.0**-0.5), heads(k), transpose_y=True)
    wide = layers.expand(layers.unsqueeze(bias, [1, 2]), [1, 2, 4, 1])
    weights = layers.softmax(layers.elementwise_add(product, wide))
    out = layers.reshape(layers.transpose(layers.matmul(weights, heads(v)), perm=[0, 2, 1, 3]), [0, 0, 6])
    out = layers.layer_norm(layers.fc(out, 6, num_flatten_dims=2) + x, begin_norm_axis=2)
    loss = layers.mean(layers.square(out - 0.3 * x))
    fluid.optimizer.Adam(0.02, beta2=0.98, epsilon=1e-6).minimize(loss)
    draws = np.random.RandomState(3)
    mask = np.array([[0, 0, 0, -1e4], [0, 0, -1e4, -1e4]], "float32")
    feeds = [{"x": draws.uniform(-1, 1, (2, 4, 6)).astype("float32"), "bias": mask} for _ in range(3)]
    return _train(fluid, feeds, [loss, weights, out])


def wide_and_deep(fluid):
    """Sparse crosses beside a dense net for a click; their logits are added."""
    layers = fluid.layers
    dense = layers.data(name="dense", shape=[5], dtype="float32")
    cross = layers.data(name="cross", shape=[3, 1], dtype="int64")
    click = layers.data(name="click", shape=[1], dtype="float32")
    wide = layers.reduce_sum(layers.embedding(cross, size=[15, 1], param_attr="wide_table"), dim=1)
    deep_in = layers.reshape(layers.embedding(cross, size=[15, 4], param_attr="deep_table"), [-1, 12])
    deep = layers.fc([deep_in, dense], 8, act="relu")
    logit = wide + layers.fc(deep, 1)
    loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(logit, click))
    fluid.optimizer.Ftrl(0.1, l1=1e-3, l2=1e-3).minimize(loss)
    draws = np.random.RandomState(4)
    feeds = [
        {
            "dense": draws.uniform(0, 1, (6, 5)).astype("float32"),
            "cross": draws.randint(0, 15, (6, 3, 1)).astype("int64"),
            "click": draws.randint(0, 2, (6, 1)).astype("float32"),
        }
        for _ in range(4)
    ]
    return _train(fluid, feeds, [loss, logit], after=["wide_table", "deep_table"])


def factorization_machine(fluid):
    """Pairs of features by the square of a sum less the sum of squares."""
    layers = fluid.layers
    ids = layers.data(name="ids", shape=[4, 1], dtype="int64")
    values = layers.data(name="values", shape=[4], dtype="float32")
    label = layers.data(name="label", shape=[1], dtype="float32")
    first = layers.reshape(layers.embedding(ids, [20, 1]), [-1, 4])
    linear = layers.reduce_sum(first * values, 1, keep_dim=True)
    factors = layers.elementwise_mul(layers.embedding(ids, [20, 3]), values, axis=0)
    summed = layers.square(layers.reduce_sum(factors, 1))
    squared = layers.reduce_sum(layers.square(factors), 1)
    predict = layers.sigmoid(linear + 0.5 * layers.reduce_sum(summed - squared, 1, keep_dim=True))
    loss = layers.mean(layers.square_error_cost(predict, label))
    fluid.optimizer.DecayedAdagrad(0.1).minimize(loss)
    draws = np.random.RandomState(5)
    feeds = [
        {
            "ids": draws.randint(0, 20, (5, 4, 1)).astype("int64"),
            "values": draws.uniform(0, 1, (5, 4)).astype("float32"),
            "label": draws.randint(0, 2, (5, 1)).astype("float32"),
        }
        for _ in range(4)
    ]
    return _train(fluid, feeds, [loss, predict])


def matching_with_negatives(fluid):
    """One right answer among several, by a softmax over products, with scattered margins."""
    layers = fluid.layers
    query = layers.data(name="query", shape=[4], dtype="float32")
    docs = layers.data(name="docs", shape=[3, 4], dtype="float32")
    q = layers.fc(query, 5, act="tanh")
    d = layers.fc(docs, 5, num_flatten_dims=2, act="tanh")
    scores = layers.squeeze(layers.matmul(d, layers.unsqueeze(q, [2])), [2])
    right = layers.fill_constant_batch_size_like(scores, [-1, 1], "int64", 0)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, right))
    best = layers.argmax(scores, axis=1)
    fluid.optimizer.Lamb(0.02, lamb_weight_decay=0.01).minimize(loss)
    draws = np.random.RandomState(6)
    feeds = [{"query": draws.randn(3, 4).astype("float32"), "docs": draws.randn(3, 3, 4).astype("float32")} for _ in range(4)]
    return _train(fluid, feeds, [loss, scores, best])


def gates_of_highways(fluid):
    """A stack of highway layers made in a Python loop, with the bias of each gate at -1."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[5], dtype="float32")
    y = layers.data(name="y", shape=[5], dtype="float32")
    made = x
    for i in range(4):
        gate = layers.fc(made, 5, act="sigmoid", name=f"gate_{i}")
        made = gate * layers.fc(made, 5, act="relu", name=f"plain_{i}") + (1.0 - gate) * made
    loss = layers.mean(layers.smooth_l1(made, y))
    fluid.optimizer.Adadelta(0.5, epsilon=1e-4, rho=0.9).minimize(loss)
    draws = np.random.RandomState(7)
    feeds = [{"x": draws.randn(4, 5).astype("float32"), "y": draws.randn(4, 5).astype("float32")} for _ in range(4)]
    return _train(fluid, feeds, [loss, made])
