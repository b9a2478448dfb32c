"""Training of networks of every kind on a GPU: in each mode it is what it is on the CPU, and only batches and losses are copied."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.runtime.gpu.arrays import DeviceArray
from tests.gpu.networks import MODES, NETWORKS, trained
from tests.gpu.running import DEVICES

cuda = paddle.device.cuda
# The same sums in another order, over some steps of training.
ROUNDING = 2e-5
# Numbers that Python looks at besides the loss, and their bytes at most: with a compiled loss the least and the greatest label (and token,
# and place), of a whole step whether it is one.
CHECKED = {"dygraph": (0, 0), "the loss": (6, 48), "the step": (1, 1), "static": (0, 0)}
# Those of the default run.
FEW = {("mlp", "the step"), ("resnet block", "static"), ("lstm cell", "dygraph")}
CASES = [pytest.param(name, mode, marks=() if (name, mode) in FEW else pytest.mark.slow) for name in NETWORKS for mode in MODES]


@pytest.fixture(autouse=True)
def _on_the_cpu_afterwards() -> Iterator[None]:
    yield
    paddle.set_device("cpu")


@DEVICES
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_training_is_that_of_the_cpu_and_moves_batches_and_losses(name: str, mode: str, device: str) -> None:
    seed = MODES.index(mode)  # small arrays that were sent before are not sent again
    expected, got = (trained(name, mode, where, 10, seed) for where in ("cpu", device))
    np.testing.assert_allclose(got.losses, expected.losses, rtol=ROUNDING)
    assert got.weights.keys() == expected.weights.keys()
    for key, wanted in expected.weights.items():
        np.testing.assert_allclose(got.weights[key], wanted, rtol=20 * ROUNDING, atol=ROUNDING, err_msg=key)
    checks, check_bytes = CHECKED[mode]
    batch = sum(array.nbytes for array in next(NETWORKS[name].batches(1)))
    # By then weights are there, state is made, and memory comes again, so that the tables of its addresses do.
    for uploads, uploaded, downloads, downloaded in got.copies[5:]:
        # Of a compiled step also the powers of the rates at most.
        assert uploads <= 2 + 2 * (mode == "the step") and uploaded <= batch + 16 * (mode == "the step")
        assert 1 <= downloads <= 1 + checks and downloaded <= 4 + check_bytes


def _of_layer(layer: Any, x: Any) -> Any:
    return layer(paddle.to_tensor(x)).numpy()


def moved(action: Any) -> tuple[int, ...]:
    before = cuda.memory_stats()
    action()
    after = cuda.memory_stats()
    return tuple(after[name] - before[name] for name in ("uploads", "uploaded_bytes", "downloads", "downloaded_bytes"))


def wide() -> Any:
    """Weights too large to be known by their contents."""
    net = paddle.nn.Sequential(paddle.nn.Linear(40, 60), paddle.nn.ReLU(), paddle.nn.Linear(60, 40))
    net.eval()
    return net


@pytest.mark.parametrize("by", ["jit.load", "load_inference_model", "inference"])
def test_weights_of_a_loaded_model_go_to_the_device_once(by: str, tmp_path: Path) -> None:
    net, rng = wide(), np.random.default_rng(0)
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[paddle.static.InputSpec([None, 40], "float32", "x")])
    paddle.set_device("gpu-emulated")
    run: Any
    if by == "jit.load":
        layer = paddle.jit.load(str(tmp_path / "net"))
        run = partial(_of_layer, layer)
    elif by == "load_inference_model":
        paddle.enable_static()
        try:
            executor, scope = paddle.static.Executor(), paddle.static.Scope()
            with paddle.static.scope_guard(scope):
                program, feeds, fetches = paddle.static.load_inference_model(str(tmp_path / "net"), executor)
        finally:
            paddle.disable_static()

        def run(x: Any) -> Any:
            return executor.run(program, feed={feeds[0]: x}, fetch_list=fetches, scope=scope)[0]

    else:
        predictor = paddle.inference.create_predictor(paddle.inference.Config(str(tmp_path / "net")))
        run = partial(_of_layer, lambda x: predictor.run([x])[0])
    for i in range(3):
        x = rng.normal(size=(32, 40)).astype("float32")
        found: list[Any] = []
        copies = moved(lambda x=x, found=found: found.append(run(x)))
        with paddle.device.on_device("cpu"):
            np.testing.assert_allclose(np.asarray(found[0]), net(paddle.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
        if i:
            assert copies == (1, x.nbytes, 1, found[0].nbytes)


def static_training(body: Any) -> tuple[Any, Any, Any]:
    """A program with weights of some size, and `body` between its layers; its loss and its weights are to be fetched."""
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 40])
        loss = paddle.static.nn.fc(body(paddle.static.nn.fc(x, 60)), 40).square().mean()
        paddle.optimizer.Momentum(0.1).minimize(loss)
    executor = paddle.static.Executor()
    executor.run(startup, scope=scope)
    return main, loss, lambda feed, fetch, **options: executor.run(main, feed={"x": feed}, fetch_list=fetch, scope=scope, **options)


BUFFER = np.zeros((32, 60), "float32")


def in_its_own_buffer(a: Any) -> Any:
    BUFFER[:] = np.asarray(a) * 2
    return BUFFER


BODIES: dict[str, Any] = {
    "a branch": lambda h: paddle.static.nn.cond(h.mean() > 0, lambda: h * 2.0, lambda: h - 1.0),
    "a function of Python": lambda h: paddle.static.py_func(in_its_own_buffer, h, paddle.static.data("twice", [None, 60])),
}


@pytest.mark.parametrize("body", BODIES)
def test_variables_of_a_program_stay_on_the_device(body: str) -> None:
    results = []
    for device in ("cpu", "gpu-emulated"):
        paddle.set_device(device)
        paddle.enable_static()
        try:
            paddle.seed(0)
            main, loss, run = static_training(BODIES[body])
            weights = [p.name for p in main.all_parameters()]
            batch = np.empty((32, 40), "float32")
            losses = []
            for i in range(4):
                batch[:] = np.random.default_rng(i).normal(size=batch.shape)  # where the last one was
                before = cuda.memory_stats() if device != "cpu" else {}
                (found,) = run(batch, [loss])
                if before and i > 1:  # what comes each time has come twice
                    after = cuda.memory_stats()
                    # A program in parts gives the batch to each that takes it, and Python takes and gives main memory's arrays.
                    python = 32 * 60 * 4 if "Python" in body else 0
                    assert after["uploaded_bytes"] - before["uploaded_bytes"] <= 2 * batch.nbytes + python
                    assert after["downloaded_bytes"] - before["downloaded_bytes"] <= 64 + python
                losses.append(float(found))
                found += 1  # the caller's own
            kept = run(batch, weights, return_numpy=False)
            assert [type(t._value) is DeviceArray for t in kept[-2:]] == [device != "cpu"] * 2  # the last layer, which is trained
            own = run(batch, weights)
            before_writing = [a.copy() for a in own]
            for array in own:
                array += 1
            again = run(batch, weights)
            assert not any(np.array_equal(a, b) for a, b in zip(again, own, strict=True))
            results.append((losses, [t.numpy() for t in kept], before_writing, again))
        finally:
            paddle.disable_static()
            paddle.set_device("cpu")
    for wanted, got in zip(*results, strict=True):
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
