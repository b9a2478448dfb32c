"""Tests of `paddle.amp`."""
