; For a module of WebAssembly whose weights are in a file of their own: whoever loads the module gives the bytes of that file, which stay where they are as long as the model.
; The file is 64 bytes of header, known to the module, then the weights.

; How many bytes the file has.
define i32 @${name}_weights_bytes() nounwind {
  ret i32 $file_bytes
}

define internal i32 @open_weights(ptr %model, ptr %bytes) nounwind {
entry:
  %none = icmp eq ptr %bytes, null
  br i1 %none, label %missing, label %word

word:
  %i = phi i32 [ 0, %entry ], [ %i_next, %same ]
  %own_at = getelementptr i64, ptr @${name}__weights_header, i32 %i
  %own = load i64, ptr %own_at, align 1
  %given_at = getelementptr i64, ptr %bytes, i32 %i
  %given = load i64, ptr %given_at, align 1
  %equal = icmp eq i64 %own, %given
  br i1 %equal, label %same, label %bad

same:
  %i_next = add i32 %i, 1
  %more = icmp slt i32 %i_next, 8
  br i1 %more, label %word, label %keep

keep:
  %weights = getelementptr i8, ptr %bytes, i64 64
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  store ptr %weights, ptr %weights_at
  ret i32 0

missing:
  %told_missing = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_bytes, ptr @weights_name)
  ret i32 4

bad:
  %told_bad = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_file, ptr @weights_name)
  ret i32 4
}

define internal void @close_weights(ptr %model) nounwind {
  ret void
}
