"""The same functions while traced: what the program computes, with known and with symbolic sizes, and what cannot be captured."""

from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, scalar_type
from polyreme.jit.trace import trace
from tests.fixtures.make_functions import CASES, INPUTS

EXPECTED = np.load(Path(__file__).parents[1] / "fixtures" / "functions.npz")

# Their results, or the sizes of them, follow from values that are not known yet; or they draw as no op can say.
NOT_CAPTURED = {
    "masked_select", "index_mask", "randn", "randn64", "normal", "normal_tensor", "randint", "randint_wide", "randperm",
    "randperm_even",
}  # fmt: skip
# With a free batch: what models of pictures, sequences and tables are made of.
FREE_BATCH = [
    "add", "rsub", "clip", "where", "sum", "mean", "max", "std", "var", "logsumexp", "norm", "argmax", "cumsum", "topk", "sort", "matmul_vector", "batched", "reshape_zero", "transpose", "flatten",
    "squeeze", "concat", "stack", "split", "chunk", "unbind", "tile", "flip", "gather", "moveaxis", "index_negative_step", "index_list", "index_none", "gelu", "softmax", "log_softmax",
    "maxout", "glu", "prelu", "conv2d", "conv2d_same", "conv2d_last", "conv1d", "max_pool2d", "max_pool2d_ceil", "avg_pool2d", "avg_pool2d_divisor", "adaptive_avg",
    "adaptive_avg_global", "adaptive_max", "pad", "pad_reflect", "unfold", "embedding", "one_hot", "label_smooth", "normalize", "cosine_similarity", "dropout", "dropout2d",
    "cross_entropy", "cross_entropy_ignored_mean", "cross_entropy_weighted", "cross_entropy_soft", "nll_loss", "mse_loss", "smooth_l1_loss", "bce_logits", "kl_div",
]  # fmt: skip


def traced_result(name, free_batch):
    names, expression = CASES[name][0].split(), CASES[name][1]

    def function(*tensors):
        return eval(expression, {"paddle": paddle, "F": paddle.nn.functional, **dict(zip(names, tensors, strict=True))})

    types = []
    for n in names:
        shape = tuple(INPUTS[n].shape)
        batched = free_batch and n in ("a", "p", "i", "label", "image", "series")
        first = symbol("M" if n in ("image", "series") else "N")
        types.append((TensorType((first, *shape[1:]) if batched else shape, scalar_type(INPUTS[n].dtype)), n, True))
    paddle.seed(42)
    traced = trace(function, lambda tensors: (tuple(tensors), {}), types, {})
    arguments = [INPUTS[names[s]] if isinstance(s, int) else s._value for s in traced.sources]
    return evaluate(traced.module(), arguments)[0]


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_CAPTURED])
def test_a_traced_function_computes_the_same(name):
    np.testing.assert_allclose(traced_result(name, False), EXPECTED[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", FREE_BATCH)
def test_a_function_of_a_free_batch_computes_the_same(name):
    np.testing.assert_allclose(traced_result(name, True), EXPECTED[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", sorted(NOT_CAPTURED))
def test_what_cannot_be_captured_is_an_error_that_says_why(name):
    with pytest.raises(PolyremeError, match="while the function is traced|no compiled form yet"):
        traced_result(name, False)
