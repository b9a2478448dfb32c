"""Hostile `ProgramDesc` messages (`.pdmodel`), by what they try."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fuzz.parts import varint
from tests.hostile.pir import File

FLOAT32, LOD_TENSOR, FEED, FETCH_LIST = 5, 7, 9, 10


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def held(field: int, data: bytes, size: int | None = None) -> bytes:
    return varint(field << 3 | 2) + varint(len(data) if size is None else size) + data


def variable(
    name: str | bytes, dims: list[int] | None = None, code: int = FLOAT32, kind: int = LOD_TENSOR, persistable: bool = False
) -> bytes:
    desc = number(1, code) + b"".join(number(2, d) for d in ([4] if dims is None else dims))
    type = number(1, kind) + (held(3, held(1, desc)) if kind == LOD_TENSOR else b"")
    return held(3, held(1, name.encode() if isinstance(name, str) else name) + held(2, type) + number(3, persistable))


def slot(field: int, name: str, arguments: list[str]) -> bytes:
    return held(field, held(1, name.encode()) + b"".join(held(2, a.encode()) for a in arguments))


def attribute(name: str, kind: int, *values: bytes) -> bytes:
    return held(4, held(1, name.encode()) + number(2, kind) + b"".join(values))


def operator(type: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], *attributes: bytes) -> bytes:
    slots = b"".join(slot(1, n, a) for n, a in inputs.items()) + b"".join(slot(2, n, a) for n, a in outputs.items())
    return held(4, slots + held(3, type.encode()) + b"".join(attributes))


def block(index: int, *parts: bytes, parent: int = -1) -> bytes:
    return held(1, number(1, index) + number(2, parent) + b"".join(parts))


def feed(name: str, column: int = 0) -> bytes:
    return operator("feed", {"X": ["feed"]}, {"Out": [name]}, attribute("col", 0, number(3, column)))


def fetch(name: str, column: int = 0) -> bytes:
    return operator("fetch", {"X": [name]}, {"Out": ["fetch"]}, attribute("col", 0, number(3, column)))


ENDS = variable("feed", kind=FEED) + variable("fetch", kind=FETCH_LIST)
RELU = operator("relu", {"X": ["x"]}, {"Out": ["y"]})
XY = ENDS + variable("x") + variable("y")


def program(*parts: bytes) -> bytes:
    """One block, which is fed `x` and gives `y`."""
    return block(0, XY, feed("x"), *parts, fetch("y"))


def sub_block(number_: int) -> bytes:
    return attribute("sub_block", 8, number(12, number_))


def branch(to: int) -> bytes:
    return operator("conditional_block", {"Cond": ["c"], "Input": ["x"]}, {"Out": ["y"], "Scope": ["s"]}, sub_block(to))


def branches(count: int, twice: bool, last: int | None = None) -> bytes:
    """Blocks that each run the next one, perhaps twice: 2**count runs of the last."""
    first = block(0, XY, variable("c", [1], 0), feed("x"), feed("c", 1), RELU, branch(1), fetch("y"))
    inner = [block(i, branch(i + 1) * (1 + twice), parent=i - 1) for i in range(1, count)]
    return first + b"".join(inner) + block(count, RELU if last is None else branch(last), parent=count - 1)


def messages() -> Iterator[File]:
    """Bytes that are hardly a message."""
    good = program(RELU)
    yield "a program", good, None
    yield "nothing", b"", "expected a program with a block"
    yield "a block of nothing", held(1, b""), "fetches nothing"
    yield "a length of 2**63", b"\x0a" + varint(1 << 63) + b"x", "bytes for"
    yield "a length beyond the end", held(1, b"abc", 1000), "bytes for"
    yield "a length of 70 bits", b"\x0a" + b"\xff" * 10 + b"\x01", "at most 64 bits"
    yield "a number without an end", b"\x08" + b"\xff" * 5, "ends too early"
    for kind in (3, 4, 6, 7):
        yield f"a field of kind {kind}", bytes([1 << 3 | kind]), f"kind {kind}"
    yield "a field of number 0", b"\x00\x01", "a field number above 0"
    yield "a field of number 2**60", varint(1 << 63) + b"\x01" + good, None
    yield "a block that is a number", b"\x08\x05", "expected bytes"
    message = b""
    for _ in range(60):
        message = held(1, message)
    yield "60 messages in each other", message, ""
    message = b""
    for _ in range(60):
        message = held(30, message)
    yield "60 messages that nobody knows", good + message, None
    yield "half a program", good[: len(good) // 2], "bytes for"
    yield "two blocks 0", good + good, "expected 1 but got 0"
    yield "20,000 blocks", lambda: good + b"".join(block(i) for i in range(1, 20_000)), "at most 10000 blocks"
    yield "1,000,000 blocks of nothing", lambda: good + held(1, b"") * 1_000_000, "at most 10000 blocks"
    yield "300,000 operators of nothing", lambda: good + block(1, held(4, b"") * 300_000), ""
    yield "9,000 blocks of 100 operators of nothing", lambda: good + b"".join(block(i, held(4, b"") * 100) for i in range(1, 9000)), ""
    yield "1,000,000 operators of nothing, in blocks", lambda: good + b"".join(block(i, held(4, b"") * 150_000) for i in range(1, 8)), ""
    yield "300,000 variables of nothing", lambda: held(1, number(1, 0) + held(3, b"") * 300_000), "declared twice"
    yield (
        "a million sizes in a row",
        lambda: block(0, held(3, held(1, b"x") + held(2, number(1, 7) + held(3, held(1, number(1, 5) + held(2, b"\x01" * 1_000_000)))))),
        "at most 9 sizes",
    )
    yield "a variable of 10,000 letters", block(0, variable("x" * 10_000)), "bytes of text"
    yield "a variable that is no UTF-8", block(0, variable(b"\xff\xfe")), "UTF-8"
    yield "a variable twice", block(0, variable("x"), variable("x")), "declared twice"
    yield "a block of another number", held(1, number(1, 5)), "expected 0 but got 5"
    yield "a parent of 2**40", held(1, number(2, 1 << 40)), "the number of a block"


def graphs() -> Iterator[File]:
    yield "an operator that nobody knows", program(operator("rellu", {"X": ["x"]}, {"Out": ["y"]})), "did you mean"
    yield "a variable that nobody writes", program(operator("relu", {"X": ["z"]}, {"Out": ["y"]})), "written before it is read"
    yield (
        "two that read each other",
        program(operator("relu", {"X": ["b"]}, {"Out": ["a"]}), operator("relu", {"X": ["a"]}, {"Out": ["b"]}), RELU),
        "written before it is read",
    )
    yield "a variable that is written in place", program(operator("relu", {"X": ["x"]}, {"Out": ["x"]}), RELU), None
    yield "2,000 writes of one variable", program(operator("elementwise_add", {"X": ["x"], "Y": ["x"]}, {"Out": ["x"]}) * 2000, RELU), None
    yield "a slot of 10,000 names", program(operator("relu", {"X": ["x"] * 10_000}, {"Out": ["y"]})), "'relu'"
    yield "a slot twice", program(held(4, slot(1, "X", ["x"]) * 2 + slot(2, "Out", ["y"]) + held(3, b"relu"))), None
    yield "10,000 slots", program(held(4, b"".join(slot(1, f"X{i}", ["x"]) for i in range(10_000)) + held(3, b"relu"))), ""
    yield "no slots", program(operator("relu", {}, {"Out": ["y"]})), "'relu'"
    yield "no results", program(operator("relu", {"X": ["x"]}, {})), "'y'"
    yield "results of another count", program(operator("relu", {"X": ["x"]}, {"Out": ["y", "z"]})), "expected 2 results"
    yield "a feed of nothing", block(0, XY, operator("feed", {}, {}), fetch("x")), "expected one variable"
    yield "a feed of what is not declared", block(0, ENDS, feed("q"), fetch("q")), "a dense tensor"
    yield "two feeds of one variable", block(0, XY, feed("x"), feed("x", 1), RELU, fetch("y")), None
    yield (
        "a column that is a text",
        block(0, XY, operator("feed", {"X": ["feed"]}, {"Out": ["x"]}, attribute("col", 2, held(5, b"0"))), RELU, fetch("y")),
        "a whole number as 'col'",
    )
    yield "two fetches into one column", block(0, XY, feed("x"), RELU, fetch("y"), fetch("x")), "a column of its own"
    yield "an input of a container", block(0, ENDS, variable("x", kind=13), variable("y"), feed("x"), RELU, fetch("y")), "a dense tensor"
    for dims, refused in (([1 << 40, 1 << 40], ""), ([1] * 10, "at most 9 sizes"), ([0] * 9, None), ([-1, -5], None)):
        text = str(dims) if len(dims) < 5 else f"{len(dims)} times {dims[0]}"
        yield f"an input of {text}", block(0, ENDS, variable("x", dims), variable("y", dims), feed("x"), RELU, fetch("y")), refused
    yield "a dtype that is none", block(0, ENDS, variable("x", code=77), variable("y"), feed("x"), RELU, fetch("y")), "a dense tensor"
    yield (
        "a result of another size",
        block(0, ENDS, variable("x"), variable("y", [5]), feed("x"), RELU, fetch("y")),
        "which the file declares",
    )
    yield "a parameter that the file has not", block(0, XY, variable("w", [2], persistable=True), feed("x"), RELU, fetch("y")), ""
    yield (
        "100,000 parameters",
        lambda: block(0, XY, *(variable(f"w{i}", [2], persistable=True) for i in range(100_000)), feed("x"), RELU, fetch("y")),
        "tensors but the file ends",
    )


def blocks() -> Iterator[File]:
    """Blocks that run blocks."""
    yield "a branch", branches(1, False), None
    yield "20 branches in each other", branches(20, False), None
    yield "40 branches in each other", branches(40, False), "nested at most"
    for count in (8, 16, 30):
        yield f"2**{count} runs of one block", branches(count, True), None if count == 8 else "run each other without end"
    yield "a block that runs itself", branches(1, False, last=1), ""
    yield "a block that runs the one around it", branches(2, False, last=1), ""
    yield "a block that runs the whole program", branches(1, False, last=0), "the number of a block"
    for to in (-1, 2, 1 << 31):
        first = block(0, XY, variable("c", [1], 0), feed("x"), feed("c", 1), RELU, branch(to % (1 << 64)), fetch("y"))
        yield f"a block of number {to}", first + block(1, RELU, parent=0), "number"
    away = operator(
        "conditional_block", {"Cond": ["c"], "Input": []}, {"Out": ["y"], "Scope": ["s"]}, attribute("sub_block", 2, held(5, b"1"))
    )
    yield (
        "a block that is a text",
        block(0, XY, variable("c", [1], 0), feed("x"), feed("c", 1), RELU, away, fetch("y")),
        "the number of a block",
    )
    loop = operator("while", {"Condition": ["c"], "X": ["x"]}, {"Out": ["x"], "StepScopes": ["s"]}, sub_block(1))
    start = block(0, XY, variable("c", [1], 0), feed("x"), feed("c", 1), loop, RELU, fetch("y"))
    yield "a loop whose condition nobody writes", start + block(1, operator("relu", {"X": ["x"]}, {"Out": ["x"]}), parent=0), None
    yield "a loop in itself", start + block(1, loop, parent=0), ""


def attributes() -> Iterator[File]:
    def scaled(*given: bytes) -> bytes:
        return program(operator("scale", {"X": ["x"]}, {"Out": ["y"]}, *given))

    yield "a scale", scaled(attribute("scale", 1, varint(4 << 3 | 5) + b"\0\0\0\x40")), None
    yield "a scale of NaN", scaled(attribute("scale", 1, varint(4 << 3 | 5) + b"\0\0\xc0\x7f")), None
    yield "a scale of a text", scaled(attribute("scale", 2, held(5, b"two"))), ""
    yield "a scale where whole numbers are", scaled(attribute("scale", 1, number(3, 2))), "a value of the attribute 'scale'"
    yield "a scale of three bytes", scaled(attribute("scale", 1, held(4, b"abc"))), "floats of 4 bytes"
    yield "a scale of no value", scaled(attribute("scale", 1)), "a value of the attribute 'scale'"
    yield "a kind of 99", scaled(attribute("scale", 99)), "a known kind"
    yield "an attribute that nobody knows", scaled(attribute("odd", 0, number(3, 1))), "no attribute 'odd'"
    yield "an attribute twice", scaled(attribute("scale", 1, varint(4 << 3 | 5) + b"\0\0\0\x40") * 2), None
    yield "10,000 attributes", scaled(*(attribute(f"a{i}", 0, number(3, 1)) for i in range(10_000))), "no attribute"
    yield "an attribute of a million numbers", lambda: scaled(attribute("odd", 3, held(6, b"\x01" * 1_000_000))), "no attribute"
    yield "a text of two megabytes", lambda: scaled(attribute("op_namescope", 2, held(5, b"a" * (2 << 20)))), "bytes of text"
    yield "a variable as an attribute", scaled(attribute("scale", 13, held(17, b"x"))), "X's size = 4"
    for name, given in {
        "reshape2": [attribute("shape", 3, *(number(6, (1 << 64) - 1) for _ in range(5)))],
        "expand_v2": [attribute("shape", 3, number(6, 1 << 31), number(6, 1 << 31), number(6, 4))],
        "tile": [attribute("repeat_times", 3, number(6, 1 << 31), number(6, 1 << 31))],
        "softmax": [attribute("axis", 0, number(3, 1 << 31))],
        "transpose2": [attribute("axis", 3, *(number(6, 0) for _ in range(500)))],
        "split": [attribute("num", 0, number(3, 1 << 30))],
        "one_hot_v2": [attribute("depth", 0, number(3, (1 << 64) - 5))],
        "top_k_v2": [attribute("k", 0, number(3, (1 << 31) - 1))],
        "pad": [attribute("paddings", 3, number(6, 1 << 40), number(6, 1 << 40))],
        "cast": [attribute("out_dtype", 0, number(3, 99)), attribute("in_dtype", 0, number(3, 5))],
        "concat": [attribute("axis", 0, number(3, 77))],
        "slice": [attribute("axes", 3, number(6, 55)), attribute("starts", 3, number(6, 0)), attribute("ends", 3, number(6, 1))],
    }.items():
        out = {"Out": ["y"]}
        yield (
            f"an operator '{name}' of what does not fit",
            program(operator(name, {("Input" if name == "slice" else "X"): ["x"]}, out, *given)),
            "",
        )


def hostile() -> Iterator[tuple[str, dict[str, Any], str | None]]:
    subjects: tuple[Any, ...] = (messages, graphs, blocks, attributes)
    for subject in subjects:
        for name, content, expected in subject():
            yield f"legacy {subject.__name__}: {name}", {".pdmodel": content, ".pdiparams": b""}, expected
