"""Gradients of tables that were read by rows (`sparse=True`) in eager mode: the rows that were read, and their numbers.

In a step of training that is one program: `traced_rows.py`. Programs of fluid: `static/lod/read_rows.py`. Static Programs of Paddle 3 have
whole gradients, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from polyreme.printing import tensor_text
from polyreme.tensor import Tensor

__all__ = ["SelectedRows", "added", "held_values", "on_values", "rows_of", "values_of", "whole"]

Array = np.ndarray[Any, Any]


class SelectedRows(Tensor):
    """The gradient of a table [height, width]: values [n, width], and the number of the table's row that each belongs to.

    A row that was read twice stands there twice; the gradient is the sum. Products with a number, and sums with one, are those of the
    values. Other functions do not take it: they would mistake [n, width] for the table.
    """

    __slots__ = ("_height", "_rows", "_values")

    _rows: Array
    _values: Tensor
    _height: int

    def __init__(self, rows: Array, values: Tensor, height: int):
        self._reset(None, values.type)
        self._rows, self._values, self._height = rows, values, height
        self.stop_gradient = False

    # Whoever looks at it as at a tensor's array is told, instead of getting one of another shape.
    @property
    def _value(self) -> Any:
        self._refuse()

    @_value.setter
    def _value(self, value: Any) -> None:
        if value is not None:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"expected a whole tensor but got the gradient of a table of {self._height} rows that was read with sparse=True, which holds "
            f"the {len(self._rows)} rows that were read: use its rows() and numpy(), or read the table with sparse=False"
        )

    def _array(self, what: str) -> Array:
        return self._values._array(what)

    def _is_initialized(self) -> bool:
        return True

    # --- what it is

    def is_selected_rows(self) -> bool:
        """Whether it is the rows of a table: True."""
        return True

    def is_dense(self) -> bool:
        return False

    def rows(self) -> list[int]:
        """The table's row of each of the values, in the order of reading."""
        found: list[int] = self._rows.tolist()
        return found

    def height(self) -> int:
        """The number of rows of the table."""
        return self._height

    def get_selected_rows(self) -> SelectedRows:
        """Itself: `rows()`, `height()` and `get_tensor()` say all."""
        return self

    def get_tensor(self) -> Tensor:
        """The values [n, width]: what is written to them is seen here."""
        return self._values

    @property
    def table_shape(self) -> list[Any]:
        """The shape of the table whose gradient it is."""
        return [self._height, *self._values.shape[1:]]

    def __repr__(self) -> str:
        text = tensor_text(self._array("repr()"), self.dtype.name, self.stop_gradient, self.place)
        head = f"stop_gradient={self.stop_gradient},"
        return text.replace(head, f"{head} rows={self.rows()},", 1)

    # --- others like it

    def with_values(self, values: Tensor) -> SelectedRows:
        """The same rows, with other values."""
        made = SelectedRows(self._rows, values, self._height)
        made._name, made.stop_gradient, made._place = self._name, self.stop_gradient, self._place
        return made

    def merged(self) -> SelectedRows:
        """Each row once, in ascending order."""
        if len(self._rows) < 2 or bool((np.diff(self._rows) > 0).all()):
            return self
        order = np.argsort(self._rows, kind="stable")
        rows, starts = np.unique(self._rows[order], return_index=True)
        values = self._values._array("a sum of rows")
        made = SelectedRows(rows, Tensor._wrap(np.add.reduceat(values[order], starts, axis=0, dtype=values.dtype)), self._height)
        made._name, made.stop_gradient, made._place = self._name, self.stop_gradient, self._place
        return made

    def joined(self, other: SelectedRows) -> SelectedRows:
        """The sum with another gradient of the same table."""
        values = np.concatenate([self._values._array("a sum of rows"), other._values._array("a sum of rows")])
        return SelectedRows(np.concatenate([self._rows, other._rows]), Tensor._wrap(values), self._height).merged()

    def whole(self) -> Tensor:
        """The gradient as a tensor as large as the table, with zeros where nothing was read."""
        part = self.merged()
        values = part._values._array("the gradient of a table")
        array = np.zeros((self._height, *values.shape[1:]), values.dtype)
        array[part._rows] = values
        made = Tensor._wrap(array)
        made._name, made.stop_gradient, made._place = self._name, self.stop_gradient, self._place
        return made

    def read(self) -> Array | Tensor:
        """Whether each row of the table was read: bool [height, 1, ...]."""
        found = np.zeros((self._height, *(1 for _ in self.shape[1:])), bool)
        found[self._rows] = True
        return found

    # --- what tensors have

    def detach(self) -> SelectedRows:
        """The same rows and values: a write to the values of either is seen in both."""
        made = self.with_values(self._values)
        made._name, made.stop_gradient = None, True
        return made

    def clone(self) -> SelectedRows:
        """A copy."""
        made = self.with_values(Tensor._wrap(self._array("clone()").copy()))
        made._name = None
        return made

    def astype(self, dtype: Any) -> SelectedRows:
        """The values in another dtype."""
        return self.with_values(self._values.astype(dtype))

    cast = astype

    def set_value(self, value: Any) -> None:
        """Replace the values [n, width]."""
        self._values.set_value(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> SelectedRows:
        return self.clone()

    def __reduce__(self) -> NoReturn:
        self._refuse()

    # --- products and sums with a number

    def _by_number(self, apply: Callable[[Tensor, Any], Any], other: Any) -> SelectedRows:
        if isinstance(other, SelectedRows) or isinstance(other, Tensor) and other.size != 1 or not isinstance(other, (Tensor, int, float)):
            self._refuse()
        values = apply(self._values, other)
        return self.with_values(values if values.shape == self._values.shape else self._refuse())

    def __mul__(self, other: Any) -> SelectedRows:
        return self._by_number(lambda values, number: values * number, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SelectedRows:
        return self._by_number(lambda values, number: values / number, other)

    def __add__(self, other: Any) -> SelectedRows:
        return self._by_number(lambda values, number: values + number, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> SelectedRows:
        return self._by_number(lambda values, number: values - number, other)

    def __neg__(self) -> SelectedRows:
        return self.with_values(-self._values)


def added(a: Tensor, b: Tensor, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The sum of two gradients of which at least one is rows: rows where both are."""
    if isinstance(a, SelectedRows) and isinstance(b, SelectedRows):
        return a.joined(b)
    return add(whole(a), whole(b))


def whole(gradient: Tensor) -> Tensor:
    """A gradient as a tensor as large as what it belongs to."""
    return gradient.whole() if isinstance(gradient, SelectedRows) else gradient


def rows_of(table: Tensor, positions: Array, gradient: Tensor) -> SelectedRows:
    """The gradient of a table [height, width] of which the rows at `positions` were read, out of the gradient [*positions, width] of what
    was read.
    """
    height, *row = table.type.shape
    values = gradient._array("the gradient of a table").reshape(-1, *row).astype(table.type.dtype.np, copy=False)
    return SelectedRows(positions.reshape(-1).astype(np.int64), Tensor._wrap(values), int(height))


def held_values(gradient: Tensor) -> Tensor:
    """The tensor that a gradient's numbers are in: what is written to it is seen in the gradient."""
    return gradient._values if isinstance(gradient, SelectedRows) else gradient


def values_of(gradients: Iterable[Tensor]) -> list[Tensor]:
    """What norms of gradients are made of: each gradient, or of one that is rows each row once."""
    return [held_values(g.merged() if isinstance(g, SelectedRows) else g) for g in gradients]


def on_values(apply: Callable[[Tensor], Tensor], gradient: Tensor) -> Tensor:
    """A gradient with each of its elements changed; of one that is rows, those that were read, each row once."""
    if not isinstance(gradient, SelectedRows):
        return apply(gradient)
    merged = gradient.merged()
    return merged.with_values(apply(held_values(merged)))
