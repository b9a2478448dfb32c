"""What networks that propose regions learn of images without true boxes, of which Paddle 1.8.5 refuses some and ends at others."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import fluid
from tests.fluid.running import run, start

ANCHORS = np.array([[0, 0, 9, 9], [10, 0, 19, 9], [0, 10, 9, 19], [10, 10, 19, 19]], "float32")


def _fed(values: Any, lengths: list[int], dtype: str = "float32") -> Any:
    return fluid.create_lod_tensor(np.array(values, dtype), [lengths], fluid.CPUPlace())


def _inputs() -> tuple[Any, ...]:
    said, scores = fluid.data("said", [None, 4, 4]), fluid.data("scores", [None, 4, 1])
    true, crowd = fluid.layers.data("true", [4], lod_level=1), fluid.layers.data("crowd", [1], dtype="int32", lod_level=1)
    return said, scores, true, crowd, fluid.data("info", [None, 3])


def _feed(boxes: list[list[float]], crowd: list[int], lengths: list[int]) -> dict[str, Any]:
    count = len(lengths)
    return {
        "said": np.zeros((count, 4, 4), "float32"), "scores": np.arange(4 * count, dtype="float32").reshape(count, 4, 1),
        "true": _fed(np.reshape(boxes, (-1, 4)), lengths), "crowd": _fed(np.reshape(crowd, (-1, 1)), lengths, "int32"),
        "info": np.array([[20, 20, 1]] * count, "float32"),
    }  # fmt: skip


def _values(fetch: Any, feed: dict[str, Any]) -> list[Any]:
    return [np.array(value) for value in run(list(fetch), feed, return_numpy=False)]


def test_an_image_without_boxes_is_background() -> None:
    said, scores, true, crowd, info = _inputs()
    anchors = fluid.layers.assign(ANCHORS)
    made = fluid.layers.rpn_target_assign(said, scores, anchors, anchors, true, crowd, info, 4, use_random=False)
    start()
    for boxes, crowds, lengths in (
        ([[0, 0, 9, 9]], [0], [1, 0]), ([[0, 0, 9, 9]], [0], [1, 0]), ([[0, 0, 9, 9], [1, 1, 5, 5]], [0, 1], [1, 1])
    ):  # fmt: skip
        found = _values(made, _feed(boxes, crowds, lengths))
        assert found[2].ravel().tolist() == [1, 0, 0, 0, 0, 0, 0, 0] and found[0].ravel().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
        assert found[3].shape == (1, 4) and (found[3] == 0).all() and (found[4] == 1).all()
    nothing = _values(made, _feed([], [], [0, 0]))
    assert (nothing[2] == 0).all() and nothing[2].shape == (8, 1) and nothing[3].shape == (0, 4)


def test_a_batch_in_which_nothing_is_chosen_has_no_regions() -> None:
    regions, true = (fluid.layers.data(name, [4], lod_level=1) for name in ("regions", "true"))
    classes, crowd = (fluid.layers.data(name, [1], dtype="int32", lod_level=1) for name in ("classes", "crowd"))
    info = fluid.data("info", [None, 3])
    made = fluid.layers.generate_proposal_labels(
        regions, classes, crowd, true, info, class_nums=3, bg_thresh_lo=0.1, use_random=False
    )
    start()
    feed = {
        "regions": _fed(ANCHORS, [3, 1]), "true": _fed(np.zeros((0, 4)), [0, 0]), "classes": _fed(np.zeros((0, 1)), [0, 0], "int32"),
        "crowd": _fed(np.zeros((0, 1)), [0, 0], "int32"), "info": np.array([[20, 20, 1]] * 2, "float32"),
    }  # fmt: skip
    assert [v.shape for v in _values(made, feed)] == [(0, 4), (0, 1), (0, 12), (0, 12), (0, 12)]
