"""The tensor dialect: references against other formulas, and what inference refuses."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from polyreme.dialects import tensor as tt
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Block, Region
from polyreme.ir.diagnostics import InferError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate, with_sizes
from polyreme.ir.types import TensorType, bf16, f32, f64, i1, i8, i32, i64, u8
from polyreme.ir.verify import verify

random = np.random.default_rng(12)
N = symbol("N")

SPECS = [
    ("mk,kn->mn", (3, 4), (4, 5)),
    ("km,nk->nm", (4, 3), (5, 4)),
    ("bmk,bkn->bmn", (2, 3, 4), (2, 4, 5)),
    ("abk,bkc->cab", (2, 3, 4), (3, 4, 5)),
    ("i,j->ji", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    (",i->i", (), (3,)),
    ("NGCabmn,GOCmn->NGOab", (2, 2, 3, 4, 5, 2, 3), (2, 4, 3, 2, 3)),
    ("mk,kn->mn", (3, 0), (0, 5)),
    ("mk,kn->mn", (0, 4), (4, 5)),
]


@pytest.mark.parametrize(("spec", "a", "b"), SPECS)
def test_contract_is_einsum(spec, a, b):
    x, y = random.normal(size=a), random.normal(size=b)
    np.testing.assert_allclose(tt.Contract.reference(x, y, spec=spec), np.einsum(spec, x, y), rtol=1e-12, atol=1e-12)


def test_contract_of_narrow_floats_accumulates_in_float32():
    x = np.full((1, 1000), 1, ml_dtypes.bfloat16)
    assert tt.Contract.reference(x, x.T, spec="mk,kn->mn").item() == 1000  # bfloat16 itself stops counting at 256


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mk,kn", "expected a spec such as 'mk,kn->mn'"),
        ("mm,kn->mn", "none twice"),
        ("mk,kn->mnk2", "expected each axis as one letter"),
        ("mk,jn->mn", "expected the result's letters"),
        ("mk,kn->mnz", "expected the result's letters"),
        ("mkj,kn->mnj", "expected a spec for ranks 2 and 2"),
        ("km,kn->mn", "expected equal sizes for 'k' of 'km,kn->mn' but got N and 4"),
    ],
)
def test_contract_refuses_specs_that_do_not_fit(spec, message):
    with pytest.raises(InferError, match=message):
        tt.Contract.infer(TensorType((N, 4), f32), TensorType((4, 3), f32), spec=spec)


def test_products_of_bytes_are_summed_in_32_bits_each_operand_with_its_own_sign():
    a, b = np.full((2, 5), 255, np.uint8), np.full((5, 3), -128, np.int8)
    made = tt.Contract.reference(a, b, spec="mk,kn->mn", dtype=i32)
    assert made.dtype == np.int32 and (made == -5 * 255 * 128).all()
    assert tt.Contract.infer(TensorType((N, 5), u8), TensorType((5, 3), i8), spec="mk,kn->mn", dtype=i32) == TensorType((N, 3), i32)


def test_sums_of_float32_do_not_lose_small_terms():
    x = np.full((1 << 18, 2), 0.1, np.float32)
    total = tt.Reduce.reference(x, fn="add", axes=(0,), keepdims=False)
    np.testing.assert_allclose(total, float(np.float32(0.1)) * (1 << 18), rtol=1e-7)


@pytest.mark.parametrize(
    ("fn", "dtype", "expected"),
    [
        ("add", np.float32, 0),
        ("mul", np.int32, 1),
        ("max", np.float32, -np.inf),
        ("min", np.int64, 2**63 - 1),
        ("and", bool, True),
        ("or", bool, False),
    ],
)
def test_reducing_nothing_gives_the_identity(fn, dtype, expected):
    result = tt.Reduce.reference(np.zeros((0, 2), dtype), fn=fn, axes=(0,), keepdims=False)
    assert result.dtype == dtype and result.tolist() == [expected] * 2


@pytest.mark.parametrize(("size", "window", "stride", "dilation"), [*itertools.product((5, 8), (1, 3), (1, 2, 4), (1, 2))])
def test_fold_is_the_adjoint_of_window(size, window, stride, dilation):
    numbers = {"axes": (1,), "strides": (stride,), "dilations": (dilation,)}
    x = random.normal(size=(2, size, 3))
    windows = tt.Window.reference(x, sizes=(window,), **numbers)
    for p, k in np.ndindex(*windows.shape[1:4:2]):
        np.testing.assert_array_equal(windows[:, p, :, k], x[:, p * stride + k * dilation])
    w = random.normal(size=windows.shape)
    folded = tt.Fold.reference(w, sizes=(size,), **numbers)
    assert (windows * w).sum() == pytest.approx((x * folded).sum())
    kind = tt.Window.infer(TensorType(x.shape, f64), sizes=(window,), **numbers)
    assert kind.shape == windows.shape
    assert tt.Fold.infer(kind, sizes=(size,), **numbers).shape == x.shape


def test_window_longer_than_the_axis_has_no_position():
    assert tt.Window.infer(TensorType((2,), f32), axes=(0,), sizes=(3,), strides=(1,), dilations=(1,)).shape == (0, 3)


def test_pad_with_interior_spreads_elements():
    x = np.array([1, 2, 3])
    assert tt.Pad.reference(x, low=(1,), high=(2,), interior=(1,), value=9).tolist() == [9, 1, 9, 2, 9, 3, 9, 9]
    assert tt.Pad.reference(x[:0], low=(1,), high=(2,), interior=(4,), value=9).tolist() == [9, 9, 9]


def test_sizes_may_be_symbolic_everywhere():
    x = TensorType((N, 3, 2 * N + 1), f32)
    assert tt.Pad.infer(x, low=(0, 0, N), high=(0, 0, 1), interior=(0, 0, 0), value=0).shape == (N, 3, 3 * N + 2)
    assert tt.Window.infer(x, axes=(2,), sizes=(3,), strides=(2,), dilations=(1,)).shape == (N, 3, N, 3)
    assert tt.Reshape.infer(x, shape=(3, 2 * N * N + N)).shape == (3, 2 * N * N + N)
    assert tt.Slice.infer(x, starts=(0, 0, N), stops=(N, 3, 2 * N), strides=(1, 1, 1)).shape == (N, 3, N)
    with with_sizes({"N": 3}):
        assert tt.Full.reference(value=2, shape=(N, 2 * N), dtype=f32).shape == (3, 6)
        assert tt.DimValue.reference(size=N * N + 1, dtype=i64) == 10


X = TensorType((N, 4), f32)
REFUSED = [
    (lambda: tt.Map.infer([X, TensorType((4,), f32)], fn="add", dtype=None), "expected operands of equal rank"),
    (lambda: tt.Map.infer([X, TensorType((3, 4), f32)], fn="add", dtype=None), "N and 3 differ"),
    (
        lambda: tt.Map.infer([X, TensorType((N, 4), f64)], fn="add", dtype=None),
        "expected equal element types for 'add' but got f32 and f64",
    ),
    (lambda: tt.Map.infer([X], fn="expp", dtype=None), "did you mean 'exp'?"),
    (lambda: tt.Map.infer([X], fn="exp", dtype=f64), "expected no 'dtype' for 'exp'"),
    (lambda: tt.Reduce.infer(X, fn="add", axes=(1, 0), keepdims=False), "expected sorted axes"),
    (lambda: tt.Reduce.infer(X, fn="add", axes=(2,), keepdims=False), "expected axis in \\[-2, 2\\) but got 2"),
    (lambda: tt.Reduce.infer(X, fn="and", axes=(0,), keepdims=False), "for 'and' but got f32"),
    (lambda: tt.Contract.infer(X, X, spec="mk,nk->mn", dtype=i32), "expected operands of i8, u8 or i16 for sums in i32 but got f32"),
    (lambda: tt.Contract.infer(TensorType((2, 4), i8), TensorType((2, 4), i8), spec="mk,nk->mn", dtype=f32), "expected no 'dtype', or i32"),
    (lambda: tt.ArgReduce.infer(TensorType((2, 0), f32), fn="max", axis=1, keepdims=False, dtype=i64), "expected at least one element"),
    (lambda: tt.ArgReduce.infer(X, fn="max", axis=1, keepdims=False, dtype=f32), "expected an integer type"),
    (lambda: tt.Reshape.infer(X, shape=(N, 5)), "expected as many elements as \\[N, 4\\] has, 4\\*N, but got \\[N, 5\\]"),
    (lambda: tt.Reshape.infer(TensorType((2,), f32), shape=(-1, -2)), "expected no negative size"),
    (lambda: tt.Transpose.infer(X, perm=(0, 0)), "expected a permutation of 2 axes"),
    (lambda: tt.Broadcast.infer(X, shape=(N, 8)), "along sizes of 1 only"),
    (lambda: tt.Slice.infer(X, starts=(0, 3), stops=(N, 2), strides=(1, 1)), "expected 0 <= start <= stop <= 4 but got 3 and 2"),
    (lambda: tt.Slice.infer(X, starts=(0, 0), stops=(N, 5), strides=(1, 1)), "expected 0 <= start <= stop <= 4 but got 0 and 5"),
    (lambda: tt.Slice.infer(X, starts=(0, 0), stops=(N, 4), strides=(1, 0)), "expected positive strides"),
    (lambda: tt.Concat.infer([X, TensorType((3, 4), f32)], axis=1), "expected shapes that agree but for axis 1"),
    (lambda: tt.Concat.infer([], axis=0), "expected at least one operand"),
    (lambda: tt.Gather.infer(X, X, axis=0), "expected integer positions"),
    (lambda: tt.Window.infer(X, axes=(1, 1), sizes=(1, 1), strides=(1, 1), dilations=(1, 1)), "expected different axes"),
    (lambda: tt.Window.infer(X, axes=(1,), sizes=(2,), strides=(0,), dilations=(1,)), "expected positive 'strides'"),
    (
        lambda: tt.Fold.infer(TensorType((3, 2), f32), axes=(0,), sizes=(9,), strides=(1,), dilations=(1,)),
        "expected 8 windows along axis 0",
    ),
    (lambda: tt.Pad.infer(X, low=(0, -1), high=(0, 0), interior=(0, 0), value=0), "expected no negative amount in 'low'"),
    (
        lambda: tt.Full.infer(value=300, shape=(), dtype=i1) and tt.Full.infer(value=2**40, shape=(), dtype=i32),
        "expected a value that fits i32",
    ),
    (lambda: tt.Random.infer(X, shape=(3,), low=0.0, high=1.0, dtype=f32), "expected a generator state"),
]


@pytest.mark.parametrize(("attempt", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_inference_refuses(attempt, message):
    with pytest.raises(InferError, match=message):
        attempt()


def group(kind, build):
    body = Region(Block([kind], ["a"]))
    b = Builder.at_end(body.block)
    b(tt.Yield, [build(b, body.block.args[0])])
    return body


def test_fused_ops_compute_what_the_same_ops_outside_do():
    kind = TensorType((N, 4), f32)
    func = Func.empty("main", [kind], (), ["x"])
    b = Builder.at_end(func.block)
    body = group(kind, lambda b, a: b(tt.Reduce, b(tt.Map, a, fn="exp"), fn="add", axes=(1,)))
    b(Return, [b(tt.Fused, [func.args[0]], body=body)])
    verify(func.finish())
    x = random.normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(evaluate(func, [x])[0], np.exp(x).sum(1), rtol=1e-6)


def test_fused_refuses_arguments_of_other_types():
    func = Func.empty("main", [TensorType((2,), f32)])
    body = group(TensorType((3,), f32), lambda b, a: a)
    with pytest.raises(InferError, match="expected block arguments like the operands"):
        tt.Fused(func.args, body=body)


def test_bfloat16_reduces_like_its_exact_values():
    x = random.normal(size=(3, 50)).astype(ml_dtypes.bfloat16)
    assert tt.Reduce.infer(TensorType((3, 50), bf16), fn="add", axes=(1,), keepdims=False).dtype == bf16
    total = tt.Reduce.reference(x, fn="add", axes=(1,), keepdims=False)
    np.testing.assert_array_equal(total, x.astype(np.float64).sum(1).astype(ml_dtypes.bfloat16))
