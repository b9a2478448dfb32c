"""`save_dygraph` and `load_dygraph`: state dicts in Paddle's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polyreme.names import listed
from polyreme.parameter import Parameter
from polyreme.serialization import load, save

__all__ = ["load_dygraph", "save_dygraph"]


def save_dygraph(state_dict: dict[str, Any], model_path: str) -> None:
    """Write a state dict: of a Layer to `MODEL_PATH.pdparams`, of an optimizer to `MODEL_PATH.pdopt`."""
    if not os.path.basename(model_path):
        raise ValueError("The input model_path MUST be format of dirname/filename [dirname\\filename in Windows system]")
    if not state_dict:
        raise ValueError("state_dict is empty, no need to save")
    of_layer = any(isinstance(value, Parameter) for value in state_dict.values())
    save(state_dict, model_path + (".pdparams" if of_layer else ".pdopt"))


def load_dygraph(model_path: str, keep_name_table: bool = False) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What `save_dygraph` wrote: the state of a Layer and of an optimizer, as arrays, None where there is no file."""
    prefix = model_path
    for suffix in (".pdparams", ".pdopt"):
        prefix = prefix.removesuffix(suffix)
    if not Path(prefix + ".pdparams").is_file() and not Path(prefix + ".pdopt").is_file():
        raise RuntimeError(f"expected the files of a model at {prefix!r} but there is neither {prefix}.pdparams nor {prefix}.pdopt")
    found = [dict(load(prefix + s, return_numpy=True)) if Path(prefix + s).is_file() else None for s in (".pdparams", ".pdopt")]
    return found[0], found[1]


__dir__ = listed(__name__)
