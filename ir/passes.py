"""Passes and the manager that runs them: timed, dumped, checked after each step, reproducible on failure.

    @register_pass
    @dataclass(frozen=True)
    class FuseElementwise(Pass):
        '''Before, after, and why here.'''

        name: ClassVar[str] = "fuse-elementwise"
        max_inputs: int = 8

        def run(self, module): ...

Fields are the options: `parse_passes("cse,fuse-elementwise{max-inputs=4}")` makes `[Cse(), FuseElementwise(max_inputs=4)]`. A `Conversion` is a
pass too. Every pass takes and leaves a valid module, changing it in place.

When a pass fails, the manager leaves its input in a file with the command that repeats the failure. The input is made again from a copy of
the first module, so that a compilation that goes well pays for one copy only.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

from polyreme.ir import config, text
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Block
from polyreme.ir.diagnostics import Diagnostic, PassError, PolyremeError, did_you_mean
from polyreme.ir.evaluate import evaluate
from polyreme.ir.tolerance import Expected, expect
from polyreme.ir.verify import verify


class PassLike(Protocol):
    """What the manager runs: a `Pass`, or a `Conversion`."""

    @property
    def name(self) -> str: ...

    def run(self, module: Module) -> None: ...


@dataclass(frozen=True)
class Pass:
    """A step that changes a module in place. Subclasses are frozen dataclasses whose fields are the options."""

    name: ClassVar[str] = ""

    def run(self, module: Module) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class FuncPass(Pass):
    """A pass that looks at one function at a time."""

    def run(self, module: Module) -> None:
        for func in module.functions:
            self.run_on(func)

    def run_on(self, func: Func) -> None:
        raise NotImplementedError


class Stage:
    """A named run of passes: the steps from one level to the next, or within one."""

    def __init__(self, name: str, *passes: PassLike):
        self.name = name
        self.passes = passes

    def __repr__(self) -> str:
        return f"Stage({self.name!r}, {', '.join(map(pass_text, self.passes))})"


# --- the registry, and passes as text

PASSES: dict[str, Callable[..., PassLike]] = {}

PassT = TypeVar("PassT")


def register_pass(made: PassT) -> PassT:
    """Make a pass class, or a conversion, known by its name. Usable as a decorator."""
    name = getattr(made, "name", "")
    if not name:
        raise ValueError(f"expected a pass with a name but got {made!r}")
    if isinstance(made, type):
        if name in PASSES and getattr(PASSES[name], "__qualname__", "") != made.__qualname__:
            raise ValueError(f"the pass '{name}' is registered twice")
        PASSES[name] = made
    else:
        PASSES[name] = lambda: made  # type: ignore[assignment,return-value]
    return made


_SPEC = re.compile(r"\s*([\w.-]+)\s*(?:\{([^{}]*)\})?\s*(,|\Z)")


def parse_passes(spec: str) -> list[PassLike]:
    """The passes that a text such as `cse,fuse-elementwise{max-inputs=4}` names; `PassError` for unknown names and options."""
    passes = []
    at = 0
    while at < len(spec.rstrip()):
        match = _SPEC.match(spec, at)
        if match is None:
            raise PassError(f"expected 'name' or 'name{{option=value}}' but got {spec[at:]!r}", code="E0402")
        passes.append(make_pass(match.group(1), match.group(2) or ""))
        at = match.end()
    return passes


def make_pass(name: str, options: str = "") -> PassLike:
    """The pass called `name` with options such as `max-inputs=4 deep=true`."""
    if name not in PASSES:
        raise PassError(f"expected the name of a pass but got '{name}'{did_you_mean(name, PASSES)}", code="E0401")
    factory = PASSES[name]
    hints = get_type_hints(factory) if isinstance(factory, type) else {}
    known = {f.name.replace("_", "-"): f.name for f in fields(factory)} if isinstance(factory, type) else {}
    given: dict[str, Any] = {}
    for part in options.replace(",", " ").split():
        key, _, value = part.partition("=")
        if key not in known:
            listed = f" (it has {', '.join(known)})" if known else " (it has none)"
            raise PassError(f"the pass '{name}' has no option '{key}'{did_you_mean(key, known) or listed}", code="E0402")
        given[known[key]] = _option(name, key, value, hints[known[key]])
    return factory(**given)


_READERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: str,
    bool: lambda s: {"true": True, "false": False}[s],
}


def _option(name: str, key: str, value: str, kind: Any) -> Any:
    if kind not in _READERS:
        raise PassError(f"the option '{key}' of the pass '{name}' cannot be given as text", code="E0402")
    try:
        return _READERS[kind](value)
    except (ValueError, KeyError):
        raise PassError(f"expected the option '{key}' of the pass '{name}' to be {kind.__name__} but got {value!r}", code="E0402") from None


def pass_text(made: PassLike) -> str:
    """The pass as `parse_passes` reads it, with the options that differ from their defaults."""
    if not isinstance(made, Pass):
        return str(made.name)
    options = []
    for f in fields(made):
        value = getattr(made, f.name)
        if f.default is MISSING or value != f.default:
            options.append(f"{f.name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}")
    return made.name + ("{" + " ".join(options) + "}" if options else "")


# --- running them


@dataclass(frozen=True, slots=True)
class Timing:
    """What one pass took."""

    stage: str
    name: str
    seconds: float


class PassManager:
    """Runs stages (or bare passes) over modules.

    `verify_each` verifies the module before the first pass and after every one. `inputs`, arrays for `main`, makes each pass prove on top of that
    that it did not change what is computed: the module runs after each, and results that are further from the first module's than the bounds of its ops
    allow (`tolerance.py`) are an error that names the pass. `after_stage(stage, module)` is called at the end of each stage. `timings` tells about the last run.
    """

    def __init__(
        self,
        steps: Sequence[Stage | PassLike],
        verify_each: bool = False,
        inputs: Sequence[Any] | None = None,
        after_stage: Callable[[Stage, Module], None] | None = None,
    ):
        self.stages = [s if isinstance(s, Stage) else Stage("", s) for s in steps]
        self.verify_each = verify_each or inputs is not None
        self.inputs = inputs
        self.after_stage = after_stage
        self.timings: list[Timing] = []

    @property
    def steps(self) -> Iterator[tuple[Stage, PassLike]]:
        return ((stage, made) for stage in self.stages for made in stage.passes)

    def run(self, module: Module) -> Module:
        """Run all stages on the module, in place, and return it. `PassError` names the pass at fault and what repeats the fault."""
        self.timings = []
        first = module.clone()
        watch = _Watch(module)
        if self.verify_each:
            verify(module)
        expected = None if self.inputs is None else expect(module, self.inputs)
        number = 0
        for stage in self.stages:
            for made in stage.passes:
                start = time.perf_counter()
                try:
                    made.run(module)
                    self._check(module, expected)
                except Exception as error:
                    raise self._failure(first, number, error) from error
                self.timings.append(Timing(stage.name, made.name, time.perf_counter() - start))
                number += 1
                watch.after_pass(module, number, made)
            watch.after_stage(module, stage)
            if self.after_stage is not None:
                self.after_stage(stage, module)
        if config.debug_level() >= 1:
            print(self.timing_table(), file=sys.stderr)
        return module

    def timing_table(self) -> str:
        """Milliseconds of each pass of the last run, one per line."""
        width = max((len(t.name) for t in self.timings), default=0)
        return "\n".join(f"{t.seconds * 1e3:9.2f} ms  {t.name:{width}}  {t.stage}".rstrip() for t in self.timings)

    def _check(self, module: Module, expected: Expected | None) -> None:
        if self.verify_each:
            verify(module)
        if expected is None:
            return
        assert self.inputs is not None
        misfits = expected.misfits(evaluate(module, self.inputs))
        if misfits:
            raise PassError(Diagnostic(f"the pass changed what is computed: {misfit}", code="E0403") for misfit in misfits)

    def _failure(self, first: Module, number: int, error: Exception) -> PassError:
        """The error of pass `number` with notes on how to repeat it."""
        made = [p for _, p in self.steps][number]
        spec = pass_text(made)
        notes = [Diagnostic(f"the pass '{spec}' failed; {_leave_reproducer(self._input_of(first, number), made.name, spec)}")]
        if not isinstance(error, PolyremeError):
            return PassError([Diagnostic(f"the pass '{made.name}' failed with {type(error).__name__}: {error}"), *notes])
        return PassError([*error.diagnostics[:-1], _with_notes(error.diagnostics[-1], notes)])

    def _input_of(self, first: Module, number: int) -> Module:
        for _, made in list(self.steps)[:number]:
            made.run(first)
        return first


def _with_notes(diagnostic: Diagnostic, notes: Sequence[Diagnostic]) -> Diagnostic:
    return replace(diagnostic, notes=(*diagnostic.notes, *notes))


def _leave_reproducer(module: Module, name: str, spec: str) -> str:
    """Write the module with the command that runs the pass on it; a sentence on where it is."""
    folder = config.dump_folder()
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(suffix=".tir", prefix=f"polyreme-{name}-", dir=folder)
        command = f"polyreme opt {path} --passes '{spec}'"
        with os.fdopen(handle, "w") as file:
            file.write(f"// {command}\n{text.print_module(module, locations=True)}")
    except OSError as error:
        return f"its input could not be saved: {error}"
    return f"its input is kept, repeat with: {command}"


class _Watch:
    """Dumps, overrides and prints modules between passes, as the settings ask."""

    def __init__(self, module: Module):
        self.level = config.debug_level()
        self.dump = config.dump_folder()
        self.override = config.override_folder()
        self.wanted = self.dump is not None or self.level >= 5
        self.last = text.print_module(module) if self.wanted else ""
        if self.dump is not None:
            self._write("00-input", self.last)

    def after_pass(self, module: Module, number: int, made: PassLike) -> None:
        label = f"{number:02}-{made.name}"
        if self.override is not None and (self.override / f"{label}.tir").is_file():
            path = self.override / f"{label}.tir"
            replace_body(module, text.parse_module(path.read_text(), str(path)))
        if not self.wanted:
            return
        now = text.print_module(module)
        changed, self.last = now != self.last, now
        if changed and self.dump is not None:
            self._write(label, now)
        if self.level >= 6:
            print(f"// after {label}{'' if changed else ' (unchanged)'}\n{now if changed else ''}", file=sys.stderr)

    def after_stage(self, module: Module, stage: Stage) -> None:
        if self.level == 5:
            print(f"// after the stage {stage.name}\n{self.last}", file=sys.stderr)

    def _write(self, label: str, now: str) -> None:
        assert self.dump is not None
        path = Path(self.dump) / f"{label}.tir"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(now)
        except OSError as error:
            raise PolyremeError(f"cannot dump the module to {path}: {error}", code="E0009") from error


def replace_body(module: Module, other: Module) -> None:
    """Let `module` hold what `other` holds, which is left empty."""
    module.regions[0].blocks[:] = [Block()]
    module.block.parent = module.regions[0]
    module.attributes = dict(other.attributes)
    for op in other.block:
        op.detach()
        module.block.append(op)
