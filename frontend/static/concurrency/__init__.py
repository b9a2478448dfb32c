"""Go blocks and channels: operators of the host that run at the same time, and how they meet."""
