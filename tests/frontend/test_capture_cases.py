"""Compiled functions do what the Python that was written does: over two hundred programs, in the default mode and with `full_graph=True`.
"""

from __future__ import annotations

import pytest

from polyreme.ir.diagnostics import PolyremeError
from tests.frontend.capture_programs import (
    between,
    changing,
    containers,
    flow,
    functions,
    gradients,
    kinds,
    layers,
    numbers,
    objects,
    outside,
    parts,
    poles,
    replaced,
    statements,
    tensors,
    training,
    training_decisions,
    training_gradients,
    training_nets,
    training_optimizers,
    writes,
)
from tests.frontend.capture_programs.driver import PROGRAMS, difference, run, said

# What differs where tensors decide in one program, and what is said of it.
KNOWN_WITH_FULL_GRAPH = {
    "a_while_on_a_tensor": "a number that a branch or loop of the program computes outlives the call: it is a tensor",
    "a_branch_returns_the_argument_itself": "a result is a tensor of its own",
    "recompute_in_a_training_step": "a result beside a step of training keeps nothing for gradients of it",
}
SUBJECTS = (
    between,
    changing,
    containers,
    flow,
    functions,
    gradients,
    kinds,
    layers,
    numbers,
    objects,
    outside,
    parts,
    poles,
    replaced,
    statements,
    tensors,
    training,
    training_decisions,
    training_gradients,
    training_nets,
    training_optimizers,
    writes,
)


# Whole steps take longer to compile: of those of `training…` these always run.
STEPS = (training, training_decisions, training_gradients, training_nets, training_optimizers)
QUICK_STEPS = (
    training.a_step_of_momentum,
    training_gradients.an_argument_gets_gradients,
    training_decisions.a_step_that_fails_at_its_positions,
)

# Each of these makes a dozen kernels.
LONG = {
    "a_layer_list_and_a_layer_dict",
    "an_einsum_and_a_norm",
    "compiled_functions_in_a_compiled_one",
    "gradients_are_let_through_inside_of_a_call_under_no_grad",
    "gradients_at_intermediates_inside",
    "gradients_at_results_of_branches_sizes_and_draws",
    "hooks_of_a_closed_over_layer",
    "inheritance_of_layers",
    "sublayers_are_replaced_and_added",
}


def is_slow(name: str) -> bool:
    function, _ = PROGRAMS[name]
    return name in LONG or function.__module__ in {subject.__name__ for subject in STEPS} and function not in QUICK_STEPS


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if is_slow(name) else name for name in PROGRAMS])
def test_a_compiled_program_is_never_silently_different(name: str, caplog: pytest.LogCaptureFixture) -> None:
    eager = run(name, "eager")
    assert len([kind for kind, *_ in eager.notes if kind == "result"]) >= 3
    default = run(name, "default")
    assert difference(eager, default) is None
    if PROGRAMS[name][1]:
        gathered = {
            f"{f!r}": [str(calls.gathered) for calls in f._calls.values() if calls.gathered] for f in default.statics if f._gathered_calls
        }
        assert not gathered, f"calls that are to be whole programs are gathered: {gathered}"
    with caplog.at_level("WARNING", logger="polyreme.jit"):
        full = run(name, "full")
    known = KNOWN_WITH_FULL_GRAPH.get(name)
    assert (difference(eager, full) is None) == (known is None)
    assert known is None or known in caplog.text, "what differs is said"
    if full.refusal is not None and not isinstance(full.refusal, PolyremeError):
        raised = [note for kind, note in eager.notes if kind == "error"][full.calls]
        assert raised == (type(full.refusal).__name__, said(full.refusal))
    if isinstance(full.refusal, PolyremeError):
        location = full.refusal.diagnostics[0].location
        assert location is not None and location.line > 0, f"no line is named by: {full.refusal}"
