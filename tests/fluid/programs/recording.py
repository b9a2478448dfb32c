"""Runs a program of this folder under either `fluid`, and notes what its executors were asked: for both Pythons, so that it imports neither.

Python 3.8 must be able to read the files of this folder, since no later one has Paddle 1.8.5.
"""

import importlib

import numpy as np

FILES = ("training", "networks", "control_flow", "sequences", "optimizing", "surgery", "running")


def programs():
    """Every program by its name: a function that is given `fluid` and returns a list of arrays."""
    found = {}
    for file in FILES:
        module = importlib.import_module("tests.fluid.programs." + file)
        for name, function in vars(module).items():
            if callable(function) and not name.startswith("_") and function.__module__ == module.__name__:
                found[name] = function
    return found


def set_weights(fluid, program, low=-0.5, high=0.5, seed=3):
    """Give the parameters of a program numbers that both have: drawn in the order of their names."""
    draws = np.random.RandomState(seed)
    for parameter in sorted(program.global_block().all_parameters(), key=lambda p: p.name):
        if parameter.name.startswith("batch_norm") and not parameter.trainable:  # running means and variances stay at 0 and 1
            continue
        tensor = fluid.global_scope().find_var(parameter.name).get_tensor()
        tensor.set(draws.uniform(low, high, np.array(tensor).shape).astype(np.array(tensor).dtype), fluid.CPUPlace())


def run(fluid, function):
    """The arrays that a program returns, and the calls of its executors: dictionaries of bytes, state, feed, fetches and results."""
    calls = []
    kept = fluid.Executor.run

    def noted(self, program=None, feed=None, fetch_list=None, *rest, **keywords):
        asked = program if program is not None else fluid.default_main_program()
        if not fetch_list or not isinstance(asked, fluid.Program):
            return kept(self, program, feed, fetch_list, *rest, **keywords)
        state = _state(fluid, asked, keywords.get("scope") or fluid.global_scope())
        data = _serialized(asked)
        made = kept(self, program, feed, fetch_list, *rest, **keywords)
        names = [f if isinstance(f, str) else f.name for f in fetch_list]
        calls.append({"bytes": data, "state": state, "feed": _plain_feed(feed), "fetch": names, "results": [np.array(m) for m in made]})
        return made

    fluid.Executor.run = noted
    try:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            made = [np.array(m) for m in function(fluid)]
    finally:
        fluid.Executor.run = kept
    return made, calls


def again(fluid, calls):
    """The results of these calls by programs read from their bytes, each with the state that it had."""
    read, found = {}, []
    for call in calls:
        program = read.get(call["bytes"])
        if program is None:
            program = read[call["bytes"]] = fluid.Program.parse_from_string(call["bytes"])
        with fluid.scope_guard(fluid.Scope()):
            place = fluid.CPUPlace()
            for name, array in call["state"].items():
                fluid.global_scope().var(name).get_tensor().set(array, place)
            feed = {}
            for name, (array, lengths) in call["feed"].items():
                feed[name] = fluid.create_lod_tensor(array, lengths, place) if lengths else array
            made = fluid.Executor(place).run(program, feed=feed, fetch_list=call["fetch"], return_numpy=False)
            found.append([np.array(m) for m in made])
    return found


def _serialized(program):
    return program.serialize_to_string() if hasattr(program, "serialize_to_string") else program.desc.serialize_to_string()


def _state(fluid, program, scope):
    found = {}
    for variable in program.list_vars():
        held = scope.find_var(variable.name) if variable.persistable and variable.name not in ("feed", "fetch") else None
        if held is not None:
            tensor = held.get_tensor()
            if tensor._is_initialized():
                found[variable.name] = np.array(tensor)
    return found


def _plain_feed(feed):
    found = {}
    for name, value in (feed or {}).items():
        lengths = value.recursive_sequence_lengths() if hasattr(value, "recursive_sequence_lengths") else []
        found[name] = (np.array(value), lengths)
    return found
