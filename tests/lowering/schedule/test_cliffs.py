"""Kernels that take many times as long as they need: none in random networks on any machine's code, and one that is made on purpose is
found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PassError
from polyreme.ir.passes import PassManager
from polyreme.ir.types import TensorType, f32
from polyreme.jit.saving import trace_model
from polyreme.lowering.analysis.kernel_work import kernel_cycles
from polyreme.lowering.kernels.conv.depthwise import build_depthwise_or_pooling
from polyreme.lowering.kernels.gemm.contract import build_contract
from polyreme.lowering.kernels.general.loops import build_loops
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.machines.cost import rates_of
from polyreme.lowering.machines.targets import TARGETS, Target
from polyreme.lowering.pipeline import lower, pipeline
from polyreme.lowering.schedule import cliffs
from polyreme.lowering.schedule.cliffs import find_cliff, needed_cycles
from polyreme.static import InputSpec
from tests.goldens.compare import MACHINES
from tests.goldens.networks import NETWORKS, Network
from tests.lowering.random_networks import random_network

WIDE = TARGETS["x86-64-avx512"]


def product(rows: int, columns: int, steps: int) -> Func:
    """A matrix product as a root."""
    func = Func.empty("root", [TensorType((rows, steps), f32), TensorType((steps, columns), f32)])
    b = Builder.at_end(func.block)
    b(Return, [b(tensor.Contract, *func.args, spec="mk,kn->mn")])
    return func.finish()


def test_a_product_by_its_own_kernel_is_no_cliff_and_one_element_by_element_is() -> None:
    request = Request(product(256, 256, 256), WIDE)
    fast = build_contract(request)
    assert fast is not None and find_cliff(request, fast) is None
    slow = build_loops(Request(turned(256), WIDE))
    assert slow is not None
    found = find_cliff(Request(turned(256), WIDE), slow)
    assert found is not None and "contract" in str(found) and "'loops'" in str(found)


def turned(size: int) -> Func:
    """A product whose result lies so that lanes along it would each read a place of their own."""
    func = Func.empty("root", [TensorType((size, size), f32), TensorType((size, size), f32)])
    b = Builder.at_end(func.block)
    b(Return, [b(tensor.Contract, *func.args, spec="mk,nk->mn")])
    return func.finish()


@pytest.mark.parametrize("size", [64, 128, 256])
def test_what_is_needed_grows_as_the_arithmetic_does(size: int) -> None:
    once, eight = (needed_cycles(Request(product(n, n, n), WIDE)) - rates_of(WIDE).call_cycles for n in (size, 2 * size))
    assert 4 < eight / once <= 8


@pytest.mark.parametrize("target", [WIDE, TARGETS["x86-64"], TARGETS["aarch64"]], ids=lambda t: t.name)
@pytest.mark.parametrize("size", [96, 256])
def test_a_product_is_estimated_within_a_factor_of_its_arithmetic(target: Target, size: int) -> None:
    request = Request(product(size, size, size), target)
    plan = build_contract(request)
    assert plan is not None
    cycles = sum(kernel_cycles(step.func, target) for step in plan.steps)
    assert 0.7 < cycles / needed_cycles(request) < 3


def test_loops_take_no_group_of_two_contractions() -> None:
    func = Func.empty("root", [TensorType((8, 8), f32)] * 3)
    b = Builder.at_end(func.block)
    b(Return, [b(tensor.Contract, b(tensor.Contract, *func.args[:2], spec="mk,kn->mn"), func.args[2], spec="mk,kn->mn")])
    assert build_loops(Request(func.finish(), WIDE)) is None


def test_a_fold_of_a_single_window_in_a_group_is_no_cliff() -> None:
    """The gradient of an average over a whole image, which a normalization's gradient adds up again."""
    func = Func.empty("root", [TensorType((8, 16, 1, 1, 1, 1), f32), TensorType((8, 16, 8, 8), f32)])
    b = Builder.at_end(func.block)
    spread = b(tensor.Broadcast, func.args[0], shape=(8, 16, 1, 1, 8, 8))
    folded = b(tensor.Fold, spread, axes=(2, 3), sizes=(8, 8), strides=(1, 1), dilations=(1, 1))
    b(Return, [b(tensor.Reduce, b(tensor.Map, folded, func.args[1], fn="mul"), fn="add", axes=(0, 2, 3))])
    request = Request(func.finish(), WIDE)
    plan = build_loops(request)
    assert plan is not None and find_cliff(request, plan) is None


def convolutions(*rows: tuple[int, int, int, int], size: int = 14) -> Module:
    """A network of convolutions, (in, out, kernel, groups) each, that keep the image's size; its weights are constants."""
    paddle.seed(0)
    net = paddle.nn.Sequential(*(paddle.nn.Conv2D(i, o, k, padding=k // 2, groups=g) for i, o, k, g in rows))
    net.eval()
    return trace_model(net, [InputSpec([1, rows[0][0], size, size], "float32")]).frozen()


def image(channels: int, size: int = 14) -> Any:
    return np.random.default_rng(0).standard_normal((1, channels, size, size)).astype(np.float32)


def takers(module: Module, target: Target, inputs: list[Any] | None = None) -> list[str]:
    """Who made the kernels of each root; with `inputs` the module is run before and after every pass."""
    taken: list[str] = []
    PassManager(pipeline(target, watch=lambda request, plan, calls: taken.append(plan.builder)), inputs=inputs).run(module.clone())
    return taken


def test_a_group_that_no_builder_takes_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that the pass makes and that no builder takes then."""
    module = convolutions((8, 96, 1, 1), (96, 96, 3, 96), (96, 48, 1, 1))
    machine = replace(MACHINES["sapphirerapids"], caches=(48 << 10, 256 << 10, 4 << 20))
    assert "inverted_residual" in takers(module, machine)
    monkeypatch.setattr("polyreme.lowering.pipeline.BUILDERS", (build_depthwise_or_pooling, build_contract, build_loops))
    taken = takers(module, machine, [image(8)])
    assert taken.count("contract") == 2 and taken.count("channelwise") == 1


@pytest.mark.parametrize("machine", [pytest.param(m, marks=[pytest.mark.slow] * (n != "znver4"), id=n) for n, m in MACHINES.items()])
def test_inverted_residuals_are_grouped_where_their_builder_takes_them(machine: Target) -> None:
    """A convolution that Winograd's kernel takes when its weights are known is no chain's first part."""
    module = convolutions((24, 96, 3, 1), (96, 96, 3, 96), (96, 48, 1, 1), size=40)
    taken = takers(module, machine)
    assert "inverted_residual" in taken or "depthwise" in taken and "contract" in taken, taken


def test_a_depthwise_convolution_of_an_image_with_channels_in_front_turns_it_first() -> None:
    module = convolutions((24, 24, 7, 24), (24, 48, 1, 1), (48, 24, 1, 1))
    assert "channelwise" in takers(module, WIDE, [image(24)])


def test_a_convolution_that_gives_one_channel_of_several_per_group_stays_as_it_is() -> None:
    module = convolutions((3, 32, 3, 1), (32, 4, 3, 4), (4, 48, 3, 1), size=33)
    assert network_cliffs(module, "", "x86-64-avx512") == []
    takers(convolutions((3, 32, 3, 1), (32, 4, 3, 4), (4, 48, 3, 1), size=6), WIDE, [image(3, 6)])


def network_cliffs(module: Module, prepare: str, machine: str) -> list[str]:
    """The cliffs of a module on a machine."""
    found: list[str] = []

    def watch(request: Request, plan: KernelPlan, calls: Sequence[Op]) -> None:
        if (cliff := find_cliff(request, plan)) is not None:
            found.append(str(cliff))

    PassManager(pipeline(MACHINES[machine], prepare, watch=watch)).run(module.clone())
    return found


def check_random_network(seed: int) -> None:
    module, prepare = random_network(seed)
    for machine in ("x86-64", "x86-64-avx2", "sapphirerapids", "aarch64"):
        assert network_cliffs(module, prepare, machine) == [], f"network {seed} on {machine}"


@pytest.mark.parametrize("seed", [0, 49])
def test_random_networks_have_no_cliffs(seed: int) -> None:
    check_random_network(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_more_random_networks_have_no_cliffs(first: int) -> None:
    for seed in range(first, first + 10):
        check_random_network(seed)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
@pytest.mark.parametrize("machine", MACHINES)
def test_networks_have_no_cliffs(network: Network, machine: str) -> None:
    for module, prepare in network.modules():
        assert network_cliffs(module, prepare, machine) == []


@pytest.fixture
def steep(monkeypatch: pytest.MonkeyPatch) -> Module:
    """A module of one product, where every kernel that is worth threads counts as a cliff."""
    monkeypatch.setattr(cliffs, "STEEP", 0.0)
    module = Module.empty()
    func = product(256, 256, 256)
    func.attributes = {**func.attributes, "sym_name": "main"}
    module.block.append(func)
    return module


def test_a_cliff_is_said_on_the_first_rung_of_the_debug_ladder(
    steep: Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLYREME_CLIFFS", "")
    monkeypatch.setenv("POLYREME_DEBUG", "1")
    lower(steep, WIDE)
    assert "// cliff: 'contract' by 'contract'" in capsys.readouterr().err


def test_tests_refuse_cliffs(steep: Module) -> None:
    with pytest.raises(PassError, match="expected a kernel that is not slow beyond reason: 'contract' by 'contract'"):
        lower(steep, WIDE)
