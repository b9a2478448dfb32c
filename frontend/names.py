"""What a package says of a name that it does not have."""

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
