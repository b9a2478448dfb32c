"""The text format where files cannot show it: elided constants, broken modules, numbers of every kind, and garbage."""

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block
from polyreme.ir.diagnostics import Location, ParseError
from polyreme.ir.dims import symbol
from polyreme.ir.syntax.literals import LiteralError, parse_string, parse_type, string_text, type_text
from polyreme.ir.text import identity_text, parse_module, print_module
from polyreme.ir.types import SCALARS, BufferType, TensorType, VectorType, f32
from polyreme.ir.verify import find_faults

SEED = """
module @net {
  func @main(%x: tensor<Nx10xf32>, %w: tensor<10x(2*N+1)xf32>) -> tensor<Nx(2*N+1)xf32> attributes {arg_roles = ["input", "param"]} {
    %c = tensor.constant {value = dense<[1.0, -inf, 0.5]>} : tensor<3xf32> loc("m.py":3:4 to :9)
    %y = tensor.contract %x, %w {spec = "mk,kn->mn"} : tensor<Nx(2*N+1)xf32> loc("fc"("m.py":3:4))
    %z = tensor.fused %y : tensor<Nx(2*N+1)xf32> { (%a: tensor<Nx(2*N+1)xf32>)
      %b = tensor.map %a {fn = "exp"} : tensor<Nx(2*N+1)xf32>
      tensor.yield %b
    }
    return %z // the end
  }
}
"""


# As MLIR's tools print, with what they spell in their own way.
GENERIC_SEED = """
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{function_type = (tensor<313xui64>) -> tensor<3xf32>, sym_name = "draw"}> ({
  ^bb0(%arg0: tensor<313xui64> loc("m.py":1:2)):
    %0:2 = "polyreme.tensor.random"(%arg0) {dtype = f32, shape = [3]} : (tensor<313xui64>) -> (tensor<3xf32>, tensor<313xui64>) loc(#loc2)
    %1 = "polyreme.tensor.constant"() {value = dense_resource<weight> : tensor<3xf32>}
      : () -> tensor<3xf32> loc(fused["m.py":3:1, "m.py":3:9])
    %2 = "polyreme.tensor.constant"() {value = dense<[0x7FC00001, 1.000000e+00, -2.5]> : tensor<3xf32>}
      : () -> tensor<3xf32> loc("x"(#loc1))
    "func.return"(%0#0) : (tensor<3xf32>) -> () loc(callsite(#loc1 at unknown))
  }) {arg_names = ["seed"]} : () -> () loc(#loc)
}) : () -> () loc(#loc)
#loc = loc(unknown)
#loc1 = loc("m.py":7:1)
#loc2 = loc("layer"(#loc1))

{-#
  dialect_resources: {
    builtin: {
      weight: "0x400000000000803F00000040000080BF"
    }
  },
  external_resources: {
    mlir_reproducer: {
      verify_each: "true"
    }
  }
#-}
"""


def module_with(array):
    func = Func.empty("main", [])
    b = Builder.at_end(func.block)
    b(Return, [b(tensor.Constant, value=Dense(array))])
    module = Module.empty()
    module.block.append(func.finish())
    return module


DTYPES = [t.np for t in SCALARS.values() if t.name != "index"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_constants_of_every_type_keep_every_bit(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.integers(0, 12), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = data.draw(st.binary(min_size=size, max_size=size)) if size < 400 else np.random.default_rng(size).bytes(size)
    array = np.frombuffer(raw, np.uint8).reshape((*shape, dtype.itemsize))
    array = (array[..., 0] % 2).astype(bool) if dtype.kind == "b" else array.copy().view(dtype).reshape(shape)
    for generic in (False, True):
        text = print_module(module_with(array), generic)
        (constant, _) = parse_module(text).function().block
        assert constant.value.array.dtype == array.dtype
        assert constant.value.array.shape == array.shape
        assert constant.value.array.tobytes() == array.tobytes()


@given(st.floats())
def test_floats_keep_their_value(value):
    module = Module.empty()
    func = Func.empty("main", [])
    b = Builder.at_end(func.block)
    b(tensor.Full, value=value, dtype=f32)
    b(Return, [])
    module.block.append(func)
    for generic in (False, True):
        read = parse_module(print_module(module, generic)).function().block.first.value
        assert (read == value and np.signbit(read) == np.signbit(value)) or (np.isnan(read) and np.isnan(value))
        assert type(read) is float


@given(st.text(st.characters()))
def test_strings_keep_every_character(text):
    assert parse_string(string_text(text)) == text
    assert "\n" not in string_text(text)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
DIMS = st.one_of(st.integers(0, 99), NAMES.map(symbol), st.tuples(NAMES, st.integers(1, 9)).map(lambda p: symbol(p[0]) * 2 + p[1]))
TYPES = st.one_of(
    st.builds(TensorType, st.lists(DIMS, max_size=4).map(tuple), st.sampled_from(list(SCALARS.values()))),
    st.builds(BufferType, st.lists(DIMS, max_size=4).map(tuple), st.sampled_from(list(SCALARS.values()))),
    st.builds(VectorType, st.integers(1, 64), st.sampled_from(list(SCALARS.values()))),
    st.sampled_from(list(SCALARS.values())),
)


@given(TYPES, st.booleans())
def test_types_are_read_back_in_both_spellings(kind, generic):
    assert parse_type(type_text(kind, generic)) == kind


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_garbage_is_refused_with_a_place_and_never_crashes(data):
    """Random cuts, repeats and insertions in valid text."""
    text = data.draw(st.sampled_from([SEED, GENERIC_SEED, print_module(parse_module(SEED), generic=True, locations=True)]))
    for _ in range(data.draw(st.integers(1, 3))):
        at, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
        piece = data.draw(
            st.one_of(st.just(""), st.sampled_from(list("{}()[]<>:,=%@\"'#!?x-0\\\n") + ["tensor<", "dense<", "loc("]), st.text(max_size=5))
        )
        text = text[:at] + piece + text[end if data.draw(st.booleans()) else at :]
    try_to_read(text)


def try_to_read(text):
    """Text is refused with a place in it, or makes a module that the verifier and the printer can deal with."""
    try:
        module = parse_module(text, "garbage.tir")
    except ParseError as error:
        assert all(d.location.file == "garbage.tir" for d in error.diagnostics)
        return
    find_faults(module)
    printed = print_module(module)
    assert print_module(parse_module(printed)) == printed


FILES = sorted((Path(__file__).parents[1] / "filetests").rglob("*.tir"))


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_words_in_disorder_never_crash(path):
    """Words of the test files dropped, repeated and exchanged."""
    words = re.findall(r"\s+|\w+|[^\w\s]", path.read_text().split("// -----")[0])
    random = Random(path.stem)
    for _ in range(60):
        shuffled = list(words)
        for _ in range(random.randint(1, 3)):
            at, start = random.randrange(len(shuffled)), random.randrange(len(words))
            shuffled[at : at + random.randint(0, 2)] = words[start : start + random.randint(0, 2)]
        try_to_read("".join(shuffled))


@pytest.mark.parametrize(
    "text",
    [
        "func @f() " + "{" * 5000,
        "func @f() {\n" + 'kernel.parallel %n { (%i: index)\n' * 2000,
        "func @f() attributes {arg_names = " + "[" * 5000 + "]" * 5000 + "} {\nreturn\n}",
        "func @f() {\n%c = tensor.constant {value = dense<" + "[" * 20000 + "]" * 20000 + ">} : tensor<1xf32>\nreturn\n}",
        "func @f(%x: tensor<" + "(" * 3000 + "N" + ")" * 3000 + "xf32>) {\nreturn\n}",
        "func @f() {\n%c = tensor.full {value = 0, dtype = f32, shape = [" + "max(N, " * 3000 + "N" + ")" * 3000 + "]}\nreturn\n}",
        "func @f(%x: tensor<" + "9" * 5000 + "xf32>) {\nreturn\n}",
        "func @f(%x: tensor<(" + "*".join(f"(a{i}+b{i})" for i in range(40)) + ")xf32>) {\nreturn\n}",
        'func @f() {\nreturn\n} loc("a"("b"("c"("d"))))',
    ],
    ids=["braces", "regions", "lists", "elements", "sizes", "calls", "digits", "terms", "locations"],
)
def test_deep_or_long_text_is_refused(text):
    with pytest.raises(ParseError):
        parse_module(text)


def test_regions_may_nest_and_no_deeper_than_the_limit():
    def nested(depth):
        return (
            "func @f(%n: index) {\n"
            + "".join(f"kernel.parallel %n {{ (%i{k}: index)\n" for k in range(depth))
            + "kernel.yield\n}\n" * depth
            + "return\n}"
        )

    assert print_module(parse_module(nested(60))).count("kernel.parallel") == 60
    with pytest.raises(ParseError, match="expected regions to nest at most 64 deep"):
        parse_module(nested(70))


def test_large_constants_stand_at_the_end_in_hex_and_may_be_left_out():
    module = module_with(np.arange(100, dtype=np.float32))
    for generic in (False, True):
        text = print_module(module, generic)
        assert re.search(r"\{value = dense_resource<constant>", text)
        assert re.search(
            r'\n\{-#\n  dialect_resources: \{\n    builtin: \{\n      constant: "0x40000000[0-9A-F]{800}"\n    \}\n  \}\n#-\}\n$', text
        )
    elided = print_module(module, elide=50)
    assert "{value = dense<...>} : tensor<100xf32>" in elided
    assert "dense_resource<__elided__> : tensor<100xf32>" in print_module(module, generic=True, elide=50)
    assert print_module(module, elide=100) == print_module(module)
    for text in (elided, print_module(module, generic=True, elide=50)):
        with pytest.raises(ParseError, match="they were elided when it was printed"):
            parse_module(text)


def test_names_that_are_no_words_are_made_words():
    func = Func.empty("main", [TensorType((), f32)] * 5, (), ["a b", "7", "a b", "a_b_1", "ü"])
    Builder.at_end(func.block)(Return, [])
    text = print_module(func)
    assert re.findall(r"(%\S+):", text) == ["%a_b", "%_7", "%a_b_1", "%a_b_1_1", "%_"]
    assert parse_module(text).function().arg_names == ("a b", "7", "a b", "a_b_1", "ü")


def test_modules_that_are_not_valid_can_be_printed():
    func = Func.empty("main", [TensorType((), f32)])
    other = Func.empty("other", [TensorType((), f32)])
    func.block.append(tensor.Map(other.args[0], fn="exp"))
    func.attributes["function_type"] = None
    func.body.add_block(Block())
    assert '"exp"' in print_module(func)
    assert '"func.func"' in print_module(func, generic=True)


@pytest.mark.parametrize("name", [None, "", "net", "two words"])
@pytest.mark.parametrize("generic", [False, True])
def test_a_module_keeps_its_name_or_that_it_has_none(name, generic):
    assert parse_module(print_module(Module.empty(name), generic=generic)).sym_name == name


def test_modules_that_differ_in_names_have_one_text_without_them():
    """Which is why a compiled function is found again when its variables are renamed; names that a caller sees stay."""
    text = (
        "func @main(%x: tensor<100xf32>) -> tensor<100xf32> {\n"
        "  %c = tensor.constant {value = dense_resource<c>} : tensor<100xf32>\n  return %c\n}\n"
    )
    text += f'{{-# dialect_resources: {{ builtin: {{ c: "0x04000000{"0000803F" * 99 + "00000000"}" }} }} #-}}\n'
    first, second = parse_module(text), parse_module(text.replace("%c", "%d"))
    assert print_module(first) != print_module(second)
    assert identity_text(first) == identity_text(second)
    assert 'arg_names = ["x"]' in identity_text(first)
    assert identity_text(parse_module(text.replace("%x", "%z"))) != identity_text(first)


def test_an_error_shows_the_line_and_a_caret():
    with pytest.raises(ParseError) as caught:
        parse_module("func @main(%x: tensor<4xf32>) {\n\t%y = tensor.mup %x {fn = \"exp\"}\n  return\n}", "net.tir")
    assert str(caught.value).splitlines()[:3] == [
        "net.tir:2:7: error[E0105]: the dialect 'tensor' has no op 'tensor.mup'; did you mean 'tensor.map'?",
        '    \t%y = tensor.mup %x {fn = "exp"}',
        "    \t     ^^^^^^^^^^",
    ]


def test_ops_without_a_location_are_located_in_the_text():
    module = parse_module(SEED, "net.tir")
    constant, contract, fused, _ = module.function().block
    assert constant.location == Location("m.py", 3, 4, 9)
    assert contract.location == Location("m.py", 3, 4, name="fc")
    assert fused.location == Location("net.tir", 6, 10, 22)


@pytest.mark.parametrize(
    "text",
    [
        "tensor<4x>",
        "tensor<>",
        "tensor<4xf32",
        "vector<4x4xf32>",
        "vector<Nxf32>",
        "tensor<?xf32>",
        'tensor<?xf32, ["N", "T"]>',
        "tensor<-1xf32>",
        "memref<4xf32>",
    ],
)
def test_types_that_are_misspelt(text):
    with pytest.raises(LiteralError):
        parse_type(text)


def test_a_line_of_no_file_is_no_place():
    place = 'fused["":10:3, "a.py":10:9]'
    module = parse_module(
        f'"builtin.module"() ({{"func.func"() ({{"func.return"() : () -> () loc({place})}}) {{sym_name = "f", function_type = () -> ()}} : '
        f'() -> ()}}) : () -> ()'
    )
    text = print_module(module, generic=True, locations=True)
    assert not module.function("f").block.terminator.location
    assert print_module(parse_module(text), generic=True, locations=True) == text


def test_the_identity_of_a_module_depends_on_every_element_of_a_long_constant():
    array = np.arange(5000, dtype=np.float32).reshape(50, 100) / 7
    same, other, turned = array.copy(), array.copy(), array.reshape(100, 50)
    other[49, 99] += 1e-3
    text = identity_text(module_with(array))
    assert len(text) < 1000
    assert identity_text(module_with(same)) == text
    assert (
        len(
            {
                text,
                identity_text(module_with(other)),
                identity_text(module_with(turned)),
                identity_text(module_with(array.astype(np.float64))),
            }
        )
        == 4
    )


@pytest.mark.parametrize("place", ['"a.py":0:14 to :19', 'fused["a.py":0:10, "a.py":0:19]'])
def test_a_place_without_a_line_has_no_end(place):
    module = parse_module(
        f'"builtin.module"() ({{"func.func"() ({{"func.return"() : () -> () loc({place})}}) {{sym_name = "f", function_type = () -> ()}} : '
        f'() -> ()}}) : () -> ()'
    )
    for generic in (False, True):
        text = print_module(module, generic=generic, locations=True)
        again = parse_module(text)
        assert again.function("f").block.terminator.location == module.function("f").block.terminator.location
        assert print_module(again, generic=generic, locations=True) == text
