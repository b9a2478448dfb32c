"""Faster R-CNN with a pyramid of features as it was written for fluid 1.8: proposals on four levels, their labels, and two heads."""

import numpy as np

from tests.fluid.whole.running import Stopwatch, sequences, start

# The size of an image, the width of the backbone, images of a batch, classes, proposals kept for a level in training and in tests,
# regions of an image that are learned from, and steps.
SIZES = {"small": (64, 4, 2, 5, (60, 20), (40, 10), 16, 2), "whole": (512, 8, 2, 81, (2000, 500), (1000, 300), 256, 3)}
STRIDES = (4, 8, 16, 32)


def regions_by_pyramid(fluid, size, watch=None):
    """Losses of both stages, and the boxes found before and behind the training; images of other sizes and scales, with crowds."""
    pixels, width, images, classes, kept, kept_in_tests, learned, steps = SIZES[size]
    layers, watch = fluid.layers, watch or Stopwatch()

    def named(name):
        return {"param_attr": fluid.ParamAttr(name=name + "_w"), "bias_attr": fluid.ParamAttr(name=name + "_b", learning_rate=2.0)}

    def features(image):
        made, found = layers.conv2d(image, width, 3, stride=2, padding=1, act="relu", **named("stem")), []
        for i in range(4):
            made = layers.conv2d(made, width * 2**i, 3, stride=2, padding=1, act="relu", **named(f"down{i}"))
            same = layers.conv2d(made, width * 2**i, 3, padding=1, **named(f"same{i}"))
            made = layers.elementwise_add(made, same, act="relu")
            found.append(made)
        top = layers.conv2d(found[3], 4 * width, 1, **named("inner3"))
        inner = [top]
        for i in (2, 1, 0):
            side = layers.conv2d(found[i], 4 * width, 1, **named(f"inner{i}"))
            top = layers.elementwise_add(layers.resize_nearest(top, scale=2.0, align_corners=False), side)
            inner.insert(0, top)
        return [layers.conv2d(x, 4 * width, 3, padding=1, **named(f"outer{i}")) for i, x in enumerate(inner)]

    def proposals(levels, info, counts):
        """By level what is said of anchors, and the proposals of all."""
        found = []
        for i, x in enumerate(levels):
            hidden = layers.conv2d(x, 4 * width, 3, padding=1, act="relu", **named("rpn"))
            anchors, spread = layers.anchor_generator(
                input=hidden, anchor_sizes=[STRIDES[i] * 8.0], aspect_ratios=[0.5, 1.0, 2.0], variance=[1.0, 1.0, 1.0, 1.0],
                stride=[float(STRIDES[i])] * 2)
            scores = layers.conv2d(hidden, 3, 1, **named("rpn_score"))
            moves = layers.conv2d(hidden, 12, 1, **named("rpn_move"))
            boxes, sure = layers.generate_proposals(
                scores=layers.sigmoid(scores), bbox_deltas=moves, im_info=info, anchors=anchors, variances=spread, pre_nms_top_n=counts[0],
                post_nms_top_n=counts[1], nms_thresh=0.7, min_size=0.0, eta=1.0)
            found.append((scores, moves, anchors, spread, boxes, sure))
        collected = layers.collect_fpn_proposals(
            [f[4] for f in found], [f[5] for f in found], min_level=2, max_level=5, post_nms_top_n=counts[1])
        return found, collected

    def heads(levels, boxes):
        shares, order = layers.distribute_fpn_proposals(boxes, min_level=2, max_level=5, refer_level=4, refer_scale=pixels // 4)
        parts = [
            layers.roi_align(levels[i], share, pooled_height=7, pooled_width=7, spatial_scale=1.0 / STRIDES[i], sampling_ratio=2)
            for i, share in enumerate(shares)
        ]
        pooled = layers.gather(layers.concat(parts), order)
        hidden = layers.fc(layers.fc(pooled, 8 * width, act="relu", **named("fc6")), 8 * width, act="relu", **named("fc7"))
        return layers.fc(hidden, classes, **named("score")), layers.fc(hidden, 4 * classes, **named("move"))

    def rpn_loss(found, box, crowd, info):
        def flat(x, last):
            return layers.reshape(layers.transpose(x, perm=[0, 2, 3, 1]), shape=[0, -1, last])

        said = layers.concat([flat(f[0], 1) for f in found], axis=1)
        moved = layers.concat([flat(f[1], 4) for f in found], axis=1)
        anchors = layers.concat([layers.reshape(f[2], shape=[-1, 4]) for f in found])
        spread = layers.concat([layers.reshape(f[3], shape=[-1, 4]) for f in found])
        scores, moves, wanted, target, inside = layers.rpn_target_assign(
            bbox_pred=moved, cls_logits=said, anchor_box=anchors, anchor_var=spread, gt_boxes=box, is_crowd=crowd, im_info=info,
            rpn_batch_size_per_im=learned, rpn_straddle_thresh=-1.0, rpn_fg_fraction=0.5, rpn_positive_overlap=0.7,
            rpn_negative_overlap=0.3, use_random=False)
        wanted = layers.cast(wanted, "float32")
        wanted.stop_gradient = True
        of_scores = layers.reduce_mean(layers.sigmoid_cross_entropy_with_logits(scores, wanted))
        of_moves = layers.smooth_l1(x=moves, y=target, sigma=3.0, inside_weight=inside, outside_weight=inside)
        return of_scores, layers.reduce_sum(of_moves) * (1.0 / (learned * images))

    def network(trains):
        image = layers.data("image", [3, pixels, pixels], dtype="float32")
        info = layers.data("im_info", [3], dtype="float32")
        levels = features(image)
        if trains:
            box = layers.data("gt_bbox", [4], dtype="float32", lod_level=1)
            label = layers.data("gt_class", [1], dtype="int32", lod_level=1)
            crowd = layers.data("is_crowd", [1], dtype="int32", lod_level=1)
            found, boxes = proposals(levels, info, kept)
            first = rpn_loss(found, box, crowd, info)
            boxes, labels, target, inside, outside = layers.generate_proposal_labels(
                rpn_rois=boxes, gt_classes=label, is_crowd=crowd, gt_boxes=box, im_info=info, batch_size_per_im=learned, fg_fraction=0.25,
                fg_thresh=0.5, bg_thresh_hi=0.5, bg_thresh_lo=0.0, bbox_reg_weights=[0.1, 0.1, 0.2, 0.2], class_nums=classes,
                use_random=False)
            scores, moves = heads(levels, boxes)
            labels = layers.cast(labels, "int64")
            labels.stop_gradient = True
            of_labels = layers.reduce_mean(layers.softmax_with_cross_entropy(scores, labels))
            of_moves = layers.reduce_mean(
                layers.smooth_l1(x=moves, y=target, sigma=1.0, inside_weight=inside, outside_weight=outside))
            return [*first, of_labels, of_moves]
        _, boxes = proposals(levels, info, kept_in_tests)
        scores, moves = heads(levels, boxes)
        scale = layers.slice(info, axes=[1], starts=[2], ends=[3])
        placed = layers.elementwise_div(boxes, layers.lod_reset(layers.sequence_expand(scale, boxes), boxes))
        decoded = layers.box_coder(
            prior_box=placed, prior_box_var=[0.1, 0.1, 0.2, 0.2], target_box=layers.reshape(moves, shape=[-1, classes, 4]),
            code_type="decode_center_size", box_normalized=False, axis=1)
        size = layers.round(layers.elementwise_div(info, scale, axis=0))
        clipped = layers.box_clip(input=layers.lod_reset(decoded, boxes), im_info=size)
        chosen = layers.multiclass_nms(
            bboxes=clipped, scores=layers.softmax(scores), score_threshold=0.01, nms_top_k=-1, keep_top_k=100, nms_threshold=0.5,
            normalized=False, background_label=0)
        return [chosen, boxes]

    tested = fluid.Program()
    with fluid.program_guard(tested, fluid.Program()), fluid.unique_name.guard():
        chosen = network(trains=False)
    tested = tested.clone(for_test=True)
    with fluid.unique_name.guard():
        losses = network(trains=True)
        loss = layers.sum(losses)
        optimizer = fluid.optimizer.Momentum(0.002, 0.9, regularization=fluid.regularizer.L2Decay(1e-4))
        optimizer.minimize(loss)
    exe = start(fluid)

    draws, results = np.random.RandomState(4), []

    def batch():
        lengths = draws.randint(2, 7, images).tolist()
        count = sum(lengths)
        low, extent = draws.uniform(0, pixels * 0.6, (count, 2)), draws.uniform(pixels * 0.1, pixels * 0.35, (count, 2))
        crowd = (draws.uniform(0, 1, (count, 1)) < 0.2).astype("int32")
        crowd[np.cumsum([0, *lengths[:-1]])] = 0  # an image of crowds alone ends the process under 1.8.5
        return {
            "image": draws.uniform(-1, 1, (images, 3, pixels, pixels)).astype("float32"),
            "im_info": np.array([[pixels * 0.95, pixels, 1.6 - 0.3 * i] for i in range(images)], "float32"),
            "gt_bbox": sequences(fluid, np.concatenate([low, low + extent], 1).astype("float32"), lengths),
            "gt_class": sequences(fluid, draws.randint(1, classes, (count, 1)).astype("int32"), lengths),
            "is_crowd": sequences(fluid, crowd, lengths),
        }

    def shown(feed):
        return {"image": feed["image"], "im_info": feed["im_info"]}

    first = batch()
    results += watch("found", lambda: exe.run(tested, feed=shown(first), fetch_list=[v.name for v in chosen], return_numpy=False))
    for _ in range(steps):
        feed = batch()
        results += watch("step", lambda feed=feed: exe.run(feed=feed, fetch_list=[loss, *losses]))
    return results + watch("found", lambda: exe.run(tested, feed=shown(first), fetch_list=[v.name for v in chosen], return_numpy=False))
