"""`polyreme demo`: the main job on real data, from a Layer to a library, with every claim checked on the way."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from polyreme.cli import Command
from polyreme.cli.reports import is_quiet, writing
from polyreme.cli.timing import duration, measure
from polyreme.ir.diagnostics import PolyremeError

LEAST_ACCURACY = 0.97
LARGEST_DIFFERENCE = 1e-5
EPOCHS = 30
SHIFT = 2  # training images are moved by up to so many pixels: there are few of them
BATCH = 64


EXAMPLES = (("Keep what it makes: the library, its header, the IR of every level", "polyreme demo --output kept"),)


@click.command("demo", cls=Command, examples=EXAMPLES)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Keep the library, its header and the IR in this folder."
)
@click.option("--epochs", type=click.IntRange(min=1), default=EPOCHS, show_default=True)
@click.option("--seed", type=int, default=2026, show_default=True)
def command(output: Path | None, epochs: int, seed: int) -> None:
    """Train a LeNet on handwritten digits, look at its IR, compile it, run the library, and compare.

    The digits are the 1,797 of the UCI repository (CC BY 4.0); 357 of them are held out.
    """
    folder = output or Path(tempfile.mkdtemp(prefix="polyreme-demo-"))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    demo = Demo(folder, seed)
    with _phase("train a LeNet with compiled forward and backward"):
        demo.train(epochs)
    with _phase("the same network at every level of IR"):
        demo.show_levels()
    with _phase("compile ahead of time"):
        demo.compile()
    with _phase("eager, compiled and library, side by side"):
        demo.compare()


@contextmanager
def _phase(title: str) -> Iterator[None]:
    from rich.console import Console

    console = Console(highlight=False)
    if is_quiet():
        yield
        return
    console.print(f"\n[bold]{title}[/bold]" if console.is_terminal else f"\n{title}")
    start = time.perf_counter()
    yield
    console.print(f"  ({duration(time.perf_counter() - start)})", style="dim" if console.is_terminal else "")


def _say(text: str) -> None:
    if not is_quiet():
        click.echo("  " + text)


class Demo:
    """The parts of the demo; each leaves what the next needs."""

    def __init__(self, folder: Path, seed: int):
        import polyreme as paddle

        self.paddle = paddle
        self.folder = folder
        paddle.seed(seed)
        self.random = np.random.default_rng(seed)
        self.images, self.labels = paddle.data.digits("test")
        self.net = paddle.vision.models.LeNet()
        self.spec = [paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")]

    def train(self, epochs: int) -> None:
        """Adam on the loss that one compiled program computes, forward and backward."""
        from rich.progress import Progress

        paddle = self.paddle
        net, loss_of = self.net, paddle.nn.CrossEntropyLoss()

        @paddle.jit.to_static
        def loss_on(images: Any, labels: Any) -> Any:
            return loss_of(net(images), labels)

        rate = paddle.optimizer.lr.CosineAnnealingDecay(2e-3, T_max=epochs)
        adam = paddle.optimizer.Adam(learning_rate=rate, parameters=net.parameters())
        data = paddle.vision.datasets.Digits("train", transform=self.moved)
        batches = paddle.io.DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
        net.train()
        losses: list[float] = []
        with Progress(disable=is_quiet() or not _on_terminal(), transient=True) as progress:
            task = progress.add_task("training", total=epochs * len(batches))
            for epoch in range(epochs):
                losses.clear()
                for images, labels in batches:
                    loss = loss_on(images, labels)
                    loss.backward()
                    adam.step()
                    adam.clear_grad()
                    losses.append(float(loss))
                    progress.advance(task)
                rate.step()
                if epoch in (0, epochs // 2, epochs - 1):
                    _say(f"epoch {epoch + 1:2}: mean loss {np.mean(losses):.4f}")
        net.eval()
        with paddle.no_grad():
            _check_accuracy(_accuracy(net(paddle.to_tensor(self.images)).numpy(), self.labels))

    def moved(self, image: Any) -> Any:
        """The image [1, 28, 28], moved at random."""
        return np.roll(image, self.random.integers(-SHIFT, SHIFT + 1, 2), axis=(1, 2))

    def show_levels(self) -> None:
        """The first lines of each level, and where the rest is."""
        seen = self.paddle.inspect(self.net, self.spec)
        for level, suffix in (("nn", "tir"), ("tensor", "tir"), ("kernel", "tir"), ("llvm", "ll"), ("asm", "s")):
            text = seen.level(level)
            file = self.folder / f"lenet.{level}.{suffix}"
            file.write_text(text, encoding="utf-8")
            _say(f"{level}: {len(text.splitlines())} lines in {file}")
            for line in _excerpt(text):
                _say(f"    {line[:110]}")

    def compile(self) -> None:
        """A library and its header."""
        file = self.folder / "lenet.so"
        self.library = self.paddle.compile(self.net, file, input_spec=self.spec)
        _say(f"{file}: {file.stat().st_size / 1024:.0f} KiB, {self.library}")
        _say(f"{file.with_suffix('.h')}: the C interface")

    def compare(self) -> None:
        """Accuracy, agreement and latency; a claim that does not hold is an error."""
        paddle = self.paddle
        eager = self.net
        compiled = paddle.jit.to_static(_twin(self.net), input_spec=self.spec)
        tensor = paddle.to_tensor(self.images)
        with paddle.no_grad():
            scores = {"eager": eager(tensor).numpy(), "compiled": compiled(tensor).numpy(), "library": self.library(self.images)}
        accuracy = {name: _accuracy(s, self.labels) for name, s in scores.items()}
        reference = scores["eager"]
        difference = {name: float(np.abs(s - reference).max() / np.abs(reference).max()) for name, s in scores.items()}
        one = self.images[:1]
        one_tensor, all_tensor = paddle.to_tensor(one), tensor
        with paddle.no_grad():
            single = measure(
                {"eager": lambda: eager(one_tensor), "compiled": lambda: compiled(one_tensor), "library": lambda: self.library(one)},
                seconds=0.8,
            )
            many = measure(
                {
                    "eager": lambda: eager(all_tensor),
                    "compiled": lambda: compiled(all_tensor),
                    "library": lambda: self.library(self.images),
                },
                seconds=0.8,
            )
        _say(f"{'':10}{'accuracy':>10}{'difference':>13}{'batch 1':>12}{f'batch {len(self.images)}':>12}   (median latency)")
        for name in scores:
            _say(
                f"{name:10}{accuracy[name]:>10.4f}{difference[name]:>13.1e}"
                f"{duration(single[name].typical):>12}{duration(many[name].typical):>12}"
            )
        worst, largest = min(accuracy.values()), max(difference.values())
        _check_accuracy(worst)
        if not largest <= LARGEST_DIFFERENCE:
            raise PolyremeError(f"expected results that agree within {LARGEST_DIFFERENCE} but they differ by {largest:.2g}", code="E0006")
        click.echo(f"  {worst:.2%} of {len(self.labels)} held-out digits are right; the three agree within {largest:.1e}")


def _accuracy(scores: Any, labels: Any) -> float:
    """The part of the images whose highest score is that of their label."""
    return float((scores.argmax(1) == labels).mean())


def _check_accuracy(accuracy: float) -> None:
    if accuracy < LEAST_ACCURACY:
        raise PolyremeError(f"expected an accuracy of {LEAST_ACCURACY} or more on held-out digits but got {accuracy:.4f}", code="E0006")


def _twin(net: Any) -> Any:
    """Another Layer with the same weights, so that compiling one leaves the other eager."""
    twin = type(net)()
    twin.set_state_dict(net.state_dict())
    twin.eval()
    return twin


def _excerpt(text: str, lines: int = 5) -> list[str]:
    """The most telling lines of a text: some from where the first computation stands."""
    rows = [row for row in text.splitlines() if row.strip()]
    start = next(
        (
            i
            for i, row in enumerate(rows)
            if "= nn." in row or "tensor.fused" in row or "kernel.for" in row or "= fmul" in row or "vfmadd" in row
        ),
        0,
    )
    return rows[start : start + lines]


def _on_terminal() -> bool:
    from rich.console import Console

    return Console().is_terminal
