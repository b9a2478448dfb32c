"""InputSpec: free sizes, names, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.static import InputSpec


def test_a_free_first_axis_is_one_batch_for_all_inputs() -> None:
    image, label = InputSpec([None, 3, -1], "float32", "image"), InputSpec([None, 1], "int64", "label")
    assert str(image.type("x")) == "tensor<Nx3ximage_2xf32>"
    assert str(label.type("y")) == "tensor<Nx1xi64>"


def test_named_sizes_stand_for_themselves() -> None:
    assert str(InputSpec(["B", "T"]).type("x")) == "tensor<BxTxf32>"


def test_an_unnamed_spec_takes_the_argument_name_for_its_own_sizes() -> None:
    assert str(InputSpec([2, None]).type("x[0]").shape[1]) == "x_0__1"


@pytest.mark.parametrize("shape", [[2.5], [-2], ["not a name"], [True], [[1]]])
def test_sizes_that_are_none_are_refused(shape: list[object]) -> None:
    with pytest.raises(ValueError, match="expected sizes to be numbers, None or names"):
        InputSpec(shape)


def test_specs_of_tensors_and_arrays_fix_every_size() -> None:
    tensor = paddle.to_tensor(np.zeros((2, 3), "float64"))
    assert InputSpec.from_tensor(tensor, "t").type("x") == tensor.type
    assert InputSpec.from_numpy(np.zeros((4,), "int32")).shape == (4,)


def test_batch_and_unbatch_undo_each_other() -> None:
    spec = InputSpec([3], "float32", "x")
    assert spec.batch(None).shape == (None, 3)
    assert spec.unbatch().shape == (3,)
    assert spec == InputSpec([3], "float32", "x") and hash(spec) == hash(InputSpec([3], "float32", "x"))
    with pytest.raises(ValueError, match="rank 1 or more"):
        InputSpec([]).unbatch()


def test_it_prints_as_in_paddle() -> None:
    assert repr(InputSpec([None, 784], "float32", "x")) == "InputSpec(shape=(-1, 784), dtype=paddle.float32, name=x, stop_gradient=False)"
