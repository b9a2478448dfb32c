"""An artifact: the manifest (what a model takes and gives), its object code, and its constants.

In a file: a header of fixed size, the constants, then the manifest as JSON, the object code, and a checksum per block of constants
(`checksum.py`). Constants come first since they are known before the code is: both are made at the same time. The header holds a digest of
all but the constants, so a truncated or changed file is refused before anything of it is used. Constants stay where they are read from,
which may be a mapped file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from polyreme.runtime.checksum import checksum_bytes, checksums
from polyreme.runtime.digest import blake2b
from polyreme.runtime.draft import Draft
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.files import write_atomically
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.manifest.specs import MAX_MANIFEST_BYTES
from polyreme.runtime.memory import ALIGNMENT
from polyreme.runtime.pieces import Pieces, bytes_of

FILE_FORMAT = 4
MAGIC = b"polyreme-model\0\0"
HEADER = struct.Struct("<16sIIQQQ32s")  # magic, format, zero, bytes of manifest, object and constants, digest
# Where constants begin in a file.
CONSTANTS_AT = -(-HEADER.size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Artifact:
    """A compiled model. `code` is one object file (ELF) for `manifest.target` or several, one after the other. The constants may stand in
    memory of any kind, and in `pieces`; they may be those of a file of the cache, `draft`, which has them in their places and lacks the
    rest.
    """

    manifest: Manifest
    code: bytes
    pieces: bytes | memoryview | Pieces = b""
    draft: Draft | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if len(self.pieces) < self.manifest.constant_bytes:
            raise ArtifactError(f"expected {self.manifest.constant_bytes} bytes of constants but got {len(self.pieces)}")
        if self.manifest.objects and sum(self.manifest.objects) != len(self.code):
            raise ArtifactError(f"expected {sum(self.manifest.objects)} bytes of object code but got {len(self.code)}")

    def __repr__(self) -> str:
        machine, code, constants = self.manifest.target.triple, len(self.code), len(self.pieces)
        return f"<artifact {self.manifest.name} for {machine}: {code} bytes of code, {constants} of constants>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Between processes constants travel as bytes.
        return Artifact, (self.manifest, self.code, bytes(self.constants))

    @property
    def constants(self) -> bytes | memoryview:
        """The constants in one piece."""
        return self.pieces.whole if isinstance(self.pieces, Pieces) else self.pieces

    def settled(self) -> Artifact:
        """The same with its constants in one piece: none of them is left to be made when somebody asks for it."""
        return replace(self, pieces=self.constants)

    @property
    def objects(self) -> list[bytes]:
        """The object files that `code` consists of."""
        if not self.manifest.objects:
            return [self.code]
        ends = list(accumulate(self.manifest.objects, initial=0))
        return [self.code[start:end] for start, end in pairwise(ends)]

    @property
    def name(self) -> str:
        return self.manifest.name

    def to_bytes(self) -> bytes:
        """The content of an artifact file."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes | memoryview]:
        """The content of an artifact file, in pieces: constants are not copied."""
        constants = list(bytes_of(self.pieces))
        head, tail = self._frame(checksums(*constants))
        return [head, *constants, tail]

    def finish(self, draft: Draft) -> None:
        """Write the rest to the file of the cache that has the constants. `OSError` where the disk does not take it."""
        head, tail = self._frame(draft.checksums(CONSTANTS_AT, len(self.pieces)))
        draft.write(0, head)
        draft.write(len(head) + len(self.pieces), tail)

    def _frame(self, sums: bytes) -> tuple[bytes, bytes]:
        """What stands in front of the constants, whose checksums are given, and behind them."""
        manifest = self.manifest.to_bytes()
        body = [manifest, self.code, sums]
        fields = (MAGIC, FILE_FORMAT, 0, len(manifest), len(self.code), len(self.pieces))
        head = HEADER.pack(*fields, _digest(HEADER.pack(*fields, bytes(32)), *body))
        return head.ljust(CONSTANTS_AT, b"\0"), b"".join(body)

    @staticmethod
    def from_bytes(data: bytes | memoryview, what: str = "artifact") -> Artifact:
        """The artifact in `data`, of which its constants stay a part; `ArtifactError`, which starts with `what`, when it is not whole."""
        view = memoryview(data)
        if len(view) < HEADER.size or bytes(view[:16]) != MAGIC:
            raise ArtifactError(f"{what}: expected a polyreme artifact but got {len(view)} bytes of something else")
        magic, version, zero, manifest_bytes, code_bytes, constant_bytes, digest = HEADER.unpack(view[: HEADER.size])
        if version != FILE_FORMAT or zero:
            raise ArtifactError(
                f"{what}: expected an artifact of format {FILE_FORMAT} but got format {version}: compile the model again", code="E0802"
            )
        if manifest_bytes > MAX_MANIFEST_BYTES:
            raise ArtifactError(f"{what}: expected a manifest of at most {MAX_MANIFEST_BYTES} bytes but got {manifest_bytes}")
        manifest_at = CONSTANTS_AT + constant_bytes
        code_at = manifest_at + manifest_bytes
        checks_at = code_at + code_bytes
        end = checks_at + checksum_bytes(constant_bytes)
        if len(view) != end:
            raise ArtifactError(f"{what}: expected {end} bytes but got {len(view)}: the file is damaged")
        head = HEADER.pack(magic, version, zero, manifest_bytes, code_bytes, constant_bytes, bytes(32))
        constants = view[CONSTANTS_AT:manifest_at]
        filling = any(view[HEADER.size : CONSTANTS_AT])
        if filling or _digest(head, view[manifest_at:]) != digest or checksums(constants) != view[checks_at:]:
            raise ArtifactError(f"{what}: expected content that matches its checksum: the file is damaged")
        try:
            manifest = Manifest.from_bytes(bytes(view[manifest_at:code_at]))
            return Artifact(manifest, bytes(view[code_at:checks_at]), constants if constant_bytes else b"")
        except ArtifactError as error:
            raise ArtifactError(f"{what}: {error.message}", error.code) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact to `path`, whole or not at all."""
        write_atomically(path, *self.parts())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Artifact:
        """Read what `save` wrote; `ArtifactError` for anything else, `OSError` for a file that cannot be read."""
        return Artifact.from_bytes(Path(path).read_bytes(), os.fspath(path))


def _digest(head: bytes, *body: bytes | memoryview) -> bytes:
    digest = blake2b(head, digest_size=32)
    for part in body:
        digest.update(part)
    return digest.digest()
