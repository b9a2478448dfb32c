"""Every nn op's reference against a formula written another way, in float64 and in float32."""

import numpy as np
import pytest

from polyreme.dialects import nn
from polyreme.ir.core import Op
from polyreme.ir.evaluate import evaluate
from polyreme.ir.verify import verify
from tests.nn_cases import CASES, OF_COMPLEX, UNIFORM, numbers_close

DTYPES = {"float64": np.float64, "float32": np.float32}


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_reference_gives_what_the_formula_says(case, dtype):
    typed = case.typed(dtype)
    module = typed.module()
    verify(module)
    found = evaluate(module, typed.arrays)
    with np.errstate(all="ignore"):
        made = case.formula(*case.arrays)
    for got, wanted in zip(found, made if isinstance(made, tuple) else (made,), strict=True):
        numbers_close(got, np.asarray(wanted), np.float32 if dtype == np.float32 and got.dtype == np.float32 else got.dtype)


def test_every_op_has_a_case():
    ops = {cls for cls in vars(nn).values() if isinstance(cls, type) and issubclass(cls, Op)}
    # What has regions, and ends them, is tested with programs in them.
    of_control = {nn.CustomGradient, nn.If, nn.While, nn.Scan, nn.Yield}
    assert ops == {case.cls for case in CASES} | {UNIFORM.cls} | OF_COMPLEX | of_control


def test_of_fewer_elements_than_positions_are_asked_for_all_are_given():
    x = np.array([[1.0, 2.0], [4.0, 3.0]], np.float32)
    assert nn.Argsort.reference(x, axis=1, descending=True, count=3).tolist() == [[1, 0], [0, 1]]


@pytest.mark.filterwarnings("error")
def test_what_is_too_large_for_its_type_becomes_infinite_without_a_word():
    x = np.full((1, 2, 2, 2), 60000.0, np.float16)
    assert np.isinf(nn.Sum.reference(x, axis=(1,), keepdims=False)).all()
    weight = np.concatenate([x, x])[:, :1]
    assert np.isinf(nn.ConvTranspose.reference(x, weight, strides=(), padding=(), dilations=(), groups=1, sizes=())).all()
    assert np.isinf(nn.Dropout.reference(x, x, p=0.5, mode="upscale_in_train")).all()
