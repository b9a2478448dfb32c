; model for cuda:sm_90
source_filename = "model"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@work_shared_0 = internal addrspace(3) global [256 x i16] undef, align 64

; @work, <text>:2:6
define ptx_kernel void @work(ptr addrspace(1) noalias readonly %a, ptr addrspace(1) noalias readonly %b, ptr addrspace(1) noalias readonly %c, ptr addrspace(1) noalias %y) #2 {
entry:
  ; <text>:3:11
  ; <text>:4:8
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %tid to i64
  ; <text>:5:12
  ; <text>:6:11
  ; <text>:7:11
  ; <text>:8:8
  %i = mul nsw i64 %t, 8
  ; <text>:9:8
  %i.1 = mul nsw i64 %t, 4
  ; <text>:10:3
  %at = getelementptr i16, ptr addrspace(1) %a, i64 %i
  %at.1 = getelementptr i16, ptr addrspace(3) @work_shared_0, i64 %i
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %at.1, ptr addrspace(1) %at)
  ; <text>:11:3
  call void @llvm.nvvm.cp.async.commit.group()
  ; <text>:12:3
  call void @llvm.nvvm.cp.async.wait.group(i32 0)
  ; <text>:13:3
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ; <text>:14:9
  %tile = call { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %at.1)
  %fa = extractvalue { i32, i32, i32, i32 } %tile, 0
  %fa.1 = extractvalue { i32, i32, i32, i32 } %tile, 1
  %fa.2 = extractvalue { i32, i32, i32, i32 } %tile, 2
  %fa.3 = extractvalue { i32, i32, i32, i32 } %tile, 3
  %fa.4 = insertelement <4 x i32> poison, i32 %fa, i32 0
  %fa.5 = insertelement <4 x i32> %fa.4, i32 %fa.1, i32 1
  %fa.6 = insertelement <4 x i32> %fa.5, i32 %fa.2, i32 2
  %fa.7 = insertelement <4 x i32> %fa.6, i32 %fa.3, i32 3
  %fa.8 = bitcast <4 x i32> %fa.7 to <8 x i16>
  ; <text>:15:9
  %at.2 = getelementptr i16, ptr addrspace(1) %b, i64 %i.1
  %fb = load <4 x i16>, ptr addrspace(1) %at.2, align 8
  ; <text>:16:9
  %at.3 = getelementptr float, ptr addrspace(1) %c, i64 %i.1
  %fc = load <4 x float>, ptr addrspace(1) %at.3, align 16
  ; <text>:17:9
  %fd = bitcast <8 x i16> %fa.8 to <4 x i32>
  %fd.1 = extractelement <4 x i32> %fd, i32 0
  %fd.2 = extractelement <4 x i32> %fd, i32 1
  %fd.3 = extractelement <4 x i32> %fd, i32 2
  %fd.4 = extractelement <4 x i32> %fd, i32 3
  %fd.5 = bitcast <4 x i16> %fb to <2 x i32>
  %fd.6 = extractelement <2 x i32> %fd.5, i32 0
  %fd.7 = extractelement <2 x i32> %fd.5, i32 1
  %fd.8 = extractelement <4 x float> %fc, i32 0
  %fd.9 = extractelement <4 x float> %fc, i32 1
  %fd.10 = extractelement <4 x float> %fc, i32 2
  %fd.11 = extractelement <4 x float> %fc, i32 3
  %mma = call { float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32 %fd.1, i32 %fd.2, i32 %fd.3, i32 %fd.4, i32 %fd.6, i32 %fd.7, float %fd.8, float %fd.9, float %fd.10, float %fd.11)
  %fd.12 = extractvalue { float, float, float, float } %mma, 0
  %fd.13 = extractvalue { float, float, float, float } %mma, 1
  %fd.14 = extractvalue { float, float, float, float } %mma, 2
  %fd.15 = extractvalue { float, float, float, float } %mma, 3
  %fd.16 = insertelement <4 x float> poison, float %fd.12, i32 0
  %fd.17 = insertelement <4 x float> %fd.16, float %fd.13, i32 1
  %fd.18 = insertelement <4 x float> %fd.17, float %fd.14, i32 2
  %fd.19 = insertelement <4 x float> %fd.18, float %fd.15, i32 3
  ; <text>:18:3
  %at.4 = getelementptr float, ptr addrspace(1) %y, i64 %i.1
  store <4 x float> %fd.19, ptr addrspace(1) %at.4, align 16
  ; <text>:19:3
  ret void
}

attributes #1 = { alwaysinline nounwind "target-cpu"="sm_90" "target-features"="+ptx78" }
attributes #2 = { nounwind "nvvm.maxntid"="32" "nvvm.minctasm"="1" "target-cpu"="sm_90" "target-features"="+ptx78" }
