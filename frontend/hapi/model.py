"""`paddle.Model`: a network with what trains it, and the loops over data."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from polyreme import jit
from polyreme.callbacks import CallbackList, EarlyStopping, with_defaults
from polyreme.hapi.mixed_precision import MixedPrecision, mixed_precision
from polyreme.hapi.steps import TrainingStep
from polyreme.hapi.summary import summary
from polyreme.io import DataLoader, Dataset, DistributedBatchSampler, IterableDataset
from polyreme.ir import config
from polyreme.jit import StaticFunction
from polyreme.math import to_tensor
from polyreme.metric import Metric
from polyreme.nn.layer import Layer
from polyreme.optimizer import Optimizer
from polyreme.serialization import load, save
from polyreme.static.input_spec import InputSpec
from polyreme.static.mode import in_dynamic_mode
from polyreme.tape import no_grad
from polyreme.tensor import Tensor
from polyreme.utils import flatten
from polyreme.utils.shown import Shown

__all__ = ["Model"]

Array = np.ndarray[Any, Any]


def _list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _tensors(values: Any) -> list[Tensor]:
    return [v if isinstance(v, Tensor) else to_tensor(v) for v in _list(values)]


class Model(Shown):
    """Trains, evaluates and applies `network`.

    `inputs` are the `InputSpec`s of what `forward` takes (one, a list, or a dict by argument), `labels` those of what the loss takes
    besides. Without `inputs` every argument of `forward` is one; their number says how a batch divides into inputs and labels, and saving
    for inference needs their shapes.
    """

    def __init__(self, network: Layer, inputs: Any = None, labels: Any = None):
        if not in_dynamic_mode():
            raise RuntimeError(
                "expected dynamic mode for paddle.Model: call paddle.disable_static() first, or run programs with paddle.static.Executor"
            )
        self.network = network
        self.stop_training = False
        self._optimizer: Optimizer | None = None
        self._mixed: MixedPrecision | None = None
        self._loss: Callable[..., Any] | None = None
        self._metrics: list[Metric] = []
        self._arguments = _arguments(network)
        self._inputs: list[InputSpec] | None = None
        if inputs is not None:
            self._inputs = _specs([inputs[n] for n in self._arguments if n in inputs] if isinstance(inputs, dict) else inputs)
        self._labels = _specs(labels)
        self._seen: list[InputSpec] | None = None
        self._accumulate = 1
        self._step: TrainingStep | None = None

    def _shown(self) -> dict[str, Any]:
        parts = {"optimizer": self._optimizer, "loss": self._loss, "metrics": self._metrics, "inputs": self._inputs, "labels": self._labels}
        return {"network": self.network} | {name: value for name, value in parts.items() if value}

    def prepare(self, optimizer: Optimizer | None = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None) -> None:
        """Say what to train with: the optimizer, the loss (a function of the outputs and labels; a sum is taken of several) and metrics,
        one or a list.

        `amp_configs` is a level of `paddle.amp`, "O1" or "O2", or a dict of a `level`, a `custom_white_list` and `custom_black_list`, and
        settings of `paddle.amp.GradScaler`.
        """
        if loss is not None and not callable(loss):
            raise TypeError("'loss' must be sub classes of `paddle.nn.Layer` or any callable function.")
        for metric in _list(metrics):
            if not isinstance(metric, Metric):
                raise AssertionError(f"{type(metric).__name__} is not sub class of Metric")
        self._mixed = mixed_precision(amp_configs, self.network, optimizer)
        self._optimizer, self._loss, self._metrics = optimizer, loss, _list(metrics)

    # --- one batch

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """A step of training on a batch: [losses] as arrays, or ([losses], [metrics]). Without `update` gradients are only gathered.

        Of a network under `paddle.jit.to_static` the whole step is compiled, gradients and updates with it, wherever that can be.
        """
        if self._optimizer is None or self._loss is None:
            raise AssertionError("model not ready, please call `model.prepare()` first, with an optimizer and a loss")
        self.network.train()
        given, targets = self._given(inputs), _tensors(labels)
        parts = self.network, self._optimizer, self._loss, self._mixed
        if self._step is None or not self._step.is_for(*parts):
            self._step = TrainingStep(*parts)
        losses, outputs = self._step(given, targets, update)
        found = [loss.numpy() for loss in losses]
        return (found, self._measured(outputs, targets)) if self._metrics else found

    @no_grad()
    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Losses and metrics of a batch as `train_batch` returns them; without a loss only metrics."""
        self.network.eval()
        outputs, targets = self._outputs(inputs), _tensors(labels)
        losses = [] if self._loss is None else [loss.numpy() for loss in _list(self._loss(*outputs, *targets))]
        metrics = self._measured(outputs, targets)
        if self._loss is None:
            return metrics
        return (losses, metrics) if metrics else losses

    @no_grad()
    def predict_batch(self, inputs: Any) -> list[Array]:
        """What the network makes of a batch, in evaluation mode."""
        self.network.eval()
        return [output.numpy() for output in self._outputs(inputs)]

    def _outputs(self, inputs: Any) -> list[Any]:
        """What the network makes of a batch: of a network in half precision in the region of training."""
        given, mixed = self._given(inputs), self._mixed
        with nullcontext() if mixed is None or mixed.level != "O2" else mixed.region():
            return _list(self.network(*given))

    def _given(self, inputs: Any) -> list[Tensor]:
        """The inputs of a batch as tensors, whose types are remembered."""
        given = _tensors(inputs)
        self._seen = [InputSpec(list(x.shape), x.dtype, name) for x, name in zip(given, self._arguments, strict=False)]
        return given

    def _measured(self, outputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        with no_grad():
            return [
                m.update(*(x.numpy() if isinstance(x, Tensor) else x for x in _list(m.compute(*outputs, *targets)))) for m in self._metrics
            ]

    # --- loops over data

    def fit(
        self, train_data: Any = None, eval_data: Any = None, batch_size: int | Sequence[int] = 1, epochs: int = 1, eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None, save_freq: int = 1, verbose: int = 2, drop_last: bool = False, shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None, accumulate_grad_batches: int = 1, num_iters: int | None = None,
    ) -> None:  # fmt: skip
        """Train for `epochs` over `train_data`, a Dataset (then batched by `batch_size`, one number or (training, evaluation)) or any
        iterable of batches.

        `eval_data` is evaluated every `eval_freq` epochs. `save_dir` keeps checkpoints every `save_freq` epochs, `accumulate_grad_batches`
        updates only after so many batches, `num_iters` ends the training after so many batches. `verbose`: 0 silent, 1 a bar, 2 lines every
        `log_freq` batches, 3 with times.
        """
        if train_data is None:
            raise AssertionError("train_data must be given!")
        if config.launched().size > 1:
            raise RuntimeError(
                "expected one process for Model.fit: train on several with a loop of your own around paddle.DataParallel(network)"
            )
        sizes = [batch_size, batch_size] if isinstance(batch_size, int) else list(batch_size)
        if len(sizes) != 2:
            raise AssertionError(f"batch_size length error, expected train_batch_size and eval_batch_size but got {batch_size}")
        loader = _loader(train_data, sizes[0], num_workers, shuffle=shuffle, drop_last=drop_last)
        held_out = None if eval_data is None else _loader(eval_data, sizes[1], num_workers)
        steps = _length(loader)
        if num_iters is not None:
            _check_iterations(num_iters)
            if steps is not None:
                epochs, steps = num_iters // steps + 1, min(num_iters, steps)
        self._accumulate = accumulate_grad_batches
        self.stop_training = False
        called = self._called(
            with_defaults(callbacks, log_freq=log_freq, verbose=verbose, save_freq=save_freq, save_dir=save_dir),
            epochs=epochs,
            steps=steps,
            verbose=verbose,
        )
        if held_out is None and any(isinstance(c, EarlyStopping) for c in called):
            warnings.warn("EarlyStopping needs validation data.", stacklevel=2)
        logs: dict[str, Any] = {}
        left = num_iters
        called.call("train_begin", None)
        for epoch in range(epochs):
            called.call("epoch_begin", epoch, None)
            logs, ran = self._epoch(loader, called, "train", self._train_step, left)
            left = None if left is None else left - ran
            called.call("epoch_end", epoch, logs)
            if held_out is not None and epoch % eval_freq == 0:
                self._evaluate(held_out, called, None)
            if self.stop_training or left == 0:
                break
        called.call("train_end", logs)


    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """The loss (of the last batch, a list) and metrics by name over `eval_data`, or its first `num_iters` batches."""
        if num_iters is not None:
            _check_iterations(num_iters)
        called = self._called(with_defaults(callbacks, log_freq=log_freq, verbose=verbose), verbose=verbose)
        logs = self._evaluate(_loader(eval_data, batch_size, num_workers), called, num_iters)
        return {name: logs[name] for name in self._metric_names()}


    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """What the network makes of `test_data`: for each output a tuple of arrays, one a batch; with `stack_outputs` one array of all
        batches.
        """
        loader = _loader(test_data, batch_size, num_workers)
        called = self._called(with_defaults(callbacks, log_freq=2, verbose=verbose), metrics=[], verbose=verbose)
        count, batches = len(self._inputs or self._arguments), list[list[Array]]()

        def step(data: list[Any], number: int, logs: dict[str, Any]) -> None:
            batches.append(self.predict_batch(data[:count]))

        called.call("predict_begin", {"steps": _length(loader)})
        logs, _ = self._epoch(loader, called, "predict", step)
        outputs: list[Any] = list(zip(*batches, strict=True))
        if stack_outputs:
            outputs = [np.vstack(parts) for parts in outputs]
        called.call("predict_end", logs)
        return outputs

    def _called(self, callbacks: Any, **params: Any) -> CallbackList:
        return CallbackList(
            callbacks, self, {"batch_size": None, "epochs": None, "steps": None, "verbose": None, "metrics": self._metric_names(), **params}
        )

    def _evaluate(self, loader: Any, called: CallbackList, limit: int | None) -> dict[str, Any]:
        steps = _length(loader)
        called.call(
            "eval_begin", {"steps": steps if limit is None or steps is None else min(limit, steps), "metrics": self._metric_names()}
        )
        logs, _ = self._epoch(loader, called, "eval", self._eval_step, limit)
        called.call("eval_end", logs)
        return logs


    def _epoch(
        self, loader: Any, called: CallbackList, mode: str, step: Callable[[list[Any], int, dict[str, Any]], None], limit: int | None = None
    ) -> Any:
        """Run `step` on every batch, at most `limit`: the last logs, and how many batches there were."""
        logs: dict[str, Any] = {}
        ran = 0
        self._steps = min((n for n in (_length(loader), limit) if n is not None), default=None)
        for number, batch in enumerate(loader):
            data = flatten(batch)
            called.call(f"{mode}_batch_begin", number, logs)
            step(data, number, logs)
            logs |= {"step": number, "batch_size": data[0].shape[0]}
            called.call(f"{mode}_batch_end", number, logs)
            ran += 1
            if ran == limit:
                break
        for metric in self._metrics:
            metric.reset()
        return logs, ran

    def _train_step(self, data: list[Any], number: int, logs: dict[str, Any]) -> None:
        inputs, labels = self._divided(data)
        is_last = number + 1 == self._steps
        self._note(self.train_batch(inputs, labels, (number + 1) % self._accumulate == 0 or is_last), logs)

    def _eval_step(self, data: list[Any], number: int, logs: dict[str, Any]) -> None:
        self._note(self.eval_batch(*self._divided(data)), logs)

    def _divided(self, data: list[Any]) -> tuple[list[Any], list[Any]]:
        count = len(self._inputs or self._arguments)
        return data[:count], data[count:]

    def _note(self, result: Any, logs: dict[str, Any]) -> None:
        if self._loss is not None:
            logs["loss"] = [float(loss) for loss in (result[0] if self._metrics else result)]
        for metric in self._metrics:
            logs |= dict(zip(_list(metric.name()), _list(metric.accumulate()), strict=True))

    def _metric_names(self) -> list[str]:
        return [*(["loss"] if self._loss is not None else []), *(name for metric in self._metrics for name in _list(metric.name()))]

    # --- files and the rest

    def save(self, path: str, training: bool = True) -> None:
        """Write `PATH.pdparams` and, with an optimizer, `PATH.pdopt`; without `training` the network for inference, as `paddle.jit.save`
        does.
        """
        if config.launched().rank:
            return
        if training:
            save(self.network.state_dict(), path + ".pdparams")
            state = {} if self._optimizer is None else self._optimizer.state_dict()
            if state:
                save(state, path + ".pdopt")
            return
        specs = self._inputs if self._inputs is not None else self._seen
        if specs is None:
            raise RuntimeError(
                "Saving inference model needs 'inputs' or running before saving. "
                "Please specify 'inputs' in Model initialization or input training data and perform a training for shape derivation."
            )
        if self._inputs is None:
            shapes = [list(spec.shape) for spec in specs]
            warnings.warn(
                f"'inputs' was not specified when Model initialization, so the model is saved for the shapes it ran with last: {shapes}",
                stacklevel=2,
            )
        jit.save(self.network, path, input_spec=specs)

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Read what `save(PATH)` wrote. `skip_mismatch` leaves parameters that are missing or have another shape, with a warning, and then
        the optimizer, too.
        """
        prefix, suffix = os.path.splitext(path)
        if suffix not in ("", ".pdparams", ".pdopt", ".pdmodel"):
            prefix = path
        state = load(prefix + ".pdparams", return_numpy=True)
        fitting = {}
        for key, parameter in self.network.state_dict().items():
            fault = _mismatch(key, parameter, state.get(key))
            if not fault:
                fitting[key] = parameter
            elif skip_mismatch:
                warnings.warn(f"Skip loading for {key}. {fault}", stacklevel=2)
                reset_optimizer = True
            else:
                raise ValueError(fault)
        for key, parameter in fitting.items():
            parameter.set_value(state[key])
        if self._optimizer is not None and not reset_optimizer and os.path.exists(prefix + ".pdopt"):
            self._optimizer.set_state_dict(load(prefix + ".pdopt"))

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The network's."""
        return self.network.parameters(*args, **kwargs)

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """`paddle.summary` of the network, for `input_size` or the `inputs` told."""
        if input_size is None and self._inputs is None:
            raise AssertionError("'input_size' or 'self._input' must be set")
        return summary(self.network, self._inputs if input_size is None else input_size, dtypes=dtype)


def _arguments(network: Layer) -> list[str]:
    """The names of what `forward` takes."""
    forward: Any = network.forward
    if isinstance(forward, StaticFunction):
        forward = forward.dygraph_function
    return [
        p.name
        for p in inspect.signature(forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"
    ]


def _specs(specs: Any) -> list[InputSpec]:
    found = _list(specs)
    for number, spec in enumerate(found):
        if not isinstance(spec, InputSpec):
            raise AssertionError(f"expected an InputSpec but got {spec!r}")
        if spec.name is None:
            raise ValueError(f"Requires Input[{number}].name != None, but receive `None` with {spec}.")
    return found


def _loader(data: Any, batch_size: int, workers: int, *, shuffle: bool = False, drop_last: bool = False) -> Any:
    """Batches of a Dataset; anything else gives batches itself."""
    if isinstance(data, IterableDataset):
        return DataLoader(data, batch_size=batch_size, drop_last=drop_last, num_workers=workers)
    if not isinstance(data, Dataset):
        return data
    sampler = DistributedBatchSampler(data, batch_size, shuffle=shuffle, drop_last=drop_last)
    return DataLoader(data, batch_sampler=sampler, num_workers=workers)


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, ValueError):
        return None


def _check_iterations(count: int) -> None:
    if count <= 0:
        raise AssertionError(f"num_iters must be greater than 0, but got {count}!")


def _mismatch(key: str, parameter: Any, state: Any) -> str:
    """Why `state` is not one of `parameter`; empty when it is."""
    if state is None:
        return f"{key} is not found in the providing file."
    if list(state.shape) != list(parameter.shape):
        return f"{key} receives a shape {list(state.shape)}, but the expected shape is {list(parameter.shape)}."
    return ""
