"""The tokens of IR text: what each is, that nothing of a text is left out, and that the grammar for editors is the same table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir.context import all_ops
from polyreme.ir.debug.examples import example_module
from polyreme.ir.syntax.tokens import SCOPE, TABLES, scan, textmate
from polyreme.ir.text import print_module
from polyreme.ir.types import SCALARS

ROOT = Path(__file__).resolve().parents[2]
EDITORS = ROOT / "editors"
GRAMMAR = EDITORS / "polyreme.tmLanguage.json"
FILES = sorted((ROOT / "tests" / "filetests").rglob("*.tir"))

# What the lines say, token by token: text and name. Spaces between tokens are left out.
LINES = {
    "%y = nn.softmax %x {axis = -1} : tensor<8x128xf32>": [
        ("%y", "value"), ("=", "punctuation"), ("nn.softmax", "op"), ("%x", "value"), ("{", "punctuation"), ("axis", "attribute"),
        ("=", "punctuation"),
        ("-1", "number"), ("}", "punctuation"), (":", "punctuation"), ("tensor<", "type"), ("8", "number"), ("x", "punctuation"),
        ("128", "number"),
        ("x", "punctuation"), ("f32", "scalar"), (">", "type"),
    ],
    "return %a, %b#1 // done": [("return", "keyword"), ("%a", "value"), (",", "punctuation"), ("%b#1", "value"), ("// done", "comment")],
    "func @main(%func: index) attributes {arg_roles = [\"input\"]} {": [
        ("func", "keyword"), ("@main", "symbol"), ("(", "punctuation"), ("%func", "value"), (":", "punctuation"), ("index", "scalar"),
        (")", "punctuation"),
        ("attributes", "keyword"), ("{", "punctuation"), ("arg_roles", "attribute"), ("=", "punctuation"), ("[", "punctuation"),
        ('"input"', "string"),
        ("]", "punctuation"), ("}", "punctuation"), ("{", "punctuation"),
    ],
    "module @\"odd name\" {": [("module", "keyword"), ('@"odd name"', "symbol"), ("{", "punctuation")],
    "{shape = [2*N+1, floordiv(M, 2)], dtype = bf16, keep = true}": [
        ("{", "punctuation"), ("shape", "attribute"), ("=", "punctuation"), ("[", "punctuation"), ("2", "number"), ("*", "punctuation"),
        ("N", "size"),
        ("+", "punctuation"), ("1", "number"), (",", "punctuation"), ("floordiv", "function"), ("(", "punctuation"), ("M", "size"),
        (",", "punctuation"),
        ("2", "number"), (")", "punctuation"), ("]", "punctuation"), (",", "punctuation"), ("dtype", "attribute"), ("=", "punctuation"),
        ("bf16", "scalar"),
        (",", "punctuation"), ("keep", "attribute"), ("=", "punctuation"), ("true", "constant"), ("}", "punctuation"),
    ],
    ": tensor<Nx(2*max_x+1)xindex>, vector<16xi1>": [
        (":", "punctuation"), ("tensor<", "type"), ("N", "size"), ("x", "punctuation"), ("(", "size"), ("2", "number"),
        ("*", "punctuation"), ("max_x", "size"),
        ("+", "punctuation"), ("1", "number"), (")", "size"), ("x", "punctuation"), ("index", "scalar"), (">", "type"),
        (",", "punctuation"),
        ("vector<", "type"), ("16", "number"), ("x", "punctuation"), ("i1", "scalar"), (">", "type"),
    ],
    "-> !polyreme.buffer<?x4xcomplex<f32>, [\"2*N\"]>": [
        ("->", "punctuation"), ("!polyreme.buffer<", "type"), ("?", "number"), ("x", "punctuation"), ("4", "number"), ("x", "punctuation"),
        ("complex<f32>", "scalar"), (",", "punctuation"), ("[", "punctuation"), ('"2*N"', "size"), ("]", "punctuation"), (">", "type"),
    ],
    '"polyreme.nn.exp"(%0) <{size = #polyreme.size<"4*N">, a = array<i32: 1, 2>}>': [
        ('"polyreme.nn.exp"', "op"), ("(", "punctuation"), ("%0", "value"), (")", "punctuation"), ("<", "punctuation"),
        ("{", "punctuation"),
        ("size", "attribute"), ("=", "punctuation"), ('#polyreme.size<"4*N">', "size"), (",", "punctuation"), ("a", "attribute"),
        ("=", "punctuation"),
        ("array<", "constant"), ("i32", "scalar"), (":", "punctuation"), ("1", "number"), (",", "punctuation"), ("2", "number"),
        (">", "constant"),
        ("}", "punctuation"), (">", "punctuation"),
    ],
    "{value = dense<[1.0, -2.5e-3, inf]>, bits = 0x7FF0 : f64, file = \"a // b\"}": [
        ("{", "punctuation"), ("value", "attribute"), ("=", "punctuation"), ("dense<", "constant"), ("[", "punctuation"), ("1.0", "number"),
        (",", "punctuation"), ("-2.5e-3", "number"), (",", "punctuation"), ("inf", "number"), ("]", "punctuation"), (">", "constant"),
        (",", "punctuation"),
        ("bits", "attribute"), ("=", "punctuation"), ("0x7FF0", "number"), (":", "punctuation"), ("f64", "scalar"), (",", "punctuation"),
        ("file", "attribute"), ("=", "punctuation"), ('"a // b"', "string"), ("}", "punctuation"),
    ],
    "^bb0(%i: index):": [
        ("^bb0", "label"), ("(", "punctuation"), ("%i", "value"), (":", "punctuation"), ("index", "scalar"), (")", "punctuation"),
        (":", "punctuation"),
    ],
    "kernel.load %x, _ loc(\"f.0\"(\"m.py\":3:14 to :19))": [
        ("kernel.load", "op"), ("%x", "value"), (",", "punctuation"), ("_", "absent"), ("loc(", "location"), ('"f.0"', "location"),
        ("(", "location"),
        ('"m.py"', "location"), (":", "location"), ("3", "location"), (":", "location"), ("14", "location"), ("to", "location"),
        (":", "location"),
        ("19", "location"), (")", "location"), (")", "location"),
    ],
    "#loc1 = loc(unknown)": [("#loc1", "alias"), ("=", "punctuation"), ("loc(", "location"), ("unknown", "location"), (")", "location")],
    "dense<...>": [("dense<", "constant"), ("...", "punctuation"), (">", "constant")],
    "{value = dense_resource<w_0> : tensor<4xf32>}": [
        ("{", "punctuation"), ("value", "attribute"), ("=", "punctuation"), ("dense_resource<w_0>", "constant"), (":", "punctuation"),
        ("tensor<", "type"),
        ("4", "number"), ("x", "punctuation"), ("f32", "scalar"), (">", "type"), ("}", "punctuation"),
    ],
    "{-# dialect_resources: { builtin: { w: \"0x04\" } } #-}": [
        ("{-#", "resources"), ("dialect_resources", "attribute"), (":", "punctuation"), ("{", "punctuation"), ("builtin", "attribute"),
        (":", "punctuation"),
        ("{", "punctuation"), ("w", "attribute"), (":", "punctuation"), ('"0x04"', "string"), ("}", "punctuation"), ("}", "punctuation"),
        ("#-}", "resources"),
    ],
}  # fmt: skip


def named(text: str) -> list[tuple[str, str]]:
    return [(text[start:end], token.name) for start, end, token in scan(text)]


@pytest.mark.parametrize("line", LINES)
def test_the_tokens_of_a_line(line: str) -> None:
    assert named(line) == LINES[line]


def unnamed(text: str) -> list[str]:
    """What no token takes, without spaces."""
    parts, at = [], 0
    for start, end, _ in scan(text):
        assert start >= at
        parts.append(text[at:start].strip())
        at = end
    return [part for part in [*parts, text[at:].strip()] if part]


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_every_token_of_the_file_tests_has_a_name(path: Path) -> None:
    # Texts that the parser is to refuse have places that are nothing.
    text = re.sub(r"(?m)^.*// error: .*$", "", path.read_text()) if path.stem.endswith("faults") else path.read_text()
    assert not unnamed(text)


@pytest.mark.parametrize("generic", [False, True], ids=["readable", "generic"])
def test_every_op_is_coloured_as_one_in_both_forms(generic: bool) -> None:
    for name, cls in all_ops().items():
        text = print_module(example_module(cls), generic=generic, locations=True)
        tokens = named(text)
        assert not unnamed(text)
        if generic or name not in ("builtin.module", "func.func", "func.return"):
            assert any(kind == "op" and name in part for part, kind in tokens)
        assert not any(kind == "op" for part, kind in tokens if "." not in part)


def test_every_terminal_of_the_grammar_has_a_token() -> None:
    """A sample of each named terminal of `grammar.lark`, which is the list of what there is."""
    lark = (ROOT / "ir" / "syntax" / "grammar.lark").read_text()
    samples = {
        "RETURN": "return", "FUNC": "func", "MODULE": "module", "ATTRIBUTES": "attributes", "LOC": "loc(", "UNKNOWN": "loc(unknown)",
        "OPNAME": "nn.relu",
        "VALUE": "%x#0", "SYMBOL": "@main", "LABEL": "^bb0", "ABSENT": "_", "TYPE": "pending<4xf32>", "DENSE": "dense<1.0>",
        "ARRAY": "array<i32: 1>",
        "SIZE": '#polyreme.size<"N">', "STRING": '"text"', "FLOAT": "-1.5e+3", "BITS": "0xFF", "INT": "12", "WORD": "axis", "SIGN": "-",
        "STAR": "*",
        "END_CALL": ")", "ALIAS": "#loc0",
    }  # fmt: skip
    terminals = set(re.findall(r"^([A-Z_]+)(?:\.\d)?:", lark, re.MULTILINE))
    assert terminals == samples.keys()
    for name, sample in samples.items():
        assert not unnamed(sample), name
    assert all(named(name) == [(name, "scalar")] for name in SCALARS)


def test_words_of_the_grammar_are_keywords_only_where_they_are() -> None:
    assert named("func.func") == [("func.func", "op")] and named("%return") == [("%return", "value")]
    assert named("{module = 1}")[1] == ("module", "attribute") and named("{index = 1}")[1] == ("index", "attribute")
    assert named("returned")[0][1] == "size"


# --- the grammar for editors


def test_the_grammar_for_editors_is_current(request: pytest.FixtureRequest) -> None:
    text = json.dumps(textmate(), indent=2) + "\n"
    if request.config.getoption("--update-golden"):
        GRAMMAR.write_text(text, encoding="utf-8")
    assert GRAMMAR.read_text(encoding="utf-8") == text, "`pytest tests/ir/test_tokens.py --update-golden` writes it anew"


def test_the_folder_is_an_extension_of_an_editor() -> None:
    package = json.loads((EDITORS / "package.json").read_text())
    (grammar,) = package["contributes"]["grammars"]
    (language,) = package["contributes"]["languages"]
    assert (EDITORS / grammar["path"]).samefile(GRAMMAR) and grammar["scopeName"] == SCOPE and grammar["language"] == language["id"]
    configuration = json.loads((EDITORS / language["configuration"]).read_text())
    assert configuration["comments"]["lineComment"] == "//"
    re.compile(configuration["wordPattern"])
    assert re.search(configuration["indentationRules"]["increaseIndentPattern"], "  %r = kernel.if %c : f32 { (%i: index)   // so")


class TextMate:
    """As much of a TextMate tokenizer as the grammar needs, reading the JSON alone: match, begin and end, includes; line by line."""

    def __init__(self, grammar: dict[str, Any]):
        self.repository = grammar["repository"]
        self.top = grammar["patterns"]

    def rules(self, patterns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for pattern in patterns:
            found += self.rules(self.repository[pattern["include"][1:]]["patterns"]) if "include" in pattern else [pattern]
        return found

    def tokens(self, text: str) -> list[tuple[int, int, str]]:
        found, at, open_rules = [], 0, []
        for line in text.split("\n"):
            place = 0
            while True:
                rules = self.rules(open_rules[-1]["patterns"] if open_rules else self.top)
                tried = [(open_rules[-1], "end")] if open_rules else []
                tried += [(rule, "match" if "match" in rule else "begin") for rule in rules]
                matches = [(m, rule, key) for rule, key in tried if (m := re.compile(rule[key]).search(line, place))]
                if not matches:
                    break
                match, rule, key = min(matches, key=lambda entry: entry[0].start())
                found.append((at + match.start(), at + match.end(), rule["name"]))
                place = match.end()
                if key == "begin":
                    open_rules.append(rule)
                elif key == "end":
                    open_rules.pop()
            at += len(line) + 1
        return found


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_an_editor_sees_the_same_tokens(path: Path) -> None:
    text = path.read_text()
    seen = TextMate(json.loads(GRAMMAR.read_text())).tokens(text)
    assert seen == [(start, end, f"{token.scope}.polyreme") for start, end, token in scan(text)]


def test_no_token_is_empty_and_every_table_is_used() -> None:
    for table in TABLES.values():
        for token in table:
            assert re.compile(token.regex).match("") is None and (not token.end or re.compile(token.end).match("") is None)
            assert bool(token.end) == bool(token.inside)
    assert {token.inside for table in TABLES.values() for token in table if token.inside} == TABLES.keys() - {"ir"}
