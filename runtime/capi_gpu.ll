; A model on a GPU: the driver is found when a model is made, weights and code stay on the device, and a run is the launches of a table.
; Takes the place of the sections "making and ending a model" and "running" of `capi.ll`, whose tables and checks are the same.
;
; A call needs a stream, working memory and an event. A model keeps those of $calls calls; further ones that run at the same time make theirs
; and give them back. All of it is in the device's primary context, which is the caller's only while a function of this file runs.

; 0 functions of the driver, 1 context, 2 module, 3 weights, 4 device, 5 its compute capability, 6 whether there are graphs, 7 its name,
; 8 kernels, 9 calls
%gpu = type { [$functions x ptr], ptr, ptr, i64, i32, i32, i32, [256 x i8], [$kernel_slots x ptr], [$calls x %call] }
; 0 in use, 1 whether the event stands behind work of somebody else's stream, 2 whose stream the last one was, 3 stream, 4 event, 5 memory,
; 6 its bytes, 7 the launches as a graph, 8 whether there is a key, 9 the numbers and addresses of the last launches
%call = type { i32, i32, i64, ptr, ptr, i64, i64, ptr, i32, [$key_words x i64] }
; 0 kind (0 an argument of the model, 1 a place in working memory, 2 a number), 1 which
%given = type { i32, i32 }
; 0 kernel, 1 numbers of blocks by their places among the numbers, 2 threads, 3 bytes of shared memory, 4 first argument, 5 how many,
; 6 first tensor map, 7 how many: these stand in front of the arguments
%launch = type { i32, [3 x i32], [3 x i32], i32, i32, i32, i32, i32 }
; Of an array of elements of two bytes: 0 where it is, as what a launch is given, 1 the driver's number of the type, 2 axes; by their places
; among the numbers 3 the first element, 4 sizes, 5 elements between neighbours along all axes but the first; 6 the box that a copy takes
%map = type { %given, i32, i32, i32, [5 x i32], [4 x i32], [5 x i32] }
; 0 name, 1 bytes of dynamic shared memory at most
%kernel = type { ptr, i32 }

declare ptr @secure_getenv(ptr)
declare ptr @dlopen(ptr, i32)
declare ptr @dlsym(ptr, ptr)
declare ptr @dlerror()
declare ptr @malloc(i64)

$driver

; --- making and ending a model

define ptr @${name}_create(i32 %threads, ptr %error) nounwind {
  %model = call ptr @create(i32 0, ptr null, ptr %error)
  ret ptr %model
}

define ptr @${name}_create_with_weights(ptr %path, i32 %threads, ptr %error) nounwind {
  %model = call ptr @create(i32 0, ptr %path, ptr %error)
  ret ptr %model
}

define ptr @${name}_create_on(i32 %device, ptr %path, ptr %error) nounwind {
  %model = call ptr @create(i32 %device, ptr %path, ptr %error)
  ret ptr %model
}

define internal ptr @create(i32 %device, ptr %path, ptr %error) nounwind {
entry:
  call void @say(ptr %error, ptr null)
  %bytes = ptrtoint ptr getelementptr (%model, ptr null, i64 $models) to i64
  %model = call ptr @calloc(i64 1, i64 %bytes)
  %failed = icmp eq ptr %model, null
  br i1 %failed, label %out_of_memory, label %weights

weights:
  %weights_code = call i32 @open_weights(ptr %model, ptr %path)
  %weights_bad = icmp ne i32 %weights_code, 0
  br i1 %weights_bad, label %drop, label %open

open:
  %open_code = call i32 @open_all(ptr %model, i32 %device)
  %not_opened = icmp ne i32 %open_code, 0
  br i1 %not_opened, label %drop, label %done

done:
  ret ptr %model

drop:
  call void @${name}_destroy(ptr %model)
  call void @say(ptr %error, ptr @text)
  ret ptr null

out_of_memory:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 %bytes)
  call void @say(ptr %error, ptr @text)
  ret ptr null
}

define void @${name}_destroy(ptr %model) nounwind {
entry:
  %null = icmp eq ptr %model, null
  br i1 %null, label %done, label %close

close:
  call void @close_all(ptr %model)
  call void @close_weights(ptr %model)
  call void @free(ptr %model)
  br label %done

done:
  ret void
}

; There are no threads but the caller's.
define i32 @${name}_threads(ptr %model) nounwind {
  %some = icmp ne ptr %model, null
  %threads = zext i1 %some to i32
  ret i32 %threads
}

define i32 @${name}_set_threads(ptr %model, i32 %threads) nounwind {
  %now = call i32 @${name}_threads(ptr %model)
  ret i32 %now
}

$open_all

; --- opening a GPU

; What a model, or a part of one, has on the device, in its first field: 0, or an error code with the text set.
define hidden i32 @${model}_open(ptr %model, i32 %device) nounwind {
entry:
  %gpu_bytes = ptrtoint ptr getelementptr (%gpu, ptr null, i64 1) to i64
  %gpu = call ptr @calloc(i64 1, i64 %gpu_bytes)
  store ptr %gpu, ptr %model
  %no_state = icmp eq ptr %gpu, null
  br i1 %no_state, label %no_memory_left, label %open

open:
  %open_code = call i32 @open_gpu(ptr %gpu, i32 %device)
  %not_opened = icmp ne i32 %open_code, 0
  br i1 %not_opened, label %failed, label %fill

fill:
  %fill_code = call i32 @fill_gpu(ptr %gpu, ptr %model)
  ret i32 %fill_code

failed:
  ret i32 %open_code

no_memory_left:
  %told_state = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 %gpu_bytes)
  ret i32 3
}

; Finds the driver and its functions, and a device that can run the code.
define internal i32 @open_gpu(ptr %gpu, i32 %device) nounwind {
entry:
  %count_at = alloca i32, align 4
  %number_at = alloca i32, align 4
  %major_at = alloca i32, align 4
  %minor_at = alloca i32, align 4
  %context_at = getelementptr %gpu, ptr %gpu, i64 0, i32 1
  %device_name = getelementptr %gpu, ptr %gpu, i64 0, i32 7
  %graphs_at = getelementptr %gpu, ptr %gpu, i64 0, i32 6
  store i32 1, ptr %graphs_at, align 4
  %given = call ptr @secure_getenv(ptr @driver_variable)
  %usual = icmp eq ptr %given, null
  %path = select i1 %usual, ptr @driver_library, ptr %given
  ; 2 is RTLD_NOW.
  %library = call ptr @dlopen(ptr %path, i32 2)
  %absent = icmp eq ptr %library, null
  br i1 %absent, label %no_driver, label %function

function:
  %f = phi i64 [ 0, %entry ], [ %f_next, %found ]
  %more = icmp slt i64 %f, $functions
  br i1 %more, label %look, label %init

look:
  %name_at = getelementptr ptr, ptr @driver_names, i64 %f
  %name = load ptr, ptr %name_at
  %address = call ptr @dlsym(ptr %library, ptr %name)
  %function_at = getelementptr ptr, ptr %gpu, i64 %f
  store ptr %address, ptr %function_at
  %missing = icmp eq ptr %address, null
  br i1 %missing, label %lacking, label %found

lacking:
  %needed = icmp slt i64 %f, $needed_functions
  br i1 %needed, label %old_driver, label %optional

optional:
  %of_maps = icmp slt i64 %f, $graph_functions
  br i1 %of_maps, label %found, label %without_graphs

without_graphs:
  store i32 0, ptr %graphs_at, align 4
  br label %found

found:
  %f_next = add i64 %f, 1
  br label %function

init:
  %init_code = call i32 @cuInit(ptr %gpu, i32 0)
  ; CUDA_ERROR_NO_DEVICE.
  %no_devices = icmp eq i32 %init_code, 100
  br i1 %no_devices, label %no_device, label %initialised

initialised:
  %init_failed = icmp ne i32 %init_code, 0
  br i1 %init_failed, label %fail_init, label %count

count:
  %count_code = call i32 @cuDeviceGetCount(ptr %gpu, ptr %count_at)
  %count_failed = icmp ne i32 %count_code, 0
  br i1 %count_failed, label %fail_count, label %choose

choose:
  %devices = load i32, ptr %count_at, align 4
  %none = icmp slt i32 %devices, 1
  br i1 %none, label %no_device, label %within

within:
  ; As unsigned, a negative number is too large too.
  %unknown = icmp uge i32 %device, %devices
  br i1 %unknown, label %bad_device, label %get

get:
  %get_code = call i32 @cuDeviceGet(ptr %gpu, ptr %number_at, i32 %device)
  %get_failed = icmp ne i32 %get_code, 0
  br i1 %get_failed, label %fail_get, label %ask

ask:
  %number = load i32, ptr %number_at, align 4
  %device_at = getelementptr %gpu, ptr %gpu, i64 0, i32 4
  store i32 %number, ptr %device_at, align 4
  %named = call i32 @cuDeviceGetName(ptr %gpu, ptr %device_name, i32 256, i32 %number)
  %major_code = call i32 @cuDeviceGetAttribute(ptr %gpu, ptr %major_at, i32 75, i32 %number)
  %minor_code = call i32 @cuDeviceGetAttribute(ptr %gpu, ptr %minor_at, i32 76, i32 %number)
  %asked_0 = or i32 %major_code, %minor_code
  %ask_failed = icmp ne i32 %asked_0, 0
  br i1 %ask_failed, label %fail_ask, label %compare

compare:
  %major = load i32, ptr %major_at, align 4
  %minor = load i32, ptr %minor_at, align 4
  %ten = mul i32 %major, 10
  %capability = add i32 %ten, %minor
  %capability_at = getelementptr %gpu, ptr %gpu, i64 0, i32 5
  store i32 %capability, ptr %capability_at, align 4
  %older = icmp slt i32 %capability, $sm
  %other = icmp ne i32 %capability, $sm
  %unlike = and i1 %other, $only_this
  %unfit = or i1 %older, %unlike
  br i1 %unfit, label %device_unfit, label %retain

retain:
  %retain_code = call i32 @cuDevicePrimaryCtxRetain(ptr %gpu, ptr %context_at, i32 %number)
  %retain_failed = icmp ne i32 %retain_code, 0
  br i1 %retain_failed, label %fail_retain, label %done

done:
  ret i32 0

no_driver:
  %why = call ptr @dlerror()
  %silent = icmp eq ptr %why, null
  %said = select i1 %silent, ptr %path, ptr %why
  %told_driver = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_no_driver, ptr %said)
  ret i32 7

old_driver:
  %told_old = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_old_driver, ptr %name)
  ret i32 7

no_device:
  %told_none = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_no_device)
  ret i32 7

bad_device:
  %told_bad = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_bad_device, i32 %devices, i32 %device)
  ret i32 7

device_unfit:
  %told_unfit = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_unfit, ptr %device_name, i32 %major, i32 %minor)
  ret i32 7

fail_init:
  %code_init = call i32 @failed(ptr %gpu, i32 %init_code, ptr @gpu_do_start)
  ret i32 %code_init

fail_count:
  %code_count = call i32 @failed(ptr %gpu, i32 %count_code, ptr @gpu_do_find)
  ret i32 %code_count

fail_get:
  %code_get = call i32 @failed(ptr %gpu, i32 %get_code, ptr @gpu_do_find)
  ret i32 %code_get

fail_ask:
  %code_ask = call i32 @failed(ptr %gpu, i32 %asked_0, ptr @gpu_do_find)
  ret i32 %code_ask

fail_retain:
  store ptr null, ptr %context_at
  %code_retain = call i32 @failed(ptr %gpu, i32 %retain_code, ptr @gpu_do_open)
  ret i32 %code_retain
}

; Puts weights and code on the device.
define internal i32 @fill_gpu(ptr %gpu, ptr %model) nounwind {
entry:
  %context_at = getelementptr %gpu, ptr %gpu, i64 0, i32 1
  %context = load ptr, ptr %context_at
  %push_code = call i32 @cuCtxPushCurrent_v2(ptr %gpu, ptr %context)
  %not_pushed = icmp ne i32 %push_code, 0
  br i1 %not_pushed, label %fail_push, label %code

code:
  %loaded = call i32 @load_code(ptr %gpu)
  %bad_code = icmp ne i32 %loaded, 0
  br i1 %bad_code, label %end, label %weights

weights:
  %any = icmp sgt i64 $weights_bytes, 0
  br i1 %any, label %allocate, label %end

allocate:
  %place = getelementptr %gpu, ptr %gpu, i64 0, i32 3
  %allocated = call i32 @allocate_on_gpu(ptr %gpu, i64 $weights_bytes, ptr @gpu_weights_word, ptr %place)
  %no_room = icmp ne i32 %allocated, 0
  br i1 %no_room, label %end, label %copy

copy:
  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1
  %all = load ptr, ptr %weights_at
  %from = getelementptr i8, ptr %all, i64 $weights_from
  %to = load i64, ptr %place, align 8
  %copied = call i32 @cuMemcpyHtoD_v2(ptr %gpu, i64 %to, ptr %from, i64 $weights_bytes)
  ; The copy may still be on its way, and streams of calls do not wait for the default one.
  %arrived = call i32 @cuStreamSynchronize(ptr %gpu, ptr null)
  %first_fault = icmp ne i32 %copied, 0
  %copy_code = select i1 %first_fault, i32 %copied, i32 %arrived
  %copy_failed = icmp ne i32 %copy_code, 0
  br i1 %copy_failed, label %fail_copy, label %end

fail_copy:
  %code_copy = call i32 @failed(ptr %gpu, i32 %copy_code, ptr @gpu_do_upload)
  br label %end

end:
  %outcome = phi i32 [ %loaded, %code ], [ 0, %weights ], [ %allocated, %allocate ], [ 0, %copy ], [ %code_copy, %fail_copy ]
  call void @leave(ptr %gpu)
  ret i32 %outcome

fail_push:
  %code_push = call i32 @failed(ptr %gpu, i32 %push_code, ptr @gpu_do_open)
  ret i32 %code_push
}

; The code for this very kind of device where the library has it, else the text that the driver makes code of.
define internal i32 @load_code(ptr %gpu) nounwind {
entry:
  %log = alloca [320 x i8], align 8
  %options = alloca [2 x i32], align 4
  %values = alloca [2 x ptr], align 8
  %version_at = alloca i32, align 4
  %module_at = getelementptr %gpu, ptr %gpu, i64 0, i32 2
  %capability_at = getelementptr %gpu, ptr %gpu, i64 0, i32 5
  %capability = load i32, ptr %capability_at, align 4
  ; Code runs on devices of the same generation that are not older.
  %generation = sdiv i32 %capability, 10
  %same = icmp eq i32 %generation, $generation
  %newer = icmp sge i32 %capability, $code_sm
  %fits_0 = and i1 %same, %newer
  %fits = and i1 %fits_0, $has_code
  br i1 %fits, label %try_code, label %text

try_code:
  %tried = call i32 @cuModuleLoadDataEx(ptr %gpu, ptr %module_at, ptr @${model}_gpu_code, i32 0, ptr null, ptr null)
  %loaded = icmp eq i32 %tried, 0
  br i1 %loaded, label %kernel, label %code_refused

code_refused:
  store ptr null, ptr %module_at
  br label %text

text:
  store i32 0, ptr %version_at, align 4
  %version_code = call i32 @cuDriverGetVersion(ptr %gpu, ptr %version_at)
  %version = load i32, ptr %version_at, align 4
  %unasked = icmp ne i32 %version_code, 0
  %enough = icmp sge i32 %version, $cuda
  %may = or i1 %unasked, %enough
  br i1 %may, label %compile, label %old_driver

compile:
  store i8 0, ptr %log, align 1
  ; CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
  store i32 5, ptr %options, align 4
  %option_1 = getelementptr i32, ptr %options, i64 1
  store i32 6, ptr %option_1, align 4
  store ptr %log, ptr %values
  %value_1 = getelementptr ptr, ptr %values, i64 1
  store ptr inttoptr (i64 320 to ptr), ptr %value_1
  %compiled = call i32 @cuModuleLoadDataEx(ptr %gpu, ptr %module_at, ptr @${model}_gpu_text, i32 2, ptr %options, ptr %values)
  %not_compiled = icmp ne i32 %compiled, 0
  br i1 %not_compiled, label %code_bad, label %kernel

kernel:
  %k = phi i64 [ 0, %try_code ], [ 0, %compile ], [ %k_next, %ready ]
  %more = icmp slt i64 %k, $kernels_count
  br i1 %more, label %find, label %done

find:
  %module = load ptr, ptr %module_at
  %spec = getelementptr %kernel, ptr @gpu_kernels, i64 %k
  %name = load ptr, ptr %spec
  %place = getelementptr %gpu, ptr %gpu, i64 0, i32 8, i64 %k
  %found = call i32 @cuModuleGetFunction(ptr %gpu, ptr %place, ptr %module, ptr %name)
  %not_found = icmp ne i32 %found, 0
  br i1 %not_found, label %kernel_bad, label %shared

shared:
  %shared_at = getelementptr %kernel, ptr %spec, i64 0, i32 1
  %bytes = load i32, ptr %shared_at, align 4
  %much = icmp sgt i32 %bytes, 0
  br i1 %much, label %allow, label %ready

allow:
  ; CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
  %function = load ptr, ptr %place
  %allowed = call i32 @cuFuncSetAttribute(ptr %gpu, ptr %function, i32 8, i32 %bytes)
  %not_allowed = icmp ne i32 %allowed, 0
  br i1 %not_allowed, label %shared_bad, label %ready

ready:
  %k_next = add i64 %k, 1
  br label %kernel

done:
  ret i32 0

old_driver:
  %thousands = sdiv i32 %version, 1000
  %rest = srem i32 %version, 1000
  %tens = sdiv i32 %rest, 10
  %told_old = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_old_text, i32 %thousands, i32 %tens)
  ret i32 7

code_bad:
  store ptr null, ptr %module_at
  %code_failed = call i32 @failed_with(ptr %gpu, i32 %compiled, ptr @gpu_do_load, ptr %log)
  ret i32 %code_failed

kernel_bad:
  %kernel_failed = call i32 @failed_with(ptr %gpu, i32 %found, ptr @gpu_do_load, ptr %name)
  ret i32 %kernel_failed

shared_bad:
  ; CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN.
  %device_at = getelementptr %gpu, ptr %gpu, i64 0, i32 4
  %device = load i32, ptr %device_at, align 4
  store i32 0, ptr %version_at, align 4
  %asked = call i32 @cuDeviceGetAttribute(ptr %gpu, ptr %version_at, i32 97, i32 %device)
  %most = load i32, ptr %version_at, align 4
  %too_much = icmp sgt i32 %bytes, %most
  br i1 %too_much, label %shared_small, label %shared_failed

shared_small:
  %device_name = getelementptr %gpu, ptr %gpu, i64 0, i32 7
  %told_shared = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_small_shared, i32 %bytes, ptr %device_name, i32 %most)
  ret i32 7

shared_failed:
  %shared_code = call i32 @failed_with(ptr %gpu, i32 %allowed, ptr @gpu_do_load, ptr %name)
  ret i32 %shared_code
}

; Gives the thread back the context that it had.
define internal void @leave(ptr %gpu) nounwind {
  %old = alloca ptr, align 8
  %popped = call i32 @cuCtxPopCurrent_v2(ptr %gpu, ptr %old)
  ret void
}

define hidden void @${model}_close(ptr %model) nounwind {
entry:
  %gpu = load ptr, ptr %model
  %no_state = icmp eq ptr %gpu, null
  br i1 %no_state, label %done, label %enter

enter:
  %context_at = getelementptr %gpu, ptr %gpu, i64 0, i32 1
  %context = load ptr, ptr %context_at
  %no_context = icmp eq ptr %context, null
  br i1 %no_context, label %free_state, label %end

end:
  %pushed = call i32 @cuCtxPushCurrent_v2(ptr %gpu, ptr %context)
  %not_pushed = icmp ne i32 %pushed, 0
  br i1 %not_pushed, label %release, label %call

call:
  %c = phi i64 [ 0, %end ], [ %c_next, %close ]
  %more = icmp slt i64 %c, $calls
  br i1 %more, label %close, label %memory

close:
  %this_call = getelementptr %gpu, ptr %gpu, i64 0, i32 9, i64 %c
  call void @close_call(ptr %gpu, ptr %this_call)
  %c_next = add i64 %c, 1
  br label %call

memory:
  %memory_at = getelementptr %gpu, ptr %gpu, i64 0, i32 3
  %its_memory = load i64, ptr %memory_at, align 8
  %no_memory_here = icmp eq i64 %its_memory, 0
  br i1 %no_memory_here, label %code, label %free_memory

free_memory:
  %freed = call i32 @cuMemFree_v2(ptr %gpu, i64 %its_memory)
  br label %code

code:
  %module_at = getelementptr %gpu, ptr %gpu, i64 0, i32 2
  %module = load ptr, ptr %module_at
  %no_module = icmp eq ptr %module, null
  br i1 %no_module, label %pop, label %unload

unload:
  %unloaded = call i32 @cuModuleUnload(ptr %gpu, ptr %module)
  br label %pop

pop:
  call void @leave(ptr %gpu)
  br label %release

release:
  %device_at = getelementptr %gpu, ptr %gpu, i64 0, i32 4
  %device = load i32, ptr %device_at, align 4
  %released = call i32 @cuDevicePrimaryCtxRelease_v2(ptr %gpu, i32 %device)
  br label %free_state

free_state:
  store ptr null, ptr %model
  call void @free(ptr %gpu)
  br label %done

done:
  ret void
}

; What a call has on the device is given back. Nothing of it runs any more, or its event tells when.
define internal void @close_call(ptr %gpu, ptr %call) nounwind {
entry:
  call void @settle(ptr %gpu, ptr %call)
  call void @drop_graph(ptr %gpu, ptr %call)
  call void @drop_memory(ptr %gpu, ptr %call)
  %event_at = getelementptr %call, ptr %call, i64 0, i32 4
  %event = load ptr, ptr %event_at
  %no_event = icmp eq ptr %event, null
  br i1 %no_event, label %stream, label %end_event

end_event:
  %event_ended = call i32 @cuEventDestroy_v2(ptr %gpu, ptr %event)
  br label %stream

stream:
  %stream_at = getelementptr %call, ptr %call, i64 0, i32 3
  %its_stream = load ptr, ptr %stream_at
  %no_stream = icmp eq ptr %its_stream, null
  br i1 %no_stream, label %done, label %end_stream

end_stream:
  %stream_ended = call i32 @cuStreamDestroy_v2(ptr %gpu, ptr %its_stream)
  br label %done

done:
  ret void
}

; Waits until what somebody else's stream does with a call's memory is done.
define internal void @settle(ptr %gpu, ptr %call) nounwind {
entry:
  %pending_at = getelementptr %call, ptr %call, i64 0, i32 1
  %pending = load i32, ptr %pending_at, align 4
  %idle = icmp eq i32 %pending, 0
  br i1 %idle, label %done, label %wait

wait:
  %event_at = getelementptr %call, ptr %call, i64 0, i32 4
  %event = load ptr, ptr %event_at
  %waited = call i32 @cuEventSynchronize(ptr %gpu, ptr %event)
  store i32 0, ptr %pending_at, align 4
  br label %done

done:
  ret void
}

define internal void @drop_graph(ptr %gpu, ptr %call) nounwind {
entry:
  %known_at = getelementptr %call, ptr %call, i64 0, i32 8
  store i32 0, ptr %known_at, align 4
  %graph_at = getelementptr %call, ptr %call, i64 0, i32 7
  %graph = load ptr, ptr %graph_at
  %none = icmp eq ptr %graph, null
  br i1 %none, label %done, label %drop

drop:
  store ptr null, ptr %graph_at
  %dropped = call i32 @cuGraphExecDestroy(ptr %gpu, ptr %graph)
  br label %done

done:
  ret void
}

define internal void @drop_memory(ptr %gpu, ptr %call) nounwind {
entry:
  %memory_at = getelementptr %call, ptr %call, i64 0, i32 5
  %memory = load i64, ptr %memory_at, align 8
  %none = icmp eq i64 %memory, 0
  br i1 %none, label %done, label %drop

drop:
  %bytes_at = getelementptr %call, ptr %call, i64 0, i32 6
  store i64 0, ptr %memory_at, align 8
  store i64 0, ptr %bytes_at, align 8
  %dropped = call i32 @cuMemFree_v2(ptr %gpu, i64 %memory)
  br label %done

done:
  ret void
}

; --- running

define i32 @${name}_run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs) nounwind {
  %code = call i32 @run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, i1 false, ptr null)
  ret i32 %code
}

define i32 @${name}_run_on_device(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, ptr %stream) nounwind {
  %code = call i32 @run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, i1 true, ptr %stream)
  ret i32 %code
}

define internal i32 @run(ptr %model, ptr %inputs, ptr %shapes, ptr %outputs, i1 %there, ptr %stream) nounwind {
entry:
  %sizes = alloca [$size_slots x i64], align 8
  %input_dims = alloca [$input_dim_slots x i64], align 8
  %output_dims = alloca [$output_dim_slots x i64], align 8
  ; What a launch is given of the model's arguments: addresses, and before there is memory, places in it; and how many bytes each has.
  %buffers = alloca [$argument_slots x i64], align 8
  %lengths = alloca [$argument_slots x i64], align 8
  %numbers = alloca [$number_slots x i64], align 8
  %own_call = alloca %call, align 8
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
  br i1 %bound, label %plan, label %bad_shapes

plan:
  %counted = call i1 @plan_numbers(ptr %sizes, ptr %numbers)
  br i1 %counted, label %arena, label %arena_lost

arena:
  ; Where each piece of the working memory ends: these numbers stand first.
  %e = phi i64 [ 0, %plan ], [ %e_next, %measured ]
  %need = phi i64 [ 0, %plan ], [ %need_now, %measured ]
  %more_ends = icmp slt i64 %e, $ends_count
  br i1 %more_ends, label %measure, label %round

measure:
  %end_at = getelementptr i64, ptr %numbers, i64 %e
  %piece_end = load i64, ptr %end_at, align 8
  ; As unsigned, a negative number is too large too.
  %end_bad = icmp ugt i64 %piece_end, 281474976710656
  br i1 %end_bad, label %arena_impossible, label %measured

measured:
  %further = icmp sgt i64 %piece_end, %need
  %need_now = select i1 %further, i64 %piece_end, i64 %need
  %e_next = add i64 %e, 1
  br label %arena

round:
  %need_more = add i64 %need, 255
  %arena_room = and i64 %need_more, -256
  %gpu = load ptr, ptr %model
  %weights_at = getelementptr %gpu, ptr %gpu, i64 0, i32 3
  %weights = load i64, ptr %weights_at, align 8
  br label %argument

argument:
  %i = phi i64 [ 0, %round ], [ %i_next, %placed ]
  %total = phi i64 [ %arena_room, %round ], [ %total_next, %placed ]
  %more = icmp slt i64 %i, $arguments
  br i1 %more, label %place, label %check

place:
  %kind_at = getelementptr %argument, ptr @arguments, i64 %i, i32 0
  %kind = load i32, ptr %kind_at, align 4
  %n_at = getelementptr %argument, ptr @arguments, i64 %i, i32 1
  %n_32 = load i32, ptr %n_at, align 4
  %n = sext i32 %n_32 to i64
  switch i32 %kind, label %output [ i32 0, label %input
                                    i32 1, label %constant
                                    i32 3, label %look ]

look:
  br label %in_memory

constant:
  %offset_at = getelementptr i64, ptr @constants, i64 %n
  %offset = load i64, ptr %offset_at, align 8
  %constant_address = add i64 %weights, %offset
  br label %placed

input:
  %input_at = getelementptr ptr, ptr %inputs, i64 %n
  %input_data = load ptr, ptr %input_at
  %input_spec = getelementptr %tensor, ptr @inputs, i64 %n
  %input_item_at = getelementptr i64, ptr @gpu_input_items, i64 %n
  %input_item = load i64, ptr %input_item_at, align 8
  %input_bytes = call i64 @bytes_of(ptr %input_spec, ptr %input_dims, i64 %input_item)
  %input_ok = call i1 @check_data(ptr %input_data, ptr %input_spec, ptr %input_dims, ptr @word_input)
  br i1 %input_ok, label %input_place, label %data_missing

input_place:
  br i1 %there, label %given, label %in_memory

output:
  %output_at = getelementptr ptr, ptr %outputs, i64 %n
  %output_data = load ptr, ptr %output_at
  %output_spec = getelementptr %tensor, ptr @outputs, i64 %n
  %output_item_at = getelementptr i64, ptr @gpu_output_items, i64 %n
  %output_item = load i64, ptr %output_item_at, align 8
  %output_bytes = call i64 @bytes_of(ptr %output_spec, ptr %output_dims, i64 %output_item)
  %output_ok = call i1 @check_data(ptr %output_data, ptr %output_spec, ptr %output_dims, ptr @word_output)
  br i1 %output_ok, label %output_place, label %data_missing

output_place:
  br i1 %there, label %given, label %in_memory

given:
  %given_data = phi ptr [ %input_data, %input_place ], [ %output_data, %output_place ]
  %given_spec = phi ptr [ %input_spec, %input_place ], [ %output_spec, %output_place ]
  %given_word = phi ptr [ @word_input, %input_place ], [ @word_output, %output_place ]
  %given_bytes = phi i64 [ %input_bytes, %input_place ], [ %output_bytes, %output_place ]
  %given_address = ptrtoint ptr %given_data to i64
  ; Kernels read and write 16 bytes at a time.
  %beside = and i64 %given_address, 15
  %misplaced = icmp ne i64 %beside, 0
  br i1 %misplaced, label %data_misplaced, label %placed

in_memory:
  %bytes = phi i64 [ $look_bytes, %look ], [ %input_bytes, %input_place ], [ %output_bytes, %output_place ]
  %more_bytes = add i64 %bytes, 255
  %rounded = and i64 %more_bytes, -256
  %total_more = add i64 %total, %rounded
  %bytes_bad = icmp ugt i64 %bytes, 281474976710656
  %total_bad = icmp ugt i64 %total_more, 281474976710656
  %too_much = or i1 %bytes_bad, %total_bad
  br i1 %too_much, label %memory_impossible, label %placed

placed:
  %address = phi i64 [ %constant_address, %constant ], [ %given_address, %given ], [ %total, %in_memory ]
  %length = phi i64 [ 0, %constant ], [ %given_bytes, %given ], [ %bytes, %in_memory ]
  %total_next = phi i64 [ %total, %constant ], [ %total, %given ], [ %total_more, %in_memory ]
  %buffer_at = getelementptr i64, ptr %buffers, i64 %i
  store i64 %address, ptr %buffer_at, align 8
  %length_at = getelementptr i64, ptr %lengths, i64 %i
  store i64 %length, ptr %length_at, align 8
  %i_next = add i64 %i, 1
  br label %argument

check:
  br i1 %there, label %enter, label %ranges

ranges:
  %in_range = call i1 @check_ranges(ptr %inputs, ptr %input_dims)
  br i1 %in_range, label %enter, label %data_bad

enter:
  %context_at = getelementptr %gpu, ptr %gpu, i64 0, i32 1
  %context = load ptr, ptr %context_at
  %pushed = call i32 @cuCtxPushCurrent_v2(ptr %gpu, ptr %context)
  %not_pushed = icmp ne i32 %pushed, 0
  br i1 %not_pushed, label %fail_push, label %claim

claim:
  ; Whose work it is: 1 for streams of our own, else the stream, none of which is 0 then.
  %stream_number = ptrtoint ptr %stream to i64
  %stream_owner = add i64 %stream_number, 2
  %owner = select i1 %there, i64 %stream_owner, i64 1
  %kept = call ptr @claim(ptr %gpu, i64 %owner)
  %all_in_use = icmp eq ptr %kept, null
  br i1 %all_in_use, label %make, label %go

make:
  %call_bytes = ptrtoint ptr getelementptr (%call, ptr null, i64 1) to i64
  call void @llvm.memset.p0.i64(ptr %own_call, i8 0, i64 %call_bytes, i1 false)
  br label %go

go:
  %call = phi ptr [ %kept, %claim ], [ %own_call, %make ]
  %outcome = call i32 @run_call(ptr %gpu, ptr %call, ptr %inputs, ptr %outputs, ptr %input_dims, ptr %buffers, ptr %lengths, ptr %numbers, i64 %total, i1 %there, ptr %stream)
  br i1 %all_in_use, label %close, label %unclaim

close:
  call void @close_call(ptr %gpu, ptr %call)
  br label %end

unclaim:
  %used_at = getelementptr %call, ptr %call, i64 0, i32 0
  store atomic i32 0, ptr %used_at release, align 4
  br label %end

end:
  call void @leave(ptr %gpu)
  ret i32 %outcome

arena_lost:
  %told_sizes = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_sizes)
  ret i32 2

arena_impossible:
  br label %impossible

memory_impossible:
  br label %impossible

impossible:
  %much = phi i64 [ %piece_end, %arena_impossible ], [ %total_more, %memory_impossible ]
  %told_arena = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @bad_arena, i64 %much)
  ret i32 3

model_missing:
  %told_model = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_model)
  ret i32 1

pointers_missing:
  %told_pointers = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_inputs)
  ret i32 1

data_missing:
  ret i32 1

data_misplaced:
  %misplaced_name = load ptr, ptr %given_spec
  %told_place = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_misplaced, ptr %given_word, ptr %misplaced_name)
  ret i32 1

data_bad:
  ret i32 5

bad_shapes:
  ret i32 %code

fail_push:
  %code_push = call i32 @failed(ptr %gpu, i32 %pushed, ptr @gpu_do_open)
  ret i32 %code_push
}

; How many bytes an array has; more than any memory where they cannot be counted.
define internal i64 @bytes_of(ptr %spec, ptr %dims, i64 %item) nounwind {
  %rank_at = getelementptr %tensor, ptr %spec, i64 0, i32 2
  %rank = load i32, ptr %rank_at, align 4
  %first_at = getelementptr %tensor, ptr %spec, i64 0, i32 3
  %first = load i32, ptr %first_at, align 4
  %sizes = getelementptr i64, ptr %dims, i32 %first
  %elements = call i64 @count(ptr %sizes, i32 %rank)
  %bytes = mul i64 %elements, %item
  ret i64 %bytes
}

; What a call may work with, of which nobody else has it until it is given back: one that worked for the same stream, else a new one, else any
; that is idle; null where there is none.
define internal ptr @claim(ptr %gpu, i64 %owner) nounwind {
entry:
  br label %round

round:
  %r = phi i32 [ 0, %entry ], [ %r_next, %round_done ]
  %more_rounds = icmp slt i32 %r, 3
  br i1 %more_rounds, label %next, label %none

next:
  %c = phi i64 [ 0, %round ], [ %c_next, %refused ]
  %more = icmp slt i64 %c, $calls
  br i1 %more, label %look, label %round_done

look:
  %call = getelementptr %gpu, ptr %gpu, i64 0, i32 9, i64 %c
  %owner_at = getelementptr %call, ptr %call, i64 0, i32 2
  %last = load atomic i64, ptr %owner_at monotonic, align 8
  %same = icmp eq i64 %last, %owner
  %fresh = icmp eq i64 %last, 0
  %any = icmp eq i32 %r, 2
  %second = icmp eq i32 %r, 1
  %new = and i1 %fresh, %second
  %wanted_0 = or i1 %same, %new
  %wanted = or i1 %wanted_0, %any
  br i1 %wanted, label %try, label %refused

try:
  %attempt = cmpxchg ptr %call, i32 0, i32 1 acquire monotonic, align 4
  %claimed = extractvalue { i32, i1 } %attempt, 1
  br i1 %claimed, label %own, label %refused

own:
  store atomic i64 %owner, ptr %owner_at monotonic, align 8
  ret ptr %call

refused:
  %c_next = add i64 %c, 1
  br label %next

round_done:
  %r_next = add i32 %r, 1
  br label %round

none:
  ret ptr null
}

define internal i32 @run_call(ptr %gpu, ptr %call, ptr %inputs, ptr %outputs, ptr %input_dims, ptr %buffers, ptr %lengths, ptr %numbers, i64 %total, i1 %there, ptr %given_stream) nounwind {
entry:
  %looks = alloca [$look_slots x i64], align 8
  %provided = call i32 @provide(ptr %gpu, ptr %call, i64 %total)
  %lacking = icmp ne i32 %provided, 0
  br i1 %lacking, label %not_provided, label %begin

begin:
  %stream_at = getelementptr %call, ptr %call, i64 0, i32 3
  %own_stream = load ptr, ptr %stream_at
  %stream = select i1 %there, ptr %given_stream, ptr %own_stream
  %memory_at = getelementptr %call, ptr %call, i64 0, i32 5
  %memory = load i64, ptr %memory_at, align 8
  %event_at = getelementptr %call, ptr %call, i64 0, i32 4
  %event = load ptr, ptr %event_at
  %pending_at = getelementptr %call, ptr %call, i64 0, i32 1
  %pending = load i32, ptr %pending_at, align 4
  %behind = icmp ne i32 %pending, 0
  br i1 %behind, label %wait, label %argument

wait:
  %waits = call i32 @cuStreamWaitEvent(ptr %gpu, ptr %stream, ptr %event, i32 0)
  %not_waiting = icmp ne i32 %waits, 0
  br i1 %not_waiting, label %fail_wait, label %argument

argument:
  %i = phi i64 [ 0, %begin ], [ 0, %wait ], [ %i_next, %ready ]
  %more = icmp slt i64 %i, $arguments
  br i1 %more, label %place, label %ids

place:
  %kind_at = getelementptr %argument, ptr @arguments, i64 %i, i32 0
  %kind = load i32, ptr %kind_at, align 4
  %n_at = getelementptr %argument, ptr @arguments, i64 %i, i32 1
  %n_32 = load i32, ptr %n_at, align 4
  %n = sext i32 %n_32 to i64
  %buffer_at = getelementptr i64, ptr %buffers, i64 %i
  %relative = load i64, ptr %buffer_at, align 8
  %absolute = add i64 %memory, %relative
  %length_at = getelementptr i64, ptr %lengths, i64 %i
  %length = load i64, ptr %length_at, align 8
  switch i32 %kind, label %array [ i32 1, label %ready
                                   i32 3, label %move ]

array:
  br i1 %there, label %ready, label %own_array

own_array:
  store i64 %absolute, ptr %buffer_at, align 8
  %is_input = icmp eq i32 %kind, 0
  %some = icmp ne i64 %length, 0
  %copies = and i1 %is_input, %some
  br i1 %copies, label %upload, label %ready

upload:
  %input_at = getelementptr ptr, ptr %inputs, i64 %n
  %input = load ptr, ptr %input_at
  %uploaded = call i32 @cuMemcpyHtoDAsync_v2(ptr %gpu, i64 %absolute, ptr %input, i64 %length, ptr %stream)
  %not_uploaded = icmp ne i32 %uploaded, 0
  br i1 %not_uploaded, label %fail_upload, label %ready

move:
  store i64 %absolute, ptr %buffer_at, align 8
  br label %ready

ready:
  %i_next = add i64 %i, 1
  br label %argument

ids:
  %any_ranges = icmp sgt i64 $ranges_count, 0
  %looks_at_ids = and i1 %any_ranges, %there
  br i1 %looks_at_ids, label %check_ids, label %launch

check_ids:
  %ids_code = call i32 @check_ranges_there(ptr %gpu, ptr %buffers, ptr %lengths, ptr %input_dims, ptr %stream)
  %ids_bad = icmp ne i32 %ids_code, 0
  br i1 %ids_bad, label %end, label %launch

launch:
  %launched = call i32 @start(ptr %gpu, ptr %call, ptr %numbers, ptr %buffers, i64 %memory, ptr %stream)
  %not_launched = icmp ne i32 %launched, 0
  br i1 %not_launched, label %end, label %look

look:
  %any_looks = icmp sgt i64 $looks_count, 0
  br i1 %any_looks, label %find_looks, label %results

find_looks:
  %l = phi i64 [ 0, %look ], [ %l_next, %find_looks ]
  %look_kind_at = getelementptr %argument, ptr @arguments, i64 %l, i32 0
  %look_kind = load i32, ptr %look_kind_at, align 4
  %is_look = icmp eq i32 %look_kind, 3
  %l_next = add i64 %l, 1
  br i1 %is_look, label %read_looks, label %find_looks

read_looks:
  %looks_at = getelementptr i64, ptr %buffers, i64 %l
  %looks_place = load i64, ptr %looks_at, align 8
  %read = call i32 @cuMemcpyDtoHAsync_v2(ptr %gpu, ptr %looks, i64 %looks_place, i64 $look_bytes, ptr %stream)
  %not_read = icmp ne i32 %read, 0
  br i1 %not_read, label %fail_download, label %wait_looks

wait_looks:
  %looks_waited = call i32 @cuStreamSynchronize(ptr %gpu, ptr %stream)
  %looks_failed = icmp ne i32 %looks_waited, 0
  br i1 %looks_failed, label %fail_run, label %check_looks

check_looks:
  %looks_code = call i32 @check_looks(ptr %looks)
  %looks_bad = icmp ne i32 %looks_code, 0
  br i1 %looks_bad, label %end, label %results

results:
  br i1 %there, label %mark, label %result

mark:
  ; Whoever works with this memory next waits for what was started here.
  %marked = call i32 @cuEventRecord(ptr %gpu, ptr %event, ptr %stream)
  %not_marked = icmp ne i32 %marked, 0
  br i1 %not_marked, label %fail_mark, label %marked_done

marked_done:
  store i32 1, ptr %pending_at, align 4
  ret i32 0

result:
  %o = phi i64 [ 0, %results ], [ %o_next, %result_done ]
  %more_results = icmp slt i64 %o, $arguments
  br i1 %more_results, label %result_kind, label %finish

result_kind:
  %out_kind_at = getelementptr %argument, ptr @arguments, i64 %o, i32 0
  %out_kind = load i32, ptr %out_kind_at, align 4
  %out_length_at = getelementptr i64, ptr %lengths, i64 %o
  %out_length = load i64, ptr %out_length_at, align 8
  %is_output = icmp eq i32 %out_kind, 2
  %has_elements = icmp ne i64 %out_length, 0
  %downloads = and i1 %is_output, %has_elements
  br i1 %downloads, label %download, label %result_done

download:
  %out_n_at = getelementptr %argument, ptr @arguments, i64 %o, i32 1
  %out_n_32 = load i32, ptr %out_n_at, align 4
  %out_n = sext i32 %out_n_32 to i64
  %out_at = getelementptr ptr, ptr %outputs, i64 %out_n
  %out = load ptr, ptr %out_at
  %out_buffer_at = getelementptr i64, ptr %buffers, i64 %o
  %out_buffer = load i64, ptr %out_buffer_at, align 8
  %downloaded = call i32 @cuMemcpyDtoHAsync_v2(ptr %gpu, ptr %out, i64 %out_buffer, i64 %out_length, ptr %stream)
  %not_downloaded = icmp ne i32 %downloaded, 0
  br i1 %not_downloaded, label %fail_download, label %result_done

result_done:
  %o_next = add i64 %o, 1
  br label %result

finish:
  %finished = call i32 @cuStreamSynchronize(ptr %gpu, ptr %stream)
  %not_finished = icmp ne i32 %finished, 0
  br i1 %not_finished, label %fail_run, label %fine

fine:
  ret i32 0

not_provided:
  ret i32 %provided

fail_wait:
  %code_wait = call i32 @failed(ptr %gpu, i32 %waits, ptr @gpu_do_run)
  br label %end

fail_upload:
  %code_upload = call i32 @failed(ptr %gpu, i32 %uploaded, ptr @gpu_do_upload)
  br label %end

fail_download:
  %download_code = phi i32 [ %read, %read_looks ], [ %downloaded, %download ]
  %code_download = call i32 @failed(ptr %gpu, i32 %download_code, ptr @gpu_do_download)
  br label %end

fail_mark:
  %code_mark = call i32 @failed(ptr %gpu, i32 %marked, ptr @gpu_do_run)
  br label %end

fail_run:
  %run_code = phi i32 [ %looks_waited, %wait_looks ], [ %finished, %finish ]
  %code_run = call i32 @failed(ptr %gpu, i32 %run_code, ptr @gpu_do_run)
  br label %end

end:
  %outcome = phi i32 [ %ids_code, %check_ids ], [ %launched, %launch ], [ %looks_code, %check_looks ], [ %code_wait, %fail_wait ], [ %code_upload, %fail_upload ], [ %code_download, %fail_download ], [ %code_mark, %fail_mark ], [ %code_run, %fail_run ]
  ; What was started still works with memory of the caller and of this call.
  %settled = call i32 @cuStreamSynchronize(ptr %gpu, ptr %stream)
  ret i32 %outcome
}

; A stream, an event, and so many bytes for a call.
define internal i32 @provide(ptr %gpu, ptr %call, i64 %bytes) nounwind {
entry:
  %stream_at = getelementptr %call, ptr %call, i64 0, i32 3
  %stream = load ptr, ptr %stream_at
  %no_stream = icmp eq ptr %stream, null
  br i1 %no_stream, label %make_stream, label %event

make_stream:
  ; CU_STREAM_NON_BLOCKING.
  %stream_code = call i32 @cuStreamCreate(ptr %gpu, ptr %stream_at, i32 1)
  %stream_failed = icmp ne i32 %stream_code, 0
  br i1 %stream_failed, label %stream_bad, label %event

event:
  %event_at = getelementptr %call, ptr %call, i64 0, i32 4
  %its_event = load ptr, ptr %event_at
  %no_event = icmp eq ptr %its_event, null
  br i1 %no_event, label %make_event, label %memory

make_event:
  ; CU_EVENT_DISABLE_TIMING.
  %event_code = call i32 @cuEventCreate(ptr %gpu, ptr %event_at, i32 2)
  %event_failed = icmp ne i32 %event_code, 0
  br i1 %event_failed, label %event_bad, label %memory

memory:
  %bytes_at = getelementptr %call, ptr %call, i64 0, i32 6
  %now = load i64, ptr %bytes_at, align 8
  %enough = icmp sge i64 %now, %bytes
  br i1 %enough, label %done, label %grow

grow:
  call void @settle(ptr %gpu, ptr %call)
  call void @drop_graph(ptr %gpu, ptr %call)
  call void @drop_memory(ptr %gpu, ptr %call)
  %memory_at = getelementptr %call, ptr %call, i64 0, i32 5
  %code = call i32 @allocate_on_gpu(ptr %gpu, i64 %bytes, ptr @gpu_memory_word, ptr %memory_at)
  %no_room = icmp ne i32 %code, 0
  br i1 %no_room, label %failed, label %keep

keep:
  store i64 %bytes, ptr %bytes_at, align 8
  br label %done

done:
  ret i32 0

failed:
  ret i32 %code

stream_bad:
  store ptr null, ptr %stream_at
  %stream_told = call i32 @failed(ptr %gpu, i32 %stream_code, ptr @gpu_do_open)
  ret i32 %stream_told

event_bad:
  store ptr null, ptr %event_at
  %event_told = call i32 @failed(ptr %gpu, i32 %event_code, ptr @gpu_do_open)
  ret i32 %event_told
}

; Whether inputs that lie on the device hold what they may: a copy of them is looked at.
define internal i32 @check_ranges_there(ptr %gpu, ptr %buffers, ptr %lengths, ptr %dims, ptr %stream) nounwind {
entry:
  %copies = alloca [$input_slots x ptr], align 8
  %copies_bytes = ptrtoint ptr getelementptr (ptr, ptr null, i64 $input_slots) to i64
  call void @llvm.memset.p0.i64(ptr %copies, i8 0, i64 %copies_bytes, i1 false)
  br label %argument

argument:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  %more = icmp slt i64 %i, $arguments
  br i1 %more, label %look, label %wait

look:
  %kind_at = getelementptr %argument, ptr @arguments, i64 %i, i32 0
  %kind = load i32, ptr %kind_at, align 4
  %n_at = getelementptr %argument, ptr @arguments, i64 %i, i32 1
  %n_32 = load i32, ptr %n_at, align 4
  %n = sext i32 %n_32 to i64
  %is_input = icmp eq i32 %kind, 0
  br i1 %is_input, label %input, label %next

input:
  %ranged_at = getelementptr i8, ptr @gpu_ranged, i64 %n
  %ranged = load i8, ptr %ranged_at, align 1
  %plain = icmp eq i8 %ranged, 0
  br i1 %plain, label %next, label %copy

copy:
  %length_at = getelementptr i64, ptr %lengths, i64 %i
  %length = load i64, ptr %length_at, align 8
  %room = add i64 %length, 1
  %memory = call ptr @malloc(i64 %room)
  %copy_at = getelementptr ptr, ptr %copies, i64 %n
  store ptr %memory, ptr %copy_at
  %no_room = icmp eq ptr %memory, null
  br i1 %no_room, label %memory_missing, label %some

some:
  %empty = icmp eq i64 %length, 0
  br i1 %empty, label %next, label %download

download:
  %buffer_at = getelementptr i64, ptr %buffers, i64 %i
  %buffer = load i64, ptr %buffer_at, align 8
  %downloaded = call i32 @cuMemcpyDtoHAsync_v2(ptr %gpu, ptr %memory, i64 %buffer, i64 %length, ptr %stream)
  %failed = icmp ne i32 %downloaded, 0
  br i1 %failed, label %fail_download, label %next

next:
  %i_next = add i64 %i, 1
  br label %argument

wait:
  %waited = call i32 @cuStreamSynchronize(ptr %gpu, ptr %stream)
  %not_waited = icmp ne i32 %waited, 0
  br i1 %not_waited, label %fail_wait, label %check

check:
  %in_range = call i1 @check_ranges(ptr %copies, ptr %dims)
  %checked = select i1 %in_range, i32 0, i32 5
  br label %end

memory_missing:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @no_memory, i64 %room)
  br label %stop

fail_download:
  %code_download = call i32 @failed(ptr %gpu, i32 %downloaded, ptr @gpu_do_download)
  br label %stop

stop:
  %stopped = phi i32 [ 3, %memory_missing ], [ %code_download, %fail_download ]
  %settled = call i32 @cuStreamSynchronize(ptr %gpu, ptr %stream)
  br label %end

fail_wait:
  %code_wait = call i32 @failed(ptr %gpu, i32 %waited, ptr @gpu_do_run)
  br label %end

end:
  %outcome = phi i32 [ %checked, %check ], [ %stopped, %stop ], [ %code_wait, %fail_wait ]
  br label %free

free:
  %f = phi i64 [ 0, %end ], [ %f_next, %freed ]
  %more_copies = icmp slt i64 %f, $input_slots
  br i1 %more_copies, label %freed, label %done

freed:
  %free_at = getelementptr ptr, ptr %copies, i64 %f
  %one_copy = load ptr, ptr %free_at
  call void @free(ptr %one_copy)
  %f_next = add i64 %f, 1
  br label %free

done:
  ret i32 %outcome
}

; Starts the launches: as a graph where numbers and addresses are those of the last time.
define internal i32 @start(ptr %gpu, ptr %call, ptr %numbers, ptr %buffers, i64 %memory, ptr %stream) nounwind {
entry:
  %recorded_at = alloca ptr, align 8
  %made_at = alloca ptr, align 8
  %graphs_at = getelementptr %gpu, ptr %gpu, i64 0, i32 6
  %known_at = getelementptr %call, ptr %call, i64 0, i32 8
  %graph_at = getelementptr %call, ptr %call, i64 0, i32 7
  %key = getelementptr %call, ptr %call, i64 0, i32 9
  %key_buffers = getelementptr i64, ptr %key, i64 $numbers_count
  %key_memory = getelementptr i64, ptr %key_buffers, i64 $arguments
  %graphs = load atomic i32, ptr %graphs_at monotonic, align 4
  %no_graphs = icmp eq i32 %graphs, 0
  %few = icmp slt i64 $launches_count, $fewest_launches
  %plainly = or i1 %no_graphs, %few
  br i1 %plainly, label %plain, label %known

known:
  %was_known = load i32, ptr %known_at, align 4
  %unknown = icmp eq i32 %was_known, 0
  br i1 %unknown, label %remember, label %compare

compare:
  %numbers_differ = call i32 @memcmp(ptr %key, ptr %numbers, i64 $numbers_bytes)
  %buffers_differ = call i32 @memcmp(ptr %key_buffers, ptr %buffers, i64 $arguments_bytes)
  %last_memory = load i64, ptr %key_memory, align 8
  %differ = or i32 %numbers_differ, %buffers_differ
  %others = icmp ne i32 %differ, 0
  %moved = icmp ne i64 %last_memory, %memory
  %changed = or i1 %others, %moved
  br i1 %changed, label %remember, label %again

remember:
  call void @drop_graph(ptr %gpu, ptr %call)
  call void @llvm.memcpy.p0.p0.i64(ptr %key, ptr %numbers, i64 $numbers_bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %key_buffers, ptr %buffers, i64 $arguments_bytes, i1 false)
  store i64 %memory, ptr %key_memory, align 8
  store i32 1, ptr %known_at, align 4
  br label %plain

again:
  %graph = load ptr, ptr %graph_at
  %unmade = icmp eq ptr %graph, null
  br i1 %unmade, label %record, label %replay

record:
  store ptr null, ptr %recorded_at
  store ptr null, ptr %made_at
  %own_at = getelementptr %call, ptr %call, i64 0, i32 3
  %own = load ptr, ptr %own_at
  ; CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may do what they like meanwhile.
  %begun = call i32 @cuStreamBeginCapture_v2(ptr %gpu, ptr %own, i32 1)
  %not_begun = icmp ne i32 %begun, 0
  br i1 %not_begun, label %without, label %recording

recording:
  %launched = call i32 @launch_all(ptr %gpu, ptr %numbers, ptr %buffers, i64 %memory, ptr %own)
  %ended = call i32 @cuStreamEndCapture(ptr %gpu, ptr %own, ptr %recorded_at)
  %faults = or i32 %launched, %ended
  %faulty = icmp ne i32 %faults, 0
  %recorded = load ptr, ptr %recorded_at
  %nothing = icmp eq ptr %recorded, null
  br i1 %nothing, label %without, label %recorded_some

recorded_some:
  br i1 %faulty, label %drop, label %make

drop:
  %dropped = call i32 @cuGraphDestroy(ptr %gpu, ptr %recorded)
  br label %without

make:
  %made = call i32 @cuGraphInstantiateWithFlags(ptr %gpu, ptr %made_at, ptr %recorded, i64 0)
  %destroyed = call i32 @cuGraphDestroy(ptr %gpu, ptr %recorded)
  %not_made = icmp ne i32 %made, 0
  br i1 %not_made, label %without, label %keep

keep:
  %new_graph = load ptr, ptr %made_at
  store ptr %new_graph, ptr %graph_at
  br label %replay

replay:
  %replayed = phi ptr [ %graph, %again ], [ %new_graph, %keep ]
  %code = call i32 @cuGraphLaunch(ptr %gpu, ptr %replayed, ptr %stream)
  %refused = icmp ne i32 %code, 0
  br i1 %refused, label %fail, label %fine

fine:
  ret i32 0

fail:
  %told = call i32 @failed(ptr %gpu, i32 %code, ptr @gpu_do_run)
  ret i32 %told

without:
  ; The driver cannot: from now on kernels are launched one by one.
  store atomic i32 0, ptr %graphs_at monotonic, align 4
  store i8 0, ptr @text, align 1
  br label %plain

plain:
  %outcome = call i32 @launch_all(ptr %gpu, ptr %numbers, ptr %buffers, i64 %memory, ptr %stream)
  ret i32 %outcome
}

define internal i32 @launch_all(ptr %gpu, ptr %numbers, ptr %buffers, i64 %memory, ptr %stream) nounwind {
entry:
  %values = alloca [$most_given x i64], align 8
  %places = alloca [$most_given x ptr], align 8
  %maps = alloca [$most_maps x [128 x i8]], align 64
  br label %next

next:
  %l = phi i64 [ 0, %entry ], [ %l_next, %done_one ]
  %more = icmp slt i64 %l, $launches_count
  br i1 %more, label %grid, label %done

grid:
  %launch = getelementptr %launch, ptr @gpu_launches, i64 %l
  %x_number_at = getelementptr %launch, ptr %launch, i64 0, i32 1, i64 0
  %x_number = load i32, ptr %x_number_at, align 4
  %x_at = getelementptr i64, ptr %numbers, i32 %x_number
  %x = load i64, ptr %x_at, align 8
  %y_number_at = getelementptr %launch, ptr %launch, i64 0, i32 1, i64 1
  %y_number = load i32, ptr %y_number_at, align 4
  %y_at = getelementptr i64, ptr %numbers, i32 %y_number
  %y = load i64, ptr %y_at, align 8
  %z_number_at = getelementptr %launch, ptr %launch, i64 0, i32 1, i64 2
  %z_number = load i32, ptr %z_number_at, align 4
  %z_at = getelementptr i64, ptr %numbers, i32 %z_number
  %z = load i64, ptr %z_at, align 8
  %no_x = icmp eq i64 %x, 0
  %no_y = icmp eq i64 %y, 0
  %no_z = icmp eq i64 %z, 0
  %none_0 = or i1 %no_x, %no_y
  %none = or i1 %none_0, %no_z
  br i1 %none, label %done_one, label %limits

limits:
  ; As unsigned, a negative number is too large too.
  %long = icmp ugt i64 %x, 2147483647
  %wide = icmp ugt i64 %y, 65535
  %deep = icmp ugt i64 %z, 65535
  %many_0 = or i1 %long, %wide
  %many = or i1 %many_0, %deep
  br i1 %many, label %too_many, label %arguments

arguments:
  %first_at = getelementptr %launch, ptr %launch, i64 0, i32 4
  %first_32 = load i32, ptr %first_at, align 4
  %first = sext i32 %first_32 to i64
  %count_at = getelementptr %launch, ptr %launch, i64 0, i32 5
  %count_32 = load i32, ptr %count_at, align 4
  %count = sext i32 %count_32 to i64
  %first_map_at = getelementptr %launch, ptr %launch, i64 0, i32 6
  %first_map_32 = load i32, ptr %first_map_at, align 4
  %first_map = sext i32 %first_map_32 to i64
  %maps_count_at = getelementptr %launch, ptr %launch, i64 0, i32 7
  %maps_count_32 = load i32, ptr %maps_count_at, align 4
  %maps_count = sext i32 %maps_count_32 to i64
  br label %map

map:
  %m = phi i64 [ 0, %arguments ], [ %m_next, %mapped ]
  %more_maps = icmp slt i64 %m, %maps_count
  br i1 %more_maps, label %make_map, label %argument

make_map:
  %map_number = add i64 %first_map, %m
  %map_spec = getelementptr %map, ptr @gpu_maps, i64 %map_number
  %map_at = getelementptr [128 x i8], ptr %maps, i64 %m
  %map_code = call i32 @make_map(ptr %gpu, ptr %map_spec, ptr %numbers, ptr %buffers, i64 %memory, ptr %map_at)
  %map_failed = icmp ne i32 %map_code, 0
  br i1 %map_failed, label %fail_map, label %mapped

mapped:
  %map_place_at = getelementptr ptr, ptr %places, i64 %m
  store ptr %map_at, ptr %map_place_at
  %m_next = add i64 %m, 1
  br label %map

argument:
  %a = phi i64 [ 0, %map ], [ %a_next, %store ]
  %more_arguments = icmp slt i64 %a, %count
  br i1 %more_arguments, label %read, label %go

read:
  %given_number = add i64 %first, %a
  %given = getelementptr %given, ptr @gpu_given, i64 %given_number
  %value = call i64 @given_value(ptr %given, ptr %numbers, ptr %buffers, i64 %memory)
  br label %store

store:
  %value_at = getelementptr i64, ptr %values, i64 %a
  store i64 %value, ptr %value_at, align 8
  %behind_maps = add i64 %maps_count, %a
  %place_at = getelementptr ptr, ptr %places, i64 %behind_maps
  store ptr %value_at, ptr %place_at
  %a_next = add i64 %a, 1
  br label %argument

go:
  %kernel_at = getelementptr %launch, ptr %launch, i64 0, i32 0
  %kernel = load i32, ptr %kernel_at, align 4
  %function_at = getelementptr %gpu, ptr %gpu, i64 0, i32 8, i32 %kernel
  %function = load ptr, ptr %function_at
  %tx_at = getelementptr %launch, ptr %launch, i64 0, i32 2, i64 0
  %tx = load i32, ptr %tx_at, align 4
  %ty_at = getelementptr %launch, ptr %launch, i64 0, i32 2, i64 1
  %ty = load i32, ptr %ty_at, align 4
  %tz_at = getelementptr %launch, ptr %launch, i64 0, i32 2, i64 2
  %tz = load i32, ptr %tz_at, align 4
  %shared_at = getelementptr %launch, ptr %launch, i64 0, i32 3
  %shared = load i32, ptr %shared_at, align 4
  %x_32 = trunc i64 %x to i32
  %y_32 = trunc i64 %y to i32
  %z_32 = trunc i64 %z to i32
  %code = call i32 @cuLaunchKernel(ptr %gpu, ptr %function, i32 %x_32, i32 %y_32, i32 %z_32, i32 %tx, i32 %ty, i32 %tz, i32 %shared, ptr %stream, ptr %places, ptr null)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %fail, label %done_one

done_one:
  %l_next = add i64 %l, 1
  br label %next

done:
  ret i32 0

too_many:
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_too_many, i64 %x, i64 %y, i64 %z)
  ret i32 2

fail:
  %outcome = call i32 @failed(ptr %gpu, i32 %code, ptr @gpu_do_launch)
  ret i32 %outcome

fail_map:
  ret i32 %map_code
}

; What a launch is given: an address, or a number.
define internal i64 @given_value(ptr %given, ptr %numbers, ptr %buffers, i64 %memory) nounwind {
entry:
  %kind = load i32, ptr %given, align 4
  %which_at = getelementptr %given, ptr %given, i64 0, i32 1
  %which = load i32, ptr %which_at, align 4
  %is_buffer = icmp eq i32 %kind, 0
  br i1 %is_buffer, label %of_buffer, label %of_number

of_buffer:
  %buffer_at = getelementptr i64, ptr %buffers, i32 %which
  %buffer = load i64, ptr %buffer_at, align 8
  ret i64 %buffer

of_number:
  %number_at = getelementptr i64, ptr %numbers, i32 %which
  %number = load i64, ptr %number_at, align 8
  %is_place = icmp eq i32 %kind, 1
  %base = select i1 %is_place, i64 %memory, i64 0
  %based = add i64 %number, %base
  ret i64 %based
}

; The 128 bytes of a tensor map: 0, or an error code with the text set.
define internal i32 @make_map(ptr %gpu, ptr %map, ptr %numbers, ptr %buffers, i64 %memory, ptr %place) nounwind {
entry:
  %sizes = alloca [5 x i64], align 8
  %strides = alloca [5 x i64], align 8
  %ones = alloca [5 x i32], align 4
  %array = call i64 @given_value(ptr %map, ptr %numbers, ptr %buffers, i64 %memory)
  %dtype_at = getelementptr %map, ptr %map, i64 0, i32 1
  %dtype = load i32, ptr %dtype_at, align 4
  %axes_at = getelementptr %map, ptr %map, i64 0, i32 2
  %axes = load i32, ptr %axes_at, align 4
  %start_number_at = getelementptr %map, ptr %map, i64 0, i32 3
  %start_number = load i32, ptr %start_number_at, align 4
  %start_at = getelementptr i64, ptr %numbers, i32 %start_number
  %start = load i64, ptr %start_at, align 8
  %start_bytes = shl i64 %start, 1
  %address = add i64 %array, %start_bytes
  br label %axis

axis:
  %a = phi i32 [ 0, %entry ], [ %a_next, %sized ]
  %more = icmp slt i32 %a, %axes
  br i1 %more, label %size, label %encode

size:
  %size_number_at = getelementptr %map, ptr %map, i64 0, i32 4, i32 %a
  %size_number = load i32, ptr %size_number_at, align 4
  %size_at = getelementptr i64, ptr %numbers, i32 %size_number
  %count = load i64, ptr %size_at, align 8
  ; Of an axis without elements nothing is ever copied, and a map has none.
  %some = icmp sgt i64 %count, 1
  %at_least = select i1 %some, i64 %count, i64 1
  %own_size_at = getelementptr i64, ptr %sizes, i32 %a
  store i64 %at_least, ptr %own_size_at, align 8
  %one_at = getelementptr i32, ptr %ones, i32 %a
  store i32 1, ptr %one_at, align 4
  %first = icmp eq i32 %a, 0
  br i1 %first, label %sized, label %stride

stride:
  %before = sub i32 %a, 1
  %stride_number_at = getelementptr %map, ptr %map, i64 0, i32 5, i32 %before
  %stride_number = load i32, ptr %stride_number_at, align 4
  %stride_at = getelementptr i64, ptr %numbers, i32 %stride_number
  %elements = load i64, ptr %stride_at, align 8
  %bytes = shl i64 %elements, 1
  %own_stride_at = getelementptr i64, ptr %strides, i32 %before
  store i64 %bytes, ptr %own_stride_at, align 8
  br label %sized

sized:
  %a_next = add i32 %a, 1
  br label %axis

encode:
  %box = getelementptr %map, ptr %map, i64 0, i32 6
  %code = call i32 @cuTensorMapEncodeTiled(ptr %gpu, ptr %place, i32 %dtype, i32 %axes, i64 %address, ptr %sizes, ptr %strides, ptr %box, ptr %ones, $map_modes)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %fail, label %done

done:
  ret i32 0

fail:
  %outcome = call i32 @failed(ptr %gpu, i32 %code, ptr @gpu_do_map)
  ret i32 %outcome
}

; --- what the driver says

; Memory of the device, whose address goes to `place`.
define internal i32 @allocate_on_gpu(ptr %gpu, i64 %bytes, ptr %what, ptr %place) nounwind {
entry:
  %free_at = alloca i64, align 8
  %total_at = alloca i64, align 8
  %code = call i32 @cuMemAlloc_v2(ptr %gpu, ptr %place, i64 %bytes)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %done, label %look

done:
  ret i32 0

look:
  store i64 0, ptr %place, align 8
  store i64 0, ptr %free_at, align 8
  store i64 0, ptr %total_at, align 8
  ; CUDA_ERROR_OUT_OF_MEMORY.
  %full = icmp eq i32 %code, 2
  br i1 %full, label %tell, label %fail

tell:
  %asked = call i32 @cuMemGetInfo_v2(ptr %gpu, ptr %free_at, ptr %total_at)
  %free = load i64, ptr %free_at, align 8
  %total = load i64, ptr %total_at, align 8
  %device = getelementptr %gpu, ptr %gpu, i64 0, i32 7
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_no_memory, ptr %device, i64 %bytes, ptr %what, i64 %free, i64 %total)
  ret i32 3

fail:
  %outcome = call i32 @failed(ptr %gpu, i32 %code, ptr @gpu_do_allocate)
  ret i32 %outcome
}

; The text of what the driver could not do, and the code for it.
define internal i32 @failed(ptr %gpu, i32 %error, ptr %what) nounwind {
  %code = call i32 @failed_with(ptr %gpu, i32 %error, ptr %what, ptr @gpu_nothing)
  ret i32 %code
}

; The same with more words.
define internal i32 @failed_with(ptr %gpu, i32 %error, ptr %what, ptr %more) nounwind {
  %name_at = alloca ptr, align 8
  %words_at = alloca ptr, align 8
  store ptr null, ptr %name_at
  store ptr null, ptr %words_at
  %asked_name = call i32 @cuGetErrorName(ptr %gpu, i32 %error, ptr %name_at)
  %asked_words = call i32 @cuGetErrorString(ptr %gpu, i32 %error, ptr %words_at)
  %name = load ptr, ptr %name_at
  %no_name = icmp eq ptr %name, null
  %named = select i1 %no_name, ptr @gpu_unknown, ptr %name
  %words = load ptr, ptr %words_at
  %no_words = icmp eq ptr %words, null
  %worded = select i1 %no_words, ptr @gpu_nothing, ptr %words
  %first = load i8, ptr %more, align 1
  %nothing_more = icmp eq i8 %first, 0
  %between = select i1 %nothing_more, ptr @gpu_nothing, ptr @gpu_between
  %told = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @text, i64 512, ptr @gpu_failed, ptr %what, ptr %named, i32 %error, ptr %worded, ptr %between, ptr %more)
  ; CUDA_ERROR_OUT_OF_MEMORY.
  %full = icmp eq i32 %error, 2
  %code = select i1 %full, i32 3, i32 7
  ret i32 %code
}
