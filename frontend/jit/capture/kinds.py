"""What the capture of a function knows through and through: kinds of values, built-ins that look at nothing but their arguments, functions
of the framework.

Whatever stands in no table here is not understood, and ends a capture: the tables may be short, but what is in them must be so.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import math
import operator
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from polyreme import device, dtypes
from polyreme.ir.dims import Expr
from polyreme.nn.layer import Layer
from polyreme.nn.tables import Table
from polyreme.sizes import Size
from polyreme.tensor import Tensor


class Kind:
    """A set of types, for quick checks."""

    def __init__(self, *kinds: type):
        self.kinds = frozenset(kinds)

    def __contains__(self, kind: type) -> bool:
        return kind in self.kinds


MISSING = object()
CONSTANTS = Kind(bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), slice, range)
# Classes of the user's that are one of these may have properties and methods besides.
PLAIN_VALUES = (bool, int, float, complex, str, bytes, tuple)
LISTS = Kind(list, dict, set, collections.OrderedDict, collections.deque, Table)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
# What may be compared, added and tested without running anybody's Python.
SAFE = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), slice, range, tuple, list, dict, set, frozenset,
    collections.OrderedDict, collections.deque, Size, Expr,
    dtypes.dtype, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.GeneratorType, Tensor, Layer, np.generic,
    np.dtype, device.Place,
)  # fmt: skip
VIEWS: tuple[type, ...] = (
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    type(collections.OrderedDict().keys()),
    type(collections.OrderedDict().values()),
    type(collections.OrderedDict().items()),
)
ITERATORS: tuple[type, ...] = (
    types.GeneratorType, zip, enumerate, map, filter, reversed, itertools.chain, itertools.product, itertools.islice, itertools.repeat,
    itertools.accumulate, itertools.count,
    itertools.combinations, itertools.permutations, itertools.zip_longest, itertools.starmap, itertools.takewhile,
    type(iter([])), type(iter(())), type(iter({})), type(iter({}.values())), type(iter({}.items())), type(iter(range(0))), type(iter("")),
    type(reversed([])),
    type(iter(set())), type(iter(collections.OrderedDict())),
)  # fmt: skip
PURE = frozenset({
    abs, all, any, bin, callable, chr, divmod, format, hash, hex, isinstance, issubclass, iter, len, max, min, next, oct, ord, pow, repr,
    round, sorted, sum, ascii,
    *(f for f in vars(math).values() if callable(f)), functools.reduce,
    # By their own names: some have a second one, with underscores.
    *(
        f for f in vars(operator).values()
        if callable(f) and not f.__name__.startswith("i") and f.__name__ not in ("setitem", "delitem", "call", "attrgetter", "methodcaller")
    ),
})  # fmt: skip
MAKERS = frozenset({
    bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range, enumerate, zip, reversed, slice, map, filter, object,
    type,
    collections.OrderedDict, collections.deque, collections.Counter, collections.defaultdict, itertools.chain, itertools.product,
    itertools.islice, itertools.repeat,
    itertools.accumulate, itertools.count, itertools.combinations, itertools.permutations, itertools.zip_longest, functools.partial,
})  # fmt: skip
# Functions of NumPy that look at nothing but their arguments, and write to none but `out`; its ufuncs are known besides.
ARRAY_FUNCTIONS = frozenset("numpy." + name for name in (
    "all allclose amax amin any append arange argmax argmin argpartition argsort argwhere around array array_equal array_split "
    "asarray ascontiguousarray atleast_1d atleast_2d atleast_3d average bincount broadcast_to clip column_stack concatenate "
    "corrcoef count_nonzero cov cross cumprod cumsum delete diag diagonal diff digitize dot dstack ediff1d einsum expand_dims eye "
    "flatnonzero flip fliplr flipud full full_like gradient hanning hamming histogram hsplit hstack identity imag in1d indices "
    "inner insert interp intersect1d isclose isin isscalar iscomplex isreal kron lexsort linspace logspace matmul max mean median "
    "meshgrid min moveaxis nan_to_num nanargmax nanargmin nanmax nanmean nanmedian nanmin nanstd nansum nanvar ndim nonzero ones "
    "ones_like outer pad partition percentile permute_dims prod ptp quantile ravel real repeat reshape result_type roll rollaxis "
    "rot90 round searchsorted select setdiff1d shape size sort split squeeze stack std sum swapaxes take take_along_axis tensordot "
    "tile trace transpose tri tril triu tril_indices triu_indices union1d unique unravel_index unwrap vander var vdot vsplit "
    "vstack where zeros zeros_like linalg.norm linalg.inv linalg.det linalg.solve linalg.svd linalg.eigh linalg.qr linalg.cholesky "
    "linalg.lstsq linalg.pinv"
).split())  # fmt: skip
# Methods of arrays that write to nothing, with how many arguments they take by place before one to write to; None where there is none.
ARRAY_METHODS: dict[str, int | None] = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "choose", "compress", "dot", "round"), 1),
    **dict.fromkeys(("clip", "cumprod", "cumsum", "max", "mean", "min", "prod", "ptp", "std", "sum", "take", "var"), 2),
    "trace": 4,
    **dict.fromkeys(
        ("argpartition", "argsort", "astype", "conj", "conjugate", "copy", "diagonal", "flatten", "is_integer", "item", "nonzero", "ravel",
         "repeat", "reshape", "searchsorted", "squeeze", "swapaxes", "tolist", "transpose", "view")
    ),
}  # fmt: skip
READERS = {
    list: {"copy", "count", "index"},
    dict: {"copy", "get", "items", "keys", "values"},
    set: {"copy", "difference", "intersection", "isdisjoint", "issubset", "issuperset", "symmetric_difference", "union"},
    collections.deque: {"copy", "count", "index"},
}
WRITERS = {
    list: {"append": False, "extend": False, "insert": False, "clear": False, "pop": True, "remove": True, "reverse": True, "sort": True},
    dict: {"update": False, "clear": False, "pop": True, "popitem": True, "setdefault": True},
    set: {"add": False, "clear": False, "discard": False, "update": False, "remove": True, "pop": True},
    collections.deque: {"append": False, "appendleft": False, "extend": False, "clear": False, "pop": True, "popleft": True},
}
TENSOR_ATTRIBUTES = frozenset(
    {"T", "mT", "dtype", "itemsize", "nbytes", "ndim", "place", "shape", "size", "stop_gradient", "strides", "trainable", "type"}
)
# Methods that read values, or that change what is no value: gradients, hooks.
TENSOR_REFUSED = frozenset({
    "cpu", "cuda", "get_tensor", "gradient", "register_hook", "requires_grad_", "retain_grads", "to", "value",
})  # fmt: skip
LAYER_READERS = frozenset({
    "__contains__", "__getitem__", "__iter__", "__len__", "buffers", "children", "extra_repr", "full_name", "items", "keys",
    "named_buffers", "named_children", "named_parameters",
    "named_sublayers", "parameters", "sublayers", "values",
})  # fmt: skip
# Functions of the framework that look at their arguments and nothing else, by module.
TRUSTED = (
    "polyreme.math",
    "polyreme.nn.functional",
    "polyreme.tensor",
    "polyreme.grad_mode",
    "polyreme.amp.regions",
    "polyreme.fft",
    "polyreme.signal",
    "polyreme.vision.ops",
    "polyreme.boxes",
    "polyreme.linalg",
    "polyreme.metric",
    "polyreme.sizes",
    "polyreme.dtypes",
    "polyreme.utils.structures",
    "polyreme.from_data",
    "polyreme.fluid.layers.elementwise",
    "polyreme.fluid.layers.images",
    "polyreme.fluid.layers.loss",
    "polyreme.fluid.layers.metric_op",
    "polyreme.fluid.layers.nn",
    "polyreme.fluid.layers.ops",
    "polyreme.fluid.layers.tensor",
)
# Functions that make branches and loops of functions, or run these twice.
FLOW = ("polyreme.control_flow", "polyreme.static.control_flow", "polyreme.distributed.fleet.recompute")
HOOKS = ("_forward_pre_hooks", "_forward_post_hooks")


def module_name(value: Any) -> str:
    return getattr(value, "__module__", None) or ""


def is_ours(value: Any) -> bool:
    """Whether a function or class is the framework's."""
    return module_name(value).split(".")[0] == "polyreme"


def is_enumeration(value: Any) -> bool:
    """Whether a value is a member of an enumeration."""
    return isinstance(value, enum.Enum)


def module_of(function: Any) -> str:
    """The module of a built-in."""
    return getattr(function, "__module__", None) or type(function).__module__ or ""


def has_free_size(value: Any) -> bool:
    """Whether there is a free size in a value, or in a list, tuple, slice or range of such: Python has a number there."""
    if isinstance(value, (slice, range)):
        return any(isinstance(part, Expr) for part in (value.start, value.stop, value.step))
    return isinstance(value, Expr) or isinstance(value, (list, tuple)) and any(map(has_free_size, value))


def flat(values: Iterable[Any]) -> Iterable[Any]:
    """The elements of nested lists and tuples."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        else:
            yield value


# Special methods that copy, show or make an object; the others are called by operators and built-ins.
_NOT_OPERATORS = frozenset({
    "__new__", "__init__", "__init_subclass__", "__class_getitem__", "__repr__", "__getnewargs__", "__getnewargs_ex__", "__reduce__",
    "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__", "__replace__", "__dir__", "__sizeof__",
})  # fmt: skip


def has_operators(kind: type) -> bool:
    """Whether a class, or one that it is made of, has special methods that the user has written, which operators and built-ins call."""
    return any(
        isinstance(value, types.FunctionType) and name[:2] == name[-2:] == "__" and name not in _NOT_OPERATORS and _is_of_the_user(value)
        for base in kind.__mro__
        for name, value in vars(base).items()
    )


def _is_of_the_user(function: types.FunctionType) -> bool:
    root = module_name(function).split(".")[0]
    return root == "__main__" or root not in sys.stdlib_module_names and not is_ours(function)


def is_made_by_python(kind: type) -> bool:
    """Whether the instances of a class of named tuples are made of their fields as they are."""
    return all(base.__new__.__code__.co_filename == "<string>" for base in kind.__mro__ if isinstance(vars(base).get("__new__"), _PYTHON))


_PYTHON = (types.FunctionType, staticmethod)


def lookup(kind: type, name: str) -> tuple[Any, type]:
    """What a class has under a name, as it stands there, and which of its bases has it."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name], base
    return MISSING, kind
