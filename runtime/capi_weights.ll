; For a library whose weights stand in a file beside it: finds the file, maps it, and checks that it is the one that was written with the library.
; The file is 64 bytes of header, known to the library, then the weights.

define internal i32 @open_weights(ptr %model, ptr %path) nounwind {
entry:
  %buffer = alloca [4096 x i8], align 1
  %given = icmp ne ptr %path, null
  br i1 %given, label %open, label %locate

locate:
  %info = alloca [4 x ptr], align 8
  %found = call i32 @dladdr(ptr @${name}__weights_header, ptr %info)
  %lost = icmp eq i32 %found, 0
  br i1 %lost, label %no_folder, label %folder

folder:
  %library = load ptr, ptr %info
  %slash = call ptr @strrchr(ptr %library, i32 47)
  %has_slash = icmp ne ptr %slash, null
  %from = ptrtoint ptr %library to i64
  %to = ptrtoint ptr %slash to i64
  %span = sub i64 %to, %from
  %span_slash = add i64 %span, 1
  %length = select i1 %has_slash, i64 %span_slash, i64 0
  %length_32 = trunc i64 %length to i32
  %written = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buffer, i64 4096, ptr @path_format, i32 %length_32, ptr %library, ptr @weights_name)
  br label %open

open:
  %file = phi ptr [ %path, %entry ], [ %buffer, %folder ]
  ; 524288 is O_CLOEXEC; reading only is 0.
  %fd = call i32 (ptr, i32, ...) @open(ptr %file, i32 524288)
  %not_opened = icmp slt i32 %fd, 0
  br i1 %not_opened, label %missing, label %measure

measure:
  %size = call i64 @lseek(i32 %fd, i64 0, i32 2)
  %right_size = icmp eq i64 %size, $file_bytes
  br i1 %right_size, label %map, label %close_bad

map:
  ; PROT_READ, MAP_PRIVATE.
  %page = call ptr @mmap(ptr null, i64 $file_bytes, i32 1, i32 2, i32 %fd, i64 0)
  %closed = call i32 @close(i32 %fd)
  %address = ptrtoint ptr %page to i64
  %not_mapped = icmp eq i64 %address, -1
  br i1 %not_mapped, label %missing, label %compare

compare:
  %difference = call i32 @memcmp(ptr %page, ptr @${name}__weights_header, i64 64)
  %same = icmp eq i32 %difference, 0
  br i1 %same, label %keep, label %unmap_bad

keep:
  %weights = getelementptr i8, ptr %page, i64 64
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  store ptr %weights, ptr %weights_at
  %mapped_at = getelementptr %model, ptr %model, i64 0, i32 2
  store i64 $file_bytes, ptr %mapped_at, align 8
  ret i32 0

no_folder:
  %told_folder = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_path)
  ret i32 4

missing:
  %told_missing = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_file, ptr %file)
  ret i32 4

close_bad:
  %closed_bad = call i32 @close(i32 %fd)
  br label %bad

unmap_bad:
  %unmapped = call i32 @munmap(ptr %page, i64 $file_bytes)
  br label %bad

bad:
  %told_bad = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_file, ptr %file)
  ret i32 4
}

define internal void @close_weights(ptr %model) nounwind {
entry:
  %mapped_at = getelementptr %model, ptr %model, i64 0, i32 2
  %mapped = load i64, ptr %mapped_at, align 8
  %is_mapped = icmp sgt i64 %mapped, 0
  br i1 %is_mapped, label %unmap, label %done

unmap:
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  %weights = load ptr, ptr %weights_at
  %page = getelementptr i8, ptr %weights, i64 -64
  %unmapped = call i32 @munmap(ptr %page, i64 %mapped)
  br label %done

done:
  ret void
}
