"""Modules of every kind, and MLIR's tools to send them through: what `tests/ir/test_mlir_tools.py` and its golden files are made of.

The tools are `iree-opt` (pip install iree-base-compiler: MLIR's own `mlir-opt` with more dialects) and `xdsl-opt` (pip install xdsl).
Neither knows our dialects.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import polyreme as paddle
import polyreme.lowering.pipeline  # noqa: F401  (registers the passes)
import polyreme.lowering.transforms.bucket
from polyreme.compiled.inspection import inspect
from polyreme.ir.builtin import Module
from polyreme.ir.debug.examples import example_module
from polyreme.ir.define import OPS
from polyreme.ir.diagnostics import ParseError
from polyreme.ir.passes import PassManager, parse_passes
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import find_faults
from polyreme.lowering.gradients.autodiff import forward_backward
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.static import InputSpec
from tests.strategies import LEVELS, modules

TESTS = Path(__file__).parent
SEPARATOR = "// -----"


@dataclass(frozen=True)
class Tool:
    """A program that reads modules and prints them again."""

    name: str
    generic: str
    locations: str
    unverified: tuple[str, ...]  # what makes it take modules that break the rules of `func`, too
    keeps_names: bool  # of values

    @property
    def path(self) -> str | None:
        """Where it is installed: beside this Python, or on the path."""
        beside = Path(sys.executable).parent / self.name
        return str(beside) if beside.exists() else shutil.which(self.name)

    def send(self, texts: Sequence[str], locations: bool = False, verified: bool = True) -> list[str]:
        """What it prints for each of the modules, all of them sent to one process. It refusing one fails the test."""
        options = [self.generic, *([self.locations] if locations else []), *(() if verified else self.unverified)]
        command = [str(self.path), "--allow-unregistered-dialect", "--split-input-file", *options]
        sent = [_with_own_resources(text, i) for i, text in enumerate(texts)]
        done = subprocess.run(command, input=f"\n{SEPARATOR}\n".join(sent), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{self.name} refuses a module:\n{done.stderr[-4000:]}"
        printed = split(done.stdout)
        assert len(printed) == len(texts), f"{self.name} printed {len(printed)} modules for {len(texts)}"
        return printed


def _with_own_resources(text: str, number: int) -> str:
    """The text with other names for its constants: xDSL mixes up those of equal names in different modules of one process."""
    return re.sub(r"dense_resource<(?!__elided__)|^ {6}(?=\w+: \"0x)", lambda m: f"{m.group()}m{number}_", text, flags=re.MULTILINE)


IREE = Tool(
    "iree-opt",
    "--mlir-print-op-generic",
    "--mlir-print-debuginfo",
    ("--mlir-very-unsafe-disable-verifier-on-parsing", "--verify-each=false"),
    False,
)
XDSL = Tool("xdsl-opt", "--print-op-generic", "--print-debuginfo", ("--disable-verify",), True)
TOOLS = (IREE, XDSL)


def split(text: str) -> list[str]:
    """The modules of a file."""
    return re.split(rf"(?m)^{SEPARATOR}.*\n", text)


# --- where modules come from

Named = tuple[str, Module]


def filetests() -> Iterator[Named]:
    """Every section of `filetests/` that parses, and what the passes make of those that test passes."""
    for path in sorted((TESTS / "filetests").rglob("*.tir")):
        passes = re.search(r"// test: pass (.*)$", path.read_text(), re.MULTILINE)
        for i, section in enumerate(split(path.read_text())):
            name = f"{path.stem}-{i}"
            try:
                module = parse_module(section, path.name)
            except ParseError:
                continue
            yield name, module
            if passes is not None:
                yield f"{name}, after", PassManager(parse_passes(passes.group(1))).run(module.clone())


def examples() -> Iterator[Named]:
    """The example in each op's docstring."""
    for name, cls in sorted(OPS.items()):
        if cls.__module__.startswith("polyreme."):
            yield name, example_module(cls)


def texts_in_tests() -> Iterator[Named]:
    """Every string in the files of the tests that is text of a module without faults."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"func @|func\.func", node.value):
                try:
                    module = parse_module(node.value, path.name)
                except ParseError:
                    continue
                if is_valid(module):
                    yield f"{path.name}:{node.lineno}", module


def random_modules(level: str, count: int) -> Iterator[Named]:
    """Valid random modules of a level, the same ones at every call."""
    found: list[Module] = []


    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        found.append(data.draw(modules(level)).module)

    collect()
    return ((f"{level}-{i}", module) for i, module in enumerate(found))


def lenet() -> Iterator[Named]:
    """LeNet with a free batch: each level that `inspect` shows, the two halves of its training, and what runs on a GPU."""
    net = paddle.vision.models.LeNet()
    seen = inspect(net, [InputSpec([None, 1, 28, 28], "float32", "image")])
    levels = {level: seen.level(level) for level in ("nn", "tensor", "kernel")}
    for level, text in levels.items():
        yield f"inspect {level}", parse_module(text)
    for step in seen.passes:
        if step.changed and step.text not in levels.values():
            yield f"after {step.name}", parse_module(step.text)
    func = seen.module.function()
    halves = forward_backward(func, [i for i, role in enumerate(func.attributes["arg_roles"]) if role == "param"])
    for name, half in (("forward", halves.forward), ("backward", halves.backward)):
        module = Module.empty()
        module.block.append(half.clone())
        module.function(half.sym_name).attributes["sym_name"] = "main"
        for level in ("nn", "tensor", "kernel"):
            yield f"{name} {level}", module if level == "nn" else lower(module, find_target("native"), to=level)
    yield "cuda kernel", lower(seen.module, find_target("cuda:sm_80"), to="kernel")


def groups(count: int) -> dict[str, list[Named]]:
    """All of them, with `count` random modules per level."""
    random = {f"random, {level}": list(random_modules(level, count)) for level in LEVELS}
    return {
        "filetests": list(filetests()),
        "examples": list(examples()),
        "texts in tests": list(texts_in_tests()),
        "LeNet": list(lenet()),
        **random,
    }


def is_valid(module: Module) -> bool:
    """Whether the verifier finds no fault: some files of the tests are there for their faults."""
    return not find_faults(module)


def generic(module: Module, locations: bool = False) -> str:
    return print_module(module, generic=True, locations=locations)
