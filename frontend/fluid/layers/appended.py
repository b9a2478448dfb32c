"""What most functions of layers do: append one operator, and give the variables of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyreme.fluid.layer_helper import LayerHelper

__all__ = ["made", "made_all"]


def made_all(
    type: str, slots: Mapping[str, Any], attrs: Mapping[str, Any], outputs: Mapping[str, Any], *, name: str | None = None,
    fixed: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """The results of an operator in the order of `outputs`, which has an element type for each slot. No gradient flows through them where
    they are `fixed`.
    """
    helper = LayerHelper(type, name=name)
    results = {slot: helper.create_variable_for_type_inference(dtype, stop_gradient=fixed) for slot, dtype in outputs.items()}
    helper.append_op(type, slots, results, attrs, stop_gradient=fixed)
    return tuple(results.values())


def made(
    type: str, slots: Mapping[str, Any], attrs: Mapping[str, Any], dtype: Any, slot: str = "Out", *, name: str | None = None,
    fixed: bool = False,
) -> Any:  # fmt: skip
    """The result of an operator in one slot."""
    return made_all(type, slots, attrs, {slot: dtype}, name=name, fixed=fixed)[0]
