"""Capturing a call of a function as one program: what it reads, writes and decides."""
