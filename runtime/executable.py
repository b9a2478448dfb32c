"""An executable: native code in memory, ready to be called with arrays.

A call checks its arrays (`calling.py` says how), binds the symbolic sizes, and makes one native call without the interpreter lock. What
depends on shapes alone (sizes, output shapes, bytes of working memory) is worked out once per combination of input shapes. Working memory
is kept between calls, one piece per call that is running at the same time, so several Python threads may call the same executable.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polyreme.runtime.calling import CallableModel
from polyreme.runtime.errors import CallError
from polyreme.runtime.manifest.manifest import Manifest
from polyreme.runtime.memory import ALIGNMENT, address_of, aligned_empty
from polyreme.runtime.threads import Pool

Array = np.ndarray[Any, Any]
MAX_PLANS = 256

# Looked up once, for the sake of the call path.
_addressof = ctypes.addressof
_from_buffer: Any = ctypes.c_char.from_buffer
_empty = np.empty
# Types from here on are none of numpy's own: bfloat16, whose arrays only hand out their memory as one of integers.
_FOREIGN, _BITS = 256, np.dtype(np.uint16)


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

    __slots__ = ("arena", "arena_at", "buffers", "buffers_at", "capacity", "constants", "looks", "plan", "shapes")

    def __init__(self, arguments: int):
        self.buffers = (ctypes.c_void_p * max(arguments, 1))()
        self.buffers_at = ctypes.addressof(self.buffers)
        self.constants: Sequence[tuple[int, int]] = ()
        # What the run tells of positions that it computes.
        self.looks: Array | None = None
        self.arena: Array | None = None
        self.arena_at = self.capacity = 0
        # Of the last call: most calls are like the one before.
        self.shapes: list[tuple[int, ...]] | None = None
        self.plan: Any = None

    def fix(self, constants: Sequence[tuple[int, int]], look_slot: int | None, looks: int) -> None:
        """Enter the addresses that are the same for all calls of one executable, by slot, and the place of what a run tells of so many
        looks.
        """
        for slot, address in constants:
            self.buffers[slot] = address
        if look_slot is not None:
            self.looks = np.empty(3 * looks, np.int64)
            self.buffers[look_slot] = address_of(self.looks)
        self.constants = constants
        self.shapes = None

    def grow(self, count: int) -> None:
        # Allocated before the old one is let go: a failure leaves the context as it was.
        arena = aligned_empty(count)
        self.arena, self.arena_at, self.capacity = arena, address_of(arena), count


class Executable(CallableModel):
    """A model that can be called.

    `run([x, y]) -> [array, …]` in the order of `manifest.inputs` and `manifest.outputs`; calling it takes arrays by position or by name,
    and gives a single output bare and several as a tuple. `keep` is whatever holds the code and the constants in memory.
    """

    def __init__(self, manifest: Manifest, functions: ModelFunctions, constants_at: int, pool: Pool | None, keep: object = None):
        """`constants_at` is the address of the constants (64-byte aligned), which may be 0 when there are none; `pool` None: one thread."""
        super().__init__(manifest)
        self.pool = pool
        self.keep = keep
        self._native_run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(functions.run)
        self._native_arena_bytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(functions.arena_bytes)
        self._pool_at = pool.address if pool else 0
        self._constants = [(self._slots["constant", i], constants_at + c.offset) for i, c in enumerate(manifest.constants)]
        self._plans: dict[tuple[tuple[int, ...], ...], _Plan] = {}
        self._free: deque[_Context] = deque()
        self._ranges = manifest.ranges
        self._look_slot = self._slots.get(("looks", 0))
        self._parts: dict[tuple[int, ...], Executable] = {}

    def run(
        self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None, memory: Mapping[int, Array] | None = None
    ) -> list[Array]:
        """The outputs for `inputs`, in fresh arrays, or in those of `out` that are not None.

        `memory` has contiguous arrays by the numbers of outputs that are written there, if they are of the shapes and dtypes. That neither
        inputs nor other outputs share them is the caller's to know; but an output may be the very input that it replaces, as
        `manifest.updates` tells.
        Inputs that are not contiguous are copied; dtype and shape must be the manifest's. `CallError` names the argument at fault.
        """
        if len(inputs) != len(self._inputs):
            raise self._count_error(len(inputs))
        try:
            context = self._free.pop()
        except IndexError:
            context = _Context(len(self._slots))
        try:
            if context.constants is not self._constants:
                context.fix(self._constants, self._look_slot, len(self.manifest.looks))
            buffers = context.buffers
            arrays = []
            shapes = []
            for array, (slot, dtype, spec) in zip(inputs, self._inputs):
                if type(array) is not np.ndarray or array.dtype is not dtype:
                    array = self._as_array(array, spec)
                if array.dtype is not dtype and array.dtype != dtype:
                    raise self._fault(spec, array.dtype, array.shape, f"expected {spec.dtype} but got {array.dtype}")
                # As `address_of`, which refuses what is not contiguous too; written out, since a call of a small model spends its time
                # here.
                try:
                    address = _addressof(_from_buffer(array if dtype.num < _FOREIGN else array.view(_BITS)))
                except (TypeError, ValueError, BufferError):
                    array = np.ascontiguousarray(array).reshape(array.shape)
                    address = array.ctypes.data
                if address & (dtype.itemsize - 1):
                    array = array.copy()
                    address = address_of(array)
                buffers[slot] = address
                arrays.append(array)
                shapes.append(array.shape)
            if shapes == context.shapes:
                plan = context.plan
            else:
                key = tuple(shapes)
                plan = self._plans.get(key) or self._make_plan(key)
                if plan.arena_bytes > context.capacity:
                    context.grow(plan.arena_bytes)
                context.shapes, context.plan = shapes, plan
            if self._ranges:
                self._check_ranges(arrays)
            if out is not None:
                return self._run_into(context, plan, arrays, out)
            results: list[Array] = []
            for (slot, dtype, _), shape in zip(self._outputs, plan.output_shapes):
                result = _empty(shape, dtype=dtype) if not memory else _fitting(memory.get(len(results)), shape, dtype)
                try:
                    buffers[slot] = _addressof(_from_buffer(result if dtype.num < _FOREIGN else result.view(_BITS)))
                except (TypeError, ValueError, BufferError):
                    buffers[slot] = result.ctypes.data
                results.append(result)
            self._native_run(self._pool_at, context.buffers_at, plan.sizes_at, context.arena_at)
            if context.looks is not None:
                self._check_looks(context.looks)
            return results
        finally:
            self._free.append(context)

    def bind(self, arrays: Mapping[int, Array]) -> Executable:
        """This model with some inputs, by number, given for good: calls take the others, and read what then stands in these arrays.

        Packed weights are only taken here: they have to stand at whole cache lines, and are copied if they do not.

        An input that a free size is read from cannot be bound. Code, constants and working memory are shared, and binding the same inputs
        again is cheap.
        """
        bound = copy(self._with_inputs(tuple(i for i in range(len(self._inputs)) if i not in arrays)))
        addresses = []
        kept = []
        for i, given in arrays.items():
            slot, dtype, spec = self._inputs[i]
            if given.dtype != dtype or given.shape != spec.shape:
                raise self._fault(spec, given.dtype, given.shape, "as the array that it is bound to")
            array = given if given.flags.carray else np.require(given, requirements=["C", "A"])
            if spec.role == "packed" and address_of(array) % ALIGNMENT:
                array = aligned_empty(given.nbytes, ALIGNMENT).view(dtype).reshape(given.shape)
                array[...] = given
            addresses.append((slot, address_of(array)))
            kept.append(array)
        bound.keep = (self.keep, kept)
        bound._constants = [*self._constants, *addresses]
        return bound

    def _with_inputs(self, left: tuple[int, ...]) -> Executable:
        """This model with the inputs `left` alone, which the others are still to be bound for; it is made once."""
        made = self._parts.get(left)
        if made is None:
            sizes = tuple(size._replace(input=left.index(size.input)) for size in self.manifest.sizes)
            arguments = [
                (kind, left.index(i) if kind == "input" else i) for kind, i in self.manifest.arguments if kind != "input" or i in left
            ]
            inputs = tuple(self.manifest.inputs[i] for i in left)
            made = copy(self)
            # What is bound stays what it is, and is not looked at again.
            ranges = tuple(r._replace(input=left.index(r.input)) for r in self.manifest.ranges if r.input in left)
            updates = tuple((left.index(i), output) for i, output in self.manifest.updates if i in left)
            made.manifest = replace(
                self.manifest, inputs=inputs, sizes=sizes, arguments=tuple(arguments), ranges=ranges, updates=updates
            )
            made._ranges = ranges
            made._inputs = [self._inputs[i] for i in left]
            made._plans, made._parts = {}, {}
            self._parts[left] = made
        return made

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
        if context.looks is not None:
            self._check_looks(context.looks)
        for target, result in zip(targets, results, strict=True):
            if target is not result:
                target[...] = result
        return targets

    def _make_plan(self, shapes: tuple[tuple[int, ...], ...]) -> _Plan:
        """What follows from the shapes, which are checked; remembered for the next call."""
        packed = [spec.name for *_, spec in self._inputs if spec.role == "packed"]
        if packed:
            raise CallError(f"'{self.name}' expected the packed weights {', '.join(packed)} to be bound before a call")
        values, output_shapes = self._measure(shapes)
        sizes = (ctypes.c_int64 * max(len(values), 1))(*values.values())
        arena_bytes = self._native_arena_bytes(ctypes.addressof(sizes))
        self._check_arena(arena_bytes, values)
        plan = _Plan(sizes, ctypes.addressof(sizes), arena_bytes, output_shapes)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[shapes] = plan
        return plan


def _fitting(given: Array | None, shape: tuple[int, ...], dtype: Any) -> Array:
    """What is given if it is of the shape and dtype, else a new array."""
    return given if given is not None and given.shape == shape and given.dtype == dtype else np.empty(shape, dtype)
