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
from polyreme.lowering.kernels.plan import KernelPlan, Request, op_names, structure
from polyreme.lowering.machines.targets import TARGETS, Target, core_of
from polyreme.lowering.pipeline import pipeline
from tests.goldens.networks import Network

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("kernels.csv")
SCHEDULES = Path(__file__).with_name("schedules")
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
    """How the roots of a network, on one machine, that have the same ops and a result of this type are computed, in their order: who takes
    them, and what is chosen. `place` is where the first of them comes from, which the file does not keep.
    """

    network: str
    machine: str
    root: str
    result: str
    schedule: str
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
                counts = sorted(Counter(plan.builder or "none" for _, plan in taken).items())
                row = Row(name, target.name, _digest(made), " ".join(f"{builder}:{n}" for builder, n in counts))
                yield row, list(_choices(name, target.name, taken))
        print(f"{network.name}: {time.monotonic() - began:.0f} s", flush=True)


def _lowered(module: Any, prepare: str, target: Target) -> tuple[Module, list[tuple[Request, KernelPlan]]]:
    """The module at kernel level, and how each root is computed."""
    taken: list[tuple[Request, KernelPlan]] = []
    made = module.clone()
    PassManager(pipeline(target, prepare, watch=lambda request, plan, calls: taken.append((request, plan)))).run(made)
    return made, taken


def _choices(network: str, machine: str, taken: Iterable[tuple[Request, KernelPlan]]) -> Iterator[Choice]:
    alike: dict[tuple[str, str], list[tuple[Request, str]]] = {}
    for request, plan in taken:
        builder, chosen = plan.builder or "none", " + ".join(plan.schedule.splitlines())
        said = chosen if chosen.startswith(f"{builder}<") else f"{builder} {chosen}".strip()
        alike.setdefault((op_names(request), ", ".join(map(str, request.result_types))), []).append((request, said))
    for (root, result), found in alike.items():
        runs = [(said, len(list(run))) for said, run in groupby(said for _, said in found)]
        schedule = " | ".join(said if n == 1 else f"{n} of {said}" for said, n in runs)
        place = found[0][0].func.location
        yield Choice(network, machine, root, result, schedule, str(place).removeprefix(f"{ROOT}/") if place else "")


def differing(known: Iterable[Choice], made: Iterable[Choice]) -> list[str]:
    """A line for each choice that is another one: network, machine, op, line, what it was and is."""
    key = lambda c: (c.network, c.machine, c.root, c.result)
    before, now = {key(c): c for c in known}, {key(c): c for c in made}
    return [
        f"{network}, {machine}: '{root}' to {result}{f' at {now[k].place}' if k in now and now[k].place else ''}: "
        f"was {before[k].schedule if k in before else 'not there'}, is {now[k].schedule if k in now else 'not there'}"
        for k in dict.fromkeys((*before, *now))
        for network, machine, root, result in [k]
        if before.get(k) != now.get(k)
    ]


def _digest(module: Module) -> str:
    """A hash of all ops, without the names of kernels, and without what calls are asked: guards tell where a size was asked for, updates
    what callers may do with results.
    """
    numbers = {func.sym_name: f"f{i}" for i, func in enumerate(module.functions)}
    plain = module.clone()
    for func in plain.functions:
        func.attributes = {**func.attributes, "sym_name": numbers[func.sym_name], "guards": ()}
        for name in ("ranges", "looks", "updates", "proceeds"):
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


def _file(network: str) -> Path:
    return SCHEDULES / f"{network.replace(' ', '_')}.txt"


def read_choices(network: str) -> list[Choice]:
    """What the file of a network's schedules says."""
    file, found, root = _file(network), [], ""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        machines, _, schedule = line.strip().partition(": ")
        if line.startswith(" "):
            found += [Choice(network, machine, *root.split(" -> "), schedule) for machine in machines.split(", ")]
        else:
            root = line
    return found


def write_choices(network: str, made: Iterable[Choice]) -> None:
    """Write the file of a network's schedules anew: a line for roots that are alike, and under it one for machines that choose alike."""
    table: dict[tuple[str, str], dict[str, list[str]]] = {}
    for c in made:
        table.setdefault((c.root, c.result), {}).setdefault(c.schedule, []).append(c.machine)
    lines = [
        line
        for (root, result), schedules in table.items()
        for line in (f"{root} -> {result}", *(f"  {', '.join(machines)}: {schedule}" for schedule, machines in schedules.items()))
    ]
    SCHEDULES.mkdir(exist_ok=True)
    _file(network).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write(made: Mapping[tuple[str, str], Row]) -> None:
    """Write the file of kernels anew."""
    with FILE.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["network", "machine", "digest", "builders"])
        writer.writerows([row.network, row.machine, row.digest, row.builders] for row in made.values())
