"""Tensors as text, exactly as Paddle 3 prints them."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.ir.python.records import dataclass

__all__ = ["set_printoptions"]

Array = np.ndarray[Any, Any]


@dataclass
class PrintOptions:
    """Digits after the point, elements before `...` sets in, elements kept at each end, line width, scientific form."""

    precision: int = 8
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool = False


OPTIONS = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Change how tensors are printed; None leaves an option as it is."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth, "sci_mode": sci_mode}
    for name, value in given.items():
        if value is None:
            continue
        kind = bool if name == "sci_mode" else int
        if not isinstance(value, kind):
            raise TypeError(f"expected '{name}' to be {kind.__name__} but got {value!r}")
        setattr(OPTIONS, name, value)


def tensor_text(array: Array, dtype: str, stop_gradient: bool, place: Any, prefix: str = "Tensor") -> str:
    """`Tensor(shape=[2], dtype=float32, place=Place(cpu), stop_gradient=True,` and the elements on the lines below."""
    indent = len(prefix) + 1
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    summary = array.size > OPTIONS.threshold
    # Paddle measures the elements that a summary would show, summary or not.
    shown = _edges(array).ravel()
    width = max((len(_element(v)) for v in shown), default=0)
    # Complex numbers are ordered by their real parts first, as numpy has it. A nan has no sign, and is no reason to warn.
    with np.errstate(invalid="ignore"):
        signed = shown.dtype.kind != "b" and bool((shown < 0).any())
    data = _block(array, summary, indent, width, signed)
    head = f"{prefix}(shape={list(array.shape)}, dtype={dtype}, place={place}, stop_gradient={stop_gradient},"
    return f"{head}\n{' ' * indent}{data})"


def _edges(array: Array) -> Array:
    """The elements within `edgeitems` of the ends of every axis."""
    keep = OPTIONS.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * keep:
            array = np.take(array, [*range(keep), *range(size - keep, size)], axis)
    return array


def _element(value: Any) -> str:
    digits = OPTIONS.precision
    if value.dtype.kind == "c":
        form = "e" if OPTIONS.sci_mode else "f"
        return f"({value.real:.{digits}{form}}{'+' if value.imag >= 0 else ''}{value.imag:.{digits}{form}}j)"
    if value.dtype.kind != "f":
        return str(value)
    if OPTIONS.sci_mode:
        return f"{value:.{digits}e}"
    # Whole numbers lose their zeros, infinities count as whole: `1.`, `inf.`, but `nan`.
    return f"{value:.0f}." if np.ceil(value) == value else f"{value:.{digits}f}"


def _cell(value: Any, width: int, signed: bool) -> str:
    text = _element(value)
    if width <= len(text):
        return text
    if signed and not value < 0:
        return " " + text.ljust(width - 1)
    return text.ljust(width)


def _block(array: Array, summary: bool, indent: int, width: int, signed: bool) -> str:
    if array.ndim == 0:
        return _cell(array[()], width, signed)
    keep = OPTIONS.edgeitems

    def row(i: int) -> str:
        if array.ndim == 1:
            return _cell(array[i], width, signed)
        return _block(array[i], summary, indent + 1, width, signed)

    count = len(array)
    if summary and count > 2 * keep:
        rows = [*map(row, range(keep)), "...", *map(row, range(count - keep, count))]
    else:
        rows = [*map(row, range(count))]
    if array.ndim > 1:
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(rows) + "]"
    per_line = max(1, (OPTIONS.linewidth - indent) // (width + 2))
    lines = [", ".join(rows[i : i + per_line]) for i in range(0, len(rows), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
