"""What the tests of static mode share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polyreme as paddle
from polyreme.utils import unique_name


@contextmanager
def static_mode() -> Iterator[tuple[paddle.static.Program, paddle.static.Program]]:
    """Static mode with fresh default programs, names and scope."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    paddle.enable_static()
    try:
        with unique_name.guard(), paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(main, startup):
            yield main, startup
    finally:
        paddle.disable_static()
