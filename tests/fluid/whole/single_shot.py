"""MobileNet-SSD as it was written for fluid 1.8: a backbone of depthwise convolutions, six levels with priors, and the loss of SSD."""

import numpy as np

from tests.fluid.whole.running import Stopwatch, sequences, start, truth_in_corners

# The size of an image, the widths of the backbone, images of a batch, classes, levels, and steps.
SIZES = {"small": (96, 0.125, 3, 4, 3, 3), "whole": (300, 1.0, 8, 21, 6, 4)}


def single_shot(fluid, size, watch=None):
    """Images of one to eight boxes; what is found before and behind the training."""
    pixels, width, images, classes, count, steps = SIZES[size]
    layers, watch = fluid.layers, watch or Stopwatch()

    def conv_bn(x, filters, window, stride, padding, groups=1, act="relu"):
        made = layers.conv2d(
            x, num_filters=filters, filter_size=window, stride=stride, padding=padding, groups=groups, act=None, use_cudnn=groups == 1,
            param_attr=fluid.ParamAttr(initializer=fluid.initializer.MSRA()), bias_attr=False)
        return layers.batch_norm(made, act=act)

    def separable(x, filters, stride):
        channels = int(x.shape[1])
        return conv_bn(conv_bn(x, channels, 3, stride, 1, groups=channels), int(filters * width), 1, 1, 0)

    def extra(x, narrow, wide):
        return conv_bn(conv_bn(x, int(narrow * width), 1, 1, 0), int(wide * width), 3, 2, 1)

    image = layers.data(name="image", shape=[3, pixels, pixels], dtype="float32")
    box = layers.data(name="box", shape=[4], dtype="float32", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int32", lod_level=1)
    made = conv_bn(image, int(32 * width), 3, 2, 1)
    made = separable(made, 64, 1)
    for filters in (128, 256):
        made = separable(separable(made, filters, 2), filters, 1)
    made = separable(made, 512, 2)
    for _ in range(5):
        made = separable(made, 512, 1)
    levels = [made, separable(separable(made, 1024, 2), 1024, 1)]
    for narrow, wide in ((256, 512), (128, 256), (128, 256), (64, 128))[: count - 2]:
        levels.append(extra(levels[-1], narrow, wide))
    said, scores, priors, spread = layers.multi_box_head(
        inputs=levels, image=image, num_classes=classes, min_ratio=20, max_ratio=90,
        min_sizes=[pixels * f for f in (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)[:count]],
        max_sizes=[[], *(pixels * f for f in (0.5, 0.65, 0.8, 0.95, 1.0)[: count - 1])],
        aspect_ratios=[[2.0], *[[2.0, 3.0]] * (count - 1)], base_size=pixels, offset=0.5, flip=True)
    found = layers.detection_output(said, scores, priors, spread, nms_threshold=0.45)
    tested = fluid.default_main_program().clone(for_test=True)
    loss = layers.reduce_sum(layers.ssd_loss(said, scores, box, label, priors, spread))
    # With rates a hundred times as large, weights that are moved by 1e-7 at first have other losses in three steps, in 1.8.5 too.
    rates = layers.piecewise_decay([2, 3], [2e-5, 1e-5, 5e-6])
    optimizer = fluid.optimizer.Momentum(rates, 0.9, regularization=fluid.regularizer.L2Decay(5e-5))
    optimizer.minimize(loss)
    exe = start(fluid)

    draws, results = np.random.RandomState(1), []
    given = draws.uniform(-1, 1, (images, 3, pixels, pixels)).astype("float32")

    def find():
        return exe.run(tested, feed={"image": given}, fetch_list=[found.name, said.name, scores.name], return_numpy=False)

    results += watch("found", find)
    for _ in range(steps):
        lengths = draws.randint(1, 9, images).tolist()
        boxes = sum(lengths)
        feed = {
            "image": draws.uniform(-1, 1, (images, 3, pixels, pixels)).astype("float32"),
            "box": sequences(fluid, truth_in_corners(draws, boxes), lengths),
            "label": sequences(fluid, draws.randint(1, classes, (boxes, 1)).astype("int32"), lengths),
        }
        results += watch("step", lambda feed=feed: exe.run(feed=feed, fetch_list=[loss]))
    return results + watch("found", find)
