"""`fluid.Trainer` and `fluid.Inferencer`: events, metrics, checkpoints, and going on after a kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid
from polyreme.fluid.files import variables

INTERVAL = 3
BATCHES = 7
Losses = dict[tuple[int, int], float]


def network() -> Any:
    x = fluid.layers.data("x", shape=[4])
    hidden = fluid.layers.dropout(fluid.layers.fc(x, 8, act="relu"), 0.5)
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), fluid.layers.data("y", shape=[1])))


def plain_network() -> Any:
    x = fluid.layers.data("x", shape=[4])
    error = fluid.layers.square_error_cost(fluid.layers.fc(x, 1), fluid.layers.data("y", shape=[1]))
    return [fluid.layers.mean(error), fluid.layers.reduce_max(error)]


def adam() -> Any:
    return fluid.optimizer.Adam(0.05)


def samples() -> Iterator[Any]:
    rng = np.random.RandomState(0)
    for x in rng.rand(BATCHES * 4, 4).astype("float32"):
        yield x, x.sum(keepdims=True)


READER = paddle.batch(samples, batch_size=4)


def trained(folder: Path, seed: int, watch: Callable[[Any], None] = lambda event: None) -> tuple[Losses, Any]:
    """The losses of three epochs by epoch and step, and the trainer; or of what is left of them."""
    paddle.seed(seed)
    config = fluid.CheckpointConfig(str(folder), 2, 1, INTERVAL)
    trainer = fluid.Trainer(network, adam, place=fluid.CPUPlace(), checkpoint_config=config)
    losses: Losses = {}

    def note(event: Any) -> None:
        if isinstance(event, fluid.EndStepEvent):
            losses[event.epoch, event.step] = float(event.metrics[0])
        watch(event)

    trainer.train(3, note, READER, ["x", "y"])
    return losses, trainer


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(run: Callable[[], Any]) -> None:
    """Let another process do `run`, which kills it."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def parameters(trainer: Any) -> dict[str, Any]:
    persistable = [v.name for v in trainer.train_program.list_vars() if v.persistable]
    return {name: np.array(trainer.scope.find_var(name).get_tensor()) for name in persistable}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Losses, dict[str, Any]]:
    losses, trainer = trained(tmp_path_factory.mktemp("whole"), 7)
    assert list(losses) == [(epoch, step) for epoch in range(3) for step in range(BATCHES)]
    return losses, parameters(trainer)


def check_same_end(folder: Path, undisturbed: Any, last: tuple[int, int]) -> None:
    # Another seed: what is drawn has to follow from the checkpoint.
    losses, trainer = trained(folder, 12345)
    assert losses == {key: loss for key, loss in undisturbed[0].items() if key > last}
    for name, value in parameters(trainer).items():
        np.testing.assert_array_equal(value, undisturbed[1][name], err_msg=name)
    assert os.listdir(folder) == []


def test_training_goes_on_after_a_kill_with_the_losses_of_one_without(tmp_path: Path, undisturbed: Any) -> None:
    def watch(event: Any) -> None:
        if isinstance(event, fluid.BeginStepEvent) and (event.epoch, event.step) == (1, 5):
            kill()

    killed(lambda: trained(tmp_path, 7, watch))
    assert sorted(os.listdir(tmp_path)) == ["checkpoint_3", "checkpoint_4"]
    check_same_end(tmp_path, undisturbed, (1, 3))


def test_a_kill_in_the_middle_of_a_checkpoint_leaves_the_one_before(tmp_path: Path, undisturbed: Any, monkeypatch: Any) -> None:
    write = variables.write_one
    written: list[str] = []

    def write_or_die(path: Path, name: str, *rest: Any) -> None:
        written.append(name)
        if written.count(name) == 5:
            path.write_bytes(b"half")
            kill()
        write(path, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(variables, "write_one", write_or_die)
        killed(lambda: trained(tmp_path, 7))
    assert sorted(os.listdir(tmp_path)) == ["checkpoint_2", "checkpoint_3", "checkpoint_4.partial"]
    check_same_end(tmp_path, undisturbed, (1, 0))


def test_events_come_in_order_and_stop_ends_training() -> None:
    trainer = fluid.Trainer(plain_network, lambda: fluid.optimizer.SGD(0.05))
    seen = []

    def note(event: Any) -> None:
        seen.append((type(event).__name__, event.epoch, getattr(event, "step", None)))
        if isinstance(event, fluid.BeginStepEvent):
            event.fetch_metrics = event.step == 0
        if isinstance(event, fluid.EndStepEvent):
            assert len(event.metrics) == (2 if event.step == 0 else 0)
            if (event.epoch, event.step) == (1, 1):
                trainer.stop()

    trainer.train(3, note, paddle.batch(samples, 14))
    steps = [("BeginStepEvent", 0), ("EndStepEvent", 0), ("BeginStepEvent", 1), ("EndStepEvent", 1)]
    whole = [("BeginEpochEvent", 0, None), *[(kind, 0, step) for kind, step in steps], ("EndEpochEvent", 0, None)]
    assert seen == [*whole, ("BeginEpochEvent", 1, None), *[(kind, 1, step) for kind, step in steps]]


def test_metrics_of_a_test_are_means_and_parameters_serve_an_inferencer(tmp_path: Path) -> None:
    trainer = fluid.Trainer(plain_network, adam)
    trainer.train(2, lambda event: None, READER, {"y": 1, "x": 0})
    trainer.save_params(str(tmp_path / "model"))

    def predict() -> Any:
        return fluid.layers.fc(fluid.layers.data("x", shape=[4]), 1)

    inferencer = fluid.Inferencer(predict, str(tmp_path / "model"), fluid.CPUPlace())
    rows = list(samples())
    (predicted,) = inferencer.infer({"x": np.stack([x for x, _ in rows])})
    errors = (predicted - np.stack([y for _, y in rows])) ** 2
    mean, largest = trainer.test(READER, ["x", "y"])
    assert float(mean) == pytest.approx(errors.mean(), rel=1e-5)
    assert float(largest) == pytest.approx(errors.reshape(BATCHES, 4).max(1).mean(), rel=1e-5)
    again = fluid.Trainer(plain_network, adam, param_path=str(tmp_path / "model"))
    assert float(again.test(READER, ["x", "y"])[0]) == float(mean)


def test_parallel_training_gives_each_device_a_batch(monkeypatch: Any) -> None:
    monkeypatch.setenv("CPU_NUM", "2")
    seen = []

    def note(event: Any) -> None:
        if isinstance(event, fluid.EndStepEvent):
            seen.append(np.asarray(event.metrics[0]).shape)

    trainer = fluid.Trainer(plain_network, lambda: fluid.optimizer.SGD(0.05), place=fluid.CPUPlace(), parallel=True)
    before = float(trainer.test(READER, ["x", "y"])[0])
    trainer.train(1, note, READER, ["x", "y"])
    assert seen == [(2,)] * (BATCHES // 2)
    assert float(trainer.test(READER, ["x", "y"])[0]) < before


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fluid.CheckpointConfig(step_interval=0), ValueError, "expected step_interval of at least 1 but got 0"),
        (lambda: fluid.Trainer(plain_network, adam, param_path="/nowhere"), FileNotFoundError, "expected a folder of parameters"),
        (lambda: fluid.Trainer(plain_network, lambda: 3), TypeError, "optimizer_func returned int"),
        (lambda: fluid.Trainer(plain_network, adam).test(list, ["x", "y"]), ValueError, "at least one batch"),
        (lambda: fluid.Trainer(plain_network, adam).train(1, print, READER, ["x", "z"]), ValueError, "but got 'z'"),
        (lambda: fluid.Inferencer(plain_network, "/nowhere"), FileNotFoundError, "expected a folder of parameters"),
    ],
)
def test_faults_are_told(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
