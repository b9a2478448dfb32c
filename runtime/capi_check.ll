; Whether the weights are those that the library was written with: a checksum of 64 bits, as `weights_sum` of checksum.py.

@${name}__weights_sum = external hidden constant i64

define i32 @${name}_check_weights(ptr %model) nounwind {
entry:
  %lanes = alloca [1024 x i64], align 64
  %rest = alloca [8192 x i8], align 64
  store i8 0, ptr @text, align 1
  %null = icmp eq ptr %model, null
  br i1 %null, label %model_missing, label %begin

begin:
  call void @llvm.memset.p0.i64(ptr %lanes, i8 0, i64 8192, i1 false)
  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 8192, i1 false)
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  %weights = load ptr, ptr %weights_at
  br label %row

row:
  %r = phi i64 [ 0, %begin ], [ %r_next, %row_done ]
  %more_rows = icmp slt i64 %r, $rows
  %start = mul i64 %r, 8192
  %from = getelementptr i8, ptr %weights, i64 %start
  br i1 %more_rows, label %lane, label %tail

lane:
  %l = phi i64 [ 0, %row ], [ %l_next, %lane ]
  %word_at = getelementptr i64, ptr %from, i64 %l
  %word = load i64, ptr %word_at, align 8
  %lane_at = getelementptr i64, ptr %lanes, i64 %l
  %before = load i64, ptr %lane_at, align 8
  %mixed = xor i64 %before, %word
  %spread = mul i64 %mixed, -7046029254386353131
  %high = lshr i64 %spread, 32
  %after = xor i64 %spread, %high
  store i64 %after, ptr %lane_at, align 8
  %l_next = add i64 %l, 1
  %more_lanes = icmp slt i64 %l_next, 1024
  br i1 %more_lanes, label %lane, label %row_done

row_done:
  %r_next = add i64 %r, 1
  br label %row

tail:
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %from, i64 $rest, i1 false)
  br label %fold

fold:
  %f = phi i64 [ 0, %tail ], [ %f_next, %fold ]
  %total = phi i64 [ $bytes, %tail ], [ %total_next, %fold ]
  %rest_at = getelementptr i64, ptr %rest, i64 %f
  %rest_word = load i64, ptr %rest_at, align 8
  %fold_at = getelementptr i64, ptr %lanes, i64 %f
  %fold_lane = load i64, ptr %fold_at, align 8
  %fold_mixed = xor i64 %fold_lane, %rest_word
  %fold_spread = mul i64 %fold_mixed, -7046029254386353131
  %fold_high = lshr i64 %fold_spread, 32
  %fold_after = xor i64 %fold_spread, %fold_high
  %total_mixed = xor i64 %total, %fold_after
  %total_spread = mul i64 %total_mixed, -7046029254386353131
  %total_high = lshr i64 %total_spread, 32
  %total_next = xor i64 %total_spread, %total_high
  %f_next = add i64 %f, 1
  %more_folds = icmp slt i64 %f_next, 1024
  br i1 %more_folds, label %fold, label %compare

compare:
  %sum = load i64, ptr @${name}__weights_sum, align 8
  %same = icmp eq i64 %total_next, %sum
  br i1 %same, label %fine, label %damaged

fine:
  ret i32 0

damaged:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_sum, i64 %total_next, i64 %sum)
  ret i32 4

model_missing:
  %told_model = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_model)
  ret i32 1
}
