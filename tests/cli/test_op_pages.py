"""The pages of `docs/ops` are what the op table says, and every example on them runs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.cli.op_docs.facts import TARGETS, facts_of
from polyreme.cli.op_docs.pages import page, pages, signature
from polyreme.ir.context import all_ops
from polyreme.ir.define import Elementwise
from polyreme.ir.types import SCALARS
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.gradients.autodiff import GRADIENTS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "ops"
HOW = "`pytest tests/cli/test_op_pages.py --update-golden` writes docs/ops anew; read the difference"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_the_pages_are_current(made: dict[str, str], request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(exist_ok=True)
        for old in FOLDER.glob("*.md"):
            old.unlink()
        for name, text in made.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert sorted(there) == sorted(made), HOW
    stale = [name for name, text in made.items() if there[name] != text]
    assert not stale, f"{', '.join(stale)} say something else than the op table: {HOW}"


def test_the_index_leads_to_every_page(made: dict[str, str]) -> None:
    links = re.findall(r"\]\(([^)#]+\.md)\)", made["README.md"])
    assert sorted(links) == sorted(made.keys() - {"README.md"})


@pytest.mark.parametrize("name", all_ops())
def test_the_example_of_an_op_runs_on_random_inputs(name: str) -> None:
    facts = facts_of(all_ops()[name])
    run = facts.run
    assert len(facts.func.block.terminator.operands) <= len(run.results)
    for _, array in run.results:
        assert np.asarray(array).dtype.kind in "fiubcV"
    # What an op without results does shows in a buffer, unless it only waits, asks, or passes on.
    silent = {
        "kernel.barrier",
        "kernel.copy_commit",
        "kernel.copy_wait",
        "kernel.copy_async",
        "kernel.prefetch",
        "kernel.parallel",
        "kernel.call",
        "kernel.launch",
        "kernel.counted_init",
        "kernel.counted_expect",
        "kernel.counted_arrive",
        "kernel.counted_wait",
        "kernel.wgmma_commit",
        "kernel.set_registers",
    }
    assert run.results or name in silent


BRANCHES = ("nn.if", "nn.scan", "nn.while", "nn.yield", "tensor.if", "tensor.while")
COMPLEX = ("nn.complex", "nn.conj", "nn.imag", "nn.real")  # no kernel computes with complex numbers


@pytest.mark.parametrize("name", [n for n in all_ops() if n.startswith(("nn.", "tensor.")) and n not in COMPLEX])
def test_ops_of_the_nn_and_tensor_levels_compile_for_every_machine(name: str) -> None:
    # Which launches there are does not depend on numbers: on a GPU the host runs branches and loops.
    machines = [t for t in TARGETS if not t.startswith("cuda")] if name in BRANCHES else list(TARGETS)
    assert facts_of(all_ops()[name]).compiles_for == machines


def test_kernel_ops_say_for_which_machine_they_are() -> None:
    ops = all_ops()
    assert facts_of(ops["kernel.mma"]).compiles_for == ["cuda:sm_80"]
    assert facts_of(ops["kernel.wgmma"]).compiles_for == ["cuda:sm_90a"]
    assert facts_of(ops["kernel.parallel"]).compiles_for == ["x86-64-avx2"]
    assert facts_of(ops["kernel.fma"]).compiles_for == list(TARGETS)


def test_element_types_are_those_that_inference_takes() -> None:
    ops = all_ops()
    floats = [t for t in SCALARS.values() if t.is_float]
    assert facts_of(ops["nn.exp"]).element_types == [floats]
    condition, x, y = facts_of(ops["nn.where"]).element_types
    assert condition == [SCALARS["i1"]] and x == y == list(SCALARS.values())
    assert SCALARS["f32"] not in facts_of(ops["nn.gather"]).element_types[1]
    assert [facts_of(ops[n]).result_type(0) for n in ("nn.exp", "nn.equal", "nn.where", "nn.arg_max")] == ["as `x`", "i1", "as `x`", "i64"]


def test_special_values_come_from_the_meaning() -> None:
    ops = all_ops()
    table = {repr(x): y for x, y in facts_of(ops["nn.log"]).special_values}
    assert table["0.0"] == -math.inf and table["1.0"] == 0 and math.isnan(table["-1.0"]) and table["inf"] == math.inf
    with_table = [n for n, cls in ops.items() if facts_of(cls).special_values]
    assert len(with_table) > 30 and all(Elementwise in ops[n].traits for n in with_table)


def test_rules_that_there_are_are_shown(made: dict[str, str]) -> None:
    for name, cls in all_ops().items():
        text = made[f"{name}.md"]
        assert ("## Gradient" in text) == (cls in GRADIENTS)
        assert ("## At the tensor level" in text) == (cls in nn_to_tensor.rules)
    assert "merge_transposes" in made["nn.transpose.md"] and "merge_transposes" not in made["nn.exp.md"]


def test_signatures_show_what_may_be_left_out() -> None:
    ops = all_ops()
    assert signature(ops["nn.linear"]) == "nn.linear %x, %weight, %bias?"
    assert signature(ops["nn.concat"]) == "nn.concat [%xs…] {axis = 0}"
    assert signature(ops["nn.arg_max"]) == "nn.arg_max %x {axis, keepdims = false, dtype = i64}"
    assert signature(ops["kernel.if"]) == "kernel.if %condition { then_body } { else_body }"


def test_every_part_of_an_op_is_on_its_page(made: dict[str, str]) -> None:
    for name, cls in all_ops().items():
        text = made[f"{name}.md"]
        parts = [o.name for o in cls.definition.operands] + list(cls.definition.attributes) + [r.name for r in cls.definition.regions]
        assert all(f"| `{part}` |" in text for part in parts)
        assert all(f"- {trait}:" in text for trait in cls.traits)
    assert page(facts_of(all_ops()["nn.add"])) == made["nn.add.md"]
