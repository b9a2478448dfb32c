"""Parameters: the tensors that layers own and optimizers update."""

from __future__ import annotations

import copy
from typing import Any

from polyreme.tensor import Tensor, rebuild

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf tensor that optimizers update. `trainable` is the opposite of `stop_gradient`. `frozen` is what `trainable` was set to last,
    which is what optimizers of fluid ask: for them a parameter whose gradient stops keeps the one that it has.
    """

    __slots__ = ("do_model_average", "frozen", "init_func", "is_distributed", "need_clip", "optimize_attr", "regularizer")

    optimize_attr: dict[str, float]
    regularizer: Any
    need_clip: bool
    is_distributed: bool
    frozen: bool
    do_model_average: bool | None

    def __init__(
        self,
        data: Any,
        name: str | None = None,
        trainable: bool = True,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        need_clip: bool = True,
        do_model_average: bool | None = None,
    ):
        super().__init__(data)
        self._name = name
        self.trainable = trainable
        self.persistable = True
        self.optimize_attr = {"learning_rate": learning_rate}
        self.regularizer = regularizer
        self.need_clip = need_clip
        self.do_model_average = do_model_average
        self.is_distributed = False

    @property
    def trainable(self) -> bool:
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.stop_gradient = self.frozen = not value

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = super().__deepcopy__(memo)
        for field in Parameter.__slots__:
            if hasattr(self, field):
                setattr(twin, field, copy.deepcopy(getattr(self, field), memo))
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {f: getattr(self, f) for f in Parameter.__slots__ if hasattr(self, f)}
        return _rebuild_parameter, (super().__reduce__()[1], fields)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


def _rebuild_parameter(parts: tuple[Any, ...], fields: dict[str, Any]) -> Tensor:
    parameter = rebuild(*parts)
    for name, value in fields.items():
        setattr(parameter, name, value)
    return parameter
