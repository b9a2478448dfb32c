"""`paddle.inference`: serving code of Paddle's, with the import changed.

A `Config` names the model's files, `create_predictor` loads them, handles take and give arrays. `docs/inference.md` says which switches
have an effect here.
"""

from __future__ import annotations

from polyreme.inference.config import Config, PassBuilder, XpuConfig
from polyreme.inference.handles import Handle as Tensor
from polyreme.inference.kinds import DataType, InferenceError, PlaceType, PrecisionType
from polyreme.inference.predictor import (
    Predictor,
    PredictorPool,
    convert_to_mixed_precision,
    create_predictor,
    get_num_bytes_of_data_type,
    get_trt_compile_version,
    get_trt_runtime_version,
    get_version,
)
from polyreme.names import listed

__all__ = [
    "Config", "DataType", "InferenceError", "PassBuilder", "PlaceType", "PrecisionType", "Predictor", "PredictorPool", "Tensor",
    "XpuConfig", "convert_to_mixed_precision", "create_predictor", "get_num_bytes_of_data_type", "get_trt_compile_version",
    "get_trt_runtime_version", "get_version",
]  # fmt: skip
__dir__ = listed(__name__)
