"""A program that is trained, and the files of its values: written and read by both frameworks."""

import os

import numpy as np

X = np.linspace(-1, 1, 20, dtype="float32").reshape(5, 4)
LABELS = np.array([[0], [1], [2], [1], [0]], "int64")


def net(paddle):
    """Batch norm, dropout and Adam with a schedule: the programs for training and for tests, the input and the scores."""
    static = paddle.static
    named = lambda name: paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Constant(0.25))
    x, label = static.data("x", [None, 4], "float32"), static.data("label", [None, 1], "int64")
    hidden = static.nn.fc(x, 6, weight_attr=paddle.ParamAttr(name="w"), bias_attr=named("b"), activation="relu")
    hidden = static.nn.batch_norm(
        hidden, param_attr=named("scale"), bias_attr=named("shift"), moving_mean_name="mean", moving_variance_name="variance"
    )
    scores = static.nn.fc(paddle.nn.functional.dropout(hidden, 0.5), 3, weight_attr=paddle.ParamAttr(name="v"), bias_attr=named("c"))
    loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
    main = static.default_main_program()
    test = main.clone(for_test=True)
    paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 2)).minimize(loss)
    return main, test, x, scores, loss


def write(paddle, folder):
    """Train, and write the values by all functions; what the program for tests gives, and its state."""
    static = paddle.static
    main, test, x, scores, loss = net(paddle)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    for _ in range(3):
        executor.run(main, feed={"x": X, "label": LABELS}, fetch_list=[loss])
    os.makedirs(folder, exist_ok=True)
    static.save(main, f"{folder}/saved")
    static.save(main, f"{folder}/saved2", protocol=2)
    static.save_to_file(f"{folder}/program", static.serialize_program([x], [scores], program=test))
    static.save_to_file(f"{folder}/values", static.serialize_persistables([x], [scores], executor, program=test))
    apart = paddle.fluid.io if hasattr(paddle, "fluid") else static.io
    persistable = lambda v: v.persistable
    apart.save_vars(executor, f"{folder}/apart", main, predicate=persistable)
    apart.save_vars(executor, folder, main, predicate=persistable, filename="combined")
    (expected,) = executor.run(test, feed={"x": X, "label": LABELS}, fetch_list=[scores.name])
    return expected, static.load_program_state(f"{folder}/saved")


def read(paddle, folder):
    """Read them again: by each way what the program for tests gives, and the state as it stands in the files, which is the same."""
    static = paddle.static
    main, test, x, scores, _ = net(paddle)
    executor = static.Executor(paddle.CPUPlace())
    found = {}

    def run(what):
        (found[what],) = executor.run(test, feed={"x": X, "label": LABELS}, fetch_list=[scores.name])
        executor.run(static.default_startup_program())

    executor.run(static.default_startup_program())
    everything = [v for v in main.list_vars() if v.persistable]
    for name in ("saved", "saved2", "apart"):
        static.load(main, f"{folder}/{name}", executor)
        run(f"load of {name}")
    static.load(main, f"{folder}/combined", executor, everything)
    run("load of combined")
    states = {name: static.load_program_state(f"{folder}/{name}") for name in ("saved", "saved2", "apart")}
    states["combined"] = static.load_program_state(f"{folder}/combined", everything)
    for name, state in states.items():
        static.set_program_state(main, state)
        run(f"state of {name}")
        assert {k: np.asarray(v).tolist() for k, v in state.items()} == {k: v.tolist() for k, v in states["saved"].items()}, name
    operators = [[op.type for op in static.Program.parse_from_string(static.load_from_file(f"{folder}/saved.pdmodel")).global_block().ops]]
    program = static.deserialize_program(static.load_from_file(f"{folder}/program"))
    static.deserialize_persistables(program, static.load_from_file(f"{folder}/values"), executor)
    fetched = [op.input("X")[0] for op in program.global_block().ops if op.type == "fetch"]
    (found["bytes"],) = executor.run(program, feed={"x": X}, fetch_list=fetched)
    assert "adam" in operators[0]
    return found, states["saved"]
