"""Boxes of the truth and priors: how far they overlap, which are matched, what is to be learned of them."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.boxes import matching
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.nn import functional
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import REQUIRED, operator, spelled
from polyreme.tensor import Tensor


def _offsets(levels: list[Tensor] | None, x: Tensor) -> Tensor:
    """Those of the last level; of a tensor without levels, which is of one image, the offsets of that."""
    if levels:
        return levels[-1]
    return math.concat([math.zeros([1], "int64"), dispatch.full((1,), x.type.shape[0], i64)], 0)


@operator(legacy=spelled("iou_similarity", {"X": "x", "Y": "y"}))
def iou_similarity(x: Tensor, y: Tensor, *, box_normalized: bool = True) -> Tensor:
    return matching.overlaps(x, y, box_normalized)


@operator(
    legacy=spelled(
        "bipartite_match", {"DistMat": "distances", "DistMat@LOD": "levels"}, "ColToRowMatchIndices ColToRowMatchDist",
    )
)  # fmt: skip
def bipartite_match(
    distances: Tensor, levels: list[Tensor] | None = None, *, match_type: str = "bipartite", dist_threshold: float = 0.5
) -> tuple[Tensor, Tensor]:
    """The row of each column, int32 [images, columns], and how near they are."""
    if match_type not in ("bipartite", "per_prediction"):
        raise UnsupportedError(f"expected the match_type 'bipartite' or 'per_prediction' but got {match_type!r}")
    if distances.ndim != 2:
        raise UnsupportedError(f"expected distances [rows, columns] but got the shape {list(distances.shape)}")
    return matching.bipartite_match(distances, _offsets(levels, distances), match_type == "per_prediction", dist_threshold)


_ASSIGNED = {"X": "x", "MatchIndices": "matched", "NegIndices": "negative", "X@LOD": "levels", "NegIndices@LOD": "negative_levels"}


@operator(legacy=spelled("target_assign", _ASSIGNED, "Out OutWeight Out@LOD", attributes={"mismatch_value": "otherwise"}))
def target_assign(
    x: Tensor,
    matched: Tensor,
    negative: Tensor | None = None,
    levels: list[Tensor] | None = None,
    negative_levels: list[Tensor] | None = None,
    *,
    otherwise: int = 0,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """What each column is to be, [images, columns, K], and its weight, [images, columns, 1]."""
    if x.ndim != 3 or not levels:
        raise UnsupportedError(f"expected sequences of rows [columns, K] as 'X' of 'target_assign' but got the shape {list(x.shape)}")
    ends = None if negative is None else _offsets(negative_levels, negative)
    return *matching.target_assign(x, matched, levels[-1], negative, ends, otherwise), []


@operator(
    legacy=spelled(
        "mine_hard_examples",
        {"ClsLoss": "loss", "LocLoss": "loc_loss", "MatchIndices": "matched", "MatchDist": "near"},
        "NegIndices UpdatedMatchIndices NegIndices@LOD",
    )
)
def mine_hard_examples(
    loss: Tensor,
    loc_loss: Tensor | None = None,
    matched: Tensor = REQUIRED,
    near: Tensor = REQUIRED,
    *,
    neg_pos_ratio: float = 1.0,
    neg_dist_threshold: float = 0.5,
    sample_size: int = 0,
    mining_type: str = "max_negative",
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Columns of background that are to be learned, a sequence for each image, and the matches as they were."""
    if mining_type != "max_negative":
        raise UnsupportedError(f"expected the mining_type 'max_negative' but got {mining_type!r}")
    columns, offsets = matching.mine_hard_examples(loss.detach(), matched, near, neg_pos_ratio, neg_dist_threshold)
    return columns, matched, [offsets]


@operator(legacy=spelled("sigmoid_focal_loss", {"X": "x", "Label": "label", "FgNum": "count"}, constant="Label FgNum"))
def sigmoid_focal_loss(x: Tensor, label: Tensor, count: Tensor, *, gamma: float = 2.0, alpha: float = 0.25) -> Tensor:
    """The focal loss of scores [n, classes]: of the class `label` - 1 that of a hit, of others that of a miss, 0 where the label is -1;
    divided by the number of boxes that are none of the background.
    """
    dtype = x.type.dtype
    number = math.maximum(math.cast(math.reshape(count, [1]), dtype), dispatch.full((), 1, dtype))
    classes = dispatch.call(nn.Iota, shape=(1, x.type.shape[1]), axis=1, dtype=label.type.dtype)
    label = math.reshape(label, [-1, 1])
    hit = math.equal(classes + dispatch.full((), 1, label.type.dtype), label)
    passed = math.equal(label, dispatch.full((), -1, label.type.dtype))
    share, none = functional.sigmoid(x), dispatch.full((), 0, dtype)
    right = math.scale(math.pow(1.0 - share, gamma) * functional.log_sigmoid(x), -float(np.float32(alpha)))
    wrong = math.scale(math.pow(share, gamma) * functional.softplus(x), 1.0 - float(np.float32(alpha)))
    return math.where(passed, none, math.where(hit, right, wrong)) / number
