"""Detectors in small, trained for ten steps: SSD with what it finds, and YOLOv3 on two grids with what it finds."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _started(fluid):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program(), -0.3, 0.3)
    return exe


def _truth(draws, count):
    low, extent = draws.uniform(0, 0.5, (count, 2)), draws.uniform(0.15, 0.45, (count, 2))
    return np.concatenate([low, low + extent], 1).astype("float32")


def single_shot_detector(fluid):
    """Two levels of features, priors on each, the loss of SSD, and boxes by `detection_output` before and behind the training."""
    layers = fluid.layers
    image = layers.data(name="image", shape=[3, 16, 16], dtype="float32")
    box = layers.data(name="box", shape=[4], dtype="float32", lod_level=1)
    label = layers.data(name="label", shape=[1], dtype="int32", lod_level=1)
    fine = layers.conv2d(image, 6, 3, stride=4, padding=1, act="relu")
    coarse = layers.conv2d(fine, 8, 3, stride=2, padding=1, act="relu")
    said, scores, priors, spread = layers.multi_box_head(
        inputs=[fine, coarse], image=image, base_size=16, num_classes=4, aspect_ratios=[[2.0], [2.0]], min_sizes=[4.0, 8.0],
        max_sizes=[8.0, 12.0], offset=0.5, flip=True, clip=True,
    )
    found = layers.detection_output(said, scores, priors, spread, nms_threshold=0.45, score_threshold=0.2)
    program = fluid.default_main_program().clone(for_test=True)
    loss = layers.reduce_sum(layers.ssd_loss(said, scores, box, label, priors, spread))
    fluid.optimizer.Momentum(0.005, 0.9).minimize(loss)
    exe, draws, results, place = _started(fluid), np.random.RandomState(5), [], fluid.CPUPlace()
    images = draws.uniform(-1, 1, (2, 3, 16, 16)).astype("float32")
    results += exe.run(program, feed={"image": images}, fetch_list=[found.name], return_numpy=False)
    for step in range(10):
        lengths = [[1 + step % 3, 2]]
        count = sum(lengths[0])
        feed = {
            "image": draws.uniform(-1, 1, (2, 3, 16, 16)).astype("float32"),
            "box": fluid.create_lod_tensor(_truth(draws, count), lengths, place),
            "label": fluid.create_lod_tensor(draws.randint(1, 4, (count, 1)).astype("int32"), lengths, place),
        }
        results += exe.run(feed=feed, fetch_list=[loss])
    return results + exe.run(program, feed={"image": images}, fetch_list=[found.name, said.name, scores.name], return_numpy=False)


def you_only_look_once(fluid):
    """Two grids, the second of features that are made larger, a loss on each, and boxes by `yolo_box` and `multiclass_nms`."""
    layers, anchors = fluid.layers, [4, 5, 8, 6, 10, 13, 16, 12]
    image = layers.data(name="image", shape=[3, 16, 16], dtype="float32")
    box = layers.data(name="box", shape=[3, 4], dtype="float32")
    label = layers.data(name="label", shape=[3], dtype="int32")
    size = layers.data(name="size", shape=[2], dtype="int32")
    fine = layers.leaky_relu(layers.batch_norm(layers.conv2d(image, 6, 3, stride=4, padding=1, bias_attr=False)), 0.1)
    coarse = layers.leaky_relu(layers.conv2d(fine, 8, 3, stride=2, padding=1), 0.1)
    back = layers.resize_nearest(layers.conv2d(coarse, 4, 1), scale=2.0, align_corners=False)
    losses, boxes, scores = [], [], []
    for features, mask, down in ((coarse, [2, 3], 8), (layers.concat([back, fine], axis=1), [0, 1], 4)):
        said = layers.conv2d(features, len(mask) * 8, 1)
        losses.append(layers.reduce_mean(layers.yolov3_loss(said, box, label, anchors, mask, 3, 0.7, down)))
        own = [a for m in mask for a in anchors[2 * m : 2 * m + 2]]
        found = layers.yolo_box(said, size, own, 3, 0.01, down)
        boxes.append(found[0])
        scores.append(layers.transpose(found[1], perm=[0, 2, 1]))
    chosen = layers.multiclass_nms(layers.concat(boxes, axis=1), layers.concat(scores, axis=2), 0.05, 50, 20, 0.45, background_label=-1)
    program = fluid.default_main_program().clone(for_test=True)
    loss = layers.sum(losses)
    fluid.optimizer.Momentum(0.001, 0.9, regularization=fluid.regularizer.L2Decay(5e-4)).minimize(loss)
    exe, draws, results = _started(fluid), np.random.RandomState(6), []

    def batch():
        cells = np.stack([draws.permutation(16)[:3] for _ in range(2)])  # one box at a place
        middles = (np.stack([cells % 4, cells // 4], -1) + draws.uniform(0.2, 0.8, (2, 3, 2))) / 4
        # Of boxes of all sizes some are at one place of the coarse grid: none is as large as its anchors.
        return {
            "image": draws.uniform(-1, 1, (2, 3, 16, 16)).astype("float32"),
            "box": np.concatenate([middles, draws.uniform(0.2, 0.4, (2, 3, 2))], -1).astype("float32"),
            "label": draws.randint(0, 3, (2, 3)).astype("int32"), "size": np.array([[32, 48], [40, 40]], "int32"),
        }  # fmt: skip

    feed = batch()
    results += exe.run(program, feed=feed, fetch_list=[chosen.name], return_numpy=False)
    for _ in range(10):
        results += exe.run(feed=batch(), fetch_list=[loss])
    return results + exe.run(program, feed=feed, fetch_list=[chosen.name], return_numpy=False)
