"""Objects: the parts of an emitted module as object code, made by several processes and kept on disk by what they are made of.

A kernel's text depends on what it computes and for which shapes, not on the model that it stands in. So its object is found again when another model has the same
layer, or when the model has changed somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from polyreme.ir import config
from polyreme.ir.builtin import Module
from polyreme.ir.timing import timed
from polyreme.lowering.codegen import assemble, load_llvm, version
from polyreme.lowering.emit_llvm import Part, emit_llvm, split_llvm
from polyreme.lowering.program import Program
from polyreme.lowering.targets import Target
from polyreme.lowering.workers import share_out, workers_for
from polyreme.runtime.cache import Cache, cache_in, digest_of

__all__ = ["kept_object", "make_objects"]

# Modules of fewer ops are one object: to fork takes about as long as to compile so many.
WORTH_SPLITTING = 2000
# As many bytes of packed weights take as long to make as the code of one op does.
BYTES_PER_OP = 30_000

T = TypeVar("T")


def make_objects(
    module: Module | Program, target: Target, name: str, beside: Sequence[tuple[int, Callable[[], T]]] = ()
) -> tuple[list[bytes], list[T]]:
    """The object files of a kernel-level module whose memory is planned; its native functions are called after `name`. The first has `main`.

    `beside` is other work for the same processes, each with the bytes that it makes; its outcomes are the second result.
    """
    config.say(4, lambda: emit_llvm(module, target, name))
    parts = split_llvm(module, target, name, WORTH_SPLITTING)
    kept = None if config.is_watched() else cache_in(config.cache_folder(), config.cache_limit())
    # `main` is one model's only, whose artifact is kept as a whole.
    works: list[tuple[float, Callable[[], Any]]] = [(count / BYTES_PER_OP, work) for count, work in beside]
    works += [(part.ops, partial(_object, part, target, kept if i else None)) for i, part in enumerate(parts)]
    order = sorted(range(len(works)), key=lambda i: -works[i][0])
    workers = workers_for(len(works))
    if workers > 1:
        load_llvm(target)
    outcomes = share_out([works[i][1] for i in order], workers)
    made = [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=itemgetter(0))]
    return made[len(beside) :], made[: len(beside)]


def kept_object(text: str, target: Target) -> bytes:
    """The object of LLVM text that many models need."""
    return _assembled(text, target, cache_in(config.cache_folder(), config.cache_limit()))


def _object(part: Part, target: Target, kept: Cache | None) -> bytes:
    with timed("emit-llvm"):
        text = part.text()
    return _assembled(text, target, kept)


def _assembled(text: str, target: Target, kept: Cache | None) -> bytes:
    """Made, or found where such objects are kept."""
    if kept is None:
        with timed("llvm"):
            return assemble(text, target)
    key = digest_of("object", version(), target.triple, target.cpu, target.features, text)
    found = kept.get(key)
    if found is None:
        with timed("llvm"):
            found = assemble(text, target)
        kept.put(key, found)
    return found
