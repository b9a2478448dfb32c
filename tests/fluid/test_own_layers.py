"""Layers that users of Paddle 1 write themselves, with what its own layers are written with."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme.fluid as fluid
from polyreme.fluid import core
from polyreme.fluid.backward import calc_gradient
from polyreme.fluid.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype
from polyreme.fluid.framework import Variable, convert_np_dtype_to_dtype_, grad_var_name
from polyreme.fluid.layer_helper import LayerHelper

layers = fluid.layers
Kind = core.VarDesc.VarType


def scaled(input, factor, act=None, param_attr=None, name=None):
    """`factor` times the input times a weight per column."""
    check_variable_and_dtype(input, "input", ["float32", "float64"], "scaled")
    check_type(factor, "factor", (int, float), "scaled")
    helper = LayerHelper("scaled", **locals())
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[input.shape[1]], dtype=Kind.FP32, default_initializer=fluid.initializer.Constant(2.0)
    )
    product, made = (helper.create_variable_for_type_inference(dtype=helper.input_dtype()) for _ in range(2))
    helper.append_op(type="elementwise_mul", inputs={"X": input, "Y": weight}, outputs={"Out": product}, attrs={"axis": -1})
    helper.append_op(type="scale", inputs={"X": product}, outputs={"Out": made}, attrs={"scale": float(factor)})
    return helper.append_activation(made)


def test_a_layer_of_ones_own():
    x = layers.data("x", [3], dtype=Kind.FP32)
    x.stop_gradient = False
    made = scaled(x, 3, act="relu")
    gradient = calc_gradient(made, x)
    assert gradient.name == grad_var_name("x") and isinstance(gradient, Variable)
    both = calc_gradient([made], [x, made])
    assert isinstance(both, list) and len(both) == 2
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rows = np.array([[1.0, -1.0, 0.5]], "float32")
    found, slope = exe.run(feed={"x": rows}, fetch_list=[made, gradient])
    np.testing.assert_array_equal(found, np.maximum(6 * rows, 0))
    np.testing.assert_array_equal(slope, np.where(rows > 0, 6.0, 0.0))


def test_what_a_layer_refuses():
    x = layers.data("x", [3], dtype="int64")
    with pytest.raises(TypeError, match=r"The data type of 'input' in scaled must be \['float32', 'float64'\], but received int64"):
        scaled(x, 2)
    with pytest.raises(TypeError, match="The type of 'input' in scaled must be .*Variable.*, but received .*ndarray"):
        scaled(np.ones(3), 2)
    with pytest.raises(TypeError, match="The type of 'factor' in scaled"):
        scaled(layers.data("y", [3]), "2")
    with fluid.dygraph.guard():
        check_dtype("int64", "input", ["float32"], "scaled")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (Kind.FP32, "float32"), (Kind.INT64, "int64"), (Kind.BOOL, "bool"), ("float64", "float64"), (np.float16, "float16"),
        (np.dtype("uint8"), "uint8"),
    ],  # fmt: skip
)
def test_element_types_by_all_their_names(given, name):
    assert convert_dtype(given) == convert_dtype(convert_np_dtype_to_dtype_(given)) == name
    made = layers.cast(layers.data("x", [2]), given)
    assert convert_dtype(made.dtype) == name and made.dtype == convert_np_dtype_to_dtype_(name)


def test_what_a_variable_is_but_no_element_type():
    with pytest.raises(TypeError, match="expected a dtype but got"):
        convert_dtype(Kind.LOD_TENSOR)


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 0), ((3, 1, 2), 1), ((2, 4), -1)])
def test_unbind_which_came_behind_all_of_fluid(shape, axis):
    """`fluid.layers.unbind` is in the index of the first Paddle 2; 1.8.5 has it not."""
    x = layers.data("x", list(shape), append_batch_size=False, stop_gradient=False)
    parts = layers.unbind(x, axis)
    (gradient,) = fluid.gradients(layers.reduce_sum(layers.square(parts[-1])), [x])
    values = np.random.RandomState(0).randn(*shape).astype("float32")
    *found, slope = fluid.Executor().run(feed={"x": values}, fetch_list=[*parts, gradient])
    expected = [np.take(values, i, axis) for i in range(shape[axis])]
    assert len(found) == len(expected) and all((a == b).all() for a, b in zip(found, expected, strict=True))
    last = np.zeros_like(values)
    np.moveaxis(last, axis, 0)[-1] = 2 * expected[-1]
    np.testing.assert_allclose(slope, last, rtol=1e-6)
    with pytest.raises(ValueError, match="known number of elements"):
        layers.unbind(layers.data("y", [3]), 0)
