"""The C interface of a model in parts: each part has what a model of its own has (`capi.ll`), without a handle; one function runs them in
turn, with memory for what is between them (`capi_parts.ll`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from string import Template

from polyreme.ir.dims import parse_dim, symbols
from polyreme.lowering.link.c_interface import (
    MODEL_FUNCTIONS,
    Weights,
    placeholders,
    sections_of,
    sizes_function,
    text_constant,
    without_table,
)
from polyreme.lowering.link.parts import part_name
from polyreme.lowering.link.runtime import DTYPES, BodySpec, Manifest, StepSpec, TensorSpec, native_text

__all__ = ["calls_of", "interface_of_parts", "interfaces_in_parts", "part_fields", "with_own_text"]

_TEXT = "[512 x i8]"
# LLVM's name of the type of a number that a size is made of, by numpy's.
_NUMBERS = {"bool": "i8", **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def interfaces_in_parts(manifest: Manifest, name: str, weights: Weights) -> dict[str, str]:
    """LLVM IR, as `c_interface` gives it, of the whole and of each part, by the name of its object file."""
    sections = sections_of(native_text("capi.ll"))
    texts = {"interface.o": interface_of_parts(manifest, name, weights, sections)}
    for number, part in enumerate(manifest.parts):
        text = "".join(sections[key] for key in ("", "running", "sizes"))
        text = Template(text).substitute(part_fields(replace(part, name=name), number))
        texts[f"interface_{part_name(number)}.o"] = with_own_text(without_table(text))
    return texts


def part_fields(part: Manifest, number: int) -> dict[str, object]:
    """What stands for the placeholders of a part."""
    fields = placeholders(part, calls_of(number), Weights(), f"polyreme_{part_name(number)}")
    # One text for all: whoever calls the whole asks for it.
    return {**fields, "text": f"@polyreme_text = external hidden thread_local global {_TEXT}"}


def with_own_text(text: str) -> str:
    """With the text of the last error under a name that objects can share."""
    return re.sub(r"@text\b", "@polyreme_text", text)


def calls_of(number: int) -> str:
    """What the checked functions of a part are called after."""
    return f"polyreme_calls_{part_name(number)}"


def interface_of_parts(
    manifest: Manifest, name: str, weights: Weights, sections: Mapping[str, str], others: Mapping[str, object] | None = None
) -> str:
    """LLVM IR of the whole. `others` are placeholders of sections that take the place of those of a CPU, whose parts are functions of the
    library's own: their tables are left out then.
    """
    code = _StepCode(manifest)
    slots = code.slots
    fields = placeholders(manifest, name, weights)
    known = frozenset(manifest.size_names)
    # A size that only a run tells is -1 in front of it.
    told = [
        size if isinstance(size, int) or symbols(parse_dim(size)) <= known else -1 for spec in manifest.outputs for size in spec.shape
    ]
    parts = range(len(manifest.parts))
    functions = [
        *(MODEL_FUNCTIONS.replace("$model", f"polyreme_{part_name(number)}") for number in parts if others is None),
        *(f"declare hidden i32 @{calls_of(number)}_run(ptr, ptr, ptr, ptr)" for number in parts),
        *(f"declare hidden i32 @{calls_of(number)}_output_shapes(ptr, ptr)" for number in parts),
        "",
        sizes_function("polyreme_model_output_shapes", told, manifest),
    ]
    fields |= {
        "text": f"@polyreme_text = hidden thread_local global {_TEXT} zeroinitializer",
        "model_functions": "\n".join(functions),
        "models": 1 + len(manifest.parts),
        "checked_outputs": 0,
        "steps": "\n".join(code.lines),
        "failures": "".join(f", [ {outcome}, %{block} ]" for outcome, block in code.failures),
        "slots_count": len(slots),
        "dims_count": max(1, sum(len(spec.shape) for spec in slots)),
        "input_dim_bytes": 8 * sum(len(spec.shape) for spec in manifest.inputs),
        "sized": "true" if -1 in told else "false",
    }
    tables = str(fields["tables"])
    fields["tables"] = "\n".join([
        *([tables, _parts_table(manifest)] if others is None else [without_table(tables)]), *_tables(manifest, slots), *code.tables,
    ])  # fmt: skip
    fields |= others or {}
    text = "".join(section for key, section in sections.items() if not key.startswith("running")) + native_text("capi_parts.ll")
    return with_own_text(Template(text).substitute(fields))


def _parts_table(manifest: Manifest) -> str:
    functions = [f"ptr @polyreme_{part_name(i)}_{f}" for i, _ in enumerate(manifest.parts) for f in ("run", "arena_bytes", "output_shapes")]
    return f"@polyreme_parts = constant [{len(functions)} x ptr] [ {', '.join(functions)} ]"


def _tables(manifest: Manifest, slots: Sequence[TensorSpec]) -> list[str]:
    return [
        "%slot = type { i32, i64 } ; 0 rank, 1 bytes of an element",
        "; 0 run, 1 shapes of its outputs, 2 place among the models, 3 and 4 how many values it takes and their slots, 5 and 6 gives",
        "%part = type { ptr, ptr, i64, i32, ptr, i32, ptr }",
        f"@slots = internal constant [{len(slots)} x %slot] [ "
        + ", ".join(f"%slot {{ i32 {len(spec.shape)}, i64 {DTYPES[spec.dtype]} }}" for spec in slots)
        + " ]",
        f"@results = internal constant {_numbers(manifest.results)}",
    ]


def _numbers(numbers: Sequence[int]) -> str:
    return f"[{len(numbers)} x i32] " + (f"[ {', '.join(f'i32 {n}' for n in numbers)} ]" if numbers else "zeroinitializer")


class _StepCode:
    """The code of the steps, one after the other, in `lines`, and the `tables` that it needs. `failures` are the codes of errors and the
    blocks that they come from. `slots` say what is in each slot; behind the manifest's are those between two rounds of a loop.
    """

    def __init__(self, manifest: Manifest):
        self.manifest = manifest
        self.lines: list[str] = []
        self.tables: list[str] = []
        self.failures: list[tuple[str, str]] = []
        self._made = 0
        self._block = "steps"
        specs = dict(enumerate(manifest.inputs))
        self._find_specs(manifest.steps, specs)
        self.slots = [specs[slot] for slot in range(len(specs))]
        self._body(BodySpec(manifest.steps, manifest.results))
        self._jump("hand_over")

    def _find_specs(self, steps: Sequence[StepSpec], specs: dict[int, TensorSpec]) -> None:
        """What is in each slot: its type and how many axes it has."""
        for step in steps:
            if step.kind == "while":
                specs.update(zip(step.gives, (specs[slot] for slot in step.takes), strict=False))
                specs[step.gives[-1]] = TensorSpec("rounds", "int64", ())
            for body in step.bodies:
                self._find_specs(body.steps, specs)
            if step.kind == "part":
                specs.update(zip(step.gives, self.manifest.parts[step.part].outputs, strict=True))
            elif step.kind == "first":
                specs[step.gives[0]] = specs[step.takes[0]]
            elif step.kind == "if":
                specs.update(zip(step.gives, (specs[slot] for slot in step.bodies[0].yields), strict=True))
            elif step.kind != "while":
                specs[step.gives[0]] = TensorSpec("numbers", "int64", (-1,) if step.kind == "range" else (-1, 0))

    # --- instructions

    def _new(self) -> int:
        self._made += 1
        return self._made

    def _value(self, instruction: str) -> str:
        name = f"%step.{self._new()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def _begin(self, block: str) -> None:
        self.lines += ["", f"{block}:"]
        self._block = block

    def _jump(self, block: str) -> None:
        self.lines.append(f"  br label %{block}")

    def _call(self, function: str, *arguments: str) -> None:
        """A call that gives an error code, and what comes after it if that is none."""
        outcome = self._value(f"call i32 @{function}({', '.join(('ptr %frame', *arguments))})")
        failed = self._value(f"icmp ne i32 {outcome}, 0")
        self.failures.append((outcome, self._block))
        following = f"done.{self._new()}"
        self.lines.append(f"  br i1 {failed}, label %end, label %{following}")
        self._begin(following)

    def _data(self, slot: int) -> str:
        return self._value(f"call ptr @value_of(ptr %frame, i32 0, i32 {slot})")

    def _number(self, slot: int) -> str:
        dtype = self.slots[slot].dtype
        kind = _NUMBERS[dtype]
        number = self._value(f"load {kind}, ptr {self._data(slot)}, align 1")
        return number if kind == "i64" else self._value(f"{'sext' if dtype.startswith('int') else 'zext'} {kind} {number} to i64")

    def _release(self, slots: Iterable[int]) -> None:
        self.lines += [f"  call void @release(ptr %frame, i32 {slot})" for slot in slots]

    def _table(self, initializer: str) -> str:
        name = f"@step.table.{len(self.tables)}"
        self.tables.append(f"{name} = internal constant {initializer}")
        return name

    # --- steps

    def _step(self, step: StepSpec) -> None:
        if step.kind == "part":
            calls = calls_of(step.part)
            takes, gives = self._table(_numbers(step.takes)), self._table(_numbers(step.gives))
            part = self._table(
                f"%part {{ ptr @{calls}_run, ptr @{calls}_output_shapes, i64 {step.part + 1}, i32 {len(step.takes)}, ptr {takes}, "
                f"i32 {len(step.gives)}, ptr {gives} }}"
            )
            self._call("run_part", f"ptr {part}")
        elif step.kind == "first":
            self._call("take_first", f"i32 {step.takes[0]}", f"i64 {self._number(step.takes[1])}", f"i32 {step.gives[0]}")
        elif step.kind == "range":
            self._call("make_range", f"i64 {self._number(step.takes[0])}", f"i32 {step.gives[0]}")
        elif step.kind == "size":
            need = self._table(text_constant(step.need))
            number, flag = step.takes
            self._call("make_size", f"i64 {self._number(number)}", f"i32 {flag}", f"i32 {step.gives[0]}", f"ptr {need}")
        elif step.kind == "if":
            self._branch(step)
        else:
            self._loop(step)

    def _flag(self, slot: int) -> str:
        return self._value(f"icmp ne i64 {self._number(slot)}, 0")

    def _branch(self, step: StepSpec) -> None:
        number = self._new()
        self.lines.append(f"  br i1 {self._flag(step.takes[0])}, label %then.{number}, label %else.{number}")
        for block, body in zip(("then", "else"), step.bodies, strict=True):
            self._begin(f"{block}.{number}")
            self._body(body)
            self._move(body, body.yields, step.gives)
            self._release(_given(body))
            self._jump(f"joined.{number}")
        self._begin(f"joined.{number}")

    def _loop(self, step: StepSpec) -> None:
        """What is carried lies in the slots of the results; what a round yields waits until all of it is there."""
        number = self._new()
        carried, rounds = step.gives[:-1], step.gives[-1]
        waiting = [len(self.slots) + i for i in range(len(carried))]
        self.slots += [self.slots[slot] for slot in carried]
        condition, body = step.bodies
        for source, target in zip(step.takes, carried, strict=True):
            self._call("move", f"i32 {source}", f"i32 {target}", "i1 false")
        self._call("allocate", f"i32 {rounds}")
        self.lines.append(f"  store i64 0, ptr {self._data(rounds)}, align 8")
        self._jump(f"loop.{number}")
        self._begin(f"loop.{number}")
        self._body(condition)
        again = self._flag(condition.yields[0])
        self._release(_given(condition))
        self.lines.append(f"  br i1 {again}, label %round.{number}, label %ended.{number}")
        self._begin(f"round.{number}")
        self._body(body)
        self._move(body, body.yields, waiting)
        self._release([*_given(body), *carried])
        for source, target in zip(waiting, carried, strict=True):
            self._call("move", f"i32 {source}", f"i32 {target}", "i1 true")
        so_far = self._value(f"load i64, ptr {self._data(rounds)}, align 8")
        self.lines.append(f"  store i64 {self._value(f'add i64 {so_far}, 1')}, ptr {self._data(rounds)}, align 8")
        self._jump(f"loop.{number}")
        self._begin(f"ended.{number}")

    def _body(self, body: BodySpec) -> None:
        for step, slots in zip(body.steps, _emptied(body.steps, body.yields), strict=True):
            self._step(step)
            self._release(slots)

    def _move(self, body: BodySpec, sources: Sequence[int], targets: Sequence[int]) -> None:
        """What a body has made and yields once goes over with its memory; of anything else there is a copy, made first."""
        own = {slot for slot in _given(body) if sources.count(slot) == 1}
        pairs = sorted(zip(sources, targets, strict=True), key=lambda pair: pair[0] in own)
        for source, target in pairs:
            self._call("move", f"i32 {source}", f"i32 {target}", f"i1 {'true' if source in own else 'false'}")


def _given(body: BodySpec) -> list[int]:
    """The slots that the steps of a body give, those of bodies in it aside."""
    return [slot for step in body.steps for slot in step.gives]


def _emptied(steps: Sequence[StepSpec], kept: Iterable[int]) -> list[list[int]]:
    """The slots whose memory nobody needs after each of some steps, which give them, but for those that are read later. First rows are in
    the memory of what they are the first rows of.
    """
    home: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, step in enumerate(steps):
        if step.kind == "first":
            home[step.gives[0]] = home.get(step.takes[0], step.takes[0])
        for slot in (*step.reads(), *step.gives):
            last[home.get(slot, slot)] = i
    own = {slot for step in steps for slot in step.gives} - {home.get(slot, slot) for slot in kept}
    return [[slot for slot, at in last.items() if at == i and slot in own] for i in range(len(steps))]
