"""Executables of modules: equal ones are compiled once per machine, and kept as `kept.py` says.

The key is the module's text (of long constants their digests), the target, and what the compiler itself is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polyreme.compiled.kept import compiled_apart, compiler_version, kept_or_given, load_kept, machine_text, room
from polyreme.device import Place, copies_on, current_place, driver_of
from polyreme.dialects import dist, host
from polyreme.ir.builtin import Call, Module
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.define import ControlFlow
from polyreme.ir.dims import told
from polyreme.ir.evaluate import with_sizes
from polyreme.ir.text import identity_text
from polyreme.lowering.analysis.names import result_names
from polyreme.lowering.gradients.autodiff import bound_symbols, op_symbols
from polyreme.lowering.link.manifest import manifest_of_inputs
from polyreme.lowering.schedule.regions import body_function, has_host_ops, split_regions
from polyreme.lowering.transforms.bucket import OverlapCollectives
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.cache import digest_of
from polyreme.runtime.gpu.arrays import lent, taken
from polyreme.runtime.schedule import Schedule, ScheduledStep

__all__ = ["load_module", "load_profiled", "load_schedule", "load_with_prepare", "scheduled"]


def load_module(
    module: Module,
    name: str = "model",
    place: Place | None = None,
    functions: host.Functions = host.NO_FUNCTIONS,
    resident: bool = False,
) -> Any:
    """The executable of a module for a place, by default the current device; the module is left as it is. Equal modules share one.

    Ops for the host in `main`, such as collective calls, make it a schedule: compiled regions, and the host's ops between them; on a GPU
    branches and loops are such ops. `functions` are what its `host.call` ops call.

    What is `resident` takes arrays that nobody writes to, and on a GPU leaves its results there.
    """
    place = place or current_place()
    on_gpu = place.is_gpu_place()
    if has_host_ops(module.function(), on_gpu):
        return load_schedule(scheduled(module, on_gpu), name, place, functions, resident)
    if resident and on_gpu:
        return KeptFunction(load_module(module, name, place), place)
    driver = driver_of(place)
    key = digest_of(identity_text(module), name, machine_text(driver), place.kind, compiler_version())

    def make(keep: bool) -> tuple[Artifact]:
        from polyreme.lowering.machines import targets
        from polyreme.lowering.pipeline import compile_module

        target = targets.host() if driver is None else targets.gpu_target(driver.sm, driver.ptx)
        return (compile_module(module, target, name=name, room=room(keep)).artifact,)

    return load_kept(key, lambda keep: compiled_apart(_ops_of(module), [key], make, keep)[0], driver)


class KeptFunction:
    """A compiled function whose arguments are the arrays of tensors: on a GPU they stay there from call to call."""

    def __init__(self, executable: Any, place: Place):
        self.executable = executable
        self.copies = copies_on(place)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        return self.executable.run_kept(arrays, self.copies)

    def release_memory(self) -> None:
        """Give back what the latest call took on the device besides its arguments and results."""
        self.executable.release_memory()


def load_with_prepare(module: Module, name: str, prepare: str) -> tuple[Any, Any]:
    """As `load_module`, but packs of weights are made by a second executable, as `pipeline` says of `prepare`; it is None where nothing is
    packed, as on GPUs.
    """
    if current_place().is_gpu_place():
        return load_module(module, name), None
    text = identity_text(module)
    keys = [digest_of(text, name, machine_text(None), compiler_version(), prepare, part) for part in ("main", "prepare")]

    def make(keep: bool) -> tuple[Artifact, Artifact | None]:
        from polyreme.lowering.machines import targets
        from polyreme.lowering.pipeline import compile_module

        made = compile_module(module, targets.host(), name=name, prepare=prepare, room=room(keep))
        return made.artifact, made.prepare_artifact

    both = functools.cache(lambda keep: compiled_apart(_ops_of(module), keys, make, keep))
    main = load_kept(keys[0], lambda keep: both(keep)[0])
    if all(spec.role != "packed" for spec in main.manifest.inputs):
        return main, None
    return main, load_kept(keys[1], lambda keep: both(keep)[1])


def load_profiled(module: Module, name: str = "model") -> Any:
    """As `load_module` for this machine's CPU, with the times of kernels as one more output, which `lowering/debug/profile.py` tells how to
    read.
    """
    from polyreme.lowering.debug.profile import profiled_artifact
    from polyreme.lowering.machines import targets

    target = targets.host()
    key = digest_of(identity_text(module), name, repr(target), "profile", compiler_version())
    return load_kept(key, lambda keep: kept_or_given(key, profiled_artifact(module, target, name), keep))


def scheduled(module: Module, branches: bool = False) -> Module:
    """What runs of a module with ops for the host: collective calls placed so that they overlap with computing, and the regions between
    them as functions.

    With `branches` the host runs all branches and loops.
    """
    if any(isinstance(op, dist.AllReduce) for op in module.function().block):
        module = module.clone()
        OverlapCollectives().run(module)
    return split_regions(module.function(), branches)


def load_schedule(
    module: Module,
    name: str = "model",
    place: Place | None = None,
    functions: host.Functions = host.NO_FUNCTIONS,
    resident: bool = False,
) -> Schedule:
    """What runs a module of regions and host ops, as `split_regions` makes it: the steps of its `main`, in their order.

    Calls of regions run compiled, a `host.call` is one of `functions` (a number that is not there is an `EvaluateError`), branches and
    loops run the programs of their bodies, and the other ops run by their own meaning. `resident` is as in `load_module`: values stay on a
    GPU from region to region.
    """
    main = module.function()
    slots: dict[Value, int] = {}
    for value in main.args:
        slots[value] = len(slots)
    steps: list[ScheduledStep] = []
    for op in main.block:
        takes = tuple(slots[v] for v in op.operands)
        if op is main.block.terminator:
            return Schedule(manifest_of_inputs(main, name), steps, takes, result_names(main, ()))
        for result in op.results:
            slots[result] = len(slots)
        gives = tuple(slots[r] for r in op.results)
        if isinstance(op, Call):
            region = _region(module, op.callee.name, name, place, resident)
            steps.append(ScheduledStep(f"call {op.callee.name}", region.run, takes, gives))
        elif op.has(ControlFlow):
            programs = [HostBody(region, slots, name, functions, place, resident) for region in op.regions]
            own = [v for v in slots if op_symbols(op) & bound_symbols([v]) and v not in op.results]
            tellers = list(dict.fromkeys([*own, *(v for program in programs for v in program.tellers)]))
            for program in programs:
                program.find(tellers)
            steps.append(
                ScheduledStep(op.name, functools.partial(run_control, op, programs, tellers), (*takes, *(slots[v] for v in tellers)), gives)
            )
        elif isinstance(op, host.Call):
            call = functools.partial(_on_host, host.function_of(op, functions), resident)
            steps.append(ScheduledStep(f"host {op.function}", call, takes, gives))
        else:
            tellers = [v for v in slots if op_symbols(op) & bound_symbols([v]) and v not in op.results]
            steps.append(ScheduledStep(op.name, functools.partial(_by_meaning, op, tellers), (*takes, *(slots[v] for v in tellers)), gives))
    raise AssertionError("a function without a terminator")


def _region(module: Module, function: str, name: str, place: Place | None, resident: bool) -> Any:
    alone = Module.empty()
    copy = module.function(function).clone()
    copy.attributes["sym_name"] = "main"
    alone.block.append(copy)
    return load_module(alone, f"{name}_{function}", place, resident=resident)


class HostBody:
    """The program of a body of a branch or loop that the host runs. It is compiled when it first runs: of a branch perhaps never."""

    def __init__(
        self, region: Region, known: Iterable[Value], name: str, functions: host.Functions, place: Place | None, resident: bool = False
    ):
        self.function, self.tellers = body_function(region, known)
        self.name, self.functions, self.place, self.resident = f"{name}_body", functions, place, resident
        self.places: list[int] = []

    def find(self, tellers: Sequence[Value]) -> None:
        """Where among `tellers`, which come behind the operands, those stand that this body takes as further arguments."""
        self.places = [tellers.index(v) for v in self.tellers]

    @functools.cached_property
    def run(self) -> Callable[[list[Any]], Sequence[Any]]:
        """What runs it."""
        alone = Module.empty()
        alone.block.append(self.function)
        run: Callable[[list[Any]], Sequence[Any]] = load_module(alone, self.name, self.place, self.functions, self.resident).run
        return run


def run_control(op: Op, programs: Sequence[HostBody], tellers: Sequence[Value], given: list[Any]) -> Sequence[Any]:
    """What a branch or loop gives for its operands; what tells sizes comes behind them."""
    count = len(op.operands)
    program_of = dict(zip(op.regions, programs, strict=True))

    def run(region: Region, args: Sequence[Any]) -> Sequence[Any]:
        program = program_of[region]
        return program.run([*args, *(given[count + i] for i in program.places)])

    # Sizes are the bodies' own business: each run reads them off its arguments.
    with with_sizes(_sizes_told((*op.operands, *tellers), given)):
        return op.evaluate(given[:count], run)


def _sizes_told(values: Sequence[Value], arrays: Sequence[Any]) -> dict[str, int]:
    """The free sizes that arrays have which stand for these values."""
    sizes: dict[str, int] = {}
    for value, array in zip(values, arrays, strict=True):
        for dim, size in zip(value.type.shape, array.shape, strict=True):
            if (known := told(dim, size)) is not None:
                sizes[known[0]] = int(known[1])
    return sizes


def _by_meaning(op: Op, tellers: Sequence[Value], given: list[Any]) -> Sequence[Any]:
    """What an op gives for its operands, which stand first in `given`; what `tellers` are comes behind them, and says which sizes its
    attributes have.
    """
    count = len(op.operands)
    with with_sizes(_sizes_told(tellers, given[count:])):
        # Branches and loops run programs: no op with regions comes here.
        return op.evaluate(given[:count] if _stays(op) else [taken(value) for value in given[:count]], None)  # type: ignore[arg-type]


def _stays(op: Op) -> bool:
    """Whether arrays of a device are given to an op as they are: ranks may tell them each other from device to device."""
    return op.dialect == "dist" and bool(getattr(getattr(dist.current_group(), "communicator", None), "on_device", False))


def _on_host(function: Callable[[list[Any]], Sequence[Any]], resident: bool, given: list[Any]) -> Sequence[Any]:
    """What a function gives for arrays in main memory. It may keep what it gave, and write to it."""
    made = function([taken(value) for value in given])
    return [lent(value) if isinstance(value, np.ndarray) else value for value in made] if resident else made


def _ops_of(module: Module) -> int:
    return sum(1 for _ in module.function().walk())
