"""The generic form is accepted by an MLIR tool that knows nothing of polyreme."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.ir.text import parse_module, print_module
from tests.strategies import modules

pytestmark = pytest.mark.peer

KERNEL = """
func @main(%x: buffer<Nx4xf32>, %y: buffer<(2*N)xbf16>, %flag: i1) attributes {arg_roles = ["input", "output", "input"]} {
  %zero = kernel.size {value = 0} : index
  %n = kernel.size {value = 4*N} : index
  %r = kernel.if %flag : index {
    kernel.yield %zero
  } {
    kernel.yield %n
  }
  kernel.for %zero, %r {step = 16} { (%i: index)
    %v = kernel.load %x, %i {lanes = 16} : vector<16xf32>
    kernel.store %v, %x, %i
    kernel.yield
  }
  return
}
"""


def accept(text):
    context_module = pytest.importorskip("xdsl.context")
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser

    context = context_module.Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    Parser(context, text).parse_module().verify()


@pytest.mark.parametrize("level", ["nn", "tensor"])
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_xdsl_reads_random_modules(level, data):
    accept(print_module(data.draw(modules(level)).module, generic=True))


def test_xdsl_reads_buffers_loops_and_locations():
    accept(print_module(parse_module(KERNEL, 'a "file".tir'), generic=True, locations=True))
