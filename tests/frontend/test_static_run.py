"""Running programs: feeds and fetches, scopes, state, host functions, errors."""

import warnings

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.compiled.executables import scheduled
from polyreme.ir.verify import verify
from polyreme.static.executor import FeedError
from polyreme.static.operator import RunError
from tests.frontend.static_mode import static_mode

F = paddle.nn.functional


@pytest.fixture
def programs():
    with static_mode() as both:
        yield both


@pytest.fixture
def executor(programs):
    return static.Executor(paddle.CPUPlace())


def rows(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


# --- values


def test_functions_and_layers_give_what_dygraph_mode_gives(programs, executor):
    def model(image):
        x = F.max_pool2d(F.relu(F.conv2d(image, kernel, padding=1)), 2, 2)
        x = paddle.concat([F.softmax(paddle.flatten(x, 1)), paddle.sum(x, [2, 3])], axis=1)
        x = paddle.where(x > 0.05, x, paddle.exp(-x)) + paddle.mean(x, axis=0)
        return paddle.transpose(paddle.reshape(x, [-1, 7, 2]), [0, 2, 1])[:, 1:, ::2]

    image, filters = rows(5, 1, 6, 4), rows(2, 1, 3, 3, seed=1)
    x, kernel = static.data("image", [None, 1, 6, 4]), static.data("kernel", [2, 1, 3, 3])
    y = model(paddle.tile(x, [1, 1, 1, 1]) * 1.5)
    (found,) = executor.run(feed={"image": image, "kernel": filters}, fetch_list=[y])
    paddle.disable_static()
    kernel = paddle.to_tensor(filters)
    np.testing.assert_allclose(found, model(paddle.to_tensor(image) * 1.5).numpy(), rtol=1e-5, atol=1e-6)


def test_results_come_in_the_order_asked_for_by_variable_or_name(programs, executor):
    x = static.data("x", [None, 2])
    a, b = x + 1.0, x * 2.0
    feed = {"x": rows(3, 2)}
    first, second, fed, again = executor.run(feed=feed, fetch_list=[b, a.name, x, b])
    np.testing.assert_array_equal(first, feed["x"] * 2)
    np.testing.assert_array_equal(second, feed["x"] + 1)
    np.testing.assert_array_equal(fed, feed["x"])
    assert again.tolist() == first.tolist() and fed is not feed["x"]
    (tensor,) = executor.run(feed=feed, fetch_list=a, return_numpy=False)
    assert isinstance(tensor, paddle.Tensor) and executor.run(feed=feed) == []


def test_one_compilation_serves_every_batch_size(programs, executor):
    main, _ = programs
    x = static.data("x", [None, 3])
    y = F.softmax(x) @ x.T
    for count in (1, 4, 7):
        (found,) = executor.run(feed={"x": rows(count, 3)}, fetch_list=[y])
        assert found.shape == (count, count)
    assert len(main.plans) == 1
    z = y * 2.0
    assert not main.plans
    np.testing.assert_array_equal(executor.run(feed={"x": rows(7, 3)}, fetch_list=[z])[0], found * 2)


def test_python_numbers_and_tensors_are_fed_too(programs, executor):
    x = static.data("x", [2], "float32")
    y = x * 3.0
    for given in ([1, 2], (1.0, 2.0), np.array([1, 2], "float32")):
        np.testing.assert_array_equal(executor.run(feed={"x": given}, fetch_list=[y])[0], [3, 6])
    paddle.disable_static()
    np.testing.assert_array_equal(executor.run(programs[0], feed={"x": paddle.to_tensor([1.0, 2.0])}, fetch_list=[y])[0], [3, 6])


def test_data_loaders_and_files_give_eager_tensors_that_can_be_fed(programs, executor, tmp_path):
    main, _ = programs
    x = static.data("x", [None, 3])
    y = paddle.sum(x, 1)
    loader = paddle.io.DataLoader([rows(3, seed=i) for i in range(4)], batch_size=2)
    assert [executor.run(feed={"x": batch}, fetch_list=[y])[0].shape for batch in loader] == [(2,), (2,)]
    paddle.save({"x": paddle.Tensor._wrap(rows(1, 3))}, str(tmp_path / "x.pdparams"))
    np.testing.assert_array_equal(executor.run(feed=paddle.load(str(tmp_path / "x.pdparams")), fetch_list=[x])[0], rows(1, 3))
    assert [op.type for op in main.global_block().ops] == ["reduce_sum"]


def test_tensors_of_dygraph_mode_are_read_and_written():
    executor = static.Executor()
    table, total = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), paddle.zeros([2])
    with static_mode() as (main, _):
        y = static.data("x", [None, 2]) @ table
        paddle.assign(total + paddle.sum(y, 0), total)
        for _ in range(2):
            (found,) = executor.run(feed={"x": np.eye(2, dtype="float32")}, fetch_list=[y])
        np.testing.assert_array_equal(found, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(total.numpy(), [8, 12])
    table.set_value(np.zeros((2, 2), "float32"))
    assert not executor.run(main, feed={"x": np.eye(2, dtype="float32")}, fetch_list=[y])[0].any()


def test_in_place_functions_write_the_named_variable(programs, executor):
    main, _ = programs
    x = static.data("x", [3])
    y = x * 1.0
    before = y + 0.0
    y.add_(x)
    y[1] = 7.0
    (kept, changed) = executor.run(feed={"x": np.array([1, 2, 3], "float32")}, fetch_list=[before, y])
    assert kept.tolist() == [1, 2, 3] and changed.tolist() == [2, 7, 6]
    assert [op.type for op in main.global_block().ops].count("assign") == 2


def test_assign_fills_a_variable_that_had_no_shape(programs, executor):
    x = static.data("x", [None, 2])
    out = programs[0].global_block().create_var(name="out", dtype="float32")
    paddle.assign(x * 2.0, out)
    assert list(out.shape) == [-1, 2]
    assert executor.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=["out"])[0].tolist() == [[2, 2]]


# --- state


def test_persistable_variables_live_in_the_scope(programs, executor):
    _, startup = programs
    count = static.create_global_var([1], 5, "int64", persistable=True, name="count")
    paddle.assign(count + 2, count)
    executor.run(startup)
    assert [executor.run(fetch_list=[count])[0].item() for _ in range(3)] == [7, 9, 11]
    assert np.array(static.global_scope().find_var("count").get_tensor()).tolist() == [11]
    other = static.Scope()
    executor.run(startup, scope=other)
    assert (
        executor.run(fetch_list=[count], scope=other)[0].item() == 7
        and static.global_scope().find_var("count").get_tensor().numpy().item() == 11
    )
    with static.scope_guard(other):
        assert executor.run(fetch_list=[count])[0].item() == 9
    static.global_scope().find_var("count").get_tensor().set(np.array([100]), paddle.CPUPlace())
    assert executor.run(fetch_list=[count])[0].item() == 102


def test_a_scope_sees_its_parents_and_children_can_be_dropped():
    outer = static.Scope()
    inner = outer.new_scope()
    outer.var("a")
    assert inner.find_var("a") is outer.var("a") and inner.find_var("b") is None
    inner.var("b").get_tensor().set([1.0, 2.0])
    assert outer.find_var("b") is None and inner.find_var("b").get_tensor().shape() == [2]
    with pytest.raises(ValueError, match="expected a value of 'a'"):
        outer.find_var("a").get_tensor().numpy()
    outer.drop_kids()
    with static.scope_guard(outer):
        assert static.global_scope() is outer
    assert static.global_scope() is not outer
    with pytest.raises(TypeError), static.scope_guard(3):
        pass


def test_the_same_seed_gives_the_parameters_and_draws_of_dygraph_mode():
    def build():
        paddle.seed(31)
        return paddle.nn.Sequential(paddle.nn.Conv2D(1, 2, 3), paddle.nn.Flatten(), paddle.nn.Linear(8, 3), paddle.nn.Dropout(0.5))

    image = np.ones((4, 1, 4, 4), "float32")
    net = build()
    expected = [p.numpy() for p in net.parameters()] + [net(paddle.to_tensor(image)).numpy(), paddle.uniform([3]).numpy()]
    with static_mode() as (_, startup):
        net = build()
        y = net(static.data("image", [None, 1, 4, 4]))
        drawn = paddle.uniform([3])
        executor = static.Executor()
        executor.run(startup)
        found = executor.run(feed={"image": image}, fetch_list=[*net.parameters(), y, drawn])
    for a, b in zip(found[:-2], expected, strict=False):
        np.testing.assert_array_equal(a, b)
    assert (found[-2] == 0).tolist() == (expected[-2] == 0).tolist()
    np.testing.assert_allclose(found[-2], expected[-2], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[-1], expected[-1])


def test_a_test_program_draws_nothing(programs, executor):
    main, _ = programs
    y = F.dropout(static.data("x", [None, 4]), 0.5)
    test = main.clone(for_test=True)
    paddle.seed(1)
    before = paddle.get_rng_state()[0].copy()
    x = rows(2, 4)
    np.testing.assert_array_equal(executor.run(test, feed={"x": x}, fetch_list=[y])[0], x)
    assert (paddle.get_rng_state()[0] == before).all()
    executor.run(main, feed={"x": x}, fetch_list=[y])
    assert (paddle.get_rng_state()[0] != before).any()


def test_a_layer_is_filled_from_a_state_dict_in_static_mode():
    executor = static.Executor()
    with static_mode() as (_, startup):
        layer = paddle.nn.Linear(2, 2)
        executor.run(startup)
        layer.set_state_dict({"weight": np.eye(2, dtype="float32") * 3, "bias": np.ones(2, "float32")})
        y = layer(static.data("x", [None, 2]))
        assert executor.run(feed={"x": np.array([[1, 2]], "float32")}, fetch_list=[y])[0].tolist() == [[4, 7]]


def test_fetched_arrays_are_the_callers_own(programs, executor):
    count = static.create_global_var([1], 5.0, "float32", persistable=True, name="count")
    fixed = static.create_global_var([1], 3.0, "float32", persistable=True, name="fixed")
    paddle.assign(count + fixed, count)
    executor.run(programs[1])
    for array in executor.run(fetch_list=[count, fixed, count]):
        array[:] = 100.0
    assert [a.item() for a in executor.run(fetch_list=[count, fixed])] == [11.0, 3.0]


# --- the host


def test_a_host_function_splits_the_program_in_two(programs, executor):
    main, startup = programs
    seen = []

    def twice(h):
        assert paddle.in_dynamic_mode()
        seen.append(h.numpy())
        return [h * 2.0, np.asarray(h).sum(keepdims=True).reshape(1)]

    x = static.data("x", [None, 3])
    hidden = static.nn.fc(x, 3, bias_attr=False, weight_attr=paddle.nn.initializer.Constant(1.0))
    block = main.global_block()
    doubled, total = (block.create_var(name=n, shape=s, dtype="float32") for n, s in (("doubled", [-1, 3]), ("total", [1])))
    static.py_func(twice, hidden, [doubled, total])
    y = doubled + hidden + x
    executor.run(startup)
    feed = np.ones((2, 3), "float32")
    results = executor.run(feed={"x": feed}, fetch_list=[y, total, doubled])
    assert results[0].tolist() == [[10.0] * 3] * 2 and results[1].tolist() == [18.0] and results[2].tolist() == [[6.0] * 3] * 2
    assert len(seen) == 1 and seen[0].tolist() == [[3.0] * 3] * 2
    (plan,) = main.plans.values()
    assert [step.name for step in plan.executable.steps] == ["call region_0", "host twice", "call region_1"]
    assert [op.name for op in plan.module.function().block if op.dialect == "host"] == ["host.call"]


def test_arguments_keep_names_and_roles_in_the_regions_of_a_program(programs, executor):
    main, startup = programs
    count = static.create_global_var([1], 1.0, "float32", persistable=True, name="count")
    fixed = static.create_global_var([1], 2.0, "float32", persistable=True, name="fixed")
    x, out = static.data("x", [1]), main.global_block().create_var(name="out", shape=[1], dtype="float32")
    static.py_func(lambda v: v, x * fixed, out)
    paddle.assign(count + out * fixed, count)
    executor.run(startup)
    assert executor.run(feed={"x": np.full(1, 3, "float32")}, fetch_list=[count])[0].tolist() == [13]
    module = scheduled(main.module([count]))
    verify(module)
    regions = [dict(zip(f.arg_names, f.arg_roles, strict=True)) for f in module.functions if f.sym_name != "main"]
    assert regions == [{"x": "input", "fixed": "param"}, {"out": "input", "fixed": "param", "count": "state"}]


@pytest.mark.parametrize("place", ["cpu", "gpu-emulated"])
def test_a_size_that_only_a_host_function_tells_reaches_the_regions_behind_it(programs, place):
    main, _ = programs
    executor = static.Executor(place)
    x = static.data("x", [None, 3])
    out = main.global_block().create_var(name="out", shape=["K", 3], dtype="float32")
    static.py_func(lambda v: np.array(v)[np.array(v)[:, 0] > 0], x, out)
    watched = []
    ones = paddle.ones_like(out)
    static.py_func(lambda v: watched.append(v.shape), ones, None)
    y = paddle.sum(out + ones, axis=1)
    verify(main.module([y]))
    for kept in (1, 2):
        array = np.array([[1, 2, 3], [-1, 0, 0], [3, 2, 1]], "float32")[: kept + 1]
        found = executor.run(feed={"x": array}, fetch_list=[y, out])
        assert found[1].shape == (kept, 3) and found[0].tolist() == [9] * kept
    assert watched == [[1, 3], [2, 3]]


def test_what_nobody_reads_behind_a_host_function_needs_no_value(programs, executor):
    unset = static.create_parameter([2], "float32", name="unset")
    out = programs[0].global_block().create_var(name="out", shape=[2], dtype="float32")
    static.py_func(lambda v: v, static.data("x", [2]), out)
    unread = out + unset
    x = np.ones(2, "float32")
    assert executor.run(feed={"x": x}, fetch_list=[out])[0].tolist() == [1, 1]
    with pytest.raises(RunError, match="the parameter 'unset' in the scope but it has none"):
        executor.run(feed={"x": x}, fetch_list=[unread])


def test_a_host_function_sees_a_variable_as_it_is_at_that_point(programs, executor):
    main, startup = programs
    count = static.create_global_var([1], 1.0, "float32", persistable=True, name="count")
    seen = []
    for _ in range(3):
        static.py_func(lambda v: seen.append(float(v)), count, None)
        paddle.assign(count * 2.0, count)
    executor.run(startup)
    executor.run()
    assert seen == [1, 2, 4] and executor.run(fetch_list=[count])[0].tolist() == [64]
    assert paddle.inspect(main.module([count])).schedule.count("host.call") == 3


def test_a_host_function_without_outputs_runs_and_one_that_fails_leaves_the_scope(programs, executor):
    main, startup = programs
    count = static.create_global_var([1], 0, "int64", persistable=True, name="count")
    paddle.assign(count + 1, count)
    seen = []

    def watch(value):
        seen.append(int(value))
        if len(seen) == 2:
            raise ZeroDivisionError

    static.py_func(watch, count, None)
    executor.run(startup)
    executor.run()
    with pytest.raises(ZeroDivisionError):
        executor.run()
    assert seen == [1, 2] and static.global_scope().find_var("count").get_tensor().numpy().item() == 1


def test_a_host_function_that_gives_something_else_than_declared_is_an_error(programs, executor):
    main, _ = programs
    x = static.data("x", [None, 3])
    out = main.global_block().create_var(name="out", shape=[-1, 3], dtype="float32")
    made = [np.ones((2, 4), "float32")]
    static.py_func(lambda v: made[0], x, out)
    for wrong in (np.ones((2, 4), "float32"), np.ones((2, 3))):
        made[0] = wrong
        with pytest.raises(RunError, match=r"'py_func' to give float32\[-1, 3\] for 'out'"):
            executor.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[out])
    made[0] = [wrong, wrong]
    with pytest.raises(ValueError, match="return 1 arrays but it returned 2"):
        executor.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[out])


def test_skipped_variables_are_not_handed_to_a_backward_function(programs, executor):
    main, _ = programs
    x = static.data("x", [2])
    x.stop_gradient = False
    out = main.global_block().create_var(name="out", shape=[2], dtype="float32")
    static.py_func(lambda v: np.exp(np.array(v)), x, out, lambda y, dy: y * dy, skip_vars_in_backward_input=[x])
    (gradient,) = static.gradients(out, x)
    (found,) = executor.run(feed={"x": np.array([0, 1], "float32")}, fetch_list=[gradient])
    np.testing.assert_allclose(found, np.exp([0, 1]), rtol=1e-6)
    with pytest.raises(ValueError, match="skip_vars_in_backward_input"):
        static.py_func(lambda v: v, x, out, lambda v: v, skip_vars_in_backward_input="z")
    with pytest.raises(TypeError, match="must be a function"):
        static.py_func(3, x, out)


# --- errors


def test_a_missing_feed_names_the_input_and_its_line(programs, executor):
    x = static.data("image", [None, 2])
    with pytest.raises(RunError) as caught:
        executor.run(feed={}, fetch_list=[x * 2.0])
    assert "expected a feed for 'image' (float32[-1, 2])" in str(caught.value) and 'static.data("image"' in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3), "float64"), r"data type of the fed variable 'image': expected float32 but got float64"),
        (np.zeros((2, 4), "float32"), r"shape of the fed variable 'image': expected \[-1, 3\] but got \[2, 4\]"),
        (np.zeros(3, "float32"), r"expected \[-1, 3\] but got \[3\]"),
        ("text", "expected numbers for the fed variable 'image' but got str"),
    ],
)
def test_a_feed_that_does_not_fit_says_what_was_expected(programs, executor, array, message):
    x = static.data("image", [None, 3])
    with pytest.raises(FeedError, match=message) as caught:
        executor.run(feed={"image": array}, fetch_list=[x * 2.0])
    assert 'static.data("image"' in str(caught.value) and isinstance(caught.value, ValueError)


def test_inputs_may_have_batches_of_their_own(programs, executor):
    x, y, z = static.data("x", [None, 2]), static.data("y", [None, 2]), static.data("z", ["M", 2])
    product = paddle.matmul(x, y, transpose_y=True).sum() + paddle.sum(z)
    for sizes in ((3, 4, 3), (3, 3, 5), (2, 4, 4), (1, 1, 1)):
        feed = {name: rows(n, 2) for name, n in zip("xyz", sizes, strict=True)}
        (got,) = executor.run(feed=feed, fetch_list=[product])
        np.testing.assert_allclose(got, (feed["x"] @ feed["y"].T).sum() + feed["z"].sum(), rtol=1e-5)
    # Those that are equal, and those that are not, are a program each, whatever their numbers are.
    assert len([plan for key, plan in static.default_main_program().plans.items() if key[0] != "pruned"]) == 2


def test_batches_that_an_operator_needs_to_be_equal_are_an_error_unless_one_is_repeated(programs, executor):
    x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
    added = x + y
    with pytest.raises(FeedError, match="variable 'y': expected 3 on axis 0, as axis 0 of 'x' has it, but got 4"):
        executor.run(feed={"x": rows(3, 2), "y": rows(4, 2)}, fetch_list=[added])
    (got,) = executor.run(feed={"x": rows(3, 2), "y": rows(1, 2)}, fetch_list=[added])
    np.testing.assert_array_equal(got, rows(3, 2) + rows(1, 2))


@pytest.mark.parametrize("named", [False, True])
def test_labels_of_flattened_rows_are_a_feed_of_their_own(programs, executor, named):
    x, y = static.data("x", [None, 5, 3]), static.data("y", ["M" if named else None, 1], "int64")
    scores = paddle.reshape(x, [-1, 3])
    loss = F.cross_entropy(scores, y, reduction="none") if named else F.softmax_with_cross_entropy(scores, y)
    for batch in (2, 4):
        feed = {"x": rows(batch, 5, 3), "y": np.arange(batch * 5)[:, None] % 3}
        (got,) = executor.run(feed=feed, fetch_list=[loss])
        scores = feed["x"].reshape(-1, 3)
        expected = np.log(np.exp(scores).sum(1)) - scores[np.arange(batch * 5), feed["y"][:, 0]]
        np.testing.assert_allclose(got.reshape(-1), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="expected"):
        executor.run(feed={"x": rows(2, 5, 3), "y": np.zeros((9, 1), "int64")}, fetch_list=[loss])


def test_a_batch_that_an_operator_speaks_of_is_one(programs, executor):
    x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
    flat = paddle.reshape(y, [y.shape[0], -1]).sum() + x.sum()
    with pytest.raises(FeedError, match="expected 3 on axis 0"):
        executor.run(feed={"x": rows(3, 2), "y": rows(4, 2)}, fetch_list=[flat])


def test_a_name_that_is_not_there_is_an_error_to_fetch_and_a_warning_to_feed(programs, executor):
    x = static.data("image", [2])
    y = x * 2.0
    with pytest.raises(ValueError, match="fetch but got 'imagf'; did you mean 'image'"):
        executor.run(feed={"image": np.ones(2, "float32")}, fetch_list=["imagf"])
    with pytest.raises(TypeError, match="in fetch_list but got int"):
        executor.run(feed={"image": np.ones(2, "float32")}, fetch_list=[3])
    with pytest.warns(UserWarning, match="'imege' is not found in program.*did you mean 'image'"):
        executor.run(feed={"image": np.ones(2, "float32"), "imege": np.ones(2)}, fetch_list=[y])


def test_parameters_without_values_ask_for_the_startup_program(programs, executor):
    y = static.nn.fc(static.data("x", [None, 2]), 3)
    with pytest.raises(RunError, match=r"the parameter 'fc_0.w_0' in the scope but it has none; run the startup program first"):
        executor.run(feed={"x": rows(1, 2)}, fetch_list=[y])


def test_a_variable_that_nothing_writes_is_an_error_with_its_reader(programs, executor):
    block = programs[0].global_block()
    x, y = (block.create_var(name=n, shape=[2], dtype="float32") for n in "xy")
    block.append_op(type="relu", inputs={"X": x}, outputs={"Out": y})
    with pytest.raises(RunError, match="expected a value of 'x', which 'relu' reads, but no operator in front of it writes one"):
        executor.run(fetch_list=[y])
    assert executor.run(feed={"x": np.array([-1, 2], "float32")}, fetch_list=[y])[0].tolist() == [0, 2]


def test_only_programs_run(executor):
    with pytest.raises(TypeError, match="requires Program"):
        executor.run(3)
    assert executor.run(static.Program()) == []


def test_pruning_at_the_run_needs_no_feed_for_what_is_left_out(programs, executor):
    main, startup = programs
    x, label = static.data("x", [None, 2]), static.data("label", [None, 1], "int64")
    scores = static.nn.fc(x, 3)
    F.cross_entropy(scores, label)
    executor.run(startup)
    with pytest.raises(RunError, match="feed for 'label'"):
        executor.run(feed={"x": rows(2, 2)}, fetch_list=[scores])
    assert executor.run(feed={"x": rows(2, 2)}, fetch_list=[scores], use_prune=True)[0].shape == (2, 3)


def test_pruning_at_the_run_leaves_the_updates_that_are_asked_for(programs, executor):
    """As in Paddle 1.8.5 and 2.6.2: all updates, or those among the fetches."""
    x = static.data("x", [None, 2])
    first, second = (static.create_parameter([2, 1], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)) for _ in range(2))
    loss = paddle.mean(paddle.matmul(x, first)) + paddle.mean(paddle.matmul(x, second))
    unused = paddle.exp(x)
    minimized = paddle.optimizer.SGD(0.5).minimize(loss)
    executor.run(programs[1])
    feed = {"x": np.ones((3, 2), "float32")}

    def after(fetches, **options):
        found = executor.run(feed=feed, fetch_list=fetches, **options)
        return len(found), *(float(static.global_scope().find_var(p.name).get_tensor().numpy()[0, 0]) for p in (first, second))

    assert after([loss], use_prune=True) == (1, 0.5, 0.5)
    assert after([loss, minimized]) == (1, 0.0, 0.0)
    assert after([[loss], minimized[0]], use_prune=True) == (1, -0.5, -0.5)
    operators = {op.input("Param")[0]: op for op in minimized[0]}
    before = after([unused, operators[first.name]])
    assert after([unused, operators[first.name]]) == (1, before[1] - 0.5, before[2])
    with pytest.raises(TypeError, match="operators of an optimizer"):
        executor.run(feed=feed, fetch_list=[programs[0].global_block().ops[0]])


def test_a_compiled_program_runs_as_the_program_itself(programs, executor):
    x = static.data("x", [2])
    compiled = static.CompiledProgram(programs[0], build_strategy=static.BuildStrategy())
    assert executor.run(compiled, feed={"x": np.ones(2, "float32")}, fetch_list=[x + 1.0])[0].tolist() == [2, 2]
    with pytest.raises(TypeError, match="must be Program"):
        static.CompiledProgram(3)


def test_nothing_warns_in_an_ordinary_run(programs, executor):
    y = static.nn.fc(static.data("x", [None, 2]), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executor.run(programs[1])
        executor.run(feed={"x": rows(1, 2)}, fetch_list=[y])


def test_a_feed_that_is_no_dict_is_refused_by_its_type(programs, executor):
    x = static.data("x", [None, 2])
    y = x * 2
    assert executor.run(feed=[{"x": rows(3, 2)}], fetch_list=[y])[0].shape == (3, 2)
    with pytest.raises(TypeError, match="feed requires dict as its Parameter"):
        executor.run(feed=[rows(3, 2)], fetch_list=[y])
