"""The functions of `paddle.vision.ops` that choose among boxes.

In a static Program each is Paddle's operator, where that has one; else it is the ops that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from polyreme import dispatch
from polyreme.boxes import levels, matrix, plain, proposals
from polyreme.ir import dims
from polyreme.ir.dims import Dim, product, symbol
from polyreme.ir.types import TensorType, i32, i64
from polyreme.math.common import tensor_arg
from polyreme.tensor import Tensor

__all__ = ["distribute_fpn_proposals", "generate_proposals", "matrix_nms", "nms"]


def _operator(
    type: str, inputs: Mapping[str, Tensor | None], outputs: Callable[[Dim], Mapping[str, Any]], attributes: Mapping[str, Any]
) -> list[Any] | None:
    """The results of an operator in a static Program, whose types `outputs` says for the number of rows that it finds; None elsewhere."""
    recorder = dispatch.active_trace()
    if recorder is None:
        return None
    made = recorder.operator(type, inputs, outputs(recorder.fresh_size()), attributes)
    if made is None:
        return None
    for results in made.values():
        for result in results if isinstance(results, list) else [results]:
            result.stop_gradient = True
    return list(made.values())


# Eager calls of so many pairs of boxes are compiled, which takes seconds once.
LARGE = 1 << 22


@lru_cache(maxsize=64)
def _program(function: Callable[..., Any], kinds: tuple[tuple[tuple[int | None, ...], str], ...], attributes: tuple[Any, ...]) -> Any:
    """A function with some attributes, compiled for tensors of these shapes, free sizes being None, and dtypes."""
    from polyreme.jit.static_function import to_static
    from polyreme.static.input_spec import InputSpec

    specs = [InputSpec(list(shape), dtype, f"x{i}") for i, (shape, dtype) in enumerate(kinds)]
    return to_static(lambda *tensors: function(*tensors, *attributes), specs, full_graph=True)


def _run(
    function: Callable[..., Any], tensors: Sequence[Tensor], free: Sequence[Sequence[int]], pairs: Any, attributes: Sequence[Any]
) -> Any:
    """The results for tensors with free axes each; in eager mode by compiled code where there are many pairs of boxes."""
    if dispatch.active_trace() is not None or pairs < LARGE:
        return function(*tensors, *attributes)
    shapes = [tuple(None if i in axes else size for i, size in enumerate(x.shape)) for x, axes in zip(tensors, free, strict=True)]
    kinds = tuple((shape, x.dtype.name) for shape, x in zip(shapes, tensors, strict=True))
    with dispatch.at_once():
        return _program(function, kinds, tuple(attributes))(*tensors)


def nms(
    boxes: Tensor,
    iou_threshold: float = 0.3,
    scores: Tensor | None = None,
    category_idxs: Tensor | None = None,
    categories: Sequence[int] | None = None,
    top_k: int | None = None,
) -> Tensor:
    """The places of the boxes [n, 4] that overlap no better one by more than the threshold, int64, the highest score first.

    Without `scores` the boxes are taken to stand in that order. With `category_idxs` [n] only boxes of the `categories` count, those of
    different categories do not meet, and at most `top_k` stay.
    """
    count = tensor_arg(boxes, "nms", "boxes").type.shape[0]
    if scores is None:
        attributes = {"iou_threshold": float(iou_threshold)}
        made = _operator("nms", {"Boxes": boxes}, lambda rows: {"KeepBoxesIdxs": TensorType((rows,), i64)}, attributes)
        return made[0] if made else _run(plain.kept_boxes, [boxes], [(0,)], count * count, [iou_threshold])
    tensor_arg(scores, "nms", "scores")
    if category_idxs is None:
        return _run(plain.kept_by_score, [boxes, scores], [(0,), (0,)], count * count, [iou_threshold])
    if top_k is not None and isinstance(count, int) and top_k > count:
        raise AssertionError(f"nms expected top_k of at most {count}, the number of boxes, but got {top_k}")
    if categories is None:
        raise AssertionError("nms expected categories, the numbers of all of them, beside category_idxs but got None")
    given = [boxes, scores, tensor_arg(category_idxs, "nms", "category_idxs")]
    return _run(plain.kept_of_classes, given, [(0,)] * 3, count * count, [iou_threshold, tuple(map(int, categories)), top_k])


def matrix_nms(
    bboxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    return_rois_num: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Rows of class, score, x1, y1, x2, y2, the highest score of an image first; how many there are in each image, int32 [images]; and
    where each stands among all boxes, int32 [rows, 1].

    Of boxes [images, boxes, 4] with scores [images, classes, boxes] those above the first threshold count, of each class the `nms_top_k`
    highest. Their scores fall by how far better boxes of their class cover them; the `keep_top_k` highest of an image above
    `post_threshold` stay. -1 is no limit.
    """
    tensor_arg(bboxes, "matrix_nms", "bboxes")
    tensor_arg(scores, "matrix_nms", "scores")
    attributes: dict[str, Any] = {
        "score_threshold": float(score_threshold), "nms_top_k": int(nms_top_k), "keep_top_k": int(keep_top_k),
        "post_threshold": float(post_threshold), "use_gaussian": bool(use_gaussian), "gaussian_sigma": float(gaussian_sigma),
        "background_label": int(background_label), "normalized": bool(normalized),
    }  # fmt: skip

    def outputs(rows: Dim) -> dict[str, TensorType]:
        types = TensorType((rows, 6), bboxes.type.dtype), TensorType((rows, 1), i32), TensorType(scores.type.shape[:1], i32)
        return dict(zip(("Out", "Index", "RoisNum"), types, strict=True))

    made = _operator("matrix_nms", {"BBoxes": bboxes, "Scores": scores}, outputs, attributes)
    images, classes, count = scores.type.shape
    taken = count if nms_top_k < 0 else dims.minimum(count, nms_top_k)
    pairs = images * classes * taken * taken
    rows, places, counts = made or _run(matrix.matrix_nms, [bboxes, scores], [(0, 1), (0, 2)], pairs, list(attributes.values()))
    return rows, counts if return_rois_num else None, places if return_index else None


def generate_proposals(
    scores: Tensor,
    bbox_deltas: Tensor,
    img_size: Tensor,
    anchors: Tensor,
    variances: Tensor,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = False,
    return_rois_num: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Boxes [n, 4], their scores [n, 1], the highest of an image first, and with `return_rois_num` how many each image has, int32.

    `scores` are [images, anchors, height, width], `bbox_deltas` [images, 4 * anchors, height, width], `img_size` heights and widths
    [images, 2], `anchors` and `variances` [height, width, anchors, 4]. The `pre_nms_top_n` highest scores count; of boxes at least
    `min_size` wide and high those stay that overlap no better one by more than the threshold, at most `post_nms_top_n` of them.
    """
    inputs = {"Scores": scores, "BboxDeltas": bbox_deltas, "ImShape": img_size, "Anchors": anchors, "Variances": variances}
    for slot, tensor in inputs.items():
        tensor_arg(tensor, "generate_proposals", slot)
    attributes: dict[str, Any] = {
        "pre_nms_topN": int(pre_nms_top_n), "post_nms_topN": int(post_nms_top_n), "nms_thresh": float(nms_thresh),
        "min_size": float(min_size), "eta": float(eta), "pixel_offset": bool(pixel_offset),
    }  # fmt: skip

    def outputs(rows: Dim) -> dict[str, TensorType]:
        dtype = scores.type.dtype
        types = TensorType((rows, 4), dtype), TensorType((rows, 1), dtype), TensorType(scores.type.shape[:1], i32)
        return dict(zip(("RpnRois", "RpnRoiProbs", "RpnRoisNum"), types, strict=True))

    made = _operator("generate_proposals_v2", inputs, outputs, attributes)
    images, count = scores.type.shape[0], product(scores.type.shape[1:])
    taken = count if pre_nms_top_n <= 0 else dims.minimum(count, pre_nms_top_n)
    axes = [(0, 2, 3), (0, 2, 3), (0,), (0, 1), (0, 1)]
    rois, probabilities, counts = made or _run(
        proposals.generate_proposals, list(inputs.values()), axes, images * taken * taken, list(attributes.values())
    )
    return rois, probabilities, counts if return_rois_num else None


def distribute_fpn_proposals(
    fpn_rois: Tensor,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
    rois_num: Tensor | None = None,
    name: str | None = None,
) -> tuple[list[Tensor], Tensor, list[Tensor] | None]:
    """The regions [n, 4] of each level from `min_level` to `max_level`; where each of `fpn_rois` stands among them, int32 [n, 1]; and of
    each level how many each image has, by `rois_num` [images], None without that.

    Regions as large as `refer_scale` go to `refer_level`, twice as large ones to the next.
    """
    tensor_arg(fpn_rois, "distribute_fpn_proposals", "fpn_rois")
    if not 0 < min_level < max_level < min_level + 99:
        raise AssertionError(
            f"distribute_fpn_proposals expected levels above 0, two to 99 of them, but got those from {min_level} to {max_level}"
        )
    attributes: dict[str, Any] = {
        "min_level": int(min_level), "max_level": int(max_level), "refer_level": int(refer_level), "refer_scale": int(refer_scale),
        "pixel_offset": bool(pixel_offset),
    }  # fmt: skip

    def outputs(rows: Dim) -> dict[str, Any]:
        # How many regions each level has is another size each time, which nobody asks before the program runs.
        count, kind = max_level - min_level + 1, fpn_rois.type
        types: dict[str, Any] = {"MultiFpnRois": [TensorType((symbol(f"{rows}_{i}"), 4), kind.dtype) for i in range(count)]}
        types["RestoreIndex"] = TensorType((kind.shape[0], 1), i32)
        if rois_num is not None:
            types["MultiLevelRoIsNum"] = [TensorType(rois_num.type.shape, i32)] * count
        return types

    made = _operator("distribute_fpn_proposals", {"FpnRois": fpn_rois, "RoisNum": rois_num}, outputs, attributes)
    if made:
        return made[0], made[1], made[2] if rois_num is not None else None
    parts, counts, restore = levels.distribute_fpn_proposals(fpn_rois, rois_num, *attributes.values())
    return parts, restore, counts
