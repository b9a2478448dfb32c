"""`paddle.Model` and its callbacks beyond what the recorded cases compare with Paddle."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.hapi.progress import ProgressBar
from polyreme.utils.event_files import _checksum

COUNT, BATCH, EPOCHS, RATE = 320, 64, 4, 3e-3


def network() -> paddle.nn.Layer:
    paddle.seed(3)
    return paddle.nn.Sequential(
        paddle.nn.Flatten(), paddle.nn.Linear(784, 16), paddle.nn.ReLU(), paddle.nn.Dropout(0.2), paddle.nn.Linear(16, 10)
    )


def some_digits() -> paddle.io.Dataset:
    return paddle.io.Subset(paddle.vision.datasets.Digits("train"), range(COUNT))


def model(**options: Any) -> paddle.Model:
    made = paddle.Model(network(), **options)
    made.prepare(paddle.optimizer.Adam(RATE, parameters=made.parameters()), paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    return made


class Losses(paddle.callbacks.Callback):
    """A user's callback, which asks for nothing of its base class."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, step: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None and logs["batch_size"] == BATCH and logs["step"] == step
        self.losses.append(logs["loss"][0])


def test_fit_gives_the_losses_of_a_loop_written_by_hand() -> None:
    data, losses, seen = some_digits(), [], Losses()
    net = network()
    optimizer = paddle.optimizer.Adam(RATE, parameters=net.parameters())
    order = paddle.io.DistributedBatchSampler(data, BATCH, shuffle=True)
    for _ in range(EPOCHS):
        for image, label in paddle.io.DataLoader(data, batch_sampler=order):
            loss = paddle.nn.functional.cross_entropy(net(image), label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
    fitted = model()
    fitted.fit(data, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=seen)
    assert seen.losses == losses and losses[-1] < losses[0] * 0.9
    for ours, other in zip(fitted.parameters(), net.parameters(), strict=True):
        np.testing.assert_array_equal(ours.numpy(), other.numpy())


class Measured(paddle.callbacks.Callback):
    """Keeps losses and accuracies."""

    def __init__(self) -> None:
        self.found: list[list[float]] = []

    def on_train_batch_end(self, step: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        self.found.append([*logs["loss"], logs["acc"]])

    def on_eval_end(self, logs: dict[str, Any] | None = None) -> None:
        self.on_train_batch_end(0, logs)


class Descent(paddle.optimizer.Optimizer):
    """An optimizer of a user's own."""

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> None:
        parameter, gradient = param_and_grad
        paddle.assign(parameter - gradient * self._create_param_lr(param_and_grad), parameter)


COMPILED: dict[str, dict[str, Any]] = {
    "gathered": {"fit": {"accumulate_grad_batches": 2}},
    "scaled": {"amp": {"level": "O1", "init_loss_scaling": 64.0}},
    "of an own optimizer": {"optimizer": lambda made: Descent(0.1, made.parameters())},
    "of a schedule": {
        "optimizer": lambda made: paddle.optimizer.AdamW(paddle.optimizer.lr.StepDecay(0.05, 2), parameters=made.parameters())
    },
    "in half precision": {"amp": "O2"},
    "of a part": {"optimizer": lambda made: paddle.optimizer.Momentum(0.05, parameters=made.network[2].parameters())},
}


@pytest.mark.parametrize("case", ["scaled", *[pytest.param(c, marks=pytest.mark.slow) for c in COMPILED if c != "scaled"]])
def test_compiled_steps_of_fit_are_those_of_eager_mode(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    how, found = COMPILED[case], []
    monkeypatch.setattr("polyreme.casting.state.REGIONS.on_cpu", "amp" in how)
    draw = np.random.default_rng(0)
    rows, labels = draw.normal(size=(20, 4)).astype("float32"), draw.integers(0, 3, 20)
    data = paddle.io.TensorDataset([paddle.to_tensor(rows), paddle.to_tensor(labels)])
    for compiled in (False, True):
        paddle.seed(1)
        # A bias before the norm would have gradients of nothing but roundings.
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 6, bias_attr=False), paddle.nn.BatchNorm1D(6), paddle.nn.Linear(6, 3))
        fitted = paddle.Model(paddle.jit.to_static(net) if compiled else net)
        optimizer = how.get("optimizer", lambda made: paddle.optimizer.Adam(0.05, parameters=made.parameters()))(fitted)
        fitted.prepare(optimizer, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy(), amp_configs=how.get("amp"))
        seen = Measured()
        fitted.fit(data, data, batch_size=6, epochs=2, verbose=0, shuffle=False, callbacks=[seen], **how.get("fit", {}))
        step = fitted._step
        assert step is not None and (step.compiled is not None) is compiled
        assert step.compiled is None or "0 of parts" in str(paddle.jit.explain(step.compiled))
        found.append((seen.found, [p.astype("float32").numpy() for p in (*fitted.parameters(), *net.buffers())]))
    (losses, parameters), (others, made) = found
    np.testing.assert_allclose(others, losses, rtol=1e-4)
    for a, b in zip(parameters, made, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)


def test_evaluation_is_that_of_the_whole_set() -> None:
    data, fitted = some_digits(), model()
    fitted.fit(data, batch_size=BATCH, verbose=0)
    (logits,) = fitted.predict(data, batch_size=50, stack_outputs=True, verbose=0)
    labels = np.array([int(label[0]) for _, label in (data[i] for i in range(COUNT))])
    assert logits.shape == (COUNT, 10)
    assert fitted.evaluate(data, batch_size=50, verbose=0)["acc"] == pytest.approx(float(np.mean(logits.argmax(1) == labels)))


def test_training_goes_on_from_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, seen = some_digits(), Losses()
    with paddle.utils.unique_name.guard():
        first = model()
        first.network[3].p = 0.0  # its draws are no part of a checkpoint
        first.fit(data, batch_size=BATCH, verbose=0, save_dir=str(tmp_path / "kept"), shuffle=False)
        assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["0.pdopt", "0.pdparams", "final.pdopt", "final.pdparams"]
        assert "save checkpoint at" in capsys.readouterr().out
        first.fit(data, batch_size=BATCH, verbose=0, shuffle=False, callbacks=seen)
    # As in a program that starts anew: names, which say whose state it is, count from 0.
    with paddle.utils.unique_name.guard():
        second, again = model(), Losses()
        second.network[3].p = 0.0
        second.load(str(tmp_path / "kept" / "final"))
        second.fit(data, batch_size=BATCH, verbose=0, shuffle=False, callbacks=again)
    assert again.losses == seen.losses


def test_a_model_saved_for_inference_predicts_the_same(tmp_path: Path) -> None:
    path, images = str(tmp_path / "digits"), np.stack([some_digits()[i][0] for i in range(3)])
    told = model(inputs=paddle.static.InputSpec([None, 1, 28, 28], "float32", "image"))
    told.save(path, training=False)
    told.network.eval()
    np.testing.assert_allclose(
        paddle.jit.load(path)(paddle.to_tensor(images)).numpy(), told.predict_batch([images])[0], rtol=1e-5, atol=1e-6
    )
    untold = model()
    with pytest.raises(RuntimeError, match="needs 'inputs' or running before saving"):
        untold.save(path, training=False)
    untold.predict_batch([images])
    with pytest.warns(UserWarning, match=r"\[\[3, 1, 28, 28\]\]"):
        untold.save(path, training=False)


def test_a_checkpoint_of_another_network_is_refused_or_skipped(tmp_path: Path) -> None:
    path, fitted = str(tmp_path / "other"), model()
    fitted.save(path)
    other = paddle.Model(
        paddle.nn.Sequential(
            paddle.nn.Flatten(), paddle.nn.Linear(784, 16), paddle.nn.ReLU(), paddle.nn.Dropout(0.2), paddle.nn.Linear(16, 5)
        )
    )
    before = other.network[4].weight.numpy()
    with pytest.raises(ValueError, match=r"4.weight receives a shape \[16, 10\], but the expected shape is \[16, 5\]"):
        other.load(path)
    assert not np.array_equal(other.network[1].weight.numpy(), fitted.network[1].weight.numpy())
    with pytest.warns(UserWarning, match=r"Skip loading for 4\."):
        other.load(path + ".pdparams", skip_mismatch=True)
    np.testing.assert_array_equal(other.network[1].weight.numpy(), fitted.network[1].weight.numpy())
    np.testing.assert_array_equal(other.network[4].weight.numpy(), before)
    with pytest.raises(ValueError, match="not exists"):
        other.load(str(tmp_path / "absent"))


def test_the_best_model_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = model()
    stopping = paddle.callbacks.EarlyStopping("acc", patience=1, min_delta=2.0)
    fitted.fit(some_digits(), some_digits(), batch_size=BATCH, epochs=5, verbose=0, save_dir=str(tmp_path), callbacks=[stopping])
    assert fitted.stop_training and (tmp_path / "best_model.pdparams").exists()
    assert "Epoch 2: Early stopping." in capsys.readouterr().out
    with pytest.warns(UserWarning, match="EarlyStopping needs validation data"):
        fitted.fit(some_digits(), batch_size=BATCH, verbose=0, callbacks=[paddle.callbacks.EarlyStopping()])


def test_a_smaller_rate_is_what_updates_use() -> None:
    fitted = model()
    fitted.fit(
        some_digits(),
        some_digits(),
        batch_size=BATCH,
        epochs=3,
        verbose=0,
        callbacks=paddle.callbacks.ReduceLROnPlateau(patience=1, min_delta=9.0, verbose=0),
    )
    assert fitted._optimizer is not None and fitted._optimizer.get_lr() == pytest.approx(RATE / 100)


def test_streams_and_batches_of_the_users_own_are_data() -> None:
    class Stream(paddle.io.IterableDataset):
        def __iter__(self) -> Any:
            return (some_digits()[i] for i in range(10))

    fitted = model()
    assert set(fitted.evaluate(Stream(), batch_size=4, verbose=0)) == {"loss", "acc"}
    images, labels = np.zeros([4, 1, 28, 28], "float32"), np.zeros([4, 1], "int64")
    fitted.fit([([images], [labels])] * 3, epochs=2, verbose=0)


def test_a_bar_is_drawn_line_by_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(3, verbose=1)
    for step in (1, 2, 3):
        bar.update(step, [("loss", [0.5]), ("acc", 1e-5)])
    text = capsys.readouterr().out
    lines = [line.split(" - ") for line in text.strip().split("\n")]
    assert "\b" not in text and "\r" not in text and text.endswith("\n")
    assert [line[0].split(" [")[0] for line in lines] == ["step 1/3", "step 2/3", "step 3/3"]
    assert all(line[1:3] == ["loss: 0.5000", "acc: 1.0000e-05"] for line in lines)
    ProgressBar(3, verbose=0).update(1)
    assert not capsys.readouterr().out
    with pytest.raises(TypeError):
        ProgressBar(0)


def test_one_process_in_dynamic_mode_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = model()
    paddle.enable_static()
    try:
        with pytest.raises(RuntimeError, match="disable_static"):
            paddle.Model(fitted.network)
    finally:
        paddle.disable_static()
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="DataParallel"):
        fitted.fit(some_digits())
    with pytest.raises(ValueError, match="should be 'O0', 'O1' or 'O2'"):
        fitted.prepare(amp_configs="O3")


def events_of(path: Path) -> list[tuple[str, int, float]]:
    """The scalars of a file of events, whose lengths and fields are read one after the other."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event, data = data[12 : 12 + length], data[16 + length :]
        assert event[0] == 0x09  # the time
        event = event[9:]
        if event[0] == 0x1A:
            assert event[2:] == b"brain.Event:2"
            continue
        assert event[0] == 0x10 and event[1] < 128 and event[2] == 0x2A and event[4] == 0x0A and event[6] == 0x0A
        tag, scalar = event[8 : 8 + event[7]], event[8 + event[7] :]
        assert scalar[0] == 0x15
        found.append((tag.decode(), event[1], struct.unpack("<f", scalar[1:])[0]))
    return found


def test_losses_and_metrics_are_written_for_tensorboard(tmp_path: Path) -> None:
    seen, data = Measured(), some_digits()
    fitted = model()
    fitted.fit(data, data, batch_size=64, epochs=2, verbose=0, callbacks=[paddle.callbacks.VisualDL(str(tmp_path / "log")), seen])
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("events.out.tfevents.")
    steps = [("train", n) for n in range(1, 6)] + [("eval", 0)] + [("train", n) for n in range(6, 11)] + [("eval", 1)]
    wanted = [
        (f"{mode}/{name}", step, np.float32(value))
        for (mode, step), pair in zip(steps, seen.found, strict=True)
        for name, value in zip(("loss", "acc"), pair, strict=True)
    ]
    assert events_of(path) == wanted
    # CRC-32C of this text is 0xE3069283; it is turned by 15 bits, and moved.
    turned = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    assert _checksum(b"123456789") == struct.pack("<I", (turned + 0xA282EAD8) & 0xFFFFFFFF)
    fitted.evaluate(data, verbose=0, batch_size=64, callbacks=[paddle.callbacks.VisualDL(str(tmp_path / "alone"))])
    (path,) = (tmp_path / "alone").iterdir()
    assert [(tag, step) for tag, step, _ in events_of(path)] == [("eval/loss", 0), ("eval/acc", 0)]
