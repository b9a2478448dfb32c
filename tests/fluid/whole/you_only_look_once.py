"""YOLOv3 as it was written for fluid 1.8: Darknet with 53 convolutions, three grids, and scores of the truth that were mixed."""

import numpy as np

from tests.fluid.whole.running import Stopwatch, start

ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326]
MASKS = [[6, 7, 8], [3, 4, 5], [0, 1, 2]]
# The size of an image, the widths, blocks of a stage, images of a batch, classes, true boxes of an image, and steps.
SIZES = {"small": (64, 4, (1, 1, 1, 1, 1), 2, 5, 6, 3), "whole": (416, 8, (1, 2, 8, 8, 4), 4, 80, 50, 4)}


def you_only_look_once(fluid, size, watch=None):
    """Boxes found before and behind the training; images of other sizes than they are shown."""
    pixels, width, blocks, images, classes, most, steps = SIZES[size]
    layers, watch = fluid.layers, watch or Stopwatch()

    def conv_bn(x, filters, window, stride=1, padding=0):
        made = layers.conv2d(input=x, num_filters=filters, filter_size=window, stride=stride, padding=padding, act=None, bias_attr=False)
        made = layers.batch_norm(input=made, act=None, param_attr=fluid.ParamAttr(regularizer=fluid.regularizer.L2Decay(0.0)))
        return layers.leaky_relu(x=made, alpha=0.1)

    def residual(x, filters):
        return layers.elementwise_add(x=x, y=conv_bn(conv_bn(x, filters, 1), filters * 2, 3, padding=1), act=None)

    def darknet(x):
        made, stages = conv_bn(x, width, 3, padding=1), []
        for i, count in enumerate(blocks):
            made = conv_bn(made, width * 2 ** (i + 1), 3, stride=2, padding=1)
            for _ in range(count):
                made = residual(made, width * 2**i)
            stages.append(made)
        return stages[-1:-4:-1]

    def detection_block(x, filters):
        for _ in range(2):
            x = conv_bn(conv_bn(x, filters, 1), filters * 2, 3, padding=1)
        route = conv_bn(x, filters, 1)
        return route, conv_bn(route, filters * 2, 3, padding=1)

    def enlarged(x):
        shape = layers.cast(layers.slice(layers.shape(x), axes=[0], starts=[2], ends=[4]), "int32")
        target = shape * 2
        target.stop_gradient = True
        return layers.resize_nearest(input=x, scale=2.0, actual_shape=target, align_corners=False)

    def network(trains):
        """The losses of the grids, or the boxes that were chosen."""
        image = layers.data(name="image", shape=[3, pixels, pixels], dtype="float32")
        if trains:
            box = layers.data(name="gt_box", shape=[most, 4], dtype="float32")
            label = layers.data(name="gt_label", shape=[most], dtype="int32")
            score = layers.data(name="gt_score", shape=[most], dtype="float32")
        else:
            shown = layers.data(name="im_size", shape=[2], dtype="int32")
        losses, boxes, scores, route = [], [], [], None
        for i, stage in enumerate(darknet(image)):
            if route is not None:
                stage = layers.concat(input=[route, stage], axis=1)
            route, tip = detection_block(stage, width * 2 ** (4 - i))
            plain = fluid.ParamAttr(regularizer=fluid.regularizer.L2Decay(0.0))
            said, down = layers.conv2d(tip, len(MASKS[i]) * (classes + 5), 1, bias_attr=plain), 32 // 2**i
            if trains:
                loss = layers.yolov3_loss(
                    x=said, gt_box=box, gt_label=label, gt_score=score, anchors=ANCHORS, anchor_mask=MASKS[i], class_num=classes,
                    ignore_thresh=0.7, downsample_ratio=down, use_label_smooth=i != 1)
                losses.append(layers.reduce_mean(loss))
            else:
                own = [a for m in MASKS[i] for a in ANCHORS[2 * m : 2 * m + 2]]
                found, sure = layers.yolo_box(
                    x=said, img_size=shown, anchors=own, class_num=classes, conf_thresh=0.005, downsample_ratio=down)
                boxes.append(found)
                scores.append(layers.transpose(sure, perm=[0, 2, 1]))
            if i < 2:
                route = enlarged(conv_bn(route, width * 2 ** (3 - i), 1))
        if trains:
            return losses
        return layers.multiclass_nms(
            bboxes=layers.concat(boxes, axis=1), scores=layers.concat(scores, axis=2), score_threshold=0.01, nms_top_k=400, keep_top_k=100,
            nms_threshold=0.45, background_label=-1)

    tested = fluid.Program()
    with fluid.program_guard(tested, fluid.Program()), fluid.unique_name.guard():
        chosen = network(trains=False)
    tested = tested.clone(for_test=True)
    with fluid.unique_name.guard():
        losses = network(trains=True)
        loss = sum(losses)
        rate = layers.piecewise_decay([2, 3], [0.0001, 0.00005, 0.00001])
        rate = layers.linear_lr_warmup(rate, warmup_steps=2, start_lr=0.00002, end_lr=0.0001)
        optimizer = fluid.optimizer.Momentum(
            learning_rate=rate, momentum=0.9, regularization=fluid.regularizer.L2Decay(5e-4),
            grad_clip=fluid.clip.GradientClipByGlobalNorm(35.0))
        optimizer.minimize(loss)
    exe = start(fluid)

    draws, results = np.random.RandomState(2), []

    def batch():
        # No two boxes at one place of the finest grid: of those the gradient of 1.8.5 is that of the last one.
        count = pixels // 32
        cells = np.stack([draws.permutation(count * count)[: min(most, count * count)] for _ in range(images)])
        real = cells.shape[1]
        middles = (np.stack([cells % count, cells // count], -1) + draws.uniform(0.1, 0.9, (images, real, 2))) / count
        gt = np.zeros((images, most, 4), "float32")
        gt[:, :real] = np.concatenate([middles, draws.uniform(0.03, 0.5, (images, real, 2))], -1)
        for i in range(images):
            gt[i, draws.randint(0, real + 1) :] = 0  # rows that are no box; in the first batch an image without any
        return {
            "image": draws.uniform(0, 1, (images, 3, pixels, pixels)).astype("float32"), "gt_box": gt,
            "gt_label": draws.randint(0, classes, (images, most)).astype("int32"),
            "gt_score": draws.uniform(0.4, 1, (images, most)).astype("float32"),
            "im_size": draws.randint(pixels // 2, pixels * 2, (images, 2)).astype("int32"),
        }  # fmt: skip

    feed = batch()
    first = {"image": feed["image"], "im_size": feed["im_size"]}
    results += watch("found", lambda: exe.run(tested, feed=first, fetch_list=[chosen.name], return_numpy=False))
    for _ in range(steps):
        feed = batch()
        results += watch("step", lambda feed=feed: exe.run(feed=feed, fetch_list=[loss, *losses]))
    results += watch("found", lambda: exe.run(tested, feed=first, fetch_list=[chosen.name], return_numpy=False))
    return results
