"""What a manifest says of a function: its arguments, the sizes that a call reads off their shapes, and what these have to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import Location, PolyremeError
from polyreme.ir.dims import Dim, line_of, parse_dim, symbols
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.types import BufferType, TensorType
from polyreme.lowering.analysis.names import argument_names
from polyreme.runtime.artifact import GuardSpec, Manifest, SizeSpec, TargetSpec, TensorSpec


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
    return Manifest(name, tuple(inputs), (), (), sizes, arguments, TargetSpec(""), guards=guards)


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
