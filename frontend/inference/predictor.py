"""`Predictor`: a loaded model with handles for its inputs and outputs. Clones share the model and run at the same time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polyreme
from polyreme.grad_mode import no_grad
from polyreme.inference.config import Config
from polyreme.inference.handles import Handle, fitted
from polyreme.inference.kinds import DataType, InferenceError, PlaceType, PrecisionType
from polyreme.ir.diagnostics import PolyremeError, caller_location, did_you_mean
from polyreme.jit.loading import TranslatedLayer, load
from polyreme.jit.structure import flatten, is_tensor
from polyreme.names import listed
from polyreme.runtime.errors import RuntimeFault
from polyreme.tensor import Tensor as Eager
from polyreme.utils.shown import Shown

__all__ = [
    "Predictor", "PredictorPool", "convert_to_mixed_precision", "create_predictor", "get_num_bytes_of_data_type",
    "get_trt_compile_version", "get_trt_runtime_version", "get_version",
]  # fmt: skip
__dir__ = listed(__name__)


class Predictor(Shown):
    """Made by `create_predictor`. Each has inputs and outputs of its own: threads take a clone each, of which all share one model."""

    def __init__(self, model: TranslatedLayer, keep: object = None):
        self._model, self._keep = model, keep
        traced = model.traced
        self._inputs = {
            name: Handle(name, type.dtype.np, True) for name, type in zip(traced.input_names, traced.inputs, strict=True)
        }
        self._outputs = {name: Handle(name, "float32", False) for name in traced.output_names}

    def get_input_names(self) -> list[str]:
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        return list(self._outputs)

    def get_input_handle(self, name: str) -> Handle:
        """The input of this name."""
        return _named(self._inputs, name, "input")

    def get_output_handle(self, name: str) -> Handle:
        """The output of this name; it holds something once `run` is done."""
        return _named(self._outputs, name, "output")

    def run(self, inputs: Sequence[Eager] | None = None) -> list[Eager] | None:
        """Compute the outputs of what the input handles hold; or, given tensors in the order of the inputs, give the outputs as tensors."""
        if inputs is None:
            given = [handle._given() for handle in self._inputs.values()]
        else:
            listed = isinstance(inputs, (list, tuple))
            if not listed or not all(isinstance(tensor, Eager) for tensor in inputs):
                kinds = ", ".join(type(tensor).__name__ for tensor in inputs) if listed else type(inputs).__name__
                raise TypeError(f"run expected a list of tensors, or nothing, but got {kinds}: paddle.to_tensor makes one of an array")
            if len(inputs) != len(self._inputs):
                message = f"expected {len(self._inputs)} inputs ({', '.join(self._inputs)}) but got {len(inputs)}"
                raise InferenceError(message, caller_location())
            given = [self._fitting(tensor, handle) for tensor, handle in zip(inputs, self._inputs.values(), strict=True)]
        outputs: list[Any] = []
        try:
            with no_grad():
                flatten(self._model(*given), outputs, is_tensor)
        except (RuntimeFault, PolyremeError) as error:
            raise InferenceError(error.message, caller_location(), error.code) from error
        if inputs is not None:
            return outputs
        for handle, output in zip(self._outputs.values(), outputs, strict=True):
            handle._hold(output.numpy())
        return None

    def _fitting(self, tensor: Eager, handle: Handle) -> Eager:
        if tensor.type.dtype.np == handle._dtype:
            return tensor
        return polyreme.to_tensor(fitted(tensor.numpy(), handle._dtype, handle.name))

    def clone(self, stream: Any = None) -> Predictor:
        """Another predictor of the same model, with handles of its own; for another thread, say."""
        if stream is not None:
            raise InferenceError("expected no stream for a clone: predictors run on the processor", caller_location())
        return Predictor(self._model, self._keep)

    def clear_intermediate_tensor(self) -> None:
        """No effect: what lies between inputs and outputs is not kept by name."""

    def try_shrink_memory(self) -> int:
        """No effect; how many bytes were given back."""
        return 0

    def register_input_hook(self, hook: Callable[..., Any]) -> None:
        """Refused: operators are fused, so that nobody sees what stands between them."""
        raise InferenceError("expected no hook: operators are fused, and what stands between them is never there", caller_location())

    register_output_hook = register_input_hook


def _named(handles: dict[str, Handle], name: str, what: str) -> Handle:
    found = handles.get(name)
    if found is None:
        raise InferenceError(f"expected an {what} ({', '.join(handles)}) but got '{name}'{did_you_mean(name, handles)}", caller_location())
    return found


def create_predictor(config: Config) -> Predictor:
    """Load the model of a configuration. What cannot be read or expressed is an error now; code is made at the first run of a shape, or
    found in the cache.
    """
    if not isinstance(config, Config):
        raise TypeError(f"create_predictor expected a Config but got {type(config).__name__}")
    if config._threads > 0:
        from polyreme.runtime.threads import set_num_threads

        set_num_threads(config._threads)
    keep = None
    program, parameters = config._files()
    if config._buffers is not None:
        # The loader reads files, and looks at them again when more of the model is asked for.
        keep = tempfile.TemporaryDirectory(prefix="polyreme-model-")
        suffix = ".json" if config._buffers[0].lstrip()[:1] == b"{" else ".pdmodel"
        program, parameters = (str(Path(keep.name) / f"model{end}") for end in (suffix, ".pdiparams"))
        for file, data in zip((program, parameters), config._buffers, strict=True):
            Path(file).write_bytes(data)
    if not program:
        raise InferenceError("expected a model in the configuration but got none: name its files, Config('net.json', 'net.pdiparams')")
    for file in filter(None, (program if Path(program).suffix else "", parameters)):
        if not Path(file).exists():
            raise InferenceError(f"expected a file of the model but there is no '{file}'", caller_location())
    return Predictor(load(program, **({"params_filename": str(Path(parameters).absolute())} if parameters else {})), keep)


class PredictorPool(Shown):
    """As many predictors of one model."""

    def __init__(self, config: Config, size: int = 1):
        if size < 1:
            raise InferenceError(f"expected a pool of at least one predictor but got {size}", caller_location())
        first = create_predictor(config)
        self._all = [first, *(first.clone() for _ in range(size - 1))]

    def retrieve(self, index: int) -> Predictor:
        """The predictor of this number."""
        if not 0 <= index < len(self._all):
            raise InferenceError(f"expected the number of a predictor from 0 to {len(self._all) - 1} but got {index}", caller_location())
        return self._all[index]

    # As Paddle spelled it until 2.6.
    retrive = retrieve


def get_version() -> str:
    return f"version: {polyreme.__version__}\n"


def get_trt_compile_version() -> tuple[int, int, int]:
    return 0, 0, 0


def get_trt_runtime_version() -> tuple[int, int, int]:
    return 0, 0, 0


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """Bytes of one element."""
    if dtype in (DataType.FLOAT16, DataType.BFLOAT16):
        return 2
    return {"BOOL": 1}.get(dtype.name) or int("".join(filter(str.isdigit, dtype.name))) // 8


def convert_to_mixed_precision(
    model_file: str,
    params_file: str,
    mixed_model_file: str,
    mixed_params_file: str,
    mixed_precision: PrecisionType,
    backend: PlaceType,
    keep_io_types: bool = True,
    black_list: set[str] | None = None,
    **kwargs: Any,
) -> None:
    """Refused: models compute in the types of their file."""
    message = "expected a model as it is: models compute in the types of their file (see `polyreme quantize`)"
    raise InferenceError(message, caller_location())
