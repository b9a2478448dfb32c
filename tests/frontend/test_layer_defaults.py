"""Layers of one, two and three axes have one `__init__`, which tells itself apart by defaults only."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import pytest

import polyreme as paddle
from polyreme.nn.layers.defaults import defaults

FORMATS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
TRIPLETS = ("Conv{}D", "Conv{}DTranspose", "BatchNorm{}D", "InstanceNorm{}D", "Pad{}D")
PAIRS = ("MaxPool{}D", "AvgPool{}D", "AdaptiveAvgPool{}D", "Dropout{}D")


@pytest.mark.parametrize("name, rank", [(n, r) for n in TRIPLETS for r in (1, 2, 3)] + [(n, r) for n in PAIRS for r in (2, 3)])
def test_the_default_format_is_that_of_the_rank(name: str, rank: int) -> None:
    signature = inspect.signature(getattr(paddle.nn, name.format(rank)))
    assert signature.parameters["data_format"].default == FORMATS[rank]


def test_a_wrong_argument_names_the_class_and_a_fault_shows_the_code() -> None:
    with pytest.raises(TypeError, match=r"^Conv3D.__init__\(\) got an unexpected keyword argument 'strides'"):
        paddle.nn.Conv3D(1, 1, 3, strides=2)  # type: ignore[call-arg]
    with pytest.raises(ValueError) as caught:
        paddle.nn.Conv1D(3, 4, 3, groups=2)
    last = traceback.extract_tb(caught.tb)[-1]
    assert last.filename.endswith("conv.py") and "in_channels must be divisible by groups" in str(last.line)


def test_what_has_no_such_default_is_refused() -> None:
    class Base:
        def __init__(self, size: int, mode: str = "a", *, scale: float = 1.0):
            self.all = (size, mode, scale)

    @defaults(mode="b", scale=2.0)
    class Other(Base):
        pass

    assert (Other(1).all, Other(1, "c", scale=3.0).all, Base(1).all) == ((1, "b", 2.0), (1, "c", 3.0), (1, "a", 1.0))
    for wrong in ("size", "depth"):
        with pytest.raises(TypeError, match=f"expected the name of a parameter with a default for '.*Third.__init__' but got '{wrong}'"):

            @defaults(**{wrong: 1})
            class Third(Base):
                pass


def test_a_wrapped_function_is_refused() -> None:
    class Base(paddle.nn.GroupNorm):
        pass

    change: Any = defaults(epsilon=1.0)
    with pytest.raises(TypeError, match="expected a plain function for"):
        change(Base)
