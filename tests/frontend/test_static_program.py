"""Programs, blocks, variables and operators, before anything runs."""

import copy
import pickle

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.static import OpRole, Program
from polyreme.static.operator import AttrType
from polyreme.utils import unique_name
from tests.frontend.static_mode import static_mode


@pytest.fixture
def programs():
    with static_mode() as both:
        yield both


def variables(block, *names, shape=(2, 3)):
    return [block.create_var(name=n, shape=list(shape), dtype="float32") for n in names]


# --- modes and guards


def test_functions_run_at_once_unless_static_mode_is_on():
    assert paddle.in_dynamic_mode()
    with static_mode():
        assert not paddle.in_dynamic_mode()
        assert isinstance(paddle.ones([2]), static.Variable)
    assert paddle.in_dynamic_mode() and float(paddle.ones([2]).sum()) == 2.0


def test_the_mode_cannot_be_switched_inside_a_traced_function():
    @paddle.jit.to_static
    def f(x):
        paddle.enable_static()
        return x

    with pytest.raises(RuntimeError, match="outside of traced functions"):
        f(paddle.ones([2]))
    assert paddle.in_dynamic_mode()


def test_a_guard_switches_both_programs_and_gives_them_back(programs):
    before = static.default_main_program(), static.default_startup_program()
    inner = Program()
    with static.program_guard(inner):
        assert static.default_main_program() is inner and static.default_startup_program() is before[1]
        x = static.data("x", [None, 4])
    assert (static.default_main_program(), static.default_startup_program()) == before
    assert inner.global_block().var("x") is x and not before[0].global_block().has_var("x")
    with pytest.raises(TypeError, match="expected a Program"), static.program_guard(3):
        pass


# --- variables


def test_a_variable_shows_free_sizes_as_minus_one(programs):
    x = static.data("x", [None, 784], "float32")
    y = paddle.nn.functional.relu(x)
    assert list(y.shape) == [-1, 784] and repr(y.shape) == "paddle.Size([-1, 784])" and y.shape[0] == -1 and y.shape == x.shape
    assert x.is_data and x.stop_gradient and not x.persistable and x.dtype is paddle.float32
    assert repr(x) == "var x : LOD_TENSOR.shape(-1, 784).dtype(float32).stop_gradient(True)"


def test_a_free_size_in_a_shape_stands_for_itself(programs):
    x = static.data("x", [None, 6])
    assert list(paddle.reshape(x, [x.shape[0], 2, 3]).shape) == [-1, 2, 3]
    assert list(paddle.reshape(x, [x.shape[0], -1, 3]).shape) == [-1, 2, 3]
    assert list(paddle.zeros([x.shape[0], 2]).shape) == [-1, 2]


def test_named_and_further_free_sizes_differ_from_the_batch(programs):
    x, y = static.data("x", [None, None]), static.data("y", ["T", 3])
    assert [str(d) for d in x.type.shape] == ["N", "x_1"] and [str(d) for d in y.type.shape] == ["T", "3"]


def test_values_of_a_variable_are_refused_with_the_way_out(programs):
    x = static.data("x", [None, 4])
    for read in (x.numpy, lambda: float(x), lambda: bool(x > 0), lambda: x.tolist()):
        with pytest.raises(ValueError, match=r"only while the program runs; fetch it with Executor.run"):
            read()
    with pytest.raises(ValueError, match=r"paddle.static.append_backward"):
        x.backward()
    with pytest.raises(ValueError, match="clone the program"):
        copy.deepcopy(x)
    with pytest.raises(ValueError, match=r"paddle.static.save"):
        pickle.dumps(x)


def test_a_variable_is_refused_in_dygraph_mode():
    with static_mode():
        x = static.data("x", [2])
    with pytest.raises(RuntimeError, match="the variable 'x' of a static program"):
        paddle.tanh(x)


def test_a_variable_of_another_program_is_refused(programs):
    with static.program_guard(Program()):
        x = static.data("x", [2])
    with pytest.raises(ValueError, match="'x' belongs to another one"):
        paddle.tanh(x)


def test_astype_appends_a_cast_and_arithmetic_appends_operators(programs):
    x = static.data("x", [None, 2])
    y = x.astype("int64")
    assert y.dtype is paddle.int64 and [op.type for op in programs[0].global_block().ops] == ["cast"]
    _ = 2.0 * x - x
    assert [op.type for op in programs[0].global_block().ops][-2:] == ["elementwise_mul", "elementwise_sub"]


# --- blocks


def test_names_are_unique_in_a_block_and_seen_from_its_children(programs):
    main, _ = programs
    (a,) = variables(main.global_block(), "a")
    inner = main.create_block()
    assert main.current_block() is inner and inner.parent_idx == 0 and main.num_blocks == 2
    assert inner.var_recursive("a") is a and not inner.has_var("a")
    with pytest.raises(ValueError, match="expected a variable of block 1 but got 'a'"):
        inner.var("a")
    main.rollback()
    assert main.current_block() is main.global_block()
    with pytest.raises(ValueError, match="parent to roll back"):
        main.rollback()
    assert main.global_block().create_var(name="a") is a
    with pytest.raises(ValueError, match="keep the dtype float32"):
        main.global_block().create_var(name="a", dtype="int64")
    with pytest.raises(ValueError, match=r"keep the shape \[2, 3\]"):
        main.global_block().create_var(name="a", shape=[3])


def test_an_unknown_variable_is_a_value_error_with_the_nearest_name(programs):
    block = programs[0].global_block()
    variables(block, "weight")
    with pytest.raises(ValueError, match="did you mean 'weight'"):
        block.var("wieght")
    with pytest.raises(ValueError, match="did you mean 'weight'"):
        block.var_recursive("wieght")
    with pytest.raises(TypeError, match="require string"):
        block.var(3)


def test_operators_are_placed_removed_and_sliced(programs):
    block = programs[0].global_block()
    x, y = variables(block, "x", "y")
    last = block.append_op(type="relu", inputs={"X": x}, outputs={"Out": y})
    first = block.prepend_op(type="abs", inputs={"X": [x]}, outputs={"Out": [x]})
    middle = block.insert_op(1, type="tanh", inputs={"X": "x"}, outputs={"Out": "x"})
    assert block.ops == [first, middle, last] and [op.idx for op in block.ops] == [0, 1, 2]
    assert block.slice_ops(1, 3) == [middle, last]
    block.remove_op(1)
    assert block.ops == [first, last] and y.op is last


def test_an_operator_tells_its_arguments_and_renames_them(programs):
    block = programs[0].global_block()
    a, b, c = variables(block, "a", "b", "c")
    op = block.append_op(type="sum", inputs={"X": [a, b, c]}, outputs={"Out": [a]})
    assert op.input("X") == ["a", "b", "c"] and op.output("Out") == ["a"] and op.input_names == ["X"] and op.output_arg_names == ["a"]
    op.rename_input("b", "c")
    assert op.input("X") == ["a", "c", "c"]
    op.rename_output("a", "b")
    assert op.output("Out") == ["b"] and op.input_arg_names == ["a", "c", "c"]
    with pytest.raises(ValueError, match="inputs X of 'sum' but got 'Y'"):
        op.input("Y")
    assert repr(op).startswith("{Out=['b']} = sum(inputs={X=['a', 'c', 'c']}")


def test_attributes_keep_their_type(programs):
    block = programs[0].global_block()
    x, y = variables(block, "x", "y")
    op = block.append_op(type="dropout", inputs={"X": x}, outputs={"Out": y}, attrs={"dropout_prob": 0.5})
    assert op.attr("dropout_prob") == 0.5 and op.has_attr("is_test") and op.attr("is_test") is False
    assert op.attr_type("is_test") == AttrType.BOOL
    kinds = {name: str(op.attr_type(name)) for name in ("dropout_prob", "is_test", "op_role", "op_role_var")}
    assert kinds == dict(zip(kinds, ("AttrType.FLOAT", "AttrType.BOOL", "AttrType.INT", "AttrType.STRINGS"), strict=True))
    assert repr(op.attr_type("dropout_prob")) == "<AttrType.FLOAT: 1>" and int(op.attr_type("is_test")) == 6
    op.set_attr("dropout_prob", 1)
    assert op.attr("dropout_prob") == 1.0 and isinstance(op.attr("dropout_prob"), float)
    for name, value in (("is_test", "yes"), ("is_test", 1), ("dropout_prob", "0.5"), ("nothing", 1)):
        with pytest.raises(ValueError, match=name):
            op.set_attr(name, value)
    with pytest.raises(ValueError, match="did you mean 'dropout_prob'"):
        op.attr("dropout_p")
    assert set(op.all_attrs()) >= {"dropout_prob", "is_test", "op_role"}
    with pytest.raises(ValueError, match="name a block"):
        op.block_attr("is_test")


@pytest.mark.parametrize(
    ("kind", "inputs", "attrs", "message"),
    [
        ("relo", {"X": "x"}, {}, "did you mean 'relu'"),
        ("relu", {"Y": "x"}, {}, "Y"),
        ("relu", {"X": "missing"}, {}, "missing"),
        ("relu", {"X": 3.0}, {}, "expected variables or their names in 'X'"),
        ("matmul_v2", {"X": "x", "Y": "x"}, {}, "inner"),
        ("matmul_v2", {"X": "x", "Y": "x"}, {"trans_z": True}, "trans_z"),
        (None, {"X": "x"}, {}, "initialized an Operator"),
    ],
)
def test_an_operator_that_does_not_fit_its_type_is_a_value_error(programs, kind, inputs, attrs, message):
    block = programs[0].global_block()
    variables(block, "x", "y")
    with pytest.raises(ValueError, match=message):
        block.append_op(type=kind, inputs=inputs, outputs={"Out": "y"}, attrs=attrs)
    assert not block.ops


def test_renaming_a_variable_renames_it_in_operators(programs):
    block = programs[0].global_block()
    x, y = variables(block, "x", "y")
    op = block.append_op(type="relu", inputs={"X": x}, outputs={"Out": y})
    assert block.rename_var("y", "z") is y and y.name == "z" and op.output("Out") == ["z"] and list(block.vars) == ["x", "z"]
    x.name = "image"
    assert op.input("X") == ["image"]
    with pytest.raises(ValueError, match="'nothing'"):
        block.rename_var("nothing", "w")
    with pytest.raises(ValueError, match="is a variable already"):
        block.rename_var("z", "image")


def test_shapes_follow_from_operators_that_are_appended_by_hand(programs):
    block = programs[0].global_block()
    x = block.create_var(name="x", shape=[-1, 1, 8, 8])
    w = block.create_parameter(name="w", shape=[4, 1, 3, 3])
    y = block.create_var(name="y")
    with pytest.raises(ValueError, match="'y' has none yet"):
        y.to_string(True)
    block.append_op(type="conv2d", inputs={"Input": x, "Filter": w}, outputs={"Output": y}, attrs={"strides": [1, 1], "paddings": [1, 1]})
    assert list(y.shape) == [-1, 4, 8, 8]


def test_a_wrong_shape_names_the_line_and_where_its_operands_come_from(programs):
    x = static.data("image", [None, 4])
    w = static.data("table", [3, 2])
    with pytest.raises(ValueError) as caught:
        paddle.matmul(x, w)
    text = str(caught.value)
    assert "test_static_program.py" in text and "but got 4 and 3" in text and "'image' is" in text and "'table' is" in text


# --- programs


def test_parameters_are_made_in_both_programs_under_the_names_of_dygraph_mode(programs):
    main, startup = programs
    layer = paddle.nn.Linear(4, 3)
    x = static.data("x", [None, 4])
    static.nn.fc(layer(x), 2, name="head", activation="relu")
    names = ["linear_0.w_0", "linear_0.b_0", "head.w_0", "head.b_0"]
    assert [p.name for p in main.all_parameters()] == names == [p.name for p in startup.all_parameters()]
    assert [op.type for op in startup.global_block().ops] == ["uniform_random", "fill_constant"] * 2
    assert (
        isinstance(layer.weight, static.Parameter)
        and layer.weight.trainable
        and layer.weight.persistable
        and [n for n, _ in layer.named_parameters()] == ["weight", "bias"]
    )
    assert [op.type for op in main.global_block().ops] == ["linear", "linear", "relu"]


def test_a_parameter_attribute_reaches_the_parameter_and_a_name_shares_it(programs):
    main, startup = programs
    x = static.data("x", [None, 4])
    attr = paddle.ParamAttr(name="shared", learning_rate=0.5, regularizer=paddle.regularizer.L2Decay(1.0), trainable=False)
    for _ in range(2):
        static.nn.fc(x, 4, weight_attr=attr, bias_attr=False)
    (shared,) = main.all_parameters()
    assert (
        shared.name == "shared"
        and shared.optimize_attr == {"learning_rate": 0.5}
        and not shared.trainable
        and len(startup.global_block().ops) == 1
    )
    with pytest.raises(ValueError, match=r"keep the shape \[4, 4\]"):
        static.nn.fc(x, 5, weight_attr=attr)


def test_fc_flattens_and_sums_its_inputs(programs):
    x, y = static.data("x", [None, 2, 3]), static.data("y", [None, 5])
    assert list(static.nn.fc(x, 7).shape) == [-1, 7]
    assert list(static.nn.fc(x, 7, num_flatten_dims=2).shape) == [-1, 2, 7]
    assert list(static.nn.fc([x, y], 7).shape) == [-1, 7]
    assert list(static.nn.embedding(static.data("ids", [None, 4], "int64"), [10, 6]).shape) == [-1, 4, 6]
    assert list(static.nn.conv2d(static.data("image", [None, 4, 8, 8]), 6, 3, groups=2, act="relu").shape) == [-1, 6, 6, 6]
    with pytest.raises(ValueError, match="num_flatten_dims"):
        static.nn.fc(x, 7, num_flatten_dims=3)
    with pytest.raises(ValueError, match="name of an activation"):
        static.nn.fc(y, 7, activation="rely")


def test_operators_carry_their_role(programs):
    main, _ = programs
    x = static.data("x", [None, 4])
    loss = paddle.mean(static.nn.fc(x, 1))
    pairs = static.append_backward(loss)
    parameter, gradient = pairs[0]
    with main.optimized_guard([parameter, gradient]):
        _ = parameter - 0.001 * gradient
    roles = [op.attr("op_role") for op in main.global_block().ops]
    forward = [r for r in roles if r == OpRole.Forward]
    assert roles[: len(forward)] == forward and roles[len(forward)] == OpRole.Loss
    assert roles[len(forward) + 1] == OpRole.Backward | OpRole.Loss and roles[-1] == OpRole.Optimize
    assert main.global_block().ops[-1].attr("op_role_var") == [parameter.name, gradient.name] and main.op_role == OpRole.Forward
    main.set_op_role(OpRole.LRSched)
    assert main.op_role == OpRole.LRSched


def test_a_clone_is_independent_and_one_for_tests_lacks_training(programs):
    main, startup = programs
    x = static.data("x", [None, 4])
    hidden = paddle.nn.functional.dropout(static.nn.fc(x, 4), 0.5)
    before = main.clone(for_test=True)
    paddle.optimizer.Adam(0.1).minimize(paddle.mean(hidden))

    def dropped(program):
        return next(op for op in program.global_block().ops if op.type == "dropout")

    after, whole = main.clone(for_test=True), main.clone()
    assert dropped(before).attr("is_test") is True and dropped(after).attr("is_test") is True and dropped(main).attr("is_test") is False
    assert len(before.global_block().ops) < len(main.global_block().ops) == len(whole.global_block().ops)
    assert {op.attr("op_role") for op in after.global_block().ops} == {OpRole.Forward, OpRole.Loss}
    assert whole.global_block().var(hidden.name) is not hidden and [p.name for p in whole.all_parameters()] == [
        p.name for p in main.all_parameters()
    ]
    whole.global_block().remove_op(0)
    assert len(whole.global_block().ops) == len(main.global_block().ops) - 1


def test_pruning_keeps_what_the_target_needs(programs):
    main, _ = programs
    x = static.data("x", [None, 4])
    hidden = static.nn.fc(x, 4)
    loss = paddle.mean(hidden)
    pairs = static.append_backward(loss)
    kept = main.prune(hidden)
    assert [op.type for op in kept.global_block().ops] == ["linear"] and set(kept.global_block().vars) >= {"x", hidden.name}
    assert [op.type for op in main.prune([pairs[0][1]]).global_block().ops] == [
        "linear",
        "reduce_mean",
        "fill_constant",
        "reduce_mean_grad",
        "linear_grad",
    ]
    with pytest.raises(ValueError, match="variables or operators"):
        main.prune([3])


def test_two_networks_of_one_function_have_the_same_names(programs):
    def network():
        x = static.data("image", [None, 8])
        return static.nn.fc(static.nn.fc(x, 4, activation="relu"), 2)

    made = []
    for _ in range(2):
        made.append(Program())
        with static.program_guard(made[-1], Program()), unique_name.guard():
            network()
    assert made[0].to_string(True) == made[1].to_string(True)


def test_parameter_and_data_information_is_copied_between_programs(programs):
    main, _ = programs
    static.nn.fc(static.data("x", [None, 4]), 2, weight_attr=paddle.ParamAttr(name="w", learning_rate=0.1))
    other = main.clone()
    main.all_parameters()[0].optimize_attr["learning_rate"] = 0.7
    other.copy_param_info_from(main)
    assert other.all_parameters()[0].optimize_attr["learning_rate"] == 0.7
    with pytest.raises(TypeError):
        other.copy_param_info_from(3)
    with pytest.raises(ValueError, match="same topology"):
        Program().copy_param_info_from(main)


def test_values_reach_parameters_through_the_scope(programs):
    layer = paddle.nn.Linear(2, 2)
    layer.weight.set_value(np.eye(2, dtype="float32"))
    np.testing.assert_array_equal(layer.weight.get_value().numpy(), np.eye(2))
    with pytest.raises(ValueError, match=r"shape \[2, 2\] for 'linear_0.w_0' but got \[3\]"):
        layer.weight.set_value(np.zeros(3, "float32"))
    with pytest.raises(ValueError, match="dtype float32"):
        layer.weight.set_value(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"expected a value of 'linear_0.b_0'"):
        layer.bias.get_value()
