"""What Python asks of the sizes of an argument that is of another shape at each call: texts, kinds, hashes, elements, arithmetic, loops,
and functions of tensors.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError

EXPRESSIONS = [
    'f"{x.shape}"',
    'f"{x.shape[0]:03d}"',
    '"%s" % (x.shape,)',
    '"%d" % x.shape[0]',
    '"{}".format(x.shape)',
    "str(x.shape)",
    "repr(x.shape[0])",
    '",".join(map(str, x.shape))',
    "CACHE.setdefault(tuple(x.shape), len(CACHE))",
    "CACHE.setdefault(x.shape[0], len(CACHE))",
    "CACHE.get(tuple(x.shape))",
    "x.shape[0] in SEEN",
    "SEEN.add(x.shape[0])",
    "SEEN.add(tuple(x.shape))",
    "NAMES[x.shape[0]]",
    "NAMES[:x.shape[0]]",
    "NAMES * x.shape[0]",
    '"a" * x.shape[0]',
    "[0] * x.shape[0]",
    "np.zeros(x.shape).sum()",
    "np.arange(x.shape[0]).sum()",
    "math.sqrt(x.shape[0])",
    "math.prod(x.shape)",
    "math.log(x.shape[0])",
    "int(x.shape[0])",
    "float(x.shape[0])",
    "round(x.shape[0] / 3)",
    "min(x.shape)",
    "max(x.shape)",
    "sum(x.shape)",
    "divmod(x.shape[0], 2)",
    "sorted(x.shape)",
    "hash(x.shape[0])",
    "hash(tuple(x.shape))",
    "isinstance(x.shape[0], int)",
    "type(x.shape[0]) is int",
    "type(x.shape[0]).__name__",
    "x.shape[0] or 1",
    "bool(x.shape[0])",
    "not x.shape[0]",
    "1 < x.shape[0] < 4",
    "x.shape[0] & (x.shape[0] - 1)",
    "x.shape[0] ** 2",
    "x.shape[0] ** 0.5",
    "x.shape[0] // 2",
    "x.shape[0] % 2",
    "x.shape[0] % 2 == 0",
    "x.shape[0] << 1",
    "x.shape[0] | 8",
    "x.shape[0] ^ 3",
    "-x.shape[0]",
    "abs(-x.shape[0])",
    "~x.shape[0]",
    "x.shape[0].bit_length()",
    "x.shape[0].__index__()",
    "len(x)",
    "x.numel()",
    "x.size",
    "x.shape == [3, 2]",
    "x.shape != [4, 2]",
    "list(x.shape) == [4, 2]",
    "x.shape.count(2)",
    "x.shape.index(2)",
    "list(reversed(x.shape))",
    "list(enumerate(x.shape))",
    "[s for s in x.shape if s > 3]",
    "{s: 1 for s in x.shape}",
    '{"n": x.shape[0]}',
    "dict(n=x.shape[0], m=x.shape)",
    "x.shape[0] * 1.5",
    "x.shape[0] / 2",
    "1 / x.shape[0]",
    "round(1.0 / x.shape[0], 3)",
    "functools.reduce(operator.mul, x.shape)",
    "x.shape[0] is x.shape[1]",
    "operator.index(x.shape[0])",
    "list(range(x.shape[0]))",
    "list(range(0, x.shape[0], 2))",
    "[i for i in range(x.shape[0])]",
    "slice(0, x.shape[0])",
    "complex(x.shape[0])",
    "np.float32(x.shape[0])",
    "np.sqrt(x.shape[0])",
    "np.array(x.shape).prod()",
    "np.int64(x.shape[0]) * 2",
    "pow(x.shape[0], 2, 5)",
    "chr(65 + x.shape[0])",
    "bin(x.shape[0])",
    "x.shape[0].real",
    '(x.shape[0]).to_bytes(2, "big")',
    "paddle.to_tensor(x.shape[0])",
    "paddle.to_tensor(x.shape)",
    "paddle.full([1], x.shape[0])",
    "x.reshape([-1, x.shape[0]])",
    "x.sum() / x.shape[0]",
    "x.sum() * math.sqrt(x.shape[0])",
    "collections.Counter(x.shape)",
    'setattr(O, "last", x.shape)',
    'setattr(O, "last", x.shape[0])',
    "LOG.append(x.shape[0])",
    'LOG.append(f"n={x.shape[0]}")',
    "LOG.append(list(x.shape))",
    "[len(row) for row in x]",
    "sum(1 for _ in x)",
    'x.shape[0] if x.shape[0] > 3 else "small"',
    '"big" if x.shape[0] >= 4 else "small"',
    "x.nbytes",
    "str(x.dtype) + str(x.ndim)",
    "all(s > 1 for s in x.shape)",
    "tuple(x.shape)[::-1]",
    "x.shape[:1]",
    "x.shape + [1]",
    "x.shape * 2",
    "paddle.arange(x.shape[0])",
    "paddle.zeros([x.shape[0], 2])",
    "paddle.zeros(x.shape)",
    "x[: x.shape[0] // 2]",
    "x[x.shape[0] - 1]",
    "paddle.split(x, x.shape[0])",
    "paddle.chunk(x, 2)",
    "paddle.unbind(x)",
    "x.tile([x.shape[0], 1])",
    "paddle.linspace(0, 1, x.shape[0])",
    "paddle.nn.functional.dropout(x, 1 / x.shape[0], training=False)",
    'paddle.nn.functional.one_hot(paddle.zeros([2], "int64"), x.shape[0])',
    "paddle.eye(x.shape[0])",
    "paddle.topk(x, x.shape[0] - 1, axis=0)",
    "paddle.nn.functional.pad(x, [0, x.shape[0]])",
    "x.expand([2, x.shape[0], 2])",
    "x.mean().scale(x.shape[0])",
    "x.clip(max=x.shape[0])",
    "x ** x.shape[0]",
    "x.cumsum(0)",
    "paddle.shape(x)[0]",
    "int(paddle.shape(x)[0])",
    "paddle.shape(x)[0] > 3",
    "x * (x.shape[0] > 3)",
    'x + np.ones(x.shape, "float32")',
    "x + np.float32(x.shape[0])",
    "x + float(x.shape[0])",
    "x + [x.shape[0]][0]",
]
OUTSIDE = """
import collections, functools, math, operator
import numpy as np
import polyreme as paddle

class Held:
    last = None

CACHE, SEEN, NAMES, LOG, O = {}, {4}, list("abcdefghi"), [], Held()

def state():
    return sorted(map(str, SEEN)), list(CACHE.items()), list(LOG), O.last

def function(x):
    return [EXPRESSION, x.ndim]
"""
SIZES = (3, 4, 6, 4, 3, 1, 5)


def described(value: Any) -> Any:
    """A value that can be compared, with the kinds of all that is in it."""
    if isinstance(value, paddle.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), value.numpy().round(4).tolist()
    if isinstance(value, np.ndarray):
        return "array", value.dtype.name, value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(described(k), described(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, set)):
        return type(value).__name__, [described(v) for v in value]
    return type(value).__name__, repr(value)


def calls(path: Path, full_graph: bool | None) -> list[Any]:
    """What the function in a file gives, raises and leaves behind at each call: `full_graph` says how it is compiled, None that it is not.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = module.function if full_graph is None else paddle.jit.to_static(module.function, full_graph=full_graph)
    found: list[Any] = []
    for size in SIZES:
        try:
            result = described(function(paddle.arange(2 * size, dtype="float32").reshape([size, 2])))
        except PolyremeError as error:
            assert full_graph and error.diagnostics[0].location, error
            return found  # it is refused
        except Exception as error:
            result = type(error).__name__, str(error)
        found.append((result, described(module.state())))
    return found


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=EXPRESSIONS.__getitem__)
def test_sizes_are_numbers_to_python(number: int, tmp_path: Path) -> None:
    path = tmp_path / f"asks_{number}.py"
    path.write_text(OUTSIDE.replace("EXPRESSION", EXPRESSIONS[number]))
    eager = calls(path, None)
    assert calls(path, False) == eager
    full = calls(path, True)
    assert full == eager[: len(full)]
