"""Readers made of other readers. Threads end with who reads."""

from __future__ import annotations

import itertools
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from polyreme.names import listed

__all__ = [
    "ComposeNotAligned", "buffered", "cache", "chain", "compose", "firstn", "map_readers", "multiprocess_reader", "shuffle",
    "xmap_readers",
]  # fmt: skip

Reader = Callable[[], Iterable[Any]]


class ComposeNotAligned(ValueError):  # noqa: N818
    """Readers that are read side by side and are not equally long."""


def cache(reader: Reader) -> Reader:
    """The samples of `reader`, which is read once, at the first use."""
    kept: list[Any] | None = None

    def cached() -> Iterator[Any]:
        nonlocal kept
        if kept is None:
            kept = list(reader())
        yield from kept

    return cached


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """What `func` makes of a sample of each reader."""
    return lambda: map(func, *(reader() for reader in readers))


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """The samples in random order, `buf_size` of them at a time."""

    def shuffled() -> Iterator[Any]:
        gathered: list[Any] = []
        for sample in reader():
            gathered.append(sample)
            if len(gathered) >= buf_size:
                random.shuffle(gathered)
                yield from gathered
                gathered = []
        random.shuffle(gathered)
        yield from gathered

    return shuffled


def chain(*readers: Reader) -> Reader:
    """The samples of the readers one after the other."""
    return lambda: itertools.chain(*(reader() for reader in readers))


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """Tuples of the samples of the readers side by side, their values one after the other. With `check_alignment` readers that are not
    equally long are a `ComposeNotAligned` error; else the shortest says where it ends.
    """

    def flat(sample: Any) -> tuple[Any, ...]:
        return sample if isinstance(sample, tuple) else (sample,)

    def composed() -> Iterator[Any]:
        if not check_alignment:
            for samples in zip(*(reader() for reader in readers), strict=False):
                yield sum(map(flat, samples), ())
            return
        missing = object()
        for samples in itertools.zip_longest(*(reader() for reader in readers), fillvalue=missing):
            if any(sample is missing for sample in samples):
                raise ComposeNotAligned("outputs of readers are not aligned.")
            yield sum(map(flat, samples), ())

    return composed


def firstn(reader: Reader, n: int) -> Reader:
    """The first `n` samples."""
    return lambda: itertools.islice(reader(), n)


class _End:
    """What a thread puts behind its last item, with the error that ended it."""

    def __init__(self, error: BaseException | None = None):
        self.error = error


class Ahead:
    """Items that a thread takes from an iterable ahead of who reads, at most `size` of them. `close` ends the thread."""

    def __init__(self, items: Callable[[], Iterable[Any]], size: int):
        self.queue: queue.Queue[Any] = queue.Queue(max(1, size))
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._fill, args=(items,), daemon=True)
        self.thread.start()

    def _fill(self, items: Callable[[], Iterable[Any]]) -> None:
        end = _End()
        try:
            for item in items():
                if not self._put(item):
                    return
        except BaseException as error:  # handed to who reads
            end = _End(error)
        self._put(end)

    def _put(self, item: Any) -> bool:
        while not self.closed.is_set():
            try:
                self.queue.put(item, timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def next(self) -> Any:
        """The next item; StopIteration at the end, or the error of the iterable."""
        item = self.queue.get()
        if isinstance(item, _End):
            self.queue.put(item)
            if item.error is not None:
                raise item.error
            raise StopIteration
        return item

    def close(self) -> None:
        """End the thread, wherever it is, and wait for it."""
        self.closed.set()
        self.thread.join()

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self.next()
                except StopIteration:
                    return
                yield item
        finally:
            self.close()


def buffered(reader: Reader, size: int) -> Reader:
    """The samples, at most `size` of them read ahead by a thread."""
    return lambda: iter(Ahead(reader, size))


def xmap_readers(mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False) -> Reader:
    """What `mapper` makes of each sample, by `process_num` threads; in the order of the samples with `order`, else as they are done."""

    def mapped() -> Iterator[Any]:
        from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

        with ThreadPoolExecutor(process_num) as pool:
            waiting: list[Any] = []
            try:
                for sample in reader():
                    waiting.append(pool.submit(mapper, sample))
                    if len(waiting) < max(1, buffer_size):
                        continue
                    if order:
                        yield waiting.pop(0).result()
                    else:
                        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                        waiting = [future for future in waiting if future not in done]
                        for future in done:
                            yield future.result()
                for future in waiting:
                    yield future.result()
            finally:
                for future in waiting:
                    future.cancel()

    return mapped


def multiprocess_reader(readers: list[Reader], use_pipe: bool = True, queue_size: int = 1000) -> Reader:
    """The samples of several readers, each read by a thread of its own, as they come."""
    if not isinstance(readers, list) or not readers:
        raise ValueError("`readers` must be list of readers.")

    def read() -> Iterator[Any]:
        aheads = [Ahead(reader, max(1, queue_size // len(readers))) for reader in readers]
        try:
            running = list(aheads)
            while running:
                for ahead in list(running):
                    try:
                        item = ahead.next()
                    except StopIteration:
                        running.remove(ahead)
                        continue
                    yield item
        finally:
            for ahead in aheads:
                ahead.close()

    return read


__dir__ = listed(__name__)
