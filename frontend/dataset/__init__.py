"""`paddle.dataset`: readers of published data, as older programs use them. Nothing is downloaded: files are found where Paddle keeps what
it downloaded.
"""

from typing import TYPE_CHECKING

from polyreme.dataset import flowers
from polyreme.names import absent_from, listed

__all__ = ["flowers"]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
