"""What compiling takes, by which work is shared out to processes: in ops of kernels, for each of which LLVM takes tens of microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class CompileCosts:
    """In ops:

    - `fork`: to fork a process.
    - `object`: an object file. Kernels of fewer ops stand in one together, where an op counts as `small_kernel_op` ops: most of it is told
      apart for each function, and LLVM looks for cheaper addresses.
    - so many bytes of packed weights take as long as one op (`bytes_of_op`), and so many letters of LLVM's text (`letters_of_op`).

    `work_bytes` of weights are one work, and `part_bytes` are made at a time where elements are only moved. So many objects of the runtime
    (`natives`) are kept, and so many types of ops (`known_ops`), which are asked for again and again.
    `assembler_seconds` are given to the assembler of the CUDA toolkit for a module.
    """

    fork: int = 2000
    object: int = 64
    small_kernel_op: int = 4
    bytes_of_op: int = 30_000
    letters_of_op: int = 30
    work_bytes: int = 1 << 20
    part_bytes: int = 16 << 20
    natives: int = 64
    known_ops: int = 10_000
    assembler_seconds: float = 600


COMPILE_COSTS = CompileCosts()


@dataclass(frozen=True)
class LlvmLevels:
    """How hard LLVM's code generation works: at `full` strength, with nothing before it; by architecture, on code that runs once for each
    call of a model, such as `main`, which calls kernels (`quick`): a fifth of the time for code that is half as fast. Other architectures
    have a code generator of their own there.
    """

    full: int = 2
    quick: Mapping[str, int] = field(default_factory=lambda: {"x86_64": 0})


LLVM_LEVELS = LlvmLevels()
