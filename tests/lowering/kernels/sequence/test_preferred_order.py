"""Orders of a value's last axis: what a recurrent layer prefers, what a product chooses, and that both mean the same values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.types import TensorType, f32
from polyreme.lowering.kernels.gemm import winograd_inner_product_plan
from polyreme.lowering.kernels.gemm.winograd_inner_product import build_winograd_inner_product
from polyreme.lowering.kernels.plan import AxisOrder, KernelPlan, Request
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.pipeline import lower, pipeline
from tests.lowering.bounds import assert_within, to_kernels
from tests.lowering.kernels.gemm.test_strassen import Case
from tests.lowering.kernels.gemm.test_winograd_inner_product import bound
from tests.lowering.kernels.sequence.test_scan import GATES, assert_near, run_on_threads

# A machine on which Winograd's inner product pays, with caches so small that small layers are large.
SMALL = replace(TARGETS["x86-64-avx512"], multiply_adds=1, caches=(1024, 1 << 20, 8 << 20))
# Whether this processor runs its code.
RUNS = all(host().has(feature.removeprefix("+")) for feature in SMALL.features.split(","))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_an_order_has_every_element_once_and_blocks_side_by_side(blocks: int, width: int, turns: int) -> None:
    size = blocks * width * turns
    order = [AxisOrder(blocks, width).place(size, i) for i in range(size)]
    expected = np.arange(size).reshape(blocks, turns, width).transpose(1, 0, 2).ravel()
    np.testing.assert_array_equal(order, expected)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(2, 20), st.integers(7, 60), st.sampled_from([(2, 16, 1), (3, 32, 1), (4, 16, 2), (2, 32, 3)]), st.booleans(), st.booleans()
)
def test_a_product_lays_its_lanes_in_the_preferred_order(m: int, k: int, order: tuple[int, int, int], bias: bool, residual: bool) -> None:
    """What the product is added to, a bias or a residual, lies in the usual order."""
    blocks, width, turns = order
    preferred, case = AxisOrder(blocks, width), Case(m, k, blocks * width * turns, bias, residual)
    inputs, constants = case.arrays(1.0)
    plans: list[KernelPlan] = []

    def build_in_order(request: Request) -> KernelPlan | None:
        plan = build_winograd_inner_product(replace(request, preferred_order=preferred))
        assert plan is not None
        plans.append(plan)
        return plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
        lowered = to_kernels(case.module(inputs, constants), SMALL, build_in_order)
    assert [plan.result_order for plan in plans] == [preferred]
    places = [preferred.place(case.n, i) for i in range(case.n)]
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants)[..., places], bound(case, inputs, constants)[..., places])


@pytest.mark.parametrize("order", [AxisOrder(2, 8), AxisOrder(5, 16), AxisOrder(3, 32)], ids=str)
def test_a_product_whose_panels_do_not_fit_an_order_keeps_the_usual_one(order: AxisOrder) -> None:
    case = Case(16, 48, 64)
    inputs, constants = case.arrays(1.0)
    plans: list[KernelPlan | None] = []

    def build_in_order(request: Request) -> KernelPlan | None:
        plans.append(build_winograd_inner_product(replace(request, preferred_order=order)))
        return plans[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
        lowered = to_kernels(case.module(inputs, constants), SMALL, build_in_order)
    assert [plan.result_order for plan in plans if plan is not None] == [None]
    assert_within(evaluate(lowered, inputs)[0], case.expected(inputs, constants), bound(case, inputs, constants))


def network(
    kind: Any, steps: int, units: int, inputs: int, reverse: bool, known: bool = True, also: bool = False
) -> tuple[Module, list[np.ndarray]]:
    """A layer with the product of its inputs, by weights that are known or inputs too; `also` returns the product. The module and its
    inputs.
    """
    rng = np.random.default_rng(units + steps)
    gates = GATES[kind] * units

    def some(*shape: int) -> np.ndarray:
        return (rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])).astype(np.float32)

    data = [some(steps, 1, inputs) * inputs**0.5]
    others = [some(inputs, gates), some(gates), some(gates, units), some(gates)]
    given_now = [*data, *([] if known else others)]
    main = Func.empty(
        "main",
        [TensorType(x.shape, f32) for x in given_now],
        arg_names=[f"x{i}" for i in range(len(given_now))],
        arg_roles=("input",) * len(given_now),
    )
    b = Builder.at_end(main.block)
    w, bias, recurrent, more = [b(nn.Constant, value=Dense(x)) for x in others] if known else main.args[1:]
    x = b(nn.Add, b(nn.MatMul, main.args[0], w), bias)
    zero = b(nn.Constant, value=Dense(np.zeros((1, units), np.float32)))
    op = b.insert_op(kind(x, recurrent, zero, *{nn.LSTM: [zero], nn.GRU: [more], nn.SimpleRNN: []}[kind], reverse=reverse))
    b.insert(Return([op.results[0], *([x] if also else [])]))
    module = Module.empty()
    module.block.append(main.finish())
    return module, given_now


def orders_chosen(module: Module) -> list[AxisOrder | None]:
    """The orders that products have chosen."""
    found: list[AxisOrder | None] = []

    def watch(request: Request, plan: KernelPlan, calls: Any) -> None:
        if request.ops(tensor.Contract):
            found.append(plan.result_order)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
        PassManager(pipeline(SMALL, watch=watch)).run(module.clone())
    return found


def test_a_layer_asks_for_what_its_threads_read_side_by_side() -> None:
    assert orders_chosen(network(nn.LSTM, 6, 64, 40, False)[0]) == [AxisOrder(4, 32)]
    assert orders_chosen(network(nn.GRU, 6, 64, 40, True)[0]) == [AxisOrder(3, 32)]
    assert orders_chosen(network(nn.SimpleRNN, 6, 64, 40, False)[0]) == [None], "it has one block"
    assert orders_chosen(network(nn.LSTM, 6, 60, 40, False)[0]) == [None], "the last panel has fewer units"
    assert orders_chosen(network(nn.LSTM, 6, 64, 40, False, also=True)[0]) == [None], "somebody else reads it"
    assert orders_chosen(network(nn.LSTM, 6, 64, 40, False, known=False)[0]) == [None], "the weights are packed at each run"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@settings(max_examples=4, deadline=None)
@given(st.sampled_from([64, 96, 128]), st.integers(2, 7), st.integers(8, 50), st.booleans())
def test_layers_read_each_gate_where_the_product_laid_it(kind: Any, units: int, steps: int, inputs: int, reverse: bool) -> None:
    """On numpy, where memory outside of a buffer is an error, and where the processor can as machine code on one, two and three threads."""
    module, data = network(kind, steps, units, inputs, reverse)
    expected = evaluate(module, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_inner_product_plan.WinogradInnerProduct, "gains", True)
        assert orders_chosen(module)[0] is not None
        assert_near(evaluate(lower(module, SMALL, verify=True), data), expected, f32)
        if RUNS:
            assert_near(run_on_threads(module, data, SMALL), expected, f32)
