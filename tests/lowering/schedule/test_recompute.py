"""What a step of training holds for its gradients: `schedule/recompute.py`. Where it copies what: `filetests/passes/recompute.tir`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate, random_inputs
from polyreme.ir.text import print_module
from polyreme.jit.saving import trace_model
from polyreme.lowering import pipeline
from polyreme.lowering.debug.memory_report import memory_report
from polyreme.lowering.gradients.autodiff import gradient_function
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.lowering.schedule.recompute import Recompute

LAYERS = 5


def gradients(shape: list[int]) -> Module:
    """The gradients of a few convolutions, each normalised and activated, with respect to their filters."""
    channels = shape[1]
    layers: list[Any] = []
    for _ in range(LAYERS):
        conv = paddle.nn.Conv2D(channels, channels, 3, padding=1, bias_attr=False)
        layers += [conv, paddle.nn.BatchNorm2D(channels), paddle.nn.ReLU6()]
    func = trace_model(paddle.nn.Sequential(*layers), [paddle.static.InputSpec(shape, "float32", "images")]).func
    filters = [i for i, arg in enumerate(func.args) if len(arg.type.shape) == 4 and i]
    made, _ = gradient_function(func, filters, [0])
    made.attributes["sym_name"] = "main"
    module = Module.empty()
    module.block.append(made)
    return module


def test_a_step_holds_products_and_not_what_follows_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = [8, 16, 128, 128]
    size = 4 * int(np.prod(shape))
    module, target = gradients(shape), find_target("x86-64-avx512")
    held = max(memory_report(lower(module, target)).live)
    monkeypatch.setattr(Recompute, "run_on", lambda self, func: None)
    kept = max(memory_report(lower(module, target)).live)
    # Of each layer a product and what is activated: the products are left, and what one layer needs.
    assert kept > 2 * LAYERS * size
    assert held < kept - (LAYERS - 2) * size


def test_what_is_computed_anew_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    module = gradients([2, 3, 6, 6])
    target = find_target("x86-64-avx512")
    kept = lower(module, target, to="tensor")
    monkeypatch.setattr(pipeline, "Recompute", lambda: Recompute(held=1, least=64))
    anew = lower(module, target, to="tensor")
    assert print_module(anew) != print_module(kept)
    inputs = random_inputs(module.function(), seed=3)
    for one, other in zip(evaluate(kept, inputs), evaluate(anew, inputs), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
