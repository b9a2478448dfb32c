"""`paddle.distributed` in a process that is alone, and without MPI."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest

import polyreme as paddle
import polyreme.distributed as dist
from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.mpi import MissingMpi


def test_one_process_is_rank_0_of_1() -> None:
    dist.init_parallel_env()
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "NONE")
    x = paddle.to_tensor([1.0, 2.0])
    gathered: list = []
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.all_gather(gathered, x)
    dist.barrier()
    assert x.tolist() == [1, 2] and [g.tolist() for g in gathered] == [[1, 2]]
    dist.destroy_process_group()
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: dist.all_reduce(x, op="sum"), "expected a ReduceOp .* but got 'sum'"),
        (lambda x: dist.broadcast(x, 1), "expected the number of a rank below 1 but got 1"),
        (lambda x: dist.reduce(x, 2), "0 to 0, but got 2"),
        (lambda x: dist.all_gather([x, x], x), "an empty list or one tensor per rank"),
        (lambda x: dist.scatter(x, [x, x]), r"one tensor per rank \(1\) in rank 0 but got 2"),
        (lambda x: dist.get_group(3), "the group of all ranks"),
        (lambda x: dist.spawn(print, nprocs=0), "nprocs to be -1 or a number of processes but got 0"),
    ],
)
def test_wrong_arguments_are_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(paddle.ones([2]))


def test_the_launcher_says_which_rank_a_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert config.launched() == (0, 1, 0)
    monkeypatch.setenv("PMI_RANK", "2")
    monkeypatch.setenv("PMI_SIZE", "3")
    assert config.launched() == (2, 3, 0)
    assert (dist.get_rank(), dist.get_world_size(), dist.ParallelEnv().rank, dist.ParallelEnv().nranks) == (2, 3, 2, 3)
    monkeypatch.setenv("PMI_SIZE", "many")
    with pytest.raises(PolyremeError, match="expected PMI_SIZE to be a whole number"):
        config.launched()


def test_without_mpi_one_process_works_and_more_name_the_extra() -> None:
    code = """
        import sys
        sys.modules["mpi4py"] = None  # as if it were not installed
        import importlib.util
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "mpi4py" else found(name, *rest)
        import os
        import polyreme as paddle
        import polyreme.distributed as dist
        dist.init_parallel_env()
        net = paddle.DataParallel(paddle.nn.Linear(2, 2))
        net(paddle.ones([1, 2])).sum().backward()
        assert net.parameters()[0].grad is not None and not dist.is_available()
        dist.destroy_process_group()
        try:
            dist.spawn(print, nprocs=2)
        except ImportError as error:
            print(error)
        os.environ.update(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
        try:
            dist.init_parallel_env()
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install 'polyreme[distributed]'") == 2


def test_missing_mpi_is_an_import_error() -> None:
    assert issubclass(MissingMpi, ImportError)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_what_was_launched_ends_with_the_launcher(tmp_path: Path, ending: signal.Signals) -> None:
    (tmp_path / "train.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    # Tests that a shell runs in the background ignore interrupts, and so would what they start.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "polyreme", "launch", "-n", "1", "train.py"]
    launcher = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=listen)
    assert launcher.stdout is not None
    with launcher, launcher.stdout as said:
        assert said.readline() == b"up\n"
        launcher.send_signal(ending)
        # What it launched writes to the same pipe, which is at its end when all of them are gone.
        began = time.monotonic()
        assert said.read() == b""
    assert time.monotonic() - began < 20
    assert launcher.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGKILL: -9}[ending]
