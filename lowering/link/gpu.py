"""The last stage for a GPU: PTX of the kernels, and the launches of `main` as a plan that the runtime follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polyreme.dialects import kernel
from polyreme.ir import config
from polyreme.ir.attributes import Dense
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Dim
from polyreme.ir.timing import timed
from polyreme.ir.types import BufferType
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.ptx.emit_module import PtxKernel, PtxModule, emit_ptx
from polyreme.lowering.link.manifest import make_manifest
from polyreme.lowering.link.runtime import GPU_PLAN, Argument, Artifact, GpuPlan, LaunchSpec, MapSpec
from polyreme.lowering.machines.targets import GpuTarget
from polyreme.lowering.schedule.arena import plan_memory

Array = np.ndarray[Any, Any]


def build_gpu_artifact(module: Module | Program, target: GpuTarget, name: str, constants: Mapping[str, Array | Dense]) -> Artifact:
    """PTX, constants and manifest of a module at kernel level, as `link.build_artifact` makes them for processors."""
    main = module.function("main")
    with timed("plan-memory"):
        plan_memory(main)
    manifest, data = make_manifest(main, target, name, constants)
    with timed("emit-ptx"):
        code = emit_ptx(module, target, name)
        ptx = code.ptx
    config.say(4, lambda: f"{code.llvm}\n{ptx}")
    plan = GpuPlan(tuple(_launches(main, code)), tuple(_arena(main)), bool(main.many))
    if plan.many and any(len(launch.grid) > 1 for launch in plan.launches):
        raise PolyremeError("expected kernels for many sets of arguments in grids of one axis", main.location, code="E0408")
    return Artifact(replace(manifest, extra={**manifest.extra, GPU_PLAN: plan.to_text()}), ptx.encode(), data)


def _launches(main: Func, code: PtxModule) -> list[LaunchSpec]:
    found = []
    for op in main.block:
        if isinstance(op, kernel.Launch):
            entry = code.kernels[op.callee.name]
            arguments = [*(_argument(v, main) for v in op.operands), *(Argument("size", name) for name in entry.sizes)]
            grid, maps = tuple(map(_text, op.grid)), _maps(op, entry, main)
            found.append(LaunchSpec(entry.symbol, grid, op.block, tuple(arguments), entry.launch_bytes, maps))
        elif not isinstance(op, (kernel.Alloc, kernel.View, kernel.Size, kernel.Constant, Return)):
            raise PolyremeError(f"expected launches only in '@main' for a GPU but got '{op.name}'", op.location, code="E0408")
    return found


def _maps(op: kernel.Launch, entry: PtxKernel, main: Func) -> tuple[MapSpec, ...]:
    found = []
    for m in entry.maps:
        sizes, strides = tuple(map(_text, m.sizes)), tuple(map(_text, m.strides))
        found.append(MapSpec(_argument(op.operands[m.argument], main), str(m.dtype), _text(m.start), sizes, strides, m.box))
    return tuple(found)


def _argument(value: Value, main: Func) -> Argument:
    size = value.producer(kernel.Size) or value.producer(kernel.Constant)
    if size is not None:
        return Argument("size", _text(size.value))
    view = value.producer(kernel.View)
    while view is not None:
        if view.offset is not None:
            raise PolyremeError("expected views of whole buffers in '@main' for a GPU", view.location, code="E0408")
        value = view.buffer
        view = value.producer(kernel.View)
    if value in main.args:
        return Argument("buffer", main.args.index(value))
    alloc = value.producer(kernel.Alloc)
    if alloc is None:
        raise PolyremeError(
            "expected an argument of '@main' or memory of the arena as an argument of a launch", main.location, code="E0408"
        )
    return Argument("arena", _text(alloc.offset))


def _arena(main: Func) -> list[int | str]:
    """Where each piece of the arena ends."""
    ends = []
    for op in main.block:
        if isinstance(op, kernel.Alloc):
            type = op.result.type
            assert isinstance(type, BufferType)
            ends.append(_text(op.offset + type.elements * type.dtype.bytes))
    return list(dict.fromkeys(ends))


def _text(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)
