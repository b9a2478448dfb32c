"""Rows of cores: what a processor gets."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from polyreme.lowering.machines.cores import CORES, GENERIC, Core, core_named
from polyreme.lowering.machines.targets import TARGETS, Target, core_of, cpu_names


def test_a_processor_has_one_row() -> None:
    counts = Counter(processor for core in CORES for processor in core.processors)
    assert set(counts.values()) == {1}
    assert len({core.name for core in (*CORES, *GENERIC.values())}) == len(CORES) + len(GENERIC)


def test_rows_name_processors_that_llvm_knows() -> None:
    known = cpu_names("x86_64-unknown-linux-gnu")
    assert {p for core in CORES for p in core.processors} <= set(known)


@pytest.mark.parametrize(
    ("processor", "arch", "name"),
    [
        ("znver3", "x86_64", "Zen 3"),
        ("znver6", "x86_64", "Zen"),
        ("emeraldrapids", "x86_64", "Sapphire Rapids"),
        ("alderlake", "x86_64", "generic x86-64"),
        ("neoverse-v1", "aarch64", "generic aarch64"),
    ],
)
def test_a_row_is_chosen_by_the_processor(processor: str, arch: str, name: str) -> None:
    assert core_named(processor, arch).name == name


def test_every_instruction_set_has_a_generic_row() -> None:
    assert set(GENERIC) == {target.arch for target in TARGETS.values()}


def test_the_facts_of_a_row_are_those_of_targets() -> None:
    own = {f.name for f in fields(Core)} - {"name", "processors", "family", "l3_of_l2", "rates"}
    assert own <= {f.name for f in fields(Target)}
    # A target that nothing is known of has the facts of a generic row.
    plain = replace(TARGETS["aarch64"], cpu="neoverse-v1")
    assert core_of(plain) == plain


def test_a_core_gets_a_part_of_a_large_third_cache() -> None:
    wide = replace(TARGETS["x86-64-avx512"], cpu="sapphirerapids", caches=(48 << 10, 2 << 20, 105 << 20))
    assert core_of(wide).caches == (48 << 10, 2 << 20, 16 << 20)
    assert core_of(replace(wide, caches=(48 << 10, 2 << 20, 8 << 20))).caches[2] == 8 << 20
