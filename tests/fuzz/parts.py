"""Mutations of the parts that model files are made of: bytes, JSON, protobuf messages, pickles, archives.

Each takes a source of random numbers and the bytes of a file, and gives other bytes; one that does not fit what it was given leaves it as
it is.
"""

from __future__ import annotations

import io
import json
import pickletools
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

LONGEST = 1 << 20  # bytes that a mutated file has at most

NUMBERS = [
    0, 1, -1, 2, 3, 7, 8, 9, 16, 31, 63, 64, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31,
    -(1 << 31),
    (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 48, (1 << 63) - 1, 1 << 63, -(1 << 63), (1 << 64) - 1, 1 << 64, 10**30, -5, -100,
]  # fmt: skip
FLOATS = [0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf"), 3.0, 1e19]
TEXTS = [
    "", "x", "x" * 5000, "\0", "é\u2028漢", "\ud800", "../../etc/passwd", "%s%n", "NaN", "INF", "-INF", "float32", "bool", "undefined",
    "0.t_f32",
    "0.t_i64", "0.t_bool", "0.t_vec", "0.a_i32", "0.a_f32", "0.a_str", "0.a_array", "0.a_bool", "1.a_intarray", "1.a_scalar", "1.a_dtype",
    "p",
    "2.yield", "builtin.split", "0.split", "0.combine", "1.", ".", "1.if", "1.while", "1.fetch", "1.data", "NCHW", "NHWC",
    "nearest", "VALID",
]  # fmt: skip


# --- bytes


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if made:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def cut(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.7 else data[at:]


def move_bytes(rng: random.Random, data: bytes) -> bytes:
    """Take some away, repeat them, or put them somewhere else."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((1, 2, 4, 8, 30, 300)))
    match rng.randrange(3):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] * rng.choice((1, 2, 20)) + data[end:]
        case _:
            at = rng.randrange(len(data) + 1)
            return data[:at] + data[start:end] + data[at:]


def write_a_number(rng: random.Random, data: bytes) -> bytes:
    """A number where one may be, of four or eight bytes."""
    width = rng.choice((1, 2, 4, 8))
    if len(data) < width:
        return data
    at = rng.randrange(len(data) - width + 1)
    return data[:at] + (rng.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, "little") + data[at + width :]


BYTES = [flip_bits, flip_bits, cut, move_bytes, write_a_number]


# --- JSON


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (holder, key) in it."""
    waiting = [value]
    while waiting:
        held = waiting.pop()
        for key, item in list(held.items()) if isinstance(held, dict) else list(enumerate(held)) if isinstance(held, list) else ():
            yield held, key
            waiting.append(item)


def _other_number(rng: random.Random, value: Any) -> Any:
    match rng.randrange(5):
        case 0:
            return value + rng.choice((-1, 1, 2))
        case 1:
            return -value
        case 2:
            return rng.choice(FLOATS)
        case _:
            return rng.choice(NUMBERS)


def _nested(rng: random.Random, value: Any) -> Any:
    for _ in range(rng.choice((2, 9, 40, 300))):
        value = rng.choice(([value], {"#": "0.a_array", "D": [value]}))
    return value


def change_json(rng: random.Random, root: Any) -> Any:
    """One change: another type, a huge number, a part left out, repeated, moved, put in the place of another one, or nested deeply."""
    found = list(places(root))
    if not found:
        return rng.choice([None, [], {}, 0, "", [root]])
    # Half of the changes are to leaves of one name, so that those which are few (the sizes, an attribute) are met too.
    if rng.random() < 0.5:
        names = sorted({key for _, key in found if isinstance(key, str)})
        name = rng.choice(names or [None])
        found = [place for place in found if place[1] == name] or found
    holder, key = rng.choice(found)
    value = holder[key]
    others = [h[k] for h, k in found]
    match rng.randrange(12):
        case 0 if isinstance(holder, (dict, list)):
            del holder[key]
        case 1 if isinstance(holder, list):
            holder[key:key] = [value] * rng.choice((1, 1, 2, 30))
        case 2 if isinstance(holder, list):
            other = rng.randrange(len(holder))
            holder[key], holder[other] = holder[other], holder[key]
        case 3:
            holder[key] = rng.choice(others)
        case 4:
            holder[key] = rng.choice([None, True, False, 0, 1.5, "", "x", [], {}, [[]], [1, "a"], {"#": "0.a_f32"}, {"%": 0}])
        case 5:
            holder[key] = _nested(rng, value)
        case 6 if isinstance(holder, dict) and isinstance(key, str):
            holder[rng.choice([key + "x", *map(str, holder)])] = holder.pop(key)
        case _ if isinstance(value, bool):
            holder[key] = not value
        case _ if isinstance(value, (int, float)):
            holder[key] = _other_number(rng, value)
        case _ if isinstance(value, str):
            same = [v for v in others if isinstance(v, str)]
            holder[key] = rng.choice(TEXTS if rng.random() < 0.4 else same)
        case _ if isinstance(value, list):
            numbers = [rng.choice(NUMBERS) for _ in range(rng.randrange(12))]
            holder[key] = rng.choice([value * 2, value[:-1], value[::-1], [*value, *value[-1:]], numbers])
        case _:
            same = [v for v in others if type(v) is type(value)]
            holder[key] = rng.choice(same)
    return root


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """The file after a few changes of its parts. Parts may be shared by then, and so are copied now and then."""
    try:
        root = json.loads(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            root = change_json(rng, root)
            text = json.dumps(root)
            if len(text) > LONGEST:
                return data
            root = json.loads(text)
    except (ValueError, RecursionError):
        return data
    return text.encode("utf-8", "surrogatepass")


# --- protobuf


Node = list[Any]  # [field, wire type, value]: a number, bytes, or a list of such


def varint(value: int) -> bytes:
    value %= 1 << 64
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than 64 bits")


def read_wire(data: bytes, depth: int = 0) -> list[Node] | None:
    """A message as fields, those that can be read as messages read too; None if the bytes are none."""
    found: list[Node] = []
    at = 0
    try:
        while at < len(data):
            tag, at = _read_varint(data, at)
            if not 0 < tag >> 3 < 64:
                return None
            kind = tag & 7
            if kind == 0:
                value, at = _read_varint(data, at)
                found.append([tag >> 3, 0, value])
            elif kind == 2:
                size, at = _read_varint(data, at)
                if at + size > len(data):
                    return None
                held = data[at : at + size]
                inner = read_wire(held, depth + 1) if size and depth < 12 else None
                found.append([tag >> 3, 2, held if inner is None else inner])
                at += size
            elif kind in (1, 5):
                width = 8 if kind == 1 else 4
                if at + width > len(data):
                    return None
                found.append([tag >> 3, kind, data[at : at + width]])
                at += width
            else:
                return None
    except (IndexError, ValueError):
        return None
    return found


def write_wire(nodes: list[Node]) -> bytes:
    parts = []
    for field, kind, value in nodes:
        parts.append(varint(field << 3 | kind))
        if kind == 0:
            parts.append(varint(value))
            continue
        held = write_wire(value) if isinstance(value, list) else value
        parts += [varint(len(held)), held] if kind == 2 else [held]
    return b"".join(parts)


def mutate_wire(rng: random.Random, data: bytes) -> bytes:
    """A protobuf message after a few changes: numbers, texts, fields left out, repeated, moved and renumbered, other wire types, wrong
    lengths, messages within themselves.
    """
    root = read_wire(data)
    if not root:
        return data
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        lists = [root]
        for nodes in lists:
            lists += [node[2] for node in nodes if isinstance(node[2], list)]
        nodes = rng.choice([nodes for nodes in lists if nodes] or [root])
        if not nodes:
            break
        at = rng.randrange(len(nodes))
        field, kind, value = nodes[at]
        match rng.randrange(11):
            case 0:
                del nodes[at]
            case 1:
                nodes[at:at] = [nodes[at]] * rng.choice((1, 1, 3, 100))
            case 2:
                other = rng.randrange(len(nodes))
                nodes[at], nodes[other] = nodes[other], nodes[at]
            case 3:
                nodes[at] = [rng.randrange(1, 30), kind, value]
            case 4:
                other_kinds: list[Node] = [[field, 0, rng.choice(NUMBERS)], [field, 2, b"\x00\xff" * rng.randrange(4)]]
                nodes[at] = rng.choice([*other_kinds, [field, 5, b"\0\0\xc0\x7f"], [field, 1, bytes(8)], [field, 3, b""]])
            case 5:
                inner: Any = value if isinstance(value, list) else [[field, kind, value]]
                for _ in range(rng.choice((1, 3, 20, 200))):
                    inner = [[field, 2, inner]]
                nodes[at] = inner[0]
            case 6 if kind == 2:
                held = write_wire(value) if isinstance(value, list) else value
                # A field of its own with a wrong length, as the bytes of one without a length.
                wrong = varint(field << 3 | 2) + varint(max(0, len(held) + rng.choice((-1, 1, 5, 1000, 1 << 40)))) + held
                nodes[at] = [1, 5, wrong]
            case 7:
                field, kind, value = rng.choice(rng.choice([nodes for nodes in lists if nodes] or [root]))
                nodes[at] = [field, kind, write_wire(value) if isinstance(value, list) else value]  # a copy: it may hold this place
            case _ if kind == 0:
                nodes[at] = [field, 0, rng.choice([*NUMBERS, value + 1, value - 1])]
            case _ if isinstance(value, list):
                nodes[at] = [field, kind, write_wire(value)[: rng.randrange(8)]]
            case _ if isinstance(value, bytes):
                same = [node[2] for ns in lists for node in ns if isinstance(node[2], bytes)]
                nodes[at] = [field, kind, rng.choice([*same, rng.choice(TEXTS).encode("utf-8", "surrogatepass"), flip_bits(rng, value)])]
        if len(made := write_wire(root)) > LONGEST:
            return data
        root = read_wire(made) or root
    return made


# --- the file of parameters


def _tensors(data: bytes) -> list[bytes]:
    """The pieces of a combined file, by the descriptions in it."""
    widths = {0: 1, 1: 2, 2: 4, 3: 8, 4: 2, 5: 4, 6: 8, 20: 1, 21: 1, 22: 2, 23: 8, 24: 16}
    found, at = [], 0
    while at + 20 <= len(data):
        (size,) = struct.unpack_from("<i", data, at + 16)
        desc = read_wire(data[at + 20 : at + 20 + size]) if 0 < size < 200 else None
        if not desc:
            break
        elements = 1
        for field, kind, value in desc:
            if field == 2 and kind == 0:
                elements *= value
        end = at + 20 + size + elements * widths.get(desc[0][2] if isinstance(desc[0][2], int) else -1, 1)
        if end > len(data):
            break
        found.append(data[at:end])
        at = end
    return found


def mutate_parameters(rng: random.Random, data: bytes) -> bytes:
    """Another count, version, number of levels, size, element type or order of tensors."""
    tensors = _tensors(data)
    if not tensors:
        return rng.choice(BYTES)(rng, data)
    at = rng.randrange(len(tensors))
    made = bytearray(tensors[at])
    (size,) = struct.unpack_from("<i", made, 16)
    match rng.randrange(8):
        case 0:
            struct.pack_into("<I", made, rng.choice((0, 12)), rng.choice(NUMBERS) % (1 << 32))
        case 1:
            struct.pack_into("<Q", made, 4, rng.choice(NUMBERS) % (1 << 64))
        case 2:
            struct.pack_into("<i", made, 16, rng.choice((size - 1, size + 1, 0, -1, 1 << 30, -(1 << 31))))
        case 3:
            desc = mutate_wire(rng, bytes(made[20 : 20 + size]))
            made[20 : 20 + size] = desc
            struct.pack_into("<i", made, 16, len(desc))
        case 4:
            del tensors[at]
            return b"".join(tensors)
        case 5:
            return b"".join([*tensors[:at], *tensors[at : at + 1] * 2, *tensors[at + 1 :]])
        case 6:
            rng.shuffle(tensors)
            return b"".join(tensors)
        case _:
            # The numbers themselves: NaN, infinities, values that round to others.
            width = min(8, len(made) - 20 - size)
            if width > 0:
                place = rng.randrange(20 + size, len(made) - width + 1)
                made[place : place + width] = rng.choice((b"\xff" * 8, b"\0\0\x80\x7f" * 2, b"\0\0\x80\xff" * 2, b"\1\0\0\0" * 2))[:width]
    tensors[at] = bytes(made)
    return b"".join(tensors)


# --- pickles


INSTRUCTIONS = [
    b"cos\nsystem\n", b"cbuiltins\neval\n", b"R", b"b", b"o", b"(", b"t", b"}", b"u", b"h\x00", b"\x94", b"K\x05", b"N", b"\x8a\xff", b"Q",
    b"\x81",
]  # fmt: skip


def mutate_pickle(rng: random.Random, data: bytes) -> bytes:
    """Instructions left out, repeated, swapped, or in the place of others; names of functions among them."""
    try:
        starts = [position for _, _, position in pickletools.genops(data)]
    except (ValueError, UnicodeDecodeError, OverflowError):  # by an earlier mutation
        return rng.choice(BYTES)(rng, data)
    end = data.index(b".", starts[-1]) + 1
    ops = [data[a:b] for a, b in zip(starts, [*starts[1:], end], strict=True)]
    for _ in range(rng.choice((1, 1, 2, 5))):
        i, j = rng.randrange(len(ops)), rng.randrange(len(ops))
        match rng.randrange(6):
            case 0:
                del ops[i]
            case 1:
                ops[i:i] = [ops[i]] * rng.choice((1, 2, 500))
            case 2:
                ops[i], ops[j] = ops[j], ops[i]
            case 3:
                ops[i] = ops[j]
            case 4:
                ops[i:i] = [rng.choice(INSTRUCTIONS)]
            case _:
                ops[i] = flip_bits(rng, ops[i])
        if not ops:
            break
    return b"".join(ops) + data[end:]


# --- archives


def mutate_archive(rng: random.Random, data: bytes) -> bytes:
    """One of the parts after a change, with checksums that are right; or a part left out, doubled or renamed."""
    from tests.fuzz.texts import MUTATIONS

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = [(name, archive.read(name)) for name in archive.namelist()]
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError):  # by an earlier mutation
        parts = []
    if not parts:
        return rng.choice(BYTES)(rng, data)
    at = rng.randrange(len(parts))
    name, held = parts[at]
    match rng.randrange(8):
        case 0:
            del parts[at]
        case 1:
            parts[at] = rng.choice(["../x", name + "x", *(other for other, _ in parts)]), held
        case 2:
            parts.insert(at, parts[at])
        case _ if name.endswith(".json"):
            parts[at] = name, mutate_json(rng, held)
        case _ if name.endswith(".tir"):
            parts[at] = name, rng.choice(MUTATIONS)(rng, held.decode(errors="replace")).encode("utf-8", "surrogatepass")
        case _:
            head = held[:200]
            parts[at] = name, rng.choice(BYTES)(rng, head) + held[200:]
    made = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(made, "w", packing) as archive:
        for name, held in parts:
            with warnings.catch_warnings(action="ignore"):  # of two parts with one name
                archive.writestr(zipfile.ZipInfo(name), held, packing)  # without the time of day
    return made.getvalue()


def mutate_header(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file with another header."""
    if len(data) < 8:
        return data
    (length,) = struct.unpack_from("<Q", data)
    header = mutate_json(rng, data[8 : 8 + length])
    size = len(header) if rng.random() < 0.8 else rng.choice(NUMBERS) % (1 << 64)
    return struct.pack("<Q", size) + header + data[8 + length :]
