"""Weights of a saved model that several threads look at, and replace, at the same time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from polyreme.ir.types import TensorType, f32
from polyreme.jit import unread
from polyreme.jit.unread import SavedWeights, WeightSpec
from polyreme.parameter import Parameter

TYPE = TensorType((2,), f32)
OLD, NEW = np.zeros(2, np.float32), np.ones(2, np.float32)
# How long a thread waits for another that may be waiting for it.
SECONDS = 0.1


def weights(read: Callable[[bool], list[Any]] = lambda mapped: [OLD]) -> SavedWeights:
    return SavedWeights([WeightSpec("w", TYPE, True, True, True)], read)


def stepwise(work: Callable[[], None], at: int, between: Callable[[], None]) -> int:
    """Do `work` in a thread of its own, and `between` in this one in front of line number `at` of those of `unread.py` that it runs; how
    many these are.
    """
    reached, go_on = threading.Event(), threading.Event()
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != unread.__file__:
            return None
        if event == "line":
            if lines == at:
                reached.set()
                go_on.wait(10)
            lines += 1
        return trace

    def traced() -> None:
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)
            reached.set()

    thread = threading.Thread(target=traced)
    thread.start()
    try:
        assert reached.wait(10)
        between()
    finally:
        go_on.set()
        thread.join(10)
    assert not thread.is_alive()
    return lines


def seen_by_another(tensor: Any, found: list[Any]) -> None:
    """Look at a tensor in a thread of its own, which may have to wait for somebody."""

    def look() -> None:
        try:
            found.append(tensor._value)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(SECONDS)


def test_a_weight_that_is_replaced_is_its_old_self_or_its_new_one_at_every_moment() -> None:
    at, lines = 0, 1
    while at < lines:
        tensor = weights().tensors[0]
        found: list[Any] = []
        lines = stepwise(partial(setattr, tensor, "_value", NEW), at, partial(seen_by_another, tensor, found))
        assert len(found) == 1 and (found[0] is OLD or found[0] is NEW), (at, found)
        assert tensor._value is NEW or found[0] is OLD, at
        assert type(tensor) is Parameter
        at += 1
    assert lines >= 5


def test_a_weight_that_two_threads_read_at_once_is_read_once() -> None:
    at, lines = 0, 1
    while at < lines:
        reads: list[bool] = []
        source = weights(partial(noted_read, reads))
        tensor = source.tensors[0]
        found: list[Any] = []
        lines = stepwise(partial(look, tensor), at, partial(seen_by_another, tensor, found))
        # The other one may have waited until now.
        end = time.monotonic() + 10
        while not found and time.monotonic() < end:
            time.sleep(0.01)
        assert [value is OLD for value in found] == [True], (at, found)
        assert reads == [False] and source.unchanged() and type(tensor) is Parameter
        at += 1
    assert lines >= 10


def noted_read(reads: list[bool], mapped: bool) -> list[Any]:
    reads.append(mapped)
    return [OLD]


def look(tensor: Any) -> None:
    assert tensor._value is OLD
