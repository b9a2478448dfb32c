; The thread pool, written in LLVM IR so that it goes unchanged into the process and into every compiled library.
;
; One job at a time. The calling thread publishes it, works on it together with the workers, closes it and waits for
; those that joined. Chunks of `grain` iterations are taken by an atomic counter, by the caller from the first one on, by the workers from the last one
; back: so the two of two threads keep to the same ends of jobs that follow each other, and find there what they wrote themselves. A worker that wakes too late finds
; the job closed and is not waited for, so a small job never costs a wake-up.
;
;   state = generation << 11 | workers inside << 1 | open          (the futex on which idle workers sleep)
;
; Joining is a compare-and-swap of `state` from an open value to the same plus 2; the job's fields are read only after it, and are
; rewritten only while nobody is inside. The generation keeps a worker from joining a job twice.
;
; A second caller, or a nested call, finds the pool busy and runs its loop itself. So does a process made by fork: the
; pool's page is wiped by the kernel there (or, on kernels that cannot, the process id is compared), and `alive` reads 0.
;
; Filled in per target: the number of the futex system call, and a definition of `@pause`.

; A line that one thread writes comes to the others from its cache, which takes as long as some hundred instructions. So what a worker reads of a job lies in the line that tells it of the job, and it takes
; its chunks from another one; what callers alone write is in none that waiting workers look at.
%pool = type {
  i32, i32,                           ;  0 state
  ptr, ptr, i64, i64, [24 x i8],      ;  2 body, 3 context, 4 count, 5 grain
  i64, [56 x i8],                     ;  7 taken: chunks from the end << 32 | chunks from the start, together one more for each that was asked for
  i32, i32, [56 x i8],                ;  9 finished: counts jobs left by their last worker, 10 waiting: the caller sleeps on `finished`
  i32, [60 x i8],                     ; 12 sleepers: workers in, or on their way into, a futex wait
  i32, [60 x i8],                     ; 14 busy
  i32, i32, i32, i32, i32,            ; 16 alive, 17 stop, 18 workers, 19 pid (0: the page is wiped by fork), 20 spin
  i32, [40 x i8],                     ; 21 waker: one more than the processor from which workers were woken last, 0 before
  [128 x i8],                         ; 23 processors: a bit for each that the workers were made to run on; none when there are more than 1024
  [255 x i64]                         ; 24 threads
}

declare i64 @syscall(i64, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i32 @getpid()
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sigfillset(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
$pause

; Runs body(context, begin, end) over disjoint ranges that cover [0, count), and returns when all are done.
; A null pool, a single chunk, a busy pool and a pool of another process mean: on this thread.
define void @polyreme_parallel(ptr %pool, ptr %body, ptr %context, i64 %count, i64 %grain) nounwind {
entry:
  %since = alloca i64, align 8
  ; As many chunks as half a counter holds, and threads beside them.
  %fewest = lshr i64 %count, 30
  %at_least = add i64 %fewest, 1
  %step = call i64 @llvm.smax.i64(i64 %grain, i64 %at_least)
  %one_chunk = icmp sle i64 %count, %step
  %no_pool = icmp eq ptr %pool, null
  %alone = or i1 %one_chunk, %no_pool
  br i1 %alone, label %inline, label %check

check:
  %here = call i1 @usable(ptr %pool)
  br i1 %here, label %lock, label %inline

lock:
  %busy = getelementptr %pool, ptr %pool, i64 0, i32 14
  %was_busy = load atomic i32, ptr %busy monotonic, align 4
  %free = icmp eq i32 %was_busy, 0
  br i1 %free, label %try, label %inline

try:
  %attempt = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic, align 4
  %locked = extractvalue { i32, i1 } %attempt, 1
  br i1 %locked, label %staffed, label %inline

staffed:
  %workers_at = getelementptr %pool, ptr %pool, i64 0, i32 18
  %workers = load i32, ptr %workers_at, align 4
  %nobody = icmp eq i32 %workers, 0
  br i1 %nobody, label %unlock_inline, label %publish

unlock_inline:
  store atomic i32 0, ptr %busy release, align 4
  br label %inline

publish:
  %body_at = getelementptr %pool, ptr %pool, i64 0, i32 2
  %context_at = getelementptr %pool, ptr %pool, i64 0, i32 3
  %count_at = getelementptr %pool, ptr %pool, i64 0, i32 4
  %grain_at = getelementptr %pool, ptr %pool, i64 0, i32 5
  %taken_at = getelementptr %pool, ptr %pool, i64 0, i32 7
  store ptr %body, ptr %body_at, align 8
  store ptr %context, ptr %context_at, align 8
  store i64 %count, ptr %count_at, align 8
  store i64 %step, ptr %grain_at, align 8
  store atomic i64 0, ptr %taken_at monotonic, align 8
  %state_at = getelementptr %pool, ptr %pool, i64 0, i32 0
  %idle = load atomic i32, ptr %state_at monotonic, align 4
  %generation = add i32 %idle, 2048
  %opened = or i32 %generation, 1
  store atomic i32 %opened, ptr %state_at seq_cst, align 4
  %sleepers_at = getelementptr %pool, ptr %pool, i64 0, i32 12
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %any_asleep = icmp sgt i32 %sleepers, 0
  ; Workers that wait awake have not been woken where the caller runs, but the system may have moved it there since.
  call void @keep_apart(ptr %pool)
  br i1 %any_asleep, label %wake, label %work

wake:
  ; No more helpers than chunks that the caller leaves over.
  %rest = sub i64 %count, 1
  %others = sdiv i64 %rest, %step
  %others_capped = call i64 @llvm.smin.i64(i64 %others, i64 255)
  %others_32 = trunc i64 %others_capped to i32
  %to_wake = call i32 @llvm.smin.i32(i32 %others_32, i32 %sleepers)
  call void @futex_wake(ptr %state_at, i32 %to_wake)
  br label %work

work:
  call void @take_chunks(ptr %pool, i1 false)
  %before_close = atomicrmw and ptr %state_at, i32 -2 seq_cst, align 4
  %spin_at = getelementptr %pool, ptr %pool, i64 0, i32 20
  %spin_limit = load i32, ptr %spin_at, align 4
  br label %wait

wait:
  %spins = phi i32 [ 0, %work ], [ %spins_more, %relax ]
  %now = load atomic i32, ptr %state_at acquire, align 4
  %now_inside = and i32 %now, 2046
  %all_left = icmp eq i32 %now_inside, 0
  br i1 %all_left, label %release, label %wait_more

wait_more:
  %patient = call i1 @linger(i32 %spins, i32 %spin_limit, ptr %since)
  br i1 %patient, label %relax, label %doze

relax:
  %spins_more = add i32 %spins, 1
  br label %wait

doze:
  %finished_at = getelementptr %pool, ptr %pool, i64 0, i32 9
  %waiting_at = getelementptr %pool, ptr %pool, i64 0, i32 10
  store atomic i32 1, ptr %waiting_at seq_cst, align 4
  br label %doze_again

doze_again:
  ; `finished` is read before the state, so a worker that leaves in between makes the wait return at once.
  %finished = load atomic i32, ptr %finished_at seq_cst, align 4
  %then = load atomic i32, ptr %state_at seq_cst, align 4
  %then_inside = and i32 %then, 2046
  %then_left = icmp eq i32 %then_inside, 0
  br i1 %then_left, label %awake, label %sleep

sleep:
  call void @futex_wait(ptr %finished_at, i32 %finished)
  br label %doze_again

awake:
  store atomic i32 0, ptr %waiting_at monotonic, align 4
  br label %release

release:
  store atomic i32 0, ptr %busy release, align 4
  ret void

inline:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %run, label %done

run:
  call void %body(ptr %context, i64 0, i64 %count)
  br label %done

done:
  ret void
}

; A pool in which `threads` threads work, the caller among them; 0 or less means one per processor. Null when there is no memory.
define ptr @polyreme_pool_create(i32 %threads) nounwind {
entry:
  ; PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS: the numbers of Linux, as is the futex.
  %page = call ptr @mmap(ptr null, i64 4096, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %page to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %none, label %mapped

none:
  ret ptr null

mapped:
  %started = call i32 @polyreme_pool_set_threads(ptr %page, i32 %threads)
  ret ptr %page
}

; Ends and joins the workers and frees the pool. In a process made by fork it only frees. The pool must be idle.
define void @polyreme_pool_destroy(ptr %pool) nounwind {
entry:
  %null = icmp eq ptr %pool, null
  br i1 %null, label %done, label %check

check:
  %here = call i1 @usable(ptr %pool)
  br i1 %here, label %stop, label %free

stop:
  call void @stop_workers(ptr %pool)
  br label %free

free:
  %unmapped = call i32 @munmap(ptr %pool, i64 4096)
  br label %done

done:
  ret void
}

; The number of threads that work on a job, the caller among them.
define i32 @polyreme_pool_threads(ptr %pool) nounwind {
entry:
  %null = icmp eq ptr %pool, null
  br i1 %null, label %alone, label %check

check:
  %here = call i1 @usable(ptr %pool)
  br i1 %here, label %count, label %alone

count:
  %workers_at = getelementptr %pool, ptr %pool, i64 0, i32 18
  %workers = load atomic i32, ptr %workers_at monotonic, align 4
  %threads = add i32 %workers, 1
  ret i32 %threads

alone:
  ret i32 1
}

; Changes the number of threads (0 or less: one per processor; at most 256) and returns how many there are now: fewer
; where the system refuses to start more. Waits for a running job; must not be called from inside one. In a process
; made by fork it makes the pool usable again.
define i32 @polyreme_pool_set_threads(ptr %pool, i32 %threads) nounwind {
entry:
  %all_signals = alloca [128 x i8], align 8
  %old_signals = alloca [128 x i8], align 8
  %here = call i1 @usable(ptr %pool)
  br i1 %here, label %lock, label %fresh

fresh:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 ptrtoint (ptr getelementptr (%pool, ptr null, i64 1) to i64), i1 false)
  ; 18 is MADV_WIPEONFORK.
  %advised = call i32 @madvise(ptr %pool, i64 4096, i32 18)
  %wiped = icmp eq i32 %advised, 0
  %pid = call i32 @getpid()
  %pid_kept = select i1 %wiped, i32 0, i32 %pid
  %pid_at = getelementptr %pool, ptr %pool, i64 0, i32 19
  store i32 %pid_kept, ptr %pid_at, align 4
  %alive_at = getelementptr %pool, ptr %pool, i64 0, i32 16
  store atomic i32 1, ptr %alive_at release, align 4
  br label %lock

lock:
  %busy = getelementptr %pool, ptr %pool, i64 0, i32 14
  %attempt = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic, align 4
  %locked = extractvalue { i32, i1 } %attempt, 1
  br i1 %locked, label %restart, label %yield

yield:
  %yielded = call i32 @sched_yield()
  br label %lock

restart:
  call void @stop_workers(ptr %pool)
  %processors = call i32 @polyreme_processors()
  %automatic = icmp slt i32 %threads, 1
  %wanted = select i1 %automatic, i32 %processors, i32 %threads
  %capped = call i32 @llvm.smin.i32(i32 %wanted, i32 256)
  %target = sub i32 %capped, 1
  ; With more threads than processors, the thread waited for may be waiting for our processor: then do not spin at all.
  %roomy = icmp sle i32 %capped, %processors
  %spin = select i1 %roomy, i32 2000, i32 0
  %spin_at = getelementptr %pool, ptr %pool, i64 0, i32 20
  store i32 %spin, ptr %spin_at, align 4
  %waker_at = getelementptr %pool, ptr %pool, i64 0, i32 21
  store i32 0, ptr %waker_at, align 4
  %processors_at = getelementptr %pool, ptr %pool, i64 0, i32 23
  call void @llvm.memset.p0.i64(ptr %processors_at, i8 0, i64 128, i1 false)
  %unlisted = call i32 @sched_getaffinity(i32 0, i64 128, ptr %processors_at)
  ; Workers inherit a full signal mask, so signals stay with the threads of the program (2 is SIG_SETMASK).
  %filled = call i32 @sigfillset(ptr %all_signals)
  %masked = call i32 @pthread_sigmask(i32 2, ptr %all_signals, ptr %old_signals)
  br label %start

start:
  %i = phi i32 [ 0, %restart ], [ %i_next, %started ]
  %enough = icmp sge i32 %i, %target
  br i1 %enough, label %finish, label %create

create:
  %i_64 = zext i32 %i to i64
  %thread_at = getelementptr %pool, ptr %pool, i64 0, i32 24, i64 %i_64
  %error = call i32 @pthread_create(ptr %thread_at, ptr null, ptr @worker, ptr %pool)
  %created = icmp eq i32 %error, 0
  br i1 %created, label %started, label %finish

started:
  %i_next = add i32 %i, 1
  br label %start

finish:
  %unmasked = call i32 @pthread_sigmask(i32 2, ptr %old_signals, ptr null)
  %workers_at = getelementptr %pool, ptr %pool, i64 0, i32 18
  store atomic i32 %i, ptr %workers_at monotonic, align 4
  store atomic i32 0, ptr %busy release, align 4
  %result = add i32 %i, 1
  ret i32 %result
}

; The number of processors that this process may run on.
define i32 @polyreme_processors() nounwind {
entry:
  %mask = alloca [1024 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 1024, i1 false)
  %error = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %mask)
  %failed = icmp slt i32 %error, 0
  br i1 %failed, label %one, label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i_next, %loop ]
  %total = phi i64 [ 0, %entry ], [ %total_next, %loop ]
  %word_at = getelementptr i64, ptr %mask, i64 %i
  %word = load i64, ptr %word_at, align 8
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %total_next = add i64 %total, %bits
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, 128
  br i1 %more, label %loop, label %counted

counted:
  %at_least_one = call i64 @llvm.smax.i64(i64 %total_next, i64 1)
  %processors = trunc i64 %at_least_one to i32
  ret i32 %processors

one:
  ret i32 1
}

; Whether the workers of the pool live in this process.
define internal i1 @usable(ptr %pool) nounwind {
entry:
  %alive_at = getelementptr %pool, ptr %pool, i64 0, i32 16
  %alive = load atomic i32, ptr %alive_at acquire, align 4
  %is_alive = icmp ne i32 %alive, 0
  br i1 %is_alive, label %check_pid, label %no

check_pid:
  %pid_at = getelementptr %pool, ptr %pool, i64 0, i32 19
  %pid = load i32, ptr %pid_at, align 4
  %is_wiped = icmp eq i32 %pid, 0
  br i1 %is_wiped, label %yes, label %compare

compare:
  %current = call i32 @getpid()
  %same = icmp eq i32 %current, %pid
  ret i1 %same

yes:
  ret i1 true

no:
  ret i1 false
}

; Ends and joins all workers. The caller holds `busy`, or is the only user left.
define internal void @stop_workers(ptr %pool) nounwind {
entry:
  %workers_at = getelementptr %pool, ptr %pool, i64 0, i32 18
  %workers = load i32, ptr %workers_at, align 4
  %stop_at = getelementptr %pool, ptr %pool, i64 0, i32 17
  %state_at = getelementptr %pool, ptr %pool, i64 0, i32 0
  store atomic i32 1, ptr %stop_at seq_cst, align 4
  ; The generation moves, so that a worker about to sleep on the old state does not.
  %before = atomicrmw add ptr %state_at, i32 2048 seq_cst, align 4
  call void @futex_wake(ptr %state_at, i32 2147483647)
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %i_next, %join ]
  %more = icmp slt i32 %i, %workers
  br i1 %more, label %join, label %done

join:
  %i_64 = zext i32 %i to i64
  %thread_at = getelementptr %pool, ptr %pool, i64 0, i32 24, i64 %i_64
  %thread = load i64, ptr %thread_at, align 8
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %i_next = add i32 %i, 1
  br label %loop

done:
  store atomic i32 0, ptr %workers_at monotonic, align 4
  store atomic i32 0, ptr %stop_at seq_cst, align 4
  ret void
}

; Keeps the workers off the processor that the caller runs on; called for each job, before sleepers are woken. A guest of a virtual machine takes its idle processors for
; busy ones and wakes a thread where its waker runs, to wait there until the job is done: for several calls two threads then take as long as one.
; Masks change only when the caller has moved, and only those that are still as this function left them: the others are their user's.
define internal void @keep_apart(ptr %pool) nounwind {
entry:
  %mask = alloca [128 x i8], align 8
  %as_left = alloca [128 x i8], align 8
  %as_wanted = alloca [128 x i8], align 8
  %spin_at = getelementptr %pool, ptr %pool, i64 0, i32 20
  %spin = load i32, ptr %spin_at, align 4
  ; Threads that outnumber the processors need all of them.
  %crowded = icmp eq i32 %spin, 0
  br i1 %crowded, label %done, label %where

where:
  ; -1 where the system does not tell.
  %processor = call i32 @sched_getcpu()
  %here = add i32 %processor, 1
  %waker_at = getelementptr %pool, ptr %pool, i64 0, i32 21
  %waker = load i32, ptr %waker_at, align 4
  %unmoved = icmp eq i32 %here, %waker
  %unlisted = icmp ugt i32 %processor, 1023
  %stay = or i1 %unmoved, %unlisted
  br i1 %stay, label %done, label %moved

moved:
  store i32 %here, ptr %waker_at, align 4
  call void @processors_but(ptr %pool, i32 %waker, ptr %as_left)
  call void @processors_but(ptr %pool, i32 %here, ptr %as_wanted)
  %workers_at = getelementptr %pool, ptr %pool, i64 0, i32 18
  %workers = load i32, ptr %workers_at, align 4
  br label %loop

loop:
  %i = phi i32 [ 0, %moved ], [ %i_next, %next ]
  %more = icmp slt i32 %i, %workers
  br i1 %more, label %read, label %done

read:
  %i_64 = zext i32 %i to i64
  %thread_at = getelementptr %pool, ptr %pool, i64 0, i32 24, i64 %i_64
  %thread = load i64, ptr %thread_at, align 8
  %error = call i32 @pthread_getaffinity_np(i64 %thread, i64 128, ptr %mask)
  %known = icmp eq i32 %error, 0
  %difference = call i32 @memcmp(ptr %mask, ptr %as_left, i64 128)
  %untouched = icmp eq i32 %difference, 0
  %ours = and i1 %known, %untouched
  br i1 %ours, label %write, label %next

write:
  %refused = call i32 @pthread_setaffinity_np(i64 %thread, i64 128, ptr %as_wanted)
  br label %next

next:
  %i_next = add i32 %i, 1
  br label %loop

done:
  ret void
}

; Writes to `mask` the processors of the pool without the one of this number, counted from 1; all of them for 0.
define internal void @processors_but(ptr %pool, i32 %number, ptr %mask) nounwind {
entry:
  %processors_at = getelementptr %pool, ptr %pool, i64 0, i32 23
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %processors_at, i64 128, i1 false)
  %all = icmp eq i32 %number, 0
  br i1 %all, label %done, label %clear

clear:
  %index = sub i32 %number, 1
  %byte = lshr i32 %index, 3
  %place = and i32 %index, 7
  %bit = shl i32 1, %place
  %kept = xor i32 %bit, -1
  %kept_8 = trunc i32 %kept to i8
  %at = getelementptr i8, ptr %mask, i32 %byte
  %before = load i8, ptr %at, align 1
  %after = and i8 %before, %kept_8
  store i8 %after, ptr %at, align 1
  br label %done

done:
  ret void
}

; Works on the current job until no iterations are left: chunk by chunk from the start, or from the end.
define internal void @take_chunks(ptr %pool, i1 %backward) nounwind {
entry:
  %body_at = getelementptr %pool, ptr %pool, i64 0, i32 2
  %context_at = getelementptr %pool, ptr %pool, i64 0, i32 3
  %count_at = getelementptr %pool, ptr %pool, i64 0, i32 4
  %grain_at = getelementptr %pool, ptr %pool, i64 0, i32 5
  %taken_at = getelementptr %pool, ptr %pool, i64 0, i32 7
  %body = load ptr, ptr %body_at, align 8
  %context = load ptr, ptr %context_at, align 8
  %count = load i64, ptr %count_at, align 8
  %grain = load i64, ptr %grain_at, align 8
  ; Not of a sum that could overflow; there is at least one iteration.
  %rest = sub i64 %count, 1
  %last = udiv i64 %rest, %grain
  %one = select i1 %backward, i64 4294967296, i64 1
  br label %take

take:
  ; Tickets are numbered by both halves together, so the chunks from the start never meet those from the end.
  %ticket = atomicrmw add ptr %taken_at, i64 %one monotonic, align 8
  %from_start = and i64 %ticket, 4294967295
  %from_end = lshr i64 %ticket, 32
  %number = add i64 %from_start, %from_end
  %any = icmp sle i64 %number, %last
  br i1 %any, label %run, label %done

run:
  %counted_back = sub i64 %last, %from_end
  %chunk = select i1 %backward, i64 %counted_back, i64 %from_start
  %begin = mul i64 %chunk, %grain
  ; The last chunk ends at count; taken from what is left, so the sum cannot overflow.
  %left = sub i64 %count, %begin
  %length = call i64 @llvm.smin.i64(i64 %left, i64 %grain)
  %end = add i64 %begin, %length
  call void %body(ptr %context, i64 %begin, i64 %end)
  br label %take

done:
  ret void
}

; A worker's life: spin for a job, then sleep for one; join it, work, leave; until told to stop.
define internal ptr @worker(ptr %pool) nounwind {
entry:
  %since = alloca i64, align 8
  %state_at = getelementptr %pool, ptr %pool, i64 0, i32 0
  %finished_at = getelementptr %pool, ptr %pool, i64 0, i32 9
  %waiting_at = getelementptr %pool, ptr %pool, i64 0, i32 10
  %sleepers_at = getelementptr %pool, ptr %pool, i64 0, i32 12
  %stop_at = getelementptr %pool, ptr %pool, i64 0, i32 17
  %spin_at = getelementptr %pool, ptr %pool, i64 0, i32 20
  %spin_limit = load i32, ptr %spin_at, align 4
  br label %look

look:
  %seen = phi i32 [ -1, %entry ], [ %seen, %spin ], [ %seen, %woken ], [ %seen, %join ], [ %generation, %left ]
  %spins = phi i32 [ 0, %entry ], [ %spins_more, %spin ], [ 0, %woken ], [ %spins, %join ], [ 0, %left ]
  %state = load atomic i32, ptr %state_at acquire, align 4
  %open = trunc i32 %state to i1
  %generation = lshr i32 %state, 11
  %is_new = icmp ne i32 %generation, %seen
  %wanted = and i1 %open, %is_new
  br i1 %wanted, label %join, label %idle

join:
  %with_me = add i32 %state, 2
  %attempt = cmpxchg ptr %state_at, i32 %state, i32 %with_me acq_rel monotonic, align 4
  %joined = extractvalue { i32, i1 } %attempt, 1
  br i1 %joined, label %work, label %look

work:
  call void @take_chunks(ptr %pool, i1 true)
  %before = atomicrmw sub ptr %state_at, i32 2 seq_cst, align 4
  %after = sub i32 %before, 2
  %open_or_inside = and i32 %after, 2047
  %is_last = icmp eq i32 %open_or_inside, 0
  br i1 %is_last, label %last, label %left

last:
  ; Closed and empty: the caller may be asleep until now.
  %finished = atomicrmw add ptr %finished_at, i32 1 seq_cst, align 4
  %waiting = load atomic i32, ptr %waiting_at seq_cst, align 4
  %is_waiting = icmp ne i32 %waiting, 0
  br i1 %is_waiting, label %tell, label %left

tell:
  call void @futex_wake(ptr %finished_at, i32 1)
  br label %left

left:
  br label %look

idle:
  %stop = load atomic i32, ptr %stop_at monotonic, align 4
  %is_stopped = icmp ne i32 %stop, 0
  br i1 %is_stopped, label %exit, label %rest

rest:
  %patient = call i1 @linger(i32 %spins, i32 %spin_limit, ptr %since)
  br i1 %patient, label %spin, label %doze

spin:
  %spins_more = add i32 %spins, 1
  br label %look

doze:
  ; Announced first, then looked again: the caller publishes first, then looks for sleepers. One of both sees the other.
  %sleepers = atomicrmw add ptr %sleepers_at, i32 1 seq_cst, align 4
  %state_now = load atomic i32, ptr %state_at seq_cst, align 4
  %stop_now = load atomic i32, ptr %stop_at seq_cst, align 4
  %open_now = trunc i32 %state_now to i1
  %generation_now = lshr i32 %state_now, 11
  %is_new_now = icmp ne i32 %generation_now, %seen
  %wanted_now = and i1 %open_now, %is_new_now
  %stopped_now = icmp ne i32 %stop_now, 0
  %stay_awake = or i1 %wanted_now, %stopped_now
  br i1 %stay_awake, label %woken, label %sleep

sleep:
  call void @futex_wait(ptr %state_at, i32 %state_now)
  br label %woken

woken:
  %sleepers_before = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst, align 4
  br label %look

exit:
  ret ptr null
}

; Waits a moment for the `spins`-th time in a row, and says whether to look again: false when it is time to sleep. `since` is the caller's, for the time when the wait began.
; A thread that sleeps gives its processor away: a virtual machine's host then has others run there, who keep it for milliseconds. So threads sleep only when waiting has taken longer than such
; a turn. After the first moments whoever else wants the processor gets it; where threads outnumber processors (`limit` 0) nobody waits.
define internal i1 @linger(i32 %spins, i32 %limit, ptr %since) nounwind {
entry:
  %at_once = icmp eq i32 %limit, 0
  br i1 %at_once, label %sleep, label %look

look:
  %early = icmp slt i32 %spins, %limit
  br i1 %early, label %moment, label %late

moment:
  call void @pause()
  ret i1 true

late:
  %first = icmp eq i32 %spins, %limit
  %now = call i64 @nanoseconds()
  br i1 %first, label %begin, label %compare

begin:
  store i64 %now, ptr %since, align 8
  br label %yield

compare:
  %start = load i64, ptr %since, align 8
  %waited = sub i64 %now, %start
  %patient = icmp slt i64 %waited, 4000000 ; 4 ms
  br i1 %patient, label %yield, label %sleep

yield:
  %yielded = call i32 @sched_yield()
  br label %moment

sleep:
  ret i1 false
}

; The time of a clock that only goes on. 1 is CLOCK_MONOTONIC.
define internal i64 @nanoseconds() nounwind {
  %time = alloca [2 x i64], align 8
  %error = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest_at = getelementptr [2 x i64], ptr %time, i64 0, i64 1
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; Sleeps while *word == value, at most until a wake; may return early. 128 is FUTEX_WAIT | FUTEX_PRIVATE_FLAG.
define internal void @futex_wait(ptr %word, i32 %value) nounwind {
  %result = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 128, i32 %value, ptr null)
  ret void
}

; Wakes up to `count` sleepers. 129 is FUTEX_WAKE | FUTEX_PRIVATE_FLAG.
define internal void @futex_wake(ptr %word, i32 %count) nounwind {
  %result = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 129, i32 %count)
  ret void
}
