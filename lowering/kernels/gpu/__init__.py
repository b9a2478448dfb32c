"""Kernels for GPUs: builders with the same `Request` and `KernelPlan` as those of the CPU, whose steps are launches.

What an element is comes from `elements.py`, what a row is from `rows.py`, what follows a contract from `epilogue.py`, as on the CPU; here
stands only how work is laid out on blocks of threads. The order in which anything is added up depends on shapes alone.
"""

from polyreme.lowering.kernels.gpu.elementwise import build_elements
from polyreme.lowering.kernels.gpu.flash import build_flash
from polyreme.lowering.kernels.gpu.random import build_draws
from polyreme.lowering.kernels.gpu.reductions import build_rows
from polyreme.lowering.kernels.gpu.tensor_core import build_tensor_core, build_widened
from polyreme.lowering.kernels.gpu.tiles import build_product
from polyreme.lowering.kernels.gpu.transposes import build_transposes
from polyreme.lowering.kernels.gpu.warpgroups import build_warpgroups

__all__ = ["GPU_BUILDERS"]

# Who makes the kernels of a root: the first one that takes it; the last one takes all.
GPU_BUILDERS = (
    build_flash,
    build_warpgroups,
    build_tensor_core,
    build_widened,
    build_product,
    build_draws,
    build_rows,
    build_transposes,
    build_elements,
)
