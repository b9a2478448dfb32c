"""From kernels to code: LLVM IR for processors, PTX for GPUs."""
