"""The ranks that this process, or thread, belongs to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from polyreme.device import CUDAPlace, copies_on, current_place
from polyreme.dialects.dist import use_default_group
from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.runtime.collectives import Communicator, OneRank, Step, ThreadedCommunicator
from polyreme.utils.shown import Shown

__all__ = [
    "Group", "ParallelEnv", "current_group", "destroy_process_group", "get_backend", "get_group", "get_rank", "get_world_size",
    "init_parallel_env", "is_available",
    "is_initialized", "rank_of_thread",
]  # fmt: skip


class Group:
    """All ranks, seen from one of them: `dist` ops run among it. `schedule` is the fingerprint of the plan that its calls belong to."""

    id = 0

    def __init__(self, communicator: Communicator, schedule: str = ""):
        self.communicator = communicator
        self.schedule = schedule

    @property
    def rank(self) -> int:
        return self.communicator.rank

    @property
    def size(self) -> int:
        return self.communicator.size

    nranks = world_size = size

    @property
    def ranks(self) -> list[int]:
        return list(range(self.size))

    def get_group_rank(self, rank: int) -> int:
        """The number of a rank in this group, -1 when it is none of it."""
        return rank if 0 <= rank < self.size else -1

    def following(self, schedule: str) -> Group:
        """The same ranks, following a plan with this fingerprint."""
        return Group(self.communicator, schedule)

    def step(self, kind: str, detail: str = "") -> Step:
        """A call made on the user's present line."""
        return Step(kind, detail, str(caller_location() or ""), self.schedule)

    def start(self, kind: str, arrays: Sequence[Any], detail: str, location: Any = None, **options: Any) -> Any:
        """Start a collective as `dist.Group` has it."""
        step = self.step(kind, detail)
        if kind == "all_reduce":
            return self.communicator.all_reduce(arrays, step=step, **options)
        (array,) = arrays
        return _Single(getattr(self.communicator, kind)(array, step=step, **options))

    def __deepcopy__(self, memo: Any) -> Group:
        # A copied model stays among the same ranks.
        return self

    def __repr__(self) -> str:
        return f"Group(rank={self.rank}, nranks={self.size})"


class _Single:
    """A call with one array, as a list of one."""

    def __init__(self, call: Any):
        self.call = call

    def wait(self) -> list[Any]:
        return [self.call.wait()]


_process: Group | None = None
_thread = threading.local()
_alone = Group(OneRank())


def init_parallel_env(nccl_config: Any = None) -> Group:
    """Join the other processes that `launch`, `spawn` or mpiexec started; alone there is one rank. Calling it again changes nothing.

    Where the current device is `gpu` data goes from GPU to GPU by NCCL: set the device first. `nccl_config` is of no effect: NCCL and MPI
    have settings of their own in the environment.
    """
    global _process
    if not is_initialized():
        place = config.launched()
        if place.size == 1:
            _process = _alone
        else:
            from polyreme.distributed.meeting import meet, within
            from polyreme.runtime.mpi import MpiCommunicator

            meet(place.rank, place.size, config.patience())
            with within(config.patience()):
                communicator = MpiCommunicator(config.patience())
            if communicator.size != place.size:
                raise PolyremeError(
                    f"expected {place.size} processes, as mpiexec started, but the MPI library that mpi4py uses sees "
                    f"{communicator.size}: it is another MPI; use `polyreme launch`, which takes the mpiexec that belongs to it",
                    code="E0901",
                )
            _process = Group(_between_devices(communicator))
    return current_group()


def _between_devices(communicator: ThreadedCommunicator) -> Communicator:
    """The same ranks, whose data goes from GPU to GPU by NCCL where the current device is one."""
    place = current_place()
    if place.kind != CUDAPlace.kind:
        return communicator
    from polyreme.runtime.nccl import NcclCommunicator

    return NcclCommunicator(communicator, copies_on(place), config.patience())


def is_initialized() -> bool:
    """Whether `init_parallel_env` has run (in this thread, for ranks that are threads)."""
    return _process is not None or getattr(_thread, "group", None) is not None


def is_available() -> bool:
    """Whether several processes are possible: whether the extra `distributed` is installed."""
    from polyreme.runtime.mpi import is_installed

    return is_installed()


def current_group() -> Group:
    """The group of this thread or process; a group of one before `init_parallel_env`."""
    return getattr(_thread, "group", None) or _process or _alone


use_default_group(current_group)


def get_group(id: int = 0) -> Group:
    """The group of all ranks, the only one there is."""
    if id != 0:
        raise ValueError(f"expected 0, the group of all ranks, but got {id}")
    return current_group()


def destroy_process_group(group: Group | None = None) -> None:
    """Leave the group, with all others."""
    global _process
    if _process is not None and group in (None, _process):
        _process.communicator.close()
        _process = None


def get_backend(group: Group | None = None) -> str:
    """What carries the data: "NCCL" between GPUs, else "MPI", or "NONE" for one rank."""
    found = group or current_group()
    return "NONE" if found.size == 1 else "NCCL" if getattr(found.communicator, "on_device", False) else "MPI"


@contextmanager
def rank_of_thread(communicator: Communicator) -> Iterator[Group]:
    """Make this thread a rank of its own inside the `with`: several ranks in one process."""
    saved = getattr(_thread, "group", None)
    _thread.group = Group(communicator)
    try:
        yield _thread.group
    finally:
        _thread.group = saved


def get_rank(group: Group | None = None) -> int:
    """The number of this rank; before `init_parallel_env` what the launcher said."""
    if group is not None:
        return group.rank
    return current_group().rank if is_initialized() else config.launched().rank


def get_world_size(group: Group | None = None) -> int:
    """How many ranks there are; before `init_parallel_env` what the launcher said."""
    if group is not None:
        return group.size
    return current_group().size if is_initialized() else config.launched().size


class ParallelEnv(Shown):
    """The place of this rank, as properties."""

    def _shown(self) -> dict[str, Any]:
        return {"rank": self.rank, "world_size": self.world_size}

    @property
    def rank(self) -> int:
        return get_rank()

    @property
    def world_size(self) -> int:
        return get_world_size()

    nranks = world_size

    @property
    def local_rank(self) -> int:
        """The rank among those on this machine."""
        return config.launched().local_rank

    @property
    def device_id(self) -> int:
        return 0

    dev_id = device_id

    @property
    def device_type(self) -> str:
        return "cpu"

    @property
    def current_endpoint(self) -> str:
        """MPI needs no addresses."""
        return ""

    @property
    def trainer_endpoints(self) -> list[str]:
        return []
