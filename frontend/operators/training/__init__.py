"""What training programs have besides a net: updates of optimizers, and measures."""
