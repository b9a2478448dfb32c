"""nn ops against what Paddle 3.3.1 gave (tests/fixtures/make_nn_semantics.py), where semantics are easy to get wrong."""

from pathlib import Path

import numpy as np
import pytest

from polyreme.dialects import nn
from polyreme.dialects.mt19937 import draw, normal, seed_state, uniform
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, scalar_type
from polyreme.lowering.gradients.autodiff import forward_backward

PADDLE = np.load(Path(__file__).parents[1] / "fixtures" / "nn_semantics.npz")


def run(cls, *arrays, **attributes):
    """The result, and a function from its gradient to those of the float operands."""
    func = Func.empty("main", [TensorType(a.shape, scalar_type(a.dtype)) for a in arrays])
    b = Builder.at_end(func.block)
    b(Return, [b(cls, *func.args, **attributes)])
    func.finish()
    halves = forward_backward(func, [i for i, a in enumerate(arrays) if a.dtype == np.float32])
    result, *residuals = evaluate(halves.forward, arrays)
    return result, lambda seed: evaluate(halves.backward, [*(arrays[i] for i in halves.saved), *residuals, seed])


SAME = {"kernel": (2, 2), "strides": (1, 1), "padding": (0, 1, 0, 1)}
POOL = {"kernel": (3, 2), "strides": (2, 2), "padding": (1, 1, 0, 0)}
RECORDED = [
    *((f"avg_pool/{c}/{e}", nn.AvgPool, {**POOL, "ceil_mode": c, "exclusive": e}) for c in (False, True) for e in (False, True)),
    *((f"max_pool/{c}", nn.MaxPool, {**POOL, "ceil_mode": c}) for c in (False, True)),
    *((f"avg_pool_same/{e}", nn.AvgPool, {**SAME, "exclusive": e}) for e in (False, True)),
    *((f"cross_entropy/{i}", nn.CrossEntropy, {"ignore_index": i}) for i in (-100, 2)),
    ("cross_entropy/soft", nn.CrossEntropy, {"soft_label": True}),
    ("mod", nn.Mod, {}),
    ("maximum", nn.Maximum, {}),
    ("minimum", nn.Minimum, {}),
    ("max", nn.Max, {"axis": (1,)}),
    ("min", nn.Min, {"axis": (1,)}),
]


@pytest.mark.parametrize(("name", "cls", "attributes"), RECORDED, ids=[r[0] for r in RECORDED])
def test_result_and_gradients_are_paddles(name, cls, attributes):
    arrays = [PADDLE[f"{name}/in{i}"] for i in range(2) if f"{name}/in{i}" in PADDLE]
    result, gradients = run(cls, *arrays, **attributes)
    np.testing.assert_allclose(result, PADDLE[f"{name}/out"], rtol=2e-6, atol=1e-6)
    found = iter(gradients(PADDLE[f"{name}/weight"]))
    for i, array in enumerate(arrays):
        grad = next(found) if array.dtype == np.float32 else None
        if f"{name}/grad{i}" in PADDLE:
            np.testing.assert_allclose(grad, PADDLE[f"{name}/grad{i}"], rtol=1e-5, atol=1e-6)


def test_remainders_quotients_and_powers_are_paddles():
    x, y = PADDLE["mod/in0"], PADDLE["mod/in1"]
    np.testing.assert_array_equal(nn.FloorDivide.reference(x, y), PADDLE["floor_divide/out"])
    x, y = PADDLE["whole/in0"], PADDLE["whole/in1"]
    np.testing.assert_array_equal(nn.Mod.reference(x, y), PADDLE["whole/mod"])
    np.testing.assert_array_equal(nn.FloorDivide.reference(x, y), PADDLE["whole/floor_divide"])
    np.testing.assert_array_equal(nn.Pow.reference(PADDLE["powers/in0"], PADDLE["powers/in1"]), PADDLE["powers/out"])


@pytest.mark.parametrize("power", [np.float32(0.5), np.full(3, 0.5, np.float32), np.broadcast_to(np.float32(0.5), 3)])
def test_the_power_one_half_is_no_root_of_minus_zero_and_minus_infinity(power):
    made = nn.Pow.reference(np.array([-0.0, -np.inf, 4.0], np.float32), np.asarray(power))
    np.testing.assert_array_equal(made, [0.0, np.inf, 2.0])
    assert made.dtype == np.float32 and not np.signbit(made).any()


@pytest.mark.parametrize("mode", ["upscale_in_train", "downscale_in_infer"])
def test_dropout_is_paddles_bit_for_bit(mode):
    x = (np.arange(1, 61) / 7).astype(np.float32)
    draws, _ = uniform(seed_state(5), x.shape)
    np.testing.assert_array_equal(nn.Dropout.reference(x, draws, p=0.3, mode=mode), PADDLE[f"dropout/{mode}"])


def test_random_numbers_are_paddles_bit_for_bit():
    state = seed_state(2023)
    values, state = uniform(state, (700,), -3, 7)
    np.testing.assert_array_equal(values, PADDLE["uniform/float32"])
    values, state = uniform(state, (5,), -3, 7, np.float64)
    np.testing.assert_array_equal(values, PADDLE["uniform/float64"])
    values, state = normal(state, (7,))
    np.testing.assert_array_equal(values, PADDLE["normal/odd"])
    values, state = normal(state, (400,), 1.5, 2.5)
    np.testing.assert_array_equal(values, PADDLE["normal/scaled"])


def test_parameters_after_a_seed_are_those_of_the_documentation():
    bound = float(np.sqrt(6 / 2))
    for seed, expected in [(100, [0.18551230, -1.01448846]), (2023, [1.26729357, 0.06979191])]:
        values, _ = uniform(seed_state(seed), (2,), -bound, bound)
        np.testing.assert_array_equal(values, np.array(expected, np.float32))


# The first draws of std::mt19937_64 seeded by its default seed, 5489; its 10000th is fixed by the C++ standard.
def test_stream_is_that_of_the_cpp_standard():
    words = [5489]
    for i in range(1, 312):
        words.append((6364136223846793005 * (words[-1] ^ words[-1] >> 62) + i) & (2**64 - 1))
    state = np.array([*words, 312], np.uint64)
    drawn, _ = draw(state, 10000)
    assert int(drawn[-1]) == 9981545732273789042


@pytest.mark.parametrize("cuts", [[1, 1, 311, 1, 312, 700], [0, 5, 0, 1321]])
def test_drawing_in_pieces_gives_the_same_stream(cuts):
    state = seed_state(11)
    whole, end = draw(state, sum(cuts))
    pieces = []
    for cut in cuts:
        piece, state = draw(state, cut)
        pieces.append(piece)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_array_equal(state, end)


def test_whoever_writes_to_a_state_does_not_change_that_of_the_next_one_with_the_same_seed():
    first = seed_state(11)
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(seed_state(11 + (1 << 32)), kept)


def test_drawing_leaves_the_state_it_was_given_alone():
    state = seed_state(1)
    before = state.copy()
    uniform(state, (400,))
    np.testing.assert_array_equal(state, before)
