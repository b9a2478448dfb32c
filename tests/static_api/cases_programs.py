"""`paddle.static`: programs, metrics, averages, files, control flow, arrays."""

import os
import tempfile

from tests.api.table import caught
from tests.static_api.table import check, filled, numbers, run, variable, with_gradients

S = "paddle.static."


def index(paddle, number):
    return paddle.full([1], number, "int64")


# --- metrics


@check(S + "accuracy")
def accuracy_counts_the_best_k(paddle, np):
    scores, label = paddle.static.data("scores", [None, 4], "float32"), paddle.static.data("label", [None, 1], "int64")
    found = [paddle.static.accuracy(scores, label, k) for k in (1, 2, 3)]
    feed = {"scores": numbers(9, 4), "label": numbers(9, 1, dtype="int64") % 4}
    return run(paddle, feed, found)


@check(S + "accuracy", paddle="2.6.2")
def accuracy_gives_its_counts(paddle, np):
    scores, label = paddle.static.data("scores", [None, 4], "float32"), paddle.static.data("label", [None, 1], "int64")
    block = paddle.static.default_main_program().global_block()
    correct, total = (block.create_var(name=name, shape=[1], dtype="int32") for name in ("correct", "total"))
    found = paddle.static.accuracy(scores, label, 2, correct, total)
    made = run(paddle, {"scores": numbers(9, 4), "label": numbers(9, 1, dtype="int64") % 4}, [found, correct, total])
    return [made[0], int(made[1].reshape(())), int(made[2].reshape(()))]


def areas(paddle, np, **options):
    scores, labels = paddle.static.data("scores", [None, 2], "float32"), paddle.static.data("label", [None, 1], "int64")
    found = paddle.static.auc(scores, labels, num_thresholds=200, **options)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    results = []
    for seed in range(4):
        p = np.random.default_rng(seed).uniform(size=20).astype("float32")
        label = np.random.default_rng(seed + 9).uniform(size=(20, 1)) < p[:, None]
        feed = {"scores": np.stack([1 - p, p], 1), "label": label.astype("int64")}
        results.append([np.asarray(v).reshape(()) for v in executor.run(feed=feed, fetch_list=[found[0], found[1]])])
    return results


@check(S + "auc", paddle="2.6.2")
def auc_adds_up_over_the_runs(paddle, np):
    return areas(paddle, np)


@check(S + "auc", paddle="2.6.2")
def auc_of_the_last_three_runs(paddle, np):
    return areas(paddle, np, slide_steps=3)


@check(S + "auc", paddle="2.6.2")
def auc_of_all_runs_where_there_are_no_steps(paddle, np):
    return areas(paddle, np, slide_steps=0)


@check(S + "auc")
def auc_of_a_batch(paddle, np):
    scores, label = paddle.static.data("scores", [None, 2], "float32"), paddle.static.data("label", [None, 1], "int64")
    area = paddle.static.auc(scores, label)[0]
    p = np.random.default_rng(1).uniform(size=30).astype("float32")
    feed = {"scores": np.stack([1 - p, p], 1), "label": (np.random.default_rng(2).uniform(size=(30, 1)) < p[:, None]).astype("int64")}
    return float(np.asarray(run(paddle, feed, [area])[0]).reshape(()))


@check(S + "ctr_metric_bundle", paddle="2.6.2")
def ctr_metric_bundle_adds_up_over_the_runs(paddle, np):
    scores, label = paddle.static.data("scores", [None, 1], "float32"), paddle.static.data("label", [None, 1], "float32")
    weight = paddle.static.data("weight", [None, 1], "float32")
    found = paddle.static.ctr_metric_bundle(scores, label, weight)
    feed = {"scores": numbers(6, 1), "label": (numbers(6, 1) > 0).astype("float32"), "weight": np.full([6, 1], 0.5, "float32")}
    return [[value.reshape(-1) for value in made] for made in run(paddle, feed, found, times=2)]


# --- parts of programs


@check(S + "setitem")
def setitem_gives_a_changed_tensor(paddle, np):
    x, row = variable(paddle, "x", 3, 2), paddle.static.data("row", [2], "float32")
    row.stop_gradient = False
    y = paddle.static.setitem(x, 1, row)
    return with_gradients(paddle, {"x": numbers(3, 2), "row": numbers(2)}, y, [x, row])


@check(S + "Print")
def print_lets_its_tensor_through(paddle, np):
    x = variable(paddle, "x", 2, 3)
    shown = paddle.static.Print(x * 2, message="the hidden layer", summarize=3)
    return with_gradients(paddle, {"x": numbers(2, 3)}, shown * 3, [x])


@check(S + "WeightNormParamAttr", paddle="2.6.2")
def weights_are_directions_times_lengths(paddle, np):
    x = variable(paddle, "x", 2, 3)
    made = []
    for dim in (None, 0, 1):
        attr = paddle.static.WeightNormParamAttr(
            dim, name=f"weight_{dim}", initializer=paddle.nn.initializer.Assign(numbers(3, 4)), learning_rate=0.5
        )
        made.append(paddle.static.nn.fc(x, 4, weight_attr=attr, bias_attr=False))
    loss = paddle.mean(made[0] * made[0])  # of other axes Paddle has no gradient
    paddle.optimizer.SGD(0.1).minimize(loss)
    found = run(paddle, {"x": numbers(2, 3)}, [*made, loss], times=3)
    return found, [list(p.shape) for p in paddle.static.default_main_program().global_block().all_parameters()]


@check(S + "ExponentialMovingAverage", paddle="2.6.2")
def averages_of_parameters_are_applied_and_taken_back(paddle, np):
    x = variable(paddle, "x", 4, 3)
    y = paddle.static.nn.fc(x, 2, weight_attr=filled(paddle, 3, 2, name="w"), bias_attr=False)
    test = paddle.static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(0.1).minimize((y * y).mean())
    average = paddle.static.ExponentialMovingAverage(0.9)
    average.update()
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    look = lambda: executor.run(test, feed={"x": numbers(4, 3)}, fetch_list=[y.name])[0]
    for _ in range(3):
        executor.run(feed={"x": numbers(4, 3)})
    found = [look()]
    with average.apply(executor):
        found.append(look())
    found.append(look())
    with average.apply(executor, need_restore=False):
        found.append(look())
    found.append(look())
    average.restore(executor)
    return [*found, look()]


# --- control flow


@check(S + "nn.cond")
def cond_returns_structures_and_nests(paddle, np):
    x = paddle.static.data("x", [1], "float32")
    nn = paddle.static.nn
    inner = lambda: nn.cond(x > 10, lambda: (x, x * 2), lambda: (x + 1, x + 2))
    a, b = nn.cond(x > 0, inner, lambda: (-x, x * 0))
    return [run(paddle, {"x": np.array([v], "float32")}, [a, b]) for v in (12, 3, -4)]


@check(S + "nn.cond")
def cond_gives_the_gradient_of_the_branch_that_ran(paddle, np):
    x = variable(paddle, "x", 2, 3)
    y = paddle.static.nn.cond(x.sum() > 0, lambda: x * x, lambda: x * -3)
    return [with_gradients(paddle, {"x": sign * np.abs(numbers(2, 3))}, y, [x]) for sign in (1, -1)][1:]


@check(S + "nn.case")
def case_takes_the_first_true_one(paddle, np):
    x = variable(paddle, "x", 1)
    pairs = [(x > 10, lambda: x - 10), (x > 5, lambda: x * 2)]
    y = paddle.static.nn.case(pairs, default=lambda: paddle.zeros_like(x) - 1)
    return [run(paddle, {"x": np.array([v], "float32")}, [y]) for v in (12, 6, 1)]


@check(S + "nn.switch_case")
def switch_case_picks_by_a_number(paddle, np):
    number, x = paddle.static.data("number", [1], "int32"), variable(paddle, "x", 1)
    y = paddle.static.nn.switch_case(number, {1: lambda: x * 2, 4: lambda: x * x}, default=lambda: x + 100)
    z = paddle.static.nn.switch_case(number, [lambda: x, lambda: x + 1])
    return [run(paddle, {"number": np.array([n], "int32"), "x": np.array([3], "float32")}, [y, z]) for n in (0, 1, 4, 7)]


@check(S + "nn.while_loop")
def while_loop_ends_by_the_feed(paddle, np):
    limit = paddle.static.data("limit", [1], "int64")
    i, s = paddle.zeros([1], "int64"), paddle.zeros([1], "int64")
    i, s = paddle.static.nn.while_loop(lambda i, s: i < limit, lambda i, s: [i + 1, s + i * i], [i, s])
    return [run(paddle, {"limit": np.array([n], "int64")}, [i, s]) for n in (4, 0, 6)]


# --- arrays


@check("paddle.tensor.create_array", "paddle.tensor.array_write", "paddle.tensor.array_read", "paddle.tensor.array_length")
def arrays_keep_what_is_written(paddle, np):
    x, tensor = variable(paddle, "x", 2, 3), paddle.tensor
    items = tensor.create_array("float32")
    empty = tensor.array_length(items)
    for place in range(3):
        tensor.array_write(x * (place + 1), index(paddle, place), array=items)
    tensor.array_write(x * x, index(paddle, 1), array=items)
    y = tensor.array_read(items, index(paddle, 1)) + tensor.array_read(items, index(paddle, 2))
    count = tensor.array_length(items)
    made = with_gradients(paddle, {"x": numbers(2, 3)}, y, [x])
    return {**made, "counts": [int(n.reshape(())) for n in run(paddle, {"x": numbers(2, 3)}, [empty, count])]}


@check("paddle.tensor.create_array")
def arrays_begin_with_a_list(paddle, np):
    x, tensor = variable(paddle, "x", 2, 3), paddle.tensor
    items = tensor.create_array("float32", [x, x + 1])
    items = tensor.array_write(x + 2, tensor.array_length(items), items)
    return run(paddle, {"x": numbers(2, 3)}, [tensor.array_read(items, index(paddle, n)) for n in range(3)])


@check("paddle.tensor.array_write")
def loops_write_to_arrays(paddle, np):
    x, limit, tensor = variable(paddle, "x", 2, 3), paddle.static.data("limit", [1], "int64"), paddle.tensor
    items = tensor.array_write(x, index(paddle, 0))

    def body(i, items):
        before = tensor.array_read(items, i - 1)
        items = tensor.array_write(before * 2 + i.astype("float32"), i, items)
        return [i + 1, items]

    _, items = paddle.static.nn.while_loop(lambda i, items: i < limit, body, [index(paddle, 1), items])
    count = tensor.array_length(items)
    last = tensor.array_read(items, count - 1)
    feeds = [{"x": numbers(2, 3), "limit": np.array([n], "int64")} for n in (1, 4)]
    return [[value.reshape(-1) for value in run(paddle, feed, [last, count])] for feed in feeds]


@check("paddle.tensor.array_write", "paddle.tensor.array_read")
def gradients_flow_through_arrays_that_loops_write(paddle, np):
    x, limit, tensor = variable(paddle, "x", 2, 3), paddle.static.data("limit", [1], "int64"), paddle.tensor
    items = tensor.array_write(x * 2, index(paddle, 0))

    def body(i, items):
        before = tensor.array_read(items, i - 1)
        return [i + 1, tensor.array_write(before * before * 0.5 + x, i, items)]

    _, items = paddle.static.nn.while_loop(lambda i, items: i < limit, body, [index(paddle, 1), items])
    y = tensor.array_read(items, limit - 1) + tensor.array_read(items, index(paddle, 1))
    return with_gradients(paddle, {"x": numbers(2, 3), "limit": np.array([4])}, y, [x])


@check("paddle.tensor.create_array")
def arrays_refuse_what_is_no_tensor(paddle, np):
    return [caught(lambda: paddle.tensor.create_array("float32", 3)), caught(lambda: paddle.tensor.create_array("float32", [1.0]))]


# --- files and places


@check(S + "save_to_file", S + "load_from_file")
def bytes_go_to_a_file_and_back(paddle, np):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "content")
        paddle.static.save_to_file(path, b"\x00model\xff")
        return list(paddle.static.load_from_file(path)), caught(lambda: paddle.static.save_to_file(path, "text"))


@check(S + "cpu_places", S + "cuda_places", S + "xpu_places")
def places_that_are_not_there_are_refused(paddle, np):
    static = paddle.static
    return [str(p) for p in static.cpu_places(2)], caught(lambda: static.cuda_places()), caught(lambda: static.xpu_places([0]))


@check(S + "IpuStrategy", S + "IpuCompiledProgram", S + "ipu_shard_guard")
def ipu_names_refuse(paddle, np):
    static = paddle.static
    return caught(static.IpuStrategy), caught(static.IpuCompiledProgram), caught(lambda: static.ipu_shard_guard(0).__enter__())


@check(S + "create_global_var", S + "create_parameter", S + "global_scope", S + "scope_guard", paddle="2.6.2")
def global_variables_live_in_the_scope(paddle, np):
    total = paddle.static.create_global_var([2], 1.5, "float32", persistable=True, name="total")
    weight = paddle.static.create_parameter([2], "float32", "weight", default_initializer=paddle.nn.initializer.Constant(2.0))
    paddle.assign(total + weight, total)
    run(paddle, {}, [weight], times=3)
    scope = paddle.static.global_scope()
    return [np.array(scope.find_var(name).get_tensor()) for name in ("total", "weight")], scope.find_var("other") is None


@check(S + "save", S + "load", S + "load_program_state", S + "set_program_state")
def values_are_saved_and_loaded(paddle, np):
    static = paddle.static
    x = variable(paddle, "x", 2, 3)
    y = static.nn.fc(x, 2, weight_attr=filled(paddle, 3, 2, name="w"), bias_attr=filled(paddle, 2, name="b"))
    paddle.optimizer.Momentum(0.1).minimize((y * y).mean())
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    main = static.default_main_program()
    step = lambda: executor.run(main, feed={"x": numbers(2, 3)}, fetch_list=[y])[0]
    found = [step(), step()]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        static.save(main, path)
        found.append(step())
        static.load(main, path, executor)
        found += [step(), step()]
        state = static.load_program_state(path)
        static.set_program_state(main, state)
        found.append(step())
    return found, sorted(name for name in state if name in ("w", "b"))


@check(S + "gradients", S + "append_backward")
def gradients_of_the_second_order(paddle, np):
    x = variable(paddle, "x", 2, 3)
    (slope,) = paddle.static.gradients([(x * x * x).sum()], [x])
    (bend,) = paddle.static.gradients([slope.sum()], [x])
    weight = paddle.static.create_parameter([3], "float32", default_initializer=paddle.nn.initializer.Constant(2.0))
    pairs = paddle.static.append_backward(((x * weight) ** 2).sum())
    return {"grad": run(paddle, {"x": numbers(2, 3)}, [slope, bend, pairs[0][1]])}
