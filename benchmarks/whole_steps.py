"""Whole steps of training inside of `to_static`, beside torch and Paddle: forward, loss, backward, Adam's update, gradients cleared.

    python -m benchmarks.whole_steps --paddle-python ../peers/bin/python --torch-python ../torch/bin/python

Each library runs in a process of its own, on one thread or two, in rounds: in a round each is timed for a short turn, one after another. A
figure is the median over the rounds of a turn's tenth percentile, the ratio the median of the rounds' ratios. `polyreme` compiles the whole
step; so does `paddle-static`, as far as its `to_static` does; `paddle` and `torch` run eagerly, `torch-compile` has a compiled model.

- `MLP`: 784-512-512-10 with ReLU, 128 rows.
- `LeNet`: two convolutions, two poolings and three products, 64 images of 28 x 28.
- `encoder`: four layers of a Transformer encoder, 256 wide, 4 heads, 1024 within, 8 batches of 128, no dropout.
- `adversaries`: a generator 64-256-784 and a judge 784-256-1, 64 rows, each with an Adam of its own.

Before anything is timed, all libraries are given the same weights and have to give the same losses for five steps.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.eager import in_turns, started, table, turn
from benchmarks.processes import answer

WARM_TURNS = 3  # turns that are not counted
STEPS = 5  # whose losses are compared
LARGEST_DIFFERENCE = 1e-3  # of a loss, relative
TASKS = ("MLP", "LeNet", "encoder", "adversaries")
LIBRARIES = ("polyreme", "paddle", "paddle-static", "torch", "torch-compile")


class _Words:
    """A library's words for what the tasks need; layers of torch and of Paddle differ in names, and in how weights lie."""

    def __init__(self, library: str, threads: int):
        self.library, self.is_torch = library, library.startswith("torch")
        if self.is_torch:
            import torch

            torch.set_num_threads(threads)
            self.lib: Any = torch
        else:
            self.lib = __import__("polyreme" if library == "polyreme" else "paddle")
        self.nn = self.lib.nn
        self.functional = self.nn.functional

    def tensor(self, array: Any) -> Any:
        return self.lib.from_numpy(array) if self.is_torch else self.lib.to_tensor(array)

    def conv(self, *args: int, padding: int = 0) -> Any:
        return (self.nn.Conv2d if self.is_torch else self.nn.Conv2D)(*args, padding=padding)

    def pool(self) -> Any:
        return (self.nn.MaxPool2d if self.is_torch else self.nn.MaxPool2D)(2, 2)

    def filled(self, *nets: Any) -> Any:
        """The nets with the same weights in every library."""
        draw = np.random.default_rng(0)
        for net in nets:
            for _, parameter in sorted(net.named_parameters(), key=lambda pair: pair[0]):
                shape = list(parameter.shape)
                turned = self.is_torch and len(shape) == 2
                sizes = shape[::-1] if turned else shape
                drawn = draw.standard_normal(sizes) / max(1, sizes[0] if len(sizes) == 2 else int(np.prod(sizes[1:]))) ** 0.5
                values = np.ascontiguousarray((drawn.T if turned else drawn).astype("float32"))
                with self.lib.no_grad():
                    parameter.copy_(self.tensor(values)) if self.is_torch else parameter.set_value(values)
        return nets[0] if len(nets) == 1 else nets

    def adam(self, net: Any) -> Any:
        if self.is_torch:
            return self.lib.optim.Adam(net.parameters(), lr=1e-3)
        return self.lib.optimizer.Adam(1e-3, parameters=net.parameters())

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad() if self.is_torch else optimizer.clear_grad()

    def net(self, net: Any) -> Any:
        return self.lib.compile(net) if self.library == "torch-compile" else net

    def step(self, step: Callable[..., Any], *args: Any) -> Callable[[], float]:
        if self.library == "polyreme":
            step = self.lib.jit.to_static(step, full_graph=True)
        elif self.library == "paddle-static":
            step = self.lib.jit.to_static(step)
        return lambda: float(step(*args))


class _Block:
    """A layer of the encoder, in words that all libraries share."""

    def __new__(cls, words: _Words, width: int, heads: int, within: int) -> Any:
        nn, functional = words.nn, words.functional
        base: Any = nn.Module if words.is_torch else nn.Layer

        class Block(base):
            def __init__(self) -> None:
                super().__init__()
                self.a_query, self.b_key, self.c_value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
                self.d_out, self.e_wide, self.f_narrow = nn.Linear(width, width), nn.Linear(width, within), nn.Linear(within, width)
                self.g_norm, self.h_norm = nn.LayerNorm(width), nn.LayerNorm(width)

            def forward(self, x: Any) -> Any:
                rows, length = x.shape[0], x.shape[1]
                turn_over = (lambda t: t.permute(0, 2, 1, 3)) if words.is_torch else (lambda t: t.transpose([0, 2, 1, 3]))
                q, k, v = (
                    turn_over(made(x).reshape([rows, length, heads, width // heads])) for made in (self.a_query, self.b_key, self.c_value)
                )
                seen = functional.softmax(q @ (k.permute(0, 1, 3, 2) if words.is_torch else k.transpose([0, 1, 3, 2])) * 0.125, -1) @ v
                x = self.g_norm(x + self.d_out(turn_over(seen).reshape([rows, length, width])))
                return self.h_norm(x + self.f_narrow(functional.relu(self.e_wide(x))))

        return Block()


def _classifier(words: _Words, net: Any, images: Any, classes: int) -> Callable[[], float]:
    made = words.net(words.filled(net))
    optimizer = words.adam(net)
    labels = words.tensor(np.random.default_rng(2).integers(0, classes, len(images)))
    functional = words.functional

    def step(x: Any, y: Any) -> Any:
        loss = functional.cross_entropy(made(x), y)
        loss.backward()
        optimizer.step()
        words.clear(optimizer)
        return loss

    return words.step(step, words.tensor(images), labels)


def task(name: str, words: _Words) -> Callable[[], float]:
    """A step, which gives its loss."""
    nn, functional = words.nn, words.functional
    draw = np.random.default_rng(1)
    if name == "MLP":
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        return _classifier(words, net, draw.standard_normal((128, 784)).astype("float32"), 10)
    if name == "LeNet":
        net = nn.Sequential(
            words.conv(1, 6, 3, padding=1), nn.ReLU(), words.pool(), words.conv(6, 16, 5), nn.ReLU(), words.pool(), nn.Flatten(),
            nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
        )  # fmt: skip
        return _classifier(words, net, draw.standard_normal((64, 1, 28, 28)).astype("float32"), 10)
    if name == "encoder":
        encoder = words.filled(nn.Sequential(*[_Block(words, 256, 4, 1024) for _ in range(4)]))
        made, for_encoder = words.net(encoder), words.adam(encoder)

        def encode(x: Any, y: Any) -> Any:
            loss = functional.mse_loss(made(x), y)
            loss.backward()
            for_encoder.step()
            words.clear(for_encoder)
            return loss

        return words.step(encode, *(words.tensor(draw.standard_normal((8, 128, 256)).astype("float32")) for _ in range(2)))
    maker = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())
    judge = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 1))
    words.filled(maker, judge)
    for_maker, for_judge = words.adam(maker), words.adam(judge)
    make, judged = words.net(maker), words.net(judge)

    def adversaries(noise: Any, real: Any) -> Any:
        drawn = make(noise)
        lost = functional.softplus(-judged(real)).mean() + functional.softplus(judged(drawn.detach())).mean()
        lost.backward()
        for_judge.step()
        words.clear(for_judge)
        won = functional.softplus(-judged(drawn)).mean()
        won.backward()
        for_maker.step()
        words.clear(for_maker)
        words.clear(for_judge)
        return lost.detach() + won.detach()

    given = [draw.standard_normal(shape).astype("float32") for shape in ((64, 64), (64, 784))]
    return words.step(adversaries, *map(words.tensor, given))


def work(library: str, threads: int) -> None:
    """Answer requests: the losses of the first steps of a task, then the seconds of each step in a turn."""
    words = _Words(library, threads)
    steps: dict[str, Callable[[], float]] = {}

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        name = request["task"]
        if name not in steps:
            steps[name] = task(name, words)
        if "seconds" not in request:
            return {"losses": [steps[name]() for _ in range(STEPS)]}
        return {"seconds": turn(steps[name], request["seconds"])}

    answer(handle)


def measure(pythons: dict[str, str], tasks: Sequence[str], threads: int, rounds: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Microseconds of a step by task and library: the tenth percentile of each round's turn. `SystemExit` where losses differ."""
    workers = started("benchmarks.whole_steps", pythons, threads)
    try:
        for name in tasks:
            ours, *others = (worker.ask(task=name)["losses"] for worker in workers.values())
            for losses in others:
                if not np.allclose(ours, losses, rtol=LARGEST_DIFFERENCE):
                    raise SystemExit(f"{name}: expected the same losses but got {ours} and {losses}")
        return in_turns(workers, tasks, WARM_TURNS, rounds, seconds)
    finally:
        for worker in workers.values():
            worker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle-python", help="a Python that has paddlepaddle")
    parser.add_argument("--torch-python", help="a Python that has torch")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES[1:], default=LIBRARIES[1:], help="the peers")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], int(options.worker[1]))
        return
    pythons = {"polyreme": sys.executable}
    pythons |= {name: options.torch_python if name.startswith("torch") else options.paddle_python for name in options.libraries}
    for threads in options.threads:
        print(f"{platform.machine()}, {os.cpu_count()} cores; {threads} threads, {options.rounds} rounds\n")
        found = measure({k: v for k, v in pythons.items() if v}, options.tasks, threads, options.rounds, options.seconds)
        print(table(found), flush=True)
        print()


if __name__ == "__main__":
    main()
