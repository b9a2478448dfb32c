"""The comparison with xDSL: that its text gives CSE and DCE work, and, where xDSL is installed, that we are not behind."""

import pytest

from benchmarks.ir import STEPS, chain_text, measure, polyreme, table


def test_the_text_has_duplicates_and_ops_without_uses():
    library = polyreme()
    text = chain_text(400)
    module = library.parse(text)
    assert library.print(module) == text
    assert 395 <= library.count(module) <= 405
    library.verify(module)
    library.clean(module)
    library.verify(module)
    assert 280 < library.count(module) < 360


@pytest.mark.peer
def test_every_step_and_an_op_in_memory_cost_at_most_what_they_cost_in_xdsl(tmp_path):
    pytest.importorskip("xdsl")
    figures = measure(chain_text(2000), 3, tmp_path)
    ours, peer = figures["polyreme"], figures["xdsl"]
    assert ours["after"] == peer["after"] < ours["before"] == peer["before"]
    behind = {step: (ours["best"][step], peer["best"][step]) for step in STEPS if ours["best"][step] > peer["best"][step]}
    assert not behind
    assert ours["bytes"] <= peer["bytes"]
    assert table(figures).count("\n") == 8
