"""An executable: native code in memory, ready to be called with arrays.

A call checks its arrays, binds the symbolic sizes, and makes one native call without the interpreter lock. What depends on shapes alone (sizes, output
shapes, bytes of working memory) is worked out once per combination of input shapes. Working memory is kept between calls, one piece per call
that is running at the same time, so several Python threads may call the same executable.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polyreme.runtime.artifact import MAX_SIZE, Manifest, TensorSpec
from polyreme.runtime.cpu import address_of, aligned_empty, numpy_dtype
from polyreme.runtime.errors import CallError
from polyreme.runtime.sizes import Size, parse_size
from polyreme.runtime.threads import Pool

Array = np.ndarray[Any, Any]
MAX_PLANS = 256

# Looked up once, for the sake of the call path.
_addressof = ctypes.addressof
_from_buffer: Any = ctypes.c_char.from_buffer
_empty = np.empty


class ModelFunctions(NamedTuple):
    """Addresses of a model's native functions.

    `void run(pool, buffers, sizes, arena)`, `int64 arena_bytes(sizes)` and `void output_shapes(sizes, out)`.
    """

    run: int
    arena_bytes: int
    output_shapes: int


class _Plan(NamedTuple):
    """What follows from the shapes of the inputs. `sizes` holds the values of the symbols, at `sizes_at`."""

    sizes: Any
    sizes_at: int
    arena_bytes: int
    output_shapes: tuple[tuple[int, ...], ...]


class _Context:
    """What one running call needs: the array of buffer addresses, and working memory that grows when it must."""

    __slots__ = ("arena", "arena_at", "buffers", "buffers_at", "capacity")

    def __init__(self, arguments: int, constants: Sequence[tuple[int, int]]):
        self.buffers = (ctypes.c_void_p * max(arguments, 1))()
        self.buffers_at = ctypes.addressof(self.buffers)
        for slot, address in constants:
            self.buffers[slot] = address
        self.arena: Array | None = None
        self.arena_at = self.capacity = 0

    def grow(self, count: int) -> None:
        # Allocated before the old one is let go: a failure leaves the context as it was.
        arena = aligned_empty(count)
        self.arena, self.arena_at, self.capacity = arena, address_of(arena), count


class Executable:
    """A model that can be called.

    `run([x, y]) -> [array, …]` in the order of `manifest.inputs` and `manifest.outputs`; calling it takes arrays by position or by name, and gives
    a single output bare and several as a tuple. `keep` is whatever holds the code and the constants in memory.
    """

    def __init__(self, manifest: Manifest, functions: ModelFunctions, constants_at: int, pool: Pool | None, keep: object = None):
        """`constants_at` is the address of the constants (64-byte aligned), which may be 0 when there are none; `pool` None: one thread."""
        self.manifest = manifest
        self.pool = pool
        self.keep = keep
        self._native_run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(functions.run)
        self._native_arena_bytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(functions.arena_bytes)
        self._pool_at = pool.address if pool else 0
        slots = {argument: slot for slot, argument in enumerate(manifest.arguments)}
        self._inputs = [(slots["input", i], numpy_dtype(t.dtype), t) for i, t in enumerate(manifest.inputs)]
        self._outputs = [(slots["output", i], numpy_dtype(t.dtype), t) for i, t in enumerate(manifest.outputs)]
        self._constants = [(slots["constant", i], constants_at + c.offset) for i, c in enumerate(manifest.constants)]
        texts = {size for t in (*manifest.inputs, *manifest.outputs) for size in t.shape if isinstance(size, str)}
        self._size_of = {text: parse_size(text, manifest.size_names) for text in texts}
        self._plans: dict[tuple[tuple[int, ...], ...], _Plan] = {}
        self._free: deque[_Context] = deque()

    @property
    def name(self) -> str:
        return self.manifest.name

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.manifest.inputs, self.manifest.outputs))
        return f"<{self.name}({inputs}) -> ({outputs})>"

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position, then by name."""
        outputs = self.run(self._bind(arrays, named) if named else arrays)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for `inputs`, in fresh arrays, or in those of `out` that are not None.

        Inputs that are not contiguous are copied; dtype and shape must be the manifest's. `CallError` names the argument at fault.
        """
        if len(inputs) != len(self._inputs):
            raise self._count_error(len(inputs))
        try:
            context = self._free.pop()
        except IndexError:
            context = _Context(len(self.manifest.arguments), self._constants)
        try:
            buffers = context.buffers
            arrays = []
            shapes = []
            for array, (slot, dtype, spec) in zip(inputs, self._inputs):
                if type(array) is not np.ndarray:
                    array = self._as_array(array, spec)
                if array.dtype is not dtype and array.dtype != dtype:
                    raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
                # As `address_of`, which refuses what is not contiguous too; written out, since a call of a small model spends its time here.
                try:
                    address = _addressof(_from_buffer(array))
                except (TypeError, ValueError, BufferError):
                    array = np.ascontiguousarray(array).reshape(array.shape)
                    address = array.ctypes.data
                if address & (dtype.itemsize - 1):
                    array = array.copy()
                    address = address_of(array)
                buffers[slot] = address
                arrays.append(array)
                shapes.append(array.shape)
            key = tuple(shapes)
            plan = self._plans.get(key) or self._make_plan(key)
            if plan.arena_bytes > context.capacity:
                context.grow(plan.arena_bytes)
            if out is not None:
                return self._run_into(context, plan, arrays, out)
            results: list[Array] = []
            for (slot, dtype, _), shape in zip(self._outputs, plan.output_shapes):
                result = _empty(shape, dtype)
                try:
                    buffers[slot] = _addressof(_from_buffer(result))
                except (TypeError, ValueError, BufferError):
                    buffers[slot] = result.ctypes.data
                results.append(result)
            self._native_run(self._pool_at, context.buffers_at, plan.sizes_at, context.arena_at)
            return results
        finally:
            self._free.append(context)

    def output_shapes(self, *input_shapes: Sequence[int]) -> list[tuple[int, ...]]:
        """The shapes that the outputs have for inputs of these shapes."""
        if len(input_shapes) != len(self._inputs):
            raise self._count_error(len(input_shapes))
        return list(self._make_plan(tuple(tuple(shape) for shape in input_shapes)).output_shapes)

    def release_memory(self) -> None:
        """Give back the working memory of all calls that are not running; the next call takes what it needs again."""
        self._free.clear()

    # --- the less common paths

    def _run_into(self, context: _Context, plan: _Plan, arrays: list[Array], out: Sequence[Array | None]) -> list[Array]:
        """Run with outputs given by the caller. Native code takes no two arguments that overlap, so such outputs are computed aside."""
        if len(out) != len(self._outputs):
            raise CallError(f"'{self.name}' expected {len(self._outputs)} arrays in 'out' but got {len(out)}")
        targets: list[Array] = []
        results: list[Array] = []
        for given, (slot, dtype, spec), shape in zip(out, self._outputs, plan.output_shapes, strict=True):
            if given is not None:
                self._check_out(given, spec, dtype, shape)
            direct = given is not None and given.flags.c_contiguous and given.flags.aligned
            if direct and any(np.may_share_memory(given, other) for other in (*arrays, *results)):
                direct = False
            result = given if direct and given is not None else np.empty(shape, dtype)
            context.buffers[slot] = address_of(result)
            results.append(result)
            targets.append(result if given is None else given)
        self._native_run(self._pool_at, context.buffers_at, plan.sizes_at, context.arena_at)
        for target, result in zip(targets, results, strict=True):
            if target is not result:
                target[...] = result
        return targets

    def _check_out(self, given: Any, spec: TensorSpec, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        if not isinstance(given, np.ndarray):
            raise CallError(f"'{self.name}' expected an array as 'out' for '{spec.name}' but got {type(given).__name__}")
        if given.dtype != dtype or given.shape != shape:
            wanted, got = _array_text(spec.dtype, shape), _array_text(given.dtype, given.shape)
            raise CallError(f"'{self.name}' expected 'out' for '{spec.name}' to be {wanted} but got {got}")
        if not given.flags.writeable:
            raise CallError(f"'{self.name}' expected 'out' for '{spec.name}' to be writable but got a read-only array")

    def _as_array(self, value: Any, spec: TensorSpec) -> Array:
        try:
            return np.asarray(value)
        except (TypeError, ValueError) as error:
            raise CallError(f"'{self.name}' expected an array as the input '{spec.name}' but got {type(value).__name__}: {error}") from error

    def _bind(self, arrays: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """The inputs in order, from those given by position and those given by name."""
        names = [t.name for t in self.manifest.inputs]
        for name in named:
            if name not in names:
                raise CallError(f"'{self.name}' has no input '{name}': its inputs are {', '.join(names)}")
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

    def _make_plan(self, shapes: tuple[tuple[int, ...], ...]) -> _Plan:
        """Check every size of every input, and work out what follows; remembered for the next call."""
        manifest = self.manifest
        for shape, (_, _, spec) in zip(shapes, self._inputs, strict=True):
            if len(shape) != len(spec.shape):
                raise self._fault(spec, spec.dtype, shape, f"expected {len(spec.shape)} axes but got {len(shape)}")
        values = {size.name: int(shapes[size.input][size.axis]) for size in manifest.sizes}
        for shape, (_, _, spec) in zip(shapes, self._inputs, strict=True):
            for axis, (got, size) in enumerate(zip(shape, spec.shape, strict=True)):
                expected = self._value(size, values, spec)
                if got != expected:
                    meaning = f"{size} = {expected}" if isinstance(size, str) else f"{size}"
                    raise self._fault(spec, spec.dtype, shape, f"expected {meaning} on axis {axis} but got {got}{self._origin(size)}")
        output_shapes = tuple(tuple(self._value(size, values, spec) for size in spec.shape) for _, _, spec in self._outputs)
        sizes = (ctypes.c_int64 * max(len(values), 1))(*values.values())
        arena_bytes = self._native_arena_bytes(ctypes.addressof(sizes))
        if not 0 <= arena_bytes <= MAX_SIZE:
            raise CallError(f"'{self.name}' needs {arena_bytes} bytes of working memory for {self._values_text(values)}: expected at most {MAX_SIZE}")
        plan = _Plan(sizes, ctypes.addressof(sizes), arena_bytes, output_shapes)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[shapes] = plan
        return plan

    def _value(self, size: int | str, values: dict[str, int], spec: TensorSpec) -> int:
        if isinstance(size, int):
            return size
        evaluate: Size = self._size_of[size]
        try:
            value = evaluate(values)
        except ValueError as error:
            raise CallError(f"'{self.name}': the size {size} of '{spec.name}' has no value for {self._values_text(values)}: {error}") from error
        if not 0 <= value <= MAX_SIZE:
            raise CallError(f"'{self.name}': the size {size} of '{spec.name}' would be {value} for {self._values_text(values)}")
        return value

    def _origin(self, size: int | str) -> str:
        """Where the symbols of a size got their values."""
        inputs = self.manifest.inputs
        found = [s for s in self.manifest.sizes if s.name == size]
        return f" ({found[0].name} is axis {found[0].axis} of '{inputs[found[0].input].name}')" if found else ""

    def _values_text(self, values: dict[str, int]) -> str:
        return ", ".join(f"{name} = {value}" for name, value in values.items()) or "the given inputs"


def _array_text(dtype: Any, shape: Sequence[int | str]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
