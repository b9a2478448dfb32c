"""Which kernel takes what: requests and plans, groups that a builder asked for, memory, and `main` on buffers."""
