"""Programs, blocks, operators and variables under `fluid`: those of `paddle.static`; and whether functions append to a program or run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from polyreme import dispatch
from polyreme.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, is_compiled_with_cuda
from polyreme.dtypes import as_dtype
from polyreme.grad_mode import MANNER, is_grad_enabled
from polyreme.names import listed
from polyreme.static.creation import cpu_places
from polyreme.static.current import (
    default_main_program,
    default_startup_program,
    device_guard,
    name_scope,
    program_guard,
    switch_main_program,
    switch_startup_program,
)
from polyreme.static.operator import Operator, OpRole
from polyreme.static.program import Block, Program
from polyreme.static.recorder import RECORDER, ProgramRecorder
from polyreme.static.variable import GRAD, Parameter, Variable, named_variable
from polyreme.utils.flags import get_flags, set_flags

__all__ = [
    "Block", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "OpRole", "Operator", "Parameter", "Program", "Variable",
    "convert_np_dtype_to_dtype_", "cpu_places", "cuda_pinned_places", "cuda_places", "default_main_program", "default_startup_program",
    "device_guard", "get_flags", "get_var", "grad_var_name", "in_dygraph_mode", "is_compiled_with_cuda", "load_op_library", "name_scope",
    "program_guard", "require_version", "set_flags", "switch_main_program", "switch_startup_program",
]  # fmt: skip


def grad_var_name(var_name: str) -> str:
    """What the variable is called that has the gradient of another one."""
    return var_name + GRAD


def convert_np_dtype_to_dtype_(np_dtype: Any) -> Any:
    """The dtype of a name or of numpy's, which compares with `VarDesc.VarType`."""
    return as_dtype(np_dtype)


def in_dygraph_mode() -> bool:
    """Whether functions of fluid run at once: inside `fluid.dygraph.guard()`. Everywhere else they append to the default main program."""
    return MANNER.paddle_1


def runs_at_once() -> bool:
    """Whether operators are applied to tensors instead: in dygraph mode, and in a traced function, such as the body of a branch."""
    trace = dispatch.active_trace()
    return in_dygraph_mode() or (trace is not None and not isinstance(trace, ProgramRecorder))


def appending(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `paddle.static` as one of fluid: it appends to the default main program also where static mode is off."""

    @wraps(function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        if in_dygraph_mode() or dispatch.active_trace() is not None:
            return function(*args, **kwargs)
        with dispatch.trace_into(RECORDER):
            return function(*args, **kwargs)

    return apply


@contextmanager
def dygraph_mode(on: bool) -> Iterator[None]:
    """Let functions of fluid run at once, or append, inside the `with`."""
    before = MANNER.key()
    switch_dygraph(on)
    try:
        yield
    finally:
        MANNER.paddle_1, MANNER.trains = before


def switch_dygraph(on: bool) -> None:
    """As `dygraph_mode`, until it is switched again. Either begins with training."""
    MANNER.paddle_1, MANNER.trains = on, True


def trains_at_once() -> bool:
    """Whether functions that run at once in dygraph mode train: since the last `train()` or `eval()` of a Layer, and outside `no_grad`."""
    return MANNER.trains and is_grad_enabled()


def get_var(name: str, program: Program | None = None) -> Variable:
    """The variable of this name in the global block of `program`, by default of the default main program; `ValueError` if there is none."""
    if not isinstance(name, str):
        raise TypeError(f"expected the name of a variable but got {type(name).__name__}")
    return (program or default_main_program()).global_block().var(name)


def variables_of(values: Any) -> list[Variable]:
    """Variables, of one or a list or tuple of them."""
    found = []
    for value in values if isinstance(values, (list, tuple)) else [values]:
        variable = named_variable(value)
        if variable is None:
            raise TypeError(f"expected variables but got {type(value).__name__} ({value!r})")
        found.append(variable)
    return found


def cuda_places(device_ids: Any = None) -> list[CUDAPlace]:
    """The GPUs of these numbers, by default the one there is; an error says what is missing for it."""
    return [CUDAPlace(i) for i in ([0] if device_ids is None else device_ids)]


def cuda_pinned_places(device_count: int | None = None) -> list[CUDAPinnedPlace]:
    """Places of page-locked memory; an error where the build has none."""
    return [CUDAPinnedPlace() for _ in range(1 if device_count is None else device_count)]


# --- versions

def require_version(min_version: str, max_version: str | None = None) -> None:
    """An error unless the version of Paddle that fluid follows here, 1.8.5, lies between these."""

    def parsed(text: Any, what: str) -> tuple[int, ...]:
        if not isinstance(text, str):
            raise TypeError(f"The type of '{what}' in require_version must be str, but received {type(text)}.")
        parts = text.split(".")
        if not 1 <= len(parts) <= 4 or not all(part.isdigit() for part in parts):
            raise ValueError(f"The value of '{what}' in require_version must be in format '\\d+(\\.\\d+){{0,3}}', like '1.5.2.0', but "
                             f"received {text}")
        return (*map(int, parts), *[0] * (4 - len(parts)))

    own, least = (1, 8, 5, 0), parsed(min_version, "min_version")
    most = own if max_version is None else parsed(max_version, "max_version")
    if not least <= own <= most:
        wanted = f"version >= {min_version}" if max_version is None else f"version in [{min_version}, {max_version}]"
        raise RuntimeError(f"PaddlePaddle {wanted} required, but fluid follows 1.8.5 here.")


def load_op_library(lib_filename: str) -> None:
    """Operators of one's own are no libraries of C++ here, so that this is an error that says what there is instead."""
    raise NotImplementedError(
        f"expected operators in Python but got the library {lib_filename!r}: write the operator with fluid.layers.py_func, or as an op of "
        f"the IR (docs/add_an_op.md)"
    )


__dir__ = listed(__name__)
