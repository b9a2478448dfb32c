"""Operators of detectors that choose: how many boxes or regions there are is known once the program has run."""
