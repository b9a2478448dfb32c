; Rounds of a parallel loop that follow each other, as one job of the pool. A part of the pool's module (`pool.ll`), whose functions it uses.
;
; To publish a job, join it and close it takes the pool seven to eight journeys of a line between caches for each round. Here each part of the count belongs to one
; thread for all rounds, which tells in the part's own word how far it has come:
;
;   word = rounds done << 1 | taken          (one in a line of its own for each part)
;
; A thread begins a round when all words say that the round before is done: one journey there and one back. No thread is promised to come, so nobody ever waits for a part that is
; not taken: whoever is done with a round's own part also makes the parts that nobody has taken, each for this round alone, and a thread that comes late takes its part over where it stands.

%rounds = type { ptr, ptr, ptr, i64, i64, ptr } ; 0 pool, 1 body, 2 context, 3 rounds, 4 count, 5 words

; Runs body(context, round, part, part + 1) for each part of [0, count) in each of `rounds` rounds; all parts of a round are done before the next one begins. There is a line of the stack for each part:
; as many parts as threads, or some hundreds.
define void @polyreme_parallel_rounds(ptr %pool, ptr %body, ptr %context, i64 %rounds, i64 %count) nounwind {
entry:
  %job = alloca %rounds, align 8
  %some_rounds = icmp sgt i64 %rounds, 0
  %some_parts = icmp sgt i64 %count, 0
  %some = and i1 %some_rounds, %some_parts
  br i1 %some, label %begin, label %done

begin:
  %words = alloca [64 x i8], i64 %count, align 64
  %bytes = shl i64 %count, 6
  call void @llvm.memset.p0.i64(ptr align 64 %words, i8 0, i64 %bytes, i1 false)
  %body_at = getelementptr %rounds, ptr %job, i64 0, i32 1
  %context_at = getelementptr %rounds, ptr %job, i64 0, i32 2
  %rounds_at = getelementptr %rounds, ptr %job, i64 0, i32 3
  %count_at = getelementptr %rounds, ptr %job, i64 0, i32 4
  %words_at = getelementptr %rounds, ptr %job, i64 0, i32 5
  store ptr %pool, ptr %job, align 8
  store ptr %body, ptr %body_at, align 8
  store ptr %context, ptr %context_at, align 8
  store i64 %rounds, ptr %rounds_at, align 8
  store i64 %count, ptr %count_at, align 8
  store ptr %words, ptr %words_at, align 8
  call void @polyreme_parallel(ptr %pool, ptr @make_parts, ptr %job, i64 %count, i64 1)
  br label %done

done:
  ret void
}

; What a thread does that has been given the parts [begin, end) by the pool: one after the other; all rounds are done when the first one returns, unless another thread has that part.
define internal void @make_parts(ptr %job, i64 %begin, i64 %end) nounwind {
entry:
  br label %next

next:
  %part = phi i64 [ %begin, %entry ], [ %part_next, %next ]
  call void @make_part(ptr %job, i64 %part)
  %part_next = add i64 %part, 1
  %more = icmp slt i64 %part_next, %end
  br i1 %more, label %next, label %done

done:
  ret void
}

; Takes a part over where it stands and makes it, round by round, with those that nobody has taken.
define internal void @make_part(ptr %job, i64 %part) nounwind {
entry:
  %since = alloca i64, align 8
  %pool = load ptr, ptr %job, align 8
  %body_at = getelementptr %rounds, ptr %job, i64 0, i32 1
  %context_at = getelementptr %rounds, ptr %job, i64 0, i32 2
  %rounds_at = getelementptr %rounds, ptr %job, i64 0, i32 3
  %count_at = getelementptr %rounds, ptr %job, i64 0, i32 4
  %words_at = getelementptr %rounds, ptr %job, i64 0, i32 5
  %body = load ptr, ptr %body_at, align 8
  %context = load ptr, ptr %context_at, align 8
  %rounds = load i64, ptr %rounds_at, align 8
  %count = load i64, ptr %count_at, align 8
  %words = load ptr, ptr %words_at, align 8
  %own = getelementptr [64 x i8], ptr %words, i64 %part
  %all_done = shl i64 %rounds, 1
  br label %look

look:
  %looks = phi i32 [ 0, %entry ], [ %looks, %take ], [ %looks_more, %look_again ]
  %word = load atomic i64, ptr %own acquire, align 8
  %nothing_left = icmp sge i64 %word, %all_done
  br i1 %nothing_left, label %done, label %free

free:
  %is_taken = trunc i64 %word to i1
  br i1 %is_taken, label %look_again, label %take

look_again:
  ; Another thread makes it, for this round.
  call void @wait_awake(ptr %pool, i32 %looks, ptr %since)
  %looks_more = add i32 %looks, 1
  br label %look

take:
  %with_me = or i64 %word, 1
  %attempt = cmpxchg ptr %own, i64 %word, i64 %with_me acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %attempt, 1
  br i1 %mine, label %taken, label %look

taken:
  %first = lshr i64 %word, 1
  br label %round

round:
  %now = phi i64 [ %first, %taken ], [ %following, %others_done ]
  br label %meet

; All parts have done what is before this round.
meet:
  %met = phi i64 [ 0, %round ], [ %met_next, %met_one ]
  %met_at = getelementptr [64 x i8], ptr %words, i64 %met
  br label %meet_look

meet_look:
  %spins = phi i32 [ 0, %meet ], [ %spins_more, %meet_wait ]
  %met_word = load atomic i64, ptr %met_at acquire, align 8
  %met_rounds = lshr i64 %met_word, 1
  %is_here = icmp sge i64 %met_rounds, %now
  br i1 %is_here, label %met_one, label %meet_wait

meet_wait:
  call void @wait_awake(ptr %pool, i32 %spins, ptr %since)
  %spins_more = add i32 %spins, 1
  br label %meet_look

met_one:
  %met_next = add i64 %met, 1
  %meet_more = icmp slt i64 %met_next, %count
  br i1 %meet_more, label %meet, label %work

work:
  %part_end = add i64 %part, 1
  call void %body(ptr %context, i64 %now, i64 %part, i64 %part_end)
  %following = add i64 %now, 1
  %goes_on = icmp slt i64 %following, %rounds
  %keep = zext i1 %goes_on to i64
  %open = shl i64 %now, 1
  %made = shl i64 %following, 1
  %told = or i64 %made, %keep
  store atomic i64 %told, ptr %own release, align 8
  br label %other

; Those that nobody has taken; that of `part` says another number by now.
other:
  %it = phi i64 [ 0, %work ], [ %it_next, %other_next ]
  %it_at = getelementptr [64 x i8], ptr %words, i64 %it
  %it_word = load atomic i64, ptr %it_at monotonic, align 8
  %is_free = icmp eq i64 %it_word, %open
  br i1 %is_free, label %try, label %other_next

try:
  %with_it = or i64 %open, 1
  %it_attempt = cmpxchg ptr %it_at, i64 %open, i64 %with_it acquire monotonic, align 8
  %got = extractvalue { i64, i1 } %it_attempt, 1
  br i1 %got, label %help, label %other_next

help:
  %it_end = add i64 %it, 1
  call void %body(ptr %context, i64 %now, i64 %it, i64 %it_end)
  store atomic i64 %made, ptr %it_at release, align 8
  br label %other_next

other_next:
  %it_next = add i64 %it, 1
  %more_others = icmp slt i64 %it_next, %count
  br i1 %more_others, label %other, label %others_done

others_done:
  br i1 %goes_on, label %round, label %done

done:
  ret void
}

; Waits a moment for the `spins`-th time in a row. Nobody would wake a thread that slept here, so one that has waited for long gives way to others each time.
define internal void @wait_awake(ptr %pool, i32 %spins, ptr %since) nounwind {
entry:
  %limit_at = getelementptr %pool, ptr %pool, i64 0, i32 20
  %limit = load i32, ptr %limit_at, align 4
  %patient = call i1 @linger(i32 %spins, i32 %limit, ptr %since)
  br i1 %patient, label %done, label %yield

yield:
  %yielded = call i32 @sched_yield()
  br label %done

done:
  ret void
}
