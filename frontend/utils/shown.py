"""How objects of the API print: as the call that makes one like them, `CosineAnnealingDecay(learning_rate=0.1, T_max=10)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

LONGEST = 60
"""Characters of one value; of what is longer the kind is shown."""
MOST = 6
"""Elements of a list that are shown."""
DEEPEST = 3
"""Lists and objects in one another that are shown; of what is deeper the kind is shown."""

# What is being printed: the outer lists and objects.
_around: ContextVar[tuple[Any, ...]] = ContextVar("_around", default=())


class Shown:
    """A class whose objects print with what they were made with, as far as they remember it and it is not the default."""

    _kept_as: ClassVar[Mapping[str, str]] = {}
    """The attributes that hold arguments, where they are called otherwise."""

    def _shown(self) -> dict[str, Any]:
        """What is printed, by name. By default the arguments of `__init__` that are attributes: of the same name, also with `_` in front,
        or as `_kept_as` says.
        """
        kept = getattr(self, "__dict__", {})
        found = {}
        for name, default in parameters_of(type(self)).items():
            for attribute in (self._kept_as.get(name, name), f"_{name}"):
                if attribute in kept:
                    if not is_same(kept[attribute], default):
                        found[name] = kept[attribute]
                    break
        return found

    def __repr__(self) -> str:
        return _inside(self, self._call_text)

    def _call_text(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{what}={text_of(value)}' for what, value in self._shown().items())})"


def _inside(value: Any, text: Callable[[], str]) -> str:
    """The text of a list or an object that holds others; only its kind where it holds itself, is too deep inside others, or raises an
    error: made in part, or of a class of the user's with ideas of its own, it is printed all the same.
    """
    around = _around.get()
    if len(around) >= DEEPEST or any(value is outer for outer in around):
        return _kind_text(value)
    token = _around.set((*around, value))
    try:
        return text()
    except Exception:
        return _kind_text(value)
    finally:
        _around.reset(token)


def _kind_text(value: Any) -> str:
    return f"{type(value).__name__}(…)"


def parameters_of(kind: Any) -> Mapping[str, Any]:
    """The parameters of a class with their defaults."""
    signature = inspect.signature(kind.__init__)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: p.default for name, p in list(signature.parameters.items())[1:] if p.kind in named}


def is_same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    plain = (bool, int, float, str)
    return (
        isinstance(value, plain)
        and isinstance(default, plain)
        and isinstance(value, bool) is isinstance(default, bool)
        and value == default
    )


def text_of(value: Any) -> str:
    """A value in few words: arrays by dtype and shape, functions by name, long lists by their beginning."""
    try:
        return _value_text(value)
    except Exception:
        return _kind_text(value)


def _value_text(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{str(value.dtype).removeprefix('paddle.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return _inside(value, lambda: _list_text(value))
    if isinstance(value, dict) or hasattr(value, "sublayers"):
        return f"{type(value).__name__}({len(value)})" if isinstance(value, dict) else type(value).__name__
    if isinstance(value, type) or inspect.isroutine(value):
        return str(value.__name__)
    if isinstance(value, str) and len(value) > LONGEST:
        return repr(f"{value[: LONGEST - 3]}…")
    text = repr(float(f"{value:.6g}")) if isinstance(value, float) else repr(value)
    return text if len(text) <= LONGEST and "\n" not in text and " at 0x" not in text else _kind_text(value)


def _list_text(values: list[Any] | tuple[Any, ...]) -> str:
    left, right = "[]" if isinstance(values, list) else "()"
    texts = [text_of(value) for value in values[:MOST]]
    if len(values) > MOST:
        texts[MOST // 2 :] = [f"… {len(values)} in all"]
    comma = "," if len(values) == 1 and left == "(" else ""
    return f"{left}{', '.join(texts)}{comma}{right}"


def length_of(call: Callable[[], int]) -> dict[str, int]:
    """`{"len": n}` for what knows its length; classes of users may not, and printing raises nothing."""
    try:
        return {"len": call()}
    except Exception:
        return {}
