"""What the libraries read: one program and its weights, written for each of them into a folder.

| file | for |
|---|---|
| `inputs.npz` | all |
| `model.onnx` | ONNX Runtime, OpenVINO |
| `model_torch.py`, `model_torch.npz` | torch |

`paddle.json` and `paddle.pdiparams` are Paddle's own, written by Paddle.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.ir.builtin import Module
from polyreme.peers.runner import INPUTS

READS_ONNX = ("onnxruntime", "openvino")


def write_files(module: Module, inputs: Sequence[Any], folder: Path, libraries: Sequence[str]) -> None:
    """The files of an nn-level module with known sizes, whose weights are constants, for the libraries named."""
    np.savez(folder / INPUTS, *inputs)
    if any(library in READS_ONNX for library in libraries):
        from polyreme.exporters.onnx import export_onnx

        (folder / "model.onnx").write_bytes(export_onnx(module))
    if "torch" in libraries:
        from polyreme.exporters.torch import export_torch

        source, arrays = export_torch(module)
        (folder / "model_torch.py").write_text(source, encoding="utf-8")
        np.savez(folder / "model_torch.npz", **arrays)
