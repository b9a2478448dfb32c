"""What is fed to programs: batches of their own, positions that lie in their tables."""
