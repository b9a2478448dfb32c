"""Calibration data: batches in whatever form they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.tensor import Tensor

__all__ = ["Batch", "batches_of"]


class Batch(NamedTuple):
    """The inputs of one call: arrays in order, or with the names they were given under."""

    arrays: list[Any]
    names: list[str] | None

    def ordered(self, inputs: Sequence[str], number: int) -> list[Any]:
        """The arrays in the order of a model's inputs; `number` is the batch's own, for errors."""
        if self.names is None:
            if len(self.arrays) != len(inputs):
                raise PolyremeError(
                    f"expected {len(inputs)} arrays ({', '.join(inputs)}) in batch {number} of the calibration data but got "
                    f"{len(self.arrays)}",
                    code="E1101",
                )
            return self.arrays
        missing = [n for n in inputs if n not in self.names]
        if missing or len(self.names) != len(inputs):
            unknown = next((n for n in self.names if n not in inputs), "")
            hint = did_you_mean(unknown, inputs) if unknown else ""
            raise PolyremeError(
                f"expected arrays for {', '.join(inputs)} in batch {number} of the calibration data but got "
                f"{', '.join(self.names) or 'none'}{hint}",
                code="E1101",
            )
        found = dict(zip(self.names, self.arrays, strict=True))
        return [found[n] for n in inputs]


def batches_of(data: Iterable[Any]) -> list[Batch]:
    """All batches of `data`; `PolyremeError` (E1101) where there are none, or one is no array, tensor, sequence of them or dict, is empty,
    or holds nan or infinity.
    """
    if isinstance(data, (np.ndarray, Tensor, Mapping)):
        raise PolyremeError(
            f"expected batches, such as a list of arrays or a DataLoader, as calibration data but got one {type(data).__name__}; write "
            f"[data] for a single batch",
            code="E1101",
        )
    batches = [_batch(item, i) for i, item in enumerate(data)]
    if not batches:
        raise PolyremeError("expected at least one batch of calibration data but got none", code="E1101")
    return batches


def _batch(item: Any, number: int) -> Batch:
    if isinstance(item, Mapping):
        return Batch([_array(v, number) for v in item.values()], [str(k) for k in item])
    if isinstance(item, (list, tuple)) and any(isinstance(v, (np.ndarray, Tensor)) for v in item):
        return Batch([_array(v, number) for v in item], None)
    return Batch([_array(item, number)], None)


def _array(value: Any, number: int) -> Any:
    if isinstance(value, Tensor):
        value = value.numpy()
    if not isinstance(value, np.ndarray):
        raise PolyremeError(
            f"expected arrays or tensors in batch {number} of the calibration data but got {type(value).__name__}", code="E1101"
        )
    if not value.size:
        raise PolyremeError(
            f"expected samples in batch {number} of the calibration data but got an array of shape {list(value.shape)}", code="E1101"
        )
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        wrong = value[~np.isfinite(value)][0]
        raise PolyremeError(
            f"expected finite numbers in batch {number} of the calibration data, which say how large numbers get, but got {wrong}",
            code="E1101",
        )
    return np.asarray(value, order="C")  # of a number, too, whose shape `ascontiguousarray` would change
