"""Gradient rules against finite differences in float64, and the halves that `forward_backward` makes."""

import itertools

import numpy as np
import pytest

from polyreme.dialects import host, nn
from polyreme.dialects.dist import AllReduce
from polyreme.dialects.mt19937 import seed_state
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.diagnostics import InferError, PassError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, f64, i64, u64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.gradients.autodiff import (
    GRADIENTS,
    NOT_DIFFERENTIABLE,
    backward_half,
    forward_backward,
    forward_half,
    gradient_function,
    needs_gradients,
)
from polyreme.lowering.transforms.cleanup import Canonicalize, Cse, Dce
from tests.nn_cases import CASES, numbers_close

random = np.random.default_rng(6)


def float_positions(func):
    return [i for i, a in enumerate(func.args) if isinstance(a.type, TensorType) and a.type.dtype.is_float]


def module_of(*funcs):
    module = Module.empty()
    for func in funcs:
        module.block.append(func)
    verify(module)
    return module


def gradients(func, inputs, seeds, wrt):
    """The results of `func` and its gradients, by the two halves."""
    halves = forward_backward(func, wrt)
    module_of(halves.forward, halves.backward)
    results = evaluate(halves.forward, inputs)
    outputs = len(func.function_type.results)
    residuals = results[outputs:]
    return results[:outputs], evaluate(halves.backward, [*(inputs[i] for i in halves.saved), *residuals, *seeds])


def differentiable(case):
    func = case.module().function()
    return (
        case.cls in GRADIENTS
        and case.cls not in (nn.Cast, nn.FakeQuantize, nn.Overwrite)
        and func.function_type.results[0].dtype.is_float
        and bool(float_positions(func))
    )


SMOOTH = [case for case in CASES if differentiable(case)]


@pytest.mark.parametrize("case", SMOOTH, ids=repr)
def test_gradient_rule_agrees_with_finite_differences(case):
    func = case.module().function()
    inputs = case.arrays
    plain = evaluate(func, inputs)
    seeds = [random.normal(size=p.shape) for p in plain]
    wrt = float_positions(func)
    results, found = gradients(func, inputs, seeds, wrt)
    for result, wanted in zip(results, plain, strict=True):
        np.testing.assert_array_equal(result, wanted)
    usable = [np.isfinite(p) for p in plain]
    step = 1e-6
    for position, grad in zip(wrt, found, strict=True):
        assert grad.shape == inputs[position].shape
        direction = random.normal(size=grad.shape)
        if case.cls is nn.Cholesky:  # a symmetric matrix that stays one
            direction = direction + direction.swapaxes(-1, -2)
        moved = [[*inputs[:position], inputs[position] + sign * step * direction, *inputs[position + 1 :]] for sign in (1, -1)]
        high, low = (evaluate(func, m) for m in moved)
        expected = sum(((a - b)[u] * seed[u]).sum() for a, b, u, seed in zip(high, low, usable, seeds, strict=True)) / (2 * step)
        if all(u.all() for u in usable):
            assert (grad * direction).sum() == pytest.approx(expected, rel=2e-6, abs=2e-7)


def test_cast_passes_the_gradient_on_in_the_operands_type():
    func = Func.empty("main", [TensorType((3,), f64)])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.Cast, func.args[0], dtype=f32)])
    _, (grad,) = gradients(func.finish(), [np.ones(3)], [np.array([1, 2, 3], np.float32)], [0])
    assert grad.dtype == np.float64 and grad.tolist() == [1, 2, 3]


def test_every_op_has_a_rule_or_is_known_to_have_none():
    ops = {cls for cls in vars(nn).values() if isinstance(cls, type) and issubclass(cls, Op)}
    hosts = {host.Range, host.Size, host.SingularValues, host.SingularVectors}
    assert (ops - {nn.Yield}) | {AllReduce} | hosts == set(GRADIENTS) | NOT_DIFFERENTIABLE
    assert not set(GRADIENTS) & NOT_DIFFERENTIABLE


@pytest.mark.parametrize("case", SMOOTH, ids=repr)
def test_gradients_lower_to_tensor_ops_that_compute_the_same(case):
    func = case.module().function()
    halves = forward_backward(func, float_positions(func))
    results = evaluate(halves.forward, case.arrays)
    count = len(func.function_type.results)
    given = [*(case.arrays[i] for i in halves.saved), *results[count:], *(random.normal(size=r.shape) for r in results[:count])]
    wanted = evaluate(halves.backward, given)
    module = module_of(halves.forward, halves.backward)
    for step in (Canonicalize(), Cse(), nn_to_tensor, Canonicalize(), Cse(), Dce()):
        step.run(module)
        verify(module)
    for got, expected in zip(evaluate(module, given, "main_backward"), wanted, strict=True):
        numbers_close(got, expected, np.float64)


# --- kinks, where Paddle's choice counts


def gradient_at(cls, *arrays, **attributes):
    func = Func.empty("main", [TensorType(a.shape, f64) for a in arrays])
    b = Builder.at_end(func.block)
    b(Return, [b(cls, *func.args, **attributes)])
    func.finish()
    (result,) = evaluate(func, arrays)
    return [g.tolist() for g in gradients(func, arrays, [np.ones_like(result)], range(len(arrays)))[1]]


@pytest.mark.parametrize(
    ("cls", "arrays", "expected"),
    [
        (nn.Relu, [[-1, 0, 2]], [[0, 0, 1]]),
        (nn.Abs, [[-1, 0, 2]], [[-1, 0, 1]]),
        (nn.LeakyRelu, [[-1, 0, 2]], [[0.01, 1, 1]]),
        (nn.Maximum, [[1, 2, 3], [2, 2, 2]], [[0, 0.5, 1], [1, 0.5, 0]]),
        (nn.Minimum, [[1, 2, 3], [2, 2, 2]], [[1, 0.5, 0], [0, 0.5, 1]]),
        (nn.Max, [[1, 3, 3]], [[0, 0.5, 0.5]]),
        (nn.Min, [[1, 1, 3]], [[0.5, 0.5, 0]]),
        (nn.Pow, [[2, 0, 0], [3, 2, 0]], [[12, 0, 0], [8 * np.log(2), 0, 0]]),
        (nn.Prod, [[2, 0, 3]], [[0, 6, 0]]),
        (nn.Prod, [[2, 0, 0]], [[0, 0, 0]]),
        (nn.Mod, [[7.5, -7.5], [2, 2]], [[1, 1], [-3, 4]]),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_gradient_at_a_kink_is_paddles(cls, arrays, expected):
    assert gradient_at(cls, *(np.array(a, float) for a in arrays)) == expected


def test_first_of_equal_elements_gets_the_pooling_gradient():
    (grad,) = gradient_at(nn.MaxPool, np.array([[[[1.0, 1, 0], [1, 1, 0], [0, 0, 0]]]]), kernel=(2, 2), strides=(1, 1))
    assert grad == [[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]]


# --- whole functions

N = symbol("N")


def network():
    """A small network whose loss uses a value twice, and which also returns class numbers."""
    shapes = [((N, 1, 8, 8), f64), ((4, 1, 3, 3), f64), ((4,), f64), ((36, 3), f64), ((3,), f64), ((N, 1), i64)]
    func = Func.empty("main", [TensorType(s, t) for s, t in shapes], (), ["x", "w", "b", "fc", "fb", "label"])
    b = Builder.at_end(func.block)
    x, w, bias, fc, fb, label = func.args
    y = b(nn.Relu, b(nn.Conv, x, w, bias, padding=(1, 1, 0, 0)))
    y = b(nn.Reshape, b(nn.MaxPool, y, kernel=(3, 2), strides=(2, 2)), shape=(N, 36))
    logits = b(nn.Linear, y, fc, fb)
    loss = b(nn.Mean, b(nn.CrossEntropy, logits, label))
    penalty = b(nn.Mul, b(nn.Full, value=0.1, dtype=f64), b(nn.Sum, b(nn.Square, fc)))
    b(Return, [b(nn.Add, loss, penalty), b(nn.ArgMax, logits, axis=-1)])
    return func.finish()


def network_inputs(batch):
    sizes = [(batch, 1, 8, 8), (4, 1, 3, 3), (4,), (36, 3), (3,)]
    return [*(random.normal(size=s) for s in sizes), random.integers(0, 3, (batch, 1))]


@pytest.mark.parametrize("batch", [1, 4])
def test_gradients_of_a_network_agree_with_finite_differences(batch):
    func = network()
    inputs = network_inputs(batch)
    (loss, classes), found = gradients(func, inputs, [np.ones(())], range(5))
    assert loss.shape == () and classes.shape == (batch,)
    for i, grad in enumerate(found):
        direction = random.normal(size=grad.shape)
        high, low = (evaluate(func, [*inputs[:i], inputs[i] + sign * 1e-6 * direction, *inputs[i + 1 :]])[0] for sign in (1, -1))
        assert (grad * direction).sum() == pytest.approx((high - low) / 2e-6, rel=1e-5, abs=1e-8)


def test_arguments_are_shared_with_the_backward_half_and_not_returned():
    func = network()
    halves = forward_backward(func, [1, 3])
    kept = halves.forward.block.terminator.operands[2:]
    assert not any(v in halves.forward.args for v in kept)
    assert {func.arg_names[i] for i in halves.saved} >= {"x", "fc"}
    assert len(list(halves.backward.args)) == len(halves.saved) + len(kept) + 1


def test_the_function_itself_stays_as_it_is():
    func = network()
    before = [op.name for op in func.block]
    forward_backward(func, [0])
    assert [op.name for op in func.block] == before and len(func.args) == 6


def test_argument_that_does_not_reach_the_result_gets_zeros():
    func = Func.empty("main", [TensorType((2,), f64), TensorType((3,), f64)])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.Exp, func.args[0])])
    _, (grad,) = gradients(func.finish(), [np.ones(2), np.ones(3)], [np.ones(2)], [1])
    assert grad.tolist() == [0, 0, 0]


def test_argument_returned_as_it_is_gets_the_gradient_given():
    func = Func.empty("main", [TensorType((2,), f64)])
    Builder.at_end(func.block)(Return, [func.args[0]])
    _, (grad,) = gradients(func.finish(), [np.ones(2)], [np.array([3.0, 4.0])], [0])
    assert grad.tolist() == [3, 4]


def test_size_that_no_residual_tells_comes_with_an_argument():
    func = Func.empty("main", [TensorType((N, 2), f64)])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.Mean, func.args[0])])
    halves = forward_backward(func.finish(), [0])
    assert halves.saved == (0,)
    (grad,) = evaluate(halves.backward, [np.ones((4, 2)), np.ones(())])
    assert grad.tolist() == [[0.125, 0.125]] * 4


def test_gradients_have_gradients():
    func = Func.empty("main", [TensorType((3,), f64)])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.Mul, func.args[0], b(nn.Tanh, func.args[0]))])
    first = forward_backward(func.finish(), [0]).backward
    names = [i for i, t in enumerate(first.function_type.inputs) if t.dtype.is_float]
    x = np.array([0.3, -0.5, 1.0])
    t = np.tanh(x)
    given = {"x": x, "seed": np.ones(3), "t": t}
    values = [x if i == 0 else t if i < len(first.args) - 1 else given["seed"] for i in names]
    (slope,) = evaluate(first, values)
    np.testing.assert_allclose(slope, t + x * (1 - t * t))
    (_,), second = gradients(first, values, [np.ones(3)], names)
    assert all(np.isfinite(g).all() for g in second)


def test_dropout_sends_the_gradient_to_what_was_kept():
    func = Func.empty("main", [TensorType((50,), f32), TensorType((313,), u64)])
    b = Builder.at_end(func.block)
    draws, after = b(nn.Uniform, func.args[1], shape=(50,), dtype=f32)
    b(Return, [b(nn.Dropout, func.args[0], draws, p=0.4), after])
    x = np.ones(50, np.float32)
    (y, _), (grad,) = gradients(func.finish(), [x, seed_state(3)], [x], [0])
    assert 0 < (y == 0).sum() < 50
    np.testing.assert_array_equal(grad, y)


def test_op_without_a_rule_is_named_with_its_place(monkeypatch):
    monkeypatch.delitem(GRADIENTS, nn.Tanh)
    func = Func.empty("main", [TensorType((2,), f64)])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.Tanh, func.args[0])])
    with pytest.raises(PassError, match="expected a gradient rule for 'nn.tanh' but it has none"):
        forward_backward(func.finish(), [0])


def test_no_gradient_flows_through_what_is_not_differentiable():
    func = Func.empty("main", [TensorType((2,), f64)])
    b = Builder.at_end(func.block)
    x = func.args[0]
    b(Return, [b(nn.Add, x, b(nn.FloorDivide, x, x))])
    _, (grad,) = gradients(func.finish(), [np.array([1.0, 2.0])], [np.ones(2)], [0])
    assert grad.tolist() == [1, 1]


@pytest.mark.parametrize(("kernel", "stride", "padding"), [*itertools.product((1, 2, 3), (1, 2, 3), (0, 1, 4))])
def test_transposed_convolution_for_each_remainder(kernel, stride, padding):
    """Sizes that the stride does not divide leave elements that no window reached: their gradient is 0."""
    for size in range(max(kernel - 2 * padding, 1), 8):
        places = (size + 2 * padding - kernel) // stride + 1
        func = Func.empty("main", [TensorType((N, 2, places), f64), TensorType((2, 3, kernel), f64)])
        b = Builder.at_end(func.block)
        b(Return, [b(nn.ConvTranspose, *func.args, strides=(stride,), padding=(padding,) * 2, sizes=(size,))])
        module = module_of(func.finish())
        inputs = [random.normal(size=(2, 2, places)), random.normal(size=(2, 3, kernel))]
        (wanted,) = evaluate(module, inputs)
        nn_to_tensor.run(module)
        verify(module)
        numbers_close(evaluate(module, inputs)[0], wanted, np.float64)


# --- past rounding


def test_fake_quantize_hands_its_gradient_straight_on_and_none_to_the_scale():
    func = Func.empty("main", [TensorType((5,), f32), TensorType((), f32)], (), ["x", "scale"])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.FakeQuantize, *func.args)])
    func.finish()
    x, scale, seed = np.array([-400, -0.3, 0, 0.3, 400], np.float32), np.array(0.5, np.float32), np.arange(5, dtype=np.float32)
    (result,), (dx, dscale) = gradients(func, [x, scale], [seed], [0, 1])
    np.testing.assert_array_equal(result, [-64, -0.5, 0, 0.5, 63.5])
    np.testing.assert_array_equal(dx, seed)
    np.testing.assert_array_equal(dscale, 0)


def test_no_gradient_passes_whole_numbers_but_the_scale_of_dequantize_linear_has_one():
    func = Func.empty("main", [TensorType((3,), f32), TensorType((), f32)], (), ["x", "scale"])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.DequantizeLinear, b(nn.QuantizeLinear, *func.args), func.args[1])])
    func.finish()
    _, (dx, dscale) = gradients(
        func, [np.array([1, 2, -3], np.float32), np.array(0.5, np.float32)], [np.array([1, 10, 100], np.float32)], [0, 1]
    )
    np.testing.assert_array_equal(dx, 0)
    assert dscale == 2 + 40 - 600


# --- rules of a function's own


def rounded(b, x):
    """`round(x)`, whose gradient is `dy * x`."""
    body = Block([x.type, x.type], ["dy", "a"])
    inside = Builder.at_end(body)
    inside(nn.Yield, [inside(nn.Mul, *body.args)])
    value = b(nn.Round, x)
    return b(nn.CustomGradient, [value], [x], [x], reached=(0,), body=Region(body))


def test_a_gradient_by_a_rule_of_its_own_has_gradients_itself():
    func = Func.empty("main", [TensorType((3,), f64)])
    b = Builder.at_end(func.block)
    b(Return, [rounded(b, b(nn.Mul, func.args[0], func.args[0]))])
    verify(module_of(func.finish()))
    x, dy = np.array([1.2, -0.5, 2.0]), np.array([1.0, 2.0, 3.0])
    (result,), (grad,) = gradients(func, [x], [dy], [0])
    np.testing.assert_array_equal(result, np.round(x * x))
    np.testing.assert_allclose(grad, dy * x * x * 2 * x)
    again, reached = gradient_function(func, [0], [0])
    assert reached == (0,)
    _, (second, to_dy) = gradients(again, [x, dy], [np.ones(3)], [0, 1])
    np.testing.assert_allclose(second, dy * 6 * x * x)
    np.testing.assert_allclose(to_dy, 2 * x**3)


def test_an_op_with_a_rule_of_its_own_is_its_values_after_lowering():
    func = Func.empty("main", [TensorType((3,), f64)])
    b = Builder.at_end(func.block)
    b(Return, [rounded(b, func.args[0])])
    module = module_of(func.finish())
    nn_to_tensor.run(module)
    verify(module)
    (result,) = evaluate(module, [np.array([1.2, -0.6, 2.5])])
    assert result.tolist() == [1.0, -1.0, 2.0]
    assert not any(op.name == "nn.custom_gradient" for op in module.walk())


@pytest.mark.parametrize(
    ("reached", "kinds", "message"),
    [
        ((1,), [f64, f64], "numbers of the 1 inputs"),
        ((0,), [f64, f32], r"expected block arguments"),
        ((), [f64, f64], r"expected gradients \(\)"),
    ],
)
def test_rules_that_do_not_fit_are_refused(reached, kinds, message):
    func = Func.empty("main", [TensorType((3,), f64)])
    b = Builder.at_end(func.block)
    x = func.args[0]
    body = Block([TensorType((3,), kind) for kind in kinds])
    Builder.at_end(body)(nn.Yield, [body.args[0]])
    with pytest.raises(InferError, match=message):
        b(nn.CustomGradient, [x], [x], [x], reached=reached, body=Region(body))


# --- some results, some arguments


def two_results():
    func = Func.empty("main", [TensorType((3,), f64)] * 3, (), ["x", "y", "z"])
    b = Builder.at_end(func.block)
    x, y, z = func.args
    b(Return, [b(nn.Exp, x), b(nn.Mul, b(nn.Tanh, y), x), b(nn.StopGradient, z), b(nn.Less, x, y)])
    return func.finish()


def test_results_that_need_gradients_are_those_that_differentiable_ops_lead_to():
    func = two_results()
    assert needs_gradients(func, (0, 1, 2)) == (True, True, False, False)
    assert needs_gradients(func, (1,)) == (False, True, False, False)
    assert needs_gradients(func, (2,)) == (False,) * 4


@pytest.mark.parametrize(("given", "reached"), [((0,), (0,)), ((1,), (0, 1)), ((0, 1), (0, 1)), ((), ())])
def test_a_backward_half_gives_the_gradients_that_its_results_have(given, reached):
    func = two_results()
    wrt = (0, 1, 2)
    forward = forward_half(func, wrt)
    half = backward_half(func, wrt, given, forward)
    assert half.reached == reached and half.given == given
    arrays = [np.array([0.5, 1.0, 2.0]), np.array([-1.0, 0.3, 0.7]), np.ones(3)]
    kept = evaluate(forward.function, arrays)[4:]
    seeds = [np.arange(1.0, 4.0) + i for i in given]
    found = evaluate(half.function, [*(arrays[i] for i in half.saved), *(kept[i] for i in half.residuals), *seeds])
    x, y, _ = arrays
    expected = {0: np.zeros(3), 1: np.zeros(3)}
    for i, seed in zip(given, seeds, strict=True):
        expected[0] = expected[0] + seed * (np.exp(x) if i == 0 else np.tanh(y))
        expected[1] = expected[1] + (seed * x * (1 - np.tanh(y) ** 2) if i == 1 else 0)
    for i, grad in zip(half.reached, found, strict=True):
        np.testing.assert_allclose(grad, expected[i])
    assert half.read <= set(half.saved)


@pytest.mark.parametrize("transpose_y", [False, True])
def test_the_gradient_of_a_matrix_that_many_are_multiplied_by_is_one_product(transpose_y: bool):
    func = Func.empty("main", [TensorType((5, 3, 4), f64), TensorType((2, 4) if transpose_y else (4, 2), f64)], arg_names=["x", "w"])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.MatMul, *func.args, transpose_y=transpose_y)])
    halves = forward_backward(func.finish(), [0, 1])
    assert not any(isinstance(op, nn.Sum) for op in halves.backward.walk())
    x, w, dy = (random.standard_normal(shape) for shape in ((5, 3, 4), func.args[1].type.shape, (5, 3, 2)))
    _, (dx, dw) = gradients(func, [x, w], [dy], [0, 1])
    np.testing.assert_allclose(dx, dy @ (w if transpose_y else w.T))
    expected = np.einsum("bmk,bmn->kn", x, dy)
    np.testing.assert_allclose(dw, expected.T if transpose_y else expected)


@pytest.mark.parametrize(
    ("sizes", "kernel", "strides", "padding"),
    [((8, 8), 3, 2, 1), ((7, 9), 3, 2, 0), ((6, 7), 3, 1, 1), ((11, 10), 5, 3, 2), ((9,), 3, 2, 1), ((5, 6, 4), 3, 2, 1)],
)
def test_gradients_of_windows_that_overlap_are_added_up_where_they_arrive(sizes: tuple[int, ...], kernel: int, strides: int, padding: int):
    rank = len(sizes)
    func = Func.empty("main", [TensorType((2, 3, *sizes), f64)], arg_names=["x"])
    b = Builder.at_end(func.block)
    b(Return, [b(nn.MaxPool, *func.args, kernel=(kernel,) * rank, strides=(strides,) * rank, padding=(padding,) * (2 * rank))])
    assert not any(isinstance(op, nn.Fold) for op in forward_backward(func.finish(), [0]).backward.walk())
    x = random.integers(0, 3, (2, 3, *sizes)).astype(float)  # many of equal size
    around = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank], constant_values=-np.inf)
    (y,), _ = gradients(func, [x], [np.zeros(evaluate(func, [x])[0].shape)], [0])
    dy = random.standard_normal(y.shape)
    expected = np.zeros_like(around)
    for place in np.ndindex(y.shape):
        corner = [p * strides for p in place[2:]]
        window = around[place[0], place[1]][tuple(slice(c, c + kernel) for c in corner)]
        first = np.unravel_index(window.argmax(), window.shape)
        expected[(*place[:2], *(c + f for c, f in zip(corner, first, strict=True)))] += dy[place]
    inner = (..., *(slice(padding, padding + n) for n in sizes))
    np.testing.assert_allclose(gradients(func, [x], [dy], [0])[1][0], expected[inner], atol=1e-12)
