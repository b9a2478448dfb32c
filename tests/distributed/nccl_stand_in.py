"""NCCL without devices: what of its library the runtime calls, on the memories of emulated devices, between threads."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polyreme.runtime import nccl
from polyreme.runtime.collectives import LocalGroup, Step, combine

NAMES = {number: name for name, number in nccl.DTYPES.items() if name != "bool"}
REDUCTIONS = {number: name for name, number in nccl.REDUCTIONS.items()}


class NcclStandIn:
    """`calls` counts what was called, `failing` are functions that fail, by their names, with the number of their error; `async_errors`
    what is told of a rank's calls under way.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, drivers: list[Any]):
        self.drivers, self.calls = drivers, Counter[str]()
        self.failing: dict[str, int] = {}
        self.async_errors: dict[int, int] = {}
        self.aborted: list[int] = []
        self._ranks = LocalGroup(len(drivers), 20.0)
        self._turns: Counter[int] = Counter()
        self._grouped = threading.local()
        functions = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._called(name)) for name, types in nccl.SIGNATURES.items()}
        monkeypatch.setattr(nccl, "load_library", lambda: SimpleNamespace(**functions))

    def _called(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls[name] += 1
            if name in self.failing:
                return self.failing[name]
            getattr(self, f"_{name}", lambda *given: self._grouped.calls.append((name, given)))(*args)
            return 0

        return call

    def _ncclGetUniqueId(self, place: Any) -> None:
        ctypes.memmove(place, b"the name of the group\0\x07".ljust(nccl.ID_BYTES, b"!"), nccl.ID_BYTES)

    def _ncclCommInitRank(self, place: Any, size: int, name: Any, rank: int) -> None:
        assert size == len(self.drivers) and ctypes.string_at(ctypes.byref(name), 24).endswith(b"group\0\x07!")
        place[0] = 1 + rank

    def _ncclCommDestroy(self, comm: int) -> None:
        """Nothing of it is kept."""

    def _ncclCommAbort(self, comm: int) -> None:
        self.aborted.append(comm - 1)

    def _ncclCommGetAsyncError(self, comm: int, place: Any) -> None:
        place[0] = self.async_errors.get(comm - 1, 0)

    def _ncclGroupStart(self) -> None:
        self._grouped.calls = []

    def _ncclGroupEnd(self) -> None:
        calls, self._grouped.calls = self._grouped.calls, None
        sends, receives = [c for c in calls if c[0] == "ncclSend"], [c for c in calls if c[0] == "ncclRecv"]
        for name, given in calls:
            if name not in ("ncclSend", "ncclRecv"):
                self._collective(name, given)
        if sends or receives:
            comm = (sends or receives)[0][1][4]
            told = {peer: self._read(comm - 1, at, count, kind) for _, (at, count, kind, peer, _, _) in sends}
            found = self._meet(comm - 1, told)
            for _, (at, _, _, peer, _, _) in receives:
                self._write(comm - 1, at, found[peer][comm - 1])

    def _collective(self, name: str, given: Any) -> None:
        source, target, count, kind, *more, comm, stream = given
        assert stream is None or stream == 0
        rank, size = comm - 1, len(self.drivers)
        read = count * size if name == "ncclReduceScatter" else count
        found = self._meet(rank, (name, more, self._read(rank, source, read, kind)))
        assert all(found[r][:2] == found[0][:2] for r in found), "ranks that call different things"
        parts = [found[r][2] for r in range(size)]
        if name == "ncclBroadcast":
            result = parts[more[0]]
        elif name == "ncclAllGather":
            result = np.concatenate(parts)
        else:
            result = combine(parts, REDUCTIONS[more[0]])
            result = result[rank * count : (rank + 1) * count] if name == "ncclReduceScatter" else result
        self._write(rank, target, result)

    def _meet(self, rank: int, value: Any) -> dict[int, Any]:
        self._turns[rank] += 1
        return dict(enumerate(self._ranks.communicators[rank]._meet(value, Step("in the stand-in"), 20.0)))

    def _read(self, rank: int, address: int, count: int, kind: int) -> Any:
        made = np.empty(count, nccl_dtype(kind))
        if count:
            self.drivers[rank].download(address, made)
        return made

    def _write(self, rank: int, address: int, array: Any) -> None:
        if array.size:
            self.drivers[rank].upload(address, array)


def nccl_dtype(kind: int) -> Any:
    from polyreme.runtime.memory import numpy_dtype

    return numpy_dtype(NAMES[kind])
