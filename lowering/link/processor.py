"""What a library asks of the processor before it runs any code that needs more than the base set, as LLVM IR.

An instruction that a processor lacks would end the program, so `NAME_create` looks first. On x86-64 it asks `cpuid`, and `xgetbv` whether
the system keeps wide registers; on RISC-V the system says whether there are vectors. Elsewhere the base set is all that targets use.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.lowering.link.runtime import ASK_FOR_TILES, TargetSpec
from polyreme.lowering.machines.x86 import CPUID_BITS

__all__ = ["REFUSES", "base_features", "choice_of", "machine_check"]

# The functions of this file are called so in a library.
REFUSES = "machine_refuses"

# As `cpuid` gives them.
_REGISTERS = ("eax", "ebx", "ecx", "edx")
# By the psABI's levels, which LLVM knows as processors.
_LEVELS = {"x86-64-v2": "cx16 popcnt sse3 sse4.1 sse4.2 ssse3".split()}
_LEVELS["x86-64-v3"] = [*_LEVELS["x86-64-v2"], *"avx avx2 bmi bmi2 f16c fma lzcnt movbe".split()]
_LEVELS["x86-64-v4"] = [*_LEVELS["x86-64-v3"], *"avx512bw avx512cd avx512dq avx512f avx512vl".split()]

def _code(data: str) -> str:
    return 'c"' + "".join(f"\\{byte:02X}" for byte in bytes.fromhex(data)) + '"'


# push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid; four registers to [r8]; pop rbx; ret.
_ASK = "53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3"
# xor ecx, ecx; xgetbv; ret.
_KEPT = "31c9 0f01d0 c3"
# Machine code as it stands, since LLVM needs an assembler for inline assembly, which is not there for all targets. Interposable, so that
# nobody looks at the bodies behind it.
_CPUID = f"""
define weak hidden void @cpuid_of(i32 %leaf, i32 %sub, ptr %out) nounwind prologue [{len(bytes.fromhex(_ASK))} x i8] {_code(_ASK)} {{
  ret void
}}

define weak hidden i32 @registers_kept() nounwind prologue [{len(bytes.fromhex(_KEPT))} x i8] {_code(_KEPT)} {{
  ret i32 0
}}
""" + """
; A register of what cpuid says; 0 where the processor knows nothing of the leaf.
define internal i32 @cpuid(i32 %leaf, i32 %sub, i32 %register) noinline nounwind {
entry:
  %said = alloca [4 x i32], align 16
  %first = and i32 %leaf, -2147483648
  call void @cpuid_of(i32 %first, i32 0, ptr %said)
  %last = load i32, ptr %said, align 4
  %beyond = icmp ugt i32 %leaf, %last
  br i1 %beyond, label %none, label %subleaves

subleaves:
  call void @cpuid_of(i32 %leaf, i32 0, ptr %said)
  %last_sub = load i32, ptr %said, align 4
  %has_subleaves = icmp ne i32 %sub, 0
  %above = icmp ugt i32 %sub, %last_sub
  %no_subleaf = and i1 %has_subleaves, %above
  br i1 %no_subleaf, label %none, label %ask

ask:
  call void @cpuid_of(i32 %leaf, i32 %sub, ptr %said)
  %place = zext i32 %register to i64
  %at = getelementptr i32, ptr %said, i64 %place
  %value = load i32, ptr %at, align 4
  ret i32 %value

none:
  ret i32 0
}

; The registers that the system keeps for a program; 0 where it does not say.
define internal i32 @kept_registers() noinline nounwind {
entry:
  %said = call i32 @cpuid(i32 1, i32 0, i32 2)
  %bit = and i32 %said, 134217728
  %silent = icmp eq i32 %bit, 0
  br i1 %silent, label %none, label %ask

ask:
  %low = call i32 @registers_kept()
  ret i32 %low

none:
  ret i32 0
}
"""


# AT_HWCAP has a bit for each letter of the instruction set.
_LACKS_VECTORS = f"""
@vectors = private constant [2 x i8] c"v\\00"
declare i64 @getauxval(i64)

define internal ptr @lacks() noinline nounwind {{
  %said = call i64 @getauxval(i64 16)
  %bit = and i64 %said, {1 << (ord("V") - ord("A"))}
  %there = icmp ne i64 %bit, 0
  %lost = select i1 %there, ptr null, ptr @vectors
  ret ptr %lost
}}
"""


def base_features(target: TargetSpec) -> list[str]:
    """What code for a target needs beyond the base set of its architecture, as far as `create` can ask: LLVM's names."""
    if target.triple.startswith("riscv64"):
        return ["v"] if "+v" in target.features.split(",") else []
    if not target.triple.startswith("x86_64"):
        return []
    named = {name[1:]: name[0] == "+" for name in target.features.split(",") if name}
    wanted = [*_LEVELS.get(target.cpu, ()), *(name for name, on in named.items() if on)]
    return sorted({name for name in wanted if name in CPUID_BITS and named.get(name, True)})


def machine_check(target: TargetSpec) -> str:
    """The function `machine_refuses()`: whether the processor, or the system, keeps something from programs that the code needs, with the
    text set.
    """
    features = base_features(target)
    if not features:
        return f"define internal i1 @{REFUSES}() nounwind {{\n  ret i1 false\n}}"
    if target.triple.startswith("riscv64"):
        return "\n".join([_LACKS_VECTORS, _refusal(False)])
    return "\n".join([_CPUID, lacks_function("lacks", features), _refusal("amx-tile" in features)])


def choice_of(levels: Sequence[Sequence[str]]) -> str:
    """`i32 level()`: the number of the last of `levels`, each by its features, that this processor has; 0 if it has none, which the first
    one's own check tells. It is asked once.
    """
    tables = [lacks_function(f"lacks_{i}", features) for i, features in enumerate(levels) if i]
    code = [
        "@chosen = internal global i32 -1", "", "define internal i32 @level() nounwind {", "entry:",
        "  %known = load atomic i32, ptr @chosen monotonic, align 4", "  %fresh = icmp slt i32 %known, 0",
        f"  br i1 %fresh, label %try{len(levels) - 1}, label %again", "", "again:", "  ret i32 %known", "",
    ]  # fmt: skip
    for i in range(len(levels) - 1, 0, -1):
        code += [
            f"try{i}:", f"  %lacking{i} = call ptr @lacks_{i}()", f"  %fits{i} = icmp eq ptr %lacking{i}, null",
            f"  br i1 %fits{i}, label %take{i}, label %{f'try{i - 1}' if i > 1 else 'take0'}", "",
        ]  # fmt: skip
    for i in range(len(levels)):
        code += [f"take{i}:", f"  store atomic i32 {i}, ptr @chosen monotonic, align 4", f"  ret i32 {i}", ""]
    return "\n".join([_CPUID, *tables, *code, "}", ""])


def lacks_function(name: str, features: Sequence[str]) -> str:
    """`ptr NAME()`: the name of the first of `features` that is missing here, null if none is. `_CPUID` stands before it."""
    masks: dict[tuple[int, int, int], dict[int, str]] = {}
    for feature in features:
        leaf, sub, named, bit = CPUID_BITS[feature]
        masks.setdefault((leaf, sub, _REGISTERS.index(named)), {})[bit] = feature
    tables, lines = [], []
    for i, ((leaf, sub, register), bits) in enumerate(sorted(masks.items())):
        mask = sum(1 << bit for bit in bits)
        texts = []
        for bit, feature in sorted(bits.items()):
            tables.append(f'@{name}.{i}.{bit} = private constant [{len(feature) + 1} x i8] c"{feature}\\00"')
            texts.append((bit, f"@{name}.{i}.{bit}"))
        row = ", ".join(f"ptr {dict(texts).get(bit, 'null')}" for bit in range(32))
        tables.append(f"@{name}.{i} = private constant [32 x ptr] [ {row} ]")
        signed = mask - (1 << 32) if mask >> 31 else mask
        lines += [
            f"  %said{i} = call i32 @cpuid(i32 {leaf - (1 << 32) if leaf >> 31 else leaf}, i32 {sub}, i32 {register})",
            f"  %not{i} = xor i32 %said{i}, -1",
            f"  %missing{i} = and i32 %not{i}, {signed}",
            f"  %any{i} = icmp ne i32 %missing{i}, 0",
            f"  br i1 %any{i}, label %told{i}, label %next{i}",
            "",
            f"told{i}:",
            f"  %bit{i} = call i32 @llvm.cttz.i32(i32 %missing{i}, i1 false)",
            f"  %bit_64.{i} = zext i32 %bit{i} to i64",
            f"  %at{i} = getelementptr [32 x ptr], ptr @{name}.{i}, i64 0, i64 %bit_64.{i}",
            f"  %what{i} = load ptr, ptr %at{i}, align 8",
            f"  ret ptr %what{i}",
            "",
            f"next{i}:",
        ]
    # SSE and AVX registers; the masks and halves of AVX-512.
    wide, vex = (any(f.startswith(start) for f in features) for start in ("avx512", ("avx", "fma", "f16c")))
    kept = 0xE6 if wide else 0x6 if vex else 0
    if kept:
        tables.append(f'@{name}.kept = private constant [32 x i8] c"registers that the system keeps\\00"')
        lines += [
            "  %kept = call i32 @kept_registers()",
            f"  %masked = and i32 %kept, {kept}",
            f"  %all = icmp eq i32 %masked, {kept}",
            f"  %lost = select i1 %all, ptr null, ptr @{name}.kept",
            "  ret ptr %lost",
        ]
    else:
        lines.append("  ret ptr null")
    return "\n".join([*tables, "", f"define internal ptr @{name}() noinline nounwind {{", "entry:", *lines, "}", ""])


def _refusal(tiles: bool) -> str:
    lines = [
        f"define internal i1 @{REFUSES}() nounwind {{",
        "  %lacking = call ptr @lacks()",
        "  %fits = icmp eq ptr %lacking, null",
        f"  br i1 %fits, label %{'tiles' if tiles else 'done'}, label %old",
        "",
        "old:",
        "  %told_old = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @old_processor, ptr %lacking)",
        "  ret i1 true",
        "",
        "done:",
        "  ret i1 false",
    ]
    if tiles:
        lines += [
            "",
            "tiles:",
            f"  %code = call i64 (i64, ...) @syscall({', '.join(f'i64 {n}' for n in ASK_FOR_TILES)})",
            "  %refused = icmp ne i64 %code, 0",
            "  br i1 %refused, label %tell, label %done",
            "",
            "tell:",
            "  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_tiles)",
            "  ret i1 true",
        ]
        lines.insert(0, "declare i64 @syscall(i64, ...)\n")
    return "\n".join([*lines, "}"])
