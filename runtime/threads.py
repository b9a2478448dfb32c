"""Threads: how many work on a model, and the pool that they wait in.

The pool itself is native (`pool.ll`). A process has one for all models compiled in it, and every compiled library carries its own copy. All
of them follow `set_num_threads`, except those that were given a number of their own. Workers wait awake for 4 ms for the next job, giving
way to other programs, and then sleep. After `os.fork` the child runs models on the calling thread until it calls `set_num_threads`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import NamedTuple

from polyreme.runtime.errors import CallError
from polyreme.runtime.side_by_side import processors

MAX_THREADS = 256


class PoolFunctions(NamedTuple):
    """Addresses of the native functions of one copy of the pool."""

    create: int
    destroy: int
    threads: int
    set_threads: int


class Pool:
    """A native pool. `address` goes to native code, and stays the same for the pool's life. `keep` is whatever holds its code in memory."""

    def __init__(self, functions: PoolFunctions, threads: int = 0, keep: object = None):
        """`threads` as in `check_threads`; 0 means one per processor."""
        self.keep = keep
        self._threads = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(functions.threads)
        self._set_threads = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(functions.set_threads)
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)(functions.create)
        self.address: int = create(check_threads(threads)) or 0
        if not self.address:
            raise MemoryError("no memory for the thread pool")
        # Joins the workers when the last executable of the pool is gone. It holds `keep`, so that their code is still there.
        destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions.destroy)
        weakref.finalize(self, _destroy, destroy, self.address, keep).atexit = False
        _all_pools.add(self)

    @property
    def threads(self) -> int:
        """The threads that work on a job, the caller among them."""
        return int(self._threads(self.address))

    def set_threads(self, threads: int) -> int:
        """Change the number of threads (0: one per processor); waits for a running job. Returns how many there are now."""
        return int(self._set_threads(self.address, check_threads(threads)))


def _destroy(destroy: Callable[[int], None], address: int, keep: object) -> None:
    destroy(address)


_all_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_followers: weakref.WeakSet[Pool] = weakref.WeakSet()
_lock = threading.Lock()
_wanted = 0
_process_pool: Pool | None = None


def check_threads(threads: int) -> int:
    """`threads` if it is a whole number from 0 to 256."""
    if isinstance(threads, bool) or not isinstance(threads, int) or not 0 <= threads <= MAX_THREADS:
        raise CallError(f"expected a number of threads from 1 to {MAX_THREADS}, or 0 for one per processor, but got {threads!r}")
    return threads


def set_num_threads(threads: int) -> None:
    """Let models run on so many threads, the caller's among them; 0 means one per processor that the process may use."""
    global _wanted
    check_threads(threads)
    with _lock:
        _wanted = threads
        for pool in list(_followers):
            pool.set_threads(threads)


def get_num_threads() -> int:
    """The number of threads that models run on."""
    with _lock:
        if _process_pool is not None:
            return _process_pool.threads
        return _wanted or processors()


def process_pool(load: Callable[[], tuple[PoolFunctions, object]], threads: int = 0) -> Pool:
    """The pool of all models compiled in this process; `load` brings its code into memory, and is called at most once.

    `threads` is how many threads it begins with when `set_num_threads` was not called.
    """
    global _process_pool
    with _lock:
        if _process_pool is None:
            functions, keep = load()
            _process_pool = Pool(functions, _wanted or threads, keep)
            _followers.add(_process_pool)
        return _process_pool


def library_pool(functions: PoolFunctions, threads: int | None, keep: object) -> Pool:
    """A pool for a loaded library: of its own size, or for None one that follows `set_num_threads`."""
    with _lock:
        pool = Pool(functions, _wanted if threads is None else threads, keep)
        if threads is None:
            _followers.add(pool)
        return pool


def _stop_workers() -> None:
    # The code that the workers run is unmapped while the interpreter shuts down; by then they must be gone.
    for pool in list(_all_pools):
        pool.set_threads(1)


atexit.register(_stop_workers)
# A child forked by one thread must not find the lock held by another, which it does not have.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
