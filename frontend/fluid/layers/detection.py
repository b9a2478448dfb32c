"""Detectors: boxes of grids, boxes as differences, what is chosen among them, what a network learns of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme.fluid.layers.given import made, made_all, takes
from polyreme.fluid.layers.loss import smooth_l1, softmax_with_cross_entropy
from polyreme.fluid.layers.nn import conv2d, flatten, reduce_sum, reshape, shape, slice, softmax, transpose
from polyreme.fluid.layers.tensor import cast, concat
from polyreme.names import listed
from polyreme.tensor import Tensor

__all__ = [
    "anchor_generator", "bipartite_match", "box_clip", "box_coder", "box_decoder_and_assign", "density_prior_box", "detection_output",
    "iou_similarity", "locality_aware_nms", "matrix_nms", "multi_box_head", "multiclass_nms", "polygon_box_transform", "prior_box",
    "retinanet_detection_output", "sigmoid_focal_loss", "ssd_loss", "target_assign", "yolo_box", "yolov3_loss",
]  # fmt: skip


def _floats(values: Any) -> list[float]:
    return [float(value) for value in values] if isinstance(values, (list, tuple)) else [float(values)]


def _two(values: Any, what: str) -> list[float]:
    if not isinstance(values, (list, tuple)) or len(values) != 2:
        raise ValueError(f"{what} should be a list or tuple with length 2, that along the width first, but got {values!r}")
    return [float(value) for value in values]


# --- boxes of a grid


@takes("input", "image")
def prior_box(
    input: Any, image: Any, min_sizes: Any, max_sizes: Any = None, aspect_ratios: Any = [1.0], variance: Any = [0.1, 0.1, 0.2, 0.2],  # noqa: B006  # read only
    flip: bool = False, clip: bool = False, steps: Any = [0.0, 0.0], offset: float = 0.5, name: str | None = None,  # noqa: B006  # read only
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Boxes (x1, y1, x2, y2) around each place of `input` [N, C, H, W] in an image with 1 as its width and height, and the variances of
    each, [H, W, priors, 4]: for each of `min_sizes` one of each aspect ratio, with `flip` of its inverse, too, and one between it and the
    size in `max_sizes`.
    """
    apart = _two(steps, "steps")
    attrs = {
        "min_sizes": _floats(min_sizes), "aspect_ratios": _floats(aspect_ratios), "variances": _floats(variance), "flip": flip,
        "clip": clip, "step_w": apart[0], "step_h": apart[1], "offset": offset,
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }  # fmt: skip
    if max_sizes is not None and (greatest := _floats(max_sizes)) and greatest[0] > 0:
        attrs["max_sizes"] = greatest
    outputs = dict.fromkeys(("Boxes", "Variances"), input.dtype)
    boxes, variances = made_all("prior_box", {"Input": input, "Image": image}, attrs, outputs, name=name, fixed=True)
    return boxes, variances


@takes("input", "image")
def density_prior_box(
    input: Any, image: Any, densities: Any = None, fixed_sizes: Any = None, fixed_ratios: Any = None,
    variance: Any = [0.1, 0.1, 0.2, 0.2], clip: bool = False, steps: Any = [0.0, 0.0], offset: float = 0.5, flatten_to_2d: bool = False,  # noqa: B006  # read only
    name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """As `prior_box`, of each of `fixed_sizes` and `fixed_ratios` with a density of d so many as d x d, spread over the step to the next
    place; with `flatten_to_2d` as [boxes, 4].
    """
    if len(densities) != len(fixed_sizes):
        raise ValueError(f"densities and fixed_sizes length should be equal but got {len(densities)} and {len(fixed_sizes)}")
    apart = _two(steps, "steps")
    attrs = {
        "variances": _floats(variance), "clip": clip, "step_w": apart[0], "step_h": apart[1], "offset": offset,
        "densities": [int(density) for density in densities], "fixed_sizes": _floats(fixed_sizes), "fixed_ratios": _floats(fixed_ratios),
        "flatten_to_2d": flatten_to_2d,
    }  # fmt: skip
    outputs = dict.fromkeys(("Boxes", "Variances"), input.dtype)
    boxes, variances = made_all("density_prior_box", {"Input": input, "Image": image}, attrs, outputs, name=name, fixed=True)
    return boxes, variances


@takes("input")
def anchor_generator(
    input: Any, anchor_sizes: Any = None, aspect_ratios: Any = None, variance: Any = [0.1, 0.1, 0.2, 0.2], stride: Any = None,  # noqa: B006  # read only
    offset: float = 0.5, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Boxes of pixels around each place of `input` [N, C, H, W], which are `stride` apart, and the variances of each, [H, W, anchors, 4];
    of each ratio of height by width one for each size.
    """
    attrs = {
        "anchor_sizes": _floats(anchor_sizes), "aspect_ratios": _floats(aspect_ratios), "variances": _floats(variance),
        "stride": _two(stride, "stride"), "offset": offset,
    }  # fmt: skip
    outputs = dict.fromkeys(("Anchors", "Variances"), input.dtype)
    anchors, variances = made_all("anchor_generator", {"Input": input}, attrs, outputs, name=name, fixed=True)
    return anchors, variances


def multi_box_head(
    inputs: Any, image: Any, base_size: int, num_classes: int, aspect_ratios: Any, min_ratio: int | None = None,
    max_ratio: int | None = None, min_sizes: Any = None, max_sizes: Any = None, steps: Any = None, step_w: Any = None, step_h: Any = None,
    offset: float = 0.5, variance: Any = [0.1, 0.1, 0.2, 0.2], flip: bool = True, clip: bool = False, kernel_size: int = 1, pad: int = 0,  # noqa: B006  # read only
    stride: int = 1, name: str | None = None, min_max_aspect_ratios_order: bool = False,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """The head of SSD on several levels of features: differences [N, boxes, 4] and scores [N, boxes, classes] by a convolution each, and
    boxes and variances [boxes, 4]. Of one level the first two are [N, ...] of all numbers, and the others [H, W, priors, 4].

    Sizes of boxes are told, or go in even steps from `min_ratio` to `max_ratio` per cent of `base_size`.
    """
    if not isinstance(inputs, (list, tuple)):
        raise ValueError("inputs should be a list or tuple.")
    count = len(inputs)
    if min_sizes is None and max_sizes is None and count > 2 and min_ratio is not None and max_ratio is not None:
        step = int(math.floor((max_ratio - min_ratio) / (count - 2)))
        ratios = list(range(min_ratio, max_ratio + 1, step))
        min_sizes = [base_size * 0.1, *(base_size * ratio / 100.0 for ratio in ratios)]
        max_sizes = [base_size * 0.2, *(base_size * (ratio + step) / 100.0 for ratio in ratios)]
    if steps is not None:
        step_w = step_h = steps
    given = {"min_sizes": min_sizes, "max_sizes": max_sizes, "aspect_ratios": aspect_ratios, "step_w": step_w, "step_h": step_h}
    for what, values in given.items():
        optional = what not in ("min_sizes", "max_sizes") and not values
        # As many sizes as `min_ratio` and `max_ratio` make may be more than there are inputs.
        fits = isinstance(values, (list, tuple)) and (len(values) == count or what.endswith("sizes") and len(values) >= count > 2)
        if not optional and not fits:
            raise ValueError(f"{what} should be list or tuple, and the length of inputs and {what} should be the same.")
    differences: list[Any] = []
    scores: list[Any] = []
    boxes: list[Any] = []
    variances: list[Any] = []
    for i, features in enumerate(inputs):
        apart = [step_w[i] if step_w else 0.0, step_h[i] if step_h else 0.0]
        box, spread = prior_box(
            features, image, min_sizes[i], max_sizes[i], aspect_ratios[i] if aspect_ratios else [], variance, flip, clip, apart, offset,
            None, min_max_aspect_ratios_order,
        )  # fmt: skip
        boxes.append(box)
        variances.append(spread)
        for parts, each in ((differences, 4), (scores, num_classes)):
            said = conv2d(features, int(box.shape[2]) * each, kernel_size, stride=stride, padding=pad)
            parts.append(flatten(transpose(said, [0, 2, 3, 1]), axis=1))
    if count == 1:
        return differences[0], scores[0], boxes[0], variances[0]
    box, spread = (concat([flatten(part, axis=3) for part in parts]) for parts in (boxes, variances))
    box.stop_gradient = spread.stop_gradient = True
    said_of_boxes, said_of_classes = (
        reshape(concat(parts, axis=1), [0, -1, each]) for parts, each in ((differences, 4), (scores, num_classes))
    )
    return said_of_boxes, said_of_classes, box, spread


# --- boxes as differences


@takes("prior_box", "target_box")
def box_coder(
    prior_box: Any, prior_box_var: Any, target_box: Any, code_type: str = "encode_center_size", box_normalized: bool = True,
    name: str | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    """Boxes as differences from priors, divided by variances (`encode_center_size`), or boxes of such differences
    (`decode_center_size`). The variances are a variable or a list of four.
    """
    slots: dict[str, Any] = {"PriorBox": prior_box, "TargetBox": target_box}
    attrs: dict[str, Any] = {"code_type": code_type, "box_normalized": box_normalized, "axis": axis}
    if isinstance(prior_box_var, Tensor):
        slots["PriorBoxVar"] = prior_box_var
    elif isinstance(prior_box_var, list):
        attrs["variance"] = _floats(prior_box_var)
    else:
        raise TypeError("Input variance of box_coder must be Variable or list")
    return made("box_coder", slots, attrs, prior_box.dtype, "OutputBox", name=name)


@takes("prior_box", "prior_box_var", "target_box", "box_score")
def box_decoder_and_assign(
    prior_box: Any, prior_box_var: Any, target_box: Any, box_score: Any, box_clip: float, name: str | None = None
) -> tuple[Any, Any]:
    """Boxes of differences [N, 4 * classes] from priors [N, 4], and the one of each prior's best class [N, 4]. Logarithms of sizes are at
    most `box_clip`.
    """
    slots = {"PriorBox": prior_box, "PriorBoxVar": prior_box_var, "TargetBox": target_box, "BoxScore": box_score}
    outputs = dict.fromkeys(("DecodeBox", "OutputAssignBox"), prior_box.dtype)
    decoded, assigned = made_all("box_decoder_and_assign", slots, {"box_clip": box_clip}, outputs, name=name)
    return decoded, assigned


@takes("input", "im_info")
def box_clip(input: Any, im_info: Any, name: str | None = None) -> Any:
    """Boxes of pixels, a sequence for each image, within their images, whose heights, widths and scales are `im_info` [N, 3]."""
    return made("box_clip", {"Input": input, "ImInfo": im_info}, {}, input.dtype, "Output", name=name)


@takes("input")
def polygon_box_transform(input: Any, name: str | None = None) -> Any:
    """Differences [N, 2 * corners, H, W] of corners from places as places of pixels, four for each place."""
    return made("polygon_box_transform", {"Input": input}, {}, input.dtype, "Output", name=name)


@takes("x", "img_size")
def yolo_box(
    x: Any, img_size: Any, anchors: Any, class_num: int, conf_thresh: float, downsample_ratio: int, clip_bbox: bool = True,
    name: str | None = None, scale_x_y: float = 1.0,
) -> tuple[Any, Any]:  # fmt: skip
    """Boxes [N, boxes, 4] and scores [N, boxes, classes] of what YOLO says, zeros where it says less than `conf_thresh`."""
    _check_yolo("yolo_box", anchors, class_num, conf_thresh)
    attrs = {
        "anchors": list(anchors), "class_num": class_num, "conf_thresh": conf_thresh, "downsample_ratio": downsample_ratio,
        "clip_bbox": clip_bbox, "scale_x_y": scale_x_y,
    }  # fmt: skip
    boxes, scores = made_all("yolo_box", {"X": x, "ImgSize": img_size}, attrs, dict.fromkeys(("Boxes", "Scores"), x.dtype), name=name)
    return boxes, scores


def _check_yolo(function: str, anchors: Any, class_num: Any, threshold: Any) -> None:
    for what, value, kinds in (("anchors", anchors, (list, tuple)), ("class_num", class_num, int), ("the threshold", threshold, float)):
        if not isinstance(value, kinds):
            raise TypeError(f"expected {what} of {function} as {kinds} but got {type(value)}")


# --- what is learned


@takes("x", "y")
def iou_similarity(x: Any, y: Any, box_normalized: bool = True, name: str | None = None) -> Any:
    """What each box of `x` [N, 4] covers with each of `y` [M, 4] over what they cover together, [N, M]."""
    return made("iou_similarity", {"X": x, "Y": y}, {"box_normalized": box_normalized}, x.dtype, name=name)


@takes("dist_matrix")
def bipartite_match(
    dist_matrix: Any, match_type: str | None = None, dist_threshold: float | None = None, name: str | None = None
) -> tuple[Any, Any]:
    """The row that each column is matched with, int32 [N, columns] with -1 for none, and their distances. `dist_matrix` has a sequence of
    rows for each image; greater is nearer. Each row gets one column, and with `per_prediction` others as near as the threshold, too.
    """
    outputs = {"ColToRowMatchIndices": "int32", "ColToRowMatchDist": dist_matrix.dtype}
    attrs = {"match_type": match_type, "dist_threshold": dist_threshold}
    matched, near = made_all("bipartite_match", {"DistMat": dist_matrix}, attrs, outputs, name=name, fixed=True)
    return matched, near


@takes("input", "matched_indices")
def target_assign(
    input: Any, matched_indices: Any, negative_indices: Any = None, mismatch_value: int | None = None, name: str | None = None
) -> tuple[Any, Any]:
    """What each column is to learn, [N, columns, K], and its weight, [N, columns, 1]: the row of `input` that it is matched with and 1;
    elsewhere `mismatch_value` and 0, but 1 for `negative_indices`.
    """
    slots = {"X": input, "MatchIndices": matched_indices, "NegIndices": negative_indices}
    outputs = {"Out": input.dtype, "OutWeight": "float32"}
    made_now = made_all("target_assign", slots, {"mismatch_value": mismatch_value}, outputs, name=name, fixed=True)
    return made_now[0], made_now[1]


@takes("location", "confidence", "gt_box", "gt_label", "prior_box")
def ssd_loss(
    location: Any, confidence: Any, gt_box: Any, gt_label: Any, prior_box: Any, prior_box_var: Any = None, background_label: int = 0,
    overlap_threshold: float = 0.5, neg_pos_ratio: float = 3.0, neg_overlap: float = 0.5, loc_loss_weight: float = 1.0,
    conf_loss_weight: float = 1.0, match_type: str = "per_prediction", mining_type: str = "max_negative", normalize: bool = True,
    sample_size: int | None = None,
) -> Any:  # fmt: skip
    """The loss of SSD, [N, 1]: of differences [N, priors, 4] and scores [N, priors, classes], of boxes and labels that are a sequence for
    each image. Priors are matched with boxes; of the others those of the greatest losses are learned as background, `neg_pos_ratio` times
    as many at most. Normalized by how many are matched.
    """
    if mining_type != "max_negative":
        raise ValueError("Only support mining_type == max_negative now.")
    sizes = slice(shape(confidence), axes=[0], starts=[0], ends=[2])
    sizes.stop_gradient = True
    matched, near = bipartite_match(iou_similarity(gt_box, prior_box), match_type, overlap_threshold)
    labels = reshape(gt_label, [0] * (len(gt_label.shape) - 1) + [-1, 1])
    labels.stop_gradient = True
    scores, differences = flatten(confidence, axis=2), flatten(location, axis=2)
    first, _ = target_assign(labels, matched, mismatch_value=background_label)
    hard = softmax_with_cross_entropy(scores, _column(first))
    hard = reshape(hard, [-1, 0], actual_shape=sizes)
    hard.stop_gradient = True
    negative, updated = made_all(
        "mine_hard_examples", {"ClsLoss": hard, "MatchIndices": matched, "MatchDist": near},
        {
            "neg_pos_ratio": neg_pos_ratio, "neg_dist_threshold": neg_overlap, "mining_type": mining_type, "sample_size": sample_size,
        },
        {"NegIndices": "int32", "UpdatedMatchIndices": "int32"}, fixed=True,
    )  # fmt: skip
    encoded = box_coder(prior_box, prior_box_var, gt_box)
    boxes, box_weight = target_assign(encoded, updated, mismatch_value=background_label)
    classes, class_weight = target_assign(labels, updated, negative, background_label)
    of_classes = softmax_with_cross_entropy(scores, _column(classes)) * flatten(class_weight, axis=2)
    flat_weight = flatten(box_weight, axis=2)
    of_boxes = smooth_l1(differences, flatten(boxes, axis=2)) * flat_weight
    loss = reshape(conf_loss_weight * of_classes + loc_loss_weight * of_boxes, [-1, 0], actual_shape=sizes)
    loss = reduce_sum(loss, dim=1, keep_dim=True)
    return loss / reduce_sum(flat_weight) if normalize else loss


def _column(labels: Any) -> Any:
    """Labels [N, columns, 1] as int64 [N * columns, 1]."""
    flat = flatten(cast(labels, "int64"), axis=2)
    flat.stop_gradient = True
    return flat


@takes("x", "label", "fg_num")
def sigmoid_focal_loss(x: Any, label: Any, fg_num: Any, gamma: float = 2.0, alpha: float = 0.25) -> Any:
    """The focal loss of scores [N, classes] and labels [N, 1] from 1 on, 0 for the background and -1 for what is passed over, divided by
    the number of boxes `fg_num`.
    """
    return made("sigmoid_focal_loss", {"X": x, "Label": label, "FgNum": fg_num}, {"gamma": float(gamma), "alpha": alpha}, x.dtype)


@takes("x", "gt_box", "gt_label")
def yolov3_loss(
    x: Any, gt_box: Any, gt_label: Any, anchors: Any, anchor_mask: Any, class_num: int, ignore_thresh: float, downsample_ratio: int,
    gt_score: Any = None, use_label_smooth: bool = True, name: str | None = None, scale_x_y: float = 1.0,
) -> Any:  # fmt: skip
    """The loss [N] of what YOLOv3 says, [N, anchors * (5 + classes), H, W], of boxes [N, boxes, 4] (their middles and sizes, from 0 to 1)
    and their classes [N, boxes].
    """
    _check_yolo("yolov3_loss", anchors, class_num, ignore_thresh)
    if not isinstance(anchor_mask, (list, tuple)):
        raise TypeError("Attr anchor_mask of yolov3_loss must be list or tuple")
    attrs = {
        "anchors": list(anchors), "anchor_mask": list(anchor_mask), "class_num": class_num, "ignore_thresh": ignore_thresh,
        "downsample_ratio": downsample_ratio, "use_label_smooth": use_label_smooth, "scale_x_y": scale_x_y,
    }  # fmt: skip
    slots = {"X": x, "GTBox": gt_box, "GTLabel": gt_label, "GTScore": gt_score}
    outputs = {"Loss": x.dtype, "ObjectnessMask": x.dtype, "GTMatchMask": "int32"}
    return made_all("yolov3_loss", slots, attrs, outputs, name=name)[0]


# --- what is chosen


def _chosen(
    type: str, bboxes: Any, scores: Any, attrs: dict[str, Any], indexed: bool = False, name: str | None = None
) -> Any:
    """Rows of class, score and edges, a sequence for each image; where `indexed`, and where each stands among the boxes."""
    outputs = {"Out": bboxes.dtype, "Index": "int32"} if indexed else {"Out": bboxes.dtype}
    found = made_all(type, {"BBoxes": bboxes, "Scores": scores}, attrs, outputs, name=name, fixed=True)
    return found if indexed else found[0]


@takes("bboxes", "scores")
def multiclass_nms(
    bboxes: Any, scores: Any, score_threshold: float, nms_top_k: int, keep_top_k: int, nms_threshold: float = 0.3, normalized: bool = True,
    nms_eta: float = 1.0, background_label: int = 0, name: str | None = None,
) -> Any:  # fmt: skip
    """Of each class the boxes that overlap no better one by more than `nms_threshold`, and of these the `keep_top_k` best of each image:
    rows of class, score and edges, a sequence for each image; one number, -1, where there are none.
    """
    attrs = {
        "background_label": background_label, "score_threshold": score_threshold, "nms_top_k": nms_top_k, "nms_threshold": nms_threshold,
        "nms_eta": nms_eta, "keep_top_k": keep_top_k, "normalized": normalized,
    }  # fmt: skip
    return _chosen("multiclass_nms", bboxes, scores, attrs, name=name)


@takes("bboxes", "scores")
def locality_aware_nms(
    bboxes: Any, scores: Any, score_threshold: float, nms_top_k: int, keep_top_k: int, nms_threshold: float = 0.3, normalized: bool = True,
    nms_eta: float = 1.0, background_label: int = -1, name: str | None = None,
) -> Any:  # fmt: skip
    """As `multiclass_nms` of one class, where neighbours that overlap by more than the threshold are merged first, weighed by scores."""
    if len(scores.shape) != 3 or scores.shape[1] != 1:
        raise ValueError(f"locality_aware_nms only support one class, Tensor score shape must be [N, 1, M] but got {list(scores.shape)}")
    attrs = {
        "background_label": background_label, "score_threshold": score_threshold, "nms_top_k": nms_top_k, "nms_threshold": nms_threshold,
        "nms_eta": nms_eta, "keep_top_k": keep_top_k, "normalized": normalized,
    }  # fmt: skip
    return _chosen("locality_aware_nms", bboxes, scores, attrs, name=name)


@takes("bboxes", "scores")
def matrix_nms(
    bboxes: Any, scores: Any, score_threshold: float, post_threshold: float, nms_top_k: int, keep_top_k: int, use_gaussian: bool = False,
    gaussian_sigma: float = 2.0, background_label: int = 0, normalized: bool = True, return_index: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """As `multiclass_nms`, where scores fall by how far better boxes overlap; with `return_index`, and where each stands, int32 [rows, 1].
    """
    attrs = {
        "background_label": background_label, "score_threshold": score_threshold, "post_threshold": post_threshold,
        "nms_top_k": nms_top_k, "gaussian_sigma": gaussian_sigma, "use_gaussian": use_gaussian, "keep_top_k": keep_top_k,
        "normalized": normalized,
    }  # fmt: skip
    found = _chosen("matrix_nms", bboxes, scores, attrs, True, name)
    return found if return_index else found[0]


@takes("loc", "scores", "prior_box")
def detection_output(
    loc: Any, scores: Any, prior_box: Any, prior_box_var: Any, background_label: int = 0, nms_threshold: float = 0.3, nms_top_k: int = 400,
    keep_top_k: int = 200, score_threshold: float = 0.01, nms_eta: float = 1.0, return_index: bool = False,
) -> Any:  # fmt: skip
    """What SSD finds, by `multiclass_nms` of the boxes that differences [N, priors, 4] from priors are and the softmax of scores
    [N, priors, classes]; with `return_index`, and where each stands, int32 [rows, 1]. Class 0 is the background, whatever
    `background_label` says, and `nms_eta` does not count, as in Paddle.
    """
    boxes = box_coder(prior_box, prior_box_var, loc, "decode_center_size")
    shares = transpose(softmax(scores), perm=[0, 2, 1])
    shares.stop_gradient = True
    attrs = {
        "background_label": 0, "nms_threshold": nms_threshold, "nms_top_k": nms_top_k, "keep_top_k": keep_top_k,
        "score_threshold": score_threshold, "nms_eta": 1.0,
    }  # fmt: skip
    return _chosen("multiclass_nms2" if return_index else "multiclass_nms", boxes, shares, attrs, return_index)


def retinanet_detection_output(
    bboxes: Sequence[Any], scores: Sequence[Any], anchors: Sequence[Any], im_info: Any, score_threshold: float = 0.05,
    nms_top_k: int = 1000, keep_top_k: int = 100, nms_threshold: float = 0.3, nms_eta: float = 1.0,
) -> Any:  # fmt: skip
    """What RetinaNet finds in each image on all levels: of differences [N, anchors, 4], scores [N, anchors, classes] and anchors
    [anchors, 4] of each level, rows of class from 1 on, score and edges, a sequence for each image.
    """
    attrs = {
        "score_threshold": score_threshold, "nms_top_k": nms_top_k, "nms_threshold": nms_threshold, "keep_top_k": keep_top_k,
        "nms_eta": 1.0,
    }  # fmt: skip
    slots = {"BBoxes": list(bboxes), "Scores": list(scores), "Anchors": list(anchors), "ImInfo": im_info}
    return made("retinanet_detection_output", slots, attrs, scores[0].dtype, fixed=True)


__dir__ = listed(__name__)
