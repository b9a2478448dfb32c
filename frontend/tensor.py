"""The tensor that users hold: a numpy array in eager mode, an IR value while a function is traced, and its place on the tape.

Functions of the Paddle API become methods here through `polyreme.math`, which binds them from its table, and loads when the first of them
is used. An array behind a tensor is never written to: whatever changes a tensor gives it another array (`dispatch.assign`).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import device, dtypes
from polyreme.grad_mode import recording
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.ir.dims import Dim, Expr, UnknownSize, product
from polyreme.ir.types import TensorType, scalar_type
from polyreme.pending import Pending
from polyreme.printing import tensor_text
from polyreme.provided import CORE, provided
from polyreme.runtime.gpu.arrays import private
from polyreme.sizes import Size, plain_size
from polyreme.utils import unique_name

if TYPE_CHECKING:
    from polyreme import tape

__all__ = ["Tensor", "is_tensor"]

Array = np.ndarray[Any, Any]
_hook_ids = itertools.count()

# The capture that is going on, if one is: it must know when Python looks at the values of tensors that are not its own.
_capture: Any = None
# Who else is told of that.
_told: Callable[[Tensor, str], None] | None = None


def capturing() -> Any:
    """The capture that is going on, or None."""
    return _capture


@contextmanager
def reads_told_to(told: Callable[[Tensor, str], None]) -> Iterator[None]:
    """Tell of all reads of values inside the `with`: the tensor, and by what."""
    global _told
    before, _told = _told, told
    try:
        yield
    finally:
        _told = before


@contextmanager
def captured_by(capture: Any) -> Iterator[None]:
    """Tell `capture` of all reads of values inside the `with`: by `read(tensor, what)`, and ask it by `is_outside(tensor)`."""
    global _capture
    before, _capture = _capture, capture
    try:
        yield
    finally:
        _capture = before


class TensorHookRemoveHelper:
    """Takes a hook off again."""

    def __init__(self, hooks: dict[int, Any], key: int, forget: Callable[[], None] | None = None):
        self.hooks, self.key, self.forget = hooks, key, forget

    def __repr__(self) -> str:
        return f"TensorHookRemoveHelper({'on' if self.key in self.hooks else 'removed'})"

    def remove(self) -> bool:
        """Whether the hook was still there."""
        there = self.hooks.pop(self.key, None) is not None
        if there and self.forget is not None:
            self.forget()
        return there


class Tensor:
    """A dense array with Paddle's interface.

    `Tensor(data)` copies what `paddle.to_tensor` takes, besides a tensor, whose contents it shares: a view, as are the results of indexing
    by numbers and slices, of `reshape`, `transpose`, `detach` and others (`views.py`). What is written to a view, or to the tensor that it
    was made of, is seen in both. `stop_gradient` is True unless the tensor needs gradients.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_grad", "_hooks", "_index", "_name", "_node", "_place", "_type", "_value", "_version", "_view",
        "persistable", "stop_gradient",
    )  # fmt: skip
    # Higher than numpy's, so that `array + tensor` is left to the tensor.
    __array_priority__ = 100

    _value: Any
    _type: TensorType | None
    _place: device.Place
    _node: tape.Node | None
    _index: int
    _grad: Tensor | None
    _name: str | None
    _version: int
    _view: Any  # whose contents it shares: see `views.py`
    _hooks: dict[int, Callable[..., Any]] | None
    stop_gradient: bool
    persistable: bool

    def __init__(self, data: Any = None, dtype: Any = None, place: Any = None, stop_gradient: bool = True):
        self._reset(None, None)
        if data is None:
            self._type = TensorType((0,), dtypes.as_dtype(dtype or "float32").scalar)
        elif isinstance(data, Tensor) and type(self) is Tensor and dtype is None and place is None:
            provided.begin_with(self, data)
            self.stop_gradient = stop_gradient
        else:
            made = provided.to_tensor(data, dtype=dtype, place=place, stop_gradient=stop_gradient)
            self._value, self._type, self.stop_gradient = made._value, made._type, stop_gradient

    def _reset(self, value: Any, type: TensorType | None) -> None:
        self._value = value
        self._type = type
        self._place = device._current
        self._node = None
        self._index = 0
        self._grad = None
        self._name = None
        self._version = 0
        self._view = None
        self._hooks = None
        self.stop_gradient = True
        self.persistable = False

    @staticmethod
    def _wrap(value: Any, type: TensorType | None = None) -> Tensor:
        """A tensor around an array or IR value that nobody else writes to."""
        tensor = Tensor.__new__(Tensor)
        tensor._value = value
        tensor._type = type
        tensor._place = device._current
        tensor._node = None
        tensor._index = 0
        tensor._grad = None
        tensor._name = None
        tensor._version = 0
        tensor._view = None
        tensor._hooks = None
        tensor.stop_gradient = True
        tensor.persistable = False
        return tensor

    if TYPE_CHECKING:  # the methods that `polyreme.math` binds

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __add__
        __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = __add__
        __and__ = __or__ = __xor__ = __add__
        __invert__ = __abs__ = __neg__

    else:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and not hasattr(type(self), name):
                _load_methods()
                if hasattr(type(self), name):
                    return getattr(self, name)
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __dir__(self) -> list[str]:
        _load_methods()
        return [name for name in super().__dir__() if name.startswith("__") or not name.startswith("_")]

    # --- what it is

    @property
    def type(self) -> TensorType:
        """Shape and element type as the IR has them."""
        if self._type is None:
            value = self._value
            self._type = TensorType(value.shape, scalar_type(value.dtype)) if isinstance(value, np.ndarray) else value.type
        return self._type

    @property
    def shape(self) -> Size:
        """Sizes as a list; symbolic ones while a function is traced."""
        return Size(self.type.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.of_scalar(self.type.dtype)

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    @property
    def size(self) -> Any:
        """The number of elements."""
        return product(self.type.shape)

    @property
    def strides(self) -> list[Any]:
        """Elements between neighbours along each axis: of a view, in the tensor that it was made from."""
        return list(provided.strides(self))

    def get_strides(self) -> list[Any]:
        return self.strides

    def is_contiguous(self) -> bool:
        """Whether the elements lie row by row, which those of a transposed view do not."""
        known: bool = provided.is_contiguous(self)
        return known

    def contiguous(self) -> Tensor:
        """Itself if the elements lie row by row, else a copy."""
        if self._view is None or self.is_contiguous():
            return self
        made = self.clone()
        provided.note_copy(self, made, None)
        return made

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.type.dtype.bytes

    itemsize = property(element_size)

    @property
    def nbytes(self) -> Any:
        return self.size * self.element_size()

    @property
    def place(self) -> device.Place:
        """The device that was current when it was made, unless it was moved. Where ops compute is the current device's matter."""
        return self._place

    @property
    def name(self) -> str:
        if self._name is None:
            self._name = unique_name.generate("generated_tensor")
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def inplace_version(self) -> int:
        """How often the tensor has been changed."""
        return self._version

    def is_dense(self) -> bool:
        return True

    def is_selected_rows(self) -> bool:
        """Whether it is rows of a table, as gradients of those read with `sparse=True` are (`tensor_kinds/selected_rows.py`)."""
        return False

    def is_floating_point(self) -> bool:
        return self.type.dtype.kind == "f"

    def is_complex(self) -> bool:
        return self.type.dtype.kind == "c"

    def is_integer(self) -> bool:
        return self.type.dtype.kind in "iu"

    def _is_initialized(self) -> bool:
        return self._value is not None

    # --- its values

    def _array(self, what: str) -> Array:
        """The array behind it; a clear error where there is none, which `what` was going to read."""
        if isinstance(self._value, np.ndarray):
            if _capture is not None:
                _capture.read(self, what)
            if _told is not None:
                _told(self, what)
            return self._value
        if self._value.__class__ is Pending:
            return self._value.resolve(what)
        if self._value is None:
            raise ValueError(f"expected a tensor with contents but {what} got one that is not initialized")
        if (known := self._known()) is not None:
            return known_array(known, self.type.dtype.np, what)
        condition = "if, while, and, or, not cannot follow a tensor there; choose with paddle.where"
        way_out = condition if what == "bool()" else "keep to tensor functions there"
        raise PolyremeError(
            f"{what} expected a tensor with values but got one that has none while the function is traced: {way_out}, or do this outside "
            f"of the traced function",
            caller_location(),
            code="E0502",
        )

    def _held(self) -> Any:
        """The array behind it, computed if it is pending; what stands in its place where there is none: an IR value, or None."""
        value = self._value
        if _capture is not None and isinstance(value, np.ndarray) and _capture.is_outside(self):
            return None
        return value.resolve("a check of values") if value.__class__ is Pending else value

    def _known(self) -> Array | None:
        """Its elements as Python numbers and symbolic sizes, as far as these are known while a function is traced: a literal, or computed
        from shapes.
        """
        known: Array | None = provided.known_contents(self)
        return known

    def _size(self) -> Dim:
        """Its only element as a size."""
        known = None if isinstance(self._value, np.ndarray) else self._known()
        if known is not None and known.size == 1 and self.type.dtype.kind in "iu":
            return known.item()
        return int(self)

    def _value_text(self) -> str:
        """What stands in place of an array behind it, where eager execution meets it."""
        return "a tensor that belongs to a traced function, outside of that function; return it from there"

    def numpy(self) -> Array:
        """A copy as numpy array; bfloat16 comes as the same bits in uint16."""
        array = self._array("numpy()")
        return array.copy() if array.dtype.kind in "fiubc" else array.view(np.uint16).copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def item(self, *args: int) -> Any:
        """The only element, or the one at a place, as a Python number."""
        array = self._array("item()")
        if not args and array.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars when no input coordinates, but this one has {array.size}"
            )
        return array.item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._array("tolist()").tolist()

    def _scalar(self, kind: str) -> Any:
        array = self._array(f"{kind}()")
        if array.size != 1:
            raise AssertionError(f"only one element variable can be converted to {kind}, but this one has shape {list(self.shape)}")
        return array.item()

    def __bool__(self) -> bool:
        array = self._array("bool()")
        if array.size != 1:
            raise AssertionError("When Variable is used as the condition of if/while , Variable can only contain one element.")
        return bool(array.item())

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.type.dtype.kind not in "iub":
            raise TypeError(f"only integer tensors can be used as an index but got {self.dtype.name}")
        return int(self._scalar("int"))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise AssertionError("len() of a 0-D tensor is wrong")
        return self.type.shape[0]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-D tensor")
        count = self.type.shape[0]
        if not isinstance(count, int):
            raise PolyremeError(
                f"a loop over a tensor expected a known first size but got '{count}' in the traced function",
                caller_location(),
                code="E0502",
            )
        return (self[i] for i in range(count))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        held = self.ndim == 0 and isinstance(self._value, (np.ndarray, Pending))
        return format(self.item(), spec) if held else object.__format__(self, spec)

    def __repr__(self) -> str:
        if self._value is None:
            return "Tensor(Not initialized)"
        provided.settle(self)
        if not isinstance(self._value, np.ndarray):
            return f"Tensor(shape={list(self.shape)}, dtype={self.dtype.name}, traced)"
        return tensor_text(self._value, self.dtype.name, self.stop_gradient, self.place)

    # --- gradients

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return self._node is None and not (self._value.__class__ is Pending and self._value.needs)

    @property
    def grad(self) -> Tensor | None:
        """The gradient gathered so far."""
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"expected a Tensor or None as gradient but got {type(value).__name__}")
        shape = None if value is None else value.table_shape if value.is_selected_rows() else value.shape
        if shape is not None and shape != self.shape:
            raise ValueError(f"expected a gradient of shape {list(self.shape)} but got {list(shape)}")
        # A copy: what is done to the gradient in place is not seen in what was given, nor the other way.
        self._grad = value if value is None or value.is_selected_rows() else provided.clone(value.detach())

    def gradient(self) -> Array | tuple[Array, Array] | None:
        """The gradient as numpy array, None when there is none; values and numbers of rows where it is rows of a table."""
        held = self._grad
        if held is None or not held.is_selected_rows():
            return None if held is None else held.numpy()
        return held.numpy(), np.array(held.rows(), np.int64)


    def backward(
        self, grad_tensor: Tensor | None = None, retain_graph: bool = False, *, dump_backward_graph_path: str | None = None
    ) -> None:
        """Add gradients to the leaves this tensor was computed from, starting from `grad_tensor` or ones."""
        if dump_backward_graph_path is not None:
            raise NotImplementedError("expected dump_backward_graph_path=None: the steps on the tape are not written to files")
        if hasattr(grad_tensor, "sort_sum_gradient"):
            # The BackwardStrategy of Paddle 1, an order in which gradients are summed.
            grad_tensor = None
        provided.backward([self], [grad_tensor], retain_graph)

    def clear_gradient(self, set_to_zero: bool = True) -> None:
        """Set the gradient to zeros, or take it away with `set_to_zero=False`, and where it is rows of a table. Those who keep a gradient
        that backward() made see the zeros, but not what is added after that.
        """
        if self._grad is not None:
            provided.clear_gradient(self, set_to_zero)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        self.clear_gradient(set_to_zero)

    zero_grad = clear_grad

    def detach(self) -> Tensor:
        """The same contents without the graph: a write to either is seen in both."""
        made: Tensor = provided.detached(self)
        return made

    @property
    def data(self) -> Tensor:
        """As `detach()`; when set, the tensor shares the contents of another one from then on."""
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        provided.share(self, other)

    def detach_(self) -> Tensor:
        """Take the tensor itself out of the graph."""
        self._node, self._index, self.stop_gradient = None, 0, True
        return self

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> TensorHookRemoveHelper:
        """Call `hook(gradient)` when the gradient of this tensor is known; what it returns (unless None) goes on in its place."""
        if self.stop_gradient:
            raise RuntimeError("Cannot register hook on a tensor that stop gradient.")
        provided.stand_alone(self)
        if self._node is None:
            if self._hooks is None:
                self._hooks = {}
            hooks = self._hooks
        else:
            if self._node.hooks is None:
                self._node.hooks = {}
            hooks = self._node.hooks.setdefault(self._index, {})
        key = next(_hook_ids)
        hooks[key] = hook
        recorder = provided.active_trace()
        return TensorHookRemoveHelper(hooks, key, recorder.hook(self, hook) if recorder is not None else None)

    def retain_grads(self) -> None:
        """Keep the gradient of a tensor that is not a leaf, too."""
        if (recorder := provided.active_trace()) is not None:
            recorder.retain(self)
        provided.retain(self)

    # --- copies and changes

    def clone(self) -> Tensor:
        """A copy that gradients flow through."""
        made: Tensor = provided.clone(self)
        return made

    def set_value(self, value: Any) -> None:
        """Replace the values by those of a tensor or array of the same shape; the dtype stays."""
        new = value if isinstance(value, Tensor) else provided.to_tensor(value)
        if self._value is not None and new.shape != self.shape:
            raise ValueError(f"set_value expected shape {list(self.shape)} for '{self.name}' but got {list(new.shape)}")
        if self._value is not None and new.type.dtype != self.type.dtype:
            raise TypeError(f"set_value expected dtype {self.dtype.name} for '{self.name}' but got {new.dtype.name}")
        self._replace(new)

    def copy_(self, other: Tensor, blocking: bool = True) -> Tensor:
        """Replace the values by those of `other`."""
        self.set_value(other)
        return self

    def get_tensor(self) -> Tensor:
        return self

    def value(self) -> Tensor:
        return self

    def _replace(self, new: Tensor) -> None:
        """Take over the values of `new` without recording anything."""
        with recording(False):
            own = new.detach()
            own._value = private(own._value)
            provided.assign(self, own)

    def _put(self, array: Array) -> None:
        """Take over another array of the same type, whatever is recorded."""
        if self._view is not None:
            provided.put(self, array)
        self._value = array
        self._version += 1

    def cpu(self) -> Tensor:
        """A copy that belongs to the CPU, through which gradients flow; itself if it does."""
        return self._moved(device.CPU)

    def cuda(self, device_id: Any = None, blocking: bool = True) -> Tensor:
        """As `cpu`, for GPU 0: the current device if that is an emulated one."""
        current = device.current_place()
        return self._moved(current if current.is_gpu_place() and device_id is None else device.as_place(f"gpu:{device_id or 0}"))

    def _moved(self, place: device.Place) -> Tensor:
        if place == self._place:
            return self
        copy = self.clone()
        copy._place = place
        return copy

    def __dlpack_device__(self) -> tuple[Any, int]:
        """The kind of device that the contents lie on, and its number, as DLPack has them."""
        found: tuple[Any, int] = provided.dlpack_device(self)
        return found

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of DLPack with the contents, for one consumer; `stream` is the one that it reads them on, on a CUDA device."""
        return provided.dlpack_capsule(self, stream, max_version, dl_device, copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the contents lie on a CUDA device, for libraries that ask for it (version 3)."""
        found: dict[str, Any] = provided.cuda_interface(self)
        return found

    def pin_memory(self, blocking: bool = True) -> Tensor:
        """A copy in main memory that a GPU reads by itself, where there is one; without a GPU the tensor itself."""
        current = device.current_place()
        if self._place.kind == device.CUDAPinnedPlace.kind or not (current.is_gpu_place() or device.is_compiled_with_cuda()):
            return self
        ahead = device.copies_on(current if current.is_gpu_place() else device.as_place("gpu")).ahead()
        copy = self.clone()
        held = np.ascontiguousarray(copy._value)
        if ahead is not None and held.nbytes:
            pinned = ahead.stream.pinned(held.nbytes).view(held.dtype).reshape(held.shape)
            pinned[...] = held
            held = pinned
        copy._value, copy._place = held, device.CUDAPinnedPlace()
        return copy

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """`to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`, each with `blocking`: cast or moved; itself where neither is needed.

        `other` is a tensor, whose dtype and place the result has. All of them may be given by name.
        """
        unknown = set(kwargs) - {"device", "dtype", "other", "blocking", "copy_tensor", "non_blocking"}
        if unknown:
            raise TypeError(f"to() got an unexpected keyword argument {min(unknown)!r}")
        if not args and not kwargs.keys() - {"blocking", "copy_tensor", "non_blocking"}:
            raise TypeError("to() expected a dtype, a device or another tensor but got none")
        dtype, where, other = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("other")
        for argument in args[:2]:
            if isinstance(argument, Tensor):
                other = argument
            elif isinstance(argument, device.Place) or isinstance(argument, str) and argument not in dtypes.DTYPES:
                where = argument
            elif argument is not None and not isinstance(argument, bool):
                dtype = argument
        if other is not None and dtype is None and where is None:
            dtype, where = other.dtype, other._place
        place = self._place if where is None else device.as_place(where)
        cast = self if dtype is None or dtypes.as_dtype(dtype) is self.dtype else self.astype(dtype)
        return cast._moved(place)

    def __copy__(self) -> Tensor:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        provided.settle(self)
        if self._node is not None:
            raise RuntimeError(
                "Only Leaf Tensor support the deepcopy at the moment, non-Leaf Tensors contains graph information that does't support "
                "deepcopy"
            )
        twin = self.__class__.__new__(self.__class__)
        memo[id(self)] = twin
        twin._reset(private(self._value), self._type)
        twin._place = self._place
        twin.stop_gradient, twin.persistable = self.stop_gradient, self.persistable
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        twin._name = self._name and self._name + unique_name.generate("_deepcopy")
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.numpy(), self.dtype.name, self._name, self.stop_gradient, self.persistable, self.__dict__)


def rebuild(
    cls: type[Tensor], array: Array, dtype: str, name: str | None, stop_gradient: bool, persistable: bool, extra: dict[str, Any]
) -> Tensor:
    """A tensor out of what `__reduce__` gave."""
    tensor = cls.__new__(cls)
    tensor._reset(array.view(dtypes.as_dtype(dtype).np), None)
    tensor._name, tensor.stop_gradient, tensor.persistable = name, stop_gradient, persistable
    tensor.__dict__.update(extra)
    return tensor


def _load_methods() -> None:
    """Have `polyreme.math` bind its functions as methods."""
    import_module(CORE)


def _late(name: str) -> Callable[..., Any]:
    """The method for an operator of Python's until `polyreme.math` binds its own: Python looks for them in the class, never by
    `__getattr__`.
    """

    def apply(self: Tensor, *args: Any) -> Any:
        _load_methods()
        return getattr(self, name)(*args)

    return apply


_PAIRS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
for _name in (
    *_PAIRS,
    *(f"r{name}" for name in _PAIRS),
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "invert",
    "neg",
    "pos",
    "abs",
    "getitem",
    "setitem",
):
    setattr(Tensor, f"__{_name}__", _late(f"__{_name}__"))


def known_array(known: Array, dtype: Any, what: str) -> Array:
    """Known elements as an array of a type; symbolic sizes among them are an `UnknownSize`."""
    sizes = [v for v in known.reshape(-1) if isinstance(v, Expr)]
    if sizes:
        raise UnknownSize(f"{what} expected a known size but got the symbolic size '{sizes[0]}'", *sizes)
    return known.astype(dtype)


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor."""
    return isinstance(x, Tensor)


def shape_dims(shape: Any) -> tuple[Dim, ...]:
    """A shape argument as sizes: an int, a list of ints, sizes or 0-D tensors, or a 1-D integer tensor."""
    if isinstance(shape, Tensor):
        known = shape._known() if not isinstance(shape._value, np.ndarray) else None
        return tuple(np.atleast_1d(known).tolist()) if known is not None else tuple(int(n) for n in np.atleast_1d(shape._array("a shape")))
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    return tuple(d._size() if isinstance(d, Tensor) else int(d) if isinstance(d, np.integer) else plain_size(d) for d in shape)


_ARRAYS = ("array_length", "array_read", "array_write", "create_array")


def __getattr__(name: str) -> Any:
    """Functions that Paddle has in `paddle.tensor`: those of tensor arrays, and all that work on tensors."""
    if name.startswith("_"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    value = globals()[name] = getattr(import_module("polyreme.static.api.arrays" if name in _ARRAYS else CORE), name)
    return value
