; The C interface of a compiled library. Generic code over tables that describe the model; the tables and the placeholders are filled in
; when a library is written. The header that goes with it says what each function promises.
;
; A model is a handle: the pool, the weights, and working memory kept between runs. The first of several threads that run one
; handle at the same time uses that memory, the others allocate their own for the run; the pool takes one job and lets the
; others run on their own threads. Nothing else is shared, so any number of handles and threads may be in use.

%model = type { ptr, ptr, i64, ptr, i64, i32 }            ; 0 pool, 1 weights, 2 mapped bytes, 3 arena, 4 bytes of the arena, 5 arena in use
%tensor = type { ptr, ptr, i32, i32, ptr, ptr, ptr }      ; 0 name, 1 dtype, 2 rank, 3 place among all sizes, 4 shape (-1: free), 5 texts of the sizes, 6 why
%argument = type { i32, i32 }                             ; 0 kind (0 input, 1 constant, 2 output), 1 number
%size = type { i32, i32, i64, i64, ptr }                  ; 0 input, 1 axis, which has 2 times the size plus 3; 4 what the axis must be, in words
%look = type { i64, ptr }                                ; 0 whether positions wrap, 1 what they are, in words
%range = type { i32, i32, i64, i64, ptr }                 ; 0 input, 1 kind of its elements, 2 least, 3 most, 4 what they are, in words
%guard = type { i64, i64, ptr }                           ; 0 least, 1 most, 2 what it is about, in words

$model_functions

declare ptr @calloc(i64, i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @dladdr(ptr, ptr)
declare ptr @strrchr(ptr, i32)
declare i32 @memcmp(ptr, ptr, i64)
declare i32 @open(ptr, i32, ...)
declare i64 @lseek(i32, i64, i32)
declare i32 @close(i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

$tables

$text

$messages

; --- making and ending a model

declare hidden ptr @polyreme_pool_create(i32)
declare hidden void @polyreme_pool_destroy(ptr)
declare hidden i32 @polyreme_pool_threads(ptr)
declare hidden i32 @polyreme_pool_set_threads(ptr, i32)

$machine

define ptr @${name}_create(i32 %threads, ptr %error) nounwind {
  %model = call ptr @create(ptr null, i32 %threads, ptr %error)
  ret ptr %model
}

define ptr @${name}_create_with_weights(ptr %path, i32 %threads, ptr %error) nounwind {
  %model = call ptr @create(ptr %path, i32 %threads, ptr %error)
  ret ptr %model
}

define internal ptr @create(ptr %path, i32 %threads, ptr %error) nounwind {
entry:
  call void @say(ptr %error, ptr null)
  %bytes = ptrtoint ptr getelementptr (%model, ptr null, i64 1) to i64
  %model = call ptr @calloc(i64 $models, i64 %bytes)
  %failed = icmp eq ptr %model, null
  br i1 %failed, label %out_of_memory, label %machine

machine:
  %refused = call i1 @machine_refuses()
  br i1 %refused, label %drop, label %weights

weights:
  %code = call i32 @open_weights(ptr %model, ptr %path)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %drop, label %start_pool

start_pool:
  %pool = call ptr @polyreme_pool_create(i32 %threads)
  %pool_at = getelementptr %model, ptr %model, i64 0, i32 0
  store ptr %pool, ptr %pool_at
  %no_pool = icmp eq ptr %pool, null
  br i1 %no_pool, label %no_pool_memory, label %done

done:
  call void @share(ptr %model)
  ret ptr %model

no_pool_memory:
  %told_pool = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 4096)
  br label %drop

drop:
  call void @${name}_destroy(ptr %model)
  call void @say(ptr %error, ptr @text)
  ret ptr null

out_of_memory:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 %bytes)
  call void @say(ptr %error, ptr @text)
  ret ptr null
}

; Parts of a model, behind it in memory, have its pool and weights, and working memory of their own.
define internal void @share(ptr %model) nounwind {
entry:
  %pool = load ptr, ptr %model
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  %weights = load ptr, ptr %weights_at
  br label %part

part:
  %i = phi i64 [ 1, %entry ], [ %i_next, %set ]
  %more = icmp slt i64 %i, $models
  br i1 %more, label %set, label %done

set:
  %pool_at = getelementptr %model, ptr %model, i64 %i, i32 0
  store ptr %pool, ptr %pool_at
  %own_weights_at = getelementptr %model, ptr %model, i64 %i, i32 1
  store ptr %weights, ptr %own_weights_at
  %i_next = add i64 %i, 1
  br label %part

done:
  ret void
}

define void @${name}_destroy(ptr %model) nounwind {
entry:
  %null = icmp eq ptr %model, null
  br i1 %null, label %done, label %end_pool

end_pool:
  %pool_at = getelementptr %model, ptr %model, i64 0, i32 0
  %pool = load ptr, ptr %pool_at
  call void @polyreme_pool_destroy(ptr %pool)
  br label %next_arena

next_arena:
  %i = phi i64 [ 0, %end_pool ], [ %i_next, %free_arena ]
  %more = icmp slt i64 %i, $models
  br i1 %more, label %free_arena, label %arenas_gone

free_arena:
  %arena_at = getelementptr %model, ptr %model, i64 %i, i32 3
  %arena = load ptr, ptr %arena_at
  call void @free(ptr %arena)
  %i_next = add i64 %i, 1
  br label %next_arena

arenas_gone:
  call void @close_weights(ptr %model)
  call void @free(ptr %model)
  br label %done

done:
  ret void
}

define i32 @${name}_threads(ptr %model) nounwind {
entry:
  %null = icmp eq ptr %model, null
  br i1 %null, label %none, label %ask

ask:
  %pool_at = getelementptr %model, ptr %model, i64 0, i32 0
  %pool = load ptr, ptr %pool_at
  %threads = call i32 @polyreme_pool_threads(ptr %pool)
  ret i32 %threads

none:
  ret i32 0
}

define i32 @${name}_set_threads(ptr %model, i32 %threads) nounwind {
entry:
  %null = icmp eq ptr %model, null
  br i1 %null, label %none, label %ask

ask:
  %pool_at = getelementptr %model, ptr %model, i64 0, i32 0
  %pool = load ptr, ptr %pool_at
  %now = call i32 @polyreme_pool_set_threads(ptr %pool, i32 %threads)
  ret i32 %now

none:
  ret i32 0
}

; --- errors

define internal void @say(ptr %error, ptr %message) nounwind {
entry:
  %ignored = icmp eq ptr %error, null
  br i1 %ignored, label %done, label %set

set:
  store ptr %message, ptr %error
  br label %done

done:
  ret void
}

define ptr @${name}_error() nounwind {
  ret ptr @text
}

; --- running

define i32 @${name}_run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs) nounwind {
entry:
  %sizes = alloca [$size_slots x i64], align 8
  %input_dims = alloca [$input_dim_slots x i64], align 8
  %output_dims = alloca [$output_dim_slots x i64], align 8
  %buffers = alloca [$argument_slots x ptr], align 8
  %looks = alloca [$look_slots x i64], align 8
  store i8 0, ptr @text, align 1
  %null = icmp eq ptr %model, null
  br i1 %null, label %model_missing, label %check_arrays

check_arrays:
  %inputs_null = icmp eq ptr %inputs, null
  %outputs_null = icmp eq ptr %outputs, null
  %inputs_missing = and i1 %inputs_null, $has_inputs
  %outputs_missing = and i1 %outputs_null, $has_outputs
  %arrays_missing = or i1 %inputs_missing, %outputs_missing
  br i1 %arrays_missing, label %pointers_missing, label %bind

bind:
  %code = call i32 @bind(ptr %shapes, ptr %sizes, ptr %input_dims, ptr %output_dims)
  %bound = icmp eq i32 %code, 0
  br i1 %bound, label %arguments, label %bad_shapes

arguments:
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  %weights = load ptr, ptr %weights_at
  br label %argument

argument:
  %i = phi i64 [ 0, %arguments ], [ %i_next, %placed ]
  %more = icmp slt i64 %i, $arguments
  br i1 %more, label %place, label %ranges

place:
  %kind_at = getelementptr %argument, ptr @arguments, i64 %i, i32 0
  %kind = load i32, ptr %kind_at, align 4
  %number_at = getelementptr %argument, ptr @arguments, i64 %i, i32 1
  %number = load i32, ptr %number_at, align 4
  %n = sext i32 %number to i64
  switch i32 %kind, label %output [ i32 0, label %input
                                    i32 1, label %constant
                                    i32 3, label %look ]

look:
  br label %placed

input:
  %input_at = getelementptr ptr, ptr %inputs, i64 %n
  %input_data = load ptr, ptr %input_at
  %input_spec = getelementptr %tensor, ptr @inputs, i64 %n
  %input_ok = call i1 @check_data(ptr %input_data, ptr %input_spec, ptr %input_dims, ptr @word_input)
  br i1 %input_ok, label %placed, label %data_missing

constant:
  %offset_at = getelementptr i64, ptr @constants, i64 %n
  %offset = load i64, ptr %offset_at, align 8
  %constant_data = getelementptr i8, ptr %weights, i64 %offset
  br label %placed

output:
  %output_at = getelementptr ptr, ptr %outputs, i64 %n
  %output_data = load ptr, ptr %output_at
  %output_spec = getelementptr %tensor, ptr @outputs, i64 %n
  %output_ok = call i1 @check_data(ptr %output_data, ptr %output_spec, ptr %output_dims, ptr @word_output)
  br i1 %output_ok, label %placed, label %data_missing

placed:
  %data = phi ptr [ %input_data, %input ], [ %constant_data, %constant ], [ %output_data, %output ], [ %looks, %look ]
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  store ptr %data, ptr %buffer_at
  %i_next = add i64 %i, 1
  br label %argument

ranges:
  %in_range = call i1 @check_ranges(ptr %inputs, ptr %input_dims)
  br i1 %in_range, label %memory, label %data_bad

memory:
  %need = call i64 @${model}_arena_bytes(ptr %sizes)
  ; Rounded up to 64, and never 0, as aligned_alloc wants it.
  %need_more = add i64 %need, 127
  %rounded = and i64 %need_more, -64
  %too_small = icmp slt i64 %need, 0
  %too_large = icmp ugt i64 %need, 281474976710656
  %impossible = or i1 %too_small, %too_large
  br i1 %impossible, label %arena_impossible, label %claim

claim:
  %used_at = getelementptr %model, ptr %model, i64 0, i32 5
  %attempt = cmpxchg ptr %used_at, i32 0, i32 1 acquire monotonic, align 4
  %claimed = extractvalue { i32, i1 } %attempt, 1
  br i1 %claimed, label %own, label %borrow

own:
  %arena_at = getelementptr %model, ptr %model, i64 0, i32 3
  %arena_bytes_at = getelementptr %model, ptr %model, i64 0, i32 4
  %kept = load ptr, ptr %arena_at
  %kept_bytes = load i64, ptr %arena_bytes_at, align 8
  %enough = icmp sge i64 %kept_bytes, %need
  br i1 %enough, label %run, label %grow

grow:
  %grown = call ptr @aligned_alloc(i64 64, i64 %rounded)
  %not_grown = icmp eq ptr %grown, null
  br i1 %not_grown, label %grow_failed, label %keep

keep:
  call void @free(ptr %kept)
  store ptr %grown, ptr %arena_at
  store i64 %rounded, ptr %arena_bytes_at, align 8
  br label %run

borrow:
  %borrowed = call ptr @aligned_alloc(i64 64, i64 %rounded)
  %not_borrowed = icmp eq ptr %borrowed, null
  br i1 %not_borrowed, label %memory_missing, label %run

run:
  %arena = phi ptr [ %kept, %own ], [ %grown, %keep ], [ %borrowed, %borrow ]
  %pool_at = getelementptr %model, ptr %model, i64 0, i32 0
  %pool = load ptr, ptr %pool_at
  call void @${model}_run(ptr %pool, ptr %buffers, ptr %sizes, ptr %arena)
  %outcome = call i32 @check_looks(ptr %looks)
  br i1 %claimed, label %unclaim, label %give_back

unclaim:
  store atomic i32 0, ptr %used_at release, align 4
  ret i32 %outcome

give_back:
  call void @free(ptr %arena)
  ret i32 %outcome

grow_failed:
  store atomic i32 0, ptr %used_at release, align 4
  br label %memory_missing

memory_missing:
  %told_memory = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 %rounded)
  ret i32 3

arena_impossible:
  %told_arena = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_arena, i64 %need)
  ret i32 3

model_missing:
  %told_model = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_model)
  ret i32 1

pointers_missing:
  %told_pointers = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_inputs)
  ret i32 1

data_missing:
  ret i32 1

data_bad:
  ret i32 5

bad_shapes:
  ret i32 %code
}

; --- running with room for results

define i32 @${name}_run_sized(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, ptr %capacities, ptr %output_shapes) nounwind {
entry:
  %sizes = alloca [$size_slots x i64], align 8
  %input_dims = alloca [$input_dim_slots x i64], align 8
  %output_dims = alloca [$output_dim_slots x i64], align 8
  %places = alloca [$output_slots x ptr], align 8
  store i8 0, ptr @text, align 1
  %outputs_null = icmp eq ptr %outputs, null
  %missing = and i1 %outputs_null, $has_outputs
  br i1 %missing, label %pointers_missing, label %bind

bind:
  %code = call i32 @bind(ptr %shapes, ptr %sizes, ptr %input_dims, ptr %output_dims)
  %bound = icmp eq i32 %code, 0
  br i1 %bound, label %output, label %bad_shapes

output:
  %i = phi i64 [ 0, %bind ], [ %i_next, %place ]
  %more = icmp slt i64 %i, $outputs_count
  br i1 %more, label %place, label %room

place:
  %first_at = getelementptr %tensor, ptr @outputs, i64 %i, i32 3
  %first = load i32, ptr %first_at, align 4
  %dims_at = getelementptr i64, ptr %output_dims, i32 %first
  %place_at = getelementptr ptr, ptr %places, i64 %i
  store ptr %dims_at, ptr %place_at
  %i_next = add i64 %i, 1
  br label %output

room:
  %room_code = call i32 @make_room(ptr %places, ptr %outputs, ptr %capacities, ptr %output_shapes)
  %fit = icmp eq i32 %room_code, 0
  br i1 %fit, label %run, label %no_room

run:
  %outcome = call i32 @${name}_run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs)
  ret i32 %outcome

pointers_missing:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_inputs)
  ret i32 1

bad_shapes:
  ret i32 %code

no_room:
  ret i32 %room_code
}

; --- sizes

define i32 @${name}_output_shapes(ptr %shapes, ptr %output_shapes) nounwind {
entry:
  %sizes = alloca [$size_slots x i64], align 8
  %input_dims = alloca [$input_dim_slots x i64], align 8
  %output_dims = alloca [$output_dim_slots x i64], align 8
  store i8 0, ptr @text, align 1
  %outputs_null = icmp eq ptr %output_shapes, null
  %missing = and i1 %outputs_null, $has_outputs
  br i1 %missing, label %pointers_missing, label %bind

bind:
  %code = call i32 @bind(ptr %shapes, ptr %sizes, ptr %input_dims, ptr %output_dims)
  %bound = icmp eq i32 %code, 0
  br i1 %bound, label %tensor, label %bad_shapes

tensor:
  %i = phi i64 [ 0, %bind ], [ %i_next, %tensor_done ]
  %more = icmp slt i64 %i, $outputs_count
  br i1 %more, label %start, label %done

start:
  %rank_at = getelementptr %tensor, ptr @outputs, i64 %i, i32 2
  %rank = load i32, ptr %rank_at, align 4
  %first_at = getelementptr %tensor, ptr @outputs, i64 %i, i32 3
  %first = load i32, ptr %first_at, align 4
  %target_at = getelementptr ptr, ptr %output_shapes, i64 %i
  %target = load ptr, ptr %target_at
  br label %axis

axis:
  %a = phi i32 [ 0, %start ], [ %a_next, %copy ]
  %more_axes = icmp slt i32 %a, %rank
  br i1 %more_axes, label %copy, label %tensor_done

copy:
  %from = add i32 %first, %a
  %from_64 = sext i32 %from to i64
  %dim_at = getelementptr i64, ptr %output_dims, i64 %from_64
  %dim = load i64, ptr %dim_at, align 8
  %a_64 = sext i32 %a to i64
  %to = getelementptr i64, ptr %target, i64 %a_64
  store i64 %dim, ptr %to, align 8
  %a_next = add i32 %a, 1
  br label %axis

tensor_done:
  %i_next = add i64 %i, 1
  br label %tensor

done:
  ret i32 0

pointers_missing:
  %told_pointers = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_inputs)
  ret i32 1

bad_shapes:
  ret i32 %code
}

; Reads the free sizes from the shapes, checks every size of every input against them, and works out the outputs' sizes.
define internal i32 @bind(ptr %shapes, ptr %sizes, ptr %input_dims, ptr %output_dims) nounwind {
entry:
  %guard_values = alloca [$guard_slots x i64], align 8
  %unknown = icmp eq ptr %shapes, null
  br i1 %unknown, label %fixed, label %size

fixed:
  br i1 $has_sizes, label %shapes_missing, label %fill

size:
  %k = phi i64 [ 0, %entry ], [ %k_next, %size_known ]
  %more_sizes = icmp slt i64 %k, $sizes_count
  br i1 %more_sizes, label %read_size, label %fill

read_size:
  %size_input_at = getelementptr %size, ptr @sizes, i64 %k, i32 0
  %size_input_32 = load i32, ptr %size_input_at, align 4
  %size_input = sext i32 %size_input_32 to i64
  %size_axis_at = getelementptr %size, ptr @sizes, i64 %k, i32 1
  %size_axis_32 = load i32, ptr %size_axis_at, align 4
  %size_axis = sext i32 %size_axis_32 to i64
  %size_shape_at = getelementptr ptr, ptr %shapes, i64 %size_input
  %size_shape = load ptr, ptr %size_shape_at
  %size_shape_null = icmp eq ptr %size_shape, null
  br i1 %size_shape_null, label %shape_missing, label %read_axis

read_axis:
  %value_at = getelementptr i64, ptr %size_shape, i64 %size_axis
  %value = load i64, ptr %value_at, align 8
  ; As unsigned, a negative size is too large too.
  %value_bad = icmp ugt i64 %value, 281474976710656
  br i1 %value_bad, label %size_bad, label %solve_size

solve_size:
  %scale_at = getelementptr %size, ptr @sizes, i64 %k, i32 2
  %scale = load i64, ptr %scale_at, align 8
  %offset_at = getelementptr %size, ptr @sizes, i64 %k, i32 3
  %offset = load i64, ptr %offset_at, align 8
  %scaled = sub i64 %value, %offset
  %solved = sdiv i64 %scaled, %scale
  %remainder = srem i64 %scaled, %scale
  %inexact = icmp ne i64 %remainder, 0
  %below = icmp slt i64 %scaled, 0
  %unsolved = or i1 %inexact, %below
  br i1 %unsolved, label %size_unfit, label %size_known

size_known:
  %slot = getelementptr i64, ptr %sizes, i64 %k
  store i64 %solved, ptr %slot, align 8
  %k_next = add i64 %k, 1
  br label %size

fill:
  %fit = call i1 @sizes_fit(ptr %sizes)
  br i1 %fit, label %known, label %sizes_bad

known:
  call void @input_sizes(ptr %sizes, ptr %input_dims)
  call void @${model}_output_shapes(ptr %sizes, ptr %output_dims)
  br i1 %unknown, label %check_guards, label %tensor

tensor:
  %i = phi i64 [ 0, %known ], [ %i_next, %tensor_done ]
  %more = icmp slt i64 %i, $inputs_count
  br i1 %more, label %start, label %check_guards

start:
  %rank_at = getelementptr %tensor, ptr @inputs, i64 %i, i32 2
  %rank = load i32, ptr %rank_at, align 4
  %first_at = getelementptr %tensor, ptr @inputs, i64 %i, i32 3
  %first = load i32, ptr %first_at, align 4
  %shape_at = getelementptr ptr, ptr %shapes, i64 %i
  %shape = load ptr, ptr %shape_at
  %shape_null = icmp eq ptr %shape, null
  %has_axes = icmp sgt i32 %rank, 0
  %shape_bad = and i1 %shape_null, %has_axes
  br i1 %shape_bad, label %shape_missing, label %axis

axis:
  %a = phi i32 [ 0, %start ], [ %a_next, %axis_done ]
  %more_axes = icmp slt i32 %a, %rank
  br i1 %more_axes, label %compare, label %tensor_done

compare:
  %dim_number = add i32 %first, %a
  %dim_number_64 = sext i32 %dim_number to i64
  %expected_at = getelementptr i64, ptr %input_dims, i64 %dim_number_64
  %expected = load i64, ptr %expected_at, align 8
  %a_64 = sext i32 %a to i64
  %got_at = getelementptr i64, ptr %shape, i64 %a_64
  %got = load i64, ptr %got_at, align 8
  %same = icmp eq i64 %got, %expected
  br i1 %same, label %axis_done, label %axis_bad

axis_done:
  %a_next = add i32 %a, 1
  br label %axis

tensor_done:
  %i_next = add i64 %i, 1
  br label %tensor

check_guards:
  call void @guard_sizes(ptr %sizes, ptr %guard_values)
  br label %guard

guard:
  %g = phi i64 [ 0, %check_guards ], [ %g_next, %guard_holds ]
  %more_guards = icmp slt i64 %g, $guards_count
  br i1 %more_guards, label %check_guard, label %tensor_out

check_guard:
  %guarded_at = getelementptr i64, ptr %guard_values, i64 %g
  %guarded = load i64, ptr %guarded_at, align 8
  %least_at = getelementptr %guard, ptr @guards, i64 %g, i32 0
  %least = load i64, ptr %least_at, align 8
  %most_at = getelementptr %guard, ptr @guards, i64 %g, i32 1
  %most = load i64, ptr %most_at, align 8
  %too_low = icmp slt i64 %guarded, %least
  %too_high = icmp sgt i64 %guarded, %most
  %broken = or i1 %too_low, %too_high
  br i1 %broken, label %guard_broken, label %guard_holds

guard_holds:
  %g_next = add i64 %g, 1
  br label %guard

tensor_out:
  %o = phi i64 [ 0, %guard ], [ %o_next, %out_done ]
  %more_outputs = icmp slt i64 %o, $checked_outputs
  br i1 %more_outputs, label %start_out, label %done

start_out:
  %rank_out_at = getelementptr %tensor, ptr @outputs, i64 %o, i32 2
  %rank_out = load i32, ptr %rank_out_at, align 4
  %first_out_at = getelementptr %tensor, ptr @outputs, i64 %o, i32 3
  %first_out = load i32, ptr %first_out_at, align 4
  br label %axis_out

axis_out:
  %b = phi i32 [ 0, %start_out ], [ %b_next, %axis_out_done ]
  %more_axes_out = icmp slt i32 %b, %rank_out
  br i1 %more_axes_out, label %check_out, label %out_done

check_out:
  %out_number = add i32 %first_out, %b
  %out_number_64 = sext i32 %out_number to i64
  %out_dim_at = getelementptr i64, ptr %output_dims, i64 %out_number_64
  %out_dim = load i64, ptr %out_dim_at, align 8
  %out_bad = icmp ugt i64 %out_dim, 281474976710656
  br i1 %out_bad, label %output_bad, label %axis_out_done

axis_out_done:
  %b_next = add i32 %b, 1
  br label %axis_out

out_done:
  %o_next = add i64 %o, 1
  br label %tensor_out

done:
  ret i32 0

shapes_missing:
  %told_shapes = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_shapes)
  ret i32 2

shape_missing:
  %lacking = phi i64 [ %size_input, %read_size ], [ %i, %start ]
  %lacking_name_at = getelementptr %tensor, ptr @inputs, i64 %lacking, i32 0
  %lacking_name = load ptr, ptr %lacking_name_at
  %told_shape = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_shape, ptr %lacking_name)
  ret i32 2

size_bad:
  %size_name_at = getelementptr %tensor, ptr @inputs, i64 %size_input, i32 0
  %size_name = load ptr, ptr %size_name_at
  %told_size = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_size, ptr %size_name, i32 %size_axis_32, i64 %value)
  ret i32 2

size_unfit:
  %unfit_name_at = getelementptr %tensor, ptr @inputs, i64 %size_input, i32 0
  %unfit_name = load ptr, ptr %unfit_name_at
  %form_at = getelementptr %size, ptr @sizes, i64 %k, i32 4
  %form = load ptr, ptr %form_at
  %told_form = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_form, ptr %unfit_name, ptr %form, i64 %value, i32 %size_axis_32)
  ret i32 2

sizes_bad:
  %told_sizes = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_sizes)
  ret i32 2

guard_broken:
  %what_at = getelementptr %guard, ptr @guards, i64 %g, i32 2
  %what = load ptr, ptr %what_at
  %told_guard = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_guard, ptr %what, i64 %guarded)
  ret i32 2

axis_bad:
  %bad_name_at = getelementptr %tensor, ptr @inputs, i64 %i, i32 0
  %bad_name = load ptr, ptr %bad_name_at
  %dim_texts_at = getelementptr %tensor, ptr @inputs, i64 %i, i32 5
  %dim_texts = load ptr, ptr %dim_texts_at
  %dim_text_at = getelementptr ptr, ptr %dim_texts, i64 %a_64
  %dim_text = load ptr, ptr %dim_text_at
  %whys_at = getelementptr %tensor, ptr @inputs, i64 %i, i32 6
  %whys = load ptr, ptr %whys_at
  %why_at = getelementptr ptr, ptr %whys, i64 %a_64
  %why = load ptr, ptr %why_at
  %told_axis = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_axis, ptr %bad_name, ptr %dim_text, i64 %expected, i32 %a, i64 %got, ptr %why)
  ret i32 2

output_bad:
  %bad_output_at = getelementptr %tensor, ptr @outputs, i64 %o, i32 0
  %bad_output_name = load ptr, ptr %bad_output_at
  %out_texts_at = getelementptr %tensor, ptr @outputs, i64 %o, i32 5
  %out_texts = load ptr, ptr %out_texts_at
  %b_64 = sext i32 %b to i64
  %out_text_at = getelementptr ptr, ptr %out_texts, i64 %b_64
  %out_text = load ptr, ptr %out_text_at
  %told_output = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_output, ptr %bad_output_name, i32 %b, ptr %out_text, i64 %out_dim)
  ret i32 2
}

; Whether there is data where there are elements.
define internal i1 @check_data(ptr %data, ptr %spec, ptr %dims, ptr %word) nounwind {
entry:
  %null = icmp eq ptr %data, null
  br i1 %null, label %count, label %fine

count:
  %rank_at = getelementptr %tensor, ptr %spec, i64 0, i32 2
  %rank = load i32, ptr %rank_at, align 4
  %first_at = getelementptr %tensor, ptr %spec, i64 0, i32 3
  %first = load i32, ptr %first_at, align 4
  br label %axis

axis:
  %a = phi i32 [ 0, %count ], [ %a_next, %next ]
  %more = icmp slt i32 %a, %rank
  br i1 %more, label %look, label %missing

look:
  %number = add i32 %first, %a
  %number_64 = sext i32 %number to i64
  %dim_at = getelementptr i64, ptr %dims, i64 %number_64
  %dim = load i64, ptr %dim_at, align 8
  %empty = icmp eq i64 %dim, 0
  br i1 %empty, label %fine, label %next

next:
  %a_next = add i32 %a, 1
  br label %axis

missing:
  %name_at = getelementptr %tensor, ptr %spec, i64 0, i32 0
  %name = load ptr, ptr %name_at
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_data, ptr %word, ptr %name)
  ret i1 false

fine:
  ret i1 true
}

; Whether inputs hold what they may.
define internal i1 @check_ranges(ptr %inputs, ptr %dims) nounwind {
entry:
  br label %range

range:
  %r = phi i64 [ 0, %entry ], [ %r_next, %holds ]
  %more = icmp slt i64 %r, $ranges_count
  br i1 %more, label %look, label %fine

look:
  %input_at = getelementptr %range, ptr @ranges, i64 %r, i32 0
  %input_32 = load i32, ptr %input_at, align 4
  %input = sext i32 %input_32 to i64
  %kind_at = getelementptr %range, ptr @ranges, i64 %r, i32 1
  %kind = load i32, ptr %kind_at, align 4
  %low_at = getelementptr %range, ptr @ranges, i64 %r, i32 2
  %low = load i64, ptr %low_at, align 8
  %high_at = getelementptr %range, ptr @ranges, i64 %r, i32 3
  %high = load i64, ptr %high_at, align 8
  %rank_at = getelementptr %tensor, ptr @inputs, i64 %input, i32 2
  %rank = load i32, ptr %rank_at, align 4
  %first_at = getelementptr %tensor, ptr @inputs, i64 %input, i32 3
  %first = load i32, ptr %first_at, align 4
  %data_at = getelementptr ptr, ptr %inputs, i64 %input
  %data = load ptr, ptr %data_at
  br label %axis

axis:
  %a = phi i32 [ 0, %look ], [ %a_next, %measure ]
  %count = phi i64 [ 1, %look ], [ %count_next, %measure ]
  %more_axes = icmp slt i32 %a, %rank
  br i1 %more_axes, label %measure, label %element

measure:
  %number = add i32 %first, %a
  %number_64 = sext i32 %number to i64
  %dim_at = getelementptr i64, ptr %dims, i64 %number_64
  %dim = load i64, ptr %dim_at, align 8
  %count_next = mul i64 %count, %dim
  %a_next = add i32 %a, 1
  br label %axis

element:
  %i = phi i64 [ 0, %axis ], [ %i_next, %inside ]
  %more_elements = icmp slt i64 %i, %count
  br i1 %more_elements, label %read, label %holds

read:
  switch i32 %kind, label %read_i64 [ i32 1, label %read_i32
                                      i32 2, label %read_i16
                                      i32 3, label %read_i8
                                      i32 4, label %read_u8
                                      i32 5, label %read_u16
                                      i32 6, label %read_u32 ]

read_i64:
  %at_i64 = getelementptr i64, ptr %data, i64 %i
  %value_i64 = load i64, ptr %at_i64, align 8
  br label %compare

read_i32:
  %at_i32 = getelementptr i32, ptr %data, i64 %i
  %word_i32 = load i32, ptr %at_i32, align 4
  %value_i32 = sext i32 %word_i32 to i64
  br label %compare

read_i16:
  %at_i16 = getelementptr i16, ptr %data, i64 %i
  %word_i16 = load i16, ptr %at_i16, align 2
  %value_i16 = sext i16 %word_i16 to i64
  br label %compare

read_i8:
  %at_i8 = getelementptr i8, ptr %data, i64 %i
  %word_i8 = load i8, ptr %at_i8, align 1
  %value_i8 = sext i8 %word_i8 to i64
  br label %compare

read_u8:
  %at_u8 = getelementptr i8, ptr %data, i64 %i
  %word_u8 = load i8, ptr %at_u8, align 1
  %value_u8 = zext i8 %word_u8 to i64
  br label %compare

read_u16:
  %at_u16 = getelementptr i16, ptr %data, i64 %i
  %word_u16 = load i16, ptr %at_u16, align 2
  %value_u16 = zext i16 %word_u16 to i64
  br label %compare

read_u32:
  %at_u32 = getelementptr i32, ptr %data, i64 %i
  %word_u32 = load i32, ptr %at_u32, align 4
  %value_u32 = zext i32 %word_u32 to i64
  br label %compare

compare:
  %value = phi i64 [ %value_i64, %read_i64 ], [ %value_i32, %read_i32 ], [ %value_i16, %read_i16 ], [ %value_i8, %read_i8 ], [ %value_u8, %read_u8 ], [ %value_u16, %read_u16 ], [ %value_u32, %read_u32 ]
  %below = icmp slt i64 %value, %low
  %above = icmp sgt i64 %value, %high
  %outside = or i1 %below, %above
  br i1 %outside, label %tell, label %inside

inside:
  %i_next = add i64 %i, 1
  br label %element

holds:
  %r_next = add i64 %r, 1
  br label %range

tell:
  %name_at = getelementptr %tensor, ptr @inputs, i64 %input, i32 0
  %name = load ptr, ptr %name_at
  %what_at = getelementptr %range, ptr @ranges, i64 %r, i32 4
  %what = load ptr, ptr %what_at
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_range, ptr %name, ptr %what, i64 %low, i64 %high, i64 %value)
  ret i1 false

fine:
  ret i1 true
}

; Whether the positions that a run computed are those of their axes: 0, or 5 and the text.
define internal i32 @check_looks(ptr %told) nounwind {
entry:
  br label %look

look:
  %l = phi i64 [ 0, %entry ], [ %l_next, %holds ]
  %more = icmp slt i64 %l, $looks_count
  br i1 %more, label %compare, label %fine

compare:
  %number = mul i64 %l, 3
  %least_at = getelementptr i64, ptr %told, i64 %number
  %least = load i64, ptr %least_at, align 8
  %greatest_at = getelementptr i64, ptr %least_at, i64 1
  %greatest = load i64, ptr %greatest_at, align 8
  %size_at = getelementptr i64, ptr %least_at, i64 2
  %size = load i64, ptr %size_at, align 8
  %wraps_at = getelementptr %look, ptr @looks, i64 %l, i32 0
  %wraps = load i64, ptr %wraps_at, align 8
  %back = mul i64 %wraps, %size
  %low = sub i64 0, %back
  %high = sub i64 %size, 1
  %below = icmp slt i64 %least, %low
  %above = icmp sgt i64 %greatest, %high
  %outside = or i1 %below, %above
  ; Of no positions the least is greater than the greatest.
  %some = icmp sle i64 %least, %greatest
  %bad = and i1 %outside, %some
  br i1 %bad, label %tell, label %holds

holds:
  %l_next = add i64 %l, 1
  br label %look

tell:
  %what_at = getelementptr %look, ptr @looks, i64 %l, i32 1
  %what = load ptr, ptr %what_at, align 8
  %told_text = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_look, ptr %what, i64 %low, i64 %high, i64 %least, i64 %greatest)
  ret i32 5

fine:
  ret i32 0
}

; --- room for results

; How many elements there are of these sizes; -1 where a size is negative, or the number has more than 48 bits.
define internal i64 @count(ptr %sizes, i32 %rank) nounwind {
entry:
  br label %axis

axis:
  %a = phi i32 [ 0, %entry ], [ %a_next, %times ]
  %product = phi i64 [ 1, %entry ], [ %larger, %times ]
  %empty = phi i1 [ false, %entry ], [ %empty_now, %times ]
  %more = icmp slt i32 %a, %rank
  br i1 %more, label %look, label %done

look:
  %at = getelementptr i64, ptr %sizes, i32 %a
  %size = load i64, ptr %at, align 8
  %zero = icmp eq i64 %size, 0
  %empty_now = or i1 %empty, %zero
  ; What is empty has no elements, however large its other sizes are.
  %factor = select i1 %zero, i64 1, i64 %size
  %bad = icmp ugt i64 %size, 281474976710656
  br i1 %bad, label %lost, label %times

times:
  %larger = mul i64 %product, %factor
  %a_next = add i32 %a, 1
  %most = udiv i64 281474976710656, %factor
  %too_many = icmp ugt i64 %product, %most
  br i1 %too_many, label %maybe, label %axis

maybe:
  br label %rest

rest:
  %r = phi i32 [ %a_next, %maybe ], [ %r_next, %rest_more ]
  %found = phi i1 [ %empty_now, %maybe ], [ %found_now, %rest_more ]
  %rest_left = icmp slt i32 %r, %rank
  br i1 %rest_left, label %rest_more, label %rest_done

rest_more:
  %rest_at = getelementptr i64, ptr %sizes, i32 %r
  %rest_size = load i64, ptr %rest_at, align 8
  %rest_zero = icmp eq i64 %rest_size, 0
  %found_now = or i1 %found, %rest_zero
  %r_next = add i32 %r, 1
  br label %rest

rest_done:
  br i1 %found, label %none, label %lost

done:
  %counted = select i1 %empty, i64 0, i64 %product
  ret i64 %counted

none:
  ret i64 0

lost:
  ret i64 -1
}

; Tells the sizes of the results, of which `shapes` are the addresses, and looks whether there is room for all of them: 0, or an error code
; with the text set.
define internal i32 @make_room(ptr %shapes, ptr %outputs, ptr %capacities, ptr %output_shapes) nounwind {
entry:
  %limited = icmp ne ptr %capacities, null
  %wanted = icmp ne ptr %output_shapes, null
  br i1 %wanted, label %shape, label %check

shape:
  %i = phi i64 [ 0, %entry ], [ %i_next, %shaped ]
  %more = icmp slt i64 %i, $outputs_count
  br i1 %more, label %look, label %check

look:
  %rank_at = getelementptr %tensor, ptr @outputs, i64 %i, i32 2
  %rank = load i32, ptr %rank_at, align 4
  %sizes_at = getelementptr ptr, ptr %shapes, i64 %i
  %sizes = load ptr, ptr %sizes_at
  %target_at = getelementptr ptr, ptr %output_shapes, i64 %i
  %target = load ptr, ptr %target_at
  %unwanted = icmp eq ptr %target, null
  br i1 %unwanted, label %shaped, label %axis

axis:
  %a = phi i32 [ 0, %look ], [ %a_next, %copy ]
  %more_axes = icmp slt i32 %a, %rank
  br i1 %more_axes, label %copy, label %shaped

copy:
  %size_at = getelementptr i64, ptr %sizes, i32 %a
  %size = load i64, ptr %size_at, align 8
  %to_at = getelementptr i64, ptr %target, i32 %a
  store i64 %size, ptr %to_at, align 8
  %a_next = add i32 %a, 1
  br label %axis

shaped:
  %i_next = add i64 %i, 1
  br label %shape

check:
  %c = phi i64 [ 0, %entry ], [ 0, %shape ], [ %c_next, %fits ]
  %more_checks = icmp slt i64 %c, $outputs_count
  br i1 %more_checks, label %check_one, label %done

check_one:
  %checked_rank_at = getelementptr %tensor, ptr @outputs, i64 %c, i32 2
  %checked_rank = load i32, ptr %checked_rank_at, align 4
  %checked_at = getelementptr ptr, ptr %shapes, i64 %c
  %checked = load ptr, ptr %checked_at
  %elements = call i64 @count(ptr %checked, i32 %checked_rank)
  %name_at = getelementptr %tensor, ptr @outputs, i64 %c, i32 0
  %name = load ptr, ptr %name_at
  br i1 %limited, label %compare, label %check_place

compare:
  %capacity_at = getelementptr i64, ptr %capacities, i64 %c
  %capacity = load i64, ptr %capacity_at, align 8
  ; As unsigned, what cannot be counted is too much for any.
  %negative = icmp slt i64 %capacity, 0
  %less = icmp ult i64 %capacity, %elements
  %small = or i1 %negative, %less
  br i1 %small, label %too_small, label %check_place

check_place:
  %place_at = getelementptr ptr, ptr %outputs, i64 %c
  %place = load ptr, ptr %place_at
  %nowhere = icmp eq ptr %place, null
  %any = icmp ne i64 %elements, 0
  %lacking = and i1 %nowhere, %any
  br i1 %lacking, label %no_place, label %fits

fits:
  %c_next = add i64 %c, 1
  br label %check

done:
  ret i32 0

too_small:
  %told_small = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @small_output, ptr %name, i64 %elements, i64 %capacity)
  ret i32 6

no_place:
  %told_no = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_data, ptr @word_output, ptr %name)
  ret i32 1
}

; --- what the model takes and gives

$getters

; --- weights

$weights

$check
