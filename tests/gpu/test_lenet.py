"""LeNet on a GPU, forward and backward, by the same front end as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.nn import functional as F
from tests.gpu.running import DEVICES

# The same sums in another order: a few units of the last place of float32, over a few steps of training.
ROUNDING = 2e-5


class Narrow(paddle.nn.Layer):
    """LeNet with few channels, and a dropout, whose draws must be those of the CPU."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = paddle.nn.Conv2D(1, 2, 3, padding=1), paddle.nn.Conv2D(2, 4, 5)
        self.fc1, self.fc2 = paddle.nn.Linear(100, 24), paddle.nn.Linear(24, 10)

    def forward(self, image, label):
        x = F.max_pool2d(F.relu(self.conv1(image)), 2, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 2)
        x = F.dropout(F.relu(self.fc1(paddle.flatten(x, 1))), 0.25)
        return F.cross_entropy(self.fc2(x), label)


@pytest.fixture(autouse=True)
def _on_the_cpu_afterwards():
    yield
    paddle.set_device("cpu")


def data(batch):
    random = np.random.default_rng(5)
    return paddle.to_tensor(random.standard_normal((batch, 1, 28, 28)).astype("float32")), paddle.to_tensor(
        random.integers(0, 10, (batch, 1))
    )


def trained(device, steps):
    """Losses, and the gradients of the last step."""
    paddle.set_device(device)
    paddle.seed(3)
    net = Narrow()
    step = paddle.jit.to_static(net)
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    image, label = data(7)
    losses = []
    for _ in range(steps):
        loss = step(image, label)
        loss.backward()
        losses.append(float(loss))
        grads = [p.grad.numpy() for p in net.parameters()]
        optimizer.step()
        optimizer.clear_grad()
    return losses, grads


@DEVICES
def test_training_gives_the_losses_and_gradients_of_the_cpu(device):
    expected_losses, expected = trained("cpu", 3)
    losses, grads = trained(device, 3)
    np.testing.assert_allclose(losses, expected_losses, rtol=ROUNDING)
    for got, wanted in zip(grads, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=20 * ROUNDING, atol=ROUNDING)


@DEVICES
def test_inference_of_several_batches_by_one_program(device):
    net = paddle.vision.models.LeNet()
    net.eval()
    expected = [net(paddle.to_tensor(np.full((n, 1, 28, 28), 0.5, "float32"))).numpy() for n in (1, 3)]
    paddle.set_device(device)
    run = paddle.jit.to_static(net, input_spec=[paddle.static.InputSpec([None, 1, 28, 28], "float32")])
    with paddle.no_grad():
        for n, wanted in zip((1, 3), expected, strict=True):
            got = run(paddle.to_tensor(np.full((n, 1, 28, 28), 0.5, "float32"))).numpy()
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
