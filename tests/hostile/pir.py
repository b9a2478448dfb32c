"""Hostile PIR programs (`.json`), by what they try."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.hostile.weights import tensor

Json = Any
# The bytes of a file, or how a large one is made: its name, and what its error says, None if it is read.
File = tuple[str, "bytes | Callable[[], bytes]", str | None]
HUGE = 1 << 40


def kind(shape: list[Any] | None, dtype: str = "f32") -> Json:
    """A dense tensor's type, or one that says nothing."""
    if shape is None:
        return {"#": "0.t_vec", "D": []}
    return {"#": "0.t_dtensor", "D": [{"#": f"0.t_{dtype}"}, shape, "NCHW", [], 0]}


def form(value: Any) -> Json:
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"#": "0.a_bool", "D": value}
    if isinstance(value, int):
        return {"#": "0.a_i64", "D": value}
    if isinstance(value, float):
        return {"#": "0.a_f64", "D": value}
    if isinstance(value, str):
        return {"#": "0.a_str", "D": value}
    return {"#": "1.a_intarray", "D": value}


def made(code: str, inputs: list[int], result: int, type: Json, regions: list[Json] | None = None, **attributes: Any) -> Json:
    op = {
        "#": code,
        "I": [{"%": v} for v in inputs],
        "A": [{"N": k, "AT": form(v)} for k, v in attributes.items()],
        "OA": [],
        "O": [{"%": result, "TT": type}],
    }
    return op if regions is None else {**op, "regions": regions}


def data(result: int, shape: list[Any], dtype: str = "f32", name: str = "x") -> Json:
    return made("1.data", [], result, kind(shape, dtype), name=name, shape=shape)


def fetch(value: int, column: int = 0) -> Json:
    return {"#": "1.fetch", "I": [{"%": value}], "A": [{"N": "col", "AT": {"#": "0.a_i32", "D": column}}], "O": [], "OA": []}


def ended(value: int) -> Json:
    return {"#": "2.yield", "I": [{"%": value}], "A": [], "O": [], "OA": []}


def region(ops: list[Json], args: list[Json] | None = None) -> Json:
    return {"#": "region", "blocks": [{"#": "block", "args": args or [], "ops": ops}]}


def program(ops: Json, **header: Any) -> bytes:
    code = {"magic": "pir", "version": 4, "trainable": True, **header}
    return json.dumps({"base_code": code, "program": {"regions": [region(ops)]}}).encode("utf-8", "surrogatepass")


def parameter(result: int, name: str, shape: list[Any], dtype: str = "f32") -> Json:
    return {"#": "p", "A": [0, 0, 1, name], "O": {"%": result, "TT": kind(shape, dtype)}, "OA": [0, 0, 1]}


def scalar(result: int, dtype: str, value: Any = 1.0) -> Json:
    return made(
        "1.full",
        [],
        result,
        kind([], dtype),
        shape=[],
        value=value,
        dtype={"#": "1.a_dtype", "D": {"i1": "bool", "bool": "bool"}.get(dtype, "float32")},
    )


def nested_loops(depth: int) -> Json:
    """A loop in a loop in a loop: each is looked at more than once to know its types."""
    number = iter(range(100, 100 + 4 * depth + 4))

    def loop(again: int, value: int, left: int) -> tuple[Json, int]:
        arg, result = -next(number), next(number)
        ops: list[Json] = []
        last = arg
        if left:
            inner, last = loop(again, arg, left - 1)
            ops.append(inner)
        out = next(number)
        ops.append(made("1.relu", [last], out, kind([4])))
        end = {"#": "2.yield", "I": [{"%": again}, {"%": out}], "A": [], "O": [], "OA": []}
        body = region([*ops, end], [{"#": arg, "TT": kind([4])}])
        return made("1.while", [again, value], result, kind([4]), [body]), result

    op, result = loop(2, 1, depth - 1)
    return [data(1, [4]), data(2, [1], "bool", "c"), op, fetch(result)]


def nested_branches(depth: int) -> Json:
    number = iter(range(100, 100 + 2 * depth + 2))

    def branch(left: int) -> tuple[Json, int]:
        result = next(number)
        if not left:
            return made("1.relu", [1], result, kind([4])), result
        inner, value = branch(left - 1)
        return made("1.if", [2], result, kind([4]), [region([inner, ended(value)]), region([ended(1)])]), result

    op, result = branch(depth)
    return [data(1, [4]), data(2, [1], "bool", "c"), op, fetch(result)]


def doublings(count: int, code: str = "1.add") -> Json:
    """A value that is the sum of two of the one before: 2**count paths."""
    ops = [data(1, [4])]
    ops += [made(code, [i, i], i + 1, kind([4])) for i in range(1, count)]
    return [*ops, fetch(count)]


def one(code: str, inputs: list[int] | None = None, shape: list[Any] | None = None, **attributes: Any) -> bytes:
    """A program of one operator on the input."""
    return program([data(1, shape or [4, 6]), made(code, [1] if inputs is None else inputs, 2, kind(None), **attributes), fetch(2)])


def texts() -> Iterator[File]:
    """Files that are hardly JSON."""
    for depth in (1_000, 100_000):
        yield f"{depth} lists in each other", b"[" * depth, "expected JSON"
        yield f"{depth} objects in each other", b'{"a":' * depth, "expected JSON"
    yield "3,000,000 objects in each other", lambda: b'{"a":' * 3_000_000, "expected JSON"
    yield "990 whole lists in each other", b"[" * 990 + b"]" * 990, "expected"
    for text in (b"null", b"[]", b'""', b"0", b"true", b"NaN", b"{}", b"1e999", b"-"):
        yield f"only {text.decode()}", text, "expected"
    yield "a number of 100,000 digits", b"9" * 100_000, "expected JSON"
    yield "a number of 10,000,000 digits in a list", lambda: b"[" + b"9" * 10_000_000 + b"]", "expected JSON"
    yield "an exponent of 10,000 digits", b"[1e" + b"9" * 10_000 + b"]", "expected an object"
    yield "bytes that are no UTF-8", b'{"base_code": "\xff\xfe"}', "expected JSON"
    yield "UTF-16", '{"base_code": 1}'.encode("utf-16"), "expected an object with 'magic'"
    yield "a mark of bytes before", b"\xef\xbb\xbf{}", "expected"
    yield "half a surrogate", b'{"base_code": {"magic": "\\ud800"}}', "expected the magic"
    yield "2,000,000 empty lists", lambda: b"[" + b"[]," * 1_999_999 + b"[]]", "expected an object with 'base_code'"
    yield (
        "1,000,000 empty objects as operators",
        lambda: program([]).replace(b'"ops": []', b'"ops": [' + b"{}," * 999_999 + b"{}]"),
        "operators but got",
    )
    yield (
        "150,000 empty objects as operators",
        lambda: program([]).replace(b'"ops": []', b'"ops": [' + b"{}," * 149_999 + b"{}]"),
        "expected an object with '#'",
    )
    yield "a text of 5,000,000 letters", lambda: b'["' + b"a" * 5_000_000 + b'"]', "expected an object"
    yield "zeros", bytes(100_000), "expected JSON"
    yield "a name twice", b'{"base_code": 1, "base_code": {"magic": "pir"}}', "expected an object with 'version'"


def headers() -> Iterator[File]:
    relu = [data(1, [4]), made("1.relu", [1], 2, kind([4])), fetch(2)]
    yield "a version below zero", program(relu, version=-1), "expected a version"
    yield "a version beyond 64 bits", program(relu, version=1 << 70), "expected a whole number"
    yield "a version of true", program(relu, version=True), "expected a whole number"
    yield "another magic", program(relu, magic="rip"), "expected the magic 'pir'"
    yield "a magic of a list", program(relu, magic=[]), "expected the magic 'pir'"
    yield "two regions", program(relu).replace(b'"regions": [', b'"regions": [{"blocks": []}, '), "expected one region with one block"
    yield "no operators", program([]), "fetches nothing"
    yield "operators that are numbers", program([1, 2, 3]), "expected an object"
    yield "operators that are an object", program({}), "expected a list"


def graphs() -> Iterator[File]:
    """What refers to itself, to nothing, or to too much."""
    relu = made("1.relu", [1], 2, kind([4]))
    yield "an operator that reads its own result", program([data(1, [4]), made("1.relu", [2], 2, kind([4])), fetch(2)]), "defined before"
    circle = [made("1.relu", [3], 2, kind([4])), made("1.relu", [2], 3, kind([4]))]
    yield "two that read each other", program([data(1, [4]), *circle, fetch(3)]), "defined before"
    yield "a value defined twice", program([data(1, [4]), relu, relu, fetch(2)]), "the number of a new value"
    yield "a value of number 0", program([data(1, [4]), made("1.relu", [1], 0, kind([4])), fetch(0)]), "the number of a new value"
    yield "a value of number -1", program([data(1, [4]), made("1.relu", [1], -1, kind([4])), fetch(-1)]), "the number of a new value"
    yield "a value of number 2**70", program([data(1 << 70, [4]), fetch(1 << 70)]), "expected a whole number"
    yield "a value of number 1.5", program([data(1.5, [4]), fetch(1.5)]), "expected a whole number"  # type: ignore[arg-type]
    yield "an input that is fetched", program([data(1, [4]), fetch(1)]), None
    yield "two fetches into one column", program([data(1, [4]), relu, fetch(2), fetch(2)]), "a column of its own"
    yield "a column of -1", program([data(1, [4]), relu, fetch(2, -1)]), None
    yield "a column of 2**60", program([data(1, [4]), relu, fetch(2, 1 << 60)]), None
    yield "two inputs of one name", program([data(1, [4]), data(2, [4]), made("1.add", [1, 2], 3, kind([4])), fetch(3)]), None
    yield "60 doublings", program(doublings(60)), None
    yield "2,000 doublings", program(doublings(2000)), None
    yield "2,000 products of itself", program(doublings(2000, "1.multiply")), None
    yield "an operator without inputs", program([data(1, [4]), made("1.add", [], 2, kind([4])), fetch(2)]), "for 'add'"
    yield "an operator of 10,000 inputs", program([data(1, [4]), made("1.add", [1] * 10_000, 2, kind([4])), fetch(2)]), "at most 2 operands"
    yield (
        "a concatenation of 3,000",
        program(
            [
                data(1, [4]),
                made("0.combine", [1] * 3000, 2, kind(None)),
                made("1.full", [], 3, kind([1], "i32"), shape=[1], value=0.0, dtype={"#": "1.a_dtype", "D": "int32"}),
                made("1.concat", [2, 3], 4, kind([12000])),
                fetch(4),
            ]
        ),
        None,
    )
    yield (
        "a slice beyond a vector",
        program([data(1, [4]), made("0.combine", [1], 2, kind(None)), made("0.slice", [2], 3, kind(None), index=1 << 40), fetch(3)]),
        "expected an index",
    )
    yield (
        "a slice before a vector",
        program([data(1, [4]), made("0.combine", [1], 2, kind(None)), made("0.slice", [2], 3, kind(None), index=-1), fetch(3)]),
        "expected an index",
    )
    yield "a vector that is fetched", program([data(1, [4]), made("0.combine", [1, 1], 2, kind(None)), fetch(2)]), "the fetch of one tensor"


def control() -> Iterator[File]:
    """Branches and loops."""
    for depth in (8, 20, 31):
        yield f"{depth} loops in each other", program(nested_loops(depth)), None
        yield f"{depth} branches in each other", program(nested_branches(depth)), None
    yield "40 branches in each other", program(nested_branches(40)), "nested at most"
    yield "100 loops in each other", program(nested_loops(100)), ""
    never = region(
        [made("1.relu", [-1], 9, kind([4])), {"#": "2.yield", "I": [{"%": 2}, {"%": 9}], "A": [], "O": [], "OA": []}],
        [{"#": -1, "TT": kind([4])}],
    )
    condition = data(2, [1], "bool", "c")
    yield "a loop that may never end", program([data(1, [4]), condition, made("1.while", [2, 1], 5, kind([4]), [never]), fetch(5)]), None
    yield (
        "a loop of no values",
        program([data(1, [4]), condition, made("1.while", [], 5, kind([4]), [never]), fetch(5)]),
        "expected tensors",
    )
    yield "a loop of too few values", program([data(1, [4]), condition, made("1.while", [2], 5, kind([4]), [never]), fetch(5)]), "arguments"
    yield (
        "a loop without an end",
        program([data(1, [4]), condition, made("1.while", [2, 1], 5, kind([4]), [region([], [{"#": -1}])]), fetch(5)]),
        "cf.yield",
    )
    yield (
        "a loop with two blocks",
        program([data(1, [4]), condition, made("1.while", [2, 1], 5, kind([4]), [{"blocks": never["blocks"] * 2}]), fetch(5)]),
        "one block",
    )
    yield "a branch by a vector", program([data(1, [4]), made("1.if", [1], 5, kind([4]), [region([ended(1)])] * 2), fetch(5)]), ""
    yield (
        "a branch of three ways",
        program([data(1, [4]), condition, made("1.if", [2], 5, kind([4]), [region([ended(1)])] * 3), fetch(5)]),
        "two regions",
    )
    yield (
        "ways of different types",
        program(
            [
                data(1, [4]),
                condition,
                data(3, [5], "f32", "z"),
                made("1.if", [2], 5, kind(None), [region([ended(1)]), region([ended(3)])]),
                fetch(5),
            ]
        ),
        None,
    )
    yield (
        "a way that reads the other's",
        program(
            [
                data(1, [4]),
                condition,
                made("1.if", [2], 5, kind([4]), [region([made("1.relu", [1], 7, kind([4])), ended(7)]), region([ended(7)])]),
                fetch(5),
            ]
        ),
        "defined before",
    )
    yield (
        "parameters in a block",
        program([data(1, [4]), condition, made("1.if", [2], 5, kind([4]), [region([parameter(7, "w", [4]), ended(7)])] * 2), fetch(5)]),
        "",
    )
    yield "a function's operator", program([data(1, [4]), {"#": "2.call", "I": [], "A": [], "O": [], "OA": []}, fetch(1)]), "not supported"


def sizes() -> Iterator[File]:
    """Sizes that are negative, huge, or whose product is."""
    for shape in ([HUGE, HUGE], [1 << 31, 1 << 31, 2], [1 << 62], [3] * 40, [0] * 8, [-5, -7]):
        text = str(shape) if len(shape) < 5 else f"{len(shape)} times {shape[0]}"
        refused = None if shape in ([0] * 8, [-5, -7], [1 << 62]) else "at most" if len(shape) == 40 else "sizes"
        yield f"an input of {text}", program([data(1, shape), made("1.relu", [1], 2, kind(shape)), fetch(2)]), refused
    yield "a size of a text", program([data(1, ["4"]), made("1.relu", [1], 2, kind(None)), fetch(2)]), "expected a whole number"
    yield "a size of null", program([data(1, [None]), made("1.relu", [1], 2, kind(None)), fetch(2)]), "expected a whole number"
    yield (
        "a state of 2**45 bytes that no file has",
        program([parameter(1, "mask__non_persistable", [HUGE, 8]), made("1.relu", [1], 2, kind(None)), fetch(2)]),
        "",
    )
    for name, attributes in {
        "reshape": {"shape": [-1, -1]},
        "tile": {"repeat_times": [HUGE, HUGE]},
        "expand": {"shape": [HUGE, HUGE, 4, 6]},
        "pad3d": {"paddings": [HUGE] * 6, "mode": "reflect", "pad_value": 0.0, "data_format": "NCDHW"},
        "pad": {"paddings": [-9, -9, -9, -9], "pad_value": 0.0},
        "topk": {"k": HUGE, "axis": -1, "largest": True, "sorted": True},
        "one_hot": {"num_classes": HUGE},
        "unbind": {"axis": 1 << 60},
        "split_with_num": {"num": HUGE, "axis": 0},
        "roll": {"shifts": [1 << 62], "axis": [1 << 62]},
        "split": {"sections": [1 << 62, -(1 << 62), 4], "axis": 0},
        "flatten": {"start_axis": -9, "stop_axis": 9},
        "unsqueeze": {"axis": [0] * 5000},
        "squeeze": {"axis": [1 << 62]},
        "transpose": {"perm": [0, 0]},
        "sum": {"axis": [0] * 5000, "dtype": {"#": "1.a_dtype", "D": "float32"}, "keepdim": False},
        "slice": {"axes": [0, 0, 0], "starts": [1 << 62] * 3, "ends": [-(1 << 62)] * 3, "infer_flags": [1], "decrease_axis": [0]},
        "strided_slice": {"axes": [0], "starts": [0], "ends": [4], "strides": [0]},
        "repeat_interleave": {"repeats": HUGE, "axis": 0},
        "cumsum": {"axis": 1 << 62, "flatten": False, "exclusive": False, "reverse": False},
        "unfold": {"kernel_sizes": [HUGE] * 2, "strides": [0, 0], "paddings": [HUGE] * 4, "dilations": [HUGE] * 2},
        "pixel_shuffle": {"upscale_factor": 0, "data_format": "NCHW"},
        "shuffle_channel": {"group": 0},
        "affine_channel": {"data_layout": "XXXX"},
        "group_norm": {"epsilon": -1.0, "groups": 0, "data_format": "NCHW"},
        "maxout": {"groups": 0, "axis": 1},
        "diag_embed": {"offset": 1 << 40, "dim1": 0, "dim2": 1},
        "linspace": {},
        "eye": {"num_rows": HUGE, "num_columns": HUGE},
        "arange": {},
        "full": {"shape": [HUGE, HUGE], "value": 1.0},
        "randint": {"low": 5, "high": -5, "shape": [HUGE]},
    }.items():
        # What is only said, and not made, may be large.
        said = name in ("one_hot", "slice", "repeat_interleave")
        yield f"an operator '{name}' of sizes that do not fit", one(f"1.{name}", **attributes), None if said else ""


def attributes() -> Iterator[File]:
    deep: Json = {"#": "0.a_i32", "D": 1}
    for _ in range(200):
        deep = {"#": "0.a_array", "D": [deep]}
    yield "an attribute of 200 levels", one("1.relu", deep=deep), "levels of nesting"
    yield "an attribute of 200,000 numbers", lambda: one("1.relu", many=list(range(200_000))), "expected no attribute 'many'"
    yield "a number that is a text", one("1.scale", scale={"#": "0.a_f32", "D": "1"}), "expected a number"
    yield "a not-finite of another name", one("1.scale", bias={"#": "0.a_f32", "VD": "Infinity"}), "expected INF, -INF or NaN"
    yield "a dtype that is none", one("1.cast", dtype={"#": "1.a_dtype", "D": "float33"}), "the name of a dtype"
    yield "a dtype of objects", one("1.cast", dtype={"#": "1.a_dtype", "D": "object"}), "the name of a dtype"
    yield "an attribute of an unknown kind", one("1.relu", odd={"#": "9.a_code", "D": "import os"}), "an attribute of a known kind"
    yield "an attribute without a value", one("1.relu", odd={"#": "0.a_i32"}), "expected an object with 'D'"
    yield "NaN as an axis", one("1.softmax", axis={"#": "0.a_f32", "VD": "NaN"}), ""
    yield "an axis of 2**62", one("1.softmax", axis=1 << 62), "axis"
    yield "an axis of 1.5", one("1.softmax", axis=1.5), ""
    yield "an epsilon of NaN", one("1.clip", min={"#": "0.a_f32", "VD": "NaN"}, max={"#": "0.a_f32", "VD": "-INF"}), None
    yield (
        "a name that leads out of the folder",
        program([parameter(1, "../../../etc/passwd", [2]), made("1.relu", [1], 2, kind([2])), fetch(2)]),
        None,
    )
    yield "a name of an escape", program([data(1, [4], name="\x1b]0;title\x07\0"), made("1.relu", [1], 2, kind([4])), fetch(2)]), None
    yield "a name of a surrogate", program([data(1, [4], name="\ud800"), made("1.relu", [1], 2, kind([4])), fetch(2)]), None
    yield (
        "a name of a million letters",
        lambda: program([data(1, [4], name="x" * 1_000_000), made("1.relu", [1], 2, kind([4])), fetch(2)]),
        None,
    )
    yield "an operator of a million letters", one("1." + "x" * 1_000_000), "is not supported"
    yield "an operator that is a path", one("1.../../x"), "is not supported"
    yield "a dialect that is none", one("77.relu"), "a known dialect"


def hostile() -> Iterator[tuple[str, dict[str, Any], str | None]]:
    for subject in (texts, headers, graphs, control, sizes, attributes):
        for name, content, expected in subject():
            yield f"{subject.__name__}: {name}", {".json": content, ".pdiparams": tensor([2])}, expected
