"""Linking: a kernel-level module becomes an artifact whose arena is tight, whose constants are inside, and whose answers are the module's.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.ir import dims
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import parse_passes
from polyreme.ir.types import BufferType, f32, index
from polyreme.lowering.link.artifact import build_artifact, load, write_library
from polyreme.lowering.machines.targets import host
from polyreme.lowering.schedule.arena import plan_memory
from polyreme.runtime.errors import CallError
from polyreme.runtime.library import load_compiled

N = dims.symbol("N")


def add_kernel(module: Module, name: str, shape: tuple) -> Func:
    """z = x + y, element by element."""
    kind = BufferType(shape, f32)
    func = Func.empty(name, [kind] * 3, arg_names=["x", "y", "z"])
    module.block.append(func)
    b = Builder.at_end(func.block)
    x, y, z = func.args
    count = b(kernel.Size, value=dims.product(shape))
    loop = kernel.Parallel.empty(count, 4)
    with b.inside(loop.block):
        i = loop.block.args[0]
        total = b(kernel.Apply, b(kernel.Load, x, i), b(kernel.Load, y, i), fn="add")
        b(kernel.Store, total, z, i)
        b(kernel.Yield)
    b.insert_op(loop)
    b(Return, ())
    return func


def chain(length: int, shape: tuple = (N, 3)) -> tuple[Module, Func]:
    """y = x + w + w + … , each sum in a buffer of its own; w is a constant of the same shape for known shapes, else an input."""
    module = Module.empty()
    kind = BufferType(shape, f32)
    role = "param" if any(not isinstance(d, int) for d in shape) else "constant"
    main = Func.empty("main", [kind] * 3, arg_names=["x", "w", "y"], arg_roles=("input", role, "output"))
    module.block.append(main)
    b = Builder.at_end(main.block)
    x, w, y = main.args
    buffers = [b(kernel.Alloc, shape=shape, dtype=f32) for _ in range(length - 1)]
    for source, target in zip([x, *buffers], [*buffers, y], strict=True):
        b(kernel.Call, source, w, target, callee="add")
    b(Return, ())
    add_kernel(module, "add", shape)
    return module, main


def offsets(main: Func, n: int = 0) -> list[int]:
    return [dims.evaluate(op.offset, {"N": n}) for op in main.block if isinstance(op, kernel.Alloc)]


def test_a_chain_needs_two_buffers() -> None:
    _, main = chain(7, (100,))
    plan_memory(main)
    assert sorted(set(offsets(main))) == [0, 448]
    _, main = chain(7)
    plan_memory(main)
    for n in (0, 1, 5):
        assert sorted(set(offsets(main, n))) == sorted({0, 64 * n})


def test_views_keep_their_buffer_alive() -> None:
    module, main = chain(4, (16,))
    allocs = [op for op in main.block if isinstance(op, kernel.Alloc)]
    last_call = [op for op in main.block if isinstance(op, kernel.Call)][-1]
    b = Builder.before_op(next(op for op in main.block if isinstance(op, kernel.Call)))
    view = b(kernel.View, allocs[0].result, None, shape=(16,))
    last_call.set_operand(1, view)
    plan_memory(main)
    places = offsets(main)
    assert places[0] not in places[1:], "the first buffer is read by the last call"


def test_offsets_that_were_given_stay() -> None:
    _, main = chain(3, (16,))
    for i, op in enumerate(op for op in main.block if isinstance(op, kernel.Alloc)):
        op.attributes["offset"] = 64 * (5 - i)
    plan_memory(main)
    assert offsets(main) == [320, 256]


def test_planning_is_a_pass() -> None:
    module, main = chain(3, (16,))
    (plan,) = parse_passes("plan-memory")
    plan.run(module)
    assert all(op.offset is not None for op in main.block if isinstance(op, kernel.Alloc))


@pytest.mark.parametrize("n", [0, 1, 6, 1000])
def test_code_and_module_agree(n: int) -> None:
    module, _ = chain(5)
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((2, n, 3)).astype(np.float32)
    model = load(build_artifact(module.clone(), host(), "chain"))
    assert [t.role for t in model.manifest.inputs] == ["input", "param"]
    np.testing.assert_array_equal(model(x, w), evaluate(module, [x, w])[0])
    with pytest.raises(CallError, match="'chain' expected the input 'w' .*expected N = "):
        model(x, np.zeros((n + 1, 3), np.float32))


def test_constants_go_into_the_artifact_and_the_library(tmp_path: Path) -> None:
    module, _ = chain(2, (7,))
    w = np.arange(7, dtype=np.float32)
    artifact = build_artifact(module, host(), "sums", {"w": w})
    x = np.ones(7, np.float32)
    np.testing.assert_array_equal(load(artifact)(x), x + w + w)
    write_library(artifact, tmp_path / "sums.so")
    np.testing.assert_array_equal(load_compiled(tmp_path / "sums.so")(x), x + w + w)


def test_a_param_may_be_fixed() -> None:
    module, main = chain(2, (7,))
    main.attributes["arg_roles"] = ("input", "param", "output")
    w = np.arange(7, dtype=np.float32)
    assert [t.name for t in build_artifact(module.clone(), host()).manifest.inputs] == ["x", "w"]
    fixed = build_artifact(module.clone(), host(), "fixed", {"w": w})
    assert [t.name for t in fixed.manifest.inputs] == ["x"]
    np.testing.assert_array_equal(load(fixed)(w), 3 * w)


def test_wrong_constants_are_told_what_was_expected() -> None:
    module, _ = chain(2, (7,))
    with pytest.raises(PolyremeError, match="expected data for the constant 'w'"):
        build_artifact(module.clone(), host())
    with pytest.raises(PolyremeError, match="no argument 'weight' to fix"):
        build_artifact(module.clone(), host(), "m", {"weight": np.zeros(7, np.float32)})
    for wrong in (np.zeros(7), np.zeros(8, np.float32)):
        with pytest.raises(PolyremeError, match="the constant 'w' to be buffer<7xf32> but got"):
            build_artifact(module.clone(), host(), "m", {"w": wrong})


def test_a_size_that_no_input_tells_is_an_error() -> None:
    module, _ = chain(2, (N * N,))
    with pytest.raises(PolyremeError, match="an input with an axis of size 'N'"):
        build_artifact(module, host())


def test_equal_names_of_arguments_are_made_different() -> None:
    module, main = chain(2, (7,))
    main.attributes["arg_names"] = ("x", "x", "x")
    main.attributes["arg_roles"] = ("input", "param", "output")
    manifest = build_artifact(module, host()).manifest
    assert [t.name for t in (*manifest.inputs, *manifest.outputs)] == ["x", "x_2", "x_3"]


def test_equal_modules_give_equal_artifacts_in_different_processes() -> None:
    program = textwrap.dedent("""
        import hashlib
        from polyreme.lowering.link.artifact import build_artifact
        from polyreme.lowering.machines.targets import host
        from tests.runtime.test_link import chain
        print(hashlib.sha256(build_artifact(chain(4)[0], host()).to_bytes()).hexdigest())
    """)
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_the_index_type_is_no_buffer() -> None:
    module = Module.empty()
    main = Func.empty("main", [index], arg_names=["n"], arg_roles=("input",))
    module.block.append(main)
    Builder.at_end(main.block)(Return, ())
    with pytest.raises(PolyremeError, match="expected buffers as arguments of '@main' but 'n' is index"):
        build_artifact(module, host())
