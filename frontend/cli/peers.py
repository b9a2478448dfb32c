"""Other runtimes on the same model, for `polyreme bench --against`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.cli.models import Model
from polyreme.ir.diagnostics import PolyremeError, did_you_mean

PEERS = ("onnxruntime",)
# Relative to the largest value of an output: other orders of summation, but the same model.
LARGEST_DIFFERENCE = 1e-4


def peer_calls(against: str, model: Model, arrays: Sequence[Any], sizes: dict[str, int], threads: int, ours: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """A call for each peer named in `against` (separated by commas), whose results agree with `ours`."""
    calls: dict[str, Callable[[], Any]] = {}
    for name in filter(None, (part.strip() for part in against.split(","))):
        if name not in PEERS:
            raise PolyremeError(
                f"expected a runtime to compare with ({', '.join(PEERS)}) but got '{name}'{did_you_mean(name, PEERS)}", code="E0004"
            )
        calls[name] = call = _onnxruntime(model, arrays, sizes, threads)
        for result, expected in zip(call(), ours, strict=True):
            difference = float(np.max(np.abs(result - expected), initial=0) / max(float(np.max(np.abs(expected), initial=0)), 1e-30))
            if difference > LARGEST_DIFFERENCE:
                raise PolyremeError(
                    f"expected '{name}' to agree within {LARGEST_DIFFERENCE:g} but the results differ by {difference:.2g}", code="E0006"
                )
    return calls


def _onnxruntime(model: Model, arrays: Sequence[Any], sizes: dict[str, int], threads: int) -> Callable[[], Any]:
    """All optimisations, the asked number of threads, free sizes fixed."""
    from polyreme.exporters.onnx import export_onnx

    if model.kind == "library":
        raise PolyremeError("expected a model with --against but got a library, whose program is machine code already; name the model it was made from", code="E0002")
    data = export_onnx(model.module(freeze=True))
    try:
        import onnxruntime
    except ImportError:
        raise PolyremeError("expected the package 'onnxruntime' for --against but it is not installed: pip install 'polyreme[peers]'", code="E0007") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    for name, value in sizes.items():
        options.add_free_dimension_override_by_name(name, value)
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feeds = dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
    return lambda: session.run(None, feeds)
