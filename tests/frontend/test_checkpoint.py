"""Checkpoints of trainings: what goes on from one is what it would have been, to the bit, wherever the program was killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.incubate.checkpoint import Checkpoint
from polyreme.serialization import SaveError

SCRIPT = Path(__file__).with_name("resumed_training.py")


def a_training(path: Path) -> tuple[Any, Any, Checkpoint]:
    with paddle.utils.unique_name.guard():
        net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Dropout(0.5), paddle.nn.Linear(4, 2))
        rate = paddle.optimizer.lr.ExponentialDecay(0.1, 0.9)
        optimizer = paddle.optimizer.Adam(rate, parameters=net.parameters())
    data = paddle.io.TensorDataset([paddle.to_tensor(np.arange(30, dtype="float32").reshape(10, 3))])
    loader = paddle.io.DataLoader(data, batch_size=2, shuffle=True)
    checkpoint = Checkpoint(path, net=net, optimizer=optimizer, loader=loader)

    def steps(epochs: int, begin: int = 0, save_at: int = -1) -> Any:
        count = 0
        for epoch in range(begin, epochs):
            for (x,) in loader:
                net(x).square().mean().backward()
                optimizer.step()
                optimizer.clear_grad()
                rate.step()
                count += 1
                if count == save_at:
                    checkpoint.save(epoch=epoch)
        return [p.numpy() for p in net.parameters()]

    return net, steps, checkpoint


@pytest.mark.parametrize("saved_at", [1, 4, 5, 8])
def test_a_training_goes_on_where_it_was(saved_at: int, tmp_path: Path) -> None:
    paddle.seed(1)
    np.random.seed(1)
    _, steps, _ = a_training(tmp_path / "training")
    wanted = steps(3, save_at=saved_at)
    paddle.seed(5)
    _, steps, checkpoint = a_training(tmp_path / "training")
    progress = checkpoint.load()
    assert progress == {"epoch": (saved_at - 1) // 5}
    for found, exact in zip(steps(3, progress["epoch"]), wanted, strict=True):
        np.testing.assert_array_equal(found, exact)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    net, _, checkpoint = a_training(tmp_path / "training")
    assert checkpoint.load() is None
    checkpoint.save()
    with pytest.raises(SaveError, match="expected the parts"):
        Checkpoint(tmp_path / "training", net=net).load()
    other = paddle.optimizer.Adam(0.1, parameters=paddle.nn.Linear(3, 4).parameters())
    with pytest.raises(SaveError, match="expected 'optimizer' to have the parameters"):
        Checkpoint(tmp_path / "training", net=net, optimizer=other, loader=checkpoint.parts["loader"]).load()
    paddle.save(net.state_dict(), str(tmp_path / "training"))
    with pytest.raises(SaveError, match=r"expected a file of Checkpoint\.save"):
        checkpoint.load()
    with pytest.raises(TypeError, match="expected 'rate' to have state_dict"):
        Checkpoint(tmp_path / "training", rate=0.1)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_loader_of_workers_goes_on_in_its_order(persistent: bool) -> None:
    def made() -> paddle.io.DataLoader:
        data = paddle.io.TensorDataset([paddle.to_tensor(np.arange(12))])
        return paddle.io.DataLoader(data, batch_size=2, shuffle=True, num_workers=2, persistent_workers=persistent)

    np.random.seed(3)
    loader = made()
    seen = [batch[0].tolist() for batch in loader]
    whole, state = [], {}
    for number, batch in enumerate(loader):
        whole.append(batch[0].tolist())
        if number == 2:
            state, numpy_state = loader.state_dict(), np.random.get_state()
    assert whole != seen
    behind = [batch[0].tolist() for batch in loader]
    other = made()
    np.random.set_state(numpy_state)
    other.set_state_dict(state)
    assert [batch[0].tolist() for batch in other] == whole[3:]
    if persistent:
        assert [batch[0].tolist() for batch in other] == behind


def run(path: Path, way: str, workers: int, kills: random.Random | None) -> list[str]:
    """What the script says in the end; None where it was killed at a point that `kills` draws."""
    process = subprocess.Popen([sys.executable, str(SCRIPT), str(path), way, str(workers)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = -1 if kills is None else kills.randint(1, 7)
    last: list[str] = []
    for line in process.stdout:
        last = line.split()
        left -= last[0] == "step"
        if left == 0 and kills is not None:
            time.sleep(kills.random() * 0.02)
            process.kill()
    process.wait()
    return last if last and last[0] == "done" else []


@pytest.mark.slow
@pytest.mark.parametrize(("way", "workers", "count"), [("compiled", 0, 30), ("eager", 0, 10)])
def test_a_training_that_is_killed_ends_with_the_same_bits(way: str, workers: int, count: int, tmp_path: Path) -> None:
    wanted = run(tmp_path / "whole", way, workers, None)
    assert wanted[0] == "done"
    kills, killed, found = random.Random(0), 0, []
    while not found:
        found = run(tmp_path / "killed", way, workers, kills if killed < count else None)
        killed += not found
    assert killed == count
    assert found == wanted
