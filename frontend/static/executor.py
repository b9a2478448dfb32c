"""The executor: feeds a program, runs it as compiled code, fetches what is asked for."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyreme.device import as_place, current_place
from polyreme.ir.diagnostics import Diagnostic, PolyremeError, caller_location, did_you_mean
from polyreme.ir.dims import SYMBOL
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType
from polyreme.runtime.gpu.arrays import taken
from polyreme.static.current import default_main_program
from polyreme.static.feeding.batches import may_part, shape_fits, with_fed_shapes, with_own_batches
from polyreme.static.feeding.positions import UNBOUNDED, fed_positions, misplaced
from polyreme.static.lod.tensor import LoDTensor
from polyreme.static.lod.travel import LOD, is_level, is_shared, level_name, level_types
from polyreme.static.operator import Operator, OpRole, RunError
from polyreme.static.parallel.compiled_program import CompiledProgram
from polyreme.static.plan import RunPlan, make_plan
from polyreme.static.program import Program
from polyreme.static.scope import Scope, global_scope
from polyreme.static.variable import GRAD, Variable, VariableError, named_variable
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["Executor", "FeedError", "one_feed"]

Array = np.ndarray[Any, Any]

LEVELS_LOST = (
    "Some of your fetched tensors hold LoD information. They can not be completely cast to Python ndarray. Please set the parameter "
    "'return_numpy' as 'False' to return LoDTensor itself directly."
)

_making = threading.RLock()


class FeedError(VariableError):
    """An array that does not fit the variable it is fed to."""

    code = "E0603"


class Executor(Shown):
    """Runs programs on one device: `place`, or the device that is current when the executor is made.

    A program is compiled when it first runs with these names fed and fetched, and again when it has changed. Free sizes stay free: another
    batch size needs no compilation. Persistable variables live in the scope between runs.
    """

    def __init__(self, place: Any = None):
        self.place = current_place() if place is None else as_place(place)

        self._closed = False

    def close(self) -> None:
        """Run nothing more: a later `run` is a RuntimeError. What was held, Python lets go of by itself."""
        self._closed = True

    def run(
        self,
        program: Any = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Any] | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run all operators in program order; the values of `fetch_list` (variables or names) as numpy arrays, or as tensors with
        `return_numpy=False`.

        `feed` has an array by name for each input, of the shape that was declared; where the variable asks for no check, as those of
        `fluid.layers.data` do, of any shape that the operators take. With `use_prune` only the operators are run that the fetched
        variables and the updates of optimizers need; operators in `fetch_list`, such as what `minimize` returns, are the only updates.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Executor: make another one, or call close() after the last run")
        if isinstance(program, CompiledProgram):
            found = program.run_replicas(self, feed, _listed(fetch_list), global_scope() if scope is None else scope)
            if found is not None:
                return found if return_numpy else [Tensor._wrap(a) for a in found]
        feed = one_feed(feed)
        chosen = _program(program)
        if not chosen.global_block().ops and not fetch_list:
            return []
        asked = _listed(fetch_list)
        names = [_name(item) for item in asked if not isinstance(item, Operator)]
        updates = [item for item in asked if isinstance(item, Operator)]
        if use_prune or updates:
            chosen = self._pruned(chosen, names, updates, tuple(feed or ()))
        block = chosen.global_block()
        arrays: dict[str, Array] = {}
        types: dict[str, TensorType] = {}
        unlike: FeedError | None = None
        for name, value in (feed or {}).items():
            if not isinstance(name, str):
                raise TypeError(f"expected names of variables in feed but got {name!r}; give the variable's name, x.name")
            variable = block.vars.get(name)
            if variable is None:
                warnings.warn(
                    f"The variable '{name}' is not found in program. It is not declared or is pruned{did_you_mean(name, block.vars)}",
                    stacklevel=2,
                )
            else:
                arrays[name], types[name] = _fed(variable, value), variable.type
                if not shape_fits(types[name], arrays[name].shape):
                    unlike = unlike or _unlike(variable, arrays[name])
                    if variable.need_check_feed or not variable.is_data:
                        raise unlike
                _feed_levels(variable, value, arrays, types)
        if unlike is not None:
            types = with_fed_shapes(types, arrays)
        misfit = _misfit(block.vars, types, arrays) if len(arrays) > 1 else None
        if misfit is not None and not may_part(chosen, misfit.size):
            raise misfit.error
        _check_positions(chosen, arrays)
        inside = global_scope() if scope is None else scope
        for rate_name, rate in chosen.schedules.items():
            inside.var(rate_name).array = np.asarray(rate(), block.vars[rate_name].type.dtype.np)
        try:
            plan = self._fitting(chosen, types, names, arrays) if misfit is None else self._parted(chosen, types, names, arrays, misfit)
        except PolyremeError:
            if unlike is not None:
                raise unlike from None
            raise
        results, levels = plan.run_with_levels(arrays, inside)
        return [
            # Gradients have the rows of what they are of; nobody asks them for sequences.
            self._given(array, [] if return_numpy and GRAD in name else lod, return_numpy)
            for name, array, lod in zip(names, results, levels, strict=True)
        ]

    def _given(self, array: Array, lod: list[Array], return_numpy: bool) -> Any:
        """A fetched value as the caller wants it. Levels that are not of its rows are those of a block that did not run."""
        lod = lod if lod and array.ndim and lod[-1][-1] == array.shape[0] else []
        if lod and return_numpy:
            raise LevelsLostError(LEVELS_LOST, caller_location())
        if lod:
            return LoDTensor._made(array, [level.tolist() for level in lod])
        return taken(array) if return_numpy else Tensor._wrap(array)

    def plan(self, program: Program, feeds: Mapping[str, TensorType], names: Sequence[str]) -> RunPlan:
        """The program made ready for these feeds and fetches; kept until it changes, as is the error of one that cannot be."""
        key = (tuple(sorted((name, str(kind)) for name, kind in feeds.items())), tuple(names), self.place)
        # Translation takes hold of tensors that the program writes to, so that one thread at a time does it.
        with _making:
            found: RunPlan | None = program.plans.get(key)
            if found is None and key in program.known:
                raise program.known[key].with_traceback(None)
            if found is None:
                try:
                    made = make_plan(program, feeds, names)
                except PolyremeError as error:
                    program.known[key] = error
                    raise
                found = program.plans[key] = made.load(self.place)
        return found


    def _fitting(self, program: Program, types: Mapping[str, TensorType], names: Sequence[str], arrays: Mapping[str, Array]) -> RunPlan:
        """The plan for free sizes; where operators need them to be what they are only in this run, the plan for just these sizes."""
        try:
            return self.plan(program, types, names)
        except PolyremeError as error:
            sized = {name: kind.with_shape(arrays[name].shape) for name, kind in types.items()}
            if sized == dict(types):
                raise
            try:
                return self.plan(program, sized, names)
            except PolyremeError:
                raise error from None

    def _parted(
        self, program: Program, types: Mapping[str, TensorType], names: Sequence[str], arrays: Mapping[str, Array], misfit: _Misfit
    ) -> RunPlan:
        """The plan for feeds that have batches of their own; where operators need these to be equal or 1, the plan for just these sizes.
        Why a program cannot run with any sizes is said as it is.
        """
        for alike in (False, True):
            try:
                return self.plan(program, with_own_batches(types, arrays, alike), names)
            except PolyremeError:
                pass
        try:
            return self.plan(program, {name: kind.with_shape(arrays[name].shape) for name, kind in types.items()}, names)
        except PolyremeError as error:
            raise (error if isinstance(error, RunError) else misfit.error) from None

    @staticmethod
    def _pruned(program: Program, names: Sequence[str], updates: Sequence[Operator], feeds: tuple[str, ...]) -> Program:
        """What these fetches and operators of an optimizer need, all of them where none is named."""
        of_optimizers = [op for op in program.global_block().ops if op.attrs.get("op_role", 0) & OpRole.Optimize]
        uids = {op.uid for op in of_optimizers}
        for op in updates:
            if op.uid not in uids:
                raise TypeError(f"expected variables, or operators of an optimizer of the program, in fetch_list but got '{op.type}'")
        key = ("pruned", tuple(names), tuple(op.uid for op in updates), feeds)
        if key not in program.plans:
            program.plans[key] = program._prune_with_input(feeds, [*names, *(updates or of_optimizers)])
        pruned: Program = program.plans[key]
        return pruned


def _program(program: Any) -> Program:
    if program is None:
        return default_main_program()
    if isinstance(program, CompiledProgram):
        return program.program
    if not isinstance(program, Program):
        raise TypeError(f"Executor requires Program or CompiledProgram as its Parameter. But you passed in {type(program)}")
    return program


def one_feed(feed: Any) -> Mapping[str, Any] | None:
    """The feed of one device; a list of one is what it holds."""
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise ValueError(f"expected feeds for one device but got a list of {len(feed)}")
        (feed,) = feed
    if feed is not None and not isinstance(feed, Mapping):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    return feed


def _listed(fetch_list: Any) -> list[Any]:
    if fetch_list is None:
        return []
    if not isinstance(fetch_list, (list, tuple)):
        return [fetch_list]
    return [item for part in fetch_list for item in _members(part)]


def _members(part: Any) -> Sequence[Any]:
    if not isinstance(part, (list, tuple)):
        return [part]
    # What `minimize` returns: operators, and pairs that nobody fetches.
    is_minimized = isinstance(part, tuple) and part and isinstance(part[0], list) and all(isinstance(op, Operator) for op in part[0])
    return part[0] if is_minimized else part


def _name(item: Any) -> str:
    if isinstance(item, str):
        return item
    variable = named_variable(item)
    if variable is None:
        raise TypeError(f"expected variables or their names in fetch_list but got {type(item).__name__}")
    return variable.name


# --- feeds


def _fed(variable: Variable, value: Any) -> Array:
    """The array for an input; its dtype must be the variable's. Python numbers and lists take the dtype."""
    expected = variable.type
    if isinstance(value, Tensor):
        array = value._array("a feed")
    elif isinstance(value, LoDTensor):
        array = value._array()
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        try:
            array = np.array(value, expected.dtype.np)
        except (TypeError, ValueError) as error:
            raise FeedError(
                Diagnostic(
                    f"expected numbers for the fed variable '{variable.name}' but got {type(value).__name__}: {error}", variable.location
                )
            ) from None
    if array.dtype != expected.dtype.np:
        message = f"the data type of the fed variable '{variable.name}': expected {variable.dtype.name} but got {array.dtype}"
        raise FeedError(Diagnostic(message, variable.location, _here()))
    return array


def _unlike(variable: Variable, array: Array) -> FeedError:
    message = f"the shape of the fed variable '{variable.name}': expected {list(variable.shape)} but got {list(array.shape)}"
    return FeedError(Diagnostic(message, variable.location, _here()))


def _feed_levels(variable: Variable, value: Any, arrays: dict[str, Array], types: dict[str, TensorType]) -> None:
    """Feed the levels of detail of a tensor beside it."""
    lod = value.lod() if isinstance(value, LoDTensor) else []
    if not lod:
        return
    if not value.has_valid_recursive_sequence_lengths():
        message = (
            f"the levels of the fed variable '{variable.name}': expected sequences that make up its {len(value)} rows but got the lengths "
            f"{value.recursive_sequence_lengths()}"
        )
        raise FeedError(Diagnostic(message, variable.location, _here()))
    if variable.lod_level not in (0, len(lod)):
        message = f"the levels of the fed variable '{variable.name}': expected {variable.lod_level} but got {len(lod)}"
        raise FeedError(Diagnostic(message, variable.location, _here()))
    for i, (level, kind) in enumerate(zip(lod, level_types(len(lod)), strict=True)):
        name = level_name(variable.name, i)
        arrays[name], types[name] = np.asarray(level, np.int64), kind


def _here() -> tuple[Diagnostic, ...]:
    return (Diagnostic("fed here", caller_location()),)


def _check_positions(program: Program, arrays: Mapping[str, Array]) -> None:
    """Refuse classes and rows that are in none of the tables in which operators look them up."""
    positions = program.known.get("positions")
    if positions is None:
        positions = program.known["positions"] = fed_positions(program)
    wrong = misplaced(positions, arrays)
    if wrong is not None:
        place, number = wrong
        message = f"the values of the fed variable '{place.name}': expected {place.expected} but got {number}"
        among = "" if place.count == UNBOUNDED else f" among {place.count}"
        looked_up = Diagnostic(f"'{place.op.type}' looks them up{among}", place.op.location)
        raise FeedError(Diagnostic(message, program.global_block().vars[place.name].location, (looked_up, *_here())))


@dataclass(frozen=True)
class _Misfit:
    """Feeds that give one size two values, and the error that says so."""

    size: str
    error: FeedError


def _misfit(variables: Mapping[str, Variable], types: Mapping[str, TensorType], arrays: Mapping[str, Array]) -> _Misfit | None:
    """Sizes of one name must be equal; the free sizes of axis 0 are all called the batch. None if they are."""
    found = None
    known: dict[str, tuple[int, str, int]] = {}
    for name, array in arrays.items():
        for axis, (dim, size) in enumerate(zip(types[name].shape, array.shape, strict=True)):
            if is_level(name):
                dim, size = dim - 1, size - 1
            text = str(dim)
            if isinstance(dim, int) or not SYMBOL.match(text):
                continue
            first, where, at = known.setdefault(text, (size, name, axis))
            if first != size:
                message = (
                    f"the shape of the fed variable '{name}': expected {first} on axis {axis}, "
                    f"as axis {at} of '{where}' has it, but got {size}; name the size in static.data to set it apart"
                )
                misfit = _Misfit(text, FeedError(Diagnostic(message, variables[name.partition(LOD)[0]].location, _here())))
                if not is_shared(text):
                    return misfit
                found = found or misfit
    return found


class LevelsLostError(RunError):
    """A fetched tensor with levels of detail where an array was asked for."""
