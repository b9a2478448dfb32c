"""Operators that Paddle 3 has no more: what Paddle 1.8.5 gave for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import polyreme as paddle
from polyreme.operators.table import apply_legacy

X = np.array([[0.5, -1.5], [2.0, 0.25]], "float32")
CHANCES = np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]], "float32")


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, "float32")


class Case(NamedTuple):
    type: str
    inputs: dict[str, np.ndarray[Any, Any]]
    attributes: dict[str, Any]
    slot: str
    expected: Any


CASES = [
    Case("clip_by_norm", {"X": X}, {"max_norm": 1.0}, "Out", [[0.19518, -0.58554], [0.78072, 0.09759]]),
    Case("clip_by_norm", {"X": X}, {"max_norm": 10.0}, "Out", X),
    Case("hinge_loss", {"Logits": floats(0.3, -0.8, 1.5)[:, None], "Labels": floats(1, 0, 0)[:, None]}, {}, "Loss", [[0.7], [0.2], [2.5]]),
    Case("smooth_l1_loss", {"X": X, "Y": np.array([[0, -1], [0, 1]], "float32")}, {"sigma": 2.0}, "Out", [[0.75], [2.5]]),
    Case("smooth_l1_loss", {"X": X, "Y": np.array([[0, -1], [0, 1]], "float32")}, {"sigma": 2.0}, "Diff", [[0.5, -0.5], [2.0, -0.75]]),
    Case("isfinite", {"X": floats(1, np.inf)}, {}, "Out", [False]),
    Case("isfinite", {"X": floats(1, 2)}, {}, "Out", [True]),
    Case("isinf", {"X": floats(1, np.inf)}, {}, "Out", [True]),
    Case("isnan", {"X": floats(1, np.nan)}, {}, "Out", [True]),
    Case("one_hot", {"X": np.array([[1], [0], [3]])}, {"depth": 4}, "Out", np.eye(4)[[1, 0, 3]]),
    Case("cross_entropy", {"X": CHANCES, "Label": np.array([[1], [2]])}, {}, "Y", [[0.356675], [0.9162907]]),
    Case(
        "cross_entropy", {"X": CHANCES, "Label": np.array([[0, 1, 0], [0.5, 0, 0.5]], "float32")}, {"soft_label": True}, "Y",
        [[0.356675], [1.0601318]],
    ),  # fmt: skip
    Case("cross_entropy2", {"X": CHANCES, "Label": np.array([[1], [2]])}, {}, "Y", [[0.356675], [0.9162907]]),
    Case("expand", {"X": X}, {"expand_times": [2, 1]}, "Out", np.tile(X, (2, 1))),
    Case("expand_as", {"X": X, "target_tensor": np.zeros((4, 4), "float32")}, {}, "Out", np.tile(X, (2, 2))),
]


@pytest.mark.parametrize("case", CASES, ids=[case.type for case in CASES])
def test_an_older_operator_gives_what_paddle_gave(case: Case) -> None:
    made = apply_legacy(case.type, {slot: [paddle.to_tensor(array)] for slot, array in case.inputs.items()}, case.attributes)
    found = made[case.slot][0].numpy()
    assert found.shape == np.shape(case.expected)
    np.testing.assert_allclose(found, case.expected, rtol=1e-5)
