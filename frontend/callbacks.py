"""`paddle.callbacks`: what is called while `paddle.Model` trains, evaluates and predicts."""

from __future__ import annotations

import numbers
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyreme.hapi.progress import ProgressBar
from polyreme.ir import config
from polyreme.names import listed
from polyreme.optimizer import lr
from polyreme.utils.event_files import EventWriter
from polyreme.utils.shown import Shown

__all__ = ["Callback", "EarlyStopping", "LRScheduler", "ModelCheckpoint", "ProgBarLogger", "ReduceLROnPlateau", "VisualDL"]

Logs = dict[str, Any] | None


class Callback(Shown):
    """Does nothing at every point; a subclass overrides those it wants.

    `self.model` is the `paddle.Model` (`self.model.stop_training = True` ends the training after the epoch), `self.params` a dict with
    "batch_size", "epochs", "steps" (of an epoch, or None), "verbose" and "metrics" (names). `logs` hold the loss (a list), metrics by name,
    "step" and "batch_size".
    """

    model: Any = None
    params: dict[str, Any]

    def __init__(self) -> None:
        self.model = None
        self.params = {}

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_train_begin(self, logs: Logs = None) -> None: ...

    def on_train_end(self, logs: Logs = None) -> None: ...

    def on_eval_begin(self, logs: Logs = None) -> None: ...

    def on_eval_end(self, logs: Logs = None) -> None: ...

    def on_predict_begin(self, logs: Logs = None) -> None: ...

    def on_predict_end(self, logs: Logs = None) -> None: ...

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None: ...

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None: ...

    def on_train_batch_begin(self, step: int, logs: Logs = None) -> None: ...

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None: ...

    def on_eval_batch_begin(self, step: int, logs: Logs = None) -> None: ...

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None: ...

    def on_predict_batch_begin(self, step: int, logs: Logs = None) -> None: ...

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None: ...


class CallbackList(Shown):
    """Calls several callbacks in order."""

    def __init__(self, callbacks: Sequence[Callback], model: Any, params: dict[str, Any]):
        self.callbacks = list(callbacks)
        for callback in self.callbacks:
            callback.set_model(model)
        for callback in self.callbacks:
            callback.set_params(params)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.callbacks)

    def call(self, point: str, *args: Any) -> None:
        """`point` is a method's name without its "on_"."""
        for callback in self.callbacks:
            getattr(callback, f"on_{point}")(*args)


def with_defaults(given: Any, *, log_freq: int, verbose: int, save_freq: int = 1, save_dir: str | None = None) -> list[Callback]:
    """The user's callbacks, and those of Paddle that are not among them: progress, checkpoints and the scheduler's steps."""
    found = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    if verbose and not any(isinstance(c, ProgBarLogger) for c in found):
        found.insert(0, ProgBarLogger(log_freq, verbose=verbose))
    if not any(isinstance(c, ModelCheckpoint) for c in found):
        found.append(ModelCheckpoint(save_freq, save_dir))
    for callback in found:
        if isinstance(callback, EarlyStopping):
            callback.save_dir = save_dir
    if not any(isinstance(c, LRScheduler) for c in found):
        found.append(LRScheduler())
    return found


def _is_first() -> bool:
    """Only the first rank prints and saves."""
    return config.launched().rank == 0


class _Phase:
    """Progress of one loop over batches."""

    def __init__(self, steps: int | None, metrics: Sequence[str], verbose: int):
        self.steps, self.metrics, self.verbose = steps, metrics, verbose
        self.bar = ProgressBar(steps, verbose=verbose)
        self.step = self.samples = 0
        self._since = time.time()
        self._forget()

    def _forget(self) -> None:
        self._reading = self._running = 0.0
        self._batches = self._counted = 0

    def begin(self) -> None:
        now = time.time()
        self._reading += now - self._since
        self._since = now

    def end(self, logs: dict[str, Any]) -> None:
        now = time.time()
        self._running += now - self._since
        self._since = now
        size = logs.get("batch_size", 1)
        self.step, self.samples = self.step + 1, self.samples + size
        self._batches, self._counted = self._batches + 1, self._counted + size

    def show(self, logs: dict[str, Any]) -> None:
        values = [(k, logs[k]) for k in self.metrics if k in logs]
        if self.verbose == 3:
            batches, spent = max(self._batches, 1), self._reading + self._running
            values.append(("avg_reader_cost", f"{self._reading / batches:.5f} sec"))
            values.append(("avg_batch_cost", f"{self._running / batches:.5f} sec"))
            values.append(("ips", f"{max(self._counted, 1) / spent if spent else 0.0:.5f} samples/sec"))
            self._forget()
        self.bar.update(self.step, values)


class ProgBarLogger(Callback):
    """Prints loss and metrics every `log_freq` steps: `verbose` 0 nothing, 1 a bar, 2 lines, 3 lines with times of reading and computing.
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2):
        super().__init__()
        self.log_freq, self.verbose = log_freq, verbose
        self._phase = self._test = _Phase(None, (), 0)

    def _prints(self) -> bool:
        return bool(self.verbose) and _is_first()

    def _ended(self, phase: _Phase, logs: Logs) -> None:
        phase.end(logs or {})
        if self._prints() and phase.step % self.log_freq == 0 and (phase.steps is None or phase.step < phase.steps):
            phase.show(logs or {})

    def on_train_begin(self, logs: Logs = None) -> None:
        if self._prints():
            print("The loss value printed in the log is the current step, and the metric is the average value of previous steps.")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self._prints():
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._phase = _Phase(self.params["steps"], self.params["metrics"], self.verbose)

    def on_train_batch_begin(self, step: int, logs: Logs = None) -> None:
        self._phase.begin()

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        self._ended(self._phase, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._prints() and self._phase.steps is not None:
            self._phase.show(logs or {})

    def on_eval_begin(self, logs: Logs = None) -> None:
        logs = logs or {}
        self._test = _Phase(logs.get("steps"), logs.get("metrics", []), self.verbose)
        if self._prints():
            print("Eval begin...")

    def on_eval_batch_begin(self, step: int, logs: Logs = None) -> None:
        self._test.begin()

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        self._ended(self._test, logs)

    def on_eval_end(self, logs: Logs = None) -> None:
        if self._prints() and self._test.steps is not None:
            self._test.show(logs or {})
            print(f"Eval samples: {self._test.samples}")

    def on_predict_begin(self, logs: Logs = None) -> None:
        logs = logs or {}
        self._test = _Phase(logs.get("steps"), logs.get("metrics", []), self.verbose)
        if self._prints():
            print("Predict begin...")

    def on_predict_batch_begin(self, step: int, logs: Logs = None) -> None:
        self._test.begin()

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        self._ended(self._test, logs)

    def on_predict_end(self, logs: Logs = None) -> None:
        if self._prints():
            if self._test.step % self.log_freq != 0 or self.verbose == 1:
                self._test.show(logs or {})
            print(f"Predict samples: {self._test.samples}")


class ModelCheckpoint(Callback):
    """Saves model and optimizer as `SAVE_DIR/EPOCH` every `save_freq` epochs, and as `SAVE_DIR/final` in the end; without `save_dir`
    nothing.
    """

    def __init__(self, save_freq: int = 1, save_dir: str | None = None):
        super().__init__()
        self.save_freq, self.save_dir = save_freq, save_dir

    def _save(self, name: str) -> None:
        path = f"{self.save_dir}/{name}"
        print(f"save checkpoint at {os.path.abspath(path)}")
        self.model.save(path)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.save_dir and _is_first() and epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Logs = None) -> None:
        if self.save_dir and _is_first():
            self._save("final")


class LRScheduler(Callback):
    """Steps the optimizer's learning rate scheduler, when it has one: after every batch, or every epoch."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False):
        if by_step and by_epoch:
            raise ValueError("by_step option is mutually exclusive with by_epoch")
        super().__init__()
        self.by_step, self.by_epoch = by_step, by_epoch

    def _step(self) -> None:
        scheduler = getattr(self.model._optimizer, "_learning_rate", None)
        if isinstance(scheduler, lr.LRScheduler):
            scheduler.step()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.by_epoch:
            self._step()

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        if self.by_step:
            self._step()


class _Monitor(Callback):
    """Watches a number that evaluation gives: `mode` "min", "max", or "auto", where accuracies shall grow and anything else fall."""

    def __init__(self, monitor: str, mode: str):
        super().__init__()
        if mode not in ("auto", "min", "max"):
            warnings.warn(f"{type(self).__name__} mode {mode} is unknown, fallback to auto mode.", stacklevel=3)
            mode = "auto"
        self.monitor = monitor
        self.grows = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.worst = -np.inf if self.grows else np.inf

    def _better(self, value: float, than: float, by: float) -> bool:
        return value - by > than if self.grows else value + by < than

    def _current(self, logs: Logs) -> float | None:
        """The watched number; None, with a warning where it has no such name, when there is none."""
        if logs is None or self.monitor not in logs:
            warnings.warn(f"Monitor of {type(self).__name__} should be loss or metric name.", stacklevel=3)
            return None
        value = logs[self.monitor]
        value = value[0] if isinstance(value, (list, tuple)) else value
        return float(value) if isinstance(value, numbers.Number) else None  # type: ignore[arg-type]


class EarlyStopping(_Monitor):
    """Ends the training when `monitor` has not become better by `min_delta` for `patience` evaluations, starting from `baseline` when
    given.

    With `save_best_model` and `fit(save_dir=…)` the best model is kept as `SAVE_DIR/best_model`.
    """

    def __init__(
        self, monitor: str = "loss", mode: str = "auto", patience: int = 0, verbose: int = 1, min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ):  # fmt: skip
        super().__init__(monitor, mode)
        self.patience, self.verbose, self.min_delta, self.baseline, self.save_best_model = (
            patience,
            verbose,
            abs(min_delta),
            baseline,
            save_best_model,
        )
        self.wait_epoch = self.stopped_epoch = 0
        self.best_value = self.worst if baseline is None else baseline
        self.save_dir: str | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        self.wait_epoch = 0
        self.best_value = self.worst if self.baseline is None else self.baseline

    def on_eval_end(self, logs: Logs = None) -> None:
        current = self._current(logs)
        if current is None:
            return
        best = None if self.save_dir is None or not self.save_best_model else os.path.join(self.save_dir, "best_model")
        if self._better(current, self.best_value, self.min_delta):
            self.best_value, self.wait_epoch = current, 0
            if best is not None:
                self.model.save(best)
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
                if best is not None:
                    print(f"Best checkpoint has been saved at {os.path.abspath(best)}")
        self.stopped_epoch += 1


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor`, down to `min_lr`, when `monitor` has not become better by `min_delta` for `patience`
    evaluations.

    Afterwards `cooldown` evaluations do not count. For an optimizer with a number as its learning rate; others are left alone, with a
    warning.
    """

    def __init__(
        self, monitor: str = "loss", factor: float = 0.1, patience: int = 10, verbose: int = 1, mode: str = "auto", min_delta: float = 1e-4,
        cooldown: int = 0, min_lr: float = 0,
    ):  # fmt: skip
        super().__init__(monitor, mode)
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0, but got {factor}.")
        self.factor, self.patience, self.verbose, self.min_delta, self.cooldown, self.min_lr = (
            factor,
            patience,
            verbose,
            min_delta,
            cooldown,
            min_lr,
        )
        self.cooldown_counter = self.wait = self.epoch = 0
        self.best = self.worst

    def on_train_begin(self, logs: Logs = None) -> None:
        self.cooldown_counter = self.wait = 0
        self.best = self.worst

    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def on_eval_end(self, logs: Logs = None) -> None:
        current = self._current(logs)
        if current is None:
            return
        optimizer = self.model._optimizer
        if isinstance(getattr(optimizer, "_learning_rate", None), lr.LRScheduler) or optimizer is None:
            warnings.warn("Expected learning_rate be float, but the optimizer has a scheduler or there is none.", stacklevel=2)
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self._better(current, self.best, self.min_delta):
            self.best, self.wait = current, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(optimizer)
        self.epoch += 1

    def _reduce(self, optimizer: Any) -> None:
        before = optimizer.get_lr()
        if before > np.float32(self.min_lr):
            optimizer.set_lr(max(before * self.factor, self.min_lr))
            if self.verbose > 0 and _is_first():
                print(f"\nEpoch {self.epoch + 1}: ReduceLROnPlateau reducing learning rate to {optimizer.get_lr()}.")
            self.cooldown_counter = self.cooldown
            self.wait = 0


class VisualDL(Callback):
    """Writes losses and metrics to a file in `log_dir` that TensorBoard shows: `train/loss` and the like by the number of batches so far,
    `eval/loss` by the epoch.

    The first loss of several is written, and metrics that are numbers, or the first of a list.
    """

    def __init__(self, log_dir: str):
        super().__init__()
        self.log_dir = log_dir
        self.epoch = self.train_step = 0
        self.writer: EventWriter | None = None
        self._metrics: dict[str, list[str]] = {}
        self._fits = False

    def on_train_begin(self, logs: Logs = None) -> None:
        self._metrics["train"] = list(self.params["metrics"])
        self._fits, self.train_step = True, 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        self.train_step += 1
        self._write("train", self.train_step, logs)

    def on_eval_begin(self, logs: Logs = None) -> None:
        self._metrics["eval"] = list((logs or {}).get("metrics", []))

    def on_eval_end(self, logs: Logs = None) -> None:
        self._write("eval", self.epoch, logs)
        if not self._fits:
            self._close()

    def on_train_end(self, logs: Logs = None) -> None:
        self._fits = False
        self._close()

    def _write(self, mode: str, step: int, logs: Logs) -> None:
        if not _is_first():
            return
        if self.writer is None:
            self.writer = EventWriter(self.log_dir)
        for name in self._metrics[mode]:
            value = (logs or {}).get(name)
            value = value[0] if isinstance(value, (list, tuple)) else value
            if isinstance(value, numbers.Real):
                self.writer.add_scalar(f"{mode}/{name}", float(value), step)
        self.writer.flush()

    def _close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


__dir__ = listed(__name__)
