"""The C interface of a model in parts: each part has what a model of its own has (`capi.ll`), without a handle; one function runs them in
turn, with memory for what is between them (`capi_parts.ll`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from string import Template

from polyreme.ir.dims import parse_dim, symbols
from polyreme.lowering.link.c_interface import MODEL_FUNCTIONS, Weights, placeholders, sizes_function, text_constant
from polyreme.lowering.link.parts import part_name
from polyreme.lowering.link.runtime import DTYPES, Manifest, TensorSpec, native_text

__all__ = ["interfaces_in_parts"]

_TEXT = "[512 x i8]"
# In `capi.ll` each begins with such a line.
_SECTION = "; --- "
# LLVM's name of the type of a number that a size is made of, by numpy's.
_NUMBERS = {"bool": "i8", **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def interfaces_in_parts(manifest: Manifest, name: str, weights: Weights, identity: bytes) -> dict[str, str]:
    """LLVM IR, as `c_interface` gives it, of the whole and of each part, by the name of its object file."""
    sections = _sections(native_text("capi.ll"))
    texts = {"interface.o": _whole(manifest, name, weights, identity, sections)}
    for number, part in enumerate(manifest.parts):
        model = f"polyreme_{part_name(number)}"
        fields = placeholders(replace(part, name=name), _calls(number), Weights(), identity, model)
        # One text for all: whoever calls the whole asks for it.
        fields["text"] = f"@polyreme_text = external hidden thread_local global {_TEXT}"
        text = Template("".join(sections[key] for key in ("", "running", "sizes"))).substitute(fields)
        texts[f"interface_{part_name(number)}.o"] = _with_own_text(_without_table(text))
    return texts


def _with_own_text(text: str) -> str:
    """With the text of the last error under a name that objects can share."""
    return re.sub(r"@text\b", "@polyreme_text", text)


def _calls(number: int) -> str:
    """What the checked functions of a part are called after."""
    return f"polyreme_calls_{part_name(number)}"


def _sections(text: str) -> dict[str, str]:
    """The sections of a native text by their first words; what stands in front of them under none."""
    head, *rest = text.split(f"\n{_SECTION}")
    return {"": head + "\n"} | {part.split("\n")[0]: f"\n{_SECTION}{part}" for part in rest}


def _without_table(text: str) -> str:
    """Without the table that only the whole has."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("@polyreme_library"))


def _whole(manifest: Manifest, name: str, weights: Weights, identity: bytes, sections: dict[str, str]) -> str:
    slots = _slots(manifest)
    fields = placeholders(manifest, name, weights, identity)
    known = frozenset(manifest.size_names)
    # A size that only a run tells is -1 in front of it.
    told = [
        size if isinstance(size, int) or symbols(parse_dim(size)) <= known else -1 for spec in manifest.outputs for size in spec.shape
    ]
    parts = range(len(manifest.parts))
    functions = [
        *(MODEL_FUNCTIONS.replace("$model", f"polyreme_{part_name(number)}") for number in parts),
        *(f"declare hidden i32 @{_calls(number)}_run(ptr, ptr, ptr, ptr)" for number in parts),
        *(f"declare hidden i32 @{_calls(number)}_output_shapes(ptr, ptr)" for number in parts),
        "",
        sizes_function("polyreme_model_output_shapes", told, manifest),
    ]
    fields |= {
        "text": f"@polyreme_text = hidden thread_local global {_TEXT} zeroinitializer",
        "model_functions": "\n".join(functions),
        "models": 1 + len(manifest.parts),
        "checked_outputs": 0,
        "steps": _steps(manifest, slots),
        "failures": "".join(f", [ %code.{i}, %step.{i} ]" for i, _ in enumerate(manifest.steps)),
        "slots_count": len(slots),
        "dims_count": max(1, sum(len(spec.shape) for spec in slots)),
        "input_dim_bytes": 8 * sum(len(spec.shape) for spec in manifest.inputs),
        "sized": "true" if -1 in told else "false",
    }
    fields["tables"] = "\n".join([str(fields["tables"]), *_tables(manifest, slots)])
    text = "".join(section for key, section in sections.items() if not key.startswith("running")) + native_text("capi_parts.ll")
    return _with_own_text(Template(text).substitute(fields))


def _slots(manifest: Manifest) -> list[TensorSpec]:
    """What is in each slot: its type and how many axes it has."""
    slots = list(manifest.inputs)
    for step in manifest.steps:
        if step.kind == "part":
            slots += manifest.parts[step.part].outputs
        elif step.kind == "first":
            slots.append(slots[step.takes[0]])
        else:
            slots.append(TensorSpec("numbers", "int64", (-1,) if step.kind == "range" else (-1, 0)))
    return slots


def _tables(manifest: Manifest, slots: Sequence[TensorSpec]) -> list[str]:
    functions = [f"ptr @polyreme_{part_name(i)}_{f}" for i, _ in enumerate(manifest.parts) for f in ("run", "arena_bytes", "output_shapes")]
    lines = [
        "%slot = type { i32, i64 } ; 0 rank, 1 bytes of an element",
        "; 0 run, 1 shapes of its outputs, 2 place among the models, 3 and 4 how many values it takes and their slots, 5 and 6 gives",
        "%part = type { ptr, ptr, i64, i32, ptr, i32, ptr }",
        f"@slots = internal constant [{len(slots)} x %slot] [ "
        + ", ".join(f"%slot {{ i32 {len(spec.shape)}, i64 {DTYPES[spec.dtype]} }}" for spec in slots)
        + " ]",
        f"@results = internal constant {_numbers(manifest.results)}",
        f"@polyreme_parts = constant [{len(functions)} x ptr] [ {', '.join(functions)} ]",
    ]
    for i, step in enumerate(manifest.steps):
        if step.kind == "part":
            lines += [
                f"@takes.{i} = internal constant {_numbers(step.takes)}",
                f"@gives.{i} = internal constant {_numbers(step.gives)}",
                f"@part.{i} = internal constant %part {{ ptr @{_calls(step.part)}_run, ptr @{_calls(step.part)}_output_shapes, "
                f"i64 {step.part + 1}, i32 {len(step.takes)}, ptr @takes.{i}, i32 {len(step.gives)}, ptr @gives.{i} }}",
            ]
        elif step.kind == "size":
            lines.append(f"@need.{i} = internal constant {text_constant(step.need)}")
    return lines


def _numbers(numbers: Sequence[int]) -> str:
    return f"[{len(numbers)} x i32] " + (f"[ {', '.join(f'i32 {n}' for n in numbers)} ]" if numbers else "zeroinitializer")


def _steps(manifest: Manifest, slots: Sequence[TensorSpec]) -> str:
    """The steps one after the other, each in a block of its own; memory goes after the last step that needs it."""
    emptied = _emptied(manifest)
    lines = ["  br label %step.0" if manifest.steps else "  br label %hand_over"]
    for i, step in enumerate(manifest.steps):
        lines += ["", f"step.{i}:"]
        if step.kind == "part":
            call = f"run_part(ptr %frame, ptr @part.{i})"
        else:
            number = step.takes[1 if step.kind == "first" else 0]
            kind = _NUMBERS[slots[number].dtype]
            lines += [
                f"  %number_at.{i} = call ptr @value_of(ptr %frame, i32 0, i32 {number})",
                f"  %number.{i} = load {kind}, ptr %number_at.{i}, align 1",
            ]
            wide = f"%number.{i}"
            if kind != "i64":
                wide = f"%wide.{i}"
                lines.append(f"  {wide} = {'sext' if slots[number].dtype.startswith('int') else 'zext'} {kind} %number.{i} to i64")
            call = {
                "first": f"take_first(ptr %frame, i32 {step.takes[0]}, i64 {wide}, i32 {step.gives[0]})",
                "range": f"make_range(ptr %frame, i64 {wide}, i32 {step.gives[0]})",
                "size": f"make_size(ptr %frame, i64 {wide}, i32 {step.takes[-1]}, i32 {step.gives[0]}, ptr @need.{i})",
            }[step.kind]
        following = f"step.{i + 1}" if i + 1 < len(manifest.steps) else "hand_over"
        lines += [
            f"  %code.{i} = call i32 @{call}",
            f"  %failed.{i} = icmp ne i32 %code.{i}, 0",
            f"  br i1 %failed.{i}, label %end, label %done.{i}",
            "",
            f"done.{i}:",
            *(f"  call void @release(ptr %frame, i32 {slot})" for slot in emptied[i]),
            f"  br label %{following}",
        ]
    return "\n".join(lines)


def _emptied(manifest: Manifest) -> list[list[int]]:
    """The slots whose memory nobody needs after each step. First rows are in the memory of what they are the first rows of."""
    home: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, step in enumerate(manifest.steps):
        if step.kind == "first":
            home[step.gives[0]] = home.get(step.takes[0], step.takes[0])
        for slot in (*step.takes, *step.gives):
            last[home.get(slot, slot)] = i
    kept = {*(home.get(slot, slot) for slot in manifest.results), *range(len(manifest.inputs))}
    return [[slot for slot, at in last.items() if at == i and slot not in kept] for i in range(len(manifest.steps))]
