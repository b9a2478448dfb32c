"""Speed and memory of the IR itself beside xDSL's: the same generic text parsed, printed, verified, and cleaned by CSE and DCE.

    pip install xdsl==0.74.0
    python -m benchmarks.ir --ops 5000 --rounds 9

The text is one function: a chain of elementwise ops and transposes, in which about a tenth of the ops are duplicates of earlier ones and a
tenth is used by nothing. Each library runs in a process of its own; in a round all of them are timed one after another, so that a slow
moment of the machine meets them all. The best round is reported, and the median beside it in `--json`.

xDSL reads the text in two ways:

- `xdsl`: the ops are classes declared through its IRDL, with the `Pure` trait, constraints that tie results to operands, and a `verify_`
  for transposes. So both libraries check the same facts, and both may merge and erase the same ops: afterwards both must have equally many.
- `xdsl-unregistered`: the ops are unknown to it. Its verifier then checks structure only, and CSE and DCE leave the ops alone.

Memory is what `tracemalloc` counts as held by one parsed module after a collection, the text not included, divided by the number of ops;
the same text was parsed before, so that types and caches that both libraries share between modules are not counted for either.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Worker, answer

STEPS = ("parse", "print", "verify", "cse+dce")
LIBRARIES = ("polyreme", "xdsl", "xdsl-unregistered")


def chain_text(count: int, seed: int = 0) -> str:
    """A module of `count` ops in one function, as generic text: a chain, duplicates of its ops, and ops without uses."""
    from polyreme.dialects import nn
    from polyreme.ir.builder import Builder
    from polyreme.ir.builtin import Func, Module, Return
    from polyreme.ir.text import print_module
    from polyreme.ir.types import TensorType, f32

    rng = random.Random(seed)
    main = Func.empty("main", [TensorType((8, 16), f32)] * 2, arg_names=("x", "y"))
    b = Builder.at_end(main.block)
    values = list(main.args)

    def step(kind: int, x: Any, y: Any) -> Any:
        if kind == 0:
            return b(nn.Add, x, y)
        if kind == 1:
            return b(nn.Exp, x)
        if kind == 2:
            return b(nn.Transpose, b(nn.Transpose, x, perm=(1, 0)), perm=(1, 0))
        return b(nn.Mul, x, y)

    made: list[tuple[int, Any, Any]] = []
    while len(main.block) < count - 1:
        draw = rng.random()
        if draw < 0.1 and made:
            # Merged into an earlier op; what uses it goes on with that one.
            values.append(b(nn.Add, step(*rng.choice(made[-50:])), values[-1]))
        elif draw < 0.2:
            step(rng.choice((1, 2, 3)), values[-1], rng.choice(values[-50:]))
        else:
            made.append((rng.randrange(4), values[-1], rng.choice(values[-50:])))
            values.append(step(*made[-1]))
    b.insert(Return([values[-1]]))
    module = Module.empty()
    module.block.append(main.finish())
    return print_module(module, generic=True)


@dataclass
class Library:
    """What is timed. `clean` runs CSE, then DCE, as a pipeline; `count` gives the number of ops in a module."""

    parse: Callable[[str], Any]
    print: Callable[[Any], str]
    verify: Callable[[Any], None]
    clean: Callable[[Any], None]
    count: Callable[[Any], int]


def polyreme() -> Library:
    from polyreme.ir.passes import PassManager
    from polyreme.ir.text import parse_module, print_module
    from polyreme.ir.verify import verify
    from polyreme.lowering.transforms.cleanup import Cse, Dce

    return Library(
        parse=parse_module,
        print=lambda module: print_module(module, generic=True),
        verify=verify,
        clean=lambda module: PassManager([Cse(), Dce()]).run(module),
        count=lambda module: sum(1 for _ in module.walk()),
    )


def xdsl(registered: bool) -> Library:
    from io import StringIO

    from xdsl.context import Context
    from xdsl.dialects import builtin, func
    from xdsl.parser import Parser
    from xdsl.passes import PassPipeline
    from xdsl.printer import Printer
    from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
    from xdsl.transforms.dead_code_elimination import DeadCodeElimination

    context = Context(allow_unregistered=not registered)
    context.load_dialect(builtin.Builtin)
    context.load_dialect(func.Func)
    if registered:
        context.load_dialect(_declared_in_xdsl())

    def printed(module: Any) -> str:
        out = StringIO()
        Printer(stream=out, print_generic_format=True).print_op(module)
        return out.getvalue()

    pipeline = PassPipeline((CommonSubexpressionElimination(), DeadCodeElimination()))
    return Library(
        parse=lambda text: Parser(context, text).parse_module(),
        print=printed,
        verify=lambda module: module.verify(),
        clean=lambda module: pipeline.apply(context, module),
        count=lambda module: sum(1 for _ in module.walk()),
    )


def _declared_in_xdsl() -> Any:
    """The ops of the text as a dialect of xDSL: results tied to operands as our `infer` ties them."""
    from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TensorType
    from xdsl.ir import Dialect
    from xdsl.irdl import IRDLOperation, VarConstraint, attr_def, base, irdl_op_definition, operand_def, result_def, traits_def
    from xdsl.traits import Pure
    from xdsl.utils.exceptions import VerifyException

    same = VarConstraint("T", base(TensorType))

    @irdl_op_definition
    class Add(IRDLOperation):
        name = "polyreme.nn.add"
        x = operand_def(same)
        y = operand_def(same)
        result = result_def(same)
        traits = traits_def(Pure())

    @irdl_op_definition
    class Mul(IRDLOperation):
        name = "polyreme.nn.mul"
        x = operand_def(same)
        y = operand_def(same)
        result = result_def(same)
        traits = traits_def(Pure())

    @irdl_op_definition
    class Exp(IRDLOperation):
        name = "polyreme.nn.exp"
        x = operand_def(same)
        result = result_def(same)
        traits = traits_def(Pure())

    @irdl_op_definition
    class Transpose(IRDLOperation):
        name = "polyreme.nn.transpose"
        x = operand_def(base(TensorType))
        result = result_def(base(TensorType))
        perm = attr_def(ArrayAttr[IntegerAttr])
        traits = traits_def(Pure())

        def verify_(self) -> None:
            x, result = self.x.type, self.result.type
            assert isinstance(x, TensorType) and isinstance(result, TensorType)
            perm = [p.value.data for p in self.perm]
            shape = x.get_shape()
            if sorted(perm) != list(range(len(shape))):
                raise VerifyException(f"expected a permutation of {len(shape)} axes but got {perm}")
            if result.get_shape() != tuple(shape[p] for p in perm) or result.element_type != x.element_type:
                raise VerifyException(f"expected the shape of {x} with its axes in the order {perm} but got {result}")

    return Dialect("polyreme.nn", [Add, Mul, Exp, Transpose], [])


MAKERS: dict[str, Callable[[], Library]] = {
    "polyreme": polyreme,
    "xdsl": lambda: xdsl(registered=True),
    "xdsl-unregistered": lambda: xdsl(registered=False),
}


def work(library: Library, text: str) -> None:
    """Answer requests: the seconds of every step, or the memory of one module."""
    answer(lambda request: _memory(library, text) if request["do"] == "memory" else _times(library, text))


def _times(library: Library, text: str) -> dict[str, Any]:
    def timed(call: Callable[[Any], Any], argument: Any) -> tuple[Any, float]:
        gc.collect()
        start = time.perf_counter()
        result = call(argument)
        return result, time.perf_counter() - start

    module, parse = timed(library.parse, text)
    before = library.count(module)
    _, printing = timed(library.print, module)
    _, verify = timed(library.verify, module)
    _, clean = timed(library.clean, module)
    library.verify(module)
    seconds = dict(zip(STEPS, (parse, printing, verify, clean), strict=True))
    return {"seconds": seconds, "before": before, "after": library.count(module)}


def _memory(library: Library, text: str) -> dict[str, Any]:
    library.parse(text)
    gc.collect()
    tracemalloc.start()
    module = library.parse(text)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"bytes": held / library.count(module)}


def measure(text: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Best and median milliseconds of every step, bytes per op, and the numbers of ops before and after, by library."""
    path = folder / "chain.mlir"
    path.write_text(text)
    workers = {name: Worker(name, [sys.executable, "-m", "benchmarks.ir", "--worker", name, str(path)]) for name in LIBRARIES}
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in LIBRARIES}
    for number in range(rounds + 1):
        for name, worker in workers.items():
            reply = worker.ask(do="times")
            if number:  # the first round loads and fills caches
                taken[name].append(reply)
    figures: dict[str, Any] = {}
    for name, worker in workers.items():
        steps = {step: [r["seconds"][step] * 1e3 for r in taken[name]] for step in STEPS}
        figures[name] = {
            "best": {step: min(ms) for step, ms in steps.items()},
            "median": {step: statistics.median(ms) for step, ms in steps.items()},
            "bytes": worker.ask(do="memory")["bytes"],
            "before": taken[name][0]["before"],
            "after": taken[name][0]["after"],
        }
        worker.stop()
    ours, peer, unregistered = (figures[name] for name in LIBRARIES)
    assert ours["before"] == peer["before"] == unregistered["before"], "the libraries read different modules"
    assert ours["after"] == peer["after"] < ours["before"], f"ours keeps {ours['after']} ops where xDSL keeps {peer['after']}"
    return figures


def table(figures: dict[str, Any]) -> str:
    """The figures as Markdown: milliseconds (best round), and how many times as long xDSL takes."""
    rows = [
        "| | Polyreme | xDSL, ops declared | xDSL, ops unregistered | declared / ours |",
        "| --- | --- | --- | --- | --- |",
    ]
    for step in STEPS:
        times = [figures[name]["best"][step] for name in LIBRARIES]
        rows.append(f"| {step}, ms | {' | '.join(f'{ms:.1f}' for ms in times)} | **{times[1] / times[0]:.2f}** |")
    memory = [figures[name]["bytes"] for name in LIBRARIES]
    rows.append(f"| bytes per op | {' | '.join(f'{n:.0f}' for n in memory)} | **{memory[1] / memory[0]:.2f}** |")
    for label, key in (("ops", "before"), ("ops after CSE and DCE", "after")):
        rows.append(f"| {label} | {' | '.join(str(figures[name][key]) for name in LIBRARIES)} | |")
    return "\n".join(rows)


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, path = options.worker
        work(MAKERS[name](), Path(path).read_text())
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(chain_text(options.ops), options.rounds, Path(folder))
    print(
        f"{platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores; best of {options.rounds} "
        f"rounds\n\n{table(figures)}"
    )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
