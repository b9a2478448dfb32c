"""Running the default programs."""

from __future__ import annotations

from typing import Any

from polyreme import fluid

PLACE = fluid.CPUPlace()


def run(fetch: Any, feed: Any = None, **options: Any) -> Any:
    return fluid.Executor(PLACE).run(feed=feed, fetch_list=fetch, **options)


def start() -> None:
    fluid.Executor(PLACE).run(fluid.default_startup_program())
