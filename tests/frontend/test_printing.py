"""Tensors and layers as text, against Paddle's own."""

import json
import warnings
from pathlib import Path

import pytest

import polyreme as paddle
from polyreme import printing
from tests.fixtures.make_printing import LAYERS, TENSORS, layer_text, tensor_text

EXPECTED = json.loads((Path(__file__).parents[1] / "fixtures" / "printing.json").read_text())


@pytest.mark.parametrize("expression", TENSORS)
def test_a_tensor_prints_as_in_paddle(expression):
    assert tensor_text(paddle, expression) == EXPECTED[expression]


@pytest.mark.parametrize("expression", LAYERS)
def test_a_layer_prints_as_in_paddle(expression):
    assert layer_text(paddle, expression) == EXPECTED[expression]


@pytest.fixture
def options():
    saved = printing.PrintOptions(**vars(printing.OPTIONS))
    yield
    vars(printing.OPTIONS).update(vars(saved))


def test_print_options_change_digits_and_width(options):
    paddle.set_printoptions(precision=2, threshold=4, edgeitems=1, linewidth=40)
    assert repr(paddle.to_tensor([0.123, 1.0, 2.0, 3.0, 4.5])).endswith("[0.12, ..., 4.50])")
    paddle.set_printoptions(sci_mode=True)
    assert "1.23e-01" in repr(paddle.to_tensor(0.123))


def test_a_wrong_print_option_is_refused(options):
    with pytest.raises(TypeError, match="expected 'precision' to be int but got '3'"):
        paddle.set_printoptions(precision="3")


def test_dropout_prints_as_the_documents_have_it():
    assert repr(paddle.nn.Dropout(0.5)) == "Dropout(p=0.5, axis=None, mode=upscale_in_train)"


def test_an_empty_tensor_says_that_it_is_not_initialized():
    assert repr(paddle.nn.Layer().create_tensor()) == "Tensor(Not initialized)"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_tensor_with_nan_prints_without_a_warning(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "nan" in repr(paddle.to_tensor([float("nan"), 1.0]).astype(dtype))
