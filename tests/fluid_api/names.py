"""`python -m tests.fluid_api.names`: write `names.json`, the names of `paddle.fluid` without `fluid.layers`, with their signatures.

Run it in a python that has Paddle 1.8.5 (Python 3.8). They are what its modules export, the public members of the exported classes (but
those of dygraph, which the 2.x API has under the same names), and `older.json`: what pages of earlier releases document. A signature
is 1.8.5's where it has the name, the page's otherwise.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from tests.static_api.names import signature_of

FOLDER = Path(__file__).parent
FILE = FOLDER / "names.json"
MODULES = (
    "average", "backward", "clip", "compiler", "data_feeder", "dygraph", "executor", "framework", "initializer", "input", "io",
    "lod_tensor", "metrics", "nets", "optimizer", "parallel_executor", "param_attr", "profiler", "reader", "regularizer", "transpiler",
    "unique_name",
)  # fmt: skip
# Classes of the package itself whose members are asked for, beside those of the modules' classes.
CLASSES = ("DataFeedDesc", "LoDTensor", "LoDTensorArray", "Scope")
MEMBERS_IN_FRAMEWORK = ("Block", "Operator", "Parameter")


def stored() -> list[dict[str, Any]]:
    """The names: `name`, `signature` (None where there is none to tell) and `since`, "1.8.5" or "older"."""
    names: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return names


def in_index() -> list[dict[str, Any]]:
    """The same for the index of `fluid.layers`; `unbind` came later than 1.8.5."""
    told: dict[str, str | None] = json.loads((FOLDER / "layers.json").read_text(encoding="utf-8"))
    return [
        {"name": "paddle.fluid.layers." + name, "signature": signature, "since": "older" if name == "unbind" else "1.8.5"}
        for name, signature in told.items()
    ]


def members_of(value: type) -> dict[str, str | None]:
    """Public members that Paddle defines, with signatures; None for properties."""
    found = {}
    for base in value.__mro__:
        if base.__module__.startswith("paddle"):
            for name in vars(base):
                if not name.startswith("_"):
                    member = inspect.getattr_static(value, name)
                    plain = inspect.isroutine(member) or isinstance(member, (staticmethod, classmethod))
                    found.setdefault(name, signature_of(getattr(value, name)) if plain else None)
    return found


def main() -> None:
    fluid = importlib.import_module("paddle.fluid")
    found: dict[str, str | None] = {}

    def add(name: str, value: Any) -> None:
        found[name] = signature_of(value)
        if inspect.isclass(value) and not name.startswith("paddle.fluid.dygraph."):
            for member, told in members_of(value).items():
                found[f"{name}.{member}"] = told

    at_top = {n for n in fluid.__all__ if hasattr(fluid, n)}  # its list names some that are not there
    for name in sorted(at_top):
        value = getattr(fluid, name)
        if inspect.ismodule(value):
            found["paddle.fluid." + name] = None
        else:
            add("paddle.fluid." + name, value)
    for name in CLASSES:
        add("paddle.fluid." + name, getattr(fluid, name))
    for name in MEMBERS_IN_FRAMEWORK:
        add("paddle.fluid.framework." + name, getattr(fluid.framework, name))
    for module in MODULES:
        home = importlib.import_module("paddle.fluid." + module)
        for name in home.__all__:
            if name not in at_top or module in ("io", "dygraph"):
                add(f"paddle.fluid.{module}.{name}", getattr(home, name))
    entries = {n: {"name": n, "signature": s, "since": "1.8.5"} for n, s in found.items()}
    for name, told in json.loads((FOLDER / "older.json").read_text(encoding="utf-8")).items():
        entries.setdefault(name, {"name": name, "signature": told, "since": "older"})
    FILE.write_text("[\n" + ",\n".join(json.dumps(entries[n]) for n in sorted(entries)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
