"""Sequences, feeders and readers of `paddle.fluid`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid
from tests.fluid.running import PLACE, run, start

# --- sequences


def test_levels_are_lengths_and_offsets() -> None:
    t = fluid.create_lod_tensor(np.arange(6).reshape(6, 1), [[2, 1], [1, 2, 3]], PLACE)
    assert t.lod() == [[0, 2, 3], [0, 1, 3, 6]] and t.has_valid_recursive_sequence_lengths()
    t.set_recursive_sequence_lengths([[2, 4], [1, 2, 3]])
    assert not t.has_valid_recursive_sequence_lengths()
    for wrong in ([[0, 2, 5]], [[1, 6]], [[0, 4, 3, 6]], [[0, 3], [0, 1, 6]]):
        with pytest.raises(ValueError, match="expected offsets"):
            t.set_lod(wrong)
    with pytest.raises(ValueError, match="lod info is invalid"):
        fluid.create_lod_tensor(np.zeros((5, 1)), [[2, 4]], PLACE)
    with pytest.raises(ValueError, match="do not match"):
        fluid.create_lod_tensor([[1, 2], [3]], [[1, 2]], PLACE)
    assert np.array(fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], PLACE)).tolist() == [[1], [2], [3]]


def test_levels_travel_from_feed_to_fetch() -> None:
    x = fluid.layers.data("x", [2], lod_level=1)
    hidden = fluid.layers.fc(x, size=3)
    pooled = fluid.layers.sequence_pool(hidden, "sum")
    assert hidden.lod_level == 1 and pooled.lod_level == 0
    start()
    feed = {"x": fluid.create_lod_tensor(np.ones((5, 2), "float32"), [[2, 3]], PLACE)}
    first, second = run([hidden, pooled], feed, return_numpy=False)
    assert first.lod() == [[0, 2, 5]] and second.lod() == [] and second.shape() == [2, 3]
    with pytest.raises(RuntimeError, match="hold LoD information"):
        run([hidden], feed)


def test_a_sequence_without_rows_gets_the_pad_value() -> None:
    x = fluid.layers.data("x", [1], lod_level=1)
    pools = [fluid.layers.sequence_pool(x, kind, pad_value=-1.0) for kind in ("sum", "average", "max", "first", "last")]
    feed = {"x": fluid.create_lod_tensor(np.array([[1], [3]], "float32"), [[0, 2, 0]], PLACE)}
    found = [a.reshape(-1).tolist() for a in run(pools, feed)]
    assert found == [[-1.0, 4.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, 3.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, 3.0, -1.0]]


def test_sequences_where_none_are_fed_are_an_error() -> None:
    pooled = fluid.layers.sequence_pool(fluid.layers.data("x", [1], lod_level=1), "sum")
    with pytest.raises(ValueError, match="expected sequences in 'X'"):
        run([pooled], {"x": np.zeros((2, 1), "float32")})
    with pytest.raises(ValueError, match="expected 1 but got 2"):
        run([pooled], {"x": fluid.create_lod_tensor(np.zeros((2, 1), "float32"), [[1], [2]], PLACE)})


# --- feeding


def test_a_feeder_casts_stacks_and_joins() -> None:
    image = fluid.layers.data("image", [1, 2, 2])
    fluid.layers.data("words", [1], dtype="int64", lod_level=1)
    found = fluid.DataFeeder([image, "words"], PLACE).feed([([0, 1, 2, 3], [5, 6]), ([4] * 4, [7])])
    assert found["image"].shape() == [2, 1, 2, 2] and np.array(found["image"]).dtype == np.float32
    assert np.array(found["words"]).tolist() == [[5], [6], [7]] and found["words"].recursive_sequence_lengths() == [[2, 1]]
    with pytest.raises(ValueError, match="does not match"):
        fluid.DataFeeder([image], PLACE).feed([([0] * 4, [1])])
    with pytest.raises(ValueError, match="Reshape error"):
        fluid.DataFeeder([image], PLACE).feed([([0] * 5,)])


def test_batches_for_several_devices() -> None:
    feeder = fluid.DataFeeder([fluid.layers.data("x", [1])], PLACE)
    batch = [([1.0],), ([2.0],)]
    assert [f["x"].shape() for f in feeder.feed_parallel([batch, batch[:1]], 2)] == [[2, 1], [1, 1]]
    with pytest.raises(ValueError, match="one for each of 3 devices"):
        list(feeder.feed_parallel([batch], 3))
    assert [len(item) for item in feeder.decorate_reader(lambda: iter([batch] * 5), True, 2)()] == [2, 2]
    with pytest.raises(ValueError, match="1 batches are left"):
        list(feeder.decorate_reader(lambda: iter([batch] * 5), True, 2, drop_last=False)())
    assert len(list(feeder.decorate_reader(lambda: iter([batch] * 5))())) == 5


def test_readers_of_readers() -> None:
    numbers = lambda: iter(range(5))
    reader = paddle.reader
    assert list(reader.firstn(reader.chain(numbers, numbers), 7)()) == [0, 1, 2, 3, 4, 0, 1]
    assert list(reader.map_readers(lambda a, b: a + b, numbers, numbers)()) == [0, 2, 4, 6, 8]
    assert list(reader.compose(numbers, numbers)())[1] == (1, 1)
    with pytest.raises(reader.ComposeNotAligned):
        list(reader.compose(numbers, lambda: iter([1]))())
    assert sorted(reader.shuffle(numbers, 3)()) == list(range(5)) == list(reader.buffered(numbers, 2)())
    assert list(reader.xmap_readers(lambda v: v * 2, numbers, 2, 3, order=True)()) == [0, 2, 4, 6, 8]
    assert sorted(reader.multiprocess_reader([numbers, numbers])()) == sorted([*range(5), *range(5)])


def test_an_error_of_a_reader_reaches_who_reads() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    read = iter(paddle.reader.buffered(broken, 2)())
    assert next(read) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(read)


def test_a_program_pulls_its_batches_until_they_end() -> None:
    reader = fluid.layers.py_reader(4, [[-1, 2], [-1, 1]], ["float32", "int64"])
    x, label = fluid.layers.read_file(fluid.layers.double_buffer(reader))
    total = fluid.layers.reduce_sum(x)
    reader.decorate_paddle_reader(paddle.batch(lambda: (([i, i], [0]) for i in range(5)), 2))
    threads = set(threading.enumerate())
    for _ in range(2):
        reader.start()
        sums = []
        with pytest.raises(fluid.core.EOFException):
            while True:
                sums.append(float(run([total, label])[0]))
        reader.reset()
        assert sums == [2.0, 10.0, 8.0]
    with pytest.raises(RuntimeError, match="call start"):
        run([total])

    def endless() -> Iterator[Any]:
        while True:
            yield np.ones((1, 2), "float32"), np.zeros((1, 1), "int64")

    reader.decorate_tensor_provider(endless)
    reader.start()
    assert float(run([total])[0]) == 2.0
    reader.reset()
    assert set(threading.enumerate()) <= threads  # one of another test may have ended
