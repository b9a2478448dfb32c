"""Targets, and object code for each of them."""

import os
import struct
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.types import bf16, f32, f64
from polyreme.lowering.emit.llvm.codegen import CodegenError, assemble, assembly
from polyreme.lowering.machines.targets import TARGETS, core_of, cpu_names, find_target, host

# e_machine of ELF headers.
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}


def text_for(target, body="  ret void"):
    return f'target datalayout = "{target.layout}"\ntarget triple = "{target.triple}"\ndefine void @f(ptr %x) {{\n{body}\n}}\n'


@pytest.mark.parametrize("target", [*TARGETS.values(), host()], ids=lambda t: t.name)
def test_object_code_is_of_the_target(target):
    code = assemble(text_for(target), target)
    if target.arch == "wasm32":
        assert code[:4] == b"\0asm"
    else:
        assert code[:4] == b"\x7fELF"
        assert struct.unpack_from("<H", code, 18)[0] == MACHINES[target.arch]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.name)
def test_layouts_are_llvms_own(target):
    import llvmlite.binding as llvm

    assemble(text_for(target), target)
    machine = llvm.Target.from_triple(target.triple).create_target_machine()
    assert str(machine.target_data) == target.layout


def test_invalid_text_is_an_error_and_not_the_end_of_the_process():
    target = host()
    for body in ("  ret i32 0", "  %x = fadd float 1.0, 2.0\n  store double %x, ptr %x\n  ret void", "br label %nowhere", "\x00"):
        with pytest.raises(CodegenError, match="expected valid LLVM IR but got"):
            assemble(text_for(target, body), target)


def test_a_use_before_its_definition_is_found_by_verifying():
    body = "  br i1 true, label %a, label %b\na:\n  %v = add i32 1, 2\n  br label %b\nb:\n  store i32 %v, ptr %x\n  ret void"
    with pytest.raises(CodegenError, match="dominate"):
        assemble(text_for(host(), body), host())


def test_assembly_is_text():
    assert "retq" in assembly(text_for(TARGETS["x86-64"]), TARGETS["x86-64"])


# A loop whose address LLVM would keep as a pointer that moves, if it may.
LOOP = """  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %j = mul i64 %i, 12
  %at = getelementptr float, ptr %x, i64 %j
  store float 1.0, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 100
  br i1 %more, label %loop, label %end
end:
  ret void"""


def test_threads_that_make_code_do_not_take_each_others_switches():
    target = TARGETS["x86-64"]
    text = text_for(target, LOOP)
    right = {reduce: assemble(text, target, reduce) for reduce in (True, False)}
    assert right[True] != right[False]
    wrong = []

    def work(reduce):
        wrong.extend(reduce for _ in range(100) if assemble(text, target, reduce) != right[reduce])

    threads = [threading.Thread(target=work, args=(reduce,)) for reduce in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


ORDERS = """
import sys
from polyreme.ir.text import parse_module
from polyreme.lowering.pipeline import assembly_text, lower
from polyreme.lowering.machines.targets import find_target

PRODUCT = "func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> { %z = nn.matmul %x, %y  return %z }"
for name in sys.argv[1:]:
    target = find_target(name)
    print(name, hash(assembly_text(lower(parse_module(PRODUCT), target), target)))
"""


def test_code_does_not_depend_on_what_was_made_before():
    """LLVM's switches are ones of the whole process, and what a GPU's code is by itself is not what it is once the scheduler was switched
    on.
    """
    names = ["cuda:sm_80", *TARGETS]
    found = [
        subprocess.run(
            [sys.executable, "-c", ORDERS, *order], check=True, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"}
        ).stdout.split("\n")
        for order in (names, names[::-1])
    ]
    assert sorted(found[0]) == sorted(found[1])


def test_targets_are_found_by_name_and_by_triple():
    assert find_target("x86-64-avx2").lanes(f32) == 8
    assert find_target("x86-64-avx512").lanes(f64) == 8
    assert find_target("aarch64").lanes(bf16) == 8
    arm = find_target("arm64-linux-gnu", cpu="cortex-a76")
    assert (arm.triple, arm.cpu, arm.vector_registers) == ("aarch64-linux-gnu", "cortex-a76", 32)
    assert find_target("native") is host()


@pytest.mark.parametrize(
    ("name", "cpu", "message"),
    [("native", "zenver4", "x86_64 that LLVM knows .*did you mean 'znver4'"), ("aarch64", "znver4", "of aarch64 .* but got 'znver4'")],
)
def test_unknown_processors_are_errors(name, cpu, message):
    with pytest.raises(PolyremeError, match=message) as caught:
        find_target(name, cpu=cpu)
    assert caught.value.diagnostics[0].code == "E0008"


def test_the_processors_of_all_targets_are_known():
    for target in (*TARGETS.values(), host()):
        assert target.cpu in cpu_names(target.triple), target.name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x86-64-avx", "did you mean 'x86-64-avx512'|did you mean 'x86-64-avx2'"),
        ("sparc-sun-solaris", "expected a target"),
        ("x86_64-pc-windows-msvc", "expected a linux or wasm triple"),
        ("", "expected a target"),
    ],
)
def test_unknown_targets_are_errors(name, message):
    with pytest.raises(PolyremeError, match=message):
        find_target(name)


def test_the_host_has_what_its_widest_vectors_need():
    target = host()
    assert target.features and target.cpu
    assert target.vector_bytes in (16, 32, 64)
    if target.arch == "x86_64":
        assert target.has("avx512f") or target.vector_bytes < 64
    assert all(16 << 10 <= size for size in target.caches)


@pytest.mark.parametrize(
    ("cpu", "streams", "largest"),
    [("znver3", 8, 16 << 20), ("znver4", 1, 32 << 20), ("znver5", 1, 32 << 20), ("sapphirerapids", 8, 4 << 20)],
)
def test_cores_are_known_by_how_they_read_memory(cpu, streams, largest):
    core = core_of(replace(TARGETS["x86-64-avx2"], cpu=cpu, caches=(32 << 10, 512 << 10, 32 << 20)))
    assert (core.memory_streams, core.caches[2]) == (streams, largest)
    assert core.hardware_prefetch == (cpu != "znver5")


def test_llvm_is_not_loaded_before_something_is_compiled():
    code = (
        "import sys; import polyreme.lowering.emit.llvm.codegen, polyreme.lowering.emit.llvm.emit_module, "
        "polyreme.lowering.machines.targets as t;t.find_target('aarch64'); assert 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
