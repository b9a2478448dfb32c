"""What Linux promises to programs, and the numbers by which it is asked, as its headers have them."""

from __future__ import annotations

# The system call that lets a thread wait for a number to change, by architecture.
FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
# Of `prctl`: a signal that a process gets when its parent ends.
PR_SET_PDEATHSIG = 1
# A clock that nobody sets.
CLOCK_MONOTONIC = 1
