"""Whether a module of `tests/fuzz/functions.py` is the same eagerly, with `to_static`, and with `to_static(full_graph=True)`.

After every call are compared: results, errors, gradients (those that are None too), and everything outside, with which objects are the same
one. At the end arguments are written, so that results which share memory with them show it, and random numbers are drawn. A full graph
makes its results anew where a tensor decides which one it is: of these it is not asked which is the same one.
"""

import contextlib
import hashlib
import importlib.util
import linecache
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.notes import LOGGER
from polyreme.jit.static_function import StaticFunction
from tests.fuzz.checks import Fault, time_limit

__all__ = ["check_functions"]

SIZES = (3, 3, 5, 3)
NUDGE = 1e-4  # so far inputs and weights are moved to see whether a branch hangs on it
Description = dict[str, Any]


def check_functions(text: str, seconds: float = 40.0) -> str:
    """What a module is: "whole", or "gathered" by default and "refused" as a full graph; "failing" eagerly; "unsteady" if its branches hang
    on rounding.
    """
    level = LOGGER.level
    with tempfile.TemporaryDirectory() as folder, time_limit(seconds), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LOGGER.setLevel("ERROR")
        path = Path(folder) / f"random_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
        path.write_text(text)
        try:
            return _compared(path)
        finally:
            LOGGER.setLevel(level)
            linecache.cache.pop(str(path), None)


def _compared(path: Path) -> str:
    try:
        expected = _Run(path, "eager").all()
    except Exception:
        return "failing"  # outside of the function: a part of a module that is no longer one
    if not expected.records:
        return "failing"
    for nudge in (NUDGE, -NUDGE):
        moved = _Run(path, "eager", nudge).all()
        if moved.failed != expected.failed or any(
            _difference(a, b, 3e-2, 1e-2) for a, b in zip(moved.records, expected.records, strict=True)
        ):
            return "unsteady"
    default = _Run(path, "default").all()
    _same(expected, default, "by default")
    full = _Run(path, "full").all()
    if not full.refused:
        _same(expected, full, "as a full graph")
    else:
        _same_records(expected, full, "as a full graph")
    how = "gathered" if default.static._gathered_calls else "whole"
    if expected.failed:
        return f"{how} up to an error"
    return how if not full.refused else f"{how}, refused as a full graph"


def _same_records(expected: "_Run", found: "_Run", how: str) -> None:
    full = found.way == "full"
    for call, (a, b) in enumerate(
        zip(expected.values if full else expected.records, found.values if full else found.records, strict=False)
    ):
        difference = _difference(a, b, 2e-4, 2e-5)
        if difference:
            where, details = difference
            if call == len(SIZES):
                where = f"shared memory of {where}"
            raise Fault(f"different {how}: {where}", f"call {call}: {details}")


def _same(expected: "_Run", found: "_Run", how: str) -> None:
    _same_records(expected, found, how)
    if "modified by an inplace operation" in str(expected.error):
        return  # gradients of what was kept: a program knows the values from before, which eager ops have no more
    if expected.failed != found.failed:
        raise Fault(
            f"different {how}: {_short(expected.failed)} eagerly, {_short(found.failed)}",
            f"call {len(found.records)}: {expected.error!r} against {found.error!r}",
        )


def _short(name: str) -> str:
    return name or "no error"


class _Run:
    """The calls of a freshly loaded module in one of the three ways."""

    def __init__(self, path: Path, way: str, nudge: float = 0.0):
        self.nudge = nudge
        self.way = way
        self.records: list[Description] = []
        self.values: list[Description] = []  # without which objects are the same one
        self.failed = ""  # the kind of the error that ended the calls
        self.error: BaseException | None = None
        self.refused = False
        paddle.seed(11)
        self.module = _loaded(path)
        entry = self.module.ENTRY
        self.entry: Callable[..., Any] = entry if way == "eager" else paddle.jit.to_static(entry, full_graph=way == "full")
        self.static: Any = None
        if way != "eager":
            self.static = self.entry if isinstance(self.entry, StaticFunction) else self.entry.forward
        if nudge:
            for t in _tensors(self.module):
                t.set_value(t.numpy() * np.float32(1 + nudge))

    def all(self) -> "_Run":
        module = self.module
        for call, size in enumerate(SIZES):
            if call:
                module.change(call)
            args = self.arguments(call, size)
            before = _described({"args": args, "module": module})
            number = module.NUMBERS[call]
            try:
                result = self.entry(*args, *([] if number is None else [number]))
                _backward(result)
            except PolyremeError as error:
                if self.way != "full":
                    self.fail(error)
                    break
                self.refused = True
                self.check_refusal(error)
                difference = _difference(before, _described({"args": args, "module": module}), 0, 0)
                if difference:
                    raise Fault(f"a refused capture changes {difference[0]}", f"call {call}: {difference[1]}\n{error}") from None
                break
            except Exception as error:
                self.fail(error)
                break
            last = call == len(SIZES) - 1
            self.records.append(_described({"args": args, "result": result, "module": module}))
            self.values.append(_described({"args": args, "result": result, "module": module}, identities=False))
            if last:
                with paddle.no_grad():
                    for t in args:
                        t.add_(paddle.full([], 0.5))
                self.records.append(_described({"args": args, "result": result, "module": module, "random": paddle.rand([2])}))
            elif call != 1:
                for t in _tensors({"args": args, "module": module}):
                    t.clear_grad()
        return self

    def fail(self, error: Exception) -> None:
        self.failed = type(error).__name__
        self.error = error

    def check_refusal(self, error: PolyremeError) -> None:
        place = error.diagnostics[0].location
        if place.file != self.module.__file__ or place.line < 1:
            raise Fault(f"a refusal without a place: {error.diagnostics[0].message[:40]}", str(error))

    def arguments(self, call: int, size: int) -> list[Any]:
        draw = np.random.RandomState(call)
        made = []
        for shape, needs in self.module.INPUTS:
            array = draw.uniform(-1, 1, [size if s == "N" else s for s in shape]).astype("float32")
            array += np.float32(self.nudge) * draw.uniform(-1, 1, array.shape).astype("float32")
            made.append(paddle.to_tensor(array, stop_gradient=not needs))
        return made


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def _backward(result: Any) -> None:
    """Gradients of a sum over all of the result that has some."""
    tensors = [value for _, value, _ in _walk(result) if isinstance(value, paddle.Tensor)]  # one that is there twice counts twice
    losses = [(t * t + t).sum() for t in tensors if not t.stop_gradient and t.dtype == paddle.float32]
    if losses:
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        total.backward()


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of something, by what they are called."""
    if isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", v) for i, v in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"[{k!r}]", v) for k, v in value.items())
    elif isinstance(value, paddle.nn.Layer):
        yield from ((f".{k}", v) for part in (value._parameters, value._buffers, value._sub_layers) for k, v in part.items())
        yield from ((f".{k}", v) for k, v in vars(value).items() if not k.startswith("_") and k != "forward")
    elif isinstance(value, ModuleType):
        yield from ((f".{k}", v) for k, v in vars(value).items() if k.isupper())
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):
                yield f".{name}", cell.cell_contents


def _walk(root: Any) -> Iterator[tuple[str, Any, str]]:
    """(path, value, the path where it was met before) of all that is in something."""
    met: dict[int, str] = {}
    waiting = [("", root)]
    while waiting:
        path, value = waiting.pop()
        known = met.get(id(value), "") if not isinstance(value, (int, float, str, type(None), tuple)) else ""
        yield path, value, known
        if not known:
            met[id(value)] = path or "."
            waiting += [(path + name, child) for name, child in reversed(list(_children(value)))]


def _tensors(root: Any) -> list[Any]:
    return [value for _, value, known in _walk(root) if isinstance(value, paddle.Tensor) and not known]


def _described(root: Any, identities: bool = True) -> Description:
    found: Description = {}
    for path, value, known in _walk(root):
        if known and (identities or not isinstance(value, paddle.Tensor)):
            found[path] = f"the same as {known}"
        elif isinstance(value, paddle.Tensor):
            found[path] = f"{value.dtype} {list(value.shape)}"
            found[f"{path} values"] = np.array(value.numpy())
            found[f"{path} stop_gradient"] = value.stop_gradient
            found[f"{path} is_leaf"] = not identities or value.stop_gradient or value.is_leaf
            grad = value.grad if identities or not path.startswith("['result']") else None
            found[f"{path} grad"] = None if grad is None else np.array(grad.numpy())
        elif isinstance(value, (int, float, str, type(None))):
            found[path] = value
        else:
            found[path] = type(value).__name__
    return found


def _difference(a: Description, b: Description, relative: float, absolute: float) -> tuple[str, str] | None:
    """The first thing that differs: of which kind, and what it is on both sides."""
    for key in [*a, *(k for k in b if k not in a)]:
        x, y = a.get(key, "absent"), b.get(key, "absent")
        if isinstance(x, (np.ndarray, float)) and isinstance(y, (np.ndarray, float)):
            alike = np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=relative, atol=absolute, equal_nan=True)
        else:
            alike = type(x) is type(y) and not isinstance(x, np.ndarray) and x == y
        if not alike:
            part = key.split("]")[0].strip("['")
            what = key.rsplit(" ", 1)[1] if " " in key else "identity" if "the same" in f"{x}{y}" else "value"
            return f"{what} in {part}", f"{key}: {x!r} against {y!r}"
    return None
