"""Saving and loading what programs have: values of persistable variables, and programs made ready for inference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyreme import dispatch, loaders, tape
from polyreme.ir.builtin import Func
from polyreme.jit.capture.replay import replay
from polyreme.jit.reading import read_model
from polyreme.jit.saved_files import model_file
from polyreme.jit.saving import write_model
from polyreme.jit.structure import flatten
from polyreme.jit.traced import Traced
from polyreme.parameter import Parameter as EagerParameter
from polyreme.serialization import load as load_file
from polyreme.serialization import save as save_file
from polyreme.static.current import data, default_main_program, program_guard
from polyreme.static.operator import RunError
from polyreme.static.plan import make_plan
from polyreme.static.program import Program
from polyreme.static.recorder import RECORDER
from polyreme.static.scope import global_scope
from polyreme.static.variable import Parameter, Variable, VariableError, named_variable
from polyreme.tensor import Tensor

__all__ = ["load", "load_inference_model", "load_program_state", "normalize_program", "save", "save_inference_model", "set_program_state"]


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Write the values that the program's persistable variables have in the global scope: parameters to `MODEL_PATH.pdparams`, all others
    to `MODEL_PATH.pdopt`.
    """
    if not os.path.basename(model_path):
        raise ValueError(f"expected a path of the form folder/name but got {model_path!r}")
    save_file(program.state_dict("param"), model_path + ".pdparams", protocol=protocol)
    save_file(program.state_dict("opt"), model_path + ".pdopt", protocol=protocol)


def load(program: Program, model_path: str, executor: Any = None, var_list: Sequence[Variable] | None = None) -> None:
    """Give the program's persistable variables (or those in `var_list`) the values that `save` wrote. A parameter that the file lacks is a
    `VariableError`.
    """
    state = load_program_state(model_path)
    wanted = [v for v in program.list_vars() if v.persistable] if var_list is None else list(var_list)
    for variable in wanted:
        if variable.name in state:
            variable.set_value(state[variable.name])
        elif isinstance(variable, Parameter) or var_list is not None:
            raise VariableError(
                f"expected '{variable.name}' in {_prefix(model_path)}.pdparams but it is not there", variable.location, code="E0604"
            )


def load_program_state(model_path: str, var_list: Sequence[Variable] | None = None) -> dict[str, Any]:
    """The arrays that `save` wrote, by name."""
    prefix = _prefix(model_path)
    state: dict[str, Any] = dict(load_file(prefix + ".pdparams", return_numpy=True))
    if Path(prefix + ".pdopt").is_file():
        state |= load_file(prefix + ".pdopt", return_numpy=True)
    return state if var_list is None else {v.name: state[v.name] for v in var_list if v.name in state}


def _prefix(path: str) -> str:
    for suffix in (".pdparams", ".pdopt", ".pdmodel"):
        path = path.removesuffix(suffix)
    return path


def set_program_state(program: Program, state_dict: dict[str, Any]) -> None:
    """Give the program's persistable variables the arrays in `state_dict`."""
    program.set_state_dict(state_dict)


def normalize_program(program: Program, feed_vars: Any, fetch_vars: Any, **kwargs: Any) -> Program:
    """A copy for inference: dropout and the like switched off, and only what the fetched variables need of the fed ones."""
    feeds, fetches = _variables(feed_vars, "feed_vars"), _variables(fetch_vars, "fetch_vars")
    pruned = program.clone(for_test=True)._prune_with_input([v.name for v in feeds], [v.name for v in fetches])
    for variable in feeds:
        if not pruned.global_block().has_var(variable.name):
            pruned.global_block().clone_variable(variable, force_persistable=False)
    return pruned


def _variables(given: Any, what: str) -> list[Variable]:
    found = []
    for item in given if isinstance(given, (list, tuple)) else [given]:
        variable = named_variable(item)
        if variable is None:
            raise TypeError(f"expected variables in {what} but got {type(item).__name__}")
        found.append(variable)
    return found


def save_inference_model(path_prefix: str, feed_vars: Any, fetch_vars: Any, executor: Any, **kwargs: Any) -> None:
    """Write the program from `feed_vars` to `fetch_vars`, with its parameters' values in the global scope, as `PATH_PREFIX.polyreme`.

    `paddle.jit.load` and the command line read it, too. `program` (a keyword) is the default main program unless given.
    """
    program = kwargs.pop("program", None) or default_main_program()
    feeds, fetches = _variables(feed_vars, "feed_vars"), _variables(fetch_vars, "fetch_vars")
    normal = normalize_program(program, feeds, fetches)
    with dispatch.trace_into(None):  # the tensors that are written are eager ones
        write_model(_traced(normal, feeds, fetches), model_file(path_prefix))


def _traced(program: Program, feeds: Sequence[Variable], fetches: Sequence[Variable]) -> Traced:
    """The program as one function of the fed variables; persistable ones become its tensors."""
    plan = make_plan(program, {v.name: v.type for v in feeds}, [v.name for v in fetches])
    if plan.module is None or plan.functions or plan.updates or plan.tensor_updates:
        raise RunError(
            "expected a program without host operators, and without state that changes, to save for inference; prune it first", code="E0607"
        )
    func: Func = plan.module.function()
    func.detach()
    place = {v.name: i for i, v in enumerate(feeds)}
    sources: list[int | Tensor] = []
    for source in map(plan.sources.__getitem__, plan.arguments):
        sources.append(
            place[source.name] if source.kind == "feed" else source.payload if source.kind == "tensor" else _value(source.payload)
        )
    used = {s for s in sources if isinstance(s, int)}
    unused = [v.name for v in feeds if place[v.name] not in used]
    if unused:
        raise VariableError(f"expected the fetched variables to depend on every fed one but they do not on '{unused[0]}'", code="E0607")
    _reorder(func, sources)
    leaves: list[Any] = []
    template = flatten([0.0] * len(fetches), leaves, lambda v: isinstance(v, float))
    order = [plan.results.index(key) for key in plan.fetches]
    terminator = func.block.terminator
    terminator.set_operands([terminator.operands[i] for i in order], (len(order),))
    func.attributes["result_names"] = tuple(v.name for v in fetches)
    func.attributes["sym_name"] = "program"
    func.finish()
    return Traced(func, [v.type for v in feeds], sources, template, len(fetches), [])


def _reorder(func: Func, sources: list[int | Tensor]) -> None:
    """Inputs first, in their order, then the tensors."""
    order = sorted(range(len(sources)), key=lambda i: (0, s) if isinstance(s := sources[i], int) else (1, i))
    func.block.args = [func.block.args[i] for i in order]
    for i, arg in enumerate(func.block.args):
        arg.index = i
    for key in ("arg_names", "arg_roles"):
        func.attributes[key] = tuple(func.attributes[key][i] for i in order)
    sources[:] = [sources[i] for i in order]


def _value(variable: Variable) -> Tensor:
    found = global_scope().find_var(variable.name)
    if found is None or found.array is None:
        raise RunError(
            f"expected a value of '{variable.name}' in the scope to save but it has none; run the startup program first",
            variable.location,
            code="E0604",
        )
    tensor: Tensor = (
        EagerParameter(found.array, trainable=variable.trainable) if isinstance(variable, Parameter) else Tensor._wrap(found.array)
    )
    tensor.name = variable.name
    return tensor


def load_inference_model(path_prefix: str, executor: Any = None, **kwargs: Any) -> list[Any]:
    """What `save_inference_model` (or `jit.save`) wrote, or Paddle's own: [program, names to feed, variables to fetch]. Parameters go to
    the global scope.
    """
    with dispatch.trace_into(None):
        foreign = None if model_file(path_prefix).is_file() else loaders.find_program(path_prefix)
        traced = read_model(path_prefix) if foreign is None else loaders.read_model(path_prefix, kwargs.get("params_filename"))
    program = Program()
    names = [name for name, source in zip(traced.func.arg_names, traced.sources, strict=True) if isinstance(source, int)]
    with program_guard(program, Program()), dispatch.trace_into(RECORDER), tape.recording(True):
        inputs = [data(name, list(kind.shape), kind.dtype) for name, kind in zip(names, traced.inputs, strict=True)]
        fetches = replay(traced, inputs)
    for name, tensor in program.captured.items():
        global_scope().var(name).array = tensor._value
    program.captured.clear()
    return [program, names, fetches]
