"""Kernel level to LLVM IR and object code."""
