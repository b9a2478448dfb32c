"""The kernels of networks, and the file that they are compared with."""

from __future__ import annotations

import csv
import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.attributes import SymbolRef
from polyreme.ir.builtin import Module
from polyreme.ir.passes import PassManager
from polyreme.ir.text import print_module
from polyreme.lowering.kernels.plan import structure
from polyreme.lowering.machines.targets import TARGETS, Target, core_of
from polyreme.lowering.pipeline import pipeline
from tests.goldens.networks import Network

FILE = Path(__file__).with_name("kernels.csv")
_WIDE = replace(TARGETS["x86-64-avx512"], caches=(32 << 10, 1 << 20, 32 << 20))
_ZEN4 = core_of(replace(_WIDE, name="znver4", cpu="znver4"))
_TILES = core_of(
    replace(
        _WIDE,
        name="sapphirerapids",
        cpu="sapphirerapids",
        features=_WIDE.features + ",+avx512vnni,+avx512bf16,+amx-tile,+amx-bf16,+amx-int8",
        caches=(48 << 10, 2 << 20, 105 << 20),
    )
)
MACHINES: Mapping[str, Target] = {
    t.name: t
    for t in (
        *(TARGETS[name] for name in ("x86-64", "x86-64-avx2", "x86-64-avx512")),
        _ZEN4,
        _TILES,
        TARGETS["aarch64"],
        TARGETS["riscv64"],
    )
}


@dataclass(frozen=True)
class Row:
    """What one network becomes on one machine: a hash of its kernels, and how many roots each builder took."""

    network: str
    machine: str
    digest: str
    builders: str


def found_for(network: Network, target: Target) -> Iterator[tuple[str, Row]]:
    """The text of each module at kernel level, with its row."""
    for part, (module, prepare) in enumerate(network.modules()):
        text, digest, builders = _lowered(module, prepare, target)
        yield text(), Row(network.name + (" backward" if part else ""), target.name, digest, builders)


def rows(networks: Iterable[Network]) -> Iterator[Row]:
    """Those of all machines."""
    for network in networks:
        began = time.monotonic()
        modules = network.modules()
        for target in MACHINES.values():
            for part, (module, prepare) in enumerate(modules):
                _, digest, builders = _lowered(module, prepare, target)
                yield Row(network.name + (" backward" if part else ""), target.name, digest, builders)
        print(f"{network.name}: {time.monotonic() - began:.0f} s", flush=True)


def _lowered(module: Any, prepare: str, target: Target) -> tuple[Any, str, str]:
    taken: Counter[str] = Counter()
    made = module.clone()
    PassManager(pipeline(target, prepare, watch=lambda request, plan, calls: taken.update([plan.builder]))).run(made)
    digest = _digest(made)
    return lambda: print_module(made), digest, " ".join(f"{name or 'none'}:{n}" for name, n in sorted(taken.items()))


def _digest(module: Module) -> str:
    """A hash of all ops, without the names of kernels, and without guards, which tell where a size was asked for."""
    numbers = {func.sym_name: f"f{i}" for i, func in enumerate(module.functions)}
    plain = module.clone()
    for func in plain.functions:
        func.attributes = {**func.attributes, "sym_name": numbers[func.sym_name], "guards": ()}
    for call in plain.walk():
        if isinstance(call, kernel.Call):
            call.attributes = {**call.attributes, "callee": SymbolRef(numbers[call.callee.name])}
    return hashlib.blake2b(repr(structure(plain.block)).encode(), digest_size=8).hexdigest()


def read() -> dict[tuple[str, str], Row]:
    """What the file says, by network and machine."""
    if not FILE.exists():
        return {}
    with FILE.open(newline="", encoding="utf-8") as lines:
        return {(row["network"], row["machine"]): Row(**row) for row in csv.DictReader(lines)}


def write(made: Mapping[tuple[str, str], Row]) -> None:
    """Write the file anew."""
    with FILE.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["network", "machine", "digest", "builders"])
        writer.writerows([row.network, row.machine, row.digest, row.builders] for row in made.values())
