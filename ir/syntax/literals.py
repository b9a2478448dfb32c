"""How types, strings, numbers and constants are spelled in the text format: each printed here is read back here.

`generic` spellings are MLIR's: a symbolic size is `?` with its expression in the type's encoding, numbers carry their type.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from polyreme.ir.attributes import Dense, SymbolRef
from polyreme.ir.diagnostics import did_you_mean
from polyreme.ir.dims import Dim, Expr, parse_dim
from polyreme.ir.types import SCALARS, BufferType, FunctionType, PendingType, ScalarType, TensorType, Type, VectorType
from polyreme.ir.verify import MAX_RANK, MAX_SIZE

# A constant of at most this many elements is written as nested lists; a larger one in the section of resources at the end of the text.
LISTED_ELEMENTS = 64
# The name of a resource that was left out.
ELIDED = "__elided__"
# Of one constant. One number may stand for all elements, so a few characters could ask for any amount of memory.
MAX_CONSTANT_BYTES = 2**31

_TYPE = re.compile(r"(?:!polyreme\.)?(tensor|pending|buffer|vector)<(.*)>\Z", re.DOTALL)
_SHAPED: dict[str, Any] = {"tensor": TensorType, "pending": PendingType, "buffer": BufferType}
_DIM = re.compile(r"(\d+|\?|[A-Za-z_][A-Za-z0-9_]*?)x")
_SYMBOL_NAME = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.-]*\Z")
_MLIR_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")


class LiteralError(ValueError):
    """A misspelt literal; `offset` is where in its text."""

    def __init__(self, message: str, offset: int = 0):
        super().__init__(message)
        self.offset = offset


# --- types


def type_text(kind: Type, generic: bool = False) -> str:
    """The type's spelling; the readable one is `str`."""
    if not generic:
        return str(kind)
    if isinstance(kind, FunctionType):
        return function_type_text(kind, generic=True)
    if not isinstance(kind, (TensorType, PendingType, BufferType)):
        return str(kind)
    prefix = "tensor" if isinstance(kind, TensorType) else f"!polyreme.{'buffer' if isinstance(kind, BufferType) else 'pending'}"
    sizes = [f'"{d}"' for d in kind.shape if isinstance(d, Expr)]
    encoding = f", [{', '.join(sizes)}]" if sizes else ""
    return f"{prefix}<{''.join('?x' if isinstance(d, Expr) else f'{d}x' for d in kind.shape)}{kind.dtype}{encoding}>"


def function_type_text(kind: FunctionType, generic: bool) -> str:
    """`(inputs) -> results`, one bare result without parentheses."""
    inputs, results = (", ".join(type_text(t, generic) for t in types) for types in (kind.inputs, kind.results))
    single = len(kind.results) == 1 and not isinstance(kind.results[0], FunctionType)
    return f"({inputs}) -> {results if single else f'({results})'}"


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Any type but a function's, in either spelling; `LiteralError` says where it is wrong."""
    if text in SCALARS:
        return SCALARS[text]
    match = _TYPE.match(text)
    if match is None:
        raise LiteralError(f"expected a type but got '{text}'")
    kind, body, start = match.group(1), match.group(2), match.start(2)
    body, comma, encoding = body.partition(", [")
    shape, dtype = _parse_shape(body, start)
    unknown = shape.count("?")
    sizes = _parse_encoding(comma + encoding, start + len(body)) if comma else []
    if unknown != len(sizes):
        raise LiteralError(f"expected an expression for each '?' but got {len(sizes)} for {unknown}", start)
    dims: list[Dim] = [sizes.pop(0) if d == "?" else d for d in shape]
    if len(dims) > MAX_RANK:
        raise LiteralError(f"expected a rank of at most {MAX_RANK} but got {len(dims)}", start)
    if any(isinstance(d, int) and not 0 <= d <= MAX_SIZE for d in dims):
        raise LiteralError(f"expected sizes from 0 to {MAX_SIZE}", start)
    if kind != "vector":
        return _SHAPED[kind](tuple(dims), dtype)
    if len(dims) != 1 or not isinstance(dims[0], int):
        raise LiteralError("expected one known number of lanes in a vector type", start)
    return VectorType(dims[0], dtype)


def _parse_shape(body: str, start: int) -> tuple[list[Any], ScalarType]:
    """The sizes in front of the element type, `?` for those in the encoding."""
    shape: list[Any] = []
    at = 0
    while body[at:] not in SCALARS:
        if body.startswith("(", at):
            end = _closing(body, at)
            if end < 0 or not body.startswith("x", end):
                raise LiteralError("expected ')x' after the size", start + at)
            shape.append(_parse_size(body[at + 1 : end - 1], start + at + 1))
            at = end + 1
            continue
        match = _DIM.match(body, at)
        if match is None:
            raise LiteralError(
                f"expected a size and 'x', or an element type, but got '{body[at:]}'{did_you_mean(body[at:], SCALARS)}", start + at
            )
        word = match.group(1)
        shape.append("?" if word == "?" else _parse_size(word, start + at))
        at = match.end()
    return shape, SCALARS[body[at:]]


def _closing(body: str, at: int) -> int:
    """The position after the parenthesis that closes the one at `at`, -1 when there is none."""
    depth = 0
    for i in range(at, len(body)):
        depth += (body[i] == "(") - (body[i] == ")")
        if depth == 0:
            return i + 1
    return -1


def _parse_encoding(text: str, offset: int) -> list[Dim]:
    try:
        sizes = json.loads(text[2:])
    except (ValueError, RecursionError):
        raise LiteralError("expected a list of sizes in quotes after the element type", offset) from None
    if not all(isinstance(s, str) for s in sizes):
        raise LiteralError("expected the sizes of the encoding in quotes", offset)
    return [_parse_size(s, offset) for s in sizes]


def _parse_size(text: str, offset: int = 0) -> Dim:
    if len(text) > 4000:
        raise LiteralError("expected a size of at most 4000 characters", offset)
    try:
        return parse_dim(text)
    except ValueError as error:
        raise LiteralError(str(error), offset) from None


def parse_size(text: str) -> Dim:
    """A size as attributes have it, `2*N+1`; `LiteralError` otherwise."""
    return _parse_size(text)


# --- strings and names


def string_text(value: str) -> str:
    """The string in quotes, with MLIR's escapes."""
    out = ['"']
    for c in value:
        if c in '"\\':
            out.append("\\" + c)
        elif c == "\n":
            out.append("\\n")
        elif c == "\t":
            out.append("\\t")
        elif c < " " or c == "\x7f" or "\x80" <= c < "\xa0" or c in "\u2028\u2029" or "\ud800" <= c <= "\udfff":
            out += (f"\\{byte:02X}" for byte in c.encode("utf-8", "surrogatepass"))
        else:
            out.append(c)
    return "".join(out) + '"'


_ESCAPE = re.compile(rb"\\(n|t|\"|\\|[0-9A-Fa-f]{2})?")
_NAMED = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def parse_string(text: str) -> str:
    """What `string_text` printed."""
    if "\\" not in text:
        return text[1:-1]

    def unescape(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        if code is None:
            raise LiteralError(r"expected \n, \t, \", \\ or two hexadecimal digits after the backslash", match.start() + 1)
        return _NAMED.get(code) or bytes.fromhex(code.decode())

    try:
        return _ESCAPE.sub(unescape, text[1:-1].encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise LiteralError("expected UTF-8 in the escapes of the string") from None


def symbol_text(name: str, generic: bool = False) -> str:
    """A function's name after `@`, in quotes where it is no plain word. To MLIR fewer names are."""
    plain = _MLIR_SYMBOL if generic else _SYMBOL_NAME
    return "@" + (name if plain.match(name) else string_text(name))


def parse_symbol(text: str) -> str:
    return parse_string(text[1:]) if text.startswith('@"') else text[1:]


# --- numbers


def float_text(value: float, generic: bool = False) -> str:
    """The shortest text that reads back as the same double; the generic form spells inf and nan by their bits."""
    if not math.isfinite(value):
        if not generic:
            return str(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X} : f64"
    text = _with_point(repr(float(value)))
    return f"{text} : f64" if generic else text


def _with_point(text: str) -> str:
    """A finite float with a point in front of any exponent, as MLIR wants it."""
    return text.replace("e", ".0e", 1) if "e" in text and "." not in text else text if "." in text else text + ".0"


def parse_bits(text: str) -> float:
    """The double that hexadecimal bits spell."""
    if len(text) > 18:
        raise LiteralError("expected at most 16 hexadecimal digits for a float")
    return float(struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0])


def value_text(value: Any, generic: bool = False, elide: int | None = None, keep: Callable[[Dense], str] | None = None) -> str:
    """An attribute value; `elide` as in `text.print_module`, `keep` as in `dense_text`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : {_integer_type(value)}" if generic else str(value)
    if isinstance(value, float):
        return float_text(value, generic)
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, Expr):
        return f'#polyreme.size<"{value}">' if generic else str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(value_text(v, generic, elide, keep) for v in value)}]"
    if isinstance(value, SymbolRef):
        return symbol_text(value.name, generic)
    if isinstance(value, Dense):
        return dense_text(value, generic, elide, keep)
    if isinstance(value, FunctionType):
        return function_type_text(value, generic)
    return type_text(value, generic)


def _integer_type(value: int) -> str:
    """The type under which MLIR can hold a whole number of any size."""
    if -(2**63) <= value < 2**63:
        return "i64"
    return "ui64" if 0 <= value < 2**64 else f"i{value.bit_length() + 1}"


# --- constants


def dense_text(value: Dense, generic: bool = False, elide: int | None = None, keep: Callable[[Dense], str] | None = None) -> str:
    """`dense<[[1.0, 2.0]]> : tensor<1x2xf32>`, with one number for equal elements.

    A constant that is too long to be listed is given to `keep`, which answers with the name of the resource that holds it; without `keep`
    its bytes stand there in hex. So is one in the generic form whose elements no decimals tell (nan, infinity). Those of more than `elide`
    elements are left out.
    """
    array = value.array
    kind = type_text(value.type, generic)
    if array.size == 0:
        return f"dense<> : {kind}"
    body = _listed(value, generic)
    if elide is not None and array.size > elide and not (body and _all_equal(array)):
        return f"dense_resource<{ELIDED}> : {kind}" if generic else f"dense<...> : {kind}"
    if body:
        return f"dense<{body}> : {kind}"
    if keep is not None and (generic or array.size > LISTED_ELEMENTS):
        return f"dense_resource<{keep(value)}> : {kind}"
    return f'dense<"0x{element_bytes(array).hex().upper()}"> : {kind}'


def element_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """The elements as MLIR's blobs have them: row-major, little end first, a bool in a byte."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() if array.dtype.itemsize > 1 else array.tobytes()


def _all_equal(array: np.ndarray[Any, Any]) -> bool:
    """Whether the elements have the same bits; a look at the first two spares most arrays the rest."""
    flat = array.reshape(-1)
    first = flat[:1].tobytes()
    return flat[1:2].tobytes() in (first, b"") and flat.tobytes() == first * array.size


def _listed(value: Dense, generic: bool) -> str:
    """The elements as text, or nothing when they are too many, or decimals do not tell them."""
    array = value.array
    flat = array.reshape(-1)
    equal = array.size > 1 and _all_equal(array)
    if not equal and array.size > LISTED_ELEMENTS:
        return ""
    if generic and array.dtype.kind not in "biu" and not np.isfinite(flat).all():
        return ""
    texts = [_element(x, array.dtype) for x in (flat[:1] if equal else flat)]
    body = texts[0] if equal else _nested(texts, array.shape)
    # Numbers in decimal cannot tell one nan from another, so the bits decide.
    return body if parse_elements(body, value.type).tobytes() == array.tobytes() else ""


def _element(x: Any, dtype: Any) -> str:
    if dtype.kind == "b":
        return "true" if x else "false"
    if dtype.kind in "iu":
        return str(x)
    if dtype.kind == "c":
        return f"({_element(x.real, x.real.dtype)}, {_element(x.imag, x.imag.dtype)})"
    return _with_point(str(x)) if np.isfinite(x) else str(x)


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    for size in reversed(shape):
        texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return texts[0]


def parse_dense(text: str, kind: Type, resources: Mapping[str, str] | None = None) -> Dense:
    """The constant of type `kind` that `dense<…>` spells, or `dense_resource<…>` names one of the `resources` for."""
    if not isinstance(kind, TensorType) or not kind.is_static:
        raise LiteralError(f"expected a tensor type with known sizes for a constant but got {kind}")
    shape = tuple(int(d) for d in kind.shape)
    if math.prod(d for d in shape if d) * kind.dtype.bytes > MAX_CONSTANT_BYTES:
        raise LiteralError(f"expected a constant of at most {MAX_CONSTANT_BYTES} bytes but got {kind}")
    if text.startswith("dense_resource"):
        name = text[len("dense_resource<") : -1]
        return Dense(_resource(parse_string(name) if name.startswith('"') else name, shape, kind, resources or {}))
    if text == "dense<...>":
        raise LiteralError(_ELIDED_MESSAGE)
    body = text[len("dense<") : -1].strip()
    if not body:
        if 0 not in shape:
            raise LiteralError(f"expected elements for {kind}")
        return Dense(np.zeros(shape, kind.dtype.np))
    return Dense.taking(_parse_bytes(body, shape, kind) if body.startswith('"') else parse_elements(body, kind))


_ELIDED_MESSAGE = (
    "expected the elements of the constant but they were elided when it was printed; print it again in full: "
    "`--full` on the command line, or print_module without `elide`"
)


def _resource(name: str, shape: tuple[int, ...], kind: TensorType, resources: Mapping[str, str]) -> np.ndarray[Any, Any]:
    """The elements of a resource, whose blob tells its alignment in front of them."""
    if name == ELIDED:
        raise LiteralError(_ELIDED_MESSAGE)
    if name not in resources:
        raise LiteralError(
            f"expected a resource '{name}' in the section at the end of the text but there is none{did_you_mean(name, resources)}"
        )
    data = _hex_bytes(resources[name])
    alignment = int.from_bytes(data[:4], "little")
    if alignment == 0 or alignment & (alignment - 1):
        raise LiteralError(f"expected '0x', four bytes that say the alignment, and elements in the resource '{name}'")
    wanted = math.prod(shape) * kind.dtype.bytes
    if len(data) - 4 != wanted:
        raise LiteralError(f"expected {wanted} bytes for {kind} but the resource '{name}' has {len(data) - 4}")
    return _from_bytes(data[4:], shape, kind)


def _parse_bytes(body: str, shape: tuple[int, ...], kind: TensorType) -> np.ndarray[Any, Any]:
    data = _hex_bytes(body)
    wanted = math.prod(shape) * kind.dtype.bytes
    if len(data) != wanted:
        raise LiteralError(f"expected {2 * wanted} hexadecimal digits in quotes after 0x for {kind} but got {len(body) - 4} characters")
    return _from_bytes(data, shape, kind)


def _hex_bytes(text: str) -> bytes:
    """What `"0x…"` spells; nothing for what is not spelt so."""
    digits = text[3:-1]
    try:
        data = bytes.fromhex(digits) if text.startswith('"0x') and text.endswith('"') else b""
    except ValueError:
        return b""
    return data if len(data) * 2 == len(digits) else b""


def _from_bytes(data: bytes, shape: tuple[int, ...], kind: TensorType) -> np.ndarray[Any, Any]:
    dtype = kind.dtype.np
    if dtype.kind == "b":
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    raw = np.frombuffer(data, dtype.newbyteorder("<") if dtype.itemsize > 1 and dtype.kind != "V" else dtype)
    return raw.astype(dtype, copy=False).reshape(shape)


_NOT_JSON = re.compile(r"\binf\b|\bnan\b|\(|\)|\b0x[0-9A-Fa-f]{1,16}\b")
_JSON = {"inf": "Infinity", "nan": "NaN", "(": "[", ")": "]"}
# A float may be spelt by its bits in hex, which is a string to JSON.
_COMPATIBLE = {"b": (bool,), "i": (int,), "u": (int,), "x": (int,), "f": (int, float, str), "c": (int, float, str)}


def parse_elements(body: str, kind: TensorType) -> np.ndarray[Any, Any]:
    """The array of nested lists of elements, or of one element for all."""
    shape = tuple(int(d) for d in kind.shape)
    is_complex = kind.dtype.kind == "c"
    try:
        if '"' in body:
            raise ValueError("strings are no elements")
        nested = json.loads(_NOT_JSON.sub(lambda m: _JSON.get(m.group()) or f'"{m.group()}"', body))
        raw = np.array(nested, dtype=object)
    except (ValueError, RecursionError):
        raise LiteralError(f"expected nested lists of elements for {kind}") from None
    full = (*shape, 2) if is_complex else shape
    if raw.shape != full and raw.shape != ((2,) if is_complex else ()):
        raise LiteralError(f"expected elements of shape {list(shape)} for {kind} but got {list(raw.shape)}")
    misfit = next((x for x in raw.flat if type(x) not in _COMPATIBLE[kind.dtype.kind]), None)
    if misfit is not None:
        raise LiteralError(
            f"expected elements of type {kind.dtype} but got {misfit if isinstance(misfit, str) else json.dumps(misfit)[:40]}"
        )
    try:
        if is_complex:
            pairs = _floats(raw, np.dtype(f"f{kind.dtype.bytes // 2}"))
            array = np.ascontiguousarray(pairs).view(kind.dtype.np)[..., 0]
        elif kind.dtype.is_float:
            array = _floats(raw, kind.dtype.np)
        else:
            array = raw.astype(kind.dtype.np)
    except (OverflowError, ValueError):
        raise LiteralError(f"expected elements that fit into {kind.dtype}") from None
    if array.shape == shape:
        return np.ascontiguousarray(array).reshape(shape)
    # One element for all. Pages of zeros are only there when they are read.
    whole = np.zeros(shape, array.dtype)
    if any(array.tobytes()):
        whole[...] = array
    return whole


def _floats(raw: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers, and strings of hex that are the bits of one, as floats."""
    bits = {i: int(x, 16) for i, x in enumerate(raw.flat) if isinstance(x, str)}
    numbers = raw
    if bits:
        numbers = raw.copy()
        numbers.flat[list(bits)] = 0.0
    with np.errstate(over="ignore"):
        array: np.ndarray[Any, Any] = numbers.astype(np.float64).astype(dtype)
    if bits:
        words = array.reshape(-1).view(f"u{dtype.itemsize}")
        for i, word in bits.items():
            words[i] = word
    return array
