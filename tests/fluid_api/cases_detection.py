"""Detectors of `fluid.layers`: boxes of grids, boxes as differences, what is matched, learned and chosen."""

from tests.fluid_api.cases_layers import L, outcome, rows
from tests.fluid_api.table import check


def still(made):
    """Results through which no gradient is asked for."""
    for part in made if isinstance(made, (list, tuple)) else [made]:
        part.stop_gradient = True
    return made


def boxes(np, *shape, **more):
    """Boxes (x1, y1, x2, y2) within [0, size]."""
    draws = np.random.RandomState(more.get("seed", 0))
    low, extent = draws.uniform(0, 0.6, shape + (2,)), draws.uniform(0.05, 0.4, shape + (2,))
    return (np.concatenate([low, low + extent], -1) * more.get("size", 1.0)).astype("float32")


def draw(np, *shape, **more):
    return np.random.RandomState(more.get("seed", 0)).uniform(more.get("low", -1), more.get("high", 1), shape).astype("float32")


@check(L + "prior_box", L + "density_prior_box", L + "anchor_generator")
def boxes_of_grids(fluid, np):
    one, image = draw(np, 2, 3, 3, 4), draw(np, 2, 3, 30, 44)
    wide, large = draw(np, 1, 2, 1, 6), draw(np, 1, 3, 20, 120)

    def both(function):
        return {
            "of several places": outcome(fluid, np, function, one, image), "of one row": outcome(fluid, np, function, wide, large),
            "of one place": outcome(fluid, np, function, one[:1, :, :1, :1], image[:1]),
        }  # fmt: skip

    return {
        "prior": both(lambda L, x, y: L.prior_box(x, y, [8.0, 12.0], [12.0, 20.0], [1.0, 2.0], flip=True, clip=True)),
        "one size": both(lambda L, x, y: L.prior_box(x, y, 8.0, aspect_ratios=[0.5, 3.0], steps=[10.0, 9.0], offset=0.25)),
        "in Caffe's order": both(lambda L, x, y: L.prior_box(
            x, y, [4.0], [9.0], [2.0, 3.0], [0.1, 0.2, 0.3, 0.4], flip=True, min_max_aspect_ratios_order=True)),
        "dense": both(lambda L, x, y: L.density_prior_box(x, y, [4, 2], [8.0, 16.0], [1.0], clip=True)),
        "dense, flat": both(lambda L, x, y: L.density_prior_box(
            x, y, [3, 1], [8.0, 16.0], [1.0, 2.0], steps=[12.0, 13.0], offset=0.3, flatten_to_2d=True)),
        "anchors": both(lambda L, x, y: L.anchor_generator(x, [32.0, 64.0], [0.5, 1.0, 2.0], stride=[16.0, 16.0])),
        "anchors apart": both(lambda L, x, y: L.anchor_generator(x, 40.0, 1.5, [1.0, 2.0, 3.0, 4.0], stride=[12.0, 20.0], offset=0.25)),
    }  # fmt: skip


@check(L + "box_coder", L + "box_clip", L + "box_decoder_and_assign", L + "polygon_box_transform", L + "iou_similarity")
def boxes_as_differences(fluid, np):
    priors, spread = boxes(np, 4, seed=1), draw(np, 4, 4, low=0.1, high=0.5)
    some, more = boxes(np, 3, seed=2), (boxes(np, 6, seed=3), [[2, 1, 3]])
    said, info = draw(np, 2, 4, 4, seed=4), np.array([[20, 30, 1.5], [40, 16, 1], [9.2, 7, 0.7]], "float32")
    decoded = draw(np, 4, 12, seed=5), draw(np, 4, 3, seed=6)
    return {
        "encoded": outcome(fluid, np, lambda L, p, v, x: still(L.box_coder(p, v, x)), priors, spread, some),
        "encoded, sequences": outcome(fluid, np, lambda L, p, v, x: still(L.box_coder(p, v, x)), priors, spread, more),
        "encoded, pixels": outcome(
            fluid, np, lambda L, p, x: still(L.box_coder(p, [0.1, 0.1, 0.2, 0.2], x, box_normalized=False)), priors * 20, some * 20),
        "decoded": outcome(fluid, np, lambda L, p, v, x: still(L.box_coder(p, v, x, "decode_center_size")), priors, spread, said),
        "decoded, pixels along 1": outcome(fluid, np, lambda L, p, x: still(L.box_coder(
            p, [0.1, 0.2, 0.3, 0.4], x, "decode_center_size", False, axis=1)), priors[:2] * 20, said),
        "decoded, assigned": outcome(fluid, np, lambda L, p, x, s: still(L.box_decoder_and_assign(
            p, L.assign(np.array([0.1, 0.1, 0.2, 0.2], "float32")), x, s, 0.03)), priors * 20, *decoded),
        "clipped": outcome(fluid, np, lambda L, x, i: still(L.box_clip(x, i)), (more[0] * 60 - 10, more[1]), info),
        "clipped of classes": outcome(
            fluid, np, lambda L, x, i: still(L.box_clip(x, i)), (boxes(np, 6, 2, size=70, seed=8) - 12, more[1]), info),
        "clipped, one image": outcome(fluid, np, lambda L, x, i: still(L.box_clip(x, i)), (more[0] * 60 - 10, [[6]]), info[:1]),
        "polygons": outcome(fluid, np, lambda L, x: still(L.polygon_box_transform(x)), draw(np, 2, 8, 3, 4)),
        "polygons of one row": outcome(fluid, np, lambda L, x: still(L.polygon_box_transform(x)), draw(np, 1, 4, 1, 5)),
        "overlaps": outcome(fluid, np, lambda L, x, y: still(L.iou_similarity(x, y)), some, priors),
        "overlaps of sequences": outcome(fluid, np, lambda L, x, y: still(L.iou_similarity(x, y)), more, priors),
        "overlaps of pixels": outcome(fluid, np, lambda L, x, y: still(L.iou_similarity(x, y, False)), some[:1] * 9, priors * 9),
    }  # fmt: skip


@check(L + "bipartite_match", L + "target_assign")
def boxes_are_matched(fluid, np):
    def match(**more):
        return lambda L, x, y: still(L.bipartite_match(L.iou_similarity(x, y), **more))

    def assign(L, d, x, z):
        matched, _ = L.bipartite_match(d, "per_prediction", 0.3)
        return still(L.target_assign(x, matched, mismatch_value=7) + L.target_assign(z, matched, mismatch_value=0))

    priors, truth = boxes(np, 9, seed=1), (boxes(np, 6, seed=2), [[2, 1, 3]])
    lengths = [[2, 1, 3]]
    near = rows(np, lengths, 7, seed=3)
    labels, wide = (np.arange(6, dtype="int32").reshape(6, 1, 1), lengths), rows(np, lengths, 7, 4, seed=4)
    equal = (np.array([[0.5, 0.5, 0.2], [0.5, 0.5, 0.5], [0.1, 0.6, 0.6], [0.0, 0.6, 0.6]], "float32"), [[2, 2]])
    return {
        "bipartite": outcome(fluid, np, match(), truth, priors), "one image": outcome(fluid, np, match(), truth[0], priors),
        "of predictions": outcome(fluid, np, match(match_type="per_prediction", dist_threshold=0.2), truth, priors),
        "more boxes than priors": outcome(fluid, np, match(match_type="per_prediction"), truth[0], priors[:2]),
        "equal": outcome(fluid, np, lambda L, d: still(L.bipartite_match(d, "per_prediction", 0.4)), equal),
        "targets": outcome(fluid, np, assign, near, wide, labels),
    }  # fmt: skip


@check(L + "ssd_loss", L + "sigmoid_focal_loss")
def losses_of_detectors(fluid, np):
    def ssd(**more):
        return lambda L, x, y, b, c: L.ssd_loss(x, y, b, c, L.assign(priors), [0.1, 0.1, 0.2, 0.2], **more)

    priors = boxes(np, 12, seed=1)
    images = {
        "two": (boxes(np, 5, seed=2), [[2, 3]], [[1], [2], [1], [3], [2]]), "one": (boxes(np, 1, seed=3), [[1]], [[2]]),
        "three": (boxes(np, 6, seed=4), [[1, 4, 1]], [[1], [2], [3], [3], [2], [1]]),
    }  # fmt: skip
    found = {}
    for name, (truth, lengths, labels) in images.items():
        count, classes = len(lengths[0]), (np.array(labels, "int32"), lengths)
        given = draw(np, count, 12, 4), draw(np, count, 12, 4, seed=1), (truth, lengths), classes
        found[name] = outcome(fluid, np, ssd(), *given)
        found[name + ", few"] = outcome(fluid, np, ssd(overlap_threshold=0.3, neg_pos_ratio=1.0, neg_overlap=0.2, normalize=False,
                                                       loc_loss_weight=0.5, conf_loss_weight=2.0), *given)
        found[name + ", bipartite"] = outcome(fluid, np, ssd(match_type="bipartite", neg_pos_ratio=2.5), *given)
    for name, count in (("focal", 6), ("focal of one", 1), ("focal of many", 20)):
        labels = np.random.RandomState(0).randint(-1, 4, (count, 1)).astype("int32")
        found[name] = outcome(fluid, np, lambda L, x, y: L.sigmoid_focal_loss(
            x, y, L.assign(np.array([3], "int32"))), draw(np, count, 3) * 3, labels)
        found[name + ", less"] = outcome(fluid, np, lambda L, x, y: L.sigmoid_focal_loss(
            x, y, L.assign(np.array([2], "int32")), 1.5, 0.6), draw(np, count, 3, seed=1) * 3, labels)
    return found


@check(L + "yolov3_loss", L + "yolo_box")
def yolo(fluid, np):
    anchors = [10, 13, 16, 30, 33, 23]
    found = {}
    for name, (count, height, width, truths) in {"some": (2, 4, 4, 3), "one": (1, 5, 5, 1), "many": (3, 3, 3, 6)}.items():
        x = draw(np, count, 14, height, width, seed=1)
        # Boxes of different places: of several at one place Paddle's gradient is that of the last one.
        cells = np.stack([np.random.RandomState(i).permutation(height * width)[:truths] for i in range(count)])
        middles = (np.stack([cells % width, cells // width], -1) + draw(np, count, truths, 2, low=0.1, high=0.9)) / [width, height]
        extents = draw(np, count, truths, 2, low=0.02, high=0.6, seed=2)
        middles = np.concatenate([middles, extents], -1).astype("float32")
        labels = np.random.RandomState(1).randint(0, 2, (count, truths)).astype("int32")
        sizes = np.array([[100 + 10 * i, 130 - 7 * i] for i in range(count)], "int32")
        score = draw(np, count, truths, low=0.2, high=1)
        found[name] = outcome(fluid, np, lambda L, x, b, c: L.yolov3_loss(x, b, c, anchors, [0, 2], 2, 0.5, 32), x, middles, labels)
        found[name + ", scored"] = outcome(fluid, np, lambda L, x, b, c, s: L.yolov3_loss(
            x, b, c, anchors, [1, 2], 2, 0.7, 16, s, False, scale_x_y=1.2), x, middles, labels, score)
        found[name + ", boxes"] = outcome(fluid, np, lambda L, x, s: still(L.yolo_box(x, s, anchors[:4], 2, 0.3, 32)), x, sizes)
        found[name + ", boxes beyond"] = outcome(
            fluid, np, lambda L, x, s: still(L.yolo_box(x, s, anchors[2:], 2, 0.01, 16, False, scale_x_y=1.1)), x, sizes)
    return found


@check(L + "multiclass_nms", L + "matrix_nms", L + "detection_output")
def boxes_are_chosen(fluid, np):
    found = {}
    for name, (count, many, classes) in {"two": (2, 12, 3), "one": (1, 5, 2), "three": (3, 20, 4)}.items():
        given = boxes(np, count, many, seed=1), draw(np, count, classes, many, low=0, high=1, seed=2)
        priors, said = boxes(np, many, seed=3), draw(np, count, many, 4, seed=4)
        scores = draw(np, count, many, classes, seed=5) * 3
        found[name] = {
            "usual": outcome(fluid, np, lambda L, b, s: L.multiclass_nms(b, s, 0.3, 10, 7), *given),
            "all": outcome(fluid, np, lambda L, b, s: L.multiclass_nms(b, s, 0.05, -1, -1, 0.6, False, 0.9, -1), *given),
            "none": outcome(fluid, np, lambda L, b, s: L.multiclass_nms(b, s, 2.0, 10, 7), *given),
            "matrix": outcome(fluid, np, lambda L, b, s: L.matrix_nms(b, s, 0.3, 0.1, 10, 7, return_index=True), *given),
            "matrix, all": outcome(fluid, np, lambda L, b, s: L.matrix_nms(
                b, s, 0.05, 0.0, -1, -1, True, 3.0, -1, False), *given),
            "output": outcome(fluid, np, lambda L, x, s, p: L.detection_output(
                x, s, p, [0.1, 0.1, 0.2, 0.2], nms_threshold=0.45, nms_top_k=10, keep_top_k=6), said, scores, priors),
            "output, places": outcome(fluid, np, lambda L, x, s, p: L.detection_output(
                x, s, p, [0.1, 0.1, 0.2, 0.2], score_threshold=0.4, return_index=True), said, scores, priors),
        }  # fmt: skip
    return found


@check(L + "locality_aware_nms", L + "retinanet_detection_output")
def boxes_are_merged_and_collected(fluid, np):
    found = {}
    for name, (count, many, classes) in {"two": (2, 12, 3), "one": (1, 5, 1), "three": (3, 7, 2)}.items():
        near = boxes(np, count, many // 2 + 1, seed=1).repeat(2, 1)[:, :many] + draw(np, count, many, 4, high=0.06, low=0)
        given = near.astype("float32"), draw(np, count, 1, many, low=0.1, high=1, seed=2)
        info = np.array([[60, 80, 1.5], [50, 40, 1], [33.3, 47.4, 0.7]], "float32")[:count]
        levels = [
            [draw(np, count, size, 4, seed=3) * 0.5, draw(np, count, size, classes, low=0, high=1, seed=4), boxes(np, size, seed=5) * 50]
            for size in (many, 3)
        ]

        def retina(least, anchors=tuple(level[2] for level in levels), **more):
            return lambda L, a, b, c, d, i: L.retinanet_detection_output(
                [a, c], [b, d], [L.assign(level) for level in anchors], i, least, **more)

        given_levels = levels[0][0], levels[0][1], levels[1][0], levels[1][1], info
        found[name] = {
            "merged": outcome(fluid, np, lambda L, b, s: L.locality_aware_nms(b, s, 0.3, 10, 7), *given),
            "all merged": outcome(fluid, np, lambda L, b, s: L.locality_aware_nms(b, s, 0.05, -1, -1, 0.6, False, 0.9), *given),
            "nothing": outcome(fluid, np, lambda L, b, s: L.locality_aware_nms(b, s, 50.0, 10, 7), *given),
            "levels": outcome(fluid, np, retina(0.4), *given_levels),
            "few of levels": outcome(fluid, np, retina(0.2, nms_top_k=5, keep_top_k=4, nms_threshold=0.5), *given_levels),
        }  # fmt: skip
    return found
