"""What tests of mixed precision share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import polyreme as paddle


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """Mixed precision takes effect on the CPU."""
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    yield
    paddle.set_flags({"FLAGS_amp_on_cpu": False})
