"""`make_channel`, `channel_send`, `channel_recv` and `channel_close`: tensors from one Go block to another."""

from __future__ import annotations

from typing import Any

from polyreme import dtypes
from polyreme.fluid.core import VarDesc
from polyreme.fluid.framework import variables_of
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.names import listed
from polyreme.static.concurrency.kinds import channel_dtype
from polyreme.static.variable import Variable
from polyreme.tensor import Tensor

__all__ = ["channel_close", "channel_recv", "channel_send", "checked_channel", "make_channel", "variable_received", "variable_sent"]


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


def checked_channel(channel: Any) -> Variable:
    """The channel, or an error where it is none."""
    if not isinstance(channel, Variable):
        raise TypeError(f"expected a channel, as make_channel gives it, but got {type(channel).__name__}")
    return channel


def variable_sent(channel: Variable, value: Any) -> Variable:
    """The variable to send, of a variable or a number."""
    if isinstance(value, Tensor):
        return variables_of(value)[0]
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"expected a variable or a number to send but got {type(value).__name__}")
    made: Variable = LayerHelper("channel_send").constant([1], channel_dtype(channel) or "float32", value)
    return made


def variable_received(channel: Variable, return_value: Any) -> Variable:
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
    given = variable_sent(checked_channel(channel), value)
    status: Variable = helper.create_variable_for_type_inference("bool", stop_gradient=True)
    helper.append_op("channel_send", {"Channel": channel, "X": given}, {"Status": status})
    return status


def channel_recv(channel: Any, return_value: Any) -> tuple[Variable, Variable]:
    """Receive from a channel into the variable `return_value` (or a new one, of the dtype of that name): it, and a bool variable that says
    whether there was something. It waits until there is, or the channel is closed: then the value is 0.
    """
    helper = LayerHelper("channel_recv")
    out = variable_received(checked_channel(channel), return_value)
    status: Variable = helper.create_variable_for_type_inference("bool", stop_gradient=True)
    helper.append_op("channel_recv", {"Channel": channel}, {"Out": out, "Status": status})
    return out, status


def channel_close(channel: Any) -> None:
    """Close a channel: what it holds can be received still, and who waits for more gets nothing. Closing twice is an error."""
    LayerHelper("channel_close").append_op("channel_close", {"Channel": checked_channel(channel)}, {})


__dir__ = listed(__name__)
