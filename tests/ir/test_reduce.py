"""The reducer: what is left is valid, fails still, and holds no more than it needs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.debug.reduce import Case, cost, reduce_case, reduce_module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.debug.reducer import REDUCTIONS
from tests.strategies import LEVELS, modules

assert nn and kernel and tensor  # their ops are read from text here


def body(text):
    """The ops of `main`, without locations, one per line."""
    return [line.strip() for line in print_module(text).splitlines()]


def has(name):
    return lambda module: any(op.name == name for op in module.walk())


def depends_on(fn):
    """Holds for cases whose results are others when ops with this scalar function give twice their value: what a bug in it looks like."""

    def twice(op, args, results):
        return [r * r.dtype.type(2) for r in results] if op.attributes.get("fn") == fn else results

    def fails(case):
        try:
            right, wrong = (evaluate(case.module, case.inputs, watch=watch) for watch in (None, twice))
        except PolyremeError:
            return False
        return any(np.isfinite(a).all() and (a != b).any() for a, b in zip(right, wrong, strict=True))

    return fails


CHAIN = """func @main(%x: tensor<Nx8xf32>, %y: tensor<8xf32>) -> (tensor<Nx8xf32>, tensor<8xf32>) {
  %a = nn.exp %x : tensor<Nx8xf32>
  %b = nn.tanh %a : tensor<Nx8xf32>
  %c = nn.add %b, %y : tensor<Nx8xf32>
  %d = nn.sin %c : tensor<Nx8xf32>
  %e = nn.cos %y : tensor<8xf32>
  return %d, %e
}"""


def test_what_the_property_does_not_need_goes():
    small = reduce_module(parse_module(CHAIN), has("nn.tanh"))
    assert body(small) == [
        "module {",
        "func @main(%a: tensor<1x1xf32>) -> tensor<1x1xf32> {",
        "%b = nn.tanh %a : tensor<1x1xf32>",
        "return %b",
        "}",
        "}",
    ]


def test_the_module_given_stays_as_it_is():
    module = parse_module(CHAIN)
    before = print_module(module)
    reduce_module(module, has("nn.tanh"))
    assert print_module(module) == before


def test_a_property_of_two_ops_keeps_both_and_what_connects_them():
    def follows(module):
        return any(
            op.name == "nn.sin" and op.x.producer(nn.Add) is not None and op.x.producer(nn.Add).x.producer(nn.Tanh) for op in module.walk()
        )

    small = reduce_module(parse_module(CHAIN), follows)
    assert [op.name for op in small.walk() if op.dialect == "nn"] == ["nn.tanh", "nn.add", "nn.sin"]


def test_arguments_that_take_the_place_of_ops_have_the_values_of_these():
    x, y = np.float32([[0.5, 1, 2, -1, 0, 3, 1, 1]] * 2), np.ones(8, np.float32)
    small = reduce_case(Case(parse_module(CHAIN), (x, y)), lambda case: has("nn.tanh")(case.module) and case.inputs[0].size == 16)
    (given,) = small.inputs
    np.testing.assert_array_equal(given, np.exp(x))


def test_sizes_shrink_in_types_attributes_constants_and_inputs_at_once():
    module = parse_module("""func @main(%x: tensor<6x4xf32>) -> tensor<4x6xf32> {
      %w = nn.constant {value = dense<[1.0, 2.0, 3.0, 4.0]>} : tensor<4xf32>
      %y = nn.mul %x, %w : tensor<6x4xf32>
      %t = nn.transpose %y {perm = [1, 0]} : tensor<4x6xf32>
      %z = nn.reshape %t {shape = [4, 6]} : tensor<4x6xf32>
      return %z
    }""")
    x = np.arange(24, dtype=np.float32).reshape(6, 4)

    def fails(case):
        """While the last number, 69 * … 4, is still among the results."""
        return has("nn.reshape")(case.module) and bool((evaluate(case.module, case.inputs)[0] == 92).any())

    small = reduce_case(Case(module, (x,)), fails)
    assert body(small.module)[1:3] == [
        "func @main(%t: tensor<1x1xf32>) -> tensor<1x1xf32> {",
        "%z = nn.reshape %t {shape = [1, 1]} : tensor<1x1xf32>",
    ]
    assert small.inputs[0].tolist() == [[92]]


def test_sizes_with_names_become_numbers_when_there_are_inputs():
    module = parse_module("""func @main(%x: tensor<Nx2xf32>) -> tensor<(2*N)xf32> {
      %y = nn.reshape %x {shape = [2*N]} : tensor<(2*N)xf32>
      return %y
    }""")
    small = reduce_case(Case(module, (np.ones((3, 2), np.float32),)), lambda case: has("nn.reshape")(case.module))
    assert "N" not in print_module(small.module)


def test_groups_dissolve_unless_they_are_what_fails():
    text = """func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %z, %w = tensor.fused %x, %y : tensor<4xf32>, tensor<4xf32> { (%a: tensor<4xf32>, %b: tensor<4xf32>)
        %c = tensor.map %a {fn = "exp"} : tensor<4xf32>
        %d = tensor.map %b {fn = "sin"} : tensor<4xf32>
        tensor.yield %c, %d
      }
      return %z, %w
    }"""
    case = Case(parse_module(text), (np.ones(4, np.float32), np.ones(4, np.float32)))
    inline = reduce_case(case, depends_on("sin"), REDUCTIONS).module
    assert [op.name for op in inline.walk() if op.dialect == "tensor"] == ["tensor.map"]
    fused = reduce_case(case, lambda c: depends_on("sin")(c) and has("tensor.fused")(c.module), REDUCTIONS).module
    assert [op.name for op in fused.walk() if op.dialect == "tensor"] == ["tensor.fused", "tensor.map", "tensor.yield"]
    assert len(fused.function().args) == 1


KERNELS = """module {
  func @main(%x: buffer<16xf32>, %y: buffer<16xf32>) attributes {arg_names = ["x", "y"], arg_roles = ["input", "output"]} {
    %t = kernel.alloc {shape = [16], dtype = f32} : buffer<16xf32>
    kernel.call %x, %t {callee = @first}
    kernel.call %t, %y {callee = @second}
    return
  }
  func @first(%x: buffer<16xf32>, %y: buffer<16xf32>) {
    %n = kernel.constant {value = 16, dtype = index} : index
    kernel.parallel %n { (%i: index)
      %v = kernel.load %x, %i : f32
      %w = kernel.apply %v {fn = "exp"} : f32
      kernel.store %w, %y, %i
      kernel.yield
    }
    return
  }
  func @second(%x: buffer<16xf32>, %y: buffer<16xf32>) {
    %n = kernel.constant {value = 16, dtype = index} : index
    %zero = kernel.constant {value = 0, dtype = index} : index
    %start = kernel.constant {value = 0.0, dtype = f32} : f32
    %total, %count = kernel.for %zero, %n, %start, %start : f32, f32 { (%i: index, %a: f32, %b: f32)
      %v = kernel.load %x, %i : f32
      %w = kernel.apply %v {fn = "tanh"} : f32
      %next = kernel.apply %a, %w {fn = "add"} : f32
      %more = kernel.apply %b, %v {fn = "max"} : f32
      kernel.yield %next, %more
    }
    kernel.for %zero, %n { (%i: index)
      kernel.store %total, %y, %i
      kernel.yield
    }
    return
  }
}"""


def test_of_kernels_the_call_that_fails_is_left_with_the_memory_that_it_found():
    x = np.linspace(-1, 1, 16, dtype=np.float32)

    small = reduce_case(Case(parse_module(KERNELS), (x,)), depends_on("tanh"), REDUCTIONS)
    assert [f.sym_name for f in small.module.functions] == ["main", "second"]
    assert [op.name for op in small.module.function("second").walk() if op.dialect == "kernel"] == [
        "kernel.constant",
        "kernel.load",
        "kernel.apply",
        "kernel.store",
    ]
    (array,) = small.inputs
    np.testing.assert_allclose(array, np.exp(x[: array.size]), rtol=1e-6)


def test_a_property_that_does_not_hold_to_begin_with_is_an_error():
    with pytest.raises(PolyremeError, match="expected a module that fails to begin with"):
        reduce_module(parse_module(CHAIN), has("nn.conv"))


def test_the_number_of_checks_is_bounded():
    checks = []

    def fails(module):
        checks.append(module)
        return True

    reduce_module(parse_module(CHAIN), fails, max_checks=3)
    assert len(checks) == 4, "the given module and three more"


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_left_of_many_random_modules_is_valid_runs_and_is_always_the_same(level, data):
    check_what_is_left(level, data)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_left_of_a_random_module_is_valid_runs_and_is_always_the_same(level, data):
    check_what_is_left(level, data)


def check_what_is_left(level, data):
    sample = data.draw(modules(level))
    names = sorted({op.name for op in sample.module.walk() if op.dialect not in ("func", "builtin")})
    if not names:
        return
    wanted = data.draw(st.sampled_from(names))

    def fails(case):
        verify(case.module)
        try:
            evaluate(case.module, case.inputs)
        except PolyremeError:
            return False
        return has(wanted)(case.module)

    start = Case(sample.module, tuple(sample.inputs))
    small, again = (reduce_case(start, fails, REDUCTIONS) for _ in range(2))
    assert fails(small)
    assert cost(small) <= cost(start)
    assert print_module(small.module) == print_module(again.module)
    assert len(small.inputs) == sum(
        role != "output" for role in small.module.function().arg_roles or ["input"] * len(small.module.function().args)
    )
