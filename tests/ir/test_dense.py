"""Constants whose arrays are made when somebody asks for them."""

import numpy as np

from polyreme.dialects import kernel
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.text import print_module
from polyreme.ir.types import TensorType, f32


def counted():
    """A constant made later, and how often it was made."""
    made = []

    def make():
        made.append(True)
        return np.arange(6, dtype=np.float32).reshape(2, 3).T

    return Dense.later(TensorType((3, 2), f32), make), made


def test_a_later_constant_is_made_when_it_is_asked_for_and_not_before():
    constant, made = counted()
    assert constant.type == TensorType((3, 2), f32) and str(constant) == "dense<tensor<3x2xf32>>"
    assert constant.size == 6 and hash(constant) == hash(constant) and constant == constant and not made
    np.testing.assert_array_equal(constant.made(), [[0, 3], [1, 4], [2, 5]])
    assert constant.made().flags.c_contiguous and len(made) == 2, "not kept"
    assert constant.array is constant.array and not constant.array.flags.writeable and len(made) == 3
    assert constant.made() is constant.array and len(made) == 3


def test_later_constants_are_equal_to_themselves_alone():
    (one, made), (two, _) = counted(), counted()
    assert one != two and one != Dense(one.made()) and len({one, two, one}) == 2
    assert len(made) == 1, "to compare them nobody has to make them"
    assert Dense(one.made()) == Dense(two.made())


def test_text_has_the_elements_of_a_later_constant():
    module, (constant, made) = Module.empty(), counted()
    b = Builder.at_end(module.block)
    b(kernel.Data, value=constant)
    assert not made
    assert "kernel.data {value = dense<[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]>}" in print_module(module)
    assert len(made) == 1


def test_parts_of_a_later_constant_are_made_one_by_one_and_of_any_other_there_is_one():
    constant, made = counted()
    assert [part.tolist() for part in constant.parts()] == [[[0, 3], [1, 4], [2, 5]]] and len(made) == 1
    rows = []

    def parts():
        for i in range(3):
            rows.append(i)
            yield np.float32([i, 3 + i])

    cut = Dense.later(TensorType((3, 2), f32), constant.made, parts)
    of_cut = cut.parts()
    assert not rows and next(of_cut).tolist() == [0, 3] and rows == [0]
    assert [part.tolist() for part in of_cut] == [[1, 4], [2, 5]] and len(made) == 1
    assert cut.array is not None and len(list(cut.parts())) == 1, "what is there as a whole is given so"
