; --- running a model in parts

; Values are in slots. A frame has, for each slot, where its data is, the memory that was allocated for it or null, and its sizes.
%frame = type { ptr, ptr, ptr, ptr }              ; 0 data, 1 owned, 2 sizes, 3 model

define internal ptr @value_at(ptr %frame, i32 %field, i32 %slot) nounwind {
entry:
  %array_at = getelementptr ptr, ptr %frame, i32 %field
  %array = load ptr, ptr %array_at
  %at = getelementptr ptr, ptr %array, i32 %slot
  ret ptr %at
}

define internal ptr @value_of(ptr %frame, i32 %field, i32 %slot) nounwind {
entry:
  %at = call ptr @value_at(ptr %frame, i32 %field, i32 %slot)
  %value = load ptr, ptr %at
  ret ptr %value
}

; Memory for what is in a slot, whose sizes are known: 0, or an error code with the text set.
define internal i32 @allocate(ptr %frame, i32 %slot) nounwind {
entry:
  %spec = getelementptr %slot, ptr @slots, i32 %slot
  %rank = load i32, ptr %spec, align 4
  %item_at = getelementptr %slot, ptr %spec, i32 0, i32 1
  %item = load i64, ptr %item_at, align 8
  %sizes = call ptr @value_of(ptr %frame, i32 2, i32 %slot)
  %elements = call i64 @count(ptr %sizes, i32 %rank)
  %lost = icmp slt i64 %elements, 0
  br i1 %lost, label %too_large, label %take

take:
  %bytes = mul i64 %elements, %item
  ; Rounded up to 64, and never 0, as aligned_alloc wants it.
  %more = add i64 %bytes, 127
  %rounded = and i64 %more, -64
  %data = call ptr @aligned_alloc(i64 64, i64 %rounded)
  %missing = icmp eq ptr %data, null
  br i1 %missing, label %no_memory_left, label %keep

keep:
  %data_at = call ptr @value_at(ptr %frame, i32 0, i32 %slot)
  store ptr %data, ptr %data_at
  %owned_at = call ptr @value_at(ptr %frame, i32 1, i32 %slot)
  store ptr %data, ptr %owned_at
  ret i32 0

too_large:
  %told_size = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @large_value)
  ret i32 3

no_memory_left:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 %rounded)
  ret i32 3
}

; Gives back the memory of a slot, if it has any.
define internal void @release(ptr %frame, i32 %slot) nounwind {
entry:
  %owned_at = call ptr @value_at(ptr %frame, i32 1, i32 %slot)
  %owned = load ptr, ptr %owned_at
  call void @free(ptr %owned)
  store ptr null, ptr %owned_at
  ret void
}

define internal i32 @run_part(ptr %frame, ptr %part) nounwind {
entry:
  %takes_count_at = getelementptr %part, ptr %part, i32 0, i32 3
  %takes_count = load i32, ptr %takes_count_at, align 4
  %takes_at = getelementptr %part, ptr %part, i32 0, i32 4
  %takes = load ptr, ptr %takes_at
  %gives_count_at = getelementptr %part, ptr %part, i32 0, i32 5
  %gives_count = load i32, ptr %gives_count_at, align 4
  %gives_at = getelementptr %part, ptr %part, i32 0, i32 6
  %gives = load ptr, ptr %gives_at
  %inputs = alloca ptr, i32 %takes_count, align 8
  %shapes = alloca ptr, i32 %takes_count, align 8
  %outputs = alloca ptr, i32 %gives_count, align 8
  %output_shapes = alloca ptr, i32 %gives_count, align 8
  br label %input

input:
  %i = phi i32 [ 0, %entry ], [ %i_next, %take ]
  %more_inputs = icmp slt i32 %i, %takes_count
  br i1 %more_inputs, label %take, label %output

take:
  %taken_at = getelementptr i32, ptr %takes, i32 %i
  %taken = load i32, ptr %taken_at, align 4
  %data = call ptr @value_of(ptr %frame, i32 0, i32 %taken)
  %input_at = getelementptr ptr, ptr %inputs, i32 %i
  store ptr %data, ptr %input_at
  %shape = call ptr @value_of(ptr %frame, i32 2, i32 %taken)
  %shape_at = getelementptr ptr, ptr %shapes, i32 %i
  store ptr %shape, ptr %shape_at
  %i_next = add i32 %i, 1
  br label %input

output:
  %o = phi i32 [ 0, %input ], [ %o_next, %give ]
  %more_outputs = icmp slt i32 %o, %gives_count
  br i1 %more_outputs, label %give, label %measure

give:
  %given_at = getelementptr i32, ptr %gives, i32 %o
  %given = load i32, ptr %given_at, align 4
  %place = call ptr @value_of(ptr %frame, i32 2, i32 %given)
  %place_at = getelementptr ptr, ptr %output_shapes, i32 %o
  store ptr %place, ptr %place_at
  %o_next = add i32 %o, 1
  br label %output

measure:
  %measure_at = getelementptr %part, ptr %part, i32 0, i32 1
  %measure_code = load ptr, ptr %measure_at
  %measured = call i32 %measure_code(ptr %shapes, ptr %output_shapes)
  %fit = icmp eq i32 %measured, 0
  br i1 %fit, label %memory, label %unfit

memory:
  %m = phi i32 [ 0, %measure ], [ %m_next, %placed ]
  %more_memory = icmp slt i32 %m, %gives_count
  br i1 %more_memory, label %place_output, label %run

place_output:
  %made_at = getelementptr i32, ptr %gives, i32 %m
  %made = load i32, ptr %made_at, align 4
  %allocated = call i32 @allocate(ptr %frame, i32 %made)
  %has_memory = icmp eq i32 %allocated, 0
  br i1 %has_memory, label %placed, label %without_memory

placed:
  %memory_of = call ptr @value_of(ptr %frame, i32 0, i32 %made)
  %output_at = getelementptr ptr, ptr %outputs, i32 %m
  store ptr %memory_of, ptr %output_at
  %m_next = add i32 %m, 1
  br label %memory

run:
  %models_at = getelementptr %frame, ptr %frame, i32 0, i32 3
  %models = load ptr, ptr %models_at
  %number_at = getelementptr %part, ptr %part, i32 0, i32 2
  %number = load i64, ptr %number_at, align 8
  %model = getelementptr %model, ptr %models, i64 %number
  %run_at = getelementptr %part, ptr %part, i32 0, i32 0
  %run_code = load ptr, ptr %run_at
  %code = call i32 %run_code(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs)
  ret i32 %code

unfit:
  ret i32 %measured

without_memory:
  ret i32 %allocated
}

; What is in a slot, in another one: with its memory if it has some and may lose it, else as a copy.
define internal i32 @move(ptr %frame, i32 %from, i32 %to, i1 %may_lose) nounwind {
entry:
  %rank_at = getelementptr %slot, ptr @slots, i32 %from
  %rank = load i32, ptr %rank_at, align 4
  %item_at = getelementptr %slot, ptr @slots, i32 %from, i32 1
  %item = load i64, ptr %item_at, align 8
  %sizes = call ptr @value_of(ptr %frame, i32 2, i32 %from)
  %own = call ptr @value_of(ptr %frame, i32 2, i32 %to)
  br label %axis

axis:
  %a = phi i32 [ 0, %entry ], [ %a_next, %copy_size ]
  %more = icmp slt i32 %a, %rank
  br i1 %more, label %copy_size, label %look

copy_size:
  %size_at = getelementptr i64, ptr %sizes, i32 %a
  %size = load i64, ptr %size_at, align 8
  %own_size_at = getelementptr i64, ptr %own, i32 %a
  store i64 %size, ptr %own_size_at, align 8
  %a_next = add i32 %a, 1
  br label %axis

look:
  %data = call ptr @value_of(ptr %frame, i32 0, i32 %from)
  %owned_at = call ptr @value_at(ptr %frame, i32 1, i32 %from)
  %owned = load ptr, ptr %owned_at
  %has_own = icmp ne ptr %owned, null
  %hand_on = and i1 %has_own, %may_lose
  br i1 %hand_on, label %give, label %copy

give:
  store ptr null, ptr %owned_at
  %to_owned_at = call ptr @value_at(ptr %frame, i32 1, i32 %to)
  store ptr %owned, ptr %to_owned_at
  %to_data_at = call ptr @value_at(ptr %frame, i32 0, i32 %to)
  store ptr %data, ptr %to_data_at
  ret i32 0

copy:
  %code = call i32 @allocate(ptr %frame, i32 %to)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %done, label %fill

fill:
  %elements = call i64 @count(ptr %sizes, i32 %rank)
  %bytes = mul i64 %elements, %item
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %done, label %write

write:
  %target = call ptr @value_of(ptr %frame, i32 0, i32 %to)
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %data, i64 %bytes, i1 false)
  br label %done

done:
  ret i32 %code
}

; The first rows of what is in a slot, as many as `number` says: the same memory.
define internal i32 @take_first(ptr %frame, i32 %from, i64 %number, i32 %to) nounwind {
entry:
  %sizes = call ptr @value_of(ptr %frame, i32 2, i32 %from)
  %rows = load i64, ptr %sizes, align 8
  ; As unsigned, a negative number is too large too.
  %bad = icmp ugt i64 %number, %rows
  br i1 %bad, label %unfit, label %keep

keep:
  %data = call ptr @value_of(ptr %frame, i32 0, i32 %from)
  %data_at = call ptr @value_at(ptr %frame, i32 0, i32 %to)
  store ptr %data, ptr %data_at
  %own = call ptr @value_of(ptr %frame, i32 2, i32 %to)
  store i64 %number, ptr %own, align 8
  %rank_at = getelementptr %slot, ptr @slots, i32 %from
  %rank = load i32, ptr %rank_at, align 4
  br label %axis

axis:
  %a = phi i32 [ 1, %keep ], [ %a_next, %copy ]
  %more = icmp slt i32 %a, %rank
  br i1 %more, label %copy, label %done

copy:
  %size_at = getelementptr i64, ptr %sizes, i32 %a
  %size = load i64, ptr %size_at, align 8
  %own_at = getelementptr i64, ptr %own, i32 %a
  store i64 %size, ptr %own_at, align 8
  %a_next = add i32 %a, 1
  br label %axis

done:
  ret i32 0

unfit:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_number, i64 %rows, i64 %number)
  ret i32 2
}

; As many rows as `number` says, without elements, where it is what is needed.
define internal i32 @make_size(ptr %frame, i64 %number, i32 %flag_slot, i32 %to, ptr %need) nounwind {
entry:
  %flag_at = call ptr @value_of(ptr %frame, i32 0, i32 %flag_slot)
  %flag = load i8, ptr %flag_at, align 1
  %unneeded = icmp eq i8 %flag, 0
  ; As unsigned, a negative number is too large too.
  %large = icmp ugt i64 %number, 281474976710656
  %bad = or i1 %unneeded, %large
  br i1 %bad, label %unfit, label %keep

keep:
  %sizes = call ptr @value_of(ptr %frame, i32 2, i32 %to)
  store i64 %number, ptr %sizes, align 8
  %columns = getelementptr i64, ptr %sizes, i64 1
  store i64 0, ptr %columns, align 8
  ret i32 0

unfit:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_guard, ptr %need, i64 %number)
  ret i32 2
}

; The numbers below `number`.
define internal i32 @make_range(ptr %frame, i64 %number, i32 %to) nounwind {
entry:
  %negative = icmp slt i64 %number, 0
  %size = select i1 %negative, i64 0, i64 %number
  %sizes = call ptr @value_of(ptr %frame, i32 2, i32 %to)
  store i64 %size, ptr %sizes, align 8
  %code = call i32 @allocate(ptr %frame, i32 %to)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %fill, label %failed

fill:
  %data = call ptr @value_of(ptr %frame, i32 0, i32 %to)
  br label %next

next:
  %i = phi i64 [ 0, %fill ], [ %i_next, %store ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %store, label %done

store:
  %at = getelementptr i64, ptr %data, i64 %i
  store i64 %i, ptr %at, align 8
  %i_next = add i64 %i, 1
  br label %next

done:
  ret i32 0

failed:
  ret i32 %code
}

; Hands the results to the caller: their sizes, and then their elements if there is room for all of them.
define internal i32 @hand_over(ptr %frame, ptr %outputs, ptr %capacities, ptr %output_shapes) nounwind {
entry:
  %shapes = alloca [$output_slots x ptr], align 8
  br label %shape

shape:
  %i = phi i64 [ 0, %entry ], [ %i_next, %look ]
  %more = icmp slt i64 %i, $outputs_count
  br i1 %more, label %look, label %check

look:
  %slot_at = getelementptr i32, ptr @results, i64 %i
  %slot = load i32, ptr %slot_at, align 4
  %sizes = call ptr @value_of(ptr %frame, i32 2, i32 %slot)
  %shape_at = getelementptr ptr, ptr %shapes, i64 %i
  store ptr %sizes, ptr %shape_at
  %i_next = add i64 %i, 1
  br label %shape

check:
  %code = call i32 @make_room(ptr %shapes, ptr %outputs, ptr %capacities, ptr %output_shapes)
  %fit = icmp eq i32 %code, 0
  br i1 %fit, label %write, label %unfit

write:
  %w = phi i64 [ 0, %check ], [ %w_next, %written ]
  %more_writes = icmp slt i64 %w, $outputs_count
  br i1 %more_writes, label %write_one, label %done

write_one:
  %written_at = getelementptr i32, ptr @results, i64 %w
  %written_slot = load i32, ptr %written_at, align 4
  %written_spec = getelementptr %slot, ptr @slots, i32 %written_slot
  %written_rank = load i32, ptr %written_spec, align 4
  %item_at = getelementptr %slot, ptr %written_spec, i32 0, i32 1
  %item = load i64, ptr %item_at, align 8
  %written_sizes = call ptr @value_of(ptr %frame, i32 2, i32 %written_slot)
  %count = call i64 @count(ptr %written_sizes, i32 %written_rank)
  %bytes = mul i64 %count, %item
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %written, label %move

move:
  %from = call ptr @value_of(ptr %frame, i32 0, i32 %written_slot)
  %into_at = getelementptr ptr, ptr %outputs, i64 %w
  %into = load ptr, ptr %into_at
  call void @llvm.memcpy.p0.p0.i64(ptr %into, ptr %from, i64 %bytes, i1 false)
  br label %written

written:
  %w_next = add i64 %w, 1
  br label %write

done:
  ret i32 0

unfit:
  ret i32 %code
}

define i32 @${name}_run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs) nounwind {
entry:
  br i1 $sized, label %refuse, label %run

run:
  %code = call i32 @${name}_run_sized(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, ptr null, ptr null)
  ret i32 %code

refuse:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @needs_sized)
  ret i32 1
}

define i32 @${name}_run_sized(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, ptr %capacities, ptr %output_shapes) nounwind {
entry:
  %sizes = alloca [$size_slots x i64], align 8
  %input_dims = alloca [$input_dim_slots x i64], align 8
  %output_dims = alloca [$output_dim_slots x i64], align 8
  %data = alloca [$slots_count x ptr], align 8
  %owned = alloca [$slots_count x ptr], align 8
  %shape_of = alloca [$slots_count x ptr], align 8
  %dims = alloca [$dims_count x i64], align 8
  %frame = alloca %frame, align 8
  store i8 0, ptr @text, align 1
  %null = icmp eq ptr %model, null
  br i1 %null, label %model_missing, label %check_arrays

check_arrays:
  %inputs_null = icmp eq ptr %inputs, null
  %outputs_null = icmp eq ptr %outputs, null
  %inputs_missing = and i1 %inputs_null, $has_inputs
  %outputs_missing = and i1 %outputs_null, $has_outputs
  %capacities_null = icmp eq ptr %capacities, null
  %capacities_missing = and i1 %capacities_null, $sized
  %arrays_missing_0 = or i1 %inputs_missing, %outputs_missing
  %arrays_missing = or i1 %arrays_missing_0, %capacities_missing
  br i1 %arrays_missing, label %pointers_missing, label %bind

bind:
  %code = call i32 @bind(ptr %shapes, ptr %sizes, ptr %input_dims, ptr %output_dims)
  %bound = icmp eq i32 %code, 0
  br i1 %bound, label %fill, label %bad_shapes

fill:
  %frame_data = getelementptr %frame, ptr %frame, i32 0, i32 0
  store ptr %data, ptr %frame_data
  %frame_owned = getelementptr %frame, ptr %frame, i32 0, i32 1
  store ptr %owned, ptr %frame_owned
  %frame_shapes = getelementptr %frame, ptr %frame, i32 0, i32 2
  store ptr %shape_of, ptr %frame_shapes
  %frame_model = getelementptr %frame, ptr %frame, i32 0, i32 3
  store ptr %model, ptr %frame_model
  br label %slot

slot:
  %s = phi i64 [ 0, %fill ], [ %s_next, %fill_slot ]
  %place = phi ptr [ %dims, %fill ], [ %place_next, %fill_slot ]
  %more_slots = icmp slt i64 %s, $slots_count
  br i1 %more_slots, label %fill_slot, label %input

fill_slot:
  %data_at = getelementptr ptr, ptr %data, i64 %s
  store ptr null, ptr %data_at
  %owned_at = getelementptr ptr, ptr %owned, i64 %s
  store ptr null, ptr %owned_at
  %shape_at = getelementptr ptr, ptr %shape_of, i64 %s
  store ptr %place, ptr %shape_at
  %rank_at = getelementptr %slot, ptr @slots, i64 %s
  %rank = load i32, ptr %rank_at, align 4
  %place_next = getelementptr i64, ptr %place, i32 %rank
  %s_next = add i64 %s, 1
  br label %slot

input:
  %i = phi i64 [ 0, %slot ], [ %i_next, %placed ]
  %more_inputs = icmp slt i64 %i, $inputs_count
  br i1 %more_inputs, label %place_input, label %sizes_of_inputs

place_input:
  %input_at = getelementptr ptr, ptr %inputs, i64 %i
  %input_data = load ptr, ptr %input_at
  %input_spec = getelementptr %tensor, ptr @inputs, i64 %i
  %input_ok = call i1 @check_data(ptr %input_data, ptr %input_spec, ptr %input_dims, ptr @word_input)
  br i1 %input_ok, label %placed, label %data_missing

placed:
  %input_slot = getelementptr ptr, ptr %data, i64 %i
  store ptr %input_data, ptr %input_slot
  %i_next = add i64 %i, 1
  br label %input

sizes_of_inputs:
  ; The sizes of the inputs stand first, one after the other, as they do in `input_dims`.
  call void @llvm.memcpy.p0.p0.i64(ptr %dims, ptr %input_dims, i64 $input_dim_bytes, i1 false)
  %in_range = call i1 @check_ranges(ptr %inputs, ptr %input_dims)
  br i1 %in_range, label %steps, label %data_bad

steps:
$steps

hand_over:
  %handed = call i32 @hand_over(ptr %frame, ptr %outputs, ptr %capacities, ptr %output_shapes)
  br label %end

end:
  %outcome = phi i32 [ %handed, %hand_over ]$failures
  br label %free_slot

free_slot:
  %f = phi i32 [ 0, %end ], [ %f_next, %freed ]
  %more_to_free = icmp slt i32 %f, $slots_count
  br i1 %more_to_free, label %freed, label %done

freed:
  call void @release(ptr %frame, i32 %f)
  %f_next = add i32 %f, 1
  br label %free_slot

done:
  ret i32 %outcome

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
