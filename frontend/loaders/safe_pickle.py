"""Reads pickles of arrays and plain Python values without ever calling what the file names.

Paddle's `.pdparams` and `.pdopt` files are pickles, and a pickle is a program. This reader is a machine of its own for the few
instructions that genuine files hold. Names of functions stay inert `_Global` values, and the calls that are allowed are exact pairs of
(module, name) with exactly the arguments that numpy and Paddle write. Anything else is a `PickleError` with the offset.
"""

from __future__ import annotations

import codecs
import pickletools
import re
import reprlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polyreme.ir.diagnostics import PolyremeError

MAX_RANK = 9
MAX_ITEMS = 50_000_000
# Containers may be shared, and so a short file can say a value whose every path is walked for ever: what a value has once all that it
# shares is written out.
MAX_LEAVES = 20_000_000
MAX_DEPTH = 100
# A key is hashed and compared, which looks at all of it.
MAX_KEY_LEAVES = 100
# Kinds of dtype that are plain bytes, as numpy writes them; object arrays would hold more pickles, and numpy parses other texts as Python.
_PLAIN_CODE = re.compile(r"[<>=|]?(?:b1|\?|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[SU][0-9]{1,9})")


class PickleError(PolyremeError, ValueError):
    """The file is damaged, or holds something other than arrays and plain values."""

    code = "E0704"


class _Global(NamedTuple):
    """A name in the file. It is only ever compared, never looked up."""

    module: str
    name: str


class _DType:
    """`numpy.dtype(code)`, waiting for its state (the byte order)."""

    def __init__(self, code: str):
        if not _PLAIN_CODE.fullmatch(code):
            raise ValueError(f"expected a plain element type but got {reprlib.repr(code)}")
        self.dtype = np.dtype(code)

    def set_state(self, state: Any) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) >= 2 else None
        if not isinstance(order, str) or order not in ("<", ">", "|", "="):
            raise ValueError(f"expected the byte order of an element type but got {reprlib.repr(order)}")
        if order in "<>":
            self.dtype = self.dtype.newbyteorder("<" if order == "<" else ">")


class _Array:
    """An ndarray that waits for its state; `value` is the array then."""

    value: np.ndarray[Any, Any] | None = None

    def set_state(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("expected the five parts of an array's state")
        _, shape, dtype, fortran, data = state
        if not isinstance(shape, tuple) or len(shape) > MAX_RANK or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"expected a shape of at most {MAX_RANK} sizes but got {reprlib.repr(shape)}")
        if not isinstance(dtype, _DType):
            raise ValueError("expected an element type in an array's state")
        if isinstance(data, str):
            data = data.encode("latin1")  # written by Python 2
        elements = 1
        for n in shape:
            elements *= n
        if not isinstance(data, (bytes, bytearray)) or len(data) != elements * dtype.dtype.itemsize:
            size = len(data) if isinstance(data, (bytes, bytearray)) else "no"
            raise ValueError(f"expected {elements * dtype.dtype.itemsize} bytes for an array of shape {shape} but got {size}")
        array = np.frombuffer(data, dtype.dtype).reshape(shape, order="F" if fortran else "C")
        self.value = array.astype(dtype.dtype.newbyteorder("="), copy=True, order="C")


class NamedArray(NamedTuple):
    """A Tensor inside other objects: Paddle writes the pair of its name and its values."""

    name: str
    array: np.ndarray[Any, Any]


def _reconstruct(args: tuple[Any, ...]) -> Any:
    if args not in [(_Global("numpy", "ndarray"), (0,), b"b"), (_Global("numpy", "ndarray"), (0,), "b")]:
        raise ValueError("expected the arguments that numpy writes for an array")
    return _Array()


def _dtype(args: tuple[Any, ...]) -> Any:
    if not args or not isinstance(args[0], str):
        raise ValueError("expected the code of an element type")
    return _DType(args[0])


def _scalar(args: tuple[Any, ...]) -> Any:
    if len(args) != 2 or not isinstance(args[0], _DType):
        raise ValueError("expected an element type and bytes for a number")
    array = _Array()
    array.set_state((1, (), args[0], False, args[1]))
    assert array.value is not None
    return array.value[()]


def _encode(args: tuple[Any, ...]) -> Any:
    if len(args) != 2 or not isinstance(args[0], str) or args[1] not in ("latin1", "latin-1"):
        raise ValueError("expected text in latin1")
    return codecs.encode(args[0], "latin1")


def _eval(args: tuple[Any, ...]) -> Any:
    """Paddle writes a static tensor as `eval('data', {'data': array})`; only that form is taken, and nothing is evaluated."""
    if len(args) == 2 and args[0] == "data" and isinstance(args[1], dict) and list(args[1]) == ["data"]:
        return args[1]["data"]
    raise ValueError("expected the form in which Paddle writes a tensor")


def _tuple(args: tuple[Any, ...]) -> Any:
    if len(args) != 1 or not isinstance(args[0], (tuple, list)):
        raise ValueError("expected a sequence")
    return tuple(args[0])


def _ordered_dict(args: tuple[Any, ...]) -> Any:
    if args not in [(), ([],)]:
        raise ValueError("expected an empty ordered dictionary")
    return OrderedDict()


_CALLS: dict[_Global, Callable[[tuple[Any, ...]], Any]] = {
    _Global("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    _Global("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    _Global("numpy._core.multiarray", "scalar"): _scalar,
    _Global("numpy.core.multiarray", "scalar"): _scalar,
    _Global("numpy", "dtype"): _dtype,
    _Global("_codecs", "encode"): _encode,
    _Global("collections", "OrderedDict"): _ordered_dict,
    _Global("builtins", "tuple"): _tuple,
    _Global("__builtin__", "tuple"): _tuple,
    _Global("builtins", "eval"): _eval,
    _Global("__builtin__", "eval"): _eval,
}
_INERT = {_Global("numpy", "ndarray")}
_MARK = object()

_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set,
}  # fmt: skip
_LITERALS = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "INT", "LONG", "FLOAT", "UNICODE", "STRING",
}  # fmt: skip


class _Machine:
    """The stack and the memo of one pickle."""

    def __init__(self, count: int) -> None:
        """`count` is how many bytes the pickle has."""
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        # Of tuples that hold tuples: how many leaves they have, their depth, and the tuple, so that its id stays its own.
        self.tuples: dict[int, tuple[int, int, tuple[Any, ...]]] = {}
        # What may still be copied: a file can name one text many times.
        self.left = 4 * count + (1 << 20)

    def run(self, data: bytes, end: int | None) -> Any:
        offset = 0
        try:
            for opcode, arg, position in pickletools.genops(data):
                offset = position or 0
                if opcode.name == "STOP":
                    if len(self.stack) != 1:
                        raise ValueError("expected one value at the end")
                    if end is not None and offset + 1 != end:
                        raise ValueError(f"expected {end} bytes but it ends behind {offset + 1}")
                    return _plain(self.stack[0], {}, min(MAX_LEAVES, (1 << 20) + 4 * len(data)))[0]
                self.step(opcode.name, arg)
                if len(self.stack) > MAX_ITEMS:
                    raise ValueError(f"expected at most {MAX_ITEMS} items")
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            reason = str(error) or type(error).__name__
            raise PickleError(f"cannot read the pickle at byte {offset}: {reason}") from None
        raise PickleError("cannot read the pickle: it ends too early")

    def step(self, name: str, arg: Any) -> None:
        push, stack = self.stack.append, self.stack
        if name in _LITERALS:
            push(arg)
        elif name in _CONSTANTS:
            push(_CONSTANTS[name]())
        elif name in ("PROTO", "FRAME"):
            pass
        elif name == "MARK":
            push(_MARK)
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(arg)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            push(self.memo[int(arg)])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            push(self.tuple_of(self.pop(int(name[-1]))))
        elif name == "TUPLE":
            push(self.tuple_of(self.pop_mark()))
        elif name == "LIST":
            push(self.pop_mark())
        elif name == "POP":
            stack.pop()
        elif name == "APPEND":
            (item,) = self.pop(1)
            _expect(stack[-1], list).append(item)
        elif name == "APPENDS":
            items = self.pop_mark()
            _expect(stack[-1], list).extend(items)
        elif name == "ADDITEMS":
            items = self.pop_mark()
            _expect(stack[-1], set).update(map(self.as_key, items))
        elif name == "SETITEM":
            key, value = self.pop(2)
            _expect(stack[-1], dict)[self.as_key(key)] = value
        elif name == "SETITEMS":
            items = self.pop_mark()
            _expect(stack[-1], dict).update(zip(map(self.as_key, items[::2]), items[1::2], strict=True))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, attribute = str(arg).split(" ", 1) if name == "GLOBAL" else self.pop(2)
            if not isinstance(module, str) or not isinstance(attribute, str):
                raise ValueError("expected texts as a name")
            named = _Global(module, attribute)
            if named not in _CALLS and named not in _INERT:
                raise ValueError(f"the file names '{module}.{attribute}', which no file of parameters needs; nothing of it was run")
            push(named)
        elif name == "REDUCE":
            function, args = self.pop(2)
            if not isinstance(function, _Global) or function not in _CALLS or not isinstance(args, tuple):
                raise ValueError("expected a call that files of parameters hold")
            if args and isinstance(args[0], (str, list, tuple)):
                self.spend(len(args[0]))
            push(_CALLS[function](args))
        elif name == "BUILD":
            (state,) = self.pop(1)
            if not isinstance(stack[-1], (_Array, _DType)):
                raise ValueError("expected an array or an element type to take a state")
            if isinstance(stack[-1], _Array) and isinstance(state, tuple) and state and isinstance(state[-1], (str, bytes)):
                self.spend(len(state[-1]))
            stack[-1].set_state(state)
        else:
            raise ValueError(f"expected an instruction that files of parameters hold but got {name}")

    def tuple_of(self, items: list[Any]) -> tuple[Any, ...]:
        made = tuple(items)
        known = [self.tuples[id(item)] for item in items if id(item) in self.tuples]
        leaves = len(items) - len(known) + sum(leaves for leaves, *_ in known)
        depth = 1 + max((depth for _, depth, _ in known), default=0)
        if leaves > MAX_LEAVES or depth > MAX_DEPTH:
            raise ValueError(f"expected at most {MAX_DEPTH} levels of nesting and {MAX_LEAVES} values in a tuple")
        self.tuples[id(made)] = leaves, depth, made
        return made

    def as_key(self, key: Any) -> Any:
        """`key`, which may be a number, a text or a short tuple."""
        if isinstance(key, tuple) and self.tuples.get(id(key), (len(key),))[0] > MAX_KEY_LEAVES:
            raise ValueError(f"expected at most {MAX_KEY_LEAVES} values in a key")
        return key

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("expected each text and each array once but the file repeats them without end")

    def pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise ValueError("the stack is empty")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        if any(item is _MARK for item in items):
            raise ValueError("expected a value but got a mark")
        return items

    def pop_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while at >= 0 and self.stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise ValueError("expected a mark")
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected a {kind.__name__} but got a {type(value).__name__}")
    return value


def _plain(value: Any, done: dict[int, tuple[Any, int]], most: int, depth: int = 0) -> tuple[Any, int]:
    """The finished value: arrays in place of their stand-ins, pairs of name and array as `NamedArray`; and how many leaves it has."""
    if depth > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} levels of nesting")
    if isinstance(value, _Array):
        if value.value is None:
            raise ValueError("an array has no values")
        return value.value, 1
    if value is _MARK or isinstance(value, (_Global, _DType)):
        raise ValueError("expected a value but got part of one")
    if not isinstance(value, (dict, list, tuple, set)):
        return value, 1
    if id(value) in done:
        if done[id(value)][1] < 0:
            raise ValueError(f"a {type(value).__name__} holds itself")
        return done[id(value)]
    done[id(value)] = None, -1
    items = [part for pair in value.items() for part in pair] if isinstance(value, dict) else list(value)
    made = [_plain(item, done, most, depth + 1) for item in items]
    leaves = 1 + sum(count for _, count in made)
    if leaves > most:
        raise ValueError(f"expected at most {most} values once all that is shared is written out")
    parts = [part for part, _ in made]
    result: Any
    if isinstance(value, dict):
        result = type(value)(zip(parts[::2], parts[1::2], strict=True))
    else:
        result = type(value)(parts)
        if type(value) is tuple and len(result) == 2 and isinstance(result[0], str) and isinstance(result[1], np.ndarray):
            result = NamedArray(*result)
    done[id(value)] = result, leaves
    return result, leaves


def read_pickle(data: bytes, end: int | None = None) -> Any:
    """The value in a pickle of protocol 0 to 5: None, numbers, text, bytes, containers, arrays, and `NamedArray` for Paddle's tensors.

    Raises `PickleError` for anything else, and where the pickle does not end at `end` if that is given; nothing that the file names is
    looked up or called.
    """
    return _Machine(len(data)).run(data, end)
