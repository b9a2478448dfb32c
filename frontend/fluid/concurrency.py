"""Go blocks and channels, with Go's meaning: `fluid.Go`, `make_channel`, `channel_send`, `channel_recv`, `channel_close`, `Select`.

A Go block runs in a thread of its own while the program goes on. When the program has come to its end, Go blocks go on until they end, or
wait; then the run is over. If all wait before, the run ends in an error that names the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from polyreme import dtypes
from polyreme.fluid.core import VarDesc
from polyreme.fluid.framework import default_main_program, variables_of
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.names import listed
from polyreme.static.concurrency.kinds import channel_dtype
from polyreme.static.nested.uses import names_from_outside
from polyreme.static.variable import Variable
from polyreme.tensor import Tensor

__all__ = ["Go", "Select", "channel_close", "channel_recv", "channel_send", "make_channel"]


def make_channel(dtype: Any, capacity: int = 0) -> Variable:
    """A channel for tensors of one dtype, by its name; `VarType.LOD_TENSOR` lets all through. Each run of the program makes it anew.

    It holds so many tensors; with `capacity` 0 a sender waits until its tensor is received.
    """
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 0:
        raise ValueError(f"expected a capacity of at least 0 but got {capacity!r}")
    name = "" if dtype == VarDesc.VarType.LOD_TENSOR else dtypes.as_dtype(dtype).name
    helper = LayerHelper("channel_create")
    made: Variable = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    helper.append_op("channel_create", {}, {"Out": made}, {"data_type": name, "capacity": capacity})
    return made


def _channel(channel: Any) -> Variable:
    if not isinstance(channel, Variable):
        raise TypeError(f"expected a channel, as make_channel gives it, but got {type(channel).__name__}")
    return channel


def _sent(channel: Variable, value: Any) -> Variable:
    """The variable to send, of a variable or a number."""
    if isinstance(value, Tensor):
        return variables_of(value)[0]
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"expected a variable or a number to send but got {type(value).__name__}")
    made: Variable = LayerHelper("channel_send").constant([1], channel_dtype(channel) or "float32", value)
    return made


def _received(channel: Variable, return_value: Any) -> Variable:
    """The variable to receive into, of a variable or a dtype. One without a shape gets that of what is sent to the channel."""
    if isinstance(return_value, Tensor):
        (variable,) = variables_of(return_value)
    else:
        variable = LayerHelper("channel_recv").create_variable_for_type_inference(dtypes.as_dtype(return_value), stop_gradient=True)
    if not variable.has_shape:
        kind = _type_sent(channel)
        shape = (1,) if kind is None else kind.shape
        typed = LayerHelper("channel_recv").constant([1], variable.dtype, 0).type if kind is None else kind
        variable.set_type(typed.with_shape(shape))
    return variable


def _type_sent(channel: Variable) -> Any:
    for block in channel.block.program.blocks:
        for op in block.ops:
            if op.type == "channel_send" and channel.name in op.inputs["Channel"]:
                return block.var_recursive(op.inputs["X"][0]).type
    return None


def channel_send(channel: Any, value: Any, is_copy: bool = False) -> Variable:
    """Send a variable, or a number, to a channel; a bool variable that says whether it was sent. It waits until there is room, or somebody
    to receive. One to a closed channel is an error.

    What is received is what the variable held when it was sent. Paddle takes it away from the sender unless `is_copy` is set; here it
    keeps its value either way.
    """
    helper = LayerHelper("channel_send")
    given = _sent(_channel(channel), value)
    status: Variable = helper.create_variable_for_type_inference("bool", stop_gradient=True)
    helper.append_op("channel_send", {"Channel": channel, "X": given}, {"Status": status})
    return status


def channel_recv(channel: Any, return_value: Any) -> tuple[Variable, Variable]:
    """Receive from a channel into the variable `return_value` (or a new one, of the dtype of that name): it, and a bool variable that says
    whether there was something. It waits until there is, or the channel is closed: then the value is 0.
    """
    helper = LayerHelper("channel_recv")
    out = _received(_channel(channel), return_value)
    status: Variable = helper.create_variable_for_type_inference("bool", stop_gradient=True)
    helper.append_op("channel_recv", {"Channel": channel}, {"Out": out, "Status": status})
    return out, status


def channel_close(channel: Any) -> None:
    """Close a channel: what it holds can be received still, and who waits for more gets nothing. Closing twice is an error."""
    LayerHelper("channel_close").append_op("channel_close", {"Channel": _channel(channel)}, {})


@contextmanager
def _new_block() -> Iterator[Any]:
    """A block that functions append to inside the `with`."""
    program = default_main_program()
    before = program.current_block_idx
    block = program.create_block()
    try:
        yield block
    finally:
        program.current_block_idx = before


class Go:
    """`with fluid.Go():` the operators inside run in a thread of their own, from here on.

    A variable from outside that nobody writes meanwhile has the value that it has here; others are shared: who reads one gets what was
    written last. Random operators are an error inside.
    """

    def __init__(self, name: str | None = None):
        self.name = name

    def __enter__(self) -> Go:
        self._inside = _new_block()
        self._block = self._inside.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._inside.__exit__(kind, error, trace)
        if kind is None:
            reads, _ = names_from_outside(self._block)
            block = default_main_program().current_block()
            block.append_op("go", {"X": reads}, {}, {"sub_block": self._block})


class Select:
    """`with fluid.Select() as select:` does one of its cases, one that can be done, and then what is in that case's block.

    Of several that can be done any is chosen. If none can, the default is; without one it waits.
    """

    def __init__(self, name: str | None = None):
        self.name = name
        self._cases: list[tuple[str, Variable, Variable, Any]] = []
        self._default: Any = None
        self._open = False

    def __enter__(self) -> Select:
        self._program = default_main_program()
        self._open = True
        return self

    @contextmanager
    def case(self, channel_action_fn: Callable[..., Any], channel: Any, value: Any, is_copy: bool = False) -> Iterator[None]:
        """To send `value` to `channel` (`channel_action_fn` is `fluid.channel_send`), or to receive from it into `value`
        (`fluid.channel_recv`), and the operators inside of the `with`.
        """
        self._check_open()
        if channel_action_fn not in (channel_send, channel_recv):
            raise ValueError("expected fluid.channel_send or fluid.channel_recv as the action of a case")
        sends = channel_action_fn is channel_send
        variable = _sent(_channel(channel), value) if sends else _received(_channel(channel), value)
        with _new_block() as block:
            yield
        self._cases.append(("send" if sends else "recv", channel, variable, block))

    @contextmanager
    def default(self) -> Iterator[None]:
        """The operators inside of the `with` run if no case can be done."""
        self._check_open()
        if self._default is not None:
            raise ValueError("expected one default of a Select but got two")
        with _new_block() as block:
            yield
        self._default = block

    def _check_open(self) -> None:
        if not self._open:
            raise ValueError("expected cases inside of `with fluid.Select() as select:`")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open = False
        if kind is not None:
            return
        helper = LayerHelper("select")
        chosen = helper.create_variable_for_type_inference("int32", stop_gradient=True)
        received = [variable for case, _, variable, _ in self._cases if case == "recv"]
        if len({v.name for v in received}) < len(received):
            raise ValueError("expected another variable in each case of a Select that receives")
        slots = {
            "Channels": [channel for _, channel, _, _ in self._cases],
            "X": [variable for case, _, variable, _ in self._cases if case == "send"],
            "Before": received,
        }
        attrs = {"cases": [case for case, *_ in self._cases], "has_default": self._default is not None}
        helper.append_op("select", slots, {"CaseToExecute": chosen, "Out": received}, attrs)
        blocks = [block for *_, block in self._cases] + ([] if self._default is None else [self._default])
        for number, block in enumerate(blocks):
            if block.ops:
                holds = helper.create_variable_for_type_inference("bool", stop_gradient=True)
                helper.append_op("equal", {"X": chosen, "Y": helper.constant([1], "int32", number)}, {"Out": holds})
                append = self._program.current_block().append_op
                append("conditional_block", {"Cond": holds}, {}, {"sub_block": block, "is_scalar_condition": True})


__dir__ = listed(__name__)
