"""What all tests share: a cache of compiled code that is theirs alone, so that no test depends on what ran before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYREME_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
