"""Constants in pieces are the same constants."""

from __future__ import annotations

import numpy as np

from polyreme.runtime.artifact import Artifact
from polyreme.runtime.pieces import LaterPiece, Pieces
from tests.runtime.native import scale_artifact


def test_the_whole_is_all_pieces_at_a_cache_line() -> None:
    pieces = Pieces([b"ab", memoryview(b""), memoryview(np.arange(3, dtype=np.uint8))])
    assert len(pieces) == 5 and bytes(pieces.whole) == b"ab\0\1\2" and pieces.whole.readonly
    assert np.frombuffer(pieces.whole, np.uint8).ctypes.data % 64 == 0
    assert not Pieces([]) and bytes(Pieces([]).whole) == b""


def test_pieces_made_later_come_in_parts() -> None:
    later = LaterPiece(5, lambda: (memoryview(part) for part in (b"cde", b"fg")))
    pieces = Pieces([b"ab", later, memoryview(b"h")])
    assert len(pieces) == 8 and bytes(pieces.whole) == b"abcdefgh"


def test_an_artifact_of_pieces_is_written_like_one_of_one_piece() -> None:
    artifact = scale_artifact()
    data = bytes(artifact.constants)
    cut = Artifact(artifact.manifest, artifact.code, Pieces([data[:3], data[3:7], memoryview(data)[7:]]))
    assert cut.to_bytes() == artifact.to_bytes()
    assert bytes(cut.constants) == data
