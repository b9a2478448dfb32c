"""The codes of errors: one for each kind of mistake that a user can look up, with a page in `docs/errors/`.

A code keeps its meaning; one that is no longer used is not given away again. The first two digits say which part speaks. A new one is a
line here and a page with an example, whose message `pytest tests/test_error_pages.py --update-golden` fills in. `page(code)` is the text
that `polyreme explain` shows: the packaging takes the folder of pages along as `polyreme.error_pages`.
"""

from __future__ import annotations

from importlib.resources import files

from polyreme.ir.diagnostics import PolyremeError, did_you_mean

GROUPS = {
    "E00": "command line and settings",
    "E01": "IR text",
    "E02": "verifier",
    "E03": "ops: inference and evaluation",
    "E04": "passes, rewriting, conversion",
    "E05": "tracing and jit",
    "E06": "static programs",
    "E07": "model files",
    "E08": "runtime, artifacts, devices",
    "E09": "distributed",
    "E10": "data loading and training",
    "E11": "quantisation",
    "E12": "inference",
}

ERROR_CODES = {
    "E0001": "wrong usage of a command",
    "E0002": "a model that the command line cannot find or make",
    "E0003": "an array file that cannot be read or written",
    "E0004": "a setting with a value that it does not take",
    "E0005": "an unknown level or stage",
    "E0006": "results that differ more than they may",
    "E0007": "a package that is not installed",
    "E0008": "an unknown target machine",
    "E0009": "a file that cannot be written",
    "E0010": "an unknown error code",
    "E0011": "a library that does not run a model",
    "E0101": "text that the grammar does not allow",
    "E0102": "a constant, type or size that is misspelt",
    "E0103": "a value that is not defined here",
    "E0104": "a name that is given twice",
    "E0105": "an unknown op",
    "E0106": "an op written with the wrong parts",
    "E0107": "a type in the text that is not the value's",
    "E0201": "a module or an op holds what it must not",
    "E0202": "links between ops, blocks and values disagree",
    "E0203": "the wrong number of operands",
    "E0204": "use lists are not exact",
    "E0205": "regions nest too deep",
    "E0206": "a value is used where it is not defined",
    "E0207": "a block without its terminator",
    "E0208": "an attribute that is not declared so",
    "E0209": "result types differ from the inferred ones",
    "E0210": "a type that is not well formed",
    "E0211": "a function's type is not that of its body",
    "E0212": "a call that does not fit its function",
    "E0213": "a symbolic size that nothing defines",
    "E0214": "functions that call each other in a circle",
    "E0215": "an op with effects inside a pure one",
    "E0216": "a collective that nobody waits for",
    "E0217": "a function on buffers with the wrong signature",
    "E0218": "a write to memory that is only read",
    "E0219": "memory of a kind that is not there",
    "E0220": "threads that do not meet",
    "E0221": "parallel iterations that write to the same place",
    "E0222": "a guard that says nothing of the arguments' sizes",
    "E0301": "operand shapes that do not fit",
    "E0302": "an operand type that the op does not take",
    "E0303": "an attribute value that the op does not take",
    "E0304": "an attribute that the op does not have or lacks",
    "E0305": "the wrong operands or regions for an op",
    "E0306": "an op without a meaning on numpy",
    "E0307": "arrays that the evaluated function does not take",
    "E0308": "an op that failed while it was evaluated",
    "E0309": "kernels that break the rules of memory or threads",
    "E0310": "an op whose docstring has no example",
    "E0311": "an argument that a function of the API does not take",
    "E0401": "an unknown pass",
    "E0402": "an option that a pass does not take",
    "E0403": "a pass that failed",
    "E0404": "patterns that never come to an end",
    "E0405": "a pattern that changed types",
    "E0406": "an op that no rule takes to the next level",
    "E0407": "an op without a gradient rule",
    "E0408": "code for which there is no machine code",
    "E0409": "sizes that cannot be told from the inputs",
    "E0410": "an argument or constant of '@main' that does not fit",
    "E0411": "a size that a guard forbids",
    "E0412": "nothing that fails, to be reduced or bisected",
    "E0413": "a schedule that does not fit",
    "E0501": "code that cannot be traced",
    "E0502": "the value of a tensor is needed while tracing",
    "E0503": "an input_spec that does not fit the function",
    "E0504": "a function with state, compiled ahead of time",
    "E0601": "a variable that does not fit its program",
    "E0602": "an unknown variable",
    "E0603": "a feed that the program does not take",
    "E0604": "a variable that has no value",
    "E0605": "an operator that does not fit its inputs or attributes",
    "E0606": "an unknown operator, slot or attribute",
    "E0607": "a program that cannot be saved or compiled",
    "E0608": "a gradient that a program cannot make",
    "E0609": "an operator that failed at run time",
    "E0701": "a model file that is damaged",
    "E0702": "an operator that is not supported",
    "E0703": "an operator with attributes or inputs without a meaning here",
    "E0704": "a pickle that holds more than arrays and plain values",
    "E0705": "an object that cannot be saved or loaded",
    "E0706": "a model saved by jit.save that cannot be loaded",
    "E0707": "a program that ONNX cannot express",
    "E0708": "an operator of a model file that could not be read",
    "E0709": "a model file for which there is not enough memory",
    "E0801": "an artifact or library that is damaged or not ours",
    "E0802": "code for another machine",
    "E0803": "arguments that a compiled model does not take",
    "E0804": "a device that is not there or fails",
    "E0805": "PTX that breaks the rules of the machine",
    "E0806": "a library that could not be linked",
    "E0807": "LLVM refused the code",
    "E0901": "a collective call that failed",
    "E0902": "ranks that do different things",
    "E0903": "a rank that is gone",
    "E0904": "MPI is not installed",
    "E0905": "a rank that failed",
    "E0906": "a data-parallel model that cannot be scheduled",
    "E1001": "data that a dataset, sampler or loader does not take",
    "E1002": "a worker of the DataLoader that failed",
    "E1003": "a learning-rate schedule with wrong arguments",
    "E1101": "calibration data that a model does not take",
    "E1102": "a model with nothing to quantise",
    "E1201": "a predictor or its configuration that is used wrongly",
}


def page(code: str) -> str:
    """The page of a code, as Markdown; `PolyremeError` for a code that there is not. `203` and `e0203` are taken for `E0203`."""
    wanted = code.upper()
    if wanted.removeprefix("E").isdecimal():
        wanted = f"E{wanted.removeprefix('E').zfill(4)}"
    if wanted not in ERROR_CODES:
        raise PolyremeError(
            f"expected the code of an error, such as E0301, but got '{code}'{did_you_mean(wanted, ERROR_CODES)}", code="E0010"
        )
    return files("polyreme.error_pages").joinpath(f"{wanted}.md").read_text(encoding="utf-8")
