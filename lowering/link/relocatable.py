"""Libraries that a program's own linker takes in: one object file, or an archive of several. Neither needs a linker here.

In a shared library only the C functions are seen. Objects of two models may meet in one program, so here all other names begin with the
model's own.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import NamedTuple

from polyreme.ir.diagnostics import PolyremeError

__all__ = ["archive", "link_object", "own_names"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ONCE = (b".riscv.attributes",)


class _Kind:
    """Kinds of sections: symbols, their texts, relocations, what takes no bytes of the file; and what only says things of the object that
    it stands in: addresses that matter.
    """

    SYMBOLS, TEXTS, RELOCATIONS, ZEROS, ADDRESSES = 2, 3, 4, 8, 0x6FFF4C03


class _NoSection:
    """Numbers of sections that a symbol is in: of none, and the first one that is none of the file's own."""

    UNDEFINED, RESERVED = 0, 0xFF00


class _Binding:
    """Who sees a symbol."""

    LOCAL, WEAK = 0, 2


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
        if info >> 4 != _Binding.LOCAL and section != _NoSection.UNDEFINED:
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
        if info >> 4 != _Binding.LOCAL and name in names:
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
    table = next(h for h in headers if h[1] == _Kind.SYMBOLS)
    return table, headers[table[6]], start + size * table[6]


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


class _Section(NamedTuple):
    """A section of the joined object; `link` and `info` are numbers there."""

    name: bytes
    fields: tuple[int, ...]
    data: bytes
    size: int
    link: int
    info: int


class _Join:
    """Objects one after the other: their sections as they are, and one table of symbols, each name in it once."""

    def __init__(self) -> None:
        self.sections: list[_Section] = []
        self.header: tuple[int, ...] = ()
        self._locals: list[tuple[bytes, int, int, int, int, int]] = []
        self._globals: dict[bytes, tuple[bytes, int, int, int, int, int]] = {}
        # A relocation names a local symbol by its number, or a global one by its name; numbers of those are known at the end.
        self._relocations: list[tuple[int, bytes, list[int | bytes]]] = []

    def add(self, code: bytes) -> None:
        """Take one object in."""
        fields = _HEADER.unpack_from(code)
        self.header = self.header or fields
        headers = [_SECTION.unpack_from(code, fields[6] + fields[11] * i) for i in range(fields[12])]
        texts = headers[fields[13]]
        names = [_text(code, texts[4] + header[0]).encode() for header in headers]
        table = next(header for header in headers if header[1] == _Kind.SYMBOLS)
        taken = {section.name for section in self.sections}
        kept = [
            i for i, header in enumerate(headers)
            if header[1] not in (0, _Kind.SYMBOLS, _Kind.TEXTS, _Kind.ADDRESSES) and not (names[i] in _ONCE and names[i] in taken)
        ]  # fmt: skip
        # The first section of a file is none.
        places = {number: 1 + len(self.sections) + i for i, number in enumerate(kept)}
        symbols = self._symbols(code, table, headers[table[6]], places)
        for number in kept:
            header = headers[number]
            data = b"" if header[1] == _Kind.ZEROS else code[header[4] : header[4] + header[5]]
            link, info = places.get(header[6], 0), header[7]
            if header[1] == _Kind.RELOCATIONS:
                self._relocations.append((len(self.sections), data, symbols))
                info = places[info]
            self.sections.append(_Section(names[number], header, data, header[5], link, info))

    def _symbols(self, code: bytes, table: tuple[int, ...], texts: tuple[int, ...], places: Mapping[int, int]) -> list[int | bytes]:
        """For each symbol of an object, what it is called by in the joined one."""
        found: list[int | bytes] = []
        for at in range(table[4], table[4] + table[5], _SYMBOL.size):
            text, info, other, section, value, size = _SYMBOL.unpack_from(code, at)
            name = _text(code, texts[4] + text).encode()
            place = (
                section if section >= _NoSection.RESERVED or section == _NoSection.UNDEFINED else places.get(section, _NoSection.UNDEFINED)
            )
            symbol = (name, info, other, place, value, size)
            if info >> 4 == _Binding.LOCAL:
                # The first symbol of an object is none.
                found.append(len(self._locals) if at > table[4] else -1)
                self._locals += [symbol] if at > table[4] else []
                continue
            found.append(name)
            known = self._globals.get(name)
            if known is None or (place != _NoSection.UNDEFINED and (known[3] == _NoSection.UNDEFINED or known[1] >> 4 == _Binding.WEAK)):
                self._globals[name] = symbol
                known = known or symbol
            # Hidden where any of them is.
            name, info, other, place, value, size = self._globals[name]
            self._globals[name] = (name, info, other | known[2] | symbol[2], place, value, size)
        return found

    def code(self) -> bytes:
        """The joined object."""
        numbers = {name: 1 + len(self._locals) + i for i, name in enumerate(self._globals)}
        for at, data, symbols in self._relocations:
            changed = bytearray()
            for offset, info, addend in _RELOCATION.iter_unpack(data):
                symbol = symbols[info >> 32]
                number = numbers[symbol] if isinstance(symbol, bytes) else symbol + 1
                changed += _RELOCATION.pack(offset, number << 32 | info & 0xFFFFFFFF, addend)
            self.sections[at] = self.sections[at]._replace(data=bytes(changed), link=1 + len(self.sections))
        texts, table = bytearray(1), bytearray(_SYMBOL.size)
        for text, info, other, place, value, size in (*self._locals, *self._globals.values()):
            table += _SYMBOL.pack(len(texts) if text else 0, info, other, place, value, size)
            texts += text + b"\0" if text else b""
        count = len(self.sections)
        sections = [
            *self.sections,
            _Section(b".symtab", (0, _Kind.SYMBOLS, *[0] * 6, 8, _SYMBOL.size), bytes(table), len(table), 2 + count, 1 + len(self._locals)),
            _Section(b".strtab", (0, _Kind.TEXTS, *[0] * 6, 1, 0), bytes(texts), len(texts), 0, 0),
        ]
        called = b"\0" + b"\0".join(dict.fromkeys((*(section.name for section in sections), b".shstrtab"))) + b"\0"
        sections.append(_Section(b".shstrtab", (0, _Kind.TEXTS, *[0] * 6, 1, 0), called, len(called), 0, 0))
        parts, headers, at = [], [bytes(_SECTION.size)], _HEADER.size
        for section in sections:
            fields = section.fields
            gap = -at % max(1, fields[8])
            parts += [bytes(gap), section.data]
            name = called.index(b"\0" + section.name + b"\0") + 1
            headers.append(_SECTION.pack(name, *fields[1:4], at + gap, section.size, section.link, section.info, *fields[8:]))
            at += gap + len(section.data)
        gap = -at % 8
        start = _HEADER.pack(*self.header[:6], at + gap, *self.header[7:12], 1 + len(sections), len(sections))
        return b"".join([start, *parts, bytes(gap), *headers])


def link_object(objects: Mapping[str, bytes]) -> bytes:
    """The objects as a single one."""
    join = _Join()
    for code in objects.values():
        join.add(code)
    return join.code()


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
