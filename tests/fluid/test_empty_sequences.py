"""Sequences without rows where Paddle 1.8.5 refuses them, ends the process or gives what was in memory: what they mean here.

Where it takes them, `tests/fluid_api/cases_empty.py` compares with it. `REFUSED` says of the others what 1.8.5 does; the report of
`tests/coverage_fluid.py` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme.fluid as fluid
from polyreme.runtime.errors import CallError
from tests.fluid_api.cases_detection import boxes, draw
from tests.fluid_api.cases_layers import attr, fed, given, rows

# Names of `fluid.layers` that take no sequence without rows in 1.8.5, and what it does.
REFUSED = {
    "box_clip": "refuses an image without boxes", "distribute_fpn_proposals": "refuses an image without regions",
    "multiclass_nms": "refuses an image without boxes, which are sequences",
    "row_conv": "refuses a sequence without rows", "rpn_target_assign": "refuses an image without true boxes",
    "retinanet_target_assign": "refuses an image without true boxes",
    "ssd_loss": "refuses an image without true boxes, by bipartite_match",
}  # fmt: skip

AMONG, ENDS, NONE = [2, 0, 3], [0, 2, 0], [0, 0]


def over(function: Callable[..., Any], *feeds: list[Any]) -> list[list[tuple[Any, list[list[int]]]]]:
    """What one program of a function gives for several feeds: values and lengths."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        variables = [given(fluid, value, f"x{i}") for i, value in enumerate(feeds[0])]
        made = function(fluid.layers, *variables)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        exe, found = fluid.Executor(fluid.CPUPlace()), []
        exe.run(fluid.default_startup_program())
        for inputs in feeds:
            feed = {f"x{i}": fed(fluid, np, value) for i, value in enumerate(inputs)}
            values = exe.run(feed=feed, fetch_list=made, return_numpy=False)
            found.append([(np.array(v), v.recursive_sequence_lengths()) for v in values])
        return found


def lengths_without(lengths: list[int]) -> list[int]:
    return [n for n in lengths if n]


def check_like_without(function: Callable[..., Any], inputs: Callable[[list[int]], list[Any]], *lengths: list[int]) -> None:
    """Rows are those that there are without the sequences that have none, and these stay without rows."""
    for n in lengths:
        whole, less = over(function, inputs(n), inputs(lengths_without(n)))
        for (value, found), (expected, others) in zip(whole, less, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-6)
            at = iter(others[-1])
            assert found[-1] == [next(at) if size else 0 for size in n]


@pytest.mark.parametrize("kind", ["sum", "average", "sqrt", "max", "first", "last"])
def test_a_pool_of_fewer_rows_than_sequences_has_the_filler(kind: str) -> None:
    def pooled(layers: Any, x: Any) -> Any:
        return layers.sequence_pool(x, kind, pad_value=0.5)

    feeds = [[rows(np, [n], 2)] for n in (ENDS, NONE)]
    ((ends, _),), ((none, _),) = over(pooled, *feeds)
    x = feeds[0][0][0]
    way = {"sum": x.sum(0), "average": x.mean(0), "sqrt": x.sum(0) / np.sqrt(2), "max": x.max(0), "first": x[0], "last": x[-1]}
    np.testing.assert_allclose(ends, [[0.5, 0.5], way[kind], [0.5, 0.5]], rtol=1e-6)
    np.testing.assert_array_equal(none, np.full((2, 2), 0.5, "float32"))


def test_sequences_that_are_all_without_rows_keep_that() -> None:
    def all_of_them(layers: Any, x: Any) -> list[Any]:
        filler = layers.assign(np.array([0.5], "float32"))
        padded, size = layers.sequence_pad(x, filler, 4)
        return [
            layers.sequence_concat([x, x]), layers.sequence_reverse(x), layers.sequence_unpad(padded, size),
            layers.sequence_conv(x, 3, 3), layers.row_conv(x, 2), layers.dynamic_lstm(layers.fc(x, 8), 8)[0],
            layers.dynamic_gru(layers.fc(x, 6), 2), layers.sequence_expand(x, x, 0), layers.sequence_pad(x, filler)[0], padded, size,
        ]  # fmt: skip

    (some, none) = over(all_of_them, [rows(np, [AMONG], 2)], [rows(np, [NONE], 2)])
    assert [found[-1] for _, found in some[:7]] == [[4, 0, 6]] + [[2, 0, 3]] * 6
    assert [found[-1] for _, found in none[:7]] == [[0, 0]] * 7
    assert [value.shape for value, _ in none] == [
        (0, 2), (0, 2), (0, 2), (0, 3), (0, 2), (0, 2), (0, 2), (0, 2), (2, 0, 2), (2, 4, 2), (2,)]
    assert none[7][1] == [[]]  # each of them as often as it has rows
    np.testing.assert_array_equal(none[9][0], np.full((2, 4, 2), 0.5, "float32"))


def test_rows_of_sequences_do_not_see_those_that_have_none() -> None:
    def conv(layers: Any, x: Any) -> Any:
        return layers.row_conv(x, 2, attr(fluid, np, "roww", 3, 2))

    check_like_without(conv, lambda n: [rows(np, [n], 2)], AMONG, ENDS)


def test_first_states_of_sequences_without_rows_have_no_gradient() -> None:
    def slopes(layers: Any, x: Any, h: Any, c: Any) -> list[Any]:
        made, _ = layers.dynamic_lstm(x, 8, h, c)
        return list(fluid.gradients(layers.reduce_sum(layers.square(made)), [h, c]))

    ((of_h, _), (of_c, _)) = over(slopes, [rows(np, [AMONG], 8), draw(np, 3, 2), draw(np, 3, 2, seed=1)])[0]
    for slope in (of_h, of_c):
        assert not slope[1].any() and slope[0].all() and slope[2].all()


def test_sequences_without_rows_have_a_rank() -> None:
    def ranked(layers: Any, x: Any, y: Any) -> Any:
        return layers.reorder_lod_tensor_by_rank(x, layers.control_flow.lod_rank_table(y))

    x = rows(np, [AMONG], 2)
    ((found, lengths),) = over(ranked, [x, rows(np, [[1, 3, 2]], 1)])[0]
    np.testing.assert_array_equal(found, x[0][[2, 3, 4, 0, 1]])
    assert lengths == [[0, 3, 2]]


def test_static_inputs_of_a_dynamic_rnn_may_have_no_rows() -> None:
    def stepped(layers: Any, x: Any, y: Any) -> Any:
        net = layers.DynamicRNN()
        with net.block():
            now, other = net.step_input(x), net.static_input(y)
            memory = net.memory(shape=[2], value=0.1)
            after = layers.elementwise_add(layers.elementwise_add(now, memory), layers.sequence_pool(other, "sum"))
            net.update_memory(memory, after)
            net.output(after)
        return net()

    x, y = rows(np, [[2, 1, 3]], 2), rows(np, [AMONG], 2, seed=1)
    ((found, _),) = over(stepped, [x, y])[0]
    sums = np.stack([y[0][:2].sum(0), np.zeros(2, "float32"), y[0][2:].sum(0)])
    expected = np.concatenate([np.cumsum(part + add, 0) + 0.1 for part, add in zip(np.split(x[0], [2, 3]), sums, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_no_steps_cost_nothing_where_there_is_no_label() -> None:
    """1.8.5 says inf of these, whose only alignment is sure, and has nan for a gradient."""

    def cost(layers: Any, x: Any, y: Any) -> list[Any]:
        found = [layers.warpctc(x, y), layers.warpctc(x, y, norm_by_times=True)]
        return [*found, *[fluid.gradients(layers.reduce_sum(v), x)[0] for v in found]]

    def labelled(n: list[int]) -> list[Any]:
        few = [min(k, 1) for k in n]
        return [rows(np, [n], 4), (np.ones((sum(few), 1), "int32"), [few])]

    for n, found in zip((AMONG, NONE), over(cost, labelled(AMONG), labelled(NONE)), strict=True):
        plain, normed, slope, share = (value for value, _ in found)
        np.testing.assert_allclose(plain, normed, rtol=1e-6)
        assert [bool(v) for v in plain.ravel()] == [k > 0 for k in n]
        np.testing.assert_allclose(share, slope / np.repeat(n, n)[:, None], rtol=1e-5)


def test_distances_to_nothing_have_no_share() -> None:
    def distance(layers: Any, x: Any, y: Any) -> Any:
        return layers.edit_distance(x, y)[0]

    some, none = (np.ones((2, 1), "int64"), [[1, 1]]), (np.ones((1, 1), "int64"), [[1, 0]])
    with pytest.raises(CallError, match=r"rows at .*:\d+.*, since edit_distance expected labels with tokens, .*, from 0 to 0 but computed"):
        over(distance, [some, none])


def test_labels_of_no_step_at_all_are_one_row() -> None:
    ((found, _),) = over(lambda layers, x: layers.ctc_greedy_decoder(x, 0), [rows(np, [NONE], 4)])[0]
    np.testing.assert_array_equal(found, [[-1]])


def test_a_search_may_end_in_nothing() -> None:
    levels = [[1, 1], [0, 0]]
    nothing, words = (np.zeros((0, 1), "int64"), levels), (np.zeros((0, 4), "int64"), levels)

    def searched(layers: Any, before: Any, old: Any, chosen: Any, shares: Any) -> list[Any]:
        return list(layers.beam_search(before, old, chosen, shares, 3, 1))

    scores = [(value.astype("float32"), levels) for value, _ in (nothing, words)]
    for value, lengths in over(searched, [nothing, scores[0], words, scores[1]])[0]:
        assert value.shape == (0, 1) and lengths == [[0, 0], []]


def test_boxes_are_clipped_to_their_images() -> None:
    info = np.array([[20, 30, 1.5], [40, 16, 1], [9.2, 7, 0.7]], "float32")
    given_boxes = (boxes(np, 5, size=60) - 10, [AMONG])
    ((found, lengths),) = over(lambda layers, x, i: layers.box_clip(x, i), [given_boxes, info])[0]
    ends = np.round(info[:, :2] / info[:, 2:])[:, ::-1] - 1
    limit = np.tile(np.repeat(ends, AMONG, 0), (1, 2))
    np.testing.assert_allclose(found, np.clip(given_boxes[0], 0, limit), rtol=1e-6)
    assert lengths == [AMONG]


def test_images_without_true_boxes_match_nothing() -> None:
    def matched(layers: Any, x: Any, y: Any, z: Any) -> list[Any]:
        found, distance = layers.bipartite_match(layers.iou_similarity(x, y), "per_prediction", 0.2)
        return [found, distance, *layers.target_assign(z, found, mismatch_value=7)]

    def inputs(n: list[int]) -> list[Any]:
        return [(boxes(np, sum(n)), [n]), boxes(np, 5, seed=1), (draw(np, sum(n), 5, 4), [n])]

    whole, less, none = over(matched, inputs(AMONG), inputs(lengths_without(AMONG)), inputs(NONE))
    for (value, _), (expected, _) in zip(whole, less, strict=True):
        np.testing.assert_array_equal(value[[0, 2]], expected)
    for found, image in ((whole, [1]), (none, [0, 1])):
        match, distance, targets, weights = (value[image] for value, _ in found)
        assert (match == -1).all() and not distance.any() and (targets == 7).all() and not weights.any()


def test_images_without_true_boxes_cost_by_their_background_alone() -> None:
    priors = boxes(np, 12, seed=1)

    def cost(layers: Any, x: Any, y: Any, b: Any, c: Any) -> Any:
        return layers.ssd_loss(x, y, b, c, layers.assign(priors), [0.1, 0.1, 0.2, 0.2], normalize=False)

    def inputs(n: list[int], chosen: list[int]) -> list[Any]:
        said, scores = draw(np, 3, 12, 4)[chosen], draw(np, 3, 12, 4, seed=1)[chosen]
        classes = np.array([1, 2, 1, 3, 2][: sum(n)], "int32").reshape(-1, 1)
        return [said, scores, (boxes(np, sum(n), seed=2), [n]), (classes, [n])]

    ((whole, _),), ((less, _),) = over(cost, inputs(AMONG, [0, 1, 2]), inputs(lengths_without(AMONG), [0, 2]))
    np.testing.assert_allclose(whole[[0, 2]], less, rtol=1e-5)
    assert whole[1] == 0  # as many of the background as three times the boxes that were matched


def test_images_without_regions_have_none_on_each_level() -> None:
    def spread(layers: Any, x: Any) -> list[Any]:
        parts, order = layers.distribute_fpn_proposals(x, 2, 3, 3, 60)
        return [*parts, order]

    some = boxes(np, 5, seed=2)
    some[:, 2:] = some[:, :2] + np.array([[40], [100], [40], [100], [40]], "float32")
    whole, less, none = over(spread, *[[(some[: sum(n)], [n])] for n in (AMONG, lengths_without(AMONG), NONE)])
    for (value, _), (expected, _) in zip(whole, less, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert [found for _, found in whole[:2]] == [[[1, 0, 2]], [[1, 0, 1]]]
    assert [found for _, found in none[:2]] == [[[0, 0]]] * 2 and [len(value) for value, _ in none] == [0, 0, 0]


def test_collected_regions_stay_with_their_images() -> None:
    """1.8.5 gives the first region behind an image without any to that image."""

    def collected(layers: Any, a: Any, b: Any, s: Any, t: Any) -> Any:
        return layers.collect_fpn_proposals([a, b], [s, t], 2, 3, 4)

    def inputs(n: list[int]) -> list[Any]:
        return [(boxes(np, sum(n), seed=2), [n]), (boxes(np, sum(n), seed=3), [n]), rows(np, [n], 1), rows(np, [n], 1, seed=4)]

    check_like_without(collected, inputs, AMONG, ENDS)


def true_boxes(n: list[int], chosen: list[int]) -> list[Any]:
    crowd = np.zeros((sum(n), 1), "int32")
    info = np.array([[50, 60, 1.0], [40, 55, 1.5], [60, 44, 0.8]], "float32")[chosen]
    return [(boxes(np, sum(n), seed=2, size=50.0), [n]), (crowd, [n]), info]


@pytest.mark.parametrize("name", ["rpn", "retinanet"])
def test_anchors_of_images_without_true_boxes_are_background(name: str) -> None:
    anchors = boxes(np, 30, seed=5, size=60.0) - 4

    def assigned(layers: Any, said: Any, scores: Any, true: Any, crowd: Any, info: Any) -> list[Any]:
        anchor, numbers = layers.assign(anchors), (256, -1.0)
        if name == "rpn":
            scores = layers.slice(scores, [2], [0], [1])
            made = layers.rpn_target_assign(said, scores, anchor, anchor, true, crowd, info, *numbers, use_random=False)
        else:
            classes = layers.elementwise_add(crowd, layers.fill_constant([1], "int32", 2))
            made = layers.retinanet_target_assign(said, scores, anchor, anchor, true, classes, crowd, info, 3)
        return list(made[:4])

    def inputs(n: list[int], chosen: list[int]) -> list[Any]:
        return [draw(np, 3, 30, 4)[chosen], draw(np, 3, 30, 3, seed=1)[chosen], *true_boxes(n, chosen)]

    whole, less, none = over(assigned, inputs(AMONG, [0, 1, 2]), inputs(lengths_without(AMONG), [0, 2]), inputs(NONE, [0, 1]))
    labels, starts = whole[2][0].ravel(), np.cumsum([0, *whole[2][1][-1]])
    assert whole[2][1][-1][1] == 30 and not labels[starts[1] : starts[2]].any()
    for value, expected in ((whole[i][0], less[i][0]) for i in (1, 3)):
        np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert none[2][1] == [[30, 30]] and not none[2][0].any() and len(none[3][0]) == 0


def test_regions_of_images_without_true_boxes_are_background() -> None:
    def labelled(layers: Any, *given: Any) -> list[Any]:
        return list(layers.generate_proposal_labels(*given, class_nums=4, use_random=False))

    def inputs(n: list[int]) -> list[Any]:
        counts, (true, crowd, info) = [k + 4 for k in n], true_boxes(n, list(range(len(n))))
        return [(boxes(np, sum(counts), seed=8, size=45.0), [counts]), (crowd[0] + 2, [n]), crowd, true, info]

    for n, found in zip((AMONG, NONE), over(labelled, inputs(AMONG), inputs(NONE)), strict=True):
        sizes = found[0][1][-1]
        assert [sizes[i] for i, k in enumerate(n) if not k] == [4] * n.count(0)
        image = np.repeat(np.array(n), sizes)
        assert not found[1][0][image == 0].any() and not found[3][0][image == 0].any()


def test_boxes_as_sequences_are_chosen_image_by_image() -> None:
    def chosen(layers: Any, b: Any, s: Any) -> Any:
        return layers.multiclass_nms(b, s, 0.01, 10, 7, normalized=False)

    def inputs(n: list[int]) -> list[Any]:
        return [(boxes(np, sum(n), 3) * 20, [n]), (draw(np, sum(n), 3, low=0, high=1), [n])]

    check_like_without(chosen, inputs, AMONG, ENDS)
    ((none, _),) = over(chosen, inputs(NONE))[0]
    np.testing.assert_array_equal(none, [[-1]])
