"""`fluid.Trainer`: from functions that describe a network and an optimizer to a trained one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.fluid import io, unique_name
from polyreme.fluid.data_feeder import DataFeeder
from polyreme.fluid.executor import Executor, OneElement, Scope, scope_guard
from polyreme.fluid.framework import Program, Variable, program_guard, variables_of
from polyreme.fluid.trainer.events import BeginEpochEvent, BeginStepEvent, EndEpochEvent, EndStepEvent
from polyreme.fluid.trainer.keeping import CheckpointConfig, Checkpoints
from polyreme.names import listed
from polyreme.static.parallel.parallel_executor import ParallelExecutor
from polyreme.utils.shown import Shown

__all__ = ["Trainer", "feed_variables"]

Reader = Callable[[], Iterable[Any]]


class Trainer(Shown):
    """Trains the network that `train_func` builds: it returns the loss, or a list of the loss and other metrics. `optimizer_func` returns
    an optimizer. Both are called once, in programs of the trainer's own (`train_program`, `startup_program`, `test_program`) and under
    fresh names, and the values live in its `scope`.

    `param_path` is a folder of parameters to start from. `parallel` trains on all devices of the kind of `place`: each is given a batch.
    With a `checkpoint_config` checkpoints are written, and a trainer that finds one goes on from the last: skips the steps that were done,
    and computes the others as if nothing had happened. When training ends, checkpoints are deleted.
    """

    def __init__(
        self,
        train_func: Callable[[], Any],
        optimizer_func: Callable[[], Any],
        param_path: str | None = None,
        place: Any = None,
        parallel: bool = False,
        checkpoint_config: CheckpointConfig | None = None,
    ):
        if checkpoint_config is not None and not isinstance(checkpoint_config, CheckpointConfig):
            raise TypeError(f"The checkpoint_config should be an instance of CheckpointConfig but got {type(checkpoint_config).__name__}")
        if "PADDLE_TRAINING_ROLE" in os.environ:
            raise NotImplementedError(
                "expected a Trainer in one process but PADDLE_TRAINING_ROLE asks for a parameter server, which is not supported: leave "
                "that variable unset, or train on several processes by paddle.DataParallel and `polyreme launch`"
            )
        self.scope = Scope()
        self.parallel = parallel
        self.startup_program = Program()
        self.train_program = Program()
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            made = train_func()
            self.train_func_outputs: list[Variable] = variables_of(made)
            self.test_program = self.train_program.clone(for_test=True)
            optimizer = optimizer_func()
            if not hasattr(optimizer, "minimize"):
                raise TypeError(f"The optimizer should be an instance of Optimizer but optimizer_func returned {type(optimizer).__name__}")
            optimizer.minimize(self.train_func_outputs[0])
        self.exe = Executor(place)
        self.place = self.exe.place
        self._stopped = False
        self._resumed: tuple[int, int] | None = None
        self._checkpoints: Checkpoints | None = None
        with self._here():
            self.exe.run(self.startup_program)
            if checkpoint_config is not None:
                self._checkpoints = Checkpoints(checkpoint_config, self.train_program, self.exe)
                self._resumed = self._checkpoints.load()
            if param_path is not None and self._resumed is None:
                if not Path(param_path).is_dir():
                    raise FileNotFoundError(f"expected a folder of parameters as param_path but {param_path!r} is none")
                io.load_params(self.exe, param_path, self.train_program)

    @contextmanager
    def _here(self) -> Iterator[None]:
        with program_guard(self.train_program, self.startup_program), scope_guard(self.scope):
            yield

    # --- training

    def train(
        self, num_epochs: int, event_handler: Callable[[Any], Any], reader: Reader | None = None, feed_order: Any = None
    ) -> None:
        """Train for `num_epochs` passes through `reader()`, which yields mini-batches, lists of samples.

        `feed_order` has the names of the variables that the values of a sample are for, by default all inputs in the order in which they
        were defined. `event_handler(event)` is called at the beginning and at the end of each epoch and each step.
        """
        if reader is None:
            raise ValueError("expected a reader that gives mini-batches but got none")
        if not callable(event_handler):
            raise TypeError(f"expected a function as the event_handler but got {type(event_handler).__name__}")
        self._stopped = False
        first_epoch, last_step = self._resumed or (0, -1)
        self._resumed = None
        feeder = DataFeeder(feed_variables(self.train_program, feed_order), self.place, self.train_program)
        with self._here():
            run = self._step()
        batches = feeder.decorate_reader(reader, multi_devices=self.parallel)
        for epoch in range(first_epoch, num_epochs):
            event_handler(BeginEpochEvent(epoch))
            for step, feed in enumerate(batches()):
                if self._stopped:
                    return self._end()
                if epoch > first_epoch or step > last_step:
                    self._train_one(run, epoch, step, feed, event_handler)
            if self._stopped:
                return self._end()
            event_handler(EndEpochEvent(epoch))
        return self._end()

    def _train_one(self, run: Any, epoch: int, step: int, feed: Any, event_handler: Callable[[Any], Any]) -> None:
        begin = BeginStepEvent(epoch, step)
        event_handler(begin)
        with self._here():
            metrics = run(feed, [v.name for v in self.train_func_outputs] if begin.fetch_metrics else [])
            if self._checkpoints is not None:
                self._checkpoints.save(epoch, step)
        event_handler(EndStepEvent(epoch, step, metrics))

    def _step(self) -> Callable[[Any, list[str]], Any]:
        """What runs one step, of a feed and the names that are fetched."""
        if not self.parallel:
            return lambda feed, names: self.exe.run(self.train_program, feed, names)
        # Made here, so that all devices begin with what was loaded.
        executor = ParallelExecutor(self.place.is_gpu_place(), self.train_func_outputs[0].name, self.train_program, scope=self.scope)
        return lambda feed, names: executor.run(names, feed)

    def _end(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.clean()

    def stop(self) -> None:
        """End training in front of the next step."""
        self._stopped = True

    # --- what is left of it

    def test(self, reader: Reader, feed_order: Any = None) -> list[Any]:
        """The metrics on the test data: of each the mean over the batches of `reader`, by the program without dropout and optimizer."""
        variables = feed_variables(self.test_program, feed_order)
        feeder = DataFeeder(variables, self.place, self.test_program)
        names = [v.name for v in self.train_func_outputs]
        totals: list[Any] = []
        count = 0
        with self._here():
            for feed in feeder.decorate_reader(reader)():
                found = [np.asarray(value, np.float64) for value in self.exe.run(self.test_program, feed, names)]
                for name, value, total in zip(names, found, totals, strict=False):
                    if value.shape != total.shape:
                        raise ValueError(
                            f"expected the metric '{name}' to have one shape in all batches but got {list(total.shape)} and "
                            f"{list(value.shape)}; let train_func return its mean"
                        )
                totals = [a + b for a, b in zip(totals, found, strict=True)] if count else found
                count += 1
        if not count:
            raise ValueError("expected at least one batch to test with but the reader gave none")
        means = [(total / count).astype(np.float32) for total in totals]
        return [mean.view(OneElement) if mean.size == 1 else mean for mean in means]

    def save_params(self, param_path: str) -> None:
        """Write all parameters into the folder `param_path`, a file each."""
        with self._here():
            io.save_params(self.exe, param_path, self.train_program)


def feed_variables(program: Program, feed_order: Any) -> list[Variable]:
    """The inputs of a program in the order of a sample's values: names in order, or a dict of their places; None for the order in which
    they were defined.
    """
    block = program.global_block()
    if feed_order is None:
        return [v for v in block.vars.values() if v.is_data]
    if isinstance(feed_order, Mapping):
        if sorted(feed_order.values()) != list(range(len(feed_order))):
            raise ValueError(f"expected the places 0 to {len(feed_order) - 1} in feed_order but got {sorted(feed_order.values())}")
        names: Sequence[str] = sorted(feed_order, key=lambda name: feed_order[name])
    elif isinstance(feed_order, (list, tuple)):
        names = feed_order
    else:
        raise TypeError(f"The 'feed_order' should be either None, list or dict but got {type(feed_order).__name__}")
    return [block.var(name) for name in names]


__dir__ = listed(__name__)
