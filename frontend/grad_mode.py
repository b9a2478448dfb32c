"""Whether ops are recorded for gradients, in each thread: the switches of `tape.py`; and whether tensors do as in Paddle 1."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from polyreme.utils.shown import Shown

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class _State(threading.local):
    enabled = True


_state = _State()


class _Manner(threading.local):
    """Whether functions of `fluid` run at once in this thread, inside `fluid.dygraph.guard()`: then `backward()` replaces the gradients
    that there were and keeps those of tensors on its way (`tape.py`), and a part of one element has the shape [1] (`math/indexing.py`).
    There the last `train()` or `eval()` of any Layer of `fluid.dygraph` says whether its functions train, such as `dropout`.
    """

    paddle_1 = False
    trains = True

    def key(self) -> tuple[bool, bool]:
        """What compiled functions differ by."""
        return self.paddle_1, self.trains


MANNER = _Manner()


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread."""
    return _state.enabled


class set_grad_enabled(Shown):
    """Record ops or not, from now on; as a context manager, until its end; as a decorator, inside the function."""

    def __init__(self, mode: bool):
        self.previous = [_state.enabled]
        self.mode = mode
        _state.enabled = mode

    def __enter__(self) -> None:
        _state.enabled = self.mode

    def __exit__(self, *_: Any) -> None:
        _state.enabled = self.previous[-1]


class _GradMode(Shown):
    """A context manager and decorator that switches recording; one object may be entered many times."""

    mode = True

    def __init__(self, func: Callable[..., Any] | None = None):
        self.saved: list[bool] = []

    def __new__(cls, func: Callable[..., Any] | None = None) -> Any:
        # `@no_grad` without parentheses decorates at once.
        if func is not None:
            return cls()(func)
        return super().__new__(cls)

    def __enter__(self) -> None:
        self.saved.append(_state.enabled)
        _state.enabled = self.mode

    def __exit__(self, *_: Any) -> None:
        _state.enabled = self.saved.pop()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(func):

            @functools.wraps(func)
            def steps(*args: Any, **kwargs: Any) -> Any:
                # Each step of a generator runs in the mode, what asks for the steps does not.
                made = func(*args, **kwargs)
                advance: Callable[[], Any] = functools.partial(next, made)
                while True:
                    try:
                        with type(self)():
                            value = advance()
                    except StopIteration as end:
                        return end.value
                    try:
                        sent = yield value
                        advance = functools.partial(made.send, sent)
                    except GeneratorExit:
                        made.close()
                        raise
                    except BaseException as error:
                        advance = functools.partial(made.throw, error)

            return steps

        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return func(*args, **kwargs)

        return inside


class no_grad(_GradMode):
    """Ops inside are not recorded. A context manager, or a decorator."""

    mode = False


class enable_grad(_GradMode):
    """Ops inside are recorded, even inside `no_grad`."""

    mode = True


class recording:
    """Switch recording for the `with`; the cheap inner form of the two above."""

    __slots__ = ("mode", "saved")

    def __init__(self, mode: bool):
        self.mode = mode

    def __enter__(self) -> None:
        self.saved, _state.enabled = _state.enabled, self.mode

    def __exit__(self, *_: object) -> None:
        _state.enabled = self.saved
