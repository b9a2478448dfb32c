"""The names of a public module: which it lists, and what it says of one that it does not have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from polyreme.ir.diagnostics import did_you_mean


def absent_from(package: str) -> Callable[[str], Any]:
    """A `__getattr__` for the module called `package`: an `AttributeError` that names the nearest of its public names."""

    def missing(name: str) -> Any:
        hint = "" if name.startswith("_") else did_you_mean(name, [n for n in dir(sys.modules[package]) if not n.startswith("_")])
        raise AttributeError(f"module '{package}' has no attribute '{name}'{hint}", name=name)

    return missing


def listed(package: str) -> Callable[[], list[str]]:
    """A `__dir__` for the module called `package`: the names of its `__all__`, not what it imports or is made of."""

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return names
