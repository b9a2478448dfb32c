"""Starting ranks: mpiexec on a script (`launch`) or on a function (`spawn`)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyreme.distributed.meeting import given_up
from polyreme.ir import config
from polyreme.lowering.machines.linux import PR_SET_PDEATHSIG
from polyreme.runtime.collectives import CollectiveError
from polyreme.runtime.mpi import EXTRA, MissingMpi, is_installed

__all__ = ["SpawnContext", "launch_command", "launch_environment", "run_ranks", "spawn"]

# How long processes may take to end when they are asked to.
END_SECONDS = 10.0
# How often ranks are looked after, and how long they may take to say what is wrong.
LOOK_SECONDS, FAREWELL_SECONDS = 0.25, 3.0


def find_mpiexec() -> str:
    """The mpiexec that belongs to this Python's MPI: the wheel's, else the first on the path."""
    beside = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    for folder in beside:
        if (folder / "mpiexec").is_file():
            return str(folder / "mpiexec")
    found = shutil.which("mpiexec")
    if found is None or not is_installed():
        raise MissingMpi(
            f"several processes need MPI, but {'mpiexec was not found' if is_installed() else 'mpi4py is not installed'}; {EXTRA}"
        )
    return found


def _is_openmpi(mpiexec: str) -> bool:
    text = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=60).stdout
    return "Open MPI" in text or "prterun" in text or "OpenRTE" in text


def launch_command(ranks: int, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` in each of `ranks` processes on this machine."""
    if not is_installed():
        raise MissingMpi(f"expected mpi4py for {ranks} processes but it is not installed; {EXTRA}")
    mpiexec = find_mpiexec()
    options: list[str] = []
    if _is_openmpi(mpiexec):
        # More ranks than processors are allowed, and give way to each other while they wait; a lost rank is told to the others; memory
        # shared by processes is the only way used, which starts soonest.
        options = ["--oversubscribe", "--with-ft", "ulfm", "--mca", "btl", "self,sm", "--mca", "mpi_yield_when_idle", "1"]
    return [mpiexec, "-n", str(ranks), *options, *argv]


def launch_environment(ranks: int, meeting: Path | None = None) -> dict[str, str]:
    """The environment of the ranks: the processors are shared out between them. `meeting` is the folder where they say that they have come.
    """
    environment = dict(os.environ)
    if meeting is not None:
        environment["POLYREME_MEETING"] = str(meeting)
    environment.setdefault("POLYREME_THREADS", str(max(1, config.processors() // ranks)))
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Whoever runs Python as root has decided so already.
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return environment


def run_ranks(ranks: int, argv: Sequence[str]) -> int:
    """Run a command in `ranks` processes; their exit code, 0 when all went well. One rank needs no MPI. Whoever ends this process ends
    them.
    """
    with tempfile.TemporaryDirectory(prefix="polyreme-ranks-") as name:
        folder = Path(name)
        command, environment = (list(argv), None) if ranks == 1 else (launch_command(ranks, argv), launch_environment(ranks, folder))
        process = subprocess.Popen(command, env=environment, preexec_fn=_end_with_parent if sys.platform == "linux" else None)
        try:
            with _handed_on_to(process):
                code = _wait(process, folder)
        except BaseException:
            _end(process)
            raise
    return code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes], folder: Path, timeout: float | None = None) -> int:
    """The exit code of the process that has started ranks. Once one of them has given up waiting for another, which may stand still for
    ever, all that is left is ended.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    ending: float | None = None
    while True:
        try:
            return process.wait(LOOK_SECONDS if deadline is None else max(0.0, min(LOOK_SECONDS, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise
            if ending is None and given_up(folder):
                # Time for those that wait to say so.
                ending = now + FAREWELL_SECONDS
            if ending is not None and now >= ending:
                _end(process)
                return process.wait() or 1


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it has started. mpiexec ends its ranks when it is asked to, but not when it is killed."""
    started = _descendants(process.pid)
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
    for pid in started:
        # Those that stand still take no notice of being asked.
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have; none where the system does not tell."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # Behind the name, which may hold anything, come the state and the parent.
            parents.setdefault(int(entry.read_text().rpartition(")")[2].split()[1]), []).append(int(entry.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            found.append(child)
            waiting.append(child)
    return found


def _end_with_parent() -> None:
    """Have the system ask this process to end when its parent is gone, however that went."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _handed_on_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Inside the `with`, being asked to end asks `process` to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: process.terminate()) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SpawnContext:
    """Processes that run a function."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, ranks: int):
        self.process = process
        self.folder = folder
        self.ranks = ranks

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it has come. An error in a rank is raised here, with the rank's own traceback."""
        try:
            code = _wait(self.process, self.folder, timeout)
        except subprocess.TimeoutExpired:
            return False
        except BaseException:
            # Whoever is interrupted leaves no ranks behind.
            self.process.terminate()
            raise
        failed = {rank: self.folder / f"error-{rank}.txt" for rank in range(self.ranks)}
        texts = {rank: file.read_text() for rank, file in failed.items() if file.exists()}
        shutil.rmtree(self.folder, ignore_errors=True)
        if texts:
            # What went wrong in one rank comes before what the others then say of it.
            rank = min(texts, key=lambda r: ("polyreme.runtime.collectives" in texts[r], r))
            raise CollectiveError(f"rank {rank} of {self.ranks} failed:\n\n{texts[rank]}", code="E0905")
        if code != 0:
            raise CollectiveError(f"expected all {self.ranks} ranks to end well but mpiexec ended with exit code {code}", code="E0905")
        return True


def spawn(
    func: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = -1, join: bool = True, daemon: bool = False, **options: Any
) -> SpawnContext | None:
    """Run `func(*args)` in `nprocs` new processes (-1: one per processor), which meet in `init_parallel_env`.

    The function travels by value, so it may be one of the script under `if __name__ == "__main__"`. With `join` an error in a rank is
    raised here; without it the context to join later is returned. `daemon` and `options` (`ips`, `gpus`, …) choose devices in Paddle and
    change nothing here.
    """
    if not callable(func):
        raise TypeError(f"expected a function but got {func!r}")
    ranks = config.processors() if nprocs == -1 else nprocs
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"expected nprocs to be -1 or a number of processes but got {nprocs!r}")
    try:
        import cloudpickle
    except ImportError:
        raise MissingMpi(f"spawn sends functions to processes by cloudpickle, which is not installed; {EXTRA}") from None
    folder = Path(tempfile.mkdtemp(prefix="polyreme-spawn-"))
    try:
        argv = [sys.executable, "-m", "polyreme.distributed.rank", str(folder)]
        command = launch_command(ranks, argv) if ranks > 1 else argv
        with open(folder / "function", "wb") as file:
            cloudpickle.dump((func, tuple(args), list(sys.path)), file)
        process = subprocess.Popen(command, env=launch_environment(ranks, folder), stdin=subprocess.DEVNULL)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    context = SpawnContext(process, folder, ranks)
    if not join:
        return context
    context.join()
    return None
