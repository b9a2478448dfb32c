"""Programs on several replicas in one process: `ParallelExecutor`, `CompiledProgram.with_data_parallel`, and their options."""
