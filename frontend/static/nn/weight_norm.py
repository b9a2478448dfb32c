"""`WeightNormParamAttr`: a weight that is a direction times a length, each a parameter of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme import dispatch
from polyreme import math as functions
from polyreme.ir.diagnostics import caller_location
from polyreme.nn.attributes import ParamAttr, make_parameter
from polyreme.static.current import default_startup_program, program_guard
from polyreme.static.operator import OperatorError
from polyreme.static.variable import named_variable
from polyreme.tensor import Tensor

__all__ = ["WeightNormParamAttr", "weight_of"]


class WeightNormParamAttr(ParamAttr):
    """Says that a weight is g * v / ||v||, of parameters g and v: one norm over all of v, or one per index of the axis `dim`.

    The other fields are those of `ParamAttr`; `initializer` fills v, and g starts as the norm of v, so that the weight starts as v.
    """

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
        gradient_clip: Any = None,
    ):
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip, gradient_clip)
        self.dim = dim


def weight_of(attr: WeightNormParamAttr, shape: Sequence[Any], dtype: Any, default: Any, name: str) -> Tensor:
    """The weight, computed from `NAME_v` and `NAME_g`, which are made in the current programs; in static mode only."""
    sizes = [int(n) for n in shape]
    if attr.dim is not None and not -1 <= attr.dim < len(sizes):
        raise ValueError(f"expected dim of WeightNormParamAttr to be None or an axis of {sizes} but got {attr.dim}")
    axis = None if attr.dim in (None, -1) else attr.dim
    base = attr.name or name
    direction, length = (_part(attr, f"{base}_{end}") for end in ("v", "g"))
    aligned = [sizes[i] if i == axis else 1 for i in range(len(sizes))]
    g = make_parameter(aligned, length, dtype, False, None, f"{base}_g")
    v = make_parameter(sizes, direction, dtype, False, default, f"{base}_v")
    if named_variable(v) is None:
        raise OperatorError(
            "expected static mode for a WeightNormParamAttr; use paddle.nn.utils.weight_norm in dygraph mode", caller_location()
        )
    assert v is not None and g is not None
    _start_length(v.name, g.name, axis)
    return functions.multiply(v, functions.divide(g, _norm(v, axis)))


def _part(attr: WeightNormParamAttr, name: str) -> ParamAttr:
    fields = (attr.initializer, attr.learning_rate, attr.regularizer, attr.trainable, attr.do_model_average, attr.need_clip)
    return ParamAttr(name, *fields)


def _norm(v: Tensor, axis: int | None) -> Tensor:
    """The norm of all of v, or one per index of an axis; with as many axes as v."""
    others = [i for i in range(v.ndim) if i != axis]
    return functions.sqrt(functions.sum(functions.square(v), others, keepdim=True))


def _start_length(v: str, g: str, axis: int | None) -> None:
    """Let the startup program set g to the norm of v, in place of what filled it."""
    startup = default_startup_program()
    block = startup.global_block()
    filler = next((op for op in block.ops if g in op.output_arg_names), None)
    if filler is not None:
        block.remove_op(filler.idx)
    with program_guard(startup, startup):
        dispatch.assign(block.var(g), _norm(block.var(v), axis))
