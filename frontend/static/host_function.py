"""`py_func`: a user's function as an operator that Python runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyreme.ir.diagnostics import caller_location
from polyreme.static.bodies import check_takes_operators
from polyreme.static.current import default_main_program
from polyreme.static.kinds import HOST, Arrays, Host, OperatorKind
from polyreme.static.operator import Operator, OperatorError
from polyreme.static.recorder import variable_of
from polyreme.static.variable import GRAD, Variable
from polyreme.tensor import Tensor

__all__ = ["py_func"]


class PyFunc(Host):
    """The kind of `py_func`; `data` is a `_FunctionCall`."""

    def differentiable(self, op: Operator) -> bool:
        return op.data.backward is not None

    def gradient(self, op: Operator, wrt: tuple[tuple[str, int], ...], seeds: tuple[tuple[str, int], ...]) -> tuple[OperatorKind, Any]:
        if len(seeds) != len(op.outputs["Out"]):
            missing = [name for i, name in enumerate(op.outputs["Out"]) if ("Out", i) not in seeds]
            raise OperatorError(
                f"expected gradients of all outputs of 'py_func' for its backward_func but '{missing[0]}' has none",
                op.location,
                code="E0608",
            )
        return HOST, _BackwardCall(op.uid, op.data.backward, op.data.skipped, tuple(i for _, i in wrt))


PY_FUNC = PyFunc()


class _FunctionCall(NamedTuple):
    """The host function of a `py_func`."""

    function: Callable[..., Any]
    backward: Callable[..., Any] | None
    skipped: frozenset[str]

    def __call__(self, op: Operator, inputs: Arrays) -> Arrays:
        made = self.function(*map(Tensor._wrap, inputs.get("X", ())))
        return {"Out": _arrays(made, len(op.outputs["Out"]), op)}


class _BackwardCall(NamedTuple):
    """The host function of its gradient: takes inputs, outputs and the outputs' gradients, gives the inputs' gradients."""

    uid: int
    function: Callable[..., Any]
    skipped: frozenset[str]
    wanted: tuple[int, ...]

    def __call__(self, op: Operator, inputs: Arrays) -> Arrays:
        kept = [
            Tensor._wrap(a)
            for slot in ("X", "Out")
            for name, a in zip(op.inputs.get(slot, ()), inputs.get(slot, ()), strict=True)
            if name not in self.skipped
        ]
        made = self.function(*kept, *map(Tensor._wrap, inputs["Out" + GRAD]))
        found = _arrays(made, len(op.inputs.get("X", ())), op)
        return {"X" + GRAD: [found[i] for i in self.wanted]}


def _arrays(made: Any, count: int, op: Operator) -> list[Any]:
    results = [] if made is None else list(made) if isinstance(made, (list, tuple)) else [made]
    if len(results) != count:
        raise OperatorError(f"expected the function of '{op.type}' to return {count} arrays but it returned {len(results)}", op.location)
    return [r._value if isinstance(r, Tensor) else np.asarray(r) for r in results]


def py_func(
    func: Callable[..., Any],
    x: Any,
    out: Any,
    backward_func: Callable[..., Any] | None = None,
    skip_vars_in_backward_input: Any = None,
) -> Any:
    """Call `func(*x)` when the program runs; `out`, variables made before with shape and dtype, take what it returns. Returns `out`.

    `func` gets tensors and returns arrays or tensors, one per variable (nothing for `out=None`). With `backward_func(*x, *out, *gradients
    of out)`, which returns the gradients of `x`, gradients flow through; the variables in `skip_vars_in_backward_input` are not handed to
    it.
    """
    if not callable(func):
        raise TypeError("Input func must be a function.")
    if backward_func is not None and not callable(backward_func):
        raise TypeError("Input backward_func must be a function.")
    check_takes_operators("py_func()")
    block = default_main_program().current_block()
    inputs = [variable_of(v, block) for v in _listed(x)]
    outputs = [variable_of(v, block) for v in _listed(out)]
    for variable in outputs:
        if not variable.has_shape:
            raise OperatorError(f"expected 'out' variables with a shape for py_func but '{variable.name}' has none", caller_location())
    skipped = {v if isinstance(v, str) else v.name for v in _listed(skip_vars_in_backward_input)}
    unknown = skipped - {v.name for v in (*inputs, *outputs)}
    if unknown:
        raise ValueError(f"expected variables of x and out in skip_vars_in_backward_input but got '{min(unknown)}'")
    data = _FunctionCall(func, backward_func, frozenset(skipped))
    block.add_operator("py_func", PY_FUNC, {"X": _names(inputs)}, {"Out": _names(outputs)}, {}, data)
    return out


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _names(variables: Sequence[Variable]) -> list[str]:
    return [v.name for v in variables]
