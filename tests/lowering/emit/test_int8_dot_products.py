"""`kernel.dot4`: products of bytes added up in 32 bits, by every machine's own instructions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import BufferType, i32, index
from polyreme.lowering.emit.llvm.codegen import assembly
from polyreme.lowering.emit.llvm.emit_module import emit_llvm
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import TARGETS, Target, host
from tests.lowering.kernel_modules import KernelBuilder


def dots(lanes: int, kind: type[Op] = kernel.Dot4) -> Module:
    """out = dot4(a, b, c), or what another op makes of them, `lanes` words at a time."""
    func = Func.empty("main", [BufferType((lanes,), i32)] * 4, arg_names=("a", "b", "c", "out"), arg_roles=("input",) * 3 + ("output",))
    b = KernelBuilder.at_end(func.block)
    zero = b(kernel.Constant, value=0, dtype=index)
    a, w, c = (b(kernel.Load, x, zero, lanes=lanes) for x in func.args[:3])
    b(kernel.Store, b(kind, a, w, c), func.args[3], zero)
    b.insert(Return([]))
    module = Module.empty()
    module.block.append(func.finish())
    return module


def operands(lanes: int) -> list[np.ndarray]:
    """Words with the extremes of bytes among them."""
    rng = np.random.default_rng(lanes)
    a, b = rng.integers(0, 256, 4 * lanes, np.uint8), rng.integers(-128, 128, 4 * lanes, np.int64).astype(np.int8)
    a[:4], b[:4] = 255, (-128 if lanes % 8 else 127)
    return [a.view(np.int32), b.view(np.int32), rng.integers(-(2**31), 2**31, lanes, np.int64).astype(np.int32)]


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    products = a.view(np.uint8).astype(np.int64) * b.view(np.int8)
    return (c + products.reshape(-1, 4).sum(1)).astype(np.int32)


def variants() -> list[Target]:
    """This machine as it is, and without each of its better instructions."""
    target = host()
    if target.arch != "x86_64":
        return [target]
    less = [target]
    for lost in (("avx512vnni", "avxvnni"), ("avx512bw",), ("avx2",)):
        last = less[-1]
        features = ",".join(f if f[1:] not in lost else "-" + f[1:] for f in last.features.split(","))
        less.append(replace(last, features=features))
    return less


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_machine_code_adds_the_same_products_as_numpy_with_and_without_each_instruction(lanes):
    module, arrays = dots(lanes), operands(lanes)
    wanted = expected(*arrays)
    np.testing.assert_array_equal(evaluate(module, arrays)[0], wanted)
    texts = set()
    for target in variants():
        texts.add(emit_llvm(module, target, "dots"))
        np.testing.assert_array_equal(load(build_artifact(module.clone(), target, "dots")).run(arrays)[0], wanted)
    assert lanes == 1 or len(texts) > 1 or host().arch != "x86_64"


AARCH64 = TARGETS["aarch64"]
WITH_VNNI = replace(TARGETS["x86-64-avx512"], features=TARGETS["x86-64-avx512"].features + ",+avx512vnni")
INSTRUCTIONS = [
    (WITH_VNNI, 16, "vpdpbusd"),
    (TARGETS["x86-64-avx512"], 16, "vpmaddwd"),
    (TARGETS["x86-64-avx2"], 8, "vpmaddwd"),
    (TARGETS["x86-64"], 4, "pmaddwd"),
    (replace(AARCH64, features="+neon,+i8mm,+dotprod"), 4, "usdot"),
    (replace(AARCH64, features="+neon,+dotprod"), 4, "sdot"),
    (AARCH64, 4, "mla"),
    (TARGETS["riscv64"], 4, "mul"),
    (TARGETS["wasm32"], 4, "i32x4.mul"),
]


@pytest.mark.parametrize(("target", "lanes", "instruction"), INSTRUCTIONS, ids=lambda x: x.name if isinstance(x, Target) else str(x))
def test_each_machine_uses_its_own_instruction(target, lanes, instruction):
    text = assembly(emit_llvm(dots(lanes), target, "dots"), target)
    assert instruction in text
    assert "pmaddubsw" not in text  # which saturates
