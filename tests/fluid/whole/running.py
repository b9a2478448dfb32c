"""Runs programs of this folder under either `fluid`: `python -m tests.fluid.whole.running LIBRARY FILE.npz SIZE [PROGRAM …]`.

The fixture is made by a Python 3.8 with Paddle 1.8.5:

    PYTHONPATH=. python3.8 -m tests.fluid.whole.running paddle tests/fixtures/fluid_whole.npz small

Python 3.8 must be able to read the files of this folder, since no later one has Paddle 1.8.5.
"""

import importlib
import os
import resource
import sys
import time

import numpy as np

# By name, the module; the function has the same name.
DETECTORS = {"single_shot": "single_shot", "you_only_look_once": "you_only_look_once", "regions_by_pyramid": "regions"}
PROGRAMS = {
    **DETECTORS,
    **dict.fromkeys(
        (
            "sentiment_by_windows", "tags_by_field", "critic_and_generator", "words_by_their_context", "epochs_of_a_py_reader",
            "a_model_is_kept_and_served", "clicks_by_wide_and_deep", "a_language_model_in_pieces", "a_transformer_learns",
            "questions_and_answers",
        ),
        "users",
    ),
}  # fmt: skip


class Stopwatch:
    """Calls what it is given, and keeps the seconds of the processor that took, by name."""

    def __init__(self):
        self.taken = {}

    def __call__(self, name, call):
        begun = _processor()
        found = call()
        self.taken.setdefault(name, []).append(_processor() - begun)
        return found


def _processor():
    """Seconds of the processor, with those of processes that compiled."""
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def start(fluid, seed=3):
    """An executor, and parameters that both have: draws in the order of their names, as wide as keeps the values of deep nets."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    draws = np.random.RandomState(seed)
    for parameter in sorted(fluid.default_main_program().global_block().all_parameters(), key=lambda p: p.name):
        if not parameter.trainable:  # running means and variances
            continue
        tensor = fluid.global_scope().find_var(parameter.name).get_tensor()
        shape = np.array(tensor).shape
        most = 0.1 if len(shape) == 1 else (3 / (np.prod(shape[1:]) if len(shape) > 2 else shape[0])) ** 0.5
        middle = 1.0 if parameter.name.startswith("batch_norm") and parameter.name.endswith("w_0") else 0.0
        tensor.set((middle + draws.uniform(-most, most, shape)).astype("float32"), fluid.CPUPlace())
    return exe


def sequences(fluid, array, lengths):
    return fluid.create_lod_tensor(array, [lengths], fluid.CPUPlace())


def truth_in_corners(draws, count):
    """Boxes inside the unit square by their corners, [count, 4]."""
    low, extent = draws.uniform(0, 0.6, (count, 2)), draws.uniform(0.05, 0.4, (count, 2))
    return np.concatenate([low, low + extent], 1).astype("float32")


def run(fluid, name, size, watch=None):
    """The arrays that a program gives, in programs, names and a scope of its own."""
    function = getattr(importlib.import_module("tests.fluid.whole." + PROGRAMS[name]), name)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        return [np.array(m) for m in function(fluid, size, watch)]


def main(library, file, size, *names):
    fluid, found = importlib.import_module(library + ".fluid"), {}
    for name in names or PROGRAMS:
        watch, begun = Stopwatch(), time.perf_counter()
        found.update({f"{name}/{i}": array for i, array in enumerate(run(fluid, name, size, watch))})
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(library, name, size, "all", round(time.perf_counter() - begun, 2), "s, peak", peak, "MiB")
        for what, taken in watch.taken.items():
            print("   ", what, *(round(t, 3) for t in taken))
    np.savez_compressed(file, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
