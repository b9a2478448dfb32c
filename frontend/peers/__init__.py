"""Other runtimes beside Polyreme, on the same weights: what they read is written here, each runs in a process of its own, and all are timed
in turns.
"""
