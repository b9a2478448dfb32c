"""What a manifest says of a function: its arguments, the sizes that a call reads off their shapes, and what these have to be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from polyreme.ir.attributes import Dense
from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import Location, PolyremeError, did_you_mean
from polyreme.ir.dims import Dim, line_of, parse_dim, symbols
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.sizes.ranges import Range
from polyreme.ir.types import BufferType, TensorType
from polyreme.lowering.analysis.names import argument_names
from polyreme.lowering.emit.llvm.emit_module import size_names
from polyreme.lowering.link.runtime import (
    ALIGNMENT,
    ConstantSpec,
    GuardSpec,
    LaterPiece,
    LookSpec,
    Manifest,
    Piece,
    Pieces,
    RangeSpec,
    SizeSpec,
    TargetSpec,
    TensorSpec,
)
from polyreme.lowering.machines.targets import Target

Array = np.ndarray[Any, Any]


def manifest_of_inputs(main: Func, name: str) -> Manifest:
    """What is known of a function on values before it runs: no outputs, since their sizes may be known only when they are there."""
    roles = main.attributes["arg_roles"] or ("input",) * len(main.args)
    inputs: list[TensorSpec] = []
    for argument, arg_name, role in zip(main.args, argument_names(main), roles, strict=True):
        assert isinstance(argument.type, TensorType), "as a function that is cut is verified"
        inputs.append(TensorSpec(arg_name, dtype_name(argument.type), shape_text(argument.type), role))
    told = dict.fromkeys(line[0] for t in inputs for size in t.shape if (line := line_of(_dim(size))) is not None)
    sizes = find_sizes(tuple(told), inputs, main.location)
    guards = guard_specs((g for text in main.guards if symbols((g := Guard.parse(text)).size) <= told.keys()), sizes, inputs)
    arguments = tuple(("input", i) for i in range(len(inputs)))
    return Manifest(name, tuple(inputs), (), (), sizes, arguments, TargetSpec(""), guards=guards, ranges=_range_specs(main, inputs))


def make_manifest(main: Func, target: Target, name: str, constants: Mapping[str, Array | Dense]) -> tuple[Manifest, Pieces]:
    """The manifest for a kernel-level `main`, and the bytes of its constants."""
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    specs: list[ConstantSpec] = []
    arguments: list[tuple[str, int]] = []
    found: list[Dense] = []
    end = 0
    names, roles = argument_names(main), main.attributes["arg_roles"] or ("input",) * len(main.args)
    unknown = [key for key in constants if key not in names]
    if unknown:
        raise PolyremeError(f"'@main' has no argument '{unknown[0]}' to fix{did_you_mean(unknown[0], names)}", main.location, code="E0410")
    for argument, arg_name, role in zip(main.args, names, roles, strict=True):
        type = argument.type
        if not isinstance(type, BufferType):
            raise PolyremeError(f"expected buffers as arguments of '@main' but '{arg_name}' is {type}", main.location, code="E0410")
        if role == "looks":
            arguments.append(("looks", 0))
        elif role == "output":
            arguments.append(("output", len(outputs)))
            outputs.append(TensorSpec(arg_name, dtype_name(type), shape_text(type), "output"))
        elif role == "constant" or arg_name in constants:
            if arg_name not in constants:
                raise PolyremeError(f"expected data for the constant '{arg_name}' of '@main'", main.location, code="E0410")
            found.append(_constant(constants[arg_name], arg_name, type, main))
            shape = tuple(size for size in found[-1].type.shape if isinstance(size, int))
            count = math.prod(shape) * type.dtype.np.itemsize
            arguments.append(("constant", len(specs)))
            start = end + -end % ALIGNMENT
            specs.append(ConstantSpec(arg_name, dtype_name(type), shape, start, count))
            end = start + count
        else:
            arguments.append(("input", len(inputs)))
            inputs.append(TensorSpec(arg_name, dtype_name(type), shape_text(type), role))
    sizes = find_sizes(size_names(main), inputs, main.location)
    machine = TargetSpec(target.triple, target.cpu, target.features)
    guards = guard_specs(map(Guard.parse, main.guards), sizes, inputs)
    ranges = _range_specs(main, inputs)
    made = Manifest(name, tuple(inputs), tuple(outputs), tuple(specs), sizes, tuple(arguments), machine, guards=guards, ranges=ranges,
                    looks=_look_specs(main), updates=_updates(main, inputs, outputs))
    return made, _laid_out(found, specs)


def _updates(main: Func, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[tuple[int, int], ...]:
    """Which outputs may take the place of which inputs, by their numbers."""
    numbers = [{spec.name: i for i, spec in enumerate(specs)} for specs in (inputs, outputs)]
    found = (update.split(" -> ") for update in main.updates)
    return tuple((numbers[0][a], numbers[1][b]) for a, b in found)


def _range_specs(main: Func, inputs: Sequence[TensorSpec]) -> tuple[RangeSpec, ...]:
    """The ranges of inputs; an argument that is fixed was looked at when it was."""
    places = {spec.name: i for i, spec in enumerate(inputs)}
    found = [r for r in map(Range.parse, main.ranges) if r.argument in places]
    return tuple(RangeSpec(places[r.argument], r.low, r.high - 1, f"positions (rows at {r.place or 'an unknown place'})") for r in found)


def _look_specs(main: Func) -> tuple[LookSpec, ...]:
    """What a run tells of positions, as the pass `look-at-positions` left it."""
    found = [(kind, *place.partition(" because ")) for kind, _, place in (text.partition(" at ") for text in main.looks)]
    return tuple(
        LookSpec(kind == "wraps", f"positions (rows at {place or 'an unknown place'})" + (f", since {why}," if why else ""))
        for kind, place, _, why in found
    )


def _laid_out(constants: Sequence[Dense], specs: Sequence[ConstantSpec]) -> Pieces:
    """The constants where their specs say, with zeros between them."""
    parts: list[Piece] = []
    end = 0
    for constant, spec in zip(constants, specs, strict=True):
        parts += [bytes(spec.offset - end), LaterPiece(spec.bytes, partial(_bytes_of, constant))]
        end = spec.offset + spec.bytes
    return Pieces(parts)


def _bytes_of(constant: Dense) -> Iterator[memoryview]:
    return (part.reshape(-1).view(np.uint8).data for part in constant.parts())


def _constant(value: Array | Dense, name: str, type: BufferType, main: Func) -> Dense:
    if not isinstance(value, Dense):
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        if value.dtype != type.dtype.np or value.shape != type.shape:
            raise PolyremeError(
                f"expected the constant '{name}' to be {type} but got {value.dtype}{list(value.shape)}", main.location, code="E0410"
            )
        return Dense.taking(value)
    assert value.type == TensorType(type.shape, type.dtype), "as `kernel.data` is verified"
    return value


def dtype_name(type: BufferType | TensorType) -> str:
    """The type of the elements, in numpy's words."""
    return type.dtype.np.name


def shape_text(type: BufferType | TensorType) -> tuple[int | str, ...]:
    """The sizes of the axes, symbolic ones as text."""
    return tuple(d if isinstance(d, int) else str(d) for d in type.shape)


def find_sizes(names: Sequence[str], inputs: Sequence[TensorSpec], location: Location) -> tuple[SizeSpec, ...]:
    """The free sizes in the order in which native code takes them, and where their values are read: the first axis of an input that is
    exactly it, or a line in it.
    """
    lines = [
        (i, axis, line) for i, t in enumerate(inputs) for axis, size in enumerate(t.shape) if (line := line_of(_dim(size))) is not None
    ]
    found = []
    for name in names:
        places = [(line[1:] != (1, 0), i, axis, *line[1:]) for i, axis, line in lines if line[0] == name]
        if not places:
            raise PolyremeError(
                f"expected an input with an axis of size '{name}', from which its value can be read", location, code="E0409"
            )
        found.append(SizeSpec(name, *min(places)[1:]))
    return tuple(found)


def _dim(size: int | str) -> Dim:
    return size if isinstance(size, int) else parse_dim(size)


def guard_specs(guards: Iterable[Guard], sizes: Sequence[SizeSpec], inputs: Sequence[TensorSpec]) -> tuple[GuardSpec, ...]:
    """Guards in plain numbers and words; of what is checked these say which axes the sizes in it are."""
    axes = {
        size.name: f"{size.name} being axis {size.axis} of '{inputs[size.input].name}'"
        for size in sizes
        if (size.scale, size.offset) == (1, 0)
    }
    return tuple(_guard_spec(guard, axes) for guard in guards)


def _guard_spec(guard: Guard, axes: Mapping[str, str]) -> GuardSpec:
    size, low, high = guard.measured
    if guard.kind != "checked":
        return GuardSpec(str(size), f"{guard.words} ({guard.origin})", guard.kind, low, high)
    which = "".join(f", {axes[name]}" for name in sorted(symbols(size)) if name in axes)
    return GuardSpec(str(size), f"{guard.words}{which} ({guard.origin})", "bound", low, high)
