"""Arrays, and numbers, of NumPy's that may have other elements at each call: those that a function is given, and those outside that have
changed.

Such a `ChangingArray` is an array to whoever looks at it. What NumPy computes of it is computed by NumPy before the program runs, exactly
as ever; where it meets a tensor it is an argument of the program, by the rules by which eager mode makes a tensor of it. Its shape and
dtype are guarded where they matter, and so is what its elements decide. Whoever writes to it ends the capture.
"""

from __future__ import annotations

import collections
import inspect
import operator as python
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.from_data import array_of
from polyreme.ir.dims import Dim, Expr, UnknownSize, product
from polyreme.ir.types import ScalarType
from polyreme.jit.capture import changing
from polyreme.jit.capture.kinds import ARRAY_FUNCTIONS, ARRAY_METHODS, CONSTANTS, PURE, flat
from polyreme.jit.capture.sources import FunctionOf, Item, Source
from polyreme.jit.capture.watched import Changing, ChangingArray, ChangingNumber, NotWhole, Watched
from polyreme.math.operators import as_factor, python_number
from polyreme.sizes import Size
from polyreme.tensor import Tensor

__all__ = [
    "ArrayMethod", "as_tensor", "attribute", "call_function", "call_method", "check_known", "computed", "item", "key_of", "length", "meets",
    "of_known", "operator", "rows", "shape_of",
]  # fmt: skip

MOST_ROWS = 256  # of an array that Python goes through
MOST_PINNED = 256  # bytes of one whose elements a function that is not watched looks at


class _Watches(Protocol):
    state: Watched

    def operator(self, name: str, *operands: Any) -> Any: ...


class ArrayMethod:
    """A method of an array, which is called next."""

    __slots__ = ("array", "name")

    def __init__(self, array: Any, name: str):
        self.array = array
        self.name = name


def meets(values: Any) -> bool:
    """Whether there is a `ChangingArray` among values, or in lists, tuples, dicts and slices of them."""
    if isinstance(values, dict):
        return meets(list(values.values()))
    if isinstance(values, slice):
        values = values.start, values.stop, values.step
    return type(values) is ChangingArray or isinstance(values, (list, tuple)) and any(map(meets, values))


# --- what NumPy computes


def computed(state: Watched, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function`, which looks at nothing but its arguments and writes to none: computed before each run."""
    parts: list[Any] = []
    made = _Application(function, _packed(state, args, parts, True), _packed(state, kwargs, parts, True))
    value = made(*[part.value for part in parts])
    free = tuple(dict.fromkeys(size for part in parts if type(part) is ChangingArray for size in part.free))
    return _taken(state, value, FunctionOf(made, tuple([part.source for part in parts])), free)


def _taken(state: Watched, value: Any, source: Source, free: tuple[Dim, ...]) -> Any:
    """What was computed, as who asked for it has it at each call."""
    kind = type(value)
    if kind in (np.ndarray, np.memmap) or isinstance(value, np.generic) and value.dtype.kind in "biufc":
        made = state.changing_array(value, source, free=free if value.ndim else ())
        state.guard(source, "{0}.__class__ is {1}", kind, message=f"is a {kind.__name__}")
        return made
    if kind in (int, float):
        return state.take(value, source, changes=True)
    if kind in CONSTANTS:
        return state.note(value, source)
    if kind in (tuple, list) and len(value) <= MOST_ROWS:
        _check_sizes(free)
        state.guard(source, "{0}.__class__ is {1} and len({0}) == {2}", kind, len(value), message=f"is a {kind.__name__} of {len(value)}")
        return kind([_taken(state, part, Item(source, i), free) for i, part in enumerate(value)])
    raise NotWhole(f"NumPy gives a {kind.__name__}")


class _Application:
    """A function of some values at sources, whose other arguments are always the same."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any):
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def __call__(self, *values: Any) -> Any:
        return self.function(*_unpacked(self.args, values), **_unpacked(self.kwargs, values))


class _Place(int):
    """Which of the values at sources."""


def _packed(state: Watched, value: Any, parts: list[Any], copies: bool) -> Any:
    """An argument of an `_Application`: what is another one at each call is a place, what is always the same a copy."""
    kind = type(value)
    if kind in (ChangingArray, ChangingNumber):
        parts.append(value)
        return _Place(len(parts) - 1)
    if isinstance(value, Tensor):
        raise NotWhole("NumPy is given a tensor")
    if isinstance(value, Expr):
        _check_sizes((value,))
    if kind is slice:
        return slice(*[_packed(state, part, parts, copies) for part in (value.start, value.stop, value.step)])
    if kind in (list, tuple, dict):
        state.expand(value)
        if kind is dict:
            return {key: _packed(state, part, parts, copies) for key, part in value.items()}
        return kind([_packed(state, part, parts, copies) for part in value])
    if kind in (np.ndarray, np.memmap) and not value.dtype.hasobject:
        return value.copy("K") if copies else value
    if kind in CONSTANTS or isinstance(value, (np.generic, np.dtype, type)):
        return value
    raise NotWhole(f"NumPy is given a {kind.__name__}")


def _unpacked(value: Any, values: Sequence[Any]) -> Any:
    kind = type(value)
    if kind is _Place:
        return values[value]
    if kind is slice:
        return slice(*[_unpacked(part, values) for part in (value.start, value.stop, value.step)])
    if kind is dict:
        return {key: _unpacked(part, values) for key, part in value.items()}
    if kind in (list, tuple):
        return kind([_unpacked(part, values) for part in value])
    return value


def _check_sizes(sizes: Sequence[Dim]) -> None:
    """NumPy, and Python beside it, need numbers."""
    free = [size for size in sizes if isinstance(size, Expr)]
    if free:
        raise UnknownSize(f"expected known sizes but got {', '.join(map(repr, map(str, free)))}: NumPy computes with them", *free)


# --- what is known of an array


def shape_of(state: Watched, array: ChangingArray) -> tuple[Dim, ...]:
    """The shape, which is guarded from here on. Sizes of an argument that were others at another call are free."""
    if array.tensor is not None:
        return tuple(array.tensor.type.shape)
    value = array.value
    if isinstance(value, np.ndarray):
        _check_sizes(array.free)
        if ("array", id(array)) not in state.read:
            state.read["array", id(array)] = array
            test = "{0}.dtype == {1} and {0}.shape == {2}"
            state.guard(array.source, test, value.dtype, value.shape, message=f"is an array of {value.dtype} {list(value.shape)}")
    return tuple(value.shape)


def length(state: Watched, array: ChangingArray) -> Dim:
    """`len(array)`."""
    shape = shape_of(state, array)
    return shape[0] if shape else len(array.value)  # which says what is amiss


def rows(state: Watched, array: ChangingArray) -> list[Any]:
    """What a loop over the array goes over."""
    count = length(state, array)
    _check_sizes((count,))
    if not isinstance(count, int) or count > MOST_ROWS:
        raise NotWhole(f"an array of {count} rows is gone through")
    return [computed(state, python.getitem, array, i) for i in range(count)]


def attribute(state: Watched, array: ChangingArray, name: str) -> Any:
    """`array.name`."""
    value = array.value
    if name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
        shape = shape_of(state, array)
        if name in ("size", "nbytes"):
            return product(shape) * (value.itemsize if name == "nbytes" else 1)
        return shape if name == "shape" else getattr(value, name)
    if name in ("T", "mT", "real", "imag"):
        return computed(state, getattr, array, name)
    if name in ARRAY_METHODS:
        return ArrayMethod(array, name)
    getattr(value, name)  # which says what is amiss
    raise NotWhole(f"'{name}' of an array is used")


def item(state: Watched, held: Any, key: Any) -> Any:
    """`held[key]`, of which one at least is a `ChangingArray`, and none a tensor."""
    return computed(state, python.getitem, held, key)


def call_method(state: Watched, method: ArrayMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method that gives something new, or a view."""
    most = ARRAY_METHODS[method.name]
    if "out" in kwargs or most is not None and len(args) > most:
        raise NotWhole(f"'numpy.ndarray.{method.name}' writes to an array")
    if type(method.array) is ChangingArray or meets([args, kwargs]) or _has_numbers([args, kwargs]):
        return computed(state, _method, method.array, method.name, *args, **kwargs)
    return of_known(state, _method, (method.array, method.name, *args), kwargs)


def _method(array: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(array, name)(*args, **kwargs)


def call_function(state: Watched, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy's that looks at nothing but its arguments, and writes to none of them."""
    name = getattr(function, "__name__", "")
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy").strip(".")
    said = f"numpy.{module}.{name}" if module else f"numpy.{name}"
    is_ufunc = isinstance(function, np.ufunc) and getattr(np, name, None) is function
    if not is_ufunc and not (said in ARRAY_FUNCTIONS and module in ("", "linalg")):
        raise NotWhole(f"'{said}' is called")
    if _writes(function, is_ufunc, args, kwargs):
        raise NotWhole(f"'{said}' writes to an array")
    if any(isinstance(value, Tensor) for value in flat([args, list(kwargs.values())])):
        raise NotWhole(f"'{said}' of a tensor")
    if meets([args, kwargs]) or _has_numbers([args, kwargs]):
        return computed(state, function, *args, **kwargs)
    return of_known(state, function, args, kwargs)


def _writes(function: Any, is_ufunc: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether it is given an array to write to, or is to write to its argument."""
    if kwargs.get("out") is not None:
        return True
    if is_ufunc:
        return len(args) > function.nin
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except ValueError:  # it has none that can be read
        return len(args) > 2
    except TypeError:
        return False  # it says itself what is amiss
    if given.get("out") is not None or given.get("overwrite_input", False) is not False:
        return True
    return function is np.nan_to_num and given.get("copy", True) is not True


def _has_numbers(values: Any) -> bool:
    if isinstance(values, dict):
        values = list(values.values())
    return any(type(value) is ChangingNumber or isinstance(value, dict) and _has_numbers(value) for value in flat(values))


def of_known(state: Watched, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy gives of arrays with the same elements at each call. It may see those of one outside."""
    for value in (*args, *kwargs.values()):
        check_known(state, value)
    value = function(*args, **kwargs)
    return seen(state, value, function, args, kwargs)


def check_known(state: Watched, value: Any) -> None:
    """NumPy asks objects of other classes for what it needs, by methods and functions of theirs that nobody watches."""
    kind = type(value)
    if kind in (list, tuple, dict, set, collections.deque, collections.OrderedDict, Size):
        state.expand(value)
        for part in value.values() if isinstance(value, dict) else value:
            check_known(state, part)
    elif isinstance(value, slice):
        for part in (value.start, value.stop, value.step):
            check_known(state, part)
    elif not (
        kind in CONSTANTS
        or isinstance(value, (np.generic, np.dtype, Expr))
        or isinstance(value, np.ndarray) and not value.dtype.hasobject
        or isinstance(value, type) and (issubclass(value, np.generic) or value in (bool, int, float, complex, str, bytes, object))
    ):
        raise NotWhole(f"NumPy is given a {kind.__name__}")


def seen(state: Watched, value: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A value that `function` has given of arrays whose elements are guarded. Where it sees the elements of one outside it is outside, too.
    """
    if isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            seen(state, part, lambda *a, i=i, **k: function(*a, **k)[i], args, kwargs)
        return value
    if not isinstance(value, np.ndarray) or state.is_outside(value):
        return value
    behind = [v for v in flat([args, list(kwargs.values())]) if isinstance(v, np.ndarray) and state.is_outside(v)]
    if any(np.may_share_memory(value, array) for array in behind):
        named = [state.sources[id(array)] for array in behind]

        def again(*arrays: Any) -> Any:
            given = {id(old): new for old, new in zip(behind, arrays, strict=True)}
            return function(*[given.get(id(v), v) for v in args], **{name: given.get(id(v), v) for name, v in kwargs.items()})

        state.register(value, FunctionOf(again, tuple(named)))
    return value


# --- where an array meets a tensor


def as_tensor(state: Watched, array: ChangingArray, wanted: ScalarType | None = None) -> Tensor:
    """What `to_tensor(array, wanted)` makes of it, as an argument of the program."""
    given = array.tensor
    if given is not None and (wanted is None or given.type.dtype == wanted):
        return given
    if given is not None and not given.type.is_static and _is_exact(given.type.dtype, wanted):
        return dispatch.call(ops.Cast, given, dtype=wanted)
    shape_of(state, array)
    if array.value.dtype.kind not in "biufc" and array.value.dtype.name != "bfloat16":
        raise NotWhole(f"a tensor is made of an array of {array.value.dtype}")
    key = id(array), wanted
    if key not in state.number_tensors:
        make = partial(_tensor_of, wanted=wanted)
        state.number_tensors[key] = state.note(make(array.value), FunctionOf(make, (array.source,)))
    return state.number_tensors[key]


def _tensor_of(value: Any, wanted: ScalarType | None) -> Tensor:
    return Tensor._wrap(array_of(value, None if wanted is None else as_dtype(wanted)))


def _is_exact(given: ScalarType, wanted: Any) -> bool:
    """Whether a cast loses nothing that depends on who makes it."""
    return given.kind == wanted.kind and given.bits <= wanted.bits or given.kind == "f" == wanted.kind or given.kind == "b"


def key_of(state: Watched, key: Any) -> Any:
    """A key for a tensor, with tensors in place of arrays: what they select, eager mode copies for both."""
    if type(key) is tuple:
        return tuple([key_of(state, part) for part in key])
    if type(key) is ChangingArray:
        if not shape_of(state, key) or key.value.dtype.kind not in "bi" or not key.value.size:
            raise NotWhole("an array of one position, or of none, is a key")
        return as_tensor(state, key)
    return key


def pinned(state: Watched, array: ChangingArray) -> Any:
    """An array that a function looks at which is not watched: of a few elements, it is the same at each call from here on."""
    if isinstance(array.value, np.generic) or array.value.nbytes <= MOST_PINNED:
        return state.note(array.value, array.source)
    raise NotWhole("an array is handed to a function that is not watched")


def operator(watch: _Watches, name: str, operands: tuple[Any, ...]) -> Any:
    """An operator of Python's on operands of which one at least is a `ChangingArray`."""
    state = watch.state
    first = operands[0]
    if name[0] == "i" and name != "invert" and len(operands) == 2 and not isinstance(first, (Tensor, np.generic, int, float, complex)):
        if type(first) is not ChangingArray or isinstance(first.value, np.ndarray):
            raise NotWhole(f"{'an array' if type(first) is ChangingArray else f'a {type(first).__name__}'} is changed by an operator")
    if len(operands) == 2 and any(isinstance(value, Tensor) for value in operands):
        return _meeting(watch, name, operands)
    if isinstance(first, (str, bytes)):
        raise NotWhole("the text of an array is asked for")
    return computed(state, getattr(python, name), *operands)


def _meeting(watch: _Watches, name: str, operands: tuple[Any, ...]) -> Any:
    """An operator on a tensor and an array or number of NumPy's."""
    state = watch.state
    first, second = operands
    array, tensor = (first, second) if type(first) is ChangingArray else (second, first)
    if isinstance(array.value, np.generic):
        kind = next((kind for kind in (float, complex) if isinstance(array.value, kind)), None)
        symbol = "/" if name in ("truediv", "itruediv") else ""
        to_number = partial(python_number, kind=tensor.type.dtype.kind, symbol=symbol) if kind is None else kind
        number = computed(state, to_number, array)
        given = tuple([number if value is array else value for value in operands])
        return changing.operator(watch, name, given) if isinstance(number, Changing) else watch.operator(name, *given)
    met = as_tensor(state, array)
    if name in ("matmul", "imatmul"):
        met = as_factor(met, tensor)
    return getattr(python, name)(*(met if value is array else value for value in operands))


def call_pure(state: Watched, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A built-in that computes with arrays or numbers of NumPy's: `abs`, `sum`, `math.sqrt`."""
    if function not in PURE or function in (iter, next, callable, format, hash, repr, ascii):
        raise NotWhole(f"'{getattr(function, '__name__', function)}' of an array is called")
    return computed(state, function, *args, **kwargs)
