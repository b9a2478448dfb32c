"""Dygraph mode beside Paddle's and torch's eager mode: what an op costs, and what a step of training costs.

    python -m benchmarks.eager --paddle-python ../peers/bin/python --torch-python ../torch/bin/python

Each library runs in a process of its own, on one thread or two, in rounds: in a round each is timed for a short turn, one after another, so
that a slow moment of the machine meets them all. A figure is the median over the rounds of a turn's tenth percentile, a ratio the median of
the rounds' ratios.

Ours and Paddle run the same lines, torch the same in its own words:

- `add`: `x + y` of one element, no gradient.
- `add, taped`: the same where `x` needs a gradient, so that the step is recorded; and freed again.
- `chain, backward`: ten multiplications and additions of 64 elements, their sum, and `backward`.
- `matmul`: 256 x 256 by 256 x 256.
- `LeNet step`: forward, cross entropy, backward and an SGD update on 64 images of 28 x 28.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.processes import Worker, answer

# Turns that are not counted. Ops that turn out to be dear are compiled after some tenths of a second of them: a training loop is past that
# soon.
WARM_TURNS = 20
TASKS = ("add", "add, taped", "chain, backward", "matmul", "LeNet step")
Task = Callable[[], Any]


def paddle_tasks(paddle: Any) -> dict[str, Task]:
    """The tasks in Paddle's words, for Polyreme and Paddle alike."""
    paddle.seed(0)
    rng = np.random.default_rng(0)
    x, y = paddle.to_tensor([1.5]), paddle.to_tensor([2.5])
    z = paddle.to_tensor([1.5], stop_gradient=False)
    line = paddle.to_tensor(rng.standard_normal(64).astype("float32"), stop_gradient=False)
    square = paddle.to_tensor(rng.standard_normal((256, 256)).astype("float32"))
    images = paddle.to_tensor(rng.standard_normal((64, 1, 28, 28)).astype("float32"))
    labels = paddle.to_tensor(rng.integers(0, 10, (64, 1)))
    net = paddle.vision.models.LeNet()
    loss_of = paddle.nn.CrossEntropyLoss()
    sgd = paddle.optimizer.SGD(0.01, parameters=net.parameters())

    def chain() -> None:
        value = line
        for _ in range(5):
            value = value * line + line
        value.sum().backward()
        line.clear_grad()

    def step() -> Any:
        loss = loss_of(net(images), labels)
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return loss

    return {
        "add": lambda: x + y,
        "add, taped": lambda: z + y,
        "chain, backward": chain,
        "matmul": lambda: paddle.matmul(square, square),
        "LeNet step": step,
    }


def torch_tasks(torch: Any) -> dict[str, Task]:
    """The tasks in torch's words."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = torch.tensor([1.5]), torch.tensor([2.5])
    z = torch.tensor([1.5], requires_grad=True)
    line = torch.tensor(rng.standard_normal(64).astype("float32"), requires_grad=True)
    square = torch.tensor(rng.standard_normal((256, 256)).astype("float32"))
    images = torch.tensor(rng.standard_normal((64, 1, 28, 28)).astype("float32"))
    labels = torch.tensor(rng.integers(0, 10, 64))
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10),
    )  # fmt: skip
    loss_of = nn.CrossEntropyLoss()
    sgd = torch.optim.SGD(net.parameters(), 0.01)

    def chain() -> None:
        value = line
        for _ in range(5):
            value = value * line + line
        value.sum().backward()
        line.grad = None

    def step() -> Any:
        loss = loss_of(net(images), labels)
        loss.backward()
        sgd.step()
        sgd.zero_grad()
        return loss

    return {
        "add": lambda: x + y,
        "add, taped": lambda: z + y,
        "chain, backward": chain,
        "matmul": lambda: torch.matmul(square, square),
        "LeNet step": step,
    }


def tasks_of(library: str, threads: int) -> dict[str, Task]:
    """The tasks of one library, imported here and nowhere else."""
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
        return torch_tasks(torch)
    if library == "paddle":
        import paddle

        return paddle_tasks(paddle)
    import polyreme

    return paddle_tasks(polyreme)


def work(library: str, threads: int) -> None:
    """Answer requests for a turn of a task: the seconds of each call."""
    tasks = tasks_of(library, threads)
    answer(lambda request: {"seconds": turn(tasks[request["task"]], request["seconds"])})


def turn(task: Task, seconds: float) -> list[float]:
    """Seconds per call, for about `seconds`; quick calls are timed in groups, so that the clock does not count."""
    start = time.perf_counter()
    task()
    once = time.perf_counter() - start
    group = max(1, int(2e-4 / max(once, 1e-7)))
    taken = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not taken:
        start = time.perf_counter()
        for _ in range(group):
            task()
        taken.append((time.perf_counter() - start) / group)
    return taken


def measure(pythons: dict[str, str], threads: int, rounds: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Microseconds by task and library: the tenth percentile of each round's turn."""
    workers = started("benchmarks.eager", pythons, threads)
    try:
        return in_turns(workers, TASKS, WARM_TURNS, rounds, seconds)
    finally:
        for worker in workers.values():
            worker.stop()


def started(module: str, pythons: dict[str, str], threads: int) -> dict[str, Worker]:
    """A process of `module` for each library, on so many threads; its `--worker` is given the library and their number."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), POLYREME_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    return {name: Worker(name, [python, "-m", module, "--worker", name, str(threads)], env) for name, python in pythons.items()}


def in_turns(
    workers: dict[str, Worker], tasks: Iterable[str], warm: int, rounds: int, seconds: float
) -> dict[str, dict[str, list[float]]]:
    """Microseconds by task and library: the tenth percentile of each round's turn. The first `warm` rounds, which load, compile and fill
    caches, are not counted.
    """
    found: dict[str, dict[str, list[float]]] = {task: {name: [] for name in workers} for task in tasks}
    for task, taken in found.items():
        for number in range(rounds + warm):
            for name, worker in workers.items():
                reply = worker.ask(task=task, seconds=seconds)
                if number >= warm:
                    taken[name].append(float(np.percentile(reply["seconds"], 10)) * 1e6)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Microseconds, and how many times as long the best of the peers takes (the rounds' median, with their range), as Markdown."""
    names = list(next(iter(found.values())))
    rows = [f"| | {', µs | '.join(names)}, µs | best peer / ours |", "| --- |" + " --- |" * (len(names) + 1)]
    for task, taken in found.items():
        ratios = sorted(min(peers) / ours for ours, *peers in zip(*taken.values(), strict=True)) if len(names) > 1 else []
        told = f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else ""
        rows.append(f"| {task} | {' | '.join(f'{statistics.median(us):.1f}' for us in taken.values())} | {told} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle-python", help="a Python that has paddlepaddle")
    parser.add_argument("--torch-python", help="a Python that has torch")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], int(options.worker[1]))
        return
    pythons = {"polyreme": sys.executable, "paddle": options.paddle_python, "torch": options.torch_python}
    for threads in options.threads:
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; {threads} thread(s), {options.rounds} "
            f"rounds\n"
        )
        print(
            table(measure({name: python for name, python in pythons.items() if python}, threads, options.rounds, options.seconds)),
            flush=True,
        )
        print()


if __name__ == "__main__":
    main()
