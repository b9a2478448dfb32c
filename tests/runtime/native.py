"""Small models written directly in LLVM IR, so that the runtime is tested without the compiler."""

from __future__ import annotations

import functools

import numpy as np

from polyreme.lowering.emit.llvm.codegen import assemble
from polyreme.lowering.machines.targets import host
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.manifest.specs import ConstantSpec, SizeSpec, TargetSpec, TensorSpec

# y[i, j] = x[i, j] * w[j] + b[i], through working memory, rows in parallel.
SCALE = """
declare void @polyreme_parallel(ptr, ptr, ptr, i64, i64)

define void @polyreme_model_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena) {
  %context = alloca [2 x ptr], align 8
  store ptr %buffers, ptr %context, align 8
  %second = getelementptr ptr, ptr %context, i64 1
  store ptr %arena, ptr %second, align 8
  %n = load i64, ptr %sizes, align 8
  call void @polyreme_parallel(ptr %pool, ptr @products, ptr %context, i64 %n, i64 2)
  call void @polyreme_parallel(ptr %pool, ptr @sums, ptr %context, i64 %n, i64 3)
  ret void
}

define i64 @polyreme_model_arena_bytes(ptr %sizes) {
  %n = load i64, ptr %sizes, align 8
  %bytes = mul i64 %n, 16
  ret i64 %bytes
}

define void @polyreme_model_output_shapes(ptr %sizes, ptr %out) {
  %n = load i64, ptr %sizes, align 8
  store i64 %n, ptr %out, align 8
  %second = getelementptr i64, ptr %out, i64 1
  store i64 4, ptr %second, align 8
  ret void
}

define internal void @products(ptr %context, i64 %begin, i64 %end) {
entry:
  %buffers = load ptr, ptr %context, align 8
  %arena_at = getelementptr ptr, ptr %context, i64 1
  %arena = load ptr, ptr %arena_at, align 8
  %x = load ptr, ptr %buffers, align 8
  %w_at = getelementptr ptr, ptr %buffers, i64 1
  %w = load ptr, ptr %w_at, align 8
  %wv = load <4 x float>, ptr %w, align 16
  br label %loop

loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %x_row = getelementptr <4 x float>, ptr %x, i64 %i
  %xv = load <4 x float>, ptr %x_row, align 4
  %p = fmul <4 x float> %xv, %wv
  %row = getelementptr <4 x float>, ptr %arena, i64 %i
  store <4 x float> %p, ptr %row, align 16
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done

done:
  ret void
}

define internal void @sums(ptr %context, i64 %begin, i64 %end) {
entry:
  %buffers = load ptr, ptr %context, align 8
  %arena_at = getelementptr ptr, ptr %context, i64 1
  %arena = load ptr, ptr %arena_at, align 8
  %b_at = getelementptr ptr, ptr %buffers, i64 2
  %b = load ptr, ptr %b_at, align 8
  %y_at = getelementptr ptr, ptr %buffers, i64 3
  %y = load ptr, ptr %y_at, align 8
  br label %loop

loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %row = getelementptr <4 x float>, ptr %arena, i64 %i
  %p = load <4 x float>, ptr %row, align 16
  %bias_at = getelementptr float, ptr %b, i64 %i
  %bias = load float, ptr %bias_at, align 4
  %one = insertelement <4 x float> poison, float %bias, i32 0
  %all = shufflevector <4 x float> %one, <4 x float> poison, <4 x i32> zeroinitializer
  %s = fadd <4 x float> %p, %all
  %y_row = getelementptr <4 x float>, ptr %y, i64 %i
  store <4 x float> %s, ptr %y_row, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done

done:
  ret void
}
"""

# y[3] = sqrt(x[3]) and z = x[0] > 0, all sizes fixed, no constants and no working memory; `sqrt` on double and a call into libm.
FIXED = """
declare double @cos(double)

define void @polyreme_model_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena) {
  %x = load ptr, ptr %buffers, align 8
  %y_at = getelementptr ptr, ptr %buffers, i64 1
  %y = load ptr, ptr %y_at, align 8
  %z_at = getelementptr ptr, ptr %buffers, i64 2
  %z = load ptr, ptr %z_at, align 8
  %x1_at = getelementptr double, ptr %x, i64 1
  %y1_at = getelementptr double, ptr %y, i64 1
  %x0 = load double, ptr %x, align 8
  %x1 = load double, ptr %x1_at, align 8
  %c0 = call double @cos(double %x0)
  %c1 = call double @cos(double %x1)
  store double %c0, ptr %y, align 8
  store double %c1, ptr %y1_at, align 8
  %positive = fcmp ogt double %x0, 0.0
  %byte = zext i1 %positive to i8
  store i8 %byte, ptr %z, align 1
  ret void
}

define i64 @polyreme_model_arena_bytes(ptr %sizes) {
  ret i64 0
}

define void @polyreme_model_output_shapes(ptr %sizes, ptr %out) {
  store i64 2, ptr %out, align 8
  ret void
}
"""

WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def native_code(text: str) -> bytes:
    """Object code for this machine."""
    target = host()
    return assemble(f'target datalayout = "{target.layout}"\ntarget triple = "{target.triple}"\n{text}', target)


def this_machine() -> TargetSpec:
    return TargetSpec(host().triple, host().cpu, host().features)


def scale_manifest(name: str = "scale") -> Manifest:
    return Manifest(
        name,
        inputs=(TensorSpec("x", "float32", ("N", 4)), TensorSpec("b", "float32", ("N",), "param")),
        outputs=(TensorSpec("y", "float32", ("N", 4), "output"),),
        constants=(ConstantSpec("w", "float32", (4,), 0, 16),),
        sizes=(SizeSpec("N", 0, 0),),
        arguments=(("input", 0), ("constant", 0), ("input", 1), ("output", 0)),
        target=this_machine(),
    )


@functools.cache
def scale_artifact() -> Artifact:
    """y = x * WEIGHTS + b with a free number of rows."""
    return Artifact(scale_manifest(), native_code(SCALE), WEIGHTS.tobytes())


@functools.cache
def fixed_artifact() -> Artifact:
    """y = cos(x), z = x[0] > 0 for two doubles."""
    manifest = Manifest(
        "fixed",
        inputs=(TensorSpec("x", "float64", (2,)),),
        outputs=(TensorSpec("y", "float64", (2,), "output"), TensorSpec("z", "bool", (), "output")),
        constants=(),
        sizes=(),
        arguments=(("input", 0), ("output", 0), ("output", 1)),
        target=this_machine(),
    )
    return Artifact(manifest, native_code(FIXED))


def scale_reference(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    return x * WEIGHTS + b[:, None]


def scale_inputs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 4), np.float32), rng.standard_normal(n, np.float32)
