"""Programs as Paddle's own bytes, `ProgramDesc`: writing ours and reading theirs."""
