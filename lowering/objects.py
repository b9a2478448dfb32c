"""Objects: the parts of an emitted module as object code, made by several processes and kept on disk by what they are made of.

A kernel's text depends on what it computes and for which shapes, not on the model that it stands in. So its object is found again when another model has the same
layer, or when the model has changed somewhere else.
"""

from __future__ import annotations

from functools import partial

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


def make_objects(module: Module | Program, target: Target, name: str) -> list[bytes]:
    """The object files of a kernel-level module whose memory is planned; its native functions are called after `name`. The first has `main`."""
    config.say(4, lambda: emit_llvm(module, target, name))
    parts = split_llvm(module, target, name, WORTH_SPLITTING)
    kept = None if config.is_watched() else cache_in(config.cache_folder(), config.cache_limit())
    # `main` is one model's only, whose artifact is kept as a whole.
    works = [partial(_object, parts[0], target, None), *(partial(_object, part, target, kept) for part in parts[1:])]
    order = sorted(range(len(parts)), key=lambda i: -parts[i].ops)
    workers = workers_for(len(parts))
    if workers > 1:
        load_llvm(target)
    made = share_out([works[i] for i in order], workers)
    return [made[order.index(i)] for i in range(len(parts))]


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
