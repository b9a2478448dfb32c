"""The table of Paddle's operators: one entry for all doors, and what it says as data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.operators import definition, table
from polyreme.operators.arguments import UnsupportedError as RefusedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.table import apply_legacy, apply_pir
from polyreme.static.operator import OperatorError
from tests.frontend.static_mode import static_mode

ROOT = Path(__file__).parents[2]
X = np.array([[0.2, 0.9], [0.5, 0.7]], "float32")


@pytest.fixture
def programs() -> Iterator[Any]:
    with static_mode() as both:
        yield both


@pytest.fixture
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test declares is gone afterwards."""
    for name in ("PIR", "LEGACY", "NN_NAMES"):
        tables = getattr(definition, name)
        copy = dict(tables)
        monkeypatch.setattr(definition, name, copy)
        if hasattr(table, name):
            monkeypatch.setattr(table, name, copy)


@pytest.mark.usefixtures("own_tables")
def test_the_page_on_operators_adds_one_that_both_doors_apply() -> None:
    page = (ROOT / "docs/add_an_operator.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    for declared in (definition.PIR, definition.LEGACY):
        del declared["logit"]  # as the page finds it
    # Annotations of an entry are text, as in the files of families.
    exec(compile("from __future__ import annotations\n" + code, "page", "exec"), {})
    score = paddle.to_tensor(X)
    (made,) = apply_pir("logit", [score], {"eps": 1e-4})
    np.testing.assert_allclose(made.numpy(), np.log(X / (1 - X)), rtol=1e-5)
    older = apply_legacy("logit", {"X": [score]}, {"eps": 1e-4})
    np.testing.assert_array_equal(older["Out"][0].numpy(), made.numpy())


def test_every_file_that_declares_operators_is_among_the_families() -> None:
    files = {p.stem for p in (ROOT / "frontend/operators").rglob("*.py") if "\n@operator(" in p.read_text(encoding="utf-8")}
    assert files == {family.__name__.rpartition(".")[2] for family in table.FAMILIES}


@pytest.mark.usefixtures("own_tables")
def test_an_operator_declared_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="the operator 'relu' is declared twice"):
        operator("relu", legacy=spelled("relu_v9"))(lambda x: x)


A, B = (np.random.default_rng(k).standard_normal((3, 4)).astype("float32") for k in range(2))


@pytest.mark.parametrize(
    "type_, slots, attrs, expected",
    [
        # What a program leaves out is what Paddle takes: the first axis, the upper triangle, the method of the operator's name.
        ("reduce_sum", {"X": A}, {}, A.sum(0)),
        ("reduce_max", {"X": A}, {"keep_dim": True}, A.max(0, keepdims=True)),
        ("reduce_mean", {"X": A}, {"reduce_all": True}, A.mean()),
        ("frobenius_norm", {"X": A}, {"in_dtype": -1, "out_dtype": -1}, np.sqrt((A * A).sum(0))),
        ("tril_triu", {"X": A}, {}, np.triu(A)),
        ("bilinear_interp_v2", {"X": A[None, None]}, {"out_h": 1, "out_w": 2}, A[None, None, :1, ::3]),
        ("nearest_interp_v2", {"X": A[None, None]}, {"out_h": 3, "out_w": 2, "align_corners": False}, A[None, None, :, ::2]),
        ("flip", {"X": A}, {"axis": [1]}, A[:, ::-1]),
        ("flip", {"X": A}, {"dims": [0]}, A[::-1]),
        # Attributes of machines and of tables that change nothing.
        ("matmul", {"X": A, "Y": B.T}, {"head_number": 1, "Scale_x": 1.0, "force_fp32_output": True}, A @ B.T),
        ("lookup_table_v2", {"Ids": np.array([2, 0]), "W": A}, {"entry": "none", "table_class": "none"}, A[[2, 0]]),
        ("c_identity", {"X": A}, {"ring_id": 3, "use_calc_stream": True}, A),
    ],
)
def test_an_older_operator_does_as_paddle_with_what_it_leaves_out(
    type_: str, slots: dict[str, Any], attrs: dict[str, Any], expected: Any
) -> None:
    (made,) = apply_legacy(type_, {slot: [paddle.to_tensor(v)] for slot, v in slots.items()}, attrs)["Out"]
    assert made.shape == list(expected.shape)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "type_, attrs, message",
    [
        ("matmul", {"head_number": 2}, "expected no attribute 'head_number' of 'matmul' but got 2"),
        ("arg_max", {}, "expected 'axis' for 'argmax' but the program leaves it out"),
        ("pool2d", {"ksize": [2, 2]}, "expected 'pooling_type' for 'pool2d' but the program leaves it out"),
    ],
)
def test_what_an_operator_cannot_do_without_is_an_error(type_: str, attrs: dict[str, Any], message: str) -> None:
    slots = {"X": [paddle.to_tensor(A)]} | ({"Y": [paddle.to_tensor(B.T)]} if type_ == "matmul" else {})
    with pytest.raises(RefusedError) as caught:
        apply_legacy(type_, slots, attrs)
    assert message in str(caught.value)


def test_operators_that_have_lower_case_slots_and_those_of_pir_alone() -> None:
    x, y = paddle.to_tensor(A), paddle.to_tensor(B)
    (made,) = apply_legacy("swiglu", {"x": [x], "y": [y]}, {})["out"]
    np.testing.assert_allclose(made.numpy(), A / (1 + np.exp(-A)) * B, rtol=1e-5)
    (shaped,) = apply_pir("view_shape", [x], {"dims": [2, 6]})
    np.testing.assert_array_equal(shaped.numpy(), A.reshape(2, 6))


def test_a_slot_that_nobody_computes_may_be_named_and_one_that_is_not_there_may_not(programs: Any) -> None:
    main, _ = programs
    block, x = main.global_block(), paddle.static.data("x", [2, 3])
    y, shape = block.create_var(name="y"), block.create_var(name="y.shape")
    block.append_op("reshape2", {"X": x}, {"Out": y, "XShape": shape}, {"shape": [6]})
    assert y.shape == [6]
    with pytest.raises(
        OperatorError, match=r"expected the output slots Out, XShape of 'reshape2' but got 'Xshape'; did you mean 'XShape'\?"
    ):
        block.append_op("reshape2", {"X": x}, {"Out": y, "Xshape": shape}, {"shape": [6]})


@pytest.mark.parametrize(
    "type_, attrs", [("uniform_random", {}), ("gaussian_random", {}), ("randint", {"low": 0, "high": 1 << 30, "dtype": 3})]
)
def test_draws_with_a_seed_of_their_own_start_from_it_at_every_run(type_: str, attrs: dict[str, Any]) -> None:
    attrs = {"shape": [5], "seed": 3, "dtype": 5, **attrs}
    with static_mode() as (main, _):
        out = main.global_block().create_var(name="out")
        main.global_block().append_op(type_, {}, {"Out": out}, attrs)
        executor = paddle.static.Executor()
        first, second = (executor.run(main, fetch_list=[out])[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    eager = apply_legacy(type_, {}, attrs)["Out"][0]
    np.testing.assert_array_equal(first, eager.numpy())


def test_a_program_for_tests_draws_what_is_not_for_dropout(programs: Any) -> None:
    main, _ = programs
    x = paddle.static.data("x", [4])
    noisy = x + paddle.uniform([4], min=1.0, max=2.0)
    dropped = paddle.nn.functional.dropout(noisy, 0.5)
    test = main.clone(for_test=True)
    assert [op.type for op in main.global_block().ops].count("uniform_random") == 2
    assert [op.type for op in test.global_block().ops].count("uniform_random") == 1
    a, b = paddle.static.Executor().run(test, feed={"x": np.zeros(4, "float32")}, fetch_list=[noisy, dropped])
    np.testing.assert_array_equal(a, b)
    assert (a >= 1).all()


def test_batch_norm_appended_by_hand_is_for_inference_in_a_program_for_tests(programs: Any) -> None:
    main, _ = programs
    block = main.global_block()
    x = paddle.static.data("x", [4, 2])
    mean, variance = (paddle.static.create_global_var([2], v, "float32", persistable=True) for v in (0.0, 1.0))
    y = block.create_var(name="y")
    slots = {"Y": y, "MeanOut": mean, "VarianceOut": variance}
    block.append_op("batch_norm", {"X": x, "Mean": mean, "Variance": variance}, slots, {"epsilon": 0.0})
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    data = np.arange(8, dtype="float32").reshape(4, 2)
    (made,) = executor.run(main.clone(for_test=True), feed={"x": data}, fetch_list=[y])
    np.testing.assert_allclose(made, data)


def tensor_of(rank: int) -> Any:
    return paddle.to_tensor(np.arange(6, dtype="float32").reshape([2, 3, 1][:rank]) if rank else np.float32(3))


@pytest.mark.parametrize(
    ("name", "rank", "attributes"),
    [
        ("cumsum", 2, {"axis": 5}),
        ("cumsum", 2, {"axis": -3}),
        ("sum", 2, {"axis": [0, 3]}),
        ("mean", 2, {"axis": [1, -4]}),
        ("logsumexp", 2, {"axis": [0, 3]}),
        ("layer_norm", 2, {"begin_norm_axis": 5}),
        ("layer_norm", 2, {"begin_norm_axis": -1}),
        ("roll", 2, {"shifts": [1, 2], "axis": []}),
        ("roll", 2, {"shifts": [], "axis": []}),
        ("roll", 2, {"shifts": [1, 2], "axis": [0]}),
        ("unbind", 0, {}),
        ("unstack", 0, {}),
        ("split", 0, {"sections": [1]}),
        ("split_with_num", 0, {"num": 1}),
        ("full_batch_size_like", 2, {"shape": [1, 2], "input_dim_idx": 5}),
        ("full_batch_size_like", 2, {"shape": [1, 2], "output_dim_idx": 2}),
    ],
    ids=str,
)
def test_axes_that_there_are_not_are_refused(name: str, rank: int, attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected "):
        apply_pir(name, [tensor_of(rank)], attributes)


def test_older_operators_refuse_axes_that_there_are_not() -> None:
    with pytest.raises(RefusedError, match=r"expected 'axis' in \[-2, 2\] but got 9"):
        apply_legacy("flatten2", {"X": [tensor_of(2)]}, {"axis": 9})
    with pytest.raises(RefusedError, match="expected a target of 2 axes but got 3"):
        apply_legacy("expand_as", {"X": [tensor_of(2)], "target_tensor": [paddle.ones([2, 3, 1])]}, {})
    with pytest.raises(RefusedError, match="expected a start, end and step for each of the axes"):
        bounds = {"starts": [0], "ends": [2, 3], "steps": [1], "axes": [1]}
        apply_legacy("set_value", {"Input": [tensor_of(2)], "ValueTensor": [paddle.ones([1])]}, bounds)


def test_operators_agree_with_functions_at_the_edges() -> None:
    x, one = tensor_of(2), tensor_of(0)
    (length,) = apply_pir("p_norm", [x], {"asvector": True, "keepdim": True, "porder": 3.0})
    np.testing.assert_allclose(length.numpy(), paddle.norm(x, 3.0, keepdim=True).numpy(), strict=True)
    (summed,) = apply_pir("cumsum", [one], {"axis": -1})
    np.testing.assert_array_equal(summed.numpy(), paddle.cumsum(one, -1).numpy(), strict=True)
    (numbers,) = apply_pir("arange", [0.5, 2.6, 0.5], {"dtype": "int64"})
    np.testing.assert_array_equal(numbers.numpy(), paddle.arange(0.5, 2.6, 0.5, dtype="int64").numpy(), strict=True)


@pytest.mark.parametrize("p", [1, 2, 0, np.inf, 3.5, "fro"])
def test_an_axis_that_a_norm_lacks_is_told_of_the_norm(p: Any) -> None:
    with pytest.raises(IndexError, match=r"^norm expected axis in \[-3, 3\) but got 3"):
        paddle.norm(paddle.ones([2, 3, 4]), p=p, axis=3)
