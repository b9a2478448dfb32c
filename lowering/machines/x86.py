"""How x86-64 processors say what they have, and what their instructions call a way of rounding, as in the manuals of Intel and AMD."""

from __future__ import annotations

# What LLVM may use without being asked to, by its own name: leaf and subleaf of cpuid, register, bit.
CPUID_BITS = {
    "sse3": (1, 0, "ecx", 0), "pclmul": (1, 0, "ecx", 1), "ssse3": (1, 0, "ecx", 9), "fma": (1, 0, "ecx", 12), "cx16": (1, 0, "ecx", 13),
    "sse4.1": (1, 0, "ecx", 19), "sse4.2": (1, 0, "ecx", 20), "movbe": (1, 0, "ecx", 22), "popcnt": (1, 0, "ecx", 23),
    "aes": (1, 0, "ecx", 25), "avx": (1, 0, "ecx", 28), "f16c": (1, 0, "ecx", 29),
    "bmi": (7, 0, "ebx", 3), "avx2": (7, 0, "ebx", 5), "bmi2": (7, 0, "ebx", 8), "avx512f": (7, 0, "ebx", 16),
    "avx512dq": (7, 0, "ebx", 17), "adx": (7, 0, "ebx", 19), "avx512ifma": (7, 0, "ebx", 21), "avx512cd": (7, 0, "ebx", 28),
    "avx512bw": (7, 0, "ebx", 30), "avx512vl": (7, 0, "ebx", 31),
    "avx512vbmi": (7, 0, "ecx", 1), "avx512vbmi2": (7, 0, "ecx", 6), "gfni": (7, 0, "ecx", 8), "vaes": (7, 0, "ecx", 9),
    "vpclmulqdq": (7, 0, "ecx", 10), "avx512vnni": (7, 0, "ecx", 11), "avx512bitalg": (7, 0, "ecx", 12),
    "avx512vpopcntdq": (7, 0, "ecx", 14), "movdiri": (7, 0, "ecx", 27), "movdir64b": (7, 0, "ecx", 28),
    "avx512vp2intersect": (7, 0, "edx", 8), "amx-bf16": (7, 0, "edx", 22), "avx512fp16": (7, 0, "edx", 23), "amx-tile": (7, 0, "edx", 24),
    "amx-int8": (7, 0, "edx", 25),
    "avxvnni": (7, 1, "eax", 4), "avx512bf16": (7, 1, "eax", 5), "amx-fp16": (7, 1, "eax", 21), "avxifma": (7, 1, "eax", 23),
    "avxvnniint8": (7, 1, "edx", 4), "avxneconvert": (7, 1, "edx", 5), "avxvnniint16": (7, 1, "edx", 10),
    "lzcnt": (0x80000001, 0, "ecx", 5), "sse4a": (0x80000001, 0, "ecx", 6), "xop": (0x80000001, 0, "ecx", 11),
    "fma4": (0x80000001, 0, "ecx", 16), "tbm": (0x80000001, 0, "ecx", 21),
}  # fmt: skip
# Rounding modes of instructions: as the thread has it, and down.
ROUND_CURRENT, ROUND_DOWN = 4, 9
