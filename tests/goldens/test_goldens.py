"""Kernels stay what they were: see the package. A change that means to change them writes the files anew, and says which."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from polyreme.lowering.kernels.schedule import parse_schedule
from polyreme.lowering.pipeline import WAYS
from tests.goldens.compare import MACHINES, SCHEDULES, Choice, differing, read, read_choices, rows
from tests.goldens.networks import NETWORKS, Network

QUICK = ("lenet", "mlp", "separable", "lstm", "gru")
HOW = "`python -m tests.goldens --write` writes the files anew"


@pytest.mark.parametrize("network", [pytest.param(n, marks=() if n.name in QUICK else pytest.mark.slow, id=n.name) for n in NETWORKS])
def test_schedules_and_kernels_are_those_of_the_files(network: Network) -> None:
    known, made = read(), list(rows([network]))
    assert {row.machine for row, _ in made} == set(MACHINES)
    names = {row.network for row, _ in made}
    told = differing([c for name in names for c in read_choices(name)], [c for _, choices in made for c in choices])
    assert not told, "\n".join(["other schedules", *told, HOW])
    for row, _ in made:
        prints = f"`python -m tests.goldens --text '{network.name}' {row.machine}` prints them"
        assert row == known[row.network, row.machine], f"{row.network} on {row.machine}: other kernels; {prints}; {HOW}"


def test_another_choice_is_told_with_its_place() -> None:
    was = Choice("net", "aarch64", "contract add", "tensor<4x8xf32>", "2 of contract gemm<tile = 4x4> | strassen")
    now = replace(was, schedule="2 of contract gemm<tile = 6x4> | strassen", place="net.py:7:9")
    gone = replace(was, root="pad", schedule="loops")
    assert differing([was], [replace(was, place="net.py:9:9")]) == []
    assert differing([was, gone], [now]) == [
        "net, aarch64: 'contract add' to tensor<4x8xf32> at net.py:7:9: "
        "was 2 of contract gemm<tile = 4x4> | strassen, is 2 of contract gemm<tile = 6x4> | strassen",
        "net, aarch64: 'pad' to tensor<4x8xf32>: was loops, is not there",
    ]


def test_schedules_of_the_files_are_read_back() -> None:
    kinds = {way.schedule.kind: way.schedule for way in WAYS}
    texts = {
        text
        for file in SCHEDULES.glob("*.txt")
        for choice in read_choices(file.stem)
        for part in choice.schedule.split(" | ")
        for text in [re.sub(r"^(\d+ of )?(contract (?=gemm))?", "", part)]
        if re.split(r"[<\s]", text)[0] in kinds
    }
    for text in texts:
        assert str(parse_schedule(text, kinds.values())) == text
    assert len(texts) > 500
