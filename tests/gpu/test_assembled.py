"""Every kernel that the builders make goes through ptxas for each device; products keep all their sums in registers."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled.inspection import model_module
from polyreme.ir.builtin import Func, Module
from polyreme.ir.text import parse_module
from polyreme.lowering.emit.ptx.emit_module import emit_ptx
from polyreme.lowering.gradients.autodiff import forward_backward
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.nn import functional as F
from tests.gpu.ptxas import DEVICES, Cost, assemble, needs_ptxas
from tests.nn_cases import CASES

pytestmark = needs_ptxas
EACH_SM = pytest.mark.parametrize("sm", DEVICES)


def costs(module, sm, folder) -> dict[str, Cost]:
    """What each kernel of a module costs; all of them are there."""
    target = find_target(f"cuda:sm_{sm}")
    code = emit_ptx(lower(module, target), target)
    if not code.kernels:
        return {}
    found = assemble(code.ptx, sm, folder)
    assert set(found) == {k.symbol for k in code.kernels.values()}
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
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_products_spill_nothing(dtype, sm, tmp_path):
    for sizes in SIZES:
        m, k, n = sizes.split("x")
        header = f"func @main(%x: tensor<{m}x{k}x{dtype}>, %y: tensor<{k}x{n}x{dtype}>) -> tensor<{m}x{n}x{dtype}>"
        text = f"{header} {{ %z = nn.matmul %x, %y  return %z }}"
        assert check_products(costs(parse_module(text), sm, tmp_path)) == 1


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
