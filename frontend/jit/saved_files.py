"""Where a saved model lies."""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".polyreme"


def model_file(path: str | os.PathLike[str]) -> Path:
    """The file meant by a prefix or the file's own name."""
    text = os.fspath(path)
    return Path(text if text.endswith(SUFFIX) else text + SUFFIX)
