"""Ranks as threads, for tests of what is built on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.distributed.group import Group, rank_of_thread
from polyreme.runtime.collectives import LocalGroup


def run_ranks(size: int, function: Callable[[Group], Any], patience: float = 60.0) -> list[Any]:
    """`function(group)` in a thread per rank, where `paddle.distributed` sees that rank."""

    def rank(communicator: Any) -> Any:
        with rank_of_thread(communicator) as group:
            return function(group)

    return LocalGroup(size, patience).run(rank)
