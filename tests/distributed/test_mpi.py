"""Ranks as processes over MPI: the same results as one process, and ends that are named. Runs with `-m mpi`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme.distributed import spawn
from polyreme.distributed.processes import launch_command, launch_environment
from polyreme.runtime.collectives import CollectiveError
from polyreme.runtime.mpi import is_installed

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(not is_installed(), reason="mpi4py is not installed: pip install 'polyreme[distributed]'"),
]

TRAIN = """
    import json, os, sys, time
    import numpy as np
    import polyreme as paddle
    import polyreme.distributed as dist

    def batch(step):
        rng = np.random.default_rng(step)
        return rng.normal(size=(24, 1, 12, 12)).astype("float32"), rng.integers(0, 10, size=(24,))

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.conv = paddle.nn.Conv2D(1, 6, 3)
            self.hidden = paddle.nn.Linear(150, 32)
            self.out = paddle.nn.Linear(32, 10)

        def forward(self, x):
            x = paddle.nn.functional.max_pool2d(paddle.nn.functional.relu(self.conv(x)), 2)
            return self.out(paddle.tanh(self.hidden(paddle.flatten(x, 1))))

    def train(compiled, steps=8, report=None):
        paddle.seed(11)
        dist.init_parallel_env()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        net = Net()
        if compiled:
            net = paddle.jit.to_static(net)
        if ranks > 1:
            net = paddle.DataParallel(net, comm_buffer_size=0.01, last_comm_buffer_size=0.001)
        optimizer = paddle.optimizer.Momentum(learning_rate=0.05, parameters=net.parameters())
        losses = []
        for step in range(steps):
            x, y = batch(step)
            rows = slice(rank * 24 // ranks, (rank + 1) * 24 // ranks)
            loss = paddle.nn.functional.cross_entropy(net(paddle.to_tensor(x[rows])), paddle.to_tensor(y[rows]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            losses.append(float(mean))
            if report:
                report(step)
        return losses, [p.numpy().tobytes().hex() for p in net.parameters()]
"""


def script(tmp_path: Path, body: str) -> Path:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(TRAIN) + "\n" + textwrap.dedent(body))
    return file


def launch(ranks: int, file: Path, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polyreme.distributed.launch", "--nproc_per_node", str(ranks), str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=file.parent)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_several_processes_train_as_one_does_on_the_joined_batch(tmp_path: Path, compiled: bool) -> None:
    file = script(
        tmp_path,
        "result = train(bool(int(sys.argv[1])))\nopen(f'result-{dist.get_rank()}-{dist.get_world_size()}.json', "
        "'w').write(json.dumps(result))",
    )
    for ranks in (1, 2, 3):
        done = launch(ranks, file, str(int(compiled)))
        assert done.returncode == 0, done.stderr
    alone, _ = json.loads((tmp_path / "result-0-1.json").read_text())
    for ranks in (2, 3):
        results = [json.loads((tmp_path / f"result-{r}-{ranks}.json").read_text()) for r in range(ranks)]
        for losses, parameters in results:
            np.testing.assert_allclose(losses, alone, rtol=2e-5)
            assert parameters == results[0][1], "the ranks should hold the same parameters, bit for bit"


DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits.py"


def losses_of_digits(mode: str, ranks: int) -> list[float]:
    command = [sys.executable, str(DIGITS), "--mode", mode, "--ranks", str(ranks), "--steps", "4", "--width", "3", "--batch", "16"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return [float(line.split()[-1]) for line in done.stdout.splitlines()]


def test_every_mode_of_the_digits_example_trains_alike_in_one_process_and_two() -> None:
    wanted = losses_of_digits("dygraph", 1)
    assert len(wanted) == 4
    for mode in ("dygraph", "to_static", "static"):
        np.testing.assert_allclose(losses_of_digits(mode, 2), wanted, rtol=2e-5)


KILLED = """
    def report(step):
        if dist.get_rank() == 1:
            print("pid", os.getpid(), "step", step, flush=True)
        time.sleep(0.05)

    train(False, 400, report)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_killed_rank_ends_the_others_with_an_error_that_names_it(tmp_path: Path, ranks: int) -> None:
    file = script(tmp_path, KILLED)
    command = launch_command(ranks, [sys.executable, str(file)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=launch_environment(ranks)) as process:
        assert process.stdout is not None and process.stderr is not None
        found = None
        while found is None or int(found.group(2)) < 5:
            found = re.match(r"pid (\d+) step (\d+)", process.stdout.readline()) or found
        os.kill(int(found.group(1)), signal.SIGKILL)
        start = time.monotonic()
        _, errors = process.communicate(timeout=30)
        took = time.monotonic() - start
    assert took < 10
    assert process.returncode != 0
    named = re.findall(
        r"LostRankError: error\[E0903\]: rank 1 was lost .* while rank (\d) was in all_reduce \(.*\) at .*train.py:\d+:\d+", errors
    )
    assert sorted(named) == [str(r) for r in range(ranks) if r != 1], errors


def test_a_rank_that_fails_ends_the_others_with_its_error(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        "def report(step):\n    if dist.get_rank() == 1 and step == 2:\n        raise KeyError('labels')\n\ntrain(False, 50, report)",
    )
    done = launch(2, file)
    assert done.returncode != 0
    assert "KeyError: 'labels'" in done.stderr
    assert re.search(r"rank 0 is at all_reduce .* at .*train.py:\d+:\d+; rank 1 is at the end \(KeyError: 'labels'\)", done.stderr), (
        done.stderr
    )


def test_ranks_that_part_ways_are_an_error_that_says_where(tmp_path: Path) -> None:
    body = """
        dist.init_parallel_env()
        x = paddle.ones([4])
        if dist.get_rank() == 0:
            dist.all_reduce(x)
        else:
            dist.broadcast(x, 0)
    """
    done = launch(2, script(tmp_path, body))
    assert done.returncode != 0
    assert re.search(
        r"rank 0 is at all_reduce \(sum of 1 x f32\[4\]\) at .*train.py:\d+:\d+; rank 1 is at broadcast \(from rank 0, 1 x f32\[4\]\) at "
        r".*train.py:\d+:\d+",
        done.stderr,
    )


def test_collective_calls_on_tensors(tmp_path: Path) -> None:
    body = """
        group = dist.init_parallel_env()
        rank = dist.get_rank()
        x = paddle.to_tensor([1.0, 2.0]) * (rank + 1)
        gathered = []
        dist.all_gather(gathered, x)
        total, largest, first, one, part = x.clone(), x.clone(), x.clone(), x.clone(), paddle.zeros([2])
        dist.all_reduce(total)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        dist.broadcast(first, src=1)
        dist.reduce(one, dst=0)
        dist.scatter(part, [x, x * 10] if rank == 0 else None, src=0)
        share = paddle.zeros([2])
        dist.reduce_scatter(share, [x, x + 1])
        dist.barrier()

        @paddle.jit.to_static
        def compiled(v):
            w = v * 2
            dist.all_reduce(w)
            return w + 1

        found = [total, largest, first, one, part, share, compiled(x), *gathered]
        open(f"found-{rank}.json", "w").write(json.dumps([t.numpy().tolist() for t in found]))
        env = dist.ParallelEnv()
        assert (env.rank, env.world_size, dist.get_world_size(group)) == (rank, 2, 2)
    """
    done = launch(2, script(tmp_path, body))
    assert done.returncode == 0, done.stderr
    found = [json.loads((tmp_path / f"found-{r}.json").read_text()) for r in range(2)]
    common = [[3, 6], [2, 4], [2, 4]]
    rest = [[7, 13], [1, 2], [2, 4]]
    assert found[0] == [*common, [3, 6], [1, 2], [3, 6], *rest]
    assert found[1] == [*common, [2, 4], [10, 20], [5, 8], *rest]


def test_spawn_runs_a_function_in_every_rank(tmp_path: Path) -> None:
    def write(folder: str, text: str) -> None:
        import polyreme.distributed as dist

        dist.init_parallel_env()
        Path(folder, f"{dist.get_rank()}-of-{dist.get_world_size()}").write_text(text)

    spawn(write, args=(str(tmp_path), "hello"), nprocs=2)
    assert {f.name: f.read_text() for f in tmp_path.iterdir()} == {"0-of-2": "hello", "1-of-2": "hello"}
    context = spawn(write, args=(str(tmp_path), "again"), nprocs=2, join=False)
    assert context is not None and context.join(60)
    assert (tmp_path / "1-of-2").read_text() == "again"


def test_spawn_raises_what_a_rank_raised() -> None:
    def fail() -> Any:
        import polyreme.distributed as dist

        dist.init_parallel_env()
        if dist.get_rank() == 1:
            raise ZeroDivisionError("in rank 1 only")
        dist.barrier()

    with pytest.raises(CollectiveError, match="(?s)rank 1 of 2 failed.*ZeroDivisionError: in rank 1 only"):
        spawn(fail, nprocs=2)


def test_the_command_line_launches_a_script(tmp_path: Path) -> None:
    file = tmp_path / "hello.py"
    file.write_text(
        "import sys, polyreme.distributed as dist\ndist.init_parallel_env()\nprint('rank', dist.get_rank(), 'of', dist.get_world_size(), "
        "sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "polyreme", "launch", "-n", "2", str(file), "--lr", "0.1"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    file.write_text("raise SystemExit(3)")
    assert (
        subprocess.run([sys.executable, "-m", "polyreme", "launch", "-n", "2", str(file)], capture_output=True, timeout=60).returncode == 3
    )
    assert sorted(done.stdout.split("\n"))[1:] == [f"rank {r} of 2 ['--lr', '0.1']" for r in range(2)]


@pytest.mark.parametrize("how", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGSTOP)"])
def test_a_rank_that_never_comes_is_named_and_nothing_is_left(tmp_path: Path, how: str) -> None:
    script = tmp_path / "never_comes.py"
    script.write_text(
        "import os, signal, sys\n"
        "import polyreme.distributed as dist\n"
        f"if os.environ.get('OMPI_COMM_WORLD_RANK', os.environ.get('PMI_RANK')) == '1': {how}\n"
        "dist.init_parallel_env()\n"
    )
    command = [sys.executable, "-m", "polyreme", "launch", "-n", "2", str(script)]
    done = subprocess.run(command, env={**os.environ, "POLYREME_PATIENCE": "4"}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "expected rank 1 of 2 in init_parallel_env within 4 s" in done.stderr + done.stdout
    left = [pid for pid in Path("/proc").glob("[0-9]*/cmdline") if str(script).encode() in _read(pid)]
    assert not left


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
