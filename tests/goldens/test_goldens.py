"""Kernels stay what they were: see the package. A change that means to change them writes the file anew, and says which."""

from __future__ import annotations

import pytest

from tests.goldens.compare import MACHINES, read, rows
from tests.goldens.networks import NETWORKS, Network

QUICK = ("mlp", "lstm")


@pytest.mark.parametrize("network", [pytest.param(n, marks=() if n.name in QUICK else pytest.mark.slow, id=n.name) for n in NETWORKS])
def test_kernels_are_those_of_the_file(network: Network) -> None:
    known, made = read(), list(rows([network]))
    assert {row.machine for row in made} == set(MACHINES)
    for row in made:
        before = known[row.network, row.machine]
        assert row.builders == before.builders, f"{row.network} on {row.machine}: other builders"
        assert row == before, (
            f"{row.network} on {row.machine}: other kernels; `python -m tests.goldens --text '{network.name}' {row.machine}` prints them"
        )
