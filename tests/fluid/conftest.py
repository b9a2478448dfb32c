"""What tests of `paddle.fluid` start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polyreme import fluid


@pytest.fixture(autouse=True)
def own_programs() -> Iterator[None]:
    """Programs, names and a scope of each test's own."""
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield
