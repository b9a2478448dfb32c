"""A program made ready to run: block 0 as one function of SSA values, and what of its arguments and results belongs where.

Names are resolved in program order, so that an in-place write simply gives the name another value. Feeds, persistable variables and eager
tensors come in as arguments; what is fetched and the persistable variables that were written leave as results. Host operators are
`host.call` ops: where those cut the function into compiled regions is decided where it is for collective calls, in
`lowering.schedule.regions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.device import CPUPlace, Place
from polyreme.dialects import host
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import Diagnostic, PolyremeError, did_you_mean
from polyreme.ir.dims import SYMBOL, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import erase_unused
from polyreme.ir.types import TensorType
from polyreme.lowering.transforms.solve_sizes import bound_sizes, used_sizes
from polyreme.operators.sequence.ragged import is_ragged
from polyreme.runtime.gpu.arrays import DeviceArray, fetched, lent, taken
from polyreme.static.concurrency.channels import session
from polyreme.static.concurrency.host_calls import HostCalls, has_channels, shared_names
from polyreme.static.emitter import Emitter, ProgramSource, source_tensor
from polyreme.static.feeding.positions import fed_positions
from polyreme.static.kinds import with_numbers
from polyreme.static.lod.travel import LOD, is_level
from polyreme.static.nested.uses import block_of
from polyreme.static.nested.values import BlockValues
from polyreme.static.operator import Operator, RunError
from polyreme.static.variable import Parameter
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.program import Block, Program

__all__ = ["RunPlan", "UnknownNameError", "make_plan"]

Array = np.ndarray[Any, Any]


class UnknownNameError(PolyremeError, ValueError):
    """A name to fetch or feed that the program does not have."""

    code = "E0602"


@dataclass
class RunPlan:
    """A program for certain feeds and fetches: a module, and keys that say what its arguments and results are.

    A key names a source, or a result of the module. `module` is None when nothing is left to run.
    """

    module: Module | None
    functions: host.Functions  # what the `host.call` ops of the module call
    sources: dict[Any, ProgramSource]
    arguments: list[Any]
    results: list[Any]
    fetches: list[Any]
    levels: list[list[Any]]  # the levels of detail of what is fetched
    updates: dict[str, Any]  # persistable variables that get another value, with its key
    tensor_updates: list[tuple[Tensor, Any]]
    executable: Any = None
    has_channels: bool = False
    go_plans: Sequence[RunPlan] = ()  # what its Go blocks run
    releases: bool = False  # whether working memory is given back after each run
    resident: bool = False  # whether values stay on a GPU between runs

    def load(self, place: Place) -> RunPlan:
        """The plan itself, compiled for `place`. Go blocks run on the processor."""
        from polyreme.compiled.executables import load_module

        for plan in self.go_plans:
            plan.load(CPUPlace())
        if self.module is not None:
            self.executable = load_module(self.module, "program", place, self.functions, resident=True)
            self.resident = place.is_gpu_place()
        return self

    def run(self, feed: Mapping[str, Array], scope: Any) -> list[Array]:
        """The fetched arrays, once it is loaded. The scope changes only if everything ran."""
        return [*map(taken, self.run_with_levels(feed, scope)[0])]

    def run_with_levels(self, feed: Mapping[str, Array], scope: Any) -> tuple[list[Array], list[list[Array]]]:
        """The fetched arrays, which may be those of a device, and their levels of detail as offsets."""
        values: dict[Any, Any] = {key: _value_of(source, feed, scope) for key, source in self.sources.items()}
        if self.resident:
            # The caller may write to what is fed.
            values.update({key: lent(values[key]) for key, source in self.sources.items() if source.kind == "feed"})
        if self.executable is not None:
            with session(scope) if self.has_channels else nullcontext():
                values.update(zip(self.results, self.executable.run([values[key] for key in self.arguments]), strict=True))
            if self.releases and hasattr(self.executable, "release_memory"):
                self.executable.release_memory()
        for name, key in self.updates.items():
            (scope.find_var(name) or scope.var(name)).array = values[key]
        for tensor, key in self.tensor_updates:
            scope.put_into(tensor, values[key])
        # What somebody else holds (the scope, the caller's feed) is given away as a copy, and what is asked for twice is given twice; but
        # nobody writes to an array of a device.
        held = {*self.sources, *self.updates.values(), *(key for _, key in self.tensor_updates)}
        found = []
        for key in self.fetches:
            found.append(values[key].copy() if key in held and type(values[key]) is not DeviceArray else values[key])
            held.add(key)
        return found, [[fetched(values[key]) for key in keys] for keys in self.levels]

    def run_in_session(self, feed: Mapping[str, Array]) -> None:
        """Run a Go block, for the session that this thread is in."""
        if self.executable is not None:
            self.executable.run([feed[source.name] for source in (self.sources[key] for key in self.arguments)])


def _value_of(source: ProgramSource, feed: Mapping[str, Array], scope: Any) -> Array:
    if source.kind == "feed":
        return feed[source.name]
    if source.kind == "tensor":
        found: Array = scope.array_of(source.payload)
        return found
    stored = scope.find_var(source.name)
    if stored is None or stored.array is None:
        what = "the parameter" if isinstance(source.payload, Parameter) else "the persistable variable"
        way_out = "run the startup program first (exe.run(paddle.static.default_startup_program())), in the same scope"
        raise RunError(
            Diagnostic(f"expected a value of {what} '{source.name}' in the scope but it has none; {way_out}", source.payload.location),
            code="E0604",
        )
    return stored.array


def _numbers(program: Program, feeds: Mapping[str, TensorType]) -> dict[str, int]:
    """The free sizes of feeds that are numbers here, the same one wherever they stand."""
    found: dict[str, set[Any]] = {}
    block = program.global_block()
    for name, kind in feeds.items():
        declared = block.vars[name].type.shape if name in block.vars else ()
        if len(declared) == kind.rank:
            for size, number in zip(declared, kind.shape, strict=True):
                if SYMBOL.match(str(size)):
                    found.setdefault(str(size), set()).add(number)
    return {size: number for size, (number, *others) in found.items() if not others and isinstance(number, int)}


def make_plan(program: Program, feeds: Mapping[str, TensorType], fetches: Sequence[str]) -> RunPlan:
    """Translate block 0 of a program. Nothing is compiled yet."""
    translation = _Translation(program, feeds)
    try:
        with dispatch.trace_into(translation.emitter), tape.recording(False), with_numbers(_numbers(program, feeds)):
            translation.store_fed()
            for op in program.global_block().ops:
                translation.add(op)
            return translation.finish(fetches)
    finally:
        translation.emitter.restore()


class _Translation(BlockValues):
    """The state of a translation: what each name stands for so far."""

    def __init__(self, program: Program, feeds: Mapping[str, TensorType], block: Block | None = None):
        super().__init__(block or program.global_block(), self._outside)
        self.program = program
        self.feeds = feeds
        self.values |= {name: source_tensor(ProgramSource("feed", name, kind)) for name, kind in feeds.items()}
        for name in feeds:
            if is_level(name):
                self.levels.setdefault(name.partition(LOD)[0], []).append(self.values[name])
        self.written: dict[str, None] = {}
        self.sources: dict[Any, tuple[ProgramSource, Value]] = {}  # the arguments, by their keys
        self.direct: dict[Any, ProgramSource] = {}  # what is fetched or kept as it came in
        self.results: dict[Value, tuple[str, int]] = {}  # the keys of what the function returns
        fed = frozenset((place.name, place.count, place.backward) for place in fed_positions(program)) if block is None else frozenset()
        self.emitter = Emitter(self._argument, fed)
        self.calls = self.emitter.host_calls = HostCalls(shared_names(program), self._go_plan)

    # --- values that come from outside, and that go there

    @staticmethod
    def _key(source: ProgramSource) -> Any:
        return source.kind, id(source.payload) if source.kind == "tensor" else source.name

    def _argument(self, source: ProgramSource) -> Value:
        known = self.sources.get(self._key(source))
        if known is None:
            known = self.sources[self._key(source)] = source, self.emitter.block.add_arg(source.type, "")
        return known[1]

    def _kept(self, tensor: Tensor) -> Any:
        """The key under which a tensor is found after a run."""
        source = self.emitter.source_of(tensor)
        if source is None:
            return self.results.setdefault(tensor._value, ("result", len(self.results)))
        self.direct[self._key(source)] = source
        return self._key(source)

    def _outside(self, name: str) -> Tensor | None:
        """What a name stands for that nothing has written: a tensor from outside, or a persistable variable."""
        captured = self.program.captured.get(name)
        if captured is not None:
            return source_tensor(ProgramSource("tensor", captured, captured.type))
        variable = self.block.var_recursive(name)
        if variable.persistable and variable.has_shape:
            return source_tensor(ProgramSource("scope", variable, variable.type))
        return None

    # --- operators

    def write(self, name: str, tensor: Tensor) -> None:
        super().write(name, Tensor._wrap(tensor._value, tensor.type))
        if self.block.var_recursive(name).persistable:
            self.written[name] = None

    def _go_plan(self, op: Operator, names: Sequence[str], tensors: Sequence[Tensor]) -> RunPlan:
        """What runs a Go block that is given the values of `names`."""
        given = {name: tensor.type for name, tensor in zip(names, tensors, strict=True)}
        translation = _GoTranslation(self.program, given, block_of(op))
        try:
            with dispatch.trace_into(translation.emitter), tape.recording(False):
                for inner in translation.block.ops:
                    translation.add(inner)
                plan = translation.finish(())
        finally:
            translation.emitter.restore()
        if plan.tensor_updates:
            raise RunError("expected no random numbers in a Go block: draw them in front of it", op.location)
        return plan

    def store_fed(self) -> None:
        """Let Go blocks see what is fed."""
        for name in self.calls.shared:
            if name in self.values:
                self.calls.store(self.emitter, self.block.var_recursive(name), self.values[name])

    # --- the end

    def _end_go(self) -> None:
        """Wait for Go blocks, and take over what they have written."""
        if self.calls.started:
            self.calls.join(self.emitter)
            for name in self.calls.shared:
                if self.block.var_recursive(name).persistable:
                    self.written[name] = None

    def finish(self, fetches: Sequence[str]) -> RunPlan:
        self._end_go()
        found = []
        for name in fetches:
            if name not in self.values and not self.block.has_var(name):
                raise UnknownNameError(
                    f"expected a variable of the program to fetch but got '{name}'{did_you_mean(name, [*self.block.vars])}"
                )
            found.append(self._kept(self.read(name, None)))
        levels = [[self._kept(level) for level in self.levels.get(name, ())] for name in fetches]
        for name in fetches:
            held = self.levels.get(name, ())
            if any(level.ndim != 1 for level in held):
                what = f"the elements of the array '{name}' differ in rows or levels"
                what = what if is_ragged(held) else f"'{name}' is an array of the rows of sequences by steps"
                raise RunError(f"expected tensors to fetch but {what}; fetch what array_read gives")
        ends = {name: self._kept(self.read(name, None)) for name in self.written}
        updates = {name: key for name, key in ends.items() if name not in self.program.captured}
        changed = [(self.program.captured[name], key) for name, key in ends.items() if name in self.program.captured]
        changed += [(tensor, self._kept(final)) for tensor, final in self.emitter.restore().values()]
        module = self._module({("scope", name) for name in updates} | {("tensor", id(tensor)) for tensor, _ in changed})
        sources = {key: source for key, (source, _) in self.sources.items()} | self.direct
        return RunPlan(
            module, self.calls.functions, sources, list(self.sources), list(self.results.values()), found, levels, updates, changed,
            None, has_channels(self.program), self.calls.plans, any(op.type == "delete_var" for op in self.block.ops),
        )  # fmt: skip

    def _module(self, written: set[Any]) -> Module | None:
        """What was translated as a module; arguments that the program changes, whose keys are in `written`, have the role "state"."""
        block = self.emitter.block
        block.append(Return(list(self.results)))
        func = Func.empty("main", (), result_names=_distinct([v.name or f"value_{i}" for i, v in enumerate(self.results)]))
        func.regions[0].blocks = [block]
        block.parent = func.regions[0]
        if self.calls.functions or not self.results:
            self._drop_unused(func)
        if len(block) == 1 and not self.results:
            return None
        self._tell_sizes(func)
        names = _distinct([source.name for source, _ in self.sources.values()])
        for (_, value), name in zip(self.sources.values(), names, strict=True):
            value.name = name
        func.attributes["arg_names"] = names
        func.attributes["arg_roles"] = tuple(
            "input" if s.kind == "feed" else "state" if key in written else "param" for key, (s, _) in self.sources.items()
        )
        module = Module.empty()
        module.block.append(func.finish())
        return module

    def _tell_sizes(self, func: Func) -> None:
        """Make arguments of feeds that nothing reads but whose sizes are used."""
        missing = frozenset[str]().union(*(used_sizes(op) for op in func.block)) - bound_sizes(func)
        for name, kind in self.feeds.items():
            if any(missing & symbols(size) for size in kind.shape):
                self._argument(ProgramSource("feed", name, kind))
                missing -= bound_sizes(func)

    def _drop_unused(self, func: Func) -> None:
        """What nobody reads any more need not be in the scope."""
        erase_unused(func)
        for key, (source, value) in list(self.sources.items()):
            if source.kind != "feed" and not value.uses:
                func.block.erase_arg(value.index)  # type: ignore[attr-defined]
                del self.sources[key]


class _GoTranslation(_Translation):
    """The translation of a Go block. What it writes outside, others see at once."""

    def __init__(self, program: Program, given: Mapping[str, TensorType], block: Block):
        super().__init__(program, given, block)
        self.calls.started = True

    def _outside(self, name: str) -> Tensor | None:
        return None

    def write(self, name: str, tensor: Tensor) -> None:
        super().write(name, tensor)
        self.written.clear()

    def _end_go(self) -> None:
        """Nothing waits: the program does, at its end."""


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names as the IR has them, each another one."""
    found: dict[str, None] = {}
    for name in names:
        text = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name) or "value"
        text = candidate = text if text[0].isalpha() or text[0] == "_" else f"x{text}"
        number = 0
        while candidate in found:
            number += 1
            candidate = f"{text}_{number}"
        found[candidate] = None
    return tuple(found)
