"""What is known of functions: of kernels it is found once, however often they are emitted."""

from __future__ import annotations

import pytest

from polyreme.ir.builtin import Func
from polyreme.ir.text import parse_module
from polyreme.lowering.analysis.program import Program
from polyreme.lowering.emit.llvm.facts import Facts, gather_facts

TEXT = """
func @main(%x: buffer<(N)xf32>, %y: buffer<(N)xf32>) {
  kernel.call %x, %x {callee = @copy}
  kernel.call %x, %y {callee = @copy}
  return
}
func @copy(%a: buffer<(N)xf32>, %b: buffer<(N)xf32>) {
  %zero = kernel.constant {value = 0, dtype = index} : index
  %n = kernel.size {value = N} : index
  kernel.for %zero, %n { (%i: index)
    %v = kernel.load %a, %i : f32
    kernel.store %v, %b, %i
    kernel.yield
  }
  return
}
"""


def test_facts_of_kernels_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_module(TEXT)
    main, copy = module.functions
    alone, known = gather_facts(module.functions), dict[Func, Facts]()
    assert gather_facts(module.functions, known) == alone and list(known) == [copy]
    assert alone["copy"].shared == {0, 1} and alone["copy"].written == {1} and not known[copy].shared, "calls are another thing each time"
    walked = []
    walk = Func.walk
    monkeypatch.setattr(Func, "walk", lambda self: (walked.append(self), walk(self))[1])
    assert gather_facts(module.functions, known) == alone
    assert Program.of(module, leaves=known).functions[1:] == (copy,)
    assert copy not in walked and main in walked
