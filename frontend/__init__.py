"""Polyreme: Paddle's API, a compiler underneath.

    import polyreme as paddle

Importing any room of the package runs this file first, so it stays light: every name loads on first use, and nothing here
imports numpy, the compiler or LLVM.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Namespaces and rooms, reached as attributes without an import of their own.
_MODULES = (
    "amp", "autograd", "callbacks", "cli", "data", "dataset", "device", "dialects", "dispatch", "distributed", "fft", "fluid", "incubate",
    "dtypes",
    "hapi", "inference", "io", "ir", "jit", "loaders", "lowering", "math",
    "metric", "nn", "optimizer", "quantization", "reader", "regularizer", "runtime", "safetensors", "signal", "static", "tape", "tensor",
    "utils", "vision",
)  # fmt: skip

# Of those, what the package is made of: there for who asks, but not listed.
_INTERNAL = {"cli", "dispatch", "dtypes", "hapi", "loaders", "math", "tape", "tensor"}

# Where the names directly under `paddle` live. A name is looked up in each module's `__all__` in this order, cheap modules first.
_EXPORTERS = (
    "polyreme.dtypes",
    "polyreme.device",
    "polyreme.tensor",
    "polyreme.parameter",
    "polyreme.tape",
    "polyreme.random",
    "polyreme.printing",
    "polyreme.math",
    "polyreme.nn.attributes",
    "polyreme.serialization",
    "polyreme.utils.flags",
    "polyreme.compiled.inspection",
    "polyreme.compiled.compilation",
    "polyreme.static.mode",
)

# Names whose modules bring much with them: only these names load them.
_SINGLE = {
    "Model": "polyreme.hapi.model",
    "autocast": "polyreme.amp.regions",
    "get_autocast_cpu_dtype": "polyreme.amp.regions",
    "get_autocast_dtype": "polyreme.amp.regions",
    "get_autocast_gpu_dtype": "polyreme.amp.regions",
    "is_autocast_enabled": "polyreme.amp.regions",
    # With its methods, for who looks at the class.
    "Tensor": "polyreme.math",
    "Size": "polyreme.sizes",
    "to_tensor": "polyreme.from_data",
    "from_dlpack": "polyreme.utils.dlpack",
    "to_dlpack": "polyreme.utils.dlpack",
    "DataParallel": "polyreme.distributed.parallel",
    "batch": "polyreme.hapi.readers",
    "flops": "polyreme.hapi.flops",
    "profile": "polyreme.compiled.profiling",
    "summary": "polyreme.hapi.summary",
}

if TYPE_CHECKING:
    from polyreme import (
        amp,
        autograd,
        callbacks,
        data,
        dataset,
        distributed,
        fft,
        fluid,
        incubate,
        io,
        jit,
        metric,
        nn,
        optimizer,
        safetensors,
        signal,
        static,
        vision,
    )
    from polyreme.amp.regions import (
        autocast,
        get_autocast_cpu_dtype,
        get_autocast_dtype,
        get_autocast_gpu_dtype,
        is_autocast_enabled,
    )
    from polyreme.compiled.compilation import *
    from polyreme.compiled.inspection import *
    from polyreme.compiled.profiling import profile
    from polyreme.device import *
    from polyreme.distributed.parallel import DataParallel
    from polyreme.dtypes import *
    from polyreme.hapi.flops import flops
    from polyreme.hapi.model import Model
    from polyreme.hapi.readers import batch
    from polyreme.hapi.summary import summary
    from polyreme.math import *
    from polyreme.nn.attributes import *
    from polyreme.parameter import *
    from polyreme.printing import *
    from polyreme.random import *
    from polyreme.serialization import *
    from polyreme.static.mode import *
    from polyreme.tape import *
    from polyreme.tensor import *
    from polyreme.utils.flags import *


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"polyreme.{name}")
    if name in _SINGLE:
        value = globals()[name] = getattr(importlib.import_module(_SINGLE[name]), name)
        return value
    if not name.startswith("_"):
        for exporter in map(importlib.import_module, _EXPORTERS):
            if name in exporter.__all__:
                # From now on an ordinary global: this function is not asked again.
                value = globals()[name] = getattr(exporter, name)
                return value
    raise AttributeError(f"module 'polyreme' has no attribute '{name}'{_nearest(name)}", name=name)


def __dir__() -> list[str]:
    exported = {name for exporter in _EXPORTERS for name in importlib.import_module(exporter).__all__}
    return sorted({*exported, *_MODULES, *_SINGLE, "__version__"} - _INTERNAL)


def _nearest(name: str) -> str:
    from polyreme.ir.diagnostics import did_you_mean

    return "" if name.startswith("_") else did_you_mean(name, [n for n in __dir__() if not n.startswith("_")])
