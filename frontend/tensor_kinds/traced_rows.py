"""Gradients of tables that were read by rows (`sparse=True`) in a step of training that is captured, where positions have no values yet.

Steps of optimizers and clips take such a gradient as the eager one (`selected_rows.py`): rows that were not read have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from polyreme import dtypes
from polyreme.math.creation import zeros_like
from polyreme.math.elementwise import add, where
from polyreme.math.scattering import rows_that_were_read
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows

__all__ = ["TracedRows"]


class TracedRows(SelectedRows):
    """The gradient of a table [height, width]: a tensor as large as the table, of which the rows at `positions` count.

    Which rows these are, and how many, is known at each run of the program only: `looked_at` is called, and raises, when somebody asks.
    """

    __slots__ = ("_looked_at", "_positions")

    def __init__(self, positions: Sequence[Tensor], gradient: Tensor, looked_at: Callable[[], NoReturn]):
        super().__init__(np.empty(0, np.int64), gradient, int(gradient.type.shape[0]))
        self._positions, self._looked_at = tuple(positions), looked_at

    def _refuse(self) -> NoReturn:
        self._looked_at()

    def _array(self, what: str) -> NoReturn:
        self._looked_at()

    @property
    def type(self) -> NoReturn:
        """That of the values [n, width], of which nobody knows the number."""
        self._looked_at()

    @property
    def dtype(self) -> dtypes.dtype:
        return self._values.dtype

    @property
    def table_shape(self) -> list[Any]:
        """The shape of the table whose gradient it is."""
        return list(self._values.shape)

    def rows(self) -> NoReturn:
        """The rows that were read: not known."""
        self._looked_at()

    def get_tensor(self) -> NoReturn:
        """The values of these rows: not known."""
        self._looked_at()

    def with_values(self, values: Tensor) -> TracedRows:
        """The same rows, with other values; those that were not read stay without one, whatever `values` has there."""
        return self._like(where(self.read(), values, zeros_like(values)))

    def _like(self, gradient: Tensor) -> TracedRows:
        made = TracedRows(self._positions, gradient, self._looked_at)
        made._name, made.stop_gradient, made._place = self._name, self.stop_gradient, self._place
        return made

    def merged(self) -> TracedRows:
        """Itself: each row stands there once."""
        return self

    def joined(self, other: SelectedRows) -> TracedRows:
        """The sum with another gradient of the same table."""
        if not isinstance(other, TracedRows):
            self._looked_at()
        return TracedRows((*self._positions, *other._positions), add(self._values, other._values), self._looked_at)

    def whole(self) -> Tensor:
        """The gradient as a tensor as large as the table, with zeros where nothing was read."""
        return self._values

    def read(self) -> Tensor:
        """Whether each row of the table was read: bool [height, 1, ...]."""
        return rows_that_were_read(self._positions, self._values)

    def clone(self) -> TracedRows:
        """A copy."""
        return self._like(self._values.clone())
