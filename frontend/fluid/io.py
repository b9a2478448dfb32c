"""`fluid.io`: values of variables, checkpoints and models in Paddle's own files; readers."""

from polyreme.fluid.files.inference_model import load_inference_model, save_inference_model
from polyreme.fluid.files.variables import (
    clean_checkpoint,
    get_latest_checkpoint_serial,
    get_parameter_value,
    get_parameter_value_by_name,
    get_program_parameter,
    get_program_persistable_vars,
    is_parameter,
    is_persistable,
    load,
    load_checkpoint,
    load_params,
    load_persistables,
    load_vars,
    save,
    save_checkpoint,
    save_params,
    save_persistables,
    save_vars,
)
from polyreme.fluid.reader import DataLoader, PyReader
from polyreme.hapi.readers import batch
from polyreme.io import BatchSampler, Dataset
from polyreme.names import listed
from polyreme.reader import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from polyreme.static.api.state import load_program_state, set_program_state

__all__ = [
    "BatchSampler", "ComposeNotAligned", "DataLoader", "Dataset", "PyReader", "batch", "buffered", "cache", "chain", "clean_checkpoint",
    "compose", "firstn",
    "get_latest_checkpoint_serial", "get_parameter_value", "get_parameter_value_by_name", "get_program_parameter",
    "get_program_persistable_vars", "is_parameter", "is_persistable", "load", "load_checkpoint", "load_inference_model", "load_params",
    "load_persistables", "load_program_state", "load_vars", "map_readers", "multiprocess_reader", "save", "save_checkpoint",
    "save_inference_model", "save_params", "save_persistables", "save_vars", "set_program_state", "shuffle", "xmap_readers",
]  # fmt: skip

__dir__ = listed(__name__)
