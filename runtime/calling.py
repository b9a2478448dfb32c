"""Calling a model: what its manifest says of arrays, checked and worked out alike on every device.

`CallError` names the argument at fault, what was expected and what was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.runtime.errors import CallError, ContentError
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.manifest.sizes import Size, parse_size
from polyreme.runtime.manifest.specs import MAX_SIZE, GuardSpec, TensorSpec
from polyreme.runtime.memory import numpy_dtype

Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]


class CallableModel:
    """A model that can be called; subclasses run it."""

    def __init__(self, manifest: Manifest):
        self.manifest = manifest
        self._slots = {argument: slot for slot, argument in enumerate(manifest.arguments)}
        self._inputs = [(self._slots["input", i], numpy_dtype(t.dtype), t) for i, t in enumerate(manifest.inputs)]
        # What a model in parts gives is as large as its parts say.
        outputs = () if manifest.steps else manifest.outputs
        self._outputs = [(self._slots["output", i], numpy_dtype(t.dtype), t) for i, t in enumerate(outputs)]
        texts = {size for t in (*manifest.inputs, *outputs) for size in t.shape if isinstance(size, str)}
        texts.update(guard.size for guard in manifest.guards)
        self._size_of = {text: parse_size(text, manifest.size_names) for text in texts}

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called, in order."""
        return tuple(spec.name for spec in self.manifest.outputs)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.manifest.inputs, self.manifest.outputs))
        return f"<{self.name}({inputs}) -> ({outputs})>"

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for `inputs`, in order."""
        raise NotImplementedError

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position, then by name."""
        outputs = self.run(self._bind(arrays, named) if named else arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def output_shapes(self, *input_shapes: Sequence[int]) -> list[tuple[int, ...]]:
        """The shapes that the outputs have for inputs of these shapes."""
        if len(input_shapes) != len(self._inputs):
            raise self._count_error(len(input_shapes))
        return list(self._measure(tuple(tuple(shape) for shape in input_shapes))[1])

    # --- checks

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        """The inputs as dense arrays of the model's types, whose elements are what it takes; of the shapes `_measure` tells."""
        if len(inputs) != len(self._inputs):
            raise self._count_error(len(inputs))
        arrays = []
        for given, (_, dtype, spec) in zip(inputs, self._inputs, strict=True):
            array = self._as_array(given, spec)
            if array.dtype != dtype:
                raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
            arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        self._check_ranges(arrays)
        return arrays

    def _targets(self, shapes: Shapes, out: Sequence[Array | None] | None) -> list[Array]:
        """Arrays of the outputs' shapes: those of `out` that are not None, after a check, and fresh ones."""
        if out is not None and len(out) != len(self._outputs):
            raise CallError(f"'{self.name}' expected {len(self._outputs)} arrays in 'out' but got {len(out)}")
        results = []
        for i, ((_, dtype, spec), shape) in enumerate(zip(self._outputs, shapes, strict=True)):
            given = out[i] if out is not None else None
            if given is not None:
                self._check_out(given, spec, dtype, shape)
            results.append(np.empty(shape, dtype) if given is None else given)
        return results

    def _check_out(self, given: Any, spec: TensorSpec, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        if not isinstance(given, np.ndarray):
            raise CallError(f"'{self.name}' expected an array as 'out' for '{spec.name}' but got {type(given).__name__}")
        if given.dtype != dtype or given.shape != shape:
            wanted, got = _array_text(spec.dtype, shape), _array_text(given.dtype, given.shape)
            raise CallError(f"'{self.name}' expected 'out' for '{spec.name}' to be {wanted} but got {got}")
        if not given.flags.writeable:
            raise CallError(f"'{self.name}' expected 'out' for '{spec.name}' to be writable but got a read-only array")

    def _as_array(self, value: Any, spec: TensorSpec) -> Array:
        """An input as an array. Bits of bfloat16 may come as uint16, as numpy's files and Paddle have them."""
        try:
            array = np.asarray(value)
            return array.view(numpy_dtype(spec.dtype)) if spec.dtype == "bfloat16" and array.dtype == np.uint16 else array
        except (TypeError, ValueError) as error:
            raise CallError(
                f"'{self.name}' expected an array as the input '{spec.name}' but got {type(value).__name__}: {error}"
            ) from error

    def _bind(self, arrays: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """The inputs in order, from those given by position and those given by name."""
        names = [t.name for t in self.manifest.inputs]
        for name in named:
            if name not in names:
                import difflib

                close = difflib.get_close_matches(name, names, n=1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                raise CallError(f"'{self.name}' has no input '{name}': its inputs are {', '.join(names)}{hint}")
            if name in names[: len(arrays)]:
                raise CallError(f"'{self.name}' got the input '{name}' twice: by position and by name")
        missing = [name for name in names[len(arrays) :] if name not in named]
        if missing:
            raise CallError(f"'{self.name}' expected the inputs {', '.join(names)} but got none for {', '.join(missing)}")
        return [*arrays, *(named[name] for name in names[len(arrays) :])]

    def _count_error(self, got: int) -> CallError:
        names = ", ".join(t.name for t in self.manifest.inputs)
        return CallError(f"'{self.name}' expected {len(self._inputs)} inputs ({names}) but got {got}")

    def _fault(self, spec: TensorSpec, dtype: Any, shape: Sequence[int], detail: str) -> CallError:
        wanted, got = _array_text(spec.dtype, spec.shape), _array_text(dtype, shape)
        return CallError(f"'{self.name}' expected the input '{spec.name}' to be {wanted} but got {got}: {detail}")

    def _measure(self, shapes: Shapes) -> tuple[dict[str, int], Shapes]:
        """The values of the sizes and the shapes of the outputs, for inputs of these shapes: every size of every one is checked."""
        manifest = self.manifest
        for shape, (_, _, spec) in zip(shapes, self._inputs, strict=True):
            if len(shape) != len(spec.shape):
                raise self._fault(spec, spec.dtype, shape, f"expected {len(spec.shape)} axes but got {len(shape)}")
        values = {}
        for size_spec in manifest.sizes:
            got = int(shapes[size_spec.input][size_spec.axis])
            values[size_spec.name], rest = divmod(got - size_spec.offset, size_spec.scale)
            if rest or values[size_spec.name] < 0:
                spec, shape = self._inputs[size_spec.input][2], shapes[size_spec.input]
                form = spec.shape[size_spec.axis]
                if why := manifest.reasons(spec, size_spec.axis, "divisor"):
                    raise CallError(f"'{self.name}' expected {why} but got {got}, axis {size_spec.axis} of the input '{spec.name}'")
                raise self._fault(spec, spec.dtype, shape, f"expected {form} on axis {size_spec.axis} but got {got}")
        for shape, (_, _, spec) in zip(shapes, self._inputs, strict=True):
            for axis, (got, size) in enumerate(zip(shape, spec.shape, strict=True)):
                expected = self._value(size, values, spec)
                if got != expected:
                    if why := manifest.reasons(spec, axis, "equal"):
                        if isinstance(size, int):
                            raise CallError(f"'{self.name}' expected {why} but got {got}")
                        where = f"axis {axis} of the input '{spec.name}', where {size} is {expected}{self._origin(size)}"
                        raise CallError(f"'{self.name}' expected {why} but got {got}, {where}")
                    meaning = f"{size} = {expected}" if isinstance(size, str) else f"{size}"
                    raise self._fault(spec, spec.dtype, shape, f"expected {meaning} on axis {axis} but got {got}{self._origin(size)}")
        for guard in manifest.bounds:
            if not _inside(value := self._size_of[guard.size](values), guard):
                raise CallError(f"'{self.name}' expected {guard.what} but got {value}")
        output_shapes = tuple(tuple(self._value(size, values, spec) for size in spec.shape) for _, _, spec in self._outputs)
        return values, output_shapes

    def _check_ranges(self, arrays: Sequence[Array]) -> None:
        """Whether inputs hold what the model takes; `arrays` are of the types that it takes."""
        for found in self.manifest.ranges:
            array, name = arrays[found.input], self.manifest.inputs[found.input].name
            low, high = (int(array.min()), int(array.max())) if array.size else (found.low, found.low)
            if low < found.low or high > found.high:
                raise ContentError(
                    f"'{self.name}' expected the input '{name}' to hold {found.what} from {found.low} to {found.high} but got {low} to "
                    f"{high}"
                )

    def _check_looks(self, told: Array) -> None:
        """Whether the positions that a run computed are those of their axes; `told` are its three numbers for each."""
        for look, (low, high, size) in zip(self.manifest.looks, told.reshape(-1, 3).tolist(), strict=True):
            first = -size if look.wraps else 0
            # Of no positions the least is greater than the greatest.
            if low <= high and (low < first or high >= size):
                raise CallError(
                    f"'{self.name}' expected {look.what} from {first} to {size - 1} but computed {low} to {high}; the results are not given"
                )

    def _check_arena(self, count: int, values: dict[str, int]) -> None:
        if not 0 <= count <= MAX_SIZE:
            raise CallError(
                f"'{self.name}' needs {count} bytes of working memory for {self._values_text(values)}: expected at most {MAX_SIZE}"
            )

    def _value(self, size: int | str, values: dict[str, int], spec: TensorSpec) -> int:
        if isinstance(size, int):
            return size
        evaluate: Size = self._size_of[size]
        try:
            value = evaluate(values)
        except ValueError as error:
            raise CallError(
                f"'{self.name}': the size {size} of '{spec.name}' has no value for {self._values_text(values)}: {error}"
            ) from error
        if not 0 <= value <= MAX_SIZE:
            raise CallError(f"'{self.name}': the size {size} of '{spec.name}' would be {value} for {self._values_text(values)}")
        return value

    def _origin(self, size: int | str) -> str:
        """Where the symbols of a size got their values."""
        inputs = self.manifest.inputs
        found = [s for s in self.manifest.sizes if inputs[s.input].shape[s.axis] == size]
        return f" ({size} is axis {found[0].axis} of '{inputs[found[0].input].name}')" if found else ""

    def _values_text(self, values: dict[str, int]) -> str:
        return ", ".join(f"{name} = {value}" for name, value in values.items()) or "the given inputs"


def _inside(value: int, guard: GuardSpec) -> bool:
    return (guard.low is None or value >= guard.low) and (guard.high is None or value <= guard.high)


def _array_text(dtype: Any, shape: Sequence[int | str]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
