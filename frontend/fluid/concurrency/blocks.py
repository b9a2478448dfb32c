"""`Go` and `Select`: blocks of operators that run at the same time, or of which one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from polyreme.fluid import unique_name
from polyreme.fluid.concurrency.channels import channel_recv, channel_send, checked_channel, variable_received, variable_sent
from polyreme.fluid.framework import default_main_program
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.names import listed
from polyreme.static.nested.uses import names_from_outside
from polyreme.static.variable import Variable
from polyreme.utils.shown import Shown

__all__ = ["Go", "Select"]


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


class Go(Shown):
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


class Select(Shown):
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
        variable = variable_sent(checked_channel(channel), value) if sends else variable_received(checked_channel(channel), value)
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
                parent = self._program.current_block()
                reads, writes = names_from_outside(block)
                scopes = parent.create_var(unique_name.generate("_generated_var"))
                runs = {"sub_block": block, "is_scalar_condition": True}
                parent.append_op("conditional_block", {"Cond": holds, "Input": reads}, {"Out": writes, "Scope": [scopes]}, runs)


__dir__ = listed(__name__)
