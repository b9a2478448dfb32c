"""`jit.load`: a saved model as a Layer, of which only that is read which is needed.

What was compiled for a model's files is found by a digest of them. Then neither its program nor its weights are read before somebody trains
it, looks at its weights or its text, or makes it part of another program. The code that is found has the weights in it as kernels want
them, where they are mapped on disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from polyreme import loaders, tape
from polyreme.compiled.kept import package_version
from polyreme.from_data import is_traced, to_tensor
from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.dims import parse_dim
from polyreme.ir.python.garbage import without_collections
from polyreme.ir.types import SCALARS, TensorType
from polyreme.jit.program import FixedWeights, PresentWeights, TracedProgram, WeightsInCode
from polyreme.jit.saved_files import SUFFIX, model_file
from polyreme.jit.structure import flatten, is_tensor, template_from_json, template_to_json, unflatten
from polyreme.jit.traced import Traced
from polyreme.jit.unread import SavedWeights, WeightSpec
from polyreme.nn.layer import Layer
from polyreme.parameter import Parameter
from polyreme.runtime.cache import Cache, cache_in, digest_of
from polyreme.runtime.errors import CallError, ContentError
from polyreme.runtime.file_digest import digest_of_files, stamp_of
from polyreme.tensor import Tensor

__all__ = ["TranslatedLayer", "load"]

def load(path: str | os.PathLike[str], **configs: Any) -> TranslatedLayer:
    """The model that `save` wrote under this prefix, or that Paddle's own did (`.json` or `.pdmodel`, with `.pdiparams`), in evaluation
    mode.

    A model of Paddle's whose parameters stand elsewhere takes `params_filename`. See `reading.read_model` and `loaders.read_model` for
    errors. A model that was run before is known by its files' digests, and is read when more is asked of it than to run: what has changed
    by then is a `ModelFileError`.
    """
    parameters = configs.pop("params_filename", None)
    if configs:
        raise ValueError(f"expected no further options but 'params_filename' but got '{min(configs)}'")
    file = model_file(path)
    if file.is_file():

        def read_own(mapped: bool) -> Traced:
            from polyreme.jit.reading import read_model

            return read_model(path, mapped)

        return _loaded([file], _undisturbed(read_own))
    program = loaders.find_program(path)
    if program is None:
        text = os.fspath(path).removesuffix(SUFFIX)
        raise FileNotFoundError(f"expected a saved model but there is no file {text}{SUFFIX}, {text}.json or {text}.pdmodel")
    files = loaders.files_of(program, parameters)
    layer = _loaded(files, _undisturbed(lambda mapped: loaders.read_model(path, parameters, mapped=mapped)))
    layer.read_for = lambda specs: _undisturbed(lambda mapped: loaders.read_model(path, parameters, specs, mapped))(False)
    return layer


# So many bytes of weights are as good a reason as an op for compiling in another process, whose memory goes with it.
BYTES_OF_AN_OP = 1 << 20
# Programs for sizes that the one for free sizes does not take, per model.
MOST_SIZES = 64
# The whole model, its weights where they lie in the file or in memory of their own.
Read = Callable[[bool], Traced]


def _undisturbed(read: Read) -> Read:
    """Reading as it is outside of traces and of `no_grad`: it may happen late, and a program is the same wherever it is read."""

    def work(mapped: bool) -> Traced:
        from polyreme import dispatch

        with dispatch.trace_into(None), tape.recording(True), without_collections():
            return read(mapped)

    return work


def _loaded(files: Sequence[Path], read: Read) -> TranslatedLayer:
    cache = cache_in(config.cache_folder(), config.cache_limit())
    if cache.folder is None or config.is_watched() or not files:
        # Nothing is known of earlier times; and whoever watches wants to see the whole way.
        return _in_memory(read(False))
    model = SavedModel(files, read, cache)
    traced = model.known()
    if traced is None:
        traced = model.introduce(model.read(mapped=True))
        if traced is None:
            return _in_memory(model.read(mapped=False))
    return TranslatedLayer(traced, model.fixed(traced))


def _in_memory(traced: Traced) -> TranslatedLayer:
    """A model that was read whole. Its weights are in its code where that is cut at what the host runs, since nothing is prepared in such
    code.
    """
    return TranslatedLayer(traced, PresentWeights(traced) if _is_cut(traced) and not traced.written else None)


def _generator_state() -> Tensor:
    from polyreme.random import default_generator

    return default_generator().state


def _is_cut(traced: Traced) -> bool:
    """Whether the host runs something within the program."""
    from polyreme.lowering.schedule.regions import has_host_ops

    return has_host_ops(traced.func)


class SavedModel:
    """The files of a model, and what is kept of them: `identity` tells their contents from any others."""

    def __init__(self, files: Sequence[Path], read: Read, cache: Cache):
        self.files = files
        self.cache = cache
        self._read = read
        self._stamps = list(map(stamp_of, files))
        self.identity = digest_of("saved model", *(file.suffix for file in files), digest_of_files(files, cache), package_version())

    def read(self, mapped: bool) -> Traced:
        """The whole model. A `ModelFileError` when it is not what it was when this was made; whoever uses `mapped` weights asks again when
        they were used.
        """
        try:
            traced = self._read(mapped)
        except FileNotFoundError:
            self.check_unchanged()
            raise
        self.check_unchanged()
        return traced

    def check_unchanged(self) -> None:
        """A `ModelFileError` when the files are not what they were when this was made."""
        if not self._is_unchanged():
            from polyreme.jit.reading import ModelFileError

            names = ", ".join(map(str, self.files))
            raise ModelFileError(
                f"expected the model as it was when it was loaded but {names} changed since: load it again", caller_location()
            )

    def _is_unchanged(self) -> bool:
        try:
            return list(map(stamp_of, self.files)) == self._stamps
        except FileNotFoundError:
            return False

    def known(self) -> SavedProgram | None:
        """The model, of which nothing is read, if it was read before."""
        told = self.cache.get(self._key)
        return None if told is None else SavedProgram(json.loads(told), self)

    def introduce(self, traced: Traced) -> SavedProgram | None:
        """The model that was just read and found to be whole, so that it is known from now on. None for one that changes tensors, or is cut
        at what the host runs, which has to be read each time.
        """
        if traced.written or _is_cut(traced):
            return None
        description = _description(traced)
        self.cache.put(self._key, json.dumps(description).encode())
        made = SavedProgram(description, self, [tensor._value for tensor in traced.captured])
        made.func = traced.func
        return made

    def fixed(self, traced: SavedProgram) -> FixedWeights | None:
        """The code for the weights in the files. None if the cache is too small for weights like these: then code that takes them as
        arguments is kept.
        """
        count = sum(tensor.nbytes for tensor in traced.weights.tensors)
        if count > self.cache.limit:
            return None
        return FixedWeights(self.identity, traced, traced.weights, traced.ops + count // BYTES_OF_AN_OP, self.check_unchanged)

    @property
    def _key(self) -> str:
        return digest_of("description", self.identity)


class SavedProgram(Traced):
    """The program of a saved model, read when it is looked at. Until then its inputs, outputs and the names and types of its weights are
    known.
    """

    def __init__(self, description: dict[str, Any], model: SavedModel, arrays: Sequence[Any] | None = None):
        """`description` is what `_description` told of the program; `arrays` are its weights where they lie in the file, if it was just
        read.
        """
        specs = [
            WeightSpec(t["name"], _type(t["type"]), t["parameter"], t["trainable"], t["persistable"]) for t in description["tensors"]
        ]
        self.weights = SavedWeights(specs, self._read_weights, arrays)
        self.name: str = description["name"]
        self.names: list[str] = description["names"]
        self.ops: int = description["ops"]
        self.inputs = [_type(type) for type in description["inputs"]]
        self.sources = [s if isinstance(s, int) else self.weights.tensors[s["tensor"]] for s in description["sources"]]
        self.outputs = template_from_json(description["outputs"])
        self.output_count = description["output_count"]
        self.written = []
        self._model = model
        self._names = description["input_names"], description["output_names"]

    def __getattr__(self, name: str) -> Any:
        if name != "func":
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'", name=name, obj=self)
        self.func = self._model.read(mapped=True).func
        return self.func

    @property
    def captured_names(self) -> list[str]:
        return self.names

    @property
    def input_names(self) -> list[str]:
        return list(self._names[0])

    @property
    def output_names(self) -> list[str]:
        return list(self._names[1])

    def _read_weights(self, mapped: bool) -> list[Any]:
        return [tensor._value for tensor in self._model.read(mapped).captured]


def _description(traced: Traced) -> dict[str, Any]:
    """What `SavedProgram` takes, as plain data."""
    tensors = traced.captured
    numbers = {id(tensor): i for i, tensor in enumerate(tensors)}
    return {
        "name": str(traced.func.sym_name),
        "names": traced.captured_names,
        "ops": len(traced.func.block.ops),
        "input_names": traced.input_names,
        "output_names": traced.output_names,
        "inputs": [_type_to_json(type) for type in traced.inputs],
        "sources": [s if isinstance(s, int) else {"tensor": numbers[id(s)]} for s in traced.sources],
        "outputs": template_to_json(traced.outputs),
        "output_count": traced.output_count,
        "tensors": [
            {
                "name": t.name,
                "type": _type_to_json(t.type),
                "parameter": isinstance(t, Parameter),
                "trainable": not t.stop_gradient,
                "persistable": t.persistable,
            }
            for t in tensors
        ],
    }


def _type_to_json(type: TensorType) -> list[Any]:
    return [type.dtype.name, [d if isinstance(d, int) else str(d) for d in type.shape]]


def _type(told: list[Any]) -> TensorType:
    name, shape = told
    return TensorType(tuple(d if isinstance(d, int) else parse_dim(d) for d in shape), SCALARS[name])


class TranslatedLayer(Layer):
    """A loaded model: called with its inputs, trainable again, its parameters under the names they had.

    A call whose sizes the program does not take gets one that is read for these sizes, if `read_for` reads the model for given specs of its
    inputs.

    With `fixed` it computes with the weights in its files for as long as they are not changed, by code that has them in it. Gradients are
    another program, which is compiled when they are asked for; in training mode each step makes ready for them.
    """

    def __init__(self, traced: Traced, fixed: WeightsInCode | None = None):
        super().__init__()
        self.training = False
        self.traced = traced
        self.read_for: Callable[[list[Any]], Traced] | None = None
        self._sized: dict[Any, TracedProgram] = {}
        self._program = TracedProgram(traced, traced.name if isinstance(traced, SavedProgram) else str(traced.func.sym_name), fixed)
        drawn_from = _generator_state() if traced.written else None
        for name, tensor in zip(traced.captured_names, traced.captured, strict=True):
            if tensor is drawn_from:
                continue  # the process's, not the model's
            # Straight into the tables: the names have dots, and there are no sublayers to hold the parts.
            (self._parameters if isinstance(tensor, Parameter) else self._buffers)[name] = tensor

    @property
    def fixed(self) -> FixedWeights | None:
        """The code for the weights in the model's files, while it has them."""
        fixed = self._program.fixed
        return fixed if isinstance(fixed, FixedWeights) and fixed.holds() else None

    @property
    def input_spec(self) -> list[TensorType]:
        """The types of the inputs."""
        return self.traced.inputs

    def forward(self, *inputs: Any) -> Any:
        leaves: list[Any] = []
        flatten(inputs, leaves, is_tensor)
        if len(leaves) != len(self.traced.inputs):
            raise TypeError(f"expected {len(self.traced.inputs)} input tensors for the loaded model but got {len(leaves)}")
        tensors = [leaf if isinstance(leaf, Tensor) else to_tensor(leaf) for leaf in leaves]
        if is_traced():
            from polyreme.jit.capture.replay import replay

            return unflatten(self.traced.outputs, iter(replay(self.traced, tensors)))
        if not self._program.holds():
            # Parameters were frozen or thawed since: the same function, differentiated anew.
            self._program = TracedProgram(self.traced, self._program.name, self._program.fixed)
        try:
            made = self._program(tensors, trains=self.training)
        except ContentError:
            raise  # a program for these sizes would refuse it, too
        except CallError:
            sized = self._for_sizes(tensors)
            if sized is None:
                raise
            made = sized(tensors, trains=self.training)
        return unflatten(self.traced.outputs, iter(made))

    def _for_sizes(self, tensors: Sequence[Tensor]) -> TracedProgram | None:
        """A program for inputs of just these sizes, with the weights of this Layer; None where there is none."""
        from polyreme.static.input_spec import InputSpec

        key = tuple((t.type.dtype.name, tuple(t.type.shape)) for t in tensors)
        found = self._sized.pop(key, None)
        if found is None or not found.holds():
            if self.read_for is None or self.traced.written or all(type.is_static for type in self.traced.inputs):
                return None
            try:
                traced = self.read_for([InputSpec(list(t.shape), t.dtype) for t in tensors])
            except PolyremeError:
                return None  # what the program for free sizes expected says more
            own = dict(zip(self.traced.captured_names, self.traced.captured, strict=True))
            if traced.written or not own.keys() >= set(traced.captured_names):
                return None
            names = iter(traced.captured_names)
            traced.sources = [source if isinstance(source, int) else own[next(names)] for source in traced.sources]
            if len(self._sized) >= MOST_SIZES:
                self._sized.pop(next(iter(self._sized)))
            found = TracedProgram(traced, self._program.name)
        self._sized[key] = found
        return found

    def executable(self) -> Any:
        """What runs the model with the weights it has now, on arrays: `run([x, …])` gives the outputs as a list, in the order in which they
        stand in the result.
        """
        if self.fixed is not None:
            return self.fixed.executable(self._program.name)
        from polyreme.compiled.executables import load_module

        return load_module(self.traced.frozen(), self._program.name)

    def program(self, method_name: str = "forward") -> str:
        """The text of the program at the `nn` level."""
        from polyreme.ir.text import print_module

        if method_name != "forward":
            raise ValueError(f"expected 'forward', the only method that is saved, but got {method_name!r}")
        return print_module(self.traced.module())
