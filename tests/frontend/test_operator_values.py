"""Operators compute what Paddle computes with the same inputs and attributes (`tests/operator_cases.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.operators.table import LEGACY, apply_legacy
from tests import deploy_operator_cases, operator_cases, selection_cases
from tests.operator_cases import OF_FLUID, Case

TABLES = {
    "operator_values.npz": operator_cases.CASES,
    "deploy_operator_values.npz": deploy_operator_cases.CASES,
    "selection_values.npz": selection_cases.CASES,
}
CASES = [case for cases in TABLES.values() for case in cases]
VALUES: dict[str, np.ndarray[Any, Any]] = {}
for name in TABLES:
    with np.load(Path(__file__).parents[1] / "fixtures" / name) as file:
        VALUES |= {f"{name} {key}": value for key, value in file.items()}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_recorded_is_of_these_cases(name: str) -> None:
    assert list(VALUES[f"{name} labels"]) == [case.label for case in TABLES[name]], "run tests/fixtures/make_operator_values.py"


def test_every_operator_has_a_case_or_tests_of_its_own() -> None:
    draws = {"gaussian_random", "randint", "randperm", "uniform_random"}
    elsewhere = {"dequantize_linear", "fake_dequantize_max_abs", "quantize_linear", "rnn", "sync_batch_norm"}
    # In the files of `fixtures/models/sizes`, whose sizes are fed.
    elsewhere |= {"bincount", "empty", "logspace", "strided_slice_before_3"}
    on_gpus = {"fused_softmax_mask"}
    copies = {"c_identity", "memcpy", "memcpy_d2h", "memcpy_h2d"}
    # Older than the Paddle that is asked: other names of operators that have cases.
    older = {f"{method}_interp" for method in ("bicubic", "linear", "trilinear")} | {"fill_zeros_like", "flatten", "pad2d"}
    older |= {"reshape", "squeeze", "transpose", "unsqueeze"}
    # In files of one function each: `test_function_files.py`.
    files = {"angle", "atan2", "bernoulli", "copysign", "equal_all", "fold", "histogram", "isclose", "kthvalue", "logit", "median", "mode"}
    files |= {"nanmedian", "nll_loss", "reduce_as", "renorm", "searchsorted", "segment_pool", "unpool", "viterbi_decode", "lp_pool2d"}
    files |= {"bitwise_left_shift", "bitwise_right_shift", "cummax", "cummin", "cumprod", "diagonal", "digamma", "elementwise_heaviside"}
    files |= {"baddbmm", "erfinv", "fill_diagonal_tensor", "gammaln", "i0", "i0e", "i1", "i1e", "lgamma", "logcumsumexp", "polygamma"}
    files |= {"fused_bias_residual_layernorm", "fused_rms_norm_quant", "graph_send_recv", "graph_send_ue_recv", "graph_send_uv"}
    files |= {"cholesky", "cholesky_solve", "determinant", "inverse", "matrix_power", "multi_dot", "slogdet_v2", "slogdeterminant", "solve"}
    files |= {"triangular_solve", "tril_indices", "triu_indices", "unpool3d"}
    # In `test_factorizations.py`.
    files |= {"eig", "eigh", "eigvals", "eigvalsh", "lstsq", "lu", "lu_unpack", "matrix_rank", "qr", "svd", "svdvals"}
    # Of Paddle 1.8.5: in `test_older_operators.py`, and in the programs of `tests/fluid*` and `tests/static_api`.
    assert set(LEGACY) - {case.type for case in CASES} == draws | elsewhere | on_gpus | copies | older | files | OF_FLUID


@pytest.mark.parametrize(
    "key, case",
    [(f"{name} {number}", case) for name, cases in TABLES.items() for number, case in enumerate(cases)],
    ids=[case.type for case in CASES],
)
def test_an_operator_gives_what_paddle_gives(key: str, case: Case) -> None:
    inputs = {slot: [paddle.to_tensor(a) for a in arrays] for slot, arrays in case.arrays().items()}
    made = apply_legacy(case.type, inputs, case.attrs)
    results = [tensor.numpy() for slot in case.outputs for tensor in made[slot]]
    expected = [VALUES[f"{key}.{i}"] for i in range(len(results))]
    assert f"{key}.{len(results)}" not in VALUES, case.label
    for ours, theirs in zip(results, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), case.label
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5, err_msg=case.label)


@pytest.mark.parametrize("ties, steps", [(0, [13.0, -4.0, 127.0]), (1, [0.0, 0.0, 0.0])])
def test_a_scale_that_nobody_gave_counts_as_of_one_millionth(ties: int, steps: list[float]) -> None:
    # What Paddle 3.3.1 gives.
    inputs = {"X": [paddle.to_tensor(np.float32([1e-7, -3e-8, 0.5]))], "InScale": [paddle.zeros([1])]}
    made = apply_legacy("fake_quantize_moving_average_abs_max", inputs, {"is_test": True, "round_type": ties})
    assert made["Out"][0].tolist() == steps
