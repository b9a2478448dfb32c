"""Kernels that differ only in which sizes they read are emitted once."""

import numpy as np
import pytest

from polyreme.ir.text import parse_module
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.emit_module import emit_llvm, split_llvm
from polyreme.lowering.emit.llvm.same_code import SameCode
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import lower
from polyreme.lowering.schedule.bufferize import outline_constants

KERNEL = """
func @{name}(%x: buffer<({rows})x({columns})xf32>, %y: buffer<({rows})x({columns})xf32>) {{
  %rows = kernel.size {{value = {rows}}} : index
  %columns = kernel.size {{value = {columns}}} : index
  %both = kernel.size {{value = {both}}} : index
  kernel.parallel %rows {{ (%i: index)
    %base = kernel.apply %i, %columns {{fn = "mul"}} : index
    %zero = kernel.size {{value = 0}} : index
    kernel.for %zero, %columns {{ (%j: index)
      %at = kernel.apply %base, %j {{fn = "add"}} : index
      %v = kernel.load %x, %at : f32
      %w = kernel.apply %v {{fn = "{fn}"}} : f32
      kernel.store %w, %y, %at
      kernel.yield
    }}
    kernel.yield
  }}
  return
}}
"""


def is_same(one, other):
    """Whether two kernels, each by its rows, columns, a third size and a function, are one code."""
    texts = [
        KERNEL.format(name=f"kernel{i}", rows=rows, columns=columns, both=both, fn=fn)
        for i, (rows, columns, both, fn) in enumerate((one, other))
    ]
    first, second = parse_module("".join(texts)).functions
    same = SameCode()
    assert same.first(first, 1) is first
    found = same.first(second, 1)
    assert found in (first, second) and same.first(second, 1) is found
    return found is first


PLAIN = ("N", "M", "N*M", "exp")


@pytest.mark.parametrize(
    "other",
    [
        PLAIN,
        ("M", "N", "N*M", "exp"),
        ("A", "floordiv(B+7, 8)", "C", "exp"),
        ("floordiv(H+7, 8)", "floordiv(W+7, 8)", "floordiv(H+15, 16)", "exp"),
    ],
)
def test_kernels_are_one_code_whichever_sizes_they_read(other):
    assert is_same(PLAIN, other)


def test_sizes_are_told_whole_so_that_nothing_in_them_has_to_be_alike():
    assert is_same(("4*N+3", "M", "2*N", "exp"), ("N", "2*M", "A*B+1", "exp"))
    assert not is_same(("4*N+3", "M", "2*N", "exp"), ("4*N+3", "M", "M", "exp"))


@pytest.mark.parametrize(
    "other",
    [
        ("N", "N", "N*M", "exp"),  # two sizes are one
        ("N", "M", "N", "exp"),
        ("N", "8", "N*M", "exp"),  # a known one, which is code
        ("N", "M", "N*M", "tanh"),
    ],
)
def test_what_differs_in_more_than_the_sizes_names_is_code_of_its_own(other):
    assert not is_same(PLAIN, other)
    assert not is_same(other, PLAIN)


PYRAMID = """
func @main(%x: tensor<NxHxWx8xf32>, %y: tensor<NxAxBx8xf32>) -> (tensor<NxHxWx8xf32>, tensor<NxAxBx8xf32>) {
  %a = nn.tanh %x : tensor<NxHxWx8xf32>
  %b = nn.tanh %y : tensor<NxAxBx8xf32>
  return %a, %b
}
"""


def test_two_levels_of_a_pyramid_share_a_kernel_and_give_what_each_would_alone():
    module = lower(parse_module(PYRAMID))
    kernels = [func for func in module.functions if func.sym_name != "main"]
    assert len(kernels) == 2
    text = emit_llvm(Program.of(module), host())
    assert sum(line.startswith("define internal void @") and ".body" not in line for line in text.splitlines()) == 1
    assert sum(len(part.functions) for part in split_llvm(Program.of(module), host())) == 2
    outline_constants(module)
    random = np.random.default_rng(1)
    run = load(build_artifact(module, host())).run
    for n, h, w, a, b in ((1, 3, 5, 7, 2), (2, 4, 4, 4, 4), (3, 1, 9, 0, 6)):
        x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((n, h, w, 8), (n, a, b, 8)))
        for found, wanted in zip(run([x, y]), (np.tanh(x), np.tanh(y)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


CALLS = """
func @main(%x: buffer<NxMxf32>, %y: buffer<NxMxf32>, %z: buffer<MxNxf32>) {
  kernel.call %x, %y {callee = @one}
  %turned = kernel.view %z {shape = [N, M]} : buffer<NxMxf32>
  CALL
  return
}
"""


@pytest.mark.parametrize("arguments, promised", [("%turned, %y", True), ("%y, %y", False)])
def test_the_one_code_promises_of_its_arguments_what_holds_at_every_call(arguments, promised):
    text = CALLS.replace("CALL", f"kernel.call {arguments} {{callee = @two}}")
    for name in ("one", "two"):
        text += KERNEL.format(name=name, rows="N", columns="M", both="N", fn="exp")
    emitted = emit_llvm(parse_module(text), host())
    assert ("@one(ptr noalias readonly" in emitted) == promised, emitted
    assert "@two(" not in emitted


def test_a_kernel_that_calls_another_one_gives_it_the_sizes_that_it_was_given():
    text = """
func @main(%x: buffer<AxBxf32>, %y: buffer<AxBxf32>, %z: buffer<AxBxf32>) {
  kernel.call %x, %z {callee = @outer}
  kernel.call %z, %y {callee = @outer}
  return
}
func @outer(%x: buffer<AxBxf32>, %y: buffer<AxBxf32>) {
  %unread = kernel.size {value = A*B} : index
  kernel.call %x, %y {callee = @inner}
  return
}
""" + KERNEL.format(name="inner", rows="B", columns="A", both="A+1", fn="neg").replace("buffer<(B)x(A)xf32>", "buffer<AxBxf32>")
    module = parse_module(text)
    module.function("main").attributes["arg_roles"] = ("input", "output", "output")
    run = load(build_artifact(module, host())).run
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    y, z = run([x])
    np.testing.assert_array_equal(z, -x)
    np.testing.assert_array_equal(y, x)
