"""Switching between dygraph and static mode."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch

__all__ = ["disable_static", "enable_static", "in_dynamic_mode"]


def enable_static() -> None:
    """From now on functions append operators to the default main program, in this thread."""
    from polyreme.static.recorder import RECORDER

    dispatch.set_recorder(RECORDER)


def disable_static(place: Any = None) -> None:
    """Go back to dygraph mode, in which functions run at once."""
    from polyreme.device import as_place

    as_place(place)
    dispatch.set_recorder(None)


def in_dynamic_mode() -> bool:
    """Whether functions run at once (True, also while a function is traced), or append operators to a program (False)."""
    recorder = dispatch.active_trace()
    if recorder is None:
        return True
    from polyreme.static.recorder import ProgramRecorder

    # The bodies of branches and loops of a program are recorded by recorders of their own.
    return not isinstance(getattr(recorder, "outer", recorder), ProgramRecorder)
