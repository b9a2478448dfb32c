"""Hostile files of weights: `.pdiparams`, pickles, safetensors, by what they try."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.parts import varint

if TYPE_CHECKING:
    from tests.hostile.pir import File


def tensor(shape: list[int], data: bytes | None = None, code: int = 5, levels: bytes = b"", count: int = 0) -> bytes:
    """A tensor of a `.pdiparams`, float32 if nothing else is said."""
    desc = bytes([0x08, code]) + b"".join(b"\x10" + varint(d) for d in shape)
    numbers = bytes(4 * max(0, int(np.prod(shape, dtype=object)))) if data is None else data
    return struct.pack("<IQ", 0, count) + levels + struct.pack("<Ii", 0, len(desc)) + desc + numbers


def parameters() -> Iterator[File]:
    """For a program with one parameter, float32[2]."""
    good = tensor([2])
    yield "what the program says", good, None
    yield "nothing", b"", "expected 1 tensors"
    yield "one byte more", good + b"\0", "expected the end"
    yield "the tensor twice", good * 2, "expected the end"
    yield "the tensor 10,000 times", lambda: good * 10_000, "expected the end"
    yield "one byte less", good[:-1], "bytes for float32[2]"
    yield "half a description", good[:22], "bytes"
    yield "a product that wraps to 8", tensor([1 << 32, 1 << 32, 2], bytes(8)), "sizes that memory can hold"
    yield "a product that wraps to 0", tensor([1 << 32, 1 << 32], b""), "sizes that memory can hold"
    yield "2**40 elements of no data", tensor([1 << 40], b""), "but 0 are left"
    yield "no elements of 2**62", tensor([0, 1 << 62], b""), "sizes that memory can hold"
    yield "a negative size", tensor([-2], bytes(8)), "no negative size"
    yield "a negative size twice", tensor([-1, -2], bytes(8)), "no negative size"
    yield "another size", tensor([3]), "expected"
    yield "a size more", tensor([2, 1]), "expected"
    yield "no size", tensor([]), "expected"
    yield "60 sizes", tensor([1] * 60), "at most 9 sizes"
    for code, name in ((0, "bool"), (2, "int32"), (3, "int64"), (6, "float64"), (4, "float16"), (22, "bfloat16")):
        widths = {0: 1, 2: 4, 3: 8, 6: 8, 4: 2, 22: 2}
        yield f"{name} where float32 is said", tensor([2], bytes(2 * widths[code]), code), "expected"
    yield "a dtype that is none", tensor([2], bytes(8), 99), "the number of a data type"
    yield "a dtype of containers", tensor([2], bytes(8), 7), "the number of a data type"
    yield "a level of detail", tensor([2], None, 5, struct.pack("<Q", 16) + struct.pack("<QQ", 0, 2), 1), None
    yield "2**63 levels of detail", tensor([2], None, 5, b"", (1 << 63)), "levels of detail"
    yield "a level of 2**63 bytes", tensor([2], None, 5, struct.pack("<Q", 1 << 63), 1), "a level of detail"
    yield "a level of 3 bytes", tensor([2], None, 5, struct.pack("<Q", 3) + b"abc", 1), "of 8 bytes"
    yield "zeros", bytes(1000), ""
    yield "a pickle", pickle.dumps({"w": [1.0, 2.0]}), "expected"


def _text(value: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value


def _doubled(count: int, first: bytes = b"K\x01") -> bytes:
    return first + b"".join(b"q%ch%c\x86" % (i, i) for i in range(count))


def _array(shape: bytes, code: bytes, numbers: bytes) -> bytes:
    start = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + _text(b"b") + b"tR(K\x01"
    state = b"cnumpy\ndtype\n" + _text(code) + b"\x85R(K\x03" + _text(b"<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    return start + shape + state + b"T" + struct.pack("<I", len(numbers)) + numbers + b"tb."


REFUSED = "cannot read the pickle"


class _Calls:
    def __init__(self, function: Any, *arguments: Any):
        self.made = function, arguments

    def __reduce__(self) -> Any:
        return self.made


def pickles() -> Iterator[File]:
    import os
    import subprocess

    yield "an array of two", _array(b"K\x02\x85", b"f4", bytes(8)), None
    for function, arguments in (
        (os.system, ("exit 7",)),
        (eval, ("1/0",)),
        (exec, ("x = 1",)),
        (subprocess.Popen, (["false"],)),
        (__import__, ("this",)),
        (getattr, ({}, "pop")),
        (open, ("/etc/passwd",)),
        (bytearray, (1 << 40,)),
        (np.zeros, ((1 << 40,),)),
        (pickle.loads, (b"N.",)),
    ):
        for protocol in (0, 2, 4):
            if protocol == 2 or function in (os.system, eval):
                name = getattr(function, "__name__", "")
                yield (
                    f"a call of {name} by protocol {protocol}",
                    pickle.dumps({"w": _Calls(function, *arguments)}, protocol),
                    REFUSED if function is eval or not protocol else "nothing of it was run",
                )
    yield "an instance of a class", b"(" + _text(b"1/0") + b"ibuiltins\neval\n.", "expected an instruction"
    yield "a new object", b"\x80\x02cbuiltins\nobject\n)\x81.", ""
    yield "a persistent id", b"\x80\x02K\x01Q.", "expected an instruction"
    yield "an extension", b"\x80\x02\x82\x01.", "expected an instruction"
    yield "a buffer from outside", b"\x80\x05\x97.", "expected an instruction"
    for place, content in {
        "as a value": b"\x80\x02}" + _text(b"w") + _doubled(60) + b"s.",
        "as a key": b"\x80\x02}" + _doubled(60) + b"K\x01s.",
        "in a set": b"\x80\x04\x8f(" + _doubled(60) + b"\x90.",
        "alone": b"\x80\x02" + _doubled(60) + b".",
        "as a shape": _array(_doubled(50), b"f4", b""),
    }.items():
        yield f"a tuple of 2**60 leaves {place}", content, ""
    yield "a list in itself", b"\x80\x02]q\x00h\x00a.", "holds itself"
    yield "a dict in itself", b"\x80\x02}q\x00" + _text(b"a") + b"h\x00s.", "holds itself"
    yield "lists 100,000 deep", b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "levels of nesting"
    yield "tuples 100,000 deep", b"\x80\x02)" + b"\x85" * 100_000 + b".", "levels of nesting"
    yield (
        "a list of 100,000 a thousand times",
        lambda: b"\x80\x02](" + b"K\x01" * 100_000 + b"eq\x000](" + b"h\x00" * 1000 + b"e.",
        "values once all",
    )
    yield (
        "an array named a million times",
        lambda: b"\x80\x02](" + _array(b"K\x02\x85", b"f4", bytes(8))[2:-1] + b"q\x01" + b"h\x01" * 1_000_000 + b"e.",
        None,
    )
    yield "a whole number of 2**31 bytes", b"\x80\x02\x8b\xff\xff\xff\x7f.", ""
    yield "a text of 2**63 bytes", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b".", ""
    yield "a frame of 2**60 bytes", b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"N.", None
    yield "2**40 elements of 8 bytes", _array(b"\x8a\x06\x00\x00\x00\x00\x00\x01\x85", b"f4", bytes(8)), "bytes for an array"
    yield "a size below zero", _array(b"J\xff\xff\xff\xff\x85", b"f4", b""), "expected a shape"
    yield "no elements of 2**62", _array(b"(K\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40t", b"f4", b""), ""
    for code in (b"O", b"m8[s/0]", b",", b"(1,", b",".join([b"f4"] * 10_000), b"V99999999999", b"S9999999999", b"i3", b""):
        yield f"an element type of {code[:12].decode()!r}", _array(b"K\x01\x85", code, bytes(8)), "a plain element type"
    yield "a memo of 2**32 - 1", b"\x80\x02K\x01r\xff\xff\xff\xff.", None
    yield "a memo that is not there", b"\x80\x02h\x05.", ""
    yield "an empty stack", b"\x80\x020.", ""
    yield "two values", b"\x80\x02K\x01K\x02.", "one value at the end"
    yield "no end", b"\x80\x02K\x01", "exhausted before"
    yield "nothing", b"", ""
    yield "a protocol of 99", b"\x80\x63N.", None
    yield (
        "cut parts without a list",
        pickle.dumps({"UnpackBigParamInfor@@": {"w": {"slices": None, "OriginShape": (1 << 40,)}}}, 2),
        "the parts of an array",
    )
    yield (
        "cut parts of another size",
        pickle.dumps({"UnpackBigParamInfor@@": {"w": {"slices": ["a"], "OriginShape": (1 << 40,)}}, "a": np.zeros(2)}, 2),
        "the parts of an array",
    )
    yield (
        "cut parts that are the table",
        pickle.dumps(
            {
                "UnpackBigParamInfor@@": {"w": {"slices": ["StructuredToParameterName@@"], "OriginShape": (2,)}},
                "StructuredToParameterName@@": {},
            },
            2,
        ),
        "",
    )


def _safetensors(header: Any, numbers: bytes = bytes(8), size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + numbers


def safetensors() -> Iterator[File]:
    def entry(shape: Any = (2,), dtype: Any = "F32", offsets: Any = (0, 8)) -> Any:
        return {"dtype": dtype, "shape": shape, "data_offsets": offsets}

    yield "a tensor", _safetensors({"w": entry()}), None
    yield "a header of 2**63 bytes", _safetensors({"w": entry()}, size=1 << 63), "tells of a header"
    yield "a header that ends early", _safetensors({"w": entry()}, size=10), "cannot be read"
    yield "a header 100,000 deep", _safetensors(b"[" * 100_000), "cannot be read"
    yield "a header of a list", _safetensors([]), "no object"
    yield "a name twice", _safetensors(b'{"w": 1, "w": 2}'), "stands twice"
    yield "an entry of a number", _safetensors({"w": 7}), "tells wrongly of 'w'"
    yield "a product that wraps", _safetensors({"w": entry([1 << 32, 1 << 32, 2])}), "tells wrongly of 'w'"
    yield "a negative size", _safetensors({"w": entry([-1, -2])}), "tells wrongly of 'w'"
    yield "a size of true", _safetensors({"w": entry([True, 2])}), "tells wrongly of 'w'"
    yield "a dtype that is none", _safetensors({"w": entry(dtype="F128")}), "tells wrongly of 'w'"
    yield "a dtype of a list", _safetensors({"w": entry(dtype=[])}), "tells wrongly of 'w'"
    yield "offsets that overlap", _safetensors({"v": entry(), "w": entry()}), "neither gaps nor overlaps"
    yield "offsets backwards", _safetensors({"w": entry(offsets=[8, 0])}), ""
    yield "offsets below zero", _safetensors({"w": entry(offsets=[-8, 0])}), ""
    yield "a gap", _safetensors({"w": entry(offsets=[8, 16])}, bytes(16)), "neither gaps nor overlaps"
    yield "numbers that nobody names", _safetensors({"w": entry()}, bytes(16)), "bytes of numbers"
    yield "a name that leads out of the folder", _safetensors({"../../w": entry()}), None
    yield "70 axes", _safetensors({"w": entry([1] * 69 + [2])}), ""
    yield "nothing", b"", "only 0 bytes"


def hostile() -> Iterator[tuple[str, dict[str, Any], str | None]]:
    from tests.hostile.pir import data, fetch, kind, made, parameter, program

    net = program([data(1, [2]), parameter(2, "w", [2]), made("1.add", [1, 2], 3, kind([2])), fetch(3)])
    for name, content, expected in parameters():
        yield f"parameters: {name}", {".json": net, ".pdiparams": content}, expected
    for name, content, expected in pickles():
        yield f"pickles: {name}", {".pdparams": content}, expected
    for name, content, expected in safetensors():
        yield f"safetensors: {name}", {".safetensors": content}, expected
