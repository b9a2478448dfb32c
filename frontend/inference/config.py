"""`Config`: which model a predictor runs, and Paddle's switches: those with an effect here, those without, and those that are refused."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyreme.inference.kinds import InferenceError, PrecisionType
from polyreme.ir.diagnostics import caller_location
from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["Config", "PassBuilder", "XpuConfig"]
__dir__ = listed(__name__)


class XpuConfig(Shown):
    """Settings of Kunlun's processors, which are not here: whatever is set is kept and not used."""


class PassBuilder(Shown):
    """The names of Paddle's passes. Here models go through Polyreme's own compiler, so that the list changes nothing."""

    def __init__(self) -> None:
        self._passes: list[str] = []

    def all_passes(self) -> list[str]:
        return list(self._passes)

    def append_pass(self, name: str) -> None:
        self._passes.append(name)

    def insert_pass(self, index: int, name: str) -> None:
        self._passes.insert(index, name)

    def delete_pass(self, name: str | int) -> None:
        if isinstance(name, int):
            del self._passes[name]
        else:
            self._passes = [known for known in self._passes if known != name]

    def set_passes(self, names: list[str]) -> None:
        self._passes = list(names)

    def turn_on_debug(self) -> None:
        """No effect."""

    def debug_string(self) -> str:
        return "\n".join(self._passes)


class Config(Shown):
    """The model's files and how it is to run.

    `Config(program, parameters)` takes `.json` or `.pdmodel` with `.pdiparams`; `Config(folder, prefix)` the files of that name in a
    folder; `Config(prefix)` the files beginning with it, or a folder with `__model__`.
    """

    Precision = PrecisionType
    Float32, Int8, Half, Bfloat16 = PrecisionType.Float32, PrecisionType.Int8, PrecisionType.Half, PrecisionType.Bfloat16

    def __init__(self, *files: str | os.PathLike[str]):
        self._folder = self._program = self._parameters = ""
        self._buffers: tuple[bytes, bytes] | None = None
        self._threads = 0
        self._ranges_file = ""
        self._builder = PassBuilder()
        self._states: dict[str, Any] = {}
        if len(files) > 2 or not all(isinstance(file, (str, os.PathLike)) for file in files):
            raise TypeError(f"Config expected the paths of a program and of its parameters, or of a folder, but got {files!r}")
        if files:
            self.set_model(*files)

    # --- the model

    def set_model(self, *files: str | os.PathLike[str]) -> None:
        """As the constructor."""
        if not 1 <= len(files) <= 2:
            raise TypeError(f"set_model expected one path or two but got {len(files)}")
        first, second = os.fspath(files[0]), os.fspath(files[1]) if len(files) == 2 else ""
        self._buffers = None
        if len(files) == 1:
            self._folder, self._program, self._parameters = first, "", ""
        elif Path(first).is_dir():
            self._folder = first
            self._program = _first([f"{first}/{second}.json", f"{first}/{second}.pdmodel"])
            self._parameters = f"{first}/{second}.pdiparams"
        else:
            self._folder, self._program, self._parameters = "", first, second

    def set_prog_file(self, file: str) -> None:
        """The file of the program."""
        self._program, self._buffers = os.fspath(file), None

    def set_params_file(self, file: str) -> None:
        """The file of the parameters."""
        self._parameters, self._buffers = os.fspath(file), None

    def set_model_buffer(self, program: str | bytes, program_size: int, parameters: str | bytes, parameters_size: int) -> None:
        """The contents of both files; a size says how many of the bytes count."""
        given = [text.encode("latin1") if isinstance(text, str) else bytes(text) for text in (program, parameters)]
        for data, size, what in zip(given, (program_size, parameters_size), ("program", "parameters"), strict=True):
            if not 0 <= size <= len(data):
                raise InferenceError(f"expected at most the {len(data)} bytes of the {what} but got {size}", caller_location())
        self._buffers = given[0][:program_size], given[1][:parameters_size]

    def model_dir(self) -> str:
        return self._folder

    def prog_file(self) -> str:
        return self._program

    def params_file(self) -> str:
        return self._parameters

    def model_from_memory(self) -> bool:
        return self._buffers is not None

    # --- what has an effect

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """How many threads the process computes with, from the making of the predictor on; 0 and less leave it as it is."""
        self._threads = int(threads)

    def cpu_math_library_num_threads(self) -> int:
        return self._threads or 1

    # --- what only tells what was set

    def disable_gpu(self) -> None:
        """Nothing is left to switch off: a predictor runs on the processor."""

    def use_gpu(self) -> bool:
        return False

    def use_xpu(self) -> bool:
        return False

    def gpu_device_id(self) -> int:
        return 0

    def xpu_device_id(self) -> int:
        return 0

    def memory_pool_init_size_mb(self) -> int:
        return 100

    def fraction_of_gpu_memory_for_pool(self) -> float:
        return 0.0

    def collect_shape_range_info(self, path: str) -> None:
        """Kept and not used: free sizes need no ranges here, and no file is written."""
        self._ranges_file = path

    def shape_range_info_path(self) -> str:
        return self._ranges_file

    def shape_range_info_collected(self) -> bool:
        return bool(self._ranges_file)

    def pass_builder(self) -> PassBuilder:
        return self._builder

    def delete_pass(self, name: str) -> None:
        self._builder.delete_pass(name)

    def xpu_config(self) -> XpuConfig:
        return XpuConfig()

    def tensorrt_precision_mode(self) -> PrecisionType:
        return PrecisionType.Float32

    def tensorrt_optimization_level(self) -> int:
        return 3

    def summary(self) -> str:
        """What is set, as a table."""
        rows = [
            ("model_dir", self._folder), ("model_file", "(in memory)" if self._buffers else self._program),
            ("params_file", self._parameters),
            ("cpu_math_thread", str(self.cpu_math_library_num_threads())), ("use_gpu", "false"), ("ir_optim", str(self.ir_optim()).lower()),
        ]  # fmt: skip
        rows = [row for row in rows if row[1]]
        widths = [max(map(len, column)) for column in zip(("Option", "Value"), *rows, strict=True)]
        rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in [("Option", "Value"), *rows]]
        lines = [f"| {' | '.join(row)} |" for row in padded]
        return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])

    def _files(self) -> tuple[str, str]:
        """The paths of the program and of its parameters, the latter empty where the loader is to find them."""
        if self._program or not self._folder:
            return self._program, self._parameters
        return self._folder, ""

    def __getattr__(self, name: str) -> Callable[[], Any]:
        # Of what the tables below give the class, for those who check types.
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'", name=name, obj=self)


def _first(files: list[str]) -> str:
    return next((file for file in files if Path(file).is_file()), files[0])


# --- switches by the table: what they are called with, and the question that they answer later

_BOOL = "x: bool = True"
# Name, parameters, then the question and what it is answered by after the call, if it is asked.
_WITHOUT_EFFECT: tuple[tuple[str, str, str, Any], ...] = (
    ("disable_glog_info", "", "glog_info_disabled", True),
    ("switch_ir_optim", _BOOL, "ir_optim", None),
    ("switch_ir_debug", "x: bool = True, passes: list[str] = []", "", None),
    ("switch_specify_input_names", _BOOL, "specify_input_name", None),
    ("switch_use_feed_fetch_ops", _BOOL, "use_feed_fetch_ops_enabled", None),
    ("enable_memory_optim", _BOOL, "", None),
    ("enable_profile", "", "", None),
    ("enable_new_executor", _BOOL, "", None),
    ("enable_new_ir", _BOOL, "new_ir_enabled", None),
    ("enable_cinn", "", "", None),
    ("enable_custom_passes", "passes: list[str] = [], custom_pass_only: bool = False", "", None),
    ("set_optimization_level", "opt_level: int = 2", "", None),
    ("set_optim_cache_dir", "path: str", "", None),
    ("enable_save_optim_model", "save_optimized_model: bool = False", "", None),
    ("use_optimized_model", _BOOL, "", None),
    ("enable_mkldnn", "", "mkldnn_enabled", True),
    ("enable_onednn", "", "onednn_enabled", True),
    ("disable_mkldnn", "", "mkldnn_enabled", False),
    ("disable_onednn", "", "onednn_enabled", False),
    ("disable_mkldnn_fc_passes", "", "", None),
    ("disable_onednn_fc_passes", "", "", None),
    ("set_mkldnn_cache_capacity", "capacity: int = 0", "", None),
    ("set_onednn_cache_capacity", "capacity: int = 0", "", None),
    ("set_mkldnn_op", "ops: set[str]", "", None),
    ("set_onednn_op", "ops: set[str]", "", None),
    ("disable_onnxruntime", "", "onnxruntime_enabled", False),
    ("enable_ort_optimization", "", "", None),
    ("exp_enable_use_cutlass", "", "", None),
    ("exp_disable_tensorrt_ops", "ops: list[str]", "", None),
    ("exp_disable_tensorrt_subgraph", "ops: list[str]", "", None),
    ("enable_tensorrt_memory_optim", "engine_memory_sharing: bool = True, sharing_identifier: int = 0", "", None),
    ("set_trt_dynamic_shape_info", "min_input_shape: dict[str, list[int]] = {}, max_input_shape: dict[str, list[int]] = {}, "
     "optim_input_shape: dict[str, list[int]] = {}, disable_trt_plugin_fp16: bool = False", "", None),
    ("enable_tuned_tensorrt_dynamic_shape", "shape_range_info_path: str = '', allow_build_at_runtime: bool = True", "", None),
    ("exp_disable_tensorrt_dynamic_shape_ops", "x: bool", "", None),
    ("exp_specify_tensorrt_subgraph_precision", "fp16: list[str], int8: list[str], bf16: list[str]", "", None),
    ("exp_sparse_conv_using_buffer", "kernels: list[list[int]], strides: list[list[int]]", "", None),
    ("set_tensorrt_optimization_level", "level: int", "", None),
)  # fmt: skip
# What else is asked, and the answer of a fresh configuration.
_ANSWERS = {
    "glog_info_disabled": False, "ir_optim": True, "specify_input_name": False, "use_feed_fetch_ops_enabled": False,
    "new_ir_enabled": False, "mkldnn_enabled": True, "onednn_enabled": True, "mkldnn_int8_enabled": False, "onednn_int8_enabled": False,
    "onnxruntime_enabled": False, "tensorrt_engine_enabled": False, "tensorrt_dla_enabled": False,
    "tensorrt_dynamic_shape_enabled": False, "tensorrt_explicit_quantization_enabled": False, "tensorrt_inspector_enabled": False,
    "tensorrt_varseqlen_enabled": False, "trt_allow_build_at_runtime": False, "tuned_tensorrt_dynamic_shape": False,
    "openvino_engine_enabled": False,
    "lite_engine_enabled": False, "use_opencl": False,
}  # fmt: skip
# The same question under two names.
_SAME = {"mkldnn_enabled": "onednn_enabled", "onednn_enabled": "mkldnn_enabled"}
_GPU = "predictors run on the processor; for an NVIDIA GPU load the model with paddle.jit.load under paddle.set_device('gpu')"
_PRECISION = "models compute in the types of their file; `polyreme quantize` brings one into eight bits"
_REFUSED = {
    "enable_use_gpu": _GPU, "enable_xpu": _GPU, "set_xpu_config": _GPU, "set_xpu_device_id": _GPU, "enable_ipu": _GPU,
    "set_ipu_config": _GPU, "set_ipu_custom_info": _GPU, "load_ipu_config": _GPU, "enable_custom_device": _GPU, "enable_opencl": _GPU,
    "enable_dlnne": _GPU, "enable_tensorrt_engine": "TensorRT is not here", "enable_tensorrt_dla": "TensorRT is not here",
    "enable_tensorrt_explicit_quantization": "TensorRT is not here", "enable_tensorrt_inspector": "TensorRT is not here",
    "enable_tensorrt_varseqlen": "TensorRT is not here", "mark_trt_engine_outputs": "TensorRT is not here",
    "enable_openvino_engine": "OpenVINO is not here", "enable_onnxruntime": "ONNX Runtime is not here",
    "dist_config": "a predictor is one process", "set_dist_config": "a predictor is one process",
    "to_native_config": "Paddle's first predictor is not here", "nnadapter": "Paddle Lite is not here",
    "quantizer_config": _PRECISION,
    "enable_lite_engine": "Paddle Lite is not here", "enable_mkldnn_bfloat16": _PRECISION, "enable_onednn_bfloat16": _PRECISION,
    "set_bfloat16_op": _PRECISION, "enable_mkldnn_int8": _PRECISION, "enable_onednn_int8": _PRECISION, "enable_quantizer": _PRECISION,
    "enable_low_precision_io": _PRECISION, "exp_enable_mixed_precision_ops": _PRECISION, "exp_disable_mixed_precision_ops": _PRECISION,
}  # fmt: skip


def _switch(name: str, parameters: str, question: str, answer: Any) -> Callable[..., None]:
    (head,) = ast.parse(f"def head(self{', ' + parameters if parameters else ''}): ...").body
    assert isinstance(head, ast.FunctionDef)
    values = [ast.literal_eval(d) for d in head.args.defaults]
    empty, kind = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([
        inspect.Parameter(arg.arg, kind, default=value, annotation=ast.unparse(arg.annotation) if arg.annotation else empty)
        for arg, value in zip(head.args.args, [empty] * (len(head.args.args) - len(values)) + values, strict=True)
    ], return_annotation="None")  # fmt: skip

    def switch(self: Config, *args: Any, **named: Any) -> None:
        given = signature.bind(self, *args, **named)
        given.apply_defaults()
        if question:
            value = answer if answer is not None else bool(given.arguments["x"])
            self._states[question] = self._states[_SAME.get(question, question)] = value

    switch.__name__, switch.__qualname__, switch.__signature__ = name, f"Config.{name}", signature  # type: ignore[attr-defined]
    switch.__doc__ = "Taken, and without effect here."
    return switch


def _question(name: str, fresh: Any) -> Callable[[Config], Any]:
    def question(self: Config) -> Any:
        return self._states.get(name, fresh)

    question.__name__, question.__qualname__ = name, f"Config.{name}"
    question.__doc__ = "What was set; it has no effect here."
    return question


def _refusal(name: str, why: str) -> Callable[..., None]:
    def refuse(self: Config, *args: Any, **named: Any) -> None:
        raise InferenceError(f"expected a configuration without {name}(): {why}", caller_location())

    refuse.__name__, refuse.__qualname__ = name, f"Config.{name}"
    refuse.__doc__ = f"Refused: {why}."
    return refuse


for _name, *_rest in _WITHOUT_EFFECT:
    setattr(Config, _name, _switch(_name, *_rest))
for _name, _fresh in _ANSWERS.items():
    setattr(Config, _name, _question(_name, _fresh))
for _name, _why in _REFUSED.items():
    setattr(Config, _name, _refusal(_name, _why))
