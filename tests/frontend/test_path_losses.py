"""CTC against all alignments, hierarchical sigmoids against all paths, and both compiled."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.jit.capture.trace import UnknownSizeError
from polyreme.static import InputSpec

F = paddle.nn.functional
RNG = np.random.default_rng(4)


def scores(*shape: int) -> Any:
    x = paddle.to_tensor(RNG.normal(size=shape).astype(np.float32))
    x.stop_gradient = False
    return x


def collapsed(alignment: tuple[int, ...]) -> list[int]:
    """Repeated labels once, then without blanks."""
    return [label for label, _ in itertools.groupby(alignment) if label != 0]


@pytest.mark.parametrize("label", [[1, 2], [1, 1], [2], [], [2, 1, 2]], ids=str)
def test_ctc_sums_the_probabilities_of_all_alignments_that_read_as_the_label(label: list[int]) -> None:
    x, steps = scores(4, 1, 3), 4
    logs = F.log_softmax(x, -1).numpy()[:, 0].astype(np.float64)
    told = [a for a in itertools.product(range(3), repeat=steps) if collapsed(a) == label]
    wanted = -np.log(sum(np.exp(sum(logs[t, c] for t, c in enumerate(a))) for a in told))
    padded = paddle.to_tensor([[*label, *[7] * (3 - len(label))]], dtype="int32")
    found = F.ctc_loss(x, padded, paddle.to_tensor([steps]), paddle.to_tensor([len(label)]), reduction="none")
    np.testing.assert_allclose(found.numpy(), [wanted], rtol=1e-5)


def test_the_gradient_of_ctc_is_that_of_differences() -> None:
    values = RNG.normal(size=(5, 2, 3))
    rest = paddle.to_tensor([[1, 1], [2, 0]]), paddle.to_tensor([5, 3]), paddle.to_tensor([2, 1])
    x = paddle.to_tensor(values, stop_gradient=False)
    F.ctc_loss(x, *rest, reduction="sum").backward()
    direction = RNG.normal(size=values.shape)
    up, down = (float(F.ctc_loss(paddle.to_tensor(values + s * direction), *rest, reduction="sum")) for s in (1e-5, -1e-5))
    np.testing.assert_allclose((x.grad.numpy() * direction).sum(), (up - down) / 2e-5, rtol=1e-7)
    assert not x.grad.numpy()[3:, 1].any()


def test_compiled_ctc_gives_what_eager_ctc_gives_for_any_batch() -> None:
    labels = np.array([[1, 2], [2, 0], [1, 1]], np.int32)
    spec = [
        InputSpec([4, "N", 3], "float32"), InputSpec(["N", 2], "int32"), InputSpec(["N"], "int64"), InputSpec(["N"], "int64")
    ]  # fmt: skip
    compiled = paddle.jit.to_static(paddle.nn.CTCLoss(), input_spec=spec, full_graph=True)

    def run(loss: Any, batch: int) -> list[Any]:
        x = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, batch, 3)).astype(np.float32), stop_gradient=False)
        lengths = np.array([4, 3, 4])[:batch], np.array([2, 1, 2])[:batch]
        y = loss(x, paddle.to_tensor(labels[:batch]), *map(paddle.to_tensor, lengths))
        y.backward()
        return [y.numpy(), x.grad.numpy()]

    for batch in (2, 3):
        for found, wanted in zip(run(compiled, batch), run(paddle.nn.CTCLoss(), batch), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_ctc_of_any_number_of_steps_is_compiled_once_and_one_of_classes_must_be_known() -> None:
    def compiled(steps: Any, classes: Any) -> Any:
        kinds = (([steps, 2, classes], "float32"), ([2, 2], "int32"), ([2], "int64"), ([2], "int64"))
        return paddle.jit.to_static(paddle.nn.CTCLoss(), input_spec=[InputSpec(*kind) for kind in kinds])

    loss, labels = compiled(None, 3), paddle.ones([2, 2], "int32")
    for steps in (1, 4, 6):
        arguments = scores(steps, 2, 3), labels, paddle.full([2], steps, "int64"), paddle.ones([2], "int64")
        assert abs(float(loss(*arguments)) - float(F.ctc_loss(*arguments))) < 1e-5
    with pytest.raises(UnknownSizeError, match="known number of classes .*; give the size a number in the InputSpec"):
        compiled(4, None).forward.trace()


@pytest.mark.parametrize("classes", [2, 5, 8])
def test_the_probabilities_of_all_classes_of_a_hierarchical_sigmoid_sum_to_one(classes: int) -> None:
    weight, bias = scores(classes - 1, 3), scores(classes - 1, 1)
    x = paddle.expand(scores(1, 3), [classes, 3])
    loss = F.hsigmoid_loss(x, paddle.arange(classes), classes, weight, bias).numpy()[:, 0]
    # Places that a way leaves empty count log 2.
    longest = (classes - 1).bit_length()
    empty = np.array([longest - ((classes + c).bit_length() - 1) for c in range(classes)])
    np.testing.assert_allclose(np.exp(-(loss - empty * np.log(2))).sum(), 1, rtol=1e-5)


def test_a_compiled_hierarchical_sigmoid_learns_as_the_eager_one_does() -> None:
    def run(compiled: bool) -> list[Any]:
        paddle.seed(2)
        layer = paddle.nn.HSigmoidLoss(3, 5)
        run = paddle.jit.to_static(layer) if compiled else layer
        x = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
        run(x, paddle.to_tensor([[0], [4], [2], [1]])).sum().backward()
        return [layer.weight.grad.numpy(), layer.bias.grad.numpy()]

    for found, wanted in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_losses_over_paths_say_what_is_wrong() -> None:
    x, labels, lengths = scores(4, 2, 3), paddle.to_tensor([[1], [2]]), paddle.to_tensor([4, 4])
    with pytest.raises(ValueError, match=r"ctc_loss expected 'labels' of 2 axes but got shape"):
        F.ctc_loss(x, lengths, lengths, lengths)
    with pytest.raises(ValueError, match=r"expected a blank in \[0, 3\) but got 3"):
        F.ctc_loss(x, labels, lengths, lengths, blank=3)
    with pytest.raises(IndexError, match=r"hsigmoid_loss expected labels in \[0, 3\) but got values from 1 to 3"):
        F.hsigmoid_loss(scores(2, 3), paddle.to_tensor([1, 3]), 3, scores(2, 3))
    with pytest.raises(IndexError, match=r"ctc_loss expected labels in \[0, 3\) but got values from -1 to 2"):
        F.ctc_loss(x, paddle.to_tensor([[-1], [2]]), lengths, paddle.to_tensor([1, 1]))
    with pytest.raises(ValueError, match="expected both path_table and path_code, or neither"):
        F.hsigmoid_loss(scores(2, 3), paddle.to_tensor([1, 2]), 3, scores(2, 3), None, labels)
