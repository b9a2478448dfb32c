"""One LeNet on handwritten digits through every door: dygraph, to_static or a static Program; CPU or GPU; one process or two.

    python examples/digits.py --mode dygraph
    python examples/digits.py --mode static --ranks 2
    python examples/digits.py --mode to_static --device gpu-emulated --width 2 --batch 8 --steps 3
    python examples/digits.py --mode to_static --steps 400 --output examples/digits.wasm

The same seed gives the same losses, within rounding, whichever way is taken. Prints the loss of every step. With `--output` the trained
net is written as a library; `digits.html` classifies what is drawn by the module of WebAssembly.
"""

import argparse
import time

import numpy as np

import polyreme as paddle

MODES = ("dygraph", "to_static", "static")


class LeNet(paddle.nn.Layer):
    """LeNet for 1x28x28; `width` is the number of channels of the first convolution (6 in the original)."""

    def __init__(self, width):
        super().__init__()
        self.features = paddle.nn.Sequential(
            paddle.nn.Conv2D(1, width, 3, padding=1),
            paddle.nn.ReLU(),
            paddle.nn.MaxPool2D(2, 2),
            paddle.nn.Conv2D(width, 3 * width - 2, 5),
            paddle.nn.ReLU(),
            paddle.nn.MaxPool2D(2, 2),
        )
        self.fc = paddle.nn.Sequential(
            paddle.nn.Linear(25 * (3 * width - 2), 20 * width),
            paddle.nn.Linear(20 * width, 14 * width),
            paddle.nn.Linear(14 * width, 10),
        )

    def forward(self, images):
        return self.fc(paddle.flatten(self.features(images), 1))


def batches(steps, size, rank, ranks):
    """Rank `rank`'s part of each of `steps` batches of `size` images: every rank sees the same order."""
    images, labels = paddle.data.digits("train")
    order = np.random.default_rng(0).permutation(len(labels))
    for step in range(steps):
        chosen = np.take(order, range(step * size, (step + 1) * size), mode="wrap").reshape(ranks, -1)[rank]
        yield images[chosen], labels[chosen][:, None]


def dynamic_steps(options, net, rank, compiled):
    """Train with the tape; `compiled` runs forward and backward as one program each."""
    model = paddle.DataParallel(net) if options.ranks > 1 else net
    loss_of = paddle.nn.CrossEntropyLoss()
    adam = paddle.optimizer.Adam(learning_rate=options.rate, parameters=net.parameters())

    def loss_on(images, labels):
        return loss_of(model(images), labels)

    if compiled:
        loss_on = paddle.jit.to_static(loss_on)
    for images, labels in batches(options.steps, options.batch, rank, options.ranks):
        loss = loss_on(paddle.to_tensor(images), paddle.to_tensor(labels))
        loss.backward()
        adam.step()
        adam.clear_grad()
        yield loss.detach()


def static_steps(options, rank):
    """Train with a Program: one run of the executor is forward, backward and update."""
    paddle.enable_static()
    images = paddle.static.data("images", [None, 1, 28, 28], "float32")
    labels = paddle.static.data("labels", [None, 1], "int64")
    loss = paddle.nn.CrossEntropyLoss()(LeNet(options.width)(images), labels)
    adam = paddle.optimizer.Adam(learning_rate=options.rate)
    if options.ranks > 1:
        adam = paddle.distributed.fleet.distributed_optimizer(adam)
    adam.minimize(loss)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    for image_batch, label_batch in batches(options.steps, options.batch, rank, options.ranks):
        (value,) = executor.run(feed={"images": image_batch, "labels": label_batch}, fetch_list=[loss])
        yield value


def train(options):
    """One rank's work."""
    rank = 0
    if options.ranks > 1:
        paddle.distributed.init_parallel_env()
        rank = paddle.distributed.get_rank()
    paddle.set_device(options.device)
    paddle.seed(options.seed)
    start = time.perf_counter()
    if options.mode == "static":
        losses = static_steps(options, rank)
    else:
        net = LeNet(options.width)
        losses = dynamic_steps(options, net, rank, options.mode == "to_static")
    for step, value in enumerate(losses):
        # Equal parts of the batch: the mean of the ranks' losses is the batch's.
        loss = mean_over_ranks(float(value), options.ranks)
        if rank == 0:
            print(f"step {step:3}  loss {loss:.6f}", flush=True)
    if rank == 0 and options.time:
        print(f"{time.perf_counter() - start:.2f} s")
    if rank == 0 and options.output:
        net.eval()
        paddle.compile(net, options.output, input_spec=[paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")])


def mean_over_ranks(value, ranks):
    """The mean of a number over the ranks."""
    if ranks == 1:
        return value
    paddle.disable_static()
    total = paddle.to_tensor(value)
    paddle.distributed.all_reduce(total)
    return float(total) / ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="dygraph")
    parser.add_argument("--device", choices=("cpu", "gpu-emulated", "gpu"), default="cpu")
    parser.add_argument("--ranks", type=int, choices=(1, 2), default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=6)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--time", action="store_true", help="print the seconds that training took")
    parser.add_argument("--output", help="write the trained net there as a library: .so, .a, .o or .wasm")
    options = parser.parse_args()
    if options.output and options.mode == "static":
        parser.error("--output writes the net of --mode dygraph or to_static")
    if options.ranks == 1:
        train(options)
    else:
        paddle.distributed.spawn(train, args=(options,), nprocs=options.ranks)


if __name__ == "__main__":
    main()
