"""`paddle.static.nn.cond`, `while_loop`, `case` and `switch_case`: branches and loops by functions, eager or traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme import dispatch
from polyreme.ir.diagnostics import InferError, PolyremeError
from polyreme.ir.dims import Expr
from polyreme.math.reduction import all as all_of
from polyreme.operators.arguments import UnsupportedError
from polyreme.static.api import held_arrays
from polyreme.static.bodies import BlockNeededError
from polyreme.static.nested.loop_by_functions import branch_in_blocks, loop_in_a_block, undone_on_error
from polyreme.static.recorder import ProgramRecorder
from polyreme.tensor import Tensor

__all__ = ["case", "cond", "switch_case", "while_loop"]

Function = Callable[[], Any]


def cond(
    pred: Tensor, true_fn: Function | None = None, false_fn: Function | None = None, name: str | None = None, return_names: Any = None
) -> Any:
    """What `true_fn()` returns if `pred` holds, and what `false_fn()` does otherwise; None for a function that is None.

    `pred` is a bool tensor of one element. In a traced function both functions are run on stand-ins, and return the same structure of
    tensors.
    """
    pred = _predicate(pred, "cond")
    for fn, which in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if fn is not None and not callable(fn):
            raise TypeError(f"The {which} in cond must be callable, but received {type(fn).__name__}")
    return _branch(pred, true_fn, false_fn)


def _branch(pred: Tensor, then_fn: Function | None, else_fn: Function | None) -> Any:
    """A branch of ops; with blocks where a function appends to the program what ops do not hold."""
    if not isinstance(dispatch.active_trace(), ProgramRecorder):
        return held_arrays.branch(pred, then_fn, else_fn)
    try:
        return undone_on_error(lambda: held_arrays.branch(pred, then_fn, else_fn))
    except BlockNeededError:
        return undone_on_error(lambda: branch_in_blocks(pred, then_fn, else_fn))


def _predicate(pred: Any, where: str) -> Tensor:
    """The condition, checked; one of a free size has one element when the program runs."""
    if not isinstance(pred, Tensor):
        raise TypeError(f"{where} expected a bool tensor as the condition but got {type(pred).__name__} ({pred!r})")
    if pred.type.dtype.name != "i1":
        raise TypeError(
            f"{where} expected a bool tensor as the condition but got {pred.dtype}; compare it with something, or use paddle.cast"
        )
    if isinstance(pred.type.elements, Expr):
        return all_of(pred)
    if pred.type.elements != 1:
        raise ValueError(f"{where} expected a condition of one element but got a tensor of shape {list(pred.shape)}")
    return pred


def while_loop(
    cond: Callable[..., Tensor], body: Callable[..., Any], loop_vars: Sequence[Any], is_test: bool = False, name: str | None = None
) -> list[Any]:
    """`loop_vars` after `while cond(*loop_vars): loop_vars = body(*loop_vars)`.

    `cond` gives a bool tensor of one element, `body` a list or tuple of the same structure as `loop_vars`.
    """
    for fn, which in ((cond, "cond"), (body, "body")):
        if not callable(fn):
            raise TypeError(f"{which} in while_loop should be callable")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError(f"while_loop expected a list or tuple of loop_vars but got {type(loop_vars).__name__}")
    if not loop_vars:
        raise ValueError("loop_vars in while_loop should not be empty")

    def again(*values: Any) -> Any:
        pred = cond(*values)
        return _predicate(pred, "while_loop")

    def step(*values: Any) -> list[Any]:
        made = body(*values)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        if len(made) != len(loop_vars):
            raise ValueError(
                f"body in while_loop should return the same arity (length and structure) and types as loop_vars: {len(loop_vars)} values "
                f"but it returned {len(made)}"
            )
        return made

    if not isinstance(dispatch.active_trace(), ProgramRecorder):
        return held_arrays.loop(again, step, loop_vars)
    try:
        return list(undone_on_error(lambda: held_arrays.loop(again, step, loop_vars)))
    except (InferError, UnsupportedError, BlockNeededError) as error:
        try:
            return list(undone_on_error(lambda: loop_in_a_block(again, step, loop_vars)))
        except PolyremeError as other:
            raise (other if isinstance(error, BlockNeededError) else error) from None


def case(pred_fn_pairs: Sequence[tuple[Tensor, Function]], default: Function | None = None, name: str | None = None) -> Any:
    """What the function beside the first condition that holds returns, or what `default()` does: without one, the last function."""
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError(f"case expected a list or tuple of pairs but got {type(pred_fn_pairs).__name__}")
    pairs = []
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"case expected tuples of a condition and a function but got {pair!r}")
        pairs.append((_predicate(pair[0], "case"), pair[1]))
        if not callable(pair[1]):
            raise TypeError("The fn of pred_fn_pairs in Op(case) must be callable.")
    if default is not None and not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    if default is None:
        if not pairs:
            raise ValueError("case expected a pair of a condition and a function, or a default, but got neither")
        default = pairs.pop()[1]
    return _first(pairs, default)


def _first(pairs: Sequence[tuple[Tensor, Function]], default: Function) -> Any:
    if not pairs:
        return default()
    (pred, fn), *others = pairs
    return _branch(pred, fn, lambda: _first(others, default))


def switch_case(branch_index: Tensor, branch_fns: Any, default: Function | None = None, name: str | None = None) -> Any:
    """What the function of number `branch_index` returns, or what `default()` does: without one, the function of the largest number.

    `branch_fns` is a dict of functions by number, a list of pairs of a number and a function, or a list of functions. `branch_index` is one
    integer, uint8, int32 or int64.
    """
    if not isinstance(branch_index, Tensor):
        raise TypeError(f"switch_case expected an integer tensor as branch_index but got {type(branch_index).__name__} ({branch_index!r})")
    if branch_index.type.dtype.name not in ("ui8", "i32", "i64"):
        raise TypeError(f"switch_case expected a branch_index of uint8, int32 or int64 but got {branch_index.dtype}")
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise TypeError(f"switch_case expected a list, tuple or dict of functions but got {type(branch_fns).__name__}")
    given = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if all(callable(fn) for fn in given):
        given = list(enumerate(given))
    known: dict[int, Function] = {}
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], int) or not callable(pair[1]):
            raise TypeError(f"switch_case expected tuples of a number and a function but got {pair!r}")
        if pair[0] in known:
            raise ValueError(f"The key in 'branch_fns' must be unique, but '{pair[0]}' appears more than once.")
        known[pair[0]] = pair[1]
    if default is not None and not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    if default is None:
        if not known:
            raise ValueError("switch_case expected functions, or a default, but got neither")
        default = known.pop(max(known))
    index = branch_index.astype("int64")
    return _first([(index == dispatch.full((), number, index.type.dtype), fn) for number, fn in known.items()], default)
