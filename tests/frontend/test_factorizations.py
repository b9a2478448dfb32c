"""Matrices as products of simpler ones, which LAPACK computes on the host: in files that Paddle saved, and as ops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch, static
from polyreme.dialects import host
from polyreme.ir.diagnostics import PolyremeError

MODELS = Path(__file__).parents[1] / "fixtures" / "models" / "matrices"
_rng = np.random.RandomState(0)


@pytest.mark.parametrize("file", ["matrices.json", "matrices.pdmodel"])
def test_a_saved_model_takes_matrices_apart_as_paddle_does(file):
    with np.load(MODELS / f"{file}.npz") as kept:
        expected = [kept[f"y{i}"] for i in range(len(kept) - 1)]
        x = kept["x"]
    model = paddle.jit.load(MODELS / file)
    for _ in range(2):
        found = model(paddle.to_tensor(x))
        assert len(found) == len(expected)
        for i, (got, wanted) in enumerate(zip(found, expected, strict=True)):
            assert (got.numpy().dtype, got.numpy().shape) == (wanted.dtype, wanted.shape), i
            # The second matrix has a rank of two: what belongs to its third singular value is rounding alone.
            count = len(wanted) and (1 if wanted.shape[0] == 2 else None)
            np.testing.assert_allclose(got.numpy()[:count], wanted[:count], rtol=1e-3, atol=1e-4, err_msg=str(i))
    # Another batch, with one compilation.
    np.testing.assert_allclose(model(paddle.to_tensor(x[:1]))[0].numpy(), x[:1], atol=1e-5)


def test_a_library_says_that_matrices_are_taken_apart_on_the_host(tmp_path):
    with pytest.raises(PolyremeError, match=r"host\.\w+"):
        paddle.compile(paddle.jit.load(MODELS / "matrices.json"), tmp_path / "net.so")


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 0, 4, 4), (2, 2, 3, 6), (1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_exchanged_so_that_triangles_are_left(shape, dtype):
    x = _rng.randn(*shape).astype(dtype)
    packed, rows, zero = host.Lu.reference(x)
    count = min(shape[-2:])
    lower = np.tril(packed[..., :count], -1) + np.eye(shape[-2], count)
    order = np.broadcast_to(np.arange(shape[-2]), (*shape[:-2], shape[-2])).copy()
    for place in np.ndindex(shape[:-2]):
        for i in range(count):
            other = rows[(*place, i)] - 1
            order[place][[i, other]] = order[place][[other, i]]
    np.testing.assert_allclose(lower @ np.triu(packed[..., :count, :]), np.take_along_axis(x, order[..., None], -2), atol=1e-5)
    assert (np.abs(np.tril(packed[..., :count], -1)) <= 1).all()
    assert not zero.any() and packed.dtype == x.dtype


def test_a_zero_of_the_diagonal_is_told():
    _, _, zero = host.Lu.reference(np.float32([[[1, 2], [2, 4]], [[0, 0], [0, 1]], [[1, 0], [0, 1]]]))
    assert zero.tolist() == [2, 1, 0]


def test_ops_infer_the_shapes_that_they_give():
    x, square = paddle.to_tensor(_rng.randn(2, 5, 3).astype("float32")), paddle.to_tensor(_rng.randn(2, 3, 3).astype("float32"))
    for op, given, attributes in [
        (host.FullSingularVectors, x, {}), (host.Qr, x, {"complete": True}), (host.Qr, x, {"complete": False}), (host.Lu, x, {}),
        (host.SymmetricEigen, square, {"upper": True}), (host.Eigen, square, {}),
    ]:  # fmt: skip
        kinds = op.infer(given.type, **attributes)
        made = dispatch.call(op, given, **attributes)
        assert [t.type for t in made] == list(kinds), op.name
    nothing = paddle.to_tensor(np.full((1, 2, 2), np.nan, "float32"))
    assert all(np.isnan(t.numpy()).all() for t in dispatch.call(host.Eigen, nothing))
    with pytest.raises(PolyremeError, match="expected square matrices"):
        host.Eigen.infer(x.type)


@pytest.mark.parametrize(
    ("value", "shape"), [((1,), ()), ((1, 1), ()), ((1, 4), (4,)), ((1, 1, 4), (2, 4)), ((1, 2, 4), (2, 4))]
)
def test_a_value_may_have_more_axes_of_one_than_the_slice_that_it_replaces(value, shape):
    paddle.enable_static()
    try:
        program = static.Program()
        with static.program_guard(program, static.Program()):
            x, new = static.data("x", [None, 4], "float32"), static.data("new", list(value), "float32")
            places = {(): ([0, 1], [1, 2], [2, 3], [0, 1]), (4,): ([0], [1], [2], [0]), (2, 4): ([0], [1], [3], [])}[shape]
            axes, starts, ends, gone = places
            made = program.current_block().create_var(name="made", dtype="float32", shape=[-1, 4])
            attributes = {"axes": axes, "starts": starts, "ends": ends, "steps": [1] * len(axes), "decrease_axes": gone}
            program.current_block().append_op("set_value", {"Input": x, "ValueTensor": new}, {"Out": made}, attributes)
        rows, numbers = _rng.randn(3, 4).astype("float32"), _rng.randn(*value).astype("float32")
        (found,) = static.Executor().run(program, {"x": rows, "new": numbers}, [made])
    finally:
        paddle.disable_static()
    expected = rows.copy()
    if shape == ():
        expected[1, 2] = numbers.item()
    elif shape == (4,):
        expected[1] = numbers
    else:
        expected[1:3] = numbers
    np.testing.assert_array_equal(found, expected)
