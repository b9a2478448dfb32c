"""`DataLoader`: batches of a dataset, in this process or from workers, in the sampler's order either way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from polyreme.device import Place, as_place, copies_on, current_place
from polyreme.io.collate import default_collate_fn, default_convert_fn, to_tensors
from polyreme.io.dataset import DataError, IterableDataset
from polyreme.io.random_state import numpy_state, plain_state
from polyreme.io.sampler import BatchSampler, RandomSampler, SequenceSampler
from polyreme.io.worker import Job, WorkerPool
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown, length_of
from polyreme.utils.structures import map_structure

__all__ = ["DataLoader"]


class DataLoader(Shown):
    """An iterable of batches; each pass starts anew. `state_dict` tells where the last pass stands, for `set_state_dict` of another loader
    of the same kind.

    Args:
        dataset: a `Dataset`, or a stream (`IterableDataset`).
        return_list: batches are lists of Tensors; with False and `feed_list`, dicts by name.
        batch_sampler: an iterable of lists of indices; takes the place of `batch_size`, `shuffle` and `drop_last`.
        batch_size: samples per batch; None takes each sample as a batch of its own.
        collate_fn: makes a batch of a list of samples; default `default_collate_fn`.
        num_workers: processes that fetch; 0 fetches here.
        prefetch_factor: batches that each worker prepares ahead.
        timeout: seconds to wait for a batch of the workers; 0 waits as long as they live.
        worker_init_fn: called in each worker with its number.
        persistent_workers: keep the workers from one pass to the next (indexed datasets only).
        places: the devices that batches go to, or one of them; by default the current one.
        use_buffer_reader: let batches for a GPU go there from pinned memory while kernels run; those of workers one batch ahead.
        use_shared_memory: taken for compatibility.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Any = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ):
        if num_workers < 0:
            raise DataError(f"expected 'num_workers' to be 0 or more but got {num_workers}")
        if prefetch_factor < 1:
            raise DataError(f"expected 'prefetch_factor' to be 1 or more but got {prefetch_factor}")
        if timeout < 0:
            raise DataError(f"expected 'timeout' to be 0 or more seconds but got {timeout}")
        if not return_list and not feed_list:
            raise DataError("expected a 'feed_list' with return_list=False, which names the entries of a batch")
        self.dataset = dataset
        self.feed_list = feed_list
        self.places, self.use_buffer_reader = places, use_buffer_reader
        self.return_list = return_list
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.persistent_workers = persistent_workers and num_workers > 0
        self.batch_sampler = self._batch_sampler(batch_sampler, shuffle)
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate_fn if batched else default_convert_fn)
        self._kept: WorkerPool | None = None
        self._start: dict[str, Any] = {}  # of the pass: what numpy and the sampler drew from, and the workers' seed where none was drawn
        self._taken = 0  # batches of the pass
        self._resumed: dict[str, Any] | None = None  # where the next pass begins

    def _batch_sampler(self, given: Any, shuffle: bool) -> Any:
        """What gives the indices: lists of them, single ones without batching, None for a stream."""
        if isinstance(self.dataset, IterableDataset):
            if shuffle or given is not None:
                raise DataError(
                    "expected neither shuffle nor a batch_sampler with a stream (IterableDataset), which has an order of its own"
                )
            return None
        if given is not None:
            if self.batch_size not in (1, None) or shuffle or self.drop_last:
                raise DataError("expected no batch_size, shuffle or drop_last with a batch_sampler, which decides all three")
            self.batch_size = None
            return given
        if self.batch_size is None:
            return RandomSampler(self.dataset) if shuffle else SequenceSampler(self.dataset)
        return BatchSampler(self.dataset, shuffle=shuffle, batch_size=self.batch_size, drop_last=self.drop_last)

    def __len__(self) -> int:
        """Batches in one pass; a `TypeError` for a stream, whose length is not known."""
        if self.batch_sampler is None:
            raise TypeError("a DataLoader of a stream (IterableDataset) has no length")
        return len(self.batch_sampler)

    def _shown(self) -> dict[str, Any]:
        found = super()._shown()
        own = found.pop("batch_sampler", None)
        if own is not None and self.batch_size is not None:
            found["shuffle"] = getattr(own, "shuffle", False)
        elif own is not None:
            found["batch_sampler"] = own
        if self.collate_fn in (default_collate_fn, default_convert_fn):
            found.pop("collate_fn", None)
        return {"dataset": self.dataset, "batch_size": self.batch_size} | found | length_of(self.__len__)

    def __iter__(self) -> Iterator[Any]:
        start, self._resumed = self._resumed, None
        return self._pass(start)

    def _pass(self, start: dict[str, Any] | None) -> Iterator[Any]:
        skipped, now = (0, None) if start is None else (int(start["taken"]), np.random.get_state())
        if start is not None:
            np.random.set_state(numpy_state(start["random"]))
            if start["epoch"] is not None:
                self.batch_sampler.epoch = start["epoch"]
        self._start = {"random": plain_state(np.random.get_state()), "epoch": getattr(self.batch_sampler, "epoch", None), "seed": None}
        self._taken = skipped
        seed = None if start is None else start["seed"]
        batches = self._from_workers(skipped, seed, now) if self.num_workers else self._from_here(skipped, now)
        for batch in self._on_their_way(map(self._finished, batches)):
            self._taken += 1
            yield batch
        self._start, self._taken = {}, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the pass stands that was begun last: how many batches it has given, and what its order was drawn from."""
        return {"taken": self._taken, **self._start}

    def set_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the next pass where `state_dict` was taken: with the batches behind, in their order. numpy's random state is left as it is.

        Batches before are not read again, but for those of a stream. What a dataset draws in workers is drawn anew.
        """
        self._resumed = dict(state) if state["taken"] else None

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def _job(self) -> Job:
        return Job(self.dataset, self.collate_fn, self.batch_size, self.drop_last, self.worker_init_fn)

    def _finished(self, batch: Any) -> Any:
        batch = to_tensors(batch)
        if isinstance(batch, tuple):
            batch = list(batch)
        if self.return_list:
            return batch
        fields = batch if isinstance(batch, list) else [batch]
        names = [getattr(v, "name", v) for v in self.feed_list]
        return dict(zip(names, fields, strict=True))

    def _on_their_way(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, on the device that they are for. What a dataset draws here is drawn when its batch is asked for, as without a
        device: only workers are asked a batch ahead.
        """
        place = place_of_batches(self.places)
        ahead = copies_on(place).ahead() if self.use_buffer_reader and place.is_gpu_place() else None
        if ahead is None:
            yield from batches
            return
        waiting: deque[Any] = deque()
        for batch in batches:
            waiting.append(map_structure(lambda item: _sent(item, ahead, place), batch))
            if len(waiting) > (1 if self.num_workers else 0):
                yield map_structure(_arrived, waiting.popleft())
        while waiting:
            yield map_structure(_arrived, waiting.popleft())

    def _from_here(self, skipped: int, now: Any) -> Iterator[Any]:
        job = self._job()
        if not job.indexed:
            return _behind(job.stream(), skipped, now)
        return map(job.fetch, _behind(self.batch_sampler, skipped, now))

    def _from_workers(self, skipped: int, seed: int | None, now: Any) -> Iterator[Any]:
        job = self._job()
        pool = self._kept
        self._kept = None
        if pool is not None:
            self._start["seed"] = pool.seed
        elif seed is not None:  # workers that were kept from a pass before
            self._start["seed"] = seed
            pool = WorkerPool(job, self.num_workers, seed, self.timeout)
        else:
            # One seed per pass, from numpy's state: workers differ, and a seeded program repeats.
            pool = WorkerPool(job, self.num_workers, int(np.random.randint(0, 2**31 - 1)), self.timeout)
        finished = False
        try:
            yield from self._indexed(pool, skipped, now) if job.indexed else _behind(self._streams(pool), skipped, now)
            finished = True
        finally:
            if finished and self.persistent_workers and job.indexed:
                self._kept = pool
            else:
                pool.close()

    def _indexed(self, pool: WorkerPool, skipped: int, now: Any) -> Iterator[Any]:
        """Tasks go to the workers in turn; answers are put back in order."""
        tasks = enumerate(_behind(self.batch_sampler, skipped, now))
        sent = taken = 0
        waiting: dict[int, Any] = {}
        more = True
        while True:
            while more and sent - taken < self.num_workers * self.prefetch_factor:
                task = next(tasks, None)
                if task is None:
                    more = False
                    break
                pool.send(task[0] % self.num_workers, *task)
                sent += 1
            if taken == sent:
                return
            while taken not in waiting:
                _, number, _, batch = pool.receive(list(range(self.num_workers)))
                waiting[number] = batch
            yield waiting.pop(taken)
            taken += 1

    def _streams(self, pool: WorkerPool) -> Iterator[Any]:
        """Each worker has a stream of its own; batches are taken from them in turn until all have ended."""
        running = list(range(self.num_workers))
        ready: dict[int, list[Any]] = {w: [] for w in running}
        for worker in running:
            for _ in range(self.prefetch_factor):
                pool.send(worker, 0, None)
        turn = 0
        while running:
            worker = running[turn % len(running)]
            while not ready[worker]:
                sender, _, kind, batch = pool.receive(list(ready))
                ready[sender].append((kind, batch))
            kind, batch = ready[worker].pop(0)
            if kind == "end":
                running.remove(worker)
                continue
            pool.send(worker, 0, None)
            turn += 1
            yield batch


def place_of_batches(places: Any) -> Place:
    """The device that batches go to."""
    given = places[0] if isinstance(places, (list, tuple)) and places else places
    return current_place() if given is None or isinstance(given, (list, tuple)) else as_place(given)


class _OnItsWay:
    """A tensor whose contents are being copied to a device."""

    def __init__(self, tensor: Tensor, underway: Any, place: Place):
        self.tensor, self.underway, self.place = tensor, underway, place


def _sent(item: Any, ahead: Any, place: Place) -> Any:
    """Begin to copy a tensor of main memory to a device; other things stay as they are."""
    array = item._value if isinstance(item, Tensor) and item._view is None else None
    if type(array) is not np.ndarray or not array.ndim or array.base is not None:
        return item  # a number, or what others may write to
    return _OnItsWay(item, ahead.send(item._value), place)


def _arrived(item: Any) -> Any:
    if not isinstance(item, _OnItsWay):
        return item
    item.tensor._value, item.tensor._place = item.underway.arrived(), item.place
    return item.tensor


def _behind(items: Iterable[Any], skipped: int, now: Any) -> Iterator[Any]:
    """Without the first ones; then numpy goes on from the state `now`, if that is given."""
    found = iter(items)
    for _ in range(skipped):
        if next(found, None) is None:
            break
    if now is not None:
        np.random.set_state(now)
    return found
