"""BLAKE2 by itself: `hashlib`, which has the same function by this name, loads OpenSSL beside it, which takes 5 ms of each start."""

try:
    from _blake2 import blake2b
except ImportError:
    # Not every Python has it apart.
    from hashlib import blake2b

__all__ = ["blake2b"]
