"""`jit.save`: a traced function and its tensors in one file, as data only.

`PREFIX.polyreme` is a zip archive, written whole or not at all: `module.tir` is the `nn` module as text, `tensors/0.npy` … hold what the
function reads besides its inputs, and `manifest.json` says how these meet. `reading.py` reads it.
"""

from __future__ import annotations

import functools
import json
import os
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.jit.loading import TranslatedLayer
from polyreme.jit.reading import FORMAT
from polyreme.jit.saved_files import model_file
from polyreme.jit.static_function import StaticFunction
from polyreme.jit.structure import template_to_json
from polyreme.jit.traced import Traced
from polyreme.nn.layer import Layer
from polyreme.parameter import Parameter
from polyreme.random import default_generator
from polyreme.runtime.memory import ALIGNMENT
from polyreme.serialization import destination

__all__ = ["save", "trace_model", "write_model"]

# The header of a part of an archive without its name, what is added for a large part, and the field for bytes that only fill up, as
# Android's tools write it.
PART_BYTES, ZIP64_BYTES, ALIGNMENT_FIELD = 30, 20, 0xD935


def trace_model(model: Any, input_spec: Sequence[Any] | None = None) -> Traced:
    """The program of a Layer or function as it is when nothing is trained: a Layer is traced in evaluation mode, then put back.

    A loaded model is its program already, unless other inputs are asked for.
    """
    if isinstance(model, TranslatedLayer) and input_spec is None:
        return model.traced
    if isinstance(model, Layer):
        function = model.forward if isinstance(model.forward, StaticFunction) else StaticFunction(model.forward, None, model)
        if model._forward_pre_hooks or model._forward_post_hooks:
            function = _with_hooks(model, function)
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


def _with_hooks(layer: Layer, forward: StaticFunction) -> StaticFunction:
    """What a call of the Layer runs: its hooks around its forward, whose arguments it takes."""

    @functools.wraps(forward.dygraph_function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)

    function = StaticFunction(call, forward.input_spec, layer)
    function.last_arguments = forward.last_arguments
    return function


def save(layer: Any, path: str | os.PathLike[str], input_spec: Sequence[Any] | None = None, **configs: Any) -> None:
    """Write a Layer or function, traced for `input_spec`, as `PATH.polyreme`, for `load` and the command line.

    Without `input_spec` the one given to `to_static` is used, or else what the call took that was traced last. Layers are saved in
    evaluation mode, with their hooks.
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
    drawn_from = default_generator().state
    manifest = {
        "format": FORMAT,
        "name": traced.func.sym_name,
        "sources": [s if isinstance(s, int) else {"tensor": numbers[id(s)]} for s in traced.sources],
        "written": [numbers[id(t)] for t in traced.written if id(t) in numbers],
        "outputs": template_to_json(traced.outputs),
        "tensors": [
            {
                "name": name,
                "dtype": t.type.dtype.name,
                "parameter": isinstance(t, Parameter),
                "trainable": not t.stop_gradient,
                "generator": t is drawn_from,
            }
            for name, t in zip(traced.captured_names, tensors, strict=True)
        ],
    }
    with destination(file) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_part("manifest.json", 0), json.dumps(manifest, indent=1).encode())
        archive.writestr(_part("module.tir", 0), print_module(traced.module()).encode())
        for i, tensor in enumerate(tensors):
            array = tensor._value
            large = array.nbytes >= 1 << 31
            with archive.open(_part(f"tensors/{i}.npy", stream.tell() + large * ZIP64_BYTES), "w", force_zip64=large) as part:
                np.lib.format.write_array(part, array.view(np.uint16) if array.dtype.name == "bfloat16" else array, allow_pickle=False)


def _part(name: str, start: int) -> zipfile.ZipInfo:
    """A part of the file whose header begins at `start`, and whose contents begin at a whole cache line then: they can be used where they
    are.
    """
    # A fixed date: equal models give equal files.
    part = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    part.extra = struct.pack("<HH", ALIGNMENT_FIELD, count := -(start + PART_BYTES + len(name) + 4) % ALIGNMENT) + bytes(count)
    return part
