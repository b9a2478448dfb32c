"""Elementwise results in the place of operands that nobody reads again, and the report of the memory plan."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.compiled.inspection import inspect
from polyreme.dialects import kernel
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.text import parse_module
from polyreme.lowering.debug.memory_report import memory_report
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import BUILDERS
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants


def lowered(text: str) -> Module:
    """Every op a kernel of its own: nothing is fused."""
    return PassManager([TensorToKernel(host(), BUILDERS)], verify_each=True).run(parse_module(text))


def allocations(module: Module) -> int:
    return sum(isinstance(op, kernel.Alloc) for op in module.function().block)


def check(text: str, *shapes: tuple[int, ...]) -> Module:
    """The compiled module computes what the text means; the lowered module."""
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = evaluate(parse_module(text), arrays)
    made = lowered(text)
    final = made.clone()
    for found, wanted in zip(load(build_artifact(final, host(), constants=outline_constants(final))).run(arrays), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    return made


def chain(body: str, result: str = "%d", kind: str = "tensor<5x37xf32>") -> str:
    return f"func @main(%x: tensor<5x37xf32>, %v: tensor<1x37xf32>) -> {kind} {{\n{body}\n  return {result}\n}}\n"


def test_a_chain_of_maps_needs_one_buffer() -> None:
    text = chain(
        """  %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
  %b = tensor.map %a, %x {fn = "add"} : tensor<5x37xf32>
  %c = tensor.map %v, %b {fn = "mul"} : tensor<5x37xf32>
  %d = tensor.map %c {fn = "neg"} : tensor<5x37xf32>"""
    )
    assert allocations(check(text, (5, 37), (1, 37))) == 1


@pytest.mark.parametrize(
    ("why", "body", "count"),
    [
        ("it is read again later", """  %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
  %b = tensor.map %a {fn = "exp"} : tensor<5x37xf32>
  %c = tensor.map %b, %a {fn = "mul"} : tensor<5x37xf32>
  %d = tensor.map %c, %b {fn = "add"} : tensor<5x37xf32>""", 2),
        ("its elements go elsewhere", """  %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
  %t = tensor.reverse %a {axes = [1]} : tensor<5x37xf32>
  %d = tensor.map %t {fn = "neg"} : tensor<5x37xf32>""", 2),
        ("its elements are repeated", """  %a = tensor.map %v {fn = "tanh"} : tensor<1x37xf32>
  %b = tensor.map %a, %x {fn = "add"} : tensor<5x37xf32>
  %d = tensor.map %b {fn = "neg"} : tensor<5x37xf32>""", 2),
        ("it is read under another shape later", """  %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
  %r = tensor.reshape %a {shape = [185]} : tensor<185xf32>
  %b = tensor.map %a {fn = "exp"} : tensor<5x37xf32>
  %e = tensor.map %r {fn = "exp"} : tensor<185xf32>
  %f = tensor.reshape %e {shape = [5, 37]} : tensor<5x37xf32>
  %d = tensor.map %f, %b {fn = "add"} : tensor<5x37xf32>""", 2),
        ("the kernel reads it in two ways", """  %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
  %r = tensor.reshape %a {shape = [37, 5]} : tensor<37x5xf32>
  %s = tensor.reshape %r {shape = [5, 37]} : tensor<5x37xf32>
  %b = tensor.map %a, %s {fn = "mul"} : tensor<5x37xf32>
  %d = tensor.map %b {fn = "neg"} : tensor<5x37xf32>""", 2),
    ],
)  # fmt: skip
def test_an_operand_keeps_its_memory_when(why: str, body: str, count: int) -> None:
    assert allocations(check(chain(body), (5, 37), (1, 37))) == count, why


def test_arguments_and_outputs_are_never_overwritten() -> None:
    made = check(
        chain(
            """  %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
  %b = tensor.map %a {fn = "exp"} : tensor<5x37xf32>
  %d = tensor.map %b {fn = "neg"} : tensor<5x37xf32>""",
            "%a, %d",
            "(tensor<5x37xf32>, tensor<5x37xf32>)",
        ),
        (5, 37),
        (1, 37),
    )
    assert allocations(made) == 1


def test_a_pack_is_made_again_for_what_took_its_operands_place() -> None:
    text = """func @main(%x: tensor<40x48xf32>, %y: tensor<64x40xf32>) -> tensor<64x48xf32> {
  %a = tensor.map %x {fn = "tanh"} : tensor<40x48xf32>
  %p = tensor.contract %y, %a {spec = "ik,kj->ij"} : tensor<64x48xf32>
  %b = tensor.map %a {fn = "neg"} : tensor<40x48xf32>
  %q = tensor.contract %y, %b {spec = "ik,kj->ij"} : tensor<64x48xf32>
  %r = tensor.map %p, %q {fn = "sub"} : tensor<64x48xf32>
  return %r
}
"""
    check(text, (40, 48), (64, 40))


@given(st.data())
def test_random_chains_mean_the_same_in_whatever_memory(data: st.DataObject) -> None:
    names, lines = ["%x"], []
    for i in range(data.draw(st.integers(2, 8))):
        picks = [data.draw(st.sampled_from(names)) for _ in range(2)]
        kind = data.draw(st.sampled_from(["tanh", "neg", "add", "mul", "reverse", "reshape"]))
        if kind == "reverse":
            line = f"tensor.reverse {picks[0]} {{axes = [0]}}"
        elif kind == "reshape":
            lines.append(f"  %r{i} = tensor.reshape {picks[0]} {{shape = [21]}} : tensor<21xf32>")
            line = f"tensor.reshape %r{i} {{shape = [3, 7]}}"
        else:
            line = f'tensor.map {picks[0]}{", " + picks[1] if kind in ("add", "mul") else ""} {{fn = "{kind}"}}'
        lines.append(f"  %v{i} = {line} : tensor<3x7xf32>")
        names.append(f"%v{i}")
    text = "func @main(%x: tensor<3x7xf32>) -> tensor<3x7xf32> {\n" + "\n".join(lines) + f"\n  return {names[-1]}\n}}\n"
    arrays = [np.random.default_rng(1).standard_normal((3, 7)).astype(np.float32)]
    np.testing.assert_allclose(run_lowered(text, arrays), evaluate(parse_module(text), arrays)[0], rtol=1e-5, atol=1e-6)


def run_lowered(text: str, arrays: list[np.ndarray]) -> np.ndarray:  # type: ignore[type-arg]
    """The lowered module on numpy: what is compiled of it is the same, and takes longer."""
    made = lowered(text)
    out = np.zeros((3, 7), np.float32)
    (result,) = evaluate(made, [*arrays, out]) or (out,)
    return result


# --- the report

PRODUCTS = """
func @main(%x: tensor<{n}x64xf32>, %a: tensor<64x96xf32>, %b: tensor<96x64xf32>)
    -> tensor<{n}x64xf32> attributes {{arg_roles = ["input", "param", "param"]}} {{
  %y = nn.linear %x, %a : tensor<{n}x96xf32>
  %z = nn.linear %y, %b : tensor<{n}x64xf32>
  %u = nn.linear %z, %a : tensor<{n}x96xf32>
  %v = nn.linear %u, %b : tensor<{n}x64xf32>
  return %v
}}
"""


def test_the_report_tells_buffers_lifetimes_offsets_peak_and_sharing() -> None:
    report = inspect(parse_module(PRODUCTS.format(n=8))).memory
    first, second, third = report.buffers
    assert [b.bytes for b in report.buffers] == [8 * 96 * 4, 8 * 64 * 4, 8 * 96 * 4]
    assert first.first < first.last == second.first < second.last == third.first
    assert report.sharing(first) == [third] and report.sharing(second) == []
    assert report.arena_bytes == max(report.live) == 8 * (96 + 64) * 4
    assert report.arguments["output"] == (1, 8 * 64 * 4)
    text = str(report)
    assert re.match(
        r"arena: 5120 bytes \(5.12 kB\) for 3 buffers; 8192 \(8.19 kB\) if none shared bytes\nmost live: 5120 bytes at step \d+ of \d+: ",
        text,
    )
    assert re.search(rf"\n{first.name} +3072 +{first.offset} .*={re.escape(third.name)}\n", text)


def test_what_the_report_says_is_what_a_run_allocates() -> None:
    module = parse_module(PRODUCTS.format(n=8))
    made = inspect(module)._kernel
    from polyreme.lowering.analysis.program import Program

    executable = load(build_artifact(Program.of(made), host()))
    assert executable._native_arena_bytes(0) == memory_report(made).arena_bytes


def test_free_sizes_stay_symbolic_until_they_are_given() -> None:
    report = inspect(parse_module(PRODUCTS.format(n="N"))).memory
    assert report.symbols == ("N",)
    assert str(report).startswith("for N = 1\narena: ")
    assert report.at({"N": 8}).arena_bytes == inspect(parse_module(PRODUCTS.format(n=8))).memory.arena_bytes


def test_a_function_without_buffers_has_a_report_too() -> None:
    report = inspect(
        parse_module("func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n  %y = nn.tanh %x : tensor<3xf32>\n  return %y\n}\n")
    ).memory
    assert report.arena_bytes == 0 and str(report).startswith("arena: 0 bytes (0 B) for 0 buffers")


def test_a_result_does_not_take_the_place_of_an_operand_that_a_later_one_reads() -> None:
    text = """func @main(%x: tensor<5x37xf32>, %y: tensor<5x37xf32>) -> (tensor<5x37xf32>, tensor<5x37xf32>) {
      %a = tensor.map %x {fn = "tanh"} : tensor<5x37xf32>
      %p, %q = tensor.fused %y, %a : tensor<5x37xf32>, tensor<5x37xf32> { (%s: tensor<5x37xf32>, %t: tensor<5x37xf32>)
        %u = tensor.map %s {fn = "neg"} : tensor<5x37xf32>
        %v = tensor.map %t, %u {fn = "add"} : tensor<5x37xf32>
        tensor.yield %u, %v
      }
      %b = tensor.map %p {fn = "exp"} : tensor<5x37xf32>
      %c = tensor.map %q {fn = "neg"} : tensor<5x37xf32>
      return %b, %c
    }"""
    assert allocations(check(text, (5, 37), (5, 37))) == 2


def test_what_every_step_of_a_loop_is_given_stays_as_it_is_under_another_shape_too() -> None:
    text = """
        func @main(%x: tensor<3x2xf32>, %w: tensor<4xf32>, %h: tensor<1x2xf32>) -> tensor<1x2xf32> {
          %sum = tensor.map %w {fn = "tanh"} : tensor<4xf32>
          %last = tensor.scan [%x], [%h], [%sum] {steps = 3} : tensor<1x2xf32>
              { (%a: tensor<2xf32>, %h: tensor<1x2xf32>, %s: tensor<4xf32>)
            %t = tensor.reshape %s {shape = [1, 2, 2]} : tensor<1x2x2xf32>
            %c = tensor.map %t {fn = "exp"} : tensor<1x2x2xf32>
            %m = tensor.reduce %c {fn = "add", axes = [2]} : tensor<1x2xf32>
            %z = tensor.reduce %m {fn = "add", axes = [0, 1]} : tensor<f32>
            %k = tensor.map %z, %z {fn = "lt"} : tensor<i1>
            %next = tensor.if %k, %m, %h : tensor<1x2xf32> { (%x: tensor<1x2xf32>, %y: tensor<1x2xf32>)
              tensor.yield %x
            } { (%x: tensor<1x2xf32>, %y: tensor<1x2xf32>)
              %d = tensor.map %x, %y {fn = "sub"} : tensor<1x2xf32>
              tensor.yield %d
            }
            tensor.yield %next
          }
          return %last
        }"""
    check(text, (3, 2), (4,), (1, 2))
