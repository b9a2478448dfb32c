"""Packs of weights in a function of their own: the same results, made when weights change."""

from __future__ import annotations

import numpy as np
import pytest

from polyreme.ir.diagnostics import PassError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, parse_passes
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.analysis.program import Program, has_prepare
from polyreme.lowering.link.artifact import load
from polyreme.lowering.machines.targets import TARGETS
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.schedule.arena import plan_memory
from polyreme.lowering.schedule.bufferize import outline_constants
from polyreme.runtime.errors import CallError

LINEAR = """
func @main(%x: tensor<{n}x20xf32>, %w: tensor<20x33xf32>, %b: tensor<33xf32>)
    -> tensor<{n}x33xf32> attributes {{arg_roles = ["input", "param", "param"]}} {{
  %y = nn.linear %x, %w, %b : tensor<{n}x33xf32>
  return %y
}}
"""
CONV = """
func @main(%x: tensor<2x16x8x8xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<2x32x8x8xf32> attributes {arg_roles = ["input", "param"]} {
  %y = nn.conv %x, %w {padding = [1, 1, 1, 1]} : tensor<2x32x8x8xf32>
  return %y
}
"""
TWO = """
func @main(%x: tensor<4x20xf32>, %v: tensor<20x20xf32>, %w: tensor<20x20xf32>)
    -> tensor<4x20xf32> attributes {arg_roles = ["input", "param", "param"]} {
  %h = nn.matmul %x, %v : tensor<4x20xf32>
  %y = nn.matmul %h, %w : tensor<4x20xf32>
  return %y
}
"""


def arrays_for(module, n=4):
    rng = np.random.default_rng(0)
    shapes = [[d if isinstance(d, int) else n for d in a.type.shape] for a in module.function().args]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def roles(func):
    return dict(zip(func.arg_names, func.arg_roles, strict=True))


def by_name(func, arrays):
    return dict(zip(func.arg_names, arrays, strict=True))


@pytest.mark.parametrize("text", [LINEAR.format(n=4), LINEAR.format(n=1), LINEAR.format(n="N"), CONV, TWO])
@pytest.mark.parametrize("target", [None, "x86-64"])
def test_prepare_and_main_together_compute_what_the_module_does(text, target) -> None:
    module = parse_module(text)
    arrays = arrays_for(module)
    if "1x20" in text:
        arrays[0] = arrays[0][:1]
    made = lower(module, TARGETS[target] if target else None, prepare="always", verify=True)
    verify(parse_module(print_module(made)))
    if "prepare" not in [f.sym_name for f in made.functions]:
        assert text == CONV and target, "this convolution reads its weights in place where vectors are short"
        return
    main, prepare = made.function("main"), made.function("prepare")
    given = by_name(module.function(), arrays)
    weights = [name for name, role in roles(prepare).items() if role == "param"]
    changed = np.ones(len(weights), np.int64)
    packed = evaluate(made, [changed, *(given[name] for name in weights)], function="prepare")
    given.update(zip([name for name, role in roles(prepare).items() if role == "output"], packed, strict=True))
    (y,) = evaluate(made, [given[name] for name, role in roles(main).items() if role != "output"])
    np.testing.assert_allclose(y, evaluate(module, arrays)[0], rtol=1e-4, atol=1e-5)
    assert "w" not in roles(main), "main reads the packed weight only"


@pytest.mark.parametrize("text", [LINEAR.format(n=1), CONV, TWO])
def test_compiled_prepare_packs_the_weights_that_changed_and_leaves_the_others(text) -> None:
    module = parse_module(text)
    arrays = arrays_for(module)
    arrays[0] = arrays[0][:1] if "1x20" in text else arrays[0]
    compiled = compile_module(module, prepare="always")
    main, prepare = load(compiled.artifact), load(compiled.prepare_artifact)
    given = by_name(module.function(), arrays)
    weights = [given[t.name] for t in prepare.manifest.inputs[1:]]
    packed = prepare.run([np.ones(len(weights), np.int64), *weights])
    named = {**given, **{t.name: p for t, p in zip(prepare.manifest.outputs, packed, strict=True)}}
    inputs = [named[t.name] for t in main.manifest.inputs]
    with pytest.raises(CallError, match="expected the packed weights .* to be bound before a call"):
        main.run(inputs)
    (y,) = main.bind(dict(enumerate(inputs[1:], 1))).run(inputs[:1])
    np.testing.assert_allclose(y, evaluate(module, arrays)[0], rtol=1e-4, atol=1e-5)
    before = [p.copy() for p in packed]
    changed = np.zeros(len(weights), np.int64)
    changed[-1] = 1
    prepare.run([changed, *(w + 1 for w in weights)], out=packed)
    for old, new in zip(before[:-1], packed[:-1], strict=True):
        np.testing.assert_array_equal(old, new)
    assert not np.array_equal(before[-1], packed[-1])


def test_worth_leaves_weights_where_they_are_when_few_rows_read_them() -> None:
    target = TARGETS["x86-64-avx2"]
    module = parse_module(LINEAR.format(n=1))
    assert "prepare" not in [f.sym_name for f in lower(module, target, prepare="worth").functions]
    assert "prepare" in [f.sym_name for f in lower(module, target, prepare="always").functions]
    many = parse_module(LINEAR.format(n=512))
    assert "prepare" in [f.sym_name for f in lower(many, target, prepare="worth").functions]


def test_without_the_option_weights_stay_arguments() -> None:
    made = lower(parse_module(LINEAR.format(n=64)))
    assert set(roles(made.function("main")).values()) == {"input", "param", "output"}
    assert not has_prepare(made)


def test_each_program_has_its_own_kernels_and_leaves_the_module_alone() -> None:
    made = lower(parse_module(TWO), prepare="always")
    before = print_module(made)
    main, prepare = Program.of(made), Program.of(made, "prepare")
    assert len(main.functions) + len(prepare.functions) == len(list(made.functions))
    assert [f.sym_name for f in (main.function(), prepare.function())] == ["main", "main"]
    assert not any(f.sym_name.startswith("pack") for f in main.functions)
    outline_constants(main)
    plan_memory(main.function())
    assert print_module(made) == before


def test_one_weight_of_two_equal_products_is_packed_once() -> None:
    module = parse_module(TWO.replace("%h, %w", "%h, %v").replace("%w: tensor<20x20xf32>", "%u: tensor<20x20xf32>"))
    made = lower(module, prepare="always")
    assert list(roles(made.function("prepare")).values()).count("output") == 1


def test_opt_makes_kernels_for_a_target_by_name() -> None:
    module = lower(parse_module(LINEAR.format(n=4)), to="tensor")
    made = PassManager(parse_passes("tensor-to-kernel{target=x86-64 prepare=always}"), verify_each=True).run(module.clone())
    assert [f.sym_name for f in made.functions][:2] == ["main", "prepare"]
    assert "lanes = 4" in print_module(made) and "lanes = 16" not in print_module(made)
    PassManager(parse_passes("tensor-to-kernel"), verify_each=True).run(module)
    with pytest.raises(PassError, match="expected prepare to be 'worth', 'always' or left out but got 'often'"):
        parse_passes("tensor-to-kernel{prepare=often}")[0].run(lower(parse_module(TWO), to="tensor"))
