"""Runs a program of this folder under either `fluid`, and notes what its executors were asked; it imports neither.

Python 3.8 must be able to read the files of this folder, since no later one has Paddle 1.8.5.
"""

import importlib
import json

import numpy as np

FILES = ("training", "networks", "control_flow", "sequences", "optimizing", "surgery", "running", "recurrent", "detectors")


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
    """Its bytes; of one that has none, what the error says."""
    try:
        return _bytes(program)
    except ValueError as error:
        return str(error)


def _bytes(program):
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


# --- calls in files, which both read


def write_calls(path, programs_and_calls):
    """The calls of programs by name, in one file."""
    arrays, index = {}, {}
    for name, calls in programs_and_calls.items():
        index[name] = []
        for call in calls:
            entry = {"fetch": call["fetch"], "lengths": {}}
            for part, items in _parts(call).items():
                entry[part] = {key: len(arrays) + i for i, key in enumerate(items)}
                arrays.update({str(entry[part][key]): array for key, array in items.items()})
            entry["lengths"] = {key: lengths for key, (_, lengths) in call["feed"].items()}
            index[name].append(entry)
    np.savez(str(path), index=np.frombuffer(json.dumps(index).encode(), np.uint8), **arrays)


def _parts(call):
    return {
        "bytes": {"": np.frombuffer(call["bytes"], np.uint8)},
        "state": call["state"],
        "feed": {key: array for key, (array, _) in call["feed"].items()},
        "results": {str(i): array for i, array in enumerate(call["results"])},
    }


def read_calls(path):
    """What `write_calls` wrote."""
    stored = np.load(str(path))
    found = {}
    for name, entries in json.loads(stored["index"].tobytes().decode()).items():
        found[name] = []
        for entry in entries:
            parts = {part: {key: stored[str(i)] for key, i in entry[part].items()} for part in ("bytes", "state", "feed", "results")}
            found[name].append(
                {
                    "bytes": parts["bytes"][""].tobytes(),
                    "state": parts["state"],
                    "feed": {key: (array, entry["lengths"][key]) for key, array in parts["feed"].items()},
                    "fetch": entry["fetch"],
                    "results": list(parts["results"].values()),
                }
            )
    return found


def repeat(fluid, calls):
    """Why these calls, by programs read from their bytes, do not give the results that they gave; None where they do."""
    try:
        for call, made in zip(calls, again(fluid, calls)):  # noqa: B905  # Python 3.8
            for name, got, wanted in zip(call["fetch"], made, call["results"]):  # noqa: B905
                if got.shape != wanted.shape or not np.allclose(got, wanted, rtol=1e-5, atol=1e-5, equal_nan=True):
                    return f"'{name}' is {got.reshape(-1)[:6]} for {wanted.reshape(-1)[:6]}"
    except Exception as error:
        return type(error).__name__ + ": " + str(error)[-1500:]
    return None
