"""Random draws on a GPU: the same Mersenne twister, by the threads of one block.

Half of the state's words depend on the other half alone, so a thread per word makes each half in one step; that is why draws need not come
from the host. The draws of a root follow one another in a single block, and are bit for bit those of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable

from polyreme.dialects import tensor
from polyreme.dialects.mt19937 import HALF
from polyreme.ir.core import Value
from polyreme.ir.dims import product
from polyreme.ir.types import f32, f64
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.general.random import Twister
from polyreme.lowering.kernels.gpu.grid import GridKernel
from polyreme.lowering.kernels.plan import KernelPlan, Request, operand, result
from polyreme.lowering.machines.gpu import WARP

# A thread for each word of a half, in whole warps.
THREADS = -(-HALF // WARP) * WARP


def build_draws(request: Request) -> KernelPlan | None:
    """The plan of a single `tensor.random`; None for any other root."""
    op = request.single(tensor.Random)
    if op is None or op.dtype not in (f32, f64):
        return None
    types = [request.func.args[0].type, op.results[0].type, op.results[1].type]
    made = GridKernel(request.name("random"), [operand(0), result(0), result(1)], types, (1,), (THREADS,), op.location)
    _BlockTwister(made.code, made).draw(op, made.code.value(product(op.shape)))
    return KernelPlan((made.finish(),), builder="random")


class _BlockTwister(Twister):
    def __init__(self, code: Code, made: GridKernel):
        super().__init__(code, *made.buffers)
        self.made = made
        self.thread = made.thread()

    def _fill(self, buffer: Value, lo: Index, hi: Index, to: Index, element: Callable[[Index, int], Value]) -> None:
        """Rounds of all threads. Words are read ahead of where others write them, so a round of words reads, waits and then writes."""
        code = self.code
        first = code.add(lo, self.thread)
        if isinstance(lo, int) and isinstance(hi, int) and hi - lo <= THREADS:
            inside = code.apply("lt", code.value(first), code.value(hi))
            fresh = element(code.min(first, hi - 1), 1)
            self.made.barrier()
            code.store(fresh, buffer, code.add(to, first), mask=inside)
        else:
            with code.loop(first, hi, step=THREADS, name="k") as loop:
                code.store(element(loop.iv, 1), buffer, code.add(to, loop.iv))
        self.made.barrier()

    def _once(self, x: Value, buffer: Value, at: Index) -> None:
        code = self.code
        # Everyone has made `x` from what the store replaces.
        self.made.barrier()
        code.store(x, buffer, at, mask=code.apply("eq", self.thread, code.value(0)))
        self.made.barrier()
