"""Texts of modules, read with a parser whose tables are kept from one process to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyreme.ir.builtin import Module

__all__ = ["read_module"]


def read_module(text: str, name: str) -> Module:
    """As `ir.text.parse_module`, a quarter of a second sooner where another process has read a text before."""
    from polyreme.ir.syntax.grammar import keep_tables
    from polyreme.ir.text import parse_module

    keep_tables(_kept)
    return parse_module(text, name)


def _kept(what: str, make: Callable[[], bytes]) -> bytes:
    from polyreme.ir import config
    from polyreme.runtime.cache import cache_in, digest_of

    cache = cache_in(config.cache_folder(), config.cache_limit())
    key = digest_of(what)
    found = cache.get(key)
    if found is None:
        found = make()
        cache.put(key, found)
    return found
