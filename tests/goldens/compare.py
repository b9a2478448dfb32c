"""The kernels of networks, and the file that they are compared with."""

from __future__ import annotations

import csv
import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.attributes import SymbolRef
from polyreme.ir.builtin import Module
from polyreme.ir.passes import PassManager
from polyreme.ir.text import print_module
from polyreme.lowering.kernels.plan import Request, op_names, structure
from polyreme.lowering.machines.targets import TARGETS, Target, core_of
from polyreme.lowering.pipeline import pipeline
from tests.goldens.networks import NETWORKS, Network

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("kernels.csv")
CHOICES = Path(__file__).with_name("choices.csv")
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


@dataclass(frozen=True)
class Choice:
    """Which builders take the roots of a network, on one machine, that have the same ops and a result of this type, in their order.
    `place` is where the first of them comes from, which the file does not keep.
    """

    network: str
    machine: str
    root: str
    result: str
    builders: str
    place: str = field(default="", compare=False)


def texts(network: Network, target: Target) -> Iterator[str]:
    """Each module of a network at kernel level."""
    for module, prepare in network.modules():
        yield print_module(_lowered(module, prepare, target)[0])


def rows(networks: Iterable[Network]) -> Iterator[tuple[Row, list[Choice]]]:
    """What is found, on all machines."""
    for network in networks:
        began = time.monotonic()
        modules = network.modules()
        for target in MACHINES.values():
            for part, (module, prepare) in enumerate(modules):
                name = network.name + (" backward" if part else "")
                made, taken = _lowered(module, prepare, target)
                counts = sorted(Counter(builder for _, builder in taken).items())
                row = Row(name, target.name, _digest(made), " ".join(f"{builder}:{n}" for builder, n in counts))
                yield row, list(_choices(name, target.name, taken))
        print(f"{network.name}: {time.monotonic() - began:.0f} s", flush=True)


def _lowered(module: Any, prepare: str, target: Target) -> tuple[Module, list[tuple[Request, str]]]:
    """The module at kernel level, and who took each root."""
    taken: list[tuple[Request, str]] = []
    made = module.clone()
    PassManager(pipeline(target, prepare, watch=lambda request, plan, calls: taken.append((request, plan.builder or "none")))).run(made)
    return made, taken


def _choices(network: str, machine: str, taken: Iterable[tuple[Request, str]]) -> Iterator[Choice]:
    alike: dict[tuple[str, str], list[tuple[Request, str]]] = {}
    for request, builder in taken:
        alike.setdefault((op_names(request), ", ".join(map(str, request.result_types))), []).append((request, builder))
    for (root, result), found in alike.items():
        runs = [(name, len(list(run))) for name, run in groupby(builder for _, builder in found)]
        builders = ", ".join(name if n == 1 else f"{n} {name}" for name, n in runs)
        place = found[0][0].func.location
        yield Choice(network, machine, root, result, builders, str(place).removeprefix(f"{ROOT}/") if place else "")


def differing(known: Iterable[Choice], made: Iterable[Choice]) -> list[str]:
    """A line for each choice that is another one: network, machine, op, line, what it was and is."""
    key = lambda c: (c.network, c.machine, c.root, c.result)
    before, now = {key(c): c for c in known}, {key(c): c for c in made}
    return [
        f"{network}, {machine}: '{root}' to {result}{f' at {now[k].place}' if k in now and now[k].place else ''}: "
        f"was {before[k].builders if k in before else 'not there'}, is {now[k].builders if k in now else 'not there'}"
        for k in dict.fromkeys((*before, *now))
        for network, machine, root, result in [k]
        if before.get(k) != now.get(k)
    ]


def _digest(module: Module) -> str:
    """A hash of all ops, without the names of kernels, and without what calls are asked: guards tell where a size was asked for."""
    numbers = {func.sym_name: f"f{i}" for i, func in enumerate(module.functions)}
    plain = module.clone()
    for func in plain.functions:
        func.attributes = {**func.attributes, "sym_name": numbers[func.sym_name], "guards": ()}
        for name in ("ranges", "looks"):
            func.attributes.pop(name, None)
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


def read_choices() -> list[Choice]:
    """What the file of choices says."""
    if not CHOICES.exists():
        return []
    with CHOICES.open(newline="", encoding="utf-8") as lines:
        return [
            Choice(row["network"], machine, row["root"], row["result"], row[machine])
            for row in csv.DictReader(lines)
            for machine in MACHINES
            if row[machine]
        ]


def write_choices(made: Iterable[Choice]) -> None:
    """Write the file of choices anew: a row for roots that are alike, a column for each machine."""
    table: dict[tuple[str, str, str], dict[str, str]] = {}
    for c in made:
        table.setdefault((c.network, c.root, c.result), {})[c.machine] = c.builders
    # Roots that only some machines have stand with the others of their network.
    order = [name for n in NETWORKS for name in (n.name, f"{n.name} backward")]
    ordered = sorted(table, key=lambda key: order.index(key[0]))
    with CHOICES.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["network", "root", "result", *MACHINES])
        writer.writerows([*key, *(table[key].get(machine, "") for machine in MACHINES)] for key in ordered)


def write(made: Mapping[tuple[str, str], Row]) -> None:
    """Write the file of kernels anew."""
    with FILE.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["network", "machine", "digest", "builders"])
        writer.writerows([row.network, row.machine, row.digest, row.builders] for row in made.values())
