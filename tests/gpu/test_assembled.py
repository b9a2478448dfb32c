"""Every kernel that the builders make goes through ptxas for each device; products keep all their sums in registers."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

import polyreme as paddle
from polyreme.amp.together import unscaled_together
from polyreme.compiled import executables, for_each
from polyreme.compiled.inspection import model_module
from polyreme.ir.builtin import Func, Module
from polyreme.ir.text import parse_module
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.gradients.autodiff import forward_backward
from polyreme.lowering.kernels.gpu.tensor_core import build_tensor_core
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.lowering.schedule.choose_schedules import carry, roots
from polyreme.nn import functional as F
from polyreme.runtime.gpu.drivers import EmulatedDriver
from polyreme.runtime.gpu.executable import GpuExecutable
from tests.gpu.networks import NETWORKS, trained
from tests.gpu.ptxas import ARCHITECTURES, DEVICES, Cost, assemble, needs_ptxas
from tests.gpu.running import forget_devices
from tests.gpu.test_optimizer_steps import CLIPS, OPTIMIZERS, stepped
from tests.nn_cases import CASES

pytestmark = needs_ptxas
EACH_SM = pytest.mark.parametrize("sm", DEVICES)


def costs(module, sm, folder) -> dict[str, Cost]:
    """What each kernel of a module costs; all of them are there."""
    target = find_target(f"cuda:sm_{sm}")
    code = emit_ptx(lower(module, target), target)
    if not code.kernels:
        return {}
    found: dict[str, Cost] = {}
    for architecture in ARCHITECTURES[sm]:
        made = assemble(code.ptx, architecture, folder)
        assert set(made) == {k.symbol for k in code.kernels.values()}
        found = {name: max(cost, found.get(name, cost), key=lambda c: c.spills) for name, cost in made.items()}
    return found


def check_products(found: dict[str, Cost]) -> int:
    """No product moves sums to memory; how many products there are."""
    products = {name: cost for name, cost in found.items() if name.startswith(("product", "tensor_core"))}
    assert {name: cost.spills for name, cost in products.items()} == dict.fromkeys(products, 0)
    return len(products)


def assemble_cases(cases, sm, folder):
    for case in cases:
        check_products(costs(case.typed(np.float32).module(), sm, folder))


@EACH_SM
def test_kernels_of_ops_are_assembled(sm, tmp_path):
    assemble_cases(CASES[:: 3 * len(DEVICES)], sm, tmp_path)


@pytest.mark.slow
@EACH_SM
def test_kernels_of_all_ops_are_assembled(sm, tmp_path):
    assemble_cases(CASES, sm, tmp_path)


SIZES = ["1024x1024x1024", "512x4096x512", "64x4096x4096", "33x17x35", "16x20000x16"]


@EACH_SM
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_products_spill_nothing(dtype, sm, tmp_path):
    for sizes in SIZES:
        m, k, n = sizes.split("x")
        header = f"func @main(%x: tensor<{m}x{k}x{dtype}>, %y: tensor<{k}x{n}x{dtype}>) -> tensor<{m}x{n}x{dtype}>"
        text = f"{header} {{ %z = nn.matmul %x, %y  return %z }}"
        assert check_products(costs(parse_module(text), sm, tmp_path)) == 1


@pytest.mark.parametrize("sm", [80, pytest.param(86, marks=pytest.mark.slow), pytest.param(90, marks=pytest.mark.slow)])
def test_every_tile_of_tensor_cores_spills_nothing_and_leaves_room_for_the_blocks_it_counts_on(sm, tmp_path):
    """Of each tile the schedule with the fewest estimated cycles, and of the best one each number of stages."""
    target = find_target(f"cuda:sm_{sm}")
    args, result = "%x: tensor<2048x4096xbf16>, %y: tensor<4096x2048xbf16>", "tensor<2048x2048xbf16>"
    text = f"func @main({args}) -> {result} {{ %z = nn.matmul %x, %y  return %z }}"
    whole = lower(parse_module(text), target, to="tensor")
    ((_, request),) = roots(whole.function("main"), target, "")
    candidates = build_tensor_core.candidates(build_tensor_core.find(request))
    for chosen in {(s.tile, s.warps): s for s in reversed(candidates)}.values():
        module = whole.clone()
        ((op, _),) = roots(module.function("main"), target, "")
        carry(op, str(chosen))
        for cost in costs(module, sm, tmp_path).values():
            assert cost.spills == 0, chosen
            held = partial(target.device.blocks_at_once, chosen.threads, shared=chosen.shared_bytes(2))
            assert held(registers=cost.registers) >= held(registers=chosen.registers), (chosen, cost)


class Net(paddle.nn.Layer):
    """LeNet with its loss."""

    def __init__(self):
        super().__init__()
        self.scores = paddle.vision.models.LeNet()

    def forward(self, image, label):
        return F.cross_entropy(F.dropout(self.scores(image), 0.1), label)


def halves(batch) -> list[Module]:
    """The forward and the backward half of a training step."""
    spec = [paddle.static.InputSpec([batch, 1, 28, 28], "float32", "image"), paddle.static.InputSpec([batch, 1], "int64", "label")]
    main: Func = model_module(Net(), spec).function()
    made = forward_backward(main, [i for i, role in enumerate(main.arg_roles) if role == "param"])
    modules = []
    for half in (made.forward, made.backward):
        copy = half.clone()
        copy.attributes["sym_name"] = "main"
        modules.append(Module.empty())
        modules[-1].block.append(copy)
    return modules


@pytest.mark.parametrize(("batch", "sm"), [(64, 80), *(pytest.param(None, sm, marks=pytest.mark.slow) for sm in (75, 90))])
def test_all_of_lenet_is_assembled_without_spills(batch, sm, tmp_path):
    forward, backward = (costs(module, sm, tmp_path) for module in halves(batch))
    assert check_products(forward) == 5 and check_products(backward) >= 9
    assert all(cost.spills == 0 for cost in [*forward.values(), *backward.values()])


@pytest.fixture
def compiled(sm, monkeypatch):
    """The PTX of all that is compiled for a device of compute capability `sm`, which runs on the emulated one."""
    texts = []
    load_kept = executables.load_kept

    def load(key, make, driver=None):
        if driver is None:
            return load_kept(key, make)
        artifact = make(False)
        texts.append(bytes(artifact.code).decode())
        return GpuExecutable(artifact, driver)

    monkeypatch.setattr(EmulatedDriver, "sm", sm)
    monkeypatch.setattr(executables, "load_kept", load)
    forget_devices(monkeypatch)
    return texts


QUICK = {("mlp", 80)}


@pytest.mark.parametrize(
    ("network", "sm"),
    [pytest.param(n, sm, marks=() if (n, sm) in QUICK else pytest.mark.slow) for n in NETWORKS for sm in DEVICES],
)
def test_all_kernels_of_training_are_assembled_and_spill_nothing(network, sm, compiled, tmp_path):
    for mode in ("the step", "dygraph"):
        trained(network, mode, "gpu-emulated", 1)
    kernels = 0
    for text in compiled:
        for architecture in ARCHITECTURES[sm] if ".entry" in text else ():
            found = assemble(text, architecture, tmp_path)
            kernels += len(found)
            assert {name: cost for name, cost in found.items() if cost.spills} == {}, architecture
    assert kernels >= 30 * len(ARCHITECTURES[sm])


@EACH_SM
def test_a_product_of_few_steps_with_more_behind_it_spills_nothing(sm, tmp_path):
    text = """
    func @main(%x: tensor<18x32xf32>, %w: tensor<32x16xf32>, %b: tensor<16xf32>, %r: tensor<18x16xf32>) -> tensor<18x16xf32> {
      %y = nn.matmul %x, %w
      %z = nn.add %y, %b
      %s = nn.add %r, %z
      return %s
    }
    """
    found = costs(parse_module(text), sm, tmp_path)
    assert check_products(found) == 1
    # The assembler would write both steps out, and fetch all that they read first.
    assert all(cost.registers <= 128 for cost in found.values())


@cache
def formulas_of_steps() -> tuple[Module, ...]:
    """What steps of optimizers, clips and the scaling of gradients have for many arrays at once."""
    found: list[Module] = []
    recorded = for_each._recorded

    def kept(*args):
        found.append(recorded(*args))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(for_each, "_recorded", kept)
        patch.setattr(for_each, "_programs", {})
        patch.setattr(for_each, "_types", {})
        paddle.set_device("gpu-emulated")
        try:
            for make in OPTIMIZERS.values():
                stepped(make, "gpu-emulated", count=4, steps=1)
            for clip in CLIPS.values():
                stepped(lambda given, clip=clip: paddle.optimizer.SGD(0.1, given, grad_clip=clip), "gpu-emulated", count=4, steps=1)
            unscaled_together([paddle.ones([n]) * 2 for n in (7, 8)], paddle.to_tensor(0.5))
            half = [paddle.ones([n]).astype("bfloat16") for n in (7, 8)]
            adam = paddle.optimizer.Adam(0.1, parameters=half, multi_precision=True)
            for p in half:
                p.stop_gradient = False
                (p * 2).sum().backward()
            adam.step()
        finally:
            paddle.set_device("cpu")
    return tuple(found)


@EACH_SM
def test_kernels_for_many_arrays_at_once_are_assembled_and_spill_nothing(sm, tmp_path):
    made = [costs(module, sm, tmp_path) for module in formulas_of_steps()]
    assert len(made) > 25 and all(made)
    assert {name: cost.spills for found in made for name, cost in found.items() if cost.spills} == {}
