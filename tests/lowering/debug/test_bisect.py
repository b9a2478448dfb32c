"""Bisecting in Python: random modules with a pass that spoils one kind of op, drift that no op explains, and steps between kernels and
machine code.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.evaluate import evaluate, random_inputs
from polyreme.ir.passes import Pass
from polyreme.ir.text import parse_module
from polyreme.ir.verify import verify
from polyreme.lowering import pipeline
from polyreme.lowering.debug.bisect import bisect, passes_of
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.emit.llvm import vector_math
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.lowering.transforms.cleanup import Canonicalize, Cse, Dce
from tests.strategies import modules

HOST = find_target()


@dataclass(frozen=True)
class Spoil(Pass):
    """Another function in the place of one."""

    name: ClassVar[str] = "spoil"
    fn: str = "tanh"
    by: str = "sin"

    def run(self, module):
        for op in module.walk():
            if isinstance(op, (tensor.Map, kernel.Apply)) and op.fn == self.fn:
                op.attributes["fn"] = self.by


PASSES = [Canonicalize(), Cse(), nn_to_tensor, Canonicalize(), Spoil(), Cse(), Dce()]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules("nn", rules=None), st.booleans())
def test_the_pass_that_spoils_an_op_of_a_random_module_is_found_with_the_op(sample, machine_code):
    spoilt = lower(sample.module, to="tensor")
    before = lower(sample.module, to="tensor")
    Spoil().run(spoilt)
    assume(expect(before, sample.inputs).misfits(evaluate(spoilt, sample.inputs)))
    found = bisect(sample.module, sample.inputs, PASSES, HOST, machine_code)
    assert found.step.name == "spoil"
    assert isinstance(found.op, tensor.Map)
    assert found.op.fn == "tanh"
    verify(found.case.module)
    assert [op.fn for op in found.case.module.walk() if isinstance(op, tensor.Map)] == ["tanh"]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules("nn", max_ops=4))
def test_in_a_random_module_without_bugs_nothing_is_found(sample):
    assert bisect(sample.module, sample.inputs, passes_of(HOST), HOST) is None


KERNEL = """func @main(%x: buffer<Nx3xf32>, %y: buffer<Nx3xf32>) attributes {arg_names = ["x", "y"], arg_roles = ["input", "output"]} {
  %n = kernel.size {value = 3*N} : index
  %zero = kernel.constant {value = 0, dtype = index} : index
  kernel.for %zero, %n { (%i: index)
    %v = kernel.load %x, %i : f32
    %s = kernel.apply %v {fn = "tanh"} : f32
    %t = kernel.apply %s, %v {fn = "mul"} : f32
    kernel.store %t, %y, %i
    kernel.yield
  }
  return
}"""


def test_at_kernel_level_only_machine_code_is_left_to_be_wrong(monkeypatch):
    module = parse_module(KERNEL)
    inputs = [np.float32([[0.5, -1, 2], [1, 1, 1]])]
    assert bisect(module, inputs, [], HOST) is None
    tanh = vector_math.FLOAT32["tanh"]
    monkeypatch.setitem(vector_math.FLOAT32, "tanh", lambda x: tanh(x) + x.like(0.001))
    found = bisect(module, inputs, [], HOST)
    assert found.step.name == "machine-code"
    assert isinstance(found.op, kernel.Apply)
    assert found.op.fn == "tanh"


def test_wrong_kernels_are_told_from_wrong_machine_code(monkeypatch):
    """A builder that writes another function than the group has: the kernels are wrong, their machine code is right."""
    module = parse_module("""func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> {
      %y = nn.sigmoid %x : tensor<Nx4xf32>
      %z = nn.tanh %y : tensor<Nx4xf32>
      return %z
    }""")
    loops = pipeline.build_loops

    def wrong(request):
        plan = loops(request)
        for step in plan.steps:
            Spoil().run(step.func)
        return plan

    monkeypatch.setattr(pipeline, "BUILDERS", (wrong,))
    found = bisect(module, random_inputs(module.function()), passes_of(HOST), HOST)
    assert found.step.name == "tensor-to-kernel"
    assert found.op.fn == "tanh"


def test_what_many_steps_lose_together_is_found_without_an_op():
    """Each pass is within the bounds of what it was given, all together are not within those of the model."""

    @dataclass(frozen=True)
    class Nudge(Pass):
        name: ClassVar[str] = "nudge"

        def run(self, module):
            for op in module.walk():
                if isinstance(op, nn.Full):
                    op.attributes["value"] *= 1 + 1e-7

    module = parse_module("""func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.full {value = 3.0, dtype = f32} : tensor<f32>
      %y = nn.mul %x, %c : tensor<4xf32>
      return %y
    }""")
    found = bisect(module, [np.float32([1.1, 1.2, 1.3, 1.4])], [Nudge()] * 60, HOST, machine_code=False)
    assert found.step.name == "nudge"
    assert found.op is None
    assert found.case is None


@pytest.mark.parametrize("machine_code", [True, False])
def test_steps_are_reported_as_they_are_taken(machine_code):
    module = parse_module("func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %y = nn.exp %x : tensor<4xf32>  return %y }")
    lines = []
    assert bisect(module, random_inputs(module.function()), [Canonicalize(), nn_to_tensor], HOST, machine_code, report=lines.append) is None
    assert [line.split() for line in lines] == [
        ["ok", "canonicalize"],
        ["ok", "nn-to-tensor"],
        *([["ok", "machine-code"]] if machine_code else []),
    ]
