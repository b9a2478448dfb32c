"""Passes and the manager that runs them: timed, dumped, checked after each step, reproducible on failure.

    @register_pass
    @dataclass(frozen=True)
    class FuseElementwise(Pass):
        '''Before, after, and why here.'''

        name: ClassVar[str] = "fuse-elementwise"
        takes: ClassVar[tuple[str, ...]] = ("tensor",)
        max_inputs: int = 8

        def run(self, module): ...

Fields are the options: `parse_passes("cse,fuse-elementwise{max-inputs=4}")` makes `[Cse(), FuseElementwise(max_inputs=4)]`. A `Conversion`
is a pass too. Every pass takes and leaves a valid module, changing it in place.

When a pass fails, the manager leaves its input in a file with the command that repeats the failure (`reproducer.py`). The input is made
again from a copy of the first module, so that a compilation that goes well pays for one copy only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import MISSING
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_origin, get_type_hints

from polyreme.ir.builtin import Func, Module
from polyreme.ir.control import as_function, regions_of_control
from polyreme.ir.debug.dumps import Watch
from polyreme.ir.debug.reproducer import Repeat, failure
from polyreme.ir.debug.tolerance import Expected, expect
from polyreme.ir.diagnostics import Diagnostic, PassError, did_you_mean
from polyreme.ir.evaluate import evaluate
from polyreme.ir.python.records import fields_of
from polyreme.ir.timing import Timing, open_timing, reported, timed
from polyreme.ir.verify import verify


class PassLike(Protocol):
    """What the manager runs: a `Pass`, or a `Conversion`.

    `takes` are the levels whose modules it is for (none: all), `leaves` the level that they are at afterwards (empty: the same). Levels are
    called by their dialects: "nn", "dist" (nn with collectives), "tensor", "kernel".
    """

    @property
    def name(self) -> str: ...

    @property
    def takes(self) -> tuple[str, ...]: ...

    @property
    def leaves(self) -> str: ...

    def run(self, module: Module) -> None: ...


class Pass:
    """A step that changes a module in place. Subclasses are frozen dataclasses whose fields are the options; for `takes` and `leaves` see
    `PassLike`.
    """

    name: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ()
    leaves: ClassVar[str] = ""

    def run(self, module: Module) -> None:
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name, as text can give them."""
        changed = {f.name: getattr(self, f.name) for f in fields_of(self) if f.default is MISSING or getattr(self, f.name) != f.default}
        return {name.replace("_", "-"): value for name, value in changed.items()}


class FuncPass(Pass):
    """A pass that looks at one function at a time; the bodies of branches and loops are functions to it."""

    def run(self, module: Module) -> None:
        step = open_timing()
        for func in module.functions:
            if step is None or not step.detailed:
                self.run_on_all(func)
                continue
            with timed(f"@{func.sym_name}"):
                self.run_on_all(func)

    def run_on_all(self, func: Func) -> None:
        """As `run_on`, for the bodies of branches and loops in `func` too: those first, and inner ones before outer ones."""
        for region in regions_of_control(func):
            with as_function(region) as body:
                self.run_on(body)
        self.run_on(func)

    def run_on(self, func: Func) -> None:
        raise NotImplementedError


class Stage:
    """A named run of passes: the steps from one level to the next, or within one."""

    def __init__(self, name: str, *passes: PassLike):
        self.name = name
        self.passes = passes

    def after_pass(self, made: PassLike, module: Module) -> None:
        """Called when one of the passes has run."""

    def __repr__(self) -> str:
        return f"Stage({self.name!r}, {', '.join(map(pass_text, self.passes))})"


# --- the registry, and passes as text

PASSES: dict[str, Callable[..., PassLike]] = {}

PassT = TypeVar("PassT")


def register_pass(made: PassT) -> PassT:
    """Make a pass class, or a conversion, known by its name. Usable as a decorator; `ValueError` when the name is another one's. A file
    that is run twice may register its passes twice.
    """
    name = getattr(made, "name", "")
    if not name:
        raise ValueError(f"expected a pass with a name but got {made!r}")
    home = _home(made)
    if name in PASSES and home != _homes[name]:
        raise ValueError(f"the pass '{name}' is registered twice: by {_homes[name][0]} and by {home[0]}; give one of them another name")
    _homes[name] = home
    PASSES[name] = made if isinstance(made, type) else lambda: made  # type: ignore[assignment,return-value]
    return made


_homes: dict[str, tuple[str, str]] = {}


def _home(made: Any) -> tuple[str, str]:
    """The file that registers a pass, and what it is called there."""
    kind = made if isinstance(made, type) else type(made)
    module = kind.__module__ if isinstance(made, type) else sys._getframe(2).f_globals.get("__name__", "")
    return getattr(sys.modules.get(module), "__file__", None) or module, kind.__qualname__


_VALUE = r'"(?:[^"\\]|\\.)*"|\[(?:"(?:[^"\\]|\\.)*"|[^\[\]"])*\]|[^\s,\[\]{}"]+'
_SPEC = re.compile(r'\s*([\w.-]+)\s*(?:\{((?:"(?:[^"\\]|\\.)*"|[^{}"])*)\})?\s*(,|\Z)')
_OPTION = re.compile(rf"[\s,]*([\w-]+)(?:=({_VALUE})?)?(?=[\s,]|\Z)")


def parse_passes(spec: str) -> list[PassLike]:
    """The passes that a text such as `cse,fuse-elementwise{max-inputs=4}` names; `PassError` for unknown names and options.

    Options are separated by spaces or commas. A value is a word, a "text" (with the escapes of JSON), or a [list, of, them].
    """
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
    known = {f.name.replace("_", "-"): f.name for f in fields_of(factory)}
    given: dict[str, Any] = {}
    at = 0
    while at < len(options.rstrip(" ,")):
        match = _OPTION.match(options, at)
        if match is None:
            raise PassError(f"expected 'option=value' for the pass '{name}' but got {options[at:]!r}", code="E0402")
        key, value = match.group(1), match.group(2) or ""
        if key not in known:
            listed = f" (it has {', '.join(known)})" if known else " (it has none)"
            raise PassError(f"the pass '{name}' has no option '{key}'{did_you_mean(key, known) or listed}", code="E0402")
        given[known[key]] = _option(name, key, value, hints[known[key]])
        at = match.end()
    return factory(**given)


_READERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: lambda s: json.loads(s) if s.startswith('"') else s,
    bool: lambda s: {"true": True, "false": False}[s],
}


def _option(name: str, key: str, value: str, kind: Any) -> Any:
    item = get_args(kind)[0] if get_origin(kind) is tuple else kind
    if item not in _READERS:
        raise PassError(f"the option '{key}' of the pass '{name}' cannot be given as text", code="E0402")
    try:
        return _READERS[kind](value) if item is kind else _list(value, _READERS[item])
    except (ValueError, KeyError):
        wanted = item.__name__ if item is kind else f"a list of {item.__name__}, as in [1, 2],"
        raise PassError(f"expected the option '{key}' of the pass '{name}' to be {wanted} but got {value!r}", code="E0402") from None


def _list(value: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
    if not value.startswith("["):
        raise ValueError(value)
    return tuple(read(found) for found in re.findall(_VALUE, value[1:-1]))


def pass_text(made: PassLike) -> str:
    """The pass as `parse_passes` reads it, with the options that differ from their defaults."""
    if not isinstance(made, Pass):
        return str(made.name)
    options = [f"{key}={_value_text(value)}" for key, value in made.options().items()]
    return made.name + ("{" + " ".join(options) + "}" if options else "")


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, str) and re.fullmatch(r'[^\s,\[\]{}"]+', value) is None:
        return json.dumps(value)
    return str(value)


# --- running them


class PassManager:
    """Runs stages (or bare passes) over modules.

    `verify_each` verifies the module before the first pass and after every one. `inputs`, arrays for `main`, makes each pass prove on top
    of that that it did not change what is computed: the module runs after each, and results that are further from the first module's than
    the bounds of its ops allow (`tolerance.py`) are an error that names the pass. `after_pass(stage, pass, module)` and `after_stage(stage,
    module)` are called at the end of each. `timing` tells about the last run: a part per stage, in it a part per pass; with `detailed`, in
    these one per function and per pattern.
    """

    def __init__(
        self,
        steps: Sequence[Stage | PassLike],
        verify_each: bool = False,
        inputs: Sequence[Any] | None = None,
        after_stage: Callable[[Stage, Module], None] | None = None,
        after_pass: Callable[[Stage, PassLike, Module], None] | None = None,
        detailed: bool = False,
    ):
        self.stages = [s if isinstance(s, Stage) else Stage("", s) for s in steps]
        self.verify_each = verify_each or inputs is not None
        self.inputs = inputs
        self.after_stage = after_stage
        self.after_pass = after_pass
        self.detailed = detailed
        self.timing = Timing("passes")

    def __repr__(self) -> str:
        return f"PassManager([{', '.join(map(repr, self.stages))}])"

    @property
    def steps(self) -> Iterator[tuple[Stage, PassLike]]:
        return ((stage, made) for stage in self.stages for made in stage.passes)

    def run(self, module: Module) -> Module:
        """Run all stages on the module, in place, and return it. `PassError` names the pass at fault and what repeats the fault."""
        first = module.clone()
        watch = Watch(module)
        with reported("passes") as self.timing:
            self.timing.detailed = self.timing.detailed or self.detailed
            if self.verify_each:
                verify(module)
            expected = None if self.inputs is None else expect(module, self.inputs)
            number = 0
            for stage in self.stages:
                number = self._stage(stage, module, first, number, expected, watch)
        return module

    def timing_table(self) -> str:
        """The times of the last run, a line per step."""
        return self.timing.table()

    def _stage(self, stage: Stage, module: Module, first: Module, number: int, expected: Expected | None, watch: Watch) -> int:
        """The number of passes that ran up to the end of the stage."""
        with nullcontext() if not stage.name else timed(stage.name):
            for made in stage.passes:
                with timed(made.name):
                    try:
                        made.run(module)
                        stage.after_pass(made, module)
                        self._check(module, expected)
                    except Exception as error:
                        raise self._failure(first, number, error, watch) from error
                number += 1
                watch.after_pass(module, number, made.name)
                if self.after_pass is not None:
                    self.after_pass(stage, made, module)
        watch.after_stage(module, stage.name)
        if self.after_stage is not None:
            self.after_stage(stage, module)
        return number

    def _check(self, module: Module, expected: Expected | None) -> None:
        if self.verify_each:
            with timed("verify"):
                verify(module)
        if expected is None:
            return
        assert self.inputs is not None
        with timed("evaluate"):
            misfits = expected.misfits(evaluate(module, self.inputs))
        if misfits:
            raise PassError(Diagnostic(f"the pass changed what is computed: {misfit}", code="E0403") for misfit in misfits)

    def _failure(self, first: Module, number: int, error: Exception, watch: Watch) -> PassError:
        """The error of pass `number` with a note on how to repeat it."""
        steps = [made for _, made in self.steps]
        for i, made in enumerate(steps[:number]):
            made.run(first)
            watch.put_override(first, i + 1, made.name)
        made = steps[number]
        return failure(error, made.name, Repeat(pass_text(made), type(made), self.verify_each, self.inputs), first)
