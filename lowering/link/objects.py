"""Objects: the parts of an emitted module as object code, made by several processes and kept on disk by what they are made of.

A kernel's text depends on what it computes and for which shapes, not on the model that it stands in. So its object is found again when
another model has the same layer, or when the model has changed somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from polyreme.ir import config
from polyreme.ir.builtin import Func, Module
from polyreme.ir.timing import timed
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.codegen import assemble, load_llvm, version
from polyreme.lowering.emit.llvm.emit_module import Part, emit_llvm, split_llvm
from polyreme.lowering.emit.llvm.facts import gather_facts
from polyreme.lowering.emit.llvm.same_code import SameCode
from polyreme.lowering.link.runtime import Cache, cache_in, digest_of
from polyreme.lowering.link.workers import EarlyWorks, share_out, workers_for
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS
from polyreme.lowering.machines.targets import Target

__all__ = ["EarlyObjects", "kept_object", "make_objects"]


T = TypeVar("T")
# The text of code that is no model's own, and for which machine it is.
NativeSource = tuple[str, Target]


class EarlyObjects:
    """Objects of a network's kernels that other processes make while further kernels are planned.

    The text of a kernel follows from what is known by then, but for what it promises of its arguments: where a later call breaks that
    promise, the object is made anew.
    """

    def __init__(self, target: Target, kernels: str = "", natives: Mapping[NativeSource, Callable[[], bytes]] | None = None):
        """`kernels`: see `split_llvm`. `natives` make objects that no kernel is needed for: they are begun at once."""
        self._target = target
        self._kernels = kernels
        self._works: EarlyWorks[tuple[Any, bytes]] = EarlyWorks()
        self._numbers: dict[str, int] = {}
        self._natives = {self._works.add(partial(_native, make)): source for source, make in (natives or {}).items()}
        # Those that are there when `made` is asked.
        self.natives_made: dict[NativeSource, bytes] = {}
        self.same = SameCode()
        self._program: Program | None = None
        self._parts: dict[str, Part] = {}  # of the program as it was when this process was forked
        self._looked_at = 0
        self._waiting = 0  # ops of kernels that nobody was given yet

    def __enter__(self) -> EarlyObjects:
        self._works.__enter__()
        if self._natives and self._works.may_start():
            load_llvm(self._target)
            self._works.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._works.__exit__(*error)

    def planned(self, main: Func, kernels: Sequence[Func]) -> None:
        """So far `main` has come; it calls these kernels, in the order in which they were planned."""
        self._program = Program(main, kernels)
        # Code of a processor is of kernels that call nobody.
        facts = gather_facts(kernels[self._looked_at :], self.same.known)
        for func in kernels[self._looked_at :]:
            ops = facts[func.sym_name].ops
            if ops >= COMPILE_COSTS.object and self.same.first(func, ops) is func:
                self._numbers[func.sym_name] = self._works.add(partial(self._object, func.sym_name))
                self._waiting += ops
        self._looked_at = len(kernels)
        if self._waiting >= COMPILE_COSTS.fork and self._works.may_start():
            load_llvm(self._target)
            self._works.start()
            self._waiting = 0

    def _object(self, name: str) -> tuple[Any, bytes]:
        if not self._parts:
            assert self._program is not None
            parts = split_llvm(self._program, self._target, kernels=self._kernels, same=self.same)
            self._parts = {part.functions[0].sym_name: part for part in parts}
        part = self._parts[name]
        return part.premises, _object(part, self._target, _kept())

    def begun(self) -> set[str]:
        """The kernels whose objects are there or will be soon; no others are begun any more."""
        taken = self._works.take_back()
        return {name for name, number in self._numbers.items() if number in taken}

    def made(self, parts: Sequence[Part]) -> dict[Part, bytes]:
        """The objects of those parts for which the right ones were made."""
        outcomes = self._works.outcomes()
        self.natives_made = {source: outcomes[number][1] for number, source in self._natives.items() if number in outcomes}
        found = {part: outcomes.get(self._numbers.get(part.functions[0].sym_name, -1)) for part in parts}
        return {part: made[1] for part, made in found.items() if made is not None and made[0] == part.premises}


def _native(make: Callable[[], bytes]) -> tuple[Any, bytes]:
    return None, make()


def make_objects(
    module: Module | Program,
    target: Target,
    name: str,
    other_work: Sequence[tuple[float, Callable[[], T]]] = (),
    early: EarlyObjects | None = None,
    kernels_named: str = "",
) -> tuple[list[bytes], list[T]]:
    """The object files of a kernel-level module whose memory is planned; its native functions are called after `name`. The first has
    `main`.

    `other_work` is other work for the same processes, each with as how many ops it counts; its outcomes are the second result. `early` has
    some of the objects already. `kernels_named`: as `split_llvm` has `kernels`.
    """
    config.say(4, lambda: emit_llvm(module, target, name))
    main, *kernels = split_llvm(module, target, name, COMPILE_COSTS.fork, kernels_named, early.same if early is not None else None)
    kept = _kept()
    begun = early.begun() if early is not None else set()
    # `main` is one model's only, whose artifact is kept as a whole.
    works: list[tuple[float, Callable[[], Any]]] = [*other_work]
    works.append((main.ops, partial(_object, main, target, None)))
    left = [part for part in kernels if part.functions[0].sym_name not in begun]
    made = _shared_out([*works, *((_effort(part), partial(_object, part, target, kept)) for part in left)], target)
    objects = dict(zip(left, made[len(works) :], strict=True)) | (early.made(kernels) if early is not None else {})
    left = [part for part in kernels if part not in objects]
    objects |= zip(left, _shared_out([(_effort(part), partial(_object, part, target, kept)) for part in left], target), strict=True)
    return [made[len(other_work)], *(objects[part] for part in kernels)], made[: len(other_work)]


def _effort(part: Part) -> int:
    return part.ops * (COMPILE_COSTS.small_kernel_op if len(part.functions) > 1 else 1)


def _shared_out(works: Sequence[tuple[float, Callable[[], Any]]], target: Target) -> list[Any]:
    """The outcomes of works, each with how much it is, in their order."""
    order = sorted(range(len(works)), key=lambda i: -works[i][0])
    workers = workers_for(len(works))
    if workers > 1:
        load_llvm(target)
    outcomes = share_out([works[i][1] for i in order], workers)
    return [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=itemgetter(0))]


def _kept() -> Cache | None:
    return None if config.is_watched() else cache_in(config.cache_folder(), config.cache_limit())


def kept_object(text: str, target: Target) -> bytes:
    """The object of LLVM text that many models need."""
    return _assembled(text, target, cache_in(config.cache_folder(), config.cache_limit()), True)


def _object(part: Part, target: Target, kept: Cache | None) -> bytes:
    with timed("emit-llvm"):
        text = part.text()
    return _assembled(text, target, kept, part.reduce, part.quick)


def _assembled(text: str, target: Target, kept: Cache | None, reduce: bool, quick: bool = False) -> bytes:
    """Made, or found where such objects are kept."""
    if kept is None:
        with timed("llvm"):
            return assemble(text, target, reduce, quick)
    key = digest_of("object", version(), target.triple, target.cpu, target.features, f"{reduce=} {quick=}", text)
    found = kept.get(key)
    if found is None:
        with timed("llvm"):
            found = assemble(text, target, reduce, quick)
        kept.put(key, found)
    return found
