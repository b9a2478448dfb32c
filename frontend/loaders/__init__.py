"""Readers and writers of Paddle's files. Files are data: nothing in them runs."""
