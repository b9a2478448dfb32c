"""`fluid.clip`: clips of errors, which bound the gradient of one variable on its way back, and of gradients, which optimizers apply."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from polyreme.fluid.framework import default_main_program
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.loaders.program_desc import SELECTED_ROWS
from polyreme.names import listed
from polyreme.nn.clip import ClipGradBase
from polyreme.tensor_kinds.selected_rows import SelectedRows, on_values
from polyreme.utils.shown import Shown

__all__ = [
    "BaseErrorClipAttr", "BaseGradientClipAttr", "ErrorClipByValue", "GradientClipBase", "GradientClipByGlobalNorm",
    "GradientClipByNorm", "GradientClipByValue", "NullGradientClipAttr", "append_gradient_clip_ops", "error_clip_callback",
    "set_gradient_clip",
]  # fmt: skip

Pairs = Sequence[tuple[Any, Any]]


def _appended(type: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None, shape: Any = None) -> Any:
    """A variable with what an operator gives."""
    first = next(iter(inputs.values()))
    if isinstance(first, SelectedRows):
        return on_values(lambda values: _appended(type, {**inputs, "X": values}, attrs), first)
    helper = LayerHelper(type)
    like = first[0] if isinstance(first, list) else first
    out = helper.create_variable_for_type_inference(like.dtype, stop_gradient=True, shape=shape)
    helper.append_op(type, inputs, {"Out": out}, attrs)
    return out


def _whole(gradient: Any) -> Any:
    """A gradient as a tensor, where it is the rows of a table that were read."""
    if isinstance(gradient, SelectedRows):
        return gradient.merged().get_tensor()
    if getattr(gradient, "kind", None) != SELECTED_ROWS:
        return gradient
    return _appended("get_tensor_from_selected_rows", {"X": _appended("merge_selected_rows", {"X": gradient})})


class BaseErrorClipAttr(Shown):
    """What bounds the gradient of a variable: `_append_clip_op(block, name)` appends operators that do."""

    def _append_clip_op(self, block: Any, grad_name: str) -> None:
        raise NotImplementedError


class ErrorClipByValue(BaseErrorClipAttr):
    """Every element of the gradient is brought into [min, max]; `min` defaults to `-max`."""

    def __init__(self, max: float, min: float | None = None):
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"ByValue, min={self.min:f}, max={self.max:f}"

    def _append_clip_op(self, block: Any, grad_name: str) -> None:
        block.append_op("clip", {"X": grad_name}, {"Out": grad_name}, {"min": self.min, "max": self.max})


def error_clip_callback(block: Any, context: Any) -> None:
    """Bound the gradients that the last operator of `block` writes, where their variables ask for it."""
    op = block.ops[-1]
    for grad_name in op.output_arg_names:
        name = context.get(grad_name)
        variable = block._find_var_recursive(name) if name is not None else None
        clip = getattr(variable, "error_clip", None)
        if clip is None:
            continue
        if not isinstance(clip, BaseErrorClipAttr):
            raise TypeError("Variable's error_clip should be an instance of BaseErrorClipAttr or None.")
        clip._append_clip_op(block, grad_name)


def _as_update(parameter: Any, gradient: Any) -> AbstractContextManager[Any]:
    """Operators made inside belong to the update of a parameter; in dygraph mode there are none."""
    block = getattr(parameter, "block", None)
    return nullcontext() if block is None else block.program.optimized_guard([parameter, gradient])


class BaseGradientClipAttr(ClipGradBase):
    """A way to clip gradients: called on pairs of parameter and gradient, it appends operators and gives such pairs."""

    def __init__(self, need_clip: Any = None):
        if need_clip is not None and not callable(need_clip):
            raise TypeError(f"expected a function of a parameter as need_clip but got {type(need_clip).__name__}")
        self._need_clip = need_clip

    def __call__(self, params_grads: Pairs) -> list[tuple[Any, Any]]:
        chosen = [(p, g) for p, g in params_grads if g is not None and self._takes(p)]
        made = {id(p): g for p, g in self._clip(chosen)}
        return [(p, made.get(id(p), g)) for p, g in params_grads]

    def _takes(self, parameter: Any) -> bool:
        if self._need_clip is not None:
            return bool(self._need_clip(parameter))
        return getattr(parameter, "need_clip", True)

    def _clip(self, pairs: Pairs) -> list[tuple[Any, Any]]:
        found = []
        for parameter, gradient in pairs:
            with _as_update(parameter, gradient):
                found.append((parameter, self._clipped(gradient)))
        return found

    def _clipped(self, gradient: Any) -> Any:
        return gradient


GradientClipBase = BaseGradientClipAttr


class NullGradientClipAttr(BaseGradientClipAttr):
    """No clip at all."""


class GradientClipByValue(BaseGradientClipAttr):
    """Every element is brought into [min, max]; `min` defaults to `-max`."""

    def __init__(self, max: float, min: float | None = None, need_clip: Any = None):
        super().__init__(need_clip)
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"Gradient Clip By Value, min = {self.min:f}, max={self.max:f}"

    def _clipped(self, gradient: Any) -> Any:
        return _appended("clip", {"X": gradient}, {"min": self.min, "max": self.max})


class GradientClipByNorm(BaseGradientClipAttr):
    """A gradient whose 2-norm is above `clip_norm` is scaled down to it, each by itself."""

    def __init__(self, clip_norm: float, need_clip: Any = None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def _clipped(self, gradient: Any) -> Any:
        return _appended("clip_by_norm", {"X": gradient}, {"max_norm": self.clip_norm})


class GradientClipByGlobalNorm(BaseGradientClipAttr):
    """All gradients (of one `group_name`) are scaled by one factor, so that their joint 2-norm is at most `clip_norm`."""

    def __init__(self, clip_norm: float, group_name: str = "default_group", need_clip: Any = None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def _clip(self, pairs: Pairs) -> list[tuple[Any, Any]]:
        if not pairs:
            return []
        squares = []
        for parameter, gradient in pairs:
            with _as_update(parameter, gradient):
                square = _appended("square", {"X": _whole(gradient)})
                squares.append(_appended("reduce_sum", {"X": square}, {"dim": [0], "keep_dim": False, "reduce_all": True}, [1]))
        with _as_update(*pairs[0]):
            norm = _appended("sqrt", {"X": _appended("sum", {"X": squares})})
            limit = LayerHelper("fill_constant").constant([1], norm.dtype, self.clip_norm)
            factor = _appended("elementwise_div", {"X": limit, "Y": _appended("elementwise_max", {"X": limit, "Y": norm})})
        found = []
        for parameter, gradient in pairs:
            with _as_update(parameter, gradient):
                found.append((parameter, _appended("elementwise_mul", {"X": gradient, "Y": factor})))
        return found



def set_gradient_clip(clip: Any, param_list: Any = None, program: Any = None) -> None:
    """Let the gradients of parameters (all of `program` by default, or those in `param_list`, by variable or name) be clipped."""
    if not isinstance(clip, BaseGradientClipAttr):
        raise TypeError("'clip' should be an instance of GradientClipBase's derived class")
    chosen = program or default_main_program()
    for item in chosen.global_block().all_parameters() if param_list is None else param_list:
        parameter: Any = chosen.global_block().var(item) if isinstance(item, str) else item
        parameter.gradient_clip_attr = clip


def append_gradient_clip_ops(params_grads: Pairs) -> list[tuple[Any, Any]]:
    """Append what the parameters' own clips say; the pairs of parameter and gradient. Those of one group are clipped together."""
    groups: dict[Any, tuple[Any, list[tuple[Any, Any]]]] = {}
    for parameter, gradient in params_grads:
        clip = getattr(parameter, "gradient_clip_attr", None)
        if clip is None or gradient is None:
            continue
        if not isinstance(clip, BaseGradientClipAttr):
            raise TypeError("clip attribute should be an instance of GradientClipBase")
        key: Any = id(parameter)
        if isinstance(clip, GradientClipByGlobalNorm):
            key = clip.group_name
            if groups.get(key, (clip, []))[0].clip_norm != clip.clip_norm:
                raise ValueError("All parameters' 'clip_norm' of a same group should be the same")
        known = groups.setdefault(key, (clip, []))
        known[1].append((parameter, gradient))
    made = {id(p): g for clip, pairs in groups.values() for p, g in clip(pairs)}
    return [(p, made.get(id(p), g)) for p, g in params_grads]


__dir__ = listed(__name__)
