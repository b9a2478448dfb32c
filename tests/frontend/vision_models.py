"""The models of `paddle.vision.models` under either module: `python -m tests.frontend.vision_models` runs in a python that has Paddle.

`… keys FILE` writes what the state dicts of all models look like; `… run MODEL FOLDER` writes weights, an input, and what Paddle makes of
them; `… train MODEL FOLDER` writes what a seeded model starts with and learns.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 10
BATCH = 2
# By model: the function, arguments other than the number of classes, and the size of the images: small ones, or what the model's linear
# layers ask for.
MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "lenet": ("LeNet", {}, 28),
    "alexnet": ("alexnet", {}, 224),
    **{f"vgg{n}": (f"vgg{n}", {}, 32) for n in (11, 13, 16, 19)},
    **{f"vgg{n}_bn": (f"vgg{n}", {"batch_norm": True}, 32) for n in (11, 13, 16, 19)},
    **{f"resnet{n}": (f"resnet{n}", {}, 64) for n in (18, 34, 50, 101, 152)},
    **{f"resnext{n}_{g}x4d": (f"resnext{n}_{g}x4d", {}, 64) for n in (50, 101, 152) for g in (32, 64)},
    **{f"wide_resnet{n}_2": (f"wide_resnet{n}_2", {}, 64) for n in (50, 101)},
    "mobilenet_v1": ("mobilenet_v1", {}, 64),
    "mobilenet_v1_half": ("mobilenet_v1", {"scale": 0.5}, 64),
    "mobilenet_v2": ("mobilenet_v2", {}, 64),
    "mobilenet_v2_narrow": ("mobilenet_v2", {"scale": 0.35}, 64),
    "mobilenet_v3_small": ("mobilenet_v3_small", {}, 64),
    "mobilenet_v3_small_narrow": ("mobilenet_v3_small", {"scale": 0.35}, 64),
    "mobilenet_v3_large": ("mobilenet_v3_large", {}, 64),
    "squeezenet1_0": ("squeezenet1_0", {}, 64),
    "squeezenet1_1": ("squeezenet1_1", {}, 64),
    **{f"densenet{n}": (f"densenet{n}", {}, 64) for n in (121, 161, 169, 201, 264)},
    **{f"shufflenet_v2_{s}": (f"shufflenet_v2_{s}", {}, 64) for s in ("x0_25", "x0_33", "x0_5", "x1_0", "x1_5", "x2_0", "swish")},
    "googlenet": ("googlenet", {}, 224),
    "inception_v3": ("inception_v3", {}, 96),
}

def build(paddle: Any, name: str) -> Any:
    function, arguments, _ = MODELS[name]
    return getattr(paddle.vision.models, function)(num_classes=CLASSES, **arguments)


def digest(state: dict[str, Any]) -> list[Any]:
    """How many entries a state dict has, and a digest of their names and shapes in order."""
    text = "\n".join(f"{name} {list(value.shape)}" for name, value in state.items())
    return [len(state), hashlib.sha256(text.encode()).hexdigest()[:16]]


def outcome(paddle: Any, net: Any, images: Any) -> dict[str, Any]:
    """What a net in evaluation mode makes of images, and the gradients of the images and of all parameters for a cotangent that is drawn.

    The gradients are of the same net in float64: among the many numbers that meet a ReLU or a pool there are some that nearly tie, and then
    the last bit of float32 would decide which of them has the gradient.
    """
    net.eval()
    scores = _scores(net, paddle.to_tensor(images))
    found = {f"scores {i}": part.numpy() for i, part in enumerate(scores)}
    net.to(dtype="float64")
    x = paddle.to_tensor(images.astype("float64"), stop_gradient=False)
    scores = _scores(net, x)
    rng = np.random.default_rng(1)
    loss = sum((part * paddle.to_tensor(rng.standard_normal(part.shape))).sum() for part in scores)
    loss.backward()
    found["gradient of the images"] = x.grad.numpy()
    return found | {f"gradient of {k}": p.grad.numpy() for k, p in net.named_parameters() if p.grad is not None}


def training(paddle: Any, name: str) -> dict[str, Any]:
    """The first values of a seeded net, and its running statistics and loss after a step of training with dropout."""
    paddle.seed(1)
    net = build(paddle, name)
    found = {f"first {key}": value.numpy() for key, value in net.state_dict().items()}
    rng = np.random.default_rng(0)
    images = paddle.to_tensor(rng.standard_normal((4, 3, 64, 64)).astype("float32"))
    labels = paddle.to_tensor(rng.integers(0, CLASSES, 4))
    optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())
    for step in range(2):
        loss = paddle.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found[f"loss {step}"] = loss.numpy()
        if step == 0:
            found |= {f"after {k}": v.numpy() for k, v in net.state_dict().items() if k.endswith(("._mean", "._variance"))}
    return found


def _train(name: str, folder: Path) -> None:
    import paddle

    np.savez(folder / "training.npz", **training(paddle, name))


def _scores(net: Any, x: Any) -> list[Any]:
    made = net(x)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _run(name: str, folder: Path) -> None:
    import paddle

    paddle.seed(1)
    net = build(paddle, name)
    rng = np.random.default_rng(0)
    # Running statistics as training would leave them: not the zeros and ones of a new net.
    for key, value in net.state_dict().items():
        if key.endswith("._mean"):
            value.set_value(rng.normal(0.0, 0.1, value.shape).astype("float32"))
        elif key.endswith("._variance"):
            value.set_value(rng.uniform(0.8, 1.6, value.shape).astype("float32"))
    channels, size = (1 if name == "lenet" else 3), MODELS[name][2]
    images = rng.standard_normal((BATCH, channels, size, size)).astype("float32")
    paddle.save(net.state_dict(), str(folder / "weights.pdparams"))
    np.savez(folder / "outcome.npz", images=images, **outcome(paddle, net, images))


def _keys(path: Path) -> None:
    import paddle

    path.write_text(json.dumps({name: digest(build(paddle, name).state_dict()) for name in MODELS}, indent=0) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "keys":
        _keys(Path(sys.argv[2]))
    else:
        {"run": _run, "train": _train}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
