"""Running PTX on numpy, with every access checked: how a kernel is launched and how its threads take turns.

Sets of blocks run one after the other, the blocks of a set side by side. A register is an array over all threads of the set, and a step of
the program works on whole arrays, so that most of the time is numpy's own. On the way from text to result:

    ptx_parser        text to instructions
    ptx_program       instructions to steps, made by ptx_instructions (registers), ptx_transfers (memory) and ptx_warps (whole warps)
                      out of ptx_operands (how to read and write operands) and ptx_arithmetic (what is computed)
    ptx_state         what the steps work on: registers, memories (ptx_memory, which checks accesses), who the threads are
    ptx_runner        which threads run which step next

Divergence. While all threads stand at one place they run together, without a look at who they are. Where a branch parts them, each thread
has a place of its own, and those at the lowest place run, as a selection, until they come to a place that a branch leads to; then the
lowest place is looked for again. Branches go forward but for loops, so those behind catch up, and threads meet again where LLVM laid the
code out for it. A thread at a barrier waits; when none can go on, each block whose threads all wait at one barrier passes it, and any other
that waits is an error.

Races. Threads that run side by side hide races: a result can be right by the luck of the order. So shared memory notes for each element
which thread wrote it and which one read it (or that several did) since the block's last barrier, and an access by another thread, when
either of the two writes, is an error there and then. Passing a barrier clears the notes of the block. Atomics leave none, as no order of
theirs is wrong.

An error names the kernel, the line of the PTX, and the block and the thread that are to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.runtime.ptx.memory import DeviceMemory, Fault
from polyreme.runtime.ptx.parser import Instruction, Kernel, PtxError, Symbol
from polyreme.runtime.ptx.program import Program
from polyreme.runtime.ptx.state import Threads

# Threads that run side by side: enough to make numpy's calls cheap, few enough that registers stay in the cache.
SIDE_BY_SIDE = 8192
MAX_STEPS = 50_000_000


def launch(
    program: Program, memory: DeviceMemory, grid: Sequence[int], block: Sequence[int], arguments: Sequence[int | bytes], shared: int = 0
) -> None:
    """Run a kernel on all blocks of a grid; `PtxError` when it does what it must not. Sizes have up to three axes, x first. `shared` bytes
    of shared memory are the launch's.
    """
    grid, block = (tuple([*sizes, 1, 1][:3]) for sizes in (grid, block))
    _check_launch(program.kernel, grid, block, arguments)
    if shared > program.most_shared:
        raise PtxError(
            f"expected at most {program.most_shared} bytes of shared memory in a launch of '{program.kernel.name}', which was asked for "
            f"no more, but got {shared}"
        )
    blocks, size = int(np.prod(grid)), int(np.prod(block))
    at_once = max(1, SIDE_BY_SIDE // size)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, at_once):
            threads = Threads(program.layout, memory, grid, block, first, min(at_once, blocks - first), shared)
            for (name, width), value in zip(program.kernel.params.items(), arguments, strict=True):
                data = value if isinstance(value, bytes) else (int(value) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
                if len(data) != width:
                    raise PtxError(f"expected {width} bytes for '{name}' of kernel '{program.kernel.name}' but got {len(data)}")
                threads.arguments[name] = np.frombuffer(data, np.uint8)
            _Turns(program, threads).run()


def _check_launch(kernel: Kernel, grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[int | bytes]) -> None:
    name = kernel.name
    if len(arguments) != len(kernel.params):
        raise PtxError(f"expected {len(kernel.params)} arguments for kernel '{name}' but got {len(arguments)}")
    if min(block) < 1 or min(grid) < 0 or grid[0] >= 1 << 31 or max(grid[1:]) > 65535:
        raise PtxError(f"expected sizes that a device can launch for kernel '{name}' but got grid {list(grid)} of blocks {list(block)}")
    most = kernel.threads or 1024
    if int(np.prod(block)) > most:
        raise PtxError(f"expected blocks of at most {most} threads for kernel '{name}' but got {list(block)}")


class _Turns:
    """Who of a set of threads runs next, and what branches, ends and barriers change about it.

    `together` is the place of all threads, when they stand at one and none has ended; otherwise it is None, and `place` has that of each
    thread.
    """

    def __init__(self, program: Program, threads: Threads):
        self.program = program
        self.threads = threads
        self.together: int | None = 0
        self.place = np.zeros(threads.count, np.int64)
        self.waiting, self.ended = np.zeros(threads.count, bool), np.zeros(threads.count, bool)
        # Those who wait for a phase of a barrier in shared memory, at their places; and how far barriers had come when all were asked.
        self.parked, self.asked = np.zeros(threads.count, bool), -1

    def run(self) -> None:
        """Turns until all threads have ended."""
        t, steps, leaders, name = self.threads, self.program.steps, self.program.leaders, self.program.kernel.name
        taken = 0
        while (turn := self._next()) is not None:
            start, some = turn
            at = start
            while (step := steps[at]) is not None and (some is None or at == start or at not in leaders):
                try:
                    step(t, some)
                except Fault as fault:
                    raise self._located(fault, at, some) from None
                at += 1
            taken += at - start + 1
            if taken > MAX_STEPS:
                raise PtxError(f"kernel '{name}' has not ended after {MAX_STEPS} steps")
            if step is not None:
                self.place[some] = at
            elif at < len(self.program.kernel.code):
                self._control(at, some)
            else:
                raise PtxError(f"kernel '{name}' runs past its end")

    def _next(self) -> tuple[int, Any] | None:
        """A place and the threads that run from there: all of them, or those at the lowest place. None when all have ended."""
        if self.together is not None:
            return self.together, None
        ready = ~(self.waiting | self.ended | self.parked)
        if not ready.any():
            if self.ended.all():
                self._check_end()
                return None
            if self.parked.any():
                self._wake()
            else:
                self._meet()
            ready = ~(self.waiting | self.ended)
        at = int(self.place[ready].min())
        chosen = ready & (self.place == at)
        return at, None if chosen.all() else np.flatnonzero(chosen)

    def _wake(self) -> None:
        """No thread can go on: copies arrive, and those who wait for a phase ask again. An error where that is of no use."""
        bulk = self.threads.bulk_state
        bulk.deliver()
        if bulk.turns == self.asked:
            thread = int(np.flatnonzero(self.parked)[0])
            instruction = self.program.kernel.code[int(self.place[thread])]
            raise self._error(instruction, "waits for a phase that never ends: no thread of the block can go on", thread)
        self.asked = bulk.turns
        self.parked[:] = False

    def _check_end(self) -> None:
        """All threads have ended: nothing may be under way."""
        bulk = self.threads.bulk
        if bulk is not None and bulk.copies:
            raise PtxError(f"kernel '{self.program.kernel.name}' ends with a copy under way, which nobody has waited for")

    def _located(self, fault: Fault, at: int, some: Any) -> PtxError:
        """A fault of memory, with the line and the thread."""
        chosen, guard = self.threads.chosen(some), self.program.guards[at]
        if guard is not None:
            chosen = chosen[guard(self.threads, some)]
        return self._error(self.program.kernel.code[at], fault.message, int(chosen[fault.position]))

    def _error(self, instruction: Instruction, message: str, thread: int) -> PtxError:
        return self.program.layout.error(instruction, message, self.threads, thread)

    def _control(self, at: int, some: Any) -> None:
        """A branch, an end or a barrier."""
        instruction, guard, t = self.program.kernel.code[at], self.program.guards[at], self.threads
        chosen = t.chosen(some)
        on = np.ones(len(chosen), bool) if guard is None else guard(t, some)
        word = instruction.parts[0]
        if word == "mbarrier":
            self._park(at, some)
            return
        self.together = None
        if word == "bra":
            assert isinstance(instruction.operands[0], Symbol)
            target = self.program.kernel.labels[instruction.operands[0].name]
            if some is None and on.all():
                self.together = target
            elif some is None and not on.any():
                self.together = at + 1
            else:
                self.place[chosen] = np.where(on, target, at + 1)
            return
        self.place[chosen] = at + 1
        if word in ("ret", "exit"):
            self.ended[chosen[on]] = True
        elif guard is not None:
            raise self._error(instruction, "expected a barrier without a condition", int(chosen[0]))
        elif some is None:
            self._pass(np.arange(t.count // t.block_size))
            self.together = at + 1
        else:
            self.waiting[chosen] = True

    def _meet(self) -> None:
        """No thread can go on: whole blocks that wait at one barrier pass it, and others are at fault."""
        size, code = self.threads.block_size, self.program.kernel.code
        held, places = self.waiting.reshape(-1, size), self.place.reshape(-1, size)
        blocks = np.flatnonzero(held.any(1))
        for block in blocks:
            first = int(np.flatnonzero(held[block])[0])
            barrier, thread = code[int(places[block, first]) - 1], int(block) * size + first
            if not held[block].all():
                other = int(np.flatnonzero(~held[block])[0])
                raise self._error(barrier, f"divergent barrier: thread {other} of the block has ended", thread)
            elsewhere = np.flatnonzero(places[block] != places[block, first])
            if len(elsewhere):
                line = code[int(places[block, elsewhere[0]]) - 1].line
                raise self._error(barrier, f"divergent barrier: thread {int(elsewhere[0])} of the block waits at line {line}", thread)
        self._pass(blocks)
        self.waiting[:] = False

    def _pass(self, blocks: Any) -> None:
        self.threads.shared.pass_barrier(blocks)
        if self.threads.bulk is not None:
            self.threads.bulk.join(blocks)

    def _park(self, at: int, some: Any) -> None:
        """A wait for a phase: who need not wait goes on."""
        chosen = self.threads.chosen(some)
        try:
            is_over = self.program.waits[at](self.threads, some)
        except Fault as fault:
            raise self._located(fault, at, some) from None
        if is_over.all() and some is None:
            self.together = at + 1
            return
        self.together = None
        self.place[chosen] = np.where(is_over, at + 1, at)
        self.parked[chosen[~is_over]] = True
