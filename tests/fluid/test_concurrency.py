"""Go blocks, channels and `Select`: Go's semantics, and that nothing hangs."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from polyreme import fluid
from polyreme.static.concurrency.channels import ChannelError, DeadlockError
from polyreme.static.operator import OperatorError, RunError

layers = fluid.layers


@pytest.fixture(autouse=True)
def _no_block_is_left() -> Iterator[None]:
    yield
    assert not [t for t in threading.enumerate() if t.name.startswith("go at")]


def number(value: float, dtype: str = "int32") -> Any:
    return layers.fill_constant([1], dtype, value)


def run(*fetches: Any, feed: Any = None) -> list[Any]:
    made = fluid.Executor(fluid.CPUPlace()).run(fluid.default_main_program(), feed, list(fetches))
    return [value.reshape(-1).tolist() for value in made]


def add_to(variable: Any, value: Any) -> None:
    layers.assign(layers.elementwise_add(variable, value), variable)


@contextmanager
def while_loop(condition: Any) -> Iterator[None]:
    program = fluid.default_main_program()
    block = program.create_block()
    yield
    program.rollback()
    program.current_block().append_op("while", {"Condition": condition, "X": []}, {"Out": []}, {"sub_block": block})


def line_of(text: str) -> int:
    source, first = inspect.getsourcelines(inspect.currentframe().f_back.f_code)  # type: ignore[union-attr]
    return first + next(i for i, line in enumerate(source) if text in line)


# --- channels


def test_a_buffered_channel_keeps_order_and_gives_what_is_left_after_it_was_closed() -> None:
    channel = fluid.make_channel("int32", capacity=3)
    for value in (3, 1, 2):
        sent = fluid.channel_send(channel, value)
    fluid.channel_close(channel)
    found = [fluid.channel_recv(channel, number(-1)) for _ in range(4)]
    values = run(sent, *[v for pair in found for v in pair])
    assert values == [[True], [3], [True], [1], [True], [2], [True], [0], [False]]


def test_a_run_makes_channels_anew_and_a_feed_goes_through() -> None:
    x = layers.data("x", shape=[2])
    channel = fluid.make_channel("float32")
    with fluid.Go():
        fluid.channel_send(channel, layers.scale(x, 2.0))
    got, ok = fluid.channel_recv(channel, layers.fill_constant([3, 2], "float32", 0))
    total = layers.reduce_sum(got)
    for scale in (1, 10):
        assert run(total, ok, feed={"x": np.full((3, 2), scale, np.float32)}) == [[12 * scale], [True]]


def test_an_unbuffered_channel_makes_the_sender_wait_for_a_receiver() -> None:
    channel, order = fluid.make_channel("int32"), fluid.make_channel("int32", 2)
    with fluid.Go():
        fluid.channel_send(channel, 7)
        fluid.channel_send(order, 2)
    fluid.channel_send(order, 1)
    got, _ = fluid.channel_recv(channel, "int32")
    first, _ = fluid.channel_recv(order, "int32")
    second, _ = fluid.channel_recv(order, "int32")
    assert run(got, first, second) == [[7], [1], [2]]


def test_a_chain_of_go_blocks_adds_up() -> None:
    count = 12
    leftmost = left = fluid.make_channel("int64")
    for _ in range(count):
        right = fluid.make_channel("int64")
        with fluid.Go():
            value, _ = fluid.channel_recv(right, number(0, "int64"))
            fluid.channel_send(left, layers.elementwise_add(value, number(1, "int64")))
        left = right
    with fluid.Go():
        fluid.channel_send(right, 1)
    result, ok = fluid.channel_recv(leftmost, "int64")
    assert run(result, ok) == [[count + 1], [True]]


@pytest.mark.parametrize("is_copy", [False, True])
def test_what_is_received_is_what_was_sent_whatever_the_sender_writes_then(is_copy: bool) -> None:
    channel = fluid.make_channel("int32", 1)
    x = number(5)
    fluid.channel_send(channel, x, is_copy=is_copy)
    add_to(x, number(1))
    got, _ = fluid.channel_recv(channel, number(0))
    assert run(got, x) == [[5], [6]]


def test_a_closed_channel_wakes_who_waits_for_it() -> None:
    channel, done = fluid.make_channel("int32"), fluid.make_channel("bool")
    with fluid.Go():
        _, ok = fluid.channel_recv(channel, number(4))
        fluid.channel_send(done, ok)
    fluid.channel_close(channel)
    got, _ = fluid.channel_recv(done, "bool")
    assert run(got) == [[False]]


# --- variables that are shared


def test_what_a_go_block_wrote_is_seen_after_they_met() -> None:
    done = fluid.make_channel("int32")
    total, kept = number(0), layers.create_global_var([1], 0, "int32", persistable=True, name="kept")
    with fluid.Go():
        add_to(total, number(40))
        layers.assign(number(9), kept)
        fluid.channel_send(done, 1)
    fluid.channel_recv(done, "int32")
    add_to(total, number(2))
    assert run(total) == [[42]]
    assert np.array(fluid.global_scope().find_var("kept").get_tensor()).tolist() == [9]


def test_a_go_block_sees_what_is_written_before_they_meet() -> None:
    start, done = fluid.make_channel("int32"), fluid.make_channel("int32")
    x = number(1)
    with fluid.Go():
        fluid.channel_recv(start, "int32")
        fluid.channel_send(done, x)
    add_to(x, number(10))
    fluid.channel_send(start, 0)
    got, _ = fluid.channel_recv(done, "int32")
    assert run(got) == [[11]]


def test_the_program_waits_for_go_blocks_that_can_go_on() -> None:
    channel = fluid.make_channel("int32", 4)
    total = number(0)
    with fluid.Go():
        for _ in range(3):
            value, _ = fluid.channel_recv(channel, number(0))
            add_to(total, value)
        fluid.channel_recv(channel, number(0))
        add_to(total, number(1000))
    for value in (1, 2, 3):
        fluid.channel_send(channel, value)
    assert run(total) == [[6]]


# --- select


@pytest.mark.parametrize("capacity", [0, 1])
def test_select_does_what_can_be_done_else_the_default(capacity: int) -> None:
    full, empty = fluid.make_channel("int32", capacity), fluid.make_channel("int32", 1)
    out, into = number(0), number(8)
    with fluid.Select() as select:
        with select.case(fluid.channel_send, full, number(5)):
            layers.assign(number(1), out)
        with select.case(fluid.channel_recv, empty, into):
            layers.assign(number(2), out)
        with select.default():
            layers.assign(number(3), out)
    assert run(out, into) == [[1 if capacity else 3], [8]]


def test_fibonacci_until_told_to_quit() -> None:
    numbers, quit_it = fluid.make_channel("int32"), fluid.make_channel("int32")
    result, x, y, ignored, going = number(0), number(0), number(1), number(0), number(1, "bool")
    with fluid.Go():
        for _ in range(10):
            fluid.channel_recv(numbers, result)
        fluid.channel_send(quit_it, number(0))
    with while_loop(going), fluid.Select() as select:
        with select.case(fluid.channel_send, numbers, x, is_copy=True):
            before = layers.assign(x)
            layers.assign(y, x)
            layers.assign(layers.elementwise_add(before, y), y)
        with select.case(fluid.channel_recv, quit_it, ignored):
            layers.assign(number(0, "bool"), going)
    fluid.channel_close(numbers)
    assert run(result, x) == [[34], [55]]


def test_go_blocks_in_a_loop_each_have_the_value_of_their_round() -> None:
    channel = fluid.make_channel("int32")
    i, going, total = number(0), number(1, "bool"), number(0)
    with while_loop(going):
        layers.assign(layers.elementwise_add(i, number(1)), i)
        own = layers.scale(i, 10.0)
        with fluid.Go():
            fluid.channel_send(channel, own)
        fluid.default_main_program().current_block().append_op("less_than", {"X": i, "Y": number(4)}, {"Out": going})
    for _ in range(4):
        add_to(total, fluid.channel_recv(channel, number(0))[0])
    assert run(total) == [[100]]


# --- what ends


def test_a_deadlock_names_the_operators_that_wait_and_their_lines() -> None:
    first, second = fluid.make_channel("int32"), fluid.make_channel("int32")
    with fluid.Go():
        fluid.channel_send(first, 1)
        fluid.channel_recv(second, "int32")  # waits there
    fluid.channel_recv(first, "int32")
    fluid.channel_recv(first, "int32")  # waits here
    with pytest.raises(DeadlockError) as found:
        run()
    text = str(found.value)
    assert "all 2 threads of the program wait: deadlock" in text
    assert f"'{first.name}'" in text and f"'{second.name}'" in text
    for mark in ("# waits " + "here", "# waits " + "there"):
        assert f"test_concurrency.py:{line_of(mark)}" in text


def test_a_send_that_nobody_receives_is_a_deadlock() -> None:
    fluid.channel_send(fluid.make_channel("int32"), 1)
    with pytest.raises(DeadlockError, match="'channel_send' waits to send to"):
        run()


def test_go_blocks_that_wait_or_poll_end_with_the_program() -> None:
    never, going = fluid.make_channel("int32"), number(1, "bool")
    with fluid.Go():
        fluid.channel_recv(never, "int32")
    with fluid.Go(), while_loop(going):
        with fluid.Select() as select:
            with select.case(fluid.channel_recv, never, number(0)):
                pass
            with select.default():
                pass
        layers.assign(number(1, "bool"), going)
    started = time.monotonic()
    assert run(number(3)) == [[3]]
    assert time.monotonic() - started < 5


def test_the_error_of_a_go_block_is_that_of_the_run() -> None:
    channel = fluid.make_channel("int32")
    fluid.channel_close(channel)
    with fluid.Go():
        fluid.channel_send(channel, 1)
    fluid.channel_recv(fluid.make_channel("int32"), "int32")
    with pytest.raises(ChannelError, match="'channel_send' sends to .* which is closed"):
        run()


def test_an_error_of_the_program_ends_go_blocks() -> None:
    channel = fluid.make_channel("int32")
    with fluid.Go():
        fluid.channel_recv(channel, "int32")
    fluid.channel_close(fluid.make_channel("int32"))
    twice = fluid.make_channel("int32")
    fluid.channel_close(twice)
    fluid.channel_close(twice)
    with pytest.raises(ChannelError, match="closed already"):
        run()


# --- what does not fit


def _wrong_dtype() -> None:
    fluid.channel_send(fluid.make_channel("int32"), number(1, "float32"))


def _wrong_dtype_received() -> None:
    fluid.channel_recv(fluid.make_channel("int32"), number(1, "int64"))


def _wrong_dtype_selected() -> None:
    with fluid.Select() as select, select.case(fluid.channel_send, fluid.make_channel("int32"), number(1, "int64")):
        pass


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (_wrong_dtype, OperatorError, "expected int32, as goes through 'channel_create_0.tmp_0', in 'channel_send' but .* is float32"),
        (_wrong_dtype_received, OperatorError, "in 'channel_recv' but .* is int64"),
        (_wrong_dtype_selected, OperatorError, "in 'select' but .* is int64"),
        (lambda: fluid.make_channel("int32", -1), ValueError, "a capacity of at least 0 but got -1"),
        (lambda: fluid.channel_close(3), TypeError, "expected a channel, as make_channel gives it"),
        (lambda: fluid.Select().case(fluid.channel_send, None, 1).__enter__(), ValueError, "inside of `with fluid.Select"),
    ],
)
def test_faults_are_told_when_the_program_is_built(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_shape_that_does_not_fit_is_told_when_it_runs() -> None:
    channel = fluid.make_channel("int32", 1)
    fluid.channel_send(channel, layers.fill_constant([2], "int32", 1))
    fluid.channel_recv(channel, number(0))
    with pytest.raises(RunError, match=r"expected 'channel_recv' to give int32\[1\] .* but got int32\[2\]"):
        run()


def test_random_numbers_in_a_go_block_are_refused() -> None:
    with fluid.Go():
        layers.dropout(layers.fill_constant([2], "float32", 1), 0.5)
    with pytest.raises(RunError, match="no random numbers in a Go block"):
        run()
