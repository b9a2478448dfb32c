"""What a captured function decides: by Python's own values as Python does, by tensors as branches and loops of the program.

The twin of a function that `flow.py` has rewritten calls these. Bodies of branches and loops may be run several times, and what they do to
tensors is undone and done where the op stands (`control_flow.py`); so they may not change any object that was there before them. A number
that a loop counts in Python becomes a tensor: a function that returns such a one, or keeps it, is only captured with `full_graph`, since it
would have been a number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from polyreme import control_flow, dispatch
from polyreme.control_flow import UNDEFINED
from polyreme.dialects import nn as ops
from polyreme.ir.diagnostics import PolyremeError, raised_location
from polyreme.ir.dims import Expr, UnknownSize
from polyreme.ir.types import i1, i64
from polyreme.jit.capture import numbers
from polyreme.jit.capture.watch import Reads
from polyreme.jit.capture.watched import NotWhole
from polyreme.tensor import Tensor

__all__ = ["Branches", "TensorRange"]

Thunk = Callable[[], Any]
Values = tuple[Any, ...]


class TensorRange:
    """A `range` with tensors for bounds."""

    def __init__(self, *bounds: Any):
        if len(bounds) == 1:
            bounds = (0, *bounds)
        if len(bounds) == 2:
            bounds = (*bounds, 1)
        self.start, self.stop, self.step = bounds
        if not isinstance(self.step, int) or self.step == 0:
            raise NotWhole("the step of a range is a tensor")


class Branches(Reads):
    """Choices and repetitions."""

    __slots__ = ()

    def undefined(self) -> Any:
        """The value of a variable that has none yet."""
        return UNDEFINED

    # --- choices


    def branch(
        self, test: Any, then: Thunk, orelse: Thunk, get: Thunk, put: Callable[[Values], None], names: Sequence[str], live: Sequence[str]
    ) -> None:
        """An `if` statement, which gives variables other values: `names`, of which those in `live` are read behind it."""
        if not isinstance(test, Tensor):
            (then if self.truth(test) else orelse)()
            return
        before = get()
        places = [names.index(name) for name in live]

        def body(run: Thunk) -> Any:
            put(before)
            run()
            values = get()
            return [values[place] for place in places]

        bound: list[list[Any]] = []

        def noted(run: Thunk) -> Any:
            bound.append(body(run))
            return bound[-1]

        made = self._chosen(test, lambda: noted(then), lambda: noted(orelse))
        for name, *values in zip(live, *bound, strict=True) if bound else ():
            self._check_bound(name, values)
        after = list(before)
        for place, value in zip(places, made, strict=True):
            after[place] = value
        put(tuple(after))

    def _check_bound(self, name: str, values: Sequence[Any]) -> None:
        """A variable of the user's has a value by all ways, or by none: reading it would be an error where it has none."""
        unset = [value is UNDEFINED for value in values]
        if any(unset) and not all(unset) and not name.startswith("__polyreme_"):
            raise NotWhole(f"the variable '{name}' has a value by some of the ways only that a tensor decides about; give it one before")

    def choice(self, test: Any, then: Thunk, orelse: Thunk, get: Thunk, put: Callable[[Values], None]) -> Any:
        """An `if` statement with which the function ends: what that returns."""
        if not isinstance(test, Tensor):
            return then() if self.truth(test) else orelse()
        before = get()

        def body(run: Thunk) -> Any:
            put(before)
            return run()

        return self._chosen(test, lambda: body(then), lambda: body(orelse))

    def select(self, test: Any, then: Thunk, orelse: Thunk) -> Any:
        """`then() if test else orelse()`."""
        if not isinstance(test, Tensor):
            return then() if self.truth(test) else orelse()
        return self._chosen(test, then, orelse)

    def _chosen(self, test: Tensor, then: Thunk, orelse: Thunk) -> Any:
        given: list[Any] = []

        def noted(run: Thunk) -> Any:
            given.append(run())
            return given[-1]

        made = control_flow.branch(test, lambda: self._inside(lambda: noted(then)), lambda: self._inside(lambda: noted(orelse)))
        self._note_numbers(made, given)
        return made

    def _note_numbers(self, made: Any, given: Sequence[Any]) -> None:
        """Remember of which results Python would have made numbers."""
        if isinstance(made, Tensor):
            if not any(isinstance(value, Tensor) and not self.is_number(value) for value in given):
                kinds: frozenset[str] = frozenset().union(*(numbers.kinds_of(self.state, value) for value in given))
                numbers.note(self.state, made, kinds, any(numbers.is_rounded(self.state, value) for value in given))
        elif isinstance(made, (list, tuple)):
            for i, part in enumerate(made):
                self._note_numbers(part, [value[i] for value in given if isinstance(value, (list, tuple)) and i < len(value)])
        elif isinstance(made, dict):
            for key, part in made.items():
                self._note_numbers(part, [value[key] for value in given if isinstance(value, dict) and key in value])

    def is_number(self, value: Any) -> bool:
        """Whether Python would have a number where a tensor stands."""
        return isinstance(value, Tensor) and self.state.is_number(value._value)

    # --- conditions

    def both(self, first: Any, second: Thunk) -> Any:
        """Whether `first and second()` holds."""
        if not isinstance(first, Tensor):
            return self._condition(second()) if self.truth(first) else False
        return self._as_number(control_flow.branch(first, lambda: self._inside(lambda: self._as_bool(second())), lambda: False))

    def either(self, first: Any, second: Thunk) -> Any:
        """Whether `first or second()` holds."""
        if not isinstance(first, Tensor):
            return True if self.truth(first) else self._condition(second())
        return self._as_number(control_flow.branch(first, lambda: True, lambda: self._inside(lambda: self._as_bool(second()))))

    def negated(self, value: Any) -> Any:
        """`not value`."""
        if not isinstance(value, Tensor):
            return not self.truth(value)
        return self._as_number(dispatch.call(ops.LogicalNot, self._as_bool(value)))

    def and_value(self, first: Any, second: Thunk) -> Any:
        """`first and second()`."""
        if not isinstance(first, Tensor):
            return second() if self.truth(first) else first
        return self._chosen(first, second, lambda: first)

    def or_value(self, first: Any, second: Thunk) -> Any:
        """`first or second()`."""
        if not isinstance(first, Tensor):
            return first if self.truth(first) else second()
        return self._chosen(first, lambda: first, second)

    def _condition(self, value: Any) -> Any:
        return value if isinstance(value, Tensor) else self.truth(value)

    def _as_number(self, made: Any) -> Any:
        if isinstance(made, Tensor):
            self.state.numbers.add(made._value)
        return made

    def _as_bool(self, value: Any) -> Any:
        """The truth of a value, as a tensor where that is not known."""
        if not isinstance(value, Tensor):
            return self.truth(value)
        if value.type.elements != 1:
            raise NotWhole(f"a condition is a tensor of shape {list(value.shape)}")
        single = dispatch.alias(value) if not value.ndim else dispatch.call(ops.Reshape, value, shape=())
        return single if single.type.dtype == i1 else dispatch.call(ops.Cast, single, dtype=i1)

    # --- repetitions


    def loop(
        self, condition: Thunk, body: Thunk, get: Thunk, put: Callable[[Values], None], names: Sequence[str], carried: Sequence[str]
    ) -> None:
        """A `while` statement."""
        while True:
            test = condition()
            if isinstance(test, Tensor):
                break
            if not self.truth(test):
                return
            body()
        self._repeat(lambda _: condition(), lambda _: body(), None, get, put, names, carried)


    def each(
        self,
        rows: Any,
        body: Callable[[Any], None],
        get: Thunk,
        put: Callable[[Values], None],
        names: Sequence[str],
        carried: Sequence[str],
        flag: str,
    ) -> None:
        """A `for` statement; the variable `flag`, where there is one, says that the loop was left."""
        if isinstance(rows, TensorRange):
            self._count(rows, body, get, put, names, carried, flag)
            return
        if isinstance(rows, Tensor) and rows.ndim and isinstance(rows.type.shape[0], Expr):
            raise NotWhole(f"a loop goes over a tensor of the free size '{rows.type.shape[0]}'")
        place = names.index(flag) if flag else -1
        for row in self.iterate(rows):
            left = get()[place] if flag else False
            if isinstance(left, Tensor):
                self.branch(left, lambda: None, functools.partial(body, row), get, put, names, carried)
            elif left:
                return
            else:
                body(row)


    def _count(
        self,
        rows: TensorRange,
        body: Callable[[Any], None],
        get: Thunk,
        put: Callable[[Values], None],
        names: Sequence[str],
        carried: Sequence[str],
        flag: str,
    ) -> None:
        place = names.index(flag) if flag else -1
        stop = rows.stop

        def more(count: Any) -> Any:
            left = get()[place] if flag else False
            if isinstance(left, bool) and left:
                return False
            inside = (
                dispatch.call(ops.Less, self._whole(count), self._whole(stop))
                if rows.step > 0
                else dispatch.call(ops.Greater, self._whole(count), self._whole(stop))
            )
            if isinstance(left, Tensor):
                return dispatch.call(ops.LogicalAnd, inside, dispatch.call(ops.LogicalNot, self._as_bool(left)))
            return inside

        self._repeat(more, body, (self._whole(rows.start), rows.step), get, put, names, carried)

    def _whole(self, value: Any) -> Tensor:
        """A whole number, or a tensor of one, as a tensor of int64."""
        if not isinstance(value, Tensor):
            return dispatch.full((), int(value), i64)
        if value.type.dtype.kind not in "iub" or value.type.elements != 1:
            raise TypeError(f"only integer tensors can be used as an index but got {value.dtype.name}")
        single = value if not value.ndim else dispatch.call(ops.Reshape, value, shape=())
        return single if single.type.dtype == i64 else dispatch.call(ops.Cast, single, dtype=i64)

    def _repeat(
        self, more: Callable[[Any], Any], body: Callable[[Any], None], counter: tuple[Tensor, int] | None, get: Thunk,
        put: Callable[[Values], None],
        names: Sequence[str], carried: Sequence[str],
    ) -> None:  # fmt: skip
        """A loop of the program: `counter` is where a count begins, and its step."""
        before = get()
        places = [names.index(name) for name in carried]

        def set_values(values: Sequence[Any]) -> None:
            now = list(before)
            for place, value in zip(places, values, strict=True):
                now[place] = value
            put(tuple(now))

        def condition(*values: Any) -> Any:
            note_numbers(values[1:] if counter else values)
            set_values(values[1:] if counter else values)
            return self._inside(lambda: self._as_bool(more(values[0] if counter else None)))

        def step(*values: Any) -> list[Any]:
            note_numbers(values[1:] if counter else values)
            set_values(values[1:] if counter else values)
            count = values[0] if counter else None
            if count is not None:
                self.state.numbers.add(count._value)
            self._inside(lambda: body(count))
            after = get()
            made = [after[place] for place in places]
            become_tensors.update(i for i, value in enumerate(made) if isinstance(value, Tensor) and not self.is_number(value))
            if counter:
                made.insert(0, dispatch.call(ops.Add, count, dispatch.full((), counter[1], i64)))
            return made

        start = [before[place] for place in places]
        first_kinds = [numbers.kinds_of(self.state, value) for value in start]

        become_tensors: set[int] = set()  # those that the body hands on as tensors of the user's

        def note_numbers(values: Sequence[Any]) -> None:
            for value, kinds in zip(values, first_kinds, strict=True):
                if kinds and isinstance(value, Tensor):
                    numbers.note(self.state, value, kinds, "f" in kinds)

        made = control_flow.loop(condition, step, [counter[0], *start] if counter else start)
        made = made[1:] if counter else made
        for i, (value, first) in enumerate(zip(made, start, strict=True)):
            # What a variable had no value for, or a number, before the loop may be a number after it.
            if isinstance(value, Tensor) and (not isinstance(first, Tensor) or self.is_number(first)):
                numbers.note(self.state, value, numbers.kinds_of(self.state, first), value.type.dtype.kind == "f")
                if i in become_tensors:
                    self.state.tensors_or_numbers.add(value._value)
        for name, first, value in zip(carried, start, made, strict=True):
            self._check_bound(name, (first, value))
        set_values(made)

    def _inside(self, run: Thunk) -> Any:
        """Run a body, which may change no object that was there before it."""
        self.state.born.append(set())
        try:
            return run()
        except (PolyremeError, UnknownSize):
            raise
        except Exception as error:
            raise NotWhole(f"{type(error).__name__}, if a tensor decides to come here: {error}", raised_location(error)) from None
        finally:
            self.state.born.pop()

    # --- what is new

    def made(self, value: Any) -> Any:
        """A list, dict or set that was just made."""
        for key in value if isinstance(value, (dict, set, frozenset)) else ():
            self.hashed(key)
        if self.state.born:
            self.state.born[-1].add(id(value))
            self.state.held.append(value)
        return value
