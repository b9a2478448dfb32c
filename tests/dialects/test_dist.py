"""The `dist` dialect: one rank is the identity, several combine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import dist
from polyreme.distributed.group import Group
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.text import parse_module
from polyreme.runtime.collectives import LocalGroup

PROGRAM = """
    func @main(%x: tensor<4x3xf32>, %y: tensor<2xf32>)
        -> (tensor<4x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<(RANKS)x2xf32>, tensor<(SHARE)x3xf32>) {
      %p, %q = dist.all_reduce_start %x, %y {reduce = "mean", bucket = 0} : pending<4x3xf32>, pending<2xf32>
      %b = dist.broadcast %y {root = 0} : tensor<2xf32>
      %m, %n = dist.wait %p, %q : tensor<4x3xf32>, tensor<2xf32>
      %g = dist.all_gather %y {ranks = RANKS} : tensor<RANKSx2xf32>
      %s = dist.reduce_scatter %x {ranks = RANKS} : tensor<SHAREx3xf32>
      %t = dist.all_reduce %n {reduce = "max"} : tensor<2xf32>
      return %m, %t, %b, %g, %s
    }"""


def program(ranks: int) -> Any:
    text = (
        PROGRAM.replace("(RANKS)", str(ranks))
        .replace("(SHARE)", str(4 // ranks))
        .replace("RANKS", str(ranks))
        .replace("SHARE", str(4 // ranks))
    )
    return parse_module(text)


def inputs(rank: int) -> list[np.ndarray]:
    return [np.arange(12, dtype=np.float32).reshape(4, 3) * (rank + 1), np.array([1, 2], np.float32) + rank]


def test_one_rank_is_the_identity() -> None:
    x, y = inputs(0)
    for found, wanted in zip(evaluate(program(1), [x, y]), [x, y, y, y[None], x], strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_run_the_same_program_combine_what_they_have(ranks: int) -> None:
    def run(communicator: Any) -> Any:
        with dist.with_group(Group(communicator)):
            return evaluate(program(ranks), inputs(communicator.rank)), list(communicator.history)

    results = LocalGroup(ranks).run(run)
    xs, ys = zip(*(inputs(r) for r in range(ranks)), strict=True)
    for rank, ((mean, largest, first, gathered, share), history) in enumerate(results):
        np.testing.assert_allclose(mean, np.mean(xs, axis=0))
        np.testing.assert_allclose(largest, np.mean(ys, axis=0))
        np.testing.assert_array_equal(first, ys[0])
        np.testing.assert_array_equal(gathered, np.stack(ys))
        np.testing.assert_array_equal(share, np.sum(xs, axis=0)[rank * 4 // ranks : (rank + 1) * 4 // ranks])
        assert [s.kind for s in history] == ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_reduce"]
        assert history[0].detail == "mean of bucket 0, 2 x f32[4x3 2]"


def test_a_program_for_other_ranks_is_refused() -> None:
    with pytest.raises(EvaluateError, match="expected a group of 2 ranks, as when the program was made, but got 1"):
        evaluate(program(2), inputs(0))
