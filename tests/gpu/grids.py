"""Small grid kernels: from text to PTX, run on the emulated device (or a real one) and by their meaning on numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.dialects import kernel
from polyreme.ir.builtin import Module
from polyreme.ir.evaluate import evaluate, resolve_all, with_sizes
from polyreme.ir.text import parse_module
from polyreme.ir.types import type_symbols
from polyreme.ir.verify import verify
from polyreme.lowering.emit.ptx.emit_module import PtxModule, emit_ptx
from polyreme.lowering.machines.targets import find_target
from polyreme.runtime.gpu.drivers import Driver, open_driver
from polyreme.runtime.ptx.tensor_map import TensorMap

Array = np.ndarray[Any, Any]


def grid_module(args: str, body: str, grid: str = "[1]", block: str = "[32]", outputs: int = 1, checked: bool = True) -> Module:
    """A module whose `main` launches one kernel, `@work`, on all its arguments; the last `outputs` of them are results. With `checked` off
    it need not be valid.
    """
    names = [part.split(":")[0].strip() for part in args.split(", ")]
    lines = "\n".join(f"  {line}" for line in body.strip().splitlines())
    text = f"""
func @work({args}) {{
{lines}
  return
}}
func @main({args}) {{
  kernel.launch {", ".join(names)} {{callee = @work, grid = {grid}, block = {block}}}
  return
}}
"""
    module = parse_module(text)
    roles = ["input"] * (len(names) - outputs) + ["output"] * outputs
    module.function("main").attributes["arg_roles"] = tuple(roles)
    if checked:
        verify(module)
    return module


def ptx_of(module: Module, sm: int | str = 80) -> PtxModule:
    """The PTX of the module's kernels for a compute capability."""
    return emit_ptx(module, find_target(f"cuda:sm_{sm}"))


def run_on(driver: Driver, module: Module, inputs: Sequence[Array], outputs: Sequence[Array], sm: int | str = 80) -> list[Array]:
    """The outputs after `main`'s launches on a device; `outputs` are what their memory holds before."""
    code = ptx_of(module, sm)
    loaded = driver.load_module(code.ptx)
    main = module.function("main")
    arrays = [np.ascontiguousarray(a) for a in (*inputs, *outputs)]
    sizes = {
        str(d): n
        for arg, a in zip(main.args, arrays, strict=True)
        for d, n in zip(arg.type.shape, a.shape, strict=True)
        if type_symbols(arg.type)
    }
    addresses = [driver.allocate(a.nbytes) for a in arrays]
    try:
        for address, array in zip(addresses, arrays, strict=True):
            driver.upload(address, array)
        for op in main.block:
            if isinstance(op, kernel.Launch):
                known = code.kernels[op.callee.name]
                places = [addresses[main.args.index(v)] for v in op.operands]
                maps = [
                    driver.tensor_map(TensorMap(str(m.dtype), m.sizes, m.strides, m.box), places[m.argument] + 2 * m.start)
                    for m in known.maps
                ]
                with with_sizes(sizes):
                    grid = resolve_all(op.grid)
                function = loaded.function(known.symbol, known.launch_bytes)
                driver.launch(function, grid, op.block, [*maps, *places, *(sizes[s] for s in known.sizes)], known.launch_bytes)
        driver.synchronize()
        results = [a.copy() for a in arrays[len(inputs) :]]
        for address, result in zip(addresses[len(inputs) :], results, strict=True):
            driver.download(address, result)
    finally:
        for address in addresses:
            driver.free(address)
    return results


def run_emulated(module: Module, inputs: Sequence[Array], outputs: Sequence[Array], sm: int | str = 80) -> list[Array]:
    return run_on(open_driver("gpu-emulated"), module, inputs, outputs, sm)


def meaning(module: Module, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """The same by the ops' meaning on numpy."""
    return evaluate(module, [np.array(a) for a in (*inputs, *outputs)])


def both(module: Module, inputs: Sequence[Array], outputs: Sequence[Array], sm: int | str = 80) -> tuple[list[Array], list[Array]]:
    """(what the emulated device gives, what the ops mean)."""
    return run_emulated(module, inputs, outputs, sm), meaning(module, inputs, outputs)
