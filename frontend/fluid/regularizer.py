"""`fluid.regularizer`: penalties on weights, as operators that an optimizer appends."""

from __future__ import annotations

from typing import Any

from polyreme import regularizer
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.loaders.program_desc import SELECTED_ROWS
from polyreme.names import listed

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer", "WeightDecayRegularizer", "append_regularization_ops"]

WeightDecayRegularizer = regularizer.WeightDecayRegularizer


class L1DecayRegularizer(regularizer.L1Decay):
    """`regularization_coeff * sum(|p|)`."""

    def __init__(self, regularization_coeff: float = 0.0):
        super().__init__(regularization_coeff)

    @property
    def _regularization_coeff(self) -> float:
        return self.coeff

    def __call__(self, param: Any, grad: Any, block: Any) -> Any:
        """Append what it adds to the gradient of `param`; the variable of that."""
        return _scaled(_unary("sign", param), self.coeff)

    def __str__(self) -> str:
        return f"L1Decay, regularization_coeff={self.coeff:f}"


class L2DecayRegularizer(regularizer.L2Decay):
    """`regularization_coeff / 2 * sum(p * p)`."""

    def __init__(self, regularization_coeff: float = 0.0):
        super().__init__(regularization_coeff)

    @property
    def _regularization_coeff(self) -> float:
        return self.coeff

    def __call__(self, param: Any, grad: Any, block: Any) -> Any:
        """Append what it adds to the gradient of `param`; the variable of that."""
        return _scaled(param, self.coeff)

    def __str__(self) -> str:
        return f"L2Decay, regularization_coeff={self.coeff:f}"


L1Decay, L2Decay = L1DecayRegularizer, L2DecayRegularizer


def _unary(type: str, x: Any) -> Any:
    helper = LayerHelper(type)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type, {"X": x}, {"Out": out})
    return out


def _scaled(x: Any, factor: float) -> Any:
    helper = LayerHelper("scale")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("scale", {"X": x}, {"Out": out}, {"scale": factor})
    return out


def append_regularization_ops(parameters_and_grads: Any, regularization: Any = None) -> list[tuple[Any, Any]]:
    """Append the penalties to the gradients: that of a parameter, or else `regularization`; the pairs of parameter and gradient."""
    found = []
    for param, grad in parameters_and_grads:
        own = param.regularizer if param.regularizer is not None else regularization
        if grad is None or own is None:
            found.append((param, grad))
            continue
        block = grad.block.program.current_block()  # a step may be taken in a branch
        with grad.block.program.optimized_guard([param, grad]):
            penalty = own(param, grad, block) if callable(own) else _of_array_form(own, param)
            total = grad
            if grad.kind == SELECTED_ROWS:  # their sum with a penalty is none
                total = block.create_var(f"{grad.name}@NEWGRAD@", param.shape, param.dtype, persistable=False)
            block.append_op("sum", {"X": [grad, penalty]}, {"Out": [total]})
        found.append((param, total))
    return found


def _of_array_form(own: Any, param: Any) -> Any:
    """The penalty of a regularizer of `paddle.regularizer`."""
    return _scaled(param if isinstance(own, regularizer.L2Decay) else _unary("sign", param), own.coeff)


__dir__ = listed(__name__)
