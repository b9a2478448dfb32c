"""Programs for inference as Paddle's files hold them: the variables that are fed and fetched are named by operators at both ends."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.loaders.attribute_kinds import INT
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.program_desc import FEED_MINIBATCH, FETCH_LIST, OpDesc, VarDesc, write_program
from polyreme.static.desc.write import describe
from polyreme.static.operator import Operator
from polyreme.static.program import Program
from polyreme.static.variable import Variable

__all__ = ["inference_bytes", "inference_program"]

_FEED, _FETCH = "feed", "fetch"


def inference_bytes(program: Program, feeds: Sequence[str], fetches: Sequence[str]) -> bytes:
    """A `ProgramDesc` of a program that is ready for inference, with operators that name the fed and the fetched variables."""
    desc = describe(program)
    root = desc.blocks[0]
    root.variables[_FEED] = VarDesc(_FEED, FEED_MINIBATCH, persistable=True)
    root.variables[_FETCH] = VarDesc(_FETCH, FETCH_LIST, persistable=True)
    first = [OpDesc("feed", {"X": [_FEED]}, {"Out": [name]}, {"col": i}, {"col": INT}) for i, name in enumerate(feeds)]
    last = [OpDesc("fetch", {"X": [name]}, {"Out": [_FETCH]}, {"col": i}, {"col": INT}) for i, name in enumerate(fetches)]
    root.ops[:] = [*first, *root.ops, *last]
    return write_program(desc)


def inference_program(data: bytes, file: str) -> tuple[Program, list[str], list[Variable]]:
    """The program in such bytes without these operators, the names to feed, and the variables to fetch. A `LoaderError` where the bytes are
    damaged or fetch nothing.
    """
    program = Program.parse_from_string(data)
    block = program.global_block()
    feeds = sorted((_column(op, file), name) for op in block.ops if op.type == "feed" for name in op.output_arg_names)
    fetches = sorted((_column(op, file), name) for op in block.ops if op.type == "fetch" for name in op.input_arg_names)
    if not fetches:
        raise LoaderError(f"{file}: expected a program with results but it fetches nothing")
    block.ops = [op for op in block.ops if op.type not in ("feed", "fetch")]
    for name in (_FEED, _FETCH):
        block.vars.pop(name, None)
    for _, name in feeds:
        block.var(name).is_data = True
    program.touch()
    return program, [name for _, name in feeds], [block.var(name) for _, name in fetches]


def _column(op: Operator, file: str) -> int:
    column = op.attrs.get("col")
    if not isinstance(column, int):
        raise LoaderError(f"{file}: expected a number as 'col' of '{op.type}' but got {column!r}")
    return column
