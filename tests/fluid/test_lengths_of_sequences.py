"""Losses over sequences are compiled once for all patterns of lengths, and are those of the definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from polyreme import fluid

layers = fluid.layers
PATTERNS = ([2, 3, 1], [1, 1, 4], [5, 0, 2], [3, 3, 3])
RNG = np.random.default_rng(3)


def _sequences(array: Any, lengths: list[int]) -> Any:
    return fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())


def _cost_of_all_ways(scores: Any, labels: Any, weights: Any) -> float:
    """-log of the share of a way through the labels among all ways."""
    def weight(way: Any) -> float:
        pairs = itertools.pairwise(way)
        inside = sum(weights[2 + a, b] for a, b in pairs) + sum(scores[i, label] for i, label in enumerate(way))
        return float(inside + weights[0, way[0]] + weights[1, way[-1]])

    ways = itertools.product(range(scores.shape[1]), repeat=len(labels))
    return float(np.log(sum(np.exp(weight(way)) for way in ways)) - weight(labels))


def test_a_random_field_is_compiled_once_and_counts_all_ways() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = layers.data("x", [3], dtype="float32", lod_level=1)
        y = layers.data("y", [1], dtype="int64", lod_level=1)
        cost = layers.linear_chain_crf(x, y, fluid.ParamAttr(name="crfw"))
        fluid.optimizer.SGD(0.1).minimize(layers.mean(cost))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for lengths in PATTERNS:
            weights = np.array(fluid.global_scope().find_var("crfw").get_tensor()).astype("float64")
            scores, labels = RNG.normal(size=(sum(lengths), 3)).astype("float32"), RNG.integers(0, 3, (sum(lengths), 1))
            found = exe.run(main, feed={"x": _sequences(scores, lengths), "y": _sequences(labels, lengths)}, fetch_list=[cost])[0]
            ends = np.cumsum(lengths)
            told = [
                _cost_of_all_ways(scores[end - n : end].astype("float64"), labels[end - n : end, 0], weights) if n else 0.0
                for n, end in zip(lengths, ends, strict=True)
            ]
            np.testing.assert_allclose(found[:, 0], told, rtol=1e-5, atol=1e-5)
        assert len(main.plans) == 1


def test_distances_and_alignments_are_compiled_once() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = layers.data("x", [4], dtype="float32", lod_level=1)
        y = layers.data("y", [1], dtype="int64", lod_level=1)
        best = layers.ctc_greedy_decoder(x, blank=0)
        distance, count = layers.edit_distance(best, y, normalized=False)
        loss = layers.warpctc(x, layers.cast(y, "int32"))
        exe = fluid.Executor(fluid.CPUPlace())
        for lengths, others in ((PATTERNS[0], [1, 2, 1]), (PATTERNS[1], [1, 1, 2]), (PATTERNS[3], [2, 3, 1])):
            scores, labels = RNG.normal(size=(sum(lengths), 4)).astype("float32"), RNG.integers(1, 4, (sum(others), 1))
            feed = {"x": _sequences(scores, lengths), "y": _sequences(labels, others)}
            far, sequences, cost = exe.run(main, feed=feed, fetch_list=[distance, count, loss])
            assert sequences.tolist() == [3] and (cost > 0).any()
            for i in range(3):
                a = [k for k, _ in itertools.groupby(scores[sum(lengths[:i]) : sum(lengths[: i + 1])].argmax(1)) if k]
                assert far[i, 0] == _distance(a, labels[sum(others[:i]) : sum(others[: i + 1]), 0])
        # One where labels and steps are as many, as was thought, and one where they are not.
        assert len(main.plans) <= 2


def _distance(a: Any, b: Any) -> int:
    """How many words have to change to make `a` of `b`."""
    before = list(range(len(b) + 1))
    for i, word in enumerate(a):
        now = [i + 1]
        for j, other in enumerate(b):
            now.append(min(before[j] + (word != other), before[j + 1] + 1, now[j] + 1))
        before = now
    return before[-1]
