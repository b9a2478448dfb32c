"""Hostile archives and arrays (`.polyreme`, `.npy`, `.npz`), by what they try."""

from __future__ import annotations

import functools
import io
import json
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.hostile.pir import File

BOMB = 100 << 20


def npy(shape: Any = "(2,)", descr: str = "'<f4'", order: str = "False", data: bytes = bytes(8), header: bytes | None = None) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode() if header is None else header
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n" + data


def arrays() -> Iterator[File]:
    yield "an array", npy(), None
    yield "columns first", npy("(1, 2)", order="True"), None
    yield "a number", npy("()", data=bytes(4)), None
    yield "no elements", npy("(0, 3)", data=b""), None
    yield "2**40 elements of no data", npy("(1099511627776,)"), "bytes for float32"
    yield "a product that wraps", npy("(4294967296, 4294967296, 2)"), "expected one array"
    yield "no elements of 2**62", npy("(0, 4611686018427387904)", data=b""), "expected one array"
    yield "40 axes", npy("(" + "1, " * 39 + "2)"), "expected one array"
    yield "a size below zero", npy("(-2,)"), "the sizes and the plain element type"
    yield "a size that is a call", npy("(__import__('os').system('exit 7'),)"), "the sizes and the plain element type"
    yield "a size of 5,000 digits", npy("(" + "9" * 5000 + ",)"), "the sizes and the plain element type"
    yield "sizes in 5,000 brackets", npy("(" * 4000 + "2" + ")" * 4000), "the sizes and the plain element type"
    yield "objects", npy(descr="'|O'"), "the sizes and the plain element type"
    yield "a dtype that divides by zero", npy(descr="'m8[s/0]'"), "the sizes and the plain element type"
    yield "a dtype of fields", npy(descr="[('a', '<f4'), ('b', '<f4')]"), "the sizes and the plain element type"
    yield "elements of no bytes", npy("(1000000000000,)", descr="'|S0'", data=b""), "expected one array"
    yield "a header without an end", npy(header=b"{'descr': '<f4', 'shape': (2,"), "the sizes and the plain element type"
    yield "a header of a list", npy(header=b"[1, 2]"), "the sizes and the plain element type"
    yield (
        "a header that says a thing twice",
        npy(header=b"{'descr': '<f4', 'descr': '<f8', 'shape': (2,)}"),
        "the sizes and the plain element type",
    )
    yield "a version of 9", b"\x93NUMPY\x09\x00" + npy()[8:], "written by numpy.save"
    yield "a header of 65,535 bytes that are not there", b"\x93NUMPY\x01\x00\xff\xff", ""
    yield "a header of 2**32 - 1 bytes", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", ""
    yield "a byte behind the array", npy(data=bytes(9)), "expected one array"
    yield "a pickle", b"\x80\x04N.", "written by numpy.save"
    yield "nothing", b"", "written by numpy.save"


def packed(parts: list[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(made, "w", packing) as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name), data, packing)
    return made.getvalue()


def archives() -> Iterator[File]:
    """`.npz` files."""
    yield "two arrays", packed([("a.npy", npy()), ("b.npy", npy())]), None
    yield "100 MB of zeros, packed", lambda: packed([("a.npy", npy("(26214400,)", data=bytes(BOMB)))], zipfile.ZIP_DEFLATED), "become"
    yield "100 MB of zeros, by another way of packing", lambda: packed([("a.npy", bytes(BOMB))], zipfile.ZIP_LZMA), "become"
    yield "two arrays of one name", packed([("a.npy", npy()), ("a.npy", npy())]), "different names"
    yield "a name that leads out of the folder", packed([("../../a.npy", npy())]), None
    yield "a name of a whole path", packed([("/etc/passwd", npy())]), None
    yield "a flipped bit", packed([("a.npy", npy(data=b"abcdefgh"))]).replace(b"abcdefgh", b"abcdefgi"), "CRC"
    yield (
        "a password",
        packed([("a.npy", npy())])
        .replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
        .replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01"),
        "",
    )
    yield "a way of packing that nobody knows", _method(packed([("a.npy", npy())]), 77), ""
    yield "a part of 4 GiB that is not there", _sizes(packed([("a.npy", npy())]), 0xFFFFFFF0, 0xFFFFFFF0), ""
    yield "a part that takes 1 GiB of the file", _sizes(packed([("a.npy", npy())]), 1 << 30, 134), "expected parts within its"
    yield "only the end of an archive", packed([("a.npy", npy())])[-40:], ""
    yield "half an archive", packed([("a.npy", npy())])[:60], ""
    yield "an array in another archive", packed([("a.npz", packed([("a.npy", npy())]))]), "written by numpy.save"
    yield "objects", packed([("a.npy", npy(descr="'|O'"))]), "the sizes and the plain element type"


def _method(data: bytes, method: int) -> bytes:
    made = bytearray(data)
    central = made.index(b"PK\x01\x02")
    struct.pack_into("<H", made, central + 10, method)
    struct.pack_into("<H", made, made.index(b"PK\x03\x04") + 8, method)
    return bytes(made)


def _sizes(data: bytes, packed: int, size: int) -> bytes:
    made = bytearray(data)
    struct.pack_into("<II", made, made.index(b"PK\x01\x02") + 20, packed, size)
    return bytes(made)


@functools.cache
def own() -> list[tuple[str, bytes]]:
    """The parts of a model of ours: a product with a weight of [4, 3]."""
    import polyreme as paddle

    with tempfile.TemporaryDirectory() as folder:
        paddle.seed(1)
        spec = [paddle.static.InputSpec([2, 4], "float32", "x")]
        paddle.jit.save(paddle.nn.Linear(4, 3), f"{folder}/net", input_spec=spec)
        with zipfile.ZipFile(Path(folder) / "net.polyreme") as archive:
            return [(name, archive.read(name)) for name in archive.namelist()]


def changed(**manifest: Any) -> bytes:
    """The model, whose manifest says other things."""
    return packed([(n, json.dumps({**json.loads(d), **manifest}).encode() if n == "manifest.json" else d) for n, d in own()])


def replaced(part: str, data: bytes, packing: int = zipfile.ZIP_STORED) -> bytes:
    return packed([(n, data if n == part else d) for n, d in own()], packing)


def models() -> Iterator[File]:
    """`.polyreme` files."""
    parts = own()
    first = next(name for name, _ in parts if name.startswith("tensors/"))
    manifest = json.loads(dict(parts)["manifest.json"])
    module = dict(parts)["module.tir"]
    yield "a model", packed(parts), None
    yield "a model that was packed", packed(parts, zipfile.ZIP_DEFLATED), None
    for name, _ in parts:
        yield f"no {name}", packed([(n, d) for n, d in parts if n != name]), ""
    yield "every part twice", packed(parts * 2), "different names"
    yield "parts that lead out of the folder", packed([(f"../{n}", d) for n, d in parts]), ""
    yield "10,000 parts more", lambda: packed([*parts, *((f"more/{i}", b"") for i in range(10_000))]), None
    yield "100 MB of zeros as weights", lambda: replaced(first, bytes(BOMB), zipfile.ZIP_DEFLATED), "become"
    yield "100 MB of blanks as a program", lambda: replaced("module.tir", b" " * BOMB, zipfile.ZIP_DEFLATED), "become"
    yield "100 MB of blanks as a manifest", lambda: replaced("manifest.json", b" " * BOMB, zipfile.ZIP_DEFLATED), "become"
    yield "weights of 2**40 elements", replaced(first, npy("(1099511627776,)")), ""
    yield "weights of objects", replaced(first, npy("(4, 3)", "'|O'")), ""
    yield "weights of another type", replaced(first, npy("(4, 3)", "'<f8'", data=bytes(96))), "expected"
    yield "weights of another size", replaced(first, npy("(3, 3)", data=bytes(36))), ""
    for text in (b"", b"null", b"[]", b"0", b"[" * 100_000, b'{"format": 1}', b"\xff", b"9" * 10_000):
        yield f"a manifest of {text[:20]!r}", replaced("manifest.json", text), ""
    for name, values in {
        "format": [0, "1", None, [1]],
        "name": [None, "x" * 100_000],
        "sources": [None, [], [0, 0], [0, {"tensor": 9}], [0, {"tensor": 1 << 70}], [{}], [0] * 10_000],
        "written": [None, [9], [1 << 70], [0] * 1000],
        "tensors": [None, [], [1, 2], [{}] * 2, [manifest["tensors"][0]] * 100_000],
        "outputs": [
            None,
            [],
            {},
            "x",
            {"kind": "list", "keys": [], "parts": ["tensor"] * 3},
            {"kind": "set", "keys": [], "parts": []},
            {"kind": "dict", "keys": [[]], "parts": ["tensor"]},
        ],
    }.items():
        for value in values:
            refused = None if isinstance(value, str) and name == "name" else ""
            text = json.dumps(value)
            yield f"{name} of {text if len(text) < 40 else text[:20] + '…'}", changed(**{name: value}), refused
    deep: Any = "tensor"
    for _ in range(400):
        deep = {"kind": "list", "keys": [], "parts": [deep]}
    yield "outputs of 400 levels", changed(outputs=deep), None
    yield "a program of nothing", replaced("module.tir", b""), ""
    yield "a program that is no UTF-8", replaced("module.tir", b"\xff\xfe"), ""
    yield "a program of 100,000 brackets", replaced("module.tir", b"[" * 100_000), ""
    yield "a program of another one", replaced("module.tir", module.replace(b"4x3", b"4x5")), ""
    huge = module.replace(b"return", b"%k = nn.full {value = 1.0, shape = [1099511627776, 1099511627776], dtype = f32}\n    return", 1)
    yield "a program with a tensor of 2**80", replaced("module.tir", huge), None
    constant = module.replace(b"return", b"%k = nn.constant {value = dense<0> : tensor<100000x100000x100xi64>}\n    return", 1)
    yield "a program with a constant of 8 TB", replaced("module.tir", constant), ""


def hostile() -> Iterator[tuple[str, dict[str, Any], str | None]]:
    for suffix, subject in ((".npy", arrays), (".npz", archives), (".polyreme", models)):
        for name, content, expected in subject():
            yield f"{suffix}: {name}", {suffix: content}, expected
