"""Training of a static Program beside Paddle's static mode: what a step of `Executor.run` costs.

    python -m benchmarks.static_training --paddle-python ../peers/bin/python

Both libraries run the same lines, each in a process of its own, on one thread or two, in rounds: in a round each is timed for a short turn,
one after another. A figure is the median over the rounds of a turn's tenth percentile, the ratio the median of the rounds' ratios.

Every program feeds images of 28 x 28 and labels, and fetches the loss; an optimizer's update is part of it:

- `LeNet, SGD` and `LeNet, Adam`: two convolutions, two poolings and three products, 64 images.
- `LeNet, 8 images`: the same with few, where the executor's own work counts.
- `batch norm`: three convolutions of 16 to 64 channels, each with batch norm in training, 32 images, momentum.

Before anything is timed, both libraries are given the same weights and have to give the same losses for five steps.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from typing import Any

import numpy as np

from benchmarks.eager import in_turns, started, table, turn
from benchmarks.processes import answer

WARM_TURNS = 4  # turns that are not counted
STEPS = 5  # whose losses are compared
LARGEST_DIFFERENCE = 1e-4  # of a loss, relative


class _Program:
    """A program of one library, ready to run."""

    def __init__(self, paddle: Any, images: int, build: Any, optimizer: Any):
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, startup):
            image = paddle.static.data("image", [None, 1, 28, 28], "float32")
            label = paddle.static.data("label", [None, 1], "int64")
            net = build(paddle.nn)
            self.loss = paddle.nn.functional.cross_entropy(net(image), label)
            optimizer(paddle).minimize(self.loss)
        self.executor, self.scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
        rng = np.random.default_rng(0)
        with paddle.static.scope_guard(self.scope):
            self.executor.run(startup)
            for parameter in net.parameters():
                shape = [int(size) for size in parameter.shape]
                values = rng.standard_normal(shape) * (1 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else np.full(shape, 0.5)
                self.scope.find_var(parameter.name).get_tensor().set(values.astype("float32"), paddle.CPUPlace())
        self.feed = {
            "image": rng.standard_normal((images, 1, 28, 28)).astype("float32"), "label": rng.integers(0, 10, (images, 1))
        }  # fmt: skip
        self.guard = paddle.static.scope_guard

    def __call__(self) -> float:
        with self.guard(self.scope):
            [loss] = self.executor.run(self.main, feed=self.feed, fetch_list=[self.loss])
        return float(loss)


def _lenet(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(),
        nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
    )  # fmt: skip


def _batch_norms(nn: Any) -> Any:
    layers, before = [], 1
    for channels in (16, 32, 64):
        layers += [nn.Conv2D(before, channels, 3, stride=2, padding=1), nn.BatchNorm2D(channels), nn.ReLU()]
        before = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10))


TASKS = {
    "LeNet, SGD": lambda paddle: _Program(paddle, 64, _lenet, lambda p: p.optimizer.SGD(0.01)),
    "LeNet, Adam": lambda paddle: _Program(paddle, 64, _lenet, lambda p: p.optimizer.Adam(0.001)),
    "LeNet, 8 images": lambda paddle: _Program(paddle, 8, _lenet, lambda p: p.optimizer.SGD(0.01)),
    "batch norm": lambda paddle: _Program(paddle, 32, _batch_norms, lambda p: p.optimizer.Momentum(0.01, 0.9)),
}


def work(library: str) -> None:
    """Answer requests: the losses of the first steps of a task, then the seconds of each step in a turn."""
    if library == "paddle":
        import paddle
    else:
        import polyreme as paddle  # type: ignore[no-redef]
    paddle.enable_static()
    programs = {name: make(paddle) for name, make in TASKS.items()}
    answer(
        lambda request: {"losses": [programs[request["task"]]() for _ in range(STEPS)]}
        if "seconds" not in request
        else {"seconds": turn(programs[request["task"]], request["seconds"])}
    )


def measure(pythons: dict[str, str], threads: int, rounds: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Microseconds of a step by task and library: the tenth percentile of each round's turn. `SystemExit` where losses differ."""
    workers = started("benchmarks.static_training", pythons, threads)
    try:
        for task in TASKS:
            ours, *others = (worker.ask(task=task)["losses"] for worker in workers.values())
            for losses in others:
                if not np.allclose(ours, losses, rtol=LARGEST_DIFFERENCE):
                    raise SystemExit(f"{task}: expected the same losses but got {ours} and {losses}")
        return in_turns(workers, TASKS, WARM_TURNS, rounds, seconds)
    finally:
        for worker in workers.values():
            worker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle-python", help="a Python that has paddlepaddle")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0])
        return
    pythons = {"polyreme": sys.executable, "paddle": options.paddle_python}
    for threads in options.threads:
        print(f"{platform.machine()}, {os.cpu_count()} cores; {threads} threads, {options.rounds} rounds\n")
        print(table(measure({k: v for k, v in pythons.items() if v}, threads, options.rounds, options.seconds)), flush=True)
        print()


if __name__ == "__main__":
    main()
