"""The door to the runtime: what linking takes from it. Nothing else in `lowering` imports the runtime."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from polyreme.runtime.artifact import CONSTANTS_AT, Artifact
from polyreme.runtime.cache import Cache, cache_in, digest_of
from polyreme.runtime.checksum import SUM_LANES, weights_sum
from polyreme.runtime.cpu import ASK_FOR_TILES, check_runs_here
from polyreme.runtime.draft import Draft
from polyreme.runtime.errors import RuntimeFault
from polyreme.runtime.executable import Executable, ModelFunctions
from polyreme.runtime.files import is_device, write_atomically
from polyreme.runtime.gpu.executable import GpuExecutable
from polyreme.runtime.gpu.plan import Argument, GpuPlan, LaunchSpec, MapSpec
from polyreme.runtime.gpu.tensor_maps import DTYPES as MAP_DTYPES
from polyreme.runtime.gpu.tensor_maps import MODES as MAP_MODES
from polyreme.runtime.gpu.versions import cuda_for, cuda_text, device_of, version_of
from polyreme.runtime.library import LEVELS_KEY, PARTS, WEIGHTS_HEADER, library_bytes, weights_header
from polyreme.runtime.manifest.manifest import GPU_HOST, GPU_PLAN, Manifest
from polyreme.runtime.manifest.specs import (
    DTYPES,
    BodySpec,
    ConstantSpec,
    GuardSpec,
    LookSpec,
    RangeSpec,
    SizeSpec,
    StepSpec,
    TargetSpec,
    TensorSpec,
)
from polyreme.runtime.memory import ALIGNMENT, address_of
from polyreme.runtime.pieces import LaterPiece, Piece, Pieces
from polyreme.runtime.shared_code import (
    MODEL_FUNCTIONS,
    PARALLEL_FUNCTIONS,
    POOL_FUNCTIONS,
    constants_of,
    is_shared,
    load_shared,
    with_shared_code,
)
from polyreme.runtime.threads import Pool, PoolFunctions, process_pool

__all__ = [
    "ALIGNMENT", "ASK_FOR_TILES", "CONSTANTS_AT", "DTYPES", "GPU_HOST", "GPU_PLAN", "LEVELS_KEY", "MODEL_FUNCTIONS", "PARALLEL_FUNCTIONS",
    "PARTS",
    "POOL_FUNCTIONS", "SUM_LANES", "WEIGHTS_HEADER", "Argument", "Artifact", "BodySpec", "Cache", "ConstantSpec", "Draft", "Executable",
    "GpuExecutable", "GpuPlan", "GuardSpec", "LaterPiece", "LaunchSpec", "MAP_DTYPES", "MAP_MODES", "Manifest",
    "MapSpec", "ModelFunctions", "Piece", "Pieces", "Pool",
    "PoolFunctions", "LookSpec", "RangeSpec", "RuntimeFault", "SizeSpec", "StepSpec", "TargetSpec", "TensorSpec", "address_of",
    "cache_in", "check_runs_here", "constants_of", "cuda_for", "cuda_text", "device_of",
    "digest_of", "gpu_driver", "is_device", "is_shared", "library_bytes", "load_shared", "native_text", "process_pool", "weights_header",
    "version_of", "weights_sum", "with_shared_code", "write_atomically",
]  # fmt: skip


def native_text(name: str) -> str:
    """A file of the runtime's own LLVM IR, or C."""
    return (files("polyreme.runtime") / name).read_text()


def gpu_driver() -> Any:
    """This machine's GPU, opened when it is asked for."""
    from polyreme.runtime.gpu.drivers import open_driver

    return open_driver("gpu")
