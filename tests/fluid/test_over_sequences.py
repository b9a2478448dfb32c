"""Recurrent nets over sequences: what their blocks see, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from polyreme import fluid


def test_what_a_dynamic_rnn_refuses() -> None:
    layers = fluid.layers
    x, flat = layers.data("x", [3], lod_level=1), layers.data("flat", [3])
    deep = layers.data("deep", [3], lod_level=2)
    rnn = layers.DynamicRNN()
    with pytest.raises(ValueError, match="can only be invoked inside rnn block"):
        rnn.step_input(x)
    with pytest.raises(ValueError, match="can only be visited outside"):
        rnn()
    with rnn.block():
        with pytest.raises(ValueError, match="after step_input"):
            rnn.memory(shape=[3])
        for wrong in (flat, deep):
            with pytest.raises(ValueError, match=f"'{wrong.name}' has lod_level {wrong.lod_level}"):
                rnn.step_input(wrong)
        row = rnn.step_input(x)
        with pytest.raises(ValueError, match="'deep' has lod_level 2"):
            rnn.static_input(deep)
        rnn.output(row)
    with pytest.raises(ValueError, match="only be invoke once"), rnn.block():
        pass


def over_steps(body, *inputs, feed):
    """What a `DynamicRNN` with this body gives: it takes the net and the rows of the inputs, and returns its outputs."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        rnn = fluid.layers.DynamicRNN()
        variables = [fluid.layers.data(name, [3], lod_level=1) for name in inputs]
        with rnn.block():
            rnn.output(body(rnn, *map(rnn.step_input, variables)))
        outs = rnn()
        return fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=[outs], return_numpy=False)[0]


def sequences_of(lengths, seed=0):
    rows = np.random.RandomState(seed).rand(sum(lengths), 3).astype("float32")
    return fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())


MIXING = {
    "softmax": lambda rnn, row: fluid.layers.softmax(row, axis=0),
    "reverse": lambda rnn, row: fluid.layers.reverse(row, axis=0),
    "matmul": lambda rnn, row: fluid.layers.matmul(fluid.layers.matmul(row, row, transpose_y=True), row),
    "mean": lambda rnn, row: fluid.layers.elementwise_add(row, fluid.layers.mean(row)),
    "reduce_max": lambda rnn, row: fluid.layers.elementwise_add(row, fluid.layers.reduce_max(row, dim=0)),
    "argmax": lambda rnn, row: fluid.layers.elementwise_add(row, fluid.layers.cast(fluid.layers.argmax(row, axis=0), "float32")),
    "concat": lambda rnn, row: fluid.layers.slice(fluid.layers.concat([row, row], axis=0), axes=[0], starts=[1], ends=[2]),
    "reshape": lambda rnn, row: fluid.layers.reshape(row, [1, -1]),
    "batch_norm": lambda rnn, row: fluid.layers.batch_norm(row),
    "shape": lambda rnn, row: fluid.layers.elementwise_add(
        row, fluid.layers.cast(fluid.layers.reduce_sum(fluid.layers.shape(row)), "float32")
    ),
    "fill_constant_batch_size_like": lambda rnn, row: fluid.layers.elementwise_add(
        row, fluid.layers.reduce_sum(fluid.layers.fill_constant_batch_size_like(row, [-1, 3], "float32", 1.0), dim=0)
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_steps_of_sequences_that_would_mix_their_rows_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="each row of a step of 'DynamicRNN' to be of its own sequence alone but") as caught:
        over_steps(MIXING[name], "x", feed={"x": sequences_of([2, 3])})
    assert "test_over_sequences.py" in str(caught.value)


def test_a_step_input_whose_sequences_have_other_lengths_is_told_of() -> None:
    add = lambda rnn, *rows: fluid.layers.elementwise_add(*rows)  # noqa: E731
    for lengths in ([3, 2], [2, 2], [5]):
        with pytest.raises(RuntimeError, match=rf"sequences of 'y' .* those of 'x', \[2, 3\], but theirs are {re.escape(str(lengths))}"):
            over_steps(add, "x", "y", feed={"x": sequences_of([2, 3]), "y": sequences_of(lengths)})
    made = over_steps(add, "x", "y", feed={"x": sequences_of([2, 3]), "y": sequences_of([2, 3], 1)})
    assert made.recursive_sequence_lengths() == [[2, 3]]
    np.testing.assert_allclose(np.array(made), np.array(sequences_of([2, 3])) + np.array(sequences_of([2, 3], 1)), rtol=1e-6)


def test_a_static_input_of_a_net_over_sequences_has_a_row_for_each() -> None:
    def with_mean(rnn, row):
        return fluid.layers.elementwise_add(row, fluid.layers.reduce_mean(rnn.static_input(fluid.layers.data("s", [3])), dim=[0]))

    def unsaid(rnn, row):
        return fluid.layers.elementwise_add(row, fluid.layers.data("s", [3]))

    for body, why in ((with_mean, "several sequences together"), (unsaid, "which static_input brings in")):
        with pytest.raises(ValueError, match=why):
            over_steps(body, "x", feed={"x": sequences_of([2, 3]), "s": np.ones((2, 3), "float32")})


ATTENDING = {
    "reduce_mean": lambda row, seen, other: fluid.layers.elementwise_add(row, fluid.layers.reduce_mean(seen, dim=[0])),
    "elementwise_add": lambda row, seen, other: fluid.layers.sequence_pool(fluid.layers.elementwise_add(seen, other), "sum"),
    "sequence_pool": lambda row, seen, other: fluid.layers.sequence_pool(fluid.layers.softmax(seen, axis=0), "sum"),
    "sequence_expand": lambda row, seen, other: fluid.layers.sequence_pool(fluid.layers.sequence_expand(other, seen), "sum"),
    "output": lambda row, seen, other: seen,
}


@pytest.mark.parametrize("name", ATTENDING)
def test_rows_of_sequences_that_a_block_sees_are_kept_apart_too(name: str) -> None:
    def body(rnn, row):
        seen, other = (rnn.static_input(fluid.layers.data(n, [3], lod_level=1)) for n in ("seen", "other"))
        return ATTENDING[name](row, seen, other)

    with pytest.raises(ValueError, match="DynamicRNN|rows that are no sequences"):
        over_steps(body, "x", feed={"x": sequences_of([2, 3]), "seen": sequences_of([1, 4]), "other": sequences_of([2, 3])})


def test_what_a_step_gives_may_come_from_outside() -> None:
    def body(rnn, row):
        return rnn.static_input(fluid.layers.data("s", [3]))

    still = np.arange(6, dtype="float32").reshape(2, 3)
    made = over_steps(body, "x", feed={"x": sequences_of([2, 3]), "s": still})
    np.testing.assert_array_equal(np.array(made), np.repeat(still, [2, 3], 0))


def test_sequences_that_a_block_sees_are_as_many_as_its_own() -> None:
    def body(rnn, row):
        seen = rnn.static_input(fluid.layers.data("seen", [3], lod_level=1))
        return fluid.layers.elementwise_add(row, fluid.layers.sequence_pool(seen, "sum"))

    with pytest.raises((ValueError, RuntimeError), match="seen|sequences|broadcast"):
        over_steps(body, "x", feed={"x": sequences_of([2, 3]), "seen": sequences_of([1, 4, 2])})


def test_blocks_know_the_levels_of_what_they_only_read() -> None:
    layers, main = fluid.layers, fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = layers.data("x", [3], lod_level=1)
        i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
        total = layers.scale(layers.sequence_pool(x, "sum"), 0.0)
        again = layers.less_than(i, n)
        loop = layers.While(again)
        with loop.block():
            layers.assign(layers.elementwise_add(total, layers.sequence_pool(x, "sum")), total)
            layers.increment(i)
            layers.less_than(i, n, cond=again)
        given = sequences_of([2, 3])
        (made,) = fluid.Executor(fluid.CPUPlace()).run(main, feed={"x": given}, fetch_list=[total])
    np.testing.assert_allclose(made, 3 * np.add.reduceat(np.array(given), [0, 2]), rtol=1e-5)


def test_elements_of_an_array_have_levels_of_their_own() -> None:
    layers, main = fluid.layers, fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, y = (layers.data(name, [3], lod_level=1) for name in "xy")
        i = layers.fill_constant([1], "int64", 0)
        array = layers.array_write(x, i)
        layers.array_write(y, layers.increment(i, in_place=False), array)
        second = layers.array_read(array, layers.increment(i, in_place=False))
        feed = {"x": sequences_of([2, 3]), "y": sequences_of([3, 1, 2])}
        fetch = [layers.array_read(array, i), second]
        found = fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=fetch, return_numpy=False)
        for made, given in zip(found, feed.values(), strict=True):
            np.testing.assert_array_equal(np.array(made), np.array(given))
            assert made.recursive_sequence_lengths() == given.recursive_sequence_lengths()


def test_an_element_with_another_number_of_levels_and_an_array_in_place_of_a_tensor_are_errors() -> None:
    layers = fluid.layers
    uses = {
        "elements of 1 levels of detail in the tensor array .* but 'deep' has 2": lambda array, i: layers.array_write(
            layers.data("deep", [3], lod_level=2), i, layers.array_write(layers.data("z", [3], lod_level=1), i)
        ),
        "but the elements of the array .* differ in rows or levels": lambda array, i: layers.reduce_sum(array),
        "elements of the array .* differ in rows or levels; fetch what array_read gives": lambda array, i: array,
        "as many rows in a tensor array that is stacked": lambda array, i: layers.tensor_array_to_tensor(array, use_stack=True)[0],
    }
    feed = {"x": sequences_of([2, 3]), "y": sequences_of([3, 4]), "z": sequences_of([5]), "deep": fluid.create_lod_tensor(
        np.ones((5, 3), "float32"), [[1, 1], [1, 4]], fluid.CPUPlace()
    )}  # fmt: skip
    for why, use in uses.items():
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            x, y = (layers.data(name, [3], lod_level=1) for name in "xy")
            i = layers.fill_constant([1], "int64", 0)
            array = layers.array_write(x, i)
            layers.array_write(y, layers.increment(i, in_place=False), array)
            with pytest.raises((RuntimeError, ValueError), match=why):  # where the program is made, or where it runs
                made = use(array, i)
                if "stacked" in why:  # which operators say of the shapes that a run feeds
                    feed["y"] = sequences_of([3, 2])
                known = {name: value for name, value in feed.items() if main.global_block().has_var(name)}
                fluid.Executor(fluid.CPUPlace()).run(main, feed=known, fetch_list=[made], return_numpy=False)


def test_a_sequence_that_has_ended_makes_no_gradient_of_values_that_it_never_had() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        layers = fluid.layers
        x = layers.data("x", [3], lod_level=1)
        x.stop_gradient = False
        rnn = layers.DynamicRNN()
        with rnn.block():
            row, left = rnn.step_input(x), rnn.memory(shape=[3], value=1.0)
            now = layers.elementwise_sub(left, row)  # is 0 after the last row of the first sequence
            rnn.update_memory(left, now)
            rnn.output(layers.sqrt(layers.elementwise_add(now, row)))
        fluid.backward.append_backward(layers.reduce_sum(rnn()))
        x_of = np.full((4, 3), 0.125, "float32")
        x_of[0] = 1.0
        feed = {"x": fluid.create_lod_tensor(x_of, [[1, 3]], fluid.CPUPlace())}
        (gradient,) = fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=["x@GRAD"], return_numpy=False)
        assert np.isfinite(np.array(gradient)).all()


NO_GRADIENT = {
    "a running mean": lambda x, y: fluid.layers.batch_norm(x, moving_mean_name="y"),
    "soft labels of a sigmoid": fluid.layers.sigmoid_cross_entropy_with_logits,
    "soft labels of a softmax": lambda x, y: fluid.layers.softmax_with_cross_entropy(x, y, soft_label=True),
    "soft labels": lambda x, y: fluid.layers.cross_entropy(x, y, soft_label=True),
    "the target of a divergence": fluid.layers.kldiv_loss,
    "weights of a smooth loss": lambda x, y: fluid.layers.smooth_l1(x, x * 2, inside_weight=y, outside_weight=y),
    "a shape to expand to": fluid.layers.expand_as,
}


@pytest.mark.parametrize("what", list(NO_GRADIENT))
def test_what_has_no_gradient_in_paddle_has_none(what):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [3, 4, 4])
        x.stop_gradient = False
        y = None if what == "a running mean" else fluid.layers.data("y", [3, 4, 4])
        out = NO_GRADIENT[what](x, y)
        y = fluid.default_main_program().global_block().var("y")
        y.stop_gradient = False
        assert [g if g is None else g.name for g in fluid.gradients([out], [y, x])] == [None, "x@GRAD"]


def test_steps_that_hand_nothing_on_have_buffers_of_free_sizes() -> None:
    def product(rnn, row):
        layers = fluid.layers
        still = rnn.static_input(layers.data("s", [3]))
        made = layers.matmul(layers.reshape(still, [-1, 3, 1]), layers.reshape(row, [-1, 1, 3]))
        pair = layers.matmul(made, layers.reshape(row, [-1, 3, 1]))
        return layers.elementwise_add(layers.elementwise_add(layers.reshape(pair, [-1, 3]), row), still)

    for lengths in ([2, 3], [1, 4, 2]):
        x, s = sequences_of(lengths), np.random.RandomState(1).rand(len(lengths), 3).astype("float32")
        made = np.array(over_steps(product, "x", feed={"x": x, "s": s}))
        rows, still = np.array(x), np.repeat(s, lengths, 0)
        np.testing.assert_allclose(made, still * (rows * rows).sum(1, keepdims=True) + rows + still, rtol=1e-5)


def test_arrays_of_rows_by_steps_are_no_tensors() -> None:
    layers, tables = fluid.layers, fluid.layers.control_flow
    uses = {
        "'reduce_sum' but 'lod_tensor_to_array": lambda array, row: layers.reduce_sum(array),
        "to fetch but 'lod_tensor_to_array": lambda array, row: array,
        "elements of the same sequences": lambda array, row: layers.array_write(row, layers.fill_constant([1], "int64", 0), array),
        "the rank table that the array .* was made with": lambda array, row: tables.array_to_lod_tensor(
            array, tables.lod_rank_table(layers.data("y", [3], lod_level=1))
        ),
    }
    feed = {"x": sequences_of([2, 3]), "y": sequences_of([4, 1]), "row": np.ones((2, 3), "float32")}
    for why, use in uses.items():
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            x = layers.data("x", [3], lod_level=1)
            made = use(tables.lod_tensor_to_array(x, tables.lod_rank_table(x)), layers.data("row", [3]))
            known = {name: value for name, value in feed.items() if main.global_block().has_var(name)}
            with pytest.raises(RuntimeError, match=why):
                fluid.Executor(fluid.CPUPlace()).run(main, feed=known, fetch_list=[made], return_numpy=False)


def test_sequences_that_do_not_make_up_whole_rows_are_an_error():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [4], lod_level=1)
        sums = fluid.layers.sequence_pool(fluid.layers.sequence_reshape(x, 8), "sum")
        rows = np.arange(24, dtype="float32").reshape(6, 4)
        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed={"x": fluid.create_lod_tensor(rows, [[2, 4]], fluid.CPUPlace())}, fetch_list=[sums])
        np.testing.assert_array_equal(found, [np.arange(8), np.arange(8, 16) + np.arange(16, 24)])
        with pytest.raises(RuntimeError, match=r"make up rows of 8 but they have \[3, 3\] rows of 4"):
            exe.run(feed={"x": fluid.create_lod_tensor(rows, [[3, 3]], fluid.CPUPlace())}, fetch_list=[sums])


def test_a_declarative_function_of_variables_becomes_part_of_their_program():
    @fluid.dygraph.declarative
    def doubled(x):
        return x * 2.0 + 1.0

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        made = doubled(fluid.layers.data("x", [3]))
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[made])
        np.testing.assert_array_equal(found, np.full((2, 3), 3.0))


def test_the_first_operator_of_a_process_has_a_gradient_beside_other_functions_of_python():
    """Operators are numbered from 0 on, and 0 is a number."""
    script = """if True:
        import numpy as np
        import polyreme.fluid as fluid
        x = fluid.layers.data("x", [4])
        x.stop_gradient = False
        y = fluid.default_main_program().current_block().create_var(name="y", dtype="float32", shape=[-1, 4])
        fluid.layers.py_func(lambda a: np.tanh(np.array(a)), x, y, backward_func=lambda a, b, g: np.array(g) * (1 - np.array(b) ** 2))
        slope = fluid.gradients(fluid.layers.mean(fluid.layers.Print(y, first_n=0)), x)
        values = np.linspace(-1, 1, 8).reshape(2, 4).astype("float32")
        (found,) = fluid.Executor().run(feed={"x": values}, fetch_list=slope)
        np.testing.assert_allclose(found, (1 - np.tanh(values) ** 2) / 8, rtol=1e-5)
    """
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
