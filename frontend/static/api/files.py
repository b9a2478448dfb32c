"""Bytes in files."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["load_from_file", "save_to_file"]


def save_to_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to a file."""
    if not isinstance(content, bytes):
        raise ValueError("'content' type should be bytes.")
    Path(path).write_bytes(content)


def load_from_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file."""
    return Path(path).read_bytes()
