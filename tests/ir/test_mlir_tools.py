"""MLIR's own tools, which know nothing of our dialects, read every module that we print in the generic form, and what they print is the
same module.

The tools run under `-m peer` only. `pytest -m peer tests/ir/test_mlir_tools.py --update-golden` keeps what they print for the small modules
in `golden/`, so that the default run checks that we still read it.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.dialects import host, tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op
from polyreme.ir.define import OPS
from polyreme.ir.diagnostics import Location, ParseError
from polyreme.ir.structure import first_difference
from polyreme.ir.syntax.literals import string_text
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import SCALARS, f64
from tests.mlir_corpus import TOOLS, Named, Tool, generic, groups, is_valid, random_modules, split
from tests.strategies import LEVELS, modules

GOLDEN = Path(__file__).parent / "golden"
RANDOM_PER_LEVEL = 60
# Modules of more ops are sent without places only, to keep the run short.
MOST_OPS_WITH_PLACES = 8000
# How many modules there have to be of each kind at least.
FEWEST = {"filetests": 70, "examples": 150, "texts in tests": 30, "LeNet": 12}

TOOL = pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])


def installed(tool: Tool) -> Tool:
    if tool.path is None:
        pytest.skip(f"{tool.name} is not installed: pip install polyreme[peers]")
    return tool


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Named]]:
    return groups(RANDOM_PER_LEVEL)


def there_and_back(tool: Tool, named: list[Named], locations: bool) -> None:
    """Send the modules through the tool and compare; those with faults go through it without its verifier."""
    for verified in (True, False):
        chosen = [(name, module) for name, module in named if is_valid(module) == verified]
        if chosen:
            printed = tool.send([generic(module, locations) for _, module in chosen], locations, verified)
            for (name, module), text in zip(chosen, printed, strict=True):
                difference = first_difference(module, parse_module(text, f"{tool.name}: {name}"), locations)
                assert not difference, f"{name}: {difference}\n{text[:4000]}"


@pytest.mark.peer
@TOOL
@pytest.mark.parametrize("locations", [False, True], ids=["", "places"])
def test_a_tool_prints_every_module_as_it_was(
    tool: Tool, locations: bool, corpus: dict[str, list[Named]], capsys: pytest.CaptureFixture[str]
) -> None:
    installed(tool)
    counts = {}
    for group, named in corpus.items():
        chosen = [(n, m) for n, m in named if not locations or sum(1 for _ in m.walk()) <= MOST_OPS_WITH_PLACES]
        there_and_back(tool, chosen, locations)
        counts[group] = len(chosen), sum(1 for _, m in chosen for _ in m.walk())
    with capsys.disabled():
        print(f"\n{tool.name}{', with places' if locations else ''}: modules and ops there and back, unchanged")
        print("\n".join(f"  {group:16} {count:5} {ops:7}" for group, (count, ops) in counts.items()))
    for group, (count, _) in counts.items():
        assert count >= (FEWEST.get(group, RANDOM_PER_LEVEL) if not locations else 1), group


@pytest.mark.peer
@TOOL
def test_what_a_tool_refuses_has_faults_to_our_verifier(tool: Tool, corpus: dict[str, list[Named]]) -> None:
    """MLIR knows the rules of functions: a module that only breaks those of our ops passes it."""
    installed(tool)
    faulty = [(name, module) for name, module in corpus["filetests"] if not is_valid(module)]
    refused = 0
    for name, module in faulty:
        try:
            tool.send([generic(module)])
        except AssertionError as error:
            assert "refuses a module" in str(error), name
            refused += 1
    assert 5 <= refused < len(faulty)


@pytest.mark.peer
def test_what_the_tools_print_is_kept(corpus: dict[str, list[Named]], request: pytest.FixtureRequest) -> None:
    """Golden files: the small modules as sent, and what each tool makes of them."""
    if not request.config.getoption("--update-golden"):
        pytest.skip("runs with --update-golden only")
    placed = [generic(m, locations=True) for _, m in corpus["filetests"] if is_valid(m)]
    plain = [generic(m) for _, m in [*corpus["examples"], *(named for level in LEVELS for named in random_modules(level, 3))]]
    GOLDEN.mkdir(exist_ok=True)
    for tool in TOOLS:
        _keep(tool.name, [*installed(tool).send(placed, locations=True), *tool.send(plain)])
    _keep("sent", [*placed, *plain])


def _keep(name: str, texts: list[str]) -> None:
    (GOLDEN / f"{name}.mlir").write_text("\n// -----\n".join(text.strip() for text in texts) + "\n", encoding="utf-8")


def kept(name: str) -> list[str]:
    return split((GOLDEN / f"{name}.mlir").read_text(encoding="utf-8"))


@TOOL
def test_what_a_tool_printed_reads_as_the_module_it_was_sent(tool: Tool) -> None:
    sent, printed = kept("sent"), kept(tool.name)
    assert len(sent) == len(printed) > 200
    for text, back in zip(sent, printed, strict=True):
        placed = " loc(" in text
        assert not first_difference(parse_module(text, "golden"), parse_module(back, tool.name), placed, tool.keeps_names), back


def test_arguments_have_the_users_names_though_a_tool_numbers_them() -> None:
    texts = [text for text in kept("iree-opt") if "arg_names" in text]
    assert len(texts) > 200
    for text in texts:
        assert "(%arg0" in text
        for func in parse_module(text).functions:
            assert [arg.name for arg in func.args] == list(func.arg_names)


@pytest.mark.peer
def test_the_golden_files_are_what_we_print() -> None:
    for text in kept("sent"):
        assert generic(parse_module(text), locations=" loc(" in text).strip() == text.strip(), "run with -m peer --update-golden"


@pytest.mark.peer
def test_the_golden_files_have_nearly_all_ops() -> None:
    text = "".join(kept("sent"))
    missing = [name for name, cls in OPS.items() if cls.__module__.startswith("polyreme.") and f'{name}"(' not in text]
    assert len(missing) < 10, f"run with -m peer --update-golden: the tools were not asked about {', '.join(missing)}"


# --- attributes and constants that are hard to spell


def one_op(op: Op) -> Module:
    func = Func.empty("main", [])
    b = Builder.at_end(func.block)
    b.insert_op(op)
    b(Return, [])
    module = Module.empty()
    module.block.append(func.finish())
    return module


def random_constants(dtype: Any, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Bits of every kind: signalling nans, denormals, infinities, whole numbers, none at all."""
    bits = rng.integers(0, 256, (7, dtype.itemsize), np.uint8)
    if dtype.kind == "b":
        return [(bits[:, 0] % 2).astype(bool), np.zeros((2, 0), bool), np.tile(bits[:, 0] % 2, 20).astype(bool)]
    few = bits.reshape(-1).view(dtype)
    with np.errstate(all="ignore"):
        whole = rng.integers(0, 120, 6).astype(dtype) * np.asarray(1000 if dtype.itemsize > 2 else 1, dtype)
    return [
        few,
        few[:1].reshape(()),
        np.tile(few, 20).reshape(2, 70),
        np.full((3, 3), few[0]),
        np.zeros((0, 4), dtype),
        whole.reshape(2, 3),
    ]


@pytest.mark.peer
@TOOL
def test_a_tool_keeps_every_bit_of_constants_of_every_type(tool: Tool) -> None:
    rng = np.random.default_rng(3)
    dtypes = [kind.np for kind in SCALARS.values() if kind.name != "index"]
    arrays = [array for _ in range(20) for dtype in dtypes for array in random_constants(dtype, rng)]
    there_and_back(installed(tool), [(f"{a.dtype}{a.shape}", one_op(tensor.Constant(value=Dense(a)))) for a in arrays], locations=False)


@pytest.mark.peer
@TOOL
def test_a_tool_keeps_every_bit_of_float_attributes(tool: Tool) -> None:
    rng = np.random.default_rng(4)
    values = [struct.unpack("<d", rng.bytes(8))[0] for _ in range(300)] + [
        0.0,
        -0.0,
        1e22,
        1e23,
        5e-324,
        0.1,
        float("inf"),
        float("nan"),
        123456789.0,
    ]
    there_and_back(installed(tool), [(str(v), one_op(tensor.Full(value=v, dtype=f64))) for v in values], locations=False)


@pytest.mark.peer
@TOOL
def test_a_tool_keeps_every_character_of_strings_and_places(tool: Tool) -> None:
    texts = [
        "",
        " ",
        "é 😀",
        'a "b" \\ c',
        "\n\t\r\0\x1b\x7f",
        'é "😀" \\ \0',
        "a\u2028b\x85",
        "// no comment",
        "%0 = loc(unknown)",
        "{-#",
        "C:\\m.py",
    ]
    named = []
    for text in texts:
        # In a place xDSL takes escapes, or letters beyond ASCII, not both.
        place = Location(text, 3, 4, 9, text) if text.isascii() or string_text(text) == f'"{text}"' else Location("m.py", 1, 1)
        named.append((repr(text), one_op(host.Call.build([], {"id": 0, "function": text}, (), (), place, (0,)))))
    there_and_back(installed(tool), named, locations=True)


# --- the same without the tools


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("form", ["readable", "generic"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_random_module_with_places_reads_back_as_it_was(level: str, form: str, data: st.DataObject) -> None:
    module = data.draw(modules(level)).module
    for i, op in enumerate(module.walk()):
        op.location = PLACES[i % len(PLACES)]
    text = print_module(module, form == "generic", locations=True)
    again = parse_module(text)
    assert not first_difference(module, again, locations=True)
    assert print_module(again, form == "generic", locations=True) == text


PLACES = [
    Location("m.py", 3, 4), Location("m.py", 3, 4, 9), Location("m.py", 3, 4, 9, "fc1"), Location(name="fc1"), Location("m.py"),
    Location("m.py", name="x"), Location(),
    Location('a "file".py', 1, 1, 2), Location("m.py", 7),
]  # fmt: skip


def test_structures_that_differ_are_told_apart() -> None:
    text = """
    func @main(%x: tensor<Nx4xf32>, %y: tensor<Nx4xf32>) -> tensor<Nx4xf32> {
      %a = nn.add %x, %y : tensor<Nx4xf32>
      %b = nn.full {value = 1.0, dtype = f32} : tensor<f32>
      return %a
    }
    """
    module = parse_module(text, "m.tir")
    assert not first_difference(module, module.clone(), locations=True, names=True)
    changes = {
        "nn.add %x, %y": "nn.add %y, %x", "value = 1.0": "value = 1", "dtype = f32} : tensor<f32>": "dtype = f64} : tensor<f64>",
        "return %a": "return %y",
        "nn.add": "nn.sub", "@main": "@other", "%y: tensor<Nx4xf32>)": "%y: tensor<4xf32>)", "value = 1.0,": "value = 1.0, shape = [2],",
    }  # fmt: skip
    for old, new in changes.items():
        assert old in text
        changed = text.replace(old, new).replace(": tensor<f32>", "") if "shape" in new else text.replace(old, new)
        assert first_difference(module, parse_module(changed)), new
    renamed = parse_module(text.replace("%a", "%c"), "m.tir")
    assert not first_difference(module, renamed) and first_difference(module, renamed, names=True)
    assert first_difference(module, parse_module(text, "n.tir"), locations=True)


def test_an_elided_module_is_for_mlir_to_read_and_not_for_us() -> None:
    module = one_op(tensor.Constant(value=Dense(np.arange(100.0))))
    text = print_module(module, generic=True, elide=10)
    assert "{-#" not in text
    with pytest.raises(ParseError, match="print it again in full"):
        parse_module(text)


@pytest.mark.peer
@TOOL
def test_a_tool_reads_an_elided_module(tool: Tool) -> None:
    module = one_op(tensor.Constant(value=Dense(np.arange(100.0))))
    (back,) = installed(tool).send([print_module(module, generic=True, elide=10)])
    assert "dense_resource<__elided__>" in back


def test_a_constant_that_is_used_twice_is_told_once() -> None:
    func = Func.empty("main", [])
    b = Builder.at_end(func.block)
    for i in range(3):
        made = b(tensor.Constant, value=Dense(np.arange(100.0) + (i == 2)))
        made.name = "weight"
    b(Return, [])
    module = Module.empty()
    module.block.append(func.finish())
    for form in (False, True):
        text = print_module(module, generic=form)
        assert re.findall(r"dense_resource<(\w+)>", text) == ["weight", "weight", "weight_1"]
        assert re.findall(r"(\w+): \"0x", text) == ["weight", "weight_1"]
        assert not first_difference(module, parse_module(text))
