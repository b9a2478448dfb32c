"""Readers that a program pulls its batches from, and loaders that a training loop does: threads read ahead, and end when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from polyreme import io
from polyreme.fluid.core import EOFException
from polyreme.fluid.data_feeder import DataFeeder
from polyreme.fluid.framework import CPUPlace, Variable, default_main_program, in_dygraph_mode
from polyreme.names import listed
from polyreme.reader.decorator import Ahead
from polyreme.static.kinds import Applied, OperatorKind, Slots
from polyreme.static.lod.tensor import LoDTensor
from polyreme.static.operator import Operator
from polyreme.static.program import Program
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["DataLoader", "PyReader", "ReaderVariable"]


class Reads(OperatorKind):
    """`read`: its outputs are fed by the executor, from the reader that is the operator's `data`."""

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        return {}

    def differentiable(self, op: Operator) -> bool:
        return False


READS = Reads()


def _whole(values: Any) -> np.ndarray[Any, Any]:
    """The values of one input of a batch as an array of their own; TypeError where they are not of one shape."""
    try:
        array = np.array(values)
    except ValueError as error:
        raise TypeError(f"expected values of one shape in a batch for dygraph mode but they are ragged: {error}") from error
    if array.dtype == object:
        raise TypeError("expected numbers in a batch for dygraph mode but got objects")
    return array


def _count(places: Any) -> int:
    return max(1, len(places)) if isinstance(places, (list, tuple)) else 1


class Batches(Shown):
    """Where batches come from: a function that returns an iterator over feeds, and the thread that reads ahead."""

    def __init__(self, variables: Sequence[Variable], capacity: int):
        self.variables = list(variables)
        self.capacity = max(1, int(capacity))
        self.devices = 1
        self._make: Callable[[], Iterable[dict[str, Any]]] | None = None
        self._ahead: Ahead | None = None

    # --- what is read

    def decorate_sample_list_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> Any:
        """Take batches from `reader`: lists of samples, with a value for each variable. A loop is given one for each of `places`."""
        self.devices = _count(places)
        feeder = DataFeeder(self.variables, CPUPlace(), self.variables[0].block.program)
        self._make = lambda: map(feeder.feed, reader())
        return self

    def decorate_sample_generator(
        self, sample_generator: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = True, places: Any = None
    ) -> Any:
        """Take samples from a generator, `batch_size` of them a batch."""
        from polyreme.hapi.readers import batch

        def samples() -> Iterator[Any]:
            for sample in sample_generator():
                yield sample if isinstance(sample, (list, tuple)) else (sample,)

        return self.decorate_sample_list_generator(batch(samples, batch_size, drop_last), places)

    def decorate_batch_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> Any:
        """Take batches from `reader` as they are: an array or LoDTensor for each variable."""
        self.devices = _count(places)
        names = [v.name for v in self.variables]

        def batches() -> Iterator[dict[str, Any]]:
            for arrays in reader():
                given = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
                if len(given) != len(names):
                    raise ValueError(f"expected an array for each of {', '.join(names)} but the reader gave {len(given)}")
                yield {name: a if isinstance(a, LoDTensor) else np.asarray(a) for name, a in zip(names, given, strict=True)}

        self._make = batches
        return self

    decorate_paddle_reader = set_sample_list_generator = decorate_sample_list_generator
    decorate_tensor_provider = set_batch_generator = decorate_batch_generator
    set_sample_generator = decorate_sample_generator

    # --- a pass

    def start(self) -> None:
        """Begin a pass: a thread reads ahead from now on."""
        if self._make is None:
            raise ValueError("expected a reader to start but nothing says what it reads; call decorate_paddle_reader first")
        if self._ahead is not None:
            raise RuntimeError("expected a reader that is not started, or was reset, but it reads already")
        self._ahead = Ahead(self._make, self.capacity)

    def reset(self) -> None:
        """End the pass, wherever it is: the thread is gone when this returns."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def next_feed(self) -> dict[str, Any]:
        """The next batch; `EOFException` when the pass is over, after which the reader is reset and started for another."""
        if self._ahead is None:
            raise RuntimeError("expected a reader that was started; call start() before the program runs")
        try:
            found: dict[str, Any] = self._ahead.next()
        except StopIteration:
            raise EOFException("There is no next data.") from None
        return found

    def batches(self) -> Iterator[dict[str, Any]]:
        """All batches of a pass of its own, whose thread ends with who reads."""
        if self._make is None:
            raise ValueError("expected a loader that knows what it reads; call set_sample_list_generator first")
        return iter(Ahead(self._make, self.capacity))


class ReaderVariable(Batches):
    """A reader in a program. `read_file(reader)` gives the variables that each run fills with the next batch."""

    def __init__(self, name: str, variables: Sequence[Variable], capacity: int):
        super().__init__(variables, capacity)
        self.name = name

    def read(self) -> list[Variable]:
        """Append the operator that fills the variables."""
        block = default_main_program().current_block()
        block.add_operator("read", READS, {}, {"Out": [v.name for v in self.variables]}, {}, self)
        return self.variables


def feeds_of_readers(program: Program) -> dict[str, Any]:
    """The next batch of every reader of a program."""
    found: dict[str, Any] = {}
    for op in program.global_block().ops:
        if isinstance(op.kind, Reads):
            found |= op.data.next_feed()
    return found


class PyReader(Batches):
    """Batches for the variables in `feed_list`: with `iterable` a loop goes over feeds for `Executor.run`, lists of a dict for each place;
    otherwise the program pulls them, between `start` and `reset`.

    With `return_list` there are lists of arrays in place of dicts. Batches that are not enough for all places are left out with
    `drop_last`. Made inside `dygraph.guard()` it needs no `feed_list`, and a loop goes over lists of tensors, whatever the other arguments
    say.
    """

    def __init__(
        self, feed_list: Sequence[Variable] | None = None, capacity: int | None = None, use_double_buffer: bool = True,
        iterable: bool = True, return_list: bool = False, drop_last: bool = True,
    ):  # fmt: skip
        self._at_once = in_dygraph_mode()
        if not feed_list and not self._at_once:
            raise ValueError("expected the variables to feed as feed_list but got none")
        super().__init__(feed_list or (), capacity or 2)
        self._iterable, self._return_list, self._drop_last = iterable or self._at_once, return_list, drop_last
        if not self._iterable:
            block = self.variables[0].block
            block.add_operator("read", READS, {}, {"Out": [v.name for v in self.variables]}, {}, self, index=0)

    def decorate_sample_list_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> Any:
        if not self._at_once:
            return super().decorate_sample_list_generator(reader, places)
        return self.decorate_batch_generator(lambda: (list(zip(*samples, strict=True)) for samples in reader()))

    def decorate_batch_generator(self, reader: Callable[[], Iterable[Any]], places: Any = None) -> Any:
        if not self._at_once:
            return super().decorate_batch_generator(reader, places)
        self._make = lambda: ({str(i): _whole(a) for i, a in enumerate(arrays)} for arrays in reader())
        return self

    decorate_paddle_reader = set_sample_list_generator = decorate_sample_list_generator
    decorate_tensor_provider = set_batch_generator = decorate_batch_generator

    @property
    def iterable(self) -> bool:
        """Whether a loop goes over it."""
        return self._iterable

    def start(self) -> None:
        """Begin a pass whose batches the program pulls; an error where a loop goes over it."""
        if self._iterable:
            raise RuntimeError("expected a loader made with iterable=False to start; go over this one with a loop")
        super().start()

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        if not self._iterable:
            raise RuntimeError("expected a loader made with iterable=True to go over; call start() and run the program")
        batches = self.batches()
        if self._at_once:
            for feed in batches:
                yield [Tensor._wrap(array) for array in feed.values()]
            return
        while feeds := list(islice(batches, self.devices)):
            if len(feeds) < self.devices and self._drop_last:
                return
            yield [[feed[v.name] for v in self.variables] for feed in feeds] if self._return_list else feeds


class DataLoader(Shown):
    """Batches of a `Dataset`, as `paddle.io.DataLoader` gives them; `DataLoader.from_generator` is a `PyReader` under its later name."""

    def __new__(
        cls, dataset: Any, feed_list: Sequence[Variable] | None = None, places: Any = None, return_list: bool = False,
        batch_sampler: Any = None, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False, collate_fn: Any = None,
        num_workers: int = 0, use_buffer_reader: bool = True, use_shared_memory: bool = True, timeout: float = 0,
        worker_init_fn: Any = None,
    ) -> Any:  # fmt: skip
        return io.DataLoader(
            dataset, feed_list, places, return_list, batch_sampler, batch_size, shuffle, drop_last, collate_fn, num_workers,
            use_buffer_reader, use_shared_memory=use_shared_memory, timeout=timeout, worker_init_fn=worker_init_fn,
        )  # fmt: skip

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None, capacity: int | None = None, use_double_buffer: bool = True,
        iterable: bool = True, return_list: bool = False, use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> PyReader:  # fmt: skip
        """A loader of batches for the variables in `feed_list`, as `PyReader` says."""
        return PyReader(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)


__dir__ = listed(__name__)
