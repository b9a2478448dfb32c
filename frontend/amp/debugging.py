"""Looking at numbers: which operators ran in which dtype, and whether what they gave is finite.

Operators of the forward pass of this thread are looked at, as they are called: those of compiled functions when they are captured are not.
"""

from __future__ import annotations

import csv
import functools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.casting import state as casts
from polyreme.math.creation import to_tensor
from polyreme.names import absent_from, listed
from polyreme.random import default_generator, seed
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = [
    "DebugMode", "TensorCheckerConfig", "check_layer_numerics", "check_numerics", "collect_operator_stats", "compare_accuracy",
    "disable_operator_stats_collection", "disable_tensor_checker", "enable_operator_stats_collection", "enable_tensor_checker",
]  # fmt: skip

_LARGEST_FLOAT16 = 65504.0
_SMALLEST_FLOAT16 = 2.0**-14


class DebugMode(Enum):
    """What is said of a tensor, and when."""

    CHECK_NAN_INF_AND_ABORT = 0  # a tensor with nan or infinities is a RuntimeError
    CHECK_NAN_INF = 1  # it is printed
    CHECK_ALL_FOR_OVERFLOW = 2  # so is one that float16 could not hold
    CHECK_ALL = 3  # so are all


class TensorCheckerConfig(Shown):
    """What `enable_tensor_checker` looks at.

    Args:
        enable: whether it looks at all.
        debug_mode: what it does about what it finds.
        output_dir: the folder of a file `worker_cpu.0` that lines are added to; None prints them.
        checked_op_list: names of the operators that are looked at (`elementwise_add`); None for all.
        skipped_op_list: names of those that are not.
        debug_step: two numbers: `enable_tensor_checker` has an effect at its calls from the first to before the second.
        stack_height_limit: taken, and not used: an error says the user's line anyway.
    """

    current_step_id = 0

    def __init__(
        self,
        enable: bool,
        debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT,
        output_dir: str | None = None,
        checked_op_list: Sequence[str] | None = None,
        skipped_op_list: Sequence[str] | None = None,
        debug_step: Sequence[int] | None = None,
        stack_height_limit: int = 1,
    ):
        if not isinstance(debug_mode, DebugMode):
            raise ValueError(f"expected debug_mode to be a DebugMode but got {debug_mode!r}")
        for what, names in (("checked_op_list", checked_op_list), ("skipped_op_list", skipped_op_list), ("debug_step", debug_step)):
            if names is not None and not isinstance(names, (list, tuple)):
                raise ValueError(f"{what} must be list or tuple, but got {type(names).__name__}")
        if debug_step is not None and not (len(debug_step) == 2 and debug_step[1] > debug_step[0]):
            raise AssertionError(f"expected debug_step to be a first step and a later one but got {list(debug_step)}")
        if not isinstance(stack_height_limit, int):
            raise ValueError(f"stack_height_limit must be int, but got {type(stack_height_limit).__name__}")
        self.enable, self.debug_mode, self.output_dir = enable, debug_mode, output_dir
        self.checked_op_list, self.skipped_op_list = checked_op_list, skipped_op_list
        self.debug_step, self.stack_height_limit = debug_step, stack_height_limit
        self.start_step: int | None = None if debug_step is None else max(debug_step[0], 0)
        self.end_step: int | None = None if debug_step is None else debug_step[1]
        self.seed = self.initial_seed = 123
        if enable:
            given = default_generator().initial_seed()
            self.seed = self.initial_seed = given if 0 <= given <= np.iinfo(np.uint32).max else 123
            seed(self.seed)
            np.random.seed(self.seed)
            random.seed(self.seed)
            print("AMP Debugging TensorCheckerConfig: seed ", self.seed)

    def update_and_check_step_id(self) -> bool:
        """Whether to look at the step that begins, which is counted if so."""
        if not self.enable:
            return False
        if self.start_step is not None and self.end_step is not None:
            if not self.start_step <= TensorCheckerConfig.current_step_id < self.end_step:
                return False
            TensorCheckerConfig.current_step_id += 1
        return True

    def start_check_nan_inf(self) -> None:
        """Look from now on, if enabled."""
        if self.enable:
            casts.watch(_Checker(self))

    def stop_check_nan_inf(self) -> None:
        """Look no more."""
        if isinstance(casts.watching(), _Checker):
            casts.watch(None)


def enable_tensor_checker(checker_config: TensorCheckerConfig) -> None:
    """Look at the results of operators of this thread from now on, as the configuration says."""
    if checker_config.update_and_check_step_id():
        checker_config.start_check_nan_inf()
    else:
        checker_config.stop_check_nan_inf()


def disable_tensor_checker() -> None:
    """Look no more."""
    if isinstance(casts.watching(), _Checker):
        casts.watch(None)


class _Checker:
    """Looks at what operators give."""

    def __init__(self, config: TensorCheckerConfig):
        self.config = config

    def called(self, name: str, operands: Sequence[Any]) -> None:
        """Inputs are results of others."""

    def made(self, name: str, results: Sequence[Any]) -> None:
        config = self.config
        if config.checked_op_list is not None and name not in config.checked_op_list or name in (config.skipped_op_list or ()):
            return
        for result in results:
            if isinstance(result, Tensor) and isinstance(result._value, np.ndarray) and result.is_floating_point():
                _look(result, name, result.name, config.debug_mode, config.output_dir)


def _look(tensor: Tensor, operator: str, name: str, mode: DebugMode, folder: str | None) -> tuple[list[int], list[float]]:
    """The counts of nan, infinities and zeros of a tensor, and its maximum, minimum and mean; what the mode says is said, or raised."""
    array = np.asarray(tensor._value).astype(np.float64 if tensor.dtype.name == "float64" else np.float32)
    counts = [int(np.isnan(array).sum()), int(np.isinf(array).sum()), int((array == 0).sum())]
    with np.errstate(all="ignore"):
        values = [float(array.max()), float(array.min()), float(array.mean())] if array.size else [0.0, 0.0, 0.0]
        sizes = np.abs(array[array != 0])
    bad = counts[0] + counts[1] > 0
    overflows = bool((sizes > _LARGEST_FLOAT16).any() or (sizes < _SMALLEST_FLOAT16).any()) and tensor.dtype.name == "float32"
    if bad or mode is DebugMode.CHECK_ALL or mode is DebugMode.CHECK_ALL_FOR_OVERFLOW and overflows:
        text = (
            f"[PRECISION]{' [ERROR]' if bad else ''} in [device=cpu, op={operator}, tensor={name}, dtype={_SHORT[tensor.dtype.name]}], "
            f"numel={array.size}, num_nan={counts[0]}, num_inf={counts[1]}, num_zero={counts[2]}, max={values[0]:e}, min={values[1]:e}, "
            f"mean={values[2]:e}"
        )
        if bad and mode is DebugMode.CHECK_NAN_INF_AND_ABORT:
            raise RuntimeError(f"expected numbers that are finite but '{operator}' gave {counts[0]} nan and {counts[1]} infinities: {text}")
        if folder is None:
            print(text)
        else:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with (Path(folder) / "worker_cpu.0").open("a") as file:
                file.write(text + "\n")
    return counts, values


_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def check_numerics(
    tensor: Tensor, op_type: str, var_name: str, debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT
) -> tuple[Tensor, Tensor]:
    """The numbers of nan, infinities and zeros in a floating tensor (int64 [3]), and its maximum, minimum and mean (float32 [3]).

    `op_type` and `var_name` say in messages what it is. Nan and infinities are a `RuntimeError`, unless `debug_mode` says otherwise.
    """
    if not tensor.is_floating_point():
        raise TypeError(f"check_numerics expected a tensor of a floating dtype but got {tensor.dtype.name}")
    counts, values = _look(tensor.detach(), op_type, var_name, debug_mode, None)
    return to_tensor(np.array(counts, np.int64)), to_tensor(np.array(values, np.float32))


def check_layer_numerics(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of a Layer's `forward` whose first argument is a tensor: what its operators give has to be finite, or it is a
    `RuntimeError`.
    """

    @functools.wraps(func)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args:
            raise RuntimeError("No elements found in args.")
        if not isinstance(args[0], Tensor):
            raise RuntimeError("First input of this layer must be tensor.")
        _look(args[0].detach(), type(self).__name__, args[0].name, DebugMode.CHECK_NAN_INF_AND_ABORT, None)
        before = casts.watching()
        casts.watch(_Checker(TensorCheckerConfig(False)))
        try:
            return func(self, *args, **kwargs)
        finally:
            casts.watch(before)

    return forward


# --- how often operators ran in which dtype


class _Counter:
    """Counts calls, by name: of float16, bfloat16, float32 and other dtypes."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}

    def called(self, name: str, operands: Sequence[Any]) -> None:
        given = [o[0] if isinstance(o, (list, tuple)) and o else o for o in operands]
        dtypes = [t.dtype.name for t in given if isinstance(t, Tensor)]
        places = [("float16", "bfloat16", "float32").index(d) for d in dtypes if d in ("float16", "bfloat16", "float32")]
        self.counts.setdefault(name, [0, 0, 0, 0])[places[0] if places else 3] += 1

    def made(self, name: str, results: Sequence[Any]) -> None:
        """Only inputs are counted."""


def enable_operator_stats_collection() -> None:
    """Count the calls of operators of this thread from now on, by the dtype of their inputs."""
    casts.watch(_Counter())


def disable_operator_stats_collection() -> None:
    """Count no more, and print a table of what was counted."""
    counter = casts.watching()
    if not isinstance(counter, _Counter):
        return
    casts.watch(None)
    print(f"<{' op list ':-^120}>")
    heads = " | ".join(f"{f' {what} Calls ':-^17}" for what in ("FP16", "BF16", "FP32", "Other"))
    print(f"<{' Op Name ':-^40} | {heads}>")
    for name in sorted(counter.counts):
        print(f"  {name:<40}|  " + "|  ".join(f"{number:<17}" for number in counter.counts[name]))
    print(f"<{f' op count: {len(counter.counts)} ':-^120}>\n")


@contextmanager
def collect_operator_stats() -> Iterator[None]:
    """Count inside the `with`, and print the table at its end."""
    enable_operator_stats_collection()
    try:
        yield
    finally:
        disable_operator_stats_collection()


# --- two runs


def compare_accuracy(
    dump_path: str, another_dump_path: str, output_filename: str, loss_scale: float = 1, dump_all_tensors: bool = False
) -> None:
    """Write a table (CSV) of what `TensorCheckerConfig(..., output_dir=...)` has said of two runs, tensor by tensor in the order of the
    calls: of a run in float32 in the folder `dump_path`, and of one in half precision in `another_dump_path`, whose values are divided
    by `loss_scale`.
    """
    if dump_all_tensors:
        raise AssertionError("It is currently not supported.")
    if Path(output_filename).suffix.lower() in (".xlsx", ".xls"):
        raise ValueError(f"expected the name of a CSV file but got {output_filename!r}: tables are written as text here, which Excel opens")
    first, second = _logged(dump_path), _logged(another_dump_path)
    fields = ("dtype", "numel", "num_nan", "num_inf", "num_zero", "max", "min", "mean")
    with Path(output_filename).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["op", *(f"{which} {field}" for which in ("first", "second") for field in fields), "finite in both"])
        for place in list(dict.fromkeys([*first, *second])):
            rows = first.get(place), second.get(place)
            scaled = rows[1] and {**rows[1], **{k: str(float(rows[1][k]) / loss_scale) for k in ("max", "min", "mean")}}
            finite = all(row is not None and int(row["num_nan"]) + int(row["num_inf"]) == 0 for row in rows)
            table.writerow([place[0], *((row or {}).get(field, "") for row in (rows[0], scaled) for field in fields), finite])


def _logged(folder: str) -> dict[tuple[str, int], dict[str, str]]:
    """What the files of a folder say, by operator and the number of its call."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    counts: dict[str, int] = {}
    files = sorted(path for path in Path(folder).iterdir() if path.name.startswith("worker_"))
    for line in (line for path in files for line in path.read_text().splitlines() if line.startswith("[PRECISION]")):
        row = dict(re.findall(r"(\w+)=([^,\]]*)", line))
        counts[row["op"]] = counts.get(row["op"], 0) + 1
        found[row["op"], counts[row["op"]]] = row
    return found


if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
