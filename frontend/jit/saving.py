"""`jit.save` and `jit.load`: a traced function and its tensors in one file, as data only.

`PREFIX.polyreme` is a zip archive, written whole or not at all: `module.tir` is the `nn` module as text, `tensors/0.npy` … hold what the function
reads besides its inputs, and `manifest.json` says how these meet. Reading runs nothing from the file, and checks all of it (the archive
has a checksum of every part; the module is parsed, verified and compared with the tensors).
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme import dispatch, loaders
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.dims import Dim, Expr, substitute, told
from polyreme.ir.types import SCALARS, TensorType
from polyreme.ir.verify import verify
from polyreme.jit.program import Program
from polyreme.jit.static_function import StaticFunction
from polyreme.jit.structure import LEAF, Nested, Plain, Template, flatten, is_tensor, unflatten
from polyreme.jit.trace import Traced
from polyreme.nn.layer import Layer
from polyreme.serialization import destination
from polyreme.tensor import Parameter, Tensor

__all__ = ["SUFFIX", "ModelFileError", "TranslatedLayer", "load", "read_model", "save", "trace_model"]

SUFFIX = ".polyreme"
FORMAT = 1


class ModelFileError(PolyremeError, ValueError):
    """A file that is no saved model, or a damaged one."""

    code = "E0706"


# --- writing


def trace_model(model: Any, input_spec: Sequence[Any] | None = None) -> Traced:
    """The program of a Layer or function as it is when nothing is trained: a Layer is traced in evaluation mode, then put back.

    A loaded model is its program already, unless other inputs are asked for.
    """
    if isinstance(model, TranslatedLayer) and input_spec is None:
        return model.traced
    if isinstance(model, Layer):
        function = model.forward if isinstance(model.forward, StaticFunction) else StaticFunction(model.forward, None, model)
        if input_spec is None and function.input_spec is None:
            input_spec = getattr(model, "input_spec", None)
    else:
        function = model if isinstance(model, StaticFunction) else StaticFunction(model)
    layer = function.layer
    if layer is None:
        return function.trace(input_spec)
    modes = [(part, part.training) for part in layer.sublayers(include_self=True)]
    try:
        layer.eval()
        return function.trace(input_spec)
    finally:
        for part, mode in modes:
            part.training = mode


def save(layer: Any, path: str | os.PathLike[str], input_spec: Sequence[Any] | None = None, **configs: Any) -> None:
    """Write a Layer or function, traced for `input_spec`, as `PATH.polyreme`, for `load` and the command line.

    Without `input_spec` the one given to `to_static` is used. Layers are saved in evaluation mode.
    """
    known = {"combine_params", "clip_extra", "output_spec", "skip_forward", "with_hook"}
    if set(configs) - known:
        raise ValueError(f"expected the options {', '.join(sorted(known))} but got '{min(set(configs) - known)}'")
    traced = trace_model(layer, input_spec)
    if not os.path.basename(os.fspath(path)):
        raise ValueError(f"expected a path of the form folder/name but got {os.fspath(path)!r}")
    write_model(traced, model_file(path))


def write_model(traced: Traced, file: Path) -> None:
    from polyreme.ir.text import print_module

    tensors = traced.captured
    numbers = {id(tensor): i for i, tensor in enumerate(tensors)}
    manifest = {
        "format": FORMAT,
        "name": traced.func.sym_name,
        "sources": [s if isinstance(s, int) else {"tensor": numbers[id(s)]} for s in traced.sources],
        "written": [numbers[id(t)] for t in traced.written if id(t) in numbers],
        "outputs": _template_to_json(traced.outputs),
        "tensors": [
            {"name": name, "dtype": t.type.dtype.name, "parameter": isinstance(t, Parameter), "trainable": not t.stop_gradient}
            for name, t in zip(_captured_names(traced), tensors, strict=True)
        ],
    }
    with destination(file) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_part("manifest.json"), json.dumps(manifest, indent=1).encode())
        archive.writestr(_part("module.tir"), print_module(traced.module()).encode())
        for i, tensor in enumerate(tensors):
            array = tensor._value
            with archive.open(_part(f"tensors/{i}.npy"), "w", force_zip64=array.nbytes >= 1 << 31) as part:
                np.lib.format.write_array(part, array.view(np.uint16) if array.dtype.name == "bfloat16" else array, allow_pickle=False)


def _part(name: str) -> zipfile.ZipInfo:
    # A fixed date: equal models give equal files.
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _captured_names(traced: Traced) -> list[str]:
    return [name for name, source in zip(traced.func.arg_names, traced.sources, strict=True) if isinstance(source, Tensor)]


def model_file(path: str | os.PathLike[str]) -> Path:
    """The file meant by a prefix or the file's own name."""
    text = os.fspath(path)
    return Path(text if text.endswith(SUFFIX) else text + SUFFIX)


_KINDS: dict[str, type] = {"list": list, "tuple": tuple, "dict": dict}


def _template_to_json(template: Template) -> Any:
    if template is LEAF:
        return "tensor"
    if isinstance(template, Plain):
        if not isinstance(template.value, (bool, int, float, str, type(None))):
            raise ValueError(f"expected tensors, numbers and text in what the function returns but got {template.value!r}")
        return {"value": template.value}
    kind = next(name for name, cls in _KINDS.items() if issubclass(template.kind, cls))
    return {"kind": kind, "keys": list(template.keys), "parts": [_template_to_json(p) for p in template.parts]}


# --- reading


def read_model(path: str | os.PathLike[str]) -> Traced:
    """The program in a file. A missing file is a `FileNotFoundError`, a damaged or foreign one a `ModelFileError` that says what is wrong."""
    file = model_file(path)
    if not file.is_file():
        raise FileNotFoundError(f"expected a model saved by jit.save but there is no file {file}")
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(archive, str(file))
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"expected a model saved by jit.save but {file} is damaged or something else: {error}", caller_location()) from None
    except (KeyError, IndexError, TypeError, ValueError, EOFError, RecursionError) as error:
        if isinstance(error, PolyremeError):
            raise
        raise ModelFileError(f"expected a whole model but {file} has a wrong or missing part: {error}", caller_location()) from None


def _read(archive: zipfile.ZipFile, file: str) -> Traced:
    from polyreme.ir.text import parse_module

    manifest = json.loads(archive.read("manifest.json"))
    if manifest["format"] != FORMAT:
        raise ModelFileError(f"expected a model of format {FORMAT} but {file} has format {manifest['format']}: save it again")
    module = parse_module(archive.read("module.tir").decode(), f"{file}:module.tir")
    verify(module)
    func = module.function()
    func.detach()
    func.attributes["sym_name"] = str(manifest["name"])
    tensors = [_read_tensor(archive, i, entry) for i, entry in enumerate(manifest["tensors"])]
    sources: list[int | Tensor] = [s if isinstance(s, int) else tensors[s["tensor"]] for s in manifest["sources"]]
    _check_arguments(func, sources, file)
    inputs = [arg.type for arg, source in zip(func.args, sources, strict=True) if isinstance(source, int)]
    outputs = _template_from_json(manifest["outputs"])
    leaves: list[Any] = []
    count = len(func.block.terminator.operands) - len(manifest["written"])
    flatten(unflatten(outputs, iter([_Marker] * count)), leaves, lambda v: v is _Marker)
    if len(leaves) != count:
        raise ModelFileError(f"expected {count} outputs in {file} but its manifest names {len(leaves)}")
    return Traced(func, inputs, sources, outputs, count, [tensors[i] for i in manifest["written"]])


_Marker = object()


def _read_tensor(archive: zipfile.ZipFile, number: int, entry: dict[str, Any]) -> Tensor:
    with archive.open(f"tensors/{number}.npy") as part:
        # Piece by piece into the array: weights are never in memory twice.
        array = np.lib.format.read_array(part, allow_pickle=False)
        # The checksum is looked at when the part ends.
        if part.read(1):
            raise ModelFileError(f"expected one array for '{entry['name']}' but the file goes on behind it")
    dtype = SCALARS[entry["dtype"]].np
    array = array.view(dtype) if dtype.name == "bfloat16" else array
    if array.dtype != dtype:
        raise ModelFileError(f"expected {dtype} for '{entry['name']}' but the file has {array.dtype}")
    tensor: Tensor
    if entry["parameter"]:
        tensor = Parameter(Tensor._wrap(array), trainable=bool(entry["trainable"]))
    else:
        tensor = Tensor._wrap(array)
        tensor.stop_gradient = not entry["trainable"]
    tensor.name = str(entry["name"])
    return tensor


def _check_arguments(func: Func, sources: Sequence[int | Tensor], file: str) -> None:
    if len(sources) != len(func.args) or [s for s in sources if isinstance(s, int)] != list(range(sum(isinstance(s, int) for s in sources))):
        raise ModelFileError(f"expected a source for each of the {len(func.args)} arguments in {file}")
    for arg, source in zip(func.args, sources, strict=True):
        if isinstance(source, Tensor) and source.type != arg.type:
            raise ModelFileError(f"expected a tensor of type {arg.type} for '{source.name}' in {file} but got {source.type}")


def _template_from_json(data: Any) -> Template:
    if data == "tensor":
        return LEAF
    if "value" in data:
        return Plain(data["value"])
    return Nested(_KINDS[data["kind"]], tuple(data["keys"]), tuple(map(_template_from_json, data["parts"])))


def replay(traced: Traced, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a program, its ops applied one after the other through dispatch: so a program becomes part of one being traced."""
    block = traced.func.block
    values: dict[Value, Tensor] = {}
    sizes: dict[str, Dim] = {}
    for arg, source in zip(block.args, traced.sources, strict=True):
        values[arg] = inputs[source] if isinstance(source, int) else source
        # Sizes that the program leaves open are those of the inputs it meets here.
        given = values[arg].type.shape
        sizes |= dict(found for d, n in zip(arg.type.shape, given, strict=False) if (found := told(d, n)) is not None)
    for op in block.ops[:-1]:
        operands = op.definition.split([values[v] for v in op.operands], op.segments)
        results = dispatch.call(type(op), *operands, **{name: _with_sizes(a, sizes) for name, a in op.attributes.items()})
        values.update(zip(op.results, results if isinstance(results, tuple) else (results,), strict=True))
    results = [values[v] for v in block.terminator.operands]
    for tensor, value in zip(traced.written, results[traced.output_count :], strict=True):
        dispatch.assign(tensor, value)
    return results[: traced.output_count]


def _with_sizes(attribute: Any, sizes: dict[str, Dim]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_with_sizes(a, sizes) for a in attribute)
    return substitute(attribute, sizes) if isinstance(attribute, Expr) else attribute


class TranslatedLayer(Layer):
    """A loaded model: called with its inputs, trainable again, its parameters under the names they had."""

    def __init__(self, traced: Traced):
        super().__init__()
        self.traced = traced
        self._program = Program(traced, str(traced.func.sym_name))
        for name, tensor in zip(_captured_names(traced), traced.captured, strict=True):
            # Straight into the tables: the names have dots, and there are no sublayers to hold the parts.
            (self._parameters if isinstance(tensor, Parameter) else self._buffers)[name] = tensor

    @property
    def input_spec(self) -> list[TensorType]:
        """The types of the inputs."""
        return self.traced.inputs

    def forward(self, *inputs: Any) -> Any:
        leaves: list[Any] = []
        flatten(inputs, leaves, is_tensor)
        if len(leaves) != len(self.traced.inputs):
            raise TypeError(f"expected {len(self.traced.inputs)} input tensors for the loaded model but got {len(leaves)}")
        tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]
        if dispatch.active_trace() is not None:
            return unflatten(self.traced.outputs, iter(replay(self.traced, tensors)))
        if not self._program.holds():
            # Parameters were frozen or thawed since: the same function, differentiated anew.
            self._program = Program(self.traced, self._program.name)
        return unflatten(self.traced.outputs, iter(self._program(tensors)))

    def program(self, method_name: str = "forward") -> str:
        """The text of the program at the `nn` level."""
        from polyreme.ir.text import print_module

        if method_name != "forward":
            raise ValueError(f"expected 'forward', the only method that is saved, but got {method_name!r}")
        return print_module(self.traced.module())


def load(path: str | os.PathLike[str], **configs: Any) -> TranslatedLayer:
    """The model that `save` wrote under this prefix, or that Paddle's own did (`.json` or `.pdmodel`, with `.pdiparams`).

    A model of Paddle's whose parameters stand elsewhere takes `params_filename`. See `read_model` and `loaders.read_model` for errors.
    """
    parameters = configs.pop("params_filename", None)
    if configs:
        raise ValueError(f"expected no further options but 'params_filename' but got '{min(configs)}'")
    if not model_file(path).is_file():
        if loaders.find_program(path) is None:
            text = os.fspath(path).removesuffix(SUFFIX)
            raise FileNotFoundError(f"expected a saved model but there is no file {text}{SUFFIX}, {text}.json or {text}.pdmodel")
        return TranslatedLayer(loaders.read_model(path, parameters))
    return TranslatedLayer(read_model(path))
