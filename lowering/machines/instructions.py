"""Which instructions a machine has, as schedules and passes ask. The emitter knows how they are written."""

from __future__ import annotations

from polyreme.ir.types import f32
from polyreme.lowering.machines.targets import Target

# Bytes of a word: products of an element of `kernel.dot4`.
BYTES = 4
# Bytes of the widest vectors of any target, by which layouts are chosen that all targets share.
WIDEST_BYTES = 64
# Lanes of those, of float32.
WIDEST_LANES = WIDEST_BYTES // f32.bytes
# So few channels, or other planes of an image, are better gone through one by one, with pixels in the lanes.
FEW_CHANNELS = 4
# Of many registers LLVM wants so many beside sums and weights, or it keeps sums on the stack.
SPARE_REGISTERS = 3
# Rows of a tile of one vector that let other units finish one tile meanwhile, where vectors are computed as halves.
HIDDEN_ROWS = 14
# Where a target has so many vector registers, tiles have room for more than one thing at a time.
MANY_REGISTERS = 32


def has_tiles(target: Target) -> bool:
    """Whether the target multiplies bytes by tile registers."""
    return target.arch == "x86_64" and "linux" in target.triple and target.has("amx-int8") and target.has("amx-tile")


def has_bf16_tiles(target: Target) -> bool:
    """Whether the target multiplies bf16 by tile registers."""
    return target.arch == "x86_64" and "linux" in target.triple and target.has("amx-bf16") and target.has("amx-tile")


def multiplies_pairs(target: Target) -> bool:
    """Whether bytes are better kept as 16-bit numbers, of which the machine multiplies pairs, than widened in front of each product."""
    return target.arch == "x86_64" and not has_vnni(target, target.vector_bytes // BYTES)


def dot_registers(target: Target) -> int:
    """How many registers an accumulation holds beside sums and operands: what is made of operands before they are multiplied."""
    return 0 if target.arch == "x86_64" and has_vnni(target, target.vector_bytes // 4) else 4


def has_vnni(target: Target, lanes: int) -> bool:
    if lanes == 16:
        return target.has("avx512vnni")
    return lanes in (4, 8) and (target.has("avxvnni") or (target.has("avx512vnni") and target.has("avx512vl")))
