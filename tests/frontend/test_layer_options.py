"""Options of layers are attributes with Paddle's names; what is set there later counts from then on, in compiled calls as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle

nn = paddle.nn
SCORES, CLASSES = [[1.0, 2.0, -3.0], [0.5, -1.0, 0.0]], [0, 2]
IMAGE = np.arange(50, dtype="float32").reshape(1, 2, 5, 5) % 7
ROWS = ([[1.0, 2.0]], [[0.0, 1.0]], [[0.5, -1.0]])
ONES = [[1.0, -1.0]]
# A layer, the attribute, what is set there, the layer that is made so, and inputs.
CASES: list[tuple[Any, str, Any, Any, tuple[Any, ...]]] = [
    (nn.CrossEntropyLoss(), "ignore_index", 2, nn.CrossEntropyLoss(ignore_index=2), (SCORES, CLASSES)),
    (nn.CrossEntropyLoss(), "label_smoothing", 0.2, nn.CrossEntropyLoss(label_smoothing=0.2), (SCORES, CLASSES)),
    (nn.CrossEntropyLoss(), "reduction", "sum", nn.CrossEntropyLoss(reduction="sum"), (SCORES, CLASSES)),
    (nn.NLLLoss(), "_ignore_index", 2, nn.NLLLoss(ignore_index=2), (SCORES, CLASSES)),
    (nn.NLLLoss(), "_reduction", "sum", nn.NLLLoss(reduction="sum"), (SCORES, CLASSES)),
    (nn.KLDivLoss(), "log_target", True, nn.KLDivLoss(log_target=True), (SCORES, SCORES[::-1])),
    (nn.SmoothL1Loss(), "delta", 0.1, nn.SmoothL1Loss(delta=0.1), ROWS[:2]),
    (nn.SmoothL1Loss(delta=0.5), "is_huber", False, nn.SmoothL1Loss(delta=0.5, is_huber=False), ROWS[:2]),
    (nn.MarginRankingLoss(), "margin", 2.0, nn.MarginRankingLoss(2.0), (*ROWS[:2], ONES)),
    (nn.HingeEmbeddingLoss(), "margin", 3.0, nn.HingeEmbeddingLoss(3.0), (ROWS[0], ONES)),
    (nn.CosineEmbeddingLoss(), "margin", 0.3, nn.CosineEmbeddingLoss(0.3), (*ROWS[:2], [-1.0])),
    (nn.TripletMarginLoss(), "margin", 3.0, nn.TripletMarginLoss(3.0), ROWS),
    (nn.TripletMarginLoss(margin=3.0), "swap", True, nn.TripletMarginLoss(margin=3.0, swap=True), ROWS),
    (nn.PoissonNLLLoss(), "_log_input", False, nn.PoissonNLLLoss(log_input=False), (ROWS[0], [[1.0, 2.0]])),
    (nn.LeakyReLU(), "_negative_slope", 0.5, nn.LeakyReLU(0.5), (SCORES,)),
    (nn.Softmax(), "_axis", 0, nn.Softmax(0), (SCORES,)),
    (nn.Softplus(), "_beta", 2, nn.Softplus(2), (SCORES,)),
    (nn.GELU(), "_approximate", True, nn.GELU(True), (SCORES,)),
    (nn.MaxPool2D(2), "ceil_mode", True, nn.MaxPool2D(2, ceil_mode=True), (IMAGE,)),
    (nn.MaxPool2D(2), "kernel_size", 3, nn.MaxPool2D(3), (IMAGE,)),
    (nn.AvgPool2D(3, padding=1), "exclusive", False, nn.AvgPool2D(3, padding=1, exclusive=False), (IMAGE,)),
    (nn.AvgPool2D(2), "divisor", 3, nn.AvgPool2D(2, divisor_override=3), (IMAGE,)),
    (nn.AdaptiveAvgPool1D(1), "output_size", 2, nn.AdaptiveAvgPool1D(2), (IMAGE[0],)),
    (nn.AdaptiveAvgPool2D(1), "_output_size", 2, nn.AdaptiveAvgPool2D(2), (IMAGE,)),
    (nn.AdaptiveMaxPool1D(1), "output_size", 2, nn.AdaptiveMaxPool1D(2), (IMAGE[0],)),
    (nn.AdaptiveMaxPool2D(1), "_output_size", 2, nn.AdaptiveMaxPool2D(2), (IMAGE,)),
    (nn.Pad2D(1), "value", 2.0, nn.Pad2D(1, value=2.0), (IMAGE,)),
    (nn.Pad2D(1), "padding", [2, 0, 0, 1], nn.Pad2D([2, 0, 0, 1]), (IMAGE,)),
    (nn.ChannelShuffle(1), "_groups", 2, nn.ChannelShuffle(2), (IMAGE.reshape(1, 10, 1, 5),)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case[0]).__name__}.{case[1]}")
def test_an_option_that_is_set_later_counts(case: Any) -> None:
    layer, name, value, made, inputs = case
    tensors = [paddle.to_tensor(x) for x in inputs]
    assert vars(layer)[name] is not value  # it is there, by Paddle's name
    before = layer(*tensors).numpy()
    setattr(layer, name, value)
    after = layer(*tensors).numpy()
    assert after.shape != before.shape or not np.allclose(after, before)
    np.testing.assert_array_equal(after, made(*tensors).numpy())
    assert repr(layer) == repr(made)


def test_a_compiled_step_sees_options_that_are_set_later() -> None:
    loss_of = nn.CrossEntropyLoss(weight=paddle.to_tensor([1.0, 2.0, 0.5]))
    layer = nn.LeakyReLU(0.1)
    scores, labels = paddle.to_tensor(SCORES), paddle.to_tensor(CLASSES)

    def loss() -> Any:
        return loss_of(layer(scores), labels)

    compiled = paddle.jit.to_static(loss, full_graph=True)
    seen = []
    for what, name, value in ((layer, "_negative_slope", 0.5), (loss_of, "weight", paddle.to_tensor([3.0, 1.0, 1.0])),
                              (loss_of, "label_smoothing", 0.3), (loss_of, "weight", None)):  # fmt: skip
        seen.append(float(loss()))
        assert float(compiled()) == pytest.approx(seen[-1], rel=1e-6)
        setattr(what, name, value)
    assert len(set(seen)) == 4 and float(compiled()) == pytest.approx(float(loss()), rel=1e-6)


def test_weights_of_losses_are_buffers_that_are_not_saved() -> None:
    weight = paddle.to_tensor([1.0, 2.0, 0.5])
    for loss, name in ((nn.CrossEntropyLoss(weight), "weight"), (nn.BCELoss(weight), "weight"), (nn.NLLLoss(weight), "_weight"),
                       (nn.BCEWithLogitsLoss(pos_weight=weight), "pos_weight")):  # fmt: skip
        assert [n for n, _ in loss.named_buffers()] == [name] and not loss.state_dict()
        assert loss.to(dtype="float64").buffers()[0].dtype == paddle.float64
