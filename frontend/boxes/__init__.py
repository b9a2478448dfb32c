"""Boxes of detectors: chosen by their scores and by how far they overlap, proposed from anchors, given to levels of a pyramid.

All of it is compositions of ops. How many boxes there are in the end is known once the program has run; until then the others are masked.
"""
