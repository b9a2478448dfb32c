"""A compiled function is started as one graph: on a stand-in for the CUDA driver, which counts its calls, and on the emulated device."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.text import parse_module
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.targets import gpu_target
from polyreme.lowering.pipeline import compile_module
from polyreme.runtime.gpu import executable as executables
from polyreme.runtime.gpu import graphs
from polyreme.runtime.gpu.arrays import lent
from polyreme.runtime.gpu.copies import DeviceCopies
from polyreme.runtime.gpu.drivers import EmulatedDriver, open_driver
from tests.gpu.cuda_stand_in import CudaStandIn
from tests.gpu.networks import mlp, trained
from tests.gpu.running import forget_devices

# Three kernels and more: two products, and sums of rows between them.
TEXT = """
func @main(%x: tensor<Nx8xf32>, %w: tensor<8x8xf32>) -> (tensor<Nx8xf32>, tensor<Nxf32>) {
  %a = nn.matmul %x, %w
  %b = nn.softmax %a
  %t = nn.tanh %b
  %c = nn.matmul %t, %w
  %s = nn.sum %c {axis = [1]}
  return %c, %s
}
"""


def model(driver: Any) -> Any:
    return load(compile_module(parse_module(TEXT), gpu_target(driver.sm)).artifact, driver)


def inputs(rows: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, 8)).astype(np.float32), rng.standard_normal((8, 8)).astype(np.float32)]


def expected(x: Any, w: Any) -> list[Any]:
    e = np.exp(x @ w - (x @ w).max(1, keepdims=True))
    c = np.tanh(e / e.sum(1, keepdims=True)) @ w
    return [c, c.sum(1)]


def check(results: Any, given: list[Any]) -> None:
    for got, wanted in zip(results, expected(*given), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-5)


def test_calls_after_the_second_are_one_call_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    run = model(open_driver("gpu"))
    count = len(run.plan.launches)
    assert count >= executables.FEWEST_LAUNCHES
    for i in range(5):
        given = inputs(4, i)
        check(run.run(given), given)
    assert cuda.calls["launch"] == count and cuda.calls["recorded launch"] == count and cuda.calls["cuGraphLaunch"] == 4
    # Other sizes have launches of their own, and the graph of the sizes before is gone with them.
    for i in range(2):
        given = inputs(7, i)
        check(run.run(given), given)
    assert cuda.calls["launch"] == 2 * count and cuda.calls["cuGraphExecDestroy"] == 1
    del run
    gc.collect()
    assert not cuda.kept, "all graphs are destroyed"


@pytest.mark.parametrize("device", ["gpu", "gpu-emulated"])
def test_results_that_stay_on_the_device_have_graphs_by_their_addresses(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    driver = open_driver(device)
    run, copies = model(driver), DeviceCopies(driver)
    held: list[Any] = []
    for i in range(12):
        given = inputs(4, i)
        held.append((given, run.run_kept([*map(lent, given)], copies)))
        if len(held) > 2:
            check(*reversed(held.pop(0)))  # what was given later did not change it
    for given, results in held:
        check(results, given)
    assert run._memory is not None and any(run._memory.graphs.values())
    if device == "gpu":
        assert cuda.calls["cuGraphLaunch"] >= 2


@pytest.mark.parametrize("mode", ["the step", "static"])
def test_a_step_of_training_is_a_few_calls_of_the_driver(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    forget_devices(monkeypatch)
    expected, counts = trained("mlp", mode, "cpu", 16), []
    counted = trained("mlp", mode, "gpu", 16, told=lambda: counts.append(cuda.calls.copy()))
    np.testing.assert_allclose(counted.losses, expected.losses, rtol=2e-5)
    assert counts[-1] - counts[-5] == {"cuGraphLaunch": 4}


def test_a_compiled_step_of_an_optimizer_is_one_call_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    forget_devices(monkeypatch)

    def losses_on(device: str) -> list[float]:
        paddle.set_device(device)
        paddle.seed(0)
        net = mlp()
        optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
        loss_of, step = paddle.jit.to_static(lambda x: net(x).square().mean()), paddle.jit.to_static(optimizer.step)
        losses = []
        for i in range(12):
            loss = loss_of(paddle.to_tensor(np.random.default_rng(i).standard_normal((4, 12)).astype(np.float32)))
            loss.backward()
            counts.append(cuda.calls.copy())
            step()
            counts.append(cuda.calls.copy())
            optimizer.clear_grad()
            losses.append(float(loss))
        return losses

    counts: list[Any] = []
    try:
        expected = losses_on("cpu")
        counts.clear()
        np.testing.assert_allclose(losses_on("gpu"), expected, rtol=2e-5)
    finally:
        paddle.set_device("cpu")
    assert counts[-1] - counts[-2] == {"cuGraphLaunch": 1}


def test_addresses_that_never_come_again_make_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    driver = open_driver("gpu")
    run, copies = model(driver), DeviceCopies(driver)
    held = [(given := inputs(4, i), run.run_kept([*map(lent, given)], copies)) for i in range(2 * executables.MOST_GRAPHS)]
    for given, results in held:
        check(results, given)
    assert cuda.calls["cuStreamBeginCapture_v2"] == 0 and len(run._memory.graphs) == executables.MOST_GRAPHS


@pytest.mark.parametrize("failing", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
def test_without_graphs_kernels_are_launched_one_by_one(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    cuda.failing[failing] = 801
    run = model(open_driver("gpu"))
    for i in range(3):
        given = inputs(4, i)
        check(run.run(given), given)
    assert not run.driver.has_graphs and cuda.calls[failing] == 1 and cuda.calls["launch"] == 3 * len(run.plan.launches)


def test_a_driver_without_graphs_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    CudaStandIn(monkeypatch)

    def missing() -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(graphs, "load_library", missing)
    driver = open_driver("gpu")
    assert driver.graph([]) is None and not driver.has_graphs
    with pytest.raises(graphs.GraphError, match="expected a CUDA driver with graphs .* cannot open shared object file"):
        graphs.GraphFunctions()


def test_a_graph_that_cannot_be_started_is_an_error_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = CudaStandIn(monkeypatch)
    run = model(open_driver("gpu"))
    given = inputs(4, 0)
    run.run(given)
    cuda.failing["cuGraphLaunch"] = 700
    with pytest.raises(graphs.GraphError, match="'cuGraphLaunch' failed: CUDA_ERROR_OF_THE_TEST"):
        run.run(given)


def test_the_emulated_graph_keeps_the_arguments_it_was_made_with() -> None:
    driver = EmulatedDriver()
    run = model(driver)
    given = inputs(4, 0)
    run.run(given)
    arguments = [8, 9]
    graph = driver.graph([("kernel", [1], [1], arguments, 0)])
    arguments[0] = 10
    assert graph._launches == [("kernel", (1,), (1,), (8, 9), 0)]
