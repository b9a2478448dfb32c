"""The benchmark of the cost model: which roots and candidates it times, and what its tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

import polyreme as paddle
from benchmarks import predicted
from benchmarks.predicted import Row, candidates, key_of, roots_of, spread, write_families, write_rows
from benchmarks.tables import read
from polyreme.jit.saving import trace_model
from polyreme.lowering.kernels.way import cycles_of
from polyreme.lowering.machines.targets import TARGETS
from polyreme.static import InputSpec

WIDE = TARGETS["x86-64-avx512"]


def linear(rows: int) -> list[tuple[str, object, object]]:
    paddle.seed(0)
    net = paddle.nn.Linear(96, 200)
    net.eval()
    return list(roots_of([("linear", trace_model(net, [InputSpec([rows, 96], "float32")]).frozen())], WIDE))


def test_candidates_of_a_product_begin_with_what_is_chosen_and_have_other_tiles() -> None:
    ((_, request, plan),) = linear(32)
    found = candidates(request, plan)
    assert found[0].schedule == plan.schedule and len(found) > 2
    for one in found:
        made = one.plan(request)
        assert made is not None and made.schedule == one.schedule and cycles_of(made, request) > 32 * 96 * 200 / 16 / 2


def test_roots_are_spread_over_families() -> None:
    (one,), (other,) = linear(32), linear(1)
    assert key_of(one[1]) != key_of(other[1])
    assert len(spread([one, other], 1)) == 1 and len(spread([one, other], 5)) == 2


def test_the_tables_say_errors_and_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicted, "FILE", tmp_path / "predicted.csv")
    monkeypatch.setattr(predicted, "FAMILIES", tmp_path / "predicted_families.csv")
    row = lambda key, family, chosen, estimate, cycles: Row("net", "root", key, family, "", chosen, estimate, cycles, 1.0)
    close = [row("a", "contract", "yes", 90, 100), row("a", "direct", "", 80, 99)]
    write_rows([*close, row("b", "contract", "yes", 130, 100), row("b", "winograd", "", 1, 80)])
    write_families()
    contract, every = read("predicted_families", tmp_path)
    assert contract["median error"] == every["median error"] == "20%" and contract["roots"] == "2"
    assert contract["best or within 5 %"] == "50%"
