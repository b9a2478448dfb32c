"""What is installed is this tree, whole; and importing it stays light."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"frontend": "polyreme", **{room: f"polyreme.{room}" for room in ("ir", "dialects", "lowering", "runtime")}}
DATA = {".lark", ".ll", ".npz", ".txt", ".h"}


def module_name(path: Path) -> str:
    """The name under which a Python file of the tree is imported."""
    room, *rest = path.relative_to(ROOT).with_suffix("").parts
    parts = rest[:-1] if rest[-1] == "__init__" else rest
    return ".".join([ROOMS[room], *parts])


def python_files() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def installed_at(name: str) -> Path | None:
    """The file that `import name` would run, without running it (its parent packages are imported)."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None


def test_every_file_of_the_tree_is_importable() -> None:
    """A strict editable install is a folder of links: a file made after it is missing until it is made again."""
    missing = [str(path.relative_to(ROOT)) for path in python_files() if installed_at(module_name(path)) != path.resolve()]
    assert not missing, f"the install is stale, run 'pip install -e .' again: {', '.join(missing)} cannot be imported from this tree"


def test_data_files_are_installed_beside_their_packages() -> None:
    missing = []
    for path in sorted(p for room in ROOMS for p in (ROOT / room).rglob("*") if p.suffix in DATA or p.name == "py.typed"):
        package = installed_package_folder(path)
        if package is None or not (package / path.name).is_file():
            missing.append(str(path.relative_to(ROOT)))
    assert not missing, f"the install is stale, run 'pip install -e .' again: {', '.join(missing)} are not beside their package"


def installed_package_folder(path: Path) -> Path | None:
    spec = importlib.util.find_spec(module_name(path.parent / "__init__.py"))
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(locations[0]) if locations else None


def test_a_file_that_is_not_installed_is_found() -> None:
    assert installed_at("polyreme.ir.core") == ROOT / "ir" / "core.py"
    assert installed_at("polyreme.ir.no_such_file") is None
    assert installed_at("polyreme.no_such_folder.file") is None


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT / "tests", check=True)
    return done.stdout


def test_importing_the_package_loads_neither_llvm_nor_the_compiler() -> None:
    loaded = set(json.loads(python("import json, sys, polyreme; print(json.dumps(sorted(sys.modules)))")))
    heavy = {
        name for name in loaded if name.split(".")[0] in ("llvmlite", "lark", "numpy", "rich", "click") or name.startswith("polyreme.")
    }
    assert not heavy


def test_building_a_layer_loads_no_llvm() -> None:
    loaded = json.loads(python("import json, sys, polyreme as paddle; paddle.nn.Linear(2, 3); print(json.dumps(sorted(sys.modules)))"))
    assert "polyreme.nn" in loaded
    assert not [name for name in loaded if name.split(".")[0] in ("llvmlite", "lark")]


def test_making_a_tensor_loads_neither_llvm_nor_the_parser_nor_the_command_line() -> None:
    loaded = json.loads(python("import json, sys, polyreme as paddle; paddle.to_tensor([1.0]); print(json.dumps(sorted(sys.modules)))"))
    assert "polyreme.tensor" in loaded
    assert not [name for name in loaded if name.split(".")[0] in ("llvmlite", "lark", "rich", "click")]


def test_the_version_is_that_of_the_distribution() -> None:
    metadata = pytest.importorskip("importlib.metadata")
    assert python("import polyreme; print(polyreme.__version__)").strip() == metadata.version("polyreme")


def test_every_listed_name_loads() -> None:
    import polyreme

    missing = [name for name in dir(polyreme) if not hasattr(polyreme, name)]
    assert not missing
    assert {"nn", "jit", "to_tensor", "Tensor", "no_grad", "seed", "save", "compile", "inspect", "load_compiled"} <= set(dir(polyreme))


def test_an_unknown_name_is_an_attribute_error_with_the_nearest_known_one() -> None:
    import polyreme

    with pytest.raises(AttributeError, match="did you mean 'to_tensor'"):
        _ = polyreme.to_tenser
