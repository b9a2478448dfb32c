"""Executables of modules, kept in memory and on disk, so that equal modules are compiled once per machine.

The key is the module's text (of long constants their digests), the target, and what the compiler itself is: its version, LLVM's, and its source files as
they stand (whoever works on the compiler never sees code of an older one). A damaged entry is compiled again; a folder that cannot be written is done without.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from polyreme import __version__
from polyreme.device import Place, current_place, driver_of
from polyreme.dialects import dist, host
from polyreme.ir import config
from polyreme.ir.builtin import Call, Module
from polyreme.ir.core import Op, Value
from polyreme.ir.text import identity_text
from polyreme.lowering.bucket import OverlapCollectives
from polyreme.lowering.regions import has_host_ops, split_regions
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.cache import Cache, cache_in, digest_of
from polyreme.runtime.cpu import processor_text
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.gpu_plan import KEY
from polyreme.runtime.schedule import Schedule, ScheduledStep
from polyreme.runtime.shared_code import is_shared, load_shared, with_shared_code

__all__ = ["done_apart", "load_known", "load_module", "load_profiled", "load_schedule", "load_with_prepare", "scheduled"]

MOST_LOADED = 512
# Modules of so many ops are networks; of fewer they are compiled sooner than a process could get ready for it.
NETWORK_OPS = 20

T = TypeVar("T")

_loaded: OrderedDict[str, Any] = OrderedDict()


def load_module(module: Module, name: str = "model", place: Place | None = None, functions: host.Functions = host.NO_FUNCTIONS) -> Any:
    """The executable of a module for a place, by default the current device; the module is left as it is. Equal modules share one.

    Ops for the host in `main`, such as collective calls, make it a schedule: compiled regions, and the host's ops between them. `functions` are what its
    `host.call` ops call.
    """
    if has_host_ops(module.function()):
        return load_schedule(scheduled(module), name, place, functions)
    place = place or current_place()
    driver = driver_of(place)
    key = digest_of(identity_text(module), name, _machine(driver), place.kind, compiler_version())

    def make() -> tuple[Artifact]:
        from polyreme.lowering import targets
        from polyreme.lowering.pipeline import compile_module

        target = targets.host() if driver is None else targets.gpu_target(driver.sm)
        return (compile_module(module, target, name=name).artifact,)

    return _load(key, lambda keep: _compiled(_ops_of(module), [key], make, keep)[0], driver)


def load_with_prepare(module: Module, name: str, prepare: str) -> tuple[Any, Any]:
    """As `load_module`, but packs of weights are made by a second executable, as `pipeline` says of `prepare`; it is None where nothing is packed,
    as on GPUs."""
    if current_place().is_gpu_place():
        return load_module(module, name), None
    text = identity_text(module)
    keys = [digest_of(text, name, _machine(None), compiler_version(), prepare, part) for part in ("main", "prepare")]

    def make() -> tuple[Artifact, Artifact | None]:
        from polyreme.lowering import targets
        from polyreme.lowering.pipeline import compile_module

        made = compile_module(module, targets.host(), name=name, prepare=prepare)
        return made.artifact, made.prepare_artifact

    both = functools.cache(lambda keep: _compiled(_ops_of(module), keys, make, keep))
    main = _load(keys[0], lambda keep: both(keep)[0])
    if all(spec.role != "packed" for spec in main.manifest.inputs):
        return main, None
    return main, _load(keys[1], lambda keep: both(keep)[1])


def load_known(identity: str, module: Callable[[], Module], ops: int, name: str) -> Any:
    """As `load_module` for this machine's CPU, but what tells the module from others is `identity`: it is made only where it has to be compiled, and in the
    process that compiles it. It has so many ops."""
    key = digest_of("known", identity, _machine(None), compiler_version())

    def make() -> tuple[Artifact]:
        from polyreme.lowering import targets
        from polyreme.lowering.pipeline import compile_module

        return (compile_module(module(), targets.host(), name=name).artifact,)

    return _load(key, lambda keep: _compiled(ops, [key], make, keep)[0])


def load_profiled(module: Module, name: str = "model") -> Any:
    """As `load_module` for this machine's CPU, with the times of kernels as one more output, which `lowering/profile.py` tells how to read."""
    from polyreme.lowering import targets
    from polyreme.lowering.profile import profiled_artifact

    target = targets.host()
    key = digest_of(identity_text(module), name, repr(target), "profile", compiler_version())
    return _load(key, lambda keep: _keep(key, profiled_artifact(module, target, name), keep))


def _load(key: str, make: Callable[[bool], Artifact | None], driver: Any = None) -> Any:
    """The executable under `key`: loaded already, on disk, or of the artifact that `make` compiles; told to keep it under `key`, it gives None where it could.
    `driver` is that of a GPU it is for."""
    if config.is_watched():
        from polyreme.lowering.link import load

        return load(_given(make(False)), driver)
    found = _found(key, driver)
    if found is None:
        artifact = make(True)
        # What was kept may be gone meanwhile, if another process has cleared the folder.
        found = _found(key, driver) if artifact is None else _remembered(key, artifact, driver)
    return found or _remembered(key, _given(make(False)), driver)


def _given(artifact: Artifact | None) -> Artifact:
    assert artifact is not None, "what is not kept is given"
    return artifact


def _found(key: str, driver: Any = None) -> Any:
    """The executable under `key` if it is loaded already, or on disk; else None."""
    found = _loaded.get(key)
    if found is not None:
        _loaded.move_to_end(key)
        return found
    artifact = _kept(_cache(), key)
    return None if artifact is None else _remembered(key, artifact, driver)


def _remembered(key: str, artifact: Artifact, driver: Any) -> Any:
    if is_shared(artifact):
        _loaded[key] = load_shared(artifact, config.threads())
    else:
        from polyreme.lowering.link import load

        _loaded[key] = load(artifact, driver)
    if len(_loaded) > MOST_LOADED:
        _loaded.popitem(last=False)
    return _loaded[key]


def _cache() -> Cache:
    return cache_in(config.cache_folder(), config.cache_limit())


def _kept(cache: Cache, key: str) -> Artifact | None:
    """The artifact that is kept under `key`, its code as this process loads it, its constants where they are on disk; None if there is none that is whole."""
    data = cache.mapped(key)
    if data is None:
        return None
    try:
        artifact = Artifact.from_bytes(data)
    except ArtifactError:
        # Damaged, or written by another version: as good as none.
        cache.remove(key)
        return None
    return artifact if KEY in artifact.manifest.extra else _linked(cache, key, artifact)


def _linked(cache: Cache, key: str, artifact: Artifact) -> Artifact:
    """The artifact that is kept under `key` with its code linked for this machine: as that is kept, or linked now."""
    code = cache.get(_linked_key(key))
    return with_shared_code(artifact, code) if code is not None else _link(cache, key, artifact)


def _link(cache: Cache | None, key: str, artifact: Artifact) -> Artifact:
    from polyreme.lowering.link import linked

    made = linked(artifact)
    if cache is not None and is_shared(made):
        cache.put(_linked_key(key), made.code)
    return made


def _linked_key(key: str) -> str:
    return digest_of("linked", key)


def _compiled(ops: int, keys: Sequence[str], make: Callable[[], tuple[Artifact | None, ...]], keep: bool) -> tuple[Artifact | None, ...]:
    """The artifacts that `make` compiles of so many ops: of a network in a process of its own, which takes along what the compiler needs of memory. Those that
    were kept under their keys, as they are to be with `keep`, are None: they need not travel from there."""

    def work() -> tuple[Artifact | None, ...]:
        return tuple(None if artifact is None else _keep(key, artifact, keep) for key, artifact in zip(keys, make(), strict=True))

    return done_apart(ops, work)


def _keep(key: str, artifact: Artifact, keep: bool) -> Artifact | None:
    """The artifact as it is loaded here; None if it is kept, which it is to be with `keep`."""
    cache = _cache() if keep else None
    is_kept = cache is not None and cache.keep(key, *artifact.parts())
    loadable = artifact if KEY in artifact.manifest.extra else _link(cache, key, artifact)
    return None if is_kept else loadable


def done_apart(ops: int, work: Callable[[], T]) -> T:
    """The outcome of compiling so many ops, which is done in a process of its own if they are a network and nobody watches."""
    if ops < NETWORK_OPS or config.is_watched():
        return work()
    from polyreme.lowering.workers import apart

    return apart(work)


def _ops_of(module: Module) -> int:
    return len(module.function().block.ops)


def _machine(driver: Any) -> str:
    """What code depends on of the machine that it runs on, and of settings: a GPU's capability, or this processor, which LLVM is only asked about where the
    system says nothing."""
    if driver is not None:
        return f"sm_{driver.sm}"
    from polyreme.lowering import targets

    return f"{processor_text() or repr(targets.host())} {config.code_settings()}"


def scheduled(module: Module) -> Module:
    """What runs of a module with ops for the host: collective calls placed so that they overlap with computing, and the regions between them as functions."""
    if any(isinstance(op, dist.AllReduce) for op in module.function().block):
        module = module.clone()
        OverlapCollectives().run(module)
    return split_regions(module.function())


def load_schedule(module: Module, name: str = "model", place: Place | None = None, functions: host.Functions = host.NO_FUNCTIONS) -> Schedule:
    """What runs a module of regions and host ops, as `split_regions` makes it: the steps of its `main`, in their order.

    Calls of regions run compiled, a `host.call` is one of `functions` (a number that is not there is an `EvaluateError`), and the other ops run by their own meaning.
    """
    main = module.function()
    slots: dict[Value, int] = {}
    for value in main.args:
        slots[value] = len(slots)
    steps: list[ScheduledStep] = []
    for op in main.block:
        takes = tuple(slots[v] for v in op.operands)
        if op is main.block.terminator:
            return Schedule(name, len(main.args), steps, takes)
        for result in op.results:
            slots[result] = len(slots)
        gives = tuple(slots[r] for r in op.results)
        if isinstance(op, Call):
            region = _region(module, op.callee.name, name, place)
            steps.append(ScheduledStep(f"call {op.callee.name}", region.run, takes, gives))
        elif isinstance(op, host.Call):
            steps.append(ScheduledStep(f"host {op.function}", host.function_of(op, functions), takes, gives))
        else:
            steps.append(ScheduledStep(op.name, functools.partial(_by_meaning, op), takes, gives))
    raise AssertionError("a function without a terminator")


def _region(module: Module, function: str, name: str, place: Place | None) -> Any:
    alone = Module.empty()
    copy = module.function(function).clone()
    copy.attributes["sym_name"] = "main"
    alone.block.append(copy)
    return load_module(alone, f"{name}_{function}", place)


def _by_meaning(op: Op, args: list[Any]) -> Sequence[Any]:
    return op.evaluate(args, None)  # type: ignore[no-any-return,arg-type]


def compiler_version() -> str:
    """What compiled code depends on besides the module and the target: the compiler, and what the environment asks of it."""
    return digest_of(_sources(), f"winograd {config.winograd()}")


@functools.cache
def _sources() -> str:
    """The compiler itself."""
    import llvmlite

    stamps = [__version__, llvmlite.__version__]
    for room in ("ir", "dialects", "lowering", "runtime"):
        folder = Path(str(files(f"polyreme.{room}")))
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".ll", ".lark"):
                stat = file.stat()
                stamps.append(f"{room}/{file.name} {stat.st_size} {stat.st_mtime_ns}")
    return digest_of(*stamps)
