"""Whole programs of `fluid` give what Paddle 1.8.5 gives for them, run as they are and run from each other's bytes."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme import fluid
from tests.fluid.programs import recording

ROOT = Path(__file__).parents[2]
RECORDED = dict(np.load(ROOT / "tests" / "fixtures" / "fluid_programs.npz"))
PROGRAMS = recording.programs()
# What is not there yet.
MISSING: dict[str, str] = {}
# By default those whose subject no other test has: of these files only two, and of the others all but those that compile long.
LONGER = {"detectors", "networks", "optimizing", "recurrent", "sequences", "training"}
QUICK = {"fit_a_line", "training_in_double"}
SLOW = {"rows_by_if_else", "pruned_to_a_target", "clone_of_a_trained_program", "recurrent_by_static_rnn", "gated_unit_by_static_rnn"}


def _marked(name: str) -> Any:
    marks = [pytest.mark.xfail(reason=MISSING[name], strict=True)] if name in MISSING else []
    file = PROGRAMS[name].__module__.rpartition(".")[2]
    slow = name in SLOW or (file in LONGER and name not in QUICK)
    return pytest.param(name, marks=[*marks, pytest.mark.slow] if slow else marks)


@pytest.mark.parametrize("name", [_marked(name) for name in PROGRAMS])
def test_programs_give_what_paddle_gives(name: str) -> None:
    found, _ = recording.run(fluid, PROGRAMS[name])
    recorded = {int(key.rpartition("/")[2]): array for key, array in RECORDED.items() if key.rpartition("/")[0] == name}
    assert len(found) == len(recorded) > 0
    for i, array in enumerate(found):
        assert array.shape == recorded[i].shape and array.dtype == recorded[i].dtype, i
        np.testing.assert_allclose(array, recorded[i], rtol=1e-5, atol=1e-5, equal_nan=False, err_msg=f"value {i}")


# --- Paddle itself

# Whose bytes 1.8.5 does not run yet as it should, and why.
CRASHES = {"attention_over_sequences": "1.8.5 ends with a segmentation fault"}
NOT_THERE = {
    "decoder_over_words": "a DynamicRNN is one operator, which 1.8.5 does not have",
    "gradient_through_a_while": "the backward block of a loop is not written",
    "cond_of_functions": "gradients of a branch by functions are not written",
    **dict.fromkeys(("rows_by_if_else", "second_gradients"), "a gradient operator that 1.8.5 does not have"),
    **dict.fromkeys(
        ("recurrent_by_static_rnn", "gated_unit_by_static_rnn", "language_model_by_static_rnn", "pairs_in_order"),
        "gradients of a recurrent net",
    ),
}
# Whose bytes of 1.8.5 are not run yet as they should, and why.
NOT_HERE = {
    "decoder_over_words": "sequences of an array that a loop wrote",
    "rows_by_if_else": "gradients of rows that go two ways",
    "second_gradients": "gradients of gradients",
}


@pytest.mark.peer
def test_programs_are_exchanged_as_bytes(tmp_path: Path) -> None:
    """`POLYREME_PADDLE_185_PYTHON` names a Python that has it."""
    python = os.environ.get("POLYREME_PADDLE_185_PYTHON")
    if not python:
        pytest.skip("no Python with Paddle 1.8.5 is named")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = {name: recording.run(fluid, function)[1] for name, function in PROGRAMS.items() if name not in MISSING | CRASHES}
    written = {name: found for name, found in calls.items() if all(isinstance(call["bytes"], bytes) for call in found)}
    ours, theirs = tmp_path / "ours.npz", tmp_path / "theirs.npz"
    recording.write_calls(ours, written)
    script = ROOT / "tests" / "fixtures" / "make_fluid_programs.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([python, str(script), str(ours), str(theirs)], check=True, capture_output=True, env=environment)
    there = {name for name in calls if name not in written}
    there |= {name for name, why in json.loads(Path(f"{theirs}.json").read_text()).items() if why}
    here = {name for name, found in recording.read_calls(theirs).items() if recording.repeat(fluid, found)}
    assert (there, here) == (set(NOT_THERE), set(NOT_HERE))
