"""A training that goes on from its checkpoint, for `test_checkpoint.py`: it tells of each step, so that it can be killed anywhere."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme.incubate.checkpoint import Checkpoint

EPOCHS, BATCH, COUNT = 22, 8, 84


class Noisy(paddle.io.Dataset):
    """Rows that are drawn anew whenever they are read."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return (np.random.normal(size=6) + index % 3).astype("float32"), np.int64(index % 3)


def main(path: str, way: str, workers: int) -> None:
    """Train, `way` being "eager" or "compiled", and print a digest of all that is there in the end."""
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    paddle.seed(7)
    np.random.seed(7)
    net = paddle.nn.Sequential(
        paddle.nn.Linear(6, 16), paddle.nn.BatchNorm1D(16), paddle.nn.ReLU(), paddle.nn.Dropout(0.2), paddle.nn.Linear(16, 3)
    )
    rate = paddle.optimizer.lr.LinearWarmup(paddle.optimizer.lr.StepDecay(0.02, 40), 10, 0.0, 0.02)
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimizer = paddle.optimizer.AdamW(rate, parameters=net.parameters(), grad_clip=clip)
    scaler = paddle.amp.GradScaler(init_loss_scaling=2.0**18, incr_every_n_steps=9)
    loader = paddle.io.DataLoader(Noisy(), batch_size=BATCH, shuffle=True, drop_last=True, num_workers=workers)

    def step(x: Any, labels: Any) -> Any:
        with paddle.amp.auto_cast():
            loss = paddle.nn.functional.cross_entropy(net(x), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        return loss

    run: Any = paddle.jit.to_static(step, full_graph=True) if way == "compiled" else step
    checkpoint = Checkpoint(path, net=net, optimizer=optimizer, scaler=scaler, loader=loader)
    progress = checkpoint.load() or {"epoch": 0, "steps": 0}
    steps = progress["steps"]
    for epoch in range(progress["epoch"], EPOCHS):
        for x, labels in loader:
            run(x, labels)
            rate.step()
            steps += 1
            if steps % 3 == 0:
                checkpoint.save(epoch=epoch, steps=steps)
            print("step", steps, flush=True)
    digest = hashlib.sha256()
    for tensor in (*net.state_dict().values(), *(t for t in optimizer.state_dict().values() if isinstance(t, paddle.Tensor))):
        digest.update(tensor.numpy().tobytes())
    print("done", steps, digest.hexdigest(), scaler.state_dict()["scale"][0], optimizer.get_lr(), paddle.rand([1]).item(), np.random.rand())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
