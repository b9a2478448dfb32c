"""The models of `vision.models`: their state dicts are Paddle's, they compute what Paddle computes, and they compile."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.nn import initializer
from polyreme.tensor import Tensor
from polyreme.vision import models
from tests.api import peer
from tests.frontend.vision_models import MODELS, build, digest, outcome, training

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "fixtures" / "vision_models.json"


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """First values are zeros and not drawn: drawing those of all models takes minutes."""

    def zeros(shape: Any, _low: float, _high: float, dtype: Any) -> Tensor:
        return Tensor._wrap(np.zeros(shape, dtype.np))

    for name in ("draw_normal", "draw_uniform"):
        monkeypatch.setattr(initializer, name, zeros)


def under_paddle(what: str, name: str, folder: Path) -> None:
    command = peer.python()
    if command is None:
        pytest.skip("needs Paddle 3.3.1")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_minloglevel": "3"}
    subprocess.run(
        [command, "-m", "tests.frontend.vision_models", what, name, str(folder)], check=True, cwd=ROOT, env=environment, timeout=300
    )


@pytest.fixture
def from_paddle(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """What Paddle made of the model that the test is given: see `vision_models`."""
    under_paddle("run", request.getfixturevalue("name"), tmp_path)
    yield tmp_path / "weights.pdparams", np.load(tmp_path / "outcome.npz")
    # Half a gigabyte for some, which must not wait for the end of all tests.
    for path in tmp_path.iterdir():
        path.unlink()


@pytest.mark.parametrize("name", MODELS)
def test_a_state_dict_has_the_names_and_shapes_of_paddles(name: str, undrawn: None) -> None:
    assert digest(build(paddle, name).state_dict()) == json.loads(KEPT.read_text())[name]


@pytest.mark.peer
@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_paddles_weights_computes_what_paddle_computes(name: str, undrawn: None, from_paddle: Any) -> None:
    weights, expected = from_paddle
    net = build(paddle, name)
    missing, unexpected = net.set_state_dict(paddle.load(str(weights)))
    assert not missing and not unexpected
    got = outcome(paddle, net, expected["images"])
    assert {"images", *got} == set(expected.files)
    errors = {key: np.abs(value - expected[key]).max() / max(np.abs(expected[key]).max(), 1e-30) for key, value in got.items()}
    wrong = {key: error for key, error in errors.items() if not error <= (1e-5 if key.startswith("scores") else 1e-4)}
    assert not wrong


@pytest.mark.peer
@pytest.mark.parametrize("name", ["shufflenet_v2_x0_25", "mobilenet_v3_small_narrow", "squeezenet1_1", "densenet121"])
def test_a_seeded_model_starts_and_trains_as_in_paddle(name: str, tmp_path: Path) -> None:
    under_paddle("train", name, tmp_path)
    expected = np.load(tmp_path / "training.npz")
    got = training(paddle, name)
    assert set(got) == set(expected.files)
    for key, value in got.items():
        if key.startswith("first"):
            # A random generator's last bits may pass through another logarithm.
            np.testing.assert_allclose(value, expected[key], rtol=1e-6, atol=1e-8, err_msg=key)
        else:
            # What follows a batch norm has a mean of zero but for rounding.
            # Norms over the few pixels that are left at the end magnify what rounding did in the first step.
            tolerance = 3e-3 if key == "loss 1" else 1e-4
            assert np.abs(value - expected[key]).max() <= tolerance * np.abs(expected[key]).max() + 1e-6, key


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("shufflenet_v2_x0_25", 64), ("squeezenet1_1", 64), ("resnet18", 32)])
def test_a_compiled_model_computes_what_it_computes_in_eager_mode(name: str, size: int) -> None:
    paddle.seed(1)
    net = build(paddle, name)
    net.eval()
    images = paddle.to_tensor(np.random.default_rng(0).standard_normal((2, 3, size, size)).astype("float32"))
    with paddle.no_grad():
        expected = net(images).numpy()
        got = paddle.jit.to_static(net)(images).numpy()
    assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()


def test_a_model_in_training_keeps_statistics_and_learns() -> None:
    paddle.seed(1)
    net = models.shufflenet_v2_x0_25(num_classes=2)
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    images = paddle.to_tensor(np.random.default_rng(0).standard_normal((4, 3, 64, 64)).astype("float32"))
    labels = paddle.to_tensor(np.array([0, 1, 0, 1]))
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    losses = []
    for _ in range(4):
        loss = paddle.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    assert all(not np.array_equal(v.numpy(), before[k]) for k, v in net.state_dict().items())


@pytest.mark.parametrize(
    "name", ["alexnet", "vgg16", "resnet18", "mobilenet_v2", "densenet121", "googlenet", "inception_v3", "squeezenet1_0"]
)
def test_trained_weights_are_refused_with_the_way_to_load_them(name: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s)pretrained=False for {name}.*set_state_dict\(paddle.load\('{name}.pdparams'\)\)"):
        getattr(models, name)(pretrained=True)


@pytest.mark.parametrize(
    "name", ["shufflenet_v2_x0_25", *(pytest.param(n, marks=pytest.mark.slow) for n in ("resnet18", "mobilenet_v2", "densenet121"))]
)
def test_a_model_without_classes_gives_features(name: str, undrawn: None) -> None:
    channels = {"shufflenet_v2_x0_25": 512, "resnet18": 512, "mobilenet_v2": 1280, "densenet121": 1024}[name]
    for with_pool, size in ((True, 1), (False, 2)):
        assert getattr(models, name)(num_classes=0, with_pool=with_pool)(paddle.zeros([1, 3, 64, 64])).shape == [1, channels, size, size]


def test_a_squeezenet_without_classes_gives_features(undrawn: None) -> None:
    assert models.squeezenet1_1(num_classes=0)(paddle.zeros([1, 3, 32, 32])).shape == [1, 512]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: models.ResNet(None, 20), ValueError, "expected a depth of 18, 34, 50, 101, 152 but got 20"),
        (lambda: models.DenseNet(100), AssertionError, "expected layers to be 121, 161, 169, 201, 264 but got 100"),
        (lambda: models.SqueezeNet("2.0"), AssertionError, "expected version '1.0' or '1.1' but got '2.0'"),
        (lambda: models.ShuffleNetV2(3.0), NotImplementedError, "expected a scale of 0.25, 0.33, 0.5, 1.0, 1.5, 2.0 but got 3.0"),
        (lambda: models.ShuffleNetV2(act="gelu"), RuntimeError, "expected act to be 'relu', 'swish' or None but got 'gelu'"),
    ],
)
def test_arguments_that_name_no_model_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
