"""`save_inference_model` and `load_inference_model`: programs made ready for inference, in Paddle's own files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyreme import dispatch, loaders, tape
from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import caller_location
from polyreme.jit.capture.replay import replay
from polyreme.jit.reading import read_model
from polyreme.jit.saved_files import SUFFIX, model_file
from polyreme.jit.saving import write_model
from polyreme.jit.structure import flatten
from polyreme.jit.traced import Traced
from polyreme.loaders.pdmodel import read_parameter_in
from polyreme.parameter import Parameter as EagerParameter
from polyreme.serialization import destination
from polyreme.static.api.bytes import check_fits, deserialize_persistables, persistable_variables, stored_value, values_as_bytes
from polyreme.static.current import data, default_main_program, program_guard
from polyreme.static.desc.inference import inference_bytes, inference_program
from polyreme.static.io import normalize_program, variables_in
from polyreme.static.kinds import Host
from polyreme.static.operator import RunError
from polyreme.static.plan import make_plan
from polyreme.static.program import Program
from polyreme.static.recorder import RECORDER
from polyreme.static.scope import global_scope
from polyreme.static.variable import Parameter, Variable, VariableError
from polyreme.tensor import Tensor

__all__ = ["load_inference_model", "save_inference_model"]

_MODEL, _VALUES = ".pdmodel", ".pdiparams"


def save_inference_model(path_prefix: str, feed_vars: Any, fetch_vars: Any, executor: Any, **kwargs: Any) -> None:
    """Write the program from `feed_vars` to `fetch_vars` as `PATH_PREFIX.pdmodel`, and the values that its persistable variables have in
    the global scope as `PATH_PREFIX.pdiparams`: Paddle's files, which its 2.6.2 runs, and `paddle.jit.load` and the command line here.

    `program` (a keyword) is the default main program unless given. A prefix that ends in `.polyreme` makes one file of ours, which holds
    what no operator of Paddle's says.
    """
    prefix = _prefix(path_prefix)
    program = kwargs.pop("program", None) or default_main_program()
    feeds, fetches = variables_in(feed_vars, "feed_vars"), variables_in(fetch_vars, "fetch_vars")
    normal = normalize_program(program, feeds, fetches)
    _check_runs_alone(normal, feeds, fetches)
    if prefix.endswith(SUFFIX):
        with dispatch.trace_into(None):  # the tensors that are written are eager ones
            write_model(_traced(normal, feeds, fetches), model_file(prefix))
        return
    model = inference_bytes(normal, [v.name for v in feeds], [v.name for v in fetches])
    values = values_as_bytes(normal)
    if values is not None:
        with destination(prefix + _VALUES) as stream:
            stream.write(values)
    with destination(prefix + _MODEL) as stream:
        stream.write(model)
    for other in (prefix + SUFFIX, prefix + ".json"):
        if os.path.exists(other):
            warnings.warn(
                f"'{prefix}{_MODEL}' is written, but whoever loads '{prefix}' gets the older '{other}'; remove that file, or give "
                f"the name with '{_MODEL}'",
                stacklevel=2,
            )


def _prefix(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"expected a path as path_prefix but got {type(path).__name__}")
    text = os.fspath(path)
    if not os.path.basename(text):
        raise ValueError(f"expected a path of the form folder/name but got {text!r}")
    return text


def _check_runs_alone(program: Program, feeds: Sequence[Variable], fetches: Sequence[Variable]) -> None:
    """That a program is a function of its feeds: each matters, and nothing of it runs in Python."""
    ops = [op for block in program.blocks for op in block.ops]
    host = next((op for op in ops if isinstance(op.kind, Host)), None)
    if host is not None:
        raise RunError(
            f"expected a program without host operators to save for inference but '{host.type}' runs in Python; prune it first",
            host.location,
            code="E0607",
        )
    read = {name for op in ops for name in op.input_arg_names} | {v.name for v in fetches}
    unused = next((v for v in feeds if v.name not in read), None)
    if unused is not None:
        raise VariableError(
            f"expected the fetched variables to depend on every fed one but they do not on '{unused.name}'", caller_location(), code="E0607"
        )


def _traced(program: Program, feeds: Sequence[Variable], fetches: Sequence[Variable]) -> Traced:
    """The program as one function of the fed variables; persistable ones become its tensors."""
    plan = make_plan(program, {v.name: v.type for v in feeds}, [v.name for v in fetches])
    if plan.module is None or plan.functions or plan.updates or plan.tensor_updates:
        raise RunError(f"expected a program without state that changes to save as '{SUFFIX}'; prune it first", code="E0607")
    func: Func = plan.module.function()
    func.detach()
    place = {v.name: i for i, v in enumerate(feeds)}
    sources: list[int | Tensor] = []
    for source in map(plan.sources.__getitem__, plan.arguments):
        sources.append(
            place[source.name] if source.kind == "feed" else source.payload if source.kind == "tensor" else _value(source.payload)
        )
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
    array = stored_value(variable)
    tensor: Tensor = EagerParameter(array, trainable=variable.trainable) if isinstance(variable, Parameter) else Tensor._wrap(array)
    tensor.name = variable.name
    return tensor


def load_inference_model(path_prefix: str | None, executor: Any = None, **kwargs: Any) -> list[Any]:
    """[program, names to feed, variables to fetch] of a model that `save_inference_model`, `jit.save` or Paddle wrote. The values of
    its persistable variables go to the global scope.

    With `model_filename` and `params_filename`, `path_prefix` is a folder, or None: then they are the contents of the files. A missing
    file is a `FileNotFoundError`, a damaged one a `LoaderError`.
    """
    model, values = kwargs.get("model_filename"), kwargs.get("params_filename")
    if path_prefix is None:
        if not isinstance(model, bytes) or not isinstance(values, bytes):
            raise ValueError("expected the contents of files as model_filename and params_filename where path_prefix is None")
        program, names, fetches = inference_program(model, "model_filename")
        deserialize_persistables(program, values, executor)
        return [program, names, fetches]
    if model is not None or values is not None:
        folder = Path(path_prefix)
        return _read_program(_file_in(folder, model or "__model__", _MODEL), None if values is None else _file_in(folder, values, _VALUES))
    found = None if model_file(path_prefix).is_file() else loaders.find_program(path_prefix)
    if found is None or found.suffix == ".json":
        return _replayed(path_prefix, found)
    if found.is_dir():
        params = found / "__params__"
        return _read_program(found / "__model__", params if params.is_file() else None)
    return _read_program(found, found.with_suffix(_VALUES))


def _file_in(folder: Path, name: str, suffix: str) -> Path:
    with_suffix = folder / (name + suffix)
    return with_suffix if with_suffix.is_file() else folder / name


def _read_program(model: Path, values: Path | None) -> list[Any]:
    """A program in Paddle's bytes, with the values of one file, or for None of a file each beside it."""
    if not model.is_file():
        raise FileNotFoundError(f"expected a model but there is no file {model}")
    program, names, fetches = inference_program(model.read_bytes(), str(model))
    variables = persistable_variables(program)
    if values is not None and variables:
        deserialize_persistables(program, values.read_bytes(), None)
    elif values is None:
        arrays = {v.name: read_parameter_in(model.parent, v.name) for v in variables}
        for variable in variables:
            check_fits(variable, arrays[variable.name])
        for name, array in arrays.items():
            global_scope().var(name).array = array
    return [program, names, fetches]


def _replayed(path_prefix: str, foreign: Path | None) -> list[Any]:
    """A model that is no program in Paddle's bytes: its function, recorded again."""
    with dispatch.trace_into(None):
        traced = read_model(path_prefix) if foreign is None else loaders.read_model(path_prefix)
    program = Program()
    names = [name for name, source in zip(traced.func.arg_names, traced.sources, strict=True) if isinstance(source, int)]
    with program_guard(program, Program()), dispatch.trace_into(RECORDER), tape.recording(True):
        inputs = [data(name, list(kind.shape), kind.dtype) for name, kind in zip(names, traced.inputs, strict=True)]
        fetches = replay(traced, inputs)
    for name, tensor in program.captured.items():
        global_scope().var(name).array = tensor._value
    program.captured.clear()
    return [program, names, fetches]
