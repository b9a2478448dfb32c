"""The current programs: what functions append operators to in static mode, and how to make others current."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from polyreme import dtypes
from polyreme.static.program import LABELS, Program
from polyreme.static.variable import Variable

__all__ = [
    "data", "default_main_program", "default_startup_program", "device_guard", "name_scope", "program_guard", "switch_main_program",
    "switch_startup_program",
]  # fmt: skip

_main = Program()
_startup = Program()


def default_main_program() -> Program:
    """The program that functions append operators to."""
    return _main


def default_startup_program() -> Program:
    """The program that gives parameters their first values."""
    return _startup


def switch_main_program(program: Program) -> Program:
    """Make `program` the default one; returns the one that was."""
    global _main
    old, _main = _main, program
    return old


def switch_startup_program(program: Program) -> Program:
    """Make `program` the default startup program; returns the one that was."""
    global _startup
    old, _startup = _startup, program
    return old


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Build into these programs inside the `with`; without a startup program the current one stays."""
    for program in (main_program, startup_program):
        if not isinstance(program, Program) and (program is main_program or program is not None):
            raise TypeError(f"expected a Program for program_guard but got {type(program).__name__}")
    main = switch_main_program(main_program)
    startup = switch_startup_program(startup_program) if startup_program is not None else None
    try:
        yield
    finally:
        switch_main_program(main)
        if startup is not None:
            switch_startup_program(startup)


def data(name: str, shape: Sequence[Any], dtype: Any = None, lod_level: int = 0) -> Variable:
    """An input of the current program: what a run must feed under this name. Sizes that are None or -1 are free; axis 0 is the batch, the
    same for all inputs.

    A size may also be a name (`"T"`): free, and equal wherever it stands.
    """
    if not isinstance(name, str):
        raise TypeError(f"The type of 'name' in data must be str, but received {type(name)}.")
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"The type of 'shape' in data must be list or tuple, but received {type(shape)}.")
    kind = dtypes.default_dtype() if dtype is None else dtype
    return (
        default_main_program()
        .global_block()
        .create_var(name, shape, kind, stop_gradient=True, is_data=True, need_check_feed=True, lod_level=lod_level)
    )


class _Part:
    """A named part of a program, and how often names were given inside it."""

    def __init__(self, path: str):
        self.path = path
        self.given: Counter[str] = Counter()


_parts = [_Part("/")]


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """A name for a part of the program, for the reader: operators inside have it in `op_namescope`, as in "/block/attention/".

    A name that is given again gets a number.
    """
    if prefix is not None and not isinstance(prefix, str):
        raise TypeError(f"expected a str for name_scope but got {type(prefix).__name__}")
    assert prefix, "namescope prefix can not be empty."
    around = _parts[-1]
    number = around.given[prefix]
    around.given[prefix] += 1
    _parts.append(_Part(f"{around.path}{prefix}_{number}/" if number else f"{around.path}{prefix}/"))
    with _labelled("op_namescope", _parts[-1].path):
        try:
            yield
        finally:
            _parts.pop()


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """The device of the operators inside: "cpu", "gpu", "gpu:1" or None, which they have in `op_device`.

    A program runs on the device of its executor all the same.
    """
    if device not in (None, "", "cpu", "gpu") and not str(device).startswith("gpu:"):
        raise ValueError(
            f"The Attr(device) should be 'cpu' or 'gpu', and it can also be empty string or None when there is no need to specify device. "
            f"But received {device}"
        )
    with _labelled("op_device", device or ""):
        yield


@contextmanager
def _labelled(label: str, value: str) -> Iterator[None]:
    """Give operators appended inside this attribute."""
    saved = LABELS.get(label)
    LABELS[label] = value
    try:
        yield
    finally:
        if saved is None:
            LABELS.pop(label, None)
        else:
            LABELS[label] = saved
