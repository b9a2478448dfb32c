"""Measure this machine's core, print its row of `machines/cores.py`, and say how well the cost model then predicts.

    python -m polyreme.lowering.debug.fit

Each rate is that of a small kernel that keeps one unit busy, the fastest of many runs on one thread; a chain of multiply-adds, each of
which waits `LATENCY` cycles for the one before it, gives the cycles. Rates of L3 and memory are those of one core reading alone: of a
machine whose other cores are busy too, a smaller number is a better row.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.dialects.kernel.bf16x3 import LANES, MOST_ROWS, PAIRS, PRODUCTS, TERMS
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, TensorType, f32, i32
from polyreme.lowering.analysis.kernel_work import kernel_cycles
from polyreme.lowering.debug.profile import ProfileKernels
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.microkernel import Registers
from polyreme.lowering.kernels.plan import choose, facts_of, request_of
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.cores import Core, Rates, core_named
from polyreme.lowering.machines.functions import ENOUGH_SUMS, LATENCY
from polyreme.lowering.machines.instructions import has_bf16_tiles
from polyreme.lowering.machines.targets import Target, host
from polyreme.lowering.machines.timing import TIMING
from polyreme.lowering.pipeline import BUILDERS
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants

__all__ = ["Clock", "fitted", "kernel_call"]

Write = Callable[[Code, Func], None]


def aligned(array: Any, line: int = 64) -> Any:
    """A copy that begins where a line of the cache does, as buffers of models do."""
    room = np.empty(array.nbytes + line, np.uint8)
    start = -room.ctypes.data % line
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def kernel_call(module: Module, arrays: Sequence[Any], target: Target) -> Callable[[], float]:
    """What runs a module at kernel level once, on one thread, and gives the nanoseconds in its kernels."""
    ProfileKernels().run(module)
    executable, arrays = load(build_artifact(module, target, "timed", outline_constants(module))), [aligned(a) for a in arrays]

    def call() -> float:
        began = time.thread_time_ns()
        stamps = executable.run(arrays)[-1]
        whole = time.thread_time_ns() - began
        first, second, *_ = stamps
        inside = float(stamps[-1] - second - (len(stamps) - 2) * (second - first))
        # What takes long is interrupted by other programs, so the thread's own time is less.
        return min(inside, float(whole))

    return call


def kernel_module(types: Sequence[BufferType], roles: Sequence[str], write: Write) -> Module:
    """A module whose `main` calls one kernel, which `write` writes."""
    func = Func.empty("timed", list(types))
    code = Code(Builder.at_end(func.block))
    write(code, func)
    code.b.insert(Return([]))
    module = Module.empty()
    module.block.append(func.finish())
    main = Func.empty("main", list(types), arg_names=[f"x{i}" for i in range(len(types))], arg_roles=tuple(roles))
    b = Builder.at_end(main.block)
    b(kernel.Call, *main.args, callee="timed")
    b.insert(Return([]))
    module.block.append(main.finish())
    return module


@dataclass(frozen=True)
class Bench:
    """A kernel that keeps one unit busy: `write` writes it, on a buffer of `elements` and one of `results`; it has so many `units` of what
    is counted.
    """

    write: Write
    elements: int
    results: int
    units: float
    dtype: ScalarType = f32

    def nanoseconds(self, target: Target) -> float:
        """The fastest run."""
        types = [BufferType((self.elements,), self.dtype), BufferType((self.results,), f32)]
        call = kernel_call(kernel_module(types, ("input", "output"), self.write), [np.zeros(self.elements, self.dtype.np)], target)
        return min(call() for _ in range(TIMING.runs))


class Clock:
    """Cycles of this machine, by a chain of multiply-adds."""

    def __init__(self, target: Target):
        def chain(code: Code, func: Func) -> None:
            x = code.load(func.args[0], 0)
            with code.loop(0, TIMING.chain, [x]) as loop:
                loop.next = [code.fma(x, x, loop.carried[0])]
            code.store(loop.results[0], func.args[1], 0)

        types = [BufferType((1,), f32)] * 2
        self._call = kernel_call(kernel_module(types, ("input", "output"), chain), [np.zeros(1, np.float32)], target)

    def rate(self, runs: int = 10) -> float:
        """Cycles of a nanosecond now."""
        return TIMING.chain * LATENCY / min(self._call() for _ in range(runs))


def rates(target: Target) -> dict[str, Bench]:
    """The kernels by the field of a row that they tell: units of a cycle, or cycles of a unit where `PER_UNIT` has it."""
    registers = Registers.of(target, f32)
    lanes, chains = registers.lanes, registers.accumulators
    l1, l2, l3 = target.caches

    def multiply(code: Code, func: Func) -> None:
        x = code.load(func.args[0], 0, lanes)
        with code.loop(0, TIMING.chain, [x] * chains) as loop:
            loop.next = [code.fma(x, x, acc) for acc in loop.carried]
        for i, acc in enumerate(loop.results):
            code.store(acc, func.args[1], i * lanes)

    def read(size: int) -> Bench:
        """Sums of all vectors of a buffer, again and again."""
        vectors = max(ENOUGH_SUMS, size // 2 // (lanes * f32.bytes) // ENOUGH_SUMS * ENOUGH_SUMS)
        times = max(2, -(-TIMING.chain // vectors))

        def write(code: Code, func: Func) -> None:
            x, y = func.args
            zero = code.zero(f32, lanes)
            with code.loop(0, times, [zero] * ENOUGH_SUMS) as again:
                with code.loop(0, vectors * lanes, again.carried, step=ENOUGH_SUMS * lanes) as loop:
                    loop.next = [
                        code.apply("add", acc, code.load(x, code.add(loop.iv, i * lanes), lanes)) for i, acc in enumerate(loop.carried)
                    ]
                again.next = loop.results
            for i, acc in enumerate(again.results):
                code.store(acc, y, i * lanes)

        return Bench(write, vectors * lanes, ENOUGH_SUMS * lanes, times * vectors * lanes * f32.bytes)

    # Vectors of a buffer in L1.
    filled = l1 // 2 // (lanes * f32.bytes)

    def fill(code: Code, func: Func) -> None:
        x, y = func.args
        value = code.load(x, 0, lanes)
        with code.loop(0, ENOUGH_SUMS) as again, code.loop(0, filled * lanes, step=ENOUGH_SUMS * lanes) as loop:
            for i in range(ENOUGH_SUMS):
                code.store(value, y, code.add(code.add(loop.iv, i * lanes), code.mul(again.iv, 0)))

    def turn(code: Code, func: Func) -> None:
        x = [code.load(func.args[0], i * lanes, lanes) for i in range(ENOUGH_SUMS)]
        with code.loop(0, TIMING.chain // ENOUGH_SUMS, x) as loop:
            carried = loop.carried
            order = [(2 * i + 1) % (2 * lanes) for i in range(lanes)]
            loop.next = [code.shuffle(carried[i], carried[(i + 1) % ENOUGH_SUMS], order) for i in range(ENOUGH_SUMS)]
        for i, acc in enumerate(loop.results):
            code.store(acc, func.args[1], i * lanes)

    def gather(code: Code, func: Func) -> None:
        x, y = func.args
        places = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(3), lanes))
        zero = code.zero(f32, lanes)
        with code.loop(0, TIMING.chain // ENOUGH_SUMS // 4, [zero] * 4) as loop:
            at = [code.apply("add", places, code.broadcast(code.value(code.add(code.mod(loop.iv, 16), i)), lanes)) for i in range(4)]
            loop.next = [code.apply("add", acc, code.b(kernel.Gather, x, p)) for acc, p in zip(loop.carried, at, strict=True)]
        for i, acc in enumerate(loop.results):
            code.store(acc, y, i * lanes)

    found = {
        "multiply_adds": Bench(multiply, lanes, chains * lanes, TIMING.chain * chains),
        "loads": replace(read(l1), units=read(l1).units / (lanes * f32.bytes)),
        "stores": Bench(fill, lanes, filled * lanes, filled * ENOUGH_SUMS),
        "shuffles": Bench(turn, ENOUGH_SUMS * lanes, ENOUGH_SUMS * lanes, TIMING.chain // ENOUGH_SUMS * ENOUGH_SUMS),
        "places": Bench(gather, 4 * lanes + 64, 4 * lanes, TIMING.chain // ENOUGH_SUMS // 4 * 4 * lanes),
        "l2_bytes_per_cycle": read(l2),
        "l3_bytes_per_cycle": read(l3),
        "memory_bytes_per_cycle": read(8 * l3),
    }
    if has_bf16_tiles(target):
        found["tile_row_cycles"] = _tiles()
    return found


PER_UNIT = ("tile_row_cycles",)


def _tiles() -> Bench:
    """Products of tiles whose terms stay in L1."""
    steps, times = 2, 500
    left, right = steps * TERMS * MOST_ROWS * PAIRS, TERMS * PAIRS * steps * LANES

    def write(code: Code, func: Func) -> None:
        x, y = func.args
        with code.loop(0, times) as loop:
            at = code.value(code.mul(code.mod(loop.iv, 1), left))
            code.b(kernel.DotTerms, x, at, x, code.value(left), y, code.value(0), rows=MOST_ROWS, steps=steps)

    return Bench(write, left + right, MOST_ROWS * LANES, times * steps * len(PRODUCTS) * 2 * MOST_ROWS, i32)


def fitted(target: Target) -> Core:
    """The row of this machine's core: that of its processor with the rates as they are measured here."""
    clock, own = Clock(target), core_named(target.cpu, target.arch)
    measured: dict[str, Any] = {}
    for name, bench in rates(target).items():
        cycles = bench.nanoseconds(target) * clock.rate()
        measured[name] = round(cycles / bench.units if name in PER_UNIT else bench.units / cycles, 2)
    of_rates = {f.name for f in fields(Rates)}
    return replace(
        own,
        name=target.cpu,
        processors=(target.cpu,),
        **{name: value for name, value in measured.items() if name not in of_rates},
        rates=replace(own.rates, **{name: value for name, value in measured.items() if name in of_rates}),
    )


def predictions(target: Target) -> list[tuple[str, float, float]]:
    """Products by known weights: what each is, its cycles as predicted, and as measured."""
    clock, found = Clock(target), []
    sizes = ((1, 512, 512), (8, 768, 768), (49, 960, 160), (64, 64, 64), (128, 256, 512), (196, 576, 96), (384, 384, 384))
    for rows, steps, lanes in sizes:
        main = Func.empty("main", [TensorType((rows, steps), f32)], arg_names=("x",), arg_roles=("input",))
        b = Builder.at_end(main.block)
        weights = b(tensor.Constant, value=np.ones((steps, lanes), np.float32))
        product = b(tensor.Contract, main.args[0], weights, spec="mk,kn->mn")
        b.insert(Return([product]))
        module = Module.empty()
        module.block.append(main.finish())
        (op,) = (op for op in main.block if isinstance(op, tensor.Contract))
        plan = choose(request_of(op, target, *facts_of(op, {}, "")), BUILDERS)
        assert plan is not None
        cycles = sum(kernel_cycles(step.func, target) for step in plan.steps)
        TensorToKernel(target, BUILDERS).run(module)
        call = kernel_call(module, [np.ones((rows, steps), np.float32)], target)
        found.append((f"{plan.builder} {rows}x{steps}x{lanes}", cycles, min(call() for _ in range(TIMING.runs)) * clock.rate()))
    return found


def main() -> int:
    target = host()
    own, row = core_named(target.cpu, target.arch), fitted(target)
    print(f"{target.cpu}, by the row '{own.name}'; measured here:")
    for name in (*(f.name for f in fields(Core) if f.name not in ("name", "processors", "rates")), *(f.name for f in fields(Rates))):
        before, now = (getattr(core if hasattr(core, name) else core.rates, name) for core in (own, row))
        print(f"    {name} = {now}" + (f"    # the row has {before}" if now != before else ""))
    told = predictions(target)
    for what, cycles, taken in told:
        print(f"{what}: predicted {cycles:.0f} cycles, measured {taken:.0f}")
    print(f"median error {median(abs(cycles / taken - 1) for _, cycles, taken in told):.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
