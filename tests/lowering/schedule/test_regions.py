"""Cutting a function at what the host runs: the same values, and each part where it can be made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.compiled.executables import load_module, load_schedule, scheduled
from polyreme.dialects import host
from polyreme.ir.builtin import Module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.analysis.names import distinct
from polyreme.lowering.pipeline import compile_module
from polyreme.lowering.schedule.regions import split_regions
from polyreme.runtime.errors import CallError

PROGRAM = """
    func @main(%x: tensor<Nx3xf32>, %w: tensor<3xf32>)
        -> (tensor<Kx3xf32>, tensor<1xf32>) attributes {arg_names = ["x", "w"], arg_roles = ["input", "param"]} {
      %c = nn.full {value = 3.0, shape = [1], dtype = f32} : tensor<1xf32>
      %a = nn.mul %x, %w : tensor<Nx3xf32>
      %k = host.call %a {id = 0, function = "keep_two"} : tensor<Kx3xf32>
      %t = host.call %c {id = 1, function = "double"} : tensor<1xf32>
      %f = nn.full {value = 1.0, shape = [K, 3], dtype = f32} : tensor<Kx3xf32>
      %g = nn.mul %f, %w : tensor<Kx3xf32>
      host.call %g {id = 2, function = "look"}
      %y = nn.add %g, %k : tensor<Kx3xf32>
      %z = nn.add %t, %c : tensor<1xf32>
      return %y, %z
    }"""


def functions(seen: list[Any]) -> host.Functions:
    return {0: lambda arrays: [arrays[0][:2]], 1: lambda arrays: [arrays[0] * 2], 2: lambda arrays: seen.append(arrays[0].tolist()) or []}


def split(text: str) -> Module:
    module = split_regions(parse_module(text).function())
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return module


def regions(module: Module) -> list[dict[str, str]]:
    """The arguments of each region, with their roles."""
    return [dict(zip(f.arg_names, f.arg_roles, strict=True)) for f in module.functions if f.sym_name != "main"]


def test_whole_or_split_evaluated_or_compiled_a_program_gives_the_same() -> None:
    module = parse_module(PROGRAM)
    verify(module)
    inputs = [np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 2, 3], np.float32)]
    seen: list[Any] = []
    with host.with_functions(functions(seen)):
        found = [evaluate(module, inputs), evaluate(split(PROGRAM), inputs)]
    found += [
        load_module(module, functions=functions(seen)).run(inputs),
        load_schedule(split(PROGRAM), functions=functions(seen)).run(inputs),
    ]
    for y, z in found:
        assert y.tolist() == [[1, 4, 9], [4, 10, 18]] and z.tolist() == [9]
    assert seen == [[[1, 2, 3]] * 2] * 4


def test_a_region_takes_a_value_only_for_its_size_when_nothing_else_tells_it() -> None:
    module = split(PROGRAM)
    assert regions(module) == [{"x": "input", "w": "param"}, {"w": "param", "k": "input"}, {"g": "input", "k": "input", "t": "input"}]
    assert [op.name for op in module.function().block] == [
        "func.call",
        "host.call",
        "host.call",
        "func.call",
        "host.call",
        "func.call",
        "func.return",
    ]


def test_a_constant_that_the_host_takes_stays_a_constant_in_the_regions() -> None:
    first, _, last = [f for f in split(PROGRAM).functions if f.sym_name != "main"]
    for region in (first, last):
        assert [op.result.type.shape for op in region.block if op.name == "nn.full"] == [(1,)]


def test_what_nobody_needs_makes_no_region() -> None:
    module = split("""
        func @main(%x: tensor<2xf32>, %w: tensor<2xf32>) -> tensor<2xf32> {
          %a = host.call %x {id = 0, function = "f"} : tensor<2xf32>
          %b = nn.mul %a, %w : tensor<2xf32>
          host.call {id = 1, function = "g"}
          %c = nn.add %b, %w : tensor<2xf32>
          return %a
        }""")
    assert [op.name for op in module.function().block] == ["host.call", "host.call", "func.return"]


def test_arguments_of_a_region_have_names_of_their_own() -> None:
    func = parse_module("""
        func @main(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
          %d = nn.add %a, %b : tensor<2xf32>
          %e = nn.add %c, %d : tensor<2xf32>
          %f = host.call %e {id = 0, function = "f"} : tensor<2xf32>
          return %f
        }""").function()
    for value, name in zip(func.args, ("x", "x", "x_2"), strict=True):
        value.name = name
    assert split_regions(func).function("region_0").arg_names == ("x", "x_2", "x_2_2")


def test_functions_are_asked_for_when_a_schedule_is_loaded_and_counted_when_it_runs() -> None:
    inputs = [np.ones((4, 3), np.float32), np.ones(3, np.float32)]
    module = scheduled(parse_module(PROGRAM))
    with pytest.raises(EvaluateError, match=r"a function number 2 \('look'\) for 'host.call' but got only the numbers 0, 1"):
        load_schedule(module, functions={i: f for i, f in functions([]).items() if i != 2})
    short = load_schedule(module, functions={**functions([]), 1: lambda arrays: []})
    with pytest.raises(CallError, match="expected 1 values from 'host double' but got 0"):
        short.run(inputs)


def test_a_function_that_needs_the_host_is_not_compiled_in_one_piece() -> None:
    with pytest.raises(PolyremeError, match="compiled in one piece but 'host.call' runs on the host"):
        compile_module(parse_module(PROGRAM)).artifact  # noqa: B018


def test_a_schedule_looks_at_its_arguments_itself_since_the_hosts_steps_would_take_any() -> None:
    module = parse_module("""
        func @main(%x: tensor<Nx3xf32>, %y: tensor<(N+1)xi64>) -> tensor<Kx2xi64> {
          %k = host.nonzero %x {count = K} : tensor<Kx2xi64>
          return %k
        }""")
    run = load_module(module).run
    x, y = np.ones((2, 3), np.float32), np.zeros(3, np.int64)
    assert run([x, y])[0].shape == (6, 2)
    for wrong, why in (
        ([x], r"expected 2 inputs \(x, y\) but got 1"),
        ([x[0], y], "expected 2 axes but got 1"),
        ([x[:, :2], y], "expected 3 on axis 1 but got 2"),
        ([x.astype(np.float64), y], "expected float32 but got float64"),
        ([x, y[:2]], r"expected N\+1 = 3 on axis 0 but got 2"),
    ):
        for _ in range(2):
            with pytest.raises(CallError, match=why):
                run(wrong)


def test_names_that_are_told_apart_do_not_meet_others() -> None:
    assert distinct(["a", "a", "a_2", "b"], ["b"], "out_") == ["a", "out_a", "a_2", "out_b"]
    assert distinct(["a", "a", "a_2"]) == ["a", "a_2", "a_2_2"]
