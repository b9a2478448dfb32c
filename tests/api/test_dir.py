"""What `dir()` and TAB show of public modules and tensors: the names for users, not what a module imports or is made of."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import polyreme as paddle
from tests.coverage_api import NAMES

# The compiler's own rooms, whose parts are modules for who works on it.
ROOMS = {"polyreme.ir", "polyreme.dialects", "polyreme.lowering", "polyreme.runtime"}


def there(module: ModuleType, name: str) -> Any:
    """The attribute, or None where it cannot be had, which a test of the module says."""
    try:
        return getattr(module, name)
    except Exception:
        return None


def public_modules() -> dict[str, ModuleType]:
    """Every module that is reached from `polyreme` by names that `dir` shows."""
    found: dict[str, ModuleType] = {}
    waiting: list[ModuleType] = [paddle]
    while waiting:
        module = waiting.pop()
        if module.__name__ in found or module.__name__ in ROOMS or module.__name__.partition(".")[0] != "polyreme":
            continue
        found[module.__name__] = module
        waiting += [value for name in dir(module) if inspect.ismodule(value := there(module, name))]
    return found


MODULES = public_modules()


def test_the_namespaces_of_paddle_are_among_them() -> None:
    wanted = (
        "nn nn.functional nn.initializer nn.utils static static.nn optimizer optimizer.lr io vision vision.models vision.transforms jit"
    )
    wanted += " vision.datasets vision.ops distributed distributed.fleet metric autograd device incubate utils regularizer quantization"
    assert {f"polyreme.{name}" for name in wanted.split()} | {"polyreme"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_shows_what_is_its_own(name: str) -> None:
    module = MODULES[name]
    shown = dir(module)
    assert shown and shown == sorted(set(shown))
    for attribute in shown:
        value = getattr(module, attribute)
        assert not attribute.startswith("_") or attribute in ("__version__", "_switch_scope", "_fetch_var"), attribute
        home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
        if inspect.ismodule(value) or inspect.isroutine(value) or inspect.isclass(value):
            assert str(home).partition(".")[0] == "polyreme", f"{attribute} is of {home}"
        else:
            assert type(value).__module__.partition(".")[0] in ("polyreme", "builtins"), f"{attribute} is a {type(value)}"


@pytest.mark.parametrize("name", sorted(set(MODULES) - {"polyreme"}))
def test_what_is_shown_is_what_a_star_imports(name: str) -> None:
    assert dir(MODULES[name]) == sorted(MODULES[name].__all__)


def test_every_documented_name_is_shown() -> None:
    hidden = []
    for entry in json.loads(NAMES.read_text(encoding="utf-8")):
        *path, last = entry["name"].split(".")[1:]
        value: Any = paddle
        try:
            for part in path:
                value = getattr(value, part)
            getattr(value, last)
        except AttributeError:
            continue  # which names there are is another test's subject
        if last not in dir(value):
            hidden.append(entry["name"])
    assert not hidden


def test_a_tensor_shows_all_methods_before_one_was_called() -> None:
    show = "import polyreme as p; print(*[n for n in dir(p.to_tensor([1.0])) if n[:2] != '__'])"
    first = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.split()
    assert {"abs", "matmul", "reshape_", "numpy", "shape"} <= set(first) and len(first) > 300
    assert not [name for name in first if re.match("_", name)]
    x = paddle.to_tensor([1.0])
    assert [name for name in dir(x) if name[:2] != "__"] == first
    assert all(hasattr(x, name) for name in first if name not in ("T", "t", "mT"))
