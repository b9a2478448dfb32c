"""What MODEL and `--input` mean on the command line."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.python.records import dataclass

if TYPE_CHECKING:
    from polyreme.ir.builtin import Module
    from polyreme.static import InputSpec

_INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>[a-z]+\d*)\[(?P<sizes>[^\[\]]*)\]\Z")
_SHORT = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i1": "bool", "ui8": "uint8", "u8": "uint8"}
_SHORT |= {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
LIBRARY_SUFFIXES = (".so", ".dylib", ".dll", ".cubin", ".wasm")
IR_SUFFIXES = (".tir", ".mlir")


def parse_input(text: str) -> InputSpec:
    """`image=f32[N,1,28,28]` as a spec: the name may be left out; a size is a number, a name, `?` or -1; `f32[]` has rank 0."""
    from polyreme.dtypes import DTYPES
    from polyreme.static import InputSpec

    match = _INPUT.match(text.replace(" ", ""))
    if match is None:
        raise click.BadParameter(f"expected name=dtype[sizes], such as image=f32[N,1,28,28], but got '{text}'")
    dtype = _SHORT.get(match["dtype"], match["dtype"])
    if dtype not in DTYPES:
        raise click.BadParameter(
            f"expected a dtype ({', '.join([*_SHORT, *DTYPES])}) but got '{dtype}'{did_you_mean(dtype, [*_SHORT, *DTYPES])}"
        )
    sizes = [s for s in match["sizes"].split(",") if s] if match["sizes"] else []
    shape = [None if s in ("?", "-1", "None") else int(s) if s.isdigit() else s for s in sizes]
    try:
        return InputSpec(shape, dtype, match["name"])
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


input_option = click.option(
    "--input", "inputs", multiple=True, metavar="NAME=DTYPE[SIZES]", callback=lambda _, __, values: [parse_input(v) for v in values],
    help="What the model takes, such as image=f32[N,1,28,28]; once per input. Replaces the model's own input_spec.",
)  # fmt: skip


@dataclass(frozen=True)
class LoadedModel:
    """Something the command line can work with: `kind` is "python", "saved", "paddle", "ir" or "library"; `value` the Layer, program,
    module or path.
    """

    kind: str
    name: str
    value: Any
    specs: Sequence[InputSpec] = ()

    def module(self, freeze: bool = False, steps: bool = False) -> Module:
        """The model's IR; weights are arguments, or with `freeze` constants. A library has none. With `steps` the model may be a function
        that takes a step of training.
        """
        from polyreme.compiled.inspection import inspected_module, model_module

        self._check_has_ir()
        with redirect_stdout(sys.stderr):  # what the model prints is no result of ours
            return (inspected_module if steps else model_module)(self.value, list(self.specs) or None, freeze)

    def runnable(self) -> tuple[Module, list[Any] | None]:
        """As `compiled.inspection.runnable_module`."""
        from polyreme.compiled.inspection import runnable_module

        self._check_has_ir()
        with redirect_stdout(sys.stderr):
            return runnable_module(self.value, list(self.specs) or None)

    def _check_has_ir(self) -> None:
        if self.kind == "library":
            raise PolyremeError(f"expected a model but '{self.name}' is a compiled library, which holds no IR", code="E0002")
        if self.kind == "ir" and self.specs:
            raise PolyremeError(f"expected no --input with IR text: '{self.name}' says itself what it takes", code="E0002")


def find_model(text: str, specs: Sequence[InputSpec] = ()) -> LoadedModel:
    """The model that MODEL names; `PolyremeError` or `FileNotFoundError` says what is missing."""
    from polyreme.jit.saved_files import SUFFIX
    from polyreme.loaders import PROGRAM_SUFFIXES, find_program, read_model

    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py"):
        return LoadedModel("python", name, load_python(Path(path), name), specs)
    file = Path(text)
    if file.suffix == ".py":
        raise PolyremeError(
            f"expected the name of a Layer or function after the file, as in {text}:{_classes(file)[0] if _classes(file) else 'Net'}",
            code="E0002",
        )
    if file.suffix in LIBRARY_SUFFIXES:
        return LoadedModel("library", file.stem, existing(file), specs)
    if file.suffix in IR_SUFFIXES:
        return LoadedModel("ir", file.stem, read_ir(existing(file)), specs)
    if file.suffix == SUFFIX or Path(text + SUFFIX).is_file():
        from polyreme.jit import load

        return LoadedModel("saved", file.stem, load(text), specs)
    if find_program(file) is not None or file.suffix in PROGRAM_SUFFIXES:
        from polyreme.jit import TranslatedLayer, load

        return LoadedModel("paddle", file.stem, TranslatedLayer(read_model(file, specs=specs)) if specs else load(file))
    if file.exists():
        raise PolyremeError(
            f"expected file.py:Name, a saved model ({SUFFIX}), a model of Paddle's (.json, .pdmodel), a library (.so) or IR text (.tir) "
            f"but got '{text}'",
            code="E0002",
        )
    raise FileNotFoundError(
        f"expected a model but there is neither a file '{text}' nor a saved model '{text}{SUFFIX}', '{text}.json' or '{text}.pdmodel'"
    )


def read_ir(file: Path) -> Module:
    """The verified module in a file; `-` is standard input."""
    from polyreme import dialects
    from polyreme.compiled.texts import read_module
    from polyreme.ir.verify import verify

    assert dialects.DIALECTS  # importing the room is what makes its ops known
    name = "<stdin>" if str(file) == "-" else str(file)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        why = (
            f"expected IR as text in UTF-8 in '{name}' but its byte {error.start} belongs to none; "
            "`polyreme inspect MODEL --level nn -o FILE.tir` writes the text of a model"
        )
        raise PolyremeError(why, code="E0002") from None
    module = read_module(text, name)
    verify(module)
    return module


def load_file(file: Path) -> Any:
    """The module of a Python file, which is run."""
    existing(file)
    _check_name(file)
    # Beside the file's own folder, as Python itself has it: models import what stands next to them.
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise PolyremeError(f"expected a Python file but got '{file}'", code="E0002")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    _loaded.add(file.stem)
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except SyntaxError as error:
        if error.filename is None:  # not text at all
            raise PolyremeError(f"expected a Python file but got '{file}': {error.msg}", code="E0002") from None
        raise
    return module


_loaded: set[str] = set()
"""The names under which files were loaded here: another file of that name may take its place."""


def _check_name(file: Path) -> None:
    """A file that is called like a library would be found in its place by whoever imports that."""
    known = sys.modules.get(file.stem)
    if file.stem in sys.stdlib_module_names or (known is not None and file.stem not in _loaded and not _is_of(known, file)):
        raise PolyremeError(
            f"expected a file with a name of its own but '{file.name}' is called like the module '{file.stem}', which others import; "
            "rename it",
            code="E0002",
        )


def _is_of(module: Any, file: Path) -> bool:
    found = getattr(module, "__file__", None)
    return found is not None and Path(found).resolve() == file.resolve()


def load_python(file: Path, name: str) -> Any:
    """The Layer (made without arguments when it is a class) or function called `name` in a Python file, which is run."""
    module = load_file(file)
    if not hasattr(module, name):
        known = [n for n, v in vars(module).items() if not n.startswith("_") and getattr(v, "__module__", None) == file.stem]
        raise PolyremeError(
            f"expected '{name}' in {file} but it has {', '.join(known) or 'nothing'}{did_you_mean(name, known)}", code="E0002"
        )
    return _as_model(getattr(module, name), f"{file}:{name}")


def _as_model(value: Any, where: str) -> Any:
    from polyreme.nn.layer import Layer

    if isinstance(value, type):
        if not issubclass(value, Layer):
            raise PolyremeError(f"expected a Layer class, a Layer or a function but {where} is the class {value.__name__}", code="E0002")
        try:
            with redirect_stdout(sys.stderr):
                return value()
        except TypeError as error:
            raise PolyremeError(
                f"expected a Layer class that can be made without arguments but {where} cannot: {error}; name an instance instead",
                code="E0002",
            ) from error
    if not callable(value):
        raise PolyremeError(f"expected a Layer class, a Layer or a function but {where} is {value!r}", code="E0002")
    return value


def existing(file: Path) -> Path:
    """The file itself; an error if there is none, or a folder."""
    if file.is_dir():
        raise PolyremeError(f"expected a file but '{file}' is a folder", code="E0002")
    if not file.exists():
        raise FileNotFoundError(f"there is no file '{file}'")
    return file


def _classes(file: Path) -> list[str]:
    return re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE) if file.is_file() else []
