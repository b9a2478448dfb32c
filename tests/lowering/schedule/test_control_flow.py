"""Branches and loops: random programs give the same evaluated, lowered, compiled and in a library, and their gradients are those of finite
differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled.executables import load_module
from polyreme.device import current_place, on_device
from polyreme.dialects import nn, tensor
from polyreme.ir.builtin import Func, Module
from polyreme.ir.diagnostics import PassError, PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.rewrite import rewrite_greedily
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.analysis.counted_loops import known_rounds
from polyreme.lowering.gradients.autodiff import backward_half, forward_backward, forward_half
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.schedule.control import runs_general
from polyreme.lowering.transforms.cleanup import Canonicalize
from polyreme.lowering.transforms.control_cleanup import CONTROL_PATTERNS
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.control_programs import random_program

SEEDS = range(1, 13)


def alone(func: Func) -> Module:
    module = Module.empty()
    copy = func.clone()
    copy.attributes["sym_name"] = "main"
    module.block.append(copy)
    verify(module)
    return module


def assert_near(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def on_threads(run: Callable[[], Any]) -> list[Any]:
    """What `run` gives with one thread, and with two."""
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            found.append(run())
    finally:
        set_num_threads(before)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_valid_and_print_and_parse_back(seed: int) -> None:
    module = random_program(seed).module
    verify(module)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    assert print_module(parse_module(print_module(module, generic=True))) == text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_random_programs_give_the_same_at_every_level_and_compiled(seed: int, dtype: Any) -> None:
    program = random_program(seed, dtype)
    wanted = evaluate(program.module, program.inputs)
    # Every pass is run before and after, and its result verified.
    lowered = lower(program.module, verify=True)
    assert_near(evaluate(lowered, program.inputs), wanted)
    executable = compile_module(program.module).load()
    for found in on_threads(lambda: executable.run(program.inputs)):
        assert_near(found, wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_of_random_programs_are_those_of_finite_differences(seed: int) -> None:
    program = random_program(100 + seed, f64)
    main = program.module.function()
    halves = forward_backward(main, program.floats)
    forward, backward = alone(halves.forward), alone(halves.backward)
    made = evaluate(forward, program.inputs)
    count = len(main.block.terminator.operands)
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal(y.shape) if y.dtype.kind == "f" else None for y in made[:count]]
    given = [*(program.inputs[i] for i in halves.saved), *made[count:], *(w for w in weights if w is not None)]
    grads = evaluate(backward, given)
    assert_near(load_module(backward).run(given), grads, 1e-6)

    def loss(inputs: list[Any]) -> float:
        return float(sum((y * w).sum() for y, w in zip(evaluate(program.module, inputs), weights, strict=True) if w is not None))

    for i in program.floats:
        way = rng.standard_normal(program.inputs[i].shape)
        ahead, behind = ([x + step * way if k == i else x for k, x in enumerate(program.inputs)] for step in (1e-6, -1e-6))
        wanted = (loss(ahead) - loss(behind)) / 2e-6
        assert (grads[i] * way).sum() == pytest.approx(wanted, rel=1e-4, abs=1e-4)


def test_a_library_runs_branches_and_loops_without_python(tmp_path: Any) -> None:
    program = random_program(3, sizes=True)
    wanted = evaluate(program.module, program.inputs)
    library = paddle.compile(program.module, tmp_path / "loops.so")
    for found in on_threads(lambda: library.run(program.inputs)):
        assert_near(found, wanted)


COUNTED = """
    func @main(%x: tensor<{shape}>, %n: tensor<i64>) -> (tensor<{shape}>, tensor<{shape}>, tensor<i64>) {{
      %zero = nn.full {{value = 0, dtype = i64}} : tensor<i64>
      %i, %y, %z, %rounds = nn.while [%zero, %x, %x], [%n] : tensor<i64>, tensor<{shape}>, tensor<{shape}>, tensor<i64>
          {{ (%k: tensor<i64>, %a: tensor<{shape}>, %b: tensor<{shape}>, %last: tensor<i64>)
        %c = nn.less %k, %last : tensor<i1>
        nn.yield %c
      }} {{ (%k: tensor<i64>, %a: tensor<{shape}>, %b: tensor<{shape}>, %last: tensor<i64>)
        %one = nn.full {{value = 1, dtype = i64}} : tensor<i64>
        %next = nn.add %k, %one : tensor<i64>
        %s = nn.{step} %a, %b : tensor<{shape}>
        nn.yield %next, %b, %s
      }}
      return %y, %z, %rounds
    }}"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("size", [0, 1, 3, 1000])
@pytest.mark.parametrize("element", ["f32", "f64", "i32", "i64", "ui8", "f16", "i1"])
def test_carried_values_of_any_type_and_size_change_places(rounds: int, size: int, element: str) -> None:
    """Two carried values, one of which takes the other's place: a step that wrote where it still reads would show."""
    module = parse_module(COUNTED.format(shape=f"Nx{element}", step="logical_xor" if element == "i1" else "add"))
    dtype = module.function().args[0].type.dtype.np
    x = (np.arange(size) % 3).astype(dtype)
    a, b = x, x
    for _ in range(rounds):
        a, b = b, (a ^ b if element == "i1" else a + b)
    wanted = [a, b, np.array(rounds)]
    assert_near(evaluate(module, [x, np.array(rounds)]), wanted)
    assert_near(load_module(module).run([x, np.array(rounds)]), wanted)


NESTED = """
    func @main(%x: tensor<Nx4xf32>, %w: tensor<4x4xf32>, %n: tensor<1xi64>) -> tensor<Nx4xf32> {
      %zero = nn.full {value = 0, shape = [1], dtype = i64} : tensor<1xi64>
      %i, %y, %rounds = nn.while [%zero, %x], [%w, %n] : tensor<1xi64>, tensor<Nx4xf32>, tensor<i64>
          { (%k: tensor<1xi64>, %a: tensor<Nx4xf32>, %v: tensor<4x4xf32>, %last: tensor<1xi64>)
        %c = nn.less %k, %last : tensor<1xi1>
        nn.yield %c
      } { (%k: tensor<1xi64>, %a: tensor<Nx4xf32>, %v: tensor<4x4xf32>, %last: tensor<1xi64>)
        %one = nn.full {value = 1, dtype = i64} : tensor<i64>
        %two = nn.full {value = 2, dtype = i64} : tensor<i64>
        %next = nn.add %k, %one : tensor<1xi64>
        %r = nn.mod %k, %two : tensor<1xi64>
        %odd = nn.equal %r, %one : tensor<1xi1>
        %b = nn.if %odd, [%a, %v] : tensor<Nx4xf32> { (%p: tensor<Nx4xf32>, %q: tensor<4x4xf32>)
          %m = nn.matmul %p, %q : tensor<Nx4xf32>
          %t = nn.tanh %m : tensor<Nx4xf32>
          nn.yield %t
        } { (%p: tensor<Nx4xf32>, %q: tensor<4x4xf32>)
          %m = nn.matmul %p, %q {transpose_y = true} : tensor<Nx4xf32>
          %u = nn.matmul %m, %q : tensor<Nx4xf32>
          nn.yield %u
        }
        nn.yield %next, %b
      }
      return %y
    }"""


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("prepare", ["", "always"])
def test_weights_of_products_in_a_loop_are_packed_once_in_front_of_it(rows: int, prepare: str) -> None:
    module = parse_module(NESTED)
    module.function().attributes["arg_roles"] = ("input", "param", "input")
    lowered = lower(module, prepare=prepare)
    main = lowered.function()
    loop = next(op for op in main.block if op.name == "kernel.while")
    assert not any("pack" in op.callee.name for op in loop.walk() if op.name == "kernel.call")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((rows, 4)).astype(np.float32), rng.standard_normal((4, 4)).astype(np.float32)
    for count in (0, 1, 4):
        inputs = [x, w, np.array([count])]
        assert_near(compile_module(module).load().run(inputs), evaluate(module, inputs))


@pytest.mark.parametrize("width", [5, 40])
def test_a_scan_with_a_sort_in_it_is_a_loop_around_kernels(width: int) -> None:
    text = """
        func @main(%x: tensor<Nx5xf32>, %s: tensor<5xi64>) -> (tensor<5xi64>, tensor<Nx5xi64>) {
          %last, %all = nn.scan [%x], [%s], [] {steps = N, reverse = true} : tensor<5xi64>, tensor<Nx5xi64>
              { (%a: tensor<5xf32>, %h: tensor<5xi64>)
            %o = nn.argsort %a {axis = 0} : tensor<5xi64>
            %next = nn.add %h, %o : tensor<5xi64>
            nn.yield %next, %next
          }
          return %last, %all
        }""".replace("5", str(width))
    module = parse_module(text)
    # Short rows are sorted by counting, which any kernel can.
    scans = [op for op in lower(module, to="tensor").walk() if isinstance(op, tensor.Scan)]
    assert [runs_general(s) for s in scans] == [width > 32]
    for steps in (0, 1, 4):
        inputs = [np.random.default_rng(1).standard_normal((steps, width)).astype(np.float32), np.arange(width)]
        assert_near(load_module(module).run(inputs), evaluate(module, inputs))


GROWING = """
    func @main(%x: tensor<2xf32>, %n: tensor<i64>) -> tensor<Txf32> {
      %y, %rounds = nn.while [%x], [%n] : tensor<Txf32>, tensor<i64> { (%a: tensor<Txf32>, %last: tensor<i64>)
        %size = nn.dim_value {size = T, dtype = i64} : tensor<i64>
        %c = nn.less %size, %last : tensor<i1>
        nn.yield %c
      } { (%a: tensor<Txf32>, %last: tensor<i64>)
        %b = nn.concat %a, %a {axis = 0} : tensor<(2*T)xf32>
        nn.yield %b
      }
      return %y
    }"""


def test_a_carried_value_may_grow_where_the_host_runs_the_loop() -> None:
    module = parse_module(GROWING)
    verify(module)
    x = np.array([1, 2], np.float32)
    for last, times in ((0, 1), (3, 2), (9, 8)):
        for found in (evaluate(module, [x, np.array(last)]), load_module(module).run([x, np.array(last)])):
            assert found[0].tolist() == [1, 2] * times


def test_sizes_that_only_a_run_tells_are_for_parts_alone() -> None:
    (step,) = compile_module(parse_module(GROWING)).artifact.manifest.steps
    assert (step.kind, step.names) == ("while", ("T",))
    with pytest.raises(PolyremeError, match="the size 'T' is known only when 'nn.while' has run"):
        lower(parse_module(GROWING))
    with pytest.raises(PassError, match="T changes from round to round"):
        forward_backward(parse_module(GROWING).function(), [0])


def test_a_file_of_launches_has_no_branches() -> None:
    with pytest.raises(PolyremeError, match="expected launches in one fixed order for a GPU but 'nn.while' chooses among them"):
        lower(parse_module(NESTED), find_target("cuda:sm_80"))


def test_the_emulated_gpu_runs_branches_between_launches() -> None:
    module = parse_module(NESTED)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal((4, 4)).astype(np.float32), np.array([3])]
    with on_device("gpu-emulated"):
        found = load_module(module, place=current_place()).run(inputs)
    assert_near(found, evaluate(module, inputs))


def test_steps_of_a_known_number_need_no_host_on_a_gpu() -> None:
    module = parse_module("""
        func @main(%x: tensor<3x4xf32>, %s: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
          %last, %all = nn.scan [%x], [%s], [] {steps = 3} : tensor<4xf32>, tensor<3x4xf32> { (%a: tensor<4xf32>, %h: tensor<4xf32>)
            %u = nn.mul %a, %h : tensor<4xf32>
            %next = nn.tanh %u : tensor<4xf32>
            nn.yield %next, %u
          }
          return %last, %all
        }""")
    inputs = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4,))]
    lower(module, find_target("cuda:sm_80"))
    with on_device("gpu-emulated"):
        assert_near(load_module(module, place=current_place()).run(inputs), evaluate(module, inputs))


COUNTING = """
    func @main(%x: tensor<Nx2xf32>) -> (tensor<Nx2xf32>, tensor<1xi32>, tensor<i64>) {{
      %first = nn.full {{value = {first}, shape = [1], dtype = i32}} : tensor<1xi32>
      %last = {last} : tensor<i32>
      %i, %y, %rounds = nn.while [%first, %x], [%last] : tensor<1xi32>, tensor<Nx2xf32>, tensor<i64>
          {{ (%k: tensor<1xi32>, %a: tensor<Nx2xf32>, %l: tensor<i32>)
        %c = nn.{test} %k, %l : tensor<1xi1>
        nn.yield %c
      }} {{ (%k: tensor<1xi32>, %a: tensor<Nx2xf32>, %l: tensor<i32>)
        %step = nn.full {{value = {step}, dtype = i32}} : tensor<i32>
        %next = nn.add %step, %k : tensor<1xi32>
        %b = nn.mul %a, %a : tensor<Nx2xf32>
        nn.yield %next, %b
      }}
      return %y, %i, %rounds
    }}"""
SIZE = "nn.dim_value {size = 2*N, dtype = i32}"


@pytest.mark.parametrize("test", ["less", "less_equal"])
@pytest.mark.parametrize(
    "first, last, step", [(0, "6", 1), (1, "6", 2), (-3, "2", 4), (6, "6", 1), (7, "6", 3), (0, SIZE, 1), (1, SIZE, 2), (3, SIZE, 1)]
)
def test_a_loop_that_counts_is_a_scan_whose_gradients_need_no_host(first: int, last: str, step: int, test: str) -> None:
    number = last if last is SIZE else f"nn.full {{value = {last}, dtype = i32}}"
    module = parse_module(COUNTING.format(first=first, last=number, step=step, test=test))
    tidied = module.clone()
    Canonicalize().run(tidied)
    verify(tidied)
    assert not any(op.name == "nn.while" for op in tidied.walk())
    halves = forward_backward(module.function(), [0])
    assert not any(op.dialect == "host" for op in halves.backward.walk())
    for rows in (0, 1, 3):
        x = np.full((rows, 2), 0.9, np.float32)
        wanted = evaluate(module, [x])
        assert_near(evaluate(tidied, [x]), wanted)
        assert_near(load_module(module).run([x]), wanted)
        made = evaluate(alone(halves.forward), [x])
        (grad,) = evaluate(alone(halves.backward), [*([x] if halves.saved else []), *made[3:], np.ones_like(x)])
        power = 2.0 ** wanted[2].item()
        np.testing.assert_allclose(grad, power * x.astype(np.float64) ** (power - 1), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("step", ["0", "-1"])
def test_a_loop_that_does_not_count_up_stays_one(step: str) -> None:
    module = parse_module(COUNTING.format(first=9, last="nn.full {value = 6, dtype = i32}", step=step, test="less"))
    assert known_rounds(next(op for op in module.walk() if op.name == "nn.while")) is None


def test_a_scan_takes_no_slices_that_no_step_reads() -> None:
    module = parse_module("""
        func @main(%x: tensor<3x4xf32>, %y: tensor<3x2xf32>, %s: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
          %last, %all = nn.scan [%y, %x], [%s], [%w] {steps = 3} : tensor<4xf32>, tensor<3x4xf32>
              { (%b: tensor<2xf32>, %a: tensor<4xf32>, %h: tensor<4xf32>, %v: tensor<4xf32>)
            %p = nn.mul %a, %h : tensor<4xf32>
            %next = nn.add %p, %v : tensor<4xf32>
            %unread = nn.sum %b : tensor<f32>
            nn.yield %next, %p
          }
          return %last
        }""")
    inputs = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((3, 4), (3, 2), (4,), (4,))]
    expected = evaluate(module, inputs)
    func: Any = module.block.first
    assert rewrite_greedily(func, CONTROL_PATTERNS) > 0
    verify(module)
    (loop,) = [op for op in func.block if isinstance(op, nn.Scan)]
    assert list(loop.xs) == [func.args[0]] and len(loop.results) == 1 and not func.args[1].uses
    assert_near(evaluate(module, inputs), expected)


def test_gradients_read_of_a_loop_only_what_their_results_need() -> None:
    func: Any = parse_module("""
        func @main(%x: tensor<4xf32>, %kept: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %y, %z, %rounds = nn.while [%x, %kept], [%w] : tensor<4xf32>, tensor<4xf32>, tensor<i64>
              { (%a: tensor<4xf32>, %k: tensor<4xf32>, %v: tensor<4xf32>)
            %s = nn.sum %a : tensor<f32>
            %one = nn.full {value = 1.0, dtype = f32} : tensor<f32>
            %c = nn.greater %s, %one : tensor<i1>
            nn.yield %c
          } { (%a: tensor<4xf32>, %k: tensor<4xf32>, %v: tensor<4xf32>)
            %b = nn.tanh %a : tensor<4xf32>
            %m = nn.mul %k, %v : tensor<4xf32>
            nn.yield %b, %m
          }
          return %y, %z
        }""").block.first
    forward = forward_half(func, [0, 2])
    assert backward_half(func, [0, 2], [0], forward).read == {0}
    assert backward_half(func, [0, 2], [0, 1], forward).read == {0, 1, 2}
