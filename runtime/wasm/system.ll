; What a module of WebAssembly has in place of an operating system: memory, the text of messages, and the pool, which is of the one thread
; that there is. Nothing is imported.

@__heap_base = external hidden global i8

; --- memory

; Blocks of memory, in multiples of 64 bytes. In front of what a caller gets stand 64 bytes that say how large the block is. Free blocks are in a list, by address; no two of them touch.
%block = type { i32, ptr } ; 0 bytes, these 64 among them, 1 the next free one

@free_blocks = internal global ptr null
@top = internal global i32 0 ; where the memory ends that was ever asked for; 0 before the first time

declare i32 @llvm.wasm.memory.size.i32(i32)
declare i32 @llvm.wasm.memory.grow.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define hidden ptr @calloc(i64 %count, i64 %size) nounwind {
entry:
  %bytes = mul i64 %count, %size
  %data = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %clear

clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %bytes, i1 false)
  br label %done

done:
  ret ptr %data
}

; So many bytes at a multiple of 64, whatever the alignment that is asked for; null where there is no memory. The first free block that is large enough gives its end.
define hidden ptr @aligned_alloc(i64 %alignment, i64 %bytes) nounwind {
entry:
  %impossible = icmp ugt i64 %bytes, 4294836224
  br i1 %impossible, label %none, label %begin

begin:
  %more = add i64 %bytes, 127
  %whole = and i64 %more, -64
  %need = trunc i64 %whole to i32
  br label %look

look:
  %place = phi ptr [ @free_blocks, %begin ], [ %next_at, %next ], [ @free_blocks, %grown ]
  %block = load ptr, ptr %place
  %last = icmp eq ptr %block, null
  br i1 %last, label %grow, label %compare

compare:
  %has = load i32, ptr %block
  %next_at = getelementptr %block, ptr %block, i32 0, i32 1
  %large = icmp uge i32 %has, %need
  br i1 %large, label %take, label %next

next:
  br label %look

take:
  %left = sub i32 %has, %need
  %splits = icmp uge i32 %left, 128
  br i1 %splits, label %split, label %unlink

split:
  store i32 %left, ptr %block
  %end = getelementptr i8, ptr %block, i32 %left
  store i32 %need, ptr %end
  br label %give

unlink:
  %following = load ptr, ptr %next_at
  store ptr %following, ptr %place
  br label %give

give:
  %taken = phi ptr [ %end, %split ], [ %block, %unlink ]
  %data = getelementptr i8, ptr %taken, i32 64
  ret ptr %data

grow:
  %added = call i1 @grow(i32 %need)
  br i1 %added, label %grown, label %none

grown:
  br label %look

none:
  ret ptr null
}

; Adds a free block of so many bytes at the end of the memory; false where there is no more.
define internal i1 @grow(i32 %need) nounwind {
entry:
  %asked = load i32, ptr @top
  %first = icmp eq i32 %asked, 0
  %base = ptrtoint ptr @__heap_base to i32
  %base_more = add i32 %base, 63
  %base_whole = and i32 %base_more, -64
  %start = select i1 %first, i32 %base_whole, i32 %asked
  %start_64 = zext i32 %start to i64
  %need_64 = zext i32 %need to i64
  %end = add i64 %start_64, %need_64
  %pages = call i32 @llvm.wasm.memory.size.i32(i32 0)
  %pages_64 = zext i32 %pages to i64
  %there = shl i64 %pages_64, 16
  %enough = icmp ule i64 %end, %there
  br i1 %enough, label %add, label %ask

ask:
  %lacking = sub i64 %end, %there
  %rounded = add i64 %lacking, 65535
  %further = lshr i64 %rounded, 16
  %further_32 = trunc i64 %further to i32
  %before = call i32 @llvm.wasm.memory.grow.i32(i32 0, i32 %further_32)
  %refused = icmp eq i32 %before, -1
  br i1 %refused, label %none, label %add

add:
  ; The very last bytes of four GiB stay unused: an end of 2^32 would be 0.
  %beyond = icmp ugt i64 %end, 4294967232
  br i1 %beyond, label %none, label %keep

keep:
  %end_32 = trunc i64 %end to i32
  store i32 %end_32, ptr @top
  %block = inttoptr i32 %start to ptr
  store i32 %need, ptr %block
  %data = getelementptr i8, ptr %block, i32 64
  call void @free(ptr %data)
  ret i1 true

none:
  ret i1 false
}

; Gives a block back, joined with the free ones that it touches. Null is allowed.
define hidden void @free(ptr %data) nounwind {
entry:
  %null = icmp eq ptr %data, null
  br i1 %null, label %done, label %begin

begin:
  %block = getelementptr i8, ptr %data, i32 -64
  br label %look

look:
  %place = phi ptr [ @free_blocks, %begin ], [ %later_at, %later ]
  %before = phi ptr [ null, %begin ], [ %after, %later ]
  %after = load ptr, ptr %place
  %last = icmp eq ptr %after, null
  %above = icmp ugt ptr %after, %block
  %found = or i1 %last, %above
  br i1 %found, label %join_after, label %later

later:
  %later_at = getelementptr %block, ptr %after, i32 0, i32 1
  br label %look

join_after:
  %bytes = load i32, ptr %block
  %end = getelementptr i8, ptr %block, i32 %bytes
  %touches = icmp eq ptr %end, %after
  %next_at = getelementptr %block, ptr %block, i32 0, i32 1
  br i1 %touches, label %swallow, label %link

swallow:
  %after_bytes = load i32, ptr %after
  %both = add i32 %bytes, %after_bytes
  store i32 %both, ptr %block
  %beyond_at = getelementptr %block, ptr %after, i32 0, i32 1
  %beyond = load ptr, ptr %beyond_at
  br label %link

link:
  %size = phi i32 [ %bytes, %join_after ], [ %both, %swallow ]
  %following = phi ptr [ %after, %join_after ], [ %beyond, %swallow ]
  store ptr %following, ptr %next_at
  %first = icmp eq ptr %before, null
  br i1 %first, label %set, label %join_before

join_before:
  %before_bytes = load i32, ptr %before
  %before_end = getelementptr i8, ptr %before, i32 %before_bytes
  %reaches = icmp eq ptr %before_end, %block
  br i1 %reaches, label %extend, label %set

extend:
  %whole = add i32 %before_bytes, %size
  store i32 %whole, ptr %before
  %before_next_at = getelementptr %block, ptr %before, i32 0, i32 1
  store ptr %following, ptr %before_next_at
  br label %done

set:
  store ptr %block, ptr %place
  br label %done

done:
  ret void
}

; --- text

; As C's, for what messages have: %s, %d, %lld and %016llx. The number of bytes that all of it takes.
define hidden i32 @snprintf(ptr %out, i64 %size, ptr %format, ...) nounwind {
entry:
  %args = alloca ptr, align 4
  call void @llvm.va_start.p0(ptr %args)
  %size_32 = trunc i64 %size to i32
  %limit = sub i32 %size_32, 1
  br label %next

next:
  %at = phi i32 [ 0, %entry ], [ %at_next, %plain ], [ %after_text, %text_done ], [ %after_number, %number ], [ %after_long, %long ], [ %after_hex, %hex ]
  %to = phi i32 [ 0, %entry ], [ %to_next, %plain ], [ %text_to, %text_done ], [ %number_to, %number ], [ %long_to, %long ], [ %hex_to, %hex ]
  %from = getelementptr i8, ptr %format, i32 %at
  %letter = load i8, ptr %from
  %at_one = add i32 %at, 1
  %kind_at = getelementptr i8, ptr %format, i32 %at_one
  switch i8 %letter, label %plain [ i8 0, label %end
                                    i8 37, label %special ]

plain:
  %at_next = phi i32 [ %at_one, %next ], [ %at_two, %special ]
  %shown = phi i8 [ %letter, %next ], [ %kind, %special ]
  %to_next = call i32 @put(ptr %out, i32 %to, i32 %limit, i8 %shown)
  br label %next

special:
  %kind = load i8, ptr %kind_at
  %at_two = add i32 %at, 2
  switch i8 %kind, label %plain [ i8 115, label %text
                                  i8 100, label %number
                                  i8 108, label %long
                                  i8 48, label %hex ]

text:
  %word = va_arg ptr %args, ptr
  br label %text_next

text_next:
  %w = phi i32 [ 0, %text ], [ %w_next, %text_put ]
  %text_to = phi i32 [ %to, %text ], [ %text_to_next, %text_put ]
  %word_at = getelementptr i8, ptr %word, i32 %w
  %word_letter = load i8, ptr %word_at
  %word_ends = icmp eq i8 %word_letter, 0
  br i1 %word_ends, label %text_done, label %text_put

text_put:
  %text_to_next = call i32 @put(ptr %out, i32 %text_to, i32 %limit, i8 %word_letter)
  %w_next = add i32 %w, 1
  br label %text_next

text_done:
  %after_text = add i32 %at, 2
  br label %next

number:
  %value_32 = va_arg ptr %args, i32
  %value = sext i32 %value_32 to i64
  %number_to = call i32 @put_number(ptr %out, i32 %to, i32 %limit, i64 %value)
  %after_number = add i32 %at, 2
  br label %next

long:
  %value_64 = va_arg ptr %args, i64
  %long_to = call i32 @put_number(ptr %out, i32 %to, i32 %limit, i64 %value_64)
  %after_long = add i32 %at, 4
  br label %next

hex:
  %bits = va_arg ptr %args, i64
  %hex_to = call i32 @put_bits(ptr %out, i32 %to, i32 %limit, i64 %bits)
  %after_hex = add i32 %at, 7
  br label %next

end:
  %last = call i32 @llvm.smin.i32(i32 %to, i32 %limit)
  %last_at = getelementptr i8, ptr %out, i32 %last
  store i8 0, ptr %last_at
  call void @llvm.va_end.p0(ptr %args)
  ret i32 %to
}

declare void @llvm.va_start.p0(ptr)
declare void @llvm.va_end.p0(ptr)
declare i32 @llvm.smin.i32(i32, i32)

; Writes a byte where there is room for it; the place of the next.
define internal i32 @put(ptr %out, i32 %to, i32 %limit, i8 %letter) nounwind {
entry:
  %room = icmp slt i32 %to, %limit
  br i1 %room, label %write, label %done

write:
  %at = getelementptr i8, ptr %out, i32 %to
  store i8 %letter, ptr %at
  br label %done

done:
  %next = add i32 %to, 1
  ret i32 %next
}

define internal i32 @put_number(ptr %out, i32 %to, i32 %limit, i64 %value) nounwind {
entry:
  %digits = alloca [20 x i8], align 1
  %negative = icmp slt i64 %value, 0
  br i1 %negative, label %sign, label %begin

sign:
  %to_digits = call i32 @put(ptr %out, i32 %to, i32 %limit, i8 45)
  %opposite = sub i64 0, %value
  br label %begin

begin:
  %size = phi i64 [ %value, %entry ], [ %opposite, %sign ]
  %start = phi i32 [ %to, %entry ], [ %to_digits, %sign ]
  br label %divide

divide:
  %rest = phi i64 [ %size, %begin ], [ %quotient, %divide ]
  %count = phi i32 [ 0, %begin ], [ %count_next, %divide ]
  ; As unsigned, so that the least number is right too.
  %quotient = udiv i64 %rest, 10
  %digit = urem i64 %rest, 10
  %digit_8 = trunc i64 %digit to i8
  %letter = add i8 %digit_8, 48
  %digit_at = getelementptr i8, ptr %digits, i32 %count
  store i8 %letter, ptr %digit_at
  %count_next = add i32 %count, 1
  %more = icmp ne i64 %quotient, 0
  br i1 %more, label %divide, label %write

write:
  %left = phi i32 [ %count_next, %divide ], [ %i, %write ]
  %place = phi i32 [ %start, %divide ], [ %place_next, %write ]
  %i = sub i32 %left, 1
  %from = getelementptr i8, ptr %digits, i32 %i
  %shown = load i8, ptr %from
  %place_next = call i32 @put(ptr %out, i32 %place, i32 %limit, i8 %shown)
  %again = icmp ne i32 %i, 0
  br i1 %again, label %write, label %done

done:
  ret i32 %place_next
}

; Sixteen digits of base 16.
define internal i32 @put_bits(ptr %out, i32 %to, i32 %limit, i64 %bits) nounwind {
entry:
  br label %digit

digit:
  %shift = phi i64 [ 60, %entry ], [ %shift_next, %digit ]
  %place = phi i32 [ %to, %entry ], [ %place_next, %digit ]
  %high = lshr i64 %bits, %shift
  %four = and i64 %high, 15
  %small = icmp ult i64 %four, 10
  %first = select i1 %small, i64 48, i64 87
  %code = add i64 %four, %first
  %letter = trunc i64 %code to i8
  %place_next = call i32 @put(ptr %out, i32 %place, i32 %limit, i8 %letter)
  %shift_next = sub i64 %shift, 4
  %more = icmp sge i64 %shift_next, 0
  br i1 %more, label %digit, label %done

done:
  ret i32 %place_next
}

; --- the pool of one thread, as `pool.ll` has it

@pool = internal global i32 0

define hidden ptr @polyreme_pool_create(i32 %threads) nounwind {
  ret ptr @pool
}

define hidden void @polyreme_pool_destroy(ptr %pool) nounwind {
  ret void
}

define hidden i32 @polyreme_pool_threads(ptr %pool) nounwind {
  ret i32 1
}

define hidden i32 @polyreme_pool_set_threads(ptr %pool, i32 %threads) nounwind {
  ret i32 1
}

define hidden void @polyreme_parallel(ptr %pool, ptr %body, ptr %context, i64 %count, i64 %grain) nounwind {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %run, label %done

run:
  call void %body(ptr %context, i64 0, i64 %count)
  br label %done

done:
  ret void
}

define hidden void @polyreme_parallel_rounds(ptr %pool, ptr %body, ptr %context, i64 %rounds, i64 %count) nounwind {
entry:
  br label %round

round:
  %r = phi i64 [ 0, %entry ], [ %r_next, %round_done ]
  %more_rounds = icmp slt i64 %r, %rounds
  br i1 %more_rounds, label %part, label %done

part:
  %p = phi i64 [ 0, %round ], [ %p_next, %make ]
  %more_parts = icmp slt i64 %p, %count
  br i1 %more_parts, label %make, label %round_done

make:
  %p_next = add i64 %p, 1
  call void %body(ptr %context, i64 %r, i64 %p, i64 %p_next)
  br label %part

round_done:
  %r_next = add i64 %r, 1
  br label %round

done:
  ret void
}

; --- arithmetic

; The low 128 bits of a product of such numbers, which LLVM asks for where it looks whether a product of 64 bits is too large.
define hidden void @__multi3(ptr %out, i64 %a, i64 %a_high, i64 %b, i64 %b_high) nounwind {
  %a_low_part = and i64 %a, 4294967295
  %a_high_part = lshr i64 %a, 32
  %b_low_part = and i64 %b, 4294967295
  %b_high_part = lshr i64 %b, 32
  %low_low = mul i64 %a_low_part, %b_low_part
  %low_high = mul i64 %a_low_part, %b_high_part
  %high_low = mul i64 %a_high_part, %b_low_part
  %high_high = mul i64 %a_high_part, %b_high_part
  %low_rest = lshr i64 %low_low, 32
  %middle_0 = and i64 %low_high, 4294967295
  %middle_1 = add i64 %low_rest, %middle_0
  %middle_2 = and i64 %high_low, 4294967295
  %middle = add i64 %middle_1, %middle_2
  %carry = lshr i64 %middle, 32
  %upper_0 = lshr i64 %low_high, 32
  %upper_1 = lshr i64 %high_low, 32
  %upper_2 = add i64 %high_high, %upper_0
  %upper_3 = add i64 %upper_2, %upper_1
  %upper = add i64 %upper_3, %carry
  %cross_0 = mul i64 %a, %b_high
  %cross_1 = mul i64 %a_high, %b
  %cross = add i64 %cross_0, %cross_1
  %high = add i64 %upper, %cross
  %low = mul i64 %a, %b
  store i64 %low, ptr %out
  %high_at = getelementptr i64, ptr %out, i32 1
  store i64 %high, ptr %high_at
  ret void
}
