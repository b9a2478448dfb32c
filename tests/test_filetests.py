"""Runs the text files in `filetests/`, each of which says what it tests.

A file has sections, separated by a line `// -----`. The first line of a section, or of the file for all of them, is one of

    // test: round-trip              prints and parses back in both forms, and says the same
    // test: verify                  has exactly the faults that its `error:` comments state (none: it is valid)
    // test: parse                   is refused by the parser with exactly the fault that its `error:` comment states
    // test: pass cse,fuse{max=4}    is changed by the passes, as its `check:` comments state; what it computes stays the same
    // test: run                     computes on each `input:` what the `result:` comments state

Expectations are comments, alone or at the end of a line:

    // check: TEXT           the printed result has a line with TEXT (spaces count as one), below the line of the check before
    // check-not: TEXT       no line of the printed result has TEXT
    // error: TEXT           a fault on this line has TEXT in its message; `error-above:` means the line before
    // input: CONSTANT       the next argument of `main` for `test: run`, as `dense<[1.0, 2.0]> : tensor<2xf32>`
    // result: CONSTANT      the next result, compared to float32 rounding
    // unchanged: REASON     for `test: pass`: the passes leave the text as it is
    // refused: TEXT         for `test: pass`: the passes end with an error that has TEXT in its message
    // no-run: REASON        a `test: pass` is not run before and after
"""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir.diagnostics import ParseError, PolyremeError
from polyreme.ir.evaluate import evaluate, random_inputs
from polyreme.ir.passes import PASSES, PassManager, parse_passes
from polyreme.ir.syntax.literals import parse_dense, parse_type
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import BufferType
from polyreme.ir.verify import find_faults, verify

if find_spec("polyreme.lowering.pipeline"):
    import polyreme.lowering.pipeline  # noqa: F401
    import polyreme.lowering.transforms.bucket  # noqa: F401  (registers the passes)

FOLDER = Path(__file__).parent / "filetests"
TEST = re.compile(r"// test: ([\w-]+)(?: (.*))?$", re.MULTILINE)
COMMENT = re.compile(r"// (check|check-not|error|error-above|input|result|unchanged|refused|no-run): (.*)$")


@dataclass
class Section:
    """One test: its text without the sections around it, with the line numbers of the file."""

    name: str
    kind: str
    argument: str
    text: str

    @property
    def expectations(self):
        """Kind, text and line number of each comment that expects something."""
        lines = enumerate(self.text.splitlines(), 1)
        return [(m.group(1), m.group(2).strip(), n) for n, line in lines if (m := COMMENT.search(line))]

    def all(self, kind):
        return [text for k, text, _ in self.expectations if k == kind]


def sections():
    for path in sorted(FOLDER.rglob("*.tir")):
        text = path.read_text()
        default = TEST.search(text.partition("// -----")[0])
        start = 0
        for i, part in enumerate(re.split(r"(?m)^// -----.*\n", text)):
            test = TEST.search(part) or default
            assert test is not None, f"{path} does not say what it tests: expected '// test: …' in its first section"
            # Blank lines in front keep the line numbers of faults those of the file.
            padded = "\n" * text[:start].count("\n") + part
            start = text.index(part, start) + len(part)
            start = text.find("\n", start) + 1 if text[start : start + 8] == "// -----" else start
            name = f"{path.relative_to(FOLDER).with_suffix('')}-{i}"
            yield Section(name, test.group(1), test.group(2) or "", padded)


SECTIONS = list(sections())


@pytest.mark.parametrize("section", SECTIONS, ids=[s.name for s in SECTIONS])
def test_file(section):
    RUNNERS[section.kind](section)


# Those of the pipelines: tools of the debugger register more when they are imported.
NAMES = sorted(name for name, made in PASSES.items() if ".debug." not in made.__module__)


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_has_a_file_that_shows_where_it_fires_and_where_it_must_not(name):
    own = [s for s in SECTIONS if s.kind == "pass" and s.name.rpartition("-")[0] == f"passes/{name}"]
    assert own, f"expected a file passes/{name}.tir"
    kept = [bool(s.all("unchanged") or s.all("refused")) for s in own]
    assert set(kept) == {False, True}, f"expected passes/{name}.tir to have sections that the pass changes, and some that it does not"
    assert all(s.all("check") for s, k in zip(own, kept, strict=True) if not k), f"expected checks in passes/{name}.tir"
    assert all(name in [p.name for p in parse_passes(s.argument)] for s in own), f"expected passes/{name}.tir to run '{name}'"


def round_trip(section):
    module = parse_module(section.text, section.name)
    verify(module)
    for generic in (False, True):
        for locations in (False, True):
            text = print_module(module, generic, locations)
            again = parse_module(text, section.name)
            assert print_module(again, generic, locations) == text
            assert print_module(again) == print_module(module)
    check_text(section, print_module(module))


def check_text(section, text):
    lines = [" ".join(line.split()) for line in text.splitlines()]
    at = 0
    for kind, wanted, line in section.expectations:
        wanted = " ".join(wanted.split())
        if kind == "check":
            found = next((i for i in range(at, len(lines)) if wanted in lines[i]), None)
            assert found is not None, f"line {line} of {section.name}: expected {wanted!r} after line {at} of\n{text}"
            at = found + 1
        elif kind == "check-not":
            assert not any(wanted in got for got in lines), f"line {line} of {section.name}: did not expect {wanted!r} in\n{text}"


def check_faults(section, faults):
    wanted = [(n - (kind == "error-above"), text) for kind, text, n in section.expectations if kind.startswith("error")]
    got = [(f.location.line, f.message) for f in faults]
    for line, text in wanted:
        match = next((g for g in got if g[0] == line and text in g[1]), None)
        assert match is not None, f"expected a fault on line {line} of {section.name} with {text!r} but got {got}"
        got.remove(match)
    assert not got, f"{section.name} has faults that no comment states: {got}"


def faults_of_verifier(section):
    check_faults(section, find_faults(parse_module(section.text, section.name)))


def fault_of_parser(section):
    assert section.all("error") or section.all("error-above"), "expected an 'error:' comment"
    with pytest.raises(ParseError) as caught:
        parse_module(section.text, section.name)
    check_faults(section, caught.value.diagnostics)


def passes(section):
    module = parse_module(section.text, section.name)
    before, text = module.clone(), print_module(module)
    run_passes = lambda: PassManager(parse_passes(section.argument), verify_each=True).run(module)
    if refused := section.all("refused"):
        with pytest.raises(PolyremeError) as caught:
            run_passes()
        assert refused[0] in str(caught.value)
        return
    run_passes()
    made = print_module(module)
    if section.all("unchanged"):
        assert made == text, f"expected {section.name} to stay as it is"
        return
    assert made != text, f"{section.name} was not changed: expected 'unchanged: REASON' where that is what it shows"
    check_text(section, made)
    if not section.all("no-run"):
        check_results(before, module)


def check_results(before, after):
    """Functions that are there before and after give the same results; those on buffers are given what they had as tensors."""
    for func in before.functions:
        made = after.function(func.sym_name)
        # Arguments of fixed sizes are those of the later one: a pass may say what a size is.
        lowered = any(isinstance(a.type, BufferType) for a in made.args)
        inputs = random_inputs(func if lowered else made)
        for wanted, got in zip(evaluate(before, inputs, func.sym_name), evaluate(after, inputs, made.sym_name), strict=True):
            narrow = np.dtype(wanted.dtype).itemsize == 2
            wide = np.complex128 if np.iscomplexobj(wanted) else np.float64
            np.testing.assert_allclose(got.astype(wide), wanted.astype(wide), rtol=1e-2 if narrow else 1e-5, atol=1e-5)


def run(section):
    module = parse_module(section.text, section.name)
    verify(module)
    inputs, results = ([constant(text) for text in section.all(kind)] for kind in ("input", "result"))
    assert results, "expected a 'result:' comment"
    got = evaluate(module, inputs)
    assert len(got) == len(results)
    for array, wanted in zip(got, results, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-6)


def constant(text):
    body, _, kind = text.rpartition(" : ")
    return parse_dense(body, parse_type(kind)).array


RUNNERS = {"round-trip": round_trip, "verify": faults_of_verifier, "parse": fault_of_parser, "pass": passes, "run": run}
