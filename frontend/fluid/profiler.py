"""`fluid.profiler`: how long the runs inside take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyreme.names import listed

__all__ = ["cuda_profiler", "profiler", "reset_profiler", "start_profiler", "stop_profiler"]

_started: list[float] = []


def reset_profiler() -> None:
    """Forget what was measured so far."""
    if _started:
        _started[-1] = time.perf_counter()


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to measure: the `CPU`, the `GPU`, or `All`."""
    if state not in ("CPU", "GPU", "All"):
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    _started.append(time.perf_counter())


def stop_profiler(sorted_key: str | None = None, profile_path: str = "/tmp/profile") -> None:
    """Print how long it was since `start_profiler`. What each kernel takes, `paddle.profile` tells."""
    if not _started:
        raise RuntimeError("expected start_profiler before stop_profiler")
    print(f"{time.perf_counter() - _started.pop():.6f} s; paddle.profile tells what each kernel takes")


@contextmanager
def profiler(
    state: str, sorted_key: str | None = None, profile_path: str = "/tmp/profile", tracer_option: str = "Default"
) -> Iterator[None]:
    """`start_profiler` and `stop_profiler` around what is inside."""
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def cuda_profiler(output_file: str, output_mode: str | None = None, config: Any = None) -> None:
    """An error that says what there is instead: CUDA's own profiler is started outside of the program."""
    raise NotImplementedError("expected paddle.profile, or nsys around the program, but got cuda_profiler, which is not supported")


__dir__ = listed(__name__)
