"""`paddle.io`: orders of samplers, batches, workers that end when asked and report their errors."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from polyreme import io
from polyreme.tensor import Tensor


class Squares(io.Dataset):
    def __init__(self, length=7):
        self.length = length

    def __getitem__(self, index):
        return np.full((2,), index, "float32"), index * index

    def __len__(self):
        return self.length


class Count(io.IterableDataset):
    def __init__(self, length=5):
        self.length = length

    def __iter__(self):
        info = io.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(np.arange(start, self.length, step, dtype="float32"))


def second_fields(loader):
    return [batch[1].numpy().tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_come_in_order(workers):
    loader = io.DataLoader(Squares(), batch_size=3, num_workers=workers)
    batches = list(loader)
    assert len(loader) == 3 and [b[1].numpy().tolist() for b in batches] == [[0, 1, 4], [9, 16, 25], [36]]
    assert isinstance(batches[0][0], Tensor) and batches[0][0].shape == [3, 2]
    assert second_fields(loader) == [[0, 1, 4], [9, 16, 25], [36]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_last_small_batch_may_be_dropped(workers):
    loader = io.DataLoader(Squares(), batch_size=3, drop_last=True, num_workers=workers)
    assert len(loader) == 2 and second_fields(loader) == [[0, 1, 4], [9, 16, 25]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream(workers):
    loader = io.DataLoader(Count(), batch_size=2, num_workers=workers)
    seen = np.concatenate([batch.numpy() for batch in loader])
    assert sorted(seen.tolist()) == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError, match="no length"):
        len(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_without_batching(workers):
    assert [sample[1] for sample in io.DataLoader(Squares(4), batch_size=None, num_workers=workers)] == [0, 1, 4, 9]


def test_shuffling_is_a_permutation_that_numpys_seed_fixes():
    def order():
        np.random.seed(3)
        return sum(second_fields(io.DataLoader(Squares(), batch_size=2, shuffle=True)), [])

    assert order() == order() and sorted(order()) == [i * i for i in range(7)] and order() != sorted(order())


def test_random_orders_are_those_of_paddle():
    np.random.seed(3)
    assert list(io.RandomSampler(Squares())) == [4, 6, 5, 3, 1, 0, 2]
    assert list(io.RandomSampler(Squares(), replacement=True, num_samples=4)) == [0, 5, 5, 3]
    assert list(io.BatchSampler(Squares(), shuffle=True, batch_size=3)) == [[0, 5, 6], [4, 1, 3], [2]]


def test_ranks_share_the_samples_as_paddle_shares_them():
    shares = [list(io.DistributedBatchSampler(Squares(), 2, num_replicas=2, rank=r)) for r in (0, 1)]
    assert shares == [[[0, 1], [4, 5]], [[2, 3], [6, 0]]]
    assert list(io.DistributedBatchSampler(Squares(), 2, num_replicas=2, rank=0, shuffle=True)) == [[6, 2], [3, 0]]
    thirds = [list(io.DistributedBatchSampler(Squares(11), 2, num_replicas=3, rank=r)) for r in range(3)]
    assert thirds == [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 0]]]


def test_other_samplers():
    np.random.seed(0)
    assert sorted(io.SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]
    assert set(io.WeightedRandomSampler([0.0, 1.0, 1.0], 20)) == {1, 2}
    assert sorted(io.WeightedRandomSampler([0.2, 1.0, 1.0], 3, replacement=False)) == [0, 1, 2]
    with pytest.raises(ValueError, match="at most 2 samples"):
        io.WeightedRandomSampler([0.0, 1.0, 1.0], 3, replacement=False)


def test_datasets_combine():
    squares = Squares(4)
    assert io.TensorDataset([Tensor(np.arange(3)), Tensor(np.arange(3) * 2)])[2][1].item() == 4
    assert io.ConcatDataset([squares, Squares(2)])[5][1] == 1 and io.ConcatDataset([squares, squares])[-1][1] == 9
    assert io.Subset(squares, [3, 1])[0][1] == 9
    assert len(io.ComposeDataset([squares, squares])[1]) == 4
    assert list(io.ChainDataset([Count(2), Count(1)])) == [0, 1, 0]
    parts = io.random_split(squares, [0.5, 0.5], generator=1)
    assert sorted(i for part in parts for i in part.indices) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="sum to 4"):
        io.random_split(squares, [1, 2])
    with pytest.raises(ValueError, match="one length"):
        io.TensorDataset([Tensor(np.arange(3)), Tensor(np.arange(2))])


def test_samples_of_many_kinds_are_collated():
    batch = io.default_collate_fn([{"x": np.ones(2), "n": 1, "t": "a"}, {"x": np.zeros(2), "n": 2, "t": "b"}])
    assert batch["x"].shape == (2, 2) and batch["n"].tolist() == [1, 2] and batch["t"] == ["a", "b"]
    with pytest.raises(ValueError, match="collate_fn that pads"):
        io.default_collate_fn([np.ones(2), np.ones(3)])


class Failing(Squares):
    def __getitem__(self, index):
        if index == 5:
            raise KeyError("no label for sample 5")
        return super().__getitem__(index)


class Dying(Squares):
    def __getitem__(self, index):
        os._exit(3)


class Sleeping(Squares):
    def __getitem__(self, index):
        time.sleep(60)


def test_an_error_of_a_worker_is_reported_with_its_trace():
    with pytest.raises(RuntimeError, match=r"(?s)worker \d of the DataLoader failed with KeyError.*in __getitem__"):
        list(io.DataLoader(Failing(), batch_size=2, num_workers=2))


def test_a_worker_that_dies_is_reported():
    with pytest.raises(RuntimeError, match="ended unexpectedly with exit code 3"):
        list(io.DataLoader(Dying(), num_workers=1))


def test_a_worker_that_takes_too_long_is_reported_and_ended():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="within 1 s"):
        list(io.DataLoader(Sleeping(), num_workers=1, timeout=1))
    assert time.monotonic() - start < 20


class Slow(Squares):
    def __getitem__(self, index):
        time.sleep(0.8)
        return super().__getitem__(index)


def test_a_timeout_of_less_than_a_second_is_kept():
    with pytest.raises(RuntimeError, match=r"within 0\.05 s"):
        list(io.DataLoader(Slow(), num_workers=1, timeout=0.05))


class Pids(Squares):
    def __getitem__(self, index):
        return np.array(os.getpid())


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_when_the_pass_is_left_early():
    batches = iter(io.DataLoader(Pids(), num_workers=2))
    pid = int(next(batches).numpy()[0])
    assert pid != os.getpid() and _alive(pid)
    del batches
    assert not _alive(pid)


def test_persistent_workers_stay_from_pass_to_pass():
    loader = io.DataLoader(Pids(), num_workers=1, persistent_workers=True)
    passes = [{int(b.numpy()[0]) for b in loader} for _ in range(2)]
    assert passes[0] == passes[1]
    (pid,) = passes[0]
    del loader
    assert not _alive(pid)


def test_workers_know_who_they_are_and_are_set_up():
    ready = []

    def start(worker):
        np.random.seed(worker)
        ready.append(worker)

    loader = io.DataLoader(Count(6), batch_size=1, num_workers=2, worker_init_fn=start)
    assert sorted(float(b.numpy()[0]) for b in loader) == [0, 1, 2, 3, 4, 5]
    assert io.get_worker_info() is None and ready == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_workers": -1}, "num_workers"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler"),
        ({"return_list": False}, "feed_list"),
    ],
)
def test_wrong_options_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        io.DataLoader(Squares(), **options)


class _Large(io.Dataset):
    def __getitem__(self, i):
        return np.ones(1 << 20, np.float32)

    def __len__(self):
        return 1 << 20


def _is_running(process: int) -> bool:
    try:
        # One that has ended and that nobody asked for is a "Z" behind its name.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who runs")
def test_workers_that_are_sending_end_with_a_parent_that_is_killed(tmp_path):
    program = """if True:
        import os, signal, sys
        from polyreme import io
        from tests.frontend.test_io import _Large
        passes = [iter(io.DataLoader(_Large(), batch_size=1, num_workers=2)) for _ in range(2)]
        first = [next(each) for each in passes]
        children = os.popen(f"ps -o pid= --ppid {os.getpid()}").read().split()
        open(sys.argv[1], "w").write(" ".join(children))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", program, tmp_path / "children"], stdout=subprocess.DEVNULL, timeout=60, check=False)
    workers = [int(pid) for pid in (tmp_path / "children").read_text().split()]
    assert ended.returncode == -signal.SIGKILL and len(workers) >= 4
    until = time.monotonic() + 10
    while (left := [pid for pid in workers if _is_running(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
