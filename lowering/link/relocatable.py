"""Libraries that a program's own linker takes in: one object file, or an archive of several.

In a shared library only the C functions are seen. Objects of two models may meet in one program, so here all other names begin with the
model's own.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.link.shared_library import link_relocatable
from polyreme.lowering.machines.targets import Target

__all__ = ["archive", "link_object", "own_names"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS, _LOCAL, _UNDEFINED = 2, 0, 0


def own_names(objects: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """The objects with each name that they define and others see, but for `NAME_…`, as `NAME__…`."""
    shared = {symbol for code in objects.values() for symbol in defined(code) if not symbol.startswith(f"{name}_")}
    return {f"{name}_{file}": _renamed(code, shared, f"{name}__") for file, code in objects.items()}


def defined(code: bytes) -> list[str]:
    """The names that an object gives to others."""
    table, names, _ = _tables(code)
    found = []
    for at in range(table[4], table[4] + table[5], _SYMBOL.size):
        text, info, _, section, *_ = _SYMBOL.unpack_from(code, at)
        if info >> 4 != _LOCAL and section != _UNDEFINED:
            found.append(_text(code, names[4] + text))
    return found


def _renamed(code: bytes, names: Collection[str], start: str) -> bytes:
    """An object in which each of `names` has `start` before it: the texts stand in a new table at the end, the old ones first."""
    table, texts, place = _tables(code)
    made = bytearray(code)
    new = bytearray(code[texts[4] : texts[4] + texts[5]])
    for at in range(table[4], table[4] + table[5], _SYMBOL.size):
        text, info, *rest = _SYMBOL.unpack_from(code, at)
        name = _text(code, texts[4] + text)
        if info >> 4 != _LOCAL and name in names:
            _SYMBOL.pack_into(made, at, len(new), info, *rest)
            new += f"{start}{name}".encode() + b"\0"
    made += bytes(-len(made) % 16)
    fields = list(texts)
    fields[4], fields[5] = len(made), len(new)
    _SECTION.pack_into(made, place, *fields)
    return bytes(made + new)


def _tables(code: bytes) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The headers of the sections with the symbols and with their texts, and where the latter header stands."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise PolyremeError("expected an object file of 64-bit ELF to make a library of", code="E0806")
    fields = _HEADER.unpack_from(code)
    start, size, count = fields[6], fields[11], fields[12]
    headers = [_SECTION.unpack_from(code, start + size * i) for i in range(count)]
    table = next(h for h in headers if h[1] == _SYMBOLS)
    return table, headers[table[6]], start + size * table[6]


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


def link_object(objects: Mapping[str, bytes], target: Target) -> bytes:
    """The objects as a single one."""
    return link_relocatable(objects, target)


def archive(objects: Mapping[str, bytes]) -> bytes:
    """An archive of objects, with the index that linkers ask which of them has a name."""
    files = {file: code + b"\n" * (len(code) % 2) for file, code in objects.items()}
    long = b"".join(f"{file}/\n".encode() for file in files)
    long += b"\n" * (len(long) % 2)
    seen = [(file, symbol) for file, code in objects.items() for symbol in defined(code)]
    texts = b"".join(symbol.encode() + b"\0" for _, symbol in seen)
    index_bytes = 4 + 4 * len(seen) + len(texts)
    at = 8 + 60 + index_bytes + index_bytes % 2 + 60 + len(long)
    members, places, offset = [], {}, 0
    for file, code in files.items():
        places[file] = at
        members += [_member(f"/{offset}", len(objects[file])), code]
        at += 60 + len(code)
        offset += len(file) + 2
    if at >= 1 << 32:
        raise PolyremeError("expected less than 4 GiB of code and weights in an archive: keep the weights beside it", code="E0806")
    index = struct.pack(f">I{len(seen)}I", len(seen), *(places[file] for file, _ in seen)) + texts
    return b"".join([b"!<arch>\n", _member("/", len(index)), index, b"\n" * (len(index) % 2), _member("//", len(long)), long, *members])


def _member(name: str, size: int) -> bytes:
    # Neither times nor owners: equal models give equal bytes.
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{size:<10}`\n".encode()
