; model for cuda:sm_80
source_filename = "model"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@work_shared_0 = internal addrspace(3) global [4 x float] undef, align 64

; @work, <text>:2:6
define ptx_kernel void @work(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y, i64 %N) #2 {
entry:
  ; <text>:3:8
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %tid to i64
  ; <text>:4:8
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %b = zext i32 %ctaid to i64
  ; <text>:5:8
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %n = zext i32 %ntid to i64
  ; <text>:6:13
  ; <text>:7:12
  %i = mul nsw i64 %b, %n
  ; <text>:8:8
  %i.1 = add nsw i64 %i, %t
  ; <text>:9:11
  ; <text>:10:13
  %inside = icmp slt i64 %i.1, %N
  ; <text>:11:9
  %at = getelementptr float, ptr addrspace(1) %x, i64 %i.1
  br i1 %inside, label %on, label %after
on:
  %x.1 = load float, ptr addrspace(1) %at, align 4
  br label %after
after:
  %x.2 = phi float [ %x.1, %on ], [ 0x0000000000000000, %entry ]
  ; <text>:12:10
  %s16 = bitcast float %x.2 to i32
  %s16.1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %s16, i32 16, i32 31)
  %s16.2 = bitcast i32 %s16.1 to float
  ; <text>:13:9
  %v1 = fadd float %x.2, %s16.2
  ; <text>:14:9
  %s8 = bitcast float %v1 to i32
  %s8.1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %s8, i32 8, i32 31)
  %s8.2 = bitcast i32 %s8.1 to float
  ; <text>:15:9
  %v2 = fadd float %v1, %s8.2
  ; <text>:16:9
  %s4 = bitcast float %v2 to i32
  %s4.1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %s4, i32 4, i32 31)
  %s4.2 = bitcast i32 %s4.1 to float
  ; <text>:17:9
  %v3 = fadd float %v2, %s4.2
  ; <text>:18:9
  %s2 = bitcast float %v3 to i32
  %s2.1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %s2, i32 2, i32 31)
  %s2.2 = bitcast i32 %s2.1 to float
  ; <text>:19:9
  %v4 = fadd float %v3, %s2.2
  ; <text>:20:9
  %s1 = bitcast float %v4 to i32
  %s1.1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %s1, i32 1, i32 31)
  %s1.2 = bitcast i32 %s1.1 to float
  ; <text>:21:9
  %v5 = fadd float %v4, %s1.2
  ; <text>:22:12
  ; <text>:23:11
  %warp = sdiv i64 %t, 32
  %warp.1 = mul i64 %warp, 32
  %warp.2 = sub i64 %t, %warp.1
  ; <text>:24:11
  %lane = and i64 %t, 31
  ; <text>:25:11
  ; <text>:26:12
  %leads = icmp eq i64 %lane, 0
  ; <text>:27:3
  %at.1 = getelementptr float, ptr addrspace(3) @work_shared_0, i64 %warp
  br i1 %leads, label %on.1, label %after.1
on.1:
  store float %v5, ptr addrspace(3) %at.1, align 4
  br label %after.1
after.1:
  ; <text>:28:3
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ; <text>:29:12
  %first = icmp eq i64 %t, 0
  ; <text>:30:3
  br i1 %first, label %then, label %else
then:
  ; <text>:31:13
  ; <text>:32:13
  ; <text>:33:12
  br label %loop
loop:
  %k = phi i64 [ 0, %then ], [ %next.1, %loop ]
  %acc = phi float [ 0x0000000000000000, %then ], [ %next, %loop ]
  ; <text>:34:15
  %at.2 = getelementptr float, ptr addrspace(3) @work_shared_0, i64 %k
  %part = load float, ptr addrspace(3) %at.2, align 4
  ; <text>:35:15
  %next = fadd float %acc, %part
  ; <text>:36:7
  %next.1 = add nsw i64 %k, 1
  %yield = icmp slt i64 %next.1, 4
  br i1 %yield, label %loop, label %end.1
end.1:
  ; <text>:38:5
  %at.3 = getelementptr float, ptr addrspace(1) %y, i64 %b
  store float %next, ptr addrspace(1) %at.3, align 4
  ; <text>:39:5
  br label %end
else:
  ; <text>:41:5
  br label %end
end:
  ; <text>:43:3
  ret void
}

attributes #1 = { alwaysinline nounwind "target-cpu"="sm_80" "target-features"="+ptx70" }
attributes #2 = { nounwind "nvvm.maxntid"="128" "nvvm.minctasm"="1" "target-cpu"="sm_80" "target-features"="+ptx70" }
