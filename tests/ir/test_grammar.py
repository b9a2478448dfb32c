"""The parser's tables: kept from one process to the next, and never trusted further than Lark can read them."""

import json
from collections.abc import Callable

import pytest

from polyreme.ir.diagnostics import ParseError
from polyreme.ir.syntax import grammar, pieces
from polyreme.ir.text import parse_module, print_module

TEXT = """
#here = loc("net.py":3:4)
module @net {
  func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> attributes {arg_roles = ["input"]} {
    %c = tensor.constant {value = dense<[1.0, -inf, 0.5, 2.0]>} : tensor<4xf32> loc(#here)
    %y:2 = "test.pair"(%x) <{width = 2*N + 1}> : (tensor<Nx4xf32>) -> (tensor<Nx4xf32>, tensor<Nx4xf32>)
    return %y#1
  }
}
"""
FAULTY = ("func @f(%x: tensor<2xf32>) -> { return %x }", "func @f() { %x = $ }", 'module { func @f() { return %nobody } }', "module @m {")


class Store(dict[str, bytes]):
    def kept(self, what: str, make: Callable[[], bytes]) -> bytes:
        if what not in self:
            self[what] = make()
        return self[what]


def answers(kept: grammar.Kept | None) -> list[str]:
    """What a parser, whose tables are kept so, makes of a text with all kinds of pieces, and of faulty ones."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "_kept", kept)
        pieces.grammar.cache_clear()
        for text in (TEXT, *FAULTY):
            try:
                found.append(print_module(parse_module(text)))
            except ParseError as error:
                found.append(str(error))
    pieces.grammar.cache_clear()
    return found


@pytest.fixture(scope="module")
def worked_out() -> list[str]:
    return answers(None)


@pytest.fixture(scope="module")
def store() -> Store:
    store = Store()
    answers(store.kept)
    return store


def refuse() -> bytes:
    raise RuntimeError("tables that are there were made again")


def test_kept_tables_read_as_those_that_were_worked_out(worked_out, store):
    (what,) = store
    assert "return" in what and json.loads(store[what])
    assert answers(lambda what, make: store.kept(what, refuse)) == worked_out
    assert len(store) == 1


def test_tables_just_made_read_the_same(worked_out):
    assert answers(Store().kept) == worked_out


def cut(tables: bytes) -> bytes:
    return tables[: len(tables) // 2]


def without_states(tables: bytes) -> bytes:
    data, memo = json.loads(tables)
    del data["parser"]["parser"]["states"]
    return json.dumps([data, memo]).encode()


def of_another_form(tables: bytes) -> bytes:
    data, _ = json.loads(tables)
    return json.dumps([data, {}]).encode()


@pytest.mark.parametrize(
    "damage", [cut, without_states, of_another_form, lambda tables: b"", lambda tables: b"[]", lambda tables: b"\xff\xfe"]
)
def test_tables_that_cannot_be_read_are_worked_out(worked_out, store, damage):
    assert answers(lambda what, make: damage(*store.values())) == worked_out
