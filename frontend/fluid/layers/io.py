"""Inputs of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.fluid.framework import default_main_program, in_dygraph_mode
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.reader import ReaderVariable
from polyreme.names import listed
from polyreme.static.lod.travel import ROWS
from polyreme.utils import unique_name

__all__ = ["create_py_reader_by_data", "data", "double_buffer", "load", "py_reader", "read_file"]


def data(
    name: str, shape: Sequence[Any], append_batch_size: bool = True, dtype: Any = "float32", lod_level: int = 0, type: Any = None,
    stop_gradient: bool = True,
) -> Any:  # fmt: skip
    """What a run must feed under this name. An axis for the batch is put in front of `shape`, unless that has a free size (-1, None)."""
    sizes = [-1 if size is None else size for size in shape]
    if append_batch_size and not any(isinstance(size, int) and size < 0 for size in sizes):
        sizes = [-1, *sizes]
    return declare(name, sizes, dtype, lod_level, stop_gradient, need_check_feed=False)


def declare(name: str, shape: Sequence[Any], dtype: Any, lod_level: int, stop_gradient: bool, need_check_feed: bool) -> Any:
    """The variable of an input. The rows of sequences are another free size than the batch."""
    if not isinstance(name, str):
        raise TypeError(f"The type of 'name' in data must be str, but received {type(name)}.")
    sizes: list[Any] = list(shape)
    if lod_level and sizes and sizes[0] == -1:
        sizes[0] = ROWS
    program = default_main_program()
    program.of_first_paddle = True
    made = program.global_block().create_var(
        name, sizes, dtype, stop_gradient=stop_gradient, is_data=True, need_check_feed=need_check_feed, lod_level=lod_level
    )
    made.stop_gradient = stop_gradient
    return made


def py_reader(
    capacity: int, shapes: Sequence[Any], dtypes: Sequence[Any], lod_levels: Sequence[int] | None = None, name: str | None = None,
    use_double_buffer: bool = True,
) -> ReaderVariable:  # fmt: skip
    """A reader whose batches the program pulls: `read_file(reader)` gives a variable of each shape and dtype.

    `reader.decorate_paddle_reader(...)` says where batches come from; between `reader.start()` and `reader.reset()` each `Executor.run`
    takes the next one, of which `capacity` are read ahead. At the end a run raises `fluid.core.EOFException`.
    """
    own = unique_name.generate("create_py_reader") if name is None else name
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not len(shapes) == len(dtypes) == len(levels):
        raise ValueError(f"expected as many dtypes and lod_levels as shapes but got {len(shapes)}, {len(dtypes)} and {len(levels)}")
    variables = [
        declare(unique_name.generate(f"{own}.out"), list(shape), dtype, level, True, need_check_feed=False)
        for shape, dtype, level in zip(shapes, dtypes, levels, strict=True)
    ]
    return ReaderVariable(own, variables, capacity)


def create_py_reader_by_data(
    capacity: int, feed_list: Sequence[Any], name: str | None = None, use_double_buffer: bool = True
) -> ReaderVariable:
    """As `py_reader`, for variables that there are."""
    return ReaderVariable(unique_name.generate("create_py_reader") if name is None else name, feed_list, capacity)


def double_buffer(reader: ReaderVariable, place: Any = None, name: str | None = None) -> ReaderVariable:
    """The reader itself, which reads at least two batches ahead."""
    reader.capacity = max(2, reader.capacity)
    return reader


def read_file(reader: ReaderVariable) -> Any:
    """The variables that each run fills with the next batch of a reader: one, or a list."""
    found = reader.read()
    return found[0] if len(found) == 1 else found


@takes("out")
def load(out: Any, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Let `out` be what stands in a file of Paddle's whenever the program runs, as float16 with `load_as_fp16`. The file, or else the
    variable, says the shape before; a run raises an error where the file has another one.

    Paddle 1.8.5 leaves `out` out of the operator by mistake, and then reads the file into nothing.
    """
    if in_dygraph_mode():
        raise RuntimeError("load() appends an operator to a program, which dygraph mode has not: use fluid.load_dygraph")
    LayerHelper("load").append_op("load", {}, {"Out": out}, {"file_path": file_path, "load_as_fp16": load_as_fp16})


__dir__ = listed(__name__)
