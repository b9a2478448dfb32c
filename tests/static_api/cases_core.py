"""`paddle.static`: programs, variables, guards, the executor, saved models."""

import os
import tempfile

from tests.api.table import caught
from tests.static_api.table import check, filled, numbers, run

S = "paddle.static."


def net(paddle):
    """A net with dropout and batch normalization: its input, hidden layer and output."""
    x = paddle.static.data("x", [None, 3], "float32")
    hidden = paddle.static.nn.fc(x, 4, weight_attr=filled(paddle, 3, 4, name="w"), bias_attr=filled(paddle, 4, name="b"), activation="relu")
    dropped = paddle.nn.functional.dropout(hidden, 0.5)
    return x, hidden, paddle.static.nn.fc(dropped, 2, weight_attr=filled(paddle, 4, 2, name="v"), bias_attr=False)


@check(S + "Program", S + "default_main_program", S + "default_startup_program", paddle="2.6.2")
def programs_know_their_parts(paddle, np):
    x, hidden, y = net(paddle)
    main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
    block = main.global_block()
    return {
        "parameters": [p.name for p in main.all_parameters()],
        "blocks": [main.num_blocks, block.idx, main.block(0) is block, main.current_block() is block],
        "persistable": sorted(v.name for v in main.list_vars() if v.persistable),
        "startup": sorted(v.name for v in startup.list_vars()),
        "types": [op.type for op in startup.global_block().ops],
        "seed": main.random_seed,
        "inputs": [v.name for v in main.list_vars() if v.is_data],
        "var": [list(block.var("w").shape), block.has_var("w"), block.has_var("z"), caught(lambda: block.var("z"))],
    }


@check(S + "Program", S + "program_guard", paddle="2.6.2")
def clones_for_tests_drop_nothing(paddle, np):
    x, hidden, y = net(paddle)
    test = paddle.static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(0.1).minimize(paddle.mean(y))
    feed = {"x": numbers(5, 3)}
    return run(paddle, feed, [hidden.name, y.name], main=test), sorted(p.name for p in test.all_parameters())


@check(S + "program_guard", paddle="2.6.2")
def guards_switch_both_programs_and_back(paddle, np):
    static = paddle.static
    outer = static.default_main_program(), static.default_startup_program()
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        inside = [static.default_main_program() is main, static.default_startup_program() is startup]
        with static.program_guard(outer[0]):
            inside += [static.default_main_program() is outer[0], static.default_startup_program() is startup]
    after = [static.default_main_program() is outer[0], static.default_startup_program() is outer[1]]
    return inside, after, caught(lambda: static.program_guard(3).__enter__())


@check(S + "Variable", S + "data", paddle="2.6.2")
def data_makes_inputs(paddle, np):
    x = paddle.static.data("x", [None, 3], "float64")
    y = paddle.static.data("y", [-1, 2, 4])
    sizes = lambda v: [-1 if n == -1 else int(n) for n in v.shape]
    facts = [[v.name, sizes(v), v.dtype == paddle.float64, v.stop_gradient, v.persistable, v.is_data] for v in (x, y)]
    z = x.astype("float32") * 2
    wrong = [caught(lambda: paddle.static.data(3, [1])), caught(lambda: paddle.static.data("z", 3))]
    return facts, [sizes(z), z.dtype == paddle.float32, z.persistable], wrong


@check(S + "InputSpec")
def input_specs_print_and_compare(paddle, np):
    spec = paddle.static.InputSpec([None, 784], "float32", "x")
    other = paddle.static.InputSpec.from_numpy(np.ones([2, 3], "int64"), "y")
    batched = paddle.static.InputSpec([784], "float32", "x").batch(4)
    same = paddle.static.InputSpec([None, 784], "float32", "x")
    return [[-1 if n is None else n for n in s.shape] for s in (spec, other, batched, batched.unbatch())], spec == same


@check(S + "Executor", S + "Executor.run", S + "Executor.close")
def executors_feed_and_fetch(paddle, np):
    x, y = paddle.static.data("x", [None, 3], "float32"), paddle.static.data("y", [None, 3], "float32")
    total, product = x + y, x * y
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed = {"x": numbers(2, 3), "y": numbers(2, 3, seed=1)}
    found = [
        executor.run(feed=feed, fetch_list=[total, product]),
        executor.run(paddle.static.default_main_program(), feed, [product, total]),
        executor.run(feed={"x": numbers(4, 3), "y": numbers(4, 3)}, fetch_list=[total]),
    ]
    kept = executor.run(feed=feed, fetch_list=[total], return_numpy=False)
    found.append([np.array(kept[0])])
    executor.close()
    return found


@check(S + "Executor.run", paddle="2.6.2")
def wrong_programs_are_refused(paddle, np):
    x = paddle.static.data("x", [None, 3], "float32")
    y = paddle.static.nn.fc(x, 2)
    executor = paddle.static.Executor(paddle.CPUPlace())
    return [
        caught(lambda: executor.run(feed={"x": numbers(2, 3)}, fetch_list=[y])),
        caught(lambda: executor.run(feed={"x": numbers(2, 4)}, fetch_list=[x.name])),
        caught(lambda: executor.run(feed={"x": numbers(2, 3).astype("float64")}, fetch_list=[x.name])),
    ]


@check(S + "name_scope", S + "device_guard", paddle="2.6.2")
def parts_and_devices_are_labels_of_operators(paddle, np):
    static = paddle.static
    x = static.data("x", [None, 3], "float32")
    with static.name_scope("a"):
        y = x * 2
        with static.name_scope("b"), static.device_guard("cpu"):
            z = y + x
        with static.name_scope("b"):
            w = paddle.tanh(z)
    with static.name_scope("a"):
        v = paddle.exp(w)
    ops = static.default_main_program().global_block().ops
    scopes = [op.attr("op_namescope") for op in ops if op.type in ("tanh", "exp", "elementwise_add")]
    devices = [op.attr("op_device") for op in ops if op.type == "elementwise_add"]
    return scopes, devices, run(paddle, {"x": numbers(2, 3)}, [v]), caught(lambda: static.device_guard("tpu").__enter__())


@check(S + "save_inference_model", S + "load_inference_model", S + "normalize_program", paddle="2.6.2")
def models_for_inference_go_to_files_and_back(paddle, np):
    static = paddle.static
    x, hidden, y = net(paddle)
    paddle.optimizer.SGD(0.1).minimize(paddle.mean(y))
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    executor.run(feed={"x": numbers(5, 3)})
    normal = static.normalize_program(static.default_main_program(), [x], [y])
    found = [executor.run(normal, feed={"x": numbers(4, 3)}, fetch_list=[y.name])[0]]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        static.save_inference_model(path, [x], [y], executor)
        with static.scope_guard(static.global_scope().new_scope()):
            program, names, fetches = static.load_inference_model(path, executor)
            found.append(executor.run(program, feed={names[0]: numbers(4, 3)}, fetch_list=fetches)[0])
    return found, list(names)


@check(
    S + "serialize_program", S + "serialize_persistables", S + "deserialize_program", S + "deserialize_persistables", S + "global_scope",
    paddle="2.6.2",
)  # fmt: skip
def programs_and_values_go_through_bytes(paddle, np):
    static = paddle.static
    x, hidden, y = net(paddle)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    program, values = static.serialize_program([x], [y]), static.serialize_persistables([x], [y], executor)
    again = static.deserialize_program(program)
    block = again.global_block()
    doors = [[op.type, op.input("X")[0] if op.type == "fetch" else op.output("Out")[0]] for op in block.ops if op.type in ("feed", "fetch")]
    with static.scope_guard(static.Scope() if hasattr(static, "Scope") else paddle.base.core.Scope()):
        static.deserialize_persistables(again, values, executor)
        found = executor.run(again, feed={"x": numbers(4, 3)}, fetch_list=[doors[1][1]])
    kinds = [type(program).__name__, type(values).__name__, len(values)]
    return found, kinds, [doors[0], doors[1][0]], caught(lambda: static.deserialize_persistables(3, values, executor))
