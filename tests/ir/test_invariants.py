"""Every invariant that the verifier documents: a module that keeps it, one that breaks it, and what is said about that one.

Text can break the invariants of meaning. What the parser never makes, links and use lists that disagree, is made by hand from a valid
module.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir import verify as verifier
from polyreme.ir.core import Block, Use
from polyreme.ir.define import ConstantLike, Terminator
from polyreme.ir.error_codes import ERROR_CODES
from polyreme.ir.text import parse_module
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import CHECKS, find_faults, verify

DOCS = Path(__file__).resolve().parents[2] / "docs"
LISTED = dict(re.findall(r"^ ?(\d+)\. (.+(?:\n    .+)*)", verifier.__doc__ or "", re.MULTILINE))

PLAIN = """func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor.map %x {fn = "exp"} : tensor<4xf32>
  %z = tensor.map %y, %x {fn = "add"} : tensor<4xf32>
  return %z
}"""


@dataclass
class Case:
    """`keeps` and `breaks` are texts; `damage` makes a module that breaks the invariant from one that keeps it. `says` are all the messages
    then.
    """

    number: int
    says: list[str]
    breaks: str = ""
    damage: Callable = lambda module: None
    keeps: str = PLAIN


def ops(module):
    return module.function().block.ops


def nested(depth):
    """Loops around each other, `depth` of them."""
    body = "kernel.yield"
    for i in range(depth):
        body = f"kernel.parallel %n {{ (%i{i}: index)\n{body}\n}}\n{'kernel.yield' if i < depth - 1 else ''}"
    return f"func @main(%n: index) {{\n{body}\nreturn\n}}"


def loop(body, count="%n"):
    return (
        "func @fill(%y: buffer<64xf32>, %n: index) {\n"
        "  %zero = kernel.constant {value = 0, dtype = index} : index\n"
        "  %one = kernel.constant {value = 1.0, dtype = f32} : f32\n"
        f"  kernel.parallel {count} {{ (%i: index)\n    {body}\n    kernel.yield\n  }}\n  return\n}}"
    )


def grid(body, runs="kernel.launch %x {callee = @work, grid = [1], block = [32]}"):
    return (
        f"func @work(%x: buffer<64xf32>) {{\n  {body}\n  return\n}}\n"
        f'func @main(%x: buffer<64xf32>) attributes {{arg_roles = ["output"]}} {{\n  {runs}\n  return\n}}'
    )


def deepen(module):
    """Put a copy of all loops into the innermost one, in front of what is there."""
    innermost = [op for op in module.walk() if op.name == "kernel.parallel"][-1]
    innermost.block.insert(ops(module)[0].clone(), innermost.block.first)


BARRIER_UNDER = """%t = kernel.{who} : index
  %two = kernel.constant {{value = 2, dtype = index}} : index
  %first = kernel.apply %t, %two {{fn = "lt"}} : i1
  kernel.if %first {{
    kernel.barrier ()
    kernel.yield
  }} {{
    kernel.yield
  }}"""
BARRIER_IN_LOOP = """%t = kernel.{who} : index
  %zero = kernel.constant {{value = 0, dtype = index}} : index
  %end = kernel.for %zero, %zero, %t : index {{ (%i: index, %last: index)
    kernel.for %zero, %last {{ (%j: index)
      kernel.barrier ()
      kernel.yield
    }}
    kernel.yield %last
  }}"""


def writes(role):
    return f"""func @store(%v: f32, %y: buffer<4xf32>) attributes {{arg_roles = ["", ""]}} {{
  return
}}
func @clear(%y: buffer<4xf32>) {{
  %zero = kernel.constant {{value = 0, dtype = index}} : index
  %v = kernel.load %y, %zero : f32
  kernel.store %v, %y, %zero
  return
}}
func @main(%x: buffer<2x2xf32>) attributes {{arg_roles = ["{role}"]}} {{
  %row = kernel.view %x {{shape = [4]}} : buffer<4xf32>
  kernel.call %row {{callee = @clear}}
  return
}}""".partition("}\n")[2]


CASES = {
    "a function's name is its own": Case(
        1, ["the function '@main' is defined twice"], f"{PLAIN}\n{PLAIN}", keeps=f"{PLAIN}\n{PLAIN.replace('main', 'other')}"
    ),
    "a module holds functions only": Case(
        1, ["expected only functions in a module but got 'tensor.full'"],
        damage=lambda m: m.block.append(polyreme.dialects.tensor.Full(value=0.0, dtype=f32))
    ),
    "a module takes no arguments": Case(
        1, ["expected no arguments of a module but got tensor<4xf32>"], damage=lambda m: m.block.add_arg(TensorType((4,), f32))
    ),
    "a region has one block": Case(
        1,
        [
            "expected one block in each region of 'func.func' but got 2",
            "expected a block of 'func.func' to end with a terminator but it is empty",
        ],
        damage=lambda m: m.function().body.add_block(Block()),
    ),
    "an op has the regions it declares": Case(
        1, ["expected 1 regions for 'func.func' but got 0"],
        damage=lambda m: (m.function().block.ops, [o.erase() for o in reversed(ops(m))], m.function().regions.clear())
    ),
    "neighbours know each other": Case(
        2, ["'tensor.map' does not know the op before it"], damage=lambda m: setattr(ops(m)[1], "prev", None)
    ),
    "an op knows its block": Case(
        2, ["'tensor.map' does not know the block it stands in"], damage=lambda m: setattr(ops(m)[1], "parent", Block())
    ),
    "a result knows its place": Case(
        2, ["result 0 of 'tensor.map' does not know its place"], damage=lambda m: setattr(ops(m)[0].results[0], "index", 1)
    ),
    "operands fit the declaration": Case(
        3, ["expected operands (xs…) for 'tensor.map' but got 1, split as [2]"], damage=lambda m: setattr(ops(m)[0], "segments", (2,))
    ),
    "a plain op has as many operands as it declares": Case(
        3, ["expected operands (x) for 'tensor.transpose' but got 2"],
        damage=lambda m: ops(m)[0].set_operands([m.function().args[0]] * 2),
        keeps=PLAIN.replace('map %x {fn = "exp"}', "transpose %x {perm = [0]}"),
    ),
    "every operand is a noted use": Case(
        4, ["operand 0 of 'tensor.map' is not in the use list of %y: tensor<4xf32>"],
        damage=lambda m: ops(m)[0].result.uses.pop(Use(ops(m)[1], 0))
    ),
    "every noted use is an operand": Case(
        4, ["%y: tensor<4xf32> notes a use by 'tensor.map' that is not there"],
        damage=lambda m: ops(m)[0].result.uses.update({Use(ops(m)[1], 1): None})
    ),
    "users stand in the module": Case(
        4, ["%y: tensor<4xf32> is used by 'tensor.map', which is not in the module"],
        damage=lambda m: polyreme.dialects.tensor.Map(ops(m)[0].result, fn="exp")
    ),
    "regions do not nest too deep": Case(
        5, ["expected regions to nest at most 64 deep"] * 2, damage=deepen, keeps=nested(40)
    ),
    "a value is defined before it is used": Case(
        6, ["operand 0 of 'tensor.map', %y: tensor<4xf32>, is used before it is defined"],
        damage=lambda m: ops(m)[0].set_operand(0, ops(m)[0].result)
    ),
    "a value stays in its region": Case(
        6,
        ["operand 0 of 'kernel.apply', %i: index, is defined in a region that does not enclose this use"],
        damage=lambda m: ops(m)[1].set_operand(0, ops(m)[0].block.args[0]),
        keeps='func @main(%n: index) {\n kernel.parallel %n { (%i: index)\n'
        ' kernel.yield\n }\n %j = kernel.apply %n {fn = "neg"}\n return\n}',
    ),
    "a value does not enter an isolated op": Case(
        6,
        ["operand 0 of 'tensor.map', %x: tensor<4xf32>, is defined outside of 'tensor.fused', which uses nothing from outside"],
        damage=lambda m: ops(m)[0].block.first.set_operand(0, m.function().args[0]),
        keeps='func @main(%x: tensor<4xf32>) {\n %y = tensor.fused %x { (%a: tensor<4xf32>)\n'
        ' %b = tensor.map %a {fn = "exp"}\n tensor.yield %b\n }\n return\n}',
    ),
    "a value stays in its function": Case(
        6, ["operand 0 of 'tensor.map', %x: tensor<4xf32>, is defined in another function"],
        damage=lambda m: ops(m)[0].set_operand(0, m.function("other").args[0]), keeps=f"{PLAIN}\n{PLAIN.replace('main', 'other')}",
    ),
    "a block ends with a terminator": Case(
        7, ["expected a block of 'func.func' to end with a terminator but it ends with 'tensor.map'"],
        PLAIN.replace("  return %z\n", "").replace("-> tensor<4xf32> ", "")
    ),
    "a terminator is the last op": Case(
        7, ["expected 'func.return' to end its block but more ops follow"], PLAIN.replace("return %z", "return %z\n  return %z")
    ),
    "a function ends with return": Case(
        7, ["expected 'func.func' to end with 'func.return' but got 'tensor.yield'"], PLAIN.replace("return", "tensor.yield")
    ),
    "attributes are declared": Case(8, ["'tensor.map' has no attribute 'axis'"], damage=lambda m: ops(m)[0].attributes.update(axis=1)),
    "attributes are there": Case(8, ["expected an attribute 'dtype' for 'tensor.map'"], damage=lambda m: ops(m)[0].attributes.pop("dtype")),
    "attributes are of their kind": Case(
        8, ["'tensor.map': expected 'fn' to be str but got 3"], damage=lambda m: ops(m)[0].attributes.update(fn=3)
    ),
    "attributes are among their choices": Case(
        8, ["'dist.all_reduce': expected 'reduce' to be one of sum, mean, max, min, prod but got 'sun'; did you mean 'sum'?"],
        damage=lambda m: ops(m)[0].attributes.update(reduce="sun"), keeps=PLAIN.replace('tensor.map %x {fn = "exp"}', "dist.all_reduce %x"),
    ),
    "attributes are in normal form": Case(
        8, ["expected the attribute 'perm' of 'tensor.transpose' in the form (0,) but got [0]"],
        damage=lambda m: ops(m)[0].attributes.update(perm=[0]), keeps=PLAIN.replace('map %x {fn = "exp"}', "transpose %x {perm = [0]}"),
    ),
    "results are what is inferred": Case(
        9, ["expected 'tensor.map' to result in tensor<4xf32> but got tensor<5xf32>", "'tensor.map' expected"],
        PLAIN.replace('"exp"} : tensor<4xf32>', '"exp"} : tensor<5xf32>'),
    ),
    "a loop's steps are positive": Case(
        9, ["'kernel.for' expected a positive 'step' but got 0"], damage=lambda m: ops(m)[0].attributes.update(step=0),
        keeps="func @main(%n: index) {\n kernel.for %n, %n {step = 1} { (%i: index)\n kernel.yield\n }\n return\n}",
    ),
    "sizes are not negative": Case(
        10, ["expected sizes from 0 to 9223372036854775807 for result 0 of 'tensor.map' but got tensor<-1xf32>"],
        damage=lambda m: (setattr(ops(m)[0].results[0], "type", TensorType((-1,), f32)), ops(m)[1].set_operand(0, m.function().args[0])),
    ),
    "ranks have a limit": Case(
        10, ["expected a rank of at most 32 for result 0 of 'tensor.map' but got 33"],
        damage=lambda m: (
            setattr(ops(m)[0].results[0], "type", TensorType((1,) * 33, f32)),
            ops(m)[1].set_operand(0, m.function().args[0]),
        ),
    ),
    "a function's type is that of its body": Case(
        11, ["the type of '@main' says that it returns tensor<3xf32> but it returns tensor<4xf32>"],
        PLAIN.replace("-> tensor<4xf32>", "-> tensor<3xf32>")
    ),
    "roles are known": Case(
        11,
        [
            "expected the roles of '@main' to be of input, param, packed, constant, state, output, looks but got 'parm'; "
            "did you mean 'param'?"
        ],
        PLAIN.replace("tensor<4xf32> {\n", 'tensor<4xf32> attributes {arg_roles = ["parm"]} {\n', 1),
        keeps=PLAIN.replace("tensor<4xf32> {\n", 'tensor<4xf32> attributes {arg_roles = ["param"]} {\n', 1),
    ),
    "a call names a function": Case(
        12, ["'func.call' calls '@man', which is no function of the module; did you mean 'main'?"],
        f"{PLAIN}\nfunc @other(%x: tensor<4xf32>) {{\n  %y = func.call %x {{callee = @man}} : tensor<4xf32>\n  return\n}}",
        keeps=f"{PLAIN}\nfunc @other(%x: tensor<4xf32>) {{\n  %y = func.call %x {{callee = @main}} : tensor<4xf32>\n  return\n}}",
    ),
    "a call gives what the function takes": Case(
        12, ["expected argument 0 of '@main' to be tensor<4xf32> but got tensor<5xf32>"],
        f"{PLAIN}\nfunc @other(%x: tensor<5xf32>) {{\n  %y = func.call %x {{callee = @main}} : tensor<4xf32>\n  return\n}}",
    ),
    "sizes come from arguments": Case(
        13, ["the size 'N' is not the size of an axis of any argument of '@main'"],
        "func @main(%x: tensor<4xf32>) {\n  %y = tensor.full {value = 0.0, shape = [N], dtype = f32} : tensor<Nxf32>\n  return\n}",
        keeps="func @main(%x: tensor<Nxf32>) {\n  %y = tensor.full {value = 0.0, shape = [N], dtype = f32} : tensor<Nxf32>\n  return\n}",
    ),
    "calls form no circle": Case(
        14,
        ["expected calls without a circle but '@a' calls '@b' calls '@a'"],
        "func @a() {\n kernel.call () {callee = @b}\n return\n}\nfunc @b() {\n kernel.call () {callee = @a}\n return\n}",
        keeps="func @a() {\n kernel.call () {callee = @b}\n kernel.call () {callee = @c}\n return\n}\n"
        "func @b() {\n kernel.call () {callee = @c}\n return\n}\nfunc @c() {\n return\n}",
    ),
    "a function does not call itself": Case(
        14, ["expected calls without a circle but '@main' calls '@main'"],
        "func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n %y = func.call %x {callee = @main} : tensor<4xf32>\n return %y\n}",
    ),
    "what is pure has pure parts": Case(
        15,
        ["expected only pure ops in 'tensor.fused' but got 'dist.broadcast'"],
        "func @main(%x: tensor<4xf32>) {\n %y = tensor.fused %x { (%a: tensor<4xf32>)\n"
        " %b = dist.broadcast %a {root = 0}\n tensor.yield %b\n }\n return\n}",
        keeps='func @main(%x: tensor<4xf32>) {\n %y = tensor.fused %x { (%a: tensor<4xf32>)\n'
        ' %b = tensor.map %a {fn = "exp"}\n tensor.yield %b\n }\n return\n}',
    ),
    "what is sent is waited for": Case(
        16,
        ["expected a 'dist.wait' for %p: pending<4xf32> but nothing uses it"],
        "func @main(%x: tensor<4xf32>) {\n  %p = dist.all_reduce_start %x : pending<4xf32>\n  return\n}",
        keeps="func @main(%x: tensor<4xf32>) {\n  %p = dist.all_reduce_start %x : pending<4xf32>\n"
        "  %y = dist.wait %p : tensor<4xf32>\n  return\n}",
    ),
    "what is on its way is not read": Case(
        16, ["expected only 'dist.wait' to use %p: pending<4xf32> but 'nn.relu' does"],
        "func @main(%x: tensor<4xf32>) {\n  %p = dist.all_reduce_start %x : pending<4xf32>\n  %r = nn.relu %p : pending<4xf32>\n  %y = "
        "dist.wait %r : tensor<4xf32>\n  return\n}",
    ),
    "what is on its way stays in its function": Case(
        16, ["expected tensors to enter a region of 'func.func' but %p: pending<4xf32> is on its way: wait for it first"],
        "func @main(%p: pending<4xf32>) {\n  %y = dist.wait %p : tensor<4xf32>\n  return\n}",
    ),
    "a function on buffers returns nothing": Case(
        17, ["expected '@main', a function on buffers, to return nothing but it returns 1 values"],
        "func @main(%x: buffer<4xf32>) -> index {\n  %n = kernel.size {value = 4} : index\n  return %n\n}",
        keeps="func @main(%x: buffer<4xf32>) {\n  %n = kernel.size {value = 4} : index\n  return\n}",
    ),
    "main takes buffers only": Case(
        17,
        ["expected buffers as arguments of '@main' but argument 1 is index"],
        "func @main(%x: buffer<4xf32>, %n: index) {\n  %m = kernel.size {value = 4} : index\n  return\n}",
        keeps="func @work(%x: buffer<4xf32>, %n: index) {\n  return\n}\n"
        "func @main(%x: buffer<4xf32>) {\n  %n = kernel.size {value = 4} : index\n  kernel.call %x, %n {callee = @work}\n  return\n}",
    ),
    "inputs are only read, by kernels too, under any shape": Case(
        18, ["'kernel.call' writes to %x: buffer<2x2xf32>, whose role is 'input': it is only read"], writes("input"), keeps=writes("output")
    ),
    "constants are only read": Case(
        18,
        ["'kernel.store' writes to %w: buffer<2xf32>, which is constant"],
        'func @main() {\n  %w = kernel.data {value = dense<[1.0, 2.0]> : tensor<2xf32>}\n'
        '  %i = kernel.constant {value = 0, dtype = index}\n  %v = kernel.load %w, %i\n  kernel.store %v, %w, %i\n  return\n}',
        keeps='func @main() {\n  %w = kernel.data {value = dense<[1.0, 2.0]> : tensor<2xf32>}\n'
        '  %i = kernel.constant {value = 0, dtype = index}\n  %v = kernel.load %w, %i\n  return\n}',
    ),
    "the arena is main's": Case(
        19, ["expected no arena memory in '@work', a kernel: its memory is local or shared"],
        grid("%t = kernel.alloc {shape = [8], dtype = f32}"),
        keeps=grid('%t = kernel.alloc {shape = [8], dtype = f32, space = "local"}'),
    ),
    "main's memory is the arena's": Case(
        19, ["expected no local memory in '@main', which the host runs: its memory is the arena's"],
        'func @main() {\n  %t = kernel.alloc {shape = [8], dtype = f32, space = "local"}\n  return\n}',
        keeps="func @main() {\n  %t = kernel.alloc {shape = [8], dtype = f32}\n  return\n}",
    ),
    "shared memory is a block's": Case(
        19, ["expected shared memory in kernels that 'kernel.launch' runs but nothing launches '@work'"],
        grid('%t = kernel.alloc {shape = [8], dtype = f32, space = "shared"}', "kernel.call %x {callee = @work}"),
        keeps=grid('%t = kernel.alloc {shape = [8], dtype = f32, space = "shared"}'),
    ),
    "places in the arena are aligned": Case(
        19, ["expected an offset in the arena that is a multiple of 64 but got 40"],
        "func @main() {\n  %t = kernel.alloc {shape = [8], dtype = f32, offset = 40}\n  return\n}",
        keeps="func @main() {\n  %t = kernel.alloc {shape = [8], dtype = f32, offset = 128}\n  return\n}",
    ),
    "threads are those of a grid": Case(
        20, ["expected 'kernel.thread_id' in kernels that 'kernel.launch' runs but nothing launches '@work'"],
        grid("%t = kernel.thread_id : index", "kernel.call %x {callee = @work}"), keeps=grid("%t = kernel.thread_id : index"),
    ),
    "barriers stand where all threads come": Case(
        20, ["expected all threads of a block at 'kernel.barrier' but it stands in a 'kernel.if', which differs from thread to thread"],
        grid(BARRIER_UNDER.format(who="thread_id")), keeps=grid(BARRIER_UNDER.format(who="block_id")),
    ),
    "barriers in loops are met equally often, carried bounds included": Case(
        20, ["expected all threads of a block at 'kernel.barrier' but it stands in a 'kernel.for', which differs from thread to thread"],
        grid(BARRIER_IN_LOOP.format(who="thread_id")), keeps=grid(BARRIER_IN_LOOP.format(who="block_id")),
    ),
    "iterations have places of their own": Case(
        21, ["'kernel.store' writes to the same place of %y: buffer<64xf32> in every iteration of 'kernel.parallel'"],
        loop("kernel.store %one, %y, %zero"), keeps=loop("kernel.store %one, %y, %i"),
    ),
    "guards are about sizes of arguments": Case(
        22,
        [
            "the guard 'N % 8 == 0 [8*M] nn.reshape net.py:12:9' of '@main' is about the size 'M', "
            "which is not the size of an axis of any argument"
        ],
        PLAIN.replace("tensor<4xf32> {\n", 'tensor<4xf32> attributes {guards = ["N % 8 == 0 [8*M] nn.reshape net.py:12:9"]} {\n', 1),
        keeps=PLAIN.replace("4xf32", "(8*M)xf32").replace(
            "32> {\n", '32> attributes {guards = ["N % 8 == 0 [8*M] nn.reshape net.py:12:9"]} {\n', 1
        ),
    ),
    "iterations have places of their own, also in loops of theirs": Case(
        21, ["'kernel.store' writes to the same place of %y: buffer<64xf32> in every iteration of 'kernel.parallel'"],
        loop("kernel.for %zero, %n { (%j: index)\n kernel.store %one, %y, %j\n kernel.yield\n }"),
        keeps=loop("kernel.for %zero, %n { (%j: index)\n %k = kernel.apply %i, %j {fn = \"add\"}\n kernel.store %one, %y, %k\n "
        "kernel.yield\n }"),
    ),
}  # fmt: skip


def says(module, messages):
    """Whether the faults are those that start with, or are, the messages, in this order."""
    found = [f.message for f in find_faults(module)]
    return found, len(found) == len(messages) and all(got.startswith(wanted) for got, wanted in zip(found, messages, strict=True))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_module_that_keeps_the_invariant_is_valid(case):
    verify(parse_module(case.keeps))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_module_that_breaks_the_invariant_is_told_so_under_its_number(case):
    module = parse_module(case.breaks or case.keeps)
    case.damage(module)
    found, right = says(module, case.says)
    assert right, found
    assert f"E02{case.number:02}" in {f.code for f in find_faults(module)}


def test_every_documented_invariant_has_cases_and_a_code():
    numbers = sorted(int(n) for n in LISTED)
    assert numbers == list(range(1, len(numbers) + 1))
    assert {case.number for case in CASES.values()} == set(numbers)
    assert [c for c in ERROR_CODES if c.startswith("E02")] == [f"E02{n:02}" for n in numbers]


def test_the_page_about_the_verifier_lists_the_same_invariants():
    page = (DOCS / "verifier.md").read_text()
    rows = re.findall(r"^\| (\d+) \| \[E02(\d\d)\]\(errors/E02(\d\d)\.md\) \| (.+) \|$", page, re.MULTILINE)
    assert [int(n) for n, *_ in rows] == [int(a) for _, a, _, _ in rows] == [int(b) for _, _, b, _ in rows] == sorted(map(int, LISTED))
    plain = lambda text: " ".join(text.split())
    assert {number: plain(text) for number, _, _, text in rows} == {number: plain(text) for number, text in LISTED.items()}


def test_all_faults_are_found_in_one_go_those_of_dialects_too():
    text = """func @work(%x: buffer<4xf32>) {
      %a = kernel.alloc {shape = [8], dtype = f32}
      %t = kernel.thread_id : index
      return
    }
    func @main(%x: buffer<4xf32>, %y: buffer<Kxf32>, %z: buffer<4xf32>) attributes {arg_roles = ["output", "input", "inptu"]} {
      kernel.call %x {callee = @work}
      kernel.call %x {callee = @wrk}
      return
    }"""
    assert sorted(f.code for f in find_faults(parse_module(text))) == ["E0211", "E0212", "E0219", "E0220"]


def test_dialects_are_not_asked_about_modules_that_cannot_be_walked():
    module = parse_module(loop("kernel.store %one, %y, %zero"))
    func = next(iter(module.functions))
    func.block.last.next = func.block.first
    assert {f.code for f in find_faults(module)} == {"E0202"}


def test_traits_that_the_verifier_relies_on_fit_what_ops_declare():
    from polyreme.ir.context import all_ops

    assert CHECKS.keys() == {"dist", "kernel"}
    for cls in all_ops().values():
        parts = cls.definition
        if ConstantLike in cls.traits:
            assert not parts.operands and not parts.regions, cls.name
        if Terminator in cls.traits:
            assert not parts.regions and parts.infer_types([()] * len(parts.operands), {}) == (), cls.name
