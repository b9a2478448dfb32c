"""`go`, `channel_create`, `channel_send`, `channel_recv`, `channel_close` and `select`: operators that the host runs, in a session.

A channel is a number, that of the session's channel.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from polyreme import dtypes
from polyreme.ir.diagnostics import check
from polyreme.ir.dims import Expr
from polyreme.ir.types import TensorType, i1, i32, i64
from polyreme.static.concurrency.channels import Action, current_session
from polyreme.static.kinds import NAMED_KINDS, Arrays, Host
from polyreme.static.nested.uses import block_of, names_from_outside
from polyreme.static.operator import Operator, OperatorError
from polyreme.static.variable import Variable

__all__ = ["channel_dtype"]

_FLAG, _CHOICE, _CHANNEL = TensorType((1,), i1), TensorType((1,), i32), TensorType((1,), i64)


def channel_dtype(channel: Variable) -> str | None:
    """The dtype of what goes through a channel, by the operator that makes it; None where that says nothing."""
    for block in channel.block.program.blocks:
        for op in block.ops:
            if op.type == "channel_create" and channel.name in op.outputs["Out"]:
                return op.attrs["data_type"] or None
    return None


class ChannelKind(Host):
    """An operator on channels; what it takes and gives, by slot, and its attributes."""

    slots: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def attributes(self, op: Operator) -> Collection[str]:
        return self.names

    def optional(self, op: Operator) -> Collection[str]:
        return ("Before",)

    def callee(self, op: Operator) -> str:
        return op.type

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        raise NotImplementedError

    def check_slots(self, op: Operator) -> None:
        for slot in op.inputs:
            if slot not in self.slots:
                raise OperatorError(
                    f"expected the input slots {', '.join(self.slots) or '(none)'} of '{op.type}' but got '{slot}'", op.location, "E0606"
                )

    def check_value(self, op: Operator, channel: str, value: str) -> None:
        """That a variable has the dtype of a channel."""
        wanted = channel_dtype(op.block.var_recursive(channel))
        variable = op.block.var_recursive(value)
        if wanted is not None and variable.dtype.name != wanted:
            raise OperatorError(
                f"expected {wanted}, as goes through '{channel}', in '{op.type}' but '{value}' is {variable.dtype.name}",
                op.location,
                "E0606",
            )

    def one(self, op: Operator, slots: dict[str, list[str]], slot: str) -> str:
        if len(slots.get(slot, ())) != 1:
            raise OperatorError(
                f"expected one variable in '{slot}' of '{op.type}' but got {len(slots.get(slot, ()))}", op.location, "E0606"
            )
        return slots[slot][0]


class Create(ChannelKind):
    names = ("data_type", "capacity")

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        self.check_slots(op)
        capacity = op.attrs.setdefault("capacity", 0)
        check(isinstance(capacity, int) and capacity >= 0, f"expected a capacity of at least 0 but got {capacity!r}")
        op.attrs.setdefault("data_type", "")
        return {"Out": [_CHANNEL]}

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        named = op.attrs["data_type"]
        kind = dtypes.as_dtype(named).scalar.np if named else None
        return {"Out": [np.array([current_session().make(kind, op.attrs["capacity"], op.outputs["Out"][0])])]}


class Send(ChannelKind):
    slots = ("Channel", "X")

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        self.check_slots(op)
        self.check_value(op, self.one(op, op.inputs, "Channel"), self.one(op, op.inputs, "X"))
        return {"Status": [_FLAG]}

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        (channel,), (value,) = inputs["Channel"], inputs["X"]
        current_session().choose(op, [Action(int(channel.item()), value.copy())], False)
        return {"Status": [np.array([True])]}


class Receive(ChannelKind):
    slots = ("Channel", "Before")

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        self.check_slots(op)
        out = self.one(op, op.outputs, "Out")
        self.check_value(op, self.one(op, op.inputs, "Channel"), out)
        return {"Out": [op.block.var_recursive(out).type], "Status": [_FLAG]}

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        _, value, ok = current_session().choose(op, [Action(int(inputs["Channel"][0].item()))], False)
        return {"Out": [zero_of(op, op.outputs["Out"][0]) if value is None else value], "Status": [np.array([ok])]}


def zero_of(op: Operator, name: str) -> Any:
    """What is received from a closed channel: zeros; of free sizes there is one."""
    kind = op.block.var_recursive(name).type
    return np.zeros([1 if isinstance(d, Expr) else d for d in kind.shape], kind.dtype.np)


class Close(ChannelKind):
    slots = ("Channel",)

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        self.check_slots(op)
        self.one(op, op.inputs, "Channel")
        return {}

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        current_session().close(int(inputs["Channel"][0].item()), op)
        return {}


class Choose(ChannelKind):
    """`select`: `cases` says for each case "send" or "recv"; `Channels` has their channels, `X` what is sent, `Out` what is received into,
    which keeps its value (`Before`) unless that case is chosen. `CaseToExecute` is the chosen one, or their number for the default.
    """

    slots = ("Channels", "X", "Before")
    names = ("cases", "has_default")

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        self.check_slots(op)
        cases, channels = op.attrs.get("cases", []), op.inputs.get("Channels", [])
        sent, received = iter(op.inputs.get("X", [])), iter(op.outputs.get("Out", []))
        check(len(cases) == len(channels), f"expected a channel for each of {len(cases)} cases but got {len(channels)}")
        for case, channel in zip(cases, channels, strict=True):
            check(case in ("send", "recv"), f"expected 'send' or 'recv' in the cases of 'select' but got {case!r}")
            self.check_value(op, channel, next(sent if case == "send" else received))
        types = [op.block.var_recursive(name).type for name in op.outputs.get("Out", [])]
        return {"CaseToExecute": [_CHOICE], "Out": types}

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        cases: Sequence[str] = op.attrs["cases"]
        sent = iter(inputs.get("X", ()))
        actions = [
            Action(int(channel.item()), next(sent).copy() if case == "send" else None)
            for case, channel in zip(cases, inputs.get("Channels", ()), strict=True)
        ]
        chosen, value, _ = current_session().choose(op, actions, bool(op.attrs.get("has_default")))
        receiving = [i for i, case in enumerate(cases) if case == "recv"]
        outputs = []
        for index, name, before in zip(receiving, op.outputs.get("Out", ()), inputs.get("Before", ()), strict=True):
            found = value if index == chosen else before
            outputs.append(zero_of(op, name) if found is None else found)
        return {"CaseToExecute": [np.array([len(cases) if chosen is None else chosen], np.int32)], "Out": outputs}


class Go(ChannelKind):
    """Runs its block in a thread of its own."""

    slots = ("X",)
    names = ("sub_block",)

    def optional(self, op: Operator) -> Collection[str]:
        return ("X",)

    def reads(self, op: Operator) -> dict[str, list[str]]:
        return {"X": list(dict.fromkeys([*op.inputs.get("X", []), *names_from_outside(block_of(op))[0]]))}

    def writes(self, op: Operator) -> dict[str, list[str]]:
        return {"Out": names_from_outside(block_of(op))[1]}

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        self.check_slots(op)
        if op.block_attr("sub_block") == op.block.idx:
            raise OperatorError("expected another block as the attribute 'sub_block' of 'go'", op.location, "E0606")
        return {}


NAMED_KINDS.update(
    {
        "go": Go(), "channel_create": Create(), "channel_send": Send(), "channel_recv": Receive(), "channel_close": Close(),
        "select": Choose(),
    }
)  # fmt: skip
