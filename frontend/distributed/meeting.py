"""Where ranks meet before MPI is up: a folder that whoever starts them makes, in which each says that it has come.

MPI waits without end for a rank that ends, is killed or stands still before it calls `init_parallel_env`, and tells nobody which. Here the
others wait as long as their patience, and name those that are missing; the launcher, which reads the folder too, then ends what is left.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from polyreme.ir import config
from polyreme.runtime.collectives import LostRankError

__all__ = ["given_up", "meet", "within"]

_FAILED = "failed"
LONGEST_NAP = 0.05  # seconds


def meet(rank: int, size: int, patience: float) -> None:
    """Say that this rank has come and wait for all others; a `LostRankError` names those that do not come in time. Started by plain
    mpiexec, ranks meet in MPI alone.
    """
    folder = config.meeting()
    if folder is None or not folder.is_dir():
        return
    (folder / f"rank-{rank}").touch()
    deadline, nap = time.monotonic() + patience, 1e-3
    missing = list(range(size))
    while missing := [r for r in missing if not (folder / f"rank-{r}").exists()]:
        # A folder that is gone says that the launcher is.
        if given_up(folder) or not folder.is_dir() or time.monotonic() > deadline:
            with suppress(OSError):
                (folder / _FAILED).touch()
            who = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {size}"
            raise LostRankError(
                f"expected {who} in init_parallel_env within {patience:g} s but {'they have' if len(missing) > 1 else 'it has'} not come: "
                "ended before it, was killed, or stands still (POLYREME_PATIENCE says how long to wait)",
                missing,
            )
        time.sleep(nap)
        nap = min(2 * nap, LONGEST_NAP)


def given_up(folder: Path) -> bool:
    """Whether a rank has found that another is missing."""
    return (folder / _FAILED).exists()


@contextmanager
def within(patience: float) -> Iterator[None]:
    """Inside the `with` MPI is begun, which cannot be broken off: where it takes longer than the patience, the process ends."""

    def end() -> None:
        text = f"error[E0903]: expected all ranks in init_parallel_env within {patience:g} s but MPI still waits for some"
        print(text, file=sys.stderr, flush=True)
        os._exit(1)

    watch = threading.Timer(patience, end)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
