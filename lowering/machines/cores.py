"""Cores: one row for each micro-architecture, and a generic one for each instruction set; a row is chosen by the processor's name.

`docs/add_a_machine.md` says how a row is written. Sizes of caches are the machine's own where it runs, and `Target`'s elsewhere.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class Rates:
    """What a core does in a cycle beside multiply-adds, as `cost.py` asks: whole vectors that are loaded, stored, and shuffled by other
    lanes; single `places` that gathers read; bytes from L2, and bytes of lines that drive each other out of L1 (`crowded`). A row of a tile
    register is multiplied in `tile_row_cycles`. Of computing and moving bytes at the same time, so much of the shorter one shows
    (`l2_shows` of bytes from L2). About so many operations are `in_flight` at a time. A kernel that does nothing takes `call_cycles`; a
    product begins with another panel in `start_cycles`.

    Of a matrix that a product reads where it stands, in pieces of rows that are apart, such parts of the time for bytes from L2 and L3 show
    more. Rows that drive each other out of L2 are waited for, each piece so many `conflict_cycles`. Panels are packed with
    `pack_bytes_per_cycle`; `copy_bytes_per_cycle` show where that goes beside multiply-adds. The machine follows so many `streams` of
    results by itself.
    """

    loads: float = 2
    stores: float = 1
    shuffles: float = 1
    places: float = 1
    l2_bytes_per_cycle: float = 40
    crowded_bytes_per_cycle: float = 8
    in_flight: float = 180
    tile_row_cycles: float = 1.45
    l2_shows: float = 0.3
    overlap_shows: float = 0.3
    call_cycles: float = 60
    start_cycles: float = 200
    apart_l2_shows: float = 0.0
    apart_l3_shows: float = 0.0
    conflict_cycles: float = 90.0
    pack_bytes_per_cycle: float = 14.0
    copy_bytes_per_cycle: float = 40.0
    streams: int = 4


@dataclass(frozen=True)
class Core:
    """What schedules know of a core beside its instruction set. `processors` are LLVM's names for what has it; others whose names begin
    with `family` are taken for one, too, if they have no row of their own.

    Of a large L3 that many cores share, a core gets about so many times its L2 in time (`l3_of_l2`; None: all of it). The other fields are
    those of `Target`.
    """

    name: str
    processors: tuple[str, ...] = ()
    family: str | None = None
    l3_of_l2: int | None = None
    l3_bytes_per_cycle: float = 20
    memory_bytes_per_cycle: float = 10
    spare_adders: bool = True
    hardware_prefetch: bool = False
    memory_streams: int = 1
    multiply_adds: float = 2
    load_cycles: float = 0.0
    half_width_vectors: bool = False
    separate_l3: bool = False
    rates: Rates = Rates()

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of a target that it gives."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("name", "processors", "family", "l3_of_l2", "rates")}

    def caches(self, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
        """What a core sees of caches of these sizes."""
        first, second, third = sizes
        return sizes if self.l3_of_l2 is None else (first, second, min(third, self.l3_of_l2 * second))


# AMD's add on other ports than they multiply.
ZEN = Core("Zen", ("znver1", "znver2", "znver5"), family="znver")
# Half of its L3, and memory in eight streams.
ZEN_3 = Core("Zen 3", ("znver3",), l3_of_l2=32, memory_bytes_per_cycle=4, hardware_prefetch=True, memory_streams=8)
# Vectors of 64 bytes are computed in halves, so one multiply-add of them begins in a cycle; in a virtual machine cores may share no L3.
ZEN_4 = Core(
    "Zen 4",
    ("znver4",),
    l3_bytes_per_cycle=26,
    multiply_adds=1,
    half_width_vectors=True,
    separate_l3=True,
    hardware_prefetch=True,
    rates=Rates(loads=1, l2_shows=0.05, copy_bytes_per_cycle=32.0),
)
# Intel's add and multiply on the same ports, and of tiles that are equal otherwise those with fewer loads win. The hardware prefetcher
# stops at a page, so memory is read best in eight streams.
SKYLAKE = Core(
    "Skylake server",
    ("skylake-avx512", "cascadelake", "cooperlake"),
    l3_of_l2=8,
    l3_bytes_per_cycle=9.5,
    memory_bytes_per_cycle=4.5,
    spare_adders=False,
    hardware_prefetch=True,
    memory_streams=8,
    load_cycles=0.01,
    rates=Rates(apart_l2_shows=0.1, apart_l3_shows=0.7),
)
# The facts of Sapphire Rapids; those of the others are taken for the same.
ICE_LAKE = replace(SKYLAKE, name="Ice Lake server", processors=("icelake-server",))
SAPPHIRE_RAPIDS = replace(SKYLAKE, name="Sapphire Rapids", processors=("sapphirerapids", "emeraldrapids"))
GRANITE_RAPIDS = replace(SKYLAKE, name="Granite Rapids", processors=("graniterapids", "graniterapids-d"))
CORES = (ZEN, ZEN_3, ZEN_4, SKYLAKE, ICE_LAKE, SAPPHIRE_RAPIDS, GRANITE_RAPIDS)

# For processors that have no row, by the first part of the triple.
GENERIC = {
    "x86_64": replace(SKYLAKE, name="generic x86-64", processors=()),
    **{arch: Core(f"generic {arch}") for arch in ("aarch64", "riscv64", "wasm32")},
}


@cache
def core_named(processor: str, arch: str) -> Core:
    """The row of a processor, by LLVM's name for it; that of its instruction set if there is none."""
    own = next((core for core in CORES if processor in core.processors), None)
    like = next((core for core in CORES if core.family is not None and processor.startswith(core.family)), None)
    return own or like or GENERIC[arch]
