"""Tuning: candidate tiles of a matrix product are timed once for each shape, and the answer is kept in the cache, with the objects.

Off by default: the estimate of `microkernel.rank_tiles` is close on the machines that it was fitted on, and timings differ from run to run.
`POLYREME_TUNE=1` turns it on for code that is made for this machine. The tile does not change a result, since the order of additions is the
same.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir import config
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.timing import timed
from polyreme.lowering.analysis.costs import cost_of
from polyreme.lowering.emit.llvm.codegen import version
from polyreme.lowering.kernels.gemm.contract import build_contract, build_with_tile, tiles_of
from polyreme.lowering.kernels.plan import KernelBuilder, KernelPlan, Request, title
from polyreme.lowering.link.runtime import cache_in, digest_of
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants

__all__ = ["build_tuned_contract", "time_tiles"]

# Tiles that are tried, interleaved rounds of them, and seconds of a measurement.
CANDIDATES, ROUNDS, TURN = 6, 5, 0.004
# Products of fewer operations are not tuned.
MIN_OPERATIONS_TO_TUNE = 1_000_000

Tile = tuple[int, int]


def build_tuned_contract(request: Request) -> KernelPlan | None:
    """As `build_contract`, with the fastest of the first tiles on this machine."""
    tiles = tiles_of(request)[:CANDIDATES]
    operations = cost_of(request.func).operations
    if len(tiles) < 2 or not isinstance(operations, int) or operations < MIN_OPERATIONS_TO_TUNE:
        return build_contract(request)
    return build_with_tile(request, _fastest(request, tiles))


def _fastest(request: Request, tiles: tuple[Tile, ...]) -> Tile:
    """The tile that was found when this was last asked, or is found now."""
    kept = cache_in(config.cache_folder())
    target = request.target
    key = digest_of("tile", version(), target.triple, target.cpu, target.features, request.key, str(config.threads()), str(tiles))
    found = kept.get(key)
    if found is not None:
        rows, vectors = json.loads(found)
        return rows, vectors
    with timed("tune"):
        seconds = time_tiles(request, tiles)
    best = min(tiles, key=lambda tile: seconds[tile])
    config.say(1, lambda: f"// {title(request)}: " + ", ".join(f"{r}x{v} {seconds[r, v] * 1e6:.1f} us" for r, v in tiles))
    kept.put(key, json.dumps(best).encode())
    return best


def time_tiles(request: Request, tiles: tuple[Tile, ...]) -> dict[Tile, float]:
    """Seconds that the group takes with each tile on this machine: the best of interleaved calls, on random numbers."""
    calls = {tile: _call(request, partial(build_with_tile, tile=tile)) for tile in tiles}
    best = dict.fromkeys(tiles, float("inf"))
    for _ in range(ROUNDS):
        for tile, call in calls.items():
            end = time.perf_counter() + TURN
            while True:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                best[tile] = min(best[tile], now - start)
                if now >= end:
                    break
    return best


def _call(request: Request, build: KernelBuilder) -> Any:
    """The group as a model of its own, compiled by `build` and ready to run."""
    from polyreme.lowering.link.artifact import build_artifact, load

    module, inputs = module_of(request, build)
    executable = load(build_artifact(module, request.target, "candidate", outline_constants(module)))
    return partial(executable.run, inputs)


def module_of(request: Request, build: KernelBuilder) -> tuple[Module, list[np.ndarray[Any, Any]]]:
    """A root as a model of its own at kernel level, by `build`, and arrays for its inputs: operands that are known ahead of time are
    constants.
    """
    rng = np.random.default_rng(0)
    arrays = [_array(rng, t) for t in request.operand_types]
    known = request.constant | request.kept
    inputs = [i for i in range(len(arrays)) if i not in known]
    main = Func.empty("main", [request.operand_types[i] for i in inputs], arg_roles=("input",) * len(inputs), loc=request.func.location)
    b = Builder.at_end(main.block, request.func.location)
    operands: list[Value] = [b(tensor.Constant, value=arrays[i]) if i in known else main.args[inputs.index(i)] for i in range(len(arrays))]
    body = Block([v.type for v in operands])
    inner = Builder.at_end(body, request.func.location)
    mapping: dict[Value, Value] = dict(zip(request.func.args, body.args, strict=True))
    for op in request.ops():
        inner.insert(op.clone(mapping))
    inner.insert(tensor.Yield([mapping.get(v, v) for v in request.results]))
    group = tensor.Fused(operands, body=Region(body))
    b.insert(group)
    b.insert(Return(list(group.results)))
    module = Module.empty()
    module.block.append(main.finish())
    TensorToKernel(request.target, (build,)).run(module)
    return module, [arrays[i] for i in inputs]


def _array(rng: np.random.Generator, type: Any) -> np.ndarray[Any, Any]:
    if type.dtype.is_float:
        return rng.standard_normal(type.shape).astype(type.dtype.np)
    return np.ones(type.shape, type.dtype.np)
