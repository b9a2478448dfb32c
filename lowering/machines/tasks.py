"""How much work is worth a thread, in cycles. It follows from what waking a thread costs, which all machines here are taken to share.

`Target.serial_cycles` and `Target.grain_cycles` are the same for loops that have no numbers of their own.
"""

from __future__ import annotations

# Of products and convolutions: what pays for waking a thread. A result is cut into about so many pieces for the threads, if each has so
# many cycles.
GRAIN_CYCLES, PIECES, PIECE_CYCLES = 5000, 16, 8000
# Rows, or groups of rows, that threads share evenly; of an image as many at a time are worth the rows above them, which are read again.
EVEN_GROUPS = 8
# Of a fused group of layers a thread takes so many groups of rows at least, since it computes the rows on its border, too.
LEAST_GROUPS = 2
# Tiles of a convolution that a task has, before it is cut for the threads.
TILES_OF_TASK = 8
# Iterations of a loop that keep many threads evenly loaded, or tasks where each has memory of its own.
ENOUGH_ITERATIONS = 64
# Iterations of fewer cycles, in kernels of free sizes, are done so many at a time: what they compute of the sizes is then computed once.
CHEAP_CYCLES, ITERATIONS_TOGETHER = 500, 8
# Bytes that a task has on its stack at most: threads of programs that call a library may have small ones.
TASK_STACK_BYTES = 320 << 10
# Tasks of a thread, where each costs something: with several, one that is slow makes fewer of them.
TASKS_OF_THREAD = 4
# Tasks at most that have memory of their own, where their number is known at run time only.
TASKS_WITH_MEMORY = 16
# Cycles of a step of a recurrence that pay for another thread, which is awake already.
STEP_CYCLES = 6000
# Windows over channels: loops of fewer cycles stay on the calling thread; what a thread takes at a time.
WINDOW_SERIAL_CYCLES, WINDOW_GRAIN_CYCLES = 15_000, 6_000
# What a thread takes of an attention at a time.
ATTENTION_GRAIN_CYCLES = 10_000
