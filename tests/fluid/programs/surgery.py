"""Programs that are taken apart: clones, prunes, operators put in and taken out, names changed, bytes."""

import numpy as np

from tests.fluid.programs.recording import set_weights


def _start(fluid, program=None):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    set_weights(fluid, program or fluid.default_main_program())
    return exe


def _rows(seed, *shape):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def operators_one_by_one(fluid):
    """A net of `append_op` alone, in a block without layers."""
    main = fluid.default_main_program()
    block = main.global_block()
    x = block.create_var(name="x", shape=[-1, 3], dtype="float32")
    w = block.create_parameter(name="w", shape=[3, 2], dtype="float32")
    startup = fluid.default_startup_program().global_block()
    first = startup.create_parameter(name="w", shape=[3, 2], dtype="float32")
    startup.append_op(type="fill_constant", outputs={"Out": [first]}, attrs={"shape": [3, 2], "dtype": w.dtype, "value": 1.0})
    product = block.create_var(name="product", shape=[-1, 2], dtype="float32")
    out = block.create_var(name="out", shape=[-1, 2], dtype="float32")
    block.append_op(type="mul", inputs={"X": x, "Y": w}, outputs={"Out": product})
    block.append_op(type="relu", inputs={"X": [product]}, outputs={"Out": [out]})
    loss = fluid.layers.mean(out)
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = _start(fluid)
    results = []
    for i in range(3):
        results += exe.run(feed={"x": _rows(i, 4, 3)}, fetch_list=[out, loss, "w@GRAD"])
    return results


def operators_put_in(fluid):
    """An operator set before one that there is, and one at the front."""
    layers = fluid.layers
    block = fluid.default_main_program().global_block()
    x = layers.data(name="x", shape=[3], dtype="float32")
    hidden = layers.scale(x, 2.0)
    out = layers.exp(hidden)
    place = [op.type for op in block.ops].index("exp")
    block._insert_op(place, type="scale", inputs={"X": [hidden]}, outputs={"Out": [hidden]}, attrs={"scale": -1.0, "bias": 0.5})
    bias = block.create_var(name="bias", shape=[1], dtype="float32")
    block._prepend_op(type="fill_constant", outputs={"Out": [bias]}, attrs={"shape": [1], "dtype": bias.dtype, "value": 3.0})
    shifted = layers.elementwise_add(out, bias)
    exe = _start(fluid)
    return exe.run(feed={"x": _rows(0, 2, 3)}, fetch_list=[hidden, out, shifted])


def operators_taken_out(fluid):
    """Dropout is taken out of a program after it was built."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[4], dtype="float32")
    hidden = layers.fc(x, 4, act="relu")
    dropped = layers.dropout(hidden, 0.5)
    out = layers.reduce_sum(layers.fc(dropped, 2, act="tanh"), dim=1)
    block = main.global_block()
    place = [op.type for op in block.ops].index("dropout")
    block._remove_op(place)
    block._insert_op(place, type="assign", inputs={"X": [hidden]}, outputs={"Out": [dropped]})
    exe = _start(fluid)
    return exe.run(feed={"x": _rows(1, 3, 4)}, fetch_list=[dropped, out])


def names_changed(fluid):
    """Inputs and outputs of operators renamed, and then a variable of the block."""
    layers = fluid.layers
    block = fluid.default_main_program().global_block()
    x = layers.data(name="x", shape=[2], dtype="float32")
    y = layers.data(name="y", shape=[2], dtype="float32")
    first = layers.scale(x, 3.0)
    out = layers.tanh(first)
    block.ops[0]._rename_input(x.name, y.name)
    older = out.name
    block._rename_var(older, "result")
    exe = _start(fluid)
    return exe.run(feed={"x": _rows(2, 2, 2), "y": _rows(3, 2, 2)}, fetch_list=[first, "result"])


def attributes_changed(fluid):
    """An attribute set in the operator of the clone; the first program keeps its own."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[2], dtype="float32")
    out = layers.scale(x, 2.0, bias=1.0)
    other = main.clone()
    other.global_block().ops[0]._set_attr("scale", 10.0)
    exe = _start(fluid)
    feed = {"x": _rows(4, 3, 2)}
    results = exe.run(main, feed=feed, fetch_list=[out]) + exe.run(other, feed=feed, fetch_list=[out.name])
    return results + [main.global_block().ops[0].attr("scale"), other.global_block().ops[0].attr("scale")]


def clones_grow_apart(fluid):
    """Layers appended to a clone are not in the first program; parameters are the same."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[3], dtype="float32")
    hidden = layers.fc(x, 3, act="sigmoid", param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    twin = main.clone()
    with fluid.program_guard(main):
        loss = layers.mean(hidden)
        fluid.optimizer.SGD(1.0).minimize(loss)
    with fluid.program_guard(twin):
        square = layers.square(twin.global_block().var(hidden.name))
    exe = _start(fluid, main)
    results = []
    for i in range(3):
        feed = {"x": _rows(i, 2, 3)}
        results += exe.run(twin, feed=feed, fetch_list=[square]) + exe.run(main, feed=feed, fetch_list=[loss])
    return results + [len(main.global_block().ops) > len(twin.global_block().ops)]


def clone_of_a_trained_program(fluid):
    """A clone for tests made after `minimize` has neither gradients nor updates."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[3, 4, 4], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="int64")
    made = layers.batch_norm(layers.conv2d(x, 2, 3), act="relu", momentum=0.5)
    predict = layers.fc(made, 3, act="softmax")
    loss = layers.mean(layers.cross_entropy(predict, y))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    test = main.clone(for_test=True)
    exe = _start(fluid)
    results, y_fed = [], np.array([[0], [2]], "int64")
    for i in range(3):
        feed = {"x": _rows(i, 2, 3, 4, 4), "y": y_fed}
        results += exe.run(test, feed=feed, fetch_list=[loss, predict]) + exe.run(main, feed=feed, fetch_list=[loss])
    return results + [[op.type for op in test.global_block().ops].count("momentum")]


def pruned_to_a_target(fluid):
    """`_prune` keeps what a variable needs: no label, no loss, no update."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[4], dtype="float32")
    y = layers.data(name="y", shape=[1], dtype="float32")
    hidden = layers.fc(x, 3, act="tanh")
    out = layers.fc(hidden, 1)
    loss = layers.mean(layers.square_error_cost(out, y))
    fluid.optimizer.Adam(0.1, epsilon=1e-3).minimize(loss)
    pruned = main.clone(for_test=True)._prune([out])
    exe = _start(fluid)
    results = []
    for i in range(3):
        results += exe.run(main, feed={"x": _rows(i, 3, 4), "y": _rows(i + 9, 3, 1)}, fetch_list=[loss])
        results += exe.run(pruned, feed={"x": _rows(i, 3, 4)}, fetch_list=[out])
    return results + [len(pruned.global_block().ops)]


def pruned_between(fluid):
    """`_prune_with_input`: from a hidden variable, which is fed, to the result."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[4], dtype="float32")
    hidden = layers.fc(x, 3, act="tanh")
    out = layers.fc(hidden, 2, act="softmax")
    upper = main._prune_with_input([hidden.name], [out])
    exe = _start(fluid)
    results = exe.run(main, feed={"x": _rows(0, 2, 4)}, fetch_list=[hidden, out])
    return results + exe.run(upper, feed={hidden.name: results[0] * 2.0}, fetch_list=[out]) + [len(upper.global_block().ops)]


def bytes_and_back(fluid):
    """A program read from its own bytes does the same."""
    layers = fluid.layers
    main = fluid.default_main_program()
    x = layers.data(name="x", shape=[3], dtype="float32")
    loss = layers.mean(layers.square(layers.fc(x, 2, act="relu", param_attr=fluid.ParamAttr(name="w"))))
    fluid.optimizer.Momentum(0.2, 0.9).minimize(loss)
    read = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    exe = _start(fluid)
    results = []
    for i in range(4):
        results += exe.run(read if i % 2 else main, feed={"x": _rows(i, 2, 3)}, fetch_list=[loss.name, "w@GRAD"])
    return results


def blocks_by_hand(fluid):
    """A conditional block made of `_create_block`, `append_op` and `_rollback`."""
    main = fluid.default_main_program()
    layers = fluid.layers
    x = layers.data(name="x", shape=[2], dtype="float32", append_batch_size=False)
    out = layers.fill_constant([2], "float32", -1.0)
    flag = layers.less_than(layers.reduce_sum(x), layers.fill_constant([1], "float32", 0.0))
    root = main.global_block()
    scopes = root.create_var(name="scopes", type=fluid.core.VarDesc.VarType.STEP_SCOPES)
    inner = main._create_block()
    inner.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"scale": 5.0})
    main._rollback()
    root.append_op(
        type="conditional_block", inputs={"Cond": [flag], "Input": [x]}, outputs={"Out": [out], "Scope": [scopes]},
        attrs={"sub_block": inner, "is_scalar_condition": True},
    )  # fmt: skip
    exe = _start(fluid)
    results = []
    for values in ([1, 2], [-1, -2], [3, -4]):
        results += exe.run(feed={"x": np.array(values, "float32")}, fetch_list=[out])
    return results


def gradient_operators_moved(fluid):
    """The gradient of a hidden variable is scaled by an operator put behind the one that makes it."""
    layers = fluid.layers
    block = fluid.default_main_program().global_block()
    x = layers.data(name="x", shape=[3], dtype="float32")
    hidden = layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    loss = layers.mean(layers.tanh(hidden))
    fluid.backward.append_backward(loss)
    gradient = hidden.name + "@GRAD"
    place = [i for i, op in enumerate(block.ops) if gradient in op.output_arg_names][0]
    variable = block.var(gradient)
    block._insert_op(place + 1, type="scale", inputs={"X": [variable]}, outputs={"Out": [variable]}, attrs={"scale": 3.0})
    exe = _start(fluid)
    return exe.run(feed={"x": _rows(6, 4, 3)}, fetch_list=[loss, gradient, "w@GRAD"])


def updates_by_hand(fluid):
    """Gradients by `append_backward`, and an update by operators: sgd, and what a person thinks of himself."""
    layers = fluid.layers
    block = fluid.default_main_program().global_block()
    x = layers.data(name="x", shape=[3], dtype="float32")
    loss = layers.mean(layers.square(layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=fluid.ParamAttr(name="b")) - 1.0))
    pairs = {p.name: (p, g) for p, g in fluid.backward.append_backward(loss)}
    rate = layers.fill_constant([1], "float32", 0.2)
    w, gw = pairs["w"]
    block.append_op(type="sgd", inputs={"Param": [w], "Grad": [gw], "LearningRate": [rate]}, outputs={"ParamOut": [w]})
    b, gb = pairs["b"]
    layers.assign(layers.elementwise_sub(b, layers.sign(gb) * 0.05), output=b)
    exe = _start(fluid)
    results = []
    for i in range(4):
        results += exe.run(feed={"x": _rows(i, 4, 3)}, fetch_list=[loss, "w", "b"])
    return results
