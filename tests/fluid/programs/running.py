"""Executors, scopes, feeds and fetches, and files."""

import os
import shutil
import tempfile

import numpy as np

from tests.fluid.programs.recording import set_weights


def _rows(seed, *shape):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def hidden_values_fetched(fluid):
    """Hidden variables and gradients by name and by variable, before any update."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    hidden = layers.fc(x, 4, act="tanh", param_attr=fluid.ParamAttr(name="w"))
    loss = layers.reduce_mean(layers.square(hidden))
    fluid.backward.append_backward(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    fetches = ["fc_0.tmp_0", hidden, loss, hidden.name + "@GRAD", "fc_0.tmp_0@GRAD", "w@GRAD", loss.name + "@GRAD"]
    return exe.run(feed={"x": _rows(0, 2, 3)}, fetch_list=fetches)


def parameters_fed(fluid):
    """A parameter fed for one run, and what that leaves in the scope."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    out = layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    feed = {"x": _rows(1, 3, 2)}
    results = exe.run(feed=feed, fetch_list=[out])
    results += exe.run(feed={**feed, "w": np.eye(2, dtype="float32")}, fetch_list=[out])
    return results + [results[0].shape[0]]


def scopes_apart(fluid):
    """One program in two scopes: each has parameters of its own."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    loss = layers.mean(layers.square(layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"))))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    scopes, results = [fluid.Scope(), fluid.Scope()], []
    for number, scope in enumerate(scopes):
        with fluid.scope_guard(scope):
            exe.run(fluid.default_startup_program())
            set_weights(fluid, fluid.default_main_program(), seed=number)
    for i in range(4):
        with fluid.scope_guard(scopes[i % 2]):
            results += exe.run(feed={"x": _rows(i, 3, 2)}, fetch_list=[loss])
    results += exe.run(fluid.default_main_program(), feed={"x": _rows(9, 3, 2)}, fetch_list=[loss], scope=scopes[0])
    return results + [s.find_var("w").get_tensor() for s in scopes]


def startup_twice(fluid):
    """The second run of the startup program begins anew: parameters, accumulators and counters."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    start = fluid.initializer.NumpyArrayInitializer(np.array([[0.5, -1], [2, 0.25]], "float32"))
    hidden = layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w", initializer=start), bias_attr=False)
    loss = layers.mean(layers.square(hidden))
    rate = layers.exponential_decay(0.1, 1, 0.5)
    fluid.optimizer.Momentum(rate, 0.9).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    results = []
    for _ in range(2):
        exe.run(fluid.default_startup_program())
        for i in range(3):
            results += exe.run(feed={"x": _rows(i, 3, 2)}, fetch_list=[loss, rate])
    return results


def initializers_with_fixed_numbers(fluid):
    """Constants and arrays, as the startup program makes them."""
    layers, attr = fluid.layers, fluid.ParamAttr
    init = fluid.initializer
    layers.create_parameter([2, 3], "float32", attr=attr(name="a", initializer=init.ConstantInitializer(0.75)))
    array = np.arange(6).reshape(3, 2).astype("float32")
    layers.create_parameter([3, 2], "float32", attr=attr(name="b", initializer=init.NumpyArrayInitializer(array)))
    layers.create_parameter([2], "float64", attr=attr(name="c", initializer=init.Constant(-0.1)))
    layers.create_parameter([4], "float32", is_bias=True, attr=attr(name="d"))
    layers.create_global_var([2], 1.5, "float64", persistable=True, name="e")
    layers.create_global_var([1], 3, "int64", persistable=True, name="f")
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return [fluid.global_scope().find_var(n).get_tensor() for n in "abcdef"]


def executors_over_one_scope(fluid):
    """Two executors, one scope: what one trains the other sees."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    out = layers.fc(x, 1, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    test = fluid.default_main_program().clone(for_test=True)
    loss = layers.mean(layers.square(out - 1.0))
    fluid.optimizer.SGD(0.3).minimize(loss)
    trainer, tester = fluid.Executor(fluid.CPUPlace()), fluid.Executor(fluid.CPUPlace())
    trainer.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for i in range(4):
        results += trainer.run(feed={"x": _rows(i, 3, 2)}, fetch_list=[loss], use_program_cache=True)
        results += tester.run(test, feed={"x": _rows(8, 2, 2)}, fetch_list=[out])
    trainer.close()
    return results


def batches_of_any_size(fluid):
    """One program, batches of other sizes at every run, the last with a single row."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="int64")
    predict = layers.fc(x, 4, act="softmax")
    loss = layers.mean(layers.cross_entropy(predict, y))
    fluid.optimizer.Adagrad(0.2).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results = []
    for n in (4, 7, 2, 1):
        feed = {"x": _rows(n, n, 3), "y": (np.arange(n).reshape(n, 1) % 4).astype("int64")}
        results += exe.run(feed=feed, fetch_list=[loss, predict])
    return results


def integers_and_bools_fed(fluid):
    """Feeds of int32, int64, uint8 and bool, with casts and logic."""
    layers = fluid.layers
    a = layers.data(name="a", shape=[3], dtype="int32")
    b = layers.data(name="b", shape=[3], dtype="int64")
    c = layers.data(name="c", shape=[3], dtype="bool")
    d = layers.data(name="d", shape=[3], dtype="uint8")
    total = layers.cast(a, "int64") + b * 2
    both = layers.logical_and(c, layers.greater_than(b, layers.cast(a, "int64")))
    masked = layers.cast(both, "float32") * layers.cast(d, "float32")
    chosen = layers.reduce_sum(masked, dim=1)
    some = layers.reduce_any(c, dim=1)
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {
        "a": np.array([[1, -2, 3], [4, 5, 6]], "int32"),
        "b": np.array([[7, -8, 9], [1, 0, 2]], "int64"),
        "c": np.array([[True, False, True], [False, False, False]]),
        "d": np.array([[200, 1, 255], [0, 3, 9]], "uint8"),
    }
    return exe.run(feed=feed, fetch_list=[total, both, masked, chosen, some])


def names_with_prefixes(fluid):
    """`unique_name.guard` with prefixes, and `name_scope`, which changes no name of a parameter."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    with fluid.unique_name.guard("left_"):
        left = layers.fc(x, 2)
    with fluid.unique_name.guard("right_"):
        right = layers.fc(x, 2)
    with fluid.name_scope("outer"):
        with fluid.name_scope("inner"):
            out = layers.fc(left + right, 1, name="named")
    loss = layers.mean(out)
    fluid.optimizer.SGD(0.1).minimize(loss)
    main = fluid.default_main_program()
    names = sorted(p.name for p in main.all_parameters())
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, main)
    results = []
    for i in range(3):
        results += exe.run(feed={"x": _rows(i, 2, 2)}, fetch_list=[loss, names[0], names[-1] + "@GRAD"])
    return results + [[ord(c) for c in " ".join(names)]]


def models_saved_for_inference(fluid):
    """`save_inference_model`, and the model loaded into another scope."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="float32")
    hidden = layers.fc(x, 3, act="relu")
    predict = layers.fc(layers.dropout(hidden, 0.0), 1)
    loss = layers.mean(layers.square_error_cost(predict, y))
    fluid.optimizer.Adam(0.1, epsilon=1e-3).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    results, folder = [], tempfile.mkdtemp()
    try:
        for i in range(3):
            results += exe.run(feed={"x": _rows(i, 4, 3), "y": _rows(i, 4, 1)}, fetch_list=[loss])
        fluid.io.save_inference_model(folder, ["x"], [predict], exe, params_filename="params")
        with fluid.scope_guard(fluid.Scope()):
            program, names, targets = fluid.io.load_inference_model(folder, exe, params_filename="params")
            results += exe.run(program, feed={names[0]: _rows(5, 2, 3)}, fetch_list=targets)
    finally:
        shutil.rmtree(folder)
    return results + [len(names)]


def training_that_goes_on(fluid):
    """`save_persistables` in the middle, loaded into another scope, which goes on with the same losses."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    loss = layers.mean(layers.square(layers.fc(x, 2, act="tanh") - 0.5))
    fluid.optimizer.Momentum(layers.exponential_decay(0.3, 2, 0.7), 0.9).minimize(loss)
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    set_weights(fluid, main)
    results, folder = [], tempfile.mkdtemp()
    try:
        for i in range(5):
            if i == 3:
                fluid.io.save_persistables(exe, folder, main)
                fluid.save(main, os.path.join(folder, "whole"))
            results += exe.run(feed={"x": _rows(i, 3, 3)}, fetch_list=[loss])
        for load in (lambda: fluid.io.load_persistables(exe, folder, main), lambda: fluid.load(main, os.path.join(folder, "whole"), exe)):
            with fluid.scope_guard(fluid.Scope()):
                exe.run(startup)
                load()
                for i in (3, 4):
                    results += exe.run(main, feed={"x": _rows(i, 3, 3)}, fetch_list=[loss])
    finally:
        shutil.rmtree(folder)
    return results


def parameters_by_themselves(fluid):
    """`save_params` and `save_vars` of some, and `load_vars` of what a predicate chooses."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    out = layers.fc(layers.fc(x, 2, param_attr="a", bias_attr=False), 2, param_attr="b", bias_attr="c")
    main = fluid.default_main_program()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, main)
    results, folder = [], tempfile.mkdtemp()
    try:
        fluid.io.save_params(exe, folder, main)
        results += exe.run(feed={"x": _rows(0, 2, 2)}, fetch_list=[out])
        set_weights(fluid, main, seed=8)
        fluid.io.load_vars(exe, folder, main, predicate=lambda v: v.name in ("a", "c"))
        results += exe.run(feed={"x": _rows(0, 2, 2)}, fetch_list=[out, "a", "b", "c"])
        fluid.io.load_params(exe, folder, main)
        results += exe.run(feed={"x": _rows(0, 2, 2)}, fetch_list=[out])
    finally:
        shutil.rmtree(folder)
    return results


def state_of_programs(fluid):
    """`load_program_state` and `set_program_state`: arrays by their names, changed in between."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32")
    out = layers.fc(x, 2, param_attr="w", bias_attr="b")
    main = fluid.default_main_program()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, main)
    folder = tempfile.mkdtemp()
    try:
        fluid.save(main, os.path.join(folder, "model"))
        state = fluid.load_program_state(os.path.join(folder, "model"))
    finally:
        shutil.rmtree(folder)
    state["w"] = state["w"] * 2.0
    fluid.set_program_state(main, state)
    return [state["b"], *exe.run(feed={"x": _rows(0, 2, 2)}, fetch_list=[out, "w"])]


def replicas_of_a_program(fluid):
    """A compiled program beside the plain one, on one device."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    loss = layers.mean(layers.square(layers.fc(x, 2, param_attr="w", bias_attr=False) - 1.0))
    fluid.optimizer.SGD(0.2).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    compiled = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(1))
    results = []
    for i in range(4):
        results += exe.run(compiled if i % 2 else None, feed={"x": _rows(i, 4, 3)}, fetch_list=[loss])
    return results + [fluid.global_scope().find_var("w").get_tensor()]


def rows_taken_and_given(fluid):
    """Gathers, scatters, slices and stacks of fed data, with gradients to what was fed."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[5, 3], dtype="float32", append_batch_size=False)
    x.stop_gradient = False
    index = layers.data(name="index", shape=[2], dtype="int64", append_batch_size=False)
    picked = layers.gather(x, index)
    put = layers.scatter(x, index, layers.scale(picked, 10.0))
    part = layers.slice(put, axes=[0, 1], starts=[1, 0], ends=[4, 2])
    halves = layers.split(layers.concat([part, part * 2.0], axis=1), num_or_sections=2, dim=1)
    out = layers.reduce_sum(layers.stack([halves[0], layers.reverse(halves[1], axis=0)], axis=0), dim=0)
    loss = layers.mean(layers.square(layers.slice(x, axes=[0], starts=[1], ends=[-1])) * 2.0)
    (dx,) = fluid.gradients(loss, x)
    exe = fluid.Executor(fluid.CPUPlace())
    results = []
    for order in ([0, 3], [4, 1]):
        results += exe.run(feed={"x": _rows(1, 5, 3), "index": np.array(order, "int64")}, fetch_list=[picked, put, out, dx])
    return results


def metrics_over_batches(fluid):
    """`fluid.metrics` over the batches of a program."""
    layers = fluid.layers
    x = layers.data(name="x", shape=[3], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="int64")
    predict = layers.fc(x, 3, act="softmax", bias_attr=False)
    acc = layers.accuracy(predict, y)
    best, place = layers.topk(predict, k=2)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, fluid.default_main_program())
    mean, results = fluid.metrics.Accuracy(), []
    for n in (4, 2, 5):
        feed = {"x": _rows(n, n, 3), "y": (np.arange(n).reshape(n, 1) % 3).astype("int64")}
        value, first, where = exe.run(feed=feed, fetch_list=[acc, best, place])
        mean.update(value=value, weight=n)
        results += [value, first, where, mean.eval()]
    return results
